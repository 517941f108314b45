"""Validation of parameters, and of rows with one output each.

The first fit keeps the names of columns, and every later call compares them.
"""

import hashlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from omkl._components import check_flags, check_number
from omkl._threads import in_threads
from omkl.data import Block
from omkl.data.blocks import align_columns, is_frame, n_rows
from omkl.data.frames import (
    are_few_rows,
    check_rows,
    column_names,
    is_column,
    plain_targets,
    read_frame,
    text_columns,
    times_as_days,
    with_unique_entries,
)
from omkl.estimators.numeric import refuse_kind, refuse_missing, refuse_text
from omkl.estimators.sources import TrainingBlock, as_stream
from omkl.estimators.targets import check_sample_weight, class_weights
from omkl.exceptions import InputError
from omkl.features.views import FlatTokens, TrainingIndex

#: Rows that are encoded and scored at a time, by each thread.
AT_A_TIME = 4096
#: Learned attributes about columns.
COLUMNS = ("n_features_in_", "feature_names_in_")
#: Numbers of a larger magnitude are refused, as their squares and sums of squares may overflow.
LARGEST = 1e100


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
    parameters = vars(estimator)
    for name, constraint in constraints.items():
        if name in parameters:
            constraint.check(name, parameters[name])


# ---- rows with one output each ----------------------------------------------------------------------------------


class TokenData(NamedTuple):
    """Checked tokens and labels, ready to be encoded.

    Attributes
    ----------
    inputs : array, CSR matrix, list of dicts, Words or AttributeLists
        All tokens, one sequence after the other.
    offsets : int array
        Sequence s has the tokens ``offsets[s] : offsets[s + 1]``.
    labels : sequence
        The label of every token.
    weights : array, optional
        The weight of every sequence.
    distinct : int array, optional
        Tokens that kernels learn their widths from; all by default.
    names : sequence of str, optional
        Names of columns.
    training_index : TrainingIndex, optional
        The indices of the tokens among the training inputs, where all of these are given at once.
    """

    inputs: FlatTokens
    offsets: np.ndarray
    labels: Sequence
    weights: np.ndarray | None = None
    distinct: np.ndarray | None = None
    names: Sequence[str] | None = None
    training_index: TrainingIndex | None = None


def read_rows(
    estimator: Any,
    check_targets: Callable,
    class_weight: Any,
    block: TrainingBlock,
    first: bool,
    whole: bool = False,
) -> TokenData:
    """Check rows and their outputs; each row is a sequence of one token.

    Parameters
    ----------
    estimator : OnlineMKLClassifier or OnlineMKLRegressor
        Keeps the names of the columns of the first rows, and compares later ones.
    check_targets : callable
        ``check_targets(y)`` checks the targets, and returns them as an array.
    class_weight : None, "balanced" or dict
    block : TrainingBlock
    first : bool
        Whether a model starts with these rows.
    whole : bool
        Whether these are all rows of a ``fit``. Rows of weight 0 are then dropped, and if the rest is to be shuffled,
        it is first sorted by content, so that the model does not depend on the order of the rows.
    """
    if block.y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; a stream has pairs (x, y)."
        )
    X, y = checked_rows(estimator, block.X, first, block.y)
    y, names = check_targets(y), getattr(estimator, "feature_names_in_", None)
    weights = check_sample_weight(block.sample_weight, len(y))
    offsets = np.arange(len(y) + 1)
    if class_weight is not None:
        weights = class_weights(class_weight, y.tolist(), offsets, weights, whole)
    if not whole:
        return TokenData(X, offsets, y.tolist(), weights, names=names)
    distinct, rows, n_given = None, np.arange(len(y)), len(y)
    if weights is not None:
        rows = np.flatnonzero(weights > 0)
        X, y, weights = _chosen(X, weights > 0), y[rows], weights[rows]
    if estimator.shuffle and not isinstance(X, list):
        order, first_of_run = _order_by_content(X, y)
        X, y, weights, rows = X[order], y[order], None if weights is None else weights[order], rows[order]
        distinct = np.flatnonzero(first_of_run)
    return TokenData(X, np.arange(len(y) + 1), y.tolist(), weights, distinct, names, TrainingIndex(rows, n_given))


