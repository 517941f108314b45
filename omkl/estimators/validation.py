"""Validation of parameters, arrays and weights.

The first fit keeps the names of columns, and every later call compares them.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from omkl._components import check_flags, check_number
from omkl._messages import listed
from omkl.data.blocks import is_frame
from omkl.data.frames import check_rows, check_unmasked, plain_targets, times_as_days, with_unique_entries
from omkl.exceptions import InputError

#: Rows that are hashed at a time.
AT_A_TIME = 4096
#: Numbers of a larger magnitude are refused, as their squares and sums of squares may overflow.
LARGEST = 1e100
#: Learned attributes about columns.
COLUMNS = ("n_features_in_", "feature_names_in_")


# ---- parameters -------------------------------------------------------------------------------------------------


class Constraint(Protocol):
    """The valid values of a parameter."""

    def check(self, name: str, value: Any) -> None:
        """Raise an InputError unless the value is valid."""


class Number(NamedTuple):
    """A finite number between two bounds, which are excluded, or one of the values in ``also``."""

    above: float = -math.inf
    below: float = math.inf
    integer: bool = False
    also: tuple = ()

    def check(self, name: str, value: Any) -> None:
        """Raise an InputError unless the value is valid."""
        if not _is_among(value, self.also):
            check_number(name, value, self.above, self.below, self.integer)


class OneOf(NamedTuple):
    """One of some values."""

    values: tuple

    def check(self, name: str, value: Any) -> None:
        """Raise an InputError unless the value is valid."""
        if not _is_among(value, self.values):
            accepted = ", ".join(repr(own) for own in self.values if not isinstance(own, type))
            raise InputError(f"{name} must be one of {accepted}, got {value!r:.100}.")


def _is_among(value: Any, values: tuple) -> bool:
    return any(value is own or (np.ndim(value) == 0 and value == own) for own in values)


def check_parameters(estimator: BaseEstimator, constraints: Mapping[str, Constraint]) -> None:
    """Raise an InputError for the first parameter of an estimator that has no valid value.

    Parameters
    ----------
    estimator : BaseEstimator
    constraints : dict of str to Constraint
        Parameters that the estimator does not have are left out.
    """
    check_flags(estimator)
    parameters = estimator.get_params(deep=False)
    for name, constraint in constraints.items():
        if name in parameters:
            constraint.check(name, parameters[name])


# ---- arrays ---------------------------------------------------------------------------------------------------------


def checked_arrays(estimator: BaseEstimator, X: Any, *y: Any, names: Sequence[str] | None = None, **checks: Any) -> Any:
    """Check X, or X and y, as scikit-learn does, and numbers for their magnitude; dates become days.

    Parameters
    ----------
    estimator : BaseEstimator
    X : array, sparse matrix or data frame
    *y : array, optional
    names : sequence of str, optional
        Names of the columns of a block.
    **checks
        As for :func:`sklearn.utils.validation.validate_data`.

    Returns
    -------
    X, or the pair of X and ``y`` where that is given
    """
    check_rows(X)
    y = tuple(map(plain_targets, y))
    try:
        checked = validate_data(estimator, times_as_days(X), *y, **checks)
    except (TypeError, ValueError):
        _refuse_cell(X, names)  # scikit-learn does not say where
        raise
    X = with_unique_entries(checked[0] if y else checked)
    check_largest(X)
    return (X, *checked[1:]) if y else X


def check_largest(X: Any) -> None:
    """Raise an InputError where an array or sparse matrix of finite numbers holds one above 1e100.

    Parameters
    ----------
    X : array or sparse matrix
    """
    values = X.data if sparse.issparse(X) else X
    if isinstance(values, np.ndarray) and values.size and max(float(values.max()), -float(values.min())) > LARGEST:
        raise InputError(f"X must hold finite numbers up to {LARGEST:g}, got {np.abs(values).max():.3g}.")


def is_missing(label: Any) -> bool:
    """Check for a missing label: None, nan, or pandas' NA or NaT.

    Parameters
    ----------
    label : object
    """
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def _refuse_cell(X: Any, names: Sequence[str] | None) -> None:
    """Raise an InputError for the first column of a table with a cell that is no finite number."""
    if is_frame(X):
        columns = [(f"The column {name!r}", X[name]) for name in X.columns]
    else:
        table = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
        columns = list(enumerate(table.T)) if table.ndim == 2 else []
        columns = [(f"Column {j}" if names is None else f"The column {names[j]!r}", column) for j, column in columns]
    for where, column in columns:
        values = np.asarray(column)
        if values.dtype.kind == "c":
            continue
        rows = np.flatnonzero(~np.isfinite(values)) if values.dtype.kind == "f" else np.arange(len(values))
        for row in rows.tolist():
            if found := _wrong_cell(values[row]):
                place = f" in row {row}" if names is None else ""  # a block has other rows than the file
                raise InputError(f"{where} of X holds {found}{place}: all cells must be finite numbers.")


def _wrong_cell(value: Any) -> str:
    """Describe a value that is missing, infinite, or text that is no number; else empty."""
    if is_missing(value):
        return "NaN"
    try:
        return "" if math.isfinite(float(value)) else "infinity"
    except (TypeError, ValueError):
        return f"the text {value[:50]!r}" if isinstance(value, str) else ""


def column_names_of(estimator: BaseEstimator) -> list[str] | None:
    """Names of the columns that an estimator was fitted on; None if there are none.

    Parameters
    ----------
    estimator : BaseEstimator
    """
    names = estimator.__dict__.get("feature_names_in_")
    return None if names is None else names.tolist()


def keep_columns(estimator: BaseEstimator, names: Sequence[str] | None) -> None:
    """Set ``feature_names_in_`` where a model starts, or delete it if there are no names.

    Parameters
    ----------
    estimator : BaseEstimator
    names : sequence of str or None
    """
    estimator.__dict__.pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def forget_columns(estimator: BaseEstimator) -> None:
    """Delete what an earlier fit learned about columns.

    Parameters
    ----------
    estimator : BaseEstimator
    """
    for name in COLUMNS:
        estimator.__dict__.pop(name, None)


def row_digests(X: Any, rows: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each of some rows. Zeros are equal whatever their sign, and whether a sparse matrix stores them.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    rows : int array of shape (m,)

    Returns
    -------
    uint64 array of shape (m,)
    """
    digests = np.empty(len(rows), dtype=np.uint64)
    for low in range(0, len(rows), AT_A_TIME):
        part = X[rows[low : low + AT_A_TIME]]
        if sparse.issparse(part):
            part = sparse.csr_array(part)
            part.sum_duplicates()
            part.eliminate_zeros()
            ends = pairwise(part.indptr.tolist())
            contents = [part.indices[a:b].astype(np.int32).tobytes() + part.data[a:b].tobytes() for a, b in ends]
        else:
            contents = [row.tobytes() for row in np.ascontiguousarray(part) + 0.0]  # normalizes -0.0
        for i, content in enumerate(contents, low):
            digests[i] = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
    return digests


