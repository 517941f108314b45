"""``omkl train parser``, ``omkl train annotator`` and ``omkl prune``: train on treebanks."""

from __future__ import annotations

import time
from typing import Any

import omkl
from omkl import data
from omkl.cli import options as opt
from omkl.cli import train
from omkl.cli.console import Record, attachment_lines, bar_chart, table
from omkl.cli.evaluate import tree_scores
from omkl.cli.files import calibrate, destination, load_model, of_class
from omkl.cli.options import Options, option
from omkl.exceptions import InputError

#: Maximum number of groups of each part to list.
MOST_GROUPS = 5


TREES = opt.declare(
    option(
        "--templates",
        type=opt.READ_OR_NAME,
        default="auto",
        metavar="SET",
        help="rich, martins507, small ... or a file.",
    ),
    option(
        "--order",
        type=int,
        default=2,
        metavar="N",
        help="2, or 1 to score single arcs only, which is faster.",
    ),
    option(
        "--likely",
        type=float,
        metavar="SHARE",
        help="Look only at arcs that a small first parser finds likely, among them this share of the right ones: 0.99 "
        "is faster, and what an annotator without --keep does; 0 is all arcs.",
    ),
    option(
        "--keep",
        type=opt.auto_or(int),
        metavar="N",
        help="Train anew on the N best templates, or as few as do.",
    ),
    option("--projective", is_flag=True, help="Only projective trees."),
    option("--multi-root", is_flag=True, help="The root may have several children."),
    option("--unlabeled", is_flag=True, help="Learn no relations."),
    option("--memory", type=float, default=160.0, metavar="MB", help="Megabytes for parameters."),
)
OF_TREES = (
    *("templates", "order", "likely", "keep"),
    *("projective", "multi_root", "unlabeled", "memory"),
)


def _untrained_parser(options: Options, **settings: Any) -> omkl.DependencyParser:
    """Make an untrained parser from the options and further parameters."""
    settings |= options.values("templates", "order", "keep", "projective", "memory")
    settings |= {"single_root": not options.multi_root, "labeled": not options.unlabeled}
    return omkl.DependencyParser(likely=options.likely or None, **settings)


@opt.command(
    "parser",
    *(train.training_options(epochs=10, C=10.0), TREES, train.LEXICON, opt.ON_ERROR, opt.METRICS),
)
def train_parser(options: Options) -> None:
    """Train a dependency parser on the treebank TRAIN.

    Templates are the name of a set, a file with one template per line, or "auto": "rich" adapted to
    the treebank. A lexicon has a line word<TAB>value for each word. Formats: CoNLL-U, CoNLL-X and
    CoNLL-2008, plain or compressed.

    Examples:
      omkl train parser train.conllu -o parser.npz --dev dev.conllu
      omkl train parser train.conllu -o fast.npz --order 1 --likely 0.99 --keep auto
      omkl train parser train.conllu -o parser.npz --lexicon cluster=brown.tsv
      omkl train parser train.conllu -o parser.npz --templates templates.txt
      omkl train parser train.conllu -o parser.npz --checkpoint state --resume
    """
    training = train.Training(options)
    reading: Record = {
        "single_root": not options.multi_root,
        "on_error": options.on_error,
        "keep_text": False,
    }
    parser = _untrained_parser(options, lexicons=options.lexicons, **training.parameters())
    parser._settings()
    trees: data.Treebank | data.Stream
    if options.stream:
        stream = data.stream_conllu(options.train, trees="partial", **reading)
        sizes = [(len(block.X), block.X.n_words) for block in stream.blocks()]
        trees, (n_sentences, n_words) = training.shuffled(stream), map(sum, zip((0, 0), *sizes))
        parser.set_params(n_examples=n_sentences or None)
    else:
        trees = data.read_treebank(options.train, trees="partial", **reading)
        n_sentences, n_words = len(trees), trees.n_words
    dev = data.read_treebank(options.dev, trees=True, **reading) if options.dev else None
    options.say(
        f"{n_sentences} sentences, {n_words} words; parameters take up to {options.memory:g} MB."
    )
    training.fit(parser, trees, dev=dev)
    uncalibrated = [] if dev is None else calibrate(parser, options.dev, dev)
    training.save(parser)
    weights = parser.template_weights_
    metrics: Record = {"sentences": n_sentences, "words": n_words}
    metrics |= {"templates": len(weights), "template_weights": weights}
    metrics |= {"features": parser.n_features(), "collision_rate": parser.collision_rate()}
    lines = [
        f"Trained for {parser.n_iter_} epochs in {parser.fit_seconds_:.1f} s: {metrics['features'] / 1e6:.2f} million "
        f"weights in {sum(weight > 0 for weight in weights.values())} of {len(weights)} templates, "
        f"{metrics['collision_rate']:.0%} of the features share one."
    ]
    best = {name: weights[name] for name in parser.ranking()[:10]}
    if len(set(best.values())) > 1:  # all weights are equal with l2
        lines += bar_chart(best)
    if dev is not None:
        metrics["dev"] = {
            "all": parser.evaluate(dev),
            "without_punctuation": parser.evaluate(dev, ignore="form"),
        }
        lines += [*attachment_lines(metrics["dev"], options.dev), *uncalibrated]
    training.report(parser, lines, metrics)


