"""The command ``omkl``, with related subcommands in one file."""

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
    try:
        with terminating():
            if isinstance(
                sys.stdout, TextIOWrapper
            ):  # the encoding of a terminal may lack characters
                sys.stdout.reconfigure(errors="backslashreplace")
            code = run.execute(sys.argv[1:] if argv is None else argv)
            sys.stdout.flush()
            return code
    except (
        OmklError,
        OSError,
        ImportError,
        KeyboardInterrupt,
        Terminated,
        UnicodeError,
        MemoryError,
    ) as error:
        if isinstance(error, (KeyboardInterrupt, Terminated)):
            word, exit_code = (
                ("terminated", 143) if isinstance(error, Terminated) else ("interrupted", 130)
            )
            go_on = f"; go on with --resume from {run.checkpoint}" if run.checkpoint else ""
            print(f"omkl: {word}; no output file was changed{go_on}.", file=sys.stderr)
            return exit_code
        message = str(error) or "there is not enough memory."
        if (
            isinstance(error, OSError)
            and not isinstance(error, OmklError)
            and error.errno is not None
        ):
            if error.filename is None:  # not about a named file
                with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
                    os.dup2(
                        nowhere.fileno(), sys.stdout.fileno()
                    )  # the interpreter flushes it again at exit
                if isinstance(error, BrokenPipeError):
                    return 141
            message = f"{error.filename or 'standard output'}: {error.strerror or error}."
        print(f"omkl: error: {run.advice(message)}", file=sys.stderr)
        return 2


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
