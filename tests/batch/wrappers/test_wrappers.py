"""Wrapper methods: each against a generic convex solver and against the others, and tests of their
parts.
"""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from omkl._components import resolve
from omkl.batch import HessianMKL, Problem, SimpleMKL, Solver, WeightConstrained, certify
from omkl.batch.wrappers.methods import CuttingPlanes, hessian, minimize_on_simplex
from omkl.batch.wrappers.wrapper import Search, base_svm_for
from omkl.exceptions import InputError
from omkl.losses import Hinge, Logistic
from omkl.regularizers import L21, ElasticNetWeights, SquaredL21

from ...cases import mostly_slow
from ...stacks import DenseStack
from ..generic import WEIGHT_SETS, assert_optimal, generic_optimum, small_problem

ON_THE_SIMPLEX = ["silp", "simplemkl", "levelmkl", "hessianmkl", "gmkl", "lp-norm"]
each_method = pytest.mark.parametrize("method", ON_THE_SIMPLEX)
LOSSES = ["hinge", "epsilon-insensitive", "squared"]
each_loss = pytest.mark.parametrize("loss", LOSSES)


def solver(name):
    return resolve(Solver, name, "solver")


def searched(problem):
    return Search(problem, base_svm_for(problem, 1e-8))


@mostly_slow(
    ("loss", "search"),
    LOSSES,
    [
        *((method, "squared block 1-norm") for method in ON_THE_SIMPLEX),
        *(("gmkl", penalty) for penalty in WEIGHT_SETS if "elastic net" in penalty),
        *(("lp-norm", penalty) for penalty in WEIGHT_SETS if "ball" in penalty),
        ("hessianmkl", "weights in elastic net 1.0"),
    ],
    every=2,
)
def test_a_method_reaches_the_optimum_of_a_generic_solver_between_valid_bounds(loss, search):
    method, penalty = search
    problem, factors = small_problem(loss, penalty)
    assert_optimal(
        solver(method).solve(problem, tol=1e-6), generic_optimum(problem, factors, loss, penalty)
    )


@each_method
def test_the_certificate_is_recomputed_from_the_model_over_all_kernels(method):
    problem, _ = small_problem("hinge", "squared block 1-norm", C=1.0, n=30, n_kernels=12)
    solution = solver(method).solve(problem, tol=1e-3)
    again = certify(problem, solution.model, solution.certificate.rho)
    assert_allclose(
        [again.primal, again.dual],
        [solution.certificate.primal, solution.certificate.dual],
        rtol=1e-12,
    )
    # for a mixture of planes, the loop only bounds the norms
    assert solution.certificate.gap <= solution.history[-1]["gap"] + 1e-9
    assert_array_equal(np.flatnonzero(solution.certificate.norms), solution.model.active)


@each_method
def test_a_warm_start_begins_where_the_other_search_ended(method):
    problem, _ = small_problem("hinge", "squared block 1-norm", C=3.0, n=40, n_kernels=10)
    first = solver(method).solve(problem, tol=1e-3)
    again = solver(method).solve(problem, tol=1e-3, start=first.start)
    assert_allclose(
        again.history[0]["primal"],
        first.certificate.primal,
        rtol=1e-3,
    )
    assert again.n_iter < first.n_iter


@each_method
def test_copies_zeros_and_low_rank_kernels_are_no_problem(method):
    rng = np.random.default_rng(4)
    factor = rng.normal(size=(20, 1))
    rank_one = factor @ factor.T
    full = rng.normal(size=(20, 20))
    grams = np.array(
        [
            rank_one,
            rank_one,
            np.zeros((20, 20)),
            full @ full.T / 20,
            np.ones((20, 20)),
        ]
    )
    y = np.sign(factor[:, 0] + 0.5 * rng.normal(size=20))
    solution = solver(method).solve(
        Problem(DenseStack(grams), y, Hinge(), SquaredL21(), 2.0), tol=1e-4
    )
    assert solution.converged
    assert 2 not in solution.model.active


@each_method
def test_a_kernel_that_was_dead_at_the_start_can_come_back(method):
    problem, _ = small_problem("hinge", "squared block 1-norm")
    cold = solver(method).solve(problem, tol=1e-4).certificate
    warm = solver(method).solve(
        problem,
        tol=1e-4,
        start=np.array([0.0, 0.0, 0.0, 1.0]),
    )
    assert warm.converged
    assert_allclose(warm.certificate.primal, cold.primal, rtol=1e-4)


def test_it_stops_at_max_iter_and_on_request():
    problem, _ = small_problem("hinge", "squared block 1-norm")
    solution = SimpleMKL().solve(problem, tol=1e-9, max_iter=3)
    assert solution.n_iter == len(solution.history) == 3
    assert not solution.converged
    assert (
        SimpleMKL()
        .solve(problem, tol=1e-9, on_iteration=lambda record: record["active"] > 0)
        .n_iter
        == 1
    )


@each_loss
def test_gradient_and_hessian_of_the_value_are_its_derivatives(loss):
    problem, _ = small_problem(loss, "squared block 1-norm", n=20)
    search = searched(problem)
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    point = search.evaluate(weights)
    width = 1e-4
    curvature = hessian(problem, point)
    for k in range(4):
        step = width * np.eye(4)[k]
        up = search.evaluate(weights + step)
        down = search.evaluate(weights - step)
        assert_allclose(
            point.gradient[k],
            (up.value - down.value) / (2 * width),
            rtol=1e-5,
        )
        assert_allclose(
            curvature[k], (up.gradient - down.gradient) / (2 * width), rtol=1e-2, atol=1e-2
        )