@opt.command(
    "annotator",
    *(train.TRAIN, train.OUTPUT, train.DEV),
    option(
        "--parts",
        multiple=True,
        metavar="PART...",
        help="Only some of tokens, upos, xpos, feats, lemmas, trees.",
    ),
    option(
        "--tagging-folds",
        type=int,
        default=4,
        metavar="N",
        help="Folds, each tagged by a model of the others.",
    ),
    *(train.strength(epochs=10, C=10.0), TREES, train.LEXICON),
    *(opt.SEED, opt.ON_ERROR, opt.JOBS, train.CHECKPOINTS, opt.METRICS),
)
def train_annotator(options: Options) -> None:
    """Train a tagger, a lemmatizer and a parser on the treebank TRAIN, as one model.

    The model annotates words with tags, features, lemmas and trees, if the treebank has them, and
    splits raw text to words, if the treebank has comments # text or SpaceAfter=No. The parser is
    trained on tags predicted by models of other folds. Formats: CoNLL-U, CoNLL-X and CoNLL-2008,
    plain or compressed.

    Examples:
      omkl train annotator train.conllu -o annotator.npz --dev dev.conllu
      omkl train annotator train.conllu -o tagger.npz --parts upos lemmas
      omkl train annotator train.conllu -o annotator.npz --checkpoint state --resume
      xzcat train.conllu.xz | omkl train annotator - -o - --quiet > annotator.npz
    """
    if options.parts and "trees" not in options.parts:
        opt.refuse("is about trees, which --parts leaves out", *OF_TREES)
    train.check_options(options)
    if options.likely is None and options.keep is None:
        options.likely = 0.99
    settings = options.values("C", "epochs")
    tagger, parser = omkl.SequenceLabeler(**settings), _untrained_parser(options, **settings)
    own = options.values("lexicons", "random_state") | {
        "folds": options.tagging_folds,
        "n_jobs": options.jobs,
    }
    model = omkl.Annotator(
        options.parts or "auto", tagger=tagger, parser=parser, verbose=not options.quiet, **own
    )
    for own in model._settings():
        own._settings()
    reading: Record = {"on_error": options.on_error}
    treebank = data.read_treebank(options.train, trees="partial", **reading)
    gold = data.read_treebank(options.dev, trees="given", **reading) if options.dev else None
    started = time.perf_counter()
    model.fit(treebank, **options.values("checkpoint", "checkpoint_every", "resume"))
    seconds = time.perf_counter() - started
    uncalibrated = [] if gold is None else calibrate(model, options.dev, gold)
    model.save(destination(options.output))
    sizes = {"sentences": len(treebank), "words": treebank.n_words}
    metrics = {**sizes, "parts": model.parts_, "seconds": seconds}
    weights = metrics["kernel_weights"] = model.kernel_weights_
    words = f"{len(treebank)} sentences, {treebank.n_words} words"
    lines = [f"Learned {', '.join(model.parts_)} from {words}, in {seconds:.1f} s."]
    for name in (part for part in ("upos", "xpos", "trees") if part in weights):
        if kept := {group: weight for group, weight in weights[name].items() if weight > 0}:
            lines += ["", f"The heaviest groups of {name}", *bar_chart(kept, MOST_GROUPS)]
    if gold is not None:
        found, metrics["dev"] = tree_scores(gold, model.annotate(gold), options.dev, model.parts_)
        lines += ["", *found, *uncalibrated]
        from omkl.annotation.raw_text import has_text

        if "tokens" in model.parts_ and has_text(gold):
            metrics["dev_raw"] = raw = model.evaluate(gold, raw=True)
            scores = ", ".join(f"{name} {raw[f'{name}_f1']:.2%}" for name in ("words", "sentences"))
            lines.append(f"From raw text: {scores}.")
    options.report([*lines, f"Saved to {options.output}."], metrics)


