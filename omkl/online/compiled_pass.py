"""Passes over single tokens in compiled calls of many rounds; :class:`OnlineTrainer` is their definition."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from omkl.groups.feature_maps import FeatureMapBank
from omkl.groups.group_state import SCALE_RANGE, StepArrays
from omkl.groups.tables import ExplicitBank, InterceptBank
from omkl.groups.tokens import Features, Tokens
from omkl.losses.pointwise import EpsilonInsensitive, Huber, Squared
from omkl.losses.structured import CRF, Perceptron, SoftmaxMargin, StructuredHinge
from omkl.online import _jit_pass as jit
from omkl.online.methods import DualAveraging, ForwardBackward, OutOfSampleWeights
from omkl.online.rounds import Rows, Step
from omkl.online.schedules import DistanceOverGradients, GrowingHorizon, MeanPolyak
from omkl.online.trainer import OnlineTrainer
from omkl.regularizers.separable import L21, ElasticNet, LinearQuadratic, LqNorm, Ridge
from omkl.regularizers.squared_norms import SquaredL21, WeightedSquaredL21
from omkl.structures.multiclass import Binary, Multiclass, Scalar, UnaryPotentials

#: Most rounds of one call.
AT_A_TIME = 1000
STRUCTURES: dict[type, int] = {Binary: jit.BINARY, Multiclass: jit.MULTICLASS, Scalar: jit.SCALAR}
#: Kinds of losses, and the names of their parameters.
LABEL_LOSSES: dict[type, tuple[int, str]] = {
    StructuredHinge: (jit.HINGE, "cost_weight"),
    CRF: (jit.CRF, ""),
    SoftmaxMargin: (jit.SOFTMAX_MARGIN, "cost_weight"),
    Perceptron: (jit.PERCEPTRON, ""),
}
NUMBER_LOSSES: dict[type, tuple[int, str]] = {
    Squared: (jit.SQUARED, ""),
    Huber: (jit.HUBER, "delta"),
    EpsilonInsensitive: (jit.EPSILON_INSENSITIVE, "epsilon"),
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
LINEAR_QUADRATIC = (L21, ElasticNet, Ridge, LinearQuadratic)
# the arrays of banks that a model does not have
NOTHING, NO_TABLE = np.empty(0), np.empty((0, 0))
NO_PLACES, NO_INTEGERS = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
NO_FEATURES = Features(NO_PLACES, NO_INTEGERS, NOTHING)
NO_STEP = StepArrays(NOTHING, NOTHING, np.empty(0, dtype=np.bool_), NOTHING, NOTHING)
NO_HEDGE = jit.Weights(*[NOTHING] * 5)


def is_compilable(trainer: OnlineTrainer) -> bool:
    """Check whether compiled passes know all parts of a trainer; the data do not matter."""
    losses = NUMBER_LOSSES if type(trainer.structure) is Scalar else LABEL_LOSSES
    banks = [type(bank) for bank in trainer.banks]
    known = [bank for bank in (ExplicitBank, FeatureMapBank, InterceptBank) if bank in banks]
    return (
        banks == known
        and len(trainer.penalized_banks) == len([bank for bank in banks if bank is not InterceptBank])
        and type(trainer.structure) in STRUCTURES
        and type(trainer.loss) in losses
        and type(trainer.method) in METHODS
        and (not trainer.schedule.adaptive or type(trainer.schedule) in ADAPTIVE)
        and (not callable(trainer.lambda_) or type(trainer.lambda_) is GrowingHorizon)
        and not trainer.coordinate_terms
        and (trainer.method.has_weights or all(_prox_of(term) is not None for term in trainer.terms))
        and all(bank.table.dtype == np.float64 for bank in trainer.banks)
    )


def _prox_of(term: Any) -> tuple[int, tuple[float, float], np.ndarray] | None:
    """Return the kind, the parameters and the weights of a proximity operator; None if it is not compiled."""
    if type(term) in LINEAR_QUADRATIC:
        return jit.LINEAR_QUADRATIC, (term.linear, term.quadratic), NOTHING
    if type(term) is LqNorm:
        return jit.LQ, (term.q, 0.0), NOTHING
    if type(term) is SquaredL21:
        return jit.SQUARED_L1, (0.0, 0.0), NOTHING
    return (jit.SQUARED_L1, (0.0, 0.0), term.weights) if type(term) is WeightedSquaredL21 else None


class CompiledPass:
    """Learns blocks of single tokens, many rounds in one call.

    Parameters
    ----------
    room : callable
        ``room()`` returns how many rounds may pass until a callback or a checkpoint must know.
    """

    n_shards = 1

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room

    def check(self, trainer: OnlineTrainer, source: object, callbacks: object) -> None:
        """Accept everything."""

    def __call__(self, trainer: OnlineTrainer, examples: Any, orders: Callable, done: int) -> Iterator[Step]:
        """Yield a step for some rounds together; ``orders(sizes)`` gives orders, with ``done`` learned already."""
        order, rows = orders([len(examples)])[0], examples.rows()
        while done < len(order):
            n = min(self._room(), AT_A_TIME, len(order) - done, trainer.until_upkeep())
            n = min(n, *(bank.rows_at_once for bank in trainer.banks if isinstance(bank, FeatureMapBank)), n)
            n = _take_evidence(trainer, examples, order[done : done + n])
            yield _learn(trainer, rows, order[done : done + n])
            done += n


def _take_evidence(trainer: OnlineTrainer, examples: Any, order: np.ndarray) -> int:
    """Test groups on the first example, if it is one of the sample; return how many come before the next one."""
    evidence = trainer.evidence
    if evidence is None or not evidence.takes_part:
        return len(order)
    evidence.look_at(trainer, *examples[order[0]])
    n = 1
    while n < len(order) and evidence.skip():
        n += 1
    return n


def _learn(trainer: OnlineTrainer, rows: Rows, order: np.ndarray) -> Step:
    """Learn some examples in rounds."""
    group_state, schedule, average, method = trainer.group_state, trainer.schedule, trainer.average, trainer.method
    chosen, n, t = rows.chosen[order], len(order), trainer.round - trainer.began + 1
    gold, weights = rows.gold[chosen], np.ones(n) if rows.weights is None else rows.weights[order]
    presented = np.cumsum(np.append(trainer.presented, weights))[1:]
    lambdas = [trainer.lambda_(total) for total in presented.tolist()] if callable(trainer.lambda_) else trainer.lambda_
    rounds = jit.Rounds(
        chosen,
        gold.astype(np.float64),
        weights,
        np.array([_rate_or_factor(schedule, i) for i in range(t, t + n)]),
        (weights if method.forgets else presented) * lambdas,
        np.zeros(n) if average is None else np.array([average.weight(i) for i in range(t, t + n)]),
    )
    state, losses, unary = np.zeros(jit.N_STATE), np.empty(n), trainer.structure.zeros(n).unary
    state[jit.PENDING], state[jit.TOTAL_WEIGHT] = group_state.pending_weight, group_state.total_weight
    state[jit.SHRINKAGE] = trainer.shrinkage
    own_sums = SUMS.get(type(schedule), [])
    state[own_sums] = schedule.state()[-len(own_sums) :] if own_sums else []
    hedged = NO_HEDGE
    if isinstance(method, OutOfSampleWeights):
        hedged, state[jit.GAP] = jit.Weights(*method.arrays()), method.gap
    arrays = _arrays_of(trainer, rows.tokens, chosen)
    learned = jit.learn(rounds, *arrays, _rules_of(trainer), hedged, method.learning, state, losses, unary)
    trainer.go_on(trainer.round + min(learned + 1, n), presented[min(learned, n - 1)])
    trainer.shrinkage = float(state[jit.SHRINKAGE])
    group_state.pending_weight, group_state.total_weight = float(state[jit.PENDING]), float(state[jit.TOTAL_WEIGHT])
    if own_sums:
        schedule.load_state([*schedule.state()[: -len(own_sums)], *state[own_sums].tolist()])
    if isinstance(method, OutOfSampleWeights):
        method.gap = float(state[jit.GAP])
    if learned < n:
        raise trainer.divergence(float(losses[learned]))
    trainer.upkeep()
    rate, square_gradient = float(state[jit.RATE]), float(state[jit.SQUARE_GRADIENT])
    gold = gold if n > 1 else gold[0]
    return Step(losses, trainer.norms, rate, square_gradient, UnaryPotentials(unary), gold, n, weights)


def fastest_pass(trainer: OnlineTrainer, examples: Any, room: Callable[[], int] = lambda: AT_A_TIME) -> Any:
    """Return a compiled pass over examples, if all parts of the trainer are known to one; else None.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : sequence of Example
    room : callable
        See :class:`CompiledPass`.
    """
    rows = getattr(examples, "rows", None)
    if rows is None or rows() is None or not is_compilable(trainer):
        return None
    return CompiledPass(room)


def _rate_or_factor(schedule: Any, t: int) -> float:
    """Return the rate of round t, or the factor of an adaptive schedule."""
    if type(schedule) is DistanceOverGradients:
        return 1.0
    return schedule.share_left(t) if schedule.adaptive else schedule(t)


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
        *SCALE_RANGE,
    )


def _arrays_of(trainer: OnlineTrainer, tokens: Tokens, chosen: np.ndarray) -> tuple:
    """Return the arrays of the banks, empty ones for banks that a model does not have, and of the group state."""
    state, features = trainer.group_state, tokens.features or NO_FEATURES
    explicit = jit.Explicit(features, NO_TABLE, NO_TABLE, *[NO_INTEGERS] * 3)
    mapped = jit.Mapped(NO_TABLE, NO_PLACES, NO_TABLE, NO_TABLE, np.empty((0, 0), dtype=np.bool_))
    intercept = np.empty((0, 0, 0)), np.empty((0, 0, 0))
    own = [(NO_STEP, NOTHING)] * 3
    for bank in trainer.banks:
        step = bank.group_state.step, bank.group_state.scales
        if isinstance(bank, ExplicitBank):
            explicit, own[0] = jit.Explicit(features, *bank.arrays()), step
        elif isinstance(bank, FeatureMapBank):
            mapped, own[1] = jit.Mapped(bank.features_of(tokens, chosen), *bank.arrays()), step
        else:
            intercept, own[2] = bank.arrays(), step
    left_out = state.left_out
    whole = state.rates, state.averages, state.bases, state.square_norms, state.square_gradients
    groups = jit.Groups(state.rescaled, *whole, left_out[: trainer.n_penalized], left_out, *own)
    return explicit, mapped, intercept, groups
