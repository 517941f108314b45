"""SequenceLabeler: accuracy, options, constraints, partial annotation, calibration, scores."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import accuracy_score, precision_recall_fscore_support
from sklearn.model_selection import KFold, cross_val_predict

import omkl
from omkl import evaluate_labels
from omkl.data import Stream, read_sequences, write_sequences
from omkl.exceptions import DataWarning, InputError
from omkl.kernels import Gaussian
from omkl.sequences.labeling import potentials_of


def arrays(rng, n_sequences=30, d=5, k=3):
    """Draw noisy sequences whose labels form a cycle."""
    X = []
    y = []
    centers = rng.normal(size=(k, d)) * 2
    for _ in range(n_sequences):
        labels = (rng.integers(k) + np.arange(rng.integers(2, 7))) % k
        X.append(centers[labels] + rng.normal(size=(len(labels), d)))
        y.append(["abc"[i] for i in labels])
    return X, y


def words(y):
    """Draw tokens of strings: one template tells the label, one is noise, one is constant."""
    rng = np.random.default_rng(1)

    def token(label):
        good = label if rng.random() < 0.9 else "?"
        return {"good": good, "noise": str(rng.integers(50)), "flag": True}

    return [[token(label) for label in labels] for labels in y]


@pytest.fixture
def data(rng):
    return arrays(rng)


def test_it_learns_and_tells_the_weights(data):
    X, y = data
    labeler = omkl.SequenceLabeler(["linear", "gaussian"], random_state=0).fit(X, y)
    assert labeler.score(X, y) > 0.9
    assert list(labeler.classes_) == ["a", "b", "c"]
    assert set(labeler.kernel_weights_) == {"linear", "gaussian"}
    assert_allclose(sum(labeler.kernel_weights_.values()), 1.0)
    assert len(labeler.history_) == labeler.n_iter_ == 40
    assert [labels.dtype.kind for labels in labeler.predict(X[:2])] == ["U", "U"]
    assert [len(labels) for labels in labeler.predict(X)] == [len(x) for x in X]


def test_transitions_are_learned(data):
    X, y = data
    labeler = omkl.SequenceLabeler("linear", random_state=0).fit(X, y)
    following = labeler.transitions_.argmax(axis=1)
    assert following.tolist() == [1, 2, 0]
    without = omkl.SequenceLabeler("linear", transitions=None, random_state=0).fit(X, y)
    assert without.score(X, y) < labeler.score(X, y)
    assert not without.transitions_.any()


def test_transitions_by_position_learn_a_format(rng):
    """Position 2 repeats position 1, position 3 is always 0: no shared transition can say that."""
    y = [[int(a), int(a), 0, int(b)] for a, b in rng.integers(0, 3, size=(60, 2))]
    X = [np.eye(3)[labels] * [[1.0], [0.0], [0.0], [1.0]] for labels in y]
    shared = omkl.SequenceLabeler("linear", random_state=0).fit(X, y)
    by_position = omkl.SequenceLabeler(
        "linear", random_state=0, transitions=omkl.Transitions(by_position=True)
    ).fit(X, y)
    assert by_position.score(X, y) == 1.0 > shared.score(X, y)
    assert by_position.transitions_.shape == (4, 3, 3)
    # longer and shorter sequences than any in training, in one batch
    assert [len(p) for p in by_position.predict([X[0], np.zeros((9, 3)), X[1][:1]])] == [4, 9, 1]


def test_templates_are_groups_and_noise_weighs_little(data):
    y = data[1]
    X = words(y)
    labeler = omkl.SequenceLabeler(regularizer="mkl", C=0.3, random_state=0).fit(X, y)
    weights = labeler.kernel_weights_
    assert set(weights) == {"good", "noise", "flag"}
    assert weights["good"] > 0.8
    best = labeler.top_features(3)
    assert {feature["feature"] for feature in best} <= {"good=a", "good=b", "good=c"}


def test_all_kinds_of_groups_mix_in_one_model(data):
    X, y = data
    mixed = []
    for words_of_sequence, vectors in zip(words(y), X):
        tokens = []
        for i, (word, vector) in enumerate(zip(words_of_sequence, vectors)):
            views = {"image": vector, "size": float(vector.sum()), "tags": ["t", str(i)]}
            tokens.append({**word, **views})
        mixed.append(tokens)
    kernels = {
        "lin": "linear:on=image",
        "rbf": Gaussian(4.0, on="image"),
        "b1": "b1:density=0.3,on=image",
    }
    labeler = omkl.SequenceLabeler(kernels, random_state=0).fit(mixed, y)
    assert set(labeler.kernel_weights_) == {
        "lin",
        "rbf",
        "b1",
        "good",
        "noise",
        "flag",
        "size",
        "tags",
    }
    assert labeler.score(mixed, y) > 0.95


@pytest.mark.parametrize("kernels", [None, ["gaussian:on=image"]])
def test_lists_of_numbers_are_vectors_as_arrays_are(data, kernels, tmp_path):
    """Lists of numbers, as JSON has them, are vectors and not features."""
    X, y = data
    views = [[{"image": row, "n": i} for i, row in enumerate(x)] for x in X]
    scores = omkl.SequenceLabeler(kernels, random_state=0).fit(views, y).decision_function(views)
    write_sequences(tmp_path / "views.jsonl", zip(views, y), "jsonl")
    tuples = [[{**token, "image": tuple(token["image"])} for token in x] for x in views]
    for same_views in (read_sequences(tmp_path / "views.jsonl")[0], tuples):
        scores_of_lists = (
            omkl.SequenceLabeler(kernels, random_state=0)
            .fit(same_views, y)
            .decision_function(same_views)
        )
        for score, expected in zip(scores_of_lists, scores):
            assert_array_equal(score, expected)
    for late in ([1, 2], ["a", 2], [["a"]]):
        with pytest.raises(InputError):
            omkl.SequenceLabeler().fit([[{"w": "a"}, {"w": "b", "image": late}]], [["a", "b"]])


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_more_labels_than_the_examples_have_are_declared(data, fit):
    X, y = data
    labeler = getattr(omkl.SequenceLabeler(epochs=2), fit)(X, y, classes=["z", "c", "b", "a"])
    assert labeler.classes_.tolist() == ["a", "b", "c", "z"]
    assert "z" not in np.concatenate(labeler.predict(X))
    with pytest.raises(InputError):
        getattr(omkl.SequenceLabeler(), fit)(X, y, classes=["a", "b"])


def test_partial_fit_takes_up_new_words_and_new_templates(data):
    y = data[1]
    X = words(y)
    labeler = omkl.SequenceLabeler(random_state=0).partial_fit(
        X[:5], y[:5], classes=["a", "b", "c"]
    )
    richer = [
        [{**token, "late": label} for token, label in zip(x, labels)] for x, labels in zip(X, y)
    ]
    for _ in range(5):
        labeler.partial_fit(richer, y)
    assert set(labeler.kernel_weights_) == {"good", "noise", "flag", "late"}
    assert labeler.score(richer, y) > 0.95
    assert labeler.score(X, y) > 0.5


def test_a_bad_token_half_way_leaves_no_feature_without_parameters(data):
    y = data[1]
    X = words(y)
    labeler = omkl.SequenceLabeler(random_state=0).partial_fit(X, y)
    bad = [
        [{"good": f"new{i}", "noise": "0", "late": "x"} for i in range(3000)]
        + [{"good": float("nan")}]
    ]
    with pytest.raises(InputError):
        labeler.partial_fit(bad, [["a"] * 3001])
    assert labeler.predict([bad[0][:-1]])[0].shape == (3000,)
    labeler.partial_fit([bad[0][:-1]], [["a"] * 3000])


def test_crf_marginals_sum_to_one_and_follow_enumeration(data):
    X, y = data
    labeler = omkl.SequenceLabeler("linear", loss="crf", random_state=0).fit(X, y)
    marginals = labeler.predict_marginals([*X[:3], X[0][:0]])
    assert [m.shape for m in marginals] == [(len(x), 3) for x in X[:3]] + [(0, 3)]
    for x, m in zip(X, marginals[:3]):
        assert_allclose(m.sum(axis=1), 1.0)
        unary = labeler.decision_function([x])[0]
        _, expected = omkl.structures.Chain(3).marginals((unary, labeler.transitions_))
        assert_allclose(m, expected.unary, atol=1e-12)
    assert not hasattr(omkl.SequenceLabeler(loss="hinge"), "predict_marginals")


@pytest.mark.parametrize(
    ("loss", "C"),
    [("hinge", 1.0), ("perceptron", 1.0), ("crf", 10.0), ("softmax-margin:cost_weight=2", 10.0)],
)
def test_automatic_C_depends_on_the_loss(data, loss, C, reloaded):
    y = data[1]
    X = words(y)
    model = omkl.SequenceLabeler(loss=loss, epochs=3, random_state=0, C="auto").fit(X, y)
    with_same_C = omkl.SequenceLabeler(loss=loss, epochs=3, random_state=0, C=C).fit(X, y)
    with_other_C = omkl.SequenceLabeler(loss=loss, epochs=3, random_state=0, C=2 * C).fit(X, y)
    scores = [
        np.concatenate(labeler.decision_function(X))
        for labeler in (model, with_same_C, with_other_C, reloaded(model))
    ]
    assert_array_equal(scores[0], scores[1])
    assert_array_equal(scores[0], scores[3])
    assert np.abs(scores[0] - scores[2]).max() > 1e-3
    with pytest.raises(InputError, match="C must be a finite number > 0 or 'auto', not 'large'"):
        model.set_params(C="large").fit(X, y)


@pytest.mark.parametrize(("n", "epochs"), [(100, 40), (800, 30), (1500, 20)])
def test_automatic_epochs_make_enough_rounds_of_few_sequences(n, epochs):
    X = [["a", "b"]] * n
    y = [["A", "B"]] * n
    assert omkl.SequenceLabeler(random_state=0).fit(X, y).n_iter_ == epochs
    stream = Stream.from_arrays(
        X[:100],
        y[:100],
        50,
    )
    assert omkl.SequenceLabeler(random_state=0).fit(stream).n_iter_ == 20
    with pytest.raises(InputError, match="epochs must be 1 to read an iterator, got 'auto'"):
        omkl.SequenceLabeler().fit(iter(zip(X, y)))


@pytest.mark.parametrize("c2", [0.05, 0.5])
def test_c2_of_crfsuite_is_one_half_over_C(c2, rng, tmp_path):
    """Both give the same probabilities: ``C (loss + c2 |w|^2)`` is ``C loss + |w|^2 / 2``."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    y = [
        ["abc"[i] for i in (rng.integers(3) + np.arange(rng.integers(2, 7))) % 3] for _ in range(40)
    ]
    X = [
        [{"w": label if rng.random() < 0.7 else "?", "v": str(rng.integers(5))} for label in labels]
        for labels in y
    ]
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {"c2": c2, "feature.possible_states": True, "feature.possible_transitions": True}
    )
    for x, labels in zip(X, y):
        trainer.append(x, labels)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    expected = []
    for x in X:
        tagger.set(x)
        expected += [[tagger.marginal(label, t) for label in "abc"] for t in range(len(x))]
    parameters = {
        "loss": "crf",
        "regularizer": "l2",
        "transitions": "regularized",
        "random_state": 0,
    }
    for factor, close in ((1.0, True), (2.0, False), (0.5, False)):
        model = omkl.SequenceLabeler(C=factor / (2 * c2), epochs=200, **parameters).fit(X, y)
        assert (
            np.abs(np.concatenate(model.predict_marginals(X)) - expected).max() < 0.015
        ) == close


