"""OnlineMKLClassifier: one label for one input, on the same trainer as the sequence labeler."""

import hashlib

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from omkl.estimators.base import is_probabilistic
from omkl.estimators.encoding import takes_sparse
from omkl.estimators.examples import Examples, check_sample_weight
from omkl.estimators.labeling import LabelEstimator
from omkl.groups import InterceptBank
from omkl.online import ParameterMixing
from omkl.structures import Binary, Multiclass


class OnlineMKLClassifier(ClassifierMixin, LabelEstimator):
    """Classifier whose combination of kernels is learned online; binary and multiclass.

    ``X`` is an array of shape (n, d), a scipy sparse matrix (for explicit linear groups), or a list of n dicts as
    described at :class:`~omkl.SequenceLabeler`, whose parameters it shares. With two classes a single potential is
    learned, with K > 2 one for each class.

    Parameters
    ----------
    kernels : list, dict or None
        None takes linear, quadratic and Gaussian kernels on arrays, and linear on sparse matrices.
    loss, regularizer, C, epochs, method, eta0, schedule, average, radius, early_stopping, validation_fraction, \
n_iter_no_change, n_examples, cache_size, dtype, callbacks, verbose, random_state
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
        early_stopping=False, validation_fraction=0.1, n_iter_no_change=5, n_examples=None, cache_size=4000,
        dtype="auto", callbacks=None, verbose=True, random_state=None,
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
        self.fit_intercept = fit_intercept
        self.cost = cost
        self.radius = radius
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_examples = n_examples
        self.cache_size = cache_size
        self.dtype = dtype
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None, client=None, shards=None):
        """Train from scratch.

        Parameters
        ----------
        X : array of shape (n, d), sparse matrix or list of dicts
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            How often each example counts: an integer is that many copies.
        client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

        Returns
        -------
        self
        """
        self._resolve()
        mixing = ParameterMixing.over(client, shards)
        X, y = self._validate_pair(X, y, reset=True)
        weights = check_sample_weight(sample_weight, len(y))
        if weights is not None:
            X, y, weights = _rows(X, weights > 0), y[weights > 0], weights[weights > 0]
        distinct = X
        if self.shuffle and not isinstance(X, list):
            order, first = _order_by_content(X, y)
            X, y, weights = X[order], y[order], None if weights is None else weights[order]
            distinct = X[first]
        self._fit(X, np.arange(len(y) + 1), y.tolist(), weights, distinct, mixing)
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """One round of training for each example, in the given order.

        Kernels learn their widths, and the model its classes, from the first call.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.
        classes : array, optional
            All classes that will ever come, at the first call; the classes of its ``y`` by default.

        Returns
        -------
        self
        """
        self._resolve()
        X, y = self._validate_pair(X, y, reset=not hasattr(self, "_trainer"))
        weights = check_sample_weight(sample_weight, len(y))
        classes = None if classes is None else np.asarray(classes).tolist()
        return self._partial_fit(X, np.arange(len(y) + 1), y.tolist(), classes, weights)

    def decision_function(self, X):
        """Potentials: (n,) with two classes, positive for ``classes_[1]``; (n, K) with more."""
        predictor = self.predictor_
        if not _is_dicts(X):
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        encoded = self._encoder.encode(X, np.arange(_n_rows(X) + 1))
        unary = np.concatenate([potentials.unary for _, potentials in predictor.blocks(encoded)])
        return unary[:, 0] if unary.shape[1] == 1 else unary

    def predict(self, X):
        """Best class of each row of X, (n,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]

    @available_if(is_probabilistic)
    def predict_proba(self, X):
        """Probability of each class, (n, K). Only for ``loss="crf"``."""
        scores = self.decision_function(X)
        return softmax(np.column_stack([-0.5 * scores, 0.5 * scores]) if scores.ndim == 1 else scores)

    def _validate_pair(self, X, y, reset):
        """Checked X and y; sets ``n_features_in_`` where a model starts."""
        if _is_dicts(X):
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            X, y = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        return X, y

    def _structure(self, labels):
        return Binary() if len(labels) == 2 and self.cost is None else Multiclass(len(labels), self.cost)

    def _other_banks(self, structure, n_outputs, positions, averaging):
        return [], [InterceptBank(n_outputs, averaging)] if self.fit_intercept else []

    def _examples(self, tokens, gold, chosen, weights):
        return Examples(tokens, gold, chosen, weights, single=True)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernels)
        return tags


def _is_dicts(X):
    return isinstance(X, list) and len(X) > 0 and isinstance(X[0], dict)


def _n_rows(X):
    return len(X) if isinstance(X, list) else X.shape[0]


def _rows(X, mask):
    return [x for x, kept in zip(X, mask) if kept] if isinstance(X, list) else X[mask]


def _order_by_content(X, y):
    """An order of the examples that depends on them alone, and the first of each run of equal rows in it.

    Shuffling from here makes the model independent of the order of the rows, and a repeated row the same as a
    weighted one.
    """
    if sparse.issparse(X):
        X.sort_indices()
        parts = zip(np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]))
        contents = [indices.tobytes() + values.tobytes() for indices, values in parts]
    else:
        contents = [row.tobytes() for row in X]
    digests = np.array(
        [int.from_bytes(hashlib.blake2b(c, digest_size=8).digest(), "little") for c in contents], np.uint64
    )
    _, codes = np.unique(y, return_inverse=True)
    order = np.lexsort((codes, digests))
    ordered = digests[order]
    return order, np.concatenate([[True], ordered[1:] != ordered[:-1]])
