"""Contrasts of outputs that the batch estimators explain: two classes, a label, or a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from omkl.estimators.explain_tokens import other_class, strongest_of
from omkl.estimators.explanations import Explanation
from omkl.estimators.output_decoders import ClassDecoder, NumberDecoder
from omkl.exceptions import InputError
from omkl.online import Contributions, Piece

#: Name of the group of the constant.
CONSTANT = "intercept"


class Contrast(NamedTuple):
    """A combination of a model's outputs: the margin is their sum, times ``weights`` (P,).

    The other attributes are those of :class:`~omkl.Explanation`.
    """

    weights: np.ndarray
    output: Any
    against: Any
    summary: str


def contrast(
    decoder: ClassDecoder | NumberDecoder, outputs: np.ndarray, label: Any, against: Any, target: int
) -> Contrast:
    """The contrast that a user asks for.

    Parameters
    ----------
    decoder : ClassDecoder or NumberDecoder
    outputs : array of shape (P,)
        Those of the sample.
    label, against : class, optional
        The predicted class by default, and the best of the others. None for labels and numbers.
    target : int
        Number of the label, or of the output of a regression.
    """
    if isinstance(decoder, ClassDecoder) and not decoder.multilabel:
        return _classes(decoder, outputs, label, against)
    if label is not None or against is not None:
        raise InputError("There are no classes to choose from, but targets: leave out label= and against=.")
    if isinstance(decoder, ClassDecoder):
        return _label(decoder, outputs, target)
    weights = _unit(target, len(outputs), target)
    return Contrast(weights, float(decoder.decode((weights @ outputs)[None, None])[0]), None, "prediction")


def _classes(decoder: ClassDecoder, outputs: np.ndarray, label: Any, against: Any) -> Contrast:
    """One class against another."""
    classes, members, K = decoder.classes, decoder.classes.tolist(), len(decoder.classes)
    scores = outputs if K == 2 else decoder.scores(outputs[None])[0]

    def code(given: Any) -> int:
        if given not in members:
            raise InputError(f"{given!r} is none of the model's classes, {', '.join(map(repr, members[:5]))}.")
        return members.index(given)

    best = int(scores[0] > 0) if K == 2 else int(np.argmax(scores))
    chosen = best if label is None else code(label)
    other = other_class(K, scores, chosen) if against is None else code(against)
    weights = np.zeros(len(outputs))
    if K == 2:
        weights[0] = chosen - other
    elif decoder.pairs and chosen != other:
        pair = list(combinations(range(K), 2)).index((min(chosen, other), max(chosen, other)))
        weights[pair] = np.sign(chosen - other)
    elif chosen != other:
        weights[[chosen, other]] = 1.0, -1.0
    return Contrast(weights, classes[chosen], classes[other], f"{members[chosen]!r} rather than {members[other]!r}")


def _label(decoder: ClassDecoder, outputs: np.ndarray, target: int) -> Contrast:
    """Having a label against not having it."""
    if target in decoder.constant:
        raise InputError(f"All training samples have label {target}, or none: nothing was learned of it.")
    varying = decoder.varying.tolist()
    weights = _unit(varying.index(target) if target in varying else len(outputs), len(outputs), target)
    there = bool(weights @ outputs > 0)
    return Contrast(weights * (1 if there else -1), there, not there, f"label {target}: {'yes' if there else 'no'}")


def _unit(index: Any, n_targets: int, given: Any) -> np.ndarray:
    """1 for a target, 0 for all others; ``given`` is its number as the user gave it."""
    if not isinstance(index, (int, np.integer)) or not 0 <= index < n_targets:
        raise InputError(f"target={given!r} is none of the {n_targets} targets, counted from 0.")
    return np.eye(n_targets)[index]


def explanation(
    chosen: Contrast,
    margin: float,
    groups: dict[str, float],
    pieces: Sequence[Piece],
    n: int,
    name: Callable[[Piece], str],
) -> Explanation:
    """The explanation of a contrast.

    Parameters
    ----------
    chosen : Contrast
    margin : float
    groups : dict of str to float
        Contribution of each group; they sum to the margin.
    pieces : sequence of Piece
        Contributions of parts of groups; those that add nothing are left out.
    n : int
        Number of the strongest pieces to list.
    name : callable
        ``name(piece)``
    """
    used = [piece for piece in pieces if piece.value != 0.0]
    strongest = strongest_of(Contributions(groups, used), n, lambda found: list(map(name, found)))
    return Explanation(chosen.output, chosen.against, chosen.summary, margin, groups, strongest)


def name_of_column(names: Sequence[str] | None, j: int) -> str:
    """Name of a column of X in the data frame, or its number from 0."""
    return f"column {j}" if names is None else str(names[j])
