"""Functions of all scripts that fetch data: read in blocks, and keep only what is verified."""

import hashlib
import http.client
import sys
import urllib.request
import zlib
from collections import deque
from pathlib import Path

from tqdm import tqdm

from omkl._files import replacing
from omkl.data.files import open_bytes
from omkl.exceptions import DataFileError

BLOCK_SIZE = 2**16


def from_file(path):
    """The bytes of a file, in blocks."""
    try:
        with Path(path).open("rb") as file:
            yield from iter(lambda: file.read(BLOCK_SIZE), b"")
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror}.") from None


def contents(path):
    """Yield the contents of a file, compressed or not, in blocks."""
    with open_bytes(path) as file:
        yield from iter(lambda: file.read(BLOCK_SIZE), b"")


def existing_path(name, folders):
    """Path of ``name.gz`` or ``name`` in the first of the folders that has one, or None."""
    for folder in folders:
        for path in (Path(folder) / f"{name}.gz", Path(folder) / name):
            if path.is_file():
                return path
    return None


def from_url(url):
    """The bytes at an address, in blocks."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            yield from iter(lambda: answer.read(BLOCK_SIZE), b"")
    except (OSError, http.client.HTTPException) as error:
        raise DataFileError(
            f"{url} cannot be reached ({error}); if you have the data, give it with --from."
        ) from None


def shown(blocks, title, total):
    """The same blocks, while a bar shows how many of ``total`` bytes have passed."""
    with tqdm(total=total, unit="B", unit_scale=True, desc=title, disable=None) as bar:
        for block in blocks:
            bar.update(len(block))
            yield block


def verified(blocks, sha256, source):
    """The same blocks; an error after the last one if ``source`` gave other bytes."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
        yield block
    if digest.hexdigest() != sha256:
        raise DataFileError(
            f"{source} is not the file that was expected (its SHA-256 is {digest.hexdigest()})."
        )


def holds(path, sha256):
    """Return True if a file is there and has the expected contents."""
    try:
        deque(verified(contents(path), sha256, path), maxlen=0)
    except DataFileError:
        return False
    return True


def compressed(blocks):
    """Blocks in gzip format, without a name or a date: the same bytes in, the same bytes out."""
    gzip = zlib.compressobj(wbits=31)
    for block in blocks:
        yield gzip.compress(block)
    yield gzip.flush()


def save(blocks, target):
    """Write blocks to a file; if they end in an error, what was there before is there still."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target, "wb") as file:
        file.writelines(blocks)


def run(name, work, *arguments):
    """Do the work of the script ``name``; returns its exit code, 2 after an error, which is told in
    one sentence.
    """
    try:
        work(*arguments)
    except (DataFileError, OSError) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    return 0
