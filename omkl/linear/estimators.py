"""GroupLasso and SparseLogisticRegression, with a certificate, and with cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_n_jobs
from omkl.batch.group_lasso.matrices import DesignLike
from omkl.batch.solver import regularization_path
from omkl.estimators.batch import NEVER, ClassDecoder, NumberDecoder, is_a_classifier, resolve_loss
from omkl.estimators.cross_validation import HeldOut, PathSearch
from omkl.estimators.validation import restoring_columns
from omkl.linear.base import SparseClassifier, SparseLinear, SparseRegressor
from omkl.linear.problems import (
    Samples,
    path_values,
    predictions_of,
    read_samples,
    solver_of,
)
from omkl.losses import PointwiseLoss

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator


@dataclass(kw_only=True, eq=False, repr=False)
class GroupLasso(SparseRegressor):
    r"""Lasso, group lasso and elastic net with a certificate.

    Regression that selects columns or groups of them.

    .. math::

        \min_{w, b} \frac1n \sum_i l\Bigl(y_i, (X w)_i + b\Bigr)
        + \alpha \sum_g \omega_g \|w_g\|

    The loss is a mean, weighted by the sample weights, with 1/2 times the squared error. Without
    groups this is scikit-learn's ``Lasso(alpha)``. With K outputs the loss is summed over outputs,
    and :math:`\|w_g\|` is the norm of a group's coefficients in all outputs, as in
    ``MultiTaskLasso``.

    Parameters
    ----------
    alpha : float > 0
        Weight of the regularizer; larger values select fewer groups.
    groups : None, array of shape (n,), list of lists of int or str, or dict of such lists
        None puts every column into its own group, the lasso. An array labels each column with its
        group. Lists give the columns of each group by position, or by name if X is a data frame; a
        dict also names the groups.
    loss : {"squared", "huber", "poisson", "epsilon-insensitive"} or PointwiseLoss
        Any convex loss, with or without kinks. With "poisson" targets are counts whose mean is
        :math:`e^{(X w)_i + b}`, as in scikit-learn's ``PoissonRegressor``, and predictions are
        means.
    regularizer : {"group-lasso", "elastic-net", "sparse-group"}, or Regularizer
        A function of the group norms; with the solver "dal" a sum over groups.
        "sparse-group:sigma=0.7" is :math:`\sum_g \sigma \omega_g \|w_g\| + (1-\sigma) \|w_g\|_1`,
        which selects columns within groups, too. "elastic-net:mu=0.3" is :math:`\sum_g (1-\mu) b_g
        + \mu b_g^2 / 2`: with single columns scikit-learn's ``ElasticNet(alpha, l1_ratio=1 - mu)``.
        "l1" is for single columns only.
    group_weights : None, "sqrt-size", array of shape (g,) or dict
        The :math:`\omega_g \ge 0`, in the order of the sorted labels or of the lists, or in a dict
        by the names of the groups; None makes them all 1. Groups of weight 0 are not regularized
        and always in the model, like the intercept; under "sparse-group" they keep the penalty
        :math:`(1-\sigma) \|w_g\|_1`. They must not separate the classes.
    solver : {"dal", "sparsa", "ist"} or omkl.batch.DesignSolver
        "sparsa" and "ist" are for losses without kinks, and one output.
    tol : float > 0
        Relative duality gap to reach, over all columns.
    max_iter : int, optional
        Maximum number of iterations; for "dal" these are passes over the design.
    fit_intercept : bool
        Whether to learn a constant b, which is not regularized.
    positive : bool
        Whether coefficients must be >= 0, except in groups of weight 0.
    missing : {"indicator", "error"}
        Treatment of missing numbers (NaN, None, NaT). "indicator" replaces them by the mean of
        their column, and adds a group "missing": a column of 0 and 1 for each column that had
        missing entries in training. "error" refuses them.
    warm_start : bool
        Whether to start from the coefficients of the previous fit.
    verbose : bool
        Whether to show a progress bar after a second, or a line every half minute if standard error
        is not a terminal.

    Attributes
    ----------
    coef_ : array of shape (n,), or (K, n) for K outputs
    intercept_ : float, or array of shape (K,)
        In units of y, as ``coef_``; for training, targets are centred.
    dual_gap_ : float
        Relative duality gap reached, computed from the model over all columns.
    n_iter_ : int
    history_ : list of dict
        A flat record per iteration; see :class:`omkl.batch.Solution`.
    n_features_in_ : int
    column_kinds_ : list of str
        Kind of each column of a data frame: "numbers", "dates", "durations", "text" or
        "identifier". A column of identifiers is left out.
    categories_ : list
        For each column of a data frame with text or categories, its categories as strings, or None
        for numbers.
    column_means_ : array
        Mean of each column in training, which replaces missing entries. Not for sparse input.
    missing_columns_ : list of int
        Columns with missing entries in training, counted after text became columns of categories.

    References
    ----------
    Tomioka, Suzuki and Sugiyama (2009), Dual augmented Lagrangian, proximal minimization, and MKL.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 9))
    >>> model = GroupLasso(0.2, groups=[[0, 1, 2], [3, 4, 5], [6, 7, 8]]).fit(X, X[:, 3] - X[:, 4])
    >>> np.flatnonzero(model.coef_)
    array([3, 4, 5])
    """

    alpha: float = field(default=1.0, kw_only=False)
    loss: str | PointwiseLoss = "squared"
    warm_start: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class SparseLogisticRegression(SparseClassifier):
    r"""Classifier that selects columns or groups of them, with a certificate.

    .. math::

        \min_{w, b} \frac1n \sum_i \log\bigl(1 + e^{-y_i ((X w)_i + b)}\bigr)
        + \alpha \sum_g \omega_g \|w_g\|

    The loss is a mean, weighted by the weights of samples and classes: scikit-learn's
    ``LogisticRegression(C=c, l1_ratio=1)`` is ``alpha = 1 / (c * n)``.

    Parameters
    ----------
    alpha : float > 0
        Weight of the regularizer; larger values select fewer groups.
    groups, regularizer, group_weights, solver, tol, max_iter, fit_intercept
        As for :class:`GroupLasso`.
    positive, missing, warm_start, verbose
        As for :class:`GroupLasso`.
    loss : {"logistic", "squared-hinge", "hinge"} or PointwiseLoss
        Any convex loss, with or without kinks.
    multiclass : {"ovr", "multinomial"}
        Strategy for more than two classes. "ovr" solves one problem per class, against the rest.
        "multinomial" solves one problem with the loss :math:`\log \sum_k e^{z_{ik}} - z_{i y_i}`
        instead of the logistic loss; a group of columns is then active for all classes or for none.
        Samples with several labels have one problem, with its own columns, per label, which is
        "ovr".
    class_weight : None, "balanced" or dict
        A dict gives the weights of classes, 1 by default; "balanced" gives every class the same
        total weight. Class weights multiply sample weights.

    Attributes
    ----------
    classes_ : array of shape (K,), or the indices of the L columns of indicators
    multinomial_ : bool
        Whether all classes were learned in one problem with the multinomial loss.
    multilabel_ : bool
        Whether targets were indicators of labels.
    constant_labels_ : dict of int to bool
        Labels that all samples have, or that none has; predictions repeat them.
    coef_ : array of shape (1, n), or (K, n) for K > 2 classes, or (P, n) for labels
        P is the number of labels that are not constant.
    intercept_ : array of shape (1,), (K,) or (P,)
    dual_gap_ : float
        Relative duality gap reached, the largest over the binary problems, computed from the model
        over all columns.
    n_iter_ : int
        Number of iterations, the largest over the binary problems.
    history_ : list of dict
        A flat record per iteration; ``problem`` numbers the binary problems.
    n_features_in_, categories_, column_means_, missing_columns_
        As for :class:`GroupLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SparseLogisticRegression(0.01).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> int(np.count_nonzero(model.coef_)), bool(model.dual_gap_ <= 1e-3)
    (9, True)
    """

    alpha: float = field(default=1.0, kw_only=False)
    loss: str | PointwiseLoss = "logistic"
    multiclass: str = "ovr"
    class_weight: str | dict | None = None
    warm_start: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class GroupLassoCV(SparseRegressor):
    r"""Lasso, group lasso and elastic net with alpha chosen by cross-validation.

    In each fold one path of alpha is solved, with warm starts. The rows of the design are not
    copied.

    Parameters
    ----------
    alphas : int or array of floats > 0
        Values of alpha. A number spreads as many values evenly on a log scale, over two decades
        below the smallest alpha at which no column is in the model of all samples.
    groups, loss, regularizer, group_weights, solver, tol, max_iter, fit_intercept
        As for :class:`GroupLasso`.
    positive, missing, verbose
        As for :class:`GroupLasso`.
    cv : int, splitter, iterable of (train, test) or None
        As in scikit-learn; a number gives consecutive folds, None five of them.
    scoring : str, callable or None
        As in scikit-learn; None is :math:`R^2`. The ``X`` passed to a callable is a placeholder for
        the held-out samples, which only the estimator passed with it can read.
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
        A flat record for each alpha: ``alpha``, ``mean_score``, ``std_score``, ``active`` (mean
        number of groups), and ``dual_gap`` (the largest of the folds).
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

    alphas: int | ArrayLike = field(default=20, kw_only=False)
    cv: int | BaseCrossValidator | Iterable | None = None
    scoring: str | Callable | None = None
    n_jobs: int | None = None
    loss: str | PointwiseLoss = "squared"

    def fit(
        self,
        X: DesignLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sample_groups: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Choose alpha, and learn the coefficients from all samples.

        Parameters
        ----------
        X, y, offset
            As for :meth:`GroupLasso.fit`.
        sample_weight : array of shape (m,), optional
            Weights >= 0 of the samples in the mean loss, and of held-out samples in scores.
        sample_groups : array of shape (m,), optional
            Samples of one group stay in one fold, with splitters such as scikit-learn's
            ``GroupKFold``.

        Returns
        -------
        self
            With the model of all samples at ``alpha_``.

        Raises
        ------
        omkl.exceptions.InputError
            As for a single alpha; also if alphas are invalid, cv does not split the samples into
            folds or leaves one empty, or scoring is invalid or undefined in all folds.
        """
        fit_best_alpha(self, X, y, sample_weight, sample_groups, offset)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class SparseLogisticRegressionCV(SparseClassifier):
    """Classifier that selects columns or groups of them, with alpha chosen by cross-validation.

    Parameters
    ----------
    alphas, cv, scoring, n_jobs
        As for :class:`GroupLassoCV`; folds are stratified, and None for ``scoring`` is accuracy.
    groups, loss, regularizer, group_weights, multiclass, class_weight, solver, tol, max_iter, \
fit_intercept, positive, missing, verbose
        As for :class:`SparseLogisticRegression`; "balanced" class weights are computed from all
        samples.

    Attributes
    ----------
    alpha_, alphas_, scores_, cv_results_
        As for :class:`GroupLassoCV`. A class that is missing in the training part of a fold is
        never predicted in it; an undefined score is NaN, and means skip this fold.
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

    alphas: int | ArrayLike = field(default=20, kw_only=False)
    cv: int | BaseCrossValidator | Iterable | None = None
    scoring: str | Callable | None = None
    n_jobs: int | None = None
    loss: str | PointwiseLoss = "logistic"
    multiclass: str = "ovr"
    class_weight: str | dict | None = None

    def fit(
        self,
        X: DesignLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sample_groups: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Choose alpha, and learn the coefficients from all samples.

        Parameters
        ----------
        X, y, offset
            As for :meth:`SparseLogisticRegression.fit`.
        sample_weight : array of shape (m,), optional
            Weights >= 0 of the samples in the mean loss, and of held-out samples in scores.
        sample_groups : array of shape (m,), optional
            Samples of one group stay in one fold, with splitters such as scikit-learn's
            ``GroupKFold``.

        Returns
        -------
        self
            With the model of all samples at ``alpha_``.

        Raises
        ------
        omkl.exceptions.InputError
            As for a single alpha; also if alphas are invalid, cv does not split the samples into
            folds or leaves one empty, or scoring is invalid or undefined in all folds.
        """
        fit_best_alpha(self, X, y, sample_weight, sample_groups, offset)
        return self


def fit_best_alpha(
    model: GroupLassoCV | SparseLogisticRegressionCV,
    X: DesignLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    sample_groups: ArrayLike | None,
    offset: ArrayLike | None,
) -> None:
    """Choose the alpha of a model by cross-validation, and train it on all samples."""
    model._check()
    check_n_jobs(model.n_jobs)
    with restoring_columns(model):
        samples, class_decoder = read_samples(model, X, y, sample_weight, offset)
        decoder = class_decoder or NumberDecoder(resolve_loss(model))
        search = PathSearch(model, "alpha", y, sample_weight, sample_groups)
        alphas = path_values(samples.merged().problems(model, 1.0), model.alphas)
        paths = []
        for train, test in search.folds:
            paths.append(partial(_held_out_path, model, samples, decoder, train, test))
        targets = search.y[search.used]
        if class_decoder is None:
            targets = samples.targets[0] + samples.centres
        alpha = search.choose(alphas, paths, targets, model.n_jobs)
        model._learn(samples, class_decoder, alpha)
        search.warn()


def _held_out_path(
    model: SparseLinear,
    samples: Samples,
    decoder: ClassDecoder | NumberDecoder,
    train: np.ndarray,
    test: np.ndarray,
    alphas: np.ndarray,
) -> HeldOut:
    """Solve a path on the training samples of a fold, and predict its test samples."""
    outputs = np.zeros((len(alphas), len(test), sum(samples.widths)))
    if samples.offsets is not None:
        outputs += samples.offsets[:, test].T
    active = np.zeros(len(alphas))
    gaps = np.zeros(len(alphas))
    training = samples.rows(train).merged()
    for p, targets in enumerate(training.targets):
        if is_a_classifier(model) and targets.ndim == 1 and np.all(targets == targets[0]):
            outputs[:, :, p] = -NEVER if targets[0] > 0 else NEVER
            continue
        columns_of_problem = slice(p, p + samples.widths[p])  # several outputs are one problem
        offsets = None if training.offsets is None else training.offsets[columns_of_problem]
        [problem] = replace(training, targets=[targets], offsets=offsets).problems(model, 1.0)
        path = regularization_path(solver_of(model), problem, alphas, model.tol, model.max_iter)
        for a, point in enumerate(path):
            learned = training.coefficients([point.solution])
            outputs[a, :, columns_of_problem] += predictions_of(samples.design, *learned)[test]
            active[a] += np.count_nonzero(point.solution.certificate.norms)
            gaps[a] = max(gaps[a], abs(point.solution.certificate.gap))
    return HeldOut(outputs, active, gaps, decoder)
