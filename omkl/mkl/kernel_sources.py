"""Sources of Gram matrices of batch estimators: kernels on an array's rows, or given matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl._components import warn_caller
from omkl.data.blocks import is_collection
from omkl.estimators.validation import MISSING
from omkl.exceptions import InputError, MemoryWarning
from omkl.kernels.base import Kernel, cross_matrices
from omkl.kernels.feature_maps import Nystrom
from omkl.kernels.functions import Gaussian, Linear, Polynomial
from omkl.kernels.gram import GramMatrices, MatricesLike, check_kernel_names, check_kernels
from omkl.kernels.inputs import (
    Vectors,
    check_magnitudes,
    median_distance,
    row_blocks,
    squared_distances,
)
from omkl.kernels.packed import BUDGET, LazyStack, PackedStack, packed_bytes, packed_bytes_fit
from omkl.kernels.specs import KernelSpecs, named_kernels
from omkl.kernels.stack import FactoredStack, KernelStack, MixedStack, affordable_rank
from omkl.persistence import Packer, Unpacker

if TYPE_CHECKING:
    from omkl.distributed.stack import Client

#: Inputs of batch estimators: vectors as rows, or Gram matrices.
KernelInputs: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix | MatricesLike
#: The same after checks.
CheckedInputs: TypeAlias = Vectors | GramMatrices


class KernelBlock(NamedTuple):
    """Values of the active kernels for a block of rows.

    ``rows`` are the rows of the inputs; ``values`` yields for each active kernel an array to
    multiply by its weights: values against the training samples, (n, N), or features (n, r) if the
    kernel is stored as a factor.
    """

    rows: slice
    values: Iterator[Vectors]


class ArrayKernels:
    """Kernels on the rows of one array.

    Parameters
    ----------
    specs : sequence, mapping or None
        Kernels as objects or strings, with names if it is a mapping. ``on`` selects columns. None
        are the default ones.
    X : array or CSR matrix of shape (N, d)
        Training inputs, to which the kernels are fitted.
    columns : sequence of str or None
        Names of the columns.
    n_absent : int
        Number of last columns that tell which entries are missing: they have a kernel of their own,
        "missing".
    weights : array of shape (N,)
        Weights of the rows in the scales of standardized columns.

    Attributes
    ----------
    names : list of str
    kernels : list of Kernel
        Fitted kernels; :meth:`stack` may replace some by approximations.
    ranks : dict of int to int
        Number of features of the kernels stored as factors.
    representations : dict of str to str
        Storage of each kernel.
    """

    def __init__(
        self,
        specs: KernelSpecs | None,
        X: Vectors,
        columns: Sequence[str] | None,
        n_absent: int,
        weights: np.ndarray,
    ) -> None:
        n_columns = X.shape[1] - n_absent  # without those that tell which entries are missing
        names = None if columns is None else columns[:n_columns]
        variables: Sequence[Any] | None = None
        if names is not None and len(set(names)) < len(names):
            variables = names  # the columns of a category share its name
        if specs is None:
            specs = default_kernels(X[:, :n_columns], weights, variables)
        named = named_kernels(specs)
        if not named:
            raise InputError("kernels must hold at least one kernel.")
        self.names = [name for name, _ in named]
        placed = [kernel.placed(n_columns, names) for _, kernel in named]
        if n_absent:
            if MISSING in self.names:
                raise InputError(
                    f"No kernel may be called {MISSING!r}, the name of the one on missing entries."
                )
            for k, kernel in enumerate(placed):
                if kernel.on is None:
                    placed[k] = kernel.restricted(slice(n_columns))
            self.names.append(MISSING)
            placed.append(Linear(on=slice(n_columns, X.shape[1]), normalize="average"))
        need_dense = [name for name, kernel in named if not kernel.compares_sparse]
        if sparse.issparse(X) and need_dense:
            raise InputError(
                f"The kernel {need_dense[0]!r} needs a dense array: sparse input is supported by "
                "linear, polynomial and Gaussian kernels, and Fourier features."
            )
        if variables is not None:
            variables = [*variables, *range(n_absent)]
        self.kernels = [kernel.fit(X, weights, variables) for kernel in placed]
        check_kernels(self.names, self.kernels, X)
        # a copy in C order: predictions do not depend on the memory layout of the inputs
        self.X = X.tocsr(copy=True) if sparse.issparse(X) else np.array(X, order="C")
        self.n_samples: int = X.shape[0]
        self.ranks: dict[int, int] = {}
        self.representations: dict[str, str] = {}

    def stack(
        self, dtype: np.dtype, approximate: bool | str, client: Client | None = None
    ) -> KernelStack:
        """Store the kernels on the training samples, on the workers of ``client`` if given."""
        if client is not None:
            from omkl.distributed.stack import DistributedStack

            self.representations = dict.fromkeys(self.names, "dense, on workers")
            return DistributedStack.from_kernels(self.kernels, self.X, client, dtype)
        self.ranks = _low_ranks(self.kernels, self.X, FACTOR_PART)
        if not packed_bytes_fit(len(self.kernels) - len(self.ranks), self.n_samples, dtype):
            self.ranks = _low_ranks(self.kernels, self.X, LARGEST_PART)
        n_others = len(self.kernels) - len(self.ranks)
        fit = packed_bytes_fit(n_others, self.n_samples, dtype)
        are_large = packed_bytes(1, self.n_samples, dtype) > BUDGET and approximate == "auto"
        if n_others and (are_large or not fit):
            self._approximate(dtype, are_large or approximate is True, fit)
        make_stack: Callable[..., KernelStack] = PackedStack.from_kernels
        representation = "dense"
        if not fit:
            make_stack = LazyStack
            representation = "computed in every pass"
        self.representations = dict.fromkeys(self.names, representation)
        for m, rank in self.ranks.items():
            self.representations[self.names[m]] = f"factor of rank {rank}"
        without_factor = [m for m in range(len(self.kernels)) if m not in self.ranks]
        stacks = []
        if without_factor:
            stacks.append(make_stack([self.kernels[m] for m in without_factor], self.X, dtype))
        if self.ranks:
            with_factor = [self.kernels[m] for m in self.ranks]
            stacks.append(FactoredStack.from_kernels(with_factor, self.X, dtype))
        if len(stacks) == 1:
            return stacks[0]
        return MixedStack(stacks, without_factor + list(self.ranks))

    def _approximate(self, dtype: np.dtype, approximate: bool, fit: bool) -> None:
        """Approximate kernels, if ``approximate`` and memory has room for landmarks; warn.

        ``fit`` tells whether they fit into memory as they are.
        """
        X = self.X
        n_others = len(self.kernels) - len(self.ranks)
        n_landmarks = min(affordable_rank(len(self.kernels), self.n_samples, dtype), MOST_LANDMARKS)
        consequence = "computed anew in every pass over them."
        if approximate and n_landmarks >= LEAST_LANDMARKS:
            left_out = {}
            for m, kernel in enumerate(self.kernels):
                if m not in self.ranks:
                    approximation = Nystrom(kernel, n_landmarks).fit(X)
                    left_out[m] = approximation.left_out(X)
                    self.kernels[m] = approximation
            worst = max(left_out, key=left_out.__getitem__)
            consequence = (
                f"approximated by the Nyström method on {n_landmarks} landmarks, which leaves out "
                f"{left_out[worst]:.2g} of {self.names[worst]!r} and no more of the others "
                "(relative, in the trace norm)."
            )
            self.ranks = _ranks(self.kernels, X)
        size = "do not fit into memory"
        remedy = ""
        if fit:
            size = "are large"
            remedy = " approximate=False stores them exactly."
        warn_caller(
            f"{n_others} kernels of {self.n_samples} samples {size}: "
            f"they are {consequence}{remedy}",
            MemoryWarning,
        )

    def blocks(self, X: Vectors, active: np.ndarray) -> Iterator[KernelBlock]:
        """Yield the values of the active kernels for blocks of the rows of X (n, d)."""
        width = max((self.ranks.get(m, self.n_samples) for m in active), default=1)
        for rows in row_blocks(X.shape[0], width, np.float64):
            yield KernelBlock(rows=rows, values=self._values(X[rows], active))

    def _values(self, X: Vectors, active: np.ndarray) -> Iterator[Vectors]:
        """Yield the values or features of each active kernel for the rows of a block."""
        compared = [self.kernels[m] for m in active if m not in self.ranks]
        # kernels that see the same columns share an object, so that cross_matrices computes
        # distances once
        views = {kernel.view_key: (kernel.view(X), kernel.view(self.X)) for kernel in compared}
        rows = [views[kernel.view_key][0] for kernel in compared]
        training_rows = [views[kernel.view_key][1] for kernel in compared]
        matrices = cross_matrices(compared, rows, training_rows)
        for m in active:
            if m in self.ranks:
                yield self._features(X, m)
            else:
                yield next(matrices)

    def weights(self, m: int, coefficients: np.ndarray) -> np.ndarray:
        """Return the weights of a kernel's values, its dual coefficients (N, P), or of features.

        Weights of features are (r, P).
        """
        if m not in self.ranks:
            return coefficients
        blocks = row_blocks(self.n_samples, self.ranks[m], np.float64)
        return sum(self._features(self.X[block], m).T @ coefficients[block] for block in blocks)

    def training_features(self, m: int) -> Vectors:
        """Return the features of the training samples, (N, r), of a kernel stored as a factor."""
        if self.X is None:
            raise InputError(
                "The model file has no training inputs, which are needed here: fit the model again."
            )
        return self._features(self.X, m)

    def columns(self, names: Sequence[Any]) -> list[tuple]:
        """Return the columns that each kernel is on, without repetition, by ``names`` of all."""
        columns = []
        for kernel in self.kernels:
            names_of_kernel = [names[j] for j in kernel.places(len(names))]
            columns.append(tuple(dict.fromkeys(names_of_kernel)))
        return columns

    def _features(self, X: Vectors, m: int) -> Vectors:
        return self.kernels[m].features(self.kernels[m].view(X))

    def pack(self, packer: Packer, active: np.ndarray) -> dict[str, Any]:
        """Return JSON values for a model file; arrays go to the packer.

        Factors need no training inputs.
        """
        kernels = {}
        for name, kernel in zip(self.names, self.kernels):
            kernels[name] = packer.pack(kernel, f"the kernel {name!r}")
        inputs: Any = None
        if not self.ranks.keys() >= set(active):
            inputs = self.X
            if sparse.issparse(self.X):
                inputs = (self.X.data, self.X.indices, self.X.indptr, self.X.shape)
        return {
            "kernels": kernels,
            "ranks": list(self.ranks.items()),
            "n_samples": self.n_samples,
            "X": packer.pack(inputs, "the training inputs"),
        }

    @classmethod
    def unpack(cls, packed: dict[str, Any], unpacker: Unpacker) -> Self:
        """Restore a source from :meth:`pack`."""
        source = object.__new__(cls)
        source.names = list(packed["kernels"])
        source.kernels = [unpacker.unpack(kernel) for kernel in packed["kernels"].values()]
        source.X = unpacker.unpack(packed["X"])
        if isinstance(source.X, tuple):
            *arrays, shape = source.X
            source.X = sparse.csr_array(tuple(arrays), shape=shape)
        source.ranks = dict(packed["ranks"])
        source.n_samples = packed["n_samples"]
        return source


class GivenMatrices:
    """Precomputed Gram matrices; the methods are those of :class:`ArrayKernels`.

    Parameters
    ----------
    grams : mapping, sequence or array
        Matrices of the training samples, in a form accepted by :class:`~omkl.kernels.GramMatrices`.
    n_given : int
        Number of targets.
    samples : int array of shape (N,), optional
        Indices of the samples to learn from; all by default.
    """

    #: No matrix is stored as a factor.
    ranks: ClassVar[dict[int, int]] = {}

    def __init__(
        self, grams: MatricesLike, n_given: int, samples: np.ndarray | None = None
    ) -> None:
        self.n_given = n_given
        self.samples = samples
        self.n_samples = n_given if samples is None else len(samples)
        delayed = _delayed(grams)
        if delayed is not None:  # checked by the workers that compute them
            check_kernel_names(delayed)
            self.names = list(delayed)
            self.matrices = list(delayed.values())
            self.representations = dict.fromkeys(self.names, "dense, on workers")
            return
        grams = GramMatrices(_kernels_last(grams, n_given))
        is_square = grams.shape[:2] == (n_given, n_given)
        if not is_square or any(matrix is None for matrix in grams.matrices):
            accepted = f"matrices ({n_given}, {n_given}) for {n_given} targets"
            raise InputError(f"Precomputed kernels must be {accepted}, not {grams.shape[:2]}.")
        if samples is not None:
            grams = grams[np.ix_(samples, samples)]
        self.names = grams.names
        self.matrices = grams.matrices
        self.representations = dict.fromkeys(self.names, "dense")

    def stack(
        self, dtype: np.dtype, approximate: bool | str, client: Client | None = None
    ) -> KernelStack:
        """Check and pack the matrices; they are never approximated."""
        are_delayed = is_collection(*self.matrices)
        if client is None and not are_delayed:
            return PackedStack.from_grams(self.matrices, dtype)
        from omkl.distributed.stack import DistributedStack

        if not are_delayed:  # they have been cut to the samples
            return DistributedStack.from_grams(self.matrices, client, dtype)
        return DistributedStack.from_grams(
            self.matrices, client, dtype, n_rows=self.n_given, samples=self.samples
        )

    def of_prediction(self, grams: MatricesLike) -> GramMatrices:
        """Return matrices of test against training samples in the order of the kernels.

        If they have names, they are matched by name.
        """
        if isinstance(grams, GramMatrices):
            names_by_default = GramMatrices(list(grams.matrices)).names
            if grams.names != names_by_default:
                grams = dict(zip(grams.names, grams.matrices))
        if isinstance(grams, Mapping):
            unknown = [name for name in grams if name not in self.names]
            if unknown:
                raise InputError(
                    f"The model has no kernel {unknown[0]!r}; there are "
                    f"{', '.join(self.names[:5])}."
                )
            grams = {name: grams.get(name) for name in self.names}
        grams = GramMatrices(_kernels_last(grams, self.n_given, len(self.names)))
        if grams.shape[1:] != (self.n_given, len(self.names)):
            raise InputError(
                f"The model was trained on {len(self.names)} matrices of {self.n_given} samples, "
                f"and predicts from one matrix (n, {self.n_given}) per kernel, not from an array "
                f"{grams.shape}."
            )
        return grams

    def blocks(self, grams: CheckedInputs, active: np.ndarray) -> Iterator[KernelBlock]:
        """Yield the whole matrices as one block; they may be None for inactive kernels."""
        missing = [self.names[m] for m in active if grams.matrices[m] is None]
        if missing:
            raise InputError(
                f"The kernel {missing[0]!r} is in the model, but its matrix is missing."
            )
        yield KernelBlock(rows=slice(None), values=self._values(grams, active))

    def _values(self, grams: CheckedInputs, active: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the matrix of each active kernel, without samples of weight 0."""
        columns = slice(None) if self.samples is None else self.samples
        for m in active:
            yield np.asarray(grams.matrices[m], dtype=np.float64)[:, columns]

    def columns(self, names: Sequence[Any]) -> list[tuple]:
        """Raise an InputError: Gram matrices have no columns."""
        raise InputError(
            "Shapes and pairs of columns need kernels on columns, and the model has Gram matrices."
        )

    def pack(self, packer: Packer, active: np.ndarray) -> dict[str, Any]:
        """Return JSON values for a model file, without the matrices."""
        return {
            "names": self.names,
            "n_samples": self.n_samples,
            "n_given": self.n_given,
            "kept": packer.pack(self.samples, "the samples of weight > 0"),
        }

    @classmethod
    def unpack(cls, packed: dict[str, Any], unpacker: Unpacker) -> Self:
        """Restore a source from :meth:`pack`, without matrices."""
        source = object.__new__(cls)
        source.names = list(packed["names"])
        source.n_samples = packed["n_samples"]
        source.n_given = packed["n_given"]
        source.samples = unpacker.unpack(packed["kept"])
        return source


