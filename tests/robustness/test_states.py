"""A call that is refused, at the door or on its way, leaves an estimator as it was: a hash of the state says so."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import omkl
from omkl.data import synthetic_treebank
from omkl.exceptions import DivergenceError, InputError
from omkl.online import PolynomialAverage

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = (X[:, 0] > 0).astype(int)
ROWS = [{"a": "xyz"[i % 3], "b": float(x[1])} for i, x in enumerate(X)]
WORDS, TAGS = [[{"word": word, "n": 1.0} for word in "abc"[i % 2 :]] for i in range(12)], []
TAGS = [["D", "N", "V"][3 - len(words) :] for words in WORDS]
VECTORS = [RNG.normal(size=(len(words), 2)) for words in WORDS]
TREES = synthetic_treebank(12, vocabulary=8, random_state=0)

Classifier, Labeler = omkl.OnlineMKLClassifier, omkl.SequenceLabeler
KINDS = {
    "kernels": (Classifier(["linear", "gaussian"], epochs=2, random_state=0), X, Y),
    "projection": (Classifier(["gaussian", "quadratic"], budget=5, epochs=2, random_state=0), X, Y),
    "removal": (Classifier("gaussian", budget=5, budget_maintenance="removal", epochs=2, random_state=0), X, Y),
    "features": (Classifier(["gaussian:features=20", "linear"], epochs=2, random_state=0), X, Y),
    "sparse": (Classifier(epochs=2, random_state=0), sparse.csr_matrix(X), Y),
    "dicts": (Classifier(epochs=2, random_state=0), ROWS, Y),
    "hedge": (Classifier(["linear", "gaussian"], method="hedge", epochs=2, random_state=0), X, Y),
    "regressor": (omkl.OnlineMKLRegressor(["linear", "gaussian"], epochs=2, random_state=0), X, X[:, 0]),
    "words": (Labeler(epochs=2, random_state=0), WORDS, TAGS),
    "trigrams": (Labeler(["linear", "gaussian"], order=2, epochs=2, random_state=0), VECTORS, TAGS),
    "parser": (omkl.DependencyParser("small", memory=1, epochs=1, random_state=0), TREES, None),
}  # fmt: skip


class Interrupting:
    """Raises an error in a round that is not the first."""

    def __init__(self, error):
        self.error, self.rounds = error, 0

    def on_round(self, trainer, step):
        self.rounds += 1
        if self.rounds == 4:
            raise self.error


class OwnError(Exception):
    """Of a user's callback."""


def blocks_of_which_the_third_is_bad(X, y):
    third = len(y) // 3
    yield from ((X[i], y[i]) for i in range(2 * third))
    raise OwnError


def with_nan(X):
    changed = np.array(X.toarray() if sparse.issparse(X) else X)
    changed[-1, -1] = np.nan
    return sparse.csr_matrix(changed) if sparse.issparse(X) else changed


def refusals(X, y):
    """What is called, and the error that leaves it."""
    for error in (OwnError(), KeyboardInterrupt(), MemoryError()):
        at = Interrupting(error)
        yield lambda model, at=at: model.set_params(callbacks=[at]).partial_fit(X, y), type(error)
    if y is None:
        return
    yield lambda model: model.partial_fit(blocks_of_which_the_third_is_bad(X, y)), OwnError
    yield lambda model: model.partial_fit(X, y[:-1]), ValueError
    yield lambda model: model.partial_fit(X, y, sample_weight=[-1.0] * len(y)), ValueError
    yield lambda model: model.set_params(eta0=-1.0).partial_fit(X, y), InputError
    if not isinstance(X, list):
        yield lambda model: model.partial_fit(with_nan(X), y), ValueError
        yield lambda model: model.fit(with_nan(X), y), ValueError
    if hasattr(Y, "dtype") and not isinstance(y, list):
        if y.dtype.kind == "i":
            yield lambda model: model.partial_fit(X, y, classes=[5, 6]), InputError
            yield lambda model: model.partial_fit(X, y + 5), InputError
        else:
            yield lambda model: model.partial_fit(X, y * 1e300), InputError
    yield lambda model: model.set_params(callbacks=[Interrupting(OwnError())]).fit(X, y), OwnError


@pytest.fixture(scope="module", params=KINDS)
def case(request, tmp_path_factory):
    model, X, y = KINDS[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model.fit(X) if y is None else model.fit(X, y)
    return model, X, y, tmp_path_factory.mktemp("states") / "model.npz"


def state(model, path):
    model.save(path)
    shown = {name: repr(value) for name, value in vars(model).items() if name.endswith("_") and name != "model_"}
    return path.read_bytes(), shown


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_what_is_refused_changes_nothing(case):
    model, X, y, path = case
    before, given = state(model, path), model.get_params()
    for call, error in refusals(X, y):
        with pytest.raises(error):
            call(model)
        model.set_params(**given)
        assert state(model, path) == before
    # and it goes on as if nothing had been
    loaded = omkl.load(path)
    for own in (model, loaded):
        own.partial_fit(X) if y is None else own.partial_fit(X, y)
    model.save(path)
    saved = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == saved


def test_a_first_call_that_is_refused_leaves_an_estimator_that_is_not_fitted():
    model = Classifier("linear", callbacks=[Interrupting(KeyboardInterrupt())])
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, Y, classes=[0, 1])
    assert vars(model) == before


