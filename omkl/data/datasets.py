"""Data sets: handwritten words (OCR), the UCI and IDA benchmark sets, digits in several views, and dates of digits.

Dates are made of scikit-learn's digits; ``data_scripts`` fetches the others.
"""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from omkl.data.files import PathLike, find, text_lines
from omkl.exceptions import DataFileError, InputError

N_PIXELS = 128
N_FOLDS = 10
ROWS, COLUMNS = 16, 8
#: A table with more columns is no benchmark set.
MOST_COLUMNS = 1 << 20
FIRST_DAY = datetime.date(1900, 1, 1)
LAST_DAY = datetime.date(2029, 12, 31)
#: Side of an image of a digit, and the least darkness of ink for outlines.
SIDE, INK = 8, 0.3
#: Views of the digits of UCI Multiple Features, and how many numbers each has.
MFEAT_WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}


@dataclass(frozen=True)
class HandwrittenWords:
    """Handwritten words as sequences of images.

    Attributes
    ----------
    images : list of int8 arrays (n, 128)
        One row an image of 16 x 8 pixels, row by row, each 0 or 1.
    letters : list of lists of str
        The letters of each word; the data has no first letters, which were capitals.
    folds : int array
        The fold of each word, 0 to 9.
    """

    images: list
    letters: list
    folds: np.ndarray

    def __len__(self) -> int:
        return len(self.images)

    def of_folds(self, folds: ArrayLike) -> tuple[list[np.ndarray], list[list[str]]]:
        """Select words by their folds.

        Parameters
        ----------
        folds : int or array of int

        Returns
        -------
        images, letters : list
        """
        chosen = np.flatnonzero(np.isin(self.folds, np.atleast_1d(folds)))
        return [self.images[i] for i in chosen], [self.letters[i] for i in chosen]


def read_ocr(path: PathLike | None = None) -> HandwrittenWords:
    """Read the OCR data set.

    Parameters
    ----------
    path : path-like, optional
        The file ``letter.data`` or ``letter.data.gz``: tab-separated, no header, 134 fields (id, letter, id of the
        next letter or -1, word, position, fold, 128 pixels). By default ``ocr/letter.data.gz`` below
        :func:`~omkl.data.data_home`.

    Returns
    -------
    HandwrittenWords

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, cut short, or a line of it is not as described; the message names the line.
    """
    if path is None:
        path = find("ocr/letter.data.gz", "run data_scripts/fetch_ocr.py, or set OMKL_DATA to the folder that has it.")
    letters, pixels, ends, folds = [], [], [], []
    fold, position = None, 0
    for number, line in text_lines(path):
        fields = line.rstrip("\t\r\n").split("\t", 6)
        where = f"{path}, line {number}"
        letter, is_last, at, here = _check_head(fields, where)
        row = _pixels(fields[6], where)
        if at != position + 1 or (position > 0 and here != fold):
            raise DataFileError(f"{where}: letter {at} of fold {here} follows letter {position} of fold {fold}.")
        fold, position = here, at
        letters.append(letter)
        pixels.append(row)
        if is_last:
            ends.append(len(letters))
            folds.append(fold)
            position = 0
    if not letters:
        raise DataFileError(f"{path} is empty.")
    if position != 0:
        raise DataFileError(f"{path} ends in the middle of a word: get it again.")
    flat = np.frombuffer(b"".join(pixels), dtype=np.int8).reshape(-1, N_PIXELS)
    starts = [0, *ends[:-1]]
    return HandwrittenWords(
        [flat[low:high] for low, high in zip(starts, ends)],
        [letters[low:high] for low, high in zip(starts, ends)],
        np.array(folds),
    )


def _check_head(fields: list[str], where: str) -> tuple[str, bool, int, int]:
    """The letter of a line, whether it is the last of its word, its position and its fold."""
    try:
        letter, following, position, fold, _ = fields[1], int(fields[2]), int(fields[4]), int(fields[5]), fields[6]
    except (IndexError, ValueError):
        raise DataFileError(f"{where}: expected id, letter, next id, word, position, fold and 128 pixels.") from None
    if len(letter) != 1 or not 0 <= fold < N_FOLDS:
        raise DataFileError(f"{where}: the letter {letter!r:.80} or the fold {fold} is not what this data set has.")
    return letter, following == -1, position, fold


_TO_BITS = bytes.maketrans(b"01", b"\x00\x01")


def _pixels(text: str, where: str) -> bytes:
    row = text.encode("ascii", "replace")
    pixels = row[::2]
    if len(row) != 2 * N_PIXELS - 1 or row[1::2] != b"\t" * (N_PIXELS - 1) or pixels.strip(b"01"):
        raise DataFileError(f"{where}: expected {N_PIXELS} pixels, each 0 or 1, after the fold.")
    return pixels.translate(_TO_BITS)


