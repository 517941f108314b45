"""Kernel groups over a finite training set, with cached potentials of all tokens.

An epoch costs O(tokens in error x N) per kernel instead of O(N^2 K): only changed coefficients cost
anything. The Gram matrices are stored if they fit into memory; otherwise their rows are computed on
demand.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from omkl._cache import RecentlyUsed
from omkl._pointers import Layout, Packed
from omkl._threads import in_threads
from omkl.groups.base import CompiledBank
from omkl.groups.expansions import _jit_cached as jit
from omkl.groups.expansions._jit_kernel import has_gradient
from omkl.groups.expansions.kernel import (
    KernelBank,
    KernelExpansion,
    SupportBuffer,
    without_unused,
)
from omkl.groups.tokens import Span, Tokens
from omkl.kernels.base import Kernel, cross_matrices
from omkl.kernels.inputs import in_precision, row_blocks
from omkl.signatures import BankFunctions
from omkl.structures.base import Potentials

#: Compiled functions for Gram matrices of float64 and of float32.
FUNCTIONS = BankFunctions(
    scores=jit.scores,
    average=jit.no_average,
    step=jit.step,
    fold=jit.fold,
    slopes=jit.slopes,
)
FUNCTIONS_32 = BankFunctions(
    scores=jit.scores_32,
    average=jit.no_average,
    step=jit.step_32,
    fold=jit.fold_32,
    slopes=jit.slopes_32,
)


#: Least entry of a gradient of labels for a step in single precision. A likelihood moves every
#: label of every token, most of them by less, and each entry costs a row of a Gram matrix.
LEAST_MOVE = 1e-3


class CachedKernelBank(CompiledBank, KernelBank):
    r"""Kernel groups over the tokens of a training set.

    The groups are :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]`. It accepts
    only spans of the tokens that it was made for. :meth:`release` turns it into a
    :class:`~omkl.groups.KernelExpansion`, which scores any input.

    In single precision, entries of the gradients of several outputs below ``LEAST_MOVE`` are added
    up by token and output, and taken when their sum is that large (error feedback). So the sum of
    all steps differs from that of all gradients by less than ``LEAST_MOVE`` in each entry.

    Parameters
    ----------
    names, kernels, views, n_outputs, averaging
        See :class:`KernelBank`.
    tokens : Tokens
        The training set, N tokens.
    dtype : float32 or float64
        Precision of Gram matrices and cached potentials; coefficients and norms are always float64.
    memory : int
        Maximum bytes of the Gram matrices; if they are larger, rows are computed on demand and the
        latest cached.
    n_jobs : int or None
        Number of threads that compute Gram matrices.

    References
    ----------
    Stich, Cordonnier, Jaggi (2018), *Sparsified SGD with memory*.
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
        p = len(self.names)
        n = tokens.n_tokens
        n_sums = n if averaging else 0
        self.n_support = n
        self.cached = np.zeros((p, n_outputs, n), dtype=self.dtype)
        self._coefficients = np.zeros((p, n, n_outputs))
        self._sums = np.zeros((p, n_sums, n_outputs))
        self._moved = np.zeros(p, dtype=bool)
        #: The Gram matrices for compiled functions, or the rows of the latest step.
        self._gram_rows: Packed | None = None
        inputs = [tokens.views[view] for view in self.views]
        self._gram: np.ndarray | GramRows | None
        if p * n * n * self.dtype.itemsize <= memory:
            self._gram = dense_grams(self.kernels, inputs, self.dtype, n_jobs)
        else:
            self._gram = GramRows(self.kernels, inputs, self.dtype, memory)
        #: Sums of gradients that wait until they are large enough, and directions of the latest
        #: steps, (N, K).
        self._carried = np.zeros((n, n_outputs))
        self._directions = np.zeros((n, n_outputs))
        # a gradient of a single output may be in any unit, and rows on demand are those of the
        # gradient
        may_wait = self.dtype == np.float32 and n_outputs > 1 and self._has_matrices
        self._least = LEAST_MOVE if may_wait else 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, Gram matrices included."""
        arrays = [
            self.cached,
            self._coefficients,
            self._sums,
            self._carried,
            self._directions,
        ]
        nbytes = sum(array.nbytes for array in arrays)
        if self._gram is not None:
            nbytes += self._gram.nbytes
        return nbytes

    @property
    def compiled(self) -> BankFunctions | None:
        """Compiled functions, if the Gram matrices are stored."""
        return self.functions if self._has_matrices else None

    @property
    def _has_matrices(self) -> bool:
        return isinstance(self._gram, np.ndarray)

    @property
    def functions(self) -> BankFunctions:  # type: ignore[override]
        """Compiled functions for the precision of the Gram matrices."""
        return FUNCTIONS_32 if self.dtype == np.float32 else FUNCTIONS

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        """Layout of :meth:`arrays` for the precision of the Gram matrices."""
        return jit.CACHED_32 if self.dtype == np.float32 else jit.CACHED

    def arrays(self) -> jit.Cached:
        return jit.Cached(
            potentials=self.cached,
            coefficients=self._coefficients,
            sums=self._sums,
            moved=self._moved,
            carried=self._carried,
            directions=self._directions,
            least=self._least,
            groups=self.group_state.address,
        )

    def input_of(self, x: Span) -> tuple[Packed, int]:
        if self._gram_rows is None:
            no_rows = self.cached[:, :0]
            grams = self._gram if isinstance(self._gram, np.ndarray) else no_rows
            self._gram_rows = self._pack_rows(grams)
        return self._gram_rows, x.low

    def inputs_of(self, tokens: Tokens, chosen: np.ndarray) -> tuple[Packed, bool]:
        return self.input_of(tokens.everything())[0], True

    def _pack_rows(self, grams: np.ndarray) -> Packed:
        """Return rows of Gram matrices (p, m, N) for compiled functions."""
        layout = jit.GRAM_ROWS_32 if self.dtype == np.float32 else jit.GRAM_ROWS
        return layout.pack(jit.RowsAtHand(grams=grams, of_all=int(self._has_matrices)))

    def step(self, x: Span, gradient: Potentials) -> None:
        if isinstance(self._gram, GramRows):
            tokens = x.low + has_gradient(gradient.unary)
            self._gram_rows = self._pack_rows(self._gram[tokens.tolist()])
        super().step(x, gradient)

    @property
    def supports(self) -> dict[str, np.ndarray]:
        return {view: self.tokens.views[view].astype(self.dtype, copy=False) for view in self.views}

    def recompute_norms(self) -> None:
        for k in range(len(self.names)):
            self.group_state.square_norms[k] = np.einsum(
                "nj,jn->", self._coefficients[k], self.cached[k]
            )

    def state(self) -> dict[str, np.ndarray]:
        return {
            "coefficients": self._coefficients,
            "sums": self._sums,
            "cached": self.cached,
            "moved": self._moved,
            "carried": self._carried,
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        for name, array in self.state().items():
            array[:] = state[name]

    def restart(self) -> None:
        super().restart()
        self._carried[:] = 0.0

    def release(self) -> KernelExpansion:
        """Return these groups as an expansion over the tokens in use; drop the Gram matrices."""
        self._gram = None
        self._gram_rows = None
        expansion = KernelExpansion(
            self.names, self.kernels, self.views, self.n_outputs, self.averaging, self.dtype
        )
        expansion.set_support(*without_unused(self.supports, self._coefficients, self._sums))
        return expansion


def dense_grams(
    kernels: Sequence[Kernel],
    inputs: Sequence[np.ndarray],
    dtype: DTypeLike = np.float32,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Return a stack of Gram matrices, (p, N, N), contiguous in its last axis.

    There is an input (N, d) for each kernel; kernels with the same array object share its inner
    products. Threads compute blocks of rows.
    """
    inputs = _in_precision(inputs, dtype)
    n = len(inputs[0])
    stack = np.empty((len(kernels), n, n), dtype=dtype)
    distinct = {id(X): X for X in inputs}

    def fill(rows: slice) -> None:
        blocks = {key: X[rows] for key, X in distinct.items()}
        inputs_of_rows = [blocks[id(X)] for X in inputs]
        for k, matrix in enumerate(cross_matrices(kernels, inputs_of_rows, inputs)):
            stack[k, rows] = matrix

    in_threads(fill, row_blocks(n, n, dtype), n_jobs)
    return stack


class GramRows:
    """Rows of Gram matrices that do not fit into memory, computed on demand; the latest are cached.

    Arguments are those of :func:`dense_grams`; cached rows take at most ``budget`` bytes.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        inputs: Sequence[np.ndarray],
        dtype: DTypeLike,
        budget: int = 2**30,
    ) -> None:
        self.kernels = kernels
        self.dtype = np.dtype(dtype)
        self.n_inputs = len(inputs[0])
        inputs = _in_precision(inputs, dtype)
        buffers = {}
        for X in inputs:
            if id(X) not in buffers:
                buffers[id(X)] = SupportBuffer(kernels, X.shape[1], len(X), X.dtype)
                buffers[id(X)].load(X)
        self._buffers = [buffers[id(X)] for X in inputs]
        nbytes_of_row = len(kernels) * self.n_inputs * self.dtype.itemsize
        capacity = min(max(1, budget // nbytes_of_row), self.n_inputs)
        self._recent = RecentlyUsed(capacity)
        # untouched pages take no memory
        self._rows = np.empty((capacity, len(kernels), self.n_inputs), dtype=self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the cached rows."""
        return len(self._recent) * self._rows[0].nbytes

    def __getitem__(self, rows: list[int]) -> np.ndarray:
        """Return the rows with these indices: an array of shape (p, len(rows), N)."""
        block = np.empty((len(self.kernels), len(rows), self.n_inputs), dtype=self.dtype)
        capacity = self._recent.capacity
        for low in range(0, len(rows), capacity):
            indices = self._recent.indices(rows[low : low + capacity], self._compute)
            for i, index in enumerate(indices, start=low):
                block[:, i] = self._rows[index]
        return block

    def _compute(self, missing: list[int], slots: list[int]) -> None:
        """Compute missing rows, and write them to these indices of ``_rows``."""
        for block in row_blocks(len(missing), self.n_inputs, self.dtype):
            rows = np.array(missing[block])
            indices = slots[block]
            pairs = {id(buffer): buffer.pair(rows, self.n_inputs) for buffer in self._buffers}
            for k, (kernel, buffer) in enumerate(zip(self.kernels, self._buffers)):
                if kernel.entrywise:
                    self._rows[indices, k] = kernel.between(pairs[id(buffer)])
                    continue
                # one by one, since rounding may depend on the other rows
                for i, index in enumerate(indices):
                    pair = buffer.pair(rows[i : i + 1], self.n_inputs)
                    self._rows[index, k] = kernel.between(pair)[0]


def _in_precision(inputs: Sequence[np.ndarray], dtype: DTypeLike) -> list[np.ndarray]:
    """Convert the inputs to a precision; kernels that shared an array still share it."""
    converted = {id(X): in_precision(X, dtype) for X in inputs}
    return [converted[id(X)] for X in inputs]
