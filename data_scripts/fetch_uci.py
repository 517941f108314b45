"""Fetch the UCI and IDA benchmark sets into the user's cache, as tables, and verify them.

    python data_scripts/fetch_uci.py                    all of them, from their public homes
    python data_scripts/fetch_uci.py --from DIR         all tables that are in a folder
    python data_scripts/fetch_uci.py --only ionosphere  this one; --only can be repeated

pima, ionosphere, sonar: from a commit of github.com/jbrownlee/Datasets; diabetic, good and mine are
+1. splice: from a commit of github.com/pauldhein/splice-junction-detector; junctions of both kinds
are +1, the bases A, C, G, T are 1, 2, 3, 4, and the 15 sequences with an unknown base are left out.
liver (BUPA liver disorders): from a commit of github.com/vilge/Liver_patient; the selector 1 is +1,
as in the papers on MKL. It was made to split the data in two, and is no diagnosis (McDermott and
Forsyth 2016, "Diagnosing a disorder in a classification benchmark"). wpbc (Wisconsin prognostic
breast cancer): from a commit of github.com/arthuradolfo/RandomForestEnsemble; cancers that came
back are +1, and the 4 patients whose lymph nodes are unknown are left out, which leaves the 194 of
the papers. ringnorm, twonorm, waveform: drawn here, by their definitions. numpy does not promise to
draw the same numbers for ever; should it draw others, what was drawn is refused, and --from takes a
copy.

DIR holds NAME.csv.gz or NAME.csv, in a folder uci or not. What is verified is the SHA-256 of a raw
file, and of what is in a table, so that it does not matter how it was compressed. For liver and
wpbc no checksum is known: what is verified is that a table has the features by name, finite numbers
only, and as many samples, and as many of them +1, as UCI documents (less the 4); the single numbers
are not. Tables that are there already, and right, are left alone.
"""

import io
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from _fetch import (
    contents,
    existing_path,
    from_folder,
    from_url,
    holds,
    run_chosen,
    save_compressed,
    verified,
)

from omkl.data.files import user_cache
from omkl.exceptions import DataFileError

DATASETS = (
    "https://raw.githubusercontent.com/jbrownlee/Datasets/d20fcb6402ae34e653d4513b00f39257bb37ed7f"
)
GITHUB = "https://raw.githubusercontent.com"
SPLICE = f"{GITHUB}/pauldhein/splice-junction-detector/715e34e0c271c2c000fdbd54279b91a8b7b801a4"
BASE_CODES = {"A": "1", "C": "2", "G": "3", "T": "4"}
LIVER = (
    "https://raw.githubusercontent.com/vilge/Liver_patient/7661ee3d846561e74a432d06fd5214ba36d9cac2"
)
WPBC = f"{GITHUB}/arthuradolfo/RandomForestEnsemble/828fe7561c5ce240f2c5a7aec186f669c7a899b7"
PIMA_FEATURES = ["preg", "plas", "pres", "skin", "insu", "mass", "pedi", "age"]
LIVER_FEATURES = ["mcv", "alkphos", "sgpt", "sgot", "gammagt", "drinks"]
NUCLEI = [
    "radius",
    "texture",
    "perimeter",
    "area",
    "smoothness",
    "compactness",
    "concavity",
    "concave_points",
    "symmetry",
    "fractal_dimension",
]
WPBC_FEATURES = [
    "time",
    *(f"{name}_mean" for name in NUCLEI),
    *(f"{name}_se" for name in NUCLEI),
    *(f"{name}_worst" for name in NUCLEI),
    "size",
    "lymph_nodes",
]
N_GENERATED = 5000
SEED = 20091


def labelled_table(lines, features, signs):
    """Make a table of lines of features, which stay as written, and a label, which gets a sign."""
    rows = []
    for line in lines:
        numbers, _, label = line.rpartition(",")
        rows.append(f"{numbers},{signs[label]}")
    return _table(features, rows)


def headed_table(lines, features, signs):
    """Make a table of such lines under a header."""
    return labelled_table(lines[1:], features, signs)


def prognostic_table(lines, features, signs):
    """Make a table of lines of a number, a label and features, without incomplete lines."""
    rows = []
    for line in lines:
        if "?" not in line:
            _, label, numbers = line.split(",", 2)
            rows.append(f"{numbers},{signs[label]}")
    return _table(features, rows)


