"""Early stopping on given examples keeps the model of the best epoch; StructuredPredictor on a
multiclass problem.
"""

import numpy as np
import pandas
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, load_iris

import omkl
from omkl.data import Stream, synthetic_treebank
from omkl.exceptions import InputError
from omkl.groups import ExplicitBank, Features, Tokens
from omkl.structures import Multiclass

from ..passes import Kill, Killed, assert_same_state

SETTINGS = {
    "epochs": 30,
    "early_stopping": omkl.EarlyStopping(patience=2),
    "weighting": "norms",
    "random_state": 0,
}


def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    return X[order], y[order]


X, Y = iris()
Z, T = load_diabetes(return_X_y=True)
TREES = synthetic_treebank(120, vocabulary=10, random_state=0)
WORDS = [s.forms for s in TREES]
TAGS = [s.upos for s in TREES]
VECTORS = [X[3 * i : 3 * i + 3] for i in range(50)]
CODES = [Y[3 * i : 3 * i + 3].tolist() for i in range(50)]
CASES = {
    "arrays": (
        omkl.OnlineMKLClassifier(**SETTINGS),
        (X[:100], Y[:100]),
        (X[100:], Y[100:]),
    ),
    "in order": (
        omkl.OnlineMKLClassifier(**{**SETTINGS, "epochs": omkl.Passes(30, shuffle=False)}),
        (X[:100], Y[:100]),
        (X[100:], Y[100:]),
    ),
    "sparse": (
        omkl.OnlineMKLClassifier(**SETTINGS),
        (csr_array(X[:100]), Y[:100]),
        (csr_array(X[100:]), Y[100:]),
    ),
    "frames": (
        omkl.OnlineMKLClassifier(**SETTINGS),
        (pandas.DataFrame(X[:100], columns=list("abcd")), Y[:100]),
        (pandas.DataFrame(X[100:], columns=list("abcd")), Y[100:]),
    ),
    "numbers": (
        omkl.OnlineMKLRegressor(**SETTINGS),
        (Z[:300], T[:300]),
        (Z[300:], T[300:]),
    ),
    "words": (
        omkl.SequenceLabeler(**SETTINGS),
        (WORDS[:90], TAGS[:90]),
        (WORDS[90:], TAGS[90:]),
    ),
    "vectors": (
        omkl.SequenceLabeler(**SETTINGS),
        (VECTORS[:35], CODES[:35]),
        (VECTORS[35:], CODES[35:]),
    ),
    "trees": (
        omkl.DependencyParser("small", memory=9, **SETTINGS),
        (TREES[:90],),
        TREES[90:],
    ),
    "stream": (
        omkl.OnlineMKLClassifier(**SETTINGS),
        (
            Stream.from_arrays(
                X[:100],
                Y[:100],
                30,
            ),
        ),
        (X[100:], Y[100:]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_model_is_that_of_the_best_epoch_on_the_examples_given(name):
    """Its score, measured afterwards, is the best score of the history."""
    model, training, validation = CASES[name]
    noted = []
    model.set_params(callbacks=[lambda trainer, record: noted.append(record["validation_score"])])
    model.fit(*training, validation=validation)
    assert len(noted) == model.n_iter_ <= int(np.argmax(noted)) + 3
    measured = (
        model.score(*validation) if isinstance(validation, tuple) else model.score(validation)
    )
    assert measured == pytest.approx(max(noted))


def test_examples_of_weight_zero_are_in_neither_part():
    weights = np.ones(100)
    weights[::3] = 0
    model = omkl.OnlineMKLClassifier(**SETTINGS)
    model.fit(X[:100], Y[:100], weights, validation=(X[100:], Y[100:]))
    assert {record["examples"] for record in model.history_} == {66}
    assert model.score(X[100:], Y[100:]) == pytest.approx(
        max(r["validation_score"] for r in model.history_)
    )


def test_what_nobody_looks_at_or_does_not_fit_is_refused():
    model = omkl.OnlineMKLClassifier(epochs=2)
    with pytest.raises(InputError):
        model.fit(X, Y, validation=(X, Y))
    model.set_params(early_stopping=True)
    for validation in (3, (X, Y[:-1]), (X[:, :2], Y)):
        with pytest.raises(ValueError, match=r"pair|samples|features"):
            model.fit(X, Y, validation=validation)


def test_sequences_may_be_held_in_any_way_and_need_a_label():
    """Sequences may be arrays of lists, and need at least one label."""
    X = [["a", "b"], ["b"]] * 4
    y = [["A", "B"], ["B"]] * 4
    model = omkl.SequenceLabeler(early_stopping=True, epochs=2, random_state=0)
    as_objects = np.empty(8, dtype=object), np.empty(8, dtype=object)
    as_objects[0][:], as_objects[1][:] = X, y
    for data_in_any_form, weight in (
        (as_objects, None),
        ((X, as_objects[1]), None),
        ((as_objects[0], y), None),
        ((X, y), 1.0),
    ):
        model.fit(*data_in_any_form, sample_weight=weight, validation=(X[:2], y[:2]))
        assert model.history_[-1]["validation_score"] == 1.0
    with pytest.raises(InputError):
        model.fit(X, y, validation=(X[:2], [[None, None], [None]]))


N_CLASSES = 3


def one_token(features):
    """Make an input of one token with two indicators: one informative, one of noise."""
    rows = Features(
        np.array([0, 2]),
        np.array(features, np.int32),
        np.ones(2),
    )
    return Tokens(np.array([0, 1]), rows).everything()


@pytest.fixture
def data(rng):
    y = rng.integers(0, N_CLASSES, 60)
    return [
        one_token([k, N_CLASSES + noise]) for k, noise in zip(y, rng.integers(0, 2, 60))
    ], y.tolist()


def bank(averaging=True):
    groups = [0] * N_CLASSES + [1] * 2
    return ExplicitBank(["label", "noise"], groups=groups, n_outputs=N_CLASSES, averaging=averaging)


def predictor(**options):
    return omkl.StructuredPredictor(Multiclass(N_CLASSES), [bank()], random_state=0, **options)


@pytest.mark.parametrize("weights", [None, np.full(60, 40.0)], ids=["alike", "large"])
@pytest.mark.parametrize("shards", [None, 2])
def test_the_informative_group_gets_the_weight(data, weights, shards):
    model = predictor().fit(*data, sample_weight=weights, shards=shards)
    assert model.predict(data[0]) == data[1]
    assert model.kernel_weights_["label"] > model.kernel_weights_["noise"]


def test_partial_fit_is_one_epoch_in_the_given_order(data):
    once = predictor(weighting="norms", epochs=omkl.Passes(n_examples=60)).partial_fit(*data)
    in_order = omkl.Passes(1, shuffle=False, n_examples=60)
    fitted = predictor(weighting="norms", epochs=in_order).fit(*data)
    assert_same_state(fitted, once)


def test_a_saved_model_predicts_and_goes_on_the_same(data, reloaded):
    model = predictor().fit(*data)
    loaded = reloaded(model)
    for _ in range(2):
        for x in data[0]:
            assert_array_equal(
                loaded.predictor_.potentials(x),
                model.predictor_.potentials(x),
            )
        model.partial_fit(*data)
        loaded.partial_fit(*data)


def test_early_stopping_keeps_the_cost_of_held_out_examples(data):
    model = predictor(early_stopping=omkl.EarlyStopping(patience=2), epochs=30).fit(*data)
    assert model.n_iter_ < 30
    assert model.score(*data) == 0.0


def test_a_resumed_run_is_the_uninterrupted_one(data, tmp_path):
    run = {"checkpoint": tmp_path / "state", "checkpoint_every": "1 rounds"}
    with pytest.raises(Killed):
        predictor(epochs=4, callbacks=[Kill(130)]).fit(*data, **run)
    resumed = predictor(epochs=4).fit(*data, **run, resume=True)
    assert_same_state(predictor(epochs=4).fit(*data), resumed)


def test_mistakes_are_refused(data):
    with pytest.raises(InputError, match="y must have an output for each of 60 inputs, got 2"):
        predictor().fit(data[0], [0, 1])
    with pytest.raises(InputError, match="averaging=True"):
        omkl.StructuredPredictor(Multiclass(N_CLASSES), [bank(averaging=False)]).fit(*data)


@pytest.mark.parametrize(
    ("cls", "name", "message"),
    [
        (
            omkl.SequenceLabeler,
            "regulariser",
            "has no parameter 'regulariser'; did you mean 'regularizer'",
        ),
        (omkl.GroupLasso, "aplha", "did you mean 'alpha'"),
        (omkl.MKLClassifier, "qqqq", "MKLClassifier has no parameter 'qqqq': choose from C, "),
    ],
)
def test_unknown_parameters_are_named_with_a_similar_one(cls, name, message):
    with pytest.raises(TypeError, match=message):
        cls(**{name: 1})


def test_a_missing_number_in_a_stream_is_named_after_the_blocks_before():
    table = pandas.DataFrame(X, columns=list("abcd"))
    table.loc[104, "c"] = np.nan
    rows = Stream.from_arrays(table.to_numpy(), Y, 40)
    strict = {"missing": "error"}
    for learn in (
        omkl.OnlineMKLClassifier(epochs=1, **strict).fit,
        omkl.OnlineMKLClassifier(**strict).partial_fit,
    ):
        with pytest.raises(
            InputError, match=r"After 80 examples of the stream: Column 2 of X .* NaN in row 24"
        ):
            learn(rows)
    with pytest.raises(
        InputError, match=r"^Column 'c' of X must hold finite numbers, got NaN in row 104"
    ):
        omkl.OnlineMKLClassifier(**strict).partial_fit(table, Y)
