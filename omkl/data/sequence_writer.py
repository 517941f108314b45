"""Writing labelled sequences: as attribute lists of CRFsuite, in columns, or as JSON lines."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from omkl.data.files import PathLike, output_file
from omkl.data.json_lines import parse_json
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
        for name, weight in _weighted(str(key), value):
            number = repr(weight).removesuffix(".0")
            yield _escaped(name) if number == "1" else f"{_escaped(name)}:{number}"


def _weighted(key: str, value: Any) -> list[tuple[str, float]]:
    """Names of attributes, and their weights, of one entry of a token."""
    if value is None or value is False:
        return []
    if isinstance(value, NUMBERS):
        value = {None: value}
    elif isinstance(value, str):
        value = [value]
    if isinstance(value, (set, frozenset, np.ndarray)):
        value = _plain(value)
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return [(f"{key}={part}", 1.0) for part in value]
    if isinstance(value, Mapping) and all(
        isinstance(weight, NUMBERS) and isfinite(weight) for weight in value.values()
    ):
        return [(key if name is None else f"{key}={name}", float(weight)) for name, weight in value.items()]
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
    keys = list(x[0]) if isinstance(x[0], Mapping) else None
    lines = ["\t".join([*_cells(token, keys), _cell(_label(label))]) for token, label in zip(x, _known(y))]
    if any(line.startswith("-DOCSTART-") for line in lines):
        raise InputError("a line that begins with -DOCSTART- is no token, but the beginning of a document.")
    return "\n".join([*lines, "", ""])


def _cells(token: Any, keys: Sequence[str] | None) -> list[str]:
    simple = _simple(token) if isinstance(token, Mapping) else {"": token}
    if list(simple) != (keys or [""]) or not all(isinstance(value, str) for value in simple.values()):
        raise InputError("tokens in columns are words, or dicts with the same keys and one string in each.")
    return [_cell(value) for value in simple.values()]


def _cell(text: str) -> str:
    if not text or any(map(str.isspace, text)):
        raise InputError(f"{text!r:.80} is empty or has a space in it, which is between columns.")
    return text


def _as_json(x: Sequence[Any], y: Sequence[Any] | None) -> str:
    tokens = [_simple(token) if isinstance(token, Mapping) else token for token in x]
    line = _json({"x": tokens} if y is None else {"x": tokens, "y": list(y)})
    try:
        parse_json(line.encode(), "it", {})  # check that it can be read
    except DataFileError as error:
        raise InputError(str(error).removeprefix("it: ")) from None
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
    """A token with a string, a number or True in place of a dict that means the same."""
    return {key: _simplest(key, value) if isinstance(value, Mapping) else value for key, value in token.items()}


def _simplest(key: str, value: Mapping[str | None, float]) -> Any:
    if len(value) == 1:
        [(name, weight)] = value.items()
        if name is None or weight == 1:
            return weight if name is None else name
    if None in value:
        raise InputError(f"the entry {key!r:.80} of a token is a number beside strings: CRFsuite's format holds it.")
    return dict(value)


WRITERS: dict[str, Callable[[Sequence[Any], Sequence[Any] | None], str]] = {
    "crfsuite": _as_crfsuite,
    "columns": _as_columns,
    "jsonl": _as_json,
}
