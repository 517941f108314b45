"""Precomputed kernels in the online estimators: the same models as with the kernel given as a function."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import KFold, cross_val_score

import omkl
from omkl import OnlineMKLClassifier, OnlineMKLRegressor, SequenceLabeler
from omkl.data import Stream
from omkl.exceptions import InputError
from omkl.kernels import Custom, Precomputed

N = 60
LEFT_OUT = np.random.default_rng(1).permutation(N)[:17]


def rbf(X, Y):
    return rbf_kernel(X, Y, gamma=0.4)


def city_block(X, Y):
    return laplacian_kernel(X, Y, gamma=0.3)


@pytest.fixture(scope="module")
def data():
    """Inputs to train on and to predict, three classes, and numbers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + 20, 3))
    return X[:N], X[N:], rng.integers(0, 3, N) + 3 * (X[:N, 0] > 0), np.sin(X[:N, 0])


def targets_of(estimator, data):
    return data[3] if estimator is OnlineMKLRegressor else data[2] % 3 if estimator is OnlineMKLClassifier else data[2]


def scores_of(model, X):
    return model.predict(X) if isinstance(model, OnlineMKLRegressor) else model.decision_function(X)


def weights_with_zeros():
    weights = np.random.default_rng(2).integers(1, 3, N).astype(float)
    weights[LEFT_OUT] = 0.0
    return weights


FITS = {
    "plain": ({}, {}),
    "normalized": ({"normalize": "average"}, {}),
    "rows on demand": ({"cache_size": 0.002}, {}),
    "nothing cached": ({"cache_size": 0}, {}),
    "weights": ({}, {"sample_weight": weights_with_zeros()}),
    "weights, normalized": ({"normalize": "trace"}, {"sample_weight": weights_with_zeros()}),
    "shards": ({}, {"shards": 2}),
    "weights in shards": ({}, {"shards": 2, "sample_weight": weights_with_zeros()}),
    "early stopping": ({"early_stopping": True}, {"sample_weight": weights_with_zeros()}),
    "early stopping in shards": ({"early_stopping": True}, {"shards": 2, "sample_weight": weights_with_zeros()}),
}


@pytest.mark.parametrize("estimator", [OnlineMKLClassifier, OnlineMKLRegressor])
@pytest.mark.parametrize(("settings", "fit"), FITS.values(), ids=FITS)
def test_matrices_are_as_good_as_functions(data, estimator, settings, fit, tmp_path):
    X, new, *_ = data
    y, settings = targets_of(estimator, data), dict(settings)
    normalize = settings.pop("normalize", None)
    # in the given order: the content of rows, which shuffling starts from, is another
    settings |= {"shuffle": False, "epochs": 5, "random_state": 0}
    function = estimator([Custom(rbf, normalize=normalize)], **settings).fit(X, y, **fit)
    given = estimator([Precomputed(normalize=normalize)], **settings).fit(rbf(X, X), y, **fit)
    expected = scores_of(function, new)
    assert np.ptp(expected) > 0.1
    assert_allclose(scores_of(given, rbf(new, X)), expected, atol=1e-9)
    assert_allclose(scores_of(given, rbf(X, X)), scores_of(function, X), atol=1e-9)
    given.save(tmp_path / "model.npz")
    assert_allclose(scores_of(omkl.load(tmp_path / "model.npz"), rbf(new, X)), expected, atol=1e-9)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.0, 1: 1.0, 2: 2.5}])
def test_class_weights_leave_columns_where_they_are(data, class_weight):
    X, new, y, _ = data
    settings = {"class_weight": class_weight, "shuffle": False, "epochs": 5}
    function = OnlineMKLClassifier([Custom(rbf)], **settings).fit(X, y % 3)
    given = OnlineMKLClassifier(["precomputed"], **settings).fit(rbf(X, X), y % 3)
    assert_allclose(given.decision_function(rbf(new, X)), function.decision_function(new), atol=1e-9)


def test_shuffled_rows_meet_ridge_regression(data):
    X, new, _, y = data
    weights, kept = weights_with_zeros(), np.setdiff1d(np.arange(N), LEFT_OUT)
    settings = {"regularizer": "l2", "fit_intercept": False, "epochs": 100, "random_state": 0}
    model = OnlineMKLRegressor(["precomputed"], **settings).fit(rbf(X, X), y, sample_weight=weights)
    # half the squared loss, and half the squared norm over C
    exact = KernelRidge(alpha=1.0, kernel="precomputed")
    exact.fit(rbf(X[kept], X[kept]), y[kept], sample_weight=weights[kept])
    assert_allclose(model.predict(rbf(new, X)), exact.predict(rbf(new, X[kept])), atol=0.02)


