"""MKL with elastic-net-constrained weights (Citi 2015): optima, bounds, and its ends."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.svm import SVC

from omkl.batch import Problem, WeightConstrained
from omkl.exceptions import InputError
from omkl.regularizers import L21, ElasticNetWeights

from ...stacks import DenseStack
from ..generic import generic_optimum, small_problem

each_eta = pytest.mark.parametrize("eta", [0.0, 0.2, 0.6, 1.0])


def with_regularizer(problem, regularizer):
    return Problem(problem.kernels, problem.y, problem.loss, regularizer, problem.C, problem.intercept)


@each_eta
@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive", "squared"])
def test_it_reaches_the_optimum_between_valid_bounds(eta, loss):
    penalty = f"weights in elastic net {eta}"
    problem, factors = small_problem(loss, penalty)
    optimum = generic_optimum(problem, factors, loss, penalty)
    solution = WeightConstrained().solve(problem, tol=1e-6)
    assert solution.converged
    assert_allclose(solution.certificate.primal, optimum, rtol=1e-6)
    for record in solution.history:
        assert record["dual"] <= optimum * (1 + 1e-7)
        assert record["primal"] >= optimum * (1 - 1e-7)


@each_eta
def test_the_bound_of_the_paper_is_the_dual_of_the_problem(eta):
    """Eq. 8, corrected to ``1'a - u'theta/2``, in units of the SVM's cost: the loop stops by it and by no other."""
    problem, _ = small_problem("hinge", f"weights in elastic net {eta}", n=30, n_kernels=8)
    weights = problem.regularizer.kernel_weights(np.ones(8))
    svm = SVC(kernel="precomputed", C=problem.C, tol=1e-10).fit(problem.kernels.combine(weights), problem.y)
    signed = np.zeros(30)
    signed[svm.support_] = svm.dual_coef_[0]
    u = problem.kernels.quadratics(signed)
    upper = np.abs(signed).sum() - u @ weights / 2
    lower = np.abs(signed).sum() - problem.regularizer.conjugate(np.sqrt(u))
    first = WeightConstrained().solve(problem, tol=1e-8, max_iter=1).history[0]
    assert_allclose(first["dual"], lower, rtol=1e-6)
    assert lower <= first["primal"] <= upper * (1 + 1e-6)


@pytest.mark.parametrize("eta", [0.2, 0.6, 1.0])
def test_kernels_whose_weight_dies_out_end_no_search_early(eta):
    """Squares of norms that fall at every iteration underflow; as printed, Algorithm 2 then divides 0 by 0."""
    problem, _ = small_problem("hinge", "squared block 1-norm")
    grams = problem.kernels.grams * np.array([1e-6, 1.0, 1.0, 1.0])[:, None, None]
    problem = Problem(DenseStack(grams), problem.y, problem.loss, ElasticNetWeights(eta), problem.C)
    solution = WeightConstrained().solve(problem, tol=1e-15, max_iter=250)
    assert [record["active"] for record in solution.history[:: len(solution.history) - 1]] == [4, 3]
    assert abs(solution.certificate.gap) < 1e-6


def test_what_it_cannot_do_is_refused():
    problem, _ = small_problem("hinge", "squared block 1-norm")
    with pytest.raises(InputError, match="elastic-net-weights"):
        WeightConstrained().solve(with_regularizer(problem, L21()))
