"""Properties of every regularizer against cvxpy; composites, trees, overlaps; kernel weights; names
and errors.
"""

import decimal
from decimal import Decimal

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from omkl._components import resolve
from omkl.exceptions import InputError
from omkl.regularizers import (
    L1,
    L21,
    Composite,
    ElasticNet,
    ElasticNetWeights,
    L21Ball,
    LqNorm,
    OverlappingGroups,
    Regularizer,
    Ridge,
    SparseGroup,
    SquaredL21,
    SquaredLq,
    TreeGroups,
    WeightedSquaredL21,
)

from ..passes import OwnPenalty

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
    "weighted": (
        WeightedSquaredL21(WEIGHTS),
        lambda x: 0.5 * cp.square(cp.norm1(cp.multiply(WEIGHTS, x))),
    ),
    "lq1.2": (LqNorm(1.2), lambda x: cp.sum(cp.power(cp.abs(x), 1.2)) / 1.2),
    "lq4/3": (LqNorm(4 / 3), lambda x: cp.sum(cp.power(cp.abs(x), 4 / 3)) / (4 / 3)),
    "lq3/2": (LqNorm(1.5), lambda x: cp.sum(cp.power(cp.abs(x), 1.5)) / 1.5),
    "lq3": (LqNorm(3), lambda x: cp.sum(cp.power(cp.abs(x), 3)) / 3),
    "lq5": (LqNorm(5), lambda x: cp.sum(cp.power(cp.abs(x), 5)) / 5),
    "elastic": (ElasticNet(0.3), lambda x: 0.7 * cp.norm1(x) + 0.15 * cp.sum_squares(x)),
    "ridge": (Ridge(), lambda x: 0.5 * cp.sum_squares(x)),
    "l1": (L1(), cp.norm1),
    "tree": (
        TreeGroups(TREE, [1.0, 0.5, 0.8, 0.3]),
        lambda x: group_sum(x, TREE, [1.0, 0.5, 0.8, 0.3]),
    ),
    "overlapping": (
        OverlappingGroups(CHAIN_OF_GROUPS, exact=True),
        lambda x: group_sum(x, CHAIN_OF_GROUPS),
    ),
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
        lambda x: (
            cp.sum(cp.power(cp.abs(x), 1.2)) / 1.2
            + 2 * cp.sum(cp.power(cp.abs(x), 3)) / 3
            + cp.norm1(x)
        ),
    ),
}
every_regularizer = pytest.mark.parametrize("name", CASES)
#: Squared norms that stand for sets of kernel weights; their values are tested beside those sets.
SQUARED_NORMS = {
    f"elastic net weights {eta}": ElasticNetWeights(eta) for eta in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)
}
SQUARED_NORMS |= {f"squared lq {q:.3g}": SquaredLq(q) for q in (12 / 11, 8 / 7, 4 / 3, 1.6, 2.0)}
each_function = pytest.mark.parametrize(
    "regularizer",
    [regularizer for regularizer, _ in CASES.values()] + list(SQUARED_NORMS.values()),
    ids=repr,
)
vectors = arrays(
    np.float64,
    P,
    elements=st.floats(-20, 20).map(lambda v: round(v, 3)),
)
steps = st.floats(0.01, 10)


def naive_prox(expression, x0, step):
    x = cp.Variable(P)
    cp.Problem(cp.Minimize(step * expression(x) + 0.5 * cp.sum_squares(x - x0))).solve(
        solver=cp.CLARABEL
    )
    return x.value


@every_regularizer
@pytest.mark.parametrize("seed", range(3))
def test_prox_is_the_minimiser_that_a_generic_solver_finds(name, seed):
    regularizer, expression = CASES[name]
    rng = np.random.default_rng(seed)
    x0 = rng.normal(size=P) * 3
    step = rng.uniform(0.1, 2)
    assert_allclose(
        regularizer.prox(x0, step),
        naive_prox(expression, x0, step),
        atol=2e-4,
    )


@every_regularizer
def test_value_is_the_function_itself(name):
    regularizer, expression = CASES[name]
    x0 = np.random.default_rng(3).normal(size=P)
    assert_allclose(
        regularizer.value(x0),
        expression(cp.Constant(x0)).value,
        rtol=1e-9,
    )


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
            assert objective(best) <= objective(best + size * direction) + 1e-9 * (
                1 + objective(best)
            )


@every_regularizer
@given(first=vectors, second=vectors, step=steps)
def test_prox_is_firmly_nonexpansive(name, first, second, step):
    regularizer, _ = CASES[name]
    moved = regularizer.prox(first, step) - regularizer.prox(second, step)
    assert moved @ moved <= moved @ (first - second) + 1e-7


