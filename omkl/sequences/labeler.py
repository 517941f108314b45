"""SequenceLabeler, and Labeler, the base class that it shares with the labeler of graphs."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number
from omkl.data.graphs import Graph
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.calibration import WithMarginals, at_temperature, structure_temperature
from omkl.estimators.explanations import Explanation
from omkl.estimators.online_explanations import Outputs, explain_difference
from omkl.estimators.options import Budget, OptionsOr, Passes
from omkl.estimators.sources import ExamplesLike, TrainingBlock, blocks_of
from omkl.estimators.targets import Classes
from omkl.estimators.token_codec import TOKEN_CONSTRAINTS
from omkl.estimators.training import RunOptions, Task
from omkl.estimators.validation import (
    Number,
    class_weights,
    column_names_of,
    keep_columns,
)
from omkl.exceptions import InputError
from omkl.features.lexicons import LexiconSource
from omkl.features.views import TokenData
from omkl.groups.tables import TransitionBank, TrigramBank
from omkl.persistence import Manifest, Unpacker
from omkl.sequences.evaluation import evaluate_labels
from omkl.sequences.labeling import (
    UNKNOWN,
    ChainCodec,
    LabelCodec,
    Labeling,
    constrained_inputs,
    gold_codes,
    one_label_each,
    potentials_of,
    read_inputs,
    split_by_input,
    warn_of_unknown,
)
from omkl.sequences.reading import ChainOutputs, LabelSequences
from omkl.sequences.transitions import SCORES, Transitions
from omkl.structures.chain import Chain

#: Codec of a labeler.
OwnLabelCodec = TypeVar("OwnLabelCodec", bound=LabelCodec)


@dataclass(kw_only=True, eq=False, repr=False)
class Labeler(OnlineEstimator[OwnLabelCodec]):
    """Base class of labelers of sequences and of graphs.

    The fields are the parameters that both share; see :class:`~omkl.SequenceLabeler`. Subclasses
    set :attr:`_codec_class`, and define ``_codec(classes)``.
    """

    _constraints = {
        **OnlineEstimator._constraints,
        **TOKEN_CONSTRAINTS,
        "epochs": OptionsOr(Passes, Number(above=0, integer=True, also=("auto",))),
    }
    _plain_attributes = (*OnlineEstimator._plain_attributes, "temperature_")
    #: Class of the codec, which reads inputs.
    _codec_class: ClassVar[type[LabelCodec]]

    kernels: Any = field(default=None, kw_only=False)
    C: float | str = 30.0
    epochs: int | str | Passes = "auto"
    lexicons: Mapping[str, LexiconSource] | None = None
    class_weight: Any = None
    cost: Any = None
    budget: int | Budget | None = None

    classes_: np.ndarray = field(init=False)
    temperature_: float | None = field(init=False, default=None)

    @abstractmethod
    def _codec(self, classes: Classes = None) -> OwnLabelCodec:
        """Return an untrained codec, with the ``classes`` that the user declares."""

    # ---- training --------------------------------------------------------------------------------

    def fit(
        self,
        X: ExamplesLike,
        y: LabelSequences = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: Classes = None,
        validation: tuple[ExamplesLike, LabelSequences] | None = None,
        **run: Unpack[RunOptions],
    ) -> Self:
        """Train from scratch.

        Parameters
        ----------
        X : list of sequences or of graphs, stream, or dask.bag of sequences
            A bag of pairs ``(x, y)``, or bags of X, y and ``sample_weight`` with equal partitions,
            are shards on the cluster. A stream is a :class:`omkl.data.Stream` or any iterator of
            pairs. The model is trained on its blocks as by :meth:`partial_fit`, ``epochs`` times,
            without loading all data into memory. ``history_`` then has the records of
            :class:`~omkl.online.ProgressiveValidation`. Iterators require ``epochs=1``.
        y : list of sequences of labels, optional
            Not for streams, which contain labels.
        sample_weight : array of shape (number of sequences or graphs,), optional
            Weight of each of them; an integer weight is equivalent to that many copies. Not for
            streams.
        classes : sequence of labels or "growing", optional
            All labels, if some do not occur in ``y``; see :meth:`partial_fit`.
        validation : pair (X, y), optional
            Examples for ``early_stopping``, instead of a part of the training data. Their labels
            must occur in the training data.
        checkpoint : path-like, optional
            Directory for checkpoints of this run. A resumed run gives bitwise the same result as an
            uninterrupted one. Checkpoints include callbacks with a method ``state``.
        checkpoint_every : str or float
            Interval between checkpoints: seconds, ``"5m"``, ``"2h"`` or ``"1000 rounds"``;
            ``"60s"`` by default.
        resume : bool
            Continue from the latest checkpoint in that directory, if there is one.
        client : dask.distributed.Client, optional
            Train in shards on the client's workers, by iterative parameter mixing; see
            :mod:`omkl.distributed.mixing`. For Dask collections, by default the client that was
            created last.
        shards : int, optional
            Number of shards; by default the number of the client's workers. Without a client,
            shards are trained on ``n_jobs`` threads, with bitwise the same result. Values of
            kernels stored as dual expansions are computed on demand, as with
            ``Budget(cache_size=0)``.

        Returns
        -------
        self
        """
        task = Task(partial(self._codec, classes), self._read)
        data = TrainingBlock(X, y, sample_weight)
        held_out = self._train(task, data, validation, run)
        self.temperature_ = None
        if held_out is not None and not self.model_.settings.probabilistic:
            predictor = self.predictor_
            scored = ((predictor.potentials(example.x), example.y) for example in held_out)
            self.temperature_ = structure_temperature(predictor.structure, scored)
        return self

    def partial_fit(
        self,
        X: ExamplesLike,
        y: LabelSequences = None,
        classes: Classes = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one round on each sequence or graph, in the given order.

        The first call determines the widths of kernels, the labels, and all parameters.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`. A stream is read once.
        classes : sequence of labels or "growing", optional
            All labels of this and later calls, at the first call; by default the labels in its
            ``y``. "growing" accepts new labels at any time, and appends them to ``classes_``.

        Returns
        -------
        self
        """
        task = Task(partial(self._codec, classes), self._read)
        self._train_more(task, TrainingBlock(X, y, sample_weight), classes)
        self.temperature_ = None
        return self

    def _read(self, block: TrainingBlock, first: bool, is_all_data: bool = False) -> TokenData:
        """Validate training data, and weight them; the ``first`` ones determine the columns.

        If ``is_all_data``, not a block of a stream, inputs of weight 0 are dropped.
        """
        read = self._codec_class.read
        data = read(block, None if first else column_names_of(self))
        if first:
            keep_columns(self, data.names)
        if is_all_data and data.weights is not None and not data.weights.all():
            weighted = np.flatnonzero(data.weights)
            X = [block.X[i] for i in weighted.tolist()]
            y = [block.y[i] for i in weighted.tolist()]
            data = read(TrainingBlock(X, y, data.weights[weighted]), data.names)
        weights = class_weights(
            self.class_weight, data.labels, data.offsets, data.weights, is_all_data
        )
        return data._replace(weights=weights)

    def _read_for_evaluation(self, block: TrainingBlock) -> TokenData:
        return self._codec_class.read(block, column_names_of(self))

    # ---- prediction ------------------------------------------------------------------------------

    def predict(self, X: ExamplesLike, labels: LabelSequences = None) -> np.ndarray:
        """Predict the labels of each sequence or graph.

        Parameters
        ----------
        X : list of sequences or of graphs, or stream
        labels : list of sequences, optional
            Known labels: for each token or node its label, a set of possible labels, or None. Not
            for streams.

        Returns
        -------
        array of shape (number of sequences or graphs,), of arrays of labels
            An array of objects: scikit-learn's ``cross_val_predict`` concatenates the predictions
            of folds.
        """
        model = self.model_
        predicted: list[np.ndarray] = []
        for data, possible in constrained_inputs(model, X, labels):
            codes = model.codec.decode(model, data, possible, self.n_jobs)
            predicted += split_by_input(self.classes_[codes], data)
        return np.fromiter(predicted, dtype=object, count=len(predicted))

    def predict_nbest(
        self, X: ExamplesLike, n: int = 5, labels: LabelSequences = None
    ) -> list[list[Labeling]]:
        """Predict the n best labellings of each sequence or graph, best first.

        For graphs with cycles, they are good ones. A graph takes the time of n predictions for each
        of its nodes.

        Parameters
        ----------
        X : list of sequences or of graphs, or stream
        n : int > 0
            Number of labellings; fewer if an input does not have n. The first one of a sequence is
            that of :meth:`predict`.
        labels : list of sequences, optional
            As for :meth:`predict`.

        Returns
        -------
        list of list of Labeling
            Pairs ``(labels, score)``.
        """
        check_number("n", n, above=0, integer=True)
        structure: Any = self.model_.codec.structure
        labelings_of_inputs = []
        for potentials in potentials_of(self.model_, X, labels):
            if len(potentials.unary):
                best, scores = structure.decode_best(potentials, n)
            else:  # the one labelling of an empty input
                best, scores = np.zeros((1, 0), np.int64), np.zeros(1)
            labelings_of_inputs.append(
                [
                    Labeling(self.classes_[codes], score)
                    for codes, score in zip(best, scores.tolist())
                ]
            )
        return labelings_of_inputs

    def decision_function(self, X: ExamplesLike) -> list[np.ndarray]:
        """Compute the scores of the labels of each token or node, without transitions or edges.

        Parameters
        ----------
        X : list of sequences or of graphs, or stream

        Returns
        -------
        list of arrays of shape (n, K)
        """
        return [potentials.unary for potentials in potentials_of(self.model_, X)]

    @WithMarginals
    def predict_marginals(self, X: ExamplesLike, labels: LabelSequences = None) -> list[np.ndarray]:
        """Predict the probability of each label at each token or node.

        Available for ``loss="crf"``, and for other losses after calibration; see :meth:`calibrate`.
        They are exact for sequences and for graphs without cycles, and approximate on other graphs.

        Parameters
        ----------
        X : list of sequences or of graphs, or stream
        labels : list of sequences, optional
            As for :meth:`predict`. Probabilities are conditional on these labels.

        Returns
        -------
        list of arrays of shape (n, K)
            Rows sum to 1.
        """
        structure = self.model_.codec.structure
        temperature = self.temperature_ or 1.0
        marginals_of_inputs = []
        for potentials in potentials_of(self.model_, X, labels):
            marginals = potentials.unary
            if len(marginals):
                scaled = at_temperature(potentials, temperature)
                _, expected = structure.marginals(scaled)
                marginals = expected.unary
            marginals_of_inputs.append(marginals)
        return marginals_of_inputs

    def calibrate(self, X: ExamplesLike, y: LabelSequences = None) -> Self:
        """Calibrate probabilities by temperature scaling on held-out data.

        Potentials are divided by ``temperature_``, which minimizes the log loss of single labels
        (Guo, Pleiss, Sun, Weinberger 2017). Predictions do not change. With ``early_stopping``,
        ``fit`` calibrates on the held-out examples, unless the loss is probabilistic. Another
        ``fit`` or ``partial_fit`` removes the temperature.

        Parameters
        ----------
        X, y
            As for :meth:`score`. Labels that are None or unknown to the model are ignored.

        Returns
        -------
        self
        """
        model = self.model_
        examples: list[tuple[Any, np.ndarray]] = []
        for data in read_inputs(model, blocks_of(X, y)):
            gold = gold_codes(model, data, code_of_others=UNKNOWN)
            examples += zip(model.codec.potentials(model, data), split_by_input(gold, data))
        self.temperature_ = structure_temperature(model.codec.structure, examples)
        if self.temperature_ is None:
            raise InputError("y must hold a label that the model knows.")
        return self

    # ---- evaluation and explanation --------------------------------------------------------------

    def score(
        self, X: ExamplesLike, y: LabelSequences = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the fraction of tokens or nodes with the right label, in [0, 1].

        Those with label None are ignored. Those whose label is unknown to the model count as wrong,
        with a warning.

        Parameters
        ----------
        X : list of sequences or of graphs, or stream
        y : list of sequences of labels, optional
        sample_weight : array of shape (number of sequences or graphs,), optional
        """
        model = self.model_
        right = 0.0
        total = 0.0
        for data, predicted in self._compared(TrainingBlock(X, y, sample_weight)):
            gold = gold_codes(model, data, code_of_others=len(model.codec.codes))
            weights = data.token_weights * (gold >= 0)
            right += float(weights @ (predicted == gold))
            total += float(weights.sum())
        if not total:
            raise InputError("y must hold a label other than None.")
        return right / total

    def _gold_and_predicted(
        self, X: ExamplesLike, y: LabelSequences
    ) -> tuple[list[list], list[list]]:
        """Return the gold and the predicted labels of each input."""
        gold: list[list] = []
        predicted: list[list] = []
        for data, codes in self._compared(TrainingBlock(X, y)):
            gold += [list(data.labels[low:high]) for low, high in pairwise(data.offsets.tolist())]
            predicted += [labels.tolist() for labels in split_by_input(self.classes_[codes], data)]
        return gold, predicted

    def _compared(self, labeled: TrainingBlock) -> Iterator[tuple[TokenData, np.ndarray]]:
        """Yield data and predicted codes, block by block; warn once of unknown labels."""
        model = self.model_
        known_labels = {None, *model.codec.codes.labels}
        unknown: dict[object, None] = {}
        for data in read_inputs(model, blocks_of(*labeled)):
            yield data, model.codec.decode(model, data, n_jobs=self.n_jobs)
            unknown |= dict.fromkeys(label for label in data.labels if label not in known_labels)
        warn_of_unknown(unknown)

    def _explain(
        self,
        x: Collection | Graph,
        labels: Collection | None,
        against: Collection | None,
        at: int | None,
        n: int,
    ) -> Explanation:
        """Explain a labelling in comparison with another one; see ``explain``.

        ``at`` is the index of an element at which the other labelling differs.
        """
        model = self.model_
        codec = model.codec
        predictor = model.predictor()
        element = codec.element
        [data] = read_inputs(model, blocks_of([x]), labeled=False)
        encoded = codec.encode_input(data)
        potentials = predictor.potentials(encoded)
        if labels is None:
            chosen = codec.structure.decode(potentials)
        else:
            chosen = one_label_each(labels, codec, len(encoded))
        codec.check_labels(chosen, data)
        if at is not None:
            if against is not None:
                raise InputError(f"{element} must be None if against is given.")
            check_number(element, at, above=-1, below=len(chosen), integer=True)
        if against is None:
            other = codec.other_labels(encoded, potentials, chosen, at)
        else:
            other = one_label_each(against, codec, len(encoded))
        label_of = codec.codes.labels
        differences = []
        for i in np.flatnonzero(chosen != other).tolist():
            place = f"{element} {i}"
            if isinstance(x, list) and isinstance(x[i], str):
                place = f"{place} {x[i]!r}"
            differences.append(
                f"{place}: {label_of[chosen[i]]!r} rather than {label_of[other[i]]!r}"
            )
        return explain_difference(
            predictor,
            encoded,
            potentials,
            Outputs(chosen, other),
            differences,
            n,
            codec.namer(),
            codec.codes.as_array(),
        )

    # ---- model files -----------------------------------------------------------------------------

    def _restore(self, manifest: Manifest, unpacker: Unpacker) -> None:
        super()._restore(manifest, unpacker)
        self.lexicons = self.model_.codec.encoder.lexicons or None
        self.model_.parameters["lexicons"] = self.lexicons


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceLabeler(Labeler[ChainCodec]):
    """Chain labeler whose combination of kernels or feature templates is learned online.

    ``X`` is a list of sequences, and ``y`` a list of sequences of hashable labels. A sequence of n
    tokens is

    * a list of n words, with the features of :func:`omkl.features.token_features`; each of these is
      a group;
    * a list of n dicts. A string gives the feature ``key=value``, a number the feature ``key`` with
      that value, a boolean the value 1 or 0, and a list or set of strings one feature each. Each
      such key is a group. Keys of dicts in dicts are joined by ``:``, as in python-crfsuite. An
      array, or a list of numbers, is a view for kernels;
    * a list of n lists of attributes as in CRFsuite, strings such as ``"w=the"`` and
      ``"next:w:the"``, or pairs of a string and a number. Each is a feature, of value 1 or that
      number. The part before the first ``=``, or without one before the last ``:``, is its group
      (``w``, ``next:w``);
    * a list of n tuples with strings, which hold columns. Each position is a group (``0``, ``1``,
      ...);
    * or an array of shape (n, d).

    A label None is unknown: the model is trained on the known labels.

    Parameters
    ----------
    kernels : list, dict or None
        Kernels, as objects (:mod:`omkl.kernels`), functions of two arrays, or strings:
        ``"linear"``, ``"quadratic"``, ``"cubic"``, ``"gaussian:sigma2=5"``, ``"laplacian"``,
        ``"chi2"``, ``"b1:density=0.05"``. Each kernel is a group; a dict gives names. None uses a
        linear, a quadratic and a Gaussian kernel on arrays and on the standardized numbers of
        frames with text, and a linear kernel on every array in dicts.
        ``"gaussian:sigma2=5,features=2000"`` approximates a kernel by random Fourier features, and
        ``"chi2:features=500"`` by the Nyström method. The cost of an approximated kernel is
        constant on a stream, while that of an exact kernel grows with the number of mistakes.
    lexicons : dict of str to path or dict, optional
        Lexicons of words by name, as for :class:`~omkl.DependencyParser`, for sequences of words.
        The values of a word and of two words on either side are groups ``NAME``, ``NAME[-1]``, ...
        Their first four characters, ``NAME:4``, are groups if values share these. Words without a
        value have no feature.
    loss : {"hinge", "crf", "softmax-margin", "perceptron"} or StructuredLoss
        Structured SVM, conditional random field (CRF), CRF with costs as margins, or structured
        perceptron. The default is the third, with a margin of 2 for every wrong label.
    regularizer : str, Regularizer or None
        ``"mkl"`` learns a sparse combination (squared mixed norm), and ``"l2"`` weights all groups
        equally. For ``"group-lasso"``, ``"elastic-net:mu=0.5"``, ``"lq:q=1.5"`` and others see
        :mod:`omkl.regularizers`.
    weighting : {"auto", "out-of-sample", "norms"}
        How to select groups. "norms" is Algorithm 1 of the paper: the regularizer selects groups by
        their fit to the training data. "out-of-sample" tests every regularized group in the first
        epoch, on each example before the model is trained on it, and leaves out groups that do not
        help: their weight is 0. Of any number of useless groups, less than half a group passes on
        average, and of the groups that pass, one in twenty is useless. If no group passes, all are
        kept. If left-out groups had more than a tenth of the weight, the other groups are retrained
        from scratch after the first epoch. If all groups pass, the result is bitwise equal to that
        of "norms". In a single pass (``epochs=1`` or ``partial_fit``), Hedge learns the weights of
        ``regularizer="mkl"`` (:class:`~omkl.online.methods.OutOfSampleWeights`). ``partial_fit``
        does not leave out groups. "auto" is "out-of-sample" for regularizers that select groups,
        such as "mkl" and "group-lasso", else "norms".
    C : "auto" or float > 0
        Weight of the losses, ``1 / (lambda m)`` for m training sequences. Larger values mean less
        regularization. "auto" is ``default_c`` of the loss: 10 for "crf" and "softmax-margin", 1
        for other losses.
    epochs : "auto", int > 0 or Passes
        Number of passes over the data. "auto" is 20, and up to 40 for less than 1200 sequences in
        memory. :class:`~omkl.Passes` also say whether to shuffle, and the length of a stream.
    method : {"fobos", "rda"}
        Forward-backward splitting (Algorithm 1 of the paper), or regularized dual averaging, whose
        iterates are truly group-sparse.
    learning_rate : "auto", float > 0, str or Schedule
        "auto" needs no tuning: see :class:`~omkl.online.DistanceOverGradients`. A number is the
        scale of rates ``learning_rate / sqrt(t)``. ``"constant:eta0=0.1"``,
        ``"inverse-time:eta0=1"`` and others are schedules: see :mod:`omkl.online`.
    average : str, Average or None
        Averaging of iterates: ``"quadratic"`` weights the iterate of round t by t^2; ``"recent"``
        by ``t^2 exp(sqrt(t) / 3)``; ``"auto"`` is "recent" in streams that are tested for drift,
        else "quadratic"; ``"uniform"``; ``"uniform:start=1000"``; ``"polynomial:power=4"``;
        ``None`` or ``"last"`` use the last iterate.
    class_weight : None, "balanced" or dict
        Weights of the labels, as in scikit-learn. The weight of a sequence is the mean over its
        labels. "balanced" requires ``fit`` on data in memory.
    transitions : {"free", "regularized", None} or Transitions
        Scores of pairs of neighbouring labels: not regularized, an additional regularized group, or
        none, which is much faster for hundreds of labels. :class:`~omkl.Transitions` also say which
        pairs are allowed, and can score trigrams.
    cost : array of shape (K, K), optional
        ``cost[gold, predicted]`` in the order of ``classes_``; 1 for every wrong label by default.
    radius : float, "auto" or None
        Radius of the ball onto which every iterate is projected. "auto" is a radius that is
        guaranteed to contain the solution.
    early_stopping : bool or EarlyStopping
        Hold out a tenth of the sequences. Stop when the token accuracy on these has not improved
        for five epochs, and return to the model of the best epoch. :class:`~omkl.EarlyStopping`
        sets other numbers.
    budget : int > 0, Budget or None
        Maximum number of support vectors, shared by all kernels stored as dual expansions.
        :class:`~omkl.Budget` also limits the memory for Gram matrices, and sets their precision.
    n_jobs : int or None
        Number of threads for Gram matrices, prediction, and training in shards; None means 1, -1
        one for each core. Results do not depend on it.
    callbacks : list of callable, optional
        Called after every epoch as ``callback(trainer, record)``. A true return value stops
        training. For methods such as ``on_round(trainer, step)`` see
        :class:`~omkl.online.TrainingLoop`.
    verbose : bool
        Show a progress bar if training takes longer than a second. If standard error is not a
        terminal, print a line every half minute.
    random_state : int, Generator, RandomState or None
        An int gives bitwise reproducible models.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The labels.
    kernel_weights_ : dict of str to float
        The learned weight of each group, in [0, 1], summing to 1.
    history_ : list of dict
        A flat record of each epoch or call of ``partial_fit``, with ``loss``, ``objective``,
        ``norm:NAME``, ``weight:NAME`` and more; see :meth:`omkl.online.TrainingLoop.run`.
    n_iter_ : int
        Number of epochs.
    temperature_ : float or None
        Temperature by which scores are divided to get log-probabilities; None if the model is not
        calibrated.

    References
    ----------
    Martins, Smith, Xing, Aguiar, Figueiredo: *Online Multiple Kernel Learning for Structured
    Prediction* (2011), Algorithms 1 and 3.

    Examples
    --------
    >>> X, y = [["the", "dog"], ["a", "cat"]], [["DET", "NOUN"], ["DET", "NOUN"]]
    >>> labeler = SequenceLabeler(random_state=0).fit(X, y)
    >>> labeler.predict([["a", "dog"]])[0].tolist()
    ['DET', 'NOUN']
    """

    example_kind = "sequences"
    _codec_class = ChainCodec
    _constraints = {**Labeler._constraints, "transitions": OptionsOr(Transitions, SCORES)}

    loss: Any = "softmax-margin:cost_weight=2"
    transitions: str | Transitions | None = "free"

    structure_: Chain = field(init=False)

    def _codec(self, classes: Classes = None) -> ChainCodec:
        transitions = Transitions.of("transitions", self.transitions)
        return ChainCodec(ChainOutputs(transitions, self.cost, classes), self, self.lexicons)

    def _task(self) -> Task:
        return Task(self._codec, self._read)

    def explain(
        self,
        x: Collection,
        *,
        labels: Collection | None = None,
        against: Collection | None = None,
        token: int | None = None,
        n: int = 20,
    ) -> Explanation:
        """Explain the labels of a sequence in comparison with the next best labelling.

        The score of a labelling is a sum over groups, and over their features, support vectors and
        transitions. Contributions of groups sum to the difference of the two scores, the margin.

        Parameters
        ----------
        x : sequence
            A single sequence in a format of :meth:`predict`.
        labels : sequence of labels, optional
            The labelling to explain; the predicted one by default.
        against : sequence of labels, optional
            The labelling to compare with; the best other one by default.
        token : int, optional
            Compare with the best labelling with another label at this token, counted from 0. Not
            with ``against``.
        n : int > 0
            Number of the strongest features to list.

        Returns
        -------
        omkl.Explanation
        """
        return self._explain(x, labels, against, token, n)

    def evaluate(
        self, X: ExamplesLike, y: LabelSequences = None, *, scheme: str | None = None
    ) -> dict[str, Any]:
        """Evaluate tokens, labels, and entities if labels such as ``B-PER`` and ``O`` mark them.

        Parameters
        ----------
        X, y
            As for :meth:`score`.
        scheme : {None, "BIO", "BIOES"}
            How to read entities; see :func:`omkl.evaluate_labels`.

        Returns
        -------
        dict
            ``accuracy``, ``sequence_accuracy``, ``tokens``, ``sequences``, ``labels``,
            ``entity_precision``, ``entity_recall``, ``entity_f1`` and ``entities``; see
            :func:`omkl.evaluate_labels`.
        """
        gold, predicted = self._gold_and_predicted(X, y)
        return evaluate_labels(gold, predicted, scheme=scheme)

    # ---- learned attributes ----------------------------------------------------------------------

    @property
    def transitions_(self) -> np.ndarray:
        """Scores of label ``i`` followed by ``j`` in the averaged model, (K, K).

        With ``by_position``, (positions, K, K).
        """
        for bank in self.predictor_.banks:
            if isinstance(bank, TransitionBank):
                return bank.table if self.model_.codec.structure.by_position else bank.table[0]
        return np.zeros((len(self.classes_), len(self.classes_)))

    @property
    def trigrams_(self) -> np.ndarray:
        """Scores of labels ``i``, ``j``, ``k`` in a row in the averaged model, (K, K, K).

        Zeros with ``order=1``.
        """
        for bank in self.predictor_.banks:
            if isinstance(bank, TrigramBank):
                return bank.table
        n_labels = len(self.classes_)
        return np.zeros((n_labels, n_labels, n_labels))
