"""Models as text: a JSON value a line, first the manifest, then the arrays in pieces; the same model comes back."""

import json
from collections.abc import Iterator
from operator import index
from typing import Any

import numpy as np

from omkl import data, estimators
from omkl._files import PathLike, read_archive, write_archive
from omkl.exceptions import ModelFileError

#: How the text of a model begins.
BEGIN = b'{"omkl": '
#: Numbers in a line.
PIECE = 1000
#: Bytes that a value may have.
LARGEST = 2**16


def model_as_text(path: PathLike, output: PathLike) -> int:
    """Write a model file as text; returns how many arrays it has.

    The first line is ``{"omkl": manifest}``; then come the arrays, each with a line for every 1000 of its values in
    the order of its memory: ``{"array": name, "values": [...]}``, the first with shape, dtype and order as well.
    Numbers are the shortest decimals that are read as the same floats.
    """
    estimators.load(path)  # what is none is refused as everywhere
    manifest, arrays = read_archive(path)
    with data.output_file(output) as file:
        file.write(BEGIN + json.dumps(manifest, ensure_ascii=False).encode() + b"}\n")
        for name, array in arrays.items():
            for line in _lines(name, array):
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    return len(arrays)


def _lines(name: str, array: np.ndarray) -> Iterator[dict[str, Any]]:
    in_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    about = {"shape": list(array.shape), "dtype": array.dtype.str, "order": "F" if in_columns else "C"}
    flat = array.ravel("K")
    for low in range(0, max(flat.size, 1), PIECE):
        yield {"array": name, **(about if low == 0 else {}), "values": flat[low : low + PIECE].tolist()}


def model_of_text(path: PathLike, output: PathLike) -> int:
    """Write the model file that a text tells of; returns how many arrays it has.

    Raises
    ------
    omkl.exceptions.ModelFileError
        If a line is none of a model, or an array is not what its first line says. The message names file and line.
    """
    manifest: dict[str, Any] = {}
    about: dict[str, dict[str, Any]] = {}
    pieces: dict[str, list[np.ndarray]] = {}
    for number, line in enumerate(data.lines(path), 1):
        try:
            record = json.loads(line)
            if number == 1:
                manifest = dict(record["omkl"])
                continue
            name = record["array"]
            if name not in pieces:
                _check_first(record)
                about[name], pieces[name] = record, []
            pieces[name].append(_piece(record["values"], np.dtype(about[name]["dtype"])))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
            MemoryError,
            SyntaxError,
        ):
            if line.strip():
                raise ModelFileError(f"{path}, line {number}: this is no line of a model as text.") from None
    arrays = {name: _whole(name, pieces.pop(name), about[name], path) for name in about}
    write_archive("/dev/stdout" if output == "-" else output, manifest, arrays)
    return len(arrays)


def _check_first(record: dict[str, Any]) -> None:
    """Raise a ValueError or TypeError unless this can be the first line of an array."""
    dtype = np.dtype(record["dtype"])  # a SyntaxError, too, for some texts
    if dtype.kind not in "biufU" or dtype.itemsize > LARGEST or record["order"] not in ("C", "F"):
        raise ValueError
    if min((index(size) for size in record["shape"]), default=0) < 0 or len(record["array"].encode()) > LARGEST // 4:
        raise ValueError


def _piece(values: list[Any], dtype: np.dtype) -> np.ndarray:
    """Some values of an array, none of which is altered by its dtype."""
    with np.errstate(over="ignore"):
        piece = np.array(values, dtype)
    if dtype.kind == "f":
        given = np.array(values)
        is_altered = given.dtype.kind not in "iuf" or not np.array_equal(np.isinf(piece), np.isinf(given))
    else:
        is_altered = piece.tolist() != values
    if piece.ndim != 1 or is_altered:
        raise ValueError
    return piece


def _whole(name: str, pieces: list[np.ndarray], about: dict[str, Any], path: PathLike) -> np.ndarray:
    """An array of its pieces."""
    try:
        return np.concatenate(pieces).reshape(about["shape"], order=about["order"])
    except ValueError:
        n = sum(piece.size for piece in pieces)
        raise ModelFileError(f"{path}: the array {name!r} has {n} values, which its shape does not.") from None
