"""Conversion of parameters and components to JSON and arrays, which execute nothing when read."""

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
#: Record of a training, an evaluation or a part of a model: values by name.
Record: TypeAlias = dict[str, Any]
#: A value of JSON.
Json: TypeAlias = str | float | Sequence | Mapping | None
#: Arrays of a model file, by name.
Arrays: TypeAlias = dict[str, np.ndarray]
#: The package and its subpackages whose public components a file can refer to. Components of users
#: are found in the subclasses of Component. Nothing else is loaded by name.
SUBPACKAGES = (
    "omkl",
    "batch",
    "kernels",
    "losses",
    "online",
    "regularizers",
    "structures",
)


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
            return self._pack_array(np.asarray(value), what)
        if isinstance(value, (set, frozenset)):
            value = sorted(value, key=repr)
        if isinstance(value, (list, tuple, range)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [self.pack(item, what) for item in value]}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        if isinstance(value, dict):
            pairs = value.items()
            return {"items": [[self.pack(key, what), self.pack(item, what)] for key, item in pairs]}
        if isinstance(value, Component):
            return self._pack_component(value, what)
        if callable(value):
            return {"user": getattr(value, "__name__", "function")}
        raise ModelFileError(
            f"{what} holds a {type(value).__name__}, which cannot be saved in a model file."
        )

    def _pack_array(self, array: np.ndarray, what: str) -> Any:
        if array.dtype.hasobject:
            return {"objects": [self.pack(item, what) for item in array.tolist()]}
        name = f"part{len(self.arrays)}"
        self.arrays[name] = array
        return {"array": name}

    def _pack_component(self, component: Component, what: str) -> Any:
        cls = type(component)
        home = "user"
        if cls.__module__.startswith("omkl."):
            subpackage = cls.__module__.split(".")[1]
            for candidate in (subpackage, "omkl"):
                if candidate in SUBPACKAGES and component_of(candidate, cls.__name__) is cls:
                    home = candidate
        parameters = component.parameters().items()
        learned = component.learned().items()
        return {
            "part": f"{home}.{cls.__name__}",
            "parameters": {key: self.pack(value, what) for key, value in parameters},
            "learned": {key: self.pack(value, what) for key, value in learned},
        }


class Unpacker:
    """Inverse of :class:`Packer`.

    ``parts`` are the user's classes and functions, which files cannot store.
    """

    def __init__(self, arrays: Arrays, parts: Mapping[str, object]) -> None:
        self.arrays = arrays
        self.parts = parts

    def unpack(self, value: Json) -> Any:
        """Convert a JSON value to the original value."""
        if not isinstance(value, dict):
            return value
        if "part" in value:
            return self._unpack_component(value)
        ((kind, content),) = value.items()
        if kind == "array":
            return self.arrays[content]
        if kind == "slice":
            return slice(*content)
        if kind == "user":
            return self._part_of_user(content)
        if kind == "items":
            return {self.unpack(key): self.unpack(item) for key, item in content}
        makers: dict[str, Callable] = {"list": list, "tuple": tuple, "objects": object_array}
        return makers[kind]([self.unpack(item) for item in content])

    def _unpack_component(self, packed: Mapping[str, Any]) -> Component:
        subpackage, _, name = packed["part"].partition(".")
        cls: Any = None
        if subpackage in SUBPACKAGES:
            cls = component_of(subpackage, name)
        if cls is None:
            cls = self.class_of_user(name, Component)
        component = cls(**{key: self.unpack(item) for key, item in packed["parameters"].items()})
        for key, item in packed["learned"].items():
            if key.startswith("_") or not key.endswith("_"):
                raise ModelFileError(f"No component learns {key!r}.")
            setattr(component, key, self.unpack(item))
        return component

    def class_of_user(self, name: str, base: type) -> Callable:
        """Return a class in ``parts``, or the only class of a user with this name in a family."""
        candidates: list[type] = []
        if name not in self.parts:
            members: list[type] = family(base)
            for cls in members:
                if cls.__name__ == name and not cls.__module__.startswith("omkl."):
                    candidates.append(cls)
        if len({cls.__module__ for cls in candidates}) == 1:
            return candidates[-1]  # a redefined class, as in a notebook, replaces the old class
        return self._part_of_user(name)

    def _part_of_user(self, name: str) -> Any:
        if name not in self.parts:
            raise ModelFileError(
                f"The model uses {name!r}, no component of omkl: "
                f"pass it, load(path, parts={{{name!r}: ...}})."
            )
        return self.parts[name]


def pack_json(value: Json) -> np.ndarray:
    """Return a JSON value, with any strings, as an array for a model file."""
    text = json.dumps(value, ensure_ascii=False)
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def unpack_json(array: np.ndarray) -> Any:
    """The inverse of :func:`pack_json`."""
    return json.loads(array.tobytes().decode("utf-8", "surrogatepass"))


