"""Trees with grandparent and sibling parts: against enumeration, and literal sums over parts."""

import math
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl.exceptions import InputError
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.structures.trees import _jit_parts as jit
from omkl.structures.trees.parts import PartLists, PartPotentials, SecondOrderTree

from ..conftest import enumerate_trees

SEEDS = st.integers(0, 2**32 - 1)
KINDS = [(single_root, projective) for single_root in (True, False) for projective in (True, False)]


def draw(seed, n, structure, scale=1.0):
    """Draw potentials in which at least one tree is possible."""
    rng = np.random.default_rng(seed)
    trees = list(enumerate_trees(n, structure.single_root, structure.projective))
    candidates = rng.random((n + 1, n + 1)) < 0.7
    candidates[trees[rng.integers(len(trees))], np.arange(1, n + 1)] = True
    potentials = structure.over(candidates)
    potentials.arcs[:] = rng.normal(size=candidates.shape)
    potentials.parts[:] = scale * rng.normal(size=len(potentials.parts))
    possible = [tree for tree in trees if candidates[tree, np.arange(1, n + 1)].all()]
    return potentials, candidates, possible


def named_parts(heads, candidates):
    """List the parts of a tree by their nodes, as the definitions say."""
    n = len(heads)
    names = [("g", heads[h - 1], h, m) for m, h in enumerate(heads, 1) if h > 0]
    for h in range(n + 1):
        for side in (range(h - 1, 0, -1), range(h + 1, n + 1)):
            last = None
            for m in side:
                if heads[m - 1] == h:
                    names.append(("s", h, side.step, last, m))
                    last = m
            if any(candidates[h, m] for m in side):
                names.append(("s", h, side.step, last, None))
    return names


each_single_root_and_projective = pytest.mark.parametrize(("single_root", "projective"), KINDS)


@each_single_root_and_projective
@given(seed=SEEDS, n=st.integers(1, 5))
def test_scores_are_sums_over_arcs_and_named_parts(single_root, projective, seed, n):
    structure = SecondOrderTree(single_root, projective)
    potentials, candidates, possible = draw(seed, n, structure)
    numbers = []
    for heads in possible:
        counts = structure.parts_of(potentials.lists, heads)
        names = named_parts(heads.tolist(), candidates)
        assert counts.sum() == len(names)
        present = np.flatnonzero(counts)
        assert len(present) == len(names)  # every part once
        of_arcs = potentials.arcs[heads, np.arange(1, n + 1)].sum()
        expected = of_arcs + potentials.parts[present].sum()
        assert structure.score(potentials, heads) == pytest.approx(expected)
        numbers.append((set(names), set(present.tolist())))
    for names, present in numbers:  # trees share the numbers of the parts that they share
        for other_names, other_present in numbers:
            assert len(names & other_names) == len(present & other_present)


@each_single_root_and_projective
@given(seed=SEEDS, n=st.integers(1, 5))
def test_climbing_ends_in_a_tree_that_no_single_change_improves(single_root, projective, seed, n):
    structure = SecondOrderTree(single_root, projective)
    potentials, _, possible = draw(seed, n, structure)
    scores = {tuple(tree.tolist()): structure.score(potentials, tree) for tree in possible}
    for score, heads in structure._optima(potentials, 5):
        assert score == pytest.approx(scores[tuple(heads.tolist())])
        for other, value in scores.items():
            if np.count_nonzero(heads != other) == 1:
                assert value <= score + 1e-8


@each_single_root_and_projective
def test_search_errors_are_rare(single_root, projective):
    structure = SecondOrderTree(single_root, projective)
    wrong = 0
    for seed in range(200):
        potentials, _, possible = draw(seed, 2 + seed % 4, structure, scale=0.3)
        best = max(structure.score(potentials, tree) for tree in possible)
        wrong += structure.score(potentials, structure.decode(potentials)) < best - 1e-9
    assert wrong <= 24  # of 200 random ones; parts of trained models agree more with their arcs


