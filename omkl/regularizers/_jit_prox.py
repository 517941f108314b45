"""Loops of the proximity operators. Vectors may be signed: every function here is even in its argument."""

import numpy as np

from omkl._compilation import compiled

# Measured on random norms: sorting by insertion wins for a few groups.
INSERTION_BELOW = 12


@compiled
def soft_threshold(x, threshold):
    """``sign(x) max(|x| - threshold, 0)``, the proximity operator of ``threshold ||.||_1``."""
    shrunk = np.empty(x.shape[0])
    for k in range(x.shape[0]):
        magnitude = abs(x[k]) - threshold
        shrunk[k] = 0.0 if magnitude <= 0.0 else (magnitude if x[k] > 0.0 else -magnitude)
    return shrunk


@compiled
def threshold_by_sorting(x, weights, step):
    """``tau`` of Algorithm 4 (Martins et al. 2011) by sorting ``|x| / w``. Zero weights take no part.

    Ratios are sorted by insertion, O(p^2) with the smallest constant: for few of them.
    """
    p = x.shape[0]
    ratios = np.empty(p)
    areas = np.empty(p)
    count = 0
    for k in range(p):
        if weights[k] > 0.0:
            ratio = abs(x[k]) / weights[k]
            j = count
            while j > 0 and ratios[j - 1] < ratio:
                ratios[j] = ratios[j - 1]
                areas[j] = areas[j - 1]
                j -= 1
            ratios[j] = ratio
            areas[j] = weights[k] ** 2
            count += 1
    mass = 0.0
    moment = 0.0
    threshold = 0.0
    for j in range(count):
        mass += areas[j]
        moment += areas[j] * ratios[j]
        candidate = step * moment / (1.0 + step * mass)
        if ratios[j] <= candidate:
            break
        threshold = candidate
    return threshold


@compiled
def threshold_by_pivoting(x, weights, step, seed):
    """The same ``tau`` in expected O(p): randomised pivoting after Duchi et al. (2008).

    The set ``{j : ratio_j > tau}`` is found like a quantile: partition what is undecided around a random pivot, and
    keep the side that the threshold of the pivot's upper set points to.
    """
    p = x.shape[0]
    ratios = np.empty(p)
    areas = np.empty(p)
    low = 0
    for k in range(p):
        if weights[k] > 0.0:
            ratios[low] = abs(x[k]) / weights[k]
            areas[low] = weights[k] ** 2
            low += 1
    high = low
    low = 0
    mass = 0.0
    moment = 0.0
    state = np.uint64(seed) | np.uint64(1)
    while low < high:
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        pivot = ratios[low + np.int64(state % np.uint64(high - low))]
        upper_mass = 0.0
        upper_moment = 0.0
        upper = low
        for j in range(low, high):
            if ratios[j] >= pivot:
                upper_mass += areas[j]
                upper_moment += areas[j] * ratios[j]
                ratios[j], ratios[upper] = ratios[upper], ratios[j]
                areas[j], areas[upper] = areas[upper], areas[j]
                upper += 1
        if pivot * (1.0 + step * (mass + upper_mass)) > step * (moment + upper_moment):
            mass += upper_mass
            moment += upper_moment
            low = upper
        else:
            # the pivot is at or below the threshold: so are its equals, which move behind the boundary
            end = low
            for j in range(low, upper):
                if ratios[j] > pivot:
                    ratios[j], ratios[end] = ratios[end], ratios[j]
                    areas[j], areas[end] = areas[end], areas[j]
                    end += 1
            high = end
    return step * moment / (1.0 + step * mass)


@compiled
def threshold_by_newton(x, step):
    """The same ``tau`` for weights of 1, by Newton's method on ``step sum_k max(|x_k| - tau, 0) - tau``.

    The function is convex and decreasing, so that steps from 0 never pass its root, and what is once below ``tau``
    takes no further part (Michelot 1986): O(p) where every step leaves out a share, as it does but for numbers made up
    to be slow, which are left to pivoting.
    """
    p = x.shape[0]
    sums = np.zeros(8)
    for k in range(0, p - 7, 8):  # eight sums that do not wait for each other
        for j in range(8):
            sums[j] += abs(x[k + j])
    total = 0.0
    for j in range(8):
        total += sums[j]
    for k in range(p - p % 8, p):
        total += abs(x[k])
    threshold = step * total / (1.0 + step * p)
    left = np.empty(p)
    n = 0
    total = 0.0
    for k in range(p):
        magnitude = abs(x[k])
        left[n] = magnitude
        above = magnitude > threshold
        n += above
        total += magnitude if above else 0.0
    removed = p - n
    for _ in range(40):
        if removed == 0:
            break
        threshold = step * total / (1.0 + step * n)
        count, removed, total = n, 0, 0.0
        n = 0
        for k in range(count):
            magnitude = left[k]
            left[n] = magnitude
            above = magnitude > threshold
            n += above
            total += magnitude if above else 0.0
        removed = count - n
    if removed > 0:
        return threshold_by_pivoting(left[:n], np.ones(n), step, p)
    return step * total / (1.0 + step * n)


