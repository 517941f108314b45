"""Arguments of online estimators, and parts of one's own, are used or refused by name."""

import copy

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl import (
    Annotator,
    DependencyParser,
    MKLClassifier,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    SequenceLabeler,
    SparseLogisticRegression,
)
from omkl.data import Sentence, Stream, synthetic_treebank
from omkl.estimators.validation import class_weights
from omkl.exceptions import InputError
from omkl.kernels import Kernel
from omkl.losses import PointwiseLoss, StructuredLoss
from omkl.regularizers import Regularizer

from ..commands import run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0.4).astype(int)
WEIGHTS = RNG.integers(0, 4, 60)
SEQUENCES = [X[i : i + 6] for i in range(0, 60, 6)]
LABELS = [Y[i : i + 6].tolist() for i in range(0, 60, 6)]


def classifier(**parameters):
    return OnlineMKLClassifier("linear", random_state=0, **{"epochs": 2, **parameters})


def labeler(**parameters):
    return SequenceLabeler("linear", random_state=0, **{"epochs": 2, **parameters})


def test_balanced_classes_count_examples_as_often_as_their_weights_say():
    repeated = np.repeat(np.arange(60), WEIGHTS)
    every = np.arange(61)
    copies = np.arange(len(repeated) + 1)
    weights = class_weights("balanced", Y.tolist(), every, WEIGHTS.astype(float), is_all_data=True)
    each = class_weights(
        "balanced",
        Y[repeated].tolist(),
        copies,
        None,
        is_all_data=True,
    )
    assert_allclose(weights, np.bincount(repeated, each, 60))
    assert_allclose(weights[Y == 0].sum(), weights[Y == 1].sum())


def test_a_labeler_labels_the_sequences_of_a_stream():
    model = labeler(loss="crf").fit(SEQUENCES, LABELS)
    for ask in (model.predict, model.decision_function, model.predict_marginals):
        expected = np.concatenate(list(ask(SEQUENCES)))
        for stream in (Stream.from_arrays(SEQUENCES, LABELS, block_size=3), zip(SEQUENCES, LABELS)):
            assert_array_equal(np.concatenate(list(ask(stream))), expected)


def test_sequences_of_weight_zero_are_as_if_they_were_not_there():
    X = [[{"w": "a"}], [{"w": "b"}], [{"w": "c"}]]
    y = [["A"], ["B"], ["C"]]
    weighted = SequenceLabeler(epochs=2, random_state=0).fit(X, y, sample_weight=[1, 1, 0])
    without = SequenceLabeler(epochs=2, random_state=0).fit(X[:2], y[:2])
    assert_array_equal(weighted.classes_, without.classes_)
    assert_array_equal(weighted.decision_function(X), without.decision_function(X))


def test_sentences_of_weight_zero_are_as_if_they_were_not_there():
    def sentence(root, relation):
        return Sentence(
            ["dogs", "bark"],
            ["dog", "bark"],
            ["NOUN", "VERB"],
            ["N", "V"],
            heads=[2, 0],
            deprels=[relation, root],
        )

    sentences = [sentence("root", "nsubj"), sentence("root", "obj"), sentence("top", "dep")]
    make = lambda: DependencyParser("small", epochs=2, memory=10, random_state=0)  # noqa: E731
    weighted = make().fit(sentences, sample_weight=[2, 1, 0])
    without = make().fit(sentences[:2], sample_weight=[2, 1])
    assert weighted.template_weights_ == without.template_weights_
    assert weighted.parse(sentences)[0].deprels == without.parse(sentences)[0].deprels
    assert weighted.history_[-1]["loss"] == without.history_[-1]["loss"]


