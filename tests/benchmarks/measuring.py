"""Measure times of hot paths, of their floors and of their peers, in turn in one run.

A *floor* is the work that no implementation can avoid: reading the bytes in order, a matrix product
of the same size, fetching rows at random. It is measured in the same minute as the hot path, so
that their ratio does not depend on the load of the machine. A *peer* is another program on the same
input, in a process of its own. If it is missing, fails, crashes or takes too long, the table says
so, and the run goes on.
"""

import ctypes
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import tempfile
import time
import venv
import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

LONG = 1.0  # seconds of a call that is repeated as rarely as possible
# a peer's time limit: these seconds, or this multiple of omkl's time, whichever is larger
PATIENCE, MUCH = 10.0, 200.0
MAKING = 30.0  # seconds in which a peer must start and find its tolerance
# largest floor to measure, in bytes, operations or rows; a larger one is extrapolated
LARGEST = 1 << 28


def seconds_of_children() -> float:
    """CPU seconds of child processes that have ended."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter, "children": seconds_of_children}
#: Requirements of peers that run in environments of their own, by scripts in ``peers/``.
ENVIRONMENTS = {"adelie": ["adelie", "numpy<2"]}
ENVIRONMENTS_HOME = Path(os.environ.get("OMKL_PEERS", Path.home() / ".cache" / "omkl" / "peers"))


class Floor(NamedTuple):
    """Lower bound of a hot path: a function that does a part of its work, so many times."""

    kind: str
    function: Callable[[], object]
    times: float = 1.0


def stream(n_bytes: float) -> Floor:
    """Read this number of bytes in order."""
    array = np.ones(max(1, int(min(n_bytes, LARGEST)) // 8))
    return Floor("stream", lambda: array.dot(array), n_bytes / array.nbytes)


def product(m: int, k: int, n: int, dtype=np.float32) -> Floor:
    """Multiply an (m, k) by a (k, n) matrix; of many rows only a part."""
    rows = int(max(1, min(m, LARGEST // (k * n))))
    a = np.ones((rows, k), dtype)
    b = np.ones((k, n), dtype)
    out = np.empty((rows, n), dtype)
    return Floor("product", lambda: np.dot(a, b, out), m / rows)


@njit(cache=True, nogil=True)
def fetch(table, rows):
    """Read one number of each row; the sum keeps the compiler from removing the loop."""
    total = 0.0
    for i in range(rows.shape[0]):
        total += table[rows[i], 0]
    return total


def gather(table: np.ndarray, n: float) -> Floor:
    """Fetch n random rows of a table, one cache line each."""
    table = table.reshape(len(table), -1)
    rows = np.random.default_rng(0).integers(0, len(table), int(min(n, 1 << 20)))
    return Floor("gather", lambda: fetch(table, rows), n / len(rows))


class MissedError(Exception):
    """Raised by a peer that misses the accuracy of the hot path; the table shows the message."""


def resident(field: str) -> int:
    """Memory of this process in bytes, now ("VmRSS") or at its peak ("VmHWM").

    It is 0 if the system does not tell.
    """
    with suppress(OSError), open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))
    return 0


def run(function: Callable[[], object], n_calls: int, clock: Callable[[], float]) -> float:
    """Mean seconds of a call."""
    started = clock()
    for _ in range(n_calls):
        function()
    return (clock() - started) / n_calls


def measured_with_memory(
    function: Callable[[], object], clock: Callable[[], float]
) -> tuple[float, int]:
    """Seconds of one call, and the largest growth of the process in bytes.

    Free memory is returned to the system before.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = resident("VmRSS")
    return run(function, 1, clock), max(0, resident("VmHWM") - before)


def calls_that_last(
    function: Callable[[], object], seconds: float, clock: Callable[[], float]
) -> int:
    """Number of calls that take about this time, after a first call, which may compile."""
    if run(function, 1, clock) > LONG:
        return 1
    n_calls = 1
    while (spent := n_calls * run(function, n_calls, clock)) < seconds / 2:
        n_calls = int(n_calls * min(100.0, max(2.0, seconds / max(spent, 1e-9))))
    return n_calls


class Peer:
    """Copy of this process that times a peer on request; answers with seconds or a message."""

    def __init__(
        self,
        make: Callable,
        clock: str,
        round_seconds: float,
        limit: float,
        once: bool = False,
        making: float = 0.0,
    ):
        self._limit = max(limit, making)
        self.word = ""
        self.seconds = np.inf
        self.bytes = 0
        self._pipe, pipe_of_copy = multiprocessing.Pipe()
        arguments = (pipe_of_copy, make, CLOCKS[clock], round_seconds, once)
        self._process = multiprocessing.get_context("fork").Process(
            target=_serve, args=arguments, daemon=True
        )
        self._process.start()
        pipe_of_copy.close()
        self._receive()
        self._limit = limit
        if not self.word:
            self._receive()

    def round(self) -> None:
        """Time one more round, unless the peer has failed or is slow."""
        if not self.word and (self.seconds == np.inf or self.seconds < LONG):
            self._pipe.send(True)
            self._receive()

    def close(self) -> None:
        """End its process and the processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()

    def _receive(self) -> None:
        if not self._pipe.poll(self._limit):
            return self._drop_out("slow")
        try:
            answer = self._pipe.recv()
        except (EOFError, ConnectionError):
            return self._drop_out("crashed")
        if isinstance(answer, str):
            return self._drop_out(answer)
        if isinstance(answer, int):
            self.bytes = answer
        elif answer is not None:  # it says that the function is made
            self.seconds = min(self.seconds, answer)

    def _drop_out(self, word: str) -> None:
        self.word = word
        self.close()


def _serve(pipe, make, clock, round_seconds, once) -> None:
    """Make the function, then time it at each request; runs in the copy."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")
    try:
        function = make()
        pipe.send(None)
        timed = getattr(function, "seconds", partial(run, function, clock=clock))
        if once:
            n_calls = 1
            n_bytes = 0
        else:
            n_calls = calls_that_last(function, round_seconds, clock)
            _, n_bytes = measured_with_memory(function, clock)
        pipe.send(n_bytes)
        while pipe.recv():
            pipe.send(timed(n_calls))
    except ImportError:
        pipe.send("missing")
    except MissedError as missed:
        pipe.send(str(missed))
    except Exception:
        pipe.send("failed")


