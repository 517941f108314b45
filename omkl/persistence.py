"""Parameters, components and arrays of a model as JSON and arrays; nothing is executed when they are read."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from omkl._components import Component, family
from omkl.exceptions import InputError, MissingDependencyError, ModelFileError

#: Subpackages whose public components a file may name. A user's component is found among the subclasses of Component;
#: nothing else is loaded by name.
SUBPACKAGES = ("batch", "groups", "kernels", "losses", "online", "regularizers", "structures")
#: Numbers that are expanded at a time.
PIECE = 2**17


class Packer:
    """Conversion of parameters and components to JSON values; arrays go into ``arrays``."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def pack(self, value: Any, what: str) -> Any:
        """Convert a value to JSON.

        Parameters
        ----------
        value : object
        what : str
            Name of the value in errors.
        """
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return {"float": repr(value)} if value in (np.inf, -np.inf) or value != value else value
        if isinstance(value, np.generic):
            return self.pack(value.item(), what)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            name = f"part{len(self.arrays)}"
            self.arrays[name] = value
            return {"array": name}
        if isinstance(value, np.ndarray) and value.ndim == 1:  # classes that came from a data frame
            return {"objects": [self.pack(item, what) for item in value.tolist()]}
        if isinstance(value, range):
            value = list(value)
        if isinstance(value, (set, frozenset)):
            value = sorted(value, key=repr)
        if hasattr(value, "__array__") and not isinstance(value, np.ndarray):  # of pandas, polars and others
            return self.pack(np.asarray(value), what)
        if isinstance(value, (list, tuple)):
            return {type(value).__name__: [self.pack(item, what) for item in value]}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.pack(item, what) for key, item in value.items()}}
        if isinstance(value, dict):
            return {"items": [[self.pack(own, what) for own in pair] for pair in value.items()]}
        if hasattr(value, "parameters"):
            return self._pack_component(value, what)
        if callable(value):
            return {"user": getattr(value, "__name__", "function")}
        raise ModelFileError(f"{what} holds a {type(value).__name__}, which cannot be saved in a model file.")

    def _pack_component(self, component: Any, what: str) -> dict[str, Any]:
        packed = {
            "part": f"{_subpackage_of(type(component))}.{type(component).__name__}",
            "parameters": {key: self.pack(value, what) for key, value in component.parameters().items()},
        }
        learned = component.learned() if hasattr(component, "learned") else {}
        if learned:
            packed["learned"] = {key: self.pack(value, what) for key, value in learned.items()}
        return packed


