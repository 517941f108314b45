"""Sources of the Gram matrices of batch estimators: kernels on the rows of an array, or precomputed
matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

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
    count_columns,
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
        n_own = X.shape[1] - n_absent
        own, names = (
            (X[:, :n_own], None if columns is None else columns[:n_own])
            if n_absent
            else (X, columns)
        )
        variables = _variables(names)
        if specs is None:
            specs = default_kernels(own, weights, variables)
        named = named_kernels(specs)
        if not named:
            raise InputError("kernels must hold at least one kernel.")
        self.names = [name for name, _ in named]
        placed = [kernel.placed(n_own, names) for _, kernel in named]
        if n_absent:
            if MISSING in self.names:
                raise InputError(
                    f"No kernel may be called {MISSING!r}, the name of the one on missing entries."
                )
            self.names.append(MISSING)
            placed = [
                kernel.restricted(slice(n_own)) if kernel.on is None else kernel
                for kernel in placed
            ]
            placed.append(Linear(on=slice(n_own, X.shape[1]), normalize="average"))
        dense = [name for name, kernel in named if not kernel.compares_sparse]
        if sparse.issparse(X) and dense:
            others = "linear, polynomial and Gaussian kernels, and Fourier features"
            raise InputError(
                f"The kernel {dense[0]!r} needs a dense array: sparse input is supported by {others}."
            )
        if variables is None:
            self.kernels = [kernel.fit(X, weights) for kernel in placed]
        else:
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
        form: Callable[..., KernelStack] = PackedStack.from_kernels
        self.ranks, others = _low_ranks(self.kernels, self.X, FACTOR_PART), "dense"
        if not packed_bytes_fit(len(self.kernels) - len(self.ranks), self.n_samples, dtype):
            self.ranks = _low_ranks(self.kernels, self.X, LARGEST_PART)
        n_others = len(self.kernels) - len(self.ranks)
        fit = packed_bytes_fit(n_others, self.n_samples, dtype)
        large = approximate == "auto" and packed_bytes(1, self.n_samples, dtype) > BUDGET
        if n_others and (large or not fit):
            self._approximate(dtype, large or approximate is True, fit)
        if n_others and not fit:
            form, others = LazyStack, "computed in every pass"
        factors = {self.names[m]: f"factor of rank {rank}" for m, rank in self.ranks.items()}
        self.representations = dict.fromkeys(self.names, others) | factors
        stored = [m for m in range(len(self.kernels)) if m not in self.ranks]
        stacks = [form([self.kernels[m] for m in stored], self.X, dtype)] if stored else []
        if self.ranks:
            stacks.append(
                FactoredStack.from_kernels([self.kernels[m] for m in self.ranks], self.X, dtype)
            )
        return stacks[0] if len(stacks) == 1 else MixedStack(stacks, stored + list(self.ranks))

    def _approximate(self, dtype: np.dtype, approximate: bool, fit: bool) -> None:
        """Approximate kernels that are large or do not fit into memory, unless it has no room for
        landmarks; warn.
        """
        n_others, X = len(self.kernels) - len(self.ranks), self.X
        n_landmarks = min(affordable_rank(len(self.kernels), self.n_samples, dtype), MOST_LANDMARKS)
        consequence = "computed anew in every pass over them."
        if approximate and n_landmarks >= LEAST_LANDMARKS:
            chosen = {
                m: Nystrom(k, n_landmarks).fit(X)
                for m, k in enumerate(self.kernels)
                if m not in self.ranks
            }
            left_out = {m: kernel.left_out(X) for m, kernel in chosen.items()}
            worst = max(left_out, key=left_out.__getitem__)
            consequence = (
                f"approximated by the Nyström method on {n_landmarks} landmarks, which leaves out "
                f"{left_out[worst]:.2g} of {self.names[worst]!r} and no more of the others "
                "(relative, in the trace norm)."
            )
            self.kernels = [chosen.get(m, kernel) for m, kernel in enumerate(self.kernels)]
            self.ranks = _ranks(self.kernels, X)
        size = "are large" if fit else "do not fit into memory"
        remedy = " approximate=False stores them exactly." if fit else ""
        message = (
            f"{n_others} kernels of {self.n_samples} samples {size}: they are {consequence}{remedy}"
        )
        warn_caller(message, MemoryWarning)

    def blocks(self, X: Vectors, active: np.ndarray) -> Iterator[tuple[slice, Iterator[Vectors]]]:
        """Yield ``(block, parts)``: a slice of the rows of X, and for each active kernel an array
        to multiply by
        :meth:`weights`.

        It holds values against the training samples, (n, N), or features (n, r) if the kernel is
        stored as a factor.
        """
        width = max((self.ranks.get(m, self.n_samples) for m in active), default=1)
        for block in row_blocks(X.shape[0], width, np.float64):
            yield block, self._parts(X[block], active)

    def _parts(self, X: Vectors, active: np.ndarray) -> Iterator[Vectors]:
        """Yield the parts of one block."""
        chosen = [self.kernels[m] for m in active if m not in self.ranks]
        # kernels that see the same columns share an object, so that cross_matrices computes
        # distances once
        views = {kernel.seen: (kernel.view(X), kernel.view(self.X)) for kernel in chosen}
        left, right = ([views[kernel.seen][side] for kernel in chosen] for side in (0, 1))
        between = cross_matrices(chosen, left, right)
        for m in active:
            yield self._features(X, m) if m in self.ranks else next(between)

    def weights(self, m: int, coefficients: np.ndarray) -> np.ndarray:
        """Return the weights of a kernel's values, i.e. its dual coefficients (N, P), or of its
        features, (r, P).
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
        """Return the columns that each kernel is on, each once; ``names`` are those of all columns."""
        return [
            tuple(dict.fromkeys(names[j] for j in kernel.places(len(names))))
            for kernel in self.kernels
        ]

    def _features(self, X: Vectors, m: int) -> Vectors:
        return self.kernels[m].features(self.kernels[m].view(X))

    def pack(self, packer: Packer, active: np.ndarray) -> dict[str, Any]:
        """Return JSON values for a model file; arrays go to the packer.

        Factors need no training inputs.
        """
        parts: Any = self.X
        if sparse.issparse(self.X):
            parts = (self.X.data, self.X.indices, self.X.indptr, self.X.shape)
        return {
            "kernels": {
                name: packer.pack(own, f"the kernel {name!r}")
                for name, own in zip(self.names, self.kernels)
            },
            "ranks": list(self.ranks.items()),
            "n_samples": self.n_samples,
            "X": None
            if self.ranks.keys() >= set(active)
            else packer.pack(parts, "the training inputs"),
        }

    @classmethod
    def unpack(cls, packed: dict[str, Any], unpacker: Unpacker) -> Self:
        """Restore a source from :meth:`pack`."""
        source = object.__new__(cls)
        source.names = list(packed["kernels"])
        source.kernels = [unpacker.unpack(kernel) for kernel in packed["kernels"].values()]
        source.X = unpacker.unpack(packed["X"])
        if isinstance(source.X, tuple):
            *csr, shape = source.X
            source.X = sparse.csr_array(tuple(csr), shape=shape)
        source.ranks, source.n_samples = dict(packed["ranks"]), packed["n_samples"]
        return source


