"""Validation and encoding of graphs: their nodes are tokens, and so are their edges."""

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_choice
from omkl._threads import in_threads
from omkl.data.blocks import Names
from omkl.data.graphs import Graph
from omkl.estimators.explanations import Namer
from omkl.estimators.online_explanations import piece_namer
from omkl.estimators.persistence import fingerprint
from omkl.estimators.sources import ExamplesLike, TrainingBlock
from omkl.estimators.targets import Classes, Labels
from omkl.estimators.token_codec import EncodedGroups, Examples, top_of_bank
from omkl.estimators.validation import check_sample_weight
from omkl.exceptions import InputError
from omkl.features.encoder import Encoder
from omkl.features.views import TokenData
from omkl.graphs.edges import Edges
from omkl.groups.base import Piece
from omkl.groups.edges import PAIRS, EdgeBank, GraphSpan, LabelPairs, PairBank
from omkl.groups.tables import ExplicitBank, TransitionBank
from omkl.groups.tokens import Tokens
from omkl.online.averaging import Predictor
from omkl.online.model import OnlineModel
from omkl.online.rounds import Example, Record, Sequences, State, Values, below
from omkl.online.trainer import OnlineTrainer
from omkl.persistence import Arrays, Packer, Unpacker
from omkl.sequences.labeling import LabelCodec
from omkl.sequences.reading import ChainOutputs, LabelSequences, flat_labels, flatten, names_in
from omkl.sequences.transitions import Transitions
from omkl.structures.base import Structure
from omkl.structures.chain import allowed_transitions
from omkl.structures.graphs.layout import GraphLayout
from omkl.structures.graphs.pairwise import Certificate, GraphPotentials, PairwiseGraph

#: Prefix of the names of groups of edges.
EDGE = "edge:"
#: Prefix of the arrays of edges in model files.
EDGES = "edges/"
#: Name of the group of scores of pairs of labels that all edges share.
TRANSITIONS = "transitions"


# ---- reading -------------------------------------------------------------------------------------


def read_graphs(block: TrainingBlock, names: Names, labeled: bool = True) -> TokenData:
    """Validate and flatten graphs, and their labels and weights.

    ``names`` is the order of the columns of data frames; None takes that of the first graph.
    """
    graphs = as_graphs(block.X)
    nodes_of_graphs = [graph.nodes for graph in graphs]
    if names is None:
        names = names_in(nodes_of_graphs)
    nodes, offsets = flatten(nodes_of_graphs, names)
    for i, graph in enumerate(graphs):
        if graph.directed != graphs[0].directed:
            raise InputError(
                "Graphs must be all directed or all undirected, "
                f"but graph {i} differs from graph 0."
            )
    edges = _read_edges(graphs)
    labels = _read_labels(block.y, np.diff(offsets)) if labeled else []
    weights = check_sample_weight(block.sample_weight, len(graphs))
    layouts = [graph.layout for graph in graphs]
    return TokenData(nodes, offsets, labels, weights, names=names, edges=edges, layouts=layouts)


def _read_edges(graphs: Sequence[Graph]) -> TokenData | None:
    """Validate and flatten the features of all edges; None if edges have no features."""
    features: list[Any] = []
    without_features = []
    for i, graph in enumerate(graphs):
        if not len(graph.edges):
            continue
        if graph.edge_features is None:
            without_features.append(i)
        else:
            features.append(graph.edge_features)
    if not features:
        return None
    if without_features:
        raise InputError(f"Graph {without_features[0]} has no features of edges, but others have.")
    offsets = np.cumsum([0, *(len(graph.edges) for graph in graphs)])
    try:
        edges, _ = flatten(features)
    except InputError as error:
        raise InputError(f"Features of edges: {error}") from None
    return TokenData(edges, offsets, ())


