"""Checkpoints of a training run: its last two states on disk, written atomically."""

import json
import os
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from omkl._files import read_archive, write_archive
from omkl.exceptions import CheckpointWarning, InputError, ModelFileError, OmklError
from omkl.online.rounds import below
from omkl.persistence import Packer, Unpacker, holds_whole

#: Seconds in the units that ``every="5m"`` may have.
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
KEPT = 2


class Checkpoints:
    """States of one run in a directory of their own: written to a temporary file, synced, renamed; the last two stay.

    Where the disk is full, the previous checkpoint stays, training goes on, and one warning says so. The directory is
    locked until :meth:`close`, or the end of the process.

    Parameters
    ----------
    directory : path-like
        Made where it does not exist.
    every : str or float
        Time between checkpoints: seconds, or ``"30s"``, ``"5m"``, ``"2h"``; or ``"1000 rounds"``.

    Raises
    ------
    omkl.exceptions.InputError
        If the directory has no name, cannot be made, or another run has it.
    """

    _lock: int | None = None

    def __init__(self, directory: str | PathLike, every: str | float = "60s") -> None:
        self._seconds, self._rounds = _interval(every)
        if not os.fspath(directory):
            raise InputError("checkpoint must name a directory, and is empty.")
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"Checkpoints cannot go to {directory}: {error.strerror}. Name a directory.") from None
        self._lock = _locked(self.directory)
        for unfinished in self.directory.glob(".checkpoint-*.tmp"):
            unfinished.unlink(missing_ok=True)
        self._number = max((int(path.stem.partition("-")[2]) for path in self._paths()), default=0)
        self._warned = False
        self._last, self._waited = time.monotonic(), 0

    def _paths(self) -> list[Path]:
        """Checkpoints that are there, the latest first."""
        return sorted(self.directory.glob("checkpoint-" + "[0-9]" * 10 + ".npz"), reverse=True)

    def close(self) -> None:
        """Leave the directory to other runs."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    __del__ = close

    def __bool__(self) -> bool:
        return bool(self._paths())

    def due(self, n_examples: int = 1) -> bool:
        """Check if a checkpoint is due, ``n_examples`` examples after the last call."""
        self._waited += n_examples
        if self._rounds is not None:
            return self._waited >= self._rounds
        return time.monotonic() - self._last >= float(self._seconds or 0)

    def write(self, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Write a checkpoint: JSON values, and named arrays."""
        with self._writing():
            write_archive(self.directory / f"checkpoint-{self._number + 1:010d}.npz", manifest, arrays)
            self._number += 1
            for path in self._paths()[KEPT:]:
                path.unlink(missing_ok=True)
        self._last, self._waited = time.monotonic(), 0

    def keep(self, name: str, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Write a file of this name beside the checkpoints, which stays there."""
        with self._writing():
            write_archive(self.directory / name, manifest, arrays)

    def part(self, name: str) -> Path | None:
        """A directory for the checkpoints of a part of the run; None where it, or anything before, cannot be made."""
        with self._writing():
            (self.directory / name).mkdir(exist_ok=True)
        return None if self._warned else self.directory / name

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A context in which what cannot be written is one warning for all."""
        try:
            yield
        except OSError as error:
            if not self._warned:
                self._warned = True
                message = f"No checkpoint could be written to {self.directory} ({error.strerror}): training goes on."
                warnings.warn(f"{message} The previous checkpoint is still there.", CheckpointWarning, stacklevel=5)

    def newest(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
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


def _locked(directory: Path) -> int | None:
    """A descriptor of a directory that no other run has, open as long as this one does; None where there are no locks.

    The system lets go of the lock when the process ends, however it ends.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(
            f"Another run keeps its checkpoints in {directory}: wait for its end, or name another directory."
        ) from None
    except OSError:  # a file system without locks
        os.close(descriptor)
        return None
    return descriptor


def _interval(every: Any) -> tuple[float | None, int | None]:
    """``(seconds, rounds)``, one of which is None."""
    if isinstance(every, (int, float)) and not isinstance(every, bool) and every >= 0:
        return float(every), None
    if isinstance(every, str):
        if match := re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smh]?)\s*", every):
            return float(match[1]) * UNITS[match[2] or "s"], None
        if match := re.fullmatch(r"\s*([1-9][0-9]*)\s*rounds?\s*", every):
            return None, int(match[1])
    raise InputError(f'checkpoint_every must be seconds, "30s", "5m", "2h" or "1000 rounds", not {every!r}.')


class Checkpointer:
    """The checkpoints of a run of one or several training loops, its stages: each holds the whole state.

    Parameters
    ----------
    checkpoints : Checkpoints
    configuration : dict
        JSON values: what the run depends on beside its data.
    rng : numpy.random.Generator
        Put back to where the run began, where one is resumed.
    resume : bool
        Go on from the latest checkpoint, where there is one.

    Raises
    ------
    omkl.exceptions.InputError
        If there are checkpoints of another configuration, or any where nothing is to be resumed.
    """

    def __init__(
        self, checkpoints: Checkpoints, configuration: dict[str, Any], rng: np.random.Generator, resume: bool
    ) -> None:
        self.checkpoints = checkpoints
        self._manifest: dict[str, Any] = {"class": "Checkpoint", "configuration": configuration, "data": None}
        self._generator = rng.bit_generator.state
        self._stages: dict[str, tuple[dict, dict]] = {}
        self._earlier: Any = None
        if checkpoints and not resume:
            raise InputError(
                f"{checkpoints.directory} holds checkpoints of an earlier run: go on from them with resume=True "
                "(--resume), or name another directory."
            )
        found = checkpoints.newest() if checkpoints else None
        if found is not None:
            manifest, arrays = found
            self._earlier = manifest, arrays, {}
            self._compare("configuration", configuration)
            with self.reading():
                run = manifest["run"]
                run = json.loads(run["json"]) if "json" in run else Unpacker(arrays, {}).unpack(run)
                self._earlier = manifest, arrays, run
                self._generator = rng.bit_generator.state = run["generator"]

    def reading(self) -> AbstractContextManager[None]:
        """A context in which what is wrong with the checkpoint that is resumed is said of its directory."""
        return holds_whole(str(self.checkpoints.directory), "checkpoint", OmklError)

    def _compare(self, name: str, facts: dict[str, Any]) -> None:
        """Facts of this run against those of the one to be resumed; names the first that differs."""
        earlier = self._earlier[0].get(name)
        if not isinstance(earlier, dict):
            raise InputError(f"{self.checkpoints.directory} holds something else than checkpoints of this command.")
        for entry in {**earlier, **facts}:
            if earlier.get(entry) != facts.get(entry):
                raise InputError(
                    f"The checkpoint in {self.checkpoints.directory} has {entry} = {earlier.get(entry)!r}, but this "
                    f"run has {facts.get(entry)!r}: resume with what it began with, or begin in another directory."
                )

    def check_data(self, facts: dict[str, Any]) -> None:
        """Raise unless a resumed run has the data of the run that it goes on from, by what ``facts`` tell of it."""
        self._manifest["data"] = facts
        if self._earlier is not None:
            self._compare("data", facts)

    def stage(self, name: str) -> "StageCheckpointer":
        """The checkpointer of one loop."""
        return StageCheckpointer(self, name)

    def earlier(self, stage: str) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """``(values, arrays)`` of a stage in the checkpoint that is resumed; None where it had not begun."""
        if self._earlier is None or stage not in self._earlier[2]["stages"]:
            return None
        return self._earlier[2]["stages"][stage], below(self._earlier[1], f"{stage}/")

    def keep(self, stage: str, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Set the state of a stage that later checkpoints hold."""
        self._stages[stage] = values, arrays

    def write(self) -> None:
        """Write a checkpoint: the stages before as they ended, and the one at hand."""
        packer = Packer()
        values = {name: values for name, (values, _) in self._stages.items()}
        run = {"generator": self._generator, "stages": values}
        try:
            run = {"json": json.dumps(run)}
        except TypeError:  # a generator with arrays, or a callback's own kinds of numbers
            run = packer.pack(run, "the run")
        named = {f"{name}/{key}": array for name, (_, own) in self._stages.items() for key, array in own.items()}
        self.checkpoints.write({**self._manifest, "run": run}, {**packer.arrays, **named})


class StageCheckpointer:
    """Checkpoints of one :class:`~omkl.online.TrainingLoop`, a stage of the run.

    Parameters
    ----------
    run : Checkpointer
    name : str
        What the stage is called in the file.
    """

    def __init__(self, run: Checkpointer, name: str) -> None:
        self._run = run
        self._name = name

    def due(self, n_examples: int = 1) -> bool:
        """Check if a checkpoint is due, ``n_examples`` examples after the last call."""
        return self._run.checkpoints.due(n_examples)

    def restore(self, loop: Any) -> None:
        """Put all parts of a loop back to where the checkpoint has them, where there is one."""
        with self._run.reading():
            found = self._run.earlier(self._name)
            if found is not None:
                values, arrays = found
                loop.trainer.load_state(arrays)
                loop.source.load_state(values["source"])
                loop.progress.load_state(values["progress"])
                load_states(loop.callbacks, values["callbacks"], arrays)

    def write(self, loop: Any) -> None:
        """Write the state of a loop."""
        self.end(loop)
        self._run.write()

    def end(self, loop: Any) -> None:
        """The loop is over: later checkpoints hold its state as it is now."""
        source, own = loop.source.state()
        callbacks, arrays = states_of(loop.callbacks)
        values = {"source": source, "progress": loop.progress.state(), "callbacks": callbacks}
        self._run.keep(self._name, values, {**loop.trainer.state(), **own, **arrays})


def states_of(callbacks: Sequence[Any]) -> tuple[list, dict[str, np.ndarray]]:
    """``(values, arrays)`` of the callbacks that have a ``state()``: a pair of JSON values and named arrays."""
    values, arrays = [], {}
    for index, callback in enumerate(_with_state(callbacks)):
        value, own = callback.state()
        values.append(value)
        arrays.update({f"callback{index}/{name}": np.asarray(array) for name, array in own.items()})
    return values, arrays


def load_states(callbacks: Sequence[Any], values: list, arrays: dict[str, np.ndarray]) -> None:
    """The inverse of :func:`states_of`."""
    callbacks = _with_state(callbacks)
    if len(callbacks) != len(values):
        raise InputError(f"The checkpoint has states of {len(values)} callbacks, but this run has {len(callbacks)}.")
    for index, (callback, value) in enumerate(zip(callbacks, values)):
        callback.load_state(value, below(arrays, f"callback{index}/"))


def _with_state(callbacks: Sequence[Any]) -> list:
    return [callback for callback in callbacks if hasattr(callback, "state")]
