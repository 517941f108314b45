"""Marginals of a second-order chain in log space: slow, but accurate at any magnitude.

The compiled program adds up weights. It gives no result if a weight that underflows might matter;
this function is the fallback.
"""

import numpy as np

from omkl.structures._jit_chain import forward_backward_in_logs
from omkl.structures._jit_labels import NO_ARRAYS

log_sum = np.logaddexp.reduce


def second_order_chain(
    unary: np.ndarray,
    pairwise: np.ndarray,
    triples: np.ndarray,
    unary_marginals: np.ndarray,
    pairwise_marginals: np.ndarray,
    triple_marginals: np.ndarray,
) -> float:
    """Return log Z of a second-order chain, -inf if no labelling is allowed; write marginals.

    Potentials and marginals are ``unary`` (n, K), ``pairwise`` (1, K, K) and ``triples`` (K, K, K).
    """
    n = len(unary)
    if n == 1:
        arrays = (unary, pairwise, unary_marginals, pairwise_marginals)
        return forward_backward_in_logs(NO_ARRAYS, *arrays)
    forward = pairwise + unary[1:, None]  # for the pairs that end at positions 1 .. n - 1
    local = forward.copy()
    backward = np.zeros_like(forward)
    forward[0] += unary[0][:, None]
    for t in range(1, n - 1):
        forward[t] += log_sum(forward[t - 1][:, :, None] + triples, axis=0)
    for t in range(n - 3, -1, -1):
        backward[t] = log_sum(triples + local[t + 1] + backward[t + 1], axis=2)
    log_partition = float(log_sum(forward[-1], axis=None))
    if log_partition == -np.inf:
        return log_partition
    for t in range(n - 1):
        pairs = _probabilities(forward[t] + backward[t])
        pairwise_marginals[0] += pairs
        unary_marginals[t] = pairs.sum(axis=1)
        unary_marginals[t + 1] = pairs.sum(axis=0)
        if t > 0:
            before = forward[t - 1][:, :, None]
            triple_marginals += _probabilities(before + triples + local[t] + backward[t])
    return log_partition


def _probabilities(logs: np.ndarray) -> np.ndarray:
    """Return the softmax: exponentials, scaled to sum to 1."""
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()
