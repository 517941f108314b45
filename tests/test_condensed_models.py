"""Model files that only predict: the same predictions from a fraction of the bytes, and no further training."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris

import omkl
from omkl.data import Sentence, Treebank, synthetic_treebank
from omkl.exceptions import InputError
from omkl.persistence import restored, rounded


@given(arrays_of.arrays(np.float64, 20, elements=st.floats(-1e30, 1e30, allow_subnormal=False)))
def test_rounding_is_relative_to_each_weight(weights):
    for dtype, digits, lowest in (("float32", 24, 1e-38), ("float16", 11, np.abs(weights).max() * 2.0**-29)):
        small, how = rounded({"bank0/table": weights, "other": weights}, dtype, ("/table",))
        assert small["bank0/table"].dtype == dtype or not weights.any()
        back = restored(small, how)
        kept = np.abs(weights) > lowest
        assert (np.abs(back["bank0/table"] - weights) <= 2.0**-digits * np.abs(weights))[kept].all()
        assert_array_equal(back["other"], weights)


def words(rng, n=60):
    X, y = [], []
    for _ in range(n):
        tags = rng.choice(["D", "N", "V"], rng.integers(1, 6)).tolist()
        X.append(
            [{"w": f"{tag}{rng.integers(9)}", "size": float(rng.normal()), "v": rng.normal(size=2)} for tag in tags]
        )
        y.append(tags)
    return X, y


Labeler, Classifier = omkl.SequenceLabeler, omkl.OnlineMKLClassifier
MODELS = {
    "strings": Labeler(),
    "strings and kernels": Labeler({"lin": "linear:on=v", "g": "gaussian:on=v"}),
    "strings and maps": Labeler({"r": "gaussian:on=v,features=20"}),
    "no average": Labeler(average=None),
    "crf, rda": Labeler(loss="crf", method="rda", transitions="regularized"),
    "perceptron": Labeler(loss="perceptron", regularizer=None, eta0=1.0, average="uniform"),
    "projection": Classifier(["gaussian", "laplacian"], budget=10),
    "larger budget than support": Classifier(["gaussian"], budget=500, regularizer="l2"),
    "budget, last model": Classifier(["gaussian"], budget=10, average=None),
    "support": Classifier(["gaussian", "cubic"]),
    "maps": Classifier(["gaussian:features=20"]),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("online", [False, True], ids=["fit", "partial_fit"])
def test_a_small_file_predicts_bit_for_bit_and_learns_no_more(name, online, rng, tmp_path):
    model = clone(MODELS[name]).set_params(epochs=3, random_state=0)
    is_labeler = isinstance(model, Labeler)
    X, y = words(rng) if is_labeler else load_iris(return_X_y=True)
    X_new = words(rng)[0] if is_labeler else X + 0.1
    model = model.partial_fit(X, y) if online else model.fit(X, y)
    whole, path, again = (tmp_path / name for name in ("whole.npz", "small.npz", "again.npz"))
    model.save(whole)
    model.save(path, training=False)
    assert path.stat().st_size < whole.stat().st_size
    small, scores = omkl.load(path), model.decision_function(X_new)
    for own, other in zip(scores, small.decision_function(X_new)):
        assert_array_equal(own, other)
    assert small.kernel_weights_ == pytest.approx(model.kernel_weights_)
    assert small.history_ == []
    if is_labeler:
        assert_array_equal(model.transitions_, small.transitions_)
        assert small.top_features(5) == model.top_features(5)
    with pytest.raises(InputError, match="saved with training=False"):
        small.partial_fit(X, y)
    for options in ({"training": False}, {}):
        small.save(again, **options)
        assert again.read_bytes() == path.read_bytes()
    if not is_labeler:
        model.save(again, training=False, dtype="float32")
        single = omkl.load(again).decision_function(X_new)
        assert np.abs(single - scores).max() < 1e-5 * np.abs(scores).max()
    anew = small.set_params(random_state=0).fit(X, y).decision_function(X_new)
    for own, other in zip(anew, model.fit(X, y).decision_function(X_new)):
        assert_array_equal(own, other)


def test_features_without_weight_are_not_kept(rng, reloaded):
    X, y = words(rng, 200)
    for k, sequence in enumerate(X):  # the later half is easy: its new features are never updated
        for token, tag in zip(sequence, y[k]):
            token.update(tag=tag, own=f"{k}")
    settings = {"loss": "perceptron", "regularizer": None, "eta0": 1.0, "shuffle": False}
    labeler = omkl.SequenceLabeler(epochs=1, random_state=0, **settings).fit(X, y)
    small = reloaded(labeler, training=False)
    vocabulary = labeler.model_.codec.encoder.vocabulary
    n_all, used = len(vocabulary.groups), labeler.predictor_.banks[0].table[vocabulary.first_id :].any(axis=1).sum()
    assert len(small.model_.codec.encoder.vocabulary.groups) == used < n_all
    assert_array_equal(np.concatenate(small.decision_function(X)), np.concatenate(labeler.decision_function(X)))


@pytest.mark.parametrize("dtype", [None, "float32", "float16"])
def test_a_parser_keeps_its_trees(dtype, tmp_path):
    treebank = synthetic_treebank(160, vocabulary=10, random_state=0)
    templates = ["h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance", "h.form m.form"]
    parser = omkl.DependencyParser(templates, epochs=2, memory=10, random_state=0).fit(treebank[:120])
    parser.save(tmp_path / "whole.npz")
    parser.save(tmp_path / "small.npz", training=False, dtype=dtype)
    small = omkl.load(tmp_path / "small.npz")
    assert 2 * (tmp_path / "small.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size
    mine, theirs = parser.parse(treebank), small.parse(treebank)
    agreement = np.mean((mine.heads == theirs.heads) & (mine.deprels == theirs.deprels))
    assert agreement == 1.0 if dtype is None else agreement > 0.99
    assert np.shares_memory(small.model_.trainer.banks[0].table, small.predictor_.banks[0].table)
    assert small.memory_usage() == {"training": 0.0, "prediction": parser.memory_usage()["prediction"]}
    if dtype is None:
        assert small.template_weights_ == parser.template_weights_
        pruned = small.prune(2)
        assert_array_equal(pruned.parse(treebank).heads, parser.prune(2).parse(treebank).heads)
        with pytest.raises(InputError, match="saved with training=False"):
            pruned.partial_fit(treebank)
    with pytest.raises(InputError, match="saved with training=False"):
        small.partial_fit(treebank)


def test_a_template_that_is_left_out_stays_out(reloaded):
    rng = np.random.default_rng(0)
    noise = [f"x{k}" for k in rng.integers(0, 50, 400)]
    sentences = [
        Sentence(["a", "b"], lemmas=noise[2 * i : 2 * i + 2], upos=["X", "Y"], heads=[2, 0]) for i in range(200)
    ]
    treebank = Treebank.from_sentences(sentences)
    parser = omkl.DependencyParser(["h.upos m.upos", "m.lemma"], epochs=2, memory=5, labeled=False, random_state=0)
    small = reloaded(parser.fit(treebank), training=False)
    assert small.template_weights_ == parser.template_weights_
    assert_array_equal(small.parse(treebank).heads, parser.parse(treebank).heads)


def test_regressors_and_batch_estimators(reloaded):
    X, y = load_diabetes(return_X_y=True)
    for model in (omkl.OnlineMKLRegressor(random_state=0, epochs=2), omkl.MKLRegressor(["linear", "gaussian"])):
        assert_array_equal(reloaded(model.fit(X[:60], y[:60]), training=False).predict(X), model.predict(X))


@pytest.mark.parametrize(("scale", "rounds"), [(1.0, True), (1e300, False), (1e-200, False)])
def test_support_vectors_that_single_precision_cannot_hold_are_kept_as_they_are(scale, rounds):
    small, _ = rounded({"bank0/support:x": scale * np.linspace(-1.0, 1.0, 7)}, "float32", ("/table",))
    assert (small["bank0/support:x"].dtype == np.float32) == rounds


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (omkl.OnlineMKLClassifier, {"dtype": "float16"}),
        (omkl.OnlineMKLClassifier, {"dtype": "int8", "training": False}),
        (omkl.MKLClassifier, {"dtype": "float32", "training": False}),
    ],
)
def test_precisions_that_a_file_cannot_have_are_refused(make, options, tmp_path):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="dtype must be None"):
        make("linear").fit(X, y).save(tmp_path / "m.npz", **options)
    assert not list(tmp_path.iterdir())
