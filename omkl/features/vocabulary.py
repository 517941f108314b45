"""Sparse features of tokens: from dicts and lists of attributes to CSR rows, key by key.

A token is a dict. A string gives the feature ``key=value``; a number gives the feature ``key`` with that value; True
is 1 and False is 0; a list or set of strings gives one feature each; a dict gives ``key=subkey`` with its number;
None is nothing. Each key is a group. Arrays and lists of numbers are vectors, which kernels read. A token may also be a
list of attributes, ``"key=value"`` or ``"key"`` for the number 1.

The numbers of a key are divided by their size, a power of two that is learned when the key is new, so that the units
of numbers do not matter.
"""

import reprlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, repeat
from typing import Any, NamedTuple

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import Features

#: The value that stands for a number in the vocabulary of its key, which otherwise holds strings.
NUMBER = None
NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
#: Types of numbers that are read one by one without further checks, and their bound.
PLAIN_NUMBERS, LARGE = {bool, int, float, np.float64}, 2.0**53
#: Numbers of a larger magnitude are refused.
LARGEST = 1e100
#: Tokens encoded at a time, few enough for their strings to stay in cache between reading and looking up.
CHUNK = 1024
#: Up to this number of tokens, the number of calls takes the time.
FEW = 256
#: Number of tokens whose kinds of values are compared with those of training.
MOST_LOOKED_AT = 100


class AttributeLists(list):
    """The attributes of all tokens, one after the other: each token is a list of strings."""

    def keys(self) -> list[str]:
        """Keys of the features."""
        return list(dict.fromkeys(attribute.partition("=")[0] for attribute in chain.from_iterable(self)))


class Part(NamedTuple):
    """Features of one key.

    Attributes
    ----------
    places : int array or None
        The token of each feature; None for one feature in every token.
    ids : int array
        -1 for unknown values.
    values : array or None
        None for ones.
    """

    places: np.ndarray | None
    ids: np.ndarray
    values: np.ndarray | None


