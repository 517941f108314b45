"""What each group of a model is worth: its norm, weight and cost, and how much it helps on data not yet seen."""

import copy
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import GroupState, Span, initial_potentials
from omkl.online.averaging import BLOCK, Predictor
from omkl.online.rounds import Example
from omkl.online.trainer import OnlineTrainer
from omkl.structures import Potentials

#: The parts that groups give must add up to the model's potentials, relative to these.
PARTS_TOLERANCE = 1e-3
#: Scoring is timed on the first so many blocks of examples, or single ones, as the least of so many repetitions.
TIMED_BLOCKS, TIMED_REPEATS = 20, 3


def group_report(trainer: OnlineTrainer, examples: Iterable[Example] | None = None) -> list[dict[str, Any]]:
    r"""A flat record for each group of the averaged model, those that are not regularized at the end.

    Potentials are sums over groups, so the loss without group k is the loss at the model's potentials minus the
    group's own: all groups are measured in one pass, and nothing is trained anew. The others stay as they are: of two
    groups that do the same each seems to help little, until the other is gone.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : iterable of Example, optional
        Examples that the model has not learned from; their weights are not looked at.

    Returns
    -------
    list of dict
        ``group``, ``norm``, ``weight`` (None for a group that is not regularized), ``bytes`` of its parameters and
        ``bytes_share``, in [0, 1]. With examples also ``time_share`` in [0, 1], of the seconds that scoring the first
        of them takes, each group by itself; ``loss_without`` the group, a mean over the examples; ``loss_increase``,
        by how much it exceeds that of the whole model; and its ``standard_error`` (None for a single example), for n
        independent examples :math:`\sqrt{\sum_i (d_i - \bar d)^2 / (n (n - 1))}` with the differences :math:`d_i` of
        each example's losses.

    Raises
    ------
    InputError
        If there are no examples, or a bank of the user's gives all of its groups where one is asked for.
    """
    if not trainer.has_groups:
        raise InputError("Where Hedge combines kernels, each is a model of its own: only their weights are told.")
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
    """The columns that need data, (p,) each."""
    parts, structure, loss = _Parts(predictor), predictor.structure, trainer.loss

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
            if not any(array.any() for array in (part if isinstance(part, tuple) else (part,))):
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


class _Parts:
    """A model taken apart: what each of its groups gives, and the seconds that it takes on the first blocks."""

    def __init__(self, predictor: Predictor) -> None:
        self._zeros = predictor.structure.zeros
        self._alive = predictor.norms > 0
        # the same parameters under scales of their own: others may predict meanwhile
        self._banks = [copy.copy(bank) for bank in predictor.banks]
        GroupState(self._banks)
        self.seconds, self._n_blocks = np.zeros(len(self._alive)), 0

    def of(self, x: Any) -> Iterator[tuple[int, Potentials]]:
        """``(k, potentials)`` of each group that is not zero."""
        first, is_timed = 0, self._n_blocks < TIMED_BLOCKS
        self._n_blocks += 1
        for bank in self._banks:
            alive = np.flatnonzero(self._alive[first : first + len(bank.names)]).tolist()
            # what a bank takes for no group at all belongs to none of them
            idle = self._time(bank, x) if alive and is_timed else 0.0
            for k in alive:
                bank.group_state.scales[k] = 1.0
                part = self._zeros(len(x))
                bank.add_potentials(x, part)
                if is_timed:
                    self.seconds[first + k] += max(self._time(bank, x) - idle, 0.0)
                bank.group_state.scales[k] = 0.0
                yield first + k, part
            first += len(bank.names)

    def _time(self, bank: Any, x: Any) -> float:
        seconds = []
        for _ in range(TIMED_REPEATS):
            potentials, started = self._zeros(len(x)), time.perf_counter()
            bank.add_potentials(x, potentials)
            seconds.append(time.perf_counter() - started)
        return min(seconds)


def _blocks(structure: Any, examples: Iterable[Example]) -> Iterator[tuple[Any, list[tuple[slice | None, Any]]]]:
    """Inputs to score at once, each with ``(where its potentials are, output)`` of its examples.

    Sequences that come one after the other in the same tokens are one block; other inputs stand alone, and all
    potentials are theirs.
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
    if isinstance(total, tuple):
        return type(total)(*(a - b for a, b in zip(total, part)))
    return total - part


def _check_parts(left: Potentials, potentials: Potentials, initial: Potentials) -> None:
    """Raise unless what no group adds is left of the potentials when all parts are taken away."""
    triples = zip(*(arrays if isinstance(arrays, tuple) else (arrays,) for arrays in (left, potentials, initial)))
    for rest, own, first in triples:
        largest = np.abs(own).max(initial=0.0, where=np.isfinite(own))
        if not np.allclose(rest, first, rtol=0.0, atol=PARTS_TOLERANCE * (1.0 + largest)):
            raise InputError(
                "The potentials of single groups do not add up to the model's: a bank must leave out the groups whose "
                "scale in its group_state is 0."
            )


def _shares(values: np.ndarray) -> np.ndarray:
    total = values.sum()
    return values / total if total > 0 else np.zeros(len(values))
