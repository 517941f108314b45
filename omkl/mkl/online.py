"""OnlineMKLClassifier and OnlineMKLRegressor: online learning of a class or a number per row."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.extmath import softmax
from sklearn.utils.metaestimators import available_if

from omkl._components import members_of
from omkl.estimators.batch import resolve_loss
from omkl.estimators.calibration import needs_probabilities
from omkl.estimators.explanations import Explanation, one_row
from omkl.estimators.online_explanations import explain_class, explain_number
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.targets import ClassOutputs, NumberOutputs
from omkl.estimators.token_codec import TokenCodec
from omkl.estimators.training import RunOptions, Task
from omkl.losses import PointwiseLoss, StructuredLoss
from omkl.mkl.rows import OnlineMKL, RowsLike, held_out_r2


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineMKLClassifier(ClassifierMixin, OnlineMKL):
    """Classifier that learns a combination of kernels online; binary and multiclass.

    ``X`` is an array of shape (n, d), a scipy sparse matrix (for explicit linear groups and Fourier
    features), or a list of n dicts as described in :class:`~omkl.SequenceLabeler`, with which it
    shares parameters. For two classes it learns a single potential, for K > 2 one per class.

    Parameters
    ----------
    kernels : list, dict or None
        None is linear, quadratic and two Gaussian kernels on standardized columns: of arrays, and
        of the numbers of frames and dicts. If a ``fit`` has up to 2,000 rows in memory, a quadratic
        kernel on columns divided by their ranges is added; for more rows, and in streams, each
        Gaussian kernel has 200 Fourier features, and there is no quadratic kernel of more than 30
        columns. A linear kernel on sparse matrices. Kernels that are given see columns as they are,
        unless they say ``standardize=True``.
    loss : str, StructuredLoss or PointwiseLoss
        "crf" has probabilities, and is as accurate as "hinge". For two classes also a
        :class:`~omkl.losses.PointwiseLoss` of classes, such as "squared-hinge", or your own.
    missing : {"indicator", "error"}
        Treatment of missing numbers, NaN or None: use the mean of the column, and add a group
        "missing" of features that say which columns are missing, if any is; or refuse them.
    C : float or "auto"
        As for :class:`~omkl.SequenceLabeler`, with another default.
    regularizer, weighting, epochs, method, learning_rate, average, radius, early_stopping, \
