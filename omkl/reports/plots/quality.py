"""Calibration of probabilities, and confusions of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import COLOURS, GREY, axes_for, dress, inches, ink, letters, note, show_cells
from omkl.reports.plots.names import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The 97.5 % point of the normal distribution: intervals cover 95 %.
NORMAL = 1.959964
#: Labels of a confusion matrix by default, and letters of each.
LABELS, LONGEST = 40, 14
#: Labels of at most so many letters are in alphabetical order.
SHORT = 2
#: Smallest share of confused tokens that gets the full colour.
NOTABLE = 0.1
#: Size of a cell with a number, in heights of letters.
LEGIBLE = 1.9


def confidences(y_true: Any, probabilities: Any, classes: Sequence | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of predictions, and whether these are right: two arrays (n,), of data as for plot_calibration."""
    is_list = isinstance(probabilities, (list, tuple)) and len(probabilities) > 0 and np.ndim(probabilities[0]) > 0
    if is_list and np.ndim(probabilities[0]) == 2:
        y_true = list(chain.from_iterable(y_true))
        probabilities = np.concatenate([np.asarray(own, dtype=np.float64) for own in probabilities])
    table, gold = np.asarray(probabilities, dtype=np.float64), np.asarray(y_true)
    if len(table) != len(gold) or not len(table):
        raise InputError(f"There are {len(gold)} outputs, but {len(table)} rows of probabilities: give one for each.")
    if not (table.min() >= 0 and table.max() <= 1 + 1e-9):
        raise InputError("Probabilities are numbers in [0, 1].")
    if table.ndim == 1:
        return table, gold.astype(bool)
    names = np.arange(table.shape[1]) if classes is None else np.asarray(classes)
    if len(names) != table.shape[1]:
        raise InputError(f"There are {len(names)} classes, but probabilities of {table.shape[1]}.")
    best = table.argmax(axis=1)
    return table[np.arange(len(table)), best], names[best] == gold


def calibration_bins(confidence: ArrayLike, right: ArrayLike, bins: int = 10) -> list[dict[str, Any]]:
    """Accuracy of predictions by their probability, in at most so many bins of as many predictions.

    Records have ``confidence`` (mean), ``accuracy``, ``count``, and ``low`` and ``high``, which bound the accuracy with
    95 % by the score interval of Wilson (1927).
    """
    p, hits = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    edges = np.unique(np.quantile(p, np.linspace(0.0, 1.0, bins + 1)))
    own = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, max(len(edges) - 2, 0))
    records = []
    for b in np.unique(own):
        n, share = int((own == b).sum()), float(hits[own == b].mean())
        z = NORMAL**2 / n
        centre, half = (share + z / 2) / (1 + z), np.sqrt(share * (1 - share) * z + z * z / 4) / (1 + z)
        low, high = float(max(centre - half, 0.0)), float(min(centre + half, 1.0))
        records.append(
            {"confidence": float(p[own == b].mean()), "accuracy": share, "count": n, "low": low, "high": high}
        )
    return records


