"""The arrays of a graph behind an address, for compiled functions."""

from typing import NamedTuple

import numpy as np
from numba import types

from omkl._pointers import FLAGS, INTEGER, INTEGERS, VECTOR, Layout


class GraphArrays(NamedTuple):
    """A graph for compiled functions; see :class:`GraphLayout`.

    ``edges`` (E, 2) are all edges. The single edges ``single_edges`` (E', 2) have the order of
    messages, spanning ``forests`` (T, E'), and the ``rates`` (E',) at which these hold an edge;
    T is 0 if nobody asked for them. If there are parallel edges, edge e is the single edge
    ``places[e]``, with the two nodes in the other order if ``reverse[e]``; else E is 0 in both.
    """

    edges: np.ndarray
    single_edges: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    middle: np.ndarray
    incident: np.ndarray
    is_forest: int
    places: np.ndarray
    reverse: np.ndarray
    forests: np.ndarray
    rates: np.ndarray


PAIRS_OF_NODES = types.int64[:, ::1]
MASKS = types.boolean[:, ::1]
GRAPH = Layout(
    GraphArrays,
    edges=PAIRS_OF_NODES,
    single_edges=PAIRS_OF_NODES,
    order=INTEGERS,
    starts=INTEGERS,
    middle=INTEGERS,
    incident=INTEGERS,
    is_forest=INTEGER,
    places=INTEGERS,
    reverse=FLAGS,
    forests=MASKS,
    rates=VECTOR,
)
graph_at = GRAPH.at
