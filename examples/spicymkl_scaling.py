"""
How the time of batch MKL grows with the number of kernels, 50 to 6000, and of samples, 500 to 3000
===================================================================================================

    python examples/spicymkl_scaling.py  two of four sets, three minutes and 1 GB
    python examples/spicymkl_scaling.py --data ringnorm splice twonorm waveform --repetitions 10
    python examples/spicymkl_scaling.py --methods spicy-hinge hessian silp --kernels 50 200 1000

Reproduces Figures 5 and 6 of Suzuki and Tomioka (2011), section 6.2: Gaussians on random subsets of
the variables, with random widths and unit trace; 200 training samples, then 20 kernels; a relative
duality gap of 0.01 over all kernels. The paper does not say which C; here it weighs the losses with
20. Times are medians, with the 25th and 75th percentiles in the figure. The exponent is that of a
power of the size, fitted to the medians. A time with a star is that of runs one of which was
stopped by the limit before it was there; with a plus, one gave up.
"""

import argparse
import time
import tracemalloc
from pathlib import Path

import numpy as np
from batch_methods import METHODS, problem_for, run, seconds_of_a_pass, standardized_split, warm_up

from omkl.cli.console import prepare_output, table, write_json
from omkl.exceptions import MissingDependencyError
from omkl.kernels import PackedStack, random_subset_gaussians
from omkl.reports import plot_panels

CHOSEN = ["spicy-logistic", "spicy-hinge", "elastic-logistic", "elastic-hinge"]
KERNELS = (50, 200, 500, 1000, 3000, 6000)
SAMPLES = (500, 1000, 2000, 3000)


def build(data, n_samples, n_kernels, seed):
    """Return packed kernels on a random training set, its labels, and the CPU time of building the
    kernels.
    """
    X, _, y, _ = standardized_split(data, n_samples, seed)
    kernels = list(random_subset_gaussians(n_kernels, X.shape[1], random_state=seed))
    started = time.process_time()
    stack = PackedStack.from_kernels(kernels, X)
    return stack, y.astype(float), time.process_time() - started


def measure(data, sizes, arguments):
    """Return one row for each size (samples, kernels), split and method."""
    for n_samples, n_kernels in sizes:
        for seed in range(arguments.repetitions):
            stack, y, building = build(data, n_samples, n_kernels, seed)
            floor = seconds_of_a_pass(stack)
            for name in arguments.methods:
                _, row, _ = run(
                    name, problem_for(name, stack, y, arguments.C), 0.01, arguments.limit
                )
                yield {
                    "data": data,
                    "samples": n_samples,
                    "kernels": n_kernels,
                    "seed": seed,
                    "method": name,
                    **row,
                    "building": building,
                    "floor": floor,
                }


def peak_memory(data, n_samples, n_kernels, method, C):
    """Return peak memory of building the kernels and of solving, divided by the size of the
    kernels.
    """
    tracemalloc.start()
    stack, y, _ = build(data, n_samples, n_kernels, 0)
    building = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    run(method, problem_for(method, stack, y, C))
    solving = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return building / stack.nbytes, solving / stack.nbytes


def exponent(sizes, times):
    """Fit the exponent of growth of times with size, by least squares of logarithms."""
    if len(sizes) < 2:
        return float("nan")
    slope, _ = np.polyfit(np.log(sizes), np.log(times), 1)
    return float(slope)


def column_of(rows, name):
    return np.array([row[name] for row in rows])


def report(rows, size, methods):
    """Return medians and quartiles of one data set by method, and a table with exponents."""
    sizes = sorted({row[size] for row in rows})
    curves = {}
    cells = []
    for name in methods:
        quartiles = []
        times = [name]
        passes = ["  in passes over all kernels"]
        for n in sizes:
            group = [row for row in rows if row[size] == n and row["method"] == name]
            seconds = column_of(group, "cpu")
            quartiles.append(np.percentile(seconds, (25, 50, 75)))
            times.append(f"{quartiles[-1][1]:.3f}{max(column_of(group, 'end'))}")
            passes.append(f"{np.median(seconds / column_of(group, 'floor')):.1f}")
        low, median, high = np.transpose(quartiles)
        curves[name] = (sizes, median.tolist(), low.tolist(), high.tolist())
        cells.append((*times, f"{exponent(sizes, median):.2f}"))
        cells.append((*passes, ""))
    for key, label in (("floor", "one pass"), ("building", "building the kernels")):
        of_rows = column_of(rows, key)
        medians = [np.median(of_rows[column_of(rows, size) == n]) for n in sizes]
        texts = map("{:.4f}".format, medians)
        cells.append((label, *texts, f"{exponent(sizes, medians):.2f}"))
    return curves, table(cells, (f"CPU seconds by {size}", *sizes, "exponent"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", nargs="+", default=["ringnorm", "splice"], help="names of UCI and IDA sets"
    )
    parser.add_argument("--methods", nargs="+", default=CHOSEN, choices=METHODS)
    parser.add_argument(
        "--kernels", type=int, nargs="*", default=list(KERNELS), help="numbers of kernels"
    )
    parser.add_argument(
        "--few-samples", type=int, default=200, help="samples while the number of kernels grows"
    )
    parser.add_argument(
        "--samples", type=int, nargs="*", default=list(SAMPLES), help="numbers of samples"
    )
    parser.add_argument(
        "--few-kernels", type=int, default=20, help="kernels while the number of samples grows"
    )
    parser.add_argument("--C", type=float, default=20.0)
    parser.add_argument("--repetitions", type=int, default=1, help="random splits (the paper: 10)")
    parser.add_argument(
        "--limit", type=float, default=20.0, help="CPU seconds after which a method is stopped"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for the figures"
    )
    arguments = parser.parse_args()
    prepare_output(arguments.output / "spicymkl_scaling.json")

    warm_up(arguments.methods)
    growing = {
        "kernels": [(arguments.few_samples, m) for m in arguments.kernels],
        "samples": [(n, arguments.few_kernels) for n in arguments.samples],
    }
    rows = []
    panels = []
    for size, sizes in growing.items():
        if not sizes:
            continue
        panels.append([])
        for data in arguments.data:
            rows_of_data = list(measure(data, sizes, arguments))
            quartiles, lines = report(rows_of_data, size, arguments.methods)
            if size == "kernels":
                print(f"\n{data}, {arguments.few_samples} samples")
            else:
                print(f"\n{data}, {arguments.few_kernels} kernels")
            print("\n".join(lines), flush=True)
            rows += rows_of_data
            panels[-1].append(
                {"curves": quartiles, "title": data, "xlabel": size, "ylabel": "CPU s", "log": "xy"}
            )
    memory = []
    cells = []
    for n, m in [sizes[-1] for sizes in growing.values() if sizes]:
        for name in arguments.methods:
            peaks = peak_memory(arguments.data[0], n, m, name, arguments.C)
            memory.append({"method": name, "samples": n, "kernels": m, "peaks": peaks})
            cells.append((name, n, m, *map("{:.2f}".format, peaks)))
    print("\nPeak memory of all arrays, over the bytes of the packed kernels")
    print("\n".join(table(cells, ("method", "samples", "kernels", "building", "solving"))))
    write_json(arguments.output / "spicymkl_scaling.json", {"rows": rows, "peak_memory": memory})
    try:
        plot_panels(panels, arguments.output / "spicymkl_scaling.png")
    except MissingDependencyError as error:
        print(f"No figure: {error}")


if __name__ == "__main__":
    main()
