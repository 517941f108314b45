"""MKLClassifier on labels, several for a sample, and MKLRegressor on several targets: kernels are shared."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_linnerud, make_multilabel_classification
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from omkl import MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from omkl.exceptions import InputError
from omkl.kernels import Gaussian

KERNELS = {"narrow": Gaussian(4.0), "wide": Gaussian(40.0), "linear": "linear:normalize=None"}


@pytest.fixture(scope="module")
def labelled():
    X, y = make_multilabel_classification(90, n_features=8, n_classes=3, random_state=0)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def measured():
    X, y = load_linnerud(return_X_y=True)
    return StandardScaler().fit_transform(X), StandardScaler().fit_transform(y)


def test_outputs_with_one_kernel_are_kernel_ridge_regression(measured):
    X, y = measured
    ridge = KernelRidge(alpha=0.5, kernel="rbf", gamma=1 / 8).fit(X, y)
    model = MKLRegressor([Gaussian(4.0)], C=2.0, regularizer="uniform", fit_intercept=False, tol=1e-9).fit(X, y)
    assert_allclose(model.predict(X), ridge.predict(X), atol=1e-4)
    assert model.dual_coef_.shape == (3, 1, len(X))
    assert model.intercept_.shape == (3,)


def test_the_gap_is_that_of_the_joint_objective(measured):
    """Compute primal and dual of all outputs from the attributes of the model."""
    X, y = measured
    model = MKLRegressor(KERNELS, C=3.0, regularizer="block1", tol=1e-4).fit(X, y)
    grams = [model._model.source.kernels[m](X) for m in range(3)]
    norms = [np.sqrt(sum(a @ K @ a for a in model.dual_coef_[:, m])) for m, K in enumerate(grams)]
    primal = 1.5 * np.sum((y - model.predict(X)) ** 2) + sum(norms)
    rho = np.array(model.dual_variables_)
    feasible = max(np.sqrt(sum(r @ K @ r for r in rho)) for K in grams)
    assert feasible <= 1.0 + 1e-9
    assert_allclose(rho.sum(axis=1), 0.0, atol=1e-9)
    dual = np.sum(rho * y.T) - np.sum(rho**2) / 6.0
    assert dual <= primal
    assert (primal - dual) / primal <= 1e-4 * (1 + 1e-6)


def test_labels_with_one_kernel_are_binary_classifiers(labelled):
    X, y = labelled
    options = {"C": 2.0, "regularizer": "uniform", "tol": 1e-8}
    model = MKLClassifier([Gaussian(10.0)], **options).fit(X, y)
    each = [MKLClassifier([Gaussian(10.0)], **options).fit(X, column) for column in y.T]
    assert_allclose(model.decision_function(X), np.column_stack([m.decision_function(X) for m in each]), atol=1e-3)
    assert_allclose(model.predict_proba(X), np.column_stack([m.predict_proba(X)[:, 1] for m in each]), atol=1e-3)
    assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)
    from_sparse = MKLClassifier([Gaussian(10.0)], **options).fit(X, sparse.csr_array(y))
    assert_array_equal(model.predict(X), from_sparse.predict(X))


def test_one_label_after_the_other_has_the_models_of_each(labelled):
    X, y = labelled
    model = MKLClassifier(KERNELS, multiclass="ovr").fit(X, y)
    each = [MKLClassifier(KERNELS).fit(X, column).decision_function(X) for column in y.T]
    assert_allclose(model.decision_function(X), np.column_stack(each), rtol=1e-9)


def test_labels_of_all_or_none_are_predicted_so(labelled, reloaded):
    X, y = labelled
    y = np.column_stack([np.zeros(len(y), int), y, np.ones(len(y), int)])
    with pytest.warns(UserWarning, match="2 of 5 labels .* columns 0, 4"):
        model = MKLClassifier(KERNELS).fit(X, y)
    assert model.constant_labels_ == {0: False, 4: True}
    assert_array_equal(model.predict(X)[:, [0, 4]], y[:, [0, 4]])
    assert_array_equal(model.predict(X)[:, 1:4], MKLClassifier(KERNELS).fit(X, y[:, 1:4]).predict(X))
    assert_array_equal(reloaded(model).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", ["labels", "targets"])
def test_cross_validation_is_that_of_grid_search(labelled, measured, kind):
    (X, y), Cs = (labelled if kind == "labels" else measured), [0.05, 1.0, 20.0]
    single, search = (MKLClassifier, MKLClassifierCV) if kind == "labels" else (MKLRegressor, MKLRegressorCV)
    grid = GridSearchCV(single(KERNELS, tol=1e-7), {"C": Cs}, cv=3).fit(X, y)
    model = search(KERNELS, Cs=Cs, cv=3, tol=1e-7).fit(X, y)
    assert_allclose(model.scores_.mean(axis=0), grid.cv_results_["mean_test_score"], atol=1e-4)
    assert grid.best_params_["C"] == model.C_
    assert_array_equal(model.predict(X), grid.predict(X))


def test_folds_may_lack_a_label(labelled):
    X, y = labelled
    y = np.column_stack([y, np.arange(len(y)) < 30])
    scores = MKLClassifierCV(KERNELS, Cs=[0.1, 1.0], cv=3, scoring="f1_micro").fit(X, y).scores_
    assert np.all((scores >= 0.0) & (scores <= 1.0))


def test_paths_and_stability_selection_take_several_outputs(labelled, measured):
    for estimator, (X, y) in ((MKLClassifier(KERNELS), labelled), (MKLRegressor(KERNELS), measured)):
        record = estimator.path(X, y, [0.1, 1.0])[1]
        assert_allclose(record["model"].predict(X), estimator.fit(X, y).predict(X), atol=0.1)
        assert set(estimator.stability_selection(X, y, [0.1, 1.0], n_pairs=2, random_state=0).selected_) <= set(KERNELS)


@pytest.mark.parametrize(
    ("settings", "make", "match"),
    [
        ({}, lambda y: y + 1, "labels that a sample has or not"),
        ({"class_weight": "balanced"}, lambda y: y, "class_weight"),
        ({}, lambda y: np.ones_like(y), "must hold 0 and 1"),
    ],
)
def test_invalid_labels_are_refused(labelled, settings, make, match):
    X, y = labelled
    with pytest.raises(InputError, match=match):
        MKLClassifier(KERNELS, **settings).fit(X, make(y))
