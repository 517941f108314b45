"""Groups of edges of graphs: banks of tokens whose outputs are weights of pairs of labels."""

from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar

import numpy as np

from omkl import signatures
from omkl._pointers import Layout, Packed
from omkl.groups import _jit_edges as jit
from omkl.groups._jit_dense import fold
from omkl.groups.base import Bank, CompiledBank, FrozenGroups, GuidedInput
from omkl.groups.tables import CompiledDenseBank
from omkl.groups.tokens import Span, Tokens
from omkl.signatures import BankFunctions
from omkl.structures.graphs.layout import GraphLayout
from omkl.structures.graphs.pairwise import GraphPotentials, PairwiseGraph
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
        larger = np.maximum(first, second)
        # pairs are in the order of their larger label, so that new labels append weights
        if kind == "full":
            self.index = larger * larger + np.where(first == larger, second, larger + 1 + first)
        elif kind == "symmetric":
            self.index = larger * (larger + 1) // 2 + np.minimum(first, second)
        elif kind == "equal":
            self.index = np.where(first == second, first, jit.NO_WEIGHT)
        else:
            self.index = np.where(first == second, 0, jit.NO_WEIGHT)
        self.n_weights = int(self.index.max()) + 1

    def sums(self, gradient: np.ndarray) -> np.ndarray:
        """Sum a gradient (E, K, K) over the pairs that share a weight, (E, number of weights)."""
        sums = np.zeros((len(gradient), self.n_weights))
        jit.sum_pairs(gradient, self.index, sums)
        return sums


class GraphSpan(Span, GuidedInput[PairwiseGraph]):
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
        self.edges = edges
        self.layout = layout

    def initial_potentials(self, structure: PairwiseGraph) -> GraphPotentials:
        return structure.over(self.layout)


def _attribute(name: str) -> Any:
    """Return a property that is an attribute of the bank of an :class:`EdgeBank`."""
    return property(
        lambda edge_bank: getattr(edge_bank.bank, name),
        lambda edge_bank, value: setattr(edge_bank.bank, name, value),
    )


def _method(name: str) -> Any:
    """Return a method that calls that of the bank of an :class:`EdgeBank`."""
    return lambda edge_bank, *arguments: getattr(edge_bank.bank, name)(*arguments)


