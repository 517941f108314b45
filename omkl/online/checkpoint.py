"""Checkpoints: the last two states of a training run on disk, each whole or not there at all."""

import re
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from omkl._archive import read_archive, write_archive
from omkl.exceptions import CheckpointWarning, InputError, ModelFileError

#: Seconds in the units that ``every="5m"`` may have.
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
KEPT = 2


class Checkpoints:
    """States of one run in a directory of their own: written to a temporary file, synced, renamed; the last two stay.

    Where the disk is full, the previous checkpoint stays, training goes on, and one warning says so.

    Parameters
    ----------
    directory : path-like
        Made where it does not exist.
    every : str or float
        Time between checkpoints: seconds, or ``"30s"``, ``"5m"``, ``"2h"``; or ``"1000 rounds"``.
    """

    def __init__(self, directory, every="60s"):
        self._seconds, self._rounds = _interval(every)
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"Checkpoints cannot go to {directory}: {error.strerror}. Name a directory.") from None
        for unfinished in self.directory.glob(".checkpoint-*.tmp"):
            unfinished.unlink(missing_ok=True)
        self._number = max((int(path.stem.partition("-")[2]) for path in self._paths()), default=0)
        self._warned = False
        self._last, self._waited = time.monotonic(), 0

    def _paths(self):
        """Checkpoints that are there, the latest first."""
        return sorted(self.directory.glob("checkpoint-" + "[0-9]" * 10 + ".npz"), reverse=True)

    def __bool__(self):
        return bool(self._paths())

    def due(self, rounds=1):
        """Whether it is time for another one, so many rounds after the last call."""
        self._waited += rounds
        if self._rounds is not None:
            return self._waited >= self._rounds
        return time.monotonic() - self._last >= self._seconds

    def write(self, manifest, arrays):
        """Write a checkpoint: JSON values, and named arrays."""
        try:
            write_archive(self.directory / f"checkpoint-{self._number + 1:010d}.npz", manifest, arrays)
            self._number += 1
            for path in self._paths()[KEPT:]:
                path.unlink(missing_ok=True)
        except OSError as error:
            if not self._warned:
                self._warned = True
                message = f"No checkpoint could be written to {self.directory} ({error.strerror}): training goes on."
                warnings.warn(f"{message} The previous checkpoint is still there.", CheckpointWarning, stacklevel=3)
        self._last, self._waited = time.monotonic(), 0

    def newest(self):
        """``(manifest, arrays)`` of the latest whole checkpoint; None where there is none."""
        error = None
        for path in self._paths():
            try:
                return read_archive(path)
            except ModelFileError as damaged:
                error = damaged
                warnings.warn(f"{damaged} The checkpoint before it is used.", CheckpointWarning, stacklevel=3)
        if error is not None:
            raise error
        return None


def _interval(every):
    """``(seconds, rounds)``, one of which is None."""
    if isinstance(every, (int, float)) and not isinstance(every, bool) and every >= 0:
        return float(every), None
    if isinstance(every, str):
        if match := re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smh]?)\s*", every):
            return float(match[1]) * UNITS[match[2] or "s"], None
        if match := re.fullmatch(r"\s*([1-9][0-9]*)\s*rounds?\s*", every):
            return None, int(match[1])
    raise InputError(f'checkpoint_every must be seconds, "30s", "5m", "2h" or "1000 rounds", not {every!r}.')


@dataclass
class Course:
    """How far a fit has come: what is neither in the trainer's state nor in the data.

    Attributes
    ----------
    epoch : int
        The epoch that is running, from 1.
    rounds : int
        Rounds made in it.
    loss : float
        Their losses, summed.
    seconds : float
        What the epoch had taken in the processes before this one.
    history : list of dict
        Records of the epochs before.
    generator : dict or None
        State of the random generator before the epoch's order was drawn.
    finished : bool
    """

    epoch: int = 1
    rounds: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    history: list = field(default_factory=list)
    generator: dict | None = None
    finished: bool = False

    def __post_init__(self):
        self.start_clock()

    def start_clock(self):
        """The epoch goes on now."""
        self._began = time.perf_counter() - self.seconds

    def elapsed(self):
        """Seconds that the epoch has taken so far."""
        return time.perf_counter() - self._began

    def note(self, rng):
        """Remember the state of the generator."""
        self.generator = None if rng is None else rng.bit_generator.state

    def rewind(self, rng):
        """Put the generator where it was when the epoch began."""
        if rng is not None:
            rng.bit_generator.state = self.generator

    def next_epoch(self, rng):
        """The epoch is over."""
        self.epoch, self.rounds, self.loss, self.seconds = self.epoch + 1, 0, 0.0, 0.0
        self.note(rng)
        self.start_clock()

    def as_dict(self):
        """All of it."""
        return {**asdict(self), "seconds": self.elapsed()}

    def load(self, content):
        """The inverse of :meth:`as_dict`."""
        for name, value in content.items():
            setattr(self, name, value)
        self.start_clock()


def states_of(callbacks):
    """``(values, arrays)`` of the callbacks that have a ``state()``: a pair of JSON values and named arrays."""
    values, arrays = [], {}
    for index, callback in enumerate(_with_state(callbacks)):
        value, own = callback.state()
        values.append(value)
        arrays.update({f"callback{index}/{name}": np.asarray(array) for name, array in own.items()})
    return values, arrays


def load_states(callbacks, values, arrays):
    """The inverse of :func:`states_of`."""
    callbacks = _with_state(callbacks)
    if len(callbacks) != len(values):
        raise InputError(f"The checkpoint has states of {len(values)} callbacks, but this run has {len(callbacks)}.")
    for index, (callback, value) in enumerate(zip(callbacks, values)):
        prefix = f"callback{index}/"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        callback.load_state(value, own)


def _with_state(callbacks):
    return [callback for callback in callbacks if hasattr(callback, "state")]
