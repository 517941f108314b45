"""Readers and writers of treebanks in CoNLL-U, CoNLL-X and CoNLL-2008, and a reader of plain text."""

import re
import sys
from collections.abc import Iterable, Iterator
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
from omkl.data.treebank.treebank import Treebank, new_strings, running_sum
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
    return (
        stream_files(
            find_files(path), reader, block_size=sys.maxsize, on_error=on_error, noun="sentence"
        )
        .read()
        .X
    )


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
    reader = TreebankReader("conllu", False, False, new_strings(), keep_text=True)
    # bytes.split keeps other whitespace of Unicode, which may be parts of words
    sentences = enumerate(filter(None, (line.encode().split() for _, line in text_lines(path))), 1)
    number = 0
    while block := list(islice(sentences, block_size)):
        texts = []
        for number, words in block:
            rows = b"".join(
                b"%d\t%b%b\n" % (i, word, b"\t_" * 8) for i, word in enumerate(words, 1)
            )
            texts.append(b"# sent_id = %d\n# text = %b\n%b\n" % (number, b" ".join(words), rows))
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
        n_lines, format = 0, self.format
        for piece in pieces(chunks(path), PIECE_SIZE, layouts.last_boundary):
            format = format or layouts.find_format(path, piece)
            yield Block(self.parse(piece, format, path, n_lines, skipped))
            n_lines += piece.count(b"\n")

    def parse(
        self, text: bytes, format: str, path: PathLike, n_before: int, skipped: Skipped
    ) -> Treebank:
        """Parse a piece of a file after its first ``n_before`` lines; ``strings`` grow by valid
        sentences only.
        """
        scanned = _Scanned(text, LAYOUTS[format])
        bad = layouts.bad_trees(
            scanned.ends(layouts.N_WORDS), scanned.heads, self.trees, self.single_root
        )
        scanned.sentences[bad, layouts.WRONG] = jit.NO_TREE
        scanned.check_encoding()
        good = scanned.sentences[:, layouts.WRONG] == jit.FINE
        for i in np.flatnonzero(~good).tolist():
            line, reason = scanned.explain(i, self.trees, self.single_root)
            skipped.refuse(f"{path}, line {n_before + line}: {reason}")
        if not good.all():
            bounds = pairwise(scanned.ends(layouts.TEXT_END).tolist())
            parts = [scanned.text[low:high] for low, high in compress(bounds, good)]
            scanned = _Scanned(b"".join(parts), scanned.layout)
        columns: dict[str, Any] = {
            "offsets": scanned.ends(layouts.N_WORDS),
            "heads": scanned.heads.copy(),
        }
        for name in FIELDS:
            same = FIELDS.index(
                "upos" if name == "xpos" and name not in scanned.layout.columns else name
            )
            starts, lengths = (
                np.ascontiguousarray(scanned.starts[same]),
                np.ascontiguousarray(scanned.lengths[same]),
            )
            columns[name] = self.strings[name].intern(scanned.data, starts, lengths)
        if self.keep_text:
            columns |= {
                "text": scanned.text,
                "text_offsets": scanned.ends(layouts.TEXT_END),
                "format": format,
            }
        return Treebank(strings=self.strings, **columns)


class _Scanned:
    """Positions of the words and sentences of a text: the output arrays of ``_jit_conllu.scan``."""

    def __init__(self, text: bytes, layout: layouts.Layout) -> None:
        if not text.endswith(
            (b"\n\n", b"\n\r\n")
        ):  # the empty line that ends the last sentence is missing
            newline = b"\r\n" if b"\r\n" in text else b"\n"
            text += b"" if text.endswith(b"\n") else newline
            text += newline if text.strip() else b""
        self.text, self.layout, self.data = text, layout, np.frombuffer(text, np.uint8)
        n_lines = text.count(b"\n")
        starts, lengths = np.empty((2, len(FIELDS), n_lines), np.int32)
        heads, sentences = np.empty(n_lines, np.int32), np.empty((n_lines, 5), np.int64)
        n_sentences = jit.scan(
            self.data, layout.roles, layout.most, starts, lengths, heads, sentences
        )
        self.sentences = sentences[:n_sentences]
        n = self.sentences[-1, layouts.N_WORDS] if n_sentences else 0
        self.starts, self.lengths, self.heads = starts[:, :n], lengths[:, :n], heads[:n]

    def ends(self, column: int) -> np.ndarray:
        """Return the bounds of sentences, in words, bytes or lines: 0, then the end of each."""
        return np.concatenate([[0], self.sentences[:, column]])

    def explain(self, i: int, trees: bool | str, single_root: bool) -> tuple[int, str]:
        """Return the invalid line of sentence ``i``, counted from 1 in this text, and the reason."""
        begin, end = self.ends(layouts.TEXT_END)[i : i + 2]
        first_line = int(self.ends(layouts.N_LINES)[i]) + 1
        wrong, place = self.sentences[i, [layouts.WRONG, layouts.WRONG_WORD]].tolist()
        layout = self.layout
        head_column = layout.columns.index("heads")
        lines = [
            line.rstrip("\r")
            for line in self.text[begin:end].decode("utf-8", "backslashreplace").split("\n")
        ]
        if wrong == jit.NO_TREE:
            words = [k for k, line in enumerate(lines) if re.match(r"[0-9]+(\t|$)", line)]
            heads = [lines[k].split("\t")[head_column] for k in words]
            known = [-1 if head == MISSING else int(head) for head in heads]
            word, reason = layouts.explain_heads(known, trees, single_root)
            return first_line + words[word - 1], reason
        columns = lines[place - first_line].split("\t")
        wanted = "10" if layout.most == 10 else "at least 10, as many in all lines,"
        return place, {
            jit.BAD_COLUMNS: f"{len(columns)} columns, but {layout.title} has {wanted} separated by tabs.",
            jit.BAD_ID: f"the id {columns[0]!r} is out of order; an empty line ends a sentence.",
            jit.BAD_HEAD: f"the head {''.join(columns[head_column:][:1])!r} is not the number of a word, 0 or '_'.",
            jit.NOT_UTF8: "not UTF-8 text.",
            jit.NO_WORD: "the sentence has no words, only empty nodes.",
        }[wrong]

    def check_encoding(self) -> None:
        """Mark sentences that are not UTF-8 as invalid."""
        done, bounds = 0, self.ends(layouts.TEXT_END)
        while done < bounds[-1]:
            try:
                str(memoryview(self.text)[done:], "utf-8")
                return
            except UnicodeDecodeError as error:
                at = done + error.start
            i = int(np.searchsorted(bounds, at, side="right")) - 1
            line = self.ends(layouts.N_LINES)[i] + self.text.count(b"\n", int(bounds[i]), at) + 1
            self.sentences[i, [layouts.WRONG, layouts.WRONG_WORD]] = jit.NOT_UTF8, line
            done = int(bounds[i + 1])


