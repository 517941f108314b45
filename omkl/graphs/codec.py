"""Validation and encoding of graphs: their nodes are tokens, and so are their edges."""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from omkl._components import check_choice
from omkl._threads import in_threads
from omkl.data.graphs import Graph
from omkl.estimators.online_explanations import part_namer
from omkl.estimators.persistence import fingerprint
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.targets import Labels
from omkl.estimators.token_codec import Examples, TokenCodec, top_of_bank
from omkl.estimators.validation import check_sample_weight
from omkl.exceptions import InputError
from omkl.features.encoder import Encoder
from omkl.features.views import TokenData
from omkl.groups.base import Piece
from omkl.groups.edges import PAIRS, EdgeBank, GraphSpan, LabelPairs, PairBank
from omkl.groups.tables import ExplicitBank, TransitionBank
from omkl.groups.tokens import Tokens
from omkl.online.averaging import Predictor
from omkl.online.model import OnlineModel
from omkl.online.rounds import Example, Sequences
from omkl.online.trainer import OnlineTrainer
from omkl.persistence import Manifest, Packer, Unpacker
from omkl.sequences.reading import ChainOutputs, flat_labels, flatten, names_in
from omkl.structures.chain import allowed_transitions
from omkl.structures.graphs.layout import GraphLayout
from omkl.structures.graphs.pairwise import Certificate, GraphPotentials, PairwiseGraph

#: Prefix of the names of groups of edges, and of their arrays in model files.
EDGE, EDGES = "edge:", "edges/"
#: Name of the group of scores of pairs of labels that all edges share.
TRANSITIONS = "transitions"


# ---- reading -------------------------------------------------------------------------------------


def read_graphs(
    block: TrainingBlock, names: Sequence[str] | None, labeled: bool = True
) -> TokenData:
    """Validate and flatten graphs, and their labels and weights; ``names`` is the order of columns
    of data frames.
    """
    graphs = as_graphs(block.X)
    inputs = [graph.nodes for graph in graphs]
    names = names_in(inputs) if names is None else names
    nodes, offsets = flatten(inputs, names)
    if kinds := [i for i, graph in enumerate(graphs) if graph.directed != graphs[0].directed]:
        raise InputError(
            f"Graphs must be all directed or all undirected, but graph {kinds[0]} differs from graph 0."
        )
    lacking = [
        i for i, graph in enumerate(graphs) if len(graph.edges) and graph.edge_features is None
    ]
    given = [
        graph.edge_features
        for graph in graphs
        if len(graph.edges) and graph.edge_features is not None
    ]
    if lacking and given:
        raise InputError(f"Graph {lacking[0]} has no features of edges, but others have.")
    edges = None
    if given:
        bounds = np.cumsum([0, *(len(graph.edges) for graph in graphs)])
        try:
            edges = TokenData(flatten(given)[0], bounds, ())
        except InputError as error:
            raise InputError(f"Features of edges: {error}") from None
    labels: list = []
    if labeled:
        y = block.y
        y = (
            [own.ravel() if isinstance(own, np.ndarray) else own for own in y]
            if isinstance(y, Collection)
            else y
        )
        labels = flat_labels(y, np.diff(offsets))
    weights = check_sample_weight(block.sample_weight, len(graphs))
    layouts = [graph.layout for graph in graphs]
    return TokenData(nodes, offsets, labels, weights, names=names, edges=edges, layouts=layouts)


def as_graphs(X: object) -> list[Graph]:
    """Check a list of graphs, and convert those of networkx."""
    import networkx

    if isinstance(X, (Graph, networkx.Graph)) or not isinstance(X, Collection) or not len(X):
        raise InputError(f"X must be a list of graphs, got {X!r:.60}.")
    graphs = [
        Graph.from_networkx(graph) if isinstance(graph, networkx.Graph) else graph for graph in X
    ]
    for i, graph in enumerate(graphs):
        if not isinstance(graph, Graph):
            raise InputError(
                f"Graph {i} of X must be an omkl.data.Graph or a graph of networkx, got {graph!r:.60}."
            )
    return graphs


# ---- outputs -------------------------------------------------------------------------------------


