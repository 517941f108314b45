"""Arguments of regularizers for single groups, and weights of composites, in trained models."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl.exceptions import InputError
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

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
#: Of three kinds of banks, so that the order of groups inside a model is another one.
KERNELS = {"g": "gaussian:on=0:2,sigma2=2", "l": "linear:on=1:3", "m": "gaussian:on=3,features=50,sigma2=1"}


def classifier(regularizer, **parameters):
    return omkl.OnlineMKLClassifier(KERNELS, regularizer=regularizer, epochs=3, random_state=0, **parameters)


def both(make):
    """Return a regularizer with arguments by position, and the same by name."""
    return make([0, 1, 2]), make(list(KERNELS))


PAIRS = {
    "weighted": (WeightedSquaredL21([1.0, 3.0, 0.0]), WeightedSquaredL21({"m": 0.0, "g": 1.0, "l": 3.0})),
    "overlapping": both(lambda g: OverlappingGroups([[g[0], g[1]], [g[1], g[2]]], [1.0, 4.0])),
    "exact": both(lambda g: OverlappingGroups([[g[0], g[1]], [g[1], g[2]]], [1.0, 4.0], exact=True)),
    "tree": both(lambda g: TreeGroups([[g[0], g[1], g[2]], [g[2]]], [1.0, 5.0])),
    "scaled": both(lambda g: 0.3 * TreeGroups([[g[0], g[1]], [g[1]]])),
    "sum": both(lambda g: 0.5 * Ridge() + 2 * OverlappingGroups([[g[1]], [g[0], g[2]]], [3.0, 1.0])),
    "weighted sum": (
        Ridge() + WeightedSquaredL21([0.5, 1.0, 9.0]),
        Ridge() + WeightedSquaredL21({"l": 1.0, "m": 9.0, "g": 0.5}),
    ),
}


@pytest.mark.parametrize("case", PAIRS)
@pytest.mark.parametrize("method", ["fobos", "rda"])
@pytest.mark.parametrize("shards", [None, 2])
def test_arguments_by_position_are_those_by_name(case, method, shards):
    by_position, by_name = (classifier(r, method=method).fit(X, Y, shards=shards) for r in PAIRS[case])
    assert_array_equal(by_position.decision_function(X), by_name.decision_function(X))
    assert by_position.kernel_weights_ == by_name.kernel_weights_


SENTENCES = [[{"a": w, "b": w[0]} for w in line.split()] for line in ("a dog", "the cat", "a cat")]
TAGS = [["D", "N"]] * 3
RICHER = [[{"first": "x", **token, "late": "y"} for token in sentence] for sentence in SENTENCES]


@pytest.mark.parametrize("last", ["before growing", "after growing"])
def test_arguments_by_position_keep_their_groups_as_groups_are_added(last, reloaded):
    """Transitions stay the third group, also after saving, loading and further training."""
    found = []
    for group in (2, "transitions"):
        model = omkl.SequenceLabeler(
            regularizer=OverlappingGroups([[group]], [50.0]) + 0.1 * Ridge(), transitions="regularized", random_state=0
        )
        for data in (SENTENCES, SENTENCES, RICHER, RICHER):
            model.partial_fit(data, TAGS)
            if (data is RICHER) == (last == "after growing"):
                model = reloaded(model)
        assert list(model.kernel_weights_) == ["a", "b", "transitions", "first", "late"]
        found.append(model)
    assert found[0].kernel_weights_ == found[1].kernel_weights_
    assert found[0].kernel_weights_["transitions"] < 0.01 * max(found[0].kernel_weights_.values())
    assert_array_equal(found[0].transitions_, found[1].transitions_)


@pytest.mark.parametrize("weights", [[1.0, 1.0], {"a": 1.0, "b": 1.0}])
def test_groups_without_arguments_are_refused_and_the_model_goes_on(weights):
    model, other = (
        omkl.SequenceLabeler(regularizer=WeightedSquaredL21(weights), random_state=0).partial_fit(SENTENCES, TAGS)
        for _ in range(2)
    )
    with pytest.raises(InputError):
        model.partial_fit(RICHER, TAGS)
    for labeler in (model, other):
        labeler.partial_fit(SENTENCES, TAGS)
    assert model.kernel_weights_ == other.kernel_weights_
    assert_array_equal(model.predict(RICHER)[0], other.predict(RICHER)[0])


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
    bound, width = regularizer.bind(list(KERNELS)), 1e-6 * b.max()
    steps = width * np.eye(3)
    slopes = np.array([(bound.value(b + step) - bound.value(np.maximum(b - step, 0))) / (2 * width) for step in steps])
    expected = np.where(b > 2 * width, b / slopes, 0.0)
    assert_allclose(list(model.kernel_weights_.values()), expected / expected.sum(), atol=1e-5)


@pytest.mark.parametrize("term", [*TERMS.values(), L1()], ids=str)
def test_sums_with_the_sparse_group_lasso_have_weights(term):
    """It is no function of norms; as a single coordinate it counts as the sum of the norms does."""
    kernels = {"g": "linear:on=0:2", "l": "linear:on=1:3", "m": "linear:on=3"}
    model = omkl.OnlineMKLClassifier(kernels, regularizer=term + SparseGroup(0.5), epochs=2, random_state=0).fit(X, Y)
    assert_allclose(sum(model.kernel_weights_.values()), 1.0)
    norms = np.array([3.0, 2.0, 1.0])
    bound = term.bind(list(kernels))
    found = (bound + SparseGroup(0.5)).normalized_kernel_weights(norms)
    assert_allclose(found, (bound + L21()).normalized_kernel_weights(norms))


@pytest.mark.parametrize(
    ("by_name", "in_order"),
    [
        (WeightedSquaredL21({"c": 3.0, "a": 1.0, "b": 2.0}), WeightedSquaredL21([1.0, 2.0, 3.0])),
        (OverlappingGroups([["a", "b"], ["b", "c"]], exact=True), OverlappingGroups([[0, 1], [1, 2]], exact=True)),
        (TreeGroups([["a", "b", "c"], ["a"]]), TreeGroups([[0, 1, 2], [0]])),
    ],
)
@pytest.mark.parametrize("groups", [{"a": [0], "b": [1], "c": [2]}, ["a", "b", "c"]])
def test_regularizers_of_a_design_call_its_groups_by_name(by_name, in_order, groups, rng):
    X = rng.normal(size=(40, 3))
    models = [
        omkl.GroupLasso(0.05, groups=groups, regularizer=regularizer, solver="sparsa").fit(X, X[:, 0] - X[:, 1])
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
