"""MKLClassifier and MKLRegressor: scikit-learn's conventions, solutions, weights, Gram matrices."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import Ridge
from sklearn.metrics import recall_score
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from omkl import MKLClassifier, MKLClassifierCV, MKLRegressor
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, GramMatrices, Linear, as_kernel, per_column
from omkl.mkl.kernel_sources import precision

from ..cases import slow


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:120], y[:120]


KERNELS = {
    "narrow": Gaussian(2.0),
    "wide": Gaussian(50.0),
    "linear": Linear(normalize="average"),
    "first": "gaussian:on=0:3",
}


def grams_of(X, Y):
    kernels = [as_kernel(kernel) for kernel in KERNELS.values()]
    columns = [slice(None) if kernel.on is None else kernel.on for kernel in kernels]
    return [kernel.fit(X[:, on])(Y[:, on], X[:, on]) for kernel, on in zip(kernels, columns)]


ITERATIVE = "solved to a tolerance; the columns of transform are the training samples"
WEIGHT_CHECKS = dict.fromkeys(
    (f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")), ITERATIVE
)


@parametrize_with_checks(
    [MKLClassifier(), MKLRegressor()], expected_failed_checks=lambda _: WEIGHT_CHECKS
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [MKLClassifier(loss="hinge", multiclass="ovr")],
    expected_failed_checks=lambda _: WEIGHT_CHECKS,
)
def test_scikit_learn_conventions_of_a_model_for_each_class(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "solver", ["spicy", "simplemkl", "gmkl", "silp", "levelmkl", "hessianmkl", "lp-norm"]
)
def test_one_kernel_is_a_support_vector_machine(cancer, solver):
    """One kernel of squared norm: whatever the solver, the hinge gives the SVM with cost 1 / C."""
    X, y = cancer
    svm = SVC(C=2.0, gamma=1 / 20, tol=1e-8).fit(X, y)
    regularizer = "uniform" if solver == "spicy" else "mkl"
    model = MKLClassifier(
        [Gaussian(10.0)],
        loss="hinge",
        regularizer=regularizer,
        C=2.0,
        solver=solver,
        tol=1e-6,
        dtype="float64",
    )
    assert_allclose(
        model.fit(X, y).decision_function(X),
        svm.decision_function(X),
        atol=5e-3,
    )
    assert model.dual_gap_ <= 1e-6


def test_block_norm_is_sparse_and_uniform_is_not(cancer):
    X, y = cancer
    kernels = {f"column {j}": Gaussian(1.0, on=slice(j, j + 1)) for j in range(30)}
    sparse = MKLClassifier(kernels, regularizer="block1", C=0.3).fit(X, y)
    dense = MKLClassifier(kernels, regularizer="uniform", C=0.3).fit(X, y)
    assert 0 < sparse.n_active_ < 20
    assert dense.n_active_ == 30
    assert_allclose(sum(sparse.kernel_weights_.values()), 1.0)
    assert all(weight == pytest.approx(1 / 30) for weight in dense.kernel_weights_.values())


def test_no_kernel_is_active_at_the_smallest_C(cancer):
    X, y = cancer
    path = MKLClassifier(KERNELS, regularizer="block1", tol=1e-4).path(X, y, C=12)
    assert path[0]["active"] == 0
    assert path[-1]["active"] > 0
    assert all(record["dual_gap"] <= 1e-4 for record in path)
    values = [record["C"] for record in path]
    assert values == sorted(values)
    for record in path[::4]:
        alone = MKLClassifier(KERNELS, regularizer="block1", C=record["C"], tol=1e-4).fit(X, y)
        assert alone.history_[-1]["primal"] == pytest.approx(record["objective"], rel=2e-4)


def test_a_path_leaves_a_fitted_model_as_it_was(cancer):
    X, y = cancer
    model = MKLClassifier(KERNELS).fit(X, y)
    before = model.predict(X)
    model.path(
        X[:, :10],
        np.where(y == 1, "yes", "no"),
        C=3,
    )
    assert_array_equal(model.predict(X), before)


def test_probabilities_are_those_of_the_logistic_loss(cancer):
    X, y = cancer
    model = MKLClassifier(KERNELS, C=10.0).fit(X, y)
    probabilities = model.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert_allclose(
        np.log(probabilities[:, 1] / probabilities[:, 0]), model.decision_function(X), atol=1e-8
    )
    with pytest.raises(AttributeError) as refusal:
        MKLClassifier(loss="hinge").fit(X, y).predict_proba(X)
    assert "has probabilities with loss=\"logistic\", not with loss='hinge'" in str(
        refusal.value.__cause__
    )


@pytest.mark.parametrize(
    "kernels", [KERNELS, "precomputed", None], ids=["kernels", "precomputed", "default"]
)
def test_a_saved_model_predicts_the_same_bits(cancer, kernels, reloaded):
    X, y = cancer
    train, test = (grams_of(X, X), grams_of(X, X[:30])) if kernels == "precomputed" else (X, X[:30])
    model = MKLClassifier(kernels, C=2.0).fit(train, y)
    loaded = reloaded(model)
    assert_array_equal(loaded.decision_function(test), model.decision_function(test))
    assert loaded.kernel_weights_ == model.kernel_weights_
    assert loaded.get_params()["C"] == 2.0
    assert_array_equal(loaded.predict(test), model.predict(test))


def test_the_gap_is_that_of_the_stored_model(cancer):
    """Verify the certificate from public attributes and the definition of the dual."""
    X, y = cancer
    grams = np.array(grams_of(X, X))
    model = MKLClassifier("precomputed", regularizer="block1", C=2.0, tol=1e-5).fit(list(grams), y)
    targets = np.where(y == 1, 1.0, -1.0)
    norms = np.sqrt(np.einsum("mi,mij,mj->m", model.dual_coef_, grams, model.dual_coef_))
    outputs = np.einsum("mij,mj->i", grams, model.dual_coef_) + model.intercept_
    primal = 2.0 * np.logaddexp(0, -targets * outputs).sum() + norms.sum()
    (rho,) = model.dual_variables_
    u = targets * rho / 2.0
    assert 0 <= u.min() <= u.max() <= 1
    assert abs(rho.sum()) < 1e-12
    assert np.sqrt(np.einsum("i,mij,j->m", rho, grams, rho)).max() <= 1 + 1e-9
    dual = -2.0 * (xlogy(u, u) + xlogy(1 - u, 1 - u)).sum()
    assert model.dual_gap_ <= 1e-5
    assert (primal - dual) / primal == pytest.approx(model.dual_gap_, abs=1e-9)


@pytest.mark.parametrize(
    "solver",
    [
        "spicy",
        "one-step",
        "ista",
        "fista",
        "silp",
        "simplemkl",
        "levelmkl",
        "hessianmkl",
        "gmkl",
        "lp-norm",
    ],
)
def test_every_solver_has_a_regularizer_of_its_own(cancer, solver):
    X, y = cancer
    loss = "hinge" if solver not in ("ista", "fista") else "logistic"
    model = MKLClassifier(KERNELS, loss=loss, C=2.0, solver=solver, tol=0.05).fit(X, y)
    assert model.dual_gap_ <= 0.05
    assert model.score(X, y) > 0.9


def test_the_defaults_of_regression_predict_as_well_as_ridge():
    X, y = load_diabetes(return_X_y=True)
    ours, ridge = (
        cross_val_score(model, X, y, cv=3).mean() for model in (MKLRegressor(), Ridge(alpha=0.1))
    )
    assert ours > ridge - 0.03


def test_scikit_learn_selects_columns_that_are_used(rng):
    X = rng.normal(size=(120, 6))
    y = X[:, 2] * X[:, 5] + X[:, 1] > 0
    frame = pd.DataFrame({"noise": X[:, 0], "text": np.where(X[:, 1] > 0, "up", "down")})
    assert RFE(MKLClassifier(), n_features_to_select=3).fit(X, y).get_support().tolist() == [
        0,
        1,
        1,
        0,
        0,
        1,
    ]
    in_model = (
        SelectFromModel(MKLRegressor(), threshold=-np.inf, max_features=2)
        .fit(X, X[:, 0] - X[:, 3] ** 2 + 1e6)
        .get_support()
    )
    assert np.flatnonzero(in_model).tolist() == [0, 3]
    assert SelectFromModel(MKLClassifier()).fit(frame, X[:, 1] > 0).get_support().tolist() == [
        False,
        True,
    ]
    model = MKLClassifier(per_column("gaussian", X), weighting="norms", tol=1e-4).fit(X, y)
    assert_allclose(
        model.feature_importances_,
        list(model.kernel_weights_.values()),
        atol=1e-6,
    )
    assert not hasattr(MKLClassifier("precomputed").fit(X @ X.T, y), "feature_importances_")


def test_weights_on_their_own_scale_are_those_of_citi(cancer):
    X, y = cancer
    model = MKLClassifier(
        KERNELS, loss="hinge", regularizer="elastic-net-weights:eta=0.6", solver="gmkl"
    ).fit(X, y)
    theta = np.array(list(model.unscaled_kernel_weights_.values()))
    assert_allclose(
        0.6 * theta.sum() + 0.4 * theta @ theta,
        1.0,
        rtol=1e-6,
    )
    assert_allclose(
        theta / theta.sum(),
        list(model.kernel_weights_.values()),
    )


@pytest.fixture(scope="module")
def few_positives():
    rng = np.random.default_rng(0)
    y = (rng.random(2400) < 0.03).astype(int)
    X = rng.normal(size=(2400, 4))
    X[:, :2] += 1.5 * y[:, None]
    return X[:600], y[:600], X[600:], y[600:]


@pytest.mark.parametrize("loss", [slow("hinge"), "logistic"])
def test_the_few_are_found_at_default_kernels_and_C(loss):
    """The default kernels are not so narrow that they memorize samples."""
    svm = []
    ours = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for n_columns in (4, 10):
            y = (rng.random(1600) < 0.03).astype(int)
            X = rng.normal(size=(1600, n_columns))
            X[:, :2] += 1.5 * y[:, None]
            recalls = (
                recall_score(y[400:], model.fit(X[:400], y[:400]).predict(X[400:]))
                for model in (
                    SVC(class_weight="balanced"),
                    MKLClassifier(loss=loss, class_weight="balanced"),
                )
            )
            for values, recall in zip((svm, ours), recalls):
                values.append(recall)
    assert np.mean(ours) > 0.7 * np.mean(svm)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.5, 1: 3.0}, {1: 7.0}])
def test_class_weights_are_those_of_scikit_learn(few_positives, class_weight):
    X, y, new, _ = few_positives
    settings = {
        "loss": "hinge",
        "regularizer": "uniform",
        "C": 1.0,
        "tol": 1e-6,
        "class_weight": class_weight,
    }
    ours = MKLClassifier([Gaussian(10.0)], **settings).fit(X, y).decision_function(new)
    svm = SVC(gamma=0.05, class_weight=class_weight, tol=1e-8).fit(X, y)
    assert_allclose(ours, svm.decision_function(new), atol=5e-3)


@pytest.mark.parametrize(
    "estimator",
    [
        MKLClassifier(KERNELS, C=2.0, tol=1e-7),
        MKLClassifier(KERNELS, loss="hinge", regularizer="block1", C=1.0, tol=1e-6),
        MKLClassifier(KERNELS, loss="hinge", solver="simplemkl", C=1.0, tol=1e-6),
        MKLRegressor(KERNELS, C=1.0, tol=1e-7),
        MKLRegressor(KERNELS, solver="hessianmkl", C=1.0, tol=1e-7),
        MKLRegressor(KERNELS, solver="fista", C=1.0, tol=1e-7),
    ],
    ids=str,
)
@pytest.mark.parametrize("precomputed", [False, True])
def test_whole_weights_are_repetitions_and_zeros_leave_out(cancer, estimator, precomputed):
    X, y = cancer
    y = y if isinstance(estimator, MKLClassifier) else np.sin(X[:, 0])
    train = slice(0, 80)
    test = slice(80, None)
    weights = np.random.default_rng(0).integers(0, 3, size=80)
    repeated = np.repeat(np.arange(80), weights)
    if precomputed:
        estimator = clone(estimator).set_params(kernels="precomputed")
        grams = GramMatrices(grams_of(X[train], X[train]))
        cross = GramMatrices(grams_of(X[train], X[test]))
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


@pytest.mark.parametrize("as_array", [True, False])
def test_matrices_give_the_model_that_kernels_give(cancer, as_array):
    X, y = cancer
    train = np.arange(80)
    test = np.arange(80, 120)
    model = MKLClassifier(KERNELS, C=2.0, dtype="float64", tol=1e-6).fit(X[train], y[train])
    grams = grams_of(X[train], X[train])
    from_grams = MKLClassifier("precomputed", C=2.0, dtype="float64", tol=1e-6)
    from_grams.fit(np.stack(grams, axis=-1) if as_array else grams, y[train])
    assert_allclose(
        list(from_grams.kernel_weights_.values()), list(model.kernel_weights_.values()), atol=1e-3
    )
    cross = grams_of(X[train], X[test])
    assert_allclose(
        from_grams.decision_function(cross), model.decision_function(X[test]), atol=1e-2
    )
    only_active = [
        matrix if weight > 0 else None
        for matrix, weight in zip(cross, from_grams.kernel_weights_.values())
    ]
    assert_array_equal(
        from_grams.decision_function(only_active), from_grams.decision_function(cross)
    )


@pytest.mark.parametrize("held", [np.asarray, pd.DataFrame, sparse.csr_array, np.ndarray.tolist])
def test_matrices_are_the_same_whatever_holds_them(cancer, held):
    X, y = cancer
    gram = X @ X.T
    expected = (
        MKLClassifier("precomputed").fit({"linear": gram}, y).decision_function({"linear": gram})
    )
    for matrices in (
        {"linear": held(gram)},
        [held(gram)],
        *([] if held is np.ndarray.tolist else [held(gram)]),
    ):
        assert_allclose(
            MKLClassifier("precomputed").fit(matrices, y).decision_function(matrices),
            expected,
            rtol=1e-9,
        )


@pytest.mark.parametrize("form", [list, np.asarray, np.asfortranarray])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("weighted", [False, True])
def test_arrays_of_matrices_are_taken_with_the_kernels_first_or_last(cancer, form, axis, weighted):
    X, y = cancer
    train = slice(0, 80)
    test = slice(80, None)
    grams = grams_of(X[train], X[train])
    rows = grams_of(X[train], X[test])
    weights = np.arange(80) % 3 if weighted else None
    expected = MKLClassifier("precomputed").fit(
        dict(zip("abcdefg", grams)),
        y[train],
        weights,
    )
    training_grams, test_grams = (
        form(each if form is list else np.stack(each, axis=axis)) for each in (grams, rows)
    )
    model = MKLClassifier("precomputed").fit(training_grams, y[train], weights)
    assert_array_equal(model.dual_coef_, expected.dual_coef_)
    assert_allclose(
        model.decision_function(test_grams),
        expected.decision_function(dict(zip("abcdefg", rows))),
        rtol=1e-9,
    )


@pytest.mark.parametrize("form", ["stack", "array"])
def test_cross_validation_cuts_precomputed_kernels(cancer, form):
    X, y = cancer
    grams = {f"width {width}": Gaussian(width)(X, X) for width in (5.0, 30.0)}
    container = GramMatrices(grams) if form == "stack" else np.stack(list(grams.values()), axis=-1)
    scores = cross_val_score(MKLClassifier("precomputed", tol=1e-6), container, y, cv=3)
    assert_allclose(
        scores,
        cross_val_score(
            MKLClassifier([Gaussian(5.0), Gaussian(30.0)], tol=1e-6),
            X,
            y,
            cv=3,
        ),
    )


def test_the_learned_kernel_serves_other_estimators(cancer):
    X, y = cancer
    train = slice(0, 80)
    test = slice(80, None)
    model = MKLClassifier(KERNELS, loss="hinge").fit(X[train], y[train])
    expected = sum(
        w * gram for w, gram in zip(model.kernel_weights_.values(), grams_of(X[train], X[test]))
    )
    assert_allclose(model.transform(X[test]), expected, atol=1e-12)
    svm = SVC(kernel="precomputed").fit(model.transform(X[train]), y[train])
    assert svm.score(model.transform(X[test]), y[test]) > 0.8


@pytest.mark.parametrize(
    ("tol", "dtype", "expected"),
    [(1e-2, "auto", np.float32), (1e-5, "auto", np.float64), (1e-2, "float64", np.float64)],
)
def test_large_kernels_are_stored_in_single_precision_unless_the_tolerance_is_small(
    tol, dtype, expected
):
    assert precision(dtype, 100, 2000, tol) == expected
    assert precision("auto", 3, 100, tol) == np.float64


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: np.tanh(2.0 * A @ B.T - 1.0), "not positive semidefinite"),
        (lambda A, B: A @ B.T + A[:, :1], "not symmetric"),
        (lambda A, B: -A @ B.T, "not positive semidefinite"),
        (lambda A, B: 1e40 * A @ B.T, "not finite, or above"),
        (lambda A, B: np.where(A @ B.T > 3, np.nan, A @ B.T), "not finite"),
    ],
)
def test_functions_that_are_no_kernels_are_refused_as_matrices_are(cancer, function, message):
    X, y = cancer
    with pytest.raises(InputError, match=f"Kernel 'mine' .*{message}"):
        MKLClassifier({"fine": "gaussian", "mine": function}).fit(X, y)
    with np.errstate(invalid="ignore"), pytest.raises(InputError, match=f"Kernel 1 .*{message}"):
        MKLClassifier("precomputed").fit([X @ X.T, function(X, X)], y)


def test_matrices_with_names_are_told_apart_by_them(cancer):
    X, y = cancer
    grams = dict(zip(KERNELS, grams_of(X, X)))
    model = MKLClassifier("precomputed", C=2.0).fit(grams, y)
    other_order = GramMatrices(dict(reversed(grams.items())))
    assert_array_equal(model.decision_function(other_order), model.decision_function(grams))
    assert_array_equal(
        model.decision_function(GramMatrices(list(grams.values()))), model.decision_function(grams)
    )
    with pytest.raises(InputError, match="no kernel 'another'"):
        model.decision_function({**grams, "another": grams_of(X, X)[0]})


def test_stopping_early_warns_with_the_gap(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of .* not within tol=1e-06"):
        model = MKLClassifier(KERNELS, solver="ista", tol=1e-6, max_iter=5, dtype="float64").fit(
            X, y
        )
    assert model.dual_gap_ > 1e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": 0.0}, "C must be"),
        ({"tol": -1.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"loss": "squared"}, "loss of regression"),
        ({"loss": "log"}, "Unknown loss"),
        ({"solver": "newton"}, "Unknown solver"),
        ({"regularizer": "mkl", "solver": "one-step"}, "a regularizer with a smooth dual"),
        ({"solver": "one-step", "regularizer": "block1"}, "smooth dual"),
        ({"solver": "simplemkl", "regularizer": "block1", "loss": "hinge"}, "'mkl'"),
        ({"multiclass": "all"}, "multiclass"),
        ({"dtype": "int8"}, "dtype"),
        ({"weighting": "loo"}, "weighting must be one of"),
        ({"approximate": "yes"}, "approximate must be"),
        ({"kernels": []}, "at least one kernel"),
        ({"kernels": ["gaussian:on=7:7"]}, "selects the column"),
        ({"kernels": ["gaussian", "gaussian"]}, "Two kernels"),
        *(
            (
                {"regularizer": "l1", "solver": solver},
                r"coordinates|group norms|needs a regularizer",
            )
            for solver in ("spicy", "one-step", "fista")
        ),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(cancer, settings, message):
    X, y = cancer
    with pytest.raises(InputError, match=message):
        MKLClassifier(**settings).fit(X, y)


def test_other_bad_input(cancer):
    X, y = cancer
    for C in (0, -1.0, [1.0, np.nan], []):
        with pytest.raises(InputError, match="number of values"):
            MKLClassifier(KERNELS).path(X, y, C=C)
    with pytest.raises(InputError, match="one class only"):
        MKLClassifier().fit(X, np.ones(len(X)))
    with pytest.raises(InputError, match="must be matrices"):
        MKLClassifier("precomputed").fit(X, y)
    with pytest.raises(InputError, match="in row 0"):
        MKLRegressor("precomputed").fit(grams_of(X, X), np.full(len(X), np.nan))
    with pytest.raises(NotFittedError, match="not fitted"):
        MKLClassifier().predict(X)
    model = MKLClassifier("precomputed", C=2.0).fit(grams_of(X, X), y)
    with pytest.raises(InputError, match="4 matrices"):
        model.predict(grams_of(X, X)[:3])
    with pytest.raises(InputError, match="predicts from one matrix"):
        model.predict([matrix[:, :5] for matrix in grams_of(X, X)])


def test_a_constant_target_is_the_model(cancer):
    X, _ = cancer
    with pytest.warns(UserWarning, match="y is constant") as warned:
        model = MKLRegressor(["gaussian"]).fit(X, np.full(len(X), 3.0))
    assert len(warned) == 1  # none about evidence for kernels
    assert_allclose(model.predict(X), 3.0)
    for settings in ({"fit_intercept": False}, {"loss": "epsilon-insensitive"}):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="y is constant")
            MKLRegressor(["gaussian"], **settings).fit(X, np.full(len(X), 3.0))


def test_a_model_without_kernels_says_so(cancer):
    X, y = cancer
    with pytest.warns(UserWarning, match="No kernel is in the model at C=1e-06: raise C"):
        MKLClassifier(["gaussian"], regularizer="block1", C=1e-6).fit(X, y)


def test_a_path_that_stops_early_warns(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        MKLClassifier(KERNELS, solver="ista", tol=1e-6, max_iter=5).path(X, y, C=[1.0, 10.0])


@pytest.mark.parametrize("scale", [1e-8, 1e-4])
@pytest.mark.parametrize("solver", ["spicy", "fista"])
def test_a_constant_prediction_warns(cancer, scale, solver):
    X, y = cancer
    grams = [scale * gram for gram in grams_of(X, X)]
    with pytest.warns(UserWarning, match=r"one prediction|No sample|No kernel|No training sample"):
        model = MKLClassifier("precomputed", solver=solver, C=1.0).fit(grams, y)
    assert len(set(model.predict(grams))) == 1
    with pytest.warns(UserWarning, match=r"one prediction|No sample|No kernel|No training sample"):
        MKLRegressor("precomputed", solver=solver, C=1.0).fit(
            [1e-4 * gram for gram in grams], y + 0.1 * X[:, 0]
        )


@pytest.mark.parametrize(
    "settings",
    [dict(C=1e16), dict(C=1e16, loss="hinge"), dict(tol=1e-308), dict(tol=1e-308, loss="hinge")],
    ids=[
        "C of the logistic loss",
        "C of the hinge",
        "tol of the logistic loss",
        "tol of the hinge",
    ],
)
def test_a_search_that_rounding_stops_ends_early_with_a_warning(cancer, settings):
    """Without the check it would try a hundred rounds of up to 150 steps."""
    X, y = cancer
    with pytest.warns(
        ConvergenceWarning, match="rounding prevents progress: raise tol, lower C, or scale"
    ):
        model = MKLClassifier(["gaussian", "linear"], **settings).fit(X[:100], y[:100])
    assert model.n_iter_ < 40
    assert model.dual_gap_ > model.tol
    assert model.score(X[:100], y[:100]) > 0.9


@pytest.mark.parametrize(
    "model", [MKLClassifier(), MKLClassifierCV(Cs=2, cv=2)], ids=["fixed", "cv"]
)
def test_classes_of_two_kinds_are_refused_by_their_types(model):
    labels = np.array(["a", 1] * 10, dtype=object)
    with pytest.raises(InputError, match="got int and str"):
        model.fit(np.arange(40.0).reshape(20, 2), labels)
