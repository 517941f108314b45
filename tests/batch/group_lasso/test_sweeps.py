"""Coordinate descent on a working set reaches the optimum, and each round passes its line search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from omkl.batch import DAL, ColumnGroups, DesignProblem, as_design, certify
from omkl.batch.group_lasso import sweeps as design_sweeps
from omkl.batch.group_lasso._jit_sweeps import LARGEST_BASIS
from omkl.batch.group_lasso.sweeps import Sweeps
from omkl.batch.group_lasso.working_set import WorkingSet
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
    sweeps, w = Sweeps(problem, working_set), np.zeros(24)
    for _ in range(rounds):
        outputs = working_set.outputs(w)
        w = sweeps.round(w, outputs + problem.best_intercept(outputs))
    outputs = working_set.outputs(w)
    value = problem.primal(outputs + problem.best_intercept(outputs), working_set.blocks.norms(w))
    return working_set.model(w, 0.0).dense(24), value


@pytest.mark.parametrize("regularizer", [L21(), ElasticNet(0.3)], ids=repr)
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_one_round_solves_the_active_groups(regularizer, grouped, kind, monkeypatch):
    monkeypatch.setattr(design_sweeps, "FASTER_FACTORS", np.inf)
    monkeypatch.setattr(design_sweeps, "LEAST_GAIN", 0.0)
    problem = make_problem(Squared(), regularizer, grouped, kind)
    working_set = WorkingSet(problem)
    working_set.extend(np.arange(problem.groups.n_groups))
    w = Sweeps(problem, working_set).round(np.zeros(24), problem.best_intercept(np.zeros(60)) * np.ones(60))
    outputs = working_set.outputs(w)
    correlations = working_set.matrix.T @ problem.dual_point(outputs + problem.best_intercept(outputs))
    norms = working_set.blocks.spread(working_set.blocks.norms(w))
    active = norms > 0
    linear, quadratic = regularizer.elastic
    slope = linear * w[active] / norms[active] + quadratic * w[active]
    assert active.sum() > 5
    assert_allclose(correlations[active], problem.alpha * slope, atol=1e-9)


@pytest.mark.parametrize("regularizer", [L21(), ElasticNet(0.3), 2.0 * L21()], ids=repr)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("size", [2, 5, 90])
def test_one_sweep_minimises_a_single_group_exactly(regularizer, kind, size, monkeypatch):
    monkeypatch.setattr(design_sweeps, "FASTER_FACTORS", 1e-12)
    monkeypatch.setattr(design_sweeps, "MOST_SWEEPS", 1)
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, size))
    # columns of different scales, a duplicate and a zero column; or more columns than samples
    A *= 10.0 ** rng.uniform(-2, 1, size)
    A[:, 0], A[:, -1] = A[:, 1], 0.0
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


def test_groups_too_large_for_an_eigenbasis_are_solved_as_well():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(80, 3 * 200)) / np.sqrt(200)
    y = A[:, :200] @ rng.normal(size=200) + rng.normal(size=80)
    for matrix in (A, sparse.csc_matrix(A)):
        problem = DesignProblem(as_design(matrix), y, Squared(), L21(), 1.0, ColumnGroups(np.arange(600) // 200, 600))
        problem = problem.at(0.3 * problem.largest_alpha())
        assert problem.groups.blocks.sizes[0] > LARGEST_BASIS
        assert DAL().solve(problem, 1e-8).converged


def test_groups_that_leave_are_zero_to_the_last_bit():
    """Rounding in eigenbases must not leave coefficients of 1e-17."""
    problem = make_problem(Squared(), L21(), True)
    working_set = WorkingSet(problem)
    working_set.extend(np.arange(problem.groups.n_groups))
    w = Sweeps(problem.at(10.0), working_set).round(np.random.default_rng(0).normal(size=24), np.zeros(60))
    assert not w.any()