@each_function
@given(x0=vectors)
def test_moreau_decomposition(regularizer, x0):
    """``x - prox(x)`` is the prox of the conjugate: Fenchel's inequality is tight between the two
    parts.
    """
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
        cp.Problem(cp.Minimize(cp.sum_squares(x - x0)), [cp.norm1(x) <= radius]).solve(
            solver=cp.CLARABEL
        )
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
    "user, linear": OwnPenalty(lambda b: b, np.ones_like),
    "user, pseudo-Huber": OwnPenalty(
        lambda b: np.hypot(1, b) - 1,
        lambda b: b / np.hypot(1, b),
    ),
    "lq + ridge": 0.5 * LqNorm() + 0.5 * Ridge(),
    "lq + elastic": LqNorm(3) + ElasticNet(0.2),
    "lq + user + l21": LqNorm(1.2) + OwnPenalty(np.expm1, np.exp) + L21(),
    "l21 + ridge": L21() + 2 * Ridge(),
}
each_separable = pytest.mark.parametrize("regularizer", SEPARABLE.values(), ids=SEPARABLE)


@each_separable
@given(y=arrays(np.float64, P, elements=st.floats(0, 50)))
def test_scaled_dual_point_is_feasible(regularizer, y):
    scale = regularizer.dual_scale(y)
    assert 0 < scale <= 1
    assert np.isfinite(regularizer.conjugate(scale * y))
    if np.isfinite(regularizer.conjugate(y)):
        assert scale > 1 - 1e-9


@every_regularizer
def test_declared_properties_hold(name):
    """Check declared sparsity, slope at zero and dual radius against prox and conjugate."""
    regularizer, _ = CASES[name]
    small = np.array([2.0, 2.0, 2.0, 1e-9, 1e-9, 1e-9])
    assert regularizer.is_sparse == (regularizer.prox(small, 1.0)[3:] == 0).any()
    slope = regularizer.slope_at_zero
    radius = regularizer.dual_radius
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


def test_l1_before_the_group_norm_is_exact_and_the_other_order_is_not():
    x = np.array([1.0, -0.4, 0.9, 0.2, -2.0, 0.3])
    l1 = 0.5 * L1()
    groups = 0.5 * OverlappingGroups([[0, 1, 2], [3, 4, 5]])
    w = cp.Variable(6)
    value = 0.5 * cp.norm1(w) + 0.5 * (cp.norm(w[:3]) + cp.norm(w[3:]))
    cp.Problem(cp.Minimize(value + 0.5 * cp.sum_squares(w - x))).solve(solver=cp.CLARABEL)
    assert_allclose(
        groups.prox(l1.prox(x, 1.0), 1.0),
        w.value,
        atol=1e-4,
    )
    assert np.abs(l1.prox(groups.prox(x, 1.0), 1.0) - w.value).max() > 0.02


def test_a_composite_orders_its_terms_so_that_the_composition_is_exact():
    composite = Ridge() + L21() + L1()
    assert [type(term) for term in composite.regularizers] == [L1, L21, Ridge]
    assert composite.exact
    assert Composite([SquaredL21(), L21()]).exact
    assert not Composite([SquaredL21(), LqNorm()]).exact


@given(seed=st.integers(0, 10**6))
def test_a_step_of_a_later_union_never_raises_an_earlier_one(seed):
    """Condition (ii) of Lemma 4: what makes the sequence of proximal steps converge for general
    overlaps.
    """
    rng = np.random.default_rng(seed)
    unions = [OverlappingGroups([list(rng.choice(8, size=3, replace=False))]) for _ in range(4)]
    x = rng.normal(size=8)
    for j, later in enumerate(unions):
        shrunk = later.prox(x, rng.uniform(0, 2))
        for earlier in unions[:j]:
            assert earlier.value(shrunk) <= earlier.value(x) + 1e-12


def test_unions_refer_to_groups_by_name():
    tree = TreeGroups([["word", "suffix"], ["suffix"]]).bind(["suffix", "shape", "word"])
    assert_allclose(
        tree.prox([1.0, 5.0, 1.0], 0.5), TreeGroups([[2, 0], [0]]).prox([1.0, 5.0, 1.0], 0.5)
    )
    with pytest.raises(InputError, match="'tail'"):
        TreeGroups([["tail"]]).bind(["head"])
    with pytest.raises(InputError, match="use OverlappingGroups"):
        TreeGroups([[0, 1], [1, 2]])


