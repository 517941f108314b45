"""How good a model is: whether its probabilities can be believed, and what it takes for what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import COLOURS, GREY, axes_for, dress, inches, ink, letters, note
from omkl.reports.plots.names import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The 97.5 % point of the normal distribution: intervals cover 95 %.
NORMAL = 1.959964
#: Labels of a confusion matrix at most, where nothing else is asked for, and letters of each.
LABELS, LONGEST = 40, 14
#: Labels of so many letters at most are in alphabetical order.
SHORT = 2
#: The share of a label's tokens that has the whole colour where no other label is taken for another as often.
NOTABLE = 0.1
#: Points between lines of numbers in the cells of a matrix, in heights of letters.
LEGIBLE = 1.9


def confidences(y_true: Any, probabilities: Any, classes: Sequence | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The probability of what is predicted, and whether that is right, of each example or token: two arrays (n,).

    Parameters
    ----------
    y_true : array of shape (n,), or list of sequences
        What is right, or, where ``probabilities`` has one column, whether what was predicted is.
    probabilities : array of shape (n,) or (n, K), or list of arrays (n_i, K)
        As ``predict_proba`` or ``predict_marginals`` returns them, or the probability of what was predicted.
    classes : sequence of K labels, optional
        What columns stand for: ``classes_`` of the estimator; 0, 1, ... by default.

    Raises
    ------
    omkl.exceptions.InputError
        If they do not fit each other.
    """
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
    """How often predictions of a probability are right: records of bins with as many predictions in each.

    Parameters
    ----------
    confidence : array of shape (n,)
        Probabilities of what was predicted.
    right : bool array of shape (n,)
    bins : int
        At most; predictions of the same probability stay together.

    Returns
    -------
    list of dict
        ``confidence`` (mean), ``accuracy``, ``count``, and ``low`` and ``high``, which bound the accuracy with 95 % by
        the score interval of Wilson (1927).
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
    y_true: Any, probabilities: Any, classes: Sequence | None = None, *, bins: int = 10, ax: Axes | None = None,
    title: str = "", width: float | None = None,
) -> Axes:  # fmt: skip
    """Draw how often predictions are right against how probable the model says they are.

    Each point is as many predictions as any other, with an interval of 95 %. On the diagonal probabilities can be
    believed; below it the model is too sure. The line above tells the mean distance, the expected calibration error
    with these bins (Guo, Pleiss, Sun, Weinberger 2017).

    Parameters
    ----------
    y_true : array of shape (n,), or list of sequences
        What is right, or, where ``probabilities`` has one column, whether what was predicted is.
    probabilities : array of shape (n,) or (n, K), or list of arrays (n_i, K)
        As ``predict_proba`` or ``predict_marginals`` returns them, or the probability of what was predicted.
    classes : sequence of K labels, optional
        What columns stand for: ``classes_`` of the estimator; 0, 1, ... by default.
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
    omkl.exceptions.MissingDependencyError
        If matplotlib is not installed.

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
    dress(ax, "", "probability of what is predicted", "share that is right")
    ax.set(xlim=(first, 1.0), ylim=(first, 1.0), aspect="equal")
    error = float(np.sum(count * np.abs(x - y)) / count.sum())
    note(ax, f"{len(confidence)} predictions, {right.mean():.1%} right; error {100 * error:.2g} points", title)
    return ax


def plot_confusion(
    y_true: Iterable, y_pred: Iterable, *, n: int | None = None, ax: Axes | None = None, title: str = "",
    width: float | None = None,
) -> Axes:  # fmt: skip
    """Draw what labels are taken for: a row for each gold label, a column for each predicted one.

    Cells tell which part of a gold label's tokens is taken for another label, the darker the more; what is right is in
    grey, on the diagonal. Labels that are confused most are shown, the others are put together.

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
    omkl.exceptions.MissingDependencyError
        If matplotlib is not installed.

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
    _cells(ax, strength, COLOURS[0])
    _cells(ax, np.diag(0.35 * np.diag(shares)), GREY)
    cell = 72.0 * min(inches(ax)) / len(labels)
    size = min(letters(ax), cell / 1.05)
    if cell > LEGIBLE * letters(ax):
        digits = len(str(counts.max()))
        for i, j in zip(*np.nonzero(counts)):
            strong = i != j and strength[i, j] > 0.63
            ax.text(
                j, i, f"{int(counts[i, j])}", ha="center", va="center_baseline", color="white" if strong else ink(ax),
                fontsize=min(size, 1.35 * cell / digits),
            )  # fmt: skip
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
    """Labels, and how often each (row) is taken for each (column).

    The commonest are first, but for letters and digits, which are in their order.


    Raises
    ------
    omkl.exceptions.InputError
        If there are no labels, or not as many predicted as gold ones.
    """
    sides = [_flat(side) for side in (y_true, y_pred)]
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        raise InputError(
            f"There are {len(sides[0])} gold labels and {len(sides[1])} predicted ones: give as many, and at least one."
        )
    members = list(dict.fromkeys(chain(*sides)))
    index = {label: k for k, label in enumerate(members)}
    codes = [np.array([index[label] for label in side]) for side in sides]
    counts = np.zeros((len(members), len(members)), dtype=np.int64)
    np.add.at(counts, tuple(codes), 1)
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
    # which of the others are taken for which of them is no longer told
    rest = np.setdiff1d(np.arange(len(labels)), shown)
    merged[-1, -1] = np.diag(counts)[rest].sum()
    return [*(labels[k] for k in shown), f"{len(rest)} others"], merged


def _cells(ax: Axes, strength: np.ndarray, colour: str) -> None:
    """Cells in a colour that is the stronger the larger the number, from 0 to 1, over any background."""
    from matplotlib.colors import to_rgb

    image = np.empty((*strength.shape, 4))
    image[:, :, :3], image[:, :, 3] = to_rgb(colour), strength
    ax.imshow(image, interpolation="none", aspect="equal")
