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
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from omkl._components import warn_caller
from omkl.exceptions import DataWarning, InputError
from omkl.groups.tokens import Features
from omkl.persistence import pack_json, unpack_json

#: Value of the feature of numbers in the vocabulary of a key; all other values are strings.
NUMBER = None
NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
#: Types of numbers that need no further checks up to the bound.
PLAIN_NUMBERS, LARGE = {bool, int, float, np.float64}, 2.0**53
#: Maximum magnitude of numbers.
LARGEST = 1e100
#: Number of tokens to encode at a time, so that their strings stay in the CPU cache.
CHUNK = 1024
#: Maximum number of tokens for which function calls dominate the time.
FEW = 256
#: A key or column is missing if the probability of its being absent by chance is below this level.
CHANCE = 1e-6

#: Matches attributes with a value. The key ends at the first "=", or without one at the last ":"
#: that is not the second of two, nor within a number or an address ("12:30", "http://").
ATTRIBUTE = re.compile(r"([^=]+)=(.*)|([^=]+)(?<!:):(?!//)(?!(?<=\d:)\d)([^=]*)", re.DOTALL)

#: A token as a dict of its entries.
Token: TypeAlias = dict[str, Any]
#: CSR rows: their lengths, ids and values.
Rows: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


class AttributeLists(list):
    """Concatenated tokens of all sequences, each a list of attributes."""

    def keys(self) -> list[str]:
        """Keys of the features."""
        attributes = dict.fromkeys(
            own if isinstance(own, str) else own[0] for own in chain.from_iterable(self)
        )
        return list(dict.fromkeys(split_attribute(attribute)[0] for attribute in attributes))


