"""GraphLabeler, a labeler of the nodes of graphs with online multiple kernel learning."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from omkl.data.blocks import is_collection
from omkl.data.frames import column_names
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.calibration import has_marginals, structure_temperature
from omkl.estimators.explanations import Explanation
from omkl.estimators.sources import TrainingBlock, blocks_of
from omkl.estimators.token_codec import TOKEN_CONSTRAINTS
from omkl.estimators.training import Plan, RunOptions, Task
from omkl.estimators.validation import Number, OneOf, column_names_of, keep_columns
from omkl.exceptions import InputError
from omkl.features.lexicons import LexiconSource
from omkl.features.views import TokenData
from omkl.graphs.codec import GraphCodec, GraphOutputs, as_graphs, read_graphs
from omkl.graphs.decoding import decoded, explain_nodes, graph_potentials, solutions
from omkl.groups.edges import PAIRS, PairBank
from omkl.online.rounds import Record
from omkl.online.trainer import OnlineTrainer
from omkl.persistence import Manifest, Unpacker
from omkl.sequences import decoding
from omkl.sequences.evaluation import evaluate_labels
from omkl.sequences.reading import LabelSequences, training_sequences
from omkl.structures.graph import Certificate, PairwiseGraph


@dataclass(kw_only=True, eq=False, repr=False)
class GraphLabeler(OnlineEstimator):
    """Labeler of the nodes of graphs, with kernels on nodes and on edges.

    ``X`` is a list of graphs, each an :class:`omkl.data.Graph` or a graph of networkx, and ``y`` has for each graph a
    list of labels of its nodes, in their order. A label None is unknown: the model is trained on the known labels. For
    images see :func:`omkl.data.grid`; an image of labels is accepted as well.

    The nodes of a graph are like the tokens of a sequence for :class:`~omkl.SequenceLabeler`, and have the same groups.
    Features of edges score pairs of labels; their groups are called ``edge:NAME``.

    Parameters
    ----------
    kernels : list, dict or None
        Kernels on nodes, as for :class:`~omkl.SequenceLabeler`.
    edge_kernels : list, dict or None
        Kernels on edges, in the same language. None uses a linear kernel on arrays.
    pairs : {"full", "symmetric", "equal", "potts"} or None
        Weights of a feature of edges, and of edges without features: one for each ordered pair of labels, for each
        unordered pair, for each label that both ends have, or one for equal labels. None is "full" for directed edges,
        and "symmetric" for undirected ones.
    transitions : {"free", "regularized", None}
        Scores of pairs of labels that all edges share: not regularized, an additional regularized group, or none.
    allowed_pairs : dict, array of shape (K, K) or None
        Allowed labels of the two nodes of an edge, in training and prediction. A dict maps a label to the list of
        labels that the second node may have; labels that are not keys allow all.
    sweeps : int > 0
        Maximum number of sweeps of message passing over a graph with cycles.
    loss, regularizer, weighting, C, epochs, method, eta0, schedule, average, class_weight, cost, radius, shuffle, \
