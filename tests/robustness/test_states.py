"""Refused calls do not change the model."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import omkl
from omkl._files import read_archive
from omkl.data import synthetic_treebank

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = (X[:, 0] > 0).astype(int)
ROWS = [{"a": "xyz"[i % 3], "b": float(x[1])} for i, x in enumerate(X)]
WORDS, TAGS = [[{"word": word, "n": 1.0} for word in "abc"[i % 2 :]] for i in range(12)], []
TAGS = [["D", "N", "V"][3 - len(words) :] for words in WORDS]
VECTORS = [RNG.normal(size=(len(words), 2)) for words in WORDS]
TREES = synthetic_treebank(12, vocabulary=8, random_state=0)

Classifier, Labeler = omkl.OnlineMKLClassifier, omkl.SequenceLabeler
NYSTROM = "gaussian:features=9,map=nystrom,normalize=diagonal"
KINDS = {
    "kernels": (Classifier(["linear", "gaussian"], epochs=2, random_state=0), X, Y),
    "projection": (Classifier(["gaussian", "quadratic"], budget=5, epochs=2, random_state=0), X, Y),
    "features": (Classifier(["gaussian:features=20", NYSTROM, "linear"], epochs=2, random_state=0), X, Y),
    "weighted": (Classifier(["linear", "gaussian"], weighting="out-of-sample", epochs=2, random_state=0), X, Y),
    "sparse": (Classifier(epochs=2, random_state=0), sparse.csr_matrix(X), Y),
    "dicts": (Classifier(epochs=2, random_state=0), ROWS, Y),
    "regressor": (omkl.OnlineMKLRegressor(["linear", "gaussian"], epochs=2, random_state=0), X, X[:, 0]),
    "huber": (omkl.OnlineMKLRegressor(loss="huber:delta=0.3", epochs=2, random_state=0), X, X[:, 0]),
    "epsilon": (omkl.OnlineMKLRegressor(loss="epsilon-insensitive:epsilon=0.1", epochs=2, random_state=0), X, X[:, 0]),
    "words": (Labeler(epochs=2, random_state=0), WORDS, TAGS),
    "trigrams": (Labeler(["linear", "gaussian"], order=2, epochs=2, random_state=0), VECTORS, TAGS),
    "parser": (omkl.DependencyParser("small", memory=1, epochs=1, random_state=0), TREES, None),
}


def with_nan(X):
    changed = np.array(X.toarray() if sparse.issparse(X) else X)
    changed[-1, -1] = np.nan
    return sparse.csr_matrix(changed) if sparse.issparse(X) else changed


def refusals(X, y):
    """Yield calls with bad input, which is checked before learning."""
    if y is None:
        return
    yield lambda model: model.partial_fit(X, y[:-1])
    yield lambda model: model.partial_fit(X, y, sample_weight=[-1.0] * len(y))
    if not isinstance(X, list):
        yield lambda model: model.partial_fit(with_nan(X), y)
        yield lambda model: model.fit(with_nan(X), y)
        if y.dtype.kind == "i":
            yield lambda model: model.partial_fit(X, y, classes=[5, 6])
            yield lambda model: model.partial_fit(X, y + 5)


@pytest.fixture(scope="module", params=KINDS)
def case(request, tmp_path_factory):
    model, X, y = KINDS[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model.fit(X) if y is None else model.fit(X, y)
    return model, X, y, tmp_path_factory.mktemp("states") / "model.npz"


def state(model, path):
    """All arrays of the model, and the learned attributes of the estimator."""
    model.save(path)
    shown = {name: repr(value) for name, value in vars(model).items() if name.endswith("_") and name != "model_"}
    return {name: array.tobytes() for name, array in read_archive(path)[1].items()}, shown


def listed(predicted):
    return [np.asarray(own).tolist() for own in predicted]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_refused_calls_change_nothing(case):
    model, X, y, path = case
    before = state(model, path)
    for call in refusals(X, y):
        with pytest.raises(ValueError, match=r"."):
            call(model)
        assert state(model, path) == before
    # and training continues unchanged, in a model that was saved and loaded as well
    loaded = omkl.load(path)
    for _ in range(2):
        assert listed(loaded.predict(X)) == listed(model.predict(X))
        for own in (model, loaded):
            own.partial_fit(X) if y is None else own.partial_fit(X, y)
    assert 0 < model.memory_usage()["prediction"] <= model.memory_usage()["training"]
    model.save(path)
    saved = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == saved


def test_loaded_models_go_on_after_groups_were_left_out(reloaded):
    """Their weight is zero, though their last step was not."""
    model = omkl.DependencyParser("small", memory=1, epochs=1, random_state=0).fit(TREES)
    assert model.left_out_
    assert reloaded(model).partial_fit(TREES).template_weights_ == model.partial_fit(TREES).template_weights_
