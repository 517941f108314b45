"""Calibration: probabilities from potentials divided by a temperature that fits held-out data."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from omkl.structures import Potentials

#: Smallest temperature of the search; its inverse is the largest.
COLDEST = 1e-3
#: Smallest probability in a log loss.
LEAST = 1e-300


def fit_temperature(log_loss: Callable[[float], float]) -> float:
    """The temperature of the smallest loss on held-out data (Guo, Pleiss, Sun, Weinberger 2017, temperature scaling).

    Parameters
    ----------
    log_loss : callable
        ``log_loss(temperature)`` is the mean negative log-probability of the right outputs, with potentials divided by
        the temperature.

    Returns
    -------
    float
        Between 0.001 and 1000.
    """
    bounds = np.log([COLDEST, 1.0 / COLDEST])
    found = minimize_scalar(
        lambda x: log_loss(float(np.exp(x))), bounds=bounds, method="bounded", options={"xatol": 1e-3}
    )
    return float(np.exp(found.x))


def at_temperature(potentials: Any, temperature: float) -> Any:
    """Return potentials, a named tuple of arrays, divided by a temperature."""
    return type(potentials)(*(array / temperature for array in potentials))


def structure_temperature(structure: Any, examples: Iterable[tuple[Potentials, Any]]) -> float | None:
    """Return the temperature at which the labels, or heads, of held-out examples are likeliest, one by one.

    Parameters
    ----------
    structure : Structure
        It has ``n_known(gold)`` and ``known_marginals(potentials, gold)``.
    examples : iterable of (Potentials, gold)

    Returns
    -------
    float or None
        None where nothing is known.
    """
    held_out = [(potentials, gold) for potentials, gold in examples if structure.n_known(gold)]

    def log_loss(temperature: float) -> float:
        total = n = 0.0
        for potentials, gold in held_out:
            right = structure.known_marginals(at_temperature(potentials, temperature), gold)
            total -= np.log(np.maximum(right, LEAST)).sum()
            n += len(right)
        return total / n

    return fit_temperature(log_loss) if held_out else None


def relation_temperature(scores: np.ndarray, right: np.ndarray) -> float | None:
    """The temperature of the smallest log loss of relations.

    Parameters
    ----------
    scores : array of shape (number of words, number of relations)
    right : int array of shape (number of words,)
        Codes of the right relations, 0 for one that is not known.

    Returns
    -------
    float or None
        None where no relation is known.
    """
    known = np.flatnonzero((right > 0) & (scores[np.arange(len(right)), right] > -np.inf))

    def log_loss(temperature):
        scaled = scores[known] / temperature
        return np.mean(logsumexp(scaled, axis=1) - scaled[np.arange(len(known)), right[known]])

    return fit_temperature(log_loss) if len(known) else None


# ---- models that have probabilities -----------------------------------------------------------------------------


def is_probabilistic(estimator: Any) -> bool:
    """Return whether the potentials of an online estimator are log-probabilities, by its loss."""
    model = vars(estimator).get("model_")
    return (estimator._settings() if model is None else model.settings).probabilistic


def needs_probabilities(estimator: Any) -> bool:
    """Return True where potentials are log-probabilities, else raise an AttributeError that names the loss."""
    if is_probabilistic(estimator):
        return True
    raise AttributeError(
        f'{type(estimator).__name__} has probabilities with loss="crf" only, got loss={estimator.loss!r}.'
    )


def has_marginals(estimator: Any) -> bool:
    """Return True where the loss has probabilities or the model is calibrated, else raise an AttributeError."""
    if getattr(estimator, "temperature_", None) is not None or is_probabilistic(estimator):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} with loss={estimator.loss!r} has probabilities once it is calibrated: call "
        'calibrate with new data, or train with early_stopping=True or loss="crf".'
    )
