"""Calibration: division of potentials by a temperature fitted to held-out data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import update_wrapper
from types import MethodType
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import scipy

from omkl.online.model import OnlineModel, OnlineSettings
from omkl.structures.base import Potentials, Structure, map_arrays

P = TypeVar("P", bound=Potentials)
#: Minimum temperature; the maximum is its inverse.
COLDEST = 1e-3
#: Lower bound of probabilities in a log loss.
LEAST = 1e-300


def _fit_temperature(log_loss: Callable[[float], float]) -> float:
    """Minimize the log loss over temperatures in [0.001, 1000].

    Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks.
    """
    bounds = np.log([COLDEST, 1.0 / COLDEST])
    minimum = scipy.optimize.minimize_scalar(
        lambda x: log_loss(float(np.exp(x))),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-3},
    )
    return float(np.exp(minimum.x))


def at_temperature(potentials: P, temperature: float) -> P:
    """Return potentials, a named tuple of arrays, divided by a temperature."""
    return map_arrays(lambda array: array / temperature, potentials)


def structure_temperature(
    structure: Structure, examples: Iterable[tuple[P, np.ndarray]]
) -> float | None:
    """Return the temperature that minimizes the log loss on held-out examples.

    It is the mean over single labels, or heads. Examples are pairs of potentials and gold outputs.
    Returns None if no label is known.
    """
    held_out = [(potentials, gold) for potentials, gold in examples if structure.n_known(gold)]

    def log_loss(temperature: float) -> float:
        total = n = 0.0
        for potentials, gold in held_out:
            right = structure.known_marginals(at_temperature(potentials, temperature), gold)
            total -= np.log(np.maximum(right, LEAST)).sum()
            n += len(right)
        return total / n

    if held_out:
        return _fit_temperature(log_loss)
    return None


def relation_temperature(scores: np.ndarray, right: np.ndarray) -> float | None:
    """Return the temperature that minimizes the log loss of relations.

    Scores are (number of words, number of relations). ``right`` (number of words,) has the code of
    each correct relation, 0 if unknown. Returns None if no relation is known.
    """
    is_possible = scores[np.arange(len(right)), right] > -np.inf
    words = np.flatnonzero((right > 0) & is_possible)

    def log_loss(temperature: float) -> float:
        scaled = scores[words] / temperature
        log_totals = scipy.special.logsumexp(scaled, axis=1)
        return float(np.mean(log_totals - scaled[np.arange(len(words)), right[words]]))

    if len(words):
        return _fit_temperature(log_loss)
    return None


# ---- models that have probabilities --------------------------------------------------------------


class OnlineLearner(Protocol):
    """An online estimator, whose settings tell whether it has probabilities."""

    loss: Any
    _model: OnlineModel | None

    def _settings(self) -> OnlineSettings: ...


def has_probabilities(estimator: OnlineLearner) -> bool:
    """Tell whether the loss has probabilities or the estimator is calibrated."""
    if getattr(estimator, "temperature_", None) is not None:
        return True
    model = estimator._model
    settings = estimator._settings() if model is None else model.settings
    return settings.probabilistic


def needs_probabilities(estimator: OnlineLearner, error: type[Exception] = AttributeError) -> bool:
    """Return True if the estimator has probabilities, else raise ``error``.

    ``available_if`` needs an AttributeError.
    """
    if has_probabilities(estimator):
        return True
    remedy = " or after calibrate()" if hasattr(estimator, "calibrate") else ""
    name = type(estimator).__name__
    raise error(f'{name} has probabilities with loss="crf"{remedy}, got loss={estimator.loss!r}.')


class WithMarginals:
    """Decorator of a method that only estimators with marginals have, as in scikit-learn."""

    def __init__(self, method: Callable) -> None:
        self.method = method
        update_wrapper(cast(Any, self), method)

    def __get__(self, estimator: OnlineLearner | None, owner: type) -> Callable:
        if estimator is None:
            return self.method
        needs_probabilities(estimator)
        return MethodType(self.method, estimator)