def test_sample_weights_count_as_copies(data):
    X, y = data
    weights = np.array([2] * 10 + [1] * 10 + [0] * 10)
    copies = [i for i, w in enumerate(weights) for _ in range(w)]
    weighted = omkl.SequenceLabeler("linear", random_state=0).fit(X, y, sample_weight=weights)
    copied = omkl.SequenceLabeler("linear", random_state=0).fit(
        [X[i] for i in copies], [y[i] for i in copies]
    )
    for first, second in zip(weighted.decision_function(X), copied.decision_function(X)):
        assert_allclose(first, second, atol=1e-10)


def test_labels_may_be_anything_hashable(data):
    X, y = data
    for convert in (lambda c: ord(c), lambda c: (c, 1), lambda c: c == "a"):
        labels = [[convert(c) for c in sequence] for sequence in y]
        labeler = omkl.SequenceLabeler("linear", random_state=0).fit(X, labels)
        assert labeler.score(X, labels) > 0.9
    assert omkl.SequenceLabeler("linear").fit(X, [np.array(s) for s in y]).classes_.tolist() == [
        "a",
        "b",
        "c",
    ]


X1 = [np.eye(2)]
Y1 = [[0, 1]]
NAN = [np.array([[0.0, 1.0], [np.nan, 0.0]])]


