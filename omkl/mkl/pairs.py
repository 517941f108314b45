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

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

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
    columns, problems = source.columns(names), training.problems(C)
    pairs = _pairs_without_kernel(columns)
    norms = _norms_in_products(source, pairs, solutions)
    excess = _excess(norms, problems, solutions)
    certificates = [solution.certificate for solution in solutions]
    objective = sum(certificate.primal for certificate in certificates)
    lower_bound = sum(certificate.dual for certificate in certificates)
    records: list[dict[str, Any]] = []
    undecided: list[float] = []
    most = 1.0 - _lower_bounds(norms, problems, solutions) / objective
    for k in np.argsort(-excess, kind="stable").tolist():
        if len(records) == n:
            break
        if most[k] <= NO_DECREASE:
            continue
        a, b = pairs[k]
        gram = _gram(source, a) * _gram(source, b)
        least = np.inf
        if not training.settings.loss.has_kink:
            each_norm = norms[:, k].tolist()
            least = sum(_least_along(*each, gram) for each in zip(problems, solutions, each_norm))
        if least >= lower_bound:
            enlarged = [
                _enlarged(*each, gram, training).certificate for each in zip(problems, solutions)
            ]
            least = sum(certificate.primal for certificate in enlarged)
            largest_decrease = 1.0 - sum(certificate.dual for certificate in enlarged) / objective
        if least < lower_bound:
            pair = columns[a] + columns[b]
            decrease = float(1.0 - least / objective)
            records.append({"pair": pair, "excess": float(excess[k]), "decrease": decrease})
        elif largest_decrease > 2.0 * NO_DECREASE:
            undecided.append(largest_decrease)
    if undecided:
        warn_caller(
            f"It is not known whether {len(undecided)} pairs help, which lower the objective by at most "
            f"{max(undecided):.2g} of it: raise max_iter.",
            ConvergenceWarning,
        )
    return sorted(records, key=lambda record: -record["decrease"])


def _gram(source: KernelSource, kernel: int) -> np.ndarray:
    """Return the Gram matrix of a kernel, (N, N)."""
    return summed(source, source.X, np.eye(len(source.names))[kernel])


def _pairs_without_kernel(columns: Sequence[tuple]) -> list[tuple[int, int]]:
    """Return pairs of kernels on single columns for whose two columns there is no kernel."""
    singles = [m for m, names in enumerate(columns) if len(names) == 1 and names != (MISSING,)]
    present = set(map(frozenset, columns))
    pairs = [
        (a, b)
        for a, b in combinations(singles, 2)
        if frozenset(columns[a] + columns[b]) not in present
    ]
    if not pairs:
        raise InputError(
            "missing_pairs needs kernels on two single columns or more, as per_column makes them."
        )
    return pairs


def _norms_in_products(
    source: KernelSource, pairs: Sequence[tuple[int, int]], solutions: Sequence[Solution]
) -> np.ndarray:
    """Return the norms of the dual points of solutions in the products of pairs, (n_problems,
    n_pairs).
    """
    singles = np.unique(pairs)
    left, right = np.searchsorted(singles, np.array(pairs).T)
    each_kernel = np.eye(len(source.names))[singles]
    rhos = [solution.certificate.rho.reshape(-1, source.n_samples) for solution in solutions]
    squares = np.zeros((len(rhos), len(singles), len(singles)))
    for block in row_blocks(source.n_samples, source.n_samples, np.float64):
        grams = np.array(
            [summed(source, source.X[block], weights).ravel() for weights in each_kernel]
        )
        for total, rho in zip(squares, rhos):
            total += (grams * (rho[:, block].T @ rho).ravel()) @ grams.T
    return np.sqrt(np.maximum(squares[:, left, right], 0.0))


def _excess(
    norms: np.ndarray, problems: Sequence[Problem], solutions: Sequence[Solution]
) -> np.ndarray:
    """Return by how much norms of dual points (n_problems, n_pairs) exceed the slope of the
    regularizer, (n_pairs,).
    """
    slopes = []
    for problem, solution in zip(problems, solutions):
        with_another = np.append(solution.certificate.norms, 0.0)
        slopes.append(problem.regularizer.slopes(with_another)[-1])
    return (norms - np.array(slopes)[:, None]).max(axis=0)


def _lower_bounds(
    norms: np.ndarray, problems: Sequence[Problem], solutions: Sequence[Solution]
) -> np.ndarray:
    """Return lower bounds (n_pairs,) of the objective with another kernel, from norms (n_problems,
    n_pairs).
    """
    bounds = np.zeros(norms.shape[1])
    for problem, solution, norms_in_pairs in zip(problems, solutions, norms):
        rho = solution.certificate.rho
        dual_norms = problem.dual_norms(rho)
        for k, norm in enumerate(norms_in_pairs.tolist()):
            bounds[k] += problem.scaled_dual(rho, np.append(dual_norms, norm))[0]
    return bounds


def _least_along(problem: Problem, solution: Solution, norm: float, gram: np.ndarray) -> float:
    """Return the least objective of the model plus a multiple of the dual point's function, of
    given norm, in a kernel.

    The kernel is (N, N).
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


def _enlarged(
    problem: Problem, solution: Solution, gram: np.ndarray, training: TrainingSet
) -> Solution:
    """Solve a problem with another kernel (N, N), from the solution without it, until the decrease
    is known.
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
    solver, parameters = training.settings.solver, training.settings.parameters
    enlarged = replace(problem, kernels=kernels)
    return solver.solve(enlarged, parameters.tol, parameters.max_iter, start, decrease_is_known)
