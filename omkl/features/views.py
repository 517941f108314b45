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
from omkl.data.frames import is_missing
from omkl.exceptions import InputError
from omkl.features.scales import ColumnScales
from omkl.features.vocabulary import LARGEST, NUMBERS, PLAIN_NUMBERS
from omkl.kernels.inputs import Positions, Vectors, count_columns, format_on, take_columns

#: Concatenated tokens: rows of an array or CSR matrix, dicts, words or lists of attributes.
FlatTokens: TypeAlias = Vectors | list[Any]

#: Names of the entries that are the rows of plain arrays, and the numbers of dicts.
PLAIN, COLUMNS = "x", "columns of numbers"
#: Name of the group that says which columns are missing.
MISSING = "missing"
#: Types of dates and durations, which count in days.
TIMES = (date, timedelta, np.datetime64, np.timedelta64)
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
    names: Sequence[str] | None = None
    total: float = math.inf
    edges: "TokenData | None" = None
    layouts: Sequence[Any] = ()

    @property
    def whole(self) -> bool:
        """True if scales and widths are learned from these data before training, and not as rows
        come.
        """
        return self.total < math.inf

    @property
    def token_weights(self) -> np.ndarray:
        """Weight of every token."""
        return (
            np.ones(self.offsets[-1])
            if self.weights is None
            else np.repeat(self.weights, np.diff(self.offsets))
        )

    def shapes_of_first(self) -> dict[str, int]:
        """Return the number of columns of the array, or of each vector in the first dict."""
        tokens = self.inputs
        if not isinstance(tokens, list):
            return {PLAIN: tokens.shape[1]}
        shapes = {}
        for key, value in tokens[0].items() if isinstance(tokens[0], dict) else ():
            is_list = isinstance(value, (list, tuple)) and len(value) > 0
            if isinstance(value, np.ndarray) or (
                is_list and all(isinstance(part, NUMBERS) for part in value)
            ):
                shapes[key] = np.size(value)
        return shapes

    def number_keys(self) -> list[str]:
        """Return the keys of dicts whose numbers are columns, sorted, so that the order of keys
        does not matter.

        These are keys with a number in at least half of the dicts, if these are the ``whole`` data;
        or in the first dict of a stream, so that blocks do not matter. A column of a table is one
        if its first value is a number.
        """
        rows: list[Any] = list(self.inputs)
        if self.names is not None:
            firsts = (
                next((row[name] for row in rows if row.get(name) is not None), None)
                for name in self.names
            )
            return [
                name
                for name, value in zip(self.names, firsts)
                if isinstance(value, NUMBERS + TIMES)
            ]
        sample = [row for row in (rows if self.whole else rows[:1]) if isinstance(row, dict)]
        counts = Counter(
            key
            for row in sample
            for key, value in row.items()
            if isinstance(value, NUMBERS + TIMES)
        )
        return sorted(key for key, count in counts.items() if 2 * count >= len(sample))

    def has_number(self, key: object) -> bool:
        """Check whether the value of this key is a number in the first dict that has the key."""
        values = (token[key] for token in self.inputs if isinstance(token, dict) and key in token)
        return isinstance(next(values, None), NUMBERS)


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
        columns = "" if self.columns is None else f"[{format_on(self.columns)}]"
        scaled = (
            ""
            if not self.standardize
            else " by range"
            if self.standardize == "range"
            else " standardized"
        )
        return "+".join(self.keys) + columns + scaled

    def width(self, shapes: Mapping[str, int]) -> int:
        """Return the number of columns."""
        return count_columns(self.columns, sum(shapes[key] for key in self.keys))

    def select(self, entries: "Entries") -> Vectors:
        """Return the array of this view."""
        arrays = [
            (entries.standardized if self.standardize else entries.raw)[key] for key in self.keys
        ]
        if self.standardize == "range":
            arrays = [array * entries.scales[key].shares for key, array in zip(self.keys, arrays)]
        return take_columns(arrays[0] if len(arrays) == 1 else np.hstack(arrays), self.columns)

    def column_name(
        self, i: int, shapes: Mapping[str, int], names: Mapping[str, Sequence[str] | None]
    ) -> str:
        """Return the name of a column: one of ``names``, its number in the array, or the entry of
        the dict.
        """
        numbers = np.arange(sum(shapes[key] for key in self.keys))
        j = int(take_columns(numbers[None], self.columns)[0, i])
        for key in self.keys:
            if j < shapes[key]:
                break
            j -= shapes[key]
        if (known := names.get(key)) is not None:
            return str(known[j])
        entry = key != PLAIN and (shapes[key] == 1 or len(self.keys) > 1)
        return str(j) if not entry else key if shapes[key] == 1 else f"{key}[{j}]"


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


def numbers_of(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> np.ndarray:
    """Return the numbers of dicts, (n, d), dates and durations in days; NaN where they are missing.

    Raises InputError, which names the key and the row, for text and other values.
    """
    values: list[Any] = [row.get(key) for row in rows for key in keys]
    if not set(map(type, values)) <= ORDINARY:
        for j, key in enumerate(keys):
            column = values[j :: len(keys)]
            for row, value in enumerate(column):
                if isinstance(value, str):
                    raise InputError(
                        f"Column {key!r:.80} of X must hold finite numbers, got {value!r:.40} in row {row}."
                    )
            values[j :: len(keys)] = map(_number, column)
    with suppress(TypeError, ValueError, OverflowError):
        numbers = np.array(values, dtype=np.float64).reshape(len(rows), len(keys))
        if not (np.abs(numbers) > LARGEST).any():
            return numbers
    scalars = [value if np.ndim(value) == 0 else str(value) for value in values]
    present = [0.0 if value is None or value != value else value for value in scalars]
    # raises an error that names the wrong value
    return np.hstack([stacked(present[j :: len(keys)], key, 1) for j, key in enumerate(keys)])


def _number(value: Any) -> Any:
    """Convert dates to days since 1970 in UTC, durations to days, and missing values to NaN."""
    if np.ndim(value) == 0 and is_missing(value):
        return math.nan
    if not isinstance(value, TIMES):
        return value
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    unit = "m8[us]" if isinstance(value, (timedelta, np.timedelta64)) else "M8[us]"
    return np.array(value, unit).astype(np.int64) / (24 * 3600 * 1e6)


def stacked(values: Sequence[ArrayLike | None], key: str, n_columns: int) -> np.ndarray:
    """Validate the arrays or numbers of one key of all tokens, and stack them to (N, n_columns)."""
    view = _valid(values, n_columns)
    if view is None:
        i = next(i for i, value in enumerate(values) if _valid([value], n_columns) is None)
        held = "a number" if n_columns == 1 else f"an array of {n_columns} numbers"
        got = "nothing" if values[i] is None else shown(values[i], 40)
        raise InputError(
            f"{key!r} must hold {held}, finite and up to {LARGEST:g}, got {got} in row or token {i}."
        )
    return view


def _valid(values: Sequence[ArrayLike | None], n_columns: int) -> np.ndarray | None:
    """Return an array (N, n_columns) of finite numbers; None if the values are something else."""
    try:
        view = np.array(values)
        if view.dtype.kind == "c":
            return None
        view = view.astype(np.float64, copy=False)
    except (ValueError, TypeError):
        return None
    view = view[:, None] if view.ndim == 1 else view
    return (
        view if view.shape == (len(values), n_columns) and (np.abs(view) <= LARGEST).all() else None
    )
