"""Names of columns: kept at the first fit, compared or aligned wherever inputs come in again."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from omkl.data.frames import align_columns, column_names, is_frame, read_frame


def read_rows(X: Any, estimator: Any, reset: bool) -> Any:
    """Rows for an estimator: a data frame with text becomes dicts, and its names are kept (``reset``) or compared.

    Data frames of numbers are left as they are: what checks arrays keeps and compares their names.
    """
    if not is_frame(X):
        return X
    known = None if reset else getattr(estimator, "feature_names_in_", None)
    learned_dicts = not reset and not hasattr(estimator, "n_features_in_")
    rows = read_frame(X, True if learned_dicts else None)
    if not isinstance(rows, list):
        return X
    names = column_names(X)
    align_columns(X, names, known, "The data frame")
    keep_names(estimator, names, reset)
    if reset:
        vars(estimator).pop("n_features_in_", None)
    return rows


def keep_names(estimator: Any, names: Sequence[str] | None, reset: bool) -> None:
    """Set ``feature_names_in_`` where a model starts; none where columns have no names."""
    if not reset:
        return
    if names is None:
        vars(estimator).pop("feature_names_in_", None)
    else:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def read_sequences(X: Any, known: Sequence[str] | None) -> Iterator[Any]:
    """Sequences with data frames among them as arrays or dicts, columns in the order of ``known``."""
    for i, sequence in enumerate(X):
        yield read_frame(align_columns(sequence, column_names(sequence), known, f"Sequence {i} of X"))
