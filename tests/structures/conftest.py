"""Dependency trees by enumeration, for the tests of both tree structures."""

from functools import cache
from itertools import product

import numpy as np

from omkl.structures import ProjectiveTree


def reaches_root(heads, m):
    for _ in heads:
        m = heads[m - 1] if m else 0
    return m == 0


def is_projective(heads):
    """Every token between the ends of an arc descends from its head."""
    for m, h in enumerate(heads, 1):
        for between in range(min(h, m) + 1, max(h, m)):
            while between not in (0, h):
                between = heads[between - 1]
            if between != h:
                return False
    return True


@cache
def enumerate_trees(n, single_root, projective):
    trees = [
        heads
        for heads in product(range(n + 1), repeat=n)
        if all(reaches_root(heads, m) for m in range(1, n + 1))
        and (not single_root or heads.count(0) == 1)
        and (not projective or is_projective(heads))
    ]
    return np.array(trees)


class Trees:
    """All trees over n tokens that a structure allows, and what they score."""

    def __init__(self, n, structure):
        projective = isinstance(structure, ProjectiveTree)
        self.heads = enumerate_trees(n, structure.single_root, projective)
        self.tokens = np.arange(1, n + 1)

    def __contains__(self, heads):
        return bool((self.heads == heads).all(axis=1).any())

    def scores(self, arc_scores):
        return arc_scores[self.heads, self.tokens].sum(axis=1)

    def marginals(self, arc_scores):
        scores = self.scores(arc_scores)
        log_partition = scores.max() + np.log(np.exp(scores - scores.max()).sum())
        expected = np.zeros(arc_scores.shape)
        probabilities = np.exp(scores - scores.max())
        for heads, probability in zip(self.heads, probabilities / probabilities.sum()):
            expected[heads, self.tokens] += probability
        return log_partition, expected


def draw_scores(seed, n, kind, scale=1.0):
    """Draw arc scores, with NaN where they are not used: in column 0 and on the diagonal."""
    rng = np.random.default_rng(seed)
    scores = scale * rng.normal(size=(n + 1, n + 1))
    if kind == "ties":
        scores = scale * rng.integers(-1, 2, size=scores.shape).astype(float)
    if kind == "forbidden":
        scores[rng.random(scores.shape) < 0.5] = -np.inf
    if kind == "rooted":  # every token prefers the root as its head
        scores[0] += 3.0 * scale
    if kind == "cyclic":  # no token prefers the root
        scores[0] -= 30.0 * scale
    scores[:, 0] = np.nan
    np.fill_diagonal(scores, np.inf)
    return scores
