"""Writing treebanks: the text that was read, with the columns that have changed."""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, TypeAlias, TypeGuard

import numpy as np

from omkl.data.files import PathLike, output_file
from omkl.data.treebank._jit_conllu import splice
from omkl.data.treebank.layouts import COLUMNS
from omkl.data.treebank.strings import MISSING, Strings
from omkl.data.treebank.treebank import Treebank, closed, conllu_text
from omkl.exceptions import InputError

#: Bytes of text that get new heads at a time.
STEP = 1 << 22
#: Columns that are spliced in.
TREES = ("heads", "deprels")
#: Characters that a head can have: 31 bits.
HEAD_SIZE = 10
#: Relations: strings, or codes and what they stand for.
Relations: TypeAlias = Sequence[str] | tuple[np.ndarray, Sequence[str] | Strings] | None


def write_treebank(
    path: PathLike, treebank: Treebank | Iterable[Treebank], heads: np.ndarray | None = None, deprels: Relations = None
) -> None:
    """Write a treebank as it was read, except for the columns that have changed.

    Comments, multiword tokens, empty nodes, other columns, line ends, byte order mark and a missing last line end are
    kept, byte for byte, and so is the format. Treebanks without a text (made in Python, or read with
    ``keep_text=False``) are written in CoNLL-U. Columns that depend on heads, the enhanced dependencies (DEPS) of
    CoNLL-U and PHEAD and PDEPREL of CoNLL-X, may not fit new heads. The file is replaced when all is written.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz`` or ``.xz``.
    treebank : Treebank or iterable of Treebank
        Blocks are written one after the other, as they come.
    heads : int array (n_words,), optional
        New heads of all words: 0 is the root, -1 writes ``_``.
    deprels : list of str (n_words,) or (codes, strings), optional
        New relations of all words; as an int array, codes into a list of str or a :class:`~omkl.data.Strings`.

    Raises
    ------
    omkl.exceptions.InputError
        If there is no sentence, heads or relations are not as many as words, a head is not a word of its sentence, a
        relation contains a tab or a line break, or the format has no place for what has changed.
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    """
    done = 0
    with treebank_writer(path) as writer:
        for block in [treebank] if isinstance(treebank, Treebank) else treebank:
            words = slice(done, done + block.n_words)
            writer.write(block, None if heads is None else heads[words], _cut(deprels, words))
            done = words.stop
        for name, values in (("heads", heads), ("deprels", deprels[0] if _is_coded(deprels) else deprels)):
            if values is not None and len(values) != done:
                raise InputError(f"There are {len(values)} {name} for {done} words.")


@contextmanager
def treebank_writer(path: PathLike) -> Iterator["TreebankWriter"]:
    """Write blocks of a treebank as they are made; the file is replaced when the context ends without an error.

    Parameters
    ----------
    path : path-like
        ``"-"`` is standard output.

    Yields
    ------
    TreebankWriter
    """
    with output_file(path) as file:
        writer = TreebankWriter(file)
        yield writer
        if writer.last is None and path != "-":
            raise InputError(f"There is no sentence to write to {path}.")