@compiled
def shrink_in_order(x, weights, ratios, order, inverse_step, radius, unit):
    """What is left of ``x`` where thresholds are all but the largest of the ``ratios``; ``order`` sorts them downwards.

    The last ratio r above the threshold exceeds it by ``(r / t + radius - S) / (1 / t + m)``, with
    ``S = sum_j w_j^2 (r_j - r)`` over the larger ones and the mass m, and these by the differences from ratio to ratio
    besides: sums of numbers >= 0. ``order`` has no place with a weight of 0.
    """
    shrunk = x.copy()
    mass = 0.0
    above = 0.0
    excess = 0.0
    last = -1
    for j in range(order.shape[0]):
        k = order[j]
        if j > 0:
            above += mass * (ratios[order[j - 1]] - ratios[k])
        budget = ratios[k] * inverse_step + radius - above
        if budget <= 0.0:
            break
        mass += weights[k] ** 2
        excess = budget / (inverse_step + mass) if inverse_step + mass > 0.0 else ratios[k]
        last = j
    for j in range(order.shape[0] - 1, -1, -1):
        k = order[j]
        if j < last:
            excess += ratios[k] - ratios[order[j + 1]]
        magnitude = min(weights[k] * excess * unit, abs(x[k])) if j <= last else 0.0
        shrunk[k] = magnitude if x[k] > 0.0 else (-magnitude if magnitude > 0.0 else 0.0)
    return shrunk


@compiled
def mass_and_largest(x, weights):
    """``sum_k w_k^2`` and ``max_k |x_k|``."""
    mass = 0.0
    largest = 0.0
    for k in range(x.shape[0]):
        mass += weights[k] ** 2
        largest = max(largest, abs(x[k]))
    return mass, largest


@compiled
def shrink_weighted_squared_l1(x, weights, step):
    """Prox of ``(step / 2) (sum_k w_k |x_k|)^2`` (Algorithm 4), for thresholds well below the largest ratio."""
    if x.shape[0] < INSERTION_BELOW:
        threshold = threshold_by_sorting(x, weights, step)
    else:
        threshold = threshold_by_pivoting(x, weights, step, x.shape[0])
    shrunk = np.empty(x.shape[0])
    for k in range(x.shape[0]):
        magnitude = abs(x[k]) - weights[k] * threshold
        shrunk[k] = 0.0 if magnitude <= 0.0 else (magnitude if x[k] > 0.0 else -magnitude)
    return shrunk


@compiled
def shrink_squared_l1(x, step):
    """Prox of ``(step / 2) (sum_k |x_k|)^2`` (Algorithm 2), for thresholds well below the largest number."""
    p = x.shape[0]
    threshold = threshold_by_sorting(x, np.ones(p), step) if p < INSERTION_BELOW else threshold_by_newton(x, step)
    shrunk = np.empty(p)
    for k in range(p):
        magnitude = max(abs(x[k]) - threshold, 0.0)
        shrunk[k] = magnitude if x[k] > 0.0 else (-magnitude if magnitude > 0.0 else 0.0)
    return shrunk


