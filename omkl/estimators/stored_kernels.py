"""Kernels as they are stored: in which precision, on which samples, and what that leaves of a duality gap."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from omkl._components import check_n_jobs
from omkl.batch import (
    Expansion,
    PathPoint,
    Problem,
    Solution,
    Solver,
    each_output,
    helpful_kernels,
    regularization_path,
    sampled,
    shared_problem,
)
from omkl.batch.mkl.problem import rounding_of_storage
from omkl.kernels import KernelStack
from omkl.kernels.checks import packed_bytes, packed_bytes_fit
from omkl.kernels.stack import RestrictedView, ZeroedStack
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

Result = TypeVar("Result")
#: Kernels of at most so many bytes in double precision are held in it, if dtype is "auto".
SMALL = 2**26
#: Part of the tolerance that the rounding of kernels in single precision may make up.
ROUNDING_SHARE = 0.1


class PrecisionError(Exception):
    """What was solved with kernels in single precision does not prove what it should."""


@dataclass
class StoredKernels:
    """Kernels as they are stored, and what all problems with them have in common.

    Attributes
    ----------
    stack : KernelStack
    loss, regularizer, solver, intercept, tol, max_iter
        Of the estimator.
    rounds : bool
        Whether storage rounds the kernels.
    automatic : bool
        Whether double precision may be asked for.
    chooses : bool
        Whether kernels that do not help on samples left out count as zero.
    kept : bool array of shape (M,), optional
        The kernels that :meth:`chosen` has found to help; None where it has not been asked.
    errors : list of float
        How much of each duality gap rounding may make up.
    """

    stack: KernelStack
    loss: PointwiseLoss
    regularizer: Regularizer
    solver: Solver
    intercept: bool
    tol: float
    max_iter: int | None
    rounds: bool
    automatic: bool
    chooses: bool = False
    kept: np.ndarray | None = None
    errors: list[float] = field(default_factory=list)

    def on(self, samples: np.ndarray | None, n_copies: int = 1) -> StoredKernels:
        """The same on some samples: a copy, where there is memory for ``n_copies`` of it."""
        if samples is None:
            return self
        fits = packed_bytes_fit(n_copies * self.stack.n_kernels, len(samples), np.float64)
        return replace(self, stack=self.stack.restricted(samples) if fits else RestrictedView(self.stack, samples))

    def helpful(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        """Which kernels help on samples left out, (M,); None where all are to stay. Of targets (N, P)."""
        if not self.chooses:
            return None
        samples, weights = sampled(targets, weights, self.stack.n_kernels)
        return helpful_kernels(
            self.on(None if len(samples) == len(targets) else samples).stack, targets[samples], weights
        )

    def keeping(self, kept: np.ndarray | None) -> StoredKernels:
        """The same with kernels that are not kept as zero; where none helps, with all of them."""
        if kept is None:
            return self
        return replace(self, stack=ZeroedStack(self.stack, kept) if kept.any() else self.stack, kept=kept)

    def chosen(self, targets: np.ndarray, weights: np.ndarray) -> StoredKernels:
        """The same with the kernels that do not help on samples left out as zero."""
        return self.keeping(self.helpful(targets, weights))

    def n_threads(self, n_jobs: int | None) -> int:
        """Of how many threads a user asks, as scikit-learn counts them; one where kernels answer no two at once."""
        check_n_jobs(n_jobs)
        return effective_n_jobs(n_jobs) if self.stack.concurrent else 1

    def problem(self, target: np.ndarray, weights: np.ndarray, C: float = 1.0) -> Problem:
        """The problem of a target (N,); of several outputs with kernel weights in common, (N, P)."""
        if target.ndim == 2:
            return shared_problem(self.stack, target, self.loss, self.regularizer, C, self.intercept, weights)
        return Problem(self.stack, target, self.loss, self.regularizer, C, self.intercept, weights)

    def solve(
        self, target: np.ndarray, weights: np.ndarray, C: float, listener: Any = None, start: Any = None
    ) -> Solution:
        """The solution at one C, its gap as storage leaves it."""
        problem = self.problem(target, weights, C)
        solution = self.solver.solve(problem, self.tol, self.max_iter, start, listener)
        self._hold_against(problem, [solution])
        return solution

    def path(self, target: np.ndarray, weights: np.ndarray, Cs: int | ArrayLike) -> list[PathPoint]:
        """The solutions along a path, each from the one before."""
        problem = self.problem(target, weights)
        points = list(regularization_path(self.solver, problem, Cs, self.tol, self.max_iter))
        self._hold_against(problem, [point.solution for point in points])
        return points

    def outputs(self, model: Expansion, samples: np.ndarray) -> np.ndarray:
        """Predictions for all samples, (N,), of a model that was learned on some of them."""
        if not len(model.active):
            return np.full(self.stack.n_samples, model.intercept)
        vectors = RestrictedView(self.stack, samples).filled(model.coefficients)
        return model.intercept + self.stack.products(vectors, model.active).sum(axis=0)

    def _hold_against(self, problem: Problem, solutions: Sequence[Solution]) -> None:
        """Add to gaps what the rounding of kernels may have left out, or ask for double precision."""
        if not self.rounds:
            return
        errors = [rounding_of_storage(problem, solution) for solution in solutions]
        rounded = max([*self.errors, *errors]) > ROUNDING_SHARE * self.tol
        if self.automatic and (rounded or not all(solution.certificate.proves(self.tol) for solution in solutions)):
            raise PrecisionError
        self.errors += errors
        if rounded:
            for solution, error in zip(solutions, errors):
                solution.certificate = solution.certificate.lowered(error)


def target_columns(targets: list, n_samples: int) -> np.ndarray:
    """The targets of all problems as columns (N, P), 0 for samples that a problem has not; of (rows, target)."""
    if targets[0][1].ndim == 2:
        return targets[0][1]
    columns = np.zeros((n_samples, len(targets)))
    for column, (rows, target) in zip(columns.T, targets):
        column[slice(None) if rows is None else rows] = target
    return columns


def of_each_output(targets: list, solutions: list[Solution]) -> tuple[list, list[Solution]]:
    """Targets and solutions, of which one of several outputs is replaced by one for each."""
    if targets[0][1].ndim == 1:
        return targets, solutions
    columns = targets[0][1].T
    return [(None, column) for column in columns], each_output(solutions[0], len(columns))


def informative(target: np.ndarray, of_classes: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Columns of a target of several classes, or labels, (n, K) that these samples can tell apart, and their target.

    A class that is missing, and one that is alone, have none; two classes are one problem, whose target is (n,).
    """
    present = np.flatnonzero(np.ptp(target, axis=0) > 0)
    return present, target[:, present[-1]] if of_classes and len(present) == 2 else target[:, present]


