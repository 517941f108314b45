"""``omkl train annotator``: train tagger, lemmatizer and parser on a treebank, together, and save them."""

import time
from argparse import Namespace
from typing import Any

from omkl import data, estimators
from omkl.cli.common import CHECKPOINTS, OUTPUT, add_command, add_options, add_strength, bar_chart, report
from omkl.cli.evaluate import annotation_scores
from omkl.cli.interrupts import Interruption
from omkl.cli.outputs import save_model
from omkl.cli.train_parser import TREE_OPTIONS, add_tree_options, untrained_parser
from omkl.exceptions import InputError

#: Groups of each part that are listed.
MOST_GROUPS = 5


def add_parser(kinds: Any) -> None:
    """Add this kind of model."""
    parser = add_command(
        kinds,
        "annotator",
        summary="tags, morphology, lemmas and trees for plain words, from one treebank",
        description="Train an annotator on a treebank in CoNLL-U, CoNLL-X or CoNLL-2008, plain or compressed: from "
        "words it makes the tags, features, lemmas and trees that the treebank has. Ctrl-C ends training, and saves "
        "what there is.",
        examples="""
            omkl train annotator train.conllu -o annotator.npz --dev dev.conllu
            omkl train annotator train.conllu -o tagger.npz --parts upos lemmas
            omkl train annotator train.conllu -o annotator.npz --checkpoint state --resume
            xzcat train.conllu.xz | omkl train annotator - -o - --quiet > annotator.npz
        """,
    )
    add_options(parser, "train", "--output", "--dev")
    parser.add_argument(
        "--parts", nargs="+", metavar="PART",
        help="learn only these of upos, xpos, feats, lemmas and trees (default: all that the treebank has)",
    )  # fmt: skip
    parser.add_argument(
        "--tagging-folds", type=int, default=4, metavar="N",
        help="parts of the treebank, each tagged by a model of the others to learn trees from (default 4)",
    )  # fmt: skip
    add_strength(parser, epochs=10, C=10.0)
    add_tree_options(parser)
    add_options(parser, "--random-state", "--on-error", "--jobs", *CHECKPOINTS, *OUTPUT)
    parser.set_defaults(run=run, defaults={name: parser.get_default(name) for name in TREE_OPTIONS})


def run(arguments: Namespace) -> None:
    """Train and save an annotator."""
    if arguments.parts and "trees" not in arguments.parts:
        for name in TREE_OPTIONS:
            if getattr(arguments, name) != arguments.defaults[name]:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} is about trees, which --parts leaves out: leave out one of the two.")
    if arguments.C == "auto":
        raise InputError("--C auto is for models of one part, and an annotator has several: give C.")
    reading = {"trees": "partial", "on_error": arguments.on_error, "keep_text": False}
    treebank = data.read_treebank(arguments.train, **reading)
    dev = data.read_treebank(arguments.dev, **{**reading, "trees": "given"}) if arguments.dev else None
    if arguments.likely is None and arguments.keep is None:  # which goes with a parser alone
        arguments.likely = 0.99
    interruption = Interruption()
    annotator = estimators.Annotator(
        arguments.parts or "auto", tagger=estimators.SequenceLabeler(epochs=arguments.epochs, C=arguments.C),
        parser=untrained_parser(arguments, C=arguments.C, epochs=arguments.epochs),
        folds=arguments.tagging_folds, callbacks=[interruption], verbose=not arguments.quiet,
        random_state=arguments.random_state, n_jobs=arguments.jobs,
    )  # fmt: skip
    started = time.perf_counter()
    try:
        with interruption.listening():
            annotator.fit(
                treebank, checkpoint=arguments.checkpoint, checkpoint_every=arguments.checkpoint_every,
                resume=arguments.resume,
            )  # fmt: skip
    except InputError:
        if interruption.happened:  # before there was a part to keep
            raise KeyboardInterrupt from None
        raise
    seconds = time.perf_counter() - started
    save_model(annotator, arguments)
    if dev is not None:
        try:
            save_model(annotator.calibrate(dev), arguments)
        except InputError as error:
            saved = f"The annotator is saved to {arguments.output}, but not calibrated"
            raise InputError(f"{saved}: in {arguments.dev}, {error}") from None
    weights = annotator.kernel_weights_
    metrics = {
        "sentences": len(treebank), "words": treebank.n_words, "parts": annotator.parts_, "seconds": seconds,
        "interrupted": interruption.happened, "kernel_weights": weights,
    }  # fmt: skip
    lines = [
        f"Learned {', '.join(annotator.parts_)} from {len(treebank)} sentences, {treebank.n_words} words, in "
        f"{seconds:.1f} s."
    ]
    for name in (part for part in ("upos", "xpos", "trees") if part in weights):
        ranked = sorted(weights[name].items(), key=lambda item: -item[1])[:MOST_GROUPS]
        lines += ["", f"The heaviest groups of {name}", *bar_chart(dict(ranked))]
    if dev is not None:
        found, metrics["dev"] = annotation_scores(annotator, dev, arguments.dev)
        lines += ["", *found]
    lines += interruption.lines(annotator, arguments.checkpoint)
    report(arguments, [*lines, f"Saved to {arguments.output}."], metrics)
