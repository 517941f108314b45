"""Properties of every regularizer: value, prox and conjugate agree with each other and with cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from omkl.regularizers import (
    L1,
    L21,
    Composite,
    ElasticNet,
    ElasticNetWeights,
    L21Ball,
    LqNorm,
    OverlappingGroups,
    Ridge,
    SquaredL21,
    SquaredLq,
    TreeGroups,
    WeightedSquaredL21,
)

from ..penalties import OwnPenalty

P = 6
WEIGHTS = np.array([1.0, 0.5, 0.0, 2.0, 1.0, 0.3])
CHAIN_OF_GROUPS = [[0, 1, 2], [2, 3], [3, 4, 5]]
TREE = [[0, 1, 2, 3, 4, 5], [0, 1], [2, 3, 4], [3, 4]]


def group_sum(x, groups, weights=None):
    weights = np.ones(len(groups)) if weights is None else weights
    return sum(w * cp.norm(x[np.array(group)], 2) for w, group in zip(weights, groups))


# every regularizer, and the same function written in the language of a generic convex solver
CASES = {
    "l21": (L21(), cp.norm1),
    "squared": (SquaredL21(), lambda x: 0.5 * cp.square(cp.norm1(x))),
    "weighted": (WeightedSquaredL21(WEIGHTS), lambda x: 0.5 * cp.square(cp.norm1(cp.multiply(WEIGHTS, x)))),
    "lq1.2": (LqNorm(1.2), lambda x: cp.sum(cp.power(cp.abs(x), 1.2)) / 1.2),
    "lq4/3": (LqNorm(4 / 3), lambda x: cp.sum(cp.power(cp.abs(x), 4 / 3)) / (4 / 3)),
    "lq3/2": (LqNorm(1.5), lambda x: cp.sum(cp.power(cp.abs(x), 1.5)) / 1.5),
    "lq3": (LqNorm(3), lambda x: cp.sum(cp.power(cp.abs(x), 3)) / 3),
    "lq5": (LqNorm(5), lambda x: cp.sum(cp.power(cp.abs(x), 5)) / 5),
    "elastic": (ElasticNet(0.3), lambda x: 0.7 * cp.norm1(x) + 0.15 * cp.sum_squares(x)),
    "ridge": (Ridge(), lambda x: 0.5 * cp.sum_squares(x)),
    "l1": (L1(), cp.norm1),
    "tree": (TreeGroups(TREE, [1.0, 0.5, 0.8, 0.3]), lambda x: group_sum(x, TREE, [1.0, 0.5, 0.8, 0.3])),
    "overlapping": (OverlappingGroups(CHAIN_OF_GROUPS, exact=True), lambda x: group_sum(x, CHAIN_OF_GROUPS)),
    "user": (
        OwnPenalty(np.expm1, np.exp),
        lambda x: cp.sum(cp.exp(cp.abs(x))) - P,
    ),
    "scaled": (0.25 * SquaredL21(), lambda x: 0.125 * cp.square(cp.norm1(x))),
    "l1 + mkl": (L1() + SquaredL21(), lambda x: cp.norm1(x) + 0.5 * cp.square(cp.norm1(x))),
    "l21 + ridge": (L21() + 2 * Ridge(), lambda x: cp.norm1(x) + cp.sum_squares(x)),
    "mkl + elastic": (
        SquaredL21() + ElasticNet(0.3),
        lambda x: 0.5 * cp.square(cp.norm1(x)) + 0.7 * cp.norm1(x) + 0.15 * cp.sum_squares(x),
    ),
    "lq + ridge": (
        0.5 * LqNorm() + 0.5 * Ridge(),
        lambda x: cp.sum(cp.power(cp.abs(x), 1.5)) / 3 + 0.25 * cp.sum_squares(x),
    ),
    "lq + lq + l21": (
        LqNorm(1.2) + 2 * LqNorm(3) + L21(),
        lambda x: cp.sum(cp.power(cp.abs(x), 1.2)) / 1.2 + 2 * cp.sum(cp.power(cp.abs(x), 3)) / 3 + cp.norm1(x),
    ),
}
every_regularizer = pytest.mark.parametrize("name", CASES)
#: Squared norms that stand for sets of kernel weights; their values are tested beside those sets.
SQUARED_NORMS = {f"elastic net weights {eta}": ElasticNetWeights(eta) for eta in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)}
SQUARED_NORMS |= {f"squared lq {q:.3g}": SquaredLq(q) for q in (12 / 11, 8 / 7, 4 / 3, 1.6, 2.0)}
each_function = pytest.mark.parametrize(
    "regularizer", [regularizer for regularizer, _ in CASES.values()] + list(SQUARED_NORMS.values()), ids=repr
)
vectors = arrays(np.float64, P, elements=st.floats(-20, 20).map(lambda v: round(v, 3)))
steps = st.floats(0.01, 10)


def naive_prox(expression, x0, step):
    x = cp.Variable(P)
    cp.Problem(cp.Minimize(step * expression(x) + 0.5 * cp.sum_squares(x - x0))).solve(solver=cp.CLARABEL)
    return x.value


@every_regularizer
@pytest.mark.parametrize("seed", range(3))
def test_prox_is_the_minimiser_that_a_generic_solver_finds(name, seed):
    regularizer, expression = CASES[name]
    rng = np.random.default_rng(seed)
    x0, step = rng.normal(size=P) * 3, rng.uniform(0.1, 2)
    assert_allclose(regularizer.prox(x0, step), naive_prox(expression, x0, step), atol=2e-4)


@every_regularizer
def test_value_is_the_function_itself(name):
    regularizer, expression = CASES[name]
    x0 = np.random.default_rng(3).normal(size=P)
    assert_allclose(regularizer.value(x0), expression(cp.Constant(x0)).value, rtol=1e-9)


@every_regularizer
@given(x0=vectors, step=steps)
def test_no_point_around_the_prox_does_better(name, x0, step):
    regularizer, _ = CASES[name]
    best = regularizer.prox(x0, step)

    def objective(x):
        return step * regularizer.value(x) + 0.5 * np.sum((x - x0) ** 2)

    directions = np.vstack([np.eye(P), np.random.default_rng(0).normal(size=(20, P))])
    for size in (1e-1, 1e-3):
        for direction in np.vstack([directions, -directions]):
            assert objective(best) <= objective(best + size * direction) + 1e-9 * (1 + objective(best))


@every_regularizer
@given(first=vectors, second=vectors, step=steps)
def test_prox_is_firmly_nonexpansive(name, first, second, step):
    regularizer, _ = CASES[name]
    moved = regularizer.prox(first, step) - regularizer.prox(second, step)
    assert moved @ moved <= moved @ (first - second) + 1e-7


@each_function
@given(x0=vectors)
def test_moreau_decomposition(regularizer, x0):
    """``x - prox(x)`` is the prox of the conjugate: Fenchel's inequality is tight between the two parts."""
    primal = regularizer.prox(x0, 1.0)
    dual = x0 - primal
    gap = regularizer.value(primal) + regularizer.conjugate(dual * (1 - 1e-7)) - primal @ dual
    assert abs(gap) <= 1e-5 * (1 + abs(primal @ dual))


