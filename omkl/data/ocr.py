"""The handwritten words of Kassel (MIT), cleaned by Taskar: ``letter.data.gz``."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from omkl.data.files import PathLike, find, open_text
from omkl.exceptions import DataFileError

N_PIXELS = 128
N_FOLDS = 10
ROWS, COLUMNS = 16, 8


@dataclass(frozen=True)
class HandwrittenWords:
    """Words as sequences of images.

    Attributes
    ----------
    images : list of int8 arrays (n, 128)
        One row an image of 16 x 8 pixels, row by row, each 0 or 1.
    letters : list of lists of str
        The letters of each word; the first one of every word (a capital) was left out by the makers of the data.
    folds : int array
        The fold of each word, 0 to 9.
    """

    images: list
    letters: list
    folds: np.ndarray

    def __len__(self) -> int:
        return len(self.images)

    def of_folds(self, folds: ArrayLike) -> tuple[list[np.ndarray], list[list[str]]]:
        """``(images, letters)`` of the words in these folds."""
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
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
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


def _check_head(fields, where):
    """Letter, whether it is the last of its word, its position and its fold."""
    try:
        letter, following, position, fold = fields[1], int(fields[2]), int(fields[4]), int(fields[5])
    except (IndexError, ValueError):
        raise DataFileError(f"{where}: expected id, letter, next id, word, position, fold and 128 pixels.") from None
    if len(letter) != 1 or not 0 <= fold < N_FOLDS:
        raise DataFileError(f"{where}: the letter {letter!r} or the fold {fold} is not what this data set has.")
    return letter, following == -1, position, fold


_TO_BITS = bytes.maketrans(b"01", b"\x00\x01")


def _pixels(text, where):
    row = text.encode("ascii", "replace")
    pixels = row[::2]
    if len(row) != 2 * N_PIXELS - 1 or row[1::2] != b"\t" * (N_PIXELS - 1) or pixels.strip(b"01"):
        raise DataFileError(f"{where}: expected {N_PIXELS} pixels, each 0 or 1, after the fold.")
    return pixels.translate(_TO_BITS)
