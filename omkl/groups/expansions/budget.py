"""Kernel expansions of at most B support vectors, in constant memory."""

import numpy as np
from numpy.typing import DTypeLike

from omkl._pointers import Packed
from omkl.groups.base import CompiledBank, lengthened
from omkl.groups.expansions import _jit_budget as jit
from omkl.groups.expansions.kernel import FIRST_CAPACITY, KernelBank, SupportBuffer, support_of
from omkl.groups.tokens import Span, Tokens
from omkl.kernels.base import Kernel
from omkl.signatures import BankFunctions
from omkl.structures.base import Potentials

#: Norms are recomputed after this many replacements per support vector.
REFRESH_AFTER = 10
#: Maximum number of tokens whose kernel values are computed at once for a compiled pass.
ROWS_AT_ONCE = 128


class BudgetedExpansion(CompiledBank, KernelBank):
    r"""Kernel groups over at most B support vectors.

    The groups are :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]`. All kernels share
    the support vectors. When the support is full, a new token replaces the support vector with the
    smallest :math:`\sum_k s_k^2 \|A_k[i, :]\|^2 k_k(x_i, x_i)` (the oldest in a tie). The part of
    this vector is projected onto the others: :math:`\psi_k(x_i)` is replaced by
    :math:`\sum_j c_j \psi_k(x_j)` with :math:`c = (K + \mathrm{diag}(e))^{-1} k(\cdot, x_i)`. The
    jitter is :math:`e_j = \sqrt{\epsilon}\, k(x_j, x_j)` with the machine epsilon of ``dtype``. A
    token that equals a support vector in every kernel is not added again.

    The new token always enters, even if it has the smallest importance. With decaying rates the
    early support vectors then stay; constant rates follow a drifting stream better.

    The size limit holds and norms are exact after every token. Arrays grow with the support. A
    round of m tokens in d dimensions costs O(m B d), and a replacement O(B^2) per kernel, to update
    the Cholesky factors. The factors take 8 p B^2 bytes for p kernels, in memory and in model
    files.

    The average is over all past models, after all later projections.

    Parameters
    ----------
    names, kernels, views, n_outputs, averaging, dtype
        As for :class:`~omkl.groups.KernelExpansion`.
    budget : int >= 1
        The largest number of support vectors B.

    References
    ----------
    Orabona, Keshet, Caputo: *Bounded kernel-based online learning* (2009), the Projectron; Wang,
    Crammer, Vucetic: *Breaking the curse of kernelization* (2012), section 4.2.
    """

    abilities = frozenset({"grow", "condense", "watch"})
    layout = jit.BUDGETED
    functions = BankFunctions(
        scores=jit.scores,
        average=jit.average,
        step=jit.step,
        fold=jit.fold,
        slopes=jit.slopes,
    )
    n_support = property(lambda self: self._counts.item(jit.SUPPORT))

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
        #: Upper Cholesky factors of the kernel matrices, and the support vector at each of their
        #: positions.
        self._factors = np.zeros((p, 0, 0))
        self._order = np.zeros(0, dtype=np.int64)
        self._ages = np.zeros(0, dtype=np.int64)
        #: Numbers of support vectors, of admitted tokens, and of replacements.
        self._counts = np.zeros(3, dtype=np.int64)
        self.forget_input()
        self._reserve(min(FIRST_CAPACITY, self.budget))

    @property
    def compiled(self) -> BankFunctions | None:
        """Compiled functions, if values of kernels do not depend on tokens computed with them."""
        are_entrywise = all(kernel.entrywise for kernel in self.kernels)
        return self.functions if are_entrywise else None

    def forget_input(self) -> None:
        #: The latest input, and its arrays.
        self._latest: tuple[Span, Packed] | None = None
        #: The input of the latest step, which a postponed step takes again.
        self._stepped: tuple[Span, Packed] | None = None
        #: The inputs of a call of the compiled driver.
        self._inputs: Packed | None = None

    def _reserve(self, capacity: int) -> None:
        """Allocate space for this many support vectors."""
        more = capacity - self._ages.size
        self._capacity = capacity
        self._coefficients = lengthened(self._coefficients, capacity, axis=2)
        self._diagonals = lengthened(self._diagonals, capacity, axis=1)
        self._squares = lengthened(self._squares, capacity, axis=1)
        self._jitters = lengthened(self._jitters, capacity, axis=1)
        self._ages = lengthened(self._ages, capacity)
        self._order = lengthened(self._order, capacity)
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
        arrays = [
            self._coefficients,
            self._sums,
            self._diagonals,
            self._squares,
            self._jitters,
            self._factors,
            self._ages,
            self._order,
        ]
        nbytes_of_buffers = sum(buffer.nbytes for buffer in self._buffers.values())
        return nbytes_of_buffers + sum(array.nbytes for array in arrays)

    def grow_outputs(self, n_outputs: int) -> None:
        self._coefficients = lengthened(self._coefficients, n_outputs, axis=1)
        self._sums = lengthened(self._sums, n_outputs, axis=1)
        self.n_outputs = n_outputs
        self.forget_input()

    def arrays(self) -> jit.Budgeted:
        return jit.Budgeted(
            coefficients=self._coefficients,
            sums=self._sums,
            diagonals=self._diagonals,
            squares=self._squares,
            jitters=self._jitters,
            factors=self._factors,
            order=self._order,
            ages=self._ages,
            counts=self._counts,
            budget=self.budget,
            relative=float(np.sqrt(np.finfo(self.dtype).eps)),
            groups=self.group_state.address,
        )

    def input_of(self, x: Span) -> tuple[Packed, int]:
        if self._latest is None or self._latest[0] is not x:
            self._latest = x, self._take_up(x.tokens, np.arange(x.low, x.high))
        return self._latest[1], 0

    def inputs_of(self, tokens: Tokens, chosen: np.ndarray) -> tuple[Packed, bool]:
        self._inputs = inputs = self._take_up(tokens, chosen)
        return inputs, False

    def end_pass(self) -> None:
        if self._inputs is not None:
            self._store_admitted(self._inputs)
        self.forget_input()

    def _take_up(self, tokens: Tokens, chosen: np.ndarray) -> Packed:
        """Compute the kernel values of some tokens; make room for them, in new arrays if needed."""
        if self._counts[jit.REPLACED] >= REFRESH_AFTER * self.budget:
            self.recompute_norms()
            self._counts[jit.REPLACED] = 0
        p = len(self.names)
        n_tokens = len(chosen)
        n_support = self.n_support
        needed = min(n_support + n_tokens, self.budget)
        if needed > self._capacity:
            self._reserve(min(max(2 * self._capacity, needed), self.budget))
        if not self._buffers:
            for view in self.views:
                self._buffers[view] = self._buffer_of(view, tokens.views[view].shape[1])
        pairs = {}
        for view, buffer in self._buffers.items():
            pairs[view] = buffer.stage(tokens.views[view][chosen], n_support)
        left_out = self.group_state.left_out
        if left_out.any():  # kernels that are left out must not distinguish vectors
            self._diagonals[left_out] = 0.0
        values = np.zeros((p, n_tokens, n_tokens + self._capacity))
        for k in np.flatnonzero(~left_out).tolist():
            values_of_kernel = self.kernels[k].between(pairs[self.views[k]])
            values[k, :, : n_tokens + n_support] = values_of_kernel
        at_hand = jit.TokensAtHand(
            values=values,
            columns=n_tokens + np.arange(self._capacity),
            rows=np.empty(values.shape),
            potentials=np.empty((p, n_tokens, self.n_outputs)),
            indices=np.empty(n_tokens, dtype=np.int64),
            first=np.full(1, jit.UNKNOWN),
        )
        return jit.TOKENS_AT_HAND.pack(at_hand)

    def _store_admitted(self, inputs: Packed) -> None:
        """Copy the tokens that have become support vectors."""
        # columns of tokens come before those of support vectors
        columns = inputs.values.columns
        n_tokens = inputs.values.values.shape[1]
        admitted = np.flatnonzero(columns < n_tokens)
        for buffer in self._buffers.values():
            buffer.keep(n_tokens - columns[admitted], admitted)

    def _buffer_of(self, view: str, n_columns: int) -> SupportBuffer:
        """Return an empty buffer for a view with so many columns."""
        kernels = [kernel for kernel, name in zip(self.kernels, self.views) if name == view]
        return SupportBuffer(kernels, n_columns, self._capacity, self.dtype)

    def step(self, x: Span, gradient: Potentials) -> None:
        inputs, _ = self.input_of(x)
        super().step(x, gradient)
        self._store_admitted(inputs)
        # the next round computes potentials anew, as the compiled driver does
        self._stepped = self._latest
        self._latest = None

    def _activate(self, x: Span, gradient: Potentials) -> None:
        self._latest = self._stepped
        inputs, _ = self.input_of(x)
        super()._activate(x, gradient)
        self._store_admitted(inputs)
        self.forget_input()

    @property
    def rows_at_once(self) -> int:
        limit = REFRESH_AFTER * self.budget
        before_refresh = limit - self._counts.item(jit.REPLACED)
        if before_refresh <= 0:
            before_refresh = limit
        return min(ROWS_AT_ONCE, before_refresh)

    def _scale_group(self, k: int, factor: float) -> None:
        super()._scale_group(k, factor)
        self._latest = None

    def state(self) -> dict[str, np.ndarray]:
        n = self.n_support
        return super().state() | {
            "diagonals": self._diagonals[:, :n],
            "jitters": self._jitters[:, :n],
            "ages": self._ages[:n],
            "factors": self._factors[:, :n, :n],
            "order": self._order[:n],
            "counts": self._counts[1:],
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        supports = support_of(state)
        p, n, n_outputs = state["coefficients"].shape
        is_training = "ages" in state
        averaging = self.averaging and is_training
        n_sums = n if averaging else 0
        self._check_fit(
            n <= self.budget
            and (p, n_outputs) == (len(self.names), self.n_outputs)
            and state["sums"].shape == (p, n_sums, n_outputs)
            and (set(supports) == set(self.views) or n == 0)
            and all(len(vectors) == n for vectors in supports.values())
            and (not is_training or np.array_equal(np.sort(state["order"]), np.arange(n)))
        )
        if supports:
            self.dtype = next(iter(supports.values())).dtype
        if n > self._capacity:
            self._reserve(n)
        self._counts[jit.SUPPORT] = n
        self.averaging = averaging
        self.coefficients[:] = state["coefficients"]
        if averaging:
            self.sums[:] = state["sums"]
        self._buffers = {}
        for view, vectors in supports.items():
            self._buffers[view] = self._buffer_of(view, vectors.shape[1])
            self._buffers[view].load(np.ascontiguousarray(vectors))
        if is_training:
            self._diagonals[:, :n] = state["diagonals"]
            self._jitters[:, :n] = state["jitters"]
            self._ages[:n] = state["ages"]
            self._order[:n] = state["order"]
            self._factors[:, :n, :n] = state["factors"]
            self._counts[1:] = state["counts"]
        self._squares[:] = np.square(self._coefficients).sum(axis=1) * self._diagonals
        self.forget_input()
