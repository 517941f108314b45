"""Kernel groups on a budget: never more than B support vectors, so that an endless stream costs constant memory."""

import numpy as np
from numpy.typing import DTypeLike

from omkl.exceptions import InputError
from omkl.groups import _jit_budget as jit
from omkl.groups._jit_kernel import has_gradient
from omkl.groups.kernel import KernelBank
from omkl.groups.tokens import Span, products_of
from omkl.kernels import Kernel, SupportBuffer
from omkl.kernels.inputs import row_blocks
from omkl.structures import Potentials

#: Support vectors that there is room for at first; whenever there are more, the room doubles, up to the budget.
FIRST_CAPACITY = 16
#: Norms and factors are computed afresh when the support has been replaced this many times over.
REFRESH_AFTER = 10


class BudgetedExpansion(KernelBank):
    r"""Kernel groups :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]` over at most B support vectors.

    All kernels share the support vectors, so each group has at most B. Where a token is to become one and there are
    B, it replaces the one that matters least, of the smallest
    :math:`\sum_k s_k^2 \|A_k[i, :]\|^2 k_k(x_i, x_i)` (the oldest of equals). What becomes of
    its part of the groups is up to the subclass. The token at hand is never the one to go, though with decaying rates
    it often matters least itself: then the early support vectors stay, which is no loss where examples are all alike,
    but on a drifting stream they come to describe the past; constant rates help. A token that equals a support vector
    in the feature space of every kernel becomes no second one.

    The budget holds after every token of a sequence, norms are exact after every change, and arrays grow with the
    support until it has B vectors (and with the longest sequence so far). A round costs O(m B d) for m tokens in d
    dimensions.

    Parameters
    ----------
    names, kernels, views, n_outputs, averaging, dtype
        As for :class:`~omkl.groups.KernelExpansion`.
    budget : int >= 1
        The largest number of support vectors B.
    """

    def __init__(
        self, names: list[str], kernels: list[Kernel], views: list[str], n_outputs: int, budget: int,
        averaging: bool = False, dtype: DTypeLike = np.float64,
    ) -> None:  # fmt: skip
        super().__init__(names, kernels, views, n_outputs, averaging, dtype)
        self.budget = int(budget)
        self.n_support = 0
        self._buffers: dict[str, SupportBuffer] = {}
        self._capacity = 0
        p = self._n_used = len(self.names)
        self._coefficients = np.zeros((p, self.n_outputs, 0))
        self._sums = np.zeros((p, self.n_outputs, 0))
        self._diagonals, self._squares = np.zeros((p, 0)), np.zeros((p, 0))
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
        """Have room for so many support vectors."""
        more, self._capacity = capacity - self._capacity, capacity
        for name in ("_coefficients", "_diagonals", "_squares", "_ages", "_rows", *(("_sums",) * self.averaging)):
            array = getattr(self, name)
            setattr(self, name, np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, more)]))
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
        return [
            self._coefficients, self._sums, self._diagonals, self._squares, self._ages, self._rows, self._own,
            self._indices,
        ]  # fmt: skip

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
        """Have the tokens of ``x`` at hand: their kernel values with one another and the support, their potentials."""
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
        """The kernels that are not left out: of the others no value is computed, and all that is held is zero."""
        return np.flatnonzero(~self.group_state.left_out).tolist()

    def _forget_others(self, used):
        """Every kernel value, coefficient and potential of the kernels that are left out becomes zero."""
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
            self._rows, gradient.unary, moving, group_state.empty, group_state.rates,
            group_state.square_norms, group_state.square_gradients,
        )  # fmt: skip
        if alive:
            self._move(gradient.unary, moving, ~group_state.empty)

    def _move(self, gradient, moving, groups):
        """Take the step in some groups, token by token; tokens that are no support vectors yet become some."""
        group_state, m = self.group_state, len(self._at_hand)
        for t in moving.tolist():
            index = self._indices.item(t)
            if index < 0:
                index = self._indices[t] = jit.find(self._rows, m, t, self.n_support, self._diagonals)
            if index < 0:
                index = self._admit(t)
            jit.move(
                self._rows, m, t, index, gradient, groups, group_state.rates, group_state.averages,
                self._diagonals, self._coefficients, self._sums, self.averaging, self._squares, self._own,
                group_state.square_norms,
            )  # fmt: skip

    def _admit(self, t):
        """Make token ``t`` of those at hand a support vector, in place of another if it must be; returns its index."""
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
            self._rows, m, t, index, self._indices, self._diagonals, self._coefficients, self._sums, self.averaging,
            self._squares,
        )  # fmt: skip
        self._enter(t, index)
        self.n_support = max(self.n_support, index + 1)
        self._ages[index] = self._n_admitted
        self._n_admitted += 1
        return index

    def _drop(self, index):
        """Make a support vector's part of every group zero, or worth nothing, and keep norms and potentials current."""
        raise NotImplementedError

    def _enter(self, t, index):
        """Called when token ``t`` of those at hand has become a support vector, before it is counted."""

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
        """Compute afresh what is kept current by recursions, all of which drift by rounding."""
        self.recompute_norms()
        self._n_replaced = 0

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
        """Every array, in the order of the support vectors; the next rounds do the same with it, bit for bit."""
        n = self.n_support
        arrays = {
            "coefficients": self.coefficients,
            "sums": self.sums,
            "diagonals": self._diagonals[:, :n],
            "ages": self._ages[:n],
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
        """What only training needs, and the coefficients beside the places for more."""
        self.coefficients[:] = state["coefficients"]
        self.sums[:] = state["sums"]
        self._diagonals[:, :n] = state["diagonals"]
        self._ages[:n] = state["ages"]
        self._n_admitted, self._n_replaced = state["counts"].tolist()
        for k in range(len(self.names)):
            jit.measure_parts(n, self._diagonals[k], self._coefficients[k], self._squares[k])
        self._at_hand = None

    def _check(self, state, supports):
        """The number of support vectors, when all arrays of a state fit this bank."""
        own = {key for key in self.state() if ":" not in key}
        if {key for key in state if ":" not in key} not in (own, {"coefficients", "sums"}):
            raise InputError("The arrays do not fit a kernel expansion whose budget is kept in this way.")
        p, n, n_outputs = state["coefficients"].shape
        if n > self.budget:
            raise InputError(f"The state holds {n} support vectors, more than the budget of {self.budget}.")
        fits = (
            (p, n_outputs) == (len(self.names), self.n_outputs)
            and state["sums"].shape == (p, n if self.averaging and "ages" in state else 0, n_outputs)
            and ("ages" not in state or (state["diagonals"].shape == (p, n) and state["ages"].shape == (n,)))
            and (set(supports) == set(self.views) or n == 0)
            and all(len(vectors) == n for vectors in supports.values())
            and ("counts" not in state or (np.abs(state["counts"]) < 2**62).all())
        )
        if not fits:
            raise InputError("The arrays of a kernel expansion on a budget do not fit each other, or not the kernels.")
        return n


class RemovalExpansion(BudgetedExpansion):
    r"""A budget kept by removal: the part of the support vector that matters least is dropped.

    :math:`\|v - \psi(x_i) \otimes A_i\|^2 = \|v\|^2 - 2 \langle A_i, V(x_i) \rangle + k(x_i, x_i) \|A_i\|^2` with the
    group's potentials :math:`V(x_i)`, which takes the kernel values of the dropped vector with the others: O(B d), the
    same as scoring one token. They are computed when they are needed: to keep all of them, B^2 a kernel, would take
    longer, since storing a new vector's values scatters them over as many cache lines.

    **What the average is the average of.** Past models are held in terms of the present support only, so a past model
    :math:`\theta_t` counts as :math:`P_t \theta_t`, truncated to those of its support vectors that are still held; a
    plain average of these would fade to nothing beside other banks' groups as the support turns over. So models are
    weighted with the fraction :math:`f_t` of their support vectors that is still held,

    .. math:: \bar\theta = \frac{\sum_t w_t P_t \theta_t}{\sum_t w_t f_t},

    the average with weights :math:`w_t f_t` of the truncated models brought up to size, :math:`P_t \theta_t / f_t`.
    Where nothing was dropped it is the usual average; on a long stream it is one over the recent past, as far back as
    the support reaches. Where nearly every round replaces a support vector, as with a CRF, the last model can be
    better.

    References
    ----------
    Dekel, Shalev-Shwartz, Singer: *The Forgetron* (2008); Wang, Crammer, Vucetic: *Breaking the curse of
    kernelization: budgeted stochastic gradient descent for large-scale SVM training* (2012), section 4.1.
    """

    # sum_t w_t f_t = sum_i (fraction now - fraction when i entered), which grows by w_t / n_t a round
    _entered: np.ndarray
    _fraction = _without_support = _seen_weight = 0.0

    def _reserve(self, capacity: int) -> None:
        entered = self._entered if self._capacity else np.zeros(0)
        self._entered = np.pad(entered, (0, capacity - self._capacity))
        super()._reserve(capacity)

    def _arrays(self):
        return [*super()._arrays(), self._entered]

    def _drop(self, index):
        values = np.zeros((len(self.names), self.n_support))
        pairs = {view: buffer.pair(slice(index, index + 1), self.n_support) for view, buffer in self._buffers.items()}
        for k in self._used():
            values[k] = self.kernels[k].between(pairs[self.views[k]])[0]
        jit.remove(
            self._rows, len(self._at_hand), self.n_support, index, values, self._diagonals, self._coefficients,
            self._own, self.group_state.square_norms,
        )  # fmt: skip

    def _enter(self, t, index):
        self._fraction, self._without_support = self._clock()
        self._seen_weight = self.group_state.total_weight
        self._entered[index] = self._fraction

    def _clock(self):
        """Sums over the rounds so far of ``w_t / n_t``, and of ``w_t`` where there was no support."""
        new = self.group_state.total_weight - self._seen_weight
        if self.n_support == 0:
            return self._fraction, self._without_support + new
        return self._fraction + new / self.n_support, self._without_support

    def discount(self, factor: float) -> None:
        super().discount(factor)
        self._entered *= factor
        self._fraction, self._without_support = self._fraction * factor, self._without_support * factor
        self._seen_weight *= factor

    def _average_weight(self, total):
        fraction, without_support = self._clock()
        return without_support + np.sum(fraction - self._entered[: self.n_support])

    def state(self) -> dict[str, np.ndarray]:
        clock = np.array([self._fraction, self._without_support, self._seen_weight])
        return {**super().state(), "entered": self._entered[: self.n_support], "clock": clock}

    def _load_training(self, state: dict[str, np.ndarray], n: int) -> None:
        super()._load_training(state, n)
        self._entered[:n] = state["entered"]
        self._fraction, self._without_support, self._seen_weight = state["clock"].tolist()
