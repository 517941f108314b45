"""Whether labels meet the constraints on them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from omkl.exceptions import InputError


def check_feasible(
    structure: Any, codes: np.ndarray, offsets: np.ndarray, constraint: np.ndarray | None, what: str
) -> None:
    """Raise where decoded labels break the constraints that they were decoded under: then no labels meet all of them.

    Parameters
    ----------
    structure : Chain
    codes : int array of shape (N,)
    offsets : int array
    constraint : array or None
        The code of each label, -1 for any; or (N, K), which labels a token may have.
    what : str
        What says which labels are possible, for the message.
    """
    broken = [] if structure.allowed is None else [structure.allowed.first_violation(codes, offsets)]
    if constraint is not None:
        if constraint.ndim == 2:
            wrong = ~constraint[np.arange(len(codes)), codes]
        else:
            wrong = (constraint >= 0) & (constraint != codes)
        broken.append(int(np.argmax(wrong)) if wrong.any() else None)
    places = [place for place in broken if place is not None]
    if places:
        s = int(np.searchsorted(offsets, min(places), side="right")) - 1
        raise InputError(
            f"Sequence {s} has no labelling that {what} allow: drop a label that contradicts the others, or "
            "allowed_transitions."
        )


def check_transitions(structure: Any, codes: np.ndarray, offsets: np.ndarray, members: Sequence[Any]) -> None:
    """Raise where training labels break the transitions that are allowed, or leave no labelling that does not."""
    at = structure.allowed.first_violation(codes, offsets)
    if at is not None:
        s = int(np.searchsorted(offsets, at, side="right")) - 1
        follows = at > offsets[s] and codes[at - 1] >= 0 and not structure.allowed.following[codes[at - 1], codes[at]]
        begins = at == offsets[s] and not structure.allowed.first[codes[at]]
        before = f"after {members[codes[at - 1]]!r}" if follows else "at the beginning" if begins else "at the end"
        raise InputError(
            f"Sequence {s} of y has {members[codes[at]]!r} {before}, at token {at - offsets[s]}, which "
            "allowed_transitions forbids: correct the labels, or leave it out."
        )
    if structure.is_partial(codes):
        empty = structure.zeros(len(codes))
        decoded = structure.decode_many(structure.agreeing(empty, codes), offsets)
        check_feasible(structure, decoded, offsets, codes, "the labels in y and allowed_transitions")
