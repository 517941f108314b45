"""Validation of parameters, arrays and weights.

``fit`` stores the names of columns, and later calls compare them.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl._components import check_choice, check_flags, check_number
from omkl._messages import listed, shown
from omkl.data import frames
from omkl.data.blocks import is_frame
from omkl.data.table_columns import Column, encode_columns, read_columns, without_identifiers
from omkl.exceptions import InputError

#: Number of rows to hash at a time.
AT_A_TIME = 4096
#: Learned attributes about columns.
COLUMNS = (
    *("n_features_in_", "feature_names_in_", "column_kinds_"),
    *("categories_", "column_means_", "missing_columns_"),
)
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


#: The valid values of a parameter.
Constraint: TypeAlias = Number | OneOf


def check_parameters(estimator: Any, constraints: Mapping[str, Constraint]) -> None:
    """Raise an InputError for the first parameter of an estimator with an invalid value.

    Every constraint is of a parameter, or of a default that takes the place of a parameter.
    """
    check_flags(estimator)
    for name, constraint in constraints.items():
        constraint.check(name, getattr(estimator, name))


# ---- arrays --------------------------------------------------------------------------------------


def checked_arrays(
    estimator: Any,
    X: Any,
    *y: Any,
    names: Sequence[str] | None = None,
    missing: str = "error",
    columns: list[Column] | None = None,
    **checks: Any,
) -> Any:
    """Validate X, or X and y, by scikit-learn's ``validate_data``; convert frames to numbers.

    The kinds of a data frame's columns are stored as ``column_kinds_``, and those of later frames
    are compared. Text and categories become columns of 0 and 1; the estimator stores them as
    ``categories_``. With ``missing="indicator"`` it also stores ``column_means_``, which replace
    missing entries, and adds a column of 0 and 1 for each of the ``missing_columns_``, those with
    missing entries in training. ``names`` are the column names of a block, and ``columns`` those of
    the frame X, if they have been read. Returns X, or (X, y) if y is given.
    """
    from sklearn.utils.validation import validate_data

    frames.check_rows(X)
    y = tuple(map(frames.plain_targets, y))
    reset = checks.get("reset", True)
    learner = estimator
    if reset:  # scikit-learn replaces its own, if the input is valid
        forget_columns(estimator, COLUMNS[2:])
    categories = getattr(estimator, "categories_", None)
    if is_frame(X):
        frames.check_names(X)
        validate_data(estimator, X, reset=reset, skip_check_array=True)  # names of the columns
        X = _encoded_frame(estimator, X, reset, columns)
        names = encoded_columns(estimator)
        # the estimator counts the columns of the frame
        estimator = copy(estimator)
        checks["reset"] = True
    elif categories is not None:
        raise InputError(
            "X must be a data frame, as in training, where columns held text or categories."
        )
    fills = (
        missing == "indicator"
        and not sparse.issparse(X)
        and (reset or hasattr(learner, "column_means_"))
    )
    if fills:
        checks["ensure_all_finite"] = "allow-nan"
    try:
        checked = validate_data(estimator, X := frames.times_as_days(X), *y, **checks)
    except (TypeError, ValueError) as error:
        # names the column, unlike scikit-learn, which has an error of its own for other objects
        if isinstance(error, ValueError) or _holds_complex(X):
            _refuse_column(X, names, fills)
        raise
    X = frames.with_unique_entries(checked[0] if y else checked)
    check_largest(X, names)
    n_absent = len(getattr(learner, "missing_columns_", ()))
    if fills:
        X = _without_missing(learner, X, reset)
    elif n_absent:
        X = sparse.hstack([X, sparse.csr_array((X.shape[0], n_absent))], format="csr")
    return (X, *checked[1:]) if y else X


def _encoded_frame(estimator: Any, X: Any, reset: bool, columns: list[Column] | None) -> np.ndarray:
    """Return the columns of a data frame as numbers; ``reset`` stores their kinds and categories."""
    if columns is None:
        columns = read_frame_columns(estimator, X, reset, whole=reset)
    if not reset:
        none = [None] * len(columns)
        return encode_columns(columns, getattr(estimator, "categories_", none)).values
    estimator.column_kinds_ = [column.kind for column in columns]
    encoded = encode_columns(columns)
    if any(own is not None for own in encoded.categories):
        estimator.categories_ = encoded.categories
    return encoded.values


def read_frame_columns(estimator: Any, X: Any, reset: bool, whole: bool) -> list[Column]:
    """Read the columns of a data frame; ``reset`` stores their kinds instead of comparing them.

    Parameters
    ----------
    estimator : estimator
        It holds ``column_kinds_``.
    X : data frame
    reset : bool
        Whether a model starts with these rows.
    whole : bool
        Whether these are all training rows. Then leave out columns that identify rows.
    """
    if not reset:
        return read_columns(X, getattr(estimator, "column_kinds_", None))
    columns = read_columns(X)
    if whole:
        columns = without_identifiers(columns)
    estimator.column_kinds_ = [column.kind for column in columns]
    return columns


def _without_missing(estimator: Any, X: np.ndarray, learn: bool) -> np.ndarray:
    """Replace missing entries by the means of their columns, and add columns that tell which were
    missing.
    """
    absent = np.isnan(X) if np.isnan(X.sum()) else np.zeros(X.shape, dtype=bool)
    if learn:
        counts = np.maximum(len(X) - absent.sum(axis=0), 1)
        estimator.column_means_ = np.nansum(X, axis=0, dtype=np.float64) / counts
        estimator.missing_columns_ = np.flatnonzero(absent.any(axis=0)).tolist()
        if estimator.missing_columns_ and MISSING in (column_names_of(estimator) or ()):
            raise InputError(
                f"X must not have a column {MISSING!r}, the group of missing entries: rename it."
            )
    X = np.where(absent, estimator.column_means_.astype(X.dtype), X) if absent.any() else X
    added = absent[:, estimator.missing_columns_].astype(X.dtype)
    return np.hstack([X, added]) if estimator.missing_columns_ else X


def check_largest(X: np.ndarray | sparse.csr_array, names: Sequence[str] | None = None) -> None:
    """Raise an InputError if an array or sparse matrix of finite numbers has a magnitude above
    1e100.
    """
    values = X.data if sparse.issparse(X) else X
    if not isinstance(values, np.ndarray) or not values.size:
        return
    if (
        max(float(np.fmax.reduce(values, axis=None)), -float(np.fmin.reduce(values, axis=None)))
        > frames.LARGEST
    ):
        row, j = (int(places[0]) for places in (abs(X) > frames.LARGEST).nonzero())
        raise InputError(
            f"Column {_name(names, j)} of X must hold finite numbers up to {frames.LARGEST:g}, "
            f"got {X[row, j]:.3g} in row {row}."
        )


def _refuse_column(X: Any, names: Sequence[str] | None, may_lack: bool = False) -> None:
    """Raise an InputError that names the first column with an infinite value or text, or a missing
    value, and its row.

    ``may_lack`` accepts missing values.
    """
    if sparse.issparse(X) or np.ndim(X) != 2 or np.iscomplexobj(X):
        return
    for j, column in enumerate(np.asarray(X, dtype=object).T):
        with suppress(TypeError, ValueError, OverflowError):  # text
            numbers = column.astype(np.float64)
            if (np.isfinite(numbers) | (may_lack & np.isnan(numbers))).all():
                continue
        row = next(
            (
                i
                for i, v in enumerate(column)
                if not (_is_finite(v) or (may_lack and frames.is_missing(v)))
            ),
            0,
        )
        value = "NaN" if frames.is_missing(column[row]) else repr(column[row])
        raise InputError(
            f"Column {_name(names, j)} of X must hold finite numbers, got {value:.40} in row {row}."
        )


def _holds_complex(X: Any) -> bool:
    """Tell whether an array of objects holds complex numbers."""
    is_objects = isinstance(X, np.ndarray) and X.dtype.hasobject
    return is_objects and any(isinstance(value, (complex, np.complexfloating)) for value in X.flat)


def _name(names: Sequence[str] | None, j: int) -> str:
    """Return a column's name in quotes, or its position."""
    return str(j) if names is None else repr(names[j])


