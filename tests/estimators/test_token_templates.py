"""Templates of CRF++ as a part of a labeler: columns of tokens and of their neighbours, each template a group."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import omkl
from omkl.cli import main
from omkl.data import AttributeTemplate, read_attribute_templates, templated
from omkl.data.attribute_templates import MACRO
from omkl.exceptions import InputError

LINES = ["# words", "U00:%x[-1,0]", "U01:%x[0,0]", "U02:%x[1,0]", "U05:%x[-1,1]/%x[0,1]", "", "B"]
WORDS = {"DT": ["the", "a"], "JJ": ["old", "big"], "NN": ["dog", "cat", "man"], "VB": ["sees", "bites"]}


def chunks(n, seed):
    """Noun phrases, whose first word begins a chunk."""
    rng = random.Random(seed)
    X, y = [], []
    for _ in range(n):
        phrases = [["DT", *["JJ"] * rng.randint(0, 2), "NN"] for _ in range(2)]
        tags = [*phrases[0], "VB", *phrases[1]]
        X.append([{"c0": rng.choice(WORDS[tag]), "c1": tag} for tag in tags])
        y.append(["B" if tag == "DT" else "O" if tag == "VB" else "I" for tag in tags])
    return X, y


def untrained(**settings):
    return omkl.SequenceLabeler(**{"templates": LINES, "epochs": 3, "random_state": 0, **settings})


CELLS = st.lists(st.tuples(st.sampled_from(["a", "%x[0,0]", "\\1"]), st.text("de")), min_size=1, max_size=6)
TEXT = st.lists(st.one_of(st.text("ab%/"), st.builds("%x[{},{}]".format, st.integers(-8, 8), st.integers(0, 1))))


@given(CELLS, TEXT.map("".join))
def test_a_template_says_what_stands_at_its_macros(rows, text):
    def cell(found, place):
        place += int(found[1])
        outside = f"_B{place}" if place < 0 else f"_B+{place - len(rows) + 1}"
        return rows[place][int(found[2])] if 0 <= place < len(rows) else outside

    expected = [MACRO.sub(lambda found, i=i: cell(found, i), text) for i in range(len(rows))]
    assert AttributeTemplate("U", text).values(rows) == expected


@pytest.mark.parametrize("repeated", [False, True], ids=["names of their own", "one name twice"])
def test_it_learns_what_it_would_from_the_attributes(repeated, tmp_path):
    lines = [*LINES, "U01:%x[0,1]"] if repeated else LINES
    (tmp_path / "template").write_text("\n".join(lines))
    X, y = chunks(40, 0)
    made = [templated(read_attribute_templates(tmp_path / "template"), [list(t.values()) for t in x]) for x in X]
    expected = untrained(templates=None).fit(made, y)
    for given_as in (X, [[list(token.values()) for token in x] for x in X]):
        model = untrained(templates=lines).fit(given_as, y)
        assert model.kernel_weights_ == expected.kernel_weights_
        assert [f["weight"] for f in model.top_features(9)] == [f["weight"] for f in expected.top_features(9)]
    test = chunks(20, 1)[0]
    assert all(
        map(np.array_equal, model.predict(test), untrained(templates=tmp_path / "template").fit(X, y).predict(test))
    )
    more = untrained(templates=lines).partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    assert set(more.kernel_weights_) == set(expected.kernel_weights_)


@pytest.mark.parametrize("training", [True, False])
def test_a_model_file_needs_no_template_file(training, tmp_path):
    (tmp_path / "template").write_text("\n".join(LINES))
    X, y = chunks(40, 0)
    model = untrained(templates=str(tmp_path / "template")).fit(X, y)
    (tmp_path / "template").unlink()
    model.save(tmp_path / "model.npz", training=training)
    loaded = omkl.load(tmp_path / "model.npz")
    assert all(map(np.array_equal, loaded.predict(X), model.predict(X)))
    loaded.save(tmp_path / "again.npz", training=training)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()
    assert clone(loaded).fit(X, y).kernel_weights_ == model.kernel_weights_


def test_words_are_tokens_of_one_column():
    X, y = chunks(40, 0)
    words = [[token["c0"] for token in x] for x in X]
    model = untrained(templates=LINES[:4]).fit(words, y)
    assert list(model.kernel_weights_) == ["U00", "U01", "U02"]
    assert model.score(words, y) > 0.9


@pytest.mark.parametrize(
    ("settings", "token", "message"),
    [
        ({}, {"c0": "a"}, "'U05' looks at column 1, and tokens have columns 0 to 0"),
        ({}, {"c0": "a", "c1": 2.0}, "columns of text, but a token has 2.0 in one"),
        ({}, None, "give tokens that are words"),
        ({"kernels": ["linear"]}, {"c0": "a", "c1": "b"}, "which kernels do not see"),
        ({"templates": ["X:%x[0,0]"]}, {"c0": "a"}, "templates, line 1: 'X:%x"),
        ({"templates": []}, {"c0": "a"}, "templates holds no template"),
        ({"templates": "nosuch"}, {"c0": "a"}, "nosuch"),
    ],
    ids=["too few columns", "a number", "arrays", "kernels", "no template", "none", "no file"],
)
def test_what_templates_cannot_look_at_is_said_in_a_sentence(settings, token, message):
    x = np.zeros((2, 2)) if token is None else [token, token]
    with pytest.raises(InputError, match=message):
        untrained(**settings).fit([x], [["A", "B"]])


def test_columns_of_dicts_are_in_one_order(tmp_path):
    """Templates look at places, and took one column for another."""
    X, y = chunks(40, 0)
    turned = [[{"c1": token["c1"], "c0": token["c0"]} for token in x] for x in X]
    message = r"columns \['c1', 'c0'\], and others \['c0', 'c1'\]: templates look at them by their places"
    with pytest.raises(InputError, match=message):
        untrained().fit([*X, *turned], [*y, *y])
    model = untrained().fit(X, y)
    model.save(tmp_path / "model.npz")
    for own in (model, omkl.load(tmp_path / "model.npz")):
        with pytest.raises(InputError, match=message):
            own.predict(turned)
        with pytest.raises(InputError, match="templates look at them by their places"):
            own.predict([[{"c1": "a"}]])
        for others in ("word", "tag"), ("c0", "c1", "more"):  # of other names, and more of them
            renamed = [[dict(zip(others, [*token.values(), "x"])) for token in x] for x in X]
            assert own.score(renamed, y) == model.score(X, y)
    assert untrained().fit(turned, y).templates == model.templates  # any order, if it is one


@pytest.fixture
def files(tmp_path):
    for name, n in (("train", 60), ("dev", 20)):
        X, y = chunks(n, n)
        rows = [[f"{t['c0']} {t['c1']}" for t in x] for x in X]
        with (tmp_path / f"{name}.columns").open("w") as file, (tmp_path / f"{name}.txt").open("w") as bare:
            for row, labels in zip(rows, y):
                file.write("".join(f"{cells}\t{label}\n" for cells, label in zip(row, labels)) + "\n")
                bare.write("\n".join(row) + "\n\n")
    (tmp_path / "template").write_text("\n".join(LINES))
    return tmp_path


def run(files, *words):
    return main([str(files / word) if (files / word).exists() else word for word in words])


@pytest.mark.parametrize("template", [["--template", "template"], []], ids=["templates", "columns"])
def test_columns_are_labelled_with_and_without_labels_in_them(template, files, capsys):
    model = str(files / "m.npz")
    train = ["train", "labeler", "train.columns", "-o", model, *template, "--dev", "dev.columns", "--epochs", "3"]
    assert run(files, *train) == 0
    assert "Token accuracy on" in capsys.readouterr().out
    assert (omkl.load(model).templates is not None) == bool(template)
    assert run(files, "predict", model, "dev.columns") == 0
    labelled = capsys.readouterr().out
    assert labelled.split("\n\n")[0].split() == omkl.load(model).predict([chunks(20, 20)[0][0]])[0].tolist()
    assert run(files, "predict", model, "dev.txt", "--format", "columns") == 0
    assert capsys.readouterr().out == labelled
    assert run(files, "evaluate", model, "dev.txt", "--format", "columns") == 2
    assert "holds no labels" in capsys.readouterr().err
    (files / "words.txt").write_text("the\ndog\n")
    assert run(files, "predict", model, "words.txt", "--format", "columns") == 2
    assert "has 1 columns, and the model looks at 2 of each token" in capsys.readouterr().err


def test_a_stream_of_columns_has_templates_too(files, capsys):
    train = ["train", "labeler", "train.columns", "-o", str(files / "m.npz"), "--template", "template", "--stream"]
    assert run(files, *train, "--epochs", "3", "--quiet") == 0
    assert run(files, "evaluate", str(files / "m.npz"), "dev.columns") == 0
    assert "Token accuracy 100.00%" in capsys.readouterr().out
