"""O(p) arithmetic on scales, norms, averages and weights of groups, of any dimension."""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled
from omkl._pointers import FLAGS, Layout

#: Logarithm of the smallest ratio of two weights; a weight that underflows to 0 could not grow
#: again.
LOWEST = -40.0


class Groups(NamedTuple):
    """Arrays of the group state, (p,); see :class:`omkl.groups.GroupState`."""

    scales: np.ndarray
    averages: np.ndarray
    rates: np.ndarray
    bases: np.ndarray
    square_norms: np.ndarray
    square_gradients: np.ndarray
    total_shrinkage: np.ndarray
    #: Norms before the proximal step.
    before: np.ndarray
    empty: np.ndarray
    activated: np.ndarray
    deactivated: np.ndarray
    left_out: np.ndarray
    #: Scales are folded into ``v`` when they leave this range.
    lowest_scale: float
    highest_scale: float


class BankGroups(NamedTuple):
    """Arrays of the group state that a bank reads or sets, for its own groups."""

    scales: np.ndarray
    averages: np.ndarray
    rates: np.ndarray
    square_norms: np.ndarray
    square_gradients: np.ndarray
    empty: np.ndarray
    activated: np.ndarray
    left_out: np.ndarray


GROUPS = Layout(Groups, empty=FLAGS, activated=FLAGS, deactivated=FLAGS, left_out=FLAGS)
BANK_GROUPS = Layout(BankGroups, empty=FLAGS, activated=FLAGS, left_out=FLAGS)
groups_at = GROUPS.at
bank_groups_at = BANK_GROUPS.at


@borrowing
def fold_weights(weights, sums, average, factor):
    """Multiply the weights (n,) of a group, after adding their share of the average to its sums.

    ``sums`` is (n,), or (0,) without an average.
    """
    for i in range(weights.shape[0]):
        if sums.shape[0] > 0:
            sums[i] += average * weights[i]
        weights[i] *= factor


@compiled(counting=False)
def begin_forward_backward(method, address, pending, rate, weight):
    """Begin a round of forward-backward splitting: ``theta - rate g`` is ``v -= (rate / s) g``."""
    groups = groups_at(address)
    for k in range(len(groups.scales)):
        groups.averages[k] += pending * groups.scales[k]
        groups.bases[k] = 1.0 if groups.empty[k] else groups.scales[k]
        groups.rates[k] = rate * weight / groups.bases[k]


@compiled(counting=False)
def begin_dual_averaging(method, address, pending, rate, weight):
    """Begin a round of dual averaging: ``v`` is minus the sum of gradients, scales are set anew."""
    groups = groups_at(address)
    for k in range(len(groups.scales)):
        groups.averages[k] += pending * groups.scales[k]
        groups.bases[k] = rate
        groups.rates[k] = weight


@compiled(counting=False)
def square_of_gradient(method, address, weight):
    """Return the squared norm of the latest gradient, without groups that are left out."""
    groups = groups_at(address)
    square = 0.0
    for k in range(len(groups.left_out)):
        if not groups.left_out[k]:
            square += groups.square_gradients[k]
    return square


@compiled(counting=False)
def no_shrinkage(method, norms, step):
    """Leave the norms to the terms of the regularizer."""


@compiled(counting=False)
def norm_of_all(method, norms, norm):
    """Return the norm of all parameters, the distance of the model from the origin."""
    return norm


@compiled(counting=False)
def scales_of_groups(method, address, scales):
    """Write the scales of the groups: their directions are the parts of the model."""
    groups = groups_at(address)
    for k in range(len(scales)):
        scales[k] = groups.scales[k]


@compiled(counting=False)
def measure(address):
    """Set the norms ``b_k = base_k ||v_k||`` of the starting point of the proximal step."""
    groups = groups_at(address)
    for k in range(len(groups.before)):
        if groups.square_norms[k] < 0.0:
            groups.square_norms[k] = 0.0
        groups.before[k] = groups.bases[k] * np.sqrt(groups.square_norms[k])


