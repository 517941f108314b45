"""Rounds of Algorithm 1 in compiled calls, whose parts are called through pointers.

:meth:`omkl.online.OnlineTrainer.update` is the definition of a round; it calls the same functions
in the same order.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from omkl import signatures
from omkl._compilation import borrowing, compiled
from omkl._pointers import (
    ADDRESS,
    CUBE,
    FLAG,
    FLOAT,
    INTEGER,
    INTEGERS,
    MATRIX,
    VECTOR,
    Layout,
    Signature,
    flat,
)
from omkl.groups._jit_group_state import groups_at, measure, rescale
from omkl.losses._jit_structured import clear
from omkl.online._jit_schedules import LOSSES, SQUARES
from omkl.structures._jit_labels import cost, decode

#: Models of which an examining part takes the loss.
WITHOUT_GROUPS, AVERAGED = 0, 1
#: Numbers that change from round to round: share of the last model in the average and the weight of
#: all models, sum of proximal steps, rate and squared gradient of the last round, number of rounds
#: before, and whether the stream changed.
PENDING, TOTAL_WEIGHT, SHRINKAGE, RATE, SQUARE_GRADIENT, ROUND, CHANGED = range(7)
#: Numbers of rounds of the call that have begun, and that are complete: they differ after an error
#: in a round.
BEGUN, LEARNED, N_STATE = range(7, 10)


class BankParts(NamedTuple):
    """Addresses of a bank's arrays, input in these rounds and functions; range of its groups."""

    arrays: int
    inputs: int
    #: Whether the inputs are all tokens of the block, not only those of the rounds.
    covers_all: int
    #: Whether the tokens are edges of graphs.
    of_edges: int
    first: int
    end: int
    is_penalized: int
    scores: int
    average: int
    step: int
    fold: int
    slopes: int


class StepParts(NamedTuple):
    """A proximal step; see :class:`omkl.regularizers.base.ProximalStep`."""

    prox: int
    parameters: np.ndarray
    factor: float
    quadratic: float


class ExaminerParts(NamedTuple):
    """A part that examines examples.

    There are the address of its arrays, the model that it looks at, and its functions.
    """

    arrays: int
    model: int
    is_due: int
    look: int
    compare: int


class LossParts(NamedTuple):
    """Address of a loss, and its parameters; whether it is one of numbers."""

    function: int
    parameters: np.ndarray
    takes_numbers: int


class Model(NamedTuple):
    """All parts of a model, as addresses of their blocks and functions.

    ``state`` has the numbers that change.
    """

    banks: np.ndarray
    steps: np.ndarray
    examiners: np.ndarray
    #: Addresses of the phases of a round.
    phases: np.ndarray
    #: Loss of the example of each examiner in the model that it looks at; nan if it did not look.
    examined: np.ndarray
    groups: int
    n_penalized: int
    loss: int
    #: Loss that examiners take of a model without groups.
    reference_loss: int
    method: int
    begin: int
    square: int
    shrink: int
    distance: int
    part_scales: int
    forgets: int
    schedule: np.ndarray
    rate: int
    observe: int
    reach: int
    radius: float
    state: np.ndarray


class Rounds(NamedTuple):
    """Numbers of each round, and of each token.

    The tokens of round i are ``ends[i] .. ends[i + 1]`` of those of all rounds, and begin at token
    ``lows[i]`` of the block. They have gold ``codes``, or ``targets`` of a loss of numbers.
    """

    n_rounds: int
    lows: np.ndarray
    ends: np.ndarray
    #: The same of the edges of graphs.
    edge_lows: np.ndarray
    edge_ends: np.ndarray
    #: Address of the structure for the layout of each example, and number E of its tables of pairs.
    structures: np.ndarray
    n_pairs: np.ndarray
    codes: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    #: Rates, or factors of adaptive rates; weights of lambda in the proximal steps; weights of the
    #: average.
    rates: np.ndarray
    shrinkage: np.ndarray
    averages: np.ndarray
    #: Set to the weighted losses, and, if ``testing``, to the costs of the predictions before each
    #: round.
    losses: np.ndarray
    costs: np.ndarray
    testing: int
    #: Whether outputs are numbers, not codes of labels.
    takes_numbers: int


