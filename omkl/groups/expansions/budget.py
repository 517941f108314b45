"""Kernel expansions of at most B support vectors, in constant memory."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omkl.groups._jit_banks import Kernels
from omkl.groups.base import lengthened
from omkl.groups.expansions import _jit_budget as jit
from omkl.groups.expansions.kernel import KernelBank, SupportBuffer, support_of
from omkl.groups.tokens import Span, Tokens
from omkl.kernels.base import Kernel
from omkl.structures.base import Potentials

#: Initial capacity for support vectors; doubled when full, up to the budget.
FIRST_CAPACITY = 16
#: Norms are recomputed after this many replacements per support vector.
REFRESH_AFTER = 10
#: Maximum number of tokens whose kernel values are computed at once for a compiled pass.
ROWS_AT_ONCE = 128


class BudgetedExpansion(KernelBank):
    r"""Kernel groups :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]` over at most B support vectors.

    All kernels share the support vectors. When the support is full, a new token replaces the support vector with the
    smallest :math:`\sum_k s_k^2 \|A_k[i, :]\|^2 k_k(x_i, x_i)` (the oldest in a tie). The part of this vector is
    projected onto the others: :math:`\psi_k(x_i)` is replaced by :math:`\sum_j c_j \psi_k(x_j)` with
    :math:`c = (K + \mathrm{diag}(e))^{-1} k(\cdot, x_i)`. The jitter is :math:`e_j = \sqrt{\epsilon}\, k(x_j, x_j)`
    with the machine epsilon of ``dtype``. A token that equals a support vector in every kernel is not added again.

    The new token always enters, even if it has the smallest importance. With decaying rates the early support vectors
    then stay; constant rates follow a drifting stream better.

    The size limit holds and norms are exact after every token. Arrays grow with the support. A round of m tokens in d
    dimensions costs O(m B d), and a replacement O(B^2) per kernel, to update the Cholesky factors. The factors take
    8 p B^2 bytes for p kernels, in memory and in model files.

    The average is over all past models, after all later projections.

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

    abilities = frozenset({"grow", "condense", "watch"})
    #: Values of other kernels may depend on the tokens that are computed with them.
    compiled = property(lambda self: "kernels" if all(kernel.entrywise for kernel in self.kernels) else None)
    n_support = property(lambda self: self._counts.item(0))
    _moves_norms = True

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
        self._buffers: dict[str, SupportBuffer] = {}
        p = len(self.names)
        self._coefficients, self._sums = np.zeros((2, p, self.n_outputs, 0))
        self._diagonals, self._squares, self._jitters = np.zeros((3, p, 0))
        # upper Cholesky factors of the kernel matrices, and the support vector at each of their positions
        self._factors, self._order = np.zeros((p, 0, 0)), np.zeros(0, dtype=np.int64)
        self._ages = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros(3, dtype=np.int64)
        self.forget_input()
        self._reserve(min(FIRST_CAPACITY, self.budget))

    def forget_input(self) -> None:
        #: The latest input, its arrays, and its kernel values and potentials, which steps keep up to date.
        self._taken_up: tuple[Span, Kernels, np.ndarray, np.ndarray] | None = None

    def _reserve(self, capacity: int) -> None:
        """Allocate space for this many support vectors."""
        more, self._capacity = capacity - self._ages.size, capacity
        vectors = self._coefficients, self._diagonals, self._squares, self._jitters, self._ages, self._order
        self._coefficients, self._diagonals, self._squares, self._jitters, self._ages, self._order = (
            lengthened(array, capacity, axis=-1) for array in vectors
        )
        self._factors = lengthened(lengthened(self._factors, capacity, axis=1), capacity, axis=2)
        if self.averaging:
            self._sums = lengthened(self._sums, capacity, axis=2)
        for buffer in self._buffers.values():
            buffer.pad(0, more)

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
        """Bytes of all arrays that persist between rounds, spare capacity included."""
        arrays = [self._coefficients, self._sums, self._diagonals, self._squares, self._jitters, self._factors]
        buffers = sum(buffer.nbytes for buffer in self._buffers.values())
        return buffers + sum(array.nbytes for array in [*arrays, self._ages, self._order])

    def grow_outputs(self, n_outputs: int) -> None:
        self._coefficients = lengthened(self._coefficients, n_outputs, axis=1)
        self._sums = lengthened(self._sums, n_outputs, axis=1)
        self.n_outputs = n_outputs
        self.forget_input()

    def _take_up(self, x: Span) -> tuple[Kernels, np.ndarray, np.ndarray]:
        if self._taken_up is None or self._taken_up[0] is not x:
            arrays = self.compiled_arrays(x.tokens, np.arange(x.low, x.high))
            self._taken_up = x, arrays, *jit.at_hand(arrays.budgeted, 0, len(x))
        return self._taken_up[1:]

    def _own_potentials(self, x: Span) -> np.ndarray:
        return self._take_up(x)[2]

    def add_both(self, x: Span, potentials: Potentials, average: Potentials) -> None:
        self.add_potentials(x, potentials)
        factors, left_out = self.group_state.factors(self.averaging), self.group_state.left_out
        jit.add_averaged(self._take_up(x)[0].budgeted, *factors, left_out, 0, average.unary)

    def compiled_arrays(self, tokens: Tokens, chosen: np.ndarray) -> Kernels:
        if self._counts[2] >= REFRESH_AFTER * self.budget:
            self.recompute_norms()
            self._counts[2] = 0
        p, m, n = len(self.names), len(chosen), self.n_support
        if (needed := min(n + m, self.budget)) > self._capacity:
            self._reserve(min(max(2 * self._capacity, needed), self.budget))
        if not self._buffers:
            self._buffers = {view: self._buffer_of(view, tokens.views[view].shape[1]) for view in self.views}
        pairs = {view: buffer.stage(tokens.views[view][chosen], n) for view, buffer in self._buffers.items()}
        values, used = np.zeros((p, m, m + self._capacity)), (~self.group_state.left_out).nonzero()[0]
        if len(used) < p:  # kernels that are left out must not distinguish vectors
            self._diagonals[self.group_state.left_out] = 0.0
        for k in used.tolist():
            values[k, :, : m + n] = self.kernels[k].between(pairs[self.views[k]])
        memory: list[Any] = [np.empty(values.size), np.empty(p * m * self.n_outputs), np.empty(m, dtype=np.int64)]
        memory += [np.full(1, -1), used, self.budget, np.sqrt(np.finfo(self.dtype).eps)]
        own = self._coefficients, self._sums, self._diagonals, self._squares, self._jitters, self._factors
        numbers = self._order, self._ages, self._counts
        return Kernels(None, jit.Held(*own, *numbers, values, m + np.arange(self._capacity), *memory))

    def _buffer_of(self, view: str, n_columns: int) -> SupportBuffer:
        kernels = [kernel for kernel, own_view in zip(self.kernels, self.views) if own_view == view]
        return SupportBuffer(kernels, n_columns, self._capacity, self.dtype)

    def _values_among(self, x: Span, moving: np.ndarray) -> np.ndarray:
        return self._take_up(x)[1][:, moving[:, None], moving]

    def _activate(self, x: Span, gradient: Potentials) -> None:
        self.group_state.square_norms[self.group_state.activated] = 0.0
        super()._activate(x, gradient)

    def _move(self, x: Span, moving: np.ndarray, D: np.ndarray, groups: np.ndarray) -> None:
        """Step token by token, since projections may intervene; tokens become support vectors; norms stay exact."""
        arrays, *_ = self._take_up(x)
        jit.step(moving, D, groups, 0, len(x), self.group_state.scales, self.group_state.step, arrays.budgeted)
        self.end_pass(arrays)

    @property
    def rows_at_once(self) -> int:
        left = REFRESH_AFTER * self.budget - self._counts.item(2)
        return min(ROWS_AT_ONCE, left if left > 0 else REFRESH_AFTER * self.budget)

    def end_pass(self, arrays: Kernels) -> None:
        # columns of tokens come before those of support vectors
        assert arrays.budgeted is not None
        columns, m = arrays.budgeted.columns, arrays.budgeted.values.shape[1]
        added = np.flatnonzero(columns < m)
        for buffer in self._buffers.values():
            buffer.keep(m - columns[added], added)
        self.forget_input()

    def _scale_group(self, k: int, factor: float) -> None:
        arrays = self._coefficients[k], self._sums[k], self._squares[k], self._diagonals[k]
        jit.fold(factor, self.group_state.averages[k], *arrays)
        self.forget_input()

    def state(self) -> dict[str, np.ndarray]:
        n = self.n_support
        state = {"diagonals": self._diagonals[:, :n], "jitters": self._jitters[:, :n], "ages": self._ages[:n]}
        state |= {"factors": self._factors[:, :n, :n], "order": self._order[:n]}
        return super().state() | state | {"counts": self._counts[1:]}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        supports = support_of(state)
        p, n, n_outputs = state["coefficients"].shape
        training = "ages" in state
        self._check_fit(
            n <= self.budget
            and (p, n_outputs) == (len(self.names), self.n_outputs)
            and state["sums"].shape == (p, n if self.averaging and training else 0, n_outputs)
            and (set(supports) == set(self.views) or n == 0)
            and all(len(vectors) == n for vectors in supports.values())
            and (not training or np.array_equal(np.sort(state["order"]), np.arange(n)))
        )
        if supports:
            self.dtype = next(iter(supports.values())).dtype
        if n > self._capacity:
            self._reserve(n)
        self._counts[0] = n
        self.averaging = self.averaging and training
        self.coefficients[:] = state["coefficients"]
        if self.averaging:
            self.sums[:] = state["sums"]
        self._buffers = {view: self._buffer_of(view, vectors.shape[1]) for view, vectors in supports.items()}
        for view, vectors in supports.items():
            self._buffers[view].load(np.ascontiguousarray(vectors))
        if training:
            self._diagonals[:, :n], self._jitters[:, :n] = state["diagonals"], state["jitters"]
            self._ages[:n], self._order[:n] = state["ages"], state["order"]
            self._factors[:, :n, :n] = state["factors"]
            self._counts[1:] = state["counts"]
        self._squares[:] = np.square(self._coefficients).sum(axis=1) * self._diagonals
        self.forget_input()
