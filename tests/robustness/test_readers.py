"""Readers of damaged files: omkl's own errors in one line, never a crash, in bounded time and memory.

Some thousand files a run; many more with::

    OMKL_SOAK=100000 python -m pytest -m soak tests/robustness/test_readers.py

where the number is that of the files for each reader.
"""

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest

from omkl.exceptions import InputError

pytest.importorskip("pyarrow")

from .damaged_files import MOST_BYTES, MOST_CHARACTERS, complaint, damaged, in_a_process, most_memory
from .reader_files import reader_of, small_files

FILES = dict(small_files())
#: Files that a process reads, and files for each reader.
AT_A_TIME, FEW, MANY = 60, 60, int(os.environ.get("OMKL_SOAK", 2000))
#: A seed that is not in the test fails somewhere else.
SEED = int(os.environ.get("OMKL_SEED", 0))

posix_only = pytest.mark.skipif(not hasattr(os, "fork"), reason="a reader that crashes must not take the tests with it")


def complaints(name, n, folder):
    """What is wrong with how ``n`` damaged files of a kind are read."""
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

    for low in range(0, n, AT_A_TIME):
        numbers = range(low, min(low + AT_A_TIME, n))
        if in_a_process(lambda numbers=numbers: work(numbers)):
            for k in numbers:
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
def test_nothing_but_errors_of_omkl_comes_of_damaged_files(name, tmp_path):
    assert complaints(name, FEW, tmp_path) == ""


@posix_only
@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_but_errors_of_omkl_comes_of_many_damaged_files(name, tmp_path):
    assert complaints(name, MANY, tmp_path) == ""


#: What is written over and over: texts that never come to the end of a record.
BOMBS = {
    "a.svm": b"0", "b.svm": b"1 1:1 ", "a.csv": b"a,", "b.csv": b'"a\n', "a.jsonl": b"[", "b.jsonl": b"[],",
    "a.crfsuite": b"a\t", "b.crfsuite": b"a\tb\n", "a.conllu": b"a", "b.conllu": b"1\ta\n", "letter.data": b"1\t",
    "uci.table": b"1,", "mfeat.table": b"1,", "words.txt": b"a ", "brown.lexicon": b"a",
}  # fmt: skip


@posix_only
@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(BOMBS))
def test_files_that_unpack_to_gigabytes_are_refused_in_little_memory(name, tmp_path):
    path, piece = tmp_path / f"{name}.gz", BOMBS[name] * ((1 << 20) // len(BOMBS[name]))
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(1500):
            file.write(piece)
    read = reader_of(name)

    def work():
        start = most_memory()
        with pytest.raises(InputError) as error:
            read(path)
        assert len(str(error.value)) < MOST_CHARACTERS
        assert most_memory() - start < MOST_BYTES

    assert in_a_process(work) == 0


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
