"""Sparse groups, nonnegative coefficients, and unregularized groups, against a convex solver."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from omkl.batch import (
    DAL,
    ColumnGroups,
    DesignProblem,
    LinearModel,
    SpaRSA,
    as_design,
    certify,
    regularization_path,
)
from omkl.batch.group_lasso.blocks import Blocks, GroupNorms
from omkl.batch.group_lasso.dal import _Search
from omkl.exceptions import InputError
from omkl.losses import Hinge, Logistic, Poisson, Squared
from omkl.regularizers import L1, L21, ElasticNet, SparseGroup

LABELS = np.arange(24) // 4
ONES = np.ones(6)
# weights of group norms, weights of coefficients, nonnegative
KINDS = {
    "sparse groups": (ONES, 0.5, False),
    "positive": (ONES, 0.0, True),
    "positive sparse groups": (np.array([1.0, 2.0, 0.5, 1.0, 1.0, 1.0]), 0.3, True),
    "an unpenalized group": (np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0]), 0.0, False),
    "an unpenalized group beside positive ones": (np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0]), 0.0, True),
    "single coefficients of a group alone": (np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0]), 0.4, False),
}


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(80, 24)) + 0.5
    z = A[:, :6] @ rng.normal(size=6) + A[:, 20]
    z -= z.mean()
    y = np.sign(z + rng.normal(size=80))
    return A, {Squared: z + 3 + rng.normal(size=80), Logistic: y, Hinge: y, Poisson: rng.poisson(np.exp(0.3 * z)) * 1.0}


def make_problem(samples, loss, kind, intercept=True, is_sparse=False, alpha=0.1):
    A, targets = samples
    weights, l1, positive = KINDS[kind]
    regularizer = L21() + l1 * L1() if l1 else L21()
    return DesignProblem(
        as_design(sparse.csc_array(A) if is_sparse else A),
        targets[loss],
        loss(),
        regularizer,
        alpha,
        ColumnGroups(LABELS, 24, weights),
        intercept,
        positive=positive,
    )


def by_cvxpy(samples, loss, kind, intercept, alpha=0.1):
    """The least objective, and coefficients."""
    A, targets = samples
    weights, l1, positive = KINDS[kind]
    y, w, b = targets[loss], cp.Variable(24), cp.Variable() if intercept else 0.0
    z = A @ w + b
    value = {
        Squared: lambda: 0.5 * cp.sum_squares(y - z),
        Logistic: lambda: cp.sum(cp.logistic(-cp.multiply(y, z))),
        Hinge: lambda: cp.sum(cp.pos(1 - cp.multiply(y, z))),
        Poisson: lambda: cp.sum(cp.exp(z) - cp.multiply(y, z)) + Poisson().value(y, np.zeros(80)).sum() - 80,
    }[loss]()
    parts = [w[g == LABELS] for g in range(6)]
    penalty = sum(weight * cp.norm(part) + l1 * cp.norm1(part) for weight, part in zip(weights, parts))
    limits = [part >= 0 for weight, part in zip(weights, parts) if positive and weight + l1 > 0]
    problem = cp.Problem(cp.Minimize(value / 80 + alpha * penalty), limits)
    problem.solve(solver="CLARABEL")
    return problem.value, w.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [Squared, Logistic, Poisson, Hinge])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_solutions_are_those_of_a_convex_solver(samples, kind, loss, intercept, is_sparse):
    if loss is Hinge and "unpenalized" in kind:
        with pytest.raises(InputError, match="weight 0"):
            make_problem(samples, loss, kind)
        return
    if is_sparse == intercept and loss in (Hinge, Poisson):
        return  # half of the combinations suffice
    problem = make_problem(samples, loss, kind, intercept, is_sparse)
    solution = DAL().solve(problem, 1e-8)
    value, w = by_cvxpy(samples, loss, kind, intercept)
    assert solution.converged
    assert_allclose(solution.certificate.primal, value, rtol=1e-7)
    assert_allclose(solution.model.dense(24), w, atol=1e-3)
    if loss is not Hinge:
        found = certify(problem, solution.model, solution.certificate.rho)
        assert -1e-12 <= found.gap <= 1.001e-8
    if "positive" in kind:
        penalized = (KINDS[kind][0] + KINDS[kind][1] > 0)[LABELS]
        assert solution.model.dense(24)[penalized].min() >= 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_newton_steps_end_where_sweeps_do(samples, kind, monkeypatch):
    problem = make_problem(samples, Logistic, kind)
    swept = DAL().solve(problem, 1e-9)
    monkeypatch.setattr(_Search, "_gives_up", lambda self, gaps: self.problem.takes_newton_steps)
    stepped = DAL().solve(problem, 1e-8)
    assert (stepped.history[-1]["newton_steps"] > 0) == ("unpenalized" not in kind)
    assert_allclose(stepped.model.dense(24), swept.model.dense(24), atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_begins_where_no_penalized_group_is_in_the_model(samples, kind):
    problem = make_problem(samples, Squared, kind)
    path = list(regularization_path(DAL(), problem, 6, 1e-7, decades=2))
    assert np.count_nonzero(path[0].solution.certificate.norms) == 0
    assert np.count_nonzero(path[1].solution.certificate.norms) > 0
    for point in path[1::2]:
        assert point.solution.converged
        assert_allclose(
            point.solution.certificate.primal, by_cvxpy(samples, Squared, kind, True, point.value)[0], rtol=2e-7
        )


def test_paths_on_wide_designs_are_the_separate_fits():
    """Wide designs in Fortran order, where products with few columns are cheap: paths are the separate fits."""
    rng = np.random.default_rng(1)
    A = np.asfortranarray(rng.normal(size=(60, 800)))
    y = A[:, :5].sum(axis=1) - A[:, 5] + 0.1 * rng.normal(size=60)
    labels, weights = np.arange(800) // 4, np.ones(200)
    weights[1] = 0.0
    for regularizer, own, positive in ((SparseGroup(0.6), None, False), (L21(), weights, True)):
        groups = ColumnGroups(labels, 800, own)
        problem = DesignProblem(as_design(A), y, Squared(), regularizer, 1.0, groups, positive=positive)
        for point in regularization_path(DAL(), problem, 8, 1e-6, decades=1.5):
            alone = DAL().solve(problem.at(point.value), 1e-6)
            assert_allclose(point.solution.certificate.primal, alone.certificate.primal, rtol=2e-6)
            assert certify(problem.at(point.value), point.solution.model).gap <= 1e-4


@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=6),
    st.lists(st.floats(-5, 5), min_size=6, max_size=6),
    st.floats(0, 3),
    st.floats(0, 3),
    st.booleans(),
)
def test_the_dual_norm_is_the_polar(c, w, norm_weight, l1_weight, positive):
    if norm_weight + l1_weight < 1e-3:
        return
    c, w = np.array(c), np.array(w[: len(c)])
    norms = GroupNorms(Blocks(np.array([len(c)])), np.array([norm_weight]), np.array([l1_weight]), positive)
    bound = norms.dual_norms(c)[0]
    if positive:
        w = np.abs(w)
    # the dual norm is the supremum of <c, w> over the unit ball
    assert c @ w <= bound * norms.norms(w)[0] * (1 + 1e-9) + 1e-9
    if bound > 1e-6:
        assert_allclose(norms.dual_norms(2.0 * c), 2.0 * bound)
        left = norms.thresholded(c, bound)
        assert_allclose(np.linalg.norm(left), bound * norm_weight, atol=1e-9 * (1 + bound))


def test_infeasible_models_and_unsuitable_solvers_are_refused(samples):
    problem = make_problem(samples, Squared, "positive")
    assert problem.evaluate(LinearModel(np.array([0]), np.array([-1.0])))[0][0] == np.inf
    with pytest.raises(InputError, match="dal"):
        SpaRSA().solve(problem)
    with pytest.raises(InputError, match="squared norms"):
        DesignProblem(problem.design, problem.y, Squared(), ElasticNet(0.5) + L1(), 1.0, ColumnGroups(LABELS, 24))
    groups = ColumnGroups(np.arange(24) == 23, 24, [0.0, 1.0])
    with pytest.raises(InputError, match="fit any targets"):
        DAL().solve(DesignProblem(as_design(samples[0][:20]), problem.y[:20], Squared(), L21(), 1.0, groups))
