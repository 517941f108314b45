"""
Trees of first and second order
===============================

    python examples/parser_orders.py             English below OMKL_DATA: half an hour
    python examples/parser_orders.py TRAIN TEST  any treebank, plain or compressed
    python examples/parser_orders.py --sentences 1000 --seeds 1

A parser of second order, and its first parser, which scores single arcs: attachment scores over all
words in percent, with gold tags, and their standard deviation over seeds; the share of test
sentences whose gold tree has a higher score than the tree found (search errors); CPU seconds of
training; words parsed a second on one core, relations included.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from omkl import DependencyParser, TreeForm
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import data_home, read_treebank
from omkl.parsing.decoding import AdviceRequest

TREEBANK = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"


def search_errors(parser, gold):
    """Return the share of sentences whose gold tree has a higher score than the parser's tree."""
    codec = parser.model_.codec
    structure = parser.model_.codec.structure
    tokens = codec.tokens(gold, AdviceRequest(right=[gold.heads]))
    wrong = 0
    for s, heads in enumerate(gold.trees()):
        potentials = parser.predictor_.potentials(tokens.sentence(s))
        decoded = structure.decode(potentials)
        wrong += structure.score(potentials, heads) > structure.score(potentials, decoded) + 1e-9
    return wrong / len(gold)


def run(seed, train, test, single_root):
    started = time.process_time()
    parser = DependencyParser(random_state=seed, trees=TreeForm(single_root=single_root)).fit(train)
    trained = time.process_time()
    parser.parse(test[:10])
    began = time.process_time()
    scores = parser.evaluate(test)
    seconds = time.process_time() - began
    return {
        "uas_of_arcs": 100 * parser.first_.score(test),
        "uas": 100 * scores["uas"],
        "las": 100 * scores["las"],
        "search_errors": 100 * search_errors(parser, test),
        "seconds": trained - started,
        "words_a_second": test.n_words / seconds,
    }


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("train", nargs="?", default=data_home() / TREEBANK.format("train"))
    arguments.add_argument("test", nargs="?", default=data_home() / TREEBANK.format("test"))
    arguments.add_argument("--sentences", type=int, help="learn from the first ones only")
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument(
        "--multi-root", action="store_true", help="the root may have several children"
    )
    arguments.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for the figures"
    )
    arguments = arguments.parse_args()
    prepare_output(arguments.output / "parser_orders.json")
    single_root = not arguments.multi_root
    train = read_treebank(arguments.train, single_root=single_root, keep_text=False)[
        : arguments.sentences
    ]
    test = read_treebank(arguments.test, single_root=single_root, keep_text=False)
    rows = []
    for seed in range(arguments.seeds):
        rows.append(run(seed, train, test, single_root))
        print(
            f"seed {seed}: {rows[-1]['uas_of_arcs']:.2f}, with pairs of arcs {rows[-1]['uas']:.2f}",
            flush=True,
        )
    names = {
        "uas_of_arcs": "UAS, single arcs",
        "uas": "UAS",
        "las": "LAS",
        "search_errors": "search errors",
        "seconds": "seconds",
        "words_a_second": "words/s",
    }
    cells = []
    for name, title in names.items():
        values = [row[name] for row in rows]
        cells.append((title, f"{np.mean(values):.2f}", f"{np.std(values):.2f}"))
    print("\n".join(table(cells, ("", "mean", "sd"))))
    write_json(arguments.output / "parser_orders.json", {"rows": rows})


if __name__ == "__main__":
    main()