class GraphOutputs(ChainOutputs):
    """One label for every node of a graph; see :class:`~omkl.GraphLabeler` for the parameters.

    Attributes
    ----------
    directed : bool
        Whether the order of the two nodes of an edge has a meaning; learned from the first graphs.
    shared : bool
        Whether all edges have the same scores, because they have no features.
    """

    directed, shared = False, True

    def __init__(self, labeler: Any, classes: Sequence | str | None) -> None:
        self._transitions, self._cost, self._classes = labeler.transitions, labeler.cost, classes
        self._allowed, self._sweeps = labeler.allowed_pairs, labeler.sweeps
        self._kinds: dict[str, str] = labeler.pairs if isinstance(labeler.pairs, dict) else {}
        self._kind: str | None = None if isinstance(labeler.pairs, dict) else labeler.pairs
        check_choice("pairs", self._kind, (None, *PAIRS))

    def structure(self, known: Labels) -> PairwiseGraph:  # type: ignore[override]
        """Make the structure over these labels."""
        allowed = (
            None
            if self._allowed is None
            else allowed_transitions(self._allowed, known.members).following
        )
        if allowed is not None and not self.directed and not np.array_equal(allowed, allowed.T):
            raise InputError("allowed_pairs must be symmetric, since edges are undirected.")
        return PairwiseGraph(len(known), self._cost, self.shared, allowed, self._sweeps)

    def kind(self, group: str) -> str:
        """Return the kind of the weights of pairs of labels of a group."""
        return self._kinds.get(group) or self._kind or ("full" if self.directed else "symmetric")

    def check_pairs(self, groups: Collection[str]) -> None:
        """Raise an InputError for a kind of pairs that does not fit the edges, or of a group that
        does not exist.
        """
        for group, kind in self._kinds.items():
            check_choice(
                "Keys of `pairs`",
                group,
                [*groups, *[TRANSITIONS] * (self._transitions is not None)],
            )
            check_choice(f"pairs[{group!r}]", kind, PAIRS)
        misfit, edges = ("symmetric", "directed") if self.directed else ("full", "undirected")
        if misfit in (self._kind, *self._kinds.values()):
            raise InputError(f'pairs="{misfit}" does not fit the {edges} edges of these graphs.')

    def check(self, *given: Any) -> None:
        """Accept all labels: the codec checks them, which knows the edges."""

    def _banks(self, n_labels: int, longest: int, averaging: bool) -> list:
        kind = self.kind(TRANSITIONS)
        if kind == "full" and self.shared:  # as in chains, which compiled passes know
            return [TransitionBank(n_labels, averaging=averaging)]
        return [PairBank(LabelPairs(kind, n_labels), averaging)]


def check_possible(
    structure: PairwiseGraph, possible: np.ndarray, layout: GraphLayout, graph: int
) -> None:
    """Raise an InputError if no label is possible at a node, or no pair of labels at an edge.

    ``possible`` (n, K) is a mask of the labels of each node.
    """
    nodes, where = ~possible.any(axis=1), f"of graph {graph}"
    if nodes.any():
        raise InputError(f"All labels are forbidden at node {int(np.argmax(nodes))} {where}.")
    if structure.allowed is not None and len(layout.edges):
        first, second = possible[layout.edges[:, 0]], possible[layout.edges[:, 1]]
        edges = ~((first @ structure.allowed) & second).any(axis=1)
        if edges.any():
            e = int(np.argmax(edges))
            ends = tuple(layout.edges[e].tolist())
            raise InputError(
                f"All pairs of labels are forbidden at edge {e} {where}, between the nodes {ends}."
            )


# ---- encoding ------------------------------------------------------------------------------------


class EdgeGroups(Encoder):
    """The part of an encoder of edges that belongs to some groups; features keep their ids."""

    def __init__(self, encoder: Encoder, names: Collection[str]) -> None:
        self.__dict__.update(encoder.__dict__)
        self._names = names
        self.mapped, self.dual = (
            [name for name in own if name in names] for own in (encoder.mapped, encoder.dual)
        )

    @property
    def explicit_names(self) -> list[str]:
        return [name for name in super().explicit_names if name in self._names]

    def explicit_groups(self, first: int = 0) -> np.ndarray:
        """Return the group of every explicit feature; those of other groups, which never occur, are
        in the first.
        """
        own = self.explicit_names
        places = np.array(
            [own.index(name) if name in own else 0 for name in super().explicit_names], np.int32
        )
        return places[super().explicit_groups(first)] if own else np.zeros(0, np.int32)

    def own(self, tokens: Tokens) -> Tokens:
        """Copy encoded edges with the features of these groups."""
        if tokens.features is None:
            return tokens
        chosen = np.array([name in self._names for name in super().explicit_names], bool)
        return Tokens(
            tokens.offsets, tokens.features.only(chosen[super().explicit_groups()]), tokens.views
        )


