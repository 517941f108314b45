"""Trees: microseconds a sentence, calls from Python included, and ratios to a graph library and to a matrix inverse."""

import time
from itertools import cycle

import networkx as nx
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from omkl.structures import NonProjectiveTree, ProjectiveTree

#: Medians to reach on random normal scores, in microseconds.
DECODING = {10: 8, 20: 13, 40: 27, 80: 70, 160: 340}
MARGINALS = {20: 60, 40: 150}


def sentences(n, count=50):
    rng = np.random.default_rng(n)
    return [rng.normal(size=(n + 1, n + 1)) for _ in range(count)]


def median_microseconds(function, arguments, repeats=5):
    function(arguments[0])  # compiles
    seconds = []
    for argument in arguments * repeats:
        start = time.perf_counter()
        function(argument)
        seconds.append(time.perf_counter() - start)
    return 1e6 * float(np.median(seconds))


def run(benchmark, function, n, group):
    scores = sentences(n)
    function(scores[0])
    following = cycle(scores).__next__
    benchmark.group = group
    benchmark(lambda: function(following()))


@pytest.mark.parametrize("n", DECODING)
@pytest.mark.parametrize("single_root", [True, False])
def test_decoding(benchmark, n, single_root):
    run(benchmark, NonProjectiveTree(single_root).decode, n, f"decode, n = {n} (target {DECODING[n]} us)")


@pytest.mark.parametrize("n", DECODING)
@pytest.mark.parametrize("single_root", [True, False])
def test_marginals(benchmark, n, single_root):
    run(benchmark, NonProjectiveTree(single_root).marginals, n, f"marginals, n = {n} (target {MARGINALS.get(n, '-')})")


@pytest.mark.parametrize("n", [20, 40])
@pytest.mark.parametrize("what", ["decode", "marginals"])
def test_projective(benchmark, n, what):
    run(benchmark, getattr(ProjectiveTree(), what), n, f"projective {what}, n = {n}")


def test_medians_and_ratios_of_one_run(capsys):
    """Everything side by side; also the deepest nesting of cycles, where each contraction takes in one token."""
    rows = [
        f"{'n':>4} {'decode':>8} {'multi':>8} {'nested':>8} {'target':>8} {'marginals':>10} {'inverse':>8} {'ratio':>6}"
    ]
    for n in DECODING:
        scores = sentences(n)
        single = median_microseconds(NonProjectiveTree().decode, scores)
        multi = median_microseconds(NonProjectiveTree(False).decode, scores)
        nested = median_microseconds(NonProjectiveTree().decode, [nested_cycles(n)], 50)
        marginals = median_microseconds(NonProjectiveTree().marginals, scores)
        with threadpool_limits(1):
            inverse = median_microseconds(np.linalg.inv, [s[1:, 1:] for s in scores])
        rows.append(
            f"{n:>4} {single:>8.1f} {multi:>8.1f} {nested:>8.1f} {DECODING[n]:>8} "
            f"{marginals:>10.1f} {inverse:>8.1f} {marginals / inverse:>6.1f}"
        )
    scores = sentences(40, 3)
    decoding = median_microseconds(NonProjectiveTree(False).decode, scores, 30)
    arborescence = median_microseconds(nx.maximum_spanning_arborescence, [as_graph(s) for s in scores], 1)
    rows.append(f"n = 40: networkx takes {arborescence:.0f} us, {arborescence / decoding:.0f} times as long")
    with capsys.disabled():
        print("\n" + "\n".join(rows))


def nested_cycles(n):
    scores = np.full((n + 1, n + 1), -1e6)
    for m in range(1, n):
        scores[m, m + 1] = 10 * n - m
        scores[m + 1, 1 : m + 1] = -20 * n * m + np.arange(m)
    scores[2, 1] = 10 * n
    return scores


def as_graph(scores):
    graph = nx.DiGraph()
    n = len(scores) - 1
    arcs = ((h, m, scores[h, m]) for h in range(n + 1) for m in range(1, n + 1) if h != m)
    graph.add_weighted_edges_from(arcs)
    return graph
