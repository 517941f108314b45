"""All benchmarks by one command: a table, and a file of the same figures.

    python -m tests.benchmarks                        every hot path, about a quarter of an hour
    python -m tests.benchmarks --quick                small sizes, a few minutes
    python -m tests.benchmarks -k "prox or trees"     those whose names match, studies included
    python -m tests.benchmarks list                   their names
    python -m tests.benchmarks table FILE...          the table of earlier runs, one or several pieces
    ... table FILE... -o docs/benchmarks.md           the same as a page, and with --json as one file

One core (BLAS has one thread), CPU seconds unless the row says wall; the least of several rounds. A figure beside a
peer's name is the quotient of the times: below 1, omkl takes less. What is missing is in the extra ``peers``.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.tables import page, table

FOLDER = Path(__file__).parent


def merged(files: list[str]) -> dict:
    """What several runs have found; of a row that is in more than one, the last one's."""
    runs = [json.loads(Path(file).read_text()) for file in files]
    rows = {row["fullname"]: row for run in runs for row in run["benchmarks"]}
    return {**runs[-1], "benchmarks": list(rows.values())}


def one_row_a_line(found: dict) -> str:
    """JSON of which a change of one row is a change of one line."""
    rows = ",\n".join(json.dumps(row) for row in found["benchmarks"])
    about = json.dumps({name: value for name, value in found.items() if name != "benchmarks"})
    return f'{about[:-1]}, "benchmarks": [\n{rows}\n]}}\n'


def main() -> int:
    """Run pytest on this folder, and print what it has found."""
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
        found = merged(arguments.files)
        if arguments.json:
            Path(arguments.json).write_text(one_row_a_line(found))
        if arguments.o:
            Path(arguments.o).write_text(page(found))
        else:
            print(table(found["benchmarks"]))
        return 0
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    import pytest

    marks = ["not large"] * arguments.quick + ["not study"] * (not arguments.k)
    options = ["-q", "--timeout=900", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    options += ["-k", arguments.k] if arguments.k else []
    options += ["-m", " and ".join(marks)] if marks else []
    if arguments.what == "list":
        return pytest.main([str(FOLDER), "--collect-only", *options])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(arguments.json or Path(folder) / "benchmarks.json").absolute()
        options += ["--benchmark-only", "--benchmark-quiet", f"--benchmark-json={file}", "--tb=line", "-rs"]
        code = pytest.main([str(FOLDER), *options])
        text = file.read_text() if file.exists() else ""
    if text:
        print("\n" + table(json.loads(text)["benchmarks"]))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
