"""``omkl prune``: make a smaller parser with the best templates of a saved parser."""

from sklearn.base import clone

import omkl
from omkl import data
from omkl.cli import options as opt
from omkl.cli.console import attachment_lines, table
from omkl.cli.files import calibrate, destination, load_model, of_class
from omkl.cli.options import Options, option
from omkl.cli.training import DEV, OUTPUT
from omkl.exceptions import InputError

#: Columns of the curve beside the number of templates.
CURVE = ("accuracy", "behind", "standard_error")
#: Forms of pictures.
FORMS = ("svg", "png", "pdf")


@opt.command(
    "prune",
    *(opt.MODEL, OUTPUT, DEV),
    option("--keep", type=opt.AutoOr(int), required=True, metavar="N", help="Templates that stay; auto: the knee."),
    option("--retrain", type=opt.READ, metavar="FILE", help="Train the smaller parser anew on this treebank."),
    option("--regularizer", metavar="R", help="With --retrain: mkl, l2, ...; by default that of the saved parser."),
    option("--plot", type=opt.WRITE, metavar="FILE", help="With --keep auto: draw the curve, as .svg, .png or .pdf."),
    *(opt.ON_ERROR, opt.METRICS),
)
def prune(options: Options) -> None:
    """Keep the best templates of the parser MODEL, with the same weights, or retrained.

    With --keep auto, parsers are retrained on fewer and fewer templates, and compared on held-out sentences. The knee
    is the smallest number of templates within a standard error of the best.

    Examples:
      omkl prune parser.npz --keep 100 -o small.npz
      omkl prune parser.npz --keep 100 -o small.npz --retrain train.conllu --regularizer l2 --dev dev.conllu
      omkl prune parser.npz --keep auto -o small.npz --retrain train.conllu --plot curve.svg
    """
    parser, kind = load_model(options)
    if kind != "trees":
        raise InputError(f"{options.model} is {of_class(parser)}, and only a parser has templates to prune.")
    if options.retrain is None:
        opt.refuse("goes with --retrain FILE", "regularizer")
        if options.keep == "auto":
            raise InputError("--keep auto retrains on fewer and fewer templates: give --retrain FILE.")
    form = (options.plot or ".svg").rpartition(".")[2]
    if form not in FORMS:
        raise InputError(f"--plot must end in .{', .'.join(FORMS)}, got {options.plot}.")
    if options.keep != "auto":
        opt.refuse("goes with --keep auto", "plot")
        pruned = parser.prune(options.keep)
    else:
        pruned = clone(parser).set_params(templates=parser.templates_, keep="auto")
    reading = {"single_root": pruned.single_root, "on_error": options.on_error, "keep_text": False}
    gold = data.read_treebank(options.dev, **reading) if options.dev else None
    if options.retrain is not None:
        pruned.set_params(verbose=not options.quiet, regularizer=options.regularizer or pruned.regularizer)
        pruned.fit(data.read_treebank(options.retrain, trees="partial", **reading))
    uncalibrated = [] if gold is None else calibrate(pruned, options.dev, gold)
    pruned.save(destination(options.output))
    metrics = {"templates": pruned.templates_.names, "memory": pruned.memory_usage()}
    lines = [f"Kept {len(pruned.templates_)} of {len(parser.templates_)} templates: {options.output}"]
    if curve := pruned.pruning_curve_:
        metrics["pruning_curve"] = curve
        rows = [[f"{point['templates']}", *(f"{point[name]:.2%}" for name in CURVE)] for point in curve]
        lines = [*table(rows, ["templates", "right heads", "behind the best", "std. error"]), *lines]
        if options.plot is not None:
            with data.output_file(options.plot) as file:
                omkl.reports.plot_pruning(pruned).figure.savefig(file, format=form, dpi=150)
    if gold is not None:
        metrics["dev"] = {"all": pruned.evaluate(gold), "without_punctuation": pruned.evaluate(gold, ignore="form")}
        lines += [*attachment_lines(metrics["dev"], options.dev), *uncalibrated]
    options.report(lines, metrics)