def _read_labels(y: LabelSequences, n_nodes: np.ndarray) -> list:
    """Flatten the labels of all nodes, also of images; ``n_nodes`` is (number of graphs,)."""
    if isinstance(y, Collection):
        y = [labels.ravel() if isinstance(labels, np.ndarray) else labels for labels in y]
    return flat_labels(y, n_nodes)


def as_graphs(X: ExamplesLike) -> list[Graph]:
    """Check a list of graphs, and convert those of networkx."""
    import networkx

    if isinstance(X, (Graph, networkx.Graph)) or not isinstance(X, Collection) or not len(X):
        raise InputError(f"X must be a list of graphs, got {X!r:.60}.")
    graphs = []
    for i, graph in enumerate(X):
        if isinstance(graph, networkx.Graph):
            graph = Graph.from_networkx(graph)
        if not isinstance(graph, Graph):
            raise InputError(
                f"Graph {i} of X must be an omkl.data.Graph or a graph of networkx, "
                f"got {graph!r:.60}."
            )
        graphs.append(graph)
    return graphs


# ---- outputs -------------------------------------------------------------------------------------


class EdgeForm(NamedTuple):
    """Form of the edges of the graphs that a model learns from.

    Attributes
    ----------
    directed : bool
        Whether the order of the two nodes of an edge has a meaning.
    shared : bool
        Whether all edges have the same scores, because they have no features.
    """

    directed: bool
    shared: bool


class GraphOutputs(ChainOutputs):
    """One label for every node of a graph; see :class:`~omkl.GraphLabeler` for the parameters.

    Attributes
    ----------
    edges : Edges
        The user's settings.
    form : EdgeForm
        Before the first graphs are known, that of undirected edges without features.
    """

    def __init__(self, edges: Edges, cost: ArrayLike | None, classes: Classes) -> None:
        super().__init__(Transitions(edges.transitions, allowed=edges.allowed), cost, classes)
        self.edges = edges
        self.form = EdgeForm(directed=False, shared=True)

    def of_form(self, form: EdgeForm) -> "GraphOutputs":
        """Return these outputs for graphs with edges of this form."""
        outputs = copy(self)
        outputs.form = form
        return outputs

    def structure(self, codes: Labels) -> PairwiseGraph:  # type: ignore[override]
        """Make the structure over these labels."""
        allowed = None
        if self._allowed is not None:
            allowed = allowed_transitions(self._allowed, codes.labels).following
            if not self.form.directed and not np.array_equal(allowed, allowed.T):
                raise InputError("The allowed pairs must be symmetric, since edges are undirected.")
        return PairwiseGraph(len(codes), self._cost, self.form.shared, allowed, self.edges.sweeps)

    def kind(self, group: str) -> str:
        """Return the kind of the weights of pairs of labels of a group."""
        kind = self.edges.pairs
        if isinstance(kind, dict):
            kind = kind.get(group)
        automatic = "full" if self.form.directed else "symmetric"
        return kind or automatic

    def check_pairs(self, groups: Collection[str]) -> None:
        """Raise an InputError for a kind of pairs that does not fit the edges.

        Also for the kind of a group that does not exist.
        """
        groups_with_pairs = list(groups)
        if self._transitions is not None:
            groups_with_pairs.append(TRANSITIONS)
        kinds: Collection = [self.edges.pairs]
        if isinstance(self.edges.pairs, dict):
            kinds = self.edges.pairs.values()
            for group, kind in self.edges.pairs.items():
                check_choice("Keys of `pairs`", group, groups_with_pairs)
                check_choice(f"pairs[{group!r}]", kind, PAIRS)
        misfit = "symmetric" if self.form.directed else "full"
        edges = "directed" if self.form.directed else "undirected"
        if misfit in kinds:
            raise InputError(f'pairs="{misfit}" does not fit the {edges} edges of these graphs.')

    def check(
        self, structure: Structure, codes: Labels, gold: np.ndarray, offsets: np.ndarray
    ) -> None:
        """Accept all labels: the codec checks them, which knows the edges."""

    def _banks(self, n_labels: int, longest: int, averaging: bool) -> list:
        kind = self.kind(TRANSITIONS)
        if kind == "full" and self.form.shared:  # as in chains, which compiled passes know
            return [TransitionBank(n_labels, averaging=averaging)]
        return [PairBank(LabelPairs(kind, n_labels), averaging)]


