"""Vocabulary: encoding of dicts and lists of attributes as sparse features.

A token is a dict, and each key is a group. A string gives the feature ``key=value``, and a number
the feature ``key`` with that value; True is 1 and False is 0. A list or set of strings gives one
feature each, a dict gives ``key=subkey`` with its number, and None gives no feature. Arrays and
lists of numbers are vectors for kernels. A token can also be a list of attributes, ``"key=value"``,
``"key:value"``, ``"key"`` for the number 1, or pairs of an attribute and a number.

The numbers of a key are divided by their scale, a power of two that is learned from its first
values, so that the units of numbers do not matter.
"""

import re
import reprlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from omkl._components import warn_caller
from omkl.exceptions import DataWarning, InputError
from omkl.groups.tokens import NO_FEATURES, Features
from omkl.persistence import Arrays, pack_json, unpack_json

#: Value of the feature of numbers in the vocabulary of a key; all other values are strings.
NUMBER = None
NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
#: Types of numbers that need no further checks if they are smaller than LARGE.
PLAIN_NUMBERS = {bool, int, float, np.float64}
LARGE = 2.0**53
#: Maximum magnitude of numbers.
LARGEST = 1e100
#: Number of tokens to encode at a time, so that their strings stay in the CPU cache.
CHUNK = 1024
#: Maximum number of tokens for which function calls dominate the time.
FEW = 32
#: A key or column is missing if the probability of its being absent by chance is below this level.
CHANCE = 1e-6

#: Matches attributes with a value. The key ends at the first "=", or without one at the last ":"
#: that is not the second of two, nor within a number or an address ("12:30", "http://").
ATTRIBUTE = re.compile(r"([^=]+)=(.*)|([^=]+)(?<!:):(?!//)(?!(?<=\d:)\d)([^=]*)", re.DOTALL)

#: Value of an entry of a token.
Value: TypeAlias = str | float | np.generic | Mapping[str, float] | Collection[str] | None
#: A token as a dict of its entries.
Token: TypeAlias = dict[str, Any]
#: Ids of the values of a key; None is :data:`NUMBER`.
Ids: TypeAlias = dict[str | None, int]


class AttributeLists(list):
    """Concatenated tokens of all sequences, each a list of attributes."""

    def keys(self) -> list[str]:
        """Return the keys of the features."""
        keys = {}
        for attribute in dict.fromkeys(chain.from_iterable(self)):
            name = attribute if isinstance(attribute, str) else attribute[0]
            keys[split_attribute(name)[0]] = None
        return list(keys)


class KeyFeatures(NamedTuple):
    """Features of one key, at most one of each value in a token.

    Attributes
    ----------
    tokens : int array of shape (n,), or None
        Indices of their tokens; None if each token has one feature.
    ids : int32 array of shape (n,)
        Ids; -1 for unknown values.
    values : float array of shape (n,), or None
        Values of the features; None if all are 1.
    """

    tokens: np.ndarray | None
    ids: np.ndarray
    values: np.ndarray | None

    def n_tokens(self, n_all: int) -> int:
        """Return how many of ``n_all`` tokens have features of the key."""
        if self.tokens is None:
            return n_all
        return len(np.unique(self.tokens))


