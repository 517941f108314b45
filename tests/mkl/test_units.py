"""Units of columns, missing numbers and dicts of numbers in the online estimators."""

import datetime

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.preprocessing import StandardScaler

import omkl
from omkl.exceptions import InputError

UNITS = 10.0 ** np.linspace(-6, 6, 4)


@pytest.fixture
def table(rng):
    """Numbers in different units, with offsets; two classes depend on products of columns."""
    X = rng.normal(size=(120, 4))
    return UNITS * (X + np.array([0.0, 1.0, -5.0, 0.0])), (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(
        int
    )


def literally(X):
    """Standardize each row by the mean and standard deviation of the rows up to it."""
    rows = [X[: i + 1] for i in range(len(X))]
    return np.array(
        [
            (rows_so_far[-1] - rows_so_far.mean(axis=0))
            / np.where(rows_so_far.std(axis=0) > 0, rows_so_far.std(axis=0), 1)
            for rows_so_far in rows
        ]
    )


def test_default_kernels_are_those_on_standardized_columns(table):
    X, y = table
    Z = StandardScaler().fit_transform(X)
    parameters = {"epochs": omkl.Passes(3, shuffle=False), "weighting": "norms"}
    model = omkl.OnlineMKLClassifier(**parameters).fit(X, y)
    both = np.hstack([Z, (X - X.mean(axis=0)) / np.ptp(X, axis=0)])
    kernels = {
        "linear": "linear:on=0:4",
        "quadratic": "quadratic:on=0:4",
        "gaussian": "gaussian:sigma2=4,on=0:4",
        "narrow gaussian": "gaussian:sigma2=1,on=0:4",
        "quadratic:ranges": "quadratic:on=4:8",
    }
    assert list(model.kernel_weights_) == list(kernels)
    assert_allclose(
        model.decision_function(X),
        omkl.OnlineMKLClassifier(kernels, **parameters).fit(both, y).decision_function(both),
        rtol=1e-6,
        atol=1e-9,
    )
    means, deviations = zip(*model.column_scales_.values())
    assert_allclose(means, X.mean(axis=0), atol=1e-12)
    assert_allclose(deviations, X.std(axis=0))


@pytest.mark.parametrize("kind", [omkl.OnlineMKLClassifier, omkl.OnlineMKLRegressor])
def test_units_change_no_prediction(kind, table, reloaded):
    X, y = table
    X[5, 2] = np.nan
    first, second = (
        kind(random_state=0).fit(units * X, y) for units in (1.0, 10.0 ** np.linspace(-6, 6, 4))
    )
    assert_allclose(
        first.predict(X),
        second.predict(X * 10.0 ** np.linspace(-6, 6, 4)),
        rtol=1e-6,
    )
    assert_array_equal(reloaded(first).predict(X), first.predict(X))


def test_ranges_need_all_rows(table):
    X, y = table
    with pytest.raises(
        InputError, match="needs the ranges of all rows: in streams, use standardize=True"
    ):
        omkl.OnlineMKLClassifier(["quadratic:standardize=range"]).partial_fit(X, y)


def test_rows_of_a_stream_are_standardized_as_they_come(table):
    X, y = table
    spec = "gaussian:sigma2=2,features=30"
    model = omkl.OnlineMKLClassifier([f"{spec},standardize=True", "quadratic:standardize=True"])
    plain = omkl.OnlineMKLClassifier([spec, "quadratic"])
    for rows in np.split(np.arange(len(X)), [1, 5, 60]):
        model.partial_fit(
            X[rows],
            y[rows],
            **({"classes": [0, 1]} if 0 in rows else {}),
        )
        plain.partial_fit(
            literally(X)[rows],
            y[rows],
            **({"classes": [0, 1]} if 0 in rows else {}),
        )
    standard = StandardScaler().fit(X).transform(X)
    assert_allclose(
        model.decision_function(X), plain.decision_function(standard), rtol=1e-6, atol=1e-7
    )


def as_dicts(X):
    return [
        {f"c{j}": value for j, value in enumerate(row) if value == value} | {"t": "ab"[i % 2]}
        for i, row in enumerate(X)
    ]


@pytest.mark.parametrize("form", ["arrays", "dicts", "tables"])
def test_any_split_of_a_stream_gives_the_same_model(form, table, rng, reloaded):
    X, y = table
    X[1:] = np.where(
        rng.random(X[1:].shape) < 0.2,
        np.nan,
        X[1:],
    )
    inputs = {"arrays": X, "dicts": as_dicts(X)}.get(form)
    if inputs is None:
        pandas = pytest.importorskip("pandas")
        inputs = pandas.DataFrame(X, columns=list("abcd")).assign(t=["u", "v"] * 60)
    scores = []
    for size in (1, 7, 120):
        # Hedge weighs a group from the block in which it appears
        model = omkl.OnlineMKLClassifier(weighting="norms")
        for low in range(0, len(y), size):
            classes = {"classes": [0, 1]} if low == 0 else {}
            model.partial_fit(
                inputs[low : low + size],
                y[low : low + size],
                **classes,
            )
        scores.append(model.decision_function(inputs))
    assert_allclose(scores[1], scores[0], rtol=1e-9, atol=1e-12)
    assert_allclose(scores[2], scores[0], rtol=1e-9, atol=1e-12)
    assert_array_equal(reloaded(model).decision_function(inputs), scores[2])
    assert model.kernel_weights_.keys() >= {
        "linear",
        "quadratic",
        "gaussian",
        "narrow gaussian",
        "missing",
    }


def test_wine_needs_no_preparation():
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train = order[:120]
    test = order[120:]
    for units in (1.0, 10.0 ** np.linspace(-6, 6, X.shape[1])):
        model = omkl.OnlineMKLClassifier(random_state=0).fit(units * X[train], y[train])
        assert model.score(units * X[test], y[test]) > 0.94
        assert_allclose(model.predict_proba(units * X).sum(axis=1), 1.0)


@pytest.mark.slow
def test_rare_classes_are_predicted():
    """They are found about as often as by a linear model."""
    scores = []
    for seed in range(6):
        X, y = make_classification(
            1500, 20, n_informative=5, weights=[0.97], flip_y=0, random_state=seed
        )
        models = omkl.OnlineMKLClassifier(random_state=0), LogisticRegression()
        predicted = (model.fit(X[:1000], y[:1000]).predict(X[1000:]) for model in models)
        scores.append([balanced_accuracy_score(y[1000:], labels) for labels in predicted])
    ours, linear = np.mean(scores, axis=0)
    assert ours > linear - 0.03 > 0.6


@pytest.mark.parametrize("kernels", [None, ["gaussian:sigma2=1"], ["linear:on=0:2"]])
def test_missing_numbers_are_told_by_a_group(kernels, rng):
    X = rng.normal(size=(200, 3))
    y = rng.integers(0, 2, 200)
    complete = omkl.OnlineMKLClassifier(kernels, epochs=3, random_state=0).fit(X, y)
    assert "missing" not in complete.kernel_weights_
    holes = np.where(
        (y == 1)[:, None] & [False, True, False],
        np.nan,
        X,
    )
    model = omkl.OnlineMKLClassifier(kernels, epochs=3, random_state=0).fit(holes, y)
    assert model.score(holes, y) == 1.0
    assert model.kernel_weights_["missing"] > 0.5
    assert model.top_features(1, "missing")[0]["feature"] == "missing=1"
    # without the group, a missing number counts as the mean of its column
    mean = np.where(
        np.isnan(holes),
        X.mean(axis=0),
        holes,
    )
    assert_allclose(
        complete.decision_function(holes), complete.decision_function(mean), rtol=1e-6, atol=1e-9
    )


def test_missing_numbers_can_be_refused(table):
    X, y = table
    X[5, 2] = np.nan
    rows = [{"a": 1.0}, {"a": None}, {"a": 2.0}]
    for inputs, outputs, message in (
        (X, y, "[Cc]olumn 2.* row 5"),
        (rows, [0, 1, 1], "'a' .* got nothing in row or token 1"),
    ):
        with pytest.raises(InputError, match=message):
            omkl.OnlineMKLClassifier(missing="error").fit(inputs, outputs)
    with pytest.raises(InputError, match="missing must be one of"):
        omkl.OnlineMKLRegressor(missing="mean").fit(X, y)


def test_numbers_of_dicts_are_the_columns_of_an_array(table):
    X, y = table
    rows = [dict(zip("abcd", row)) for row in X.tolist()]
    rows[3]["late"] = 1.0  # in fewer than half of the rows: a sparse feature
    rows[4]["a"] = X[4, 0] = np.nan
    parameters = {"random_state": 0, "epochs": omkl.Passes(shuffle=False), "weighting": "norms"}
    model = omkl.OnlineMKLRegressor(**parameters).fit(rows, y)
    assert list(model.column_scales_) == list("abcd")
    names = [
        "linear",
        "quadratic",
        "gaussian",
        "narrow gaussian",
        "quadratic:ranges",
        "late",
        "missing",
    ]
    assert sorted(model.kernel_weights_) == sorted(names)
    del rows[3]["late"]
    expected = omkl.OnlineMKLRegressor(**parameters).fit(X, y).predict(X)
    assert_allclose(
        omkl.OnlineMKLRegressor(**parameters).fit(rows, y).predict(rows), expected, rtol=1e-9
    )


def test_dates_of_dicts_are_days():
    days = [datetime.datetime(1500, 1, 1) + datetime.timedelta(days=7 * i) for i in range(30)]
    zoned = [day.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=6))) for day in days]
    first = (days[0] - datetime.datetime(1970, 1, 1)).days
    for values, start in (
        (days, first),
        (zoned, first - 0.25),
        ([day - days[0] for day in days], 0),
    ):
        model = omkl.OnlineMKLRegressor(epochs=1).fit(
            [{"when": value} for value in values], np.arange(30.0)
        )
        assert_allclose(model.column_scales_["when"], (start + 7 * 14.5, 7 * np.std(np.arange(30))))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.inf, "'b' must hold a number.* got inf in row or token 1"),
        (-1e300, "-1e.300"),
        ([1.0], r"got '\[1.0\]'"),
    ],
)
def test_wrong_numbers_of_dicts_are_named(value, message):
    model = omkl.OnlineMKLClassifier().partial_fit(
        [{"a": 1.0, "b": 2.0}], ["x"], classes=["x", "y"]
    )
    with pytest.raises(InputError, match=message):
        model.partial_fit([{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": value}], ["x", "y"])


def test_a_key_that_turns_from_number_to_text_is_refused():
    model = omkl.OnlineMKLClassifier().partial_fit([{"a": 1.0}, {"a": 2.0}], ["x", "y"])
    before = model.decision_function([{"a": 3.0}])
    with pytest.raises(InputError, match="'a' of X must hold finite numbers, got 'three' in row 0"):
        model.partial_fit([{"a": "three"}], ["x"])
    assert_array_equal(model.decision_function([{"a": 3.0}]), before)


def test_constant_and_empty_columns_change_nothing(table):
    X, y = table
    wide = np.column_stack([X, np.full(len(X), 7.0), np.full(len(X), np.nan)])
    scores = [
        omkl.OnlineMKLClassifier(epochs=5, random_state=0).fit(table, y).score(table, y)
        for table in (X, wide)
    ]
    assert abs(scores[0] - scores[1]) < 0.05


def test_a_stream_of_default_kernels_has_bounded_memory(rng):
    X = rng.normal(size=(600, 40))
    y = rng.integers(0, 2, 600)
    model = omkl.OnlineMKLClassifier().partial_fit(X, y)
    before = model.memory_usage()["training"]
    assert model.partial_fit(X, y).memory_usage()["training"] == before
