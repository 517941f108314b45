"""Predictions of a trained graph labeler: labels with certificates, marginals, explanations."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from omkl._components import check_number
from omkl._threads import in_threads
from omkl.estimators.explanations import Explanation, explain_difference, part_namer
from omkl.estimators.sources import TrainingBlock, as_stream, blocks_of
from omkl.exceptions import InputError
from omkl.graphs.codec import EDGE, GraphCodec, check_possible, read_graphs
from omkl.groups.edges import GraphSpan
from omkl.online.group_contributions import Piece
from omkl.online.model import OnlineModel
from omkl.sequences.reading import LabelSequences, possible_labels
from omkl.structures.graph import Certificate, GraphPotentials


def solutions(
    model: OnlineModel[GraphCodec], X: Any, labels: LabelSequences = None, n_jobs: int | None = None
) -> list[tuple[np.ndarray, Certificate]]:
    """Return the codes of the labels of each graph, subject to known ``labels``, and their certificates."""
    predictor, structure = model.predictor(), model.codec.structure

    def solved(given: tuple[int, GraphSpan, np.ndarray | None]) -> tuple[np.ndarray, Certificate]:
        s, x, possible = given
        codes, found = structure.solve(_within(model, predictor.potentials(x), possible))
        if found.score == -np.inf:
            raise InputError(f"No labelling of graph {s} was found that allowed_pairs and the given labels allow.")
        return codes, found

    return in_threads(solved, _encoded(model, X, labels), n_jobs)


def graph_potentials(
    model: OnlineModel[GraphCodec], X: Any, labels: LabelSequences = None
) -> Iterator[GraphPotentials]:
    """Yield the potentials of each graph; labellings that contradict known ``labels`` are forbidden."""
    predictor = model.predictor()
    return (_within(model, predictor.potentials(x), possible) for _, x, possible in _encoded(model, X, labels))


def _within(
    model: OnlineModel[GraphCodec], potentials: GraphPotentials, possible: np.ndarray | None
) -> GraphPotentials:
    return potentials if possible is None else model.codec.structure.agreeing(potentials, possible)


def _encoded(
    model: OnlineModel[GraphCodec], X: Any, labels: LabelSequences
) -> Iterator[tuple[int, GraphSpan, np.ndarray | None]]:
    """Yield number, encoded graph, and possible labels of its nodes, None for no restriction."""
    if labels is not None and as_stream(X) is not None:
        raise InputError("labels must be None for a stream.")
    codec, s = model.codec, 0
    for block in blocks_of(X):
        data = read_graphs(block, codec.encoder.names, labeled=False)
        codec.warn_of_absent_keys(data.inputs, model.predictor)
        possible = None if labels is None else possible_labels(labels, np.diff(data.offsets), codec.known)
        for x in codec.spans(data):
            own = None if possible is None else possible[x.low : x.high]
            if own is not None:
                check_possible(codec.structure, own, x.layout, s)
            yield s, x, own
            s += 1


def decoded(model: OnlineModel[GraphCodec], block: TrainingBlock, n_jobs: int | None = None) -> np.ndarray:
    """Return the predicted codes of all nodes of a block."""
    return np.concatenate([codes for codes, _ in solutions(model, block.X, None, n_jobs)])


def explain_nodes(
    model: OnlineModel[GraphCodec],
    x: Any,
    labels: Collection | None,
    against: Collection | None,
    node: int | None,
    n: int,
) -> Explanation:
    """Explain a labelling of a graph; see :meth:`omkl.GraphLabeler.explain`."""
    predictor, codec = model.predictor(), model.codec
    [(_, span, _)] = _encoded(model, [x], None)
    structure, potentials = codec.structure, predictor.potentials(span)

    def read(given: Collection) -> np.ndarray:
        possible = possible_labels([given], np.array([len(span)]), codec.known)
        if not (possible.sum(axis=1) == 1).all():
            raise InputError("labels and against must hold one label for each node, not None or a set.")
        return possible.argmax(axis=1)

    chosen = structure.decode(potentials) if labels is None else read(labels)
    if against is not None:
        if node is not None:
            raise InputError("node must be None if against is given.")
        other = read(against)
    else:
        if node is None:  # the node with the least certain label
            unary = potentials.unary.copy()
            unary[np.arange(len(chosen)), chosen] -= np.inf
            node = int(np.argmax(unary.max(axis=1) - potentials.unary[np.arange(len(chosen)), chosen]))
        check_number("node", node, above=-1, below=len(chosen), integer=True)
        possible = np.ones(potentials.unary.shape, dtype=bool)
        possible[node, chosen[node]] = False
        check_possible(structure, possible, span.layout, 0)
        other = structure.decode(structure.agreeing(potentials, possible))
    members, classes = codec.known.members, codec.known.as_array()
    told = [
        f"node {i}: {members[chosen[i]]!r} rather than {members[other[i]]!r}"
        for i in np.flatnonzero(chosen != other).tolist()
    ]
    return explain_difference(predictor, span, potentials, (chosen, other), told, n, _namer(codec), classes.__getitem__)


def _namer(codec: Any) -> Callable[[list[Piece]], list[str]]:
    """Make a function that names the pieces of nodes and edges."""
    of_nodes = part_namer(codec.encoder, codec.known.members)
    of_edges = of_nodes if codec.edges is None else part_namer(codec.edges, codec.known.members)
    return lambda pieces: [(of_edges if piece.group.startswith(EDGE) else of_nodes)([piece])[0] for piece in pieces]
