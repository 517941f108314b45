"""Pairwise models on graphs: the best labelling with a certificate, and marginals."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csgraph, csr_array

from omkl._components import check_number
from omkl.exceptions import InputError
from omkl.signatures import StructureFunctions
from omkl.structures._jit_chain import CHAIN
from omkl.structures.base import best_outputs, check_costs
from omkl.structures.chain import NOTHING_ALLOWED, Labelling
from omkl.structures.graphs import _jit_labellings as jit
from omkl.structures.graphs._jit_marginals import marginals
from omkl.structures.graphs._jit_search import FOUND, NONE, find_labelling
from omkl.structures.graphs.layout import GraphLayout

#: A labelling is proved best if no other scores higher by more than this, relative to the larger of
#: 1 and its score.
PROVED = 1e-8
#: Sweeps before a minimum cut, which takes longer on small graphs, and its largest capacity: sums
#: of two fit an int32.
BEFORE_CUT, LARGEST = 20, 2**30
#: Maximum number of sweeps of belief propagation, and movement of messages at which it ends.
SUM_SWEEPS, MOVED = 200, 1e-4
#: Maximum number of nodes and edges that a search for an allowed labelling looks at.
SEARCHED = 1_000_000
#: The message for a graph whose labellings were not all tried.
NOTHING_FOUND = (
    "The search found no labelling that the constraints allow, although there may be one."
)


class GraphPotentials(NamedTuple):
    """Scores of the parts of a labelling of a graph.

    ``unary`` (n, K) scores label ``k`` at node ``i``. ``pairwise`` (E, K, K) scores the labels at
    the two ends of each edge of ``layout``, in their order; (1, K, K) if all edges share them. A
    score of -inf forbids a part.
    """

    unary: np.ndarray
    pairwise: np.ndarray
    layout: GraphLayout


class Certificate(NamedTuple):
    """The score of a labelling, and a bound of the scores of all labellings.

    Attributes
    ----------
    score : float
        Score of the labelling, -inf if none was found that is allowed.
    bound : float
        No labelling has a higher score; -inf if none is allowed.
    proved : bool
        True if no labelling is better, up to rounding.
    """

    score: float
    bound: float
    proved: bool


class PairwiseGraph(Labelling):
    """Labels of the nodes of any graph, with scores of nodes and edges.

    Labellings of forests are the best ones, and their marginals are exact. On graphs with cycles,
    where the best labelling is NP-hard to find, sequential tree-reweighted message passing
    (Kolmogorov 2006) finds a good one and a bound of all scores: most are proved to be the best.
    With two labels, and edges whose equal labels score higher than different ones, a minimum cut is
    the best labelling. If scores of -inf forbid all that was found, a search tries labellings in
    turn, all of them on small graphs. Marginals are those of tree-reweighted belief propagation
    (Wainwright, Jaakkola and Willsky 2005), whose log-partition function is an upper bound. Edges
    that join the same nodes count as one edge with the sum of their scores. A gold label of -1 is
    unknown: it costs nothing, and any label agrees with it.

    Parameters
    ----------
    n_labels : int
        Number of labels K >= 1; an output is an array of integers in ``0 .. K-1``, one for each
        node.
    costs : array of shape (K, K), optional
        ``costs[gold, predicted] >= 0`` of one node, with a zero diagonal. The Hamming cost by
        default.
    shared : bool
        Whether all edges have the same scores.
    allowed : bool array of shape (K, K), optional
        Pairs of labels that the first and the second node of an edge may have; all by default.
    sweeps : int > 0
        Maximum number of sweeps over a graph with cycles.

    Raises
    ------
    omkl.exceptions.InputError
        If there are no labels, or ``costs`` is not a cost matrix.

    Examples
    --------
    >>> triangle = GraphLayout(3, np.array([[0, 1], [1, 2], [2, 0]]))
    >>> unary, equal = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]]), np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> PairwiseGraph(2).decode(GraphPotentials(unary, equal, triangle))
    array([0, 0, 0])
    """

    def __init__(
        self,
        n_labels: int,
        costs: ArrayLike | None = None,
        shared: bool = False,
        allowed: np.ndarray | None = None,
        sweeps: int = 400,
    ) -> None:
        check_number("n_labels", n_labels, least=1)
        check_number("sweeps", sweeps, above=0, integer=True)
        self.n_labels, self.shared, self.allowed, self.sweeps = (
            int(n_labels),
            bool(shared),
            allowed,
            int(sweeps),
        )
        self.costs = check_costs(costs, self.n_labels)
        #: Number of labellings found in training, and of those that were proved the best.
        self.n_found = self.n_proved = 0

    @property
    def compiled(self) -> StructureFunctions | None:  # type: ignore[override]
        """See :class:`Compilable`; the compiled functions take chains only."""
        return CHAIN if self.shared and self.allowed is None else None

    def is_compiled_for(self, potentials: GraphPotentials) -> bool:
        return self.compiled is not None and potentials.layout.is_chain

    def zeros(self, size: int) -> GraphPotentials:
        return self.over(GraphLayout(size, np.zeros((0, 2), np.int64)))

    def over(self, layout: GraphLayout) -> GraphPotentials:
        """Return potentials of a graph, all zero."""
        E, K = len(layout.edges), self.n_labels
        return GraphPotentials(
            np.zeros((layout.n_nodes, K)), np.zeros((1 if self.shared else E, K, K)), layout
        )

    def solve(self, potentials: GraphPotentials) -> tuple[np.ndarray, Certificate]:
        """Return a good labelling, and its certificate; the score is -inf if no labelling was
        found.

        Parameters
        ----------
        potentials : GraphPotentials
        """
        given = self._with_single_edges(potentials)
        unary, pairwise, layout = given
        if not layout.is_forest:  # a difference of infinite messages has no value
            unary = self._finite(unary, given)
            pairwise = self._finite(pairwise, given)
        labels, bound = self._pass_messages(GraphPotentials(unary, pairwise, layout))
        score = self.score(given, labels)
        if score == -np.inf and layout.is_forest:
            bound = score
        elif score == -np.inf:
            state, _, found = allowed_labels(given)
            if state == FOUND:
                labels = found
                jit.ascend(unary, pairwise, layout.arrays, self.sweeps, PROVED, labels)
                score = self.score(given, labels)
            elif state == NONE:
                bound = score
        proved = -np.inf < score and bound - score <= PROVED * max(1.0, abs(score))
        return labels, Certificate(score, max(bound, score), bool(proved))

    def _pass_messages(self, potentials: GraphPotentials) -> tuple[np.ndarray, float]:
        """Return a labelling by message passing or a minimum cut, and an upper bound of all scores."""
        unary, pairwise, layout = potentials
        forest = layout.is_forest
        attractive = self.n_labels == 2 and not forest and bool((attraction(pairwise) >= 0.0).all())
        sweeps = min(self.sweeps, BEFORE_CUT) if attractive else self.sweeps
        labels = np.zeros(layout.n_nodes, np.int64)
        score, bound = jit.best_labelling(
            unary, pairwise, layout.arrays, forest, sweeps, PROVED, labels
        )
        if attractive and bound - score > PROVED * max(1.0, abs(score)):
            cut, highest = minimum_cut(unary, pairwise, layout.edges)
            if self.score(potentials, cut) > score:
                labels = cut
            bound = min(bound, highest)
        return labels, bound

    def _found(self, potentials: GraphPotentials) -> tuple[np.ndarray, Certificate]:
        """Solve, and count whether that was proved."""
        labels, found = self.solve(potentials)
        self.n_found, self.n_proved = self.n_found + 1, self.n_proved + found.proved
        return labels, found

    def decode(self, potentials: GraphPotentials) -> np.ndarray:
        labels, found = self._found(potentials)
        if found.score == -np.inf:
            raise InputError(NOTHING_ALLOWED if found.bound == -np.inf else NOTHING_FOUND)
        return labels

    def decode_best(
        self, potentials: GraphPotentials, n_best: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return up to ``n_best`` labellings (m, n), best first, and their scores (m,).

        They are the best ones of a forest, and good ones of other graphs. This solves n graphs for
        each labelling; see
        :func:`~omkl.structures.base.best_outputs`.

        Parameters
        ----------
        potentials : GraphPotentials
        n_best : int
        """

        def solve(allowed: np.ndarray) -> tuple[np.ndarray, float]:
            labels, found = self.solve(potentials._replace(unary=np.ascontiguousarray(allowed.T)))
            return labels, found.score

        return best_outputs(potentials.unary.T, n_best, solve)

    def loss_augmented(
        self, potentials: GraphPotentials, gold: np.ndarray, cost_weight: float = 1.0
    ) -> np.ndarray:
        return self._found(self.cost_augmented(potentials, gold, cost_weight))[0]

    def cost_potentials(self, gold: np.ndarray) -> GraphPotentials:
        """Return the cost of each label, as for a graph without edges."""
        return self.cost_augmented(self.zeros(len(gold)), gold)

    def marginals(self, potentials: GraphPotentials) -> tuple[float, GraphPotentials]:
        given = self._with_single_edges(potentials)
        unary, pairwise, layout = given
        if not layout.is_forest and not all(np.isfinite(scores).all() for scores in given[:2]):
            state, possible, _ = allowed_labels(given)
            if state == NONE:
                raise InputError(NOTHING_ALLOWED)
            unary = np.where(possible, unary, -np.inf)
        of_nodes, of_edges = np.empty(unary.shape), np.empty(pairwise.shape)
        log_partition = marginals(
            unary, pairwise, layout.arrays, layout.is_forest, layout.forests, layout.appearance,
            SUM_SWEEPS, MOVED, of_nodes, of_edges,
        )  # fmt: skip
        if log_partition == -np.inf:
            raise InputError(NOTHING_ALLOWED)
        merged = potentials.layout.merged
        if merged is not None:
            of_edges = merged.spread(of_edges)
            if self.shared:
                of_edges = of_edges.sum(axis=0, keepdims=True)
        return log_partition, GraphPotentials(of_nodes, of_edges, potentials.layout)

    def _add_indicator(
        self, potentials: GraphPotentials, labels: np.ndarray, amount: float
    ) -> None:
        jit.add_indicator(*potentials[:2], potentials.layout.edges, labels, amount)

    def score(self, potentials: GraphPotentials, output: np.ndarray) -> float:
        return jit.score_labels(*potentials[:2], potentials.layout.edges, output)

    def _with_single_edges(self, potentials: GraphPotentials) -> GraphPotentials:
        """Forbid pairs of labels that are not allowed, and sum the scores of edges with the same
        ends.
        """
        unary, pairwise, layout = potentials
        if self.allowed is not None:
            pairwise = np.where(self.allowed, pairwise, -np.inf)
        if layout.merged is not None:
            pairwise = layout.merged.sum(pairwise)
            layout = layout.merged.layout
        return GraphPotentials(unary, pairwise, layout)

    def _finite(self, scores: np.ndarray, potentials: GraphPotentials) -> np.ndarray:
        """Replace -inf by a score so low that every allowed labelling is better than every
        forbidden one.
        """
        if scores.min(initial=0.0) > -np.inf:
            return scores
        sizes = [np.where(np.isfinite(own), np.abs(own), 0.0) for own in potentials[:2]]
        repeats = len(potentials.layout.edges) / max(len(sizes[1]), 1)
        largest = (
            sizes[0].max(axis=1).sum() + repeats * sizes[1].max(axis=(1, 2), initial=0.0).sum()
        )
        return np.maximum(scores, -2.0 * largest - 1.0)


