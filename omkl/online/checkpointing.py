"""Checkpoints of a training run, written atomically; the last two are kept."""

import json
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path

import numpy as np

from omkl._files import read_archive, write_archive
from omkl.exceptions import CheckpointWarning, InputError, ModelFileError, OmklError
from omkl.online.rounds import State, Values, below, prefixed
from omkl.persistence import holds_whole

#: Seconds per unit of time in ``every="5m"``.
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Number of checkpoints that are kept.
KEPT = 2


class Checkpoints:
    """Checkpoints of a run.

    Each file holds the state of all stages of the run, which are training loops. Files are written
    atomically, and the last two are kept. If a checkpoint cannot be written, the previous one is
    kept, training continues, and a warning is issued once.

    Parameters
    ----------
    directory : path-like
        Created if it does not exist. It must be used by a single run only.
    every : str or float
        Time between checkpoints: seconds, or ``"30s"``, ``"5m"``, ``"2h"``; or ``"1000 rounds"``.
    configuration : dict, optional
        JSON values of everything that the run depends on besides its data.
    rng : numpy.random.Generator, optional
        When a run resumes, its state is reset to that at the beginning of the run.
    resume : bool
        Continue from the latest checkpoint, if there is one.

    Raises
    ------
    omkl.exceptions.InputError
        If the directory cannot be created, has checkpoints of another configuration, or has
        checkpoints without ``resume=True``.
    """

    def __init__(
        self,
        directory: str | PathLike,
        every: str | float = "60s",
        configuration: Values | None = None,
        rng: np.random.Generator | None = None,
        resume: bool = False,
    ) -> None:
        self._seconds, self._rounds = parsed_interval(every)
        self.directory = Path(directory)
        try:
            os.makedirs(directory, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"Checkpoints cannot go to {os.fspath(directory)!r}: {error.strerror}."
            ) from None
        for unfinished in self.directory.glob(".checkpoint-*.tmp"):
            unfinished.unlink(missing_ok=True)
        numbers = [int(path.stem.partition("-")[2]) for path in self._paths()]
        self._number = max(numbers, default=0)
        self._warned = False
        self._restart_interval()
        self._manifest: Values = {
            "class": "Checkpoint",
            "configuration": configuration or {},
            "data": None,
        }
        self._generator = None if rng is None else rng.bit_generator.state
        self._stages: dict[str, State] = {}
        self._earlier: Values = {}
        latest = self._read_latest()
        if latest is None:
            return
        if not resume:
            remedy = "continue it with resume=True, or name another directory."
            raise InputError(f"{self.directory} holds checkpoints of an earlier run: {remedy}")
        self._earlier, self._arrays = latest
        self._compare("configuration", configuration or {})
        with self.reading():
            self._run = json.loads(self._earlier["run"])
            self._generator = self._run["generator"]
            if rng is not None:
                rng.bit_generator.state = self._generator

    def _restart_interval(self) -> None:
        """Begin the interval up to the next checkpoint."""
        self._last = time.monotonic()
        #: Number of examples that were learned since then.
        self._waited = 0

    def _read_latest(self) -> State | None:
        """Return ``(values, arrays)`` of the latest checkpoint that is whole; None without any."""
        paths = self._paths()
        for path in paths:
            try:
                return read_archive(path)
            except ModelFileError as damage:
                if path == paths[-1]:
                    raise
                message = f"{damage} The checkpoint before it is used."
                warnings.warn(message, CheckpointWarning, stacklevel=3)
        return None

    def _paths(self) -> list[Path]:
        """Return the paths of existing checkpoints, latest first."""
        return sorted(self.directory.glob("checkpoint-" + "[0-9]" * 10 + ".npz"), reverse=True)

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which errors from the resumed checkpoint name its directory."""
        return holds_whole(str(self.directory), "checkpoint", (OmklError,))

    def _compare(self, name: str, facts: Values) -> None:
        """Raise an InputError for the first fact in which this run differs from the resumed one."""
        earlier = self._earlier.get(name) or {}
        for entry in {**earlier, **facts}:
            before = earlier.get(entry)
            now = facts.get(entry)
            if before != now:
                raise InputError(
                    f"The checkpoint in {self.directory} has {entry} = {before!r}, "
                    f"but this run has {now!r}: "
                    "resume with the same, or begin in another directory."
                )

    def check_data(self, facts: Values) -> None:
        """Raise an InputError if the resumed run had other data.

        Parameters
        ----------
        facts : dict
            JSON values that describe the data.
        """
        self._manifest["data"] = facts
        if self._earlier:
            self._compare("data", facts)

    def earlier(self, stage: str) -> State | None:
        """Return ``(values, arrays)`` of a stage in the resumed checkpoint.

        It is None if the stage had not started.
        """
        if not self._earlier or stage not in self._run["stages"]:
            return None
        return self._run["stages"][stage], below(self._arrays, f"{stage}/")

    def due(self, n_examples: int = 1) -> bool:
        """Count ``n_examples`` more examples, and return whether a checkpoint is due."""
        self._waited += n_examples
        if self._waited < self._rounds:
            return False
        return time.monotonic() - self._last >= self._seconds

    def room(self) -> int:
        """Return how many examples may be learned until a checkpoint is due."""
        return int(max(1, self._rounds - self._waited))

    def keep(self, stage: str, values: Values, arrays: dict[str, np.ndarray]) -> None:
        """Set the state of a stage for later checkpoints.

        Values may contain numpy numbers and small arrays.
        """
        self._stages[stage] = values, arrays

    def write(self) -> None:
        """Write a checkpoint with the states of all stages."""
        values = {name: values for name, (values, _) in self._stages.items()}
        # tolist converts numpy numbers, and the arrays in the state of a random generator
        run = json.dumps(
            {"generator": self._generator, "stages": values}, default=lambda value: value.tolist()
        )
        named = prefixed({name: arrays for name, (_, arrays) in self._stages.items()})
        with self.writing():
            path = self.directory / f"checkpoint-{self._number + 1:010d}.npz"
            write_archive(path, {**self._manifest, "run": run}, named)
        self._number += 1
        for path in self._paths()[KEPT:]:
            path.unlink(missing_ok=True)
        self._restart_interval()

    def part(self, name: str) -> Path | None:
        """Create a subdirectory for the checkpoints of a part of the run.

        Return None if writing has failed.
        """
        with self.writing():
            (self.directory / name).mkdir(exist_ok=True)
        return None if self._warned else self.directory / name

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Return a context that converts errors of writing to a single warning."""
        try:
            yield
        except OSError as error:
            if not self._warned:
                self._warned = True
                message = (
                    f"No checkpoint could be written to {self.directory} ({error.strerror}): "
                    "training goes on. The previous checkpoint is still there."
                )
                warnings.warn(message, CheckpointWarning, stacklevel=5)


def parsed_interval(every: str | float) -> tuple[float, int]:
    """Parse an interval to ``(seconds, rounds)``, the minimum of both between checkpoints."""
    duration = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smh]?)\s*", str(every))
    if duration:
        return float(duration[1]) * UNITS[duration[2]], 0
    count = re.fullmatch(r"\s*([1-9][0-9]*)\s*rounds?\s*", str(every))
    if count:
        return 0.0, int(count[1])
    raise InputError(
        f'checkpoint_every must be seconds, "30s", "5m", "2h" or "1000 rounds", not {every!r}.'
    )
