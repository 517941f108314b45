"""Columns by name or position, frames, sparse inputs, and arguments of regularizers for single
groups.
"""

import itertools

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import omkl
from omkl.exceptions import InputError
from omkl.groups.expansions.cached import dense_grams
from omkl.kernels import Average, Gaussian, Linear, as_kernel
from omkl.regularizers import (
    L1,
    L21,
    ElasticNet,
    LqNorm,
    OverlappingGroups,
    Ridge,
    SparseGroup,
    SquaredL21,
    SquaredLq,
    TreeGroups,
    WeightedSquaredL21,
)

from ..cases import mostly_slow

NAMES = ["age", "income", "hours per week"]
MODELS = {
    "online": lambda kernels, **more: omkl.OnlineMKLClassifier(
        kernels, epochs=omkl.Passes(3, shuffle=False), random_state=0, **more
    ),
    "batch": lambda kernels, **more: omkl.MKLClassifier(kernels, C=0.1, **more),
}


@pytest.fixture
def table(rng):
    X = rng.normal(size=(80, 3))
    return X, np.where(
        X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.3,
        "yes",
        "no",
    )


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    module = pytest.importorskip(request.param)
    return lambda X, names: module.DataFrame({name: X[:, j] for j, name in enumerate(names)})


# ---- on= -----------------------------------------------------------------------------------------


each_model = pytest.mark.parametrize("model", MODELS)


@each_model
@pytest.mark.parametrize(
    ("named", "placed"),
    [
        ("gaussian:on=age", "gaussian:on=0"),
        ("gaussian:on=income", "gaussian:on=1:2"),
        ("gaussian:on=[age,hours per week],sigma2=2", Gaussian(2.0, on=(0, 2))),
        (Linear(on=["income", "age"]), Linear(on=[1, 0])),
        (Gaussian(on="hours per week"), Gaussian(on=-1)),
        (
            Average(["linear:on=age", "gaussian:on=[income,age]"]),
            Average([Linear(on=0), Gaussian(on=[1, 0])]),
        ),
    ],
)
def test_a_column_by_name_is_the_column_at_its_position(model, named, placed, table, frame):
    X, y = table
    by_name = MODELS[model]({"k": named, "all": "linear"}).fit(frame(X, NAMES), y)
    by_place = MODELS[model]({"k": placed, "all": "linear"}).fit(X, y)
    assert_array_equal(by_name.decision_function(frame(X, NAMES)), by_place.decision_function(X))
    assert by_name.feature_names_in_.tolist() == NAMES


@each_model
def test_a_kernel_on_a_column_sees_no_other(model, table):
    X, y = table
    chosen = MODELS[model]({"k": "gaussian:on=1"}).fit(X, y)
    alone = MODELS[model]({"k": "gaussian"}).fit(X[:, [1]], y)
    assert_allclose(
        chosen.decision_function(X),
        alone.decision_function(X[:, [1]]),
        atol=1e-6,
    )


def test_a_kernel_itself_looks_at_its_columns_only(table, frame):
    X, _ = table
    only = Gaussian(on=slice(0, 2)).fit(X)(X)
    assert_array_equal(only, Gaussian().fit(X[:, :2])(np.ascontiguousarray(X[:, :2])))
    assert_array_equal(Gaussian(on=["age", "income"]).fit(frame(X, NAMES))(frame(X, NAMES)), only)
    mean = Average(["linear:on=0:2", "gaussian:on=2"]).fit(X)
    grams = [as_kernel(spec).fit(X)(X) for spec in ("linear:on=0:2", "gaussian:on=2")]
    assert_allclose(mean(X), sum(grams) / 2)
    assert_allclose(mean.diagonal(X), np.diag(mean(X)))


@pytest.mark.parametrize("budget", [None, 40])
def test_an_average_is_of_its_kernels_on_their_columns(budget, rng):
    """Only the first column tells the classes; the others are noise, a hundred times as long."""
    X = np.column_stack([rng.choice([-1.0, 1.0], 200), 100 * rng.normal(size=(200, 9))])
    y = X[:, 0] > 0
    for kernel in ("linear:on=0:1", Average(["linear:on=0:1"])):
        model = omkl.OnlineMKLClassifier([kernel], budget=budget, epochs=3, random_state=0).fit(
            X, y
        )
        assert model.score(X, y) == 1.0


