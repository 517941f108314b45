"""Dask collections are learned as parameter mixing learns their partitions in this process, to the
same bits.
"""

import os
import signal
import sys
from itertools import pairwise

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from omkl import (
    DependencyParser,
    EarlyStopping,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    Passes,
    SequenceLabeler,
    StructuredPredictor,
    Transitions,
)
from omkl.distributed.mixing import ParameterMixing
from omkl.estimators import sources
from omkl.estimators.sources import TrainingBlock
from omkl.exceptions import InputError
from omkl.groups import InterceptBank
from omkl.kernels import Custom
from omkl.online import ArraySource, TrainingLoop
from omkl.online.rounds import Sharded
from omkl.structures import Multiclass

from ..passes import assert_same_state

distributed = pytest.importorskip("distributed")
import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.bag as db  # noqa: E402
import dask.dataframe as dd  # noqa: E402

pytestmark = pytest.mark.slow

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
IN_ORDER = {"epochs": Passes(3, shuffle=False), "random_state": 0}

MODELS = {
    "rows": (lambda: OnlineMKLClassifier(class_weight={0: 2.0}), X, Y, WEIGHTS),
    "rows, features and dual averaging": (
        lambda: OnlineMKLClassifier(FIXED, method="rda", loss="crf"),
        X,
        Y,
        None,
    ),
    "numbers": (
        lambda: OnlineMKLRegressor(learning_rate="linear:eta0=0.3"),
        X,
        X[:, 0] ** 2,
        WEIGHTS,
    ),
    "sparse rows": (
        lambda: OnlineMKLClassifier(["linear"]),
        sparse.csr_matrix(X * (X > 0)),
        Y,
        None,
    ),
    "frame with text": (OnlineMKLClassifier, FRAME, pd.Series(Y), None),
    "frame of numbers": (
        lambda: OnlineMKLRegressor(["gaussian:on=a", "linear"]),
        FRAME[["a", "b"]],
        FRAME.d,
        None,
    ),
    "words": (lambda: SequenceLabeler(transitions=Transitions(order=2)), WORDS, TAGS, WEIGHTS),
    "dicts": (lambda: SequenceLabeler(loss="crf"), DICTS, TAGS, None),
    "vectors": (
        lambda: SequenceLabeler(transitions=Transitions(by_position=True)),
        VECTORS,
        TAGS,
        None,
    ),
}


def parts_of(values, n_parts=PARTS):
    """Cut values into parts of different sizes."""
    if values is None:
        return [None] * n_parts
    bounds = (np.linspace(0, 1, n_parts + 1) ** 1.3 * N).astype(int)
    rows = values.iloc if hasattr(values, "iloc") else values
    return [rows[low:high] for low, high in pairwise(bounds)]


def collected(values, n_parts=PARTS):
    """Put the parts into a frame, an array of known or unknown chunks, or a bag."""
    if values is None:
        return None
    delayed_parts = [dask.delayed(part) for part in parts_of(values, n_parts)]
    if hasattr(values, "iloc"):
        return dd.from_delayed(delayed_parts, meta=values.iloc[:0])
    if isinstance(values, list):
        return db.from_delayed(delayed_parts)
    if sparse.issparse(values):
        blocks = [
            da.from_delayed(part, (np.nan, values.shape[1]), meta=values[:0])
            for part in delayed_parts
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)
    return da.from_array(
        values, chunks=(tuple(map(len, parts_of(values, n_parts))), *values.shape[1:])
    )


