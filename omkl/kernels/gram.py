"""Gram matrices of many kernels at once: dense stacks, sparse matrices, rows on demand, and those that users have.

``inputs`` is one array a kernel, shape (n, d); kernels that are given the same array object share its inner products.
Values are computed in ``dtype``, in blocks of rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from omkl._cache import RecentlyUsed
from omkl._threads import in_threads
from omkl.exceptions import InputError
from omkl.kernels.base import Kernel, cross_matrices
from omkl.kernels.checks import check_kernel_names
from omkl.kernels.inputs import Pair, Reference, in_precision, row_blocks
from omkl.kernels.support_buffer import SupportBuffer


def dense_grams(
    kernels: Sequence[Kernel], inputs: Sequence[np.ndarray], dtype: DTypeLike = np.float32, n_jobs: int | None = None
) -> np.ndarray:
    """Stack of Gram matrices, (p, N, N) in ``dtype``, contiguous in its last axis; threads have blocks of the rows."""
    inputs = _in_precision(inputs, dtype)
    n = len(inputs[0])
    stack = np.empty((len(kernels), n, n), dtype=dtype)
    supports = [kernel.as_support(X) for kernel, X in zip(kernels, inputs)]
    distinct = {id(X): X for X in inputs}

    def fill(rows: slice) -> None:
        own = {key: X[rows] for key, X in distinct.items()}
        for k, matrix in enumerate(cross_matrices(kernels, [own[id(X)] for X in inputs], supports)):
            stack[k, rows] = matrix

    in_threads(fill, row_blocks(n, n, dtype), n_jobs)
    return stack


def sparse_gram(kernel: Kernel, X: np.ndarray, dtype: DTypeLike = np.float32) -> sparse.csr_array:
    """Gram matrix of one kernel as CSR (N, N): zeros are not stored."""
    X = in_precision(X, dtype)
    support = kernel.as_support(X)
    slices = row_blocks(len(X), len(X), dtype)
    blocks = [sparse.csr_array(kernel.between(Pair(X[rows], support)), dtype=dtype) for rows in slices]
    return sparse.vstack(blocks, format="csr")


def _in_precision(inputs: Sequence[np.ndarray], dtype: DTypeLike) -> list[np.ndarray]:
    """The inputs in a precision; what was one array object is one still."""
    converted = {id(X): in_precision(X, dtype) for X in inputs}
    return [converted[id(X)] for X in inputs]


class GramRows:
    """Rows of Gram matrices that do not fit in memory together: computed on demand, the latest kept.

    Rows that are missing are computed together, by products whose bits do not depend on which these are. Training
    inputs are held once, column by column.

    Parameters
    ----------
    kernels, inputs
        As for :func:`dense_grams`.
    budget : int
        Bytes that the kept rows may take.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        inputs: Sequence[np.ndarray],
        dtype: DTypeLike = np.float32,
        budget: int = 2**30,
    ) -> None:
        self.kernels, self.dtype, self.n_inputs = kernels, np.dtype(dtype), len(inputs[0])
        inputs = _in_precision(inputs, dtype)
        together: dict[int, list[int]] = {}
        self._alone = []
        for k, (kernel, X) in enumerate(zip(kernels, inputs)):
            if kernel.entrywise:
                together.setdefault(id(X), []).append(k)
            else:
                # one row at a time: with others beside them, what these kernels compute may be rounded otherwise
                self._alone.append((k, kernel, X, Reference(kernel.as_support(X))))
        self._buffers = [
            (own, SupportBuffer.holding([kernels[k] for k in own], inputs[own[0]])) for own in together.values()
        ]
        capacity = max(1, budget // (len(kernels) * self.n_inputs * self.dtype.itemsize))
        self._recent = RecentlyUsed(min(capacity, self.n_inputs))
        # memory is taken by those that are written
        self._rows = np.empty((self._recent.capacity, len(kernels), self.n_inputs), dtype=self.dtype)

    @property
    def n_kept(self) -> int:
        """Number of rows that are kept."""
        return len(self._recent)

    @property
    def nbytes(self) -> int:
        """Bytes of the kept rows."""
        return self.n_kept * self._rows[0].nbytes

    def __getitem__(self, rows: list[int]) -> np.ndarray:
        """The rows with these indices: an array of shape (p, len(rows), N)."""
        block = np.empty((len(self.kernels), len(rows), self.n_inputs), dtype=self.dtype)
        for low in range(0, len(rows), self._recent.capacity):
            indices = self._recent.indices(rows[low : low + self._recent.capacity], self._compute)
            for i, index in enumerate(indices, start=low):
                block[:, i] = self._rows[index]
        return block

    def _compute(self, missing: list[int], kept_at: list[int]) -> None:
        rows, indices = np.asarray(missing), np.asarray(kept_at)
        for block in row_blocks(len(rows), self.n_inputs, self.dtype):
            for own, buffer in self._buffers:
                pair = buffer.pair(rows[block], self.n_inputs)
                for k in own:
                    self._rows[indices[block], k] = self.kernels[k].between(pair)
        for k, kernel, X, support in self._alone:
            for row, index in zip(rows, indices):
                self._rows[index, k] = kernel.between(Pair(X[row : row + 1], support))[0]


class GramMatrices:
    """Values of M kernels between n and N samples; ``matrices[rows]`` and ``matrices[np.ix_(rows, columns)]`` are too.

    ``cross_val_score(MKLClassifier("precomputed"), GramMatrices(...), y)`` works, as does ``train_test_split``.

    Parameters
    ----------
    matrices : mapping of str to array of shape (n, N), sequence of such arrays, or array of shape (n, N, M) or (n, N)
        An array (n, N) is one kernel. A mapping names the kernels, others are called "kernel 0" and so on. None stands
        for a kernel that no model needs.

    Attributes
    ----------
    names : list of str
    matrices : list of arrays of shape (n, N), or None
    shape : tuple
        (n, N, M).

    Raises
    ------
    omkl.exceptions.InputError
        If there are none, or they are not all of one shape.

    Examples
    --------
    >>> grams = GramMatrices({"constant": np.ones((3, 3)), "identity": np.eye(3)})
    >>> grams[np.ix_([0, 2], [0, 2])].shape
    (2, 2, 2)
    """

    names: list[str]
    matrices: Any

    def __init__(self, matrices: Any) -> None:
        if isinstance(matrices, GramMatrices):
            matrices = dict(zip(matrices.names, matrices.matrices))
        if isinstance(matrices, Mapping):
            check_kernel_names(matrices)
            self.names, given = list(matrices), list(matrices.values())
        else:
            if hasattr(matrices, "__array__") or sparse.issparse(matrices):
                whole = _dense(matrices)
                matrices = np.moveaxis(whole, -1, 0) if whole.ndim == 3 else [whole]
            given = list(matrices) if isinstance(matrices, Sequence | np.ndarray) else []
            self.names = [f"kernel {m}" for m in range(len(given))]
        self.matrices = [None if matrix is None else _dense(matrix) for matrix in given]
        shapes = {matrix.shape for matrix in self.matrices if matrix is not None}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2:
            raise InputError(
                "Precomputed kernels must be M matrices (n, N) of one shape: a dict with their names, a list of M "
                f"arrays, or one array (n, N, M); not {f'shapes {sorted(shapes)}' if shapes else 'anything else'}."
            )
        self.shape: tuple[int, int, int] = (*shapes.pop(), len(self.matrices))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> "GramMatrices":
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]
        cut = [None if matrix is None else matrix[key] for matrix in self.matrices]
        return GramMatrices(dict(zip(self.names, cut)))


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)
