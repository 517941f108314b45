"""A labelled sequence as a JSON object, checked: what training would stop at is refused where it is read."""

import json
import re
import reprlib
from collections.abc import Mapping
from itertools import chain
from math import isfinite
from typing import Any

from omkl.exceptions import DataFileError

#: Lines that may hold a number beyond the floats, or half of a character.
IS_UNUSUAL = re.compile(rb"[eE][+]?\d{3}|\d{300}|\\u[dD]")
#: A line that is longer is none.
LONGEST_LINE = 1 << 25
PLAIN, NUMBERS = {str, bool, int, float, type(None)}, {bool, int, float}


def record_of(line: bytes, where: str, first: dict[str, Any]) -> tuple[list, list | None]:
    """Tokens and labels of ``{"x": [...], "y": [...]}``; labels that are lists become tuples.

    Parameters
    ----------
    line : bytes
    where : str
        File and line, for messages.
    first : dict
        Notes of the first record what its tokens are and whether it has labels; all others must have the same.

    Returns
    -------
    x : list
        Tokens, all words, dicts, lists of attributes, or lists of equally many numbers.
    y : list or None

    Raises
    ------
    omkl.exceptions.DataFileError
        If it is none, or holds numbers that are not finite.
    """
    try:
        record = _parsed(line)
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


def _parsed(line):
    if len(line) > LONGEST_LINE:
        raise ValueError
    if not IS_UNUSUAL.search(line):
        return json.loads(line, parse_constant=_refused)
    record = json.loads(line, parse_constant=_refused, parse_float=_finite, parse_int=_integer)
    json.dumps(record, ensure_ascii=False).encode()  # half of a character has no encoding
    return record


def _refused(text):
    raise ValueError


def _finite(text):
    if not isfinite(value := float(text)):
        raise ValueError
    return value


def _integer(text):
    _finite(text)
    return int(text)


def _kind(x: Any, where: str) -> str:
    """What all tokens are."""
    if not isinstance(x, list) or not x:
        raise DataFileError(f'{where}: "x" is a list of at least one token, not {_shown(x)}.')
    types = set(map(type, x))
    if types == {str}:
        return "words"
    if types == {dict}:
        for token in x:
            if not set(map(type, token.values())) <= PLAIN:
                _check_values(token, where)
        return "dicts"
    if types == {list}:
        held = set(map(type, chain.from_iterable(x)))
        if held == {str} or not held:
            return "lists of attributes"
        widths = set(map(len, x))
        if held <= NUMBERS and len(widths) == 1:
            return f"lists of {widths.pop()} numbers"
    raise DataFileError(f'{where}: tokens in "x" are words, dicts, lists of attributes, or lists of as many numbers.')


def _check_values(token: Mapping[str, Any], where: str) -> None:
    for key, value in token.items():
        of_list = type(value) is list and (set(map(type, value)) <= NUMBERS or set(map(type, value)) <= {str})
        of_dict = type(value) is dict and set(map(type, value.values())) <= NUMBERS
        if not (type(value) in PLAIN or of_list or of_dict):
            what = "is a string, a number, a list of strings or of numbers, or a dict of numbers"
            raise DataFileError(f"{where}: the entry {key!r:.80} of a token {what}, not {_shown(value)}.")


def _labels(y: Any, n_tokens: int, where: str) -> list:
    if not isinstance(y, list) or len(y) != n_tokens:
        count = f"{len(y)} labels" if isinstance(y, list) else _shown(y)
        raise DataFileError(f'{where}: "y" is a list of a label for each of {n_tokens} tokens, not {count}.')
    labels = [tuple(label) if isinstance(label, list) else label for label in y]
    for label in labels:
        if not set(map(type, label if isinstance(label, tuple) else [label])) <= PLAIN:
            raise DataFileError(f"{where}: a label is a string, a number, or a list of them, not {_shown(label)}.")
    return labels


def _shown(value: Any) -> str:
    return reprlib.repr(value)[:80]