def in_precision(estimator: Any, source: Any, client: Any, work: Callable[[StoredKernels], Result]) -> Result:
    """What ``work`` returns, of kernels in the precision that the tolerance of an estimator needs."""
    automatic = str(estimator.dtype) == "auto"
    small = packed_bytes(len(source.names), source.n_samples, np.float64) <= SMALL
    dtype = np.dtype(np.float64 if small else np.float32) if automatic else np.dtype(estimator.dtype)
    loss, regularizer, solver = estimator._resolve()
    while True:
        stack = (
            source.stack(dtype, estimator.approximate) if client is None else source.distributed_stack(dtype, client)
        )
        kernels = StoredKernels(
            stack, loss, regularizer.bind(source.names), solver, bool(estimator.fit_intercept), estimator.tol,
            estimator.max_iter, dtype == np.float32 and source.rounds, automatic, estimator.weighting != "norms",
        )  # fmt: skip
        try:
            result = work(kernels)
            break
        except PrecisionError:
            dtype = np.dtype(np.float64)
    if max(kernels.errors, default=0.0) > ROUNDING_SHARE * estimator.tol:
        warnings.warn(
            "In single precision kernels are rounded, which may change the relative duality gap by"
            f' {max(kernels.errors):.1g}: as much has been added to it. Choose dtype="float64".',
            ConvergenceWarning,
            stacklevel=4,
        )
    return result
