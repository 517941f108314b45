"""Dual norms of groups that weigh their norm and the magnitudes of their coefficients."""

import numpy as np

from omkl._compilation import compiled


@compiled
def mixed_dual_norms(correlations, ends, norm_weights, l1_weights, positive):
    """For each group the least t >= 0 at which its correlations c fulfil :math:`\\|(|c| - t l)_+\\| \\le t \\omega`.

    Groups end at ``ends`` (g,); the ``positive`` parts of correlations stand for their magnitudes where coefficients
    are not negative. 0 for groups of no weight at all. Newton's method on a convex, decreasing function of t never
    goes past the root from the left (the epsilon-norm of Ndiaye et al. 2016, by another method).
    """
    found = np.zeros(len(ends))
    first = 0
    for g in range(len(ends)):
        part = correlations[first : ends[g]]
        first = ends[g]
        if norm_weights[g] == 0.0 and l1_weights[g] == 0.0:
            continue
        t = 0.0
        for _ in range(200):
            squares, total = 0.0, 0.0
            for c in part:
                excess = (c if positive else abs(c)) - t * l1_weights[g]
                if excess > 0.0:
                    squares += excess * excess
                    total += excess
            norm = np.sqrt(squares)
            if norm == 0.0:
                break
            step = (norm - t * norm_weights[g]) / (norm_weights[g] + l1_weights[g] * total / norm)
            t += step
            if step <= 1e-15 * t:
                break
        found[g] = t
    return found
