"""How good a model is on data: what the pages of all kinds of models share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from omkl.estimators.explanations import Explanation
from omkl.exceptions import InputError, MissingDependencyError
from omkl.reports import plots
from omkl.reports.markup import Cell, Markup, bar, figure, number, opening, percent, table, text

#: The examples that are shown of those that a model gets most wrong.
WORST = 10
#: Groups and features that explain a mistake.
REASONS = 6
#: Ends of the ranges of lengths that scores are told for.
LENGTHS = (1, 5, 10, 20, 40, 80, 160)
#: Labels that are confused, and labels in a picture of them.
CONFUSIONS = 30


@dataclass
class Quality:
    """What is told of a model on data.

    Attributes
    ----------
    tiles : dict of str to object
        The numbers that matter most.
    parts : list of str
        HTML of the section on how good it is.
    worst : list of str
        HTML of the examples that it gets most wrong.
    """

    tiles: dict[str, Any]
    parts: list[str] = field(default_factory=list)
    worst: list[str] = field(default_factory=list)


def drawn(function: Callable[..., Any], *arguments: Any, caption: str = "", paper: bool = False, **options: Any) -> str:
    """A picture that a function draws, as HTML; nothing where matplotlib is not there, or there is nothing to draw."""
    try:
        return figure(plots.to_svg(function(*arguments, **options)), caption, paper)
    except (MissingDependencyError, InputError):
        return ""


def score_table(records: Sequence[dict[str, Any]], name: str, caption: str = "") -> str:
    """Counts, precision, recall and F1 of each label, relation or length."""
    rows = [
        [str(r[name]), *(r[key] for key in ("gold", "predicted", "correct")),
         *(percent(r[key]) for key in ("precision", "recall", "f1"))]
        for r in records
    ]  # fmt: skip
    return table([name, "gold", "predicted", "correct", "precision", "recall", "F1"], rows, caption)


def confusion_parts(gold: Sequence[Any], predicted: Sequence[Any]) -> list[str]:
    """A picture of what labels are taken for, and the commonest mistakes."""
    mistakes = Counter((own, other) for own, other in zip(gold, predicted) if own != other)
    if not mistakes:
        return []
    n_gold = Counter(gold)
    rows = [
        [str(own), str(other), times, percent(times / n_gold[own])]
        for (own, other), times in mistakes.most_common(CONFUSIONS)
    ]
    return [
        drawn(plots.plot_confusion, gold, predicted, caption="What each label (row) is taken for (column)."),
        opening("The commonest mistakes", table(["gold", "predicted", "times", "share of gold"], rows)),
    ]


def calibration_part(right: np.ndarray, confidence: np.ndarray) -> str:
    """A picture of how often predictions of a probability are right."""
    caption = "How often predictions are right, by the probability that the model gives them."
    return drawn(plots.plot_calibration, right, confidence, caption=caption)


def by_length(lengths: np.ndarray, right: np.ndarray, what: str) -> str:
    """Accuracy by the length of sequences: ``right`` are numbers of right tokens."""
    edges = [0, *LENGTHS, max(int(lengths.max(initial=0)), LENGTHS[-1]) + 1]
    rows = []
    for low, high in pairwise(edges):
        own = (lengths > low) & (lengths <= high)
        if own.any():
            name = str(high) if high == low + 1 else f"{low + 1} to {high}" if high <= LENGTHS[-1] else f"over {low}"
            rows.append([
                Cell(name, high), int(own.sum()), percent(right[own].sum() / lengths[own].sum()),
                percent(float(np.mean(right[own] == lengths[own]))),
            ])  # fmt: skip
    return table([f"{what} of length", "number", "right tokens", "all right"], rows)


def worst_first(wrong: np.ndarray, size: np.ndarray, n: int) -> list[int]:
    """The examples with most mistakes, the shorter first where there are as many; none without a mistake."""
    order = np.lexsort((size, -wrong))[:n]
    return [i for i in order.tolist() if wrong[i] > 0]


def reasons(explain: Callable[[], Explanation]) -> str:
    """What speaks for the wrong output against the right one, or what a number is the sum of; hidden until it is asked
    for."""
    try:
        why = explain()
    except InputError:
        return ""
    title = f"Why: ahead of the right one by {number(why.margin, 3)}"
    if why.against is None:
        title = f"Why: the parts that add up to {number(why.margin, 4)}"
    return opening(title, *explanation_parts(why))


def explanation_parts(why: Explanation) -> list[str]:
    """Tables of what groups and features add."""
    groups = why.strongest_groups(REASONS)
    places = [(f["feature"] if f["token"] is None else f"{f['feature']} at {f['token']}", f["group"], f["adds"])
              for f in why.features[:REASONS]]  # fmt: skip
    largest = max((abs(value) for _, value in groups), default=0.0)
    rows = [[name, Cell(f"{value:+.3g}", value), bar(value, largest)] for name, value in groups]
    parts = [table(["group", "adds", ""], rows)]
    largest = max((abs(value) for *_, value in places), default=0.0)
    single = [[name, group, Cell(f"{value:+.3g}", value), bar(value, largest)] for name, group, value in places]
    return [*parts, table(["strongest single parts", "group", "adds", ""], single)]


def marked_tokens(shown: Iterable[str], *columns: tuple[Sequence[Any], Sequence[Any]]) -> str:
    """Tokens side by side with the labels of the first column; below those that are wrong, in whatever column, what is
    predicted, struck out, and what is right.

    Parameters
    ----------
    shown : iterable of str
        The tokens.
    *columns : (sequence, sequence)
        Gold labels and predicted ones, as many as tokens.
    """
    spans = []
    for i, word in enumerate(shown):
        labels = [(gold[i], predicted[i]) for gold, predicted in columns]
        wrong = [f"<del>{text(other)}</del> {text(own)}" for own, other in labels if own != other]
        told = [text(own) for own, other in labels[:1] if own == other] + wrong
        below = "".join(f"<small>{label}</small>" for label in told)
        spans.append(f"<span{' class=wrong' if wrong else ''}>{text(word)}{below}</span>")
    return Markup(f"<div class=tokens>{''.join(spans)}</div>")
