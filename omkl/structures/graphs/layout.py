"""The edges of a graph: the order of messages, spanning forests, and parallel edges as one."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csgraph, csr_array

from omkl._pointers import Packed
from omkl.structures.graphs import _jit_labellings as jit
from omkl.structures.graphs._jit_labellings import GRAPH, GraphArrays

#: Minimum number of random spanning forests that determine how often edges appear in one.
FORESTS = 20
#: Numbers and directions of single edges where no two edges join the same nodes.
NO_EDGES = np.zeros(0, dtype=np.int64)
NO_REVERSE = np.zeros(0, dtype=np.bool_)


@dataclass(eq=False)
class GraphLayout:
    """The edges of a graph with the order in which messages pass them.

    Parameters
    ----------
    n_nodes : int
    edges : int array of shape (E, 2)
        The two nodes of each edge. Several edges may join the same two nodes, in any order.
    directed : bool
        Whether the order of the two nodes has a meaning.
    """

    n_nodes: int
    edges: np.ndarray
    directed: bool = False
    _packed: Packed | None = field(default=None, init=False, repr=False)

    def packed(self, with_forests: bool) -> Packed:
        """Return the arrays of the graph for compiled functions; hold the layout while in use.

        Parameters
        ----------
        with_forests : bool
            Whether functions read :attr:`forests`, which take longer to find than the rest.
        """
        single, single_edge_of, reverse = self.merged or MergedEdges(self, NO_EDGES, NO_REVERSE)
        if self._packed is None:
            order, starts, middle, incident, is_forest = single._arranged
            n_single = len(single.edges)
            arrays = GraphArrays(
                edges=np.ascontiguousarray(self.edges, dtype=np.int64),
                single_edges=np.ascontiguousarray(single.edges, dtype=np.int64),
                order=order,
                starts=starts,
                middle=middle,
                incident=incident,
                is_forest=int(is_forest),
                single_edge_of=single_edge_of,
                reverse=reverse,
                forests=np.zeros((0, n_single), np.bool_),
                rates=np.ones(n_single),
            )
            self._packed = GRAPH.pack(arrays)
        if with_forests and not len(self._packed.values.forests):
            self._packed.set(forests=single.forests, rates=single.appearance)
        return self._packed

    @cached_property
    def _arranged(self) -> tuple:
        """Order of nodes, incident edges and whether the graph is a forest: ``jit.arrange``."""
        return jit.arrange(self.edges, self.n_nodes)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that compiled functions take; see ``_jit_labellings``."""
        order, starts, middle, incident, _ = self._arranged
        return self.edges, order, starts, middle, incident

    @cached_property
    def is_chain(self) -> bool:
        """True if each node but the last has an edge to the next one, in their order."""
        if not self.directed or self.n_nodes == 0:
            return False
        return np.array_equal(self.edges, np.arange(self.n_nodes - 1)[:, None] + [0, 1])

    @property
    def is_forest(self) -> bool:
        """True if the graph has no cycles but parallel edges, so that predictions are exact."""
        if self.merged is not None:
            return self.merged.layout.is_forest
        *_, is_forest = self._arranged
        return bool(is_forest)

    @cached_property
    def merged(self) -> "MergedEdges | None":
        """The graph with one edge for each two neighbours; None if it is this one."""
        low = self.edges.min(axis=1, initial=self.n_nodes)
        high = self.edges.max(axis=1, initial=0)
        _, first, sorted_edge_of = np.unique(
            low * self.n_nodes + high, return_index=True, return_inverse=True
        )
        if len(first) == len(self.edges):
            return None
        order = np.argsort(first)
        ranks = np.argsort(order)
        single_edge_of = ranks[sorted_edge_of.ravel()]
        edges = self.edges[first[order]]
        reverse = edges[single_edge_of, 0] != self.edges[:, 0]
        layout = GraphLayout(self.n_nodes, edges, self.directed)
        return MergedEdges(layout, single_edge_of, reverse)

    @cached_property
    def forests(self) -> np.ndarray:
        """Masks (T, E) of the edges of some random spanning forests; all edges if it is a forest.

        Edges that few of the forests hold come first in the next one, so that all appear.
        """
        if self.merged is not None:
            return self.merged.layout.forests[:, self.merged.single_edge_of]
        n_edges = len(self.edges)
        if self.is_forest:
            return np.ones((1, n_edges), np.bool_)
        rng = np.random.default_rng(0)
        counts = np.zeros(n_edges)
        forests: list[np.ndarray] = []
        while len(forests) < FORESTS or not counts.all():
            order = np.argsort(counts + rng.random(n_edges))
            chosen = self._spanning_forest(order)
            counts += chosen
            forests.append(chosen)
        return np.array(forests)

    def _spanning_forest(self, order: np.ndarray) -> np.ndarray:
        """Return a mask (E,) of the spanning forest that prefers the first edges of an order."""
        n_edges = len(self.edges)
        costs = np.empty(n_edges)
        costs[order] = np.arange(1.0, n_edges + 1.0)
        first, second = self.edges.T.astype(np.int32)  # older versions of SciPy read no others
        graph = csr_array((costs, (first, second)), shape=(self.n_nodes, self.n_nodes))
        ranks = csgraph.minimum_spanning_tree(graph).data.astype(np.int64)
        chosen = np.zeros(n_edges, np.bool_)
        chosen[order[ranks - 1]] = True
        return chosen

    @cached_property
    def appearance(self) -> np.ndarray:
        """Share of :attr:`forests` that hold each edge, (E,): 1 for all edges of a forest."""
        return self.forests.mean(axis=0)


class MergedEdges(NamedTuple):
    """Parallel and reverse edges of a graph as one edge for each two neighbours.

    Attributes
    ----------
    layout : GraphLayout
        The graph that has the first edge of each two neighbours, E' in all.
    single_edge_of : int array of shape (E,)
        The edge of ``layout`` that stands for each edge.
    reverse : bool array of shape (E,)
        Whether that edge has the two nodes in the other order.
    """

    layout: GraphLayout
    single_edge_of: np.ndarray
    reverse: np.ndarray
