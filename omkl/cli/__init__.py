"""The command ``omkl``: one subcommand a file."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

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
    run: Any = None
    try:
        with terminating():
            from omkl.cli.options import Run  # takes a while, and may be interrupted

            run = Run()
            if hasattr(sys.stdout, "reconfigure"):  # a terminal may lack letters, and the bars of charts
                sys.stdout.reconfigure(errors="backslashreplace")
            code = run.execute(sys.argv[1:] if argv is None else argv)
            sys.stdout.flush()
            return code
    except (OmklError, OSError, ImportError, KeyboardInterrupt, Terminated, UnicodeError, MemoryError) as error:
        return _failed(error, run)


class Terminated(BaseException):
    """The process was asked to end, by SIGTERM or because its terminal is gone."""


@contextmanager
def terminating() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM and SIGHUP, so that temporary files are removed."""

    def end(number: int, _: Any) -> None:
        raise Terminated(number)

    before = {}
    with suppress(ValueError):  # only the main thread gets signals
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _failed(error: BaseException, run: Any) -> int:
    """Print why a command ended, in one line; returns the exit code."""
    if isinstance(error, (KeyboardInterrupt, Terminated)):
        checkpoint = None if run is None else run.checkpoint
        go_on = f"; go on with --resume from {checkpoint}" if checkpoint else ""
        word, code = ("terminated", 128 + error.args[0]) if isinstance(error, Terminated) else ("interrupted", 130)
        print(f"omkl: {word}; no output file was changed{go_on}.", file=sys.stderr)
        return code
    message = str(error)
    if isinstance(error, OSError) and not isinstance(error, OmklError) and error.errno is not None:
        if error.filename is None:  # errors of named files have names
            _discard_output()
            if isinstance(error, BrokenPipeError):
                return 141
        message = f"{error.filename or 'standard output'}: {error.strerror or error}."
    elif isinstance(error, MemoryError):
        message = "there is not enough memory."
    message = " ".join(message.split())
    print(f"omkl: error: {message if run is None else run.shown(message)}", file=sys.stderr)
    return 2


def _discard_output() -> None:
    """Send the rest of standard output nowhere, so that the interpreter does not fail once more when it ends."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
