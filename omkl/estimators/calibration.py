"""Probabilities of models whose loss has none: potentials divided by a temperature that fits held-out data."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

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
