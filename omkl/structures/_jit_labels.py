"""Calls of a structure's compiled functions; these functions for two and for independent labels.

Compiled losses call :func:`decode`, :func:`marginals` and so on with the address of a
:data:`STRUCTURE`. The functions that a structure brings, and these call, take the address of its
arrays in the place of the structure. Signatures are those of :mod:`omkl.signatures`: ``unary`` is
(n, K), and ``pairwise`` (E, K, K) with E = 0 without pairs of labels.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled
from omkl._pointers import MATRIX, Layout
from omkl.signatures import (
    AUGMENT,
    COST,
    DECODE,
    INDICATE,
    MARGINALS,
    SCORE,
    StructureFunctions,
)


class StructureAddresses(NamedTuple):
    """Addresses of a structure's functions, 0 where a loss calls none, and of its own arrays."""

    decode: int
    marginals: int
    score: int
    indicate: int
    cost: int
    augment: int
    marginals_in_logs: int
    #: First argument of the functions.
    arrays: int


class Labels(NamedTuple):
    """Arrays of structures of labels: ``costs[gold, predicted]`` (K, K)."""

    costs: np.ndarray


#: Address for functions that read no arrays.
NO_ARRAYS = 0
STRUCTURE = Layout(StructureAddresses)
LABELS = Layout(Labels, costs=MATRIX)
structure_at = STRUCTURE.at
labels_at = LABELS.at
call_decode = DECODE.call
call_marginals = MARGINALS.call
call_score = SCORE.call
call_indicate = INDICATE.call
call_cost = COST.call
call_augment = AUGMENT.call


@borrowing
def decode(structure, unary, pairwise, gold, cost_weight, labels):
    """Write the best labels (n,) by score plus weighted cost; return this sum."""
    addresses = structure_at(structure)
    arguments = (addresses.arrays, unary, pairwise, gold, cost_weight, labels)
    return call_decode(addresses.decode, arguments)


@borrowing
def marginals(structure, unary, pairwise, unary_marginals, pair_marginals):
    """Write the marginals of all parts; return log Z, minus infinity if nothing is allowed."""
    addresses = structure_at(structure)
    arguments = (addresses.arrays, unary, pairwise, unary_marginals, pair_marginals)
    log_partition = call_marginals(addresses.marginals, arguments)
    if np.isfinite(log_partition) or addresses.marginals_in_logs == 0:
        return log_partition
    return call_marginals(addresses.marginals_in_logs, arguments)


@borrowing
def score(structure, unary, pairwise, labels):
    """Return the score of labels (n,)."""
    addresses = structure_at(structure)
    return call_score(addresses.score, (addresses.arrays, unary, pairwise, labels))


@borrowing
def indicate(structure, unary, pairwise, labels, amount):
    """Add ``amount`` to every part of the labels (n,)."""
    addresses = structure_at(structure)
    call_indicate(addresses.indicate, (addresses.arrays, unary, pairwise, labels, amount))


@borrowing
def cost(structure, gold, labels):
    """Return the cost of predicted labels (n,); unknown gold labels (-1) cost nothing."""
    addresses = structure_at(structure)
    return call_cost(addresses.cost, (addresses.arrays, gold, labels))


@borrowing
def augment(structure, unary, gold, cost_weight):
    """Add ``cost_weight`` times the cost of each label to its score."""
    addresses = structure_at(structure)
    call_augment(addresses.augment, (addresses.arrays, unary, gold, cost_weight))


@compiled
def refuse_marginals(structure, unary, pairwise, unary_marginals, pair_marginals):
    """Raise an error, in the place of marginals that have not been prepared."""
    if structure >= 0:  # as all addresses are; after a bare `raise` there is no type of the result
        raise AssertionError("`uses_marginals` must be True, since the function calls marginals.")
    return 0.0


# ---- labels with or without pairs ----------------------------------------------------------------


@borrowing
def row_of(pairwise, e):
    """Return the row of edge e in ``pairwise`` (E, K, K), or (1, K, K) if edges share one."""
    return min(e, pairwise.shape[0] - 1)


@compiled(counting=False)
def score_labels(labels_address, unary, pairwise, labels):
    """Return the sum of the potentials of labels (n,)."""
    total = 0.0
    for t in range(labels.shape[0]):
        total += unary[t, labels[t]]
        if t > 0 and pairwise.shape[0] > 0:
            total += pairwise[row_of(pairwise, t - 1), labels[t - 1], labels[t]]
    return total


@compiled(counting=False)
def indicate_labels(labels_address, unary, pairwise, labels, amount):
    """Add ``amount`` to every part of labels (n,)."""
    for t in range(labels.shape[0]):
        unary[t, labels[t]] += amount
        if t > 0 and pairwise.shape[0] > 0:
            pairwise[row_of(pairwise, t - 1), labels[t - 1], labels[t]] += amount


@compiled(counting=False)
def cost_of_labels(labels_address, gold, predicted):
    """Return the sum of ``costs[gold, predicted]`` over positions whose gold label is known."""
    costs = labels_at(labels_address).costs
    total = 0.0
    for t in range(gold.shape[0]):
        if gold[t] >= 0:
            total += costs[gold[t], predicted[t]]
    return total


@compiled(counting=False)
def augment_labels(labels_address, unary, gold, cost_weight):
    """Add ``cost_weight`` times the cost of each label to its score, for known gold labels."""
    costs = labels_at(labels_address).costs
    for t in range(gold.shape[0]):
        if gold[t] >= 0:
            for j in range(unary.shape[1]):
                unary[t, j] += cost_weight * costs[gold[t], j]


