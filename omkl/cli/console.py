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
    """Create the folder of an output file, before anything is computed.

    There is nothing to do for None and ``-``.

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
    if not ranked:
        return []
    name_width = max(len(name) for name, _ in ranked)
    width = max(10, min(40, shutil.get_terminal_size().columns - name_width - 12))
    largest = ranked[0][1] or 1.0
    lines = []
    for name, weight in ranked:
        bar = "█" * round(width * weight / largest)
        lines.append(f"{name:>{name_width}}  {weight:6.1%}  {bar}")
    return lines


def table(rows: Iterable[Sequence], header: Sequence[str]) -> list[str]:
    """Return the lines of a table with aligned columns.

    All columns but the first are formatted numbers.
    """
    rows = [tuple(map(str, row)) for row in (header, *rows)]
    first_width, *widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for first, *cells in rows:
        aligned = map(str.rjust, cells, widths)
        lines.append("  ".join([first.ljust(first_width), *aligned]))
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def counted(n: int, unit: str) -> str:
    """Return a number with its unit, as in "1 epoch" and "2 epochs"."""
    return f"1 {unit}" if n == 1 else f"{n} {unit}s"


def score_table(records: list[Record], name: str) -> list[str]:
    """Return the lines of a table of counts, precision, recall and F1.

    ``name`` is the entry of the first column.
    """
    rows = []
    for record in records:
        counts = [record["gold"], record["predicted"], record["correct"]]
        scores = [f"{record[score]:.2%}" for score in ("precision", "recall", "f1")]
        rows.append([record[name], *counts, *scores])
    return table(rows, (name, "gold", "predicted", "correct", "precision", "recall", "F1"))


def attachment_lines(scores: dict[str, dict], path: str) -> list[str]:
    """Return a line of attachment scores for each rule of words to ignore."""
    lines = []
    for rule, scores_of_rule in scores.items():
        shares = f"UAS {scores_of_rule['uas']:.2%}"
        if scores_of_rule["las"] is not None:
            shares += f", LAS {scores_of_rule['las']:.2%}"
        n_words = scores_of_rule["words"]
        lines.append(f"{path}, {rule.replace('_', ' ')}: {shares} ({n_words} words)")
    return lines


def entity_line(metrics: Record) -> str:
    """Return the scores of entities as a line of text."""
    line = (
        "Entities: precision {entity_precision:.2%}, recall {entity_recall:.2%}, F1 {entity_f1:.2%}"
    )
    return line.format(**metrics)
