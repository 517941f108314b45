"""
Which step size, and which average? The paper's rule, omkl's, and the best of a grid
====================================================================================

    python examples/step_sizes.py  three folds of the OCR data set, about five minutes
    python examples/step_sizes.py --folds 0 --json sizes.json

The paper tries eta0 in {0.01, 0.1, 1, 10} for five epochs and keeps the one of the lowest
objective. omkl's ``learning_rate="auto"`` tries nothing: it sets the rate of every round from the
distance travelled and the gradients met. "Best of a grid" is chosen on the test folds: no rule can
know it, and none that sets ``eta0 / sqrt(t)`` can beat it.
"""

import argparse

import numpy as np

from omkl import SequenceLabeler
from omkl.cli.console import prepare_output, table, write_json
from omkl.data import read_ocr

KERNELS = {"quadratic": ["quadratic"], "MKL": ["linear", "quadratic", "gaussian:sigma2=5"]}
CS = (1.0, 100.0, 1e4)
PAPERS_GRID = (0.01, 0.1, 1.0, 10.0)
FINE_GRID = (0.1, 0.3, 1.0, 2.0, 3.0, 10.0)
AVERAGES = (None, "uniform", "uniform:start=7000", "quadratic", "polynomial:power=8")


class Objective:
    """Callback that keeps the objective on all examples after the last epoch."""

    def on_start(self, trainer, source):
        self.examples = source.examples

    def __call__(self, trainer, record):
        self.value = trainer.mean_loss(self.examples) + trainer.current_lambda * trainer.penalty()


def accuracy(data, train_fold, kernels, **settings):
    """Return test accuracy in percent after 20 epochs on one fold."""
    others = [fold for fold in range(10) if fold != train_fold]
    labeler = SequenceLabeler(
        kernels, epochs=20, random_state=train_fold, verbose=False, **settings
    )
    return 100 * labeler.fit(*data.of_folds(train_fold)).score(*data.of_folds(others))


def papers_choice(data, fold, kernels, C):
    """Return the step size by the paper's rule."""
    objectives = {}
    for eta0 in PAPERS_GRID:
        objective = Objective()
        SequenceLabeler(
            kernels,
            C=C,
            average=None,
            epochs=5,
            random_state=fold,
            callbacks=[objective],
            verbose=False,
            learning_rate=eta0,
        ).fit(*data.of_folds(fold))
        objectives[eta0] = objective.value
    return min(objectives, key=objectives.get)


def compare_rules(data, folds):
    rows = []
    for name, kernels in KERNELS.items():
        for C in CS:
            chosen = [papers_choice(data, fold, kernels, C) for fold in folds]
            paper = [
                accuracy(data, f, kernels, C=C, learning_rate=e, average=None)
                for f, e in zip(folds, chosen)
            ]
            averaged = [
                accuracy(data, f, kernels, C=C, learning_rate=e) for f, e in zip(folds, chosen)
            ]
            grid = {
                e: np.mean([accuracy(data, f, kernels, C=C, learning_rate=e) for f in folds])
                for e in FINE_GRID
            }
            auto = [accuracy(data, f, kernels, C=C) for f in folds]
            best = max(grid, key=grid.get)
            rows.append(
                {
                    "kernels": name,
                    "C": C,
                    "papers_eta0": chosen,
                    "paper": np.mean(paper),
                    "paper_averaged": np.mean(averaged),
                    "auto": np.mean(auto),
                    "best_eta0": best,
                    "best": grid[best],
                }
            )
            print(f"  {name}, C = {C:g}: done")
    return rows


def compare_averages(data, folds):
    rows = []
    for eta0 in (1.0, 3.0, 10.0, "auto"):
        for average in AVERAGES:
            settings = {"average": average, "learning_rate": eta0}
            mean = np.mean([accuracy(data, fold, KERNELS["MKL"], **settings) for fold in folds])
            rows.append({"eta0": eta0, "average": average or "last", "accuracy": mean})
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folds", type=int, nargs="+", default=[0, 1, 2], help="folds to train on (default 0 1 2)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    arguments = parser.parse_args()
    prepare_output(arguments.json)
    data = read_ocr()

    rules = compare_rules(data, arguments.folds)
    print("\nRules for the step size: accuracy on the other nine folds, %")
    cells = [
        (
            r["kernels"],
            f"{r['C']:g}",
            "/".join(f"{e:g}" for e in r["papers_eta0"]),
            f"{r['paper']:.2f}",
            f"{r['paper_averaged']:.2f}",
            f"{r['auto']:.2f}",
            f"{r['best']:.2f}",
            f"{r['best_eta0']:g}",
        )
        for r in rules
    ]
    header = ("kernels", "C", "paper picks", "its last", "averaged", "auto", "best of grid", "at")
    print("\n".join(table(cells, header)))

    averages = compare_averages(data, arguments.folds)
    print("\nWhich model to return: MKL at C = 1, accuracy, %")
    names = [average or "last" for average in AVERAGES]
    cells = {}
    for row in averages:
        name = f"eta0 = {row['eta0']}"
        cells.setdefault(name, [name]).append(f"{row['accuracy']:.2f}")
    print("\n".join(table(list(cells.values()), ("", *names))))
    write_json(arguments.json, {"rules": rules, "averages": averages})


if __name__ == "__main__":
    main()