@cache
def environment(name: str) -> Path | None:
    """Interpreter of a peer's own environment, which is made if missing; None if that fails."""
    folder = ENVIRONMENTS_HOME / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "complete").exists():
        try:
            venv.create(folder, with_pip=True, clear=True)
            command = [python, "-m", "pip", "install", "-q", *ENVIRONMENTS[name]]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
            (folder / "complete").touch()
        except (OSError, subprocess.SubprocessError):
            return None
    return python


def elsewhere(name: str, **inputs) -> Callable[[], Callable[[], object]]:
    """Peer that runs ``peers/with_<name>.py`` in its own environment, on arrays and numbers."""
    python = environment(name)

    def make():
        if python is None:
            raise ImportError(name)
        return Elsewhere(python, Path(__file__).parent / "peers" / f"with_{name}.py", inputs)

    return make


class Elsewhere:
    """Script in another environment that measures calls.

    It reads numbers of calls, and writes the seconds of one call, or a message.
    """

    def __init__(self, python: Path, script: Path, inputs: dict):
        with tempfile.NamedTemporaryFile(suffix=".npz", delete=False) as file:
            np.savez(file, **inputs)
        self._process = subprocess.Popen(
            [python, script, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.seconds(1)  # it has read its input
        os.unlink(file.name)

    def seconds(self, n_calls: int) -> float:
        """Seconds of a call."""
        self._process.stdin.write(f"{n_calls}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, str):
            raise MissedError(answer)
        return answer

    def __call__(self):
        return self.seconds(1)


class Measure:
    """Measures a function, its floor and its peers; writes times to ``benchmark.extra_info``."""

    def __init__(self, benchmark, quick: bool):
        self._benchmark = benchmark
        self.quick = quick

    def __call__(
        self,
        function: Callable[[], object],
        *,
        floor: Floor | None = None,
        peers: dict[str, Callable] | None = None,
        size: float | None = None,
        clock: str = "cpu",
        once: bool = False,
        limit: float = 60.0,
        **notes,
    ) -> float:
        """Least seconds of a call in several rounds.

        ``peers`` are, by name, functions that return the function to be timed; they are called in a
        process of their own, and may raise ``ImportError`` or ``MissedError``. They are slow, and
        drop out, where they are not made within :data:`MAKING` seconds, or have no answer within
        ``limit`` seconds, or earlier where that is :data:`MUCH` times what omkl takes. ``size`` is
        what growth is told along. ``once`` is for what takes many seconds: no call before the one
        that counts. ``notes`` are figures to be printed in the table.
        """
        tick = CLOCKS[clock]
        # a busy machine makes no peer slow
        crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        round_seconds = 0.05
        limit *= crowd
        if self.quick:
            round_seconds = 0.01
            limit /= 3
        with ExitStack() as stack:
            n_calls = 1
            if not once:
                n_calls = calls_that_last(function, round_seconds, tick)
                patience = max(PATIENCE, MUCH * run(function, 1, time.perf_counter))
                limit = min(limit, crowd * patience)
            running = {}
            for name, make in (peers or {}).items():
                peer = Peer(make, clock, round_seconds, limit, once, crowd * MAKING)
                running[name] = stack.enter_context(closing(peer))
            if floor:
                n_floor = calls_that_last(floor.function, round_seconds, tick)
            first_seconds, n_bytes = measured_with_memory(function, tick)
            is_long = once or first_seconds > LONG
            times = [first_seconds] if is_long else []
            floors = []

            def measure_others():
                if floor:
                    floors.append(floor.times * run(floor.function, n_floor, tick))
                for peer in running.values():
                    peer.round()

            if once:
                self._benchmark.pedantic(measure_others, rounds=1)
            else:
                target = lambda: times.append(run(function, n_calls, tick))  # noqa: E731
                rounds = 7
                if is_long:
                    rounds = 1
                elif self.quick or first_seconds > 0.2:
                    rounds = 3
                self._benchmark.pedantic(target, setup=measure_others, rounds=rounds)
        seconds = min(times)
        self._benchmark.extra_info.update(
            seconds=seconds,
            clock=clock,
            megabytes=n_bytes / 1e6,
            floor=min(floors) if floor else None,
            floor_kind=floor.kind if floor else None,
            multiple=seconds / min(floors) if floor else None,
            peers={name: peer.word or seconds / peer.seconds for name, peer in running.items()},
            peers_megabytes={
                name: peer.bytes / 1e6 for name, peer in running.items() if not peer.word
            },
            size=size,
            notes={},
        )
        self.note(**notes)
        return seconds

    def note(self, **notes) -> None:
        """Add figures to the row."""
        rounded = {
            name: float(f"{v:.4g}") if isinstance(v, float) else v for name, v in notes.items()
        }
        self._benchmark.extra_info["notes"].update(rounded)
