"""Flat estimators inside scikit-learn's tools: pipelines, columns of a frame, searches, calibration, importance."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn import set_config
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import omkl

CLASSIFIERS = [
    omkl.MKLClassifier(["linear", "gaussian"], C=3.0),
    omkl.MKLClassifierCV(["linear", "gaussian"], Cs=[1.0, 10.0], cv=3),
    omkl.OnlineMKLClassifier(["linear", "gaussian"], epochs=5, random_state=0),
    omkl.SparseLogisticRegression(0.01),
    omkl.SparseLogisticRegressionCV([0.1, 0.01], cv=3),
]
REGRESSORS = [
    omkl.MKLRegressor(["linear", "gaussian"], C=3.0),
    omkl.MKLRegressorCV(["linear", "gaussian"], Cs=[1.0, 10.0], cv=3),
    omkl.OnlineMKLRegressor(["linear", "gaussian"], epochs=5, random_state=0),
    omkl.GroupLasso(0.01),
    omkl.GroupLassoCV([0.1, 0.01], cv=3),
]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=90), "noise": rng.normal(size=90), "b": rng.choice(["u", "v", "w"], 90)})
    return X, X["a"] + 2.0 * (X["b"] == "u")


def of_columns(estimator):
    numbers, words = ("scaled", StandardScaler(), ["a", "noise"]), ("words", OneHotEncoder(), ["b"])
    return make_pipeline(ColumnTransformer([numbers, words], sparse_threshold=0.0), clone(estimator))


@pytest.mark.parametrize("estimator", CLASSIFIERS + REGRESSORS, ids=lambda estimator: type(estimator).__name__)
def test_pipelines_of_columns_are_cross_validated_and_their_columns_ranked(table, estimator):
    X, target = table
    y = np.where(target > 1.0, "high", "low") if is_classifier(estimator) else target
    model = of_columns(estimator)
    found = cross_validate(model, X, y, cv=3, return_estimator=True)
    assert found["test_score"].mean() > (0.85 if is_classifier(estimator) else 0.7)
    importances = permutation_importance(found["estimator"][0], X, y, n_repeats=3, random_state=0).importances_mean
    assert importances[1] < min(importances[0], importances[2])


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_classifiers_are_calibrated(estimator, method):
    X, y = load_iris(return_X_y=True)
    model = CalibratedClassifierCV(clone(estimator), cv=2, method=method).fit(X, y)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.85


def test_ensembles_are_made_of_them():
    X, y = load_iris(return_X_y=True)
    models = [(type(model).__name__, clone(model)) for model in CLASSIFIERS[::3]]
    assert VotingClassifier(models, voting="soft").fit(X, y).score(X, y) > 0.9
    assert StackingClassifier(models, cv=2).fit(X, y).score(X, y) > 0.9


def test_weights_are_routed():
    X, y = load_iris(return_X_y=True)
    weights = np.where(y == 2, 0.0, 1.0)
    set_config(enable_metadata_routing=True)
    try:
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = make_pipeline(scaler, omkl.MKLClassifier(["linear"]).set_fit_request(sample_weight=True))
        assert model.fit(X, y, sample_weight=weights)[-1].classes_.tolist() == [0, 1]
    finally:
        set_config(enable_metadata_routing=False)
