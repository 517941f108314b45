"""Samples that have several labels at once: one problem with a column of signs for each label."""

import warnings
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils.metaestimators import available_if

from omkl.estimators.classes import BatchClassifier, has_probabilities
from omkl.estimators.folds import NEVER
from omkl.exceptions import InputError


class MultilabelClassifier(BatchClassifier):
    """A classifier whose targets may be classes (N,), or indicators (N, L) of the labels that a sample has.

    Attributes
    ----------
    multilabel_ : bool
        Whether targets were indicators; ``classes_`` are the numbers of their columns then.
    constant_labels_ : dict of int to bool
        The labels that all training samples have, or none: nothing is learned of these, and predictions have them too,
        or not.
    """

    multiclass: str
    #: Values of ``multiclass`` that tell classes apart, of which a sample has one.
    _of_classes: tuple[str, ...] = ("ovo",)
    multilabel_ = False
    constant_labels_: dict[int, bool] = {}

    @property
    def _takes_labels(self) -> bool:
        return self.class_weight is None and self.multiclass not in self._of_classes

    def _learn_labels(self, y: np.ndarray) -> np.ndarray:
        """Set what is learned of indicators (N, L); returns signs (N, P) of the P labels that samples differ in."""
        if not np.isin(y, (0, 1)).all():
            raise InputError(
                f"y has {y.shape[1]} columns, which for a classifier are labels that a sample has (1) or has not (0), "
                "but there are other values in it: learn such targets one column after the other."
            )
        if not self._takes_labels:
            what = f'multiclass="{self.multiclass}"' if self.class_weight is None else "class_weight"
            raise InputError(f"{what} is for classes, of which a sample has one, not for labels: leave it out.")
        y = y.astype(bool)
        varying = np.flatnonzero(y.any(axis=0) & ~y.all(axis=0))
        if not len(varying):
            raise InputError("Every sample has the same labels in y: a classifier needs some that differ.")
        self.multilabel_, self.classes_, self.loss_ = True, np.arange(y.shape[1]), self.loss
        self.constant_labels_ = {k: bool(y[0, k]) for k in range(y.shape[1]) if k not in varying}
        if self.constant_labels_:
            first = ", ".join(map(str, list(self.constant_labels_)[:5]))
            warnings.warn(
                f"{len(self.constant_labels_)} of {y.shape[1]} labels are those of all samples, or of none, and are "
                f"predicted so: columns {first} of y.",
                UserWarning,
                stacklevel=4,
            )
        return np.where(y[:, varying], 1.0, -1.0)

    def _scores_of_labels(self, outputs: np.ndarray) -> np.ndarray:
        """Scores (n, L) of all labels, from outputs of those that samples differ in."""
        scores = np.empty((len(outputs), len(self.classes_)))
        for k, has in self.constant_labels_.items():
            scores[:, k] = -NEVER if has else NEVER
        scores[:, np.setdiff1d(self.classes_, list(self.constant_labels_)).astype(np.int64)] = outputs
        return scores

    def _best_class(self, scores: np.ndarray) -> np.ndarray:
        return (scores > 0).astype(np.int64) if self.multilabel_ else super()._best_class(scores)

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, (n, K), or of having each label, (n, L): those of the logistic loss.

        Of more than two classes they are scaled to sum to one; those of labels are not.
        """
        scores = self.decision_function(X)
        return expit(scores) if self.multilabel_ else self._probabilities(scores)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.classifier_tags.multi_label = self._takes_labels
        return tags