@compiled
def lq_root(b, step, q):
    """The ``x`` in ``[0, b]`` with ``x + step x^(q-1) = b``, for any ``q > 1`` and floats b and step of any size.

    In closed form for q = 4/3, 3/2, 2, 3 and numbers whose squares and cubes are floats. Else ``x = x_0 s``, where the
    larger of the two terms is b at x_0: s solves ``p s + r s^(q-1) = 1`` with ``max(p, r) = 1``. The logarithm of the
    left side is convex and increasing in ``log s``, with slopes between 1 and q - 1, so Newton's method descends to
    the root from ``s = 1`` and never passes it.
    """
    if b <= 0.0 or step == 0.0:
        return b
    if q == 2.0:
        return b / (1.0 + step)
    if 1e-50 < b < 1e50 and 1e-50 < step < 1e50:
        if q == 3.0:
            return 2.0 * b / (1.0 + np.sqrt(1.0 + 4.0 * step * b))
        if q == 1.5:
            root = 2.0 * b / (step + np.sqrt(step * step + 4.0 * b))
            return root * root
        if q == 4.0 / 3.0:
            root = 2.0 * np.sqrt(step / 3.0) * np.sinh(np.arcsinh(1.5 * b / step * np.sqrt(3.0 / step)) / 3.0)
            return min(root**3, b)
    log_ratio = np.log(step) + (q - 2.0) * np.log(b)
    p = 1.0 if log_ratio <= 0.0 else np.exp(-log_ratio / (q - 1.0))
    r = np.exp(log_ratio) if log_ratio <= 0.0 else 1.0
    log_s = 0.0
    for _ in range(200):
        linear = p * np.exp(log_s)
        power = r * np.exp((q - 1.0) * log_s)
        total = linear + power
        moved = log_s - np.log(total) * total / (linear + (q - 1.0) * power)
        if not moved < log_s:
            break
        log_s = moved
    if log_ratio <= 0.0:
        return b * np.exp(log_s)
    return min(np.exp(np.log(b) - log_ratio / (q - 1.0) + log_s), b)


@compiled
def prox_lq(x, step, q):
    """Prox of ``(step / q) sum_k |x_k|^q``, one scalar root a coordinate."""
    shrunk = np.empty(x.shape[0])
    for k in range(x.shape[0]):
        root = lq_root(abs(x[k]), step, q)
        shrunk[k] = root if x[k] > 0.0 else -root
    return shrunk


@compiled
def norm_of(x, members, first, last):
    """``||x_g||`` of one group, without overflow or underflow of squares."""
    largest = 0.0
    for j in range(first, last):
        largest = max(largest, abs(x[members[j]]))
    if largest == 0.0:
        return 0.0
    square = 0.0
    for j in range(first, last):
        square += (x[members[j]] / largest) ** 2
    return largest * np.sqrt(square)


@compiled
def shrink_groups_in_turn(x, starts, members, thresholds):
    """``x_g <- max(1 - threshold_g / ||x_g||, 0) x_g`` for one group after the other (CSR lists of members)."""
    shrunk = x.astype(np.float64)
    for g in range(thresholds.shape[0]):
        norm = norm_of(shrunk, members, starts[g], starts[g + 1])
        ratio = 0.0 if norm <= thresholds[g] else (norm - thresholds[g]) / norm
        for j in range(starts[g], starts[g + 1]):
            shrunk[members[j]] *= ratio
    return shrunk


@compiled
def prox_overlapping(x, starts, members, thresholds, tolerance, max_sweeps):
    """Prox of ``sum_g threshold_g ||x_g||`` for any overlaps: block coordinate ascent on its dual.

    The dual is ``min 1/2 ||x - sum_g z_g||^2`` with ``||z_g|| <= threshold_g``, and ``x - sum_g z_g`` is the prox
    (Jenatton et al. 2011). Sweeps end when none moves a coordinate by more than ``tolerance``, relative to the norm of
    its group; what is left of a coordinate is 0 if it is that small. Also returned is whether they did.
    """
    residual = x.astype(np.float64)
    duals = np.zeros(members.shape[0])
    for _ in range(max_sweeps):
        settled = True
        for g in range(thresholds.shape[0]):
            for j in range(starts[g], starts[g + 1]):
                residual[members[j]] += duals[j]
            norm = norm_of(residual, members, starts[g], starts[g + 1])
            ratio = 1.0 if norm <= thresholds[g] else thresholds[g] / norm
            for j in range(starts[g], starts[g + 1]):
                dual = ratio * residual[members[j]]
                settled = settled and abs(dual - duals[j]) <= tolerance * norm
                duals[j] = dual
                residual[members[j]] -= dual
        if settled:
            for k in range(x.shape[0]):
                if abs(residual[k]) <= 10.0 * tolerance * abs(x[k]):
                    residual[k] = 0.0
            return residual, True
    return residual, False