def object_array(items: Sequence) -> np.ndarray:
    """Return a list as a one-dimensional array of objects."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def component_of(subpackage: str, name: str) -> type[Component] | None:
    """Find a public component by its name, in a subpackage or in ``omkl`` itself."""
    module = import_module("omkl" if subpackage == "omkl" else f"omkl.{subpackage}")
    if name not in module.__all__:
        return None
    value = getattr(module, name)
    return value if isinstance(value, type) and issubclass(value, Component) else None


@contextmanager
def holds_whole(
    where: str,
    what: str,
    clear: tuple[type[Exception], ...] = (ModelFileError, MissingDependencyError),
) -> Iterator[None]:
    """Convert errors from inconsistent files to ModelFileError, except for the ``clear`` ones."""
    try:
        yield
    except clear:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        article = "within this memory a" if isinstance(error, MemoryError) else "a whole"
        raise ModelFileError(
            f"{where} does not hold {article} {what} ({type(error).__name__}: {reason:.300})."
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
    """Raise ModelFileError unless the arrays of a model's state are finite.

    These have ``/`` in their names.
    """
    for name, array in arrays.items():
        if "/" in name and not _is_finite(array):
            raise ModelFileError(
                f"{where} has non-finite numbers in {name!r}: training may have diverged."
            )


def _is_finite(array: np.ndarray) -> bool:
    """Return whether an array holds finite numbers only."""
    if array.dtype.kind != "f":
        return array.dtype.kind in "biu"
    with np.errstate(all="ignore"):
        # a finite sum implies finite numbers, and needs no temporary array
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def rounded(
    arrays: Arrays, dtype: str | None, names: tuple[str, ...]
) -> tuple[Arrays, dict[str, list]]:
    """Round the weights of a model without training state to ``dtype``.

    ``names`` are suffixes of the names of weights. Support vectors are rounded to float32 unless
    numbers overflow or underflow. Other weights are first multiplied by a power of two, so that the
    largest weight of an array has exponent 15, the maximum of float16. Returns the arrays, and for
    each rounded array the original dtype and the exponent of this power.
    """
    small = dict(arrays)
    how = dict[str, list]()
    if dtype is None:
        return small, how
    for name, array in arrays.items():
        largest = float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else 0.0
        if "/support:" in name and 1e-30 < largest < 1e38:
            small[name] = array.astype(np.float32)
            how[name] = [array.dtype.str, 0]
        elif name.endswith(names) and largest:
            exponent = 16 - int(np.frexp(largest)[1]) if dtype == "float16" else 0
            small[name] = np.ldexp(array, exponent).astype(dtype)
            how[name] = [array.dtype.str, exponent]
    return small, how


def restored(arrays: Arrays, how: Mapping[str, list]) -> Arrays:
    """Restore the scale and dtype of arrays; ``how`` is the second result of :func:`rounded`."""
    exact = dict(arrays)
    for name, (dtype, exponent) in how.items():
        exact[name] = arrays[name].astype(dtype, copy=False)
        if exponent:
            exact[name] = np.ldexp(exact[name], -exponent)
    return exact


def without_zeros(arrays: Arrays) -> tuple[Arrays, dict[str, list[int]]]:
    """Replace arrays with many zeros by their other numbers, and a bit for each number.

    Also return their shapes.
    """
    small = dict(arrays)
    shapes = dict[str, list[int]]()
    for name, array in arrays.items():
        is_nonzero = array != 0
        bits = np.packbits(is_nonzero)
        n_bytes = bits.nbytes + np.count_nonzero(is_nonzero) * array.itemsize
        is_table = array.dtype.kind == "f" and array.flags.c_contiguous
        if is_table and n_bytes < array.nbytes:
            small[name] = array[is_nonzero]
            small[f"{name}:places"] = bits
            shapes[name] = list(array.shape)
    return small, shapes


def with_zeros(arrays: Arrays, shapes: Mapping[str, list[int]]) -> Arrays:
    """Restore arrays; ``shapes`` is the second result of :func:`without_zeros`."""
    restored_arrays = dict(arrays)
    for name, shape in shapes.items():
        numbers = restored_arrays[name]
        bits = restored_arrays.pop(f"{name}:places")
        size = math.prod(shape)
        if len(bits) != -(-size // 8):
            raise ValueError(f"{name} has {len(bits)} bytes of places, not {size} bits")
        is_nonzero = np.unpackbits(bits, count=size).view(bool)
        n_nonzero = np.count_nonzero(is_nonzero)
        if len(numbers) != n_nonzero:
            raise ValueError(f"{name} has {len(numbers)} numbers for {n_nonzero} places")
        array = np.zeros(size, numbers.dtype)
        array[is_nonzero] = numbers
        restored_arrays[name] = array.reshape(shape)
    return restored_arrays
