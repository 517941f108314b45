"""Treebanks as arrays of codes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from omkl.data.conll import Sentence
from omkl.data.layouts import FIELDS, new_strings
from omkl.data.strings import Strings
from omkl.data.treebank_building import encode_sentences
from omkl.data.treebank_checks import Checks
from omkl.exceptions import InputError


@dataclass(frozen=True, eq=False, repr=False)
class Treebank:
    """Sentences, column by column: a code for each field of each word.

    Attributes
    ----------
    offsets : int64 array (n_sentences + 1,)
        The words of sentence ``i`` are ``offsets[i]`` to ``offsets[i + 1] - 1``.
    forms, lemmas, upos, xpos, feats, deprels : int32 arrays (n_words,)
        Codes into ``strings``; 0 where the file has ``_``.
    heads : int32 array (n_words,)
        Counted in the sentence from 1; 0 for the root, and -1 where the file has ``_``.
    strings : dict of str to Strings
        For each field, its different strings. Treebanks can share them.
    text : bytes or None
        What the sentences were read from, with comments, multiword tokens, empty nodes and all columns.
    text_offsets : int64 array (n_sentences + 1,) or None
        The text of sentence ``i``, with the comments before it, is ``text[text_offsets[i]:text_offsets[i + 1]]``.
    head_starts : int32 array (n_words,) or None
        Where HEAD begins, counted from the beginning of the text of the sentence.
    bom : bool
        Whether the file began with a byte order mark (which is not in ``text``).
    skipped : int
        How many sentences were left out by ``on_error="skip"``.
    reasons : list of str
        Why, for the first of them.

    >>> treebank = Treebank.from_sentences([Sentence(forms=["No", "way"], heads=[2, 0])])
    >>> treebank[0].heads, treebank.strings["forms"][treebank.forms[1]]
    ([2, 0], 'way')
    """

    offsets: np.ndarray
    forms: np.ndarray
    lemmas: np.ndarray
    upos: np.ndarray
    xpos: np.ndarray
    feats: np.ndarray
    heads: np.ndarray
    deprels: np.ndarray
    strings: dict
    text: bytes | None = None
    text_offsets: np.ndarray | None = None
    head_starts: np.ndarray | None = None
    bom: bool = False
    skipped: int = 0
    reasons: list = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_words(self) -> int:
        return len(self.heads)

    @property
    def lengths(self) -> np.ndarray:
        """Number of words of each sentence."""
        return np.diff(self.offsets)

    def __repr__(self) -> str:
        return f"Treebank({len(self)} sentences, {self.n_words} words)"

    def __iter__(self) -> Iterator[Sentence]:
        return (Sentence.of_treebank(self, i) for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """A sentence; or, for a slice, a mask or an array of indices, the treebank of these sentences."""
        if isinstance(index, (int, np.integer)):
            if not -len(self) <= index < len(self):
                raise IndexError(f"There is no sentence {index}: there are {len(self)}.")
            return Sentence.of_treebank(self, int(index) % len(self))
        return self._select(np.arange(len(self))[index])

    def column(self, name: str, index: int) -> list:
        """A column of sentence ``index`` as a list: ints or None for ``heads``, else strings."""
        values = getattr(self, name)[self.offsets[index] : self.offsets[index + 1]].tolist()
        if name == "heads":
            return [None if head < 0 else head for head in values]
        strings = self.strings[name].tolist()
        return [strings[code] for code in values]

    def _select(self, chosen):
        lengths = self.lengths[chosen]
        offsets = running_sum(lengths)
        words = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        columns = {name: getattr(self, name)[words] for name in (*FIELDS, "heads")}
        if self.text is not None:
            texts = [self.text[self.text_offsets[i] : self.text_offsets[i + 1]] for i in chosen]
            last = len(self) - 1  # the only text that may lack its empty line at the end
            texts[:-1] = [closed(text) if i == last else text for i, text in zip(chosen, texts[:-1])]
            columns |= {"text": b"".join(texts), "text_offsets": running_sum(list(map(len, texts)))}
            columns["head_starts"] = self.head_starts[words]
        return replace(self, offsets=offsets, skipped=0, reasons=[], **columns)

    @classmethod
    def concatenate(cls, treebanks: Iterable["Treebank"]) -> "Treebank":
        """One treebank of several that share their strings; without a text if one of them has none.

        Raises
        ------
        omkl.exceptions.InputError
            If there is no treebank, or their strings are not the same tables.
        """
        blocks: list[Any] = list(treebanks)
        if not blocks:
            raise InputError("There is no treebank to join.")
        if any(block.strings[name] is not blocks[0].strings[name] for block in blocks for name in FIELDS):
            raise InputError("Treebanks are joined only if they share their strings: read them with strings=.")
        if len(blocks) == 1:
            return blocks[0]
        columns: dict[str, Any]
        columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in (*FIELDS, "heads")}
        columns["offsets"] = running_sum(np.concatenate([block.lengths for block in blocks]))
        if all(block.text is not None for block in blocks):
            texts = [closed(block.text) for block in blocks[:-1]] + [blocks[-1].text]
            starts = running_sum(list(map(len, texts)))
            ends = [block.text_offsets[:-1] + start for block, start in zip(blocks, starts)]
            columns |= {"text": b"".join(texts), "text_offsets": np.concatenate([*ends, starts[-1:]])}
            columns["head_starts"] = np.concatenate([block.head_starts for block in blocks])
        reasons = [reason for block in blocks for reason in block.reasons]
        return cls(
            strings=blocks[0].strings,
            bom=blocks[0].bom,
            skipped=sum(block.skipped for block in blocks),
            reasons=reasons,
            **columns,
        )

    @classmethod
    def from_sentences(
        cls, sentences: Iterable[Sentence], *, strings: dict[str, Strings] | None = None, trees: bool | str = "given",
        single_root: bool = False,
    ) -> "Treebank":  # fmt: skip
        """A treebank of sentences made in Python.

        Parameters
        ----------
        sentences : iterable of Sentence
            A column that is empty stands for ``_`` in every word.
        strings : dict of str to Strings, optional
            Tables to share and grow, those of another treebank.
        trees, single_root
            As :func:`~omkl.data.read_treebank` has them.

        Raises
        ------
        omkl.exceptions.InputError
            If columns of a sentence are not equally long, a string has a tab or a line break in it, or heads are no
            tree; the message names sentence and word, both counted from 1.
        """
        strings = new_strings(strings)
        return cls(strings=strings, **encode_sentences(sentences, strings, Checks(trees, single_root)))


def running_sum(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """``0, lengths[0], lengths[0] + lengths[1], ...``"""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def closed(text: bytes) -> bytes:
    """A text whose last sentence ends with an empty line, so that another one can follow."""
    if text.endswith((b"\n\n", b"\n\r\n")) or not text:
        return text
    newline = b"\r\n" if text.count(b"\r\n") else b"\n"
    return text + (newline if text.endswith(b"\n") else 2 * newline)
