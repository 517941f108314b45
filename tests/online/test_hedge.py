"""Hedge over kernel learners: the algorithms of the papers written down literally, bounds, drift, state, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from omkl import OnlineMKLClassifier, OnlineMKLRegressor, SequenceLabeler, StructuredPredictor, load
from omkl.exceptions import InputError
from omkl.groups import ExplicitBank
from omkl.online import Hedge, HedgeWeights, ProgressiveValidation
from omkl.structures import Multiclass

KERNELS = {"narrow": "gaussian:sigma2=0.2", "wide": "gaussian:sigma2=20", "other": "gaussian:sigma2=2,on=2:4"}
SIGMA2 = {"narrow": 0.2, "wide": 20.0, "other": 2.0}
PERCEPTRONS = {
    "loss": "perceptron", "regularizer": None, "eta0": 1.0, "schedule": "constant", "average": None,
    "fit_intercept": False,
}  # fmt: skip
CONSTANT = {"regularizer": None, "schedule": "constant", "average": None, "fit_intercept": False}


class Recorder:
    """What the model says of each example before it learns it."""

    def __init__(self):
        self.potentials, self.losses = [], []

    def on_round(self, trainer, step):
        self.potentials.append(np.array(step.potentials.unary[0]))
        self.losses.append(step.loss)


def rings(n=120, seed=0, labels=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.digitize(np.square(X[:, :2]).sum(axis=1), [1.4, 3.0][: labels - 1])


def gram(X, sigma2):
    return np.exp(-np.square(X[:, None] - X[None]).sum(axis=2) / (2.0 * sigma2))


def omkc(grams, y, beta):
    """OMKC with deterministic updates and combination (Hoi et al. 2013), for labels -1 and 1."""
    p, n = len(grams), len(y)
    alphas, w, outputs = np.zeros((p, n)), np.ones(p), []
    for t in range(n):
        f = np.array([grams[k][t] @ alphas[k] for k in range(p)])
        signs = np.where(f > 0, 1.0, -1.0)
        outputs.append(w / w.sum() @ signs)
        wrong = signs != y[t]
        w = w * beta**wrong
        alphas[wrong, t] += y[t]
    return np.array(outputs), w / w.sum()


def test_omkc_is_the_algorithm_of_the_paper():
    X, y = rings()
    recorder = Recorder()
    model = OnlineMKLClassifier(KERNELS, method="omkc", callbacks=[recorder], **PERCEPTRONS).partial_fit(X, y)
    outputs, weights = omkc([gram(X, 0.2), gram(X, 20.0), gram(X[:, 2:4], 2.0)], 2 * y - 1, 0.8)
    assert_allclose(np.ravel(recorder.potentials), outputs, atol=1e-12)
    assert_allclose(list(model.kernel_weights_.values()), weights, atol=1e-12)


def raker(features, y, eta, alpha, ridge):
    """Raker (Shen et al. 2019, Algorithm 1) with the squared loss ``(f - y)^2 / 2 + ridge ||theta||^2``."""
    theta, w, outputs = [np.zeros(Z.shape[1]) for Z in features], np.ones(len(features)), []
    for t in range(len(y)):
        f = np.array([Z[t] @ own for Z, own in zip(features, theta)])
        outputs.append(w / w.sum() @ f)
        losses = 0.5 * (f - y[t]) ** 2 + [ridge * own @ own for own in theta]
        theta = [own - eta * ((f[k] - y[t]) * features[k][t] + 2.0 * ridge * own) for k, own in enumerate(theta)]
        w = w * np.exp(-alpha * losses)
    return np.array(outputs), w / w.sum()


def test_raker_is_the_algorithm_of_the_paper():
    X, _ = rings()
    y = np.sin(2 * X[:, 0])
    kernels = {name: f"{spec},features=20" for name, spec in KERNELS.items()}
    recorder = Recorder()
    model = OnlineMKLRegressor(
        kernels, method="raker:rate=0.3", eta0=0.2, l2=0.02, callbacks=[recorder], **CONSTANT
    ).partial_fit(X, y)  # fmt: skip
    encoder = model.model_.codec.encoder
    features = [encoder.kernels[name].features(X[:, 2:4] if name == "other" else X) for name in KERNELS]
    outputs, weights = raker(features, y, 0.2, 0.3, 0.01)
    assert_allclose(np.ravel(recorder.potentials), outputs, atol=1e-12)
    assert_allclose(list(model.kernel_weights_.values()), weights, atol=1e-12)


def adaraker(features, y, eta, alpha):
    """AdaRaker (Shen et al. 2019, Algorithm 3) by the list of all intervals, squared loss."""
    n, experts, outputs = len(y), {}, []
    for t in range(1, n + 1):
        for j in range(t.bit_length()):
            if t % 2**j == 0:
                h = min(0.5, alpha / math.sqrt(2**j))
                rate = min(0.5, eta / math.sqrt(2**j))
                experts[j] = [h, h, rate, [np.zeros(Z.shape[1]) for Z in features], np.ones(len(features))]
        f = np.array([[Z[t - 1] @ own for Z, own in zip(features, theta)] for *_, theta, _ in experts.values()])
        own = np.array([w / w.sum() @ row for row, (*_, w) in zip(f, experts.values())])
        h = np.array([expert[0] for expert in experts.values()])
        outputs.append(h / h.sum() @ own)
        loss = 0.5 * (outputs[-1] - y[t - 1]) ** 2
        for row, mixed, expert in zip(f, own, experts.values()):
            expert[0] *= np.exp(-expert[1] * (0.5 * (mixed - y[t - 1]) ** 2 - loss))
            expert[3] = [a - expert[2] * (v - y[t - 1]) * Z[t - 1] for a, v, Z in zip(expert[3], row, features)]
            expert[4] = expert[4] * np.exp(-expert[1] * 0.5 * (row - y[t - 1]) ** 2)
    return np.array(outputs)


def test_adaraker_is_the_algorithm_of_the_paper():
    X, _ = rings(70)
    y = np.sin(2 * X[:, 0])
    kernels = {name: f"{spec},features=10" for name, spec in KERNELS.items()}
    recorder = Recorder()
    model = OnlineMKLRegressor(kernels, method="adaraker", eta0=0.6, callbacks=[recorder], **CONSTANT).partial_fit(X, y)
    encoder = model.model_.codec.encoder
    features = [encoder.kernels[name].features(X[:, 2:4] if name == "other" else X) for name in KERNELS]
    assert_allclose(np.ravel(recorder.potentials), adaraker(features, y, 0.6, 0.5), atol=1e-12)
    assert sum(model.kernel_weights_.values()) == pytest.approx(1.0)


LOSSES = arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 5)), elements=st.floats(0.0, 1.0))


@given(LOSSES, st.floats(0.01, 5.0))
def test_hedge_keeps_its_regret_bound(losses, rate):
    hedge, suffered = HedgeWeights(losses.shape[1], rate), 0.0
    for row in losses:
        suffered += hedge.weights() @ row
        hedge.observe(row)
    n, p = losses.shape
    assert suffered <= losses.sum(axis=0).min() + math.log(p) / rate + rate * n / 8 + 1e-9


@given(LOSSES)
def test_adahedge_keeps_its_regret_bound_and_knows_no_scale(losses):
    p = losses.shape[1]
    hedge, scaled, suffered, variance = HedgeWeights(p, "auto"), HedgeWeights(p, "auto"), 0.0, 0.0
    for row in losses:
        weights = hedge.weights()
        assert weights.sum() == pytest.approx(1.0)
        suffered += weights @ row
        variance += weights @ (row - weights @ row) ** 2
        hedge.observe(row)
        scaled.observe(4.0 * row)
    assert_allclose(scaled.weights(), hedge.weights(), atol=1e-6)
    regret = suffered - losses.sum(axis=0).min()
    span = np.ptp(losses, axis=1).max()
    # de Rooij et al. (2014), Theorem 6
    assert regret <= 2 * math.sqrt(variance * math.log(p)) + span * (4 / 3 * math.log(p) + 2) + 1e-9


@pytest.mark.parametrize("method", ["hedge", "raker"])
@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_the_combination_loses_no_more_than_the_mean_of_the_learners(method, loss):
    X, y = rings(labels=3)
    meter = Recorder()
    model = OnlineMKLClassifier(KERNELS, loss=loss, method=method, callbacks=[meter]).partial_fit(X, y)
    best = min(model.model_.trainer.hedge.cumulative)
    assert sum(meter.losses) <= best + 3 * math.sqrt(len(y)) + 5


def drifting(n=3000):
    """Regression whose target turns round half-way."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.where(np.arange(n) < n // 2, 1.0, -1.0) * np.sin(2 * X[:, 0])


