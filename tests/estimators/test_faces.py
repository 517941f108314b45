"""Behaviour of all online estimators: class weights, histories, streams, errors, and scikit-learn's
tools.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn import set_config
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import omkl
from omkl import (
    DependencyParser,
    GroupLasso,
    MKLClassifier,
    MKLRegressor,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    SequenceLabeler,
    SparseLogisticRegression,
)
from omkl.data import Sentence, Stream, synthetic_treebank
from omkl.exceptions import InputError
from omkl.groups import ExplicitBank, Features, Tokens
from omkl.kernels import Linear
from omkl.online import values_of
from omkl.regularizers import WeightedSquaredL21
from omkl.structures import Multiclass


def rare(rng, n=400):
    """3% of positives, which overlap with the others."""
    y = (np.arange(n) % 33 == 0).astype(int)
    return rng.normal(size=(n, 2)) + 1.5 * y[:, None], y


def test_class_weights_are_sample_weights(rng):
    X, y = rare(rng)
    settings = {"kernels": ["linear"], "epochs": 5, "random_state": 0}
    weights = len(y) / (2 * np.bincount(y))
    by_sample = OnlineMKLClassifier(**settings).fit(X, y, weights[y])
    for class_weight in ("balanced", dict(enumerate(weights))):
        by_class = OnlineMKLClassifier(class_weight=class_weight, **settings).fit(X, y)
        assert_array_equal(by_class.decision_function(X), by_sample.decision_function(X))
    plain = OnlineMKLClassifier(**settings).fit(X, y)
    recalls = [model.predict(X)[y == 1].mean() for model in (plain, by_sample)]
    assert recalls[0] < 0.5 < recalls[1]
    with pytest.raises(InputError):
        OnlineMKLClassifier(class_weight="balanced").partial_fit(X, y)


def test_class_weights_of_sequences_of_one_token_are_those_of_a_classifier(rng):
    X, y = rare(rng)
    settings = {
        "kernels": ["linear"],
        "epochs": omkl.Passes(3, shuffle=False),
        "random_state": 0,
        "class_weight": "balanced",
    }
    labeler = SequenceLabeler(transitions=None, **settings).fit(X[:, None], y[:, None])
    counts = np.bincount(y)
    weighted = SequenceLabeler(transitions=None, **{**settings, "class_weight": None})
    weighted.fit(
        X[:, None],
        y[:, None],
        len(y) / (2 * counts[y]),
    )
    assert_array_equal(
        np.concatenate(labeler.predict(X[:, None])), np.concatenate(weighted.predict(X[:, None]))
    )


def test_weights_of_sentences_are_copies():
    trees = synthetic_treebank(20, random_state=0)
    settings = {"templates": "small", "epochs": omkl.Passes(2, shuffle=False), "memory": 6.0}
    weights = np.array([2, 0, 1, 3] * 5)
    weighted = DependencyParser(**settings).fit(trees, sample_weight=weights)
    copied = DependencyParser(**settings).fit(trees[np.repeat(np.arange(20), weights)])
    for name, array in copied.model_.trainer.state().items():
        if not name.startswith("bank0/keys"):
            assert_array_equal(
                weighted.model_.trainer.state()[name],
                array,
                err_msg=name,
            )


def test_records_are_flat_and_the_same_in_fit_partial_fit_and_streams(rng):
    X, y = rare(rng, 90)
    stream = Stream.from_arrays(X, y, 30)
    fitted = OnlineMKLClassifier(["linear"], epochs=2).fit(X, y)
    looped = OnlineMKLClassifier(["linear"], epochs=2).partial_fit(X, y).partial_fit(X, y)
    streamed = OnlineMKLClassifier(["linear"], epochs=2).fit(stream)
    sharded = OnlineMKLClassifier(["linear"], epochs=2).fit(X, y, shards=2)
    names = set(fitted.history_[0])
    assert {
        "epoch",
        "round",
        "examples",
        "loss",
        "penalty",
        "objective",
        "rate",
        "seconds",
    } <= names
    assert values_of(fitted.history_[0], "weight") == {"linear": 1.0}
    assert [record["epoch"] for record in looped.history_] == [1, 2]
    for model in (looped, streamed, sharded):
        assert names <= set(model.history_[-1])
    assert not any(isinstance(value, (dict, list)) for value in sharded.history_[-1].values())
    assert [record["epoch"] for record in fitted.history_] == [1, 2]


def test_streams_are_scored_as_arrays_are(rng):
    X, y = rare(rng, 90)
    stream = Stream.from_arrays(X, y, 40)
    for model, target in ((OnlineMKLClassifier(), y), (OnlineMKLRegressor(), X[:, 0])):
        model.fit(X, target)
        assert model.score(Stream.from_arrays(X, target, 40)) == pytest.approx(
            model.score(X, target)
        )
    labeler = SequenceLabeler().fit(X[:, None], y[:, None])
    pairs = Stream.from_arrays(
        list(X[:, None]),
        list(y[:, None]),
        40,
    )
    assert labeler.score(pairs) == pytest.approx(labeler.score(X[:, None], y[:, None]))
    assert stream.block_size == 40


@pytest.mark.parametrize("missing", [None, np.nan, float("nan")])
def test_a_label_that_is_missing_is_refused(missing, rng):
    words = [[{"word": "a"}, {"word": "b"}]]
    if missing is not None:  # a labeler reads this as a token without a label
        with pytest.raises(InputError):
            SequenceLabeler().fit(words, [["D", missing]])
    with pytest.raises(ValueError, match=r"row 1|NaN|missing"):
        OnlineMKLClassifier().fit(
            [{"a": 1.0}, {"a": 2.0}, {"b": 1.0}], np.array(["x", missing, "y"], dtype=object)
        )
    for make in (MKLClassifier, SparseLogisticRegression):
        with pytest.raises(ValueError, match=r"row 1|NaN"):
            make().fit(rng.normal(size=(3, 2)), np.array(["x", missing, "y"], dtype=object))


ESTIMATORS = [
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    MKLClassifier,
    MKLRegressor,
    GroupLasso,
    SparseLogisticRegression,
]


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize(
    "weights", [["heavy"] * 40, np.ones(39), np.zeros(40), -np.ones(40), [np.nan] * 40]
)
def test_weights_that_are_none_are_refused(make, weights, rng):
    with pytest.raises(InputError):
        make().fit(
            rng.normal(size=(40, 2)),
            np.arange(40) % 2,
            sample_weight=weights,
        )


@pytest.mark.parametrize("make", ESTIMATORS)
def test_one_weight_is_that_of_all(make, rng):
    X = rng.normal(size=(40, 2))
    y = np.arange(40) % 2
    seed = {"random_state": 0} if hasattr(make(), "random_state") else {}
    one, each = (make(**seed).fit(X, y, sample_weight=weight) for weight in (0.5, [0.5] * 40))
    assert_array_equal(one.predict(X), each.predict(X))


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("callbacks", [object()]), ("callbacks", print), ("cost", "hamming"), ("random_state", "x")],
)
def test_what_cannot_be_used_is_refused_by_its_name(parameter, value, rng):
    with pytest.raises(InputError, match=parameter.removesuffix("s")):
        OnlineMKLClassifier("linear", **{parameter: value}).fit(
            rng.normal(size=(10, 2)), np.arange(10) % 2
        )


def test_two_classes_have_one_score_whatever_they_cost(rng):
    X = rng.normal(size=(60, 2))
    y = np.arange(60) % 2
    costly = OnlineMKLClassifier(
        "linear", loss="hinge", cost=[[0.0, 1.0], [9.0, 0.0]], random_state=0
    ).fit(X, y)
    growing = OnlineMKLClassifier("linear", loss="crf", random_state=0).partial_fit(
        X, y, classes="growing"
    )
    for model in (costly, growing):
        assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))
    assert_allclose(
        growing.predict_proba(X)[:, 1],
        expit(growing.decision_function(X)),
    )


def test_one_sentence_is_parsed_and_tokens_that_are_no_sentence_are_refused():
    trees = synthetic_treebank(10, random_state=0)
    parser = DependencyParser("small", epochs=1, memory=6.0).fit(trees)
    sentence = next(iter(trees))
    assert isinstance(sentence, Sentence)
    assert next(iter(parser.parse(sentence))).heads == next(iter(parser.parse([sentence]))).heads
    with pytest.raises(InputError):
        parser.parse(None)
    labeler = SequenceLabeler(epochs=1).fit([[{"word": "a"}]] * 2, [["x"], ["y"]])
    with pytest.raises(InputError):
        labeler.predict([{"word": "a"}])


def test_probabilities_that_are_missing_tell_which_loss_has_them(rng):
    model = OnlineMKLClassifier(["linear"], loss="hinge", epochs=1).fit(*rare(rng, 60))
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as error:
        model.predict_proba(np.ones((1, 2)))
    assert 'loss="crf"' in f"{error.value} {error.value.__cause__}"


def test_arguments_by_position_follow_the_users_order_of_kernels(rng):
    X = rng.normal(size=(80, 3))
    y = np.sign(X[:, 0] * X[:, 1])
    for kernels in (["gaussian", "linear"], ["linear", "gaussian"]):
        weights = np.where(
            np.array(kernels) == "linear",
            0.0,
            1e6,
        )
        free = OnlineMKLClassifier(
            kernels, regularizer=WeightedSquaredL21(weights), epochs=3, random_state=0
        )
        assert free.fit(X, y).kernel_weights_["linear"] > 0.99


class Scaled(Linear):
    """A user's kernel."""

    def __init__(self, factor=1.0, explicit=False):
        super().__init__(explicit=explicit)
        self.factor = factor

    def raw(self, pair):
        return self.factor * super().raw(pair)


