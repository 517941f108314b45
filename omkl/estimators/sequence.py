"""SequenceLabeler: a label for every token, with groups of features or kernels whose combination is learned."""

import numpy as np
from sklearn.utils.metaestimators import available_if

from omkl.estimators.base import is_probabilistic
from omkl.estimators.columns import keep_names
from omkl.estimators.encoding import flatten, names_in
from omkl.estimators.examples import check_sample_weight
from omkl.estimators.labeling import LabelEstimator
from omkl.estimators.labels import flat_labels
from omkl.estimators.runs import begin_run, running_options
from omkl.estimators.streaming import as_stream, refuse_for_stream
from omkl.exceptions import InputError
from omkl.groups import TransitionBank
from omkl.structures import Chain


class SequenceLabeler(LabelEstimator):
    """First-order chain labeler whose combination of kernels or feature templates is learned online.

    ``X`` is a list of sequences. A sequence is an array of shape (n, d), or a list of n dicts, one a token. In a
    dict, a string gives the feature ``key=value``, a number the feature ``key`` with that value, a boolean 1 or 0, a
    list or set of strings one feature each, and every such key is a group; an array is a view for kernels to act on.
    ``y`` is a list of sequences of labels, any hashable.

    Parameters
    ----------
    kernels : list, dict or None
        Kernels, by object (:mod:`omkl.kernels`), as a function of two arrays, or by string: ``"linear"``,
        ``"quadratic"``, ``"cubic"``, ``"gaussian:sigma2=5"``, ``"laplacian"``, ``"chi2"``, ``"b1:density=0.05"``,
        ``"precomputed"``. Each is a group; a dict names them. None takes linear, quadratic and Gaussian on arrays,
        and linear on every array in dicts. ``"gaussian:sigma2=5,features=2000"`` approximates a kernel by random
        Fourier features and ``"chi2:features=500"`` by the Nyström method: such a group costs the same on a stream
        however long it is, while a kernel's grows with its mistakes.
    loss : {"hinge", "crf", "perceptron"} or StructuredLoss
        Structured SVM, conditional random field, or structured perceptron.
    regularizer : str, Regularizer or None
        ``"mkl"`` learns a sparse combination (squared mixed norm), ``"group-lasso"``, ``"elastic-net:mu=0.5"``,
        ``"lq:q=1.5"`` and others are in :mod:`omkl.regularizers`; ``"l2"`` weights all groups alike.
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
    transitions : {"free", "regularized", None}
        Scores of neighbouring labels: not regularized, one more group of the regularizer, or left out.
    transitions_by_position : bool
        Whether each position has transitions of its own, for outputs of a fixed format such as dates.
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
    callbacks : list of callable, optional
        Called after every epoch as ``callback(trainer, record)``; a true value stops training. Where one has them, so
        are ``on_round(trainer, step)`` after every round and, in shards, ``on_pass(trainer, loss, rounds)`` after
        every mix; a callback that has only the former is refused there.
    verbose : bool
        Show a progress bar when training takes longer than a second, on a terminal.
    random_state : int, Generator, RandomState or None
        The same seed gives the same model, bit for bit.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The labels.
    kernel_weights_ : dict of str to float
        The learned weight of each group, in [0, 1], summing to 1.
    history_ : list of dict
        A record an epoch: ``loss``, ``objective``, ``norms``, ``kernel_weights`` and more, see
        :meth:`omkl.online.OnlineTrainer.fit`.
    n_iter_ : int
        Epochs run.

    References
    ----------
    Martins, Smith, Xing, Aguiar, Figueiredo: *Online Multiple Kernel Learning for Structured Prediction* (2011),
    Algorithms 1 and 3.

    Examples
    --------
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]]
    >>> y = [["DET", "NOUN"], ["DET", "NOUN"]]
    >>> labeler = SequenceLabeler(random_state=0).fit(X, y)
    >>> labeler.predict([[{"word": "a"}, {"word": "dog"}]])[0].tolist()
    ['DET', 'NOUN']
    """

    def __init__(
        self, kernels=None, loss="hinge", regularizer="mkl", C=1.0, epochs=20, method="fobos", eta0="auto",
        schedule=None, average="quadratic", transitions="free", transitions_by_position=False, cost=None,
        radius=None, shuffle=True, early_stopping=False, validation_fraction=0.1, n_iter_no_change=5, n_examples=None,
        budget=None, budget_maintenance="projection", cache_size=4000, dtype="auto", callbacks=None, verbose=True,
        random_state=None,
    ):  # fmt: skip
        self.kernels = kernels
        self.loss = loss
        self.regularizer = regularizer
        self.C = C
        self.epochs = epochs
        self.method = method
        self.eta0 = eta0
        self.schedule = schedule
        self.average = average
        self.transitions = transitions
        self.transitions_by_position = transitions_by_position
        self.cost = cost
        self.radius = radius
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_examples = n_examples
        self.budget = budget
        self.budget_maintenance = budget_maintenance
        self.cache_size = cache_size
        self.dtype = dtype
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X, y=None, sample_weight=None, *, classes=None, checkpoint=None, checkpoint_every="60s", resume=False,
        client=None, shards=None,
    ):  # fmt: skip
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
            How often each sequence counts; see :class:`~omkl.estimators.examples.Examples`. Not for streams.
        classes : sequence of labels or "growing", optional
            All labels that there are, if more than the sequences have, or those to come in a stream: see
            :meth:`partial_fit`.
        checkpoint : path-like, optional
            A directory for the states of this run; see :class:`~omkl.online.Checkpoints`. A run that was killed and
            is resumed gives the same bytes as one that was not. Callbacks take part if they have ``state()``.
        checkpoint_every : str or float
            Seconds, ``"5m"``, ``"2h"`` or ``"1000 rounds"``.
        resume : bool
            Go on from the latest checkpoint in that directory; begin where there is none.
        client : dask.distributed.Client, optional
            Train in shards on its workers, by iterative parameter mixing: see :mod:`omkl.online.mixing`.
        shards : int, optional
            Number of shards; the number of the client's workers by default. Without a client the same shards are
            trained here, one after the other, to the same bits. Kernels that are held as dual expansions are then
            computed when they are needed, as with ``cache_size=0``.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or the data is not as described; the model stays what it was.
        """
        running = running_options(checkpoint, checkpoint_every, resume, client, shards)
        stream = as_stream(X, y)
        if stream is not None:
            refuse_for_stream(sample_weight=sample_weight)
            return self._fit_stream(stream, {"classes": classes}, running)
        self._resolve()
        keep_names(self, names_in(X), reset=True)
        tokens, offsets, flat = self._check_pair(X, y)
        weights = check_sample_weight(sample_weight, len(offsets) - 1)
        self._fit(tokens, offsets, flat, classes, weights, begin_run(self, self._rng(), **running))
        return self

    def partial_fit(self, X, y=None, classes=None, sample_weight=None):
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
        stream = as_stream(X, y)
        if stream is not None:
            refuse_for_stream(sample_weight=sample_weight)
            return self._partial_fit_stream(stream, {"classes": classes})
        self._resolve()
        keep_names(self, names_in(X), reset=not hasattr(self, "_trainer"))
        tokens, offsets, flat = self._check_pair(X, y)
        weights = check_sample_weight(sample_weight, len(offsets) - 1)
        return self._partial_fit(tokens, offsets, flat, classes, weights)

    def predict(self, X):
        """Best labels of each sequence: a list of arrays of labels."""
        predictor = self.predictor_
        tokens, offsets = flatten(X, names=self._column_names)
        labels = predictor.decode(self._encoder.encode(tokens, offsets))
        return np.split(self.classes_[labels], offsets[1:-1])

    def decision_function(self, X):
        """Unary potentials of each sequence: a list of arrays (n, K), the score of each label without transitions."""
        return [potentials.unary for potentials in self._potentials(X)]

    @available_if(is_probabilistic)
    def predict_marginals(self, X):
        """Probability of each label at each token: a list of arrays (n, K) with rows that sum to 1.

        Only for ``loss="crf"``.
        """
        return [
            self.structure_.marginals(potentials)[1].unary if len(potentials.unary) else potentials.unary
            for potentials in self._potentials(X)
        ]

    def _potentials(self, X):
        """Potentials of one sequence after the other."""
        predictor = self.predictor_
        tokens, offsets = flatten(X, names=self._column_names)
        for block, potentials in predictor.blocks(self._encoder.encode(tokens, offsets)):
            for low, high in zip(block.offsets[:-1], block.offsets[1:]):
                yield self.structure_.part(potentials, low, high)

    def score(self, X, y, sample_weight=None):
        """Token accuracy in [0, 1].

        Raises
        ------
        omkl.exceptions.InputError
            If ``y`` does not fit ``X``, or holds a label that was not seen in training.
        """
        predictor = self.predictor_
        tokens, offsets, flat = self._check_pair(X, y)
        weights = check_sample_weight(sample_weight, len(offsets) - 1)
        gold = self._outputs.encode(flat, "it can never be predicted, so drop its sequence or train with it.")
        right = predictor.decode(self._encoder.encode(tokens, offsets)) == gold
        return float(np.average(right, weights=None if weights is None else np.repeat(weights, np.diff(offsets))))

    @property
    def transitions_(self):
        """Scores of label ``i`` followed by ``j`` in the averaged model: (K, K), or (positions, K, K)."""
        bank = self.predictor_.banks[-1]
        if not isinstance(bank, TransitionBank):
            return np.zeros((len(self._outputs), len(self._outputs)))
        return bank.table if self.transitions_by_position else bank.table[0]

    def _structure(self, labels):
        return Chain(len(labels), self.cost, by_position=self.transitions_by_position)

    def _other_banks(self, structure, n_outputs, n_positions, averaging):
        if self.transitions not in ("regularized", "free", None):
            raise InputError(f'transitions must be "regularized", "free" or None, not {self.transitions!r}.')
        if self.transitions is None:
            return [], []
        positions = n_positions if self.transitions_by_position else 1
        bank = TransitionBank(structure.n_labels, positions, averaging)
        return ([bank], []) if self.transitions == "regularized" else ([], [bank])

    @property
    def _column_names(self):
        """What the columns of data frames are called, in the model's order; None where they have no names."""
        return getattr(self, "feature_names_in_", None)

    def _check_pair(self, X, y):
        """Tokens, offsets and flat labels of sequences that must fit each other and not be empty."""
        tokens, offsets = flatten(X, names=self._column_names)
        lengths = np.diff(offsets)
        if not lengths.all():
            raise InputError(f"Sequence {int(np.argmin(lengths))} of X is empty: drop it.")
        return tokens, offsets, flat_labels(y, lengths)
