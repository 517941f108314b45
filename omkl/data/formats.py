"""Registry of file formats, and streams of files of any format."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from omkl._components import Component, family, resolve
from omkl._messages import listed
from omkl.data.blocks import Block
from omkl.data.csv_files import stream_csv
from omkl.data.files import FileName, Paths, check_no_pipe, find_files, is_url, stem, unreadable
from omkl.data.sequences import SUFFIXES, stream_sequences
from omkl.data.streams import BLOCK_SIZE, Skipped, Stream, stream_files
from omkl.data.svmlight import stream_svmlight
from omkl.data.tables import stream_parquet
from omkl.data.treebank import layouts
from omkl.data.treebank.conllu import stream_conllu
from omkl.exceptions import DataFileError, InputError


class StreamFormat(Component):
    """Base class of file formats for :func:`~omkl.data.open_stream` and the command line.

    Defining a subclass registers it.

    Attributes
    ----------
    aliases : dict of str to dict
        Name of the format, ``{"name": {}}``.
    suffixes : tuple of str
        Suffixes of file names, lowercase, without the suffix of a compression.
    holds : {"rows", "sequences", "trees"}
        Kind of examples: rows with one output, labelled sequences, or sentences with trees.
    has_target : bool
        Whether ``open`` takes ``target``, the name or position of the outputs.
    default_target : int, optional
        Target for training and evaluation if none is given.
    selects : tuple of {"n_features", "columns", "categorical"}
        Options of ``open`` that select the columns of a model: number, names, and names of text
        columns.

    Examples
    --------
    >>> from pathlib import Path
    >>> class FixedWidth(StreamFormat):
    ...     aliases = {"fixed": {}}
    ...     suffixes = (".fixed",)
    ...     def open(self, path, width=8):
    ...         rows = [line.rstrip() for line in Path(path).read_text().splitlines()]
    ...         starts = range(0, len(rows[0]), width)
    ...         cells = [[float(row[i : i + width]) for i in starts] for row in rows]
    ...         return Stream.from_iterable([(row[:-1], row[-1]) for row in cells])
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[str] = "rows"
    has_target: ClassVar[bool] = False
    default_target: ClassVar[int | None] = None
    selects: ClassVar[tuple[str, ...]] = ()

    def open(self, path: Paths, **options: Any) -> Stream:
        """Open a stream.

        Parameters
        ----------
        path : path-like or list of path-like
        **options
            ``target``, if the format :attr:`has_target`, and other options of the format.

        Returns
        -------
        Stream
        """
        self.must_define("open")


def _format(
    name: str,
    suffixes: Iterable[str],
    open: Callable[..., Stream],
    **attributes: str | int | tuple[str, ...],
) -> type[StreamFormat]:
    """Make the class of a format from the function that opens a stream, and from its attributes."""
    members = {"aliases": {name: {}}, "suffixes": tuple(suffixes), "open": staticmethod(open)}
    return type(name, (StreamFormat,), {**members, **attributes})


#: The last column of a table is the target.
_TABLE: dict[str, int] = {"has_target": True, "default_target": -1}
_ARROW = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
#: The formats of this package. Files with unknown suffixes are read as the first one.
FORMATS = [
    _format("svmlight", (".svm", ".svmlight", ".libsvm"), stream_svmlight, selects=("n_features",)),
    _format("parquet", _ARROW, stream_parquet, selects=("columns",), **_TABLE),
    _format("csv", (".csv", ".tsv"), stream_csv, selects=("columns", "categorical"), **_TABLE),
    _format(
        "npz",
        (".npz",),
        lambda path, target="y", **options: stream_npz(path, y=target, **options),
        has_target=True,
    ),
    _format("conllu", layouts.SUFFIXES, stream_conllu, holds="trees"),
    *(
        _format(name, SUFFIXES[name], partial(stream_sequences, format=name), holds="sequences")
        for name in ("jsonl", "columns", "crfsuite")
    ),
]


