"""The reference of the command line in Markdown, from the commands themselves."""

import textwrap
from collections.abc import Iterator

import click


def commands(group: click.Command, path: str = "omkl") -> Iterator[tuple[str, click.Command]]:
    """All commands that are no groups, and what is typed to call them."""
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        own = group.get_command(context, name)
        if own is not None:
            yield from commands(own, f"{path} {name}")


def reference(group: click.Group) -> str:
    """A section for each command: help, options, examples."""
    return "\n".join(line for path, command in commands(group) for line in section(path, command))


def section(path: str, command: click.Command) -> Iterator[str]:
    """The lines of one command."""
    context = click.Context(command, info_name=path, show_default=True)
    yield f"## {path}\n"
    for part in textwrap.dedent(command.help or "").split("\n\n"):
        yield f"{plain(part)}\n"
    yield f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None and record[1]:
            yield f"`{record[0]}`\n: {plain(record[1])}\n"
    lines = (command.epilog or "").split("\n")[2:]
    yield "```text\n" + textwrap.dedent("\n".join(lines)) + "\n```\n"


def plain(text: str) -> str:
    """Text whose signs mean nothing in Markdown; options in it keep their hyphens."""
    escaped = "".join(f"\\{sign}" if sign in "*_<>[]`" else sign for sign in " ".join(text.split()))
    return " ".join(
        f"`{word}`" if word.startswith("--") and word.isprintable() else word
        for word in escaped.split()
    )
