"""Training data in Dask collections: their partitions are read, surveyed and encoded on the workers that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.data.blocks import Block, is_collection, is_frame, join, n_rows, take_rows
from omkl.estimators.persistence import fingerprint
from omkl.estimators.sources import TrainingBlock, WeightedExamples
from omkl.estimators.validation import COLUMNS
from omkl.exceptions import InputError
from omkl.online.checkpointing import Checkpoints
from omkl.online.model import OnlineModel
from omkl.online.rounds import Sharded

if TYPE_CHECKING:
    from omkl.distributed.cluster import Partitions

#: Maximum number of examples that are fetched to fit kernels and the level of targets.
SAMPLE = 2000


def load(data: TrainingBlock, client: Any, shards: int | None) -> Partitions:
    """Load the partitions of Dask collections as blocks on workers; those without examples are left out."""
    from omkl.distributed.cluster import Partitions

    if shards is not None:
        raise InputError(f"shards must be None for Dask collections: partitions are the shards, got {shards}.")
    for name, own in data._asdict().items():
        if own is not None and not is_collection(own):
            kind = type(own).__name__
            raise InputError(f"{name} must be a Dask collection with the partitions of the others, got {kind}.")
    loaded = Partitions.of(client, _block, data._asdict())
    sizes, columns = zip(*loaded.map(_size_and_columns).gathered())
    if not any(sizes):
        raise InputError("A collection must have an example of a weight above 0: all its partitions are empty.")
    first, *others = (j for j, size in enumerate(sizes) if size)
    for j in others:
        if columns[j] != columns[first]:
            raise InputError(f"Partition {j} of X has {columns[j]}, but partition {first} {columns[first]}.")
    return loaded.only(sizes)


def start_on(partitions: Partitions, estimator: Any, model: OnlineModel, checkpoints: Checkpoints | None) -> Sharded:
    """Start the model of an online estimator on blocks, and encode these where they are; only surveys are fetched."""
    codec, kind = model.codec, type(model.codec)
    sample = estimator._task().read(_sample(partitions), True)._replace(total=sum(partitions.sizes))
    reader = copy(estimator)  # for the workers: without the model and callbacks
    columns = {name: own for name, own in estimator.__dict__.items() if name in COLUMNS}
    reader.__dict__ = {**estimator._saved_parameters(), **columns}
    codec.learn_kernels(sample)
    data = partitions.map(partial(reader._task().read, first=False))
    codec.learn(sample, data.map(kind.survey, codec).gathered())
    partitions.futures.clear()  # frees the memory of the workers
    encoded = data.map(kind.encode_part, codec)
    sizes, weights = zip(*encoded.map(_size_and_weight).gathered())
    if not any(weights):
        raise InputError("class_weight must leave an example a weight above 0.")
    if checkpoints is not None:
        facts = encoded.map(kind.facts, codec).gathered()
        checkpoints.check_data({"number of partitions": len(facts), "content of the data": fingerprint(facts)})
    model.start()
    model.set_objective(None, float(sum(weights)))
    return Sharded(encoded.futures, list(sizes))


def _sample(partitions: Partitions) -> TrainingBlock:
    """Fetch at most :data:`SAMPLE` examples, always the same ones."""
    bounds = np.cumsum([0, *partitions.sizes])
    chosen = np.sort(np.random.default_rng(0).choice(bounds[-1], min(bounds[-1], SAMPLE), replace=False))
    rows = [part - low for part, low in zip(np.split(chosen, np.searchsorted(chosen, bounds[1:-1])), bounds)]
    return TrainingBlock(*map(_joined, zip(*partitions.map(_some, each=rows).gathered())))


def _block(X: Any, y: Any, weights: Any) -> TrainingBlock:
    """Make a block of the examples with a weight above 0; a partition of a bag without ``y`` has pairs (x, y)."""
    X, y, weights = (own if own is None or hasattr(own, "shape") else list(own) for own in (X, y, weights))
    if y is None:
        if not isinstance(X, list) or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in X):
            raise InputError("y must be given, unless X is a bag of pairs (x, y).")
        X, y = [x for x, _ in X], [own for _, own in X]
    if len({n_rows(own) for own in (X, y, weights) if own is not None}) > 1:
        found = ", ".join(f"{n_rows(own)} of {name}" for name, own in zip(("X", "y"), (X, y)))
        raise InputError(f"X, y and sample_weight must have equally many examples, got {found}.")
    if weights is None or np.all(weights):
        return TrainingBlock(X, y, weights)
    return _some(TrainingBlock(X, y, np.asarray(weights)), np.flatnonzero(weights))


def _size_and_columns(block: TrainingBlock) -> tuple[int, str]:
    """Return the number of examples, and the columns of X in words."""
    X = block.X
    columns = f"the columns {list(X.columns)}" if is_frame(X) else f"rows of shape {getattr(X, 'shape', ())[1:]}"
    return n_rows(X), columns


def _some(block: TrainingBlock, rows: np.ndarray) -> TrainingBlock:
    """Select some examples."""
    return TrainingBlock(*(None if own is None else take_rows(own, rows) for own in block))


def _joined(parts: Sequence[Any]) -> Any:
    """Join the inputs, outputs or weights of several blocks."""
    if hasattr(parts[0], "iloc"):
        import pandas

        return pandas.concat(parts, ignore_index=True)
    return None if parts[0] is None else join([Block(part) for part in parts]).X


def _size_and_weight(examples: WeightedExamples) -> tuple[int, float]:
    return len(examples), examples.total_weight