def read_uci(name_or_path: PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Read a benchmark set.

    Parameters
    ----------
    name_or_path : str or path-like
        A bare word is a name: ``"ionosphere"``, ``"pima"``, ``"sonar"``, ``"splice"``, ``"liver"``, ``"wpbc"``,
        ``"ringnorm"``, ``"twonorm"`` or ``"waveform"``, read from ``uci/NAME.csv.gz`` below
        :func:`~omkl.data.data_home`. Anything else is the path of a table, compressed (``.gz``, ``.xz``) or not:
        comma-separated numbers under a header; the last column, ``y``, holds the labels -1 and +1.

    Returns
    -------
    X : float array (n, d)
        The features, as they are in the file: neither scaled nor imputed.
    y : int array (n,)
        The labels, -1 or +1.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, cut short, or a line of it is not as described; the message names the line.
    """
    path = name_or_path
    if str(path).isidentifier():
        path = find(f"uci/{path}.csv.gz", "run data_scripts/fetch_uci.py, or set OMKL_DATA to the folder that has it.")
    rows = text_lines(path)
    _, header = next(rows, (1, ""))
    n_columns = header.count(",") + 1
    if not header.endswith(",y") or n_columns > MOST_COLUMNS:
        raise DataFileError(f"{path}, line 1: expected a header, names of features and then y.")
    table = _table(rows, n_columns, (-1, 1), path)
    return table[:, :-1].copy(), table[:, -1].astype(int)


def read_mfeat(path: PathLike | None = None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Read UCI Multiple Features: handwritten digits, each seen in six ways.

    Parameters
    ----------
    path : path-like, optional
        A table, compressed (``.gz``, ``.xz``) or not: comma-separated numbers under a header ``fac0`` to ``fac215``,
        ``fou0`` to ``fou75``, ``kar0`` to ``kar63``, ``mor0`` to ``mor5``, ``pix0`` to ``pix239``, ``zer0`` to
        ``zer46``, ``y``. By default ``uci/mfeat.csv.gz`` below :func:`~omkl.data.data_home`.

    Returns
    -------
    views : dict of str to float array (n, d)
        By name, as they are in the file, not scaled: ``"fac"`` (profile correlations, d = 216), ``"fou"`` (Fourier
        coefficients of the shape, 76), ``"kar"`` (Karhunen-Loeve coefficients, 64), ``"mor"`` (morphological
        features, 6), ``"pix"`` (averages of pixels, 240), ``"zer"`` (Zernike moments, 47).
    y : int array (n,)
        The digits, 0 to 9; the whole data set has n = 2000, in the order of the digits.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, cut short, or a line of it is not as described; the message names the line.

    References
    ----------
    van Breukelen, Duin, Tax and den Hartog (1998), "Handwritten digit recognition by combined classifiers".
    """
    if path is None:
        path = find("uci/mfeat.csv.gz", "run data_scripts/fetch_mfeat.py, or set OMKL_DATA to the folder that has it.")
    expected = [f"{name}{i}" for name, width in MFEAT_WIDTHS.items() for i in range(width)]
    rows = text_lines(path)
    if next(rows, (1, ""))[1] != ",".join([*expected, "y"]):
        raise DataFileError(f"{path}, line 1: expected a header, fac0 to zer46 and then y.")
    table = _table(rows, len(expected) + 1, range(10), path)
    ends = np.cumsum([0, *MFEAT_WIDTHS.values()])
    views = {name: table[:, low:high].copy() for name, low, high in zip(MFEAT_WIDTHS, ends, ends[1:])}
    return views, table[:, -1].astype(int)


def _table(lines: Iterator[tuple[int, str]], n_columns: int, labels: Sequence[int], path: PathLike) -> np.ndarray:
    """Parse lines of numbers, of which the last is a label."""
    rows = [_row(line, n_columns, labels, f"{path}, line {number}") for number, line in lines]
    if not rows:
        raise DataFileError(f"{path} holds no sample.")
    return np.array(rows)


def _row(line: str, n_columns: int, labels: Sequence[int], where: str) -> np.ndarray:
    try:
        row = np.array(line.split(",") if line.count(",") < n_columns else [], dtype=float)
    except ValueError:
        row = np.empty(0)
    if len(row) != n_columns or not np.isfinite(row).all():
        raise DataFileError(f"{where}: expected {n_columns} numbers.")
    if row[-1] not in labels:
        raise DataFileError(
            f"{where}: the label is {row[-1]:g}, not {labels[0]} {'or' if len(labels) == 2 else 'to'} {labels[-1]}."
        )
    return row


def standardized_split(
    X: ArrayLike,
    y: ArrayLike,
    train_size: float = 0.8,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Split samples at random, and give every feature mean 0 and variance 1 on the training part.

    Parameters
    ----------
    X : array (n, d)
    y : array (n,)
    train_size : float or int
        The training part as a fraction of the samples, in (0, 1), or as their number, 1 to n - 1.
    random_state : int, RandomState or None
        The same seed, the same split.

    Returns
    -------
    X_train, X_test, y_train, y_test : arrays
        A feature that is constant on the training part is 0 there.

    Raises
    ------
    omkl.exceptions.InputError
        If one of the parts would be empty, or X and y differ in length.

    Examples
    --------
    >>> X_train, X_test, y_train, y_test = standardized_split([[1.0], [2.0], [4.0]], [1, -1, 1], 2, random_state=0)
    >>> X_train.ravel().tolist(), X_test.shape
    ([1.0, -1.0], (1, 1))
    """
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    try:
        X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=train_size, random_state=random_state)
        scaler = StandardScaler().fit(X_train)
        return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test
    except ValueError as error:
        raise InputError(f"The samples cannot be split: {error}") from None


@dataclass(frozen=True)
class HandwrittenDates:
    """Dates ``DDMMYYYY``, eight images each, in a training and a test part that share no image.

    Attributes
    ----------
    train_images, test_images : list of arrays (8, 64)
        One row an image of 8 x 8 pixels, each in [0, 1].
    train_digits, test_digits : list of lists of int
    """

    train_images: list
    train_digits: list
    test_images: list
    test_digits: list


def handwritten_dates(
    n_train: int = 80, n_test: int = 200, random_state: int | np.random.Generator | None = 0
) -> HandwrittenDates:
    """Make handwritten dates of scikit-learn's digits.

    Days are drawn uniformly from 1900 to 2029, so that digits have the transitions of a real calendar. Half of
    scikit-learn's 1797 images serve training, the other half testing; within its half, every digit of a date takes
    one of its images at random.

    Parameters
    ----------
    n_train, n_test : int
        Number of dates.
    random_state : int, Generator or None

    Returns
    -------
    HandwrittenDates
    """
    from sklearn.datasets import load_digits

    if n_train < 1 or n_test < 1:
        raise InputError(f"There must be at least one date to train and one to test on, not {n_train} and {n_test}.")
    rng = np.random.default_rng(random_state)
    digits = load_digits()
    images = digits.data / 16.0
    order = rng.permutation(len(images))
    parts = []
    for half, n_dates in ((order[::2], n_train), (order[1::2], n_test)):
        of_digit = [half[digits.target[half] == digit] for digit in range(10)]
        days = rng.integers(0, (LAST_DAY - FIRST_DAY).days + 1, size=n_dates)
        dates = [(FIRST_DAY + datetime.timedelta(days=int(day))).strftime("%d%m%Y") for day in days]
        labels = [[int(digit) for digit in date] for date in dates]
        parts += [[images[[rng.choice(of_digit[digit]) for digit in date]] for date in labels], labels]
    return HandwrittenDates(*parts)


def digit_views(images: ArrayLike) -> dict[str, np.ndarray]:
    """Compute four views of images of digits.

    Parameters
    ----------
    images : array (n, 64)
        One row an image of 8 x 8 pixels, row by row, each in [0, 1], as :func:`~omkl.data.handwritten_dates` has them.

    Returns
    -------
    dict of str to float array (n, d)
        ``"pixels"``, the image itself (d = 64); ``"profiles"``, the mean of every row and then of every column (16);
        ``"spectrum"``, the absolute values of the discrete Fourier transform, which do not change when the digit
        moves around the border (40), divided by 8; ``"outline"``, how far ink darker than 0.3 is from the upper, the
        lower, the left and the right border in every column and row, as a part of the side, 1 without ink (32).

    Raises
    ------
    omkl.exceptions.InputError
        If images do not have 64 pixels.

    Examples
    --------
    >>> views = digit_views(np.eye(8).reshape(1, 64))
    >>> {name: view.shape[1] for name, view in views.items()}
    {'pixels': 64, 'profiles': 16, 'spectrum': 40, 'outline': 32}
    >>> views["outline"][0, :8].tolist()
    [0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875]
    """
    pixels = np.asarray(images, dtype=np.float64)
    if pixels.ndim != 2 or pixels.shape[1] != SIDE * SIDE:
        raise InputError(f"Images of digits are rows of {SIDE * SIDE} pixels, not an array of shape {pixels.shape}.")
    square = pixels.reshape(-1, SIDE, SIDE)
    ink = square > INK
    edges = [_distance(ink, 1), _distance(ink[:, ::-1], 1), _distance(ink, 2), _distance(ink[:, :, ::-1], 2)]
    return {
        "pixels": pixels,
        "profiles": np.hstack([square.mean(axis=2), square.mean(axis=1)]),
        "spectrum": np.abs(np.fft.rfft2(square)).reshape(len(square), -1) / SIDE,
        "outline": np.hstack(edges),
    }


def _distance(ink, axis):
    """Pixels before the first ink along an axis, as a part of the side."""
    return np.where(ink.any(axis), ink.argmax(axis), SIDE) / SIDE