def open_stream(
    path: Paths,
    format: str | StreamFormat | None = None,
    target: str | int | None = None,
    **options: Any,
) -> Stream:
    """Stream a file of any format.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern; or URLs
        (``"https://example.org/train.csv.gz"``, ``"s3://bucket/sales/*.parquet"``), which fsspec
        reads.
    format : str or StreamFormat, optional
        ``"svmlight"``, ``"csv"``, ``"parquet"`` (and Arrow), ``"npz"``, ``"conllu"`` (treebanks),
        ``"jsonl"``, ``"columns"`` or ``"crfsuite"`` (labelled sequences), or your own
        :class:`StreamFormat`. By default, the suffix of the first file decides; svmlight for
        unknown suffixes.
    target : optional
        Outputs: name or position of a column (``csv``, ``parquet``), or name of an array (``npz``).
    **options
        Options of the reader of the format, such as ``n_features``, ``block_size`` and
        ``on_error``.

    Returns
    -------
    Stream

    Raises
    ------
    omkl.exceptions.InputError
        If there is no such format, or the format does not take an option.
    """
    format = find_format(path, format)
    name = next(iter(format.aliases))
    if target is not None:
        if not format.has_target:
            raise InputError(f"The format {name} has a fixed place for outputs: leave target= out.")
        options["target"] = target
    try:
        return format.open(path, **options)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        reason = f", for which there is no {unknown[1]}=" if unknown else f": {error}"
        raise InputError(f"{find_files(path)[0]} is read as {name}{reason}.") from None


def find_format(path: Paths, format: str | StreamFormat | None = None) -> StreamFormat:
    """Find the format of a file.

    Parameters
    ----------
    path : path-like or list of path-like
    format : str or StreamFormat, optional
        By default, the suffix of the first file decides; svmlight for unknown suffixes.

    Returns
    -------
    StreamFormat
    """
    if format is not None:
        return resolve(StreamFormat, format, "format")
    name = stem(find_files(path)[0]).lower()
    for cls in family(StreamFormat):
        if cls.suffixes and name.endswith(cls.suffixes):
            return cls()
    return FORMATS[0]()


# ---- archives of NumPy ---------------------------------------------------------------------------


def stream_npz(
    path: Paths,
    *,
    X: str = "X",
    y: str = "y",
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream arrays from ``.npz`` files, compressed or not; one file at a time is held in memory.

    For larger arrays, pass memory maps to :meth:`Stream.from_arrays`: ``np.load("X.npy",
    mmap_mode="r")``.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, a directory, or a pattern.
    X, y : str
        Names of the arrays, which need equally many rows. With the default ``y``, files may have no
        outputs.
    block_size : int
        Number of examples in a block.
    on_error : {"raise", "skip"}
        "skip" leaves damaged files out, and counts them in ``skipped``.

    Returns
    -------
    Stream

    Raises
    ------
    omkl.exceptions.DataFileError
        If a file is missing; during a pass, if it is damaged or does not hold such arrays.
    """

    def read(path: FileName, skipped: Skipped) -> Iterator[Block]:
        check_no_pipe(path)
        if is_url(path):
            raise DataFileError(f"{path} is a URL: download the file, and give its path.")
        try:
            with np.load(path, allow_pickle=False) as archive:
                for info in archive.zip.infolist():
                    # checks that the archive's directory fits its data
                    archive.zip.open(info).close()
                names = archive.files
                arrays = {name: archive[name] for name in (X, y) if name in names}
        except Exception as error:  # damaged bytes lead to errors of any class
            raise unreadable(path, error, "archive of NumPy") from None
        required = [X] if y == "y" else [X, y]  # outputs with the default name may be absent
        absent = [name for name in required if name not in arrays]
        if absent:
            needs = f"an array {absent[0]!r}"
        else:
            needs = _missing_from(list(arrays.values()))
        if needs:
            raise DataFileError(f"{path} must hold {needs}; its arrays are {listed(names)}.")
        yield Block(arrays[X], arrays.get(y))

    return stream_files(find_files(path), read, block_size=block_size, on_error=on_error)


def _missing_from(arrays: Sequence) -> str:
    """Say what a file must hold, if its inputs and outputs do not; empty if they are fine."""
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufSU" or not array.ndim:
            return "arrays of numbers or strings in rows"
    lengths = list(map(len, arrays))
    if len(set(lengths)) > 1:
        return f"as many rows of inputs as of outputs, not {lengths[0]} and {lengths[1]}"
    if lengths[0] and not all(array.nbytes for array in arrays):
        return f"at least one column in each array of its {lengths[0]} rows"
    return ""
