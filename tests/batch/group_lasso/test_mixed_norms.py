"""Sparse, nonnegative and unregularized groups, multi-task and multinomial problems, against a
convex solver.
"""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import check_grad

from omkl.batch import (
    DAL,
    ColumnGroups,
    DesignProblem,
    LinearModel,
    SpaRSA,
    as_design,
    certify,
    regularization_path,
    stacked_problem,
)
from omkl.batch.group_lasso.blocks import Blocks, GroupNorms
from omkl.batch.group_lasso.dal import _Search
from omkl.batch.group_lasso.sweeps import Sweeps
from omkl.batch.weighted_loss import MultinomialLoss, Unpenalized
from omkl.exceptions import InputError
from omkl.losses import Hinge, Logistic, Poisson, Squared
from omkl.regularizers import L1, L21, ElasticNet, SparseGroup

from ...cases import mostly_slow

LABELS = np.arange(24) // 4
ONES = np.ones(6)
# weights of group norms, weights of coefficients, nonnegative
KINDS = {
    "sparse groups": (ONES, 0.5, False),
    "positive": (ONES, 0.0, True),
    "positive sparse groups": (np.array([1.0, 2.0, 0.5, 1.0, 1.0, 1.0]), 0.3, True),
    "an unpenalized group": (np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0]), 0.0, False),
    "an unpenalized group beside positive ones": (
        np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
        0.0,
        True,
    ),
    "single coefficients of a group alone": (np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0]), 0.4, False),
}


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(80, 24)) + 0.5
    z = A[:, :6] @ rng.normal(size=6) + A[:, 20]
    z -= z.mean()
    y = np.sign(z + rng.normal(size=80))
    return A, {
        Squared: z + 3 + rng.normal(size=80),
        Logistic: y,
        Hinge: y,
        Poisson: rng.poisson(np.exp(0.3 * z)) * 1.0,
    }


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
    y = targets[loss]
    w = cp.Variable(24)
    z = A @ w
    if intercept:
        z = z + cp.Variable()
    value = {
        Squared: lambda: 0.5 * cp.sum_squares(y - z),
        Logistic: lambda: cp.sum(cp.logistic(-cp.multiply(y, z))),
        Hinge: lambda: cp.sum(cp.pos(1 - cp.multiply(y, z))),
        Poisson: lambda: (
            cp.sum(cp.exp(z) - cp.multiply(y, z)) + Poisson().value(y, np.zeros(80)).sum() - 80
        ),
    }[loss]()
    penalty = 0.0
    limits = []
    for g, weight in enumerate(weights):
        w_of_group = w[g == LABELS]
        penalty += weight * cp.norm(w_of_group) + l1 * cp.norm1(w_of_group)
        if positive and weight + l1 > 0:
            limits.append(w_of_group >= 0)
    problem = cp.Problem(cp.Minimize(value / 80 + alpha * penalty), limits)
    problem.solve(solver="CLARABEL")
    return problem.value, w.value


each_intercept = pytest.mark.parametrize("intercept", [True, False])


each_kind = pytest.mark.parametrize("kind", KINDS)


@mostly_slow(
    ("kind", "loss", "intercept", "is_sparse"),
    KINDS,
    (Squared, Logistic, Poisson, Hinge),
    (True, False),
    (True, False),
    every=3,
)
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
        gap = certify(problem, solution.model, solution.certificate.rho).gap
        assert -1e-12 <= gap <= 1.001e-8
    if "positive" in kind:
        penalized = (KINDS[kind][0] + KINDS[kind][1] > 0)[LABELS]
        assert solution.model.dense(24)[penalized].min() >= 0.0


@each_kind
def test_newton_steps_end_where_sweeps_do(samples, kind, monkeypatch):
    problem = make_problem(samples, Logistic, kind)
    swept = DAL().solve(problem, 1e-9)
    monkeypatch.setattr(_Search, "_gives_up", lambda self, gaps: self.problem.takes_newton_steps)
    stepped = DAL().solve(problem, 1e-8)
    assert (stepped.history[-1]["newton_steps"] > 0) == ("unpenalized" not in kind)
    assert_allclose(
        stepped.model.dense(24),
        swept.model.dense(24),
        atol=1e-3,
    )


