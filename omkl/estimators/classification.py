"""OnlineMKLClassifier: one label for one input, on the same trainer as the sequence labeler."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.extmath import softmax
from sklearn.utils.metaestimators import available_if

from omkl.estimators.base import OnlineEstimator, needs_probabilities
from omkl.estimators.classes import ScoringClassifier
from omkl.estimators.encoding import is_pairwise, takes_sparse
from omkl.estimators.explaining import ExplainsClasses
from omkl.estimators.inputs import TokenData, read_rows, row_potentials
from omkl.estimators.outputs import ClassOutputs, checked_classes
from omkl.estimators.sources import TrainingBlock, blocks_of
from omkl.estimators.token_codec import TokenCodec
from omkl.online import Hedge


class OnlineMKLClassifier(ExplainsClasses, ScoringClassifier, OnlineEstimator):
    """Classifier whose combination of kernels is learned online; binary and multiclass.

    ``X`` is an array of shape (n, d), a scipy sparse matrix (for explicit linear groups and Fourier features), or a
    list of n dicts as described at :class:`~omkl.SequenceLabeler`, whose parameters it shares. With two classes a
    single potential is learned, with K > 2 one for each class.

    Parameters
    ----------
    kernels : list, dict or None
        None takes linear, quadratic and Gaussian kernels on arrays, and linear on sparse matrices. With
        ``["precomputed"]`` X is a Gram matrix, see :class:`~omkl.kernels.Precomputed`.
    loss, regularizer, weighting, C, epochs, method, eta0, schedule, average, radius, early_stopping, \
validation_fraction, n_iter_no_change, n_examples, budget, budget_maintenance, cache_size, dtype, \
callbacks, verbose, random_state
        As for :class:`~omkl.SequenceLabeler`; examples take the place of sequences.
    class_weight : None, "balanced" or dict
        Weights of the classes, as in scikit-learn; "balanced" is for ``fit`` on data that are all at hand.
    cost : array of shape (K, K), optional
        ``cost[gold, predicted]`` in the order of ``classes_``, for three classes and more.
    fit_intercept : bool
        Learn a constant for every class, not regularized.
    n_jobs : int or None
        Threads that compute Gram matrices, predict, each some of the rows, and train, each some of the shards that
        ``fit`` is asked for; None is one, -1 one for each core. The bits do not depend on it.
    shuffle : bool
        Present the examples in a fresh random order every epoch. The order then depends on ``random_state`` and on
        the examples, not on the order of the rows.

    Attributes
    ----------
    classes_ : array of shape (K,)
    kernel_weights_ : dict of str to float
        The learned weight of each group, in [0, 1], summing to 1.
    history_ : list of dict
        A record an epoch.
    n_iter_ : int
        Epochs run.
    n_features_in_ : int
        Columns of X.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(OnlineMKLClassifier(random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    def __init__(
        self, kernels: Any = None, *, loss: Any = "hinge", regularizer: Any = "mkl", weighting: str = "auto",
        C: float = 1.0, epochs: int = 20,
        method: str | Hedge = "fobos", eta0: float | str = "auto", schedule: Any = None, average: Any = "quadratic",
        class_weight: Any = None, fit_intercept: bool = True, cost: Any = None, radius: float | str | None = None,
        shuffle: bool = True, early_stopping: bool = False, validation_fraction: float = 0.1,
        n_iter_no_change: int = 5, n_examples: float | None = None,
        batch_size: int = 1, l2: float = 0.0, budget: int | None = None,
        budget_maintenance: str = "projection", cache_size: float = 4000, dtype: Any = "auto",
        n_jobs: int | None = None, callbacks: Any = None, verbose: bool = False, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.kernels = kernels
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
        self.fit_intercept = fit_intercept
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
    ) -> "OnlineMKLClassifier":  # fmt: skip
        """Train from scratch.

        Parameters
        ----------
        X : array of shape (n, d), sparse matrix, list of dicts, or stream
            A stream is a :class:`omkl.data.Stream` or any iterator of pairs ``(x, y)``, see
            :meth:`omkl.SequenceLabeler.fit`; it brings its classes along.
        y : array of shape (n,), optional
        sample_weight : array of shape (n,), optional
            How often each example counts: an integer is that many copies.
        classes : array or "growing", optional
            All classes that there are, if more than the examples have, or those to come in a stream: see
            :meth:`partial_fit`.
        validation, checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

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
        return self._fit(self._codec(classes), self._reader(), X, y, sample_weight, running, validation=validation)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> "OnlineMKLClassifier":
        """One round of training for each example, in the given order.

        Kernels learn their widths, and the model its classes, from the first call.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`; a stream is passed over once.
        classes : array or "growing", optional
            All classes that will ever come, at the first call; the classes of its ``y`` by default. "growing" takes
            in new ones as they come, after the others in ``classes_``.

        Returns
        -------
        self
        """
        return self._partial_fit(self._codec(classes), self._reader(), X, y, sample_weight, classes=_declared(classes))

    def decision_function(self, X: Any) -> np.ndarray:
        """Potentials: (n,) with two classes, positive for ``classes_[1]``; (n, K) with more, or a single one."""
        unary = row_potentials(self, X)
        if unary.shape[1] == 2 == len(self.classes_):  # with costs, and where classes grow, each class has its own
            return unary[:, 1] - unary[:, 0]
        return unary[:, 0] if unary.shape[1] == 1 < len(self.classes_) else unary

    @available_if(needs_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, (n, K). Only for ``loss="crf"``."""
        scores = self.decision_function(X)
        return softmax(np.column_stack([-0.5 * scores, 0.5 * scores]) if scores.ndim == 1 else scores)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy in [0, 1]; of a stream, which brings its labels along, without holding it."""
        right = total = 0.0
        for block in blocks_of(X, y, sample_weight):
            predicted = self.predict(block.X)
            size = float(len(predicted) if block.sample_weight is None else np.sum(block.sample_weight))
            right += size * accuracy_score(block.y, predicted, sample_weight=block.sample_weight)
            total += size
        return right / total

    def _read_known(self, block: TrainingBlock) -> TokenData:
        return read_rows(self, checked_classes, None, block, first=False)

    def _codec(self, classes: Any = None) -> TokenCodec:
        return TokenCodec(ClassOutputs(self.fit_intercept, self.cost, _declared(classes)), self)

    def _reader(self) -> Callable:
        return partial(read_rows, self, checked_classes, self.class_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernels)
        tags.input_tags.pairwise = is_pairwise(self.kernels)
        return tags


def _declared(classes: Any) -> Any:
    """Classes as labels of Python."""
    return classes if classes is None or isinstance(classes, str) else np.asarray(classes).tolist()