def trained_here(model, X, y, weights):
    """Encode the parts one after the other with a growing vocabulary, and mix the parameters of all
    in this process.
    """
    task = model._task()
    model_ = model._new_model(task.make_codec())
    codec = model_.codec
    data = task.read(TrainingBlock(X, y, weights), True)
    codec.codes = codec._outputs.learn(data.labels, data.weights)
    if data.weights is not None and isinstance(model, OnlineMKLRegressor):
        codec.codes.level = codec._outputs.learn(
            np.asarray(y)[weights > 0].tolist(), weights[weights > 0]
        ).level
    samples = np.arange(N) if weights is None else np.flatnonzero(weights)
    codec.encoder.fit(
        task.read(sources._some(TrainingBlock(X, y, None), samples), True)._replace(
            total=len(samples)
        )
    )
    codec.structure = codec._outputs.structure(codec.codes)
    codec.longest = int(np.diff(data.offsets).max())
    blocks = list(map(TrainingBlock, parts_of(X), parts_of(y), parts_of(weights)))
    blocks = [
        b if b.y is None or weights is None else sources._some(b, np.flatnonzero(b[2]))
        for b in blocks
    ]
    data_of_parts = [task.read(block, False) for block in blocks]
    codec.encoder.start_scales()
    for data in data_of_parts:
        for key, scales in codec.survey(data).scales.items():
            codec.encoder.scales[key].merge(scales)
        codec.encoder.encode(data.inputs, data.offsets, grow=True)
    shards = [codec.encode_for_evaluation(data) for data in data_of_parts]
    model_.start(in_shards=True)
    model_.set_objective(None, sum(part.total_weight for part in shards))
    passes = Passes.of("epochs", model.epochs)
    rng = np.random.default_rng(0) if passes.shuffle else None
    source = ArraySource(Sharded(shards, list(map(len, shards))), rng)
    TrainingLoop(model_.trainer, source, make_pass=ParameterMixing(len(shards))).run(passes.epochs)
    model._adopt(model_)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_a_collection_is_learned_as_its_partitions_here(client, name, reloaded):
    make, X, y, weights = MODELS[name]
    here = trained_here(
        make().set_params(**SETTINGS),
        X,
        y,
        weights,
    )
    there = make().set_params(**SETTINGS).fit(*map(collected, (X, y, weights)), client=client)
    assert_same_state(there, here)
    assert there.history_[-1]["shards"] == PARTS
    if name == "rows":
        assert_allclose(
            [mean for mean, _ in there.column_scales_.values()],
            np.average(
                X,
                axis=0,
                weights=weights * np.where(y == 0, 2, 1),
            ),
        )
    if hasattr(here, "classes_"):
        assert_array_equal(there.classes_, here.classes_)
    for predicted, expected in zip(reloaded(there).predict(X), here.predict(X)):
        assert_array_equal(predicted, expected)


# ---- clusters ------------------------------------------------------------------------------------


def cluster_of(n_workers, **options):
    options = {
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "silence_logs": "CRITICAL",
        **options,
    }
    return distributed.LocalCluster(n_workers=n_workers, **options)


def array_model(client, n_parts=5, **settings):
    settings = {**SETTINGS, **settings}
    return OnlineMKLClassifier(FIXED, **settings).fit(
        collected(X, n_parts), collected(Y, n_parts), client=client
    )


@pytest.fixture(scope="module")
def expected(connect):
    return array_model(connect())


def test_threads_of_this_process_and_one_worker_learn_the_same_bits(expected):
    with cluster_of(3, processes=False) as threads, distributed.Client(threads):
        assert_same_state(array_model(None), expected)  # the client that was made last
    with cluster_of(1) as one, distributed.Client(one) as client:
        assert_same_state(array_model(client), expected)


def test_equal_partitions_are_learned_as_interleaved_shards(client):
    """Shards of data in memory have the rows j, j + S, ..., and shuffling depends on the kind of
    the data.
    """
    rows = da.concatenate([da.from_array(X[j::3]) for j in range(3)])
    y = da.concatenate([da.from_array(Y[j::3]) for j in range(3)])
    here = OnlineMKLClassifier(FIXED, **IN_ORDER).fit(X, Y, shards=3)
    assert_same_state(OnlineMKLClassifier(FIXED, **IN_ORDER).fit(rows, y, client=client), here)