def test_adaraker_follows_a_drift_where_raker_does_not():
    X, y = drifting()
    kernels = {"near": "gaussian:sigma2=0.3,features=40", "far": "gaussian:sigma2=3,features=40"}
    errors = {}
    # the rate that is best for a stream of this length, and those of the intervals
    for method, eta0 in (("raker", 4 / math.sqrt(len(y))), ("adaraker:restarts=32,rate=8", 4.0)):
        recorder = Recorder()
        OnlineMKLRegressor(kernels, method=method, eta0=eta0, callbacks=[recorder], **CONSTANT).partial_fit(X, y)
        squares = (np.ravel(recorder.potentials) - y) ** 2
        errors[method[:5]] = squares[1300:1500].mean(), squares[1500:1700].mean()
    assert max(errors["raker"][0], errors["adara"][0]) < 0.1
    assert errors["adara"][1] < 0.6 * errors["raker"][1]


@pytest.mark.parametrize("method", ["hedge", "omkc:sampling=0.2,combine=sampled", "adaraker:rate=auto,restarts=8"])
@pytest.mark.parametrize("options", [{}, {"budget": 10}, {"classes": "growing"}])
def test_a_saved_model_goes_on_as_if_nothing_had_happened(method, options, tmp_path):
    X, y = rings(90, labels=3)
    options = dict(options)
    classes = options.pop("classes", [0, 1, 2])
    whole = OnlineMKLClassifier(KERNELS, method=method, **options).partial_fit(X[:50], y[:50], classes=classes)
    whole.save(tmp_path / "model.npz")
    part = load(tmp_path / "model.npz")
    assert_array_equal(part.decision_function(X), whole.decision_function(X))
    for model in (whole, part):
        model.partial_fit(X[50:], y[50:])
    assert_array_equal(part.decision_function(X), whole.decision_function(X))
    assert part.kernel_weights_ == whole.kernel_weights_


