"""String features of tokens, CRFsuite style: from dicts to sparse rows, column by column.

A token is a dict. A string gives the feature ``key=value``; a number gives the feature ``key`` with that value; True
is 1 and False is 0; a list or set of strings gives one feature each; a dict gives ``key=subkey`` with its number;
None is nothing. Each key is a group. Arrays and lists of numbers are vectors, which kernels read.

The numbers of a key are divided by their size, a power of two that is learned where the key is first met: incomes and
ages then count alike, in whatever units they are.
"""

import reprlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, repeat
from typing import Any

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import Features

#: What the feature of a number is called in its key's vocabulary, which otherwise holds strings.
NUMBER = None
NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


#: Numbers that are read one by one, without a look at what else they might be, between these bounds.
PLAIN_NUMBERS, LARGE = {bool, int, float, np.float64}, 2.0**53

#: Tokens encoded at a time, few enough for their strings to stay in cache between reading and looking up.
CHUNK = 1024
#: Tokens up to which it is the number of calls that takes the time, not what they do.
FEW = 256
#: Tokens that are looked at for what their entries hold.
MOST_LOOKED_AT = 100


class _Numbers:
    """Gives one number after the other. It knows nothing of the vocabulary, which would keep itself alive with it."""

    def __init__(self, first: int) -> None:
        self.next = first

    def __call__(self) -> int:
        self.next += 1
        return self.next - 1


