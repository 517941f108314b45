"""Examples for early stopping: given ones, or a part of the training data."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl.data import Block
from omkl.data.blocks import as_rows, is_frame, join, n_rows
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.targets import check_sample_weight
from omkl.exceptions import InputError
from omkl.online import EarlyStopping, OnlineModel, Predictor


def label_accuracy(predictor: Predictor, examples: Sequence) -> float:
    """Accuracy of a frozen model on the known labels of examples."""
    right = total = 0
    for x, y, _ in examples:
        right += np.count_nonzero(predictor.structure.decode(predictor.potentials(x)) == y)
        total += int(np.count_nonzero(y >= 0)) if predictor.structure.is_partial(y) else len(x)
    if not total:
        raise InputError("The examples for early stopping must have a known label.")
    return right / total


def held_out_part(n: int, fraction: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Indices of ``(training, validation)`` examples, of n."""
    n_held_out = max(1, round(fraction * n))
    if n_held_out >= n:
        raise InputError(f"Early stopping cannot hold out {n_held_out} of {n} examples.")
    shuffled = rng.permutation(n)
    return np.sort(shuffled[n_held_out:]), np.sort(shuffled[:n_held_out])


def check_validation(estimator: Any, validation: Any) -> TrainingBlock:
    """Check the pair of examples for early stopping."""
    if not estimator.early_stopping:
        raise InputError("validation= needs early_stopping=True.")
    try:
        X, y = validation
    except (TypeError, ValueError):
        raise InputError("validation must be a pair (X, y).") from None
    return TrainingBlock(X, y, None)


def stopping_by(estimator: Any, model: OnlineModel, validation: TrainingBlock, score: Callable) -> EarlyStopping:
    """Early stopping by examples that are encoded after the first epoch, when the model knows all features.

    Kernels with cached Gram matrices need the examples before, see :func:`joined`.
    """

    def encoded() -> Any:
        return model.codec.encode_known(estimator._read_known(validation))

    return EarlyStopping(encoded, estimator.n_iter_no_change, score)


def joined(block: TrainingBlock, validation: TrainingBlock) -> TrainingBlock:
    """Training examples and those for early stopping as one set, in this order."""
    for what, (X, y, _) in (("the training data", block), ("validation", validation)):
        if y is None or len(y) != n_rows(getattr(X, "X", X)):
            raise InputError(f"X and y of {what} must have the same length.")
    X, y, weights = [block.X, validation.X], [block.y, validation.y], block.sample_weight
    if weights is not None:
        weights = np.concatenate([check_sample_weight(weights, len(y[0])), np.ones(len(y[1]))])
    are_arrays = hasattr(y[0], "dtype") and y[0].dtype != object
    outputs = np.concatenate([*map(np.asarray, y)]) if are_arrays else [*y[0], *y[1]]
    if all(map(is_frame, X)):
        return TrainingBlock(sys.modules[type(X[0]).__module__.partition(".")[0]].concat(X), outputs, weights)
    blocks = [
        Block(part.X, None, part.feature_names) if isinstance(part, Block) else Block(_listed(as_rows(part)))
        for part in X
    ]
    whole = join(blocks)
    return TrainingBlock(whole.X if whole.feature_names is None else whole, outputs, weights)


def _listed(rows: Any) -> Any:
    """Arrays of sequences as lists of them."""
    return list(rows) if isinstance(rows, np.ndarray) and rows.dtype == object and rows.ndim == 1 else rows


def parted(data: Any, validation: Any) -> tuple[np.ndarray, np.ndarray]:
    """Indices of ``(training, validation)`` examples in the TokenData of those that were :func:`joined`."""
    y, index = validation.y, data.training_index
    n_tokens = len(y) if np.ndim(y[0]) == 0 else sum(map(len, y))
    first_tokens = index.rows[np.minimum(data.offsets[:-1], len(index.rows) - 1)]
    is_validation = first_tokens >= index.n_given - n_tokens
    return np.flatnonzero(~is_validation), np.flatnonzero(is_validation)
