"""The example of templates: no uninformative template remains, and the table shows it."""

from omkl.data import Treebank, synthetic_treebank, write_treebank

from .running import load_example, run_example, table_of


def test_useless_columns_stand_beside_what_is_there():
    example = load_example("templates")
    treebank = synthetic_treebank(20)
    hidden = example.with_useless_columns(treebank, seed=1)
    for own, beside in zip(treebank, hidden):
        assert (own.forms, own.xpos, own.heads) == (beside.forms, beside.xpos, beside.heads)
        for feats, columns in zip(own.feats, beside.feats):
            whole, *attributes = columns.split("|")
            assert whole == f"Whole={feats}".replace("|", ",")
            assert "|".join(attributes[: -len(example.JUNK)]) == feats
            assert [attribute.partition("=")[0] for attribute in attributes[-len(example.JUNK) :]] == list(example.JUNK)
    others = example.useless_values(treebank, seed=2)
    assert example.useless_values(treebank, seed=1) != others
    numbers = [columns["Word"] for words in others for columns in words]
    assert len(set(numbers)) == treebank.n_words


def test_no_useless_template_and_no_useless_key_is_left(tmp_path):
    sentences = list(synthetic_treebank(150))
    for sentence in sentences:  # forms that tell a tagger something
        sentence.forms = [form + tag.lower() for form, tag in zip(sentence.forms, sentence.upos)]
    treebank = Treebank.from_sentences(sentences)
    for name, part in (("train", treebank[:110]), ("test", treebank[110:])):
        write_treebank(tmp_path / f"{name}.conllu", part)
    options = ["--templates", "small", "--sentences", "100", "--seeds", "0", "--keep", "10", "--epochs", "3", "-o", "."]
    printed = run_example("templates", tmp_path, "train.conllu", "test.conllu", *options)
    assert (tmp_path / "templates.png").exists() or "No figure" in printed
    rows = {row["method"]: row for row in table_of(tmp_path / "templates.csv")}
    assert all(name in printed for name in rows)
    assert rows["l2"]["useless alive"] == rows["mkl by norms"]["useless alive"] == "100"
    for name in ("mkl", "l2, survivors", "mkl, pruned", "mkl tagger + junk"):
        assert rows[name]["useless alive"] == "0"
        assert int(rows[name]["useful alive"]) > 0
    assert float(rows["mkl"]["score"]) > float(rows["l2"]["score"])
