"""Streams of treebanks."""

from collections.abc import Callable, Iterator, Sequence

from omkl.data.file_streams import Skipped, StreamFormat, stream_files
from omkl.data.files import PathLike
from omkl.data.layouts import SUFFIXES, check_format, new_strings
from omkl.data.rows import Block
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.data.strings import Strings
from omkl.data.treebank_checks import Checks
from omkl.data.treebank_reader import iter_file

#: Bytes of text that are parsed at a time.
PIECE = 1 << 20


def stream_conllu(
    path: PathLike | Sequence[PathLike], *, format: str | None = None, on_error: str = "raise",
    single_root: bool = False, trees: bool | str = True, strings: dict[str, Strings] | None = None,
    keep_text: bool = False, block_size: int = BLOCK_SIZE,
) -> Stream:  # fmt: skip
    """Stream treebanks: CoNLL-U, CoNLL-X and CoNLL-2008.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern.
    format, single_root, trees, strings, keep_text
        As :func:`~omkl.data.iter_treebank` has them. The tables of ``strings`` are the stream's own: they grow by the
        strings that are new, and a second pass finds the codes of the first.
    on_error : {"raise", "skip"}
        What to do with sentences that are wrong. Skipped ones are counted in ``skipped``, and a warning at the end of
        a pass says how many they were. A compressed file that is cut short or damaged is read up to there.
    block_size : int
        Sentences in a block.

    Returns
    -------
    Stream
        X is a Treebank, y is None: heads and relations are columns of it.

    Raises
    ------
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, as :func:`~omkl.data.iter_treebank` does.
    """
    read = treebank_blocks(format, Checks(trees, single_root, on_error == "skip"), new_strings(strings), keep_text)
    return stream_files(path, read, block_size=block_size, on_error=on_error, noun="sentence")


def treebank_blocks(
    format: str | None, checks: Checks, strings: dict[str, Strings], keep_text: bool = False
) -> Callable[[PathLike, Skipped], Iterator[Block]]:
    """What reads the blocks of a file for :func:`~omkl.data.file_streams.stream_files`."""
    check_format(format)
    parsing = {"strings": strings, "checks": checks, "keep_text": keep_text}

    def read(path, skipped):
        return (Block(treebank) for treebank in iter_file(path, format, PIECE, skipped, parsing))

    return read


class Conllu(StreamFormat):
    """Treebanks: see :func:`stream_conllu`."""

    aliases = {"conllu": {}}
    suffixes = tuple(SUFFIXES)
    holds = "trees"
    open = staticmethod(stream_conllu)  # type: ignore[assignment]  # options of its own
