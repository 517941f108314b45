"""Online classifiers and regressors that learn one dict at a time, as those of river do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from omkl.exceptions import InputError, MissingDependencyError
from omkl.mkl.online import OnlineMKLClassifier, OnlineMKLRegressor

try:
    import pandas as pd
    from river import base
except ImportError:
    raise MissingDependencyError(
        "RiverClassifier and RiverRegressor need river: pip install 'omkl[river]'. Without it, partial_fit([x], [y]) "
        "and predict([x]) do the same."
    ) from None


class _OneByOne:
    """Base of the wrappers: the online estimator, and its rows."""

    estimator: Any
    estimator_: Any

    def _start(self, estimator: Any, kind: type) -> None:
        if not isinstance(estimator, kind):
            raise InputError(f"{type(self).__name__} holds an {kind.__name__}, not {estimator!r}.")
        self.estimator = estimator
        self.estimator_ = deepcopy(estimator)

    @property
    def _knows(self) -> bool:
        """Return whether the estimator has been fitted."""
        return hasattr(self.estimator_, "model_")

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from one example: a round of training, as ``partial_fit`` makes it.

        Parameters
        ----------
        x : dict
            Entries by name: numbers, booleans, strings, or arrays that kernels read.
        y : label or number
        w : float >= 0
            How often the example counts; one of weight 0 changes nothing.
        """
        if w != 0.0:
            weight = None if w == 1.0 else w
            self.estimator_.partial_fit([_named(x)], [_plain(y)], sample_weight=weight, **self._declared())

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a data frame, one after the other, as :meth:`learn_one` does each."""
        for x, target in zip(_rows(X), y):
            self.learn_one(x, target)

    def _declared(self) -> dict[str, Any]:
        """Return the arguments of the first call of ``partial_fit``."""
        return {}


class RiverClassifier(_OneByOne, base.MiniBatchClassifier):
    """An :class:`~omkl.OnlineMKLClassifier` with ``learn_one``, ``predict_one`` and ``predict_proba_one``.

    It takes part in river's pipelines, metrics and ``progressive_val_score``. Rows are dicts: strings and numbers are
    sparse features, each key a group whose weight is learned, and kernels read numbers and arrays that they are on by
    name, as ``"gaussian:on=[a,b],features=200"`` does. Keys may come and go where no kernel is on them. It predicts
    what the estimator does, with the averaged model.

    Parameters
    ----------
    estimator : OnlineMKLClassifier
        It is not changed: what learns is a copy, ``estimator_``, which goes on from what the estimator has learned, if
        it has, and which can be saved.
    classes : sequence of labels, optional
        All labels that will ever come. By default labels are taken in as they come.

    Attributes
    ----------
    estimator_ : OnlineMKLClassifier
        The estimator that learns.

    Examples
    --------
    >>> import omkl
    >>> from omkl.mkl.river import RiverClassifier
    >>> model = RiverClassifier(omkl.OnlineMKLClassifier(loss="crf", random_state=0))
    >>> for x, y in [({"sky": "grey"}, "rain"), ({"sky": "blue"}, "sun")] * 5:
    ...     model.learn_one(x, y)
    >>> model.predict_one({"sky": "grey"})
    'rain'
    """

    def __init__(self, estimator: OnlineMKLClassifier, classes: Sequence[Any] | None = None) -> None:
        self._start(estimator, OnlineMKLClassifier)
        self.classes = classes

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """The best label of a row; None as long as nothing has been learned."""
        _refuse(kwargs)
        return _plain(self.estimator_.predict([_named(x)])[0]) if self._knows else None

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Probability of each label that is known; empty as long as nothing has been learned.

        Raises
        ------
        NotImplementedError
            Unless the estimator's loss is "crf", as river's own classifiers do that have no probabilities.
        """
        _refuse(kwargs)
        self._check_probabilities()
        if not self._knows:
            return {}
        found = self.estimator_.predict_proba([_named(x)])[0].tolist()
        return dict(zip(map(_plain, self.estimator_.classes_), found))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The best label of each row of a data frame."""
        labels = list(map(_plain, self.estimator_.predict(_rows(X)))) if self._knows else [None] * len(X)
        return pd.Series(labels, index=X.index)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Probability of each label for each row of a data frame."""
        self._check_probabilities()
        if not self._knows:
            return pd.DataFrame(index=X.index)
        found = self.estimator_.predict_proba(_rows(X))
        return pd.DataFrame(found, index=X.index, columns=list(map(_plain, self.estimator_.classes_)))

    def _check_probabilities(self) -> None:
        if not hasattr(self.estimator_, "predict_proba"):
            raise NotImplementedError('There are probabilities with loss="crf" only.')

    def _declared(self) -> dict[str, Any]:
        return {} if self._knows else {"classes": "growing" if self.classes is None else self.classes}

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"estimator": OnlineMKLClassifier(random_state=0)}


class RiverRegressor(_OneByOne, base.MiniBatchRegressor):
    """An :class:`~omkl.OnlineMKLRegressor` with ``learn_one`` and ``predict_one``; see :class:`RiverClassifier`.

    Parameters
    ----------
    estimator : OnlineMKLRegressor
        It is not changed: what learns is a copy, ``estimator_``.

    Attributes
    ----------
    estimator_ : OnlineMKLRegressor
        The estimator that learns.

    Examples
    --------
    >>> import omkl
    >>> from omkl.mkl.river import RiverRegressor
    >>> model = RiverRegressor(omkl.OnlineMKLRegressor(random_state=0))
    >>> for x in range(100):
    ...     model.learn_one({"x": x % 7}, 2.0 * (x % 7))
    >>> bool(abs(model.predict_one({"x": 5}) - 10.0) < 1.0)
    True
    """

    def __init__(self, estimator: OnlineMKLRegressor) -> None:
        self._start(estimator, OnlineMKLRegressor)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The predicted target of a row; 0 as long as nothing has been learned."""
        return float(self.estimator_.predict([_named(x)])[0]) if self._knows else 0.0

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The predicted target of each row of a data frame."""
        found = self.estimator_.predict(_rows(X)) if self._knows else np.zeros(len(X))
        return pd.Series(found, index=X.index)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"estimator": OnlineMKLRegressor(random_state=0)}


def _refuse(options: dict[str, Any]) -> None:
    """Raise where there are some: river's signature has room for any, and here none means something."""
    if options:
        raise InputError(f"A row is all that is predicted from: leave {', '.join(options)} out.")


def _named(x: dict[Any, Any]) -> dict[str, Any]:
    """A row with strings for names: river's may be numbers; copied, as it may change."""
    named = {str(name): value for name, value in x.items()}
    if len(named) < len(x):
        raise InputError(f"Two entries of a row have the same name as text, among {', '.join(map(repr, x))}.")
    return named


def _rows(X: pd.DataFrame) -> list[dict[str, Any]]:
    return [_named(x) for x in X.to_dict("records")]


def _plain(label: Any) -> Any:
    """A label as an object of Python."""
    return label.item() if isinstance(label, np.generic) else label
