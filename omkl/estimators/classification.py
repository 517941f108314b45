"""OnlineMKLClassifier: one label for one input, on the same trainer as the sequence labeler."""

import numpy as np
from sklearn.utils.extmath import softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from omkl.estimators.base import is_probabilistic
from omkl.estimators.classes import ScoringClassifier
from omkl.estimators.runs import running_options
from omkl.estimators.single import SingleOutputEstimator
from omkl.estimators.streaming import as_stream, refuse_for_stream
from omkl.structures import Binary, Multiclass


class OnlineMKLClassifier(ScoringClassifier, SingleOutputEstimator):
    """Classifier whose combination of kernels is learned online; binary and multiclass.

    ``X`` is an array of shape (n, d), a scipy sparse matrix (for explicit linear groups and Fourier features), or a
    list of n dicts as described at :class:`~omkl.SequenceLabeler`, whose parameters it shares. With two classes a
    single potential is learned, with K > 2 one for each class.

    Parameters
    ----------
    kernels : list, dict or None
        None takes linear, quadratic and Gaussian kernels on arrays, and linear on sparse matrices.
    loss, regularizer, C, epochs, method, eta0, schedule, average, radius, early_stopping, validation_fraction, \
n_iter_no_change, n_examples, budget, budget_maintenance, cache_size, dtype, callbacks, verbose, random_state
        As for :class:`~omkl.SequenceLabeler`; examples take the place of sequences.
    cost : array of shape (K, K), optional
        ``cost[gold, predicted]`` in the order of ``classes_``, for three classes and more.
    fit_intercept : bool
        Learn a constant for every class, not regularized.
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
        self, kernels=None, loss="hinge", regularizer="mkl", C=1.0, epochs=20, method="fobos", eta0="auto",
        schedule=None, average="quadratic", fit_intercept=True, cost=None, radius=None, shuffle=True,
        early_stopping=False, validation_fraction=0.1, n_iter_no_change=5, n_examples=None, budget=None,
        budget_maintenance="projection", cache_size=4000, dtype="auto", callbacks=None, verbose=True, random_state=None,
    ):  # fmt: skip
        super().__init__(
            kernels, loss, regularizer, C, epochs, method, eta0, schedule, average, fit_intercept, radius, shuffle,
            early_stopping, validation_fraction, n_iter_no_change, n_examples, budget, budget_maintenance, cache_size,
            dtype, callbacks, verbose, random_state,
        )  # fmt: skip
        self.cost = cost

    def fit(
        self, X, y=None, sample_weight=None, *, classes=None, checkpoint=None, checkpoint_every="60s", resume=False,
        client=None, shards=None,
    ):  # fmt: skip
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
        checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

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
        return self._fit_arrays(X, y, _declared(classes), sample_weight, running)

    def partial_fit(self, X, y=None, classes=None, sample_weight=None):
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
        stream = as_stream(X, y)
        if stream is not None:
            refuse_for_stream(sample_weight=sample_weight)
            return self._partial_fit_stream(stream, {"classes": classes})
        return self._partial_fit_arrays(X, y, _declared(classes), sample_weight)

    def decision_function(self, X):
        """Potentials: (n,) with two classes, positive for ``classes_[1]``; (n, K) with more."""
        unary = self._potentials(X)
        return unary[:, 0] if unary.shape[1] == 1 else unary

    @available_if(is_probabilistic)
    def predict_proba(self, X):
        """Probability of each class, (n, K). Only for ``loss="crf"``."""
        scores = self.decision_function(X)
        return softmax(np.column_stack([-0.5 * scores, 0.5 * scores]) if scores.ndim == 1 else scores)

    def _checked_targets(self, y):
        check_classification_targets(y)
        return y

    def _structure(self, labels):
        binary = len(labels) == 2 and self.cost is None and not labels.grows
        return Binary() if binary else Multiclass(len(labels), self.cost)


def _declared(classes):
    """Classes as labels of Python."""
    return classes if classes is None or isinstance(classes, str) else np.asarray(classes).tolist()