@pytest.mark.parametrize(
    ("X", "y", "named"),
    [
        ([], [], "X"),
        ([np.zeros((0, 2))], [[]], "X"),
        ([np.eye(2), np.zeros((0, 2))], [[0, 1], []], "Sequence 1 of X"),
        (X1, [[0]], "Sequence 0"),
        (X1, [[0, 1], [1]], "y"),
        (X1, [0, 1], "y"),
        (X1, [5], "Sequence 0 of y"),
        ("ab", Y1, "X"),
        (["the", "dog"], [["D"], ["N"]], "X"),
        (NAN, Y1, "finite"),
        ([1e101 * np.eye(2)], Y1, "finite"),
        ([[{"a": float("inf")}, {"a": 1.0}]], Y1, "'a'"),
        ([np.eye(2), np.ones((1, 3))], [[0, 1], [0]], "shapes"),
        ([[{"a": "x"}, "b"]], Y1, "'b' at token 1 of sequence 0"),
        ([["the"], [{"w": "dog"}]], [["D"], ["N"]], "token 0 of sequence 1"),
        ([[["w=the"], "dog"]], Y1, "'dog' at token 1"),
        ([[["w=the", 3]]], [["D"]], "attributes"),
        ([[1.0, "b"]], Y1, "Sequence 0 of X"),
        ([[{"a": object()}, {"a": "x"}]], Y1, "'a'"),
        ([[{1: "x"}, {1: "y"}]], Y1, "1"),
        ([[{"v": np.ones(2)}, {"v": np.ones(3)}]], Y1, "'v'"),
        (X1, [[0, float("nan")]], "nan"),
        (X1, [[[0], [1]]], "hashable"),
    ],
)
def test_bad_data_is_refused(X, y, named):
    with pytest.raises(InputError, match=named):
        omkl.SequenceLabeler().fit(X, y)


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0},
        *(
            {"kernels": value}
            for value in (["gausian"], ["linear", "linear"], [], ["gaussian:explicit=True"])
        ),
        {"kernels": ["linear:on=pixels"]},
        {"learning_rate": "often"},
        {"learning_rate": 0},
        {"transitions": "yes"},
        {"early_stopping": True},
        {"cost": np.ones((2, 2))},
        {"regularizer": "l1", "kernels": ["gaussian"]},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters):
    with pytest.raises(InputError):
        omkl.SequenceLabeler(**parameters).fit(X1, Y1)


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (omkl.Transitions, {"scores": "some"}),
        (omkl.Transitions, {"scores": None, "by_position": True}),
        (omkl.Transitions, {"order": 3}),
        (omkl.Budget, {"dtype": "int8"}),
        (omkl.Budget, {"support_vectors": 0}),
        (omkl.Budget, {"cache_size": -1}),
        (omkl.EarlyStopping, {"fraction": 1.0}),
        (omkl.EarlyStopping, {"patience": 0}),
        (omkl.Passes, {"epochs": 0}),
        (omkl.Passes, {"shuffle": "sometimes"}),
        (omkl.Passes, {"n_examples": 0}),
        (omkl.Edges, {"sweeps": 0}),
        (omkl.Edges, {"pairs": "some"}),
        (omkl.TreeForm, {"projective": "maybe"}),
        (omkl.TreeSearch, {"order": 3}),
        (omkl.TreeSearch, {"decode": "best"}),
    ],
)
def test_bad_options_are_refused_by_name_when_they_are_made(options, values):
    with pytest.raises(InputError, match=list(values)[-1]):
        options(**values)
    made = options()
    assert made == options()
    assert repr(made) == f"{options.__name__}()"


