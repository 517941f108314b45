"""Declarations of commands and options with click, and checks of files before a command runs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib import import_module
from inspect import cleandoc
from itertools import combinations
from types import SimpleNamespace
from typing import IO, Any

import click
from click.core import ParameterSource
from click.shell_completion import shell_complete

from omkl._files import check_output, is_same_file
from omkl.cli.advice import in_options
from omkl.cli.console import Record, write_json
from omkl.data.files import find_files, is_url
from omkl.exceptions import InputError

#: Settings of all commands.
SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}
#: Options that accept several values: ``--kernels linear gaussian``.
SEVERAL = ("--kernels", "--parts")


class Run(SimpleNamespace):
    """One run of ``omkl``.

    It has the parameters of its command, the path of its copy of standard input, and the folder of
    checkpoints.
    """

    parameters: Sequence[click.Parameter] = ()
    standard_input: str | None = None
    checkpoint: str | None = None

    def execute(self, argv: Sequence[str]) -> int:
        """Run the command in ``argv``; return the exit code."""
        if instruction := os.environ.get("_OMKL_COMPLETE"):
            return shell_complete(omkl, {}, "omkl", "_OMKL_COMPLETE", instruction)
        try:
            with omkl.make_context("omkl", list(argv), obj=self) as context:
                omkl.invoke(context)
        except click.exceptions.Exit as end:  # after --help
            return end.exit_code
        except click.UsageError as error:
            place = f" See '{error.ctx.command_path} --help'." if error.ctx else ""
            raise InputError(f"{error.format_message()}{place}") from None
        return 0

    def shown(self, text: str) -> str:
        """Replace the path of the copy of standard input in a text by "standard input"."""
        if self.standard_input is None:
            return text
        return text.replace(self.standard_input, "standard input")

    def advice(self, message: str) -> str:
        """Return an error or a warning of the library in one line, in terms of the command line."""
        return self.shown(in_options(" ".join(message.split()), self.parameters))


class Options(SimpleNamespace):
    """Options and arguments of a command, and defaults of what the command does not declare."""

    format: Any = None
    target: Any = None
    delimiter: Any = None
    categorical: Any = None
    jobs: Any = None
    budget: Any = None
    kernels: Any = None
    lexicons: Any = None
    templates: Any = None
    transitions: Any = None
    checked: Any = None
    no_header = False
    zero_based = False
    on_error = "raise"

    def values(self, *names: str) -> dict[str, Any]:
        """Return the values of some options by name."""
        return {name: self.__dict__[name] for name in names}

    def say(self, *lines: str) -> None:
        """Print lines, unless ``--quiet`` is given or an output file is standard output."""
        if not self.quiet:
            print(*map(click.get_current_context().obj.shown, lines), sep="\n")

    def report(self, lines: Sequence[str], metrics: Record) -> None:
        """Print lines, and write metrics to the file of ``--json``."""
        self.say(*lines)
        write_json(self.json, metrics)


class InputFile(click.Path):
    """A file to read, a pattern, a directory or a URL; ``-`` is standard input."""


class InputFileOrName(click.Path):
    """A file to read, or a name that the command knows."""


class OutputFile(click.Path):
    """A file to write; ``-`` is standard output."""


class Command(click.Command):
    """Command whose function takes :class:`Options`.

    It checks files first, and prints warnings in one line.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        repeated: list[str] = []  # --kernels a b is written as --kernels a --kernels b
        option = None
        for before, word in zip([None, *args], args):
            if word.startswith("-") and word != "-":
                option = word if word in SEVERAL else None
            elif option is not None and before != option:
                repeated.append(option)
            repeated.append(word)
        return super().parse_args(ctx, repeated)

    def invoke(self, ctx: click.Context) -> Any:
        run = ctx.ensure_object(Run)
        run.parameters = self.params
        run.checkpoint = ctx.params.get("checkpoint")
        values: dict[str, Any] = {}
        for name, value in ctx.params.items():
            if isinstance(value, tuple):
                value = list(value) or None
            values[name] = value
        options = Options(**values)
        for path in self._paths(ctx, InputFile).values():
            if path != "-":
                check_input(path)
        for path in (options.lexicons or {}).values():
            check_input(path)
        inputs = self._paths(ctx, InputFile, InputFileOrName)
        outputs = self._paths(ctx, OutputFile)
        _check_outputs(outputs, inputs)
        options.quiet |= "-" in outputs.values()
        piped = [name for name, path in inputs.items() if path == "-"]
        if len(piped) > 1:
            raise InputError("Standard input can be read only once, and two files are called -.")
        with ExitStack() as stack:
            stack.enter_context(_printed_warnings(run, ctx.params["quiet"]))
            if piped and not ctx.params.get("line_buffered"):
                source = copied(lambda: nullcontext(sys.stdin.buffer), "Standard input")
                run.standard_input = stack.enter_context(source)
                setattr(options, piped[0], run.standard_input)
            assert self.callback is not None
            self.callback(options)

    def _paths(self, ctx: click.Context, *kinds: type[click.Path]) -> dict[str, str]:
        """Return the paths that the user names for parameters of some kinds, by parameter."""
        paths = {}
        for parameter in self.params:
            path = ctx.params[str(parameter.name)]
            if isinstance(parameter.type, kinds) and path is not None:
                paths[str(parameter.name)] = path
        return paths


