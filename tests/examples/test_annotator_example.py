"""The example of annotators runs on treebanks of one's own."""

import csv
import subprocess
import sys
from pathlib import Path

from omkl.data import synthetic_treebank, write_treebank

EXAMPLE = Path(__file__).parents[2] / "examples" / "annotator.py"


def test_a_row_for_words_and_one_for_gold_tags(tmp_path):
    treebank = synthetic_treebank(60, vocabulary=10, random_state=0)
    write_treebank(tmp_path / "train.conllu", treebank[:45])
    write_treebank(tmp_path / "test.conllu", treebank[45:])
    paths = ["--train", str(tmp_path / "train.conllu"), "--test", str(tmp_path / "test.conllu")]
    command = [sys.executable, str(EXAMPLE), *paths, "--no-udpipe", "-o", str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    with open(tmp_path / "annotator.csv", encoding="utf-8", newline="") as file:
        words, gold_tags = csv.DictReader(file)
    assert float(gold_tags["upos"]) == float(gold_tags["lemmas"]) == 100.0
    assert 0.0 < float(words["uas"]) < 100.0
    assert 0.0 < float(words["upos"]) < 100.0
