"""Composites, trees, overlaps; kernel weights; bounds; how regularizers are named, added and refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl._components import resolve
from omkl.exceptions import InputError
from omkl.regularizers import (
    L1,
    L21,
    Composite,
    ElasticNet,
    L21Ball,
    LqNorm,
    OverlappingGroups,
    Regularizer,
    Ridge,
    ScalarPenalty,
    SparseGroup,
    SquaredL21,
    TreeGroups,
    WeightedSquaredL21,
)


def test_l1_before_the_group_norm_is_exact_and_the_other_order_is_not():
    x = np.array([1.0, -0.4, 0.9, 0.2, -2.0, 0.3])
    sparse_group = SparseGroup(0.5, [[0, 1, 2], [3, 4, 5]])
    other_order = 0.5 * OverlappingGroups([[0, 1, 2], [3, 4, 5]])
    wrong = (0.5 * L1()).prox(other_order.prox(x, 1.0), 1.0)
    assert np.abs(sparse_group.prox(x, 1.0) - wrong).max() > 0.02


def test_a_composite_orders_its_terms_so_that_the_composition_is_exact():
    composite = Ridge() + L21() + L1()
    assert [type(term) for term in composite.regularizers] == [L1, L21, Ridge]
    assert composite.exact
    assert Composite([SquaredL21(), L21()]).exact
    assert not Composite([SquaredL21(), LqNorm()]).exact


def test_elastic_net_is_the_composite_of_its_parts():
    b = np.random.default_rng(0).exponential(size=9)
    parts = 0.7 * L21() + 0.3 * Ridge()
    assert_allclose(ElasticNet(0.3).prox(b, 0.8), parts.prox(b, 0.8))
    assert_allclose(ElasticNet(0.3).value(b), parts.value(b))
    assert_allclose(ElasticNet(0.3).kernel_weights(b), parts.kernel_weights(b))
    assert_allclose(ElasticNet(0.3).conjugate(b), parts.conjugate(b), rtol=1e-6)


@given(seed=st.integers(0, 10**6))
def test_a_step_of_a_later_union_never_raises_an_earlier_one(seed):
    """Condition (ii) of Lemma 4: what makes the sequence of proximal steps converge for general overlaps."""
    rng = np.random.default_rng(seed)
    unions = [OverlappingGroups([list(rng.choice(8, size=3, replace=False))]) for _ in range(4)]
    x = rng.normal(size=8)
    for j, later in enumerate(unions):
        shrunk = later.prox(x, rng.uniform(0, 2))
        for earlier in unions[:j]:
            assert earlier.value(shrunk) <= earlier.value(x) + 1e-12


def test_overlapping_prox_in_turn_is_one_step_a_union():
    x = np.array([3.0, 1.0, 0.2])
    in_turn = OverlappingGroups([[0, 1], [1, 2]]).prox(x, 0.5)
    expected = OverlappingGroups([[1, 2]]).prox(OverlappingGroups([[0, 1]]).prox(x, 0.5), 0.5)
    assert_allclose(in_turn, expected)
    assert np.abs(in_turn - OverlappingGroups([[0, 1], [1, 2]], exact=True).prox(x, 0.5)).max() > 1e-3


def test_a_tree_refuses_groups_that_cross():
    with pytest.raises(InputError, match="use OverlappingGroups"):
        TreeGroups([[0, 1], [1, 2]])


def test_unions_refer_to_groups_by_name():
    tree = TreeGroups([["word", "suffix"], ["suffix"]]).bind(["suffix", "shape", "word"])
    assert_allclose(tree.prox([1.0, 5.0, 1.0], 0.5), TreeGroups([[2, 0], [0]]).prox([1.0, 5.0, 1.0], 0.5))
    with pytest.raises(InputError, match="'tail'"):
        TreeGroups([["tail"]]).bind(["head"])


@pytest.mark.parametrize(
    ("regularizer", "expected"),
    [
        (L21(), [3.0, 0.0, 1.0]),
        (SquaredL21(), [0.75, 0.0, 0.25]),
        (WeightedSquaredL21([1.0, 1.0, 3.0]), [0.5, 0.0, 1 / 18]),
        (WeightedSquaredL21([0.0, 1.0, 3.0]), [np.inf, 0.0, 1 / 9]),
        (LqNorm(1.5), [3.0**0.5, 0.0, 1.0]),
        (LqNorm(3.0), [1 / 3.0, 0.0, 1.0]),
        (ElasticNet(0.5), [3.0 / 2.0, 0.0, 1.0]),
        (Ridge(), [1.0, 1.0, 1.0]),
        (L21Ball(2.0), [0.75, 0.0, 0.25]),
        (ScalarPenalty(np.square, lambda b: 2 * b), [0.5, 0.5, 0.5]),
        (Ridge() + L21Ball(1e9), [1.0, 1.0, 1.0]),
        (0.5 * LqNorm(1.5) + 0.5 * Ridge(), [2 / (3**-0.5 + 1), 0.0, 1.0]),
        (OverlappingGroups([[0, 1], [2]]), [3.0, 3.0, 1.0]),
    ],
)
def test_recovered_kernel_weights(regularizer, expected):
    assert_allclose(regularizer.kernel_weights([3.0, 0.0, 1.0]), expected)


@pytest.mark.parametrize(
    "regularizer", [L21(), SquaredL21(), LqNorm(1.3), LqNorm(4.0), ElasticNet(0.4), Ridge(), 3 * L1()]
)
def test_norm_bound_holds(regularizer):
    rng = np.random.default_rng(0)
    for _ in range(200):
        b = rng.exponential(size=5) * (rng.random(5) < 0.6)
        assert np.linalg.norm(b) <= regularizer.norm_bound(regularizer.value(b), 5) * (1 + 1e-9)


@pytest.mark.parametrize("q", [1.01, 1.1, 4 / 3, 1.5, 2.0, 2.7, 3.0, 10.0])
@pytest.mark.parametrize("step", [0.0, 1e-12, 1e-3, 1.0, 1e6])
def test_q_norm_root_solves_its_equation_at_all_magnitudes(q, step):
    b = np.array([0.0, 1e-12, 1e-3, 1.0, 50.0, 1e8])
    x = LqNorm(q).prox(b, step)
    assert ((x >= 0) & (x <= b)).all()
    # near q = 1 the root itself falls below the smallest float
    lost = (b > 0) & (x == 0)
    assert not lost.any() or ((np.log(b[lost]) - np.log(step)) / (q - 1) < -700).all()
    assert_allclose((x + step * x ** (q - 1))[~lost], b[~lost], rtol=1e-9)


def test_parts_by_name():
    assert resolve(Regularizer, "mkl", "regularizer") == SquaredL21()
    assert resolve(Regularizer, "lq:q=1.2", "regularizer") == LqNorm(1.2)
    assert resolve(Regularizer, L21(), "regularizer") == L21()


@pytest.mark.parametrize(
    ("text", "message"),
    [("mlk", "Unknown regularizer 'mlk'"), ("lq:q", "parameter=value"), ("mkl:q=2", "does not fit SquaredL21")],
)
def test_a_name_that_does_not_fit_is_one_clear_sentence(text, message):
    with pytest.raises(InputError, match=message):
        resolve(Regularizer, text, "regularizer")


def test_a_users_own_class_is_found_by_its_name():
    class Huberized(Ridge):
        aliases = {"huberized": {}}

    assert isinstance(resolve(Regularizer, "huberized", "regularizer"), Huberized)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LqNorm(1.0),
        lambda: ElasticNet(1.5),
        lambda: L21Ball(0.0),
        lambda: WeightedSquaredL21([-1.0]),
        lambda: 0 * L21(),
        lambda: SparseGroup(2.0),
        lambda: SparseGroup(0.5, [[0, 2]]),
        lambda: OverlappingGroups([]),
        lambda: TreeGroups([[0]], weights=[1.0, 2.0]),
        lambda: Composite([]),
    ],
)
def test_parameters_out_of_range_are_refused(make):
    with pytest.raises(InputError):
        make()
