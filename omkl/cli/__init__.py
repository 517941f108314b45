"""The command ``omkl``: one subcommand a file."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from types import FrameType

from omkl.cli.options import Run
from omkl.exceptions import OmklError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors are one sentence on standard error.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit code: 0; 2 for wrong input or a file that cannot be written; 130 after Ctrl-C, 143 after SIGTERM, and 141
        where nobody reads the output.
    """
    run = Run()
    try:
        with terminating():
            if isinstance(sys.stdout, TextIOWrapper):  # a terminal may lack letters, and the bars of charts
                sys.stdout.reconfigure(errors="backslashreplace")
            code = run.execute(sys.argv[1:] if argv is None else argv)
            sys.stdout.flush()
            return code
    except (OmklError, OSError, ImportError, KeyboardInterrupt, Terminated, UnicodeError, MemoryError) as error:
        return _failed(error, run)


class Terminated(BaseException):
    """The process was asked to end, by SIGTERM."""


@contextmanager
def terminating() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM, so that temporary files are removed."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = None
    with suppress(ValueError):  # only the main thread gets signals
        before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _failed(error: BaseException, run: Run) -> int:
    """Print why a command ended, in one line; returns the exit code."""
    if isinstance(error, (KeyboardInterrupt, Terminated)):
        word, code = ("terminated", 143) if isinstance(error, Terminated) else ("interrupted", 130)
        go_on = f"; go on with --resume from {run.checkpoint}" if run.checkpoint else ""
        print(f"omkl: {word}; no output file was changed{go_on}.", file=sys.stderr)
        return code
    message = str(error) or "there is not enough memory."
    if isinstance(error, OSError) and not isinstance(error, OmklError) and error.errno is not None:
        if error.filename is None:  # errors of named files have names
            with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())  # the interpreter flushes once more when it ends
            if isinstance(error, BrokenPipeError):
                return 141
        message = f"{error.filename or 'standard output'}: {error.strerror or error}."
    print(f"omkl: error: {run.shown(' '.join(message.split()))}", file=sys.stderr)
    return 2
