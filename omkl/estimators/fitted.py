"""Whether an estimator has been fitted."""

from typing import Any

from sklearn.exceptions import NotFittedError as _NotFittedError
from sklearn.utils.validation import check_is_fitted as _check_is_fitted

from omkl.exceptions import NotFittedError


def check_is_fitted(estimator: Any) -> None:
    """Raise an :class:`omkl.exceptions.NotFittedError` unless an estimator has been fitted."""
    try:
        _check_is_fitted(estimator)
    except _NotFittedError:
        raise NotFittedError(f"This {type(estimator).__name__} is not fitted yet: call fit first.") from None
