"""From what users pass to flat tokens and their outputs, checked: rows with an output each, and sequences.

Names of columns are kept by the first fit, and compared by every later call.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain, repeat
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from omkl._threads import in_threads
from omkl.data import Block
from omkl.data.rows import (
    align_columns,
    are_few_rows,
    check_rows,
    column_names,
    holds_numbers,
    is_column,
    is_frame,
    n_rows,
    plain_targets,
    read_frame,
    times_as_days,
    with_unique_entries,
)
from omkl.estimators.arrays import refuse_kind, refuse_missing, refuse_text
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.outputs import check_sample_weight, class_weights, flat_labels
from omkl.estimators.sources import TrainingBlock, as_stream
from omkl.estimators.views import FlatTokens, TrainingIndex
from omkl.estimators.words import AttributeLists, Words
from omkl.exceptions import InputError

#: Rows that are encoded and scored at a time, by each thread.
AT_A_TIME = 4096
#: What estimators know of columns.
COLUMNS = ("n_features_in_", "feature_names_in_")


class TokenData(NamedTuple):
    """Tokens as they were read: one flat collection, the offsets of the sequences, labels of all tokens, weights of
    the sequences, the indices of the tokens that kernels learn their widths from (all of them by default), names of
    columns, and which training inputs the tokens are, where all of these are at hand."""

    inputs: FlatTokens
    offsets: np.ndarray
    labels: Sequence
    weights: np.ndarray | None = None
    distinct: np.ndarray | None = None
    names: Sequence[str] | None = None
    training_index: TrainingIndex | None = None


# ---- rows with one output each ----------------------------------------------------------------------------------


def read_rows(
    estimator: BaseEstimator, check_targets: Callable, class_weight: Any, block: TrainingBlock, first: bool,
    whole: bool = False,
) -> TokenData:  # fmt: skip
    """Rows and their outputs as tokens, each a sequence of its own.

    Parameters
    ----------
    estimator : OnlineMKLClassifier or OnlineMKLRegressor
        Notes the columns of X where a model starts, and compares them later.
    check_targets : callable
        ``check_targets(y)`` is the array of targets, if it can be learned.
    class_weight : None, "balanced" or dict
    block : TrainingBlock
    first : bool
        Whether a model starts with these rows.
    whole : bool
        Whether these are all the rows of a ``fit``: then those of weight 0 are left out, and the others brought into
        an order that does not depend on that of the rows, if they are to be shuffled.
    """
    if block.y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: there are no labels y. "
            "Give them, or, in a stream, pairs (x, y)."
        )
    X, y = checked_rows(estimator, block.X, first, block.y)
    y, names = check_targets(y), getattr(estimator, "feature_names_in_", None)
    weights = check_sample_weight(block.sample_weight, len(y))
    offsets = np.arange(len(y) + 1)
    if class_weight is not None:
        weights = class_weights(class_weight, y.tolist(), offsets, weights, whole)
    if not whole:
        return TokenData(X, offsets, y.tolist(), weights, names=names)
    distinct, rows, n_given = None, np.arange(len(y)), len(y)
    if weights is not None:
        rows = np.flatnonzero(weights > 0)
        X, y, weights = _chosen(X, weights > 0), y[rows], weights[rows]
    if estimator.shuffle and not isinstance(X, list):
        order, first_of_run = _order_by_content(X, y)
        X, y, weights, rows = X[order], y[order], None if weights is None else weights[order], rows[order]
        distinct = np.flatnonzero(first_of_run)
    return TokenData(X, np.arange(len(y) + 1), y.tolist(), weights, distinct, names, TrainingIndex(rows, n_given))


def row_potentials(estimator: Any, X: Any) -> np.ndarray:
    """Potentials of each row of X, an array, data frame, list of dicts, stream or block of one: (n, K)."""
    if "model_" not in vars(estimator):
        check_is_fitted(estimator)
    stream = as_stream(X)
    if stream is not None:
        return np.concatenate([row_potentials(estimator, block) for block in stream.blocks()])
    X = checked_rows(estimator, X, reset=False)
    model, n = estimator.model_, n_rows(X)
    if isinstance(X, list) and hasattr(estimator, "feature_names_in_"):
        model.codec.encoder.warn_of_other_kinds(X)

    def scored(part: Any) -> np.ndarray:
        encoded = model.codec.encoder.encode(part, np.arange(n_rows(part) + 1))
        found = [potentials.unary for _, potentials in model.blocks(encoded)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    if n <= AT_A_TIME:
        return scored(X)
    model.predictor()  # made once, for all threads
    parts = (X[low : low + AT_A_TIME] for low in range(0, n, AT_A_TIME))
    return np.concatenate(in_threads(scored, parts, estimator.n_jobs))


def checked_rows(estimator: Any, X: Any, reset: bool, *y: Any) -> Any:
    """Rows as a list of dicts, or as scikit-learn checks arrays; names of columns are kept (``reset``) or compared.

    Returns X, or the pair of X and ``y`` where that is given.
    """
    names = None
    if isinstance(X, Block):
        # columns of a block that knows their names come in the order in which the model knows them
        known = None if reset else getattr(estimator, "feature_names_in_", None)
        X, names = X.aligned(known, "A block of the stream").X, X.feature_names
    if reset and isinstance(X, list):
        forget_columns(estimator)
    X = _rows_of_frame(X, estimator, reset)
    if isinstance(X, list) and X and isinstance(X[0], dict):
        if y:
            y = (_as_column(plain_targets(*y)),)
            if len(X) != len(y[0]):
                check_consistent_length(X, *y)
        checked = (X, *y) if y else X
    elif not reset and are_few_rows(X, vars(estimator)) and all(is_column(column, len(X)) for column in y):
        X = np.ascontiguousarray(X, dtype=np.float64)
        checked = (X, *y) if y else X
    else:
        checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "reset": reset}
        if y:
            checks["y_numeric"] = isinstance(estimator, RegressorMixin)
        with warnings.catch_warnings():
            if names is not None:  # they were compared
                warnings.filterwarnings("ignore", "X does not have valid feature names")
            checked = checked_arrays(estimator, X, *y, names=names, **checks)
    if names is not None:
        keep_names(estimator, names, reset)
    return checked


def checked_arrays(estimator: Any, X: Any, *y: Any, names: Sequence[str] | None = None, **checks: Any) -> Any:
    """X, or the pair of X and y, as scikit-learn checks them; dates are days, entries of sparse matrices unique.

    ``names`` are those of the columns of a block.
    """
    check_rows(X)
    y = tuple(map(plain_targets, y))
    try:
        checked = validate_data(estimator, times_as_days(X, in_categories=True), *y, **checks)
    except (TypeError, ValueError):
        refuse_text(X)  # scikit-learn does not say where
        refuse_missing(X, names)
        refuse_kind(X)
        raise
    return (with_unique_entries(checked[0]), *checked[1:]) if y else with_unique_entries(checked)


def _as_column(y: Any) -> np.ndarray:
    """Targets of dicts as an array."""
    if type(y) is list and len(kinds := set(map(type, y))) == 1 and kinds <= {bool, int, float, str}:
        return np.asarray(y)
    return y if type(y) is np.ndarray and y.ndim == 1 else column_or_1d(y, warn=True)


def _rows_of_frame(X: Any, estimator: Any, reset: bool) -> Any:
    """A data frame with text as a list of dicts, its names kept (``reset``) or compared; all else as it is.

    Names of data frames of numbers are left to scikit-learn, which keeps and compares them as it checks arrays.
    """
    if not is_frame(X := times_as_days(X)):
        return X
    learned_dicts = not reset and not hasattr(estimator, "n_features_in_")
    rows = read_frame(X, True if learned_dicts else None)
    if not isinstance(rows, list):
        return X
    names = column_names(X)
    if not reset and not learned_dicts:
        name = next(name for name in X.columns if not holds_numbers(X[name]))
        raise InputError(f"The model has learned from numbers, and the column {name!r} of X holds none: convert it.")
    if reset:
        vars(estimator).pop("n_features_in_", None)
    else:
        align_columns(X, names, getattr(estimator, "feature_names_in_", None), "The data frame")
    keep_names(estimator, names, reset)
    return rows


def keep_names(estimator: Any, names: Sequence[str] | None, reset: bool) -> None:
    """Set ``feature_names_in_`` where a model starts (``reset``), or take away what it was."""
    if not reset:
        return
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def forget_columns(estimator: Any) -> None:
    """Take away what an earlier model knew of columns, where one starts whose inputs have none."""
    for name in COLUMNS:
        vars(estimator).pop(name, None)


@contextmanager
def names_kept(estimator: Any) -> Iterator[None]:
    """Where training fails, the columns are called what they were: the earlier model still knows these."""
    before = {name: value for name, value in vars(estimator).items() if name in COLUMNS}
    try:
        yield
    except BaseException:
        forget_columns(estimator)
        vars(estimator).update(before)
        raise


def _chosen(X, kept):
    return [x for x, is_kept in zip(X, kept) if is_kept] if isinstance(X, list) else X[kept]


def _order_by_content(X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order of the examples that depends on them alone, and the first of each run of equal rows in it.

    Shuffling from here makes the model independent of the order of the rows, and a repeated row the same as a
    weighted one. Zeros are equal whatever their sign, and whether a sparse matrix stores them.
    """
    if sparse.issparse(X):
        if not X.data.all():
            X = X.copy()
            X.eliminate_zeros()
        indices = X.indices.astype(np.int32 if X.shape[1] < 2**31 else np.int64, copy=False)
        parts = zip(np.split(indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]))
        contents = [indices.tobytes() + values.tobytes() for indices, values in parts]
    else:
        contents = [(row + 0.0).tobytes() for row in X]
    digests = np.array(
        [int.from_bytes(hashlib.blake2b(c, digest_size=8).digest(), "little") for c in contents], np.uint64
    )
    order = np.lexsort((np.unique(y, return_inverse=True)[1], digests))
    ordered = digests[order]
    return order, np.concatenate([[True], ordered[1:] != ordered[:-1]])


