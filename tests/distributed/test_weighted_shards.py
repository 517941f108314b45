"""Sample and class weights in shards mean what they do in one process; results are bitwise equal
for any number of threads.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl import DependencyParser, OnlineMKLClassifier, OnlineMKLRegressor, Passes, SequenceLabeler
from omkl.data import synthetic_treebank
from omkl.distributed import ParameterMixing
from omkl.estimators.training import Run
from omkl.exceptions import InputError
from omkl.groups.expansions.cached import dense_grams
from omkl.kernels import as_kernel

from ..passes import assert_same_state

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(61, 4))
Y = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=61), [-0.5, 0.5])
WEIGHTS = RNG.choice([0.0, 0.3, 1.0, 2.5, 4.0], size=61)
CLASS_WEIGHTS = {0: 0.5, 1: 3.0, 2: 1.7}

TWO_EPOCHS = {"epochs": 2, "random_state": 0}
ONLINE = {
    "fobos": {"method": "fobos"},
    "rda": {"method": "rda"},
    "group lasso, rates of a schedule": {"regularizer": "group-lasso", "learning_rate": 0.3},
    "elastic net, rda": {"regularizer": "elastic-net", "method": "rda", "learning_rate": 0.2},
    "last iterate": {"average": None},
}


def classifier(kernels=("linear", "gaussian:sigma2=3"), **settings):
    return OnlineMKLClassifier(
        list(kernels), **{"epochs": 3, "random_state": 0, "C": 2.0, **settings}
    )


def one_shard(monkeypatch):
    """Train one shard with mixing; ``shards=1`` trains without."""

    class OneShard(Run):
        def __init__(self, *args, **options):
            super().__init__(*args, **options, make_pass=ParameterMixing(1), n_shards=1)

    monkeypatch.setattr("omkl.estimators.base.Run", OneShard)


each_setting = pytest.mark.parametrize("setting", ONLINE)


@each_setting
def test_one_shard_with_weights_is_the_serial_fit(setting, monkeypatch):
    settings = {"class_weight": CLASS_WEIGHTS, **ONLINE[setting]}
    serial = classifier(["linear", "polynomial:degree=2"], **settings).fit(X, Y, WEIGHTS)
    one_shard(monkeypatch)
    mixed = classifier(["linear", "polynomial:degree=2"], **settings).fit(X, Y, WEIGHTS, shards=1)
    assert_same_state(mixed, serial)
    assert mixed.history_[-1]["shards"] == 1
    assert [record["loss"] for record in mixed.history_] == [
        record["loss"] for record in serial.history_
    ]


@each_setting
def test_examples_without_weight_are_absent(setting):
    is_weighted = WEIGHTS > 0
    weighted = classifier(**ONLINE[setting]).fit(X, Y, WEIGHTS, shards=3)
    absent = classifier(**ONLINE[setting]).fit(
        X[is_weighted], Y[is_weighted], WEIGHTS[is_weighted], shards=3
    )
    assert_allclose(
        weighted.decision_function(X), absent.decision_function(X), rtol=1e-12, atol=1e-14
    )


@each_setting
def test_whole_weights_are_copies(setting):
    copies = np.random.default_rng(1).integers(0, 4, size=len(Y))
    weighted = classifier(**ONLINE[setting]).fit(X, Y, copies, shards=2)
    repeated = classifier(**ONLINE[setting]).fit(
        np.repeat(X, copies, axis=0), np.repeat(Y, copies), shards=2
    )
    assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), rtol=1e-10, atol=1e-12
    )


@each_setting
@pytest.mark.parametrize("shards", [2, 4])
def test_class_weights_are_sample_weights(setting, shards):
    by_class = classifier(class_weight=CLASS_WEIGHTS, **ONLINE[setting]).fit(
        X, Y, WEIGHTS, shards=shards
    )
    each = WEIGHTS * [CLASS_WEIGHTS[label] for label in Y]
    assert_same_state(by_class, classifier(**ONLINE[setting]).fit(X, Y, each, shards=shards))


def test_balanced_class_weights_are_those_of_all_shards_together():
    counts = np.bincount(Y)
    balanced_weights = {label: len(Y) / (3 * n) for label, n in enumerate(counts.tolist())}
    balanced = classifier(class_weight="balanced").fit(X, Y, shards=3)
    assert_same_state(balanced, classifier(class_weight=balanced_weights).fit(X, Y, shards=3))


@each_setting
def test_two_shards_of_equal_data_are_one_of_them(setting):
    """Shard j has the examples j, j + 2, ..., so examples given twice in a row make two equal
    shards.
    """
    # weights of at most 1, so that each example is presented once
    weights = np.random.default_rng(2).choice([0.3, 0.7, 1.0], size=len(Y))
    in_order = Passes(3, shuffle=False)
    settings = {"loss": "hinge", **ONLINE[setting], "epochs": in_order}
    doubled = [np.repeat(values, 2, axis=0) for values in (X, Y, weights)]
    # C multiplies the sum of losses, which is twice that of one shard
    mixed = classifier(C=1.0, **settings).fit(*doubled, shards=2)
    alone = classifier(C=2.0, **settings).fit(X, Y, weights)
    # a mix undoes the proximal steps of the shards and takes one for all: this is exact if the
    # regularizer is a sum over groups, and close if it couples their norms, as the default does
    coupled = settings.get("method") != "rda" and "regularizer" not in settings
    close = {"atol": 0.3} if coupled else {"rtol": 1e-7, "atol": 1e-9}
    assert_allclose(
        mixed.decision_function(X),
        alone.decision_function(X),
        **close,
    )
    assert mixed.history_[-1]["loss:shard1"] == mixed.history_[-1]["loss:shard2"]


def test_regressors_labelers_and_parsers_leave_out_what_has_no_weight():
    is_weighted = WEIGHTS > 0
    with_zeros = OnlineMKLRegressor(["linear"], **TWO_EPOCHS).fit(X, X[:, 0], WEIGHTS, shards=2)
    without = OnlineMKLRegressor(["linear"], **TWO_EPOCHS).fit(
        X[is_weighted], X[is_weighted, 0], WEIGHTS[is_weighted], shards=2
    )
    assert_allclose(
        with_zeros.predict(X),
        without.predict(X),
        rtol=1e-10,
    )

    sentences = [[{"w": f"w{i % 7}"}, {"w": f"w{i % 5}"}] for i in range(20)]
    tags = [[str(i % 7 % 2), str(i % 5 % 2)] for i in range(20)]
    weights = np.tile([0.0, 1.0, 2.5, 0.4], 5)
    weighted = np.flatnonzero(weights)
    with_zeros = SequenceLabeler(**TWO_EPOCHS).fit(sentences, tags, weights, shards=2)
    without = SequenceLabeler(**TWO_EPOCHS).fit(
        [sentences[i] for i in weighted], [tags[i] for i in weighted], weights[weighted], shards=2
    )
    for i in weighted:
        assert_array_equal(
            with_zeros.predict(sentences)[i],
            without.predict(sentences)[i],
        )
    assert with_zeros.kernel_weights_ == without.kernel_weights_

    treebank = synthetic_treebank(20, random_state=0)
    with_zeros = DependencyParser("small", **TWO_EPOCHS).fit(
        treebank, sample_weight=weights, shards=2
    )
    without = DependencyParser("small", **TWO_EPOCHS).fit(
        [treebank[i] for i in weighted.tolist()], sample_weight=weights[weighted], shards=2
    )
    assert_allclose(
        list(with_zeros.template_weights_.values()),
        list(without.template_weights_.values()),
        rtol=1e-9,
    )


MODELS = {
    "explicit and Fourier": lambda: omkl.OnlineMKLClassifier(
        ["linear", "gaussian:features=30"], **TWO_EPOCHS
    ),
    "expansion, crf": lambda: omkl.OnlineMKLClassifier(
        ["quadratic", "gaussian"], loss="crf", **TWO_EPOCHS
    ),
    "rates by distance": lambda: omkl.OnlineMKLClassifier(
        ["gaussian:features=30"], method="rda", learning_rate="auto", **TWO_EPOCHS
    ),
    "regressor": lambda: omkl.OnlineMKLRegressor(["linear", "gaussian"], **TWO_EPOCHS),
}


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(150, 5))
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_learned_to_the_same_bits(name, rows):
    X, y = rows
    models = [
        MODELS[name]().set_params(n_jobs=n_jobs).fit(X, y, shards=3) for n_jobs in (None, 2, 3, 5)
    ]
    for model in models[1:]:
        assert_same_state(model, models[0])


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_sequences_are_learned_to_the_same_bits(loss, rng):
    X = [[f"w{rng.integers(30)}" for _ in range(rng.integers(1, 9))] for _ in range(90)]
    y = [[word[-1] for word in x] for x in X]
    models = [
        omkl.SequenceLabeler(loss=loss, n_jobs=n_jobs, **TWO_EPOCHS).fit(X, y, shards=4)
        for n_jobs in (None, 4)
    ]
    for mine, other in zip(*(model.decision_function(X) for model in models)):
        assert_array_equal(mine, other)


@pytest.mark.parametrize("templates", ["small", ["h.upos m.upos direction", "h.form m.form"]])
def test_trees_are_learned_to_the_same_bits(templates):
    treebank = synthetic_treebank(120, vocabulary=20, random_state=0)
    models = [
        omkl.DependencyParser(templates, epochs=2, memory=10, random_state=0, n_jobs=n_jobs).fit(
            treebank, shards=3
        )
        for n_jobs in (None, 3)
    ]
    assert_same_state(*models)
    assert_array_equal(*(model.parse(treebank).heads for model in models))


def test_predictions_do_not_depend_on_threads(rows, monkeypatch):
    X = np.tile(rows[0], (4, 1))
    y = rows[1]
    monkeypatch.setattr("omkl.mkl.rows.AT_A_TIME", 70)
    dicts = [{"a": float(row[0]), "b": f"w{int(3 * row[1])}"} for row in X]
    for model in (
        *(make() for make in MODELS.values()),
        omkl.OnlineMKLClassifier(budget=20, **TWO_EPOCHS),
    ):
        model.fit(*rows)
        function = getattr(model, "decision_function", model.predict)
        predictions = []
        for n_jobs in (None, 2, -1):
            model.set_params(n_jobs=n_jobs)
            predictions.append(function(X))
        for other in predictions[1:]:
            assert_array_equal(predictions[0], other)
        assert len(predictions[0]) == len(X)
    model = omkl.OnlineMKLClassifier(**TWO_EPOCHS).fit(dicts[:150], y)
    predictions = [model.set_params(n_jobs=n_jobs).decision_function(dicts) for n_jobs in (None, 3)]
    assert_array_equal(*predictions)
    monkeypatch.setattr("omkl.mkl.rows.AT_A_TIME", 10**6)
    # BLAS rounds products of the last rows of a block differently
    assert_allclose(model.decision_function(dicts), predictions[0], rtol=1e-12, atol=1e-12)


def test_gram_matrices_do_not_depend_on_threads(rng):
    X = rng.normal(size=(700, 4))
    kernels = [
        as_kernel(name).fit_view(X) for name in ("linear", "quadratic", "gaussian", "laplacian")
    ]
    grams = [dense_grams(kernels, [X] * 4, np.float64, n_jobs) for n_jobs in (None, 2, 5)]
    for other in grams[1:]:
        assert_array_equal(grams[0], other)
    model = omkl.OnlineMKLClassifier(["gaussian"], **TWO_EPOCHS)
    scores = [
        model.set_params(n_jobs=n_jobs).fit(X, X[:, 0] > 0).decision_function(X)
        for n_jobs in (None, 3)
    ]
    assert_array_equal(*scores)


@pytest.mark.parametrize("settings", [{}, {"approximate": True}], ids=["dense", "factors"])
def test_predictions_of_certified_models_do_not_depend_on_threads(rng, settings):
    X = rng.normal(size=(3000, 4))
    y = X[:, 0] + X[:, 1] ** 2
    kernels = ["linear", "gaussian:on=[0,2]", "gaussian"]
    regressor = omkl.MKLRegressor(kernels, **settings).fit(X[:200], y[:200])
    classifier = omkl.MKLClassifier(kernels, **settings).fit(
        X[:200], np.digitize(y[:200], [0.0, 1.0])
    )
    for model, function in ((regressor, "predict"), (classifier, "decision_function")):
        predictions = [
            getattr(model.set_params(n_jobs=n_jobs), function)(X) for n_jobs in (None, 2, 5)
        ]
        for other in predictions[1:]:
            assert_array_equal(predictions[0], other)
    with pytest.raises(InputError, match="n_jobs must be a whole number"):
        omkl.MKLRegressor(kernels, n_jobs=0).fit(X[:20], y[:20])
