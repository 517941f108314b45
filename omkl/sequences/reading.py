"""Sequences and labels from users: checked, and flattened to tokens."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
from scipy import sparse

from omkl.data.blocks import align_columns, is_frame
from omkl.data.frames import column_names, read_frame
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.targets import check_sample_weight, class_weights
from omkl.estimators.validation import LARGEST, TokenData, keep_names
from omkl.exceptions import InputError
from omkl.features.views import FlatTokens, TrainingIndex
from omkl.features.vocabulary import AttributeLists
from omkl.features.words import Words
from omkl.sequences.labels import flat_labels


def read_labeled(estimator: Any, block: TrainingBlock, first: bool, whole: bool = False) -> TokenData:
    """Check sequences and their labels, weighted by ``estimator.class_weight``.

    Parameters
    ----------
    estimator : SequenceLabeler
        Keeps the names of the columns of the first sequences, and compares later ones.
    block : TrainingBlock
    first : bool
        Whether a model starts with these sequences.
    whole : bool
        Whether these are all sequences of a ``fit``. Sequences of weight 0 are then dropped.
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
    """Check sequences and their labels, and flatten them.

    Parameters
    ----------
    block : TrainingBlock
    names : sequence of str, optional
        Names of the columns of data frames, in the model's order.
    """
    if block.y is None:
        raise InputError("y must hold labels, got None; a stream has pairs (x, y).")
    tokens, offsets = flatten(block.X, names)
    lengths = np.diff(offsets)
    if not lengths.all():
        raise InputError(f"Sequence {int(np.argmin(lengths))} of X is empty.")
    labels = flat_labels(block.y, lengths)
    weights = check_sample_weight(block.sample_weight, len(lengths))
    return TokenData(tokens, offsets, labels, weights, names=names)


def flatten(X: Any, names: Sequence[str] | None = None) -> tuple[FlatTokens, np.ndarray]:
    """Put the tokens of all sequences into one collection.

    Parameters
    ----------
    X : list of arrays, CSR matrices, data frames, or lists of dicts, of words or of lists of attributes
    names : sequence of str, optional
        Order of the columns of data frames; by default that of the first one.

    Returns
    -------
    tokens : array or CSR matrix (N, d), list of N dicts, Words or AttributeLists
    offsets : int array of shape (number of sequences + 1,)
    """
    if isinstance(X, (str, bytes, dict)) or is_frame(X) or not hasattr(X, "__len__"):
        raise InputError("X must be a list of sequences: lists of words or dicts, arrays or data frames.")
    if len(X) == 0:
        raise InputError("X must hold at least one sequence.")
    only = X[0] if isinstance(X, (list, tuple)) else None
    if isinstance(only, (str, dict)):
        raise InputError(f"X must be a list of sequences, got a list of {type(only).__name__}: [X] is one sequence.")
    if isinstance(only, list) and set(map(type, X)) == {list}:
        # the common case, in a fraction of the time
        found = list(chain.from_iterable(X))
        kinds = set(map(type, found))
        if kinds in ({dict}, {str}):
            return found if kinds == {dict} else Words(found), np.array([0, *accumulate(map(len, X))], dtype=np.int64)
    for i, sequence in enumerate(X):
        if isinstance(sequence, (str, bytes, dict, set, frozenset)) or not isinstance(sequence, Iterable):
            raise InputError(f"Sequence {i} of X must be a list of tokens or an array, got {sequence!r:.40}.")
    names = names_in(X) if names is None else names
    X = [_without_frame(sequence, names, i) for i, sequence in enumerate(X)]
    offsets = np.zeros(len(X) + 1, dtype=np.int64)
    np.cumsum([_length(sequence) for sequence in X], out=offsets[1:])
    if not offsets[-1]:
        raise InputError("X must hold at least one token: all its sequences are empty.")
    kind = None if any(map(sparse.issparse, X)) else _kind_of_tokens(X)
    if kind is None:
        return _stacked([_as_array(sequence, i) for i, sequence in enumerate(X)], offsets), offsets
    own, collection, noun = kind
    tokens = collection(chain.from_iterable(X))
    for i, token in enumerate(tokens):
        if not isinstance(token, own):
            s = int(np.searchsorted(offsets, i, side="right")) - 1
            raise InputError(f"Tokens must all be {noun}, got {token!r:.40} at token {i - offsets[s]} of sequence {s}.")
    return tokens, offsets


def names_in(X: Any) -> list[str] | None:
    """Names of the columns of the first of a list of data frames; None for other sequences."""
    return column_names(next(iter(X), None)) if hasattr(X, "__len__") else None


def _without_frame(sequence: Any, names: Sequence[str] | None, i: int) -> Any:
    if type(sequence) is list:
        return sequence
    return read_frame(align_columns(sequence, column_names(sequence), names, f"Sequence {i} of X"))


def _kind_of_tokens(X: Iterable[Any]) -> tuple[Any, type, str] | None:
    """``(class of a token, class of a collection of them, plural noun)``; None where tokens are numbers."""
    for token in chain.from_iterable(X):
        if isinstance(token, dict):
            return dict, list, "dicts"
        if isinstance(token, str):
            return str, Words, "words"
        if not isinstance(token, (list, tuple)) or (len(token) and not isinstance(token[0], str)):
            return None
        if len(token):
            break
    # tokens may have no attribute
    return (list, tuple), AttributeLists, "lists of attributes"


def _length(sequence: Any) -> int:
    return sequence.shape[0] if sparse.issparse(sequence) else len(sequence)


def _as_array(sequence: Any, i: int) -> Any:
    try:
        if sparse.issparse(sequence):
            return sparse.csr_array(sequence, dtype=np.float64)
        return np.asarray(sequence, dtype=np.float64)
    except (ValueError, TypeError):
        for t, token in enumerate(sequence if isinstance(sequence, (list, tuple)) else ()):
            if token is None or isinstance(token, (str, bytes, dict)):
                raise InputError(
                    f"Tokens must all be vectors, got {token!r:.40} at token {t} of sequence {i}."
                ) from None
        raise InputError(f"Sequence {i} of X must be an array of numbers.") from None


def _stacked(arrays: list[Any], offsets: np.ndarray) -> Any:
    """Check arrays or CSR matrices, and put them one below the other."""
    width = None
    for i, array in enumerate(arrays):
        if array.shape[0] == 0:
            continue
        if array.ndim != 2 or width not in (None, array.shape[1]) or not array.shape[1]:
            raise InputError(f"Sequence {i} of X must have shape (n, {width or 'd'}), got {array.shape}.")
        width = array.shape[1]
    whole = [array for array in arrays if array.shape[0]]
    if any(map(sparse.issparse, whole)):
        tokens = sparse.vstack(list(map(sparse.csr_array, whole)), format="csr")
        if not (np.abs(tokens.data) <= LARGEST).all():
            raise InputError(f"X must hold finite numbers up to {LARGEST:g}.")
        return tokens
    # one memory order, so that predictions do not depend on that of the input
    tokens = np.ascontiguousarray(np.concatenate(whole))
    wrong = ~(np.abs(tokens) <= LARGEST)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        s = np.searchsorted(offsets, row, side="right") - 1
        raise InputError(
            f"X must hold finite numbers up to {LARGEST:g}, got {tokens[row, column]} in sequence {s}, token "
            f"{row - offsets[s]}, column {column}."
        )
    return tokens
