"""Stacks of Gram matrices on one set of samples: what batch solvers see of their kernels.

A stack answers a few questions, each in one pass over the kernels it is asked about; solvers ask nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from omkl.exceptions import InputError

#: Indices of kernels, (k,), or None for all of them.
Which: TypeAlias = Sequence[int] | np.ndarray | None


class KernelStack(Protocol):
    """Gram matrices ``K_1`` to ``K_M`` of N samples. ``which`` is an index array; None stands for all kernels."""

    n_kernels: int
    n_samples: int
    #: Whether :meth:`summed` adds kernels entry by entry, or multiplies by one after the other.
    sums_entries: bool
    #: Whether several threads may ask at once.
    concurrent: bool
    #: Blocks of equal size on the diagonal of every kernel, beside which it is zero.
    n_parts: int

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        """``v' K_m v`` for each kernel, clipped at 0: (k,), from a vector (N,)."""

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """``K_m v_m`` for each kernel: (k, N), from one vector (N,) for all, or one each, (k, N)."""

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """``sum_p v_p' K_m v_p`` for each kernel, clipped at 0: (k,), from vectors (P, N)."""

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """``K_m v_p`` for each kernel: (k, P, N), from the vectors (P, N) for all, or some for each, (k, P, N)."""

    def combine(self, weights: Any, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        """``sum_m w_m K_m``: (N, N) float64, from weights (k,); or its rows of some samples, (s, N)."""

    def summed(self, weights: Any, which: Which = None) -> Any:
        """``sum_m w_m K_m`` as an operator: a :class:`WeightedSum`, in less memory than all its entries take."""

    def diagonals(self, which: Which = None) -> np.ndarray:
        """The diagonal of each kernel: (k, N)."""

    def traces(self, which: Which = None) -> np.ndarray:
        """The trace of each kernel: (k,)."""

    def restricted(self, samples: np.ndarray) -> KernelStack:
        """The same kernels on some of the samples, given by increasing indices."""


class OneByOne:
    """What a stack does with several vectors if it knows no better: one after the other."""

    n_parts = 1

    def block_quadratics(self: Any, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return sum(self.quadratics(vector, which) for vector in vectors)

    def block_products(self: Any, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return np.stack([self.products(part, which) for part in np.moveaxis(vectors, -2, 0)], axis=1)


class WeightedSum:
    """``sum_m w_m K_m`` as an operator: it needs no more memory than the kernels themselves.

    Parameters
    ----------
    kernels : KernelStack
    weights : array of shape (k,)
    which : int array of shape (k,), optional
    """

    def __init__(self, kernels: KernelStack, weights: Any, which: Which = None) -> None:
        self.kernels, self.weights, self.which = kernels, np.asarray(weights, dtype=np.float64), which

    def product(self, vector: np.ndarray) -> np.ndarray:
        """The sum times a vector: (N,)."""
        return self.weights @ self.kernels.products(vector, self.which)

    def block_product(self, vectors: np.ndarray) -> np.ndarray:
        """The sum times each of several vectors: (P, N)."""
        return np.tensordot(self.weights, self.kernels.block_products(vectors, self.which), axes=1)

    def rows(self, samples: np.ndarray) -> np.ndarray:
        """Rows of the sum: (s, N)."""
        return self.kernels.combine(self.weights, self.which, samples)

    def diagonal(self) -> np.ndarray:
        """(N,)."""
        return self.weights @ self.kernels.diagonals(self.which)


class DenseStack(OneByOne):
    """Gram matrices as one array.

    Parameters
    ----------
    grams : array of shape (M, N, N)
    """

    sums_entries = concurrent = True

    def __init__(self, grams: Sequence[np.ndarray] | np.ndarray) -> None:
        self.grams = grams
        self.n_kernels, self.n_samples = grams.shape[:2]

    @property
    def nbytes(self) -> int:
        """Bytes of the kernels."""
        return self.grams.nbytes

    def _chosen(self, which):
        return self.grams if which is None else self.grams[which]

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        return np.maximum(self.products(vector, which) @ vector, 0.0)

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        grams = self._chosen(which)
        if vectors.ndim == 1:
            return grams @ vectors
        return np.matmul(grams, vectors[:, :, None])[:, :, 0]

    def combine(self, weights: Any, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        grams = self._chosen(which)
        return np.tensordot(weights, grams if samples is None else grams[:, samples], axes=1)

    def summed(self, weights: Any, which: Which = None) -> Any:
        return WeightedSum(DenseStack(self.combine(weights, which)[None]), np.ones(1))

    def diagonals(self, which: Which = None) -> np.ndarray:
        return np.diagonal(self._chosen(which), axis1=1, axis2=2)

    def traces(self, which: Which = None) -> np.ndarray:
        return self.diagonals(which).sum(axis=1)

    def restricted(self, samples: np.ndarray) -> DenseStack:
        return DenseStack(np.asarray(self.grams)[:, samples[:, None], samples])


class RestrictedView(OneByOne):
    """The kernels of a stack on some of its samples, of which nothing is copied: vectors are filled up with zeros.

    Parameters
    ----------
    stack : KernelStack
    samples : int array of shape (n,)
        Increasing indices.
    """

    def __init__(self, stack: KernelStack, samples: np.ndarray) -> None:
        self.stack, self.samples = stack, np.asarray(samples)
        self.n_kernels, self.n_samples = stack.n_kernels, len(self.samples)
        self.sums_entries, self.concurrent = stack.sums_entries, stack.concurrent

    def restricted(self, samples: np.ndarray) -> RestrictedView:
        return RestrictedView(self.stack, self.samples[samples])

    def filled(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors (..., n) as vectors (..., N) of the whole stack."""
        full = np.zeros((*vectors.shape[:-1], self.stack.n_samples))
        full[..., self.samples] = vectors
        return full

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        return self.stack.quadratics(self.filled(vector), which)

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self.stack.products(self.filled(vectors), which)[:, self.samples]

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self.stack.block_quadratics(self.filled(vectors), which)

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self.stack.block_products(self.filled(vectors), which)[..., self.samples]

    def combine(self, weights: Any, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        # by rows, as all entries of the whole may not fit into memory
        chosen = self.samples if samples is None else self.samples[samples]
        return self.stack.combine(weights, which, chosen)[:, self.samples]

    def summed(self, weights: Any, which: Which = None) -> Any:
        return _RestrictedSum(self.stack.summed(weights, which), self)

    def diagonals(self, which: Which = None) -> np.ndarray:
        return self.stack.diagonals(which)[:, self.samples]

    def traces(self, which: Which = None) -> np.ndarray:
        return self.diagonals(which).sum(axis=1)


class _RestrictedSum:
    """A :class:`WeightedSum` on the samples of a view."""

    def __init__(self, whole: Any, view: RestrictedView) -> None:
        self.whole, self.view = whole, view

    def product(self, vector: np.ndarray) -> np.ndarray:
        return self.whole.product(self.view.filled(vector))[self.view.samples]

    def block_product(self, vectors: np.ndarray) -> np.ndarray:
        return self.whole.block_product(self.view.filled(vectors))[:, self.view.samples]

    def rows(self, samples: np.ndarray) -> np.ndarray:
        return self.whole.rows(self.view.samples[samples])[:, self.view.samples]

    def diagonal(self) -> np.ndarray:
        return self.whole.diagonal()[self.view.samples]


class _Parted:
    """A stack that consists of others; a subclass says of which."""

    n_kernels: int
    n_samples: int
    n_parts = 1

    def _parts(self, which: Which) -> Iterable[tuple[Any, Any, Any]]:
        """Each stack that has some of the kernels, their positions in ``which``, and their indices in that stack."""
        raise NotImplementedError

    def _gather(self, which, ask, *shape):
        """What ``ask(stack, positions, indices)`` returns of every part, in the order of ``which``: (k, ...)."""
        values = np.zeros((self.n_kernels if which is None else len(which), *shape))
        for stack, at, local in self._parts(which):
            values[at] = ask(stack, at, local)
        return values

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        return self._gather(which, lambda stack, at, local: stack.quadratics(vector, local))

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        def multiply(stack, at, local):
            return stack.products(vectors if np.ndim(vectors) == 1 else vectors[at], local)

        return self._gather(which, multiply, self.n_samples)

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self._gather(which, lambda stack, at, local: stack.block_quadratics(vectors, local))

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        def multiply(stack, at, local):
            return stack.block_products(vectors if np.ndim(vectors) == 2 else vectors[at], local)

        return self._gather(which, multiply, vectors.shape[-2], self.n_samples)

    def combine(self, weights: Any, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        total = np.zeros((self.n_samples if samples is None else len(samples), self.n_samples))
        for stack, at, local in self._parts(which):
            total += stack.combine(np.asarray(weights)[at], local, samples)
        return total

    def diagonals(self, which: Which = None) -> np.ndarray:
        return self._gather(which, lambda stack, at, local: stack.diagonals(local), self.n_samples)

    def traces(self, which: Which = None) -> np.ndarray:
        return self._gather(which, lambda stack, at, local: stack.traces(local))

    def summed(self, weights: Any, which: Which = None) -> Any:
        sums = [stack.summed(np.asarray(weights)[at], local) for stack, at, local in self._parts(which)]
        return _SumOfSums(self.n_samples, sums)


class ZeroedStack(_Parted):
    """A stack of which some kernels count as zero: these are never asked for.

    Parameters
    ----------
    stack : KernelStack
    kept : bool array of shape (M,)
        The kernels that are as they are.
    """

    def __init__(self, stack: Any, kept: np.ndarray) -> None:
        self.stack, self.kept = stack, np.asarray(kept, dtype=bool)
        self.n_kernels, self.n_samples = stack.n_kernels, stack.n_samples
        self.sums_entries, self.concurrent = stack.sums_entries, stack.concurrent

    def restricted(self, samples: np.ndarray) -> ZeroedStack:
        """The same on some of the samples, given by increasing indices."""
        return ZeroedStack(self.stack.restricted(samples), self.kept)

    def _parts(self, which):
        which = np.arange(self.n_kernels) if which is None else np.asarray(which, dtype=np.int64)
        at = np.flatnonzero(self.kept[which])
        return [(self.stack, at, which[at])] if len(at) else []


class MixedStack(_Parted):
    """Several stacks of the same samples as one.

    Parameters
    ----------
    stacks : sequence of KernelStack
    indices : int array of shape (M,), optional
        Where the kernels of the stacks, one stack after the other, come in the whole; in this order by default.
    """

    def __init__(self, stacks: Sequence[Any], indices: Any = None) -> None:
        self.stacks = list(stacks)
        if len({stack.n_samples for stack in self.stacks}) != 1:
            raise InputError("All stacks must be of the same samples.")
        self.n_samples = self.stacks[0].n_samples
        sizes = [stack.n_kernels for stack in self.stacks]
        self.n_kernels = sum(sizes)
        self.sums_entries = any(stack.sums_entries for stack in self.stacks)
        self.concurrent = all(stack.concurrent for stack in self.stacks)
        self.indices = indices = np.arange(self.n_kernels) if indices is None else np.asarray(indices)
        self._owner, self._local = np.empty((2, self.n_kernels), dtype=np.int64)
        self._owner[indices] = np.repeat(np.arange(len(sizes)), sizes)
        self._local[indices] = np.concatenate([np.arange(size) for size in sizes])

    @property
    def nbytes(self) -> int:
        """Bytes of all kernels."""
        return sum(stack.nbytes for stack in self.stacks)

    def restricted(self, samples: np.ndarray) -> MixedStack:
        """The same kernels on some of the samples, given by increasing indices."""
        return MixedStack([stack.restricted(samples) for stack in self.stacks], self.indices)

    def _parts(self, which):
        which = np.arange(self.n_kernels) if which is None else np.asarray(which, dtype=np.int64)
        owners = self._owner[which]
        found = ((stack, np.flatnonzero(owners == s)) for s, stack in enumerate(self.stacks))
        return [(stack, at, self._local[which[at]]) for stack, at in found if len(at)]


class _SumOfSums:
    """Several :class:`WeightedSum` as one."""

    def __init__(self, n_samples: int, sums: Sequence[Any]) -> None:
        self.n_samples, self.sums = n_samples, sums

    def product(self, vector: np.ndarray) -> np.ndarray:
        return sum((part.product(vector) for part in self.sums), np.zeros(self.n_samples))

    def block_product(self, vectors: np.ndarray) -> np.ndarray:
        return sum((part.block_product(vectors) for part in self.sums), np.zeros(vectors.shape))

    def rows(self, samples: np.ndarray | None) -> np.ndarray:
        shape = (self.n_samples if samples is None else len(samples), self.n_samples)
        return sum((part.rows(samples) for part in self.sums), np.zeros(shape))

    def diagonal(self) -> np.ndarray:
        return sum((part.diagonal() for part in self.sums), np.zeros(self.n_samples))