class GivenMatrices:
    """Precomputed Gram matrices; the methods are those of :class:`ArrayKernels`.

    Parameters
    ----------
    grams : mapping, sequence or array
        Matrices of the training samples, in a form accepted by :class:`~omkl.kernels.GramMatrices`.
    n_given : int
        Number of targets.
    kept : int array of shape (N,), optional
        Indices of the samples to learn from; all by default.
    """

    #: No matrix is stored as a factor.
    ranks: ClassVar[dict[int, int]] = {}

    def __init__(self, grams: MatricesLike, n_given: int, kept: np.ndarray | None = None) -> None:
        self.n_given, self.kept = n_given, kept
        self.n_samples = n_given if kept is None else len(kept)
        if (delayed := _delayed(grams)) is not None:  # checked by the workers that compute them
            check_kernel_names(delayed)
            self.names, self.matrices = list(delayed), list(delayed.values())
            self.representations = dict.fromkeys(self.names, "dense, on workers")
            return
        grams = GramMatrices(_kernels_last(grams, n_given))
        if grams.shape[:2] != (n_given, n_given) or any(
            matrix is None for matrix in grams.matrices
        ):
            accepted = f"matrices ({n_given}, {n_given}) for {n_given} targets"
            raise InputError(f"Precomputed kernels must be {accepted}, not {grams.shape[:2]}.")
        self.names = grams.names
        self.matrices = (grams if kept is None else grams[np.ix_(kept, kept)]).matrices
        self.representations = dict.fromkeys(self.names, "dense")

    def stack(
        self, dtype: np.dtype, approximate: bool | str, client: Client | None = None
    ) -> KernelStack:
        """Check and pack the matrices; they are never approximated."""
        are_delayed = is_collection(*self.matrices)
        if client is None and not are_delayed:
            return PackedStack.from_grams(self.matrices, dtype)
        from omkl.distributed.stack import DistributedStack

        kept = self.kept if are_delayed else None  # others were cut here
        n_given = self.n_given if are_delayed else None
        return DistributedStack.from_grams(self.matrices, client, dtype, n_given=n_given, kept=kept)

    def of_prediction(self, grams: MatricesLike) -> GramMatrices:
        """Return matrices of test against training samples in the order of the kernels, matched by
        name if named.
        """
        if (
            isinstance(grams, GramMatrices)
            and grams.names != GramMatrices(list(grams.matrices)).names
        ):
            grams = dict(zip(grams.names, grams.matrices))
        if isinstance(grams, Mapping):
            unknown = [name for name in grams if name not in self.names]
            if unknown:
                raise InputError(
                    f"The model has no kernel {unknown[0]!r}; there are {', '.join(self.names[:5])}."
                )
            grams = {name: grams.get(name) for name in self.names}
        grams = GramMatrices(_kernels_last(grams, self.n_given, len(self.names)))
        if grams.shape[1:] != (self.n_given, len(self.names)):
            raise InputError(
                f"The model was trained on {len(self.names)} matrices of {self.n_given} samples, and predicts from one "
                f"matrix (n, {self.n_given}) per kernel, not from an array {grams.shape}."
            )
        return grams

    def blocks(
        self, grams: GramMatrices, active: np.ndarray
    ) -> Iterator[tuple[slice, Iterator[Vectors]]]:
        """Yield the whole matrices as one block; they may be None for inactive kernels."""
        missing = [self.names[m] for m in active if grams.matrices[m] is None]
        if missing:
            raise InputError(
                f"The kernel {missing[0]!r} is in the model, but its matrix is missing."
            )
        columns = slice(None) if self.kept is None else self.kept
        yield (
            slice(None),
            (np.asarray(grams.matrices[m], dtype=np.float64)[:, columns] for m in active),
        )

    def columns(self, names: Sequence[Any]) -> list[tuple]:
        """Raise an InputError."""
        raise InputError(
            "Shapes and pairs of columns need kernels on columns, and the model has Gram matrices."
        )

    def pack(self, packer: Packer, active: np.ndarray) -> dict[str, Any]:
        """Return JSON values for a model file, without the matrices."""
        kept = None if self.kept is None else packer.pack(self.kept, "the samples of weight > 0")
        return {
            "names": self.names,
            "n_samples": self.n_samples,
            "n_given": self.n_given,
            "kept": kept,
        }

    @classmethod
    def unpack(cls, packed: dict[str, Any], unpacker: Unpacker) -> Self:
        """Restore a source from :meth:`pack`, without matrices."""
        source = object.__new__(cls)
        source.names, source.n_samples, source.n_given = (
            list(packed["names"]),
            packed["n_samples"],
            packed["n_given"],
        )
        source.kept = None if packed["kept"] is None else unpacker.unpack(packed["kept"])
        return source