def row_potentials(estimator: Any, X: Any) -> np.ndarray:
    """Potentials (n, K) of the rows of X, an array, data frame, list of dicts, stream, or block of a stream."""
    model = estimator.model_
    stream = as_stream(X)
    if stream is not None:
        return np.concatenate([row_potentials(estimator, block) for block in stream.blocks()])
    X = checked_rows(estimator, X, reset=False)
    n = n_rows(X)

    def scored(part: Any) -> np.ndarray:
        encoded = model.codec.encoder.encode(part, np.arange(n_rows(part) + 1))
        found = [potentials.unary for _, potentials in model.blocks(encoded)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    if n <= AT_A_TIME:
        return scored(X)
    model.predictor()  # made once, for all threads
    parts = (X[low : low + AT_A_TIME] for low in range(0, n, AT_A_TIME))
    return np.concatenate(in_threads(scored, parts, estimator.n_jobs))


def checked_rows(estimator: Any, X: Any, reset: bool, *y: Any) -> Any:
    """Check rows: a list of dicts, or an array, sparse matrix or data frame as scikit-learn checks it.

    Parameters
    ----------
    estimator : OnlineEstimator
    X : array, sparse matrix, data frame, list of dicts or Block
    reset : bool
        Keep the names of columns, instead of comparing them.
    *y : array, optional
        Targets.

    Returns
    -------
    X, or the pair of X and ``y`` where that is given
    """
    names = None
    if isinstance(X, Block):
        # columns of a block that knows their names come in the order in which the model knows them
        known = None if reset else getattr(estimator, "feature_names_in_", None)
        X, names = X.aligned(known, "A block of the stream").X, X.feature_names
    if reset and isinstance(X, list):
        forget_columns(estimator)
    X = _rows_of_frame(X, estimator, reset)
    if isinstance(X, list) and X and isinstance(X[0], dict):
        if y:
            y = (_as_column(plain_targets(*y)),)
            if len(X) != len(y[0]):
                check_consistent_length(X, *y)
        checked = (X, *y) if y else X
    elif not reset and are_few_rows(X, vars(estimator)) and all(is_column(column, len(X)) for column in y):
        X = np.ascontiguousarray(X, dtype=np.float64)
        check_largest(X)
        checked = (X, *y) if y else X
    else:
        checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "reset": reset}
        if y:
            checks["y_numeric"] = isinstance(estimator, RegressorMixin)
        with warnings.catch_warnings():
            if names is not None:  # they were compared
                warnings.filterwarnings("ignore", "X does not have valid feature names")
            checked = checked_arrays(estimator, X, *y, names=names, **checks)
    if names is not None:
        keep_names(estimator, names, reset)
    return checked


def checked_arrays(estimator: Any, X: Any, *y: Any, names: Sequence[str] | None = None, **checks: Any) -> Any:
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
        refuse_text(X)  # scikit-learn does not say where
        refuse_missing(X, names)
        refuse_kind(X)
        raise
    X = with_unique_entries(checked[0] if y else checked)
    check_largest(X)
    return (X, *checked[1:]) if y else X


def check_largest(X: Any) -> None:
    """Raise an InputError where an array or sparse matrix of finite numbers holds one above 1e100."""
    values = X.data if sparse.issparse(X) else X
    if isinstance(values, np.ndarray) and values.size and max(float(values.max()), -float(values.min())) > LARGEST:
        raise InputError(f"X must hold finite numbers up to {LARGEST:g}, got {np.abs(values).max():.3g}.")


def _as_column(y: Any) -> np.ndarray:
    """Targets of dicts as an array."""
    if type(y) is list and len(kinds := set(map(type, y))) == 1 and kinds <= {bool, int, float, str}:
        return np.asarray(y)
    return y if type(y) is np.ndarray and y.ndim == 1 else column_or_1d(y, warn=True)


def _rows_of_frame(X: Any, estimator: Any, reset: bool) -> Any:
    """Convert a data frame with text to a list of dicts, and keep (``reset``) or compare its names.

    Other input stays as it is: scikit-learn keeps and compares the names of data frames of numbers.
    """
    if not is_frame(X := times_as_days(X)):
        return X
    learned_dicts = not reset and not hasattr(estimator, "n_features_in_")
    rows = read_frame(X, learned_dicts)
    if not isinstance(rows, list):
        return X
    names = column_names(X)
    if not reset and not learned_dicts:
        raise InputError(f"The column {text_columns(X)[0]!r} of X must hold numbers, as in training.")
    if reset:
        vars(estimator).pop("n_features_in_", None)
    else:
        align_columns(X, names, getattr(estimator, "feature_names_in_", None), "The data frame")
    keep_names(estimator, names, reset)
    return rows


def keep_names(estimator: Any, names: Sequence[str] | None, reset: bool) -> None:
    """Set ``feature_names_in_`` where a model starts (``reset``), or delete it where there are no names."""
    if not reset:
        return
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def forget_columns(estimator: Any) -> None:
    """Delete what an earlier fit learned about columns."""
    for name in COLUMNS:
        vars(estimator).pop(name, None)


def _chosen(X, kept):
    return [x for x, is_kept in zip(X, kept) if is_kept] if isinstance(X, list) else X[kept]


def _order_by_content(X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the examples by content: the order, and a mask of the first of each run of equal rows in it.

    Shuffling from here makes the model independent of the order of the rows, and a repeated row the same as a
    weighted one. Zeros are equal whatever their sign, and whether a sparse matrix stores them.
    """
    if sparse.issparse(X):
        if not X.data.all():
            X = X.copy()
            X.eliminate_zeros()
        indices = X.indices.astype(np.int32 if X.shape[1] < 2**31 else np.int64, copy=False)
        parts = zip(np.split(indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]))
        contents = [indices.tobytes() + values.tobytes() for indices, values in parts]
    else:
        contents = [(row + 0.0).tobytes() for row in X]
    digests = np.array(
        [int.from_bytes(hashlib.blake2b(c, digest_size=8).digest(), "little") for c in contents], np.uint64
    )
    order = np.lexsort((np.unique(y, return_inverse=True)[1], digests))
    ordered = digests[order]
    return order, np.concatenate([[True], ordered[1:] != ordered[:-1]])
