"""Model files: the same predictions after a round trip, damaged files refused, nothing executed,
small files.
"""

import io
import json
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedKFold

import omkl
from omkl._files import read_archive, write_archive
from omkl.batch import DAL
from omkl.data import Sentence, Treebank, synthetic_treebank
from omkl.exceptions import InputError, ModelFileError
from omkl.features.vocabulary import Vocabulary
from omkl.kernels import Average, Custom, Gaussian, Kernel
from omkl.online import PolynomialAverage
from omkl.persistence import Packer, Unpacker, component_of, restored, rounded
from omkl.regularizers import L21, Ridge, TreeGroups


def sequences(rng, n=12):
    X = [rng.normal(size=(rng.integers(1, 5), 4)) for _ in range(n)]
    y = [np.where(x[:, 0] > 0, "up", "down").tolist() for x in X]
    return X, y


def templates(X, y):
    rng = np.random.default_rng(5)
    return [
        [
            {"word": f"{label}é\ud83d{rng.integers(3)}", "size": float(row[1]), "v": row}
            for row, label in zip(x, labels)
        ]
        for x, labels in zip(X, y)
    ]


LABELERS = {
    "kernels": ({"kernels": ["linear", "quadratic", "gaussian", "b1:density=0.5"]}, False),
    "templates": ({"kernels": {"lin": "linear:on=v", "g": Gaussian(on="v")}}, True),
    "objects": (
        {
            "kernels": {
                "mean": Average(["linear:normalize=average", "laplacian"]),
                "two": Gaussian(on=slice(0, 2)),
            },
            "regularizer": L21() + 0.5 * Ridge(),
            "average": PolynomialAverage(3),
            "cost": np.array([[0, 2.0], [1, 0]]),
        },
        False,
    ),
    "tree and rda": (
        {
            "kernels": ["linear", "cubic"],
            "regularizer": TreeGroups([["linear", "cubic"], ["cubic"]]),
            "method": "rda",
        },
        False,
    ),
    "by position, no average": (
        {"kernels": "linear", "transitions": omkl.Transitions(by_position=True), "average": None},
        False,
    ),
    "single precision": (
        {"kernels": ["gaussian", "linear"], "budget": omkl.Budget(dtype="float32")},
        False,
    ),
    "crf": (
        {"kernels": ["linear"], "loss": "crf", "transitions": "regularized", "radius": "auto"},
        False,
    ),
}


@pytest.mark.parametrize("name", LABELERS)
def test_a_loaded_model_predicts_and_trains_bit_for_bit(name, rng, tmp_path):
    settings, strings = LABELERS[name]
    X, y = sequences(rng)
    X = templates(X, y) if strings else X
    path = tmp_path / "model.npz"
    saved = omkl.SequenceLabeler(**settings, epochs=4, random_state=0).fit(X, y)
    saved.save(path)
    loaded = omkl.load(path)
    for _ in range(2):
        for mine, theirs in zip(saved.decision_function(X), loaded.decision_function(X)):
            assert_array_equal(mine, theirs)
        assert_array_equal(saved.transitions_, loaded.transitions_)
        assert saved.kernel_weights_ == loaded.kernel_weights_
        for model in (saved, loaded):
            model.partial_fit(X, y)
    timeless = [
        [{k: v for k, v in r.items() if k != "seconds"} for r in m.history_]
        for m in (loaded, saved)
    ]
    assert timeless[0] == timeless[1]
    assert [record["epoch"] for record in loaded.history_] == [1, 2, 3, 4, 5, 6]
    assert loaded.classes_.tolist() == ["down", "up"]
    assert repr(loaded.get_params()) == repr(saved.get_params())


@pytest.mark.parametrize(
    "model",
    [
        omkl.MKLClassifier(["linear", "gaussian"], multiclass="ovr"),
        omkl.SparseLogisticRegression(0.01),
        omkl.GroupLasso(0.01, groups=[0, 0, 1, 1], group_weights="sqrt-size"),
        omkl.MKLClassifierCV(Cs=3, cv=StratifiedKFold(2), scoring=get_scorer("accuracy")),
        omkl.SparseLogisticRegressionCV(3, cv=StratifiedKFold(2)),
    ],
)
def test_batch_models_keep_their_choices_and_how_their_gap_closed(model, tmp_path, reloaded):
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saved = model.fit(X, y)
    saved.save(tmp_path / "model.npz")
    loaded = omkl.load(tmp_path / "model.npz")
    assert loaded.history_
    assert loaded.history_ == [
        {k: v for k, v in r.items() if k != "seconds"} for r in saved.history_
    ]
    assert_array_equal(loaded.predict(X), saved.predict(X))
    for name in {"C_", "alpha_", "cv_results_", "dual_gap_"} & vars(saved).keys():
        assert getattr(loaded, name) == getattr(saved, name)
    assert_array_equal(getattr(loaded, "scores_", []), getattr(saved, "scores_", []))
    loaded.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()
    assert reloaded(saved, training=False).history_ == []


