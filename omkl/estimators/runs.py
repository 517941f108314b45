"""How a call of ``fit`` runs: its checkpoints, its shards, and the random generator."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from omkl.exceptions import InputError
from omkl.online import (
    Checkpointer,
    Checkpoints,
    OnlineTrainer,
    ProgressBar,
    TrainingLoop,
    TrainingProgress,
    serial_pass,
)
from omkl.persistence import Packer

#: Parameters that a resumed run may have otherwise: they do not change what is learned.
FREE = ("verbose", "callbacks")


class Run:
    """A call of ``fit``, which makes one training loop or several, its stages.

    Parameters
    ----------
    name : str
        Class of the estimator.
    parameters : dict
        Its parameters, as a model file can hold them.
    random_state : int, Generator, RandomState or None
    verbose : bool
        Show progress bars.
    checkpoint : path-like, optional
        Directory for checkpoints.
    checkpoint_every : str or float
        See :class:`~omkl.online.Checkpoints`.
    resume : bool
        Go on from the latest checkpoint.
    client : dask.distributed.Client, optional
        Trains in shards on its workers.
    shards : int, optional

    Attributes
    ----------
    rng : numpy.random.Generator
        Where a run is resumed, it is put back to where that began.
    """

    def __init__(
        self, name: str, parameters: dict[str, Any], random_state: Any, verbose: bool, *, checkpoint: Any = None,
        checkpoint_every: str | float = "60s", resume: bool = False, client: Any = None, shards: int | None = None,
    ) -> None:  # fmt: skip
        if isinstance(random_state, np.random.RandomState):
            random_state = random_state.randint(2**31 - 1)
        self.rng = np.random.default_rng(random_state)
        self.verbose = verbose
        self.make_pass, self.n_shards = _make_pass(client, shards)
        self.checkpointer = None
        if checkpoint is not None:
            configuration = _configuration(name, parameters, max(self.n_shards, 1), self.rng)
            self.checkpointer = Checkpointer(Checkpoints(checkpoint, checkpoint_every), configuration, self.rng, resume)
        elif resume:
            raise InputError("resume=True needs the directory of the checkpoints: checkpoint=DIRECTORY (--checkpoint).")

    def loop(
        self, stage: str, trainer: OnlineTrainer, source: Any, epochs: int, callbacks: Sequence = ()
    ) -> TrainingLoop:
        """The loop that makes the epochs of one stage."""
        progress = TrainingProgress()
        if self.verbose:
            total = None if source.n_examples is None else epochs * source.n_examples
            callbacks = [*callbacks, ProgressBar(progress, total)]
        checkpointer = None if self.checkpointer is None else self.checkpointer.stage(stage)
        return TrainingLoop(
            trainer, source, make_pass=self.make_pass, callbacks=callbacks, checkpointer=checkpointer,
            progress=progress,
        )  # fmt: skip


def _make_pass(client: Any, shards: int | None) -> tuple[Callable, int]:
    """What learns a block, and in how many shards; 0 for plain training."""
    if client is None and shards is None:
        return serial_pass, 0
    from omkl.distributed import ParameterMixing

    mixing = ParameterMixing.over(client, shards)
    return (serial_pass, 0) if mixing is None else (mixing, mixing.n_shards)


def _configuration(name: str, parameters: dict[str, Any], n_shards: int, rng: np.random.Generator) -> dict[str, Any]:
    """JSON values: what a run depends on beside its data."""
    packer = Packer()
    packed = {key: packer.pack(value, key) for key, value in parameters.items() if key not in FREE}
    configuration = {
        "estimator": name,
        "omkl": version("omkl"),
        "shards": n_shards,
        **packed,
        "arrays": fingerprint(packer.arrays.values()),
        "generator": type(rng.bit_generator).__name__,
    }
    # as JSON gives them back: what is compared has been through a file
    return json.loads(json.dumps(configuration))


def fingerprint(arrays: Iterable[np.ndarray | None]) -> str:
    """A digest of what arrays hold: equal for equal data, and for nothing else."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is not None:
            array = np.ascontiguousarray(array)
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