def check_possible(
    structure: PairwiseGraph, possible: np.ndarray, layout: GraphLayout, graph: int
) -> None:
    """Raise an InputError if no label is possible at a node, or no pair of labels at an edge.

    ``possible`` (n, K) is a mask of the labels of each node; ``graph`` is the number of the graph.
    """
    is_blocked_node = ~possible.any(axis=1)
    if is_blocked_node.any():
        node = int(np.argmax(is_blocked_node))
        raise InputError(f"All labels are forbidden at node {node} of graph {graph}.")
    if structure.allowed is None or not len(layout.edges):
        return
    possible_first = possible[layout.edges[:, 0]]
    possible_second = possible[layout.edges[:, 1]]
    allowed_second = possible_first @ structure.allowed
    is_blocked_edge = ~(allowed_second & possible_second).any(axis=1)
    if is_blocked_edge.any():
        edge = int(np.argmax(is_blocked_edge))
        ends = tuple(layout.edges[edge].tolist())
        raise InputError(
            f"All pairs of labels are forbidden at edge {edge} of graph {graph}, "
            f"between the nodes {ends}."
        )


# ---- encoding ------------------------------------------------------------------------------------


class GraphExamples(Examples):
    """Graphs with encoded nodes and edges, and weights.

    See :class:`~omkl.estimators.sources.WeightedExamples` for ``chosen`` and ``weights``.

    Attributes
    ----------
    tokens : Tokens
        Nodes of all graphs.
    gold : int array of shape (number of nodes,)
    edges : dict of str to Tokens
        For each kind of pairs of labels, the edges of all graphs, with the features of its groups.
    layouts : sequence of GraphLayout
    """

    def __init__(
        self,
        tokens: Tokens,
        gold: np.ndarray,
        chosen: np.ndarray,
        weights: np.ndarray | None,
        edges: dict[str, Tokens],
        layouts: Sequence[GraphLayout],
    ) -> None:
        super().__init__(tokens, gold, chosen, weights, single=False)
        self.edges = edges
        self.layouts = layouts

    def __getitem__(self, i: int) -> Example:
        example = super().__getitem__(i)
        return example._replace(x=self.graph(self.chosen.item(i)))

    @property
    def are_sequences(self) -> bool:  # type: ignore[override]
        """True if a graph has an edge; without any, there are no features that some banks read."""
        return any(len(layout.edges) for layout in self.layouts)

    def sequences(self, order: np.ndarray) -> Sequences:
        return super().sequences(order)._replace(layouts=self.layouts, edges=self.edges)

    def graph(self, s: int) -> GraphSpan:
        """Return an encoded graph."""
        edges = {kind: tokens.sequence(s) for kind, tokens in self.edges.items()}
        low = self.tokens.offsets.item(s)
        high = self.tokens.offsets.item(s + 1)
        return GraphSpan(self.tokens, low, high, edges, self.layouts[s])

    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> "GraphExamples":
        nodes = super()._cut(inputs, chosen)
        edges = {kind: tokens.only(inputs) for kind, tokens in self.edges.items()}
        layouts = [self.layouts[s] for s in inputs.tolist()]
        return GraphExamples(nodes.tokens, nodes.gold, chosen, None, edges, layouts)


