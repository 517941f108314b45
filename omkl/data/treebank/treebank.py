"""Sentence, with lists of strings, and Treebank, with arrays of integer codes."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from omkl.data.treebank import _jit_conllu as jit
from omkl.data.treebank import layouts
from omkl.data.treebank.layouts import FIELDS
from omkl.data.treebank.strings import MISSING, Strings
from omkl.exceptions import InputError
from omkl.groups.tokens import gathered_rows

# separators of the formats, and surrogates, which UTF-8 cannot encode
_UNFIT = re.compile("[\t\n\r\ud800-\udfff]")


@dataclass
class Sentence:
    """Sentence of n words, without multiword tokens and empty nodes.

    Each column is a list of n strings, with ``_`` for missing values. Heads are ints, 0 for the
    root, or None. A sentence of a :class:`~omkl.data.Treebank` decodes a column when it is first
    used.

    >>> sentence = Sentence(forms=["No", "way"], heads=[2, 0])
    >>> len(sentence)
    2
    """

    forms: list = field(default_factory=list)
    lemmas: list = field(default_factory=list)
    upos: list = field(default_factory=list)
    xpos: list = field(default_factory=list)
    feats: list = field(default_factory=list)
    heads: list = field(default_factory=list)
    deprels: list = field(default_factory=list)
    misc: list = field(default_factory=list)

    @classmethod
    def of_treebank(cls, treebank: "Treebank", index: int) -> "Sentence":
        """Make a view of sentence ``index`` of a treebank."""
        sentence = object.__new__(cls)
        sentence.__dict__["_source"] = (treebank, index)
        return sentence

    def __len__(self) -> int:
        return len(self.forms)

    def __getattr__(self, name: str) -> Any:
        # only called for missing attributes: the column is not decoded yet
        if name not in self.__dataclass_fields__ or "_source" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        treebank, index = self._source
        column = treebank.column(name, index)
        self.__dict__[name] = column
        return column

    def __getstate__(self):
        # do not pickle or copy the whole treebank
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False, repr=False)
class Treebank:
    """Sentences as columns of integer codes.

    Attributes
    ----------
    offsets : int64 array (n_sentences + 1,)
        The words of sentence ``i`` are ``offsets[i]`` to ``offsets[i + 1] - 1``.
    forms, lemmas, upos, xpos, feats, deprels, misc : int32 arrays (n_words,)
        Codes of strings in ``strings``; 0 is ``_``.
    heads : int32 array (n_words,)
        Word numbers within the sentence, from 1; 0 is the root, and -1 is ``_``.
    strings : dict of str to Strings
        Table of strings of each field. Treebanks can share tables.
    text : bytes or None
        Original text, with comments, multiword tokens, empty nodes and all columns.
    text_offsets : int64 array (n_sentences + 1,) or None
        The text of sentence ``i``, from its comments to the empty line after it, is
        ``text[text_offsets[i]:text_offsets[i + 1]]``.
    format : {"conllu", "conllx", "conll2008"}
        Format of the text.
    changed : frozenset of str
        Columns that differ from the text; see :meth:`with_column` and :meth:`with_trees`.

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
    misc: np.ndarray
    strings: dict
    text: bytes | None = None
    text_offsets: np.ndarray | None = None
    format: str = "conllu"
    changed: frozenset = frozenset()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_words(self) -> int:
        """Number of words."""
        return len(self.heads)

    @property
    def lengths(self) -> np.ndarray:
        """Number of words of each sentence."""
        return np.diff(self.offsets)

    def __repr__(self) -> str:
        return f"Treebank({len(self)} sentences, {self.n_words} words)"

    def __iter__(self) -> Iterator[Sentence]:
        return (Sentence.of_treebank(self, i) for i in range(len(self)))

    def __getitem__(self, index: int | slice | np.ndarray) -> Any:
        """Return a sentence, or the treebank of a slice, a mask or an array of indices."""
        if isinstance(index, (int, np.integer)):
            return Sentence.of_treebank(self, range(len(self))[index])
        chosen = np.arange(len(self))[index]
        offsets, words = gathered_rows(self.offsets, chosen)
        columns: dict[str, Any] = {name: self.codes(name)[words] for name in (*FIELDS, "heads")}
        if self.text is not None and self.text_offsets is not None:
            texts = [self.text[self.text_offsets[i] : self.text_offsets[i + 1]] for i in chosen]
            columns["text"] = b"".join(texts)
            columns["text_offsets"] = running_sum(list(map(len, texts)))
        return replace(self, offsets=offsets, **columns)

    def codes(self, name: str) -> np.ndarray:
        """Return the codes of a column, or the heads, of all words.

        Parameters
        ----------
        name : str

        Returns
        -------
        int32 array (n_words,)
        """
        return getattr(self, name)

    def trees(self) -> list[np.ndarray]:
        """Return the heads of each sentence as int64 arrays; -1 is a missing head."""
        if not len(self):
            return []
        return np.split(self.heads.astype(np.int64), self.offsets[1:-1])

    def column(self, name: str, index: int) -> list:
        """Decode a column of a sentence.

        Parameters
        ----------
        name : str
        index : int

        Returns
        -------
        list
            Ints or None for ``heads``, str otherwise.
        """
        values = self.codes(name)[self.offsets[index] : self.offsets[index + 1]].tolist()
        if name == "heads":
            return [None if head < 0 else head for head in values]
        strings = self.strings[name].tolist()
        return [strings[code] for code in values]

    def with_column(
        self, name: str, values: np.ndarray, strings: Strings | None = None
    ) -> "Treebank":
        """Replace a column, which also changes the written text.

        Parameters
        ----------
        name : str
        values : int array (n_words,)
            Heads, or codes into ``strings``.
        strings : Strings, optional
            Table of the new codes; by default the present one. Not used for heads.

        Returns
        -------
        Treebank
        """
        tables = self.strings
        if strings is not None:
            tables = {**tables, name: strings}
        columns: dict[str, Any] = {name: np.ascontiguousarray(values, np.int32)}
        return replace(self, strings=tables, changed=self.changed | {name}, **columns)

    def with_trees(self, heads: np.ndarray) -> "Treebank":
        """Replace the heads by those of other trees.

        Unlike by :meth:`with_column`, what else the text holds of the old trees is not written:
        enhanced dependencies and empty nodes of CoNLL-U, and PHEAD and PDEPREL of CoNLL-X.

        Parameters
        ----------
        heads : int array (n_words,)

        Returns
        -------
        Treebank
        """
        changed = self.with_column("heads", heads)
        return replace(changed, changed=changed.changed.union(layouts.COLUMNS_OF_OLD_TREES))

    def with_strings(self, name: str, values: Iterable[str]) -> "Treebank":
        """Replace a column by strings.

        Parameters
        ----------
        name : str
        values : iterable of n_words str

        Returns
        -------
        Treebank
        """
        strings = Strings()
        return self.with_column(name, strings.codes(list(values), grow=True), strings)

    @classmethod
    def concatenate(cls, treebanks: Iterable["Treebank"]) -> "Treebank":
        """Join treebanks.

        The result has no text if one of them has none, or if their formats differ.

        Parameters
        ----------
        treebanks : iterable of Treebank
            At least one. Shared tables of strings are kept, other tables are merged.

        Returns
        -------
        Treebank
        """
        blocks: list[Any] = list(treebanks)
        if len(blocks) == 1:
            return blocks[0]
        first = blocks[0]
        columns: dict[str, Any] = {"heads": np.concatenate([block.heads for block in blocks])}
        strings = {}
        for name in FIELDS:
            table = first.strings[name]
            codes = [block.codes(name) for block in blocks]
            if any(block.strings[name] is not table for block in blocks):
                table = table.copy()
                for i, block in enumerate(blocks):
                    new_codes = table.codes(block.strings[name].tolist(), grow=True)
                    codes[i] = new_codes[codes[i]]
            strings[name] = table
            columns[name] = np.concatenate(codes)
        columns["offsets"] = running_sum(np.concatenate([block.lengths for block in blocks]))
        if all(block.text is not None and block.format == first.format for block in blocks):
            lengths = [np.diff(block.text_offsets) for block in blocks]
            columns["text"] = b"".join(block.text for block in blocks)
            columns["text_offsets"] = running_sum(np.concatenate(lengths))
            columns["format"] = first.format
        changed = frozenset[str]().union(*(block.changed for block in blocks))
        return cls(strings=strings, changed=changed, **columns)

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sentence],
        *,
        strings: dict[str, Strings] | None = None,
        trees: bool | str = "given",
        single_root: bool = False,
    ) -> "Treebank":
        """Make a treebank from sentences.

        Parameters
        ----------
        sentences : iterable of Sentence
            An empty column means ``_`` for every word.
        strings : dict of str to Strings, optional
            Tables of another treebank, to share and extend.
        trees, single_root
            See :func:`~omkl.data.read_treebank`.

        Returns
        -------
        Treebank

        Raises
        ------
        omkl.exceptions.InputError
            If the columns of a sentence differ in length, a string contains a tab or a line break,
            or heads are not a tree. The message names sentence and word, both counted from 1.
        """
        strings = new_strings(strings)
        values: dict[str, list] = {name: [] for name in layouts.COLUMNS}
        lengths = []
        for number, sentence in enumerate(sentences, 1):
            columns = sentence.__getstate__()
            flaw = _flaw(columns)
            if flaw:
                raise InputError(f"Sentence {number}{flaw}.")
            n_words = max(map(len, columns.values()))
            lengths.append(n_words)
            for name, column in columns.items():
                missing: Any = jit.NO_HEAD if name == "heads" else MISSING
                values[name] += [missing if value is None else value for value in column]
                if not len(column):
                    values[name] += [missing] * n_words
        codes: dict[str, Any] = {
            name: strings[name].codes(values[name], grow=True) for name in FIELDS
        }
        offsets = running_sum(lengths)
        heads = np.array(values["heads"], np.int32)
        check_heads(offsets, heads, trees, single_root)
        return cls(strings=strings, offsets=offsets, heads=heads, **codes)