@borrowing
def note_events(groups, k):
    """Set whether group k is empty, and has just left or reached zero; return if it has events."""
    groups.activated[k] = False
    groups.deactivated[k] = False
    scale = groups.scales[k]
    if scale == 0.0:
        groups.scales[k] = 0.0  # not -0.0
        groups.deactivated[k] = groups.square_norms[k] > 0.0
        groups.square_norms[k] = 0.0
        groups.empty[k] = True
        return groups.deactivated[k]
    groups.activated[k] = groups.empty[k]
    groups.empty[k] = False
    return groups.activated[k] or scale < groups.lowest_scale or scale > groups.highest_scale


@compiled(counting=False)
def rescale(address, after, radius, forgets):
    """Apply the proximal and projection steps; return whether banks have events, and the norm.

    The norm is that of the whole model. ``scale_k = base_k after_k / before_k``.
    Groups beyond ``len(after)`` are not penalised. If ``forgets`` (forward-backward splitting), a
    group that reaches zero becomes empty, a group that leaves zero is activated, and scales out of
    range are folded into ``v``.
    """
    groups = groups_at(address)
    n_penalized = len(after)
    total = 0.0
    for k in range(len(groups.scales)):
        target = after[k] if k < n_penalized else groups.before[k]
        total += target**2
        groups.total_shrinkage[k] += groups.before[k] - target
    norm = np.sqrt(total)
    shrink = 1.0
    if norm > radius:
        shrink = radius / norm
        norm = radius
    has_events = False
    for k in range(len(groups.scales)):
        target = after[k] if k < n_penalized else groups.before[k]
        ratio = 0.0 if groups.before[k] == 0.0 else target / groups.before[k]
        groups.scales[k] = groups.bases[k] * (ratio * shrink)
        if forgets:
            has_events |= note_events(groups, k)
    return has_events, norm


@compiled(counting=False)
def hedge(weights, cumulative, losses, gap):
    """Run one round of AdaHedge on groups of nonzero weight; return the gap.

    Writes to ``weights`` and ``cumulative``, (p,); de Rooij et al. (2014), figure 1. The learning
    rate is ``ln p / gap``, where ``gap`` is the cumulative mixability gap. It requires neither the
    scale of the losses nor the horizon.
    """
    p = weights.shape[0]
    log_p = np.log(max(p, 2))
    least = np.inf
    for k in range(p):
        if weights[k] > 0.0:
            least = min(least, losses[k])
    mean = 0.0
    mixed = 0.0
    for k in range(p):
        if weights[k] > 0.0:
            mean += weights[k] * losses[k]
            if gap > 0.0:
                mixed += weights[k] * np.exp(-log_p / gap * (losses[k] - least))
    mix = least
    if gap > 0.0:
        mix -= gap / log_p * np.log(mixed)
    gap += max(0.0, mean - mix)
    lowest = np.inf
    for k in range(p):
        cumulative[k] += losses[k]
        if weights[k] > 0.0:
            lowest = min(lowest, cumulative[k])
    if gap > 0.0:
        total = 0.0
        for k in range(p):
            if weights[k] > 0.0:
                weights[k] = np.exp(max(-log_p / gap * (cumulative[k] - lowest), LOWEST))
                total += weights[k]
        for k in range(p):
            weights[k] /= total
    return gap


@compiled(counting=False)
def half_weighted_squares(norms, weights):
    """Return ``sum_k norms_k^2 / (2 weights_k)`` over the groups of nonzero weight."""
    value = 0.0
    for k in range(norms.shape[0]):
        if weights[k] > 0.0:
            value += 0.5 * norms[k] ** 2 / weights[k]
    return value


