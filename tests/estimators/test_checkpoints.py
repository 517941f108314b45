"""Runs that are killed at any moment and resumed give the same bytes; streams equal
``partial_fit``.
"""

import itertools
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from omkl import (
    Budget,
    DependencyParser,
    EarlyStopping,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    Passes,
    SequenceLabeler,
    TreeForm,
)
from omkl.data import Sentence, Stream, synthetic_treebank
from omkl.exceptions import CheckpointWarning, InputError
from omkl.online import ProgressiveValidation, values_of
from omkl.online.checkpointing import Checkpoints

from ..cases import mostly_slow
from ..passes import Kill, Killed, assert_same_state

PARAMETERS = [
    {},
    {"loss": "crf", "regularizer": "elastic-net:mu=0.5", "average": "uniform:start=10"},
    {
        "loss": "perceptron",
        "regularizer": None,
        "average": None,
        "learning_rate": "constant:eta0=0.1",
    },
    {"method": "rda", "regularizer": "group-lasso", "C": 0.1},
    {"regularizer": "lq:q=1.5", "radius": 10.0, "learning_rate": "linear:eta0=0.5"},
    {
        "regularizer": "l1",
        "kernels": ["linear"],
        "learning_rate": "mean-polyak:eta0=0.5",
        "budget": Budget(cache_size=0),
    },
    {
        "method": "rda",
        "kernels": ["gaussian:features=20", "linear"],
        "learning_rate": "mean-polyak:eta0=0.5",
    },
    {"method": "rda", "learning_rate": "linear:eta0=0.5", "budget": Budget(cache_size=0)},
    {"C": 100.0, "budget": Budget(cache_size=0)},
    {"C": 100.0, "budget": Budget(cache_size=0.005)},
    {"kernels": ["b1:density=0.3", "gaussian"], "budget": Budget(dtype="float32")},
    {"kernels": ["gaussian:features=20", "laplacian:features=9,map=nystrom", "linear"], "C": 0.1},
    {
        "kernels": ["gaussian:features=20"],
        "regularizer": "l1",
        "learning_rate": 0.5,
        "budget": Budget(cache_size=0),
    },
    {"weighting": "out-of-sample", "kernels": ["linear", "gaussian"]},
    {"early_stopping": EarlyStopping(fraction=0.3, patience=2)},
]


def sequences(rng, n=25):
    y = [rng.integers(0, 3, rng.integers(2, 6)) for _ in range(n)]
    return [np.eye(3)[labels] + rng.normal(0, 0.7, (len(labels), 3)) for labels in y], y


def trained_with_kills(fit, make, folder, every, rounds, rng):
    """Train with runs killed at random rounds, each resumed from the last checkpoint."""
    for attempt in itertools.count():
        estimator = make(callbacks=[Kill(int(rng.integers(1, rounds)))] if attempt < 4 else None)
        try:
            fit(estimator, checkpoint=folder, checkpoint_every=every, resume=attempt > 0)
        except Killed:
            assert not hasattr(estimator, "model_")
            continue
        return estimator.set_params(callbacks=None)


def assert_equal_files(straight, resumed, folder):
    straight.save(folder / "straight.npz")
    resumed.save(folder / "resumed.npz")
    assert (folder / "straight.npz").read_bytes() == (folder / "resumed.npz").read_bytes()


@mostly_slow(
    ("parameters", "estimator"), PARAMETERS, (SequenceLabeler, OnlineMKLClassifier), every=3
)
def test_a_resumed_run_gives_the_bytes_of_an_uninterrupted_one(
    estimator, parameters, rng, tmp_path
):
    X, y = sequences(rng)
    if estimator is OnlineMKLClassifier:
        X = np.concatenate(X)
        y = np.concatenate(y)

    def make(callbacks=None):
        return estimator(
            **{"epochs": 4, "verbose": False, "random_state": 3, **parameters}, callbacks=callbacks
        )

    def fit(model, **options):
        return model.fit(X, y, **options)

    straight = fit(make())
    resumed = trained_with_kills(fit, make, tmp_path / "run", "7 rounds", 2 * len(X), rng)
    assert_equal_files(straight, resumed, tmp_path)
    assert len(list((tmp_path / "run").iterdir())) <= 2