def test_a_stream_of_weighted_classes_has_the_objective_of_the_arrays():
    """Strength and mean loss count weights, from the first epoch to the last."""
    parameters = {"class_weight": {1: 2.5}, "epochs": omkl.Passes(3, shuffle=False), "C": 1.0}
    arrays = classifier(**parameters).fit(X, Y)
    stream = classifier(**parameters).fit(Stream.from_arrays(X, Y, block_size=17))
    total = float(np.where(Y == 1, 2.5, 1.0).sum())
    assert_allclose(arrays.model_.trainer.lambda_, 1 / total)
    assert_allclose(stream.model_.trainer.lambda_, 1 / total)
    one_pass = classifier(**{**parameters, "epochs": 1}).fit(
        Stream.from_arrays(X, Y, block_size=17)
    )
    looped = classifier(**parameters).partial_fit(X, Y)
    assert_allclose(
        one_pass.history_[-1]["loss"],
        looped.history_[-1]["loss"],
        rtol=1e-12,
    )


def test_rates_of_dual_averaging_rest_where_there_is_no_gradient():
    """Otherwise the free intercept grows without bound."""
    model = classifier(loss="crf", method="rda", class_weight={0: 1000.0, 1: 1e-4}).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model.history_[-1]["rate"])


def test_targets_beside_trees_are_refused():
    words = [["the", "dog", "runs"]] * 8
    heads = [[2, 3, 0]] * 8
    trees = [
        Sentence(forms=forms, upos=["D", "N", "V"], heads=of, deprels=["det", "nsubj", "root"])
        for forms, of in zip(words, heads)
    ]
    parser = DependencyParser("small", epochs=1, memory=1, random_state=0).fit(trees)
    annotator = Annotator(
        parser=parser, tagger=SequenceLabeler(epochs=1), folds=2, random_state=0
    ).fit(trees)
    calls = [
        parser.fit,
        parser.partial_fit,
        parser.score,
        parser.group_report,
        annotator.fit,
        annotator.score,
    ]
    for call in calls:
        with pytest.raises(InputError):
            call(trees, heads)


def test_numbers_that_are_missing_are_found():
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, np.nan, np.inf]})
    nullable = pandas.DataFrame({"a": pandas.array([1, None, 3], dtype="Int64")})
    for model in [
        estimator(missing="error")
        for estimator in (OnlineMKLClassifier, MKLClassifier, SparseLogisticRegression)
    ]:
        for table in (frame, nullable, frame.to_numpy(), frame[::2], frame.to_numpy().tolist()):
            with pytest.raises(InputError):
                model.fit(table, [0, 1, 0][: len(table)])


def test_other_separators_of_a_table_are_named(tmp_path, refused):
    out = str(tmp_path / "m.npz")
    for other in ("1;2;q\n", "2;3;q\n"):
        (tmp_path / "semicolons.csv").write_text("a;b;y\n1;2;p\n" + other)
        named = ["--target", "y", "-o", out, "--quiet"]
        refused(
            ["train", "classifier", tmp_path / "semicolons.csv", *named], "give --delimiter ';'"
        )
        arguments = ["train", "classifier", str(tmp_path / "semicolons.csv"), "-o", out, "--quiet"]
        refused(arguments, "give --delimiter ';'")
        run(*arguments, "--delimiter", ";")
        run("evaluate", out, arguments[2], "--delimiter", ";", "--quiet")
    refused([*arguments, "--delimiter", ";;"], "must be one ASCII character")
    refused(["train", "classifier", "", "-o", out], "is empty")


@pytest.mark.parametrize(
    "later",
    [
        {"transitions": omkl.Transitions(order=2)},
        {"transitions": None},
        {"transitions": omkl.Transitions(by_position=True)},
        {"loss": "crf"},
        {"transitions": omkl.Transitions(allowed={0: [1]})},
        {"kernels": ["gaussian"]},
        {"cost": np.ones((2, 2)) - np.eye(2)},
        {"learning_rate": 0.1},
    ],
)
def test_a_model_goes_on_and_is_saved_with_the_parameters_it_was_fitted_with(later, tmp_path):
    model = labeler().fit(SEQUENCES, LABELS)
    same = labeler().fit(SEQUENCES, LABELS)
    model.set_params(**later)
    for fitted, name in ((model, "model.npz"), (same, "same.npz")):
        fitted.partial_fit(SEQUENCES, LABELS).save(tmp_path / name)
    assert (tmp_path / "model.npz").read_bytes() == (tmp_path / "same.npz").read_bytes()
    assert not hasattr(model, "predict_marginals")


