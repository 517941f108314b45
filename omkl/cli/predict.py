"""``omkl predict``: label the sequences of a file, parse its sentences, or predict for its rows, with a saved model."""

import json
import sys
import time
from argparse import Namespace
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tqdm import tqdm

from omkl import data
from omkl._files import replacing
from omkl.cli import rows
from omkl.cli.common import OUTPUT, ROWS, add_options, input_file, load_model, report
from omkl.exceptions import InputError


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = subparsers.add_parser(
        "predict",
        help="label the sequences of a file, parse its sentences, or predict for its rows",
        description="Label the sequences of a file: one label a line, an empty line between sequences; or JSON lines, "
        "if the output's name ends in .jsonl; or the words of a treebank or of text with their UPOS, if it ends in "
        ".conllu. A parser writes the treebank with new heads and relations, an annotator "
        "one with all that it has learned, for a treebank or for text with one sentence a line, words divided by "
        "spaces; a classifier or regressor one prediction a line.",
    )
    parser.add_argument("model", help="a saved model")
    parser.add_argument(
        "input",
        help="file of sequences, sentences or rows, - for standard input; outputs in it are not looked at",
    )
    parser.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help="file to write to (default: standard output)",
    )
    parser.add_argument(
        "--confidence", action="store_true",
        help="a parser notes the probabilities of arcs and relations in MISC, as HeadConf=0.987 and RelConf=0.912, a "
        "labeler those of labels: in MISC, as UposConf=0.987, beside the label, or as confidence in JSON lines; an "
        "annotator all of these in MISC",
    )  # fmt: skip
    add_options(parser, "--format", "--folds", *ROWS, "--jobs", *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Predict and write labels, or trees."""
    model, kind = load_model(arguments)
    arguments.quiet |= arguments.output == "-"  # what is predicted stands alone
    kinds = {"trees": _parse, "annotations": _annotate, "sequences": _label, "rows": _predict}
    if arguments.confidence and kind == "rows":
        raise InputError(f"--confidence is for what reads sentences, and {arguments.model} does not: leave it out.")
    with input_file(arguments.input) as arguments.input:
        kinds[kind](model, arguments)


@contextmanager
def _text_output(path):
    """A file of text to write to, or standard output for ``-``."""
    if path == "-":
        if hasattr(sys.stdout, "reconfigure"):  # as files are, whatever the terminal has letters for
            sys.stdout.reconfigure(encoding="utf-8", errors="strict")
        yield sys.stdout
        return
    with replacing(path) as file:
        yield file


def _parse(parser, arguments):
    """Parse a treebank block by block; everything but heads and relations is written as it was read."""
    with _Progress(arguments) as progress, data.treebank_writer(arguments.output) as writer:
        for block in data.iter_treebank(arguments.input, trees=False):
            parsed = parser.parse(block, confidence=arguments.confidence)
            relations = (parsed.deprels, parsed.strings["deprels"]) if parser.labeled else None
            if arguments.confidence:
                writer.write_annotated(parsed, ("heads", *(("deprels",) if parser.labeled else ()), "misc"))
            else:
                writer.write(block, parsed.heads, relations)
            progress.note(block)
    progress.tell("Parsed")


def _annotate(annotator, arguments):
    """Annotate sentences block by block; all that is no annotation is written as it was read."""
    blocks = (data.iter_treebank if _is_table(arguments.input) else data.iter_words)(arguments.input)
    columns = (*annotator.columns_, *["misc"] * arguments.confidence)
    with _Progress(arguments) as progress:
        if arguments.output.endswith(".jsonl"):
            with replacing(arguments.output) as file:
                for block in annotator.annotate_blocks(blocks, confidence=arguments.confidence):
                    for sentence in block:
                        record = {name: getattr(sentence, name) for name in ("forms", *columns)}
                        file.write(json.dumps(record, ensure_ascii=False) + "\n")
                    progress.note(block)
        else:
            with data.treebank_writer(arguments.output) as writer:
                for block in annotator.annotate_blocks(blocks, confidence=arguments.confidence):
                    writer.write_annotated(block, columns)
                    progress.note(block)
    progress.tell("Annotated")


def _is_table(path):
    """Whether a file is a treebank: the first line that says something has columns."""
    for line in data.lines(path):
        if line.strip() and not line.startswith(b"#"):
            return b"\t" in line
    return False


class _Progress:
    """A bar of the sentences that are written, and at the end how many there were."""

    def __init__(self, arguments):
        self._arguments = arguments
        self._n_words = self._n_sentences = 0

    def __enter__(self):
        quiet = True if self._arguments.quiet else None
        self._bar = tqdm(unit=" sentences", delay=1, leave=False, disable=quiet)
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_):
        self._bar.close()

    def note(self, block):
        self._n_words, self._n_sentences = self._n_words + block.n_words, self._n_sentences + len(block)
        self._bar.update(len(block))

    def tell(self, done):
        seconds, output = time.perf_counter() - self._started, self._arguments.output
        line = f"{done} {self._n_words} words of {self._n_sentences} sentences"
        metrics = {"sentences": self._n_sentences, "tokens": self._n_words, "seconds": seconds, "output": output}
        report(self._arguments, [f"{line}, {self._n_words / seconds:.0f} words a second: {output}"], metrics)


def _label(labeler, arguments):
    if arguments.output.endswith(".conllu"):
        _tag(labeler, arguments)
        return
    X, _ = data.read_sequences(arguments.input, arguments.format, arguments.folds)
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    confidence = _confidence(labeler, X, predicted) if arguments.confidence else None
    with _text_output(arguments.output) as file:
        for s, labels in enumerate(predicted):
            own = None if confidence is None else [round(p, 3) for p in confidence[s]]
            if arguments.output.endswith(".jsonl"):
                record = {"y": labels} if own is None else {"y": labels, "confidence": own}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                rows = labels if own is None else [f"{label}\t{p:.3f}" for label, p in zip(labels, own)]
                file.write("".join(f"{row}\n" for row in rows) + "\n")
    metrics = {"sequences": len(X), "tokens": sum(map(len, X)), "output": arguments.output}
    report(arguments, [f"Labelled {metrics['tokens']} tokens of {len(X)} sequences: {arguments.output}"], metrics)


def _confidence(labeler, X, predicted):
    """The probability of each label of each sequence."""
    if not hasattr(labeler, "predict_marginals"):
        raise InputError(
            "--confidence needs probabilities, which this labeler has none of: train it with --dev FILE, "
            "--early-stopping or --loss crf."
        )
    column = {label: k for k, label in enumerate(labeler.classes_.tolist())}
    return [
        [float(row[column[label]]) for row, label in zip(own, labels)]
        for own, labels in zip(labeler.predict_marginals(X), predicted)
    ]


def _tag(labeler, arguments):
    """Label the words of a treebank or of text with their UPOS; all else is written as it was read."""
    blocks = (data.iter_treebank if _is_table(arguments.input) else data.iter_words)(arguments.input)
    with _Progress(arguments) as progress, data.treebank_writer(arguments.output) as writer:
        for block in blocks:
            labels = data.Strings()
            X = [sentence.forms for sentence in block]
            found = [own.tolist() for own in labeler.predict(X)]
            codes = labels.codes((str(label) for own in found for label in own), grow=True)
            tagged = replace(block, upos=codes, strings={**block.strings, "upos": labels})
            if arguments.confidence:
                from omkl.estimators.parses import with_notes

                tagged = with_notes(tagged, {"UposConf": [p for own in _confidence(labeler, X, found) for p in own]})
            writer.write_annotated(tagged, ["upos", *["misc"] * arguments.confidence])
            progress.note(block)
    progress.tell("Tagged")


def _predict(model, arguments):
    """A line for each row, block by block."""
    n_rows = 0
    with _text_output(arguments.output) as file, rows.naming(arguments.input):
        for block in rows.open_rows(arguments.input, arguments, model, labelled=False).blocks():
            for output in model.predict(block.X).tolist():
                file.write(f"{json.dumps({'y': output}) if arguments.output.endswith('.jsonl') else output}\n")
            n_rows += block.n_examples
    metrics = {"examples": n_rows, "output": arguments.output}
    report(arguments, [f"Predicted {n_rows} rows: {arguments.output}"], metrics)
