"""Names of the columns of inputs: kept by the first fit, and compared by every later call."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from omkl.data import Block
from omkl.data.rows import align_columns, column_names, is_frame, read_frame


def rows_of_frame(X: Any, estimator: Any, reset: bool) -> Any:
    """A data frame with text as a list of dicts, its names kept (``reset``) or compared; all else as it is.

    Names of data frames of numbers are left to scikit-learn, which keeps and compares them as it checks arrays.
    """
    if not is_frame(X):
        return X
    learned_dicts = not reset and not hasattr(estimator, "n_features_in_")
    rows = read_frame(X, True if learned_dicts else None)
    if not isinstance(rows, list):
        return X
    names = column_names(X)
    if reset:
        vars(estimator).pop("n_features_in_", None)
    else:
        align_columns(X, names, getattr(estimator, "feature_names_in_", None), "The data frame")
    keep_names(estimator, names, reset)
    return rows


def rows_of_block(X: Any, estimator: Any, reset: bool) -> tuple[Any, Sequence[str] | None]:
    """Rows, and what their columns are called where they are a block of a stream that knows it.

    Unless a model starts (``reset``), such columns are brought into the order in which the model knows them.
    """
    if not isinstance(X, Block):
        return X, None
    known = None if reset else getattr(estimator, "feature_names_in_", None)
    return X.aligned(known, "A block of the stream").X, X.feature_names


@contextmanager
def names_compared(names: Sequence[str] | None) -> Iterator[None]:
    """No warning that columns have no names, where they had some, and these were compared."""
    with warnings.catch_warnings():
        if names is not None:
            warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


def keep_names(estimator: Any, names: Sequence[str] | None, reset: bool) -> None:
    """Set ``feature_names_in_`` where a model starts (``reset``), or take away what it was."""
    if not reset:
        return
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def read_sequences(X: Any, known: Sequence[str] | None) -> Iterator[Any]:
    """Sequences with data frames among them as arrays or dicts, columns in the order of ``known``."""
    for i, sequence in enumerate(X):
        yield read_frame(align_columns(sequence, column_names(sequence), known, f"Sequence {i} of X"))
