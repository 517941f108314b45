"""Checks of labels against the constraints on them."""

from collections.abc import Sequence

import numpy as np

from omkl.exceptions import InputError
from omkl.structures import Chain


def check_feasible(
    structure: Chain, codes: np.ndarray, offsets: np.ndarray, constraint: np.ndarray | None, source: str
) -> None:
    """Raise where decoded labels break the constraints of decoding, so that no labelling meets them all.

    Parameters
    ----------
    structure : Chain
    codes : int array of shape (N,)
    offsets : int array
    constraint : array or None
        The code of each label, -1 for any; or (N, K), the labels that a token may have.
    source : str
        The argument that holds the constraints, for the message.
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
        raise InputError(f"Sequence {s} has no labelling that {source} allow.")


def check_transitions(structure: Chain, codes: np.ndarray, offsets: np.ndarray, members: Sequence) -> None:
    """Raise where training labels break the allowed transitions, or unknown ones cannot be filled in.

    Parameters
    ----------
    structure : Chain
        It has ``allowed`` transitions.
    codes : int array of shape (N,)
        -1 for a label that is not known.
    offsets : int array
    members : sequence
        The labels.
    """
    allowed = structure.allowed
    at = allowed.first_violation(codes, offsets)
    if at is not None:
        s = int(np.searchsorted(offsets, at, side="right")) - 1
        follows = at > offsets[s] and codes[at - 1] >= 0 and not allowed.following[codes[at - 1], codes[at]]
        begins = at == offsets[s] and not allowed.first[codes[at]]
        place = f"after {members[codes[at - 1]]!r}" if follows else "at the beginning" if begins else "at the end"
        raise InputError(
            f"allowed_transitions forbids {members[codes[at]]!r} {place}: sequence {s} of y, token {at - offsets[s]}."
        )
    if structure.is_partial(codes):
        empty = structure.zeros(len(codes))
        decoded = structure.decode_many(structure.agreeing(empty, codes), offsets)
        check_feasible(structure, decoded, offsets, codes, "the labels in y and allowed_transitions")
