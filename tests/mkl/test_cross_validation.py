"""Cross-validation as scikit-learn's grid search does it, and stability selection against fits one
by one.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.metrics import accuracy_score, get_scorer, log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

import omkl
from omkl import MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, per_column

from ..cases import slow
from .test_mkl import WEIGHT_CHECKS

KERNELS = {
    "wide": "gaussian:sigma2=20",
    "narrow": "gaussian:sigma2=2",
    "linear": "linear:normalize=None",
}
CS = [0.01, 0.1, 1.0, 10.0]


#: C is chosen for the log-loss of noise, in which all classes count alike.
BY_LOSS = {
    "check_class_weight_classifiers": "C is chosen by log-loss, whatever the weights of the classes"
}


def failing_checks(model):
    if isinstance(model, MKLClassifierCV):
        return WEIGHT_CHECKS | BY_LOSS
    return WEIGHT_CHECKS


@pytest.mark.slow
@parametrize_with_checks(
    [MKLClassifierCV(Cs=4, cv=3), MKLRegressorCV(Cs=4, cv=3)],
    expected_failed_checks=failing_checks,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:150]
    return (X - X.mean(axis=0)) / X.std(axis=0), y[:150]


def searched(estimator, X, y, **options):
    """Return the result of scikit-learn's grid search, and its scores (n_folds, n_Cs)."""
    search = GridSearchCV(estimator, {"C": CS}, **options).fit(X, y)
    n_folds = search.n_splits_
    return search, np.array([search.cv_results_[f"split{k}_test_score"] for k in range(n_folds)])


@pytest.mark.parametrize(
    ("scoring", "n_jobs"),
    [
        ("accuracy", None),
        ("neg_log_loss", 2),
        slow("roc_auc", None),
        slow("accuracy", 2),
        slow("neg_log_loss", None),
        slow("roc_auc", 2),
    ],
)
def test_two_classes_are_scored_as_grid_search_scores_them(cancer, scoring, n_jobs):
    X, y = cancer
    search, scores = searched(MKLClassifier(KERNELS, tol=1e-7), X, y, scoring=scoring, cv=4)
    model = MKLClassifierCV(KERNELS, Cs=CS, tol=1e-7, scoring=scoring, cv=4, n_jobs=n_jobs).fit(
        X, y
    )
    assert_allclose(model.scores_, scores, atol=1e-4)
    assert search.best_params_["C"] == model.C_
    assert [record["mean_score"] for record in model.cv_results_] == pytest.approx(
        scores.mean(axis=0), abs=1e-4
    )
    assert_array_equal(model.dual_coef_, search.best_estimator_.dual_coef_)
    assert model.kernel_weights_ == search.best_estimator_.kernel_weights_
    assert_array_equal(model.predict_proba(X), search.best_estimator_.predict_proba(X))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"multiclass": "ovr"}, {"class_weight": "balanced"}])
@pytest.mark.parametrize("cv", [3, KFold(3)], ids=["stratified", "every fold lacks a class"])
def test_several_classes_are_scored_as_grid_search_scores_them(settings, cv):
    """Iris is sorted by class: plain folds train on two of three, one against the other."""
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    search, scores = searched(
        MKLClassifier(KERNELS, tol=1e-6, **settings),
        X,
        names,
        cv=cv,
    )
    model = MKLClassifierCV(KERNELS, Cs=CS, tol=1e-6, cv=cv, scoring="accuracy", **settings).fit(
        X, names
    )
    assert_allclose(model.scores_, scores, atol=1e-12)
    assert search.best_params_["C"] == model.C_
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]


def expected_choice(grid, Cs):
    """Return the most accurate C whose log-loss is the least up to a standard error, of folds of
    equal size.
    """
    losses, right = grid
    means = losses.mean(axis=1)
    best = int(means.argmin())
    differences = losses - losses[best]
    errors = differences.std(axis=1) / np.sqrt(losses.shape[1])
    tied = np.flatnonzero(means - means[best] <= errors)
    return Cs[max(tied, key=lambda k: (right[k].mean(), -means[k]))]


