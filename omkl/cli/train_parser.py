"""``omkl train parser``, ``omkl train annotator`` and ``omkl prune``: train on treebanks."""

from __future__ import annotations

import time
from typing import Any

import omkl
from omkl import data
from omkl.cli import options as opt
from omkl.cli import train
from omkl.cli.console import Record, attachment_lines, bar_chart, counted, table
from omkl.cli.evaluate import tree_scores
from omkl.cli.files import calibrate, class_with_article, destination, load_model
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
        help="Look only at arcs that a small first parser finds likely, among them this share of "
        "the right ones: 0.99 is faster, and what an annotator without --keep does; 0 is all arcs.",
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
#: Names of these options.
OF_TREES = (
    "templates",
    "order",
    "likely",
    "keep",
    "projective",
    "multi_root",
    "unlabeled",
    "memory",
)


def _untrained_parser(options: Options, parameters: Record) -> omkl.DependencyParser:
    """Make an untrained parser from the options and further parameters."""
    return omkl.DependencyParser(
        trees=omkl.TreeForm(
            projective=options.projective,
            single_root=not options.multi_root,
            labeled=not options.unlabeled,
        ),
        search=omkl.TreeSearch(order=options.order, likely=options.likely or None),
        **options.values("templates", "keep", "memory"),
        **parameters,
    )


def _sizes_of_stream(stream: data.Stream) -> tuple[int, int]:
    """Read a stream of treebanks; return its numbers of sentences and words."""
    n_sentences = 0
    n_words = 0
    for block in stream.blocks():
        n_sentences += len(block.X)
        n_words += block.X.n_words
    return n_sentences, n_words


def _attachment_scores(parser: omkl.DependencyParser, gold: data.Treebank) -> dict[str, Any]:
    """Return the scores of a parser on all words, and on those that are no punctuation."""
    return {
        "all": parser.evaluate(gold),
        "without_punctuation": parser.evaluate(gold, ignore="form"),
    }