def plot_calibration(
    y_true: Any,
    probabilities: Any,
    classes: Sequence | None = None,
    *,
    bins: int = 10,
    ax: Axes | None = None,
    title: str = "",
    width: float | None = None,
) -> Axes:
    """Draw the share of right predictions by their probability.

    All points are of as many predictions, with an interval of 95 %. Below the diagonal the model is too sure. The line
    above gives the expected calibration error with these bins (Guo, Pleiss, Sun, Weinberger 2017).

    Parameters
    ----------
    y_true : array of shape (n,), or list of sequences
        Gold labels; where ``probabilities`` has one column, whether predictions are right.
    probabilities : array of shape (n,) or (n, K), or list of arrays (n_i, K)
        As of ``predict_proba`` or ``predict_marginals``, or the probability of the prediction.
    classes : sequence of K labels, optional
        Labels of the columns; 0, 1, ... by default.
    bins : int
        Points at most.
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
        If outputs and probabilities do not fit each other.

    Examples
    --------
    >>> ax = plot_calibration([True, True, False, True], [0.9, 0.8, 0.6, 0.7], bins=2)
    >>> [round(float(p), 2) for p in ax.lines[1].get_xdata()]
    [0.65, 0.85]
    """
    confidence, right = confidences(y_true, probabilities, classes)
    records = calibration_bins(confidence, right, bins)
    width = 4.0 if width is None else width
    ax = axes_for(ax, width, 0.9 * width)
    x, y, count, low, high = (
        np.array([record[name] for record in records]) for name in ("confidence", "accuracy", "count", "low", "high")
    )
    first = max(0.0, np.floor(10 * min(x.min(), low.min())) / 10)
    ax.plot([first, 1], [first, 1], color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
    ax.plot(x, y, "o-", color=COLOURS[0], linewidth=1.2, markersize=4, clip_on=False)
    ax.vlines(x, low, high, color=COLOURS[0], linewidth=1.0, clip_on=False)
    dress(ax, "", "probability of the prediction", "share of right predictions")
    ax.set(xlim=(first, 1.0), ylim=(first, 1.0), aspect="equal")
    error = float(np.sum(count * np.abs(x - y)) / count.sum())
    note(ax, f"{len(confidence)} predictions, {right.mean():.1%} right; error {100 * error:.2g} points", title)
    return ax


def plot_confusion(
    y_true: Iterable,
    y_pred: Iterable,
    *,
    n: int | None = None,
    ax: Axes | None = None,
    title: str = "",
    width: float | None = None,
) -> Axes:
    """Draw a confusion matrix: a row for each gold label, a column for each predicted one.

    The darker a cell, the larger the share of the gold label's tokens; the diagonal is grey. The labels that are
    confused most are shown, the others are merged.

    Parameters
    ----------
    y_true, y_pred : array or sequence of labels, or of sequences of labels
    n : int, optional
        Labels at most; by default as many as there is room for, and 40 at most.
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
        If there are no labels, or not as many predicted as gold ones.

    Examples
    --------
    >>> ax = plot_confusion([["a", "b", "b"]], [["a", "a", "b"]])
    >>> [label.get_text() for label in ax.get_xticklabels()], [text.get_text() for text in ax.texts]
    (['a', 'b'], ['1', '1', '1'])
    """
    labels, counts = confusion_counts(y_true, y_pred)
    side = 0.9 + 0.24 * min(max(len(labels), 9), LABELS) if width is None else width
    side = min(max(side, 2.8), 9.0)
    ax = axes_for(ax, side, 0.95 * side)
    room = int(min(inches(ax)) * 72.0 / (1.05 * letters(ax)))
    labels, counts = _most_confused(labels, counts, min(LABELS, room) if n is None else n)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    wrong = shares * (1 - np.eye(len(labels)))
    strength = np.sqrt(wrong / max(wrong.max(), NOTABLE))
    show_cells(ax, strength, COLOURS[0])
    show_cells(ax, np.diag(0.35 * np.diag(shares)), GREY)
    cell = 72.0 * min(inches(ax)) / len(labels)
    size = min(letters(ax), cell / 1.05)
    if cell > LEGIBLE * letters(ax):
        digits = len(str(counts.max()))
        for i, j in zip(*np.nonzero(counts)):
            colour = "white" if i != j and strength[i, j] > 0.63 else ink(ax)
            look: dict[str, Any] = {
                "ha": "center",
                "va": "center_baseline",
                "fontsize": min(size, 1.35 * cell / digits),
            }
            ax.text(j, i, f"{int(counts[i, j])}", color=colour, **look)
    dress(ax, title, "predicted", "gold")
    names = shortened(labels, LONGEST)
    ax.set_xticks(range(len(labels)), names, rotation=90 if max(map(len, names)) > 2 else 0, fontsize=0.9 * size)
    ax.set_yticks(range(len(labels)), names, fontsize=0.9 * size)
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    for k in range(len(labels) + 1):
        ax.axhline(k - 0.5, color=GREY, alpha=0.25, linewidth=0.4)
        ax.axvline(k - 0.5, color=GREY, alpha=0.25, linewidth=0.4)
    return ax


def confusion_counts(y_true: Iterable, y_pred: Iterable) -> tuple[list[str], np.ndarray]:
    """Labels, the commonest first or short ones in their order, and how often each (row) is predicted as each."""
    from sklearn.metrics import confusion_matrix

    gold, found = _flat(y_true), _flat(y_pred)
    if len(gold) != len(found) or not gold:
        raise InputError(f"There are {len(gold)} gold labels and {len(found)} predicted ones: give as many, not none.")
    members = list(dict.fromkeys(chain(gold, found)))
    index = {label: k for k, label in enumerate(members)}
    codes = [[index[label] for label in side] for side in (gold, found)]
    counts = confusion_matrix(*codes, labels=range(len(members)))
    if max(len(str(label)) for label in members) <= SHORT:
        order = np.array(sorted(range(len(members)), key=lambda k: str(members[k])))
    else:
        order = np.argsort(-counts.sum(axis=1), kind="stable")
    return [str(members[k]) for k in order], counts[np.ix_(order, order)]


def _flat(side: Iterable) -> list:
    listed = list(side)
    if listed and isinstance(listed[0], (list, tuple, np.ndarray)):
        listed = list(chain.from_iterable(listed))
    return [own.item() if isinstance(own, np.generic) else own for own in listed]


def _most_confused(labels: list[str], counts: np.ndarray, n: int) -> tuple[list[str], np.ndarray]:
    """The labels with the most mistakes, and one row and one column for all others."""
    if len(labels) <= n:
        return labels, counts
    wrong = counts.sum(axis=0) + counts.sum(axis=1) - 2 * np.diag(counts)
    shown = np.sort(np.argsort(-wrong, kind="stable")[: max(n - 1, 1)])
    place = np.full(len(labels), len(shown))
    place[shown] = np.arange(len(shown))
    merged = np.zeros((len(shown) + 1, len(shown) + 1), dtype=np.int64)
    np.add.at(merged, (place[:, None], place[None, :]), counts)
    rest = np.setdiff1d(np.arange(len(labels)), shown)
    merged[-1, -1] = np.diag(counts)[rest].sum()
    return [*(labels[k] for k in shown), f"{len(rest)} others"], merged
