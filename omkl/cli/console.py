"""Output of commands: text, tables and bar charts, and metrics as JSON."""

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from omkl._files import check_output
from omkl.data.files import PathLike, output_file

#: JSON values by name.
Record: TypeAlias = dict[str, Any]


def write_json(path: PathLike | None, metrics: Record) -> None:
    """Write metrics to a JSON file (``-`` for standard output), if a path is given."""
    if path is not None:
        with output_file(path) as file:
            file.write(json.dumps(metrics, indent=1, default=float).encode() + b"\n")


def prepare_output(path: PathLike | None) -> None:
    """Create the folder of an output file, before anything is computed; nothing to do for None and
    ``-``.

    Raises
    ------
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    """
    if path is not None and str(path) != "-":
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        check_output(path)


def bar_chart(weights: dict[str, float], n: int | None = None) -> list[str]:
    """Return the lines of a bar chart of the n largest of named values in [0, 1], largest first."""
    ranked = sorted(weights.items(), key=lambda item: -item[1])[:n]
    name_width = max((len(name) for name, _ in ranked), default=0)
    width = max(10, min(40, shutil.get_terminal_size().columns - name_width - 12))
    longest = (ranked[0][1] if ranked else 0.0) or 1.0
    return [
        f"{name:>{name_width}}  {weight:6.1%}  {'█' * round(width * weight / longest)}"
        for name, weight in ranked
    ]


def table(rows: Iterable[Sequence], header: Sequence[str]) -> list[str]:
    """Return the lines of a table with aligned columns; all columns but the first are formatted
    numbers.
    """
    rows = [tuple(map(str, row)) for row in (header, *rows)]
    first, *widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join([name.ljust(first), *map(str.rjust, cells, widths)]) for name, *cells in rows
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def score_table(records: list[Record], name: str) -> list[str]:
    """Return the lines of a table of counts, precision, recall and F1; ``name`` is the entry of the
    first column.
    """
    counts, scores = ("gold", "predicted", "correct"), ("precision", "recall", "f1")
    rows = [
        (row[name], *(row[key] for key in counts), *(f"{row[key]:.2%}" for key in scores))
        for row in records
    ]
    return table(rows, (name, *counts, "precision", "recall", "F1"))


def attachment_lines(scores: dict[str, dict], path: str) -> list[str]:
    """Return a line of attachment scores for each rule of words to ignore."""
    lines = []
    for name, found in scores.items():
        las = "" if found["las"] is None else f", LAS {found['las']:.2%}"
        lines.append(
            f"{path}, {name.replace('_', ' ')}: UAS {found['uas']:.2%}{las} ({found['words']} words)"
        )
    return lines


def entity_line(metrics: Record) -> str:
    """Return the scores of entities as a line of text."""
    line = (
        "Entities: precision {entity_precision:.2%}, recall {entity_recall:.2%}, F1 {entity_f1:.2%}"
    )
    return line.format(**metrics)