class Vocabulary:
    """Feature ids by key and value, given in the order of first appearance.

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
        What the numbers of a key are divided by, for keys with numbers.
    """

    def __init__(self, first_id: int = 0) -> None:
        self.keys: list[str] = []
        self.ids: dict[str, dict[str | None, int]] = {}
        self.groups = array("i")
        self.units: dict[str, float] = {}
        self.first_id = first_id
        self._next_id = _Numbers(first_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Vocabulary":
        # strings do not change: a hundred times as fast as value by value
        twin = Vocabulary(self.first_id)
        twin.keys, twin.groups, twin.units = list(self.keys), self.groups[:], dict(self.units)
        twin.ids = {key: defaultdict(twin._next_id, own) for key, own in self.ids.items()}
        twin._next_id.next = self._next_id.next
        return twin

    def kinds_of(self, key: str) -> set[str]:
        """What the values of a key were: text, numbers or both."""
        own = self.ids.get(key, {})
        n_numbers = int(NUMBER in own)
        return {kind for kind, n in (("numbers", n_numbers), ("text", len(own) - n_numbers)) if n}

    def turned(self, tokens: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
        """Keys that hold text here and were learned from numbers, or the other way round: ``(key, here, learned)``."""
        tokens = tokens[:MOST_LOOKED_AT]
        for key in dict.fromkeys(chain.from_iterable(map(self._unlike, tokens))):
            [learned] = self.kinds_of(key)
            here = {kind for token in tokens if (kind := _kind_of(token.get(key))) is not None}
            if learned not in here:
                yield key, min(here), learned

    def _unlike(self, token: dict[str, Any]) -> Iterator[str]:
        """Keys whose value is of another kind than all known ones; this is looked at for every sentence."""
        for key, value in token.items():
            if own := self.ids.get(key):
                if isinstance(value, str):
                    if NUMBER in own and len(own) == 1:
                        yield key
                elif NUMBER not in own and _kind_of(value) == "numbers":
                    yield key

    def encode(self, tokens: list[dict[str, Any]], grow: bool) -> Features:
        """Features of a flat list of token dicts; new keys and values are learned if ``grow``, else left out."""
        if 0 < len(tokens) <= FEW and (rows := self._known_rows(tokens, grow)) is not None:
            return _joined([rows])
        chunks = []
        for low in range(0, len(tokens), CHUNK):
            chunk = tokens[low : low + CHUNK]
            parts = []
            for key, column in _columns(chunk, None if grow else self.ids):
                parts += self.look_up(key, column, grow)
            chunks.append(_to_rows(parts, len(chunk)))
        return _joined(chunks)

    def _known_rows(self, tokens: list[dict[str, Any]], grow: bool) -> tuple | None:
        """CSR rows of a few tokens, the same as key by key, at a fraction of the calls; None unless all have the same
        keys in the same order, and strings and numbers alone, and where something new is to be learned."""
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
                    if i is not None and value:  # all that were met are 0, and have no unit
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

    def look_up(self, key: str, column: list[Any], grow: bool) -> list[tuple[Any, np.ndarray, Any]]:
        """Parts ``(tokens, ids, values)`` of the values of one key, a known one if not ``grow``; ``tokens`` None means
        all, ``values`` None means ones, and the id of an unknown value is -1."""
        known = self.ids[key] if key in self.ids else self._add_key(key)
        before = len(known)
        try:
            return _encode_column(key, column, known, grow, self.units)
        finally:
            self.groups.extend([self.keys.index(key)] * (len(known) - before))

    def _add_key(self, key):
        if not isinstance(key, str):
            raise InputError(f"A token has the key {key!r}: the keys of token dicts must be strings.")
        self.keys.append(key)
        # a defaultdict gives a new value the next id as it looks it up
        self.ids[key] = defaultdict(self._next_id)
        return self.ids[key]

    def names(self) -> list[tuple[str, str | None]]:
        """``(key, value)`` of every feature, by id; a number's value is None."""
        names: list[Any] = [None] * len(self.groups)
        for key, ids in self.ids.items():
            for value, i in ids.items():
                names[i - self.first_id] = (key, value)
        return names

    def names_of(self, ids: Iterable[int]) -> dict[int, str]:
        """``key=value`` of some features, or the key of a number, by id; one pass over the values of each key."""
        wanted, found = set(ids), dict[int, str]()
        for group in {self.groups[i - self.first_id] for i in wanted}:
            key = self.keys[group]
            for value, i in self.ids[key].items():
                if i in wanted:
                    found[i] = key if value is NUMBER else f"{key}={value}"
        return found

    def state(self, kept: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Every value in the order of ids, or of the ids in the mask ``kept``, and its key, as arrays."""
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
    def from_state(cls, keys: Sequence[str], first_id: int, state: dict[str, np.ndarray]) -> "Vocabulary":
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
    """Whether a value is text or a number; None of all else, and of False, which says nothing."""
    if isinstance(value, str):
        return "text"
    return "numbers" if value is not False and isinstance(value, NUMBERS) else None


def _one_text(values: list[str]) -> np.ndarray:
    """Strings in UTF-8, before each the first character that is in none of them: they are found faster than by their
    lengths."""
    text = "".join(values)
    mark = next(character for character in map(chr, count()) if character not in text)
    return np.frombuffer("".join([mark + value for value in values]).encode("utf-8", "surrogatepass"), dtype=np.uint8)


def _values_of(text: np.ndarray) -> list[Any]:
    """The inverse of :func:`_one_text`."""
    joined = text.tobytes().decode("utf-8", "surrogatepass")
    return joined.split(joined[0])[1:] if joined else []


_ABSENT = None


def _columns(tokens, wanted):
    """``(key, values over all tokens)`` of every wanted key, or of all; absent values are :data:`_ABSENT`."""
    keys = tuple(tokens[0])
    if all(map(keys.__eq__, map(tuple, tokens))):
        # every token has the same keys in the same order: read them row by row, as they lie in memory
        values = list(chain.from_iterable(map(dict.values, tokens)))
        columns = {key: values[k :: len(keys)] for k, key in enumerate(keys)}
    else:
        keys = dict.fromkeys(chain.from_iterable(tokens))
        columns = {key: [token.get(key, _ABSENT) for token in tokens] for key in keys}
    return [(key, column) for key, column in columns.items() if wanted is None or key in wanted]


def _encode_column(key, column, known, grow, units):
    kinds = set(map(type, column))
    if kinds == {str}:
        return [(None, _look_up(column, known, grow), None)]
    if kinds <= set(NUMBERS):
        values = _in_units(key, _finite(key, np.array(column, dtype=np.float64)), grow, units)
        return [(None, np.repeat(_look_up([NUMBER], known, grow), len(column)), values)]
    where, names, values = [], [], []
    for i, value in enumerate(column):
        for name, amount in _named_values(key, value):
            where.append(i)
            names.append(name)
            values.append(amount)
    # checked before anything is looked up, which may add to the vocabulary
    values = _finite(key, np.array(values, dtype=np.float64))
    numbers = [k for k, name in enumerate(names) if name is NUMBER]
    values[numbers] = _in_units(key, values[numbers], grow, units)
    return [(np.array(where, dtype=np.int64), _look_up(names, known, grow), values)]


def _in_units(key, numbers, grow, units):
    """Numbers of a key in its unit, which the first that are not all 0 decide: their root mean square, as a power of
    two, so that no digit changes."""
    if grow and key not in units and numbers.any():
        sizes = np.abs(numbers[numbers != 0.0])
        root = np.log2(sizes.max()) + 0.5 * np.log2(np.mean(np.square(sizes / sizes.max())))
        units[key] = float(2.0 ** np.clip(np.round(root), -1000, 1000))
    return numbers / units.get(key, 1.0)


def _look_up(names, known, grow):
    """Ids of the names; unknown ones are added if ``grow``, else -1."""
    found = map(known.__getitem__, names) if grow else map(known.get, names, repeat(-1))
    return np.fromiter(found, dtype=np.int32, count=len(names))


def _named_values(key, value):
    if value is _ABSENT:
        return ()
    if isinstance(value, str):
        return ((str(value), 1.0),)
    if isinstance(value, NUMBERS):
        return ((NUMBER, float(value)),)
    if isinstance(value, dict):
        return tuple((name if name is NUMBER else str(name), float(amount)) for name, amount in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        if isinstance(value, (set, frozenset)):
            return tuple((str(name), 1.0) for name in sorted(value))
        if not all(isinstance(name, str) for name in value):
            raise InputError(
                f"The feature {key!r} is {reprlib.repr(value)} in a token: a list is of strings, or of numbers in all "
                "tokens, a vector for kernels."
            )
        return tuple((str(name), 1.0) for name in value)
    raise InputError(
        f"The feature {key!r} has a value of type {type(value).__name__}: use strings, numbers, booleans or lists."
    )


def _finite(key, values):
    if not np.isfinite(values).all():
        raise InputError(
            f"The feature {key!r} is {values[~np.isfinite(values)][0]} in a token: features must be finite."
        )
    return values


def _to_rows(parts, n_tokens):
    """CSR rows from the columns' parts, features in the order of the keys; unknown and zero ones are left out."""
    if parts and all(tokens is None and values is None for tokens, _, values in parts):
        ids = np.stack([ids for _, ids, _ in parts], axis=1)
        kept = ids >= 0
        return kept.sum(axis=1), ids[kept], np.ones(np.count_nonzero(kept))
    everyone = np.arange(n_tokens)
    where = np.concatenate([everyone[:0]] + [everyone if tokens is None else tokens for tokens, _, _ in parts])
    values = [np.ones(len(ids)) if values is None else values for _, ids, values in parts]
    ids, values = (
        np.concatenate([np.zeros(0, dtype=np.int32)] + [ids for _, ids, _ in parts]),
        np.concatenate([[], *values]),
    )
    kept = (ids >= 0) & (values != 0.0)
    order = np.flatnonzero(kept)[np.argsort(where[kept], kind="stable")]
    return np.bincount(where[kept], minlength=n_tokens), ids[order], values[order]


def _joined(chunks):
    if not chunks:
        return Features(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))
    lengths, ids, values = chunks[0] if len(chunks) == 1 else map(np.concatenate, zip(*chunks))
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return Features(starts, ids, values)
