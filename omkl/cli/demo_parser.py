"""``omkl demo parser``: a made-up language in which it is known which feature templates tell the heads."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

import omkl
from omkl.cli.common import bar_chart, table
from omkl.cli.verdicts import Comparison, conclude, standing

USELESS = (
    "h.form m.form direction", "h.form m.feats", "m.form distance", "h.feats m.feats direction", "h-1.form h.feats",
    "h.feats m.form direction", "h+1.form m-1.form", "m.feats direction", "h.feats distance",
)  # fmt: skip
ALL, MKL, TOLD = "an SVM on all templates", "MKL on all templates", "an SVM on those that tell"
COMPETITORS: dict[str, dict[str, Any]] = {
    ALL: {"regularizer": "l2"},
    MKL: {},
    TOLD: {"regularizer": "l2"},
    "an SVM on the useless": {"regularizer": "l2", "templates": USELESS},
}


def show(arguments: Namespace, say: Callable[[str], None]) -> tuple[Any, dict[str, Any], Callable]:
    """Compare parsers of a made-up language; returns that by MKL, the metrics, and what draws the figure."""
    from omkl.data.synthetic import INFORMATIVE

    n_train = 1500 if arguments.n_train is None else arguments.n_train
    treebank = omkl.data.synthetic_treebank(
        n_train + arguments.n_test, vocabulary=10, random_state=arguments.random_state
    )
    train, test = treebank[:n_train], treebank[n_train:]
    say(f"{n_train} sentences of a made-up language to train on, {len(test)} to test on. Which word depends on which\n"
        f"is told by {len(INFORMATIVE)} feature templates; {len(USELESS)} others are useless. "
        "The noise in the trees lets nobody find more than 84%.\n")  # fmt: skip
    parsers, best = _train(arguments, train, INFORMATIVE), f"an SVM on MKL's best {len(INFORMATIVE)}"
    mkl = parsers[MKL]
    parsers[best] = mkl.prune(len(INFORMATIVE)).set_params(regularizer="l2").fit(train)
    correct = {name: _correct(parser, test) for name, parser in parsers.items()}
    rows = [{"parser": name, "uas": float(np.concatenate(correct[name]).mean()), "seconds": parser.fit_seconds_}
            for name, parser in parsers.items()]  # fmt: skip
    cells = [(row["parser"], f"{row['uas']:.2%}", f"{row['seconds']:.2f}") for row in rows]
    say("\n".join(table(cells, ("", "heads right", "seconds"))))
    of_mkl, of_best = (
        [Comparison.of(other, correct[name], correct[other]) for other in (ALL, TOLD)] for name in (MKL, best)
    )
    verdict = [*conclude(MKL, of_mkl[:1], of_mkl[1:]), f"A{best[1:]} is {standing(of_best)}."]
    found = set(mkl.ranking()[: len(INFORMATIVE)])
    say("\n" + "\n".join(verdict))
    say(f"\nMKL ranks {len(found & set(INFORMATIVE))} of the {len(INFORMATIVE)} first. What it learned:")
    say("\n".join(bar_chart({f"{'*' if n in INFORMATIVE else ' '} {n}": w for n, w in mkl.template_weights_.items()})))
    say("(* tells the heads)\n\nIts strongest features:")
    features = [(f["feature"], f"{f['weight']:+.3f}") for f in mkl.top_features(5)]
    say("\n".join(table(features, ("feature", "weight"))))
    metrics = {
        "results": rows, "comparisons": {MKL: list(map(asdict, of_mkl)), best: list(map(asdict, of_best))},
        "verdict": " ".join(verdict), "template_weights": mkl.template_weights_, "history": mkl.history_,
    }  # fmt: skip
    return mkl, metrics, partial(_draw, mkl.history_)


def _draw(history, path):
    omkl.reports.plot_group_weights(history, title="Weights of the templates").figure.savefig(path, dpi=150)


def _train(arguments, train, informative):
    """Parsers by name."""
    parsers = {}
    for name, settings in COMPETITORS.items():
        templates = informative if name == TOLD else informative + USELESS
        parsers[name] = omkl.DependencyParser(
            C=arguments.C, epochs=arguments.epochs, random_state=arguments.random_state, memory=60, labeled=False,
            verbose=not arguments.quiet, **{"templates": templates, **settings},
        ).fit(train)  # fmt: skip
    return parsers


def _correct(parser, test):
    """Which heads of every sentence the parser finds."""
    return [np.equal(found.heads, gold.heads) for found, gold in zip(parser.parse(test), test)]
