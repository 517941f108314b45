"""SequenceLabeler: a label for every token, with groups of features or kernels whose combination is learned."""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from omkl.data import read_crfsuite_model
from omkl.estimators.calibration import chain_temperature
from omkl.estimators.explaining import ExplainsSequences
from omkl.estimators.foreign import adopted_crfsuite
from omkl.estimators.inputs import read_labeled
from omkl.estimators.labelings import PredictsLabels
from omkl.estimators.outputs import ChainOutputs
from omkl.estimators.token_codec import TokenCodec
from omkl.estimators.token_templates import TokenTemplates
from omkl.groups import TransitionBank, TrigramBank
from omkl.online import Hedge


class SequenceLabeler(ExplainsSequences, PredictsLabels):
    """Chain labeler whose combination of kernels or feature templates is learned online.

    ``X`` is a list of sequences, ``y`` a list of sequences of labels, any hashable. A sequence of n tokens is

    * a list of n words, strings: they have the features of :func:`omkl.features.token_features`, each a group;
    * a list of n dicts. A string gives the feature ``key=value``, a number the feature ``key`` with that value, a
      boolean 1 or 0, a list or set of strings one feature each, and every such key is a group; an array, or a list of
      numbers, is a view for kernels to act on;
    * a list of n lists or dicts of columns, strings that ``templates`` make features of;
    * a list of n lists of attributes as CRFsuite has them, strings such as ``"w=the"``, each a feature of value 1. What
      stands before ``=`` is the group;
    * or an array of shape (n, d).

    A label that is None is not known: the model learns from the others, whatever that one may be.

    Parameters
    ----------
    kernels : list, dict or None
        Kernels, by object (:mod:`omkl.kernels`), as a function of two arrays, or by string: ``"linear"``,
        ``"quadratic"``, ``"cubic"``, ``"gaussian:sigma2=5"``, ``"laplacian"``, ``"chi2"``, ``"b1:density=0.05"``,
        ``"precomputed"``. Each is a group; a dict names them. None takes linear, quadratic and Gaussian on arrays,
        and linear on every array in dicts. ``"gaussian:sigma2=5,features=2000"`` approximates a kernel by random
        Fourier features and ``"chi2:features=500"`` by the Nyström method: such a group costs the same on a stream
        however long it is, while a kernel's grows with its mistakes.
    templates : path, list of str or None
        Templates of CRF++, as a file or its lines, for tokens that are columns of text (words, or lists or dicts of
        strings): ``"U05:%x[-1,0]/%x[0,1]"`` is a group of features, each the first column of the token before beside
        the second of this one. See :func:`omkl.data.read_attribute_templates`. Not beside ``kernels``.
    loss : {"hinge", "crf", "softmax-margin", "perceptron"} or StructuredLoss
        Structured SVM, conditional random field, the same with the cost of outputs as a margin, or structured
        perceptron.
    regularizer : str, Regularizer or None
        ``"mkl"`` learns a sparse combination (squared mixed norm), ``"group-lasso"``, ``"elastic-net:mu=0.5"``,
        ``"lq:q=1.5"`` and others are in :mod:`omkl.regularizers`; ``"l2"`` weights all groups alike.
    weighting : {"auto", "out-of-sample", "norms"}
        Which groups may be in the model. "norms" is Algorithm 1 of the paper as it stands: the regularizer alone
        chooses, by how well groups fit the training data, and kernels fit them that tell examples apart without saying
        anything about others. "out-of-sample" tests every regularized group in the first epoch, on examples that the
        model has not learned from yet (:class:`~omkl.online.evidence.Evidence`), and leaves out those that do not help
        there: their weight is 0. Of useless groups, however many, half of one passes on average; where none passes,
        all stay. The others are trained as the regularizer and the method say, and begin anew after the first epoch if
        more than a tenth of the weight was on what is left out; where all pass, training is that of "norms", bit for
        bit. Examples that are met once, by ``partial_fit`` or with ``epochs=1``, are another matter: the weights of
        ``regularizer="mkl"`` then come from Hedge, which goes on learning them, with a bound on its regret
        (:class:`~omkl.online.weighting.OutOfSampleWeights`), and ``partial_fit`` leaves nothing out for good. "auto" is
        "out-of-sample" where the regularizer selects groups, as "mkl" and "group-lasso" do, and "norms" with others.
    C : float > 0
        Weight of the losses, ``1 / (lambda m)`` for m training sequences: larger fits closer.
    epochs : int > 0
        Passes over the data.
    method : {"fobos", "rda", "hedge", "omkc", "raker", "adaraker"} or Hedge
        Forward-backward splitting, the paper's Algorithm 1, or regularized dual averaging, whose iterates are truly
        group-sparse. The others learn each kernel by itself, not along one gradient, and combine what is learned by
        Hedge, ``kernel_weights_``: see :class:`~omkl.online.Hedge`. They take kernels alone, no sparse features of
        dicts, and no shards; ``budget`` and ``loss`` are those of each learner.
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
        Which labels may follow which, in training and prediction; None allows all. The name of a scheme of chunks
        (also "IOB2", "IOBES", "BILOU") is for labels such as ``O``, ``B-PER``, ``I-PER``: an inside must follow the
        beginning of its own chunk. A dict gives for a label the list of those that may follow it, and for None the
        list of those that may begin a sequence; what is no key may be followed by any. A matrix has True where the
        label of the column may follow that of the row, in the order of ``classes_``.
    transitions_by_position : bool
        Whether each position has transitions of its own, for outputs of a fixed format such as dates.
    order : {1, 2}
        2 scores labels with the two before them as well, by a table of K^3 trigrams, in O(n K^3): worth it where few
        labels follow each other in a way that pairs do not tell, as letters in words do.
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
    batch_size : int > 0
        Examples whose gradients make one step together, at the same parameters, with one proximal step after it.
    l2 : float >= 0
        Makes every loss strongly convex: ``l2 / 2`` times the squared norm of all parameters is added to it, and is a
        part of the gradient step, not of the proximal one. ``eta0="auto"`` then means the rates ``1 / (l2 t)``;
        ``method="fobos"`` only.
    budget : int > 0, optional
        The largest number of support vectors that kernels held as dual expansions may have, all together: memory and
        the time of a round are then bounded, on streams as in ``fit``. None sets no bound. Kernels with few features,
        which are held explicitly, need none.
    budget_maintenance : {"projection", "removal"}
        What becomes of the support vector that matters least when another needs its place: its part of every group is
        projected onto the others, or removed. Projection takes O(budget^2) time and memory a kernel, removal
        O(budget); but a projected model of 200 support vectors is more accurate than one of 1000 with removal, in
        about the same time.
    cache_size : float
        Megabytes for Gram matrices of kernel groups, and as many for the features of approximated kernels; where they
        do not fit, their rows are computed on demand. 0 computes every kernel value when it is needed, as
        ``partial_fit`` does, and as is done on a budget.
    dtype : {"auto", "float32", "float64"}
        Precision of Gram matrices and cached potentials. "auto" takes double precision while they are small.
    n_jobs : int or None
        Threads that compute Gram matrices, predict, each some of the sequences, and train, each some of the shards that
        ``fit`` is asked for; None is one, -1 one for each core. The bits do not depend on it.
    callbacks : list of callable, optional
        Called after every epoch as ``callback(trainer, record)``; a true value stops training. Where one has them, so
        are ``on_round(trainer, step)`` and others, see :class:`~omkl.online.TrainingLoop`.
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
        and more, see :meth:`omkl.online.TrainingLoop.run`; :func:`omkl.online.to_frame` makes a table of it.
    n_iter_ : int
        Epochs run.
    temperature_ : float or None
        What scores are divided by to make probabilities of them; None where the model is not calibrated.

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

    def __init__(
        self, kernels: Any = None, *, templates: Any = None, loss: Any = "hinge", regularizer: Any = "mkl",
        weighting: str = "auto", C: float = 1.0, epochs: int = 20,
        method: str | Hedge = "fobos", eta0: float | str = "auto", schedule: Any = None, average: Any = "quadratic",
        class_weight: Any = None, transitions: str | None = "free", allowed_transitions: Any = None,
        transitions_by_position: bool = False, order: int = 1,
        cost: Any = None, radius: float | str | None = None, shuffle: bool = True, early_stopping: bool = False,
        validation_fraction: float = 0.1, n_iter_no_change: int = 5, n_examples: float | None = None,
        batch_size: int = 1, l2: float = 0.0,
        budget: int | None = None, budget_maintenance: str = "projection", cache_size: float = 4000,
        dtype: Any = "auto", n_jobs: int | None = None, callbacks: Any = None, verbose: bool = False,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.kernels = kernels
        self.templates = templates
        self.loss = loss
        self.regularizer = regularizer
        self.weighting = weighting
        self.C = C
        self.epochs = epochs
        self.method = method
        self.eta0 = eta0
        self.schedule = schedule
        self.average = average
        self.class_weight = class_weight
        self.transitions = transitions
        self.allowed_transitions = allowed_transitions
        self.transitions_by_position = transitions_by_position
        self.order = order
        self.cost = cost
        self.radius = radius
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_examples = n_examples
        self.batch_size = batch_size
        self.l2 = l2
        self.budget = budget
        self.budget_maintenance = budget_maintenance
        self.cache_size = cache_size
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None, validation: Any = None,
        checkpoint: Any = None, checkpoint_every: str | float = "60s", resume: bool = False, client: Any = None,
        shards: int | None = None,
    ) -> "SequenceLabeler":  # fmt: skip
        """Train from scratch.

        Parameters
        ----------
        X : list of sequences, or stream
            A stream, a :class:`omkl.data.Stream` or any iterator of pairs ``(x, y)``, is learned block by block, as by
            :meth:`partial_fit`, ``epochs`` times, and never held whole; ``history_`` then has the records of
            :class:`~omkl.online.ProgressiveValidation`. An iterator can be passed over once: ``epochs=1``.
        y : list of sequences of labels, optional
            A stream brings them along.
        sample_weight : array of shape (number of sequences,), optional
            How often each sequence counts: an integer is that many copies. Not for streams.
        classes : sequence of labels or "growing", optional
            All labels that there are, if more than the sequences have, or those to come in a stream: see
            :meth:`partial_fit`.
        validation : pair (X, y), optional
            What ``early_stopping`` looks at after every epoch, instead of a part of the training data. Streams have it
            as well: all labels in it must then be known from training.
        checkpoint : path-like, optional
            A directory for the states of this run; see :class:`~omkl.online.Checkpoints`. A run that was killed and
            is resumed gives the same bytes as one that was not. Callbacks take part if they have ``state()``.
        checkpoint_every : str or float
            Seconds, ``"5m"``, ``"2h"`` or ``"1000 rounds"``.
        resume : bool
            Go on from the latest checkpoint in that directory; begin where there is none.
        client : dask.distributed.Client, optional
            Train in shards on its workers, by iterative parameter mixing: see :mod:`omkl.distributed.mixing`.
        shards : int, optional
            Number of shards; the number of the client's workers by default. Without a client the same shards are
            trained here, on ``n_jobs`` threads, to the same bits; a warning says where that is expected to take longer
            than plain training. Kernels that are held as dual expansions are then
            computed when they are needed, as with ``cache_size=0``.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or the data is not as described; the model stays what it was.
        """
        running = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        running |= {"client": client, "shards": shards}
        temperatures: list[float | None] = [None]

        def calibrate(model: Any, examples: Any, chosen: np.ndarray, *others: Any) -> None:
            held_out = examples.only(np.setdiff1d(np.arange(examples.n_inputs), chosen), weighted=False)
            if not model.settings.probabilistic:
                predictor = model.predictor()
                pairs = ((predictor.potentials(x), gold) for x, gold, _ in held_out)
                temperatures.append(chain_temperature(predictor.structure, pairs))

        read = partial(read_labeled, self)
        finish = calibrate if self.early_stopping else None  # without it nothing is held out
        self._fit(self._codec(classes), read, X, y, sample_weight, running, finish=finish, validation=validation)
        self.temperature_ = temperatures[-1]
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> "SequenceLabeler":
        """One round of training for each sequence, in the given order.

        Kernels learn their widths, and the model its labels, from the first call.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`; a stream is passed over once.
        classes : sequence of labels or "growing", optional
            All labels that will ever come, at the first call; the labels of its ``y`` by default. "growing" takes in
            new ones as they come, after the others in ``classes_``.

        Returns
        -------
        self
        """
        self.temperature_ = None
        return self._partial_fit(
            self._codec(classes), partial(read_labeled, self), X, y, sample_weight, classes=classes
        )

    @classmethod
    def from_crfsuite(cls, path: Any, keys: Sequence[str] | None = None) -> "SequenceLabeler":
        """A labeler that predicts what a model of CRFsuite does.

        Parameters
        ----------
        path : path-like
            A model file of CRFsuite 0.12, python-crfsuite or sklearn-crfsuite.
        keys : sequence of str, optional
            The keys of the dicts that the model was trained on: CRFsuite makes the attribute ``word:the`` of the entry
            ``{"word": "the"}``, and which colon is between key and value cannot be told. Not for models that were
            trained on lists of attributes: what stands before ``=`` is then the name of the group.

        Returns
        -------
        SequenceLabeler
            With ``loss="crf"``; it takes the lists of attributes, or the dicts, that CRFsuite does, and has the same
            marginals.

        Raises
        ------
        omkl.exceptions.DataFileError
            If the file is no model of CRFsuite, or damaged.
        """
        labeler = cls(loss="crf", regularizer="l2", average=None)
        labeler._adopt(adopted_crfsuite(labeler, read_crfsuite_model(path), keys))
        labeler.n_iter_, labeler.history_, labeler.temperature_ = 0, [], None
        return labeler

    _plain_attributes = (*PredictsLabels._plain_attributes, "temperature_")

    def _saved_parameters(self) -> dict[str, Any]:
        templates = None if self.templates is None else self._token_templates().pairs
        return {**super()._saved_parameters(), "templates": templates}

    def _token_templates(self) -> TokenTemplates:
        """The templates, of a fitted model those that it has learned with, whatever is in the file by now."""
        learned = vars(self)["model_"].codec.encoder.templates if "model_" in vars(self) else None
        is_path = isinstance(self.templates, (str, os.PathLike))
        return learned if is_path and learned is not None else TokenTemplates(self.templates)

    @property
    def transitions_(self) -> np.ndarray:
        """Scores of label ``i`` followed by ``j`` in the averaged model: (K, K), or (positions, K, K)."""
        table = self._averaged_table(TransitionBank)
        if table is None:
            return np.zeros((len(self.classes_), len(self.classes_)))
        return table if self.structure_.by_position else table[0]

    @property
    def trigrams_(self) -> np.ndarray:
        """Scores of labels ``i``, ``j``, ``k`` in a row in the averaged model, (K, K, K); zeros with ``order=1``."""
        table = self._averaged_table(TrigramBank)
        return np.zeros((len(self.classes_),) * 3) if table is None else table

    def _averaged_table(self, kind: Any) -> Any:
        found = [(weight, bank) for weight, part in self.predictor_.parts for bank in part.banks]
        tables = [weight * bank.table for weight, bank in found if type(bank) is kind]
        return sum(tables) if tables else None

    def _codec(self, classes: Any = None) -> TokenCodec:
        allowed = self.allowed_transitions
        outputs = ChainOutputs(self.transitions, self.transitions_by_position, self.cost, classes, allowed, self.order)
        return TokenCodec(outputs, self)
