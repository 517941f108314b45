"""
Eight ways of learning the same kernels on three UCI sets: time, accuracy and iterations
========================================================================================

    python examples/spicymkl_uci.py                               one split of each set, minutes
    python examples/spicymkl_uci.py --repetitions 10 --limit 600  the paper's protocol: hours
    python examples/spicymkl_uci.py --methods spicy-logistic spicy-hinge

Reproduces Figure 3 and Table 4 of Suzuki and Tomioka (2011), section 6.1: 27 kernels of unit trace
on each variable and on all of them, 80 % of the samples for training, C = 200, 20 and 2 (the
paper's C is 1 / C), a relative duality gap of 0.01 over all kernels. SpicyMKL and the one-step
method for the elastic net run with the logistic and the hinge loss; HessianMKL, LevelMKL, SimpleMKL
and SILP with the hinge loss at the C that has the block 1-norm's solution. A method that is not
there by the time limit is stopped after its outer iteration, which of SimpleMKL may be long, and
its row is marked with a star, or with a plus if it gave up by itself: compare its gap, not its
time.

"Passes" is the time in units of one pass over all kernels, the floor; "excess" is how far the
model's summed hinge plus the sum of its norms lies above a lower bound that is tight to 1e-4.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from batch_methods import (
    METHODS,
    block_one_optimum,
    problem_for,
    run,
    seconds_of_a_pass,
    standardized_split,
    warm_up,
)

from omkl.cli.console import prepare_output, table, write_json
from omkl.exceptions import MissingDependencyError
from omkl.kernels import PackedStack, variable_kernels
from omkl.reports import plot_panels

SETS = ("pima", "ionosphere", "sonar")
CHOSEN = [name for name in METHODS if "0.1" not in name]
#: Outer iterations in the paper's Table 4, in its order of C = 200, 20, 2.
TABLE_4 = {
    "pima": {
        "spicy-logistic": (21.5, 13.9, 3.2),
        "spicy-hinge": (31.5, 13.6, 7.9),
        "simple": (76.2, 74.9, 24.6),
        "hessian": (15.4, 12.2, 10.2),
        "level": (290.7, 197.9, 30.9),
        "silp": (1020.1, 727.1, 258.0),
    },
    "ionosphere": {
        "spicy-logistic": (24.6, 17.1, 5.4),
        "spicy-hinge": (38.0, 18.3, 7.8),
        "simple": (184.5, 188.6, 57.8),
        "hessian": (11.3, 10.3, 14.4),
        "level": (100.9, 135.6, 65.5),
        "silp": (1810.3, 1580.1, 972.0),
    },
    "sonar": {
        "spicy-logistic": (27.2, 16.8, 4.2),
        "spicy-hinge": (35.2, 16.6, 7.7),
        "simple": (158.3, 204.8, 173.3),
        "hessian": (10.3, 10.6, 19.6),
        "level": (193.0, 194.2, 154.4),
        "silp": (4484.6, 4356.4, 3862.3),
    },
}
TABLE_4_CS = (200.0, 20.0, 2.0)


def measure(data, seed, Cs, methods, tol, limit):
    """Return one row for each C and method on one split."""
    X, X_test, y, y_test = standardized_split(data, 0.8, seed)
    y = y.astype(float)
    fitted = [kernel.fit(X) for kernel in variable_kernels(X.shape[1])]
    kernels = PackedStack.from_kernels(fitted, X)
    floor = seconds_of_a_pass(kernels)
    for C in Cs:
        optimum = block_one_optimum(kernels, y, C)
        for name in methods:
            problem = problem_for(name, kernels, y, C, optimum)
            solution, row, _ = run(name, problem, tol, limit)
            outputs = outputs_of(solution.model, fitted, X_test, X)
            # one solution, if two objectives
            excess = None
            if name == "spicy-hinge" or row["svms"] is not None:
                losses = problem.loss.value(y, solution.certificate.outputs)
                objective = C * losses.sum() + solution.certificate.norms.sum()
                excess = 100 * (objective / optimum.dual - 1)
            yield {
                "data": data,
                "C": C,
                "method": name,
                "seed": seed,
                "kernels": kernels.n_kernels,
                "samples": len(y),
                **row,
                "passes": row["cpu"] / floor,
                "accuracy": 100 * float(np.mean(outputs * y_test > 0)),
                "excess": excess,
            }


def outputs_of(model, kernels, X_test, X):
    """Compute the outputs (n,) of a model on new samples."""
    outputs = np.full(len(X_test), model.intercept)
    for m, coefficients in zip(model.active, model.coefficients):
        outputs += kernels[m](X_test, X) @ coefficients
    return outputs


def runs_of(rows, data, C, method):
    return [row for row in rows if (row["data"], row["C"], row["method"]) == (data, C, method)]


def column_of(rows, name):
    return [row[name] for row in rows]


def summary(rows, key, digits):
    """Format mean and standard deviation, or a dash."""
    values = column_of(rows, key)
    if None in values:
        return "-"
    mean = f"{np.mean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {np.std(values):.{digits}f}"


def papers(data, method, C):
    """Return the outer iterations reported in the paper."""
    by_C = dict(zip(TABLE_4_CS, TABLE_4.get(data, {}).get(method, ())))
    return by_C.get(C, "-")


def report(data, Cs, methods, rows):
    """Return the lines of the table of one data set."""
    cells = []
    for C, name in product(Cs, methods):
        runs = runs_of(rows, data, C, name)
        end = max(column_of(runs, "end"))
        gap = max(column_of(runs, "gap"))
        cells.append(
            (
                f"{C:g}",
                f"{name} {end}",
                summary(runs, "cpu", 2),
                summary(runs, "passes", 0),
                f"{gap:.1e}",
                summary(runs, "accuracy", 1),
                summary(runs, "active", 0),
                summary(runs, "iterations", 0),
                papers(data, name, C),
                summary(runs, "svms", 0),
                summary(runs, "excess", 2),
            )
        )
    header = (
        "C",
        "method",
        "CPU, s",
        "= passes",
        "gap",
        "accuracy, %",
        "active",
        "outer iter.",
        "paper's",
        "SVMs",
        "excess, %",
    )
    return table(cells, header)


def draw(rows, sets, Cs, methods, path):
    """Draw Figure 3: time, accuracy and active kernels against C, one column for each data set."""
    panels = []
    for key, label, log in (
        ("cpu", "CPU time, s", "xy"),
        ("accuracy", "accuracy, %", "x"),
        ("active", "kernels", "xy"),
    ):
        panels.append([])
        for data in sets:
            curves = {}
            for name in methods:
                means = [np.mean(column_of(runs_of(rows, data, C, name), key)) for C in Cs]
                curves[name] = (Cs, means)
            panels[-1].append(
                {"curves": curves, "title": data, "xlabel": "C", "ylabel": label, "log": log}
            )
    plot_panels(panels, path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=list(SETS), help="names of UCI sets")
    parser.add_argument("--C", type=float, nargs="+", default=list(TABLE_4_CS))
    parser.add_argument("--methods", nargs="+", default=CHOSEN, choices=METHODS)
    parser.add_argument(
        "--repetitions", type=int, default=1, help="random splits of each set (the paper: 10)"
    )
    parser.add_argument("--tol", type=float, default=0.01, help="relative duality gap")
    parser.add_argument(
        "--limit", type=float, default=5.0, help="CPU seconds after which a method is stopped"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for the figures"
    )
    arguments = parser.parse_args()
    prepare_output(arguments.output / "spicymkl_uci.json")

    warm_up(arguments.methods)
    rows = []
    for data in arguments.data:
        for seed in range(arguments.repetitions):
            rows += measure(
                data, seed, arguments.C, arguments.methods, arguments.tol, arguments.limit
            )
        print(f"\n{data}: {rows[-1]['kernels']} kernels, {rows[-1]['samples']} training samples")
        print("\n".join(report(data, arguments.C, arguments.methods, rows)), flush=True)
    write_json(arguments.output / "spicymkl_uci.json", {"rows": rows})
    try:
        draw(
            rows,
            arguments.data,
            arguments.C,
            arguments.methods,
            arguments.output / "spicymkl_uci.png",
        )
    except MissingDependencyError as error:
        print(f"No figure: {error}")


if __name__ == "__main__":
    main()
