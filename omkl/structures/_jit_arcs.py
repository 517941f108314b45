"""Sums over the arcs of one tree: ``heads[i]`` is the head of token ``i + 1``, and ``scores[h, m]`` scores an arc."""

from omkl._compilation import compiled


@compiled
def are_heads(heads, n, least):
    """Whether there are n heads, each another token or the root, or -1 if that is the ``least``."""
    fit = heads.shape[0] == n
    for i in range(heads.shape[0]):
        fit &= least <= heads[i] <= n and heads[i] != i + 1
    return fit


@compiled
def score(scores, heads):
    """Sum of the scores of the arcs."""
    total = 0.0
    for i in range(heads.shape[0]):
        total += scores[heads[i], i + 1]
    return total


@compiled
def add_indicator(scores, heads, amount):
    """Add ``amount`` to every arc of the tree that is known."""
    for i in range(heads.shape[0]):
        if heads[i] >= 0:
            scores[heads[i], i + 1] += amount


@compiled
def is_partial(heads):
    """Whether a head is -1, not known."""
    partial = False
    for i in range(heads.shape[0]):
        partial |= heads[i] < 0
    return partial


@compiled
def difference(scores, predicted, gold, gradient):
    """Indicator of ``predicted`` minus that of ``gold`` into the zero ``gradient``; returns their score difference."""
    gap = 0.0
    for i in range(gold.shape[0]):
        if predicted[i] != gold[i]:
            gradient[predicted[i], i + 1] = 1.0
            gradient[gold[i], i + 1] = -1.0
            gap += scores[predicted[i], i + 1] - scores[gold[i], i + 1]
    return gap


@compiled
def wrong_heads(gold, predicted):
    """Number of tokens whose heads differ from those that are known."""
    wrong = 0
    for i in range(gold.shape[0]):
        wrong += gold[i] >= 0 and gold[i] != predicted[i]
    return wrong