@pytest.mark.parametrize("kernel", ["gaussian:features=60", "gaussian:features=60,map=nystrom"])
@pytest.mark.parametrize("estimator", [omkl.OnlineMKLClassifier, omkl.MKLClassifier])
def test_maps_that_were_learned_keep_their_memory_order(kernel, estimator, reloaded):
    X, y = load_iris(return_X_y=True)
    X = np.tile(X, 8)
    saved = estimator([kernel]).fit(X, y)
    assert_array_equal(reloaded(saved).decision_function(X), saved.decision_function(X))


@pytest.mark.parametrize(
    "view",
    [lambda a: a, lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a[:, :0], lambda a: a[0, 0]],
)
def test_an_archive_gives_back_arrays_as_they_lay(view, tmp_path):
    array = view(np.arange(12.0).reshape(3, 4))
    write_archive(tmp_path / "a.npz", {}, {"a": np.asarray(array)})
    read = read_archive(tmp_path / "a.npz")[1]["a"]
    assert_array_equal(read, array)
    assert read.flags.f_contiguous == np.asarray(array).flags.f_contiguous


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.npz"
    X, y = sequences(np.random.default_rng(0))
    omkl.SequenceLabeler(["linear", "gaussian"], epochs=2, random_state=0).fit(X, y).save(path)
    return path


def refused(model_file, content):
    damaged = model_file.with_name("damaged.npz")
    damaged.write_bytes(content)
    with pytest.raises(ModelFileError) as error:
        omkl.load(damaged)
    assert "\n" not in str(error.value)


def rewritten(model_file, change):
    """The same file with changed members: what an attacker would write."""
    with zipfile.ZipFile(model_file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


def with_manifest(**entries):
    def change(members):
        members["manifest.json"] = json.dumps(
            {**json.loads(members["manifest.json"]), **entries}
        ).encode()

    return change


def with_pickle(members):
    buffer = io.BytesIO()
    np.save(buffer, np.array([print], dtype=object), allow_pickle=True)
    members["groups/scales.npy"] = buffer.getvalue()


def without_an_array(members):
    del members["groups/scales.npy"]


def with_a_huge_claim(members):
    header = np.lib.format.magic(1, 0)
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
    members["groups/scales.npy"] = header + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "change",
    [
        with_manifest(format=99),
        with_manifest(**{"class": "System"}),
        with_manifest(labels={"evil": 1}),
        with_pickle,
        without_an_array,
        with_a_huge_claim,
    ],
    ids=lambda change: change.__name__,
)
def test_a_file_that_lies_is_refused_and_nothing_runs(model_file, change):
    refused(model_file, rewritten(model_file, change))


@pytest.mark.parametrize(
    ("format", "remedy"), [(1, "train the model again"), (99, "upgrade omkl")], ids=["old", "new"]
)
def test_files_of_another_format_say_what_to_do(model_file, tmp_path, format, remedy):
    path = tmp_path / "other.npz"
    path.write_bytes(rewritten(model_file, with_manifest(format=format)))
    with pytest.raises(ModelFileError, match=rf"other.npz has format {format}, .*: {remedy}"):
        omkl.load(path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="no model file"):
        omkl.load(tmp_path / "missing.npz")
    for content in (b"", b"hello", b"PK\x03\x04" + b"x" * 500):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(ModelFileError, match="not an omkl model file"):
            omkl.load(tmp_path / "other")
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    with pytest.raises(ModelFileError, match="not an omkl model file"):
        omkl.load(tmp_path / "arrays.npz")
    with pytest.raises(ModelFileError):
        omkl.load(tmp_path)


def minimum(X, Y):
    return np.minimum(X[:, None], Y[None]).sum(axis=2)


class Shifted(Kernel):
    aliases = {"shifted": {}}

    def __init__(self, shift=1.0):
        super().__init__()
        self.shift = shift

    def raw(self, pair):
        return pair.products + self.shift