# ---- omkl prune ----------------------------------------------------------------------------------


#: Columns of the curve beside the number of templates.
CURVE = ("accuracy", "behind", "standard_error")
#: Forms of pictures.
FORMS = ("svg", "png", "pdf")


@opt.command(
    "prune",
    *(opt.MODEL, train.OUTPUT, train.DEV),
    option(
        "--keep",
        type=opt.auto_or(int),
        required=True,
        metavar="N",
        help="Templates that stay; auto: the knee.",
    ),
    option(
        "--retrain",
        type=opt.READ,
        metavar="FILE",
        help="Train the smaller parser anew on this treebank.",
    ),
    option(
        "--regularizer",
        metavar="R",
        help="With --retrain: mkl, l2, ...; by default that of the saved parser.",
    ),
    option(
        "--plot",
        type=opt.WRITE,
        metavar="FILE",
        help="With --keep auto: draw the curve, as .svg, .png or .pdf.",
    ),
    *(opt.ON_ERROR, opt.METRICS),
)
def prune(options: Options) -> None:
    """Keep the best templates of the parser MODEL, with the same weights, or retrained.

    With --keep auto, parsers are retrained on fewer and fewer templates, and compared on held-out
    sentences. The knee is the smallest number of templates within a standard error of the best.

    Examples:
      omkl prune parser.npz --keep 100 -o small.npz
      omkl prune parser.npz --keep 100 -o small.npz --retrain train.conllu --dev dev.conllu
      omkl prune parser.npz --keep auto -o small.npz --retrain train.conllu --plot curve.svg
    """
    if options.retrain is None:
        opt.refuse("goes with --retrain FILE", "regularizer")
        if options.keep == "auto":
            raise InputError(
                "--keep auto retrains on fewer and fewer templates: give --retrain FILE."
            )
    form = (options.plot or ".svg").rpartition(".")[2]
    if form not in FORMS:
        raise InputError(f"--plot must end in .{', .'.join(FORMS)}, got {options.plot}.")
    parser, kind = load_model(options)
    if kind != "trees":
        raise InputError(
            f"{options.model} is {of_class(parser)}, and only a parser has templates to prune."
        )
    if options.keep != "auto":
        opt.refuse("goes with --keep auto", "plot")
        pruned = parser.prune(options.keep)
    else:
        from sklearn.base import clone

        pruned = clone(parser).set_params(templates=parser.templates_, keep="auto")
    reading = {"single_root": pruned.single_root, "on_error": options.on_error, "keep_text": False}
    gold = data.read_treebank(options.dev, **reading) if options.dev else None
    if options.retrain is not None:
        pruned.set_params(
            verbose=not options.quiet, regularizer=options.regularizer or pruned.regularizer
        )
        pruned.fit(data.read_treebank(options.retrain, trees="partial", **reading))
    uncalibrated = [] if gold is None else calibrate(pruned, options.dev, gold)
    pruned.save(destination(options.output))
    metrics = {"templates": pruned.templates_.names, "memory": pruned.memory_usage()}
    lines = [
        f"Kept {len(pruned.templates_)} of {len(parser.templates_)} templates: {options.output}"
    ]
    if curve := pruned.pruning_curve_:
        metrics["pruning_curve"] = curve
        rows = [
            [f"{point['templates']}", *(f"{point[name]:.2%}" for name in CURVE)] for point in curve
        ]
        lines = [
            *table(rows, ["templates", "right heads", "behind the best", "std. error"]),
            *lines,
        ]
        if options.plot is not None:
            with data.output_file(options.plot) as file:
                omkl.reports.plot_pruning(pruned).figure.savefig(file, format=form, dpi=150)
    if gold is not None:
        metrics["dev"] = {
            "all": pruned.evaluate(gold),
            "without_punctuation": pruned.evaluate(gold, ignore="form"),
        }
        lines += [*attachment_lines(metrics["dev"], options.dev), *uncalibrated]
    options.report(lines, metrics)
