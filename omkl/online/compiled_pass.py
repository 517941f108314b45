"""Passes over examples in compiled calls of many rounds; :class:`OnlineTrainer` is their definition."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from omkl.groups._jit_banks import Banks, Explicit, Groups, Kernels, Mapped
from omkl.groups.group_state import SCALE_RANGE, StepArrays
from omkl.groups.tokens import NO_FEATURES, Tokens
from omkl.losses._jit_losses import CRF
from omkl.online import _jit_pass as jit
from omkl.online._jit_evidence import EvidenceArrays
from omkl.online.drift.detector import DriftTest
from omkl.online.evidence import Evidence
from omkl.online.methods import OutOfSampleWeights
from omkl.online.rounds import Sequences, Step
from omkl.online.schedules import GrowingHorizon
from omkl.online.trainer import OnlineTrainer
from omkl.regularizers._jit_prox import NO_PROX, NO_WEIGHTS
from omkl.structures._jit_chain import SCALAR

#: Most rounds of one call.
AT_A_TIME = 1000
#: Rounds up to which :meth:`OnlineTrainer.update` trains a model. They take half a second or less; compiling a pass at
#: a first call takes about 20.
FEW_ROUNDS = 5000
# the arrays of parts that a model does not have: each None instead doubles the number of compiled variants
NOTHING, NO_TABLE, NO_INTEGERS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int32)
NO_STEP = StepArrays(NOTHING, NOTHING, np.empty(0, dtype=np.bool_), NOTHING, NOTHING), NOTHING
NO_FEATURE_TABLE = Explicit(NO_FEATURES, NO_TABLE, NO_TABLE, *[NO_INTEGERS] * 3)
NO_MAPS, NO_KERNELS = Mapped(*[None] * 5), Kernels(None, None)
NO_INTERCEPT = np.empty((0, 0, 0)), np.empty((0, 0, 0))
NO_EVIDENCE = EvidenceArrays(NOTHING, NOTHING, NO_TABLE, NOTHING)
NO_HEDGE = jit.Weights(*[NOTHING] * 5)


def uncompiled_part(trainer: OnlineTrainer) -> Any:
    """Return a part of a trainer that has no compiled form, whatever the data are; None if all parts have one."""
    lambda_, schedule, banks = trainer.lambda_, trainer.schedule, trainer.banks
    parts: list[Any] = [trainer.structure, trainer.loss, trainer.method, *banks, *trainer.terms]
    parts += [schedule] if schedule.adaptive else []
    if missing := [part for part in parts if part.compiled is None]:
        return missing[0]
    places = [Banks._fields.index(bank.compiled) for bank in banks]
    out_of_place = [bank for bank, place, next_ in zip(banks, places, places[1:]) if place >= next_]
    return next(iter(out_of_place), lambda_ if callable(lambda_) and not isinstance(lambda_, GrowingHorizon) else None)


def compiled_pass(
    trainer: OnlineTrainer, examples: Any, orders: Callable, done: int, room: Callable[[], int], testing: bool
) -> Iterator[Step]:
    """Learn a block of sequences, many rounds in one call; yield a step for some rounds together.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : sequence of Example
        ``examples.sequences()`` returns their arrays, None if a compiled pass cannot take them.
    orders : callable
        ``orders(sizes)`` gives orders.
    done : int
        Number of examples that were learned already.
    room : callable
        ``room()`` returns how many rounds may pass until a callback or a checkpoint must know.
    testing : bool
        Whether steps have the costs of predictions before each round.
    """
    order, sequences = orders([len(examples)])[0], examples.sequences()
    while done < len(order):
        n = min(room(), AT_A_TIME, len(order) - done, trainer.until_upkeep())
        ends = np.cumsum(sequences.lengths(order[done : done + n]))
        most = min(bank.rows_at_once for bank in trainer.banks)
        n = max(1, min(n, int(np.searchsorted(ends, most, side="right"))))
        step = _learn(trainer, sequences, order[done : done + n], testing)
        done += step.n_examples
        yield step


def _learn(trainer: OnlineTrainer, sequences: Sequences, order: np.ndarray, testing: bool) -> Step:
    """Learn some examples in rounds."""
    group_state, schedule, method = trainer.group_state, trainer.schedule, trainer.method
    n, weights = len(order), np.ones(len(order)) if sequences.weights is None else sequences.weights[order]
    presented = np.cumsum(np.append(trainer.presented, weights))[1:]
    lows, ends, tokens = sequences.tokens_of(order)
    gold = sequences.gold[tokens]
    numbers = np.arange(trainer.round - trainer.began + 1, trainer.round - trainer.began + 1 + n)
    lambda_: Any = trainer.lambda_
    lambdas = lambda_(presented) if callable(lambda_) else lambda_
    of_numbers = trainer.structure.compiled[0] == SCALAR
    codes = None if of_numbers else gold.astype(np.int64, copy=False)
    values = gold.astype(np.float64, copy=False) if of_numbers else None
    shrinkage = (weights if method.forgets else presented) * lambdas
    averages = np.zeros(n) if trainer.average is None else trainer.average.weights(numbers)
    rounds = jit.Rounds(lows, ends, codes, values, weights, schedule.factors(numbers), shrinkage, averages)
    state, losses, costs = np.zeros(jit.N_STATE), np.empty(n), np.empty(n)
    weights_so_far = {"pending_weight": jit.PENDING, "total_weight": jit.TOTAL_WEIGHT}
    owners: list[Any] = [(group_state, weights_so_far), (trainer, {"shrinkage": jit.SHRINKAGE})]
    owners += [(part, part.places) for part in trainer.parts.values()]
    carried = [(owner, name, place) for owner, places in owners for name, place in places.items()]
    for owner, name, place in carried:
        state[place] = getattr(owner, name)
    state[jit.ROUND] = trainer.round

    (structure, costs_of_labels), hedge = trainer.structure.compiled, None
    prox: Any = (NO_PROX, (0.0, 0.0), NO_WEIGHTS)
    if isinstance(method, OutOfSampleWeights):
        hedge = method
    elif trainer.terms:
        prox = trainer.terms[0].compiled
    learning = method.compiled, jit.KNOWN if schedule.compiled is None else schedule.compiled, schedule.eta0
    own = structure, *trainer.loss.compiled, costs_of_labels, *learning, *prox, trainer.radius, SCALE_RANGE
    rules = jit.Rules._make(own)
    tests = rules if rules.structure == SCALAR else rules._replace(loss=CRF)

    unary, *others = trainer.structure.zeros(int(np.diff(ends).max()))
    pairs = (others[0], others[0].copy()) if others and len(others[0]) else (None, None)
    total, labels = np.empty((1, 1, unary.shape[1])), np.empty(len(unary), dtype=np.int64)
    p, norms = trainer.n_penalized, np.empty((2, len(group_state.names)))
    kept = np.empty(p), *norms, np.empty(p), np.empty((p, unary.shape[1])), np.empty(norms.shape[1])
    scratch = jit.Scratch(unary, pairs[0], unary.copy(), pairs[1], total, labels, *kept)

    evidence, drift = trainer.find(Evidence), trainer.find(DriftTest)
    examining, watching = evidence is not None and evidence.takes_part, drift is not None and not drift.paused
    hedged = NO_HEDGE if hedge is None else jit.Weights(*hedge.arrays())
    tested = NO_EVIDENCE if evidence is None else evidence.arrays(unary.shape[1] if examining else 0)
    watched, flags = None if drift is None else drift.numbers, (examining, watching, method.learning, testing)
    arrays = _arrays_of(trainer, sequences.tokens, tokens)
    learned = jit.learn(rounds, *arrays, rules, tests, hedged, tested, watched, flags, state, losses, costs, scratch)
    for bank in trainer.banks:
        bank.end_pass(getattr(arrays[0], str(bank.compiled)))
    changed = bool(state[jit.CHANGED])
    diverged = learned < n and not changed
    trainer.go_on(trainer.round + learned + diverged, presented[learned + diverged - 1])
    for owner, name, place in carried:
        setattr(owner, name, float(state[place]))
    if diverged:
        raise trainer.divergence(float(losses[learned]))
    trainer.upkeep()
    if changed and drift is not None:
        trainer.restart_average(drift.change)
    rate, square_gradient = float(state[jit.RATE]), float(state[jit.SQUARE_GRADIENT])
    kept_costs, gold = costs[:learned] if testing else None, gold[: ends[learned]]
    facts = trainer.norms, rate, square_gradient, None, gold, learned, weights[:learned]
    return Step(losses[:learned], *facts, costs=kept_costs, changed=changed)


def fastest_pass(
    trainer: OnlineTrainer, examples: Any, room: Callable[[], int] = lambda: AT_A_TIME, testing: bool = False
) -> Callable[..., Iterator[Step]] | None:
    """Return a compiled pass over examples, if all parts of the trainer are known to one, and it pays; else None.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : sequence of Example
    room, testing
        See :func:`compiled_pass`.
    """
    if getattr(examples, "sequences", lambda: None)() is None or uncompiled_part(trainer) is not None:
        return None
    if max(trainer.planned, trainer.round + len(examples)) <= FEW_ROUNDS:
        return None
    return partial(compiled_pass, room=room, testing=testing)


def _arrays_of(trainer: OnlineTrainer, tokens: Tokens, chosen: np.ndarray) -> tuple[Banks, Groups]:
    """Return the arrays of the banks, None for those that a model does not have, and of the group state."""
    state, names = trainer.group_state, Banks._fields
    arrays: dict[str | None, Any] = {"explicit": NO_FEATURE_TABLE, "mapped": NO_MAPS, "kernels": NO_KERNELS}
    arrays["intercept"] = NO_INTERCEPT
    own: dict[str | None, Any] = {"explicit": NO_STEP, "mapped": (None, None), "intercept": NO_STEP}
    for bank in trainer.banks:
        arrays[bank.compiled] = bank.compiled_arrays(tokens, chosen)
        own[bank.compiled] = bank.group_state.step, bank.group_state.scales
    counts = {bank.compiled: len(bank.names) for bank in trainer.banks}
    whole = state.rates, state.averages, state.bases, state.square_norms, state.square_gradients
    left_out = state.left_out[: trainer.n_penalized], state.left_out
    ends = np.cumsum([counts.get(name, 0) for name in names])
    parts: list[Any] = [own.get(name) for name in names]
    return Banks._make(map(arrays.get, names)), Groups(state.rescaled, *whole, *left_out, ends, *parts)
