"""SparseLogisticRegression on samples that have several labels at once: a binary model for each of them."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import GridSearchCV, KFold

from omkl import SparseLogisticRegression, SparseLogisticRegressionCV
from omkl.exceptions import InputError

X, Y = make_multilabel_classification(120, n_features=9, n_classes=3, random_state=0)
X = (X - X.mean(axis=0)) / X.std(axis=0)
GROUPS = np.repeat([0, 1, 2], 3)


def test_each_label_has_the_binary_model(reloaded):
    model = SparseLogisticRegression(0.02, groups=GROUPS, tol=1e-6).fit(X, Y)
    assert model.multilabel_
    assert model.dual_gap_ <= 1e-6
    scores = model.decision_function(X)
    for k, own in enumerate(Y.T):
        alone = SparseLogisticRegression(0.02, groups=GROUPS, tol=1e-6).fit(X, own)
        np.testing.assert_allclose(scores[:, k], alone.decision_function(X), atol=1e-9)
        np.testing.assert_allclose(model.predict_proba(X)[:, k], alone.predict_proba(X)[:, 1], atol=1e-9)
        np.testing.assert_array_equal(model.predict(X)[:, k], alone.predict(X))
    assert model.score(X, Y) == np.mean((model.predict(X) == Y).all(axis=1))
    np.testing.assert_array_equal(reloaded(model).predict_proba(X), model.predict_proba(X))
    for other in (model.fit(sparse.csr_array(X), sparse.csr_array(Y)), model.fit(aslinearoperator(X), Y)):
        np.testing.assert_allclose(other.decision_function(X), scores, atol=1e-5)
    assert model.path(X, Y, 3)[0]["coef"].shape == (3, 9)


def test_labels_of_all_or_none_and_what_explains_the_others(reloaded):
    wide = np.column_stack([np.zeros(120), Y[:, 0], np.ones(120), Y[:, 1]])
    with pytest.warns(UserWarning, match="2 of 4 labels .* columns 0, 2"):
        model = SparseLogisticRegression(0.02).fit(X, wide)
    assert model.coef_.shape == (2, 9)
    predicted = model.predict(X)
    assert not predicted[:, 0].any()
    assert predicted[:, 2].all()
    for own in (model, reloaded(model)):
        why = own.explain(X[0], target=3)
        assert sum(why.groups.values()) == pytest.approx(abs(model.decision_function(X[:1])[0, 3]))
        assert why.output == bool(predicted[0, 3])
        with pytest.raises(InputError, match="learned label"):
            own.explain(X[0], target=0)


def test_cross_validation_is_that_of_grid_search():
    alphas, cv = [0.005, 0.05, 0.2], KFold(3)
    chosen = SparseLogisticRegressionCV(alphas, cv=cv, tol=1e-6).fit(X, Y)
    grid = GridSearchCV(SparseLogisticRegression(tol=1e-6), {"alpha": alphas}, cv=cv).fit(X, Y)
    assert chosen.alpha_ == grid.best_params_["alpha"]
    by_value = {record["alpha"]: record["mean_score"] for record in chosen.cv_results_}
    np.testing.assert_allclose([by_value[a] for a in alphas], grid.cv_results_["mean_test_score"], atol=0.01)
    np.testing.assert_array_equal(chosen.predict(X), grid.predict(X))


@pytest.mark.parametrize(
    ("settings", "y", "match"),
    [
        ({"multiclass": "multinomial"}, Y, "multiclass are for classes"),
        ({"class_weight": "balanced"}, Y, "class_weight and multiclass"),
        ({}, Y + 1, "must hold 0 and 1"),
        ({}, np.ones_like(Y), "labels"),
    ],
)
def test_bad_labels_are_refused(settings, y, match):
    with pytest.raises(InputError, match=match):
        SparseLogisticRegression(0.02, **settings).fit(X, y)


def test_a_new_fit_forgets_the_labels():
    model = SparseLogisticRegression(0.02).fit(X, Y).fit(X, Y[:, 0])
    assert not model.multilabel_
    assert model.predict(X).shape == (120,)
