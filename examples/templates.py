"""
Templates of parsers and taggers among uninformative ones
=========================================================

    python examples/templates.py                            English below OMKL_DATA: about an hour
    python examples/templates.py --sentences 100 --seeds 0  a minute or two
    python examples/templates.py --templates martins507 --junk 0 --sentences 1000
    python examples/templates.py TRAIN.conllu TEST.conllu

Random sentences of a treebank are trained on, another choice for each seed. Every word gets ten
columns that say nothing of trees or tags: hashes of which word it is, of its place in the document
and of a random draw, to 10, 100 and 1000 values each, and a number of its own. A useless template
is a column of the head with a column of the modifier. More than that would tell something: with the
distance, however diluted, it knows how long arcs are, and one that looks beside the head knows the
ends of the sentence.

Parsers, each with its defaults but for the number of epochs (unlabeled attachment without
punctuation):

==================  ================================================================================
l2                  a standard SVM on all templates
mkl by norms        MKL whose weights follow from the fit to the training data
mkl                 MKL on the templates that help on sentences not yet learned from
l2, survivors       an SVM on the templates that this leaves
l2, by norms        an SVM on as many, those of largest weight by norms
mkl, pruned         MKL anew on the ``--keep`` templates that it gives most weight
l2, told            an SVM on all templates but the useless ones: what there is to reach for who
                    knows which they are
==================  ================================================================================

Measured with ``--tasks parsers --C 10 --seeds 0 1 2 --sentences 100 300``: means and standard
errors, then useless and useful templates that are alive:

==============  ==========  =========  ==========  =========
English         100         alive      300         alive
==============  ==========  =========  ==========  =========
l2              71.4 ± 0.2  100 / 678  76.0 ± 0.4  100 / 678
mkl by norms    71.4 ± 0.1  100 / 678  76.0 ± 0.4  100 / 678
mkl             72.1 ± 0.1  0 / 475    76.6 ± 0.4  0.3 / 624
l2, survivors   72.5 ± 0.1  0 / 475    76.7 ± 0.4  0.3 / 624
l2, by norms    71.7 ± 0.3  45 / 430   76.2 ± 0.4  60 / 564
mkl, pruned     73.7 ± 0.5  0 / 106    77.5 ± 0.3  0 / 107
l2, told        71.8 ± 0.3  0 / 678    76.6 ± 0.5  0 / 678
==============  ==========  =========  ==========  =========

Taggers, with all defaults, have the word and its surroundings, and then seven of the columns as
keys beside them.
"""

import argparse
import csv
import hashlib
import operator
import re
import time
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np

from omkl import DependencyParser, SequenceLabeler, TreeForm
from omkl.cli.console import prepare_output, table
from omkl.data import Sentence, Treebank, data_home, read_treebank
from omkl.exceptions import MissingDependencyError
from omkl.features import token_features
from omkl.groups import TemplateSet
from omkl.reports import plot_panels

TREEBANK = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
#: Useless columns: of what, and to how many values it is hashed (0: to none, each word has its
#: own).
JUNK = {
    f"{of}{n or ''}": (of, n)
    for of, n in [*product(("Word", "Place", "Draw"), (10, 100, 1000)), ("Word", 0)]
}
JUNK_TEMPLATES = [f"h.{a} m.{b}" for a, b in product(JUNK, JUNK)]
N_JUNK_KEYS = 7
#: Seed of the useless columns of the test part, which are the same in all runs.
TEST_SEED = 2**32 - 1
FIGURES = ("score", "useful alive", "useless alive", "weight of useless", "seconds")
TAGGERS = {
    "l2 tagger": {"regularizer": "l2"},
    "tagger by norms": {"weighting": "norms"},
    "mkl tagger": {"weighting": "out-of-sample"},
}


# ---- columns that say nothing --------------------------------------------------------------------


def useless_values(treebank, seed):
    """Return a dict of uninformative values for each word of each sentence."""
    rng = np.random.default_rng(seed)
    place = 0
    values = []
    for number, sentence in enumerate(treebank):
        values.append([])
        for index in range(len(sentence)):
            word = f"{seed} {number} {index}"
            texts = {"Word": word, "Place": f"{place}", "Draw": f"{rng.integers(2**60)}"}
            values_of_word = {}
            for name, (source, n_values) in JUNK.items():
                if n_values:
                    values_of_word[name] = _hashed(texts[source]) % n_values
                else:
                    values_of_word[name] = word.replace(" ", ".")
            values[-1].append(values_of_word)
            place += 1
    return values


