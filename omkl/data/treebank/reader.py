"""Reading treebanks in CoNLL-U, CoNLL-X and CoNLL-2008: at once, in blocks, or as a stream."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from omkl.data.blocks import Block
from omkl.data.file_streams import N_REASONS, Skipped, stream_files
from omkl.data.files import CHUNK, PathLike, chunks, find_files, pieces, without_mark
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.data.treebank import _jit_conllu as jit
from omkl.data.treebank import layouts
from omkl.data.treebank.layouts import FIELDS, Checks
from omkl.data.treebank.strings import Strings
from omkl.data.treebank.treebank import Sentence, Treebank
from omkl.exceptions import DamagedFileError, DataFileError, InputError

#: Bytes of text that are read at a time.
PIECE_SIZE = 1 << 20
#: More lines without an empty one are no sentence.
MOST_WORDS = 1 << 22


def iter_treebank(
    path: PathLike | Sequence[PathLike],
    *,
    format: str | None = None,
    on_error: str = "raise",
    single_root: bool = False,
    trees: bool | str = True,
    strings: dict[str, Strings] | None = None,
    keep_text: bool = True,
    block_size: int = PIECE_SIZE,
) -> Iterator[Treebank]:
    """Read treebanks in blocks of sentences that share their strings.

    Parameters
    ----------
    path : path-like or list of path-like
        Files in UTF-8, plain or compressed (``.gz``, ``.xz``, ``.bz2``); a directory, or a pattern.
    format : {"conllu", "conllx", "conll2008"}, optional
        Guessed by default from the suffix (``.conllu``, ``.conllx``, ``.conll06``, ``.conll07``, ``.conll08``,
        ``.conll2008``), or from the first words. In CoNLL-2008, words are the parts of split tokens, and UPOS and
        XPOS are both the predicted tag (PPOSS), or if there is none, the gold one (GPOS).
    on_error : {"raise", "skip"}
        Treatment of sentences that are wrong. Skipped ones are counted in :attr:`~omkl.data.Treebank.skipped`, and a
        warning at the end tells their number. Files that are missing or damaged always raise.
    single_root : bool
        Whether a tree must have exactly one root.
    trees : bool, "given" or "partial"
        Whether heads must be trees: each is a word of the sentence or 0, without cycles. ``"given"`` accepts sentences
        without any head, ``"partial"`` also those in which some words have none; False accepts any heads.
    strings : dict of str to Strings, optional
        Tables of another treebank, to share and grow.
    keep_text : bool
        Whether the treebank keeps its text, so that it can be written again byte for byte.
    block_size : int
        Bytes of text to read at a time.

    Yields
    ------
    Treebank
        With at least one sentence.

    Raises
    ------
    omkl.exceptions.DataFileError
        If a file is missing, damaged, or holds no sentence; with ``on_error="raise"``, at the first sentence with a
        wrong number of columns, ids out of order, heads that are no tree, or bytes that are not UTF-8. The message
        names file and line.
    omkl.exceptions.InputError
        If an argument is none of these.

    Warns
    -----
    omkl.exceptions.DataWarning
        Once, at the end, if sentences were skipped.
    """
    if block_size < 1:
        raise InputError(f"`block_size` must be at least 1 byte, got {block_size}.")
    skipped, parsing = Skipped(on_error=on_error), Parsing.of(format, on_error, single_root, trees, strings, keep_text)
    return _iter_files(find_files(path), parsing, block_size, skipped)


def read_treebank(
    path: PathLike | Sequence[PathLike],
    *,
    format: str | None = None,
    on_error: str = "raise",
    single_root: bool = False,
    trees: bool | str = True,
    strings: dict[str, Strings] | None = None,
    keep_text: bool = True,
) -> Treebank:
    """Read treebanks into one.

    Parameters
    ----------
    path : path-like or list of path-like
    format, on_error, single_root, trees, strings, keep_text
        See :func:`iter_treebank`, which raises the same errors.

    Returns
    -------
    Treebank
        The sentences of all files, with ``skipped`` and ``reasons``.
    """
    skipped, parsing = Skipped(on_error=on_error), Parsing.of(format, on_error, single_root, trees, strings, keep_text)
    blocks = [block for file in find_files(path) for block in iter_file(file, parsing, PIECE_SIZE, skipped)]
    skipped.warn("sentence", stacklevel=2)
    return replace(Treebank.concatenate(blocks), skipped=skipped.count, reasons=skipped.reasons)


def read_conllu(
    path: PathLike | Sequence[PathLike],
    *,
    on_error: str = "raise",
    single_root: bool = False,
    trees: bool | str = "given",
) -> Iterator[Sentence]:
    """Read a treebank in CoNLL-U, sentence by sentence.

    Parameters
    ----------
    path : path-like or list of path-like
    on_error, single_root, trees
        See :func:`iter_treebank`, which raises the same errors. By default, sentences need no heads, but heads must
        be trees.

    Yields
    ------
    Sentence
    """
    for block in iter_treebank(
        path, format="conllu", keep_text=False, on_error=on_error, single_root=single_root, trees=trees
    ):
        yield from block


def stream_conllu(
    path: PathLike | Sequence[PathLike],
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
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern.
    format, single_root, trees, strings, keep_text
        See :func:`~omkl.data.iter_treebank`. Tables of strings grow; a second pass finds the codes of the first.
    on_error : {"raise", "skip"}
        Treatment of sentences that are wrong. Skipped ones are counted in ``skipped``; a warning at the end of a pass
        tells their number. A compressed file that is cut short or damaged is read up to there.
    block_size : int
        Number of sentences in a block.

    Returns
    -------
    Stream
        X is a Treebank, with heads and relations; y is None.

    Raises
    ------
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, as :func:`~omkl.data.iter_treebank` does.
    """
    parsing = Parsing.of(format, on_error, single_root, trees, strings, keep_text)
    return stream_files(path, block_reader(parsing), block_size=block_size, on_error=on_error, noun="sentence")


