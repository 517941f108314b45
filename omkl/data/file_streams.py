"""What all readers of files have in common: the format they declare, many files, records that are left out."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from omkl._components import Component
from omkl.data.files import PathLike, find_files, is_pipe
from omkl.data.rows import Block
from omkl.data.streams import Stream, check_block_size, regrouped
from omkl.exceptions import DamagedFileError, DataFileError, DataWarning, InputError, TruncatedFileError

#: Reasons that are kept when records are skipped.
N_REASONS = 10


@dataclass
class Skipped:
    """How many records were skipped so far, and why the first of them; or that none may be."""

    count: int = 0
    reasons: list = field(default_factory=list)
    on_error: str = "skip"

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    def refuse(self, reason: str) -> None:
        """A record cannot be read: raise, or count it.

        Parameters
        ----------
        reason : str
            File, line and what is wrong.
        """
        if self.on_error == "raise":
            raise DataFileError(reason)
        self.note(1, [reason])

    def note(self, count: int, reasons: Sequence[str]) -> None:
        self.count += count
        self.reasons += reasons[: max(0, N_REASONS - len(self.reasons))]

    def clear(self) -> None:
        self.count, self.reasons = 0, []

    def warn(self, what: str, stacklevel: int) -> None:
        """Warn once if something was skipped; ``what`` is what one such thing is called."""
        if self.count:
            things = f"{self.count} {what}{'s were' if self.count > 1 else ' was'} skipped, the first at"
            warnings.warn(f"{things} {self.reasons[0]}", DataWarning, stacklevel=stacklevel + 1)


def check_on_error(on_error: str) -> None:
    if on_error not in ("raise", "skip"):
        raise InputError(f"on_error is 'raise' or 'skip', not {on_error!r}.")


class StreamFormat(Component):
    """A format of files that :func:`~omkl.data.open_stream` and the command line read.

    A subclass is found as soon as it is defined: by a name in ``aliases``, or by a suffix.

    Attributes
    ----------
    aliases : dict of str to dict
        What the format is called, ``{"name": {}}``.
    suffixes : tuple of str
        How names of files in the format end, compression aside, in small letters.
    holds : {"rows", "sequences", "trees"}
        What an example is: a row with one output, a labelled sequence, or a sentence with a tree.
    has_target : bool
        Whether it can be said where the outputs are.
    default_target : object
        Where they are, if they are asked for and it is not said.

    Examples
    --------
    >>> from pathlib import Path
    >>> class FixedWidth(StreamFormat):
    ...     aliases = {"fixed": {}}
    ...     suffixes = (".fixed",)
    ...     def open(self, path, width=8):
    ...         rows = [line.rstrip() for line in Path(path).read_text().splitlines()]
    ...         cells = [[float(row[i : i + width]) for i in range(0, len(row), width)] for row in rows]
    ...         return Stream.from_iterable([(row[:-1], row[-1]) for row in cells])
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[str] = "rows"
    has_target: ClassVar[bool] = False
    default_target: ClassVar[Any] = None

    def open(self, path: Any, **options: Any) -> Stream:
        """The stream.

        Parameters
        ----------
        path : path-like or list of path-like
        **options
            ``target``, where the format :attr:`has_target` and it is given; and what else the format takes.
        """
        raise self.undefined("open")

    def options_for(
        self, n_features: int | None, names: Sequence[str] | None, text: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Options that ask for the columns that a model has learned from; none where a format cannot choose columns.

        Parameters
        ----------
        n_features : int or None
            How many there were, if inputs were rows of numbers.
        names : sequence of str or None
            What they were called, if they had names.
        text : sequence of str
            Those that were text.
        """
        return {}


def stream_files(
    path: PathLike | Sequence[PathLike], read: Callable[[Path, Skipped], Iterator[Block]], *, block_size: int,
    on_error: str, noun: str = "example", feature_names: Sequence[str] | None = None,
) -> Stream:  # fmt: skip
    """A stream over files. Where columns have names, those of all files are brought into the order of the first.

    Parameters
    ----------
    path : path-like or list of path-like
        What :func:`~omkl.data.files.find_files` takes.
    read : callable
        ``read(path, skipped)`` yields the blocks of a file, of any size, and gives records that are wrong to
        ``skipped.refuse``.
    block_size : int
    on_error : {"raise", "skip"}
    noun : str
        What an example is called in messages.
    feature_names : sequence of str, optional
        What columns are called, where that is known before a file is read.

    Returns
    -------
    Stream
        There can be one pass only if one of the files is a pipe.
    """
    check_block_size(block_size)
    paths, skipped = find_files(path), Skipped(on_error=on_error)
    pipes = [path for path in paths if is_pipe(path)]
    n_passes = 0

    def passes(epoch: int) -> Iterator[Block]:
        nonlocal n_passes
        n_passes += 1
        if pipes and n_passes > 1:
            raise InputError(f"{pipes[0]} is a pipe, which can be passed over only once: write it into a file, or set "
                             "epochs=1.")  # fmt: skip
        return regrouped(_blocks(paths, read, skipped, noun, feature_names), block_size)

    return Stream(passes, block_size, skipped, once=bool(pipes), feature_names=feature_names)


def _blocks(
    paths: Sequence[Path], read: Callable[[Path, Skipped], Iterator[Block]], skipped: Skipped, noun: str,
    names: Sequence[str] | None,
) -> Iterator[Block]:  # fmt: skip
    skipped.clear()
    n_examples = 0
    for path in paths:
        n_before = n_examples
        try:
            for block in read(path, skipped):
                if block.n_examples:
                    n_examples += block.n_examples
                    names = block.feature_names if names is None else names
                    yield block.aligned(names, str(path))
        except DamagedFileError as error:
            what = "cut short" if isinstance(error, TruncatedFileError) else "damaged"
            place = f"{path}, after {n_examples - n_before} {noun}s: the file is {what}"
            if skipped.on_error == "raise":
                advice = "get it again, or leave the rest of it out with on_error='skip'"
                raise type(error)(f"{place}: {advice}.") from None
            # a compressed file cannot be taken up again behind the damage
            skipped.note(1, [f"{place}, and the rest of it is left out."])
    if not n_examples:
        why = f" that can be read: {skipped.reasons[0]}" if skipped.count else ": it needs at least one."
        files = f"{paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        raise DataFileError(f"{files} holds no {noun}{why}")
    skipped.warn("record", stacklevel=2)