def test_labels_are_what_they_are_however_they_are_held(tmp_path):
    """Labels may be a Series, or numbers of NumPy."""
    scores = labeler().fit(SEQUENCES, LABELS).decision_function(SEQUENCES)
    for label_sequences in (
        [pandas.Series(labels, index=range(7, 7 + len(labels))) for labels in LABELS],
        [list(np.array(labels)) for labels in LABELS],
        [tuple(labels) for labels in LABELS],
    ):
        model = labeler().fit(SEQUENCES, label_sequences)
        assert model.classes_.dtype.kind == "i"
        for score, expected in zip(model.decision_function(SEQUENCES), scores):
            assert_array_equal(score, expected)
    for online, args in ((labeler(), (SEQUENCES, LABELS)), (classifier(), (X, Y))):
        online.partial_fit(*args, classes=np.arange(3)).save(tmp_path / "model.npz")
        assert online.classes_.tolist() == [0, 1, 2]
        assert online.classes_.dtype.kind == "i"


def test_weights_of_classes_do_not_count_labels_that_are_not_known():
    partly = [[None if label else 0 for label in labels] for labels in LABELS[:-1]] + LABELS[-1:]
    assert 1 in LABELS[-1]
    labeler(class_weight={0: 2.0, 1: 1.0, 2: 3.0}).fit(SEQUENCES, partly)
    for model, data in ((labeler(), (SEQUENCES, LABELS)), (classifier(), (X, Y))):
        with pytest.raises(InputError):
            model.set_params(class_weight={0: 0, 1: 0}).fit(*data)


WORDS = ["a", "b"]
TAGS = ["X", "Y"]
TREES = synthetic_treebank(3, random_state=0)
STREAM = Stream.from_arrays(X, Y)
DICTS = OnlineMKLClassifier(random_state=0).partial_fit([{"a": 1.0}, {"a": 2.0}], [0, 1])
REFUSED = {
    "early stopping": lambda: classifier(early_stopping=True).partial_fit(X, Y),
    "a rate that is no number": lambda: classifier(learning_rate=[0.1]).fit(X, Y),
    "a cost with the CRF loss": lambda: classifier(loss="crf", cost=1.0 - np.eye(2)).fit(X, Y),
    "positions without transitions": (
        lambda: labeler(transitions=omkl.Transitions(None, by_position=True)).fit(SEQUENCES, LABELS)
    ),
    "None as a vector": lambda: labeler().fit([[[1.0], None]], [["D", "N"]]),
    "bytes as a word": lambda: labeler().fit([[b"dog", "dog"]], [["D", "N"]]),
    "a set of labels": lambda: labeler().fit([WORDS, WORDS], [TAGS, set(TAGS)]),
    "a set of words": lambda: labeler().fit([WORDS, set(WORDS)], [TAGS, TAGS]),
    "a string as words": lambda: labeler().fit([WORDS, "ab"], [TAGS, TAGS]),
    "a Sentence as words": lambda: labeler().fit([Sentence(forms=WORDS)], [TAGS]),
    "dicts for rows": lambda: classifier().fit(X, Y).predict([{"a": 1.0}]),
    "numbers as names of matrices": lambda: MKLClassifier("precomputed").fit({0: X @ X.T}, Y),
    "numbers as names of kernels": lambda: classifier().set_params(kernels={1: "linear"}).fit(X, Y),
    "classes beside those of the model": lambda: (
        classifier().partial_fit(X, Y).partial_fit(X, Y, classes=[0, 1, 2])
    ),
    "growing classes of a model": lambda: (
        classifier().partial_fit(X, Y).partial_fit(X, Y, classes="growing")
    ),
    "a weight of no class": lambda: classifier(class_weight={"1": 10.0}).fit(X, Y),
    **{
        f"{value} among dicts": lambda value=value: DICTS.predict([{"a": value}])
        for value in (np.inf, -np.inf)
    },
    "a parameter changed between examples": lambda: (
        copy.deepcopy(DICTS).set_params(C=-1.0).partial_fit([{"a": 1.0}], [0])
    ),
    **{
        f"{n_jobs!r} threads for a {name}": lambda fit=fit, n_jobs=n_jobs: fit(n_jobs)
        for n_jobs in (0, 1.5, "all", True)
        for name, fit in {
            "labeler": lambda n_jobs: labeler(n_jobs=n_jobs).fit(SEQUENCES, LABELS),
            "parser": lambda n_jobs: DependencyParser(n_jobs=n_jobs).fit(TREES),
        }.items()
    },
    "weights of a stream": lambda: classifier().fit(STREAM, sample_weight=np.ones(60)),
    "weights of a stream, in part": (
        lambda: OnlineMKLRegressor().partial_fit(STREAM, sample_weight=np.ones(60))
    ),
    "early stopping on a stream": lambda: classifier(early_stopping=True).fit(STREAM),
    "a radius from a stream": lambda: classifier(radius="auto").fit(STREAM),
    "a cost of growing classes": (
        lambda: classifier(cost=1.0 - np.eye(3)).fit(STREAM, classes="growing")
    ),
    "a stream without outputs": lambda: classifier().fit(Stream.from_arrays(X)),
    "a stream without examples": lambda: classifier().fit(Stream.from_arrays(X[:0], Y[:0])),
    "scores without outputs": lambda: classifier().fit(X, Y).score(X),
    "a set of kernels": lambda: MKLClassifier({"linear", "gaussian"}).fit(X, Y),
}


