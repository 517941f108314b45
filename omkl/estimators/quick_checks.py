"""Checks of a few rows at a time, where scikit-learn's own take longer than to predict them and would find nothing."""

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

#: Numbers of an array that are checked here, where scikit-learn has nothing else to compare or to say.
FEW = 2**14
#: So many integers or strings are classes, whatever they are; of more scikit-learn may warn that they are many.
FEW_CLASSES = 20


def are_few_rows(X: Any, estimator: Any) -> bool:
    """Whether scikit-learn would find nothing amiss with X: it looks for longer than one row takes to predict."""
    known = vars(estimator)
    return (
        type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "fiu" and X.itemsize <= 8 and 0 < X.size <= FEW
        and X.shape[1] == known.get("n_features_in_") and "feature_names_in_" not in known
        and bool(np.isfinite(X).all())
    )  # fmt: skip


def is_column(y: Any, n: int) -> bool:
    """Whether scikit-learn would find nothing amiss with n targets."""
    is_plain = type(y) is np.ndarray and y.shape == (n,)
    return is_plain and (y.dtype.kind in "biuU" or (y.dtype.kind == "f" and bool(np.isfinite(y).all())))


def as_column(y: Any) -> np.ndarray:
    """Targets of dicts as an array."""
    if type(y) is list and len(kinds := set(map(type, y))) == 1 and kinds <= {bool, int, float, str}:
        return np.asarray(y)
    return y if type(y) is np.ndarray and y.ndim == 1 else column_or_1d(y, warn=True)


def are_few_classes(y: np.ndarray) -> bool:
    """Whether these are classes, whatever they are."""
    return y.dtype.kind in "biuU" and len(y) <= FEW_CLASSES