class Scratch(NamedTuple):
    """Working memory for one round.

    There are potentials, their gradient and labels of n tokens; norms, and two rows for proximity
    operators; factors of all groups; scales, slopes and total potentials of regularized groups.
    """

    unary: np.ndarray
    pairwise: np.ndarray
    gradient: np.ndarray
    pair_gradient: np.ndarray
    labels: np.ndarray
    norms: np.ndarray
    memory: np.ndarray
    factors: np.ndarray
    scales: np.ndarray
    slopes: np.ndarray
    totals: np.ndarray


BANK = Layout(BankParts)
STEP = Layout(StepParts)
EXAMINER = Layout(ExaminerParts)
LOSS = Layout(LossParts)
MODEL = Layout(Model, banks=INTEGERS, steps=INTEGERS, examiners=INTEGERS, phases=INTEGERS)
ROUNDS = Layout(
    Rounds,
    lows=INTEGERS,
    ends=INTEGERS,
    edge_lows=INTEGERS,
    edge_ends=INTEGERS,
    structures=INTEGERS,
    n_pairs=INTEGERS,
    codes=INTEGERS,
)
SCRATCH = Layout(
    Scratch,
    unary=MATRIX,
    pairwise=CUBE,
    gradient=MATRIX,
    pair_gradient=CUBE,
    labels=INTEGERS,
    memory=MATRIX,
    totals=MATRIX,
)
bank_at, step_at, examiner_at, loss_at = BANK.at, STEP.at, EXAMINER.at, LOSS.at
model_at, rounds_at, scratch_at = MODEL.at, ROUNDS.at, SCRATCH.at

add_scores = signatures.SCORES.call
add_average = signatures.AVERAGE.call
step_bank = signatures.STEP.call
fold_bank = signatures.FOLD.call
add_slopes = signatures.SLOPES.call
loss_of_number = signatures.LOSS_OF_NUMBER.call
loss_of_labels = signatures.LOSS_OF_LABELS.call
take_proximal_step = signatures.PROX.call
rate_of = signatures.RATE.call
observe_gradient = signatures.OBSERVE.call
reach_distance = signatures.REACH.call
begin_round = signatures.BEGIN.call
square_of_gradient = signatures.SQUARE.call
shrink_norms = signatures.SHRINK.call
distance_of = signatures.DISTANCE.call
scales_of_parts = signatures.PART_SCALES.call
is_due = signatures.IS_DUE.call
look_at = signatures.LOOK.call
compare_losses = signatures.COMPARE.call

#: Phases of a round that are compiled on their own, and called through pointers: what is linked
#: into a caller is optimized once more.
EXAMINE, AVERAGE, COMPARE, COST, MEASURE, RESCALE, EVENTS, N_PHASES = range(8)
_EXAMPLE = {"model": ADDRESS, "rounds": ADDRESS, "i": INTEGER, "scratch": ADDRESS}
_EXAMINE = Signature("examine", signatures.NOTHING, **_EXAMPLE)
_AVERAGE = Signature("averaged potentials", signatures.NOTHING, **_EXAMPLE)
_COMPARE = Signature(
    "compare with examined", signatures.NOTHING, model=ADDRESS, i=INTEGER, loss=FLOAT
)
_COST = Signature("cost of a round", FLOAT, **_EXAMPLE)
_MEASURE = Signature("measure", signatures.NOTHING, groups=ADDRESS)
_RESCALE = Signature(
    "rescale", types.Tuple([FLAG, FLOAT]), groups=ADDRESS, after=VECTOR, radius=FLOAT, forgets=FLAG
)
_EVENTS = Signature("events", signatures.NOTHING, **_EXAMPLE, moves=FLAG)
call_examine, call_average = _EXAMINE.call, _AVERAGE.call
call_compare, call_cost = _COMPARE.call, _COST.call
measure_norms, rescale_groups, call_events = _MEASURE.call, _RESCALE.call, _EVENTS.call


@borrowing
def place_of(bank, rounds, i):
    """Return the place of the first token (or edge) of round i in the inputs of a bank."""
    if bank.of_edges:
        return rounds.edge_lows[i] if bank.covers_all else rounds.edge_ends[i]
    return rounds.lows[i] if bank.covers_all else rounds.ends[i]


@borrowing
def is_nonzero(array):
    """Return whether an entry is not zero."""
    entries = flat(array)
    for entry in entries:  # noqa: SIM110 - Numba compiles no generator
        if entry != 0.0:
            return True
    return False


