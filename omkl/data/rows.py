"""Rows of whatever holds examples (arrays, data frames, sparse matrices, lists, treebanks), and names of columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Number
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from omkl.data.treebank import Treebank
from omkl.exceptions import InputError

#: Numbers of an array that are checked here, where scikit-learn has nothing else to compare or to say.
FEW = 2**14
#: Nanoseconds in a day.
PER_DAY = 86_400_000_000_000
#: So many integers or strings are classes, whatever they are; of more scikit-learn may warn that they are many.
FEW_CLASSES = 20


class _Examples(NamedTuple):
    X: Any
    y: Any = None


class Block(_Examples):
    """Some examples of a stream, one after the other: a pair ``(X, y)``.

    Attributes
    ----------
    X : array of shape (n, d), scipy CSR matrix, list of n inputs, or Treebank of n sentences
    y : array of shape (n, ...), list of n outputs, or None
        None where outputs are part of the inputs, as in treebanks, or there are none.
    feature_names : sequence of d str, or None
        What the columns of X are called, if they have names.

    >>> Block([{"word": "a"}, {"word": "b"}], [0, 1]).n_examples
    2
    """

    feature_names: Sequence[str] | None = None

    def __new__(cls, X: Any, y: Any = None, feature_names: Sequence[str] | None = None) -> Self:
        block = tuple.__new__(cls, (X, y))  # many small blocks: without the named tuple's own constructor
        if feature_names is not None:
            block.feature_names = feature_names
        return block

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return n_rows(self.X)

    def with_outputs(self, y: Any) -> "Block":
        """The same inputs with other outputs."""
        return Block(self.X, y, self.feature_names)

    def aligned(self, names: Sequence[str] | None, where: str) -> "Block":
        """The same examples, with the columns that have these names, in their order.

        Parameters
        ----------
        names : sequence of str or None
            None leaves the columns as they are; so does a block whose columns have no names.
        where : str
            What the block is called where it lacks one of them.

        Raises
        ------
        omkl.exceptions.InputError
            If it does.
        """
        if names is None or self.feature_names is None or list(names) == list(self.feature_names):
            return self
        return Block(align_columns(self.X, self.feature_names, names, where), self.y, names)


def n_rows(X: Any) -> int:
    """Number of rows."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def as_rows(rows: Any) -> Any:
    """Rows as this module knows them: what is not one of its kinds becomes an array."""
    if sparse.issparse(rows):
        return rows.tocsr()
    return rows if isinstance(rows, (np.ndarray, list, tuple, Treebank)) else np.asarray(rows)


def take(block: Block, chosen: slice | np.ndarray) -> Block:
    """The examples that a slice (as views, where it can be) or an array of indices chooses."""
    return Block(_take(block.X, chosen), None if block.y is None else _take(block.y, chosen), block.feature_names)


def _take(rows: Any, chosen: slice | np.ndarray) -> Any:
    if isinstance(rows, (list, tuple)):
        return list(rows[chosen]) if isinstance(chosen, slice) else [rows[i] for i in chosen]
    return rows[chosen]


def join(blocks: Sequence[Block]) -> Block:
    """One block of several; their inputs must be of one kind.

    Raises
    ------
    omkl.exceptions.InputError
        If blocks do not fit together.
    """
    if len(blocks) == 1:
        return blocks[0]
    if any(block.y is None for block in blocks) != all(block.y is None for block in blocks):
        raise InputError("Some blocks of the stream have outputs y, and others have none: give all of them, or none.")
    targets = None if blocks[0].y is None else _join([block.y for block in blocks])
    names = next((block.feature_names for block in blocks if block.feature_names is not None), None)
    parts = [block.aligned(names, "A block of the stream").X for block in blocks]
    return Block(_join(parts), targets, names)


