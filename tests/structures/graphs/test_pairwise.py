"""Pairwise models on graphs against enumeration of all labellings, a minimum cut, and chains."""

from itertools import product

import cvxpy as cp
import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from scipy.special import logsumexp

from omkl.exceptions import InputError
from omkl.losses import CRF, Perceptron, SoftmaxMargin, StructuredHinge
from omkl.structures import AllowedTransitions, Chain, GraphLayout, GraphPotentials, PairwiseGraph
from omkl.structures.graphs._jit_cut import minimum_cut
from omkl.testing import check_structure

KINDS = "any", "attractive", "repulsive", "forbidden"
#: Kinds of scores, of which belief propagation is quiet in one direction, or no label is possible
#: at last.
HARD_KINDS = "zero", "first end", "one-sided", "integers", "all different"
seeds = st.integers(0, 10**6)


def draw_graph(rng, n, density):
    edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < density]
    rng.shuffle(edges)
    edges = np.array(edges, np.int64).reshape(-1, 2)
    return GraphLayout(n, np.where(rng.random((len(edges), 1)) < 0.5, edges, edges[:, ::-1]))


def draw_forest(rng, n):
    parents = [-1]
    for i in range(1, n):
        parents.append(int(rng.integers(-1, i)))
    names = rng.permutation(n)
    edges = np.array([(i, j) for i, j in enumerate(parents) if j >= 0], np.int64).reshape(-1, 2)
    return GraphLayout(n, names[edges])


def draw_potentials(rng, layout, K, kind="any", strength=1.0):
    unary = rng.normal(size=(layout.n_nodes, K))
    pairwise = strength * rng.normal(size=(len(layout.edges), K, K))
    if kind in ("attractive", "repulsive"):
        sign = 1.0 if kind == "attractive" else -1.0
        pairwise = sign * strength * rng.random((len(layout.edges), 1, 1)) * np.eye(K)
    if kind == "forbidden":
        pairwise[rng.random(pairwise.shape) < 0.15] = -np.inf
        unary[rng.random(unary.shape) < 0.1] = -np.inf
    return GraphPotentials(unary, pairwise, layout)


def draw_parallel_edges(rng, layout):
    """Add edges that join the same nodes, in either order."""
    edges = layout.edges
    if not len(edges):
        return layout
    more = edges[rng.integers(0, len(edges), rng.integers(1, 2 * len(edges) + 1))]
    more = np.where(
        rng.random((len(more), 1)) < 0.5,
        more,
        more[:, ::-1],
    )
    return GraphLayout(layout.n_nodes, rng.permutation(np.concatenate([edges, more])))


def draw_hard_potentials(rng, layout, K, kind, strength, shared):
    unary = rng.normal(size=(layout.n_nodes, K))
    pairwise = strength * rng.normal(size=(1 if shared else len(layout.edges), K, K))
    if kind == "zero":
        unary[rng.random(len(unary)) < 0.5] = 0.0
        pairwise[rng.random(len(pairwise)) < 0.5] = 0.0
    if kind == "first end":
        unary[:] = 0.0
        pairwise[:] = strength * rng.integers(-3, 4, (len(pairwise), K, 1))
    if kind == "one-sided":
        unary[rng.random(unary.shape) < 0.2] = -np.inf
        pairwise[rng.random(pairwise.shape) < 0.4] = -np.inf
    if kind == "integers":
        unary[:] = rng.integers(-1, 2, unary.shape)
        pairwise[:] = strength * rng.integers(-1, 2, pairwise.shape)
    if kind == "all different":
        pairwise[:] = np.where(np.eye(K, dtype=bool), -np.inf, 0.0)
    return GraphPotentials(unary, pairwise, layout)


def enumerated(potentials):
    """All labellings and their scores."""
    unary, pairwise, layout = potentials
    labellings = np.array(list(product(range(unary.shape[1]), repeat=len(unary))))
    totals = unary[np.arange(len(unary)), labellings].sum(axis=1)
    pairwise = np.broadcast_to(pairwise, (len(layout.edges), *pairwise.shape[1:]))
    for scores_of_labels, (i, j) in zip(pairwise, layout.edges):
        totals = totals + scores_of_labels[labellings[:, i], labellings[:, j]]
    return labellings, totals


