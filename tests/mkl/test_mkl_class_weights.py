"""Weights of classes and of examples of MKLClassifier and MKLRegressor are those of scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import recall_score
from sklearn.svm import SVC

from omkl import MKLClassifier, MKLRegressor
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, GramMatrices

from .conftest import KERNELS, grams_of


@pytest.fixture(scope="module")
def few_positives():
    rng = np.random.default_rng(0)
    y = (rng.random(2400) < 0.03).astype(int)
    X = rng.normal(size=(2400, 4))
    X[:, :2] += 1.5 * y[:, None]
    return X[:600], y[:600], X[600:], y[600:]


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_few_are_found_at_default_kernels_and_C(loss):
    """The default kernels are not so narrow that they memorize samples."""
    svm, ours = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for n_columns in (4, 10):
            y = (rng.random(1600) < 0.03).astype(int)
            X = rng.normal(size=(1600, n_columns))
            X[:, :2] += 1.5 * y[:, None]
            found = (
                recall_score(y[400:], model.fit(X[:400], y[:400]).predict(X[400:]))
                for model in (SVC(class_weight="balanced"), MKLClassifier(loss=loss, class_weight="balanced"))
            )
            for values, recall in zip((svm, ours), found):
                values.append(recall)
    assert np.mean(ours) > 0.7 * np.mean(svm)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.5, 1: 3.0}, {1: 7.0}])
def test_class_weights_are_those_of_scikit_learn(few_positives, class_weight):
    X, y, new, _ = few_positives
    settings = {"loss": "hinge", "regularizer": "uniform", "tol": 1e-6, "class_weight": class_weight}
    ours = MKLClassifier([Gaussian(10.0)], **settings).fit(X, y).decision_function(new)
    svm = SVC(gamma=0.05, class_weight=class_weight, tol=1e-8).fit(X, y)
    assert_allclose(ours, svm.decision_function(new), atol=5e-3)


@pytest.mark.parametrize(
    "estimator",
    [
        MKLClassifier(KERNELS, C=2.0, tol=1e-7),
        MKLClassifier(KERNELS, loss="hinge", regularizer="block1", tol=1e-6),
        MKLClassifier(KERNELS, loss="hinge", solver="simplemkl", tol=1e-6),
        MKLRegressor(KERNELS, tol=1e-7),
        MKLRegressor(KERNELS, solver="hessianmkl", tol=1e-7),
        MKLRegressor(KERNELS, solver="fista", tol=1e-7),
    ],
    ids=str,
)
@pytest.mark.parametrize("precomputed", [False, True])
def test_whole_weights_are_repetitions_and_zeros_leave_out(cancer, estimator, precomputed):
    X, y = cancer
    y = y if isinstance(estimator, MKLClassifier) else np.sin(X[:, 0])
    train, test = slice(0, 80), slice(80, None)
    weights = np.random.default_rng(0).integers(0, 3, size=80)
    repeated = np.repeat(np.arange(80), weights)
    if precomputed:
        estimator = clone(estimator).set_params(kernels="precomputed")
        grams, cross = GramMatrices(grams_of(X[train], X[train])), GramMatrices(grams_of(X[train], X[test]))
        weighted = clone(estimator).fit(grams, y[train], sample_weight=weights).predict(cross)
        again = clone(estimator).fit(grams[np.ix_(repeated, repeated)], y[repeated])
        expected = again.predict(cross[np.ix_(np.arange(len(X) - 80), repeated)])
    else:
        # kernels that learn nothing from the samples
        estimator = clone(estimator).set_params(kernels=[Gaussian(2.0), Gaussian(50.0)])
        weighted = clone(estimator).fit(X[train], y[train], sample_weight=weights).predict(X[test])
        expected = clone(estimator).fit(X[repeated], y[repeated]).predict(X[test])
    assert_allclose(weighted, expected, atol=2e-3)


def test_a_class_that_is_not_there_has_no_weight(cancer):
    X, y = cancer
    with pytest.raises(InputError, match=r"got \{'yes': 9.0"):
        MKLClassifier(KERNELS, class_weight={"yes": 9.0}).fit(X, y)
    # a fold may lack a class
    MKLClassifier(KERNELS, class_weight={0: 1.0, 1: 2.0, 2: 3.0}).fit(X, y)