class Mortal:
    """Linear kernel that kills the first worker that has computed it 20 times, in the middle of a
    pass.
    """

    def __init__(self, flag):
        self.flag = str(flag)
        self.parent = os.getpid()
        self.calls = 0

    def __call__(self, left, right):
        self.calls += 1
        if self.calls == 20 and os.getpid() != self.parent and not os.path.exists(self.flag):
            with open(self.flag, "w") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return left @ right.T


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_worker_that_dies_in_an_epoch_changes_nothing(client, n_workers, tmp_path):
    def fit(on):
        model = OnlineMKLClassifier(
            [Custom(Mortal(tmp_path / "killed"), normalize=None)], **SETTINGS
        )
        return model.fit(collected(X), collected(Y), client=on)

    with cluster_of(n_workers) as cluster, distributed.Client(cluster) as other:
        pids = set(other.run(os.getpid).values())
        repeated = fit(other)
        assert int((tmp_path / "killed").read_text()) in pids
    assert_same_state(repeated, fit(client))  # the flag is set: none dies


class Grow:
    """Callback that waits for a second worker after the first epoch."""

    def __init__(self, cluster, client):
        self.cluster = cluster
        self.client = client
        self.passes = []

    def on_block(self, trainer, block):
        self.passes.append(sum(map(bool, self.client.has_what().values())))
        if len(self.passes) == 1:
            self.cluster.adapt(minimum=2, maximum=2)
            self.client.wait_for_workers(2)


def test_workers_that_join_take_their_share(expected):
    with cluster_of(1) as cluster, distributed.Client(cluster) as client:
        grow = Grow(cluster, client)
        assert_same_state(array_model(client, callbacks=[grow]), expected)
        assert grow.passes == [1, 2, 2]


def test_data_that_no_worker_and_not_this_process_could_hold():
    """Two workers of 700 MB, of which omkl takes half: partitions are spilled to disk, and learned
    from there.

    An idle worker takes 350 MB, most of it for its imports.
    """
    few = np.random.default_rng(0).normal(size=(6000, 400))
    # the loops are compiled here: the compiler takes more memory than these workers have
    OnlineMKLClassifier(["gaussian:features=10"], epochs=1).fit(few, few[:, 0] > 0)
    with (
        # a worker that had to compile all the same would be paused for ever
        dask.config.set({"distributed.worker.memory.pause": False}),
        cluster_of(2, memory_limit="700MB") as cluster,
        distributed.Client(cluster) as client,
        pytest.MonkeyPatch.context() as patch,
    ):
        X = da.random.default_rng(0).normal(size=(240_000, 400), chunks=(8_000, 400))
        y = (X[:, :4].sum(axis=1) > 0).astype(int)
        assert X.nbytes > 700e6
        largest = []
        gather = distributed.Client.gather

        def watched(self, futures, *args, **options):
            results = gather(self, futures, *args, **options)
            largest.append(max(map(distributed.sizeof.sizeof, results), default=0))
            return results

        patch.setattr(distributed.Client, "gather", watched)
        model = OnlineMKLClassifier(["gaussian:features=10"], epochs=1, random_state=0).fit(
            X, y, client=client
        )
    assert max(largest) < 2e6
    assert model.history_[0]["examples"] == 240_000
    assert model.history_[0]["shards"] == 30


# ---- bad input -----------------------------------------------------------------------------------

ROWS = da.from_array(X, chunks=(30, 4))
CLASSES = da.from_array(Y, chunks=30)
PAIRS = db.from_sequence(list(zip(WORDS, TAGS)), npartitions=PARTS)


def frame_of(*frames):
    return dd.from_delayed(
        [dask.delayed(frame) for frame in frames], meta=frames[0].iloc[:0], verify_meta=False
    )