def _is_finite(value: object) -> bool:
    """Check for a finite number, or a string that Python can convert to one."""
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def column_names_of(estimator: Any) -> list[str] | None:
    """Return the names of the columns on which an estimator was fitted; None if there are none."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else names.tolist()


def source_columns(estimator: Any) -> list[str] | None:
    """Return the name of the source of each encoded column; None without names.

    A column with k categories counts k times, and the columns that tell which entries are missing
    are called "missing".
    """
    names, absent = column_names_of(estimator), getattr(estimator, "missing_columns_", [])
    categories = getattr(estimator, "categories_", None)
    if categories is None and not absent:
        return names
    categories = [None] * estimator.n_features_in_ if categories is None else categories
    widths = [1 if own is None else len(own) for own in categories]
    known = np.repeat(names or [f"column {j}" for j in range(len(widths))], widths).tolist()
    return known + [MISSING] * len(absent)


def encoded_columns(estimator: Any) -> list[str] | None:
    """Return the names of the encoded columns, as "age", "city=Rome" and "age is missing"; None
    without names.
    """
    sources, categories = source_columns(estimator), getattr(estimator, "categories_", None)
    if sources is None:
        return None
    absent = getattr(estimator, "missing_columns_", [])
    known = sources[: len(sources) - len(absent)]
    if categories is not None:
        values = [value for own in categories for value in ([None] if own is None else own)]
        known = [name if value is None else f"{name}={value}" for name, value in zip(known, values)]
    return known + [f"{known[j]} is missing" for j in absent]


def keep_columns(estimator: Any, names: Sequence[str] | None) -> None:
    """Set ``feature_names_in_`` of a new model, or delete it if there are no names."""
    forget_columns(estimator, ("feature_names_in_",))
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def forget_columns(estimator: Any, names: Sequence[str] = COLUMNS) -> None:
    """Delete the attributes about columns of an earlier fit."""
    for name in names:
        vars(estimator).pop(name, None)


def row_digests(X: np.ndarray | sparse.csr_array, rows: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each of some rows, (m,) uint64.

    0.0 and -0.0 have equal hashes, and explicit zeros of sparse matrices do not matter.
    """
    digests = np.empty(len(rows), dtype=np.uint64)
    for low in range(0, len(rows), AT_A_TIME):
        part = X[rows[low : low + AT_A_TIME]]
        if sparse.issparse(part):
            part = sparse.csr_array(part)
            part.sum_duplicates()
            part.eliminate_zeros()
            ends = pairwise(part.indptr.tolist())
            contents = [
                part.indices[a:b].astype(np.int32).tobytes() + part.data[a:b].tobytes()
                for a, b in ends
            ]
        else:
            contents = [
                row.tobytes() for row in np.ascontiguousarray(part) + 0.0
            ]  # normalizes -0.0
        for i, content in enumerate(contents, low):
            digests[i] = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
    return digests


