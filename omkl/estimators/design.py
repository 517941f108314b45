"""GroupLasso and SparseLogisticRegression: sparse linear models with a certificate, as scikit-learn estimators."""

import warnings

import numpy as np
from sklearn.base import RegressorMixin

from omkl.estimators.classes import BatchClassifier, finite_targets
from omkl.estimators.sparse_linear import SparseLinear


class GroupLasso(RegressorMixin, SparseLinear):
    r"""Lasso, group lasso and elastic net with a certificate: regression that selects columns or groups of them.

    .. math:: \min_{w, b} \sum_i l\Bigl(y_i, (X w)_i + b\Bigr) + C \sum_g \omega_g \|w_g\|

    The loss is summed, and 1/2 times the squared error: scikit-learn's ``Lasso(alpha)`` is ``C = n_samples * alpha``.

    Parameters
    ----------
    groups : None, array of shape (n,), or list of lists of int
        None makes every column a group of its own, the lasso; an array labels each column with its group; lists give
        the columns of each group.
    C : float > 0
        Strength of the regularizer on the summed loss: the larger, the fewer groups.
    loss : {"squared", "huber"} or PointwiseLoss
        A smooth one.
    regularizer : {"group-lasso", "elastic-net"}, or Regularizer
        A function of the group norms. "elastic-net:mu=0.3" is :math:`\sum_g (1-\mu) b_g + \mu b_g^2 / 2`: with single
        columns scikit-learn's ``ElasticNet(alpha, l1_ratio=1 - mu)``.
    group_weights : None, "sqrt-size" or array of shape (g,)
        The :math:`\omega_g > 0`, in the order of the sorted labels or of the lists; None makes them all 1.
    solver : {"dal", "sparsa", "ist"} or omkl.batch.DesignSolver
    tol : float > 0
        Relative duality gap to reach, over all columns.
    max_iter : int, optional
        Iterations of the solver at most; for "dal" passes over the design.
    fit_intercept : bool
        Whether there is a constant b, which is not regularized.
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
    history_ : list of list of dict
        One list with a record an iteration; see :class:`omkl.batch.Solution`.
    n_features_in_ : int

    References
    ----------
    Tomioka, Suzuki and Sugiyama (2009), Dual augmented Lagrangian, proximal minimization, and MKL.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 9))
    >>> model = GroupLasso(groups=[[0, 1, 2], [3, 4, 5], [6, 7, 8]], C=10.0).fit(X, X[:, 3] - X[:, 4])
    >>> np.flatnonzero(model.coef_)
    array([3, 4, 5])
    """

    def __init__(
        self, groups=None, C=1.0, loss="squared", regularizer="group-lasso", group_weights=None, solver="dal",
        tol=1e-3, max_iter=None, fit_intercept=True, warm_start=False, verbose=True,
    ):  # fmt: skip
        super().__init__(
            groups, C, loss, regularizer, group_weights, solver, tol, max_iter, fit_intercept, warm_start, verbose
        )

    def fit(self, X, y):
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (m, n), sparse matrix or scipy ``LinearOperator``
            Used as it is in float32 and float64, in C and Fortran order, as CSC and CSR: never copied.
        y : array of shape (m,)

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, or groups do not fit the columns.
        """
        self._resolve()
        X, y = self._read(X, y)
        (target,) = self._targets(y)
        if self.fit_intercept and np.ptp(target) == 0.0:
            # the optimum is 0, to which no gap is relative
            warnings.warn(f"y is constant ({target[0]:g}): the model is that constant.", UserWarning, stacklevel=2)
            self._problem(X, target)
            self.coef_, self.intercept_ = np.zeros(X.shape[1]), float(target[0])
            self.dual_gap_, self.n_iter_, self.history_ = 0.0, 1, [[]]
            return self
        coefficients, intercepts = self._solve(X, [target])
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])
        return self

    def _targets(self, y):
        return [finite_targets(y)]

    def predict(self, X):
        """Predicted target of each sample, (n,)."""
        return self._outputs(X)[:, 0]


class SparseLogisticRegression(BatchClassifier, SparseLinear):
    r"""Classifier that selects columns or groups of them, with a certificate; more than two classes by one-vs-rest.

    .. math:: \min_{w, b} \sum_i \log\bigl(1 + e^{-y_i ((X w)_i + b)}\bigr) + C \sum_g \omega_g \|w_g\|

    The strength is on the regularizer: scikit-learn's ``LogisticRegression(C=c, l1_ratio=1)`` is ``C = 1 / c``.

    Parameters
    ----------
    C : float > 0
        Strength of the regularizer on the summed loss: the larger, the fewer groups.
    groups, regularizer, group_weights, solver, tol, max_iter, fit_intercept, warm_start, verbose
        As for :class:`GroupLasso`.
    loss : {"logistic", "squared-hinge"} or PointwiseLoss
        A smooth one.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (1, n), or (K, n) for K > 2 classes
    intercept_ : array of shape (1,) or (K,)
    dual_gap_ : float
        Relative duality gap reached, the largest of the binary problems; computed from the model over all columns.
    n_iter_ : int
        The largest of the binary problems.
    history_ : list of list of dict
        For each binary problem a record an iteration.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SparseLogisticRegression(C=5.0).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> int(np.count_nonzero(model.coef_)), bool(model.dual_gap_ <= 1e-3)
    (10, True)
    """

    def __init__(
        self, C=1.0, groups=None, loss="logistic", regularizer="group-lasso", group_weights=None, solver="dal",
        tol=1e-3, max_iter=None, fit_intercept=True, warm_start=False, verbose=True,
    ):  # fmt: skip
        super().__init__(
            groups, C, loss, regularizer, group_weights, solver, tol, max_iter, fit_intercept, warm_start, verbose
        )

    def fit(self, X, y):
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (m, n), sparse matrix or scipy ``LinearOperator``
            Used as it is in float32 and float64, in C and Fortran order, as CSC and CSR: never copied.
        y : array of shape (m,)

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, there is one class only, or groups do not fit the columns.
        """
        self._resolve()
        X, y = self._read(X, y)
        self.coef_, self.intercept_ = self._solve(X, self._targets(y))
        return self

    def _targets(self, y):
        return self._one_vs_rest(self._learn_classes(y))

    def decision_function(self, X):
        """Scores: (n,) with two classes, positive for ``classes_[1]``; (n, K) with more."""
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs
