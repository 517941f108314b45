"""Tables in any units, with missing entries and dates, for batch estimators."""

import datetime

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import pdist, squareform
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_friedman1,
    make_regression,
)
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import omkl
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, Linear, per_column

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings(
    "ignore:The best", "ignore:On held-out samples", "ignore:No training sample"
)

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 3))
Y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.1 * rng.normal(size=90)
ABSENT = rng.random(X.shape) < [0.2, 0.3, 0.0]
HOLES = np.where(ABSENT, np.nan, X)
MEANS = np.nanmean(HOLES, axis=0)
FILLED = np.column_stack([np.where(ABSENT, MEANS, X), ABSENT[:, :2]])
ON_NUMBERS = {"linear": "linear:on=0:3", "narrow": "gaussian:on=[0,1]"}
ESTIMATORS = [
    (omkl.MKLClassifier(), Y > 0.0),
    (omkl.MKLRegressor(), Y),
    (omkl.MKLClassifierCV(Cs=3, cv=2), Y > 0.0),
    (omkl.MKLRegressor(per_column("linear", 3)), Y),
]
each_estimator = pytest.mark.parametrize(
    "estimator", [omkl.MKLRegressor(), omkl.GroupLasso(0.01)], ids=["kernels", "linear"]
)
LINEAR = [(omkl.GroupLasso(0.01), Y), (omkl.SparseLogisticRegressionCV(3, cv=2), Y > 0.0)]


@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS, ids=lambda model: type(model).__name__)
def test_units_and_offsets_of_columns_change_nothing(estimator, y):
    factors = np.array([1e-6, 30.0, 1e6])
    other = X * factors + 5.0 * factors
    fitted = [clone(estimator).fit(rows, y) for rows in (X, other)]
    score = "predict" if y is Y else "decision_function"
    assert_allclose(
        getattr(fitted[1], score)(other),
        getattr(fitted[0], score)(X),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("load", "n", "reached"),
    [(load_wine, 178, 0.95), (load_breast_cancer, 400, 0.94), (load_digits, 500, 0.93)],
)
def test_tables_are_learned_well_by_default(load, n, reached):
    rows, y = load(return_X_y=True)
    split = train_test_split(
        rows[:n],
        y[:n],
        random_state=0,
    )
    for kernels in (None, per_column("gaussian", rows)) if n < 200 else (None,):
        assert omkl.MKLClassifier(kernels).fit(*split[::2]).score(*split[1::2]) > reached


def test_a_noisy_table_is_not_overfitted_by_default():
    rows, y = load_diabetes(return_X_y=True)
    train, test, y_train, y_test = train_test_split(
        rows[:300],
        y[:300],
        random_state=0,
    )
    model = omkl.MKLRegressor().fit(train, y_train)
    others = [
        omkl.MKLRegressor(C=C).fit(train, y_train).score(test, y_test)
        for C in (0.01 * model.C_, 100 * model.C_)
    ]
    assert model.score(test, y_test) > max(0.35, *others)


def test_the_automatic_C_is_that_of_leaving_samples_out():
    kernel = Gaussian(1.0)
    noisy = Y[:40] + 0.5 * np.cos(np.arange(40.0))
    gram = kernel(X[:40])

    def error(C):
        errors = []
        for i in range(40):
            rest = np.delete(np.arange(40), i)
            ones = np.ones((39, 1))
            system = np.block(
                [[gram[np.ix_(rest, rest)] + np.eye(39) / C, ones], [ones.T, np.zeros((1, 1))]]
            )
            solved = np.linalg.solve(system, np.append(noisy[rest], 0.0))
            errors.append(noisy[i] - gram[i, rest] @ solved[:-1] - solved[-1])
        return np.square(errors).sum()

    model = omkl.MKLRegressor([kernel], tol=1e-8).fit(X[:40], noisy)
    assert error(model.C_) < min(error(0.3 * model.C_), error(3.0 * model.C_))
    assert_allclose(omkl.MKLRegressor("precomputed").fit([1e3 * gram], noisy).C_, model.C_ / 1e3)
    same = omkl.MKLRegressor([kernel], C=model.C_, tol=1e-8).fit(X[:40], noisy)
    assert_array_equal(same.predict(X), model.predict(X))


