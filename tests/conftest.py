"""Fixtures that several subpackages share."""

import os
import signal

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from omkl import load
from omkl.cli import main
from omkl.data import data_home, read_ocr

# the first call of a jitted function compiles it: no deadline, and the same examples on every
# machine
settings.register_profile(
    "omkl",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
# after a change to the mathematics: pytest --hypothesis-profile=thorough
settings.register_profile(
    "thorough", settings.get_profile("omkl"), derandomize=False, max_examples=500
)
settings.load_profile("omkl")
# NUMBA_DISABLE_JIT=1: NumPy warns where compiled loops do not, as on integer overflow
if numba.config.DISABLE_JIT:
    np.seterr(all="ignore")
    settings.register_profile("uncompiled", settings.get_profile("omkl"), max_examples=3)
    settings.load_profile("uncompiled")
    from tests.uncompiled import replace_intrinsics

    replace_intrinsics()


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_blas():
    """Use one BLAS thread here and in child processes: waiting threads make small products slow on
    busy cores.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session", autouse=True)
def seeds():
    """Draw the same numbers in every run where a test gives no seed.

    Otherwise, a test could fail now and then.
    """
    default_rng = np.random.default_rng
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            np.random, "default_rng", lambda seed=None: default_rng(0 if seed is None else seed)
        )
        yield


@pytest.fixture(scope="session")
def real_data():
    """Return the path of a real data file; skip the test if it is missing, or fail if OMKL_DATA is
    set.
    """

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


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def ctrl_c():
    """Restore Python's handler of Ctrl-C, which processes in the background ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def reloaded(tmp_path):
    """Return a function that saves a model and loads it again."""

    def reload(model, **options):
        model.save(tmp_path / "saved.npz", **options)
        return load(tmp_path / "saved.npz")

    return reload


@pytest.fixture
def refused(capsys):
    """Return a function that checks that a command fails with one sentence."""

    def check(command, message):
        capsys.readouterr()
        assert main([str(word) for word in command]) == 2
        error = capsys.readouterr().err
        assert error.startswith("omkl: error: ")
        assert message in error
        assert error.count("\n") == 1

    return check
