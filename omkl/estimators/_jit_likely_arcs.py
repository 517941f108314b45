"""Loops over potentials of the arcs of a sentence, (n + 1, n + 1): which of them are likely."""

import numpy as np

from omkl._compilation import compiled


@compiled
def shortfalls(scores, heads, found):
    """How far the potential of each right arc, of a head that is known, is below the highest one of its word; returns
    how many there are."""
    count = 0
    for m in range(1, scores.shape[0]):
        if heads[m - 1] >= 0:
            best = -np.inf
            for h in range(scores.shape[0]):
                if h != m:
                    best = max(best, scores[h, m])
            found[count] = best - scores[heads[m - 1], m]
            count += 1
    return count


@compiled
def forget_unlikely(scores, heads, right, margin):
    """Make -inf what is farther than a margin below the highest potential of its word, but for two trees: arcs of the
    second that were -inf become as unlikely as any that is not."""
    for m in range(1, scores.shape[0]):
        best, least = -np.inf, np.inf
        for h in range(scores.shape[0]):
            if h != m:
                best = max(best, scores[h, m])
        for h in range(scores.shape[0]):
            if h != m and scores[h, m] > -np.inf:
                if scores[h, m] < best - margin and h != heads[m - 1] and h != right[m - 1]:
                    scores[h, m] = -np.inf
                else:
                    least = min(least, scores[h, m])
        if right[m - 1] >= 0 and scores[right[m - 1], m] == -np.inf:
            scores[right[m - 1], m] = least
