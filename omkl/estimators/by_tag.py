"""Labelers for the words of each tag: what is left to be said of a word whose tag is known."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from omkl.estimators.sequence import SequenceLabeler


class ByTag:
    """A labeler for the words of each tag, so that labels are few wherever they are told apart.

    Parameters
    ----------
    default : str
        The label of words of a tag that was not there in training.

    Attributes
    ----------
    labelers : dict of str to SequenceLabeler or str
        By tag; a label, where there is no other.
    """

    def __init__(self, default: str) -> None:
        self.default = default
        self.labelers: dict[str, SequenceLabeler | str] = {}

    def fit(
        self, taught: Iterable[tuple[str, list, list]], learn: Callable[[list, list], SequenceLabeler]
    ) -> "ByTag":  # fmt: skip
        """Learn from sequences of tokens and their labels, ``(tag, X, y)``, for every tag; None is a label not known.

        ``learn(X, y)`` is a labeler that has learned from some.
        """
        self.labelers = {}
        for tag, X, y in taught:
            labels = {label for sequence in y for label in sequence} - {None}
            if len(labels) > 1:
                self.labelers[tag] = learn(X, y)
            else:
                self.labelers[tag] = labels.pop() if labels else self.default
        return self

    def predict(self, tag: str, X: Sequence[Sequence[Any]]) -> list[list[str]]:
        """Labels of sequences of tokens of one tag."""
        labeler = self.labelers.get(tag, self.default)
        if isinstance(labeler, str):
            return [[labeler] * len(x) for x in X]
        return [labels.tolist() for labels in labeler.predict(X)]