def test_settings_of_options_can_be_searched():
    labeler = omkl.SequenceLabeler(transitions=omkl.Transitions(order=2), loss="crf")
    shared = labeler.transitions
    labeler.set_params(transitions__allowed="BIO", epochs=omkl.Passes(3))
    assert labeler.transitions == omkl.Transitions(allowed="BIO", order=2)
    assert shared == omkl.Transitions(order=2)
    assert labeler.get_params()["transitions__order"] == 2
    assert labeler.get_params()["epochs__shuffle"] is True
    for name in ("budget__cache_size", "transitions__colour"):
        with pytest.raises(InputError, match=f"Invalid parameter '{name}'"):
            labeler.set_params(**{name: 3})
    with pytest.raises(InputError, match="order must be"):
        labeler.set_params(transitions__order=3)


@pytest.mark.parametrize("name", ["epochs", "early_stopping", "budget", "transitions"])
def test_options_of_another_parameter_are_refused(name):
    with pytest.raises(InputError, match=f"{name} must be a"):
        omkl.SequenceLabeler(**{name: omkl.TreeForm()}).fit(X1, Y1)


def test_gold_labels_that_were_never_seen_are_wrong_and_named_once(data):
    X, y = data
    labeler = omkl.SequenceLabeler("linear", random_state=0).fit(X, y)
    strange = [["q", *labels[1:]] for labels in y]
    right = sum(
        int((predicted == gold).sum())
        for predicted, gold in zip(labeler.predict(X), map(np.array, strange))
    )
    with pytest.warns(DataWarning, match="does not know count as wrong: 'q'"):
        assert labeler.score(X, strange) == pytest.approx(right / sum(map(len, y)))
    with pytest.warns(DataWarning, match="'q'"):
        rows = labeler.evaluate(X, strange)["labels"]
    assert next((row["gold"], row["correct"]) for row in rows if row["label"] == "q") == (len(X), 0)


@pytest.mark.slow
def test_real_handwriting_reaches_what_the_paper_reports(ocr):
    """One fold, three kernels, default step sizes: above the paper's 87.5 % and far above its
    linear kernel.
    """
    train = ocr.of_folds(1)
    test = ocr.of_folds([0, 2, 3, 4, 5, 6, 7, 8, 9])
    labeler = omkl.SequenceLabeler(
        ["linear", "quadratic", "gaussian:sigma2=5"], random_state=0
    ).fit(*train)
    assert labeler.score(*test) > 0.883


