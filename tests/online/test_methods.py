"""Weights learned out of sample: the bound of Hedge, parts of a kernel, and uninformative groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omkl
from omkl.kernels import Average
from omkl.online import _jit_hedge as jit
from omkl.online.evidence import Evidence

USEFUL = "gaussian:on=0:3"
JUNK = [f"gaussian:on={low}:{low + 4}" for low in range(3, 23, 4)]


def interaction(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 23))
    return X, np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] > 0, "yes", "no")


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(1, 200), st.floats(1e-6, 1e6), st.integers(0, 10_000))
def test_hedge_keeps_its_bound(p, rounds, scale, seed):
    rng = np.random.default_rng(seed)
    losses = scale * (rng.normal(size=(rounds, p)) + rng.normal(size=p) + 5 * rng.normal(size=(rounds, 1)))
    weights, cumulative, gap = np.full(p, 1.0 / p), np.zeros(p), 0.0
    suffered = variance = 0.0
    for loss in losses:
        mean = weights @ loss
        suffered, variance = suffered + mean, variance + weights @ (loss - mean) ** 2
        gap = jit.hedge(weights, cumulative, loss, gap)
        assert np.all(weights >= 0)
        assert np.isclose(weights.sum(), 1)
    span = np.ptp(losses, axis=1).max()
    bound = 2 * np.sqrt(variance * np.log(p)) + span * (4 / 3 * np.log(p) + 2)
    assert suffered - losses.sum(axis=0).min() <= bound * (1 + 1e-9)


def test_losses_of_parts_are_inner_products_with_the_gradient():
    rng = np.random.default_rng(0)
    v, g = rng.normal(size=(2, 5, 7))
    rates, bases, weight = rng.uniform(0.1, 1, 5), rng.uniform(0.1, 1, 5), 2.5
    after = v - rates[:, None] * g
    found = np.empty(5)
    jit.losses_of_parts((v**2).sum(1), (after**2).sum(1), (g**2).sum(1), rates, bases, weight, found)
    np.testing.assert_allclose(found, weight * bases * (v * g).sum(1))


@pytest.mark.parametrize("cache_size", [0, 100])
def test_with_weights_that_stay_alike_the_parts_learn_as_the_mean_kernel_does(cache_size, monkeypatch):
    monkeypatch.setattr(jit, "hedge", lambda weights, cumulative, losses, gap: gap)
    X, y = interaction(60)
    specs = [USEFUL, *JUNK]
    options = {"random_state": 0, "epochs": 1, "shuffle": False, "weighting": "out-of-sample"}
    monkeypatch.setattr(Evidence, "useful", lambda evidence: np.ones(len(evidence.sums), dtype=bool))
    parts = omkl.OnlineMKLClassifier(specs, cache_size=cache_size, **options).fit(X, y)
    whole = omkl.OnlineMKLClassifier([Average(specs)], **options).fit(X, y)
    np.testing.assert_allclose(parts.decision_function(X), whole.decision_function(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(list(parts.kernel_weights_.values()), 1 / 6)
    losses = [[record["loss"] for record in model.history_] for model in (parts, whole)]
    np.testing.assert_allclose(*losses, rtol=1e-6)


def trained(kind, X, y, **options):
    options = {"weighting": "out-of-sample", "random_state": 0, **options}
    if kind == "sequences":
        pairs = [slice(i, i + 2) for i in range(0, len(X), 2)]
        options.setdefault("epochs", 4)
        return omkl.SequenceLabeler([USEFUL, *JUNK], **options).fit([X[i] for i in pairs], [y[i] for i in pairs])
    if kind == "numbers":
        return omkl.OnlineMKLRegressor([USEFUL, *JUNK], **options).fit(X, X[:, 0] * X[:, 1] + 0.5 * X[:, 2])
    return omkl.OnlineMKLClassifier([USEFUL, *JUNK], **options).fit(X, y)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("classes", {}),
        ("classes", {"cache_size": 0, "epochs": 1}),
        ("classes", {"budget": 100}),
        ("classes", {"loss": "crf"}),
        ("sequences", {}),
        ("sequences", {"loss": "crf"}),
        ("numbers", {}),
    ],
)
def test_groups_that_say_nothing_of_new_examples_are_zero(kind, options):
    X, y = interaction(600)
    model = trained(kind, X, y, **options)
    weights = model.kernel_weights_
    assert weights[USEFUL] > 0.98
    assert sum(weights.values()) == pytest.approx(1)
    if options.get("epochs") != 1:
        assert list(weights.values()).count(0.0) == len(JUNK)


def test_twins_share_and_have_together_what_one_would_have():
    X, y = interaction(300)
    one = omkl.OnlineMKLClassifier({"a": USEFUL, "b": "gaussian:on=0:1"}, weighting="out-of-sample", random_state=0)
    two = omkl.OnlineMKLClassifier(
        {"a": USEFUL, "twin": USEFUL, "b": "gaussian:on=0:1"}, weighting="out-of-sample", random_state=0
    )
    weights, shared = one.fit(X, y).kernel_weights_, two.fit(X, y).kernel_weights_
    assert shared["a"] == pytest.approx(shared["twin"], rel=1e-6)
    assert shared["a"] + shared["twin"] == pytest.approx(weights["a"], abs=0.05)


def test_groups_that_come_later_have_a_say():
    X = [[{"word": w} for w in line.split()] for line in ("a dog", "the cat", "a cat")]
    y = [["D", "N"]] * 3
    labeler = omkl.SequenceLabeler(weighting="out-of-sample", random_state=0).partial_fit(X, y, classes=["D", "N"])
    more = [[{"word": w, "suffix": w[-1]} for w in line.split()] for line in ("a house", "the mouse")]
    labeler.partial_fit(more, y[:2])
    assert set(labeler.kernel_weights_) == {"word", "suffix"}
    assert labeler.kernel_weights_["suffix"] > 0
    assert sum(labeler.kernel_weights_.values()) == pytest.approx(1)


def test_templates_are_weighted_too():
    rows = [("a", "D", 2), ("dog", "N", 3), ("sleeps", "V", 0)], [("the", "D", 2), ("cat", "N", 3), ("runs", "V", 0)]
    sentences = [omkl.data.Sentence([r[0] for r in s], upos=[r[1] for r in s], heads=[r[2] for r in s]) for s in rows]
    parser = omkl.DependencyParser(["h.upos m.upos", "m.form"], weighting="out-of-sample", epochs=3, random_state=0)
    parser.fit(sentences * 5)
    assert sum(parser.template_weights_.values()) == pytest.approx(1)
    pruned = parser.prune(keep=1)
    assert list(pruned.template_weights_.values()) == [1.0]


@pytest.mark.parametrize("kind", ["constant", "zero", "one label"])
def test_degenerate_data_have_an_answer(kind):
    X, y = interaction(40)
    if kind != "one label":
        X[:, 3:7] = 1.0 if kind == "constant" else 0.0
    else:
        y[:] = "yes"
    kernels = {"useful": USEFUL, "bad": "linear:on=3:7"}
    model = omkl.OnlineMKLClassifier(kernels, weighting="out-of-sample", random_state=0)
    if kind == "one label":
        model.partial_fit(X, y, classes=["no", "yes"])
    else:
        model.fit(X, y)
    weights = np.array(list(model.kernel_weights_.values()))
    assert np.all(np.isfinite(weights))
    assert weights.sum() == pytest.approx(1)
    assert np.all(np.isfinite(model.decision_function(X)))
