"""Precision, recall and F1 of what was counted."""

from collections.abc import Mapping
from typing import Any


def records(name: str, table: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """A flat record for each ``[gold, predicted, correct]`` of a table, with its key as the entry ``name``.

    >>> records("label", {"X": (4, 2, 1)})[0]["recall"]
    0.25
    """
    return [{name: key, **scores_of(*found)} for key, found in table.items()]


def scores_of(gold: int, predicted: int, correct: int) -> dict[str, Any]:
    """The counts by name, and precision, recall and F1, 0 where nothing was counted."""
    return {
        "gold": int(gold),
        "predicted": int(predicted),
        "correct": int(correct),
        "precision": float(correct / max(predicted, 1)),
        "recall": float(correct / max(gold, 1)),
        "f1": f1(gold, predicted, correct),
    }


def f1(gold: int, predicted: int, correct: int) -> float:
    """The harmonic mean of precision and recall."""
    return float(2 * correct / max(gold + predicted, 1))
