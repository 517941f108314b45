"""Readers of damaged files raise errors of omkl, in bounded time and memory."""

import os

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from .damaged_files import complaint, damaged, in_a_process
from .reader_files import reader_of, small_files

FILES = dict(small_files())
#: Damaged files of each format, read in one process.
N_FILES = 60
#: A seed that is not in the test fails somewhere else.
SEED = int(os.environ.get("OMKL_SEED", 0))

posix_only = pytest.mark.skipif(not hasattr(os, "fork"), reason="a reader that crashes must not take the tests with it")


def complaints(name, n, folder):
    """Read ``n`` damaged files of a format; return the problems found."""
    read, log = reader_of(name), folder / "log"
    kind = sorted(FILES).index(name)
    whole = folder / name
    whole.write_bytes(FILES[name])
    read(whole)  # what is imported and compiled once is no part of what damage costs

    def work(numbers):
        for k in numbers:
            path = folder / name
            path.write_bytes(damaged(FILES[name], np.random.default_rng([SEED, kind, k]), list(FILES.values())))
            if problem := complaint(read, path):
                with log.open("a") as file:
                    file.write(f"file {k}: {problem}\n")

    if in_a_process(lambda: work(range(n))):
        for k in range(n):
            if status := in_a_process(lambda k=k: work([k])):
                with log.open("a") as file:
                    file.write(f"file {k}: the process ended with {status}\n")
    return log.read_text() if log.exists() else ""


@pytest.mark.parametrize("name", sorted(FILES))
def test_good_files_are_read(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    reader_of(name)(path)


@posix_only
@pytest.mark.parametrize("name", sorted(FILES))
def test_damaged_files_raise_errors_of_omkl(name, tmp_path):
    assert complaints(name, N_FILES, tmp_path) == ""
