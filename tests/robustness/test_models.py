"""Forged model files run nothing and raise only ModelFileError; refused calls do not change the
model.
"""

import copy
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import omkl
from omkl._files import read_archive, write_archive
from omkl.data import synthetic_treebank
from omkl.exceptions import ModelFileError
from omkl.persistence import SUBPACKAGES, component_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = RNG.integers(0, 3, 30)
WORDS = [[{"word": word, "n": 1.0} for word in "abc"]] * 4

MODELS = {
    "kernels": (
        lambda: omkl.OnlineMKLClassifier(["gaussian", "quadratic"], epochs=2, random_state=0).fit(
            X, Y
        )
    ),
    "budget": (
        lambda: omkl.OnlineMKLClassifier(
            ["gaussian", "quadratic"], budget=5, epochs=2, random_state=0
        ).fit(X, Y)
    ),
    "words": (
        lambda: omkl.SequenceLabeler(epochs=2, random_state=0).fit(WORDS, [["D", "N", "V"]] * 4)
    ),
    "matrices": lambda: omkl.MKLClassifier(["linear", "gaussian"]).fit(X, X[:, 0] > 0),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """``(manifest, arrays)`` of each model, as they are in its file."""
    contents = {}
    for name, make in MODELS.items():
        path = tmp_path_factory.mktemp("models") / f"{name}.npz"
        make().save(path)
        manifest, arrays = read_archive(path)
        contents[name] = manifest, arrays
    return contents


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tmp_path_factory.mktemp("changed") / "model.npz"


def load(target, manifest, arrays):
    write_archive(target, manifest, arrays)
    return omkl.load(target)


def test_files_may_name_components_only(saved, target, tmp_path):
    manifest, arrays = saved["kernels"]
    folder = tmp_path / "made"
    named = {
        "online.Checkpoints": {"directory": str(folder)},
        "online.condensed_state": {},
        "kernels.Pair": {"X": 1, "Y": 1},
        "online.ProgressBar": {},
        "groups.KernelBank": {},
        "structures.Chain": {},
        "data.read_treebank": {"path": "x"},
        "os.system": {"command": "true"},
        "online.__doc__": {},
        "kernels.nothing": {},
    }
    for part, parameters in named.items():
        changed = {
            **manifest,
            "parameters": {
                **manifest["parameters"],
                "learning_rate": {"part": part, "parameters": parameters},
            },
        }
        with pytest.raises(ModelFileError):
            load(target, changed, arrays)
    assert not folder.exists()
    learned = {"part": "kernels.Linear", "parameters": {}, "learned": {"raw": 3}}
    with pytest.raises(ModelFileError, match="learns"):
        load(
            target,
            {**manifest, "parameters": {**manifest["parameters"], "learning_rate": learned}},
            arrays,
        )
    attributes = {**manifest["attributes"], "predict": 3}
    with pytest.raises(ModelFileError, match="the attribute 'predict'"):
        load(target, {**manifest, "attributes": attributes}, arrays)


def test_named_components_have_no_side_effects():
    from importlib import import_module

    for subpackage in SUBPACKAGES:
        module = import_module("omkl" if subpackage == "omkl" else f"omkl.{subpackage}")
        for name in module.__all__:
            component = component_of(subpackage, name)
            assert component is None or hasattr(component, "parameters")
    assert component_of("online", "Checkpoints") is None


#: Wrong values for a manifest.
VALUES = (
    None, -1, 0, 2**70, 1e300, "x", "", [], {}, [[[]]], True, {"float": "nan"}, {"float": "x"},
    {"array": "nope"}, {"user": "print"}, {"list": [1]}, {"slice": [0]}, {"items": [[[], 1]]},
    {"part": "losses.Hinge"}, {"part": "online.Checkpoints", "parameters": {"directory": "made"}},
)  # fmt: skip


def leaves(value, path=()):
    """Yield the paths of all values inside of a manifest's value."""
    yield path
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    else:
        keys = ()
    for key in keys:
        yield from leaves(value[key], (*path, key))


@pytest.mark.parametrize("name", MODELS)
@given(data=st.data())
def test_only_model_file_errors_leave_load(name, saved, target, data):
    manifest = copy.deepcopy(saved[name][0])
    arrays = dict(saved[name][1])
    if data.draw(st.booleans()):
        paths = [path for path in leaves(manifest) if path and path[0] != "format"]
        *rest, last = data.draw(st.sampled_from(paths))
        place = manifest
        for key in rest:
            place = place[key]
        place[last] = data.draw(st.sampled_from(VALUES))
    else:
        key = data.draw(st.sampled_from(sorted(arrays)))
        array = arrays[key]
        others = [
            array.ravel()[1:],
            np.stack([array, array]),
            array.astype(str) == "1",
            array.astype("S3"),
            np.zeros(array.shape, "M8[s]"),
        ]
        if array.ndim:
            others.append(array[:0])
        arrays[key] = data.draw(st.sampled_from(others))
    said = ""
    try:
        load(target, manifest, arrays)
    except ModelFileError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 1000


def test_numbers_that_are_not_finite_are_neither_saved_nor_loaded(saved, target):
    manifest, arrays = saved["kernels"]
    for value in (np.nan, np.inf):
        changed = {**arrays, "groups/scales": np.full_like(arrays["groups/scales"], value)}
        with pytest.raises(ModelFileError, match="non-finite"):
            load(target, manifest, changed)
        model = load(target, manifest, arrays)
        model.model_.trainer.group_state.scales[:] = value
        before = target.read_bytes()
        with pytest.raises(ModelFileError, match="non-finite"):
            model.save(target)
        assert target.read_bytes() == before


def test_indices_out_of_range_are_refused(saved, target):
    manifest, arrays = saved["budget"]
    for name, values in arrays.items():
        if values.dtype.kind != "i" or not values.size or "counts" in name or "ages" in name:
            continue
        for index in (-1, len(values), 2**31 - 1):
            changed = values.copy()
            changed[-1] = index
            with pytest.raises(ModelFileError):
                load(target, manifest, {**arrays, name: changed})


def content_of(target, content):
    """Load an archive of this content; return None if it is refused."""
    target.write_bytes(content)
    try:
        manifest, arrays = read_archive(target)
    except ModelFileError:
        return None
    return manifest, {name: array.tobytes() for name, array in arrays.items()}


def flips_and_cuts(content, step):
    for i in range(0, len(content), step):
        flipped = bytearray(content)
        flipped[i] ^= 1 << (i % 8)
        yield bytes(flipped)
        yield content[:i]


def small_parser(path):
    treebank = synthetic_treebank(12, vocabulary=8, random_state=0)
    parser = omkl.DependencyParser("small", epochs=2, memory=1, random_state=0).fit(treebank)
    parser.save(path, training=False)


def small_checkpoint(path):
    model = omkl.OnlineMKLClassifier("linear", epochs=2, random_state=0)
    model.fit(X, Y, checkpoint=path.parent / "run", checkpoint_every="20 rounds")
    max((path.parent / "run").iterdir()).rename(path)


ATTACKED = {
    "model": lambda path: MODELS["kernels"]().save(path),
    "parser": small_parser,
    "checkpoint": small_checkpoint,
}


@pytest.mark.parametrize("name", ATTACKED)
def test_flipped_and_cut_files_are_refused_or_harmless(name, tmp_path):
    ATTACKED[name](tmp_path / "original")
    original = (tmp_path / "original").read_bytes()
    target = tmp_path / "changed"
    expected = content_of(target, original)
    assert expected is not None
    contents = [content_of(target, changed) for changed in flips_and_cuts(original, 997)]
    assert all(content in (None, expected) for content in contents)
    assert contents.count(None) > 0.8 * len(contents)


DRAWS = np.random.default_rng(0)
ROWS_OF_3 = DRAWS.normal(size=(30, 3))
SIGNS = (ROWS_OF_3[:, 0] > 0).astype(int)
ROWS = [{"a": "xyz"[i % 3], "b": float(x[1])} for i, x in enumerate(ROWS_OF_3)]
SENTENCES = [[{"word": word, "n": 1.0} for word in "abc"[i % 2 :]] for i in range(12)]
TAGS = [["D", "N", "V"][3 - len(words) :] for words in SENTENCES]
VECTORS = [DRAWS.normal(size=(len(words), 2)) for words in SENTENCES]
TREES = synthetic_treebank(12, vocabulary=8, random_state=0)

Classifier = omkl.OnlineMKLClassifier
Labeler = omkl.SequenceLabeler
NYSTROM = "gaussian:features=9,map=nystrom,normalize=diagonal"
KINDS = {
    "kernels": (Classifier(["linear", "gaussian"], epochs=2, random_state=0), ROWS_OF_3, SIGNS),
    "projection": (
        Classifier(["gaussian", "quadratic"], budget=5, epochs=2, random_state=0),
        ROWS_OF_3,
        SIGNS,
    ),
    "features": (
        Classifier(["gaussian:features=20", NYSTROM, "linear"], epochs=2, random_state=0),
        ROWS_OF_3,
        SIGNS,
    ),
    "weighted": (
        Classifier(["linear", "gaussian"], weighting="out-of-sample", epochs=2, random_state=0),
        ROWS_OF_3,
        SIGNS,
    ),
    "sparse": (Classifier(epochs=2, random_state=0), sparse.csr_matrix(ROWS_OF_3), SIGNS),
    "dicts": (Classifier(epochs=2, random_state=0), ROWS, SIGNS),
    "regressor": (
        omkl.OnlineMKLRegressor(["linear", "gaussian"], epochs=2, random_state=0),
        ROWS_OF_3,
        ROWS_OF_3[:, 0],
    ),
    "huber": (
        omkl.OnlineMKLRegressor(loss="huber:delta=0.3", epochs=2, random_state=0),
        ROWS_OF_3,
        ROWS_OF_3[:, 0],
    ),
    "epsilon": (
        omkl.OnlineMKLRegressor(loss="epsilon-insensitive:epsilon=0.1", epochs=2, random_state=0),
        ROWS_OF_3,
        ROWS_OF_3[:, 0],
    ),
    "words": (Labeler(epochs=2, random_state=0), SENTENCES, TAGS),
    "trigrams": (
        Labeler(
            ["linear", "gaussian"], epochs=2, random_state=0, transitions=omkl.Transitions(order=2)
        ),
        VECTORS,
        TAGS,
    ),
    "parser": (omkl.DependencyParser("small", memory=1, epochs=1, random_state=0), TREES, None),
}


def with_infinity(X):
    """Return a copy of a dense or sparse matrix whose last number is infinite."""
    if sparse.issparse(X):
        return sparse.csr_matrix(with_infinity(X.toarray()))
    changed = np.array(X)
    changed[-1, -1] = np.inf
    return changed


def refusals(X, y):
    """Yield calls with bad input, which is checked before learning."""
    if y is None:
        return
    yield lambda model: model.partial_fit(X, y[:-1])
    yield lambda model: model.partial_fit(X, y, sample_weight=[-1.0] * len(y))
    if not isinstance(X, list):
        yield lambda model: model.partial_fit(with_infinity(X), y)
        yield lambda model: model.fit(with_infinity(X), y)
        if y.dtype.kind == "i":
            yield lambda model: model.partial_fit(X, y, classes=[5, 6])
            yield lambda model: model.partial_fit(X, y + 5)


@pytest.fixture(scope="module", params=KINDS)
def case(request, tmp_path_factory):
    model, X, y = KINDS[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return model, X, y, tmp_path_factory.mktemp("states") / "model.npz"


def state(model, path):
    """All arrays of the model, and the learned attributes of the estimator."""
    model.save(path)
    shown = {
        name: repr(value)
        for name, value in vars(model).items()
        if name.endswith("_") and name != "model_"
    }
    return {name: array.tobytes() for name, array in read_archive(path)[1].items()}, shown


def listed(predicted):
    return [np.asarray(prediction).tolist() for prediction in predicted]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_refused_calls_change_nothing(case):
    model, X, y, path = case
    before = state(model, path)
    for call in refusals(X, y):
        with pytest.raises(ValueError, match=r"."):
            call(model)
        assert state(model, path) == before
    # and training continues unchanged, in a model that was saved and loaded as well
    loaded = omkl.load(path)
    for _ in range(2):
        assert listed(loaded.predict(X)) == listed(model.predict(X))
        for learner in (model, loaded):
            learner.partial_fit(X, y)
    assert 0 < model.memory_usage()["prediction"] <= model.memory_usage()["training"]
    model.save(path)
    saved = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == saved


def test_loaded_models_go_on_after_groups_were_left_out(reloaded):
    """Their weight is zero, though their last step was not."""
    model = omkl.DependencyParser("small", memory=1, epochs=1, random_state=0).fit(TREES)
    assert model.left_out_
    assert (
        reloaded(model).partial_fit(TREES).template_weights_
        == model.partial_fit(TREES).template_weights_
    )
