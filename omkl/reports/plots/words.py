"""Handwriting: words with the letters that a model reads in them, and letters that it takes for others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import COLOURS, axes_for, dress, inches, ink, letters
from omkl.reports.plots.names import SHORTEST, room_for_names, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Images of letters are this much as high as wide, where they come as vectors: those of the OCR data set are 16 by 8.
RATIOS = (1, 2)


def plot_word(
    images: ArrayLike, decoded: Sequence, gold: Sequence | None = None, *, probabilities: Sequence[float] | None = None,
    shape: tuple[int, int] | None = None, ax: Axes | None = None, title: str = "", width: float | None = None,
) -> Axes:  # fmt: skip
    """Draw the images of a word's letters, with what is read below each; what is wrong in another colour, and what is
    right below it.

    Parameters
    ----------
    images : array of shape (n, height, width) or (n, height * width)
        0 is paper, the largest value is ink.
    decoded : sequence of n labels
        As a labeler predicts them.
    gold : sequence of n labels, optional
    probabilities : array of shape (n,), optional
        How sure the model is of each label; written below it.
    shape : (int, int), optional
        Height and width of images that come as vectors; by default they are squares, or twice as high as wide.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
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
    omkl.exceptions.MissingDependencyError
        If matplotlib is not installed.
    """
    tiles = _tiles(images, shape)
    for what, own in (("decoded", decoded), ("gold", gold), ("probabilities", probabilities)):
        if own is not None and np.shape(list(own))[0] != len(tiles):
            raise InputError(f"There are {len(tiles)} images, and not as many {what}: give one for each.")
    n, rows, columns = tiles.shape
    lines = 1 + (gold is not None) + (probabilities is not None)
    width = min(max(0.42 * n, 1.6), 7.0) if width is None else width
    ax = axes_for(ax, width, width * rows / (n * columns) + 0.24 * lines + 0.15 + 0.25 * bool(title))
    _montage(ax, tiles[None])
    dress(ax, title)
    ax.set_axis_off()
    size = min(1.5 * letters(ax), 0.7 * 72.0 * inches(ax)[0] / n)
    for k, label in enumerate(decoded):
        right = gold is None or gold[k] == label
        below = [(str(label), size, ink(ax) if right else COLOURS[1])]
        if gold is not None:
            below.append(("" if right else f"{gold[k]}", 0.75 * size, ink(ax)))
        if probabilities is not None:
            below.append((f"{100 * probabilities[k]:.0f}%", 0.5 * size, ink(ax)))
        drop = 3.0
        for text, own, colour in below:
            ax.annotate(
                text, ((k + 0.5) * (columns + 1) - 0.5, rows), xytext=(0, -drop), textcoords="offset points",
                ha="center", va="top", fontsize=own, color=colour, annotation_clip=False,
                fontweight="bold" if colour == COLOURS[1] else "normal",
            )  # fmt: skip
            drop += 1.25 * own
    return ax


def plot_mistakes(
    images: Any, y_true: Sequence, y_pred: Sequence, *, n: int = 8, examples: int = 12,
    shape: tuple[int, int] | None = None, ax: Axes | None = None, title: str = "", width: float | None = None,
) -> Axes:  # fmt: skip
    """Draw the letters that are misread most, a row for each pair of labels that is confused.

    Parameters
    ----------
    images : array of shape (N, height, width) or (N, height * width), or list of such, one for each word
        0 is paper, the largest value is ink.
    y_true, y_pred : sequence of N labels, or list of such, one for each word
    n : int
        Pairs of labels at most, the commonest first.
    examples : int
        Images of each at most, the first ones.
    shape, ax, title, width
        As for :func:`plot_word`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    omkl.exceptions.InputError
        If there are not as many labels as images, or no mistake.
    omkl.exceptions.MissingDependencyError
        If matplotlib is not installed.
    """
    if len(y_true) and np.ndim(images[0]) >= 2 and not np.isscalar(y_true[0]) and not isinstance(y_true[0], str):
        images = np.concatenate([np.asarray(own) for own in images])
        y_true, y_pred = ([label for word in side for label in word] for side in (y_true, y_pred))
    tiles = _tiles(images, shape)
    if not len(tiles) == len(y_true) == len(y_pred):
        raise InputError(f"There are {len(tiles)} images, {len(y_true)} gold labels and {len(y_pred)} predicted ones.")
    pairs = Counter((gold, label) for gold, label in zip(y_true, y_pred) if gold != label)
    if not pairs:
        raise InputError("There is nothing to draw: no label is wrong.")
    common = pairs.most_common(n)
    shown = np.zeros((len(common), examples, *tiles.shape[1:]))
    for row, (pair, _) in zip(shown, common):
        found = [k for k, own in enumerate(zip(y_true, y_pred)) if own == pair][:examples]
        row[: len(found)] = tiles[found]
    rows, columns = tiles.shape[1:]
    width = 4.5 if width is None else width
    ax = axes_for(ax, width, 0.3 + 0.75 * width * len(common) * rows / (examples * columns))
    _montage(ax, shown)
    dress(ax, title)
    labels = sorted({str(label) for pair, _ in common for label in pair})
    short = dict(zip(labels, shortened(labels, max(SHORTEST, room_for_names(ax) // 2 - 6))))
    names = [f"{short[str(gold)]} as {short[str(label)]}, {times} times" for (gold, label), times in common]
    ax.set_yticks((np.arange(len(common)) + 0.5) * (rows + 1) - 0.5, names)
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def _tiles(images: ArrayLike, shape: tuple[int, int] | None) -> np.ndarray:
    """Images (n, height, width) in [0, 1]."""
    tiles = np.asarray(images, dtype=np.float64)
    if tiles.ndim == 2 and len(tiles):
        size = tiles.shape[1]
        sides = [(ratio * int(np.sqrt(size // ratio)), int(np.sqrt(size // ratio))) for ratio in RATIOS]
        fitting = [own for own in ([shape] if shape else sides) if own[0] * own[1] == size]
        if not fitting:
            raise InputError(f"Images of {size} pixels are neither square nor twice as high as wide: give shape.")
        tiles = tiles.reshape(len(tiles), *fitting[0])
    if tiles.ndim != 3 or not tiles.size or not np.isfinite(tiles).all():
        raise InputError(f"Images are an array (n, height, width) of finite numbers, not one of shape {tiles.shape}.")
    return np.clip(tiles / max(tiles.max(), 1e-300), 0.0, 1.0)


def _montage(ax: Axes, tiles: np.ndarray) -> None:
    """Images (rows, columns, height, width) side by side, in the colour of text over any background."""
    from matplotlib.colors import to_rgb

    height, width = tiles.shape[2:]
    padded = np.pad(tiles, ((0, 0), (0, 0), (0, 1), (0, 1)))
    flat = padded.transpose(0, 2, 1, 3).reshape(tiles.shape[0] * (height + 1), tiles.shape[1] * (width + 1))
    image = np.empty((*flat.shape, 4))
    image[:, :, :3], image[:, :, 3] = to_rgb(ink(ax)), flat
    ax.imshow(image, interpolation="none", aspect="equal")