class TreebankWriter:
    """Writer of blocks of a treebank to an open file.

    Parameters
    ----------
    file : file of bytes
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        #: The last bytes that were written.
        self.last: bytes | None = None

    def write(
        self, block: Treebank, heads: np.ndarray | None = None, deprels: Relations = None, comments: Sequence[str] = ()
    ) -> None:
        """Write a block as it was read, except for the columns that have changed.

        Parameters
        ----------
        block : Treebank
        heads, deprels
            See :func:`write_treebank`.
        comments : sequence of str
            Lines to write before the block, each after ``#`` and a space.

        Raises
        ------
        omkl.exceptions.InputError
            If a column has changed that the format of the block does not have.
        """
        if not len(block):
            return
        if heads is not None:
            block = block.with_column("heads", _as_heads(heads, block))
        if deprels is not None:
            block = block.with_column("deprels", *_as_codes(deprels, block.n_words))
        texts = _texts(block)
        if self.last is not None:
            self.file.write(closed(self.last)[len(self.last) :])
        elif block.bom:
            self.file.write(codecs.BOM_UTF8)
        newline = "\r\n" if block.text is not None and b"\r\n" in block.text else "\n"
        self.file.write("".join(f"# {line}{newline}" for line in comments).encode())
        for self.last in texts:
            self.file.write(self.last)


def _texts(block: Treebank) -> Iterable[bytes]:
    """The text of a block, in parts, with the columns that have changed."""
    if block.text is None or block.text_offsets is None:
        return conllu_text(block)
    if not block.changed:
        return [block.text]
    if block.changed <= set(TREES):
        return (_spliced(block, low, high) for low, high in _steps(block.text_offsets))
    return [_annotated_text(block)]


def _annotated_text(block: Treebank) -> bytes:
    """The text of a block of ten columns, with those that have changed."""
    places = {"CoNLL-U": COLUMNS, "CoNLL-X": COLUMNS[:-1]}.get(block.format, TREES)
    if lacking := [name for name in COLUMNS if name in block.changed and name not in places]:
        raise InputError(f"{block.format} has no place for new {', '.join(lacking)}: convert the file to CoNLL-U.")
    layout = ("ids", *COLUMNS[:-1], "deps", COLUMNS[-1])
    new = [(layout.index(name), iter(_written(block, name))) for name in block.changed]
    lines = (block.text or b"").decode().split("\n")
    for number, line in enumerate(lines):
        fields = line.split("\t")
        if not fields[0].isdecimal():
            continue  # a comment, a multiword token, an empty node, or the end of a sentence
        last = fields[-1].removesuffix("\r")
        end, fields[-1] = fields[-1][len(last) :], last
        for place, values in new:
            fields[place] = next(values)
        lines[number] = "\t".join(fields) + end
    return "\n".join(lines).encode()


def _written(block: Treebank, name: str) -> list[str]:
    """A column as it is written."""
    if name == "heads":
        return [MISSING if head < 0 else str(head) for head in block.heads.tolist()]
    strings = block.strings[name].tolist()
    return [strings[code] for code in getattr(block, name).tolist()]


def _steps(text_offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """Runs of sentences of about :data:`STEP` bytes of text."""
    low = 0
    while low < len(text_offsets) - 1:
        high = int(np.searchsorted(text_offsets, text_offsets[low] + STEP))
        high = min(max(high, low + 1), len(text_offsets) - 1)
        yield low, high
        low = high


def _spliced(block: Treebank, low: int, high: int) -> bytes:
    """The text of sentences ``low`` to ``high - 1``, with the heads and relations that have changed."""
    assert block.text is not None
    assert block.text_offsets is not None
    assert block.head_starts is not None
    bounds, offsets = block.text_offsets[low : high + 1], block.offsets[low : high + 1]
    words = slice(offsets[0], offsets[-1])
    text = np.frombuffer(block.text, np.uint8)[bounds[0] : bounds[-1]]
    heads, deprels = (getattr(block, name)[words if name in block.changed else slice(0)] for name in TREES)
    names, name_offsets = block.strings["deprels"].to_bytes()
    size = len(text) + len(heads) * HEAD_SIZE + int(np.diff(name_offsets)[deprels].sum())
    out = np.empty(size, np.uint8)
    places = bounds - bounds[0], offsets - offsets[0], block.head_starts[words]
    size = splice(text, *places, heads, deprels, names, name_offsets, out)
    return out[:size].tobytes()


def _as_heads(heads: Any, block: Treebank) -> np.ndarray:
    heads = np.asarray(heads)
    if heads.shape != (block.n_words,) or not np.issubdtype(heads.dtype, np.integer):
        raise InputError(
            f"`heads` must be an integer array of {block.n_words} words, got {heads.dtype} of shape {heads.shape}."
        )
    wrong = np.flatnonzero((heads < -1) | (heads > np.repeat(block.lengths, block.lengths)))
    if len(wrong):
        sentence = int(np.searchsorted(block.offsets, wrong[0], side="right")) - 1
        word = wrong[0] - block.offsets[sentence] + 1
        raise InputError(
            f"The new head {heads[wrong[0]]} of word {word} of sentence {sentence + 1} is out of range: "
            f"it must be 0 (the root) to {block.lengths[sentence]}, or -1 for none."
        )
    return heads


def _is_coded(deprels: Relations) -> TypeGuard[tuple[Any, Any]]:
    return isinstance(deprels, tuple) and len(deprels) == 2 and not isinstance(deprels[0], str)


def _cut(deprels: Any, words: slice) -> Relations:
    return None if deprels is None else (deprels[0][words], deprels[1]) if _is_coded(deprels) else deprels[words]


def _as_codes(deprels: Any, n_words: int) -> tuple[np.ndarray, Strings]:
    """New relations as codes, and the table of their strings."""
    if _is_coded(deprels):
        codes, table = np.asarray(deprels[0]), deprels[1]
        if not np.issubdtype(codes.dtype, np.integer) or (
            len(codes) and not 0 <= codes.min() <= codes.max() < len(table)
        ):
            raise InputError(f"The codes of deprels must be integers from 0 to {len(table) - 1}.")
        if not isinstance(table, Strings):
            names = list(table)
            table = Strings()
            codes = table.codes(names, grow=True)[codes]
    else:
        table = Strings()
        codes = table.codes(deprels, grow=True)
    if codes.shape != (n_words,):
        raise InputError(f"deprels must be one for each of {n_words} words, not {codes.size}.")
    if np.isin(table.to_bytes()[0], np.frombuffer(b"\t\r\n", np.uint8)).any():
        raise InputError("A relation has a tab or a line break in it: leave it out.")
    return codes, table