class EdgeBank(CompiledBank):
    """A bank of tokens that are edges, and whose outputs are weights of pairs of labels.

    It adds to ``potentials.pairwise``.

    Parameters
    ----------
    bank : Bank, or its averaged form
        It has one output for each weight of ``pairs``.
    pairs : LabelPairs
    """

    functions = BankFunctions(
        scores=jit.add_scores_of_edges,
        average=jit.add_average_of_edges,
        step=jit.step_edges,
        fold=jit.fold_edges,
        slopes=jit.slopes_of_edges,
    )
    layout = jit.EDGES

    def __init__(self, bank: Bank | FrozenGroups, pairs: LabelPairs) -> None:
        self.bank: Any = bank
        self.pairs = pairs

    @property
    def compiled(self) -> BankFunctions | None:
        """See :class:`Compilable`; those of the inner bank are called."""
        is_compiled = isinstance(self.bank, CompiledBank) and self.bank.compiled is not None
        return self.functions if is_compiled else None

    @property
    def kind_of_edges(self) -> str:  # type: ignore[override]
        """Kind of pairs of labels whose edges this bank reads."""
        return self.pairs.kind

    def arrays(self) -> jit.Edges:
        return jit.Edges(
            bank=self.bank.packed().address,
            groups=self.bank.group_state.address,
            **signatures.addresses_of(self.bank.compiled),
            n_groups=len(self.names),
            n_weights=self.pairs.n_weights,
            weight_of=self.pairs.index,
        )

    def input_of(self, x: GraphSpan) -> tuple[Packed, int]:
        return self.bank.input_of(x.edges[self.pairs.kind])

    def inputs_of(self, tokens: Tokens, chosen: np.ndarray) -> tuple[Packed, bool]:
        """Return the arrays of the inputs of many rounds; see :meth:`CompiledBank.inputs_of`.

        Parameters
        ----------
        tokens : Tokens
            Edges, of the kind :attr:`kind_of_edges`.
        chosen : int array
        """
        return self.bank.inputs_of(tokens, chosen)

    def end_pass(self) -> None:
        self.bank.end_pass()

    names = _attribute("names")
    averaging = _attribute("averaging")
    abilities = _attribute("abilities")
    nbytes = _attribute("nbytes")
    rows_at_once = _attribute("rows_at_once")
    group_state = _attribute("group_state")
    group_nbytes = _method("group_nbytes")
    recompute_norms = _method("recompute_norms")
    forget_input = _method("forget_input")
    state = _method("state")
    load_state = _method("load_state")
    condensed = _method("condensed")
    restart = _method("restart")
    discount = _method("discount")
    mix = _method("mix")
    coordinates = _method("coordinates")
    shrink_coordinates = _method("shrink_coordinates")
    _scale_group = _method("_scale_group")

    def edges_of(self, x: GraphSpan) -> Span | None:
        """Return the edges of a graph with the features of these groups, if it has edges."""
        return x.edges.get(self.pairs.kind) or None

    def gradient_of_weights(self, gradient: GraphPotentials) -> UnaryPotentials:
        """Return the gradient in the potentials of the bank."""
        return UnaryPotentials(self.pairs.sums(gradient.pairwise))

    def add_potentials(self, x: GraphSpan, potentials: GraphPotentials) -> None:
        self._add(self.bank.add_potentials, x, potentials)

    def add_averaged_potentials(self, x: GraphSpan, potentials: GraphPotentials) -> None:
        self._add(self.bank.add_averaged_potentials, x, potentials)

    def add_both(self, x: GraphSpan, potentials: GraphPotentials, average: GraphPotentials) -> None:
        self._add(self.bank.add_both, x, potentials, average)

    def _add(self, method: Callable[..., None], x: GraphSpan, *potentials: GraphPotentials) -> None:
        """Call a method of the inner bank, and add the scores that it computes to ``pairwise``.

        The inner bank scores each weight of an edge, (E, n_weights); pairs of labels share weights.
        """
        edges = self.edges_of(x)
        if edges is None:
            return
        scores = []
        for _ in potentials:
            scores.append(UnaryPotentials(np.zeros((len(edges), self.pairs.n_weights))))
        method(edges, *scores)
        for scores_of_weights, potentials_of_pairs in zip(scores, potentials):
            jit.add_pairs(scores_of_weights.unary, self.pairs.index, potentials_of_pairs.pairwise)

    def step(self, x: GraphSpan, gradient: GraphPotentials) -> None:
        edges = self.edges_of(x)
        if edges is None:
            self.group_state.square_gradients[:] = 0.0
        else:
            self.bank.step(edges, self.gradient_of_weights(gradient))

    def apply_events(self, x: GraphSpan, gradient: GraphPotentials | None) -> None:
        edges = self.edges_of(x) if gradient is not None else None
        if gradient is None or edges is None:
            self.bank.apply_events(None, None)
        else:
            self.bank.apply_events(edges, self.gradient_of_weights(gradient))

    def inner_products(
        self, x: GraphSpan, gradient: GraphPotentials, totals: np.ndarray | None
    ) -> np.ndarray:
        n_groups = len(self.names)
        edges = self.edges_of(x)
        if edges is None:
            return np.zeros(n_groups)
        # totals are those of nodes
        totals_of_weights = np.zeros((n_groups, self.pairs.n_weights))
        gradient_of_weights = self.gradient_of_weights(gradient)
        return self.bank.inner_products(edges, gradient_of_weights, totals_of_weights)

    def grow_outputs(self, n_outputs: int) -> None:
        self.pairs = LabelPairs(self.pairs.kind, n_outputs)
        self.bank.grow_outputs(self.pairs.n_weights)

    def __copy__(self) -> "EdgeBank":
        return EdgeBank(copy(self.bank), self.pairs)

    def averaged(self) -> "EdgeBank":
        return EdgeBank(self.bank.averaged(), self.pairs)

    def release(self) -> "EdgeBank":
        return EdgeBank(self.bank.release(), self.pairs)


class PairBank(CompiledDenseBank):
    """Scores of pairs of labels that all edges share; adds to ``pairwise``.

    Parameters
    ----------
    pairs : LabelPairs
    averaging : bool
        Whether to keep the averaged parameters.
    """

    functions = BankFunctions(
        scores=jit.add_shared_pairs,
        average=jit.add_averaged_pairs,
        step=jit.step_shared_pairs,
        fold=fold,
        slopes=jit.slopes_of_shared_pairs,
    )
    layout: ClassVar[Layout] = jit.PAIRS
    compiled = property(lambda self: self.functions)

    def __init__(self, pairs: LabelPairs, averaging: bool = False) -> None:
        super().__init__("transitions", (1, 1, pairs.n_weights), averaging)
        self.pairs = pairs

    def arrays(self) -> jit.Pairs:  # type: ignore[override]
        return jit.Pairs(self.table, self._sums, self.group_state.address, self.pairs.index)

    def grow_outputs(self, n_outputs: int) -> None:
        self.pairs = LabelPairs(self.pairs.kind, n_outputs)
        super().grow_outputs(self.pairs.n_weights)

    def scores(self) -> np.ndarray:
        """Return the averaged scores of pairs of labels, (K, K)."""
        table = self.averaged_table()[0, 0]
        return np.where(self.pairs.index < 0, 0.0, table[self.pairs.index])
