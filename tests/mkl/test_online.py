"""OnlineMKLClassifier and OnlineMKLRegressor; batch MKL on several labels or targets, whose kernels
are shared.
"""

import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_linnerud,
    make_multilabel_classification,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import omkl
from omkl import MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from omkl.exceptions import InputError
from omkl.groups import BudgetedExpansion
from omkl.kernels import Gaussian
from omkl.online import values_of


@pytest.mark.slow
@parametrize_with_checks(
    [
        omkl.OnlineMKLClassifier(),
        omkl.OnlineMKLClassifier(kernels=["linear"], loss="crf", method="rda"),
        omkl.OnlineMKLClassifier(
            kernels=["laplacian", "b1"],
            regularizer="elastic-net",
            epochs=5,
            budget=omkl.Budget(cache_size=0),
        ),
        omkl.OnlineMKLClassifier(kernels=["gaussian"], budget=20, epochs=10),
        omkl.OnlineMKLRegressor(),
        omkl.OnlineMKLRegressor(kernels=["linear"], loss="huber", method="rda"),
        omkl.OnlineMKLRegressor(
            kernels=["laplacian"],
            loss="epsilon-insensitive",
            regularizer="elastic-net",
            epochs=8,
            budget=omkl.Budget(cache_size=0),
        ),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_does_not_depend_on_how_zeros_and_indices_are_held(rng):
    X = np.where(
        rng.random((60, 4)) < 0.5,
        0.0,
        rng.normal(size=(60, 4)),
    )
    y = (X[:, 0] > X[:, 1]).astype(int)
    plain = sparse.csr_array(X)
    wide = plain.copy()
    stored = sparse.csr_array(np.where(X == 0.0, 1.0, X))
    wide.indices = wide.indices.astype(np.int64)
    wide.indptr = wide.indptr.astype(np.int64)
    stored.data[X.ravel() == 0.0] = 0.0
    for same, others in (
        (plain, (wide, stored, sparse.bsr_array(X))),
        (X, (np.where(X == 0.0, -0.0, X),)),
    ):
        expected = (
            omkl.OnlineMKLClassifier("linear", random_state=0).fit(same, y).decision_function(X)
        )
        for other in others:
            model = omkl.OnlineMKLClassifier("linear", random_state=0).fit(other, y)
            assert_array_equal(model.decision_function(X), expected)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits], ids=["binary", "ten classes"])
