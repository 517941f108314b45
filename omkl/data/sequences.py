"""Readers and writers of labelled sequences in JSON lines, CRFsuite's format, or columns."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from omkl._components import check_choice
from omkl._messages import shown
from omkl.data.blocks import Block
from omkl.data.files import FileName, PathLike, Paths, find_files, lines, output_file, stem
from omkl.data.streams import Skipped, Stream, stream_files
from omkl.data.treebank.conllu import TreebankReader
from omkl.data.treebank.strings import MISSING
from omkl.data.treebank.treebank import Sentence, new_strings
from omkl.exceptions import DataFileError, InputError

#: Sequences in a block; a sequence of dicts can take tens of kilobytes.
BLOCK_SIZE = 100
#: Suffixes of the files of each format.
SUFFIXES: dict[str, tuple[str, ...]] = {
    "conllu": (".conllu",),
    "crfsuite": (".crfsuite",),
    "columns": (".columns", ".bio", ".iob"),
    "jsonl": (".jsonl",),
}
#: Number of lines whose labels tell comments from tokens.
FIRST_LINES = 10_000
#: Matches JSON that may contain a number outside the range of floats, or an unpaired surrogate.
IS_UNUSUAL = re.compile(rb"[eE][+]?\d{3}|\d{300}|\\u[dD]")
#: Types of numbers in JSON.
NUMBERS = {bool, int, float}
#: Types of values in JSON that hold no other values.
PLAIN = NUMBERS | {str, type(None)}
#: Stand for an escaped backslash and colon while the attributes of CRFsuite are split.
BACKSLASH = "\1"
COLON = "\0"

#: A pair (tokens, labels); labels are None if the file has none.
Labelled: TypeAlias = tuple[list, list | None]
LabelledToken: TypeAlias = tuple[dict[str, Any], str | None]


def guess_format(path: PathLike, otherwise: str | None = None) -> str:
    """Guess the format of a file of sequences by its suffix.

    If the suffix is unknown, return ``otherwise``; if that is None, the first line decides.
    """
    suffix = Path(stem(path)).suffix
    for format, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return format
    if otherwise is not None:
        return otherwise
    first = _first_token(path) if Path(path).is_file() else b""  # a pipe can be read only once
    cells = first.split()[1:]
    if cells and b"\t" not in first and not all(b":" in cell for cell in cells):  # not svmlight
        return "columns"
    if cells and not any(mark in cell for cell in cells for mark in (b"=", b":")):
        raise InputError(
            f'{path} may hold columns or attributes: give format="columns" or format="crfsuite".'
        )
    return "crfsuite"


def _first_token(path: PathLike) -> bytes:
    """Return the first line that is a token; empty if there is none."""
    return next((line for line, is_token in token_lines(path) if is_token), b"")


def n_columns_in(path: PathLike) -> int:
    """Number of cells of the first token of a file of columns."""
    return len(_first_token(path).split())


def read_sequences(
    path: Paths, format: str | None = None, *, on_error: str = "raise", labelled: bool = True
) -> tuple[list, list | None]:
    """Read labelled sequences.

    Parameters
    ----------
    path : path-like or list of path-like
        Plain or compressed (``.gz``, ``.xz``, ``.bz2``).
    format : {"conllu", "crfsuite", "columns", "jsonl"}, optional
        * ``crfsuite``: one token per line, ``label<TAB>attribute<TAB>attribute:value...``, and an
          empty line between sequences. The part of an attribute before ``=`` names its group.
        * ``columns``: one token per line, in cells separated by spaces or tabs, and an empty line
          between sequences, as in CoNLL 2000 to 2003. The last cell is the label. Tokens are dicts
          with keys ``c0``, ``c1``, ... In both formats, a line that starts with ``"# "`` before the
          first token of a sequence is a comment, unless it ends in the label of another line, as a
          token ``#`` does.
        * ``jsonl``: one sequence per line, ``{"x": [...], "y": [...]}``. Tokens are words, dicts,
          lists of attributes, or lists of numbers. ``y`` is optional.
        * ``conllu``: words, labelled with their UPOS, None for ``_``.

        Guessed from the suffix by default: ``.conllu``, ``.jsonl``, ``.crfsuite``, and
        ``.columns``, ``.bio`` or ``.iob`` (columns). For other suffixes, the first line decides:
        columns have spaces, and CRFsuite's attributes have tabs and ``=`` or ``:``.
    on_error : {"raise", "skip"}
        Treatment of invalid sequences; see :func:`stream_sequences`.
    labelled : bool
        Whether the last column is the label. Otherwise it is part of the token.

    Returns
    -------
    X, y : lists of sequences
        ``y`` is None if the file holds no labels.
    """
    X, y = stream_sequences(
        path, format, on_error=on_error, labelled=labelled, block_size=sys.maxsize
    ).read()
    return X, y


def stream_sequences(
    path: Paths,
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
        Treatment of invalid sequences. Skipped sequences are counted in ``skipped``, and a warning
        at the end of a pass gives their number. A truncated or damaged compressed file is read up
        to the damage.
    labelled : bool
        See :func:`read_sequences`.

    Returns
    -------
    Stream
        X is a list of sequences, y a list of lists of labels, or None if the files hold no labels.

    Raises
    ------
    omkl.exceptions.DataFileError
        If a file is missing; during a pass, at the first invalid sequence or if a file is damaged.
        The message names file and line.
    """
    paths = find_files(path)
    format = format or guess_format(paths[0])
    check_choice("format", format, SUFFIXES)

    def read(path: FileName, skipped: Skipped) -> Iterator[Block]:
        if format == "conllu":
            reader = TreebankReader("conllu", trees=False, single_root=False, strings=new_strings())
            sentences = chain.from_iterable(block.X for block in reader(path, skipped))
            sequences: Iterator[Labelled] = map(tagged, sentences)
        elif format == "jsonl":
            sequences = _read_jsonl(path, skipped)
        elif format == "columns":
            sequences = _read_paragraphs(path, skipped, _in_columns(labelled), format)
        else:
            sequences = _read_paragraphs(path, skipped, _in_attributes, format)
        while block := list(islice(sequences, block_size)):
            X, y = map(list, zip(*block))
            yield Block(X, None if y[0] is None else y)

    return stream_files(paths, read, block_size=block_size, on_error=on_error, noun="sequence")


