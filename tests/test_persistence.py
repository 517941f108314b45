"""Model files: bit-identical predictions after a round trip, damaged files refused, nothing executed."""

import io
import json
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedKFold

import omkl
from omkl._files import read_archive, write_archive
from omkl.exceptions import InputError, ModelFileError
from omkl.features.vocabulary import Vocabulary
from omkl.kernels import Average, Custom, Gaussian, Kernel
from omkl.online import PolynomialAverage
from omkl.persistence import Packer, Unpacker
from omkl.regularizers import L21, Ridge, TreeGroups


def sequences(rng, n=12):
    X = [rng.normal(size=(rng.integers(1, 5), 4)) for _ in range(n)]
    return X, [["up" if row[0] > 0 else "down" for row in x] for x in X]


def templates(X, y):
    rng = np.random.default_rng(5)
    return [
        [{"word": f"{label}é\ud83d{rng.integers(3)}", "size": float(row[1]), "v": row} for row, label in zip(x, labels)]
        for x, labels in zip(X, y)
    ]


LABELERS = {
    "kernels": ({"kernels": ["linear", "quadratic", "gaussian", "b1:density=0.5"]}, False),
    "templates": ({"kernels": {"lin": "linear:on=v", "g": Gaussian(on="v")}}, True),
    "objects": (
        {
            "kernels": {"mean": Average(["linear:normalize=average", "laplacian"]), "two": Gaussian(on=slice(0, 2))},
            "regularizer": L21() + 0.5 * Ridge(),
            "average": PolynomialAverage(3),
            "cost": np.array([[0, 2.0], [1, 0]]),
        },
        False,
    ),
    "tree and rda": (
        {"kernels": ["linear", "cubic"], "regularizer": TreeGroups([["linear", "cubic"], ["cubic"]]), "method": "rda"},
        False,
    ),
    "by position, no average": ({"kernels": "linear", "transitions_by_position": True, "average": None}, False),
    "single precision": ({"kernels": ["gaussian", "linear"], "dtype": "float32"}, False),
    "crf": ({"kernels": ["linear"], "loss": "crf", "transitions": "regularized", "radius": "auto"}, False),
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
    timeless = [[{k: v for k, v in r.items() if k != "seconds"} for r in m.history_] for m in (loaded, saved)]
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
    assert loaded.history_ == [{k: v for k, v in r.items() if k != "seconds"} for r in saved.history_]
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
    "view", [lambda a: a, lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a[:, :0], lambda a: a[0, 0]]
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
        members["manifest.json"] = json.dumps({**json.loads(members["manifest.json"]), **entries}).encode()

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


@pytest.mark.parametrize(("format", "remedy"), [(1, "train the model again"), (99, "upgrade omkl")], ids=["old", "new"])
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
    saved = omkl.SequenceLabeler({"min": Custom(minimum), "own": Shifted(0.5)}, epochs=2, random_state=0).fit(X, y)
    saved.save(path)
    with pytest.raises(ModelFileError, match=r"parts=\{'minimum'"):
        omkl.load(path)
    loaded = omkl.load(path, parts={"minimum": minimum, "Shifted": Shifted})
    assert_array_equal(saved.decision_function(X)[0], loaded.decision_function(X)[0])


def test_a_failed_save_leaves_the_previous_file(rng, tmp_path):
    X, y = sequences(rng)
    path = tmp_path / "model.npz"
    labeler = omkl.SequenceLabeler("linear", random_state=0).fit(X, y)
    labeler.save(path)
    before = path.read_bytes()
    frozen = omkl.SequenceLabeler("linear").fit(X, [[frozenset(label) for label in labels] for labels in y])
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