budget, callbacks, verbose, random_state
        As for :class:`~omkl.SequenceLabeler`; examples take the place of sequences. The order of
        shuffled examples depends on ``random_state`` and on the examples, not on their order.
    class_weight : None, "balanced" or dict
        Weights of the classes, as in scikit-learn; "balanced" needs ``fit`` with all data in
        memory.
    cost : array of shape (K, K), optional
        ``cost[gold, predicted]`` in the order of ``classes_``, for losses with a margin: "hinge"
        and "softmax-margin".
    fit_intercept : bool
        Whether to learn a constant for every class, which is not regularized.
    n_jobs : int or None
        Number of threads to compute Gram matrices, predict rows and train shards; None is one, -1
        one per core. Results do not depend on it.

    Attributes
    ----------
    classes_ : array of shape (K,)
    kernel_weights_ : dict of str to float
        The learned weight of each group, in [0, 1], summing to 1.
    history_ : list of dict
        A record per epoch.
    n_iter_ : int
        Number of epochs.
    n_features_in_ : int
        Number of columns of X.
    column_kinds_ : list of str or None
        Kind of each column of a data frame: "numbers", "dates", "durations", "text" or
        "identifier", and None where it is not known, as for numbers in streams. A column of
        identifiers is left out by ``fit``.
    column_scales_ : dict of str to (float, float)
        Mean and standard deviation of each column of numbers, by its name or position; learned from
        all rows of a ``fit``, and row by row from streams, before each row is learned.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(OnlineMKLClassifier(random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    loss: Any = "crf"
    C: float | str = 100.0
    class_weight: str | dict | None = None
    cost: ArrayLike | None = None

    classes_: np.ndarray = field(init=False)

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | str | None = None,
        validation: tuple | None = None,
        **run: Unpack[RunOptions],
    ) -> Self:
        """Train from scratch.

        Parameters
        ----------
        X : array of shape (n, d), sparse matrix, list of dicts, stream, or Dask collection
            With a collection of Dask (dataframe, array or bag), y and ``sample_weight`` are
            collections as well. A stream is a :class:`omkl.data.Stream` or any iterator of pairs
            ``(x, y)``, see :meth:`omkl.SequenceLabeler.fit`; it has its own classes.
        y : array of shape (n,), optional
        sample_weight : array of shape (n,), optional
            Weights of the examples; an integer weight is equivalent to as many copies.
        classes : array or "growing", optional
            All classes, if there are more than in the examples, or classes to come in a stream: see
            :meth:`partial_fit`.
        validation, checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

        Returns
        -------
        self
        """
        self._train(self._task(classes), TrainingBlock(X, y, sample_weight), validation, run)
        return self

    def partial_fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train one round on each example, in the given order.

        Kernels without ``standardize=True`` learn their widths, and the model its classes, from the
        first call.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`; one pass over a stream.
        classes : array or "growing", optional
            All classes that may ever occur, at the first call; the classes of its ``y`` by default.
            "growing" adds new classes as they occur, at the end of ``classes_``.

        Returns
        -------
        self
        """
        self._train_more(
            self._task(classes), TrainingBlock(X, y, sample_weight), _declared(classes)
        )
        return self

    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict the best class of each row of X, (n,).

        Parameters
        ----------
        X
            As for :meth:`fit`.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(np.int64)]
        return self.classes_[scores.argmax(axis=1)]

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return the potentials of the classes.

        Parameters
        ----------
        X
            As for :meth:`fit`.

        Returns
        -------
        array of shape (n,) for two classes, positive for ``classes_[1]``; (n, K) for more, or for a
        single one
        """
        potentials = self._row_potentials(X)
        if len(self.classes_) != 2:
            return potentials
        if potentials.shape[1] == 2:  # with costs, or growing classes, each class has a potential
            return potentials[:, 1] - potentials[:, 0]
        return potentials[:, 0]

    def explain(
        self, x: RowsLike, *, label: Hashable = None, against: Hashable = None, n: int = 20
    ) -> Explanation:
        """Explain the class of a row, compared with the next best class.

        The score of a class is a sum over groups, and over their features and support vectors. The
        parts of the explanation add up to the difference of two scores, the margin.

        Parameters
        ----------
        x : array of shape (d,), dict, or an input of :meth:`predict` with one row
        label, against : class, optional
            The class to explain, by default the predicted one, and the class to compare it with, by
            default the best of the others.
        n : int > 0
            Number of strongest features and support vectors to list.

        Returns
        -------
        omkl.Explanation
        """
        row = self._checked_rows(one_row(x), reset=False)
        return explain_class(self.model_, row, label, against, n)

    @available_if(needs_probabilities)
    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Predict the probability of each class, (n, K). Only for ``loss="crf"``, the default.

        Parameters
        ----------
        X
            As for :meth:`fit`.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:  # the two classes score -z / 2 and z / 2
            scores = np.column_stack([-0.5 * scores, 0.5 * scores])
        return softmax(scores)

    def score(
        self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy, in [0, 1].

        Of a stream only targets and predictions are kept in memory.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.
        """
        return self._score_rows(X, y, sample_weight)

    def _resolved_loss(self) -> Any:
        """Return a loss of structures, or a pointwise loss of two classes."""
        is_pointwise = isinstance(self.loss, PointwiseLoss)
        if isinstance(self.loss, str):
            name = self.loss.partition(":")[0].strip()
            is_pointwise = name not in members_of(StructuredLoss) and name in members_of(
                PointwiseLoss
            )
        if is_pointwise:
            return resolve_loss(self, links=False)
        return super()._resolved_loss()

    def _codec(self, classes: ArrayLike | str | None = None) -> TokenCodec:
        outputs = ClassOutputs(self.fit_intercept, self.cost, _declared(classes))
        return TokenCodec(outputs, self, missing=self.missing)

    def _task(self, classes: ArrayLike | str | None = None) -> Task:
        return Task(partial(self._codec, classes), self._read_rows)


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineMKLRegressor(RegressorMixin, OnlineMKL):
    r"""Regression that learns a combination of kernels online.

    .. math:: \min_\theta \frac{1}{m} \sum_i l\Bigl(y_i, \sum_k \theta_k^\top \phi_k(x_i) + b\Bigr)
        + \frac{1}{C m} R(\theta)

    ``X`` is an array of shape (n, d), a scipy sparse matrix (as for a classifier), or a list of n
    dicts as described in :class:`~omkl.SequenceLabeler`.

    Targets need not be centred or scaled: the model learns ``y - level_``, where ``level_`` is the
    median of the targets of ``fit``, or the first target of a stream, and an intercept for the
    rest. With the squared loss, ``learning_rate="auto"`` and the regularizers ``"mkl"`` and
    ``"l2"``, predictions scale with the targets. A numeric rate also suits the squared loss at any
    scale; for other losses, whose gradients do not scale with y, it is in units of y.

    Parameters
    ----------
    kernels : list, dict or None
        As for :class:`OnlineMKLClassifier`.
    loss : {"squared", "huber", "epsilon-insensitive"} or PointwiseLoss
        "huber:delta=0.5" and "epsilon-insensitive:epsilon=0.2" set their parameters, in units of y.
    missing
        As for :class:`OnlineMKLClassifier`.
    C : float or "auto"
        As for :class:`~omkl.SequenceLabeler`, with another default.
    regularizer, weighting, epochs, method, learning_rate, average, radius, early_stopping, budget
        As for :class:`~omkl.SequenceLabeler`; examples take the place of sequences. Early stopping
        uses R^2.
    callbacks, verbose, random_state
        As for :class:`~omkl.SequenceLabeler`.
    fit_intercept : bool
        Whether to learn a constant, which is not regularized; without it, ``level_`` is 0.
    n_jobs
        As for :class:`OnlineMKLClassifier`.

    Attributes
    ----------
    level_ : float
        Median of the targets of ``fit``, or first target of a stream: the model learns the
        difference.
    kernel_weights_, history_, n_iter_, n_features_in_, column_scales_
        As for :class:`OnlineMKLClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(300, 2))
    >>> y = np.sin(X[:, 0])
    >>> model = OnlineMKLRegressor(["gaussian:on=0:1", "gaussian:on=1:2"], random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.9)
    True
    >>> bool(model.kernel_weights_["gaussian:on=0:1"] > 0.8)
    True
    """

    loss: Any = "squared"
    C: float | str = 3.0

    level_: float = field(init=False)

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        validation: tuple | None = None,
        **run: Unpack[RunOptions],
    ) -> Self:
        """Train from scratch.

        Parameters
        ----------
        X, sample_weight
            As for :meth:`OnlineMKLClassifier.fit`.
        y : array of shape (n,), optional
            Finite targets; a stream has its own.
        validation, checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

        Returns
        -------
        self
        """
        self._train(self._task(), TrainingBlock(X, y, sample_weight), validation, run)
        return self

    def partial_fit(
        self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train one round on each example, in the given order.

        Kernels without ``standardize=True`` learn their widths from the first call, and the model
        the level of its targets from the first target.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`; one pass over a stream.

        Returns
        -------
        self
        """
        self._train_more(self._task(), TrainingBlock(X, y, sample_weight))
        return self

    def _task(self) -> Task:
        return Task(self._codec, self._read_rows, held_out_r2)

    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict the target of each row of X, (n,).

        Parameters
        ----------
        X
            As for :meth:`fit`.
        """
        return self._row_potentials(X)[:, 0] + self.level_

    def explain(self, x: RowsLike, *, n: int = 20) -> Explanation:
        """Explain the prediction for a row.

        Parameters
        ----------
        x : array of shape (d,), dict, or an input of :meth:`predict` with one row
        n : int > 0
            Number of strongest features and support vectors to list.

        Returns
        -------
        omkl.Explanation
            Its ``margin`` is the prediction; the group ``level`` is ``level_``.
        """
        return explain_number(self.model_, self._checked_rows(one_row(x), reset=False), n)

    def score(
        self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return R^2, the coefficient of determination.

        Of a stream only targets and predictions are kept in memory.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.
        """
        return self._score_rows(X, y, sample_weight)

    def _resolved_loss(self) -> PointwiseLoss:
        return resolve_loss(self, links=False)

    def _codec(self) -> TokenCodec:
        return TokenCodec(NumberOutputs(self.fit_intercept), self, missing=self.missing)


def _declared(classes: ArrayLike | str | None) -> list | str | None:
    """Return classes as a list of Python objects, but None and ``"growing"`` as they are."""
    if classes is None or isinstance(classes, str):
        return classes
    return np.asarray(classes).tolist()
