"""Contributions of groups to a margin, and to the loss on held-out examples."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from omkl.exceptions import InputError
from omkl.groups.base import Bank, Contributions, Input, Piece, initial_potentials
from omkl.groups.edges import EdgeBank, PairBank
from omkl.groups.expansions.kernel import FrozenExpansion
from omkl.groups.feature_maps import FrozenFeatureMaps
from omkl.groups.group_state import GroupState
from omkl.groups.tables import ExplicitBank, TransitionBank, TrigramBank
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.tokens import Span
from omkl.online.averaging import Predictor
from omkl.online.rounds import Example
from omkl.online.trainer import OnlineTrainer
from omkl.regularizers.separable import L21
from omkl.structures.base import Output, Potentials, Structure, arrays_of, map_arrays

#: Name of the contribution of the first model of a stack, whose potentials come with the input.
GIVEN = "first model"


def norms_of(trainers: Iterable[OnlineTrainer]) -> dict[str, float]:
    """Return the norms of all groups of the averaged models, by name."""
    predictors = [trainer.predictor() for trainer in trainers]
    return {
        name: norm for own in predictors for name, norm in zip(own.group_names, own.norms.tolist())
    }


def weights_of(trainers: Sequence[OnlineTrainer]) -> dict[str, float]:
    """Return the weights of the regularized groups of models that add up, by name; they sum to one."""
    if len(trainers) == 1:
        return trainers[0].kernel_weights()
    norms, regularizer = norms_of(trainers), trainers[-1].regularizer
    names, bound = list(norms), L21() if regularizer is None else regularizer
    weights = bound.bind(names, names).normalized_kernel_weights(np.array(list(norms.values())))
    return dict(zip(names, weights.tolist()))


def group_report(
    trainers: Sequence[OnlineTrainer], examples: Sequence[Iterable[Example] | None] | None = None
) -> list[dict[str, Any]]:
    r"""Report the size of every group of averaged models that add up, and its usefulness on
    held-out examples.

    The loss without a group is the loss at the model's potentials minus those of the group. So a
    single pass measures all groups without retraining. Of two groups with the same information,
    either can go. Example weights are ignored.

    A record has ``group``, ``norm``, ``weight`` (None for an unregularized group), and ``bytes``
    and ``bytes_share`` of its parameters. With examples, one sequence for each model, it also has
    ``loss_without``, the mean loss without the group, ``loss_increase``, the difference to the loss
    of the whole model, and its ``standard_error`` (None for a single example), :math:`\sqrt{\sum_i
    (d_i - \bar d)^2 / (n (n - 1))}` with the increases :math:`d_i` of n examples.
    """
    weights, records = weights_of(trainers), []
    total = sum(float(trainer.predictor().group_nbytes.sum()) for trainer in trainers)
    for trainer, own in zip(trainers, [None] * len(trainers) if examples is None else examples):
        predictor, nbytes = trainer.predictor(), trainer.predictor().group_nbytes
        columns: dict[str, Any] = {
            "norm": predictor.norms,
            "bytes": nbytes,
            "bytes_share": nbytes / max(total, 1.0),
        }
        if own is not None:
            columns.update(_measured(trainer, predictor, own))
        found = {
            name: {
                "group": name,
                "weight": weights.get(name),
                **{
                    column: None if values is None else values.item(k)
                    for column, values in columns.items()
                },
            }
            for k, name in enumerate(predictor.group_names)
        }
        records += [found[name] for name in dict.fromkeys([*trainer.order, *predictor.group_names])]
    return records


def _measured(
    trainer: OnlineTrainer, predictor: Predictor, examples: Iterable[Example]
) -> dict[str, np.ndarray | None]:
    """Compute the columns of the report that need examples, (p,) each."""
    structure, alive, banks = predictor.structure, predictor.norms > 0, _separable(predictor)

    def loss(potentials: Potentials, y: Output) -> float:
        return trainer.loss.value_and_gradient(structure, potentials, y)[0]

    n, total_loss, sums, squares = 0, 0.0, np.zeros(len(alive)), np.zeros(len(alive))
    for x, y, _ in examples:
        potentials = predictor.potentials(x)
        whole = loss(potentials, y)
        n, total_loss = n + 1, total_loss + whole
        for bank in banks:
            groups = bank.group_state.groups
            for k, part in _parts(bank, structure, x, alive[groups]):
                if any(array.any() for array in arrays_of(part)):
                    increase = loss(map_arrays(np.subtract, potentials, part), y) - whole
                    sums[groups.start + k] += increase
                    squares[groups.start + k] += increase**2
    if n == 0:
        raise InputError("The data to measure groups on must have an example.")
    means = sums / n
    errors = np.sqrt(np.maximum(squares - n * means**2, 0.0) / (n * (n - 1))) if n > 1 else None
    return {
        "loss_without": total_loss / n + means,
        "loss_increase": means,
        "standard_error": errors,
    }


def _separable(predictor: Predictor) -> list[Bank]:
    """Copy the banks of a model, with shared parameters but all scales 0."""
    banks = [copy.copy(bank) for bank in predictor.banks]
    GroupState(banks)
    return banks


def _parts(
    bank: Bank, structure: Structure, x: Input, alive: np.ndarray
) -> Iterator[tuple[int, Potentials]]:
    """Yield index and potentials of each group of a bank of :func:`_separable` that is ``alive``."""
    for k in np.flatnonzero(alive).tolist():
        bank.group_state.scales[k] = 1.0
        own = map_arrays(np.zeros_like, initial_potentials(structure, x))
        bank.add_potentials(x, own)
        bank.group_state.scales[k] = 0.0
        yield k, own


def group_outputs(predictor: Predictor, x: Span) -> dict[str, np.ndarray]:
    """Compute the potentials (n, K) of each group of a model on single tokens."""
    return {
        bank.names[k]: own.unary
        for bank in _separable(predictor)
        for k, own in _parts(bank, predictor.structure, x, np.ones(len(bank.names), dtype=bool))
    }


def contributions(predictor: Predictor, x: Input, direction: Potentials) -> Contributions:
    """Compute the inner product of a model's potentials with a direction, group by group.

    If the direction is the difference of the indicators of two outputs, these are the groups'
    shares of the margin.
    """
    given = initial_potentials(predictor.structure, x)
    groups = (
        {GIVEN: _product(given, direction)}
        if any(array.any() for array in arrays_of(given))
        else {}
    )
    pieces: list[Piece] = []
    for bank in _separable(predictor):
        if isinstance(bank, ExplicitBank):
            own = _of_features(bank, x, direction)
        elif (
            isinstance(bank, EdgeBank)
            and isinstance(bank.bank, ExplicitBank)
            and (edges := bank.edges_of(x))
        ):
            own = _of_features(bank.bank, edges, bank.own(direction))
        else:
            own = _of_potentials(bank, predictor.structure, x, direction)
        groups.update(own.groups)
        pieces += own.pieces
    return Contributions(groups, pieces)


def _of_features(bank: ExplicitBank, x: Span, direction: Potentials) -> Contributions:
    """Compute the contributions of explicit features."""
    starts, ids, values = bank.features_of(x.tokens)
    starts = starts[x.low : x.high + 1]
    entries = slice(starts[0], starts[-1])
    tokens, own = np.repeat(np.arange(len(x)), np.diff(starts)), ids[entries]
    moving = np.flatnonzero(direction.unary.any(axis=1)[tokens])
    tokens, own = tokens[moving], own[moving]
    added = values[entries][moving] * np.einsum(
        "ij,ij->i", bank.table[own], direction.unary[tokens]
    )
    sums = np.bincount(bank.groups[own], added, len(bank.names))
    records = zip(own.tolist(), tokens.tolist(), added.tolist())
    pieces = [
        Piece("feature", bank.names[bank.groups[i]], i, t, value)
        for i, t, value in records
        if value
    ]
    return Contributions(dict(zip(bank.names, sums.tolist())), pieces)


def _of_potentials(
    bank: Any, structure: Structure, x: Input, direction: Potentials
) -> Contributions:
    """Compute the contributions of other banks; pieces are parts of outputs or kernels, or support
    vectors.
    """
    groups, pieces = {}, []
    for k, own in _parts(bank, structure, x, np.ones(len(bank.names), dtype=bool)):
        groups[bank.names[k]] = _product(own, direction)
        pieces += _of_output(bank, bank.names[k], own, direction)
    if isinstance(bank, FrozenFeatureMaps):
        for name, token, values in bank.products_of_parts(x, direction):
            pieces += [
                Piece("part", name, i, token, value)
                for i, value in enumerate(values.tolist())
                if value
            ]
    if isinstance(bank, FrozenExpansion):
        indices = bank.support_indices.tolist()
        for name, values, X in bank.products_of_supports(x, direction):
            keys = zip(indices, X)
            pieces += [
                Piece("support", name, key, None, value)
                for key, value in zip(keys, values.tolist())
                if value
            ]
    return Contributions(groups, pieces)


def _of_output(bank: Bank, name: str, own: Potentials, direction: Potentials) -> list[Piece]:
    """Compute the contributions of pairs and triples of labels, and of arcs."""
    if isinstance(bank, ArcTemplateBank):
        added = map_arrays(np.multiply, own, direction)
        return [
            Piece(bank.part, name, key, max(key[1], 0), value) for key, value in bank.nonzero(added)
        ]
    if isinstance(bank, (TrigramBank, PairBank)):
        is_pairs = isinstance(bank, PairBank)
        added = (
            (own.pairwise * direction.pairwise).sum(axis=0)
            if is_pairs
            else own.triples * direction.triples
        )
        return [
            Piece("labels", name, tuple(key), None, added.item(*key))
            for key in np.argwhere(added).tolist()
        ]
    if isinstance(bank, TransitionBank):
        # if transitions depend on the position, name the position of the second label
        places = range(1, len(own.pairwise) + 1) if len(own.pairwise) > 1 else [None]
        added = own.pairwise * direction.pairwise
        found = np.argwhere(added).tolist()
        return [
            Piece("labels", name, (i, j), places[edge], added.item(edge, i, j))
            for edge, i, j in found
        ]
    return []


def _product(potentials: Potentials, direction: Potentials) -> float:
    """Return the inner product, ignoring entries where the direction is 0, which may be infinite."""
    pairs = zip(arrays_of(potentials), arrays_of(direction))
    return float(sum(np.vdot(np.where(d != 0, a, 0.0), d) for a, d in pairs))