def enumerated_marginals(potentials):
    unary, pairwise, layout = potentials
    labellings, scores = enumerated(potentials)
    log_partition = logsumexp(scores)
    of_nodes = np.zeros(unary.shape)
    of_edges = np.zeros(pairwise.shape)
    for labels, chance in zip(labellings, np.exp(scores - log_partition)):
        of_nodes[np.arange(len(unary)), labels] += chance
        first, second = labels[layout.edges].T
        of_edges[np.arange(len(layout.edges)), first, second] += chance
    return log_partition, of_nodes, of_edges


def check_marginals(structure, potentials, atol=1e-9):
    """Compare the log partition function and the marginals with those by enumeration."""
    log_partition, expected = structure.marginals(potentials)
    exact, of_nodes, of_edges = enumerated_marginals(potentials)
    assert_allclose(log_partition, exact, rtol=1e-9, atol=1e-2 * atol)
    assert_allclose(expected.unary, of_nodes, atol=atol)
    assert_allclose(expected.pairwise, of_edges, atol=atol)


def check_bounds(solution, best, slack=1.0):
    """The bound is not below the best score, which a proved solution has."""
    assert solution.bound >= best - 1e-9 * slack
    assert not solution.proved or solution.score >= best - 1e-7 * slack


def check_no_labelling(structure, potentials):
    for compute in (structure.decode, structure.marginals):
        with pytest.raises(InputError, match="No labelling is allowed"):
            compute(potentials)


@given(
    seed=seeds,
    n=st.integers(1, 6),
    K=st.integers(1, 3),
    kind=st.sampled_from(KINDS),
    scale=st.floats(0.1, 300.0),
)
def test_forests_are_exact(seed, n, K, kind, scale):
    rng = np.random.default_rng(seed)
    layout = draw_forest(rng, n)
    structure = PairwiseGraph(K)
    potentials = draw_potentials(rng, layout, K, kind)
    potentials = potentials._replace(
        unary=scale * potentials.unary, pairwise=scale * potentials.pairwise
    )
    assert layout.is_forest
    _, scores = enumerated(potentials)
    if scores.max() == -np.inf:
        check_no_labelling(structure, potentials)
        return
    labels, solution = structure.solve(potentials)
    assert solution.proved
    for score in (solution.score, solution.bound, structure.score(potentials, labels)):
        assert score == pytest.approx(scores.max(), rel=1e-9, abs=1e-9)
    check_marginals(structure, potentials)


def test_graphs_with_cycles(rng):
    best = 0
    total = 0
    for _ in range(400):
        K = int(rng.integers(2, 4))
        n = int(rng.integers(3, 9))
        layout = draw_graph(rng, n, rng.choice([0.5, 0.9]))
        if layout.is_forest:
            continue
        kind = rng.choice(KINDS[:3])
        potentials = draw_potentials(
            rng,
            layout,
            K,
            kind,
            rng.choice([0.3, 1.0, 3.0]),
        )
        structure = PairwiseGraph(K)
        _, scores = enumerated(potentials)
        labels, solution = structure.solve(potentials)
        assert_allclose(solution.score, structure.score(potentials, labels))
        check_bounds(solution, scores.max())
        best += solution.score >= scores.max() - 1e-9
        total += 1
        log_partition, expected = structure.marginals(potentials)
        assert log_partition >= logsumexp(scores) - 1e-6
        assert_allclose(expected.unary.sum(axis=1), 1.0)
    assert total > 300
    assert best >= 0.97 * total


@given(seed=seeds, n=st.integers(3, 6), K=st.integers(2, 3))
def test_certificates_with_forbidden_pairs(seed, n, K):
    rng = np.random.default_rng(seed)
    potentials = draw_potentials(rng, draw_graph(rng, n, 0.7), K, "forbidden")
    structure = PairwiseGraph(K)
    _, scores = enumerated(potentials)
    labels, solution = structure.solve(potentials)
    assert structure.score(potentials, labels) == pytest.approx(solution.score)
    check_bounds(solution, scores.max())