@each_kind
def test_a_path_begins_where_no_penalized_group_is_in_the_model(samples, kind):
    problem = make_problem(samples, Squared, kind)
    path = list(regularization_path(DAL(), problem, 6, 1e-7, decades=2))
    assert np.count_nonzero(path[0].solution.certificate.norms) == 0
    assert np.count_nonzero(path[1].solution.certificate.norms) > 0
    for point in path[1::2]:
        assert point.solution.converged
        assert_allclose(
            point.solution.certificate.primal,
            by_cvxpy(samples, Squared, kind, True, point.value)[0],
            rtol=2e-7,
        )


def test_paths_on_wide_designs_are_the_separate_fits():
    """Wide designs in Fortran order, where products with few columns are cheap: paths are the
    separate fits.
    """
    rng = np.random.default_rng(1)
    A = np.asfortranarray(rng.normal(size=(60, 800)))
    y = A[:, :5].sum(axis=1) - A[:, 5] + 0.1 * rng.normal(size=60)
    labels = np.arange(800) // 4
    weights = np.ones(200)
    weights[1] = 0.0
    for regularizer, group_weights, positive in (
        (SparseGroup(0.6), None, False),
        (L21(), weights, True),
    ):
        groups = ColumnGroups(labels, 800, group_weights)
        problem = DesignProblem(
            as_design(A), y, Squared(), regularizer, 1.0, groups, positive=positive
        )
        for point in regularization_path(DAL(), problem, 8, 1e-6, decades=1.5):
            alone = DAL().solve(problem.at(point.value), 1e-6)
            assert_allclose(
                point.solution.certificate.primal,
                alone.certificate.primal,
                rtol=2e-6,
            )
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
    norms = GroupNorms(
        Blocks(np.array([len(c)])), np.array([norm_weight]), np.array([l1_weight]), positive
    )
    bound = norms.dual_norms(c)[0]
    if positive:
        w = np.abs(w)
    # the dual norm is the supremum of <c, w> over the unit ball
    assert c @ w <= bound * norms.norms(w)[0] * (1 + 1e-9) + 1e-9
    if bound > 1e-6:
        assert_allclose(norms.dual_norms(2.0 * c), 2.0 * bound)
        left = norms.thresholded(c, bound)
        assert_allclose(
            np.linalg.norm(left),
            bound * norm_weight,
            atol=1e-9 * (1 + bound),
        )


def test_infeasible_models_and_unsuitable_solvers_are_refused(samples):
    problem = make_problem(samples, Squared, "positive")
    assert problem.evaluate(LinearModel(np.array([0]), np.array([-1.0])))[0][0] == np.inf
    with pytest.raises(InputError, match="dal"):
        SpaRSA().solve(problem)
    with pytest.raises(InputError, match="squared norms"):
        DesignProblem(
            problem.design,
            problem.y,
            Squared(),
            ElasticNet(0.5) + L1(),
            1.0,
            ColumnGroups(LABELS, 24),
        )
    groups = ColumnGroups(
        np.arange(24) == 23,
        24,
        [0.0, 1.0],
    )
    with pytest.raises(InputError, match="fit any targets"):
        DAL().solve(
            DesignProblem(
                as_design(samples[0][:20]),
                problem.y[:20],
                Squared(),
                L21(),
                1.0,
                groups,
            )
        )


OF_OUTPUTS = np.arange(24) // 4
OUTPUTS = 3


@pytest.fixture(scope="module")
def stacked_samples():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(80, 24)) + 0.3
    W = np.zeros((24, OUTPUTS))
    W[:6] = rng.normal(size=(6, OUTPUTS))
    z = A @ W - (A @ W).mean(axis=0)
    classes = (z + rng.normal(size=z.shape)).argmax(axis=1)
    targets = {"squared": z + 2 + rng.normal(size=z.shape), "multinomial": np.eye(OUTPUTS)[classes]}
    return A, {**targets, "poisson": rng.poisson(np.exp(0.2 * z)).astype(float)}


def make_stacked(
    stacked_samples, kind, weights, intercept, is_sparse=False, labels=OF_OUTPUTS, **options
):
    A, targets = stacked_samples
    loss = {"squared": Squared(), "multinomial": None, "poisson": Poisson()}[kind]
    design = as_design(sparse.csc_array(A) if is_sparse else A)
    return stacked_problem(
        design,
        targets[kind],
        loss,
        L21(),
        0.1,
        ColumnGroups(labels, 24, weights),
        intercept,
        **options,
    )


