"""Examples a second of explicit groups in a stream of sparse blocks, beside SGD and the traffic in memory itself."""

import time

import numpy as np
import pytest
from numba import njit
from scipy import sparse
from sklearn.linear_model import SGDClassifier, SGDRegressor

from omkl import OnlineMKLClassifier, OnlineMKLRegressor

N, BLOCK, NONZEROS, COLUMNS, GROUPS = 20_000, 1000, 100, 100_000, 10


@njit(nogil=True)
def touch_twice(starts, ids, values, table, sums):
    """What no learner with an average is spared: read the weights of all non-zeros, change them and their sums."""
    total = 0.0
    for i in range(starts.shape[0] - 1):
        score = 0.0
        for q in range(starts[i], starts[i + 1]):
            score += values[q] * table[ids[q]]
        for q in range(starts[i], starts[i + 1]):
            table[ids[q]] -= 1e-9 * values[q]
            sums[ids[q]] += 1e-9 * values[q]
        total += score
    return total


@pytest.fixture(scope="module")
def blocks():
    """``(X, label, target)`` of 1000 rows each; the first three of ten groups of columns tell."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, COLUMNS, size=N * NONZEROS)
    X = sparse.csr_matrix((rng.normal(size=N * NONZEROS), ids, np.arange(0, N * NONZEROS + 1, NONZEROS)), (N, COLUMNS))
    X.sum_duplicates()
    y = X @ np.where(np.arange(COLUMNS) < COLUMNS * 3 // GROUPS, rng.normal(size=COLUMNS), 0.0)
    return [(X[s : s + BLOCK], (y[s : s + BLOCK] > 0).astype(int), y[s : s + BLOCK]) for s in range(0, N, BLOCK)]


def seconds(run, blocks):
    """CPU seconds over all blocks but the first, which compiles and allocates."""
    run(blocks[0])
    started = time.process_time()
    for block in blocks[1:]:
        run(block)
    return time.process_time() - started


def floor(blocks):
    table, sums = np.zeros(COLUMNS), np.zeros(COLUMNS)
    return seconds(lambda b: touch_twice(b[0].indptr, b[0].indices, b[0].data, table, sums), blocks)


def train(make, kind):
    model = make()
    declared = {"classes": [0, 1]} if kind == "classifier" else {}
    target = 1 if kind == "classifier" else 2

    def run(block):
        first = {} if hasattr(model, "n_features_in_") else declared
        model.partial_fit(block[0], block[target], **first)

    return run


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_throughput_of_explicit_groups(benchmark, kind, blocks):
    width = COLUMNS // GROUPS
    kernels = {f"columns {k}": f"linear:on={k * width}:{(k + 1) * width}" for k in range(GROUPS)}
    ours, peer = (OnlineMKLClassifier, SGDClassifier) if kind == "classifier" else (OnlineMKLRegressor, SGDRegressor)
    figures = {"omkl": [], "SGD": [], "floor": []}

    def run():
        figures["omkl"].append(seconds(train(lambda: ours(kernels, verbose=False), kind), blocks))
        figures["SGD"].append(seconds(train(lambda: peer(average=True), kind), blocks))
        figures["floor"].append(floor(blocks))

    benchmark.pedantic(run, rounds=7)
    micro = {name: min(found) / (N - BLOCK) * 1e6 for name, found in figures.items()}
    print(
        f"\n{kind}: {micro['omkl']:.1f} us an example, {1e3 / micro['omkl']:.0f} k a second; "
        f"{micro['omkl'] / micro['floor']:.1f} x the floor ({micro['floor']:.2f} us), "
        f"{micro['omkl'] / micro['SGD']:.1f} x scikit-learn's SGD ({micro['SGD']:.2f} us)"
    )
    benchmark.extra_info.update(micro)