def test_a_users_class_that_is_defined_is_found(rng, reloaded):
    X, y = rare(rng, 60)
    model = OnlineMKLClassifier({"own": Scaled(2.0)}, epochs=2).fit(X, y)
    assert_array_equal(reloaded(model).decision_function(X), model.decision_function(X))


def test_a_structure_of_ones_own_predicts_and_scores_streams(rng):
    y = rng.integers(0, 2, size=30).tolist()
    inputs = [
        Tokens(
            np.array([0, 1]), Features(np.array([0, 1]), np.array([k], np.int32), np.ones(1))
        ).everything()
        for k in y
    ]
    bank = ExplicitBank(["identity"], groups=[0, 0], n_outputs=2, averaging=True)
    model = omkl.StructuredPredictor(Multiclass(2), [bank], random_state=0).fit(inputs, y)
    assert model.predict(iter([(x, None) for x in inputs])) == model.predict(inputs)
    assert model.predict(
        Stream.from_iterable(lambda: zip(inputs, y), block_size=7)
    ) == model.predict(inputs)
    wrong = [1 - k for k in y]
    assert model.score(zip(inputs, wrong)) == model.score(inputs, wrong) == -1.0
    with pytest.raises(InputError):
        model.score(zip(inputs, y), sample_weight=np.ones(30))


