"""
Duality gap and number of active kernels against time, for each solver
======================================================================

    python examples/duality_gap.py  sonar, C = 20, to a gap of 1e-4: about one minute
    python examples/duality_gap.py --data ionosphere --limit 120 --methods spicy-logistic level silp

After Figure 4 of Suzuki and Tomioka (2011), on the kernels of its section 6.1: 27 of unit trace on
each variable and on all of them. The gap is relative, and over all kernels. SpicyMKL's iterations
are its rounds: it solves on a few kernels, then one pass over all of them tells the gap and which
kernels to add. A method is stopped by the time limit.
"""

import argparse
from pathlib import Path

from batch_methods import METHODS, problem_for, run, standardized_split, warm_up

from omkl.cli.console import prepare_output, table, write_json
from omkl.exceptions import MissingDependencyError
from omkl.kernels import PackedStack, variable_kernels
from omkl.reports import plot_panels

CHOSEN = ["spicy-logistic", "spicy-hinge", "hessian", "level", "simple", "silp"]
GAPS = (1.0, 0.1, 0.01, 1e-3, 1e-4)


def seconds_to(trace, gap):
    """Return the CPU time after which the gap stays below a level, or a dash."""
    late = [i for i, record in enumerate(trace) if not record["gap"] <= gap]
    after = [-1, *late][-1] + 1
    if after == len(trace):
        return "-"
    return f"{trace[after]['cpu']:.2f}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="sonar", help="name of a UCI set")
    parser.add_argument("--C", type=float, default=20.0)
    parser.add_argument("--methods", nargs="+", default=CHOSEN, choices=METHODS)
    parser.add_argument("--tol", type=float, default=1e-4, help="relative duality gap")
    parser.add_argument(
        "--limit", type=float, default=15.0, help="CPU seconds after which a method is stopped"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the split: 80 %% of the samples are for training"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for the figures"
    )
    arguments = parser.parse_args()
    prepare_output(arguments.output / "duality_gap.json")

    X, _, y, _ = standardized_split(arguments.data, 0.8, arguments.seed)
    kernels = PackedStack.from_kernels(variable_kernels(X.shape[1]), X)
    print(
        f"{arguments.data}: {kernels.n_kernels} kernels, {kernels.n_samples} training samples, C ="
        f" {arguments.C:g}"
    )
    warm_up(arguments.methods)
    traces = {}
    cells = []
    for name in arguments.methods:
        problem = problem_for(name, kernels, y.astype(float), arguments.C)
        _, row, traces[name] = run(name, problem, arguments.tol, arguments.limit)
        cells.append(
            (
                name,
                *(seconds_to(traces[name], gap) for gap in GAPS),
                f"{row['cpu']:.2f}",
                f"{row['gap']:.1e}",
                row["active"],
                row["iterations"],
            )
        )
    header = (
        "CPU seconds to a gap of",
        *(f"{gap:g}" for gap in GAPS),
        "in all",
        "last gap",
        "active",
        "outer iter.",
    )
    print("\n".join(table(cells, header)))

    write_json(
        arguments.output / "duality_gap.json",
        {"data": arguments.data, "C": arguments.C, "traces": traces},
    )
    panels = []
    for key, label in (("gap", "relative duality gap"), ("active", "active kernels")):
        curves = {}
        for name, trace in traces.items():
            seconds = [record["cpu"] for record in trace]
            curves[name] = (seconds, [record[key] for record in trace])
        panels.append(
            {
                "curves": curves,
                "title": f"{arguments.data}, C = {arguments.C:g}",
                "xlabel": "CPU time, s",
                "ylabel": label,
                "log": "xy",
            }
        )
    try:
        plot_panels([panels], arguments.output / "duality_gap.png")
    except MissingDependencyError as error:
        print(f"No figure: {error}")


if __name__ == "__main__":
    main()