def _join(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if isinstance(first, Treebank):
        return Treebank.concatenate(parts)
    try:
        if sparse.issparse(first):
            return sparse.vstack(parts, format="csr")
        if isinstance(first, np.ndarray):
            return np.concatenate(parts)
        return [row for part in parts for row in part]
    except (TypeError, ValueError) as error:
        raise InputError(f"Blocks of the stream do not fit together: {error}.") from None


def grouped(examples: Iterable[tuple], size: int) -> Iterator[Block]:
    """Blocks of ``size`` single examples ``(x, y)``; vectors are stacked, everything else is listed."""
    X, y = [], []
    for example in examples:
        try:
            x, target = example
        except (TypeError, ValueError):
            raise InputError(f"A stream's examples are pairs (x, y), not {example!r:.80}.") from None
        X.append(x)
        y.append(target)
        if len(X) == size:
            yield _of_examples(X, y)
            X, y = [], []
    if X:
        yield _of_examples(X, y)


def _of_examples(X: list, y: list) -> Block:
    n_missing = sum(target is None for target in y)
    if n_missing not in (0, len(y)):
        raise InputError(f"{n_missing} of {len(y)} examples of the stream have no y: give all of them one, or none.")
    inputs = _stacked(X)
    if n_missing:
        return Block(inputs)
    is_scalar = isinstance(y[0], (Number, str, np.generic))
    # a list of labels belongs to a sequence, and stays one
    return Block(inputs, np.array(y) if is_scalar else y if inputs is X else _stacked(y))


def _stacked(rows: list) -> Any:
    """Rows as a matrix if they are vectors, or numbers, and as they are if not."""
    first = rows[0]
    if sparse.issparse(first):
        return sparse.vstack(rows, format="csr")
    if isinstance(first, Number) or (_is_vector(first)):
        try:
            return np.array(rows)
        except ValueError:
            raise InputError("The vectors of a stream must all be equally long.") from None
    return rows


def _is_vector(row: Any) -> bool:
    return isinstance(row, (np.ndarray, list, tuple)) and len(row) > 0 and isinstance(row[0], Number)


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, of pandas or polars."""
    return hasattr(X, "to_numpy") and hasattr(X, "columns") and hasattr(X, "dtypes")  # a lazy one warns of the others


def column_names(X: Any) -> list[str] | None:
    """What the columns of a data frame are called; None for all else, and where names are no strings."""
    names = list(X.columns) if is_frame(X) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def align_columns(X: Any, names: Sequence[str] | None, known: Sequence[str] | None, where: str = "The input") -> Any:
    """X with the columns that a model knows, in the order in which it knows them.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d), or list of dicts
        Rows that are dicts have their names with them, and stay as they are.
    names : sequence of str or None
        What the columns of X are called; where that is unknown, X is left as it is.
    known : sequence of str or None
        What the model's columns are called, in its order; None where it has learned from columns without names.
    where : str
        What X is called in the message.

    Raises
    ------
    omkl.exceptions.InputError
        If a column is missing. Columns that the model does not know are left out.
    """
    if names is None or known is None or list(names) == list(known):
        return X
    names, known = list(names), list(known)
    missing = [name for name in known if name not in names]
    if missing:
        listed = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise InputError(
            f"{where} has no column {listed}: {len(known)} columns are needed, and they are found by their names."
        )
    if isinstance(X, list):
        return X
    return X[known] if is_frame(X) else X[:, [names.index(name) for name in known]]


def read_frame(X: Any, as_dicts: bool | None = None) -> Any:
    """A data frame as an array of numbers, or as a list of dicts where columns hold text; all else as it is.

    In dicts, what is missing is left out, and a category is a string. Dates and times are days since 1970 in UTC, times
    of a day and durations are days.

    Parameters
    ----------
    X : data frame, or anything else
    as_dicts : bool, optional
        Whether to make dicts; by default where a column does not hold numbers.
    """
    if not is_frame(X):
        return X
    check_names(X)
    names = list(X.columns)
    columns = [X[name] for name in names]
    if as_dicts is None:
        as_dicts = not all(map(holds_numbers, columns))
    columns = [_as_days(column) if _is_time(column) else column for column in columns]
    if not as_dicts:
        # column by column: pandas does not know how to make a number of what is missing in a whole frame
        return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    values = [_values(column) for column in columns]
    return [{str(name): value for name, value in zip(names, row) if not _is_missing(value)} for row in zip(*values)]


def check_names(X: Any) -> None:
    """Raise :class:`~omkl.exceptions.InputError` where a data frame has no columns, or several of the same name."""
    names = list(X.columns)
    if not names:
        raise InputError("The data frame has no columns: there is nothing to learn from.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"The data frame has several columns {twice!r}: give each a name of its own.")


def times_as_days(X: Any, in_categories: bool = False) -> Any:
    """A data frame or array whose dates, times and durations, also of categories, are days; all else as it is."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "Mm":
        return _in_days(X)
    names = list(X.columns) if is_frame(X) else []
    if in_categories:
        X = _without_categories_of_times(X, names)
    times = [name for name in names if names.count(name) == 1 and _is_time(X[name])]
    if times and hasattr(X, "with_columns"):
        return X.with_columns(type(X[name])(name, _as_days(X[name])) for name in times)
    if times:
        X = X.copy(deep=False)
        for name in times:
            X[name] = _as_days(X[name])
    return X


