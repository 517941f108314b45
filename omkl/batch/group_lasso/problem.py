"""Sparse linear models on a design matrix, and screening of their groups."""

from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import sparse

from omkl._components import check_number
from omkl.batch.group_lasso.blocks import ColumnGroups
from omkl.batch.group_lasso.matrices import Design, StackedDesign
from omkl.batch.problem import BaseProblem, Model
from omkl.batch.weighted_loss import (
    MultinomialLoss,
    PartlyFreeLoss,
    StackedLoss,
    Unpenalized,
    WeightedLoss,
)
from omkl.exceptions import InputError
from omkl.losses.base import PointwiseLoss
from omkl.losses.pointwise import Logistic, Squared
from omkl.regularizers.base import Regularizer
from omkl.regularizers.separable import L21

#: Maximum number of points whose correlations are kept.
MOST_ORIGINS = 3
#: Share of groups that may violate their constraints above which all norms are computed.
MANY = 0.5
#: Largest cosine between columns and :math:`\delta` that guesses assume. For random columns it is
#: of the order of one over the root of the number of samples.
COSINE = 0.15
#: Safety factor of bounds against rounding, in double and in single precision.
SAFETY = {8: 1.0 + 1e-9, 4: 1.0 + 1e-4}


@dataclass
class LinearModel:
    """A sparse linear model: ``A[:, active] @ coefficients + intercept``.

    Attributes
    ----------
    active : int array of shape (k,)
        Columns with nonzero coefficients, in increasing order.
    coefficients : array of shape (k,)
    intercept : float
        For K outputs an array (K,); ``coefficients`` then has the K values of each column side by
        side.
    """

    active: np.ndarray
    coefficients: np.ndarray
    intercept: float | np.ndarray = 0.0

    def dense(self, n_columns: int) -> np.ndarray:
        """Return all coefficients, (n,).

        Parameters
        ----------
        n_columns : int
        """
        full = np.zeros(n_columns)
        full[self.active] = self.coefficients
        return full


