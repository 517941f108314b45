"""Columns of text and categories in data frames, for batch estimators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import omkl
from omkl.exceptions import DataWarning, InputError
from omkl.kernels import Average, Gaussian, per_column
from omkl.reports import plot_weights

pandas = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
AGE = rng.normal(size=60)
PAY = rng.normal(size=60)
CITY = rng.choice(list("abc"), 60)
GRADE = rng.integers(1, 3, 60)
TARGET = AGE + 2.0 * (CITY == "a") * (GRADE == 1) + 0.1 * PAY
CLASSES = np.where(TARGET > 0.5, "yes", "no")
FRAME = pandas.DataFrame({"age": AGE, "city": CITY, "pay": PAY, "grade": pandas.Categorical(GRADE)})
ENCODED = np.column_stack([AGE, *(c == CITY for c in "abc"), PAY, GRADE == 1, GRADE == 2])
NAMES = ["age", "city=a", "city=b", "city=c", "pay", "grade=1", "grade=2"]
ESTIMATORS = [
    (omkl.MKLClassifier(["linear", "gaussian"]), CLASSES),
    (omkl.MKLRegressor(["linear", "gaussian"]), TARGET),
    (omkl.MKLClassifierCV(["linear", "gaussian"], Cs=2, cv=2), CLASSES),
    (omkl.GroupLasso(0.02, groups=[[0], [1], [2], [3]]), TARGET),
    (omkl.SparseLogisticRegression(0.02), CLASSES),
    (omkl.GroupLassoCV(3, cv=2), TARGET),
]
GROUPS = np.repeat(range(4), [1, 3, 1, 2])


def assert_agree(predicted, expected):
    """Equal classes, or numbers up to rounding: arrays of frames have another order in memory."""
    if expected.dtype.kind == "U":
        assert_array_equal(predicted, expected)
    else:
        assert_allclose(predicted, expected, atol=1e-9)


@pytest.mark.filterwarnings("ignore:The best C")
@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS, ids=lambda value: type(value).__name__)
def test_each_category_is_a_column_of_0_and_1(estimator, y, reloaded):
    model = clone(estimator).fit(FRAME, y)
    of_codes = clone(estimator)
    if hasattr(of_codes, "groups"):
        of_codes.set_params(groups=GROUPS)
    expected = of_codes.fit(ENCODED, y).predict(ENCODED)
    assert_agree(model.predict(FRAME), expected)
    assert model.feature_names_in_.tolist() == ["age", "city", "pay", "grade"]
    assert model.n_features_in_ == 4
    assert model.categories_ == [None, ["a", "b", "c"], None, ["1", "2"]]
    again = reloaded(model)
    assert again.categories_ == model.categories_
    assert_array_equal(again.predict(FRAME), model.predict(FRAME))
    assert np.isfinite(cross_val_score(estimator, FRAME, y, cv=2)).all()
    assert any("city=" in name or "row" in name for name in str(model.explain(FRAME[:1])).split())
    if hasattr(model, "groups"):
        model.set_params(groups=None)
    assert not hasattr(model.fit(FRAME[["age", "pay"]], y), "categories_")


def test_types_of_columns_do_not_matter():
    model = omkl.MKLRegressor().fit(FRAME, TARGET)
    polars = pytest.importorskip("polars")
    columns = {"age": AGE, "city": CITY, "pay": PAY, "grade": GRADE.astype(str)}
    others = [FRAME.astype({"city": "category"}), FRAME.astype({"city": "string", "grade": int})]
    kinds = {"city": polars.Categorical, "grade": polars.Enum(["2", "1"])}
    for other in (*others, polars.DataFrame(columns), polars.DataFrame(columns).cast(kinds)):
        assert_array_equal(model.predict(other), model.predict(FRAME))
    learned = omkl.MKLRegressor().fit(polars.DataFrame(columns).cast(kinds), TARGET)
    assert_array_equal(learned.predict(FRAME), model.predict(FRAME))


def test_unknown_categories_count_as_missing():
    learner = omkl.MKLRegressor(["linear", "gaussian"])
    model = clone(learner).fit(FRAME.assign(city=FRAME["city"].where(FRAME.index > 5)), TARGET)
    with pytest.warns(DataWarning, match="Column 'city' of X has unknown values, .*: 'Rome'"):
        predicted = model.predict(FRAME[:3].assign(city=["Rome", "a", "Rome"]))
    encoded = np.array(ENCODED)
    encoded[:6, 1:4] = 0.0
    other = clone(learner).fit(encoded, TARGET)
    encoded[1, 1] = 1.0
    assert_array_equal(predicted, other.predict(encoded[:3]))


def test_models_on_categories_need_names_of_columns():
    model = omkl.MKLRegressor().fit(FRAME, TARGET)
    with pytest.raises(InputError, match="must be a data frame"):
        model.predict(ENCODED)


@pytest.mark.parametrize(
    ("kernel", "columns"),
    [
        ("gaussian:on=city", "gaussian:on=1:4"),
        ("gaussian:on=[3,age]", "gaussian:on=[5,6,0]"),
        ("gaussian:on='*a*'", "gaussian:on=[0,4,5,6]"),
        ("gaussian:on=1:3", "gaussian:on=1:5"),
        (
            Average([Gaussian(on="grade"), "linear:on=0"]),
            Average([Gaussian(on=(5, 6)), "linear:on=0"]),
        ),
    ],
)
def test_kernels_select_all_categories_of_a_column(kernel, columns):
    model = omkl.MKLRegressor({"k": kernel}).fit(FRAME, TARGET)
    of_columns = omkl.MKLRegressor({"k": columns}).fit(ENCODED, TARGET)
    assert_array_equal(model.predict(FRAME), of_columns.predict(ENCODED))


def test_a_kernel_per_column_selects_columns_with_categories():
    kernels = per_column("linear", list(FRAME.columns))
    assert omkl.MKLRegressor(kernels, C=10.0).fit(FRAME, TARGET).kernel_weights_["city"] > 0.0


@pytest.mark.parametrize(
    ("groups", "labels", "names"),
    [
        (None, GROUPS, ["age", "city", "pay", "grade"]),
        ([0, 1, 1, 0], [0, 1, 1, 1, 1, 0, 0], ["group 0", "group 1"]),
        (
            {"numbers": ["age", "pay"], "rest": [1, "grade"]},
            [0, 1, 1, 1, 0, 1, 1],
            ["numbers", "rest"],
        ),
    ],
)
def test_groups_hold_all_categories_of_a_column(groups, labels, names):
    model = omkl.GroupLasso(0.02, groups=groups).fit(FRAME, TARGET)
    assert_agree(model.coef_, omkl.GroupLasso(0.02, groups=labels).fit(ENCODED, TARGET).coef_)
    assert {label.get_text() for label in plot_weights(model).get_yticklabels()} == set(names)
    for wrong in ([0, 1, 1], [["age", "city"], ["pay", 9]]):
        with pytest.raises(InputError, match="groups must"):
            omkl.GroupLasso(groups=wrong).fit(FRAME, TARGET)