def test_default_kernels_are_these_on_standardized_columns(rng):
    X = rng.normal(size=(90, 3)) * [1.0, 1e3, 1e-3] + 5.0
    y = rng.normal(size=90)
    X = np.column_stack([X, np.ones(90)])  # a constant column changes nothing
    Z = StandardScaler().fit_transform(X)
    ranges = (X - X.mean(axis=0))[:, :3] / np.ptp(X[:, :3], axis=0)
    median = np.median(pdist(Z, "sqeuclidean")) / 2.0
    grams = {
        "linear": Z @ Z.T / 3.0,
        "quadratic": (Z @ Z.T / 3.0 + 1.0) ** 2,
        "gaussian:median": np.exp(-squareform(pdist(Z, "sqeuclidean")) / (2.0 * median)),
        "gaussian:3 x median": np.exp(-squareform(pdist(Z, "sqeuclidean")) / (6.0 * median)),
        "linear:ranges": ranges @ ranges.T,
        "quadratic:ranges": (ranges @ ranges.T + 1.0) ** 2,
    }
    for name in ("quadratic", "linear:ranges", "quadratic:ranges"):
        roots = np.sqrt(np.diag(grams[name]))
        grams[name] /= np.outer(roots, roots) if "ranges" in name else np.mean(roots**2)
    model = omkl.MKLRegressor(C=1.0, tol=1e-8).fit(X, y)
    expected = omkl.MKLRegressor("precomputed", C=1.0, tol=1e-8).fit(grams, y)
    assert list(model.kernel_weights_) == list(grams)
    assert_allclose(
        list(model.kernel_weights_.values()), list(expected.kernel_weights_.values()), atol=1e-6
    )
    assert_allclose(
        model.predict(X),
        expected.predict(grams),
        atol=1e-6,
    )


@pytest.mark.parametrize("table", ["friedman1", "linear"])
def test_default_regression_is_better_than_a_tuned_support_vector_machine(table):
    if table == "linear":
        X, y = make_regression(400, 20, n_informative=8, noise=40.0, random_state=0)
    else:
        X, y = make_friedman1(400, noise=1.0, random_state=0)
    svr = make_pipeline(
        StandardScaler(), TransformedTargetRegressor(SVR(), transformer=StandardScaler())
    )
    search = GridSearchCV(
        svr, {"transformedtargetregressor__regressor__C": [0.3, 1.0, 3.0, 10.0, 30.0]}
    )
    scores = [
        model.fit(X[:280], y[:280]).score(X[280:], y[280:])
        for model in (search, omkl.MKLRegressor())
    ]
    assert scores[1] > scores[0] + 0.02


def test_a_constant_column_of_text_changes_nothing():
    rows, y = load_wine(as_frame=True, return_X_y=True)
    with_text = rows.assign(region="Piemonte")
    models = [omkl.MKLClassifier().fit(frame, y) for frame in (rows, with_text)]
    assert_allclose(
        models[1].decision_function(with_text), models[0].decision_function(rows), atol=1e-9
    )


def test_scales_are_learned_saved_and_reported(reloaded):
    factors = np.array([1.0, 1e3, 1e-3])
    frame = pandas.DataFrame(HOLES * factors, columns=list("abc"))
    seen = FILLED[:, :3] * factors
    model = omkl.MKLRegressor().fit(frame, Y)
    assert list(model.column_scales_) == ["a", "b", "c"]
    assert_allclose(
        np.transpose(list(model.column_scales_.values())), [seen.mean(axis=0), seen.std(axis=0)]
    )
    again = reloaded(model)
    assert again.column_scales_ == model.column_scales_
    assert_array_equal(again.predict(frame), model.predict(frame))
    assert "Scales of standardized columns" in omkl.reports.make_report(again)
    assert omkl.MKLRegressor(["gaussian"]).fit(frame, Y).column_scales_ == {}


