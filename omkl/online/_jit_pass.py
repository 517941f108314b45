"""Rounds of Algorithm 1 on single tokens, many in one call.

The functions of the banks, the group state, Hedge and the proximity operators are those that the trainer calls. Only
:data:`learn` is cached, with a stamp of their files.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import compiled, stamp_of, uncached
from omkl.groups import _jit_group_state, _jit_tables
from omkl.groups._jit_group_state import (
    begin_dual_averaging,
    begin_forward_backward,
    begin_hedge,
    hedge,
    losses_of_parts,
    measure,
    rescale,
)
from omkl.groups._jit_tables import (
    add_constants,
    add_mapped_scores,
    add_scores,
    scale_group,
    scale_map,
    step_dense,
    step_features,
    step_maps,
)
from omkl.regularizers import _jit_prox
from omkl.regularizers._jit_prox import prox_lq, prox_weighted_squared_l1, soft_threshold
from omkl.structures import _jit_chain
from omkl.structures._jit_chain import best_label, softmax

#: Structures.
BINARY, MULTICLASS, SCALAR = 0, 1, 2
#: Losses of labels, and of numbers.
HINGE, CRF, SOFTMAX_MARGIN, PERCEPTRON = 0, 1, 2, 3
SQUARED, HUBER, EPSILON_INSENSITIVE = 4, 5, 6
#: Methods.
FORWARD_BACKWARD, DUAL_AVERAGING, HEDGE = 0, 1, 2
#: Proximity operators on norms.
NO_PROX, LINEAR_QUADRATIC, SQUARED_L1, LQ = 0, 1, 2, 3
#: Schedules: rates that are known, and those that follow from gradients.
KNOWN, DISTANCE_OVER_GRADIENTS, MEAN_POLYAK = 0, 1, 2
#: Numbers that change from round to round.
PENDING, TOTAL_WEIGHT, SHRINKAGE, DISTANCE, LOSSES, SQUARES, LARGEST, GAP, RATE, SQUARE_GRADIENT, N_STATE = range(11)
#: See ``omkl.online.schedules``.
LEAST_SHARE = 0.1


class Explicit(NamedTuple):
    """Features of tokens as CSR, and the arrays of a table with a row of label weights a feature."""

    features: tuple
    table: np.ndarray
    sums: np.ndarray
    groups: np.ndarray
    links: np.ndarray
    heads: np.ndarray


class Mapped(NamedTuple):
    """Dense features of tokens, all groups side by side, and the arrays of a table with a row a label."""

    features: np.ndarray
    starts: np.ndarray
    table: np.ndarray
    sums: np.ndarray
    touched: np.ndarray


class Rounds(NamedTuple):
    """Numbers of each round: token, gold code or number, weight, rate or factor of it, ``W lambda``, average."""

    rows: np.ndarray
    gold: np.ndarray
    weights: np.ndarray
    rates: np.ndarray
    shrinkage: np.ndarray
    averages: np.ndarray


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
    low: float
    high: float


class Weights(NamedTuple):
    """Arrays of the weights that Hedge learns."""

    weights: np.ndarray
    cumulative: np.ndarray
    sums: np.ndarray
    factors: np.ndarray
    losses: np.ndarray


@uncached
def loss_of_label(scores, gold, rules, gradient):
    """Write the gradient of a loss of labels; return the value, and whether there is a gradient."""
    binary, kind, cost_weight = rules.structure == BINARY, rules.loss, rules.loss_parameter
    z = scores[0, 0]
    gradient[:] = 0.0
    if kind in (CRF, SOFTMAX_MARGIN):
        if binary:
            if kind == SOFTMAX_MARGIN:
                z += -cost_weight if gold == 1 else cost_weight
            half = abs(0.5 * z)
            log_partition, gold_score = half + np.log1p(np.exp(-2.0 * half)), (gold - 0.5) * z
            gradient[0, 0] = 0.5 * np.tanh(0.5 * z) - (gold - 0.5)
        else:
            augmented = scores.copy()
            if kind == SOFTMAX_MARGIN:
                for k in range(scores.shape[1]):
                    augmented[0, k] += cost_weight * rules.costs[gold, k]
            log_partition, gold_score = softmax(augmented, gradient), augmented[0, gold]
            gradient[0, gold] -= 1.0
        return max(log_partition - gold_score, 0.0), True
    if kind == PERCEPTRON:
        cost_weight = 0.0
    if binary:
        predicted = 1 if z > 0.0 else 0
        if kind == HINGE:
            predicted = gold if (z if gold == 1 else -z) >= cost_weight else 1 - gold
        gradient[0, 0] = predicted - gold
        value = (predicted - gold) * z + (cost_weight if predicted != gold else 0.0)
    else:
        predicted = best_label(scores[0], rules.costs, gold, cost_weight)
        value = scores[0, predicted] - scores[0, gold] + cost_weight * rules.costs[gold, predicted]
        if predicted != gold:
            gradient[0, predicted], gradient[0, gold] = 1.0, -1.0
    if kind == PERCEPTRON:
        return max(value, 0.0), predicted != gold
    return (value, True) if not value <= 0.0 else (0.0, False)


@uncached
def loss_of_number(z, y, kind, parameter):
    """Return a loss of numbers, and its slope."""
    error = z - y
    size = abs(error)
    if kind == SQUARED or (kind == HUBER and size <= parameter):
        return 0.5 * error**2, error
    if kind == HUBER:
        return parameter * (size - 0.5 * parameter), parameter if error > 0.0 else -parameter
    if size > parameter:
        return size - parameter, 1.0 if error > 0.0 else -1.0
    return 0.0, 0.0


@uncached
def prox(norms, step, rules):
    """Return the norms after the proximal step."""
    first, second = rules.prox_parameters
    if rules.prox == LINEAR_QUADRATIC:
        shrunk = soft_threshold(norms, step * first) if first != 0.0 else norms
        return shrunk / (1.0 + step * second)
    if rules.prox == SQUARED_L1:
        return prox_weighted_squared_l1(norms, rules.prox_weights, step)
    if rules.prox == LQ:
        return prox_lq(norms, step, first)
    return norms.copy()


@uncached
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


@uncached
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


@uncached
def square_of_gradient(before, arrays, hedged, rules, state, left_out, weight, learning):
    """Return the squared norm of the gradient of a step; Hedge plays a round."""
    square = 0.0
    if rules.method != HEDGE:
        for k in range(len(left_out)):
            if not left_out[k]:
                square += arrays.square_gradients[k]
        return square
    if learning:
        losses_of_parts(
            before,
            arrays.square_norms,
            arrays.square_gradients,
            arrays.rates,
            arrays.bases,
            weight,
            hedged.losses,
        )
        state[GAP] = hedge(hedged.weights, hedged.cumulative, hedged.losses, state[GAP])
    for k in range(len(left_out)):
        square += hedged.factors[k] * arrays.square_gradients[k]
    return square


@uncached
def distance_of(norms, total, hedged, rules):
    """Return the distance of the model from the origin, as adaptive schedules measure it."""
    if rules.method != HEDGE:
        return total
    squares, value = 0.0, 0.0
    for k in range(len(norms)):
        squares += norms[k] ** 2
        if hedged.weights[k] > 0.0:
            value += 0.5 * norms[k] ** 2 / hedged.weights[k]
    return np.sqrt(max(total**2 - squares, 0.0) + 2.0 * value)


@uncached
def fold(k, factor, explicit, mapped, intercept, averages):
    """Multiply the direction of group k, after what it gave to the average is added to its sums."""
    n_explicit, n_mapped = len(explicit.heads), len(mapped.starts) - 1
    if k < n_explicit:
        scale_group(k, factor, explicit.table, explicit.sums, explicit.links, explicit.heads, averages[k])
    elif k < n_explicit + n_mapped:
        own = k - n_explicit
        scale_map(own, factor, mapped.starts, mapped.table, mapped.sums, mapped.touched, averages[k])
    else:
        table, sums = intercept
        if len(sums):
            for j in range(table.shape[2]):
                sums[0, 0, j] += averages[k] * table[0, 0, j]
        for j in range(table.shape[2]):
            table[0, 0, j] *= factor
    averages[k] = 0.0


class Groups(NamedTuple):
    """Arrays of the group state for all groups, and for those of each bank."""

    rescaled: tuple
    rates: np.ndarray
    averages: np.ndarray
    bases: np.ndarray
    square_norms: np.ndarray
    square_gradients: np.ndarray
    #: Of the regularized groups, and of all.
    left_out: np.ndarray
    all_left_out: np.ndarray
    #: StepArrays and scales of the groups of each bank.
    explicit: tuple
    mapped: tuple
    intercept: tuple


@uncached
def begin(groups, hedged, rules, state, rate, weight):
    """Open a round: count the last model into the average, and set rates and bases."""
    scales, empty, pending = groups.rescaled.scales, groups.rescaled.empty, state[PENDING]
    if rules.method == HEDGE:
        for k in range(len(hedged.weights)):
            hedged.sums[k] += pending * hedged.weights[k]
        begin_hedge(scales, hedged.factors, empty, groups.averages, pending, rate * weight, groups.bases, groups.rates)
    elif rules.method == FORWARD_BACKWARD:
        begin_forward_backward(scales, empty, groups.averages, pending, rate * weight, groups.bases, groups.rates)
    else:
        begin_dual_averaging(scales, groups.averages, pending, weight, rate, groups.bases, groups.rates)


@uncached
def shrink(before, step, groups, hedged, rules):
    """Take the proximal step; return the norms of the regularized groups."""
    norms = before[: len(groups.left_out)].copy()
    for k in range(len(norms)):
        if groups.left_out[k]:
            norms[k] = 0.0
    if rules.method != HEDGE:
        return prox(norms, step, rules)
    for k in range(len(norms)):
        hedged.factors[k] = hedged.weights[k]
        norms[k] = hedged.weights[k] * norms[k] / (1.0 + step)
    return norms


@uncached
def apply_events(explicit, mapped, intercept, groups, rules):
    """Empty groups that have reached zero, and fold scales that have left the range of good precision."""
    arrays = groups.rescaled
    for k in range(len(arrays.scales)):
        if arrays.deactivated[k]:
            fold(k, 0.0, explicit, mapped, intercept, groups.averages)
        scale = arrays.scales[k]
        if scale != 0.0 and (scale < rules.low or scale > rules.high):
            arrays.square_norms[k] *= scale**2
            arrays.scales[k] = 1.0
            fold(k, scale, explicit, mapped, intercept, groups.averages)


def _learn(stamp):
    def learn(rounds, explicit, mapped, intercept, groups, rules, hedged, learning, state, losses, potentials):
        """Learn from tokens in rounds; return how many, which are fewer only if a loss is not finite.

        Parameters
        ----------
        rounds : Rounds
        explicit, mapped : Explicit, Mapped
            Without groups where a model has no such bank.
        intercept : tuple of two arrays
            The table of the intercept and its running sums; of length 0 where there is none.
        groups : Groups
        rules : Rules
        hedged : Weights
        learning : bool
            Whether the examples are new to the model.
        state : array of shape (N_STATE,)
        losses : array of shape (n,)
            Set to the weighted losses.
        potentials : array of shape (n, K)
            Set to the potentials before each round.
        """
        stamp  # noqa: B018 - for the cache, see stamp_of
        arrays, n_outputs = groups.rescaled, potentials.shape[1]
        unary, gradient = np.zeros((1, n_outputs)), np.zeros((1, n_outputs))
        before, square_norms = np.empty(len(arrays.scales)), np.empty(len(arrays.scales))
        for i in range(len(rounds.rows)):
            row, weight = rounds.rows[i], rounds.weights[i]
            rate = rate_of(rules, state, rounds.rates[i], weight)
            square_norms[:] = arrays.square_norms
            begin(groups, hedged, rules, state, rate, weight)
            unary[:] = 0.0
            if len(explicit.heads):
                add_scores(explicit.features, row, row + 1, explicit.table, explicit.groups, groups.explicit[1], unary)
            if len(mapped.starts) > 1:
                add_mapped_scores(mapped.features[i : i + 1], mapped.starts, mapped.table, groups.mapped[1], unary)
            if len(intercept[0]):
                add_constants(intercept[0], groups.intercept[1][0], unary)
            potentials[i] = unary[0]
            if rules.structure == SCALAR:
                loss, slope = loss_of_number(unary[0, 0], rounds.gold[i], rules.loss, rules.loss_parameter)
                gradient[0, 0], moves = slope, slope != 0.0
            else:
                loss, moves = loss_of_label(unary, int(rounds.gold[i]), rules, gradient)
            if not np.isfinite(loss):
                losses[i] = loss
                return i
            losses[i], square_gradient = weight * loss, 0.0
            if moves:
                if len(explicit.heads):
                    step_features(
                        explicit.features,
                        row,
                        gradient,
                        explicit.table,
                        explicit.sums,
                        explicit.groups,
                        explicit.links,
                        explicit.heads,
                        groups.explicit[0],
                    )
                if len(mapped.starts) > 1:
                    step_maps(
                        mapped.features[i : i + 1],
                        mapped.starts,
                        gradient,
                        mapped.table,
                        mapped.sums,
                        mapped.touched,
                        groups.mapped[0],
                    )
                if len(intercept[0]):
                    step_dense(gradient.reshape((1, 1, n_outputs)), intercept[0], intercept[1], groups.intercept[0])
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
            measure(groups.bases, groups.square_norms, before)
            norms = shrink(before, step, groups, hedged, rules)
            events, distance = rescale(
                arrays, before, norms, rules.radius, rules.method != DUAL_AVERAGING, rules.low, rules.high
            )
            if rules.schedule == DISTANCE_OVER_GRADIENTS:
                distance = distance_of(norms, distance, hedged, rules)
                if distance > state[DISTANCE]:
                    reached = state[DISTANCE] + rate * np.sqrt(max(square_gradient, 0.0))
                    state[DISTANCE] = min(distance, reached)
            if events:
                apply_events(explicit, mapped, intercept, groups, rules)
            state[PENDING] = weight * rounds.averages[i]
            state[TOTAL_WEIGHT] += state[PENDING]
            state[RATE], state[SQUARE_GRADIENT] = rate, square_gradient
        return len(rounds.rows)

    return compiled(learn)


learn = _learn(stamp_of(_jit_group_state, _jit_tables, _jit_prox, _jit_chain))
