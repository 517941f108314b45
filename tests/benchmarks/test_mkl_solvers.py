"""Every wrapper method, weight-constrained MKL and soft thresholding on one UCI problem, to a certified gap of 0.01.

The kernels are those of section 6.1 of Suzuki and Tomioka (2011) on pima; time is also given in passes over all
kernels, the floor of any method, measured beside it.
"""

import gzip
import time

import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances

from omkl._components import resolve
from omkl.batch import IterativeSoftThresholding, Problem, Solver
from omkl.data import data_home
from omkl.kernels import DenseStack
from omkl.losses import Hinge, Logistic, Squared
from omkl.regularizers import L21, ElasticNetWeights, SquaredL21, SquaredLq

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
def pima():
    with gzip.open(data_home() / "uci/pima.csv.gz") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1)
    table = table[np.random.default_rng(0).permutation(len(table))[:N_SAMPLES]]
    return DenseStack(section_6_1_kernels(table[:, :-1])), table[:, -1]


def seconds_of_a_pass(stack):
    vector, times = np.ones(stack.n_samples), []
    for _ in range(5):
        started = time.process_time()
        stack.quadratics(vector)
        times.append(time.process_time() - started)
    return min(times)


def report(name, solution, seconds, stack):
    svms = solution.history[-1].get("svm_evaluations", 0)
    print(
        f"\n{name:24s} {seconds:7.2f} s = {seconds / seconds_of_a_pass(stack):7.0f} passes, {solution.n_iter:5d}"
        f" iterations, {svms:5d} SVMs, {len(solution.model.active):4d} of {stack.n_kernels} kernels active,"
        f" gap {solution.certificate.gap:.1e}, objective {solution.certificate.primal:.5f}"
    )


@pytest.mark.parametrize("method", METHODS)
def test_wrapper(benchmark, pima, method):
    stack, y = pima
    problem, solver = Problem(stack, y, Hinge(), METHODS[method], C), resolve(Solver, method.split(",")[0], "solver")
    benchmark.group = f"hinge, {stack.n_kernels} kernels, {N_SAMPLES} samples, C = {C}, gap {TOL}"
    started = time.process_time()
    solution = benchmark.pedantic(solver.solve, (problem,), {"tol": TOL}, rounds=1)
    report(method, solution, time.process_time() - started, stack)


@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=["logistic", "squared"])
@pytest.mark.parametrize("C", [2.0, 20.0])
def test_soft_thresholding(benchmark, pima, loss, C):
    """Iterations that ISTA needs for a gap, against FISTA's."""
    stack, y = pima
    problem = Problem(stack, y, loss, L21(), C)
    benchmark.group = f"soft thresholding, {stack.n_kernels} kernels, {N_SAMPLES} samples"
    plain = IterativeSoftThresholding(accelerated=False).solve(problem, tol=1e-3, max_iter=1500)
    started = time.process_time()
    fast = benchmark.pedantic(IterativeSoftThresholding().solve, (problem,), {"tol": plain.certificate.gap}, rounds=1)
    report(f"fista, {type(loss).__name__.lower()}, C = {C}", fast, time.process_time() - started, stack)
    for gap in [0.3, 0.1, 0.03, 0.01, 0.003]:
        needed = [first_below(solution.history, gap) for solution in (plain, fast)]
        if None not in needed:
            print(f"    to a gap of {gap}: ista {needed[0]}, fista {needed[1]}, {needed[0] / needed[1]:.1f} to 1")
    print(f"    to ista's last gap of {plain.certificate.gap:.1e}: {plain.n_iter / fast.n_iter:.1f} to 1")


def first_below(history, gap):
    return next((i for i, record in enumerate(history, 1) if record["gap"] <= gap), None)