class GraphExamples(Examples):
    """Graphs with encoded nodes and edges, and weights; see
    :class:`~omkl.estimators.sources.WeightedExamples`.

    ``edges`` are those for the groups of each kind of pairs of labels.
    """

    def __init__(
        self, nodes: Examples, edges: dict[str, Tokens], layouts: Sequence[GraphLayout]
    ) -> None:
        self.__dict__.update(nodes.__dict__)  # the constructor would count the weights again
        self.edges, self.layouts = edges, layouts

    def __getitem__(self, i: int) -> Example:
        _, y, weight = super().__getitem__(i)
        return Example(self.graph(self.chosen.item(i)), y, weight)

    def sequences(self) -> Sequences | None:  # type: ignore[override]
        """Return the arrays of all examples if they are chains."""
        return super().sequences() if all(layout.is_chain for layout in self.layouts) else None

    def graph(self, s: int) -> GraphSpan:
        """Return an encoded graph."""
        edges, offsets = (
            {kind: own.sequence(s) for kind, own in self.edges.items()},
            self.tokens.offsets,
        )
        return GraphSpan(self.tokens, offsets.item(s), offsets.item(s + 1), edges, self.layouts[s])

    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> "GraphExamples":
        edges = {kind: own.only(inputs) for kind, own in self.edges.items()}
        return GraphExamples(
            super()._cut(inputs, chosen), edges, [self.layouts[s] for s in inputs.tolist()]
        )