@given(
    seed=seeds,
    n=st.integers(1, 6),
    K=st.integers(1, 3),
    kind=st.sampled_from(HARD_KINDS),
    shared=st.booleans(),
)
def test_bounds_and_certificates_of_graphs_with_parallel_edges(seed, n, K, kind, shared):
    rng = np.random.default_rng(seed)
    layout = draw_graph(rng, n, 0.6)
    if rng.random() < 0.7:
        layout = draw_parallel_edges(rng, layout)
    strength = rng.choice([0.3, 1.0, 3.0, 30.0])
    potentials = draw_hard_potentials(rng, layout, K, kind, strength, shared)
    structure = PairwiseGraph(K, shared=shared)
    _, scores = enumerated(potentials)
    best = scores.max()
    labels, solution = structure.solve(potentials)
    assert solution.score == pytest.approx(structure.score(potentials, labels), rel=1e-9)
    if best == -np.inf:
        assert solution.bound == -np.inf
        check_no_labelling(structure, potentials)
        return
    slack = max(1.0, abs(best))
    rounding = 1e-9 * slack
    assert -np.inf < solution.score <= best + rounding
    check_bounds(solution, best, slack)
    log_partition, expected = structure.marginals(potentials)
    assert log_partition >= logsumexp(scores) - rounding
    assert expected.pairwise.shape == potentials.pairwise.shape
    assert_allclose(expected.unary.sum(axis=1), 1.0)
    assert_allclose(expected.pairwise.sum(), len(layout.edges))


@given(
    seed=seeds, n=st.integers(2, 6), K=st.integers(1, 3), kind=st.sampled_from(("any", *HARD_KINDS))
)
def test_trees_with_parallel_edges_are_exact(seed, n, K, kind):
    rng = np.random.default_rng(seed)
    layout = draw_parallel_edges(rng, draw_forest(rng, n))
    potentials = draw_hard_potentials(rng, layout, K, kind, 1.0, shared=False)
    structure = PairwiseGraph(K)
    assert layout.is_forest
    _, scores = enumerated(potentials)
    if scores.max() == -np.inf:
        check_no_labelling(structure, potentials)
        return
    _, solution = structure.solve(potentials)
    assert solution.proved
    assert solution.score == pytest.approx(scores.max(), rel=1e-9, abs=1e-9)
    check_marginals(structure, potentials)


def test_parallel_edges_appear_as_often_as_the_edge_that_they_are():
    edges = np.array([[0, 1], [1, 2], [2, 0], [2, 1], [0, 1]])
    appearance = GraphLayout(3, edges).appearance
    assert_allclose(appearance[[3, 4]], appearance[[1, 0]])
    assert appearance[:3].sum() == pytest.approx(2.0)
    single = GraphLayout(3, edges[:3])
    assert_allclose(appearance[:3], single.appearance)


def test_forests_span_the_graph_and_their_share_is_the_appearance():
    layout = grid(4, 5)
    for chosen in layout.forests:
        forest = networkx.Graph(layout.edges[chosen].tolist())
        assert networkx.is_tree(forest)
        assert len(forest) == 20
    assert_allclose(layout.forests.mean(axis=0), layout.appearance)


def test_scores_of_one_end_pass_through_the_whole_graph():
    layout = GraphLayout(3, np.array([[1, 0], [2, 1], [2, 0]]))
    potentials = GraphPotentials(
        np.zeros((3, 2)), np.tile([[3.0, 3.0], [0.0, 0.0]], (3, 1, 1)), layout
    )
    assert enumerated_marginals(potentials)[0] == pytest.approx(9.7442, abs=1e-4)
    check_marginals(PairwiseGraph(2), potentials, atol=1e-4)


def local_polytope(layout, K):
    """Return variables of marginals that agree at the ends of edges, and their constraints."""
    of_nodes = [cp.Variable(K, nonneg=True) for _ in range(layout.n_nodes)]
    of_edges = [cp.Variable((K, K), nonneg=True) for _ in layout.edges]
    constraints = [cp.sum(marginals) == 1 for marginals in of_nodes]
    for marginals, (i, j) in zip(of_edges, layout.edges):
        constraints += [
            cp.sum(marginals, axis=1) == of_nodes[i],
            cp.sum(marginals, axis=0) == of_nodes[j],
        ]
    return of_nodes, of_edges, constraints


