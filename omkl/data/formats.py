"""A stream of any file, by its name."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

# each of these declares a format, or several
from omkl._components import resolve
from omkl.data import array_files, csv_files, sequences, tables, treebank_reader  # noqa: F401
from omkl.data.file_streams import StreamFormat
from omkl.data.files import PathLike, find_files, stem
from omkl.data.streams import Stream
from omkl.data.svmlight import Svmlight
from omkl.exceptions import InputError


def open_stream(
    path: PathLike | Sequence[PathLike], format: str | StreamFormat | None = None, target: Any = None, **options: Any
) -> Stream:
    """Stream a file of any format.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern; or URLs, as
        ``"https://example.org/train.csv.gz"`` and ``"s3://bucket/sales/*.parquet"``, which fsspec reads.
    format : str or StreamFormat, optional
        ``"svmlight"``, ``"csv"``, ``"parquet"`` (and what Arrow writes itself), ``"npz"``, ``"npy"``, ``"conllu"``
        (treebanks), ``"jsonl"`` or ``"crfsuite"`` (labelled sequences), or a :class:`StreamFormat` of your own. By
        default the one whose suffix the first file has, and svmlight where its name says nothing, as those of
        LIBSVM's data sets.
    target : optional
        Where the outputs are: the name or place of a column (``csv``, ``parquet``), the name of an array (``npz``),
        or a second file (``npy``). The other formats know.
    **options
        What the reader of the format takes, such as ``n_features``, ``block_size`` and ``on_error``.

    Returns
    -------
    Stream

    Raises
    ------
    omkl.exceptions.InputError
        If there is no such format, or it does not take an option.
    """
    found = find_format(path, format)
    if target is not None:
        if not found.has_target:
            name = next(iter(found.aliases))
            raise InputError(f"A file read as {name} holds its outputs in places of their own: leave target= out.")
        options["target"] = target
    try:
        return found.open(path, **options)
    except TypeError as error:
        name, unknown = next(iter(found.aliases)), re.search(r"unexpected keyword argument '(\w+)'", str(error))
        told = f"{name}, for which there is no {unknown[1]}=" if unknown else f"{name}: {error}"
        raise InputError(f"{find_files(path)[0]} is read as {told}.") from None


def find_format(path: PathLike | Sequence[PathLike], format: str | StreamFormat | None = None) -> StreamFormat:
    """The format that :func:`open_stream` reads a file in: the given one, else what its name says."""
    if format is not None:
        return resolve(StreamFormat, format, "format")
    name = stem(find_files(path)[0]).lower()
    return next((cls for cls in _formats(StreamFormat) if name.endswith(cls.suffixes)), Svmlight)()


def _formats(base: type[StreamFormat]) -> Iterator[type[StreamFormat]]:
    for cls in base.__subclasses__():
        yield cls
        yield from _formats(cls)
