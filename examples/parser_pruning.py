"""
How many feature templates does a parser need? Figure 1 (bottom right) of Martins et al. (2011)
===============================================================================================

    python examples/parser_pruning.py                            English treebank below OMKL_DATA:
    hours python examples/parser_pruning.py --sentences 3000 --epochs 5 --seeds 0

For each seed, MKL by dual averaging and a standard SVM are trained on all 507 templates. Each ranks
the templates, MKL by its weights and the SVM by the norms of its groups, and SVMs are trained anew
on the best 107, 207, 307 and 407 of either ranking, and of a random one. A table, a JSON file and a
figure.
"""

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from omkl import DependencyParser
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import data_home, read_treebank
from omkl.exceptions import MissingDependencyError
from omkl.reports import plot_curves

TREEBANK = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
SIZES = (107, 207, 307, 407)


def trained(train, seed, epochs, **settings):
    settings = {"templates": "martins507", **settings}
    return DependencyParser(epochs=epochs, random_state=seed, labeled=False, **settings).fit(train)


def accuracy(parser, test):
    return 100 * parser.score(test, ignore="upos")


def rankings(train, test, seed, epochs, C):
    """Return rankings of the templates, and the scores of the parsers that made them."""
    svm = trained(train, seed, epochs, regularizer="l2")
    mkl = trained(train, seed, epochs, method="rda", C=C)
    shuffled = np.random.default_rng(seed).permutation(svm.templates_.names).tolist()
    orders = {"MKL": mkl.ranking(), "norms of the SVM": svm.ranking(), "random": shuffled}
    alive = sum(weight > 0 for weight in mkl.template_weights_.values())
    print(
        f"seed {seed}: SVM {accuracy(svm, test):.2f}, MKL {accuracy(mkl, test):.2f} with {alive}"
        " templates",
        flush=True,
    )
    return svm.templates_, orders, accuracy(svm, test), accuracy(mkl, test), mkl.template_weights_


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", nargs="?", default=data_home() / TREEBANK.format("train"))
    parser.add_argument("test", nargs="?", default=data_home() / TREEBANK.format("test"))
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--sentences", type=int, help="train on so many sentences only")
    parser.add_argument(
        "--C", type=float, default=1.0, help="weight of the losses for MKL (default 1)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for the figures"
    )
    arguments = parser.parse_args()
    prepare_output(arguments.output / "parser_pruning.json")
    train = read_treebank(arguments.train, single_root=True, keep_text=False)[: arguments.sentences]
    test = read_treebank(arguments.test, keep_text=False)

    found, full, mkl_scores, weights = {}, [], [], []
    for seed in arguments.seeds:
        templates, orders, svm, mkl, learned = rankings(
            train, test, seed, arguments.epochs, arguments.C
        )
        full.append(svm)
        mkl_scores.append(mkl)
        weights.append([learned[name] for name in templates.names])
        for size in arguments.sizes:
            for name, order in orders.items():
                smaller = trained(
                    train,
                    seed,
                    arguments.epochs,
                    regularizer="l2",
                    templates=templates.keep(order[:size]),
                )
                found.setdefault(name, {}).setdefault(size, []).append(accuracy(smaller, test))
                print(f"  {size} templates by {name}: {found[name][size][-1]:.2f}", flush=True)

    rows = [
        (
            name,
            *(
                f"{np.mean(scores[size]):.2f} ({np.mean(scores[size]) - np.mean(full):+.2f})"
                for size in scores
            ),
        )
        for name, scores in found.items()
    ]
    print("\n".join(table(rows, ("SVM on the best of", *arguments.sizes))))
    print(
        f"SVM on all: {np.mean(full):.2f}; MKL by dual averaging: {np.mean(mkl_scores):.2f}. UAS"
        " without punctuation."
    )
    summary = {"full": full, "mkl": mkl_scores, "pruned": found}
    if len(weights) > 1:
        correlations = [spearmanr(a, b).statistic for a, b in combinations(weights, 2)]
        summary["rank_correlation"] = float(np.mean(correlations))
        print(
            f"Rank correlation of MKL's weights between seeds: {np.mean(correlations):.3f}"
            " (Spearman)"
        )
    write_json(arguments.output / "parser_pruning.json", summary)
    curves = {
        name: (
            [*scores, len(templates)],
            [*(np.mean(values) for values in scores.values()), np.mean(full)],
        )
        for name, scores in found.items()
    }
    try:
        plot_curves(
            curves,
            arguments.output / "parser_pruning.png",
            "SVM on the best templates",
            "templates",
            "UAS, %",
        )
    except MissingDependencyError as error:
        print(f"No figure: {error}")


if __name__ == "__main__":
    main()
