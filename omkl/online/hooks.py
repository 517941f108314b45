"""Calls of callbacks, and their states in checkpoints."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from omkl.exceptions import InputError
from omkl.online.rounds import below

#: State of a callback in a checkpoint: JSON values and named arrays.
State: TypeAlias = tuple[dict[str, Any], dict[str, np.ndarray]]


def check_callbacks(callbacks: object) -> list[Any]:
    """Return callbacks as a list, empty for None.

    Parameters
    ----------
    callbacks : list, tuple or None
        Each is callable or has an ``on_*`` method; else an InputError is raised.
    """
    callbacks = [] if callbacks is None else callbacks
    if not isinstance(callbacks, (list, tuple)):
        raise InputError(f"`callbacks` must be a list of callbacks, got {callbacks!r}.")
    for callback in callbacks:
        if not callable(callback) and not any(name.startswith("on_") for name in dir(callback)):
            raise InputError(f"The callback {callback!r} has no `on_*` method and is not callable.")
    return list(callbacks)


def hooks(callbacks: Sequence[object], name: str) -> list[Callable]:
    """Collect the methods of a name that callbacks have; a plain callable is its own ``on_epoch``.

    Parameters
    ----------
    callbacks : sequence
    name : str
        Such as ``"on_round"``.
    """
    found = [getattr(callback, name, callback if name == "on_epoch" else None) for callback in callbacks]
    return [hook for hook in found if callable(hook)]


def states_of(callbacks: Sequence[object]) -> tuple[list, dict[str, np.ndarray]]:
    """Return ``(values, arrays)`` of the callbacks that have a ``state()``."""
    values, arrays = [], {}
    for index, callback in enumerate(_with_state(callbacks)):
        value, own = callback.state()
        values.append(value)
        arrays.update({f"callback{index}/{name}": np.asarray(array) for name, array in own.items()})
    return values, arrays


def load_states(callbacks: Sequence[object], values: list, arrays: dict[str, np.ndarray]) -> None:
    """The inverse of :func:`states_of`."""
    callbacks = _with_state(callbacks)
    if len(callbacks) != len(values):
        raise InputError(f"The checkpoint has states of {len(values)} callbacks, but this run has {len(callbacks)}.")
    for index, (callback, value) in enumerate(zip(callbacks, values)):
        callback.load_state(value, below(arrays, f"callback{index}/"))


def _with_state(callbacks: Sequence[object]) -> list[Any]:
    return [callback for callback in callbacks if hasattr(callback, "state")]
