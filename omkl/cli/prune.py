"""``omkl prune``: a smaller parser, of the best templates of a saved one."""

from argparse import Namespace
from typing import Any

from omkl import data, estimators
from omkl.cli.common import OUTPUT, add_options, report
from omkl.cli.outputs import save_model
from omkl.cli.train_parser import attachment_lines
from omkl.exceptions import InputError


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = subparsers.add_parser(
        "prune",
        help="keep the best templates of a parser",
        description="Keep the best templates of a parser, with their weights as they are, or retrained.",
    )
    parser.add_argument("model", help="a saved parser")
    parser.add_argument("--keep", type=int, required=True, metavar="N", help="how many templates stay")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="file to save the smaller parser to")
    parser.add_argument("--by", choices=("weights", "norms"), default="weights", help="what ranks (default weights)")
    parser.add_argument("--retrain", metavar="FILE", help="train the smaller parser anew on this treebank")
    parser.add_argument("--regularizer", help="for --retrain; that of the saved parser by default, l2 for an SVM")
    parser.add_argument("--dev", metavar="FILE", help="treebank to report the attachment scores on")
    add_options(parser, "--on-error", *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Prune a parser."""
    parser = estimators.load(arguments.model)
    if not isinstance(parser, estimators.DependencyParser):
        raise InputError(f"{arguments.model} is a {type(parser).__name__}, and only a parser has templates to prune.")
    pruned = parser.prune(arguments.keep, arguments.by)
    reading = {"single_root": pruned.single_root, "on_error": arguments.on_error, "keep_text": False}
    if arguments.retrain:
        if arguments.regularizer:
            pruned.set_params(regularizer=arguments.regularizer)
        pruned.set_params(verbose=not arguments.quiet).fit(data.read_treebank(arguments.retrain, **reading))
    save_model(pruned, arguments)
    metrics = {"templates": pruned.templates_.names, "memory": pruned.memory_usage()}
    lines = [f"Kept {len(pruned.templates_)} of {len(parser.templates_)} templates: {arguments.output}"]
    if arguments.dev:
        gold = data.read_treebank(arguments.dev, **reading)
        metrics["dev"] = {"all": pruned.evaluate(gold), "without_punctuation": pruned.evaluate(gold, ignore="form")}
        lines += attachment_lines(metrics["dev"], arguments.dev)
    report(arguments, lines, metrics)
