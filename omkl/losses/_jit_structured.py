"""Losses of labels of any structure; see :mod:`omkl.losses.structured` for the formulas.

Each writes its gradient, zero where there is none, and returns the loss, as
:data:`omkl.signatures.LOSS_OF_LABELS` declares. Labels are (n,), and ``gold`` has -1 where one is
unknown. ``decode``, ``score``, ``marginals`` and so on are those of the structure.
"""

import numpy as np

from omkl._compilation import borrowing, compiled, inner
from omkl._pointers import flat
from omkl.structures._jit_labels import augment, cost, decode, indicate, marginals, score


@borrowing
def clear(array):
    """Set all entries of an array of any shape to zero."""
    entries = flat(array)
    for i in range(len(entries)):
        entries[i] = 0.0


@borrowing
def subtract(array, other):
    """Subtract the entries of another array of the same shape, in place."""
    entries = flat(array)
    subtracted = flat(other)
    for i in range(len(entries)):
        entries[i] -= subtracted[i]


@borrowing
def is_partial(gold):
    """Return whether a label is unknown."""
    for label in gold:  # noqa: SIM110 - Numba takes no generators
        if label < 0:
            return True
    return False


@inner
def agreeing(unary, gold):
    """Return scores (n, K) that forbid labels which disagree with the known ones."""
    allowed = unary.copy()
    for t in range(unary.shape[0]):
        for j in range(unary.shape[1]):
            if gold[t] >= 0 and j != gold[t]:
                allowed[t, j] = -np.inf
    return allowed


@inner
def complete_labels(structure, unary, pairwise, gold):
    """Return the gold labels, with unknown ones from the best labelling that agrees with them."""
    if not is_partial(gold):
        return gold
    labels = np.empty(gold.shape[0], np.int64)
    decode(structure, agreeing(unary, gold), pairwise, gold, 0.0, labels)
    return labels


@inner
def compare_with_best(
    structure, unary, pairwise, gold, cost_weight, predicted, gradient, pair_gradient
):
    """Write the best labels, and their parts minus the gold ones; return the difference in score.

    Best are labels ``predicted`` (n,) of the highest score with weighted cost; the difference is
    without the cost.
    """
    clear(gradient)
    clear(pair_gradient)
    decode(structure, unary, pairwise, gold, cost_weight, predicted)
    correct = complete_labels(structure, unary, pairwise, gold)
    indicate(structure, gradient, pair_gradient, predicted, 1.0)
    indicate(structure, gradient, pair_gradient, correct, -1.0)
    return score(structure, unary, pairwise, predicted) - score(structure, unary, pairwise, correct)


@compiled
def hinge(structure, unary, pairwise, gold, parameters, gradient, pair_gradient):
    """Highest score with weighted cost, minus the score of the gold labels.

    The parameter is the weight of the cost.
    """
    cost_weight = parameters[0]
    predicted = np.empty(gold.shape[0], np.int64)
    gap = compare_with_best(
        structure, unary, pairwise, gold, cost_weight, predicted, gradient, pair_gradient
    )
    value = gap + cost_weight * cost(structure, gold, predicted)
    if value <= 0.0:
        clear(gradient)
        clear(pair_gradient)
        return 0.0
    return value


@compiled
def perceptron(structure, unary, pairwise, gold, parameters, gradient, pair_gradient):
    """Highest score minus the score of the gold labels."""
    predicted = np.empty(gold.shape[0], np.int64)
    gap = compare_with_best(
        structure, unary, pairwise, gold, 0.0, predicted, gradient, pair_gradient
    )
    return max(gap, 0.0)


@inner
def subtract_agreeing(structure, unary, pairwise, gold, gradient, pair_gradient):
    """Subtract the marginals of all labellings that agree with the known labels ``gold`` (n,).

    They are subtracted from both gradients. Returns the log partition of these labellings.
    """
    expected = np.empty(gradient.shape)
    expected_pairs = np.empty(pair_gradient.shape)
    allowed = agreeing(unary, gold)
    log_partition = marginals(structure, allowed, pairwise, expected, expected_pairs)
    subtract(gradient, expected)
    subtract(pair_gradient, expected_pairs)
    return log_partition


@compiled(counting=False)
def crf(structure, unary, pairwise, gold, parameters, gradient, pair_gradient):
    """Negative log-likelihood of the gold labels, or of all that agree with the known ones."""
    log_partition = marginals(structure, unary, pairwise, gradient, pair_gradient)
    if is_partial(gold):
        gold_score = subtract_agreeing(structure, unary, pairwise, gold, gradient, pair_gradient)
    else:
        gold_score = score(structure, unary, pairwise, gold)
        indicate(structure, gradient, pair_gradient, gold, -1.0)
    return max(log_partition - gold_score, 0.0)


@compiled
def softmax_margin(structure, unary, pairwise, gold, parameters, gradient, pair_gradient):
    """Likelihood with the cost of labels added to their scores; the parameter weights the cost."""
    augmented = unary.copy()
    augment(structure, augmented, gold, parameters[0])
    return crf(structure, augmented, pairwise, gold, parameters, gradient, pair_gradient)