@opt.command(
    "parser",
    train.training_options(epochs=10, C=10.0),
    TREES,
    train.LEXICON,
    opt.ON_ERROR,
    opt.METRICS,
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
    parser = _untrained_parser(options, {"lexicons": options.lexicons, **training.parameters()})
    parser._settings()
    trees: data.Treebank | data.Stream
    if options.stream:
        trees = data.stream_conllu(options.train, trees="partial", **reading)
        n_sentences, n_words = _sizes_of_stream(trees)
    else:
        trees = data.read_treebank(options.train, trees="partial", **reading)
        n_sentences = len(trees)
        n_words = trees.n_words
    dev = None
    if options.dev:
        dev = data.read_treebank(options.dev, trees=True, **reading)
    options.say(
        f"{n_sentences} sentences, {n_words} words; parameters take up to {options.memory:g} MB."
    )
    training.fit(parser, trees, dev=dev, n_examples=n_sentences)
    lines_of_calibration = calibrate(parser, options.dev, dev)
    training.save(parser)
    weights = parser.template_weights_
    metrics: Record = {
        "sentences": n_sentences,
        "words": n_words,
        "templates": len(weights),
        "template_weights": weights,
        "features": parser.n_features(),
        "collision_rate": parser.collision_rate(),
    }
    n_active = sum(weight > 0 for weight in weights.values())
    lines = [
        f"Trained for {counted(parser.n_iter_, 'epoch')} in {parser.fit_seconds_:.1f} s: "
        f"{metrics['features'] / 1e6:.2f} million weights in {n_active} of {len(weights)} "
        f"templates, {metrics['collision_rate']:.0%} of the features share one."
    ]
    best = {name: weights[name] for name in parser.ranking()[:10]}
    if len(set(best.values())) > 1:  # all weights are equal with l2
        lines += bar_chart(best)
    if dev is not None:
        metrics["dev"] = _attachment_scores(parser, dev)
        lines += attachment_lines(metrics["dev"], options.dev)
    training.report(parser, lines + lines_of_calibration, metrics)


@opt.command(
    "annotator",
    train.TRAIN,
    train.OUTPUT,
    train.DEV,
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
    train.strength(epochs=10, C=10.0),
    TREES,
    train.LEXICON,
    opt.SEED,
    opt.ON_ERROR,
    opt.JOBS,
    train.CHECKPOINTS,
    opt.METRICS,
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
    model = _untrained_annotator(options)
    reading: Record = {"on_error": options.on_error}
    treebank = data.read_treebank(options.train, trees="partial", **reading)
    gold = None
    if options.dev:
        gold = data.read_treebank(options.dev, trees="given", **reading)
    started = time.perf_counter()
    model.fit(treebank, **options.values("checkpoint", "checkpoint_every", "resume"))
    seconds = time.perf_counter() - started
    lines_of_calibration = calibrate(model, options.dev, gold)
    model.save(destination(options.output))
    metrics: Record = {
        "sentences": len(treebank),
        "words": treebank.n_words,
        "parts": model.parts_,
        "seconds": seconds,
        "kernel_weights": model.kernel_weights_,
    }
    sizes = f"{len(treebank)} sentences, {treebank.n_words} words"
    lines = [f"Learned {', '.join(model.parts_)} from {sizes}, in {seconds:.1f} s."]
    lines += _heaviest_groups(model.kernel_weights_)
    if gold is not None:
        lines.append("")
        lines += _annotation_scores(model, gold, options.dev, metrics)
    options.report([*lines, *lines_of_calibration, f"Saved to {options.output}."], metrics)


def _untrained_annotator(options: Options) -> omkl.Annotator:
    """Make an untrained annotator from the options, whose models have checked their settings."""
    strength = options.values("C", "epochs")
    model = omkl.Annotator(
        options.parts or "auto",
        tagger=omkl.SequenceLabeler(**strength),
        parser=_untrained_parser(options, strength),
        folds=options.tagging_folds,
        n_jobs=options.jobs,
        verbose=not options.quiet,
        **options.values("lexicons", "random_state"),
    )
    for part in model._untrained_models():
        part._settings()
    return model


def _heaviest_groups(weights: Record) -> list[str]:
    """Return lines with the heaviest groups of taggers and parser, of those that have any."""
    lines: list[str] = []
    for part in ("upos", "xpos", "trees"):
        active = {group: weight for group, weight in weights.get(part, {}).items() if weight > 0}
        if active:
            lines += ["", f"The heaviest groups of {part}", *bar_chart(active, MOST_GROUPS)]
    return lines


def _annotation_scores(
    model: omkl.Annotator, gold: data.Treebank, path: str, metrics: Record
) -> list[str]:
    """Measure an annotator; add its scores to ``metrics``, and return lines about them."""
    from omkl.annotation.raw_text import has_text

    lines, metrics["dev"] = tree_scores(gold, model.annotate(gold), path, model.parts_)
    if "tokens" in model.parts_ and has_text(gold):
        scores = metrics["dev_raw"] = model.evaluate(gold, raw=True)
        words = f"words {scores['words_f1']:.2%}"
        sentences = f"sentences {scores['sentences_f1']:.2%}"
        lines.append(f"From raw text: {words}, {sentences}.")
    return lines


# ---- omkl prune ----------------------------------------------------------------------------------


#: Columns of the curve beside the number of templates.
CURVE = ("accuracy", "behind", "standard_error")
#: Forms of pictures.
FORMS = ("svg", "png", "pdf")


@opt.command(
    "prune",
    opt.MODEL,
    train.OUTPUT,
    train.DEV,
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
    opt.ON_ERROR,
    opt.METRICS,
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
            f"{options.model} is {class_with_article(parser)}, "
            "and only a parser has templates to prune."
        )
    if options.keep != "auto":
        opt.refuse("goes with --keep auto", "plot")
        pruned = parser.prune(options.keep)
    else:
        from sklearn.base import clone

        pruned = clone(parser).set_params(templates=parser.templates_, keep="auto")
    reading = {
        "single_root": pruned.trees.single_root,
        "on_error": options.on_error,
        "keep_text": False,
    }
    gold = None
    if options.dev:
        gold = data.read_treebank(options.dev, **reading)
    if options.retrain is not None:
        pruned.set_params(verbose=not options.quiet)
        if options.regularizer is not None:
            pruned.set_params(regularizer=options.regularizer)
        pruned.fit(data.read_treebank(options.retrain, trees="partial", **reading))
    lines_of_calibration = calibrate(pruned, options.dev, gold)
    pruned.save(destination(options.output))
    metrics: Record = {
        "templates": pruned.templates_.names,
        "memory": pruned.memory_usage(),
    }
    lines: list[str] = []
    if pruned.pruning_curve_:
        metrics["pruning_curve"] = pruned.pruning_curve_
        lines += _curve_lines(pruned.pruning_curve_)
        if options.plot is not None:
            with data.output_file(options.plot) as file:
                omkl.reports.plot_pruning(pruned).figure.savefig(file, format=form, dpi=150)
    n_kept = len(pruned.templates_)
    lines.append(f"Kept {n_kept} of {len(parser.templates_)} templates: {options.output}")
    if gold is not None:
        metrics["dev"] = _attachment_scores(pruned, gold)
        lines += attachment_lines(metrics["dev"], options.dev)
    options.report(lines + lines_of_calibration, metrics)


def _curve_lines(curve: list[dict[str, Any]]) -> list[str]:
    """Return a table of the accuracies of parsers with fewer and fewer templates."""
    rows = []
    for point in curve:
        shares = [f"{point[column]:.2%}" for column in CURVE]
        rows.append([str(point["templates"]), *shares])
    return table(rows, ["templates", "right heads", "behind the best", "std. error"])
