"""What the benchmarks have found, as text for a terminal and as a page for the documentation."""

from itertools import groupby, pairwise
from typing import Any

import numpy as np

from tests.benchmarks.reasons import REASONS

#: Multiples of the floor up to which a hot path needs no excuse.
GOOD = 3.0
HEAD = ["hot path", "time", "floor", "multiple", "MB", "omkl's time / peer's", "notes"]


def seconds_in_words(seconds: float) -> str:
    """Three digits with a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1.0 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def cells_of(row: dict, number: int | None = None) -> list[str]:
    """A benchmark's line in the table; ``number`` is that of the reason for its multiple."""
    found = row["extra_info"]
    if "seconds" not in found:
        return [name_of(row), seconds_in_words(row["stats"]["min"]) + " wall", "", "", "", "", notes_of(found)]
    peers = [f"{name} {p if isinstance(p, str) else format(p, '.2g')}" for name, p in found["peers"].items()]
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
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.get("notes", {}).items())


def name_of(row: dict) -> str:
    """File and test, without what all of them have in common."""
    file, _, test = row["fullname"].partition("::")
    file = file.rpartition("/")[2]
    return f"{file.removeprefix('test_').removesuffix('.py')}: {test.removeprefix('test_').replace('_', ' ')}"


def reason_of(row: dict) -> str:
    """Why a row is above :data:`GOOD` floors; nothing where it is not, or where nobody knows."""
    file, _, test = row["fullname"].partition("::")
    test = f"{file.rpartition('/')[2]}::{test.partition('[')[0]}"
    return REASONS.get(test, "") if multiple_of(row) > GOOD else ""


def reasons_of(rows: list[dict]) -> dict[str, int]:
    """The reasons of all rows, numbered."""
    return {reason: number for number, reason in enumerate(dict.fromkeys(filter(None, map(reason_of, rows))), 1)}


def multiple_of(row: dict) -> float:
    return row["extra_info"].get("multiple") or 0.0


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


def summary(rows: list[dict]) -> str:
    """How many rows there are, how long they took with all their peers, and how many are near their floors."""
    floored = [row for row in rows if multiple_of(row)]
    near = sum(multiple_of(row) <= GOOD for row in floored)
    wall, cpu, of_peers = (sum(row["took"][name] for row in rows) / 60 for name in ("wall", "cpu", "children"))
    known = sum(bool(reason_of(row)) for row in floored)
    return (
        f"{len(rows)} rows took {wall:.1f} minutes with all that they need, {cpu + of_peers:.1f} of them CPU time, of "
        f"which {of_peers:.1f} of peers; of {len(floored)} rows with a floor, {near} are within {GOOD:g} times of it, "
        f"{known} say why they are not, and {len(floored) - near - known} do not."
    )


def table(rows: list[dict]) -> str:
    """Worst multiple first, then what has no floor; then how times grow."""
    rows = sorted(rows, key=lambda row: -multiple_of(row))
    reasons = reasons_of(rows)
    lines = [HEAD, *(cells_of(row, reasons.get(reason_of(row))) for row in rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(HEAD))]
    text = "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)
    parts = [text, "\n".join(f"[{number}] {reason}" for reason, number in reasons.items()), summary(rows)]
    if powers := growth(rows):
        parts.append("\n".join(["Power of the size by which time grows, from each size to the next:", *powers]))
    return "\n\n".join(filter(None, parts))


def page(found: dict[str, Any]) -> str:
    """The same as Markdown, a section a file, with what was measured where."""
    rows, machine = found["benchmarks"], found["machine"]
    reasons = reasons_of(sorted(rows, key=lambda row: -multiple_of(row)))
    parts = [
        "# Benchmarks",
        "<!-- made by `python -m tests.benchmarks table docs/benchmarks.json -o docs/benchmarks.md`: do not edit -->",
        f"Every hot path beside its floor and its peers, by `python -m tests.benchmarks`. {summary(rows)}",
        f"Measured {_when(rows, found)}, on one core of {machine}, "
        f"whose {found['cores']} cores were asked for by {found['load']} programs at a time. "
        "Times are CPU seconds of a call, the least of several rounds, unless they are *wall*. A floor is what the "
        "machine cannot do without, measured in turn with the hot path: so many bytes read, a matrix product, numbers "
        "fetched at random; the *multiple* is how many floors it takes. MB is by how much memory grew at most during a "
        "call. A peer has the same input, in turn, in a process of its own; the figure is the quotient of the times: "
        "below 1, omkl takes less. One that is missing, or does not get where omkl gets, is a word. Peers: "
        + ", ".join(f"{name} {number}" for name, number in found["peers"].items())
        + ".",
    ]
    sections = groupby(
        sorted(rows, key=lambda row: row["fullname"].partition("::")[0]), lambda row: name_of(row).partition(":")[0]
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
        parts += ["## Power of the size by which time grows, from each size to the next", _bullets(powers)]
    return "\n\n".join(parts) + "\n"


def _when(rows: list[dict], found: dict[str, Any]) -> str:
    """On which days, and at which commits, rows were measured."""
    moments = {(row["date"], row["commit"][:10]) for row in (row.get("measured", found) for row in rows)}
    return " and ".join(f"on {date} at commit {commit}" for date, commit in sorted(moments))


def _markdown_table(rows: list[dict], reasons: dict[str, int]) -> str:
    lines = [cells_of(row, reasons.get(reason_of(row))) for row in rows]
    used = [j for j in range(len(HEAD)) if any(line[j] for line in lines)]
    lines = [[line[0].partition(": ")[2], *line[1:]] for line in lines]
    table = [HEAD, ["---"] * len(HEAD), *lines]
    return "\n".join("| " + " | ".join(line[j].replace("|", "\\|") for j in used) + " |" for line in table)


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
