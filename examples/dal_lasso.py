"""
DAL, IST and SpaRSA on the lasso and on sparse logistic regression
==================================================================

    python examples/dal_lasso.py                                  about a minute
    python examples/dal_lasso.py --large 4096 65536 1000000 --dtype float32 --methods dal sparsa

Medium: m samples and n = 4 m columns. Large: m = 1024 and n up to a million. Designs are well
conditioned (independent Gaussian columns) or badly (``U diag(1, 1/2, ..., 1/m) V'``); 4% as many
coefficients as samples are not zero. All stop at the same relative duality gap over all columns, or
at the time limit; skglm, celer and scikit-learn take part where they are installed, at the loosest
of their tolerances that gives that gap. Writes a JSON file and a figure.
"""

import argparse
import time
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
from sklearn.base import clone

from omkl._components import resolve
from omkl.batch import DesignProblem, DesignSolver, LinearModel, as_design, certify
from omkl.cli.console import prepare_output, table, write_json
from omkl.exceptions import MissingDependencyError
from omkl.losses import Logistic, Squared
from omkl.regularizers import L21
from omkl.reports import plot_curves

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
BLOCK = 4096


def design_and_signal(m, n, condition, dtype, rng):
    """Draw a design (m, n) and noisy targets of a sparse model."""
    A = np.empty((m, n), dtype=dtype, order="F")
    if condition == "badly":
        # V has Gaussian columns, which are nearly orthogonal for n >> m
        root = (np.linalg.qr(rng.normal(size=(m, m)))[0] / np.arange(1, m + 1)).astype(dtype)
    for start in range(0, n, BLOCK):
        block = rng.standard_normal((m, min(BLOCK, n - start)), dtype=dtype)
        if condition == "badly":
            block = root @ block
        A[:, start : start + BLOCK] = block
    chosen = rng.choice(n, max(1, m // 25), replace=False)
    signal = A[:, chosen].astype(np.float64) @ rng.normal(size=len(chosen))
    noise = 1.0
    if condition == "badly":
        noise = 0.1 * signal.std()
    return A, signal + noise * rng.normal(size=m)


def time_of_ours(name, problem, gap, limit):
    """Return CPU seconds, whether the gap was reached, and the number of iterations."""
    solver = resolve(DesignSolver, name, "method")
    # loads what is compiled
    solver.solve(problem, max_iter=1)
    started = time.process_time()
    solution = solver.solve(problem, gap, on_iteration=lambda record: record["seconds"] > limit)
    return time.process_time() - started, solution.converged, solution.n_iter


def time_of_peer(name, problem, gap, limit):
    """Return the same for a peer at the loosest tolerance that reaches the gap, if it is there."""
    A = problem.design.matrix
    y = problem.y
    alpha = problem.alpha
    C = 1 / (problem.alpha * len(problem.y))
    try:
        package = import_module({"scikit-learn": "sklearn.linear_model"}.get(name, name))
    except ImportError:
        return None
    if isinstance(problem.loss, Squared):
        estimator = package.Lasso(alpha=alpha)
    elif name == "skglm":
        estimator = package.SparseLogisticRegression(alpha=alpha)
    elif name == "scikit-learn":
        estimator = package.LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear")
    else:
        estimator = package.LogisticRegression(C=C)

    def untrained(tol):
        return clone(estimator).set_params(fit_intercept=False, tol=tol)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # compiles what a peer compiles
        untrained(1e-8).fit(np.asfortranarray(A[:, :200]), y)
        for tol in TOLERANCES:
            started = time.process_time()
            model = untrained(tol).fit(A, y)
            seconds = time.process_time() - started
            w = np.ravel(model.coef_)
            reached = certify(problem, LinearModel(np.flatnonzero(w), w[w != 0])).gap <= gap
            if reached or seconds > limit:
                break
    return seconds, bool(reached), int(np.max(getattr(model, "n_iter_", 0)))


def compare(setting, m, n, condition, arguments):
    """Return one row for each loss and method."""
    A, signal = design_and_signal(
        m, n, condition, arguments.dtype, np.random.default_rng(arguments.random_state)
    )
    for loss in (Squared(), Logistic()):
        target = signal
        if loss.classifies:
            target = np.sign(signal)
        problem = DesignProblem(as_design(A), target, loss, L21(), 1.0, intercept=False)
        problem = problem.at(arguments.share * problem.largest_alpha())
        for method in arguments.methods:
            is_ours = method in ("dal", "ist", "sparsa")
            measure = time_of_ours if is_ours else time_of_peer
            measured = measure(method, problem, arguments.gap, arguments.limit)
            if measured is not None:
                seconds, reached, n_iter = measured
                yield {
                    "setting": setting,
                    "condition": condition,
                    "loss": type(loss).__name__.lower(),
                    "m": m,
                    "n": n,
                    "method": method,
                    "seconds": seconds,
                    "reached": reached,
                    "iterations": n_iter,
                }


def draw(rows, path):
    """Draw seconds against the number of columns in the large setting, squared loss, both
    conditions.
    """
    curves = {}
    for row in rows:
        if row["setting"] == "large" and row["loss"] == "squared" and row["reached"]:
            x, y = curves.setdefault(f"{row['method']}, {row['condition']} conditioned", ([], []))
            x.append(np.log10(row["n"]))
            y.append(np.log10(row["seconds"]))
    try:
        plot_curves(
            curves,
            path,
            "Lasso, m = 1024",
            "log10 of the number of columns",
            "log10 of CPU seconds",
        )
    except MissingDependencyError as error:
        print(error)
    else:
        print(f"Figure in {path}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--medium", type=int, nargs="*", default=[256, 512], help="m of the medium setting"
    )
    parser.add_argument(
        "--large", type=int, nargs="*", default=[4096, 16384], help="n of the large setting"
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=["dal", "sparsa", "ist", "skglm", "celer", "scikit-learn"],
        choices=["dal", "sparsa", "ist", "skglm", "celer", "scikit-learn"],
    )
    parser.add_argument(
        "--share",
        type=float,
        default=0.1,
        help="alpha as a share of the largest useful (default 0.1)",
    )
    parser.add_argument(
        "--gap", type=float, default=1e-3, help="relative duality gap to reach (default 1e-3)"
    )
    parser.add_argument(
        "--limit", type=float, default=2.0, help="seconds one of our methods may take (default 2)"
    )
    parser.add_argument(
        "--dtype", type=np.dtype, default=np.dtype(np.float64), help="float64 (default) or float32"
    )
    parser.add_argument("--random-state", type=int, default=0, metavar="N")
    parser.add_argument(
        "-o", "--output", default="omkl-output", metavar="FOLDER", help="where files go"
    )
    arguments = parser.parse_args()
    prepare_output(Path(arguments.output) / "dal_lasso.json")
    settings = [("medium", m, 4 * m) for m in arguments.medium] + [
        ("large", 1024, n) for n in arguments.large
    ]

    rows = []
    for setting, m, n in settings:
        for condition in ("well", "badly"):
            rows += compare(setting, m, n, condition, arguments)
            print(f"  {setting}, m = {m}, n = {n}, {condition} conditioned: done", flush=True)

    print(
        f"\nCPU seconds to a relative duality gap of {arguments.gap:g} ('> ' where the time limit"
        " came first)"
    )
    times = {}
    for row in rows:
        name = f"{row['loss']}, {row['condition']} conditioned, {row['setting']}"
        seconds = f"{row['seconds']:.3f}"
        if not row["reached"]:
            seconds = f"> {seconds}"
        times.setdefault((name, row["m"], row["n"]), {})[row["method"]] = seconds
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = []
    for problem, by_method in times.items():
        cells.append((*problem, *(by_method.get(method, "") for method in methods)))
    print("\n".join(table(cells, ("problem", "m", "n", *methods))))

    folder = Path(arguments.output)
    write_json(
        folder / "dal_lasso.json", {"gap": arguments.gap, "share": arguments.share, "rows": rows}
    )
    print(f"Figures as JSON in {folder / 'dal_lasso.json'}")
    draw(rows, folder / "dal_lasso.png")


if __name__ == "__main__":
    main()
