"""Data sets: handwritten words (OCR), the UCI and IDA benchmark sets, and dates of digits.

Dates are made from scikit-learn's digits. The scripts in ``data_scripts`` download the other data
sets.
"""

import datetime
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch

from omkl._components import check_number
from omkl.data.files import PathLike, data_home, text_lines
from omkl.exceptions import DataFileError, InputError

N_PIXELS = 128
FIRST_DAY = datetime.date(1900, 1, 1)
LAST_DAY = datetime.date(2029, 12, 31)
#: Side length of digit images, and the threshold above which a pixel is ink in outlines.
SIDE, INK = 8, 0.3


@dataclass(frozen=True)
class HandwrittenWords:
    """Handwritten words as sequences of images.

    Attributes
    ----------
    images : list of int8 arrays (n, 128)
        Each row is an image of 16 x 8 binary pixels, flattened row by row.
    letters : list of lists of str
        The letters of each word. First letters, which were capitals, are not in the data.
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
        The file ``letter.data`` or ``letter.data.gz``: tab-separated, no header, 134 fields (id,
        letter, id of the next letter or -1, word, position, fold, 128 pixels). By default
        ``ocr/letter.data.gz`` below
        :func:`~omkl.data.data_home`.

    Returns
    -------
    HandwrittenWords

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing or truncated, or a line is invalid; the message names the line.
    """
    images: list[np.ndarray] = []
    letters: list[list[str]] = []
    folds: list[int] = []
    word: list[np.ndarray] = []
    path = path or _find("ocr/letter.data.gz", "fetch_ocr.py")
    for number, line in text_lines(path):
        try:
            _, letter, following, _, _, fold, *pixels = line.rstrip("\t").split("\t")
            image = np.array(pixels, dtype=np.int8).reshape(N_PIXELS)
            fold_of_word = int(fold)
        except (ValueError, OverflowError):
            raise DataFileError(
                f"{path}, line {number}: expected the next letter of a word, its fold, and its "
                "pixels."
            ) from None
        if not word:
            letters.append([])
            folds.append(fold_of_word)
        letters[-1].append(letter)
        word.append(image)
        if following == "-1":
            images.append(np.stack(word))
            word = []
    if word or not images:
        raise DataFileError(f"{path} ends in the middle of a word: get it again.")
    return HandwrittenWords(images, letters, np.array(folds))


def _find(relative: str, tool: str) -> Path:
    """Return the path of a data set below :func:`data_home`.

    The error for a missing file names the ``tool`` that downloads it.
    """
    path = data_home() / relative
    if not path.exists():
        raise DataFileError(
            f"There is no {path}: run data_scripts/{tool}, or set OMKL_DATA to the folder that has "
            "it."
        )
    return path


