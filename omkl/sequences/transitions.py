"""Transitions: the parameter of labelers about scores of neighbouring labels."""

from dataclasses import dataclass
from typing import Any

from omkl.estimators.options import Options
from omkl.estimators.validation import Number, OneOf
from omkl.exceptions import InputError

#: Valid values of ``Transitions.scores``.
SCORES = OneOf(("free", "regularized", None))


@dataclass(frozen=True, eq=False, repr=False)
class Transitions(Options):
    """Scores of pairs of neighbouring labels in sequences, and which pairs are allowed.

    Parameters
    ----------
    scores : {"free", "regularized", None}
        Not regularized, an additional regularized group, or none, which is much faster for hundreds
        of labels.
    allowed : {"BIO", "BIOES"}, dict, array of shape (K, K) or None
        Allowed pairs of consecutive labels, in training and prediction; None allows all. The name
        of a chunking scheme (also "IOB2", "IOBES", "BILOU") is for labels such as ``O``, ``B-PER``,
        ``I-PER``: an inside label must continue a chunk of its type. A dict maps a label to the
        list of allowed next labels, and None to the list of allowed first labels; labels that are
        not keys can be followed by any label. In a matrix, in the order of ``classes_``, True means
        that the label of the column may follow the label of the row.
    by_position : bool
        Whether scores depend on the position, for outputs of a fixed format such as dates.
    order : {1, 2}
        2 adds scores of trigrams of labels, in O(n K^3) time. Useful for few labels, such as the
        letters of words.

    Examples
    --------
    >>> from omkl import SequenceLabeler, Transitions
    >>> labeler = SequenceLabeler(transitions=Transitions(allowed="BIO"))
    """

    constraints = {
        "scores": SCORES,
        "by_position": OneOf((True, False)),
        "order": Number(above=0, below=3, integer=True),
    }

    scores: str | None = "free"
    allowed: Any = None
    by_position: bool = False
    order: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_position and self.scores is None:
            raise InputError("by_position must be False with scores=None.")
