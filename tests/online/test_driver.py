"""The compiled driver learns the model that the trainer learns, bit by bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from omkl import OnlineMKLClassifier, OnlineMKLRegressor, SequenceLabeler, groups, losses
from omkl.data import Stream
from omkl.exceptions import DivergenceError
from omkl.online import MeanPolyak, ProgressiveValidation, driver
from omkl.regularizers import L1, Ridge, SquaredL21
from omkl.structures import Chain

N = 400
LABEL_LOSSES = ["hinge", "hinge:cost_weight=0.3", "crf", "softmax-margin", "perceptron"]
NUMBER_LOSSES = ["squared", "huber:delta=0.5", "epsilon-insensitive:epsilon=0.2", "quantile:quantile=0.3"]
KERNELS = [
    ["linear"],
    ["linear", "gaussian:features=20"],
    ["gaussian:features=8", "laplacian:features=6", "linear"],
    ["gaussian", "polynomial:degree=2", "linear"],
]
REGULARIZERS = ["mkl", "block1", "elastic-net:mu=0.3", "uniform", "block-q:q=1.5", "block-q:q=3", "weighted", None]
AVERAGES = ["quadratic", "uniform", "recent", None, "decayed:half_life=1"]
SCHEDULES = [None, "sqrt", "inverse-time", "linear", "polyak"]


def rows(rng, kind):
    if kind == "dicts":
        words = rng.choice(["a", "b", "c"], size=(N, 2))
        return [{"word": w, "other": v, "size": float(s)} for (w, v), s in zip(words.tolist(), rng.normal(size=N))]
    X = rng.normal(size=(N, 6)) * (rng.random((N, 6)) < 0.7)
    return sparse.csr_array(X) if kind == "sparse" else X


def shared_options(rng):
    """Draw settings that all online estimators have."""
    one_of = lambda values: values[rng.integers(len(values))]  # noqa: E731
    schedule, regularizer = one_of(SCHEDULES), one_of(REGULARIZERS)
    if schedule == "polyak":
        schedule = MeanPolyak()
    return {
        "regularizer": regularizer,
        "method": one_of(["fobos", "fobos", "rda"]),
        "weighting": one_of(["norms", "out-of-sample", "auto"]) if regularizer else "norms",
        "average": one_of(AVERAGES),
        "eta0": "auto" if schedule is None or isinstance(schedule, MeanPolyak) else 0.3,
        "schedule": schedule,
        "C": float(10.0 ** rng.integers(-1, 4)),
        "epochs": int(rng.integers(1, 4)),
        "radius": one_of([None, 0.5]),
        "random_state": 0,
    }


def weights_of(rng, n):
    return rng.choice([0.5, 1.0, 2.5, 0.0], size=n) if rng.integers(2) else None


def row_configuration(rng):
    """Draw an estimator of rows, and its data."""
    one_of = lambda values: values[rng.integers(len(values))]  # noqa: E731
    kind, task = one_of(["dense", "dense", "sparse", "dicts"]), one_of(["binary", "multiclass", "costs", "number"])
    X, options = rows(rng, kind), {**shared_options(rng), "fit_intercept": bool(rng.integers(2))}
    kernels = one_of(KERNELS) if kind == "dense" else ["linear"] if kind == "sparse" else None
    if options["regularizer"] == "weighted":
        options["regularizer"] = None if kernels is None else "mkl"
    if kernels is not None:
        options["kernels"] = kernels
    weights = weights_of(rng, N)
    if task == "number":
        return OnlineMKLRegressor(loss=one_of(NUMBER_LOSSES), **options), X, rng.normal(size=N), weights
    y = rng.integers(2 if task == "binary" else 4, size=N)
    costs = np.where(np.eye(4) > 0, 0.0, 1.0 + rng.random((4, 4))) if task == "costs" else None
    loss = one_of(LABEL_LOSSES[:2] if task == "costs" else LABEL_LOSSES)
    if kind == "dicts" and loss == "perceptron":
        loss = "hinge"  # decisions at potentials of 0, which Fourier features reach but for rounding, are not compared
    return OnlineMKLClassifier(loss=loss, cost=costs, **options), X, y, weights


def sequence_configuration(rng):
    """Draw a labeler, and sequences of words or vectors, some labels of which may be unknown."""
    one_of = lambda values: values[rng.integers(len(values))]  # noqa: E731
    lengths, options = rng.integers(1, 6, size=N // 4), shared_options(rng)
    codes = [rng.integers(4, size=n) for n in lengths]
    if one_of(["words", "vectors"]) == "words":
        X = [[{"a": f"w{c + rng.integers(3)}", "b": f"v{rng.integers(5)}"} for c in own.tolist()] for own in codes]
    else:
        X = [rng.normal(size=(len(own), 6)) + own[:, None] for own in codes]
        options["kernels"] = one_of(KERNELS)
    if options["regularizer"] == "weighted":
        options["regularizer"] = "mkl"
    if options.get("kernels") == KERNELS[-1]:
        options["dtype"] = one_of(["float32", "float64"])
    known = one_of([0.6, 1.0, 1.0])
    y = [[f"L{c}" if rng.random() < known else None for c in own.tolist()] for own in codes]
    y[0] = [f"L{c}" for c in range(4)]  # streams declare all labels in their first block
    X[0] = X[0][:1] * 4 if isinstance(X[0], list) else X[0][[0] * 4]
    labeler = SequenceLabeler(loss=one_of(LABEL_LOSSES), transitions=one_of(["free", "regularized", None]), **options)
    return labeler, X, y, weights_of(rng, len(X))


def trained(seed):
    """Train a configuration; return its trainer, its records and its predictions."""
    rng = np.random.default_rng(seed)
    model, X, y, weights = row_configuration(rng) if seed % 2 else sequence_configuration(rng)
    call, n = ["fit", "fit", "stream", "partial_fit"][rng.integers(4)], len(y)
    if weights is not None:
        weights[[0, n // 3, -1]] = 1.0
    classes = sorted({label for own in y for label in own if label}) if seed % 2 == 0 else np.unique(y)
    declared = {} if isinstance(model, OnlineMKLRegressor) else {"classes": classes}
    cuts = [slice(0, n // 3), slice(n // 3, n // 3 + 1), slice(n // 3 + 1, n)]
    if call == "fit":
        model.fit(X, y, sample_weight=weights)
    elif call == "stream":
        model.fit(Stream(lambda epoch: ((X[cut], y[cut]) for cut in cuts)))
    else:
        for cut in cuts:
            own = None if weights is None else weights[cut]
            model.partial_fit(X[cut], y[cut], sample_weight=own, **declared)
    return results(model, X)


def results(model, X):
    if isinstance(model, SequenceLabeler):
        predicted = np.concatenate(model.decision_function(X))
    else:
        predicted = model.decision_function(X) if isinstance(model, OnlineMKLClassifier) else model.predict(X)
    return model.model_.trainer, model.history_, predicted


def trained_on_a_budget(seed):
    """Train on a budget: a labeler in epochs, or a classifier in blocks, which tests for drift."""
    rng = np.random.default_rng(seed)
    options = {**shared_options(rng), "kernels": ["gaussian", "polynomial:explicit=False", "linear"]}
    options |= {"budget": int(rng.integers(1, 60)), "loss": LABEL_LOSSES[rng.integers(len(LABEL_LOSSES))]}
    if options["regularizer"] == "weighted":
        options["regularizer"] = "mkl"
    X, y = rng.normal(size=(N, 6)), rng.integers(3, size=N)
    X[N // 2 :: 9] = X[0]  # vectors that the support has already
    if seed % 2:
        model = OnlineMKLClassifier(**options)
        for cut in [slice(0, 150), slice(150, 151), slice(151, N)]:
            model.partial_fit(X[cut], y[cut], classes=[0, 1, 2])
        return results(model, X)
    rows = np.split(X, np.arange(3, N, 5))
    return results(SequenceLabeler(**options).fit(rows, np.split(y, np.arange(3, N, 5))), rows)


@pytest.mark.parametrize(
    ("train", "seed"), [*((trained, k) for k in range(240)), *((trained_on_a_budget, k) for k in range(16))]
)
def test_the_model_is_that_of_the_trainer(train, seed, monkeypatch):
    trainer, history, predicted = train(seed)
    part = driver.uncompiled_part(trainer)
    assert part is None or isinstance(part, groups.KernelExpansion)  # cached kernels become one at the end
    monkeypatch.setattr(driver, "uncompiled_part", lambda trainer: trainer)
    defined, expected_history, expected = train(seed)
    assert_same_state(trainer, defined)
    assert_array_equal(predicted, expected)
    for record, wanted in zip(history, expected_history, strict=True):
        assert {**record, "seconds": 0} == {**wanted, "seconds": 0}


def assert_same_state(trainer, expected):
    """Compare all that two trainers have learned, bit by bit."""
    state, expected_state = trainer.state(), expected.state()
    assert state.keys() == expected_state.keys()
    for name, array in expected_state.items():
        assert_array_equal(state[name], array, err_msg=name)


@pytest.mark.parametrize("regularizer", ["l1", "sparse-group", 0.2 * L1() + 0.5 * Ridge()], ids=str)
@pytest.mark.parametrize("average", ["quadratic", None])
def test_penalties_on_coordinates_are_those_of_the_trainer(regularizer, average, monkeypatch):
    rng = np.random.default_rng(0)
    codes = [rng.integers(3, size=rng.integers(1, 5)).tolist() for _ in range(150)]
    X = [[{"a": f"w{c + rng.integers(3)}", "b": f"v{rng.integers(9)}"} for c in own] for own in codes]
    options = {"loss": "crf", "regularizer": regularizer, "average": average, "epochs": 3, "C": 0.3, "random_state": 0}
    found = []
    part_of = driver.uncompiled_part
    for compiled in (True, False):
        monkeypatch.setattr(driver, "uncompiled_part", lambda own, on=compiled: part_of(own) if on else own)
        found.append(SequenceLabeler(**options).fit(X, codes))
    assert part_of(found[0].model_.trainer) is None
    tables = [model.predictor_.banks[0].table for model in found]
    assert_allclose(*tables, atol=1e-10)
    assert average or 0.0 < (tables[0] == 0.0).mean() < 1.0


@pytest.mark.parametrize("every", [7, 1000])
def test_callbacks_that_count_rounds_see_the_same(every, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = np.where(X[:, 0] > 0, "a", "b")
    found = []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(driver, "uncompiled_part", lambda trainer: trainer)
        meter = ProgressiveValidation(every, lambda trainer, record: record["round"] >= 300)
        model = OnlineMKLClassifier(["linear", "gaussian:features=8"], callbacks=[meter], random_state=0)
        found.append((meter.records, model.partial_fit(X, y).model_.trainer.round))
    (records, last), (expected, expected_last) = found
    assert last == expected_last == (301 if every == 7 else N)
    for record, wanted in zip(records, expected, strict=True):
        assert (record["round"], record["error"]) == (wanted["round"], wanted["error"])


def test_divergence_names_the_round(monkeypatch):
    rng = np.random.default_rng(0)
    X, y, messages = [{"size": 1e99 * v} for v in rng.normal(size=N).tolist()], rng.normal(size=N), []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(driver, "uncompiled_part", lambda trainer: trainer)
        model = OnlineMKLRegressor(eta0=1e50, schedule="constant", regularizer=None)
        with pytest.raises(DivergenceError) as caught, np.errstate(all="ignore"):
            model.partial_fit(X, y)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "round" in messages[0]


def test_parts_of_the_user_are_learned_by_the_trainer():
    """A compiled pass is left alone where it does not know the part, even if the part is derived from a known one."""

    class Halved(SquaredL21):
        def prox(self, norms, step):
            return super().prox(norms, 0.5 * step)

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    own, known = (OnlineMKLClassifier(["linear"], regularizer=r, weighting="norms") for r in (Halved(), SquaredL21()))
    assert driver.uncompiled_part(own.fit(X, y).model_.trainer) is not None
    assert driver.uncompiled_part(known.fit(X, y).model_.trainer) is None


@pytest.mark.parametrize(
    ("base", "method"),
    [(losses.Squared, "gradient"), (SquaredL21, "prox"), (Chain, "decode"), (groups.ExplicitBank, "step")],
)
def test_a_class_that_overrides_a_method_declares_its_own_compiled_form(base, method):
    assert base.compiled is not None
    assert type("Renamed", (base,), {"__module__": __name__}).compiled is base.compiled
    assert type("Changed", (base,), {method: getattr(base, method)}).compiled is None
    assert type("Declared", (base,), {method: getattr(base, method), "compiled": 1}).compiled == 1


@pytest.mark.parametrize(("verbose", "told"), [(True, 1), (False, 0)])
def test_a_part_without_a_compiled_form_is_named_where_progress_is_shown(verbose, told, capfd):
    rng = np.random.default_rng(0)
    settings = {"regularizer": "lp-norm", "weighting": "norms", "epochs": 2, "verbose": verbose}
    OnlineMKLRegressor(["linear"], **settings).fit(rng.normal(size=(50, 2)), rng.normal(size=50))
    assert capfd.readouterr().err.count("SquaredLq() brings no compiled function") == told


class EveryRound:
    """Callback without ``room``: it is called after every round."""

    def __init__(self):
        self.sizes = []

    def on_round(self, trainer, step):
        self.sizes.append(step.n_examples)


class SomeRounds(EveryRound):
    def room(self):
        return 30


@pytest.mark.parametrize(("callback", "size", "told"), [(EveryRound, 1, 1), (SomeRounds, 30, 0)])
def test_a_callback_that_sees_every_round_is_named_where_progress_is_shown(callback, size, told, capfd):
    rng = np.random.default_rng(0)
    model = OnlineMKLRegressor(["linear"], epochs=2, callbacks=[callback()], verbose=True)
    sizes = model.fit(rng.normal(size=(60, 2)), rng.normal(size=60)).callbacks[0].sizes
    assert max(sizes) == size
    assert sum(sizes) == 120
    reason = "The callback EveryRound has `on_round` without `room`, and sees every round"
    assert capfd.readouterr().err.count(reason) == told


@pytest.mark.parametrize("loss", [losses.Poisson(), losses.Quantile(0.3), losses.Huber(0.5)], ids=repr)
@given(y=st.floats(0, 5), z=st.floats(-3, 3))
def test_compiled_losses_of_numbers_are_the_losses(loss, y, z):
    function, parameters = loss.compiled
    value, slope = getattr(function, "py_func", function)(y, z, parameters)
    assert_allclose(value, loss.value(np.array([y]), np.array([z]))[0], rtol=1e-12, atol=1e-12)
    assert_allclose(slope, loss.gradient(np.array([y]), np.array([z]))[0], rtol=1e-12, atol=1e-12)
