"""One label for one input: loops of the multiclass and binary structures."""

import numpy as np

from omkl._compilation import compiled


@compiled
def best_label(scores, costs, gold, cost_weight):
    """Return the index of the highest ``scores + cost_weight * costs[gold]``; the first of equals."""
    best = 0
    highest = -np.inf
    for k in range(scores.shape[0]):
        score = scores[k]
        if cost_weight != 0.0:
            score += cost_weight * costs[gold, k]
        if score > highest:
            highest = score
            best = k
    return best


@compiled
def softmax(scores, probabilities):
    """Write probabilities into the second array; return the log-partition function."""
    highest = scores.max()
    total = 0.0
    for k in range(scores.shape[0]):
        probabilities[k] = np.exp(scores[k] - highest)
        total += probabilities[k]
    for k in range(scores.shape[0]):
        probabilities[k] /= total
    return highest + np.log(total)