def splice_table(lines, features, signs):
    """Make a table of lines of label, name and sequence, without lines with unknown bases."""
    rows = []
    for line in lines[1:]:
        label, _, sequence = map(str.strip, line.split(","))
        if set(sequence) <= BASE_CODES.keys():
            rows.append(",".join([*map(BASE_CODES.get, sequence), str(signs[label])]))
    return _table(features, rows)


def _table(features, lines):
    return "".join(f"{line}\n" for line in [",".join([*features, "y"]), *lines]).encode()


def _numbered(letter, n_features):
    return [f"{letter}{i}" for i in range(n_features)]


class Raw(NamedTuple):
    """A raw file: its address, its SHA-256 if known, and the function that makes a table of it."""

    url: str
    sha256: str | None
    convert: Callable
    features: list
    signs: dict


RAW = {
    "pima": Raw(
        f"{DATASETS}/pima-indians-diabetes.csv",
        "6bfe5d0f379d17a0e0819b996407e3c09bf80febd4287f2ed212190dfff154af",
        labelled_table,
        PIMA_FEATURES,
        {"1": 1, "0": -1},
    ),
    "ionosphere": Raw(
        f"{DATASETS}/ionosphere.csv",
        "fd6dd7864b55d56dac0a1e6e24af9ccc35bf2555ac79af8ab9f3d1daa065ab83",
        labelled_table,
        _numbered("x", 34),
        {"g": 1, "b": -1},
    ),
    "sonar": Raw(
        f"{DATASETS}/sonar.csv",
        "3079c09b5d2789a0f96aff82c28e5164fafe2495c5f8da96c6c256c1bd25763f",
        labelled_table,
        _numbered("x", 60),
        {"M": 1, "R": -1},
    ),
    "splice": Raw(
        f"{SPLICE}/data/splice.csv",
        "f0d9602dc94a00189727ee345befaa35b946bcce5700d4d0b9929943d26c18f8",
        splice_table,
        _numbered("p", 60),
        {"EI": 1, "IE": 1, "N": -1},
    ),
    "liver": Raw(f"{LIVER}/bupa.data", None, headed_table, LIVER_FEATURES, {"1": 1, "2": -1}),
    "wpbc": Raw(f"{WPBC}/data/wpbc.data", None, prognostic_table, WPBC_FEATURES, {"R": 1, "N": -1}),
}


class Counts(NamedTuple):
    """Number of samples of a table without a checksum, and of those that are +1."""

    samples: int
    positive: int


#: SHA-256 of what is in each table, or its counts.
TABLES = {
    "pima": "c6eac9128d1be1bce16d67cdf0d92512a0cf39696ff2c7c61982848426c41d8d",
    "ionosphere": "9c569464ff910c43bfaa93462ee54f17f6f796110a8ea921c21cda057f35158d",
    "sonar": "ccbce7c58253eda682ccf891af4dfd0b7e9b5cfa896a6989c2757b050ebd9c1e",
    "splice": "dbf4b0912e8bd0c5d30fedf135c568c6689ea1eec1ce6c70c18b7d95052734e4",
    "liver": Counts(345, 145),
    "wpbc": Counts(194, 46),
    "ringnorm": "2e2a635b89f460f389e6955a1dd0884f5bc64ca13d9a1ba45bfef600331f4475",
    "twonorm": "5c769a5a0d04972e901dbca51b579386717db896e010df60baa5adad22e75e4d",
    "waveform": "b0e5e7cef102b42c02dbd0aa9a83d012e00a4e06fb299f3d594d6b2a072851d6",
}


def fetch(names, folder):
    """Put tables into the cache; without names all, or those that ``folder`` has."""
    available = TABLES
    if folder is not None:
        available = [name for name in TABLES if existing_path(f"{name}.csv", folder, "uci")]
    names = names or available
    if not names:
        raise DataFileError(f"There is no table of {', '.join(TABLES)} in {folder}.")
    for name in names:
        target = user_cache() / "uci" / f"{name}.csv.gz"
        if _is_right(target, name):
            print(f"{target} is there already.")
            continue
        blocks, source = _source(name, folder)
        if isinstance(TABLES[name], Counts):
            save_compressed(_counted(blocks, name, source), target, " by its counts")
        else:
            save_compressed(verified(blocks, TABLES[name], source), target)


