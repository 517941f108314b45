"""Coordinate descent on inner products shared along a path finds the same solutions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from omkl.batch import DAL, ColumnGroups, DesignProblem, as_design, certify, regularization_path, stacked_problem
from omkl.batch.group_lasso import sweeps
from omkl.batch.group_lasso.working_set import InnerProducts
from omkl.losses import Squared
from omkl.regularizers import L21, ElasticNet

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
    "unpenalized": {"groups": ColumnGroups(np.arange(N) // 3, N, [0.0, *range(1, 8)]), "sample_weight": data()[2]},
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
    assert path[-1].start.working_set.products.n_known == len(path[-1].start.working_set.columns) > 0
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
    for alpha, sample_weight in [(0.9, None), (0.5, None), (0.4, weights), (0.3, weights), (0.2, None)]:
        own = replace(problem, sample_weight=sample_weight)
        own = own.at(alpha * own.largest_alpha())
        solution = DAL().solve(own, 1e-9, None, start)
        start = solution.start
        assert certify(own, solution.model).gap <= 1e-8


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_free", [None, 1, 2])
def test_products_are_those_of_residual_columns(n_free, is_sparse):
    A, _, weights = data()
    free = None if n_free is None else np.random.default_rng(1).normal(size=(M, n_free))
    root, whole = np.sqrt(weights)[:, None], np.sqrt(weights)[:, None] * A
    if free is not None:
        whole = whole - (root * free) @ np.linalg.lstsq(root * free, whole, rcond=None)[0]
    products = InnerProducts()
    for size in (0, 7, 8, N):
        matrix = sparse.csc_matrix(A[:, :size]) if is_sparse else np.asfortranarray(A[:, :size])
        found = products.of(matrix, weights, free)[:size, :size]
        np.testing.assert_allclose(found, whole[:, :size].T @ whole[:, :size], rtol=1e-9, atol=1e-9)

    assert products.known(weights) == N
    assert products.known(weights + 1.0) == 0
