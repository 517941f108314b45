"""Gram matrices as one array: the oracle of kernel stacks."""

import numpy as np

from omkl.kernels import KernelStack


class DenseStack(KernelStack):
    """Kernels ``grams`` (M, N, N)."""

    sums_entries = concurrent = True

    def __init__(self, grams):
        self.grams = grams
        self.n_kernels, self.n_samples = grams.shape[:2]

    @property
    def nbytes(self):
        return self.grams.nbytes

    def _chosen(self, which):
        return self.grams if which is None else self.grams[which]

    def block_products(self, vectors, which=None):
        return np.matmul(vectors, self._chosen(which).swapaxes(1, 2))

    def combine(self, weights, which=None, samples=None):
        grams = self._chosen(which)
        return np.tensordot(
            weights,
            grams if samples is None else grams[:, samples],
            axes=1,
        )

    def summed(self, weights, which=None):
        return DenseStack(self.combine(weights, which)[None])

    def diagonals(self, which=None):
        return np.diagonal(self._chosen(which), axis1=1, axis2=2)

    def restricted(self, samples):
        return DenseStack(np.asarray(self.grams)[:, samples[:, None], samples])