@each_model
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("gaussian:on=wage", "wage, which is not one of the 3 columns; there is 'age'"),
        ("gaussian:on=3", "column 3, which is not one of the 3"),
        ("gaussian:on=5:9", "column 5:9, which is not one"),
    ],
)
def test_columns_that_are_not_there_get_one_sentence(model, kernel, message, table):
    with pytest.raises(InputError, match=message):
        MODELS[model]([kernel]).fit(pandas.DataFrame(table[0], columns=NAMES), table[1])


# ---- data frames ---------------------------------------------------------------------------------


@each_model
def test_columns_in_another_order_are_not_taken_for_each_other(model, table, frame):
    X, y = table
    fitted = MODELS[model](["gaussian"]).fit(frame(X, NAMES), y)
    turned = frame(X[:, ::-1], NAMES[::-1])
    assert_array_equal(fitted.decision_function(turned), fitted.decision_function(frame(X, NAMES)))
    other = frame(X, [*NAMES[:2], "other"])
    with pytest.raises(InputError, match="X has no column 'hours per week'"):
        fitted.predict(other)
    if model == "online":
        with pytest.raises(InputError, match="X has no column 'hours per week'"):
            fitted.partial_fit(other, y)


def test_sequences_of_data_frames_are_aligned_by_name(rng, frame):
    X = [rng.normal(size=(n, 3)) for n in (4, 1, 6, 5)]
    y = [np.where(x[:, 0] > 0, "a", "b") for x in X]
    frames = [frame(x, NAMES) for x in X]
    turned = [frame(x[:, [2, 0, 1]], [NAMES[2], *NAMES[:2]]) for x in X]
    model = omkl.SequenceLabeler(["gaussian:on=age", "linear"], epochs=3, random_state=0).fit(
        frames, y
    )
    arrays = omkl.SequenceLabeler(["gaussian:on=0", "linear"], epochs=3, random_state=0).fit(X, y)
    for sequences in (X, frames, turned):
        for mine, other in zip(model.decision_function(sequences), arrays.decision_function(X)):
            assert_array_equal(mine, other)
    assert model.score(turned, y) == model.score(frames, y)
    with pytest.raises(InputError):
        model.predict([frames[0], frame(X[1], ["old", *NAMES[1:]])])


def test_a_table_with_text_is_rows_of_dicts(rng, frame):
    X = rng.normal(size=(60, 2))
    cities = rng.choice(["a", "b", "c"], 60)
    y = np.where(
        (cities == "a") | (X[:, 0] > 0.5),
        1,
        0,
    )
    table = frame(X, ["age", "income"])
    table = (
        table.assign(city=cities) if hasattr(table, "assign") else table.with_columns(city=cities)
    )
    dicts = [{"age": a, "income": i, "city": str(c)} for (a, i), c in zip(X.tolist(), cities)]
    for kernels in (["linear:on=age"], ["gaussian:on=age"], ["gaussian:on=[age,income]"]):
        settings = {"kernels": kernels, "epochs": omkl.Passes(4, shuffle=False), "random_state": 0}
        model = omkl.OnlineMKLClassifier(**settings).fit(table, y)
        assert_array_equal(
            model.predict(table), omkl.OnlineMKLClassifier(**settings).fit(dicts, y).predict(dicts)
        )
        with pytest.raises(InputError):
            model.predict(frame(X, ["age", "income"]))


def test_a_kernel_on_numbers_of_dicts_is_the_one_on_their_columns(table):
    X, y = table
    dicts = [dict(zip(NAMES, row)) for row in X.tolist()]
    settings = {"epochs": omkl.Passes(3, shuffle=False), "random_state": 0}
    named = omkl.OnlineMKLClassifier({"k": Gaussian(on=NAMES)}, **settings).fit(dicts, y)
    arrays = omkl.OnlineMKLClassifier({"k": Gaussian()}, **settings).fit(X, y)
    assert_allclose(named.decision_function(dicts), arrays.decision_function(X))


# ---- memory order, sparse matrices ---------------------------------------------------------------


@pytest.mark.parametrize(
    "kernels", [["gaussian"], ["linear", "quadratic:on=0:4"], ["linear:on=0:6"]]
)
def test_batch_learns_from_sparse_matrices_what_it_does_from_dense_ones(kernels, rng, reloaded):
    X = sparse.random(60, 12, 0.4, format="csr", random_state=0)
    y = np.asarray(X.sum(axis=1)).ravel() > 2.0
    model = omkl.MKLClassifier(kernels, C=0.1).fit(X, y)
    dense = omkl.MKLClassifier(kernels, C=0.1).fit(X.toarray(), y)
    assert_allclose(
        model.decision_function(X),
        dense.decision_function(X.toarray()),
        atol=2e-2,
    )
    assert_array_equal(reloaded(model).decision_function(X), model.decision_function(X))
    with pytest.raises(InputError):
        omkl.MKLClassifier(["laplacian"]).fit(X, y)