def _without_categories_of_times(X: Any, names: list) -> Any:
    """A data frame of pandas whose categories that are times are columns of times."""
    for name in names:
        categories = getattr(X[name].dtype, "categories", None) if names.count(name) == 1 else None
        if getattr(getattr(categories, "dtype", None), "kind", None) in ("M", "m"):
            X = X.copy(deep=False)
            X[name] = X[name].astype(categories.dtype)
    return X


def _is_time(column: Any) -> bool:
    """Whether a column of a data frame holds dates, times or durations."""
    return _is_type_of_times(column.dtype)


def _as_days(column: Any) -> np.ndarray:
    """Dates and times as days since 1970 in UTC, times of a day and durations as days; what is missing is NaN."""
    if hasattr(column, "to_physical") and str(column.dtype) == "Time":
        return column.to_physical().cast(float).to_numpy() / PER_DAY
    values = np.asarray(column.to_numpy())
    if values.dtype.kind not in "Mm":  # with a time zone, pandas has objects
        values = np.asarray(column.dt.tz_convert(None))
    return _in_days(values)


def _in_days(values: np.ndarray) -> np.ndarray:
    return (values - np.datetime64(0, "D") if values.dtype.kind == "M" else values) / np.timedelta64(1, "D")


def holds_numbers(column: Any) -> bool:
    """Whether a column of a data frame holds numbers, times or what is missing: digits as text are text."""
    if _is_time(column):
        return True
    kind = getattr(column.dtype, "kind", None)
    if kind is None:
        return column.dtype.is_numeric() or str(column.dtype) == "Boolean"
    if kind != "O" or str(column.dtype) == "category":
        return kind in "biuf"
    if str(column.dtype) in ("str", "string") or any(type(value) is str for value in column):  # of digits, too
        return False
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _values(column: Any) -> list:
    """The entries of a column as Python's own."""
    values = column.tolist() if isinstance(column, np.ndarray) else column.to_list()
    if isinstance(column, np.ndarray):
        return values
    if str(column.dtype) in ("category", "Categorical") or str(column.dtype).startswith("Enum"):
        return [value if _is_missing(value) else category_name(value) for value in values]
    return [float(value) if isinstance(value, Decimal) else value for value in values]


def category_name(value: Any) -> str:
    """What a category is called, whichever library it comes from."""
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return str(value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value)


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def are_few_rows(X: Any, learned: Mapping[str, Any]) -> bool:
    """Whether scikit-learn would find nothing amiss with X: it looks for longer than one row takes to predict.

    ``learned`` are the attributes of an estimator.
    """
    return (
        type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "fiu" and X.itemsize <= 8 and 0 < X.size <= FEW
        and X.shape[1] == learned.get("n_features_in_") and "feature_names_in_" not in learned
        and bool(np.isfinite(X).all())
    )  # fmt: skip


