"""Damage to files, and readers of it: nothing but what omkl promises may come of it, in bounded time and memory."""

import os
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

from omkl.exceptions import OmklError

#: Seconds and bytes of a file that is read, and characters of what is said of it.
MOST_SECONDS, MOST_BYTES, MOST_CHARACTERS = 2.0, 1 << 30, 1000
#: What readers look at.
TOKENS = [
    b"\n", b"\t", b",", b'"', b":", b" ", b"\0", b"\xff", b"\xef\xbb\xbf", b"#", b"{", b"}", b"[" * 2000, b"]",
    b"nan", b"1e999", b"-1", b"0", b"9" * 25, b"_", b"=", b"\r", b"\\", b"qid:", "é".encode(), b"x" * 5000,
]  # fmt: skip


def damaged(data: bytes, rng: np.random.Generator, others: list[bytes]) -> bytes:
    """The same bytes with one to four things done to them: flips, cuts, repeats, tokens, parts of other files."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        at, n = int(rng.integers(len(data) + 1)), int(rng.integers(1, 40))
        kind = rng.integers(8)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at : at + 1] = bytes([int(rng.integers(256))])
        elif kind == 2:
            data[at : at + n] = b""
        elif kind == 3:
            data[at:at] = data[at : at + n]
        elif kind == 4:
            data[at:at] = TOKENS[rng.integers(len(TOKENS))]
        elif kind == 5:
            other = others[rng.integers(len(others))]
            begin = int(rng.integers(len(other)))
            data[at:at] = other[begin : begin + n]
        elif kind == 6:
            number = [0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, len(data)][rng.integers(6)]
            data[at : at + 4] = number.to_bytes(4, "little")
        elif rng.random() < 0.3:
            del data[at:]
    return bytes(data)


def complaint(read, path: Path, most_seconds: float = MOST_SECONDS) -> str | None:
    """What is wrong with how a file is read, or None."""
    start, before = time.perf_counter(), most_memory()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            read(path)
    except OmklError as error:
        text = str(error)
        if "\n" in text or len(text) > MOST_CHARACTERS:
            return f"a message of {len(text)} characters and {text.count(chr(10)) + 1} lines: {text[:300]}"
    except BaseException:
        return traceback.format_exc(limit=-4)
    seconds, n_bytes = time.perf_counter() - start, most_memory() - before
    if seconds > most_seconds:
        return f"{seconds:.1f} seconds"
    return f"{n_bytes >> 20} MB" if n_bytes > MOST_BYTES else None


def most_memory() -> int:
    """Bytes that the process has ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def in_a_process(work) -> int:
    """Status of a process that does ``work``; negative if it was killed by that signal."""
    child = os.fork()
    if not child:
        status = 99
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