@pytest.mark.slow
@pytest.mark.parametrize("data", [load_breast_cancer, load_iris])
def test_classifiers_choose_by_log_loss_and_in_doubt_by_accuracy(data):
    X, y = data(return_X_y=True)
    X = X[::3]
    y = y[::3]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = y
    n = len(y) - len(y) % 5
    X = X[:n]
    y = y[:n]
    cv = KFold(5, shuffle=True, random_state=0)
    Cs = np.geomspace(0.03, 3e4, 7)
    model = MKLClassifierCV(KERNELS, Cs=Cs, tol=1e-6, cv=cv).fit(X, y)
    losses, right = np.zeros((2, 7, n))
    for train, test in cv.split(X):
        for k, C in enumerate(Cs):
            alone = MKLClassifier(KERNELS, C=C, tol=1e-6).fit(X[train], y[train])
            of_classes = alone.predict_proba(X[test])[np.arange(len(test)), y[test]]
            losses[k, test] = -np.log(np.maximum(of_classes, np.finfo(float).eps))
            right[k, test] = alone.predict(X[test]) == y[test]
    means = [record["mean_score"] for record in model.cv_results_]
    assert_allclose(means, -losses.mean(axis=1), atol=2e-4)
    assert pytest.approx(expected_choice((losses, right), Cs)) == model.C_


def test_labels_are_scored_by_their_mean_log_loss(cancer):
    X, y = cancer
    labels = np.column_stack([y, X[:, 0] > 0.0, X[:, 1] > 0.5]).astype(int)
    settings = {"Cs": CS, "tol": 1e-7, "cv": KFold(3), "weighting": "norms"}
    joint = MKLClassifierCV(KERNELS, multiclass="ovr", **settings).fit(X, labels)
    single = [MKLClassifierCV(KERNELS, **settings).fit(X, column).scores_ for column in labels.T]
    assert_allclose(joint.scores_, np.mean(single, axis=0), atol=1e-4)


@pytest.mark.parametrize("form", [MKLClassifierCV, MKLRegressorCV])
def test_the_first_C_is_that_of_a_single_model_and_the_best_has_neighbours(form):
    X = np.random.default_rng(0).normal(size=(90, 3))
    y = X[:, 0] + np.sin(3.0 * X[:, 1])
    y = y > 0.0 if form is MKLClassifierCV else y
    search = form().fit(X, y)
    natural = (MKLClassifier if form is MKLClassifierCV else MKLRegressor)().fit(X, y).C_
    assert natural in search.Cs_
    assert len(search.Cs_) == 4 or search.Cs_[0] < search.C_ < search.Cs_[-1]
    assert_allclose(np.diff(np.log(search.Cs_)), np.log(5.0))
    assert_allclose(
        [len(search.cv_results_), *search.scores_.shape], [len(search.Cs_), 3, len(search.Cs_)]
    )


def test_the_default_is_no_less_accurate_than_a_single_model():
    """C was chosen by accuracy alone, which is flat where log-loss is not."""
    for data in (load_iris, load_breast_cancer, load_wine):
        X, y = data(return_X_y=True)
        X, held_out, y, truth = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
        single = MKLClassifier().fit(X, y)
        search = MKLClassifierCV().fit(X, y)
        assert search.score(held_out, truth) >= single.score(held_out, truth) - 0.01
        worse = log_loss(truth, search.predict_proba(held_out)) - log_loss(
            truth, single.predict_proba(held_out)
        )
        assert worse < 0.05


def test_numbers_are_scored_as_grid_search_scores_them():
    X, y = (part[:150] for part in load_diabetes(return_X_y=True))
    kernels = ["gaussian:sigma2=0.02", "linear"]
    for scoring in (None, "r2", "neg_mean_absolute_error"):
        alone = MKLRegressor(["gaussian:sigma2=0.02", "linear:normalize=None"], tol=1e-8)
        search, scores = searched(alone, X, y, scoring=scoring or "neg_mean_squared_error", cv=4)
        model = MKLRegressorCV(
            ["gaussian:sigma2=0.02", "linear:normalize=None"],
            Cs=CS,
            tol=1e-8,
            cv=4,
            scoring=scoring,
        ).fit(X, y)
        assert_allclose(model.scores_, scores, rtol=1e-4, atol=1e-4)
        assert search.best_params_["C"] == model.C_
    assert MKLRegressorCV(kernels, Cs=3).fit(X, y).score(X, y) > 0.3


