r"""Products of two columns' kernels that a model lacks.

The dual variables :math:`\rho` of a model bound the objective with any further kernel from below:
the bound is the dual objective of the enlarged problem, which needs only the norm of :math:`\rho`
in that kernel. In the elementwise product of two Gram matrices it is :math:`\|\rho\|^2_{K_a \circ
K_b} = \sum_{ij} \rho_i \rho_j K_a(i, j) K_b(i, j)`. One product of matrices gives the norms in all
pairs.

A bound at the present objective proves that a pair does not help. If it is lower, a line search
along the dual point finds a better model, unless the loss has kinks. Then other dual points may
have a better bound, and the line search may find no descent: the enlarged problem decides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from omkl._components import check_number, warn_caller
from omkl.batch.mkl.problem import Problem
from omkl.batch.mkl.spicy import Start
from omkl.batch.solver import Solution
from omkl.estimators.validation import MISSING
from omkl.exceptions import InputError
from omkl.kernels.inputs import row_blocks
from omkl.kernels.packed import PackedStack
from omkl.kernels.stack import KernelStack, MixedStack, ReplicatedStack
from omkl.mkl.kernel_sources import KernelSource, summed
from omkl.mkl.training import TrainingSet

#: Relative duality gap at which the dual variables are known well enough.
GAP = 1e-6
#: Bounds on the decrease of the objective, as shares of it, that count as none: twice the gap.
NO_DECREASE = 2.0 * GAP
#: Duality gap at which a decrease of the objective is known well enough, as a share of the
#: decrease.
ACCURACY = 0.05


def missing_pairs(
    source: KernelSource,
    names: Sequence,
    training: TrainingSet,
    solutions: Sequence[Solution],
    C: float,
    n: int,
) -> list[dict[str, Any]]:
    """Return the pairs of :meth:`omkl.MKLClassifier.missing_pairs`.

    Parameters
    ----------
    source : ArrayKernels
    names : sequence
        Names of the columns of its rows, or their positions.
    training : TrainingSet
        The samples of these rows.
    solutions : list
        The solutions of its problems at C.
    C : float
    n : int
        Number of pairs at most.
    """
    check_number("n", n, above=0, integer=True)
    search = _Search(source, names, training, solutions, C)
    records: list[dict[str, Any]] = []
    undecided: list[float] = []
    for k in search.candidates():
        if len(records) == n:
            break
        bounds = search.bounds_with(k)
        if bounds.reached < search.lower_bound:
            a, b = search.pairs[k]
            record = {
                "pair": search.columns[a] + search.columns[b],
                "excess": float(search.excess[k]),
                "decrease": float(1.0 - bounds.reached / search.objective),
            }
            records.append(record)
            continue
        largest_decrease = 1.0 - bounds.lowest / search.objective
        if largest_decrease > 2.0 * NO_DECREASE:
            undecided.append(largest_decrease)
    if undecided:
        warn_caller(
            f"It is not known whether {len(undecided)} pairs help, which lower the objective by "
            f"at most {max(undecided):.2g} of it: raise max_iter.",
            ConvergenceWarning,
        )
    return sorted(records, key=lambda record: -record["decrease"])


class Bounds(NamedTuple):
    """Bounds on the objective with another kernel: one that is reached, and a lower bound.

    The lower bound is minus infinity where the other one decides that the kernel helps.
    """

    reached: float
    lowest: float = -np.inf


class _Search:
    """Pairs of kernels on single columns, and what their products may do for a model.

    Attributes
    ----------
    columns : list of tuple
        The columns of each kernel.
    pairs : list of (int, int)
        Pairs of kernels.
    norms : array of shape (n_problems, n_pairs)
        Norms of the dual points in the products.
    excess : array of shape (n_pairs,)
        By how much the norms exceed the slope of the regularizer.
    objective, lower_bound : float
        Of the model, over all problems.
    """

    def __init__(
        self,
        source: KernelSource,
        names: Sequence,
        training: TrainingSet,
        solutions: Sequence[Solution],
        C: float,
    ) -> None:
        self.source = source
        self.training = training
        self.solutions = solutions
        self.problems = training.problems(C)
        self.columns = source.columns(names)
        self.pairs = _pairs_without_kernel(self.columns)
        self.norms = self._norms_in_products()
        self.excess = self._excess()
        self.objective = sum(solution.certificate.primal for solution in solutions)
        self.lower_bound = sum(solution.certificate.dual for solution in solutions)

    def _norms_in_products(self) -> np.ndarray:
        """Return the norms of dual points in the products of pairs: (n_problems, n_pairs)."""
        source = self.source
        singles = np.unique(self.pairs)
        left, right = np.searchsorted(singles, np.array(self.pairs).T)
        each_kernel = np.eye(len(source.names))[singles]
        rhos = [point.certificate.rho.reshape(-1, source.n_samples) for point in self.solutions]
        squares = np.zeros((len(rhos), len(singles), len(singles)))
        for block in row_blocks(source.n_samples, source.n_samples, np.float64):
            rows = source.X[block]
            grams = np.array([summed(source, rows, weights).ravel() for weights in each_kernel])
            for total, rho in zip(squares, rhos):
                total += (grams * (rho[:, block].T @ rho).ravel()) @ grams.T
        return np.sqrt(np.maximum(squares[:, left, right], 0.0))

    def _excess(self) -> np.ndarray:
        """Return by how much the norms exceed the slopes of the regularizer at one more kernel."""
        slopes = []
        for problem, solution in zip(self.problems, self.solutions):
            with_another = np.append(solution.certificate.norms, 0.0)
            slopes.append(problem.regularizer.slopes(with_another)[-1])
        return (self.norms - np.array(slopes)[:, None]).max(axis=0)

    def candidates(self) -> Iterator[int]:
        """Yield the indices of the pairs that may help, the largest excess first."""
        largest_decreases = 1.0 - self._lower_bounds() / self.objective
        for k in np.argsort(-self.excess, kind="stable").tolist():
            if largest_decreases[k] > NO_DECREASE:
                yield k

    def _lower_bounds(self) -> np.ndarray:
        """Return lower bounds of the objective with another kernel, (n_pairs,)."""
        bounds = np.zeros(len(self.pairs))
        for problem, solution, norms_in_pairs in zip(self.problems, self.solutions, self.norms):
            rho = solution.certificate.rho
            dual_norms = problem.dual_norms(rho)
            for k, norm in enumerate(norms_in_pairs.tolist()):
                bounds[k] += problem.scaled_dual(rho, np.append(dual_norms, norm))[0]
        return bounds

    def bounds_with(self, k: int) -> Bounds:
        """Return bounds on the objective with the product of pair k as another kernel."""
        a, b = self.pairs[k]
        gram = self._gram(a) * self._gram(b)
        if not self.training.settings.loss.has_kink:
            least = 0.0
            norms = self.norms[:, k].tolist()
            for problem, solution, norm in zip(self.problems, self.solutions, norms):
                least += _least_along(problem, solution, norm, gram)
            if least < self.lower_bound:  # no model without the kernel is as good
                return Bounds(reached=least)
        certificates = []
        for problem, solution in zip(self.problems, self.solutions):
            enlarged = _solve_enlarged(problem, solution, gram, self.training)
            certificates.append(enlarged.certificate)
        return Bounds(
            reached=sum(certificate.primal for certificate in certificates),
            lowest=sum(certificate.dual for certificate in certificates),
        )

    def _gram(self, kernel: int) -> np.ndarray:
        """Return the Gram matrix of a kernel, (N, N)."""
        weights = np.eye(len(self.source.names))[kernel]
        return summed(self.source, self.source.X, weights)


def _pairs_without_kernel(columns: Sequence[tuple]) -> list[tuple[int, int]]:
    """Return pairs of kernels on single columns for whose two columns there is no kernel."""
    singles = [m for m, names in enumerate(columns) if len(names) == 1 and names != (MISSING,)]
    present = set(map(frozenset, columns))
    pairs = []
    for a, b in combinations(singles, 2):
        if frozenset(columns[a] + columns[b]) not in present:
            pairs.append((a, b))
    if not pairs:
        raise InputError(
            "missing_pairs needs kernels on two single columns or more, as per_column makes them."
        )
    return pairs


def _least_along(problem: Problem, solution: Solution, norm: float, gram: np.ndarray) -> float:
    """Return the least objective of the model plus a multiple of the dual point's function.

    The function is in the space of a kernel (N, N), and has the norm ``norm`` there.
    """
    from scipy.optimize import minimize_scalar

    certificate = solution.certificate
    if norm == 0.0:
        return certificate.primal
    rho = certificate.rho.reshape(-1, len(gram))
    direction = (rho @ gram).ravel() / norm

    def objective(length: float) -> float:
        norms = np.append(certificate.norms, abs(length))
        return problem.primal(certificate.outputs + length * direction, norms)

    return float(minimize_scalar(objective).fun)


def _solve_enlarged(
    problem: Problem, solution: Solution, gram: np.ndarray, training: TrainingSet
) -> Solution:
    """Solve a problem with another kernel (N, N), until the decrease of the objective is known.

    Start from the solution without the kernel.
    """
    added: KernelStack = PackedStack.from_grams([gram], np.float64)
    stack = problem.kernels
    if isinstance(stack, ReplicatedStack):
        kernels: KernelStack = ReplicatedStack(MixedStack([stack.stack, added]), stack.n_parts)
    else:
        kernels = MixedStack([stack, added])

    def decrease_is_known(record: dict[str, Any]) -> bool:
        decrease = solution.certificate.dual - record["primal"]
        return bool(record["primal"] - record["dual"] <= ACCURACY * decrease)

    # other solvers start from weights of all kernels
    start = solution.start if isinstance(solution.start, Start) else None
    solver = training.settings.solver
    parameters = training.settings.parameters
    enlarged = replace(problem, kernels=kernels)
    return solver.solve(enlarged, parameters.tol, parameters.max_iter, start, decrease_is_known)
