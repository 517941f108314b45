"""Reading labelled sequences: JSON lines, CRFsuite's attribute lists, columns, treebanks, the OCR data set."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from omkl.data.blocks import Block
from omkl.data.datasets import read_ocr
from omkl.data.file_streams import stream_files
from omkl.data.files import PathLike, find_files, lines, stem
from omkl.data.json_lines import parse_json
from omkl.data.streams import Skipped, Stream
from omkl.data.treebank.reader import TreebankReader
from omkl.data.treebank.strings import MISSING
from omkl.data.treebank.treebank import Sentence, new_strings
from omkl.exceptions import DamagedFileError, DataFileError, InputError

#: Sequences in a block: one of words as dicts takes tens of kilobytes.
BLOCK_SIZE = 100
#: More lines without an empty one are no sequence.
MOST_TOKENS = 1 << 22
#: Suffixes of the files of each format.
SUFFIXES: dict[str, tuple[str, ...]] = {
    "conllu": (".conllu",),
    "crfsuite": (".crfsuite",),
    "columns": (".columns", ".bio", ".iob"),
    "jsonl": (".jsonl",),
    "ocr": (".data",),
}

#: Tokens, and labels, or None if the file has none.
Labelled: TypeAlias = tuple[list, list | None]


def guess_format(path: PathLike, otherwise: str | None = None) -> str:
    """Guess the format of a file of sequences by its suffix, or by its first line if ``otherwise`` is None."""
    suffix = Path(stem(path)).suffix
    found = [name for name, suffixes in SUFFIXES.items() if suffix in suffixes]
    if found or otherwise is not None:
        return [*found, otherwise or ""][0]
    first = _first_line(path) if Path(path).is_file() else b""  # a pipe is read once
    cells = first.split()[1:]
    if cells and b"\t" not in first and not all(b":" in cell for cell in cells):  # not rows of svmlight
        return "columns"
    if cells and not any(mark in cell for cell in cells for mark in (b"=", b":")):
        raise InputError(f'{path} may hold columns or attributes: give format="columns" or "crfsuite" (--format).')
    return "crfsuite"


def _first_line(path: PathLike) -> bytes:
    return next((line for line in lines(path) if _cells_of(line)), b"")


def n_columns_in(path: PathLike) -> int:
    """Number of cells in the first line of a file of columns."""
    return len(_first_line(path).split())


def read_sequences(
    path: PathLike,
    format: str | None = None,
    folds: Sequence[int] | None = None,
    *,
    on_error: str = "raise",
    labelled: bool = True,
) -> tuple[list, list | None]:
    """Read labelled sequences.

    Parameters
    ----------
    path : path-like
        Plain or compressed (``.gz``, ``.xz``, ``.bz2``).
    format : {"conllu", "crfsuite", "columns", "jsonl", "ocr"}, optional
        * ``crfsuite``: a line a token, ``label<TAB>attribute<TAB>attribute:value...``, an empty line between
          sequences. The part of an attribute before ``=`` names its group.
        * ``columns``: a line a token, cells with spaces or tabs between them, the last one is the label, and an empty
          line between sequences, as in CoNLL 2000 to 2003. Tokens are dicts of ``c0``, ``c1``, ...
        * ``jsonl``: a line a sequence, ``{"x": [...], "y": [...]}``; tokens are words, dicts, lists of attributes, or
          lists of numbers. ``y`` is optional.
        * ``conllu``: words, labelled by their UPOS, None for ``_``.
        * ``ocr``: see :func:`~omkl.data.read_ocr`.

        Guessed from the suffix by default: ``.conllu``, ``.jsonl``, ``.data`` (OCR), ``.crfsuite``, and ``.columns``,
        ``.bio`` or ``.iob`` (columns). For other suffixes, the first line decides between columns, with spaces, and
        CRFsuite's attributes, with tabs and with ``=`` or ``:``.
    folds : list of int, optional
        Only these folds of the OCR data set.
    on_error : {"raise", "skip"}
        Treatment of sequences that are wrong; see :func:`stream_sequences`.
    labelled : bool
        Whether the last column is the label. Otherwise, it belongs to the token.

    Returns
    -------
    X, y : lists of sequences
        ``y`` is None if the file holds no labels.
    """
    format = format or guess_format(path)
    if folds is not None and format != "ocr":
        raise InputError(f"Only the OCR data set has folds, and {path} is read as {format}.")
    if format == "ocr":
        words = read_ocr(path)
        return (words.images, words.letters) if folds is None else words.of_folds(folds)
    X, y = stream_sequences(path, format, on_error=on_error, labelled=labelled, block_size=sys.maxsize).read()
    return X, y


def _unzipped(sequences: list[Labelled]) -> tuple[list, list | None]:
    X, y = map(list, zip(*sequences))
    return X, None if y[0] is None else y


def stream_sequences(
    path: PathLike | Sequence[PathLike],
    format: str | None = None,
    *,
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
    labelled: bool = True,
) -> Stream:
    """Stream labelled sequences.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern.
    format : {"conllu", "crfsuite", "columns", "jsonl"}, optional
        See :func:`read_sequences`; guessed from the first file by default.
    block_size : int
        Number of sequences in a block.
    on_error : {"raise", "skip"}
        Treatment of sequences that are wrong. Skipped ones are counted in ``skipped``; a warning at the end of a pass
        tells their number. A compressed file that is cut short or damaged is read up to there.
    labelled : bool
        See :func:`read_sequences`.

    Returns
    -------
    Stream
        X is a list of sequences, y a list of lists of labels, or None if the files hold no labels.

    Raises
    ------
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, at the first sequence that is wrong, or if a file is damaged.
        The message names file and line.
    """
    paths = find_files(path)
    format = format or guess_format(paths[0])
    if format == "ocr":
        raise InputError("The OCR data set is read whole: stream it with Stream.from_arrays(*read_sequences(path)).")
    if format not in SUFFIXES:
        raise InputError(f"`format` must be one of {', '.join(map(repr, SUFFIXES))}, got {format!r}.")

    def read(path: Path, skipped: Skipped) -> Iterator[Block]:
        if format == "conllu":
            reader = TreebankReader("conllu", trees=False, single_root=False, strings=new_strings())
            sequences = (tagged(sentence) for block in reader(path, skipped) for sentence in block.X)
        elif format == "jsonl":
            sequences = _read_jsonl(path, skipped)
        else:
            parse = (
                _parsed_attributes if format == "crfsuite" else partial(_parsed_columns, n_cells=[], labelled=labelled)
            )
            sequences = _read_paragraphs(path, skipped, parse, bytes.strip if format == "crfsuite" else _cells_of)
        while block := list(islice(sequences, block_size)):
            yield Block(*_unzipped(block))

    return stream_files(paths, read, block_size=block_size, on_error=on_error, noun="sequence")


def tagged(sentence: Sentence) -> tuple[list[str], list[str | None]]:
    """The words of a sentence, and their UPOS, None if there is none."""
    return sentence.forms, [None if tag == MISSING else tag for tag in sentence.upos]


def _cells_of(line: bytes) -> bytes:
    """The content of a line of columns: nothing at the start of a document (CoNLL 2003)."""
    return b"" if line.startswith(b"-DOCSTART-") else line.strip()


def _read_paragraphs(
    path: PathLike,
    skipped: Skipped,
    parse: Callable[[list[bytes], PathLike, int], Labelled],
    content: Callable[[bytes], bytes],
) -> Iterator[Labelled]:
    """Parse runs of lines that have content."""
    paragraph: list[bytes] = []
    number = 0
    for number, line in enumerate(chain(lines(path), [b""]), 1):
        if content(line):
            paragraph.append(line)
            if len(paragraph) > MOST_TOKENS:
                raise DamagedFileError(f"{path}, line {number}: no sequence ends in {MOST_TOKENS} lines.")
        elif paragraph:
            try:
                yield parse(paragraph, path, number - len(paragraph))
            except DataFileError as error:
                skipped.refuse(str(error))
            paragraph = []


def _parsed_attributes(paragraph: list[bytes], path: PathLike, first_line: int) -> Labelled:
    tokens, labels = [], []
    for number, line in enumerate(paragraph, first_line):
        label, *attributes = _decoded(line, path, number).split("\t")
        if not label.strip():
            raise DataFileError(f"{path}, line {number}: a token needs a label before its first tab.")
        labels.append(label)
        tokens.append(_attributes(attributes, f"{path}, line {number}"))
    return tokens, labels


def _decoded(line: bytes, path: PathLike, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise DataFileError(f"{path}, line {number}: not UTF-8 text.") from None


def _parsed_columns(
    paragraph: list[bytes], path: PathLike, first_line: int, n_cells: list[int], labelled: bool
) -> Labelled:
    """Tokens as dicts of their cells, and labels; ``n_cells`` keeps the number of cells in the first line."""
    least = 1 + labelled
    tokens, labels = [], []
    for number, line in enumerate(paragraph, first_line):
        # words may have other spaces in them
        cells = [cell for cell in re.split("[ \t]", _decoded(line, path, number)) if cell]
        n_cells[:] = n_cells or [len(cells)]
        if len(cells) != n_cells[0] or len(cells) < least:
            wanted = f"at least {least}" if len(cells) < least else f"{n_cells[0]}, as in the first line"
            raise DataFileError(f"{path}, line {number}: {len(cells)} columns, where there should be {wanted}.")
        if labelled:
            labels.append(cells.pop())
        tokens.append({f"c{j}": cell for j, cell in enumerate(cells)})
    return tokens, labels if labelled else None


def _attributes(attributes: Sequence[str], where: str) -> dict[str, Any]:
    """``template=value`` and ``name:number`` attributes as a dict of a token; ``\\:`` stands for a colon.

    Several values of one template become one entry, a dict of their weights; the key None stands for the template
    without a value.
    """
    token: dict[str, dict[str | None, float]] = {}
    for attribute in filter(None, attributes):
        name, colon, number = attribute.replace("\\\\", "\1").replace("\\:", "\0").rpartition(":")
        if not colon:
            name, number = number, "1"
        try:
            amount = float(number)
        except ValueError:
            amount = float("nan")
        if not isfinite(amount) or "_" in number:
            raise DataFileError(f"{where}: {number!r:.80} is not a number; write a colon in a name as '\\:'.")
        template, equals, value = name.replace("\0", ":").replace("\1", "\\").partition("=")
        values = token.setdefault(template, {})
        own = value if equals else None
        values[own] = values.get(own, 0.0) + amount
    return {template: values[None] if values.keys() == {None} else values for template, values in token.items()}


def _read_jsonl(path: PathLike, skipped: Skipped) -> Iterator[Labelled]:
    first: dict[str, Any] = {}
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            try:
                yield parse_json(line, f"{path}, line {number}", first)
            except DataFileError as error:
                skipped.refuse(str(error))
