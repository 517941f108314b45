"""``omkl predict``: label the sequences of a file, parse its sentences, or predict for its rows, with a saved model."""

from argparse import Namespace
from itertools import pairwise
from typing import Any

import numpy as np

from omkl import data
from omkl.cli import rows
from omkl.cli.common import OUTPUT, ROWS, add_command, add_options, check_options, load_model, report
from omkl.cli.inputs import read_sequences
from omkl.cli.predictions import FORMS, Progress, form_of, json_line, sentence_writer
from omkl.exceptions import InputError


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = add_command(
        subparsers,
        "predict",
        summary="label the sequences of a file, parse its sentences, or predict for its rows",
        description="Label the sequences of a file: one label a line, an empty line between sequences; or, with --to "
        "conllu, the words of a treebank or of text with their UPOS. A parser writes the treebank with new heads and "
        "relations, an annotator one with all that it has learned, for a treebank or for text with one sentence a "
        "line, words divided by spaces; a classifier or regressor one prediction a line. All write JSON lines as well.",
        examples="""
            omkl predict parser.npz new.conllu -o parsed.conllu --confidence
            echo "No way ." | omkl predict annotator.npz -      # standard input to standard output
            omkl predict labeler.npz new.jsonl --to jsonl --nbest 3
            omkl predict classifier.npz new.csv -o labels.txt --jobs -1
        """,
    )
    add_options(parser, "model")
    parser.add_argument(
        "input",
        help="file of sequences, sentences or rows, - for standard input; outputs in it are not looked at",
    )
    parser.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help="file to write to, compressed if it ends in .gz or .xz (default: standard output)",
    )
    parser.add_argument(
        "--to",
        choices=sorted({form for forms in FORMS.values() for form in forms}),
        help="form of the output; by default what its name ends in, .jsonl or .conllu, else conllu for trees and "
        "annotations and text for all others",
    )
    parser.add_argument(
        "--nbest", type=int, metavar="N",
        help="the N best labellings, trees or annotations of each sequence or sentence, best first, with their scores "
        "(of annotations logarithms of probabilities, for which annotators must be trained with --dev): in comments, "
        'or as "nbest" in JSON lines; of a classifier the N best classes of each row, each with its score after a tab',
    )  # fmt: skip
    parser.add_argument(
        "--confidence", action="store_true",
        help="a parser notes the probabilities of arcs and relations in MISC, as HeadConf=0.987 and RelConf=0.912, a "
        "labeler those of labels: in MISC, as UposConf=0.987, beside the label, or as confidence in JSON lines, "
        "and so does a classifier; an annotator all of these in MISC",
    )  # fmt: skip
    add_options(parser, "--format", "--folds", *ROWS, "--jobs", *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Predict and write labels, trees, annotations or outputs of rows."""
    model, kind = load_model(arguments)
    arguments.quiet |= arguments.output == "-"  # what is predicted stands alone
    for option, given, kinds in (
        ("--confidence", arguments.confidence, ("trees", "annotations", "sequences", "rows")),
        ("--nbest", arguments.nbest is not None, ("trees", "annotations", "sequences", "rows")),
    ):
        if given and kind not in kinds:
            raise InputError(f"{option} does not go with {arguments.model}, which predicts {kind}: leave it out.")
    if arguments.confidence and arguments.nbest is not None:
        raise InputError("--nbest has scores instead of probabilities: leave --confidence out.")
    if arguments.nbest is not None and arguments.nbest < 1:
        raise InputError(f"--nbest is a number of at least 1, not {arguments.nbest}.")
    form = form_of(arguments, kind)
    {"trees": _parse, "annotations": _annotate, "sequences": _label, "rows": _predict}[kind](model, arguments, form)


def _parse(parser, arguments, form):
    """Parse a treebank block by block; everything but heads and relations is written as it was read."""
    columns = ("heads", *["deprels"] * parser.labeled, *["misc"] * arguments.confidence)
    with Progress(arguments) as progress, sentence_writer(arguments, form, columns) as writer:
        for block in data.iter_treebank(arguments.input, trees=False):
            if arguments.nbest is None:
                writer.write(parser.parse(block, confidence=arguments.confidence))
            else:
                for i, found in enumerate(parser.predict_nbest(block, arguments.nbest)):
                    writer.write_best((_with_tree(block[i : i + 1], parse), parse.score) for parse in found)
            progress.note(block)
    progress.tell("Parsed")


def _with_tree(sentence, parse):
    """A treebank of one sentence with another tree."""
    return _with_column(sentence.with_column("heads", parse.heads), "deprels", parse.deprels)


def _with_column(block, name, values):
    """A treebank with other strings in a column."""
    table = data.Strings()
    return block.with_column(name, table.codes(map(str, values), grow=True), table)


def _annotate(annotator, arguments, form):
    """Annotate sentences block by block; all that is no annotation is written as it was read."""
    columns = (*annotator.columns_, *["misc"] * arguments.confidence)
    blocks = _sentences(arguments.input)
    with Progress(arguments) as progress, sentence_writer(arguments, form, columns) as writer:
        if arguments.nbest is None:
            for block in annotator.annotate_blocks(blocks, confidence=arguments.confidence):
                writer.write(block)
                progress.note(block)
            blocks = ()
        for block in blocks:
            found, owners, scores = annotator.nbest_of(block, arguments.nbest)
            ends = np.flatnonzero(np.diff(owners, append=-1)) + 1
            for low, high in pairwise([0, *ends.tolist()]):
                writer.write_best((found[i : i + 1], float(scores[i])) for i in range(low, high))
            progress.note(block)
    progress.tell("Annotated")


def _sentences(path):
    """Blocks of sentences of a treebank, or of text: it is a treebank if the first line that says something has
    columns."""
    for line in data.lines(path):
        if line.strip() and not line.startswith(b"#"):
            return data.iter_treebank(path, trees=False) if b"\t" in line else data.iter_words(path)
    return data.iter_words(path)


def _label(labeler, arguments, form):
    if form == "conllu":
        check_options(arguments, "annotations", "--to conllu")
        _tag(labeler, arguments)
        return
    X, _ = read_sequences(arguments.input, arguments)
    with data.output_file(arguments.output) as file:
        if arguments.nbest is None:
            file.writelines(_labelled(labeler, X, arguments, form))
        else:
            for found in labeler.predict_nbest(X, arguments.nbest):
                file.write(_alternatives(found, form))
    metrics = {"sequences": len(X), "tokens": sum(map(len, X)), "output": arguments.output}
    report(arguments, [f"Labelled {metrics['tokens']} tokens of {len(X)} sequences: {arguments.output}"], metrics)


def _labelled(labeler, X, arguments, form):
    """Each sequence as it is written: its labels, and how sure they are if asked for."""
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    confidence = _confidence(labeler, X, predicted) if arguments.confidence else None
    for s, labels in enumerate(predicted):
        own = None if confidence is None else [round(p, 3) for p in confidence[s]]
        if form == "jsonl":
            yield json_line({"y": labels} if own is None else {"y": labels, "confidence": own})
        else:
            rows = labels if own is None else [f"{label}\t{p:.3f}" for label, p in zip(labels, own)]
            yield _lines([*rows, ""])


def _alternatives(found, form):
    """The best labellings of a sequence as they are written."""
    if form == "jsonl":
        return json_line({"nbest": [{"y": labels.tolist(), "score": score} for labels, score in found]})
    blocks = ([f"# {rank} {score:.6g}", *labels.tolist(), ""] for rank, (labels, score) in enumerate(found, 1))
    return b"".join(map(_lines, blocks))


def _lines(rows):
    return "".join(f"{row}\n" for row in rows).encode()


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
    columns = ("upos", *["misc"] * arguments.confidence)
    with Progress(arguments) as progress, sentence_writer(arguments, "conllu", columns) as writer:
        for block in _sentences(arguments.input):
            X = [sentence.forms for sentence in block]
            if arguments.nbest is None:
                writer.write(_tagged(labeler, block, X, arguments))
            else:
                for i, found in enumerate(labeler.predict_nbest(X, arguments.nbest)):
                    own = block[i : i + 1]
                    writer.write_best((_with_column(own, "upos", best.labels), best.score) for best in found)
            progress.note(block)
    progress.tell("Tagged")


def _tagged(labeler, block, X, arguments):
    """A block with its tags, and how sure they are if asked for."""
    found = [own.tolist() for own in labeler.predict(X)]
    tagged = _with_column(block, "upos", (label for own in found for label in own))
    if arguments.confidence:
        from omkl.estimators.parses import with_notes

        tagged = with_notes(tagged, {"UposConf": [p for own in _confidence(labeler, X, found) for p in own]})
    return tagged


def _predict(model, arguments, form):
    """A line for each row, block by block."""
    n_rows = 0
    with data.output_file(arguments.output) as file, rows.naming(arguments.input):
        for block in rows.open_rows(arguments.input, arguments, model, labelled=False).blocks():
            records = rows.predictions(model, block.X, arguments)
            file.writelines(map(json_line, records) if form == "jsonl" else [_lines(map(rows.text_of, records))])
            n_rows += block.n_examples
    metrics = {"examples": n_rows, "output": arguments.output}
    report(arguments, [f"Predicted {n_rows} rows: {arguments.output}"], metrics)
