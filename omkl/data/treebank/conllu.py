"""Readers and writers of treebanks in CoNLL-U, CoNLL-X and CoNLL-2008, and of plain text."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice, pairwise
from typing import Any

import numpy as np

from omkl._components import check_choice, warn_caller
from omkl.data.blocks import Block
from omkl.data.files import (
    FileName,
    PathLike,
    Paths,
    chunks,
    find_files,
    output_file,
    pieces,
    text_lines,
)
from omkl.data.streams import BLOCK_SIZE, Skipped, Stream, stream_files
from omkl.data.treebank import _jit_conllu as jit
from omkl.data.treebank import layouts
from omkl.data.treebank.layouts import COLUMNS, FIELDS, LAYOUTS
from omkl.data.treebank.strings import MISSING, Strings
from omkl.data.treebank.treebank import Treebank, new_strings
from omkl.exceptions import DataFileError, DataWarning, InputError

#: Number of bytes to parse at a time.
PIECE_SIZE = 1 << 20


def read_treebank(
    path: Paths,
    *,
    format: str | None = None,
    on_error: str = "raise",
    single_root: bool = False,
    trees: bool | str = True,
    strings: dict[str, Strings] | None = None,
    keep_text: bool = True,
) -> Treebank:
    """Read one or several files into one treebank.

    Parameters
    ----------
    path : path-like or list of path-like
    format, on_error, single_root, trees, strings, keep_text
        See :func:`~omkl.data.stream_conllu`, which raises the same errors and warnings.

    Returns
    -------
    Treebank
        The sentences of all files.
    """
    reader = TreebankReader(format, trees, single_root, new_strings(strings), keep_text)
    stream = stream_files(
        find_files(path), reader, block_size=sys.maxsize, on_error=on_error, noun="sentence"
    )
    return stream.read().X


def stream_conllu(
    path: Paths,
    *,
    format: str | None = None,
    on_error: str = "raise",
    single_root: bool = False,
    trees: bool | str = True,
    strings: dict[str, Strings] | None = None,
    keep_text: bool = False,
    block_size: int = BLOCK_SIZE,
) -> Stream:
    """Stream treebanks: CoNLL-U, CoNLL-X and CoNLL-2008.

    Parameters
    ----------
    path : path-like or list of path-like
        Files in UTF-8, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern.
    format : {"conllu", "conllx", "conll2008"}, optional
        By default guessed from the suffix (``.conllu``, ``.conllx``, ``.conll06``, ``.conll07``,
        ``.conll08``, ``.conll2008``), or from the first word line. In CoNLL-2008, words are the
        parts of split tokens. UPOS and XPOS are both the predicted tag (PPOSS), or the gold tag
        (GPOS) if there is no predicted one.
    on_error : {"raise", "skip"}
        Treatment of invalid sentences. Skipped sentences are counted in ``skipped``, and a warning
        at the end of a pass gives their number. A truncated or damaged compressed file is read up
        to the damage.
    single_root : bool
        Whether a tree must have exactly one root.
    trees : bool, "given" or "partial"
        Whether heads must form a tree: each head is a word of the sentence or 0, without cycles.
        ``"given"`` also accepts sentences without any heads, and ``"partial"`` sentences with some
        missing heads. False accepts any heads.
    strings : dict of str to Strings, optional
        Tables of another treebank, to share and extend. Codes are the same in every pass.
    keep_text : bool
        Whether to keep the text, with comments, multiword tokens, empty nodes and all columns, for
        writing.
    block_size : int
        Number of sentences in a block.

    Returns
    -------
    Stream
        X is a Treebank, with heads and relations; y is None.

    Raises
    ------
    omkl.exceptions.DataFileError
        If a file is missing; during a pass, if a file is damaged, if there are no sentences, or at
        the first sentence with a wrong number of columns, ids out of order, heads that are not a
        tree, or bytes that are not UTF-8. The message names file and line.
    omkl.exceptions.InputError
        If an argument is invalid.
    """
    reader = TreebankReader(format, trees, single_root, new_strings(strings), keep_text)
    return stream_files(
        find_files(path), reader, block_size=block_size, on_error=on_error, noun="sentence"
    )


def iter_words(path: PathLike, block_size: int = 5 * BLOCK_SIZE) -> Iterator[Treebank]:
    """Read tokenized sentences from a text file, one per line, in blocks that share their strings.

    Parameters
    ----------
    path : path-like
        A file in UTF-8, plain or compressed (``.gz``, ``.xz``, ``.bz2``). Words are separated by
        spaces or tabs; empty lines are ignored.
    block_size : int
        Number of sentences in a block.

    Yields
    ------
    Treebank
        All columns but the forms are empty. ``text`` is CoNLL-U with comments ``# sent_id`` (from
        1) and ``# text``.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, damaged or not UTF-8, or has no words.
    """
    reader = reader_of_words()
    # bytes.split keeps other whitespace of Unicode, which may be parts of words
    words_of_lines = (line.encode().split() for _, line in text_lines(path))
    sentences = enumerate(filter(None, words_of_lines), 1)
    empty_columns = b"\t_" * 8
    number = 0
    while block := list(islice(sentences, block_size)):
        texts = []
        for number, words in block:
            rows = [b"%d\t%b%b\n" % (i, word, empty_columns) for i, word in enumerate(words, 1)]
            comments = b"# sent_id = %d\n# text = %b\n" % (number, b" ".join(words))
            texts.append(comments + b"".join(rows) + b"\n")
        yield reader.parse(b"".join(texts), "conllu", path, 0, Skipped(on_error="raise"))
    if not number:
        raise DataFileError(
            f"{path} holds no word: write one sentence a line, words separated by spaces."
        )


@dataclass(frozen=True)
class TreebankReader:
    """Reader of one file at a time; see :func:`stream_conllu` for the parameters."""

    format: str | None
    trees: bool | str
    single_root: bool
    strings: dict[str, Strings]
    keep_text: bool = False

    def __post_init__(self) -> None:
        check_choice("trees", self.trees, layouts.MODES)
        check_choice("format", self.format, (*LAYOUTS, None))

    def __call__(self, path: FileName, skipped: Skipped) -> Iterator[Block]:
        """Read a file in blocks; call ``skipped.refuse`` for invalid sentences."""
        n_lines = 0
        format = self.format
        for piece in pieces(chunks(path), PIECE_SIZE, layouts.last_boundary):
            format = format or layouts.find_format(path, piece)
            yield Block(self.parse(piece, format, path, n_lines, skipped))
            n_lines += piece.count(b"\n")

    def parse(
        self, text: bytes, format: str, path: PathLike, n_before: int, skipped: Skipped
    ) -> Treebank:
        """Parse a piece of a file after its first ``n_before`` lines.

        The tables of ``strings`` grow by those of valid sentences only.
        """
        scanned = _Scanned(text, LAYOUTS[format])
        bad = layouts.bad_trees(
            scanned.offsets(jit.N_WORDS), scanned.heads, self.trees, self.single_root
        )
        scanned.sentences[bad, jit.ERROR] = jit.NO_TREE
        scanned.check_encoding()
        is_valid = scanned.sentences[:, jit.ERROR] == jit.FINE
        for i in np.flatnonzero(~is_valid).tolist():
            line, reason = scanned.explain(i, self.trees, self.single_root)
            skipped.refuse(f"{path}, line {n_before + line}: {reason}")
        if not is_valid.all():
            bounds = pairwise(scanned.offsets(jit.TEXT_END).tolist())
            texts = [scanned.text[begin:end] for begin, end in compress(bounds, is_valid)]
            scanned = _Scanned(b"".join(texts), scanned.layout)
        columns: dict[str, Any] = {
            "offsets": scanned.offsets(jit.N_WORDS),
            "heads": scanned.heads.copy(),
        }
        for name in FIELDS:
            columns[name] = self._codes(scanned, name)
        if self.keep_text:
            columns["text"] = scanned.text
            columns["text_offsets"] = scanned.offsets(jit.TEXT_END)
            columns["format"] = format
        return Treebank(strings=self.strings, **columns)

    def _codes(self, scanned: _Scanned, name: str) -> np.ndarray:
        """Return the codes (n_words,) of a field; formats without XPOS have UPOS in its place."""
        is_copy = name == "xpos" and name not in scanned.layout.columns
        row = FIELDS.index("upos" if is_copy else name)
        starts = np.ascontiguousarray(scanned.starts[row])
        lengths = np.ascontiguousarray(scanned.lengths[row])
        return self.strings[name].intern(scanned.data, starts, lengths)


def reader_of_words() -> TreebankReader:
    """Return a reader of sentences in CoNLL-U without trees, which keeps their text."""
    return TreebankReader(
        format="conllu",
        trees=False,
        single_root=False,
        strings=new_strings(),
        keep_text=True,
    )


class _Scanned:
    """Positions of the words and sentences of a text: the output arrays of ``_jit_conllu.scan``.

    Attributes
    ----------
    starts, lengths : int32 arrays (n_fields, n_words)
        Fields of words in the text.
    heads : int32 array (n_words,)
    sentences : int64 array (n_sentences, 5)
        Its columns are constants of ``layouts``.
    """

    def __init__(self, text: bytes, layout: layouts.Layout) -> None:
        # the empty line that ends the last sentence may be missing
        if not text.endswith((b"\n\n", b"\n\r\n")):
            newline = b"\r\n" if b"\r\n" in text else b"\n"
            if not text.endswith(b"\n"):
                text += newline
            if text.strip():
                text += newline
        self.text = text
        self.layout = layout
        self.data = np.frombuffer(text, np.uint8)
        n_lines = text.count(b"\n")
        starts = np.empty((len(FIELDS), n_lines), np.int32)
        lengths = np.empty((len(FIELDS), n_lines), np.int32)
        heads = np.empty(n_lines, np.int32)
        sentences = np.empty((n_lines, jit.N_OF_SENTENCE), np.int64)
        n_sentences = jit.scan(
            self.data, layout.roles, layout.max_columns, starts, lengths, heads, sentences
        )
        self.sentences = sentences[:n_sentences]
        n_words = self.offsets(jit.N_WORDS)[-1]
        self.starts = starts[:, :n_words]
        self.lengths = lengths[:, :n_words]
        self.heads = heads[:n_words]

    def offsets(self, column: int) -> np.ndarray:
        """Return the bounds of sentences, in words, bytes or lines: 0, then the end of each."""
        return np.concatenate([[0], self.sentences[:, column]])

    def explain(self, i: int, trees: bool | str, single_root: bool) -> tuple[int, str]:
        """Return the invalid line of sentence ``i``, from 1 in this text, and the reason."""
        begin, end = self.offsets(jit.TEXT_END)[i : i + 2]
        first_line = int(self.offsets(jit.N_LINES)[i]) + 1
        text = self.text[begin:end].decode("utf-8", "backslashreplace")
        lines = [line.rstrip("\r") for line in text.split("\n")]
        wrong = int(self.sentences[i, jit.ERROR])
        if wrong == jit.NO_TREE:
            line, reason = self._explain_tree(lines, trees, single_root)
            return first_line + line, reason
        wrong_line = int(self.sentences[i, jit.ERROR_LINE])
        cells = lines[wrong_line - first_line].split("\t")
        return wrong_line, self._explain_line(wrong, cells)

    def _explain_tree(
        self, lines: list[str], trees: bool | str, single_root: bool
    ) -> tuple[int, str]:
        """Return the position of the line of a sentence with a wrong head, and the reason."""
        head_column = self.layout.columns.index("heads")
        lines_of_words = []
        heads = []
        for k, line in enumerate(lines):
            if re.match(r"[0-9]+(\t|$)", line):
                head = line.split("\t")[head_column]
                lines_of_words.append(k)
                heads.append(jit.NO_HEAD if head == MISSING else int(head))
        word, reason = layouts.explain_heads(heads, trees, single_root)
        return lines_of_words[word - 1], reason

    def _explain_line(self, wrong: int, cells: list[str]) -> str:
        """Describe an error of a line, by its code."""
        if wrong == jit.BAD_COLUMNS:
            layout = self.layout
            needed = "10" if layout.max_columns == 10 else "at least 10, as many in all lines,"
            return f"{len(cells)} columns, but {layout.title} has {needed} separated by tabs."
        if wrong == jit.BAD_ID:
            return f"the id {cells[0]!r} is out of order; an empty line ends a sentence."
        if wrong == jit.BAD_HEAD:
            head_column = self.layout.columns.index("heads")
            head = cells[head_column] if head_column < len(cells) else ""
            return f"the head {head!r} is not the number of a word, 0 or '_'."
        if wrong == jit.NOT_UTF8:
            return "not UTF-8 text."
        return "the sentence has no words, only empty nodes."

    def check_encoding(self) -> None:
        """Mark sentences that are not UTF-8 as invalid."""
        bounds = self.offsets(jit.TEXT_END)
        n_checked = 0
        while n_checked < bounds[-1]:
            try:
                str(memoryview(self.text)[n_checked:], "utf-8")
                return
            except UnicodeDecodeError as error:
                wrong_byte = n_checked + error.start
            i = int(np.searchsorted(bounds, wrong_byte, side="right")) - 1
            n_lines = self.text.count(b"\n", int(bounds[i]), wrong_byte)
            self.sentences[i, jit.ERROR] = jit.NOT_UTF8
            self.sentences[i, jit.ERROR_LINE] = self.offsets(jit.N_LINES)[i] + n_lines + 1
            n_checked = int(bounds[i + 1])


# ---- writing -------------------------------------------------------------------------------------


def write_treebank(path: PathLike, treebank: Treebank | Iterable[Treebank]) -> None:
    """Write a treebank with its original text, except for changed columns.

    Comments, multiword tokens, empty nodes, other columns, line ends and the format are kept. To
    change columns, see :meth:`~omkl.data.Treebank.with_column`. Treebanks without text (made in
    Python, or read with ``keep_text=False``) are written as CoNLL-U. If heads change by
    :meth:`~omkl.data.Treebank.with_column`, columns that depend on them are not updated: the
    enhanced dependencies (DEPS) of CoNLL-U, and PHEAD and PDEPREL of CoNLL-X. If a parser or
    :meth:`~omkl.data.Treebank.with_trees` has replaced the trees, these columns and the empty nodes
    are removed, with a warning. An existing file is replaced only after everything is written.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; ``"-"`` is standard output.
    treebank : Treebank or iterable of Treebank
        Blocks are written one after the other.

    Raises
    ------
    omkl.exceptions.InputError
        If there are no sentences, or the format has no column for a changed column.
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    """
    n_sentences = 0
    if isinstance(treebank, Treebank):
        treebank = [treebank]
    with output_file(path) as file:
        for block in treebank:
            file.write(as_text(block))
            n_sentences += len(block)
        if not n_sentences:
            raise InputError(f"There is no sentence to write to {path}.")


def as_text(treebank: Treebank) -> bytes:
    """Return the text with changed columns; raises InputError if the format has no place for one.

    A DataWarning tells that something of old trees is removed; see
    :meth:`~omkl.data.Treebank.with_trees`.
    """
    text = treebank.text
    layout = LAYOUTS[treebank.format]
    names = treebank.changed.intersection([*COLUMNS, *layout.columns])
    if text is None:
        text = _empty_conllu(treebank)
        layout = LAYOUTS["conllu"]
        names = frozenset(COLUMNS)
    if not names or not text:
        return text
    homeless = [name for name in COLUMNS if name in names and layout.columns.count(name) != 1]
    if homeless:
        raise InputError(
            f"{layout.title} has no place for new {', '.join(homeless)}: "
            "convert the file to CoNLL-U."
        )
    if not names.isdisjoint(layouts.COLUMNS_OF_OLD_TREES):
        text = _without_empty_nodes(text, layout)
    return _with_fields(text, layout, treebank, sorted(names))


def _empty_conllu(treebank: Treebank) -> bytes:
    """Return CoNLL-U text of the words of a treebank whose columns, but the first, are ``_``."""
    empty_columns = "\t_" * (len(LAYOUTS["conllu"].columns) - 1)
    lines = []
    for length in treebank.lengths.tolist():
        lines += [f"{number}{empty_columns}" for number in range(1, length + 1)]
        lines.append("")
    return "".join(f"{line}\n" for line in lines).encode()


def _with_fields(
    text: bytes, layout: layouts.Layout, treebank: Treebank, names: Sequence[str]
) -> bytes:
    """Replace the columns ``names`` of all words in a text by those of a treebank."""
    columns = [layout.columns.index(name) for name in names]
    rows = np.full(max(columns) + 1, jit.NO_ROLE)
    rows[columns] = np.arange(len(columns))
    # the strings of all tables follow each other in one table
    codes = []
    strings = []
    bounds = []
    n_strings = 0
    n_bytes = 0
    for name in names:
        codes_of_column, table = _coded(treebank, name)
        data, offsets = table.to_bytes()
        codes.append(codes_of_column + n_strings)
        strings.append(data)
        bounds.append(offsets[:-1] + n_bytes)
        n_strings += len(table)
        n_bytes += len(data)
    bounds.append(np.array([n_bytes]))
    all_codes = np.stack(codes).astype(np.int64)
    all_bounds = np.concatenate(bounds)
    out = np.empty(len(text) + int(np.diff(all_bounds)[all_codes].sum()), np.uint8)
    size = jit.replace_fields(
        np.frombuffer(text, np.uint8), rows, all_codes, np.concatenate(strings), all_bounds, out
    )
    return out[:size].tobytes()


def _without_empty_nodes(text: bytes, layout: layouts.Layout) -> bytes:
    """Remove the empty nodes of a text that gets new trees.

    Warn if it holds these, or other columns that belong to its old trees.
    """
    if re.search(b"^(?:" + layout.pattern_of_old_trees + b")", text, re.MULTILINE) is None:
        return text
    warn_caller(
        f"Old {layout.text_on_old_trees} are removed: they do not belong to the new trees.",
        DataWarning,
    )
    return re.sub(rb"^[0-9]+\.[^\n]*\n", b"", text, flags=re.MULTILINE)


def _coded(treebank: Treebank, name: str) -> tuple[np.ndarray, Strings]:
    """Return the codes of a column of all words, and their table."""
    if name in layouts.COLUMNS_OF_OLD_TREES:
        return np.zeros(treebank.n_words, np.int32), Strings()
    if name == "heads":
        numbers = range(treebank.heads.max(initial=-1) + 1)
        return np.maximum(treebank.heads, -1) + 1, Strings(map(str, numbers))
    return treebank.codes(name), treebank.strings[name]