# ---- sequences --------------------------------------------------------------------------------------------------


def read_labeled(estimator: Any, block: TrainingBlock, first: bool, whole: bool = False) -> TokenData:
    """Sequences and their labels, weighted by ``estimator.class_weight``; parameters as of :func:`read_rows`.

    Where these are all that there are, what does not count is as if it were not there: its labels and features are
    not learned either.
    """
    keep_names(estimator, names_in(block.X), reset=first)
    names = getattr(estimator, "feature_names_in_", None)
    data = labeled_sequences(block, names)
    if whole:
        data = data._replace(training_index=TrainingIndex(np.arange(data.offsets[-1]), int(data.offsets[-1])))
    if whole and data.weights is not None and not data.weights.all():
        chosen = np.flatnonzero(data.weights).tolist()
        X, y = [block.X[i] for i in chosen], [block.y[i] for i in chosen]
        rows = np.flatnonzero(np.repeat(data.weights > 0, np.diff(data.offsets)))
        index = data.training_index._replace(rows=rows)
        data = labeled_sequences(TrainingBlock(X, y, data.weights[chosen]), names)._replace(training_index=index)
    weights = class_weights(estimator.class_weight, data.labels, data.offsets, data.weights, whole)
    return data._replace(weights=weights)


def labeled_sequences(block: TrainingBlock, names: Sequence[str] | None) -> TokenData:
    """Sequences and their labels, which must fit each other and not be empty."""
    if block.y is None:
        raise InputError("There are no labels y: give them, or, in a stream, pairs (x, y).")
    tokens, offsets = flatten(block.X, names=names)
    lengths = np.diff(offsets)
    if not lengths.all():
        raise InputError(f"Sequence {int(np.argmin(lengths))} of X is empty: drop it.")
    labels = flat_labels(block.y, lengths)
    weights = check_sample_weight(block.sample_weight, len(lengths))
    return TokenData(tokens, offsets, labels, weights, names=names)


