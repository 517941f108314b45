"""Fields of one's own in templates: attributes of FEATS and MISC, and lexicons in model files."""

import numpy as np
import pytest

import omkl
from omkl.cli import main
from omkl.data import Sentence, Treebank, write_treebank
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import column_of, reader_of, values_of
from omkl.features.lexicons import Lexicon, pack_lexicons, unpack_lexicons
from omkl.groups import TemplateSet

from ..commands import read_json, run

ANIMALS = {"dog": "0110", "cat": "0110", "cow": "0111", "runs": "10", "sleeps": "10", "Rex": "0001"}


def told_by(column):
    """Draw sentences of random words whose heads follow from a column."""
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(150):
        n = int(rng.integers(3, 8))
        head = int(rng.integers(1, n + 1))
        heads = [head] * n
        heads[head - 1] = 0
        entries = ["Id=2|Rank=low"] * n
        entries[head - 1] = "Id=1|Rank=top"
        forms = [f"w{rng.integers(500)}" for _ in range(n)]
        sentences.append(
            Sentence(forms=forms, heads=heads, deprels=["dep"] * n, **{column: entries})
        )
    return sentences


def parser(templates, **settings):
    return omkl.DependencyParser(
        templates, **{"epochs": 3, "memory": 20, "random_state": 0, **settings}
    )


@pytest.mark.parametrize(
    ("column", "template"),
    [
        ("misc", "h.misc:Rank m.misc:Rank"),
        ("feats", "h.Rank m.feats:Rank"),
        ("misc", "h.misc m.misc"),
    ],
)
def test_attributes_of_columns_tell_heads(column, template, tmp_path):
    sentences = told_by(column)
    model = parser(["m.form", template], trees=omkl.TreeForm(labeled=False)).fit(sentences[:100])
    assert model.score(sentences[100:]) == 1.0
    assert model.ranking()[0] == template
    path = tmp_path / "t.conllu"
    write_treebank(path, Treebank.from_sentences(sentences))
    assert model.score(path) == 1.0
    assert "Rank=top" in model.top_features(1, template)[0]["feature"]
    nothing = [Sentence(forms=s.forms, heads=s.heads) for s in sentences]
    with pytest.warns(DataWarning, match=f"The input has no {column.upper()}"):
        model.parse(nothing)


def test_fields_are_read_from_their_columns():
    columns = {"misc:Gloss": "misc", "misc": "misc", "feats:case": "feats", "Number[psor]": "feats"}
    columns |= {"cluster:4": "forms", "lower": "forms", "lemma": "lemmas"}
    assert {field: column_of(field) for field in columns} == columns
    assert reader_of("Number[psor]")("Number=Sing|Number[psor]=Plur") == "Plur"
    assert reader_of("misc:Note")("SpaceAfter=No|Note") == "Note"
    assert reader_of("feats:case")("Case=Nom") == "_"
    lexicons = {"cluster": Lexicon.of(ANIMALS, "cluster")}
    values = values_of("cluster", ["dog", "Dog", "rex", "_", "tree"], lexicons)
    assert values == ["0110", "0110", "_", "_", "_"]
    assert values_of("cluster:3", ["cow", "Rex", "tree"], lexicons) == ["011", "000", "_"]


def test_a_lexicon_of_a_file_is_that_of_a_dict(tmp_path):
    path = tmp_path / "animals.tsv"
    write_lexicon(path, ANIMALS)
    words = [*ANIMALS, "COW", "none", "_"]
    from_file = Lexicon.of(path, "a")
    from_dict = Lexicon.of(ANIMALS, "a")
    again = unpack_lexicons(["a"], pack_lexicons({"a": from_file}))["a"]
    expected = [ANIMALS.get(word, ANIMALS.get(word.lower(), "_")) for word in words]
    for lexicon in (from_file, from_dict, again):
        assert lexicon.values_of(words) == expected


def write_lexicon(path, lexicon):
    """Write a line for each word, and an empty one."""
    lines = [f"{word}\t{value}\n" for word, value in lexicon.items()]
    path.write_text("".join(lines) + "\n", encoding="utf-8")


def clustered(rng, n_sentences):
    """Draw sentences of unique words of two clusters; words of one have heads in the other."""
    sentences = []
    clusters = {}
    for _ in range(n_sentences):
        n = int(rng.integers(3, 8))
        head = int(rng.integers(n))
        forms = [f"w{rng.integers(10**9)}" for _ in range(n)]
        clusters |= dict.fromkeys(forms, "0")
        clusters[forms[head]] = "1"
        heads = [head + 1] * n
        heads[head] = 0
        sentences.append(Sentence(forms=forms, upos=["X"] * n, heads=heads, deprels=["dep"] * n))
    return sentences, clusters


def test_a_lexicon_tells_what_words_do_not_and_goes_with_the_model(tmp_path):
    sentences, clusters = clustered(np.random.default_rng(0), 150)
    templates = ["m.form", "h.cluster m.cluster"]
    model = parser(templates, lexicons={"cluster": clusters}).fit(sentences[:100])
    assert parser(["m.form"]).fit(sentences[:100]).score(sentences[100:]) < 0.6
    assert model.score(sentences[100:]) == 1.0
    assert "h.cluster=1" in model.top_features(1, "h.cluster m.cluster")[0]["feature"]
    model.save(tmp_path / "m.npz")
    loaded = omkl.load(tmp_path / "m.npz")
    for candidate in (loaded, loaded.prune(1), omkl.load(tmp_path / "m.npz").fit(sentences[:100])):
        assert candidate.score(sentences[100:]) == 1.0
    loaded.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "m.npz").read_bytes()
    assert set(loaded.lexicons) == {"cluster"}
    words_only = model.set_params(C=100.0).prune(2).templates_.keep(["m.form"])
    assert words_only.looked_up == set()


