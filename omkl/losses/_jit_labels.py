"""Losses of labels of a chain, or of one label, for compiled passes; see :mod:`omkl.losses.structured`."""

import numpy as np

from omkl._compilation import uncached
from omkl.losses._jit_losses import CRF, PERCEPTRON, SOFTMAX_MARGIN
from omkl.structures._jit_chain import add_indicator, marginals, score_labels, total_cost, viterbi


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