def test_kernels_that_do_not_fit_into_memory_are_searched_alike(cancer, monkeypatch):
    X, y = cancer
    settings = {"Cs": CS, "tol": 1e-6, "cv": 3, "scoring": "neg_log_loss", "n_jobs": 2}
    plain = MKLClassifierCV(KERNELS, **settings).fit(X, y)
    monkeypatch.setattr("omkl.mkl.kernel_sources.packed_bytes_fit", lambda *_: False)
    with pytest.warns(omkl.exceptions.MemoryWarning, match="every pass"):
        lazy = MKLClassifierCV(KERNELS, **settings).fit(X, y)
    assert_allclose(lazy.scores_, plain.scores_, atol=1e-4)
    monkeypatch.undo()
    monkeypatch.setattr("omkl.mkl.training.packed_bytes_fit", lambda *_: False)
    viewed = MKLClassifierCV(KERNELS, **settings).fit(X, y)
    assert_allclose(viewed.scores_, plain.scores_, atol=1e-4)


def test_weights_count_in_losses_and_scores(cancer, rng):
    """Weights of folds that are the same are those of copies."""
    X, y = cancer
    weights = rng.integers(0, 4, size=len(y))
    fold = np.arange(len(y)) % 3
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    settings = {"Cs": CS, "tol": 1e-7, "scoring": "neg_log_loss"}
    weighted = MKLClassifierCV(KERNELS, cv=splits, **settings).fit(X, y, weights)
    copies = np.repeat(np.arange(len(y)), weights)
    fold = np.repeat(fold, weights)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    copied = MKLClassifierCV(KERNELS, cv=splits, **settings).fit(X[copies], y[copies])
    assert_allclose(weighted.scores_, copied.scores_, atol=1e-4)
    assert weighted.C_ == copied.C_


def test_groups_stay_together(cancer):
    X, y = cancer
    groups = np.arange(len(y)) // 10
    settings = {"cv": GroupKFold(3), "tol": 1e-6, "scoring": "accuracy"}
    model = MKLClassifierCV(KERNELS, Cs=CS, **settings).fit(X, y, groups=groups)
    search = GridSearchCV(MKLClassifier(KERNELS, tol=1e-6), {"C": CS}, cv=GroupKFold(3)).fit(
        X, y, groups=groups
    )
    assert_allclose(
        model.scores_.mean(axis=0),
        search.cv_results_["mean_test_score"],
        atol=1e-12,
    )
    with pytest.raises(ValueError, match="inconsistent"):
        MKLClassifierCV(KERNELS, cv=GroupKFold(3)).fit(X, y, groups=groups[:-1])


def test_a_score_that_is_undefined_is_left_out_of_means(cancer):
    X, y = cancer
    ones = np.flatnonzero(y == 1)[:10]
    rest = np.setdiff1d(np.arange(len(y)), ones)
    splits = [(rest, ones), (rest[::2], rest[1::2])]
    with pytest.warns(UserWarning, match="1 of 2 folds"):
        model = MKLClassifierCV(KERNELS, Cs=CS, cv=splits, scoring="roc_auc").fit(X, y)
    assert np.isnan(model.scores_[0]).all()
    assert_allclose([record["mean_score"] for record in model.cv_results_], model.scores_[1])
    with (
        pytest.raises(InputError, match="undefined in every fold"),
        pytest.warns(UserWarning, match="Only one class"),
    ):
        MKLClassifierCV(KERNELS, Cs=CS, cv=splits[:1], scoring="roc_auc").fit(X, y)


def test_a_number_of_Cs_spans_the_path(cancer):
    X, y = cancer
    model = MKLClassifierCV(KERNELS, Cs=5, cv=3, regularizer="block1").fit(X, y)
    path = MKLClassifier(KERNELS, regularizer="block1").path(X, y, C=5)
    assert_allclose(model.Cs_, [record["C"] for record in path])
    assert model.scores_.shape == (3, 5)
    assert model.cv_results_[0]["active"] == 0.0
    assert all(abs(record["dual_gap"]) <= 1e-2 for record in model.cv_results_)
    records = model.path(X, y, C=[model.C_])
    assert isinstance(records[0]["model"], MKLClassifier)
    assert_array_equal(records[0]["model"].predict(X), model.predict(X))


