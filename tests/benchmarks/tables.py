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
    figures = row["extra_info"]
    cells = dict.fromkeys(HEAD, "")
    cells["hot path"] = name_of(row)
    cells["notes"] = notes_of(figures)
    if "seconds" not in figures:
        cells["time"] = seconds_in_words(row["stats"]["min"]) + " wall"
        return list(cells.values())
    cells["time"] = seconds_in_words(figures["seconds"])
    if figures["clock"] == "wall":
        cells["time"] += " wall"
    if figures["floor"]:
        cells["floor"] = f"{seconds_in_words(figures['floor'])} {figures['floor_kind']}"
        cells["multiple"] = f"{figures['multiple']:.3g}"
        if number:
            cells["multiple"] += f" [{number}]"
    if figures["megabytes"] >= 1:
        cells["MB"] = f"{figures['megabytes']:.0f}"
    peers = []
    for name, ratio in figures["peers"].items():
        peers.append(f"{name} {ratio}" if isinstance(ratio, str) else f"{name} {ratio:.2g}")
    cells["omkl's time / peer's"] = ", ".join(peers)
    return list(cells.values())


def notes_of(figures: dict) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in figures.get("notes", {}).items()
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
    reasons = dict.fromkeys(filter(None, map(reason_of, rows)))
    return {reason: number for number, reason in enumerate(reasons, 1)}


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
            powers = []
            for (size, seconds), (next_size, next_seconds) in pairwise(points):
                if next_size > size:
                    power = np.log(next_seconds / seconds) / np.log(next_size / size)
                    powers.append(f"{power:.2f}")
            sizes = [f"{size:g}" for size, _ in points]
            lines.append(f"{key}: {', '.join(sizes)}: {', '.join(powers)}")
    return lines


def summary(rows: list[dict]) -> str:
    """Return the number of rows, the time that they took, and how many are near their floors."""
    floored = [row for row in rows if multiple_of(row)]
    near = sum(multiple_of(row) <= GOOD for row in floored)
    wall, cpu, of_peers = (
        sum(row["took"][name] for row in rows) / 60 for name in ("wall", "cpu", "children")
    )
    explained = sum(bool(reason_of(row)) for row in floored)
    return (
        f"{len(rows)} rows took {wall:.1f} minutes with all that they need, {cpu + of_peers:.1f} of"
        f" them CPU time, of which {of_peers:.1f} of peers; of {len(floored)} rows with a floor,"
        f" {near} are within {GOOD:g} times of it, {explained} say why they are not,"
        f" and {len(floored) - near - explained} do not."
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
    footnotes = "\n".join(f"[{number}] {reason}" for reason, number in reasons.items())
    paragraphs = [text, footnotes, summary(rows)]
    if powers := growth(rows):
        heading = "Power of the size by which time grows, from each size to the next:"
        paragraphs.append("\n".join([heading, *powers]))
    return "\n\n".join(filter(None, paragraphs))


def page(results: dict[str, Any]) -> str:
    """Return the results as a Markdown page: ratios to peers, then one section for each file."""
    rows = results["benchmarks"]
    reasons = reasons_of(sorted(rows, key=lambda row: -multiple_of(row)))
    versions = [f"{name} {number}" for name, number in results["peers"].items()]
    paragraphs = [
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
            f"Measured {_when(rows, results)}, on one core of {results['machine']}. Times are CPU"
            " seconds of one call, the least of several rounds, unless marked *wall*. MB is the"
            " growth of memory during a call. The *floor* is the time of the operations that no"
            " implementation can avoid, such as reading these bytes or multiplying these matrices."
            " Measure again with `python -m tests.benchmarks`."
        ),
        f"Versions: {', '.join(versions)}.",
    ]
    sections = groupby(
        sorted(rows, key=lambda row: row["fullname"].partition("::")[0]),
        lambda row: name_of(row).partition(":")[0],
    )
    for section, members in sections:
        section_rows = list(members)
        paragraphs.append(f"## {section.replace('_', ' ').capitalize()}")
        if _when(section_rows, results) != _when(rows, results):
            paragraphs.append(f"Measured {_when(section_rows, results)}.")
        paragraphs.append(_markdown_table(section_rows, reasons))
    if reasons:
        paragraphs.append(f"## Above {GOOD:g} times the floor")
        paragraphs.append("\n".join(f"{number}. {reason}" for reason, number in reasons.items()))
    if powers := growth(rows):
        paragraphs.append("## Exponents by which times grow with the size of the input")
        paragraphs.append("\n".join(f"- {power}" for power in powers))
    return "\n\n".join(paragraphs) + "\n"


def _peer_table(rows: list[dict]) -> str:
    """One line for each task and peer: the median ratio of times, and the number of rows."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        task = name_of(row).partition(":")[0].replace("_", " ")
        for peer, ratio in row["extra_info"].get("peers", {}).items():
            if not isinstance(ratio, str):
                ratios.setdefault((task, peer), []).append(ratio)
    lines = ["| task | peer | omkl's time / peer's | rows |", "|---|---|---|---|"]
    for (task, peer), of_rows in sorted(ratios.items()):
        cell = f"{np.median(of_rows):.2g}"
        if len(of_rows) > 1:
            cell += f" ({min(of_rows):.2g} to {max(of_rows):.2g})"
        lines.append(f"| {task} | {peer} | {cell} | {len(of_rows)} |")
    return "\n".join(lines)


def _when(rows: list[dict], results: dict[str, Any]) -> str:
    """Return the days and commits at which rows were measured."""
    runs = [row.get("measured", results) for row in rows]
    moments = {(run["date"], run["commit"][:10]) for run in runs}
    return " and ".join(f"on {date} at commit {commit}" for date, commit in sorted(moments))


def _markdown_table(rows: list[dict], reasons: dict[str, int]) -> str:
    lines = [cells_of(row, reasons.get(reason_of(row))) for row in rows]
    used = [j for j in range(len(HEAD)) if any(line[j] for line in lines)]
    lines = [[line[0].partition(": ")[2], *line[1:]] for line in lines]
    table = [HEAD, ["---"] * len(HEAD), *lines]
    return "\n".join(
        "| " + " | ".join(line[j].replace("|", "\\|") for j in used) + " |" for line in table
    )