MESSAGES = {"a stream without outputs": "None", "a stream without examples": "an example"}


@pytest.mark.parametrize("call", REFUSED)
def test_mistakes_are_refused(call):
    with pytest.raises(InputError, match=MESSAGES.get(call)):
        REFUSED[call]()


class Absolute(PointwiseLoss):
    def value(self, y, z):
        return np.abs(y - z)


class NoPenalty(Regularizer):
    pass


class NoKernel(Kernel):
    pass


class NoLoss(StructuredLoss):
    pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: omkl.OnlineMKLRegressor(["linear"], loss=Absolute()),
            r"Absolute must define gradient\(\)\.",
        ),
        (
            lambda: omkl.MKLRegressor(["linear"], loss=Absolute()),
            r"Absolute must define gradient\(\)\.",
        ),
        (lambda: omkl.GroupLasso(loss=Absolute()), r"Absolute must define gradient\(\)\."),
        (
            lambda: omkl.OnlineMKLRegressor(["linear"], regularizer=NoPenalty()),
            r"NoPenalty must define value\(\), slopes\(\), prox\(\), conjugate\(\)\.",
        ),
        (lambda: omkl.MKLRegressor([NoKernel()]), r"NoKernel must define raw\(\)\."),
        (
            lambda: omkl.OnlineMKLClassifier(["linear"], loss=NoLoss()),
            "NoLoss must define value_and_gradient",
        ),
    ],
    ids=["value alone", "batch", "design", "penalty", "kernel", "structured"],
)
def test_a_part_without_a_method_that_is_needed_is_refused_in_one_sentence(make, said, rng):
    X = rng.normal(size=(20, 3))
    estimator = make()
    y = np.arange(20) % 2 if "Classifier" in type(estimator).__name__ else X[:, 0]
    with pytest.raises(InputError, match=said):
        estimator.fit(X, y)


class Overlap(Kernel):
    """User-defined kernel without a name."""

    def raw(self, pair):
        return np.minimum(pair.X[:, None, :], pair.Y[None, :, :]).sum(axis=2)

    def raw_diagonal(self, X):
        return X.sum(axis=1)


def test_a_kernel_without_a_name_is_called_by_its_class(rng):
    X = rng.random((30, 3))
    model = omkl.MKLClassifier([Overlap(), "linear"]).fit(X, X[:, 0] > 0.5)
    assert list(model.kernel_weights_) == ["Overlap", "linear"]
    assert model.score(X, X[:, 0] > 0.5) > 0.8