def test_the_users_own_parts_must_be_given_again(rng, tmp_path):
    X, y = sequences(rng)
    X = [np.abs(x) for x in X]
    path = tmp_path / "model.npz"
    saved = omkl.SequenceLabeler(
        {"min": Custom(minimum), "own": Shifted(0.5)}, epochs=2, random_state=0
    ).fit(X, y)
    saved.save(path)
    with pytest.raises(ModelFileError, match=r"parts=\{'minimum'"):
        omkl.load(path)
    loaded = omkl.load(path, parts={"minimum": minimum, "Shifted": Shifted})
    assert_array_equal(
        saved.decision_function(X)[0],
        loaded.decision_function(X)[0],
    )


@pytest.mark.parametrize("component", [omkl.Budget(50), DAL(), Gaussian(), Ridge()])
def test_parts_are_found_where_they_are_public(component):
    """A new process, which has imported nothing else, finds a class by its place alone."""
    packed = Packer().pack(component, "the part")
    place, _, name = packed["part"].partition(".")
    assert component_of(place, name) is type(component)


def test_a_failed_save_leaves_the_previous_file(rng, tmp_path):
    X, y = sequences(rng)
    path = tmp_path / "model.npz"
    labeler = omkl.SequenceLabeler("linear", random_state=0).fit(X, y)
    labeler.save(path)
    before = path.read_bytes()
    frozen = omkl.SequenceLabeler("linear").fit(
        X, [[frozenset(label) for label in labels] for labels in y]
    )
    with pytest.raises(InputError, match="cannot be saved"):
        frozen.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_values_come_back_as_they_were(value):
    packer = Packer()
    packed = json.loads(json.dumps(packer.pack(value, "value")))
    assert Unpacker(packer.arrays, {}).unpack(packed) == value


@given(st.lists(st.text(st.characters(), max_size=5), max_size=8, unique=True))
@example(["", "\0", "\1", "\ud800", "\udc00"])
def test_features_of_any_strings_come_back_with_their_numbers(values):
    vocabulary = Vocabulary(3)
    vocabulary.encode([{"a": value, "b": 0.5} for value in values], grow=True)
    back = Vocabulary.from_state(vocabulary.keys, 3, vocabulary.state())
    assert back.ids == vocabulary.ids
    assert back.groups == vocabulary.groups
    assert back.units == vocabulary.units


@given(arrays_of.arrays(np.float64, 20, elements=st.floats(-1e30, 1e30, allow_subnormal=False)))
def test_rounding_is_relative_to_each_weight(weights):
    for dtype, digits, lowest in (
        ("float32", 24, 1e-38),
        ("float16", 11, np.abs(weights).max() * 2.0**-29),
    ):
        small, how = rounded({"bank0/table": weights, "other": weights}, dtype, ("/table",))
        assert small["bank0/table"].dtype == dtype or not weights.any()
        back = restored(small, how)
        is_normal = np.abs(weights) > lowest
        errors = np.abs(back["bank0/table"] - weights)
        assert (errors <= 2.0**-digits * np.abs(weights))[is_normal].all()
        assert_array_equal(back["other"], weights)


def words(rng, n=60):
    X = []
    y = []
    for _ in range(n):
        tags = rng.choice(["D", "N", "V"], rng.integers(1, 6)).tolist()
        X.append(
            [
                {
                    "w": f"{tag}{rng.integers(9)}",
                    "size": float(rng.normal()),
                    "v": rng.normal(size=2),
                }
                for tag in tags
            ]
        )
        y.append(tags)
    return X, y