def stacked_by_cvxpy(stacked_samples, kind, weights, intercept, labels=OF_OUTPUTS, offset=0.0):
    A, targets = stacked_samples
    Y = targets[kind]
    W = cp.Variable((24, OUTPUTS))
    z = A @ W + offset
    if intercept:
        z = z + np.ones((80, 1)) @ cp.Variable((1, OUTPUTS))
    value = {
        "squared": lambda: 0.5 * cp.sum_squares(Y - z),
        "multinomial": lambda: cp.sum(cp.log_sum_exp(z, axis=1)) - cp.sum(cp.multiply(Y, z)),
        "poisson": lambda: (
            cp.sum(cp.exp(z) - cp.multiply(Y, z)) + (Poisson().value(Y, 0 * Y) - 1).sum()
        ),
    }[kind]()
    norms = [cp.norm(W[np.flatnonzero(labels == g)], "fro") for g in range(len(weights))]
    problem = cp.Problem(
        cp.Minimize(value / 80 + 0.1 * sum(w * norm for w, norm in zip(weights, norms)))
    )
    problem.solve(solver="CLARABEL")
    return problem.value, W.value


@pytest.mark.parametrize("kind", ["squared", "multinomial", "poisson"])
@pytest.mark.parametrize("has_free", [False, True])
@each_intercept
def test_stacked_solutions_are_those_of_a_convex_solver(stacked_samples, kind, has_free, intercept):
    weights = np.ones(6)
    weights[1] = 0.0 if has_free else 2.0
    problem = make_stacked(
        stacked_samples, kind, weights, intercept, is_sparse=has_free != intercept
    )
    solution = DAL().solve(problem, 1e-8)
    value, W = stacked_by_cvxpy(stacked_samples, kind, weights, intercept)
    assert solution.converged
    assert_allclose(solution.certificate.primal, value, rtol=1e-7)
    assert -1e-12 <= certify(problem, solution.model).gap <= 1e-6
    coefficients = solution.model.dense(24 * OUTPUTS).reshape(24, OUTPUTS)
    if kind == "multinomial":  # unregularized coefficients may all grow by the same amount
        coefficients -= coefficients.mean(axis=1, keepdims=True)
        W = W - W.mean(axis=1, keepdims=True)
    assert_allclose(coefficients, W, atol=1e-3)
    assert all(len(set((coefficients[g == OF_OUTPUTS] != 0).ravel())) == 1 for g in range(6))


@pytest.mark.parametrize("kind", ["squared", "multinomial"])
def test_single_columns_and_offsets(stacked_samples, kind):
    offset = np.random.default_rng(1).normal(size=(80, OUTPUTS))
    labels = np.arange(24)
    problem = make_stacked(stacked_samples, kind, np.ones(24), True, labels=None, offset=offset)
    solution = DAL().solve(problem, 1e-8)
    assert_allclose(
        solution.certificate.primal,
        stacked_by_cvxpy(stacked_samples, kind, np.ones(24), True, labels, offset)[0],
        rtol=1e-7,
    )


def test_the_multinomial_loss_and_its_conjugate_are_a_pair(rng):
    y = np.eye(3)[rng.integers(3, size=6)].T.ravel()
    weights = np.tile(rng.uniform(0.5, 2, 6), 3)
    offset = rng.normal(size=18)
    loss = MultinomialLoss(
        Logistic(), y, weights, offset, free=Unpenalized(np.ones((6, 1))), n_outputs=3
    )
    z = rng.normal(size=18)
    assert check_grad(loss.value, lambda z: -loss.dual_point(z), z) < 1e-5
    rho = loss.dual_point(z)
    assert_allclose(loss.value(z) + loss.conjugates(rho).sum(), -rho @ z)
    assert loss.value(z) + loss.conjugates(0.5 * rho).sum() >= -0.5 * rho @ z
    assert np.isinf(loss.conjugates(rho + 1.0)).all()
    balanced = loss.balanced(loss.clipped(rho + 0.1 * rng.normal(size=18)))
    assert_allclose(balanced.reshape(3, 6).sum(axis=1), 0.0, atol=1e-12)
    assert np.isfinite(loss.conjugates(balanced)).all()
    hessian = loss.hessian(rho)
    step = rng.normal(size=18)
    assert_allclose(
        hessian @ step,
        (loss.dual_point(z - 1e-6 * step) - loss.dual_point(z + 1e-6 * step)) / 2e-6,
        atol=1e-8,
    )
    assert_allclose(
        hessian.balance(step).reshape(3, 6).sum(axis=1),
        step.sum() / 3,
        atol=1e-12,
    )
    # the bound holds for the curvature in every direction
    u = (y - rho / weights).reshape(3, 6)
    for i, bound in enumerate((loss.curvature(rho) / weights)[:6]):
        assert np.linalg.eigvalsh(np.diag(u[:, i]) - np.outer(u[:, i], u[:, i]))[-1] <= bound <= 0.5


