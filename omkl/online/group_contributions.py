"""Contributions of groups to a margin, and to the loss on held-out examples."""

import copy
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import ArcTemplateBank, ExplicitBank, GroupState, Span, TransitionBank, TrigramBank, initial_potentials
from omkl.online.averaging import BLOCK, Predictor
from omkl.online.rounds import Example
from omkl.online.trainer import OnlineTrainer
from omkl.structures import Potentials

#: Relative tolerance for the sum of the groups' potentials.
PARTS_TOLERANCE = 1e-3
#: Number of blocks on which scoring is timed, and repetitions, of which the fastest counts.
TIMED_BLOCKS, TIMED_REPEATS = 20, 3


def group_report(trainer: OnlineTrainer, examples: Iterable[Example] | None = None) -> list[dict[str, Any]]:
    r"""Record the size of every group of the averaged model, and its use on held-out examples.

    The loss without a group is the loss at the potentials of the model minus those of the group: one pass measures all
    groups, and nothing is trained anew. Of two groups with the same information, each seems to help little.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : iterable of Example, optional
        Held-out examples; their weights are ignored.

    Returns
    -------
    list of dict
        ``group``, ``norm``, ``weight`` (None for a group that is not regularized), ``bytes`` and ``bytes_share`` of its
        parameters. With examples also ``time_share`` of the scoring time, ``loss_without`` the group (mean),
        ``loss_increase`` over the loss of the whole model, and its ``standard_error`` (None for a single example),
        :math:`\sqrt{\sum_i (d_i - \bar d)^2 / (n (n - 1))}` with the increases :math:`d_i` of n examples.

    Raises
    ------
    omkl.exceptions.InputError
        If there are no examples, or the groups' potentials do not sum to the model's.
    """
    predictor, weights = trainer.predictor(), trainer.kernel_weights()
    names, nbytes = predictor.group_names, predictor.group_nbytes
    columns: dict[str, Any] = {"norm": predictor.norms, "bytes": nbytes, "bytes_share": _shares(nbytes)}
    if examples is not None:
        columns.update(_measured(trainer, predictor, examples))
    records = {
        name: {
            "group": name,
            "weight": weights.get(name),
            **{column: None if values is None else values.item(k) for column, values in columns.items()},
        }
        for k, name in enumerate(names)
    }
    return [records[name] for name in dict.fromkeys([*trainer.order, *names])]


def _measured(trainer: OnlineTrainer, predictor: Predictor, examples: Iterable[Example]) -> dict[str, Any]:
    """Columns of the report that need examples, (p,) each."""
    parts, structure, loss = _TimedParts(predictor), predictor.structure, trainer.loss

    def losses(potentials: Potentials, slices: list[tuple[slice | None, Any]]) -> np.ndarray:
        cut = (potentials if s is None else structure.part(potentials, s.start, s.stop) for s, _ in slices)
        return np.array([loss.value_and_gradient(structure, own, y)[0] for own, (_, y) in zip(cut, slices)])

    p = len(predictor.group_names)
    n, total_loss, sums, squares = 0, 0.0, np.zeros(p), np.zeros(p)
    for x, slices in _blocks(structure, examples):
        potentials = predictor.potentials(x)
        whole = losses(potentials, slices)
        n, total_loss, left = n + len(slices), total_loss + float(whole.sum()), potentials
        for k, part in parts.of(x):
            if not any(array.any() for array in part):
                continue
            differences = losses(_minus(potentials, part), slices) - whole
            sums[k] += differences.sum()
            squares[k] += differences @ differences
            left = _minus(left, part)
        _check_parts(left, potentials, initial_potentials(structure, x))
    if n == 0:
        raise InputError("There are no examples to measure the groups on: give at least one.")
    means = sums / n
    errors = np.sqrt(np.maximum(squares - n * means**2, 0.0) / (n * (n - 1))) if n > 1 else None
    return {
        "time_share": _shares(parts.seconds),
        "loss_without": total_loss / n + means,
        "loss_increase": means,
        "standard_error": errors,
    }


