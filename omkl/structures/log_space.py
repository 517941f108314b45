"""Marginals in log space: slow, but accurate at any magnitude of the potentials.

The compiled programs add up weights. They give no result if a weight that underflows might matter;
these functions are the fallback. Each writes marginals into arrays of zeros and returns log Z.
"""

from typing import NamedTuple

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


def arborescences(
    scores: np.ndarray, best: np.ndarray, single_root: bool, expected: np.ndarray
) -> float:
    """Sum over trees; ``best`` (n,) are the heads of a tree of the highest score.

    ``scores`` and ``expected`` are (n + 1, n + 1), by head and modifier. For each modifier all
    other tokens are eliminated, as in the compiled program. For a single root child, arcs from the
    root get a tiny weight, which makes trees with several of them negligible.
    """
    n = len(scores) - 1
    weights, shift = _relative_to_the_best_heads(scores)
    if single_root:
        # of at most (n + 1)^n trees, those with two such arcs weigh less than e^-40 of the best one
        far = 40.0 + n * np.log(n + 1.0) - weights[best, np.arange(1, n + 1)].sum()
        weights[0] -= far
        shift += far
    log_partition = 0.0
    for m in range(1, n + 1):
        eliminated, log_pivots = _eliminate_all_but(m, weights)
        # log-probability that a walk to heads meets the root before m
        to_root = np.full(n + 1, -np.inf)
        to_root[0] = 0.0
        for step in reversed(eliminated):
            to_root[step.token] = log_sum(step.passing + to_root[step.remaining])
        arriving = weights[:, m] + to_root
        expected[:, m] = _probabilities(arriving)
        log_partition = shift + log_pivots + float(log_sum(arriving))
    return log_partition


class Elimination(NamedTuple):
    """Elimination of a token from a graph.

    ``passing`` (r,) are the log-probabilities of its heads, the ``remaining`` tokens.
    """

    token: int
    remaining: list[int]
    passing: np.ndarray


def _eliminate_all_but(m: int, weights: np.ndarray) -> tuple[list[Elimination], float]:
    """Eliminate all tokens but the root and m from a graph with these log-weights (n + 1, n + 1).

    Return the eliminations in their order, and the sum of the logarithms of the pivots.
    """
    graph = weights.copy()
    others = [k for k in range(1, len(graph)) if k != m]
    eliminations = []
    log_pivots = 0.0
    for i, k in enumerate(others):
        remaining = [0, m, *others[i + 1 :]]
        pivot = log_sum(graph[remaining, k])
        passing = graph[remaining, k] - pivot
        block = np.ix_(remaining, remaining)
        graph[block] = np.logaddexp(graph[block], passing[:, None] + graph[k, remaining])
        eliminations.append(Elimination(token=k, remaining=remaining, passing=passing))
        log_pivots += pivot
    return eliminations, log_pivots


def _probabilities(logs: np.ndarray) -> np.ndarray:
    """Return the softmax: exponentials, scaled to sum to 1."""
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def _relative_to_the_best_heads(scores: np.ndarray) -> tuple[np.ndarray, float]:
    """Return arc scores less the highest of their column, and the sum of these maxima.

    They are -inf where there is no arc. Scores are (n + 1, n + 1), by head and modifier.
    """
    weights = scores.copy()
    weights[:, 0] = -np.inf
    np.fill_diagonal(weights, -np.inf)
    highest = weights[:, 1:].max(axis=0)
    weights[:, 1:] -= highest
    return weights, float(highest.sum())