@pytest.mark.parametrize(
    "parameters", [{"loss": "crf"}, {"radius": 5.0}, {"method": "rda", "early_stopping": True}]
)
def test_parsers_too_in_both_phases(parameters, rng, tmp_path):
    treebank = synthetic_treebank(30, random_state=0)

    def make(callbacks=None):
        return DependencyParser(
            "small",
            epochs=2,
            memory=9.0,
            verbose=False,
            random_state=1,
            callbacks=callbacks,
            **parameters,
        )

    def fit(model, **options):
        return model.fit(treebank, **options)

    straight = fit(make())
    resumed = trained_with_kills(fit, make, tmp_path / "run", "5 rounds", 60, rng)
    assert_equal_files(straight, resumed, tmp_path)
    # the latest checkpoint is in the second phase, so the first is not repeated
    again = fit(make(callbacks=[Kill(0)]), checkpoint=tmp_path / "run", resume=True).set_params(
        callbacks=None
    )
    assert_equal_files(straight, again, tmp_path)


def test_a_run_without_a_seed_resumes_with_the_order_it_had(rng, tmp_path):
    X, y = sequences(rng)
    interrupted(X, y, tmp_path / "run", random_state=None)
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "1h", "resume": True}
    twice = [SequenceLabeler(epochs=2, verbose=False).fit(X, y, **options) for _ in range(2)]
    assert_equal_files(*twice, tmp_path)


PROGRAM = """
import sys
import numpy as np
from omkl import SequenceLabeler

rng = np.random.default_rng(0)
y = [rng.integers(0, 3, 5) for _ in range(40)]
X = [np.eye(3)[labels] + rng.normal(0, 0.7, (5, 3)) for labels in y]
labeler = SequenceLabeler(["linear", "gaussian"], epochs=8, random_state=0, verbose=False)
if sys.argv[1] != "none":
    labeler.fit(X, y, checkpoint=sys.argv[1], checkpoint_every=0, resume=True)
else:
    labeler.fit(X, y)
labeler.save(sys.argv[2])
"""


@pytest.mark.slow
def test_sigkill_at_any_instant(tmp_path, rng):
    """Kill real processes that write a checkpoint every round, also while they write."""
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, program, "none", tmp_path / "straight.npz"], check=True)
    run = tmp_path / "run"
    for _ in range(2):
        process = subprocess.Popen([sys.executable, program, run, tmp_path / "resumed.npz"])
        for _ in range(rng.integers(1, 20)):  # files that were written or renamed
            before = os.listdir(run) if run.exists() else []
            while process.poll() is None and (not run.exists() or os.listdir(run) == before):
                time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, program, run, tmp_path / "resumed.npz"], check=True)
    assert (tmp_path / "straight.npz").read_bytes() == (tmp_path / "resumed.npz").read_bytes()
    assert len(os.listdir(run)) == 2


def interrupted(X, y, folder, **parameters):
    parameters = {"epochs": 2, "verbose": False, "random_state": 0, **parameters}
    with pytest.raises(Killed):
        SequenceLabeler(callbacks=[Kill(20)], **parameters).fit(
            X, y, checkpoint=folder, checkpoint_every="2 rounds"
        )


def test_another_configuration_or_data_set_is_refused_by_the_field_that_differs(rng, tmp_path):
    X, y = sequences(rng)
    interrupted(X, y, tmp_path, C=2.0)

    def resume(X=X, y=y, **parameters):
        defaults = {"epochs": 2, "verbose": False, "random_state": 0, "C": 2.0}
        SequenceLabeler(**{**defaults, **parameters}).fit(X, y, checkpoint=tmp_path, resume=True)

    others = [
        {"C": 3.0},
        {"epochs": 5},
        {"kernels": ["linear"]},
        {"X": X[:-1], "y": y[:-1]},
        {"X": [x + 1e-9 for x in X]},
    ]
    for other in others:
        with pytest.raises(InputError):
            resume(**other)
    with pytest.raises(InputError):
        OnlineMKLClassifier().fit(
            np.concatenate(X), np.concatenate(y), checkpoint=tmp_path, resume=True
        )
    resume()