def expected_score(potentials, of_nodes, of_edges):
    scores = []
    for array, variable in zip([*potentials.unary, *potentials.pairwise], of_nodes + of_edges):
        scores.append(cp.sum(cp.multiply(array, variable)))
    return cp.sum(cp.hstack(scores))


def maximum(potentials, marginals, constraints, solver, entropy=0.0):
    objective = expected_score(potentials, *marginals) + entropy
    return cp.Problem(cp.Maximize(objective), constraints).solve(solver=solver)


@pytest.mark.parametrize("seed", range(10))
def test_bounds_are_not_below_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    layout = draw_graph(rng, 6, 0.8)
    potentials = draw_potentials(rng, layout, 3)
    of_nodes, of_edges, constraints = local_polytope(layout, 3)
    optimum = maximum(potentials, (of_nodes, of_edges), constraints, cp.HIGHS)
    _, solution = PairwiseGraph(3).solve(potentials)
    assert solution.bound >= optimum - 1e-6
    assert optimum >= solution.score - 1e-6


def mean_entropy(layout, of_nodes, of_edges):
    """Return the mean over the forests of a layout of two labels.

    The entropy of a tree is that of its root and those of other nodes given their parents.
    """
    joint = {}
    for (i, j), variable in zip(layout.edges.tolist(), of_edges):
        joint[i, j] = variable
        joint[j, i] = variable.T
    entropies = []
    for chosen in layout.forests:
        tree = networkx.Graph(layout.edges[chosen].tolist())
        entropies.append(cp.sum(cp.entr(of_nodes[0])))
        for parent, child in networkx.bfs_edges(tree, 0):
            of_parent = cp.vstack([of_nodes[parent]] * 2).T
            entropies.append(-cp.sum(cp.rel_entr(joint[parent, child], of_parent)))
    return cp.sum(cp.hstack(entropies)) / len(layout.forests)


@pytest.mark.parametrize("kind", ["any", "zero", "first end", "integers"])
def test_belief_propagation_solves_its_convex_program(kind, rng):
    layout = grid(2, 3)
    potentials = draw_hard_potentials(rng, layout, 2, kind, 1.0, shared=False)
    of_nodes, of_edges, constraints = local_polytope(layout, 2)
    entropy = mean_entropy(layout, of_nodes, of_edges)
    optimum = maximum(potentials, (of_nodes, of_edges), constraints, cp.CLARABEL, entropy)
    log_partition, expected = PairwiseGraph(2).marginals(potentials)
    assert log_partition == pytest.approx(optimum, abs=1e-5)
    assert_allclose(
        expected.unary,
        [variable.value for variable in of_nodes],
        atol=2e-3,
    )
    assert_allclose(
        expected.pairwise,
        [variable.value for variable in of_edges],
        atol=2e-3,
    )


def all_different(n_labels):
    return PairwiseGraph(n_labels, allowed=~np.eye(n_labels, dtype=bool))


@pytest.mark.parametrize("n", [12, 30])
@pytest.mark.parametrize("density", [0.2, 0.3, 0.5])
def test_colourings_are_found_where_there_is_one(n, density):
    structure = all_different(3)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        colours = rng.integers(0, 3, n)
        layout = draw_graph(rng, n, density)
        edges = layout.edges[(colours[layout.edges][:, 0] != colours[layout.edges][:, 1])]
        potentials = structure.over(GraphLayout(n, edges))
        potentials.unary[:] = rng.normal(size=(n, 3))
        labels = structure.decode(potentials)
        assert (labels[edges[:, 0]] != labels[edges[:, 1]]).all()
        structure.marginals(potentials)


@pytest.mark.slow
@pytest.mark.parametrize("triangles", [0, 3, 9])
def test_graphs_that_cannot_be_coloured_are_refused(triangles):
    clique = [(i, j) for j in range(4) for i in range(j)]
    chain = [
        (4 + 2 * t + i, 4 + 2 * t + j)
        for t in range(triangles)
        for i, j in ((0, 1), (1, 2), (0, 2))
    ]
    ends = np.array([*chain, *clique])
    structure = all_different(3)
    if triangles == 3:
        ends = ends[:, ::-1]
    check_no_labelling(structure, structure.over(GraphLayout(int(ends.max()) + 1, ends)))


