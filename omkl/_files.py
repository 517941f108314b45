"""Files that are replaced in one step, and archives: named arrays and a JSON manifest in one ``.npz``.

An archive is a zip of ``.npy`` members that ``numpy.load`` opens; nothing in it is executed. The zip has a checksum of
every member, so that damaged files are refused.
"""

import json
import math
import os
import secrets
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.lib import format as npy

from omkl.exceptions import ModelFileError, OutputFileError

PathLike: TypeAlias = str | os.PathLike[str]

FORMAT = 6
MANIFEST = "manifest.json"
#: Suffix of temporary files.
TEMPORARY = ".tmp"


@contextmanager
def replacing(path: PathLike, mode: str = "w", **options: Any) -> Iterator[IO]:
    """Open a temporary file that replaces ``path`` on success; on failure, nothing changes.

    The bytes are on disk before the name is: a crash leaves the previous file or the whole new one. The mode of the
    previous file is kept, and symbolic links are followed. Pipes and devices are written to directly. ``options`` are
    those of :func:`open`; text is UTF-8 by default. Raises OutputFileError if the file cannot be written.
    """
    check_output(path)
    if "b" not in mode:
        options.setdefault("encoding", "utf-8")
    target = Path(os.path.realpath(path))
    temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(8)}{TEMPORARY}"
    with _naming(path, target, temporary):
        if _is_special(path):
            with open(path, mode, **options) as file:
                yield file
            return
        try:
            with open(temporary, mode.replace("w", "x"), **options) as file:
                if target.exists():
                    os.chmod(temporary, stat.S_IMODE(target.stat().st_mode) & 0o777)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def check_output(path: PathLike) -> None:
    """Raise OutputFileError if it is clear that a file cannot be written."""
    name = os.fspath(path)
    target = "" if "\0" in name else os.path.realpath(name)
    parent = os.path.dirname(target)
    with _naming(path, target), suppress(FileNotFoundError):
        os.stat(target or ".")  # fails for names that are too long, and for circular links
    exists = os.path.exists(target)
    changed = [target] * exists + [parent] * (not exists or not _is_special(path))
    if not target:
        reason = "no file has such a name"
    elif not name or name.endswith(os.sep) or os.path.isdir(target):
        reason = "it is a directory"
    elif not os.path.isdir(parent):
        reason = f"there is no directory {os.path.dirname(name) or parent}"
    elif not all(os.access(place, os.W_OK) for place in changed):
        reason = "writing there is not permitted"
    else:
        return
    raise _refusal(path, reason)


def is_same_file(path: PathLike, other: PathLike) -> bool:
    """Check whether two paths lead to the same file or pipe."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
        return kind in (stat.S_IFREG, stat.S_IFIFO) and os.path.samefile(path, other)
    except (OSError, ValueError):  # one of them does not exist
        return False


def _is_special(path: PathLike) -> bool:
    """Check whether a path is, or may be, a pipe or a device, such as ``/dev/stdout``."""
    return os.fspath(path).startswith("/dev/") or (os.path.exists(path) and not os.path.isfile(path))


@contextmanager
def _naming(path: PathLike, *names: PathLike) -> Iterator[None]:
    """Convert errors of the system that are about this file to OutputFileError."""
    try:
        yield
    except OSError as error:
        own = {os.fspath(name) for name in (path, *names)}
        if isinstance(error, OutputFileError) or (error.filename is not None and error.filename not in own):
            raise
        raise _refusal(path, error.strerror or str(error), error.errno) from None


def _refusal(path: PathLike, reason: str, errno: int | None = None) -> OutputFileError:
    refusal = OutputFileError(f"{os.fspath(path) or repr('')} cannot be written: {reason}.")
    refusal.errno, refusal.strerror, refusal.filename = errno, reason, os.fspath(path)
    return refusal


def write_archive(
    path: PathLike, manifest: Mapping[str, object], arrays: Mapping[str, np.ndarray], compress: bool = False
) -> None:
    """Write an archive of arrays and JSON values, compressed or not; equal contents give equal bytes."""
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    text = json.dumps({"format": FORMAT, **manifest, "n_arrays": len(arrays)}, indent=1, default=np.generic.item)
    with replacing(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        # a ZipInfo made by hand has a fixed date
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = kind
            with archive.open(info, "w", force_zip64=array.nbytes > 2**30) as member:
                npy.write_array(member, array, allow_pickle=False)


def read_archive(path: PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the manifest and the arrays of an archive.

    Raises ModelFileError if the file is missing, not an archive of omkl, damaged, or of another version.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # reading a pipe would wait
        raise ModelFileError(f"{path} is not an omkl model file, but not a file at all.")
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(MANIFEST))
            members = [info for info in archive.infolist() if info.filename != MANIFEST]
            if manifest["format"] != FORMAT:
                remedy = "upgrade omkl" if manifest["format"] > FORMAT else "train the model again"
                flaw = f"{path} has format {manifest['format']}, not {FORMAT}: {remedy}."
            elif len(members) != manifest["n_arrays"]:  # a damaged directory hides entries
                flaw = f"{path} is damaged: it has {len(members)} of {manifest['n_arrays']} arrays."
            else:
                return manifest, {info.filename.removesuffix(".npy"): _read_array(archive, info) for info in members}
    except FileNotFoundError:
        flaw = f"There is no model file {path}."
    except Exception as error:  # of any class, as the bytes may be anything
        is_locked = isinstance(error, PermissionError)
        flaw = (
            f"{path} {'cannot be read' if is_locked else 'is not an omkl model file, or is damaged'}: {error!s:.200}."
        )
    raise ModelFileError(flaw)


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Read an array, and refuse one that claims to be longer than its bytes before there is memory for it."""
    with archive.open(info) as member:
        shape, _, dtype = npy.read_array_header_1_0(member) if npy.read_magic(member) == (1, 0) else ((), 0, object)
    if dtype is object or dtype.itemsize * math.prod(shape) > info.file_size or math.prod(filter(None, shape)) > 2**32:
        raise ValueError(f"the array {info.filename!r} does not hold what it says")
    with archive.open(info) as member:
        array = npy.read_array(member, allow_pickle=False)
        member.read(1)  # compares the checksum
    return array
