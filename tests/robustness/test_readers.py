"""Readers of damaged files raise errors of omkl, in bounded time and memory."""

import os
import subprocess
import sys

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


READS_AND_STOPS = """
import sys
from omkl.data import stream_csv
from omkl.exceptions import DataFileError
try:
    for block in stream_csv(sys.argv[1], "y").blocks():
        pass
except DataFileError as error:
    assert "row 1002" in str(error), error
"""


def test_a_process_that_met_an_error_in_a_large_csv_file_ends(tmp_path):
    good = b"".join(b"%d,%d,0\n" % (k, k) for k in range(1000))
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b,y\n" + good + b"1,x,0\n" + b"1,2,0\n" * 300_000)
    done = subprocess.run([sys.executable, "-c", READS_AND_STOPS, str(path)], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
