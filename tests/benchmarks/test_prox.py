"""Proximal step of the squared l1 norm: sorting against pivoting, and against the bandwidth floor."""

import numpy as np
import pytest

from omkl.regularizers import SquaredL21
from omkl.regularizers._jit_prox import INSERTION_BELOW, threshold_by_pivoting, threshold_by_sorting


@pytest.mark.parametrize("p", [4, 8, 16, 32, 64, 507, 3000, 100_000])
@pytest.mark.parametrize("method", ["sorting", "pivoting"])
def test_threshold(benchmark, p, method):
    norms, ones = np.random.default_rng(0).exponential(size=p), np.ones(p)
    benchmark.group = f"squared l1 threshold, p = {p} (sorting below {INSERTION_BELOW})"
    if method == "sorting":
        benchmark(threshold_by_sorting, norms, ones, 0.01)
    else:
        benchmark(threshold_by_pivoting, norms, ones, 0.01, p)


@pytest.mark.parametrize("p", [4, 507])
def test_prox_as_the_trainer_calls_it(benchmark, p):
    norms = np.random.default_rng(0).exponential(size=p)
    benchmark.group = "SquaredL21.prox"
    benchmark(SquaredL21().prox, norms, 0.01)
