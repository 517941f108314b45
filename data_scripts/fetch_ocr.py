"""Fetch the OCR data set (handwritten words) into the user's cache, and verify it.

    python data_scripts/fetch_ocr.py                 from its public home
    python data_scripts/fetch_ocr.py --from FILE     from a file that you have

The data: Rob Kassel (MIT Spoken Language Systems Group), cleaned by Ben Taskar; its page states no licence.
"""

import argparse
import hashlib
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from omkl._files import replacing
from omkl.data.files import user_cache
from omkl.exceptions import DataFileError

HOME = "https://ai.stanford.edu/~btaskar/ocr/letter.data.gz"
SHA256 = "4ef9522ffeaa68cad889ad8d02ad3fca411fe6a656546c236a183866157b3b34"


def fetch(source, target):
    """Copy ``source`` (a path, or None for the public home) to ``target``, if its checksum is right."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target, "wb") as file:
        digest = hashlib.sha256()
        for block in _blocks(source):
            digest.update(block)
            file.write(block)
        if digest.hexdigest() != SHA256:
            raise DataFileError(
                f"{source or HOME} is not the file that was expected (its SHA-256 is {digest.hexdigest()})."
            )


def _blocks(source, size=2**16):
    if source is not None:
        try:
            with Path(source).open("rb") as file:
                yield from iter(lambda: file.read(size), b"")
        except OSError as error:
            raise DataFileError(f"{source} cannot be read: {error.strerror}.") from None
        return
    try:
        with urllib.request.urlopen(HOME, timeout=60) as answer:
            total = int(answer.headers.get("Content-Length", 0)) or None
            with tqdm(total=total, unit="B", unit_scale=True, desc="letter.data.gz", disable=None) as bar:
                for block in iter(lambda: answer.read(size), b""):
                    bar.update(len(block))
                    yield block
    except (urllib.error.URLError, OSError) as error:
        raise DataFileError(f"{HOME} cannot be reached ({error}); if you have the file, give it with --from.") from None


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", metavar="FILE", help="take this file instead of downloading")
    arguments = parser.parse_args(argv)
    target = user_cache() / "ocr" / "letter.data.gz"
    try:
        fetch(arguments.source, target)
    except DataFileError as error:
        print(f"fetch_ocr: error: {error}", file=sys.stderr)
        return 2
    print(f"Verified, and saved to {target}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
