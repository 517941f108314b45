"""Screening of groups: its bounds hold, and it finds the same violations as full passes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from omkl.batch import DAL, ColumnGroups, DesignProblem, as_design, certify
from omkl.batch.group_lasso.problem import DesignNorms
from omkl.losses import Logistic, Squared
from omkl.regularizers import L21

M, N = 40, 300
NONE = np.empty(0, dtype=np.int64), np.empty(0)


def make_problem(kind="dense", seed=0, share=0.3, grouped=False, loss=None, m=M, n=N):
    rng = np.random.default_rng(seed)
    loss = loss or Squared()
    A = np.asfortranarray(rng.normal(size=(m, n)) + rng.normal(size=(m, 1)))
    y = A[:, :5].sum(axis=1) + rng.normal(size=m)
    y = np.sign(y - np.median(y)) if loss.classifies else y
    groups = ColumnGroups(rng.permutation(np.arange(n) % 60), n, rng.uniform(0.5, 2.0, 60)) if grouped else None
    if kind == "sparse":
        A = sparse.csc_matrix(np.where(rng.random(A.shape) < 0.2, A, 0.0))
    design = as_design(A.astype(np.float32) if kind == "single" else A)
    largest = DesignProblem(design, y, loss, L21(), 1.0, groups).largest_alpha()
    return DesignProblem(design, y, loss, L21(), share * largest, groups)


@pytest.mark.parametrize("kind", ["dense", "sparse", "single"])
@pytest.mark.parametrize("grouped", [True, False])
@given(seed=st.integers(0, 10_000), near=st.sampled_from([0.0, 1e-3, 0.03, 0.3]))
def test_norms_are_exact_where_the_constraint_is_violated_and_bounds_elsewhere(kind, grouped, seed, near):
    problem = make_problem(kind, seed % 7, grouped=grouped)
    rng = np.random.default_rng(seed)
    norms, origin = DesignNorms(problem), rng.normal(size=M)
    norms.at(origin, *NONE)
    rho = rng.uniform(0.1, 2.0) * (origin + near * rng.normal(size=M))
    # about a tenth of the groups violates
    exact = problem.groups.dual_norms(problem.design.correlations(rho))
    rho *= problem.alpha / np.quantile(exact, 0.9)
    exact = problem.groups.dual_norms(problem.design.correlations(rho))
    found = norms.at(rho, *NONE)
    violated = exact > problem.alpha * (1 + 1e-6)
    assert_allclose(found[violated], exact[violated], rtol=1e-5)
    assert np.all(found >= exact - 1e-5 * exact.max())
    assert np.all(found[~violated] <= problem.alpha * (1 + 1e-5))


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_screening_does_not_change_the_solution(kind, loss):
    problem = make_problem(kind, share=0.1, loss=loss, m=200, n=2000)
    rows = problem.design.matrix.tocsr() if kind == "sparse" else np.ascontiguousarray(problem.design.matrix)
    full = DesignProblem(as_design(rows), problem.y, loss, L21(), problem.alpha)
    assert problem.design.selective
    assert not full.design.selective
    few, all_of_them = DAL().solve(problem, 1e-8), DAL().solve(full, 1e-8)
    assert few.history[-1]["passes"] < len(few.history)
    assert all_of_them.history[-1]["passes"] == len(all_of_them.history)
    assert_allclose(few.certificate.primal, all_of_them.certificate.primal, rtol=1e-7)
    # the lower bound may come from another model
    assert few.certificate.gap <= certify(problem, few.model).gap + 1e-12


def test_a_warm_start_computes_few_products():
    problem = make_problem(share=0.1)
    solution = DAL().solve(problem, 1e-6)
    again = DAL().solve(problem, 1e-6, start=solution.start)
    assert again.n_iter == 0
    assert again.history[-1]["passes"] < 0.5


@pytest.mark.parametrize("kind", ["dense", "single"])
@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-8, 1e-4])
def test_nearly_equal_points_still_give_bounds(kind, apart):
    problem = make_problem(kind)
    rng = np.random.default_rng(0)
    first = rng.normal(size=M)
    first *= 0.5 * problem.alpha / problem.groups.dual_norms(problem.design.correlations(first)).max()
    for seed in range(5):
        norms = DesignNorms(problem)
        for _ in range(3):
            norms._compute(first * (1.0 + apart * rng.normal(size=M)))
        rho = first * (1.0 + 1e-3 * rng.normal(size=M))
        exact = problem.design.matrix.astype(np.float64).T @ rho
        assert np.all(norms._bounds(rho, 1.0, norms._reaches) >= np.abs(exact)), seed
