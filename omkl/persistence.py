"""Model files: one ``.npz`` with a JSON manifest, checked to the last byte, and nothing in it that is executed.

The file is a plain zip of ``.npy`` members (``numpy.load`` opens it), not compressed. ``manifest.json`` names the
format, the estimator's class and parameters, and every array's shape and dtype. The zip's comment ends with the
SHA-256 of everything before it, so that a file cut short or with a flipped byte is refused.
"""

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from omkl import batch, kernels, losses, online, regularizers
from omkl._files import replacing
from omkl.exceptions import InputError, ModelFileError

FORMAT = 1
MANIFEST = "manifest.json"
#: Where the parts that a model names are looked up; nothing else is ever loaded by name.
ROOMS = {"batch": batch, "kernels": kernels, "losses": losses, "online": online, "regularizers": regularizers}


def write_model(path, manifest, arrays):
    """Write a model file, atomically.

    Parameters
    ----------
    path : path-like
    manifest : dict
        JSON values only; ``format`` and ``arrays`` are added.
    arrays : dict of str to array
    """
    described = {name: {"shape": list(array.shape), "dtype": array.dtype.str} for name, array in arrays.items()}
    manifest = {"format": FORMAT, **manifest, "arrays": described}
    with replacing(path, "w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            # fixed dates make equal models equal files
            archive.writestr(zipfile.ZipInfo(MANIFEST), json.dumps(manifest, indent=1))
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=array.nbytes > 2**30) as member:
                    npy.write_array(member, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
            archive.comment = b"sha256:" + b"0" * 64
        file.seek(0)
        digest = _digest(file, file.seek(0, 2) - 64)
        file.seek(-64, 2)
        file.write(digest.encode())


def read_model(path):
    """Manifest and arrays of a model file.

    Raises
    ------
    omkl.exceptions.ModelFileError
        If the file is missing, is not a model, is damaged, or comes from a newer version.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            _check_digest(file, path)
            with zipfile.ZipFile(file) as archive:
                manifest = json.loads(archive.read(MANIFEST))
                if manifest["format"] > FORMAT:
                    raise ModelFileError(f"{path} has format {manifest['format']}, newer than this omkl: upgrade omkl.")
                arrays = {name: _read_array(archive, name, about) for name, about in manifest["arrays"].items()}
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file {path}.") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, EOFError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} is not an omkl model file ({error}).") from None
    return manifest, arrays


def _check_digest(file, path):
    size = file.seek(0, 2)
    tail = b"" if size < 71 else (file.seek(-71, 2), file.read())[1]
    if not tail.startswith(b"sha256:"):
        raise ModelFileError(f"{path} is not an omkl model file, or it was cut short: train or copy it again.")
    if _digest(file, size - 64).encode() != tail[7:]:
        raise ModelFileError(f"{path} is damaged (its checksum does not match): copy it again, or train anew.")
    file.seek(0)


def _digest(file, length):
    """SHA-256 of the first ``length`` bytes of an open file."""
    file.seek(0)
    digest = hashlib.sha256()
    while length > 0:
        block = file.read(min(length, 2**22))
        digest.update(block)
        length -= len(block)
    return digest.hexdigest()


def _read_array(archive, name, about):
    """One array, after its header, the manifest and the size of its zip member have been found to agree."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        version = npy.read_magic(member)
        header = npy.read_array_header_1_0(member) if version == (1, 0) else npy.read_array_header_2_0(member)
        shape, _, dtype = header
        n_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        agree = list(shape) == about["shape"] and dtype.str == about["dtype"] and not dtype.hasobject
        if not agree or info.compress_type != zipfile.ZIP_STORED or n_bytes + member.tell() != info.file_size:
            raise ModelFileError(f"The array {name!r} of the model file is not what its manifest says.")
    with archive.open(info) as member:
        return npy.read_array(member, allow_pickle=False)


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
