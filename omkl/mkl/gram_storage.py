"""Storage of kernels on training samples: dense, low rank or on demand, in single or double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from omkl._components import check_n_jobs, warn_caller
from omkl.batch import (
    Expansion,
    PathPoint,
    Problem,
    Solution,
    Solver,
    helpful_kernels,
    regularization_path,
    sampled,
    shared_problem,
    smallest_c,
)
from omkl.batch.mkl.problem import rounding_of_storage
from omkl.batch.path import is_number_of_values, ordered
from omkl.exceptions import InputError, MemoryWarning
from omkl.kernels import FactoredStack, KernelStack, LazyStack, MixedStack, Nystrom, PackedStack
from omkl.kernels.base import Kernel
from omkl.kernels.checks import affordable_rank, packed_bytes, packed_bytes_fit
from omkl.kernels.inputs import Vectors, count_columns
from omkl.kernels.packed import BUDGET
from omkl.kernels.stack import RestrictedView
from omkl.losses import PointwiseLoss
from omkl.mkl.tasks import Task
from omkl.regularizers import Regularizer

Result = TypeVar("Result")
#: C is below: sums of weighted losses must not overflow.
LARGEST_C = 1e100
#: Bytes in double precision up to which ``dtype="auto"`` stores kernels in it.
SMALL = 2**26
#: Share of the tolerance that rounding in single precision may use up.
ROUNDING_SHARE = 0.1
#: Largest rank of a feature map, relative to the number of samples, for which solving with a factor is as fast as with
#: the Gram matrix.
FACTOR_PART = 1 / 16
#: The same where Gram matrices do not fit into memory: a factor of this rank takes no more of it.
LARGEST_PART = 1 / 2
#: Bounds of the number of landmarks that approximate kernels which do not fit into memory.
MOST_LANDMARKS, LEAST_LANDMARKS = 500, 20


class PrecisionError(Exception):
    """Single precision does not suffice to certify a solution."""


class Settings(NamedTuple):
    """Parameters of a batch estimator as objects."""

    loss: PointwiseLoss
    regularizer: Regularizer
    solver: Solver
    intercept: bool
    tol: float
    max_iter: int | None


@dataclass
class StoredKernels:
    """Kernels on training samples, and the settings of all problems with them.

    Attributes
    ----------
    stack : KernelStack
    settings : Settings
    rounds : bool
        Whether storage rounds the kernels.
    automatic : bool
        Whether double precision may be used instead.
    selects : bool
        Whether kernels that do not help out of sample are set to zero.
    kept : bool array of shape (M,), optional
        The kernels that :meth:`selected` has kept; None before.
    errors : list of float
        Share of each duality gap that may be due to rounding.
    """

    stack: KernelStack
    settings: Settings
    rounds: bool
    automatic: bool
    selects: bool = False
    kept: np.ndarray | None = None
    errors: list[float] = field(default_factory=list)

    def on(self, samples: np.ndarray | None, n_copies: int = 1) -> StoredKernels:
        """The kernels on some samples; copied if ``n_copies`` of them fit into memory."""
        if samples is None:
            return self
        fits = packed_bytes_fit(n_copies * self.stack.n_kernels, len(samples), np.float64)
        return replace(self, stack=self.stack.restricted(samples) if fits else RestrictedView(self.stack, samples))

    def helpful(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        """Mask (M,) of the kernels that help out of sample on targets (N, P); None if all are to be kept."""
        if not self.selects:
            return None
        samples, weights = sampled(targets, weights, self.stack.n_kernels)
        return helpful_kernels(
            self.on(None if len(samples) == len(targets) else samples).stack, targets[samples], weights
        )

    def keeping(self, kept: np.ndarray | None) -> StoredKernels:
        """Set all other kernels to zero; if ``kept`` has none, keep all."""
        if kept is None:
            return self
        return replace(self, stack=MixedStack([self.stack], kept=kept) if kept.any() else self.stack, kept=kept)

    def selected(self, targets: np.ndarray, weights: np.ndarray) -> StoredKernels:
        """Set kernels that do not help out of sample to zero."""
        return self.keeping(self.helpful(targets, weights))

    def n_threads(self, n_jobs: int | None) -> int:
        """Number of threads for ``n_jobs``; 1 if the stack does not support concurrent calls."""
        check_n_jobs(n_jobs)
        return effective_n_jobs(n_jobs) if self.stack.concurrent else 1

    def problem(self, target: np.ndarray, weights: np.ndarray, C: float = 1.0) -> Problem:
        """The problem of a target (N,), or (N, P) of several outputs that share kernel weights."""
        loss, regularizer, _, intercept, *_ = self.settings
        make = shared_problem if target.ndim == 2 else Problem
        return make(self.stack, target, loss, regularizer, C, intercept, weights)

    def solve(
        self, target: np.ndarray, weights: np.ndarray, C: float, listener: Any = None, start: Any = None
    ) -> Solution:
        """Solve for one C; rounding is included in the gap."""
        problem = self.problem(target, weights, C)
        solution = self.settings.solver.solve(problem, self.settings.tol, self.settings.max_iter, start, listener)
        self._include_rounding(problem, [solution])
        return solution

    def path(self, target: np.ndarray, weights: np.ndarray, Cs: int | ArrayLike) -> list[PathPoint]:
        """Solve for increasing values of C, each from the solution before."""
        problem, own = self.problem(target, weights), self.settings
        points = list(regularization_path(own.solver, problem, Cs, own.tol, own.max_iter))
        self._include_rounding(problem, [point.solution for point in points])
        return points

    def path_values(self, tasks: Sequence[Task], weights: np.ndarray, C: int | ArrayLike) -> np.ndarray:
        """Increasing values of C; a number of them spans three decades above the C at which a kernel enters."""
        if is_number_of_values(C):
            problems = (
                self.on(rows).problem(target, weights if rows is None else weights[rows]) for rows, target in tasks
            )
            first = min(map(smallest_c, problems))
            C = np.geomspace(1.0, 1e3, C) * (first if np.isfinite(first) else 1.0)
        values = ordered(C)
        if values[-1] >= LARGEST_C:
            raise InputError(f"C must be below {LARGEST_C:g}, got {values[-1]:g}.")
        return values

    def outputs(self, model: Expansion, samples: np.ndarray) -> np.ndarray:
        """Outputs (N,) for all samples, of a model that was learned on some of them."""
        if not len(model.active):
            return np.full(self.stack.n_samples, model.intercept)
        vectors = RestrictedView(self.stack, samples).filled(model.coefficients)
        return model.intercept + self.stack.products(vectors, model.active).sum(axis=0)

    def _include_rounding(self, problem: Problem, solutions: Sequence[Solution]) -> None:
        """Add the possible effect of rounding to the gaps, or raise a PrecisionError if it is too large."""
        if not self.rounds:
            return
        errors, tol = [rounding_of_storage(problem, solution) for solution in solutions], self.settings.tol
        rounded = max([*self.errors, *errors]) > ROUNDING_SHARE * tol
        if self.automatic and (rounded or not all(solution.certificate.proves(tol) for solution in solutions)):
            raise PrecisionError
        self.errors += errors
        if rounded:
            for solution, error in zip(solutions, errors):
                solution.certificate = solution.certificate.lowered(error)


def with_stored_kernels(
    source: Any, settings: Settings, dtype: Any, approximate: bool | str, selects: bool, client: Any,
    work: Callable[[StoredKernels], Result],
) -> Result:  # fmt: skip
    """Return ``work(kernels)``, with kernels in the precision that the tolerance needs.

    Parameters
    ----------
    source : ArrayKernels or GivenMatrices
    settings : Settings
    dtype, approximate
        Parameters of the estimator.
    selects : bool
        See :class:`StoredKernels`.
    client : dask.distributed.Client or None
        Distributes the kernels over its workers.
    work : callable
        Called again in double precision if single precision does not suffice.
    """
    automatic = str(dtype) == "auto"
    small = packed_bytes(len(source.names), source.n_samples, np.float64) <= SMALL
    own = np.dtype(np.float64 if small else np.float32) if automatic else np.dtype(dtype)
    bound = settings._replace(regularizer=settings.regularizer.bind(source.names))
    while True:
        stack = source.stack(own, approximate) if client is None else source.distributed_stack(own, client)
        kernels = StoredKernels(stack, bound, own == np.float32 and source.rounds, automatic, selects)
        try:
            result = work(kernels)
            break
        except PrecisionError:
            own = np.dtype(np.float64)
    if max(kernels.errors, default=0.0) > ROUNDING_SHARE * settings.tol:
        warn_caller(
            f"Rounding in single precision may change the relative duality gap by {max(kernels.errors):.1g}, which has "
            'been added to it: choose dtype="float64".',
            ConvergenceWarning,
        )
    return result


# ---- representations --------------------------------------------------------------------------------------------


class Representation(NamedTuple):
    """Kernels on training samples, and how they are stored.

    Attributes
    ----------
    kernels : list of Kernel
        Fitted; some replaced by approximations if there is too little memory.
    ranks : dict of int to int
        Number of dimensions of the kernels that are stored as factors.
    stack : KernelStack
    others : str
        How all other kernels are stored.
    """

    kernels: list[Kernel]
    ranks: dict[int, int]
    stack: KernelStack
    others: str

    @property
    def descriptions(self) -> list[str]:
        """Storage of each kernel, in words."""
        return [f"factor of rank {self.ranks[m]}" if m in self.ranks else self.others for m in range(len(self.kernels))]


def represent(
    names: list[str], kernels: list[Kernel], X: Vectors, dtype: DTypeLike, approximate: bool | str
) -> Representation:
    """Choose the cheapest storage of kernels that fits into memory.

    Parameters
    ----------
    names : list of str
        Names of the kernels, for the warning if some do not fit.
    kernels : list of Kernel
        Fitted to their columns of X.
    X : array of shape (N, d)
    dtype : {numpy.float32, numpy.float64}
    approximate : {"auto", True, False}
        Whether kernels that do not fit are approximated: see :class:`~omkl.MKLClassifier`.

    Returns
    -------
    Representation
    """
    ranks = _low_ranks(kernels, X, FACTOR_PART)
    if not packed_bytes_fit(len(kernels) - len(ranks), X.shape[0], dtype):
        ranks = _low_ranks(kernels, X, LARGEST_PART)
    n_others = len(kernels) - len(ranks)
    if not n_others or packed_bytes_fit(n_others, X.shape[0], dtype):
        return Representation(kernels, ranks, _stack(kernels, ranks, PackedStack.from_kernels, X, dtype), "dense")
    if approximate == "auto":
        approximate = packed_bytes(1, X.shape[0], dtype) > BUDGET
    n_landmarks = min(affordable_rank(len(kernels), X.shape[0], dtype), MOST_LANDMARKS)
    consequence = "computed anew in every pass over them."
    if approximate and n_landmarks >= LEAST_LANDMARKS:
        kernels, left_out = _approximations(names, kernels, ranks, X, n_landmarks)
        ranks = {m: rank for m, kernel in enumerate(kernels) if (rank := _rank(kernel, X)) is not None}
        consequence = (
            f"approximated by the Nyström method on {n_landmarks} landmarks, which leaves out {left_out} (relative, in "
            "the trace norm). Set features= in a kernel's string for another approximation, or approximate=False."
        )
    warn_caller(
        f"{n_others} kernels of {X.shape[0]} samples do not fit into memory: they are {consequence}", MemoryWarning
    )
    return Representation(kernels, ranks, _stack(kernels, ranks, LazyStack, X, dtype), "computed in every pass")


def _low_ranks(kernels: list[Kernel], X: Vectors, part: float) -> dict[int, int]:
    """Ranks of the kernels to store as factors: of at most this part of the samples, or those that ask for it."""
    ranks = {m: _rank(kernel, X) for m, kernel in enumerate(kernels)}
    return {
        m: rank
        for m, rank in ranks.items()
        if rank is not None and (rank <= part * X.shape[0] if kernels[m].explicit is None else kernels[m].explicit)
    }


def _rank(kernel: Kernel, X: Vectors) -> int | None:
    """Dimension of a kernel's feature map on its columns; None if it has none, or none for sparse input."""
    if sparse.issparse(X) and not kernel.maps_sparse:
        return None
    n_columns = X.shape[1]
    return kernel.feature_count(count_columns(kernel.columns(n_columns), n_columns))