@each_function
@given(x=vectors, y=vectors)
def test_fenchels_inequality(regularizer, x, y):
    assert regularizer.value(x) + regularizer.conjugate(y) >= x @ y - 1e-6 * (1 + abs(x @ y))


@given(x0=vectors, radius=st.floats(0.1, 30))
def test_ball_projects_onto_the_ball(x0, radius):
    ball = L21Ball(radius)
    projected = ball.prox(x0, 1.0)
    assert ball.value(projected) == 0.0
    if np.abs(x0).sum() <= radius:
        assert_allclose(projected, x0)
    else:
        x = cp.Variable(P)
        cp.Problem(cp.Minimize(cp.sum_squares(x - x0)), [cp.norm1(x) <= radius]).solve(solver=cp.CLARABEL)
        assert_allclose(projected, x.value, atol=1e-4)
    assert ball.conjugate(x0) == pytest.approx(radius * np.abs(x0).max())


def test_conjugate_of_a_composite_needs_an_exact_prox():
    inexact = Composite([SquaredL21(), LqNorm()])
    assert not inexact.exact
    with pytest.raises(ValueError, match="not exact"):
        inexact.conjugate(np.ones(P))


SEPARABLE = {
    "l21": L21(),
    "lq1.2": LqNorm(1.2),
    "lq3": LqNorm(3),
    "elastic": ElasticNet(0.3),
    "ridge": Ridge(),
    "user": OwnPenalty(np.expm1, np.exp),
    "scaled": 0.25 * ElasticNet(0.3),
    "user, linear": OwnPenalty(lambda b: b, np.ones_like, 1.0),
    "user, pseudo-Huber": OwnPenalty(lambda b: np.hypot(1, b) - 1, lambda b: b / np.hypot(1, b), 1.0),
    "lq + ridge": 0.5 * LqNorm() + 0.5 * Ridge(),
    "lq + elastic": LqNorm(3) + ElasticNet(0.2),
    "lq + user + l21": LqNorm(1.2) + OwnPenalty(np.expm1, np.exp) + L21(),
    "l21 + ridge": L21() + 2 * Ridge(),
}
each_separable = pytest.mark.parametrize("regularizer", SEPARABLE.values(), ids=SEPARABLE)
smooth_conjugate = pytest.mark.parametrize(
    "regularizer",
    [part for part in SEPARABLE.values() if part.smooth_conjugate],
    ids=[name for name, part in SEPARABLE.items() if part.smooth_conjugate],
)
# away from the kinks of the regularizers above
SMOOTH_POINTS = np.array([0.05, 0.4, 0.93, 1.7, 4.1])