@pytest.mark.parametrize("average", ["quadratic", None])
@pytest.mark.parametrize("budget", [None, 20])
def test_dual_coefficients_and_support_vectors_are_the_decision_function(average, budget, rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = OnlineMKLClassifier(
        ["gaussian:sigma2=0.5", "gaussian:sigma2=4"],
        fit_intercept=False,
        average=average,
        random_state=0,
        budget=omkl.Budget(budget, dtype="float64"),
    ).fit(X, y)
    total = 0.0
    assert len(model.dual_coef_) == 2
    for (name, A), sigma2 in zip(sorted(model.dual_coef_.items()), [0.5, 4.0]):
        vectors = model.support_vectors_[name]
        assert A.shape == (len(vectors), 1)
        total = total + np.exp(-cdist(X, vectors, "sqeuclidean") / (2 * sigma2)) @ A[:, 0]
    assert_allclose(model.decision_function(X), total, atol=1e-8)


def test_the_history_has_the_weighted_mean_of_the_losses(rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    halves, ones = (
        OnlineMKLClassifier("linear", epochs=2, C=C, random_state=0).fit(
            X, y, sample_weight=np.full(60, w)
        )
        for w, C in ((0.5, 2.0), (1.0, 1.0))
    )
    assert_allclose(
        [r["loss"] for r in halves.history_], [r["loss"] for r in ones.history_], rtol=1e-9
    )


CLASSIFIERS = [
    omkl.MKLClassifier(["linear", "gaussian"], C=3.0),
    omkl.MKLClassifierCV(["linear", "gaussian"], Cs=[1.0, 10.0], cv=3),
    omkl.OnlineMKLClassifier(["linear", "gaussian"], epochs=5, random_state=0),
    omkl.SparseLogisticRegression(0.01),
    omkl.SparseLogisticRegressionCV([0.1, 0.01], cv=3),
]
REGRESSORS = [
    omkl.MKLRegressor(["linear", "gaussian"], C=3.0),
    omkl.MKLRegressorCV(["linear", "gaussian"], Cs=[1.0, 10.0], cv=3),
    omkl.OnlineMKLRegressor(["linear", "gaussian"], epochs=5, random_state=0),
    omkl.GroupLasso(0.01),
    omkl.GroupLassoCV([0.1, 0.01], cv=3),
]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=90),
            "noise": rng.normal(size=90),
            "b": rng.choice(["u", "v", "w"], 90),
        }
    )
    return X, X["a"] + 2.0 * (X["b"] == "u")