def test_a_scorer_of_ones_own(cancer):
    X, y = cancer
    settings = {"Cs": CS, "cv": 3}
    named = MKLClassifierCV(KERNELS, scoring="accuracy", **settings).fit(X, y)

    def accuracy(model, X, y):
        return accuracy_score(y, model.predict(X))

    for scoring in (accuracy, get_scorer("accuracy")):
        assert_array_equal(
            MKLClassifierCV(KERNELS, scoring=scoring, **settings).fit(X, y).scores_, named.scores_
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"Cs": []}, "number of values"),
        ({"Cs": [1.0, -1.0]}, "number of values"),
        ({"Cs": 0}, "number of values"),
        ({"Cs": "ten"}, "number of values"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"loss": "hinge", "scoring": "neg_log_loss"}, "MKLClassifierCV has none .* predict_proba"),
        ({"scoring": ["accuracy", "f1"]}, "scoring must be"),
        ({"cv": [([], [3, 4])]}, "must have folds"),
        (
            {"cv": [(np.arange(19), np.arange(20, 150))]},
            "a part of y that a fold trains on holds one class only",
        ),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(cancer, settings, message):
    with pytest.raises(InputError, match=message):
        MKLClassifierCV(KERNELS, **settings).fit(*cancer)


@pytest.mark.parametrize("estimator", [MKLClassifierCV, MKLRegressorCV])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scoring": "foo"}, "scoring must be the name of a score"),
        ({"scoring": accuracy_score}, "make_scorer"),
        ({"cv": 1}, "cv=1 does not cut 150 samples"),
        ({"cv": "x"}, "cv='x' does not cut"),
        ({"cv": 151}, "cv=151 does not cut"),
        ({"cv": []}, r"cv=\[\] must have folds"),
        ({"cv": [([0, 1], [150])]}, "cv=.* index 150"),
        ({"cv": GroupKFold(3)}, "cv=GroupKFold.* 'groups'"),
    ],
)
def test_folds_and_scores_are_refused_before_anything_is_solved(
    cancer, estimator, settings, message, monkeypatch
):
    monkeypatch.setattr("omkl.mkl.training.TrainingSet.problems", None)
    with pytest.raises(InputError, match=message):
        estimator(KERNELS, **settings).fit(*cancer)


def columns(X):
    return {f"column {j}": Gaussian(1.0, on=slice(j, j + 1)) for j in range(X.shape[1])}


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(81, 12))
    return X, (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=81) > 0).astype(int)


def test_paths_of_one_column_kernels_converge(cancer):
    """The first models of a warm start at a small C were worse than the start, and taken for no
    progress.
    """
    X, y = load_breast_cancer(as_frame=True, return_X_y=True)
    X, _, y, _ = train_test_split(X, y, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cs = [0.011, 0.0296, 0.08, 0.3, 1.5, 4.0]
        search = MKLClassifierCV(per_column("gaussian", X), regularizer="block1", Cs=Cs, cv=3)
        search.fit(X, y)
    assert max(record["dual_gap"] for record in search.cv_results_) < 0.01
    assert search.cv_results_[1]["mean_score"] > -0.4


def test_a_best_value_at_the_end_of_the_grid_is_named(cancer):
    X, y = cancer
    with pytest.warns(UserWarning, match="The best C, 0.02, is the largest of the grid"):
        MKLClassifierCV(KERNELS, Cs=[0.0001, 0.02], cv=3).fit(X, y)


def test_a_grid_of_the_estimator_goes_on_where_its_largest_value_is_best():
    """The target has no noise, so that large values of C are best."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = X[:, 0] + np.sin(X[:, 1])
    short = MKLRegressorCV(KERNELS, Cs=3, cv=3).fit(X, y)
    assert len(short.Cs_) == 5
    assert short.Cs_[2] < short.C_
    assert_allclose(np.diff(np.log(short.Cs_)), np.log(1e3) / 2)


@pytest.mark.parametrize(
    ("form", "kernels", "regularizer"),
    [
        (MKLClassifierCV, per_column("gaussian", 4, pairs=[(0, 1)]), "elastic-net"),
        (MKLClassifierCV, ["linear", "gaussian"], None),
        (MKLRegressorCV, per_column("gaussian", 4), None),
    ],
)
def test_classifiers_with_kernels_on_columns_take_the_elastic_net(form, kernels, regularizer):
    X, y = load_iris(return_X_y=True)
    searched = form(kernels, Cs=[1.0], cv=2).fit(X, y)
    expected = form(kernels, Cs=[1.0], cv=2, regularizer=regularizer).fit(X, y)
    other = form(kernels, Cs=[1.0], cv=2, regularizer="mkl", weighting="out-of-sample").fit(X, y)
    assert searched.kernel_weights_ == (other if regularizer is None else expected).kernel_weights_
    assert (searched.kernel_weights_ == other.kernel_weights_) == (regularizer is None)
    (point,) = searched.path(X, y, [1.0])
    assert clone(point["model"]).fit(X, y).kernel_weights_ == pytest.approx(
        searched.kernel_weights_
    )
