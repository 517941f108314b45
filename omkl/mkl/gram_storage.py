"""Storage of kernels on training samples: dense, low rank or on demand; problems and solutions with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl._components import check_n_jobs, warn_caller
from omkl.batch.mkl.out_of_sample import helpful_kernels, sampled
from omkl.batch.mkl.problem import Expansion, Problem, shared_problem, smallest_c
from omkl.batch.solver import PathPoint, Solution, is_number_of_values, ordered, regularization_path
from omkl.estimators.batch import GapProgress
from omkl.exceptions import InputError, MemoryWarning
from omkl.kernels import FactoredStack, KernelStack, LazyStack, MixedStack, Nystrom, PackedStack
from omkl.kernels.base import Kernel
from omkl.kernels.inputs import Vectors, count_columns
from omkl.kernels.low_rank import affordable_rank
from omkl.kernels.packed import BUDGET, packed_bytes, packed_bytes_fit
from omkl.kernels.stack import RestrictedView
from omkl.mkl.tasks import Encoded, Settings, target_columns

#: C is below: sums of weighted losses must not overflow.
LARGEST_C = 1e100
#: Bytes in double precision up to which ``dtype="auto"`` stores kernels in it.
SMALL = 2**26
#: Smallest tolerance for which ``dtype="auto"`` stores larger kernels in single precision.
COARSE = 1e-4
#: Largest rank of a feature map, relative to the number of samples, for which solving with a factor is as fast as with
#: the Gram matrix.
FACTOR_PART = 1 / 16
#: The same where Gram matrices do not fit into memory: a factor of this rank takes no more of it.
LARGEST_PART = 1 / 2
#: Bounds of the number of landmarks that approximate kernels which do not fit into memory.
MOST_LANDMARKS, LEAST_LANDMARKS = 500, 20


@dataclass(frozen=True)
class StoredKernels:
    """Kernels on training samples, and the settings of all problems with them.

    Attributes
    ----------
    stack : KernelStack
    settings : Settings
    selects : bool
        Whether kernels that do not help out of sample are set to zero.
    kept : bool array of shape (M,), optional
        The kernels that :meth:`selected` has kept; None before.
    """

    stack: KernelStack
    settings: Settings
    selects: bool = False
    kept: np.ndarray | None = None

    def on(self, samples: np.ndarray | None, n_copies: int = 1) -> StoredKernels:
        """Return the kernels on some samples; copied if ``n_copies`` of them fit into memory.

        Parameters
        ----------
        samples : int array of shape (n,) or None
            Increasing; None stands for all.
        n_copies : int
        """
        if samples is None:
            return self
        fits = packed_bytes_fit(n_copies * self.stack.n_kernels, len(samples), np.float64)
        return replace(self, stack=self.stack.restricted(samples) if fits else RestrictedView(self.stack, samples))

    def selected(self, encoded: Encoded) -> StoredKernels:
        """Set kernels that do not help out of sample to zero; keep all if none helps.

        Parameters
        ----------
        encoded : Encoded
            The problems on these samples.
        """
        if not self.selects:
            return self
        targets = target_columns(encoded.tasks, len(encoded.weights))
        samples, weights = sampled(targets, encoded.weights, self.stack.n_kernels)
        some = self.on(None if len(samples) == len(targets) else samples)
        return self.keeping(helpful_kernels(some.stack, targets[samples], weights))

    def keeping(self, kept: np.ndarray | None) -> StoredKernels:
        """Set all other kernels to zero.

        Parameters
        ----------
        kept : bool array of shape (M,) or None
            None, or a mask without a kernel, keeps all.
        """
        if kept is None:
            return self
        return replace(self, stack=MixedStack([self.stack], kept=kept) if kept.any() else self.stack, kept=kept)

    def n_threads(self, n_jobs: int | None) -> int:
        """Return the number of threads for ``n_jobs``; 1 if the stack does not support concurrent calls.

        Parameters
        ----------
        n_jobs : int or None
        """
        check_n_jobs(n_jobs)
        return effective_n_jobs(n_jobs) if self.stack.concurrent else 1

    def problems(self, encoded: Encoded, C: float = 1.0) -> Iterator[Problem]:
        """Generate the problems of a fit; targets (N, P) make one problem with kernel weights in common.

        Parameters
        ----------
        encoded : Encoded
            The targets on these samples.
        C : float
        """
        own = self.settings
        for rows, target in encoded.tasks:
            weights = encoded.weights if rows is None else encoded.weights[rows]
            make = shared_problem if target.ndim == 2 else Problem
            # one after the other, as each may hold a copy of the kernels on its samples
            yield make(self.on(rows).stack, target, own.loss, own.regularizer, C, own.intercept, weights)

    def solve(self, encoded: Encoded, C: float, verbose: bool = False) -> list[Solution]:
        """Solve the problems of a fit.

        Parameters
        ----------
        encoded : Encoded
        C : float
        verbose : bool
            Show a progress bar for each problem.
        """
        solver, tol, max_iter = self.settings.solver, self.settings.tol, self.settings.max_iter
        solutions = []
        for problem in self.problems(encoded, C):
            with GapProgress(verbose, "kernels") as progress:
                solutions.append(solver.solve(problem, tol, max_iter, None, progress))
        return solutions

    def paths(self, encoded: Encoded, Cs: np.ndarray) -> list[list[PathPoint]]:
        """Solve each problem of a fit for increasing values of C, each from the solution before.

        Parameters
        ----------
        encoded : Encoded
        Cs : array of shape (n_Cs,)
        """
        own = self.settings
        return [
            list(regularization_path(own.solver, problem, Cs, own.tol, own.max_iter))
            for problem in self.problems(encoded)
        ]

    def path_values(self, encoded: Encoded, C: int | ArrayLike) -> np.ndarray:
        """Return increasing values of C.

        Parameters
        ----------
        encoded : Encoded
        C : int or array
            A number of values spans three decades above the C at which a kernel enters.
        """
        if is_number_of_values(C):
            first = min(map(smallest_c, self.problems(encoded)))
            C = np.geomspace(1.0, 1e3, C) * (first if np.isfinite(first) else 1.0)
        values = ordered(C)
        if values[-1] >= LARGEST_C:
            raise InputError(f"C must be below {LARGEST_C:g}, got {values[-1]:g}.")
        return values

    def outputs(self, model: Expansion, samples: np.ndarray) -> np.ndarray:
        """Return outputs (N,) for all samples, of a model that was learned on some of them.

        Parameters
        ----------
        model : Expansion
        samples : int array of shape (n,)
        """
        if not len(model.active):
            return np.full(self.stack.n_samples, model.intercept)
        vectors = RestrictedView(self.stack, samples).filled(model.coefficients)
        return model.intercept + self.stack.products(vectors, model.active).sum(axis=0)


def precision(dtype: DTypeLike, n_kernels: int, n_samples: int, tol: float) -> np.dtype:
    """Return the precision of stored kernels.

    Parameters
    ----------
    dtype : {"auto", "float32", "float64"} or numpy type
        "auto" is double precision up to 64 MiB, and for small tolerances.
    n_kernels, n_samples : int
    tol : float
    """
    if str(dtype) != "auto":
        return np.dtype(dtype)
    single = tol >= COARSE and packed_bytes(n_kernels, n_samples, np.float64) > SMALL
    return np.dtype(np.float32 if single else np.float64)


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
    n_samples = X.shape[0]
    ranks = _low_ranks(kernels, X, FACTOR_PART)
    if not packed_bytes_fit(len(kernels) - len(ranks), n_samples, dtype):
        ranks = _low_ranks(kernels, X, LARGEST_PART)
    n_others = len(kernels) - len(ranks)
    if not n_others or packed_bytes_fit(n_others, n_samples, dtype):
        return Representation(kernels, ranks, _stack(kernels, ranks, PackedStack.from_kernels, X, dtype), "dense")
    if approximate == "auto":
        approximate = packed_bytes(1, n_samples, dtype) > BUDGET
    n_landmarks = min(affordable_rank(len(kernels), n_samples, dtype), MOST_LANDMARKS)
    consequence = "computed anew in every pass over them."
    if approximate and n_landmarks >= LEAST_LANDMARKS:
        approximated = [k if m in ranks else Nystrom(k, n_landmarks).fit(X) for m, k in enumerate(kernels)]
        left_out = {m: k.left_out(X) for m, k in enumerate(approximated) if isinstance(k, Nystrom) and m not in ranks}
        worst = max(left_out, key=left_out.__getitem__)
        consequence = (
            f"approximated by the Nyström method on {n_landmarks} landmarks, which leaves out {left_out[worst]:.2g} "
            f"of {names[worst]!r} and no more of the others (relative, in the trace norm)."
        )
        kernels = approximated
        ranks = {m: rank for m, kernel in enumerate(kernels) if (rank := _rank(kernel, X)) is not None}
    warn_caller(
        f"{n_others} kernels of {n_samples} samples do not fit into memory: they are {consequence}", MemoryWarning
    )
    return Representation(kernels, ranks, _stack(kernels, ranks, LazyStack, X, dtype), "computed in every pass")


def _low_ranks(kernels: list[Kernel], X: Vectors, part: float) -> dict[int, int]:
    """Return ranks of kernels to store as factors: at most this part of the samples, or asked for by the kernel."""
    ranks = {m: _rank(kernel, X) for m, kernel in enumerate(kernels)}
    return {
        m: rank
        for m, rank in ranks.items()
        if rank is not None and (rank <= part * X.shape[0] if kernels[m].explicit is None else kernels[m].explicit)
    }


def _rank(kernel: Kernel, X: Vectors) -> int | None:
    """Return the dimension of a kernel's feature map on its columns; None if it has none, or none for sparse input."""
    if sparse.issparse(X) and not kernel.maps_sparse:
        return None
    n_columns = X.shape[1]
    return kernel.feature_count(count_columns(kernel.columns(n_columns), n_columns))


def _stack(
    kernels: list[Kernel], ranks: dict[int, int], form: Callable[..., KernelStack], X: Vectors, dtype: DTypeLike
) -> KernelStack:
    """Return one stack of all kernels: factors, and ``form`` of all others."""
    others = [m for m in range(len(kernels)) if m not in ranks]
    stacks = [form([kernels[m] for m in others], X, dtype)] if others else []
    if ranks:
        stacks.append(FactoredStack.from_kernels([kernels[m] for m in ranks], X, dtype))
    return stacks[0] if len(stacks) == 1 else MixedStack(stacks, others + list(ranks))