@each_separable
def test_prox_slope_is_the_derivative_of_the_prox(regularizer):
    width = 1e-6
    slope = (regularizer.prox(SMOOTH_POINTS + width, 0.6) - regularizer.prox(SMOOTH_POINTS - width, 0.6)) / (2 * width)
    assert_allclose(regularizer.prox_slope(SMOOTH_POINTS, 0.6), slope, atol=1e-5)


@pytest.mark.parametrize(
    "regularizer",
    [SquaredL21(), 0.25 * SquaredL21(), ElasticNet(0.3), SquaredL21() + 0.3 * L21() + 2 * Ridge()],
    ids=repr,
)
def test_slope_and_coupling_make_the_jacobian_of_the_prox(regularizer):
    width = 1e-6
    jacobian = np.array(
        [
            (regularizer.prox(SMOOTH_POINTS + e, 0.6) - regularizer.prox(SMOOTH_POINTS - e, 0.6)) / (2 * width)
            for e in width * np.eye(len(SMOOTH_POINTS))
        ]
    )
    coupling = regularizer.prox_coupling(SMOOTH_POINTS, 0.6)
    coupling = np.zeros_like(SMOOTH_POINTS) if coupling is None else coupling
    ours = np.diag(regularizer.prox_slope(SMOOTH_POINTS, 0.6)) - np.outer(coupling, coupling)
    assert_allclose(ours, jacobian, atol=1e-5)


@smooth_conjugate
def test_derivatives_of_a_smooth_conjugate(regularizer):
    width = 1e-5
    for y in SMOOTH_POINTS:
        y, up, down = np.array([y]), np.array([y + width]), np.array([y - width])
        gradient = (regularizer.conjugate(up) - regularizer.conjugate(down)) / (2 * width)
        assert_allclose(regularizer.conjugate_gradient(y)[0], gradient, rtol=1e-4, atol=1e-6)
        curvature = (regularizer.conjugate_gradient(up) - regularizer.conjugate_gradient(down))[0] / (2 * width)
        assert_allclose(regularizer.conjugate_curvature(y)[0], curvature, rtol=1e-3, atol=1e-6)


@each_separable
@given(y=arrays(np.float64, P, elements=st.floats(0, 50)))
def test_scaled_dual_point_is_feasible(regularizer, y):
    scale = regularizer.dual_scale(y)
    assert 0 < scale <= 1
    assert np.isfinite(regularizer.conjugate(scale * y))
    if np.isfinite(regularizer.conjugate(y)):
        assert scale > 1 - 1e-9


@each_separable
def test_slopes_and_curvatures_are_the_derivatives_of_the_value(regularizer):
    width = 1e-6
    slopes = [(regularizer.value([b + width]) - regularizer.value([b - width])) / (2 * width) for b in SMOOTH_POINTS]
    assert_allclose(regularizer.slopes(SMOOTH_POINTS), slopes, rtol=1e-6)
    rise = regularizer.slopes(SMOOTH_POINTS + width) - regularizer.slopes(SMOOTH_POINTS - width)
    assert_allclose(regularizer.curvatures(SMOOTH_POINTS), rise / (2 * width), rtol=1e-3, atol=1e-6)


@every_regularizer
def test_declared_properties_hold(name):
    """Check declared sparsity, slope at zero and dual radius against prox and conjugate."""
    regularizer, _ = CASES[name]
    small = np.array([2.0, 2.0, 2.0, 1e-9, 1e-9, 1e-9])
    assert regularizer.is_sparse == (regularizer.prox(small, 1.0)[3:] == 0).any()
    slope, radius = regularizer.slope_at_zero, regularizer.dual_radius
    assert not regularizer.prox(np.full(P, slope), 1.0).any()
    if regularizer.separable:
        assert regularizer.prox(np.full(P, slope * (1 + 1e-6) + 1e-6), 1.0).any()
    assert np.isfinite(regularizer.conjugate(np.full(P, min(radius, 50.0))))
    if regularizer.separable and np.isfinite(radius):
        assert np.isinf(regularizer.conjugate(np.full(P, radius * (1 + 1e-6))))


@every_regularizer
@pytest.mark.parametrize("b", [[0.0] * P, [1e-30, 1.0, 1e30, 0.0, 2.0, 1e-12], [1e8] * P])
def test_large_and_small_norms_give_numbers_without_a_warning(name, b):
    regularizer, _ = CASES[name]
    b = np.array(b)
    for method in ("value", "slopes", "kernel_weights", "normalized_kernel_weights", "dual_scale"):
        assert not np.any(np.isnan(getattr(regularizer, method)(b)))
    for step in (0.0, 1e-12, 1.0, 1e6):
        shrunk = regularizer.prox(b, step)
        assert np.all((shrunk >= 0) & (shrunk <= b * (1 + 1e-12)))