def group_potentials(bank: Any, structure: Any, x: Any, groups: Iterable[int]) -> Iterator[tuple[int, Potentials]]:
    """``(k, potentials)`` of some groups of a bank whose scales are all 0."""
    for k in groups:
        bank.group_state.scales[k] = 1.0
        own = structure.zeros(len(x))
        bank.add_potentials(x, own)
        yield k, own
        bank.group_state.scales[k] = 0.0


def separable_banks(predictor: Predictor) -> list[Any]:
    """Copies of the banks of a model that share its parameters; all scales are 0."""
    banks = [copy.copy(bank) for bank in predictor.banks]
    GroupState(banks)
    return banks


class _TimedParts:
    """Potentials of each group of a model, and the seconds they take on the first blocks."""

    def __init__(self, predictor: Predictor) -> None:
        self._structure, self._banks = predictor.structure, separable_banks(predictor)
        self._alive = predictor.norms > 0
        self.seconds, self._n_blocks = np.zeros(len(self._alive)), 0

    def of(self, x: Any) -> Iterator[tuple[int, Potentials]]:
        """``(k, potentials)`` of each group that is not zero."""
        first, is_timed = 0, self._n_blocks < TIMED_BLOCKS
        self._n_blocks += 1
        for bank in self._banks:
            alive = np.flatnonzero(self._alive[first : first + len(bank.names)]).tolist()
            # The time of a bank with no group in use counts for none.
            idle = self._time(bank, x) if alive and is_timed else 0.0
            for k, part in group_potentials(bank, self._structure, x, alive):
                if is_timed:
                    self.seconds[first + k] += max(self._time(bank, x) - idle, 0.0)
                yield first + k, part
            first += len(bank.names)

    def _time(self, bank: Any, x: Any) -> float:
        seconds = []
        for _ in range(TIMED_REPEATS):
            potentials, started = self._structure.zeros(len(x)), time.perf_counter()
            bank.add_potentials(x, potentials)
            seconds.append(time.perf_counter() - started)
        return min(seconds)


