"""Handwritten digits seen in several ways: views of one image, each for a kernel of its own."""

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError

SIDE = 8
#: Pixels darker than this are ink to those who follow the outline.
INK = 0.3


def digit_views(images: ArrayLike) -> dict[str, np.ndarray]:
    """See images of digits in four ways.

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
        lower, the left and the right border in every column and row, as a part of the side, 1 where there is none (32).

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
