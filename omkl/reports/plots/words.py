"""Handwritten words, with the letters that a model reads in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import COLOURS, axes_for, dress, inches, ink, letters, show_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_word(
    images: ArrayLike,
    decoded: Sequence,
    gold: Sequence | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
    width: float | None = None,
) -> Axes:
    """Draw the images of a word's letters, with the decoded label below each, and the gold one below wrong ones.

    Parameters
    ----------
    images : array of shape (n, height, width) or (n, height * width)
        0 is paper, the largest value is ink. Flat images are squares, or twice as high as wide.
    decoded : sequence of n labels
        As a labeler predicts them.
    gold : sequence of n labels, optional
    ax : matplotlib.axes.Axes, optional
        A new figure by default.
    title : str
    width : float, optional
        Inches of a new figure: 3.3 is a column of a paper.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    omkl.exceptions.InputError
        If there are no images, or not as many labels.
    """
    tiles = _tiles(images)
    n, rows, columns = tiles.shape
    if len(decoded) != n or (gold is not None and len(gold) != n):
        raise InputError(f"There are {n} images, and another number of labels: give one for each.")
    width = min(max(0.42 * n, 1.6), 7.0) if width is None else width
    lines = 1 if gold is None else 2
    ax = axes_for(ax, width, width * rows / (n * columns) + 0.24 * lines + 0.15 + 0.25 * bool(title))
    flat = np.pad(tiles, ((0, 0), (0, 1), (0, 1))).transpose(1, 0, 2).reshape(rows + 1, -1)
    show_cells(ax, flat, ink(ax))
    dress(ax, title)
    ax.set_axis_off()
    size = min(1.5 * letters(ax), 0.7 * 72.0 * inches(ax)[0] / n)
    place: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top", "annotation_clip": False}
    for k, label in enumerate(decoded):
        at = ((k + 0.5) * (columns + 1) - 0.5, rows)
        wrong = gold is not None and gold[k] != label
        look: dict[str, Any] = {"color": COLOURS[1], "fontweight": "bold"} if wrong else {"color": ink(ax)}
        ax.annotate(str(label), at, xytext=(0, -3.0), fontsize=size, **look, **place)
        if gold is not None and wrong:
            below = (0, -3.0 - 1.25 * size)
            ax.annotate(str(gold[k]), at, xytext=below, fontsize=0.75 * size, color=ink(ax), **place)
    return ax


def _tiles(images: ArrayLike) -> np.ndarray:
    """Images (n, height, width) in [0, 1]."""
    tiles = np.asarray(images, dtype=np.float64)
    if tiles.ndim == 2 and tiles.size:
        n, size = tiles.shape
        sides = [(ratio * int(np.sqrt(size // ratio)), int(np.sqrt(size // ratio))) for ratio in (1, 2)]
        tiles = next((tiles.reshape(n, *own) for own in sides if own[0] * own[1] == size), tiles)
    if tiles.ndim != 3 or not tiles.size or not np.isfinite(tiles).all():
        raise InputError(
            "Images must be a finite array (n, height, width), or flat squares or rectangles twice as high as wide, "
            f"got shape {tiles.shape}."
        )
    return np.clip(tiles / max(tiles.max(), 1e-300), 0.0, 1.0)
