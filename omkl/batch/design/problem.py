r"""Sparse linear models on a design matrix: the problem, its dual, and the certificate over all columns."""

from dataclasses import dataclass, field

import numpy as np

from omkl._components import Component
from omkl.batch.core.problem import Certificate
from omkl.batch.core.weighted_loss import WeightedLoss
from omkl.batch.design.blocks import ColumnGroups
from omkl.batch.design.matrices import Design
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


@dataclass(frozen=True)
class DesignProblem:
    r"""A linear model with a regularizer that selects groups of columns.

    .. math:: \min_{w, b}\ \sum_i l\Bigl(y_i, (A w)_i + b\Bigr) + C\, \psi(\omega_1 \|w_1\|, \ldots, \omega_G \|w_G\|)

    The loss is **summed**: scikit-learn's ``Lasso(alpha)`` is the squared loss with ``C = m * alpha``, its
    ``LogisticRegression(C=c)`` with the l1 penalty (``liblinear`` regularizes the intercept, ``saga`` does not) is the
    logistic loss with ``C = 1 / c``. The dual is that of :class:`~omkl.batch.Problem` with
    :math:`\|A_g^\top \rho\| / \omega_g` in the place of the norms in the kernels.

    Parameters
    ----------
    design : Design
        :func:`~omkl.batch.as_design` makes one of an array, a sparse matrix or a ``LinearOperator``.
    y : array of shape (m,)
    loss : PointwiseLoss
        A smooth one.
    regularizer : Regularizer
        The group lasso, or the elastic net of the group norms.
    C : float > 0
    groups : ColumnGroups, optional
        Every column is a group of its own by default.
    intercept : bool
        Whether there is a constant b, not regularized.

    Raises
    ------
    omkl.exceptions.InputError
        If the loss has a kink, the regularizer selects no groups, or shapes do not agree.
    """

    design: Design
    y: np.ndarray
    loss: PointwiseLoss
    regularizer: Regularizer
    C: float
    groups: ColumnGroups = None  # type: ignore[assignment]
    intercept: bool = True
    #: Slope of the regularizer at zero: a group of dual norm below C times this is not in the model.
    threshold: float = field(init=False, repr=False)

    def __post_init__(self):
        m, n = self.design.shape
        if not np.isfinite(self.loss.curvature):
            raise InputError(f"{self.loss!r} has a kink: on a design matrix use a smooth loss, such as squared-hinge.")
        if not 0 < self.C < np.inf:
            raise InputError(f"C must be a finite number > 0, not {self.C!r}.")
        if np.shape(self.y) != (m,):
            raise InputError(f"The design has {m} rows, but y has shape {np.shape(self.y)}.")
        if self.loss.classifies and self.intercept and len(np.unique(self.y)) < 2:
            raise InputError("y has one class only: with an intercept there is nothing to learn.")
        groups = ColumnGroups(None, n) if self.groups is None else self.groups
        if groups.n_columns != n:
            raise InputError(f"The groups are of {groups.n_columns} columns, but the design has {n}.")
        # frozen: what is derived is set once, here
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "threshold", slope_at_zero(self.regularizer))

    def primal(self, outputs, norms):
        """Value of the primal at predictions (m,), intercept included, and weighted group norms."""
        return float(self.loss.value(self.y, outputs).sum()) + self.C * self.regularizer.value(norms)

    def dual(self, rho, dual_norms):
        r"""Value of the dual at a point of the loss's domain, scaled towards 0 until it is feasible."""
        scale = self.regularizer.dual_scale(dual_norms / self.C)
        conjugate = self.regularizer.conjugate(scale * dual_norms / self.C)
        return -float(self.loss.conjugate(self.y, scale * rho).sum()) - self.C * conjugate, scale

    def dual_point(self, outputs):
        r""":math:`-l'` at predictions: in the loss's domain, and summing to 0 where there is an intercept."""
        rho = -self.loss.gradient(self.y, outputs)
        return self.loss.balanced(self.y, rho) if self.intercept else rho

    def largest_strength(self):
        r""":math:`C_{\max}`: from this C on a constant is optimal. C itself plays no part.

        It is :math:`\max_g \|A_g^\top \rho_0\| / (\omega_g \psi'(0))` with :math:`\rho_0 = -l'` at the best constant.
        """
        outputs = np.zeros(len(self.y))
        rho = self.dual_point(outputs + self.best_intercept(outputs))
        return float(self.groups.dual_norms(self.design.correlations(rho)).max(initial=0.0)) / self.threshold

    def best_intercept(self, outputs):
        """The constant that minimises the loss of ``outputs`` plus it; 0 where the problem has none."""
        return WeightedLoss(self.loss, self.y, np.ones(len(self.y))).best_intercept(outputs) if self.intercept else 0.0


@dataclass
class LinearModel:
    """A sparse linear model: ``A[:, active] @ coefficients + intercept``.

    Attributes
    ----------
    active : int array of shape (k,)
        Columns that are not zero, in increasing order.
    coefficients : array of shape (k,)
    intercept : float
    """

    active: np.ndarray
    coefficients: np.ndarray
    intercept: float = 0.0

    def dense(self, n_columns):
        """All coefficients, (n,)."""
        full = np.zeros(n_columns)
        full[self.active] = self.coefficients
        return full


def certify_linear(problem, model):
    """The duality gap of a linear model over all columns, from the model alone.

    Parameters
    ----------
    problem : DesignProblem
    model : LinearModel

    Returns
    -------
    Certificate
    """
    design = problem.design
    outputs = design.product(model.active, model.coefficients) + model.intercept
    rho = problem.dual_point(outputs)
    dual_norms = problem.groups.dual_norms(design.correlations(rho))
    norms = problem.groups.norms(model.dense(design.shape[1]))
    dual, scale = problem.dual(rho, dual_norms)
    return Certificate(problem.primal(outputs, norms), dual, norms, outputs, scale * rho)


class DesignSolver(Component):
    """A method of solving :class:`DesignProblem`; parameters of the method are its constructor's.

    A string names it wherever one is accepted: ``"dal"``, ``"ist"``, ``"sparsa"``.
    """

    def solve(self, problem, tol=1e-3, max_iter=None, start=None, on_iteration=None):
        """Solve to a relative duality gap of ``tol`` over all columns.

        Parameters
        ----------
        problem : DesignProblem
        tol : float > 0
        max_iter : int, optional
            Iterations at most; by default as many as the method may reasonably need.
        start : LinearModel, optional
            A warm start: the model of a similar problem.
        on_iteration : callable, optional
            Called with each record of the history; a true return value ends the search.

        Returns
        -------
        omkl.batch.Solution
        """
        raise NotImplementedError


def slope_at_zero(regularizer):
    r""":math:`\psi'(0)` of a regularizer that selects groups.

    Raises
    ------
    omkl.exceptions.InputError
        If it selects none.
    """
    if regularizer.separable and regularizer.elastic is not None and regularizer.slope_at_zero > 0:
        return regularizer.slope_at_zero
    raise InputError(
        f"{regularizer!r} selects no groups of columns: use L1, L21 or ElasticNet with mu < 1, or a multiple of one."
    )
