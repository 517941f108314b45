"""Labelled sequences in files: CRFsuite's attribute lists, JSON lines, treebanks, the OCR data set."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

from omkl.data.datasets import read_ocr
from omkl.data.file_streams import Skipped, StreamFormat, stream_files
from omkl.data.files import PathLike, find_files, lines, stem
from omkl.data.json_sequences import record_of
from omkl.data.rows import Block
from omkl.data.streams import Stream
from omkl.data.strings import MISSING
from omkl.data.treebank import Sentence
from omkl.data.treebank_formats import Checks, new_strings
from omkl.data.treebank_reader import treebank_blocks
from omkl.exceptions import DamagedFileError, DataFileError, InputError

#: Sequences in a block: one of words as dicts takes tens of kilobytes.
BLOCK_SIZE = 100
#: A line of CRFsuite's that is longer than so many bytes is none, nor is a sequence with more tokens.
LONGEST_LINE, MOST_TOKENS = 1 << 24, 1 << 22
FORMATS = ("conllu", "crfsuite", "columns", "jsonl", "ocr")
#: The formats that the ends of names stand for.
SUFFIXES = {
    ".conllu": "conllu",
    ".jsonl": "jsonl",
    ".data": "ocr",
    ".columns": "columns",
    ".bio": "columns",
    ".iob": "columns",
}


def guess_format(path: PathLike, otherwise: str | None = None) -> str:
    """The format that the name of a file stands for, or where that says nothing, ``otherwise`` or its first line.

    Raises
    ------
    omkl.exceptions.InputError
        If neither says which it is.
    """
    suffix = Path(stem(path)).suffix
    if suffix in SUFFIXES or suffix == ".crfsuite":
        return SUFFIXES.get(suffix, "crfsuite")
    if otherwise is not None:
        return otherwise
    if not Path(path).is_file():  # a pipe is read once
        return "crfsuite"
    first = _first_line(path)
    # attributes of CRFsuite are behind a tab, and rows of svmlight have colons
    cells = first.split()[1:]
    if cells and b"\t" not in first and not all(b":" in cell for cell in cells):
        return "columns"
    if cells and not any(mark in cell for cell in cells for mark in (b"=", b":")):
        raise InputError(
            f"{path} may hold columns, the last one the label, or labels and attributes as CRFsuite has them: say "
            'which, format="columns" or "crfsuite" (--format).'
        )
    return "crfsuite"


def _first_line(path):
    return next((line for line in lines(path) if _cells_of(line)), b"")


def n_columns_in(path: PathLike) -> int:
    """How many cells the first line of a file of columns has."""
    return len(_first_line(path).split())


def read_sequences(
    path: PathLike, format: str | None = None, folds: Sequence[int] | None = None, *, on_error: str = "raise",
    labelled: bool = True,
) -> tuple[list, list | None]:  # fmt: skip
    """Read labelled sequences.

    Parameters
    ----------
    path : path-like
        Plain or compressed (``.gz``, ``.xz``, ``.bz2``).
    format : {"conllu", "crfsuite", "columns", "jsonl", "ocr"}, optional
        * ``crfsuite``: a line a token, ``label<TAB>attribute<TAB>attribute:value...``, an empty line between
          sequences. The part of an attribute before ``=`` is its template, which is its group.
        * ``columns``: a line a token, cells with spaces or tabs between them, the last one is the label, and an empty
          line between sequences, as CRF++ and CoNLL 2000 to 2003 have it. Tokens are dicts of ``c0``, ``c1``, ...
        * ``jsonl``: a line a sequence, ``{"x": [...], "y": [...]}``; tokens are words, dicts, or lists of numbers.
          ``y`` may be left out where labels are not needed.
        * ``conllu``: words, labels are their UPOS, None for ``_``.
        * ``ocr``: see :func:`~omkl.data.read_ocr`.

        Guessed from the name by default: ``.conllu``, ``.jsonl``, ``.data`` (OCR), ``.crfsuite``, ``.columns``,
        ``.bio`` and ``.iob`` (columns). Other names say nothing: files whose first line has spaces and no tab hold
        columns, pipes and those whose first line has tabs and attributes with ``=`` or ``:`` are CRFsuite's, and of
        others it must be said.
    folds : list of int, optional
        Only these folds of the OCR data set.
    on_error : {"raise", "skip"}
        What to do with sequences that are wrong, as :func:`stream_sequences` has it.
    labelled : bool
        Whether the last column is the label; False makes it one more of the token's.

    Returns
    -------
    X, y : lists of sequences
        ``y`` is None where the file holds no labels.
    """
    format = format or guess_format(path)
    if folds is not None and format != "ocr":
        raise InputError(f"Only the OCR data set has folds, and {path} is read as {format}.")
    if format == "ocr":
        words = read_ocr(path)
        return (words.images, words.letters) if folds is None else words.of_folds(folds)
    if on_error == "skip":
        whole = stream_sequences(path, format, on_error=on_error, labelled=labelled).read()
        return list(whole.X), whole.y
    sequences = list(_reader(format, labelled)(path, Skipped(on_error=on_error)))
    if not sequences:
        raise DataFileError(f"{path} holds no sequence.")
    X, y = map(list, zip(*sequences))
    return X, None if y[0] is None else y


def stream_sequences(
    path: PathLike | Sequence[PathLike], format: str | None = None, *, block_size: int = BLOCK_SIZE,
    on_error: str = "raise", labelled: bool = True,
) -> Stream:  # fmt: skip
    """Stream labelled sequences.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern.
    format : {"conllu", "crfsuite", "columns", "jsonl"}, optional
        As :func:`read_sequences` has them; guessed from the name of the first file by default.
    block_size : int
        Sequences in a block.
    on_error : {"raise", "skip"}
        What to do with sequences that are wrong. Skipped ones are counted in ``skipped``, and a warning at the end of
        a pass says how many they were. A compressed file that is cut short or damaged is read up to there.
    labelled : bool
        As :func:`read_sequences` has it.

    Returns
    -------
    Stream
        X is a list of sequences, y a list of lists of labels, or None where the files hold no labels.

    Raises
    ------
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, at the first sequence that is wrong, or where a file is cut
        short or damaged. The message names file and line.
    """
    paths = find_files(path)
    read_file = _reader(format or guess_format(paths[0]), labelled)

    def read(path, skipped):
        sequences = read_file(path, skipped)
        while block := list(islice(sequences, block_size)):
            X, y = map(list, zip(*block))
            yield Block(X, None if y[0] is None else y)

    return stream_files(paths, read, block_size=block_size, on_error=on_error, noun="sequence")


def _reader(format, labelled=True):
    """What reads the sequences of a file: ``read(path, skipped)`` yields pairs of inputs and labels."""
    readers = {"conllu": _read_tagged, "crfsuite": _read_crfsuite, "columns": _read_columns, "jsonl": _read_jsonl}
    if format == "ocr":
        raise InputError("The OCR data set is read whole: stream it with Stream.from_arrays(*read_sequences(path)).")
    if format not in readers:
        raise InputError(f"Unknown format {format!r}: choose one of {', '.join(FORMATS)}.")
    return readers[format] if labelled or format != "columns" else partial(_read_columns, labelled=False)


def _read_tagged(path, skipped):
    checks = Checks(trees=False, skip=skipped.on_error == "skip")  # a tagger needs no trees
    for block in treebank_blocks("conllu", checks, new_strings())(path, skipped):
        yield from map(tagged, block.X)


def tagged(sentence: Sentence) -> tuple[list[str], list[str | None]]:
    """Words and their UPOS, None where there is none."""
    return sentence.forms, [None if tag == MISSING else tag for tag in sentence.upos]


def _read_crfsuite(path, skipped):
    return _paragraphs(path, skipped, _tokens, bytes.strip)


def _read_columns(path, skipped, labelled=True):
    first: list[int] = []
    return _paragraphs(path, skipped, partial(_rows, n_cells=first, labelled=labelled), _cells_of)


def _cells_of(line):
    """What a line of columns holds: nothing where a document begins (CoNLL 2003)."""
    return b"" if line.startswith(b"-DOCSTART-") else line.strip()


def _paragraphs(path, skipped, parse, content):
    """What ``parse`` makes of lines without an empty one between them; ``content`` of an empty line is empty."""
    paragraph: list[bytes] = []
    for number, line in enumerate(lines(path), 1):
        if content(line):
            paragraph.append(line)
            if len(paragraph) > MOST_TOKENS:
                raise DamagedFileError(f"{path}, line {number}: a sequence of more than {MOST_TOKENS} tokens is none.")
        elif paragraph:
            yield from _attempt(parse, skipped, paragraph, path, number - len(paragraph))
            paragraph = []
    if paragraph:
        yield from _attempt(parse, skipped, paragraph, path, number + 1 - len(paragraph))


def _attempt(parse, skipped, *record):
    """What ``parse`` makes of a record, if that is not refused."""
    try:
        yield parse(*record)
    except DataFileError as error:
        skipped.refuse(str(error))


def _tokens(paragraph, path, first_line):
    tokens, labels = [], []
    for number, line in enumerate(paragraph, first_line):
        label, *attributes = _decoded(line, path, number).split("\t")
        if not label.strip():
            raise DataFileError(f"{path}, line {number}: a token needs a label before its first tab.")
        labels.append(label)
        tokens.append(_attributes(attributes, f"{path}, line {number}"))
    return tokens, labels


def _decoded(line, path, number):
    if len(line) > LONGEST_LINE:
        raise DataFileError(f"{path}, line {number}: {len(line) >> 20} MB are more than a token has.")
    if b"\r" in line:
        raise DataFileError(f"{path}, line {number}: a carriage return inside the line: end lines with a line feed.")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise DataFileError(f"{path}, line {number}: not UTF-8 text.") from None


def _rows(paragraph, path, first_line, n_cells, labelled):
    """Tokens as dicts of their cells, and labels; ``n_cells`` notes how many cells the first line of the file has."""
    least, holding = (2, "a word and a label") if labelled else (1, "a word")
    tokens, labels = [], []
    for number, line in enumerate(paragraph, first_line):
        # as CRF++ does, and not at other spaces, which words may have
        cells = [cell for cell in re.split("[ \t]", _decoded(line, path, number)) if cell]
        n_cells[:] = n_cells or [len(cells)]
        if len(cells) != n_cells[0] or len(cells) < least:
            wanted = f"at least {holding}" if len(cells) < least else f"{n_cells[0]}, as the first line has"
            raise DataFileError(f"{path}, line {number}: {len(cells)} columns, where there should be {wanted}.")
        if labelled:
            labels.append(cells.pop())
        tokens.append({f"c{j}": cell for j, cell in enumerate(cells)})
    return tokens, labels if labelled else None


def _attributes(attributes, where):
    """``template=value`` and ``name:number`` attributes as a token dict; ``\\:`` stands for a colon.

    Several values of one template become one entry, and one that is there several times counts as often; None stands
    for the template without a value, beside others.
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


def _read_jsonl(path, skipped):
    first: dict[str, Any] = {}
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            yield from _attempt(record_of, skipped, line, f"{path}, line {number}", first)


class Sequences(StreamFormat):
    """Labelled sequences, in the format that a subclass is named after: see :func:`stream_sequences`."""

    holds = "sequences"

    def open(self, path: PathLike | Sequence[PathLike], **options: Any) -> Stream:
        """The stream."""
        return stream_sequences(path, next(iter(self.aliases)), **options)


class JSONLines(Sequences):
    """A JSON object a line."""

    aliases = {"jsonl": {}}
    suffixes = (".jsonl",)


class Columns(Sequences):
    """A token a line, in columns."""

    aliases = {"columns": {}}
    suffixes = (".columns", ".bio", ".iob")


class CRFsuite(Sequences):
    """CRFsuite's attribute lists."""

    aliases = {"crfsuite": {}}
    suffixes = (".crfsuite",)