def _stack(
    kernels: list[Kernel], ranks: dict[int, int], form: Callable[..., KernelStack], X: Vectors, dtype: DTypeLike
) -> KernelStack:
    """One stack of all kernels: factors, and ``form`` of all others."""
    others = [m for m in range(len(kernels)) if m not in ranks]
    stacks = [form([kernels[m] for m in others], X, dtype)] if others else []
    if ranks:
        stacks.append(FactoredStack.from_kernels([kernels[m] for m in ranks], X, dtype))
    return stacks[0] if len(stacks) == 1 else MixedStack(stacks, others + list(ranks))


def _approximations(
    names: list[str], kernels: list[Kernel], ranks: dict[int, int], X: Vectors, n_landmarks: int
) -> tuple[list[Kernel], str]:
    """Replace kernels that are not factors by Nyström approximations; also returns their errors, in words."""
    approximated, left_out = list(kernels), {}
    for m, kernel in enumerate(kernels):
        if m not in ranks:
            approximated[m] = nystrom = Nystrom(kernel, n_landmarks).fit(X)
            left_out[names[m]] = nystrom.left_out(X)
    worst = sorted(left_out, key=left_out.__getitem__, reverse=True)
    told = ", ".join(f"{left_out[name]:.2g} of {name!r}" for name in worst[:3])
    return approximated, told + (", less of the others" if len(worst) > 3 else "")
