"""ISTA, FISTA, IST and SpaRSA: optima, monotone steps, and the exact intercept."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from omkl.batch import (
    DAL,
    IST,
    ColumnGroups,
    DesignProblem,
    IterativeSoftThresholding,
    Problem,
    SpaRSA,
    as_design,
    certify,
)
from omkl.exceptions import InputError
from omkl.losses import Hinge, Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import L1, L21, ElasticNet, LqNorm, SquaredL21

from ..stacks import DenseStack
from .generic import assert_optimal, generic_optimum, small_problem

SMOOTH = ["logistic", "squared hinge", "squared", "Huber"]
each_loss = pytest.mark.parametrize("loss", SMOOTH)


@each_loss
@pytest.mark.parametrize("penalty", ["block 1-norm", "block q-norm", "squared block 1-norm"])
@pytest.mark.parametrize("intercept", [True, False])
def test_fista_reaches_the_optimum_between_valid_bounds(loss, penalty, intercept):
    problem, factors = small_problem(loss, penalty, intercept)
    assert_optimal(
        IterativeSoftThresholding().solve(problem, tol=1e-7), generic_optimum(problem, factors, loss, penalty)
    )


@each_loss
def test_ista_reaches_the_optimum_and_never_rises(loss):
    problem, factors = small_problem(loss, "block 1-norm")
    solution = IterativeSoftThresholding(accelerated=False).solve(problem, tol=1e-6)
    primals = [record["primal"] for record in solution.history]
    assert (np.diff(primals) <= 1e-12 * primals[0]).all()
    assert_allclose(primals[-1], generic_optimum(problem, factors, loss, "block 1-norm"), rtol=1e-6)


def gaussian_problem(loss, C):
    """Make badly conditioned kernels of many widths on noisy data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    squares = (X[:, None, :] - X[None, :, :]) ** 2
    distances = [squares.sum(axis=2), *np.moveaxis(squares, 2, 0)]
    grams = np.array([np.exp(-d / width) for d in distances for width in (0.1, 1.0, 10.0, 100.0)]) / 60
    signal = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=60)
    return Problem(DenseStack(grams), np.sign(signal) if loss.classifies else signal, loss, L21(), C)


@pytest.mark.parametrize(("loss", "C"), [(Logistic(), 30.0), (Squared(), 10.0)])
def test_fista_needs_a_tenth_of_the_iterations_of_ista(loss, C):
    problem = gaussian_problem(loss, C)
    plain = IterativeSoftThresholding(accelerated=False).solve(problem, tol=1e-15, max_iter=2000)
    fast = IterativeSoftThresholding().solve(problem, tol=plain.certificate.gap)
    assert fast.n_iter <= 200


def test_the_certificate_is_recomputed_from_the_model_over_all_kernels():
    problem = gaussian_problem(Logistic(), 3.0)
    solution = IterativeSoftThresholding().solve(problem, tol=1e-4)
    again = certify(problem, solution.model, solution.certificate.rho)
    assert_allclose([again.primal, again.dual], [solution.certificate.primal, solution.certificate.dual], rtol=1e-12)
    assert_allclose(solution.certificate.gap, solution.history[-1]["gap"], atol=1e-10)
    assert_array_equal(np.flatnonzero(again.norms), solution.model.active)
    assert len(solution.model.active) < problem.kernels.n_kernels


def test_a_warm_start_begins_where_the_other_search_ended():
    problem = gaussian_problem(Logistic(), 3.0)
    first = IterativeSoftThresholding().solve(problem, tol=1e-5)
    again = IterativeSoftThresholding().solve(problem, tol=1.1e-5, start=first.start)
    assert again.n_iter <= 10 < first.n_iter


@pytest.mark.parametrize(
    ("loss", "regularizer", "message"),
    [
        (Hinge(), L21(), "second derivative"),
        (Logistic(), L1(), "group norms"),
        (Logistic(), SquaredL21() + LqNorm(), "exact prox"),
    ],
)
def test_unsupported_problems_are_refused(loss, regularizer, message):
    problem, _ = small_problem("logistic", "squared block 1-norm")
    with pytest.raises(InputError, match=message):
        IterativeSoftThresholding().solve(Problem(problem.kernels, problem.y, loss, regularizer, 1.0))


@pytest.mark.parametrize("accelerated", [True, False])
def test_the_best_iterate_is_returned_and_not_the_last(accelerated):
    problem = gaussian_problem(Logistic(), 30.0)
    for max_iter in range(1, 40):
        solution = IterativeSoftThresholding(accelerated).solve(problem, tol=1e-12, max_iter=max_iter)
        least = min(record["primal"] for record in solution.history)
        assert_allclose(solution.certificate.primal, least, rtol=1e-9)


def design_problem(loss, regularizer, grouped, intercept, design=np.asarray):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 24)) + 0.2
    y = X[:, :3] @ [1.0, -2.0, 1.0] + rng.normal(size=40) + 0.5
    y = np.sign(y) if loss.classifies else y
    groups = ColumnGroups(np.arange(24) % 6, 24, np.linspace(0.5, 2.0, 6)) if grouped else None
    return DesignProblem(as_design(design(X)), y, loss, regularizer, 4.0 / 40, groups, intercept)


@pytest.mark.parametrize("solver", [IST(), SpaRSA()])
@pytest.mark.parametrize("loss", [Squared(), Logistic(), SquaredHinge(), Huber(0.7)], ids=repr)
@pytest.mark.parametrize("regularizer", [L21(), ElasticNet(0.3)], ids=repr)
@pytest.mark.parametrize(("grouped", "intercept"), [(False, True), (True, True), (True, False)])
def test_the_optimum_is_that_of_dal(solver, loss, regularizer, grouped, intercept):
    problem = design_problem(loss, regularizer, grouped, intercept)
    expected = DAL().solve(problem, tol=1e-9).certificate.primal
    solution = solver.solve(problem, tol=1e-7)
    assert solution.converged
    assert_allclose(solution.certificate.primal, expected, rtol=2e-7)
    assert certify(problem, solution.model, solution.certificate.rho).gap <= 1.01e-7


def test_fixed_steps_never_increase_the_objective():
    solution = IST().solve(design_problem(Logistic(), L21(), False, True), tol=1e-8)
    objectives = [record["primal"] for record in solution.history]
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])


def test_spectral_steps_take_fewer_iterations_where_columns_are_correlated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 30)) + 3.0 * rng.normal(size=(50, 1))
    problem = DesignProblem(as_design(X), X[:, 0] + rng.normal(size=50), Squared(), L21(), 1.0 / 50)
    fixed, spectral = (solver.solve(problem, tol=1e-3).n_iter for solver in (IST(), SpaRSA()))
    assert spectral < 0.5 * fixed


def test_sparse_designs_and_warm_starts():
    dense = SpaRSA().solve(design_problem(Logistic(), L21(), True, True), tol=1e-8)
    problem = design_problem(Logistic(), L21(), True, True, sparse.csc_array)
    thin = SpaRSA().solve(problem, tol=1e-8)
    assert_allclose(thin.certificate.primal, dense.certificate.primal, rtol=1e-7)
    assert SpaRSA().solve(problem, tol=1.01e-8, start=thin.start).n_iter == 0