def new_strings(strings: dict[str, Strings] | None = None) -> dict[str, Strings]:
    """Check that there is a table of strings for each of :data:`FIELDS`; None makes new tables."""
    if strings is None:
        return {name: Strings() for name in FIELDS}
    are_tables = all(isinstance(table, Strings) for table in strings.values())
    if set(strings) != set(FIELDS) or not are_tables:
        raise InputError(f"`strings` must hold a Strings for each of {', '.join(FIELDS)}.")
    return strings


def running_sum(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return offsets ``0, lengths[0], lengths[0] + lengths[1], ...``"""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _flaw(columns: dict[str, Sequence]) -> str:
    """Describe the first error in the columns of a sentence; empty if there is none."""
    for name, column in columns.items():
        if isinstance(column, str) or not isinstance(column, Collection):
            return f" has {column!r:.60} as its {name}: give a list, one for each word"
    n = max(map(len, columns.values()))
    if n == 0:
        return " has no words: leave it out"
    for name, column in columns.items():
        if len(column) not in (0, n):
            return f" has {n} words, but {len(column)} {name}"
        for word, value in enumerate(column, 1):
            if name == "heads":
                needed = "the number of a word, 0 or None"
                is_fit = isinstance(value, (int, np.integer)) and 0 <= value < 10**jit.MOST_DIGITS
            else:
                needed = "a string of one line in UTF-8"
                is_fit = isinstance(value, str) and not _UNFIT.search(value)
            if value is not None and not is_fit:
                return f", word {word}: {value!r:.60} among {name} is not {needed}"
    return ""


def check_heads(
    offsets: np.ndarray, heads: np.ndarray, trees: bool | str, single_root: bool = False
) -> None:
    """Raise InputError that names sentence and word unless heads satisfy ``trees``.

    See :func:`~omkl.data.stream_conllu`; ``offsets`` (n_sentences + 1,), ``heads`` (n_words,).
    """
    is_bad = layouts.bad_trees(offsets, heads, trees, single_root)
    if is_bad.any():
        i = int(np.argmax(is_bad))
        heads_of_sentence = heads[offsets[i] : offsets[i + 1]].tolist()
        word, reason = layouts.explain_heads(heads_of_sentence, trees, single_root)
        raise InputError(f"Sentence {i + 1}, word {word}: {reason}")
