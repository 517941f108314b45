"""Trees with grandparent and sibling parts: against enumeration, and literal sums over parts."""

from functools import cache

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
    parts = [("g", heads[h - 1], h, m) for m, h in enumerate(heads, 1) if h > 0]
    for h in range(n + 1):
        for side in (range(h - 1, 0, -1), range(h + 1, n + 1)):
            last = None
            for m in side:
                if heads[m - 1] == h:
                    parts.append(("s", h, side.step, last, m))
                    last = m
            if any(candidates[h, m] for m in side):
                parts.append(("s", h, side.step, last, None))
    return parts


@pytest.mark.parametrize(("single_root", "projective"), KINDS)
@given(seed=SEEDS, n=st.integers(1, 5))
def test_scores_are_sums_over_arcs_and_named_parts(single_root, projective, seed, n):
    structure = SecondOrderTree(single_root, projective)
    potentials, candidates, possible = draw(seed, n, structure)
    numbers = {}
    for heads in possible:
        counts = structure.parts_of(potentials.lists, heads)
        names = named_parts(heads.tolist(), candidates)
        assert counts.sum() == len(names)
        found = np.flatnonzero(counts)
        assert len(found) == len(names)  # every part once
        of_arcs = potentials.arcs[heads, np.arange(1, n + 1)].sum()
        assert structure.score(potentials, heads) == pytest.approx(
            of_arcs + potentials.parts[found].sum()
        )
        numbers[tuple(heads.tolist())] = set(names), set(found.tolist())
    for names, found in numbers.values():  # trees share the numbers of the parts that they share
        for others, own in numbers.values():
            assert len(names & others) == len(found & own)


@pytest.mark.parametrize(("single_root", "projective"), KINDS)
@given(seed=SEEDS, n=st.integers(1, 5))
def test_climbing_ends_in_a_tree_that_no_single_change_improves(single_root, projective, seed, n):
    structure = SecondOrderTree(single_root, projective)
    potentials, _, possible = draw(seed, n, structure)
    known = {tuple(tree.tolist()): structure.score(potentials, tree) for tree in possible}
    for score, heads in structure._optima(potentials, 5):
        assert score == pytest.approx(known[tuple(heads.tolist())])
        for other, value in known.items():
            if np.count_nonzero(heads != other) == 1:
                assert value <= score + 1e-8


@pytest.mark.parametrize(("single_root", "projective"), KINDS)
def test_search_errors_are_rare(single_root, projective):
    structure = SecondOrderTree(single_root, projective)
    wrong = 0
    for seed in range(200):
        potentials, _, possible = draw(seed, 2 + seed % 4, structure, scale=0.3)
        best = max(structure.score(potentials, tree) for tree in possible)
        wrong += structure.score(potentials, structure.decode(potentials)) < best - 1e-9
    assert wrong <= 24  # of 200 random ones; parts of trained models agree more with their arcs


