"""Default kernels of numbers in tables with text."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import omkl
from omkl.exceptions import InputError

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def table():
    """Classes inside and outside of a circle, numbers in different units, and a useless column of
    text.
    """
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 2))
    y = np.where(
        (points**2).sum(axis=1) < 1.4,
        "in",
        "out",
    )
    frame = pd.DataFrame(
        {"big": 1e6 + 1e3 * points[:, 0], "small": 1e-6 * points[:, 1], "constant": 0.1}
    )
    return frame, frame.assign(text=rng.choice(list("abc"), 400)), y


def test_numbers_keep_their_kernels_beside_text(table, tmp_path, reloaded):
    frame, mixed, y = table
    model = omkl.OnlineMKLClassifier(epochs=10, random_state=0).fit(mixed[:300], y[:300])
    assert list(model.kernel_weights_) == [
        "linear",
        "quadratic",
        "gaussian",
        "narrow gaussian",
        "quadratic:ranges",
        "text",
    ]
    assert model.score(mixed[300:], y[300:]) > 0.9
    again = reloaded(model)
    assert_array_equal(
        again.decision_function(mixed[300:]),
        model.decision_function(mixed[300:]),
    )
    standard = (frame - frame[:300].mean()) / frame[:300].std(ddof=0).replace(0.0, 1.0).clip(
        lower=1e-9
    )
    standard["constant"] = 0.0
    alone = omkl.OnlineMKLClassifier(epochs=10, random_state=0).fit(standard[:300], y[:300])
    assert abs(model.score(mixed[300:], y[300:]) - alone.score(standard[300:], y[300:])) < 0.03


def test_units_of_numbers_beside_text_do_not_matter(table):
    _, mixed, y = table
    other = mixed.assign(big=mixed["big"] / 1e3, small=mixed["small"] * 1e9)
    regressor = omkl.OnlineMKLRegressor(epochs=omkl.Passes(2, shuffle=False), random_state=0)
    models = [clone(regressor).fit(X, y == "in") for X in (mixed, other)]
    assert_allclose(
        models[0].predict(mixed),
        models[1].predict(other),
        rtol=1e-6,
        atol=1e-6,
    )


def test_missing_numbers_beside_text_count_as_the_mean(table):
    _, mixed, y = table
    model = omkl.OnlineMKLClassifier(epochs=2, random_state=0).fit(mixed, y)
    missing = mixed[:1].astype({"big": "Float64"}).assign(big=pd.NA)
    mean = mixed[:1].assign(big=mixed["big"].mean())
    assert model.decision_function(missing) == pytest.approx(model.decision_function(mean))


def test_bad_numbers_are_named_with_column_and_row():
    rows = [{"age": 30.0, "t": "a"}, {"age": float("nan"), "t": "b"}]
    with pytest.raises(InputError, match=r"'age' must hold a number, .* got nan in row or token 1"):
        omkl.OnlineMKLClassifier(["linear:on=age"], missing="error").fit(rows, ["x", "y"])