early_stopping, validation_fraction, n_iter_no_change, n_examples, budget, cache_size, dtype, n_jobs, lexicons, \
callbacks, verbose, random_state
        As for :class:`~omkl.SequenceLabeler`. The default loss is the hinge. On graphs with cycles, the probabilities
        of "crf" and "softmax-margin" are those of tree-reweighted belief propagation, which takes longer.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The labels.
    kernel_weights_ : dict of str to float
        The learned weight of each group, in [0, 1], summing to 1.
    history_ : list of dict
        As for :class:`~omkl.SequenceLabeler`; with the hinge, also ``proved``, the fraction of the rounds whose
        labelling was proved to be the best.
    n_iter_ : int
        Number of epochs.
    temperature_ : float or None
        As for :class:`~omkl.SequenceLabeler`.

    References
    ----------
    Kolmogorov: *Convergent tree-reweighted message passing for energy minimization* (2006). Finley, Joachims: *Training
    structural SVMs when exact inference is intractable* (2008).

    Examples
    --------
    >>> from omkl.data import Graph
    >>> X = [Graph(["yes", "no", "yes"], [(0, 1), (1, 2)]), Graph(["no", "yes"], [(0, 1)])]
    >>> labeler = GraphLabeler(random_state=0).fit(X, [["a", "b", "a"], ["b", "a"]])
    >>> labeler.predict([Graph(["no", "yes", "no"], [(0, 1), (1, 2), (2, 0)])])[0].tolist()
    ['b', 'a', 'b']
    """

    _constraints = {
        **OnlineEstimator._constraints,
        **TOKEN_CONSTRAINTS,
        "transitions": OneOf(("free", "regularized", None)),
        "pairs": OneOf((None, *PAIRS)),
        "sweeps": Number(above=0, integer=True),
        "epochs": Number(above=0, integer=True, also=("auto",)),
    }
    _plain_attributes = (*OnlineEstimator._plain_attributes, "temperature_")
    _reads = "graphs"

    kernels: Any = field(default=None, kw_only=False)
    edge_kernels: Any = field(default=None, kw_only=False)
    pairs: str | None = None
    loss: Any = "hinge"
    C: float | str = 30.0
    epochs: int | str = "auto"
    lexicons: Mapping[str, LexiconSource] | None = None
    class_weight: Any = None
    transitions: str | None = "free"
    allowed_pairs: Any = None
    cost: Any = None
    sweeps: int = 400
    budget: int | None = None
    cache_size: float = 4000
    dtype: Any = "auto"

    classes_: np.ndarray = field(init=False)
    structure_: PairwiseGraph = field(init=False)
    temperature_: float | None = field(init=False, default=None)

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: LabelSequences = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: Sequence | str | None = None,
        validation: tuple[Any, LabelSequences] | None = None,
        **run: Unpack[RunOptions],
    ) -> "GraphLabeler":
        """Train from scratch.

        Parameters
        ----------
        X : list of graphs, or stream of pairs (graph, labels)
        y : list of sequences of labels, optional
            Not for streams, which contain labels.
        sample_weight : array of shape (number of graphs,), optional
            Weight of each graph.
        classes, validation, checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

        Returns
        -------
        self
        """
        if is_collection(X, y, sample_weight):
            raise InputError("GraphLabeler takes no Dask collections: pass a list of graphs, or a stream.")
        held_out = self._train(self._graph_task(classes), TrainingBlock(X, y, sample_weight), validation, run)
        self.temperature_ = None
        if held_out is not None and not self.model_.settings.probabilistic:
            pairs = ((self.predictor_.potentials(own), gold) for own, gold, _ in held_out)
            self.temperature_ = structure_temperature(self.predictor_.structure, pairs)
        return self

    def partial_fit(
        self,
        X: Any,
        y: LabelSequences = None,
        classes: Sequence | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "GraphLabeler":
        """Train for one round on each graph, in the given order.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`. A stream is read once.
        classes : sequence of labels or "growing", optional
            As for :meth:`omkl.SequenceLabeler.partial_fit`.

        Returns
        -------
        self
        """
        self._train_more(self._graph_task(classes), TrainingBlock(X, y, sample_weight), classes)
        self.temperature_ = None
        return self

    def _graph_task(self, classes: Sequence | str | None) -> Task:
        return Task(self._codec(classes), self._read)

    def _codec(self, classes: Sequence | str | None = None) -> GraphCodec:
        chosen = self.transitions, self.pairs, self.cost, self.allowed_pairs, self.sweeps
        return GraphCodec(GraphOutputs(*chosen, classes), self, self.lexicons)

    def _read(self, block: TrainingBlock, first: bool, whole: bool = False) -> TokenData:
        if first:
            keep_columns(self, column_names(as_graphs(block.X)[0].nodes))
        data = training_sequences(block, column_names_of(self), self.class_weight, whole, read_graphs)
        return data._replace(total=len(data.layouts)) if whole else data

    def _read_known(self, block: TrainingBlock) -> TokenData:
        return read_graphs(block, column_names_of(self))

    def _plan_arrays(self, *given: Any) -> Plan:
        plan = super()._plan_arrays(*given)
        return plan._replace(companions=[*plan.companions, record_proved])

    # ---- prediction ---------------------------------------------------------------------------------------------

    def predict(self, X: Any, labels: LabelSequences = None) -> np.ndarray:
        """Predict the labels of the nodes of each graph.

        Parameters
        ----------
        X : list of graphs, or stream
        labels : list of sequences, optional
            Known labels: for each node its label, a set of possible labels, or None. Not for streams.

        Returns
        -------
        array of shape (number of graphs,), of arrays of labels
        """
        found = solutions(self.model_, X, labels, self.n_jobs)
        return np.fromiter((self.classes_[codes] for codes, _ in found), dtype=object, count=len(found))

    def certificates(self, X: Any, labels: LabelSequences = None) -> list[Certificate]:
        """Return how good the predicted labelling of each graph is.

        Parameters
        ----------
        X, labels
            As for :meth:`predict`.

        Returns
        -------
        list of omkl.structures.Certificate
            ``(score, bound, proved)``: the score of the labelling, an upper bound of the scores of all labellings, and
            whether no labelling is better.
        """
        return [found for _, found in solutions(self.model_, X, labels, self.n_jobs)]

    def decision_function(self, X: Any) -> list[np.ndarray]:
        """Compute the scores of the labels of each node, without edges.

        Parameters
        ----------
        X : list of graphs, or stream

        Returns
        -------
        list of arrays of shape (n, K)
        """
        return [potentials.unary for potentials in graph_potentials(self.model_, X)]

    @available_if(has_marginals)
    def predict_marginals(self, X: Any, labels: LabelSequences = None) -> list[np.ndarray]:
        """Predict the probability of each label at each node.

        Available for ``loss="crf"``, and for other losses after calibration; see :meth:`calibrate`. They are exact on
        forests, and approximate on graphs with cycles.

        Parameters
        ----------
        X : list of graphs, or stream
        labels : list of sequences, optional
            As for :meth:`predict`. Probabilities are conditional on these labels.

        Returns
        -------
        list of arrays of shape (n, K)
            Rows sum to 1.
        """
        potentials = graph_potentials(self.model_, X, labels)
        return decoding.label_marginals(self.model_, potentials, self.temperature_ or 1.0)

    def calibrate(self, X: Any, y: LabelSequences = None) -> "GraphLabeler":
        """Calibrate probabilities by temperature scaling on held-out graphs.

        Parameters
        ----------
        X, y
            As for :meth:`score`. Labels that are None or unknown to the model are ignored.

        Returns
        -------
        self
        """
        self.temperature_ = decoding.calibration_temperature(self.model_, X, y, read_graphs, graph_potentials)
        return self

    def explain(
        self,
        x: Any,
        *,
        labels: Collection | None = None,
        against: Collection | None = None,
        node: int | None = None,
        n: int = 20,
    ) -> Explanation:
        """Explain the labels of a graph in comparison with another labelling.

        Contributions of groups of nodes and edges sum to the difference of the two scores, the margin.

        Parameters
        ----------
        x : graph
        labels : sequence of labels, optional
            The labelling to explain; the predicted one by default.
        against : sequence of labels, optional
            The labelling to compare with; by default a good one with another label at ``node``.
        node : int, optional
            A node, counted from 0; by default the one whose own features are least certain. Not with ``against``.
        n : int > 0
            Number of the strongest features to list.

        Returns
        -------
        omkl.Explanation
            The ``token`` of a feature of edges is the number of the edge.
        """
        return explain_nodes(self.model_, x, labels, against, node, n)

    # ---- evaluation ---------------------------------------------------------------------------------------------

    def score(self, X: Any, y: LabelSequences = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the fraction of nodes with the right label, in [0, 1].

        Nodes with label None are ignored. Nodes whose label is unknown to the model count as wrong, with a warning.

        Parameters
        ----------
        X : list of graphs, or stream
        y : list of sequences of labels, optional
        sample_weight : array of shape (number of graphs,), optional
        """
        return decoding.label_accuracy(self.model_, self._compared(X, y, sample_weight))

    def evaluate(self, X: Any, y: LabelSequences = None) -> dict[str, Any]:
        """Evaluate nodes and labels.

        Parameters
        ----------
        X, y
            As for :meth:`score`.

        Returns
        -------
        dict
            ``accuracy`` of nodes, ``graph_accuracy``, the fraction of entirely correct graphs, ``nodes`` and
            ``graphs``, counts, and ``labels``, a record for each label; see :func:`omkl.evaluate_labels`.
        """
        found = evaluate_labels(*decoding.labels_by_sequence(self.model_, self._compared(X, y)))
        counts = {"graph_accuracy": found["sequence_accuracy"], "nodes": found["tokens"], "graphs": found["sequences"]}
        return {"accuracy": found["accuracy"], **counts, "labels": found["labels"]}

    def _compared(self, *given: Any) -> Iterator[tuple[TokenData, np.ndarray]]:
        return decoding.compared_labels(self.model_, blocks_of(*given), self.n_jobs, read_graphs, decoded)

    # ---- learned attributes and model files ---------------------------------------------------------------------

    @property
    def transitions_(self) -> np.ndarray:
        """Scores of pairs of labels that all edges share, in the averaged model, (K, K)."""
        tables = (bank.scores() for bank in self.predictor_.banks if isinstance(bank, PairBank))
        return next(tables, np.zeros((len(self.classes_),) * 2))

    def _saved_parameters(self) -> dict[str, Any]:
        return {**super()._saved_parameters(), "lexicons": None}  # in the codec

    def _restore(self, manifest: Manifest, unpacker: Unpacker) -> None:
        super()._restore(manifest, unpacker)
        self.lexicons = self.model_.parameters["lexicons"] = self.model_.codec.encoder.lexicons or None


def record_proved(trainer: OnlineTrainer, record: Record) -> None:
    """Record the fraction of the labellings of an epoch that were proved to be the best; a callback."""
    structure: Any = trainer.structure
    if structure.n_found:
        record["proved"] = structure.n_proved / structure.n_found
    structure.n_found = structure.n_proved = 0
