"""What is true of accuracies measured on the same examples: who is ahead, who is behind, and what may be chance."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

#: Standard errors from zero from which on a difference counts, and the fewest examples for which it does.
STANDARD_ERRORS, FEWEST = 2.0, 10
#: What comes between "it is" and another model.
WORDS = {"ahead": "ahead of", "level": "level with", "behind": "behind", "unclear": "not to be told from"}
#: Arrays, one an example, or the rows of one.
Ragged: TypeAlias = Sequence[np.ndarray] | np.ndarray


@dataclass(frozen=True)
class Comparison:
    """How far a model is ahead of another one.

    Attributes
    ----------
    against : str
        The other model.
    difference, standard_error : float
        Of the accuracies; a single example has no standard error, None.
    outcome : {"ahead", "level", "behind", "unclear"}
        Level are two that differ by at most two standard errors; fewer than ten examples leave it unclear.
    """

    against: str
    difference: float
    standard_error: float | None
    outcome: str

    @classmethod
    def of(cls, against: str, correct: Ragged, others: Ragged) -> "Comparison":
        """Compare two models by what is correct: for every example an array, as long as the example.

        Accuracies are ratios of sums over the examples, and the standard error of their difference is that of a ratio
        to first order (Cochran 1977, Sampling Techniques, chapter 6).
        """
        gains = np.array([np.sum(mine) - np.sum(theirs, dtype=float) for mine, theirs in zip(correct, others)])
        sizes = np.array([len(mine) for mine in correct], dtype=float)
        n, difference = len(gains), float(gains.sum() / sizes.sum())
        if n == 1:
            return cls(against, difference, None, "unclear")
        error = float(np.sqrt(n) * (gains - difference * sizes).std(ddof=1) / sizes.sum())
        outcome = "level" if abs(difference) <= STANDARD_ERRORS * error else "ahead" if difference > 0 else "behind"
        return cls(against, difference, error, outcome if n >= FEWEST else "unclear")

    def cells(self) -> tuple[str, str, str, str]:
        """A line of a table, in points."""
        error = "" if self.standard_error is None else f"{100 * self.standard_error:.2f}"
        return self.against, f"{100 * self.difference:+.2f}", error, self.outcome


def conclude(name: str, simpler: Sequence[Comparison], others: Sequence[Comparison] = ()) -> list[str]:
    """Say in lines whether a model pays, which simpler ones tell, and how it stands beside others."""
    outcomes = {comparison.outcome for comparison in simpler}
    if "unclear" in outcomes:
        return [f"With fewer than {FEWEST} examples to test on there is no telling whether {name} pays."]
    pays = "ahead" in outcomes and "behind" not in outcomes
    in_part = " in part" if pays and "level" in outcomes else ""
    lines = [f"{name} {'pays' if pays else 'does not pay'} here{in_part}: it is {standing(simpler)}."]
    return [*lines, f"Beside the rest it is {standing(others)}."] if others else lines


def standing(comparisons: Sequence[Comparison]) -> str:
    """Ahead of some, level with others, behind the rest: what comes after "it is"."""
    parts = []
    for outcome, words in WORDS.items():
        names = [comparison.against for comparison in comparisons if comparison.outcome == outcome]
        if names:
            parts.append(f"{words} {joined(names)}")
    return "; ".join(parts)


def joined(names: Iterable[str]) -> str:
    """Names as they stand in a sentence.

    >>> joined(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