def allowed_labels(potentials: GraphPotentials) -> tuple[int, np.ndarray, np.ndarray]:
    """Search a labelling without scores of -inf; no two edges have the same ends.

    Returns
    -------
    state : {FOUND, NONE, UNKNOWN}
        UNKNOWN if the search was too long.
    possible : bool array of shape (n, K)
        Labels of each node that have a possible partner at each neighbour.
    labels : int array of shape (n,)
        The labelling; zeros if none was found.
    """
    unary, pairwise, layout = potentials
    possible = np.zeros(unary.shape, np.bool_)
    labels = np.zeros(len(unary), np.int64)
    state = find_labelling(unary, pairwise, layout.arrays, SEARCHED, possible, labels)
    return state, possible, labels


def attraction(pairwise: np.ndarray) -> np.ndarray:
    """Return by how much equal labels at the two ends of each edge score higher than different
    ones, for two labels.
    """
    return np.trace(pairwise - pairwise[:, ::-1], axis1=1, axis2=2)


def minimum_cut(
    unary: np.ndarray, pairwise: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the best labelling with two labels, up to rounding, and an upper bound of all scores.

    No edge has a negative :func:`attraction`, so that a best labelling is a minimum cut (Kolmogorov
    and Zabih 2004, *What energy functions can be minimized via graph cuts?*). Capacities are
    rounded down, so that a flow bounds cuts.
    """
    (first, second), n, nodes = edges.T, len(unary), np.arange(len(unary))
    scores = np.broadcast_to(pairwise, (len(edges), 2, 2))
    gains = unary[:, 1] - unary[:, 0] + np.bincount(first, scores[:, 1, 0] - scores[:, 0, 0], n)
    gains += np.bincount(second, scores[:, 1, 1] - scores[:, 1, 0], n)
    highest = unary[:, 0].sum() + scores[:, 0, 0].sum() + np.maximum(gains, 0.0).sum()
    links = attraction(scores)
    most = np.bincount(edges.ravel(), np.repeat(links, 2), n)  # a larger gain decides the label
    capacities = np.concatenate([links, np.clip(gains, 0.0, most), np.clip(-gains, 0.0, most)])
    unit = capacities.max() / LARGEST or 1.0
    starts, ends = (
        np.concatenate([second, np.full(n, n), nodes]),
        np.concatenate([first, nodes, np.full(n, n + 1)]),
    )
    graph = csr_array(((capacities / unit).astype(np.int32), (starts, ends)), shape=(n + 2, n + 2))
    flow = csgraph.maximum_flow(graph, n, n + 1).flow
    reached = csgraph.breadth_first_order(graph - flow, n, return_predecessors=False)
    labels = np.where(np.abs(gains) >= most, gains > 0.0, np.isin(nodes, reached))
    return labels.astype(np.int64), float(highest - unit * flow[[n]].sum())
