"""Arrays of any storage, columns of times and text, and labels of data frames."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import omkl
from omkl.exceptions import InputError

RNG = np.random.default_rng(0)
X = np.round(4 * RNG.normal(size=(24, 4))) / 4
SCORE = X[:, 0] - X[:, 1] + 0.3 * RNG.normal(size=24)
CLASSES = (SCORE > 0).astype(int)
ESTIMATORS = {
    "online classifier": (omkl.OnlineMKLClassifier("linear", epochs=2, random_state=0), CLASSES),
    "online regressor": (omkl.OnlineMKLRegressor("linear", epochs=2, random_state=0), SCORE),
    "classifier": (omkl.MKLClassifier(["linear", "gaussian"]), CLASSES),
    "regressor": (omkl.MKLRegressor(["quadratic", "gaussian"]), SCORE),
    "design": (omkl.GroupLasso(0.05), SCORE),
    "sparse classifier": (omkl.SparseLogisticRegression(0.02), CLASSES),
}


@pytest.fixture(params=ESTIMATORS)
def learner(request):
    return ESTIMATORS[request.param]


def test_duplicate_entries_of_sparse_matrices_are_summed(learner):
    model, y = learner
    whole = sparse.csr_array(X)
    twice = sparse.csr_array((np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr), X.shape)
    expected = model.fit(whole, y).predict(whole)
    assert_allclose(model.fit(twice, y).predict(twice), expected, rtol=1e-9)
    assert twice.nnz == 2 * whole.nnz


def test_sparse_matrices_with_indices_out_of_range_are_refused(learner):
    model, y = learner
    model.fit(sparse.csr_array(X), y)
    bad = sparse.csr_array(X)
    bad.indices[1] = 99
    for call in (lambda: model.fit(bad, y), lambda: model.predict(bad)):
        with pytest.raises(InputError, match="damaged"):
            call()


@pytest.mark.filterwarnings("ignore:All training samples get one class")
@pytest.mark.parametrize("zone", [None, "Europe/Vienna"])
def test_times_are_days_in_all_estimators(learner, zone):
    pd = pytest.importorskip("pandas")
    model, y = learner
    days = pd.DataFrame({"when": np.arange(24.0) % 7, "size": X[:, 0]})
    times = pd.to_datetime(days["when"], unit="D", utc=zone is not None)
    frame = days.assign(when=times if zone is None else times.dt.tz_convert(zone))
    expected = model.fit(days, y).predict(days)
    assert_allclose(model.fit(frame, y).predict(frame), expected)
    if zone is None:
        matrix = np.stack([times.to_numpy(), times.to_numpy() + np.timedelta64(12, "h")], axis=1)
        halves = np.stack([days["when"], days["when"] + 0.5], axis=1)
        assert_allclose(model.fit(matrix, y).predict(matrix), model.fit(halves, y).predict(halves))


def test_columns_that_share_a_name_are_refused(learner):
    pd = pytest.importorskip("pandas")
    model, y = learner
    with pytest.raises(InputError, match="several columns 'a'"):
        model.fit(pd.DataFrame(X, columns=["a", "b", "a", "c"]), y)


def test_masked_entries_are_refused(learner):
    model, y = learner
    masked = np.ma.masked_greater(X, 1.0)
    with pytest.raises(InputError, match="X must have no masked entries"):
        model.fit(masked, y)
    with pytest.raises(InputError, match="y must have no masked entries"):
        model.fit(X, np.ma.masked_greater(y, 0.5))


def test_missing_targets_are_named_by_their_row(learner):
    pd = pytest.importorskip("pandas")
    model, y = learner
    if y is None:
        return
    missing = pd.Series([str(k) for k in y], dtype="string") if y is CLASSES else pd.Series(y, dtype="Float64")
    missing[5] = pd.NA
    with pytest.raises(InputError, match="y must hold classes or numbers in every row, got nothing in row 5"):
        model.fit(X, missing)
    for dates in (CLASSES.astype("M8[D]"), pd.Series(CLASSES.astype("m8[s]"))):
        with pytest.raises(InputError, match="got dates or durations"):
            model.fit(X, dates)
    if y is CLASSES:
        with pytest.raises(InputError, match="only strings or only numbers"):
            model.fit(X, np.array(["a", 1] * 12, dtype=object))


@pytest.mark.parametrize("form", ["pandas", "polars", "array", "list"])
def test_text_is_refused_by_its_column(learner, form):
    model, y = learner
    words = ["1.5"] * 23 + ["north"]
    if form in ("pandas", "polars"):
        table, where = pytest.importorskip(form).DataFrame({"age": X[:, 0], "region": words}), "Column 'region'"
        if "Online" in type(model).__name__:
            pytest.skip("learns from text as it is")
    else:
        table, where = np.array([X[:, 0], words], dtype=object).T, "Column 1"
        table = table if form == "array" else table.tolist()
    with pytest.raises(InputError, match=f"{where} of X must hold finite numbers, got 'north' in row 23"):
        model.fit(table, y)
