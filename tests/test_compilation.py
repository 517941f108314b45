"""The cache of compiled loops, and that of recently used entries against a naive one."""

import gc
import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import CacheImpl, UserProvidedCacheLocator

from omkl import _compilation
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

#: Two files; functions of the second use a function, a number, a layout and an intrinsic of the
#: first.
HELPERS = """
from typing import NamedTuple
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from omkl._compilation import inner
from omkl._pointers import FLOAT, INTEGER, Layout

SIZE = 3

class Pair(NamedTuple):
    first: float
    second: float
    count: int

PAIR = Layout(Pair, first=FLOAT, second=FLOAT, count=INTEGER)
pair_at = PAIR.at

@inner
def scaled(x):
    return 2.0 * x

@intrinsic
def forty(typing_context):
    def generate(context, builder, signature, arguments):
        return ir.Constant(ir.DoubleType(), 40.0)
    return types.float64(), generate
"""
USERS = """
from omkl._compilation import compiled, inner
from omkl_helpers import SIZE, forty, pair_at, scaled

@inner
def scaled_by_size(x):
    return scaled(x) * SIZE

@compiled
def scale(x):
    return scaled_by_size(x)

@compiled
def read(address):
    return pair_at(address).second

@compiled
def constant():
    return forty()

@compiled
def alone(x):
    return x + 1.0

@compiled
def first(pair):
    return pair.first
"""
#: Loads a file of the first kind when it is told to, and sums numbers; prints the sum and how many
#: functions it read.
RACER = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("loops", sys.argv[1])
sys.modules["loops"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print("ready", flush=True)
sys.stdin.readline()
total = module.total(np.arange(5.0))
print(total, sum(module.total.stats.cache_hits.values()))
"""


@pytest.fixture
def load(tmp_path, monkeypatch) -> Callable:
    """Import a module of one compiled loop anew, as another process would."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "loops.py").write_text(SOURCE)

    def loaded():
        spec = importlib.util.spec_from_file_location("loops", tmp_path / "loops.py")
        module = importlib.util.module_from_spec(spec)
        # what is cached names its module, which must be known where it is read
        monkeypatch.setitem(sys.modules, "loops", module)
        spec.loader.exec_module(module)
        return module.total

    return loaded


def test_second_process_reads_the_cache(load):
    for kind in (np.float64, np.int64):
        assert load()(np.arange(4, dtype=kind)) == 6
    gc.collect()  # as in another process, nothing of the first functions is left
    total = load()
    assert total(np.arange(5.0)) == 10
    assert total(np.arange(5)) == 10
    assert sum(total.stats.cache_hits.values()) == 2


@pytest.fixture
def load_users(tmp_path, monkeypatch) -> Callable:
    """Import two modules anew, as another process would, with other text in the first or the
    second.
    """
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "omkl_helpers.py").write_text(HELPERS)
    (tmp_path / "omkl_users.py").write_text(USERS)

    def loaded(old="", new="", file="omkl_helpers.py"):
        if old:
            text = (tmp_path / file).read_text()
            assert old in text
            (tmp_path / file).write_text(text.replace(old, new))
        for name in ("omkl_helpers", "omkl_users"):
            sys.modules.pop(name, None)
        _compilation._source_of_module.cache_clear()
        importlib.invalidate_caches()
        return importlib.import_module("omkl_users"), importlib.import_module("omkl_helpers")

    yield loaded
    for name in ("omkl_helpers", "omkl_users"):
        sys.modules.pop(name, None)


def results_and_hits(users, helpers):
    """Call all functions of the two modules; return their results, and whether each was read from
    the cache.
    """
    packed = helpers.PAIR.pack(helpers.Pair(first=1.5, second=2.5, count=7))
    results = {
        "scale": users.scale(1.0),
        "read": users.read(packed.address),
        "constant": users.constant(),
        "alone": users.alone(1.0),
    }
    hits = {name: sum(getattr(users, name).stats.cache_hits.values()) == 1 for name in results}
    return results, hits


FIRST = {"scale": 6.0, "read": 2.5, "constant": 40.0, "alone": 2.0}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("return 2.0 * x", "return 5.0 * x", {"scale": 15.0}),
        ("SIZE = 3", "SIZE = 4", {"scale": 8.0}),
        ("first: float\n    second: float", "second: float\n    first: float", {}),
        ("40.0", "50.0", {"constant": 50.0}),
    ],
    ids=["function", "number", "layout", "intrinsic"],
)
def test_the_cache_notices_changes_in_other_files(load_users, old, new, changed):
    assert results_and_hits(*load_users()) == (FIRST, dict.fromkeys(FIRST, False))
    assert results_and_hits(*load_users()) == (FIRST, dict.fromkeys(FIRST, True))
    results, hits = results_and_hits(*load_users(old, new))
    assert results == {**FIRST, **changed}
    assert hits["alone"]
    assert not any(hits[name] for name in changed)


