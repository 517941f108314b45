"""MKL with elastic-net-constrained weights (Citi 2015): optima, bounds, its ends, and any machine inside."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.svm import SVC

from omkl.batch import IterativeSoftThresholding, Problem, WeightConstrained
from omkl.exceptions import InputError
from omkl.regularizers import L21, ElasticNetWeights

from ...stacks import DenseStack
from ..generic import generic_optimum, small_problem

each_eta = pytest.mark.parametrize("eta", [0.0, 0.2, 0.6, 1.0])


def with_regularizer(problem, regularizer):
    return Problem(problem.kernels, problem.y, problem.loss, regularizer, problem.C, problem.intercept)


@each_eta
@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive", "squared"])
@pytest.mark.parametrize("intercept", [True, False])
def test_it_reaches_the_optimum_between_valid_bounds(eta, loss, intercept):
    penalty = f"weights in elastic net {eta}"
    problem, factors = small_problem(loss, penalty, intercept)
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


def logistic_machine(gram, y, weights):
    """Kernel logistic regression by a generic quasi-Newton method."""
    values, vectors = np.linalg.eigh(gram)
    features = vectors * np.sqrt(np.maximum(values, 0.0))

    def objective(parameters):
        z = features @ parameters[:-1] + parameters[-1]
        slope = -weights * y * expit(-y * z)
        gradient = np.append(features.T @ slope + parameters[:-1], slope.sum())
        return weights @ np.logaddexp(0, -y * z) + 0.5 * parameters[:-1] @ parameters[:-1], gradient

    found = minimize(objective, np.zeros(len(y) + 1), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    return weights * y * expit(-y * (features @ found[:-1] + found[-1])), found[-1]


@pytest.mark.parametrize("eta", [0.3, 1.0])
def test_any_machine_serves_for_its_own_loss(eta):
    problem, _ = small_problem("logistic", "squared block 1-norm", n=20)
    problem = with_regularizer(problem, ElasticNetWeights(eta))
    ours = WeightConstrained(svm=logistic_machine).solve(problem, tol=1e-5)
    proximal = IterativeSoftThresholding().solve(problem, tol=1e-6)
    assert ours.converged
    assert_allclose(ours.certificate.primal, proximal.certificate.primal, rtol=1e-5)


def test_a_careless_machine_is_found_out_by_the_certificate():
    problem, factors = small_problem("hinge", "weights in elastic net 0.6", n=30)
    optimum = generic_optimum(problem, factors, "hinge", "weights in elastic net 0.6")
    careless = SVC(kernel="precomputed", tol=0.5)
    solution = WeightConstrained(svm=careless).solve(problem, tol=1e-6, max_iter=50)
    assert not solution.converged
    assert solution.certificate.dual <= optimum <= solution.certificate.primal


def test_what_it_cannot_do_is_refused():
    problem, _ = small_problem("hinge", "squared block 1-norm")
    with pytest.raises(InputError, match="ElasticNetWeights"):
        WeightConstrained().solve(with_regularizer(problem, L21()))
    with pytest.raises(InputError, match="svm must be"):
        WeightConstrained(svm=3).solve(problem)