def _kernels_last(
    grams: MatricesLike, n_samples: int, n_kernels: int | None = None
) -> MatricesLike:
    """Return an array (M, n, N) as (n, N, M), and other forms as they are."""
    if not isinstance(grams, np.ndarray) or grams.ndim != 3:
        return grams
    if n_kernels is None:
        n_kernels = len(grams)
    has_kernels_first = (grams.shape[2], grams.shape[0]) == (n_samples, n_kernels)
    may_have_them_last = grams.shape[1:] == (n_samples, n_kernels)
    if has_kernels_first and not may_have_them_last:
        return np.moveaxis(grams, 0, -1)
    return grams


def _delayed(grams: MatricesLike) -> dict[str, Any] | None:
    """Return Gram matrices of Dask by name, from a dict, a list, or an array (M, N, N); else None.

    The array may be a single matrix (N, N).
    """
    if is_collection(grams):
        if isinstance(grams, Iterable) and getattr(grams, "ndim", 2) == 3:
            grams = list(grams)
        else:
            grams = [grams]
    if isinstance(grams, Sequence):
        grams = {f"kernel {m}": gram for m, gram in enumerate(grams)}
    if not isinstance(grams, Mapping) or not is_collection(*grams.values()):
        return None
    return dict(grams)


#: Source of the Gram matrices of an estimator.
KernelSource: TypeAlias = ArrayKernels | GivenMatrices