def test_accuracy_is_that_of_a_good_kernel_machine(load):
    X, y = load(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    classifier = omkl.OnlineMKLClassifier(random_state=0).fit(X_train, y_train)
    assert classifier.score(X_test, y_test) > 0.95
    assert classifier.decision_function(X).shape == (
        (len(X),) if len(classifier.classes_) == 2 else (len(X), 10)
    )


def test_sparse_input_is_dense_input():
    X, y = load_digits(return_X_y=True)
    dense = omkl.OnlineMKLClassifier("linear", epochs=omkl.Passes(3, shuffle=False)).fit(X, y)
    thin = omkl.OnlineMKLClassifier("linear", epochs=omkl.Passes(3, shuffle=False)).fit(
        sparse.csr_matrix(X), y
    )
    assert_array_equal(dense.decision_function(X), thin.decision_function(sparse.csr_array(X)))
    with pytest.raises(InputError, match="needs a dense array"):
        omkl.OnlineMKLClassifier("gaussian").fit(sparse.csr_matrix(X), y)
    with pytest.raises(InputError, match="needs a dense array"):
        omkl.OnlineMKLClassifier("gaussian", epochs=1).fit(X, y).predict(sparse.csr_matrix(X))


def test_probabilities_are_those_of_the_crf_loss():
    X, y = load_iris(return_X_y=True)
    classifier = omkl.OnlineMKLClassifier("linear", loss="crf", random_state=0).fit(X, y)
    assert_allclose(classifier.predict_proba(X).sum(axis=1), 1.0)
    binary = omkl.OnlineMKLClassifier("linear", loss="crf", random_state=0).fit(X, y > 0)
    z = binary.decision_function(X)
    assert_allclose(
        binary.predict_proba(X)[:, 1],
        1 / (1 + np.exp(-z)),
    )
    assert not hasattr(omkl.OnlineMKLClassifier(loss="hinge"), "predict_proba")


def test_a_costlier_mistake_gets_a_wider_margin():
    """Separable classes: the margin between two classes grows with the cost of confusing them."""
    X, y = load_iris(return_X_y=True)
    X = np.eye(3)[y]
    y = y
    cost = np.ones((3, 3)) - np.eye(3)
    cost[2, 0] = cost[0, 2] = 4
    margins = []
    for costs in (None, cost):
        scores = (
            omkl.OnlineMKLClassifier("linear", loss="hinge", C=100, cost=costs, random_state=0)
            .fit(X, y)
            .decision_function(np.eye(3))
        )
        margins.append(scores[2, 2] - scores[2, 0])
        assert (scores.argmax(axis=1) == [0, 1, 2]).all()
    assert margins[1] > 2 * margins[0]


def test_more_classes_than_the_examples_have_are_declared():
    X, y = load_iris(return_X_y=True)
    model = omkl.OnlineMKLClassifier(epochs=2, random_state=0).fit(
        X[y > 0], y[y > 0], classes=np.arange(4)
    )
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.decision_function(X).shape == (150, 4)
    with pytest.raises(InputError, match="2 must be one of the labels"):
        omkl.OnlineMKLClassifier().fit(X, y, classes=[0, 1])


@pytest.mark.parametrize("mmap_mode", [None, "r"])
@pytest.mark.parametrize("options", [{}, {"budget": 20}, {"method": "rda"}])
def test_a_copy_goes_on_training_like_the_original(options, mmap_mode, tmp_path):
    """Views of shared arrays must be views again in a copy."""
    X, y = load_iris(return_X_y=True)
    first = omkl.OnlineMKLClassifier(
        ["linear", "gaussian"], random_state=0, epochs=2, **options
    ).fit(X, y)
    first.partial_fit(X[:5], y[:5])
    joblib.dump(first, tmp_path / "model")
    copies = [joblib.load(tmp_path / "model", mmap_mode), pickle.loads(pickle.dumps(first))]
    for model in (first, *copies):
        model.partial_fit(X[:1], y[:1]).partial_fit(X[::3], y[::3])
    for model in copies:
        assert_array_equal(first.decision_function(X), model.decision_function(X))
        assert first.kernel_weights_ == model.kernel_weights_


KERNELS = {
    "linear": "linear",
    "dual": "linear:explicit=False",
    "gaussian": "gaussian:sigma2=1",
    "b1": "b1:h=2",
}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def budgeted_bank(model):
    (bank,) = [bank for bank in model.model_.trainer.banks if isinstance(bank, BudgetedExpansion)]
    return bank


def test_a_fit_on_arrays_is_a_stream_of_its_examples(iris):
    """Same rounds, same order, same bits, for all dual kernels of the model in one bank."""
    X, y = iris
    options = {"budget": 15, "weighting": "norms"}
    in_order = omkl.Passes(1, shuffle=False, n_examples=len(y))
    fitted = omkl.OnlineMKLClassifier(KERNELS, epochs=in_order, random_state=0, **options).fit(X, y)
    passes = omkl.Passes(n_examples=len(y))
    streamed = omkl.OnlineMKLClassifier(KERNELS, epochs=passes, **options)
    for low in range(0, len(y), 20):
        streamed.partial_fit(
            X[low : low + 20],
            y[low : low + 20],
            classes=[0, 1, 2],
        )
    for model in (fitted, streamed):
        bank = budgeted_bank(model)
        assert bank.names == ["dual", "gaussian", "b1"]
        assert bank.n_support == 15
    fitted.model_.trainer.recompute_norms(), streamed.model_.trainer.recompute_norms()
    assert_array_equal(fitted.decision_function(X), streamed.decision_function(X))
    assert fitted.kernel_weights_ == streamed.kernel_weights_


def test_a_budget_that_is_not_spent_changes_nothing(iris):
    X, y = iris
    models = [
        omkl.OnlineMKLClassifier(KERNELS, epochs=3, random_state=0, budget=budget).fit(X, y)
        for budget in (None, 500)
    ]
    assert_allclose(
        models[0].decision_function(X), models[1].decision_function(X), rtol=1e-5, atol=1e-6
    )


def test_memory_is_constant_on_a_stream():
    X, y = load_digits(return_X_y=True)
    model = omkl.OnlineMKLClassifier(["linear", "gaussian", "laplacian"], budget=50)
    usage = []
    for low in range(0, 1500, 100):
        model.partial_fit(
            X[low : low + 100],
            y[low : low + 100],
            classes=np.arange(10),
        )
        usage.append(model.memory_usage())
    assert budgeted_bank(model).n_support == 50
    assert len({one["training"] for one in usage}) == 1
    assert len({one["prediction"] for one in usage[-5:]}) == 1
    assert model.score(X[1500:], y[1500:]) > 0.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "budget must be a whole number > 0 or None, not 0"),
        ({"budget": 2.5}, "budget must be a whole number > 0 or None, not 2.5"),
        ({"budget": "many"}, "budget must be a whole number > 0 or None, not 'many'"),
    ],
)
def test_bad_budgets_are_refused_at_the_door(options, message, iris):
    with pytest.raises(InputError, match=message):
        omkl.OnlineMKLClassifier(**options).fit(*iris)
    with pytest.raises(InputError, match=message):
        omkl.SequenceLabeler(**options).partial_fit([iris[0]], [iris[1]])