def _kernels_last(
    grams: MatricesLike, n_samples: int, n_kernels: int | None = None
) -> MatricesLike:
    """Return an array (M, n, N) as (n, N, M), unless it may have this form already; others are
    unchanged.
    """
    if not isinstance(grams, np.ndarray) or grams.ndim != 3:
        return grams
    form = n_samples, len(grams) if n_kernels is None else n_kernels
    return np.moveaxis(grams, 0, -1) if grams.shape[::-2] == form != grams.shape[1:] else grams


def _delayed(grams: Any) -> dict[str, Any] | None:
    """Return Gram matrices that are Dask objects by name: a dict, a list, or an array (M, N, N);
    None for others.
    """
    if is_collection(grams):
        grams = list(grams) if getattr(grams, "ndim", 2) == 3 else [grams]
    if not isinstance(grams, Mapping):
        grams = (
            {f"kernel {m}": gram for m, gram in enumerate(grams)}
            if isinstance(grams, Sequence)
            else {}
        )
    return dict(grams) if is_collection(*grams.values()) else None


#: Source of the Gram matrices of an estimator.
KernelSource: TypeAlias = ArrayKernels | GivenMatrices


def summed(source: KernelSource, X: Any, weights: np.ndarray) -> np.ndarray:
    """Return the sum of all kernels times their weights (M,), between inputs and the training
    samples, (n, N).
    """
    active, total = np.flatnonzero(weights), np.zeros((X.shape[0], source.n_samples))
    for block, parts in source.blocks(X, active):
        for m, part in zip(active.tolist(), parts):
            if isinstance(source, ArrayKernels) and m in source.ranks:
                part = part @ source.training_features(m).T
            total[block] += weights[m] * part
    return total


