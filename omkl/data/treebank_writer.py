"""Writing treebanks: the text they were read from, with other heads and relations where they are given."""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from omkl.data._jit_treebank import splice
from omkl.data.files import PathLike, output_file
from omkl.data.strings import MISSING, Strings
from omkl.data.treebank import Treebank, closed, conllu_text
from omkl.data.treebank_formats import COLUMNS
from omkl.exceptions import InputError

#: Bytes of text that get new heads at a time.
STEP = 1 << 22
#: Characters that a head can have: 31 bits.
HEAD_SIZE = 10
#: Relations: strings, or codes and what they stand for.
Relations: TypeAlias = Sequence[str] | tuple[np.ndarray, Sequence[str] | Strings] | None


def write_treebank(
    path: PathLike, treebank: Treebank | Iterable[Treebank], heads: np.ndarray | None = None, deprels: Relations = None
) -> None:
    """Write a treebank, as it was read save for its heads and relations.

    Comments, multiword tokens, empty nodes, all other columns, line ends, byte order mark and a missing last line end
    are kept, byte for byte, and so is the format. Treebanks that have no text (made in Python, or read with
    ``keep_text=False``) are written in CoNLL-U. The file is replaced when all is written, or not at all.

    Other columns that depend on heads are left as they are: the enhanced dependencies (DEPS) of CoNLL-U, and PHEAD and
    PDEPREL of CoNLL-X, may not fit new heads.

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
        If there is no sentence, heads or relations are not as many as words, a head is not a word of its sentence, or
        a relation has a tab or a line break in it.
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    """
    done = 0
    with treebank_writer(path) as writer:
        for block in [treebank] if isinstance(treebank, Treebank) else treebank:
            words = slice(done, done + block.n_words)
            writer.write(block, None if heads is None else heads[words], _cut(deprels, words))
            done = words.stop
        for name, values in (("heads", heads), ("deprels", deprels if not _is_coded(deprels) else deprels[0])):
            if values is not None and len(values) != done:
                raise InputError(f"There are {len(values)} {name} for {done} words.")


