"""Kernel groups on a budget: a support vector that is removed is projected onto the span of the others."""

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import _jit_budget as jit
from omkl.groups import _jit_cholesky as cholesky
from omkl.groups.budget import BudgetedExpansion


class ProjectionExpansion(BudgetedExpansion):
    r"""A budget kept by projection: the part of the support vector that matters least is projected onto the others.

    In every group, :math:`\psi_k(x_i)` is replaced by :math:`\sum_j c_j \psi_k(x_j)` with
    :math:`c = (K + \mathrm{diag}(e))^{-1} k(\cdot, x_i)` over the other support vectors; the jitter is
    :math:`e_j = \sqrt{\epsilon}\, k(x_j, x_j)` with the machine epsilon of the kernels' precision. The Cholesky factor
    of each kernel's matrix is kept current in O(B^2) a change: it takes up to 8 p B^2 bytes, here and in model files,
    and about a millisecond a kernel where B = 1000.

    The average is over all past models, each put through every later projection: like the models themselves, it loses
    only what the span of the support cannot express.

    References
    ----------
    Orabona, Keshet, Caputo: *Bounded kernel-based online learning* (2009), the Projectron; Wang, Crammer, Vucetic:
    *Breaking the curse of kernelization* (2012), section 4.2.
    """

    _factors: np.ndarray
    _jitters: np.ndarray
    _order: np.ndarray
    _n_factored = 0

    def _reserve(self, capacity: int) -> None:
        p, n = len(self.names), self._capacity
        factors, jitters = np.zeros((p, capacity, capacity)), np.zeros((p, capacity))
        order = np.zeros(capacity, dtype=np.int64)  # the support vector at each position of the factors
        if n:
            factors[:, :n, :n], jitters[:, :n], order[:n] = self._factors, self._jitters, self._order
        self._factors, self._jitters, self._order = factors, jitters, order
        super()._reserve(capacity)

    def _arrays(self):
        return [*super()._arrays(), self._factors, self._jitters, self._order]

    def _drop(self, index):
        n, m = self._n_factored, len(self._at_hand)
        position = int(np.flatnonzero(self._order[:n] == index)[0])
        self._order[position : n - 1] = self._order[position + 1 : n]
        others = self._order[: n - 1]
        y, c = np.empty(n - 1), np.empty(n - 1)
        for k in self._used():
            factor = self._factors[k]
            cholesky.remove(factor, n, position, y)
            cholesky.combination(factor, n - 1, y, c)
            jit.replace(self._rows[k], m, index, others, c, self._coefficients[k], self._own[k])
            self.group_state.square_norms[k] += cholesky.spread(
                index, others, c, y, self._diagonals[k, index], self._jitters[k], self._coefficients[k], self._sums[k],
                self.averaging, self._squares[k], self._diagonals[k],
            )  # fmt: skip
        self._n_factored = n - 1

    def _enter(self, t, index):
        others = len(self._at_hand) + self._order[: self._n_factored]
        self._append(index, np.take(self._rows[:, t], others, axis=1))

    def _append(self, index, values):
        """Add a support vector to the factors, given its kernel values with those there, (p, n)."""
        n = self._n_factored
        relative = np.sqrt(np.finfo(self.dtype).eps)
        for k in self._used():
            square = self._diagonals[k, index]
            jitter = relative * square if square > 0.0 else 1.0
            self._jitters[k, index] = cholesky.append(self._factors[k], n, values[k], square, jitter)
        self._order[n] = index
        self._n_factored = n + 1

    def _refresh(self):
        super()._refresh()
        order = self._order[: self._n_factored].copy()
        self._n_factored = 0
        for position, index in enumerate(order.tolist()):
            pairs = {
                view: buffer.pair(slice(index, index + 1), self.n_support) for view, buffer in self._buffers.items()
            }
            values = np.zeros((len(self.names), self.n_support))
            for k in self._used():
                values[k] = self.kernels[k].between(pairs[self.views[k]])[0]
            self._append(index, values[:, order[:position]])

    def state(self) -> dict[str, np.ndarray]:
        n = self.n_support
        return {
            **super().state(),
            "factors": self._factors[:, :n, :n],
            "jitters": self._jitters[:, :n],
            "order": self._order[:n],
        }

    def _load_training(self, state: dict[str, np.ndarray], n: int) -> None:
        super()._load_training(state, n)
        self._factors[:, :n, :n] = state["factors"]
        self._jitters[:, :n] = state["jitters"]
        self._order[:n] = state["order"]
        if not np.array_equal(np.sort(self._order[:n]), np.arange(n)):
            raise InputError("The order of the support vectors of a budget is no order of all of them.")
        self._n_factored = n
