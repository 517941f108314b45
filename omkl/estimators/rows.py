"""Rows with one output each: what OnlineMKLClassifier and OnlineMKLRegressor read."""

import hashlib
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from omkl.estimators.columns import keep_names, names_compared, rows_of_block, rows_of_frame
from omkl.estimators.examples import check_sample_weight, class_weights
from omkl.estimators.streaming import TrainingBlock, as_stream
from omkl.estimators.token_codec import TokenData
from omkl.exceptions import InputError


def read_rows(
    estimator: BaseEstimator, block: TrainingBlock, check_targets: Any, first: bool, whole: bool,
    class_weight: Any = None,
) -> TokenData:  # fmt: skip
    """Rows and their outputs as tokens, each a sequence of its own.

    Parameters
    ----------
    estimator : OnlineMKLClassifier or OnlineMKLRegressor
        Notes the columns of X where a model starts, and compares them later.
    block : TrainingBlock
    check_targets : callable
        ``check_targets(y)`` is the array of targets, if it can be learned.
    first : bool
        Whether a model starts with these rows.
    whole : bool
        Whether these are all the rows of a ``fit``: then those of weight 0 are left out, and the others brought into
        an order that does not depend on that of the rows, if they are to be shuffled.
    class_weight : None, "balanced" or dict
    """
    X, block_names = rows_of_block(block.X, estimator, first)
    X, y = rows_of_frame(X, estimator, first), block.y
    if y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: there are no labels y. "
            "Give them, or, in a stream, pairs (x, y)."
        )
    if is_dicts(X):
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
    else:
        numeric = isinstance(estimator, RegressorMixin)
        checks = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "y_numeric": numeric}
        with names_compared(block_names):
            X, y = validate_data(estimator, X, y, reset=first, **checks)
    if block_names is not None:
        keep_names(estimator, block_names, first)
    y, names = check_targets(y), getattr(estimator, "feature_names_in_", None)
    weights = check_sample_weight(block.sample_weight, len(y))
    offsets = np.arange(len(y) + 1)
    if class_weight is not None:
        weights = class_weights(class_weight, y.tolist(), offsets, weights, whole)
    if not whole:
        return TokenData(X, offsets, y.tolist(), weights, names=names)
    if weights is not None:
        X, y, weights = _chosen(X, weights > 0), y[weights > 0], weights[weights > 0]
    distinct = X
    if estimator.shuffle and not isinstance(X, list):
        order, first_of_run = _order_by_content(X, y)
        X, y, weights = X[order], y[order], None if weights is None else weights[order]
        distinct = X[first_of_run]
    return TokenData(X, np.arange(len(y) + 1), y.tolist(), weights, distinct, names)


def row_potentials(estimator: Any, X: Any) -> np.ndarray:
    """Potentials of each row of X, an array, data frame, list of dicts, stream or block of one: (n, K)."""
    predictor, stream = estimator.predictor_, as_stream(X)
    if stream is not None:
        return np.concatenate([row_potentials(estimator, block) for block in stream.blocks()])
    X, block_names = rows_of_block(X, estimator, reset=False)
    X = rows_of_frame(X, estimator, reset=False)
    if not is_dicts(X):
        with names_compared(block_names):
            X = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64, order="C")
    encoded = estimator.model_.codec.encoder.encode(X, np.arange(n_rows(X) + 1))
    return np.concatenate([potentials.unary for _, potentials in predictor.blocks(encoded)])


def is_dicts(X: Any) -> bool:
    """Whether rows are given as a list of dicts."""
    return isinstance(X, list) and len(X) > 0 and isinstance(X[0], dict)


def n_rows(X: Any) -> int:
    """Number of rows."""
    return len(X) if isinstance(X, list) else X.shape[0]


def _chosen(X: Any, mask: np.ndarray) -> Any:
    return [x for x, kept in zip(X, mask) if kept] if isinstance(X, list) else X[mask]


def _order_by_content(X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order of the examples that depends on them alone, and the first of each run of equal rows in it.

    Shuffling from here makes the model independent of the order of the rows, and a repeated row the same as a
    weighted one.
    """
    if sparse.issparse(X):
        X.sort_indices()
        parts = zip(np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]))
        contents = [indices.tobytes() + values.tobytes() for indices, values in parts]
    else:
        contents = [row.tobytes() for row in X]
    digests = np.array(
        [int.from_bytes(hashlib.blake2b(c, digest_size=8).digest(), "little") for c in contents], np.uint64
    )
    _, codes = np.unique(y, return_inverse=True)
    order = np.lexsort((codes, digests))
    ordered = digests[order]
    return order, np.concatenate([[True], ordered[1:] != ordered[:-1]])
