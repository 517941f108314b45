"""The command ``omkl``, with related subcommands in one file."""

import logging
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
    """Run the command line; an error is printed as one sentence on standard error.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit code: 0; 2 for invalid input or a file that cannot be written; 130 after Ctrl-C, 143
        after SIGTERM, and 141 if the reader of the output has closed it.
    """
    run = Run()
    logging.basicConfig(format="%(message)s")  # changes of a stream, on standard error
    try:
        with terminating():
            if isinstance(sys.stdout, TextIOWrapper):
                # the encoding of a terminal may lack characters
                sys.stdout.reconfigure(errors="backslashreplace")
            code = run.execute(sys.argv[1:] if argv is None else argv)
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        return _stopped("interrupted", 130, run)
    except Terminated:
        return _stopped("terminated", 143, run)
    except (OmklError, OSError, ImportError, UnicodeError, MemoryError) as error:
        message = str(error) or "there is not enough memory."
        is_of_system = isinstance(error, OSError) and not isinstance(error, OmklError)
        if is_of_system and error.errno is not None:
            message = f"{error.filename or 'standard output'}: {error.strerror or error}."
            if error.filename is None:
                _forget_standard_output()
            if isinstance(error, BrokenPipeError) and error.filename is None:
                return 141
        print(f"omkl: error: {run.advice(message)}", file=sys.stderr)
        return 2


def _stopped(word: str, exit_code: int, run: Run) -> int:
    """Say that a signal stopped the run, and how to go on; return the exit code."""
    advice = ""
    if run.checkpoint:
        advice = f"; go on with --resume from {run.checkpoint}"
    print(f"omkl: {word}; no output file was changed{advice}.", file=sys.stderr)
    return exit_code


def _forget_standard_output() -> None:
    """Send what is left for standard output nowhere: the interpreter flushes it again at exit."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


class Terminated(BaseException):
    """The process was terminated by SIGTERM."""


@contextmanager
def terminating() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM, so that temporary files are removed."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = None
    with suppress(ValueError):  # only the main thread receives signals
        before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
