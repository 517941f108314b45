"""What subcommands share: options, metrics as JSON, charts for the terminal."""

import json
import shutil

from omkl._files import replacing


def add_output_options(parser):
    """``--json`` and ``--quiet``."""
    parser.add_argument("--json", metavar="FILE", help="also write the metrics to FILE, as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing, show no progress bar")


def add_input_options(parser):
    """``--format`` and ``--folds`` of a file of sequences."""
    from omkl.data.sequences import FORMATS

    parser.add_argument("--format", choices=FORMATS, help="format of the data; guessed from the file's name by default")
    parser.add_argument("--folds", type=_folds, metavar="N[-M][,...]", help="only these folds of the OCR data set")


def _folds(text):
    folds = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        folds += range(int(first), int(last or first) + 1)
    return folds


def write_json(path, metrics):
    """Write metrics to a JSON file, if one is asked for; the previous file stays until the new one is whole."""
    if path is not None:
        with replacing(path) as file:
            json.dump(metrics, file, indent=1, default=float)
            file.write("\n")


def bar_chart(weights, width=40):
    """Lines of a bar chart of named values in [0, 1], the largest first."""
    if not weights:
        return []
    room = max(len(name) for name in weights)
    width = max(10, min(width, shutil.get_terminal_size().columns - room - 12))
    longest = max(weights.values()) or 1.0
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    return [f"{name:>{room}}  {weight:6.1%}  {'█' * round(width * weight / longest)}" for name, weight in ranked]


def table(rows, header):
    """Lines of a table with aligned columns; the first column is text, the others are numbers as text."""
    rows = [tuple(map(str, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join([row[0].ljust(widths[0])] + [cell.rjust(w) for cell, w in zip(row[1:], widths[1:])]) for row in rows
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]
