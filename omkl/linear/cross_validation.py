"""GroupLassoCV and SparseLogisticRegressionCV: alpha chosen by cross-validation along warm-started paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassifierMixin, RegressorMixin

from omkl._components import check_n_jobs
from omkl.batch.solver import DesignSolver, regularization_path
from omkl.data.frames import plain_targets
from omkl.estimators.batch import NEVER, NumberDecoder, has_log_odds, is_a_classifier, resolve_loss
from omkl.estimators.cross_validation import HeldOut, PathSearch
from omkl.estimators.targets import has_columns
from omkl.estimators.validation import check_sample_weight
from omkl.linear.base import SparseLinear, score_with_offset
from omkl.linear.problems import (
    DesignLike,
    Groups,
    Samples,
    coefficients_of,
    path_values,
    predictions_of,
    problems_of,
    solver_of,
)
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator

Model = TypeVar("Model", bound=SparseLinear)


def fit_best_alpha(
    self: Model,
    X: DesignLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    sample_groups: ArrayLike | None = None,
    offset: ArrayLike | None = None,
) -> Model:
    """Choose alpha, and learn the coefficients from all samples.

    Parameters
    ----------
    X, y, offset
        As for :meth:`GroupLasso.fit`.
    sample_weight : array of shape (m,), optional
        Weights >= 0 of the samples in the mean loss, and of held-out samples in scores.
    sample_groups : array of shape (m,), optional
        Samples of one group stay in one fold, with splitters such as scikit-learn's ``GroupKFold``.

    Returns
    -------
    self

    Raises
    ------
    omkl.exceptions.InputError
        As for a single alpha; also if alphas are invalid, cv does not split the samples into folds or leaves one empty,
        or scoring is invalid or undefined in all folds.
    """
    self._check()
    check_n_jobs(self.n_jobs)
    samples, decoder = self._read(X, y, sample_weight, offset)
    targets = plain_targets(y)
    given = targets.toarray() if sparse.issparse(targets) else np.asarray(targets)
    given = given if has_columns(given) else given.ravel()
    search = PathSearch(self, "alpha", given, sample_weight, sample_groups)
    weights = check_sample_weight(sample_weight, len(given))
    kept = slice(None) if weights is None else np.flatnonzero(weights)
    alphas = path_values(problems_of(self, samples.merged(), 1.0), self.alphas)
    outputs_decoder = NumberDecoder(resolve_loss(self, links=True)) if decoder is None else decoder

    def held_out(train: np.ndarray, test: np.ndarray) -> HeldOut:
        return HeldOut(*_path_of_fold(self, samples, alphas, train, test), outputs_decoder)

    alpha = search.choose(
        alphas,
        held_out,
        given[kept] if is_a_classifier(self) else samples.targets[0] + samples.centres,
        None if weights is None else weights[kept],
        has_log_odds(self),
        self.n_jobs,
    )
    self._learn(samples, decoder, alpha)
    search.warn()
    return self


class GroupLassoCV(RegressorMixin, SparseLinear):
    r"""Lasso, group lasso and elastic net with alpha chosen by cross-validation.

    In each fold one path of alpha is solved, with warm starts. The rows of the design are not copied.

    Parameters
    ----------
    alphas : int or array of floats > 0
        Values of alpha. A number spreads as many values evenly on a log scale, over two decades below the smallest
        alpha at which no column is in the model of all samples.
    groups, loss, regularizer, group_weights, solver, tol, max_iter, fit_intercept, positive, missing, verbose
        As for :class:`GroupLasso`.
    cv : int, splitter, iterable of (train, test) or None
        As in scikit-learn; a number gives consecutive folds, None five of them.
    scoring : str, callable or None
        As in scikit-learn; None is :math:`R^2`. The ``X`` passed to a callable is a placeholder for the held-out
        samples, which only the estimator passed with it can read.
    n_jobs : int, optional
        Number of folds solved in parallel threads; -1 uses all processors.

    Attributes
    ----------
    alpha_ : float
        The value with the best mean score, the largest in a tie.
    alphas_ : array of shape (n_alphas,)
        Values of alpha in decreasing order.
    scores_ : array of shape (n_folds, n_alphas)
    cv_results_ : list of dict
        A flat record for each alpha: ``alpha``, ``mean_score``, ``std_score``, ``active`` (mean number of groups), and
        ``dual_gap`` (the largest of the folds).
    coef_, intercept_, dual_gap_, n_iter_, history_, n_features_in_
        As for :class:`GroupLasso`, of the model of all samples at ``alpha_``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 9))
    >>> y = X[:, 3] - X[:, 4] + 0.1 * rng.normal(size=60)
    >>> model = GroupLassoCV(groups=[[0, 1, 2], [3, 4, 5], [6, 7, 8]], cv=3).fit(X, y)
    >>> bool(model.alpha_ < model.alphas_[0]), bool(np.abs(model.coef_[3]) > 0.9)
    (True, True)
    """

    def __init__(
        self,
        alphas: int | ArrayLike = 20,
        *,
        groups: Groups = None,
        cv: int | BaseCrossValidator | Iterable | None = None,
        scoring: str | Callable | None = None,
        n_jobs: int | None = None,
        loss: str | PointwiseLoss = "squared",
        regularizer: str | Regularizer = "group-lasso",
        group_weights: str | ArrayLike | dict | None = None,
        solver: str | DesignSolver = "dal",
        tol: float = 1e-3,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        positive: bool = False,
        missing: str = "indicator",
        verbose: bool = False,
    ) -> None:
        self.alphas = alphas
        rest = (tol, max_iter, fit_intercept, positive, missing, verbose)
        super().__init__(groups, loss, regularizer, group_weights, solver, *rest)
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    fit = fit_best_alpha
    score = score_with_offset


class SparseLogisticRegressionCV(ClassifierMixin, SparseLinear):
    """Classifier that selects columns or groups of them, with alpha chosen by cross-validation.

    Parameters
    ----------
    alphas, cv, scoring, n_jobs
        As for :class:`GroupLassoCV`; folds are stratified, and None for ``scoring`` is accuracy.
    groups, loss, regularizer, group_weights, multiclass, class_weight, solver, tol, max_iter, fit_intercept, \