def sibling_scores(potentials):
    """Return the scores of siblings by head, side, and both words, None where there is no word.

    The parts of a side are the pairs i < j of its modifiers and of None, which is both at the start
    (nothing before the first modifier) and at the end (nothing after the last one).
    """
    lists = potentials.lists
    scores = {}
    for side, start in enumerate(lists.bounds[:-1]):
        h, right = divmod(side, 2)
        order = lists.order[start : lists.bounds[side + 1]]
        modifiers = lists.modifiers[order].tolist()
        if modifiers:
            pairs = combinations([None, *modifiers, None], 2)
            for k, (s, m) in enumerate(pairs, lists.siblings[side]):
                scores[h, bool(right), s, m] = potentials.parts[k]
    return scores


def best_projective(potentials, n):
    """Score of the best projective tree with one root, by the dynamic program of McDonald and
    Pereira (2006).
    """
    arcs = potentials.arcs
    siblings = sibling_scores(potentials)

    @cache
    def inner(a, b):  # two heads a < b that share the words between them
        return max(half(a, k, True) + half(b, k + 1, False) for k in range(a, b))

    @cache
    def arc(h, m):  # an arc with all words below it, and the siblings before it
        right = m > h
        step = 1 if right else -1
        options = [siblings[h, right, None, m] + half(m, h + step, not right)]
        for s in range(h + step, m, step):
            between = inner(min(s, m), max(s, m))
            options.append(arc(h, s) + between + siblings[h, right, s, m])
        return arcs[h, m] + max(options)

    @cache
    def half(h, end, right):  # a head with all words up to the end on one side
        step = 1 if right else -1
        options = [
            arc(h, m) + half(m, end, right) + siblings[h, right, m, None]
            for m in range(h + step, end + step, step)
        ]
        return max(options, default=siblings.get((h, right, None, None), 0.0))

    scores = []
    for r in range(1, n + 1):
        root = arcs[0, r] + siblings[0, True, None, r] + siblings[0, True, r, None]
        scores.append(root + half(r, 1, False) + half(r, n, True))
    return max(scores)


@pytest.mark.compiled
def test_projective_trees_with_siblings_against_a_dynamic_program(rng):
    structure = SecondOrderTree(projective=True)
    wrong = 0
    for trial in range(60):
        n = 1 + trial % 12
        potentials = structure.over(np.ones((n + 1, n + 1), dtype=bool))
        potentials.arcs[:] = rng.normal(size=potentials.arcs.shape)
        siblings = slice(potentials.lists.siblings[0], None)
        potentials.parts[siblings] = 0.15 * rng.normal(size=len(potentials.parts[siblings]))
        best = best_projective(potentials, n)
        score = structure.score(potentials, structure.decode(potentials))
        assert score <= best + 1e-9
        wrong += score < best - 1e-9
        if n <= 5:
            trees = enumerate_trees(n, True, True)
            assert best == pytest.approx(max(structure.score(potentials, tree) for tree in trees))
    assert wrong <= 12


@given(seed=SEEDS, n=st.integers(1, 5), n_best=st.integers(1, 8))
def test_good_trees_are_distinct_and_in_order(seed, n, n_best):
    structure = SecondOrderTree()
    potentials, _, possible = draw(seed, n, structure)
    heads, scores = structure.decode_best(potentials, n_best)
    assert len({tuple(tree) for tree in heads.tolist()}) == len(heads) <= min(n_best, len(possible))
    assert {tuple(tree) for tree in heads.tolist()} <= {tuple(tree.tolist()) for tree in possible}
    assert np.all(np.diff(scores) <= 0)
    assert scores == pytest.approx([structure.score(potentials, tree) for tree in heads])
    if n_best > 1 and len(possible) > 1:
        assert len(heads) > 1


@given(seed=SEEDS, n=st.integers(1, 5))
def test_differences_and_losses(seed, n):
    structure = SecondOrderTree()
    potentials, _, possible = draw(seed, n, structure)
    gold = possible[0]
    other = possible[-1]
    gap, gradient = structure.difference(potentials, other, gold)
    score_of_gold = structure.score(potentials, gold)
    assert gap == pytest.approx(structure.score(potentials, other) - score_of_gold)
    of_arcs = np.vdot(potentials.arcs, gradient.arcs)
    assert of_arcs + potentials.parts @ gradient.parts == pytest.approx(gap)
    value, _ = StructuredHinge().value_and_gradient(structure, potentials, gold)
    rival = structure.decode(structure.cost_augmented(potentials, gold))
    cost = np.count_nonzero(rival != gold)
    expected = structure.score(potentials, rival) - score_of_gold + cost
    assert value == pytest.approx(max(expected, 0.0))
    decoded = structure.decode(potentials)
    assert Perceptron().value_and_gradient(structure, potentials, decoded)[0] == 0.0
    with pytest.raises(InputError, match="marginals"):
        CRF().value_and_gradient(structure, potentials, gold)


