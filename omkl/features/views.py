"""Views, the input arrays of kernels: entries of dicts, or columns of an array."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import warn_caller
from omkl._messages import shown
from omkl.exceptions import DataWarning, InputError
from omkl.features.vocabulary import LARGEST, NUMBERS, warn_of_kind
from omkl.kernels.inputs import Positions, Vectors, count_columns, format_on, take_columns

#: Concatenated tokens: rows of an array or CSR matrix, dicts, words or lists of attributes.
FlatTokens: TypeAlias = Vectors | list[Any]

#: Name of the only view of plain arrays.
PLAIN = "x"
#: Warn about different units if the largest standard deviation of columns exceeds the lower quartile by this factor
#: (the minimum is not robust: a pixel at the edge). Accuracy of the default kernels on raw columns, on scaled columns,
#: and of one kernel per column: iris (largest by smallest: 4) 0.96, 0.95, 0.96; diabetes (69; R^2) 0.37, 0.50, 0.46;
#: wine (2,500) 0.71, 0.98, 0.97; breast cancer (215,000) 0.91, 0.97, 0.96.
UNITS_APART = 10.0
#: Standard deviations up to this fraction of the mean are rounding errors of a constant.
ROUNDING = 1e-12


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
    """

    inputs: FlatTokens
    offsets: np.ndarray
    labels: Sequence
    weights: np.ndarray | None = None
    distinct: np.ndarray | None = None
    names: Sequence[str] | None = None


class View(NamedTuple):
    """Input array of a kernel.

    Attributes
    ----------
    keys : tuple of str
        Entries of dicts, which are concatenated; :data:`PLAIN` for rows of an array.
    columns : None, slice or tuple of int
        Selected columns of these; None for all.
    """

    keys: tuple[str, ...]
    columns: Positions

    @property
    def label(self) -> str:
        """Name in the views of :class:`~omkl.groups.Tokens`."""
        columns = "" if self.columns is None else f"[{format_on(self.columns)}]"
        return "+".join(self.keys) + columns

    def width(self, shapes: Mapping[str, int]) -> int:
        """Return the number of columns."""
        return count_columns(self.columns, sum(shapes[key] for key in self.keys))

    def select(self, raw: Mapping[str, Vectors]) -> Vectors:
        """Return the array of this view."""
        arrays = [raw[key] for key in self.keys]
        return take_columns(arrays[0] if len(arrays) == 1 else np.hstack(arrays), self.columns)

    def column_name(self, i: int, shapes: Mapping[str, int], names: Sequence[str] | None) -> str:
        """Return the name of a column: in the data frame, its number in the array, or the entry of the dict."""
        j, columns = i, self.columns
        if columns is not None:
            j = range(sum(shapes[key] for key in self.keys))[columns][i] if isinstance(columns, slice) else columns[i]
        for key in self.keys:
            if j < shapes[key]:
                break
            j -= shapes[key]
        if key == PLAIN and names is not None:
            return str(names[j])
        entry = key != PLAIN and (shapes[key] == 1 or len(self.keys) > 1)
        return str(j) if not entry else key if shapes[key] == 1 else f"{key}[{j}]"


def shapes_of_first(tokens: FlatTokens) -> dict[str, int]:
    """Return the number of columns of the array, or of each vector in the first dict."""
    if not isinstance(tokens, list):
        return {PLAIN: tokens.shape[1]}
    first = tokens[0] if isinstance(tokens[0], dict) else {}
    return {key: np.size(value) for key, value in first.items() if _is_vector(value)}


def _is_vector(value: object) -> bool:
    """Check for an array or a list of numbers."""
    if isinstance(value, (list, tuple)):
        return len(value) > 0 and all(isinstance(part, NUMBERS) for part in value)
    return isinstance(value, np.ndarray)


def is_number_in(tokens: FlatTokens, key: str) -> bool:
    """Check whether the value of this key is a number in the first dict that has the key."""
    return isinstance(next((token[key] for token in tokens if isinstance(token, dict) and key in token), None), NUMBERS)


def stacked(values: Sequence[ArrayLike | None], key: str, n_columns: int) -> np.ndarray:
    """Validate the arrays or numbers of one key of all tokens, and stack them to (N, n_columns)."""
    view = _valid(values, n_columns)
    if view is None:
        i = next(i for i, value in enumerate(values) if _valid([value], n_columns) is None)
        held = "a number" if n_columns == 1 else f"an array of {n_columns} numbers"
        got = "nothing" if values[i] is None else shown(values[i], 40)
        raise InputError(f"{key!r} must hold {held}, finite and up to {LARGEST:g}, got {got} in row or token {i}.")
    return view


def _valid(values: Sequence[ArrayLike | None], n_columns: int) -> np.ndarray | None:
    """Return an array (N, n_columns) of finite numbers; None if the values are something else."""
    try:
        view = np.array(values, dtype=np.float64)
    except (ValueError, TypeError):
        return None
    view = view[:, None] if view.ndim == 1 else view
    return view if view.shape == (len(values), n_columns) and (np.abs(view) <= LARGEST).all() else None


def scales_of_numbers(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of each column of numbers in rows of a table with text."""
    scales = {}
    for name in names:
        values = [value for row in rows if (value := row.get(name)) is not None]
        if values and set(map(type, values)) <= {int, float}:
            numbers = stacked(values, name, 1)
            mean, deviation = float(np.mean(numbers)), float(np.std(numbers))
            scales[name] = mean, deviation if deviation > ROUNDING * abs(mean) else 1.0
    return scales


def scaled(rows: Sequence[Mapping[str, Any]], name: str, scale: tuple[float, float]) -> np.ndarray:
    """Return a column of numbers, (n, 1), minus its mean and divided by its deviation; 0 for missing values."""
    mean, deviation = scale
    values = [row.get(name) for row in rows]
    if any(isinstance(value, str) for value in values):
        warn_of_kind(name, "text", "numbers")
    values = [mean if value is None or isinstance(value, str) else value for value in values]
    return (stacked(values, name, 1) - mean) / deviation


def warn_of_units(X: np.ndarray, names: Sequence[str] | None = None) -> None:
    """Warn if the scales of columns differ so much that the largest ones dominate kernels on all columns."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.std(X, axis=0)
    varied = np.flatnonzero(spread > 0)
    if not len(varied) or not np.isfinite(spread).all():
        return
    small, large = varied[np.argmin(spread[varied])], int(np.argmax(spread))
    if spread[large] > UNITS_APART * np.quantile(spread[varied], 0.25):
        called = [repr(names[k]) if names is not None else str(k) for k in (large, small)]
        warn_caller(
            f"Column {called[0]} varies {spread[large] / spread[small]:.3g} times as much as column {called[1]}, and "
            "the default kernels see little else: scale the columns, or set "
            'kernels=omkl.kernels.per_column("gaussian", X).',
            DataWarning,
        )
