"""What early stopping looks at: examples of their own, or a part of those to train on."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl.data import Block
from omkl.data.rows import as_rows, is_frame, join, n_rows
from omkl.estimators.outputs import check_sample_weight
from omkl.estimators.sources import TrainingBlock
from omkl.exceptions import InputError
from omkl.losses import is_partial
from omkl.online import EarlyStopping, OnlineModel, Predictor


def label_accuracy(predictor: Predictor, examples: Sequence) -> float:
    """The share of the known labels of some examples that a frozen model has right."""
    right = total = 0
    for x, y, _ in examples:
        right += np.count_nonzero(predictor.structure.decode(predictor.potentials(x)) == y)
        total += int(np.count_nonzero(y >= 0)) if is_partial(predictor.structure, y) else len(x)
    if not total:
        raise InputError("The examples that early stopping looks at have no label that is known: give others.")
    return right / total


def held_out_part(n: int, fraction: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Indices of ``(training, validation)`` examples, of n."""
    n_held_out = max(1, round(fraction * n))
    if n_held_out >= n:
        raise InputError(f"Early stopping cannot hold out {n_held_out} of {n} examples: give more of them.")
    shuffled = rng.permutation(n)
    return np.sort(shuffled[n_held_out:]), np.sort(shuffled[:n_held_out])


def check_validation(estimator: Any, validation: Any) -> TrainingBlock:
    """The examples that early stopping looks at, as they are given.

    Raises
    ------
    omkl.exceptions.InputError
        If nobody looks at them, or they are no pair.
    """
    if not getattr(estimator, "early_stopping", False):
        raise InputError("validation= is what early_stopping=True looks at: set it, or leave validation out.")
    try:
        X, y = validation
    except (TypeError, ValueError):
        raise InputError("validation is a pair (X, y), as fit takes them.") from None
    return TrainingBlock(X, y, None)


def stopping_by(estimator: Any, model: OnlineModel, validation: TrainingBlock, score: Callable) -> EarlyStopping:
    """What stops training by examples that are encoded after the first epoch, when the model knows all it will.

    Not for kernels whose Gram matrices are cached: these know the inputs that they were made of, see :func:`joined`.
    """

    def encoded() -> Any:
        return model.codec.encode_known(estimator._read_known(validation))

    return EarlyStopping(encoded, estimator.n_iter_no_change, score)


def joined(block: TrainingBlock, validation: TrainingBlock) -> TrainingBlock:
    """Examples to train on, and after them those that early stopping looks at, as if they were one set.

    Raises
    ------
    omkl.exceptions.InputError
        If they do not fit together, or outputs are missing.
    """
    for what, (X, y, _) in (("the training data", block), ("validation", validation)):
        if y is None or len(y) != n_rows(getattr(X, "X", X)):
            raise InputError(f"In {what} there must be one output for each input: X and y differ in length.")
    X, y, weights = [block.X, validation.X], [block.y, validation.y], block.sample_weight
    if weights is not None:
        weights = np.concatenate([check_sample_weight(weights, len(y[0])), np.ones(len(y[1]))])
    are_arrays = hasattr(y[0], "dtype") and y[0].dtype != object
    outputs = np.concatenate([*map(np.asarray, y)]) if are_arrays else [*y[0], *y[1]]
    if all(map(is_frame, X)):
        return TrainingBlock(sys.modules[type(X[0]).__module__.partition(".")[0]].concat(X), outputs, weights)
    whole = join([Block(part.X, None, part.feature_names) if isinstance(part, Block) else Block(_listed(as_rows(part)))
                  for part in X])  # fmt: skip
    return TrainingBlock(whole.X if whole.feature_names is None else whole, outputs, weights)


def _listed(rows: Any) -> Any:
    """Arrays of sequences as lists of them."""
    return list(rows) if isinstance(rows, np.ndarray) and rows.dtype == object and rows.ndim == 1 else rows


def parted(data: Any, validation: Any) -> tuple[np.ndarray, np.ndarray]:
    """Indices of ``(training, validation)`` examples among those that were :func:`joined`, and read in another order.

    ``data`` is the :class:`~omkl.estimators.inputs.TokenData` of both, and knows which of the tokens given each is.
    """
    y, index = validation.y, data.training_index
    n_tokens = len(y) if np.ndim(y[0]) == 0 else sum(map(len, y))
    first_tokens = index.rows[np.minimum(data.offsets[:-1], len(index.rows) - 1)]
    is_validation = first_tokens >= index.n_given - n_tokens
    return np.flatnonzero(~is_validation), np.flatnonzero(is_validation)
