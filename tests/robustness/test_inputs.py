"""Arrays of any storage, columns of times and text, labels of data frames, and parameters of wrong
types.
"""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

import omkl
from omkl._components import resolve
from omkl.data import synthetic_treebank
from omkl.exceptions import InputError, OmklError
from omkl.kernels import Kernel, as_kernel, random_subset_gaussians
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

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
    matrix = sparse.csr_array(X)
    twice = sparse.csr_array(
        (
            np.repeat(matrix.data / 2, 2),
            np.repeat(matrix.indices, 2),
            2 * matrix.indptr,
        ),
        X.shape,
    )
    expected = model.fit(matrix, y).predict(matrix)
    assert_allclose(
        model.fit(twice, y).predict(twice),
        expected,
        rtol=1e-9,
    )
    assert twice.nnz == 2 * matrix.nnz


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
    model, y = learner
    days = pd.DataFrame({"when": np.arange(24.0) % 7, "size": X[:, 0]})
    times = pd.to_datetime(days["when"], unit="D", utc=zone is not None)
    frame = days.assign(when=times if zone is None else times.dt.tz_convert(zone))
    expected = model.fit(days, y).predict(days)
    assert_allclose(model.fit(frame, y).predict(frame), expected)
    if zone is None:
        matrix = np.stack([times.to_numpy(), times.to_numpy() + np.timedelta64(12, "h")], axis=1)
        halves = np.stack([days["when"], days["when"] + 0.5], axis=1)
        assert_allclose(
            model.fit(matrix, y).predict(matrix),
            model.fit(halves, y).predict(halves),
        )


def test_columns_that_share_a_name_are_refused(learner):
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
    model, y = learner
    if y is None:
        return
    missing = (
        pd.Series([str(k) for k in y], dtype="string")
        if y is CLASSES
        else pd.Series(y, dtype="Float64")
    )
    missing[5] = pd.NA
    with pytest.raises(
        InputError, match="y must hold classes or numbers in every row, got nothing in row 5"
    ):
        model.fit(X, missing)
    for dates in (CLASSES.astype("M8[D]"), pd.Series(CLASSES.astype("m8[s]"))):
        with pytest.raises(InputError, match="got dates or durations"):
            model.fit(X, dates)
    if y is CLASSES:
        with pytest.raises(InputError, match="only strings or only numbers"):
            model.fit(X, np.array(["a", 1] * 12, dtype=object))


@pytest.mark.parametrize("form", ["array", "list"])
def test_text_in_an_array_is_refused_by_its_column(learner, form):
    model, y = learner
    table = np.array([X[:, 0], ["1.5"] * 23 + ["north"]], dtype=object).T
    with pytest.raises(
        InputError, match="Column 1 of X must hold finite numbers, got 'north' in row 23"
    ):
        model.fit(table if form == "array" else table.tolist(), y)


OWN_RNG = np.random.default_rng(0)
FEW = OWN_RNG.normal(size=(12, 3))
OWN_SCORE = FEW[:, 0] - FEW[:, 1]
CHECKED = {
    "online classifier": (
        omkl.OnlineMKLClassifier(["linear", "gaussian"], epochs=1, random_state=0),
        OWN_SCORE > 0,
    ),
    "online regressor": (
        omkl.OnlineMKLRegressor(["linear", "gaussian"], epochs=1, random_state=0),
        OWN_SCORE,
    ),
    "classifier": (omkl.MKLClassifier(["linear", "gaussian"]), OWN_SCORE > 0),
    "regressor": (omkl.MKLRegressor(["linear", "gaussian"]), OWN_SCORE),
    "chosen by folds": (omkl.MKLClassifierCV(["linear"], Cs=2, cv=2), OWN_SCORE > 0),
    "design": (omkl.GroupLasso(0.1), OWN_SCORE),
    "sparse classifier": (omkl.SparseLogisticRegression(0.1), OWN_SCORE > 0),
    "design chosen by folds": (omkl.SparseLogisticRegressionCV(alphas=2, cv=2), OWN_SCORE > 0),
}


class Thing:
    """An object that no parameter takes."""


