"""Reading treebanks, at once, in blocks or as a stream: CoNLL-U, CoNLL-X and CoNLL-2008."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from omkl.data import _jit_treebank as jit
from omkl.data import treebank_formats as formats
from omkl.data.file_streams import N_REASONS, Skipped, StreamFormat, check_on_error, stream_files
from omkl.data.files import CHUNK, PathLike, chunks, find_files, pieces, without_mark
from omkl.data.rows import Block
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.data.strings import Strings
from omkl.data.treebank import Sentence, Treebank
from omkl.data.treebank_formats import FIELDS, Checks
from omkl.exceptions import DamagedFileError, DataFileError, InputError

#: Bytes of text that are read at a time.
PIECE_SIZE = 1 << 20
#: What goes on for more lines without an empty one is no sentence.
MOST_WORDS = 1 << 22


def iter_treebank(
    path: PathLike | Sequence[PathLike], *, format: str | None = None, on_error: str = "raise",
    single_root: bool = False, trees: bool | str = True, strings: dict[str, Strings] | None = None,
    keep_text: bool = True, block_size: int = PIECE_SIZE,
) -> Iterator[Treebank]:  # fmt: skip
    """Read treebanks in blocks of sentences that share their strings.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), as UTF-8; a directory, or a pattern.
    format : {"conllu", "conllx", "conll2008"}, optional
        By default, what the suffix stands for (``.conllu``, ``.conllx``, ``.conll06``, ``.conll07``, ``.conll08``,
        ``.conll2008``), and otherwise what the first words look like. In CoNLL-2008 words are the parts of split
        tokens, and both UPOS and XPOS are their predicted tag (PPOSS), or where there is none, the gold one (GPOS).
    on_error : {"raise", "skip"}
        What to do with sentences that are wrong. Those skipped are counted in :attr:`~omkl.data.Treebank.skipped`, and
        a warning at the end says how many they were. Files that are missing, cut short or damaged always raise.
    single_root : bool
        Whether a tree must have exactly one root.
    trees : bool, "given" or "partial"
        Whether heads must be trees: each is a word of the sentence or 0, and there is no cycle (hence there is a
        root). ``"given"`` lets sentences pass in which no word has a head, ``"partial"`` also those in which some
        have none; False takes any numbers, and none.
    strings : dict of str to Strings, optional
        Tables to share and grow, those of another treebank.
    keep_text : bool
        Whether the treebank keeps the text it was read from, so that it can be written again byte for byte.
    block_size : int
        Bytes of text that are read at a time.

    Yields
    ------
    Treebank
        With at least one sentence.

    Raises
    ------
    omkl.exceptions.DataFileError
        If a file is missing, cut short or damaged, or holds no sentence; if ``on_error="raise"``, at the first
        sentence with a wrong number of columns, ids out of order, heads that are no tree, or bytes that are not
        UTF-8. The message names file and line.
    omkl.exceptions.InputError
        If an argument is none of these.

    Warns
    -----
    omkl.exceptions.DataWarning
        Once, at the end, if sentences were skipped.
    """
    return _blocks(path, format, on_error, single_root, trees, strings, keep_text, block_size)


def read_treebank(
    path: PathLike | Sequence[PathLike], *, format: str | None = None, on_error: str = "raise",
    single_root: bool = False, trees: bool | str = True, strings: dict[str, Strings] | None = None,
    keep_text: bool = True,
) -> Treebank:  # fmt: skip
    """Read treebanks into one.

    Parameters and errors are those of :func:`iter_treebank`.

    Returns
    -------
    Treebank
        The sentences of all files. Its ``skipped`` and ``reasons`` tell what ``on_error="skip"`` left out.
    """
    skipped = Skipped()
    blocks = _blocks(path, format, on_error, single_root, trees, strings, keep_text, PIECE_SIZE, skipped)
    treebank = Treebank.concatenate(blocks)
    skipped.warn("sentence", stacklevel=2)
    return replace(treebank, skipped=skipped.count, reasons=skipped.reasons)


def read_conllu(
    path: PathLike | Sequence[PathLike], *, on_error: str = "raise", single_root: bool = False,
    trees: bool | str = "given",
) -> Iterator[Sentence]:  # fmt: skip
    """Read a treebank in CoNLL-U, sentence by sentence.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``).
    on_error, single_root, trees
        As :func:`iter_treebank` has them; by default, sentences need not have heads, but heads must be trees.

    Yields
    ------
    Sentence

    Raises
    ------
    omkl.exceptions.DataFileError
        As :func:`iter_treebank` does.
    """
    for block in iter_treebank(
        path, format="conllu", keep_text=False, on_error=on_error, single_root=single_root, trees=trees
    ):
        yield from block


def _blocks(path, format, on_error, single_root, trees, strings, keep_text, block_size, skipped=None):
    """Check the arguments, now, and read, later; warns itself only if the caller does not count what is skipped."""
    formats.check_format(format)
    check_on_error(on_error)
    if block_size < 1:
        raise InputError(f"block_size is a number of bytes, at least 1, not {block_size}.")
    checks = Checks(trees, single_root, on_error == "skip")
    parsing = {"strings": formats.new_strings(strings), "checks": checks, "keep_text": keep_text}
    return _iter_files(find_files(path), format, block_size, skipped, parsing)


def _iter_files(paths, format, block_size, skipped, parsing):
    total = Skipped() if skipped is None else skipped
    for path in paths:
        yield from iter_file(path, format, block_size, total, parsing)
    if skipped is None:
        total.warn("sentence", stacklevel=2)


def iter_file(
    path: PathLike, format: str | None, block_size: int, skipped: Skipped, parsing: dict[str, Any]
) -> Iterator[Treebank]:
    """The treebanks of a file, as :func:`iter_treebank` has them; what is skipped is counted in ``skipped``."""
    n_lines, found, layout, pending = 0, False, None, Skipped()
    text, bom = without_mark(chunks(path, min(block_size, CHUNK)))
    for piece in pieces(text, block_size, _last_boundary, path):
        if len(piece) > 2 * block_size + CHUNK and piece.count(b"\n") > MOST_WORDS:
            raise DamagedFileError(f"{path}, line {n_lines + 1}: no sentence ends in {MOST_WORDS} lines.")
        layout = layout or formats.find_layout(format, path, piece)
        block, more_lines = parse(piece, layout, path, n_lines, bom=bom, **parsing)
        n_lines += more_lines
        skipped.note(block.skipped, block.reasons)
        pending.note(block.skipped, block.reasons)
        if len(block):
            found = True
            yield replace(block, skipped=pending.count, reasons=pending.reasons)
            pending = Skipped()
    if not found:
        why = f" that can be read: {pending.reasons[0]}" if pending.count else ": it needs at least one."
        raise DataFileError(f"{path} holds no sentence{why}")


def _last_boundary(text):
    return jit.last_boundary(np.frombuffer(text, np.uint8))


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
    checks = Checks(trees, single_root, on_error == "skip")
    read = treebank_blocks(format, checks, formats.new_strings(strings), keep_text)
    return stream_files(path, read, block_size=block_size, on_error=on_error, noun="sentence")


def treebank_blocks(
    format: str | None, checks: Checks, strings: dict[str, Strings], keep_text: bool = False
) -> Callable[[PathLike, Skipped], Iterator[Block]]:
    """What reads the blocks of a file for :func:`~omkl.data.file_streams.stream_files`."""
    formats.check_format(format)
    parsing = {"strings": strings, "checks": checks, "keep_text": keep_text}

    def read(path, skipped):
        return (Block(treebank) for treebank in iter_file(path, format, PIECE_SIZE, skipped, parsing))

    return read


class Conllu(StreamFormat):
    """Treebanks: see :func:`stream_conllu`."""

    aliases = {"conllu": {}}
    suffixes = tuple(formats.SUFFIXES)
    holds = "trees"
    open = staticmethod(stream_conllu)  # type: ignore[assignment]  # options of its own


@dataclass
class Scanned:
    """Where the words of a text are: what :func:`omkl.data._jit_treebank.scan` fills, cut to size."""

    text: bytes
    data: np.ndarray
    layout: formats.Layout
    starts: np.ndarray
    lengths: np.ndarray
    heads: np.ndarray
    head_starts: np.ndarray
    sentences: np.ndarray

    @classmethod
    def of(cls, text: bytes, layout: formats.Layout) -> "Scanned":
        data = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", np.uint8)
        n_lines = text.count(b"\n") + 1
        starts, lengths = np.empty((2, len(FIELDS), n_lines), np.int32)
        heads, head_starts = np.empty((2, n_lines), np.int32)
        sentences = np.empty((n_lines, 5), np.int64)
        n = jit.scan(data, layout.roles, layout.fewest, layout.most, starts, lengths, heads, head_starts, sentences)
        sentences = sentences[:n]
        sentences[-1:, formats.TEXT_END] = len(text)  # without the newline that was missing
        n = sentences[-1, formats.N_WORDS] if n else 0
        return cls(text, data, layout, starts[:, :n], lengths[:, :n], heads[:n], head_starts[:n], sentences)

    @property
    def offsets(self) -> np.ndarray:
        return np.concatenate([[0], self.sentences[:, formats.N_WORDS]])

    @property
    def text_offsets(self) -> np.ndarray:
        return np.concatenate([[0], self.sentences[:, formats.TEXT_END]])

    def explain(self, i: int) -> tuple[int, str]:
        """The line of sentence ``i`` that is wrong, counted from 1 in this text, and why."""
        bounds, line = self.text_offsets[i : i + 2], self.sentences[i - 1, formats.N_LINES] + 1 if i else 1
        text = self.text[bounds[0] : bounds[1]]
        wrong, place = self.sentences[i, [formats.WRONG, formats.WRONG_WORD]].tolist()
        return formats.explain(text, int(line), wrong, place, self.layout)


def parse(
    text: bytes, layout: formats.Layout, path: PathLike, n_before: int, *, strings: dict[str, Strings], checks: Checks,
    bom: bool = False, keep_text: bool = True,
) -> tuple[Treebank, int]:  # fmt: skip
    """A treebank of the sentences of a text, and its number of lines; there are ``n_before`` before it in the file.

    ``strings`` grow by those of the sentences that are kept.
    """
    scanned = Scanned.of(text, layout)
    sentences = scanned.sentences
    n_lines = int(sentences[-1, formats.N_LINES]) if len(sentences) else 0
    _check_encoding(scanned)
    mode = formats.MODES[checks.trees]
    if mode != jit.ANY_HEADS:
        jit.check_trees(scanned.offsets, scanned.heads, mode, checks.single_root, sentences)
    bad = np.flatnonzero(sentences[:, formats.WRONG])
    reasons = []
    for i in bad[: N_REASONS if checks.skip else 1]:
        line, reason = scanned.explain(i)
        reasons.append(f"{path}, line {n_before + line}: {reason}")
    if len(bad) and not checks.skip:
        raise DataFileError(reasons[0])
    if len(bad):
        scanned = _without_bad(scanned)
    return _treebank(scanned, strings, keep_text, bom=bom, skipped=len(bad), reasons=reasons), n_lines


def _check_encoding(scanned):
    """Note the sentences that are not UTF-8; decoding goes on after each of them."""
    done, ends = 0, scanned.sentences[:, formats.TEXT_END]
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
        line = (scanned.sentences[i - 1, formats.N_LINES] if i else 0) + scanned.text.count(b"\n", begin, at) + 1
        scanned.sentences[i, [formats.WRONG, formats.WRONG_WORD]] = jit.NOT_UTF8, line
        done = int(ends[i])


def _without_bad(scanned):
    """The same text without the sentences that are wrong."""
    good = scanned.sentences[:, formats.WRONG] == jit.FINE
    lengths, bounds = np.diff(scanned.offsets), scanned.text_offsets
    words = np.repeat(good, lengths)
    sentences = scanned.sentences[good]
    sentences[:, formats.N_WORDS] = np.cumsum(lengths[good])
    # fields are looked for in the whole data, only the text is cut
    parts = [scanned.text[low:high] for low, high in zip(bounds[:-1][good], bounds[1:][good])]
    sentences[:, formats.TEXT_END] = np.cumsum([len(part) for part in parts])
    return Scanned(
        b"".join(parts), scanned.data, scanned.layout, scanned.starts[:, words], scanned.lengths[:, words],
        scanned.heads[words], scanned.head_starts[words], sentences,
    )  # fmt: skip


def _treebank(scanned, strings, keep_text, **more):
    codes = {}
    for row, name in enumerate(FIELDS):
        row = FIELDS.index(scanned.layout.same.get(name, name))
        starts, lengths = np.ascontiguousarray(scanned.starts[row]), np.ascontiguousarray(scanned.lengths[row])
        codes[name] = strings[name].intern(scanned.data, starts, lengths)
    if keep_text:
        more |= {"text": scanned.text, "text_offsets": scanned.text_offsets, "head_starts": scanned.head_starts.copy()}
        more["format"] = scanned.layout.title
    # copies: the rest of the scan is not kept
    return Treebank(offsets=scanned.offsets, heads=scanned.heads.copy(), strings=strings, **codes, **more)