class _Counter:
    """Returns one number after the other."""

    def __init__(self, first: int) -> None:
        self.next = first

    def __call__(self) -> int:
        self.next += 1
        return self.next - 1


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
        For each key, the id of each of its values (:data:`NUMBER` for numbers).
    groups : array of int
        For each feature, by id, the index of its key.
    units : dict of str to float
        The divisor of the numbers of a key.
    """

    def __init__(self, first_id: int = 0) -> None:
        self.keys: list[str] = []
        self.ids: dict[str, dict[str | None, int]] = {}
        self.groups = array("i")
        self.units: dict[str, float] = {}
        self.first_id = first_id
        self._next_id = _Counter(first_id)

    # ---- kinds of values ----------------------------------------------------------------------------------------

    def kinds_of(self, key: str) -> set[str]:
        """Kinds of the values of a key: "text", "numbers" or both."""
        own = self.ids.get(key, {})
        n_numbers = int(NUMBER in own)
        return {kind for kind, n in (("numbers", n_numbers), ("text", len(own) - n_numbers)) if n}

    def changed_kinds(self, tokens: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
        """Find keys with text here and numbers in training, or the reverse: ``(key, kind, learned kind)``."""
        tokens = tokens[:MOST_LOOKED_AT]
        for key in dict.fromkeys(chain.from_iterable(map(self._unlike, tokens))):
            learned = "numbers" if NUMBER in self.ids[key] else "text"
            here = {kind for token in tokens if (kind := _kind_of(token.get(key))) is not None}
            if learned not in here:
                yield key, min(here), learned

    def _unlike(self, token: dict[str, Any]) -> Iterator[str]:
        """Keys of a token whose value is of another kind than all known ones."""
        for key, value in token.items():
            if own := self.ids.get(key):
                if isinstance(value, str):
                    if NUMBER in own and len(own) == 1:
                        yield key
                elif NUMBER not in own and _kind_of(value) == "numbers":
                    yield key

    # ---- encoding -----------------------------------------------------------------------------------------------

    def encode(self, tokens: Sequence[Any], grow: bool) -> Features:
        """Features of tokens.

        Parameters
        ----------
        tokens : list of dicts, or AttributeLists
        grow : bool
            Learn new keys and values, instead of leaving them out.
        """
        if isinstance(tokens, AttributeLists):
            return _joined([self._attribute_rows(tokens, grow)])
        if 0 < len(tokens) <= FEW and (rows := self._known_rows(tokens, grow)) is not None:
            return _joined([rows])
        chunks = []
        for low in range(0, len(tokens), CHUNK):
            chunk = tokens[low : low + CHUNK]
            parts = []
            for key, column in _columns(chunk):
                if grow or key in self.ids:
                    parts.append(self.look_up(key, column, grow))
            chunks.append(_to_rows(parts, len(chunk)))
        return _joined(chunks)

    def _attribute_rows(self, tokens: AttributeLists, grow: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """CSR rows of lists of attributes, in their order."""
        attributes = list(chain.from_iterable(tokens))
        columns: dict[str, tuple[list[int], list[Any]]] = defaultdict(lambda: ([], []))
        try:
            codes = {attribute: i for i, attribute in enumerate(dict.fromkeys(attributes))}
            for attribute, i in codes.items():
                key, equals, value = attribute.partition("=")
                places, values = columns[key]
                places.append(i)
                values.append(value if equals else 1.0)
        except (TypeError, AttributeError):
            raise InputError("The attributes of a token must be strings, as in ['w=the', 'suffix=he'].") from None
        distinct_ids, distinct_values = np.full(len(codes), -1, np.int32), np.ones(len(codes))
        for key, (places, column) in columns.items():
            if grow or key in self.ids:
                _, distinct_ids[places], amounts = self.look_up(key, column, grow)
                if amounts is not None:
                    distinct_values[places] = amounts
        flat = np.fromiter(map(codes.__getitem__, attributes), np.int64, len(attributes))
        ids = distinct_ids[flat]
        kept, owners = ids >= 0, np.repeat(np.arange(len(tokens)), np.fromiter(map(len, tokens), np.int64, len(tokens)))
        return np.bincount(owners[kept], minlength=len(tokens)), ids[kept], distinct_values[flat][kept]

    def _known_rows(self, tokens: Sequence[dict[str, Any]], grow: bool) -> tuple | None:
        """CSR rows of a few tokens, as key by key, in fewer calls.

        None unless all tokens have the same keys in the same order, with strings and numbers alone, and nothing new is
        to be learned.
        """
        keys, nothing = tuple(tokens[0]), dict[str | None, int]()
        known = [self.ids.get(key, nothing) for key in keys]
        ids: list[int] = []
        lengths, scaled = [], []
        for token in tokens:
            if tuple(token) != keys:
                return None
            before = len(ids)
            for own, value, key in zip(known, token.values(), keys):
                if type(value) is str:
                    if (i := own.get(value)) is not None:
                        ids.append(i)
                    elif grow:
                        return None
                elif type(value) not in PLAIN_NUMBERS or not -LARGE < value < LARGE:
                    return None
                elif (i := own.get(NUMBER)) is None or key not in self.units:
                    if grow:
                        return None
                    if i is not None and value:  # all numbers in training were 0
                        scaled.append((len(ids), float(value)))
                        ids.append(i)
                elif amount := value / self.units[key]:
                    scaled.append((len(ids), amount))
                    ids.append(i)
            lengths.append(len(ids) - before)
        values = np.ones(len(ids))
        for place, amount in scaled:
            values[place] = amount
        return np.array(lengths), np.array(ids, np.int32), values

    def look_up(self, key: str, column: list[Any], grow: bool) -> Part:
        """Features of the values of one key.

        Parameters
        ----------
        key : str
            A known one, if not ``grow``.
        column : list
            The value of each token.
        grow : bool
            Learn new values.
        """
        known = self.ids[key] if key in self.ids else self._add_key(key)
        before = len(known)
        try:
            return _encode_column(key, column, known, grow, self.units)
        finally:
            self.groups.extend([self.keys.index(key)] * (len(known) - before))

    def _add_key(self, key: Any) -> dict[str | None, int]:
        if not isinstance(key, str):
            raise InputError(f"The keys of token dicts must be strings, got {key!r}.")
        self.keys.append(key)
        # gives a new value the next id as it is looked up
        self.ids[key] = defaultdict(self._next_id)
        return self.ids[key]

    # ---- names and files ----------------------------------------------------------------------------------------

    def names(self) -> list[tuple[str, str | None]]:
        """``(key, value)`` of every feature, by id; a number's value is None."""
        names: list[Any] = [None] * len(self.groups)
        for key, ids in self.ids.items():
            for value, i in ids.items():
                names[i - self.first_id] = (key, value)
        return names

    def names_of(self, ids: Iterable[int]) -> dict[int, str]:
        """``key=value`` of features, or the key of a number, by id."""
        wanted, found = set(ids), dict[int, str]()
        for group in {self.groups[i - self.first_id] for i in wanted}:
            key = self.keys[group]
            for value, i in self.ids[key].items():
                if i in wanted:
                    found[i] = key if value is NUMBER else f"{key}={value}"
        return found

    def state(self, kept: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Values, keys and units, as arrays.

        Parameters
        ----------
        kept : bool array, optional
            The features to include; all by default.
        """
        names, groups = self.names(), np.array(self.groups, dtype=np.int32)
        if kept is not None:
            names, groups = [names[i] for i in np.flatnonzero(kept).tolist()], groups[kept]
        return {
            "text": _one_text(["" if value is NUMBER else value for _, value in names]),
            "is_number": np.array([value is NUMBER for _, value in names], dtype=bool),
            "groups": groups,
            "units": np.array([self.units.get(key, 0.0) for key in self.keys]),
        }

    @classmethod
    def from_state(cls, keys: Sequence[str], first_id: int, state: Mapping[str, np.ndarray]) -> "Vocabulary":
        """The inverse of :meth:`state`."""
        vocabulary = cls(first_id)
        vocabulary.keys = list(keys)
        values, groups = _values_of(state["text"]), state["groups"]
        if len(values) != len(groups):
            raise ValueError(f"{len(values)} features, and keys of {len(groups)}")
        for i in np.flatnonzero(state["is_number"]).tolist():
            values[i] = NUMBER
        vocabulary.groups.extend(groups.tolist())
        vocabulary.units = {key: unit for key, unit in zip(keys, state["units"].tolist()) if unit > 0.0}
        order = np.argsort(groups, kind="stable")
        bounds = np.searchsorted(groups[order], np.arange(len(keys) + 1)).tolist()
        ids, values = (first_id + order).tolist(), [values[i] for i in order.tolist()]
        for key, low, high in zip(keys, bounds, bounds[1:]):
            vocabulary.ids[key] = defaultdict(vocabulary._next_id, zip(values[low:high], ids[low:high]))
        vocabulary._next_id.next += len(values)
        return vocabulary


def _kind_of(value: Any) -> str | None:
    """ "text" or "numbers"; None for other values, and for False."""
    if isinstance(value, str):
        return "text"
    return "numbers" if value is not False and isinstance(value, NUMBERS) else None


def _one_text(values: list[str]) -> np.ndarray:
    """Strings in UTF-8, each after a separator, the first character that no string has."""
    text = "".join(values)
    mark = next(character for character in map(chr, count()) if character not in text)
    return np.frombuffer("".join([mark + value for value in values]).encode("utf-8", "surrogatepass"), dtype=np.uint8)


def _values_of(text: np.ndarray) -> list[Any]:
    """The inverse of :func:`_one_text`."""
    joined = text.tobytes().decode("utf-8", "surrogatepass")
    return joined.split(joined[0])[1:] if joined else []


_ABSENT = None


def _columns(tokens: Sequence[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """``(key, values of all tokens)`` of every key; absent values are :data:`_ABSENT`."""
    keys = tuple(tokens[0])
    if all(map(keys.__eq__, map(tuple, tokens))):
        # the same keys in the same order: read row by row, as they lie in memory
        values = list(chain.from_iterable(map(dict.values, tokens)))
        return [(key, values[k :: len(keys)]) for k, key in enumerate(keys)]
    return [(key, [token.get(key, _ABSENT) for token in tokens]) for key in dict.fromkeys(chain.from_iterable(tokens))]


def _encode_column(key: str, column: list[Any], known: dict, grow: bool, units: dict[str, float]) -> Part:
    kinds = set(map(type, column))
    if kinds == {str}:
        return Part(None, _look_up(column, known, grow), None)
    if kinds <= set(NUMBERS):
        numbers = _in_units(key, _finite(key, np.array(column, dtype=np.float64)), grow, units)
        return Part(None, np.repeat(_look_up([NUMBER], known, grow), len(column)), numbers)
    places, names, amounts = [], [], []
    for i, value in enumerate(column):
        for name, amount in _named_values(key, value):
            places.append(i)
            names.append(name)
            amounts.append(amount)
    # checked before the vocabulary learns them
    values = _finite(key, np.array(amounts, dtype=np.float64))
    numbers = [k for k, name in enumerate(names) if name is NUMBER]
    values[numbers] = _in_units(key, values[numbers], grow, units)
    return Part(np.array(places, dtype=np.int64), _look_up(names, known, grow), values)


def _in_units(key: str, numbers: np.ndarray, grow: bool, units: dict[str, float]) -> np.ndarray:
    """Numbers of a key divided by its unit.

    The unit is the root mean square of the first numbers that are not all 0, rounded to a power of two, so that no
    digit changes.
    """
    if grow and key not in units and numbers.any():
        sizes = np.abs(numbers[numbers != 0.0])
        root = np.log2(sizes.max()) + 0.5 * np.log2(np.mean(np.square(sizes / sizes.max())))
        units[key] = float(2.0 ** np.clip(np.round(root), -1000, 1000))
    return numbers / units.get(key, 1.0)


def _look_up(names: list[Any], known: dict[str | None, int], grow: bool) -> np.ndarray:
    """Ids of values; unknown ones are added if ``grow``, else -1."""
    found = map(known.__getitem__, names) if grow else map(known.get, names, repeat(-1))
    return np.fromiter(found, dtype=np.int32, count=len(names))


def _named_values(key: str, value: Any) -> Iterable[tuple[str | None, float]]:
    """``(name, amount)`` of each feature of an entry."""
    if value is _ABSENT:
        return ()
    if isinstance(value, str):
        return ((str(value), 1.0),)
    if isinstance(value, NUMBERS):
        return ((NUMBER, float(value)),)
    if isinstance(value, dict):
        return [(name if name is NUMBER else str(name), float(amount)) for name, amount in value.items()]
    if isinstance(value, (set, frozenset)):
        return [(str(name), 1.0) for name in sorted(value)]
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return [(str(name), 1.0) for name in value]
    raise InputError(
        f"The feature {key!r} must be a string, a number, a list of strings, or in all tokens a vector, got "
        f"{reprlib.repr(value)}."
    )


def _finite(key: str, values: np.ndarray) -> np.ndarray:
    wrong = ~(np.abs(values) <= LARGEST)
    if wrong.any():
        raise InputError(f"The feature {key!r} must be a finite number up to {LARGEST:g}, got {values[wrong][0]}.")
    return values


def _to_rows(parts: list[Part], n_tokens: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CSR rows (lengths, ids, values) with features in the order of the keys, without unknown and zero ones."""
    if parts and all(part.places is None and part.values is None for part in parts):
        ids = np.stack([part.ids for part in parts], axis=1)
        kept = ids >= 0
        return kept.sum(axis=1), ids[kept], np.ones(np.count_nonzero(kept))
    everyone = np.arange(n_tokens)
    where = np.concatenate([everyone[:0]] + [everyone if part.places is None else part.places for part in parts])
    ids = np.concatenate([np.zeros(0, dtype=np.int32)] + [part.ids for part in parts])
    values = np.concatenate([[], *(np.ones(len(part.ids)) if part.values is None else part.values for part in parts)])
    kept = (ids >= 0) & (values != 0.0)
    order = np.flatnonzero(kept)[np.argsort(where[kept], kind="stable")]
    return np.bincount(where[kept], minlength=n_tokens), ids[order], values[order]


def _joined(chunks: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Features:
    """Rows below each other."""
    if not chunks:
        return Features(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))
    lengths, ids, values = chunks[0] if len(chunks) == 1 else map(np.concatenate, zip(*chunks))
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return Features(starts, ids, values)