# ---- weights -------------------------------------------------------------------------------------


def as_numbers(values: ArrayLike, name: str) -> np.ndarray:
    """Convert real numbers to a float64 array; raises an InputError that names the argument
    otherwise.
    """
    frames.check_unmasked(values, name)
    with suppress(TypeError, ValueError, OverflowError):
        values = np.asarray(values)
        if values.dtype.kind not in "cMm":
            return np.asarray(values, dtype=np.float64)
    raise InputError(f"{name} must hold numbers.")


def class_weights(
    class_weight: object,
    labels: Sequence,
    offsets: np.ndarray,
    sample_weight: np.ndarray | None,
    whole: bool = True,
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
    whole : bool
        Whether these are all training examples, as "balanced" requires.
    """
    if class_weight is None:
        return sample_weight
    index = {
        label: k
        for k, label in enumerate(dict.fromkeys(label for label in labels if label is not None))
    }
    codes = np.array([-1 if label is None else index[label] for label in labels], dtype=np.int64)
    given, lengths = codes >= 0, np.diff(offsets)
    copies = np.repeat(np.ones(len(lengths)) if sample_weight is None else sample_weight, lengths)
    sums = np.bincount(codes[given], copies[given], len(index))
    each = np.append(_weights_of_classes(class_weight, list(index), sums, whole), 0.0)[
        codes
    ]  # 0 at the code -1
    means = np.add.reduceat(each, offsets[:-1]) / np.maximum(
        np.add.reduceat(given, offsets[:-1], dtype=int), 1
    )
    weights = means if sample_weight is None else means * sample_weight
    if whole and not weights.any():
        raise InputError("class_weight must leave an example a weight above 0.")
    return weights


def _weights_of_classes(
    class_weight: object, classes: list, sums: np.ndarray, whole: bool
) -> np.ndarray:
    """Return the weight of each class; ``sums`` (K,) are the total sample weights of classes."""
    if isinstance(class_weight, dict):
        # a fold may lack classes of the dict if all its classes are in the dict
        unknown = [label for label in class_weight if label not in classes]
        weights = np.array([class_weight.get(label, 1.0) for label in classes], dtype=np.float64)
        is_wrong = whole and unknown and not class_weight.keys() >= set(classes)
        if is_wrong or not ((weights >= 0) & (weights < np.inf)).all():
            named = listed(classes, 5)
            raise InputError(
                f"class_weight must hold finite numbers >= 0 for the classes {named}, got {class_weight}."
            )
        return weights
    if not (isinstance(class_weight, str) and class_weight == "balanced" and whole):
        accepted = (
            'None, "balanced" or a dict'
            if whole
            else "None or a dict where not all examples are at hand"
        )
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
    """Multiply sample weights by class weights, which must all be positive; ``codes`` are class
    indices.
    """
    every = class_weights(class_weight, classes[codes].tolist(), np.arange(len(codes) + 1), weights)
    if every is not None and not every.all():
        raise InputError("class_weight must hold finite numbers > 0.")
    return every


@overload
def check_sample_weight(sample_weight: None, n: int) -> None: ...


@overload
def check_sample_weight(sample_weight: ArrayLike, n: int) -> np.ndarray: ...


def check_sample_weight(sample_weight: ArrayLike | None, n: int) -> np.ndarray | None:
    """Validate the weights of n examples, or one number for all; returns an array (n,), or None for
    None.
    """
    if sample_weight is None:
        return None
    weights = as_numbers(sample_weight, "sample_weight")
    weights = np.full(n, weights) if weights.ndim == 0 else weights
    if (
        weights.shape != (n,)
        or not ((weights >= 0) & (weights <= frames.LARGEST)).all()
        or not weights.any()
    ):
        raise InputError(
            f"sample_weight must hold {n} finite numbers >= 0, not all zero, got {shown(sample_weight)}."
        )
    return weights