def test_arguments_by_position_follow_the_users_order():
    """Arguments by name do not depend on the order."""
    names = ["suffix", "shape", "word"]
    order = ["word", "suffix", "shape"]
    b = np.array([1.0, 5.0, 2.0])
    expected = WeightedSquaredL21([1.0, 2.0, 0.0]).prox(b, 0.3)
    for weights in ([0.0, 1.0, 2.0], {"shape": 2.0, "suffix": 1.0, "word": 0.0}):
        for regularizer in (WeightedSquaredL21(weights), 1.0 * WeightedSquaredL21(weights)):
            assert_allclose(regularizer.bind(names, order).prox(b, 0.3), expected)
    for kind in (TreeGroups, OverlappingGroups):
        expected = kind([[0, 1], [0]], [1.0, 3.0]).prox(b, 0.3)
        for members in ([[1, 2], [1]], [["suffix", "shape"], ["suffix"]], [["suffix", 2], [1]]):
            assert_allclose(kind(members, [1.0, 3.0]).bind(names, order).prox(b, 0.3), expected)
    summed = (WeightedSquaredL21([0.0, 1.0, 2.0]) + TreeGroups([[1, 2]])).bind(names, order)
    assert_allclose(summed.value(b), 0.5 * (1 + 10) ** 2 + np.hypot(1, 5))


@pytest.mark.parametrize(
    ("regularizer", "message"),
    [
        (WeightedSquaredL21([1.0]), "2 groups but 1 weights"),
        (WeightedSquaredL21({"a": 1.0}), "see 'b'"),
        (WeightedSquaredL21({"a": 1.0, "b": 1.0, "c": 1.0}), "see 'c'"),
        (TreeGroups([[0, 2]]), "No group is called 2"),
    ],
)
def test_arguments_for_groups_that_are_not_there_are_refused(regularizer, message):
    with pytest.raises(InputError, match=message):
        regularizer.bind(["a", "b"])


