"""Messages of the library, whose advice is in Python, in the options of a command."""

import re
from collections.abc import Iterable

import click

#: Options with another name than their parameter in Python.
OTHER_NAMES = {
    "n_jobs": "jobs",
    "header": "no_header",
    "validation": "dev",
    "client": "scheduler",
    "single_root": "multi_root",
}
#: Advice that needs a program, as a regular expression, and what the command line says instead.
PHRASES = {
    r": read sentences that are not parsed yet with trees=False\.": ".",
    r": name them, as in kernels={'first': \.\.\.}\.": ".",
    r": a classifier needs two, or classes=\.": ": a classifier needs two.",
    r"single_root=True allows one:": "without --multi-root one may have it:",
    r", or make an? \w+\.": ".",
    r"(?:TreeForm|TreeSearch)\(([^)]*)\)": r"\1",
}
#: A parameter as messages write it: `name`, name=value, "name must be", or a name with "_".
PARAMETER = re.compile(
    r"""(?<![^\s(])  # after a space or a bracket, so not inside of a quoted value
    (?: `(?P<quoted>\w+)`
      | (?P<assigned>\w+) = (?P<value> '[^']*' | "[^"]*" | \([^)]*\) | [\w.+-]*\w )?
      | (?P<bare>\w+) (?=[ ]must[ ]be[ ])
      | (?P<joined>[a-z]+_[a-z_]*[a-z]) (?=[ ,:;)]|$)
    )""",
    re.VERBOSE,
)


def in_options(message: str, parameters: Iterable[click.Parameter]) -> str:
    """Return a message of the library with options of a command in place of parameters in Python.

    Parameters
    ----------
    message : str
    parameters : iterable of click.Parameter
        Parameters of the command.

    Examples
    --------
    >>> option = click.Option(["--delimiter"], metavar="C")
    >>> in_options("There is one cell: give delimiter=';' if that separates cells.", [option])
    "There is one cell: give --delimiter ';' if that separates cells."
    """
    for phrase, replacement in PHRASES.items():
        message = re.sub(phrase, replacement, message)
    options = {}
    for parameter in parameters:
        if isinstance(parameter, click.Option):
            options[parameter.name] = parameter

    def as_option(match: re.Match[str]) -> str:
        name = match["quoted"] or match["assigned"] or match["bare"] or match["joined"]
        option = options.get(OTHER_NAMES.get(name, name))
        return match[0] if option is None else _written(option, match["value"])

    return PARAMETER.sub(as_option, message)


def _written(option: click.Option, value: str | None) -> str:
    """Return an option with a value that is written in Python, as a user of a shell writes it."""
    name = option.opts[-1]
    if value is None or option.is_flag:
        return name
    if value.startswith("("):  # a pair of data is a file
        return f"{name} {option.metavar}"
    word = value.strip("'\"")
    return f"{name} {word if re.fullmatch(r'[A-Za-z0-9.+-]+', word) else value}"
