"""Dask collections are learned as parameter mixing learns their partitions in this process, to the same bits."""

import sys
from itertools import pairwise

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from omkl import OnlineMKLClassifier, OnlineMKLRegressor, SequenceLabeler
from omkl.distributed.mixing import ParameterMixing
from omkl.estimators import collections
from omkl.estimators.sources import TrainingBlock
from omkl.online import TrainingLoop
from omkl.online.rounds import Sharded
from omkl.online.training_loop import ShardedSource

from ..passes import assert_same_state

distributed = pytest.importorskip("distributed")
import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.bag as db  # noqa: E402
import dask.dataframe as dd  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])

RNG = np.random.default_rng(0)
N, PARTS = 90, 3
X = RNG.normal(size=(N, 4))
Y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5])
WEIGHTS = RNG.choice([0.0, 0.3, 1.0, 2.5], size=N)
#: Kernels that learn nothing from the data, whose order differs between partitions and shards.
FIXED = ["linear:normalize=None", "gaussian:sigma2=3", "gaussian:sigma2=3,features=20"]
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "w": RNG.choice(["x", "yy", "z"], N), "d": Y % 2})
WORDS = [[f"w{RNG.integers(30)}" for _ in range(RNG.integers(1, 9))] for _ in range(N)]
TAGS = [[word[-1] for word in words] for words in WORDS]
DICTS = [[{"w": w, "n": float(len(words))} for w in words] for words in WORDS]
VECTORS = [RNG.normal(size=(len(words), 3)) for words in WORDS]
SETTINGS = {"epochs": 3, "random_state": 0}

MODELS = {
    "rows": (lambda: OnlineMKLClassifier(class_weight={0: 2.0}), X, Y, WEIGHTS),
    "rows, features and dual averaging": (lambda: OnlineMKLClassifier(FIXED, method="rda", loss="crf"), X, Y, None),
    "numbers": (lambda: OnlineMKLRegressor(schedule="linear", eta0=0.3), X, X[:, 0] ** 2, WEIGHTS),
    "sparse rows": (lambda: OnlineMKLClassifier(["linear"]), sparse.csr_matrix(X * (X > 0)), Y, None),
    "frame with text": (OnlineMKLClassifier, FRAME, pd.Series(Y), None),
    "frame of numbers": (lambda: OnlineMKLRegressor(["gaussian:on=a", "linear"]), FRAME[["a", "b"]], FRAME.d, None),
    "words": (lambda: SequenceLabeler(order=2), WORDS, TAGS, WEIGHTS),
    "dicts": (lambda: SequenceLabeler(loss="crf", shuffle=False), DICTS, TAGS, None),
    "vectors": (lambda: SequenceLabeler(transitions_by_position=True), VECTORS, TAGS, None),
}


def parts_of(values, n_parts=PARTS):
    """Cut values into parts of different sizes."""
    bounds = (np.linspace(0, 1, n_parts + 1) ** 1.3 * N).astype(int)
    cut = (values.iloc if hasattr(values, "iloc") else values) if values is not None else ()
    return [None if values is None else cut[low:high] for low, high in pairwise(bounds)]


def collected(values, n_parts=PARTS):
    """Put the parts into a frame, an array of known or unknown chunks, or a bag."""
    if values is None:
        return None
    parts = [dask.delayed(part) for part in parts_of(values, n_parts)]
    if hasattr(values, "iloc"):
        return dd.from_delayed(parts, meta=values.iloc[:0])
    if isinstance(values, list):
        return db.from_delayed(parts)
    if sparse.issparse(values):
        blocks = [da.from_delayed(part, (np.nan, values.shape[1]), meta=values[:0]) for part in parts]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)
    return da.from_array(values, chunks=(tuple(map(len, parts_of(values, n_parts))), *values.shape[1:]))


def trained_here(model, X, y, weights):
    """Encode the parts one after the other with a growing vocabulary, and mix the parameters of all in this process."""
    task, model_ = model._task(), model._new_model(model._task().codec)
    codec = model_.codec
    data = task.read(TrainingBlock(X, y, weights), True)
    codec.known = codec._outputs.learn(data.labels, data.weights)
    if data.weights is not None and isinstance(model, OnlineMKLRegressor):
        codec.known.level = codec._outputs.learn(np.asarray(y)[weights > 0].tolist(), weights[weights > 0]).level
    kept = np.arange(N) if weights is None else np.flatnonzero(weights)
    codec.learn_kernels(task.read(collections._some(TrainingBlock(X, y, None), kept), True))
    codec.structure, codec.longest = codec._outputs.structure(codec.known), int(np.diff(data.offsets).max())
    blocks = list(map(TrainingBlock, parts_of(X), parts_of(y), parts_of(weights)))
    blocks = [b if b.y is None or weights is None else collections._some(b, np.flatnonzero(b[2])) for b in blocks]
    parts = [task.read(block, False) for block in blocks]
    for part in parts:
        codec.encoder.encode(part.inputs, part.offsets, grow=True)
    shards = [codec.encode_known(part) for part in parts]
    model_.start(given=(None, True))
    model_.set_objective(None, sum(part.total_weight for part in shards))
    source = ShardedSource(Sharded(shards, list(map(len, shards))), np.random.default_rng(0) if model.shuffle else None)
    TrainingLoop(model_.trainer, source, make_pass=ParameterMixing(len(shards))).run(model.epochs)
    model._adopt(model_)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_a_collection_is_learned_as_its_partitions_here(client, name, reloaded):
    make, X, y, weights = MODELS[name]
    here = trained_here(make().set_params(**SETTINGS), X, y, weights)
    there = make().set_params(**SETTINGS).fit(*map(collected, (X, y, weights)), client=client)
    assert_same_state(there, here)
    assert there.history_[-1]["shards"] == PARTS
    if hasattr(here, "classes_"):
        assert_array_equal(there.classes_, here.classes_)
    for found, expected in zip(reloaded(there).predict(X), here.predict(X)):
        assert_array_equal(found, expected)
