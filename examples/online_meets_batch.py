"""
Online MKL, pass after pass over a finite set, approaches the optimum that a batch solver certifies
===================================================================================================

    python examples/online_meets_batch.py                          half a minute
    python examples/online_meets_batch.py --epochs 1000 --C 3

Both minimise ``C sum_i hinge(y_i, z_i) + (1/2) (sum_k ||f_k||)^2`` on the breast cancer data that
ships with scikit-learn: the online side as a mean over samples, ``1/m`` of it. The figure shows how
far the last model of every pass lies above the optimum, relative to it, for forward-backward
splitting (Algorithm 1 of Martins et al. 2011) and for regularized dual averaging (Xiao 2010), with
several learning rates. The optimum is known to the gap that is printed.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from omkl import Budget, OnlineMKLClassifier
from omkl.batch import Problem, Spicy
from omkl.cli.console import prepare_output, table, write_json
from omkl.exceptions import MissingDependencyError
from omkl.kernels import Gaussian, Linear, PackedStack
from omkl.losses import Hinge
from omkl.regularizers import SquaredL21
from omkl.reports import plot_panels

PARTS = {
    "means": slice(0, 10),
    "errors": slice(10, 20),
    "extremes": slice(20, 30),
    "all": slice(0, 30),
}
#: Learning rates by name.
RATES = {
    "0.1 / sqrt(t)": "sqrt:eta0=0.1",
    "1 / sqrt(t)": "sqrt:eta0=1",
    "10 / sqrt(t)": "sqrt:eta0=10",
    "1, down to 0": "linear:eta0=1",
    "auto": "auto",
}


class Suboptimality:
    """Callback that records the distance of the objective from its optimum after every pass."""

    def __init__(self, optimum):
        self.optimum = optimum
        self.values = []

    def on_start(self, trainer, source):
        """Remember the examples of the objective."""
        self.examples = source.examples

    def __call__(self, trainer, record):
        """Evaluate the current model."""
        objective = trainer.mean_loss(self.examples) + trainer.current_lambda * trainer.penalty()
        self.values.append(len(self.examples) * objective / self.optimum - 1.0)


def first_below(values, level):
    """Return the number of passes until the distance stays below a level, or a dash."""
    late = np.flatnonzero(np.asarray(values) > level)
    passes = [-1, *late][-1] + 2
    if passes > len(values):
        return "-"
    return passes


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--C", type=float, default=0.3, help="weight of the losses (default 0.3)")
    parser.add_argument(
        "--epochs", type=int, default=200, help="passes over the data (default 200)"
    )
    parser.add_argument(
        "--samples", type=int, default=569, help="how many of the samples to take (default all)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for the figures"
    )
    arguments = parser.parse_args()
    prepare_output(arguments.output / "online_meets_batch.json")

    X, y = load_breast_cancer(return_X_y=True)
    chosen = np.random.default_rng(arguments.seed).permutation(len(y))[: arguments.samples]
    X = scale(X)[chosen]
    y = 2.0 * y[chosen] - 1.0
    kernels = {}
    for name, part in PARTS.items():
        kernels[f"linear, {name}"] = Linear(normalize="average", on=part)
        kernels[f"Gaussian, {name}"] = Gaussian(sigma2=0.5 * (part.stop - part.start), on=part)
    problem = Problem(
        PackedStack.from_kernels(kernels.values(), X, np.float64),
        y,
        Hinge(),
        SquaredL21(),
        arguments.C,
    )
    started = time.process_time()
    optimum = Spicy().solve(problem, tol=1e-6).certificate
    seconds = time.process_time() - started
    print(f"{len(kernels)} kernels, {len(y)} samples")
    print(f"batch optimum {optimum.primal:.6f}, relative gap {optimum.gap:.0e}, {seconds:.2f} s")

    curves = {"fobos": {}, "rda": {}}
    cells = []
    for method, values_of_rates in curves.items():
        for name, learning_rate in RATES.items():
            if method == "rda" and learning_rate.startswith("linear"):
                continue  # its model is the rate times the sum of all gradients: 0 in the end
            excess = Suboptimality(optimum.primal / arguments.C)
            started = time.process_time()
            model = OnlineMKLClassifier(
                kernels,
                loss="hinge",
                C=arguments.C,
                epochs=arguments.epochs,
                method=method,
                learning_rate=learning_rate,
                weighting="norms",
                average=None,
                budget=Budget(dtype="float64"),
                callbacks=[excess],
                verbose=False,
                random_state=arguments.seed,
            ).fit(X, y)
            weights = np.array([model.kernel_weights_[kernel] for kernel in kernels])
            distance = np.abs(weights - optimum.norms / optimum.norms.sum()).max()
            values_of_rates[name] = excess.values
            levels = [first_below(excess.values, level) for level in (0.1, 0.01, 1e-3)]
            cells.append(
                (
                    f"{method}, {name}",
                    f"{excess.values[-1]:.1e}",
                    *levels,
                    f"{distance:.3f}",
                    f"{time.process_time() - started:.1f}",
                )
            )
    header = (
        "method, learning rate",
        "suboptimality",
        "passes to 10 %",
        "1 %",
        "0.1 %",
        "weights off by",
        "CPU, s",
    )
    print("\n".join(table(cells, header)))

    figures = {"optimum": optimum.primal, "gap": optimum.gap, "suboptimality": curves}
    write_json(arguments.output / "online_meets_batch.json", figures)
    try:
        draw(curves, optimum.gap, arguments.output / "online_meets_batch.png")
    except MissingDependencyError as error:
        print(f"No figure: {error}")


def draw(curves, gap, path):
    """Draw the suboptimality of each rate, one panel for each method."""
    panels = []
    for method, values_of_rates in curves.items():
        shown = {}
        for name, values in values_of_rates.items():
            shown[name] = (range(1, len(values) + 1), np.maximum(values, gap))
        panels.append(
            {
                "curves": shown,
                "title": method,
                "xlabel": "passes over the data",
                "ylabel": "relative suboptimality",
                "log": "xy",
            }
        )
    plot_panels([panels], path)


if __name__ == "__main__":
    main()