NAMES = ["Ann", "Bob", "Cid", "Dee"]
PLACES = ["Rome", "Oslo", "Bonn"]


def chunked(rng, n=60):
    """Sentences with names of one or two words, labelled as chunks."""
    X = []
    y = []
    for _ in range(n):
        words = []
        labels = []
        for _ in range(rng.integers(1, 5)):
            kind = rng.integers(3)
            if kind == 2:
                words = [*words, rng.choice(["saw", "left", "likes"])]
                labels = [*labels, "O"]
            else:
                size = rng.integers(1, 3)
                words += list(rng.choice(NAMES if kind else PLACES, size))
                chunk = "PER" if kind else "LOC"
                labels += [f"B-{chunk}", *[f"I-{chunk}"] * (size - 1)]
        X.append(words)
        y.append(labels)
    return X, y


@pytest.fixture
def chunks(rng):
    return chunked(rng)


def breaks_bio(labels):
    pairs = zip(["O", *labels], labels)
    return any(b[0] == "I" and a[1:] != b[1:] for a, b in pairs)


@pytest.mark.parametrize("loss", ["hinge", "crf", "perceptron"])
@pytest.mark.parametrize("transitions", ["free", None])
def test_predictions_keep_to_the_scheme(chunks, rng, loss, transitions, reloaded):
    """Also with uninformative inputs, where a model without constraints violates the scheme."""
    _, y = chunks
    X = [rng.normal(size=(len(labels), 4)) for labels in y]
    strange = [rng.normal(size=(6, 4)) for _ in range(40)]
    parameters = {"loss": loss, "epochs": 5, "random_state": 0}
    labeler = omkl.SequenceLabeler(
        "linear",
        regularizer="l2",
        transitions=omkl.Transitions(transitions, allowed="BIO"),
        **parameters,
    ).fit(X, y)
    predicted = labeler.predict(strange)
    assert not any(map(breaks_bio, predicted))
    without = omkl.SequenceLabeler("linear", transitions=None, regularizer="l2", **parameters).fit(
        X, y
    )
    assert any(map(breaks_bio, without.predict(strange)))
    for labels, reloaded_labels in zip(predicted, reloaded(labeler).predict(strange)):
        assert_array_equal(labels, reloaded_labels)


@pytest.mark.parametrize(
    ("allowed", "labels", "message"),
    [
        ("BIO", ["I-X", "O", "O"], "token 0 of sequence 1"),
        ("BIO", ["B-X", "O", "I-X"], "token 2 of sequence 1"),
        ("BIO", [None, "O", "I-X"], "token 2 of sequence 1"),
        ("BIO", ["DET"] * 3, "DET"),
        ("BIOES", ["O", "O", "B-X"], "sequence"),
        ("IOX", ["O", "O", "O"], "IOX"),
        ({"B-X": ["I-X"], "I-X": ["I-X", "O"]}, ["B-X", None, "I-Y"], "sequence 1"),
    ],
)
def test_training_labels_that_break_transitions_are_refused(allowed, labels, message):
    with pytest.raises(InputError, match=f"(?i){message}"):
        omkl.SequenceLabeler(transitions=omkl.Transitions(allowed=allowed)).fit(
            [["a", "b", "c"]] * 2, [["B-X", "I-X", "O"], labels]
        )


def choices_of(constraint, classes):
    """Return the labels that a constraint allows: all, those of a set, or one."""
    if constraint is None:
        return set(classes)
    return constraint if isinstance(constraint, set) else {constraint}


def allowed_labellings(constraints, classes):
    """Return the codes of all labellings that keep to constraints and to BIO."""
    choices = [choices_of(constraint, classes) for constraint in constraints]
    allowed = []
    for codes in product(range(len(classes)), repeat=len(constraints)):
        labels = classes[list(codes)]
        keeps = all(label in choice for label, choice in zip(labels, choices))
        if keeps and not breaks_bio(labels):
            allowed.append(np.array(codes))
    return allowed


def test_given_labels_are_kept_and_the_others_are_the_best(chunks):
    X, y = chunks
    labeler = omkl.SequenceLabeler(
        epochs=5, random_state=0, transitions=omkl.Transitions(allowed="BIO")
    ).fit(X, y)
    x = ["Ann", "saw", "Rome", "Oslo"]
    potentials = next(potentials_of(labeler.model_, [x]))
    chain = labeler.structure_
    for forced in (
        [None, "B-PER", None, "O"],
        [{"O", "B-LOC"}, None, {"O"}, None],
        [None] * 4,
        ["O", "O", "O", "O"],
    ):
        allowed = allowed_labellings(forced, labeler.classes_)
        best = max(allowed, key=lambda codes: chain.score(potentials, codes))
        [predicted] = labeler.predict([x], labels=[forced])
        assert_array_equal(predicted, labeler.classes_[best])
        [labelings] = labeler.predict_nbest([x], 3, labels=[forced])
        scores = sorted((chain.score(potentials, codes) for codes in allowed), reverse=True)
        assert_allclose([labeling.score for labeling in labelings], scores[:3])
        assert_array_equal(labelings[0].labels, predicted)
    together = labeler.predict(
        [x, ["Bob"], []],
        labels=[[None] * 4, ["B-LOC"], []],
    )
    assert [list(labels) for labels in together[1:]] == [["B-LOC"], []]