def test_kinks_and_sparse_groups_are_refused_for_several_outputs(stacked_samples):
    A, targets = stacked_samples
    for loss, regularizer in ((Hinge(), L21()), (Squared(), SparseGroup(0.5))):
        with pytest.raises(InputError, match="several outputs"):
            stacked_problem(
                as_design(A),
                targets["squared"],
                loss,
                regularizer,
                0.1,
                ColumnGroups(OF_OUTPUTS, 24),
            )
    elastic = stacked_problem(
        as_design(A),
        targets["squared"],
        Squared(),
        ElasticNet(0.5),
        0.1,
        ColumnGroups(OF_OUTPUTS, 24),
    )
    assert DAL().solve(elastic, 1e-7).converged


@pytest.mark.parametrize("size", [1, 3])
@each_intercept
@pytest.mark.parametrize("kind", ["squared", "multinomial", "multinomial sparse"])
def test_newton_steps_lead_to_the_solution_of_sweeps(size, intercept, kind, monkeypatch):
    """On correlated columns, where coordinate descent is slow."""
    rng = np.random.default_rng(size)
    A = rng.normal(size=(80, 30)) + rng.normal(size=(80, 1))
    Y = A[:, :6] @ rng.normal(size=(6, 4)) + rng.normal(size=(80, 4))
    Y, loss, share = (
        (Y, Squared(), 0.003) if kind == "squared" else (np.eye(4)[Y.argmax(axis=1)], None, 0.03)
    )
    groups = ColumnGroups(np.arange(30) // size, 30)
    design = as_design(sparse.csc_matrix(A) if "sparse" in kind else A)
    problem = stacked_problem(design, Y, loss, L21(), 1.0, groups, intercept)
    problem = problem.at(share * problem.largest_alpha())
    quick = DAL().solve(problem, 1e-9)
    assert quick.converged
    assert certify(problem, quick.model).gap <= 1e-8
    monkeypatch.setattr(Sweeps, "_newton_price", lambda self, groups: np.inf)
    slow = DAL().solve(problem, 1e-7, max_iter=1000)
    assert_allclose(quick.certificate.primal, slow.certificate.primal, rtol=1e-6)
    assert_allclose(
        quick.certificate.outputs,
        slow.certificate.outputs,
        atol=0.01 * np.ptp(slow.certificate.outputs),
    )


@pytest.mark.parametrize("seed", [3, 8, 11])
def test_gaps_below_the_root_of_rounding_are_reached(seed):
    """At such gaps, rounding may increase the primal of a better model; its dual point is better
    all the same.
    """
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(80, 30)) + rng.normal(size=(80, 1))
    Y = np.eye(4)[(A[:, :6] @ rng.normal(size=(6, 4)) + rng.normal(size=(80, 4))).argmax(axis=1)]
    problem = stacked_problem(
        as_design(sparse.csc_matrix(A)), Y, None, L21(), 1.0, ColumnGroups(np.arange(30) // 3, 30)
    )
    problem = problem.at(0.03 * problem.largest_alpha())
    solution = DAL().solve(problem, 1e-10)
    assert solution.converged
    assert certify(problem, solution.model).gap <= 1e-9


def test_a_column_that_holds_nan_is_named_for_several_outputs():
    A = np.random.default_rng(0).normal(size=(20, 6))
    Y = A[:, :3].copy()
    A[3, 4] = np.nan
    problem = stacked_problem(as_design(A), Y, Squared(), L21(), 0.1)
    with pytest.raises(InputError, match="Column 4 "):
        problem.largest_alpha()
