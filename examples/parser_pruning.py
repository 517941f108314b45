"""
How many feature templates does a parser need? Figure 1 (bottom right) of Martins et al. (2011)
===============================================================================================

    python examples/parser_pruning.py  English treebank below OMKL_DATA: hours
    python examples/parser_pruning.py --sentences 3000 --epochs 5 --seeds 0

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

from omkl import DependencyParser, TreeForm
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import data_home, read_treebank
from omkl.exceptions import MissingDependencyError
from omkl.reports import plot_curves

TREEBANK = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
SIZES = (107, 207, 307, 407)


def trained(train, seed, epochs, **settings):
    settings = {"templates": "martins507", **settings}
    return DependencyParser(
        epochs=epochs, random_state=seed, trees=TreeForm(labeled=False), **settings
    ).fit(train)


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

    pruned = {}
    full = []
    mkl_scores = []
    weights = []
    for seed in arguments.seeds:
        templates, orders, svm, mkl, learned = rankings(
            train, test, seed, arguments.epochs, arguments.C
        )
        full.append(svm)
        mkl_scores.append(mkl)
        weights.append([learned[name] for name in templates.names])
        for size in arguments.sizes:
            for name, order in orders.items():
                best = templates.keep(order[:size])
                svm_on_best = trained(
                    train, seed, arguments.epochs, regularizer="l2", templates=best
                )
                uas = accuracy(svm_on_best, test)
                pruned.setdefault(name, {}).setdefault(size, []).append(uas)
                print(f"  {size} templates by {name}: {uas:.2f}", flush=True)

    summary = {"full": full, "mkl": mkl_scores, "pruned": pruned}
    if len(weights) > 1:
        correlations = [spearmanr(a, b).statistic for a, b in combinations(weights, 2)]
        summary["rank_correlation"] = float(np.mean(correlations))
    show(summary)
    write_json(arguments.output / "parser_pruning.json", summary)
    try:
        draw(summary, len(templates), arguments.output / "parser_pruning.png")
    except MissingDependencyError as error:
        print(f"No figure: {error}")


def show(summary):
    """Print the table, and how much MKL's weights of different seeds agree."""
    full = np.mean(summary["full"])
    rows = []
    for name, scores in summary["pruned"].items():
        means = list(map(np.mean, scores.values()))
        rows.append([name, *(f"{mean:.2f} ({mean - full:+.2f})" for mean in means)])
    print("\n".join(table(rows, ("SVM on the best of", *scores))))
    mkl = np.mean(summary["mkl"])
    print(f"SVM on all: {full:.2f}; MKL by dual averaging: {mkl:.2f}. UAS without punctuation.")
    if "rank_correlation" in summary:
        correlation = summary["rank_correlation"]
        print(f"Rank correlation of MKL's weights between seeds: {correlation:.3f} (Spearman)")


def draw(summary, n_templates, path):
    """Draw accuracy against the number of templates, one curve for each ranking."""
    curves = {}
    for name, scores in summary["pruned"].items():
        means = list(map(np.mean, scores.values()))
        curves[name] = ([*scores, n_templates], [*means, np.mean(summary["full"])])
    plot_curves(curves, path, "SVM on the best templates", "templates", "UAS, %")


if __name__ == "__main__":
    main()