@contextmanager
def treebank_writer(path: PathLike) -> Iterator["TreebankWriter"]:
    """Write blocks of a treebank as they are made: a context whose value has ``write(block, heads, deprels)``.

    The file takes its place when the context is left without an error. See :func:`write_treebank`.

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
    """Writes blocks of a treebank to an open file.

    Parameters
    ----------
    file : file of bytes
    """

    def __init__(self, file: Any) -> None:
        self.file = file
        #: The text of the last sentence so far.
        self.last: bytes | None = None

    def write(self, block: Treebank, heads: np.ndarray | None = None, deprels: Relations = None) -> None:
        """Write a block; heads and relations are those of its words, as :func:`write_treebank` has them."""
        if not len(block):
            return
        heads = _as_heads(heads, block)
        deprels, table = _as_codes(deprels, block.n_words)
        self._begin(block)
        if block.text is None or block.text_offsets is None:
            self._write_made(block, heads, deprels, table)
            return
        self.last = block.text[block.text_offsets[-2] :]
        if not len(heads) and not len(deprels):
            self.file.write(block.text)
            return
        for low, high in _steps(block.text_offsets):
            self.file.write(_spliced(block, low, high, heads, deprels, *table.to_bytes()))

    def write_annotated(self, block: Treebank, columns: Sequence[str], comments: Sequence[str] = ()) -> None:
        """Write a block of which some columns are new, those named; all else is written as it was read.

        Parameters
        ----------
        block : Treebank
        columns : sequence of str
        comments : sequence of str
            Lines to write before the block, each after ``#`` and a space.

        Raises
        ------
        omkl.exceptions.InputError
            If the block was read from a file in CoNLL-2008, which has other columns, and any but heads and relations
            are new.
        """
        if not len(block):
            return
        if not comments and set(columns) <= {"heads", "deprels"}:
            relations = (block.deprels, block.strings["deprels"]) if "deprels" in columns else None
            self.write(block, block.heads if "heads" in columns else None, relations)
            return
        text = None if block.text is None else _annotated_text(block, columns)
        self._begin(block)
        newline = "\r\n" if text is not None and b"\r\n" in text else "\n"
        self.file.write("".join(f"# {line}{newline}" for line in comments).encode())
        if text is None:
            self._write_made(block, (), (), Strings())
            return
        self.last = text
        self.file.write(text)

    def _begin(self, block):
        """Close what was written before a block, or begin the file as that the block was read from."""
        if self.last is not None:
            self.file.write(closed(self.last)[len(self.last) :])
        elif block.bom:
            self.file.write(codecs.BOM_UTF8)

    def _write_made(self, block, heads, deprels, table):
        """Write sentences that have no text."""
        if len(heads):
            block = replace(block, heads=heads)
        if len(deprels):
            block = replace(block, deprels=deprels, strings={**block.strings, "deprels": table})
        for self.last in conllu_text(block):
            self.file.write(self.last)


def _annotated_text(block: Treebank, columns: Sequence[str]) -> bytes:
    """The text of a block with some of its columns in place of those it was read with."""
    layout = ("ids", *COLUMNS[:-1], "deps", COLUMNS[-1])
    new = [(layout.index(name), iter(_written(block, name))) for name in columns]
    lines = block.text.decode().split("\n") if block.text else []
    for number, line in enumerate(lines):
        fields = line.split("\t")
        if not fields[0].isdecimal():
            continue  # a comment, a multiword token, an empty node, or the end of a sentence
        if len(fields) != len(layout):
            raise InputError("Annotations are written in CoNLL-U or CoNLL-X only, of ten columns: convert the file.")
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


def _steps(text_offsets):
    """Runs of sentences of about :data:`STEP` bytes of text."""
    low = 0
    while low < len(text_offsets) - 1:
        high = int(np.searchsorted(text_offsets, text_offsets[low] + STEP))
        high = min(max(high, low + 1), len(text_offsets) - 1)
        yield low, high
        low = high


def _spliced(block, low, high, heads, deprels, names, name_offsets):
    """The text of sentences ``low`` to ``high - 1``, with new heads and relations."""
    bounds, offsets = block.text_offsets[low : high + 1], block.offsets[low : high + 1]
    words = slice(offsets[0], offsets[-1])
    text = np.frombuffer(block.text, np.uint8)[bounds[0] : bounds[-1]]
    heads, deprels = heads[words], deprels[words]
    size = len(text) + len(heads) * HEAD_SIZE + int(np.diff(name_offsets)[deprels].sum())
    out = np.empty(size, np.uint8)
    size = splice(
        text, bounds - bounds[0], offsets - offsets[0], block.head_starts[words], heads, deprels, names, name_offsets,
        out,
    )  # fmt: skip
    return memoryview(out)[:size]


def _as_heads(heads, block):
    """New heads as an array; empty for none."""
    if heads is None:
        return np.empty(0, np.int32)
    heads = np.asarray(heads)
    if heads.shape != (block.n_words,) or not np.issubdtype(heads.dtype, np.integer):
        raise InputError(
            f"heads must be an integer array of {block.n_words} words, not {heads.dtype} of shape {heads.shape}."
        )
    wrong = np.flatnonzero((heads < -1) | (heads > np.repeat(block.lengths, block.lengths)))
    if len(wrong):
        sentence = int(np.searchsorted(block.offsets, wrong[0], side="right")) - 1
        word = wrong[0] - block.offsets[sentence] + 1
        raise InputError(
            f"The new head {heads[wrong[0]]} of word {word} of sentence {sentence + 1} is out of range: "
            f"it must be 0 (the root) to {block.lengths[sentence]}, or -1 for none."
        )
    return np.ascontiguousarray(heads, np.int32)


def _is_coded(deprels: Relations) -> TypeGuard[tuple[Any, Any]]:
    return isinstance(deprels, tuple) and len(deprels) == 2 and not isinstance(deprels[0], str)


def _cut(deprels, words):
    return None if deprels is None else (deprels[0][words], deprels[1]) if _is_coded(deprels) else deprels[words]


def _as_codes(deprels, n_words):
    """New relations as codes, empty for none, and the table of their strings."""
    if deprels is None:
        return np.empty(0, np.int32), Strings()
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
    return np.ascontiguousarray(codes, np.int32), table