def test_sequences_may_be_sparse_matrices(rng):
    X = [sparse.random(n, 9, 0.5, format="csr", random_state=n) for n in (3, 5, 4, 6)]
    y = [np.where(np.asarray(x[:, [0]].todense()).ravel() > 0, "a", "b") for x in X]
    model = omkl.SequenceLabeler(["linear"], epochs=4, random_state=0).fit(X, y)
    dense = omkl.SequenceLabeler(["linear"], epochs=4, random_state=0).fit(
        [x.toarray() for x in X], y
    )
    for mine, other in zip(
        model.decision_function(X), dense.decision_function([x.toarray() for x in X])
    ):
        assert_allclose(mine, other)


# ---- units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "b1", "chi2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("power", [-20, 7])
def test_widths_from_data_know_no_units(kernel, dtype, power, rng):
    X = rng.random((50, 3)).astype(np.float32).astype(np.float64)
    gram = as_kernel(kernel).fit(X)(X)
    scaled = X * 10.0**power
    assert_allclose(
        as_kernel(kernel).fit(scaled)(scaled),
        gram,
        atol=1e-6,
    )
    stack = omkl.kernels.PackedStack.from_kernels([as_kernel(kernel)], scaled, dtype)
    assert_allclose(stack.combine([1.0]), gram, atol=1e-5)
    dense = dense_grams([as_kernel(kernel).fit(scaled)], [scaled], dtype)
    assert_allclose(dense[0], gram, atol=1e-5)


def test_the_median_is_over_distinct_rows():
    """Repeated rows do not change the width: zeros of a mostly empty column count once."""
    column = np.concatenate([np.zeros(90), np.linspace(1e5, 2e5, 10)])[:, None]
    gaussian = Gaussian().fit(column)
    assert 1e8 < gaussian.width_ < 1e11
    assert (
        gaussian.width_
        == Gaussian().fit(np.repeat(column, 3, axis=0)).width_
        == Gaussian().fit(column[::-1]).width_
    )
    assert Gaussian().fit(np.full((20, 2), 7.0))(np.full((3, 2), 7.0)).tolist() == [[1.0] * 3] * 3


def test_integers_are_numbers():
    X = np.array([[100, 100], [-100, 50], [7, 3]], dtype=np.int8)
    for spec in ("gaussian", "linear:normalize=average", "laplacian", "quadratic:normalize=trace"):
        kernel = as_kernel(spec)
        assert_allclose(
            kernel.fit(X)(X),
            kernel.fit(X.astype(float))(X.astype(float)),
        )


@pytest.mark.parametrize("power", [-30, 3])
def test_numbers_of_dicts_know_no_units(power, rng, reloaded):
    """Multiplying a number by a power of two gives the same bits, also after saving and loading."""
    age = rng.normal(40, 12, 200)
    income = rng.lognormal(11, 0.6, 200)
    city = rng.choice(["a", "b", "c"], 200)
    signal = (
        (age - 40) / 12 + (np.log(income) - 11) / 0.6 + (city == "a") + 0.3 * rng.normal(size=200)
    )
    y = np.where(
        signal > np.quantile(signal, 0.67),
        "yes",
        "no",
    )
    tables = [
        [
            {"age": a, "pay": p * unit, "note": [str(c)]}
            for a, p, c in zip(age.tolist(), income.tolist(), city)
        ]
        for unit in (1.0, 2.0**power)
    ]
    models = [
        omkl.OnlineMKLClassifier(epochs=omkl.Passes(3, shuffle=False)).fit(rows, y)
        for rows in tables
    ]
    scores = models[0].decision_function(tables[0])
    for model in (models[1], reloaded(models[1])):
        assert_array_equal(model.decision_function(tables[1]), scores)


# ---- targets and inputs of every kind ------------------------------------------------------------

LEARNERS = {
    "online": lambda: omkl.OnlineMKLClassifier("linear", epochs=2, random_state=0),
    "kernels": lambda: omkl.MKLClassifier(["linear"]),
    "chosen kernels": lambda: omkl.MKLClassifierCV(["linear"], Cs=2, cv=2),
    "design": lambda: omkl.SparseLogisticRegression(0.01),
    "chosen design": lambda: omkl.SparseLogisticRegressionCV(2, cv=2),
}