def tagged(sentence: Sentence, column: str = "upos") -> tuple[list[str], list[str | None]]:
    """Return the words of a sentence and their tags, None for missing ones."""
    tags = [None if tag == MISSING else tag for tag in getattr(sentence, column)]
    return sentence.forms, tags


# ---- one token per line --------------------------------------------------------------------------


def token_lines(path: PathLike, format: str = "columns") -> Iterator[tuple[bytes, bool]]:
    """Yield each line of a file in the format "columns" or "crfsuite", and whether it is a token.

    Others are empty lines and, in columns, the marker of a document in CoNLL 2003, or comments
    before a sequence.
    """

    def label(line: bytes) -> tuple:
        """Return the label of a token; in columns also the number of cells."""
        if format == "crfsuite":
            return (line.partition(b"\t")[0],)
        cells = line.split()
        return (len(cells), *cells[-1:])

    all_lines = lines(path)
    first_lines = list(islice(all_lines, FIRST_LINES))
    labels = {label(line) for line in first_lines if not line.startswith(b"# ")}
    is_token = False
    for line in chain(first_lines, all_lines):
        is_comment = line.startswith(b"# ") and not is_token and label(line) not in labels
        is_marker = format == "columns" and line.startswith(b"-DOCSTART-")
        is_token = bool(line.strip()) and not is_comment and not is_marker
        yield line, is_token


def _read_paragraphs(
    path: FileName, skipped: Skipped, parse: Callable[[str], LabelledToken], format: str
) -> Iterator[Labelled]:
    """Parse sequences of non-empty lines, one token per line."""
    tokens: list = []
    labels: list = []
    reason = ""
    end = (b"", False)
    for number, (line, is_token) in enumerate(chain(token_lines(path, format), [end]), 1):
        if is_token and not reason:
            try:
                token, label = parse(line.decode())
                tokens.append(token)
                labels.append(label)
            except UnicodeDecodeError:
                reason = f"{path}, line {number}: not UTF-8 text."
            except DataFileError as error:
                reason = f"{path}, line {number}: {error}"
        elif not is_token:
            if reason:
                skipped.refuse(reason)
            elif tokens:
                yield tokens, None if labels[0] is None else labels
            tokens = []
            labels = []
            reason = ""


