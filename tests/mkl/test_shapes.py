"""Shape functions, and pairs of columns that a model lacks."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import resample

import omkl
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, Linear, per_column

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings(
    "ignore:On held-out samples", "ignore:No training sample", "ignore:The best"
)

rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(size=(90, 3)), rng.integers(0, 3, 90)])
SCORE = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
CLASSES = np.digitize(SCORE, [-0.2, 0.9])
KERNELS = per_column("gaussian", X)
ELASTIC = {"regularizer": "elastic-net", "C": 1.0}
ONLINE = {"epochs": 3, "regularizer": "l2", "weighting": "norms", "random_state": 0}
MODELS = [
    (omkl.MKLClassifier(KERNELS, **ELASTIC), SCORE > 0.0),
    (omkl.MKLClassifier(per_column("linear", X), loss="hinge", regularizer="uniform"), SCORE > 0.0),
    (omkl.MKLClassifier(KERNELS, **ELASTIC), CLASSES),
    (omkl.MKLClassifier(KERNELS, multiclass="ovr", **ELASTIC), CLASSES),
    (omkl.MKLClassifierCV(KERNELS, regularizer="elastic-net", cv=2, Cs=3), SCORE > 0.0),
    (omkl.MKLRegressor(KERNELS, **ELASTIC), SCORE),
    (omkl.MKLRegressor(KERNELS, **ELASTIC), np.column_stack([SCORE, X[:, 0]])),
    (omkl.MKLRegressor(KERNELS, loss="poisson", **ELASTIC), rng.poisson(np.exp(SCORE))),
    (omkl.OnlineMKLClassifier(KERNELS, **ONLINE), SCORE > 0.0),
    (omkl.OnlineMKLClassifier(per_column("linear", X), loss="hinge", **ONLINE), CLASSES),
    (omkl.OnlineMKLClassifier(per_column("gaussian:features=20", X), **ONLINE), CLASSES),
    (omkl.OnlineMKLRegressor(KERNELS, **ONLINE), SCORE),
]


def outputs_of(model, rows):
    if model.loss == "poisson":
        return np.log(model.predict(rows))
    return (getattr(model, "decision_function", None) or model.predict)(rows)


@pytest.mark.parametrize(("estimator", "y"), MODELS, ids=lambda model: type(model).__name__)
def test_curves_and_intercept_add_up_to_the_output(estimator, y):
    model = clone(estimator).fit(X, y)
    shapes = model.shapes(X)
    rows = np.tile(X[:1], (40, 1))
    total = np.zeros(1) + shapes.intercept
    for part in shapes.parts:
        chosen = np.random.default_rng(1).integers(0, len(part.grid), 40)
        rows[:, int(part.columns[0].removeprefix("column "))] = part.grid[chosen]
        total = total + part.effect[chosen]
        assert_allclose(part.density.sum(), 1.0)
    assert len(shapes.parts) >= 3
    assert_allclose(total, outputs_of(model, rows), atol=1e-9)
    assert len(shapes.outputs) == (1 if np.ndim(total) == 1 else total.shape[1])
    strengths = [part.strength for part in shapes.parts]
    assert strengths == sorted(strengths, reverse=True)
    of_few = next(part for part in shapes.parts if part.columns == ("column 3",))
    assert_allclose(of_few.density @ of_few.effect, 0.0, atol=1e-9)
    assert_array_equal(of_few.grid, [0.0, 1.0, 2.0])


@pytest.mark.parametrize("form", [pandas.DataFrame, polars.DataFrame])
@pytest.mark.parametrize("online", [False, True])
def test_text_and_missing_numbers_have_bars(form, online):
    jobs = np.array(["cook", "smith", None], dtype=object)[X[:, 3].astype(int)]
    ages = np.where(
        np.arange(90) % 5 == 0,
        np.nan,
        np.digitize(X[:, 0], [-0.5, 0.5]) - 1.0,
    )
    frame = form({"age": ages, "job": jobs, "size": np.round(X[:, 1])})
    numbers = per_column("gaussian", ["age", "size"])
    batch = omkl.MKLClassifier({**numbers, "job": Linear(on="job")}, **ELASTIC)
    model = omkl.OnlineMKLClassifier(numbers, **ONLINE) if online else batch
    shapes = model.fit(frame, SCORE > 0.0).shapes(frame)
    effects = {
        part.columns: dict(zip(part.grid.tolist(), part.effect.tolist())) for part in shapes.parts
    }
    assert effects.keys() == {("age",), ("job",), ("size",), ("missing",)}
    assert effects["job",].keys() == {"cook", "smith", "missing"}
    assert effects["missing",].keys() == {"age", "none"}
    total = [
        shapes.intercept
        + effects["age",][age]
        + effects["job",][job or "missing"]
        + effects["size",][size]
        + none
        for age, job, size, none in zip(
            ages, jobs, np.round(X[:, 1]), [effects["missing",]["none"]] * 90
        )
        if age == age
    ]
    assert_allclose(
        total,
        model.decision_function(frame)[ages == ages],
        atol=1e-9,
    )


def samples():
    """Yield all rows, and twenty bootstrap samples of them."""
    random = np.random.RandomState(3)
    yield np.arange(90)
    for _ in range(20):
        yield np.sort(resample(np.arange(90), random_state=random))


def weighted_kernel(weight, kernel, rows, others):
    return weight * kernel(rows, others)


def ridge_solution(gram, y, C):
    """Return the dual coefficients of a kernel ridge with an intercept."""
    ones = np.ones((len(y), 1))
    system = np.block([[gram + np.eye(len(y)) / C, ones], [ones.T, 0.0]])
    return np.linalg.solve(system, np.append(y, 0.0))[:-1]


def test_bands_are_those_of_weighted_ridges_on_bootstrap_rows():
    y = SCORE - SCORE.mean()
    kernels = per_column("gaussian", X, pairs=[(1, 2)])
    model = omkl.MKLRegressor(kernels, regularizer="elastic-net", C=2.0, tol=1e-8).fit(X, y)
    shapes = model.shapes(X, y, random_state=3)
    weighted = {}
    for name, weight in model.unscaled_kernel_weights_.items():
        weighted[name] = partial(
            weighted_kernel,
            weight,
            kernels[name].fit(X),
        )
    # with the weights fixed, a machine with the sum of the kernels has the solution of the whole
    # problem
    gram = sum(kernel(X, X) for kernel in weighted.values())
    rhos = [(rows, ridge_solution(gram[np.ix_(rows, rows)], y[rows], 2.0)) for rows in samples()]
    again = model.shapes(X, y, random_state=3)
    for part, same in zip(shapes.parts, again.parts):
        points = np.tile(X[:1], (len(part.grid), 1))
        points[:, [int(name[-1]) for name in part.columns]] = part.grid.reshape(len(part.grid), -1)
        kernel = weighted[" x ".join(part.columns)]
        effects = np.array([kernel(points, X[rows]) @ rho for rows, rho in rhos])
        constant = effects[0] - part.effect
        assert_allclose(constant, constant.mean(), atol=1e-4)
        effects -= (effects @ part.density)[:, None]
        assert_allclose(
            part.band,
            2.0 * effects[1:].std(axis=0),
            rtol=1e-2,
            atol=1e-4,
        )
        assert_array_equal(part.band, same.band)
    assert ("column 1", "column 2") in [part.columns for part in shapes.parts]


def test_classes_and_pairs_have_bands_and_surfaces(tmp_path):
    model = omkl.MKLClassifier(per_column("gaussian", X, pairs=[(1, 2)]), **ELASTIC).fit(X, CLASSES)
    shapes = model.shapes(X, CLASSES)
    shape_of = {part.columns: part for part in shapes.parts}
    surface = shape_of["column 1", "column 2"]
    assert surface.grid.shape == (90, 2)
    assert surface.effect.shape == (90, 3)
    assert all((shape.band > 0.0).all() for shape in (surface, shape_of["column 0",]))
    total = np.tile(shapes.intercept, (90, 1))
    for columns, part in shape_of.items():
        places = [int(name[-1]) for name in columns]
        at = np.array(
            [
                np.abs(part.grid.reshape(len(part.grid), -1) - row).max(axis=1).argmin()
                for row in X[:, places]
            ]
        )
        total += part.effect[at]
    # up to 100 points are not all rows
    assert_allclose(total, model.decision_function(X), atol=0.2)
    model.save(tmp_path / "model")
    assert_array_equal(
        omkl.load(tmp_path / "model").shapes(X).parts[0].effect, shapes.parts[0].effect
    )
    online = omkl.OnlineMKLRegressor(per_column("gaussian", X, pairs=[(1, 2)]), **ONLINE).fit(
        X, SCORE
    )
    assert ("column 1", "column 2") in {part.columns for part in online.shapes(X).parts}


@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        (omkl.MKLRegressor(["gaussian"]), X, "one or two columns.* is on 4"),
        (omkl.OnlineMKLRegressor(random_state=0), X, "one or two columns.* is on 4"),
        (omkl.MKLRegressor("precomputed"), X @ X.T, "Gram matrices"),
        (
            omkl.MKLRegressor(per_column("linear", sparse.csr_array(X))),
            sparse.csr_array(X),
            "array of numbers",
        ),
    ],
)
def test_shapes_of_other_models_are_refused(model, rows, message):
    with pytest.raises(InputError, match=message):
        clone(model).fit(rows, SCORE).shapes(rows)


def test_columns_without_a_grid_are_refused():
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = omkl.MKLRegressor(per_column("gaussian", frame), **ELASTIC).fit(frame, SCORE)
    with pytest.raises(InputError, match="'a' of X must hold two values or more, got 1"):
        model.shapes(frame.assign(a=1.0))
    with pytest.raises(InputError, match="'a' of X must hold two values or more, got 0"):
        model.shapes(frame.assign(a=np.nan))
    with pytest.raises(InputError, match="'a' of X must hold finite numbers, got 'x'"):
        model.shapes(frame.assign(a="x"))
    with pytest.raises(ValueError, match="no column 'd'"):
        model.shapes(frame[["a", "b", "c"]])
    with pytest.raises(ValueError, match="inconsistent"):
        model.shapes(frame, SCORE[:-1])


# ---- pairs ---------------------------------------------------------------------------------------


def objective(estimator, pairs, y):
    model = clone(estimator).set_params(kernels=per_column("gaussian", X, pairs=pairs), tol=1e-7)
    return model.path(X, y, [1.0])[0]["objective"]


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (omkl.MKLClassifier(KERNELS, **ELASTIC), SCORE > 0.0),
        (omkl.MKLClassifier(KERNELS, loss="hinge", regularizer="mkl", C=1.0), SCORE > 0.0),
        (omkl.MKLClassifier(KERNELS, regularizer="block1", C=1.0), CLASSES),
        (omkl.MKLClassifier(KERNELS, multiclass="ovr", **ELASTIC), CLASSES),
        (omkl.MKLRegressor(KERNELS, regularizer="mkl", C=1.0), SCORE),
        (omkl.MKLRegressor(KERNELS, regularizer="uniform", C=1.0), X[:, 0]),
        (omkl.MKLRegressor(KERNELS, regularizer="mkl", C=1.0), np.sin(X[:, 0])),
    ],
)
def test_exactly_the_missing_pairs_lower_the_objective(estimator, y):
    record_of = {
        record["pair"]: record for record in clone(estimator).fit(X, y).missing_pairs(X, y)
    }
    before = objective(estimator, [], y)
    for pair in combinations(range(4), 2):
        after = objective(estimator, [pair], y)
        if pair in record_of:
            assert after <= before * (1.0 - record_of[pair]["decrease"] + 1e-6)
            assert record_of[pair]["excess"] > 0.0
        else:
            assert after > before * (1.0 - 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss", ["hinge", "epsilon-insensitive:epsilon=0.3", "quantile:quantile=0.7"]
)
@pytest.mark.parametrize(("regularizer", "C"), [("mkl", 3.0), ("uniform", 1.0), ("block1", 1.0)])
def test_pairs_are_neither_dropped_nor_added_where_losses_have_kinks(loss, regularizer, C):
    """A line search from the model finds no descent at a kink, so that pairs that help were
    dropped.
    """
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(40, 4))
        score = rows[:, 0] * rows[:, 1] + rows[:, 2] + 0.1 * rng.normal(size=40)
        form, y = (
            (omkl.MKLClassifier, score > 0.0) if loss == "hinge" else (omkl.MKLRegressor, score)
        )
        settings = {"loss": loss, "regularizer": regularizer, "C": C, "tol": 1e-7}

        def least(pairs, form=form, rows=rows, y=y, settings=settings):
            model = form(per_column("gaussian", rows, pairs=pairs), **settings)
            return model.path(rows, y, [C])[0]["objective"]

        model = form(per_column("gaussian", rows), **settings).fit(rows, y)
        decreases = {record["pair"]: record["decrease"] for record in model.missing_pairs(rows, y)}
        before = least([])
        for pair in combinations(range(4), 2):
            decrease = 1.0 - least([pair]) / before
            assert 0.9 * decrease - 1e-5 <= decreases.get(pair, 0.0) <= decrease + 1e-5


def test_a_missing_interaction_comes_first_and_nothing_is_missing_without_one():
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame.loc[::9, "a"] = np.nan
    model = omkl.MKLRegressor(per_column("gaussian", frame), **ELASTIC).fit(frame, SCORE)
    (first, *_) = model.missing_pairs(frame, SCORE, n=2)
    assert first["pair"] == ("b", "c")
    linear = omkl.MKLRegressor(per_column("linear", X), regularizer="block1", C=0.03).fit(
        X, X[:, 0]
    )
    assert linear.missing_pairs(X, X[:, 0]) == []
    records = (
        omkl.MKLRegressor(KERNELS, **ELASTIC)
        .fit(frame.to_numpy(), SCORE)
        .missing_pairs(frame.to_numpy(), SCORE)
    )
    assert records[0]["pair"] == (1, 2)
    both = omkl.MKLRegressor(per_column("gaussian", X, pairs=[(1, 2)]), **ELASTIC).fit(X, SCORE)
    assert (1, 2) not in [record["pair"] for record in both.missing_pairs(X, SCORE)]


@pytest.mark.parametrize(
    ("kernels", "rows", "message"),
    [
        (["gaussian"], X, "two single columns"),
        ([Gaussian(on=0, standardize=True)], X, "two single columns"),
        ("precomputed", X @ X.T, "Gram matrices"),
    ],
)
def test_pairs_need_single_columns(kernels, rows, message):
    with pytest.raises(InputError, match=message):
        omkl.MKLRegressor(kernels).fit(rows, SCORE).missing_pairs(rows, SCORE)
    with pytest.raises(InputError, match="n must be"):
        omkl.MKLRegressor(KERNELS).fit(X, SCORE).missing_pairs(X, SCORE, n=0)
