"""``omkl train parser``: train a dependency parser on treebanks and save it."""

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from functools import partial
from typing import Any

from tqdm import tqdm

from omkl import data, estimators
from omkl.cli.choosing import choose_strength
from omkl.cli.common import (
    add_command,
    add_options,
    add_training_options,
    bar_chart,
    calibrate,
    fit_options,
    listeners,
    peak_memory,
    say,
    shuffled,
    training_parameters,
    write_json,
)  # fmt: skip
from omkl.cli.interrupts import Interruption
from omkl.cli.outputs import save_model
from omkl.exceptions import DataFileError, InputError


def add_parser(kinds: Any) -> None:
    """Add this kind of model."""
    parser = add_command(
        kinds,
        "parser",
        summary="a dependency parser that learns which feature templates it needs",
        description="Train a dependency parser on a treebank in CoNLL-U, CoNLL-X or CoNLL-2008, plain or compressed. "
        "Ctrl-C ends training, and saves what there is.",
        examples="""
            omkl train parser train.conllu -o parser.npz --dev dev.conllu
            omkl train parser train.conllu -o fast.npz --likely 0.99 --keep auto
            omkl train parser train.conllu -o parser.npz --lexicon cluster=brown.tsv --templates templates.txt
            omkl train parser train.conllu -o parser.npz --checkpoint state --resume
        """,
    )
    add_training_options(parser, epochs=10, hedge=False, C=10.0)
    add_tree_options(parser)
    add_options(parser, "--on-error")
    parser.set_defaults(run=run)


#: Options of :func:`add_tree_options`, by the names of their values.
TREE_OPTIONS = (
    "templates", "lexicon", "stacked", "likely", "keep", "projective", "multi_root", "unlabeled", "memory", "exact",
)  # fmt: skip


def add_tree_options(parser: ArgumentParser) -> None:
    """What :func:`untrained_parser` asks for beside what every online estimator is trained with."""
    parser.add_argument(
        "--templates", default="auto", metavar="SET",
        help="auto (default: of rich what suits the treebank), martins507, rich, mcdonald2005, small, or a file with a "
        "template a line",
    )  # fmt: skip
    parser.add_argument(
        "--lexicon", action="append", default=[], type=_lexicon, metavar="NAME=FILE",
        help="values of words for templates, as in h.NAME: word<TAB>value in each line; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--stacked", action="store_true",
        help="train a second parser that corrects the first, with a tenth of its C: better trees, three times as slow",
    )  # fmt: skip
    parser.add_argument(
        "--likely", type=float, metavar="SHARE",
        help="look only at arcs that a small first parser finds likely, among them this share of the right ones: 0.99 "
        "makes training and parsing faster (default: all; for an annotator without --keep 0.99, where 0 is all arcs)",
    )  # fmt: skip
    parser.add_argument(
        "--keep", type=_keep, metavar="N",
        help="train anew on the N best templates; auto: on as few as sentences held out allow (default: all stay)",
    )  # fmt: skip
    parser.add_argument("--projective", action="store_true", help="only projective trees")
    parser.add_argument("--multi-root", action="store_true", help="the root may have several children")
    parser.add_argument("--unlabeled", action="store_true", help="learn no relations")
    parser.add_argument("--memory", type=float, default=140.0, metavar="MB", help="megabytes for parameters (140)")
    parser.add_argument("--exact", action="store_true", help="let no two features share a weight")


def untrained_parser(arguments: Namespace, **settings: Any) -> Any:
    """A parser as the options say, with these settings as well."""
    for name, count in Counter(name for name, _ in arguments.lexicon).items():
        if count > 1:
            raise InputError(f"--lexicon {name}=FILE is given {count} times: give each lexicon a name of its own.")
    parser = estimators.DependencyParser(
        arguments.templates, lexicons=dict(arguments.lexicon) or None, keep=arguments.keep,
        projective=arguments.projective, single_root=not arguments.multi_root, labeled=not arguments.unlabeled,
        memory=arguments.memory, exact=arguments.exact, **settings,
    )  # fmt: skip
    if arguments.likely:
        parser.set_params(first="small", likely=arguments.likely)
    if arguments.stacked:
        first = estimators.DependencyParser(**{**parser.get_params(deep=False), "callbacks": None})
        parser.set_params(templates="stacked", lexicons=None, C=parser.C / 10, first=first, likely=None)
    return parser


def _keep(text):
    return text if text == "auto" else int(text)


def _lexicon(text):
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise ArgumentTypeError(f"a lexicon is NAME=FILE, not {text!r}")
    return name, path


