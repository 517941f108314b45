"""SparseLogisticRegression: a classifier that selects columns, with a certificate."""

from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from omkl.batch import DesignSolver
from omkl.linear.base import SparseLinear, score_with_offset
from omkl.linear.group_lasso import Groups
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


class SparseLogisticRegression(ClassifierMixin, SparseLinear):
    r"""Classifier that selects columns or groups of them, with a certificate.

    .. math:: \min_{w, b} \frac1n \sum_i \log\bigl(1 + e^{-y_i ((X w)_i + b)}\bigr) + \alpha \sum_g \omega_g \|w_g\|

    The loss is a mean, weighted by the weights of samples and classes: scikit-learn's
    ``LogisticRegression(C=c, l1_ratio=1)`` is ``alpha = 1 / (c * n)``.

    Parameters
    ----------
    alpha : float > 0
        Weight of the regularizer: the larger, the fewer groups.
    groups, regularizer, group_weights, solver, tol, max_iter, fit_intercept, positive, warm_start, verbose
        As for :class:`GroupLasso`.
    loss : {"logistic", "squared-hinge", "hinge"} or PointwiseLoss
        Any convex one, with kinks or without.
    multiclass : {"ovr", "multinomial"}
        More than two classes: one problem for each against the rest, or all in one, with the loss
        :math:`\log \sum_k e^{z_{ik}} - z_{i y_i}` in place of the logistic loss. In one problem a group of columns is
        in the model with all classes, or with none. Samples with several labels at once have a problem for each label,
        with columns of its own, which is "ovr".
    class_weight : None, "balanced" or dict
        A dict gives the weights of classes, 1 by default; "balanced" weighs every class alike. They multiply the sample
        weights.

    Attributes
    ----------
    classes_ : array of shape (K,), or the numbers of the L columns of indicators
    multinomial_ : bool
        Whether all classes were learned in one problem, that of the multinomial loss.
    multilabel_ : bool
        Whether targets were indicators of labels.
    constant_labels_ : dict of int to bool
        Labels that all samples have, or none; they are always predicted so.
    coef_ : array of shape (1, n), or (K, n) for K > 2 classes, or (P, n) for the P labels that samples differ in
    intercept_ : array of shape (1,), (K,) or (P,)
    dual_gap_ : float
        Relative duality gap reached, the largest of the binary problems; computed from the model over all columns.
    n_iter_ : int
        The largest of the binary problems.
    history_ : list of dict
        A flat record an iteration; ``problem`` numbers the binary problems.
    n_features_in_ : int

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
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        self.groups = groups
        self.loss = loss
        self.regularizer = regularizer
        self.group_weights = group_weights
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.warm_start = warm_start
        self.verbose = verbose

    score = score_with_offset

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._takes_labels
        tags.classifier_tags.poor_score = True  # with standardized columns alpha=1 leaves none of them in the model
        return tags
