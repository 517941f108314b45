"""One labeler per tag."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from omkl.sequences.labeler import SequenceLabeler

#: Training of a labeler on sequences of words and their labels; None is an unknown label.
Learn: TypeAlias = Callable[[list, list], SequenceLabeler]


class ByTag:
    """One labeler per tag, so that each chooses among few labels.

    Parameters
    ----------
    default : str
        Label of words whose tag was not met in training.

    Attributes
    ----------
    labelers : dict of str to SequenceLabeler or str
        By tag; a string is the only label of its tag.
    """

    def __init__(self, default: str) -> None:
        self.default = default
        self.labelers: dict[str, SequenceLabeler | str] = {}

    def fit(self, data: Iterable[tuple[str, list, list]], learn: Learn) -> "ByTag":
        """Learn from sequences and their labels, ``(tag, X, y)`` for each tag; None is an unknown label."""
        self.labelers = {}
        for tag, X, y in data:
            labels = {label for sequence in y for label in sequence} - {None}
            if len(labels) > 1:
                self.labelers[tag] = learn(X, y)
            else:
                self.labelers[tag] = labels.pop() if labels else self.default
        return self

    def predict(self, tag: str, X: Sequence[Sequence[Any]]) -> list[list[str]]:
        """Labels of sequences of words of one tag."""
        labeler = self.labelers.get(tag, self.default)
        if isinstance(labeler, str):
            return [[labeler] * len(x) for x in X]
        return [labels.tolist() for labels in labeler.predict(X)]