@dataclass(frozen=True)
class Parsing:
    """Options of the reader of a treebank.

    Parameters
    ----------
    format : str or None
        None guesses it.
    checks : Checks
    strings : dict of str to Strings
    keep_text : bool
    """

    format: str | None
    checks: Checks
    strings: dict[str, Strings]
    keep_text: bool = False

    @classmethod
    def of(
        cls,
        format: str | None,
        on_error: str,
        single_root: bool,
        trees: bool | str,
        strings: dict[str, Strings] | None,
        keep_text: bool,
    ) -> "Parsing":
        """Check the arguments of :func:`iter_treebank`."""
        layouts.check_format(format)
        return cls(format, Checks(trees, single_root, on_error == "skip"), layouts.new_strings(strings), keep_text)


def block_reader(parsing: Parsing) -> Callable[[PathLike, Skipped], Iterator[Block]]:
    """A reader of blocks for :func:`~omkl.data.file_streams.stream_files`."""
    return lambda path, skipped: map(Block, iter_file(path, parsing, PIECE_SIZE, skipped))


def _iter_files(paths: list[Path], parsing: Parsing, block_size: int, skipped: Skipped) -> Iterator[Treebank]:
    for path in paths:
        yield from iter_file(path, parsing, block_size, skipped)
    skipped.warn("sentence", stacklevel=2)


def iter_file(path: PathLike, parsing: Parsing, block_size: int, skipped: Skipped) -> Iterator[Treebank]:
    """Read a file in blocks; ``skipped`` counts what is left out, as do the blocks."""
    n_lines, found, layout, pending = 0, False, None, Skipped()
    text, bom = without_mark(chunks(path, min(block_size, CHUNK)))
    for piece in pieces(text, block_size, _last_boundary, path):
        if len(piece) > 2 * block_size + CHUNK and piece.count(b"\n") > MOST_WORDS:
            raise DamagedFileError(f"{path}, line {n_lines + 1}: no sentence ends in {MOST_WORDS} lines.")
        layout = layout or layouts.find_layout(parsing.format, path, piece)
        block, more_lines = parse(piece, layout, path, n_lines, parsing, bom)
        n_lines += more_lines
        skipped.note(block.skipped, block.reasons)
        pending.note(block.skipped, block.reasons)
        if len(block):
            found = True
            yield replace(block, skipped=pending.count, reasons=pending.reasons)
            pending = Skipped()
    if not found:
        why = f" that can be read: {pending.reasons[0]}" if pending.count else "."
        raise DataFileError(f"{path} holds no sentence{why}")


def _last_boundary(text: bytes) -> int:
    return jit.last_boundary(np.frombuffer(text, np.uint8))


def parse(
    text: bytes, layout: layouts.Layout, path: PathLike, n_before: int, parsing: Parsing, bom: bool = False
) -> tuple[Treebank, int]:
    """Parse the sentences of a text.

    Parameters
    ----------
    text : bytes
    layout : Layout
    path : path-like
        Name of the text in messages.
    n_before : int
        Number of lines before it.
    parsing : Parsing
        Its strings grow by those of the sentences that are kept.
    bom : bool
        Whether a byte order mark came before it.

    Returns
    -------
    Treebank
    int
        Number of lines.
    """
    scanned = _Scanned.of(text, layout)
    sentences, checks = scanned.sentences, parsing.checks
    n_lines = int(sentences[-1, layouts.N_LINES]) if len(sentences) else 0
    _check_encoding(scanned)
    mode = layouts.MODES[checks.trees]
    if mode != jit.ANY_HEADS:
        jit.check_trees(scanned.offsets, scanned.heads, mode, checks.single_root, sentences)
    bad = np.flatnonzero(sentences[:, layouts.WRONG])
    reasons = []
    for i in bad[: N_REASONS if checks.skip else 1]:
        line, reason = scanned.explain(i)
        reasons.append(f"{path}, line {n_before + line}: {reason}")
    if len(bad) and not checks.skip:
        raise DataFileError(reasons[0])
    if len(bad):
        scanned = _without_bad(scanned)
    treebank = _treebank(scanned, parsing)
    return replace(treebank, bom=bom, skipped=len(bad), reasons=reasons), n_lines


