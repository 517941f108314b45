"""The command ``omkl``: one subcommand a file."""

import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from omkl.cli.interrupts import Terminated, terminating
from omkl.exceptions import OmklError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; what goes wrong is one sentence on standard error.

    Returns
    -------
    int
        0; 2 where the input is at fault or a file cannot be written; 130 where Ctrl-C, 143 where SIGTERM ended it, and
        141 where nobody reads what it prints.
    """
    arguments = Namespace()
    _replace_closed_streams()
    try:
        with terminating():
            from omkl.cli.commands import build_parser  # takes a while, and may be interrupted
            from omkl.cli.inputs import standard_input
            from omkl.cli.outputs import check_files

            build_parser().parse_args(argv, arguments)
            if hasattr(sys.stdout, "reconfigure"):  # a terminal may lack letters, and the bars of charts
                sys.stdout.reconfigure(errors="backslashreplace")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if getattr(arguments, "quiet", False) else "once")
                # deprecations are for those who write programs
                warnings.simplefilter("ignore", DeprecationWarning)
                warnings.simplefilter("ignore", PendingDeprecationWarning)
                warnings.showwarning = partial(_show_warning, arguments)
                check_files(arguments)
                with standard_input(arguments):
                    arguments.run(arguments)
            sys.stdout.flush()
    except (OmklError, OSError, ImportError, KeyboardInterrupt, Terminated, UnicodeError, MemoryError) as error:
        return _failed(error, arguments)
    return 0


def _replace_closed_streams() -> None:
    """Put what cannot be read, or written to, where standard input or output is closed: using it is an error as any
    other, and no file that is opened later takes its number. What would go to standard error is for nobody."""
    for name, flags, mode in (("stdin", os.O_WRONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_RDWR, "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, flags)  # the lowest that is free
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))


def _failed(error: BaseException, arguments: Namespace) -> int:
    """Say in one line why a command ended; returns its exit code."""
    checkpoint = getattr(arguments, "checkpoint", None)
    go_on = f"; go on with --resume from {checkpoint}" if checkpoint else ""
    if isinstance(error, KeyboardInterrupt):
        return _say(f"omkl: interrupted; no output file was changed{go_on}.", 130)
    if isinstance(error, Terminated):
        return _say(f"omkl: terminated; no output file was changed{go_on}.", 128 + error.args[0])
    if isinstance(error, OSError) and not isinstance(error, OmklError) and error.errno is not None:
        if error.filename is None:  # files that are written have names
            _forget_output()
            if isinstance(error, BrokenPipeError):
                return 141
        error = OmklError(f"{error.filename or 'standard output'}: {error.strerror or error}.")
    elif isinstance(error, MemoryError):
        error = OmklError("there is not enough memory.")
    return _say(f"omkl: error: {_one_line(arguments, error)}", 2)


def _say(line: str, code: int) -> int:
    print(line, file=sys.stderr)
    return code


def _forget_output() -> None:
    """What standard output could not take is not tried once more when the interpreter ends."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _show_warning(arguments, message, *_):
    """A warning as one line, without the line of code that it comes from."""
    print(f"omkl: warning: {_one_line(arguments, message)}", file=sys.stderr)


def _one_line(arguments: Namespace, message: object) -> str:
    from omkl.cli.common import without_place

    return without_place(arguments, " ".join(str(message).split()))
