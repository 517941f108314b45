"""Functions of all scripts that fetch data: read in blocks, and keep only what is verified."""

import argparse
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
    """Yield the bytes of a file in blocks."""
    try:
        with Path(path).open("rb") as file:
            yield from iter(lambda: file.read(BLOCK_SIZE), b"")
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror}.") from None


def contents(path):
    """Yield the contents of a file, compressed or not, in blocks."""
    with open_bytes(path) as file:
        yield from iter(lambda: file.read(BLOCK_SIZE), b"")


def existing_path(name, folder, *below):
    """Return the path of ``name.gz`` or ``name`` in a folder, or in one below; None without one."""
    for place in (*below, "."):
        for path in (Path(folder) / place / f"{name}.gz", Path(folder) / place / name):
            if path.is_file():
                return path
    return None


def from_folder(name, folder, *below):
    """Return the contents of a file in a folder, or in one below, and its path."""
    path = existing_path(name, folder, *below)
    if path is None:
        raise DataFileError(
            f"There is no {name}.gz, nor {name}, in {folder} or its folder {below[0]}."
        )
    return contents(path), path


def from_url(url):
    """Yield the bytes at an address in blocks."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            yield from iter(lambda: answer.read(BLOCK_SIZE), b"")
    except (OSError, http.client.HTTPException) as error:
        raise DataFileError(
            f"{url} cannot be reached ({error}); if you have the data, give it with --from."
        ) from None


def shown(blocks, title, total):
    """Yield the same blocks, while a bar shows how many of ``total`` bytes have passed."""
    with tqdm(total=total, unit="B", unit_scale=True, desc=title, disable=None) as bar:
        for block in blocks:
            bar.update(len(block))
            yield block


def verified(blocks, sha256, source):
    """Yield the same blocks; raise an error after the last one if ``source`` gave other bytes."""
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
    """Yield blocks in gzip format, without a name or a date: the same bytes for the same bytes."""
    gzip = zlib.compressobj(wbits=31)
    for block in blocks:
        yield gzip.compress(block)
    yield gzip.flush()


def save(blocks, target):
    """Write blocks to a file; if they end in an error, the file stays as it was."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target, "wb") as file:
        file.writelines(blocks)


def save_compressed(blocks, target, how=""):
    """Write verified blocks to a compressed file of the cache, and say how they were verified."""
    save(compressed(blocks), target)
    print(f"Verified{how}, and saved to {target}.")


def parser_of(text):
    """Return a parser of the arguments of a script, with the text of its help."""
    return argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def run_chosen(name, text, fetch, choices, kind, argv):
    """Run a script that fetches all of several choices, or those that its user names.

    Parameters
    ----------
    name, text : str
        Name and help of the script.
    fetch : callable
        ``fetch(names, folder)`` fetches choices from a folder, or from their public homes.
    choices : collection of str
    kind : str
        Word for files in the help.
    argv : list of str, optional
    """
    parser = parser_of(text)
    parser.add_argument(
        "--from",
        dest="folder",
        metavar="DIR",
        help=f"take the {kind} of this folder, download nothing",
    )
    parser.add_argument(
        "--only", action="append", choices=choices, metavar="NAME", help=", ".join(choices)
    )
    arguments = parser.parse_args(argv)
    return run(name, fetch, arguments.only, arguments.folder)


def run(name, work, *arguments):
    """Do the work of a script; return its exit code, 2 after an error, told in one sentence."""
    try:
        work(*arguments)
    except (DataFileError, OSError) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    return 0