@pytest.mark.parametrize("learner", LEARNERS)
def test_classes_are_what_they_are_whatever_holds_them(learner, table):
    X = table[0]
    y = table[1] == "yes"
    plain = LEARNERS[learner]().fit(X, y)
    for classes in (
        pandas.array(y, dtype="boolean"),
        pandas.Series(pandas.Categorical(y)),
        pandas.Series(y, dtype="boolean"),
    ):
        model = LEARNERS[learner]().fit(X, classes)
        assert model.classes_.tolist() == [False, True]
        assert model.predict(X).dtype == bool
        assert_array_equal(model.decision_function(X), plain.decision_function(X))
    assert (
        LEARNERS[learner]().fit(X, pandas.array(y.astype(int), dtype="Int64")).classes_.dtype
        == np.int64
    )


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
#: Of three kinds of banks, so that the order of groups inside a model is another one.
KERNELS = {
    "g": "gaussian:on=0:2,sigma2=2",
    "l": "linear:on=1:3",
    "m": "gaussian:on=3,features=50,sigma2=1",
}


def classifier(regularizer, **parameters):
    return omkl.OnlineMKLClassifier(
        KERNELS, regularizer=regularizer, epochs=3, random_state=0, **parameters
    )


def both(make):
    """Return a regularizer with arguments by position, and the same by name."""
    return make([0, 1, 2]), make(list(KERNELS))


PAIRS = {
    "weighted": (
        WeightedSquaredL21([1.0, 3.0, 0.0]),
        WeightedSquaredL21({"m": 0.0, "g": 1.0, "l": 3.0}),
    ),
    "overlapping": both(lambda g: OverlappingGroups([[g[0], g[1]], [g[1], g[2]]], [1.0, 4.0])),
    "exact": both(
        lambda g: OverlappingGroups([[g[0], g[1]], [g[1], g[2]]], [1.0, 4.0], exact=True)
    ),
    "tree": both(lambda g: TreeGroups([[g[0], g[1], g[2]], [g[2]]], [1.0, 5.0])),
    "scaled": both(lambda g: 0.3 * TreeGroups([[g[0], g[1]], [g[1]]])),
    "sum": both(
        lambda g: 0.5 * Ridge() + 2 * OverlappingGroups([[g[1]], [g[0], g[2]]], [3.0, 1.0])
    ),
    "weighted sum": (
        Ridge() + WeightedSquaredL21([0.5, 1.0, 9.0]),
        Ridge() + WeightedSquaredL21({"l": 1.0, "m": 9.0, "g": 0.5}),
    ),
}


@mostly_slow(("case", "method", "shards"), PAIRS, ("fobos", "rda"), (None, 2), every=3)
def test_arguments_by_position_are_those_by_name(case, method, shards):
    by_position, by_name = (
        classifier(r, method=method).fit(X, Y, shards=shards) for r in PAIRS[case]
    )
    assert_array_equal(by_position.decision_function(X), by_name.decision_function(X))
    assert by_position.kernel_weights_ == by_name.kernel_weights_


SENTENCES = [[{"a": w, "b": w[0]} for w in line.split()] for line in ("a dog", "the cat", "a cat")]
TAGS = [["D", "N"]] * 3
RICHER = [[{"first": "x", **token, "late": "y"} for token in sentence] for sentence in SENTENCES]


@pytest.mark.parametrize("last", ["before growing", "after growing"])
def test_arguments_by_position_keep_their_groups_as_groups_are_added(last, reloaded):
    """Transitions stay the third group, also after saving, loading and further training."""
    models = []
    for group in (2, "transitions"):
        model = omkl.SequenceLabeler(
            regularizer=OverlappingGroups([[group]], [50.0]) + 0.1 * Ridge(),
            transitions="regularized",
            random_state=0,
        )
        for data in (SENTENCES, SENTENCES, RICHER, RICHER):
            model.partial_fit(data, TAGS)
            if (data is RICHER) == (last == "after growing"):
                model = reloaded(model)
        assert list(model.kernel_weights_) == ["a", "b", "transitions", "first", "late"]
        models.append(model)
    assert models[0].kernel_weights_ == models[1].kernel_weights_
    assert models[0].kernel_weights_["transitions"] < 0.01 * max(models[0].kernel_weights_.values())
    assert_array_equal(models[0].transitions_, models[1].transitions_)


@pytest.mark.parametrize("weights", [[1.0, 1.0], {"a": 1.0, "b": 1.0}])
def test_groups_without_arguments_are_refused_and_the_model_goes_on(weights):
    model, other = (
        omkl.SequenceLabeler(regularizer=WeightedSquaredL21(weights), random_state=0).partial_fit(
            SENTENCES, TAGS
        )
        for _ in range(2)
    )
    with pytest.raises(InputError):
        model.partial_fit(RICHER, TAGS)
    for labeler in (model, other):
        labeler.partial_fit(SENTENCES, TAGS)
    assert model.kernel_weights_ == other.kernel_weights_
    assert_array_equal(
        model.predict(RICHER)[0],
        other.predict(RICHER)[0],
    )


