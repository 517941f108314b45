"""Loops over pairs of labels that share weights.

``index`` (K, K) has the weight of each pair, -1 for none.
"""

from omkl._compilation import compiled


@compiled
def add_pairs(weights, scale, index, pairwise):
    """``pairwise[e, a, b] += scale * weights[e, index[a, b]]``; all edges share a single row."""
    for e in range(pairwise.shape[0]):
        row = weights[e if weights.shape[0] > 1 else 0]
        for a in range(index.shape[0]):
            for b in range(index.shape[1]):
                if index[a, b] >= 0:
                    pairwise[e, a, b] += scale * row[index[a, b]]


@compiled
def sum_pairs(gradient, index, sums):
    """``sums[e, index[a, b]] += gradient[e, a, b]``."""
    for e in range(gradient.shape[0]):
        for a in range(index.shape[0]):
            for b in range(index.shape[1]):
                if index[a, b] >= 0:
                    sums[e, index[a, b]] += gradient[e, a, b]
