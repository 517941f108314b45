"""The loss of an example of any structure, for compiled passes; see :mod:`omkl.losses.structured` for the formulas."""

import numpy as np

from omkl._compilation import inner
from omkl.losses._jit_losses import CRF, PERCEPTRON, SOFTMAX_MARGIN, loss_of_binary, loss_of_number
from omkl.structures._jit_chain import BINARY, add_indicator, marginals, score_labels, total_cost, viterbi


@inner
def agreeing(unary, gold):
    """Return scores that forbid labels which disagree with the known labels of ``gold``."""
    own = unary.copy()
    for t in range(len(gold)):
        for j in range(own.shape[1]):
            if gold[t] >= 0 and j != gold[t]:
                own[t, j] = -np.inf
    return own


@inner
def room_for(pairs):
    """Return working memory for pairs of labels."""
    if pairs is None:
        return np.empty((0, 0, 0))
    return np.empty(pairs.shape)


@inner
def subtract_pairs(pairs, others):
    """Subtract ``others`` from ``pairs`` in place."""
    if pairs is None:
        return
    for t in range(pairs.shape[0]):
        for i in range(pairs.shape[1]):
            for j in range(pairs.shape[2]):
                pairs[t, i, j] -= others[t, i, j]


@inner
def loss_of(rules, codes, numbers, first, last, unary, pairwise, gradient, pair_gradient, labels):
    """Write the gradient of the loss of an example; return the value, and whether there is a gradient.

    ``rules`` has the kinds of structure and loss, ``codes`` or ``numbers`` the gold outputs from ``first`` to ``last``;
    the other is None. ``labels`` is working memory for the labels of the tokens. All structures share this function:
    each further layer of calls would be compiled once more.
    """
    kind, cost_weight, costs = rules.loss, rules.loss_parameter, rules.costs
    if numbers is not None:
        loss, gradient[0, 0] = loss_of_number(unary[0, 0], numbers[first], kind, cost_weight)
        return loss, gradient[0, 0] != 0.0
    if codes is None:  # then Numba does not compile what follows
        return 0.0, False
    gold = codes[first:last]
    if pairwise is None and rules.structure == BINARY:
        loss, gradient[0, 0], moves = loss_of_binary(unary[0, 0], gold[0], kind, cost_weight)
        return loss, moves
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
        expected, expected_pairs = np.empty(gradient.shape), room_for(pair_gradient)
        gold_score = marginals(agreeing(augmented, gold), pairwise, expected, expected_pairs)
        # elements one by one: Numba takes seconds to compile an operation on arrays in place
        for t in range(gradient.shape[0]):
            for j in range(gradient.shape[1]):
                gradient[t, j] -= expected[t, j]
        subtract_pairs(pair_gradient, expected_pairs)
        return max(log_partition - gold_score, 0.0), True
    gradient[:] = 0.0
    if pair_gradient is not None:
        pair_gradient[:] = 0.0
    viterbi(unary, pairwise, costs, gold, 0.0 if kind == PERCEPTRON else cost_weight, labels)
    known = gold.copy()
    if partial:
        viterbi(agreeing(unary, gold), pairwise, costs, gold, 0.0, known)
    if kind == PERCEPTRON:
        n_wrong = 0
        for t in range(len(labels)):
            n_wrong += labels[t] != known[t]
        if n_wrong == 0:
            return 0.0, False
    value = score_labels(unary, pairwise, labels) - score_labels(unary, pairwise, known)
    add_indicator(gradient, pair_gradient, labels, 1.0)
    add_indicator(gradient, pair_gradient, known, -1.0)
    if kind == PERCEPTRON:
        return max(value, 0.0), True
    value += cost_weight * total_cost(costs, gold, labels)
    return (value, True) if not value <= 0.0 else (0.0, False)
