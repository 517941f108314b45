"""Why a model prefers one output to another: what each group, feature and support vector adds to the margin."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import ArcTemplateBank, ExplicitBank, GroupState, TransitionBank, TrigramBank, initial_potentials
from omkl.online.averaging import Predictor
from omkl.online.hedging import HedgePredictor, votes
from omkl.structures import Potentials

#: What no group of the model adds: potentials that come with the input from another model.
GIVEN = "first model"


class Piece(NamedTuple):
    """What one part of a group adds to the margin.

    Attributes
    ----------
    kind : {"feature", "part", "support", "labels", "arc"}
    group : str
    key : int or tuple of int
        The id of a feature; the number of a part of a kernel with explicit features; the index of a support vector; the
        codes of labels that follow each other; head and modifier.
    at : int or None
        The token that has the feature, from 0; the modifier, from 1.
    value : float
    """

    kind: str
    group: str
    key: Any
    at: int | None
    value: float


class Contributions(NamedTuple):
    """What a model adds to the margin of an output over another.

    Attributes
    ----------
    groups : dict of str to float
        What each group adds. They sum to the margin.
    pieces : list of Piece
        What the features, support vectors, transitions and arcs of these groups add, those that are known one by one.
    """

    groups: dict[str, float]
    pieces: list[Piece]


def contributions(predictor: Predictor, x: Any, direction: Potentials) -> Contributions:
    """The inner product of a model's potentials with a direction, group by group.

    Potentials are sums over groups, and the score of an output is linear in them: with the difference of two outputs'
    indicators as ``direction``, the margin of the one over the other is the sum of what groups add.

    Parameters
    ----------
    predictor : Predictor
    x : input
        As the model's groups take it.
    direction : Potentials
        Shaped like the potentials of ``x``.

    Returns
    -------
    Contributions
    """
    groups: dict[str, float] = {}
    pieces: list[Piece] = []
    given = initial_potentials(predictor.structure, x)
    if getattr(x, "offset", None) is not None:
        groups[GIVEN] = _product(given, direction)
    for weight, part, votes_for in _learners(predictor):
        if votes_for:
            name = part.group_names[0]  # its kernel
            groups[name] = groups.get(name, 0.0) + weight * _product(votes(part.potentials(x)), direction)
            continue
        # the same parameters under scales of their own: others may predict meanwhile
        banks = [copy.copy(bank) for bank in part.banks]
        GroupState(banks)
        for bank in banks:
            for name, value in _of_bank(bank, part.structure, x, direction, weight, pieces):
                groups[name] = groups.get(name, 0.0) + weight * value
    return Contributions(groups, pieces)


def _learners(predictor: Predictor, weight: float = 1.0, votes_for: bool = False) -> Iterator[tuple[float, Any, bool]]:
    """``(weight, model, whether it votes)`` of the models that one combines."""
    if isinstance(predictor, HedgePredictor):
        for share, expert in predictor.experts:
            yield from _learners(expert, weight * share, predictor.votes)
    else:
        yield weight, predictor, votes_for


def _of_bank(
    bank: Any, structure: Any, x: Any, direction: Potentials, weight: float, pieces: list[Piece]
) -> Iterator[tuple[str, float]]:
    """``(group, what it adds)`` of a bank's groups; the ``pieces`` gain theirs, times the weight."""
    if isinstance(bank, ExplicitBank):
        yield from _of_features(bank, x, direction, weight, pieces)
        return
    for k, name in enumerate(bank.names):
        bank.group_state.scales[k] = 1.0
        own = structure.zeros(len(x))
        bank.add_potentials(x, own)
        bank.group_state.scales[k] = 0.0
        yield name, _product(own, direction)
        if isinstance(bank, TransitionBank):
            pieces += _of_pairs(name, own.pairwise, direction.pairwise, weight)
        elif isinstance(bank, TrigramBank):
            added = weight * own.triples * direction.triples
            pieces += [Piece("labels", name, tuple(key), None, float(added[tuple(key)])) for key in _nonzero(added)]
        elif isinstance(bank, ArcTemplateBank):
            added = weight * own * direction
            pieces += [Piece("arc", name, (h, m), m, float(added[h, m])) for h, m in _nonzero(added)]
    if hasattr(bank, "products_of_parts"):
        for name, token, values in bank.products_of_parts(x, direction):
            there = np.flatnonzero(values)
            told = zip(there.tolist(), (weight * values[there]).tolist())
            pieces += [Piece("part", name, i, token, value) for i, value in told]
    if hasattr(bank, "products_of_supports"):
        for name, values in bank.products_of_supports(x, direction):
            there = np.flatnonzero(values)
            indices = bank.support_indices[there].tolist()
            own_values = (weight * values[there]).tolist()
            pieces += [Piece("support", name, i, None, value) for i, value in zip(indices, own_values)]


def _of_features(
    bank: ExplicitBank, x: Any, direction: Any, weight: float, pieces: list[Piece]
) -> Iterator[tuple[str, float]]:
    """The same of explicit features, of all groups at once."""
    if x.tokens.features is None:
        raise InputError(f"The tokens have no features, which the group {bank.names[0]!r} reads.")
    starts, ids, values = x.tokens.features
    starts = starts[x.low : x.high + 1]
    entries = slice(starts[0], starts[-1])
    tokens, own = np.repeat(np.arange(len(x)), np.diff(starts)), ids[entries]
    moving = np.flatnonzero(direction.unary.any(axis=1)[tokens])
    tokens, own = tokens[moving], own[moving]
    added = values[entries][moving] * np.einsum("ij,ij->i", bank.table[own], direction.unary[tokens])
    sums = np.bincount(bank.groups[own], added, len(bank.names))
    there = np.flatnonzero(added)
    records = zip(own[there].tolist(), tokens[there].tolist(), (weight * added[there]).tolist())
    pieces += [Piece("feature", bank.names[bank.groups[i]], i, t, value) for i, t, value in records]
    yield from zip(bank.names, sums.tolist())


def _of_pairs(name: str, own: np.ndarray, direction: np.ndarray, weight: float) -> Iterator[Piece]:
    """What labels that follow each other add; where each position has its own, ``at`` is that of the second label."""
    added = weight * own * direction
    for edge, *pair in _nonzero(added):
        yield Piece("labels", name, tuple(pair), edge + 1 if len(own) > 1 else None, float(added[edge, *pair]))


def _nonzero(array: np.ndarray) -> list[list[int]]:
    return np.argwhere(array != 0).tolist()


def _product(potentials: Potentials, direction: Potentials) -> float:
    """Their inner product; what is infinite plays no part where the direction is 0."""
    arrays = potentials if isinstance(potentials, tuple) else (potentials,)
    others = direction if isinstance(direction, tuple) else (direction,)
    return float(sum(np.vdot(np.where(d != 0, a, 0.0), d) for a, d in zip(arrays, others)))
