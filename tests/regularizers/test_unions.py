"""Overlapping unions: the interior-point method against block coordinate ascent and a generic solver."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl.regularizers import OverlappingGroups, interior_point
from omkl.regularizers.interior_point import Unions, dual_norm_of_unions, prox_of_unions


def random_unions(seed):
    """Unions with weights, and a vector that is 0 outside of them; some are doubled, some have ties or huge ranges."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    groups = [rng.choice(n, rng.integers(1, min(n, 8) + 1), replace=False).tolist() for _ in range(rng.integers(1, 18))]
    groups += groups[: rng.integers(0, 3)]
    spread = rng.choice([0.0, 1.0, 3.0, 6.0])
    weights = 10.0 ** rng.uniform(-spread, spread, len(groups))
    y = rng.normal(size=n) * 10.0 ** rng.uniform(-spread, spread, n)
    y = np.ones(n) if rng.random() < 0.2 else y
    y[np.setdiff1d(np.arange(n), np.concatenate(groups))] = 0.0
    return groups, weights, y


def in_rows(groups, weights):
    starts = np.cumsum([0, *map(len, groups)])
    return Unions(starts, np.concatenate(groups).astype(np.int64), weights)


@pytest.mark.parametrize("seed", range(4))
def test_dual_norm_and_prox_are_those_of_a_generic_solver(seed):
    rng = np.random.default_rng(seed)
    groups = [rng.choice(9, 4, replace=False).tolist() for _ in range(6)]
    weights, y = rng.uniform(0.5, 2, 6), rng.normal(size=9) * 4
    y[np.setdiff1d(np.arange(9), np.concatenate(groups))] = 0.0
    x = cp.Variable(9)
    value = sum(w * cp.norm(x[group], 2) for w, group in zip(weights, groups))
    found = dual_norm_of_unions(y, in_rows(groups, weights))
    assert_allclose(found, cp.Problem(cp.Maximize(y @ x), [value <= 1]).solve(solver=cp.CLARABEL), rtol=1e-6)
    cp.Problem(cp.Minimize(value + 0.5 * cp.sum_squares(x - y))).solve(solver=cp.CLARABEL)
    assert_allclose(prox_of_unions(y, in_rows(groups, weights)), x.value, atol=1e-4)


@given(seed=st.integers(0, 10**9))
def test_sweeps_and_interior_points_meet(seed):
    groups, weights, y = random_unions(seed)
    swept = OverlappingGroups(groups, weights, exact=True).prox(y, 1.0)
    assert_allclose(prox_of_unions(y, in_rows(groups, weights)), swept, rtol=0, atol=1e-8 * np.abs(y).max())


@given(seed=st.integers(0, 10**9))
def test_the_prox_is_zero_up_to_the_dual_norm_and_no_further(seed):
    """Beyond it, ``y'x / R(x)`` of the prox bounds the dual norm from below."""
    groups, weights, y = random_unions(seed)
    own = in_rows(groups, weights)
    norm = dual_norm_of_unions(y, own)
    if norm > 0:
        assert not prox_of_unions((1 - 1e-9) / norm * y, own).any()
        x = prox_of_unions((1 + 1e-3) / norm * y, own)
        bound = y @ x / OverlappingGroups(groups, weights).value(x)
        assert norm * (1 - 2e-3) <= bound <= norm * (1 + 1e-9)


def test_many_unions_have_sparse_systems(monkeypatch):
    rng = np.random.default_rng(0)
    groups = [list(range(3 * g, 3 * g + 5)) for g in range(60)]
    y, own = 3 * rng.normal(size=182), in_rows(groups, np.ones(60))
    dense = dual_norm_of_unions(y, own), prox_of_unions(y, own)
    monkeypatch.setattr(interior_point, "MANY_UNIONS", 10)
    assert_allclose(dual_norm_of_unions(y, own), dense[0], rtol=1e-9)
    assert_allclose(prox_of_unions(y, own), dense[1], atol=1e-8)
