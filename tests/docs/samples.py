"""Files that the pages of the documentation name, small enough for their examples to run in a
second.

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
    """Tell whether code reads a real treebank for which a made one stands, so that it prints other
    figures.
    """
    return any(Path(own).name in code and not _is_there(own) for own in TREEBANKS)


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
    words = ["the", *rng.choice(ADJECTIVES, rng.integers(0, 3), replace=False)]
    noun = list(NOUNS)[rng.integers(len(NOUNS))]
    head = after + len(words) + 1
    tags = [("DET", "D", "_", head, "det"), *[("ADJ", "A", "_", head, "amod")] * (len(words) - 1)]
    rows = [
        [i, word, word, *tag, "_", "_"]
        for i, (word, tag) in enumerate(zip(words, tags), start=after + 1)
    ]
    return [
        *rows,
        [head, noun, LEMMAS[noun], "NOUN", "N", f"Number={NOUNS[noun]}", 0, "_", "_", "_"],
    ]


def write_samples(folder):
    """Write all of them: treebanks, tables, CRFsuite's attributes, columns, files in svmlight's
    format.
    """
    folder, rng = Path(folder), np.random.default_rng(0)
    for name, n in (("train", 150), ("dev", 40), ("test", 40)):
        text = "".join(english(n, rng))
        (folder / f"{name}.conllu").write_text(text, encoding="utf-8")
        (folder / f"{name}.conllu.gz").write_bytes(gzip.compress(text.encode()))
        rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
        lines = (
            f"{row[3]}\tword={row[1]}\tsuffix={row[1][-1]}\n" if len(row) > 1 else "\n"
            for row in rows
        )
        (folder / f"{name}.crfsuite").write_text("".join(lines), encoding="utf-8")
        X = rng.normal(size=(200, 3))
        y = X[:, 0] + X[:, 1] ** 2 > 0.5
        table = "".join(
            f"{a:.4f},{b:.4f},{c:.4f},{'yes' if label else 'no'}\n"
            for (a, b, c), label in zip(X, y)
        )
        (folder / f"{name}.csv").write_text("age,income,height,bought\n" + table, encoding="utf-8")
    for own, made in TREEBANKS.items():
        (folder / Path(own).name).symlink_to(
            Path(os.environ["OMKL_DATA"], own) if _is_there(own) else folder / made
        )
    (folder / "data").mkdir()
    for part in range(2):
        X = rng.random((150, 40)) * (rng.random((150, 40)) < 0.3)
        y, path = X[:, :20].sum(axis=1) > X[:, 20:].sum(axis=1), folder / "data" / "part"
        dump_svmlight_file(X, y.astype(int), str(path), zero_based=False)
        (folder / "data" / f"part-{part}.svm.gz").write_bytes(gzip.compress(path.read_bytes()))
    (folder / "data" / "part").unlink()
    cells = (f"{row[1]} {row[4]} {row[3]}\n" if len(row) > 1 else "\n" for row in rows)
    (folder / "eng.train").write_text("-DOCSTART- -X- O\n\n" + "".join(cells), encoding="utf-8")
    (folder / "template").write_text("U00:%x[0,0]\nU01:%x[-1,0]\nU02:%x[0,1]\n", encoding="utf-8")
    (folder / "sentences.txt").write_text(
        "The dogs bark .\nThe old cat sees the birds .\n", encoding="utf-8"
    )