def _in_columns(labelled: bool) -> Callable[[str], LabelledToken]:
    """Return a function that parses a line to (dict of cells, label), and counts its cells."""
    n_cells = 0

    def parse(line: str) -> LabelledToken:
        nonlocal n_cells
        # words may contain other whitespace
        cells = [cell for cell in re.split("[ \t]", line) if cell]
        n_cells = n_cells or max(len(cells), 1 + labelled)
        if len(cells) <= labelled:
            raise DataFileError("found 1 column, and the last of at least 2 is the label.")
        if len(cells) != n_cells:
            raise DataFileError(
                f"found {len(cells)} columns for a token, not {n_cells} as in the first line."
            )
        label = cells.pop() if labelled else None
        return {f"c{j}": cell for j, cell in enumerate(cells)}, label

    return parse


def _in_attributes(line: str) -> LabelledToken:
    """Parse a line to a token, as a dict of its weighted attributes, and its label."""
    label, *attributes = line.split("\t")
    if not label.strip():
        raise DataFileError("a token needs a label before its first tab.")
    token: dict[str, dict[str | None, float]] = {}
    for attribute in filter(None, attributes):
        marked = attribute.replace("\\\\", BACKSLASH).replace("\\:", COLON)
        name, colon, number = marked.rpartition(":")
        if not colon:
            name = marked
            number = "1"
        try:
            weight = float(number)
        except ValueError:
            weight = float("nan")
        if not isfinite(weight) or "_" in number:
            raise DataFileError(
                f"{number!r:.80} is not a number; write a colon in a name as '\\:'."
            )
        unmarked = name.replace(COLON, ":").replace(BACKSLASH, "\\")
        template, equals, text = unmarked.partition("=")
        value = text if equals else None
        weights = token.setdefault(template, {})
        weights[value] = weights.get(value, 0.0) + weight
    simple: dict[str, Any] = dict(token)
    for template, weights in token.items():
        if weights.keys() == {None}:
            simple[template] = weights[None]
    return simple, label


# ---- JSON lines ----------------------------------------------------------------------------------


def _read_jsonl(path: FileName, skipped: Skipped) -> Iterator[Labelled]:
    """Parse sequences of a file of JSON lines."""
    kind_of_first = ""
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        try:
            x, y, kind_of_tokens = _parse_json(line)
            kind = f"{kind_of_tokens} with labels"
            if y is None:
                kind = f"{kind_of_tokens} without labels"
            kind_of_first = kind_of_first or kind
            if kind != kind_of_first:
                raise DataFileError(f"expected {kind_of_first}, as in the sequences before it.")
            yield x, y
        except DataFileError as error:
            skipped.refuse(f"{path}, line {number}: {error}")


def _parse_json(line: bytes) -> tuple[list, list | None, str]:
    """Parse ``{"x": [...], "y": [...]}`` to tokens, labels, and the kind of the tokens.

    Lists among the labels become tuples.
    """
    # numbers must be finite, and strings must have an encoding in UTF-8
    number = _finite if IS_UNUSUAL.search(line) else None
    try:
        record = json.loads(line, parse_constant=_finite, parse_float=number, parse_int=number)
        if number is not None:
            json.dumps(record, ensure_ascii=False).encode()
        x = record["x"]
        y = record.get("y")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        x = None
        y = None
    kind = ""
    if isinstance(x, list) and x:
        kind = _kind(x)
    if not isinstance(x, list) or not kind:
        raise DataFileError(
            'expected {"x": [...], "y": [...]}, whose tokens are all words, dicts of strings, '
            "numbers, lists of either and dicts of numbers, lists of attributes, or lists of as "
            f"many numbers, got {shown(x)}."
        )
    if y is None:
        return x, None, kind
    labels: list = []
    types: set[type] = set()
    labels_of_tokens = y if isinstance(y, list) else []
    for label in labels_of_tokens:
        if isinstance(label, list):
            label = tuple(label)
            types.update(map(type, label))
        else:
            types.add(type(label))
        labels.append(label)
    if len(labels) != len(x) or not types <= PLAIN:
        accepted = f"{len(x)} labels, as there are tokens: strings, numbers, or lists of them"
        raise DataFileError(f'"y" must be a list of {accepted}, got {shown(y)}.')
    return x, labels, kind


