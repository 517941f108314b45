"""SequenceLabeler: a label for every token, with groups of features or kernels whose combination is learned."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from omkl._components import check_number
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.calibration import has_marginals, structure_temperature
from omkl.estimators.explanations import Explanation
from omkl.estimators.sources import TrainingBlock, blocks_of
from omkl.estimators.token_codec import TOKEN_CONSTRAINTS, TokenCodec
from omkl.estimators.training import RunOptions, Task
from omkl.estimators.validation import OneOf, column_names_of, keep_columns
from omkl.exceptions import InputError
from omkl.features.views import TokenData
from omkl.groups.tables import TransitionBank, TrigramBank
from omkl.sequences.decoding import (
    Labeling,
    best_labelings,
    calibration_temperature,
    compared_labels,
    explain_labels,
    gold_codes,
    label_marginals,
    predict_labels,
    sequence_potentials,
)
from omkl.sequences.evaluation import evaluate_labels
from omkl.sequences.reading import (
    ChainOutputs,
    LabelSequences,
    Sequences,
    labeled_sequences,
    names_in,
    training_sequences,
)
from omkl.structures.chain import Chain


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceLabeler(OnlineEstimator):
    """Chain labeler whose combination of kernels or feature templates is learned online.

    ``X`` is a list of sequences, ``y`` a list of sequences of labels, any hashable. A sequence of n tokens is

    * a list of n words, strings: they have the features of :func:`omkl.features.token_features`, each a group;
    * a list of n dicts. A string gives the feature ``key=value``, a number the feature ``key`` with that value, a
      boolean 1 or 0, a list or set of strings one feature each, and every such key is a group; an array, or a list of
      numbers, is a view for kernels to act on;
    * a list of n lists of attributes as CRFsuite has them, strings such as ``"w=the"``, each a feature of value 1. What
      stands before ``=`` is the group;
    * or an array of shape (n, d).

    None stands for a label that is not known: the model learns from the others.

    Parameters
    ----------
    kernels : list, dict or None
        Kernels, by object (:mod:`omkl.kernels`), as a function of two arrays, or by string: ``"linear"``,
        ``"quadratic"``, ``"cubic"``, ``"gaussian:sigma2=5"``, ``"laplacian"``, ``"chi2"``, ``"b1:density=0.05"``.
        Each is a group; a dict names them. None takes linear, quadratic and Gaussian on arrays,
        and linear on every array in dicts. ``"gaussian:sigma2=5,features=2000"`` approximates a kernel by random
        Fourier features and ``"chi2:features=500"`` by the Nyström method: such a group costs the same on a stream
        however long it is, while a kernel's grows with its mistakes.
    loss : {"hinge", "crf", "softmax-margin", "perceptron"} or StructuredLoss
        Structured SVM, conditional random field, the same with the cost of outputs as a margin, or structured
        perceptron.
    regularizer : str, Regularizer or None
        ``"mkl"`` learns a sparse combination (squared mixed norm), ``"group-lasso"``, ``"elastic-net:mu=0.5"``,
        ``"lq:q=1.5"`` and others are in :mod:`omkl.regularizers`; ``"l2"`` weights all groups alike.
    weighting : {"auto", "out-of-sample", "norms"}
        How groups are selected. "norms" is Algorithm 1 of the paper: the regularizer selects by the fit to the training
        data. "out-of-sample" tests every regularized group in the first epoch on examples that the model has not
        learned from, and leaves out those that do not help: their weight is 0. Of any number of useless groups, half
        a group passes on average; if none passes, all stay. If more than a tenth of the weight was on groups that are
        left out, the others are trained anew after the first epoch; if all pass, training has the bits of "norms".
        In a single pass (``epochs=1`` or ``partial_fit``), the weights of ``regularizer="mkl"`` come from Hedge
        (:class:`~omkl.online.methods.OutOfSampleWeights`), and ``partial_fit`` leaves out no group. "auto" is
        "out-of-sample" for regularizers that select groups, such as "mkl" and "group-lasso", else "norms".
    C : float > 0
        Weight of the losses, ``1 / (lambda m)`` for m training sequences: larger fits closer.
    epochs : int > 0
        Passes over the data.
    method : {"fobos", "rda"}
        Forward-backward splitting, the paper's Algorithm 1, or regularized dual averaging, whose iterates are truly
        group-sparse.
    eta0 : "auto" or float > 0
        Scale of the learning rate. "auto" needs no tuning: see :class:`~omkl.online.DistanceOverGradients`.
    schedule : str, Schedule or None
        With a number for ``eta0``: ``"sqrt"`` for ``eta0 / sqrt(t)`` (the default), ``"constant"``, or
        ``"inverse-time"`` for ``eta0 / t``.
    average : str, Average or None
        ``"quadratic"`` weights the model of round t with t^2; ``"uniform"``; ``"uniform:start=1000"``;
        ``"polynomial:power=4"``; ``None`` or ``"last"`` takes the last model.
    class_weight : None, "balanced" or dict
        Weights of the labels, as in scikit-learn; that of a sequence is the mean over its labels. "balanced" is for
        ``fit`` on data that are all at hand.
    transitions : {"free", "regularized", None}
        Scores of neighbouring labels: not regularized, one more group of the regularizer, or left out, which is much
        faster where there are hundreds of labels.
    allowed_transitions : {"BIO", "BIOES"}, dict, array of shape (K, K) or None
        Pairs of labels that may follow each other, in training and prediction; None allows all. The name of a scheme
        of chunks (also "IOB2", "IOBES", "BILOU") is for labels such as ``O``, ``B-PER``, ``I-PER``: an inside must
        follow the beginning of its own chunk. A dict gives for a label the list of those that may follow it, and for
        None the list of those that may begin a sequence; a label that is no key may be followed by any. A matrix has
        True where the label of the column may follow that of the row, in the order of ``classes_``.
    transitions_by_position : bool
        Whether each position has transitions of its own, for outputs of a fixed format such as dates.
    order : {1, 2}
        2 adds scores of trigrams of labels, in O(n K^3): for few labels with longer dependencies, as letters in words.
    cost : array of shape (K, K), optional
        ``cost[gold, predicted]`` in the order of ``classes_``; 1 for every wrong label by default.
    radius : float, "auto" or None
        Project every iterate onto a ball: of this radius, or of the one that certainly holds the solution.
    shuffle : bool
        Present the sequences in a fresh random order every epoch. File order usually costs accuracy.
    early_stopping : bool
        Hold out ``validation_fraction`` of the sequences, stop when token accuracy on them has not improved for
        ``n_iter_no_change`` epochs, and keep the best epoch's model.
    validation_fraction : float in (0, 1)
    n_iter_no_change : int > 0
    n_examples : float, optional
        The m in ``C = 1 / (lambda m)``. By default the (weighted) number of training sequences; in ``partial_fit``,
        the number of sequences seen so far.
    budget : int > 0, optional
        Largest number of support vectors of all kernels that are held as dual expansions, which bounds memory and the
        time of a round. When it is reached, a new support vector replaces the least important one, whose part of the
        model is projected onto the others (O(budget^2) time and memory per kernel).
    cache_size : float
        Megabytes for Gram matrices of kernel groups, and as many for the features of approximated kernels; rows that
        do not fit are computed on demand. 0 computes every kernel value when it is needed, as ``partial_fit`` does.
    dtype : {"auto", "float32", "float64"}
        Precision of Gram matrices and cached potentials. "auto" takes double precision while they are small.
    n_jobs : int or None
        Threads for Gram matrices, prediction, and training in shards; None is one, -1 one for each core. The results
        do not depend on it.
    callbacks : list of callable, optional
        Called after every epoch as ``callback(trainer, record)``; a true value stops training. For methods such as
        ``on_round(trainer, step)`` see :class:`~omkl.online.TrainingLoop`.
    verbose : bool
        Show a progress bar when training takes longer than a second; where standard error is no terminal, a line every
        half minute.
    random_state : int, Generator, RandomState or None
        The same seed gives the same model, bit for bit.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The labels.
    kernel_weights_ : dict of str to float
        The learned weight of each group, in [0, 1], summing to 1.
    history_ : list of dict
        A flat record an epoch, or a call of ``partial_fit``: ``loss``, ``objective``, ``norm:NAME``, ``weight:NAME``
        and more, see :meth:`omkl.online.TrainingLoop.run`.
    n_iter_ : int
        Epochs run.
    temperature_ : float or None
        Divisor of the scores that makes them log-probabilities; None where the model is not calibrated.

    References
    ----------
    Martins, Smith, Xing, Aguiar, Figueiredo: *Online Multiple Kernel Learning for Structured Prediction* (2011),
    Algorithms 1 and 3.

    Examples
    --------
    >>> X, y = [["the", "dog"], ["a", "cat"]], [["DET", "NOUN"], ["DET", "NOUN"]]
    >>> labeler = SequenceLabeler(random_state=0).fit(X, y)
    >>> labeler.predict([["a", "dog"]])[0].tolist()
    ['DET', 'NOUN']
    """

    _constraints = {
        **OnlineEstimator._constraints,
        **TOKEN_CONSTRAINTS,
        "transitions": OneOf(("free", "regularized", None)),
    }
    _plain_attributes = (*OnlineEstimator._plain_attributes, "temperature_")

    kernels: Any = field(default=None, kw_only=False)
    class_weight: Any = None
    transitions: str | None = "free"
    allowed_transitions: Any = None
    transitions_by_position: bool = False
    order: int = 1
    cost: Any = None
    budget: int | None = None
    cache_size: float = 4000
    dtype: Any = "auto"

    classes_: np.ndarray = field(init=False)
    structure_: Chain = field(init=False)
    temperature_: float | None = field(init=False, default=None)

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Sequences,
        y: LabelSequences = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: Sequence | str | None = None,
        validation: tuple[Sequences, LabelSequences] | None = None,
        **run: Unpack[RunOptions],
    ) -> "SequenceLabeler":
        """Train from scratch.

        Parameters
        ----------
        X : list of sequences, or stream
            A stream, a :class:`omkl.data.Stream` or any iterator of pairs ``(x, y)``, is learned block by block, as by
            :meth:`partial_fit`, ``epochs`` times, and never held whole; ``history_`` then has the records of
            :class:`~omkl.online.ProgressiveValidation`. An iterator can be read only once: ``epochs=1``.
        y : list of sequences of labels, optional
            A stream brings them along.
        sample_weight : array of shape (number of sequences,), optional
            How often each sequence counts: an integer is that many copies. Not for streams.
        classes : sequence of labels or "growing", optional
            All labels, if the sequences lack some; see :meth:`partial_fit`.
        validation : pair (X, y), optional
            Examples for ``early_stopping``, instead of a part of the training data. All their labels must be known
            from training.
        checkpoint : path-like, optional
            A directory for the states of this run. A run that was killed and is resumed gives the same bytes as one
            that was not. Callbacks take part if they have ``state()``.
        checkpoint_every : str or float
            Seconds, ``"5m"``, ``"2h"`` or ``"1000 rounds"``; ``"60s"`` by default.
        resume : bool
            Continue from the latest checkpoint in that directory, if there is one.
        client : dask.distributed.Client, optional
            Train in shards on its workers, by iterative parameter mixing: see :mod:`omkl.distributed.mixing`.
        shards : int, optional
            Number of shards; the number of the client's workers by default. Without a client the same shards are
            trained on ``n_jobs`` threads, to the same bits. Kernels that are held as dual expansions are then
            computed when they are needed, as with ``cache_size=0``.

        Returns
        -------
        self
        """
        held_out = self._train(self._task(classes), TrainingBlock(X, y, sample_weight), validation, run)
        self.temperature_ = None
        if held_out is not None and not self.model_.settings.probabilistic:
            predictor = self.predictor_
            pairs = ((predictor.potentials(own), gold) for own, gold, _ in held_out)
            self.temperature_ = structure_temperature(predictor.structure, pairs)
        return self

    def partial_fit(
        self,
        X: Sequences,
        y: LabelSequences = None,
        classes: Sequence | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "SequenceLabeler":
        """One round of training for each sequence, in the given order.

        The first call decides the widths of kernels, the labels, and all parameters.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`; a stream is read once.
        classes : sequence of labels or "growing", optional
            All labels that will ever come, at the first call; the labels of its ``y`` by default. "growing" accepts
            new ones at any time, after the others in ``classes_``.

        Returns
        -------
        self
        """
        self._train_more(self._task(classes), TrainingBlock(X, y, sample_weight), classes)
        self.temperature_ = None
        return self

    def _task(self, classes: Sequence | str | None) -> Task:
        return Task(self._codec(classes), self._read)

    def _codec(self, classes: Sequence | str | None = None) -> TokenCodec:
        chain = (self.transitions, self.transitions_by_position, self.order, self.cost, self.allowed_transitions)
        return TokenCodec(ChainOutputs(*chain, classes), self)

    def _read(self, block: TrainingBlock, first: bool, whole: bool = False) -> TokenData:
        if first:
            keep_columns(self, names_in(block.X))
        return training_sequences(block, column_names_of(self), self.class_weight, whole)

    def _read_known(self, block: TrainingBlock) -> TokenData:
        return labeled_sequences(block, column_names_of(self))

    # ---- prediction ---------------------------------------------------------------------------------------------

    def predict(self, X: Sequences, labels: LabelSequences = None) -> list[np.ndarray]:
        """Best labels of each sequence.

        Parameters
        ----------
        X : list of sequences, or stream
        labels : list of sequences, optional
            Known labels: for each token None, the label that it must have, or a set of labels that it may have. Not
            for streams.

        Returns
        -------
        list of arrays of labels
        """
        return [self.classes_[own] for own in predict_labels(self.model_, X, labels, self.n_jobs)]

    def predict_nbest(self, X: Sequences, n: int = 5, labels: LabelSequences = None) -> list[list[Labeling]]:
        """The best labellings of each sequence, best first.

        Parameters
        ----------
        X : list of sequences, or stream
        n : int > 0
            How many; fewer where a sequence has fewer. The first is that of :meth:`predict`.
        labels : list of sequences, optional
            As for :meth:`predict`.

        Returns
        -------
        list of list of Labeling
            Pairs ``(labels, score)``.
        """
        check_number("n", n, above=0, integer=True)
        return list(best_labelings(self.model_, sequence_potentials(self.model_, X, labels), int(n)))

    def decision_function(self, X: Sequences) -> list[np.ndarray]:
        """Unary potentials of each sequence: the score of each label without transitions.

        Parameters
        ----------
        X : list of sequences, or stream

        Returns
        -------
        list of arrays of shape (n, K)
        """
        return [potentials.unary for potentials in sequence_potentials(self.model_, X)]

    @available_if(has_marginals)
    def predict_marginals(self, X: Sequences, labels: LabelSequences = None) -> list[np.ndarray]:
        """Probability of each label at each token.

        With ``loss="crf"`` the model's own; with others once the model is calibrated, see :meth:`calibrate`.

        Parameters
        ----------
        X : list of sequences, or stream
        labels : list of sequences, optional
            As for :meth:`predict`: probabilities are then conditional on them.

        Returns
        -------
        list of arrays of shape (n, K)
            Rows sum to 1.
        """
        return label_marginals(self.model_, sequence_potentials(self.model_, X, labels), self.temperature_ or 1.0)

    def calibrate(self, X: Sequences, y: LabelSequences = None) -> "SequenceLabeler":
        """Find the temperature that makes probabilities of the model's scores, on data that it has not learned from.

        Potentials are divided by one number, ``temperature_``, at which the labels of ``X`` are likeliest, token by
        token (temperature scaling: Guo, Pleiss, Sun, Weinberger 2017). Predictions do not change. ``fit`` does this by
        itself on the sequences that ``early_stopping`` holds out, unless the loss has probabilities of its own.
        Another ``fit`` or ``partial_fit`` removes the temperature.

        Parameters
        ----------
        X, y
            As for :meth:`score`; a label that is None, or that the model does not know, does not count.

        Returns
        -------
        self
        """
        self.temperature_ = calibration_temperature(self.model_, X, y)
        return self

    def explain(
        self,
        x: Collection,
        *,
        labels: Collection | None = None,
        against: Collection | None = None,
        token: int | None = None,
        n: int = 20,
    ) -> Explanation:
        """Explain the labels of a sequence, compared with the next best ones.

        The score of a labelling is a sum over groups, and over their features, support vectors and transitions. The
        parts of the explanation add up to the difference of two scores, the margin.

        Parameters
        ----------
        x : sequence
            One of those that :meth:`predict` takes a list of.
        labels : sequence of labels, optional
            The labelling to explain; the predicted one by default.
        against : sequence of labels, optional
            The labelling to compare with; the best other one by default.
        token : int, optional
            Compare with the best labelling that has another label at this token, counted from 0.
        n : int > 0
            Number of the strongest features to list.

        Returns
        -------
        omkl.Explanation
        """
        return explain_labels(self.model_, x, labels, against, token, n)

    # ---- evaluation ---------------------------------------------------------------------------------------------

    def score(self, X: Sequences, y: LabelSequences = None, sample_weight: ArrayLike | None = None) -> float:
        """Token accuracy in [0, 1]; a stream, which brings its labels along, is not held whole.

        Tokens whose label is None do not count; those of a label that the model does not know are wrong, and one
        warning tells their number.

        Parameters
        ----------
        X : list of sequences, or stream
        y : list of sequences of labels, optional
        sample_weight : array of shape (number of sequences,), optional
        """
        right, total, model = 0.0, 0.0, self.model_
        blocks = blocks_of(X, y, sample_weight)
        for data, predicted in compared_labels(model, blocks, self.n_jobs):
            gold = gold_codes(model, data.labels, unknown=len(self.classes_))
            each = np.ones(len(data.offsets) - 1) if data.weights is None else data.weights
            weights = np.repeat(each, np.diff(data.offsets)) * (gold >= 0)
            right, total = right + float(weights @ (predicted == gold)), total + float(weights.sum())
        if not total:
            raise InputError("y must hold a label other than None.")
        return right / total

    def evaluate(self, X: Sequences, y: LabelSequences = None, *, scheme: str | None = None) -> dict[str, Any]:
        """Scores of tokens, of each label, and of entities where the labels mark some, as ``B-PER`` and ``O`` do.

        Parameters
        ----------
        X, y
            As for :meth:`score`.
        scheme : {None, "BIO", "BIOES"}
            The entities that count; see :func:`omkl.evaluate_labels`.

        Returns
        -------
        dict
            ``accuracy``, ``sequence_accuracy``, ``tokens``, ``sequences``, ``labels``, ``entity_precision``,
            ``entity_recall``, ``entity_f1`` and ``entities``, as :func:`omkl.evaluate_labels` has them.
        """
        gold: list[list] = []
        predicted: list[list] = []
        for data, codes in compared_labels(self.model_, blocks_of(X, y), self.n_jobs):
            labels = self.classes_[codes].tolist()
            for low, high in pairwise(data.offsets.tolist()):
                gold.append(list(data.labels[low:high]))
                predicted.append(labels[low:high])
        return evaluate_labels(gold, predicted, scheme=scheme)

    # ---- learned attributes -------------------------------------------------------------------------------------

    @property
    def transitions_(self) -> np.ndarray:
        """Scores of label ``i`` followed by ``j`` in the averaged model: (K, K), or (positions, K, K)."""
        table = self._averaged_table(TransitionBank)
        if table is None:
            return np.zeros((len(self.classes_), len(self.classes_)))
        return table if self.model_.codec.structure.by_position else table[0]

    @property
    def trigrams_(self) -> np.ndarray:
        """Scores of labels ``i``, ``j``, ``k`` in a row in the averaged model, (K, K, K); zeros with ``order=1``."""
        table = self._averaged_table(TrigramBank)
        return np.zeros((len(self.classes_),) * 3) if table is None else table

    def _averaged_table(self, kind: type[TransitionBank | TrigramBank]) -> np.ndarray | None:
        return next((bank.table for bank in self.predictor_.banks if isinstance(bank, kind)), None)
