"""Model files that only predict: the same predictions from a fraction of the bytes, and no further training."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.testing import assert_array_equal
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


LABELERS = {
    "strings": {"kernels": None},
    "strings and kernels": {"kernels": {"lin": "linear:on=v", "g": "gaussian:on=v"}},
    "maps": {"kernels": {"r": "gaussian:on=v,features=20"}},
    "no average": {"average": None},
    "crf, rda": {"loss": "crf", "method": "rda", "transitions": "regularized"},
    "perceptron": {"loss": "perceptron", "regularizer": None, "eta0": 1.0, "average": "uniform"},
}


@pytest.mark.parametrize("name", LABELERS)
@pytest.mark.parametrize("online", [False, True], ids=["fit", "partial_fit"])
def test_a_labeler_predicts_bit_for_bit_and_learns_no_more(name, online, rng, tmp_path):
    X, y = words(rng)
    labeler = omkl.SequenceLabeler(**{"epochs": 3, "random_state": 0, **LABELERS[name]})
    labeler = labeler.partial_fit(X, y) if online else labeler.fit(X, y)
    labeler.save(tmp_path / "whole.npz")
    labeler.save(tmp_path / "small.npz", training=False)
    small = omkl.load(tmp_path / "small.npz")
    X_new = words(rng)[0]
    for mine, theirs in zip(labeler.decision_function(X_new), small.decision_function(X_new)):
        assert_array_equal(mine, theirs)
    assert_array_equal(labeler.transitions_, small.transitions_)
    assert small.kernel_weights_ == pytest.approx(labeler.kernel_weights_)
    assert small.top_features(5) == labeler.top_features(5)
    assert small.history_ == []
    with pytest.raises(InputError, match="saved with training=False"):
        small.partial_fit(X, y)
    small.save(tmp_path / "again.npz", training=False)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "small.npz").read_bytes()
    small.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "small.npz").read_bytes()
    if not online:
        anew = small.set_params(random_state=0).fit(X, y)
        assert_array_equal(anew.decision_function(X_new)[0], labeler.decision_function(X_new)[0])


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


def test_a_template_that_is_left_out_stays_out(tmp_path):
    rng = np.random.default_rng(0)
    noise = [f"x{k}" for k in rng.integers(0, 50, 400)]
    sentences = [
        Sentence(["a", "b"], lemmas=noise[2 * i : 2 * i + 2], upos=["X", "Y"], heads=[2, 0]) for i in range(200)
    ]
    treebank = Treebank.from_sentences(sentences)
    parser = omkl.DependencyParser(["h.upos m.upos", "m.lemma"], epochs=2, memory=5, labeled=False, random_state=0)
    parser.fit(treebank).save(tmp_path / "small.npz", training=False)
    small = omkl.load(tmp_path / "small.npz")
    assert small.template_weights_ == parser.template_weights_
    assert_array_equal(small.parse(treebank).heads, parser.parse(treebank).heads)


def test_regressors_and_batch_estimators(tmp_path):
    path = tmp_path / "small.npz"
    X, y = load_diabetes(return_X_y=True)
    for model in (omkl.OnlineMKLRegressor(random_state=0, epochs=2), omkl.MKLRegressor(["linear", "gaussian"])):
        model.fit(X[:60], y[:60]).save(path, training=False)
        assert_array_equal(omkl.load(path).predict(X), model.predict(X))


ROWS = {
    "projection": {"kernels": ["gaussian", "laplacian"], "budget": 10},
    "larger budget than support": {"kernels": ["gaussian"], "budget": 500, "regularizer": "l2"},
    "budget, last model": {"kernels": ["gaussian"], "budget": 10, "average": None},
    "support": {"kernels": ["gaussian", "cubic"]},
    "maps": {"kernels": ["gaussian:features=20"]},
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("online", [False, True], ids=["fit", "partial_fit"])
def test_classifiers_of_rows_predict_bit_for_bit_and_learn_no_more(name, online, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = omkl.OnlineMKLClassifier(**{"epochs": 2, "random_state": 0, **ROWS[name]})
    model = model.partial_fit(X, y) if online else model.fit(X, y)
    model.save(tmp_path / "whole.npz")
    model.save(tmp_path / "small.npz", training=False)
    assert (tmp_path / "small.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size
    small = omkl.load(tmp_path / "small.npz")
    assert_array_equal(small.decision_function(X), model.decision_function(X))
    assert small.kernel_weights_ == pytest.approx(model.kernel_weights_)
    with pytest.raises(InputError, match="saved with training=False"):
        small.partial_fit(X, y)
    small.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "small.npz").read_bytes()
    model.save(tmp_path / "single.npz", training=False, dtype="float32")
    scores, single = model.decision_function(X), omkl.load(tmp_path / "single.npz").decision_function(X)
    assert np.abs(single - scores).max() < 1e-5 * np.abs(scores).max()
    assert_array_equal(
        omkl.load(tmp_path / "small.npz").set_params(random_state=0).fit(X, y).predict(X), model.fit(X, y).predict(X)
    )


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