class HedgeArrays(NamedTuple):
    """Arrays of the weights that Hedge learns; see :class:`omkl.online.methods.OutOfSampleWeights`.

    ``factors`` and ``square_norms_before`` are those of all groups, all other arrays of the
    regularized ones; ``gap`` and ``learning`` are arrays of one number.
    """

    weights: np.ndarray
    cumulative: np.ndarray
    sums: np.ndarray
    factors: np.ndarray
    losses: np.ndarray
    square_norms_before: np.ndarray
    gap: np.ndarray
    learning: np.ndarray


HEDGE = Layout(HedgeArrays)
hedge_at = HEDGE.at


@compiled(counting=False)
def begin_hedge(method, address, pending, rate, weight):
    """Begin a round: set rates and bases for a step of each part ``f_k = (s_k / w_k) v_k``."""
    groups = groups_at(address)
    hedge_arrays = hedge_at(method)
    for k in range(len(hedge_arrays.weights)):
        hedge_arrays.sums[k] += pending * hedge_arrays.weights[k]
    for k in range(len(groups.scales)):
        factor = hedge_arrays.factors[k]
        hedge_arrays.square_norms_before[k] = groups.square_norms[k]
        groups.averages[k] += pending * groups.scales[k]
        groups.bases[k] = 1.0
        # a group with weight 0 is left out
        if not groups.empty[k] and factor != 0.0:
            groups.bases[k] = groups.scales[k] / factor
        groups.rates[k] = rate * weight / groups.bases[k]


@compiled(counting=False)
def square_in_hedge(method, address, weight):
    """Play a round of Hedge if it learns; return the squared norm of the latest gradient.

    The losses ``weight * <f_k, g_k>`` before a step ``v_k -= r_k g_k`` follow from the change of
    ``||v_k||^2``: ``||v - r g||^2 = ||v||^2 - 2 r <v, g> + r^2 ||g||^2``.
    """
    groups = groups_at(address)
    hedge_arrays = hedge_at(method)
    if hedge_arrays.learning[0] != 0.0:
        for k in range(len(hedge_arrays.losses)):
            rate = groups.rates[k]
            change = groups.square_norms[k] - hedge_arrays.square_norms_before[k]
            slope = 0.5 * (rate * groups.square_gradients[k] - change / rate)
            hedge_arrays.losses[k] = weight * groups.bases[k] * slope
        gap = hedge(
            hedge_arrays.weights, hedge_arrays.cumulative, hedge_arrays.losses, hedge_arrays.gap[0]
        )
        hedge_arrays.gap[0] = gap
    square = 0.0
    for k in range(len(groups.square_gradients)):
        square += hedge_arrays.factors[k] * groups.square_gradients[k]
    return square


@compiled(counting=False)
def shrink_in_hedge(method, norms, step):
    """Replace the norms by ``w_k ||f_k||`` after the proximal step."""
    hedge_arrays = hedge_at(method)
    for k in range(len(norms)):
        hedge_arrays.factors[k] = hedge_arrays.weights[k]
        norms[k] = hedge_arrays.weights[k] * norms[k] / (1.0 + step)


@compiled(counting=False)
def distance_in_hedge(method, norms, norm):
    """Return the norm of a model, in which weighted norms replace those of regularized groups.

    See :func:`half_weighted_squares`.
    """
    squares = 0.0
    for k in range(len(norms)):
        squares += norms[k] ** 2
    regularized = 2.0 * half_weighted_squares(norms, hedge_at(method).weights)
    return np.sqrt(max(norm**2 - squares, 0.0) + regularized)


@compiled(counting=False)
def scales_in_hedge(method, address, scales):
    """Write the factors ``s_k / w_k`` from directions to parts; 0 for groups of weight 0."""
    groups = groups_at(address)
    hedge_arrays = hedge_at(method)
    for k in range(len(scales)):
        factor = hedge_arrays.factors[k]
        scales[k] = groups.scales[k] / factor if factor > 0.0 else 0.0