def read_uci(name_or_path: PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Read a benchmark set.

    Parameters
    ----------
    name_or_path : str or path-like
        ``"ionosphere"``, ``"pima"``, ``"sonar"``, ``"splice"``, ``"liver"``, ``"wpbc"``,
        ``"ringnorm"``, ``"twonorm"`` or ``"waveform"``, in ``uci/NAME.csv.gz`` below
        :func:`~omkl.data.data_home`. Anything else is the path of a table of comma-separated
        numbers under a header; the last column, ``y``, holds the labels -1 and +1.

    Returns
    -------
    X : float array (n, d)
        The features as in the file, neither scaled nor imputed.
    y : int array (n,)
        The labels, -1 or +1.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, truncated, or not such a table.
    """
    path = name_or_path
    if str(name_or_path).isidentifier():
        path = _find(f"uci/{name_or_path}.csv.gz", "fetch_uci.py")
    header, *rows = [line for _, line in text_lines(path)] or [""]
    n_columns = len(header.split(","))
    table = np.empty(0)
    with suppress(ValueError):
        table = np.array([row.split(",") for row in rows], dtype=float)
    is_rectangular = table.shape[1:] == (n_columns,)
    is_table = header.endswith(",y") and is_rectangular and np.isfinite(table).all()
    if not is_table or not np.isin(table[:, -1], (-1, 1)).all():
        raise DataFileError(
            f"{path} must have names of columns in line 1, y last, and in all others as many "
            "numbers."
        )
    return table[:, :-1].copy(), table[:, -1].astype(int)


def handwritten_dates(
    n_train: int = 80, n_test: int = 200, random_state: int | np.random.Generator | None = 0
) -> Bunch:
    """Make handwritten dates ``DDMMYYYY``, eight images each, from scikit-learn's digits.

    Days are drawn uniformly from 1900 to 2029, so digits have the transitions of a real calendar.
    One half of scikit-learn's 1797 images is used for training, the other half for testing. For
    every digit of a date, an image of that digit is drawn at random.

    Parameters
    ----------
    n_train, n_test : int
        Number of dates.
    random_state : int, Generator or None

    Returns
    -------
    sklearn.utils.Bunch
        ``train_images`` and ``test_images`` are lists of arrays (8, 64). Each row is an image of 8
        x 8 pixels in [0, 1]. ``train_digits`` and ``test_digits`` are lists of lists of int.
    """
    from sklearn.datasets import load_digits

    check_number("n_train", n_train, least=1, integer=True)
    check_number("n_test", n_test, least=1, integer=True)
    rng = np.random.default_rng(random_state)
    digits = load_digits()
    images = digits.data / 16.0
    order = rng.permutation(len(images))
    dates = Bunch()
    n_days = (LAST_DAY - FIRST_DAY).days + 1
    for part, half, n in (("train", order[::2], n_train), ("test", order[1::2], n_test)):
        images_of_digit = [half[digits.target[half] == digit] for digit in range(10)]
        digits_of_dates = []
        for day in rng.integers(0, n_days, size=n):
            date = FIRST_DAY + datetime.timedelta(days=int(day))
            digits_of_dates.append(list(map(int, date.strftime("%d%m%Y"))))
        images_of_dates = []
        for date_digits in digits_of_dates:
            chosen = [rng.choice(images_of_digit[digit]) for digit in date_digits]
            images_of_dates.append(images[chosen])
        dates[f"{part}_digits"] = digits_of_dates
        dates[f"{part}_images"] = images_of_dates
    return dates


def digit_views(images: ArrayLike) -> dict[str, np.ndarray]:
    """Compute four views of images of digits.

    Parameters
    ----------
    images : array (n, 64)
        Each row is a flattened image of 8 x 8 pixels in [0, 1], as from
        :func:`~omkl.data.handwritten_dates`.

    Returns
    -------
    dict of str to float array (n, d)
        ``"pixels"``: the image itself (d = 64). ``"profiles"``: the mean of every row, then of
        every column (16). ``"spectrum"``: the absolute values of the discrete Fourier transform,
        divided by 8, which are invariant to cyclic shifts (40). ``"outline"``: the distance of the
        first ink (above 0.3) from the upper, lower, left and right border in every column or row,
        as a fraction of the side, 1 if there is no ink (32).

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
        raise InputError(
            f"Images of digits are rows of {SIDE * SIDE} pixels, not an array of shape "
            f"{pixels.shape}."
        )
    square = pixels.reshape(-1, SIDE, SIDE)
    ink = square > INK
    edges = [
        _distance(ink, 1),
        _distance(ink[:, ::-1], 1),
        _distance(ink, 2),
        _distance(ink[:, :, ::-1], 2),
    ]
    return {
        "pixels": pixels,
        "profiles": np.hstack([square.mean(axis=2), square.mean(axis=1)]),
        "spectrum": np.abs(np.fft.rfft2(square)).reshape(len(square), -1) / SIDE,
        "outline": np.hstack(edges),
    }


def _distance(ink: np.ndarray, axis: int) -> np.ndarray:
    """Distance to the first ink along an axis, as a fraction of the side."""
    return np.where(ink.any(axis), ink.argmax(axis), SIDE) / SIDE
