"""All benchmarks by one command: a table, and a file of the same figures.

    python -m tests.benchmarks                        every hot path, about a quarter of an hour
    python -m tests.benchmarks --quick                small sizes, a few minutes
    python -m tests.benchmarks -k "prox or trees"     those whose names match, studies included
    python -m tests.benchmarks list                   their names
    python -m tests.benchmarks table benchmarks.json  the table of an earlier run

One core (BLAS has one thread), CPU seconds unless the row says wall; the least of several rounds. A figure beside a
peer's name is the quotient of the times: below 1, omkl takes less. What is missing is in the extra ``peers``.
"""

import argparse
import json
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent


def seconds_in_words(seconds: float) -> str:
    """Three digits with a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1.0 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def cells_of(row: dict) -> list[str]:
    """A benchmark's line in the table."""
    found = row["extra_info"]
    if "seconds" not in found:
        return [name_of(row), seconds_in_words(row["stats"]["min"]) + " wall", "", "", "", "", ""]
    peers = [f"{name} {p if isinstance(p, str) else format(p, '.2g')}" for name, p in found["peers"].items()]
    notes = [f"{name} {value}" for name, value in found["notes"].items()]
    return [
        name_of(row),
        seconds_in_words(found["seconds"]) + (" wall" if found["clock"] == "wall" else ""),
        f"{seconds_in_words(found['floor'])} {found['floor_kind']}" if found["floor"] else "",
        f"{found['multiple']:.3g}" if found["floor"] else "",
        f"{found['megabytes']:.0f}" if found["megabytes"] >= 1 else "",
        ", ".join(peers),
        ", ".join(notes),
    ]


def name_of(row: dict) -> str:
    """File and test, without what all of them have in common."""
    file, _, test = row["fullname"].rpartition("/")[2].partition("::")
    return f"{file.removeprefix('test_').removesuffix('.py')}: {test.removeprefix('test_').replace('_', ' ')}"


def growth(rows: list[dict]) -> list[str]:
    """For each test that was run at several sizes, the power of the size by which its time grows, step by step."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        size = row["extra_info"].get("size")
        if size:
            others = [part for part in row["param"].split("-") if part != f"{size}"]
            key = " ".join([name_of(row).partition("[")[0], *others])
            series.setdefault(key, []).append((size, row["extra_info"]["seconds"]))
    lines = []
    for key, points in series.items():
        points = sorted(set(points))
        if len(points) > 1:
            powers = [np.log(b[1] / a[1]) / np.log(b[0] / a[0]) for a, b in pairwise(points) if b[0] > a[0]]
            lines.append(
                f"{key}: {', '.join(f'{size:g}' for size, _ in points)}: {', '.join(f'{p:.2f}' for p in powers)}"
            )
    return lines


def table(rows: list[dict]) -> str:
    """Worst multiple first, then what has no floor; then how times grow."""
    rows = sorted(rows, key=lambda row: -(row["extra_info"].get("multiple") or 0.0))
    head = ["hot path", "time", "floor", "multiple", "MB", "omkl's time / peer's", "notes"]
    lines = [head, *map(cells_of, rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    text = "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)
    powers = growth(rows)
    return (
        text
        + ("\n\nPower of the size by which time grows, from each size to the next:\n" if powers else "")
        + "\n".join(powers)
    )


def main() -> int:
    """Run pytest on this folder, and print what it has found."""
    parser = argparse.ArgumentParser(
        prog="tests.benchmarks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["run", "list", "table"], default="run")
    parser.add_argument("file", nargs="?", help="of table: what --json wrote")
    parser.add_argument("-k", metavar="EXPR", help="only the benchmarks that match, as in pytest")
    parser.add_argument("--json", metavar="FILE", help="write the figures to this file as well")
    parser.add_argument("--quick", action="store_true", help="small sizes and fewer rounds")
    arguments = parser.parse_args()
    if arguments.what == "table":
        if not arguments.file:
            parser.error("table needs the file that --json wrote")
        print(table(json.loads(Path(arguments.file).read_text())["benchmarks"]))
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