def is_column(y: Any, n: int) -> bool:
    """Whether scikit-learn would find nothing amiss with n targets."""
    is_plain = type(y) is np.ndarray and y.shape == (n,)
    return is_plain and (y.dtype.kind in "biuU" or (y.dtype.kind == "f" and bool(np.isfinite(y).all())))


def are_few_classes(y: np.ndarray) -> bool:
    """Whether these are classes, whatever they are, and too few to look like numbers."""
    return y.dtype.kind in "biuU" and len(y) <= FEW_CLASSES


def check_unmasked(values: Any, name: str) -> None:
    """Raise :class:`~omkl.exceptions.InputError` where entries of a masked array are masked."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(f"{name} is a masked array with entries that are masked: fill them, or leave them out.")


def plain_targets(y: Any) -> Any:
    """Targets in types of NumPy, where scikit-learn would make floats of classes: booleans are no 1.0 and 0.0.

    These are types of pandas that know what is missing, and categories. All else stays as it is.

    Raises
    ------
    omkl.exceptions.InputError
        If targets are masked or missing, or dates or durations, of no unit.
    """
    check_unmasked(y, "y")
    missing = np.asarray(y.isna()) if hasattr(y, "isna") else np.zeros(0)
    if missing.any():
        row = np.argwhere(missing)[0, 0]
        raise InputError(f"y is missing in row {row}: give every row its own, or leave it out.")
    types = list(y.dtypes) if is_frame(y) else [getattr(y, "dtype", None)]
    if types == [None] and hasattr(y, "__array__"):
        types = [np.asarray(y).dtype]
    if any(map(_is_type_of_times, types)):
        raise InputError("y holds dates or durations: give strings as classes, or numbers of days as targets.")
    if all(isinstance(known, np.dtype) for known in types):
        return y
    if not is_frame(y):
        return _plain_column(y)
    columns = (y.iloc[:, j] for j in range(y.shape[1])) if hasattr(y, "iloc") else (y[name] for name in y.columns)
    return np.column_stack(list(map(_plain_column, columns)))


def _plain_column(y: Any) -> Any:
    own = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if isinstance(own, np.dtype) and own.kind in "biuf":
        return y.to_numpy(dtype=own)
    return np.asarray(y) if hasattr(getattr(y, "dtype", None), "categories") else y


def _is_type_of_times(known: Any) -> bool:
    kind = getattr(known, "kind", None)
    return kind in ("M", "m") if kind is not None else hasattr(known, "is_temporal") and known.is_temporal()


def check_rows(X: Any) -> None:
    """Raise InputError where entries are masked, columns share a name, or a sparse matrix is damaged."""
    check_unmasked(X, "X")
    if is_frame(X):
        check_names(X)
    _check_bounds(X)


def _check_bounds(X: Any) -> None:
    """Raise InputError where X is sparse and its indices lie outside: compiled code follows them anywhere."""
    if not sparse.issparse(X) or X.format not in ("csr", "csc", "bsr"):
        return
    n_along, n_across = X.shape[::-1] if X.format == "csc" else X.shape
    if X.format == "bsr":
        n_along, n_across = n_along // X.blocksize[0], n_across // X.blocksize[1]
    used = X.indices[: X.indptr[-1]]
    in_order = len(X.indptr) == n_along + 1 and X.indptr[0] == 0 and bool((np.diff(X.indptr) >= 0).all())
    if not (in_order and X.indptr[-1] <= min(len(X.indices), len(X.data))) or (
        len(used) and not 0 <= used.min() <= used.max() < n_across
    ):
        raise InputError(
            f"X is a damaged {X.format} matrix, its indices lie outside of its shape {X.shape}: make it anew."
        )


def with_unique_entries(X: Any) -> Any:
    """A sparse matrix without two entries in one place, in the order of columns; a copy where it had them."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
