"""A call of ``fit`` that checkpoints, and goes on where its last checkpoint left it."""

import hashlib
import json
from functools import partial
from importlib.metadata import version

import numpy as np

from omkl.exceptions import InputError
from omkl.online import Checkpoints, ParameterMixing
from omkl.online.checkpoint import load_states, states_of
from omkl.persistence import Packer, Unpacker

#: Parameters that a resumed run may have otherwise: they do not change what is learned.
FREE = ("verbose", "callbacks")


class Run:
    """A run without checkpoints; :class:`CheckpointedRun` has some.

    Parameters
    ----------
    rng : numpy.random.Generator
    mixing : ParameterMixing, optional
        Trains in shards.
    """

    def __init__(self, rng, mixing=None):
        self.rng = rng
        self.mixing = mixing

    def fit(self, phase, trainer, examples, *, epochs, shuffle=True, callbacks=(), progress=False):
        """Make the epochs of one trainer; returns its history."""
        fit = trainer.fit if self.mixing is None else partial(self.mixing.fit, trainer)
        return fit(
            examples, epochs=epochs, rng=self.rng if shuffle else None, callbacks=callbacks, progress=progress,
            keeper=self.phase(phase),
        )  # fmt: skip

    def check_data(self, facts):
        """Raise unless a resumed run has the data of the run that it goes on from; ``facts()`` tells what it has."""

    def phase(self, name):
        """What keeps the checkpoints of one trainer's fit; None without checkpoints."""
        return None


class CheckpointedRun(Run):
    """A run of one or several fits, the phases, of which every checkpoint holds the whole state.

    Parameters
    ----------
    checkpoints : Checkpoints
    configuration : dict
        JSON values: what the run depends on beside its data.
    rng : numpy.random.Generator
    resume : bool
        Go on from the latest checkpoint, where there is one.

    Raises
    ------
    omkl.exceptions.InputError
        If there are checkpoints of another configuration, or any where nothing is to be resumed.
    """

    def __init__(self, checkpoints, configuration, rng, resume, mixing=None):
        super().__init__(rng, mixing)
        self._checkpoints = checkpoints
        self._manifest = {"class": "Checkpoint", "configuration": configuration, "data": None}
        self._generator = rng.bit_generator.state
        self._phases = {}
        self._earlier = None
        if checkpoints and not resume:
            raise InputError(
                f"{checkpoints.directory} holds checkpoints of an earlier run: go on from them with resume=True "
                "(--resume), or name another directory."
            )
        found = checkpoints.newest() if checkpoints else None
        if found is not None:
            manifest, arrays = found
            self._earlier = Unpacker(arrays, {}), manifest
            self._compare("configuration", configuration)
            self._generator = rng.bit_generator.state = self._unpacked("generator")

    def _unpacked(self, name):
        unpacker, manifest = self._earlier
        return unpacker.unpack(manifest["run"])[name]

    def _compare(self, name, facts):
        """Facts of this run against those of the one to be resumed; names the first that differs."""
        earlier = self._earlier[1].get(name)
        if earlier is None:
            raise InputError(f"{self._checkpoints.directory} holds something else than checkpoints of this command.")
        for field in {**earlier, **facts}:
            if earlier.get(field) != facts.get(field):
                raise InputError(
                    f"The checkpoint in {self._checkpoints.directory} has {field} = {earlier.get(field)!r}, but this "
                    f"run has {facts.get(field)!r}: resume with what it began with, or begin in another directory."
                )

    def check_data(self, facts):
        self._manifest["data"] = facts()
        if self._earlier is not None:
            self._compare("data", self._manifest["data"])

    def phase(self, name):
        return Phase(self, name)

    def due(self, rounds):
        return self._checkpoints.due(rounds)

    def restore(self, phase):
        """``(values, arrays)`` of a phase in the checkpoint; None where it had not begun."""
        if self._earlier is None or phase not in self._unpacked("phases"):
            return None
        prefix = f"{phase}/"
        arrays = self._earlier[0].arrays
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        return self._unpacked("phases")[phase], own

    def write(self, phase, values, arrays):
        """Write a checkpoint: the phases before as they ended, and this one."""
        self._phases[phase] = values, arrays
        packer = Packer()
        run = {
            "generator": self._generator,
            "phases": {name: values for name, (values, _) in self._phases.items()},
        }
        described = {**self._manifest, "run": packer.pack(run, "the run")}
        named = {f"{name}/{key}": array for name, (_, own) in self._phases.items() for key, array in own.items()}
        self._checkpoints.write(described, {**packer.arrays, **named})

    def end(self, phase, values, arrays):
        """A phase is over: later checkpoints hold its state as it is now."""
        self._phases[phase] = values, arrays


class Phase:
    """The fit of one trainer within a run; see :meth:`omkl.online.OnlineTrainer.fit` for what it is asked."""

    def __init__(self, run, name):
        self._run = run
        self._name = name

    def due(self, rounds=1):
        return self._run.due(rounds)

    def restore(self, trainer, course, callbacks):
        found = self._run.restore(self._name)
        if found is not None:
            values, arrays = found
            trainer.load_state(arrays)
            course.load(values["course"])
            load_states(callbacks, values["callbacks"], arrays)

    def write(self, trainer, course, callbacks):
        self._run.write(self._name, *self._state(trainer, course, callbacks))

    def end(self, trainer, course, callbacks):
        """The fit is over."""
        self._run.end(self._name, *self._state(trainer, course, callbacks))

    def _state(self, trainer, course, callbacks):
        values, arrays = states_of(callbacks)
        return {"course": course.as_dict(), "callbacks": values}, {**trainer.state(), **arrays}


def running_options(checkpoint, checkpoint_every, resume, client, shards):
    """What ``fit`` is asked about how it runs, as :func:`begin_run` takes it."""
    return {
        "checkpoint": checkpoint,
        "checkpoint_every": checkpoint_every,
        "resume": resume,
        "mixing": ParameterMixing.over(client, shards),
    }


def begin_run(estimator, rng, checkpoint=None, checkpoint_every="60s", resume=False, mixing=None):
    """The run that a call of ``fit`` makes, checkpointed if a directory is named.

    Parameters
    ----------
    estimator : OnlineEstimator
    rng : numpy.random.Generator
        Put back to where the run began, where one is resumed.
    checkpoint : path-like, optional
    checkpoint_every : str or float
        See :class:`~omkl.online.Checkpoints`.
    resume : bool
    mixing : ParameterMixing, optional
        Trains in shards.
    """
    if checkpoint is None:
        if resume:
            raise InputError("resume=True needs the directory of the checkpoints: checkpoint=DIRECTORY (--checkpoint).")
        return Run(rng, mixing)
    packer = Packer()
    parameters = {
        name: packer.pack(value, name) for name, value in estimator._saved_parameters().items() if name not in FREE
    }
    configuration = {
        "estimator": type(estimator).__name__,
        "omkl": version("omkl"),
        "shards": 1 if mixing is None else mixing.n_shards,
        **parameters,
        "arrays": fingerprint(packer.arrays.values()),
        "generator": type(rng.bit_generator).__name__,
    }
    # as JSON gives them back: what is compared has been through a file
    configuration = json.loads(json.dumps(configuration))
    return CheckpointedRun(Checkpoints(checkpoint, checkpoint_every), configuration, rng, resume, mixing)


def fingerprint(arrays):
    """A digest of what arrays hold: equal for equal data, and for nothing else."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is not None:
            array = np.ascontiguousarray(array)
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8))
    return digest.hexdigest()