def _finite(text: str) -> float:
    """Convert a number of JSON; raise ValueError if it is outside the range of floats."""
    value = float(text)
    if not isfinite(value):
        raise ValueError
    if text.lstrip("-").isdigit():
        return int(text)
    return value


def _kind(x: list) -> str:
    """Return the kind of the tokens; empty if they are of different or unknown kinds."""
    types = set(map(type, x))
    if types == {str}:
        return "words"
    if types == {dict} and all(map(_is_entry, chain.from_iterable(token.values() for token in x))):
        return "dicts"
    if types == {list}:
        types_in_lists = set(map(type, chain.from_iterable(x)))
        widths = set(map(len, x))
        if types_in_lists <= {str}:
            return "lists of attributes"
        if types_in_lists <= NUMBERS and len(widths) == 1:
            return f"lists of {widths.pop()} numbers"
    return ""


def _is_entry(value: object) -> bool:
    """Tell whether this is a valid value in a token that is a dict."""
    if isinstance(value, dict):
        return set(map(type, value.values())) <= NUMBERS
    if isinstance(value, list):
        types = set(map(type, value))
        return types <= NUMBERS or types <= {str}
    return type(value) in PLAIN


# ---- writing -------------------------------------------------------------------------------------


#: Types of numbers in a token.
REAL = (Real, np.bool_)
#: A value of a token that is a dict.
Entry: TypeAlias = str | float | np.generic | Mapping[Any, float] | Collection | None
#: A word, a dict, or a list of attributes or numbers.
Token: TypeAlias = str | Mapping[str, Entry] | Sequence


def write_sequences(
    path: PathLike, sequences: Iterable[tuple[Sequence[Token], Sequence | None]], format: str
) -> tuple[int, int]:
    """Write labelled sequences.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; ``"-"`` is standard output.
    sequences : iterable of pairs (x, y)
        ``x`` holds tokens: all words, all dicts or all lists of attributes. ``y`` holds labels, or
        is None.
    format : {"crfsuite", "columns", "jsonl"}
        See :func:`~omkl.data.read_sequences`. ``crfsuite`` accepts dicts and lists of attributes.
        ``columns`` accepts words, and dicts that have the same keys and whose values are single
        strings.

    Returns
    -------
    n_sequences, n_tokens : int

    Raises
    ------
    omkl.exceptions.InputError
        If the format cannot hold a token or a label; an existing file is not changed.
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    """
    check_choice("format", format, WRITERS)
    n_sequences = 0
    n_tokens = 0
    with output_file(path) as file:
        for x, y in sequences:
            if y is None and format != "jsonl":
                y = [None] * len(x)
            try:
                text = WRITERS[format](x, y).encode()
            # encoders of JSON and UTF-8 raise these errors, too
            except (ValueError, TypeError, AttributeError) as error:
                raise InputError(
                    f"Sequence {n_sequences + 1} cannot be written as {format}: {error}"
                ) from None
            file.write(text)
            n_sequences += 1
            n_tokens += len(x)
    return n_sequences, n_tokens


def _as_crfsuite(x: Sequence[Token], y: Sequence) -> str:
    """Write attributes with their weights, if these are not 1."""
    lines = []
    for token, label in zip(x, y):
        cells = [_label(label)]
        if isinstance(token, Mapping):
            for key, value in token.items():
                for name, weight in _weights(str(key), value).items():
                    attribute = str(key)
                    if name is not None:
                        attribute = f"{key}={name}"
                    attribute = _escaped(attribute)
                    if weight != 1:
                        attribute = f"{attribute}:{float(weight)!r}".removesuffix(".0")
                    cells.append(attribute)
        elif not isinstance(token, str) and all(isinstance(attribute, str) for attribute in token):
            cells += map(_escaped, token)
        else:
            raise InputError(f"tokens must be dicts or lists of attributes, got {shown(token)}.")
        lines.append("\t".join(cells))
    return "\n".join([*lines, "", ""])


