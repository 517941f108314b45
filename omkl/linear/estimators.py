"""GroupLasso and SparseLogisticRegression: models that select columns, with a certificate."""

from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin

from omkl.batch.solver import DesignSolver
from omkl.linear.base import SparseLinear, score_with_offset
from omkl.linear.problems import Groups
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


class GroupLasso(RegressorMixin, SparseLinear):
    r"""Lasso, group lasso and elastic net with a certificate: regression that selects columns or groups of them.

    .. math:: \min_{w, b} \frac1n \sum_i l\Bigl(y_i, (X w)_i + b\Bigr) + \alpha \sum_g \omega_g \|w_g\|

    The loss is a mean, weighted by the sample weights, with 1/2 times the squared error. Without groups this is
    scikit-learn's ``Lasso(alpha)``. With K outputs the loss is summed over outputs, and :math:`\|w_g\|` is the norm of
    a group's coefficients in all outputs, as in ``MultiTaskLasso``.

    Parameters
    ----------
    alpha : float > 0
        Weight of the regularizer; larger values select fewer groups.
    groups : None, array of shape (n,), list of lists of int or str, or dict of such lists
        None puts every column into its own group, the lasso. An array labels each column with its group. Lists give the
        columns of each group by position, or by name if X is a data frame; a dict also names the groups.
    loss : {"squared", "huber", "poisson", "epsilon-insensitive"} or PointwiseLoss
        Any convex loss, with or without kinks. With "poisson" targets are counts whose mean is :math:`e^{(X w)_i + b}`,
        as in scikit-learn's ``PoissonRegressor``, and predictions are means.
    regularizer : {"group-lasso", "elastic-net", "sparse-group"}, or Regularizer
        A function of the group norms; with the solver "dal" a sum over groups. "sparse-group:sigma=0.7" is
        :math:`\sum_g \sigma \omega_g \|w_g\| + (1-\sigma) \|w_g\|_1`, which selects columns within groups, too.
        "elastic-net:mu=0.3" is
        :math:`\sum_g (1-\mu) b_g + \mu b_g^2 / 2`: with single columns scikit-learn's
        ``ElasticNet(alpha, l1_ratio=1 - mu)``. "l1" is for single columns only.
    group_weights : None, "sqrt-size", array of shape (g,) or dict
        The :math:`\omega_g \ge 0`, in the order of the sorted labels or of the lists, or in a dict by the
        names of the groups; None makes them all 1. Groups of weight 0 are not regularized and always in the model,
        like the intercept.
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
        Treatment of missing numbers (NaN, None, NaT). "indicator" replaces them by the mean of their column, and adds a
        group "missing": a column of 0 and 1 for each column that had missing entries in training. "error" refuses them.
    warm_start : bool
        Whether to start from the coefficients of the previous fit.
    verbose : bool
        Whether to show a progress bar after a second, or a line every half minute if standard error is not a terminal.

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
    categories_ : list
        For each column of a data frame with text or categories, its categories as strings, or None for numbers.
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

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        groups: Groups = None,
        loss: str | PointwiseLoss = "squared",
        regularizer: str | Regularizer = "group-lasso",
        group_weights: str | ArrayLike | dict | None = None,
        solver: str | DesignSolver = "dal",
        tol: float = 1e-3,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        positive: bool = False,
        missing: str = "indicator",
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        rest = (tol, max_iter, fit_intercept, positive, missing, verbose)
        super().__init__(groups, loss, regularizer, group_weights, solver, *rest)
        self.warm_start = warm_start

    score = score_with_offset


class SparseLogisticRegression(ClassifierMixin, SparseLinear):
    r"""Classifier that selects columns or groups of them, with a certificate.

    .. math:: \min_{w, b} \frac1n \sum_i \log\bigl(1 + e^{-y_i ((X w)_i + b)}\bigr) + \alpha \sum_g \omega_g \|w_g\|

    The loss is a mean, weighted by the weights of samples and classes: scikit-learn's
    ``LogisticRegression(C=c, l1_ratio=1)`` is ``alpha = 1 / (c * n)``.

    Parameters
    ----------
    alpha : float > 0
        Weight of the regularizer; larger values select fewer groups.
    groups, regularizer, group_weights, solver, tol, max_iter, fit_intercept, positive, missing, warm_start, verbose
        As for :class:`GroupLasso`.
    loss : {"logistic", "squared-hinge", "hinge"} or PointwiseLoss
        Any convex loss, with or without kinks.
    multiclass : {"ovr", "multinomial"}
        Strategy for more than two classes. "ovr" solves one problem per class, against the rest. "multinomial" solves
        one problem with the loss :math:`\log \sum_k e^{z_{ik}} - z_{i y_i}` instead of the logistic loss; a group of
        columns is then active for all classes or for none. Samples with several labels have one problem, with its own
        columns, per label, which is "ovr".
    class_weight : None, "balanced" or dict
        A dict gives the weights of classes, 1 by default; "balanced" gives every class the same total weight. Class
        weights multiply sample weights.

    Attributes
    ----------
    classes_ : array of shape (K,), or the indices of the L columns of indicators
    multinomial_ : bool
        Whether all classes were learned in one problem with the multinomial loss.
    multilabel_ : bool
        Whether targets were indicators of labels.
    constant_labels_ : dict of int to bool
        Labels that all samples have, or that none has; predictions repeat them.
    coef_ : array of shape (1, n), or (K, n) for K > 2 classes, or (P, n) for the P labels that are not constant
    intercept_ : array of shape (1,), (K,) or (P,)
    dual_gap_ : float
        Relative duality gap reached, the largest over the binary problems, computed from the model over all columns.
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

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        groups: Groups = None,
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
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        rest = (tol, max_iter, fit_intercept, positive, missing, verbose)
        super().__init__(groups, loss, regularizer, group_weights, solver, *rest)
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.warm_start = warm_start

    score = score_with_offset

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._takes_labels
        tags.classifier_tags.poor_score = True  # with standardized columns alpha=1 leaves no column in the model
        return tags