# ---- weights ----------------------------------------------------------------------------------------------------


def as_numbers(values: Any, name: str) -> np.ndarray:
    """Real numbers as an array in double precision.

    Parameters
    ----------
    values : array-like
    name : str
        The name of the argument, for the error.

    Raises
    ------
    omkl.exceptions.InputError
        If they are no real numbers.
    """
    check_unmasked(values, name)
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
    whole: bool = True,
) -> np.ndarray | None:
    """Sample weights times the weights of the classes, which scikit-learn defines.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        "balanced" is n / (K n_k) for the n_k of n examples that are of class k; a dict gives weights, 1 by default.
    labels : sequence of n labels
        None for labels that are not known.
    offsets : int array
        Sequence s has the labels ``offsets[s] : offsets[s + 1]``; its weight is the mean over its known labels.
    sample_weight : array, optional
    whole : bool
        Whether these are all examples, which "balanced" needs.
    """
    if class_weight is None:
        return sample_weight
    index = {label: k for k, label in enumerate(dict.fromkeys(label for label in labels if label is not None))}
    codes = np.array([-1 if label is None else index[label] for label in labels], dtype=np.int64)
    given, lengths = codes >= 0, np.diff(offsets)
    copies = np.repeat(np.ones(len(lengths)) if sample_weight is None else sample_weight, lengths)
    sums = np.bincount(codes[given], copies[given], len(index))
    each = np.append(_weights_of_classes(class_weight, list(index), sums, whole), 0.0)[codes]  # 0 at the code -1
    means = np.add.reduceat(each, offsets[:-1]) / np.maximum(np.add.reduceat(given, offsets[:-1], dtype=int), 1)
    weights = means if sample_weight is None else means * sample_weight
    if whole and not weights.any():
        raise InputError("class_weight must leave an example a weight above 0.")
    return weights