def _hashed(text):
    """Hash to 64 bits. (Checksums of neighboring inputs would be similar.)"""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def with_useless_columns(treebank, seed):
    """Add the uninformative columns to the morphology of a treebank, and it as ``Whole``."""
    sentences = []
    for s, columns in zip(treebank, useless_values(treebank, seed)):
        feats = []
        for morphology, values in zip(s.feats, columns):
            useless = [f"{name}={value}" for name, value in values.items()]
            all_of_it = morphology.replace("|", ",")
            feats.append("|".join([f"Whole={all_of_it}", morphology, *useless]))
        sentences.append(Sentence(s.forms, s.lemmas, s.upos, s.xpos, feats, s.heads, s.deprels))
    return Treebank.from_sentences(sentences)


def useful_templates(name, treebank):
    """Return the useful templates of a set; those of morphology only if the treebank has it."""
    templates = TemplateSet.resolve(name)
    if not treebank.feats.any():
        templates = [template for template in templates if not reads_morphology(template)]
    return [re.sub(r"\.feats\b", ".Whole", template.atoms) for template in templates]


def reads_morphology(template):
    return any(field == "feats" or field[0].isupper() for field in template.fields)


# ---- parsers -------------------------------------------------------------------------------------


class Runs:
    """Train parsers on one sample of sentences, and evaluate them on the test part."""

    def __init__(self, train, test, useful, useless, seed, epochs):
        self.train = train
        self.test = test
        self.useful = useful
        self.useless = useless
        self.settings = {"epochs": epochs, "trees": TreeForm(labeled=False), "random_state": seed}
        self.rows = []

    def fit(self, name, templates, **settings):
        """Train a parser on some templates and add a row of its scores."""
        parser = DependencyParser(TemplateSet(templates), **settings, **self.settings)
        return self.fit_anew(name, parser)

    def fit_anew(self, name, parser):
        start = time.perf_counter()
        parser.fit(self.train)
        seconds = time.perf_counter() - start
        weights = parser.template_weights_
        alive = {template for template, weight in weights.items() if weight > 0}
        self.rows.append(
            {
                "method": name,
                "score": 100 * parser.score(self.test, ignore="upos"),
                "useful alive": len(alive.intersection(self.useful)),
                "useless alive": len(alive.intersection(self.useless)),
                "weight of useless": sum(weights.get(template, 0.0) for template in self.useless),
                "seconds": seconds,
            }
        )
        return parser


def parsers(runs, keep, **of_mkl):
    """Return rows for all methods; ``of_mkl`` are parameters of the MKL methods."""
    everything = [*runs.useful, *runs.useless]
    runs.fit("l2", everything, regularizer="l2")
    by_norms = runs.fit("mkl by norms", everything, weighting="norms", **of_mkl)
    mkl = runs.fit("mkl", everything, weighting="out-of-sample", **of_mkl)
    survivors = [template for template, weight in mkl.template_weights_.items() if weight > 0]
    runs.fit("l2, survivors", survivors, regularizer="l2")
    runs.fit("l2, by norms", by_norms.ranking()[: len(survivors)], regularizer="l2")
    runs.fit_anew("mkl, pruned", mkl.prune(min(keep, len(everything))))
    runs.fit("l2, told", runs.useful, regularizer="l2")
    return runs.rows


# ---- taggers -------------------------------------------------------------------------------------


def tagged(treebank, n_keys, seed):
    """Return words as dicts of features with uninformative keys, and their tags."""
    X = [token_features(sentence.forms) for sentence in treebank]
    keys = list(JUNK)[len(JUNK) - n_keys :]
    for words, columns in zip(X, useless_values(treebank, seed)):
        for word, values in zip(words, columns):
            word |= {key: str(values[key]) for key in keys}
    return X, [sentence.upos for sentence in treebank]


def taggers(train, test, seed):
    """Return rows of taggers with and without the uninformative keys."""
    rows = []
    for n_keys, (name, settings) in product((0, N_JUNK_KEYS), TAGGERS.items()):
        X, y = tagged(train, n_keys, seed)
        X_test, y_test = tagged(test, n_keys, TEST_SEED)
        start = time.perf_counter()
        model = SequenceLabeler(C="auto", random_state=seed, **settings).fit(X, y)
        seconds = time.perf_counter() - start
        weights = {key: weight for key, weight in model.kernel_weights_.items() if weight > 0}
        right = []
        for predicted, gold in zip(model.predict(X_test), y_test):
            right += map(operator.eq, predicted, gold)
        rows.append(
            {
                "method": f"{name}{' + junk' * (n_keys > 0)}",
                "score": 100 * np.mean(right),
                "useful alive": len(weights.keys() - JUNK),
                "useless alive": len(weights.keys() & JUNK),
                "weight of useless": sum(weights[key] for key in weights.keys() & JUNK),
                "seconds": seconds,
            }
        )
    return rows


# ---- the table and the picture -------------------------------------------------------------------


