"""Tokens that are words, whose features are found by themselves, and tokens that are lists of attributes.

Both are short for dicts, and go to the same :class:`~omkl.estimators.vocabulary.Vocabulary`: a word for what
:func:`omkl.features.token_features` makes of it, the attribute ``name=value`` for the entry ``value`` of ``name``, and
``name`` alone for the number 1. What is the same for every occurrence of a word or an attribute is found out once and
kept.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np

from omkl.estimators import _jit_words as jit
from omkl.estimators.vocabulary import CHUNK, NUMBER, Vocabulary
from omkl.exceptions import InputError
from omkl.features import BEGIN, BETWEEN, END, REACH, TEMPLATES
from omkl.groups import Features

SINGLE = [template for template in TEMPLATES if len(template.offsets) == 1]
PAIRS = [template for template in TEMPLATES if len(template.offsets) == 2]
#: The column of a window that each template of single words looks at, and those that each template of two does.
COLUMNS = np.array([template.offsets[0] + REACH for template in SINGLE], dtype=np.int64)
LEFT, RIGHT = (np.array([template.offsets[k] + REACH for template in PAIRS], dtype=np.int64) for k in (0, 1))
#: What keeps values of different templates of two words apart.
SALTS = np.arange(1, len(PAIRS) + 1, dtype=np.uint64) * jit.BASE
#: Different words, or attributes, that are remembered; where there are more, all are forgotten.
MOST_REMEMBERED = 1 << 20
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


def split_attribute(attribute: str) -> tuple[str, str | None]:
    """``(name, value)`` of ``name=value``; an attribute without ``=`` has no value, as a number has none."""
    name, equals, value = attribute.partition("=")
    return name, value if equals else NUMBER


class _KnownWords:
    """What is remembered of each word by its code, the order in which they came; 0 and 1 are before and after all."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.codes: dict[str, int] = {}
        self.words: list[str] = []
        self.ids = np.zeros((0, len(SINGLE)), np.int32)
        self.hashes = self.powers = np.zeros(0, np.uint64)
        self.has_unknown = False  # whether values were looked up that the vocabulary did not have
        self._vocabulary = vocabulary
        self.of([BEGIN, END], True)

    def of(self, words: Sequence[str], grow: bool) -> np.ndarray:
        """Codes of words; of new ones all features are looked up, or, if they are to be learned, none."""
        found = list(map(self.codes.get, words))
        if None in found:
            new = [word for word in dict.fromkeys(words) if word not in self.codes]
            first = len(self.words)
            own = slice(first, first + len(new))
            self.words += new
            if own.stop > len(self.ids):
                room = ((0, own.stop + len(self.ids) // 2), (0, 0))
                self.ids = np.pad(self.ids, room, constant_values=jit.UNSEEN)
                self.hashes, self.powers = np.pad(self.hashes, room[0]), np.pad(self.powers, room[0])
            self.hashes[own], self.powers[own] = _hashed([word.lower() for word in new])
            if not grow:
                self.ids[own] = list(map(self._ids_of, new))
            self.codes.update(zip(new, range(own.start, own.stop)))
            found = list(map(self.codes.get, words))
        return np.array(found, dtype=np.int64)

    def _ids_of(self, word: str) -> list[int]:
        """Ids of the features of a word by itself, -1 where the vocabulary does not have them."""
        ids = []
        for name, of, _ in SINGLE:
            value: Any = of(word)
            known = self._vocabulary.ids.get(name, {})
            ids.append(-1 if value is False else known.get(NUMBER if value is True else value, -1))
        return ids


class _Pairs:
    """Ids of the known values of templates of two words, by a hash of both and the template."""

    def __init__(self) -> None:
        self.n_known = [0] * len(PAIRS)
        self.keys, self.ids = np.zeros(4, np.uint64), np.full(4, -1, np.int32)

    def update(self, vocabulary: Vocabulary) -> None:
        """Take in what has come to the values of the vocabulary, which keeps them in the order in which they came."""
        columns = [vocabulary.ids.get(template.name, {}) for template in PAIRS]
        sizes = list(map(len, columns))
        if sizes == self.n_known:
            return
        if 2 * sum(sizes) > len(self.keys):
            capacity = 1 << (4 * sum(sizes)).bit_length()
            self.keys, self.ids = np.zeros(capacity, np.uint64), np.full(capacity, -1, np.int32)
            self.n_known = [0] * len(PAIRS)
        for salt, known, before in zip(SALTS, columns, self.n_known):
            ids = np.array(list(known.values())[before:], dtype=np.int32)
            jit.insert(_hashed(list(known)[before:])[0] ^ salt, ids, self.keys, self.ids)
        self.n_known = sizes


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
        self._remembered = _KnownWords(vocabulary)
        self._n_known = len(vocabulary.groups)
        self._pairs = _Pairs()

    def encode(self, words: Words, offsets: np.ndarray, grow: bool) -> Features:
        """Features of the words of the sequences ``offsets[s] : offsets[s + 1]``; new ones are learned if ``grow``."""
        around = np.empty((len(words), 2 * REACH + 1), np.int64)
        ids = np.empty((len(words), len(TEMPLATES)), np.int32)
        with _LOCK:
            known = self._still_known(grow)
            jit.windows(known.of(words, grow), offsets, REACH, 0, 1, around)
            chunk = CHUNK if grow else len(words)
            for low in range(0, len(words), max(chunk, 1)):
                self._fill(around[low : low + chunk], ids[low : low + chunk], known, grow)
            self._n_known = len(self.vocabulary.groups)
        starts, flat = np.empty(len(words) + 1, np.int64), np.empty(ids.size, np.int32)
        n = jit.pack(ids, starts, flat)
        return Features(starts, flat[:n], np.ones(n))

    def _still_known(self, grow):
        """What is remembered, unless values that were unknown may be known now, or are to be learned."""
        known = self._remembered
        grown = len(self.vocabulary.groups) != self._n_known
        if (known.has_unknown and (grow or grown)) or len(known.words) > MOST_REMEMBERED:
            known = self._remembered = _KnownWords(self.vocabulary)
        known.has_unknown |= not grow
        return known

    def _fill(self, around, ids, known, grow):
        """Ids of all features of the words of these windows, (n, templates); -1 where there is none."""
        self._pairs.update(self.vocabulary)
        of_pairs = LEFT, RIGHT, SALTS, known.hashes, known.powers, self._pairs.keys, self._pairs.ids
        if not jit.gather(around, COLUMNS, known.ids, *of_pairs, ids, grow):
            return
        for t, template in enumerate(SINGLE):
            unseen = np.flatnonzero(ids[:, t] == jit.UNSEEN)
            codes = around[unseen, COLUMNS[t]]
            distinct = list(dict.fromkeys(codes.tolist()))
            if distinct:
                values = [template.property(known.words[code]) for code in distinct]
                known.ids[distinct, t] = self._look_up(template.name, values, grow)
                ids[unseen, t] = known.ids[codes, t]
        for t, (name, of, _) in enumerate(PAIRS, len(SINGLE)):
            unseen = np.flatnonzero(ids[:, t] == jit.UNSEEN)
            if len(unseen):
                sides = (around[unseen, at[t - len(SINGLE)]].tolist() for at in (LEFT, RIGHT))
                words = [[of(known.words[code]) for code in codes] for codes in sides]
                ids[unseen, t] = self._look_up(name, list(map(BETWEEN.join, zip(*words))), grow)

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
        #: Values of the features that are not 1: of numbers, in units that were learned from others.
        self._amounts: dict[str, float] = {}
        self._n_known, self._has_unknown = self._n_features_and_units(), False

    def encode(self, tokens: AttributeLists, offsets: np.ndarray, grow: bool) -> Features:
        """Features of tokens, of an attribute as often as it is there; new ones are learned if ``grow``."""
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        attributes = list(chain.from_iterable(tokens))
        with _LOCK:
            grown = self._n_features_and_units() != self._n_known
            if (self._has_unknown and (grow or grown)) or len(self._remembered) > MOST_REMEMBERED:
                self._remembered, self._amounts, self._has_unknown = {}, {}, False
            try:
                self._remember(attributes, grow)
            except (TypeError, AttributeError):
                raise InputError("The attributes of a token must be strings, as in ['w=the', 'suffix=he'].") from None
            self._has_unknown |= not grow
            self._n_known = self._n_features_and_units()
            ids = np.fromiter(map(self._remembered.__getitem__, attributes), np.int32, len(attributes))
            values = np.ones(len(attributes))
            if self._amounts:
                values = np.array([self._amounts.get(attribute, 1.0) for attribute in attributes])
        known, where = ids >= 0, np.repeat(np.arange(len(tokens)), lengths)
        starts = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(np.bincount(where[known], minlength=len(tokens)), out=starts[1:])
        return Features(starts, ids[known], values[known])

    def _n_features_and_units(self) -> tuple[int, int]:
        return len(self.vocabulary.groups), len(self.vocabulary.units)

    def _remember(self, attributes: Iterable[str], grow: bool) -> None:
        new = [attribute for attribute in dict.fromkeys(attributes) if attribute not in self._remembered]
        of_name: dict[str, list[tuple[str, str | float]]] = {}
        for attribute in new:
            name, value = split_attribute(attribute)
            of_name.setdefault(name, []).append((attribute, 1.0 if value is NUMBER else value))
        for name, pairs in of_name.items():
            names, values = zip(*pairs)
            ids = [-1] * len(values)
            if grow or name in self.vocabulary.ids:
                [(_, found, amounts)] = self.vocabulary.look_up(name, list(values), grow)
                ids = found.tolist()
                if amounts is not None:
                    self._amounts |= {own: amount for own, amount in zip(names, amounts.tolist()) if amount != 1.0}
            self._remembered.update(zip(names, ids))
