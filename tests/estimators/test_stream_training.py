"""Estimators on streams equal ``partial_fit``, with late labels and features, and after kills."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from omkl import DependencyParser, OnlineMKLClassifier, OnlineMKLRegressor, SequenceLabeler
from omkl.data import Sentence, Stream, synthetic_treebank
from omkl.exceptions import InputError
from omkl.online import ProgressiveValidation, values_of

from ..passes import Kill, Killed, assert_same_state


def cosine(X, Y):
    return X @ Y.T / np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1))


def points(rng, n=300, classes=3):
    y = rng.integers(0, classes, n)
    return np.eye(5)[y] + rng.normal(0, 0.5, (n, 5)), y


def tagged(rng, n=60):
    """Sentences of token dicts; new words, keys and labels keep coming."""
    X, y = [], []
    for i in range(n):
        kinds = rng.integers(0, 2 + i // 20, rng.integers(1, 6))
        X.append([{"word": f"w{k}{rng.integers(3)}", **({"late": f"l{k}"} if i > 30 else {})} for k in kinds])
        y.append([f"t{k}" for k in kinds])
    return X, y


KERNELS = ["linear", "gaussian:sigma2=2"]
DUAL = ["laplacian:sigma=3", "gaussian:sigma2=2"]


def cases(rng):
    X, y = points(rng)
    words, tags = tagged(rng)
    return {
        "arrays": (OnlineMKLClassifier(KERNELS), Stream.from_arrays(X, y, 32), {}),
        "sparse": (OnlineMKLClassifier(), Stream.from_arrays(sparse.csr_array(X), y, 50), {"classes": [0, 1, 2]}),
        "shuffled": (OnlineMKLClassifier(KERNELS), Stream.from_arrays(X, y, 20).shuffled(90, random_state=1), {}),
        "growing": (OnlineMKLClassifier(KERNELS), Stream.from_arrays(X, np.sort(y), 32), {"classes": "growing"}),
        "feature maps": (
            OnlineMKLClassifier(["gaussian:features=30", "laplacian:features=12,map=nystrom"]),
            Stream.from_arrays(X, np.sort(y), 32),
            {"classes": "growing"},
        ),
        "decayed feature maps": (
            OnlineMKLClassifier(["gaussian:features=30"], average="decayed:half_life=3", eta0=0.1, schedule="constant"),
            Stream.from_arrays(X, y, 32),
            {},
        ),
        "budget": (OnlineMKLClassifier(DUAL, budget=30), Stream.from_arrays(X, np.sort(y), 32), {"classes": "growing"}),
        "decayed budget": (
            OnlineMKLRegressor(DUAL, budget=30, average="decayed:half_life=5"),
            Stream.from_arrays(X, X[:, 0], 32),
            {},
        ),
        "own kernel": (OnlineMKLClassifier([cosine, "linear"]), Stream.from_arrays(X, y, 32), {}),
        "regression": (OnlineMKLRegressor(KERNELS), Stream.from_arrays(X, X[:, 0] * X[:, 1], 32), {}),
        "decayed": (
            OnlineMKLClassifier(["linear"], average="decayed:half_life=3", eta0=0.1, schedule="constant"),
            Stream.from_arrays(X, y, 32),
            {},
        ),
        "sequences": (SequenceLabeler(), Stream.from_arrays(words, tags, 7), {"classes": "growing"}),
        "l1": (SequenceLabeler(regularizer="l1", C=5.0), Stream.from_arrays(words, tags, 7), {"classes": "growing"}),
        "trees": (
            DependencyParser("small", memory=6.0, n_examples=60),
            Stream.from_arrays(synthetic_treebank(60, random_state=0), block_size=9),
            {},
        ),
    }


@pytest.mark.parametrize("name", cases(np.random.default_rng(0)))
def test_fit_is_a_loop_over_partial_fit_and_resumes_with_the_same_bits(name, rng, tmp_path):
    estimator, stream, options = cases(rng)[name]
    estimator.set_params(epochs=2, verbose=False, random_state=0)
    straight = type(estimator)(**estimator.get_params()).fit(stream, **options)
    straight.save(tmp_path / "straight.npz")

    if estimator.n_examples is not None or name == "growing":
        once = {**estimator.get_params(), "epochs": 1, "weighting": "norms"}
        looped, fitted = type(estimator)(**once), type(estimator)(**once).fit(stream, **options)
        for block in stream.blocks(0):
            looped.partial_fit(*((block.X,) if block.y is None else block), **options)
        assert_same_state(fitted, looped)

    for attempt in itertools.count():
        model = type(estimator)(**estimator.get_params())
        model.set_params(callbacks=[Kill(int(rng.integers(40, 200)))] if attempt < 4 else None)
        try:
            model.fit(stream, **options, checkpoint=tmp_path / "run", checkpoint_every="23 rounds", resume=attempt > 0)
            break
        except Killed:
            assert not hasattr(model, "model_")
    model.save(tmp_path / "resumed.npz")
    assert (tmp_path / "straight.npz").read_bytes() == (tmp_path / "resumed.npz").read_bytes()
    assert attempt > 0


@pytest.mark.parametrize("kernels", [["linear"], ["gaussian:sigma2=2", "laplacian:sigma=3"]])
@pytest.mark.parametrize("schedule", [{}, {"eta0": 0.1, "schedule": "linear"}, {"eta0": 1.0, "schedule": "polyak"}])
def test_arrays_in_the_given_order_are_learned_as_a_stream_is_bit_for_bit(kernels, schedule, rng):
    X, y = points(rng)
    settings = {"epochs": 3, "verbose": False, "n_examples": len(y), **schedule}
    for weighting in ("auto", "norms"):
        settings["weighting"] = weighting
        at_once = OnlineMKLClassifier(kernels, shuffle=False, cache_size=0, **settings).fit(X, y)
        streamed = OnlineMKLClassifier(kernels, **settings).fit(Stream.from_arrays(X, y, 70))
        assert_same_state(at_once, streamed)
    pieces = OnlineMKLClassifier(kernels, **settings)
    for _ in range(3):
        for low in range(0, len(y), 111):
            pieces.partial_fit(X[low : low + 111], y[low : low + 111], classes=[0, 1, 2])
    assert_same_state(at_once, pieces)


def test_chains_gain_labels_and_their_transitions(rng):
    X, y = tagged(rng)
    labeler = SequenceLabeler(epochs=3, verbose=False).fit(Stream.from_arrays(X, y, 5), classes="growing")
    assert set(labeler.classes_) == {label for labels in y for label in labels}
    assert labeler.transitions_.shape == (len(labeler.classes_),) * 2
    assert labeler.score(X, y) > 0.8


def test_parsers_take_in_relations_and_fields_that_come_late():
    early, late = synthetic_treebank(20, random_state=0), synthetic_treebank(20, random_state=1)
    renamed = [Sentence(**{**s.__getstate__(), "deprels": ["late:" + d for d in s.deprels]}) for s in late]
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
        model.fit(Stream.from_arrays(X[:60], y[:60], 32), checkpoint=tmp_path, resume=True)
    with pytest.raises(InputError):
        OnlineMKLClassifier(["linear"], epochs=2).fit(stream, checkpoint=tmp_path, resume=True)


def test_checkpoints_of_arrays_and_of_streams_are_told_apart(rng, tmp_path):
    X, y = points(rng)
    model, stream = OnlineMKLClassifier(["linear"], epochs=1), Stream.from_arrays(X, y, 32)
    model.fit(X, y, checkpoint=tmp_path / "arrays", checkpoint_every=0)
    model.fit(stream, checkpoint=tmp_path / "stream", checkpoint_every=0)
    with pytest.raises(InputError):
        model.fit(stream, checkpoint=tmp_path / "arrays", resume=True)
    with pytest.raises(InputError):
        model.fit(X, y, checkpoint=tmp_path / "stream", resume=True)


def test_progressive_error_is_that_of_testing_before_training(rng):
    X, y = points(rng)
    meter = ProgressiveValidation(every=100)
    settings = {"average": None, "eta0": 0.5}
    OnlineMKLClassifier(KERNELS, callbacks=[meter], **settings).partial_fit(X, y)
    model = OnlineMKLClassifier(KERNELS, **settings).partial_fit(X[:1], y[:1], classes=[0, 1, 2])
    # these kernels do not depend on the data, so one example suffices to make the model
    wrong = [y[0] != 0]
    for x, label in zip(X[1:], y[1:]):
        wrong.append(model.predict([x])[0] != label)
        model.partial_fit([x], [label])
    assert_allclose([record["error"] for record in meter.records], np.reshape(wrong, (3, 100)).mean(axis=1))
    assert [record["round"] for record in meter.records] == [100, 200, 300]
    assert_allclose(sum(values_of(meter.records[-1], "weight").values()), 1.0)


def test_records_of_endless_streams_stay_bounded(rng, monkeypatch):
    monkeypatch.setattr("omkl.online.rounds.RECORDS", 4)
    X, y = points(rng)
    fine, bounded = ProgressiveValidation(every=1), ProgressiveValidation(every=1)
    monkeypatch.setattr(fine, "records", type("Endless", (list,), {"__len__": lambda self: 0})())
    OnlineMKLClassifier(["linear"], callbacks=[bounded, fine]).partial_fit(X[:256], y[:256])
    assert 4 <= len(bounded.records) < 8
    covered = np.diff([0] + [record["round"] for record in bounded.records])
    assert len(set(covered)) == 1
    losses = np.array([record["loss"] for record in fine.records])
    assert_allclose([record["loss"] for record in bounded.records], losses.reshape(-1, covered[0]).mean(axis=1))


@pytest.mark.parametrize("name", ["arrays", "sequences", "trees", "regression"])
def test_shards_of_a_stream_are_mixed_and_resume(name, rng, tmp_path, monkeypatch):
    """Blocks are learned in shards side by side, mixed after each; checkpoints lie between blocks."""
    monkeypatch.setattr("omkl.estimators.sources.MIX_EVERY", 12)
    estimator, stream, options = cases(rng)[name]
    estimator.set_params(epochs=2, verbose=False, random_state=0)
    straight = type(estimator)(**estimator.get_params()).fit(stream, shards=2, **options)
    straight.save(tmp_path / "straight.npz")
    assert straight.history_[-1]["loss"] > 0.0
    run = {"checkpoint": tmp_path / "run", "checkpoint_every": "1 rounds", "shards": 2}
    model = type(estimator)(**estimator.get_params()).fit(stream, **options, **run)
    max((tmp_path / "run").iterdir()).unlink()
    model = type(estimator)(**estimator.get_params()).fit(stream, **options, **run, resume=True)
    model.save(tmp_path / "resumed.npz")
    assert (tmp_path / "straight.npz").read_bytes() == (tmp_path / "resumed.npz").read_bytes()
    for block in stream.blocks():  # and go on alone
        model.partial_fit(*((block.X,) if block.y is None else block))
    with pytest.raises(InputError):
        type(estimator)(**estimator.get_params()).fit(stream, **options, **{**run, "shards": None}, resume=True)
    with pytest.raises(InputError):
        estimator.set_params(callbacks=[Kill(0)]).fit(stream, shards=2, **options)