def _blocks(structure: Any, examples: Iterable[Example]) -> Iterator[tuple[Any, list[tuple[slice | None, Any]]]]:
    """Blocks of inputs to score at once, each with ``(slice of its potentials, output)`` of its examples.

    Consecutive sequences of the same tokens share a block; other inputs are blocks of their own, with None as slice.
    """
    limit = max(1, BLOCK // sum(array[:1].size for array in structure.zeros(2))) if hasattr(structure, "part") else 0
    run: list[tuple[Any, Any]] = []
    x: Any
    for x, y, _ in examples:
        is_next = run and isinstance(x, Span) and x.tokens is run[-1][0].tokens and x.low == run[-1][0].high
        if run and not (is_next and x.high - run[0][0].low <= limit):
            yield _block(run)
            run = []
        if limit and isinstance(x, Span):
            run.append((x, y))
        else:
            yield x, [(None, y)]
    if run:
        yield _block(run)


def _block(run: list[tuple[Span, Any]]) -> tuple[Span, list[tuple[slice | None, Any]]]:
    low = run[0][0].low
    return Span(run[0][0].tokens, low, run[-1][0].high), [(slice(x.low - low, x.high - low), y) for x, y in run]


def _minus(total: Potentials, part: Potentials) -> Potentials:
    return type(total)(*(a - b for a, b in zip(total, part)))


def _check_parts(left: Potentials, potentials: Potentials, initial: Potentials) -> None:
    """Raise unless the potentials minus those of all groups are the initial potentials."""
    for rest, own, first in zip(left, potentials, initial):
        largest = np.abs(own).max(initial=0.0, where=np.isfinite(own))
        if not np.allclose(rest, first, rtol=0.0, atol=PARTS_TOLERANCE * (1.0 + largest)):
            raise InputError(
                "The potentials of single groups do not add up to the model's: a bank must skip groups of scale 0."
            )


def _shares(values: np.ndarray) -> np.ndarray:
    total = values.sum()
    return values / total if total > 0 else np.zeros(len(values))


#: Name of the contribution of potentials that come with the input from another model.
GIVEN = "first model"


class Piece(NamedTuple):
    """Contribution of one feature, support vector, transition or arc to a margin.

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
    """Contributions of a model to the margin of one output over another.

    Attributes
    ----------
    groups : dict of str to float
        Contribution of each group. They sum to the margin.
    pieces : list of Piece
        Contributions of features, support vectors, transitions and arcs.
    """

    groups: dict[str, float]
    pieces: list[Piece]


def contributions(predictor: Predictor, x: Any, direction: Potentials) -> Contributions:
    """Inner product of a model's potentials with a direction, group by group.

    With the difference of the indicators of two outputs as direction, these are the groups' shares of the margin.

    Parameters
    ----------
    predictor : Predictor
    x : Span, ArcSentence or the like
        Encoded input.
    direction : Potentials
        Shaped like the potentials of ``x``.

    Returns
    -------
    Contributions
    """
    groups: dict[str, float] = {}
    pieces: list[Piece] = []
    given = initial_potentials(predictor.structure, x)
    if any(array.any() for array in given):
        groups[GIVEN] = _product(given, direction)
    for bank in separable_banks(predictor):
        groups.update(_of_bank(bank, predictor.structure, x, direction, pieces))
    return Contributions(groups, pieces)


def _of_bank(
    bank: Any, structure: Any, x: Any, direction: Potentials, pieces: list[Piece]
) -> Iterator[tuple[str, float]]:
    """``(group, contribution)`` of a bank's groups; their pieces are appended to ``pieces``."""
    if isinstance(bank, ExplicitBank):
        yield from _of_features(bank, x, direction, pieces)
        return
    for k, own in group_potentials(bank, structure, x, range(len(bank.names))):
        name = bank.names[k]
        yield name, _product(own, direction)
        if isinstance(bank, TransitionBank):
            pieces += _of_pairs(name, own.pairwise, direction.pairwise)
        elif isinstance(bank, TrigramBank):
            added = own.triples * direction.triples
            pieces += [Piece("labels", name, tuple(key), None, float(added[tuple(key)])) for key in _nonzero(added)]
        elif isinstance(bank, ArcTemplateBank):
            added = own.arcs * direction.arcs
            pieces += [Piece("arc", name, (h, m), m, float(added[h, m])) for h, m in _nonzero(added)]
    if hasattr(bank, "products_of_parts"):
        for name, token, values in bank.products_of_parts(x, direction):
            there = np.flatnonzero(values)
            told = zip(there.tolist(), values[there].tolist())
            pieces += [Piece("part", name, i, token, value) for i, value in told]
    if hasattr(bank, "products_of_supports"):
        for name, values in bank.products_of_supports(x, direction):
            there = np.flatnonzero(values)
            indices = bank.support_indices[there].tolist()
            own_values = values[there].tolist()
            pieces += [Piece("support", name, i, None, value) for i, value in zip(indices, own_values)]


def _of_features(bank: ExplicitBank, x: Any, direction: Any, pieces: list[Piece]) -> Iterator[tuple[str, float]]:
    """``(group, contribution)`` of explicit features; their pieces are appended to ``pieces``."""
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
    records = zip(own[there].tolist(), tokens[there].tolist(), added[there].tolist())
    pieces += [Piece("feature", bank.names[bank.groups[i]], i, t, value) for i, t, value in records]
    yield from zip(bank.names, sums.tolist())


def _of_pairs(name: str, own: np.ndarray, direction: np.ndarray) -> Iterator[Piece]:
    """Contributions of label pairs; ``at`` is the second label's position, where positions have own transitions."""
    added = own * direction
    for edge, *pair in _nonzero(added):
        yield Piece("labels", name, tuple(pair), edge + 1 if len(own) > 1 else None, float(added[edge, *pair]))


def _nonzero(array: np.ndarray) -> list[list[int]]:
    return np.argwhere(array != 0).tolist()


def _product(potentials: Potentials, direction: Potentials) -> float:
    """Inner product; entries where the direction is 0 may be infinite."""
    return float(sum(np.vdot(np.where(d != 0, a, 0.0), d) for a, d in zip(potentials, direction)))
