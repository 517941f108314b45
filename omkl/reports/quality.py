"""Quality of a model on data: parts that pages of all kinds of models share."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from omkl.estimators.explanations import Explanation
from omkl.exceptions import InputError
from omkl.reports import plots
from omkl.reports.markup import Cell, details, drawn, html, number, percent, table

#: Groups and features that explain a mistake.
REASONS = 6
#: Pairs of labels that are confused.
CONFUSIONS = 30


@dataclass
class Quality:
    """Quality of a model on data.

    Attributes
    ----------
    tiles : dict of str to str
        The most important numbers.
    parts : list of str
        HTML of tables and pictures.
    worst : list of str
        HTML of the worst mistakes.
    """

    tiles: dict[str, str]
    parts: list[str] = field(default_factory=list)
    worst: list[str] = field(default_factory=list)


def confusion_parts(gold: Sequence, predicted: Sequence) -> list[str]:
    """Make a picture of the confusions of labels, and a table of the commonest."""
    mistakes = Counter((own, other) for own, other in zip(gold, predicted) if own != other)
    if not mistakes:
        return []
    n_gold, rows = Counter(gold), []
    for (own, other), times in mistakes.most_common(CONFUSIONS):
        share = times / n_gold[own] if n_gold[own] else None
        rows.append([str(own), str(other), times, Cell(percent(share), share)])
    caption = "Predicted labels (columns) by gold labels (rows)."
    common = table(["gold", "predicted", "times", "share of gold"], rows)
    return [drawn(plots.plot_confusion, gold, predicted, caption=caption), details("The commonest mistakes", common)]


def calibration_parts(heading: str, right: np.ndarray, confidence: np.ndarray) -> list[str]:
    """Make a picture of the accuracy of predictions by their probability."""
    caption = "Share of right predictions by the probability that the model gives them."
    return [html.heading(heading), drawn(plots.plot_calibration, right, confidence, caption=caption)]


def worst_first(wrong: np.ndarray, size: np.ndarray, n: int) -> list[int]:
    """Return the examples with the most mistakes, the shorter first of those with as many."""
    order = np.lexsort((size, -wrong))[:n]
    return [i for i in order.tolist() if wrong[i] > 0]


def reasons(explain: Callable[[], Explanation]) -> str:
    """Make tables of what groups and features add to an output's lead, or to a number; empty where it is unknown."""
    try:
        why = explain()
    except InputError:
        return ""
    title = f"Why: ahead of the right one by {number(why.margin, 3)}"
    if why.against is None:
        title = f"Why: the parts that add up to {number(why.margin, 4)}"
    groups = [[name, Cell(f"{value:+.3g}", value)] for name, value in why.strongest_groups(REASONS)]
    single = []
    for f in why.features[:REASONS]:
        place = f["feature"] if f["token"] is None else f"{f['feature']} at {f['token']}"
        single.append([place, f["group"], Cell(f"{f['adds']:+.3g}", f["adds"])])
    return details(title, table(["group", "adds"], groups), table(["strongest parts", "group", "adds"], single))


def marked_tokens(tokens: Sequence[str], *columns: tuple[Sequence, Sequence]) -> str:
    """Make tokens with labels below: predicted labels that are wrong are struck out, before the right ones.

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
