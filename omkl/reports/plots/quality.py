"""Plots of calibration, confusion matrices, and handwritten words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import COLOURS, axes_for, dress, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Maximum number of labels of a confusion matrix with counts in its cells.
COUNTED = 15
#: Maximum length of a label.
LONGEST = 14


def plot_calibration(
    y_true: Sequence | np.ndarray,
    probabilities: Sequence | np.ndarray,
    classes: Sequence | np.ndarray | None = None,
    *,
    bins: int = 10,
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw the accuracy of predictions by their probability, in bins of equal size.

    Below the diagonal, the model is overconfident.

    Parameters
    ----------
    y_true : array of shape (n,), or list of sequences
        Gold labels; if ``probabilities`` is one-dimensional, whether predictions are correct.
    probabilities : array of shape (n,) or (n, K), or list of arrays (n_i, K)
        Result of ``predict_proba`` or ``predict_marginals``, or the probability of each prediction.
    classes : sequence of K labels, optional
        Labels of the columns; 0, 1, ... by default.
    bins : int
        Maximum number of points.
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.

    Examples
    --------
    >>> ax = plot_calibration([True, True, False, True], [0.9, 0.8, 0.6, 0.7], bins=2)
    >>> [round(float(p), 2) for p in ax.lines[1].get_xdata()]
    [0.65, 0.85]
    """
    from sklearn.calibration import CalibrationDisplay

    if np.ndim(probabilities[0]) == 2:
        probabilities = np.concatenate(list(probabilities))
    confidence = np.asarray(probabilities, dtype=np.float64)
    right = np.asarray(_flat(y_true))
    if confidence.ndim > 1:
        best = confidence.argmax(axis=1)
        predicted = best if classes is None else np.asarray(classes)[best]
        right = predicted == right
        confidence = confidence.max(axis=1)
    ax = axes_for(ax, 4.0, 3.6)
    settings = {"n_bins": bins, "strategy": "quantile", "color": COLOURS[0], "pos_label": True}
    CalibrationDisplay.from_predictions(right.astype(bool), confidence, ax=ax, **settings)
    ax.get_legend().remove()
    return dress(ax, title, "probability of the prediction", "share of right predictions")


def plot_confusion(
    y_true: Iterable, y_pred: Iterable, *, n: int = 40, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Draw a confusion matrix: rows are gold labels, and columns are predicted labels.

    Cells show counts, and colours show fractions of the tokens of a gold label.

    Parameters
    ----------
    y_true, y_pred : array or sequence of labels, or of sequences of labels
    n : int
        Maximum number of labels; labels with the most mistakes are shown.
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.

    Raises
    ------
    omkl.exceptions.InputError
        If there are no labels, or the numbers of predicted and gold labels differ.

    Examples
    --------
    >>> ax = plot_confusion([["a", "b", "b"]], [["a", "a", "b"]])
    >>> [label.get_text() for label in ax.get_xticklabels()], [text.get_text() for text in ax.texts]
    (['a', 'b'], ['1', '0', '1', '1'])
    """
    from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

    gold = list(map(str, _flat(y_true)))
    predicted = list(map(str, _flat(y_pred)))
    if len(gold) != len(predicted) or not gold:
        raise InputError(
            f"There are {len(gold)} gold labels and {len(predicted)} predicted ones: "
            "give as many, not none."
        )
    labels = np.unique([*gold, *predicted])
    counts = confusion_matrix(gold, predicted, labels=labels)
    mistakes = counts.sum(axis=0) + counts.sum(axis=1) - 2 * np.diag(counts)
    shown = np.sort(np.argsort(-mistakes, kind="stable")[:n])
    counts = counts[np.ix_(shown, shown)]
    names = shortened(labels[shown], LONGEST)
    side = 2.4 + 0.2 * len(shown)
    ax = axes_for(ax, side, 0.95 * side)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rotation = "vertical" if max(map(len, names)) > 2 else "horizontal"
    look = {"cmap": "Blues", "colorbar": False, "xticks_rotation": rotation}
    display = ConfusionMatrixDisplay(shares, display_labels=names)
    display.plot(ax=ax, include_values=len(shown) <= COUNTED, **look)
    for text, count in zip(ax.texts, counts.flat):
        text.set_text(str(count))
    return dress(ax, title, "predicted", "gold")


def _flat(labels: Iterable) -> list:
    """Concatenate sequences of labels."""
    elements = list(labels)
    if elements and isinstance(elements[0], (list, tuple, np.ndarray)):
        return list(chain.from_iterable(elements))
    return elements


def plot_word(
    images: ArrayLike,
    decoded: Sequence,
    gold: Sequence | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw the images of a word's letters, each above its predicted label.

    The gold label stands below a wrong one.

    Parameters
    ----------
    images : array of shape (n, height, width) or (n, height * width)
        0 is background, and the maximum is ink. Flat images must be square, or twice as high as
        wide.
    decoded : sequence of n labels
        The prediction of a labeler.
    gold : sequence of n labels, optional
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.

    Raises
    ------
    omkl.exceptions.InputError
        If flat images have another shape.
    """
    tiles = np.asarray(images, dtype=np.float64)
    if tiles.ndim == 2:
        ratio = 1 if np.sqrt(tiles.shape[1]).is_integer() else 2
        width = int(np.sqrt(tiles.shape[1] / ratio))
        if ratio * width * width != tiles.shape[1]:
            raise InputError(
                f"Images of {tiles.shape[1]} pixels are neither squares nor twice as high as wide."
            )
        tiles = tiles.reshape(len(tiles), ratio * width, width)
    width = tiles.shape[2] + 1
    ax = axes_for(ax, max(0.42 * len(tiles), 1.6), 1.2)
    separated = np.pad(tiles, ((0, 0), (0, 0), (0, 1)))
    ax.imshow(np.hstack(list(separated)), cmap="binary", interpolation="none")
    expected = decoded if gold is None else gold
    texts = []
    for predicted, label in zip(decoded, expected):
        texts.append(str(predicted) if predicted == label else f"{predicted}\n({label})")
    ax.set_xticks((np.arange(len(tiles)) + 0.5) * width - 1, texts)
    for text, predicted, label in zip(ax.get_xticklabels(), decoded, expected):
        if predicted != label:
            text.set_color(COLOURS[1])
    ax.tick_params(length=0, labelleft=False)
    ax.spines[:].set_visible(False)
    ax.set_title(title)
    return ax
