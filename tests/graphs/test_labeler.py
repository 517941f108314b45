"""Labelers of graphs against labelers of chains, and their promises."""

from itertools import product

import networkx
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import omkl
from omkl import GraphLabeler, SequenceLabeler
from omkl.data import Graph, Stream, grid
from omkl.exceptions import InputError
from omkl.losses import CRF, SoftmaxMargin, StructuredHinge
from omkl.online import driver
from omkl.sequences.labeling import potentials_of
from omkl.structures import GraphLayout, PairwiseGraph

KERNELS = {
    "linear": "linear",
    "gaussian": "gaussian:sigma2=5",
    "fourier": "gaussian:sigma2=2,features=20",
}


def draw_chains(n=25, K=4, seed=0):
    rng = np.random.default_rng(seed)
    y = [np.cumsum(rng.integers(0, 3, size=rng.integers(1, 12))) % K for _ in range(n)]
    return [np.eye(K)[labels] + rng.normal(size=(len(labels), K)) for labels in y], y


def as_graphs(X):
    return [Graph(x, [(t, t + 1) for t in range(len(x) - 1)], directed=True) for x in X]


def draw_grids(n=12, useless=0, seed=0, directed=True):
    """Images of stripes, whose pixels say little, and whose edges say whether labels change."""
    rng = np.random.default_rng(seed)
    X = []
    y = []
    for _ in range(n):
        height, width = rng.integers(3, 6, size=2)
        labels = np.cumsum(rng.integers(0, 2, size=height))[:, None] % 3 + np.zeros(
            (1, width), dtype=int
        )
        graph = grid(0.7 * np.eye(3)[labels] + rng.normal(size=(height, width, 3)))
        flat = labels.ravel()
        changes = flat[graph.edges[:, 0]] != flat[graph.edges[:, 1]]
        features = np.stack([changes + 0.5 * rng.normal(size=len(changes)), ~changes], axis=1)
        noise = rng.normal(size=(len(changes), useless))
        nodes = np.hstack([graph.nodes, rng.normal(size=(len(flat), useless))])
        X.append(Graph(nodes, graph.edges, np.hstack([features, noise]), directed=directed))
        y.append(labels)
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "crf", "softmax-margin", "perceptron"])
@pytest.mark.parametrize("transitions", ["free", "regularized", None])
def test_a_chain_is_a_graph_without_cycles(loss, transitions):
    X, y = draw_chains()
    settings = {"loss": loss, "epochs": 3, "random_state": 0}
    chain = SequenceLabeler(KERNELS, transitions=transitions, **settings).fit(X, y)
    edges = omkl.Edges(transitions=transitions)
    graph = GraphLabeler(KERNELS, edges, **settings).fit(as_graphs(X), y)
    assert_allclose(graph.predictor_.norms, chain.predictor_.norms, rtol=1e-9)
    assert_allclose(graph.transitions_, chain.transitions_, atol=1e-9)
    for of_graph, of_chain in zip(graph.predict(as_graphs(X)), chain.predict(X)):
        assert_array_equal(of_graph, of_chain)
    if loss == "crf":
        for of_graph, of_chain in zip(
            graph.predict_marginals(as_graphs(X)), chain.predict_marginals(X)
        ):
            assert_allclose(of_graph, of_chain, atol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_graphs_are_trained_in_compiled_passes(loss, monkeypatch):
    X, y = draw_chains(40)
    y = [[None if t == 3 else label for t, label in enumerate(labels.tolist())] for labels in y]
    labeler = GraphLabeler(["linear"], loss=loss, epochs=3, random_state=0)
    rounds = []
    with monkeypatch.context() as patch:
        patch.setattr(driver, "uncompiled_part", lambda trainer: trainer)
        alone = labeler.fit(as_graphs(X), y).predictor_.norms
    learn = driver.Driver.learn
    monkeypatch.setattr(
        driver.Driver, "learn", lambda *arguments: rounds.append(1) or learn(*arguments)
    )
    assert_array_equal(labeler.fit(as_graphs(X), y).predictor_.norms, alone)
    assert_allclose(
        SequenceLabeler(["linear"], loss=loss, epochs=3, random_state=0).fit(X, y).predictor_.norms,
        alone,
    )
    assert rounds
    rounds.clear()
    others = [Graph(x.nodes, x.edges[::-1], directed=True) for x in as_graphs(X)]
    assert_allclose(labeler.fit(others, y).predictor_.norms, alone)
    assert rounds


@pytest.mark.parametrize("pairs", ["symmetric", "equal", "potts"])
@pytest.mark.parametrize("edge_kernels", ["linear", KERNELS])
def test_the_order_of_the_ends_of_undirected_edges_changes_nothing(pairs, edge_kernels):
    X, y = draw_grids(6, directed=False)
    flipped = [Graph(x.nodes, x.edges[:, ::-1], x.edge_features) for x in X]
    first, second = (
        GraphLabeler("linear", omkl.Edges(edge_kernels, pairs=pairs), epochs=2, random_state=0).fit(
            graphs, y
        )
        for graphs in (X, flipped)
    )
    assert_allclose(first.predictor_.norms, second.predictor_.norms, rtol=1e-9)
    assert_allclose(first.transitions_, second.transitions_, atol=1e-9)
    assert_allclose(first.transitions_, first.transitions_.T)


def draw_neighbours(n=15, seed=0):
    """Undirected grids whose edges have a number, and words of two keys."""
    X, y = draw_grids(n, seed=seed, directed=False)
    rng = np.random.default_rng(seed)
    graphs = []
    for x in X:
        features = [
            {
                "near": float(row[1]),
                "change": "yes" if row[0] > 0.5 else "no",
                "say": f"v{rng.integers(3)}",
                "at": row,
            }
            for row in x.edge_features
        ]
        graphs.append(Graph(x.nodes, x.edges, features))
    return graphs, y


TWO_KINDS = {
    "edge:near": "potts",
    "edge:change": "equal",
    "edge:close": "potts",
    "transitions": "equal",
}
CLOSE = {"close": "gaussian:sigma2=2,on=at", "at": "linear:on=at"}


def two_kinds():
    return GraphLabeler(
        "linear",
        omkl.Edges(CLOSE, pairs=TWO_KINDS),
        weighting="norms",
        epochs=3,
        random_state=0,
    )


def test_each_group_of_edges_has_its_kind_of_pairs():
    X, y = draw_neighbours()
    model = GraphLabeler(
        "linear",
        edges=omkl.Edges(pairs={name: TWO_KINDS[name] for name in ("edge:near", "edge:change")}),
    )
    X = [
        Graph(
            x.nodes,
            x.edges,
            [
                {key: value for key, value in edge.items() if key != "at"}
                for edge in x.edge_features
            ],
        )
        for x in X
    ]
    model.set_params(random_state=0, epochs=3, weighting="norms").fit(X, y)
    ties = {}  # a full matrix of weights for each feature
    for record in model.top_features(10_000):
        matrix = ties.setdefault(record["feature"], np.zeros((3, 3)))
        if record["label"] == "equal labels":
            matrix += record["weight"] * np.eye(3)
        elif " → " in str(record["label"]):
            first, second = map(int, record["label"].split(" → "))
            matrix[first, second] = matrix[second, first] = record["weight"]
    assert_array_equal(ties["near"], ties["near"][0, 0] * np.eye(3))
    assert not ties["change=yes"][~np.eye(3, dtype=bool)].any()
    assert ties["say=v0"][~np.eye(3, dtype=bool)].any()
    for x, potentials in zip(X, potentials_of(model.model_, X)):
        scores = [
            sum(
                value * ties[key] if key == "near" else ties[f"{key}={value}"]
                for key, value in edge.items()
            )
            for edge in x.edge_features
        ]
        assert_allclose(potentials.pairwise, np.array(scores) + model.transitions_, atol=1e-12)


def test_a_kind_for_all_groups_is_that_kind():
    X, y = draw_grids(10, useless=1, directed=False)
    kernels = {"linear": "linear:on=0:2", "gaussian": "gaussian:sigma2=5,on=0:2"}
    X = [
        Graph(x.nodes, x.edges, np.hstack([x.edge_features, np.zeros((len(x.edges), 1))]))
        for x in X
    ]
    settings = {"epochs": 2, "random_state": 0}
    potts = omkl.Edges(kernels, pairs="potts", transitions=None)
    alone = GraphLabeler("linear", potts, **settings).fit(X, y)
    named = {f"edge:{name}": "potts" for name in kernels}
    with_empty_group = {**kernels, "empty": "linear:on=3:4"}
    edges = omkl.Edges(with_empty_group, pairs=named, transitions=None)
    beside = GraphLabeler("linear", edges, **settings).fit(X, y)
    norms = dict(zip(beside.predictor_.group_names, beside.predictor_.norms))
    assert norms.pop("edge:empty") == 0.0
    assert_allclose(
        [norms[name] for name in alone.predictor_.group_names], alone.predictor_.norms, rtol=1e-9
    )


def test_two_kinds_of_pairs_are_saved_explained_and_trained_in_streams(tmp_path):
    X, y = draw_neighbours()
    model = two_kinds().fit(X, y)
    flipped = [Graph(x.nodes, x.edges[:, ::-1], x.edge_features) for x in X]
    assert_allclose(
        two_kinds().fit(flipped, y).predictor_.norms,
        model.predictor_.norms,
        rtol=1e-9,
    )
    for training in (False, True):
        model.save(tmp_path / "model", training=training)
        for loaded_labels, labels in zip(
            omkl.load(tmp_path / "model").predict(X), model.predict(X)
        ):
            assert_array_equal(loaded_labels, labels)
    first, second = (omkl.load(tmp_path / "model") for _ in range(2))
    assert_array_equal(
        first.partial_fit(X, y).predictor_.norms, second.partial_fit(X, y).predictor_.norms
    )
    why = model.explain(X[0])
    assert sum(why.groups.values()) == pytest.approx(why.margin)
    names = {
        record["feature"]
        for record in model.explain(X[0], n=1000).features
        if record["group"] == "edge:change"
    }
    assert names <= {"change=yes", "change=no"}
    assert names
    streamed = two_kinds().fit(Stream.from_iterable(list(zip(X, y)), block_size=4))
    assert set(streamed.kernel_weights_) == set(model.kernel_weights_)
    assert streamed.score(X, y) > 0.4
    assert two_kinds().fit(X, y, shards=2).score(X, y) > 0.4


def test_new_groups_of_edges_have_the_default_kind():
    X = [
        Graph(["a", "b"], [(0, 1)], [{"kind": "near"}]),
        Graph(
            ["c", "a"],
            [(0, 1)],
            [{"kind": "far", "more": 2.0}],
        ),
    ]
    model = GraphLabeler(
        random_state=0, edges=omkl.Edges(pairs={"edge:kind": "potts"})
    ).partial_fit(X[:1], [["A", "B"]], classes="growing")
    for _ in range(5):
        model.partial_fit(X, [["A", "B"], ["C", "C"]])
    labels = {record["feature"]: record["label"] for record in model.top_features(10_000)}
    assert labels["kind=near"] == labels["kind=far"] == "equal labels"
    assert " → " in labels["more"]


def test_edges_help_and_useless_groups_get_no_weight():
    (X, y) = draw_grids(60, 3)
    (X_test, y_test) = draw_grids(30, 3, seed=1)
    alone = GraphLabeler("linear", omkl.Edges(transitions=None), random_state=0, epochs=5)
    alone.fit([Graph(x.nodes[:, :3], [], directed=True) for x in X], y)
    kernels = {"own": "linear:on=0:3", **{f"noise {j}": f"linear:on={j}" for j in range(3, 6)}}
    edges = {"change": "linear:on=0:2", **{f"noise {j}": f"linear:on={j}" for j in range(2, 5)}}
    model = GraphLabeler(kernels, edges, random_state=0, epochs=5).fit(X, y)
    weights = model.kernel_weights_
    assert set(weights) == {*kernels, *(f"edge:{name}" for name in edges)}
    assert all(weight == 0.0 for name, weight in weights.items() if "noise" in name)
    baseline = alone.score([Graph(x.nodes[:, :3], [], directed=True) for x in X_test], y_test)
    assert model.score(X_test, y_test) > baseline + 0.05
    assert 0.5 < model.history_[-1]["proved"] <= 1.0
    certificates = model.certificates(X_test)
    assert all(certificate.bound >= certificate.score for certificate in certificates)
    assert np.mean([certificate.proved for certificate in certificates]) > 0.8


@pytest.fixture(scope="module")
def grids():
    X, y = draw_grids()
    return X, y, GraphLabeler(KERNELS, KERNELS, epochs=2, random_state=0).fit(X, y)


def test_files_and_continued_training(grids, tmp_path):
    X, y, model = grids
    for training in (True, False):
        model.save(tmp_path / "model", training=training)
        loaded = omkl.load(tmp_path / "model")
        for loaded_labels, labels in zip(loaded.predict(X), model.predict(X)):
            assert_array_equal(loaded_labels, labels)
    model.save(tmp_path / "model")
    first, second = (omkl.load(tmp_path / "model").partial_fit(X, y) for _ in range(2))
    assert_array_equal(first.predictor_.norms, second.predictor_.norms)


def test_checkpoints_shards_and_streams(tmp_path):
    X, y = draw_grids()
    labeler = GraphLabeler(["linear"], ["linear"], epochs=3, random_state=0)
    uninterrupted = labeler.fit(X, y).predictor_.norms

    def interrupt(trainer, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    broken = GraphLabeler(["linear"], ["linear"], epochs=3, random_state=0, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        broken.fit(X, y, checkpoint=tmp_path, checkpoint_every="1 rounds")
    assert_array_equal(
        labeler.fit(X, y, checkpoint=tmp_path, resume=True).predictor_.norms, uninterrupted
    )
    assert labeler.fit(X, y, shards=2).score(X, y) > 0.5
    streamed = labeler.fit(Stream.from_iterable(list(zip(X, y)), block_size=5))
    partial = GraphLabeler(["linear"], ["linear"], random_state=0).partial_fit(
        X[:5], y[:5], classes=[0, 1, 2]
    )
    partial.partial_fit(X[5:], y[5:])
    assert min(streamed.score(X, y), partial.score(X, y)) > 0.4


def test_the_share_of_proved_labellings_is_recorded():
    X, y = draw_grids()
    labeler = GraphLabeler(
        "linear",
        omkl.Edges("linear", transitions=None),
        epochs=1,
        random_state=0,
        loss="perceptron",
    )
    on_arrays = labeler.fit(X, y)
    on_stream = clone(labeler).fit(Stream.from_iterable(list(zip(X, y))))
    in_one_pass = clone(labeler).partial_fit(X, y)
    for model in (on_arrays, on_stream, in_one_pass):
        assert 0.0 < model.history_[-1]["proved"] <= 1.0
    # nothing is claimed that was not counted
    assert "proved" not in clone(labeler).fit(X, y, shards=2).history_[-1]
    chains = as_graphs(draw_chains()[0])  # whose best labellings need no proof
    for loss in ("perceptron", "crf"):
        labeler.set_params(edges=omkl.Edges(transitions=None), loss=loss)
        assert "proved" not in labeler.fit(chains, draw_chains()[1]).history_[-1]


def test_early_stopping_calibrates():
    X, y = draw_grids(30)
    model = GraphLabeler(["linear"], ["linear"], early_stopping=True, epochs=5, random_state=0).fit(
        X, y
    )
    assert model.temperature_ > 0.0
    for marginals in model.calibrate(X, y).predict_marginals(X):
        assert_allclose(marginals.sum(axis=1), 1.0)


def test_features_grow_with_the_data():
    X = [
        Graph(["a", "b"], [(0, 1)], [{"kind": "near"}]),
        Graph(
            ["c", "a"],
            [(0, 1)],
            [{"kind": "far", "more": 2.0}],
        ),
    ]
    model = GraphLabeler(random_state=0).partial_fit(
        X[:1],
        [["A", "B"]],
        classes="growing",
    )
    model.partial_fit(X[1:], [["C", "A"]])
    assert list(model.classes_) == ["A", "B", "C"]
    assert {"edge:kind", "edge:more"} <= set(model.kernel_weights_)
    for _ in range(5):
        model.partial_fit(X, [["A", "B"], ["C", "A"]])
    assert [labels.tolist() for labels in model.predict(X)] == [["A", "B"], ["C", "A"]]
    assert {record["group"] for record in model.top_features(10_000)} >= {"edge:kind", "word"}
    assert model.top_features(1, "edge:kind")[0]["label"].count(" → ") == 1


def test_constraints(grids):
    X, y, model = grids
    constraints = [[None] * len(x) for x in X]
    constraints[0][0] = 2
    constraints[0][1] = {0, 1}
    labels = model.predict(X, constraints)[0]
    assert labels[0] == 2
    assert labels[1] in (0, 1)
    free = GraphLabeler(
        ["linear"],
        omkl.Edges(["linear"], allowed={0: [0, 1], 1: [1, 2], 2: [2, 0]}),
        random_state=0,
        epochs=2,
    )
    free.fit(X, y)
    for x, predicted in zip(X, free.predict(X)):
        assert set(map(tuple, predicted[x.edges].tolist())) <= {
            (0, 0),
            (0, 1),
            (1, 1),
            (1, 2),
            (2, 2),
            (2, 0),
        }
    with pytest.raises(
        InputError, match=r"forbidden at edge 0 of graph 0, between the nodes \(0, 1\)"
    ):
        free.predict(X[:1], [[0, 2] + [None] * (len(X[0]) - 2)])
    with pytest.raises(InputError, match="All labels are forbidden at node 1 of graph 0"):
        free.predict(X[:1], [[None, set()] + [None] * (len(X[0]) - 2)])
    swapped = [labels.copy() for labels in y]
    swapped[3].ravel()[:2] = 0, 2
    with pytest.raises(InputError, match="forbidden at edge 0 of graph 3"):
        free.fit(X, swapped)


def test_n_best_labellings(grids):
    X, _, model = grids
    X = [Graph(x.nodes[:3], [(0, 1), (1, 2)], x.edge_features[:2], directed=True) for x in X]
    chosen = [[None, 1, None]] * len(X)
    for labels in (None, chosen):
        for labelings, best, potentials in zip(
            model.predict_nbest(X, 4, labels),
            model.predict(X, labels),
            potentials_of(model.model_, X, labels),
        ):
            scores = [
                model.structure_.score(potentials, np.array(y)) for y in product(range(3), repeat=3)
            ]
            assert_allclose(
                [score for _, score in labelings],
                sorted(scores, reverse=True)[:4],
            )
            assert_array_equal(labelings[0].labels, best)


def test_partial_labels_and_weights(rng):
    X, y = draw_grids()
    partial = [
        [None if rng.random() < 0.3 else label for label in labels.ravel().tolist()] for labels in y
    ]
    for loss in ("hinge", "crf"):
        model = GraphLabeler(["linear"], ["linear"], loss=loss, epochs=3, random_state=0).fit(
            X, partial
        )
        assert model.score(X, y) > 0.5
    weights = np.array([0.0, 2.0] * 6)
    copies = [x for x, weight in zip(X, weights) for _ in range(int(weight))]
    repeated = [labels for labels, weight in zip(y, weights) for _ in range(int(weight))]
    settings = {"epochs": omkl.Passes(1, shuffle=False), "random_state": 0}
    first = GraphLabeler(["linear"], ["linear"], **settings).fit(X, y, weights)
    second = GraphLabeler(["linear"], ["linear"], **settings).fit(copies, repeated)
    assert_allclose(first.predictor_.norms, second.predictor_.norms)
    assert (
        GraphLabeler(["linear"], ["linear"], class_weight="balanced", **settings)
        .fit(X, y)
        .score(X, y)
        > 0.4
    )


def test_explanations_sum_to_the_margin(grids):
    X, y, _ = grids
    model = GraphLabeler(["linear"], ["linear"], epochs=2, random_state=0).fit(X, y)
    why = model.explain(X[0])
    assert sum(why.groups.values()) == pytest.approx(why.margin)
    assert set(why.groups) >= {"linear", "edge:linear", "transitions"}
    assert {record["group"] for record in why.features} >= {"linear", "edge:linear", "transitions"}
    at_node = model.explain(X[0], node=1)
    assert at_node.output[1] != at_node.against[1]
    assert_array_equal(model.explain(X[0], against=y[0].ravel()).against, y[0].ravel())
    with pytest.raises(InputError, match="node must be None if against is given"):
        model.explain(X[0], against=y[0].ravel(), node=1)


def test_evaluation_and_marginals_of_small_graphs(grids):
    X, y, model = grids
    scores = model.evaluate(X, y)
    assert scores["accuracy"] == model.score(X, y)
    assert scores["graphs"] == len(X)
    triangle = Graph(np.eye(3), [(0, 1), (1, 2), (2, 0)])
    crf = GraphLabeler(["linear"], loss="crf", epochs=5, random_state=0).fit(
        [triangle], [[0, 1, 2]]
    )
    potentials = next(potentials_of(crf.model_, [triangle]))
    scores = [
        crf.structure_.score(potentials, np.array(labels)) for labels in product(range(3), repeat=3)
    ]
    assert crf.certificates([triangle])[0].score == pytest.approx(max(scores))


@pytest.mark.parametrize("loss", ["hinge", "crf"])
@pytest.mark.parametrize("with_features", [False, True])
def test_directed_graphs_have_edges_both_ways(loss, with_features, rng):
    X = []
    y = []
    for _ in range(30):
        graph = networkx.DiGraph()
        for i, row in enumerate(rng.normal(size=(3, 2))):
            graph.add_node(i, x=row)
        for first, second in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0)]:
            graph.add_edge(first, second, x=rng.normal(size=2))
        X.append(Graph.from_networkx(graph, "x", "x" if with_features else None))
        y.append([int(graph.nodes[i]["x"][0] > 0.0) for i in range(3)])
    if not with_features:
        X = [Graph(x.nodes, x.edges, directed=True) for x in X]
    model = GraphLabeler("linear", loss=loss, epochs=2, random_state=0).fit(X, y)
    certificates = model.certificates(X)
    assert np.mean([certificate.proved for certificate in certificates]) > 0.8
    for potentials, certificate in zip(potentials_of(model.model_, X), certificates):
        scores = [
            model.structure_.score(potentials, np.array(labels))
            for labels in product(range(2), repeat=3)
        ]
        assert certificate.bound >= max(scores) - 1e-9
        assert certificate.score == pytest.approx(max(scores))


def test_gradients_of_edges_both_ways_are_those_of_the_loss(rng):
    """The gradient of an edge does not depend on the edges beside it."""
    structure = PairwiseGraph(2)
    potentials = structure.over(GraphLayout(3, np.array([[0, 1], [1, 0], [1, 2], [0, 1]])))
    for array in potentials[:2]:
        array[:] = rng.normal(size=array.shape)
    gold = np.array([0, 1, 1])
    for loss in (CRF(), SoftmaxMargin(), StructuredHinge()):
        _, gradient = loss.value_and_gradient(structure, potentials, gold)
        for array, slopes in zip(potentials[:2], gradient[:2]):
            for index in np.ndindex(array.shape):
                values = []
                for move in (1e-5, -1e-5):
                    array[index] += move
                    values.append(loss.value_and_gradient(structure, potentials, gold)[0])
                    array[index] -= move
                assert (values[0] - values[1]) / 2e-5 == pytest.approx(slopes[index], abs=1e-6)


def test_allowed_pairs_that_no_labelling_keeps_are_refused_by_number():
    square = Graph(np.eye(4), [(i, (i + 1) % 4) for i in range(4)])
    clique = Graph(np.eye(4), [(i, j) for j in range(4) for i in range(j)])
    different = {0: [1, 2], 1: [0, 2], 2: [0, 1]}
    for loss in ("hinge", "crf"):
        model = GraphLabeler(
            loss=loss, random_state=0, epochs=1, edges=omkl.Edges(allowed=different)
        )
        model.fit([square], [[0, 1, 2, 1]])
        with pytest.raises(InputError, match=r"^Graph 1 has no labelling that the allowed pairs"):
            model.predict([square, clique])
    with pytest.raises(InputError, match="No labelling is allowed"):
        model.predict_marginals([clique])


def test_graphs_of_networkx_are_accepted():
    graph = networkx.cycle_graph(4)
    networkx.set_node_attributes(
        graph, {i: "even" if i % 2 == 0 else "odd" for i in graph}, "parity"
    )
    model = GraphLabeler(random_state=0).fit([graph], [[0, 1, 0, 1]])
    assert model.predict([graph])[0].tolist() == [0, 1, 0, 1]


LINE = Graph(
    np.eye(2),
    [(0, 1)],
    np.ones((1, 1)),
)


@pytest.mark.parametrize(
    ("X", "y", "settings", "message"),
    [
        ([], [], {}, "X must be a list of graphs"),
        (LINE, [0, 1], {}, "X must be a list of graphs"),
        ([LINE, np.eye(2)], [[0, 1]] * 2, {}, "Graph 1 of X must be an omkl.data.Graph"),
        ([LINE], [[0, 1, 1]], {}, "Sequence 0 of y must be a list of 2 labels"),
        ([LINE], [[None, None]], {}, "a label other than None"),
        (
            [LINE, Graph(np.eye(2), [(0, 1)], np.ones((1, 2)))],
            [[0, 1]] * 2,
            {},
            "Features of edges: .* shape",
        ),
        ([LINE, Graph(np.eye(2), [(0, 1)])], [[0, 1]] * 2, {}, "Graph 1 has no features of edges"),
        ([Graph(np.eye(2), [(0, 1)], [[np.nan]])], [[0, 1]], {}, "Features of edges: .* finite"),
        ([Graph(np.full((2, 2), np.inf), [(0, 1)])], [[0, 1]], {}, "finite"),
        (
            [LINE, Graph(np.eye(2), [(0, 1)], np.ones((1, 1)), directed=True)],
            [[0, 1]] * 2,
            {},
            "all directed or all",
        ),
        (
            [Graph(np.eye(2), [(0, 1)], directed=True)],
            [[0, 1]],
            {"edges": omkl.Edges(pairs="symmetric")},
            "does not fit the directed",
        ),
        ([LINE], [[0, 1]], {"edges": omkl.Edges(pairs="full")}, "does not fit the undirected"),
        ([LINE], [[0, 1]], {"edges": {"linear": 3}}, "kernel"),
        (
            [LINE],
            [[0, 1]],
            {"edges": omkl.Edges(pairs={"linear": "potts"})},
            "Keys of `pairs` must be one of 'edge:linear', 'transitions'",
        ),
        (
            [LINE],
            [[0, 1]],
            {"edges": omkl.Edges(pairs={"edge:linear": "some"})},
            "must be one of 'full', .* got 'some'",
        ),
        (
            [LINE],
            [[0, 1]],
            {"edges": omkl.Edges(pairs={"transitions": "full"})},
            "does not fit the undirected",
        ),
        (
            [Graph(np.eye(2), [(0, 1)])],
            [[0, 1]],
            {"edges": "linear"},
            "Edges without features have no kernels",
        ),
        ([LINE], [[0, 1]], {"edges": omkl.Edges(allowed={0: [0]})}, "must be symmetric"),
    ],
)
def test_bad_input_is_refused(X, y, settings, message):
    labeler = GraphLabeler("linear", random_state=0, **settings)
    with pytest.raises(InputError, match=message):
        labeler.fit(X, y)
    assert "model_" not in labeler.__dict__


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Graph(np.eye(2), [(0, 1)]), "edges with features, got none"),
        (Graph(np.eye(2), [(0, 1)], np.ones((1, 3))), "Features of edges: .* rows of 1 numbers"),
        (Graph(np.eye(3), [(0, 1)], np.ones((1, 1))), "rows of 2 numbers"),
        (Graph(np.eye(2), [(0, 1)], np.ones((1, 1)), directed=True), "undirected graphs"),
    ],
)
def test_other_graphs_are_refused_in_prediction(graph, message):
    model = GraphLabeler("linear", random_state=0, epochs=1).fit([LINE], [[0, 1]])
    before = model.predictor_.norms.copy()
    for call in (model.predict, lambda X: model.partial_fit(X, [[0] * len(graph)])):
        with pytest.raises(InputError, match=message):
            call([graph])
    assert_array_equal(model.predictor_.norms, before)
    assert model.predict([Graph(np.eye(2)[:1], [], None)])[0].shape == (1,)
    with pytest.raises(InputError, match="The label 5 must be one of the labels"):
        model.predict([LINE], [[5, None]])