Labeler = omkl.SequenceLabeler
Classifier = omkl.OnlineMKLClassifier
MODELS = {
    "strings": Labeler(),
    "strings and kernels": Labeler({"lin": "linear:on=v", "g": "gaussian:on=v"}),
    "strings and maps": Labeler({"r": "gaussian:on=v,features=20"}),
    "no average": Labeler(average=None),
    "crf, rda": Labeler(loss="crf", method="rda", transitions="regularized"),
    "perceptron": Labeler(
        loss="perceptron", regularizer=None, average="uniform", learning_rate=1.0
    ),
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
    with_training, path, again = (
        tmp_path / name for name in ("whole.npz", "small.npz", "again.npz")
    )
    model.save(with_training)
    model.save(path, training=False)
    assert path.stat().st_size < with_training.stat().st_size
    small = omkl.load(path)
    scores = model.decision_function(X_new)
    for score, expected in zip(scores, small.decision_function(X_new)):
        assert_array_equal(score, expected)
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
    for score, expected in zip(anew, model.fit(X, y).decision_function(X_new)):
        assert_array_equal(score, expected)


def test_features_without_weight_are_not_kept(rng, reloaded):
    X, y = words(rng, 200)
    for k, sequence in enumerate(X):  # the later half is easy: its new features are never updated
        for token, tag in zip(sequence, y[k]):
            token.update(tag=tag, own=f"{k}")
    labeler = omkl.SequenceLabeler(
        loss="perceptron",
        regularizer=None,
        learning_rate=1.0,
        epochs=omkl.Passes(1, shuffle=False),
        random_state=0,
    ).fit(X, y)
    small = reloaded(labeler, training=False)
    vocabulary = labeler.model_.codec.encoder.vocabulary
    n_all = len(vocabulary.groups)
    used = labeler.predictor_.banks[0].table[vocabulary.first_id :].any(axis=1).sum()
    assert len(small.model_.codec.encoder.vocabulary.groups) == used < n_all
    assert_array_equal(
        np.concatenate(small.decision_function(X)), np.concatenate(labeler.decision_function(X))
    )


@pytest.mark.parametrize("dtype", [None, "float32", "float16"])
def test_a_parser_keeps_its_trees(dtype, tmp_path):
    treebank = synthetic_treebank(160, vocabulary=10, random_state=0)
    templates = ["h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance", "h.form m.form"]
    parser = omkl.DependencyParser(templates, epochs=2, memory=10, random_state=0).fit(
        treebank[:120]
    )
    parser.save(tmp_path / "whole.npz")
    parser.save(tmp_path / "small.npz", training=False, dtype=dtype)
    small = omkl.load(tmp_path / "small.npz")
    assert 2 * (tmp_path / "small.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size
    mine = parser.parse(treebank)
    theirs = small.parse(treebank)
    agreement = np.mean((mine.heads == theirs.heads) & (mine.deprels == theirs.deprels))
    assert agreement == 1.0 if dtype is None else agreement > 0.99
    assert np.shares_memory(small.model_.trainer.banks[0].table, small.predictor_.banks[0].table)
    assert small.memory_usage() == {
        "training": 0.0,
        "prediction": parser.memory_usage()["prediction"],
    }
    if dtype is None:
        assert small.template_weights_ == parser.template_weights_
        pruned = small.prune(2)
        assert_array_equal(
            pruned.parse(treebank).heads,
            parser.prune(2).parse(treebank).heads,
        )
        with pytest.raises(InputError, match="saved with training=False"):
            pruned.partial_fit(treebank)
    with pytest.raises(InputError, match="saved with training=False"):
        small.partial_fit(treebank)


def test_a_template_that_is_left_out_stays_out(reloaded, rng):
    noise = [f"x{k}" for k in rng.integers(0, 50, 400)]
    sentences = [
        Sentence(["a", "b"], lemmas=noise[2 * i : 2 * i + 2], upos=["X", "Y"], heads=[2, 0])
        for i in range(200)
    ]
    treebank = Treebank.from_sentences(sentences)
    parser = omkl.DependencyParser(
        ["h.upos m.upos", "m.lemma"],
        epochs=2,
        memory=5,
        random_state=0,
        trees=omkl.TreeForm(labeled=False),
    )
    small = reloaded(parser.fit(treebank), training=False)
    assert small.template_weights_ == parser.template_weights_
    assert_array_equal(
        small.parse(treebank).heads,
        parser.parse(treebank).heads,
    )


def test_regressors_and_batch_estimators(reloaded):
    X, y = load_diabetes(return_X_y=True)
    for model in (
        omkl.OnlineMKLRegressor(random_state=0, epochs=2),
        omkl.MKLRegressor(["linear", "gaussian"]),
    ):
        assert_array_equal(
            reloaded(model.fit(X[:60], y[:60]), training=False).predict(X), model.predict(X)
        )


@pytest.mark.parametrize(("scale", "rounds"), [(1.0, True), (1e300, False), (1e-200, False)])
def test_support_vectors_that_single_precision_cannot_hold_are_kept_as_they_are(scale, rounds):
    small, _ = rounded(
        {"bank0/support:x": scale * np.linspace(-1.0, 1.0, 7)}, "float32", ("/table",)
    )
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
