"""SequenceLabeler, a chain labeler with online multiple kernel learning."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omkl.estimators.base import OnlineEstimator
from omkl.estimators.explanations import Explanation
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.training import Task
from omkl.estimators.validation import column_names_of
from omkl.features.lexicons import LexiconSource
from omkl.features.views import TokenData
from omkl.groups.tables import TransitionBank, TrigramBank
from omkl.persistence import Manifest, Unpacker
from omkl.sequences import labeling
from omkl.sequences.decoding import ChainCodec
from omkl.sequences.evaluation import evaluate_labels
from omkl.sequences.reading import ChainOutputs, LabelSequences, Sequences
from omkl.structures.chain import Chain


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceLabeler(OnlineEstimator[ChainCodec]):
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
    epochs : "auto" or int > 0
        Number of passes over the data. "auto" is 20, and up to 40 for less than 1200 sequences in
        memory.
    method : {"fobos", "rda"}
        Forward-backward splitting (Algorithm 1 of the paper), or regularized dual averaging, whose
        iterates are truly group-sparse.
    eta0 : "auto" or float > 0
        Scale of the learning rate. "auto" needs no tuning: see
        :class:`~omkl.online.DistanceOverGradients`.
    schedule : str, Schedule or None
        If ``eta0`` is a number: ``"sqrt"`` for ``eta0 / sqrt(t)`` (the default), ``"constant"``, or
        ``"inverse-time"`` for ``eta0 / t``.
    average : str, Average or None
        Averaging of iterates: ``"quadratic"`` weights the iterate of round t by t^2; ``"recent"``
        by ``t^2 exp(sqrt(t) / 3)``; ``"auto"`` is "recent" in streams that are tested for drift,
        else "quadratic"; ``"uniform"``; ``"uniform:start=1000"``; ``"polynomial:power=4"``;
        ``None`` or ``"last"`` use the last iterate.
    class_weight : None, "balanced" or dict
        Weights of the labels, as in scikit-learn. The weight of a sequence is the mean over its
        labels. "balanced" requires ``fit`` on data in memory.
    transitions : {"free", "regularized", None}
        Scores of pairs of neighbouring labels: not regularized, an additional regularized group, or
        none, which is much faster for hundreds of labels.
    allowed_transitions : {"BIO", "BIOES"}, dict, array of shape (K, K) or None
        Allowed pairs of consecutive labels, in training and prediction; None allows all. The name
        of a chunking scheme (also "IOB2", "IOBES", "BILOU") is for labels such as ``O``, ``B-PER``,
        ``I-PER``: an inside label must continue a chunk of its type. A dict maps a label to the
        list of allowed next labels, and None to the list of allowed first labels; labels that are
        not keys can be followed by any label. In a matrix, in the order of ``classes_``, True means
        that the label of the column may follow the label of the row.
    transitions_by_position : bool
        Whether transitions depend on the position, for outputs of a fixed format such as dates.
    order : {1, 2}
        2 adds scores of trigrams of labels, in O(n K^3) time. Useful for few labels, such as the
        letters of words.
    cost : array of shape (K, K), optional
        ``cost[gold, predicted]`` in the order of ``classes_``; 1 for every wrong label by default.
    radius : float, "auto" or None
        Radius of the ball onto which every iterate is projected. "auto" is a radius that is
        guaranteed to contain the solution.
    shuffle : bool
        Shuffle the sequences in every epoch. The order of a file usually costs accuracy.
    early_stopping : bool
        Hold out ``validation_fraction`` of the sequences. Stop when the token accuracy on these has
        not improved for ``n_iter_no_change`` epochs, and return to the model of the best epoch.
    validation_fraction : float in (0, 1)
    n_iter_no_change : int > 0
    n_examples : float, optional
        The number m in ``C = 1 / (lambda m)``. By default the (weighted) number of training
        sequences, or in ``partial_fit`` of the sequences seen so far.
    budget : int > 0, optional
        Maximum number of support vectors, shared by all kernels stored as dual expansions, which
        bounds memory and time per round. When it is reached, a new support vector replaces the
        least important one, whose contribution is projected onto the others (O(budget^2) time and
        memory per kernel).
    cache_size : float
        Megabytes for Gram matrices of kernels, and the same amount for the features of approximated
        kernels. Rows that do not fit are computed on demand. 0 computes all kernel values on
        demand, like ``partial_fit``.
    dtype : {"auto", "float32", "float64"}
        Precision of Gram matrices and cached potentials. "auto" is double precision for small Gram
        matrices, else single precision.
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

    _constraints = {**OnlineEstimator._constraints, **labeling.CONSTRAINTS}
    _plain_attributes = (*OnlineEstimator._plain_attributes, "temperature_")
    example_kind = "sequences"

    kernels: Any = field(default=None, kw_only=False)
    loss: Any = "softmax-margin:cost_weight=2"
    C: float | str = 30.0
    epochs: int | str = "auto"
    lexicons: Mapping[str, LexiconSource] | None = None
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

    fit = labeling.fit
    partial_fit = labeling.partial_fit
    predict = labeling.predict
    predict_nbest = labeling.predict_nbest
    decision_function = labeling.decision_function
    predict_marginals = labeling.predict_marginals
    calibrate = labeling.calibrate
    score = labeling.score

    def _codec(self, classes: Sequence | str | None = None) -> ChainCodec:
        return ChainCodec(ChainOutputs(self, classes), self, self.lexicons)

    def _task(self) -> Task:
        return Task(self._codec(), self._read)

    def _read(self, block: TrainingBlock, first: bool, whole: bool = False) -> TokenData:
        return labeling.read_training(self, ChainCodec.read, block, first, whole)

    def _read_known(self, block: TrainingBlock) -> TokenData:
        return ChainCodec.read(block, column_names_of(self))

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
        return labeling.explain_labels(self.model_, x, labels, against, token, n)

    def evaluate(
        self, X: Sequences, y: LabelSequences = None, *, scheme: str | None = None
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
        return evaluate_labels(*labeling.gold_and_predicted(self, X, y), scheme=scheme)

    # ---- learned attributes ----------------------------------------------------------------------

    @property
    def transitions_(self) -> np.ndarray:
        """Scores of label ``i`` followed by ``j`` in the averaged model: (K, K), or (positions, K,
        K).
        """
        table = next(
            (bank.table for bank in self.predictor_.banks if isinstance(bank, TransitionBank)), None
        )
        if table is None:
            return np.zeros((len(self.classes_), len(self.classes_)))
        return table if self.model_.codec.structure.by_position else table[0]

    @property
    def trigrams_(self) -> np.ndarray:
        """Scores of labels ``i``, ``j``, ``k`` in a row in the averaged model, (K, K, K); zeros
        with ``order=1``.
        """
        table = next(
            (bank.table for bank in self.predictor_.banks if isinstance(bank, TrigramBank)), None
        )
        return np.zeros((len(self.classes_),) * 3) if table is None else table

    # ---- model files -----------------------------------------------------------------------------

    def _restore(self, manifest: Manifest, unpacker: Unpacker) -> None:
        super()._restore(manifest, unpacker)
        self.lexicons = self.model_.parameters["lexicons"] = (
            self.model_.codec.encoder.lexicons or None
        )
