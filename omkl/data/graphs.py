"""Graphs as inputs: nodes and edges with features, from arrays, images and networkx."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number
from omkl.data.blocks import n_rows
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
    edge_features : array of shape (E, d), list of E dicts or lists of attributes, or data frame, optional
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
        self, nodes: Any, edges: ArrayLike, edge_features: Any = None, directed: bool = False
    ) -> None:
        if isinstance(nodes, (str, bytes, dict)) or not (
            isinstance(nodes, Sized) or hasattr(nodes, "shape")
        ):
            raise InputError(
                f"`nodes` must be an array, or a list of dicts or words, got {nodes!r:.60}."
            )
        n, ends = n_rows(nodes), _as_edges(edges)
        if n == 0:
            raise InputError("A graph must have a node.")
        _check_edges(ends, n, directed)
        if edge_features is not None:
            if n_rows(edge_features) != len(ends):
                found = n_rows(edge_features)
                raise InputError(
                    f"`edge_features` must have a row for each of {len(ends)} edges, got {found}."
                )
            if isinstance(edge_features, np.ndarray) and edge_features.ndim != 2:
                raise InputError(
                    f"`edge_features` must have the shape (E, d), got {edge_features.shape}."
                )
        self.nodes, self.edge_features = nodes, edge_features
        self.layout = GraphLayout(n, ends, bool(directed))

    def __len__(self) -> int:
        return self.layout.n_nodes

    def __repr__(self) -> str:
        return f"Graph({len(self)} nodes, {len(self.edges)} edges{', directed' if self.directed else ''})"

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
        """Convert a graph of networkx; the order of nodes and edges is that of ``graph.nodes`` and
        ``graph.edges``.

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
        places = {node: i for i, node in enumerate(graph.nodes)}
        ends = [(places[first], places[second]) for first, second in graph.edges()]
        of_nodes = _attributes("node", graph.nodes(data=True), nodes)
        between = [((first, second), own) for first, second, own in graph.edges(data=True)]
        of_edges = (
            _attributes("edge", between, edges) if edges or any(own for _, own in between) else None
        )
        return cls(of_nodes, ends, of_edges, graph.is_directed())


def _attributes(kind: str, owners: Iterable[tuple[Any, dict]], name: str | None) -> Any:
    """Return the attributes of nodes or edges, or one of them: arrays are stacked."""
    found: list[Any] = []
    for owner, attributes in owners:
        if not attributes if name is None else name not in attributes:
            what = f"attribute {name!r}" if name else "attributes"
            raise InputError(f"The {kind} {owner!r} of a networkx graph has no {what}.")
        found.append(attributes if name is None else attributes[name])
    if found and not isinstance(found[0], (str, dict, list)):
        return np.array([np.atleast_1d(own) for own in found])
    return found


def _as_edges(edges: ArrayLike) -> np.ndarray:
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
    first = np.zeros(len(edges), dtype=bool)
    first[np.unique(n * ends[:, 0] + ends[:, 1], return_index=True)[1]] = True
    for wrong, problem in (
        (outside, f"has a node outside 0 .. {n - 1}"),
        (loops, "is a loop"),
        (~first, "occurs twice"),
    ):
        if wrong.any():
            e = int(np.argmax(wrong))
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
            "grid needs an image of shape (height, width) or (height, width, channels), and connectivity 4 or 8, "
            f"got {pixels.shape} and {connectivity}."
        )
    height, width = pixels.shape[:2]
    index, edges, kinds = np.arange(height * width).reshape(height, width), [], []
    for kind, (down, right) in enumerate(list(DIRECTIONS.values())[: connectivity // 2]):
        rows, columns = height - down, slice(max(-right, 0), width - max(right, 0))
        start = index[:rows, columns].ravel()
        edges.append(np.stack([start, start + down * width + right], axis=1))
        kinds.append(np.full(len(start), kind))
    ends, directions = np.concatenate(edges), np.concatenate(kinds)
    order = np.argsort(
        ends[:, 0], kind="stable"
    )  # passes over the graph then read memory in its order
    edge_features = np.eye(connectivity // 2)[directions[order]]
    return Graph(pixels.reshape(height * width, -1), ends[order], edge_features, directed=True)


# ---- JSON lines ----------------------------------------------------------------------------------


def read_graphs(path: PathLike) -> tuple[list[Graph], list[list] | None]:
    """Read graphs from JSON lines, plain or compressed.

    A line is a graph: ``{"nodes": [...], "edges": [[0, 1], ...]}``, with ``"edge_features"``,
    ``"directed"`` and the labels ``"y"`` of the nodes where there are any, as the arguments of
    :class:`Graph`. Features of a node are a list of numbers, a word, a dict or a list of attributes; null is an unknown label.

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
        try:
            record = json.loads(line)
            if unknown := sorted(record.keys() - set(KEYS)):
                raise InputError(f"{unknown[0]!r} is not one of {', '.join(KEYS)}.")
            features = _numbers(record.get("edge_features"))
            graph = Graph(
                _numbers(record["nodes"]),
                record["edges"],
                features,
                bool(record.get("directed", False)),
            )
            y = record.get("y")
            if not isinstance(y, list if labels and labels[0] is not None else (list, type(None))):
                raise InputError(
                    f'"y" must be a list of labels, as in the first line, got {y!r:.60}.'
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = (
                error
                if isinstance(error, InputError)
                else 'expected {"nodes": [...], "edges": [[0, 1], ...]}.'
            )
            raise DataFileError(f"{path}, line {number}: {reason}") from None
        graphs.append(graph)
        labels.append(y)
    if not graphs:
        raise DataFileError(f"{path} holds no graphs.")
    return graphs, None if labels[0] is None else labels


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
            f"There must be labels for each of the {len(graphs)} graphs, got those of {len(labels)}."
        )
    with output_file(path) as file:
        for graph, y in zip(graphs, [None] * len(graphs) if labels is None else labels):
            y = y.ravel() if isinstance(y, np.ndarray) else y
            if y is not None and len(y) != len(graph):
                raise InputError(
                    f"There must be a label for each of the {len(graph)} nodes of a graph, got {len(y)}."
                )
            values = graph.nodes, graph.edges, graph.edge_features, graph.directed or None, y
            record = {key: value for key, value in zip(KEYS, values) if value is not None}
            try:
                text = json.dumps(record, default=lambda value: value.tolist(), ensure_ascii=False)
            except (ValueError, TypeError, AttributeError) as error:
                raise InputError(f"A graph cannot be written as JSON: {error}.") from None
            file.write(f"{text}\n".encode())


def _numbers(features: Any) -> Any:
    """Convert rows of numbers to an array; keep other features."""
    is_rows = (
        isinstance(features, list) and features and isinstance(features[0], list) and features[0]
    )
    return (
        np.array(features, dtype=np.float64)
        if is_rows and isinstance(features[0][0], (int, float))
        else features
    )
