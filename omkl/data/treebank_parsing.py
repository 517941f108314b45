"""From the text of a block of sentences to a treebank."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from omkl.data import _jit_treebank as jit
from omkl.data.file_streams import N_REASONS
from omkl.data.layouts import FIELDS, Layout
from omkl.data.strings import Strings
from omkl.data.treebank import Treebank
from omkl.data.treebank_checks import MODES, N_LINES, N_WORDS, TEXT_END, WRONG, WRONG_WORD, Checks, explain
from omkl.exceptions import DataFileError


@dataclass
class Scanned:
    """Where the words of a text are: what :func:`omkl.data._jit_treebank.scan` fills, cut to size."""

    text: bytes
    data: np.ndarray
    layout: Layout
    starts: np.ndarray
    lengths: np.ndarray
    heads: np.ndarray
    head_starts: np.ndarray
    sentences: np.ndarray

    @classmethod
    def of(cls, text: bytes, layout: Layout) -> "Scanned":
        data = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", np.uint8)
        n_lines = text.count(b"\n") + 1
        starts, lengths = np.empty((2, len(FIELDS), n_lines), np.int32)
        heads, head_starts = np.empty((2, n_lines), np.int32)
        sentences = np.empty((n_lines, 5), np.int64)
        n = jit.scan(data, layout.roles, layout.fewest, layout.most, starts, lengths, heads, head_starts, sentences)
        sentences = sentences[:n]
        sentences[-1:, TEXT_END] = len(text)  # without the newline that was missing
        n = sentences[-1, N_WORDS] if n else 0
        return cls(text, data, layout, starts[:, :n], lengths[:, :n], heads[:n], head_starts[:n], sentences)

    @property
    def offsets(self) -> np.ndarray:
        return np.concatenate([[0], self.sentences[:, N_WORDS]])

    @property
    def text_offsets(self) -> np.ndarray:
        return np.concatenate([[0], self.sentences[:, TEXT_END]])

    def explain(self, i: int) -> tuple[int, int | None, str]:
        """The line of sentence ``i`` that is wrong, counted from 1 in this text, the word, and why."""
        bounds, line = self.text_offsets[i : i + 2], self.sentences[i - 1, N_LINES] + 1 if i else 1
        text = self.text[bounds[0] : bounds[1]]
        wrong, place = self.sentences[i, [WRONG, WRONG_WORD]].tolist()
        return explain(text, int(line), wrong, place, self.layout)


def parse(
    text: bytes, layout: Layout, strings: dict[str, Strings], checks: Checks,
    where: Callable[[int, int | None, int], str], *, bom: bool = False, keep_text: bool = True,
) -> tuple[Treebank, int]:  # fmt: skip
    """A treebank of the sentences of a text.

    Parameters
    ----------
    text : bytes
    layout : Layout
    strings : dict of str to Strings
        Grown by the strings of the sentences that are kept.
    checks : Checks
    where : callable
        ``where(line, word, sentence)`` says where something is wrong; all are counted from 1.
    bom, keep_text : bool

    Returns
    -------
    treebank : Treebank
    n_lines : int
    """
    scanned = Scanned.of(text, layout)
    sentences = scanned.sentences
    n_lines = int(sentences[-1, N_LINES]) if len(sentences) else 0
    _check_encoding(scanned)
    mode = MODES[checks.trees]
    if mode != jit.ANY_HEADS:
        jit.check_trees(scanned.offsets, scanned.heads, mode, checks.single_root, sentences)
    bad = np.flatnonzero(sentences[:, WRONG])
    reasons = []
    for i in bad[: N_REASONS if checks.skip else 1]:
        line, word, reason = scanned.explain(i)
        reasons.append(f"{where(line, word, int(i) + 1)}: {reason}")
    if len(bad) and not checks.skip:
        raise DataFileError(reasons[0])
    if len(bad):
        scanned = _without_bad(scanned)
    return _treebank(scanned, strings, keep_text, bom=bom, skipped=len(bad), reasons=reasons), n_lines


def _check_encoding(scanned):
    """Note the sentences that are not UTF-8; decoding goes on after each of them."""
    done, ends = 0, scanned.sentences[:, TEXT_END]
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
        line = (scanned.sentences[i - 1, N_LINES] if i else 0) + scanned.text.count(b"\n", begin, at) + 1
        scanned.sentences[i, [WRONG, WRONG_WORD]] = jit.NOT_UTF8, line
        done = int(ends[i])


def _without_bad(scanned):
    """The same text without the sentences that are wrong."""
    good = scanned.sentences[:, WRONG] == jit.FINE
    lengths, bounds = np.diff(scanned.offsets), scanned.text_offsets
    words = np.repeat(good, lengths)
    sentences = scanned.sentences[good]
    sentences[:, N_WORDS] = np.cumsum(lengths[good])
    # fields are looked for in the whole data, only the text is cut
    parts = [scanned.text[low:high] for low, high in zip(bounds[:-1][good], bounds[1:][good])]
    sentences[:, TEXT_END] = np.cumsum([len(part) for part in parts])
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
    # copies: the rest of the scan is not kept
    return Treebank(offsets=scanned.offsets, heads=scanned.heads.copy(), strings=strings, **codes, **more)
