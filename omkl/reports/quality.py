"""Quality of a model on data: the parts that pages of all kinds of models share."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup

from omkl.estimators.explanations import Explanation
from omkl.exceptions import InputError, MissingDependencyError
from omkl.reports import plots
from omkl.reports.markup import Cell, bar, details, html, number, percent, signed_cell, table

#: Groups and features that explain a mistake.
REASONS = 6
#: Upper ends of the ranges of lengths.
LENGTHS = (1, 5, 10, 20, 40, 80, 160)
#: Pairs of labels that are confused.
CONFUSIONS = 30


@dataclass
class Quality:
    """Quality of a model on data.

    Attributes
    ----------
    tiles : dict of str to object
        The most important numbers.
    parts : list of str
        HTML of tables and pictures.
    worst : list of str
        HTML of the worst mistakes.
    """

    tiles: dict[str, Any]
    parts: list[str] = field(default_factory=list)
    worst: list[str] = field(default_factory=list)


def drawn(function: Callable[..., Any], *arguments: Any, caption: str = "", paper: bool = False, **options: Any) -> str:
    """A picture by a function of :mod:`omkl.reports`; empty without matplotlib, or where there is nothing to draw."""
    try:
        return html.figure(Markup(plots.to_svg(function(*arguments, **options))), caption, paper)
    except (MissingDependencyError, InputError):
        return ""


def score_table(records: Sequence[dict[str, Any]], name: str) -> str:
    """Counts, precision, recall and F1 of each label, relation or length."""
    counts, scores = ("gold", "predicted", "correct"), ("precision", "recall", "f1")
    rows = [[str(r[name]), *(r[key] for key in counts), *(percent(r[key]) for key in scores)] for r in records]
    return table([name, *counts, "precision", "recall", "F1"], rows)


def confusion_parts(gold: Sequence[Any], predicted: Sequence[Any]) -> list[str]:
    """A picture of the confusions of labels, and a table of the commonest."""
    mistakes = Counter((own, other) for own, other in zip(gold, predicted) if own != other)
    if not mistakes:
        return []
    n_gold = Counter(gold)
    rows = [
        [str(own), str(other), times, percent(times / n_gold[own])]
        for (own, other), times in mistakes.most_common(CONFUSIONS)
    ]
    caption = "Predicted labels (columns) by gold labels (rows)."
    common = table(["gold", "predicted", "times", "share of gold"], rows)
    return [drawn(plots.plot_confusion, gold, predicted, caption=caption), details("The commonest mistakes", common)]


def calibration_part(right: np.ndarray, confidence: np.ndarray) -> str:
    """A picture of the accuracy of predictions by their probability."""
    caption = "Share of right predictions by the probability that the model gives them."
    return drawn(plots.plot_calibration, right, confidence, caption=caption)


def length_table(lengths: np.ndarray, right: np.ndarray, what: str) -> str:
    """Accuracy by length; ``right`` is the number of right tokens of each sequence."""
    edges = [0, *LENGTHS, max(int(lengths.max(initial=0)), LENGTHS[-1]) + 1]
    rows = []
    for low, high in pairwise(edges):
        own = (lengths > low) & (lengths <= high)
        if own.any():
            name = str(high) if high == low + 1 else f"{low + 1} to {high}" if high <= LENGTHS[-1] else f"over {low}"
            accuracy = percent(right[own].sum() / lengths[own].sum())
            rows.append(
                [Cell(name, high), int(own.sum()), accuracy, percent(float(np.mean(right[own] == lengths[own])))]
            )
    return table([f"{what} of length", "number", "right tokens", "all right"], rows)


def worst_first(wrong: np.ndarray, size: np.ndarray, n: int) -> list[int]:
    """The examples with the most mistakes, the shorter first of those with as many; none without a mistake."""
    order = np.lexsort((size, -wrong))[:n]
    return [i for i in order.tolist() if wrong[i] > 0]


def reasons(explain: Callable[[], Explanation]) -> str:
    """Tables of what groups and features add to a wrong output's lead, or to a number; empty where it is unknown."""
    try:
        why = explain()
    except InputError:
        return ""
    title = f"Why: ahead of the right one by {number(why.margin, 3)}"
    if why.against is None:
        title = f"Why: the parts that add up to {number(why.margin, 4)}"
    groups = [([name], value) for name, value in why.strongest_groups(REASONS)]
    single = []
    for f in why.features[:REASONS]:
        place = f["feature"] if f["token"] is None else f"{f['feature']} at {f['token']}"
        single.append(([place, f["group"]], f["adds"]))
    parts = (_bars(["group"], groups), _bars(["strongest single parts", "group"], single))
    return details(title, *parts)


def _bars(header: list[str], found: list[tuple[list[str], float]]) -> str:
    """A table of names and numbers with bars."""
    largest = max((abs(value) for _, value in found), default=0.0)
    rows = [[*names, signed_cell(value), bar(value, largest)] for names, value in found]
    return table([*header, "adds", ""], rows)


def marked_tokens(tokens: Sequence[str], *columns: tuple[Sequence[Any], Sequence[Any]]) -> str:
    """Tokens side by side, with their labels below: what is predicted wrong is struck out before what is right.

    Parameters
    ----------
    tokens : sequence of n str
    *columns : (sequence, sequence)
        n gold and n predicted labels; right ones of the first column alone are shown.
    """
    words = []
    for token, *labels in zip(tokens, *(list(zip(*column)) for column in columns)):
        shown = [labels[0], *((gold, other) for gold, other in labels[1:] if gold != other)]
        words.append((token, any(gold != other for gold, other in labels), shown))
    return html.tokens(words)
