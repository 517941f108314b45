"""What a model file holds: an archive with the estimator's parameters and parts as JSON, and nothing executed."""

import numpy as np

from omkl import batch, kernels, losses, online, regularizers
from omkl.exceptions import InputError, ModelFileError

#: Where the parts that a model names are looked up; nothing else is ever loaded by name.
ROOMS = {"batch": batch, "kernels": kernels, "losses": losses, "online": online, "regularizers": regularizers}


class Packer:
    """Turns parameters, and the parts among them, into JSON values; arrays go into ``arrays``."""

    def __init__(self):
        self.arrays = {}

    def pack(self, value, what):
        """``value`` as JSON; ``what`` names it in errors."""
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
        if isinstance(value, (list, tuple)):
            return {type(value).__name__: [self.pack(item, what) for item in value]}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.pack(item, what) for key, item in value.items()}}
        if hasattr(value, "parameters"):
            return self._pack_part(value, what)
        if callable(value):
            return {"user": getattr(value, "__name__", "function")}
        raise ModelFileError(f"{what} holds a {type(value).__name__}, which cannot be saved in a model file.")

    def _pack_part(self, part, what):
        packed = {
            "part": f"{_room_of(part)}.{type(part).__name__}",
            "parameters": {key: self.pack(value, what) for key, value in part.parameters().items()},
        }
        learned = part.learned() if hasattr(part, "learned") else {}
        if learned:
            packed["learned"] = {key: self.pack(value, what) for key, value in learned.items()}
        return packed


class Unpacker:
    """The inverse of :class:`Packer`.

    Parameters
    ----------
    arrays : dict of str to array
    parts : dict of str to object
        The user's own classes and functions by name: what a file cannot hold.
    """

    def __init__(self, arrays, parts):
        self.arrays = arrays
        self.parts = parts

    def unpack(self, value):
        """The object that a JSON value stands for."""
        if not isinstance(value, dict):
            return value
        if "part" in value:
            return self._unpack_part(value)
        ((kind, content),) = value.items()
        if kind == "float":
            return float(content)
        if kind == "array":
            return self.arrays[content]
        if kind in ("list", "tuple"):
            items = [self.unpack(item) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "slice":
            return slice(*content)
        if kind == "dict":
            return {key: self.unpack(item) for key, item in content.items()}
        if kind == "user":
            return self._users_own(content)
        raise ModelFileError(f"The model file holds a value of the unknown kind {kind!r}.")

    def _unpack_part(self, value):
        room, _, name = value["part"].partition(".")
        is_ours = room in ROOMS and name in ROOMS[room].__all__
        cls = getattr(ROOMS[room], name) if is_ours else self._users_own(name)
        part = cls(**{key: self.unpack(item) for key, item in value["parameters"].items()})
        for key, item in value.get("learned", {}).items():
            setattr(part, key, self.unpack(item))
        return part

    def _users_own(self, name):
        if name not in self.parts:
            raise ModelFileError(
                f"The model uses {name!r}, no part of omkl: pass it, as in load(path, parts={{{name!r}: ...}})."
            )
        return self.parts[name]


def _room_of(part):
    for room, module in ROOMS.items():
        if getattr(module, type(part).__name__, None) is type(part):
            return room
    return "user"


def check_labels(labels):
    """Labels as they can be saved: strings, numbers, booleans, None, and tuples of them."""
    for label in labels:
        if isinstance(label, tuple):
            check_labels(label)
        elif not (label is None or isinstance(label, (str, int, float, bool))):
            raise InputError(f"The label {label!r} cannot be saved: use strings, numbers or tuples of them.")
