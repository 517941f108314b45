"""Views, the input arrays of kernels: entries of dicts, or columns of an array."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from omkl._messages import shown
from omkl.data.blocks import Names
from omkl.data.frames import first_value, is_missing
from omkl.data.table_columns import DATES, DURATIONS, refuse_kind
from omkl.data.table_columns import NUMBERS as NUMERIC
from omkl.exceptions import InputError
from omkl.features.scales import ColumnScales
from omkl.features.vocabulary import LARGEST, NUMBERS, PLAIN_NUMBERS
from omkl.kernels.inputs import Positions, Vectors, format_on, take_columns

#: Concatenated tokens: rows of an array or CSR matrix, dicts, words or lists of attributes.
FlatTokens: TypeAlias = Vectors | list[Any]

#: Name of the entry that is the rows of a plain array.
PLAIN = "x"
#: Name of the entry that is the numbers of dicts.
COLUMNS = "columns of numbers"
#: Name of the group that says which columns are missing.
MISSING = "missing"
#: Types of dates and durations, which count in days.
TIMES = (date, timedelta, np.datetime64, np.timedelta64)
#: Types of the values of columns.
NUMBERS_AND_TIMES = NUMBERS + TIMES
#: Microseconds in a day.
DAY = 24 * 3600 * 1e6
#: Types of values that need no conversion.
ORDINARY = PLAIN_NUMBERS | {type(None)}


class TokenData(NamedTuple):
    """Validated tokens and labels, before encoding.

    Attributes
    ----------
    inputs : array, CSR matrix, list of dicts, Words or AttributeLists
        Concatenated tokens of all sequences.
    offsets : int array
        Sequence s has the tokens ``offsets[s] : offsets[s + 1]``.
    labels : sequence
        Label of every token.
    weights : array, optional
        Weight of every sequence.
    distinct : int array, optional
        Tokens from which kernels learn their widths; all by default.
    names : sequence of str, optional
        Names of columns.
    total : float
        Number of all training sequences, if these are all or a sample of them; infinite if they are
        the first ones of a stream.
    edges : TokenData, optional
        Edges of graphs, whose nodes are the tokens; None without features of edges.
    layouts : sequence of GraphLayout
        The edges of each graph.
    """

    inputs: FlatTokens
    offsets: np.ndarray
    labels: Sequence
    weights: np.ndarray | None = None
    distinct: np.ndarray | None = None
    names: Names = None
    total: float = math.inf
    edges: "TokenData | None" = None
    layouts: Sequence[Any] = ()

    @property
    def is_all_data(self) -> bool:
        """True if scales and widths are learned before training, and not as rows come."""
        return self.total < math.inf

    @property
    def token_weights(self) -> np.ndarray:
        """Weight of every token."""
        if self.weights is None:
            return np.ones(self.offsets[-1])
        return np.repeat(self.weights, np.diff(self.offsets))

    def shapes_of_first(self) -> dict[str, int]:
        """Return the number of columns of the array, or of each vector in the first dict."""
        tokens = self.inputs
        if not isinstance(tokens, list):
            return {PLAIN: tokens.shape[1]}
        if not isinstance(tokens[0], dict):
            return {}
        return {key: np.size(value) for key, value in tokens[0].items() if _is_vector(value)}

    def number_keys(self) -> list[str]:
        """Return the keys of dicts whose numbers are columns, sorted: their order does not matter.

        These are keys with a number in at least half of the dicts, or, for a block of a stream, in
        the first dict, so that the size of blocks does not matter. A column of a table is one
        if its first value is a number.
        """
        rows: list[Any] = list(self.inputs)
        if self.names is not None:
            return [name for name in self.names if _starts_with_number(rows, name)]
        sample = rows if self.is_all_data else rows[:1]
        dicts = [row for row in sample if isinstance(row, dict)]
        counts: Counter[str] = Counter()
        for row in dicts:
            counts.update(key for key, value in row.items() if isinstance(value, NUMBERS_AND_TIMES))
        return sorted(key for key, count in counts.items() if 2 * count >= len(dicts))

    def has_number(self, key: str) -> bool:
        """Check whether the value of this key is a number in the first dict that has the key."""
        values = (token[key] for token in self.inputs if isinstance(token, dict) and key in token)
        return isinstance(next(values, None), NUMBERS)


def _is_vector(value: object) -> bool:
    """Tell whether a value of a dict is an array, or a list of numbers."""
    if isinstance(value, np.ndarray):
        return True
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(number, NUMBERS) for number in value)


def _starts_with_number(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Tell whether the first value of a column of dicts is a number, a date or a duration."""
    return isinstance(first_value(rows, name), NUMBERS_AND_TIMES)


