"""
Fewer and fewer feature templates: the regularization path of a dependency parser
=================================================================================

    python examples/parser_path.py  English treebank below OMKL_DATA: about an hour
    python examples/parser_path.py --sentences 2000 --epochs 3

MKL at falling C, by forward-backward splitting and by dual averaging: how many of the 507 templates
are alive at the end, what the parser reaches, how long its last epoch took (dead templates cost
nothing), and what a standard SVM reaches that is trained anew on the templates left alive. A table,
a JSON file and a figure.
"""

import argparse
from pathlib import Path

from omkl import DependencyParser, TreeForm
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import data_home, read_treebank
from omkl.exceptions import MissingDependencyError
from omkl.reports import plot_curves

TREEBANK = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
CS = {"fobos": (100.0, 1.0, 0.01, 0.0001), "rda": (1.0, 0.1, 0.03, 0.01, 0.001)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", nargs="?", default=data_home() / TREEBANK.format("train"))
    parser.add_argument("test", nargs="?", default=data_home() / TREEBANK.format("test"))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--sentences", type=int, help="train on so many sentences only")
    parser.add_argument("--templates", default="martins507")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for the figures"
    )
    arguments = parser.parse_args()
    prepare_output(arguments.output / "parser_path.json")
    train = read_treebank(arguments.train, single_root=True, keep_text=False)[: arguments.sentences]
    test = read_treebank(arguments.test, keep_text=False)

    def fitted(**settings):
        settings = {"templates": arguments.templates, "epochs": arguments.epochs, **settings}
        return DependencyParser(random_state=0, trees=TreeForm(labeled=False), **settings).fit(
            train
        )

    def accuracy(model):
        return 100 * model.score(test, ignore="upos")

    svm = fitted(regularizer="l2")
    rows = [
        {
            "name": "SVM",
            "method": None,
            "templates": len(svm.templates_),
            "uas": accuracy(svm),
            "retrained": accuracy(svm),
            "seconds": svm.history_[-1]["seconds"],
        }
    ]
    for method, Cs in CS.items():
        for C in Cs:
            mkl = fitted(method=method, C=C)
            alive = [name for name, weight in mkl.template_weights_.items() if weight > 0]
            retrained = None
            if alive:
                svm = fitted(regularizer="l2", templates=mkl.templates_.keep(alive))
                retrained = accuracy(svm)
            rows.append(
                {
                    "name": f"{method}, C = {C:g}",
                    "method": method,
                    "C": C,
                    "templates": len(alive),
                    "uas": accuracy(mkl),
                    "retrained": retrained,
                    "seconds": mkl.history_[-1]["seconds"],
                    "first_seconds": mkl.history_[0]["seconds"],
                    "alive": alive,
                }
            )
            print(
                f"{method}, C = {C:g}: {len(alive)} templates, {rows[-1]['uas']:.2f}, "
                f"{retrained or 0:.2f} retrained",
                flush=True,
            )
    print("\n".join(report(rows)))
    write_json(arguments.output / "parser_path.json", rows)
    try:
        draw(rows, arguments.output / "parser_path.png")
    except MissingDependencyError as error:
        print(f"No figure: {error}")


def report(rows):
    """Return the lines of the table."""
    cells = []
    for row in rows:
        retrained = ""
        if row["retrained"] is not None:
            retrained = f"{row['retrained']:.2f}"
        seconds = f"{row['seconds']:.1f}"
        cells.append((row["name"], row["templates"], f"{row['uas']:.2f}", retrained, seconds))
    header = ("", "templates alive", "UAS", "SVM trained on them", "seconds of the last epoch")
    return table(cells, header)


def draw(rows, path):
    """Draw accuracy against the number of templates left."""
    curves = {}
    for method in CS:
        shown = [row for row in rows if row["method"] == method and row["retrained"]]
        sizes = [row["templates"] for row in shown]
        curves[method] = (sizes, [row["uas"] for row in shown])
        curves[f"SVM on those of {method}"] = (sizes, [row["retrained"] for row in shown])
    plot_curves(curves, path, "Templates left alive", "templates", "UAS, %")


if __name__ == "__main__":
    main()
