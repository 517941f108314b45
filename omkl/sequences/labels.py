"""Labels of sequences: their codes, the chain over them, and constraints on them."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from omkl.estimators.targets import Labels, learn_labels
from omkl.exceptions import InputError
from omkl.groups.tables import TransitionBank, TrigramBank
from omkl.structures.chain import Chain
from omkl.structures.transitions import allowed_transitions


class PartialLabels(Labels):
    """Labels of tokens; None, with the code -1, stands for a label that is not known."""

    def __init__(self, seen: Iterable, grows: bool = False) -> None:
        super().__init__(seen, grows)
        self._index[None] = -1

    def add(self, labels: Iterable) -> int:
        """Add labels that are not known yet, except None, and return their number."""
        return super().add(label for label in labels if label is not None)


class ChainOutputs:
    """A label for every token of a sequence; the parameters are those of :class:`~omkl.SequenceLabeler`."""

    single = False
    codes: type[Labels] = PartialLabels

    def __init__(
        self, transitions: str | None, by_position: bool, cost: Any, classes: Any, allowed: Any, order: int
    ) -> None:
        if by_position and transitions is None:
            raise InputError("transitions_by_position must be False with transitions=None.")
        self._transitions, self._by_position, self._order = transitions, by_position, order
        self._cost, self._classes, self._allowed = cost, classes, allowed

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Labels:
        """Learn the codes from the known labels of the first data."""
        given = [label for label in labels if label is not None]
        if not given and self._classes is None:
            raise InputError("y must hold a label other than None.")
        return learn_labels(PartialLabels, given, self._classes, self._cost)

    def structure(self, known: Labels) -> Chain:
        """Make the chain over these labels."""
        allowed = None if self._allowed is None else allowed_transitions(self._allowed, known.members)
        return Chain(len(known), self._cost, self._by_position, self._transitions is not None, allowed, self._order)

    def check(self, structure: Chain, known: Labels, gold: np.ndarray, offsets: np.ndarray) -> None:
        """Raise an InputError where labels break the allowed transitions, or unknown ones cannot be filled in."""
        if structure.allowed is None:
            return
        at = structure.allowed.first_violation(gold, offsets)
        if at is not None:
            s = _sequence_of(at, offsets)
            label, token = known.members[gold[at]], at - offsets[s]
            raise InputError(f"allowed_transitions forbids {label!r} at token {token} of sequence {s} of y.")
        if structure.is_partial(gold):
            decoded = structure.decode_many(structure.agreeing(structure.zeros(len(gold)), gold), offsets)
            check_feasible(structure, decoded, offsets, gold)

    def banks(self, structure: Chain, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """Make banks of transitions and trigrams: regularized ones, and free ones.

        ``longest`` is the length of the longest sequence, for transitions by position.
        """
        if self._transitions is None:
            return [], []
        banks: list = [TransitionBank(structure.n_labels, longest if self._by_position else 1, averaging)]
        if self._order == 2:
            banks.append(TrigramBank(structure.n_labels, averaging))
        return (banks, []) if self._transitions == "regularized" else ([], banks)


def check_feasible(
    structure: Chain, codes: np.ndarray, offsets: np.ndarray, constraint: np.ndarray | None = None
) -> None:
    """Raise where the best labels break the constraints of decoding, so that no labelling meets them all.

    ``constraint`` holds the code of each label, -1 for any; or is (N, K), the labels that each token may have.
    """
    places = [] if structure.allowed is None else [structure.allowed.first_violation(codes, offsets)]
    if constraint is not None:
        if constraint.ndim == 2:
            wrong = ~constraint[np.arange(len(codes)), codes]
        else:
            wrong = (constraint >= 0) & (constraint != codes)
        places.append(int(np.argmax(wrong)) if wrong.any() else None)
    broken = [place for place in places if place is not None]
    if broken:
        s = _sequence_of(min(broken), offsets)
        raise InputError(f"Sequence {s} has no labelling that allowed_transitions and the given labels allow.")


def _sequence_of(token: int, offsets: np.ndarray) -> int:
    """Number of the sequence of a token."""
    return int(np.searchsorted(offsets, token, side="right")) - 1