def flatten(X: Any, what: str = "X", names: Sequence[str] | None = None) -> tuple[FlatTokens, np.ndarray]:
    """A list of sequences as one flat collection of tokens and its offsets.

    Parameters
    ----------
    X : list of arrays, CSR matrices, data frames, or lists of dicts, of words or of lists of attributes
    what : str
        What X is called in messages.
    names : sequence of str, optional
        What columns are called: those of data frames are brought into this order, or that of the first one.

    Returns
    -------
    tokens : array or CSR matrix (N, d), list of N dicts, Words or AttributeLists
    offsets : int array of shape (number of sequences + 1,)
    """
    if isinstance(X, (str, bytes, dict)) or is_frame(X) or not hasattr(X, "__len__"):
        raise InputError(
            f"{what} must be a list of sequences: lists of words or of dicts, or arrays or data frames of shape (n, d)."
        )
    if len(X) == 0:
        raise InputError(f"{what} is empty: give at least one sequence.")
    only = X[0] if isinstance(X, (list, tuple)) else None
    if isinstance(only, (str, dict)):
        raise InputError(
            f"{what} must be a list of sequences, but it is one of {'words' if isinstance(only, str) else 'dicts'}: "
            f"give [{what}] for a single sequence."
        )
    if isinstance(only, list) and set(map(type, X)) == {list}:
        # what most sequences are, in a fraction of the time
        found = list(chain.from_iterable(X))
        kinds = set(map(type, found))
        if kinds in ({dict}, {str}):
            return found if kinds == {dict} else Words(found), np.array([0, *accumulate(map(len, X))], dtype=np.int64)
    for i, sequence in enumerate(X):
        if isinstance(sequence, (str, bytes, dict, set, frozenset)) or not isinstance(sequence, Iterable):
            raise InputError(
                f"Sequence {i} of {what} is {sequence!r:.40}: give its tokens as a list, in order, or an array."
            )
    names = names_in(X) if names is None else names
    X = [
        sequence
        if type(sequence) is list
        else read_frame(align_columns(sequence, column_names(sequence), names, f"Sequence {i} of X"))
        for i, sequence in enumerate(X)
    ]
    offsets = np.zeros(len(X) + 1, dtype=np.int64)
    np.cumsum([_length(sequence) for sequence in X], out=offsets[1:])
    first = next((sequence for sequence in X if _length(sequence)), None)
    if first is None:
        raise InputError(f"{what} holds no tokens: all its sequences are empty.")
    kind = None if sparse.issparse(first) else _kind_of_tokens(X)
    if kind is not None:
        own, collection, noun = kind
        tokens = collection(chain.from_iterable(X))
        if not all(map(isinstance, tokens, repeat(own))):
            wrong = next(i for i, token in enumerate(tokens) if not isinstance(token, own))
            s = int(np.searchsorted(offsets, wrong, side="right")) - 1
            raise InputError(
                f"Token {wrong - offsets[s]} of sequence {s} of {what} is {tokens[wrong]!r:.40}, but others are "
                f"{noun}: every token must be of one kind."
            )
        return tokens, offsets
    return _joined([_as_array(sequence, i, what) for i, sequence in enumerate(X)], offsets, what), offsets


