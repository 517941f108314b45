"""DAL on losses with linear pieces or kinks, on equal or empty columns, and on uninformative targets."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from omkl.batch import (
    DAL,
    ColumnGroups,
    DesignProblem,
    SpaRSA,
    as_design,
    regularization_path,
)
from omkl.exceptions import InputError
from omkl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import L21

SCALES = {
    "even": lambda X, rng: X,
    "uneven": lambda X, rng: X * 10.0 ** rng.uniform(-3, 3, X.shape[1]),
    "correlated": lambda X, rng: X + 3.0 * rng.normal(size=(len(X), 1)),
    "decaying": lambda X, rng: np.linalg.qr(X)[0] / np.arange(1, X.shape[1] + 1) @ rng.normal(size=[X.shape[1]] * 2),
}


#: Losses that are piecewise linear or have kinks, and their sums for cvxpy.
KINKED = {
    Huber(1.0): lambda y, z: 0.5 * cp.sum(cp.huber(y - z, 1.0)),
    Huber(0.01): lambda y, z: 0.5 * cp.sum(cp.huber(y - z, 0.01)),
    SquaredHinge(): lambda y, z: 0.5 * cp.sum_squares(cp.pos(1 - cp.multiply(y, z))),
    Hinge(): lambda y, z: cp.sum(cp.pos(1 - cp.multiply(y, z))),
    EpsilonInsensitive(0.1): lambda y, z: cp.sum(cp.pos(cp.abs(y - z) - 0.1)),
}


@pytest.mark.parametrize("loss", KINKED, ids=repr)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("share", "seed"), [(0.3, 0), (0.003, 1)])
def test_losses_that_are_straight_or_kinked_take_few_newton_steps(loss, scale, share, seed):
    """Far from the targets, these losses have no curvature."""
    rng = np.random.default_rng(seed)
    X = SCALES[scale](rng.normal(size=(60, 20)), rng)
    signal = X / np.linalg.norm(X, axis=0) * np.sqrt(60)
    y = signal[:, :5] @ rng.normal(size=5) + 0.3 * rng.standard_t(1.5, size=60)
    y = np.where(y > np.median(y), 1.0, -1.0) if loss.classifies else y
    problem = DesignProblem(as_design(X), y, loss, L21(), 1.0)
    problem = problem.at(share * problem.largest_alpha())
    solution = DAL().solve(problem, tol=1e-4)
    assert solution.converged
    assert solution.history[-1]["newton_steps"] <= 250
    if scale != "uneven":
        w, b = cp.Variable(20), cp.Variable()
        objective = KINKED[loss](y, X @ w + b) / 60 + problem.alpha * cp.norm1(w)
        assert_allclose(solution.certificate.primal, cp.Problem(cp.Minimize(objective)).solve(cp.CLARABEL), rtol=2e-4)


def test_zero_targets_without_an_intercept_have_the_zero_model():
    problem = DesignProblem(as_design(np.eye(4)), np.zeros(4), Squared(), L21(), 0.1, None, False)
    for solver in (DAL(), SpaRSA()):
        solution = solver.solve(problem)
        assert solution.converged
        assert len(solution.model.active) == 0


@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
def test_losses_with_kinks_are_certified_tightly(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 50))
    y = X[:, :5].sum(axis=1) + 0.5 * rng.normal(size=200)
    loss, y = (Hinge(), np.sign(y)) if loss == "hinge" else (EpsilonInsensitive(), y)
    solution = DAL().solve(DesignProblem(as_design(X), y, loss, L21(), 0.05), 2e-8)
    assert solution.converged
    assert len(solution.history) < 10


def test_numbers_that_are_not_finite_are_refused_where_products_meet_them():
    X = np.random.default_rng(0).normal(size=(10, 4))
    X[3, 2] = np.nan
    for matrix in (X, np.asfortranarray(X), sparse.csc_array(X), aslinearoperator(X)):
        problem = DesignProblem(as_design(matrix), np.arange(10.0), Squared(), L21(), 0.1)
        with pytest.raises(InputError, match="Column 2 of the design holds NaN"):
            problem.largest_alpha()
        for solver in (DAL(), SpaRSA()):
            with pytest.raises(InputError, match="design holds NaN"):
                solver.solve(problem)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("size", [1, 3, 50, 150])
def test_constant_and_duplicate_columns_in_groups_of_all_sizes_are_solved(size, intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 300))
    X[:, 0], X[:, 10], X[:, 7], X[:, 200] = 3.0, X[:, 11], 0.0, X[:, 11]
    y = X[:, 10] + X[:, 0] + rng.normal(size=30)
    for loss in (Squared(), Logistic()):
        target = np.sign(y - np.median(y) + 0.01) if loss.classifies else y
        groups = ColumnGroups(np.arange(300) // size, 300)
        problem = DesignProblem(as_design(X), target, loss, L21(), 1.0, groups, intercept)
        solution = DAL().solve(problem.at(0.1 * problem.largest_alpha()), 1e-7)
        assert solution.converged


def test_columns_that_have_nothing_to_do_with_the_targets_have_no_path():
    problem = DesignProblem(as_design(np.zeros((5, 3))), np.arange(5.0), Squared(), L21(), 1.0)
    with pytest.raises(InputError, match="none is in the model at any alpha"):
        next(regularization_path(DAL(), problem, 3))
