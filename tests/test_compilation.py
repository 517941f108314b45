"""The cache of compiled loops."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import CacheImpl, UserProvidedCacheLocator

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