TERMS = {
    "l21": L21(),
    "ridge": Ridge(),
    "mkl": SquaredL21(),
    "lq": LqNorm(1.5),
    "elastic net": ElasticNet(0.3),
    "weighted": WeightedSquaredL21({"g": 1.0, "l": 2.0, "m": 0.5}),
    "squared lq": SquaredLq(4 / 3),
    "overlapping": OverlappingGroups([["g", "l"], ["m"]]),
    "tree": TreeGroups([["g", "l", "m"], ["m"]]),
}


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations_with_replacement(TERMS, 2)))
def test_weights_of_composites_are_norms_over_slopes(one, other):
    """Slopes come from finite differences of the value, independent of kernel weights."""
    regularizer = TERMS[one] + 0.5 * TERMS[other]
    model = classifier(regularizer, C=0.5).fit(X, Y)
    norms = dict(zip(model.predictor_.group_names, model.predictor_.norms.tolist()))
    b = np.array([norms[name] for name in KERNELS])
    bound = regularizer.bind(list(KERNELS))
    width = 1e-6 * b.max()
    steps = width * np.eye(3)
    slopes = np.array(
        [
            (bound.value(b + step) - bound.value(np.maximum(b - step, 0))) / (2 * width)
            for step in steps
        ]
    )
    expected = np.where(
        b > 2 * width,
        b / slopes,
        0.0,
    )
    assert_allclose(
        list(model.kernel_weights_.values()),
        expected / expected.sum(),
        atol=1e-5,
    )


@pytest.mark.parametrize("term", [*TERMS.values(), L1()], ids=str)
def test_sums_with_the_sparse_group_lasso_have_weights(term):
    """It is no function of norms; as a single coordinate it counts as the sum of the norms does."""
    kernels = {"g": "linear:on=0:2", "l": "linear:on=1:3", "m": "linear:on=3"}
    model = omkl.OnlineMKLClassifier(
        kernels, regularizer=term + SparseGroup(0.5), epochs=2, random_state=0
    ).fit(X, Y)
    assert_allclose(sum(model.kernel_weights_.values()), 1.0)
    norms = np.array([3.0, 2.0, 1.0])
    bound = term.bind(list(kernels))
    weights = (bound + SparseGroup(0.5)).normalized_kernel_weights(norms)
    assert_allclose(weights, (bound + L21()).normalized_kernel_weights(norms))


@pytest.mark.parametrize(
    ("by_name", "in_order"),
    [
        (WeightedSquaredL21({"c": 3.0, "a": 1.0, "b": 2.0}), WeightedSquaredL21([1.0, 2.0, 3.0])),
        (
            OverlappingGroups([["a", "b"], ["b", "c"]], exact=True),
            OverlappingGroups([[0, 1], [1, 2]], exact=True),
        ),
        (TreeGroups([["a", "b", "c"], ["a"]]), TreeGroups([[0, 1, 2], [0]])),
    ],
)
@pytest.mark.parametrize("groups", [{"a": [0], "b": [1], "c": [2]}, ["a", "b", "c"]])
def test_regularizers_of_a_design_call_its_groups_by_name(by_name, in_order, groups, rng):
    X = rng.normal(size=(40, 3))
    models = [
        omkl.GroupLasso(0.05, groups=groups, regularizer=regularizer, solver="sparsa").fit(
            X, X[:, 0] - X[:, 1]
        )
        for regularizer in (by_name, in_order)
    ]
    assert_array_equal(models[0].coef_, models[1].coef_)


def test_names_of_groups_are_read_from_whatever_holds_them():
    pandas = pytest.importorskip("pandas")
    names = ["a", "b", "c"]
    weights = pandas.Series({"c": 3.0, "a": 1.0, "b": 2.0})
    assert WeightedSquaredL21(weights).bind(names) == WeightedSquaredL21([1.0, 2.0, 3.0])
    unions = {"first": ["a", "b"], "second": pandas.Index(["b", "c"])}
    assert OverlappingGroups(unions).bind(names) == OverlappingGroups([[0, 1], [1, 2]])
    for wrong in (["ab", "c"], [["a", "b"], "c"], [[0.5, 1.0]]):
        with pytest.raises(InputError):
            OverlappingGroups(wrong)