@borrowing
def add_potentials(banks, rounds_address, i, penalized, unary, pairwise):
    """Write the potentials of the current model to ``unary`` (n, K) and ``pairwise`` (E, K, K).

    Those of its regularized groups are left out unless ``penalized``.
    """
    rounds = rounds_at(rounds_address)
    clear(unary)
    clear(pairwise)
    for address in banks:
        bank = bank_at(address)
        if penalized or not bank.is_penalized:
            add_scores(
                bank.scores, (bank.arrays, bank.inputs, place_of(bank, rounds, i), unary, pairwise)
            )


@borrowing
def evaluate(loss_address, rounds_address, i, scratch_address, unary, gradient):
    """Return the loss of an example; write its gradient to ``gradient`` and the scratch.

    Potentials are ``unary`` (n, K), and those of pairs in the scratch.
    """
    loss = loss_at(loss_address)
    rounds = rounds_at(rounds_address)
    first, last = rounds.ends[i], rounds.ends[i + 1]
    if loss.takes_numbers:
        value, slope = loss_of_number(
            loss.function, (rounds.targets[first], unary[0, 0], loss.parameters)
        )
        gradient[0, 0] = slope
        return value
    scratch = scratch_at(scratch_address)
    gold = rounds.codes[first:last]
    n_pairs = rounds.n_pairs[i]
    pairs, pair_gradient = scratch.pairwise[:n_pairs], scratch.pair_gradient[:n_pairs]
    structure = rounds.structures[i]
    arguments = (structure, unary, pairs, gold, loss.parameters, gradient, pair_gradient)
    return loss_of_labels(loss.function, arguments)


@compiled(counting=False)
def cost_of(model_address, rounds_address, i, scratch_address):
    """Return the cost of the prediction of a round, for the potentials in the scratch."""
    rounds = rounds_at(rounds_address)
    scratch = scratch_at(scratch_address)
    structure = rounds.structures[i]
    first, last = rounds.ends[i], rounds.ends[i + 1]
    unary = scratch.unary[: last - first]
    if rounds.takes_numbers:
        difference = rounds.targets[first] - unary[0, 0]
        return difference * difference
    labels = scratch.labels[: last - first]
    gold = rounds.codes[first:last]
    decode(structure, unary, scratch.pairwise[: rounds.n_pairs[i]], gold, 0.0, labels)
    return cost(structure, gold, labels)


@borrowing
def measure_slopes(model_address, rounds_address, i, scratch_address, gradient):
    """Write slopes of the loss along each group's part of the model, and its total potentials.

    Writes to ``slopes`` (p,) and ``totals`` (p, K) of the scratch. The ``gradient`` (n, K) and that
    of pairs, in the scratch, are given.
    """
    model = model_at(model_address)
    rounds = rounds_at(rounds_address)
    scratch = scratch_at(scratch_address)
    slopes, totals = scratch.slopes, scratch.totals
    pair_gradient = scratch.pair_gradient[: rounds.n_pairs[i]]
    clear(slopes)
    clear(totals)
    for address in model.banks:
        bank = bank_at(address)
        if bank.is_penalized:
            place = place_of(bank, rounds, i)
            slopes_of_bank = slopes[bank.first : bank.end]
            totals_of_bank = totals[bank.first : bank.end]
            example = (bank.arrays, bank.inputs, place, gradient, pair_gradient)
            add_slopes(bank.slopes, (*example, slopes_of_bank, totals_of_bank))
    scales_of_parts(model.part_scales, (model.method, model.groups, scratch.scales))
    for k in range(len(slopes)):
        slopes[k] *= scratch.scales[k]
        for j in range(totals.shape[1]):
            totals[k, j] *= scratch.scales[k]


@compiled(counting=False)
def examine(model_address, rounds_address, i, scratch_address):
    """Let the examining parts look at an example before it is learned."""
    model = model_at(model_address)
    rounds = rounds_at(rounds_address)
    scratch = scratch_at(scratch_address)
    n_tokens = rounds.ends[i + 1] - rounds.ends[i]
    unary, gradient = scratch.unary[:n_tokens], scratch.gradient[:n_tokens]
    n_pairs = rounds.n_pairs[i]
    pairwise, pair_gradient = scratch.pairwise[:n_pairs], scratch.pair_gradient[:n_pairs]
    for position in range(len(model.examiners)):
        examiner = examiner_at(model.examiners[position])
        model.examined[position] = np.nan
        if not is_due(examiner.is_due, (examiner.arrays, int(model.state[ROUND]) + i)):
            continue
        loss = model.loss
        if examiner.model == AVERAGED:
            call_average(model.phases[AVERAGE], (model_address, rounds_address, i, scratch_address))
        else:
            add_potentials(model.banks, rounds_address, i, False, unary, pairwise)
            loss = model.reference_loss
        value = evaluate(loss, rounds_address, i, scratch_address, unary, gradient)
        model.examined[position] = value
        if examiner.look and (is_nonzero(gradient) or is_nonzero(pair_gradient)):
            measure_slopes(model_address, rounds_address, i, scratch_address, gradient)
            arguments = (
                examiner.arrays,
                rounds.weights[i],
                scratch.slopes,
                scratch.totals,
                gradient,
            )
            look_at(examiner.look, arguments)