def test_a_search_that_is_too_long_does_not_claim_that_there_is_nothing():
    structure = all_different(11)
    potentials = structure.over(complete_graph(12))
    with pytest.raises(InputError, match="although there may be one"):
        structure.decode(potentials)


def complete_graph(n):
    return GraphLayout(n, np.array([(i, j) for j in range(n) for i in range(j)]))


def grid(height, width):
    index = np.arange(height * width).reshape(height, width)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    return GraphLayout(index.size, np.concatenate([across, down]))


def test_attractive_grids_are_minimum_cuts():
    rng = np.random.default_rng(1)
    layout = grid(60, 60)
    n = layout.n_nodes
    E = len(layout.edges)
    gains = rng.integers(-2000, 2000, n)
    weights = rng.integers(0, 1000, E)
    unary = np.stack([np.zeros(n), gains], axis=1)
    pairwise = weights[:, None, None] * np.eye(2)
    source = np.flatnonzero(gains > 0)
    sink = np.flatnonzero(gains < 0)
    starts = np.concatenate([layout.edges.ravel("F"), np.full(len(source), n), sink])
    ends = np.concatenate([layout.edges[:, ::-1].ravel("F"), source, np.full(len(sink), n + 1)])
    capacities = np.concatenate([weights, weights, np.abs(gains[source]), np.abs(gains[sink])])
    cut = maximum_flow(
        csr_array(
            (capacities.astype(np.int32), (starts, ends)),
            shape=(n + 2,) * 2,
        ),
        n,
        n + 1,
    )
    _, solution = PairwiseGraph(2).solve(GraphPotentials(unary, pairwise, layout))
    assert solution.proved
    assert solution.score == gains[source].sum() + weights.sum() - cut.flow_value


@pytest.mark.parametrize("strength", [0.4, 0.5, 1.0])
def test_ties_on_attractive_grids_are_solved(strength, rng):
    layout = grid(40, 40)
    unary = np.eye(2)[rng.integers(0, 2, layout.n_nodes)]
    equal = strength * np.eye(2)[None]
    _, solution = PairwiseGraph(2).solve(GraphPotentials(unary, equal, layout))
    graph = networkx.Graph((*edge, {"capacity": 10 * strength}) for edge in layout.edges.tolist())
    graph.add_edges_from(
        ("st"[k], i, {"capacity": 10}) for i, k in enumerate(unary.argmax(axis=1).tolist())
    )
    least, _ = networkx.minimum_cut(graph, "s", "t")
    assert solution.score == pytest.approx(
        layout.n_nodes + strength * len(layout.edges) - least / 10, rel=1e-9
    )
    assert solution.proved


@given(seeds, st.integers(2, 8), st.booleans())
def test_minimum_cuts_are_best_and_bound_all_scores(seed, n, whole_numbers):
    rng = np.random.default_rng(seed)
    layout = draw_graph(rng, n, 0.8)
    edges = len(layout.edges)

    def draw(*shape):
        return rng.integers(-2, 3, shape) + 0.0 if whole_numbers else rng.normal(size=shape)

    pairwise = draw(edges, 2, 2)
    attraction = np.trace(
        pairwise - pairwise[:, ::-1],
        axis1=1,
        axis2=2,
    )
    pairwise[:, 1, 1] += np.maximum(1e-12 - attraction, 0.0)
    potentials = GraphPotentials(draw(n, 2), pairwise, layout)
    labels = np.empty(n, np.int64)
    bound = minimum_cut(*potentials[:2], layout.edges, labels)
    best = enumerated(potentials)[1].max()
    assert PairwiseGraph(2).score(potentials, labels) == pytest.approx(best, abs=1e-6)
    assert best - 1e-9 <= bound <= best + 1e-6


