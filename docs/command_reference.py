"""The reference of the command line in Markdown, from the argument parsers themselves."""

import argparse
import textwrap
from collections.abc import Iterator


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers that have no commands below them, in their order."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for own in action.choices.values():
            yield from commands(own)


def reference(parser: argparse.ArgumentParser) -> str:
    """A section for each command: what it does, what it takes, examples."""
    return "\n".join(line for own in commands(parser) for line in section(own))


def section(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The lines of one command."""
    places = [action for action in parser._actions if not action.option_strings]
    yield f"## {parser.prog}\n"
    yield f"{plain(parser.description)}\n"
    yield f"```text\n{parser.prog} [OPTIONS] {' '.join(str(place.metavar or place.dest) for place in places)}\n```\n"
    for action in places + [action for action in parser._actions if action.option_strings]:
        if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):
            yield f"{spelled(action)}\n: {plain(action.help % dict(vars(action), prog=parser.prog))}\n"
    if parser.epilog:
        yield f"```text\n{textwrap.dedent(parser.epilog.removeprefix('examples:').strip(chr(10)))}\n```\n"


def spelled(action: argparse.Action) -> str:
    """An option as it is written, with what it takes."""
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    value = "" if action.nargs == 0 else f" {action.metavar or choices}{' ...' if action.nargs in ('+', '*') else ''}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def plain(text: str | None) -> str:
    """Text whose signs mean nothing in Markdown; options in it keep their hyphens."""
    escaped = "".join(f"\\{sign}" if sign in "*_<>[]`" else sign for sign in " ".join((text or "").split()))
    return " ".join(
        f"`{word}`" if word.startswith("--") and word.isprintable() else word for word in escaped.split(" ")
    )
