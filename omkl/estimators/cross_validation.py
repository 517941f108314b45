"""Cross-validation along regularization paths: folds, scores, and choice of the best value."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length

from omkl._components import warn_caller
from omkl.data.frames import plain_targets
from omkl.estimators.batch import ClassDecoder, NumberDecoder, has_log_odds, is_a_classifier
from omkl.estimators.targets import has_columns
from omkl.estimators.validation import check_sample_weight
from omkl.exceptions import DataWarning, InputError


class HeldOut(NamedTuple):
    """Result of the path of one fold.

    Attributes
    ----------
    outputs : array of shape (n_values, n_test, P)
        Outputs of the models for held-out samples.
    active : array of shape (n_values,)
        Number of groups in each model.
    gaps : array of shape (n_values,)
        Relative duality gaps.
    decoder : ClassDecoder or NumberDecoder
        Decoder of the outputs; it has only the classes in the fold's training part.
    """

    outputs: np.ndarray
    active: np.ndarray
    gaps: np.ndarray
    decoder: ClassDecoder | NumberDecoder


class PathSearch:
    """Choice of a parameter by cross-validation.

    Parameters
    ----------
    estimator : classifier or regressor
        Has parameters ``cv``, ``scoring`` and ``tol``. Its attributes ``C_``, ``Cs_`` (or ``alpha_``, ``alphas_``),
        ``scores_`` and ``cv_results_`` are set.
    name : {"C", "alpha"}
    y : array or sparse matrix of shape (N,), or (N, K)
        Targets for stratification; the attribute ``y`` has them as an array, and ``kept`` has the indices of the
        samples of weight > 0.
    sample_weight, groups : array of shape (N,), optional
        Weights, and groups of samples that must stay in the same fold.
    """

    def __init__(
        self, estimator: BaseEstimator, name: str, y: Any, sample_weight: ArrayLike | None, groups: ArrayLike | None
    ) -> None:
        from sklearn.metrics import check_scoring
        from sklearn.model_selection import check_cv

        self.estimator, self.name, scoring = estimator, name, estimator.scoring
        self.scorer: Any = None
        with suppress(ValueError):
            if scoring is None or isinstance(scoring, str) or callable(scoring):
                self.scorer = check_scoring(estimator, scoring)
        if self.scorer is None:
            raise InputError(f"scoring must be the name of a score, a scorer (make_scorer) or None, got {scoring!r}.")
        given: Any = plain_targets(y)
        given = given.toarray() if sparse.issparse(given) else np.asarray(given)
        self.y = y = given if has_columns(given) else given.ravel()
        check_consistent_length(y, groups)
        cv = reprlib.repr(estimator.cv)
        try:
            splitter = check_cv(estimator.cv, y, classifier=is_a_classifier(estimator))
            parts = splitter.split(np.zeros((len(y), 1)), y, groups)
            split = [[np.sort(np.arange(len(y))[part]) for part in pair] for pair in parts]
        except (ValueError, IndexError, TypeError) as error:
            raise InputError(f"cv={cv} does not cut {len(y)} samples into folds: {error}") from error
        weights = check_sample_weight(sample_weight, len(y))
        kept = np.ones(len(y), dtype=bool) if weights is None else weights > 0
        self.kept, self.weights = np.flatnonzero(kept), None if weights is None else weights[kept]
        position = np.cumsum(kept) - 1
        folds = [(position[train[kept[train]]], position[test[kept[test]]]) for train, test in split]
        if not folds or not all(len(part) for fold in folds for part in fold):
            raise InputError(f"cv={cv} must have folds, each with samples of weight > 0 to train and to test on.")
        self.folds = folds

    def choose(self, values: np.ndarray, held_out: Callable[..., HeldOut], y: np.ndarray, n_jobs: int | None) -> float:
        """Set scores and the best value on the estimator, and return this value; the first one wins ties.

        Parameters
        ----------
        values : array of shape (n_values,)
        held_out : callable
            ``held_out(values, train, test)`` solves the path of a fold, and returns :class:`HeldOut`.
        y : array
            True targets of the samples of weight > 0.
        n_jobs : int or None
            Number of folds solved at once, in threads.
        """
        is_classifier, probabilistic = is_a_classifier(self.estimator), has_log_odds(self.estimator)
        name, scoring = self.name, self.estimator.scoring

        def score(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, HeldOut]:
            found = held_out(values, train, test)
            decoder: Any = found.decoder
            model = OutputClassifier(decoder, probabilistic) if is_classifier else OutputRegressor(decoder)
            options = {} if self.weights is None else {"sample_weight": self.weights[test]}
            try:
                scores = [self.scorer(model, own, y[test], **options) for own in found.outputs]
            except (AttributeError, ValueError) as error:
                reason = str(error).replace(type(model).__name__, type(self.estimator).__name__)
                raise InputError(f"scoring={scoring!r} does not score: {reason}") from error
            return np.array(scores, dtype=np.float64), found

        results = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(score)(*fold) for fold in self.folds)
        scores = np.array([own for own, _ in results])
        defined = np.isfinite(scores).all(axis=1)
        if not defined.any():
            raise InputError(f"scoring={scoring!r} is undefined in every fold: choose another score, or cv.")
        means, spread = scores[defined].mean(axis=0), scores[defined].std(axis=0)
        best = float(values[np.argmax(means)])
        self.gaps = np.array([path.gaps for _, path in results])
        active = np.mean([path.active for _, path in results], axis=0)
        columns = map(np.ndarray.tolist, (values, means, spread, active, self.gaps.max(axis=0)))
        keys = name, "mean_score", "std_score", "active", "dual_gap"
        records = [dict(zip(keys, row)) for row in zip(*columns)]
        learned = {f"{name}_": best, f"{name}s_": values, "scores_": scores, "cv_results_": records}
        self.estimator.__dict__.update(learned)
        return best

    def warn(self) -> None:
        """Warn about undefined scores, a best value at the end of the grid, and duality gaps above the tolerance."""
        scores, gaps, tol = self.estimator.scores_, self.gaps, self.estimator.tol
        values = getattr(self.estimator, f"{self.name}s_")
        if len(values) > 1 and getattr(self.estimator, f"{self.name}_") == values[-1]:
            end = "largest" if values[-1] > values[0] else "smallest"
            message = f"The best {self.name}, {values[-1]:.3g}, is the {end} of the grid: values beyond may be better."
            warn_caller(message, DataWarning)
        undefined = np.count_nonzero(~np.isfinite(scores).all(axis=1))
        if undefined:
            message = f"The mean leaves out {undefined} of {len(scores)} folds, whose score is undefined."
            warn_caller(message, DataWarning)
        warn_of_gaps(gaps, f"{self.name} in folds", tol)


def warn_of_gaps(gaps: np.ndarray, what: str, tol: float) -> None:
    """Warn about values of C or alpha whose relative duality gaps are above the tolerance."""
    if (n_above := np.count_nonzero(gaps > tol)) > 0:
        warn_caller(
            f"{n_above} of {gaps.size} values of {what} stopped above tol={tol:g}, at relative duality gaps of up to "
            f"{gaps.max():.2g}: raise max_iter, or tol.",
            ConvergenceWarning,
        )


class OutputClassifier(ClassifierMixin, BaseEstimator):
    """Classifier for scorers whose inputs X are outputs (n, P) of a model."""

    def __init__(self, decoder: ClassDecoder, probabilistic: bool) -> None:
        self.decoder = decoder
        self.probabilistic = probabilistic
        self.classes_ = decoder.classes

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return classes or labels."""
        return self.decoder.decode(X)

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return scores of classes or labels."""
        return self.decoder.scores(X)

    @available_if(lambda self: self.probabilistic)
    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return probabilities of classes or labels."""
        return self.decoder.probabilities(X)


class OutputRegressor(RegressorMixin, BaseEstimator):
    """Regressor for scorers whose inputs X are outputs (n, P) of a model."""

    def __init__(self, decoder: NumberDecoder) -> None:
        self.decoder = decoder

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return predictions."""
        return self.decoder.decode(X)
