"""Files to write to, whole or not at all and never over what is no file; and archives: named arrays and a JSON manifest
in one ``.npz``.

An archive is a plain zip of ``.npy`` members (``numpy.load`` opens it), not compressed; nothing in it is executed.
``manifest.json`` names the format and every array's shape and dtype. Every member has its CRC-32, as in any zip; the
zip's comment ends with the SHA-256 of all that is no member's data. So a file cut short or with a flipped byte is
refused, and neither writing nor reading costs a second pass over the arrays.
"""

import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.lib import format as npy

from omkl.exceptions import ModelFileError, OutputFileError

PathLike: TypeAlias = str | os.PathLike[str]

FORMAT = 4
MANIFEST = "manifest.json"
#: How the zip's comment begins, and how many characters of digest follow.
MARK, DIGITS = b"sha256:", 64
TAIL = len(MARK) + DIGITS
#: Bytes that are written or read at a time.
PIECE = 2**19
#: Symbolic links that are followed from one to the next.
MOST_LINKS = 40
#: How the names of temporary files end.
TEMPORARY = ".tmp"


@contextmanager
def replacing(path: PathLike, mode: str = "w", **options: Any) -> Iterator[IO]:
    """Open a temporary file beside ``path``; on success it takes its place, on failure nothing has changed.

    The bytes are on disk before the name is: a crash leaves the previous file or the whole new one. The mode and the
    owner of the previous file are kept; through a symbolic link, the file that it leads to is replaced. Other hard
    links to the previous file keep its content. Pipes, devices and open descriptors (``/dev/stdout``) are written to
    as they stand.

    Parameters
    ----------
    path : path-like
    mode : str
        As of :func:`open`; one with a ``+`` can be read and has positions, whatever is written to.
    **options
        As of :func:`open`; text is UTF-8 by default.

    Raises
    ------
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    """
    check_output(path)
    if "b" not in mode:
        options.setdefault("encoding", "utf-8")
    with _naming(path):
        opened = _in_place if _stands_alone(path) else _beside
        with opened(path, mode, options) as file:
            yield file


def check_output(path: PathLike) -> None:
    """Raise unless a file can be written there, as far as one can tell before.

    Raises
    ------
    omkl.exceptions.OutputFileError
        If the path is a directory, or in one that does not exist, or nothing may be written there.
    """
    name = os.fspath(path)
    if not isinstance(name, str) or "\0" in name:
        raise _refusal(repr(name), "no file has such a name", "name a file")
    with _naming(path):
        if _descriptor(path) is not None:
            return
        target = os.path.realpath(name)
        if not name or name.endswith(os.sep) or os.path.isdir(target):
            raise _refusal(path, "it is a directory", "name a file")
        try:
            kind = stat.S_IFMT(os.stat(target).st_mode)
        except FileNotFoundError:
            kind = stat.S_IFREG
        if kind == stat.S_IFSOCK:
            raise _refusal(path, "it is a socket", "name a file")
        parent = os.path.dirname(target)
        if not os.path.isdir(parent):
            raise _refusal(path, f"there is no directory {os.path.dirname(name) or parent}", "make it first")
        where = parent if kind == stat.S_IFREG else target
        if not os.access(where, os.W_OK) or (os.path.exists(target) and not os.access(target, os.W_OK)):
            raise _refusal(path, "writing there is not permitted", "name another file")


