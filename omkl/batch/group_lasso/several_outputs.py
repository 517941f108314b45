r"""Several outputs on one design, with groups shared by all outputs: multi-task and multinomial problems.

.. math:: \min_{W, b}\ \frac{1}{\sum_i s_i} \sum_i s_i\, l\Bigl(y_i, (A W)_i + b\Bigr)
          + \alpha\, \psi(\omega_1 \|W_1\|_F, \ldots, \omega_G \|W_G\|_F)

W has a row for each column of the design, and a column for each of K outputs. The loss is a sum over outputs, or the
loss of multinomial regression. This is a problem with the design :math:`I_K \otimes A`, which is never formed.
Predictions and dual points concatenate the outputs, (K m,); coefficients hold all outputs of a column side by side,
(n K,).
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from omkl.batch.group_lasso.blocks import ColumnGroups
from omkl.batch.group_lasso.matrices import Design
from omkl.batch.group_lasso.problem import DesignProblem, LinearModel
from omkl.batch.stacked_loss import MultinomialLoss, StackedLoss
from omkl.batch.weighted_loss import Unpenalized, WeightedLoss
from omkl.exceptions import InputError
from omkl.losses.base import PointwiseLoss
from omkl.losses.pointwise import Logistic, Squared
from omkl.regularizers.base import Regularizer


class StackedDesign(Design):
    """:math:`I_K \\otimes A` for a design A; all outputs of a column are in the same group."""

    def __init__(self, design: Design, n_outputs: int) -> None:
        super().__init__(design.matrix, design.selective)
        self.single, self.n_outputs = design, n_outputs
        self.shape = design.shape[0] * n_outputs, design.shape[1] * n_outputs
        self.is_sparse = design.is_sparse

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
        of_outputs = [indices % self.n_outputs == k for k in range(self.n_outputs)]
        parts = [self.single.product(indices[own] // self.n_outputs, coefficients[own]) for own in of_outputs]
        return np.concatenate(parts)


@dataclass(frozen=True)
class StackedProblem(DesignProblem):
    """A problem of several outputs, made by :func:`stacked_problem`.

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
                "Problems of several outputs need a loss without kinks, and group norms without an l1 term, got "
                f"{self.loss!r} and {self.regularizer!r}."
            )

    @property
    def n_outputs(self) -> int:
        return len(self.y) // self.single.design.shape[0]

    @property
    def loss_weights(self) -> np.ndarray:
        return np.tile(self.single.loss_weights, self.n_outputs)

    @property
    def unpenalized(self) -> Unpenalized | None:
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
    m, n_outputs = targets.shape
    n_columns = design.shape[1]
    groups = ColumnGroups(None, n_columns) if groups is None else groups
    labels, gauge = groups.spread(np.arange(groups.n_groups)), groups.gauge
    single = DesignProblem(design, np.zeros(m), Squared(), regularizer, alpha, groups, intercept, sample_weight)
    stacked, y = StackedDesign(design, n_outputs), np.asarray(targets, dtype=np.float64).T.ravel()
    groups = ColumnGroups(np.repeat(labels, n_outputs), n_columns * n_outputs, gauge.norm_weights, l1=groups.l1)
    offset = None if offset is None else np.asarray(offset, dtype=np.float64).T.ravel()
    shared = regularizer, alpha, groups, intercept, None, offset
    return StackedProblem(stacked, y, loss or Logistic(), *shared, single=single, multinomial=loss is None)