VALUES = [
    Thing(),
    np.array([1.0, 2.0]),
    np.array([]),
    np.float32(1.0),
    -1,
    np.nan,
    "x",
    [],
    {},
]
#: Parameters that make training long.
LONG = {"epochs", "max_iter", "tol", "verbose"}


def check(name, parameter, value, path):
    """Fit a model that predicts finite numbers, also from its file, or raise an error of omkl."""
    model, y = CHECKED[name]
    model = clone(model).set_params(**{parameter: value})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            predicted = model.fit(FEW, y).predict(FEW)
        except OmklError:
            return
        assert np.isfinite(predicted).all()
        model.save(path)
        assert np.array_equal(omkl.load(path).predict(FEW), predicted)


@pytest.mark.parametrize("name", CHECKED)
def test_values_of_wrong_types(name, tmp_path):
    parameters = sorted(CHECKED[name][0].get_params(deep=False).keys() - LONG)
    for parameter, value in itertools.product(parameters, VALUES):
        check(name, parameter, value, tmp_path / "model.omkl")


WORDS = [
    *(
        "linear",
        "quadratic",
        "polynomial",
        "gaussian",
        "chi2",
        "on",
        "degree",
        "sigma2",
        "features",
        "map",
        "nan",
    ),
    *(
        ":",
        ",",
        "=",
        "-",
        "[",
        "]",
        "(",
        ")",
        "'",
        "0",
        "1",
        "-1",
        "1e308",
        "0:3",
        "0:3:0",
        "a:b",
        "True",
        "None",
    ),
]
ODD = ["9" * 25, "9" * 5000, "\0", "\ud800", "é", "x" * 5000, " ", "\n", "\t"]


def made(make, text):
    try:
        return make(text)
    except OmklError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 1000
        message.encode()


@given(
    pieces=st.lists(st.sampled_from(WORDS + ODD), min_size=1, max_size=8),
    base=st.sampled_from([Kernel, Regularizer, PointwiseLoss]),
)
def test_strings_of_parts_make_parts_or_are_refused(pieces, base):
    part = made(lambda text: resolve(base, text, "part"), "".join(pieces))
    assert part is None or isinstance(part, base)
    made(lambda text: as_kernel(text).fit(np.eye(3)), "".join(pieces))


@pytest.mark.parametrize("on", ["0:-", "-:", "0:3:0", "0:3:-", "9" * 5000 + ":"])
def test_ranges_of_columns_that_are_none_are_refused(on):
    with pytest.raises(InputError):
        as_kernel(f"linear:on={on}").placed(5)


@pytest.mark.parametrize("value", ["9" * 400, "[,]", "[a", "(((a)))"])
def test_values_that_python_cannot_read_are_refused(value):
    for spec in (f"gaussian:sigma2={value}", f"polynomial:degree={value}", f"linear:on={value}"):
        made(lambda text: as_kernel(text).fit(np.eye(3)), spec)


@pytest.mark.parametrize("degree", ["1001", "1e9", "9" * 400])
def test_powers_that_would_take_for_ever_are_refused(degree):
    with pytest.raises(InputError, match="degree must be a whole number"):
        as_kernel(f"polynomial:degree={degree}")


@pytest.mark.parametrize("spec", ["gaussian:features=1000000000000", "chi2:features=1000001"])
def test_maps_of_more_features_than_fit_are_refused(spec):
    with pytest.raises(InputError, match="features must be a whole number"):
        as_kernel(spec)


def annotate(generator):
    treebank = synthetic_treebank(20, random_state=0)
    annotator = omkl.Annotator(
        ["upos"], tagger=omkl.SequenceLabeler(epochs=1), random_state=generator, verbose=False
    )
    return annotator.fit(treebank).kernel_weights_["upos"]


NOISE = RNG.normal(size=24)
DRAWN = {
    "select_groups": lambda generator: (
        omkl.select_groups(
            omkl.GroupLasso(0.05), X, NOISE, method="stability", n_pairs=10, random_state=generator
        ).statistics
    ),
    "random_subset_gaussians": lambda generator: list(random_subset_gaussians(3, 9, generator)),
    "Annotator": annotate,
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_generator_of_numpy_is_a_random_state(name):
    draws = [DRAWN[name](np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