def is_same_file(path: PathLike, other: PathLike) -> bool:
    """Whether two paths lead to one file or one pipe, so that writing to one destroys what the other holds."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
        return kind in (stat.S_IFREG, stat.S_IFIFO) and os.path.samefile(path, other)
    except (OSError, ValueError):  # one of them does not exist
        return False


@contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """A context in which an error of the system that is not about another file becomes one that names this path."""
    try:
        yield
    except OSError as error:
        if isinstance(error, OutputFileError) or not _concerns(error.filename, path):
            raise
        raise _refusal(path, error.strerror or str(error), "", error) from None


def _concerns(filename: Any, path: PathLike) -> bool:
    """Whether the file that an error of the system names is this one, or a temporary one in its place."""
    if filename is None or isinstance(filename, int):
        return True
    name = os.path.basename(os.fsdecode(filename))
    return name.endswith(TEMPORARY) or name in (os.path.basename(path), os.path.basename(os.path.realpath(path)))


def _refusal(path: PathLike, reason: str, advice: str, error: BaseException | None = None) -> OutputFileError:
    refusal = OutputFileError(f"{os.fspath(path) or repr('')} cannot be written: {reason}{advice and ': '}{advice}.")
    refusal.errno, refusal.strerror = getattr(error, "errno", None), reason
    refusal.filename = os.fspath(path)
    return refusal


def _descriptor(path: PathLike) -> int | None:
    """The number of the open descriptor that a path such as ``/dev/stdout`` stands for; None for any other path."""
    for _ in range(MOST_LINKS):
        path = os.path.abspath(path)
        found = re.fullmatch(rf"/(?:dev|proc/(?:self|thread-self|{os.getpid()}))/fd/(\d+)", path)
        if found:
            return int(found[1])
        if not os.path.islink(path):
            return None
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return None


def _stands_alone(path: PathLike) -> bool:
    """Whether a path is no file that another could take the place of."""
    return _descriptor(path) is not None or (os.path.exists(path) and not os.path.isfile(path))


@contextmanager
def _in_place(path: PathLike, mode: str, options: dict[str, Any]) -> Iterator[IO]:
    """Write to a pipe or a device: at the end, where what is written has positions."""
    descriptor = _descriptor(path)
    opened = os.open(path, os.O_WRONLY) if descriptor is None else os.dup(descriptor)
    if "+" not in mode:
        with os.fdopen(opened, mode, **options) as file:
            yield file
        return
    with os.fdopen(opened, "wb") as out, tempfile.TemporaryFile(mode, **options) as file:
        yield file
        file.flush()
        with os.fdopen(os.dup(file.fileno()), "rb") as written:
            written.seek(0)
            shutil.copyfileobj(written, out)


@contextmanager
def _beside(path: PathLike, mode: str, options: dict[str, Any]) -> Iterator[IO]:
    """Write to a temporary file in the directory of the file that it is to replace."""
    target = Path(os.path.realpath(path))
    previous = os.stat(target) if target.exists() else None
    temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(8)}{TEMPORARY}"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        # the system takes the process's mask into account
        with os.fdopen(os.open(temporary, flags, 0o666 if previous is None else 0o600), mode, **options) as file:
            if previous is not None:
                _take_over(file.fileno(), previous)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _take_over(descriptor: int, previous: os.stat_result) -> None:
    """Give a file the owner, where that is permitted, and the mode of another."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (previous.st_uid, previous.st_gid):
        with suppress(OSError):
            os.fchown(descriptor, previous.st_uid, previous.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(previous.st_mode) & 0o777)


def write_archive(path: PathLike, manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write an archive, atomically.

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
        with _WriteBehind(file) as behind, zipfile.ZipFile(behind, "w", zipfile.ZIP_STORED) as archive:
            # fixed dates make equal models equal files
            archive.writestr(zipfile.ZipInfo(MANIFEST), json.dumps(manifest, indent=1, default=np.generic.item))
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=array.nbytes > 2**30) as member:
                    _write_array(member, array if array.flags.f_contiguous else np.ascontiguousarray(array))
            archive.comment = MARK + b"0" * DIGITS
        digest = _digest(file)
        file.seek(-DIGITS, 2)
        file.write(digest)


