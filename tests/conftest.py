"""Fixtures that several subpackages share."""

import importlib.util
import os
import signal
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from omkl.data import data_home, read_ocr

# the first call of a jitted function compiles it: no deadline, and the same examples on every machine
settings.register_profile(
    "omkl", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
# after a change to the mathematics: pytest --hypothesis-profile=thorough
settings.register_profile("thorough", settings.get_profile("omkl"), derandomize=False, max_examples=500)
settings.load_profile("omkl")
if numba.config.DISABLE_JIT:  # NUMBA_DISABLE_JIT=1: what compiled loops do without a word, as integers that wrap
    np.seterr(all="ignore")
    settings.register_profile("uncompiled", settings.get_profile("omkl"), max_examples=3)
    settings.load_profile("uncompiled")
    from tests.uncompiled import replace_intrinsics

    replace_intrinsics()


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_blas():
    """Here and in processes of tests: threads that wait for a core that others use make small matrices very slow."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session")
def real_data():
    """Path of a real data file; the test is skipped without it, or fails where OMKL_DATA promises it."""

    def find(relative):
        path = data_home() / relative
        if not path.exists():
            if os.environ.get("OMKL_DATA"):
                pytest.fail(f"OMKL_DATA is set, but there is no {path}.")
            pytest.skip(f"needs {relative}: run data_scripts, or set OMKL_DATA")
        return path

    return find


@pytest.fixture(scope="session")
def ocr(real_data):
    return read_ocr(real_data("ocr/letter.data.gz"))


@pytest.fixture(scope="session")
def naive_model():
    """The literal implementation of ``groups/naive.py``."""
    spec = importlib.util.spec_from_file_location("naive", Path(__file__).parent / "groups" / "naive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.NaiveModel


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def ctrl_c():
    """Python's own handler, also where tests run in the background of a script, which is deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