def test_the_least_norms_have_no_weight():
    """Wrapper methods shrink norms until they are hardly numbers."""
    with np.errstate(all="raise"):
        weights = SquaredL21().kernel_weights(np.array([2.0, 1e-310, 0.0]))
    assert_array_equal(weights, [1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "regularizer",
    [
        2 * L21(), SquaredL21(), ElasticNet(0.3), Ridge(), LqNorm(1.5), LqNorm(4), SquaredLq(1.5),
        WeightedSquaredL21([1.0, 0.5, 3.0]), OwnPenalty(np.expm1, np.exp), LqNorm() + 0.3 * Ridge(),
        SquaredL21() + ElasticNet(0.2), TreeGroups([[0, 1, 2], [0, 1]]) + Ridge(),
        ElasticNetWeights(0.4),
    ],
    ids=repr,
)  # fmt: skip
def test_kernel_weights_are_the_best_in_the_variational_form(regularizer):
    """The gradient in each norm is ``b_k / d_k`` at the solution, as finite differences confirm."""
    b = np.array([0.7, 2.0, 1.1])
    width = 1e-6
    slopes = [
        (regularizer.value(b + e) - regularizer.value(b - e)) / (2 * width)
        for e in width * np.eye(3)
    ]
    assert_allclose(regularizer.kernel_weights(b), b / slopes, rtol=1e-5)
    assert_allclose(regularizer.slopes(b), slopes, rtol=1e-5)
    assert_allclose(
        regularizer.normalized_kernel_weights(b), (b / slopes) / (b / slopes).sum(), rtol=1e-5
    )


def test_the_weight_of_a_group_that_is_not_penalized_is_no_zero():
    b = np.array([1.0, 3.0, 2.0, 0.0])
    free = WeightedSquaredL21([0.0, 1.0, 0.0, 0.0])
    assert_allclose(free.normalized_kernel_weights(b), [1 / 3, 0.0, 2 / 3, 0.0])
    limit = WeightedSquaredL21([1e-9, 1.0, 1e-9, 1e-9])
    assert_allclose(
        limit.normalized_kernel_weights(b),
        [1 / 3, 0.0, 2 / 3, 0.0],
        atol=1e-8,
    )
    assert_allclose(SquaredL21().normalized_kernel_weights(np.zeros(3)), np.zeros(3))
    assert_allclose(L21Ball(9.0).normalized_kernel_weights([1.0, 3.0]), [0.25, 0.75])


@pytest.mark.parametrize(
    "regularizer",
    [
        L21(), SquaredL21(), LqNorm(1.3), LqNorm(4.0), ElasticNet(0.4), Ridge(), 3 * L1(),
        L21Ball(2.0), SparseGroup(0.3), WeightedSquaredL21([1.0, 0.3, 2.0, 1.0, 0.7]),
        SquaredL21() + 2 * ElasticNet(0.3),
        L21Ball(1.0) + Ridge(), TreeGroups([[0, 1, 2, 3, 4], [1, 2], [1]], [0.2, 1.0, 0.4]),
        OverlappingGroups([[0, 1, 2], [2, 3, 4]], [1.0, 0.5]),
        LqNorm(4.0) + L21(), WeightedSquaredL21(np.eye(5)[0]) + Ridge(),
    ],
    ids=repr,
)  # fmt: skip
def test_norm_bound_holds_and_is_exact_where_declared(regularizer, rng):
    for _ in range(40):
        b = rng.exponential(size=5) * (rng.random(5) < 0.6)
        value = regularizer.value(b)
        if np.isfinite(value):
            assert np.linalg.norm(b) <= regularizer.norm_bound(value, 5) * (1 + 1e-9)
    bound = regularizer.norm_bound(0.8, 5)
    if regularizer.least_at_one_group:
        assert min(regularizer.value((1 - 1e-9) * bound * e) for e in np.eye(5)) <= 0.8


@pytest.mark.parametrize(
    "regularizer", [WeightedSquaredL21([0.0, 1.0]), TreeGroups([[0]])], ids=repr
)
def test_unbounded_norms_are_refused(regularizer):
    with pytest.raises(InputError, match=type(regularizer).__name__):
        regularizer.norm_bound(1.0, 2)
    with pytest.raises(InputError, match="does not bound"):
        (3 * regularizer).norm_bound(1.0, 2)
    assert (regularizer + Ridge()).norm_bound(2.0, 2) == pytest.approx(2.0)


def q_norm_root(b, step, q):
    """The root of ``x + t x^(q-1) = b`` by bisection of ``log x`` in 50 digits."""
    with decimal.localcontext(prec=50, Emax=10**9, Emin=-(10**9)):
        b = Decimal(b)
        step = Decimal(step)
        power = Decimal(q) - 1
        low = min(b.ln(), (b / step).ln() / power) - max(1, 1 / power)
        high = b.ln()
        for _ in range(120):
            middle = (low + high) / 2
            below = middle.exp() + step * (power * middle).exp() < b
            low, high = (middle, high) if below else (low, middle)
        return float(low.exp())


magnitudes = st.floats(-12, 12)


@pytest.mark.parametrize("q", [1.001, 1.2, 4 / 3, 1.5, 1.9, 2.5, 3.0, 50.0])
@given(b=magnitudes, step=magnitudes)
@settings(max_examples=20)
def test_q_norm_root_against_50_digits(q, b, step):
    assert_allclose(
        LqNorm(q).prox([10**b], 10**step), q_norm_root(10**b, 10**step, q), rtol=1e-11, atol=1e-300
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mlk", "Unknown regularizer 'mlk'"),
        ("lq:q", "parameter=value"),
        ("mkl:q=2", "'mkl:q=2' has no parameter 'q': it has none."),
        ("lq:p=2", "'lq:p=2' has no parameter 'p': choose from q."),
        ("tree:group=3", "has no parameter 'group': choose from groups, weights."),
        ("lq:q=large", "q must be a finite number > 1, not 'large'"),
        ("weighted-mkl", "'weighted-mkl' needs a parameter: write weighted-mkl:weights=VALUE."),
        ("overlapping", "write overlapping:groups=VALUE"),
        ("tree", "write tree:groups=VALUE"),
    ],
)
def test_a_name_that_does_not_fit_is_one_clear_sentence(text, message):
    with pytest.raises(InputError, match=message):
        resolve(Regularizer, text, "regularizer")


def test_a_users_own_class_is_found_by_its_name():
    class Huberized(Ridge):
        aliases = {"huberized": {}}

    assert isinstance(resolve(Regularizer, "huberized", "regularizer"), Huberized)