def _is_right(target, name):
    if isinstance(TABLES[name], str):
        return holds(target, TABLES[name])
    try:
        return bool(_counted(contents(target), name, target))
    except DataFileError:
        return False


def _counted(blocks, name, source):
    """Return the table in one block; raise an error if it has other features or counts."""
    table = b"".join(blocks)
    try:
        header, *lines = table.decode("ascii").splitlines()
        numbers = np.array([line.split(",") for line in lines], dtype=float)
    except ValueError:
        raise DataFileError(f"{source} is no table of numbers.") from None
    features = RAW[name].features
    is_table = header.split(",") == [*features, "y"] and numbers.shape[1:] == (len(features) + 1,)
    if not is_table or not np.isfinite(numbers).all() or not np.isin(numbers[:, -1], (-1, 1)).all():
        raise DataFileError(
            f"{source} is not a table of {len(features)} features and y, which is -1 or 1."
        )
    counts = Counts(len(numbers), int((numbers[:, -1] == 1).sum()))
    if counts != TABLES[name]:
        raise DataFileError(
            f"{source} is not what was expected: {counts.samples} samples, {counts.positive} of"
            f" them +1, where there are {TABLES[name].samples} and {TABLES[name].positive}."
        )
    return [table]


def _source(name, folder):
    """Return the bytes of a table in blocks, and the name of their origin."""
    if folder is not None:
        return from_folder(f"{name}.csv", folder, "uci")
    if name in RAW:
        raw = RAW[name]
        blocks = from_url(raw.url)
        if raw.sha256:
            blocks = verified(blocks, raw.sha256, raw.url)
        content = b"".join(blocks)
        try:
            lines = content.decode("ascii").splitlines()
            converted = raw.convert(lines, raw.features, raw.signs)
        except (KeyError, ValueError):  # only where no checksum tells
            raise DataFileError(f"{raw.url} is not the file that was expected.") from None
        return [converted], f"The table made of {raw.url}"
    source = f"{name} as numpy {np.__version__} draws it (--from takes a copy)"
    return [generated_table(name)], source


def generated_table(name):
    """Make the table of ringnorm, twonorm or waveform, to four decimals."""
    X, is_positive = _draw()[name]
    file = io.StringIO()
    table = np.column_stack([X, np.where(is_positive, 1, -1)])
    header = ",".join([*_numbered("x", X.shape[1]), "y"])
    np.savetxt(
        file, table, [*["%.4f"] * X.shape[1], "%d"], delimiter=",", header=header, comments=""
    )
    return file.getvalue().encode()


def _draw():
    """Draw samples of the three sets, and whether each is of the positive class.

    ringnorm and twonorm are those of Breiman (1996), "Bias, variance, and arcing classifiers";
    waveform that of Breiman, Friedman, Olshen and Stone (1984), "Classification and regression
    trees", its first class the positive one.
    """
    rng = np.random.default_rng(SEED)
    n = N_GENERATED
    shift = 2 / np.sqrt(20)
    ring = rng.random(n) < 0.5
    wide = 2 * rng.standard_normal((n, 20))
    narrow = shift + rng.standard_normal((n, 20))
    two = rng.random(n) < 0.5
    shifted = np.where(two, shift, -shift)[:, None] + rng.standard_normal((n, 20))
    kind = rng.integers(3, size=n)
    waves = np.maximum(6 - np.abs(np.arange(1, 22) - np.array([[11], [15], [7]])), 0)
    share = rng.random((n, 1))
    mixed = (
        share * waves[[0, 0, 1]][kind]
        + (1 - share) * waves[[1, 2, 2]][kind]
        + rng.standard_normal((n, 21))
    )
    return {
        "ringnorm": (np.where(ring[:, None], wide, narrow), ring),
        "twonorm": (shifted, two),
        "waveform": (mixed, kind == 0),
    }


def main(argv=None):
    return run_chosen("fetch_uci", __doc__, fetch, TABLES, "tables", argv)


if __name__ == "__main__":
    sys.exit(main())
