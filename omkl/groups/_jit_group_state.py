"""O(p) arithmetic on scales, norms, averages and weights of groups, independent of their dimension."""

import numpy as np

from omkl._compilation import compiled

#: Logarithm of the smallest ratio of two weights; a weight that underflows to 0 could not grow again.
LOWEST = -40.0


@compiled
def begin_forward_backward(scales, empty, averages, pending, rate, bases, rates):
    """Begin a round of forward-backward splitting: ``theta - rate g`` is ``v -= (rate / s) g``."""
    for k in range(scales.shape[0]):
        averages[k] += pending * scales[k]
        bases[k] = 1.0 if empty[k] else scales[k]
        rates[k] = rate / bases[k]


@compiled
def begin_dual_averaging(scales, averages, pending, weight, base, bases, rates):
    """Begin a round of dual averaging: ``v`` is minus the sum of gradients, and the scale is set anew."""
    for k in range(scales.shape[0]):
        averages[k] += pending * scales[k]
        bases[k] = base
        rates[k] = weight


@compiled
def measure(bases, square_norms, norms):
    """Write the group norms ``b_k = base_k ||v_k||`` of the starting point of the proximal step."""
    for k in range(norms.shape[0]):
        if square_norms[k] < 0.0:
            square_norms[k] = 0.0
        norms[k] = bases[k] * np.sqrt(square_norms[k])


@compiled
def rescale(arrays, before, after, radius, forgets, low, high):
    """Apply the proximal and projection steps to the scales; return whether banks have events, and the model's norm.

    ``scale_k = base_k after_k / before_k``. Groups beyond ``len(after)`` are not penalised. If ``forgets`` (forward-
    backward splitting), a group that reaches zero becomes empty, a group that leaves zero is activated, and scales
    outside ``[low, high]`` are folded into ``v``.
    """
    bases, scales, square_norms, empty, activated, deactivated, total_shrinkage = arrays
    p = scales.shape[0]
    n_penalized = after.shape[0]
    total = 0.0
    for k in range(p):
        total += after[k] ** 2 if k < n_penalized else before[k] ** 2
        if k < n_penalized:
            total_shrinkage[k] += before[k] - after[k]
    norm = np.sqrt(total)
    shrink = 1.0
    if norm > radius:
        shrink = radius / norm
        norm = radius
    has_events = False
    for k in range(p):
        target = after[k] if k < n_penalized else before[k]
        ratio = 0.0 if before[k] == 0.0 else target / before[k]
        scales[k] = bases[k] * (ratio * shrink)
        if not forgets:
            continue
        activated[k] = deactivated[k] = False
        if scales[k] == 0.0:
            scales[k] = 0.0
            deactivated[k] = square_norms[k] > 0.0
            square_norms[k] = 0.0
            empty[k] = True
        else:
            activated[k] = empty[k]
            empty[k] = False
            has_events |= scales[k] < low or scales[k] > high
        has_events |= activated[k] or deactivated[k]
    return has_events, norm


@compiled
def begin_hedge(scales, factors, empty, averages, pending, rate, bases, rates):
    """Begin a round: set rates and bases for a gradient step of each part ``f_k = (s_k / w_k) v_k``."""
    for k in range(scales.shape[0]):
        averages[k] += pending * scales[k]
        # a group with weight 0 is left out
        bases[k] = 1.0 if empty[k] or factors[k] == 0.0 else scales[k] / factors[k]
        rates[k] = rate / bases[k]


@compiled
def losses_of_parts(before, square_norms, square_gradients, rates, bases, weight, losses):
    """Compute ``weight * <f_k, g_k>`` before a step ``v_k -= r_k g_k`` from the change of ``||v_k||^2``.

    ``||v - r g||^2 = ||v||^2 - 2 r <v, g> + r^2 ||g||^2``.
    """
    for k in range(losses.shape[0]):
        r = rates[k]
        slope = 0.5 * (r * square_gradients[k] - (square_norms[k] - before[k]) / r)
        losses[k] = weight * bases[k] * slope


@compiled
def hedge(weights, cumulative, losses, gap):
    """Run one round of AdaHedge (de Rooij et al. 2014, Fig. 1) on groups of nonzero weight; return the gap.

    The learning rate is ``ln p / gap``, where ``gap`` is the cumulative mixability gap. It requires neither the scale
    of the losses nor the horizon.
    """
    p = weights.shape[0]
    log_p = np.log(max(p, 2))
    least = np.inf
    for k in range(p):
        if weights[k] > 0.0:
            least = min(least, losses[k])
    mean, mixed = 0.0, 0.0
    for k in range(p):
        if weights[k] > 0.0:
            mean += weights[k] * losses[k]
            if gap > 0.0:
                mixed += weights[k] * np.exp(-log_p / gap * (losses[k] - least))
    mix = least - gap / log_p * np.log(mixed) if gap > 0.0 else least
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


@compiled
def half_weighted_squares(norms, weights):
    """Return ``sum_k norms_k^2 / (2 weights_k)`` over the groups of nonzero weight."""
    value = 0.0
    for k in range(norms.shape[0]):
        if weights[k] > 0.0:
            value += 0.5 * norms[k] ** 2 / weights[k]
    return value


@compiled
def hedge_distance(norms, total, weights):
    """Return the norm of a model, in which :func:`half_weighted_squares` replaces the norms of regularized groups."""
    squares = 0.0
    for k in range(norms.shape[0]):
        squares += norms[k] ** 2
    return np.sqrt(max(total**2 - squares, 0.0) + 2.0 * half_weighted_squares(norms, weights))