def is_precomputed(specs: KernelSpecs | None) -> bool:
    """Return whether inputs are Gram matrices instead of vectors."""
    return isinstance(specs, str) and specs == "precomputed"


def _variables(columns: Sequence[str] | None) -> Sequence[Any] | None:
    """Return the variable that each column encodes; None if each is a variable of its own."""
    if columns is None or len(set(columns)) == len(columns):
        return None
    return columns


def default_kernels(
    X: Vectors, weights: np.ndarray | None, variables: Sequence[Any] | None = None
) -> dict[str, Kernel]:
    """Return linear, quadratic and Gaussian kernels at two scales, for estimators without
    ``kernels``.

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
MOST_LANDMARKS, LEAST_LANDMARKS = 500, 20


def precision(dtype: DTypeLike, n_kernels: int, n_samples: int, tol: float) -> np.dtype:
    """Return the precision of stored kernels; "auto" is double precision up to 64 MiB, and for
    small tolerances.
    """
    if str(dtype) != "auto":
        return np.dtype(dtype)
    single = tol >= COARSE and packed_bytes(n_kernels, n_samples, np.float64) > SMALL
    return np.dtype(np.float32 if single else np.float64)


def _low_ranks(kernels: list[Kernel], X: Vectors, part: float) -> dict[int, int]:
    """Return ranks of kernels to store as factors: of low rank relative to the samples, or explicit
    on request.
    """
    explicit, ranks = [kernel.explicit for kernel in kernels], _ranks(kernels, X).items()
    return {
        m: rank
        for m, rank in ranks
        if (rank <= part * X.shape[0] if explicit[m] is None else explicit[m])
    }


def _ranks(kernels: list[Kernel], X: Vectors) -> dict[int, int]:
    """Return the dimensions of feature maps of kernels on their columns, without kernels that have
    none for X.
    """
    maps = {
        m: kernel
        for m, kernel in enumerate(kernels)
        if kernel.maps_sparse or not sparse.issparse(X)
    }
    counts = {
        m: own.feature_count(count_columns(own.columns(X.shape[1]), X.shape[1]))
        for m, own in maps.items()
    }
    return {m: count for m, count in counts.items() if count is not None}
