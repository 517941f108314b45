"""Online estimators with the interface of river: they learn from one dict at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from omkl.estimators.persistence import SavedEstimator
from omkl.exceptions import InputError, MissingDependencyError
from omkl.mkl.online import OnlineMKLClassifier, OnlineMKLRegressor

try:
    from river import base
except ImportError:
    raise MissingDependencyError(
        "RiverClassifier and RiverRegressor need river: pip install 'omkl[river]'."
    ) from None


#: A row of a stream.
Row: TypeAlias = Mapping[Hashable, Any]


class RiverClassifier(base.Classifier):
    """An :class:`~omkl.OnlineMKLClassifier` that learns and predicts one row at a time.

    It works in river's pipelines, metrics and ``progressive_val_score``. Rows are dicts. The
    numbers of the first row are columns, which the default kernels see standardized; they may be
    missing later. Strings, and numbers whose keys come later, are sparse features, with a learned
    weight per key. Kernels can use numbers and arrays by name, such as
    ``"gaussian:on=[a,b],features=200"``; then all other numbers are sparse features.

    Parameters
    ----------
    estimator : OnlineMKLClassifier or CheckedModel
        Copied, not changed; training continues from the state of the estimator. With the result of
        :func:`omkl.guarantee` for an online classifier, there are sets of labels as well.
    classes : sequence of labels, optional
        All labels that may ever occur. By default new labels are added as they occur.
    miss : float in (0, 1)
        Share of the sets that miss the label.

    Attributes
    ----------
    estimator_ : OnlineMKLClassifier
        The copy that is trained.
    checked_ : CheckedModel or None
        The copy of a checked model, which adapts its sets.

    Examples
    --------
    >>> import omkl
    >>> from omkl.mkl.river import RiverClassifier
    >>> model = RiverClassifier(omkl.OnlineMKLClassifier(random_state=0))
    >>> for x, y in [({"sky": "grey"}, "rain"), ({"sky": "blue"}, "sun")] * 5:
    ...     model.learn_one(x, y)
    >>> model.predict_one({"sky": "grey"})
    'rain'
    """

    def __init__(
        self, estimator: SavedEstimator, classes: ArrayLike | None = None, miss: float = 0.1
    ) -> None:
        self.estimator = estimator
        self.classes = classes
        self.miss = miss
        trained: Any = deepcopy(estimator)
        is_checked = hasattr(trained, "sets")
        if is_checked:
            self.checked_ = trained
            self.estimator_ = trained.model
        else:
            self.checked_ = None
            self.estimator_ = trained

    def learn_one(self, x: Row, y: Hashable, w: float = 1.0) -> None:
        """Learn from one example, with weight ``w >= 0``."""
        if w == 0.0:
            return
        weight = None if w == 1.0 else w
        options: dict[str, Any] = {"sample_weight": weight}
        if not self.estimator_.__sklearn_is_fitted__():
            if self.classes is None:
                options["classes"] = "growing"
            else:
                options["classes"] = self.classes
        if self.checked_ is None:
            self.estimator_.partial_fit([_named(x)], [_plain(y)], **options)
        else:
            self.checked_.partial_fit([_named(x)], [_plain(y)], miss=self.miss, **options)

    def predict_one(self, x: Row, **kwargs: object) -> Any:
        """Predict the label of a row; None before the first example."""
        if not self.estimator_.__sklearn_is_fitted__():
            return None
        return _plain(self.estimator_.predict([_named(x)])[0])

    def predict_proba_one(self, x: Row, **kwargs: object) -> dict[Any, float]:
        """Predict the probability of each known label.

        Raises
        ------
        NotImplementedError
            Unless the estimator's loss is "crf"; river's own classifiers raise it as well.
        """
        if self.estimator_.loss != "crf":
            raise NotImplementedError('Probabilities need loss="crf".')
        if not self.estimator_.__sklearn_is_fitted__():
            return {}
        probabilities = self.estimator_.predict_proba([_named(x)])[0].tolist()
        return dict(zip(map(_plain, self.estimator_.classes_), probabilities))

    def predict_set_one(self, x: Row) -> set:
        """Predict the set of possible labels of a row.

        Learning adapts sets, so that a share of ``miss`` of them miss the label.

        Raises
        ------
        omkl.exceptions.InputError
            If the estimator is no CheckedModel.
        """
        if self.checked_ is None:
            raise InputError(
                "predict_set_one() needs an estimator that omkl.guarantee has calibrated."
            )
        return set(map(_plain, self.checked_.sets([_named(x)], miss=self.miss)[0]))

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"estimator": OnlineMKLClassifier(random_state=0)}


class RiverRegressor(base.Regressor):
    """An :class:`~omkl.OnlineMKLRegressor` that learns and predicts one row at a time.

    See :class:`RiverClassifier`.

    Parameters
    ----------
    estimator : OnlineMKLRegressor
        Copied, not changed; training continues from the state of the estimator.

    Attributes
    ----------
    estimator_ : OnlineMKLRegressor
        The copy that is trained.

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
        self.estimator = estimator
        self.estimator_ = deepcopy(estimator)

    def learn_one(self, x: Row, y: float, w: float = 1.0) -> None:
        """Learn from one example, with weight ``w >= 0``."""
        if w != 0.0:
            weight = None if w == 1.0 else w
            self.estimator_.partial_fit([_named(x)], [y], sample_weight=weight)

    def predict_one(self, x: Row) -> float:
        """Predict the target of a row; 0 before the first example."""
        if not self.estimator_.__sklearn_is_fitted__():
            return 0.0
        return float(self.estimator_.predict([_named(x)])[0])

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"estimator": OnlineMKLRegressor(random_state=0)}


def _named(x: Row) -> dict[str, Any]:
    """Return a copy of a row with strings as keys."""
    row = {str(name): value for name, value in x.items()}
    if len(row) < len(x):
        names = list(map(str, x))
        name = next(name for name in names if names.count(name) > 1)
        raise InputError(f"The keys of a row must differ as strings, got several {name!r}.")
    return row


def _plain(label: Hashable) -> Any:
    """Convert a label to a Python object."""
    if isinstance(label, np.generic):
        return label.item()
    return label