@pytest.mark.parametrize("fit", [{}, {"shards": 2}, {"sample_weight": weights_with_zeros()}])
def test_several_matrices_stand_beside_columns(data, fit):
    X, new, y, _ = data
    first, second = slice(0, N), slice(N, 2 * N)
    given = [Precomputed(on=first), Precomputed(on=second), Custom(rbf, on=slice(2 * N, 2 * N + 3))]
    functions = {"first": Custom(city_block), "second": Custom(lambda A, B: A @ B.T), "third": Custom(rbf)}
    given = dict(zip(functions, given))

    def beside(X, Y):
        return np.hstack([city_block(X, Y), X @ Y.T, X])

    settings = {"shuffle": False, "epochs": 5}
    function = OnlineMKLClassifier(functions, **settings).fit(X, y, **fit)
    model = OnlineMKLClassifier(given, **settings).fit(beside(X, X), y, **fit)
    assert_allclose(model.decision_function(beside(new, X)), function.decision_function(new), atol=1e-9)
    assert_allclose(list(model.kernel_weights_.values()), list(function.kernel_weights_.values()), atol=1e-9)


def sequences_of(X, *, with_dicts=False, among=None):
    """Sequences of five: vectors, or their kernel values against other inputs, beside which dicts hold the vectors."""
    values = X if among is None else rbf(X, among)
    if not with_dicts:
        return np.split(values, len(X) // 5)
    tokens = [{"k": value, "x": x, "sign": str(x[0] > 0)} for value, x in zip(values, X)]
    return [tokens[low : low + 5] for low in range(0, len(X), 5)]


LABELED = {
    "plain": ({}, {}),
    "weights": ({}, {"sample_weight": np.array([1.0, 0.0, 2.0, 0.0, 1.5, 1, 0, 1, 1, 1, 0, 1])}),
    "shards": ({}, {"shards": 2}),
    "early stopping, weights": (
        {"early_stopping": True},
        {"sample_weight": np.array([0.0, 1, 2.0, 0.0, 1.5, 1, 0, 1, 1, 1, 0, 1])},
    ),
    "nothing cached": ({"cache_size": 0, "class_weight": "balanced"}, {}),
}


@pytest.mark.parametrize("with_dicts", [False, True])
@pytest.mark.parametrize(("settings", "fit"), LABELED.values(), ids=LABELED)
def test_tokens_of_sequences_know_their_columns(data, settings, fit, with_dicts, tmp_path):
    X, new, y, _ = data
    labels = np.split(y % 3, N // 5)
    settings = settings | {"epochs": 5, "random_state": 0}
    on, beside = ("k", {"beside": "linear:on=x"}) if with_dicts else (None, {})
    function = SequenceLabeler({"mine": Custom(rbf, on=on), **beside}, **settings)
    given = SequenceLabeler({"mine": Precomputed(on=on), **beside}, **settings)
    function.fit(sequences_of(X, with_dicts=with_dicts), labels, **fit)
    given.fit(sequences_of(X, with_dicts=with_dicts, among=X), labels, **fit)
    expected = np.concatenate(function.decision_function(sequences_of(new, with_dicts=with_dicts)))
    rows = sequences_of(new, with_dicts=with_dicts, among=X)
    assert np.ptp(expected) > 0.1
    assert_allclose(np.concatenate(given.decision_function(rows)), expected, atol=1e-9)
    given.save(tmp_path / "model.npz")
    assert_allclose(np.concatenate(omkl.load(tmp_path / "model.npz").decision_function(rows)), expected, atol=1e-9)


def test_rows_of_dicts_know_their_columns(data):
    X, new, y, _ = data
    fit = {"sample_weight": weights_with_zeros()}

    def rows_of(inputs, among):
        return [token for sequence in sequences_of(inputs, with_dicts=True, among=among) for token in sequence]

    settings = {"epochs": 5, "random_state": 0, "early_stopping": True}
    function = OnlineMKLClassifier({"k": Custom(rbf, on="k"), "x": "linear:on=x"}, **settings).fit(
        rows_of(X, None), y, **fit
    )
    model = OnlineMKLClassifier({"k": "precomputed:on=k", "x": "linear:on=x"}, **settings).fit(rows_of(X, X), y, **fit)
    assert_allclose(model.decision_function(rows_of(new, X)), function.decision_function(rows_of(new, None)), atol=1e-9)


def test_workers_know_the_columns_too(data):
    distributed = pytest.importorskip("distributed")
    X, new, y, _ = data
    weights = weights_with_zeros()
    here = OnlineMKLClassifier(["precomputed"], epochs=3, random_state=0).fit(rbf(X, X), y, weights, shards=2)
    with distributed.Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        there = OnlineMKLClassifier(["precomputed"], epochs=3, random_state=0)
        there.fit(rbf(X, X), y, weights, client=client, shards=2)
    assert_allclose(there.decision_function(rbf(new, X)), here.decision_function(rbf(new, X)), atol=0)


def test_a_resumed_run_is_an_uninterrupted_one(data, tmp_path):
    X, new, y, _ = data
    gram, weights = rbf(X, X), weights_with_zeros()
    settings = {"epochs": 4, "random_state": 0}
    whole = OnlineMKLClassifier(["precomputed"], **settings).fit(gram, y, weights)

    def stop(trainer, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    running = {"checkpoint": tmp_path, "checkpoint_every": "20 rounds"}
    with pytest.raises(KeyboardInterrupt):
        OnlineMKLClassifier(["precomputed"], callbacks=[stop], **settings).fit(gram, y, weights, **running)
    model = OnlineMKLClassifier(["precomputed"], **settings).fit(gram, y, weights, resume=True, **running)
    assert_allclose(model.decision_function(rbf(new, X)), whole.decision_function(rbf(new, X)), atol=0)


def test_cross_validation_cuts_columns_with_rows(data):
    X, _, y, numbers = data
    folds = KFold(3, shuffle=True, random_state=0)
    settings = {"shuffle": False, "epochs": 5}
    for estimator, targets in ((OnlineMKLClassifier, y), (OnlineMKLRegressor, numbers)):
        given = cross_val_score(estimator(["precomputed"], **settings), rbf(X, X), targets, cv=folds)
        function = cross_val_score(estimator([Custom(rbf)], **settings), X, targets, cv=folds)
        assert_allclose(given, function, atol=1e-9)


def test_landmarks_among_training_inputs_serve_later_ones(data):
    X, new, y, _ = data
    model = OnlineMKLClassifier([f"precomputed:features={N}"], epochs=5, random_state=0)
    model.fit(rbf(X, X), y, weights_with_zeros())
    before = model.decision_function(rbf(new, X))
    model.partial_fit(rbf(new, X), y[: len(new)])
    assert np.abs(model.decision_function(rbf(new, X)) - before).max() > 0
    kept = np.setdiff1d(np.arange(N), LEFT_OUT)
    kernel = model.model_.codec.encoder.kernels[f"precomputed:features={N}"]
    assert set(kernel.landmarks_[:, 0]) == set(kept)


def test_streams_have_not_all_inputs_at_hand(data):
    X, new, y, _ = data
    gram = rbf(X, X)
    with pytest.raises(InputError, match="use fit on arrays"):
        OnlineMKLClassifier(["precomputed"]).partial_fit(gram, y)
    with pytest.raises(InputError, match="use fit on arrays"):
        OnlineMKLClassifier(["precomputed"], epochs=1).fit(Stream.from_arrays(gram, y))
    with pytest.raises(InputError, match="use fit on arrays"):
        SequenceLabeler(["precomputed"]).partial_fit(sequences_of(X, among=X), np.split(y, N // 5))
    model = OnlineMKLClassifier(["precomputed"], epochs=2, random_state=0).fit(gram, y)
    before = model.decision_function(rbf(new, X))
    with pytest.raises(InputError, match="cannot be trained further"):
        model.partial_fit(gram, y)
    assert_allclose(model.decision_function(rbf(new, X)), before, atol=0)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda gram: gram[:, :-1], "square matrix of all training inputs, got .60, 59."),
        (lambda gram: np.hstack([gram, gram]), "square matrix of all training inputs, got .60, 120."),
        (lambda gram: np.triu(gram), "must be symmetric"),
        (lambda gram: -gram, "negative diagonal"),
    ],
)
def test_what_is_no_gram_matrix_is_refused(data, spoil, message, shuffle):
    X, _, y, _ = data
    with pytest.raises(InputError, match=message):
        OnlineMKLClassifier(["precomputed"], shuffle=shuffle).fit(spoil(rbf(X, X)), y, weights_with_zeros())


def test_rows_to_predict_hold_all_training_inputs(data):
    X, new, y, _ = data
    model = OnlineMKLClassifier(["precomputed"], epochs=2).fit(rbf(X, X), y, weights_with_zeros())
    with pytest.raises(ValueError, match="60"):
        model.predict(rbf(new, X[:50]))
