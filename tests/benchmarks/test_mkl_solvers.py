"""Every wrapper method, weight-constrained MKL and soft thresholding on one UCI problem, to a
certified gap of 0.01.

The kernels are those of Section 6.1 of Suzuki and Tomioka (2011) on pima.
"""

import gzip
from collections import deque

import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances

from omkl._components import resolve
from omkl.batch import IterativeSoftThresholding, Problem, Solver
from omkl.losses import Hinge, Logistic, Squared
from omkl.regularizers import L21, ElasticNetWeights, SquaredL21, SquaredLq
from tests.benchmarks.measuring import Floor
from tests.stacks import DenseStack

N_SAMPLES, TOL = 300, 1e-2
#: On the summed hinge and the squared sum of norms; about 0.05 on the sum of norms itself.
C = 5e3
WIDTHS = [0.1, 0.25, 0.5, 0.75, *range(1, 21)]

METHODS = {
    "silp": SquaredL21(),
    "simplemkl": SquaredL21(),
    "levelmkl": SquaredL21(),
    "hessianmkl": SquaredL21(),
    "gmkl": SquaredL21(),
    "gmkl, eta = 0.5": ElasticNetWeights(0.5),
    "lp-norm, p = 2": SquaredLq(4 / 3),
}


def section_6_1_kernels(X):
    """24 Gaussians and 3 polynomials on all variables and on each, with unit trace."""
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    grams = []
    for columns in [X, *(X[:, [j]] for j in range(X.shape[1]))]:
        squares, products = euclidean_distances(columns, squared=True), columns @ columns.T
        grams += [np.exp(-squares / (2 * width**2)) for width in WIDTHS]
        grams += [(1 + products) ** degree for degree in (1, 2, 3)]
    return np.array([gram / np.trace(gram) for gram in grams])


@pytest.fixture(scope="module")
def pima(real_data):
    with gzip.open(real_data("uci/pima.csv.gz")) as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1)
    table = table[np.random.default_rng(0).permutation(len(table))[:N_SAMPLES]]
    return DenseStack(section_6_1_kernels(table[:, :-1])), table[:, -1]


def measure_solver(measure, problem, solver, tol, **options):
    """Measure a solver; the floor is one pass over all kernels."""
    vector, solutions = np.ones(problem.kernels.n_samples), deque(maxlen=1)
    floor = Floor("pass", lambda: problem.kernels.quadratics(vector))
    solve = lambda: solutions.append(solver.solve(problem, tol=tol, **options))  # noqa: E731
    measure(solve, floor=floor, once=True)
    solution, svms = solutions[-1], solutions[-1].history[-1].get("svm_evaluations", 0)
    measure.note(
        gap=solution.certificate.gap,
        iterations=solution.n_iter,
        svms=svms,
        active=len(solution.model.active),
    )
    return solution


@pytest.mark.parametrize(
    "method", ["silp", *(pytest.param(m, marks=pytest.mark.large) for m in METHODS if m != "silp")]
)
def test_wrapper(measure, pima, method):
    problem = Problem(*pima, Hinge(), METHODS[method], C)
    solver = resolve(Solver, method.split(",")[0], "solver")
    measure_solver(measure, problem, solver, TOL)


@pytest.mark.large
@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=["logistic", "squared"])
@pytest.mark.parametrize("C", [2.0, 20.0])
def test_soft_thresholding(measure, pima, loss, C):
    """FISTA to the gap that 300 iterations of ISTA reach."""
    problem = Problem(*pima, loss, L21(), C)
    plain = IterativeSoftThresholding(accelerated=False).solve(problem, tol=1e-3, max_iter=300)
    solution = measure_solver(measure, problem, IterativeSoftThresholding(), plain.certificate.gap)
    measure.note(ista_over_fista=plain.n_iter / solution.n_iter)
