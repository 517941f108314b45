"""Handwritten dates: real digit images that come with scikit-learn, strung into calendar dates. Nothing to download."""

import datetime
from dataclasses import dataclass

import numpy as np

from omkl.exceptions import InputError

FIRST_DAY = datetime.date(1900, 1, 1)
LAST_DAY = datetime.date(2029, 12, 31)


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
    """Make handwritten dates.

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
