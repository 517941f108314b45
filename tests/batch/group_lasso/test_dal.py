"""DAL on a design matrix against generic solvers and scikit-learn, for every kind of design and in
degenerate cases.
"""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from omkl.batch import (
    DAL,
    ColumnGroups,
    DesignProblem,
    SpaRSA,
    as_design,
    certify,
    regularization_path,
)
from omkl.exceptions import InputError
from omkl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import L1, L21, ElasticNet, LqNorm, Ridge, SquaredL21

from ...cases import mostly_slow
from ...passes import OwnPenalty
from ..generic import LOSSES

REGULARIZERS = {
    "lasso": (L21(), cp.sum),
    "elastic net": (ElasticNet(0.4), lambda b: 0.6 * cp.sum(b) + 0.2 * cp.sum_squares(b)),
    "scaled": (2.5 * L21(), lambda b: 2.5 * cp.sum(b)),
    "own": (
        OwnPenalty(lambda b: b + b**3 / 3, lambda b: 1.0 + b**2),
        lambda b: cp.sum(b) + cp.sum(cp.power(b, 3)) / 3,
    ),
    "sum": (
        0.5 * L21() + 0.5 * LqNorm(1.5),
        lambda b: 0.5 * cp.sum(b) + cp.sum(cp.power(b, 1.5)) / 3,
    ),
    "smooth": (
        0.5 * LqNorm(1.5) + 0.5 * Ridge(),
        lambda b: cp.sum(cp.power(b, 1.5)) / 3 + 0.25 * cp.sum_squares(b),
    ),
}
#: Required gaps; larger for losses with kinks, where the barrier limits the precision.
TIGHT = {True: 1e-8, False: 5e-6}
#: Labels of groups of several sizes, not in order; and weights.
LABELS = np.repeat(["c", "a", "d", "b"], [1, 6, 8, 5])[np.random.default_rng(3).permutation(20)]
WEIGHTS = np.array([0.7, 1.0, 2.0, 1.3])
each_loss = pytest.mark.parametrize("loss", LOSSES)
each_smooth_loss = pytest.mark.parametrize(
    "loss", ["squared", "logistic", "squared hinge", "Huber"]
)


