"""Learning that is refused on its way leaves an estimator as it was."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from threading import get_ident
from typing import Any

import numpy as np
from scipy.sparse import issparse

from omkl.online import OnlineModel

#: Bytes of a model that are copied before anything is learned, and more of them for every example: to copy so many
#: takes about as long as to learn from it.
COPIED, COPIED_AN_EXAMPLE = 2**20, 2**17
#: Numbers up to this size move no parameter beyond what can be represented.
HARMLESS = 1e100


@contextmanager
def as_it_was(estimator: Any, X: Any, is_stream: bool) -> Iterator[None]:
    """A context in which an error, or Ctrl-C, leaves an estimator as it was before.

    Other threads predict meanwhile with the model as it was, or wait where there is no copy. A model is copied where it
    is not much larger than what is to be learned; else a note on the error says that it has changed. For one example of
    harmless size there is no copy: what is wrong with it is found before the model moves.

    Parameters
    ----------
    estimator : OnlineEstimator
    X : array, list, stream or the like
        The inputs that are to be learned.
    is_stream : bool
        Whether nobody knows how many there are.
    """
    attributes = vars(estimator)
    before, model = dict(attributes), attributes.get("model_")
    n_records = len(before.get("history_", ()))
    worth = model is not None and (is_stream or attributes.get("callbacks") or not _is_harmless(X))
    with nullcontext() if model is None else model.lock:
        twin = _copied(model, np.inf if is_stream else _length(X)) if worth else None
        if twin is not None:
            attributes["_meanwhile"] = get_ident(), twin
        try:
            yield
        except BaseException as error:
            for name in attributes.keys() - before.keys() - {"_meanwhile"}:
                del attributes[name]
            attributes.update(before if twin is None else {**before, "model_": twin})
            if worth and twin is None:
                error.add_note("The model is large, and was not copied before: it has learned a part of the data.")
            if "history_" in before:
                del before["history_"][n_records:]
            raise
        finally:
            attributes.pop("_meanwhile", None)


def _length(X: Any) -> int:
    shape = getattr(X, "shape", None)
    return (len(X) if hasattr(X, "__len__") else 0) if shape is None else (*shape, 0)[0]


def _is_harmless(X: Any) -> bool:
    """Whether this is one example, of numbers that are not too large."""
    try:
        if _length(X) != 1:
            return False
        if isinstance(X, np.ndarray):
            return bool(np.abs(X).max() < HARMLESS)
        if issparse(X) and X.format == "csr":
            return bool(np.abs(X.data).max(initial=0.0) < HARMLESS)
        return type(X[0]) is dict and all(type(v) is str or abs(v) < HARMLESS for v in X[0].values())
    except (TypeError, ValueError, KeyError, IndexError):  # whatever else there may be
        return False


def _copied(model: OnlineModel, n_examples: float) -> OnlineModel | None:
    """A model of its own that is equal to another one; None of a large one, or of one that cannot be copied."""
    if sum(getattr(bank, "nbytes", 0) for bank in model.trainer.banks) > COPIED + COPIED_AN_EXAMPLE * n_examples:
        return None
    # what the user gave stays the user's, and what is only derived is derived again
    shared, derived = [model.given, model.settings], getattr(model.trainer, "_predictor", None)
    memo: dict[int, Any] = {id(part): part for part in shared} | {id(derived): None}
    try:
        return deepcopy(model, memo)
    except Exception:  # parts of the user's own may be of any kind
        return None
