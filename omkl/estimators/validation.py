"""Validation of parameters, arrays and weights.

``fit`` stores the names of columns, and later calls compare them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl._components import check_choice, check_flags, check_number, warn_caller
from omkl._messages import listed, shown
from omkl.data import frames
from omkl.data.blocks import AnyRows, Names, Rows
from omkl.data.table_columns import encode_columns
from omkl.data.table_reading import Table, TrainingColumns, read_table
from omkl.exceptions import InputError
from omkl.kernels.inputs import Vectors

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Number of rows to hash at a time.
AT_A_TIME = 4096
#: Learned attributes about columns.
COLUMNS = (
    "n_features_in_",
    "feature_names_in_",
    "column_kinds_",
    "categories_",
    "column_means_",
    "missing_columns_",
)
#: Code of an unknown label.
UNKNOWN = -1
#: Name of the group, or the kernel, that tells which columns are missing.
MISSING = "missing"
#: Values of the parameter ``missing``.
MISSING_RULES = ("indicator", "error")


# ---- parameters ----------------------------------------------------------------------------------


class Number(NamedTuple):
    """A finite number between two exclusive bounds, or one of the values in ``also``."""

    above: float = -math.inf
    below: float = math.inf
    integer: bool = False
    also: tuple = ()

    def check(self, name: str, value: object) -> None:
        """Raise an InputError unless the value is valid."""
        check_number(name, value, self.above, self.below, self.integer, also=self.also)


class OneOf(NamedTuple):
    """One of several values."""

    values: tuple

    def check(self, name: str, value: object) -> None:
        """Raise an InputError unless the value is valid."""
        check_choice(name, value, self.values)


class InstanceOf(NamedTuple):
    """An instance of a class."""

    kind: type

    def check(self, name: str, value: object) -> None:
        """Raise an InputError unless the value is valid."""
        if not isinstance(value, self.kind):
            raise InputError(f"{name} must be a {self.kind.__name__}, got {value!r:.100}.")


class Constraint(Protocol):
    """The valid values of a parameter."""

    def check(self, name: str, value: object) -> None:
        """Raise an InputError unless the value is valid."""


def check_parameters(estimator: BaseEstimator, constraints: Mapping[str, Constraint]) -> None:
    """Raise an InputError for the first parameter of an estimator with an invalid value.

    Every constraint is of a parameter, or of a default that takes the place of a parameter.
    """
    check_flags(estimator, constraints)
    for name, constraint in constraints.items():
        constraint.check(name, getattr(estimator, name))


# ---- arrays --------------------------------------------------------------------------------------


def training_columns(estimator: BaseEstimator) -> TrainingColumns:
    """Return the columns on which an estimator was fitted."""
    names = column_names_of(estimator)
    kinds = getattr(estimator, "column_kinds_", ())
    keys = range(len(kinds)) if names is None else names
    return TrainingColumns(names=names, kinds=dict(zip(keys, kinds)))


def checked_arrays(
    estimator: BaseEstimator,
    X: Rows | Table,
    *y: AnyRows,
    missing: str = "error",
    reset: bool = True,
    **checks: Any,
) -> Any:
    """Validate X, or X and y, by scikit-learn's ``validate_data``; convert tables to numbers.

    Columns of text become columns of 0 and 1, one for each category.

    Parameters
    ----------
    estimator : estimator
        Training stores ``n_features_in_``, ``feature_names_in_``, ``column_kinds_`` and
        ``categories_`` in it; later tables are compared with them.
    X : table that :func:`read_table` takes, or Table that it has returned
    *y : array, optional
    missing : str
        With "indicator", training also stores ``column_means_``, which replace missing entries, and
        ``missing_columns_``, those with missing entries. Each of them gets a column of 0 and 1.
    reset : bool
        Whether this is training.
    **checks
        Settings of ``validate_data``.

    Returns
    -------
    X, or (X, y) if y is given
    """
    from sklearn.utils.validation import validate_data

    y = tuple(map(frames.plain_targets, y))
    if reset:  # scikit-learn replaces its own, if the input is valid
        forget_columns(estimator, COLUMNS[2:])
    training = None if reset else training_columns(estimator)
    table = X if isinstance(X, Table) else read_table(X, training)
    if table is not X:
        if training is not None and training.names is None and table.rows is not None:
            raise InputError(
                f"The model was trained on rows of {estimator.n_features_in_} values, got dicts."
            )
        if table.array is None:
            table = table.in_columns(training)
            if reset:
                table = table.without_identifiers()
    validated = estimator
    encoded = frames.array_of_rows(table.array)
    names = None
    if table.columns is not None or table.names is not None:
        if reset:
            store_columns(estimator, table)
        else:
            compare_columns(estimator, table)
        encoded = _encoded(estimator, table, reset)
        names = encoded_columns(estimator)
        # the columns are compared already, and categories have columns of their own
        validated = copy(estimator)
    is_new = reset or validated is not estimator
    has_means = reset or hasattr(estimator, "column_means_")
    fills = missing == "indicator" and has_means and not sparse.issparse(encoded)
    if fills:
        checks["ensure_all_finite"] = "allow-nan"
    try:
        checked = validate_data(validated, encoded, *y, reset=is_new, **checks)
    except (TypeError, ValueError, OverflowError) as error:
        # scikit-learn requires its own error for dicts in an array, and ours names the column
        if "not 'dict'" not in str(error):
            _refuse_column(encoded, names, fills)
        raise
    numbers, *targets = checked if y else [checked]
    numbers = frames.with_unique_entries(numbers)
    check_largest(numbers, names)
    n_absent = len(getattr(estimator, "missing_columns_", ()))
    if fills:
        numbers = _without_missing(estimator, numbers, reset)
    elif n_absent:
        no_gaps = sparse.csr_array((numbers.shape[0], n_absent))
        numbers = sparse.hstack([numbers, no_gaps], format="csr")
    return (numbers, *targets) if y else numbers


def store_columns(estimator: BaseEstimator, table: Table) -> None:
    """Store the number, the names and the kinds of the columns of a training table."""
    keep_columns(estimator, table.names)
    estimator.n_features_in_ = table.n_columns
    if table.array is None:
        estimator.column_kinds_ = table.kinds()


def compare_columns(estimator: BaseEstimator, table: Table) -> None:
    """Compare the number of columns with that in training; warn if only one of them has names."""
    name = type(estimator).__name__
    if table.n_columns != estimator.n_features_in_:
        raise InputError(
            f"X has {table.n_columns} features, but {name} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    were_named = column_names_of(estimator) is not None
    if were_named and table.names is None:
        warn_caller(
            f"X does not have valid feature names, but {name} was fitted with feature names",
            UserWarning,
        )
    if table.names is not None and not were_named:
        warn_caller(
            f"X has feature names, but {name} was fitted without feature names", UserWarning
        )


def _encoded(estimator: BaseEstimator, table: Table, reset: bool) -> Vectors:
    """Return a table with names as numbers; ``reset`` stores the categories of its columns."""
    if table.columns is None:
        return table.array
    if not reset:
        categories = getattr(estimator, "categories_", [None] * len(table.columns))
        return encode_columns(table.columns, categories).values
    encoded = encode_columns(table.columns)
    if any(categories is not None for categories in encoded.categories):
        estimator.categories_ = encoded.categories
    return encoded.values


def _without_missing(estimator: BaseEstimator, X: np.ndarray, learn: bool) -> np.ndarray:
    """Replace missing entries by the means of their columns, and add columns of 0 and 1 for them.

    Each column with missing entries in training gets one; ``learn`` stores these and the means.
    """
    if np.isnan(X.sum()):
        is_missing = np.isnan(X)
    else:
        is_missing = np.zeros(X.shape, dtype=bool)
    if learn:
        counts = np.maximum(len(X) - is_missing.sum(axis=0), 1)
        estimator.column_means_ = np.nansum(X, axis=0, dtype=np.float64) / counts
        estimator.missing_columns_ = np.flatnonzero(is_missing.any(axis=0)).tolist()
        names = column_names_of(estimator)
        if estimator.missing_columns_ and names is not None and MISSING in names:
            raise InputError(
                f"X must not have a column {MISSING!r}, the group of missing entries: rename it."
            )
    if is_missing.any():
        X = np.where(is_missing, estimator.column_means_.astype(X.dtype), X)
    if not estimator.missing_columns_:
        return X
    indicators = is_missing[:, estimator.missing_columns_].astype(X.dtype)
    return np.hstack([X, indicators])


def check_largest(X: Vectors, names: Names = None) -> None:
    """Raise InputError if an array or sparse matrix has a magnitude above 1e100."""
    values = X.data if sparse.issparse(X) else X
    if not isinstance(values, np.ndarray) or not values.size:
        return
    highest = float(np.fmax.reduce(values, axis=None))
    lowest = float(np.fmin.reduce(values, axis=None))
    if max(highest, -lowest) > frames.LARGEST:
        rows, columns = (abs(X) > frames.LARGEST).nonzero()
        row = int(rows[0])
        j = int(columns[0])
        raise InputError(
            f"Column {_name(names, j)} of X must hold finite numbers up to {frames.LARGEST:g}, "
            f"got {X[row, j]:.3g} in row {row}."
        )


def _refuse_column(X: Rows, names: Names, may_lack: bool = False) -> None:
    """Raise an InputError that names the first column and row without a finite number.

    ``may_lack`` accepts missing values.
    """
    if sparse.issparse(X) or np.ndim(X) != 2 or np.iscomplexobj(X):
        return
    for j, column in enumerate(np.asarray(X, dtype=object).T):
        with suppress(TypeError, ValueError, OverflowError):  # text
            numbers = column.astype(np.float64)
            if (np.isfinite(numbers) | (may_lack & np.isnan(numbers))).all():
                continue
        row = _first_wrong_row(column, may_lack)
        value = "NaN"
        if not frames.is_missing(column[row]):
            value = repr(column[row])
        raise InputError(
            f"Column {_name(names, j)} of X must hold finite numbers, got {value:.40} in row {row}."
        )


def _first_wrong_row(column: np.ndarray, may_lack: bool) -> int:
    """Return the first row without a finite number; 0 if there is none."""
    for row, value in enumerate(column):
        is_accepted_gap = may_lack and frames.is_missing(value)
        if not _is_finite(value) and not is_accepted_gap:
            return row
    return 0


def _name(names: Names, j: int) -> str:
    """Return a column's name in quotes, or its position."""
    if names is None:
        return str(j)
    return repr(names[j])


