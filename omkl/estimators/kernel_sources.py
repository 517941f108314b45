"""Where the Gram matrices of a batch estimator come from: kernels on the rows of an array, or matrices given."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from scipy import sparse

from omkl.estimators.encoding import KernelSpecs, named_kernels
from omkl.estimators.representations import represent
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, PackedStack
from omkl.kernels.base import Kernel, Vectors
from omkl.kernels.columns import find_columns, take_columns
from omkl.kernels.gram import cross_matrices, row_blocks


class ArrayKernels:
    """Kernels on the rows of one array.

    Parameters
    ----------
    specs : sequence or mapping
        Kernels as objects or strings, with names if it is a mapping. ``on`` selects columns.
    X : array or CSR matrix of shape (N, d)
        Training inputs; kernels learn from them what they need.
    columns : sequence of str, optional
        What the columns are called.
    """

    def __init__(self, specs, X: Vectors, columns: Sequence[str] | None = None):
        named = named_kernels(specs)
        if not named:
            raise InputError("There is nothing to learn from: give at least one kernel.")
        self.names = [name for name, _ in named]
        placed = [kernel.placed(X.shape[1], columns) for _, kernel in named]
        if sparse.issparse(X):
            _refuse_dense(self.names, placed)
        self.kernels = [kernel.fit(X) for kernel in placed]
        # its own, and in one order: what it predicts does not depend on where inputs lie in memory
        self.X = X.tocsr(copy=True) if sparse.issparse(X) else np.array(X, order="C")
        self.n_samples = X.shape[0]

    def stack(self, dtype, approximate):
        """The kernels on the training samples, held as is cheapest; from now on predictions are with them as held."""
        held = represent(self.names, self.kernels, self.X, dtype, approximate)
        self.kernels, self.ranks = held.kernels, held.ranks
        self.representations = dict(zip(self.names, held.described))
        return held.stack

    def distributed_stack(self, dtype, client):
        """The Gram matrices on the training samples, on the workers of a Dask client."""
        from omkl.distributed import DistributedStack

        self.ranks, self.representations = {}, dict.fromkeys(self.names, "dense, on workers")
        return DistributedStack.from_kernels(self.kernels, self.X, client, dtype)

    def n_rows(self, X: Vectors) -> int:
        """Number of samples to predict."""
        return X.shape[0]

    def blocks(self, X, active):
        """Yield ``(block, parts)``: a slice of the rows of X, and for each active kernel what :meth:`weights` multiply.

        That is its values against the training samples, (n, N), or its features (n, r) where it is held as a factor.
        """
        others = [m for m in active if m not in self.ranks]
        width = max((self.ranks.get(m, self.n_samples) for m in active), default=1)
        for block in row_blocks(X.shape[0], width, np.float64):
            between = self._between(X[block], self.X, others)
            yield block, (self._features(X[block], m) if m in self.ranks else next(between) for m in active)

    def weights(self, m, coefficients):
        """What predicts with a kernel, from its dual coefficients (N, P): these, or (r, P) weights of its features."""
        if m not in self.ranks:
            return coefficients
        blocks = row_blocks(self.n_samples, self.ranks[m], np.float64)
        return sum(self._features(self.X[block], m).T @ coefficients[block] for block in blocks)

    def _features(self, X, m):
        return self.kernels[m].features(_columns(X, self.kernels[m]))

    def pack(self, packer, active):
        """What prediction needs, as JSON values; arrays go to the packer. Factors do without the training inputs."""
        return {
            "kernels": {name: packer.pack(kernel, f"the kernel {name!r}") for name, kernel in self._components()},
            "ranks": list(self.ranks.items()),
            "n_samples": self.n_samples,
            "X": None if self.ranks.keys() >= set(active) else _packed(self.X, packer),
        }

    def _components(self):
        return zip(self.names, self.kernels)

    @classmethod
    def unpack(cls, packed, unpacker):
        """The inverse of :meth:`pack`."""
        source = object.__new__(cls)
        source.names = list(packed["kernels"])
        source.kernels = [unpacker.unpack(kernel) for kernel in packed["kernels"].values()]
        source.X = unpacker.unpack(packed["X"])
        if isinstance(source.X, tuple):
            *csr, shape = source.X
            source.X = sparse.csr_array(tuple(csr), shape=shape)
        source.ranks, source.n_samples = dict(packed["ranks"]), packed["n_samples"]
        return source

    def _between(self, X, Y, active):
        chosen = [self.kernels[k] for k in active]
        # kernels that are on the same columns share one object, and so what cross_matrices computes once a pair
        views = {str(kernel.on): kernel for kernel in chosen}
        views = {on: (_columns(X, kernel), _columns(Y, kernel)) for on, kernel in views.items()}
        pairs = [views[str(kernel.on)] for kernel in chosen]
        return cross_matrices(chosen, [left for left, _ in pairs], [right for _, right in pairs])


class GivenMatrices:
    """Gram matrices computed by the user; the methods are those of :class:`ArrayKernels`.

    Parameters
    ----------
    grams : sequence of M arrays of shape (N, N), or one array of shape (M, N, N)
    n_samples : int
        The number N of targets.
    """

    #: None is a factor.
    ranks: ClassVar[dict] = {}

    def __init__(self, grams, n_samples):
        self.matrices = grams
        self.n_samples = n_samples
        if not hasattr(grams, "__len__") or len(grams) == 0 or np.shape(grams[0]) != (n_samples, n_samples):
            shape = np.shape(grams[0]) if hasattr(grams, "__len__") and len(grams) else None
            raise InputError(
                f"Precomputed kernels must be a list of M arrays ({n_samples}, {n_samples}), or one array "
                f"(M, {n_samples}, {n_samples}), for {n_samples} targets; the first has shape {shape}."
            )
        self.names = [f"kernel {m}" for m in range(len(grams))]
        self.representations = dict.fromkeys(self.names, "dense")

    def distributed_stack(self, dtype, client):
        """The matrices, checked and packed, on the workers of a Dask client."""
        from omkl.distributed import DistributedStack

        return DistributedStack.from_grams(self.matrices, client, dtype)

    def stack(self, dtype, approximate):
        """The matrices, checked and packed."""
        return PackedStack.from_grams(self.matrices, dtype)

    def n_rows(self, matrices):
        """Number of samples to predict."""
        if len(matrices) != len(self.names):
            raise InputError(
                f"There are {len(matrices)} matrices, but the model was trained on {len(self.names)}: give one array "
                "(n, N) a kernel, of test against training samples; None where the kernel is not active."
            )
        given = [np.shape(matrix)[0] for matrix in matrices if matrix is not None]
        if not given or min(given) != max(given):
            raise InputError("The matrices of a prediction must have the same number of rows, and not all be None.")
        return given[0]

    def blocks(self, matrices, active):
        """The values of test samples against training samples, as the user gives them; inactive ones may be None."""
        chosen = {}
        for m in active:
            matrix = np.asarray(matrices[m], dtype=np.float64)
            if matrix.ndim != 2 or matrix.shape[1] != self.n_samples:
                raise InputError(
                    f"The matrix of {self.names[m]} has shape {matrix.shape}, not (n, {self.n_samples}): give its "
                    "values between test and training samples."
                )
            chosen[m] = matrix
        yield slice(None), chosen.values()

    def weights(self, m, coefficients):
        """The dual coefficients (N, P) themselves."""
        return coefficients

    def pack(self, packer, active):
        """What prediction needs, as JSON values: the matrices themselves are not."""
        return {"n_kernels": len(self.names), "n_samples": self.n_samples}

    @classmethod
    def unpack(cls, packed, unpacker):
        """The inverse of :meth:`pack`; what is unpacked predicts, and cannot train."""
        source = object.__new__(cls)
        source.matrices, source.n_samples = None, packed["n_samples"]
        source.names = [f"kernel {m}" for m in range(packed["n_kernels"])]
        return source


def unpack_source(packed, unpacker):
    """The source of a model file."""
    return (ArrayKernels if "kernels" in packed else GivenMatrices).unpack(packed, unpacker)


def _columns(X: Vectors, kernel: Kernel) -> Vectors:
    """The columns that a kernel is on."""
    return take_columns(X, find_columns(kernel.on, X.shape[1], kernel=kernel.name))


def _packed(X, packer):
    """Training inputs for a model file: an array, or the three of a CSR matrix and its shape."""
    what = "the training inputs"
    return packer.pack((X.data, X.indices, X.indptr, X.shape) if sparse.issparse(X) else X, what)


def compares_sparse(specs: KernelSpecs) -> bool:
    """Whether these kernels all take sparse input."""
    try:
        return specs != "precomputed" and all(kernel.compares_sparse for _, kernel in named_kernels(specs))
    except InputError:
        return False


def _refuse_dense(names, kernels):
    for name, kernel in zip(names, kernels):
        if not kernel.compares_sparse:
            raise InputError(
                f"The kernel {name!r} needs a dense array: on sparse input there are linear, polynomial and Gaussian "
                "kernels, and Fourier features."
            )


def default_kernels(X: Vectors) -> dict[str, str | Kernel]:
    """Linear, quadratic and Gaussian kernels at five scales: what is learned from where the user names none."""
    width = Gaussian().fit(X).width_
    scales = {f"gaussian:{factor:g} x median": Gaussian(factor * width) for factor in (0.1, 0.3, 1.0, 3.0, 10.0)}
    return {"linear": "linear", "quadratic": "quadratic", **scales}
