"""Losses of one output and their gradients, for compiled passes; see :mod:`omkl.losses.structured` for the formulas."""

import numpy as np

from omkl._compilation import uncached
from omkl.structures._jit_chain import add_indicator, marginals, score_labels, total_cost, viterbi

#: Losses of labels, and of numbers.
HINGE, CRF, SOFTMAX_MARGIN, PERCEPTRON = 0, 1, 2, 3
SQUARED, HUBER, EPSILON_INSENSITIVE = 4, 5, 6


@uncached
def loss_of_binary(z, gold, kind, cost_weight):
    """Return a loss of one of two labels, its slope in the potential z, and whether there is a gradient."""
    margin = z if gold == 1 else -z
    if kind in (CRF, SOFTMAX_MARGIN):
        if kind == SOFTMAX_MARGIN:
            z += -cost_weight if gold == 1 else cost_weight
        half = abs(0.5 * z)
        log_partition, gold_score = half + np.log1p(np.exp(-2.0 * half)), (gold - 0.5) * z
        return max(log_partition - gold_score, 0.0), 0.5 * np.tanh(0.5 * z) - (gold - 0.5), True
    if kind == PERCEPTRON:
        predicted = 1 if z > 0.0 else 0
        return max((predicted - gold) * z, 0.0), float(predicted - gold), predicted != gold
    predicted = gold if margin >= cost_weight else 1 - gold
    value = (predicted - gold) * z + (cost_weight if predicted != gold else 0.0)
    return (value, float(predicted - gold), True) if not value <= 0.0 else (0.0, 0.0, False)


@uncached
def agreeing(unary, gold):
    """Return scores that forbid labels which disagree with the known labels of ``gold``."""
    own = unary.copy()
    for t in range(len(gold)):
        for j in range(own.shape[1]):
            if gold[t] >= 0 and j != gold[t]:
                own[t, j] = -np.inf
    return own


@uncached
def loss_of_labels(unary, pairwise, gold, costs, kind, cost_weight, gradient, pair_gradient, labels):
    """Write the gradient of a loss of a chain, or of one label; return the value, and whether there is a gradient.

    ``labels`` is working memory for the labels of the tokens.
    """
    n_known = 0
    for label in gold:
        n_known += label >= 0
    partial = n_known < len(gold)
    if kind in (CRF, SOFTMAX_MARGIN):
        augmented = unary.copy()
        for t in range(len(gold)):
            if kind == SOFTMAX_MARGIN and gold[t] >= 0:
                for j in range(unary.shape[1]):
                    augmented[t, j] += cost_weight * costs[gold[t], j]
        log_partition = marginals(augmented, pairwise, gradient, pair_gradient)
        if not partial:
            gold_score = score_labels(augmented, pairwise, gold)
            add_indicator(gradient, pair_gradient, gold, -1.0)
            return max(log_partition - gold_score, 0.0), True
        expected, expected_pairs = np.empty(gradient.shape), np.empty(pair_gradient.shape)
        gold_score = marginals(agreeing(augmented, gold), pairwise, expected, expected_pairs)
        # elements one by one: Numba takes seconds to compile an operation on arrays in place
        for t in range(gradient.shape[0]):
            for j in range(gradient.shape[1]):
                gradient[t, j] -= expected[t, j]
        for t in range(pair_gradient.shape[0]):
            for i in range(pair_gradient.shape[1]):
                for j in range(pair_gradient.shape[2]):
                    pair_gradient[t, i, j] -= expected_pairs[t, i, j]
        return max(log_partition - gold_score, 0.0), True
    gradient[:] = 0.0
    pair_gradient[:] = 0.0
    viterbi(unary, pairwise, costs, gold, 0.0 if kind == PERCEPTRON else cost_weight, labels)
    known = gold.copy()
    if partial:
        viterbi(agreeing(unary, gold), pairwise, costs, gold, 0.0, known)
    if kind == PERCEPTRON and (labels == known).all():
        return 0.0, False
    value = score_labels(unary, pairwise, labels) - score_labels(unary, pairwise, known)
    add_indicator(gradient, pair_gradient, labels, 1.0)
    add_indicator(gradient, pair_gradient, known, -1.0)
    if kind == PERCEPTRON:
        return max(value, 0.0), True
    value += cost_weight * total_cost(costs, gold, labels)
    return (value, True) if not value <= 0.0 else (0.0, False)


@uncached
def loss_of_number(z, y, kind, parameter):
    """Return a loss of numbers, and its slope."""
    error = z - y
    size = abs(error)
    if kind == SQUARED or (kind == HUBER and size <= parameter):
        return 0.5 * error**2, error
    if kind == HUBER:
        return parameter * (size - 0.5 * parameter), parameter if error > 0.0 else -parameter
    if size > parameter:
        return size - parameter, 1.0 if error > 0.0 else -1.0
    return 0.0, 0.0
