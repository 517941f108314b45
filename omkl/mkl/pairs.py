r"""Products of two columns' kernels that a model lacks.

At the optimum, a kernel outside of the model lowers the objective if and only if the norm of the dual variables in it,
:math:`\|\rho\|_K`, exceeds the slope of the regularizer at the norm 0. In the elementwise product of two Gram matrices
it is :math:`\|\rho\|^2_{K_a \circ K_b} = \sum_{ij} \rho_i \rho_j K_a(i, j) K_b(i, j)`. One product of matrices gives
the norms in all pairs.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from omkl._components import check_number
from omkl.batch.mkl.problem import Problem
from omkl.batch.problem import Certificate
from omkl.batch.solver import Solution
from omkl.estimators.validation import MISSING
from omkl.exceptions import InputError
from omkl.kernels.inputs import row_blocks
from omkl.mkl.kernel_sources import KernelSource, summed

#: Relative duality gap at which the dual variables are known well enough.
GAP = 1e-6


def missing_pairs(
    source: KernelSource, names: Sequence, problems: Sequence[Problem], solutions: Sequence[Solution], n: int
) -> list[dict[str, Any]]:
    """Return the pairs of :meth:`omkl.MKLClassifier.missing_pairs`.

    Parameters
    ----------
    source : ArrayKernels
    names : sequence
        Names of the columns of its rows, or their positions.
    problems, solutions : list
        Problems on these rows, and their solutions.
    n : int
        Number of pairs at most.
    """
    from scipy.optimize import minimize_scalar

    check_number("n", n, above=0, integer=True)
    columns = source.columns(names)
    singles = [m for m, own in enumerate(columns) if len(own) == 1 and own != (MISSING,)]
    known = set(map(frozenset, columns))
    members = [(a, b) for a, b in combinations(singles, 2) if frozenset(columns[a] + columns[b]) not in known]
    if not members:
        raise InputError("missing_pairs needs kernels on two single columns or more, as per_column makes them.")
    left, right = np.searchsorted(singles, np.array(members).T)
    ends, each = [solution.certificate for solution in solutions], np.eye(len(columns))
    rhos = [end.rho.reshape(-1, source.n_samples) for end in ends]
    squares = np.zeros((len(ends), len(singles), len(singles)))
    for block in row_blocks(source.n_samples, source.n_samples, np.float64):
        grams = np.array([summed(source, source.X[block], each[m]).ravel() for m in singles])
        for total, rho in zip(squares, rhos):
            total += (grams * (rho[:, block].T @ rho).ravel()) @ grams.T
    norms = np.sqrt(np.maximum(squares[:, left, right], 0.0))
    slopes = [problem.regularizer.slopes(np.append(end.norms, 0.0))[-1] for problem, end in zip(problems, ends)]
    excess, found = (norms - np.array(slopes)[:, None]).max(axis=0), list[dict[str, Any]]()
    objective, bound = (sum(values) for values in zip(*((end.primal, end.dual) for end in ends)))
    for k in np.argsort(-excess, kind="stable")[:n].tolist():
        if excess[k] > 0.0:
            a, b = members[k]
            gram = summed(source, source.X, each[a]) * summed(source, source.X, each[b])
            ways = zip(problems, ends, (rho @ gram / norm for rho, norm in zip(rhos, norms[:, k])))
            least = sum(float(minimize_scalar(_value, args=way).fun) for way in ways)
            if least < bound:
                pair, decrease = columns[a] + columns[b], float(1.0 - least / objective)
                found.append({"pair": pair, "excess": float(excess[k]), "decrease": decrease})
    return sorted(found, key=lambda record: -record["decrease"])


def _value(t: float, problem: Problem, end: Certificate, direction: np.ndarray) -> float:
    """Return the objective with t times another function of norm 1, whose values are (P, N)."""
    return problem.primal(end.outputs + t * direction.ravel(), np.append(end.norms, abs(t)))