# ---- missing entries -----------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", [None, ON_NUMBERS])
def test_missing_entries_are_the_mean_and_a_kernel_of_their_own(kernels, reloaded):
    model = omkl.MKLRegressor(kernels, C=1.0).fit(HOLES, Y)
    assert list(model.kernel_weights_)[-1] == "missing"
    assert model.missing_columns_ == [0, 1]
    assert_allclose(model.column_means_, MEANS)
    if kernels:
        with_indicators = kernels | {"missing": Linear(on=slice(3, 5), normalize="average")}
        expected = omkl.MKLRegressor(with_indicators, C=1.0).fit(FILLED, Y).predict(FILLED)
        assert_allclose(model.predict(HOLES), expected, atol=1e-9)
    assert model.feature_importances_.shape == (3,)
    again = reloaded(model)
    for rows in (HOLES, X):  # without missing entries as well
        assert_array_equal(again.predict(rows), model.predict(rows))
    assert_allclose(
        model.predict(HOLES[:1]),
        model.predict(HOLES)[:1],
    )
    assert_allclose(model.predict(sparse.csr_array(X)), model.predict(X))
    complete = omkl.MKLRegressor(kernels, C=1.0).fit(X, Y)
    assert "missing" not in complete.kernel_weights_
    assert_allclose(
        complete.predict([[np.nan, 1.0, 2.0]]), complete.predict([[X[:, 0].mean(), 1.0, 2.0]])
    )


