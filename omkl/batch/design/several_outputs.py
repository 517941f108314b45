r"""Several outputs on one design, whose groups are chosen for all of them: multi-task and multinomial problems.

.. math:: \min_{W, b}\ \frac{1}{\sum_i s_i} \sum_i s_i\, l\Bigl(y_i, (A W)_i + b\Bigr)
          + \alpha\, \psi(\omega_1 \|W_1\|_F, \ldots, \omega_G \|W_G\|_F)

with a row of W for each column of the design, one column for each of K outputs, and a loss that is a sum over
outputs, or that of multinomial regression. It is a problem with the design :math:`I_K \otimes A`, which is never
made: predictions and dual points hold one output after the other, (K m,), and coefficients all outputs of a column
side by side, (n K,).
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from omkl.batch.core.problem import WeightedLoss
from omkl.batch.core.stacked_loss import MultinomialHessian, MultinomialLoss, StackedLoss
from omkl.batch.core.unpenalized import Unpenalized
from omkl.batch.design._jit_outputs import sweep_outputs_dense, sweep_outputs_sparse
from omkl.batch.design.blocks import Blocks, ColumnGroups
from omkl.batch.design.matrices import Design
from omkl.batch.design.problem import DesignProblem, LinearModel
from omkl.batch.design.sweeps import Sweeps
from omkl.batch.design.working_set import WorkingSet
from omkl.exceptions import InputError
from omkl.losses import Logistic, PointwiseLoss, Squared
from omkl.regularizers import Regularizer

#: Sweeps of a round before a Newton step, where the loss couples outputs; how well that is solved for, by so many
#: products at most; its halvings.
SWEEPS_PER_STEP, CLOSE, MOST_PRODUCTS, HALVINGS = 2, 1e-2, 50, 3


class StackedDesign(Design):
    """:math:`I_K \\otimes A` for a design A; groups never part the outputs of a column."""

    def __init__(self, design: Design, n_outputs: int) -> None:
        super().__init__(design.matrix)
        self.single, self.n_outputs = design, n_outputs
        self.shape = design.shape[0] * n_outputs, design.shape[1] * n_outputs
        self.selective, self.is_sparse = design.selective, design.is_sparse

    def correlations(self, rho: np.ndarray) -> np.ndarray:
        return self.single.correlations_of_all(rho.reshape(self.n_outputs, -1)).ravel()

    def some_correlations(self, indices: np.ndarray, rho: np.ndarray) -> np.ndarray:
        columns = indices[:: self.n_outputs] // self.n_outputs
        own = [self.single.some_correlations(columns, part) for part in rho.reshape(self.n_outputs, -1)]
        return np.column_stack(own).ravel()

    def correlations_and_norms(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        norms = self.single.correlations_and_norms(rho[: self.single.shape[0]])[1]
        return self.correlations(rho), np.repeat(norms, self.n_outputs)

    def product(self, indices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        parts = indices % self.n_outputs
        return np.concatenate([
            self.single.product(indices[parts == k] // self.n_outputs, coefficients[parts == k])
            for k in range(self.n_outputs)
        ])  # fmt: skip


@dataclass(frozen=True)
class StackedProblem(DesignProblem):
    """A problem of several outputs; :func:`stacked_problem` makes one.

    Attributes
    ----------
    single : DesignProblem
        The design, its groups and what is not regularized, for one output.
    multinomial : bool
        Whether the loss is that of multinomial regression.
    """

    single: DesignProblem = field(default=None)  # type: ignore[assignment]
    multinomial: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups.mixed is not None:
            raise InputError(
                "Problems of several outputs have group norms alone: leave out positive, and weights of single"
                " coefficients."
            )
        if self.loss.has_kink:
            raise InputError(f"Problems of several outputs need a loss without kinks, which {self.loss!r} is not.")

    @property
    def n_outputs(self) -> int:
        return len(self.y) // self.single.design.shape[0]

    @property
    def loss_weights(self) -> np.ndarray:
        return np.tile(self.single.loss_weights, self.n_outputs)

    @property
    def unpenalized(self) -> Unpenalized | None:  # type: ignore[override]
        return self.single.unpenalized

    @property
    def takes_newton_steps(self) -> bool:
        return False

    @cached_property
    def weighted_loss(self) -> WeightedLoss:
        free, n_samples = self.unpenalized, self.single.design.shape[0]
        if not self.multinomial:
            return StackedLoss(self.loss, self.y, self.loss_weights, self.n_outputs, self.offset, free)
        free = Unpenalized(np.ones((n_samples, int(self.intercept)))) if free is None else free
        return MultinomialLoss(self.y, self.loss_weights, self.n_outputs, self.offset, free)

    def evaluate(self, model: LinearModel) -> tuple[np.ndarray, np.ndarray]:
        outputs = self.design.product(model.active, model.coefficients)
        outputs += np.repeat(model.intercept, len(outputs) // np.size(model.intercept))
        return self.groups.norms(model.dense(self.design.shape[1])), outputs


def stacked_problem(
    design: Design, targets: np.ndarray, loss: PointwiseLoss | None, regularizer: Regularizer, alpha: float,
    groups: ColumnGroups | None = None, intercept: bool = True, sample_weight: np.ndarray | None = None,
    offset: np.ndarray | None = None,
) -> StackedProblem:  # fmt: skip
    """The problem of several outputs on one design.

    Parameters
    ----------
    design, regularizer, alpha, groups, intercept, sample_weight
        As for :class:`DesignProblem`; a group is in the model with all outputs, or with none.
    targets : array of shape (m, K)
        With the loss of multinomial regression 1 where a sample is of the class, else 0.
    loss : PointwiseLoss or None
        None is that of multinomial regression, :math:`\\log \\sum_k e^{z_{ik}} - z_{i y_i}`.
    offset : array of shape (m, K), optional

    Raises
    ------
    omkl.exceptions.InputError
        If the loss has kinks, or coefficients weigh by themselves.
    """
    m, n_outputs = targets.shape
    n_columns = design.shape[1]
    groups = ColumnGroups(None, n_columns) if groups is None else groups
    if groups.mixed is not None:
        raise InputError("Groups of several outputs weigh their norms alone.")
    single = DesignProblem(design, np.zeros(m), Squared(), regularizer, alpha, groups, intercept, sample_weight)
    labels = np.empty(n_columns, dtype=np.int64)
    labels[slice(None) if groups.order is None else groups.order] = np.repeat(
        np.arange(groups.n_groups), groups.blocks.sizes
    )
    return StackedProblem(
        StackedDesign(design, n_outputs), np.asarray(targets, dtype=np.float64).T.ravel(),
        Logistic() if loss is None else loss, regularizer, alpha,
        ColumnGroups(np.repeat(labels, n_outputs), n_columns * n_outputs, groups.weights), intercept, None,
        None if offset is None else np.asarray(offset, dtype=np.float64).T.ravel(), single=single,
        multinomial=loss is None,
    )  # fmt: skip


class StackedWorkingSet(WorkingSet):
    """The working set of a problem of several outputs: columns of the design, as for a single one."""

    def __init__(self, problem: StackedProblem) -> None:
        super().__init__(problem)
        self.single, self._n_outputs = WorkingSet(problem.single), problem.n_outputs
        self.matrix, self.eigenbases, self.products = self.single.matrix, self.single.eigenbases, self.single.products

    def extend(self, groups: np.ndarray) -> None:
        self.single.extend(groups)
        self.matrix, self.groups = self.single.matrix, self.single.groups
        self.blocks = Blocks(self.single.blocks.sizes * self._n_outputs)
        outputs = np.arange(self._n_outputs)
        self.columns = (self.single.columns[:, None] * self._n_outputs + outputs).ravel()

    def _by_output(self, w: np.ndarray) -> np.ndarray:
        return w.reshape(-1, self._n_outputs)

    def outputs(self, w: np.ndarray) -> np.ndarray:
        by_output = self._by_output(w)
        support = np.flatnonzero(by_output.any(axis=1))
        return (self.matrix[:, support] @ by_output[support]).T.ravel()

    def correlations(self, points: np.ndarray) -> np.ndarray:
        own = points.reshape(len(points) * self._n_outputs, -1) @ self.matrix
        return np.asarray(own).reshape(len(points), self._n_outputs, -1).transpose(0, 2, 1).reshape(len(points), -1)

    def scaled(self, coefficients: np.ndarray) -> np.ndarray:
        return np.apply_along_axis(self.single.scaled, 0, self._by_output(coefficients)).ravel()

    def gram(self, active: np.ndarray, weights: np.ndarray, columns: Any) -> np.ndarray:
        return self.single.gram(active, weights, columns)

    def unscaled(self, correlations: np.ndarray) -> np.ndarray:
        return np.apply_along_axis(self.single.unscaled, 0, self._by_output(correlations)).ravel()

    def model(self, w: np.ndarray, b: Any) -> LinearModel:
        m, n_outputs = self._problem.y.size // self._n_outputs, self._n_outputs
        values = np.broadcast_to(b, m * n_outputs).reshape(n_outputs, m)
        values = values if self._problem.unpenalized is not None else values[:, 0]
        models = [self.single.model(own, value) for own, value in zip(self._by_output(w).T, values)]
        active = np.concatenate([model.active * n_outputs + k for k, model in enumerate(models)])
        coefficients = np.concatenate([model.coefficients for model in models])
        order = np.argsort(active)
        return LinearModel(active[order], coefficients[order], np.array([model.intercept for model in models]))


class StackedSweeps(Sweeps):
    """Sweeps over groups with all their outputs.

    Steps rest on bounds of the curvature that the outputs of a sample share. Where the loss couples outputs, the
    residual follows its Hessian all the same, and so a round still ends at the minimum of the quadratic model.
    """

    _hessian: Any = None

    def _bind(self) -> None:
        working_set: Any = self._working_set
        matrix, single = working_set.matrix, working_set.single
        self._starts = np.append(single.blocks.starts, len(single.columns))
        is_sparse = sparse.issparse(matrix)
        self._matrix = (matrix.data, matrix.indices, matrix.indptr) if is_sparse else (matrix.T,)
        self._sweep = sweep_outputs_sparse if is_sparse else sweep_outputs_dense
        self._weights = np.empty((0, 0)), np.empty(0), 0.0, *self._penalty

    def _curvature(self, rho: np.ndarray) -> np.ndarray:
        shared = super()._curvature(rho).reshape(self._problem.n_outputs, -1).max(axis=0)
        loss: Any = self._problem.weighted_loss
        if loss.couples_outputs:
            self._hessian, self._is_diagonal = loss.hessian(rho, self.damping), False
            self._weights = self._hessian.shares, self._hessian.weights, self.damping, *self._penalty
        return np.tile(shared, self._problem.n_outputs)

    def _arrays(self, w: np.ndarray, rho: np.ndarray, curvature: np.ndarray) -> tuple[np.ndarray, ...]:
        n_outputs = self._problem.n_outputs
        return w.reshape(-1, n_outputs), rho.reshape(n_outputs, -1), curvature[: len(rho) // n_outputs]

    def _balanced(self, rho: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        if self._hessian is not None:
            return self._hessian.balance(rho)
        by_output, own = rho.reshape(self._problem.n_outputs, -1), curvature[: len(rho) // self._problem.n_outputs]
        if self._problem.unpenalized is not None:
            return self._problem.unpenalized.balance(by_output.T, own).T.ravel()
        if self._problem.intercept and own.any():
            by_output = by_output - own * (by_output.sum(axis=1, keepdims=True) / own.sum())
        return by_output.ravel()

    def _bases(self, groups: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        *bases, _ = super()._bases(groups, weights)
        self._decompose(groups, weights)
        return tuple(bases)

    def _price(self, groups: np.ndarray) -> float:
        return SWEEPS_PER_STEP if self._hessian is not None else super()._price(groups)

    def _solve_groups(self, groups: np.ndarray, w: np.ndarray, rho: np.ndarray, curvature: np.ndarray) -> None:
        if self._hessian is None or not len(groups):
            return super()._solve_groups(groups, w, rho, curvature)
        n_outputs, sizes = self._problem.n_outputs, np.diff(self._starts)
        indices = np.flatnonzero(np.repeat(np.isin(self._groups, groups), sizes))
        by_output = w.reshape(-1, n_outputs)
        model = CoupledModel(self._working_set.matrix[:, indices], self._hessian, rho, *self._penalty)
        by_output[indices] += model.newton_step(by_output[indices].ravel(), Blocks(sizes[groups] * n_outputs))
        return None


class CoupledModel:
    """A quadratic model over some columns, with a loss that couples the outputs.

    Parameters
    ----------
    columns : array (m, a), or CSC matrix
    hessian : MultinomialHessian
    rho : array of shape (K m,)
        The residual, where what is not regularized is best.
    slope, ridge : float
        Weights of the norms of the groups, and of half their squares.
    """

    def __init__(self, columns: Any, hessian: MultinomialHessian, rho: np.ndarray, slope: float, ridge: float) -> None:
        self._columns, self._hessian, self._slope, self._ridge = columns, hessian, slope, ridge
        self._correlations = self._with_columns(rho)

    def _with_columns(self, rho: np.ndarray) -> np.ndarray:
        """Correlations with a residual (K m,), (a K,)."""
        return (self._columns.T @ rho.reshape(len(self._hessian.shares), -1).T).ravel()

    def _curved(self, w: np.ndarray) -> np.ndarray:
        """The second derivatives times a vector (a K,)."""
        outputs = (self._columns @ w.reshape(-1, len(self._hessian.shares))).T.ravel()
        return self._with_columns(self._hessian.balance(self._hessian @ outputs))

    def newton_step(self, w: np.ndarray, blocks: Blocks) -> np.ndarray:
        """Newton's step from coefficients (a K,) of groups that are not zero, by conjugate gradients, (a, K).

        Groups that it would lead past zero are zero then. It is 0 where it gains nothing.
        """
        norms = blocks.norms(w)
        unit, across = w / blocks.spread(norms), blocks.spread(self._slope / norms)

        def times(v: np.ndarray) -> np.ndarray:
            # across its ray the norm of a group is curved
            return self._curved(v) + (self._ridge + across) * v - across * unit * blocks.spread(blocks.sums(unit * v))

        squares = self._columns.multiply(self._columns) if sparse.issparse(self._columns) else self._columns**2
        diagonal = (squares.T @ self._hessian.diagonal.T).ravel() + self._ridge + across * (1.0 - unit**2)
        inverse = 1.0 / np.maximum(diagonal, 1e-12 * diagonal.max())
        shape = (len(w), len(w))
        right = self._correlations - self._ridge * w - self._slope * unit
        system, inverses = LinearOperator(shape, times, dtype=float), LinearOperator(shape, lambda v: inverse * v)
        step, _ = cg(system, right, rtol=CLOSE, maxiter=MOST_PRODUCTS, M=inverses)
        for _ in range(HALVINGS):
            after = np.where(blocks.spread(blocks.sums(w * (w + step))) > 0, w + step, 0.0)
            moves, after_norms = after - w, blocks.norms(after)
            change = self._slope * (after_norms - norms).sum() + 0.5 * self._ridge * (after_norms**2 - norms**2).sum()
            if change + 0.5 * moves @ self._curved(moves) < moves @ self._correlations:
                return moves.reshape(-1, len(self._hessian.shares))
            step *= 0.5
        return np.zeros((self._columns.shape[1], len(self._hessian.shares)))


def working_set_of(problem: Any) -> Any:
    """An empty working set of the problem."""
    return WorkingSet(problem) if problem.n_outputs == 1 else StackedWorkingSet(problem)


def sweeps_on(problem: Any, working_set: Any, worth: float) -> Sweeps:
    """Sweeps of the problem on its working set."""
    return (Sweeps if problem.n_outputs == 1 else StackedSweeps)(problem, working_set, worth)