# ---- writing -------------------------------------------------------------------------------------


def write_treebank(path: PathLike, treebank: Treebank | Iterable[Treebank]) -> None:
    """Write a treebank with its original text, except for changed columns.

    Comments, multiword tokens, empty nodes, other columns, line ends and the format are kept. To
    change columns, see
    :meth:`~omkl.data.Treebank.with_column`. Treebanks without text (made in Python, or read with ``keep_text=False``)
    are written as CoNLL-U. If heads change by :meth:`~omkl.data.Treebank.with_column`, columns that
    depend on them are not updated: the enhanced dependencies (DEPS) of CoNLL-U, and PHEAD and
    PDEPREL of CoNLL-X. If a parser or
    :meth:`~omkl.data.Treebank.with_trees` has replaced the trees, these columns and the empty nodes are removed, with a
    warning. An existing file is replaced only after everything is written.

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
    with output_file(path) as file:
        for block in [treebank] if isinstance(treebank, Treebank) else treebank:
            file.write(as_text(block))
            n_sentences += len(block)
        if not n_sentences:
            raise InputError(f"There is no sentence to write to {path}.")


def as_text(treebank: Treebank) -> bytes:
    """Return the text with changed columns; raises InputError if the format has no place for one.

    A DataWarning tells that something of old trees is removed; see
    :meth:`~omkl.data.Treebank.with_trees`.
    """
    text, layout = treebank.text, LAYOUTS[treebank.format]
    names = treebank.changed.intersection([*COLUMNS, *layout.columns])
    if text is None:  # format it as CoNLL-U
        ends, empty = (
            set(treebank.offsets[1:].tolist()),
            "\t_" * (len(LAYOUTS["conllu"].columns) - 1),
        )
        numbers = (
            np.arange(treebank.n_words) - np.repeat(treebank.offsets[:-1], treebank.lengths) + 1
        )
        lines = (f"{k}{empty}\n" + "\n" * (i in ends) for i, k in enumerate(numbers.tolist(), 1))
        text, names, layout = "".join(lines).encode(), frozenset(COLUMNS), LAYOUTS["conllu"]
    if not names or not text:
        return text
    if lacking := [name for name in COLUMNS if name in names and layout.columns.count(name) != 1]:
        raise InputError(
            f"{layout.title} has no place for new {', '.join(lacking)}: convert the file to CoNLL-U."
        )
    if not names.isdisjoint(layouts.OF_OLD_TREES):
        text = _without_empty_nodes(text, layout)
    places = [layout.columns.index(name) for name in names]
    rows = np.full(max(places) + 1, jit.NO_ROLE)
    rows[places] = np.arange(len(places))
    codes, tables = zip(*(_coded(treebank, name) for name in names))
    strings, offsets = zip(*(table.to_bytes() for table in tables))
    firsts, starts = running_sum(list(map(len, tables))), running_sum(list(map(len, strings)))
    new = np.stack([own + first for own, first in zip(codes, firsts)])
    bounds = np.concatenate(
        [*(own[:-1] + start for own, start in zip(offsets, starts)), starts[-1:]]
    )
    out = np.empty(len(text) + int(np.diff(bounds)[new].sum()), np.uint8)
    n_bytes = jit.replace_fields(
        np.frombuffer(text, np.uint8), rows, new, np.concatenate(strings), bounds, out
    )
    return out[:n_bytes].tobytes()


def _without_empty_nodes(text: bytes, layout: layouts.Layout) -> bytes:
    """Remove the empty nodes of a text that gets new trees; warn if it holds anything else of the
    old ones.
    """
    if re.search(b"^(?:" + layout.old_trees + b")", text, re.MULTILINE) is None:
        return text
    warn_caller(
        f"Old {layout.of_old_trees} are removed: they do not belong to the new trees.", DataWarning
    )
    return re.sub(rb"^[0-9]+\.[^\n]*\n", b"", text, flags=re.MULTILINE)


def _coded(treebank: Treebank, name: str) -> tuple[np.ndarray, Strings]:
    """Return the codes of a column of all words, and their table."""
    if name in layouts.OF_OLD_TREES:
        return np.zeros(treebank.n_words, np.int32), Strings()
    if name == "heads":
        return np.maximum(treebank.heads, -1) + 1, Strings(
            map(str, range(treebank.heads.max(initial=-1) + 1))
        )
    return treebank.codes(name), treebank.strings[name]