class View(NamedTuple):
    """Input array of a kernel.

    Attributes
    ----------
    keys : tuple of str
        Entries of dicts, which are concatenated; :data:`PLAIN` for rows of an array.
    columns : None, slice or tuple of int
        Selected columns of these; None for all.
    standardize : bool or "range"
        Whether the kernel sees standardized columns, or columns divided by their ranges.
    """

    keys: tuple[str, ...]
    columns: Positions
    standardize: bool | str = False

    @property
    def label(self) -> str:
        """Name in the views of :class:`~omkl.groups.Tokens`."""
        label = "+".join(self.keys)
        if self.columns is not None:
            label += f"[{format_on(self.columns)}]"
        if self.standardize:
            label += " by range" if self.standardize == "range" else " standardized"
        return label

    def width(self, shapes: Mapping[str, int]) -> int:
        """Return the number of columns."""
        no_rows = np.empty((0, sum(shapes[key] for key in self.keys)))
        return take_columns(no_rows, self.columns).shape[1]

    def select(self, entries: "Entries") -> Vectors:
        """Return the array of this view."""
        sources = entries.standardized if self.standardize else entries.raw
        arrays = [sources[key] for key in self.keys]
        if self.standardize == "range":
            arrays = [array * entries.scales[key].shares for key, array in zip(self.keys, arrays)]
        joined = arrays[0] if len(arrays) == 1 else np.hstack(arrays)
        return take_columns(joined, self.columns)

    def column_name(self, i: int, shapes: Mapping[str, int], names: Mapping[str, Names]) -> str:
        """Return the name of column ``i``.

        It is one of ``names``, its number in the array, or the entry of the dict.
        """
        positions = np.arange(sum(shapes[key] for key in self.keys))
        j = int(take_columns(positions[None], self.columns)[0, i])
        for key in self.keys:
            if j < shapes[key]:
                break
            j -= shapes[key]
        names_of_key = names.get(key)
        if names_of_key is not None:
            return str(names_of_key[j])
        if key != PLAIN and shapes[key] == 1:
            return key
        if key != PLAIN and len(self.keys) > 1:
            return f"{key}[{j}]"
        return str(j)


class Entries(NamedTuple):
    """Arrays of the entries of dicts, or of the rows (:data:`PLAIN`), by name.

    Attributes
    ----------
    raw, standardized : dict of str to array (n, d)
        With the mean where entries are missing; standardized where a kernel needs it.
    scales : dict of str to ColumnScales
        Of the columns in ``standardized``.
    missing : bool array of shape (n, d), or None
        The missing entries of :data:`PLAIN`, if there are any.
    """

    raw: Mapping[str, Vectors]
    standardized: Mapping[str, np.ndarray]
    scales: Mapping[str, ColumnScales]
    missing: np.ndarray | None


def kinds_of_times(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> dict[str, str]:
    """Return the kind of each key of dicts whose first value is a date or a duration."""
    kinds = {}
    for key in keys:
        kinds_of_values = (_kind(row.get(key)) for row in rows)
        first = next(filter(None, kinds_of_values), NUMERIC)
        if first != NUMERIC:
            kinds[key] = first
    return kinds


def _kind(value: object) -> str | None:
    """Return the kind of a number, a date or a duration; None for missing and other values."""
    if not isinstance(value, NUMBERS_AND_TIMES) or is_missing(value):
        return None
    if isinstance(value, (timedelta, np.timedelta64)):
        return DURATIONS
    if isinstance(value, TIMES):
        return DATES
    return NUMERIC


def numbers_of(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], kinds: Mapping[str, str]
) -> np.ndarray:
    """Return the numbers of dicts, (n, d), dates and durations in days; NaN where they are missing.

    ``kinds`` are those of dates and durations in training. Raises InputError, which names the key
    and the row, for text and other values.
    """
    width = len(keys)
    values: list[Any] = [row.get(key) for row in rows for key in keys]
    if kinds or not set(map(type, values)) <= ORDINARY:
        for j, key in enumerate(keys):
            column = values[j::width]
            _check_kind(column, key, kinds.get(key, NUMERIC))
            values[j::width] = map(_number, column)
    with suppress(TypeError, ValueError, OverflowError):
        numbers = np.array(values, dtype=np.float64).reshape(len(rows), width)
        if not np.count_nonzero(np.abs(numbers) > LARGEST):
            return numbers
    # raises an error that names the wrong value
    scalars = [value if np.ndim(value) == 0 else str(value) for value in values]
    present = [0.0 if value is None or value != value else value for value in scalars]
    return np.hstack([stacked(present[j::width], key, 1) for j, key in enumerate(keys)])


def _check_kind(column: Sequence[Any], key: str, learned: str) -> None:
    """Raise InputError if a column holds text, or values of another kind than in training."""
    for row, value in enumerate(column):
        if isinstance(value, str):
            raise InputError(
                f"Column {key!r:.80} of X must hold finite numbers, got {value!r:.40} in row {row}."
            )
        kind = _kind(value)
        if kind is not None and kind != learned:
            refuse_kind(key, learned, kind)


def _number(value: Any) -> Any:
    """Convert dates to days since 1970 in UTC, durations to days, and missing values to NaN."""
    if np.ndim(value) == 0 and is_missing(value):
        return math.nan
    if not isinstance(value, TIMES):
        return value
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    is_duration = isinstance(value, (timedelta, np.timedelta64))
    microseconds = np.array(value, "m8[us]" if is_duration else "M8[us]")
    return microseconds.astype(np.int64) / DAY


def stacked(values: Sequence[ArrayLike | None], key: str, n_columns: int) -> np.ndarray:
    """Validate the arrays or numbers of one key of all tokens, and stack them to (N, n_columns)."""
    array = _valid(values, n_columns)
    if array is not None:
        return array
    i = next(i for i, value in enumerate(values) if _valid([value], n_columns) is None)
    expected = "a number" if n_columns == 1 else f"an array of {n_columns} numbers"
    got = "nothing" if values[i] is None else shown(values[i], 40)
    raise InputError(
        f"{key!r} must hold {expected}, finite and up to {LARGEST:g}, "
        f"got {got} in row or token {i}."
    )


def _valid(values: Sequence[ArrayLike | None], n_columns: int) -> np.ndarray | None:
    """Return an array (N, n_columns) of finite numbers; None if the values are something else."""
    try:
        array = np.array(values)
        if array.dtype.kind == "c":
            return None
        array = array.astype(np.float64, copy=False)
    except (ValueError, TypeError):
        return None
    if array.ndim == 1:
        array = array[:, None]
    is_valid = array.shape == (len(values), n_columns) and (np.abs(array) <= LARGEST).all()
    return array if is_valid else None
