"""Writers of labelled sequences: CRFsuite's attribute lists, columns, or JSON lines."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from omkl._components import check_choice
from omkl._messages import shown
from omkl.data.files import PathLike, output_file
from omkl.data.sequences import parse_json
from omkl.exceptions import InputError

#: Types of numbers in a token.
NUMBERS = (Real, np.bool_)
#: A word, a dict, or a list of attributes or numbers.
Token: TypeAlias = str | Mapping[str, object] | Sequence


def write_sequences(
    path: PathLike, sequences: Iterable[tuple[Sequence[Token], Sequence | None]], format: str
) -> tuple[int, int]:
    """Write labelled sequences.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; ``"-"`` is standard output.
    sequences : iterable of pairs (x, y)
        ``x`` holds tokens: all words, all dicts or all lists of attributes. ``y`` holds labels, or is None.
    format : {"crfsuite", "columns", "jsonl"}
        See :func:`~omkl.data.read_sequences`. ``crfsuite`` accepts dicts and lists of attributes. ``columns`` accepts
        words, and dicts that have the same keys and whose values are single strings.

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
    n_sequences = n_tokens = 0
    with output_file(path) as file:
        for x, y in sequences:
            try:
                text = WRITERS[format](x, y).encode()
            except (ValueError, TypeError, AttributeError) as error:  # JSON and UTF-8 encoders raise them, too
                raise InputError(f"Sequence {n_sequences + 1} cannot be written as {format}: {error}") from None
            file.write(text)
            n_sequences, n_tokens = n_sequences + 1, n_tokens + len(x)
    return n_sequences, n_tokens


def _as_crfsuite(x: Sequence[Token], y: Sequence | None) -> str:
    lines = ["\t".join([_label(label), *_attributes(token)]) for token, label in zip(x, _labels(x, y))]
    return "\n".join([*lines, "", ""])


def _attributes(token: Token) -> Iterator[str]:
    """Yield the attributes of a token, with their weights if these are not 1."""
    if isinstance(token, Mapping):
        for key, value in token.items():
            for name, weight in _weights(str(key), value).items():
                attribute = _escaped(str(key) if name is None else f"{key}={name}")
                yield attribute if weight == 1 else f"{attribute}:{float(weight)!r}".removesuffix(".0")
    elif not isinstance(token, str) and all(isinstance(attribute, str) for attribute in token):
        yield from map(_escaped, token)
    else:
        raise InputError(f"tokens must be dicts or lists of attributes, got {shown(token)}.")


def _weights(key: str, value: object) -> Mapping[Any, Any]:
    """Map each value of a token's entry to its weight; None is the key of the weight of a plain number."""
    if value is None or value is False:
        return {}
    values = _plain(value) if isinstance(value, (set, frozenset, np.ndarray)) else value
    values = [values] if isinstance(values, str) else values
    if "=" not in key:
        if isinstance(values, (list, tuple)) and all(isinstance(part, str) for part in values):
            return Counter(values)
        weights = values if isinstance(values, Mapping) else {None: values}
        if all(isinstance(weight, NUMBERS) and isfinite(weight) for weight in weights.values()):
            return weights
    raise InputError(f"an entry must have a name without = and hold strings or finite numbers, got {key!r}: {value!r}.")


def _escaped(name: str) -> str:
    return _cell(name).replace("\\", "\\\\").replace(":", "\\:")


def _cell(cell: str) -> str:
    if not cell or "\t" in cell or "\n" in cell or "\r" in cell:
        raise InputError(f"a label or attribute must be a string without tabs and line ends, got {cell!r:.80}.")
    return cell


def _labels(x: Sequence[Token], y: Sequence | None) -> Sequence:
    return [None] * len(x) if y is None else y


def _label(label: object) -> str:
    cell = _cell("" if label is None else label if isinstance(label, str) else _json(label))
    if cell.startswith("# "):
        raise InputError(f"a label must not start with '# ', as comments do, got {cell!r:.80}.")
    return cell


def _as_columns(x: Sequence[Token], y: Sequence | None) -> str:
    tokens = [_simple(token) if isinstance(token, Mapping) else {"": token} for token in x]
    rows = [[*token.values(), _label(label)] for token, label in zip(tokens, _labels(x, y))]
    for token, cells in zip(tokens, rows):
        are_words = all(isinstance(cell, str) and cell.split() == [cell] for cell in cells)
        if token.keys() != tokens[0].keys() or not are_words or str(cells[0]).startswith("-DOCSTART-"):
            raise InputError(
                "tokens must be words, or dicts with the same keys and a string without spaces in each, and not "
                f"-DOCSTART-, got {shown(token)}."
            )
    return "\n".join(["\t".join(map(str, cells)) for cells in rows] + ["", ""])


def _as_json(x: Sequence[Token], y: Sequence | None) -> str:
    tokens = [_simple(token) if isinstance(token, Mapping) else token for token in x]
    line = _json({"x": tokens} if y is None else {"x": tokens, "y": list(y)})
    parse_json(line.encode())  # check that it can be read
    return line + "\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    """Convert an array to a list, and a set to a list of strings."""
    if isinstance(value, (set, frozenset)):
        return [str(part) for part in sorted(value)]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise InputError(f"JSON does not hold {shown(value)}.")


def _simple(token: Mapping[str, object]) -> dict[str, object]:
    """Replace dicts with a single value in a token by the equivalent string or number."""
    simple = dict(token)
    for key, value in token.items():
        if isinstance(value, Mapping):
            [(name, weight), *others] = value.items() or [("", 0)]
            if not others and (name is None or weight == 1):
                simple[key] = weight if name is None else name
            elif None in value:
                raise InputError(f"an entry must be a number or strings, got both in {key!r:.80}: crfsuite holds them.")
    return simple


WRITERS: dict[str, Callable[[Sequence[Token], Sequence | None], str]] = {
    "crfsuite": _as_crfsuite,
    "columns": _as_columns,
    "jsonl": _as_json,
}