def test_a_name_that_is_taken_is_refused_but_a_class_can_be_defined_anew():
    with pytest.raises(InputError, match="'mkl' of Mine is taken by SquaredL21"):
        type("Mine", (Ridge,), {"aliases": {"mine": {}, "mkl": {}}})
    assert type(resolve(Regularizer, "mkl", "regularizer")) is SquaredL21
    with pytest.raises(InputError, match="Unknown regularizer 'mine'"):
        resolve(Regularizer, "mine", "regularizer")
    versions = [
        type("Again", (Ridge,), {"aliases": {"again": {}}, "version": version})
        for version in (1, 2)
    ]
    assert type(resolve(Regularizer, "again", "regularizer")) is versions[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LqNorm(1.0),
        lambda: ElasticNet(1.5),
        lambda: SquaredLq(2.5),
        lambda: ElasticNetWeights(-0.1),
        lambda: L21Ball(0.0),
        lambda: WeightedSquaredL21([-1.0]),
        lambda: 0 * L21(),
        lambda: SparseGroup(2.0),
        lambda: OverlappingGroups([]),
        lambda: OverlappingGroups([[0, 1, 0]]),
        lambda: TreeGroups([[0]], weights=[np.inf]),
        lambda: TreeGroups([[0]], weights=[1.0, 2.0]),
        lambda: Composite([]),
    ],
)
def test_parameters_out_of_range_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_the_dual_ball_of_a_tree_is_where_the_unit_prox_is_zero():
    tree = TreeGroups([[0, 1, 2], [0, 1, 2, 3, 4], [5, 6]])
    for dual_norms in np.random.default_rng(0).gamma(1.0, 3.0, size=(20, 7)):
        scale = tree.dual_scale(dual_norms)
        assert 0 < scale < 1
        assert not tree.prox((1 - 1e-9) * scale * dual_norms, 1.0).any()
        assert tree.prox((1 + 1e-9) * scale * dual_norms, 1.0).any()


@pytest.mark.parametrize("seed", range(4))
def test_dual_norm_and_prox_of_overlapping_groups_are_those_of_a_generic_solver(seed):
    rng = np.random.default_rng(seed)
    groups = [rng.choice(9, 4, replace=False).tolist() for _ in range(6)] + [list(range(9))]
    regularizer = OverlappingGroups(groups, rng.uniform(0.5, 2, 7), exact=True)
    y = rng.normal(size=9) * 4
    x = cp.Variable(9)
    value = sum(w * cp.norm(x[group], 2) for w, group in zip(regularizer.weights, groups))
    largest = cp.Problem(cp.Maximize(y @ x), [value <= 1]).solve(solver=cp.CLARABEL)
    assert_allclose(
        1.0 / regularizer.dual_scale(1e3 * y),
        1e3 * largest,
        rtol=1e-6,
    )
    cp.Problem(cp.Minimize(value + 0.5 * cp.sum_squares(x - y))).solve(solver=cp.CLARABEL)
    assert_allclose(regularizer.prox(y, 1.0), x.value, atol=1e-4)


@given(seed=st.integers(0, 10**9))
def test_the_prox_of_overlapping_groups_is_zero_up_to_the_dual_norm_and_no_further(seed):
    """Some unions are doubled, some weights are 0, some coordinates in no union."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 20))
    groups = [
        rng.choice(n, rng.integers(1, min(n, 8) + 1), replace=False).tolist()
        for _ in range(rng.integers(1, 15))
    ]
    groups += groups[: rng.integers(0, 3)]
    weights = 10.0 ** rng.uniform(-1, 1, len(groups)) * (rng.random(len(groups)) < 0.9)
    regularizer = OverlappingGroups(groups, weights, exact=True)
    y = 100 * rng.normal(size=n)
    y[regularizer.kernel_weights(np.ones(n)) == np.inf] = 0.0
    scale = regularizer.dual_scale(y)
    y = y[: regularizer._size]
    if y.any():
        assert (
            np.abs(regularizer.prox((1 - 1e-3) * scale * y, 1.0)).max()
            < 1e-3 * np.abs(scale * y).max()
        )
        assert regularizer.prox((1 + 1e-2) * scale * y, 1.0).any()


@pytest.mark.parametrize("name", sorted(CASES))
@given(norms=arrays(float, P, elements=st.floats(0, 10)), step=st.floats(0, 3))
def test_compiled_steps_are_the_prox_of_norms(name, norms, step):
    regularizer = CASES[name][0]
    steps = regularizer.compiled_steps()
    if steps is None:
        return
    shrunk = norms.copy()
    for one in steps:
        reduced = one.factor * (step / (1.0 + step * one.quadratic))
        one.function(
            shrunk,
            reduced,
            one.parameters,
            np.empty((2, P)),
        )
    assert_array_equal(shrunk, regularizer.prox(norms, step))


def test_sums_with_one_term_that_is_neither_linear_nor_quadratic_are_compiled():
    assert (0.3 * SquaredL21()).compiled_steps() is not None
    assert (L21() + 0.5 * LqNorm(3.0)).compiled_steps() is not None
    assert len((L21() + Ridge()).compiled_steps()) == 1
    assert SquaredLq().compiled_steps() is None
    assert (SquaredLq() + L21()).compiled_steps() is None
