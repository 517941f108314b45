"""Combinations of online settings give equal models as columns and as kernels."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from omkl import OnlineMKLClassifier, OnlineMKLRegressor
from omkl.exceptions import InputError
from omkl.kernels import Linear

RNG = np.random.default_rng(0)
X = RNG.normal(size=(36, 4))
SCORE = X[:, 0] - 0.7 * X[:, 1] + 0.3 * RNG.normal(size=36)
TARGETS = {"binary": SCORE > 0, "ternary": np.digitize(SCORE, [-0.5, 0.5]), "numbers": SCORE}

ONLINE = {
    "target": ["binary", "ternary", "numbers"],
    "loss": ["hinge", "crf", "perceptron", "squared", "huber:delta=0.5", "epsilon-insensitive:epsilon=0.1"],
    "regularizer": ["mkl", "l2", "group-lasso", "elastic-net:mu=0.3", "lq:q=1.5", None],
    "method": ["fobos", "rda"],
    "average": ["quadratic", "uniform", "last", "polynomial:power=3"],
    "weighting": ["norms", "out-of-sample"],
    "schedule": [None, "sqrt", "constant", "inverse-time"],
    "radius": [None, 2.0],
}


def settings_of(values):
    """Parameters of an estimator, of one value for each of :data:`ONLINE`."""
    parameters = dict(zip(ONLINE, values))
    target, schedule = parameters.pop("target"), parameters["schedule"]
    parameters["eta0"] = "auto" if schedule is None else 0.1
    kind = OnlineMKLRegressor if target == "numbers" else OnlineMKLClassifier
    known = kind().get_params(deep=False)
    refused = [name for name, value in parameters.items() if name not in known and value != ONLINE[name][0]]
    return kind, TARGETS[target], {name: value for name, value in parameters.items() if name in known}, refused


def looked_up(rows, columns):
    """The linear kernel of X, as a matrix that inputs are indices of."""
    return (X @ X.T)[np.ix_(rows[:, 0].astype(int), columns[:, 0].astype(int))]


def check_online(values):
    """Returns whether the combination is one that is learned."""
    kind, y, parameters, refused = settings_of(values)
    if refused:
        return False
    found = []
    for kernel, inputs in ((Linear(normalize=None), X), (looked_up, np.arange(36.0)[:, None])):
        model = kind([kernel], **parameters, epochs=2, shuffle=False, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                model.fit(inputs, y)
            except InputError as refusal:
                found.append(str(refusal))
                continue
        assert sum(model.kernel_weights_.values()) == pytest.approx(1.0) or not any(model.kernel_weights_.values())
        found.append(model.decision_function(inputs) if y is not SCORE else model.predict(inputs))
        assert np.isfinite(found[-1]).all()
    if isinstance(found[0], str) or isinstance(found[1], str):
        assert all(isinstance(sentence, str) and len(sentence.splitlines()) == 1 for sentence in found)
        return False
    assert_allclose(found[0], found[1], atol=1e-7 * (1.0 + np.abs(found[1]).max()))
    return True


def drawn(options, n, seed):
    """Some of the combinations: each value of each option, beside others that are drawn."""
    rng = np.random.default_rng(seed)
    return [[values[(i + rng.integers(len(values))) % len(values)] for values in options.values()] for i in range(n)]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_online_settings_are_learned_alike_as_columns_and_as_kernels_or_refused():
    learned = [check_online(values) for values in drawn(ONLINE, 120, 0)]
    assert 20 < sum(learned) < 120