def test_a_checkpoint_of_another_version_or_of_an_earlier_run_is_refused(
    rng, tmp_path, monkeypatch
):
    X, y = sequences(rng)
    with monkeypatch.context() as earlier:
        earlier.setattr("omkl.estimators.training.version", lambda name: "0.0.1")
        interrupted(X, y, tmp_path)
    for options in (
        {"checkpoint": tmp_path, "resume": True},
        {"checkpoint": tmp_path},
        {"resume": True},
    ):
        with pytest.raises(InputError):
            SequenceLabeler(epochs=2, random_state=0).fit(X, y, **options)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(rng, tmp_path):
    X, y = sequences(rng)
    straight = SequenceLabeler(epochs=2, verbose=False, random_state=0).fit(X, y)
    interrupted(X, y, tmp_path / "run")
    latest = max((tmp_path / "run").iterdir())
    latest.write_bytes(latest.read_bytes()[:-100])
    with pytest.warns(CheckpointWarning, match="before it is used"):
        resumed = SequenceLabeler(epochs=2, verbose=False, random_state=0).fit(
            X, y, checkpoint=tmp_path / "run", resume=True
        )
    assert_equal_files(straight, resumed, tmp_path)


def test_a_full_disk_leaves_the_previous_checkpoint_and_training_goes_on(rng, tmp_path):
    resource = pytest.importorskip("resource")
    X, y = sequences(rng)
    interrupted(X, y, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))  # no file may be larger than this
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SequenceLabeler(epochs=2, verbose=False, random_state=0).fit(
            X, y, checkpoint=tmp_path, checkpoint_every="1 rounds", resume=True
        )
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [warning.category for warning in caught] == [CheckpointWarning]
    assert "File too large" in str(caught[0].message)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("every", "due"),
    [
        (0, True),
        ("0s", True),
        ("1h", False),
        (3600, False),
        ("5 rounds", True),
        ("6 rounds", False),
    ],
)
def test_checkpoints_are_due_after_time_or_rounds(every, due, tmp_path):
    checkpoints = Checkpoints(tmp_path, every)
    assert [checkpoints.due() for _ in range(5)][-1] is due


@pytest.mark.parametrize("every", ["soon", -1, "0 rounds", None, "5 d"])
def test_other_intervals_and_a_directory_without_a_name_are_refused(every, tmp_path):
    for arguments in ((tmp_path, every), ("",)):
        with pytest.raises(InputError):
            Checkpoints(*arguments)


@pytest.mark.parametrize("labeled", [False, True])
def test_runs_in_shards_resume_between_epochs(labeled, tmp_path):
    treebank = synthetic_treebank(40, random_state=0)

    def fit(**options):
        parser = DependencyParser(
            "small",
            epochs=3,
            memory=6.0,
            verbose=False,
            random_state=1,
            trees=TreeForm(labeled=labeled),
        )
        return parser.fit(treebank, shards=2, **options)

    straight = fit()
    fit(checkpoint=tmp_path / "run", checkpoint_every="1 rounds")
    assert len(list((tmp_path / "run").iterdir())) == 2
    max((tmp_path / "run").iterdir()).unlink()
    assert_equal_files(straight, fit(checkpoint=tmp_path / "run", resume=True), tmp_path)


def cosine(X, Y):
    return X @ Y.T / np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1))


def points(rng, n=300, classes=3):
    y = rng.integers(0, classes, n)
    return np.eye(5)[y] + rng.normal(0, 0.5, (n, 5)), y


def tagged(rng, n=60):
    """Sentences of token dicts; new words, keys and labels keep coming."""
    X = []
    y = []
    for i in range(n):
        kinds = rng.integers(
            0,
            2 + i // 20,
            rng.integers(1, 6),
        )
        X.append(
            [
                {"word": f"w{k}{rng.integers(3)}", **({"late": f"l{k}"} if i > 30 else {})}
                for k in kinds
            ]
        )
        y.append([f"t{k}" for k in kinds])
    return X, y