@compiled(counting=False)
def add_averaged_potentials(model_address, rounds_address, i, scratch_address):
    """Compute the potentials of the averaged model in the scratch."""
    model = model_at(model_address)
    rounds = rounds_at(rounds_address)
    scratch = scratch_at(scratch_address)
    groups = groups_at(model.groups)
    total = model.state[TOTAL_WEIGHT]
    factors = scratch.factors
    unary = scratch.unary[: rounds.ends[i + 1] - rounds.ends[i]]
    for k in range(len(factors)):
        factors[k] = groups.scales[k]
        if total > 0.0:
            factors[k] = groups.averages[k] + model.state[PENDING] * factors[k]
    pairwise = scratch.pairwise[: rounds.n_pairs[i]]
    clear(unary)
    clear(pairwise)
    for address in model.banks:
        bank = bank_at(address)
        place = place_of(bank, rounds, i)
        factors_of_bank = factors[bank.first : bank.end]
        arguments = (
            bank.arrays,
            bank.inputs,
            place,
            factors_of_bank,
            total,
            unary,
            pairwise,
        )
        add_average(bank.average, arguments)


@compiled(counting=False)
def compare_with_examined(model_address, i, loss):
    """Tell the examining parts the loss of the current model.

    If one finds that the stream has changed, write that to the state.
    """
    model = model_at(model_address)
    for position in range(len(model.examiners)):
        examiner = examiner_at(model.examiners[position])
        examined = model.examined[position]
        if examiner.compare and not np.isnan(examined):
            before = int(model.state[ROUND]) + i
            losses, squares = model.schedule[LOSSES], model.schedule[SQUARES]
            arguments = (examiner.arrays, examined, loss, before, losses, squares)
            if compare_losses(examiner.compare, arguments):
                model.state[CHANGED] = 1.0


@borrowing
def adapt_rate(model_address, loss, square_gradient, weight, rate):
    """Take the gradient into the schedule; return the rate, which the very first gradient sets."""
    model = model_at(model_address)
    adapted = observe_gradient(
        model.observe, (model.schedule, weight * loss, square_gradient, weight, rate)
    )
    if adapted != rate:
        bases = groups_at(model.groups).bases
        change = adapted / rate
        for k in range(len(bases)):
            bases[k] *= change
    return adapted


@borrowing
def shrink(model_address, step, norms, memory):
    """Set the norms (p,) of the regularized groups to those after the proximal steps.

    ``memory`` (2, p) is working memory.
    """
    model = model_at(model_address)
    groups = groups_at(model.groups)
    for k in range(len(norms)):
        norms[k] = 0.0 if groups.left_out[k] else groups.before[k]
    shrink_norms(model.shrink, (model.method, norms, step))
    for address in model.steps:
        proximal = step_at(address)
        size = proximal.factor * (step / (1.0 + step * proximal.quadratic))
        take_proximal_step(proximal.prox, (norms, size, proximal.parameters, memory))


@compiled(counting=False)
def apply_events(model_address, rounds_address, i, scratch_address, moves):
    """Empty groups that have reached zero, and activate others.

    Scales out of the range of good precision are folded into parameters.
    """
    model = model_at(model_address)
    rounds = rounds_at(rounds_address)
    scratch = scratch_at(scratch_address)
    groups = groups_at(model.groups)
    gradient = scratch.gradient[: rounds.ends[i + 1] - rounds.ends[i]]
    pair_gradient = scratch.pair_gradient[: rounds.n_pairs[i]]
    for address in model.banks:
        bank = bank_at(address)
        has_activated = False
        for k in range(bank.first, bank.end):
            has_activated |= groups.activated[k]
            if groups.deactivated[k]:
                fold_bank(bank.fold, (bank.arrays, k - bank.first, 0.0))
                groups.averages[k] = 0.0
        if moves and has_activated:
            example = (bank.arrays, bank.inputs, place_of(bank, rounds, i))
            step_bank(bank.step, (*example, gradient, pair_gradient, True))
        for k in range(bank.first, bank.end):
            scale = groups.scales[k]
            if scale != 0.0 and (scale < groups.lowest_scale or scale > groups.highest_scale):
                groups.scales[k] = 1.0
                groups.square_norms[k] *= scale * scale
                fold_bank(bank.fold, (bank.arrays, k - bank.first, scale))
                groups.averages[k] = 0.0