def rows_of(*arrays):
    blocks = [
        da.from_delayed(dask.delayed(array), (np.nan, X.shape[1]), dtype=float) for array in arrays
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def test_empty_partitions_are_left_out(client):
    """Partitions without rows, with weights of 0 alone, and without a bag's pairs."""
    expected = OnlineMKLClassifier(FIXED, **SETTINGS).fit(ROWS, CLASSES, client=client)
    arrays = [
        X[:0],
        X[:30],
        X[30:60],
        X[:0],
        X[60:],
    ]
    y = da.from_array(Y, chunks=((0, 30, 30, 0, 30),))
    assert_same_state(
        OnlineMKLClassifier(FIXED, **SETTINGS).fit(rows_of(*arrays), y, client=client), expected
    )
    doubled = [da.concatenate([collection[:30], collection]) for collection in (ROWS, CLASSES)]
    weights = da.concatenate([da.zeros(30, chunks=30), da.ones(90, chunks=30)])
    assert_same_state(
        OnlineMKLClassifier(FIXED, **SETTINGS).fit(*doubled, weights, client=client), expected
    )
    expected = SequenceLabeler(**SETTINGS).fit(PAIRS, client=client)
    pairs = db.concat([PAIRS.filter(lambda pair: False), PAIRS])
    assert_same_state(SequenceLabeler(**SETTINGS).fit(pairs, client=client), expected)
    bags = PAIRS.pluck(0), PAIRS.pluck(1)
    assert_same_state(SequenceLabeler(**SETTINGS).fit(*bags, client=client), expected)


def classifier(**settings):
    return OnlineMKLClassifier(["linear"], **{**SETTINGS, **settings})


INFINITE = X.copy()
INFINITE[40, 1] = np.inf
RENAMED = FRAME[["a", "b"]].rename(columns={"b": "c"})
REFUSED = {
    "y in memory": (classifier, (ROWS, Y), {}, "y must be a Dask collection .* got ndarray"),
    "X in memory": (classifier, (X, CLASSES), {}, "X must be a Dask collection .* got ndarray"),
    "weights in memory": (
        classifier,
        (ROWS, CLASSES, WEIGHTS),
        {},
        "sample_weight must be a Dask collection",
    ),
    "no y": (classifier, (ROWS,), {}, "y must be given, unless X is a bag of pairs"),
    "a bag of words": (
        SequenceLabeler,
        (PAIRS.pluck(0),),
        {},
        "y must be given, unless X is a bag of pairs",
    ),
    "an object": (
        classifier,
        (dask.delayed(X), CLASSES),
        {},
        "X must be a dask.dataframe, .* a dask.delayed object",
    ),
    "other partitions": (
        classifier,
        (ROWS, CLASSES.rechunk(10)),
        {},
        "same partitions, got 3 of X, 9 of y",
    ),
    "other chunks": (
        classifier,
        (ROWS, CLASSES.rechunk(((29, 31, 30),))),
        {},
        r"Partition [01]: .* 30 of X",
    ),
    "no examples": (classifier, (ROWS[:0], CLASSES[:0]), {}, "all its partitions are empty"),
    "no weights": (classifier, (ROWS, CLASSES, 0.0 * CLASSES), {}, "all its partitions are empty"),
    "a negative weight": (
        classifier,
        (ROWS, CLASSES, CLASSES - 1),
        {},
        "sample_weight must hold 62 finite numbers",
    ),
    "another width": (
        classifier,
        (rows_of(X[:30], X[30:60, :3], X[60:]), CLASSES),
        {},
        "Partition 1 of X has rows of",
    ),
    "other columns": (
        classifier,
        (frame_of(FRAME[["a", "b"]][:30], FRAME[["a", "b"]][30:60], RENAMED[60:]), CLASSES),
        {},
        r"Partition 2 of X has the columns \['a', 'c'\], but partition 0",
    ),
    "unknown columns": (
        classifier,
        (da.from_delayed(dask.delayed(X), (90, np.nan), dtype=float), CLASSES.rechunk(90)),
        {},
        "X must have a known number of columns",
    ),
    "infinite": (
        classifier,
        (da.from_array(INFINITE, chunks=(30, 4)), CLASSES),
        {},
        "must hold finite numbers, got inf",
    ),
    "no label": (
        SequenceLabeler,
        (db.from_sequence([(["a"], ["b", "c"])]),),
        {},
        "Sequence 0 of y must be a list of 1",
    ),
    "shards": (
        classifier,
        (ROWS, CLASSES),
        {"shards": 3},
        "shards must be None for Dask collections",
    ),
    "validation": (
        lambda: classifier(early_stopping=True),
        (ROWS, CLASSES),
        {"validation": (ROWS, CLASSES)},
        r"validation must be a pair \(X, y\) in memory",
    ),
    "early stopping": (
        lambda: classifier(early_stopping=True),
        (ROWS, CLASSES),
        {},
        "early_stopping needs validation",
    ),
    "balanced": (
        lambda: classifier(class_weight="balanced"),
        (ROWS, CLASSES),
        {},
        "class_weight must be None or a dict",
    ),
    "no class weighs": (
        lambda: classifier(class_weight=dict.fromkeys(range(3), 0.0)),
        (ROWS, CLASSES),
        {},
        "class_weight must leave an example a weight above 0",
    ),
    "radius": (
        lambda: classifier(radius="auto"),
        (ROWS, CLASSES),
        {},
        "`radius` must be a number or None",
    ),
    "budget": (
        lambda: OnlineMKLClassifier(["gaussian"], budget=9),
        (ROWS, CLASSES),
        {},
        "leave budget=",
    ),
    "trees": (DependencyParser, (PAIRS,), {}, "DependencyParser takes no Dask collections"),
    "own structures": (
        lambda: StructuredPredictor(Multiclass(2), [InterceptBank(2, averaging=True)]),
        (PAIRS,),
        {},
        "StructuredPredictor takes no Dask collections",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_one_sentence(client, name):
    make, data, options, message = REFUSED[name]
    model = make()
    with pytest.raises(InputError, match=message) as caught:
        model.fit(*data, client=client, **options)
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "model_")


def test_other_methods_and_sessions_without_a_client(client, monkeypatch):
    model = classifier().fit(ROWS, CLASSES, client=client)
    for refused in (model.predict, model.score, model.partial_fit):
        with pytest.raises(InputError, match="Only fit takes Dask collections"):
            refused(ROWS)
    frame = dd.from_pandas(FRAME[["a", "b"]], npartitions=2)
    model = OnlineMKLRegressor(**SETTINGS).fit(
        frame, dd.from_pandas(FRAME.d, npartitions=2), client=client
    )
    predicted = frame.map_partitions(model.predict, meta=(None, float)).compute()
    assert_allclose(
        predicted,
        model.predict(FRAME[["a", "b"]]),
        rtol=1e-12,
    )
    # a ValueError, as of Dask
    monkeypatch.setattr(distributed, "default_client", lambda: [].index("no client"))
    with pytest.raises(InputError, match="Dask collections need a cluster: pass client="):
        classifier().fit(ROWS, CLASSES)


def test_callbacks_cannot_read_examples(client):
    class Reader:
        def on_block(self, trainer, block):
            return block.examples[0]

    with pytest.raises(InputError, match="stay on the workers"):
        classifier(callbacks=[Reader()]).fit(ROWS, CLASSES, client=client)


def test_a_resumed_run_and_early_stopping(client, tmp_path):
    class Stop:
        def on_epoch(self, trainer, record):
            return record["epoch"] == 1

    def fit(y=CLASSES, **options):
        return classifier().fit(ROWS, y, client=client, **options)

    expected = fit()
    classifier(callbacks=[Stop()]).fit(
        ROWS, CLASSES, client=client, checkpoint=tmp_path, checkpoint_every=0.0
    )
    with pytest.raises(InputError, match="content of the data"):
        fit(2 - CLASSES, checkpoint=tmp_path, resume=True)
    early = classifier(early_stopping=EarlyStopping(patience=1), epochs=9)
    early.fit(ROWS, CLASSES, client=client, validation=(X, Y))
    assert early.n_iter_ < 9
    assert "validation_score" in early.history_[0]
    assert_same_state(fit(checkpoint=tmp_path / "other"), expected)