def test_constraints_that_contradict_are_refused(chunks):
    labeler = omkl.SequenceLabeler(
        epochs=2, random_state=0, transitions=omkl.Transitions(allowed="BIO")
    ).fit(*chunks)
    for method in (labeler.predict, labeler.predict_nbest):
        with pytest.raises(InputError, match="Sequence 1 has no labelling"):
            method(
                [["a"], ["Ann", "saw"]],
                labels=[[None], ["O", "I-PER"]],
            )
    for X, labels in (
        ([["a"]], [["XYZ"]]),
        ([["a"]], [["O", "O"]]),
        (omkl.data.Stream.from_arrays([["a"]]), [["O"]]),
    ):
        with pytest.raises(InputError):
            labeler.predict(X, labels=labels)


def test_the_best_labellings_come_in_order(chunks):
    X, y = chunks
    labeler = omkl.SequenceLabeler(epochs=3, random_state=0).fit(X, y)
    best = labeler.predict(X)
    for x, labelings, first in zip(X, labeler.predict_nbest(X, 4), best):
        assert_array_equal(labelings[0].labels, first)
        assert len(labelings) == 4
        assert all(better.score >= worse.score for better, worse in pairwise(labelings))
        assert all(len(labeling.labels) == len(x) for labeling in labelings)
    assert [len(labelings) for labelings in labeler.predict_nbest([["a"], []], 99)] == [
        len(labeler.classes_),
        1,
    ]
    assert len(labeler.predict_nbest(omkl.data.Stream.from_arrays(X), 2)) == len(X)
    with pytest.raises(InputError):
        labeler.predict_nbest(X, 0)


@pytest.mark.parametrize("loss", ["hinge", "crf", "perceptron"])
def test_none_is_an_unknown_label_and_no_class(rng, loss):
    """Removing a third of the labels costs little; sequences without labels change nothing."""
    X, y = chunked(rng, 200)
    partial = [[label if rng.random() < 0.67 else None for label in labels] for labels in y]
    parameters = {
        "loss": loss,
        "epochs": 5,
        "random_state": 0,
        "transitions": omkl.Transitions(allowed="BIO"),
    }
    accuracy_of_all_labels = (
        omkl.SequenceLabeler(**parameters).fit(X[:150], y[:150]).score(X[150:], y[150:])
    )
    labeler = omkl.SequenceLabeler(**parameters).fit(X[:150], partial[:150])
    assert None not in labeler.classes_
    assert labeler.score(X[150:], y[150:]) > accuracy_of_all_labels - 0.06
    assert labeler.score(X[150:], partial[150:]) > accuracy_of_all_labels - 0.06
    balanced = omkl.SequenceLabeler(**parameters, class_weight="balanced").fit(
        X[:150], partial[:150]
    )
    assert balanced.score(X[150:], y[150:]) > accuracy_of_all_labels - 0.1
    stopped = omkl.SequenceLabeler(**parameters, early_stopping=True).fit(X, partial)
    assert stopped.score(X, y) > accuracy_of_all_labels - 0.06
    growing = omkl.SequenceLabeler(loss=loss, random_state=0)
    growing.partial_fit(X[:50], partial[:50], classes="growing").partial_fit(X[50:], partial[50:])
    assert growing.score(X, y) > accuracy_of_all_labels - 0.15


def test_none_without_any_label_is_refused():
    labeler = omkl.SequenceLabeler(epochs=1).fit([["a", "b"]], [["A", "B"]])
    for call in (labeler.score, labeler.calibrate, labeler.evaluate, omkl.SequenceLabeler().fit):
        with pytest.raises(InputError):
            call([["a"]], [[None]])


def noisy(rng, n):
    """Draw two overlapping labels that tend to repeat."""
    X = []
    y = []
    for _ in range(n):
        labels = np.cumsum(rng.random(rng.integers(2, 8)) < 0.2) % 2
        X.append(
            (2 * labels - 1 + 1.5 * rng.normal(size=len(labels)))[:, None] * [[1.0, 0.0]]
            + [[0.0, 1.0]]
        )
        y.append(labels.tolist())
    return X, y


