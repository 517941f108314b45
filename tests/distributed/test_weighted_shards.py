"""Sample and class weights in shards mean what they mean in one process."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from omkl import DependencyParser, OnlineMKLClassifier, OnlineMKLRegressor, SequenceLabeler
from omkl.data import synthetic_treebank
from omkl.distributed import ParameterMixing
from omkl.estimators.training import Run

from ..passes import assert_same_state

RNG = np.random.default_rng(0)
X = RNG.normal(size=(61, 4))
Y = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=61), [-0.5, 0.5])
WEIGHTS = RNG.choice([0.0, 0.3, 1.0, 2.5, 4.0], size=61)
CLASS_WEIGHTS = {0: 0.5, 1: 3.0, 2: 1.7}

ONLINE = {
    "fobos": {"method": "fobos"},
    "rda": {"method": "rda"},
    "group lasso, rates of a schedule": {"regularizer": "group-lasso", "eta0": 0.3},
    "elastic net, rda": {"regularizer": "elastic-net", "method": "rda", "eta0": 0.2},
    "last iterate": {"average": None},
}


def classifier(kernels=("linear", "gaussian:sigma2=3"), **settings):
    return OnlineMKLClassifier(list(kernels), **{"epochs": 3, "random_state": 0, "C": 2.0, **settings})


def one_shard(monkeypatch):
    """Train one shard with mixing; ``shards=1`` trains without."""

    class OneShard(Run):
        def __init__(self, *args, **options):
            super().__init__(*args, **options, make_pass=ParameterMixing(1), n_shards=1)

    monkeypatch.setattr("omkl.estimators.base.Run", OneShard)


@pytest.mark.parametrize("setting", ONLINE)
def test_one_shard_with_weights_is_the_serial_fit(setting, monkeypatch):
    settings = {"class_weight": CLASS_WEIGHTS, **ONLINE[setting]}
    serial = classifier(["linear", "polynomial:degree=2"], **settings).fit(X, Y, WEIGHTS)
    one_shard(monkeypatch)
    mixed = classifier(["linear", "polynomial:degree=2"], **settings).fit(X, Y, WEIGHTS, shards=1)
    assert_same_state(mixed, serial)
    assert mixed.history_[-1]["shards"] == 1
    assert [record["loss"] for record in mixed.history_] == [record["loss"] for record in serial.history_]


@pytest.mark.parametrize("setting", ONLINE)
def test_examples_without_weight_are_absent(setting):
    kept = WEIGHTS > 0
    weighted = classifier(**ONLINE[setting]).fit(X, Y, WEIGHTS, shards=3)
    absent = classifier(**ONLINE[setting]).fit(X[kept], Y[kept], WEIGHTS[kept], shards=3)
    assert_allclose(weighted.decision_function(X), absent.decision_function(X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("setting", ONLINE)
def test_whole_weights_are_copies(setting):
    copies = np.random.default_rng(1).integers(0, 4, size=len(Y))
    weighted = classifier(**ONLINE[setting]).fit(X, Y, copies, shards=2)
    repeated = classifier(**ONLINE[setting]).fit(np.repeat(X, copies, axis=0), np.repeat(Y, copies), shards=2)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("setting", ONLINE)
@pytest.mark.parametrize("shards", [2, 4])
def test_class_weights_are_sample_weights(setting, shards):
    by_class = classifier(class_weight=CLASS_WEIGHTS, **ONLINE[setting]).fit(X, Y, WEIGHTS, shards=shards)
    each = WEIGHTS * [CLASS_WEIGHTS[label] for label in Y]
    assert_same_state(by_class, classifier(**ONLINE[setting]).fit(X, Y, each, shards=shards))


def test_balanced_class_weights_are_those_of_all_shards_together():
    counts = np.bincount(Y)
    given = {label: len(Y) / (3 * n) for label, n in enumerate(counts.tolist())}
    balanced = classifier(class_weight="balanced").fit(X, Y, shards=3)
    assert_same_state(balanced, classifier(class_weight=given).fit(X, Y, shards=3))


@pytest.mark.parametrize("setting", ONLINE)
def test_two_shards_of_equal_data_are_one_of_them(setting):
    """Shard j has the examples j, j + 2, ..., so examples given twice in a row make two equal shards."""
    weights = np.random.default_rng(2).choice([0.3, 0.7, 1.0], size=len(Y))  # presented once each
    settings = {**ONLINE[setting], "shuffle": False}
    doubled = [np.repeat(values, 2, axis=0) for values in (X, Y, weights)]
    # C multiplies the sum of losses, which is twice that of one shard
    mixed = classifier(C=1.0, **settings).fit(*doubled, shards=2)
    alone = classifier(C=2.0, **settings).fit(X, Y, weights)
    # the proximal step of a mix gives back what a sum over groups has taken, and what coupled norms have, nearly
    coupled = settings.get("method") != "rda" and "regularizer" not in settings
    close = {"atol": 0.3} if coupled else {"rtol": 1e-7, "atol": 1e-9}
    assert_allclose(mixed.decision_function(X), alone.decision_function(X), **close)
    assert mixed.history_[-1]["loss:shard1"] == mixed.history_[-1]["loss:shard2"]


def test_regressors_labelers_and_parsers_leave_out_what_has_no_weight():
    kept = WEIGHTS > 0
    settings = {"epochs": 2, "random_state": 0}
    whole = OnlineMKLRegressor(["linear"], **settings).fit(X, X[:, 0], WEIGHTS, shards=2)
    part = OnlineMKLRegressor(["linear"], **settings).fit(X[kept], X[kept, 0], WEIGHTS[kept], shards=2)
    assert_allclose(whole.predict(X), part.predict(X), rtol=1e-10)

    sentences = [[{"w": f"w{i % 7}"}, {"w": f"w{i % 5}"}] for i in range(20)]
    tags = [[str(i % 7 % 2), str(i % 5 % 2)] for i in range(20)]
    weights = np.tile([0.0, 1.0, 2.5, 0.4], 5)
    kept = np.flatnonzero(weights)
    whole = SequenceLabeler(**settings).fit(sentences, tags, weights, shards=2)
    part = SequenceLabeler(**settings).fit(
        [sentences[i] for i in kept], [tags[i] for i in kept], weights[kept], shards=2
    )
    for i in kept:
        assert_array_equal(whole.predict(sentences)[i], part.predict(sentences)[i])
    assert whole.kernel_weights_ == part.kernel_weights_

    treebank = synthetic_treebank(20, random_state=0)
    whole = DependencyParser("small", **settings).fit(treebank, sample_weight=weights, shards=2)
    part = DependencyParser("small", **settings).fit(
        [treebank[i] for i in kept.tolist()], sample_weight=weights[kept], shards=2
    )
    assert_allclose(list(whole.template_weights_.values()), list(part.template_weights_.values()), rtol=1e-9)