def _is_finite(value: object) -> bool:
    """Check for a finite number, or a string that Python can convert to one."""
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def column_names_of(estimator: BaseEstimator) -> list[str] | None:
    """Return the names of the columns on which an estimator was fitted; None if there are none."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return None
    return names.tolist()


def source_columns(estimator: BaseEstimator) -> list[str] | None:
    """Return the name of the source of each encoded column; None without names.

    A column with k categories counts k times, and the columns that tell which entries are missing
    are called "missing".
    """
    columns = _encoded_columns(estimator)
    return None if columns is None else [source for source, _ in columns]


def encoded_columns(estimator: BaseEstimator) -> list[str] | None:
    """Return the names of the encoded columns; None without names.

    They are like "age", "city=Rome" and "age is missing".
    """
    columns = _encoded_columns(estimator)
    return None if columns is None else [name for _, name in columns]


def _encoded_columns(estimator: BaseEstimator) -> list[tuple[str, str]] | None:
    """Return ``(source, name)`` of each encoded column; None without names."""
    names = column_names_of(estimator)
    missing_columns = getattr(estimator, "missing_columns_", [])
    categories = getattr(estimator, "categories_", None)
    if names is None:
        if categories is None and not missing_columns:
            return None
        names = [f"column {j}" for j in range(estimator.n_features_in_)]
    columns = []
    for name, values in zip(names, categories or [None] * len(names)):
        if values is None:
            columns.append((name, name))
        else:
            columns += [(name, f"{name}={value}") for value in values]
    return columns + [(MISSING, f"{columns[j][1]} is missing") for j in missing_columns]


def keep_columns(estimator: BaseEstimator, names: Names) -> None:
    """Set ``feature_names_in_`` of a new model, or delete it if there are no names."""
    forget_columns(estimator, ("feature_names_in_",))
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


@contextmanager
def restoring_columns(estimator: BaseEstimator) -> Iterator[None]:
    """Restore what an estimator has learned about columns if an error is raised."""
    earlier = {name: vars(estimator)[name] for name in COLUMNS if name in vars(estimator)}
    try:
        yield
    except BaseException:
        forget_columns(estimator)
        for name, value in earlier.items():
            setattr(estimator, name, value)
        raise


def forget_columns(estimator: BaseEstimator, names: Sequence[str] = COLUMNS) -> None:
    """Delete the attributes about columns of an earlier fit."""
    for name in names:
        vars(estimator).pop(name, None)


def row_digests(X: Vectors, rows: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each of some rows, (m,) uint64.

    0.0 and -0.0 have equal hashes, and explicit zeros of sparse matrices do not matter.
    """
    digests = np.empty(len(rows), dtype=np.uint64)
    for low in range(0, len(rows), AT_A_TIME):
        for i, content in enumerate(_contents(X[rows[low : low + AT_A_TIME]]), low):
            digests[i] = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
    return digests