def best_projective(potentials, n):
    """Score of the best projective tree with one root, by the dynamic program of McDonald and
    Pereira (2006).
    """
    lists = potentials.lists
    arcs = potentials.arcs
    parts = [
        {
            pair: k
            for k, pair in enumerate(
                (i, j) for i in range(length + 1) for j in range(i + 1, length + 2)
            )
        }
        for length in np.diff(lists.bounds).tolist()
    ]

    def place(h, m, right):  # position of a modifier in the list of a head; 0 for none, or the end
        side = lists.order[lists.bounds[2 * h + right] : lists.bounds[2 * h + right + 1]]
        return lists.modifiers[side].tolist().index(m) + 1

    def part(h, s, m, right):
        length = (
            len(parts[2 * h + right])
            and lists.bounds[2 * h + right + 1] - lists.bounds[2 * h + right]
        )
        if not length:
            return 0.0
        i = 0 if s is None else place(h, s, right)
        j = length + 1 if m is None else place(h, m, right)
        return potentials.parts[lists.siblings[2 * h + right] + parts[2 * h + right][i, j]]

    @cache
    def inner(a, b):  # two heads a < b that share the words between them
        return max(whole(a, k, True) + whole(b, k + 1, False) for k in range(a, b))

    @cache
    def arc(h, m):  # an arc with all words below it, and the siblings before it
        right = m > h
        first = part(h, None, m, right) + (
            whole(m, h + 1, False) if right else whole(m, h - 1, True)
        )
        between = range(h + 1, m) if right else range(m + 1, h)
        others = [arc(h, s) + inner(min(s, m), max(s, m)) + part(h, s, m, right) for s in between]
        return arcs[h, m] + max([first, *others])

    @cache
    def whole(h, end, right):  # a head with all words up to the end on one side
        below = range(h + 1, end + 1) if right else range(end, h)
        options = [arc(h, m) + whole(m, end, right) + part(h, m, None, right) for m in below]
        return max(options) if options else part(h, None, None, right)

    roots = [arcs[0, r] + part(0, None, r, True) + part(0, r, None, True) for r in range(1, n + 1)]
    return max(root + whole(r, 1, False) + whole(r, n, True) for r, root in enumerate(roots, 1))


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
        found = structure.score(potentials, structure.decode(potentials))
        assert found <= best + 1e-9
        wrong += found < best - 1e-9
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
    assert gap == pytest.approx(
        structure.score(potentials, other) - structure.score(potentials, gold)
    )
    assert np.vdot(
        potentials.arcs, gradient.arcs
    ) + potentials.parts @ gradient.parts == pytest.approx(gap)
    value, _ = StructuredHinge().value_and_gradient(structure, potentials, gold)
    found = structure.decode(structure.cost_augmented(potentials, gold))
    expected = (
        structure.score(potentials, found)
        - structure.score(potentials, gold)
        + np.count_nonzero(found != gold)
    )
    assert value == pytest.approx(max(expected, 0.0))
    assert (
        Perceptron().value_and_gradient(structure, potentials, structure.decode(potentials))[0]
        == 0.0
    )
    partial = np.where(np.arange(n) % 2 == 0, gold, -1)
    agreeing = structure.decode(structure.agreeing(potentials, partial))
    assert np.array_equal(agreeing[::2], gold[::2])
    if len(possible) > 1:
        word = int(np.flatnonzero(gold != other)[0])
        forbidden = structure.forbidding(potentials, [(gold[word], word + 1)])
        assert structure.is_possible(forbidden)
        assert structure.decode(forbidden)[word] != gold[word]
    with pytest.raises(InputError, match="marginals"):
        CRF().value_and_gradient(structure, potentials, gold)


@given(seed=SEEDS, n=st.integers(1, 6))
def test_probabilities_mix_marginals_and_the_best_tree(seed, n):
    structure = SecondOrderTree()
    potentials, _, _ = draw(seed, n, structure)
    expected = structure.arc_probabilities(potentials)
    assert_allclose(expected[:, 1:].sum(axis=0), 1.0)
    heads = structure.decode(potentials)
    marginals = structure.first_order.arc_probabilities(potentials.arcs)
    own = expected[heads, np.arange(1, n + 1)] - marginals[heads, np.arange(1, n + 1)]
    assert np.all(own >= -1e-12)
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
    long = np.zeros((1001, 1001), dtype=bool)
    long[np.arange(1000), np.arange(1, 1001)] = long[np.arange(999), np.arange(2, 1001)] = True
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
    n_grandparents = sum((g, h) in arcs for h, _ in arcs for g in range(8) if h > 0)
    sides = [
        sum((h, m) in arcs for m in side)
        for h in range(8)
        for side in (range(1, h), range(h + 1, 8))
    ]
    assert lists.n_parts == n_grandparents + sum((k + 1) * (k + 2) // 2 for k in sides if k)
    potentials = PartPotentials(np.zeros((8, 8)), np.zeros(lists.n_parts), lists)
    assert jit.arcs_of(lists, np.full(7, -1)).tolist() == [-1] * 8
    assert potentials.parts.sum() == 0
