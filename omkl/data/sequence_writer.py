"""Writing labelled sequences: as attribute lists of CRFsuite, in columns, or as JSON lines."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from omkl.data.files import PathLike, output_file
from omkl.data.sequences import parse_json
from omkl.exceptions import DataFileError, InputError

#: Types of numbers in a token.
NUMBERS = (Real, np.bool_)


def write_sequences(path: PathLike, sequences: Iterable[tuple[Any, Any]], format: str) -> tuple[int, int]:
    """Write labelled sequences.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; ``"-"`` is standard output.
    sequences : iterable of pairs (x, y)
        Tokens, all words, dicts or lists of attributes, and labels, or None.
    format : {"crfsuite", "columns", "jsonl"}
        See :func:`~omkl.data.read_sequences`. ``crfsuite`` takes dicts and lists of attributes, ``columns`` words, and
        dicts with the same keys and one string in each.

    Returns
    -------
    n_sequences, n_tokens : int

    Raises
    ------
    omkl.exceptions.InputError
        If the format cannot hold a token or a label; the file stays what it was.
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    """
    if format not in WRITERS:
        raise InputError(f"`format` must be one of {', '.join(map(repr, WRITERS))}, got {format!r}.")
    n_sequences = n_tokens = 0
    with output_file(path) as file:
        for x, y in sequences:
            try:
                text = WRITERS[format](x, y).encode()
            except (InputError, UnicodeEncodeError) as error:
                reason = error if isinstance(error, InputError) else "it holds half of a surrogate pair."
                raise InputError(f"Sequence {n_sequences + 1} cannot be written as {format}: {reason}") from None
            file.write(text)
            n_sequences, n_tokens = n_sequences + 1, n_tokens + len(x)
    return n_sequences, n_tokens


def _as_crfsuite(x: Sequence[Any], y: Sequence[Any] | None) -> str:
    lines = ("\t".join([_label(label), *_attributes(token)]) for token, label in zip(x, _known(y)))
    return "\n".join([*lines, "", ""])


def _attributes(token: Any) -> Iterator[str]:
    """Attributes of a token, with their weights unless they are 1."""
    if isinstance(token, str):
        raise InputError("tokens are words, which have no attributes: make some with omkl.features.token_features.")
    if not isinstance(token, Mapping):
        if not all(isinstance(attribute, str) for attribute in token):
            raise InputError("tokens are vectors: JSON lines hold them.")
        yield from map(_escaped, token)
        return
    for key, value in token.items():
        if "=" in str(key):
            raise InputError(f"the entry {key!r:.80} of a token has an = in its name, which ends names in this format.")
        for name, weight in _weights(key, value).items():
            attribute = _escaped(str(key) if name is None else f"{key}={name}")
            yield attribute if weight == 1 else f"{attribute}:{float(weight)!r}".removesuffix(".0")


def _weights(key: Any, value: Any) -> Mapping[str | None, float]:
    """Weights of the values of one entry of a token; the key None stands for a number without a value."""
    if value is None or value is False:
        return {}
    if isinstance(value, (set, frozenset, np.ndarray)):
        value = _plain(value)
    values = [value] if isinstance(value, str) else value
    if isinstance(values, (list, tuple)) and all(isinstance(part, str) for part in values):
        return Counter(values)
    weights = value if isinstance(value, Mapping) else {None: value}
    if all(isinstance(weight, NUMBERS) and isfinite(weight) for weight in weights.values()):
        return weights
    raise InputError(f"the entry {key!r:.80} of a token is {value!r:.40}, neither strings nor finite numbers.")


def _escaped(name: str) -> str:
    return _clean(name).replace("\\", "\\\\").replace(":", "\\:")


def _clean(cell: str) -> str:
    if "\t" in cell or "\n" in cell or "\r" in cell:
        raise InputError(f"{cell!r:.80} contains a tab or the end of a line.")
    return cell


def _label(label: Any) -> str:
    text = "" if label is None else _clean(label if isinstance(label, str) else _json(label))
    if not text:
        raise InputError("a label is missing or empty.")
    return text


def _known(y: Sequence[Any] | None) -> Sequence[Any]:
    if y is None:
        raise InputError("it has no labels: JSON lines may lack them.")
    return y


def _as_columns(x: Sequence[Any], y: Sequence[Any] | None) -> str:
    tokens = [_simple(token) if isinstance(token, Mapping) else {"": token} for token in x]
    lines = []
    for token, label in zip(tokens, _known(y)):
        cells = [*token.values(), _label(label)]
        if token.keys() != tokens[0].keys() or not all(isinstance(cell, str) for cell in cells):
            raise InputError("tokens in columns are words, or dicts with the same keys and one string in each.")
        for cell in cells:
            if not cell or any(map(str.isspace, cell)):
                raise InputError(f"{cell!r:.80} is empty or has a space in it, which is between columns.")
        lines.append("\t".join(cells))
    if any(line.startswith("-DOCSTART-") for line in lines):
        raise InputError("a line that begins with -DOCSTART- is not a token, but the start of a document.")
    return "\n".join([*lines, "", ""])


def _as_json(x: Sequence[Any], y: Sequence[Any] | None) -> str:
    tokens = [_simple(token) if isinstance(token, Mapping) else token for token in x]
    line = _json({"x": tokens} if y is None else {"x": tokens, "y": list(y)})
    try:
        parse_json(line.encode())  # check that it can be read
    except DataFileError as error:
        raise InputError(str(error)) from None
    return line + "\n"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"it holds something that JSON has not: {error}.") from None


def _plain(value: Any) -> Any:
    """An array as a list, and a set as a list of strings."""
    return [str(part) for part in sorted(value)] if isinstance(value, (set, frozenset)) else value.tolist()


def _simple(token: Mapping[str, Any]) -> dict[str, Any]:
    """A token with a string or a number in place of a dict that means the same."""
    simple = dict(token)
    for key, value in token.items():
        if isinstance(value, Mapping):
            [(name, weight), *others] = value.items() or [("", 0)]
            if not others and (name is None or weight == 1):
                simple[key] = weight if name is None else name
            elif None in value:
                raise InputError(f"the entry {key!r:.80} of a token is a number and strings, for which write crfsuite.")
    return simple


WRITERS: dict[str, Callable[[Sequence[Any], Sequence[Any] | None], str]] = {
    "crfsuite": _as_crfsuite,
    "columns": _as_columns,
    "jsonl": _as_json,
}
