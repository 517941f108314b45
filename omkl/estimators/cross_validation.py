"""Cross-validation along regularization paths: folds, scores, and choice of the best value."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
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
from omkl.data.blocks import Rows
from omkl.data.frames import plain_targets
from omkl.estimators.batch import ClassDecoder, NumberDecoder, has_log_odds, is_a_classifier
from omkl.estimators.targets import has_columns
from omkl.estimators.validation import check_sample_weight
from omkl.exceptions import DataWarning, InputError
from omkl.persistence import Record

#: Number of standard errors by which log-losses that count as equal may differ.
TIE = 1.0


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


class Comparison(NamedTuple):
    """Log-losses and accuracies of several values on the same n held-out samples.

    Attributes
    ----------
    best : int
        The value of least log-loss.
    losses, right : arrays of shape (n_values, n)
        Log-loss of each sample, and 1.0 if its prediction is right, else 0.0.
    weights : array of shape (n,)
        Weights of the samples, which sum to one.
    """

    best: int
    losses: np.ndarray
    right: np.ndarray
    weights: np.ndarray

    def excess(self, measures: np.ndarray, reference: int) -> np.ndarray:
        """Return the mean excess of each value over a reference, (n_values,).

        :data:`TIE` standard errors are subtracted.
        """
        differences = measures - measures[reference]
        means = differences @ self.weights
        errors = np.sqrt(np.square(differences - means[:, None]) @ np.square(self.weights))
        return means - TIE * errors

    def most_accurate(self, means: np.ndarray, preferred: int | None) -> int:
        """Return the most accurate of the values with the least log-loss, up to standard errors.

        Return the ``preferred`` value if it is one of them, and this one is not more accurate by a
        standard error. Of equal accuracies, the larger of ``means`` (n_values,) counts.
        """
        ties = np.flatnonzero(self.excess(self.losses, self.best) <= 0.0)
        accuracies = self.right @ self.weights
        most_accurate = int(max(ties, key=lambda k: (accuracies[k], means[k])))
        if preferred is None or preferred not in ties:
            return most_accurate
        is_better = self.excess(self.right, preferred)[most_accurate] > 0.0
        if is_better:
            return most_accurate
        return preferred


class PathSearch:
    """Choice of a parameter by cross-validation.

    Parameters
    ----------
    estimator : classifier or regressor
        Has parameters ``cv``, ``scoring`` and ``tol``. Its attributes ``C_``, ``Cs_`` (or
        ``alpha_``, ``alphas_``), ``scores_`` and ``cv_results_`` are set.
    name : {"C", "alpha"}
    y : array or sparse matrix of shape (N,), or (N, K)
        Targets for stratification; the attribute ``y`` has them as an array, and ``used`` has the
        indices of the samples of weight > 0.
    sample_weight, groups : array of shape (N,), optional
        Weights, and groups of samples that must stay in the same fold.
    by_loss : bool
        Whether ``scoring=None`` is :func:`losses_of` samples for numbers, and for classes with
        probabilities, instead of the estimator's own score. Values whose log-loss is the least, up
        to chance, are chosen by accuracy.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        name: str,
        y: Rows,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        by_loss: bool = False,
    ) -> None:
        self.estimator = estimator
        self.name = name
        scores_by_default = by_loss and estimator.scoring is None
        has_losses = not is_a_classifier(estimator) or has_log_odds(estimator)
        self.by_loss = scores_by_default and has_losses
        self.scorer = self._scorer()
        self.y = _stratification_targets(y)
        check_consistent_length(self.y, groups)
        split = self._split(groups)
        weights = check_sample_weight(sample_weight, len(self.y))
        if weights is None:
            is_used = np.ones(len(self.y), dtype=bool)
            self.weights = None
        else:
            is_used = weights > 0
            self.weights = weights[is_used]
        self.used = np.flatnonzero(is_used)
        position = np.cumsum(is_used) - 1
        self.folds = []
        for train, test in split:
            train_positions = position[train[is_used[train]]]
            test_positions = position[test[is_used[test]]]
            self.folds.append((train_positions, test_positions))
        if not self.folds or not all(len(part) for fold in self.folds for part in fold):
            raise InputError(
                f"cv={reprlib.repr(estimator.cv)} must have folds, each with samples of "
                "weight > 0 to train and to test on."
            )

    def _scorer(self) -> Any:
        """Return the scorer of the estimator's ``scoring``; raise an InputError if it is none."""
        from sklearn.metrics import check_scoring

        scoring = self.estimator.scoring
        scorer = None
        with suppress(ValueError):
            if scoring is None or isinstance(scoring, str) or callable(scoring):
                scorer = check_scoring(self.estimator, scoring)
        if scorer is None:
            raise InputError(
                "scoring must be the name of a score, a scorer (make_scorer) or None, "
                f"got {scoring!r}."
            )
        return scorer

    def _split(self, groups: ArrayLike | None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return sorted indices of the training and test samples of each fold."""
        from sklearn.model_selection import check_cv

        cv = self.estimator.cv
        n_samples = len(self.y)
        samples = np.arange(n_samples)
        folds = []
        try:
            splitter = check_cv(cv, self.y, classifier=is_a_classifier(self.estimator))
            for train, test in splitter.split(np.zeros((n_samples, 1)), self.y, groups):
                folds.append((np.sort(samples[train]), np.sort(samples[test])))
        except (ValueError, IndexError, TypeError) as error:
            raise InputError(
                f"cv={reprlib.repr(cv)} does not cut {n_samples} samples into folds: {error}"
            ) from error
        return folds

    def choose(
        self,
        values: np.ndarray,
        paths: Sequence[Callable[[np.ndarray], HeldOut]],
        y: np.ndarray,
        n_jobs: int | None,
        prior: float | None = None,
    ) -> float:
        """Set scores and the best value on the estimator, and return this value.

        Parameters
        ----------
        values : array of shape (n_values,)
        paths : list of callables
            For each fold, ``path(values)`` solves its path, and returns :class:`HeldOut`.
        y : array
            True targets of the samples of weight > 0.
        n_jobs : int or None
            Number of folds solved at once, in threads.
        prior : float, optional
            One of the values, which is chosen if none is better beyond chance; for log-loss.
        """
        targets = [y[test] for _, test in self.folds]
        scores, held_out_folds = self._score_folds(values, paths, targets, n_jobs)
        is_defined = np.isfinite(scores).all(axis=1)
        if not is_defined.any():
            raise InputError(
                f"scoring={self.estimator.scoring!r} is undefined in every fold: "
                "choose another, or cv."
            )
        means = scores[is_defined].mean(axis=0)
        spread = scores[is_defined].std(axis=0)
        best = int(np.argmax(means))
        if self.by_loss and is_a_classifier(self.estimator):
            comparison = self._compare(best, targets, held_out_folds)
            preferred = None
            if prior is not None:
                preferred = int(np.flatnonzero(values == prior)[0])
            best = comparison.most_accurate(means, preferred)
        best_value = float(values[best])
        self.gaps = np.array([held_out.gaps for held_out in held_out_folds])
        setattr(self.estimator, f"{self.name}_", best_value)
        setattr(self.estimator, f"{self.name}s_", values)
        self.estimator.scores_ = scores
        self.estimator.cv_results_ = self._records(values, means, spread, held_out_folds)
        return best_value

    def _score_folds(
        self,
        values: np.ndarray,
        paths: Sequence[Callable[[np.ndarray], HeldOut]],
        targets: Sequence[np.ndarray],
        n_jobs: int | None,
    ) -> tuple[np.ndarray, list[HeldOut]]:
        """Solve the path of each fold; return scores (n_folds, n_values), and the results."""

        def score(fold: int) -> tuple[np.ndarray, HeldOut]:
            held_out = paths[fold](values)
            _, test = self.folds[fold]
            return self._scores(held_out, targets[fold], test), held_out

        results = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(score)(fold) for fold in range(len(self.folds))
        )
        scores = np.array([scores_of_fold for scores_of_fold, _ in results])
        return scores, [held_out for _, held_out in results]

    def _records(
        self,
        values: np.ndarray,
        means: np.ndarray,
        spread: np.ndarray,
        held_out_folds: Sequence[HeldOut],
    ) -> list[Record]:
        """Return a flat record of each value; ``means`` and ``spread`` are (n_values,)."""
        columns = {
            self.name: values,
            "mean_score": means,
            "std_score": spread,
            "active": np.mean([held_out.active for held_out in held_out_folds], axis=0),
            "dual_gap": self.gaps.max(axis=0),
        }
        rows = zip(*(column.tolist() for column in columns.values()))
        return [dict(zip(columns, row)) for row in rows]

    def _scores(self, held_out: HeldOut, y: np.ndarray, test: np.ndarray) -> np.ndarray:
        """Return the score of each value on the held-out samples of a fold, (n_values,)."""
        decoder: Any = held_out.decoder
        weights = None if self.weights is None else self.weights[test]
        if self.by_loss:
            losses = [losses_of(decoder, outputs, y) for outputs in held_out.outputs]
            return -np.average(losses, axis=1, weights=weights)
        model: Any = OutputRegressor(decoder)
        if is_a_classifier(self.estimator):
            model = OutputClassifier(decoder, has_log_odds(self.estimator))
        options = {} if weights is None else {"sample_weight": weights}
        try:
            scores = [self.scorer(model, outputs, y, **options) for outputs in held_out.outputs]
        except (AttributeError, ValueError) as error:
            reason = str(error).replace(type(model).__name__, type(self.estimator).__name__)
            raise InputError(
                f"scoring={self.estimator.scoring!r} does not score: {reason}"
            ) from error
        return np.array(scores, dtype=np.float64)

    def _compare(
        self, best: int, targets: Sequence[np.ndarray], held_out_folds: Sequence[HeldOut]
    ) -> Comparison:
        """Compare all values with the best one on the held-out samples of all folds."""
        weights = np.ones(sum(map(len, targets)))
        if self.weights is not None:
            weights = np.concatenate([self.weights[test] for _, test in self.folds])
        losses = []
        accuracies = []
        for held_out, y in zip(held_out_folds, targets):
            decoder: Any = held_out.decoder
            losses.append([losses_of(decoder, outputs, y) for outputs in held_out.outputs])
            accuracies.append([are_right(decoder, outputs, y) for outputs in held_out.outputs])
        right = np.concatenate(accuracies, axis=1).astype(np.float64)
        return Comparison(best, np.concatenate(losses, axis=1), right, weights / weights.sum())

    def warn(self) -> None:
        """Warn of undefined scores, a best value at an end of the grid, and gaps above ``tol``."""
        scores = self.estimator.scores_
        values = getattr(self.estimator, f"{self.name}s_")
        best_value = getattr(self.estimator, f"{self.name}_")
        if len(values) > 1 and best_value == values[-1]:
            end = "largest" if values[-1] > values[0] else "smallest"
            warn_caller(
                f"The best {self.name}, {values[-1]:.3g}, is the {end} of the grid: "
                "values beyond may be better.",
                DataWarning,
            )
        n_undefined = np.count_nonzero(~np.isfinite(scores).all(axis=1))
        if n_undefined:
            warn_caller(
                f"The mean leaves out {n_undefined} of {len(scores)} folds, "
                "whose score is undefined.",
                DataWarning,
            )
        warn_of_gaps(self.gaps, f"{self.name} in folds", self.estimator.tol)


def _stratification_targets(y: Rows) -> np.ndarray:
    """Return targets as an array, (N,) or (N, K)."""
    targets: Any = plain_targets(y)
    targets = targets.toarray() if sparse.issparse(targets) else np.asarray(targets)
    if has_columns(targets):
        return targets
    return targets.ravel()


def losses_of(
    decoder: ClassDecoder | NumberDecoder, outputs: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Return the loss of each sample, or its mean over several labels or outputs, (n,).

    For classes it is the negative log-probability, for numbers the squared error, for counts half
    the deviance.

    Parameters
    ----------
    decoder : ClassDecoder or NumberDecoder
        Classes that it lacks have the probability 0. Probabilities are at least 2.2e-16.
    outputs : array of shape (n, P)
        Log-odds of classes.
    y : array of shape (n,), or (n, K)
    """
    if isinstance(decoder, NumberDecoder):
        targets = y.reshape(outputs.shape)
        if decoder.loss.has_link:
            return decoder.loss.value(targets, outputs).mean(axis=1)
        return np.square(targets - outputs).mean(axis=1)
    probabilities = decoder.probabilities(outputs)
    least = np.finfo(np.float64).eps
    if decoder.multilabel:
        probabilities_of_labels = np.where(y != 0, probabilities, 1.0 - probabilities)
        return -np.log(np.maximum(probabilities_of_labels, least)).mean(axis=1)
    columns = {label: k for k, label in enumerate(decoder.classes.tolist())}
    codes = np.array([columns.get(label, -1) for label in y.tolist()])
    probabilities_of_classes = np.where(codes >= 0, probabilities[np.arange(len(y)), codes], 0.0)
    return -np.log(np.maximum(probabilities_of_classes, least))


def are_right(decoder: ClassDecoder, outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return for each sample whether its class, or all its labels, are predicted, (n,)."""
    right = decoder.decode(outputs) == y
    if right.ndim == 2:
        return right.all(axis=1)
    return right


def warn_of_gaps(gaps: np.ndarray, what: str, tol: float) -> None:
    """Warn about values of C or alpha whose relative duality gaps are above the tolerance."""
    n_above = np.count_nonzero(gaps > tol)
    if n_above:
        warn_caller(
            f"{n_above} of {gaps.size} values of {what} stopped above tol={tol:g}, at relative "
            f"duality gaps of up to {gaps.max():.2g}: raise max_iter, or tol.",
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
