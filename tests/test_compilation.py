"""The cache of compiled loops, and that of recently used entries against a naive one."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import CacheImpl, UserProvidedCacheLocator

from omkl._cache import RecentlyUsed
from omkl.exceptions import CompilationWarning

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")

SOURCE = """
from omkl._compilation import compiled

@compiled
def total(x):
    s = x[0]
    for i in range(1, len(x)):
        s += x[i]
    return s
"""


@pytest.fixture
def load(tmp_path, monkeypatch) -> Callable:
    """Import a module of one compiled loop anew, as another process would."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "loops.py").write_text(SOURCE)

    def loaded():
        spec = importlib.util.spec_from_file_location("loops", tmp_path / "loops.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.total

    return loaded


def test_second_process_reads_the_cache(load):
    for kind in (np.float64, np.int64):
        assert load()(np.arange(4, dtype=kind)) == 6
    total = load()
    assert [total(np.arange(5.0)), total(np.arange(5))] == [10, 10]
    assert sum(total.stats.cache_hits.values()) == 2


def test_cache_is_temporary_where_no_directory_can_be_written(load, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(CacheImpl, "_locator_classes", [UserProvidedCacheLocator])
    with pytest.warns(CompilationWarning, match="NUMBA_CACHE_DIR"):
        total = load()
    assert total(np.arange(4.0)) == 6
    assert list(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbc"))
    assert load()(np.arange(4.0)) == 6


@pytest.mark.parametrize("capacity", [1, 3, 8])
def test_places_hold_the_most_recently_used(capacity, rng):
    recent, held, order = RecentlyUsed(capacity), [None] * capacity, []

    def fill(keys, indices):
        assert not set(keys) & set(order[-capacity:])
        for key, index in zip(keys, indices):
            held[index] = key

    for _ in range(300):
        keys = rng.permutation(10)[: rng.integers(1, capacity + 1)].tolist()
        indices = recent.indices(keys, fill)
        assert [held[index] for index in indices] == keys
        # within one call, known keys count as used before new ones
        known = [key for key in keys if key in order[-capacity:]]
        order = [key for key in order if key not in keys] + known + [key for key in keys if key not in known]
        assert {key for key in range(10) if key in recent} == set(order[-capacity:])
    assert sorted(key for key in held if key is not None) == sorted(key for key in range(10) if key in recent)


def test_what_could_not_be_filled_is_not_known():
    recent, held = RecentlyUsed(2), [None, None]

    def fill(keys, indices):
        for key, index in zip(keys, indices):
            held[index] = 1 / key

    recent.indices([1, 2], fill)
    with pytest.raises(ZeroDivisionError):
        recent.indices([0], fill)
    assert 0 not in recent
    assert [held[index] for index in recent.indices([2, 4], fill)] == [0.5, 0.25]
    assert np.all([held[index] for index in recent.indices([4, 2], fill)] == np.array([0.25, 0.5]))