class Part(NamedTuple):
    """Features of one key: indices of their tokens (None: one feature in each token), ids (-1:
    unknown), and values (None: all 1).
    """

    places: np.ndarray | None
    ids: np.ndarray
    values: np.ndarray | None


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
        self.ids: dict[str, dict[str | None, int]] = {}
        self.groups = array("i")
        self.units: dict[str, float] = {}
        self.n_tokens, self.counts = 0, Counter[str]()
        self.first_id = first_id
        self._next_id = count(first_id).__next__
        #: Keys for which a warning has told that they hold text and numbers.
        self._keys_of_two_kinds: set[str] = set()
        #: Ids of features by ``key=value``, for lists of attributes.
        self._of_attributes: dict[str, int] = {}

    def __reduce__(self) -> tuple:
        return Vocabulary.from_state, (self.keys, self.first_id, self.state())

    def merge(self, other: "Vocabulary") -> None:
        """Add the keys, values and units of another vocabulary, in its order, as if its tokens were
        encoded next.
        """
        for key in other.keys:
            if key not in self.ids:
                self._add_key(key)
        places = {key: k for k, key in enumerate(self.keys)}
        for key, value in other.names():
            known = self.ids[key]
            if value not in known:
                known[value]  # assigns the next id
                self.groups.append(places[key])
        self.units = other.units | self.units
        self.add_counts(other.counts, other.n_tokens)

    def is_text(self, key: str) -> bool:
        """Check whether all known values of a key are strings."""
        own = self.ids.get(key)
        return bool(own) and NUMBER not in (own or {})

    def add_counts(self, counts: Mapping[str, int], n_tokens: int) -> None:
        """Count tokens, and those with each key."""
        self.counts.update(counts)
        self.n_tokens += n_tokens

    def expected_in(self, n_tokens: int) -> list[str]:
        """Return the keys that are not absent from all of so many tokens by chance."""
        level, n = CHANCE ** (1 / max(n_tokens, 1)), self.n_tokens + 2
        # the probability that a token lacks a key, by Laplace's rule of succession
        return (
            [key for key in self.keys if n - 1 - self.counts[key] < level * n]
            if level * n > 1.0
            else []
        )

    def encode(self, tokens: Sequence[Token] | AttributeLists, grow: bool) -> Features:
        """Encode tokens; ``grow`` adds new keys and values, which are skipped otherwise."""
        counts = grow and not self.n_tokens  # a resumed run encodes later blocks again
        if isinstance(tokens, AttributeLists):
            return _joined([self._attribute_rows(tokens, grow, counts)])
        if 0 < len(tokens) <= FEW and (rows := self._known_rows(tokens, grow)) is not None:
            if counts:
                self.add_counts(dict.fromkeys(tokens[0], len(tokens)), len(tokens))
            return _joined([rows])
        chunks = []
        for low in range(0, len(tokens), CHUNK):
            chunk = tokens[low : low + CHUNK]
            columns = [(key, column) for key, column in _columns(chunk) if grow or key in self.ids]
            parts = {key: self.look_up(key, column, grow) for key, column in columns}
            chunks.append(_to_rows(list(parts.values()), len(chunk)))
            if counts:
                places = {key: part.places for key, part in parts.items()}
                n = len(chunk)
                self.add_counts(
                    {
                        key: n if own is None else len(set(own.tolist()))
                        for key, own in places.items()
                    },
                    n,
                )
        return _joined(chunks)

    def _attribute_rows(self, tokens: AttributeLists, grow: bool, counts: bool) -> Rows:
        """Encode lists of attributes as CSR rows, in the order of attributes."""
        attributes, known = list(chain.from_iterable(tokens)), self._of_attributes
        values, plain = np.ones(len(attributes)), 1.0
        if set(map(type, attributes)) - {str}:
            plain = 0.0  # units are learned below
            pairs = [(own, 1.0) if isinstance(own, str) else own for own in attributes]
            for pair in pairs:
                is_pair = isinstance(pair, tuple) and len(pair) == 2
                if not is_pair or not isinstance(pair[0], str) or not isinstance(pair[1], NUMBERS):
                    accepted = (
                        "strings or pairs of a string and a number, as in ['w=the', ('length', 3)]"
                    )
                    raise InputError(
                        f"The attributes of a token must be {accepted}, got {reprlib.repr(pair)}."
                    )
            attributes, values = (
                [name for name, _ in pairs],
                np.array([amount for _, amount in pairs], np.float64),
            )
            _finite(attributes[np.argmin(np.abs(values) <= LARGEST)], values)
        new = defaultdict[str, dict[str, str | float]](dict)
        for attribute in [own for own in dict.fromkeys(attributes) if own not in known]:
            key, value = split_attribute(attribute)
            if grow:
                new[key][attribute] = plain if value is NUMBER else value
            elif (i := self.ids.get(key, {}).get(value)) is not None:
                known[attribute] = i
        for key, values_of in new.items():
            known.update(
                zip(values_of, self.look_up(key, list(values_of.values()), grow).ids.tolist())
            )
        ids = np.fromiter(map(known.get, attributes, repeat(-1)), np.int32, len(attributes))
        for key in [key for key in new if key in new[key] and not plain]:
            self._in_units(key, values[ids == known[key]], grow)
        for key, unit in self.units.items():
            if unit != 1.0:
                values[ids == self.ids[key][NUMBER]] /= unit
        kept = (ids >= 0) & (values != 0.0)
        owners = np.repeat(
            np.arange(len(tokens)), np.fromiter(map(len, tokens), np.int64, len(tokens))
        )
        if counts:  # a token may have several attributes of one key
            places = np.frombuffer(self.groups, np.int32)[ids - self.first_id]
            numbers = np.bincount(
                np.unique(owners * len(self.keys) + places) % max(len(self.keys), 1)
            )
            self.add_counts(dict(zip(self.keys, numbers.tolist())), len(tokens))
        return np.bincount(owners[kept], minlength=len(tokens)), ids[kept], values[kept]

    def _known_rows(self, tokens: Sequence[Token], grow: bool) -> Rows | None:
        """Encode a few tokens as CSR rows, with less overhead than key by key.

        Returns None unless all tokens have the same keys in the same order with strings and numbers
        only, and nothing must be added to the vocabulary or be warned about.
        """
        keys, ids = tuple(tokens[0]), list[int]()
        lengths, amounts, known = (
            [],
            [],
            [(self.ids.get(key, {}), self.units.get(key)) for key in keys],
        )
        for token in tokens:
            if tuple(token) != keys:
                return None
            before = len(ids)
            for (own, unit), value in zip(known, token.values()):
                if type(value) is str:
                    i, amount = own.get(value), 1.0
                    if i is None and (grow or NUMBER in own):
                        return None
                elif (
                    type(value) in PLAIN_NUMBERS
                    and -LARGE < value < LARGE
                    and unit
                    and NUMBER in own
                ):
                    i, amount = own[NUMBER], value / unit
                else:
                    return None
                if i is not None and amount:
                    ids.append(i)
                    amounts.append(amount)
            lengths.append(len(ids) - before)
        return np.array(lengths), np.array(ids, np.int32), np.array(amounts, np.float64)

    def look_up(self, key: str, column: list, grow: bool) -> Part:
        """Encode the values of one key, one per token; ``grow`` adds a new key and new values."""
        known = self.ids[key] if key in self.ids else self._add_key(key)
        before = len(known)
        try:
            kinds = set(map(type, column))
            if kinds == {str}:
                if NUMBER in known and len(known) == 1:
                    self._warn_of_kind(key, "text", "numbers")
                return Part(None, _look_up(column, known, grow), None)
            if kinds <= set(NUMBERS):
                numbers = _finite(key, np.array(column, dtype=np.float64))
                if known and NUMBER not in known and numbers.any():
                    self._warn_of_kind(key, "numbers", "text")
                ids = np.repeat(_look_up([NUMBER], known, grow), len(column))
                return Part(None, ids, self._in_units(key, numbers, grow))
            entries = [
                (i, *own) for i, value in enumerate(column) for own in _named_values(key, value)
            ]
            places, names, amounts = zip(*entries) if entries else ((), (), ())
            # check values before adding them to the vocabulary
            values = _finite(key, np.array(amounts, dtype=np.float64))
            numbers = [k for k, name in enumerate(names) if name is NUMBER]
            values[numbers] = self._in_units(key, values[numbers], grow)
            return Part(np.array(places, dtype=np.int64), _look_up(names, known, grow), values)
        finally:
            self.groups.extend([self.keys.index(key)] * (len(known) - before))

    def _warn_of_kind(self, key: str, here: str, learned: str) -> None:
        """Warn that a key holds values of another kind than before, once for each key."""
        if key not in self._keys_of_two_kinds:
            self._keys_of_two_kinds.add(key)
            message = f"The entry {key!r:.80} holds {here}, and was learned from {learned}: its values are unknown."
            warn_caller(message, DataWarning)

    def _add_key(self, key: object) -> dict[str | None, int]:
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
        pairs = {i: names[i - self.first_id] for i in ids}
        return {
            i: key if value is NUMBER else f"{key}={value}" for i, (key, value) in pairs.items()
        }

    def state(self, kept: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Return values, keys and units as arrays; ``kept`` is a mask of the features to include."""
        chosen = np.arange(len(self.groups)) if kept is None else np.flatnonzero(kept)
        names = self.names()
        units, counts = (
            [own.get(key, 0) for key in self.keys] for own in (self.units, self.counts)
        )
        learned = [[names[i][1] for i in chosen.tolist()], units, counts, self.n_tokens]
        return {
            "learned": pack_json(learned),
            "groups": np.array(self.groups, dtype=np.int32)[chosen],
        }

    @classmethod
    def from_state(
        cls, keys: Sequence[str], first_id: int, state: Mapping[str, np.ndarray]
    ) -> "Vocabulary":
        """The inverse of :meth:`state`."""
        vocabulary = cls(first_id)
        groups = state["groups"].tolist()
        values, units, counts, n_tokens = unpack_json(state["learned"])
        vocabulary.units = {key: unit for key, unit in zip(keys, units) if unit}
        vocabulary.add_counts(dict(zip(keys, counts)), n_tokens)
        vocabulary._next_id = count(first_id + len(values)).__next__
        vocabulary.groups.extend(groups)
        known = [vocabulary._add_key(key) for key in keys]
        for i, (value, group) in enumerate(zip(values, groups, strict=True), first_id):
            known[group][value] = i
        return vocabulary


def split_attribute(attribute: str) -> tuple[str, str | None]:
    """Return key and value of an attribute; without a value, it is a key and has the value
    :data:`NUMBER`.

    >>> [split_attribute(own) for own in ("word:main", "next:word:main", "url=http://x", "bias", ":")]
    [('word', 'main'), ('next:word', 'main'), ('url', 'http://x'), ('bias', None), (':', None)]
    """
    found = ATTRIBUTE.fullmatch(attribute)
    if found is None:
        return attribute, NUMBER
    key, value, *others = found.groups()
    return (others[0], others[1]) if key is None else (key, value)


def flattened(tokens: list[Token]) -> list[Token]:
    """Flatten nested dicts, and gather numbers of attributes by key.

    As in python-crfsuite, ``"next": {"word": "the"}`` is ``"next:word": "the"``. A number of an
    attribute with a value, ``"word:the": 2.0`` or ``"word=the": 2.0``, is ``"word": {"the": 2.0}``.
    """
    marked = [key for key in set().union(*tokens) if ATTRIBUTE.fullmatch(str(key))]
    is_nested = dict in set(map(type, chain.from_iterable(map(dict.values, tokens))))
    if not is_nested and not any(_is_weight(token.get(key)) for token in tokens for key in marked):
        return tokens
    flat: list[Token] = [{} for _ in tokens]
    for own, token in zip(flat, tokens):
        _add_entries(own, token)
    return flat


def _is_weight(value: object) -> bool:
    """Check for a number that is no boolean."""
    return isinstance(value, NUMBERS) and not isinstance(value, (bool, np.bool_))


def _add_entries(flat: Token, token: Token, path: str = "") -> None:
    """Add the entries of a token, or of a dict in it, whose keys follow the ``path``."""
    for key, value in token.items():
        own: Any = f"{path}{key}" if path else key
        if isinstance(value, dict) and not all(
            isinstance(amount, NUMBERS) for amount in value.values()
        ):
            _add_entries(flat, value, f"{own}:")
            continue
        if path and isinstance(value, NUMBERS):
            own, value = path[:-1], {key: value}
        elif _is_weight(value) and isinstance(key, str):
            own, name = split_attribute(key)
            value = value if name is NUMBER else {name: value}
        if own not in flat and not isinstance(value, dict):
            flat[own] = value
            continue
        held = flat.get(own)
        if not isinstance(held, dict):
            held = flat[own] = dict(_named_values(own, held))
        for name, amount in _named_values(own, value):
            held[name] = held.get(name, 0.0) + amount


def _columns(tokens: Sequence[Token]) -> list[tuple[str, list]]:
    """Return ``(key, values of all tokens)`` of every key; missing values are None."""
    keys = tuple(tokens[0])
    if all(map(keys.__eq__, map(tuple, tokens))):
        # all tokens have the same keys in the same order
        values = list(chain.from_iterable(map(dict.values, tokens)))
        return [(key, values[k :: len(keys)]) for k, key in enumerate(keys)]
    return [
        (key, [token.get(key) for token in tokens])
        for key in dict.fromkeys(chain.from_iterable(tokens))
    ]


def _look_up(names: Sequence[str | None], known: dict[str | None, int], grow: bool) -> np.ndarray:
    """Return the ids of values; unknown values are added if ``grow``, else -1."""
    found = map(known.__getitem__, names) if grow else map(known.get, names, repeat(-1))
    return np.fromiter(found, dtype=np.int32, count=len(names))


def _named_values(key: str, value: object) -> Iterable[tuple[str | None, float]]:
    """Return ``(name, amount)`` of each feature of an entry."""
    if value is None:
        return ()
    if isinstance(value, str):
        return ((str(value), 1.0),)
    if isinstance(value, NUMBERS):
        return ((NUMBER, float(value)),)
    if isinstance(value, dict):
        return [
            (name if name is NUMBER else str(name), float(amount)) for name, amount in value.items()
        ]
    value = sorted(value) if isinstance(value, (set, frozenset)) else value
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return [(str(name), 1.0) for name in value]
    accepted = "a string, a number, a list of strings, or in all tokens a vector"
    raise InputError(f"The feature {key!r} must be {accepted}, got {reprlib.repr(value)}.")


def _finite(key: str, values: np.ndarray) -> np.ndarray:
    wrong = ~(np.abs(values) <= LARGEST)
    if wrong.any():
        raise InputError(
            f"The feature {key!r} must be a finite number up to {LARGEST:g}, got {values[wrong][0]}."
        )
    return values


def _to_rows(parts: list[Part], n_tokens: int) -> Rows:
    """Make CSR rows with features in the order of keys, without unknown and zero features."""
    if parts and all(part.places is None and part.values is None for part in parts):
        return _rows_of_ids(np.stack([part.ids for part in parts], axis=1))
    everyone = np.arange(n_tokens)
    where = np.concatenate(
        [everyone[:0]] + [everyone if part.places is None else part.places for part in parts]
    )
    ids = np.concatenate([np.zeros(0, dtype=np.int32)] + [part.ids for part in parts])
    values = np.concatenate(
        [[], *(np.ones(len(part.ids)) if part.values is None else part.values for part in parts)]
    )
    kept = (ids >= 0) & (values != 0.0)
    order = np.flatnonzero(kept)[np.argsort(where[kept], kind="stable")]
    return np.bincount(where[kept], minlength=n_tokens), ids[order], values[order]


def features_of_ids(ids: np.ndarray) -> Features:
    """Make features with the value 1 of a table of ids, (n, k), in which -1 is no feature."""
    return _joined([_rows_of_ids(ids)])


def _rows_of_ids(ids: np.ndarray) -> Rows:
    kept = ids >= 0
    found = ids[kept]
    return kept.sum(axis=1), found, np.ones(len(found))


def _joined(chunks: list[Rows]) -> Features:
    """Stack CSR rows."""
    nothing = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)
    lengths, ids, values = (
        chunks[0] if len(chunks) == 1 else map(np.concatenate, zip(nothing, *chunks))
    )
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    lengths.cumsum(out=starts[1:])
    return Features(starts, ids, values)
