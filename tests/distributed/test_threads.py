"""Shards on threads of one process equal shards on workers, bit by bit."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import omkl
from omkl.data import synthetic_treebank
from omkl.estimators import validation as inputs
from omkl.exceptions import InputError
from omkl.groups.expansions.cached import dense_grams
from omkl.kernels import as_kernel

from ..passes import assert_same_state

WORDS = {"epochs": 2, "random_state": 0}
MODELS = {
    "explicit and Fourier": lambda: omkl.OnlineMKLClassifier(["linear", "gaussian:features=30"], **WORDS),
    "expansion, crf": lambda: omkl.OnlineMKLClassifier(["quadratic", "gaussian"], loss="crf", **WORDS),
    "rates by distance": lambda: omkl.OnlineMKLClassifier(["gaussian:features=30"], eta0="auto", method="rda", **WORDS),
    "regressor": lambda: omkl.OnlineMKLRegressor(["linear", "gaussian"], **WORDS),
}


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(150, 5))
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_learned_to_the_same_bits(name, rows):
    X, y = rows
    found = [MODELS[name]().set_params(n_jobs=n_jobs).fit(X, y, shards=3) for n_jobs in (None, 2, 3, 5)]
    for model in found[1:]:
        assert_same_state(model, found[0])


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_sequences_are_learned_to_the_same_bits(loss, rng):
    X = [[f"w{rng.integers(30)}" for _ in range(rng.integers(1, 9))] for _ in range(90)]
    y = [[word[-1] for word in x] for x in X]
    found = [omkl.SequenceLabeler(loss=loss, n_jobs=n_jobs, **WORDS).fit(X, y, shards=4) for n_jobs in (None, 4)]
    for mine, other in zip(*(model.decision_function(X) for model in found)):
        assert_array_equal(mine, other)


@pytest.mark.parametrize("templates", ["small", ["h.upos m.upos direction", "h.form m.form"]])
def test_trees_are_learned_to_the_same_bits(templates):
    treebank = synthetic_treebank(120, vocabulary=20, random_state=0)
    found = [
        omkl.DependencyParser(templates, epochs=2, memory=10, random_state=0, n_jobs=n_jobs).fit(treebank, shards=3)
        for n_jobs in (None, 3)
    ]
    assert_same_state(*found)
    assert_array_equal(*(model.parse(treebank).heads for model in found))


def test_predictions_do_not_depend_on_threads(rows, monkeypatch):
    X, y = np.tile(rows[0], (4, 1)), rows[1]
    monkeypatch.setattr(inputs, "AT_A_TIME", 70)
    dicts = [{"a": float(row[0]), "b": f"w{int(3 * row[1])}"} for row in X]
    for model in (*(make() for make in MODELS.values()), omkl.OnlineMKLClassifier(budget=20, **WORDS)):
        model.fit(*rows)
        function = getattr(model, "decision_function", model.predict)
        found = [function(X) for n_jobs in (None, 2, -1) if model.set_params(n_jobs=n_jobs)]
        for other in found[1:]:
            assert_array_equal(found[0], other)
        assert len(found[0]) == len(X)
    model = omkl.OnlineMKLClassifier(**WORDS).fit(dicts[:150], y)
    found = [model.set_params(n_jobs=n_jobs).decision_function(dicts) for n_jobs in (None, 3)]
    assert_array_equal(*found)
    monkeypatch.setattr(inputs, "AT_A_TIME", 10**6)
    assert_array_equal(model.decision_function(dicts), found[0])


def test_gram_matrices_do_not_depend_on_threads(rng):
    X = rng.normal(size=(700, 4))
    kernels = [as_kernel(name).fit_view(X) for name in ("linear", "quadratic", "gaussian", "laplacian")]
    found = [dense_grams(kernels, [X] * 4, np.float64, n_jobs) for n_jobs in (None, 2, 5)]
    for other in found[1:]:
        assert_array_equal(found[0], other)
    model = omkl.OnlineMKLClassifier(["gaussian"], **WORDS)
    scores = [model.set_params(n_jobs=n_jobs).fit(X, X[:, 0] > 0).decision_function(X) for n_jobs in (None, 3)]
    assert_array_equal(*scores)


@pytest.mark.parametrize("settings", [{}, {"approximate": True}], ids=["dense", "factors"])
def test_predictions_of_certified_models_do_not_depend_on_threads(rng, settings):
    X = rng.normal(size=(3000, 4))
    y = X[:, 0] + X[:, 1] ** 2
    kernels = ["linear", "gaussian:on=[0,2]", "gaussian"]
    regressor = omkl.MKLRegressor(kernels, **settings).fit(X[:200], y[:200])
    classifier = omkl.MKLClassifier(kernels, **settings).fit(X[:200], np.digitize(y[:200], [0.0, 1.0]))
    for model, function in ((regressor, "predict"), (classifier, "decision_function")):
        found = [getattr(model.set_params(n_jobs=n_jobs), function)(X) for n_jobs in (None, 2, 5)]
        for other in found[1:]:
            assert_array_equal(found[0], other)
    with pytest.raises(InputError, match="n_jobs must be a whole number"):
        omkl.MKLRegressor(kernels, n_jobs=0).fit(X[:20], y[:20])
