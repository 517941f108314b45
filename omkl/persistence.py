"""Conversion of parameters and components to JSON and arrays; nothing is executed when these are
read.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from omkl._components import Component, family
from omkl.exceptions import InputError, MissingDependencyError, ModelFileError

#: JSON values of a model file, by name.
Manifest: TypeAlias = dict[str, Any]
#: Arrays of a model file, by name.
Arrays: TypeAlias = dict[str, np.ndarray]
#: Subpackages whose public components a file can refer to. Components of users are found in the
#: subclasses of Component. Nothing else is loaded by name.
SUBPACKAGES = ("batch", "groups", "kernels", "losses", "online", "regularizers", "structures")


class Packer:
    """Converter of parameters and components to JSON values; arrays are added to ``arrays``."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}

    def pack(self, value: object, what: str) -> Any:
        """Convert a value to JSON; ``what`` is its name in errors."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic):
            return self.pack(value.item(), what)
        if hasattr(value, "__array__"):  # NumPy, pandas, polars and others
            array, name = np.asarray(value), f"part{len(self.arrays)}"
            if array.dtype.hasobject:
                return {"objects": [self.pack(item, what) for item in array.tolist()]}
            self.arrays[name] = array
            return {"array": name}
        value = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        if isinstance(value, (list, tuple, range)):
            return {
                "tuple" if isinstance(value, tuple) else "list": [
                    self.pack(item, what) for item in value
                ]
            }
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        if isinstance(value, dict):
            return {"items": [[self.pack(own, what) for own in pair] for pair in value.items()]}
        if isinstance(value, Component):
            cls = type(value)
            name = cls.__module__.split(".")[1] if cls.__module__.startswith("omkl.") else ""
            is_public = name in SUBPACKAGES and component_of(name, cls.__name__) is cls
            return {
                "part": f"{name if is_public else 'user'}.{cls.__name__}",
                "parameters": {
                    key: self.pack(own, what) for key, own in value.parameters().items()
                },
                "learned": {key: self.pack(own, what) for key, own in value.learned().items()},
            }
        if callable(value):
            return {"user": getattr(value, "__name__", "function")}
        raise ModelFileError(
            f"{what} holds a {type(value).__name__}, which cannot be saved in a model file."
        )


class Unpacker:
    """Inverse of :class:`Packer`; ``parts`` are the user's classes and functions, which files
    cannot store.
    """

    def __init__(self, arrays: Arrays, parts: Mapping[str, object]) -> None:
        self.arrays = arrays
        self.parts = parts

    def unpack(self, value: object) -> Any:
        """Convert a JSON value to the original value."""
        if not isinstance(value, dict):
            return value
        if "part" in value:
            subpackage, _, name = value["part"].partition(".")
            cls = (
                subpackage in SUBPACKAGES and component_of(subpackage, name)
            ) or self.users_class(name, Component)
            component = cls(**{key: self.unpack(item) for key, item in value["parameters"].items()})
            learned = {key: self.unpack(item) for key, item in value["learned"].items()}
            if unknown := [key for key in learned if key.startswith("_") or not key.endswith("_")]:
                raise ModelFileError(f"No component learns {unknown[0]!r}.")
            component.__dict__.update(learned)
            return component
        ((kind, content),) = value.items()
        if kind == "array":
            return self.arrays[content]
        if kind == "slice":
            return slice(*content)
        if kind == "user":
            return self._users_own(content)
        if kind == "items":
            return {self.unpack(key): self.unpack(item) for key, item in content}
        makers: dict[str, Callable] = {"list": list, "tuple": tuple, "objects": object_array}
        return makers[kind]([self.unpack(item) for item in content])

    def users_class(self, name: str, base: type) -> Callable:
        """Return a class in ``parts``, or the only class of a user with this name in a family."""
        if name in self.parts:
            return self._users_own(name)
        candidates = [
            cls
            for cls in family(base)
            if cls.__name__ == name and not cls.__module__.startswith("omkl.")
        ]
        # a redefined class, as in a notebook, replaces the old class
        is_the_only_one = len({cls.__module__ for cls in candidates}) == 1
        return candidates[-1] if is_the_only_one else self._users_own(name)

    def _users_own(self, name: str) -> Any:
        if name not in self.parts:
            raise ModelFileError(
                f"The model uses {name!r}, no component of omkl: pass it, load(path, parts={{{name!r}: ...}})."
            )
        return self.parts[name]


def pack_json(value: object) -> np.ndarray:
    """Return a JSON value, with any strings, as an array for a model file."""
    return np.frombuffer(
        json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"), np.uint8
    )


def unpack_json(array: np.ndarray) -> Any:
    """The inverse of :func:`pack_json`."""
    return json.loads(array.tobytes().decode("utf-8", "surrogatepass"))


def object_array(items: Sequence) -> np.ndarray:
    """Return a list as a one-dimensional array of objects."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def component_of(subpackage: str, name: str) -> type[Component] | None:
    """Find a public component by its name."""
    module = import_module(f"omkl.{subpackage}")
    found = getattr(module, name) if name in module.__all__ else None
    return found if isinstance(found, type) and issubclass(found, Component) else None


