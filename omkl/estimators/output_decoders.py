"""Outputs of batch estimators: targets of their problems, and predictions from the outputs of these."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.utils.multiclass import _ovr_decision_function

from omkl.estimators.targets import checked_classes, label_array, weights_of_classes
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss

#: The score of a class that the training part of a fold lacks; no other score is as low.
NEVER = -1e300
#: Targets of a larger magnitude are refused, as sums of their squares may overflow.
LARGEST = 1e100


@dataclass(frozen=True)
class ClassDecoder:
    """Classes, or labels of which a sample may have several, from the outputs of P problems.

    Attributes
    ----------
    classes : array of shape (K,)
        Classes, or the numbers of the columns of labels.
    multilabel : bool
    constant : dict of int to bool
        Labels without a problem, as all training samples have them, or none.
    pairs : bool
        Whether there is a problem for each pair of classes, instead of one for each class.
    multinomial : bool
        Whether probabilities are the softmax of the scores.
    """

    classes: np.ndarray
    multilabel: bool = False
    constant: dict[int, bool] = field(default_factory=dict)
    pairs: bool = False
    multinomial: bool = False

    @property
    def varying(self) -> np.ndarray:
        """Numbers of the labels that have a problem."""
        return np.setdiff1d(np.arange(len(self.classes)), list(self.constant)).astype(np.int64)

    def scores(self, outputs: np.ndarray) -> np.ndarray:
        """Scores (n,) of two classes, (n, K) of more, or (n, L) of labels, from outputs (n, P)."""
        if self.multilabel:
            scores = np.empty((len(outputs), len(self.classes)))
            for k, has in self.constant.items():
                scores[:, k] = -NEVER if has else NEVER
            scores[:, self.varying] = outputs
            return scores
        if len(self.classes) == 2:
            return outputs[:, 0]
        return _ovr_decision_function(outputs > 0, outputs, len(self.classes)) if self.pairs else outputs

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Best class of each sample, (n,), or its labels, (n, L)."""
        scores = self.scores(outputs)
        if self.multilabel:
            return (scores > 0).astype(np.int64)
        return self.classes[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Probability of each class, (n, K), or of having each label, (n, L), by the logistic loss."""
        scores = self.scores(outputs)
        if self.multilabel:
            return expit(scores)
        if self.multinomial:
            return softmax(scores, axis=1)
        each = expit(np.column_stack([-scores, scores]) if scores.ndim == 1 else scores)
        return each / each.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class NumberDecoder:
    """Numbers from the outputs of a regression; with a ``loss`` that has a link, the means that it expects."""

    loss: PointwiseLoss | None = None

    def decode(self, outputs: np.ndarray) -> np.ndarray:
        """Predictions (n,), or (n, K) of several outputs."""
        means = outputs if self.loss is None else self.loss.mean(outputs)
        return means if means.shape[1] > 1 else means[:, 0]


def encode_classes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted classes (K,), and the index of each target among them, (N,).

    Raises
    ------
    omkl.exceptions.InputError
        If there is one class only, or y holds numbers of a regression.
    """
    classes, codes = np.unique(checked_classes(np.asarray(y)), return_inverse=True)
    # strings of data frames are objects, which model files do not hold
    classes = label_array(classes.tolist()) if classes.dtype.hasobject else classes
    if len(classes) < 2:
        raise InputError(f"y holds one class only, {classes.tolist()[0]!r}: a classifier needs two.")
    return classes, codes


def one_vs_rest(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Targets -1 and +1 of each class against the rest, (N, K); of two classes (N, 1)."""
    members = np.arange(n_classes) if n_classes > 2 else np.array([1])
    return np.where(codes[:, None] == members, 1.0, -1.0)


def encode_labels(y: np.ndarray, warns: bool = True) -> tuple[np.ndarray, ClassDecoder]:
    """Targets -1 and +1 (N, P) of the labels that samples differ in, from indicators (N, L) of 0 and 1."""
    if not np.isin(y, (0, 1)).all():
        raise InputError(f"y has {y.shape[1]} columns, which must hold 0 and 1, for labels that a sample has or not.")
    y = y.astype(bool)
    varying = np.flatnonzero(y.any(axis=0) & ~y.all(axis=0))
    if not len(varying):
        raise InputError("y must have a column with both 0 and 1: all samples have the same labels.")
    constant = {k: bool(y[0, k]) for k in range(y.shape[1]) if k not in varying}
    if constant and warns:
        first = ", ".join(map(str, list(constant)[:5]))
        warnings.warn(
            f"{len(constant)} of {y.shape[1]} labels are those of all samples, or of none, and are predicted so: "
            f"columns {first} of y.",
            UserWarning,
            stacklevel=5,
        )
    return np.where(y[:, varying], 1.0, -1.0), ClassDecoder(np.arange(y.shape[1]), True, constant)


def weighted_by_class(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray | None
) -> np.ndarray | None:
    """Sample weights times the weights of the classes.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        As in scikit-learn; see :func:`~omkl.estimators.targets.weights_of_classes`.
    classes : array of shape (K,)
    codes : int array of shape (N,)
        Index of the class of each sample.
    weights : array of shape (N,), optional
    """
    if class_weight is None:
        return weights
    own, labels = np.ones(len(codes)) if weights is None else weights, classes.tolist()
    if isinstance(class_weight, dict):
        unknown = [label for label in class_weight if label not in labels]
        # classes that a fold lacks are no mistake if those that it has all have a weight
        if unknown and any(label not in class_weight for label in labels):
            raise InputError(f"class_weight names the class {unknown[0]!r}, but the classes are {labels[:5]}.")
    of_classes = weights_of_classes(class_weight, labels, np.bincount(codes, own, len(labels)))
    if (of_classes <= 0).any():
        raise InputError("class_weight must hold finite numbers > 0.")
    return of_classes[codes] * own


def finite_targets(y: ArrayLike) -> np.ndarray:
    """Targets of a regression as an array of float64; raises an InputError unless they are finite numbers."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError("y must hold numbers: a regressor learns no other targets.") from None
    if not np.isfinite(numbers).all():
        row = np.argwhere(~np.isfinite(numbers))[0][0]
        raise InputError(f"y holds {numbers[row]} in row {row}: targets must be finite.")
    if np.abs(numbers).max(initial=0.0) > LARGEST:
        raise InputError(f"y must hold numbers up to {LARGEST:g}, got {np.abs(numbers).max():.3g}.")
    return numbers


def is_probabilistic(estimator: Any) -> bool:
    """Return whether the scores of a batch classifier are log-odds; for ``available_if``.

    Raises
    ------
    AttributeError
        If they are not; the message names the parameters that make them so.
    """
    if estimator._has_probabilities():
        return True
    given = f"loss={estimator.loss!r}" + (', multiclass="ovo"' if estimator.multiclass == "ovo" else "")
    raise AttributeError(
        f'{type(estimator).__name__} has probabilities with loss="logistic", not with {given}; '
        "CalibratedClassifierCV of scikit-learn learns some for any loss."
    )
