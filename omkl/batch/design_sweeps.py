"""Rounds of coordinate descent on a panel: they find the support for little, where Newton's method would factor it."""

import numpy as np
from scipy import sparse

from omkl.batch._jit_sweeps import dense_bends, sparse_bends, sweep_dense, sweep_sparse
from omkl.batch.design_problem import loss_curvature, slope_at_zero

#: Sweeps over the active groups that follow one over all of them, while they gain this share of what it did.
MOST_SWEEPS, WORTH = 5, 0.02


class Sweeps:
    r"""Coordinate descent on a quadratic model of the loss, group by group.

    A round takes the loss's second derivatives h at the present predictions, sweeps once over all groups and then over
    the active ones. A group's step is the proximity operator of the regularizer at :math:`w_g + B_g^\top \rho / h_g`,
    with :math:`h_g` the trace of :math:`B_g^\top \mathrm{diag}(h) B_g`, and :math:`\rho` the model's dual point, which
    every step keeps up to date.

    Parameters
    ----------
    problem : DesignProblem
    panel : Panel
    """

    def __init__(self, problem, panel):
        self._problem, self._blocks = problem, panel.blocks
        self._starts = np.append(panel.blocks.starts, len(panel.columns))
        self._groups = np.arange(len(panel.groups))
        regularizer, C = problem.regularizer, problem.C
        self._penalty = C * slope_at_zero(regularizer), C * ridge_of(regularizer)
        if sparse.issparse(panel.matrix):
            self._matrix = panel.matrix.data, panel.matrix.indices, panel.matrix.indptr
            self._bends_of, self._sweep = sparse_bends, sweep_sparse
        else:
            self._matrix = (panel.matrix.T,)
            self._bends_of, self._sweep = dense_bends, sweep_dense
        self._curvature = None

    def round(self, w, outputs):
        """Coefficients (k,) after a round from those given, which predict ``outputs`` (m,)."""
        loss, y = self._problem.loss, self._problem.y
        w, rho = w.copy(), -loss.gradient(y, outputs)
        curvature = loss_curvature(loss, y, rho)
        if self._curvature is None or not np.array_equal(curvature, self._curvature):
            self._curvature, self._bends = curvature, self._bends_of(*self._matrix, self._starts, curvature)
        groups, first = self._groups, None
        for _ in range(MOST_SWEEPS):
            gained = self._sweep(*self._matrix, self._starts, groups, curvature, self._bends, *self._penalty, w, rho)
            if self._problem.intercept and curvature.any():
                rho -= curvature * (rho.sum() / curvature.sum())
            first = gained if first is None else first
            if gained <= WORTH * first:
                break
            groups = np.flatnonzero(self._blocks.norms(w))
        return w


def ridge_of(regularizer):
    """Curvature of a regularizer that selects groups: its proximity operator has the slope ``1 / (1 + ridge)``."""
    return float(1.0 / regularizer.prox_slope(np.full(1, 1e300), 1.0)[0] - 1.0)
