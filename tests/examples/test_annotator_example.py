"""The example of annotators runs on treebanks of one's own."""

from omkl.data import synthetic_treebank, write_treebank

from .running import run_example, table_of


def test_a_row_for_words_and_one_for_gold_tags(tmp_path):
    treebank = synthetic_treebank(60, vocabulary=10, random_state=0)
    write_treebank(tmp_path / "train.conllu", treebank[:45])
    write_treebank(tmp_path / "test.conllu", treebank[45:])
    options = ["--train", "train.conllu", "--test", "test.conllu", "--no-udpipe", "-o", "."]
    run_example("annotator", tmp_path, *options)
    words, gold_tags = table_of(tmp_path / "annotator.csv")
    assert float(gold_tags["upos"]) == float(gold_tags["lemmas"]) == 100.0
    assert 0.0 < float(words["uas"]) < 100.0
    assert 0.0 < float(words["upos"]) < 100.0
