"""The subcommands of ``omkl``, one a file, and their arguments."""

import argparse

import omkl
from omkl.cli import common, completion, convert, demo, evaluate, inspect, plot, predict, prune, report, train

EXAMPLES = """\
examples:
  omkl demo                                             # see it work, in about a minute
  omkl train labeler train.conllu -o tagger.npz --dev dev.conllu
  omkl predict tagger.npz new.txt -o tagged.conllu
  omkl evaluate tagger.npz test.conllu
  omkl COMMAND --help                                   # options and examples of a command"""
SUBCOMMANDS = (demo, train, predict, evaluate, inspect, plot, report, prune, convert)


def build_parser() -> argparse.ArgumentParser:
    """The argument parser with all subcommands."""
    parser = argparse.ArgumentParser(
        prog="omkl",
        description="Online multiple kernel learning for structured prediction.",
        formatter_class=common.Help,
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for subcommand in SUBCOMMANDS:
        subcommand.add_parser(subparsers)
    completion.add_parser(subparsers, parser)
    return parser


class _Version(argparse.Action):
    """Print the version, which is looked up only then."""

    def __call__(self, parser, *_):
        print("omkl", omkl.__version__)
        parser.exit()
