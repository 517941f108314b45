"""Streams that change: windows of 2,000 rows, against the average of all iterates, the last one, and SGD."""

import numpy as np
import pytest
from numba import njit

from omkl import OnlineMKLClassifier
from omkl.estimators.sources import TrainingBlock
from omkl.groups import FeatureMapBank
from omkl.online import ProgressiveValidation
from omkl.online.trainer import OnlineTrainer

N, WINDOW, BLOCK, FIRST = 60_000, 2000, 50, 500
RATES = (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2)


def rows(seed, sign_of, d=3, wrong=0.1):
    """Draw rows whose class depends on a linear term, and on another one times a sign; some labels are wrong."""
    rng = np.random.default_rng(seed)
    X, sign = rng.normal(size=(N, d)), sign_of(np.arange(N), rng)
    return X, ((X[:, 0] + sign * 2 * np.sin(2 * X[:, 1]) > 0) ^ (rng.random(N) < wrong)).astype(int)


def turning(seed, d=10, wrong=0.05):
    """Draw rows whose class depends on a direction that turns once around, and on a term that stays."""
    rng = np.random.default_rng(seed)
    X, angle = rng.normal(size=(N, d)), 2 * np.pi * np.arange(N) / N
    f = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] + 0.5 * np.sin(2 * X[:, 2])
    return X, ((f > 0) ^ (rng.random(N) < wrong)).astype(int)


def from_river(name):
    """Read the rows of a generator of river, scaled by the first ones."""
    synth = pytest.importorskip("river.datasets.synth")
    if name == "hyperplane":
        own = {"n_features": 10, "n_drift_features": 5, "mag_change": 0.001, "noise_percentage": 0.05}
        stream = synth.Hyperplane(seed=0, **own)
    else:
        make, *kinds = {"SEA": (synth.SEA, 0, 3), "sine": (synth.Sine, 2, 3), "agrawal": (synth.Agrawal, 0, 2)}[name]
        kind = "classification_function" if name != "SEA" else "variant"
        parts = [make(**{kind: value}, seed=seed) for seed, value in enumerate(kinds)]
        stream = synth.ConceptDriftStream(*parts, position=20_000, width=4000 if name == "agrawal" else 200, seed=0)
    pairs = [(list(map(float, x.values())), int(y)) for x, y in stream.take(40_000)]
    X, y = np.array([x for x, _ in pairs]), np.array([y for _, y in pairs])
    return (X - X[:2000].mean(axis=0)) / X[:2000].std(axis=0), y


STREAMS = {
    "none": lambda: rows(0, lambda t, rng: np.ones(N)),
    "sudden": lambda: rows(0, lambda t, rng: np.where(t < N // 2, 1.0, -1.0)),
    "sudden, ten columns": lambda: rows(0, lambda t, rng: np.where(t < N // 2, 1.0, -1.0), 10, 0.05),
    "recurring": lambda: rows(0, lambda t, rng: 1.0 - 2.0 * (t // 6000 % 2)),
    "recurring, ten columns": lambda: rows(0, lambda t, rng: 1.0 - 2.0 * (t // 6000 % 2), 10, 0.05),
    "gradual": lambda: rows(0, lambda t, rng: np.where(rng.random(N) < (t - 25_000) / 10_000, -1.0, 1.0)),
    "turning": lambda: turning(0),
    **{name: lambda name=name: from_river(name) for name in ("SEA", "sine", "hyperplane", "agrawal")},
}


@njit(cache=True)
def sgd(Z, y, rate, alpha=1e-5):
    """Return the mistakes of stochastic gradient descent on the hinge loss; labels are -1 and 1."""
    w, constant, wrong = np.zeros(Z.shape[1]), 0.0, np.zeros(len(y))
    for i in range(len(y)):
        score = constant + np.dot(w, Z[i])
        wrong[i] = (score > 0) != (y[i] > 0)
        w *= 1 - rate * alpha
        if score * y[i] < 1:
            w += rate * y[i] * Z[i]
            constant += rate * y[i]
    return wrong


def windows(wrong):
    """Return the mean error of each window but the first, in percent."""
    return 100 * wrong[: len(wrong) // WINDOW * WINDOW].reshape(-1, WINDOW).mean(axis=1)[1:]


def learned(X, y):
    """Predict each block before learning it; return the model, and errors of the average and of the last iterate."""
    meter, wrong = ProgressiveValidation(WINDOW), np.zeros(len(y))
    model = OnlineMKLClassifier(["linear", "gaussian:features=300"], random_state=0, callbacks=[meter])
    model.partial_fit(X[:FIRST], y[:FIRST], classes=[0, 1])
    for low in range(FIRST, len(y), BLOCK):
        block = slice(low, low + BLOCK)
        wrong[block] = model.predict(X[block]) != y[block]
        model.partial_fit(X[block], y[block])
    return model, windows(wrong), 100 * np.array([record["error"] for record in meter.records])[1:]


def best_sgd(model, X, y):
    """Return the errors of SGD on the columns and the Fourier features of a model, with the best of its rates."""
    inner = model.model_
    tokens = inner.codec.encode(model._task().read(TrainingBlock(X, y), False), inner.trainer).tokens
    maps = [bank for bank in inner.trainer.banks if isinstance(bank, FeatureMapBank)]
    Z = np.hstack([X, *(bank.features_of(tokens, np.arange(len(y))) for bank in maps)])
    return windows(min((sgd(Z, 2.0 * y - 1.0, rate) for rate in RATES), key=np.mean))


@pytest.mark.study
@pytest.mark.parametrize("name", STREAMS)
def test_drift(measure, name, monkeypatch, capsys):
    X, y = STREAMS[name]()
    found = learned(X, y)
    rivals = {"omkl": found[1], "its last iterate": found[2], "SGD, best rate": best_sgd(found[0], X, y)}
    with monkeypatch.context() as without:
        without.setattr(OnlineTrainer, "watch", lambda trainer: None)
        rivals["average of all"], rivals["last without test"] = learned(X, y)[1:]
    with capsys.disabled():
        print(f"\n{name}: percent of errors in windows of {WINDOW:,} rows")
        for rival, errors in rivals.items():
            print(f"{rival:>18} {errors.mean():5.2f} |", *(f"{error:4.1f}" for error in errors))
    kernels = ["linear", "gaussian:features=300"]
    measure(lambda: OnlineMKLClassifier(kernels, random_state=0).partial_fit(X[:10_000], y[:10_000]))
    measure.note(
        error=found[1].mean(),
        average_of_all=rivals["average of all"].mean(),
        worst_behind_last=(found[1] - found[2]).max(),
        worst_behind_sgd=(found[1] - rivals["SGD, best rate"]).max(),
    )
