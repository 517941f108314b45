"""The compiled driver learns the model that the trainer learns, bit by bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config
from numpy.testing import assert_allclose, assert_array_equal

from omkl import (
    Budget,
    DependencyParser,
    Edges,
    GraphLabeler,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    SequenceLabeler,
    groups,
    losses,
)
from omkl.data import Graph, synthetic_treebank
from omkl.estimators.token_codec import Examples
from omkl.groups import ExplicitBank, InterceptBank, TransitionBank, feature_maps
from omkl.groups.tokens import Features, Tokens
from omkl.online import DecayedAverage, PolynomialAverage, ProgressiveValidation, driver
from omkl.regularizers import L1, Ridge, SquaredL21
from omkl.structures import Chain
from tests import passes
from tests.online.configurations import (
    KINDS,
    N,
    alternate,
    assert_same_model,
    assert_same_state,
    draw,
    predictions,
    train,
    uncompiled,
)

pytestmark = pytest.mark.filterwarnings("ignore::omkl.exceptions.DataWarning")  # the data are noise
#: Number of configurations of each kind.
DRAWN = {
    "any": 220,
    "budget": 24,
    "restart": 16,
    "drift": 16,
    "growing": 24,
    "single": 16,
    "graphs": 60,
}
DRAWS = [(kind, seed) for kind, count in DRAWN.items() for seed in range(count)]
MIXED = [(kind, seed) for kind in KINDS for seed in range(1000, 1012)]
if config.DISABLE_JIT:  # all rounds take long
    DRAWS, MIXED = DRAWS[::8], MIXED[::4]


def mostly_slow(cases, every):
    """Mark all cases as slow except for one of so many."""
    marked = []
    for i, case in enumerate(cases):
        marks = [] if i % every == 0 else [pytest.mark.slow]
        marked.append(pytest.param(*case, marks=marks))
    return marked


# ---- random configurations -----------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "seed"), mostly_slow(DRAWS, 6))
def test_the_model_is_that_of_the_trainer(kind, seed, monkeypatch):
    configuration = draw(kind, seed)
    model = train(configuration)
    part = driver.uncompiled_part(model.model_.trainer)
    # cached kernels become one at the end
    assert part is None or isinstance(part, groups.KernelExpansion)
    monkeypatch.setattr(driver, "uncompiled_part", uncompiled)
    assert_same_model(model, train(configuration), configuration.X)


@pytest.mark.parametrize(("kind", "seed"), mostly_slow(MIXED, 4))
def test_to_change_between_both_after_a_few_rounds_changes_nothing(kind, seed, monkeypatch):
    configuration = draw(kind, seed)
    with monkeypatch.context() as patch:
        alternate(patch, seed)
        model = train(configuration)
    monkeypatch.setattr(driver, "uncompiled_part", uncompiled)
    assert_same_model(model, train(configuration), configuration.X)


@pytest.mark.parametrize("seed", range(12))
def test_predictions_between_rounds_change_nothing(seed, monkeypatch):
    configuration = draw("single", 100 + seed)

    def train_one():
        predicted = []

        def between(model):
            predicted.append(predictions(model, configuration.X[:1]))
            return model

        return train(configuration, between), predicted

    (model, predicted), (defined, expected) = trained_both_ways(train_one, monkeypatch)
    assert_same_model(model, defined, configuration.X)
    assert_same_model(model, train(configuration), configuration.X)
    for scores, expected_scores in zip(predicted, expected, strict=True):
        assert_array_equal(scores, expected_scores)


def test_the_configurations_are_those_that_they_should_be():
    drifting = [train(draw("drift", seed)).history_ for seed in range(4)]
    assert all(any("changes" in record for record in history) for history in drifting)
    assert all(train(draw("restart", seed)).left_out_ for seed in range(4))
    grown = [train(draw("growing", seed)) for seed in range(4)]
    assert all(len(model.model_.trainer.group_names) > 4 for model in grown)


# ---- parts that are seldom drawn -----------------------------------------------------------------


def trained_both_ways(train_one, monkeypatch):
    """Return what is trained in compiled calls, and in rounds of the trainer."""
    compiled = train_one()
    with monkeypatch.context() as patch:
        patch.setattr(driver, "uncompiled_part", uncompiled)
        return compiled, train_one()


@pytest.mark.parametrize("regularizer", ["l1", "sparse-group", 0.2 * L1() + 0.5 * Ridge()], ids=str)
@pytest.mark.parametrize("average", ["quadratic", None])
def test_penalties_on_coordinates_are_those_of_the_trainer(regularizer, average, monkeypatch):
    rng = np.random.default_rng(0)
    codes = [rng.integers(3, size=rng.integers(1, 5)).tolist() for _ in range(150)]
    X = [
        [{"a": f"w{c + rng.integers(3)}", "b": f"v{rng.integers(9)}"} for c in codes_of_sequence]
        for codes_of_sequence in codes
    ]
    options = {
        "loss": "crf",
        "regularizer": regularizer,
        "average": average,
        "epochs": 3,
        "C": 0.3,
        "random_state": 0,
    }
    compiled, expected = trained_both_ways(
        lambda: SequenceLabeler(**options).fit(X, codes), monkeypatch
    )
    assert driver.uncompiled_part(compiled.model_.trainer) is None
    assert_same_model(compiled, expected, X)
    table = compiled.predictor_.banks[0].table
    assert average or 0.0 < (table == 0.0).mean() < 1.0


@pytest.mark.parametrize("loss", ["hinge", "crf", "softmax-margin", "perceptron"])
@pytest.mark.parametrize("transitions", ["free", "regularized", None])
@pytest.mark.parametrize("with_others", [False, True])
def test_graphs_that_are_chains_are_learned_in_compiled_calls(
    loss, transitions, with_others, monkeypatch
):
    rng = np.random.default_rng(0)
    y = [rng.integers(3, size=rng.integers(1, 7)) for _ in range(40)]
    graphs = []
    for labels in y:
        edges = [(t, t + 1) for t in range(len(labels) - 1)]
        graphs.append(
            Graph(np.eye(3)[labels] + rng.normal(size=(len(labels), 3)), edges, directed=True)
        )
    if with_others:  # a block with another graph is learned in rounds
        graphs[30] = Graph(rng.normal(size=(3, 3)), [(0, 1), (1, 2), (0, 2)], directed=True)
        y[30] = np.array([0, 1, 2])

    def train_one():
        labeler = GraphLabeler(
            ["linear", "gaussian:features=8"],
            Edges(transitions=transitions),
            loss=loss,
            random_state=0,
        )
        for low in (0, 20):
            labeler.partial_fit(
                graphs[low : low + 20], y[low : low + 20], classes=[0, 1, 2] if low == 0 else None
            )
        return labeler

    compiled, expected = trained_both_ways(train_one, monkeypatch)
    assert_same_state(compiled.model_.trainer, expected.model_.trainer)
    assert compiled.model_.trainer.driver is not None
    assert expected.model_.trainer.driver is None


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_relations_of_arcs_are_learned_in_compiled_calls(call, monkeypatch):
    treebank = synthetic_treebank(60, vocabulary=20, random_state=0)
    heads = treebank.heads.copy()
    heads[5::7] = -1
    treebank = replace(treebank, heads=heads, text=None)
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.5], size=60)

    def train_one():
        parser = DependencyParser("small", memory=10, epochs=2, random_state=0)
        if call == "fit":
            parser.fit(treebank, sample_weight=weights)
        else:
            parser.partial_fit(treebank[:20], sample_weight=weights[:20])
            parser.partial_fit(treebank[20:], sample_weight=weights[20:])
        return parser.model_.codec.relations.trainer

    compiled, expected = trained_both_ways(train_one, monkeypatch)
    assert compiled.driver is not None
    assert expected.driver is None
    assert_same_state(compiled, expected)


def single_precision(average, regularizer):
    """Train a model with tables of float32, which no estimator makes."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, size=120)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n = offsets[-1]
    ids = rng.integers(0, 30, size=3 * n).astype(np.int32)
    features = Features(3 * np.arange(n + 1), ids, rng.normal(size=3 * n))
    gold = (ids[::3] % 4).astype(np.int64)
    examples = Examples(
        Tokens(offsets, features), gold, np.arange(120), rng.random(120), single=False
    )
    averaging = average is not None
    banks = [ExplicitBank(["a", "b", "c"], np.arange(30) // 10, 4, averaging, np.float32)]
    free = [TransitionBank(4, averaging=averaging), InterceptBank(4, averaging)]
    options = {"lambda_": 0.02, "average": average, "unpenalized": free, "regularizer": regularizer}
    trainer = passes.online_trainer(banks, Chain(4), **options)
    passes.fit(trainer, examples, epochs=3, rng=rng)
    return trainer


@pytest.mark.parametrize("average", [None, PolynomialAverage(), DecayedAverage(1.0)], ids=str)
@pytest.mark.parametrize("regularizer", [SquaredL21(), 0.1 * L1() + 0.5 * Ridge()], ids=str)
def test_tables_of_single_precision_are_those_of_the_trainer(average, regularizer, monkeypatch):
    compiled, expected = trained_both_ways(
        lambda: single_precision(average, regularizer), monkeypatch
    )
    assert compiled.banks[0].table.dtype == np.float32
    assert_same_state(compiled, expected)


@pytest.mark.parametrize("n_columns", [3, 700])
def test_features_that_do_not_fit_into_memory_are_those_of_the_trainer(n_columns, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(feature_maps, "WINDOW_BYTES", 20_000)
    X = [rng.normal(size=(rng.integers(1, 6), n_columns)) for _ in range(60)]
    y = [(vectors[:, 0] > 0.0).astype(int) for vectors in X]

    def train_one():
        kernels = [
            "gaussian:features=60",
            "polynomial:degree=2,features=30",
            "gaussian:features=20,map=nystrom",
        ]
        model = SequenceLabeler(
            kernels, regularizer="block1", random_state=0, budget=Budget(cache_size=0)
        )
        return model.partial_fit(X[:30], y[:30], classes=[0, 1]).partial_fit(X[30:], y[30:])

    assert_same_model(*trained_both_ways(train_one, monkeypatch), X)


def test_weights_whose_squares_round_in_two_ways_are_those_of_the_trainer(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    weights = rng.random(1_000_000)
    powers = np.array([weight**2 for weight in weights])
    weights = np.append(weights[powers != weights * weights], weights)[:N]

    def train_one():
        model = OnlineMKLRegressor(["linear"], random_state=0)
        return model.partial_fit(X, X[:, 0] ** 3, sample_weight=weights)

    assert_same_model(*trained_both_ways(train_one, monkeypatch), X)


@pytest.mark.parametrize("seed", range(3))
def test_shards_are_those_of_the_trainer(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(N, 4)), rng.integers(3, size=N)
    options = {"loss": ["hinge", "crf", "perceptron"][seed], "epochs": 2, "random_state": 0}

    def train_one():
        return OnlineMKLClassifier(["linear", "gaussian:features=8"], **options).fit(X, y, shards=2)

    compiled, expected = trained_both_ways(train_one, monkeypatch)
    assert_same_state(compiled.model_.trainer, expected.model_.trainer)


# ---- callbacks and parts of users ----------------------------------------------------------------


@pytest.mark.parametrize("task", ["classes", "numbers", "sequences"])
def test_costs_before_each_round_are_those_of_the_trainer(task, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    options = {"kernels": ["linear", "gaussian:features=8"], "random_state": 0}

    def train_one():
        meter = ProgressiveValidation(50)
        if task == "numbers":
            OnlineMKLRegressor(callbacks=[meter], **options).partial_fit(X, X[:, 0] ** 3)
        elif task == "classes":
            OnlineMKLClassifier(callbacks=[meter], **options).partial_fit(X, X[:, 0] > 0)
        else:
            pairs = list(X.reshape(-1, 2, 3))
            labels = [
                [int(v > 0) if v < 1 else None for v in pair[:, 0].tolist()] for pair in pairs
            ]
            SequenceLabeler(callbacks=[meter], **options).partial_fit(pairs, labels, classes=[0, 1])
        return [{**record, "seconds": 0} for record in meter.records]

    compiled, expected = trained_both_ways(train_one, monkeypatch)
    assert len(compiled) == (4 if task == "sequences" else 8)
    assert compiled == expected


@pytest.mark.parametrize("every", [7, 1000])
def test_callbacks_that_count_rounds_see_the_same(every, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = np.where(X[:, 0] > 0, "a", "b")
    results = []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(driver, "uncompiled_part", lambda trainer: trainer)
        meter = ProgressiveValidation(every, lambda trainer, record: record["round"] >= 300)
        model = OnlineMKLClassifier(
            ["linear", "gaussian:features=8"], callbacks=[meter], random_state=0
        )
        results.append((meter.records, model.partial_fit(X, y).model_.trainer.round))
    (records, last), (expected, expected_last) = results
    assert last == expected_last == (301 if every == 7 else N)
    for record, wanted in zip(records, expected, strict=True):
        assert (record["round"], record["error"]) == (wanted["round"], wanted["error"])


def test_parts_of_the_user_are_learned_by_the_trainer():
    """A compiled pass is left alone where it does not know the part, even if the part is derived
    from a known one.
    """

    class Halved(SquaredL21):
        def prox(self, norms, step):
            return super().prox(norms, 0.5 * step)

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    changed, builtin = (
        OnlineMKLClassifier(["linear"], regularizer=r, weighting="norms")
        for r in (Halved(), SquaredL21())
    )
    assert driver.uncompiled_part(changed.fit(X, y).model_.trainer) is not None
    assert driver.uncompiled_part(builtin.fit(X, y).model_.trainer) is None


@pytest.mark.parametrize(
    ("base", "method"),
    [
        (losses.Squared, "gradient"),
        (SquaredL21, "prox"),
        (Chain, "decode"),
        (groups.ExplicitBank, "step"),
    ],
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


@pytest.mark.parametrize("radius", [None, 0.1])
def test_steps_have_the_norms_after_the_projection(radius, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))

    class Norms(SomeRounds):
        def on_round(self, trainer, step):
            if trainer.round % 30 == 0:
                self.sizes.append(step.norms)
                assert_array_equal(step.norms, trainer.norms)

    def train_one():
        model = OnlineMKLRegressor(
            ["linear", "gaussian:features=8"], radius=radius, callbacks=[Norms()], epochs=2
        )
        return model.set_params(random_state=0).fit(X, X[:, 0]).callbacks[0].sizes

    compiled, expected = trained_both_ways(train_one, monkeypatch)
    assert len(compiled) == 4
    assert_array_equal(compiled, expected)


@pytest.mark.parametrize(("callback", "size", "told"), [(EveryRound, 1, 1), (SomeRounds, 30, 0)])
def test_a_callback_that_sees_every_round_is_named_where_progress_is_shown(
    callback, size, told, capfd
):
    rng = np.random.default_rng(0)
    model = OnlineMKLRegressor(["linear"], epochs=2, callbacks=[callback()], verbose=True)
    sizes = model.fit(rng.normal(size=(60, 2)), rng.normal(size=60)).callbacks[0].sizes
    assert max(sizes) == size
    assert sum(sizes) == 120
    reason = "The callback EveryRound has `on_round` without `room`, and sees every round"
    assert capfd.readouterr().err.count(reason) == told


@pytest.mark.parametrize(
    "loss", [losses.Poisson(), losses.Quantile(0.3), losses.Huber(0.5)], ids=repr
)
@given(y=st.floats(0, 5), z=st.floats(-3, 3))
def test_compiled_losses_of_numbers_are_the_losses(loss, y, z):
    function, parameters = loss.compiled
    value, slope = getattr(function, "py_func", function)(y, z, parameters)
    assert_allclose(value, loss.value(np.array([y]), np.array([z]))[0], rtol=1e-12, atol=1e-12)
    assert_allclose(slope, loss.gradient(np.array([y]), np.array([z]))[0], rtol=1e-12, atol=1e-12)