def measure(train, test, arguments):
    """Return one row for each method, number of sentences and seed."""
    rows = []
    templates = useful_templates(arguments.templates, train)
    junk = JUNK_TEMPLATES[: arguments.junk]
    of_mkl = {}
    if arguments.C is not None:
        of_mkl["C"] = arguments.C
    hidden = with_useless_columns(test, TEST_SEED)
    for n_sentences, seed in product(arguments.sentences, arguments.seeds):
        chosen = train[np.sort(np.random.default_rng(seed).permutation(len(train))[:n_sentences])]
        new_rows = []
        if "parsers" in arguments.tasks:
            sample = with_useless_columns(chosen, seed)
            runs = Runs(sample, hidden, templates, junk, seed, arguments.epochs)
            new_rows += parsers(runs, arguments.keep, **of_mkl)
        if "taggers" in arguments.tasks:
            new_rows += taggers(chosen, test, seed)
        rows += [{"sentences": n_sentences, "seed": seed, **row} for row in new_rows]
        shown = ", ".join(f"{row['method']} {row['score']:.1f}" for row in new_rows)
        print(f"{n_sentences} sentences, seed {seed}: {shown}", flush=True)
    return rows


def summary(rows):
    """Return ``(mean, standard error)`` of every figure, by method and number of sentences."""
    figures = defaultdict(list)
    for row in rows:
        figures[row["method"], row["sentences"]].append([row[figure] for figure in FIGURES])
    means_and_errors = {}
    for case, of_seeds in figures.items():
        errors = np.zeros(len(FIGURES))
        if len(of_seeds) > 1:
            errors = np.std(of_seeds, axis=0, ddof=1) / np.sqrt(len(of_seeds))
        means_and_errors[case] = np.transpose([np.mean(of_seeds, axis=0), errors])
    return means_and_errors


def methods_of(figures):
    return list(dict.fromkeys(method for method, _ in figures))


def report(figures, sizes):
    """Return the lines of the table: score, active templates, and the weight of useless ones."""
    cells = []
    for name in methods_of(figures):
        cells.append([name])
        for size in sizes:
            score, useful, useless, weight, _ = figures[name, size]
            cells[-1].append(
                f"{score[0]:.1f} ± {score[1]:.1f} {useless[0]:.1f} / {useful[0]:.0f}"
                f" {weight[0]:.2f}"
            )
    return table(
        cells, ["%, useless / useful alive, weight", *(f"{size} sentences" for size in sizes)]
    )


def draw(figures, sizes, path):
    """Draw scores and the number of active useless templates against the number of sentences."""
    panels = []
    for k, label in ((0, "UAS, %"), (2, "useless templates alive")):
        curves = {}
        for name in methods_of(figures):
            if "tagger" not in name:
                curves[name] = (sizes, [figures[name, size][k, 0] for size in sizes])
        panels.append({"curves": curves, "xlabel": "sentences", "ylabel": label, "log": "x"})
    plot_panels([panels], path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "train", nargs="?", default=data_home() / TREEBANK.format("train"), help="CoNLL-U file"
    )
    parser.add_argument(
        "test", nargs="?", default=data_home() / TREEBANK.format("test"), help="CoNLL-U file"
    )
    parser.add_argument(
        "--tasks", nargs="+", choices=("parsers", "taggers"), default=["parsers", "taggers"]
    )
    parser.add_argument("--templates", default="rich", help="a set of templates by name, or a file")
    parser.add_argument(
        "--junk", type=int, default=len(JUNK_TEMPLATES), help="useless templates, at most 100"
    )
    parser.add_argument(
        "--sentences", type=int, nargs="+", default=[100, 300, 1000], help="to train on"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument(
        "--test-sentences", type=int, default=500, help="to test on, the first ones"
    )
    parser.add_argument("--keep", type=int, default=107, help="templates that MKL is pruned to")
    parser.add_argument("--epochs", type=int, default=5, help="of the parsers")
    parser.add_argument(
        "--C", type=float, help="weight of the losses for MKL's parsers, by default the library's"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for table and figure"
    )
    arguments = parser.parse_args()
    prepare_output(arguments.output / "templates.csv")
    if not 0 <= arguments.junk <= len(JUNK_TEMPLATES):
        parser.error(f"--junk is from 0 to {len(JUNK_TEMPLATES)}.")
    train = read_treebank(arguments.train, single_root=True, keep_text=False)
    test = read_treebank(arguments.test, keep_text=False)[: arguments.test_sentences]
    rows = measure(train, test, arguments)
    figures = summary(rows)
    print("\n".join(report(figures, arguments.sentences)))
    with (arguments.output / "templates.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    try:
        draw(figures, arguments.sentences, arguments.output / "templates.png")
    except MissingDependencyError as error:
        print(f"No figure: {error}")


if __name__ == "__main__":
    main()