@contextmanager
def holds_whole(
    where: str,
    what: str,
    clear: tuple[type[Exception], ...] = (ModelFileError, MissingDependencyError),
) -> Iterator[None]:
    """Convert errors from inconsistent files to ModelFileError, except for the classes in
    ``clear``.
    """
    try:
        yield
    except clear:
        raise
    except Exception as error:
        said = " ".join(str(error).split())
        held = "a whole" if not isinstance(error, MemoryError) else "within this memory a"
        raise ModelFileError(
            f"{where} does not hold {held} {what} ({type(error).__name__}: {said:.300})."
        ) from None


def check_labels(labels: Iterable[object]) -> None:
    """Raise InputError unless labels are strings, numbers, booleans, None, or tuples of them."""
    for label in labels:
        if isinstance(label, tuple):
            check_labels(label)
        elif not (label is None or isinstance(label, (str, int, float, bool))):
            raise InputError(
                f"The label {label!r} cannot be saved: use strings, numbers or tuples of them."
            )


def check_state(arrays: Mapping[str, np.ndarray], where: str) -> None:
    """Raise ModelFileError unless the arrays of a model's state, with ``/`` in their names, are
    finite.
    """
    for name, array in arrays.items():
        if "/" not in name:
            continue
        with np.errstate(
            all="ignore"
        ):  # a finite sum implies finite numbers, and needs no temporary array
            is_number, is_float = array.dtype.kind in "biuf", array.dtype.kind == "f"
            is_finite = is_number and (
                not is_float or np.isfinite(array.sum()) or np.isfinite(array).all()
            )
        if not is_finite:
            raise ModelFileError(
                f"{where} has non-finite numbers in {name!r}: training may have diverged."
            )


def rounded(
    arrays: Arrays, dtype: str | None, names: tuple[str, ...]
) -> tuple[Arrays, dict[str, list]]:
    """Round the weights of a model without training state to ``dtype``; ``names`` are suffixes of
    their names.

    Support vectors are rounded to float32 unless numbers overflow or underflow. Other weights are
    first multiplied by a power of two, so that the largest weight of an array has exponent 15, the
    maximum of float16. Returns the arrays, and for each rounded array the original dtype and the
    exponent of this power.
    """
    small, how = dict(arrays), dict[str, list]()
    if dtype is None:
        return small, how
    for name, array in arrays.items():
        largest = float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else 0.0
        if "/support:" in name and 1e-30 < largest < 1e38:
            small[name], how[name] = array.astype(np.float32), [array.dtype.str, 0]
        elif name.endswith(names) and largest:
            exponent = 16 - int(np.frexp(largest)[1]) if dtype == "float16" else 0
            small[name], how[name] = (
                np.ldexp(array, exponent).astype(dtype),
                [array.dtype.str, exponent],
            )
    return small, how


def restored(arrays: Arrays, how: Mapping[str, list]) -> Arrays:
    """Restore the scale and dtype of arrays; ``how`` is the second result of :func:`rounded`."""
    known = {name: arrays[name].astype(dtype, copy=False) for name, (dtype, _) in how.items()}
    scaled = {
        name: np.ldexp(known[name], -exponent) for name, (_, exponent) in how.items() if exponent
    }
    return {**arrays, **known, **scaled}


def without_zeros(arrays: Arrays) -> tuple[Arrays, dict[str, list[int]]]:
    """Replace arrays with many zeros by their other numbers, and a bit for each number; return also
    their shapes.
    """
    small, shapes = dict(arrays), dict[str, list[int]]()
    for name, array in arrays.items():
        places = array != 0
        bits, n_numbers = np.packbits(places), np.count_nonzero(places)
        is_table = array.dtype.kind == "f" and array.flags.c_contiguous
        if is_table and bits.nbytes + n_numbers * array.itemsize < array.nbytes:
            small[name], small[f"{name}:places"], shapes[name] = (
                array[places],
                bits,
                list(array.shape),
            )
    return small, shapes


def with_zeros(arrays: Arrays, shapes: Mapping[str, list[int]]) -> Arrays:
    """Restore arrays; ``shapes`` is the second result of :func:`without_zeros`."""
    whole = dict(arrays)
    for name, shape in shapes.items():
        numbers, bits, size = whole[name], whole.pop(f"{name}:places"), math.prod(shape)
        if len(bits) != -(-size // 8):
            raise ValueError(f"{name} has {len(bits)} bytes of places, not {size} bits")
        places, array = np.unpackbits(bits, count=size).view(bool), np.zeros(size, numbers.dtype)
        if len(numbers) != np.count_nonzero(places):
            raise ValueError(
                f"{name} has {len(numbers)} numbers for {np.count_nonzero(places)} places"
            )
        array[places] = numbers
        whole[name] = array.reshape(shape)
    return whole
