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
from omkl.structures.base import Potentials, Structure, arrays_of, map_arrays

#: Name of the contribution of the first model of a stack, whose potentials come with the input.
GIVEN = "first model"


def norms_of(trainers: Iterable[OnlineTrainer]) -> dict[str, float]:
    """Return the norms of all groups of the averaged models, by name."""
    norms: dict[str, float] = {}
    for trainer in trainers:
        predictor = trainer.predictor()
        norms.update(zip(predictor.group_names, predictor.norms.tolist()))
    return norms


def weights_of(trainers: Sequence[OnlineTrainer]) -> dict[str, float]:
    """Return the weights of the regularized groups of models that add up, by name.

    They sum to one.
    """
    if len(trainers) == 1:
        return trainers[0].kernel_weights()
    norm_of = norms_of(trainers)
    names = list(norm_of)
    regularizer = trainers[-1].regularizer or L21()
    bound = regularizer.bind(names, names)
    weights = bound.normalized_kernel_weights(np.array(list(norm_of.values())))
    return dict(zip(names, weights.tolist()))


def group_report(
    trainers: Sequence[OnlineTrainer], examples: Sequence[Iterable[Example] | None] | None = None
) -> list[dict[str, Any]]:
    r"""Report the size of every group of averaged models that add up, and its usefulness.

    Usefulness is measured on held-out examples. The loss without a group is the loss at the model's
    potentials minus those of the group. So a single pass measures all groups without retraining. Of
    two groups with the same information, either can go. Example weights are ignored.

    A record has ``group``, ``norm``, ``weight`` (None for an unregularized group), and ``bytes``
    and ``bytes_share`` of its parameters. With examples, one sequence for each model, it also has
    ``loss_without``, the mean loss without the group, ``loss_increase``, the difference to the loss
    of the whole model, and its ``standard_error`` (None for a single example), :math:`\sqrt{\sum_i
    (d_i - \bar d)^2 / (n (n - 1))}` with the increases :math:`d_i` of n examples.
    """
    weight_of = weights_of(trainers)
    predictors = [trainer.predictor() for trainer in trainers]
    n_bytes = sum(float(predictor.group_nbytes.sum()) for predictor in predictors)
    records = []
    for number, trainer in enumerate(trainers):
        predictor = predictors[number]
        bytes_of_groups = predictor.group_nbytes
        columns: dict[str, Any] = {
            "norm": predictor.norms,
            "bytes": bytes_of_groups,
            "bytes_share": bytes_of_groups / max(n_bytes, 1.0),
        }
        examples_of_trainer = None if examples is None else examples[number]
        if examples_of_trainer is not None:
            columns.update(_usefulness(trainer, predictor, examples_of_trainer))
        places = {name: k for k, name in enumerate(predictor.group_names)}
        for name in dict.fromkeys([*trainer.order, *places]):
            k = places[name]
            record = {"group": name, "weight": weight_of.get(name)}
            for column, values in columns.items():
                record[column] = None if values is None else values.item(k)
            records.append(record)
    return records


def _usefulness(
    trainer: OnlineTrainer, predictor: Predictor, examples: Iterable[Example]
) -> dict[str, np.ndarray | None]:
    """Compute the columns of the report that need examples, (p,) each."""
    n = 0
    total_loss = 0.0
    sums = np.zeros(len(predictor.norms))
    squares = np.zeros(len(predictor.norms))
    banks = _separable(predictor)
    for x, y, _ in examples:
        potentials = predictor.potentials(x)
        loss, _ = trainer.loss.value_and_gradient(predictor.structure, potentials, y)
        n += 1
        total_loss += loss
        for k, of_group in _potentials_of_nonzero_groups(predictor, banks, x):
            without = map_arrays(np.subtract, potentials, of_group)
            loss_without, _ = trainer.loss.value_and_gradient(predictor.structure, without, y)
            sums[k] += loss_without - loss
            squares[k] += (loss_without - loss) ** 2
    if n == 0:
        raise InputError("The data to measure groups on must have an example.")
    means = sums / n
    errors = None
    if n > 1:
        errors = np.sqrt(np.maximum(squares - n * means**2, 0.0) / (n * (n - 1)))
    return {
        "loss_without": total_loss / n + means,
        "loss_increase": means,
        "standard_error": errors,
    }


def _potentials_of_nonzero_groups(
    predictor: Predictor, banks: Sequence[Bank], x: Input
) -> Iterator[tuple[int, Potentials]]:
    """Yield the index and the potentials of each group whose potentials of an input are not zero.

    ``banks`` are those of :func:`_separable`.
    """
    is_active = predictor.norms > 0
    for bank in banks:
        groups = bank.group_state.groups
        of_groups = _potentials_of_groups(bank, predictor.structure, x, is_active[groups])
        for k, potentials in of_groups:
            if _is_nonzero(potentials):
                yield groups.start + k, potentials


def _separable(predictor: Predictor) -> list[Bank]:
    """Copy the banks of a model, with shared parameters but all scales 0."""
    banks = [copy.copy(bank) for bank in predictor.banks]
    GroupState(banks)
    return banks


def _potentials_of_groups(
    bank: Bank, structure: Structure, x: Input, chosen: np.ndarray | None = None
) -> Iterator[tuple[int, Potentials]]:
    """Yield the index and the potentials of each group of a bank of :func:`_separable`.

    ``chosen`` is a mask of some groups; all by default.
    """
    if chosen is None:
        chosen = np.ones(len(bank.names), dtype=bool)
    for k in np.flatnonzero(chosen).tolist():
        bank.group_state.scales[k] = 1.0
        potentials = map_arrays(np.zeros_like, initial_potentials(structure, x))
        bank.add_potentials(x, potentials)
        bank.group_state.scales[k] = 0.0
        yield k, potentials


