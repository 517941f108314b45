"""Rounds of Algorithm 1 on sequences of tokens, many in one call.

The functions of the banks, the group state, Hedge and the proximity operators are those that the trainer calls. Only
:data:`learn` is cached, with a stamp of their files.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled, stamp_of
from omkl.groups import _jit_banks, _jit_group_state, _jit_tables
from omkl.groups import _jit_group_state as jit
from omkl.groups._jit_banks import add_average, add_potentials, add_reference, apply_events, slopes_of, step_along
from omkl.groups.expansions import _jit_budget, _jit_kernel
from omkl.losses import _jit_labels, _jit_losses
from omkl.losses._jit_labels import loss_of
from omkl.online import _jit_evidence
from omkl.online._jit_evidence import add_slopes, is_sampled
from omkl.online.drift import _jit_drift
from omkl.online.drift._jit_drift import compare, is_due
from omkl.regularizers import _jit_prox
from omkl.regularizers._jit_prox import LINEAR_QUADRATIC, NO_PROX, prox_jointly
from omkl.structures import _jit_chain
from omkl.structures._jit_chain import BINARY, total_cost, viterbi

#: Methods.
FORWARD_BACKWARD, DUAL_AVERAGING, HEDGE = 0, 1, 2
#: Schedules: rates that are known, and those that follow from gradients.
KNOWN, DISTANCE_OVER_GRADIENTS, MEAN_POLYAK = 0, 1, 2
#: Models of which a round takes the loss: for evidence, for the test for drift, and to learn.
WITHOUT_GROUPS, AVERAGED, CURRENT = range(3)
#: Numbers that change from round to round.
PENDING, TOTAL_WEIGHT, SHRINKAGE, DISTANCE, LOSSES, SQUARES, LARGEST, GAP, RATE, SQUARE_GRADIENT = range(10)
#: Number of rounds before these, and whether the stream has changed.
ROUND, CHANGED, N_STATE = range(10, 13)
#: See ``omkl.online.schedules``.
LEAST_SHARE = 0.1


class Rounds(NamedTuple):
    """Numbers of each round: first token, weight, rate or factor of it, ``W lambda``, average.

    The tokens of round i are ``ends[i] .. ends[i + 1]`` of those of all rounds, which have gold codes or numbers; the
    other is None.
    """

    lows: np.ndarray
    ends: np.ndarray
    codes: np.ndarray | None
    numbers: np.ndarray | None
    weights: np.ndarray
    rates: np.ndarray
    shrinkage: np.ndarray
    averages: np.ndarray


class Scratch(NamedTuple):
    """Working memory for one round: potentials, their gradient, its sum over tokens, labels, norms, slopes, factors.

    What belongs to pairs of labels is None without a chain.
    """

    unary: np.ndarray
    pairwise: np.ndarray | None
    gradient: np.ndarray
    pair_gradient: np.ndarray | None
    total: np.ndarray
    labels: np.ndarray
    norms: np.ndarray
    before: np.ndarray
    square_norms: np.ndarray
    slopes: np.ndarray
    totals: np.ndarray
    factors: np.ndarray


class Rules(NamedTuple):
    """Integer kinds and parameters of the loss, the method, the schedule and the proximity operator."""

    structure: int
    loss: int
    loss_parameter: float
    costs: np.ndarray
    method: int
    schedule: int
    eta0: float
    prox: int
    prox_parameters: tuple
    prox_weights: np.ndarray
    radius: float
    #: Bounds of the scales of groups.
    allowed: tuple


class Weights(NamedTuple):
    """Arrays of the weights that Hedge learns."""

    weights: np.ndarray
    cumulative: np.ndarray
    sums: np.ndarray
    factors: np.ndarray
    losses: np.ndarray


@borrowing
def rate_of(rules, state, factor, weight):
    """Return the rate of a round before its gradient is known."""
    if rules.schedule == KNOWN:
        return factor
    if state[SQUARES] == 0.0:
        return 1.0
    before = max(state[SQUARES], state[LARGEST] * weight**2)
    if rules.schedule == DISTANCE_OVER_GRADIENTS:
        return rules.eta0 * state[DISTANCE] / np.sqrt(before)
    return rules.eta0 * state[LOSSES] / before * factor


@borrowing
def observe(rules, state, loss, square_gradient, weight, rate):
    """Take the gradient into an adaptive schedule; return the rate, which the first gradient sets."""
    if rules.schedule == DISTANCE_OVER_GRADIENTS:
        square_gradient = max(square_gradient, 0.0)
    first = state[SQUARES] == 0.0 and square_gradient > 0.0
    state[SQUARES] += square_gradient
    state[LARGEST] = max(state[LARGEST], square_gradient / weight**2)
    if rules.schedule == MEAN_POLYAK:
        state[LOSSES] += loss if loss > 0.0 or not first else 1.0
        return rules.eta0 * state[LOSSES] / square_gradient if first else rate
    if not first:
        return rate
    rate = (loss if loss > 0.0 else 1.0) / square_gradient
    state[DISTANCE] = max(state[DISTANCE], LEAST_SHARE * rate * np.sqrt(square_gradient))
    return rate


@borrowing
def square_of_gradient(before, arrays, hedged, rules, state, left_out, weight, learning):
    """Return the squared norm of the gradient of a step; Hedge plays a round."""
    square = 0.0
    if rules.method != HEDGE:
        for k in range(len(left_out)):
            if not left_out[k]:
                square += arrays.square_gradients[k]
        return square
    if learning:
        parts = arrays.square_norms, arrays.square_gradients, arrays.rates, arrays.bases
        jit.losses_of_parts(before, *parts, weight, hedged.losses)
        state[GAP] = jit.hedge(hedged.weights, hedged.cumulative, hedged.losses, state[GAP])
    for k in range(len(left_out)):
        square += hedged.factors[k] * arrays.square_gradients[k]
    return square


@borrowing
def begin(groups, hedged, rules, state, rate, weight):
    """Open a round: count the last model into the average, and set rates and bases."""
    scales, empty, pending = groups.rescaled.scales, groups.rescaled.empty, state[PENDING]
    if rules.method == HEDGE:
        for k in range(len(hedged.weights)):
            hedged.sums[k] += pending * hedged.weights[k]
        jit.begin_hedge(
            scales, hedged.factors, empty, groups.averages, pending, rate * weight, groups.bases, groups.rates
        )
    elif rules.method == FORWARD_BACKWARD:
        jit.begin_forward_backward(scales, empty, groups.averages, pending, rate * weight, groups.bases, groups.rates)
    else:
        jit.begin_dual_averaging(scales, groups.averages, pending, weight, rate, groups.bases, groups.rates)


@borrowing
def shrink(step, groups, hedged, rules, scratch):
    """Write the norms of the regularized groups after the proximal step."""
    (first, second), norms, before = rules.prox_parameters, scratch.norms, scratch.before
    for k in range(len(norms)):
        norms[k] = 0.0 if groups.left_out[k] else before[k]
        if rules.method == HEDGE:
            hedged.factors[k] = hedged.weights[k]
            norms[k] = hedged.weights[k] * norms[k] / (1.0 + step)
        elif rules.prox == LINEAR_QUADRATIC:
            norms[k] = max(norms[k] - step * first, 0.0) / (1.0 + step * second)
    if rules.method != HEDGE and rules.prox not in (NO_PROX, LINEAR_QUADRATIC):
        prox_jointly(norms, step, rules.prox, first, rules.prox_weights, scratch.slopes, scratch.factors)


@borrowing
def cost_of(rules, codes, numbers, first, last, unary, pairwise, labels):
    """Return the cost of the prediction before a round."""
    if numbers is not None:
        return (numbers[first] - unary[0, 0]) ** 2
    if codes is None:
        return 0.0
    gold = codes[first:last]
    if pairwise is None and rules.structure == BINARY:
        return 1.0 if (unary[0, 0] > 0.0) != (gold[0] == 1) else 0.0
    viterbi(unary, pairwise, rules.costs, gold, 0.0, labels)
    return total_cost(rules.costs, gold, labels)


@borrowing
def add_evidence(rounds, i, banks, groups, rules, hedged, evidence, scratch, gradient):
    """Add the evidence of an example for each regularized group; see :meth:`omkl.online.evidence.Evidence.look_at`."""
    low, first, last = rounds.lows[i], rounds.ends[i], rounds.ends[i + 1]
    slopes, totals = scratch.slopes, scratch.totals
    slopes_of(banks, groups, low, first, last, gradient, scratch.pair_gradient, slopes, totals)
    for k in range(len(slopes)):
        scale = groups.rescaled.scales[k]
        if rules.method == HEDGE:
            scale = scale / hedged.factors[k] if hedged.factors[k] > 0.0 else 0.0
        slopes[k] *= scale
        for j in range(totals.shape[1]):
            totals[k, j] *= scale
    add_slopes(evidence, slopes, totals, gradient, rounds.weights[i])


def _learn(stamp):
    def learn(rounds, banks, groups, rules, tests, hedged, evidence, drift, flags, state, losses, costs, scratch):
        """Learn from sequences in rounds; return how many, up to a change of the stream or a loss that is not finite.

        Parameters
        ----------
        rounds : Rounds
        banks : Banks
        groups : Groups
        rules : Rules
        tests : Rules
            With the loss by which groups are tested.
        hedged : Weights
        evidence : EvidenceArrays
        drift : array or None
            Numbers of the test for drift; None without it.
        flags : tuple of bool
            Whether to test groups and for drift on these examples, whether Hedge learns from them, and whether to
            predict each output before it is learned.
        state : array of shape (N_STATE,)
        losses : array of shape (n,)
            Set to the weighted losses.
        costs : array of shape (n,)
            Set to the costs of the predictions.
        scratch : Scratch
            For the longest sequence.
        """
        stamp  # noqa: B018 - for the cache, see stamp_of
        arrays, pairwise, pair_gradient = groups.rescaled, scratch.pairwise, scratch.pair_gradient
        norms, before, square_norms = scratch.norms, scratch.before, scratch.square_norms
        examining, watching, learning, testing = flags
        for i in range(len(rounds.lows)):
            low, first, last, weight = rounds.lows[i], rounds.ends[i], rounds.ends[i + 1], rounds.weights[i]
            unary, gradient = scratch.unary[: last - first], scratch.gradient[: last - first]
            labels = scratch.labels[: last - first]
            compared, average_loss, rate = watching and is_due(drift, state[ROUND] + i), 0.0, 0.0
            loss, moves = 0.0, i < 0  # no constant, for which Numba would compile what follows once more
            # up to three models in one loop, since each further call of the loss takes seconds to compile
            for model in range(3):
                own = rules
                if model == WITHOUT_GROUPS:
                    if not (examining and is_sampled(evidence.counts)):
                        continue
                    add_reference(banks, groups, unary, pairwise)
                    own = tests
                elif model == AVERAGED:
                    if drift is None:
                        continue
                    if not compared:
                        continue
                    pending, total = state[PENDING], state[TOTAL_WEIGHT]
                    add_average(banks, groups, pending, total, scratch.factors, low, first, last, unary, pairwise)
                else:
                    rate = rate_of(rules, state, rounds.rates[i], weight)
                    for k in range(len(square_norms)):
                        square_norms[k] = arrays.square_norms[k]
                    begin(groups, hedged, rules, state, rate, weight)
                    add_potentials(banks, groups, low, first, last, unary, pairwise)
                outputs = rounds.codes, rounds.numbers, first, last, unary, pairwise
                if testing and model == CURRENT:
                    costs[i] = cost_of(rules, *outputs, labels)
                loss, moves = loss_of(own, *outputs, gradient, pair_gradient, labels)
                if model == WITHOUT_GROUPS and moves:
                    add_evidence(rounds, i, banks, groups, rules, hedged, evidence, scratch, gradient)
                elif model == AVERAGED:
                    average_loss = loss
            losses[i] = weight * loss
            if not np.isfinite(loss):
                return i
            if compared and compare(drift, average_loss, loss, state[ROUND] + i, state[LOSSES], state[SQUARES]):
                state[CHANGED] = 1.0
            square_gradient = 0.0
            if moves:
                step_along(banks, groups, low, first, last, gradient, pair_gradient, scratch.total)
                square_gradient = weight**2 * square_of_gradient(
                    square_norms, groups, hedged, rules, state, groups.all_left_out, weight, learning
                )
                if rules.schedule != KNOWN:
                    adapted = observe(rules, state, weight * loss, square_gradient, weight, rate)
                    if adapted != rate:
                        for k in range(len(groups.bases)):
                            groups.bases[k] *= adapted / rate
                        rate = adapted
            step = rate * rounds.shrinkage[i]
            state[SHRINKAGE] += step
            jit.measure(groups.bases, groups.square_norms, before)
            shrink(step, groups, hedged, rules, scratch)
            events, distance = jit.rescale(
                arrays, before, norms, rules.radius, rules.method != DUAL_AVERAGING, *rules.allowed
            )
            if rules.schedule == DISTANCE_OVER_GRADIENTS:
                if rules.method == HEDGE:
                    distance = jit.hedge_distance(norms, distance, hedged.weights)
                if distance > state[DISTANCE]:
                    reached = state[DISTANCE] + rate * np.sqrt(max(square_gradient, 0.0))
                    state[DISTANCE] = min(distance, reached)
            if events:
                apply_events(banks, groups, rules.allowed, low, first, gradient, moves)
            state[PENDING] = weight * rounds.averages[i]
            state[TOTAL_WEIGHT] += state[PENDING]
            state[RATE], state[SQUARE_GRADIENT] = rate, square_gradient
            if state[CHANGED]:
                return i + 1
        return len(rounds.lows)

    return compiled(learn, counting=False)


learn = _learn(
    stamp_of(_jit_banks, _jit_budget, _jit_group_state, _jit_kernel, _jit_tables)
    + stamp_of(_jit_chain, _jit_drift, _jit_evidence, _jit_labels, _jit_losses, _jit_prox)
)