@given(seed=SEEDS, n=st.integers(1, 5))
def test_constrained_trees_keep_to_the_constraints(seed, n):
    structure = SecondOrderTree()
    potentials, _, possible = draw(seed, n, structure)
    gold, other = possible[0], possible[-1]
    partial = np.where(
        np.arange(n) % 2 == 0,
        gold,
        -1,
    )
    agreeing = structure.decode(structure.agreeing(potentials, partial))
    assert np.array_equal(agreeing[::2], gold[::2])
    if len(possible) > 1:
        word = int(np.flatnonzero(gold != other)[0])
        forbidden = structure.forbidding(potentials, [(gold[word], word + 1)])
        assert structure.is_possible(forbidden)
        assert structure.decode(forbidden)[word] != gold[word]


@given(seed=SEEDS, n=st.integers(1, 6))
def test_probabilities_mix_marginals_and_the_best_tree(seed, n):
    structure = SecondOrderTree()
    potentials, _, _ = draw(seed, n, structure)
    expected = structure.arc_probabilities(potentials)
    assert_allclose(expected[:, 1:].sum(axis=0), 1.0)
    heads = structure.decode(potentials)
    marginals = structure.first_order.arc_probabilities(potentials.arcs)
    gains = expected - marginals
    assert np.all(gains[heads, np.arange(1, n + 1)] >= -1e-12)
    assert_allclose(structure.arc_probabilities(structure.settled(potentials)), expected)
    least_risk = structure.decode_marginals(potentials)
    assert np.array_equal(least_risk, structure.first_order.decode(expected))


@pytest.mark.compiled
def test_long_sentences_and_all_arcs(rng):
    n = 60
    structure = SecondOrderTree()
    potentials = structure.over(np.ones((n + 1, n + 1), dtype=bool))
    potentials.arcs[:] = rng.normal(size=potentials.arcs.shape)
    potentials.parts[:] = 0.1 * rng.normal(size=len(potentials.parts))
    first = structure.score(potentials, structure.first_order.decode(potentials.arcs))
    assert structure.score(potentials, structure.decode(potentials)) > first
    long = np.eye(1001, k=1, dtype=bool) | np.eye(1001, k=2, dtype=bool)
    chain = structure.over(long)
    assert len(structure.decode(chain)) == 1000


def test_where_no_tree_is_possible_an_error_says_so():
    structure = SecondOrderTree()
    candidates = np.zeros((3, 3), dtype=bool)
    candidates[2, 1] = candidates[1, 2] = True
    potentials = structure.over(candidates)
    assert not structure.is_possible(potentials)
    with pytest.raises(InputError, match="No tree over these 2 tokens"):
        structure.decode(potentials)


def test_lists_are_those_of_the_definition(rng):
    candidates = rng.random((8, 8)) < 0.5
    lists = PartLists.of(candidates)
    arcs = {(int(h), int(m)) for h, m in zip(*np.nonzero(candidates)) if m > 0 and h != m}
    assert set(zip(lists.heads.tolist(), lists.modifiers.tolist())) == arcs
    assert np.all(np.diff(lists.modifiers) >= 0)
    expected = 0  # grandparents, and pairs of siblings or of none
    for h in range(8):
        n_heads = sum((g, h) in arcs for g in range(8))
        n_left = sum((h, m) in arcs for m in range(1, h))
        n_right = sum((h, m) in arcs for m in range(h + 1, 8))
        expected += n_heads * (n_left + n_right)
        for k in (n_left, n_right):
            expected += math.comb(k + 2, 2) if k else 0
    assert lists.n_parts == expected
    potentials = PartPotentials(
        np.zeros((8, 8)),
        np.zeros(lists.n_parts),
        lists,
    )
    assert jit.arcs_of(lists, np.full(7, -1)).tolist() == [-1] * 8
    assert potentials.parts.sum() == 0
