"""What classifiers share: classes, the binary problems that stand for them, and the best class by its score."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from omkl.estimators.arrays import check_magnitude
from omkl.estimators.outputs import checked_classes, label_array
from omkl.exceptions import InputError
from omkl.losses import Logistic


class ScoringClassifier(ClassifierMixin):
    """Predicts the class of the best score."""

    def predict(self, X: Any) -> np.ndarray:
        """Best class of each sample, (n,)."""
        return self._best_class(self.decision_function(X))

    def _best_class(self, scores: np.ndarray) -> np.ndarray:
        return self.classes_[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]


def has_probabilities(estimator: Any) -> bool:
    """Whether scores are log-odds; raises an AttributeError that says which parameters make them so."""
    if estimator._is_probabilistic():
        return True
    loss, pairs = vars(estimator).get("loss_", estimator.loss), estimator.multiclass == "ovo"
    given = f"loss={loss!r}" + (', multiclass="ovo"' if pairs else "")
    raise AttributeError(
        f'{type(estimator).__name__} has probabilities with loss="logistic", not with {given}; '
        "CalibratedClassifierCV of scikit-learn learns some for any loss."
    )


#: What classifiers learn of targets, and the loss that they learn with: enough to predict from scores.
LEARNED_OF_TARGETS = ("classes_", "loss_", "multilabel_", "multinomial_", "constant_labels_")


class BatchClassifier(ScoringClassifier):
    """Learns binary problems with targets -1 and +1, of one class against all others where there are more than two."""

    loss: Any
    _learned_loss: Any

    def _learn_classes(self, y: ArrayLike) -> np.ndarray:
        """Set ``classes_``; returns the index of each target in it."""
        classes, codes = np.unique(checked_classes(np.asarray(y)), return_inverse=True)
        self.loss_ = self.loss
        # strings of data frames are objects, which files do not hold
        self.classes_ = label_array(classes.tolist()) if classes.dtype.hasobject else classes
        if len(self.classes_) < 2:
            raise InputError(f"y holds one class only, {self.classes_.tolist()[0]!r}: a classifier needs two.")
        return codes

    def _one_vs_rest(self, codes: np.ndarray) -> list[np.ndarray]:
        """Targets -1 and +1 of the binary problems: a single one for two classes."""
        positive = range(len(self.classes_)) if len(self.classes_) > 2 else [1]
        return [np.where(codes == k, 1.0, -1.0) for k in positive]

    def _times_class_weights(self, codes: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray | None:
        """Sample weights > 0 times the weights of the classes, as scikit-learn's ``class_weight`` means it.

        "balanced" gives every class the same sum of weights.
        """
        if self.class_weight is None:
            return sample_weight
        weights = np.ones(len(codes)) if sample_weight is None else sample_weight
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            sums = np.bincount(codes, weights)
            of_classes = weights.sum() / (len(sums) * sums)
        elif isinstance(self.class_weight, dict):
            labels = self.classes_.tolist()
            unknown = [label for label in self.class_weight if label not in labels]
            # classes that a fold lacks are no mistake where those it has all have their weight
            if unknown and any(label not in self.class_weight for label in labels):
                raise InputError(f"class_weight names the class {unknown[0]!r}, but the classes are {labels[:5]}.")
            of_classes = np.array([self.class_weight.get(label, 1.0) for label in labels], np.float64)
        else:
            raise InputError(f'class_weight must be None, "balanced" or a dict, not {self.class_weight!r}.')
        if not np.isfinite(of_classes).all() or (of_classes <= 0).any():
            raise InputError("class_weight must hold finite numbers > 0.")
        return of_classes[codes] * weights

    def _is_probabilistic(self) -> bool:
        return isinstance(self._learned_loss, Logistic)

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, (n, K): the logistic loss, one-vs-rest probabilities scaled to sum to one."""
        return self._probabilities(self.decision_function(X))

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        each = expit(np.column_stack([-scores, scores]) if scores.ndim == 1 else scores)
        return each / each.sum(axis=1, keepdims=True)


def finite_targets(y: ArrayLike, all_at_hand: bool = False) -> np.ndarray:
    """Targets of a regression as an array of float64, refused where they are no finite numbers, or have no squares.

    Squares that are too small are refused where there are no other targets to come, that is ``all_at_hand``.
    """
    try:
        y = np.asarray(y, dtype=np.float64)
    except (ValueError, TypeError):
        raise InputError("y must hold numbers: a regressor learns no other targets.") from None
    if not np.isfinite(y).all():
        row = np.argmin(np.isfinite(y))
        raise InputError(f"y holds {y[row]} in row {row}: targets must be finite.")
    check_magnitude(y, "y", "scale it", all_at_hand)
    return y
