"""Groups of edges of graphs: any bank of tokens, whose outputs are pairs of labels, scores edges."""

from copy import copy
from typing import Any

import numpy as np

from omkl.groups import _jit_edges as jit
from omkl.groups.base import Bank, GuidedInput
from omkl.groups.tables import DenseBank
from omkl.groups.tokens import Span, Tokens
from omkl.structures.base import Potentials
from omkl.structures.graphs.layout import GraphLayout
from omkl.structures.graphs.pairwise import GraphPotentials
from omkl.structures.multiclass import UnaryPotentials

#: Kinds of pairs of labels.
PAIRS = "full", "symmetric", "equal", "potts"


class LabelPairs:
    """The weights that score pairs of K labels.

    Parameters
    ----------
    kind : {"full", "symmetric", "equal", "potts"}
        One weight for each ordered pair, for each unordered pair, for each label at both ends, or
        for equal labels.
    n_labels : int

    Attributes
    ----------
    index : int array of shape (K, K)
        Weight of each pair, -1 for none. Weights of more labels come after those of fewer labels.
    n_weights : int
    """

    def __init__(self, kind: str, n_labels: int) -> None:
        self.kind = kind
        first, second = np.indices((n_labels, n_labels))
        most, least, equal = np.maximum(first, second), np.minimum(first, second), first == second
        self.index = {
            "full": most * most + np.where(first == most, second, most + 1 + first),
            "symmetric": most * (most + 1) // 2 + least,
            "equal": np.where(equal, first, -1),
            "potts": np.where(equal, 0, -1),
        }[kind]
        self.n_weights = int(self.index.max()) + 1

    def sums(self, gradient: np.ndarray) -> np.ndarray:
        """Sum a gradient (E, K, K) over the pairs that share a weight, (E, number of weights)."""
        found = np.zeros((len(gradient), self.n_weights))
        jit.sum_pairs(gradient, self.index, found)
        return found


class GraphSpan(Span, GuidedInput):
    """A graph: its nodes are tokens, and so are its edges, if they have features.

    Parameters
    ----------
    tokens, low, high
        The nodes, as in :class:`~omkl.groups.tokens.Span`.
    edges : dict of str to Span
        The edges for the groups of each kind of pairs of labels; may be empty.
    layout : GraphLayout
    """

    __slots__ = ("edges", "layout")

    def __init__(
        self, tokens: Tokens, low: int, high: int, edges: dict[str, Span], layout: GraphLayout
    ) -> None:
        super().__init__(tokens, low, high)
        self.edges, self.layout = edges, layout

    def initial_potentials(self, structure: Any) -> GraphPotentials:
        return structure.over(self.layout)


def _attribute(name: str) -> Any:
    """Return a property that is an attribute of the inner bank."""
    return property(
        lambda self: getattr(self.bank, name), lambda self, value: setattr(self.bank, name, value)
    )


def _method(name: str) -> Any:
    """Return a method that calls one of the inner bank."""
    return lambda self, *given: getattr(self.bank, name)(*given)


class EdgeBank(Bank):
    """A bank of tokens that are edges, and whose outputs are weights of pairs of labels; adds to
    ``pairwise``.

    Parameters
    ----------
    bank : Bank, or its averaged form
        It has one output for each weight of ``pairs``.
    pairs : LabelPairs
    """

    def __init__(self, bank: Any, pairs: LabelPairs) -> None:
        self.bank, self.pairs = bank, pairs

    names, averaging, abilities, nbytes = map(
        _attribute, ("names", "averaging", "abilities", "nbytes")
    )
    group_state = _attribute("group_state")
    group_nbytes, recompute_norms, forget_input = map(
        _method, ("group_nbytes", "recompute_norms", "forget_input")
    )
    state, load_state, condensed = map(_method, ("state", "load_state", "condensed"))
    restart, discount, mix, _scale_group = map(
        _method, ("restart", "discount", "mix", "_scale_group")
    )
    coordinates, shrink_coordinates = map(_method, ("coordinates", "shrink_coordinates"))

    def edges_of(self, x: GraphSpan) -> Span | None:
        """Return the edges of a graph with the features of these groups, if it has edges."""
        return x.edges.get(self.pairs.kind) or None

    def own(self, gradient: GraphPotentials) -> UnaryPotentials:
        """Return the gradient in the potentials of the bank."""
        return UnaryPotentials(self.pairs.sums(gradient.pairwise))

    def add_potentials(self, x: GraphSpan, potentials: GraphPotentials) -> None:
        if (edges := self.edges_of(x)) is not None:
            own = np.zeros((len(edges), self.pairs.n_weights))
            self.bank.add_potentials(edges, UnaryPotentials(own))
            jit.add_pairs(own, 1.0, self.pairs.index, potentials.pairwise)

    def step(self, x: GraphSpan, gradient: GraphPotentials) -> None:
        if (edges := self.edges_of(x)) is None:
            self.group_state.square_gradients[:] = 0.0
        else:
            self.bank.step(edges, self.own(gradient))

    def apply_events(self, x: GraphSpan, gradient: GraphPotentials | None) -> None:
        edges = self.edges_of(x) if gradient is not None else None
        self.bank.apply_events(
            edges, self.own(gradient) if gradient is not None and edges is not None else None
        )

    def inner_products(
        self, x: GraphSpan, gradient: GraphPotentials, totals: np.ndarray | None
    ) -> np.ndarray:
        if (edges := self.edges_of(x)) is None:
            return np.zeros(len(self.names))
        own = self.own(gradient)
        return self.bank.inner_products(edges, own, np.zeros((len(self.names), own.unary.shape[1])))

    def grow_outputs(self, n_outputs: int) -> None:
        self.pairs = LabelPairs(self.pairs.kind, n_outputs)
        self.bank.grow_outputs(self.pairs.n_weights)

    def __copy__(self) -> "EdgeBank":
        return EdgeBank(copy(self.bank), self.pairs)

    def averaged(self) -> "EdgeBank":
        return EdgeBank(self.bank.averaged(), self.pairs)

    def release(self) -> "EdgeBank":
        return EdgeBank(self.bank.release(), self.pairs)


class PairBank(DenseBank):
    """Scores of pairs of labels that all edges share; adds to ``pairwise``.

    Parameters
    ----------
    pairs : LabelPairs
    averaging : bool
        Whether to keep the averaged parameters.
    name : str
    """

    def __init__(
        self, pairs: LabelPairs, averaging: bool = False, name: str = "transitions"
    ) -> None:
        super().__init__(name, (1, 1, pairs.n_weights), averaging)
        self.pairs = pairs

    def add_potentials(self, x: GraphSpan, potentials: GraphPotentials) -> None:
        scale = self.group_state.scales[0]
        if scale != 0.0:
            jit.add_pairs(self.table[0], scale, self.pairs.index, potentials.pairwise)

    def _own(self, gradient: Potentials) -> np.ndarray:
        return self.pairs.sums(gradient.pairwise).sum(axis=0)[None, None]

    def grow_outputs(self, n_outputs: int) -> None:
        self.pairs = LabelPairs(self.pairs.kind, n_outputs)
        super().grow_outputs(self.pairs.n_weights)

    def scores(self) -> np.ndarray:
        """Return the averaged scores of pairs of labels, (K, K)."""
        table = self.averaged_table()[0, 0]
        return np.where(self.pairs.index < 0, 0.0, table[self.pairs.index])
