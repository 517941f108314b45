"""Groups of edges of graphs: any bank of tokens, whose outputs are pairs of labels, scores edges."""

from copy import copy
from typing import Any

import numpy as np

from omkl import signatures
from omkl._pointers import Packed
from omkl.groups import _jit_edges as jit
from omkl.groups._jit_dense import fold
from omkl.groups.base import CompiledBank, GuidedInput
from omkl.groups.tables import CompiledDenseBank
from omkl.groups.tokens import Span, Tokens
from omkl.signatures import BankFunctions
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
        sums = np.zeros((len(gradient), self.n_weights))
        jit.sum_pairs(gradient, self.index, sums)
        return sums


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


class EdgeBank(CompiledBank):
    """A bank of tokens that are edges, and whose outputs are weights of pairs of labels; adds to
    ``pairwise``.

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

    def __init__(self, bank: Any, pairs: LabelPairs) -> None:
        self.bank, self.pairs = bank, pairs

    @property
    def compiled(self) -> BankFunctions | None:  # type: ignore[override]
        """See :class:`Compilable`; those of the inner bank are called."""
        is_compiled = isinstance(self.bank, CompiledBank) and self.bank.compiled is not None
        return self.functions if is_compiled else None

    @property
    def kind_of_edges(self) -> str:
        """Kind of pairs of labels whose edges this bank reads."""
        return self.pairs.kind

    def arrays(self) -> jit.Edges:
        functions = self.bank.compiled
        return jit.Edges(
            bank=self.bank.packed().address,
            groups=self.bank.group_state.address,
            scores=signatures.SCORES.address_of(functions.scores),
            average=signatures.AVERAGE.address_of(functions.average),
            step=signatures.STEP.address_of(functions.step),
            fold=signatures.FOLD.address_of(functions.fold),
            slopes=signatures.SLOPES.address_of(functions.slopes),
            n_groups=len(self.names),
            n_weights=self.pairs.n_weights,
            index=self.pairs.index,
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

    names, averaging, abilities, nbytes, rows_at_once = map(
        _attribute, ("names", "averaging", "abilities", "nbytes", "rows_at_once")
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
        edges = self.edges_of(x)
        if edges is not None:
            scores = self._zeros(edges)
            self.bank.add_potentials(edges, scores)
            self._add(scores, potentials)

    def add_averaged_potentials(self, x: GraphSpan, potentials: GraphPotentials) -> None:
        edges = self.edges_of(x)
        if edges is not None:
            scores = self._zeros(edges)
            self.bank.add_averaged_potentials(edges, scores)
            self._add(scores, potentials)

    def add_both(self, x: GraphSpan, potentials: GraphPotentials, average: GraphPotentials) -> None:
        edges = self.edges_of(x)
        if edges is not None:
            scores = self._zeros(edges)
            averaged_scores = self._zeros(edges)
            self.bank.add_both(edges, scores, averaged_scores)
            self._add(scores, potentials)
            self._add(averaged_scores, average)

    def _zeros(self, edges: Span) -> UnaryPotentials:
        """Return potentials of the inner bank for edges, all zero."""
        return UnaryPotentials(np.zeros((len(edges), self.pairs.n_weights)))

    def _add(self, scores: UnaryPotentials, potentials: GraphPotentials) -> None:
        """Add the potentials of the inner bank to those of pairs of labels."""
        jit.add_pairs(scores.unary, 1.0, self.pairs.index, potentials.pairwise)

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


class PairBank(CompiledDenseBank):
    """Scores of pairs of labels that all edges share; adds to ``pairwise``.

    Parameters
    ----------
    pairs : LabelPairs
    averaging : bool
        Whether to keep the averaged parameters.
    name : str
    """

    functions = BankFunctions(
        scores=jit.add_shared_pairs,
        average=jit.add_averaged_pairs,
        step=jit.step_shared_pairs,
        fold=fold,
        slopes=jit.slopes_of_shared_pairs,
    )
    layout = jit.PAIRS
    compiled = property(lambda self: self.functions)

    def __init__(
        self, pairs: LabelPairs, averaging: bool = False, name: str = "transitions"
    ) -> None:
        super().__init__(name, (1, 1, pairs.n_weights), averaging)
        self.pairs = pairs

    def arrays(self) -> jit.Pairs:  # type: ignore[override]
        return jit.Pairs(self.table, self._sums, self.group_state.address, self.pairs.index)

    def _own(self, gradient: Potentials) -> np.ndarray:
        return self.pairs.sums(gradient.pairwise).sum(axis=0)[None, None]

    def grow_outputs(self, n_outputs: int) -> None:
        self.pairs = LabelPairs(self.pairs.kind, n_outputs)
        super().grow_outputs(self.pairs.n_weights)

    def scores(self) -> np.ndarray:
        """Return the averaged scores of pairs of labels, (K, K)."""
        table = self.averaged_table()[0, 0]
        return np.where(self.pairs.index < 0, 0.0, table[self.pairs.index])