def log_loss(labeler, X, y):
    marginals = np.concatenate(labeler.predict_marginals(X))
    return -np.log(marginals[np.arange(len(marginals)), np.concatenate(y)]).mean()


def test_a_margin_model_is_calibrated_on_held_out_data(rng, reloaded):
    (X, y) = noisy(rng, 400)
    (X_test, y_test) = noisy(rng, 400)
    labeler = omkl.SequenceLabeler("linear", C=20.0, epochs=5, random_state=0).fit(X, y)
    with pytest.raises(AttributeError) as error:
        labeler.predict_marginals(X)
    assert "after calibrate" in str(error.value)
    before = labeler.predict(X_test)
    labeler.calibrate(X_test[:200], y_test[:200])
    marginals = labeler.predict_marginals(X_test[200:])
    assert all(
        np.allclose(marginals_of_sequence.sum(axis=1), 1.0) for marginals_of_sequence in marginals
    )
    # of labels with probability about p, a fraction of about p is correct
    p = np.concatenate(marginals)[:, 1]
    hit = np.concatenate(y_test[200:]) == 1
    for low in np.arange(0.1, 0.9, 0.2):
        inside = (p >= low) & (p < low + 0.2)
        assert abs(p[inside].mean() - hit[inside].mean()) < 0.12
    labeler.calibrate(
        [*X_test[:200], X[0]],
        [*y_test[:200], ["never seen"] * len(X[0])],
    )
    temperature = labeler.temperature_
    least = log_loss(
        labeler,
        X_test[:200],
        y_test[:200],
    )
    for factor in (0.8, 1.25):
        labeler.temperature_ = factor * temperature
        assert log_loss(labeler, X_test[:200], y_test[:200]) > least
    labeler.temperature_ = temperature
    for labels, labels_before in zip(before, labeler.predict(X_test)):
        assert_array_equal(labels, labels_before)
    assert reloaded(labeler).temperature_ == temperature
    assert labeler.fit(X, y).temperature_ is None


def test_early_stopping_calibrates(rng):
    X, y = noisy(rng, 300)
    labeler = omkl.SequenceLabeler("linear", epochs=5, early_stopping=True, random_state=0).fit(
        X, y
    )
    assert labeler.temperature_ > 0
    assert log_loss(labeler, *noisy(rng, 200)) < 0.55
    crf = omkl.SequenceLabeler(
        "linear", loss="crf", epochs=5, early_stopping=True, random_state=0
    ).fit(X, y)
    assert crf.temperature_ is None
    assert len(crf.predict_marginals(X)) == 300
    labeler.set_params(early_stopping=False).partial_fit(X[:1], y[:1])
    assert labeler.temperature_ is None


def test_marginals_given_known_labels(rng):
    X, y = noisy(rng, 200)
    labeler = omkl.SequenceLabeler("linear", loss="crf", epochs=3, random_state=0).fit(X, y)
    x = X[0][:3]
    free, conditional = (
        labeler.predict_marginals([x], labels=labels)[0] for labels in (None, [[None, 1, None]])
    )
    potentials = next(potentials_of(labeler.model_, [x]))
    chain = labeler.structure_
    total = 0.0
    expected = np.zeros((3, 2))
    for a, c in product(range(2), repeat=2):
        weight = np.exp(chain.score(potentials, np.array([a, 1, c])))
        total += weight
        expected[[0, 1, 2], [a, 1, c]] += weight
    assert_allclose(conditional, expected / total)
    assert not np.allclose(free, conditional)


BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-a-b", "I-a-b")
BIOES = (*BIO, "E-PER", "S-PER", "E-LOC", "S-LOC")
BILOU = ("O", "B-PER", "I-PER", "L-PER", "U-PER", "B-LOC", "L-LOC", "I-LOC")


def labels_of(alphabet):
    """Gold and predicted labels of a few sequences."""
    pair = st.tuples(st.sampled_from(alphabet), st.sampled_from(alphabet))
    return st.lists(
        st.lists(pair, min_size=1, max_size=8),
        min_size=1,
        max_size=4,
    )


def sides(sequences):
    return [[[pair[side] for pair in sequence] for sequence in sequences] for side in (0, 1)]


