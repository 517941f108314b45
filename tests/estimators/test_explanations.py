"""The parts of an explanation sum to the margin, the difference of two scores of the model."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import omkl
from omkl.data import Sentence
from omkl.exceptions import InputError
from omkl.features import token_features
from omkl.kernels import GramMatrices

RNG = np.random.default_rng(3)
X3 = RNG.normal(size=(90, 4))
Y3 = np.array(["low", "mid", "top"])[np.digitize(X3[:, 0] + 0.5 * X3[:, 1] ** 2, [-0.3, 0.8])]
WORDS = [
    ["the", "old", "dog", "barks"],
    ["a", "cat", "sleeps"],
    ["the", "cat", "saw", "a", "dog"],
    ["dogs", "bark"],
]
TAGS = [["D", "A", "N", "V"], ["D", "N", "V"], ["D", "N", "V", "D", "N"], ["N", "V"]]


def check_groups(why, atol=1e-9):
    """Features add up to what their group adds."""
    for group in {record["group"] for record in why.features}:
        assert_allclose(of_groups(why, group), why.groups[group], atol=atol)


def assert_sums(why, margin=None):
    scale = 1e-6 * (1 + sum(map(abs, why.groups.values())))
    assert abs(sum(why.groups.values()) - why.margin) <= scale
    if margin is not None:
        assert abs(why.margin - margin) <= scale


def of_groups(why, group):
    return sum(record["adds"] for record in why.features if record["group"] == group)


KERNELS = {"lin": "linear", "gauss": "gaussian", "quad": "quadratic"}


OPTIONS = [
    {},
    {"loss": "crf", "average": None},
    {"budget": 20},
    {"kernels": {"few": "gaussian:features=40", "lin": "linear"}},
    {
        "kernels": {
            "marks": "gaussian:features=40,map=nystrom,normalize=average",
            "lin": "linear:on=1:4",
        }
    },
]
COSTS = {"loss": "hinge", "cost": 1.0 - np.eye(3)}


@pytest.mark.parametrize(
    ("options", "classes"),
    [*((option, n) for option in OPTIONS for n in (2, 3)), (COSTS, 3)],
    ids=str,
)
def test_a_class_against_the_next_best(options, classes):
    y = Y3 if classes == 3 else np.where(Y3 == "low", "low", "high")
    model = omkl.OnlineMKLClassifier(
        **{"kernels": KERNELS, "epochs": 3, "random_state": 0, **options}
    ).fit(X3, y)
    scores = model.decision_function(X3[:5])
    for x, score, predicted in zip(X3[:5], scores, model.predict(X3[:5])):
        why = model.explain(x, n=10**6)
        assert why.output == predicted
        assert why.against != predicted
        best = np.sort(np.atleast_1d(score))
        assert_sums(why, abs(score) if classes == 2 else best[-1] - best[-2])
        check_groups(why)
    again = model.explain(X3[0], label="low", against="low")
    assert again.margin == sum(again.groups.values()) == 0.0


def test_support_vectors_are_those_of_the_model():
    model = omkl.OnlineMKLClassifier({"g": "gaussian"}, epochs=2, random_state=0).fit(X3, Y3)
    why = model.explain(X3[0], label="top", against="low", n=10**6)
    index = int(why.features[0]["feature"].removeprefix("g[support vector ").removesuffix("]"))
    support = model.support_vectors_["g"][index]
    A = model.dual_coef_["g"][index]
    kernel = model.model_.codec.encoder.kernels["g"]
    low, top = (model.classes_.tolist().index(name) for name in ("low", "top"))
    assert_allclose(
        why.features[0]["adds"], kernel(X3[:1], support[None])[0, 0] * (A[top] - A[low])
    )


@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize(
    "kind", ["MKLClassifier", "MKLRegressor", "OnlineMKLClassifier", "OnlineMKLRegressor"]
)
def test_a_support_vector_is_named_by_its_place_or_its_value(kind, as_frame):
    X = pd.DataFrame(X3, columns=["w", "x", "y", "z"]) if as_frame else X3
    model = getattr(omkl, kind)(
        {"all": "gaussian:sigma2=1", "one": "gaussian:sigma2=1,on=1"}, regularizer="ridge"
    )
    why = model.fit(X, Y3 if "Classifier" in kind else X3[:, 1]).explain(X[:1], n=10**6)
    place = "support vector" if kind.startswith("Online") else "row"
    column = "1" if kind.startswith("Online") else "column 1"
    if as_frame:
        column = "x"
    values = {f"one[{column} = {value:.4g}]" for value in X3[:, 1]}
    for group, accepted in {
        "all": {f"all[{place} {i}]" for i in range(len(X3))},
        "one": values,
    }.items():
        names = {record["feature"] for record in why.features if record["group"] == group}
        assert names
        assert names <= accepted


def test_dicts_and_what_features_are_called():
    rows = [
        {"colour": c, "size": s}
        for c, s in zip(["red", "blue"] * 20, np.linspace(-2, 2, 40).tolist())
    ]
    model = omkl.OnlineMKLClassifier(random_state=0).fit(rows, ["r", "b"] * 20)
    why = model.explain({"colour": "red", "size": 1.0, "unknown": "x"})
    assert_sums(why, abs(model.decision_function([{"colour": "red", "size": 1.0}])[0]))
    assert why.features[0]["feature"] == "colour=red"
    names = {record["feature"] for record in why.features}
    assert (
        names
        <= {record["feature"] for record in model.top_features(100)}
        <= {"colour=red", "colour=blue", "size"}
    )


def test_a_number_is_the_sum_of_its_parts():
    y = 100 + X3[:, 0] - X3[:, 1] ** 2
    model = omkl.OnlineMKLRegressor(KERNELS, epochs=3, random_state=0).fit(X3, y)
    why = model.explain(X3[7])
    assert_sums(why, model.predict(X3[7:8])[0])
    assert why.groups["level"] == model.level_
    assert why.against is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "crf", "transitions": "regularized"},
        {"transitions": None},
        {"transitions": omkl.Transitions(by_position=True)},
        {"transitions": omkl.Transitions(order=2)},
        {"transitions": omkl.Transitions(allowed={"D": ["A", "N"], None: ["D", "N"]})},
    ],
    ids=str,
)
def test_labels_against_the_next_best_labelling(options):
    model = omkl.SequenceLabeler(epochs=5, random_state=0, **options).fit(WORDS, TAGS)
    for words in [*WORDS, ["the", "unseen", "cat", "barks"]]:
        why = model.explain(words, n=10**6)
        assert why.output.tolist() == model.predict([words])[0].tolist()
        if omkl.Transitions.of("transitions", options.get("transitions")).order == 1:
            best, second = model.predict_nbest([words], 2)[0]
            assert why.against.tolist() == second.labels.tolist()
            assert_sums(why, best.score - second.score)
        assert_sums(why)
        check_groups(why)


def test_the_best_labelling_with_another_label_at_a_token():
    model = omkl.SequenceLabeler(epochs=5, random_state=0).fit(WORDS, TAGS)
    ranked = model.predict_nbest(WORDS[:1], 256)[0]
    for token in range(4):
        why = model.explain(WORDS[0], token=token)
        other = next(
            labeling for labeling in ranked if labeling.labels[token] != ranked[0].labels[token]
        )
        assert why.against.tolist() == other.labels.tolist()
        assert_sums(why, ranked[0].score - other.score)
        assert f"token {token} '{WORDS[0][token]}'" in why.summary
    with pytest.raises(InputError, match="token must be None if against is given"):
        model.explain(WORDS[0], against=TAGS[0], token=0)
    against_gold = model.explain(WORDS[0], labels=["N"] * 4, against=TAGS[0])
    scores = {tuple(labeling.labels): labeling.score for labeling in ranked}
    assert_sums(against_gold, scores[("N",) * 4] - scores[tuple(TAGS[0])])


def test_second_order_is_compared_with_the_best_of_all_other_labellings():
    model = omkl.SequenceLabeler(
        epochs=3, random_state=0, transitions=omkl.Transitions(order=2)
    ).fit(WORDS, TAGS)
    structure = model.predictor_.structure
    predictor = model.predictor_
    x = model.model_.codec.encoder.encode(token_features(WORDS[1]), np.array([0, 3]))
    potentials = predictor.potentials(x.everything())
    scores = {codes: structure.score(potentials, codes) for codes in np.ndindex(4, 4, 4)}
    ranked = sorted(scores.values(), reverse=True)
    assert_sums(model.explain(WORDS[1]), ranked[0] - ranked[1])


TREES = [
    Sentence(
        forms=["dogs", "bark"], upos=["NOUN", "VERB"], heads=[2, 0], deprels=["nsubj", "root"]
    ),
    Sentence(
        forms=["the", "old", "dog", "saw", "cats"],
        upos=["DET", "ADJ", "NOUN", "VERB", "NOUN"],
        heads=[3, 3, 4, 0, 4],
        deprels=["det", "amod", "nsubj", "root", "obj"],
    ),
    Sentence(
        forms=["cats", "saw", "the", "dog"],
        upos=["NOUN", "VERB", "DET", "NOUN"],
        heads=[2, 0, 4, 2],
        deprels=["nsubj", "root", "det", "obj"],
    ),
]


@pytest.mark.parametrize(
    "options",
    [{}, {"loss": "crf", "trees": omkl.TreeForm(projective=True)}],
    ids=str,
)
def test_a_tree_against_the_next_best(options):
    parser = omkl.DependencyParser("small", epochs=3, memory=10, random_state=0, **options).fit(
        TREES
    )
    best, second = parser.predict_nbest(TREES[1:2], 2)[0]
    why = parser.explain(TREES[1], n=10**6)
    assert why.output.tolist() == parser.predict(TREES[1:2])[0].tolist()
    assert why.against.tolist() == second.heads.tolist()
    assert_sums(why, best.score - second.score)
    check_groups(why, atol=1e-6)
    ranked = parser.predict_nbest(TREES[1:2], 10**4)[0]
    other = next(tree for tree in ranked if tree.heads[2] != best.heads[2])
    assert_sums(
        parser.explain(TREES[1], word=3),
        best.score - other.score,
    )


def test_features_of_arcs_are_what_templates_see():
    parser = omkl.DependencyParser(
        ["h.form m.form", "m.upos direction"], epochs=3, memory=10, random_state=0
    ).fit(TREES)
    names = {record["feature"] for record in parser.explain(TREES[0]).features}
    assert names <= {
        "h.form=bark m.form=dogs",
        "h.form=ROOT m.form=bark",
        "h.form=ROOT m.form=dogs",
        "h.form=dogs m.form=bark",
        "m.upos=NOUN left",
        "m.upos=NOUN right",
        "m.upos=VERB left",
        "m.upos=VERB right",
    }
    assert "rather than" in str(parser.explain(TREES[0]))


def test_parts_of_an_annotator():
    annotator = omkl.Annotator(
        ["upos", "trees"],
        folds=2,
        random_state=0,
        parser=omkl.DependencyParser("small", memory=10, epochs=2),
    ).fit(TREES)
    annotated = annotator.annotate([["dogs", "saw", "cats"]])
    assert_sums(annotator.parser_.explain(annotated))
    tags = annotator.models()["upos"].explain(["dogs", "saw", "cats"], token=0)
    assert tags.output.tolist() == annotated[0].upos
    assert_sums(tags)


MAPPED = {
    "marks": "gaussian:features=20,map=nystrom,normalize=diagonal,on=0:2",
    "quad": "quadratic:explicit=True",
}


@pytest.mark.parametrize("multiclass", ["shared", "ovr"])
@pytest.mark.parametrize(
    "kernels", [None, {"lin": "linear", "g": "gaussian"}, ["gaussian:features=30"], MAPPED], ids=str
)
def test_certified_kernels(multiclass, kernels):
    model = omkl.MKLClassifier(kernels, C=1.0, multiclass=multiclass).fit(X3, Y3)
    scores = model.decision_function(X3[:4])
    for x, score, predicted in zip(X3[:4], scores, model.predict(X3[:4])):
        why = model.explain(x, n=10**6)
        assert why.output == predicted
        second = model.classes_[np.argsort(score)[-2]]
        assert why.against == second
        assert_sums(why, np.sort(score)[-1] - np.sort(score)[-2])
        check_groups(why)
        if kernels is MAPPED:
            assert {record["group"] for record in why.features} >= {"marks"}


def test_certified_kernels_of_two_classes_matrices_and_numbers(reloaded):
    y = np.where(Y3 == "low", 0, 1)
    model = omkl.MKLClassifier({"lin": "linear", "g": "gaussian"}).fit(X3, y)
    score = model.decision_function(X3[:1])[0]
    assert_sums(model.explain(X3[0]), abs(score))
    assert_sums(model.explain(X3[0], label=1), score)
    grams = {"a": X3 @ X3.T, "b": (X3 @ X3.T + 1) ** 2}
    precomputed = omkl.MKLClassifier("precomputed").fit(grams, y)
    row = {name: gram[:1] for name, gram in grams.items()}
    assert_sums(precomputed.explain(row), abs(precomputed.decision_function(row)[0]))
    assert_sums(
        precomputed.explain(GramMatrices(row)),
        abs(precomputed.decision_function(row)[0]),
    )
    regressor = omkl.MKLRegressor(["linear", "gaussian"]).fit(X3, X3[:, 0] + 5)
    for model_of_numbers in (regressor, reloaded(regressor)):
        why = model_of_numbers.explain(X3[0])
        assert_sums(why, regressor.predict(X3[:1])[0])
        assert "intercept" in why.groups
    with pytest.raises(InputError):
        regressor.explain(X3[0], label=1)


def test_certified_kernels_of_several_targets_and_labels():
    several = omkl.MKLRegressor(["linear", "gaussian"]).fit(X3, X3[:, :2] + 1)
    assert_sums(
        several.explain(X3[0], target=1),
        several.predict(X3[:1])[0, 1],
    )
    with pytest.warns(UserWarning, match="labels are those of all"):
        labels = omkl.MKLClassifier(["linear", "gaussian"]).fit(
            X3, np.column_stack([X3[:, 0] > 0, np.ones(90), X3[:, 1] > 0]).astype(int)
        )
    score = labels.decision_function(X3[:1])[0, 2]
    why = labels.explain(X3[0], target=2)
    assert why.output == (score > 0)
    assert_sums(why, abs(score))
    for target, message in ((1, r"learned label or output \(0, 2\)"), (3, "got 3")):
        with pytest.raises(InputError, match=message):
            labels.explain(X3[0], target=target)


@pytest.mark.parametrize("groups", [None, [[0, 1], [2, 3]], ["a", "b", "a", "b"]], ids=str)
def test_sparse_linear_models(groups):
    for options in ({}, {"multiclass": "multinomial"}):
        model = omkl.SparseLogisticRegression(0.01, groups=groups, **options).fit(X3, Y3)
        scores = np.sort(model.decision_function(X3[:1])[0])
        why = model.explain(X3[0])
        assert why.output == model.predict(X3[:1])[0]
        assert_sums(why, scores[-1] - scores[-2])
        assert_sums(
            model.explain(sparse.csr_array(X3[:1])),
            scores[-1] - scores[-2],
        )
    binary = omkl.SparseLogisticRegression(0.01, groups=groups).fit(X3, Y3 == "low")
    assert_sums(
        binary.explain(X3[1], label=True),
        binary.decision_function(X3[1:2])[0],
    )
    counts = omkl.GroupLasso(0.01, groups=groups, loss="poisson").fit(
        X3, RNG.poisson(np.exp(0.5 * X3[:, 0]))
    )
    why = counts.explain(X3[2], offset=0.7)
    assert why.groups["offset"] == 0.7
    assert_allclose(
        np.exp(why.margin),
        counts.predict(X3[2:3], offset=[0.7])[0],
    )
    assert_sums(why)
    several = omkl.GroupLasso(0.01, groups=groups).fit(X3, X3[:, :2] + 1)
    assert_sums(
        several.explain(X3[0], target=1),
        several.predict(X3[:1])[0, 1],
    )
    names = {None: {"column 0", "intercept"}, 2: {"group 0", "intercept"}, 4: {"a", "intercept"}}
    assert (
        names[None if groups is None else len(groups)]
        <= several.explain(X3[0], target=0).groups.keys()
    )


def test_parts_of_kernels_are_named_by_columns(reloaded):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X3, columns=list("wxyz"))
    kernels = {
        "lin": "linear:on=[y,w]",
        "quad": "quadratic:on=[x,y]",
        "waves": "gaussian:features=4",
    }
    model = omkl.OnlineMKLClassifier(
        kernels, regularizer="l2", weighting="norms", random_state=0
    ).fit(frame, Y3)
    quadratic = [f"quad[{name}]" for name in ("x^2", "x * y", "x", "y^2", "y", "constant")]
    for fitted in (model, reloaded(model)):
        assert {r["feature"] for r in fitted.top_features(100)} == {"lin[y]", "lin[w]", *quadratic}
        told = [r["feature"] for r in fitted.explain(frame.iloc[0], n=100).features]
        waves = sorted(name for name in told if name.startswith("waves"))
        assert set(told) - set(waves) <= {"lin[y]", "lin[w]", *quadratic}
        assert [name[:18] for name in waves] == ["waves[frequency 0:", "waves[frequency 1:"]
    batch = omkl.MKLClassifier({"q": "quadratic:explicit=True"}).fit(frame, Y3)
    assert {"w^2", "w * x"} <= {r["feature"] for r in batch.explain(frame.iloc[0], n=100).features}
    rows = [{"a": x[0], "v": x[1:]} for x in X3]
    of_dicts = omkl.OnlineMKLClassifier(
        ["linear:on=[a,v]", "linear:on=v"], regularizer="l2", weighting="norms", random_state=0
    ).fit(rows, Y3)
    names = {r["feature"] for r in of_dicts.top_features(100)}
    assert names == {f"linear:on=[a,v][{n}]" for n in ("a", "v[0]", "v[1]", "v[2]")} | {
        f"linear:on=v[{n}]" for n in range(3)
    }


def test_text():
    model = omkl.OnlineMKLClassifier(
        [f"gaussian:sigma2={s}" for s in range(1, 15)], random_state=0
    ).fit(X3, Y3)
    why = model.explain(X3[0], n=3)
    text = str(why)
    assert "others" in text
    assert text.splitlines()[0].startswith(why.summary)
    assert sum("support vector" in line for line in text.splitlines()) == 3


ONLINE = omkl.OnlineMKLClassifier(random_state=0).fit(X3, Y3)
LABELER = omkl.SequenceLabeler(epochs=1, random_state=0).fit([["a"]], [["X"]])
REFUSED = {
    "before fit": lambda: omkl.OnlineMKLClassifier().explain(X3[0]),
    "two rows": lambda: ONLINE.explain(X3[:2]),
    "a class of another model": lambda: ONLINE.explain(X3[0], label="no"),
    "no second label": lambda: LABELER.explain(["a"]),
    "no such token": lambda: LABELER.explain(["a"], token=1),
    "no such output": lambda: omkl.GroupLasso(0.1).fit(X3, X3[:, 0]).explain(X3[0], target=1),
}


@pytest.mark.parametrize("call", REFUSED)
def test_explanations_that_there_are_not_are_refused(call):
    with pytest.raises(InputError):
        REFUSED[call]()
