"""Command line of the benchmarks: measure, and print the results as a table.

    python -m tests.benchmarks                        every hot path, file by file: about an hour
    python -m tests.benchmarks --quick                small sizes, a few minutes
    python -m tests.benchmarks -k "prox or trees"     tests whose names match, including studies
    python -m tests.benchmarks list                   list the tests
    python -m tests.benchmarks table FILE...          print the table of earlier runs
    ... table FILE... -o docs/benchmarks.md           write it as a page
    ... table FILE... --json JOINED                   join the runs in one file, too

Times are CPU seconds on one core (BLAS has one thread) unless the row says wall, the least of
several rounds. The ratio beside a peer is omkl's time divided by its time: below 1, omkl is faster.
The extra ``peers`` installs missing peers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.benchmarks.tables import page, table

FOLDER = Path(__file__).parent


def merged(runs: list[dict]) -> dict:
    """Join the results of several runs; a row of a later run replaces an earlier one."""
    rows = {
        row["fullname"]: {"measured": {"date": run["date"], "commit": run["commit"]}, **row}
        for run in runs
        for row in run["benchmarks"]
    }
    return {**runs[-1], "benchmarks": list(rows.values())}


def one_row_a_line(results: dict) -> str:
    """Write JSON with one row a line, so that diffs are short."""
    rows = ",\n".join(map(json.dumps, results["benchmarks"]))
    about = json.dumps({name: value for name, value in results.items() if name != "benchmarks"})
    return f'{about[:-1]}, "benchmarks": [\n{rows}\n]}}\n'


def main() -> int:
    """Run pytest on this folder, and print the results."""
    parser = argparse.ArgumentParser(
        prog="tests.benchmarks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["run", "list", "table"], default="run")
    parser.add_argument("files", nargs="*", metavar="FILE", help="of table: what --json wrote")
    parser.add_argument("-o", metavar="PAGE", help="of table: write it as Markdown")
    parser.add_argument("-k", metavar="EXPR", help="only the benchmarks that match, as in pytest")
    parser.add_argument("--json", metavar="FILE", help="write the figures to this file as well")
    parser.add_argument("--quick", action="store_true", help="small sizes and fewer rounds")
    arguments = parser.parse_args()
    if arguments.what == "table":
        if not arguments.files:
            parser.error("table needs the file that --json wrote")
        results = merged([json.loads(Path(file).read_text()) for file in arguments.files])
        if arguments.json:
            Path(arguments.json).write_text(one_row_a_line(results))
        if arguments.o:
            Path(arguments.o).write_text(page(results))
        else:
            print(table(results["benchmarks"]))
        return 0
    marks = ["not large"] * arguments.quick + ["not study"] * (not arguments.k)
    options = [
        "-q",
        "--timeout=900",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=--import-mode=importlib",
    ]
    if arguments.k:
        options += ["-k", arguments.k]
    if marks:
        options += ["-m", " and ".join(marks)]
    if arguments.what == "list":
        return pytest.main([str(FOLDER), "--collect-only", *options])
    results, code = run_by_file(options, arguments.json)
    if results:
        print("\n" + table(results["benchmarks"]))
    return code


def run_by_file(options: list[str], path: str | None) -> tuple[dict, int]:
    """Run all files; return the results, and the exit code of the first file that failed.

    Each file runs in a process of its own. Its results are written before the next file begins, so
    an interrupted run loses only one file.
    """
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    code = 0
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in sorted(FOLDER.glob("test_*.py")):
            results_of_file = Path(folder) / f"{file.stem}.json"
            started = time.perf_counter()
            command = [
                sys.executable,
                "-m",
                "pytest",
                str(file),
                *options,
                "--benchmark-only",
                "--benchmark-quiet",
            ]
            command += [f"--benchmark-json={results_of_file}", "--tb=line", "-rs"]
            ended = subprocess.run(command, env={**os.environ, **threads}, check=False).returncode
            if ended == pytest.ExitCode.NO_TESTS_COLLECTED:
                continue
            code = code or ended
            if results_of_file.exists() and results_of_file.read_text():
                runs = [json.loads(results_of_file.read_text())]
                if results:
                    runs.insert(0, results)
                results = merged(runs)
                if path:
                    Path(path).write_text(one_row_a_line(results))
            print(f"{file.stem}: {time.perf_counter() - started:.0f} s", flush=True)
    return results, code


if __name__ == "__main__":
    sys.exit(main())