positive, missing, verbose
        As for :class:`SparseLogisticRegression`; "balanced" class weights are computed from all samples.

    Attributes
    ----------
    alpha_, alphas_, scores_, cv_results_
        As for :class:`GroupLassoCV`. A class that is missing in the training part of a fold is never predicted in it;
        an undefined score is NaN, and means skip this fold.
    classes_, coef_, intercept_, dual_gap_, n_iter_, history_, n_features_in_
        As for :class:`SparseLogisticRegression`, of the model of all samples at ``alpha_``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SparseLogisticRegressionCV(5, cv=3).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> bool(model.scores_.mean(axis=0).max() > 0.95), len(model.cv_results_)
    (True, 5)
    """

    def __init__(
        self,
        alphas: int | ArrayLike = 20,
        *,
        groups: Groups = None,
        cv: int | BaseCrossValidator | Iterable | None = None,
        scoring: str | Callable | None = None,
        n_jobs: int | None = None,
        loss: str | PointwiseLoss = "logistic",
        regularizer: str | Regularizer = "group-lasso",
        group_weights: str | ArrayLike | dict | None = None,
        multiclass: str = "ovr",
        class_weight: str | dict | None = None,
        solver: str | DesignSolver = "dal",
        tol: float = 1e-3,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        positive: bool = False,
        missing: str = "indicator",
        verbose: bool = False,
    ) -> None:
        self.alphas = alphas
        rest = (tol, max_iter, fit_intercept, positive, missing, verbose)
        super().__init__(groups, loss, regularizer, group_weights, solver, *rest)
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.multiclass = multiclass
        self.class_weight = class_weight

    fit = fit_best_alpha
    score = score_with_offset

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._takes_labels
        tags.classifier_tags.poor_score = True  # with standardized columns alpha=1 leaves no column in the model
        return tags


def _path_of_fold(
    model: SparseLinear, samples: Samples, alphas: np.ndarray, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve a path on the training samples of a fold; return outputs, active group counts, and gaps."""
    outputs = np.zeros((len(alphas), len(test), sum(samples.widths)))
    if samples.offsets is not None:
        outputs += samples.offsets[:, test].T
    active, gaps = np.zeros(len(alphas)), np.zeros(len(alphas))
    solver, rows = solver_of(model), samples.rows(train).merged()
    for p, (known, width) in enumerate(zip(rows.targets, samples.widths)):
        if is_a_classifier(model) and known.ndim == 1 and np.all(known == known[0]):
            outputs[:, :, p] = -NEVER if known[0] > 0 else NEVER
            continue
        own = slice(p, p + width)  # several outputs are one problem
        offsets = None if rows.offsets is None else rows.offsets[own]
        [problem] = problems_of(model, replace(rows, targets=[known], offsets=offsets), 1.0)
        for a, point in enumerate(regularization_path(solver, problem, alphas, model.tol, model.max_iter)):
            certificate, learned = point.solution.certificate, coefficients_of([point.solution], rows)
            outputs[a, :, own] += predictions_of(samples.design, *learned)[test]
            active[a] += np.count_nonzero(certificate.norms)
            gaps[a] = max(gaps[a], abs(certificate.gap))
    return outputs, active, gaps
