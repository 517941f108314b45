"""Passes over examples in compiled calls of many rounds; :class:`OnlineTrainer` is their definition."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from omkl.groups._jit_banks import Banks, Cached, Explicit, Groups, Mapped
from omkl.groups.expansions.cached import CachedKernelBank
from omkl.groups.feature_maps import FeatureMapBank
from omkl.groups.group_state import SCALE_RANGE, StepArrays
from omkl.groups.tables import ExplicitBank, InterceptBank, TransitionBank
from omkl.groups.tokens import Features, Tokens
from omkl.losses import _jit_losses
from omkl.losses.pointwise import EpsilonInsensitive, Huber, Squared
from omkl.losses.structured import CRF, Perceptron, SoftmaxMargin, StructuredHinge
from omkl.online import _jit_pass as jit
from omkl.online._jit_evidence import EvidenceArrays
from omkl.online.methods import DualAveraging, ForwardBackward, OutOfSampleWeights
from omkl.online.rounds import Sequences, Step
from omkl.online.schedules import DistanceOverGradients, GrowingHorizon, MeanPolyak
from omkl.online.trainer import OnlineTrainer
from omkl.regularizers.separable import LqNorm
from omkl.regularizers.squared_norms import SquaredL21, WeightedSquaredL21
from omkl.structures.chain import Chain
from omkl.structures.multiclass import Binary, Multiclass, Scalar

#: Most rounds of one call.
AT_A_TIME = 1000
STRUCTURES: dict[type, int] = {Binary: jit.BINARY, Multiclass: jit.LABELS, Chain: jit.LABELS, Scalar: jit.SCALAR}
#: Kinds of losses, and the names of their parameters.
LABEL_LOSSES: dict[type, tuple[int, str]] = {
    StructuredHinge: (_jit_losses.HINGE, "cost_weight"),
    CRF: (_jit_losses.CRF, ""),
    SoftmaxMargin: (_jit_losses.SOFTMAX_MARGIN, "cost_weight"),
    Perceptron: (_jit_losses.PERCEPTRON, ""),
}
NUMBER_LOSSES: dict[type, tuple[int, str]] = {
    Squared: (_jit_losses.SQUARED, ""),
    Huber: (_jit_losses.HUBER, "delta"),
    EpsilonInsensitive: (_jit_losses.EPSILON_INSENSITIVE, "epsilon"),
}
METHODS: dict[type, int] = {
    ForwardBackward: jit.FORWARD_BACKWARD,
    DualAveraging: jit.DUAL_AVERAGING,
    OutOfSampleWeights: jit.HEDGE,
}
ADAPTIVE: dict[type, int] = {DistanceOverGradients: jit.DISTANCE_OVER_GRADIENTS, MeanPolyak: jit.MEAN_POLYAK}
#: The numbers of ``state()`` of adaptive schedules, at its end.
SUMS: dict[type, list[int]] = {
    DistanceOverGradients: [jit.DISTANCE, jit.SQUARES, jit.LARGEST],
    MeanPolyak: [jit.LOSSES, jit.SQUARES, jit.LARGEST],
}
#: Banks in the order of :class:`Banks`.
BANKS = (ExplicitBank, FeatureMapBank, CachedKernelBank, TransitionBank, InterceptBank)
# the arrays of banks that a model does not have
NOTHING, NO_TABLE = np.empty(0), np.empty((0, 0))
NO_PLACES, NO_INTEGERS = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
NO_MARKS, NO_TENSOR = np.empty(0, dtype=np.bool_), np.empty((0, 0, 0))
NO_GRAMS = NO_TENSOR.astype(np.float32)
NO_FEATURES = Features(NO_PLACES, NO_INTEGERS, NOTHING)
NO_STEP = StepArrays(NOTHING, NOTHING, NO_MARKS, NOTHING, NOTHING)
NO_BANKS = Banks(
    Explicit(NO_FEATURES, NO_TABLE, NO_TABLE, *[NO_INTEGERS] * 3),
    Mapped(NO_TABLE, NO_PLACES, NO_TABLE, NO_TABLE, np.empty((0, 0), dtype=np.bool_)),
    Cached(NO_GRAMS, NO_GRAMS, NO_TENSOR, NO_TENSOR, NO_MARKS),
    (NO_TENSOR, NO_TENSOR),
    (NO_TENSOR, NO_TENSOR),
)
NO_EVIDENCE = EvidenceArrays(NOTHING, NOTHING, NO_TABLE, NOTHING)
NO_HEDGE = jit.Weights(*[NOTHING] * 5)


def is_compilable(trainer: OnlineTrainer) -> bool:
    """Check whether compiled passes know all parts of a trainer; the data do not matter."""
    structure, banks = trainer.structure, trainer.banks
    losses = NUMBER_LOSSES if type(structure) is Scalar else LABEL_LOSSES
    places = [BANKS.index(type(bank)) for bank in banks if type(bank) in BANKS]
    return (
        len(places) == len(banks)
        and places == sorted(set(places))
        and all(_is_stored(bank) for bank in banks)
        and type(structure) in STRUCTURES
        and (type(structure) is not Chain or structure.is_plain)
        and type(trainer.loss) in losses
        and type(trainer.method) in METHODS
        and (not trainer.schedule.adaptive or type(trainer.schedule) in ADAPTIVE)
        and (not callable(trainer.lambda_) or type(trainer.lambda_) is GrowingHorizon)
        and (trainer.method.has_weights or all(_prox_of(term) is not None for term in trainer.terms))
    )


def _is_stored(bank: Any) -> bool:
    """Check whether a bank has Gram matrices, or a table in double precision."""
    return bank.is_dense if isinstance(bank, CachedKernelBank) else bank.table.dtype == np.float64


def _prox_of(term: Any) -> tuple[int, tuple[float, float], np.ndarray] | None:
    """Return the kind, the parameters and the weights of a proximity operator; None if it is not compiled."""
    if term.elastic is not None:
        return jit.LINEAR_QUADRATIC, term.elastic, NOTHING
    if type(term) is LqNorm:
        return jit.LQ, (term.q, 0.0), NOTHING
    if type(term) is SquaredL21:
        return jit.SQUARED_L1, (0.0, 0.0), NOTHING
    return (jit.SQUARED_L1, (0.0, 0.0), term.weights) if type(term) is WeightedSquaredL21 else None


class CompiledPass:
    """Learns blocks of sequences, many rounds in one call.

    Parameters
    ----------
    room : callable
        ``room()`` returns how many rounds may pass until a callback or a checkpoint must know.
    testing : bool
        Whether steps have the costs of predictions before each round.
    """

    n_shards = 1

    def __init__(self, room: Callable[[], int], testing: bool) -> None:
        self._room = room
        self._testing = testing

    def check(self, trainer: OnlineTrainer, source: object, callbacks: object) -> None:
        """Accept everything."""

    def __call__(self, trainer: OnlineTrainer, examples: Any, orders: Callable, done: int) -> Iterator[Step]:
        """Yield a step for some rounds together; ``orders(sizes)`` gives orders, with ``done`` learned already.

        ``examples.sequences()`` returns their arrays.
        """
        order, sequences = orders([len(examples)])[0], examples.sequences()
        while done < len(order):
            n = min(self._room(), AT_A_TIME, len(order) - done, trainer.until_upkeep())
            ends = np.cumsum(sequences.lengths(order[done : done + n]))
            for bank in trainer.banks:
                if isinstance(bank, FeatureMapBank):
                    n = max(1, min(n, int(np.searchsorted(ends, bank.rows_at_once, side="right"))))
            step = _learn(trainer, sequences, order[done : done + n], self._testing)
            done += step.n_examples
            yield step


def _learn(trainer: OnlineTrainer, sequences: Sequences, order: np.ndarray, testing: bool) -> Step:
    """Learn some examples in rounds."""
    group_state, schedule, method = trainer.group_state, trainer.schedule, trainer.method
    n, weights = len(order), np.ones(len(order)) if sequences.weights is None else sequences.weights[order]
    presented = np.cumsum(np.append(trainer.presented, weights))[1:]
    lows, ends, tokens = sequences.tokens_of(order)
    gold = sequences.gold[tokens]
    rounds = _rounds_of(trainer, lows, ends, gold, weights, presented)
    state, losses, costs = np.zeros(jit.N_STATE), np.empty(n), np.empty(n)
    state[jit.PENDING], state[jit.TOTAL_WEIGHT] = group_state.pending_weight, group_state.total_weight
    state[jit.SHRINKAGE] = trainer.shrinkage
    own_sums = SUMS.get(type(schedule), [])
    state[own_sums] = schedule.state()[-len(own_sums) :] if own_sums else []
    hedged = NO_HEDGE
    if isinstance(method, OutOfSampleWeights):
        hedged, state[jit.GAP] = jit.Weights(*method.arrays()), method.gap
    arrays, rules = _arrays_of(trainer, sequences.tokens, tokens), _rules_of(trainer)
    tests = rules if type(trainer.structure) is Scalar else rules._replace(loss=_jit_losses.CRF)
    scratch, evidence = _scratch_of(trainer, int(np.diff(ends).max())), NO_EVIDENCE
    if trainer.evidence is not None and trainer.evidence.takes_part:
        evidence = trainer.evidence.arrays(scratch.unary.shape[1])
    drift = NOTHING if trainer.drift is None or trainer.drift.paused else trainer.drift.numbers
    state[jit.ROUND] = trainer.round
    kept = rules, tests, hedged, evidence, drift, method.learning, testing
    learned = jit.learn(rounds, *arrays, *kept, state, losses, costs, scratch)
    changed = bool(state[jit.CHANGED])
    diverged = learned < n and not changed
    trainer.go_on(trainer.round + learned + diverged, presented[learned + diverged - 1])
    trainer.shrinkage = float(state[jit.SHRINKAGE])
    group_state.pending_weight, group_state.total_weight = float(state[jit.PENDING]), float(state[jit.TOTAL_WEIGHT])
    if own_sums:
        schedule.load_state([*schedule.state()[: -len(own_sums)], *state[own_sums].tolist()])
    if isinstance(method, OutOfSampleWeights):
        method.gap = float(state[jit.GAP])
    if diverged:
        raise trainer.divergence(float(losses[learned]))
    trainer.upkeep()
    if changed:
        trainer.restart_average()
    rate, square_gradient = float(state[jit.RATE]), float(state[jit.SQUARE_GRADIENT])
    kept_costs, gold = costs[:learned] if testing else None, gold[: ends[learned]]
    facts = trainer.norms, rate, square_gradient, None, gold, learned, weights[:learned]
    return Step(losses[:learned], *facts, costs=kept_costs, changed=changed)


def _rounds_of(
    trainer: OnlineTrainer,
    lows: np.ndarray,
    ends: np.ndarray,
    gold: np.ndarray,
    weights: np.ndarray,
    presented: np.ndarray,
) -> jit.Rounds:
    """Return the numbers of rounds; ``presented`` are the sums of weights after each."""
    first, of_numbers = trainer.round - trainer.began + 1, type(trainer.structure) is Scalar
    rounds, average = np.arange(first, first + len(lows)), trainer.average
    lambdas = trainer.lambda_(presented) if isinstance(trainer.lambda_, GrowingHorizon) else trainer.lambda_
    return jit.Rounds(
        lows,
        ends,
        NO_PLACES if of_numbers else gold.astype(np.int64, copy=False),
        gold.astype(np.float64, copy=False) if of_numbers else NOTHING,
        weights,
        _rates_or_factors(trainer.schedule, rounds),
        (weights if trainer.method.forgets else presented) * lambdas,
        np.zeros(len(lows)) if average is None else average.weights(rounds),
    )


def _scratch_of(trainer: OnlineTrainer, longest: int) -> jit.Scratch:
    """Return working memory for sequences of up to ``longest`` tokens."""
    unary, *others = trainer.structure.zeros(longest)
    pairwise = others[0] if others else np.empty((0, unary.shape[1], unary.shape[1]))
    total, labels = np.empty((1, 1, unary.shape[1])), np.empty(longest, dtype=np.int64)
    p, norms = trainer.n_penalized, np.empty((2, len(trainer.group_state.names)))
    kept = np.empty(p), *norms, np.empty(p), np.empty((p, unary.shape[1])), np.empty(norms.shape[1])
    return jit.Scratch(unary, pairwise, unary.copy(), pairwise.copy(), total, labels, *kept)


def fastest_pass(
    trainer: OnlineTrainer, examples: object, room: Callable[[], int] = lambda: AT_A_TIME, testing: bool = False
) -> Any:
    """Return a compiled pass over examples, if all parts of the trainer are known to one; else None.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : sequence of Example
    room, testing
        See :class:`CompiledPass`.
    """
    if not hasattr(examples, "sequences") or not is_compilable(trainer):
        return None
    return CompiledPass(room, testing)


def _rates_or_factors(schedule: Any, rounds: np.ndarray) -> np.ndarray:
    """Return the rates of rounds, or the factors of an adaptive schedule."""
    if type(schedule) is DistanceOverGradients:
        return np.ones(len(rounds))
    rate = schedule.share_left if schedule.adaptive else schedule
    return np.array([rate(t) for t in rounds.tolist()])


def _rules_of(trainer: OnlineTrainer) -> jit.Rules:
    """Return the kinds and parameters of the parts of a trainer."""
    loss = trainer.loss
    kind, name = (NUMBER_LOSSES if type(trainer.structure) is Scalar else LABEL_LOSSES)[type(loss)]
    prox = jit.NO_PROX, (0.0, 0.0), NOTHING
    if trainer.terms and not trainer.method.has_weights:
        prox = _prox_of(trainer.terms[0]) or prox
    return jit.Rules(
        STRUCTURES[type(trainer.structure)],
        kind,
        loss.parameters()[name] if name else 0.0,
        getattr(trainer.structure, "costs", np.empty((0, 0))),
        METHODS[type(trainer.method)],
        ADAPTIVE.get(type(trainer.schedule), jit.KNOWN),
        trainer.schedule.eta0,
        prox[0],
        prox[1],
        prox[2],
        trainer.radius,
        SCALE_RANGE,
    )


def _arrays_of(trainer: OnlineTrainer, tokens: Tokens, chosen: np.ndarray) -> tuple[Banks, Groups]:
    """Return the arrays of the banks, empty ones for banks that a model does not have, and of the group state."""
    state, own, features = trainer.group_state, [(NO_STEP, NOTHING)] * len(BANKS), tokens.features or NO_FEATURES
    arrays: list[Any] = list(NO_BANKS)
    counts = np.zeros(len(BANKS), dtype=np.int64)
    for bank in trainer.banks:
        place = BANKS.index(type(bank))
        own[place], counts[place] = (bank.group_state.step, bank.group_state.scales), len(bank.names)
        if isinstance(bank, ExplicitBank):
            arrays[place] = Explicit(features, *bank.arrays())
        elif isinstance(bank, FeatureMapBank):
            arrays[place] = Mapped(bank.features_of(tokens, chosen), *bank.arrays())
        else:
            arrays[place] = Cached(*bank.arrays()) if isinstance(bank, CachedKernelBank) else bank.arrays()
    whole = state.rates, state.averages, state.bases, state.square_norms, state.square_gradients
    left_out = state.left_out[: trainer.n_penalized], state.left_out
    return Banks(*arrays), Groups(state.rescaled, *whole, *left_out, np.cumsum(counts), *own)
