"""Trees, one sentence a call, against other libraries; the floors read the scores, or invert a
matrix.
"""

from itertools import cycle

import numpy as np
import pytest

from omkl.structures import NonProjectiveTree, ProjectiveTree
from tests.benchmarks.measuring import Floor, product, stream

SIZES = [10, 20, 40, 80, 160]


def sentences(n, count=50):
    rng = np.random.default_rng(n)
    return [rng.normal(size=(n + 1, n + 1)) for _ in range(count)]


def nested_cycles(n):
    """Scores with the deepest nesting of cycles: each contraction adds one token."""
    scores = np.full((n + 1, n + 1), -1e6)
    for m in range(1, n):
        scores[m, m + 1] = 10 * n - m
        scores[m + 1, 1 : m + 1] = -20 * n * m + np.arange(m)
    scores[2, 1] = 10 * n
    return [scores]


def one_after_the_other(function, scores):
    following = cycle(scores).__next__
    return lambda: function(following())


def by_ufal(scores):
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    return one_after_the_other(chu_liu_edmonds, [np.ascontiguousarray(S.T) for S in scores])


def by_networkx(scores):
    import networkx

    graphs = []
    for S in scores[:3]:
        arcs = ((h, m, s) for (h, m), s in np.ndenumerate(S) if m and h != m)
        graphs.append(networkx.DiGraph())
        graphs[-1].add_weighted_edges_from(arcs)
    return one_after_the_other(networkx.maximum_spanning_arborescence, graphs)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["one root", "any roots", "nested"])
def test_chu_liu_edmonds(measure, kind, n):
    scores = nested_cycles(n) if kind == "nested" else sentences(n)
    peers = {"ufal": lambda: by_ufal(scores)}
    if n <= 40:
        peers["networkx"] = lambda: by_networkx(scores)
    decode = NonProjectiveTree(kind != "any roots").decode
    peers = peers if kind == "any roots" else {}
    measure(
        one_after_the_other(decode, scores), floor=stream(8 * (n + 1) ** 2), peers=peers, size=n
    )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["one root", "any roots"])
def test_matrix_tree(measure, kind, n):
    scores = sentences(n)
    inverse = Floor("inverse", lambda: np.linalg.inv(scores[0][1:, 1:]))
    measure(
        one_after_the_other(NonProjectiveTree(kind == "one root").marginals, scores),
        floor=inverse,
        size=n,
    )


@pytest.mark.parametrize("n", [20, 40, 80])
@pytest.mark.parametrize("what", ["decode", "marginals"])
def test_projective(measure, what, n):
    floor = product(n, n, n, np.float64)
    measure(one_after_the_other(getattr(ProjectiveTree(), what), sentences(n)), floor=floor, size=n)