LOSSES = ["squared", "huber:delta=30", "epsilon-insensitive:epsilon=5"]


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X / X.std(axis=0), y


@pytest.mark.parametrize("cache_size", [4000, 0], ids=["cached", "expansion"])
def test_with_one_kernel_and_a_ridge_it_is_kernel_ridge_regression(diabetes, cache_size):
    X = diabetes[0][:60]
    y = diabetes[1][:60]
    C = 3.0
    kernel = Gaussian(sigma2=10.0)
    model = omkl.OnlineMKLRegressor(
        [kernel],
        regularizer="l2",
        C=C,
        epochs=60,
        average=None,
        fit_intercept=False,
        verbose=False,
        random_state=0,
        learning_rate="linear:eta0=0.3",
        budget=omkl.Budget(cache_size=cache_size),
    ).fit(X, y)
    exact = KernelRidge(alpha=1.0 / C, kernel="precomputed").fit(kernel(X), y)

    def objective(predicted, square_norm):
        return 0.5 * np.sum((y - predicted) ** 2) + square_norm / (2 * C)

    optimum = objective(
        exact.predict(kernel(X)),
        exact.dual_coef_ @ kernel(X) @ exact.dual_coef_,
    )
    reached = objective(
        model.predict(X), sum(norm**2 for norm in values_of(model.history_[-1], "norm").values())
    )
    assert optimum <= reached * (1 + 1e-9)
    assert reached < 1.001 * optimum
    assert_allclose(
        model.predict(X),
        exact.predict(kernel(X)),
        atol=0.05 * y.std(),
    )


@pytest.mark.parametrize(("loss", "C"), list(zip(LOSSES, (1.0, 1.0, 30.0))))
def test_it_predicts_as_well_as_ridge_regression_untuned(diabetes, loss, C):
    X, y = diabetes
    model = omkl.OnlineMKLRegressor(loss=loss, C=C, verbose=False, random_state=0)
    ridge = cross_val_score(RidgeCV(), X, y, cv=3).mean()
    assert cross_val_score(model, X, y, cv=3).mean() > ridge - 0.02


def test_one_pass_over_a_stream_learns_what_there_is_to_learn(rng):
    X = rng.uniform(-1, 1, size=(4000, 3))
    clean = np.sin(4 * X[:, 0]) * 1.8 + X[:, 1] ** 2
    y = 1e3 + clean + 0.5 * rng.normal(size=4000)
    model = omkl.OnlineMKLRegressor(["gaussian:sigma2=0.2", "quadratic"], random_state=0)
    for rows in np.split(np.arange(3000), 30):
        model.partial_fit(X[rows], y[rows])
    explained = 1 - np.mean((model.predict(X[3000:]) - 1e3 - clean[3000:]) ** 2) / clean.var()
    assert explained > 0.95


