"""Graphs as inputs: nodes and edges with features, from arrays, images and networkx."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number
from omkl.data.blocks import Rows, n_rows
from omkl.data.files import PathLike, lines, output_file
from omkl.exceptions import DataFileError, InputError
from omkl.structures.graphs.layout import GraphLayout

if TYPE_CHECKING:
    import networkx

#: Names of the values of a line of JSON.
KEYS = "nodes", "edges", "edge_features", "directed", "y"
#: Differences of row and column from a pixel to its neighbours, and their names.
DIRECTIONS = {"right": (0, 1), "down": (1, 0), "down right": (1, 1), "down left": (1, -1)}


class Graph:
    """A graph with features of its nodes and edges.

    Parameters
    ----------
    nodes : array of shape (n, d), list of n dicts, words or lists of attributes, or data frame
        Features of the nodes, like the tokens of a sequence for :class:`~omkl.SequenceLabeler`.
    edges : int array of shape (E, 2)
        The two nodes of each edge, counted from 0. May be empty.
    edge_features : array of shape (E, d), list of E dicts or lists, or data frame, optional
        Features of the edges.
    directed : bool
        Whether the order of the two nodes of an edge has a meaning. In an undirected graph, it does
        not change any score.

    Raises
    ------
    omkl.exceptions.InputError
        If there are no nodes, an edge is a loop, occurs twice or has an unknown node, or features
        are missing.

    Examples
    --------
    >>> Graph(["yes", "no", "yes"], [(0, 1), (1, 2)])
    Graph(3 nodes, 2 edges)
    """

    def __init__(
        self,
        nodes: Rows,
        edges: ArrayLike,
        edge_features: Rows | None = None,
        directed: bool = False,
    ) -> None:
        is_collection = isinstance(nodes, Sized) or hasattr(nodes, "shape")
        if isinstance(nodes, (str, bytes, dict)) or not is_collection:
            raise InputError(
                f"`nodes` must be an array, or a list of dicts or words, got {nodes!r:.60}."
            )
        n_nodes = n_rows(nodes)
        ends = _as_edges(edges)
        if n_nodes == 0:
            raise InputError("A graph must have a node.")
        _check_edges(ends, n_nodes, directed)
        if edge_features is not None:
            n_features = n_rows(edge_features)
            if n_features != len(ends):
                raise InputError(
                    f"`edge_features` must have a row for each of {len(ends)} edges, "
                    f"got {n_features}."
                )
            if isinstance(edge_features, np.ndarray) and edge_features.ndim != 2:
                raise InputError(
                    f"`edge_features` must have the shape (E, d), got {edge_features.shape}."
                )
        self.nodes = nodes
        self.edge_features = edge_features
        self.layout = GraphLayout(n_nodes, ends, bool(directed))

    def __len__(self) -> int:
        return self.layout.n_nodes

    def __repr__(self) -> str:
        directed = ", directed" if self.directed else ""
        return f"Graph({len(self)} nodes, {len(self.edges)} edges{directed})"

    @property
    def edges(self) -> np.ndarray:
        """The two nodes of each edge, (E, 2)."""
        return self.layout.edges

    @property
    def directed(self) -> bool:
        """True if the order of the two nodes of an edge has a meaning."""
        return self.layout.directed

    @classmethod
    def from_networkx(
        cls, graph: networkx.Graph, nodes: str | None = None, edges: str | None = None
    ) -> Graph:
        """Convert a graph of networkx.

        The order of nodes and edges is that of ``graph.nodes`` and ``graph.edges``.

        Parameters
        ----------
        graph : networkx.Graph or networkx.DiGraph
        nodes : str, optional
            Attribute of nodes that holds their features, such as an array or a dict. By default,
            all attributes of a node are its features.
        edges : str, optional
            The same for edges, which need no attributes by default.

        Examples
        --------
        >>> import networkx
        >>> path = networkx.path_graph(3)
        >>> networkx.set_node_attributes(path, {0: "red", 1: "blue", 2: "red"}, "colour")
        >>> Graph.from_networkx(path).nodes
        [{'colour': 'red'}, {'colour': 'blue'}, {'colour': 'red'}]
        """
        numbers = {node: i for i, node in enumerate(graph.nodes)}
        node_features = _attributes("node", graph.nodes(data=True), nodes)
        ends = []
        attributes_of_edges = []
        for first, second, attributes in graph.edges(data=True):
            ends.append((numbers[first], numbers[second]))
            attributes_of_edges.append(((first, second), attributes))
        edge_features = None
        if edges or any(attributes for _, attributes in attributes_of_edges):
            edge_features = _attributes("edge", attributes_of_edges, edges)
        return cls(node_features, ends, edge_features, graph.is_directed())


def _attributes(kind: str, owners: Iterable[tuple[Any, dict]], name: str | None) -> Any:
    """Return the attributes of nodes or edges, or one of them: arrays are stacked."""
    features: list[Any] = []
    for owner, attributes in owners:
        is_absent = not attributes if name is None else name not in attributes
        if is_absent:
            what = f"attribute {name!r}" if name else "attributes"
            raise InputError(f"The {kind} {owner!r} of a networkx graph has no {what}.")
        features.append(attributes if name is None else attributes[name])
    if features and not isinstance(features[0], (str, dict, list)):
        return np.array([np.atleast_1d(vector) for vector in features])
    return features


def _as_edges(edges: ArrayLike) -> np.ndarray:
    """Convert pairs of nodes to an array (E, 2) of int64."""
    try:
        ends = np.asarray(edges)
    except ValueError:
        ends = np.empty((1, 0))
    if ends.size == 0 and ends.ndim <= 2 and len(ends) == 0:
        return np.zeros((0, 2), np.int64)
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
        raise InputError(
            f"`edges` must be pairs of nodes, integers of shape (E, 2), got {edges!r:.60}."
        )
    return np.ascontiguousarray(ends, dtype=np.int64)


def _check_edges(edges: np.ndarray, n: int, directed: bool) -> None:
    """Raise an InputError for an unknown node, a loop, or a double edge."""
    outside = ((edges < 0) | (edges >= n)).any(axis=1)
    loops = edges[:, 0] == edges[:, 1]
    ends = edges if directed else np.sort(edges, axis=1)
    codes = n * ends[:, 0] + ends[:, 1]
    repeated = np.ones(len(edges), dtype=bool)
    repeated[np.unique(codes, return_index=True)[1]] = False
    for is_wrong, problem in (
        (outside, f"has a node outside 0 .. {n - 1}"),
        (loops, "is a loop"),
        (repeated, "occurs twice"),
    ):
        if is_wrong.any():
            e = int(np.argmax(is_wrong))
            raise InputError(f"Edge {e} of a graph, {tuple(edges[e].tolist())}, {problem}.")


def grid(image: ArrayLike, connectivity: int = 4) -> Graph:
    """Make a graph of the pixels of an image, whose edges join neighbours.

    Edges are directed, to the right and down, and their features say in which direction.

    Parameters
    ----------
    image : array of shape (height, width) or (height, width, channels)
        The channels of a pixel are the features of its node; nodes are numbered row by row.
    connectivity : {4, 8}
        Number of neighbours of a pixel; 8 adds diagonals.

    Examples
    --------
    >>> grid([[0.1, 0.2], [0.3, 0.4]])
    Graph(4 nodes, 4 edges, directed)
    """
    pixels = np.asarray(image)
    check_number("connectivity", connectivity, integer=True)
    if pixels.ndim not in (2, 3) or connectivity not in (4, 8):
        raise InputError(
            "grid needs an image of shape (height, width) or (height, width, channels), and "
            f"connectivity 4 or 8, got {pixels.shape} and {connectivity}."
        )
    height, width = pixels.shape[:2]
    numbers = np.arange(height * width).reshape(height, width)
    n_directions = connectivity // 2
    edges = []
    directions = []
    for direction, (down, right) in enumerate(list(DIRECTIONS.values())[:n_directions]):
        columns = slice(max(-right, 0), width - max(right, 0))
        first = numbers[: height - down, columns].ravel()
        second = first + down * width + right
        edges.append(np.stack([first, second], axis=1))
        directions.append(np.full(len(first), direction))
    ends = np.concatenate(edges)
    # passes over the graph then read memory in its order
    order = np.argsort(ends[:, 0], kind="stable")
    edge_features = np.eye(n_directions)[np.concatenate(directions)[order]]
    return Graph(pixels.reshape(height * width, -1), ends[order], edge_features, directed=True)


# ---- JSON lines ----------------------------------------------------------------------------------


def read_graphs(path: PathLike) -> tuple[list[Graph], list[list] | None]:
    """Read graphs from JSON lines, plain or compressed.

    A line is a graph: ``{"nodes": [...], "edges": [[0, 1], ...]}``, with ``"edge_features"``,
    ``"directed"`` and the labels ``"y"`` of the nodes where there are any, as the arguments of
    :class:`Graph`. Features of a node are a list of numbers, a word, a dict or a list of
    attributes; null is an unknown label.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    graphs : list of Graph
    labels : list of lists of labels, or None
        None if the first graph has no labels.

    Raises
    ------
    omkl.exceptions.DataFileError
        If a line is not a graph; the error names the line.
    """
    graphs: list[Graph] = []
    labels: list[Any] = []
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        needs_labels = bool(labels) and labels[0] is not None
        try:
            graph, y = _parse_graph(line, needs_labels)
        except InputError as error:
            raise DataFileError(f"{path}, line {number}: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            expected = 'expected {"nodes": [...], "edges": [[0, 1], ...]}.'
            raise DataFileError(f"{path}, line {number}: {expected}") from None
        graphs.append(graph)
        labels.append(y)
    if not graphs:
        raise DataFileError(f"{path} holds no graphs.")
    if labels[0] is None:
        return graphs, None
    return graphs, labels


def _parse_graph(line: bytes, needs_labels: bool) -> tuple[Graph, list | None]:
    """Return the graph of a line of JSON, and its labels."""
    record = json.loads(line)
    unknown = sorted(record.keys() - set(KEYS))
    if unknown:
        raise InputError(f"{unknown[0]!r} is not one of {', '.join(KEYS)}.")
    graph = Graph(
        nodes=_numbers(record["nodes"]),
        edges=record["edges"],
        edge_features=_numbers(record.get("edge_features")),
        directed=bool(record.get("directed", False)),
    )
    y = record.get("y")
    is_absent = y is None and not needs_labels
    if not isinstance(y, list) and not is_absent:
        raise InputError(f'"y" must be a list of labels, as in the first line, got {y!r:.60}.')
    return graph, y


def write_graphs(path: PathLike, graphs: Sequence[Graph], labels: Sequence | None = None) -> None:
    """Write graphs as JSON lines, which :func:`read_graphs` reads.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; ``"-"`` is standard output.
    graphs : list of Graph
    labels : list of lists or arrays of labels, optional
        Labels of the nodes of each graph.

    Raises
    ------
    omkl.exceptions.InputError
        If the labels are not those of as many graphs, or JSON cannot hold a value; an existing file
        is not changed.

    Examples
    --------
    >>> write_graphs("-", [Graph(["yes", "no"], [(0, 1)])], [[1, 0]])  # doctest: +SKIP
    {"nodes": ["yes", "no"], "edges": [[0, 1]], "y": [1, 0]}
    """
    if labels is not None and len(labels) != len(graphs):
        raise InputError(
            f"There must be labels for each of the {len(graphs)} graphs, "
            f"got those of {len(labels)}."
        )
    if labels is None:
        labels_of_graphs = [None] * len(graphs)
    else:
        labels_of_graphs = labels
    with output_file(path) as file:
        for graph, y in zip(graphs, labels_of_graphs):
            if isinstance(y, np.ndarray):
                y = y.ravel()
            if y is not None and len(y) != len(graph):
                raise InputError(
                    f"There must be a label for each of the {len(graph)} nodes of a graph, "
                    f"got {len(y)}."
                )
            values = (graph.nodes, graph.edges, graph.edge_features, graph.directed or None, y)
            record = {key: value for key, value in zip(KEYS, values) if value is not None}
            try:
                text = json.dumps(record, default=lambda value: value.tolist(), ensure_ascii=False)
            except (ValueError, TypeError, AttributeError) as error:
                raise InputError(f"A graph cannot be written as JSON: {error}.") from None
            file.write(f"{text}\n".encode())


def _numbers(features: list | None) -> Any:
    """Convert rows of numbers to an array; keep other features."""
    first = features[0] if isinstance(features, list) and features else None
    if isinstance(first, list) and first and isinstance(first[0], (int, float)):
        return np.array(features, dtype=np.float64)
    return features
