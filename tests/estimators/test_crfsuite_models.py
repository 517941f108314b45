"""CRFsuite's model files as labelers: the same labels and marginals as CRFsuite's own."""

import struct
from contextlib import suppress

import numpy as np
import pytest
from numpy.testing import assert_allclose

import omkl
from omkl.data import read_crfsuite_model
from omkl.exceptions import DataFileError, DataWarning, InputError
from omkl.features import token_features

LABELS, WORDS = ["N", "D", "V"], ["the", "a", "dog", "cat", "bark's", "barks", "réel"]


def strings(values):
    """CRFsuite's table of strings, without the hashes by which it looks them up."""
    records, places = b"", []
    for number, value in enumerate(values):
        places.append(24 + len(records))
        records += struct.pack("<II", number, len(value.encode()) + 1) + value.encode() + b"\0"
    head = struct.pack(
        "<4sIIIII", b"CQDB", 24 + len(records) + 4 * len(values), 0, 0x62445371, len(values), 24 + len(records)
    )
    return head + records + struct.pack(f"<{len(places)}I", *places)


def write_model(path, labels, attributes, features):
    """A model file by hand: header, features, labels, attributes."""
    packed = b"".join(struct.pack("<IIId", *feature) for feature in features)
    parts = [
        struct.pack("<4sII", b"FEAT", 12 + len(packed), len(features)) + packed,
        strings(labels),
        strings(attributes),
    ]
    places = [48 + sum(map(len, parts[:k])) for k in range(3)]
    size = 48 + sum(map(len, parts))
    header = [b"lCRF", size, b"FOMC", 100, 0, len(labels), len(attributes), *places, size, size]
    path.write_bytes(struct.pack("<4sI4sIIIIIIIII", *header) + b"".join(parts))
    return path


@pytest.fixture
def by_hand(tmp_path):
    features = [(0, 0, 1, 2.0), (0, 1, 0, 1.5), (0, 2, 2, -0.5), (0, 2, 0, 0.25), (1, 1, 0, 0.75), (1, 0, 2, -1.0)]
    return write_model(tmp_path / "model", LABELS, ["w=the", "w=dog", "bias"], features)


def test_a_model_file_written_by_hand(by_hand, tmp_path):
    model = read_crfsuite_model(by_hand)
    assert (model.labels, model.attributes) == (LABELS, ["w=the", "w=dog", "bias"])
    assert_allclose(model.transitions, [[0, 0, -1.0], [0.75, 0, 0], [0, 0, 0]])
    labeler = omkl.SequenceLabeler.from_crfsuite(by_hand)
    assert list(labeler.classes_) == ["D", "N", "V"]
    [scores] = labeler.decision_function([[["w=the", "bias"], ["w=dog"], ["w=new", "bias", "bias"]]])
    assert_allclose(scores, [[2.0, 0.25, -0.5], [0.0, 1.5, 0.0], [0.0, 0.5, -1.0]])
    assert_allclose(labeler.transitions_, [[0, 0.75, 0], [0, 0, -1.0], [0, 0, 0]])
    assert set(labeler.kernel_weights_) == {"w", "bias"}
    labeler.save(tmp_path / "model.npz")
    assert_allclose(omkl.load(tmp_path / "model.npz").decision_function([[["w=dog"]]])[0], [[0, 1.5, 0]])
    assert len(labeler.partial_fit([[["w=new"]]], [["V"]]).predict([[["w=new"]]])[0]) == 1


def test_damaged_files_are_refused(by_hand, tmp_path):
    whole, path = by_hand.read_bytes(), tmp_path / "bad"
    for n in (0, 3, 20, 60, 150, len(whole) - 1):
        path.write_bytes(whole[:n])
        with pytest.raises(DataFileError, match="bad is"):
            read_crfsuite_model(path)
    for at in range(4, len(whole)):  # whatever a byte may be, an error of ours or a model
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with suppress(DataFileError):
            read_crfsuite_model(path)
    with pytest.raises(DataFileError, match="no file"):
        read_crfsuite_model(tmp_path / "nowhere")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """``(X, tagger, path)`` of a model that python-crfsuite has trained on these sequences."""
    pycrfsuite = pytest.importorskip("pycrfsuite")

    def train(make):
        rng = np.random.default_rng(0)
        sentences = [list(rng.choice(WORDS, rng.integers(1, 8))) for _ in range(60)]
        X = [make(words) for words in sentences]
        trainer = pycrfsuite.Trainer(verbose=False)
        for words, x in zip(sentences, X):
            trainer.append(x, [LABELS[WORDS.index(word) * 3 // len(WORDS)] for word in words])
        trainer.set_params({"max_iterations": 30})
        path = tmp_path_factory.mktemp("crfsuite") / "model"
        trainer.train(str(path))
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
        return X, tagger, path

    return train


def assert_the_same(labeler, X, tagger):
    classes = labeler.classes_.tolist()
    for x, own, marginals in zip(X, labeler.predict(X), labeler.predict_marginals(X)):
        assert own.tolist() == tagger.tag(x)
        theirs = [[tagger.marginal(label, t) for label in classes] for t in range(len(x))]
        assert_allclose(marginals, theirs, atol=1e-9)


def test_lists_of_attributes_are_read_as_crfsuite_reads_them(trained):
    X, tagger, path = trained(lambda words: [[f"w={w}", f"suffix={w[-2:]}", "bias", "x=y=z", "a:b"] for w in words])
    labeler = omkl.SequenceLabeler.from_crfsuite(path)
    assert_the_same(labeler, [*X, [["w=unseen", "bias"], ["w=the", "w=the"], []]], tagger)
    assert {"w", "suffix", "bias", "x", "a:b"} <= set(labeler.kernel_weights_)


def test_dicts_are_read_as_crfsuite_reads_them(trained):
    def features(words):
        return [
            {**f, "bias": 1.0, "word[-2:]": w[-2:], "+1:odd": w[:1] + ":", "length": len(w) / 4, "in": {"x": 1.5}}
            for w, f in zip(words, token_features(words))
        ]

    X, tagger, path = trained(features)
    labeler = omkl.SequenceLabeler.from_crfsuite(path, keys=list(X[0][0]))
    assert_the_same(labeler, X, tagger)
    assert set(labeler.kernel_weights_) <= set(X[0][0])
    with pytest.warns(DataWarning, match=r"attributes have no '='.*give their keys"):
        omkl.SequenceLabeler.from_crfsuite(path)
    with pytest.raises(InputError, match="knows no feature of these tokens"):
        labeler.predict([[["unknown=feature"]]])