@dataclass(frozen=True)
class DesignProblem(BaseProblem[LinearModel]):
    r"""A linear model with a regularizer on the norms of groups of columns.

    .. math:: \min_{w, b}\ \frac{1}{\sum_i s_i} \sum_i s_i\, l\Bigl(y_i, (A w)_i + b\Bigr)
              + \alpha\, \psi(\omega_1 \|w_1\|, \ldots, \omega_G \|w_G\|)

    The loss is a mean, weighted by the sample weights s. The squared loss has the factor 1/2, as in
    scikit-learn's ``Lasso(alpha)``; ``LogisticRegression(C=c)`` with the l1 penalty is the logistic
    loss with ``alpha = 1 / (c * m)``. The dual norms are :math:`\|A_g^\top \rho\| / \omega_g`.

    Parameters
    ----------
    design : Design
        :func:`~omkl.batch.as_design` makes one from an array, a sparse matrix or a
        ``LinearOperator``.
    y : array of shape (m,)
    loss : PointwiseLoss
    regularizer : Regularizer
        A function of the group norms with an exact proximity operator, or of coordinates, such as
        ``L1``, if every column is its own group. Sums of both, such as
        :class:`~omkl.regularizers.SparseGroup`, become ``L21`` on groups with an l1 term in their
        norms.
    alpha : float > 0
        Weight of the regularizer.
    groups : ColumnGroups, optional
        By default every column is a group. Groups of weight 0 are not regularized, except by an l1
        term; without one they need a loss without kinks.
    intercept : bool
        Whether there is a constant b, which is not regularized.
    sample_weight : array of shape (m,), optional
        The :math:`s_i > 0`; all equal by default.
    offset : array of shape (m,), optional
        Added to the predictions, :math:`l(y_i, (A w)_i + b + o_i)`, such as the logarithm of an
        exposure.
    positive : bool
        Whether coefficients of regularized groups must not be negative.

    Raises
    ------
    omkl.exceptions.InputError
        If the regularizer is not a function of group norms, or shapes do not agree.
    """

    design: Design
    y: np.ndarray
    loss: PointwiseLoss
    regularizer: Regularizer
    alpha: float
    groups: ColumnGroups = field(default=None)  # type: ignore[assignment]
    intercept: bool = True
    sample_weight: np.ndarray | None = None
    offset: np.ndarray | None = None
    positive: bool = False
    larger_fits_closer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        m, n = self.design.shape
        check_number("alpha", self.alpha, above=0)
        if np.shape(self.y) != (m,):
            raise InputError(f"The design has {m} rows, but y has shape {np.shape(self.y)}.")
        if self.loss.classifies and self.intercept and np.all(self.y == self.y[0]):
            raise InputError("y has one class only: with an intercept there is nothing to learn.")
        groups = self.groups
        if groups is None:
            groups = ColumnGroups(None, n)  # type: ignore[unreachable]
        if groups.n_columns != n:
            raise InputError(f"The groups have {groups.n_columns} columns, but the design has {n}.")
        regularizer, groups = self._with_l1_in_norms(groups)
        fits = not regularizer.on_coordinates or (regularizer.separable and groups.blocks.single)
        if not (regularizer.exact and fits):
            raise InputError(
                f"{regularizer!r} must be a function of the groups' norms with an exact proximity "
                "operator: leave out groups, or choose another."
            )
        if len(groups.free) and self.loss.has_kink:
            raise InputError(
                f"Groups of weight 0 need a loss without kinks, but {self.loss!r} has one."
            )
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "regularizer", regularizer)

    def _with_l1_in_norms(self, groups: ColumnGroups) -> tuple[Regularizer, ColumnGroups]:
        """Return the regularizer and groups, with l1 penalties as part of the norms of groups.

        A sum of a function of norms and of l1 penalties becomes ``L21`` on norms with an l1 term.
        """
        terms = self.regularizer.terms()
        n_on_coordinates = sum(term.on_coordinates for term in terms)
        if n_on_coordinates in (0, len(terms)):
            positive = self.positive or groups.gauge.positive
            return self.regularizer, groups.reweighed(1.0, groups.l1, positive)
        factor = 0.0
        l1 = 0.0
        for term in terms:
            linear, quadratic = term.elastic or (0.0, np.inf)
            if quadratic > 0:
                raise InputError(
                    f"{self.regularizer!r} cannot combine squared norms with l1 penalties "
                    "of single coefficients."
                )
            if term.on_coordinates:
                l1 += linear
            else:
                factor += linear
        return L21(), groups.reweighed(factor, l1, self.positive)

    @property
    def penalty(self) -> float:  # type: ignore[override]
        return self.alpha

    @property
    def threshold(self) -> float:
        """Slope of the regularizer at zero; groups of dual norms below alpha times it are zero."""
        return self.regularizer.slope_at_zero

    @property
    def loss_weights(self) -> np.ndarray:
        if self.sample_weight is None:
            weights = np.ones(len(self.y))
        else:
            weights = np.asarray(self.sample_weight, np.float64)
        return weights / weights.sum()

    @cached_property
    def unpenalized(self) -> Unpenalized | None:
        """Intercept and columns that are not regularized; None if there are no such columns."""
        if not len(self.groups.free):
            return None
        design = self.single.design
        matrix = design.columns(self.single.free_columns)
        if sparse.issparse(matrix):
            matrix = matrix.toarray()
        if self.intercept:
            matrix = np.hstack([np.ones((design.shape[0], 1)), matrix])
        free = Unpenalized(matrix)
        if free.basis.shape[1] >= design.shape[0]:
            raise InputError("The groups of weight 0 fit any targets.")
        return free

    @property
    def free_columns(self) -> np.ndarray:
        """Indices of the columns that are not regularized, increasing."""
        columns, _ = self.groups.columns_of(self.groups.free)
        return np.sort(columns)

    @property
    def n_outputs(self) -> int:
        """Number of outputs that are learned together."""
        return len(self.y) // self.single.design.shape[0]

    @property
    def single(self) -> "DesignProblem":
        """The problem of one output, with the same design and groups."""
        return self

    @property
    def takes_newton_steps(self) -> bool:
        """True if Newton's method in the dual may replace sweeps."""
        return self.n_outputs == 1 and not len(self.groups.free)

    @property
    def balances(self) -> bool:
        return self.intercept or len(self.groups.free) > 0

    @cached_property
    def weighted_loss(self) -> WeightedLoss:
        loss = self._make_loss()
        if self.unpenalized is not None and self.loss.classifies and loss.are_separated():
            raise InputError(
                "The groups of weight 0 separate the classes: give one of them a weight > 0."
            )
        return loss

    def _make_loss(self) -> WeightedLoss:
        """Return the losses of all samples."""
        if self.unpenalized is None:
            return super().weighted_loss
        return PartlyFreeLoss(
            self.loss, self.y, self.loss_weights, self.offset, free=self.unpenalized
        )

    def dual_norms(self, rho: np.ndarray) -> np.ndarray:
        return self.groups.dual_norms(self.design.correlations(rho))

    def evaluate(self, model: LinearModel) -> tuple[np.ndarray, np.ndarray]:
        outputs = self.design.product(model.active, model.coefficients)
        outputs += np.repeat(model.intercept, len(outputs) // np.size(model.intercept))
        return self.groups.norms(model.dense(self.design.shape[1])), outputs

    def at(self, value: float) -> "DesignProblem":
        check_number("alpha", value, above=0)
        problem = copy(self)  # cached properties do not depend on alpha
        object.__setattr__(problem, "alpha", value)
        return problem

    def path_values(self, count: int, decades: float) -> np.ndarray:
        largest = self.largest_alpha()
        if not largest > 0:
            raise InputError(
                "No column is correlated with y, so none is in the model at any alpha: "
                "give values of alpha."
            )
        return np.geomspace(1.0, 10.0**-decades, count) * largest

    def largest_alpha(self) -> float:
        r"""Return :math:`\alpha_{\max}`, the least alpha at which a constant is optimal.

        ``self.alpha`` is not used. The value is :math:`\max_g \|A_g^\top \rho_0\| / (\omega_g
        \psi'(0))` with the dual point :math:`\rho_0` of the best constant.

        Raises
        ------
        omkl.exceptions.InputError
            If the regularizer keeps every group in the model at any alpha.
        """
        if not self.threshold > 0:
            raise InputError(
                f"{self.regularizer!r} keeps all columns in the model at any alpha: "
                "give values of alpha."
            )
        _, rho = self.best_constant()
        return float(self.dual_norms(rho).max(initial=0.0)) / self.threshold


@dataclass(frozen=True)
class StackedProblem(DesignProblem):
    r"""A problem of several outputs with shared groups: multi-task or multinomial.

    :func:`stacked_problem` makes one.

    .. math:: \min_{W, b}\ \frac{1}{\sum_i s_i} \sum_i s_i\, l\Bigl(y_i, (A W)_i + b\Bigr)
              + \alpha\, \psi(\omega_1 \|W_1\|_F, \ldots, \omega_G \|W_G\|_F)

    W has a row for each column of the design, and a column for each of K outputs. The loss is a sum
    over outputs, or the loss of multinomial regression. This is a problem with the design
    :math:`I_K \otimes A`, which is never formed. Predictions and dual points concatenate the
    outputs, (K m,); coefficients hold all outputs of a column side by side, (n K,).

    Attributes
    ----------
    single : DesignProblem
        The problem of one output, with its design, groups and unpenalized part.
    multinomial : bool
        Whether the loss is the loss of multinomial regression.
    """

    single: DesignProblem = field(default=None)  # type: ignore[assignment]
    multinomial: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss.has_kink or not self.groups.gauge.is_euclidean:
            raise InputError(
                "Problems of several outputs need a loss without kinks, and group norms without "
                f"an l1 term, got {self.loss!r} and {self.regularizer!r}."
            )

    @property
    def loss_weights(self) -> np.ndarray:
        return np.tile(self.single.loss_weights, self.n_outputs)

    def _make_loss(self) -> WeightedLoss:
        free = self.unpenalized
        samples = (self.loss, self.y, self.loss_weights, self.offset)
        if not self.multinomial:
            return StackedLoss(*samples, free, n_outputs=self.n_outputs)
        if free is None:
            n_samples = self.single.design.shape[0]
            free = Unpenalized(np.ones((n_samples, int(self.intercept))))
        return MultinomialLoss(*samples, free=free, n_outputs=self.n_outputs)


def stacked_problem(
    design: Design,
    targets: np.ndarray,
    loss: PointwiseLoss | None,
    regularizer: Regularizer,
    alpha: float,
    groups: ColumnGroups | None = None,
    intercept: bool = True,
    sample_weight: np.ndarray | None = None,
    offset: np.ndarray | None = None,
) -> StackedProblem:
    """Return the problem of several outputs on one design.

    Parameters
    ----------
    design, regularizer, alpha, groups, intercept, sample_weight
        As for :class:`DesignProblem`; a group is active for all outputs, or for none.
    targets : array of shape (m, K)
        For multinomial regression: 1 for the class of the sample, else 0.
    loss : PointwiseLoss or None
        None for multinomial regression, :math:`\\log \\sum_k e^{z_{ik}} - z_{i y_i}`.
    offset : array of shape (m, K), optional

    Raises
    ------
    omkl.exceptions.InputError
        If the loss has kinks, or the norms have an l1 term.
    """
    n_samples, n_outputs = targets.shape
    if groups is None:
        groups = ColumnGroups(None, design.shape[1])
    single = DesignProblem(
        design, np.zeros(n_samples), Squared(), regularizer, alpha, groups, intercept, sample_weight
    )
    labels = np.repeat(groups.spread(np.arange(groups.n_groups)), n_outputs)
    stacked_groups = ColumnGroups(labels, len(labels), groups.gauge.norm_weights, l1=groups.l1)
    if offset is not None:
        offset = np.asarray(offset, dtype=np.float64).T.ravel()
    return StackedProblem(
        design=StackedDesign(design, n_outputs),
        y=np.asarray(targets, dtype=np.float64).T.ravel(),
        loss=loss or Logistic(),
        regularizer=regularizer,
        alpha=alpha,
        groups=stacked_groups,
        intercept=intercept,
        offset=offset,
        single=single,
        multinomial=loss is None,
    )


def check_start(model: Model, problem: DesignProblem) -> None:
    """Raise an InputError unless a start is a model of the columns of the problem.

    Parameters
    ----------
    model : Expansion or LinearModel
    problem : DesignProblem
    """
    n_columns = problem.design.shape[1]
    if not isinstance(model, LinearModel) or model.active.max(initial=0) >= n_columns:
        raise InputError(
            f"start must be a LinearModel of the design's {n_columns} columns, "
            "or a solution's start."
        )


@dataclass
class NormsNear:
    """Dual norms of all groups at a combination of earlier dual points that is close to another.

    Attributes
    ----------
    rho : array of shape (m,)
        The other dual point.
    norms : array of shape (g,)
        Norms at the combination.
    distance, rounding : float
        The distance of the combination to ``rho``, and its rounding.
    """

    rho: np.ndarray
    norms: np.ndarray
    distance: float
    rounding: float


class DesignNorms:
    r"""Dual norms of all groups at the dual points of a search, or bounds to screen groups.

    Correlations at a few known points :math:`\rho_1, \ldots, \rho_K` give bounds at any other
    point. With :math:`\rho = \sum_k \beta_k \rho_k + \delta` and :math:`\delta` orthogonal to all
    :math:`\rho_k`

    .. math:: \|A_g^\top \rho\| \le \Bigl\|\sum_k \beta_k A_g^\top \rho_k\Bigr\|
              + \|A_g\|_F\, \|\delta\|.

    On a path, solutions follow nearly straight lines, so :math:`\delta` is small. The certificate
    does not need the norm of a group whose bound satisfies the dual constraint.

    Parameters
    ----------
    problem : DesignProblem

    Attributes
    ----------
    passes : float
        Number of column products so far, divided by the number of columns.
    """

    def __init__(self, problem: DesignProblem) -> None:
        self._problem = problem
        self.passes = 0.0
        #: The known dual points, and the correlations of all columns with them.
        self._origins: list[np.ndarray] = []
        self._at_origins: list[np.ndarray] = []
        #: Norms of the groups' columns, (g,).
        self._reaches: np.ndarray | None = None
        #: Norms near the last dual point.
        self._near: NormsNear | None = None

    def of(self, problem: DesignProblem) -> "DesignNorms":
        """Return these norms for another problem with the same design and groups."""
        norms = copy(self)  # its lists are replaced, not changed
        norms._problem = problem
        norms.passes = 0.0
        return norms

    def likely(
        self,
        rho: np.ndarray,
        alpha: float,
        groups: np.ndarray,
        norms: np.ndarray,
        cosine: float = COSINE,
    ) -> np.ndarray | None:
        """Return norms of all groups, (g,), with guesses for groups that hardly matter.

        These are groups that are unlikely to violate the constraint at ``alpha``. The other norms
        are exact. Return None if there are no earlier dual points, or if most groups may violate
        the constraint. ``groups`` and ``norms`` are those of :meth:`at`. Guesses are bounds for a
        ``cosine`` of 1.
        """
        problem = self._problem
        if self._reaches is None or len(groups) == problem.groups.n_groups:
            return None
        bounds = self._bounds(rho, cosine, self._reaches)
        bounds[groups] = 0.0
        doubtful = np.flatnonzero(bounds > alpha * problem.threshold)
        if len(doubtful) > MANY * (len(bounds) - len(groups)):
            return None
        columns, blocks = problem.groups.columns_of(doubtful)
        self.passes += len(columns) / problem.design.shape[1]
        gauge = problem.groups.gauge.of(doubtful, blocks)
        bounds[doubtful] = gauge.dual_norms(problem.design.some_correlations(columns, rho))
        bounds[groups] = norms
        return bounds

    def at(self, rho: np.ndarray, groups: np.ndarray, norms: np.ndarray) -> np.ndarray:
        """Return norms of all groups, (g,), exact for those that violate the constraint, or bounds.

        Parameters
        ----------
        rho : array of shape (m,)
        groups, norms : arrays of shape (k,)
            Groups with known norms, and these norms.
        """
        bounds = self.likely(rho, self._problem.alpha, groups, norms, cosine=1.0)
        if bounds is not None:
            return bounds
        if len(groups) == self._problem.groups.n_groups:
            norms_of_all = np.empty(len(groups))
        else:
            norms_of_all = self._compute(rho)
        norms_of_all[groups] = norms
        return norms_of_all

    def _bounds(self, rho: np.ndarray, cosine: float, reaches: np.ndarray) -> np.ndarray:
        """Return bounds of all norms, valid if no column has a larger cosine with the distance."""
        if self._near is None or self._near.rho is not rho:
            self._near = self._norms_near(rho)
        near = self._near
        return near.norms + (cosine * near.distance + near.rounding) * reaches

    def _norms_near(self, rho: np.ndarray) -> NormsNear:
        """Return the norms at the closest combination of earlier points, with room for rounding."""
        origins = np.array(self._origins).T
        # any shares give a bound; the ridge avoids large shares of nearly equal points, which
        # would fit rounding
        products = origins.T @ origins
        products[np.diag_indices_from(products)] *= 1.0 + 1e-10
        shares = np.linalg.solve(products, origins.T @ rho)
        distance = float(np.linalg.norm(rho - origins @ shares))
        size = float(np.abs(shares) @ np.linalg.norm(origins, axis=0))
        safety = SAFETY[self._problem.design.matrix.dtype.itemsize]
        norms = self._problem.groups.dual_norms(shares @ np.array(self._at_origins))
        return NormsNear(
            rho=rho,
            norms=safety * norms,
            distance=safety * distance,
            rounding=(safety - 1.0) * size,
        )

    def _compute(self, rho: np.ndarray) -> np.ndarray:
        """Compute all norms in one pass over the design."""
        groups = self._problem.groups
        design = self._problem.design
        self.passes += 1.0
        if not design.selective or not rho.any():
            return groups.dual_norms(design.correlations(rho))
        if self._reaches is None:
            correlations, column_norms = design.correlations_and_norms(rho)
            self._reaches = groups.dual_norms(column_norms)
        else:
            correlations = design.correlations(rho)
        self._near = None
        self._origins = [*self._origins, rho][-MOST_ORIGINS:]
        self._at_origins = [*self._at_origins, correlations][-MOST_ORIGINS:]
        return groups.dual_norms(correlations)
