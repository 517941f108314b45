"""``omkl completion``: a script with which a shell completes commands, options and names of files."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from functools import partial
from typing import Any

from omkl.cli.common import add_command
from omkl.exceptions import MissingDependencyError

SHELLS = ("bash", "zsh", "tcsh")


def add_parser(subparsers: Any, omkl: ArgumentParser) -> None:
    """Add this subcommand; ``omkl`` is the parser of the whole command."""
    parser = add_command(
        subparsers,
        "completion",
        summary="print a script that completes commands and options in a shell",
        description="Print a script with which a shell completes commands, options and names of files (needs "
        "omkl[completion]).",
        examples="""
            omkl completion bash > ~/.local/share/bash-completion/completions/omkl
            omkl completion zsh > ~/.zfunc/_omkl                # where fpath has ~/.zfunc
            omkl completion tcsh > ~/.omkl-completion.tcsh      # source it in ~/.tcshrc
        """,
    )
    parser.add_argument("shell", choices=SHELLS, help="for which shell")
    parser.set_defaults(run=partial(run, omkl=omkl))


def run(arguments: Namespace, omkl: ArgumentParser) -> None:
    """Print the script."""
    try:
        import shtab
    except ImportError:
        raise MissingDependencyError(
            "omkl completion needs shtab: pip install 'omkl[completion]', or pip install shtab."
        ) from None
    for parser in parsers_of(omkl):
        for action in parser._actions:
            if takes_file(action):
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
    print(shtab.complete(omkl, arguments.shell))


def takes_file(action: argparse.Action) -> bool:
    """Whether an argument is the name of a file or a folder."""
    if isinstance(action, argparse._SubParsersAction):
        return False
    places = (*action.option_strings, action.metavar or action.dest)
    return bool({"FILE", "MODEL", "DIR", "model", "train", "input", "gold"} & set(map(str, places)))


def parsers_of(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """A parser, and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers_of(child)
