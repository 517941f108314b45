"""Kernels once for each of several outputs: block diagonal matrices of which a single block is held."""

from typing import Any

import numpy as np

from omkl.kernels.stack import KernelStack, OneByOne, RestrictedView, Which


class ReplicatedStack(OneByOne):
    r"""The kernels :math:`I_P \otimes K_m`, on P copies of all samples, one copy after the other.

    Samples of different copies have kernel values of zero: each copy may have a function of its own in every kernel,
    and the norm of a kernel is that of all its P functions.

    Parameters
    ----------
    stack : KernelStack
        Of N samples.
    n_parts : int >= 1
        The number of copies P.
    """

    def __init__(self, stack: KernelStack, n_parts: int) -> None:
        self.stack, self.n_parts = stack, n_parts
        self.n_kernels, self.n_samples = stack.n_kernels, n_parts * stack.n_samples
        self.sums_entries, self.concurrent = stack.sums_entries, stack.concurrent

    def restricted(self, samples: np.ndarray) -> RestrictedView:
        """The same kernels on some of the samples of the copies, given by increasing indices."""
        return RestrictedView(self, samples)

    def _parts(self, vectors):
        """Vectors (..., P N) as (..., P, N)."""
        return vectors.reshape(*vectors.shape[:-1], self.n_parts, self.stack.n_samples)

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        return self.stack.block_quadratics(self._parts(vector), which)

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        products = self.stack.block_products(self._parts(vectors), which)
        return products.reshape(len(products), self.n_samples)

    def combine(self, weights: Any, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        copies, own = np.divmod(np.arange(self.n_samples) if samples is None else samples, self.stack.n_samples)
        result = np.zeros((len(own), self.n_samples))
        for result_row, copy, row in zip(self._parts(result), copies, self.stack.combine(weights, which, own)):
            result_row[copy] = row
        return result

    def summed(self, weights: Any, which: Which = None) -> "ReplicatedSum":
        return ReplicatedSum(self.stack.summed(weights, which), self)

    def diagonals(self, which: Which = None) -> np.ndarray:
        return np.tile(self.stack.diagonals(which), self.n_parts)

    def traces(self, which: Which = None) -> np.ndarray:
        return self.n_parts * self.stack.traces(which)


class ReplicatedSum:
    """A :class:`~omkl.kernels.stack.WeightedSum` of all copies.

    Attributes
    ----------
    part : WeightedSum
        Of a single copy.
    """

    def __init__(self, part: Any, stack: ReplicatedStack) -> None:
        self.part, self.stack = part, stack

    def product(self, vector: np.ndarray) -> np.ndarray:
        """The sum times a vector: (P N,)."""
        return self.part.block_product(self.stack._parts(vector)).ravel()

    def rows(self, samples: np.ndarray) -> np.ndarray:
        """Rows of the sum: (s, P N)."""
        copies, own = np.divmod(samples, self.stack.stack.n_samples)
        result = np.zeros((len(samples), self.stack.n_samples))
        for result_row, copy, row in zip(self.stack._parts(result), copies, self.part.rows(own)):
            result_row[copy] = row
        return result

    def diagonal(self) -> np.ndarray:
        """(P N,)."""
        return np.tile(self.part.diagonal(), self.stack.n_parts)