@pytest.mark.parametrize("shared", [False, True])
def test_a_path_is_a_chain(shared, rng):
    n = 7
    K = 4
    layout = GraphLayout(n, np.stack([np.arange(n - 1), np.arange(1, n)], axis=1))
    allowed = rng.random((K, K)) < 0.8
    costs = rng.random((K, K)) * (1.0 - np.eye(K))
    graph = PairwiseGraph(K, costs, shared, allowed)
    everywhere = np.ones(K, dtype=bool)
    chain = Chain(
        K,
        costs,
        not shared,
        allowed=AllowedTransitions(allowed, everywhere, everywhere),
    )
    gold = np.array([0, 1, -1, 1, 2, -1, 3])
    potentials = graph.over(layout)
    potentials.unary[:] = rng.normal(size=potentials.unary.shape)
    potentials.pairwise[:] = rng.normal(size=potentials.pairwise.shape)
    on_chain = potentials[:2]
    assert_array_equal(graph.decode(potentials), chain.decode(on_chain))
    rival = chain.loss_augmented(on_chain, gold, 2.0)
    assert_array_equal(graph.loss_augmented(potentials, gold, 2.0), rival)
    assert graph.cost(gold, rival) == pytest.approx(chain.cost(gold, rival))
    expected = chain.known_marginals(on_chain, gold)
    assert_allclose(graph.known_marginals(potentials, gold), expected)
    for loss in (StructuredHinge(2.0), Perceptron(), CRF(), SoftmaxMargin()):
        value, gradient = loss.value_and_gradient(graph, potentials, gold)
        value_of_chain, of_chain = loss.value_and_gradient(chain, on_chain, gold)
        assert value == pytest.approx(value_of_chain)
        assert_allclose(gradient.unary, of_chain.unary, atol=1e-12)
        assert_allclose(gradient.pairwise, of_chain.pairwise, atol=1e-12)


def test_bounds_of_log_partition_functions_have_their_marginals_as_gradients(rng):
    layout = grid(3, 3)
    structure = PairwiseGraph(2)
    potentials = draw_potentials(rng, layout, 2)
    _, expected = structure.marginals(potentials)
    for array, marginals in zip(potentials, expected[:2]):
        index = np.unravel_index(int(rng.integers(array.size)), array.shape)
        ends = []
        for move in (1e-4, -1e-4):
            array[index] += move
            ends.append(structure.marginals(potentials)[0])
            array[index] -= move
        assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(marginals[index], abs=1e-4)


def test_every_edge_appears_in_a_forest():
    layout = GraphLayout(60, np.array(networkx.gnp_random_graph(60, 0.5, seed=0).edges))
    assert layout.appearance.min() > 0.0
    assert layout.appearance.sum() == pytest.approx(59)
    assert_allclose(grid(20, 20).appearance, 0.5, atol=0.1)


def test_the_structure_keeps_the_promises_of_its_base():
    outputs = [np.array(labels) for labels in product(range(3), repeat=3)]
    check_structure(PairwiseGraph(3), outputs=outputs)


@given(st.integers(0, 10**6), st.integers(1, 40), st.booleans())
def test_n_best_labellings_of_forests(seed, n_best, cut):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 5)
    K = rng.integers(1, 4)
    edges = np.array([(rng.integers(0, i), i) for i in range(1 + cut, n)], np.int64).reshape(-1, 2)
    potentials = GraphPotentials(
        rng.normal(size=(n, K)),
        rng.normal(size=(len(edges), K, K)),
        GraphLayout(n, edges, directed=True),
    )
    structure = PairwiseGraph(K)
    labellings, expected = enumerated(potentials)
    order = np.argsort(-expected)[:n_best]
    labels, scores = structure.decode_best(potentials, n_best)
    assert_array_equal(labels, labellings[order])
    assert_allclose(scores, expected[order])


def test_good_labellings_of_graphs_with_cycles_are_distinct(rng):
    unary = rng.normal(size=(5, 3))
    potentials = GraphPotentials(
        unary,
        rng.normal(size=(10, 3, 3)),
        complete_graph(5),
    )
    structure = PairwiseGraph(3)
    best = np.sort(enumerated(potentials)[1])[::-1]
    labels, scores = structure.decode_best(potentials, 6)
    assert len(set(map(tuple, labels.tolist()))) == 6
    assert_allclose(scores, [structure.score(potentials, row) for row in labels])
    assert (np.diff(scores) <= 0.0).all()
    assert scores[0] == pytest.approx(best[0])
    assert scores[-1] >= best[20]