def make_problem(
    loss,
    regularizer="lasso",
    m=30,
    n=20,
    share=0.2,
    intercept=True,
    grouped=False,
    seed=0,
    **settings,
):
    """Draw a problem with correlated columns, at a fraction of its largest useful alpha."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) @ (np.eye(n) + 0.3 * rng.normal(size=(n, n)) / np.sqrt(n)) + 0.5
    loss = LOSSES[loss][0]
    y = X[:, :3] @ [1.0, -2.0, 1.0] + 0.5 * rng.normal(size=m) + 1.0
    y = np.sign(y) if loss.classifies else y
    groups = ColumnGroups(LABELS, n, WEIGHTS) if grouped else None
    problem = DesignProblem(
        as_design(X), y, loss, REGULARIZERS[regularizer][0], 1.0, groups, intercept
    )
    return (
        problem.at(0.1) if regularizer == "smooth" else problem.at(share * problem.largest_alpha())
    )


def generic_optimum(problem, loss, regularizer, grouped):
    """The least objective, by a generic convex solver."""
    X = problem.design.matrix
    w = cp.Variable(X.shape[1])
    b = cp.Variable() if problem.intercept else 0.0
    if grouped:
        norms = cp.hstack(
            [weight * cp.norm(w[label == LABELS], 2) for label, weight in zip("abcd", WEIGHTS)]
        )
    else:
        norms = cp.abs(w)
    objective = LOSSES[loss][1](problem.y, X @ w + b) / len(
        problem.y
    ) + problem.alpha * REGULARIZERS[regularizer][1](norms)
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


each_intercept = pytest.mark.parametrize("intercept", [True, False])


@mostly_slow(
    ("loss", "regularizer", "intercept", "grouped"),
    LOSSES,
    REGULARIZERS,
    (True, False),
    (True, False),
    every=3,
)
def test_the_objective_is_that_of_a_generic_solver(loss, regularizer, intercept, grouped):
    problem = make_problem(loss, regularizer, intercept=intercept, grouped=grouped)
    optimum = generic_optimum(problem, loss, regularizer, grouped)
    solution = DAL().solve(problem, tol=TIGHT[np.isfinite(problem.loss.curvature)])
    assert solution.converged
    assert len(solution.model.active) > 0
    assert (
        -1e-6 * optimum
        <= solution.certificate.primal - optimum
        <= (1e-6 + solution.certificate.gap) * optimum
    )


def test_the_certificate_is_that_of_the_returned_model():
    problem = make_problem("logistic", m=40, n=200)
    solution = DAL().solve(problem, tol=1e-4)
    certificate = certify(problem, solution.model)
    assert_allclose(certificate.gap, solution.certificate.gap, atol=1e-12)
    assert certificate.gap <= 1e-4
    optimum = DAL().solve(problem, tol=1e-10).certificate.primal
    for record in solution.history:
        assert record["dual"] <= optimum * (1 + 1e-9)
        assert record["primal"] >= optimum * (1 - 1e-9)


def test_designs_are_never_copied():
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(5, 8)), dtype=np.float32)
    for matrix in (X, X.T, sparse.csc_array(X), sparse.csr_array(X)):
        held = as_design(matrix).matrix
        shares = (
            np.shares_memory(held, matrix) if isinstance(matrix, np.ndarray) else held is matrix
        )
        assert shares


@each_smooth_loss
def test_badly_conditioned_designs_are_solved_tightly(loss, rng):
    m, n = 60, 400
    U, V = (np.linalg.qr(rng.normal(size=(size, m)))[0] for size in (m, n))
    X = U / np.arange(1, m + 1) @ V.T
    y = X[:, :5] @ rng.normal(size=5)
    loss = LOSSES[loss][0]
    y = np.sign(y) if loss.classifies else y / np.abs(y).mean()
    base = DesignProblem(as_design(X), y, loss, L21(), 1.0)
    alphas = [share * base.largest_alpha() for share in (0.3, 0.1, 0.01, 1e-3)]
    for point in regularization_path(DAL(), base, alphas, 1e-6):
        assert point.solution.converged, point.value


@each_loss
@each_intercept
def test_from_the_largest_alpha_on_the_model_is_a_constant(loss, intercept):
    problem = make_problem(loss, "elastic net", share=1.0, intercept=intercept)
    assert len(DAL().solve(problem, tol=1e-6).model.active) == 0
    below = make_problem(loss, "elastic net", share=0.98, intercept=intercept)
    # with kinks, the dual point of the best constant is not unique
    if np.isfinite(below.loss.curvature):
        assert len(DAL().solve(below, tol=1e-9).model.active) > 0


def test_zero_and_duplicate_columns_do_no_harm():
    problem = make_problem("logistic", n=20)
    X = problem.design.matrix
    padded = np.concatenate([np.zeros((30, 3)), X, X, np.zeros((30, 2))], axis=1)
    other = DesignProblem(as_design(padded), problem.y, problem.loss, L21(), problem.alpha)
    solution = DAL().solve(other, tol=1e-8)
    assert_allclose(
        solution.certificate.primal, DAL().solve(problem, tol=1e-8).certificate.primal, rtol=1e-7
    )
    w = solution.model.dense(45)
    assert_array_equal(w[[0, 1, 2, 43, 44]], 0.0)
    zero = DesignProblem(
        as_design(np.zeros((30, 4))),
        problem.y,
        problem.loss,
        L21(),
        0.1 / 30,
    )
    solution = DAL().solve(zero, tol=1e-6)
    assert solution.converged
    assert len(solution.model.active) == 0


@pytest.mark.parametrize(("m", "n"), [(300, 4), (8, 600), (40, 40), (3, 1)])
@each_loss
def test_tall_and_wide_designs(loss, m, n):
    problem = make_problem(loss, m=m, n=max(n, 3), share=0.02)
    tol = 1e-6 if np.isfinite(problem.loss.curvature) else TIGHT[False]
    solution = DAL().solve(problem, tol)
    assert solution.converged
    assert certify(problem, solution.model, solution.certificate.rho).gap <= 1.01 * tol


def test_a_callback_ends_the_search_and_a_start_goes_on():
    problem = make_problem("logistic", m=60, n=500, share=0.05)
    short = DAL().solve(
        problem,
        tol=1e-8,
        on_iteration=lambda record: record["active"] > 0,
    )
    assert not short.converged
    for start in (short.start, short.model):
        resumed = DAL().solve(problem, tol=1e-8, start=start)
        assert resumed.converged
        assert resumed.history[0]["primal"] <= short.certificate.primal * (1 + 1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regularizer": L1(), "groups": ColumnGroups([[0, 1], [2, 3]], 4)}, "leave out groups"),
        ({"alpha": 0.0}, "alpha must be a finite number > 0"),
        ({"y": np.zeros(3)}, "4 rows, but y has shape"),
        ({"loss": Logistic(), "y": np.ones(4)}, "one class only"),
        ({"groups": ColumnGroups(None, 3)}, "groups have 3 columns"),
    ],
)
def test_bad_problems_are_refused(settings, message):
    arguments = {
        "design": as_design(np.eye(4)),
        "y": np.arange(4.0),
        "loss": Squared(),
        "regularizer": L21(),
        "alpha": 1.0,
    }
    with pytest.raises(InputError, match=message):
        DesignProblem(**{**arguments, **settings})


def test_bad_parameters_are_refused():
    with pytest.raises(InputError, match="gamma must be"):
        DAL(gamma=0.0)
    with pytest.raises(InputError, match="tol must be"):
        DAL().solve(make_problem("squared"), tol=0.0)
    with pytest.raises(InputError, match="sum over groups"):
        DAL().solve(
            DesignProblem(
                as_design(np.eye(4)),
                np.arange(4.0),
                Squared(),
                SquaredL21(),
                1.0,
            )
        )
    with pytest.raises(InputError, match="second derivative"):
        SpaRSA().solve(make_problem("hinge"))
    with pytest.raises(InputError, match="keeps all columns in the model"):
        make_problem("squared", "smooth").largest_alpha()
    with pytest.raises(InputError, match="real matrix"):
        as_design(np.zeros(3))
    with pytest.raises(InputError, match="exactly once"):
        ColumnGroups([[0, 1], []], 2)


@each_loss
def test_the_best_model_met_is_returned_where_the_search_is_cut_short(loss):
    problem = make_problem(loss, m=60, n=200, share=0.01)
    for most in (1, 2, 3):
        solution = DAL().solve(problem, 1e-10, max_iter=most)
        assert solution.certificate.primal <= min(
            record["primal"] for record in solution.history
        ) * (1 + 1e-9)


def test_the_l1_norm_is_the_group_lasso_of_single_columns():
    problem = make_problem("squared")
    single = DesignProblem(
        problem.design, problem.y, Squared(), L1(), problem.alpha, ColumnGroups(np.arange(20), 20)
    )
    ours = DAL().solve(single, 1e-9)
    theirs = DAL().solve(problem, 1e-9)
    assert_allclose(ours.certificate.primal, theirs.certificate.primal, rtol=1e-9)


def test_a_start_of_another_design_serves_as_a_model_or_is_refused():
    problem = make_problem("squared")
    solution = DAL().solve(problem, 1e-8)
    for other in (
        DesignProblem(
            as_design(problem.design.matrix + 1.0), problem.y, Squared(), L21(), problem.alpha
        ),
        DesignProblem(
            as_design(problem.design.matrix[:20]), problem.y[:20], Squared(), L21(), problem.alpha
        ),
        DesignProblem(problem.design, problem.y, Squared(), L21(), problem.alpha, None, False),
        DesignProblem(
            problem.design, problem.y, Squared(), L21(), problem.alpha, ColumnGroups(LABELS, 20)
        ),
    ):
        again = DAL().solve(other, 1e-8, start=solution.start)
        assert certify(other, again.model, again.certificate.rho).proves(1e-7)
    narrow = DesignProblem(
        as_design(problem.design.matrix[:, :1]), problem.y, Squared(), L21(), problem.alpha
    )
    for solver in (DAL(), SpaRSA()):
        with pytest.raises(InputError, match="the design's 1 columns"):
            solver.solve(narrow, start=solution.model)
        with pytest.raises(InputError, match="LinearModel"):
            solver.solve(narrow, start=3)


SCALES = {
    "even": lambda X, rng: X,
    "uneven": lambda X, rng: X * 10.0 ** rng.uniform(-3, 3, X.shape[1]),
    "correlated": lambda X, rng: X + 3.0 * rng.normal(size=(len(X), 1)),
    "decaying": lambda X, rng: (
        np.linalg.qr(X)[0] / np.arange(1, X.shape[1] + 1) @ rng.normal(size=[X.shape[1]] * 2)
    ),
}


#: Losses that are piecewise linear or have kinks, and their sums for cvxpy.
KINKED = {
    Huber(1.0): lambda y, z: 0.5 * cp.sum(cp.huber(y - z, 1.0)),
    Huber(0.01): lambda y, z: 0.5 * cp.sum(cp.huber(y - z, 0.01)),
    SquaredHinge(): lambda y, z: 0.5 * cp.sum_squares(cp.pos(1 - cp.multiply(y, z))),
    Hinge(): lambda y, z: cp.sum(cp.pos(1 - cp.multiply(y, z))),
    EpsilonInsensitive(0.1): lambda y, z: cp.sum(cp.pos(cp.abs(y - z) - 0.1)),
}


@mostly_slow(("loss", "scale", "draw"), KINKED, SCALES, [(0.3, 0), (0.003, 1)], every=3)
def test_losses_that_are_straight_or_kinked_take_few_newton_steps(loss, scale, draw):
    """Far from the targets, these losses have no curvature."""
    share, seed = draw
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
        w = cp.Variable(20)
        b = cp.Variable()
        objective = KINKED[loss](y, X @ w + b) / 60 + problem.alpha * cp.norm1(w)
        assert_allclose(
            solution.certificate.primal,
            cp.Problem(cp.Minimize(objective)).solve(cp.CLARABEL),
            rtol=2e-4,
        )


def test_zero_targets_without_an_intercept_have_the_zero_model():
    problem = DesignProblem(
        as_design(np.eye(4)),
        np.zeros(4),
        Squared(),
        L21(),
        0.1,
        None,
        False,
    )
    for solver in (DAL(), SpaRSA()):
        solution = solver.solve(problem)
        assert solution.converged
        assert len(solution.model.active) == 0


@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
def test_losses_with_kinks_are_certified_tightly(loss, rng):
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


@each_intercept
@pytest.mark.parametrize("size", [1, 3, 50, 150])
def test_constant_and_duplicate_columns_in_groups_of_all_sizes_are_solved(size, intercept, rng):
    X = rng.normal(size=(30, 300))
    X[:, 0] = 3.0
    X[:, 10] = X[:, 11]
    X[:, 7] = 0.0
    X[:, 200] = X[:, 11]
    y = X[:, 10] + X[:, 0] + rng.normal(size=30)
    for loss in (Squared(), Logistic()):
        target = np.sign(y - np.median(y) + 0.01) if loss.classifies else y
        groups = ColumnGroups(np.arange(300) // size, 300)
        problem = DesignProblem(as_design(X), target, loss, L21(), 1.0, groups, intercept)
        solution = DAL().solve(problem.at(0.1 * problem.largest_alpha()), 1e-7)
        assert solution.converged


def test_columns_that_have_nothing_to_do_with_the_targets_have_no_path():
    problem = DesignProblem(
        as_design(np.zeros((5, 3))),
        np.arange(5.0),
        Squared(),
        L21(),
        1.0,
    )
    with pytest.raises(InputError, match="none is in the model at any alpha"):
        next(regularization_path(DAL(), problem, 3))