@settings(max_examples=200, deadline=None)
@given(st.one_of(labels_of(BIO), labels_of(BIOES), labels_of("BIO")))
def test_entities_are_those_of_seqeval(sequences):
    metrics = pytest.importorskip("seqeval.metrics")
    gold, predicted = sides(sequences)
    scores = evaluate_labels(gold, predicted)
    if scores["entities"] is None:  # seqeval knows labels without any entity
        assert {label for labels in gold + predicted for label in labels} == {"O"}
        return
    for name in ("precision", "recall", "f1"):
        assert scores[f"entity_{name}"] == pytest.approx(
            getattr(metrics, f"{name}_score")(gold, predicted, zero_division=0)
        )
    report = metrics.classification_report(gold, predicted, output_dict=True, zero_division=0)
    for row in scores["entities"]:
        expected = report[row["type"] or "_"]
        assert row["f1"] == pytest.approx(expected["f1-score"])
        assert row["gold"] == expected["support"]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize(
    ("scheme", "name", "alphabet"),
    [
        ("BIO", "IOB2", BIO),
        ("BIOES", "IOBES", BIOES),
        ("BIOES", "BILOU", BILOU),
        ("BIO", "IOB2", "BIO"),
    ],
)
@given(data=st.data())
def test_entities_of_a_scheme_are_those_of_the_strict_mode(scheme, name, alphabet, data):
    metrics = pytest.importorskip("seqeval.metrics")
    schemes = pytest.importorskip("seqeval.scheme")
    gold, predicted = sides(data.draw(labels_of(alphabet)))
    if {label for labels in gold + predicted for label in labels} == {"O"}:
        return
    scores = evaluate_labels(gold, predicted, scheme=scheme)
    strict = {"mode": "strict", "scheme": getattr(schemes, name)}
    for measure in ("precision", "recall", "f1"):
        expected = getattr(metrics, f"{measure}_score")(gold, predicted, zero_division=0, **strict)
        assert scores[f"entity_{measure}"] == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(labels_of(("NOUN", "VERB", 3, ("a", "tuple"), "B-PER")))
def test_labels_have_the_scores_of_scikit_learn(sequences):
    gold, predicted = sides(sequences)
    scores = evaluate_labels(gold, predicted)
    flat = [[str(label) for labels in side for label in labels] for side in (gold, predicted)]
    assert scores["accuracy"] == pytest.approx(accuracy_score(*flat))
    labels = [str(row["label"]) for row in scores["labels"]]
    assert sorted(labels) == sorted(set(flat[0] + flat[1]))
    expected = np.array(precision_recall_fscore_support(*flat, labels=labels, zero_division=0))
    rows = np.array(
        [[row[name] for name in ("precision", "recall", "f1", "gold")] for row in scores["labels"]]
    )
    assert pytest.approx(expected) == rows.T
    is_correct = [g == p for g, p in zip(gold, predicted)]
    assert scores["sequence_accuracy"] == pytest.approx(np.mean(is_correct))


@pytest.mark.parametrize(
    ("gold", "predicted", "scheme"),
    [
        ([["A"], ["B"]], [["A"]], None),
        ([["A"], ["B"]], [["A"], ["B", "B"]], None),
        ([], [], None),
        ([["NOUN"]], [["NOUN"]], "BIO"),
        ([["B", "I-X"]], [["B", "O"]], "BIO"),
        ([["O"]], [["O"]], "IOB2"),
    ],
)
def test_labels_that_do_not_fit_are_refused(gold, predicted, scheme):
    with pytest.raises(InputError):
        evaluate_labels(gold, predicted, scheme=scheme)


@pytest.mark.parametrize("lengths", [(1, 2, 3, 4), (2, 2, 2, 2)])
def test_predictions_of_folds_are_joined(lengths):
    X = [["a", "b", "a", "c"][:n] for n in lengths] * 3
    y = [[word.upper() for word in x] for x in X]
    labeler = omkl.SequenceLabeler(epochs=2, random_state=0)
    folds = KFold(3)
    predictions = cross_val_predict(labeler, X, y, cv=folds)
    for train, test in folds.split(X):
        labeler_of_fold = clone(labeler).fit(
            [X[i] for i in train],
            [y[i] for i in train],
        )
        for i, labels in zip(test, labeler_of_fold.predict([X[i] for i in test])):
            assert predictions[i].tolist() == labels.tolist()
    assert evaluate_labels(y, predictions)["tokens"] == 3 * sum(lengths)


def test_a_labeler_is_evaluated_on_lists_and_on_streams(rng):
    words = [[rng.choice(["Ann", "Bob", "Ghent", "runs"]) for _ in range(5)] for _ in range(40)]
    marks = {"Ann": "B-PER", "Bob": "B-PER", "Ghent": "B-LOC", "runs": "O"}
    X = [[{"word": word} for word in sentence] for sentence in words]
    y = [[marks[word] if rng.random() < 0.9 else "O" for word in sentence] for sentence in words]
    labeler = omkl.SequenceLabeler(epochs=2, random_state=0).fit(X, y)
    scores = labeler.evaluate(X, y)
    assert scores == evaluate_labels(y, labeler.predict(X))
    assert scores["accuracy"] == labeler.score(X, y)
    assert 0.5 < scores["entity_f1"] < 1.0
    assert labeler.evaluate(iter(zip(X, y))) == scores
    assert labeler.evaluate(X, y, scheme="BIO")["entity_f1"] == scores["entity_f1"]
