"""Compiled Hedge over groups: O(p) a round, independent of the number of parameters."""

import numpy as np

from omkl._compilation import compiled

#: Logarithm of the smallest ratio of two weights; a weight that underflows to 0 could not grow again.
LOWEST = -40.0


@compiled
def begin(scales, factors, empty, averages, pending, rate, bases, rates):
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