def run(arguments: Namespace) -> None:
    """Train and save a parser."""
    tell = partial(say, arguments)
    single_root = not arguments.multi_root
    reading = {"single_root": single_root, "on_error": arguments.on_error, "keep_text": False}
    reading["trees"] = "partial"
    n_sentences, n_words, trees = (_stream if arguments.stream else _whole)(arguments, reading)
    dev = data.read_treebank(arguments.dev, **{**reading, "trees": True}) if arguments.dev else None
    tell(f"{n_sentences} sentences, {n_words} words; parameters take up to {arguments.memory:g} MB.")
    interruption = Interruption()
    parser = untrained_parser(
        arguments, callbacks=listeners(arguments, _Report(tell, n_sentences), interruption),
        n_examples=n_sentences if arguments.stream else None,
        **training_parameters(arguments),
    )  # fmt: skip
    compared = None if dev is None else (dev, None)
    lines, chosen = choose_strength(parser, trees, None, compared, arguments)
    if lines:
        tell("\n".join(lines))
    started = time.perf_counter()
    with fit_options(arguments) as options:
        parser.fit(trees, validation=dev if arguments.early_stopping else None, **options)
    seconds = time.perf_counter() - started
    uncalibrated = [] if dev is None else calibrate(parser, arguments, dev)
    save_model(parser, arguments)
    metrics = {
        **chosen,
        "sentences": n_sentences,
        "words": n_words,
        "templates": len(parser.templates_),
        "active_templates": sum(weight > 0 for weight in parser.template_weights_.values()),
        "features": parser.n_features(),
        "collision_rate": parser.collision_rate(),
        "epochs": parser.n_iter_,
        "interrupted": interruption.happened,
        "seconds": seconds,
        "memory": parser.memory_usage(),
        "template_weights": parser.template_weights_,
        "history": parser.history_,
    }
    tell(f"Trained for {parser.n_iter_} epochs in {seconds:.1f} s: {metrics['features'] / 1e6:.2f} million weights in "
        f"{metrics['active_templates']} of {metrics['templates']} templates, {metrics['collision_rate']:.0%} of the "
        "features share one.")  # fmt: skip
    best = [(name, parser.template_weights_[name]) for name in parser.ranking()[:10]]
    if best[0][1] > best[-1][1]:  # a ridge weighs them all the same
        tell("\n".join(bar_chart(dict(best))))
    if dev is not None:
        metrics["dev"] = {"all": parser.evaluate(dev), "without_punctuation": parser.evaluate(dev, ignore="form")}
        tell("\n".join([*attachment_lines(metrics["dev"], arguments.dev), *uncalibrated]))
    tell("\n".join([*interruption.lines(parser, arguments.checkpoint), f"Saved to {arguments.output}."]))
    write_json(arguments.json, metrics)


def _whole(arguments, reading):
    """Sentences, words, and what to train on."""
    treebank = data.read_treebank(arguments.train, **reading)
    return len(treebank), treebank.n_words, treebank


def _stream(arguments, reading):
    """The same block by block; a pass over the file counts."""
    stream = data.stream_conllu(arguments.train, **reading)
    sizes = [(len(block.X), block.X.n_words) for block in stream.blocks()]
    n_sentences, n_words = map(sum, zip(*sizes)) if sizes else (0, 0)
    if not n_sentences:
        raise DataFileError(f"{arguments.train} holds no sentence.")
    return n_sentences, n_words, shuffled(stream, arguments)


def attachment_lines(scores: dict[str, dict], path: str) -> list[str]:
    """Attachment scores as lines of text."""
    lines = []
    for name, found in scores.items():
        las = "" if found["las"] is None else f", LAS {found['las']:.2%}"
        lines.append(f"{path}, {name.replace('_', ' ')}: UAS {found['uas']:.2%}{las} ({found['words']} words)")
    return lines


class _Report:
    """Callback: a line an epoch."""

    def __init__(self, say, n_sentences):
        self._say = say
        self._n_sentences = n_sentences

    def __call__(self, trainer, record):
        norms = [value for key, value in record.items() if key.startswith("norm:")]
        with tqdm.external_write_mode(file=sys.stdout):
            self._say(f"epoch {record['epoch']:>3}: loss {record['loss']:8.4g} a sentence, "
                      f"{sum(norm > 0 for norm in norms)} of {len(norms)} templates active, "
                      f"{self._n_sentences / record['seconds']:.0f} sentences/s{peak_memory()}")  # fmt: skip