class GraphCodec(TokenCodec):
    """Encodes graphs and the labels of their nodes; see
    :class:`~omkl.sequences.decoding.ChainCodec`.

    Attributes
    ----------
    edges : Encoder or None
        Encoder of edges; None if they have no features.
    """

    element = "node"
    read = staticmethod(read_graphs)
    edges: Encoder | None = None
    structure: PairwiseGraph
    _outputs: GraphOutputs

    def __init__(self, outputs: GraphOutputs, estimator: Any, lexicons: Any) -> None:
        super().__init__(outputs, estimator, lexicons)
        self._edge_kernels = estimator.edge_kernels

    def start(self, data: TokenData) -> Examples:
        self._outputs.shared, self._outputs.directed = data.edges is None, data.layouts[0].directed
        kernels = self._edge_kernels
        if data.edges is not None:
            if kernels is None and not isinstance(data.edges.inputs, list):
                kernels = ["linear"]
            self.edges = Encoder(kernels, in_sequences=True).fit(
                data.edges._replace(total=data.total)
            )
        elif kernels is not None:
            raise InputError("edge_kernels must be None for graphs whose edges have no features.")
        examples = super().start(data)
        self._outputs.check_pairs(self._edge_groups)
        return examples

    def encode_known(
        self, data: TokenData, grow: bool = False, follow: bool = False
    ) -> GraphExamples:
        self.check_edges(data)
        examples = super().encode_known(data, grow, follow)
        self.check_labels(examples.gold, data)
        return self._with_edges(examples, data, grow)

    def encode(self, data: TokenData, trainer: OnlineTrainer) -> GraphExamples:
        self.check_edges(data)
        if self.edges is not None and data.edges is not None:
            trainer.check_new_groups(EDGE + key for key in self.edges.new_keys(data.edges.inputs))
        examples = super().encode(data, trainer)
        self.check_labels(examples.gold, data)
        try:
            return self._with_edges(examples, data, grow=True)
        finally:
            by_kind = self._edges_by_kind()
            for bank in trainer.banks:
                if isinstance(bank, EdgeBank):
                    self._grow_bank(trainer, bank.bank, by_kind[bank.pairs.kind], EDGE)

    def spans(self, data: TokenData) -> list[GraphSpan]:
        """Encode graphs for prediction."""
        self.check_edges(data)
        tokens = self.encoder.encode(data.inputs, data.offsets)
        nodes = Examples(tokens, np.zeros(0, np.int64), np.arange(len(tokens)), None, single=False)
        examples = self._with_edges(nodes, data, grow=False)
        return [examples.graph(s) for s in range(len(tokens))]

    def check_edges(self, data: TokenData) -> None:
        """Raise an InputError if edges are not of the kind of the first graphs."""
        if data.layouts[0].directed != self._outputs.directed:
            kind = "directed" if self._outputs.directed else "undirected"
            raise InputError(f"The model has learned from {kind} graphs, and these are not.")
        n_edges = sum(len(layout.edges) for layout in data.layouts)
        if n_edges and (data.edges is None) != (self.edges is None):
            learned, found = ("no ", "some") if self.edges is None else ("", "none")
            raise InputError(
                f"The model has learned from edges with {learned}features, got {found}."
            )

    def _with_edges(self, examples: Examples, data: TokenData, grow: bool) -> GraphExamples:
        by_kind = {}
        if self.edges is not None and data.edges is not None:
            try:
                edges = self.edges.encode(data.edges.inputs, data.edges.offsets, grow)
            except InputError as error:
                raise InputError(f"Features of edges: {error}") from None
            by_kind = {kind: own.own(edges) for kind, own in self._edges_by_kind().items()}
        return GraphExamples(examples, by_kind, data.layouts)

    def check_labels(self, labels: np.ndarray, data: TokenData) -> None:
        """Raise an InputError if allowed pairs forbid the labels of neighbours."""
        structure = self.structure
        if structure.allowed is not None:
            possible = (labels[:, None] < 0) | (labels[:, None] == np.arange(structure.n_labels))
            for s, (low, high) in enumerate(pairwise(data.offsets.tolist())):
                check_possible(structure, possible[low:high], data.layouts[s], s)

    def facts(self, examples: GraphExamples) -> dict[str, Any]:  # type: ignore[override]
        found = [*(layout.edges for layout in examples.layouts)]
        for own in examples.edges.values():
            found += [*(own.features or ()), *own.views.values()]
        return {**super().facts(examples), "edges": fingerprint(found)}

    # ---- prediction ------------------------------------------------------------------------------

    def input(self, data: TokenData) -> GraphSpan:
        """Encode a single graph."""
        return self.spans(data)[0]

    def potentials(
        self, model: OnlineModel[Any], data: TokenData, possible: np.ndarray | None = None
    ) -> Iterator[GraphPotentials]:
        """Yield the potentials of each graph; ``possible`` (N, K) is a mask of the possible labels
        of all nodes.
        """
        predictor = model.predictor()
        return (self._within(predictor, s, x, possible) for s, x in enumerate(self.spans(data)))

    def _within(
        self, predictor: Predictor, s: int, x: GraphSpan, possible: np.ndarray | None
    ) -> GraphPotentials:
        potentials = predictor.potentials(x)
        if possible is None:
            return potentials
        own = possible[x.low : x.high]
        check_possible(self.structure, own, x.layout, s)
        return self.structure.agreeing(potentials, own)

    def solutions(
        self,
        model: OnlineModel[Any],
        data: TokenData,
        possible: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> list[tuple[np.ndarray, Certificate]]:
        """Return the codes of the labels of each graph, and their certificates."""
        predictor = model.predictor()

        def solved(given: tuple[int, GraphSpan]) -> tuple[np.ndarray, Certificate]:
            codes, found = self.structure.solve(self._within(predictor, *given, possible))
            if found.score == -np.inf:
                raise InputError(self._no_labelling(given[0], found))
            return codes, found

        return in_threads(solved, enumerate(self.spans(data)), n_jobs)

    @staticmethod
    def _no_labelling(graph: int, certificate: Certificate) -> str:
        """Return the message for a graph for which no labelling was found."""
        conditions = "that allowed_pairs and the given labels allow"
        if certificate.bound == -np.inf:
            return f"Graph {graph} has no labelling {conditions}."
        return f"The search found no labelling of graph {graph} {conditions}, although there may be one."

    def decode(
        self,
        model: OnlineModel[Any],
        data: TokenData,
        possible: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        """Return the codes of the labels of all nodes."""
        return np.concatenate([codes for codes, _ in self.solutions(model, data, possible, n_jobs)])

    def other_labels(
        self, x: GraphSpan, potentials: GraphPotentials, chosen: np.ndarray, at: int | None
    ) -> np.ndarray:
        """Return a good labelling with another label at a node, by default the one with the least
        certain label.
        """
        if at is None:
            others = np.where(
                np.arange(self.structure.n_labels) == chosen[:, None], -np.inf, potentials.unary
            )
            at = int(
                np.argmax(others.max(axis=1) - potentials.unary[np.arange(len(chosen)), chosen])
            )
        possible = np.ones(potentials.unary.shape, dtype=bool)
        possible[at, chosen[at]] = False
        check_possible(self.structure, possible, x.layout, 0)
        return self.structure.decode(self.structure.agreeing(potentials, possible))

    def namer(self) -> Callable[[list[Piece]], list[str]]:
        """Make a function that names the pieces of nodes and edges."""
        of_nodes = part_namer(self.encoder, self.known.members)
        of_edges = of_nodes if self.edges is None else part_namer(self.edges, self.known.members)
        return lambda pieces: [
            (of_edges if piece.group.startswith(EDGE) else of_nodes)([piece])[0] for piece in pieces
        ]

    # ---- banks -----------------------------------------------------------------------------------

    @property
    def _edge_groups(self) -> list[str]:
        """Names of the groups of edges."""
        if self.edges is None:
            return []
        keys = [] if self.edges.vocabulary is None else self.edges.vocabulary.keys
        return [EDGE + name for name in [*self.edges.kernels, *keys]]

    @property
    def order(self) -> list[str]:
        return [*super().order, *self._edge_groups]

    def _edges_by_kind(self) -> dict[str, EdgeGroups]:
        """Return the groups of edges of each kind of pairs of labels, also of the kind of new
        groups.
        """
        names: dict[str, list[str]] = {self._outputs.kind(""): []}
        for group in self._edge_groups:
            names.setdefault(self._outputs.kind(group), []).append(group.removeprefix(EDGE))
        return (
            {}
            if self.edges is None
            else {kind: EdgeGroups(self.edges, own) for kind, own in names.items()}
        )

    def banks(
        self, averaging: bool, training: Any = None, in_shards: bool = False
    ) -> tuple[list[Any], list[Any]]:
        regularized, free = super().banks(averaging, training, in_shards)
        cached = training is not None and not in_shards and self._cache_size > 0
        of_edges = []
        for kind, encoder in self._edges_by_kind().items():
            tokens, pairs = (
                training.edges[kind] if cached else None,
                LabelPairs(kind, self.structure.n_labels),
            )
            own = self._banks_of(encoder, tokens, pairs.n_weights, averaging, EDGE)
            of_edges += [EdgeBank(bank, pairs) for bank in own]
        of_nodes = [bank for bank in regularized if not isinstance(bank, PairBank)]
        return [*of_nodes, *of_edges, *regularized[len(of_nodes) :]], free

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[dict[str, Any]]:
        banks = [
            bank
            for bank in predictor.banks
            if isinstance(bank, EdgeBank) and isinstance(bank.bank, ExplicitBank)
        ]
        banks = [bank for bank in banks if group is None or group in bank.names]
        found = super().top_features(predictor, n, group) if group is None or not banks else []
        encoder: Any = self.edges
        for bank in banks:
            pairs, members = bank.pairs, self.known.members
            named = [{"label": "equal labels"}] * pairs.n_weights
            for first, second in (
                [] if pairs.kind == "potts" else np.argwhere(pairs.index >= 0)[::-1].tolist()
            ):
                named[pairs.index[first, second]] = {
                    "label": f"{members[first]} → {members[second]}"
                }
            found += top_of_bank(bank.bank, encoder, named, n, group)
        return sorted(found, key=lambda record: -abs(record["weight"]))[:n]

    # ---- model files -----------------------------------------------------------------------------

    def before_block(self) -> dict[str, np.ndarray]:
        edges = {} if self.edges is None else self.edges.arrays(before=True)
        return {**super().before_block(), **{EDGES + name: array for name, array in edges.items()}}

    def pack(
        self, packer: Packer, condensed: dict[str, np.ndarray] | None = None
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        values, arrays = super().pack(packer, condensed)
        values = {**values, "directed": self._outputs.directed, "edges": None}
        if self.edges is not None:
            own = Packer()
            values["edges"] = self.edges.pack(own)
            packer.arrays.update({EDGES + name: array for name, array in own.arrays.items()})
        return values, arrays

    def unpack(self, values: Manifest, arrays: dict[str, np.ndarray], unpacker: Unpacker) -> None:
        self._outputs.directed, self._outputs.shared = values["directed"], values["edges"] is None
        super().unpack(values, arrays, unpacker)
        if values["edges"] is not None:
            own = {
                name.removeprefix(EDGES): array
                for name, array in arrays.items()
                if name.startswith(EDGES)
            }
            self.edges = Encoder.unpack(
                values["edges"], Unpacker(own, unpacker.parts), in_sequences=True
            )