class _WriteBehind:
    """A file that a thread writes to, while the caller sums up the next piece; pieces must not change meanwhile."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(1)
        self._pending: Future | None = None

    def write(self, data: bytes) -> int:
        self._wait()
        self._pending = self._pool.submit(self._file.write, data)
        return len(data)

    def _wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def __getattr__(self, name: str) -> Any:
        # seek, tell, flush and all else come after what was written before
        self._wait()
        return getattr(self._file, name)

    def __enter__(self) -> Any:  # what a zip file writes to
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._wait()
        finally:
            self._pool.shutdown()


def _write_array(member: IO[bytes], array: np.ndarray) -> None:
    """One array as ``.npy``, without copies, and in pieces that stay in cache between checksum and file.

    Its memory order is kept, C or Fortran: products of matrices in another order differ in their last bits.
    """
    npy.write_array_header_1_0(member, npy.header_data_from_array_1_0(array))
    content = array.ravel("K").view(np.uint8).data
    for low in range(0, len(content), PIECE):
        member.write(content[low : low + PIECE])


def read_archive(path: PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Manifest and arrays of an archive.

    Raises
    ------
    omkl.exceptions.ModelFileError
        If the file is missing, is no archive of omkl, is damaged, or comes from another version.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise ModelFileError(f"{path} is not an omkl model file, but no file at all: name one.")
        with path.open("rb") as file:
            _check_digest(file, path)
            with zipfile.ZipFile(file) as archive:
                if archive.getinfo(MANIFEST).compress_type != zipfile.ZIP_STORED:
                    raise ModelFileError(f"{path} is not an omkl model file: its manifest is compressed.")
                manifest = json.loads(archive.read(MANIFEST))
                if manifest["format"] != FORMAT:
                    remedy = "upgrade omkl" if manifest["format"] > FORMAT else "train the model again with this one"
                    raise ModelFileError(
                        f"{path} has format {manifest['format']}, and this omkl reads format {FORMAT}: {remedy}."
                    )
                arrays = {name: _read_array(archive, name, about) for name, about in manifest["arrays"].items()}
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file {path}.") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from None
    except zipfile.BadZipFile as error:
        if "CRC" in str(error):
            raise _damaged(path) from None
        raise ModelFileError(f"{path} is not an omkl model file ({error}).") from None
    except ModelFileError:
        raise
    except Exception as error:  # whatever comes of bytes that were made to look like an archive
        raise ModelFileError(f"{path} is not an omkl model file ({error}).") from None
    return manifest, arrays


def _check_digest(file: IO[bytes], path: Path) -> None:
    tail = b"" if file.seek(0, 2) < TAIL else (file.seek(-TAIL, 2), file.read())[1]
    if not tail.startswith(MARK):
        raise ModelFileError(f"{path} is not an omkl model file, or it was cut short: train or copy it again.")
    try:
        intact = _digest(file) == tail[len(MARK) :]
    except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError):
        intact = False
    if not intact:
        raise _damaged(path)
    file.seek(0)


def _damaged(path: Path) -> ModelFileError:
    return ModelFileError(f"{path} is damaged (its checksum does not match): copy it again, or train anew.")


def _digest(file: IO[bytes]) -> bytes:
    """SHA-256, in hexadecimal, of all but the members' data and the digest itself: headers and directory."""
    with zipfile.ZipFile(file) as archive:
        ends = sorted([info.header_offset for info in archive.infolist()] + [archive.start_dir])
        sizes = {info.header_offset: info.compress_size for info in archive.infolist()}
        size = file.seek(0, 2)
        digest = hashlib.sha256()
        for start, end in itertools.pairwise(ends):
            file.seek(start)
            digest.update(file.read(max(end - start - sizes[start], 0)))
        file.seek(archive.start_dir)
        digest.update(file.read(size - DIGITS - archive.start_dir))
    return digest.hexdigest().encode()


def _read_array(archive: zipfile.ZipFile, name: str, about: Mapping[str, Any]) -> np.ndarray:
    """One array, after its header, the manifest and the size of its zip member have been found to agree."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        version = npy.read_magic(member)
        header = npy.read_array_header_1_0(member) if version == (1, 0) else npy.read_array_header_2_0(member)
        shape, in_fortran_order, dtype = header
        n_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        agree = list(shape) == about["shape"] and dtype.str == about["dtype"] and not dtype.hasobject
        # an array without bytes can be as long as it likes, and would take as long to walk through
        agree &= int(np.prod([n for n in shape if n], dtype=object)) <= archive.start_dir + 2**20
        if not agree or info.compress_type != zipfile.ZIP_STORED or n_bytes + member.tell() != info.file_size:
            raise ModelFileError(f"The array {name!r} of the model file is not what its manifest says.")
        content = np.empty(n_bytes, dtype=np.uint8)
        for low in range(0, n_bytes, PIECE):
            content[low : low + PIECE] = np.frombuffer(member.read(PIECE), dtype=np.uint8)
        return content.view(dtype).reshape(shape, order="F" if in_fortran_order else "C")
