"""Fetch the OCR data set (handwritten words) into the user's cache, and verify it.

    python data_scripts/fetch_ocr.py                 from its public home
    python data_scripts/fetch_ocr.py --from FILE     from a file that you have

The data: Rob Kassel (MIT Spoken Language Systems Group), cleaned by Ben Taskar; its page states no
licence.
"""

import sys

from _fetch import from_file, from_url, parser_of, run, save, shown, verified

from omkl.data.files import user_cache

HOME = "https://ai.stanford.edu/~btaskar/ocr/letter.data.gz"
SHA256 = "4ef9522ffeaa68cad889ad8d02ad3fca411fe6a656546c236a183866157b3b34"
SIZE = 1_329_012


def fetch(source):
    """Copy ``source``, a path or None for the public home, into the cache, if it is right."""
    target = user_cache() / "ocr" / "letter.data.gz"
    if source is None:
        blocks = from_url(HOME)
    else:
        blocks = from_file(source)
    save(verified(shown(blocks, target.name, SIZE), SHA256, source or HOME), target)
    print(f"Verified, and saved to {target}.")


def main(argv=None):
    parser = parser_of(__doc__)
    parser.add_argument(
        "--from", dest="source", metavar="FILE", help="take this file instead of downloading"
    )
    return run("fetch_ocr", fetch, parser.parse_args(argv).source)


if __name__ == "__main__":
    sys.exit(main())