def _kind_of_tokens(X: Any) -> tuple[Any, type, str] | None:
    """``(class of a token, class of a collection of them, what they are called)``; None where tokens are numbers."""
    for token in chain.from_iterable(X):
        if isinstance(token, dict):
            return dict, list, "dicts"
        if isinstance(token, str):
            return str, Words, "words"
        if not isinstance(token, (list, tuple)) or (len(token) and not isinstance(token[0], str)):
            return None
        if len(token):
            return (list, tuple), AttributeLists, "lists of attributes"
    # tokens without any attribute, or arrays without rows
    return ((list, tuple), AttributeLists, "lists of attributes") if any(map(_length, X)) else None


def names_in(X: Any) -> list[str] | None:
    """What the columns of the first of a list of data frames are called; None for other sequences."""
    return column_names(next(iter(X), None)) if hasattr(X, "__len__") else None


def _length(sequence):
    return sequence.shape[0] if sparse.issparse(sequence) else len(sequence)


def _as_array(sequence, i, what):
    try:
        if sparse.issparse(sequence):
            return sparse.csr_array(sequence, dtype=np.float64)
        return np.asarray(sequence, dtype=np.float64)
    except (ValueError, TypeError):
        tokens = enumerate(sequence if isinstance(sequence, (list, tuple)) else ())
        for t, token in tokens:
            if token is None or isinstance(token, (str, bytes, dict)):
                raise InputError(
                    f"Token {t} of sequence {i} of {what} is {token!r:.40}: a token is a word (str), a dict, a list of "
                    "attributes or a vector of numbers, as are all others."
                ) from None
        raise InputError(f"Sequence {i} of {what} is not an array of numbers.") from None


def _joined(arrays, offsets, what):
    """Arrays or CSR matrices one below the other, those that are empty left out, checked."""
    width = None
    for i, array in enumerate(arrays):
        if array.shape[0] == 0:
            continue
        if array.ndim != 2 or width not in (None, array.shape[1]) or not array.shape[1]:
            expected = f"(n, {'d' if width is None else width})"
            raise InputError(f"Sequence {i} of {what} has shape {array.shape}, not {expected}.")
        width = array.shape[1]
    whole = [array for array in arrays if array.shape[0]]
    if any(map(sparse.issparse, whole)):
        tokens = sparse.vstack(list(map(sparse.csr_array, whole)), format="csr")
        if np.isfinite(tokens.data).all():
            return tokens
        raise InputError(f"{what} holds nan or infinite values: features must be finite.")
    # in one order: what is predicted does not depend on where inputs lie in memory
    tokens = np.ascontiguousarray(np.concatenate(whole))
    if not np.isfinite(tokens).all():
        row, column = np.argwhere(~np.isfinite(tokens))[0]
        s = np.searchsorted(offsets, row, side="right") - 1
        raise InputError(
            f"Sequence {s} of {what} holds {tokens[row, column]} at token {row - offsets[s]}, column {column}: "
            "features must be finite."
        )
    return tokens
