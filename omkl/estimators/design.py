"""GroupLasso and SparseLogisticRegression: sparse linear models with a certificate, as scikit-learn estimators."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from omkl.batch import DesignProblem, DesignSolver
from omkl.estimators.classes import BatchClassifier, finite_targets
from omkl.estimators.sparse_linear import LARGEST, Samples, SparseLinear
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

Groups = Sequence[Sequence[int]] | ArrayLike | None


class GroupLasso(RegressorMixin, SparseLinear):
    r"""Lasso, group lasso and elastic net with a certificate: regression that selects columns or groups of them.

    .. math:: \min_{w, b} \frac1n \sum_i l\Bigl(y_i, (X w)_i + b\Bigr) + \alpha \sum_g \omega_g \|w_g\|

    The loss is a mean, weighted by the sample weights, and 1/2 times the squared error: without groups this is
    scikit-learn's ``Lasso(alpha)``.

    Parameters
    ----------
    alpha : float > 0
        Weight of the regularizer: the larger, the fewer groups.
    groups : None, array of shape (n,), or list of lists of int
        None makes every column a group of its own, the lasso; an array labels each column with its group; lists give
        the columns of each group.
    loss : {"squared", "huber", "poisson", "epsilon-insensitive"} or PointwiseLoss
        Any convex one, with kinks or without. With "poisson" targets are counts whose mean is :math:`e^{(X w)_i + b}`,
        as in scikit-learn's ``PoissonRegressor``, and predictions are means.
    regularizer : {"group-lasso", "elastic-net", "sparse-group"}, or Regularizer
        A function of the group norms; with the solver "dal" a sum over groups. "sparse-group:sigma=0.7" is
        :math:`\sum_g \sigma \omega_g \|w_g\| + (1-\sigma) \|w_g\|_1`, which selects columns within groups, too.
        "elastic-net:mu=0.3" is
        :math:`\sum_g (1-\mu) b_g + \mu b_g^2 / 2`: with single columns scikit-learn's
        ``ElasticNet(alpha, l1_ratio=1 - mu)``. "l1" is for single columns only.
    group_weights : None, "sqrt-size" or array of shape (g,)
        The :math:`\omega_g \ge 0`, in the order of the sorted labels or of the lists; None makes them all 1. Groups of
        weight 0 are in the model whatever alpha is, like the intercept.
    solver : {"dal", "sparsa", "ist"} or omkl.batch.DesignSolver
        The last two for losses without kinks.
    tol : float > 0
        Relative duality gap to reach, over all columns.
    max_iter : int, optional
        Iterations of the solver at most; for "dal" passes over the design.
    fit_intercept : bool
        Whether there is a constant b, which is not regularized.
    positive : bool
        Whether coefficients must not be negative, but for those of groups of weight 0.
    warm_start : bool
        Start from the coefficients of the previous fit.
    verbose : bool
        Show a progress bar, if it takes longer than a second and standard error is a terminal.

    Attributes
    ----------
    coef_ : array of shape (n,)
    intercept_ : float
    dual_gap_ : float
        Relative duality gap reached, computed from the model over all columns.
    n_iter_ : int
    history_ : list of dict
        A flat record an iteration; see :class:`omkl.batch.Solution`.
    n_features_in_ : int

    References
    ----------
    Tomioka, Suzuki and Sugiyama (2009), Dual augmented Lagrangian, proximal minimization, and MKL.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 9))
    >>> model = GroupLasso(0.2, groups=[[0, 1, 2], [3, 4, 5], [6, 7, 8]]).fit(X, X[:, 3] - X[:, 4])
    >>> np.flatnonzero(model.coef_)
    array([3, 4, 5])
    """

    def __init__(
        self, alpha: float = 1.0, *, groups: Groups = None, loss: str | PointwiseLoss = "squared",
        regularizer: str | Regularizer = "group-lasso", group_weights: str | ArrayLike | None = None,
        solver: str | DesignSolver = "dal", tol: float = 1e-3, max_iter: int | None = None, fit_intercept: bool = True,
        positive: bool = False, warm_start: bool = False, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.alpha = alpha
        self.groups = groups
        self.loss = loss
        self.regularizer = regularizer
        self.group_weights = group_weights
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, offset: ArrayLike | None = None
    ) -> "GroupLasso":
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (m, n), sparse matrix or scipy ``LinearOperator``
            Used as it is in float32 and float64, in C and Fortran order, as CSC and CSR: never copied.
        y : array of shape (m,)
        sample_weight : array of shape (m,), optional
            Weights >= 0 of the samples in the mean loss.
        offset : array of shape (m,), optional
            What is known of the predictions, and added to :math:`(X w)_i + b`: with the Poisson loss the logarithm of
            the exposure.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, or groups do not fit the columns.
        """
        self._resolve()
        self._learn(self._read(X, y, sample_weight, offset))
        return self

    def _learn(self, samples: Samples) -> None:
        (target,) = samples.targets
        if self.fit_intercept and samples.offsets is None and np.ptp(target) == 0.0:
            self._fit_constant(self._problems(samples)[0])
            return
        coefficients, intercepts = self._solve(samples)
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])

    def _fit_constant(self, problem: DesignProblem) -> None:
        """The model of a constant target: a constant, at which the loss may be 0, to which no gap is relative."""
        y, constant = float(problem.y[0]), problem.best_intercept(np.zeros(len(problem.y)))
        loss = problem.weighted_loss
        if loss.value(np.full(len(problem.y), y)) <= loss.value(np.full(len(problem.y), constant)):
            constant = y
        warnings.warn(
            f"y is constant ({y:g}): the model is the constant {float(problem.loss.mean(np.array(constant))):g}.",
            UserWarning,
            stacklevel=4,
        )
        self.coef_, self.intercept_ = np.zeros(problem.design.shape[1]), constant
        self.dual_gap_, self.n_iter_, self.history_ = 0.0, 1, []

    def _targets(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[list[np.ndarray], np.ndarray | None]:
        target = finite_targets(y)
        if np.abs(target).max() > LARGEST[8]:
            raise InputError(f"y holds {np.abs(target).max():.3g}, whose square is too large: scale it.")
        return [target], weights

    def predict(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Predicted target of each sample, (n,): with the Poisson loss the mean, :math:`e^{(X w)_i + b + o_i}`.

        Parameters
        ----------
        X
            As for :meth:`fit`.
        offset : array of shape (n,), optional
            0 by default.
        """
        return self._resolve_loss().mean(self._outputs(X, offset)[:, 0])


class SparseLogisticRegression(BatchClassifier, SparseLinear):
    r"""Classifier that selects columns or groups of them, with a certificate; more than two classes by one-vs-rest.

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
    class_weight : None, "balanced" or dict
        A dict gives the weights of classes, 1 by default; "balanced" weighs every class alike. They multiply the sample
        weights.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (1, n), or (K, n) for K > 2 classes
    intercept_ : array of shape (1,) or (K,)
    dual_gap_ : float
        Relative duality gap reached, the largest of the binary problems; computed from the model over all columns.
    n_iter_ : int
        The largest of the binary problems.
    history_ : list of dict
        A flat record an iteration; ``problem`` numbers the binary problems.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SparseLogisticRegression(0.01).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> int(np.count_nonzero(model.coef_)), bool(model.dual_gap_ <= 1e-3)
    (9, True)
    """

    def __init__(
        self, alpha: float = 1.0, *, groups: Groups = None, loss: str | PointwiseLoss = "logistic",
        regularizer: str | Regularizer = "group-lasso", group_weights: str | ArrayLike | None = None,
        class_weight: str | dict | None = None, solver: str | DesignSolver = "dal", tol: float = 1e-3,
        max_iter: int | None = None, fit_intercept: bool = True, positive: bool = False,
        warm_start: bool = False, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.alpha = alpha
        self.groups = groups
        self.loss = loss
        self.regularizer = regularizer
        self.group_weights = group_weights
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, offset: ArrayLike | None = None
    ) -> "SparseLogisticRegression":
        """Learn the coefficients.

        Parameters
        ----------
        X, sample_weight
            As for :meth:`GroupLasso.fit`.
        y : array of shape (m,)
        offset : array of shape (m,), or (m, K) for K > 2 classes, optional
            What is known of the scores, and added to :math:`(X w)_i + b`.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, there is one class only, or groups do not fit the columns.
        """
        self._resolve()
        self._learn(self._read(X, y, sample_weight, offset))
        return self

    def _learn(self, samples: Samples) -> None:
        self.coef_, self.intercept_ = self._solve(samples)

    def _targets(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[list[np.ndarray], np.ndarray | None]:
        codes = self._learn_classes(y)
        return self._one_vs_rest(codes), self._times_class_weights(codes, weights)

    def decision_function(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Scores: (n,) with two classes, positive for ``classes_[1]``; (n, K) with more.

        Parameters
        ----------
        X, offset
            As for :meth:`fit`; the offset is 0 by default.
        """
        outputs = self._outputs(X, offset)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Best class of each sample, (n,); parameters as for :meth:`decision_function`."""
        return self._best_class(self.decision_function(X, offset=offset))

    @available_if(lambda self: self._is_probabilistic())
    def predict_proba(self, X: Any, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Probability of each class, (n, K), with more than two classes one-vs-rest probabilities scaled to sum to one.

        Parameters are those of :meth:`decision_function`.
        """
        return self._probabilities(self.decision_function(X, offset=offset))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # where columns are standardized, alpha=1 leaves none of them in the model
        tags.classifier_tags.poor_score = True
        return tags