# ---- independent labels --------------------------------------------------------------------------


@compiled(counting=False)
def best_label(scores, costs, gold, cost_weight):
    """Return the index of the highest ``scores + cost_weight * costs[gold]``, the first in a tie.

    A gold label of -1 is unknown, and costs nothing.
    """
    best = 0
    highest = -np.inf
    costly = cost_weight != 0.0 and gold >= 0
    for k in range(scores.shape[0]):
        total = scores[k]
        if costly:
            total += cost_weight * costs[gold, k]
        if total > highest:
            highest = total
            best = k
    return best


@compiled(counting=False)
def decode_labels(labels_address, unary, pairwise, gold, cost_weight, labels):
    """Write the best label of each position; return their score and weighted cost."""
    costs = labels_at(labels_address).costs
    total = 0.0
    for t in range(unary.shape[0]):
        labels[t] = best_label(unary[t], costs, gold[t], cost_weight)
        added_cost = 0.0
        if cost_weight != 0.0 and gold[t] >= 0:
            added_cost = cost_weight * costs[gold[t], labels[t]]
        total += unary[t, labels[t]] + added_cost
    return total


@borrowing
def copy(source, target):
    """Copy a vector; assigning a slice would take seconds to compile."""
    for k in range(source.shape[0]):
        target[k] = source[k]


@borrowing
def largest(scores):
    """Return the largest of a vector of scores."""
    highest = -np.inf
    for value in scores:
        highest = value if value > highest else highest
    return highest


@borrowing
def exponentiate(scores, weights):
    """Write ``exp(score - highest score)`` to ``weights``, (n,) as the scores; return the highest.

    Weights are nan if all scores are -inf.
    """
    highest = largest(scores)
    for k in range(scores.shape[0]):
        weights[k] = np.exp(scores[k] - highest)
    return highest


@borrowing
def scale_to_one(weights):
    """Divide weights (any number,) by their sum, if it is positive, in place; return the sum."""
    total = 0.0
    for weight in weights:
        total += weight
    if total > 0.0:
        for k in range(weights.shape[0]):
            weights[k] /= total
    return total


@borrowing
def normalize(logs):
    """Turn logs of weights (any number,) into probabilities, in place; return the log of the sum.

    It is -inf if all weights are zero; there are no probabilities then.
    """
    highest = exponentiate(logs, logs)
    if highest == -np.inf:
        return highest
    return highest + np.log(scale_to_one(logs))


@compiled(counting=False)
def marginals_of_labels(labels_address, unary, pairwise, unary_marginals, pair_marginals):
    """Write the marginals of independent labels; return log Z, -inf if none is allowed."""
    log_partition = 0.0
    for t in range(unary.shape[0]):
        copy(unary[t], unary_marginals[t])
        log_of_sum = normalize(unary_marginals[t])
        if log_of_sum == -np.inf:
            return log_of_sum
        log_partition += log_of_sum
    return log_partition


INDEPENDENT = StructureFunctions(
    decode=decode_labels,
    marginals=marginals_of_labels,
    score=score_labels,
    indicate=indicate_labels,
    cost=cost_of_labels,
    augment=augment_labels,
)

# ---- two labels, which score -z / 2 and z / 2; unary is (1, 1) -----------------------------------


@compiled(counting=False)
def decode_two(no_address, unary, pairwise, gold, cost_weight, labels):
    """Write the best of two labels; return its score and cost."""
    z = unary[0, 0]
    if cost_weight == 0.0:
        labels[0] = z > 0.0
        return (labels[0] - 0.5) * z
    margin = z if gold[0] == 1 else -z
    if margin >= cost_weight:
        labels[0] = gold[0]
        return (labels[0] - 0.5) * z
    labels[0] = 1 - gold[0]
    return (labels[0] - 0.5) * z + cost_weight


@compiled(counting=False)
def marginals_of_two(no_address, unary, pairwise, unary_marginals, pair_marginals):
    """Write the expected part, ``P(1) - 1/2``; return log Z."""
    z = unary[0, 0]
    unary_marginals[0, 0] = 0.5 * np.tanh(0.5 * z)
    return 0.5 * abs(z) + np.log1p(np.exp(-abs(z)))


@compiled(counting=False)
def score_two(no_address, unary, pairwise, labels):
    """Return the score of the label."""
    return (labels[0] - 0.5) * unary[0, 0]


@compiled(counting=False)
def indicate_two(no_address, unary, pairwise, labels, amount):
    """Add ``amount`` times 1/2 for the label 1, and minus that for the label 0."""
    unary[0, 0] += amount * (labels[0] - 0.5)


@compiled(counting=False)
def cost_of_two(no_address, gold, predicted):
    """Return 1 for a wrong label."""
    if gold[0] == predicted[0]:
        return 0.0
    return 1.0


@compiled(counting=False)
def augment_two(no_address, unary, gold, cost_weight):
    """Add ``cost_weight`` to the score of the wrong label, up to a constant."""
    if gold[0] == 1:
        unary[0, 0] -= cost_weight
    else:
        unary[0, 0] += cost_weight


TWO_LABELS = StructureFunctions(
    decode=decode_two,
    marginals=marginals_of_two,
    score=score_two,
    indicate=indicate_two,
    cost=cost_of_two,
    augment=augment_two,
)