def of_columns(estimator):
    numbers = ("scaled", StandardScaler(), ["a", "noise"])
    words = ("words", OneHotEncoder(), ["b"])
    return make_pipeline(
        ColumnTransformer([numbers, words], sparse_threshold=0.0), clone(estimator)
    )


@pytest.mark.parametrize(
    "estimator", CLASSIFIERS + REGRESSORS, ids=lambda estimator: type(estimator).__name__
)
def test_pipelines_of_columns_are_cross_validated_and_their_columns_ranked(table, estimator):
    X, target = table
    y = np.where(target > 1.0, "high", "low") if is_classifier(estimator) else target
    model = of_columns(estimator)
    results = cross_validate(model, X, y, cv=3, return_estimator=True)
    assert results["test_score"].mean() > (0.85 if is_classifier(estimator) else 0.7)
    importances = permutation_importance(
        results["estimator"][0], X, y, n_repeats=3, random_state=0
    ).importances_mean
    assert importances[1] < min(importances[0], importances[2])


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_classifiers_are_calibrated(estimator, method):
    X, y = load_iris(return_X_y=True)
    model = CalibratedClassifierCV(clone(estimator), cv=2, method=method).fit(X, y)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.85


def test_ensembles_are_made_of_them():
    X, y = load_iris(return_X_y=True)
    models = [(type(model).__name__, clone(model)) for model in CLASSIFIERS[::3]]
    assert VotingClassifier(models, voting="soft").fit(X, y).score(X, y) > 0.9
    assert StackingClassifier(models, cv=2).fit(X, y).score(X, y) > 0.9


def test_weights_are_routed():
    X, y = load_iris(return_X_y=True)
    weights = np.where(y == 2, 0.0, 1.0)
    set_config(enable_metadata_routing=True)
    try:
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = make_pipeline(
            scaler, omkl.MKLClassifier(["linear"]).set_fit_request(sample_weight=True)
        )
        assert model.fit(X, y, sample_weight=weights)[-1].classes_.tolist() == [0, 1]
    finally:
        set_config(enable_metadata_routing=False)


@pytest.mark.parametrize(
    "model", [omkl.SequenceLabeler(C=3.5), omkl.MKLClassifier(C=3.5), omkl.GraphLabeler(C=3.5)]
)
def test_estimators_follow_the_protocol_of_scikit_learn(model):
    copy = clone(model)
    assert repr(copy) == repr(model) == f"{type(model).__name__}(C=3.5)"
    assert copy.set_params(C=2.0).get_params() == {**model.get_params(), "C": 2.0}
    assert all(text in model._repr_html_() for text in (type(model).__name__, "3.5"))
    with pytest.raises(ValueError, match="Invalid parameter 'D'"):
        copy.set_params(D=1.0)
