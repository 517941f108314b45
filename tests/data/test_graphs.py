"""Graphs from arrays, images and networkx."""

import networkx
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omkl.data import Graph, grid, read_graphs, write_graphs
from omkl.exceptions import InputError


@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 1), (3, 4)])
def test_grids_join_neighbours(connectivity, shape):
    image = np.random.default_rng(0).normal(size=(*shape, 2))
    graph = grid(image, connectivity)
    places = np.argwhere(np.ones(shape))
    expected = networkx.grid_2d_graph(*shape)
    if connectivity == 8:
        steps = [(1, 1), (1, -1)]
        expected.add_edges_from(
            ((i, j), (i + a, j + b))
            for i, j in places.tolist()
            for a, b in steps
            if i + a < shape[0] and 0 <= j + b < shape[1]
        )
    neighbours = {
        frozenset((tuple(places[i].tolist()), tuple(places[j].tolist()))) for i, j in graph.edges
    }
    assert neighbours == {frozenset(edge) for edge in expected.edges}
    assert len(graph.edges) == len(neighbours)
    assert graph.directed
    assert_array_equal(graph.nodes, image.reshape(-1, 2))
    moves = places[graph.edges[:, 1]] - places[graph.edges[:, 0]]
    names = [(0, 1), (1, 0), (1, 1), (1, -1)]
    assert_array_equal(
        graph.edge_features.argmax(axis=1), [names.index(tuple(move)) for move in moves.tolist()]
    )


def test_graphs_of_networkx():
    path = networkx.DiGraph([("b", "a"), ("a", "c")])
    networkx.set_node_attributes(
        path,
        {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]},
        "x",
    )
    networkx.set_edge_attributes(
        path,
        {("b", "a"): 0.5, ("a", "c"): 1.5},
        "weight",
    )
    graph = Graph.from_networkx(path, "x", "weight")
    assert graph.directed
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert_array_equal(graph.nodes, [[3.0, 4.0], [1.0, 2.0], [5.0, 6.0]])
    assert_array_equal(graph.edge_features, [[0.5], [1.5]])
    undirected = Graph.from_networkx(path.to_undirected())
    assert not undirected.directed
    assert undirected.nodes[0] == {"x": [3.0, 4.0]}
    assert undirected.edge_features == [{"weight": 0.5}, {"weight": 1.5}]
    with pytest.raises(
        InputError, match=r"edge .'b', 'a'. of a networkx graph has no attribute 'colour'"
    ):
        Graph.from_networkx(path, "x", "colour")
    with pytest.raises(InputError, match="node 0 of a networkx graph has no attributes"):
        Graph.from_networkx(networkx.path_graph(2))


NODES = np.zeros((3, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "must have a node"),
        (("abc", []), "`nodes` must be an array, or a list"),
        ((NODES, [(0, 3)]), r"Edge 0 of a graph, \(0, 3\), has a node outside 0 .. 2"),
        ((NODES, [(0, 1), (-1, 2)]), "Edge 1 of a graph, .* outside"),
        ((NODES, [(0, 1), (1, 1)]), r"Edge 1 of a graph, \(1, 1\), is a loop"),
        ((NODES, [(0, 1), (1, 0)]), r"Edge 1 of a graph, \(1, 0\), occurs twice"),
        ((NODES, [(0, 1), (0, 1)], None, True), "occurs twice"),
        ((NODES, [(0, 1, 2)]), r"pairs of nodes, integers of shape \(E, 2\)"),
        ((NODES, [(0.5, 1.0)]), "pairs of nodes"),
        ((NODES, [(0, 1), (2,)]), "pairs of nodes"),
        ((NODES, [(0, 1)], np.zeros((2, 1))), "a row for each of 1 edges, got 2"),
        ((NODES, [(0, 1)], np.zeros(1)), r"must have the shape \(E, d\)"),
    ],
)
def test_bad_graphs_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Graph(*arguments)


def test_written_graphs_are_read(tmp_path):
    image = grid(np.arange(6.0).reshape(2, 3))
    words = Graph(
        ["a", "ä"],
        [(0, 1)],
        [{"near": np.float64(0.5), "kind": "x"}],
    )
    write_graphs(
        tmp_path / "graphs.jsonl.gz",
        [image, words],
        [np.array([[1, 0, 1], [2, 2, 0]]), ["A", None]],
    )
    (first, second), labels = read_graphs(tmp_path / "graphs.jsonl.gz")
    assert_array_equal(first.nodes, image.nodes)
    assert_array_equal(first.edges, image.edges)
    assert_array_equal(first.edge_features, image.edge_features)
    assert first.directed is True
    assert second.directed is False
    assert second.nodes == words.nodes
    assert second.edge_features == words.edge_features
    assert labels == [[1, 0, 1, 2, 2, 0], ["A", None]]
    write_graphs(tmp_path / "graphs.jsonl", [words])
    assert read_graphs(tmp_path / "graphs.jsonl")[1] is None
    refused = (
        (words, [], "1 graphs, got"),
        (words, [["A"]], "nodes of a graph, got 1"),
        (Graph([{"a": {1}}], []), None, "JSON"),
    )
    for graph, labels, message in refused:
        with pytest.raises(InputError, match=message):
            write_graphs(tmp_path / "graphs.jsonl", [graph], labels)
    assert len(read_graphs(tmp_path / "graphs.jsonl")[0]) == 1


@pytest.mark.parametrize(
    "arguments", [(np.zeros(3),), (np.zeros((2, 2)), 6), (np.zeros((2, 2, 2, 2)),)]
)
def test_bad_images_are_refused(arguments):
    with pytest.raises(InputError, match="grid needs an image"):
        grid(*arguments)


def test_one_node_and_pieces_are_graphs():
    assert repr(Graph(["a"], [])) == "Graph(1 nodes, 0 edges)"
    assert len(Graph(["a", "b", "c"], np.empty((0, 2)))) == 3
    assert Graph(NODES, [(0, 1), (1, 0)], directed=True).layout.n_nodes == 3
