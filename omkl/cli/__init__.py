"""The command ``omkl``: one subcommand a file."""

import argparse
import sys
import warnings
from collections.abc import Sequence

import omkl
from omkl.cli import demo, evaluate, inspect, predict, prune, train
from omkl.exceptions import OmklError

SUBCOMMANDS = (demo, train, predict, evaluate, inspect, prune)


def build_parser() -> argparse.ArgumentParser:
    """The argument parser with all subcommands."""
    parser = argparse.ArgumentParser(
        prog="omkl", description="Online multiple kernel learning for structured prediction."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for subcommand in SUBCOMMANDS:
        subcommand.add_parser(subparsers)
    return parser


class _Version(argparse.Action):
    """Print the version, which is looked up only then."""

    def __call__(self, parser, *_):
        print("omkl", omkl.__version__)
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 with one sentence on standard error where the input is at fault."""
    arguments = build_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("once")
            warnings.showwarning = _show_warning
            arguments.run(arguments)
    except OmklError as error:
        print(f"omkl: error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"omkl: error: {error.filename or 'a file'}: {error.strerror or error}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("omkl: interrupted; no output file was changed.", file=sys.stderr)
        return 130
    return 0


def _show_warning(message, *_):
    """A warning as one line, without the line of code that it comes from."""
    print(f"omkl: warning: {message}", file=sys.stderr)
