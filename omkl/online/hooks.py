"""Hook methods of callbacks, and states of callbacks in checkpoints."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl.exceptions import InputError
from omkl.online.rounds import below


def check_callbacks(callbacks: object) -> list[Any]:
    """Return callbacks as a list; raise InputError unless each is callable or has an ``on_*`` method."""
    if callbacks is None:
        return []
    if isinstance(callbacks, (list, tuple)) and all(
        callable(callback) or any(name.startswith("on_") for name in dir(callback)) for callback in callbacks
    ):
        return list(callbacks)
    raise InputError(f"`callbacks` must be a list of callables, or of objects with `on_*` methods, got {callbacks!r}.")


def hooks(callbacks: Sequence[object], name: str) -> list[Callable]:
    """Collect the methods called ``name`` of all callbacks; a plain callable counts as ``on_epoch``."""
    found = [getattr(callback, name, callback if name == "on_epoch" else None) for callback in callbacks]
    return [hook for hook in found if callable(hook)]


def states_of(callbacks: Sequence[object]) -> tuple[list, dict[str, np.ndarray]]:
    """Return ``(values, arrays)`` of the callbacks with a method ``state``."""
    values, arrays = [], {}
    for index, state in enumerate(hooks(callbacks, "state")):
        value, own = state()
        values.append(value)
        arrays.update({f"callback{index}/{name}": np.asarray(array) for name, array in own.items()})
    return values, arrays


def load_states(callbacks: Sequence[object], values: list, arrays: dict[str, np.ndarray]) -> None:
    """Load the states of :func:`states_of`."""
    loaders = hooks(callbacks, "load_state")
    if len(loaders) != len(values):
        raise InputError(f"The checkpoint has states of {len(values)} callbacks, but this run has {len(loaders)}.")
    for index, (load, value) in enumerate(zip(loaders, values)):
        load(value, below(arrays, f"callback{index}/"))
