"""Readers of damaged files: omkl's own errors in one line, never a crash, in bounded time and memory.

Some thousand files a run; many more with::

    OMKL_SOAK=100000 python -m pytest -m soak tests/robustness/test_readers.py

where the number is that of the files for each reader.
"""

import os

import numpy as np
import pytest

pytest.importorskip("pyarrow")


from .damaged_files import complaint, damaged, in_a_process
from .reader_files import reader_of, small_files

FILES = dict(small_files())
#: Files that a process reads, and files for each reader.
AT_A_TIME, FEW, MANY = 50, 100, int(os.environ.get("OMKL_SOAK", 2000))
#: A seed that is not in the test fails somewhere else.
SEED = int(os.environ.get("OMKL_SEED", 0))

posix_only = pytest.mark.skipif(not hasattr(os, "fork"), reason="a reader that crashes must not take the tests with it")


def complaints(name, n, folder):
    """What is wrong with how ``n`` damaged files of a kind are read."""
    read, log = reader_of(name), folder / "log"
    kind = sorted(FILES).index(name)

    def work(numbers):
        for k in numbers:
            path = folder / name
            path.write_bytes(damaged(FILES[name], np.random.default_rng([SEED, kind, k]), list(FILES.values())))
            if problem := complaint(read, path):
                with log.open("a") as file:
                    file.write(f"file {k}: {problem}\n")

    for low in range(0, n, AT_A_TIME):
        numbers = range(low, min(low + AT_A_TIME, n))
        if in_a_process(lambda numbers=numbers: work(numbers)):
            for k in numbers:
                if status := in_a_process(lambda k=k: work([k])):
                    with log.open("a") as file:
                        file.write(f"file {k}: the process ended with {status}\n")
    return log.read_text() if log.exists() else ""


@posix_only
@pytest.mark.parametrize("name", sorted(FILES))
def test_good_files_are_read(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    assert complaint(reader_of(name), path) is None


@posix_only
@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_but_errors_of_omkl_comes_of_damaged_files(name, tmp_path):
    assert complaints(name, FEW, tmp_path) == ""


@posix_only
@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_but_errors_of_omkl_comes_of_many_damaged_files(name, tmp_path):
    assert complaints(name, MANY, tmp_path) == ""