def test_a_number_alone_of_another_file_is_noticed(load_users):
    """The source of the other file is no part of the key where only a number is used."""
    load_users("return scaled(x) * SIZE", "return x * SIZE", "omkl_users.py")
    assert results_and_hits(*load_users())[0] == {**FIRST, "scale": 3.0}
    results, hits = results_and_hits(*load_users("SIZE = 3", "SIZE = 4"))
    assert results == {**FIRST, "scale": 4.0}
    assert not hits["scale"]
    results, hits = results_and_hits(*load_users("return 2.0 * x", "return 5.0 * x"))
    assert results == {**FIRST, "scale": 4.0}
    assert hits["scale"]


def test_a_cache_of_another_version_of_the_file_is_not_used(load_users):
    results_and_hits(*load_users())
    results, hits = results_and_hits(
        *load_users("return x + 1.0", "return x + 3.0", "omkl_users.py")
    )
    assert results == {**FIRST, "alone": 4.0}
    assert not any(hits.values())
    results, hits = results_and_hits(
        *load_users("return x + 3.0", "return x + 1.0", "omkl_users.py")
    )
    assert results == FIRST
    assert not any(hits.values())


def test_a_cache_of_another_version_of_numba_is_not_used(load, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(numba, "__version__", "0.1")
        assert load()(np.arange(4.0)) == 6
    total = load()
    assert total(np.arange(4.0)) == 6
    assert sum(total.stats.cache_hits.values()) == 0


def test_a_cache_that_names_a_class_that_has_moved_is_written_anew(load_users):
    """As after an update of omkl, in which another module has the class of an argument."""

    def first_of(name, renamed_from=""):
        users, helpers = load_users(renamed_from, name)
        numbers = getattr(helpers, name)(first=1.5, second=2.5, count=7)
        return users.first(numbers), sum(users.first.stats.cache_hits.values())

    assert first_of("Pair") == (1.5, 0)
    assert first_of("Pair") == (1.5, 1)
    assert first_of("Couple", renamed_from="Pair") == (1.5, 0)
    assert first_of("Couple") == (1.5, 1)


def test_processes_that_compile_at_once_share_a_cache(tmp_path):
    (tmp_path / "loops.py").write_text(SOURCE)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", RACER, str(tmp_path / "loops.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    racers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        printed, _ = racer.communicate(timeout=600)
        assert racer.returncode == 0
        assert float(printed.split()[0]) == 10.0
    last = subprocess.run(
        command, input="go\n", capture_output=True, check=True, text=True, env=environment
    )
    assert last.stdout.split()[1:] == ["10.0", "1"]


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
    recent = RecentlyUsed(capacity)
    held = [None] * capacity
    order = []

    def fill(keys, indices):
        assert not set(keys) & set(order[-capacity:])
        for key, index in zip(keys, indices):
            held[index] = key

    for _ in range(300):
        keys = rng.permutation(10)[: rng.integers(1, capacity + 1)].tolist()
        indices = recent.indices(keys, fill)
        assert [held[index] for index in indices] == keys
        # within one call, known keys count as used before new ones
        used_before = [key for key in keys if key in order[-capacity:]]
        order = (
            [key for key in order if key not in keys]
            + used_before
            + [key for key in keys if key not in used_before]
        )
        assert {key for key in range(10) if key in recent} == set(order[-capacity:])
    assert sorted(key for key in held if key is not None) == sorted(
        key for key in range(10) if key in recent
    )


def test_what_could_not_be_filled_is_not_known():
    recent = RecentlyUsed(2)
    held = [None, None]

    def fill(keys, indices):
        for key, index in zip(keys, indices):
            held[index] = 1 / key

    recent.indices([1, 2], fill)
    with pytest.raises(ZeroDivisionError):
        recent.indices([0], fill)
    assert 0 not in recent
    assert [held[index] for index in recent.indices([2, 4], fill)] == [0.5, 0.25]
    assert np.all([held[index] for index in recent.indices([4, 2], fill)] == np.array([0.25, 0.5]))
