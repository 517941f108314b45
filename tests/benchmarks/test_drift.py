"""Streams that change: errors against averages of all iterates, the last one, SGD, and trees."""

import numpy as np
import pytest
from numba import njit

from omkl import OnlineMKLClassifier
from omkl.estimators.sources import TrainingBlock
from omkl.groups import FeatureMapBank
from omkl.online import ProgressiveValidation
from omkl.online.trainer import OnlineTrainer

N, CHANGE, BLOCK = 20_000, 10_000, 100
#: Rows whose errors are counted: all but the first, and after the change, if there is one.
RANGES = {
    "all": (1000, N),
    "0-500 after": (CHANGE, CHANGE + 500),
    "500-2,000 after": (CHANGE + 500, CHANGE + 2000),
}
RATES = (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2)


def rows(seed, sign_of, d=3, wrong=0.1):
    """Draw rows whose class depends on a linear term, and on another one times a sign.

    Some labels are wrong.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d))
    sign = sign_of(np.arange(N), rng)
    f = X[:, 0] + sign * 2 * np.sin(2 * X[:, 1])
    return X, ((f > 0) ^ (rng.random(N) < wrong)).astype(int)


def turning(seed, d=10, wrong=0.05):
    """Draw rows whose class depends on a direction that turns once, and on a term that stays."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d))
    angle = 2 * np.pi * np.arange(N) / N
    f = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] + 0.5 * np.sin(2 * X[:, 2])
    return X, ((f > 0) ^ (rng.random(N) < wrong)).astype(int)


def from_river(name):
    """Read the rows of a generator of river, scaled by the first ones."""
    synth = pytest.importorskip("river.datasets.synth")
    if name == "hyperplane":
        stream = synth.Hyperplane(
            n_features=10, n_drift_features=5, mag_change=0.001, noise_percentage=0.05, seed=0
        )
    else:
        if name == "SEA":
            before = synth.SEA(variant=0, noise=0.1, seed=0)
            after = synth.SEA(variant=3, noise=0.1, seed=1)
        else:
            before = synth.Agrawal(classification_function=0, seed=0)
            after = synth.Agrawal(classification_function=2, seed=1)
        stream = synth.ConceptDriftStream(before, after, position=CHANGE, width=100, seed=0)
    rows_and_labels = list(stream.take(N))
    X = np.array([list(map(float, row.values())) for row, _ in rows_and_labels])
    y = np.array([int(label) for _, label in rows_and_labels])
    return (X - X[:1000].mean(axis=0)) / X[:1000].std(axis=0), y


STREAMS = {
    "no change": lambda: rows(0, lambda t, rng: np.ones(N)),
    "a sign flips": lambda: rows(0, lambda t, rng: np.where(t < CHANGE, 1.0, -1.0), 10, 0.05),
    "it flips every 5,000 rows": lambda: rows(
        0, lambda t, rng: 1.0 - 2.0 * (t // 5000 % 2), 10, 0.05
    ),
    "it flips gradually": lambda: rows(
        0, lambda t, rng: np.where(rng.random(N) < (t - 5000) / 10_000, -1.0, 1.0)
    ),
    "a direction turns": lambda: turning(0),
    **{name: lambda name=name: from_river(name) for name in ("SEA", "hyperplane", "Agrawal")},
}


@njit(cache=True)
def sgd(Z, y, rate, alpha=1e-5):
    """Return the mistakes of stochastic gradient descent on the hinge loss; labels are -1 and 1."""
    w = np.zeros(Z.shape[1])
    constant = 0.0
    wrong = np.zeros(len(y))
    for i in range(len(y)):
        score = constant + np.dot(w, Z[i])
        wrong[i] = (score > 0) != (y[i] > 0)
        w *= 1 - rate * alpha
        if score * y[i] < 1:
            w += rate * y[i] * Z[i]
            constant += rate * y[i]
    return wrong


def learned(X, y, **options):
    """Predict each block before learning it.

    Returns the model, and errors of the average and of the last iterate.
    """
    meter = ProgressiveValidation(BLOCK)
    wrong = np.zeros(len(y))
    kernels = ["linear", "gaussian:features=100"]
    model = OnlineMKLClassifier(kernels, random_state=0, callbacks=[meter], **options)
    for low in range(0, len(y), BLOCK):
        block = slice(low, low + BLOCK)
        if low:
            wrong[block] = model.predict(X[block]) != y[block]
        model.partial_fit(X[block], y[block], classes=[0, 1])
    return model, wrong, np.repeat([record["error"] for record in meter.records], BLOCK)


def trees(X, y):
    """Return the mistakes of an adaptive Hoeffding tree and of an adaptive random forest."""
    tree = pytest.importorskip("river.tree")
    forest = pytest.importorskip("river.forest")
    wrong = {
        "adaptive tree": tree.HoeffdingAdaptiveTreeClassifier(seed=0),
        "ARF": forest.ARFClassifier(seed=0),
    }
    for name, model in wrong.items():
        mistakes = []
        for row, label in zip(X.tolist(), y.tolist()):
            x = dict(enumerate(row))
            mistakes.append(model.predict_one(x) != label)
            model.learn_one(x, label)
        wrong[name] = np.array(mistakes, dtype=np.float64)
    return wrong


def best_sgd(model, X, y):
    """Return the errors of SGD, with its best rate, on columns and Fourier features of a model."""
    inner = model.model_
    examples = model._task().read(TrainingBlock(X, y), False)
    tokens = inner.codec.encode(examples, inner.trainer).tokens
    maps = [bank for bank in inner.trainer.banks if isinstance(bank, FeatureMapBank)]
    Z = np.hstack([X, *(bank.features_of(tokens, np.arange(len(y))) for bank in maps)])
    return min((sgd(Z, 2.0 * y - 1.0, rate) for rate in RATES), key=np.mean)


def percent(wrong, range_name):
    """Percent of errors in one of the :data:`RANGES`."""
    low, high = RANGES[range_name]
    return 100 * wrong[low:high].mean()


@pytest.mark.study
@pytest.mark.parametrize("name", STREAMS)
def test_drift(measure, name, monkeypatch, capsys):
    X, y = STREAMS[name]()
    model, errors, last = learned(X, y)
    changes = []
    for record in model.history_:
        changes += record.get("changes", [])
    rivals = {"omkl": errors, "last iterate": last, "omkl, crf": learned(X, y, loss="crf")[1]}
    with monkeypatch.context() as without:
        without.setattr(OnlineTrainer, "watch", lambda trainer: None)
        rivals["average of all"] = learned(X, y)[1]
    rivals |= {"SGD, best rate": best_sgd(model, X, y), **trees(X, y)}
    with capsys.disabled():
        print(f"\n{name}: percent of errors; changes found at {changes}")
        for rival, wrong in rivals.items():
            cells = [f"{range_name} {percent(wrong, range_name):5.2f}" for range_name in RANGES]
            print(f"{rival:>15} | {' | '.join(cells)}")
    kernels = ["linear", "gaussian:features=100"]
    measure(lambda: OnlineMKLClassifier(kernels, random_state=0).partial_fit(X, y))
    mean = {rival: percent(wrong, "all") for rival, wrong in rivals.items()}
    measure.note(
        error=mean["omkl"],
        average_of_all=mean["average of all"],
        sgd=mean["SGD, best rate"],
        arf=mean["ARF"],
    )