class Vocabulary:
    """Feature ids by key and value, in the order of first appearance.

    Parameters
    ----------
    first_id : int
        Id of the first feature.

    Attributes
    ----------
    keys : list of str
        Keys in the order of their groups.
    ids : dict of str to dict
        Ids of the values of each key (:data:`NUMBER` for numbers).
    groups : array of int
        Index of the key of each feature.
    units : dict of str to float
        Divisor of the numbers of a key.
    n_tokens : int
        Number of tokens that were encoded first.
    counts : dict of str to int
        Number of these with each key.
    """

    def __init__(self, first_id: int = 0) -> None:
        self.keys: list[str] = []
        self.ids: dict[str, Ids] = {}
        self.groups = array("i")
        self.units: dict[str, float] = {}
        self.n_tokens = 0
        self.counts = Counter[str]()
        self.first_id = first_id
        self._next_id = count(first_id).__next__
        #: Keys for which a warning has told that they hold text and numbers.
        self._keys_of_two_kinds: set[str] = set()
        #: Ids of features by ``key=value``, for lists of attributes.
        self._ids_of_attributes: dict[str, int] = {}

    def __reduce__(self) -> tuple:
        return Vocabulary.from_state, (self.keys, self.first_id, self.state())

    def merge(self, other: "Vocabulary") -> None:
        """Add the keys, values and units of another vocabulary, in its order.

        The result is as if the tokens of the other vocabulary were encoded next.
        """
        for key in other.keys:
            if key not in self.ids:
                self._add_key(key)
        groups = {key: group for group, key in enumerate(self.keys)}
        for key, value in other.names():
            ids = self.ids[key]
            if value not in ids:
                ids[value]  # assigns the next id
                self.groups.append(groups[key])
        self.units = other.units | self.units
        self.add_counts(other.counts, other.n_tokens)

    def is_text(self, key: str) -> bool:
        """Check whether all known values of a key are strings."""
        ids = self.ids.get(key, {})
        return len(ids) > 0 and NUMBER not in ids

    def add_counts(self, counts: Mapping[str, int], n_tokens: int) -> None:
        """Count tokens, and those with each key."""
        self.counts.update(counts)
        self.n_tokens += n_tokens

    def expected_in(self, n_tokens: int) -> list[str]:
        """Return the keys that are not absent from all of so many tokens by chance."""
        # the probability that a token lacks a key, by Laplace's rule of succession, is
        # (n_lacking + 1) / (n_tokens + 2)
        n = self.n_tokens + 2
        bound = CHANCE ** (1 / max(n_tokens, 1)) * n
        if bound <= 1.0:
            return []
        return [key for key in self.keys if n - 1 - self.counts[key] < bound]

    def encode(self, tokens: Sequence[Token] | AttributeLists, grow: bool) -> Features:
        """Encode tokens; ``grow`` adds new keys and values, which are skipped otherwise."""
        counts = grow and not self.n_tokens  # a resumed run encodes later blocks again
        if isinstance(tokens, AttributeLists):
            return self._encode_attributes(tokens, grow, counts)
        if 0 < len(tokens) <= FEW:
            features_of_few = self._encode_few(tokens, grow)
            if features_of_few is not None:
                if counts:
                    self.add_counts(dict.fromkeys(tokens[0], len(tokens)), len(tokens))
                return features_of_few
        chunks = [NO_FEATURES]
        for low in range(0, len(tokens), CHUNK):
            chunk = tokens[low : low + CHUNK]
            features = {}
            for key, column in _columns(chunk):
                if grow or key in self.ids:
                    features[key] = self.look_up(key, column, grow)
            chunks.append(_by_token(list(features.values()), len(chunk)))
            if counts:
                n_by_key = {key: of_key.n_tokens(len(chunk)) for key, of_key in features.items()}
                self.add_counts(n_by_key, len(chunk))
        return _features_of_lengths(
            np.concatenate([np.diff(features.starts) for features in chunks]),
            np.concatenate([features.ids for features in chunks]),
            np.concatenate([features.values for features in chunks]),
        )

    def _encode_attributes(self, tokens: AttributeLists, grow: bool, counts: bool) -> Features:
        """Encode lists of attributes, with features in the order of attributes."""
        attributes = list(chain.from_iterable(tokens))
        values = np.ones(len(attributes))
        has_numbers = not set(map(type, attributes)) <= {str}
        number_of_new = 1.0
        if has_numbers:
            attributes, values = _names_and_values(attributes)
            number_of_new = 0.0  # leaves the unit to be set by their values, below
        new_numbers = self._learn_attributes(attributes, grow, number_of_new)
        ids_of_attributes = self._ids_of_attributes
        get_ids = map(ids_of_attributes.get, attributes, repeat(-1))
        ids = np.fromiter(get_ids, np.int32, len(attributes))
        if has_numbers:
            for key in new_numbers:
                self._in_units(key, values[ids == ids_of_attributes[key]], grow)
        for key, unit in self.units.items():
            if unit != 1.0:
                values[ids == self.ids[key][NUMBER]] /= unit
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        token_of_feature = np.repeat(np.arange(len(tokens)), lengths)
        if counts:  # a token may have several attributes of one key
            n_keys = max(len(self.keys), 1)
            groups = np.frombuffer(self.groups, np.int32)[ids - self.first_id]
            n_by_key = np.bincount(np.unique(token_of_feature * n_keys + groups) % n_keys)
            self.add_counts(dict(zip(self.keys, n_by_key.tolist())), len(tokens))
        return _sorted_by_token(token_of_feature, ids, values, len(tokens))

    def _learn_attributes(self, attributes: list[str], grow: bool, number: float) -> list[str]:
        """Look up the ids of attributes that were not seen before.

        Attributes without a value are looked up with this ``number``. Returns the keys of the new
        ones of these.
        """
        new = defaultdict[str, dict[str, str | float]](dict)
        new_numbers = []
        for attribute in dict.fromkeys(attributes):
            if attribute in self._ids_of_attributes:
                continue
            key, value = split_attribute(attribute)
            if not grow:
                feature = self.ids.get(key, {}).get(value)
                if feature is not None:
                    self._ids_of_attributes[attribute] = feature
            elif value is NUMBER:
                new[key][attribute] = number
                new_numbers.append(key)
            else:
                new[key][attribute] = value
        for key, value_of in new.items():
            ids = self.look_up(key, list(value_of.values()), grow).ids
            self._ids_of_attributes.update(zip(value_of, ids.tolist()))
        return new_numbers

    def _encode_few(self, tokens: Sequence[Token], grow: bool) -> Features | None:
        """Encode a few tokens, with less overhead than key by key.

        Returns None unless all tokens have the same keys in the same order with strings and numbers
        only, and nothing must be added to the vocabulary or be warned about.
        """
        keys = tuple(tokens[0])
        ids_and_units = [(self.ids.get(key, {}), self.units.get(key)) for key in keys]
        lengths = []
        features: list[int] = []
        amounts = []
        for token in tokens:
            if tuple(token) != keys:
                return None
            start = len(features)
            for (ids, unit), value in zip(ids_and_units, token.values()):
                if type(value) is str:
                    feature = ids.get(value)
                    amount = 1.0
                    if feature is None and (grow or NUMBER in ids):
                        return None
                elif (
                    type(value) in PLAIN_NUMBERS
                    and -LARGE < value < LARGE
                    and unit
                    and NUMBER in ids
                ):
                    feature = ids[NUMBER]
                    amount = value / unit
                else:
                    return None
                if feature is not None and amount:
                    features.append(feature)
                    amounts.append(amount)
            lengths.append(len(features) - start)
        ids_of_few = np.array(features, np.int32)
        return _features_of_lengths(np.array(lengths), ids_of_few, np.array(amounts, np.float64))

    def look_up(self, key: str, column: list, grow: bool) -> KeyFeatures:
        """Encode the values of one key, one per token; ``grow`` adds a new key and new values."""
        if key in self.ids:
            ids = self.ids[key]
        else:
            ids = self._add_key(key)
        n_old = len(ids)
        try:
            return self._features_of(key, column, ids, grow)
        finally:
            self.groups.extend([self.keys.index(key)] * (len(ids) - n_old))

    def _features_of(self, key: str, column: list, ids: Ids, grow: bool) -> KeyFeatures:
        """Encode the values of one key, whose ``ids`` grow with new ones."""
        types = set(map(type, column))
        if types == {str}:
            if NUMBER in ids and len(ids) == 1:
                self._warn_of_kind(key, "text", "numbers")
            return KeyFeatures(None, _look_up(column, ids, grow), None)
        if types <= set(NUMBERS):
            numbers = _finite(key, np.array(column, dtype=np.float64))
            if ids and NUMBER not in ids and numbers.any():
                self._warn_of_kind(key, "numbers", "text")
            repeated = np.repeat(_look_up([NUMBER], ids, grow), len(column))
            return KeyFeatures(None, repeated, self._in_units(key, numbers, grow))
        tokens = []
        names = []
        amounts = []
        for token, value in enumerate(column):
            for name, amount in _named_values(key, value):
                tokens.append(token)
                names.append(name)
                amounts.append(amount)
        # check values before adding them to the vocabulary
        values = _finite(key, np.array(amounts, dtype=np.float64))
        are_numbers = [k for k, name in enumerate(names) if name is NUMBER]
        values[are_numbers] = self._in_units(key, values[are_numbers], grow)
        return KeyFeatures(np.array(tokens, dtype=np.int64), _look_up(names, ids, grow), values)

    def _warn_of_kind(self, key: str, kind: str, learned_kind: str) -> None:
        """Warn that a key holds values of another kind than before, once for each key."""
        if key not in self._keys_of_two_kinds:
            self._keys_of_two_kinds.add(key)
            warn_caller(
                f"The entry {key!r:.80} holds {kind}, and was learned from {learned_kind}: "
                "its values are unknown.",
                DataWarning,
            )

    def _add_key(self, key: Hashable) -> Ids:
        if not isinstance(key, str):
            raise InputError(f"The keys of token dicts must be strings, got {key!r}.")
        self.keys.append(key)
        # the lookup of a new value assigns the next id
        self.ids[key] = defaultdict(self._next_id)
        return self.ids[key]

    def _in_units(self, key: str, numbers: np.ndarray, grow: bool) -> np.ndarray:
        """Divide the numbers of a key by its unit.

        The unit is the root mean square of the first numbers that are not all zero. It is rounded
        to a power of two, so that the division is exact.
        """
        if grow and key not in self.units and numbers.any():
            sizes = np.abs(numbers[numbers != 0.0])
            root = np.log2(sizes.max()) + 0.5 * np.log2(np.mean(np.square(sizes / sizes.max())))
            self.units[key] = float(2.0 ** np.clip(np.round(root), -1000, 1000))
        return numbers / self.units.get(key, 1.0)

    # ---- names and files -------------------------------------------------------------------------

    def names(self) -> list[tuple[str, str | None]]:
        """Return ``(key, value)`` of every feature, by id; the value is None for numbers."""
        names: list[Any] = [None] * len(self.groups)
        for key, ids in self.ids.items():
            for value, i in ids.items():
                names[i - self.first_id] = (key, value)
        return names

    def names_of(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the names of features by id: ``key=value``, or the key for numbers."""
        names = self.names()
        names_of = {}
        for i in ids:
            key, value = names[i - self.first_id]
            if value is NUMBER:
                names_of[i] = key
            else:
                names_of[i] = f"{key}={value}"
        return names_of

    def state(self, saved: np.ndarray | None = None) -> Arrays:
        """Return values, keys and units as arrays; ``saved`` is a mask of the features to save."""
        features = np.arange(len(self.groups))
        if saved is not None:
            features = np.flatnonzero(saved)
        names = self.names()
        values = [names[i][1] for i in features.tolist()]
        units = [self.units.get(key, 0) for key in self.keys]
        counts = [self.counts.get(key, 0) for key in self.keys]
        return {
            "learned": pack_json([values, units, counts, self.n_tokens]),
            "groups": np.array(self.groups, dtype=np.int32)[features],
        }

    @classmethod
    def from_state(cls, keys: Sequence[str], first_id: int, state: Arrays) -> "Vocabulary":
        """Create a vocabulary from its keys and :meth:`state`."""
        vocabulary = cls(first_id)
        groups = state["groups"].tolist()
        values, units, counts, n_tokens = unpack_json(state["learned"])
        vocabulary.units = {key: unit for key, unit in zip(keys, units) if unit}
        vocabulary.add_counts(dict(zip(keys, counts)), n_tokens)
        vocabulary._next_id = count(first_id + len(values)).__next__
        vocabulary.groups.extend(groups)
        ids = [vocabulary._add_key(key) for key in keys]
        for i, (value, group) in enumerate(zip(values, groups, strict=True), first_id):
            ids[group][value] = i
        return vocabulary


def _names_and_values(attributes: list[Any]) -> tuple[list[str], np.ndarray]:
    """Split and validate attributes, some of which are pairs of an attribute and a number."""
    names = []
    values = []
    for attribute in attributes:
        if isinstance(attribute, str):
            pair = (attribute, 1.0)
        else:
            pair = attribute
        is_pair = isinstance(pair, tuple) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], str) or not isinstance(pair[1], NUMBERS):
            accepted = "strings or pairs of a string and a number, as in ['w=the', ('length', 3)]"
            raise InputError(
                f"The attributes of a token must be {accepted}, got {reprlib.repr(pair)}."
            )
        names.append(pair[0])
        values.append(pair[1])
    numbers = np.array(values, np.float64)
    return names, _finite(names[np.argmin(np.abs(numbers) <= LARGEST)], numbers)


def split_attribute(attribute: str) -> tuple[str, str | None]:
    """Return key and value of an attribute; without a value, it is a key of a :data:`NUMBER`.

    >>> split_attribute("word:main"), split_attribute("next:word:main")
    (('word', 'main'), ('next:word', 'main'))
    >>> split_attribute("url=http://x"), split_attribute("bias"), split_attribute(":")
    (('url', 'http://x'), ('bias', None), (':', None))
    """
    match = ATTRIBUTE.fullmatch(attribute)
    if match is None:
        return attribute, NUMBER
    key, value, key_before_colon, value_after_colon = match.groups()
    if key is None:
        return key_before_colon, value_after_colon
    return key, value


def flattened(tokens: list[Token]) -> list[Token]:
    """Flatten nested dicts, and gather numbers of attributes by key.

    As in python-crfsuite, ``"next": {"word": "the"}`` is ``"next:word": "the"``. A number of an
    attribute with a value, ``"word:the": 2.0`` or ``"word=the": 2.0``, is ``"word": {"the": 2.0}``.
    """
    types = set(map(type, chain.from_iterable(map(dict.values, tokens))))
    attributes = [key for key in set().union(*tokens) if ATTRIBUTE.fullmatch(str(key))]
    values_of_attributes = (token.get(key) for token in tokens for key in attributes)
    if dict not in types and not any(map(_is_weight, values_of_attributes)):
        return tokens
    flat_tokens: list[Token] = []
    for token in tokens:
        flat_tokens.append({})
        _add_entries(flat_tokens[-1], token)
    return flat_tokens


def _is_weight(value: Value) -> bool:
    """Check for a number that is no boolean."""
    return isinstance(value, NUMBERS) and not isinstance(value, (bool, np.bool_))


def _add_entries(flat: Token, token: Token, path: str = "") -> None:
    """Add the entries of a token, or of a dict in it at this ``path``, to ``flat``.

    A dict of numbers alone is a value. Of any other dict, numbers are gathered at its path, and
    other values get longer paths. Numbers of attributes are gathered at the key of the attribute.
    """
    for key, value in token.items():
        flat_key: Any = key
        if path:
            flat_key = f"{path}{key}"
        if isinstance(value, dict):
            if not all(isinstance(amount, NUMBERS) for amount in value.values()):
                _add_entries(flat, value, f"{flat_key}:")
                continue
        elif path and isinstance(value, NUMBERS):
            flat_key = path[:-1]
            value = {key: value}
        elif _is_weight(value) and isinstance(key, str):
            flat_key, name = split_attribute(key)
            if name is not NUMBER:
                value = {name: value}
        if flat_key not in flat and not isinstance(value, dict):
            flat[flat_key] = value
            continue
        amounts = flat.get(flat_key)
        if not isinstance(amounts, dict):
            amounts = flat[flat_key] = dict(_named_values(flat_key, amounts))
        for name, amount in _named_values(flat_key, value):
            amounts[name] = amounts.get(name, 0.0) + amount


def _columns(tokens: Sequence[Token]) -> list[tuple[str, list]]:
    """Return ``(key, values of all tokens)`` of every key; missing values are None."""
    keys = tuple(tokens[0])
    if all(map(keys.__eq__, map(tuple, tokens))):
        # all tokens have the same keys in the same order
        values = list(chain.from_iterable(map(dict.values, tokens)))
        return [(key, values[k :: len(keys)]) for k, key in enumerate(keys)]
    columns = []
    for key in dict.fromkeys(chain.from_iterable(tokens)):
        columns.append((key, [token.get(key) for token in tokens]))
    return columns


def _look_up(names: Sequence[str | None], ids: Ids, grow: bool) -> np.ndarray:
    """Return the ids of values, (n,) int32; unknown values are added if ``grow``, else -1."""
    looked_up = map(ids.__getitem__, names) if grow else map(ids.get, names, repeat(-1))
    return np.fromiter(looked_up, dtype=np.int32, count=len(names))


def _named_values(key: str, value: Value) -> Iterable[tuple[str | None, float]]:
    """Return ``(name, amount)`` of each feature of an entry."""
    if value is None:
        return ()
    if isinstance(value, str):
        return ((str(value), 1.0),)
    if isinstance(value, NUMBERS):
        return ((NUMBER, float(value)),)
    if isinstance(value, dict):
        names = [name if name is NUMBER else str(name) for name in value]
        with suppress(TypeError, ValueError, OverflowError):
            return zip(names, list(map(float, value.values())))
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return [(str(name), 1.0) for name in value]
    accepted = "a string, a number, a list of strings, or in all tokens a vector"
    raise InputError(f"The feature {key!r} must be {accepted}, got {reprlib.repr(value)}.")


def _finite(key: str, values: np.ndarray) -> np.ndarray:
    """Return values, (n,), or raise InputError if one is not finite or too large."""
    are_wrong = ~(np.abs(values) <= LARGEST)
    if are_wrong.any():
        raise InputError(
            f"The feature {key!r} must be a finite number up to {LARGEST:g}, "
            f"got {values[are_wrong][0]}."
        )
    return values


def _by_token(features_by_key: list[KeyFeatures], n_tokens: int) -> Features:
    """Join the features of several keys; those of a token are in the order of keys."""
    if features_by_key and all(
        features.tokens is None and features.values is None for features in features_by_key
    ):
        return features_of_ids(np.stack([features.ids for features in features_by_key], axis=1))
    tokens = [np.zeros(0, np.int64)]
    ids = [np.zeros(0, np.int32)]
    values = [np.zeros(0)]
    for tokens_of_key, ids_of_key, values_of_key in features_by_key:
        if tokens_of_key is None:
            tokens_of_key = np.arange(n_tokens)
        if values_of_key is None:
            values_of_key = np.ones(len(ids_of_key))
        tokens.append(tokens_of_key)
        ids.append(ids_of_key)
        values.append(values_of_key)
    return _sorted_by_token(
        np.concatenate(tokens), np.concatenate(ids), np.concatenate(values), n_tokens
    )


def _sorted_by_token(
    token_of_feature: np.ndarray, ids: np.ndarray, values: np.ndarray, n_tokens: int
) -> Features:
    """Sort features by the tokens that own them, (n,), and leave out unknown and zero ones."""
    is_feature = (ids >= 0) & (values != 0.0)
    order = np.flatnonzero(is_feature)[np.argsort(token_of_feature[is_feature], kind="stable")]
    lengths = np.bincount(token_of_feature[is_feature], minlength=n_tokens)
    return _features_of_lengths(lengths, ids[order], values[order])


def features_of_ids(ids: np.ndarray) -> Features:
    """Make features with the value 1 of a table of ids, (n, k), in which -1 is no feature."""
    is_feature = ids >= 0
    lengths = is_feature.sum(axis=1)
    return _features_of_lengths(lengths, ids[is_feature], np.ones(lengths.sum()))


def _features_of_lengths(lengths: np.ndarray, ids: np.ndarray, values: np.ndarray) -> Features:
    """Make features of tokens that have these numbers of features, (number of tokens,)."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    lengths.cumsum(out=starts[1:])
    return Features(starts, ids, values)