def _check_outputs(outputs: Mapping[str, str], inputs: Mapping[str, str]) -> None:
    """Check that outputs can be written, and replace neither an input nor another output."""
    for name, path in outputs.items():
        if path == "-":
            continue
        check_output(path)
        for other in inputs.values():
            if is_same_file(path, other):
                raise InputError(
                    f"{_option_of(name)} {path} would replace {other}, which is read: "
                    "name another file."
                )
    for (name, path), (other_name, other) in combinations(outputs.items(), 2):
        if path == other or is_same_file(path, other):
            options = f"{_option_of(name)} and {_option_of(other_name)}"
            raise InputError(f"{options} are one file: name two.")


def _option_of(name: str) -> str:
    """Return the option, as users write it, of a parameter of the running command."""
    for parameter in click.get_current_context().command.params:
        if parameter.name == name:
            return parameter.opts[0]
    raise KeyError(name)


def check_input(path: str) -> None:
    """Raise DataFileError if there is no such file, before anything is imported that takes time.

    URLs are not looked up.
    """
    if not is_url(path):
        find_files(path)


@contextmanager
def copied(opened: Callable[[], AbstractContextManager[IO[bytes]]], name: str) -> Iterator[str]:
    """Copy standard input or a pipe to a temporary file, which can be read twice.

    ``name`` is for messages.
    """
    with tempfile.TemporaryDirectory(prefix="omkl-") as folder:
        path = os.path.join(folder, name.lower())
        with open(path, "wb") as file:
            try:
                with opened() as source:
                    shutil.copyfileobj(source, file)
            except (AttributeError, OSError) as error:  # standard input is closed, or a folder
                raise InputError(f"{name} cannot be read: {error}.") from None
        yield path


@contextmanager
def _printed_warnings(run: Run, quiet: bool) -> Iterator[None]:
    """Print each warning as one line, without the line of code that it comes from."""

    def show(message: Warning | str, *_: object) -> None:
        print(f"omkl: warning: {run.advice(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "once")
        # not relevant for users of commands
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def refuse(reason: str, *names: str) -> None:
    """Raise if the user sets one of these options: ``--target does not go with a GroupLasso.``"""
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name not in names:
            continue
        if context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            raise InputError(f"{parameter.opts[-1]} {reason}.")


# ---- declarations --------------------------------------------------------------------------------


def _help_from(function: Callable) -> dict[str, Any]:
    """Return the settings of a command: help and examples from the docstring of its function.

    click does not wrap lines after ``\\b``.
    """
    text, _, examples = cleandoc(function.__doc__ or "").partition("Examples:\n")
    return {"context_settings": SETTINGS, "help": text, "epilog": f"\b\nExamples:\n{examples}"}


def declare(*options: Callable) -> Callable[[Callable], Callable]:
    """Declare several options, in this order."""

    def decorate(function: Callable) -> Callable:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def command(name: str, *options: Callable) -> Callable[[Callable], click.Command]:
    """Make a command with these options from a function.

    The docstring of the function is the help text, and ends with examples.
    """

    def decorate(function: Callable) -> click.Command:
        make = click.command(name, cls=Command, **_help_from(function))
        return make(declare(*options)(function))

    return decorate


class Group(click.Group):
    """Group of lazily imported commands.

    ``sources`` has ``module:function`` and a summary of each command, by name.
    """

    def __init__(
        self, name: str | None, sources: dict[str, tuple[str, str]], **settings: Any
    ) -> None:
        super().__init__(name, **settings)
        self.sources = sources

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.sources)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.sources:
            return None
        module, _, function = self.sources[cmd_name][0].partition(":")
        return vars(import_module(f"omkl.cli.{module}"))[function]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.sources.items()])