def summed(source: KernelSource, X: CheckedInputs, weights: np.ndarray) -> np.ndarray:
    """Return the sum (n, N) of all kernels times their weights (M,), for n inputs."""
    active = np.flatnonzero(weights)
    total = np.zeros((X.shape[0], source.n_samples))
    for block in source.blocks(X, active):
        for m, values in zip(active.tolist(), block.values):
            if isinstance(source, ArrayKernels) and m in source.ranks:
                values = values @ source.training_features(m).T
            total[block.rows] += weights[m] * values
    return total


def is_precomputed(specs: KernelSpecs | None) -> bool:
    """Return whether inputs are Gram matrices instead of vectors."""
    return isinstance(specs, str) and specs == "precomputed"


def default_kernels(
    X: Vectors, weights: np.ndarray | None, variables: Sequence[Any] | None = None
) -> dict[str, Kernel]:
    """Return linear, quadratic and Gaussian kernels at two scales, the default ``kernels``.

    They see standardized columns, unless X is sparse. Linear and quadratic kernels keep the lengths
    of rows, so that functions of degree one and two can be learned exactly. So that columns of
    equal units, such as pixels, keep their relative scales, linear and quadratic kernels of rows of
    length one also see columns divided by their ranges. Gaussian kernels narrower than the median
    distance would get all weight, since they fit the training rows best, and overfit. ``variables``
    are those that the columns encode, as for :meth:`omkl.kernels.Kernel.fit`.
    """
    check_magnitudes(X, "gaussian")
    standardize = not sparse.issparse(X)
    seen = Linear(standardize=standardize).fit(X, weights, variables).view(X)
    median = 0.5 * median_distance(seen, squared_distances)
    widths = {"gaussian:median": median, "gaussian:3 x median": 3.0 * median}
    gaussians = {name: Gaussian(width, standardize=standardize) for name, width in widths.items()}
    if not standardize:
        return {"linear": Linear(), "quadratic": Polynomial(), **gaussians}
    # the mean squared length: each variable that is not constant adds 1
    squared_length = float(np.count_nonzero(seen.any(axis=0)))
    if variables is not None:
        squared_length = float(np.average(np.square(seen).sum(axis=1), weights=weights))
    squared_length = max(squared_length, 1.0)
    return {
        "linear": Linear(normalize="average", standardize=True),
        "quadratic": Polynomial(gamma=1.0 / squared_length, normalize="average", standardize=True),
        **gaussians,
        "linear:ranges": Linear(standardize="range"),
        "quadratic:ranges": Polynomial(standardize="range"),
    }