@pytest.mark.parametrize("rank", [0, 3, 12])
def test_libsvm_minimises_a_quadratic_over_the_simplex(rank):
    rng = np.random.default_rng(rank)
    factor = rng.normal(size=(rank, 12))
    linear = rng.normal(size=12)
    x = cp.Variable(12, nonneg=True)
    objective = 0.5 * cp.sum_squares(factor @ x) + linear @ x if rank else linear @ x
    least = cp.Problem(cp.Minimize(objective), [cp.sum(x) == 1]).solve(solver=cp.CLARABEL)
    minimizer = minimize_on_simplex(factor.T @ factor, linear, 1e-9)
    assert_allclose(minimizer.sum(), 1.0)
    assert_allclose(
        0.5 * np.sum((factor @ minimizer) ** 2) + linear @ minimizer,
        least,
        atol=1e-6,
    )


def some_planes(n_planes=6, n_kernels=8):
    problem, _ = small_problem("hinge", "squared block 1-norm", n=20, n_kernels=n_kernels)
    planes = CuttingPlanes(problem, base_svm_for(problem, 1e-8))
    rng = np.random.default_rng(0)
    for _ in range(n_planes):
        planes.evaluate(rng.dirichlet(np.ones(n_kernels)))
    return planes, rng


def model_of(planes, weights):
    return max(cut.value + cut.gradient @ (weights - cut.weights) for cut in planes.points)


def test_planes_lie_below_the_value():
    planes, rng = some_planes()
    for _ in range(20):
        point = planes.evaluate(rng.dirichlet(np.full(8, 0.3)))
        assert model_of(planes, point.weights) <= point.value + 1e-7


def test_the_mixture_of_dual_points_is_as_good_a_bound_as_the_linear_program():
    planes, _ = some_planes()
    planes.dual = -np.inf
    weights, least = planes.minimize()
    assert_allclose(model_of(planes, weights), least, rtol=1e-8)
    assert planes.dual >= least - 1e-7
    assert planes.problem.dual(*planes.problem.feasible(planes.rho)) >= planes.dual - 1e-9


def test_projection_onto_the_level_set_is_what_a_generic_solver_finds():
    planes, rng = some_planes()
    _, least = planes.minimize()
    best = min(cut.value for cut in planes.points)
    for level in (0.1, 0.5, 0.9):
        start = rng.dirichlet(np.ones(8))
        bound = level * best + (1 - level) * least
        d = cp.Variable(8, nonneg=True)
        below = [cut.value + cut.gradient @ (d - cut.weights) <= bound for cut in planes.points]
        cp.Problem(cp.Minimize(cp.sum_squares(d - start)), [cp.sum(d) == 1, *below]).solve(
            solver=cp.CLARABEL
        )
        assert_allclose(planes.project(start, bound), d.value, atol=1e-5)


@each_method
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"regularizer": L21()}, "the regularizers .*'mkl'"),
        ({"loss": Logistic()}, "needs the hinge, epsilon-insensitive or squared loss"),
        ({"intercept": False}, "an intercept"),
    ],
)
def test_problems_that_a_method_cannot_solve_are_refused(method, changes, message):
    problem, _ = small_problem("hinge", "squared block 1-norm")
    with pytest.raises(InputError, match=message):
        solver(method).solve(replace(problem, **changes))


def test_hessian_mkl_goes_on_if_its_quadratic_program_finds_no_descent(monkeypatch):
    problem, factors = small_problem("hinge", "squared block 1-norm")
    stay = np.full(problem.kernels.n_kernels, 1.0 / problem.kernels.n_kernels)
    monkeypatch.setattr("omkl.batch.wrappers.methods.minimize_on_simplex", lambda *_: stay)
    solution = HessianMKL().solve(problem, tol=1e-3)
    assert solution.converged
    assert_allclose(
        solution.certificate.primal,
        generic_optimum(problem, factors, "hinge", "squared block 1-norm"),
        rtol=1e-3,
    )


@each_method
def test_a_constant_target_needs_no_svm(method):
    problem, _ = small_problem("squared", "squared block 1-norm")
    solution = solver(method).solve(replace(problem, y=np.full(len(problem.y), 7.0)), 1e-6)
    assert solution.converged
    assert len(solution.model.active) == 0
    assert_allclose(solution.model.intercept, 7.0)


# ---- MKL with elastic-net-constrained weights (Citi 2015) ----------------------------------------


@pytest.mark.parametrize("eta", [0.0, 0.2, 0.6, 1.0])
def test_the_bound_of_the_paper_is_the_dual_of_the_problem(eta):
    """Eq. 8, corrected to ``1'a - u'theta/2``, in units of the SVM's cost: the loop stops by this
    bound only.
    """
    problem, _ = small_problem("hinge", f"weights in elastic net {eta}", n=30, n_kernels=8)
    weights = problem.regularizer.kernel_weights(np.ones(8))
    svm = SVC(kernel="precomputed", C=problem.C, tol=1e-10).fit(
        problem.kernels.combine(weights), problem.y
    )
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
    """Norms of vanishing kernels underflow when squared; Algorithm 2 as printed then divides 0 by
    0.
    """
    problem, _ = small_problem("hinge", "squared block 1-norm")
    grams = problem.kernels.grams * np.array([1e-6, 1.0, 1.0, 1.0])[:, None, None]
    problem = Problem(DenseStack(grams), problem.y, problem.loss, ElasticNetWeights(eta), problem.C)
    solution = WeightConstrained().solve(problem, tol=1e-15, max_iter=250)
    assert [record["active"] for record in solution.history[:: len(solution.history) - 1]] == [4, 3]
    assert abs(solution.certificate.gap) < 1e-6