KERNELS = ["linear", "gaussian:sigma2=2"]
DUAL = ["laplacian:sigma=3", "gaussian:sigma2=2"]


def cases(rng):
    X, y = points(rng)
    words, tags = tagged(rng)
    return {
        "arrays": (OnlineMKLClassifier(KERNELS), Stream.from_arrays(X, y, 32), {}),
        "scales": (
            OnlineMKLClassifier(),
            Stream.from_arrays(np.where(X > 1.5, np.nan, X), y, 32),
            {},
        ),
        "sparse": (
            OnlineMKLClassifier(),
            Stream.from_arrays(sparse.csr_array(X), y, 50),
            {"classes": [0, 1, 2]},
        ),
        "shuffled": (
            OnlineMKLClassifier(KERNELS),
            Stream.from_arrays(X, y, 20).shuffled(90, random_state=1),
            {},
        ),
        "growing": (
            OnlineMKLClassifier(KERNELS),
            Stream.from_arrays(X, np.sort(y), 32),
            {"classes": "growing"},
        ),
        "feature maps": (
            OnlineMKLClassifier(["gaussian:features=30", "laplacian:features=12,map=nystrom"]),
            Stream.from_arrays(X, np.sort(y), 32),
            {"classes": "growing"},
        ),
        "decayed feature maps": (
            OnlineMKLClassifier(
                ["gaussian:features=30"],
                average="decayed:half_life=3",
                learning_rate="constant:eta0=0.1",
            ),
            Stream.from_arrays(X, y, 32),
            {},
        ),
        "budget": (
            OnlineMKLClassifier(DUAL, budget=30),
            Stream.from_arrays(X, np.sort(y), 32),
            {"classes": "growing"},
        ),
        "decayed budget": (
            OnlineMKLRegressor(DUAL, budget=30, average="decayed:half_life=5"),
            Stream.from_arrays(X, X[:, 0], 32),
            {},
        ),
        "own kernel": (OnlineMKLClassifier([cosine, "linear"]), Stream.from_arrays(X, y, 32), {}),
        "regression": (
            OnlineMKLRegressor(KERNELS),
            Stream.from_arrays(X, X[:, 0] * X[:, 1], 32),
            {},
        ),
        "decayed": (
            OnlineMKLClassifier(
                ["linear"], average="decayed:half_life=3", learning_rate="constant:eta0=0.1"
            ),
            Stream.from_arrays(X, y, 32),
            {},
        ),
        "sequences": (
            SequenceLabeler(),
            Stream.from_arrays(words, tags, 7),
            {"classes": "growing"},
        ),
        "l1": (
            SequenceLabeler(regularizer="l1", C=5.0),
            Stream.from_arrays(words, tags, 7),
            {"classes": "growing"},
        ),
        "trees": (
            DependencyParser("small", memory=6.0, epochs=Passes(2, n_examples=60)),
            Stream.from_arrays(synthetic_treebank(60, random_state=0), block_size=9),
            {},
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", cases(np.random.default_rng(0)))
def test_fit_is_a_loop_over_partial_fit_and_resumes_with_the_same_bits(name, rng, tmp_path):
    estimator, stream, options = cases(rng)[name]
    passes = Passes.of("epochs", estimator.epochs)
    estimator.set_params(epochs=replace(passes, epochs=2), verbose=False, random_state=0)
    straight = type(estimator)(**estimator.get_params(deep=False)).fit(stream, **options)

    if passes.n_examples is not None or name == "growing":
        once = {
            **estimator.get_params(deep=False),
            "epochs": replace(passes, epochs=1),
            "weighting": "norms",
        }
        looped = type(estimator)(**once)
        fitted = type(estimator)(**once).fit(stream, **options)
        for block in stream.blocks(0):
            looped.partial_fit(*((block.X,) if block.y is None else block), **options)
        assert_same_state(fitted, looped)

    made = []

    def make(callbacks=None):
        made.append(type(estimator)(**{**estimator.get_params(deep=False), "callbacks": callbacks}))
        return made[-1]

    def fit(model, **running):
        return model.fit(stream, **options, **running)

    resumed = trained_with_kills(fit, make, tmp_path / "run", "23 rounds", 200, rng)
    assert len(made) > 1
    assert_equal_files(straight, resumed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kernels", [["linear"], ["gaussian:sigma2=2", "laplacian:sigma=3"]])
@pytest.mark.parametrize(
    "schedule", [{}, {"learning_rate": "linear:eta0=0.1"}, {"learning_rate": "polyak:eta0=1.0"}]
)
def test_arrays_in_the_given_order_are_learned_as_a_stream_is_bit_for_bit(kernels, schedule, rng):
    X, y = points(rng)
    settings = {"epochs": Passes(3, n_examples=len(y)), "verbose": False, **schedule}
    for weighting in ("auto", "norms"):
        settings["weighting"] = weighting
        in_order = replace(settings["epochs"], shuffle=False)
        in_order_settings = {**settings, "epochs": in_order, "budget": Budget(cache_size=0)}
        at_once = OnlineMKLClassifier(kernels, **in_order_settings).fit(X, y)
        streamed = OnlineMKLClassifier(kernels, **settings).fit(Stream.from_arrays(X, y, 70))
        assert_same_state(at_once, streamed)
    pieces = OnlineMKLClassifier(kernels, **settings)
    for _ in range(3):
        for low in range(0, len(y), 111):
            pieces.partial_fit(
                X[low : low + 111],
                y[low : low + 111],
                classes=[0, 1, 2],
            )
    assert_same_state(at_once, pieces)


def test_chains_gain_labels_and_their_transitions(rng):
    X, y = tagged(rng)
    labeler = SequenceLabeler(epochs=3, verbose=False).fit(
        Stream.from_arrays(X, y, 5), classes="growing"
    )
    assert set(labeler.classes_) == {label for labels in y for label in labels}
    assert labeler.transitions_.shape == (len(labeler.classes_),) * 2
    assert labeler.score(X, y) > 0.8


def test_parsers_take_in_relations_and_fields_that_come_late():
    early = synthetic_treebank(20, random_state=0)
    late = synthetic_treebank(20, random_state=1)
    renamed = [
        Sentence(**{**s.__getstate__(), "deprels": ["late:" + d for d in s.deprels]}) for s in late
    ]
    parser = DependencyParser("small", epochs=1, memory=5.0).partial_fit(early).partial_fit(renamed)
    assert {d.partition(":")[0] for s in parser.parse(late) for d in s.deprels} >= {"late"}


def test_an_iterator_is_a_stream_that_can_be_read_once(rng):
    X, y = points(rng)
    with pytest.raises(InputError):
        OnlineMKLClassifier().fit(iter(zip(X, y)), classes=[0, 1, 2])
    model = OnlineMKLClassifier(["linear"], epochs=1).fit(iter(zip(X, y)), classes=[0, 1, 2])
    assert model.score(X, y) > 0.6


def test_a_resumed_stream_must_be_the_same_up_to_there(rng, tmp_path):
    X, y = points(rng)
    stream = Stream.from_arrays(X, y, 32)
    model = OnlineMKLClassifier(["linear"], epochs=1, callbacks=[Kill(150)])
    with pytest.raises(Killed):
        model.fit(stream, checkpoint=tmp_path, checkpoint_every=0)
    model.set_params(callbacks=None)
    X[3] += 1e-9
    with pytest.raises(InputError):
        model.fit(stream, checkpoint=tmp_path, resume=True)
    with pytest.raises(InputError):
        model.fit(
            Stream.from_arrays(X[:60], y[:60], 32),
            checkpoint=tmp_path,
            resume=True,
        )
    with pytest.raises(InputError):
        OnlineMKLClassifier(["linear"], epochs=2).fit(stream, checkpoint=tmp_path, resume=True)


def test_checkpoints_of_arrays_and_of_streams_are_told_apart(rng, tmp_path):
    X, y = points(rng)
    model = OnlineMKLClassifier(["linear"], epochs=1)
    stream = Stream.from_arrays(X, y, 32)
    model.fit(X, y, checkpoint=tmp_path / "arrays", checkpoint_every=0)
    model.fit(stream, checkpoint=tmp_path / "stream", checkpoint_every=0)
    with pytest.raises(InputError):
        model.fit(stream, checkpoint=tmp_path / "arrays", resume=True)
    with pytest.raises(InputError):
        model.fit(X, y, checkpoint=tmp_path / "stream", resume=True)


def test_progressive_error_is_that_of_testing_before_training(rng):
    X, y = points(rng)
    meter = ProgressiveValidation(every=100)
    settings = {"average": None, "learning_rate": 0.5}
    OnlineMKLClassifier(KERNELS, callbacks=[meter], **settings).partial_fit(X, y)
    model = OnlineMKLClassifier(KERNELS, **settings).partial_fit(
        X[:1],
        y[:1],
        classes=[0, 1, 2],
    )
    # these kernels do not depend on the data, so one example suffices to make the model
    wrong = [y[0] != 0]
    for x, label in zip(X[1:], y[1:]):
        wrong.append(model.predict([x])[0] != label)
        model.partial_fit([x], [label])
    assert_allclose(
        [record["error"] for record in meter.records], np.reshape(wrong, (3, 100)).mean(axis=1)
    )
    assert [record["round"] for record in meter.records] == [100, 200, 300]
    assert_allclose(sum(values_of(meter.records[-1], "weight").values()), 1.0)


def test_records_of_endless_streams_stay_bounded(rng, monkeypatch):
    monkeypatch.setattr("omkl.online.rounds.RECORDS", 4)
    X, y = points(rng)
    fine = ProgressiveValidation(every=1)
    bounded = ProgressiveValidation(every=1)
    monkeypatch.setattr(
        fine,
        "records",
        type("Endless", (list,), {"__len__": lambda self: 0})(),
    )
    OnlineMKLClassifier(["linear"], callbacks=[bounded, fine]).partial_fit(X[:256], y[:256])
    assert 4 <= len(bounded.records) < 8
    covered = np.diff([0] + [record["round"] for record in bounded.records])
    assert len(set(covered)) == 1
    losses = np.array([record["loss"] for record in fine.records])
    assert_allclose(
        [record["loss"] for record in bounded.records], losses.reshape(-1, covered[0]).mean(axis=1)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arrays", "sequences", "trees", "regression"])
def test_shards_of_a_stream_are_mixed_and_resume(name, rng, tmp_path, monkeypatch):
    """Shards learn blocks side by side, mixed after each; checkpoints lie between blocks."""
    monkeypatch.setattr("omkl.estimators.sources.MIX_EVERY", 12)
    estimator, stream, options = cases(rng)[name]
    passes = Passes.of("epochs", estimator.epochs)
    estimator.set_params(epochs=replace(passes, epochs=2), verbose=False, random_state=0)
    straight = type(estimator)(**estimator.get_params(deep=False)).fit(stream, shards=2, **options)
    assert straight.history_[-1]["loss"] > 0.0
    run = {"checkpoint": tmp_path / "run", "checkpoint_every": "1 rounds", "shards": 2}
    model = type(estimator)(**estimator.get_params(deep=False)).fit(stream, **options, **run)
    max((tmp_path / "run").iterdir()).unlink()
    model = type(estimator)(**estimator.get_params(deep=False)).fit(
        stream, **options, **run, resume=True
    )
    assert_equal_files(straight, model, tmp_path)
    for block in stream.blocks():  # and go on alone
        model.partial_fit(*((block.X,) if block.y is None else block))
    with pytest.raises(InputError):
        type(estimator)(**estimator.get_params(deep=False)).fit(
            stream, **options, **{**run, "shards": None}, resume=True
        )
    with pytest.raises(InputError):
        estimator.set_params(callbacks=[Kill(0)]).fit(stream, shards=2, **options)