@pytest.mark.parametrize("method", ["hedge", "adaraker:restarts=16"])
def test_a_resumed_fit_has_the_same_bits(method, tmp_path):
    X, y = rings(60)

    class StopLate:
        def on_round(self, trainer, step):
            if trainer.round == 75:
                raise KeyboardInterrupt

    options = {"method": method, "epochs": 2, "random_state": 0}
    whole = OnlineMKLClassifier(KERNELS, **options).fit(X, y)
    running = {"checkpoint": tmp_path / "run", "checkpoint_every": "20"}
    with pytest.raises(KeyboardInterrupt):
        OnlineMKLClassifier(KERNELS, callbacks=[StopLate()], **options).fit(X, y, **running)
    resumed = OnlineMKLClassifier(KERNELS, **options).fit(X, y, resume=True, **running)
    assert_array_equal(resumed.decision_function(X), whole.decision_function(X))


def test_the_model_is_the_weighted_sum_of_its_expansions():
    X, y = rings()
    model = OnlineMKLClassifier(KERNELS, method="hedge:rate=0.01", fit_intercept=False, epochs=2, random_state=0)
    model.fit(X, y)
    total = 0.0
    for name, A in model.dual_coef_.items():
        view, support, sigma2 = X, model.support_vectors_[name], SIGMA2[name]
        if name == "other":
            view = X[:, 2:4]
        K = np.exp(-np.square(view[:, None] - support[None]).sum(axis=2) / (2.0 * sigma2))
        total = total + model.kernel_weights_[name] * K @ A[:, 0]
    assert_allclose(model.decision_function(X), total, atol=1e-6)


