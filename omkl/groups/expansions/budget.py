"""Kernel expansions of at most B support vectors, in constant memory."""

import numpy as np
from numpy.typing import DTypeLike

from omkl.exceptions import InputError
from omkl.groups.expansions import _jit_budget as jit
from omkl.groups.expansions import _jit_cholesky as cholesky
from omkl.groups.expansions._jit_kernel import has_gradient
from omkl.groups.expansions.kernel import KernelBank
from omkl.groups.tokens import Span, products_of
from omkl.kernels import Kernel, SupportBuffer
from omkl.kernels.inputs import row_blocks
from omkl.structures.base import Potentials

#: Initial capacity for support vectors; doubled when full, up to the budget.
FIRST_CAPACITY = 16
#: Norms and factors are recomputed after this many replacements per support vector.
REFRESH_AFTER = 10


class BudgetedExpansion(KernelBank):
    r"""Kernel groups :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]` over at most B support vectors.

    All kernels share the support vectors. When the support is full, a new token replaces the support vector with the
    smallest :math:`\sum_k s_k^2 \|A_k[i, :]\|^2 k_k(x_i, x_i)` (the oldest of equals). The part of that vector is
    projected onto the others: :math:`\psi_k(x_i)` is replaced by :math:`\sum_j c_j \psi_k(x_j)` with
    :math:`c = (K + \mathrm{diag}(e))^{-1} k(\cdot, x_i)`. The jitter is :math:`e_j = \sqrt{\epsilon}\, k(x_j, x_j)`
    with the machine epsilon of ``dtype``. A token that equals a support vector in every kernel is not added again.

    The new token always enters, even where it has the smallest importance. With decaying rates the early support
    vectors then stay; constant rates follow a drifting stream better.

    The budget holds and norms are exact after every token. Arrays grow with the support and the longest sequence. A
    round of m tokens in d dimensions costs O(m B d), and a replacement O(B^2) per kernel, for the update of the
    Cholesky factors. The factors take 8 p B^2 bytes for p kernels, in memory and in model files.

    The average is over all past models, each after the later projections.

    Parameters
    ----------
    names, kernels, views, n_outputs, averaging, dtype
        As for :class:`~omkl.groups.KernelExpansion`.
    budget : int >= 1
        The largest number of support vectors B.

    References
    ----------
    Orabona, Keshet, Caputo: *Bounded kernel-based online learning* (2009), the Projectron; Wang, Crammer, Vucetic:
    *Breaking the curse of kernelization* (2012), section 4.2.
    """

    abilities = frozenset({"grow", "condense"})

    def __init__(
        self,
        names: list[str],
        kernels: list[Kernel],
        views: list[str],
        n_outputs: int,
        budget: int,
        averaging: bool = False,
        dtype: DTypeLike = np.float64,
    ) -> None:
        super().__init__(names, kernels, views, n_outputs, averaging, dtype)
        self.budget = int(budget)
        self.n_support = 0
        self._buffers: dict[str, SupportBuffer] = {}
        self._capacity = 0
        p = self._n_used = len(self.names)
        self._coefficients = np.zeros((p, self.n_outputs, 0))
        self._sums = np.zeros((p, self.n_outputs, 0))
        self._diagonals, self._squares, self._jitters = (np.zeros((p, 0)) for _ in range(3))
        # Upper Cholesky factors of the kernel matrices, and the support vector at each of their positions.
        self._factors, self._order, self._n_factored = np.zeros((p, 0, 0)), np.zeros(0, dtype=np.int64), 0
        self._ages = np.zeros(0, dtype=np.int64)
        self._n_admitted = 0
        self._n_replaced = 0
        self._make_room(1)
        self._reserve(min(FIRST_CAPACITY, self.budget))

    def _make_room(self, m: int) -> None:
        """Buffers for the m tokens at hand."""
        self._at_hand = None
        self._rows = np.zeros((len(self.names), m, m + self._capacity))
        self._own = np.zeros((len(self.names), m, self.n_outputs))
        self._indices = np.zeros(m, dtype=np.int64)

    def _reserve(self, capacity: int) -> None:
        """Make room for this many support vectors."""
        more, self._capacity = capacity - self._capacity, capacity

        def longer(array: np.ndarray, axes: int = 1) -> np.ndarray:
            return np.pad(array, [(0, 0)] * (array.ndim - axes) + [(0, more)] * axes)

        self._coefficients, self._diagonals, self._squares = map(
            longer, (self._coefficients, self._diagonals, self._squares)
        )
        self._ages, self._rows, self._jitters, self._order = map(
            longer, (self._ages, self._rows, self._jitters, self._order)
        )
        self._factors = longer(self._factors, 2)
        if self.averaging:
            self._sums = longer(self._sums)
        for buffer in self._buffers.values():
            buffer.grow(capacity)

    @property
    def supports(self) -> dict[str, np.ndarray]:
        return {view: buffer.vectors(self.n_support) for view, buffer in self._buffers.items()}

    @property
    def coefficients(self) -> np.ndarray:
        return self._coefficients[:, :, : self.n_support].swapaxes(1, 2)

    @property
    def sums(self) -> np.ndarray:
        return self._sums[:, :, : self.n_support].swapaxes(1, 2)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, free places included: constant once the longest sequence has been seen."""
        return sum(array.nbytes for array in self._arrays()) + sum(buffer.nbytes for buffer in self._buffers.values())

    def _arrays(self):
        support = [self._coefficients, self._sums, self._diagonals, self._squares, self._ages]
        return [*support, self._factors, self._jitters, self._order, self._rows, self._own, self._indices]

    def grow_outputs(self, n_outputs: int) -> None:
        more = ((0, 0), (0, n_outputs - self.n_outputs), (0, 0))
        self._coefficients, self._sums = np.pad(self._coefficients, more), np.pad(self._sums, more)
        self.n_outputs = n_outputs
        self._make_room(len(self._indices))

    # ---- a round ------------------------------------------------------------------------------------------------

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        self._take_up(x)
        jit.add_scaled(self.group_state.scales, self._own, len(x), potentials.unary)

    def inner_products(self, x: Span, gradient: Potentials, totals: np.ndarray | None) -> np.ndarray:
        if self._at_hand is not x:
            self._take_up(x)
        return products_of(self._own[:, : len(x)], gradient.unary, totals)

    def _take_up(self, x):
        """Compute the kernel values of the tokens of ``x`` with one another and the support, and their potentials."""
        m = len(x)
        if m > len(self._indices):
            self._make_room(m)
        if not self._buffers:
            self._buffers = {view: self._buffer_of(view, x.tokens.views[view].shape[1]) for view in self.views}
        pairs = {
            view: buffer.stage(x.tokens.views[view][x.low : x.high], self.n_support)
            for view, buffer in self._buffers.items()
        }
        used = self._used()
        if len(used) < self._n_used:
            self._forget_others(used)
        for k in used:
            self._rows[k, :m, : m + self.n_support] = self.kernels[k].between(pairs[self.views[k]])
        jit.score(self._rows, m, self.n_support, self._coefficients, self._own)
        self._indices.fill(-1)
        self._at_hand = x

    def _used(self):
        """Indices of the kernels that are not left out; all arrays of the others are zero."""
        return np.flatnonzero(~self.group_state.left_out).tolist()

    def _forget_others(self, used):
        """Set the arrays of the kernels that are left out to zero."""
        others = np.setdiff1d(np.arange(len(self.names)), used)
        for array in (self._rows, self._own, self._coefficients, self._sums, self._diagonals, self._squares):
            array[others] = 0.0
        self._n_used = len(used)

    def _buffer_of(self, view, n_columns, capacity=None):
        kernels = [kernel for kernel, own_view in zip(self.kernels, self.views) if own_view == view]
        return SupportBuffer(kernels, n_columns, self._capacity if capacity is None else capacity, self.dtype)

    def step(self, x: Span, gradient: Potentials) -> None:
        group_state = self.group_state
        if self._n_replaced >= REFRESH_AFTER * self.budget:
            self._refresh()
        if self._at_hand is not x:
            self._take_up(x)
        moving = has_gradient(gradient.unary)
        alive = jit.measure_gradients(
            self._rows,
            gradient.unary,
            moving,
            group_state.empty,
            group_state.rates,
            group_state.square_norms,
            group_state.square_gradients,
        )
        if alive:
            self._move(gradient.unary, moving, ~group_state.empty)

    def _move(self, gradient, moving, groups):
        """Take the step in some groups, token by token; the tokens become support vectors."""
        group_state, m = self.group_state, len(self._at_hand)
        for t in moving.tolist():
            index = self._indices.item(t)
            if index < 0:
                index = self._indices[t] = jit.find(self._rows, m, t, self.n_support, self._diagonals)
            if index < 0:
                index = self._admit(t)
            jit.move(
                self._rows,
                m,
                t,
                index,
                gradient,
                groups,
                group_state.rates,
                group_state.averages,
                self._diagonals,
                self._coefficients,
                self._sums,
                self.averaging,
                self._squares,
                self._own,
                group_state.square_norms,
            )

    def _admit(self, t):
        """Make token ``t`` a support vector, replacing another if the support is full; return its index."""
        m, index = len(self._at_hand), self.n_support
        if index == self.budget:
            index = jit.weakest(self.group_state.scales, self._squares, self._ages, self.n_support)
            self._drop(index)
            self._n_replaced += 1
        elif index == self._capacity:
            self._reserve(min(2 * index, self.budget))
        for buffer in self._buffers.values():
            buffer.keep(m - t, index)
        jit.place(
            self._rows,
            m,
            t,
            index,
            self._indices,
            self._diagonals,
            self._coefficients,
            self._sums,
            self.averaging,
            self._squares,
        )
        others = m + self._order[: self._n_factored]
        self._append(index, np.take(self._rows[:, t], others, axis=1))
        self.n_support = max(self.n_support, index + 1)
        self._ages[index] = self._n_admitted
        self._n_admitted += 1
        return index

    def _drop(self, index):
        """Project a support vector onto the others, and keep norms and potentials current."""
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
                index,
                others,
                c,
                y,
                self._diagonals[k, index],
                self._jitters[k],
                self._coefficients[k],
                self._sums[k],
                self.averaging,
                self._squares[k],
                self._diagonals[k],
            )
        self._n_factored = n - 1

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

    def _activate(self, x: Span, gradient: Potentials) -> None:
        activated = self.group_state.activated
        self.group_state.square_norms[activated] = 0.0
        if self._at_hand is not x:
            self._take_up(x)
        self._move(gradient.unary, has_gradient(gradient.unary), activated)

    def _scale_group(self, k: int, factor: float) -> None:
        if self.averaging:
            self._sums[k] += self.group_state.averages[k] * self._coefficients[k]
        self._coefficients[k] *= factor
        jit.measure_parts(self.n_support, self._diagonals[k], self._coefficients[k], self._squares[k])
        self._own[k] *= factor

    # ---- norms and averages -------------------------------------------------------------------------------------

    def _refresh(self):
        """Recompute norms and Cholesky factors, which drift by rounding."""
        self.recompute_norms()
        self._n_replaced = 0
        order = self._order[: self._n_factored].copy()
        self._n_factored = 0
        for position, index in enumerate(order.tolist()):
            row = slice(index, index + 1)
            pairs = {view: buffer.pair(row, self.n_support) for view, buffer in self._buffers.items()}
            values = np.zeros((len(self.names), self.n_support))
            for k in self._used():
                values[k] = self.kernels[k].between(pairs[self.views[k]])[0]
            self._append(index, values[:, order[:position]])

    def recompute_norms(self) -> None:
        self.group_state.square_norms[:] = 0.0
        for rows in row_blocks(self.n_support, self.n_support, self.dtype):
            pairs = {view: buffer.pair(rows, self.n_support) for view, buffer in self._buffers.items()}
            for k in self._used():
                scores = self.kernels[k].between(pairs[self.views[k]]).astype(np.float64, copy=False)
                scores = scores @ self.coefficients[k]
                self.group_state.square_norms[k] += np.vdot(self.coefficients[k, rows], scores)

    # ---- state --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays; a bank that loads them continues with the same bits."""
        n = self.n_support
        arrays = {
            "coefficients": self.coefficients,
            "sums": self.sums,
            "diagonals": self._diagonals[:, :n],
            "ages": self._ages[:n],
            "factors": self._factors[:, :n, :n],
            "jitters": self._jitters[:, :n],
            "order": self._order[:n],
            "counts": np.array([self._n_admitted, self._n_replaced]),
        }
        for view, buffer in self._buffers.items():
            arrays[f"support:{view}"], arrays[f"roots:{view}"] = buffer.state(n)
        return arrays

    def condensed(self) -> dict[str, np.ndarray]:
        coefficients = self.averaged_coefficients()
        used = coefficients.any(axis=(0, 2))
        arrays = {"coefficients": coefficients[:, used], "sums": self.sums[:, :0]}
        for view, buffer in self._buffers.items():
            vectors, roots = buffer.state(self.n_support)
            arrays[f"support:{view}"], arrays[f"roots:{view}"] = vectors[used], roots[:, used]
        return arrays

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        supports = {key.partition(":")[2]: array for key, array in state.items() if key.startswith("support:")}
        self.n_support = n = self._check(state, supports)
        if supports:
            self.dtype = next(iter(supports.values())).dtype
        if "ages" in state:
            if n > self._capacity:
                self._reserve(n)
            self._load_training(state, n)
        else:  # of a file that only predicts
            self._coefficients, self.averaging = np.array(state["coefficients"].swapaxes(1, 2)), False
            self._sums = np.zeros((*self._coefficients.shape[:2], 0))
        self._buffers = {}
        for view, vectors in supports.items():
            self._buffers[view] = self._buffer_of(view, vectors.shape[1], max(n, self._capacity))
            self._buffers[view].load_state(vectors, state[f"roots:{view}"])

    def _load_training(self, state: dict[str, np.ndarray], n: int) -> None:
        """Load the arrays of a state that training can resume from."""
        self.coefficients[:] = state["coefficients"]
        self.sums[:] = state["sums"]
        self._diagonals[:, :n] = state["diagonals"]
        self._ages[:n] = state["ages"]
        self._factors[:, :n, :n] = state["factors"]
        self._jitters[:, :n] = state["jitters"]
        self._order[:n], self._n_factored = state["order"], n
        self._n_admitted, self._n_replaced = state["counts"].tolist()
        for k in range(len(self.names)):
            jit.measure_parts(n, self._diagonals[k], self._coefficients[k], self._squares[k])
        self._at_hand = None

    def _check(self, state, supports):
        """Check that the arrays of a state fit this bank; return the number of support vectors."""
        own = {key for key in self.state() if ":" not in key}
        if {key for key in state if ":" not in key} not in (own, {"coefficients", "sums"}):
            raise InputError("The arrays are not those of a kernel expansion on a budget.")
        p, n, n_outputs = state["coefficients"].shape
        if n > self.budget:
            raise InputError(f"The state holds {n} support vectors, more than the budget of {self.budget}.")
        fits = (
            (p, n_outputs) == (len(self.names), self.n_outputs)
            and state["sums"].shape == (p, n if self.averaging and "ages" in state else 0, n_outputs)
            and ("ages" not in state or (state["diagonals"].shape == (p, n) and state["ages"].shape == (n,)))
            and (set(supports) == set(self.views) or n == 0)
            and all(len(vectors) == n for vectors in supports.values())
            and ("order" not in state or np.array_equal(np.sort(state["order"]), np.arange(n)))
            and ("counts" not in state or (np.abs(state["counts"]) < 2**62).all())
        )
        if not fits:
            raise InputError("The arrays of a kernel expansion on a budget do not fit the kernels or each other.")
        return n