@pytest.mark.parametrize("regularizer", ["mkl", "l2"])
def test_targets_may_have_any_unit(diabetes, regularizer):
    """Scaling targets by a power of two scales the model exactly."""
    X, y = diabetes
    models = [
        omkl.OnlineMKLRegressor(regularizer=regularizer, epochs=3, random_state=0).fit(X, unit * y)
        for unit in (1.0, 2.0**20, 2.0**-20)
    ]
    for model, unit in zip(models[1:], (2.0**20, 2.0**-20)):
        assert_array_equal(
            model.predict(X) / unit,
            models[0].predict(X),
        )


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_may_be_far_from_zero(diabetes, loss):
    X, y = diabetes
    near, far = (
        omkl.OnlineMKLRegressor(loss=loss, epochs=3, random_state=0).fit(X, y + s)
        for s in (0.0, 2.0**20)
    )
    assert_allclose(
        far.predict(X) - 2.0**20,
        near.predict(X),
        atol=1e-6,
    )
    assert near.level_ == np.sort(y)[(len(y) - 1) // 2]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_stream_is_the_same_however_it_is_cut_into_calls(diabetes, loss):
    X, y = diabetes
    models = []
    for size in (1, 50):
        model = omkl.OnlineMKLRegressor(["linear", "gaussian:sigma2=10"], loss=loss, random_state=0)
        model.partial_fit(X[:42], y[:42])
        for first in range(42, 242, size):
            model.partial_fit(
                X[first : first + size],
                y[first : first + size],
            )
        models.append(model)
    assert_array_equal(models[0].predict(X), models[1].predict(X))


def test_early_stopping_keeps_the_model_of_the_best_r2(diabetes):
    X, y = diabetes
    model = omkl.OnlineMKLRegressor(
        "gaussian:sigma2=1",
        C=100.0,
        epochs=60,
        early_stopping=omkl.EarlyStopping(fraction=0.3),
        random_state=0,
    ).fit(X, y)
    scores = [record["validation_score"] for record in model.history_]
    assert model.n_iter_ == min(60, int(np.argmax(scores)) + 1 + 5)
    assert max(scores) < 1.0


def test_sparse_input_and_dicts_are_dense_input():
    X, y = load_diabetes(return_X_y=True)
    settings = {"epochs": omkl.Passes(2, shuffle=False)}
    dense = omkl.OnlineMKLRegressor("linear", **settings).fit(X, y)
    thin = omkl.OnlineMKLRegressor("linear", **settings).fit(sparse.csr_matrix(X), y)
    assert_allclose(
        dense.predict(X),
        thin.predict(sparse.csr_array(X)),
        rtol=1e-12,
    )
    rows = [{"x": row} for row in X]
    assert_array_equal(
        omkl.OnlineMKLRegressor("linear:on=x", **settings).fit(rows, y).predict(rows),
        dense.predict(X),
    )


def test_strongest_features_have_no_label():
    X = [{"colour": c, "size": float(s)} for c, s in zip("rgbrgb", range(6))]
    model = omkl.OnlineMKLRegressor(epochs=30, random_state=0).fit(
        X, [5.0, 0.0, 0.0, 5.0, 0.0, 0.0]
    )
    strongest = model.top_features(1)[0]
    assert strongest["feature"] == "colour=r"
    assert set(strongest) == {"feature", "group", "weight"}


def test_no_iterate_leaves_the_ball_that_holds_the_solution(diabetes):
    X, y = diabetes
    model = omkl.OnlineMKLRegressor(
        C=0.1, radius="auto", fit_intercept=False, epochs=3, random_state=0
    ).fit(X, y)
    # the mean loss of predicting 0 bounds the penalty of the solution, C * sum(y^2 / 2)
    assert_allclose(model.model_.trainer.radius, np.sqrt(2 * 0.1 * np.sum(y**2) / 2))
    assert np.linalg.norm(model.model_.trainer.norms) <= model.model_.trainer.radius


@pytest.mark.parametrize(
    ("parameters", "y", "match"),
    [
        ({"loss": "hinge"}, [1.0, 2.0], "loss of classification"),
        ({"loss": "crf"}, [1.0, 2.0], "Unknown loss"),
        ({}, ["a", "b"], "must hold numbers"),
        ({}, [1.0, np.nan], "got nan in row 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(parameters, y, match):
    with pytest.raises(InputError, match=match):
        omkl.OnlineMKLRegressor(**parameters).fit([{"a": 1.0}, {"a": 2.0}], y)


THREE = {"narrow": Gaussian(4.0), "wide": Gaussian(40.0), "linear": "linear:normalize=None"}


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
    model = MKLRegressor(
        [Gaussian(4.0)], C=2.0, regularizer="uniform", fit_intercept=False, tol=1e-9
    ).fit(X, y)
    assert_allclose(
        model.predict(X),
        ridge.predict(X),
        atol=1e-4,
    )
    assert model.dual_coef_.shape == (3, 1, len(X))
    assert model.intercept_.shape == (3,)


def test_the_gap_is_that_of_the_joint_objective(measured):
    """Compute primal and dual of all outputs from the attributes of the model."""
    X, y = measured
    model = MKLRegressor(THREE, C=3.0, regularizer="block1", tol=1e-4).fit(X, y)
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
    assert_allclose(
        model.decision_function(X),
        np.column_stack([m.decision_function(X) for m in each]),
        atol=1e-3,
    )
    assert_allclose(
        model.predict_proba(X), np.column_stack([m.predict_proba(X)[:, 1] for m in each]), atol=1e-3
    )
    assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)
    from_sparse = MKLClassifier([Gaussian(10.0)], **options).fit(X, sparse.csr_array(y))
    assert_array_equal(model.predict(X), from_sparse.predict(X))


def test_one_label_after_the_other_has_the_models_of_each(labelled):
    X, y = labelled
    model = MKLClassifier(THREE, multiclass="ovr").fit(X, y)
    each = [MKLClassifier(THREE).fit(X, column).decision_function(X) for column in y.T]
    assert_allclose(
        model.decision_function(X),
        np.column_stack(each),
        rtol=1e-9,
    )


def test_labels_of_all_or_none_are_predicted_so(labelled, reloaded):
    X, y = labelled
    y = np.column_stack([np.zeros(len(y), int), y, np.ones(len(y), int)])
    with pytest.warns(UserWarning, match="2 of 5 labels .* columns 0, 4"):
        model = MKLClassifier(THREE).fit(X, y)
    assert model.constant_labels_ == {0: False, 4: True}
    assert_array_equal(model.predict(X)[:, [0, 4]], y[:, [0, 4]])
    assert_array_equal(
        model.predict(X)[:, 1:4],
        MKLClassifier(THREE).fit(X, y[:, 1:4]).predict(X),
    )
    assert_array_equal(reloaded(model).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", ["labels", "targets"])
def test_cross_validation_is_that_of_grid_search(labelled, measured, kind):
    (X, y) = labelled if kind == "labels" else measured
    Cs = [0.05, 1.0, 20.0]
    single, search = (
        (MKLClassifier, MKLClassifierCV) if kind == "labels" else (MKLRegressor, MKLRegressorCV)
    )
    grid = GridSearchCV(single(THREE, tol=1e-7), {"C": Cs}, cv=3).fit(X, y)
    scoring = "accuracy" if kind == "labels" else "r2"
    model = search(THREE, Cs=Cs, cv=3, scoring=scoring, tol=1e-7).fit(X, y)
    assert_allclose(
        model.scores_.mean(axis=0),
        grid.cv_results_["mean_test_score"],
        atol=1e-4,
    )
    assert grid.best_params_["C"] == model.C_
    assert_array_equal(model.predict(X), grid.predict(X))


def test_folds_may_lack_a_label(labelled):
    X, y = labelled
    y = np.column_stack([y, np.arange(len(y)) < 30])
    scores = MKLClassifierCV(THREE, Cs=[0.1, 1.0], cv=3, scoring="f1_micro").fit(X, y).scores_
    assert np.all((scores >= 0.0) & (scores <= 1.0))


def test_paths_take_several_outputs(labelled, measured):
    for estimator, (X, y) in (
        (MKLClassifier(THREE, C=1.0), labelled),
        (MKLRegressor(THREE, C=1.0), measured),
    ):
        record = estimator.path(X, y, [0.1, 1.0])[1]
        assert_allclose(
            record["model"].predict(X),
            estimator.fit(X, y).predict(X),
            atol=0.1,
        )


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
        MKLClassifier(THREE, **settings).fit(X, make(y))


@pytest.mark.parametrize("n_rows", [1, 2])
def test_predictions_between_rounds_are_those_of_the_averaged_model(n_rows):
    """The first prediction after a round averages the features of its rows; the second one copies
    the model.
    """
    generator = np.random.default_rng(4)
    rows = [{"word": str(generator.integers(5)), "size": generator.normal()} for _ in range(40)]
    model = omkl.OnlineMKLClassifier(loss="crf", random_state=0)
    for low in range(0, 36, 4):
        model.partial_fit(
            rows[low : low + 4], list("abca"), classes=list("abc") if low == 0 else None
        )
        scores = [model.decision_function(rows[-n_rows:]) for _ in range(2)]
        assert_array_equal(*scores)
