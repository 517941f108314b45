"""Files that the pages of the documentation name, small enough to run within a second.

A treebank with a name of Universal Dependencies is the real one where ``OMKL_DATA`` has it.
"""

import gzip
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file

NOUNS = {
    "dog": "Sing",
    "dogs": "Plur",
    "cat": "Sing",
    "cats": "Plur",
    "bird": "Sing",
    "birds": "Plur",
}
VERBS = {
    "barks": "Sing",
    "bark": "Plur",
    "sleeps": "Sing",
    "sleep": "Plur",
    "sees": "Sing",
    "see": "Plur",
}
LEMMAS = {word: word.rstrip("s") for word in (*NOUNS, *VERBS)}
ADJECTIVES = ("old", "small", "black")


#: Real treebanks below the folder of data, and what stands for them elsewhere.
TREEBANKS = {
    "ud/UD_Danish-DDT/da_ddt-ud-dev.conllu.gz": "train.conllu.gz",
    "ud/UD_Danish-DDT/da_ddt-ud-test.conllu.gz": "test.conllu.gz",
}


def stands_in(code):
    """Tell whether code reads a made treebank in place of a real one, and prints other figures."""
    missing = [treebank for treebank in TREEBANKS if not _is_there(treebank)]
    return any(Path(treebank).name in code for treebank in missing)


def _is_there(treebank):
    return "OMKL_DATA" in os.environ and Path(os.environ["OMKL_DATA"], treebank).exists()


def english(n_sentences, rng):
    """Sentences of a few English words, in CoNLL-U: a subject, a verb, and sometimes an object."""
    for number in range(n_sentences):
        rows = _phrase(rng)
        number_of = rows[-1][5].removeprefix("Number=")
        verb = len(rows) + 1
        rows[-1][6:8] = verb, "nsubj"
        verbs = [word for word in VERBS if VERBS[word] == number_of]
        word = verbs[rng.integers(len(verbs))]
        rows.append(
            [verb, word, LEMMAS[word], "VERB", "V", f"Number={number_of}", 0, "root", "_", "_"]
        )
        if word.startswith("see"):
            rows += _phrase(rng, after=verb)
            rows[-1][6:8] = verb, "obj"
        rows.append([len(rows) + 1, ".", ".", "PUNCT", ".", "_", verb, "punct", "_", "_"])
        text = " ".join(row[1] for row in rows).replace(" .", ".")
        lines = [
            f"# sent_id = {number + 1}",
            f"# text = {text}",
            *("\t".join(map(str, row)) for row in rows),
        ]
        yield "\n".join([*lines, "", ""])


def _phrase(rng, after=0):
    adjectives = rng.choice(ADJECTIVES, rng.integers(0, 3), replace=False)
    noun = list(NOUNS)[rng.integers(len(NOUNS))]
    head = after + len(adjectives) + 2
    rows = [[after + 1, "the", "the", "DET", "D", "_", head, "det", "_", "_"]]
    for i, word in enumerate(adjectives, start=after + 2):
        rows.append([i, word, word, "ADJ", "A", "_", head, "amod", "_", "_"])
    number = f"Number={NOUNS[noun]}"
    rows.append([head, noun, LEMMAS[noun], "NOUN", "N", number, 0, "_", "_", "_"])
    return rows


def _write_text(path, lines):
    path.write_text("".join(lines), encoding="utf-8")


def _words_as(text, line):
    """Format each word of a treebank by this function of its row; empty lines between sentences."""
    lines = []
    for row in text.splitlines():
        if not row:
            lines.append("\n")
        elif not row.startswith("#"):
            lines.append(line(row.split("\t")))
    return lines


def _attributes(row):
    return f"{row[3]}\tword={row[1]}\tsuffix={row[1][-1]}\n"


def _cells(row):
    return f"{row[1]} {row[4]} {row[3]}\n"


def _table(rng):
    """Draw rows of a table of numbers and a label."""
    X = rng.normal(size=(200, 3))
    lines = ["age,income,height,bought\n"]
    for age, income, height in X:
        label = ("no", "yes")[int(age + income**2 > 0.5)]
        lines.append(f"{age:.4f},{income:.4f},{height:.4f},{label}\n")
    return lines


def write_samples(folder):
    """Write treebanks, tables, attributes, columns, and files in svmlight's format."""
    folder = Path(folder)
    rng = np.random.default_rng(0)
    for name, n in (("train", 150), ("dev", 40), ("test", 40)):
        text = "".join(english(n, rng))
        _write_text(folder / f"{name}.conllu", [text])
        (folder / f"{name}.conllu.gz").write_bytes(gzip.compress(text.encode()))
        _write_text(folder / f"{name}.crfsuite", _words_as(text, _attributes))
        _write_text(folder / f"{name}.csv", _table(rng))
    for treebank, made in TREEBANKS.items():
        target = folder / made
        if _is_there(treebank):
            target = Path(os.environ["OMKL_DATA"], treebank)
        (folder / Path(treebank).name).symlink_to(target)
    (folder / "data").mkdir()
    for part in range(2):
        X = rng.random((150, 40)) * (rng.random((150, 40)) < 0.3)
        y = X[:, :20].sum(axis=1) > X[:, 20:].sum(axis=1)
        path = folder / "data" / "part"
        dump_svmlight_file(X, y.astype(int), str(path), zero_based=False)
        (folder / "data" / f"part-{part}.svm.gz").write_bytes(gzip.compress(path.read_bytes()))
    (folder / "data" / "part").unlink()
    _write_text(folder / "eng.train", ["-DOCSTART- -X- O\n\n", *_words_as(text, _cells)])
    _write_text(folder / "template", ["U00:%x[0,0]\n", "U01:%x[-1,0]\n", "U02:%x[0,1]\n"])
    _write_text(folder / "sentences.txt", ["The dogs bark .\n", "The old cat sees the birds .\n"])
