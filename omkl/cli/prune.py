"""``omkl prune``: a smaller parser, of the best templates of a saved one."""

from argparse import Namespace
from typing import Any

from omkl import data
from omkl.cli.common import OUTPUT, add_command, add_options, calibrate, load_model, of_class, report
from omkl.cli.outputs import save_model
from omkl.cli.train_parser import attachment_lines
from omkl.exceptions import InputError


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = add_command(
        subparsers,
        "prune",
        summary="keep the best templates of a parser",
        description="Keep the best templates of a parser, with their weights as they are, or retrained.",
        examples="""
            omkl prune parser.npz --keep 100 -o small.npz
            omkl prune parser.npz --keep 100 -o small.npz --retrain train.conllu --regularizer l2 --dev dev.conllu
        """,
    )
    add_options(parser, "model", "--output", "--dev")
    parser.add_argument("--keep", type=int, required=True, metavar="N", help="how many templates stay")
    parser.add_argument("--by", choices=("weights", "norms"), default="weights", help="what ranks (default weights)")
    parser.add_argument(
        "--retrain", metavar="FILE", help="train the smaller parser anew on this treebank (- for standard input)"
    )
    add_options(parser, "--regularizer", "--on-error", "--jobs", *OUTPUT)
    parser.set_defaults(run=run, regularizer=None)  # that of the saved parser


def run(arguments: Namespace) -> None:
    """Prune a parser."""
    parser, kind = load_model(arguments)
    if kind != "trees":
        raise InputError(f"{arguments.model} is {of_class(parser)}, and only a parser has templates to prune.")
    if arguments.regularizer is not None and not arguments.retrain:
        raise InputError("--regularizer is what --retrain trains with: give both.")
    pruned = parser.prune(arguments.keep, arguments.by)
    reading = {"single_root": pruned.single_root, "on_error": arguments.on_error, "keep_text": False}
    gold = data.read_treebank(arguments.dev, **reading) if arguments.dev else None
    if arguments.retrain:
        if arguments.regularizer is not None:
            pruned.set_params(regularizer=arguments.regularizer)
        pruned.set_params(verbose=not arguments.quiet).fit(
            data.read_treebank(arguments.retrain, trees="partial", **reading)
        )
    uncalibrated = [] if gold is None else calibrate(pruned, arguments, gold)
    save_model(pruned, arguments)
    metrics = {"templates": pruned.templates_.names, "memory": pruned.memory_usage()}
    lines = [f"Kept {len(pruned.templates_)} of {len(parser.templates_)} templates: {arguments.output}"]
    if gold is not None:
        metrics["dev"] = {"all": pruned.evaluate(gold), "without_punctuation": pruned.evaluate(gold, ignore="form")}
        lines += [*attachment_lines(metrics["dev"], arguments.dev), *uncalibrated]
    report(arguments, lines, metrics)
