"""
Select the feature templates of a part-of-speech tagger
=======================================================

    python examples/template_selection.py  English treebank below OMKL_DATA: about a minute
    python examples/template_selection.py TRAIN.conllu TEST.conllu

Dual averaging trains with the MKL regularizer at several C; at each, some templates are exactly
zero. A plain SVM is then trained on the templates that are left, and on as many that a plain SVM on
all of them ranks highest.
"""

import argparse
import operator

import numpy as np

from omkl import SequenceLabeler
from omkl.cli.console import bar_chart, prepare_output, table, write_json
from omkl.data import data_home, read_sequences

TREEBANK = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
CS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def only(X, templates):
    """Keep only these templates of the tokens."""

    def selected(token):
        return {key: token[key] for key in templates}

    return [list(map(selected, x)) for x in X]


def train(X, y, regularizer, epochs, **settings):
    return SequenceLabeler(regularizer=regularizer, epochs=epochs, random_state=0, **settings).fit(
        X, y
    )


def accuracy(model, X, y):
    """Return token accuracy in percent; unknown tags count as mistakes."""
    right = []
    for predicted, gold in zip(model.predict(X), y):
        right += map(operator.eq, predicted, gold)
    return 100 * np.mean(right)


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
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    arguments = parser.parse_args()
    prepare_output(arguments.json)
    X, y = read_sequences(arguments.train)
    X_test, y_test = read_sequences(arguments.test)

    svm = train(X, y, "l2", arguments.epochs)
    norms = dict(zip(svm.predictor_.group_names, svm.predictor_.norms))
    ranking = sorted(X[0][0], key=norms.__getitem__, reverse=True)
    print(f"SVM on all {len(ranking)} templates: {accuracy(svm, X_test, y_test):.2f} %")
    mkl = train(X, y, "mkl", arguments.epochs)
    print(f"MKL (forward-backward splitting): {accuracy(mkl, X_test, y_test):.2f} %; its weights:")
    print("\n".join(bar_chart(mkl.kernel_weights_)))

    rows = []
    for C in CS:
        sparse = train(X, y, "mkl", arguments.epochs, method="rda", C=C, average=None)
        alive = [name for name, weight in sparse.kernel_weights_.items() if weight > 0]
        row = {
            "C": C,
            "templates": len(alive),
            "kept": alive,
            "sparse": accuracy(sparse, X_test, y_test),
        }
        for name, chosen in (("retrained", alive), ("svm_ranking", ranking[: len(alive)])):
            model = train(only(X, chosen), y, "l2", arguments.epochs)
            row[name] = accuracy(model, only(X_test, chosen), y_test)
        rows.append(row)
    print("\n" + "\n".join(report(rows)))
    print("Kept first: " + ", ".join(rows[0]["kept"]))
    write_json(arguments.json, {"rows": rows, "mkl_weights": mkl.kernel_weights_})


def report(rows):
    """Return the lines of the table."""
    cells = [
        (
            f"C = {r['C']:g}",
            r["templates"],
            f"{r['sparse']:.2f}",
            f"{r['retrained']:.2f}",
            f"{r['svm_ranking']:.2f}",
        )
        for r in rows
    ]
    header = (
        "dual averaging",
        "templates left",
        "its accuracy",
        "SVM on them",
        "SVM on its own best",
    )
    return table(cells, header)


if __name__ == "__main__":
    main()