def test_a_large_model_says_that_it_was_not_copied(monkeypatch):
    monkeypatch.setattr("omkl.estimators.undoing.COPIED", 0)
    monkeypatch.setattr("omkl.estimators.undoing.COPIED_AN_EXAMPLE", 0)
    model = Classifier("linear").fit(X, Y)
    with pytest.raises(OwnError) as error:
        model.set_params(callbacks=[Interrupting(OwnError())]).partial_fit(X, Y)
    assert "has learned a part" in error.value.__notes__[0]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_parameters_that_leave_the_finite_numbers_are_an_error_in_the_same_call():
    for model in (omkl.OnlineMKLRegressor("linear", eta0=1e99), omkl.OnlineMKLRegressor("linear", eta0=1e60)):
        with pytest.raises(DivergenceError):
            model.fit(X, 1e90 * X[:, 0])
        assert not hasattr(model, "model_")
    for power in (1e308, np.nan, -1.0, 31):
        with pytest.raises(InputError, match="power must be"):
            PolynomialAverage(power)
    assert np.isfinite(PolynomialAverage(30.0).weight(10**9))


def test_a_loaded_model_goes_on_as_it_was_though_groups_were_left_out(tmp_path):
    """Their weight is zero, and that of their last round is not."""
    model = omkl.DependencyParser("small", memory=1, epochs=1, random_state=0).fit(TREES)
    assert model.left_out_
    model.save(tmp_path / "model.npz")
    loaded = omkl.load(tmp_path / "model.npz")
    for own in (model, loaded):
        own.partial_fit(TREES)
    assert model.template_weights_ == loaded.template_weights_


BATCH = {
    "classifier": (omkl.MKLClassifier(["linear", "gaussian"]), Y),
    "one class": (omkl.OneClassMKL(["linear", "gaussian"]), None),
    "regressor": (omkl.MKLRegressor(["linear", "gaussian"]), X[:, 0]),
    "folds": (omkl.MKLRegressorCV(["linear"], Cs=2, cv=2), X[:, 0]),
    "design": (omkl.GroupLasso(0.05), X[:, 0]),
    "design by folds": (omkl.GroupLassoCV(alphas=2, cv=2), X[:, 0]),
    "sparse classifier": (omkl.SparseLogisticRegression(0.02), Y),
    "sparse classifier by folds": (omkl.SparseLogisticRegressionCV(alphas=2, cv=2), Y),
}


@pytest.mark.parametrize("name", BATCH)
def test_a_batch_estimator_is_as_it_was_after_a_fit_that_is_refused_or_interrupted(name, monkeypatch):
    model, y = BATCH[name]
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        before = dict(vars(model.fit(X, y)))
        predicted = model.predict(X)

    def interrupted(*_, **__):
        model.n_iter_ = None
        raise KeyboardInterrupt

    def is_same(now, then):
        return now.keys() == then.keys() and all(now[name] is then[name] for name in now)

    few, targets = X[:, :2], np.zeros(30) if y is None else y
    refused = [
        lambda: model.fit(few, y, sample_weight=-np.ones(30)),
        lambda: model.fit(1e200 * few, y),
        lambda: model.fit(few, targets[:5], sample_weight=np.ones(29)),
        lambda: model.fit(few, np.full(30, np.nan), sample_weight=np.full(30, np.nan)),
    ]
    for call in refused:
        with pytest.raises(ValueError, match=r"NaN|nan|weight|1e|numbers|square"):
            call()
        assert is_same(vars(model), before)
    monkeypatch.setattr(type(model), "_learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(few, y)
    assert is_same(vars(model), before)
    assert np.array_equal(model.predict(X), predicted)


def test_parameters_that_are_set_later_do_not_change_what_was_learned():
    classes = np.digitize(X[:, 0], [-0.5, 0.5])
    for learned, later in (("ovr", "ovo"), ("ovo", "shared")):
        model = omkl.MKLClassifier(["linear"], multiclass=learned).fit(X, classes)
        scores = model.decision_function(X)
        assert np.array_equal(model.set_params(multiclass=later).decision_function(X), scores)
        told = model.explain(X[:1])
        assert np.isclose(sum(told.groups.values()), told.margin)
        assert hasattr(model, "predict_proba") == (learned == "ovr")  # votes of pairs are no log-odds