def _weights(key: str, value: Entry) -> Mapping[Any, Any]:
    """Map each value of a token's entry to its weight; the key of a plain number is None."""
    if value is None or value is False:
        return {}
    values = _plain(value) if isinstance(value, (set, frozenset, np.ndarray)) else value
    if isinstance(values, str):
        values = [values]
    if "=" not in key:
        if isinstance(values, (list, tuple)) and all(isinstance(name, str) for name in values):
            return Counter(values)
        weights = values if isinstance(values, Mapping) else {None: values}
        if all(isinstance(weight, REAL) and isfinite(weight) for weight in weights.values()):
            return weights
    raise InputError(
        "an entry must have a name without = and hold strings or finite numbers, "
        f"got {key!r}: {value!r}."
    )


def _escaped(name: str) -> str:
    """Return the name of an attribute as CRFsuite writes it."""
    return _cell(name).replace("\\", "\\\\").replace(":", "\\:")


def _cell(cell: str) -> str:
    """Return a cell of a table; raise InputError if it is empty, or holds a separator."""
    if not cell or "\t" in cell or "\n" in cell or "\r" in cell:
        raise InputError(
            f"a label or attribute must be a string without tabs and line ends, got {cell!r:.80}."
        )
    return cell


def _label(label: Hashable) -> str:
    """Return a label as a cell; labels that are no strings are JSON."""
    text = ""
    if isinstance(label, str):
        text = label
    elif label is not None:
        text = _json(label)
    cell = _cell(text)
    if cell.startswith("# "):
        raise InputError(f"a label must not start with '# ', as comments do, got {cell!r:.80}.")
    return cell


def _as_columns(x: Sequence[Token], y: Sequence) -> str:
    """Write a token a line: the values of a dict, or a word, and the label."""
    tokens = [_simple(token) if isinstance(token, Mapping) else {"": token} for token in x]
    rows = [[*token.values(), _label(label)] for token, label in zip(tokens, y)]
    for token, cells in zip(tokens, rows):
        are_words = all(isinstance(cell, str) and cell.split() == [cell] for cell in cells)
        has_same_keys = token.keys() == tokens[0].keys()
        is_marker = str(cells[0]).startswith("-DOCSTART-")
        if not are_words or not has_same_keys or is_marker:
            raise InputError(
                "tokens must be words, or dicts with the same keys and a string without spaces in "
                f"each, and not -DOCSTART-, got {shown(token)}."
            )
    lines = ["\t".join(map(str, cells)) for cells in rows]
    return "\n".join([*lines, "", ""])


def _as_json(x: Sequence[Token], y: Sequence | None) -> str:
    """Write a sequence as a line of JSON."""
    tokens = [_simple(token) if isinstance(token, Mapping) else token for token in x]
    record = {"x": tokens}
    if y is not None:
        record["y"] = list(y)
    line = _json(record)
    _parse_json(line.encode())  # check that it can be read
    return line + "\n"


def _json(value: dict[str, list] | Hashable) -> str:
    """Write a value as JSON without NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    """Convert an array to a list, and a set to a list of strings."""
    if isinstance(value, (set, frozenset)):
        return [str(attribute) for attribute in sorted(value)]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise InputError(f"JSON does not hold {shown(value)}.")


def _simple(token: Mapping[str, Entry]) -> dict[str, Entry]:
    """Replace dicts with a single value in a token by the equivalent string or number."""
    simple = dict(token)
    for key, value in token.items():
        if not isinstance(value, Mapping):
            continue
        if value.keys() == {None}:
            simple[key] = value[None]
        elif len(value) == 1 and 1 in value.values():
            (simple[key],) = value
        elif None in value:
            raise InputError(
                f"an entry must be a number or strings, got both in {key!r:.80}: "
                "crfsuite holds them."
            )
    return simple


#: Writers of the sequence x, with labels y, as text; only JSON does without labels.
WRITERS: dict[str, Callable[[Sequence[Token], Any], str]] = {
    "crfsuite": _as_crfsuite,
    "columns": _as_columns,
    "jsonl": _as_json,
}
