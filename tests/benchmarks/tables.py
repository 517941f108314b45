"""Benchmark results as text for a terminal and as a page of the documentation."""

from itertools import groupby, pairwise
from typing import Any

import numpy as np

from tests.benchmarks.reasons import REASONS

#: Largest multiple of the floor that needs no note.
GOOD = 3.0
HEAD = ["hot path", "time", "floor", "multiple", "MB", "omkl's time / peer's", "notes"]


def seconds_in_words(seconds: float) -> str:
    """Three digits with a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1.0 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def cells_of(row: dict, number: int | None = None) -> list[str]:
    """Return one line of the table; ``number`` refers to the note on its multiple of the floor."""
    found = row["extra_info"]
    if "seconds" not in found:
        return [
            name_of(row),
            seconds_in_words(row["stats"]["min"]) + " wall",
            "",
            "",
            "",
            "",
            notes_of(found),
        ]
    peers = [
        f"{name} {p if isinstance(p, str) else format(p, '.2g')}"
        for name, p in found["peers"].items()
    ]
    return [
        name_of(row),
        seconds_in_words(found["seconds"]) + (" wall" if found["clock"] == "wall" else ""),
        f"{seconds_in_words(found['floor'])} {found['floor_kind']}" if found["floor"] else "",
        f"{found['multiple']:.3g}" + (f" [{number}]" if number else "") if found["floor"] else "",
        f"{found['megabytes']:.0f}" if found["megabytes"] >= 1 else "",
        ", ".join(peers),
        notes_of(found),
    ]


def notes_of(found: dict) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in found.get("notes", {}).items()
    )


def name_of(row: dict) -> str:
    """Return the file and the test without their common prefixes."""
    file, _, test = row["fullname"].partition("::")
    file = file.rpartition("/")[2]
    return (
        f"{file.removeprefix('test_').removesuffix('.py')}:"
        f" {test.removeprefix('test_').replace('_', ' ')}"
    )


def reason_of(row: dict) -> str:
    """Return the known reason why a row is above :data:`GOOD` floors, or nothing."""
    file, _, test = row["fullname"].partition("::")
    test = f"{file.rpartition('/')[2]}::{test.partition('[')[0]}"
    return REASONS.get(test, "") if multiple_of(row) > GOOD else ""


def reasons_of(rows: list[dict]) -> dict[str, int]:
    """The reasons of all rows, numbered."""
    return {
        reason: number
        for number, reason in enumerate(dict.fromkeys(filter(None, map(reason_of, rows))), 1)
    }


def multiple_of(row: dict) -> float:
    return row["extra_info"].get("multiple") or 0.0


def growth(rows: list[dict]) -> list[str]:
    """Return the exponents by which the times of tests grow with the size of the input."""
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
            powers = [
                np.log(b[1] / a[1]) / np.log(b[0] / a[0])
                for a, b in pairwise(points)
                if b[0] > a[0]
            ]
            lines.append(
                f"{key}: {', '.join(f'{size:g}' for size, _ in points)}:"
                f" {', '.join(f'{p:.2f}' for p in powers)}"
            )
    return lines


def summary(rows: list[dict]) -> str:
    """Return the number of rows, the time that they took, and how many are near their floors."""
    floored = [row for row in rows if multiple_of(row)]
    near = sum(multiple_of(row) <= GOOD for row in floored)
    wall, cpu, of_peers = (
        sum(row["took"][name] for row in rows) / 60 for name in ("wall", "cpu", "children")
    )
    known = sum(bool(reason_of(row)) for row in floored)
    return (
        f"{len(rows)} rows took {wall:.1f} minutes with all that they need, {cpu + of_peers:.1f} of"
        f" them CPU time, of which {of_peers:.1f} of peers; of {len(floored)} rows with a floor,"
        f" {near} are within {GOOD:g} times of it, {known} say why they are not, and"
        f" {len(floored) - near - known} do not."
    )


def table(rows: list[dict]) -> str:
    """Return the results for a terminal, largest multiples of the floor first."""
    rows = sorted(rows, key=lambda row: -multiple_of(row))
    reasons = reasons_of(rows)
    lines = [HEAD, *(cells_of(row, reasons.get(reason_of(row))) for row in rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(HEAD))]
    text = "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines
    )
    parts = [
        text,
        "\n".join(f"[{number}] {reason}" for reason, number in reasons.items()),
        summary(rows),
    ]
    if powers := growth(rows):
        parts.append(
            "\n".join(
                ["Power of the size by which time grows, from each size to the next:", *powers]
            )
        )
    return "\n\n".join(filter(None, parts))


def page(found: dict[str, Any]) -> str:
    """Return the results as a Markdown page: ratios to peers first, then one section for each file."""
    rows, machine = found["benchmarks"], found["machine"]
    reasons = reasons_of(sorted(rows, key=lambda row: -multiple_of(row)))
    parts = [
        "# Benchmarks",
        (
            "<!-- made by `python -m tests.benchmarks table docs/benchmarks.json -o"
            " docs/benchmarks.md`: do not edit -->"
        ),
        (
            "Time of omkl divided by the time of each peer on the same input: below 1, omkl is"
            " faster. Medians over the rows of the tables below, least and largest ratio in"
            " brackets."
        ),
        _peer_table(rows),
        (
            f"Measured {_when(rows, found)}, on one core of {machine}. Times are CPU seconds of one"
            " call, the least of several rounds, unless marked *wall*. MB is the growth of memory"
            " during a call. The *floor* is the time of the operations that no implementation can"
            " avoid, such as reading these bytes or multiplying these matrices. Measure again with"
            " `python -m tests.benchmarks`."
        ),
        "Versions: "
        + ", ".join(f"{name} {number}" for name, number in found["peers"].items())
        + ".",
    ]
    sections = groupby(
        sorted(rows, key=lambda row: row["fullname"].partition("::")[0]),
        lambda row: name_of(row).partition(":")[0],
    )
    for section, members in sections:
        own = list(members)
        parts += [f"## {section.replace('_', ' ').capitalize()}", _markdown_table(own, reasons)]
        if _when(own, found) != _when(rows, found):
            parts.insert(-1, f"Measured {_when(own, found)}.")
    if reasons:
        parts.append(f"## Above {GOOD:g} times the floor")
        parts.append("\n".join(f"{number}. {reason}" for reason, number in reasons.items()))
    if powers := growth(rows):
        parts += ["## Exponents by which times grow with the size of the input", _bullets(powers)]
    return "\n\n".join(parts) + "\n"


def _peer_table(rows: list[dict]) -> str:
    """One line for each task and peer: the median ratio of times, and the number of rows."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        task = name_of(row).partition(":")[0].replace("_", " ")
        for peer, ratio in row["extra_info"].get("peers", {}).items():
            if not isinstance(ratio, str):
                ratios.setdefault((task, peer), []).append(ratio)
    lines = ["| task | peer | omkl's time / peer's | rows |", "|---|---|---|---|"]
    for (task, peer), found in sorted(ratios.items()):
        spread = f" ({min(found):.2g} to {max(found):.2g})" if len(found) > 1 else ""
        lines.append(f"| {task} | {peer} | {np.median(found):.2g}{spread} | {len(found)} |")
    return "\n".join(lines)


def _when(rows: list[dict], found: dict[str, Any]) -> str:
    """Return the days and commits at which rows were measured."""
    moments = {
        (row["date"], row["commit"][:10]) for row in (row.get("measured", found) for row in rows)
    }
    return " and ".join(f"on {date} at commit {commit}" for date, commit in sorted(moments))


def _markdown_table(rows: list[dict], reasons: dict[str, int]) -> str:
    lines = [cells_of(row, reasons.get(reason_of(row))) for row in rows]
    used = [j for j in range(len(HEAD)) if any(line[j] for line in lines)]
    lines = [[line[0].partition(": ")[2], *line[1:]] for line in lines]
    table = [HEAD, ["---"] * len(HEAD), *lines]
    return "\n".join(
        "| " + " | ".join(line[j].replace("|", "\\|") for j in used) + " |" for line in table
    )


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
