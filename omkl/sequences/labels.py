"""Labels of sequences: codes of labels that may be unknown, and the chain over them."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from omkl.estimators.targets import Labels, check_cost_names, learn_labels
from omkl.exceptions import InputError
from omkl.groups import TransitionBank, TrigramBank
from omkl.sequences.constraints import check_transitions
from omkl.structures import Chain, allowed_transitions


class PartialLabels(Labels):
    """Labels of tokens; None, with the code -1, stands for a label that is not known."""

    def __init__(self, seen: Iterable, grows: bool = False) -> None:
        super().__init__(seen, grows)
        self._index[None] = -1

    def add(self, labels: Iterable) -> int:
        """Add labels that are not known yet, except None, and return their number."""
        return super().add(label for label in labels if label is not None)


class ChainOutputs:
    """A label for every token of a sequence.

    Parameters
    ----------
    transitions : {"free", "regularized", None}
    by_position : bool
    cost : array of shape (K, K), optional
    classes : sequence, "growing" or None
    allowed : str, dict, array or None
        See :func:`~omkl.structures.allowed_transitions`.
    order : {1, 2}
        2 scores trigrams of labels.
    """

    single = False
    codes: Any = PartialLabels

    def __init__(
        self,
        transitions: str | None,
        by_position: bool,
        cost: Any = None,
        classes: Any = None,
        allowed: Any = None,
        order: int = 1,
    ) -> None:
        if by_position and transitions is None:
            raise InputError("transitions_by_position must be False with transitions=None.")
        self._transitions = transitions
        self._by_position = by_position
        self._cost = cost
        self._classes = classes
        self._allowed = allowed
        self._order = order

    def learn(self, labels: Sequence, weights: np.ndarray | None) -> Labels:
        """Learn the codes from the known labels of the first data."""
        given = [label for label in labels if label is not None]
        if not given and self._classes is None:
            raise InputError("y must hold a label other than None.")
        return learn_labels(PartialLabels, given, self._classes, self._cost)

    def structure(self, known: Labels) -> Chain:
        """The chain over these labels."""
        allowed = None if self._allowed is None else allowed_transitions(self._allowed, known.members)
        linked = self._transitions is not None
        check_cost_names(self._cost, known.members)
        return Chain(len(known), self._cost, self._by_position, linked, allowed, self._order)

    def check(self, structure: Chain, known: Labels, gold: np.ndarray, offsets: np.ndarray) -> None:
        """Raise an InputError where labels break the allowed transitions."""
        if structure.allowed is not None:
            check_transitions(structure, gold, offsets, known.members)

    def banks(self, structure: Chain, n_outputs: int, longest: int, averaging: bool) -> tuple[list, list]:
        """Banks of transitions and trigrams: regularized ones, and free ones.

        Parameters
        ----------
        structure : Chain
        n_outputs : int
        longest : int
            Length of the longest sequence, for transitions by position.
        averaging : bool
        """
        if self._transitions is None:
            return [], []
        banks: list = [TransitionBank(structure.n_labels, longest if self._by_position else 1, averaging)]
        if self._order == 2:
            banks.append(TrigramBank(structure.n_labels, averaging))
        return (banks, []) if self._transitions == "regularized" else ([], banks)


def flat_labels(y: Any, lengths: np.ndarray, name: str = "y") -> list:
    """Labels of all tokens in one list, checked against the lengths of the sequences.

    Parameters
    ----------
    y : list of sequences of labels
    lengths : int array
    name : str
        The name of ``y`` in messages.
    """
    if not hasattr(y, "__len__") or isinstance(y, (str, bytes, dict)):
        raise InputError(f"{name} must be a list of sequences of labels, got {y!r:.80}.")
    if len(y) != len(lengths):
        raise InputError(f"{name} must have a sequence of labels for each of X: {len(lengths)}, got {len(y)}.")
    flat: list = []
    for i, (labels, length) in enumerate(zip(y, lengths)):
        if not hasattr(labels, "__len__") or isinstance(labels, (dict, set, frozenset)):
            raise InputError(f"Sequence {i} of {name} must be a list or array of labels, got {labels!r:.80}.")
        if len(labels) != length:
            raise InputError(f"Sequence {i} has {length} tokens in X but {len(labels)} labels in {name}.")
        flat.extend(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    return flat


def forced_labels(labels: Any, lengths: np.ndarray, known: Labels) -> np.ndarray:
    """Codes that tokens must have.

    Parameters
    ----------
    labels : list of sequences
        For each token None, a label, or a set of labels.
    lengths : int array
        Lengths of the sequences.
    known : Labels

    Returns
    -------
    int array of shape (N,), or bool array of shape (N, K) where there are sets
        The code of each label, -1 for any; or the labels that a token may have.
    """
    flat = flat_labels(labels, lengths, "labels")
    if not any(isinstance(label, set) for label in flat):
        return _codes(flat, known)
    possible = np.ones((len(flat), len(known)), dtype=bool)
    for row, label in zip(possible, flat):
        choices = label if isinstance(label, set) else {label}
        if None not in choices:
            row[:] = False
            row[_codes(choices, known)] = True
    return possible


def _codes(labels: Iterable, known: Labels) -> np.ndarray:
    return known.encode(labels, "no token can be forced to have it.")
