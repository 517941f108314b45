"""Probabilities of models whose loss has none: potentials divided by a temperature that fits held-out data."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

#: Temperatures that are looked at: from this to its inverse.
COLDEST = 1e-3
#: A probability below this counts as this much.
LEAST = 1e-300


def fit_temperature(log_loss: Callable[[float], float]) -> float:
    """The temperature of the smallest loss on held-out data (Guo, Pleiss, Sun, Weinberger 2017, temperature scaling).

    Parameters
    ----------
    log_loss : callable
        ``log_loss(temperature)`` is the mean negative log-probability of what is right, where potentials are divided
        by the temperature.

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
    """Potentials divided by a temperature."""
    return type(potentials)(*(array / temperature for array in potentials))


def chain_temperature(structure: Any, examples: Iterable[tuple[Any, np.ndarray]]) -> float | None:
    """The temperature at which the labels of held-out sequences are likeliest, one by one.

    Parameters
    ----------
    structure : Chain
    examples : iterable of (ChainPotentials, int array)
        Potentials and labels of each sequence, -1 where a label is not known.

    Returns
    -------
    float or None
        None where no label is known.
    """
    held_out: Sequence[tuple[Any, np.ndarray]] = [(own, gold) for own, gold in examples if (gold >= 0).any()]

    def log_loss(temperature):
        total = n = 0.0
        for potentials, gold in held_out:
            marginals = structure.marginals(at_temperature(potentials, temperature))[1].unary
            known = np.flatnonzero(gold >= 0)
            total -= np.log(np.maximum(marginals[known, gold[known]], LEAST)).sum()
            n += len(known)
        return total / n

    return fit_temperature(log_loss) if held_out else None


def tree_temperature(structure: Any, examples: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """The temperature at which the right heads of held-out sentences are likeliest, word by word.

    Parameters
    ----------
    structure : ArcFactored
    examples : sequence of (array (n + 1, n + 1), int array (n,))
        Potentials and heads of each sentence, -1 where a head is not known.
    """

    def log_loss(temperature):
        total = n = 0.0
        for potentials, heads in examples:
            known = np.flatnonzero(heads >= 0)
            right = structure.marginals(potentials / temperature)[1][heads[known], known + 1]
            total -= np.log(np.maximum(right, LEAST)).sum()
            n += len(known)
        return total / n

    return fit_temperature(log_loss)


def relation_temperature(scores: np.ndarray, right: np.ndarray) -> float | None:
    """The temperature at which the right relations are likeliest, whose codes are ``right``, 0 for one that is not
    known; ``scores`` are (number of words, number of relations). None where none is known."""
    known = np.flatnonzero((right > 0) & (scores[np.arange(len(right)), right] > -np.inf))

    def log_loss(temperature):
        scaled = scores[known] / temperature
        return np.mean(logsumexp(scaled, axis=1) - scaled[np.arange(len(known)), right[known]])

    return fit_temperature(log_loss) if len(known) else None