def group(name: str, sources: dict[str, tuple[str, str]]) -> Callable[[Callable], Group]:
    """Make a group of commands from a function.

    The docstring of the function is the help text, and ends with examples.
    """

    def decorate(function: Callable) -> Group:
        make = click.group(
            name, cls=Group, sources=sources, no_args_is_help=False, **_help_from(function)
        )
        return make(function)

    return decorate


def auto_or(kind: type) -> Callable[[Any], Any]:
    """Make a parser of a number, or ``auto``."""

    def parse(value: str | float) -> str | float:
        try:
            return value if value == "auto" else kind(value)
        except ValueError:
            raise click.BadParameter(f"{value!r} is neither auto nor a number.") from None

    return parse


def number_or_text(value: str) -> str | float:
    """Return a number, or the text if it is none."""
    try:
        return float(value)
    except ValueError:
        return value


option = click.option
argument = click.argument
CHOICE = click.Choice
COUNT = click.IntRange(min=0)
POSITIVE = click.IntRange(min=1)
READ = InputFile(readable=False, allow_dash=True)
WRITE = OutputFile(readable=False, allow_dash=True)
READ_OR_NAME = InputFileOrName(readable=False, allow_dash=True)
MODEL = argument("model", type=READ)
FORMAT = option(
    "--format", metavar="NAME", help="Format of the data; by default guessed from the file's name."
)
ON_ERROR = option(
    "--on-error",
    type=CHOICE(["raise", "skip"]),
    default="raise",
    help="Stop at or skip bad records.",
)
#: Options for tables.
TABLE = (
    option(
        "--target",
        metavar="WHERE",
        help="Outputs: a column, by default the last, or an array of npz.",
    ),
    option("--no-header", is_flag=True, help="csv: the first line is a row, not names of columns."),
    option(
        "--delimiter",
        metavar="C",
        help="csv: divides cells, as ';'; by default a comma, in .tsv files a tab.",
    ),
    option(
        "--categorical",
        metavar="NAMES",
        help="csv: columns that are text, as zip codes, separated by commas.",
    ),
    option(
        "--zero-based",
        is_flag=True,
        help="svmlight: indices count from 0, as scikit-learn writes them.",
    ),
)
OF_TABLES = ("target", "no_header", "delimiter", "categorical", "zero_based")
OF_DATA = ("format", *OF_TABLES, "on_error", "worst")
DATA = declare(FORMAT, *TABLE, ON_ERROR)
JOBS = option(
    "--jobs", type=int, metavar="N", help="Threads; -1 is one for each core, by default one."
)
SEED = option("--random-state", type=COUNT, default=0, metavar="N", help="Seed.")
METRICS = declare(
    option("--json", type=WRITE, metavar="FILE", help="Also write the metrics to FILE, as JSON."),
    option("--quiet", is_flag=True, help="Print nothing but errors, show no progress."),
)


@group(
    "omkl",
    {
        "demo": ("demo:demo", "Read handwritten dates, and see which kernels MKL finds useful."),
        "train": ("train:train", "Train a model on a file."),
        "predict": ("predict:predict", "Label sequences, parse sentences, or predict for rows."),
        "evaluate": ("evaluate:evaluate", "Score a model on labelled sequences, trees or rows."),
        "calibrate": ("predict:calibrate", "Make the scores of a model probabilities."),
        "guarantee": (
            "predict:guarantee",
            "Calibrate a model, to know which of its outputs to accept.",
        ),
        "inspect": ("inspect:inspect", "Show what a model has learned."),
        "report": ("inspect:report", "Write a page about a model, and how good it is on data."),
        "prune": ("train_parser:prune", "Keep the best templates of a parser."),
        "convert": ("convert:convert", "Write sequences or trees in another format."),
    },
)
@click.version_option(package_name="omkl", message="omkl %(version)s", help="Print the version.")
def omkl() -> None:
    """Online multiple kernel learning for structured prediction.

    A file named - is standard input or standard output.

    Examples:
      omkl demo                                             # see it work, in about a minute
      omkl train labeler train.conllu -o tagger.npz --dev dev.conllu
      omkl predict tagger.npz new.txt -o tagged.conllu
      omkl evaluate tagger.npz test.conllu
      omkl COMMAND --help                                   # options and examples of a command
    """