class GraphCodec(LabelCodec[GraphSpan]):
    """Codec of graphs and the labels of their nodes.

    See :class:`~omkl.sequences.labeling.LabelCodec`.

    Attributes
    ----------
    edges : Encoder or None
        Encoder of edges; None if they have no features.
    """

    element = "node"
    structure: PairwiseGraph
    read = staticmethod(read_graphs)
    edges: Encoder | None = None
    _outputs: GraphOutputs

    def start(self, data: TokenData) -> Examples:
        form = EdgeForm(directed=data.layouts[0].directed, shared=data.edges is None)
        self._outputs = self._outputs.of_form(form)
        kernels = self._outputs.edges.kernels
        if data.edges is not None:
            if kernels is None and not isinstance(data.edges.inputs, list):
                kernels = ["linear"]
            edges = data.edges._replace(total=data.total)
            self.edges = Encoder(kernels, in_sequences=True).fit(edges)
        elif kernels is not None:
            raise InputError("Edges without features have no kernels: set them to None.")
        examples = super().start(data)
        self._outputs.check_pairs(self._edge_groups)
        return examples

    def encode_for_evaluation(
        self, data: TokenData, grow: bool = False, follow: bool = False
    ) -> GraphExamples:
        self.check_edges(data)
        nodes = super().encode_for_evaluation(data, grow, follow)
        self.check_labels(nodes.gold, data)
        return self._with_edges(nodes, data, grow)

    def encode(self, data: TokenData, trainer: OnlineTrainer) -> GraphExamples:
        self.check_edges(data)
        if self.edges is not None and data.edges is not None:
            trainer.check_new_groups(EDGE + key for key in self.edges.new_keys(data.edges.inputs))
        nodes = super().encode(data, trainer)
        self.check_labels(nodes.gold, data)
        try:
            return self._with_edges(nodes, data, grow=True)
        finally:
            groups_of_kind = self._edge_groups_by_kind()
            for bank in trainer.banks:
                if isinstance(bank, EdgeBank):
                    self._grow_bank(trainer, bank.bank, groups_of_kind[bank.pairs.kind])

    def encode_graphs(self, data: TokenData) -> list[GraphSpan]:
        """Encode graphs for prediction."""
        self.check_edges(data)
        tokens = self.encoder.encode(data.inputs, data.offsets)
        no_gold = np.zeros(0, np.int64)
        nodes = Examples(tokens, no_gold, np.arange(len(tokens)), None, single=False)
        graphs = self._with_edges(nodes, data, grow=False)
        return [graphs.graph(s) for s in range(len(tokens))]

    def check_edges(self, data: TokenData) -> None:
        """Raise an InputError if edges are not of the kind of the first graphs."""
        directed = self._outputs.form.directed
        if data.layouts[0].directed != directed:
            kind = "directed" if directed else "undirected"
            raise InputError(f"The model has learned from {kind} graphs, and these are not.")
        n_edges = sum(len(layout.edges) for layout in data.layouts)
        if not n_edges or (data.edges is None) == (self.edges is None):
            return
        if self.edges is None:
            raise InputError("The model has learned from edges with no features, got some.")
        raise InputError("The model has learned from edges with features, got none.")

    def _with_edges(self, nodes: Examples, data: TokenData, grow: bool) -> GraphExamples:
        """Encode the edges of graphs, and return them with their encoded nodes."""
        edges_of_kind = {}
        if self.edges is not None and data.edges is not None:
            try:
                edges = self.edges.encode(data.edges.inputs, data.edges.offsets, grow)
            except InputError as error:
                raise InputError(f"Features of edges: {error}") from None
            for kind, groups in self._edge_groups_by_kind().items():
                edges_of_kind[kind] = groups.tokens_of(edges)
        return GraphExamples(
            nodes.tokens,
            nodes.gold,
            np.arange(nodes.n_inputs),
            nodes.input_weights,
            edges_of_kind,
            data.layouts,
        )

    def check_labels(self, labels: np.ndarray, data: TokenData) -> None:
        structure = self.structure
        if structure.allowed is None:
            return
        is_unknown = labels[:, None] < 0
        possible = is_unknown | (labels[:, None] == np.arange(structure.n_labels))
        for s, (low, high) in enumerate(pairwise(data.offsets.tolist())):
            check_possible(structure, possible[low:high], data.layouts[s], s)

    def facts(self, examples: GraphExamples) -> Values:  # type: ignore[override]
        arrays = [layout.edges for layout in examples.layouts]
        for edges in examples.edges.values():
            if edges.features is not None:
                arrays += edges.features
            arrays += edges.views.values()
        return {**super().facts(examples), "edges": fingerprint(arrays)}

    # ---- prediction ------------------------------------------------------------------------------

    def encode_input(self, data: TokenData) -> GraphSpan:
        return self.encode_graphs(data)[0]

    def potentials(
        self, model: OnlineModel[Any], data: TokenData, possible: np.ndarray | None = None
    ) -> Iterator[GraphPotentials]:
        predictor = model.predictor()
        for s, x in enumerate(self.encode_graphs(data)):
            yield self._constrained_potentials(predictor, s, x, possible)

    def _constrained_potentials(
        self, predictor: Predictor, s: int, x: GraphSpan, possible: np.ndarray | None
    ) -> GraphPotentials:
        """Return potentials of graph s that forbid labels that are not ``possible`` (N, K)."""
        potentials = predictor.potentials(x)
        if possible is None:
            return potentials
        possible_in_graph = possible[x.low : x.high]
        check_possible(self.structure, possible_in_graph, x.layout, s)
        return self.structure.agreeing(potentials, possible_in_graph)

    def solutions(
        self,
        model: OnlineModel[Any],
        data: TokenData,
        possible: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> list[tuple[np.ndarray, Certificate]]:
        """Return the codes of the labels of each graph, and their certificates."""
        predictor = model.predictor()

        def solve(numbered: tuple[int, GraphSpan]) -> tuple[np.ndarray, Certificate]:
            s, x = numbered
            potentials = self._constrained_potentials(predictor, s, x, possible)
            codes, certificate = self.structure.solve(potentials)
            if certificate.score == -np.inf:
                raise InputError(_no_labelling(s, certificate))
            return codes, certificate

        return in_threads(solve, enumerate(self.encode_graphs(data)), n_jobs)

    def decode(
        self,
        model: OnlineModel[Any],
        data: TokenData,
        possible: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        return np.concatenate([codes for codes, _ in self.solutions(model, data, possible, n_jobs)])

    def other_labels(
        self, x: GraphSpan, potentials: GraphPotentials, chosen: np.ndarray, at: int | None
    ) -> np.ndarray:
        """Return a good labelling with another label at a node.

        By default, this is the node with the least certain label.
        """
        unary = potentials.unary
        if at is None:
            is_chosen = np.arange(self.structure.n_labels) == chosen[:, None]
            best_others = np.where(is_chosen, -np.inf, unary).max(axis=1)
            at = int(np.argmax(best_others - unary[np.arange(len(chosen)), chosen]))
        possible = np.ones(unary.shape, dtype=bool)
        possible[at, chosen[at]] = False
        check_possible(self.structure, possible, x.layout, 0)
        return self.structure.decode(self.structure.agreeing(potentials, possible))

    def namer(self) -> Namer:
        name_nodes = piece_namer(self.encoder, self.codes.labels)
        if self.edges is None:
            return name_nodes
        name_edges = piece_namer(self.edges, self.codes.labels)

        def name_pieces(pieces: list[Piece]) -> list[str]:
            names = []
            for piece in pieces:
                name = name_edges if piece.group.startswith(EDGE) else name_nodes
                names += name([piece])
            return names

        return name_pieces

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

    def _edge_groups_by_kind(self) -> dict[str, EncodedGroups]:
        """Return the groups of edges of each kind of pairs of labels.

        The kind of new groups is there in any case.
        """
        if self.edges is None:
            return {}
        kind_of_new_groups = self._outputs.kind("")
        names: dict[str, list[str]] = {kind_of_new_groups: []}
        for group in self._edge_groups:
            names.setdefault(self._outputs.kind(group), []).append(group.removeprefix(EDGE))
        groups_of_kind = {}
        for kind, names_of_kind in names.items():
            groups_of_kind[kind] = EncodedGroups(self.edges, names_of_kind, EDGE)
        return groups_of_kind

    def banks(
        self, averaging: bool, training: Examples | None = None, in_shards: bool = False
    ) -> tuple[list[Any], list[Any]]:
        regularized, free = super().banks(averaging, training, in_shards)
        banks_of_edges = []
        for kind, groups in self._edge_groups_by_kind().items():
            pairs = LabelPairs(kind, self.structure.n_labels)
            tokens = None
            if isinstance(training, GraphExamples) and self._caches_kernels(in_shards):
                tokens = training.edges[kind]
            for bank in self._banks_of(groups, tokens, pairs.n_weights, averaging):
                banks_of_edges.append(EdgeBank(bank, pairs))
        banks_of_nodes = [bank for bank in regularized if not isinstance(bank, PairBank)]
        banks_of_pairs = regularized[len(banks_of_nodes) :]
        return [*banks_of_nodes, *banks_of_edges, *banks_of_pairs], free

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[Record]:
        banks_of_edges = []
        for bank in predictor.banks:
            has_features = isinstance(bank, EdgeBank) and isinstance(bank.bank, ExplicitBank)
            if has_features and (group is None or group in bank.names):
                banks_of_edges.append(bank)
        records = []
        if group is None or not banks_of_edges:
            records = super().top_features(predictor, n, group)
        encoder: Any = self.edges
        for bank in banks_of_edges:
            records += top_of_bank(bank.bank, encoder, self._pair_columns(bank.pairs), n, group)
        return sorted(records, key=lambda record: -abs(record["weight"]))[:n]

    def _pair_columns(self, pairs: LabelPairs) -> list[Record]:
        """Return the label of each weight of a feature of edges, as a dict."""
        columns = [{"label": "equal labels"}] * pairs.n_weights
        if pairs.kind == "potts":
            return columns
        labels = self.codes.labels
        # backwards: of two ordered pairs with the same weight, the first names it
        for first, second in np.argwhere(pairs.index >= 0)[::-1].tolist():
            name = f"{labels[first]} → {labels[second]}"
            columns[pairs.index[first, second]] = {"label": name}
        return columns

    # ---- model files -----------------------------------------------------------------------------

    def before_block(self) -> Arrays:
        arrays = dict(super().before_block())
        if self.edges is not None:
            for name, array in self.edges.arrays(before=True).items():
                arrays[EDGES + name] = array
        return arrays

    def pack(self, packer: Packer, condensed: Arrays | None = None) -> State:
        values, arrays = super().pack(packer, condensed)
        values = {**values, "directed": self._outputs.form.directed, "edges": None}
        if self.edges is not None:
            packer_of_edges = Packer()
            values["edges"] = self.edges.pack(packer_of_edges)
            for name, array in packer_of_edges.arrays.items():
                packer.arrays[EDGES + name] = array
        return values, arrays

    def unpack(self, values: Values, arrays: Arrays, unpacker: Unpacker) -> None:
        form = EdgeForm(directed=values["directed"], shared=values["edges"] is None)
        self._outputs = self._outputs.of_form(form)
        super().unpack(values, arrays, unpacker)
        if values["edges"] is None:
            return
        unpacker_of_edges = Unpacker(below(arrays, EDGES), unpacker.parts)
        self.edges = Encoder.unpack(values["edges"], unpacker_of_edges, in_sequences=True)


def _no_labelling(graph: int, certificate: Certificate) -> str:
    """Return the message for a graph for which no labelling was found."""
    conditions = "that the allowed pairs and the given labels allow"
    if certificate.bound == -np.inf:
        return f"Graph {graph} has no labelling {conditions}."
    return (
        f"The search found no labelling of graph {graph} {conditions}, although there may be one."
    )
