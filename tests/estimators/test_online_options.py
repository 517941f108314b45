"""What all online estimators share: mini-batches, strongly convex losses, dual coefficients, weighted histories."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import omkl
from omkl.exceptions import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("average", ["quadratic", None])
@pytest.mark.parametrize("budget", [None, 20])
def test_dual_coefficients_and_support_vectors_are_the_decision_function(average, budget):
    model = omkl.OnlineMKLClassifier(
        ["gaussian:sigma2=0.5", "gaussian:sigma2=4"],
        fit_intercept=False,
        average=average,
        budget=budget,
        dtype="float64",
        random_state=0,
    ).fit(X, Y)
    total = 0.0
    assert len(model.dual_coef_) == 2
    for (name, A), sigma2 in zip(sorted(model.dual_coef_.items()), [0.5, 4.0]):
        vectors = model.support_vectors_[name]
        assert A.shape == (len(vectors), 1)
        total = total + np.exp(-cdist(X, vectors, "sqeuclidean") / (2 * sigma2)) @ A[:, 0]
    assert_allclose(model.decision_function(X), total, atol=1e-8)


@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_batches_reach_the_same_optimum(method):
    models = [
        omkl.OnlineMKLClassifier("linear", C=0.1, method=method, epochs=300, batch_size=b, random_state=0)
        for b in (1, 7)
    ]
    first, second = (model.fit(X, X[:, 0] > 0).decision_function(X) for model in models)
    assert_allclose(first, second, atol=0.05)
    assert models[1].history_[-1]["examples"] == 60


def test_batches_in_one_shard_are_those_of_a_serial_fit_and_partial_fit_has_them_too():
    models = [
        omkl.OnlineMKLClassifier("quadratic", epochs=3, batch_size=8, shuffle=False, n_examples=60, random_state=0)
        for _ in range(2)
    ]
    models[0].fit(X, Y)
    for _ in range(3):
        models[1].partial_fit(X, Y)
    assert_allclose(models[0].decision_function(X), models[1].decision_function(X), atol=1e-9)


def test_a_strongly_convex_loss_is_ridge():
    """All of the regularization in the loss: the optimum is that of the plain SVM at the same C."""
    loss = omkl.OnlineMKLClassifier("linear", regularizer=None, l2=0.2, epochs=300, random_state=0).fit(X, X[:, 0] > 0)
    prox = omkl.OnlineMKLClassifier("linear", regularizer="ridge", C=1 / (0.2 * 60), epochs=300, random_state=0)
    prox.fit(X, X[:, 0] > 0)
    assert np.mean((loss.decision_function(X) > 0) == (X[:, 0] > 0)) > 0.95
    assert np.corrcoef(loss.decision_function(X), prox.decision_function(X))[0, 1] > 0.99


def test_options_are_checked():
    with pytest.raises(InputError):
        omkl.OnlineMKLClassifier(batch_size=0).fit(X, Y)
    with pytest.raises(InputError):
        omkl.OnlineMKLClassifier(l2=-1.0).fit(X, Y)


def test_the_history_has_the_weighted_mean_of_the_losses():
    halves, ones = (
        omkl.OnlineMKLClassifier("linear", epochs=2, C=C, random_state=0).fit(X, Y, sample_weight=np.full(60, w))
        for w, C in ((0.5, 2.0), (1.0, 1.0))
    )
    assert_allclose([r["loss"] for r in halves.history_], [r["loss"] for r in ones.history_], rtol=1e-9)
