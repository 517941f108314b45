"""Kernel groups over a finite training set, with the potentials of all its tokens cached and kept current.

An epoch costs O(tokens in error x N) a kernel instead of O(N^2 K): only coefficients that move cost anything. The Gram
matrices are held whole where they fit, else their rows are computed on demand; compactly supported kernels are held
sparse.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omkl.groups.base import FrozenGroups
from omkl.groups.expansions import _jit_kernel as jit
from omkl.groups.expansions.kernel import KernelBank, KernelExpansion
from omkl.groups.tokens import Span, Tokens, products_of
from omkl.kernels import Kernel
from omkl.kernels.gram import GramRows, dense_grams, sparse_gram
from omkl.kernels.inputs import row_blocks
from omkl.structures.base import Potentials


class CachedKernelBank(KernelBank):
    r"""Kernel groups :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]` over the tokens of a training set.

    Serves spans of exactly the tokens that it was made for. ``release`` turns it into a
    :class:`~omkl.groups.KernelExpansion`, which scores any input.

    Parameters
    ----------
    names, kernels, views, n_outputs, averaging
        See :class:`KernelBank`.
    tokens : Tokens
        The training set, N tokens.
    dtype : float32 or float64
        Precision of Gram matrices and cached potentials; coefficients and norms are float64 always.
    memory : int
        Bytes that Gram matrices may take; beyond it, rows are computed on demand and the latest kept.
    n_jobs : int or None
        Threads that compute Gram matrices.
    """

    def __init__(
        self,
        names: list[str],
        kernels: list[Kernel],
        views: list[str],
        tokens: Tokens,
        n_outputs: int,
        averaging: bool = False,
        dtype: DTypeLike = np.float32,
        memory: int = 2**32,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(names, kernels, views, n_outputs, averaging, dtype)
        self.tokens = tokens
        p, n = len(self.names), tokens.n_tokens
        self.cached = np.zeros((p, n_outputs, n), dtype=self.dtype)
        self._coefficients = np.zeros((p, n, n_outputs))
        self._sums = np.zeros((p, n if averaging else 0, n_outputs))
        self._moved = np.zeros(p, dtype=bool)
        self._build_gram(memory, n_jobs)

    def _build_gram(self, memory, n_jobs):
        n = self.tokens.n_tokens
        inputs = [self.tokens.views[view] for view in self.views]
        self._whole = len(self.kernels) * n * n * self.dtype.itemsize <= memory
        if self._whole:
            self._gram = dense_grams(self.kernels, inputs, self.dtype, n_jobs)
            self._all_rows = np.arange(n)
        else:
            self._gram = GramRows(self.kernels, inputs, self.dtype, memory)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, Gram matrices included."""
        return self._gram.nbytes + self.cached.nbytes + self._coefficients.nbytes + self._sums.nbytes

    @property
    def coefficients(self) -> np.ndarray:
        return self._coefficients

    @property
    def sums(self) -> np.ndarray:
        return self._sums

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        jit.add_scores(self.cached, self.group_state.scales, x.low, x.high, potentials.unary)

    def inner_products(self, x: Span, gradient: Potentials, totals: np.ndarray | None) -> np.ndarray:
        return products_of(self.cached[:, :, x.low : x.high].swapaxes(1, 2), gradient.unary, totals)

    def step(self, x: Span, gradient: Potentials) -> None:
        moving = jit.has_gradient(gradient.unary)
        rows = self._gram_rows(x, moving)
        self._move(x, gradient.unary, moving, rows, self.group_state.empty)
        self._moved |= ~self.group_state.empty
        self._measure_postponed(x, gradient.unary, moving, rows)

    def _activate(self, x: Span, gradient: Potentials) -> None:
        activated = self.group_state.activated
        self.group_state.square_norms[activated] = 0.0
        moving = jit.has_gradient(gradient.unary)
        self._move(x, gradient.unary, moving, self._gram_rows(x, moving), ~activated)
        self._moved |= activated

    def _scale_group(self, k: int, factor: float) -> None:
        if self._moved[k]:
            self.group_state.fold(k, factor, self._coefficients[k], self._sums[k])
            self.cached[k] *= np.asarray(factor, dtype=self.dtype)
            self._moved[k] = factor != 0.0

    def _gram_rows(self, x, moving):
        """A stack of Gram rows, and where in it the row of each moving token is."""
        if self._whole:
            return self._gram, self._all_rows[x.low : x.high]
        rows = np.zeros(len(x), dtype=np.int64)
        rows[moving] = np.arange(len(moving))
        return self._gram[(x.low + moving).tolist()], rows

    def _move(self, x, gradient, moving, rows, skip):
        group_state = self.group_state
        jit.move(
            *rows,
            moving,
            x.low,
            gradient,
            self.cached,
            self._coefficients,
            self._sums,
            self.averaging,
            skip,
            group_state.rates,
            group_state.averages,
            group_state.square_norms,
            group_state.square_gradients,
        )

    def _measure_postponed(self, x, gradient, moving, rows):
        group_state = self.group_state
        if group_state.empty.any():
            jit.gradient_norms(
                *rows,
                moving,
                x.low,
                gradient,
                group_state.empty,
                group_state.rates,
                group_state.square_norms,
                group_state.square_gradients,
            )

    def recompute_norms(self) -> None:
        for k in range(len(self.names)):
            self.group_state.square_norms[k] = np.einsum("nj,jn->", self._coefficients[k], self.cached[k])

    def averaged(self) -> "FrozenCachedBank":
        return FrozenCachedBank(self, self.averaged_coefficients().astype(self.dtype))

    def gram_rows(self, k: int, low: int, high: int) -> np.ndarray:
        """Kernel values of group ``k`` between the tokens ``low .. high - 1`` and all tokens."""
        return self._gram[k][low:high] if self._whole else self._gram[list(range(low, high))][k]

    def state(self) -> dict[str, np.ndarray]:
        return {"coefficients": self._coefficients, "sums": self._sums, "cached": self.cached, "moved": self._moved}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        for array, name in ((self._coefficients, "coefficients"), (self._sums, "sums"), (self.cached, "cached")):
            array[:] = state[name]
        self._moved[:] = state["moved"]

    def release(self) -> KernelExpansion:
        """The same groups as an expansion over the tokens that have coefficients. This bank's Gram matrices go."""
        # support vectors of a precomputed kernel are indices: its values among them go with the Gram matrix
        squares = self.averaged().square_norms() if any(kernel.indexed for kernel in self.kernels) else None
        self._gram = None
        used = self._coefficients.any(axis=(0, 2))
        if self.averaging:
            used |= self._sums.any(axis=(0, 2))
        used = np.flatnonzero(used)
        arguments = self.names, self.kernels, self.views, self.n_outputs, self.averaging, self.dtype
        expansion = KernelExpansion(*arguments)
        inputs = self.tokens.views
        supports = {view: kernel.as_support(inputs[view])[used] for kernel, view in zip(self.kernels, self.views)}
        expansion.set_support(supports, self._coefficients[:, used], self._sums[:, used if self.averaging else []])
        expansion.average_squares = squares
        return expansion


class SparseCachedBank(CachedKernelBank):
    """One kernel group whose Gram matrix is mostly zeros: it costs its non-zeros, not N^2 (B1 spline)."""

    def _build_gram(self, memory, n_jobs):
        (kernel,), (view,) = self.kernels, self.views
        self._gram = sparse_gram(kernel, self.tokens.views[view], self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, the Gram matrix included."""
        gram = self._gram.data.nbytes + self._gram.indices.nbytes + self._gram.indptr.nbytes
        return gram + self.cached.nbytes + self._coefficients.nbytes + self._sums.nbytes

    def _gram_rows(self, x, moving):
        return None

    def _move(self, x, gradient, moving, rows, skip):
        if not skip[0]:
            gram, group_state = self._gram, self.group_state
            jit.move_sparse(
                gram.indptr,
                gram.indices,
                gram.data,
                moving,
                x.low,
                gradient,
                self.cached,
                self._coefficients,
                self._sums,
                self.averaging,
                group_state.rates,
                group_state.averages,
                group_state.square_norms,
                group_state.square_gradients,
            )

    def _measure_postponed(self, x, gradient, moving, rows):
        group_state = self.group_state
        if group_state.empty[0]:
            tokens = x.low + moving
            among = self._gram[tokens][:, tokens].toarray().astype(np.float64)
            group_state.square_gradients[0] = jit.gradient_norm(among, gradient, moving)
            group_state.square_norms[0] = group_state.rates[0] ** 2 * group_state.square_gradients[0]

    def gram_rows(self, k: int, low: int, high: int) -> np.ndarray:
        return self._gram[low:high]


class FrozenCachedBank(FrozenGroups):
    """Averaged coefficients on the same Gram matrices; tokens outside of the training set are scored more slowly."""

    def __init__(self, bank: CachedKernelBank, coefficients: np.ndarray) -> None:
        self.names = bank.names
        self._bank = bank
        self._coefficients = coefficients

    @property
    def nbytes(self) -> int:
        """Bytes of the coefficients; the Gram matrices are the bank's."""
        return self._coefficients.nbytes

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        for k, coefficients in enumerate(self._coefficients):
            if self._in_use(k):
                potentials.unary[:] += self._rows(k, x) @ coefficients

    def _rows(self, k: int, x: Span) -> Any:
        """Kernel values between tokens and those of training; other tokens are compared anew."""
        bank, view = self._bank, self._bank.views[k]
        if x.tokens is bank.tokens:
            return bank.gram_rows(k, x.low, x.high)
        return bank.kernels[k](x.tokens.views[view][x.low : x.high], bank.tokens.views[view])

    def recompute_norms(self) -> None:
        """Set ``||theta_k||^2`` in the group state."""
        group_state: Any = self.group_state
        group_state.square_norms[:] = self.square_norms()

    def square_norms(self) -> np.ndarray:
        """``||theta_k||^2`` of each group, (p,), from the Gram matrices block by block."""
        squares = np.zeros(len(self.names))
        for k, coefficients in enumerate(self._coefficients):
            for rows in row_blocks(len(coefficients), len(coefficients), coefficients.dtype):
                if coefficients[rows].any():
                    scores = self._bank.gram_rows(k, rows.start, rows.stop) @ coefficients
                    squares[k] += np.vdot(coefficients[rows].astype(np.float64), scores)
        return squares
