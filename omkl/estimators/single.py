"""What OnlineMKLClassifier and OnlineMKLRegressor share: one output for one input."""

import hashlib

import numpy as np
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from omkl.estimators.columns import rows_of_frame
from omkl.estimators.encoding import takes_sparse
from omkl.estimators.examples import Examples, check_sample_weight
from omkl.estimators.labeling import LabelEstimator
from omkl.estimators.runs import begin_run
from omkl.groups import InterceptBank


class SingleOutputEstimator(LabelEstimator):
    """Rows of arrays or sparse matrices, or dicts, with one output each; on the trainer of the sequence labeler."""

    def __init__(
        self, kernels=None, loss="hinge", regularizer="mkl", C=1.0, epochs=20, method="fobos", eta0="auto",
        schedule=None, average="quadratic", fit_intercept=True, radius=None, shuffle=True, early_stopping=False,
        validation_fraction=0.1, n_iter_no_change=5, n_examples=None, budget=None,
        budget_maintenance="projection", cache_size=4000, dtype="auto", callbacks=None, verbose=True, random_state=None,
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

    def _fit_arrays(self, X, y, classes, sample_weight, running):
        """What ``fit`` does with all examples at hand."""
        self._resolve()
        X, y = self._validate_pair(X, y, reset=True)
        weights = check_sample_weight(sample_weight, len(y))
        if weights is not None:
            X, y, weights = _rows(X, weights > 0), y[weights > 0], weights[weights > 0]
        distinct = X
        if self.shuffle and not isinstance(X, list):
            order, first = _order_by_content(X, y)
            X, y, weights = X[order], y[order], None if weights is None else weights[order]
            distinct = X[first]
        run = begin_run(self, self._rng(), **running)
        self._fit(X, np.arange(len(y) + 1), y.tolist(), classes, weights, run, distinct)
        return self

    def _partial_fit_arrays(self, X, y, classes, sample_weight):
        """What ``partial_fit`` does with some examples."""
        self._resolve()
        X, y = self._validate_pair(X, y, reset=not hasattr(self, "_trainer"))
        weights = check_sample_weight(sample_weight, len(y))
        return self._partial_fit(X, np.arange(len(y) + 1), y.tolist(), classes, weights)

    def _potentials(self, X):
        """Potentials of each row of X, (n, K)."""
        predictor = self.predictor_
        X = rows_of_frame(X, self, reset=False)
        if not _is_dicts(X):
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64, order="C")
        encoded = self._encoder.encode(X, np.arange(_n_rows(X) + 1))
        return np.concatenate([potentials.unary for _, potentials in predictor.blocks(encoded)])

    def _validate_pair(self, X, y, reset):
        """Checked X and y; sets ``n_features_in_`` where a model starts."""
        X = rows_of_frame(X, self, reset)
        if _is_dicts(X):
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            numeric = isinstance(self, RegressorMixin)
            checks = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "y_numeric": numeric}
            X, y = validate_data(self, X, y, reset=reset, **checks)
        return X, self._checked_targets(y)

    def _checked_targets(self, y):
        """The array ``y``, if it can be learned."""
        raise NotImplementedError

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
