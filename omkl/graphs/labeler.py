"""GraphLabeler, a labeler of the nodes of graphs with online multiple kernel learning."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omkl.data.graphs import Graph
from omkl.estimators.explanations import Explanation
from omkl.estimators.sources import ExamplesLike, TrainingBlock
from omkl.estimators.targets import Classes
from omkl.features.views import TokenData
from omkl.graphs.codec import GraphCodec, GraphOutputs
from omkl.graphs.edges import Edges
from omkl.groups.edges import PairBank
from omkl.groups.tables import TransitionBank
from omkl.online.rounds import Record
from omkl.online.trainer import OnlineTrainer
from omkl.sequences.evaluation import evaluate_labels
from omkl.sequences.labeler import Labeler
from omkl.sequences.labeling import constrained_inputs
from omkl.sequences.reading import LabelSequences
from omkl.structures.graphs.pairwise import Certificate, PairwiseGraph


def record_proved(trainer: OnlineTrainer, record: Record) -> None:
    """Record the fraction of the labellings of some rounds that were proved to be the best."""
    structure: Any = trainer.structure
    n_sought, n_proved = structure.counts.tolist()
    if n_sought:
        # not in shards, which label with copies, nor for chains, whose labellings are the best
        record["proved"] = n_proved / n_sought
    structure.counts[:] = 0


@dataclass(kw_only=True, eq=False, repr=False)
class GraphLabeler(Labeler[GraphCodec]):
    """Labeler of the nodes of graphs, with kernels on nodes and on edges.

    ``X`` is a list of graphs, each an :class:`omkl.data.Graph` or a graph of networkx, and ``y``
    has for each graph a list of labels of its nodes, in their order. A label None is unknown: the
    model is trained on the known labels. For images see :func:`omkl.data.grid`; an image of labels
    is accepted as well.

    The nodes of a graph are like the tokens of a sequence for :class:`~omkl.SequenceLabeler`, and
    have the same groups. Features of edges score pairs of labels; their groups are called
    ``edge:NAME``.

    Parameters
    ----------
    kernels : list, dict or None
        Kernels on nodes, as for :class:`~omkl.SequenceLabeler`.
    edges : Edges, or list, dict or None
        Kernels on edges, in the same language, or :class:`~omkl.Edges`, which also say which pairs
        of labels are allowed and share weights.
    loss, regularizer, weighting, C, epochs, method, learning_rate, average, class_weight, cost, \
radius, early_stopping, budget, n_jobs, lexicons, callbacks, verbose, random_state
        As for :class:`~omkl.SequenceLabeler`. The default loss is the hinge. On graphs with cycles,
        the probabilities of "crf" and "softmax-margin" are those of tree-reweighted belief
        propagation, which takes longer.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The labels.
    kernel_weights_ : dict of str to float
        The learned weight of each group, in [0, 1], summing to 1.
    history_ : list of dict
        As for :class:`~omkl.SequenceLabeler`; also ``proved``, the fraction of the best labellings
        sought that were proved to be the best: for the losses "hinge" and "perceptron", early
        stopping, and the error in streams. Labellings of chains that share their scores of edges
        are always the best, and are not counted.
    n_iter_ : int
        Number of epochs.
    temperature_ : float or None
        As for :class:`~omkl.SequenceLabeler`.

    References
    ----------
    Kolmogorov: *Convergent tree-reweighted message passing for energy minimization* (2006). Finley,
    Joachims: *Training structural SVMs when exact inference is intractable* (2008).

    Examples
    --------
    >>> from omkl.data import Graph
    >>> X = [Graph(["yes", "no", "yes"], [(0, 1), (1, 2)]), Graph(["no", "yes"], [(0, 1)])]
    >>> labeler = GraphLabeler(random_state=0).fit(X, [["a", "b", "a"], ["b", "a"]])
    >>> labeler.predict([Graph(["no", "yes", "no"], [(0, 1), (1, 2), (2, 0)])])[0].tolist()
    ['b', 'a', 'b']
    """

    example_kind = "graphs"
    _codec_class = GraphCodec
    _recorders = (record_proved,)

    edges: Any = field(default=None, kw_only=False)

    structure_: PairwiseGraph = field(init=False)

    def _codec(self, classes: Classes = None) -> GraphCodec:
        edges = Edges.of("edges", self.edges)
        return GraphCodec(GraphOutputs(edges, self.cost, classes), self, self.lexicons)

    def _read(self, block: TrainingBlock, first: bool, is_all_data: bool = False) -> TokenData:
        data = super()._read(block, first, is_all_data)
        return data._replace(total=len(data.layouts)) if is_all_data else data

    def certificates(self, X: ExamplesLike, labels: LabelSequences = None) -> list[Certificate]:
        """Return how good the predicted labelling of each graph is.

        Parameters
        ----------
        X, labels
            As for :meth:`predict`.

        Returns
        -------
        list of omkl.structures.Certificate
            ``(score, bound, proved)``: the score of the labelling, an upper bound of the scores of
            all labellings, and whether no labelling is better.
        """
        model = self.model_
        certificates = []
        for data, possible in constrained_inputs(model, X, labels):
            for _, certificate in model.codec.solutions(model, data, possible, self.n_jobs):
                certificates.append(certificate)
        return certificates

    def explain(
        self,
        x: Collection | Graph,
        *,
        labels: Collection | None = None,
        against: Collection | None = None,
        node: int | None = None,
        n: int = 20,
    ) -> Explanation:
        """Explain the labels of a graph in comparison with another labelling.

        Contributions of groups of nodes and edges sum to the difference of the two scores, the
        margin.

        Parameters
        ----------
        x : graph
        labels : sequence of labels, optional
            The labelling to explain; the predicted one by default.
        against : sequence of labels, optional
            The labelling to compare with; by default a good one with another label at ``node``.
        node : int, optional
            A node, counted from 0; by default the one whose own features are least certain. Not
            with ``against``.
        n : int > 0
            Number of the strongest features to list.

        Returns
        -------
        omkl.Explanation
            The ``token`` of a feature of edges is the number of the edge.
        """
        return self._explain(x, labels, against, node, n)

    def evaluate(self, X: ExamplesLike, y: LabelSequences = None) -> dict[str, Any]:
        """Evaluate nodes and labels.

        Parameters
        ----------
        X, y
            As for :meth:`score`.

        Returns
        -------
        dict
            ``accuracy`` of nodes, ``graph_accuracy``, the fraction of entirely correct graphs,
            ``nodes`` and ``graphs``, counts, and ``labels``, a record for each label; see
            :func:`omkl.evaluate_labels`.
        """
        gold, predicted = self._gold_and_predicted(X, y)
        scores = evaluate_labels(gold, predicted)
        return {
            "accuracy": scores["accuracy"],
            "graph_accuracy": scores["sequence_accuracy"],
            "nodes": scores["tokens"],
            "graphs": scores["sequences"],
            "labels": scores["labels"],
        }

    @property
    def transitions_(self) -> np.ndarray:
        """Scores of pairs of labels that all edges share, in the averaged model, (K, K)."""
        for bank in self.predictor_.banks:
            if isinstance(bank, PairBank):
                return bank.scores()
            if isinstance(bank, TransitionBank):
                return bank.table[0]
        return np.zeros((len(self.classes_), len(self.classes_)))