def _contents(X: Vectors) -> list[bytes]:
    """Return the content of each row as bytes."""
    if not sparse.issparse(X):
        return [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]  # normalizes -0.0
    X = sparse.csr_array(X)
    X.sum_duplicates()
    X.eliminate_zeros()
    contents = []
    for start, end in pairwise(X.indptr.tolist()):
        columns = X.indices[start:end].astype(np.int32)
        contents.append(columns.tobytes() + X.data[start:end].tobytes())
    return contents


# ---- weights -------------------------------------------------------------------------------------


def as_numbers(values: ArrayLike, name: str) -> np.ndarray:
    """Convert real numbers to a float64 array; raise an InputError that names the argument."""
    frames.check_unmasked(values, name)
    with suppress(TypeError, ValueError, OverflowError):
        values = np.asarray(values)
        if values.dtype.kind not in "cMm":
            return np.asarray(values, dtype=np.float64)
    raise InputError(f"{name} must hold numbers.")


def class_weights(
    class_weight: str | dict | None,
    labels: Sequence,
    offsets: np.ndarray,
    sample_weight: np.ndarray | None,
    is_all_data: bool = True,
) -> np.ndarray | None:
    """Multiply sample weights by class weights, as defined by scikit-learn.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        "balanced" is n / (K n_k), where n_k of n examples have class k. Classes missing from a dict
        have weight 1.
    labels : sequence of n labels
        None for unknown labels.
    offsets : int array
        Sequence s has the labels ``offsets[s] : offsets[s + 1]``. Its weight is the mean over its
        known labels.
    sample_weight : array, optional
    is_all_data : bool
        Whether these are all training examples, as "balanced" requires.
    """
    if class_weight is None:
        return sample_weight
    code_of_class: dict[Hashable, int] = {None: UNKNOWN}
    for label in labels:
        code_of_class.setdefault(label, len(code_of_class) - 1)
    classes = list(code_of_class)[1:]
    codes = np.array([code_of_class[label] for label in labels], dtype=np.int64)
    is_known = codes != UNKNOWN
    lengths = np.diff(offsets)
    if sample_weight is None:
        sample_weight = np.ones(len(lengths))
    weights_of_labels = np.repeat(sample_weight, lengths)
    sums = np.bincount(codes[is_known], weights_of_labels[is_known], len(classes))
    weights_of_classes = _weights_of_classes(class_weight, classes, sums, is_all_data)
    # the code of unknown labels selects the last entry
    each = np.append(weights_of_classes, 0.0)[codes]
    n_known = np.add.reduceat(is_known, offsets[:-1], dtype=int)
    weights = np.add.reduceat(each, offsets[:-1]) / np.maximum(n_known, 1) * sample_weight
    if is_all_data and not weights.any():
        raise InputError("class_weight must leave an example a weight above 0.")
    return weights