def _is_nonzero(potentials: Potentials) -> bool:
    return any(array.any() for array in arrays_of(potentials))


def group_outputs(predictor: Predictor, x: Span) -> dict[str, np.ndarray]:
    """Compute the potentials (n, K) of each group of a model on single tokens."""
    outputs = {}
    for bank in _separable(predictor):
        for k, potentials in _potentials_of_groups(bank, predictor.structure, x):
            outputs[bank.names[k]] = potentials.unary
    return outputs


def contributions(predictor: Predictor, x: Input, direction: Potentials) -> Contributions:
    """Compute the inner product of a model's potentials with a direction, group by group.

    If the direction is the difference of the indicators of two outputs, these are the groups'
    shares of the margin.
    """
    structure = predictor.structure
    groups = {}
    pieces: list[Piece] = []
    start = initial_potentials(structure, x)
    if _is_nonzero(start):
        groups[GIVEN] = _product(start, direction)
    for bank in _separable(predictor):
        of_bank = _of_bank(bank, structure, x, direction)
        groups.update(of_bank.groups)
        pieces += of_bank.pieces
    return Contributions(groups, pieces)


def _of_bank(bank: Bank, structure: Structure, x: Input, direction: Potentials) -> Contributions:
    """Compute the contributions of a bank of :func:`_separable`."""
    if isinstance(bank, ExplicitBank):
        return _of_features(bank, x, direction)
    if isinstance(bank, EdgeBank) and isinstance(bank.bank, ExplicitBank):
        edges = bank.edges_of(x)
        if edges:
            return _of_features(bank.bank, edges, bank.gradient_of_weights(direction))
    return _of_potentials(bank, structure, x, direction)


def _of_features(bank: ExplicitBank, x: Span, direction: Potentials) -> Contributions:
    """Compute the contributions of explicit features."""
    starts, ids, values = bank.features_of(x.tokens)
    starts = starts[x.low : x.high + 1]
    entries = slice(starts[0], starts[-1])
    tokens = np.repeat(np.arange(len(x)), np.diff(starts))
    # entries of tokens where the direction is not zero
    moving = np.flatnonzero(direction.unary.any(axis=1)[tokens])
    tokens = tokens[moving]
    features = ids[entries][moving]
    products = np.einsum("ij,ij->i", bank.table[features], direction.unary[tokens])
    amounts = values[entries][moving] * products
    sums = np.bincount(bank.groups[features], amounts, len(bank.names))
    pieces = []
    for feature, token, amount in zip(features.tolist(), tokens.tolist(), amounts.tolist()):
        if amount:
            name = bank.names[bank.groups[feature]]
            pieces.append(Piece("feature", name, feature, token, amount))
    return Contributions(dict(zip(bank.names, sums.tolist())), pieces)


def _of_potentials(
    bank: Any, structure: Structure, x: Input, direction: Potentials
) -> Contributions:
    """Compute the contributions of other banks.

    Pieces are parts of outputs or kernels, or support vectors.
    """
    groups = {}
    pieces = []
    for k, potentials in _potentials_of_groups(bank, structure, x):
        name = bank.names[k]
        groups[name] = _product(potentials, direction)
        pieces += _of_output(bank, name, potentials, direction)
    if isinstance(bank, FrozenFeatureMaps):
        for name, token, values in bank.products_of_parts(x, direction):
            for part, value in enumerate(values.tolist()):
                if value:
                    pieces.append(Piece("part", name, part, token, value))
    if isinstance(bank, FrozenExpansion):
        indices = bank.support_indices.tolist()
        for name, values, vectors in bank.products_of_supports(x, direction):
            for index, vector, value in zip(indices, vectors, values.tolist()):
                if value:
                    pieces.append(Piece("support", name, (index, vector), None, value))
    return Contributions(groups, pieces)


def _of_output(bank: Bank, name: str, potentials: Potentials, direction: Potentials) -> list[Piece]:
    """Compute the contributions of pairs and triples of labels, and of arcs."""
    pieces = []
    if isinstance(bank, ArcTemplateBank):
        products = map_arrays(np.multiply, potentials, direction)
        for key, value in bank.nonzero(products):
            pieces.append(Piece(bank.part, name, key, max(key[1], 0), value))
    elif isinstance(bank, PairBank):
        products = (potentials.pairwise * direction.pairwise).sum(axis=0)
        pieces = _of_labels(name, products)
    elif isinstance(bank, TrigramBank):
        pieces = _of_labels(name, potentials.triples * direction.triples)
    elif isinstance(bank, TransitionBank):
        products = potentials.pairwise * direction.pairwise
        by_position = len(products) > 1
        for edge, first, second in np.argwhere(products).tolist():
            # if transitions depend on the position, name the position of the second label
            place = edge + 1 if by_position else None
            value = products.item(edge, first, second)
            pieces.append(Piece("labels", name, (first, second), place, value))
    return pieces


def _of_labels(name: str, products: np.ndarray) -> list[Piece]:
    """Return a piece for each nonzero entry of an array, whose axes are labels."""
    pieces = []
    for labels in np.argwhere(products).tolist():
        pieces.append(Piece("labels", name, tuple(labels), None, products.item(*labels)))
    return pieces


def _product(potentials: Potentials, direction: Potentials) -> float:
    """Return the inner product, without entries where the direction is 0, which may be infinite."""
    total = 0.0
    for array, direction_of_array in zip(arrays_of(potentials), arrays_of(direction)):
        finite = np.where(direction_of_array != 0, array, 0.0)
        total += np.vdot(finite, direction_of_array)
    return float(total)
