"""Proximity operator of the squared l1 norm; the floor reads and writes the norms, the peer sorts
by numpy.
"""

import numpy as np
import pytest

from omkl.regularizers import L21, SquaredL21
from tests.benchmarks.measuring import stream


def by_sorting(norms, step):
    """Sort all norms to find the threshold, as in the papers."""
    order = np.sort(norms)[::-1]
    sums = step * np.cumsum(order) / (1.0 + step * np.arange(1, len(order) + 1))
    return np.maximum(norms - sums[np.count_nonzero(order > sums) - 1], 0.0)


@pytest.mark.parametrize(
    "p",
    [
        100,
        1000,
        10_000,
        100_000,
        *(pytest.param(p, marks=pytest.mark.large) for p in (10**6, 10**7)),
    ],
)
@pytest.mark.parametrize("regularizer", [SquaredL21(), L21()], ids=["squared-l1", "l1"])
def test_prox(measure, p, regularizer):
    norms = np.random.default_rng(0).exponential(size=p)
    peers = (
        {"numpy": lambda: lambda: by_sorting(norms, 0.01)}
        if isinstance(regularizer, SquaredL21)
        else {}
    )
    measure(lambda: regularizer.prox(norms, 0.01), floor=stream(16 * p), peers=peers, size=p)
