"""Tokens that are words, whose features are found by themselves, and tokens that are lists of attributes.

Both are short for dicts, and go to the same :class:`~omkl.estimators.vocabulary.Vocabulary`: a word for what
:func:`omkl.features.token_features` makes of it, the attribute ``name=value`` for the entry ``value`` of ``name``. What
is the same for every occurrence of a word or an attribute is found out once and kept.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from threading import Lock

import numpy as np

from omkl.estimators import _jit_words as jit
from omkl.estimators.vocabulary import CHUNK, Vocabulary
from omkl.exceptions import InputError
from omkl.features import BEGIN, BETWEEN, END, REACH, TEMPLATES
from omkl.groups import Features

SINGLE = [template for template in TEMPLATES if len(template.offsets) == 1]
PAIRS = [template for template in TEMPLATES if len(template.offsets) == 2]
#: The column of a window that each template of single words looks at.
COLUMNS = np.array([template.offsets[0] + REACH for template in SINGLE], dtype=np.int64)
#: Different words, or attributes, that are remembered; where there are more, all are forgotten.
MOST_REMEMBERED = 1 << 20
#: Words encoded at a time where nothing is learned.
LONG_CHUNK = 1 << 16
# threads may predict with one model: only one of them at a time changes what is remembered
_LOCK = Lock()


class Words(list):
    """The words of all sequences, one after the other: each token is one string."""

    def keys(self) -> list[str]:
        """Names of all features."""
        return [template.name for template in TEMPLATES]


class AttributeLists(list):
    """Attributes of the tokens of all sequences, one after the other: each token is a list of strings."""

    def keys(self) -> list[str]:
        """Names of all features."""
        return list(dict.fromkeys(split_attribute(attribute)[0] for attribute in chain.from_iterable(self)))


def split_attribute(attribute: str) -> tuple[str, str]:
    """``(name, value)`` of ``name=value``; the value of an attribute without ``=`` is empty."""
    name, _, value = attribute.partition("=")
    return name, value


class _KnownWords:
    """What is remembered of each word by its code, the order in which they came; 0 and 1 are before and after all."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.words: list[str] = []
        self.ids = np.zeros((0, len(SINGLE)), np.int32)
        self.hashes = self.powers = np.zeros(0, np.uint64)
        self.has_unknown = False  # whether values were looked up that the vocabulary did not have
        self.of([BEGIN, END])

    def of(self, words: Sequence[str]) -> np.ndarray:
        """Codes of words; new ones are remembered."""
        found = list(map(self.codes.get, words))
        if None in found:
            new = [word for word in dict.fromkeys(words) if word not in self.codes]
            self.codes.update(zip(new, range(len(self.words), len(self.words) + len(new))))
            first = len(self.words)
            self.words += new
            if len(self.words) > len(self.ids):
                room = ((0, len(self.words) + len(self.ids) // 2), (0, 0))
                self.ids = np.pad(self.ids, room, constant_values=jit.UNSEEN)
                self.hashes, self.powers = np.pad(self.hashes, room[0]), np.pad(self.powers, room[0])
            own = slice(first, len(self.words))
            self.hashes[own], self.powers[own] = _hashed([word.lower() for word in new])
            found = list(map(self.codes.get, words))
        return np.array(found, dtype=np.int64)


class _Pairs:
    """Ids of the known values of a template of two words, by their hash."""

    def __init__(self) -> None:
        self.n_known = 0
        self.keys, self.ids = np.zeros(4, np.uint64), np.full(4, -1, np.int32)

    def update(self, known: dict[str | None, int]) -> None:
        """Take in what has come to the values of the vocabulary, which keeps them in the order in which they came."""
        if len(known) == self.n_known:
            return
        if 2 * len(known) > len(self.keys):
            capacity = 1 << (4 * len(known)).bit_length()
            self.keys, self.ids, self.n_known = np.zeros(capacity, np.uint64), np.full(capacity, -1, np.int32), 0
        new = list(known)[self.n_known :]
        ids = np.array(list(known.values())[self.n_known :], dtype=np.int32)
        jit.insert(_hashed(new)[0], ids, self.keys, self.ids)
        self.n_known = len(known)


def _hashed(strings: Sequence[str | None]) -> tuple[np.ndarray, np.ndarray]:
    """Hash of each string, and the power of the base that its length stands for."""
    encoded = [(string or "").encode("utf-8", "surrogatepass") for string in strings]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    hashes, powers = np.empty(len(encoded), np.uint64), np.empty(len(encoded), np.uint64)
    jit.hash_strings(np.frombuffer(b"".join(encoded), np.uint8), ends, hashes, powers)
    return hashes, powers


class WordEncoder:
    """Features of words, the same as of the dicts of :func:`omkl.features.token_features`, bit for bit.

    Parameters
    ----------
    vocabulary : Vocabulary
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._remembered = _KnownWords()
        self._n_known = len(vocabulary.groups)
        self._pairs = {template.name: _Pairs() for template in PAIRS}

    def encode(self, words: Words, offsets: np.ndarray, grow: bool) -> Features:
        """Features of the words of the sequences ``offsets[s] : offsets[s + 1]``; new ones are learned if ``grow``."""
        with _LOCK:
            known = self._still_known(grow)
            around = np.empty((len(words), 2 * REACH + 1), np.int64)
            jit.windows(known.of(words), offsets, REACH, 0, 1, around)
            chunk = CHUNK if grow else LONG_CHUNK
            ids = np.empty((len(words), len(TEMPLATES)), np.int32)
            for low in range(0, len(words), chunk):
                part = slice(low, low + chunk)
                self._single(around[part], ids[part, : len(SINGLE)], known, grow)
                for t, template in enumerate(PAIRS, len(SINGLE)):
                    ids[part, t] = self._pair(template, around[part], known, grow)
            self._n_known = len(self.vocabulary.groups)
        present = ids >= 0
        starts = np.zeros(len(words) + 1, np.int64)
        np.cumsum(present.sum(axis=1), out=starts[1:])
        return Features(starts, ids[present], np.ones(starts[-1]))

    def _still_known(self, grow):
        """What is remembered, unless values that were unknown may be known now, or are to be learned."""
        known = self._remembered
        grown = len(self.vocabulary.groups) != self._n_known
        if (known.has_unknown and (grow or grown)) or len(known.words) > MOST_REMEMBERED:
            known = self._remembered = _KnownWords()
        known.has_unknown |= not grow
        return known

    def _single(self, around, ids, known, grow):
        """Ids of the features of single words into ``ids``, (n, templates)."""
        if not jit.gather(around, COLUMNS, known.ids, ids):
            return
        for t, template in enumerate(SINGLE):
            unseen = np.flatnonzero(ids[:, t] == jit.UNSEEN)
            codes = around[unseen, COLUMNS[t]]
            distinct = list(dict.fromkeys(codes.tolist()))
            if distinct:
                values = [template.property(known.words[code]) for code in distinct]
                known.ids[distinct, t] = self._look_up(template.name, values, grow)
                ids[unseen, t] = known.ids[codes, t]

    def _pair(self, template, around, known, grow):
        """Ids of the features of a template of two words, (n,)."""
        pairs, name = self._pairs[template.name], template.name
        pairs.update(self.vocabulary.ids.get(name, {}))
        ids = np.empty(len(around), np.int32)
        left, right = (offset + REACH for offset in template.offsets)
        between = np.uint64(ord(BETWEEN) + 1)
        missing = jit.look_up_pairs(
            around, left, right, known.hashes, known.powers, between, pairs.keys, pairs.ids, ids
        )  # fmt: skip
        if missing and grow:
            where = np.flatnonzero(ids < 0)
            words = [[template.property(known.words[code]) for code in around[where, at]] for at in (left, right)]
            ids[where] = self._look_up(name, list(map(BETWEEN.join, zip(*words))), grow)
        return ids

    def _look_up(self, name, values, grow):
        """The id of each value, -1 where it is unknown or false."""
        if not grow and name not in self.vocabulary.ids:
            return np.full(len(values), -1, np.int32)
        [(_, ids, amounts)] = self.vocabulary.look_up(name, values, grow)
        return ids if amounts is None else np.where(amounts == 0.0, -1, ids)


class AttributeEncoder:
    """Features of lists of attributes.

    Parameters
    ----------
    vocabulary : Vocabulary
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._remembered: dict[str, int] = {}
        self._n_known, self._has_unknown = len(vocabulary.groups), False

    def encode(self, tokens: AttributeLists, offsets: np.ndarray, grow: bool) -> Features:
        """Features of tokens, of an attribute as often as it is there; new ones are learned if ``grow``."""
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        attributes = list(chain.from_iterable(tokens))
        with _LOCK:
            grown = len(self.vocabulary.groups) != self._n_known
            if (self._has_unknown and (grow or grown)) or len(self._remembered) > MOST_REMEMBERED:
                self._remembered, self._has_unknown = {}, False
            try:
                self._remember(attributes, grow)
            except (TypeError, AttributeError):
                raise InputError("The attributes of a token must be strings, as in ['w=the', 'suffix=he'].") from None
            self._has_unknown |= not grow
            self._n_known = len(self.vocabulary.groups)
            ids = np.fromiter(map(self._remembered.__getitem__, attributes), np.int32, len(attributes))
        known, where = ids >= 0, np.repeat(np.arange(len(tokens)), lengths)
        starts = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(np.bincount(where[known], minlength=len(tokens)), out=starts[1:])
        return Features(starts, ids[known], np.ones(starts[-1]))

    def _remember(self, attributes: Iterable[str], grow: bool) -> None:
        new = [attribute for attribute in dict.fromkeys(attributes) if attribute not in self._remembered]
        of_name: dict[str, list[tuple[str, str]]] = {}
        for attribute in new:
            name, value = split_attribute(attribute)
            of_name.setdefault(name, []).append((attribute, value))
        for name, pairs in of_name.items():
            names, values = zip(*pairs)
            ids = [-1] * len(values)
            if grow or name in self.vocabulary.ids:
                [(_, found, _)] = self.vocabulary.look_up(name, list(values), grow)
                ids = found.tolist()
            self._remembered.update(zip(names, ids))