def _weights_of_classes(
    class_weight: Hashable | dict, classes: list, sums: np.ndarray, is_all_data: bool
) -> np.ndarray:
    """Return the weight of each class; ``sums`` (K,) are the total sample weights of classes."""
    if isinstance(class_weight, dict):
        # a fold may lack classes of the dict if all its classes are in the dict
        has_all = class_weight.keys() >= set(classes)
        has_others = any(label not in classes for label in class_weight)
        is_wrong = is_all_data and has_others and not has_all
        weights = np.array([class_weight.get(label, 1.0) for label in classes], dtype=np.float64)
        if is_wrong or not ((weights >= 0) & (weights < np.inf)).all():
            raise InputError(
                "class_weight must hold finite numbers >= 0 for the classes "
                f"{listed(classes, 5)}, got {class_weight}."
            )
        return weights
    is_balanced = isinstance(class_weight, str) and class_weight == "balanced"
    if not is_balanced or not is_all_data:
        accepted = "None or a dict where not all examples are at hand"
        if is_all_data:
            accepted = 'None, "balanced" or a dict'
        raise InputError(f"class_weight must be {accepted}, got {class_weight!r}.")
    present = sums > 0
    balanced = sum(sums.tolist()) / (np.count_nonzero(present) * np.where(present, sums, 1.0))
    return np.where(present, balanced, 1.0)


def weighted_by_class(
    class_weight: str | dict | None,
    classes: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray | None,
) -> np.ndarray | None:
    """Multiply sample weights by class weights, which must all be positive.

    ``codes`` (n,) are indices of ``classes`` (K,).
    """
    offsets = np.arange(len(codes) + 1)
    products = class_weights(class_weight, classes[codes].tolist(), offsets, weights)
    if products is not None and not products.all():
        raise InputError("class_weight must hold finite numbers > 0.")
    return products


def check_sample_weight(sample_weight: ArrayLike | None, n: int) -> Any:
    """Validate the weights of n examples, or one number for all.

    Return an array (n,), or None for None.
    """
    if sample_weight is None:
        return None
    weights = as_numbers(sample_weight, "sample_weight")
    if weights.ndim == 0:
        weights = np.full(n, weights)
    # squares of weights must be numbers, too
    are_in_range = (weights >= 1.0 / frames.LARGEST) & (weights <= frames.LARGEST)
    are_valid = (are_in_range | (weights == 0.0)).all()
    if weights.shape != (n,) or not are_valid or not weights.any():
        raise InputError(
            f"sample_weight must hold {n} finite numbers >= 0, not all zero, each of them 0 or "
            f"from {1.0 / frames.LARGEST:g} to {frames.LARGEST:g}, got {shown(sample_weight)}."
        )
    return weights