# ---- storage -------------------------------------------------------------------------------------


#: Largest size in double precision, in bytes, at which ``dtype="auto"`` uses double precision.
SMALL = 2**26
#: Smallest tolerance at which ``dtype="auto"`` stores larger kernels in single precision.
COARSE = 1e-4
#: Largest rank of a feature map, relative to the number of samples, for which solving with a factor
#: is as fast as with the Gram matrix.
FACTOR_PART = 1 / 16
#: The same if Gram matrices do not fit into memory: a factor of this rank is no larger than the
#: matrix.
LARGEST_PART = 1 / 2
#: Maximum and minimum number of landmarks to approximate kernels that do not fit into memory.
MOST_LANDMARKS = 500
LEAST_LANDMARKS = 20


def precision(dtype: DTypeLike, n_kernels: int, n_samples: int, tol: float) -> np.dtype:
    """Return the precision of stored kernels.

    "auto" is double precision up to 64 MiB, and for small tolerances.
    """
    if str(dtype) != "auto":
        return np.dtype(dtype)
    is_large = packed_bytes(n_kernels, n_samples, np.float64) > SMALL
    return np.dtype(np.float32 if is_large and tol >= COARSE else np.float64)


def _low_ranks(kernels: list[Kernel], X: Vectors, part: float) -> dict[int, int]:
    """Return the ranks of kernels to store as factors, by index.

    They are explicit on request, or have a low rank: at most ``part`` of the number of samples.
    """
    low_ranks = {}
    for m, rank in _ranks(kernels, X).items():
        is_explicit = kernels[m].explicit
        if is_explicit is None:
            is_explicit = rank <= part * X.shape[0]
        if is_explicit:
            low_ranks[m] = rank
    return low_ranks


def _ranks(kernels: list[Kernel], X: Vectors) -> dict[int, int]:
    """Return the dimensions of the feature maps of kernels, by index.

    Kernels that have no feature map for X (N, d) are left out.
    """
    n_columns = X.shape[1]
    ranks = {}
    for m, kernel in enumerate(kernels):
        if kernel.maps_sparse or not sparse.issparse(X):
            rank = kernel.feature_count(len(kernel.places(n_columns)))
            if rank is not None:
                ranks[m] = rank
    return ranks
