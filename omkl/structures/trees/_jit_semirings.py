"""Semirings: the same recursions for scores, for weights, and for logs of weights.

Two functions hide the difference: ``both`` joins parts, and ``either`` chooses among alternatives.
They are (+, max) for scores, (product, +) for weights, and (+, log of the sum of exponentials) for
logs, which are slow, but accurate at any magnitude.
"""

import numpy as np

from omkl._compilation import borrowing, inner

#: The compiler knows the lengths of tuples, and leaves out the code for other semirings.
SCORES = ()
WEIGHTS = (0,)
LOGS = (0, 0)


@borrowing
def both(first, second, semiring):
    """Return the number of two parts together: sum of scores or logs, or product of weights."""
    return first * second if len(semiring) == 1 else first + second


@borrowing
def either(first, second, semiring):
    """Return the number of two alternatives: the higher score, or the sum of their weights."""
    if len(semiring) == 0:
        return second if second > first else first
    if len(semiring) == 1:
        return first + second
    highest = max(first, second)
    if highest == -np.inf:
        return highest
    return highest + np.log1p(np.exp(min(first, second) - highest))


@borrowing
def include(target, place, first, second, semiring):
    """Let ``target[place]`` be either what it is, or both of two parts."""
    target[place] = either(target[place], both(first, second, semiring), semiring)


@borrowing
def without(total, removed, semiring):
    """Return the number of what is left without a part: quotient of weights, or difference."""
    return total / removed if len(semiring) == 1 else total - removed


@borrowing
def as_weight(number, semiring):
    """Return a weight, given the weight itself or its log."""
    return np.exp(number) if len(semiring) == 2 else number


@borrowing
def as_log(number, semiring):
    """Return the log of a weight, given the weight or the log itself."""
    return number if len(semiring) == 2 else np.log(number)


@borrowing
def nothing(semiring):
    """Return the number of what is impossible."""
    return 0.0 if len(semiring) == 1 else -np.inf


@inner
def relative_scores(scores):
    """Return scores less the highest one of their column, and the sum of these maxima.

    They are -inf where there is no arc. The sum is +inf if a score is nan or +inf.
    """
    n = scores.shape[0] - 1
    relative = np.full(scores.shape, -np.inf)
    shift = 0.0
    for m in range(1, n + 1):
        highest = -np.inf
        for h in range(n + 1):
            if h != m:
                if not scores[h, m] < np.inf:
                    return relative, np.inf
                highest = max(highest, scores[h, m])
        shift += highest
        for h in range(n + 1):
            if h != m:
                relative[h, m] = scores[h, m] - highest
    return relative, shift
