"""What all online estimators share: dual coefficients, weighted histories."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import omkl

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


def test_the_history_has_the_weighted_mean_of_the_losses():
    halves, ones = (
        omkl.OnlineMKLClassifier("linear", epochs=2, C=C, random_state=0).fit(X, Y, sample_weight=np.full(60, w))
        for w, C in ((0.5, 2.0), (1.0, 1.0))
    )
    assert_allclose([r["loss"] for r in halves.history_], [r["loss"] for r in ones.history_], rtol=1e-9)