@pytest.mark.parametrize(("estimator", "y"), LINEAR, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(
    ("groups", "labels"),
    [
        (None, [0, 1, 2]),
        ([0, 1, 1], [0, 1, 1]),
        ([[0], [1, 2]], [0, 1, 1]),
        ({"p": [0, 2], "q": [1]}, [0, 1, 0]),
    ],
)
def test_linear_models_have_a_group_of_missing_entries(estimator, y, groups, labels, reloaded):
    model = clone(estimator).set_params(groups=groups).fit(HOLES, y)
    expected = clone(estimator).set_params(groups=[*labels, 5, 5]).fit(FILLED, y)
    assert_allclose(model.coef_, expected.coef_, atol=1e-9)
    assert_array_equal(reloaded(model).predict(HOLES), model.predict(HOLES))
    if np.any(np.atleast_2d(model.coef_)[:, 3]):
        row = HOLES[ABSENT[:, 0]][:1]
        assert "missing" in str(model.explain(row)).split()


def test_text_beside_missing_numbers_keeps_its_categories():
    frame = pandas.DataFrame(HOLES, columns=list("abc")).assign(t=np.where(Y > 0.0, "up", None))
    model = omkl.MKLRegressor(["linear:on=t"], C=1.0).fit(frame, Y)
    assert list(model.kernel_weights_) == ["linear:on=t", "missing"]
    lasso = omkl.GroupLasso(0.01, groups={"n": ["a", "b", "c"], "t": ["t"]}).fit(frame, Y)
    assert lasso.coef_.shape == (6,)


# ---- dates, booleans, nullable and object columns ------------------------------------------------

DAYS = [datetime.datetime(1500 + k, 1 + k % 12, 3) for k in range(89)] + [None]
OPEN = [True, None, False] * 30
FRAMES = {
    "objects": pandas.DataFrame(
        {"day": pandas.Series(DAYS, dtype=object), "open": OPEN, "size": [None, *X[1:, 0]]}
    ),
    "nullable": pandas.DataFrame(
        {
            "day": pandas.Series(DAYS, dtype="datetime64[s]")
            .dt.tz_localize("UTC")
            .dt.tz_convert("Asia/Tokyo"),
            "open": pandas.array(OPEN, dtype="boolean"),
            "size": pandas.array([None, *X[1:, 0]], dtype="Float64"),
        }
    ),
    "polars": polars.DataFrame({"day": DAYS, "open": OPEN, "size": [None, *X[1:, 0]]}),
}
FRAMES["arrow"] = FRAMES["nullable"].convert_dtypes(dtype_backend="pyarrow")
NUMBERS = np.column_stack(
    [
        [np.nan if day is None else (day - datetime.datetime(1970, 1, 1)).days for day in DAYS],
        np.array(OPEN, dtype=float),
        [np.nan, *X[1:, 0]],
    ]
)


@pytest.mark.parametrize("kind", [*FRAMES, "array"])
@each_estimator
def test_dates_and_booleans_are_numbers_in_every_table(kind, estimator):
    table = FRAMES["objects"].to_numpy() if kind == "array" else FRAMES[kind]
    model = clone(estimator).fit(NUMBERS, Y)
    assert model.missing_columns_ == [0, 1, 2]
    of_table = clone(estimator).fit(table, Y)
    assert_allclose(
        of_table.predict(table),
        model.predict(NUMBERS),
        atol=1e-9,
    )


# ---- bad input -----------------------------------------------------------------------------------


def with_entry(value, column="b"):
    frame = pandas.DataFrame(X, columns=list("abc")).astype({column: object})
    frame.loc[7, column] = value
    return frame


@pytest.mark.parametrize(
    ("table", "missing", "message"),
    [
        (
            with_entry(np.inf),
            "indicator",
            r"Column 'b' of X must hold finite numbers, got inf in row 7\.",
        ),
        (
            with_entry(-1e300),
            "indicator",
            r"Column 'b' of X .* up to 1e\+100, got -1e\+300 in row 7\.",
        ),
        (
            with_entry(np.nan).assign(c=DAYS),
            "error",
            r"Column 'b' of X must hold finite numbers, got NaN in row 7\.",
        ),
        (with_entry([1.0, 2.0]), "indicator", r"Column 'b' of X cannot be converted"),
        (
            with_entry(np.inf).to_numpy(),
            "indicator",
            r"Column 1 of X must hold finite numbers, got inf in row 7\.",
        ),
        (
            with_entry(1e300).to_numpy(float),
            "indicator",
            r"Column 1 of X .* got 1e\+300 in row 7\.",
        ),
        (
            with_entry(None).to_numpy(),
            "error",
            r"Column 1 of X must hold finite numbers, got NaN in row 7\.",
        ),
        (
            with_entry(np.nan).rename(columns={"a": "missing"}),
            "indicator",
            r"must not have a column 'missing'",
        ),
    ],
)
@each_estimator
def test_bad_entries_are_named_with_column_and_row(estimator, table, missing, message):
    with pytest.raises(InputError, match=message):
        clone(estimator).set_params(missing=missing).fit(table, Y)


@each_estimator
def test_missing_targets_are_refused(estimator):
    message = r"y must hold classes or numbers in every row, got nothing in row 4\."
    with pytest.raises(InputError, match=message):
        clone(estimator).fit(X, np.where(np.arange(90) == 4, np.nan, Y))


@pytest.mark.parametrize("value", [3.0, np.nan, None])
def test_columns_that_are_constant_or_all_missing_change_nothing(value):
    frame = pandas.DataFrame(X, columns=list("abc"))
    other = frame.assign(d=value)
    models = [omkl.MKLRegressor(C=1.0).fit(table, Y) for table in (frame, other)]
    assert_allclose(
        models[1].predict(other),
        models[0].predict(frame),
        atol=1e-9,
    )


def test_a_class_that_no_sample_gets_is_named_with_a_remedy():
    rare = np.where(
        np.quantile(Y, 0.95) < Y,
        "rare",
        "usual",
    )
    with pytest.warns(
        UserWarning, match="No training sample gets the class 'rare' .* class_weight"
    ):
        omkl.MKLClassifier(["linear"], C=0.1, weighting="norms").fit(X, rare)
    balanced = omkl.MKLClassifier(["linear"], class_weight="balanced").fit(X, rare)
    assert set(balanced.predict(X)) == {"rare", "usual"}