def _weights_of_classes(class_weight: str | dict, classes: list, sums: np.ndarray, whole: bool) -> np.ndarray:
    """Weight of each class; ``sums`` (K,) are the sums of the sample weights of each."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        if not whole:
            raise InputError(
                'class_weight must be a dict for partial_fit and streams, as "balanced" counts all examples.'
            )
        present = sums > 0
        balanced = sum(sums.tolist()) / (np.count_nonzero(present) * np.where(present, sums, 1.0))
        return np.where(present, balanced, 1.0)
    if not isinstance(class_weight, dict):
        raise InputError(f'class_weight must be None, "balanced" or a dict, got {class_weight!r}.')
    # classes that a fold lacks are no mistake if those that it has all have a weight
    if whole and not class_weight.keys() >= set(classes) and (unknown := [k for k in class_weight if k not in classes]):
        raise InputError(f"class_weight has a weight for {unknown[0]!r}, but the classes are {listed(classes, 5)}.")
    weights = np.array([class_weight.get(label, 1.0) for label in classes], dtype=np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("class_weight must hold finite numbers >= 0.")
    return weights


def weighted_by_class(
    class_weight: str | dict | None, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray | None
) -> np.ndarray | None:
    """Sample weights times the weights of the classes, all above 0.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        As for :func:`class_weights`.
    classes : array of shape (K,)
    codes : int array of shape (N,)
        Index of the class of each sample.
    weights : array of shape (N,), optional
    """
    if class_weight is None:
        return weights
    own = np.ones(len(codes)) if weights is None else weights
    of_classes = _weights_of_classes(class_weight, classes.tolist(), np.bincount(codes, own, len(classes)), True)
    if not of_classes.all():
        raise InputError("class_weight must hold finite numbers > 0.")
    return of_classes[codes] * own


@overload
def check_sample_weight(sample_weight: None, n: int) -> None: ...


@overload
def check_sample_weight(sample_weight: ArrayLike, n: int) -> np.ndarray: ...


def check_sample_weight(sample_weight: ArrayLike | None, n: int) -> np.ndarray | None:
    """Check weights, one for each example, or one number for all.

    Parameters
    ----------
    sample_weight : array of shape (n,), float or None
        None stays None.
    n : int
        Number of examples.

    Returns
    -------
    array of shape (n,), or None
    """
    if sample_weight is None:
        return None
    weights = as_numbers(sample_weight, "sample_weight")
    weights = np.full(n, weights) if weights.ndim == 0 else weights
    if weights.shape != (n,):
        raise InputError(f"sample_weight must have shape ({n},), one weight for each example, got {weights.shape}.")
    if not ((weights >= 0) & (weights <= LARGEST)).all() or not weights.any():
        raise InputError("sample_weight must hold finite numbers >= 0, and not be zero for every example.")
    return weights
