"""ISTA and FISTA in the RKHS: optima, what they promise on the way, and the exact intercept."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from omkl._components import resolve
from omkl.batch import IterativeSoftThresholding, Problem, Solver, WeightConstrained, certify
from omkl.batch.mkl.soft_threshold import _lipschitz_constant
from omkl.exceptions import InputError
from omkl.kernels import DenseStack
from omkl.losses import Hinge, Logistic, Squared
from omkl.regularizers import L1, L21, LqNorm, Ridge, SquaredL21

from ..generic import PENALTIES, generic_optimum, small_problem

SMOOTH = ["logistic", "squared hinge", "squared", "Huber"]
each_loss = pytest.mark.parametrize("loss", SMOOTH)


@each_loss
@pytest.mark.parametrize("penalty", ["block 1-norm", "block q-norm", "mkl"])
@pytest.mark.parametrize("intercept", [True, False])
def test_fista_reaches_the_optimum_between_valid_bounds(loss, penalty, intercept):
    problem, factors = small_problem(loss, penalty, intercept)
    optimum = generic_optimum(problem, factors, loss, penalty)
    solution = IterativeSoftThresholding().solve(problem, tol=1e-7)
    assert solution.converged
    assert_allclose(solution.certificate.primal, optimum, rtol=1e-6)
    for record in solution.history:
        assert record["dual"] <= optimum * (1 + 1e-7)
        assert record["primal"] >= optimum * (1 - 1e-7)


@each_loss
def test_ista_reaches_the_optimum_and_never_rises(loss):
    problem, factors = small_problem(loss, "block 1-norm")
    solution = IterativeSoftThresholding(accelerated=False).solve(problem, tol=1e-6)
    primals = [record["primal"] for record in solution.history]
    assert (np.diff(primals) <= 1e-12 * primals[0]).all()
    assert_allclose(primals[-1], generic_optimum(problem, factors, loss, "block 1-norm"), rtol=1e-6)


def gaussian_problem(loss, C):
    """Kernels of many widths on the variables of noisy data: badly conditioned, as kernels are."""
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


@each_loss
def test_the_intercept_is_the_best_for_the_predictions(loss):
    problem, _ = small_problem(loss, "block 1-norm")
    solution = IterativeSoftThresholding().solve(problem, max_iter=5)
    assert abs(problem.loss.gradient(problem.y, solution.certificate.outputs).sum()) < 1e-8


@each_loss
@pytest.mark.parametrize("intercept", [True, False])
def test_the_step_is_short_enough_and_no_shorter_than_need_be(loss, intercept):
    problem, _ = small_problem(loss, "block 1-norm", intercept)
    total = problem.kernels.combine(np.ones(4))
    if intercept:
        total = total - total.mean(axis=0)
        total = total - total.mean(axis=1)[:, None]
    largest = problem.C * problem.loss.curvature * np.linalg.eigvalsh(total)[-1]
    assert largest <= _lipschitz_constant(problem) <= 1.02 * largest


def test_ridge_on_the_norms_is_kernel_ridge_regression():
    problem, _ = small_problem("squared", "mkl", intercept=False)
    solution = IterativeSoftThresholding().solve(
        Problem(problem.kernels, problem.y, Squared(), Ridge(), 1 / 0.3, intercept=False), tol=1e-10
    )
    gram = problem.kernels.combine(np.ones(4))
    expected = gram @ np.linalg.solve(gram + 0.3 * np.eye(14), problem.y)
    assert_allclose(solution.certificate.outputs, expected, atol=1e-4)


def test_weights_in_an_elastic_net_by_prox_and_by_alternation():
    problem, _ = small_problem("squared", "weights in elastic net 0.2")
    proximal = IterativeSoftThresholding().solve(problem, tol=1e-7).certificate.primal
    assert_allclose(WeightConstrained().solve(problem, tol=1e-7).certificate.primal, proximal, rtol=1e-6)


def test_a_warm_start_begins_where_the_other_search_ended():
    problem = gaussian_problem(Logistic(), 3.0)
    first = IterativeSoftThresholding().solve(problem, tol=1e-5)
    again = IterativeSoftThresholding().solve(problem, tol=1.1e-5, start=first.start)
    assert again.n_iter <= 10 < first.n_iter


def test_strong_regularization_leaves_nothing_but_the_intercept():
    problem, _ = small_problem("squared", "block 1-norm", C=1e-3)
    solution = IterativeSoftThresholding().solve(problem, tol=1e-9)
    assert len(solution.model.active) == 0
    assert_allclose(solution.model.intercept, problem.y.mean())
    assert solution.converged


def test_the_tiniest_of_problems():
    for n in (1, 2):
        stack = DenseStack(np.ones((2, n, n)) + np.eye(n))
        y = np.array([1.0, -1.0])[:n]
        solution = IterativeSoftThresholding().solve(Problem(stack, y, Squared(), L21(), 10.0), tol=1e-6)
        assert solution.converged


def test_constant_kernels_have_nothing_to_add_to_an_intercept():
    problem = Problem(DenseStack(np.ones((2, 6, 6))), np.array([1.0, 1, 1, -1, -1, 1]), Logistic(), L21(), 10.0)
    solution = IterativeSoftThresholding().solve(problem, tol=1e-8)
    assert solution.converged
    assert_allclose(solution.model.intercept, np.log(2.0))


def test_they_are_found_by_name():
    assert resolve(Solver, "ista", "solver") == IterativeSoftThresholding(accelerated=False)
    assert resolve(Solver, "fista", "solver") == IterativeSoftThresholding()


@pytest.mark.parametrize(
    ("loss", "regularizer", "message"),
    [
        (Hinge(), L21(), "second derivative"),
        (Logistic(), L1(), "group norms"),
        (Logistic(), SquaredL21() + LqNorm(), "exact prox"),
    ],
)
def test_what_they_cannot_do_is_refused(loss, regularizer, message):
    problem, _ = small_problem("logistic", "mkl")
    with pytest.raises(InputError, match=message):
        IterativeSoftThresholding().solve(Problem(problem.kernels, problem.y, loss, regularizer, 1.0))


def test_samples_of_one_class_are_refused():
    problem, _ = small_problem("logistic", "mkl")
    with pytest.raises(InputError, match="one class"):
        IterativeSoftThresholding().solve(Problem(problem.kernels, np.ones(14), Logistic(), L21(), 1.0))


def test_every_penalty_of_the_wrappers_has_a_prox_that_serves():
    for regularizer, _ in PENALTIES.values():
        problem, _ = small_problem("squared", "mkl")
        problem = Problem(problem.kernels, problem.y, problem.loss, regularizer, 0.3)
        assert IterativeSoftThresholding().solve(problem, tol=1e-3).converged


@pytest.mark.parametrize("accelerated", [True, False])
def test_the_best_iterate_is_returned_and_not_the_last(accelerated):
    problem = gaussian_problem(Logistic(), 30.0)
    for max_iter in range(1, 40):
        solution = IterativeSoftThresholding(accelerated).solve(problem, tol=1e-12, max_iter=max_iter)
        least = min(record["primal"] for record in solution.history)
        assert_allclose(solution.certificate.primal, least, rtol=1e-9)
