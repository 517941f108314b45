"""A run that is killed at any moment and resumed gives the same bytes as an uninterrupted one."""

import itertools
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from omkl import DependencyParser, OnlineMKLClassifier, SequenceLabeler
from omkl.data import synthetic_treebank
from omkl.exceptions import CheckpointWarning, InputError
from omkl.online.checkpointing import Checkpoints

from ..passes import Kill, Killed

PARAMETERS = [
    {},
    {"loss": "crf", "regularizer": "elastic-net:mu=0.5", "average": "uniform:start=10"},
    {"loss": "perceptron", "regularizer": None, "average": None, "eta0": 0.1, "schedule": "constant"},
    {"method": "rda", "regularizer": "group-lasso", "C": 0.1},
    {"eta0": 0.5, "schedule": "linear", "regularizer": "lq:q=1.5", "radius": 10.0},
    {"eta0": 0.5, "schedule": "mean-polyak", "regularizer": "l1", "cache_size": 0, "kernels": ["linear"]},
    {"eta0": 0.5, "schedule": "mean-polyak", "method": "rda", "kernels": ["gaussian:features=20", "linear"]},
    {"eta0": 0.5, "schedule": "linear", "method": "rda", "cache_size": 0},
    {"cache_size": 0, "C": 100.0},
    {"cache_size": 0.005, "C": 100.0},
    {"kernels": ["b1:density=0.3", "gaussian"], "dtype": "float32"},
    {"kernels": ["gaussian:features=20", "laplacian:features=9,map=nystrom", "linear"], "C": 0.1},
    {"kernels": ["gaussian:features=20"], "regularizer": "l1", "eta0": 0.5, "cache_size": 0},
    {"weighting": "out-of-sample", "kernels": ["linear", "gaussian"]},
    {"early_stopping": True, "n_iter_no_change": 2, "validation_fraction": 0.3},
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
            continue
        return estimator.set_params(callbacks=None)


def assert_equal_files(straight, resumed, folder):
    straight.save(folder / "straight.npz")
    resumed.save(folder / "resumed.npz")
    assert (folder / "straight.npz").read_bytes() == (folder / "resumed.npz").read_bytes()


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@pytest.mark.parametrize("estimator", [SequenceLabeler, OnlineMKLClassifier])
def test_a_resumed_run_gives_the_bytes_of_an_uninterrupted_one(estimator, parameters, rng, tmp_path):
    X, y = sequences(rng)
    if estimator is OnlineMKLClassifier:
        X, y = np.concatenate(X), np.concatenate(y)

    def make(callbacks=None):
        return estimator(**{"epochs": 4, "verbose": False, "random_state": 3, **parameters}, callbacks=callbacks)

    def fit(model, **options):
        return model.fit(X, y, **options)

    straight = fit(make())
    resumed = trained_with_kills(fit, make, tmp_path / "run", "7 rounds", 4 * len(X), rng)
    assert_equal_files(straight, resumed, tmp_path)
    assert len(list((tmp_path / "run").iterdir())) <= 2


@pytest.mark.parametrize("parameters", [{"loss": "crf"}, {"radius": 5.0}, {"method": "rda", "early_stopping": True}])
def test_parsers_too_in_both_phases(parameters, rng, tmp_path):
    treebank = synthetic_treebank(30, random_state=0)

    def make(callbacks=None):
        return DependencyParser(
            "small", epochs=2, memory=9.0, verbose=False, random_state=1, callbacks=callbacks, **parameters
        )

    def fit(model, **options):
        return model.fit(treebank, **options)

    straight = fit(make())
    resumed = trained_with_kills(fit, make, tmp_path / "run", "5 rounds", 60, rng)
    assert_equal_files(straight, resumed, tmp_path)
    # the latest checkpoint is in the second phase, so the first is not repeated
    again = fit(make(callbacks=[Kill(0)]), checkpoint=tmp_path / "run", resume=True).set_params(callbacks=None)
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


def test_sigkill_at_any_instant(tmp_path, rng):
    """Kill real processes that write a checkpoint every round, also while they write."""
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, program, "none", tmp_path / "straight.npz"], check=True)
    run = tmp_path / "run"
    for _ in range(2):
        process = subprocess.Popen([sys.executable, program, run, tmp_path / "resumed.npz"])
        before = os.listdir(run) if run.exists() else []
        while process.poll() is None and (not run.exists() or os.listdir(run) == before):
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0.0, 0.4)))
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, program, run, tmp_path / "resumed.npz"], check=True)
    assert (tmp_path / "straight.npz").read_bytes() == (tmp_path / "resumed.npz").read_bytes()
    assert len(os.listdir(run)) == 2


def interrupted(X, y, folder, **parameters):
    parameters = {"epochs": 2, "verbose": False, "random_state": 0, **parameters}
    with pytest.raises(Killed):
        SequenceLabeler(callbacks=[Kill(20)], **parameters).fit(X, y, checkpoint=folder, checkpoint_every="2 rounds")


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
        OnlineMKLClassifier().fit(np.concatenate(X), np.concatenate(y), checkpoint=tmp_path, resume=True)
    resume()


def test_a_checkpoint_of_another_version_or_of_an_earlier_run_is_refused(rng, tmp_path, monkeypatch):
    X, y = sequences(rng)
    with monkeypatch.context() as earlier:
        earlier.setattr("omkl.estimators.training.version", lambda name: "0.0.1")
        interrupted(X, y, tmp_path)
    for options in ({"checkpoint": tmp_path, "resume": True}, {"checkpoint": tmp_path}, {"resume": True}):
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
    ("every", "due"), [(0, True), ("0s", True), ("1h", False), (3600, False), ("5 rounds", True), ("6 rounds", False)]
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
        parser = DependencyParser("small", epochs=3, memory=6.0, labeled=labeled, verbose=False, random_state=1)
        return parser.fit(treebank, shards=2, **options)

    straight = fit()
    fit(checkpoint=tmp_path / "run", checkpoint_every="1 rounds")
    assert len(list((tmp_path / "run").iterdir())) == 2
    max((tmp_path / "run").iterdir()).unlink()
    assert_equal_files(straight, fit(checkpoint=tmp_path / "run", resume=True), tmp_path)