@dataclass
class _Scanned:
    """Places of the words and sentences of a text: the arrays that ``_jit_conllu.scan`` fills."""

    text: bytes
    data: np.ndarray
    layout: layouts.Layout
    starts: np.ndarray
    lengths: np.ndarray
    heads: np.ndarray
    head_starts: np.ndarray
    sentences: np.ndarray

    @classmethod
    def of(cls, text: bytes, layout: layouts.Layout) -> "_Scanned":
        data = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", np.uint8)
        n_lines = text.count(b"\n") + 1
        starts, lengths = np.empty((2, len(FIELDS), n_lines), np.int32)
        heads, head_starts = np.empty((2, n_lines), np.int32)
        sentences = np.empty((n_lines, 5), np.int64)
        n = jit.scan(data, layout.roles, layout.fewest, layout.most, starts, lengths, heads, head_starts, sentences)
        sentences = sentences[:n]
        sentences[-1:, layouts.TEXT_END] = len(text)  # without the newline that was missing
        n = sentences[-1, layouts.N_WORDS] if n else 0
        return cls(text, data, layout, starts[:, :n], lengths[:, :n], heads[:n], head_starts[:n], sentences)

    @property
    def offsets(self) -> np.ndarray:
        return np.concatenate([[0], self.sentences[:, layouts.N_WORDS]])

    @property
    def text_offsets(self) -> np.ndarray:
        return np.concatenate([[0], self.sentences[:, layouts.TEXT_END]])

    def explain(self, i: int) -> tuple[int, str]:
        """Find the line of sentence ``i`` that is wrong, from 1 in this text, and the reason."""
        bounds, line = self.text_offsets[i : i + 2], self.sentences[i - 1, layouts.N_LINES] + 1 if i else 1
        text = self.text[bounds[0] : bounds[1]]
        wrong, place = self.sentences[i, [layouts.WRONG, layouts.WRONG_WORD]].tolist()
        return layouts.explain(text, int(line), wrong, place, self.layout)


def _check_encoding(scanned: _Scanned) -> None:
    """Mark the sentences that are not UTF-8."""
    done, ends = 0, scanned.sentences[:, layouts.TEXT_END]
    while done < len(scanned.text):
        try:
            str(memoryview(scanned.text)[done:], "utf-8")
            return
        except UnicodeDecodeError as error:
            if not len(ends):
                return
            at = done + error.start
        i = int(np.searchsorted(ends, at, side="right"))
        begin = int(ends[i - 1]) if i else 0
        line = (scanned.sentences[i - 1, layouts.N_LINES] if i else 0) + scanned.text.count(b"\n", begin, at) + 1
        scanned.sentences[i, [layouts.WRONG, layouts.WRONG_WORD]] = jit.NOT_UTF8, line
        done = int(ends[i])


def _without_bad(scanned: _Scanned) -> _Scanned:
    """Leave out the sentences that are wrong."""
    good = scanned.sentences[:, layouts.WRONG] == jit.FINE
    lengths, bounds = np.diff(scanned.offsets), scanned.text_offsets
    words = np.repeat(good, lengths)
    sentences = scanned.sentences[good]
    sentences[:, layouts.N_WORDS] = np.cumsum(lengths[good])
    # places of fields are in ``data``, which stays whole
    parts = [scanned.text[low:high] for low, high in zip(bounds[:-1][good], bounds[1:][good])]
    sentences[:, layouts.TEXT_END] = np.cumsum([len(part) for part in parts])
    return replace(
        scanned,
        text=b"".join(parts),
        starts=scanned.starts[:, words],
        lengths=scanned.lengths[:, words],
        heads=scanned.heads[words],
        head_starts=scanned.head_starts[words],
        sentences=sentences,
    )


def _treebank(scanned: _Scanned, parsing: Parsing) -> Treebank:
    """Encode the strings of a text; heads are copied, so that the rest of the scan is not kept."""
    columns: dict[str, Any] = {}
    for name in FIELDS:
        row = FIELDS.index(scanned.layout.same.get(name, name))
        starts, lengths = np.ascontiguousarray(scanned.starts[row]), np.ascontiguousarray(scanned.lengths[row])
        columns[name] = parsing.strings[name].intern(scanned.data, starts, lengths)
    treebank = Treebank(offsets=scanned.offsets, heads=scanned.heads.copy(), strings=parsing.strings, **columns)
    if not parsing.keep_text:
        return treebank
    return replace(
        treebank,
        text=scanned.text,
        text_offsets=scanned.text_offsets,
        head_starts=scanned.head_starts.copy(),
        format=scanned.layout.title,
    )
