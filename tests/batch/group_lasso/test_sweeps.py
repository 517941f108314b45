"""Coordinate descent on a working set reaches the optimum, also on shared inner products and with
screening.
"""

from dataclasses import replace

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
    as_design,
    certify,
    regularization_path,
    stacked_problem,
)
from omkl.batch.group_lasso import sweeps
from omkl.batch.group_lasso import sweeps as design_sweeps
from omkl.batch.group_lasso._jit_sweeps import LARGEST_BASIS
from omkl.batch.group_lasso.problem import DesignNorms
from omkl.batch.group_lasso.sweeps import Sweeps
from omkl.batch.group_lasso.working_set import InnerProducts, WorkingSet
from omkl.losses import Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import L21, ElasticNet

LOSSES = [Squared(), Logistic(), Huber(0.5), SquaredHinge()]


def make_problem(loss, regularizer, grouped, kind="dense"):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 24)) * (rng.random((60, 24)) < 0.5)
    y = A[:, :3].sum(axis=1) + 0.5 * rng.normal(size=60) + 0.3
    y = np.sign(y) if loss.classifies else y
    groups = ColumnGroups(np.arange(24) // 4, 24, np.linspace(0.5, 2, 6)) if grouped else None
    design = as_design(A if kind == "dense" else sparse.csc_matrix(A))
    return DesignProblem(design, y, loss, regularizer, 2.0 / 60, groups)


def swept(problem, rounds):
    """Return coefficients and objective after some rounds on a working set of all columns."""
    working_set = WorkingSet(problem)
    working_set.extend(np.arange(problem.groups.n_groups))
    sweeps = Sweeps(problem, working_set)
    w = np.zeros(24)
    for _ in range(rounds):
        outputs = working_set.outputs(w)
        w = sweeps.round(w, outputs + problem.best_intercept(outputs))
    outputs = working_set.outputs(w)
    value = problem.primal(
        outputs + problem.best_intercept(outputs),
        working_set.blocks.norms(w),
    )
    return working_set.model(w, 0.0).dense(24), value


each_kind = pytest.mark.parametrize("kind", ["dense", "sparse"])


@pytest.mark.parametrize("regularizer", [L21(), ElasticNet(0.3)], ids=repr)
@pytest.mark.parametrize("grouped", [True, False])
@each_kind
def test_one_round_solves_the_active_groups(regularizer, grouped, kind, monkeypatch):
    monkeypatch.setattr(design_sweeps, "FASTER_FACTORS", np.inf)
    monkeypatch.setattr(design_sweeps, "LEAST_GAIN", 0.0)
    problem = make_problem(Squared(), regularizer, grouped, kind)
    working_set = WorkingSet(problem)
    working_set.extend(np.arange(problem.groups.n_groups))
    w = Sweeps(problem, working_set).round(
        np.zeros(24), problem.best_intercept(np.zeros(60)) * np.ones(60)
    )
    outputs = working_set.outputs(w)
    correlations = working_set.matrix.T @ problem.dual_point(
        outputs + problem.best_intercept(outputs)
    )
    norms = working_set.blocks.spread(working_set.blocks.norms(w))
    active = norms > 0
    linear, quadratic = regularizer.elastic
    slope = linear * w[active] / norms[active] + quadratic * w[active]
    assert active.sum() > 5
    assert_allclose(
        correlations[active],
        problem.alpha * slope,
        atol=1e-9,
    )


@pytest.mark.parametrize("regularizer", [L21(), ElasticNet(0.3), 2.0 * L21()], ids=repr)
@each_kind
@pytest.mark.parametrize("size", [2, 5, 90])
def test_one_sweep_minimises_a_single_group_exactly(regularizer, kind, size, monkeypatch, rng):
    monkeypatch.setattr(design_sweeps, "FASTER_FACTORS", 1e-12)
    monkeypatch.setattr(design_sweeps, "MOST_SWEEPS", 1)
    A = rng.normal(size=(60, size))
    # columns of different scales, a duplicate and a zero column; or more columns than samples
    A *= 10.0 ** rng.uniform(-2, 1, size)
    A[:, 0] = A[:, 1]
    A[:, -1] = 0.0
    y = A @ rng.normal(size=size) + rng.normal(size=60)
    groups = ColumnGroups(np.zeros(size, dtype=int), size)
    design = as_design(A if kind == "dense" else sparse.csc_matrix(A))
    problem = DesignProblem(design, y, Squared(), regularizer, 1.0, groups, False)
    problem = problem.at(0.2 * problem.largest_alpha())
    working_set = WorkingSet(problem)
    working_set.extend(np.array([0]))
    w = Sweeps(problem, working_set).round(np.zeros(size), np.zeros(60))
    assert certify(problem, working_set.model(w, 0.0)).proves(1e-9)
    assert w.any()


def test_groups_too_large_for_an_eigenbasis_are_solved_as_well(rng):
    A = rng.normal(size=(80, 3 * 200)) / np.sqrt(200)
    y = A[:, :200] @ rng.normal(size=200) + rng.normal(size=80)
    for matrix in (A, sparse.csc_matrix(A)):
        problem = DesignProblem(
            as_design(matrix), y, Squared(), L21(), 1.0, ColumnGroups(np.arange(600) // 200, 600)
        )
        problem = problem.at(0.3 * problem.largest_alpha())
        assert problem.groups.blocks.sizes[0] > LARGEST_BASIS
        assert DAL().solve(problem, 1e-8).converged


def test_groups_that_leave_are_zero_to_the_last_bit():
    """Rounding in eigenbases must not leave coefficients of 1e-17."""
    problem = make_problem(Squared(), L21(), True)
    working_set = WorkingSet(problem)
    working_set.extend(np.arange(problem.groups.n_groups))
    w = Sweeps(problem.at(10.0), working_set).round(
        np.random.default_rng(0).normal(size=24), np.zeros(60)
    )
    assert not w.any()


M, N = 120, 24


def data(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(M, N)) + 3.0
    A[:, 5] = A[:, 4]  # duplicates
    return A, A[:, :6] @ rng.normal(size=6) + rng.normal(size=M), rng.uniform(0.2, 3.0, size=M)


def problem_of(A, y, **others):
    others = {"groups": ColumnGroups(np.arange(N) // 3, N), "regularizer": L21(), **others}
    return DesignProblem(as_design(A), y, Squared(), alpha=1.0, **others)


KINDS = {
    "groups": {},
    "single columns": {"groups": None},
    "elastic net": {"regularizer": ElasticNet(0.7)},
    "no intercept": {"intercept": False},
    "weights": {"sample_weight": data()[2]},
    "an offset": {"offset": data()[2]},
    "unpenalized": {
        "groups": ColumnGroups(
            np.arange(N) // 3,
            N,
            [0.0, *range(1, 8)],
        ),
        "sample_weight": data()[2],
    },
}


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_path_has_the_solutions_of_single_problems(kind, is_sparse, monkeypatch):
    """Single problems sweep over the columns, without inner products."""
    A, y, _ = data()
    matrix = sparse.csc_matrix(A) if is_sparse else np.asfortranarray(A)
    problem = problem_of(matrix, y, **KINDS[kind])
    alphas = problem.largest_alpha() * np.geomspace(1.0, 0.01, 6)
    path = [point.solution for point in regularization_path(DAL(), problem, alphas, tol=1e-9)]
    assert (
        path[-1].start.working_set.products.n_known == len(path[-1].start.working_set.columns) > 0
    )
    monkeypatch.setattr(sweeps.Sweeps, "_takes_products", lambda *given: False)
    for alpha, solution in zip(alphas, path):
        alone = DAL().solve(problem.at(alpha), 1e-9)
        assert alone.start.working_set.products.n_known == 0
        assert certify(problem.at(alpha), solution.model).gap <= 1e-8
        assert solution.certificate.primal == pytest.approx(alone.certificate.primal, rel=1e-8)


def test_several_outputs_share_them():
    A, y, weights = data()
    targets = np.stack([y, weights, y[::-1]], axis=1)
    problem = stacked_problem(as_design(A), targets, Squared(), L21(), 1.0, None, True, weights)
    alphas = problem.largest_alpha() * np.geomspace(1.0, 0.01, 6)
    for point in regularization_path(DAL(), problem, alphas, tol=1e-9):
        assert certify(problem.at(point.value), point.solution.model).gap <= 1e-8
    assert point.solution.start.working_set.products.n_known > 0


def test_other_weights_are_other_products():
    A, y, weights = data()
    problem = problem_of(A, y)
    start = None
    for alpha, sample_weight in [
        (0.9, None),
        (0.5, None),
        (0.4, weights),
        (0.3, weights),
        (0.2, None),
    ]:
        weighted = replace(problem, sample_weight=sample_weight)
        weighted = weighted.at(alpha * weighted.largest_alpha())
        solution = DAL().solve(weighted, 1e-9, None, start)
        start = solution.start
        assert certify(weighted, solution.model).gap <= 1e-8


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_free", [None, 1, 2])
def test_products_are_those_of_residual_columns(n_free, is_sparse):
    A, _, weights = data()
    free = None if n_free is None else np.random.default_rng(1).normal(size=(M, n_free))
    root = np.sqrt(weights)[:, None]
    residuals = root * A
    if free is not None:
        weighted = root * free
        residuals = residuals - weighted @ np.linalg.lstsq(weighted, residuals, rcond=None)[0]
    products = InnerProducts()
    for size in (0, 7, 8, N):
        matrix = sparse.csc_matrix(A[:, :size]) if is_sparse else np.asfortranarray(A[:, :size])
        inner = products.of(matrix, weights, free)[:size, :size]
        expected = residuals[:, :size].T @ residuals[:, :size]
        assert_allclose(inner, expected, rtol=1e-9, atol=1e-9)

    assert products.known(weights) == N
    assert products.known(weights + 1.0) == 0


N_ROWS, N_COLUMNS = 40, 300
NONE = np.empty(0, dtype=np.int64), np.empty(0)


def screened_problem(
    kind="dense", seed=0, share=0.3, grouped=False, loss=None, m=N_ROWS, n=N_COLUMNS
):
    rng = np.random.default_rng(seed)
    loss = loss or Squared()
    A = np.asfortranarray(rng.normal(size=(m, n)) + rng.normal(size=(m, 1)))
    y = A[:, :5].sum(axis=1) + rng.normal(size=m)
    y = np.sign(y - np.median(y)) if loss.classifies else y
    groups = (
        ColumnGroups(rng.permutation(np.arange(n) % 60), n, rng.uniform(0.5, 2.0, 60))
        if grouped
        else None
    )
    if kind == "sparse":
        A = sparse.csc_matrix(np.where(rng.random(A.shape) < 0.2, A, 0.0))
    design = as_design(A.astype(np.float32) if kind == "single" else A)
    largest = DesignProblem(design, y, loss, L21(), 1.0, groups).largest_alpha()
    return DesignProblem(design, y, loss, L21(), share * largest, groups)


@pytest.mark.parametrize("kind", ["dense", "sparse", "single"])
@pytest.mark.parametrize("grouped", [True, False])
@given(seed=st.integers(0, 10_000), near=st.sampled_from([0.0, 1e-3, 0.03, 0.3]))
def test_norms_are_exact_where_the_constraint_is_violated_and_bounds_elsewhere(
    kind, grouped, seed, near
):
    problem = screened_problem(kind, seed % 7, grouped=grouped)
    rng = np.random.default_rng(seed)
    norms = DesignNorms(problem)
    origin = rng.normal(size=N_ROWS)
    norms.at(origin, *NONE)
    rho = rng.uniform(0.1, 2.0) * (origin + near * rng.normal(size=N_ROWS))
    # about a tenth of the groups violates
    exact = problem.groups.dual_norms(problem.design.correlations(rho))
    rho *= problem.alpha / np.quantile(exact, 0.9)
    exact = problem.groups.dual_norms(problem.design.correlations(rho))
    bounds = norms.at(rho, *NONE)
    violated = exact > problem.alpha * (1 + 1e-6)
    assert_allclose(bounds[violated], exact[violated], rtol=1e-5)
    assert np.all(bounds >= exact - 1e-5 * exact.max())
    assert np.all(bounds[~violated] <= problem.alpha * (1 + 1e-5))


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
@each_kind
def test_screening_does_not_change_the_solution(kind, loss):
    problem = screened_problem(kind, share=0.1, loss=loss, m=200, n=2000)
    rows = (
        problem.design.matrix.tocsr()
        if kind == "sparse"
        else np.ascontiguousarray(problem.design.matrix)
    )
    full = DesignProblem(as_design(rows), problem.y, loss, L21(), problem.alpha)
    assert problem.design.selective
    assert not full.design.selective
    few = DAL().solve(problem, 1e-8)
    all_of_them = DAL().solve(full, 1e-8)
    assert few.history[-1]["passes"] < len(few.history)
    assert all_of_them.history[-1]["passes"] == len(all_of_them.history)
    assert_allclose(few.certificate.primal, all_of_them.certificate.primal, rtol=1e-7)
    # the lower bound may come from another model
    assert few.certificate.gap <= certify(problem, few.model).gap + 1e-12


def test_a_warm_start_computes_few_products():
    problem = screened_problem(share=0.1)
    solution = DAL().solve(problem, 1e-6)
    again = DAL().solve(problem, 1e-6, start=solution.start)
    assert again.n_iter == 0
    assert again.history[-1]["passes"] < 0.5


@pytest.mark.parametrize("kind", ["dense", "single"])
@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-8, 1e-4])
def test_nearly_equal_points_still_give_bounds(kind, apart, rng):
    problem = screened_problem(kind)
    first = rng.normal(size=N_ROWS)
    first *= (
        0.5 * problem.alpha / problem.groups.dual_norms(problem.design.correlations(first)).max()
    )
    for seed in range(5):
        norms = DesignNorms(problem)
        for _ in range(3):
            norms._compute(first * (1.0 + apart * rng.normal(size=N_ROWS)))
        rho = first * (1.0 + 1e-3 * rng.normal(size=N_ROWS))
        exact = problem.design.matrix.astype(np.float64).T @ rho
        assert np.all(norms._bounds(rho, 1.0, norms._reaches) >= np.abs(exact)), seed
