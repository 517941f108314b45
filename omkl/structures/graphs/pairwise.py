"""Pairwise models on graphs: the best labelling with a certificate, and marginals."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number
from omkl._pointers import Packed
from omkl.exceptions import InputError
from omkl.signatures import MARGINALS, StructureFunctions
from omkl.structures._jit_chain import CHAIN
from omkl.structures.base import Labelling, PackedStructure, best_outputs
from omkl.structures.chain import NOTHING_ALLOWED
from omkl.structures.graphs import _jit_graph as jit
from omkl.structures.graphs._jit_cut import minimum_cut
from omkl.structures.graphs._jit_labellings import (
    add_indicator,
    ascend,
    best_labelling,
    score_labels,
)
from omkl.structures.graphs._jit_marginals import marginals
from omkl.structures.graphs._jit_search import FOUND, NONE, find_labelling
from omkl.structures.graphs.layout import GraphLayout

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
    >>> unary = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
    >>> equal = np.array([[[1.0, 0.0], [0.0, 1.0]]])
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
        super().__init__(n_labels, costs)
        check_number("sweeps", sweeps, above=0, integer=True)
        self.shared = bool(shared)
        self.allowed = allowed
        self.sweeps = int(sweeps)
        #: Numbers of labellings sought in training, and of those that were proved the best.
        self.counts = np.zeros(jit.N_COUNTS, dtype=np.int64)

    @property
    def compiled(self) -> StructureFunctions | None:  # type: ignore[override]
        """See :class:`Compilable`; only without constraints on pairs."""
        if self.allowed is None:
            return jit.GRAPHS
        return None

    def packed(self, with_marginals: bool, layout: GraphLayout | None = None) -> PackedStructure:
        if layout is None or (self.shared and self.allowed is None and layout.is_chain):
            return PackedStructure(CHAIN, with_marginals, self.arrays())
        arrays = self._arrays_for(layout, with_marginals)
        return PackedStructure(jit.GRAPHS, with_marginals, arrays)

    def _arrays_for(self, layout: GraphLayout, with_marginals: bool) -> Packed:
        """Return the arrays for the compiled functions of a graph; hold both while in use."""
        arrays = jit.GraphStructure(
            costs=self.costs,
            graph=layout.packed(with_forests=with_marginals).address,
            sweeps=self.sweeps,
            counts=self.counts,
            search=jit.SEARCH.address_of(best_labelling),
            cut=jit.CUT.address_of(minimum_cut),
            sum=MARGINALS.address_of(marginals),
        )
        return jit.STRUCTURE_OF_GRAPH.pack(arrays)

    def n_pairs(self, layout: GraphLayout | None = None) -> int:
        if self.shared:
            return 1
        if layout is None:
            return 0
        return len(layout.edges)

    def zeros(self, size: int) -> GraphPotentials:
        return self.over(GraphLayout(size, np.zeros((0, 2), np.int64)))

    def over(self, layout: GraphLayout) -> GraphPotentials:
        """Return potentials of a graph, all zero."""
        return GraphPotentials(
            unary=np.zeros((layout.n_nodes, self.n_labels)),
            pairwise=np.zeros((self.n_pairs(layout), self.n_labels, self.n_labels)),
            layout=layout,
        )

    def solve(self, potentials: GraphPotentials) -> tuple[np.ndarray, Certificate]:
        """Return a good labelling, and its certificate, whose score is -inf if none was found.

        Parameters
        ----------
        potentials : GraphPotentials
        """
        single = self._with_single_edges(potentials)
        layout = single.layout
        labels = np.empty(layout.n_nodes, np.int64)
        arrays = self._arrays_for(layout, with_marginals=False)
        score, bound = jit.solve(arrays.address, single.unary, single.pairwise, labels)
        if score == -np.inf:
            state = NONE
            if not layout.is_forest:
                state, _, allowed_labelling = allowed_labels(single)
            if state == FOUND:
                labels = allowed_labelling
                score = self._ascend_from(labels, single)
            elif state == NONE:
                bound = score
        certificate = Certificate(
            score=score, bound=max(bound, score), proved=jit.is_proved(score, bound)
        )
        return labels, certificate

    def _ascend_from(self, labels: np.ndarray, potentials: GraphPotentials) -> float:
        """Improve an allowed labelling in place, where -inf forbids parts; return its score."""
        unary, pairwise, layout = potentials
        lowest = jit.lowest_score(unary, pairwise, len(layout.edges))
        scores = np.maximum(unary, lowest)
        pairs = np.maximum(pairwise, lowest)
        ascend(scores, pairs, layout.arrays, self.sweeps, jit.PROOF_TOLERANCE, labels)
        return score_labels(unary, pairwise, layout.edges, labels)

    def _solve_and_count(self, potentials: GraphPotentials) -> tuple[np.ndarray, Certificate]:
        """Solve, and count whether the labelling was proved the best."""
        labels, certificate = self.solve(potentials)
        self.counts[jit.SOUGHT] += 1
        self.counts[jit.PROVED_BEST] += certificate.proved
        return labels, certificate

    def decode(self, potentials: GraphPotentials) -> np.ndarray:
        labels, certificate = self._solve_and_count(potentials)
        if certificate.score == -np.inf:
            if certificate.bound == -np.inf:
                raise InputError(NOTHING_ALLOWED)
            raise InputError(NOTHING_FOUND)
        return labels

    def decode_best(
        self, potentials: GraphPotentials, n_best: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return up to ``n_best`` labellings (m, n), best first, and their scores (m,).

        They are the best ones of a forest, and good ones of other graphs. This solves n graphs for
        each labelling; see :func:`~omkl.structures.base.best_outputs`.

        Parameters
        ----------
        potentials : GraphPotentials
        n_best : int
        """

        def solve(allowed: np.ndarray) -> tuple[np.ndarray, float]:
            labels, certificate = self.solve(potentials._replace(unary=allowed.T))
            return labels, certificate.score

        return best_outputs(potentials.unary.T, n_best, solve)

    def loss_augmented(
        self, potentials: GraphPotentials, gold: np.ndarray, cost_weight: float = 1.0
    ) -> np.ndarray:
        augmented = self.cost_augmented(potentials, gold, cost_weight)
        labels, _ = self._solve_and_count(augmented)
        return labels

    def marginals(self, potentials: GraphPotentials) -> tuple[float, GraphPotentials]:
        unary, pairwise, layout = self._within_allowed(potentials)
        is_finite = np.isfinite(unary).all() and np.isfinite(pairwise).all()
        if not layout.is_forest and not is_finite:
            state, possible, _ = allowed_labels(self._with_single_edges(potentials))
            if state == NONE:
                raise InputError(NOTHING_ALLOWED)
            unary = np.where(possible, unary, -np.inf)
        node_marginals = np.empty(unary.shape)
        pair_marginals = np.empty(potentials.pairwise.shape)
        arrays = self._arrays_for(layout, with_marginals=True)
        log_partition = jit.marginals_of_graph(
            arrays.address, unary, pairwise, node_marginals, pair_marginals
        )
        if np.isnan(log_partition):
            raise InputError(NOTHING_ALLOWED)
        return log_partition, GraphPotentials(node_marginals, pair_marginals, layout)

    def _add_indicator(
        self, potentials: GraphPotentials, labels: np.ndarray, amount: float
    ) -> None:
        unary, pairwise, layout = potentials
        add_indicator(unary, pairwise, layout.edges, labels, amount)

    def _score(self, potentials: GraphPotentials, labels: np.ndarray) -> float:
        unary, pairwise, layout = potentials
        return score_labels(unary, pairwise, layout.edges, labels)

    def _within_allowed(self, potentials: GraphPotentials) -> GraphPotentials:
        """Forbid pairs of labels that are not allowed."""
        unary, pairwise, layout = potentials
        if self.allowed is not None:
            pairwise = np.where(self.allowed, pairwise, -np.inf)
        return GraphPotentials(
            unary=np.ascontiguousarray(unary),
            pairwise=np.ascontiguousarray(pairwise),
            layout=layout,
        )

    def _with_single_edges(self, potentials: GraphPotentials) -> GraphPotentials:
        """Forbid pairs that are not allowed, and sum the scores of edges with the same ends."""
        unary, pairwise, layout = self._within_allowed(potentials)
        merged = layout.merged
        if merged is None:
            return GraphPotentials(unary, pairwise, layout)
        n_single = len(merged.layout.edges)
        sums = jit.sum_parallel_edges(pairwise, merged.single_edge_of, merged.reverse, n_single)
        return GraphPotentials(unary, sums, merged.layout)


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