def test_sequences_have_learners_with_transitions_of_their_own():
    X, y = rings(200, labels=3)
    chains, labels = np.split(X, 40), np.split(y, 40)
    model = SequenceLabeler(KERNELS, method="hedge:rate=0.05", epochs=5, random_state=0).fit(chains, labels)
    assert model.score(chains, labels) > 0.8
    weights = model.model_.trainer.weights
    own = [expert.predictor().banks[-1].table[0] for expert in model.model_.trainer.experts]
    assert_allclose(model.transitions_, np.tensordot(weights, own, 1), atol=1e-12)


def test_sampling_spares_the_bad_learners():
    X, y = rings(400)
    model = OnlineMKLClassifier(KERNELS, method="omkc:sampling=0.05", **PERCEPTRONS).partial_fit(X, y)
    rounds = {name: expert.round for name, expert in zip(KERNELS, model.model_.trainer.experts)}
    assert rounds["narrow"] > 1.5 * rounds["other"]


def test_examples_of_no_weight_change_nothing():
    X, y = rings()
    weights = np.arange(len(y)) % 2
    model = OnlineMKLClassifier(KERNELS, method="adaraker").partial_fit(X, y, sample_weight=weights)
    kept = OnlineMKLClassifier(KERNELS, method="adaraker").partial_fit(X[1::2], y[1::2])
    assert model.model_.trainer.round == kept.model_.trainer.round == 60


def test_progressive_records_tell_the_weights():
    X, y = rings(100)
    meter = ProgressiveValidation(every=50)
    OnlineMKLClassifier(KERNELS, method="hedge", callbacks=[meter]).partial_fit(X, y)
    assert [record["round"] for record in meter.records] == [50, 100]
    assert sum(meter.records[-1][f"weight:{name}"] for name in KERNELS) == pytest.approx(1.0)


def test_what_does_not_go_together_is_refused():
    X, y = rings(40)
    with pytest.raises(InputError, match="fobos, rda, hedge"):
        OnlineMKLClassifier(method="heg").fit(X, y)
    with pytest.raises(InputError, match="batch_size=1"):
        OnlineMKLClassifier(method="hedge", batch_size=4).fit(X, y)
    with pytest.raises(InputError, match="radius"):
        OnlineMKLClassifier(method="hedge", radius="auto").fit(X, y)
    with pytest.raises(InputError, match="weighting"):
        OnlineMKLClassifier(method="hedge", weighting="out-of-sample").fit(X, y)
    with pytest.raises(InputError, match="shards"):
        OnlineMKLClassifier(method="hedge").fit(X, y, shards=2)
    with pytest.raises(InputError, match="vote"):
        OnlineMKLRegressor(method="omkc").fit(X, y)
    with pytest.raises(InputError, match="read by no kernel"):
        OnlineMKLClassifier(method="hedge").fit([{"word": "a"}, {"word": "b"}] * 20, y)
    with pytest.raises(InputError, match="sampled"):
        Hedge(combine="sampled")
    bank = ExplicitBank(["identity"], groups=[0, 0], n_outputs=2)
    with pytest.raises(InputError, match="kernels"):
        StructuredPredictor(Multiclass(2), [bank], method="hedge", average=None).fit([np.ones(2)] * 2, [0, 1])