def test_relations_are_told_by_lexicons_too(reloaded):
    sentences, clusters = clustered(np.random.default_rng(4), 150)
    for sentence in sentences:
        for k, form in enumerate(sentence.forms):
            # the first letter of a cluster says what the word is to its head
            kind = "ab"[k % 2]
            clusters[form] = kind + clusters[form]
            sentence.deprels[k] = kind
            if sentence.heads[k] == 0:
                sentence.deprels[k] = "root"
    model = parser(["h.cluster m.cluster"], lexicons={"cluster": clusters}).fit(sentences[:100])
    for candidate in (model, reloaded(model)):
        assert candidate.evaluate(sentences[100:])["las"] > 0.95
    without_kinds = {"cluster": dict.fromkeys(clusters, "1")}
    blind = parser(["h.cluster m.cluster"], lexicons=without_kinds).fit(sentences[:100])
    assert blind.evaluate(sentences[100:])["las"] < 0.6


def test_templates_of_parts_look_at_lexicons(reloaded):
    sentences, clusters = clustered(np.random.default_rng(3), 80)
    model = parser(["m.form distance", "g.cluster m.cluster"], lexicons={"cluster": clusters})
    model.fit(sentences)
    loaded = reloaded(model)
    assert set(loaded.lexicons) == {"cluster"}
    assert [s.heads for s in loaded.parse(sentences)] == [s.heads for s in model.parse(sentences)]


def test_auto_has_templates_for_each_lexicon():
    sentences, clusters = clustered(np.random.default_rng(1), 120)
    model = parser("auto", lexicons={"cluster": clusters}, epochs=2).fit(sentences[:100])
    assert len(model.templates_.filter("*cluster*")) > 8
    assert model.score(sentences[100:]) > 0.95


def test_a_lexicon_from_the_command_line(tmp_path):
    sentences, clusters = clustered(np.random.default_rng(2), 60)
    treebank = str(tmp_path / "t.conllu")
    model = str(tmp_path / "m.npz")
    lexicon = tmp_path / "c.tsv"
    templates = tmp_path / "t.txt"
    report = tmp_path / "m.json"
    write_treebank(treebank, Treebank.from_sentences(sentences))
    write_lexicon(lexicon, clusters)
    templates.write_text("h.cluster m.cluster:1\n")
    command = ["train", "parser", treebank, "-o", model, "--templates", str(templates)]
    command += ["--epochs", "2", "--quiet"]
    outputs = ["--dev", treebank, "--json", report]
    run(*command, "--lexicon", f"cluster={lexicon}", *outputs)
    lexicon.unlink()
    assert read_json(report)["dev"]["all"]["uas"] == 1.0
    assert omkl.load(model).score(treebank) == 1.0
    assert main([*command, "--lexicon", "cluster"]) == 2


LINES = {
    "dog\t1\ncat\n": r"c.tsv, line 2 must give each word one value, a string, got '' for 'cat'",
    "0110\tdog\t17\n": "line 1 must give",
    "dog\t\n": "line 1 must give",
    "dog\t1\ncat\t2\ndog\t2\n": "line 3 must give each word one value, a string, got '2' for 'dog'",
    "": "holds no word",
}


@pytest.mark.parametrize(
    ("lexicons", "message"),
    [
        *LINES.items(),
        ({"upos": ANIMALS}, "no fields, got 'upos'"),
        ({"valency": ANIMALS}, "no fields, got 'valency'"),
        ({"parent_cluster": ANIMALS}, "no fields, got 'parent_cluster'"),
        ({"deprel": ANIMALS}, "no fields, got 'deprel'"),
        ({"Cluster": ANIMALS}, "after a small letter"),
        ({"a b": ANIMALS}, "after a small letter"),
        ({"cluster": 5}, "must be a path or a dict"),
        ({"cluster": "missing.tsv"}, "no file"),
        (
            {"cluster": {"a": None}},
            "'cluster' must give each word one value, a string, got None for 'a'",
        ),
        ({"cluster": {"a": float("nan")}}, "got nan for 'a'"),
        ({"cluster": {"a": ""}}, "got '' for 'a'"),
        ({"cluster": {1: "a"}}, "got 'a' for 1"),
        ({"cluster": {}}, "holds no word"),
        ([ANIMALS], "lexicons must be a dict"),
    ],
)
def test_bad_lexicons_are_refused(tmp_path, lexicons, message):
    if isinstance(lexicons, str):  # the text of a file
        (tmp_path / "c.tsv").write_text(lexicons)
        lexicons = {"cluster": tmp_path / "c.tsv"}
    with pytest.raises(InputError, match=message):
        parser(["h.cluster"], lexicons=lexicons).fit([Sentence(forms=["a"], heads=[0])])


@pytest.mark.parametrize(
    ("atom", "message"),
    [
        ("h.other:0", "there is no field 'other:0'"),
        ("h.upos:2", "there is no field 'upos:2'"),
        ("h.misc:", "there is no field 'misc:'"),
        ("m.deprel", "no field 'deprel' that is available before parsing"),
    ],
)
def test_atoms_that_look_at_nothing_are_refused(atom, message):
    with pytest.raises(InputError, match=message):
        TemplateSet([atom], {"other": None})


def test_an_atom_without_its_lexicon_is_refused():
    message = "there is no field 'cluster'.* or the name of a lexicon"
    with pytest.raises(InputError, match=message):
        TemplateSet(["h.cluster"], {})
