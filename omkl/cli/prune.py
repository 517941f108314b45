"""``omkl prune``: make a smaller parser with the best templates of a saved parser."""

from omkl import data
from omkl.cli import options as opt
from omkl.cli.console import attachment_lines
from omkl.cli.files import calibrate, destination, load_model, of_class
from omkl.cli.options import Options, option
from omkl.cli.training import DEV, OUTPUT
from omkl.exceptions import InputError


@opt.command(
    "prune",
    """
    omkl prune parser.npz --keep 100 -o small.npz
    omkl prune parser.npz --keep 100 -o small.npz --retrain train.conllu --regularizer l2 --dev dev.conllu
    """,
    *(opt.MODEL, OUTPUT, DEV),
    option("--keep", type=int, required=True, metavar="N", help="Number of templates that stay."),
    option("--retrain", type=opt.READ, metavar="FILE", help="Train the smaller parser anew on this treebank."),
    option("--regularizer", metavar="R", help="With --retrain: mkl, l2, ...; by default that of the saved parser."),
    *(opt.ON_ERROR, opt.METRICS),
)
def prune(options: Options) -> None:
    """Keep the best templates of the parser MODEL, with the same weights, or retrained."""
    parser, kind = load_model(options)
    if kind != "trees":
        raise InputError(f"{options.model} is {of_class(parser)}, and only a parser has templates to prune.")
    if options.retrain is None:
        opt.refuse("goes with --retrain FILE", "regularizer")
    pruned = parser.prune(options.keep)
    reading = {"single_root": pruned.single_root, "on_error": options.on_error, "keep_text": False}
    gold = data.read_treebank(options.dev, **reading) if options.dev else None
    if options.retrain is not None:
        pruned.set_params(verbose=not options.quiet, regularizer=options.regularizer or pruned.regularizer)
        pruned.fit(data.read_treebank(options.retrain, trees="partial", **reading))
    uncalibrated = [] if gold is None else calibrate(pruned, options.dev, gold)
    pruned.save(destination(options.output))
    metrics = {"templates": pruned.templates_.names, "memory": pruned.memory_usage()}
    lines = [f"Kept {len(pruned.templates_)} of {len(parser.templates_)} templates: {options.output}"]
    if gold is not None:
        metrics["dev"] = {"all": pruned.evaluate(gold), "without_punctuation": pruned.evaluate(gold, ignore="form")}
        lines += [*attachment_lines(metrics["dev"], options.dev), *uncalibrated]
    options.report(lines, metrics)
