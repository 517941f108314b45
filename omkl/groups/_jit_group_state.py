"""O(p) arithmetic on scales, norms and averages of the groups, independent of the dimension of the groups."""

import numpy as np

from omkl._compilation import compiled

ACTIVATED = 1
DEACTIVATED = 2
OUT_OF_RANGE = 4


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
    """Apply the proximal and the projection step to the scales; return events for the banks, and the norm of the model.

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
    events = 0
    for k in range(p):
        target = after[k] if k < n_penalized else before[k]
        ratio = 0.0 if before[k] == 0.0 else target / before[k]
        scales[k] = bases[k] * (ratio * shrink)
        if not forgets:
            continue
        activated[k] = deactivated[k] = False
        if scales[k] == 0.0:
            scales[k] = 0.0
            if square_norms[k] > 0.0:
                deactivated[k] = True
                events |= DEACTIVATED
            square_norms[k] = 0.0
            empty[k] = True
        else:
            if empty[k]:
                activated[k] = True
                empty[k] = False
                events |= ACTIVATED
            if scales[k] < low or scales[k] > high:
                events |= OUT_OF_RANGE
    return events, norm