class Unpacker:
    """Inverse of :class:`Packer`.

    Parameters
    ----------
    arrays : dict of str to array
    parts : dict of str to object
        Classes and functions of the user by name, which a file cannot hold.
    """

    def __init__(self, arrays: dict[str, np.ndarray], parts: dict[str, Any]) -> None:
        self.arrays = arrays
        self.parts = parts

    def unpack(self, value: Any) -> Any:
        """Convert a JSON value back.

        Parameters
        ----------
        value : object
        """
        if not isinstance(value, dict):
            return value
        if "part" in value:
            return self._unpack_component(value)
        ((kind, content),) = value.items()
        if kind == "float":
            return float(content)
        if kind == "array":
            return self.arrays[content]
        if kind == "objects":
            objects = np.empty(len(content), dtype=object)
            objects[:] = [self.unpack(item) for item in content]
            return objects
        if kind in ("list", "tuple"):
            items = [self.unpack(item) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "slice":
            return slice(*content)
        if kind == "dict":
            return {key: self.unpack(item) for key, item in content.items()}
        if kind == "items":
            return {self.unpack(key): self.unpack(item) for key, item in content}
        if kind == "user":
            return self._users_own(content)
        raise ModelFileError(f"The model file holds a value of the unknown kind {kind!r}.")

    def _unpack_component(self, value: dict[str, Any]) -> Any:
        subpackage, _, name = value["part"].partition(".")
        cls = (subpackage in SUBPACKAGES and component_of(subpackage, name)) or self._users_class(name)
        component = cls(**{key: self.unpack(item) for key, item in value["parameters"].items()})
        for key, item in value.get("learned", {}).items():
            if key.startswith("_") or not key.endswith("_"):
                raise ModelFileError(f"No component learns {key!r}.")
            setattr(component, key, self.unpack(item))
        return component

    def _users_class(self, name: str) -> Callable:
        """A class of ``parts``, or the only component of the user with this name."""
        found = [] if name in self.parts else [c for c in family(Component) if c.__name__ == name]
        own = [cls for cls in found if not cls.__module__.startswith("omkl.")]
        # a class that is defined anew, as in a notebook, takes the place of the one before
        return own[-1] if len({cls.__module__ for cls in own}) == 1 else self._users_own(name)

    def _users_own(self, name: str) -> Any:
        if name not in self.parts:
            raise ModelFileError(
                f"The model uses {name!r}, no component of omkl: define it, or pass it, as in "
                f"load(path, parts={{{name!r}: ...}})."
            )
        return self.parts[name]


def component_of(subpackage: str, name: str) -> type[Component] | None:
    """Find a public component by its name.

    Parameters
    ----------
    subpackage, name : str

    Returns
    -------
    type or None
    """
    module = import_module(f"omkl.{subpackage}")
    found = getattr(module, name) if name in module.__all__ else None
    return found if isinstance(found, type) and issubclass(found, Component) else None


def _subpackage_of(cls: type) -> str:
    name = cls.__module__.split(".")[1] if cls.__module__.startswith("omkl.") else ""
    is_public = name in SUBPACKAGES and component_of(name, cls.__name__) is cls
    return name if is_public else "user"


@contextmanager
def holds_whole(where: str, what: str, clear: Any = (ModelFileError, MissingDependencyError)) -> Iterator[None]:
    """Raise ModelFileError for any error of a file whose parts do not fit each other.

    Parameters
    ----------
    where, what : str
        The file and what it holds, for messages.
    clear : tuple of types
        Errors that are raised as they are.
    """
    try:
        yield
    except clear:
        raise
    except MemoryError as error:  # the file may be whole
        raise ModelFileError(f"{where} holds a {what} that does not fit into memory ({error!s:.300}).") from None
    except Exception as error:
        said = " ".join(str(error).split())
        raise ModelFileError(f"{where} does not hold a whole {what} ({type(error).__name__}: {said:.300}).") from None


def check_labels(labels: Iterable[Any]) -> None:
    """Raise InputError unless labels are strings, numbers, booleans, None, or tuples of them.

    Parameters
    ----------
    labels : iterable
    """
    for label in labels:
        if isinstance(label, tuple):
            check_labels(label)
        elif not (label is None or isinstance(label, (str, int, float, bool))):
            raise InputError(f"The label {label!r} cannot be saved: use strings, numbers or tuples of them.")


def check_state(arrays: dict[str, np.ndarray], where: str) -> None:
    """Check that the arrays of a model's state, those with ``/`` in their names, hold finite numbers.

    Parameters
    ----------
    arrays : dict of str to array
    where : str
        Name of the state in messages.

    Raises
    ------
    omkl.exceptions.ModelFileError
        With the name of the first array that does not.
    """
    for name, array in arrays.items():
        if "/" not in name:
            continue
        if array.dtype.kind not in "biuf":
            raise ModelFileError(f"{where} has no numbers in {name!r}, but {array.dtype}.")
        with np.errstate(all="ignore"):  # a sum that is finite tells without another array
            finite = array.dtype.kind != "f" or np.isfinite(array.sum()) or np.isfinite(array).all()
        if not finite:
            raise ModelFileError(f"{where} has numbers in {name!r} that are not finite: training has diverged.")


def compacted(
    arrays: dict[str, np.ndarray], dtype: Any = None, rounded: tuple[str, ...] = ()
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Compact arrays; :func:`expanded` is the inverse.

    Booleans become bits, integers the shortest type; arrays of floats with many zeros become the other numbers and a
    bit for each place.

    Parameters
    ----------
    arrays : dict of str to array
    dtype : {None, "float32", "float16"}
        Precision of the arrays whose names end with one of ``rounded``; support vectors are then float32. Halves are
        multiplied by a power of two that gives the largest of them an exponent of 15.
    rounded : tuple of str

    Returns
    -------
    small : dict of str to array
    how : dict of str to dict
        For each array its ``shape``, ``dtype`` and memory ``order``, and the ``exponent`` that it is scaled by.
    """
    small: dict[str, np.ndarray] = {}
    how: dict[str, Any] = {}
    for name, array in arrays.items():
        order: Any = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        values, exponent = array.ravel(order), 0
        how[name] = {"shape": list(array.shape), "dtype": array.dtype.str, "order": order, "exponent": 0}
        if array.dtype.kind == "b":
            small[name] = np.packbits(values)
        elif array.dtype.kind in "iu" and array.size:
            small[name] = values.astype(np.result_type(*map(np.min_scalar_type, (values.min(), values.max()))))
        else:
            if dtype is not None and array.dtype.kind == "f" and "/support:" in name:
                values = _in_single_precision(values)
            elif dtype is not None and name.endswith(rounded) and array.size:
                if np.dtype(dtype) == np.float16:
                    how[name]["exponent"] = exponent = 16 - int(np.frexp(np.abs(values).max())[1])
                values = np.ldexp(values, exponent).astype(dtype)
            places = values != 0
            bits = np.packbits(places) if array.dtype.kind == "f" else values
            sparse = bits.nbytes + np.count_nonzero(places) * values.itemsize < values.nbytes
            small |= {name: values[places], f"{name}:places": bits} if sparse else {name: values}
    return small, how


def _in_single_precision(values: np.ndarray) -> np.ndarray:
    """Round vectors to float32, unless their numbers would overflow or vanish."""
    largest = np.abs(values).max(initial=0.0)
    return values.astype(np.float32) if largest == 0.0 or 1e-30 < largest < 1e38 else values


def expanded(small: dict[str, np.ndarray], how: dict[str, Any]) -> dict[str, np.ndarray]:
    """Expand compacted arrays; arrays that ``how`` does not name are returned as they are.

    Parameters
    ----------
    small : dict of str to array
    how : dict of str to dict
        See :func:`compacted`.

    Returns
    -------
    dict of str to array

    Raises
    ------
    ValueError
        If the arrays do not fit each other.
    """
    arrays = {name: array for name, array in small.items() if name.partition(":places")[0] not in how}
    longest = 8 * sum(array.nbytes for array in small.values()) + 2**20
    for name, about in how.items():
        values, size = small[name], int(np.prod(about["shape"], dtype=object))
        if not size and int(np.prod([n for n in about["shape"] if n], dtype=object)) > longest:
            raise ValueError(f"{name} is longer than all that there is")
        bits = values if about["dtype"] == "|b1" else small.get(f"{name}:places")
        # what is allocated is eight times as long as what the file holds
        if bits is not None and len(bits) != -(-size // 8):
            raise ValueError(f"{name} has {8 * len(bits)} places, not {size}")
        if about["dtype"] == "|b1":
            values = np.unpackbits(values, count=size).view(bool)
        else:
            values = values.astype(about["dtype"], copy=False)
            if about["exponent"]:
                unit = np.ldexp(values.dtype.type(1.0), -about["exponent"])
                values = values * unit if unit else np.ldexp(values, -about["exponent"])  # the same, and faster
            values = values if bits is None else _at_places(values, bits, size)
        arrays[name] = values.reshape(about["shape"], order=about["order"])
    return arrays


def _at_places(values: np.ndarray, bits: np.ndarray, size: int) -> np.ndarray:
    """An array (size,) with these values where a bit is set, and zeros elsewhere, filled piece by piece."""
    cells, done = np.zeros(size, values.dtype), 0
    for low in range(0, size, PIECE):
        piece = cells[low : low + PIECE]
        places = np.flatnonzero(np.unpackbits(bits[low // 8 :][: PIECE // 8], count=len(piece)).view(bool))
        piece[places] = values[done : done + len(places)]
        done += len(places)
    if done != len(values):
        raise ValueError(f"there are {len(values)} values for {done} places")
    return cells
