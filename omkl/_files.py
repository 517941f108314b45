"""Atomic writes: a file is the old one or the new one, even if writing is interrupted."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

PathLike: TypeAlias = str | os.PathLike[str]


@contextmanager
def replacing(path: PathLike, mode: str = "w", **options: Any) -> Iterator[IO]:
    """Open a temporary file beside ``path``; on success it takes its place, on failure nothing has changed.

    The bytes are on disk before the name is: a crash leaves the previous file or the whole new one.
    """
    path = Path(path)
    if "b" not in mode:
        options.setdefault("encoding", "utf-8")
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        os.fchmod(descriptor, 0o666 & ~_umask())
        with os.fdopen(descriptor, mode, **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
