"""Parsing and checking of labelled sequences in JSON."""

import json
import re
from itertools import chain
from math import isfinite
from typing import Any

from omkl._messages import shown
from omkl.exceptions import DataFileError

#: JSON that may hold a number beyond the floats, or half of a surrogate pair.
IS_UNUSUAL = re.compile(rb"[eE][+]?\d{3}|\d{300}|\\u[dD]")
PLAIN, NUMBERS = {str, bool, int, float, type(None)}, {bool, int, float}


def parse_json(line: bytes, where: str, first: dict[str, Any]) -> tuple[list, list | None]:
    """Parse a sequence, ``{"x": [...], "y": [...]}``; labels that are lists become tuples.

    ``where`` is the file and line; ``first`` keeps the kind of the tokens of the first sequence, and whether it is
    labelled: others must be the same.
    """
    try:
        record = _loaded(line)
        x, y = record["x"], record.get("y")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataFileError(f'{where}: expected {{"x": [...], "y": [...]}}.') from None
    kind = _kind(x, where)
    labels = None if y is None else _labels(y, len(x), where)
    if first and (labels is not None) != first["is_labelled"]:
        has = 'no "y", but the' if first["is_labelled"] else 'a "y", but none of the'
        raise DataFileError(f"{where}: the sequence has {has} sequences before it have one.")
    if first and kind != first["kind"]:
        raise DataFileError(f"{where}: the tokens are {kind}, but those of sequences before it are {first['kind']}.")
    first |= {"kind": kind, "is_labelled": labels is not None}
    return x, labels


def _loaded(line: bytes) -> Any:
    """Parse JSON; ValueError if a number is not finite, or a string has no encoding."""
    if not IS_UNUSUAL.search(line):
        return json.loads(line, parse_constant=_finite)
    record = json.loads(line, parse_constant=_finite, parse_float=_finite, parse_int=_finite)
    json.dumps(record, ensure_ascii=False).encode()
    return record


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError
    return int(text) if text.lstrip("-").isdigit() else value


def _kind(x: Any, where: str) -> str:
    """The kind of all tokens."""
    if not isinstance(x, list) or not x:
        raise DataFileError(f'{where}: "x" is a list of at least one token, not {shown(x)}.')
    types = set(map(type, x))
    if types == {str}:
        return "words"
    if types == {dict}:
        for token in x:
            for key, value in token.items():
                if type(value) not in PLAIN and not _is_entry(value):
                    raise DataFileError(f"{where}: the entry {key!r:.80} of a token holds {shown(value)}.")
        return "dicts"
    if types == {list}:
        held = set(map(type, chain.from_iterable(x)))
        if held == {str} or not held:
            return "lists of attributes"
        widths = set(map(len, x))
        if held <= NUMBERS and len(widths) == 1:
            return f"lists of {widths.pop()} numbers"
    raise DataFileError(f'{where}: tokens in "x" are words, dicts, lists of attributes, or lists of as many numbers.')


def _is_entry(value: Any) -> bool:
    """Tell whether this is a list of numbers or of strings, or a dict of numbers."""
    if type(value) is dict:
        return set(map(type, value.values())) <= NUMBERS
    types = set(map(type, value)) if type(value) is list else {None}
    return types <= NUMBERS or types <= {str}


def _labels(y: Any, n_tokens: int, where: str) -> list:
    if not isinstance(y, list) or len(y) != n_tokens:
        count = f"{len(y)} labels" if isinstance(y, list) else shown(y)
        raise DataFileError(f'{where}: "y" is a list of a label for each of {n_tokens} tokens, not {count}.')
    labels = [tuple(label) if isinstance(label, list) else label for label in y]
    for label in labels:
        if not set(map(type, label if isinstance(label, tuple) else [label])) <= PLAIN:
            raise DataFileError(f"{where}: a label is a string, a number, or a list of them, not {shown(label)}.")
    return labels
