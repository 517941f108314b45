"""Atomic replacement of files, and archives: ``.npz`` files of named arrays and a JSON manifest.

An archive is a zip file of ``.npy`` members that ``numpy.load`` can open. Nothing in it is
executed. Damaged files are detected by the checksums of the zip format.
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

FORMAT = 8
MANIFEST = "manifest.json"
#: Suffix of temporary files.
TEMPORARY = ".tmp"


@contextmanager
def replacing(path: PathLike, mode: str = "w") -> Iterator[IO]:
    """Open a temporary file that replaces ``path`` on success; on failure, ``path`` is not changed.

    Data is synced to disk before the file is renamed: after a crash, either the previous or the
    complete new file exists. The mode of the previous file is kept, and symbolic links are
    followed. Pipes and devices are written directly. Text is UTF-8. Raises OutputFileError if the
    file cannot be written.
    """
    check_output(path)
    encoding = None if "b" in mode else "utf-8"
    target = Path(os.path.realpath(path))
    temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(8)}{TEMPORARY}"
    with _naming(path, target, temporary):
        if _is_special(path):
            with open(path, mode, encoding=encoding) as file:
                yield file
            return
        try:
            with open(temporary, mode.replace("w", "x"), encoding=encoding) as file:
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
    """Raise OutputFileError if a file certainly cannot be written."""
    name = os.fspath(path)
    target = "" if "\0" in name else os.path.realpath(name)
    parent = os.path.dirname(target)
    with _naming(path, target), suppress(FileNotFoundError):
        os.stat(target or ".")  # fails for too long names and circular links
    exists = os.path.exists(target)
    changed = [target] if exists else [parent]
    if exists and not _is_special(path):  # a new file replaces it
        changed.append(parent)
    if not target:
        reason = "no file has such a name"
    elif not name or name.endswith(os.sep) or os.path.isdir(target):
        reason = "it is a directory"
    elif not os.path.isdir(parent):
        reason = f"there is no directory {os.path.dirname(name) or parent}"
    elif not all(os.access(written, os.W_OK) for written in changed):
        reason = "writing there is not permitted"
    else:
        return
    raise _refusal(path, reason)


def is_same_file(path: PathLike, other: PathLike) -> bool:
    """Check whether two paths are the same file or pipe."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
        return kind in (stat.S_IFREG, stat.S_IFIFO) and os.path.samefile(path, other)
    except (OSError, ValueError):  # a file does not exist
        return False


def _is_special(path: PathLike) -> bool:
    """Check whether a path is, or may be, a pipe or a device such as ``/dev/stdout``."""
    if os.fspath(path).startswith("/dev/"):
        return True
    return os.path.exists(path) and not os.path.isfile(path)


@contextmanager
def _naming(path: PathLike, *names: PathLike) -> Iterator[None]:
    """Convert errors of the operating system about this file to OutputFileError."""
    try:
        yield
    except OSError as error:
        names_of_file = {None, *(os.fspath(name) for name in (path, *names))}
        if isinstance(error, OutputFileError) or error.filename not in names_of_file:
            raise
        raise _refusal(path, error.strerror or str(error), error.errno) from None


def _refusal(path: PathLike, reason: str, errno: int | None = None) -> OutputFileError:
    refusal = OutputFileError(f"{os.fspath(path) or repr('')} cannot be written: {reason}.")
    refusal.errno = errno
    refusal.strerror = reason
    refusal.filename = os.fspath(path)
    return refusal


def write_archive(
    path: PathLike, manifest: Mapping[str, object], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write an archive of arrays and JSON values; equal contents give equal bytes."""
    values = {"format": FORMAT, **manifest, "n_arrays": len(arrays)}
    text = json.dumps(values, indent=1, default=np.generic.item)
    with replacing(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        # a new ZipInfo has a fixed date
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)
        for name, array in arrays.items():
            is_large = array.nbytes > 2**30
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=is_large) as member:
                npy.write_array(member, array, allow_pickle=False)


def read_archive(path: PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the manifest and the arrays of an archive.

    Raises ModelFileError if the file is missing, damaged, not an archive of omkl, or of another
    version.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # reading a pipe would block
        raise ModelFileError(
            f"{path} is not an omkl model file: it is a directory, pipe or device."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(MANIFEST))
            members = [info for info in archive.infolist() if info.filename != MANIFEST]
            if manifest["format"] != FORMAT:
                remedy = "upgrade omkl" if manifest["format"] > FORMAT else "train the model again"
                flaw = f"{path} has format {manifest['format']}, not {FORMAT}: {remedy}."
            elif len(members) != manifest["n_arrays"]:  # a damaged zip directory can lack entries
                flaw = f"{path} is damaged: it has {len(members)} of {manifest['n_arrays']} arrays."
            else:
                arrays = {}
                for info in members:
                    arrays[info.filename.removesuffix(".npy")] = _read_array(archive, info)
                return manifest, arrays
    except FileNotFoundError:
        flaw = f"There is no model file {path}."
    except Exception as error:  # damaged bytes lead to errors of any class
        is_locked = isinstance(error, PermissionError)
        what = "cannot be read" if is_locked else "is not an omkl model file, or is damaged"
        flaw = f"{path} {what}: {error!s:.200}."
    raise ModelFileError(flaw)


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Read an array; check its claimed size against its bytes before memory is allocated."""
    with archive.open(info) as member:
        is_readable = npy.read_magic(member) == (1, 0)
        if is_readable:
            shape, _, dtype = npy.read_array_header_1_0(member)
            n_bytes = dtype.itemsize * math.prod(shape)
            n_without_empty_axes = math.prod(filter(None, shape))
            is_readable = n_bytes <= info.file_size and n_without_empty_axes <= 2**32
    if not is_readable:
        raise ValueError(f"the array {info.filename!r} has another size than its header says")
    with archive.open(info) as member:
        array = npy.read_array(member, allow_pickle=False)
        member.read(1)  # verifies the checksum
    return array
