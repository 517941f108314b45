"""What is kept of compiled loops: where it cannot be, and where it is damaged, they are compiled anew."""

import errno
import importlib.util
import warnings
from collections.abc import Callable

import numba
import numpy as np
import pytest
from numba.core.caching import CacheImpl

from omkl._compilation import _Files, _Kept, _warn
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
    _warn.cache_clear()
    (tmp_path / "loops.py").write_text(SOURCE)

    def loaded():
        spec = importlib.util.spec_from_file_location("loops", tmp_path / "loops.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.total

    return loaded


def hits(total):
    return sum(total.stats.cache_hits.values())


def test_the_next_process_compiles_nothing(load):
    for kind in (np.float64, np.int64):
        assert load()(np.arange(4, dtype=kind)) == 6
    total = load()
    assert [total(np.arange(5.0)), total(np.arange(5))] == [10, 10]
    assert hits(total) == 2


def test_without_a_directory_one_warning_says_what_to_do(load, monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    with pytest.warns(CompilationWarning, match="NUMBA_CACHE_DIR"):
        total = load()
    assert total(np.arange(4.0)) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load()(np.arange(4.0)) == 6


def test_a_full_disk_costs_time_alone(load, monkeypatch):
    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    total = load()
    monkeypatch.setattr(_Files, "_open_for_write", full)
    with pytest.warns(CompilationWarning, match="No space left on device"):
        assert total(np.arange(4.0)) == 6
    monkeypatch.undo()
    assert load()(np.arange(4.0)) == 6


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0, 1, 40])
def test_damaged_files_are_compiled_anew_and_mended(load, tmp_path, suffix, left):
    load()(np.arange(4.0))
    [path] = (tmp_path / "cache").rglob(f"*.{suffix}")
    path.write_bytes(path.read_bytes()[:left])
    assert load()(np.arange(4.0)) == 6
    total = load()
    assert total(np.arange(4.0)) == 6
    assert hits(total) == 1


def test_two_processes_at_once_keep_two_files(load, tmp_path, monkeypatch):
    """Both have read an index without entries before either writes."""
    first, second = load(), load()
    with monkeypatch.context() as patch:
        patch.setattr(_Files, "_load_index", lambda self: {})
        first(np.arange(4.0))
        second(np.arange(4))
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 2
    total = load()
    assert [total(np.arange(5.0)), total(np.arange(5))] == [10, 10]
    assert [type(total(np.arange(5.0))), type(total(np.arange(5)))] == [float, int]


def test_what_an_older_source_has_left_is_never_called(load, tmp_path):
    load()(np.arange(4.0))
    (tmp_path / "loops.py").write_text(SOURCE.replace("s += x[i]", "s -= x[i]"))
    total = load()
    cache = total._cache
    assert isinstance(cache, _Kept)
    # an index that is written, of a process that is killed before it writes what is compiled
    old = next((tmp_path / "cache").rglob("*.nbc")).read_bytes()
    assert total(np.arange(4.0)) == -6
    for path in (tmp_path / "cache").rglob("*.nbc"):
        if path.read_bytes() != old:
            path.unlink()
    assert load()(np.arange(4.0)) == -6