@borrowing
def learn_example(model_address, rounds_address, i, scratch_address):
    """Make round i; return whether its loss is finite."""
    model = model_at(model_address)
    rounds = rounds_at(rounds_address)
    scratch = scratch_at(scratch_address)
    state, phases = model.state, model.phases
    weight = rounds.weights[i]
    n_tokens = rounds.ends[i + 1] - rounds.ends[i]
    unary, gradient = scratch.unary[:n_tokens], scratch.gradient[:n_tokens]
    n_pairs = rounds.n_pairs[i]
    pairwise, pair_gradient = scratch.pairwise[:n_pairs], scratch.pair_gradient[:n_pairs]
    example = (model_address, rounds_address, i, scratch_address)
    if len(model.examiners):
        call_examine(phases[EXAMINE], example)
    state[BEGUN] = i + 1
    rate = rate_of(model.rate, (model.schedule, rounds.rates[i], weight))
    begin_round(model.begin, (model.method, model.groups, state[PENDING], rate, weight))
    add_potentials(model.banks, rounds_address, i, True, unary, pairwise)
    if rounds.testing:
        rounds.costs[i] = call_cost(phases[COST], example)
    loss = evaluate(model.loss, rounds_address, i, scratch_address, unary, gradient)
    rounds.losses[i] = weight * loss
    if not np.isfinite(loss):
        return False
    if len(model.examiners):
        call_compare(phases[COMPARE], (model_address, i, loss))
    moves = is_nonzero(gradient) or is_nonzero(pair_gradient)
    square_gradient = 0.0
    if moves:
        for address in model.banks:
            bank = bank_at(address)
            place = place_of(bank, rounds, i)
            arguments = (bank.arrays, bank.inputs, place, gradient, pair_gradient, False)
            step_bank(bank.step, arguments)
        square = square_of_gradient(model.square, (model.method, model.groups, weight))
        square_gradient = weight * weight * square
        rate = adapt_rate(model_address, loss, square_gradient, weight, rate)
    step = rate * rounds.shrinkage[i]
    state[SHRINKAGE] += step
    measure_norms(phases[MEASURE], (model.groups,))
    shrink(model_address, step, scratch.norms, scratch.memory)
    radius, forgets = model.radius, model.forgets != 0
    has_events, norm = rescale_groups(
        phases[RESCALE], (model.groups, scratch.norms, radius, forgets)
    )
    distance = distance_of(model.distance, (model.method, scratch.norms, norm))
    length = rate * np.sqrt(max(square_gradient, 0.0))
    reach_distance(model.reach, (model.schedule, distance, length))
    if has_events:
        call_events(phases[EVENTS], (model_address, rounds_address, i, scratch_address, moves))
    state[PENDING] = weight * rounds.averages[i]
    state[TOTAL_WEIGHT] += state[PENDING]
    state[RATE] = rate
    state[SQUARE_GRADIENT] = square_gradient
    return True


@compiled(counting=False)
def learn(model_address, rounds_address, scratch_address):
    """Learn from examples in rounds, and count them in the state.

    A change of the stream, and a loss that is not finite, end the call.
    """
    state = model_at(model_address).state
    for i in range(rounds_at(rounds_address).n_rounds):
        if not learn_example(model_address, rounds_address, i, scratch_address):
            return
        state[LEARNED] = i + 1
        if state[CHANGED] != 0.0:
            return


def addresses_of_phases() -> np.ndarray:
    """Return the addresses of the phases of a round."""
    addresses = np.zeros(N_PHASES, dtype=np.int64)
    addresses[EXAMINE] = _EXAMINE.address_of(examine)
    addresses[AVERAGE] = _AVERAGE.address_of(add_averaged_potentials)
    addresses[COMPARE] = _COMPARE.address_of(compare_with_examined)
    addresses[COST] = _COST.address_of(cost_of)
    addresses[MEASURE] = _MEASURE.address_of(measure)
    addresses[RESCALE] = _RESCALE.address_of(rescale)
    addresses[EVENTS] = _EVENTS.address_of(apply_events)
    return addresses
