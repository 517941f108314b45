"""Checks of arguments that all estimators share."""

import math
from typing import Any

import numpy as np

from omkl.exceptions import InputError


def check_number(
    name: str, value: Any, above: float = -math.inf, below: float = math.inf, integer: bool = False
) -> None:
    """Raise unless ``above < value < below``, finite, and a whole number where one is asked for."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not above < value < below or (integer and value != int(value)):
        kind = "a whole number" if integer else "a finite number"
        bounds = f" > {above:g}" if above > -math.inf else ""
        bounds += f" and < {below:g}" if below < math.inf else ""
        raise InputError(f"{name} must be {kind}{bounds}, not {value!r}.")
