"""What choices by cross-validation share: folds, scores of outputs that were held out, the best mean score."""

import reprlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_consistent_length

from omkl.estimators.classes import LEARNED_OF_TARGETS
from omkl.estimators.outputs import check_sample_weight
from omkl.estimators.saving import SavedEstimator
from omkl.exceptions import InputError

#: The score of a class that the training part of a fold lacks, one against the rest: no other is as low.
NEVER = -1e300


class OfOutputs:
    """A model whose inputs are its outputs: what a scorer is given of a fold."""

    def _outputs(self, X: Any, offset: ArrayLike | None = None) -> np.ndarray:
        return X


class FoldedSearch(SavedEstimator):
    """Chooses a parameter by the scores of held-out folds; subclasses have ``cv``, ``scoring`` and ``tol``."""

    def _saved_parameters(self) -> dict[str, Any]:
        """Splitters and scorers are not saved: what is loaded predicts."""
        parameters = super()._saved_parameters()
        plain = {name: parameters[name] for name in ("cv", "scoring") if isinstance(parameters[name], (int, str))}
        return {**parameters, "cv": None, "scoring": None, **plain}

    def _scorer(self) -> Callable:
        """What scores held-out outputs; called with a model, its outputs, and the truth."""
        named = isinstance(self.scoring, str)
        if not (self.scoring is None or named or callable(self.scoring)) or (
            named and self.scoring not in get_scorer_names()
        ):
            raise InputError(
                "scoring must be the name of one score as sklearn.metrics.get_scorer_names() lists them, a callable or "
                f"None, not {self.scoring!r}."
            )
        try:
            return check_scoring(self, self.scoring)
        except ValueError as error:
            raise InputError(f"scoring: {error}") from None

    def _split(self, y: np.ndarray, groups: Any) -> list[list[np.ndarray]]:
        """Training and test samples of each fold, as scikit-learn's splitters cut them."""
        check_consistent_length(y, groups)
        try:
            splitter = check_cv(self.cv, y, classifier=isinstance(self, ClassifierMixin))
            folds = [
                [np.sort(np.arange(len(y))[part]) for part in (train, test)]
                for train, test in splitter.split(np.zeros((len(y), 1)), y, groups)
            ]
        except (ValueError, IndexError, TypeError) as error:
            raise InputError(f"cv={reprlib.repr(self.cv)} does not cut {len(y)} samples into folds: {error}") from error
        if not folds:
            raise InputError(f"cv={reprlib.repr(self.cv)} has no folds: give a whole number > 1, or a splitter.")
        return folds

    def _folds(self, y: np.ndarray, sample_weight: ArrayLike | None, groups: Any) -> list[tuple]:
        """Training and test samples of each fold, numbered among those whose weight is not 0."""
        weights = check_sample_weight(1.0 if sample_weight is None else sample_weight, len(y))
        position, kept = np.cumsum(weights > 0) - 1, weights > 0
        folds = []
        for fold, indices in enumerate(self._split(y, groups)):
            if any((np.diff(part) == 0).any() for part in indices):
                raise InputError(f"Fold {fold} has a sample more than once: give it a weight instead.")
            train, test = (position[part[kept[part]]] for part in indices)
            if not len(train) or not len(test):
                raise InputError(f"Fold {fold} has no samples of weight > 0 to train or to test on: choose another cv.")
            folds.append((train, test))
        return folds

    def _score_outputs(
        self, model: Any, scorer: Callable, outputs: np.ndarray, y: np.ndarray, options: dict[str, Any]
    ) -> np.ndarray:
        """A score for each of a fold's outputs (n_values, n_test, P), from a model :class:`OfOutputs`."""
        if isinstance(self, ClassifierMixin):
            for name in LEARNED_OF_TARGETS:
                if hasattr(self, name):
                    setattr(model, name, getattr(self, name))
        try:
            scores = [scorer(model, own, y, **options) for own in outputs]
        except (AttributeError, ValueError) as error:
            reason = str(error).replace(type(model).__name__, type(self).__name__)
            raise InputError(f"scoring={self.scoring!r} does not score: {reason}") from error
        return np.array(scores, dtype=np.float64)

    def _choose(self, name: str, values: np.ndarray, results: list[dict]) -> None:
        """Set ``C_``, or what the parameter's ``name`` is, and what it was chosen by: the first of the best."""
        scores = np.array([result["scores"] for result in results])
        defined = np.isfinite(scores).all(axis=1)
        if not defined.any():
            raise InputError(f"scoring={self.scoring!r} is undefined in every fold: choose another score, or cv.")
        means = scores[defined].mean(axis=0)
        self.scores_ = scores
        setattr(self, f"{name}s_", values)
        setattr(self, f"{name}_", float(values[np.argmax(means)]))
        active = np.mean([result["active"] for result in results], axis=0)
        gaps = np.max([result["gaps"] for result in results], axis=0)
        spread = scores[defined].std(axis=0)
        self.cv_results_ = [
            {name: value, "mean_score": mean, "std_score": std, "active": groups, "dual_gap": gap}
            for value, mean, std, groups, gap in zip(*map(np.ndarray.tolist, (values, means, spread, active, gaps)))
        ]

    def _warn_of_folds(self, name: str, results: list[dict]) -> None:
        undefined = np.count_nonzero(~np.isfinite(self.scores_).all(axis=1))
        if undefined:
            warnings.warn(
                f"In {undefined} of {len(results)} folds the score is undefined, as where a class is missing: they are"
                " left out of the mean.",
                UserWarning,
                stacklevel=4,
            )
        gaps = np.array([result["gaps"] for result in results])
        if (n_above := np.count_nonzero(gaps > self.tol)) > 0:
            warnings.warn(
                f"{n_above} of {gaps.size} values of {name} in folds stopped above tol={self.tol:g}, at relative"
                f" duality gaps of up to {gaps.max():.2g}: raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
