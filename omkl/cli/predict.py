"""``omkl predict``, ``calibrate`` and ``guarantee``: predictions of a saved model, and how sure
they are.
"""

from __future__ import annotations

import io
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

import omkl
from omkl import data
from omkl._progress import progress_bar
from omkl.cli import files
from omkl.cli import options as opt
from omkl.cli.console import Record
from omkl.cli.options import Options, copied, option
from omkl.data.files import find_files, is_pipe, open_bytes, stem, text_pieces
from omkl.exceptions import DataWarning, InputError

if TYPE_CHECKING:
    from omkl.data.blocks import Rows
    from omkl.guarantees.answers import Answer

#: Output formats by the kind of a model, default first. All but text can also be the suffix of the
#: output file.
FORMS: dict[str, tuple[str, ...]] = dict.fromkeys(("trees", "annotations"), ("conllu", "jsonl"))
FORMS |= {
    "sequences": ("text", "jsonl", "conllu"),
    "graphs": ("jsonl", "text"),
    "rows": ("text", "jsonl"),
}
#: Keys in MISC of what is written about a tag.
NOTES = {"confidence": "UposConf", "guarantee": "Guarantee"}
#: N best annotations of a sentence: treebanks with one sentence, and their scores.
Best: TypeAlias = "list[tuple[data.Treebank, float]]"


@opt.command(
    "predict",
    opt.MODEL,
    opt.argument("input", type=opt.READ, required=False),
    option(
        "--text",
        type=opt.READ,
        metavar="FILE",
        help="Annotators: raw text to split to words, instead of INPUT.",
    ),
    option(
        "--offsets",
        is_flag=True,
        help="With --text, write the characters of tokens to MISC, as TokenRange=12:15.",
    ),
    option(
        "-o",
        "--output",
        type=opt.WRITE,
        default="-",
        metavar="FILE",
        help="May end in .gz or .xz: compressed.",
    ),
    option(
        "--to",
        type=opt.CHOICE(["conllu", "jsonl", "text"]),
        help="Form; by default that of the output's name.",
    ),
    option(
        "--nbest",
        type=opt.POSITIVE,
        metavar="N",
        help="Write the N best of each, best first, with their scores.",
    ),
    option(
        "--confidence",
        is_flag=True,
        help="Write probabilities of labels, arcs and relations as well.",
    ),
    option("--line-buffered", is_flag=True, help="Answer each sentence of standard input at once."),
    option(
        "--error",
        type=float,
        metavar="SHARE",
        help="After omkl guarantee: also write accept or check.",
    ),
    opt.FORMAT,
    *opt.TABLE,
    opt.JOBS,
    opt.METRICS,
)
def predict(options: Options) -> None:
    """Predict for the sequences, sentences or rows of the file INPUT; outputs in this file are
    ignored.

    A labeler writes one label per line and an empty line between sequences; for columns, the lines
    of INPUT with the label as one more column; or with --to conllu a treebank with predicted UPOS.
    A parser writes the treebank with predicted heads and relations. An annotator writes a treebank
    with all columns that it predicts, and with --text splits raw text first. Labelers with --to
    conllu and annotators read treebanks, or text with one sentence per line and spaces between
    words. A classifier or regressor writes one prediction per line.

    Probabilities are written after a tab, as "confidence" in JSON lines, and as UposConf=0.987,
    HeadConf and RelConf in MISC of a treebank. Alternatives are "nbest" in JSON lines, and have
    scores in comments of a treebank. With --error 0.05, at most 5% of the outputs marked "accept"
    are wrong, with the confidence of omkl guarantee, and all others are marked "check": in a last
    column, as "guarantee" in JSON lines, and as Guarantee=accept in MISC.

    Examples:
      omkl predict parser.npz new.conllu -o parsed.conllu --confidence
      echo "No way ." | omkl predict annotator.npz -      # standard input to standard output
      tail -f new.txt | omkl predict annotator.npz - --line-buffered
      omkl predict annotator.npz --text book.txt -o book.conllu
      omkl predict labeler.npz new.jsonl --to jsonl --nbest 3
      omkl predict classifier.npz new.csv -o labels.txt --jobs -1
      omkl predict graphs.npz new.jsonl -o labels.jsonl
      omkl predict checked.npz new.conllu -o parsed.conllu --error 0.05
    """
    if (options.input is None) == (options.text is None):
        raise InputError("Name one file to read: INPUT, or for an annotator --text FILE.")
    if options.text is None:
        opt.refuse("needs --text", "offsets")
    model, kind = files.load_model(options)
    if kind != "annotations":
        opt.refuse(f"is for annotators, not {files.class_with_article(model)}", "text", "offsets")
    if options.checked is None:  # set by load_model
        opt.refuse("needs a file of omkl guarantee", "error")
    if options.nbest is not None:
        opt.refuse("does not go with --nbest", "error")
        opt.refuse("does not go with --nbest, which has scores instead", "confidence")
        if kind in ("rows", "annotations"):
            opt.refuse(
                f"is for labelers and parsers, not {files.class_with_article(model)}", "nbest"
            )
    if options.confidence:
        _check_probabilities(model, kind, "--confidence")
    if options.to is None:
        suffix = stem(options.output).rpartition(".")[2]
        options.to = suffix if suffix in ("jsonl", "conllu") else FORMS[kind][0]
    if options.to not in FORMS[kind]:
        forms = " or ".join(FORMS[kind])
        model_class = files.class_with_article(model).capitalize()
        raise InputError(f"{model_class} writes {forms}, not {options.to}.")
    writers = {
        "trees": _parse,
        "annotations": _annotate,
        "sequences": _label,
        "graphs": _label_graphs,
        "rows": _predict_rows,
    }
    write: Any = writers[kind]
    if options.line_buffered:
        _write_line_by_line(write, model, kind, options)
    else:
        write(model, options)


def _write_line_by_line(write: Callable, model: files.Model, kind: str, options: Options) -> None:
    """Answer each sentence of standard input before the next one is read."""
    input_option = "input" if options.text is None else "text"
    is_of_sentences = kind not in ("rows", "graphs")
    is_a_filter = getattr(options, input_option) == "-" and options.output == "-"
    if not is_of_sentences or not is_a_filter or options.json is not None:
        raise InputError(
            "--line-buffered is for sentences from standard input to standard output, "
            "without --json."
        )
    words = kind == "annotations" or (kind == "sequences" and options.to == "conllu")
    for record in _sentences_of_standard_input(words):
        with copied(partial(io.BytesIO, record), "Standard input") as path:
            setattr(options, input_option, path)
            write(model, options)


def _check_probabilities(model: files.Model, kind: str, what: str, trees: bool = True) -> None:
    """Raise an InputError unless a model has probabilities, and say by which commands it gets them.

    Parameters
    ----------
    model : estimator
    kind : str
        See :func:`omkl.cli.files.load_model`.
    what : str
        What needs probabilities, for the message.
    trees : bool
        Annotators: whether trees need them as well as tags.
    """
    if kind == "rows":
        if not hasattr(model, "predict_proba"):
            raise InputError(f"{what} needs probabilities, which classifiers have with --loss crf.")
        return
    if kind == "annotations":
        with suppress(InputError):
            model.check_probabilities(trees)
            return
    elif hasattr(model, "predict_marginals"):
        return
    name = files.class_with_article(model)
    raise InputError(
        f"{what} needs probabilities, which {name} has after omkl calibrate, "
        "or training with --dev."
    )


CALIBRATION = opt.argument("calibration", type=opt.READ)
CALIBRATED = option(
    "-o",
    "--output",
    type=opt.WRITE,
    required=True,
    metavar="FILE",
    help="File for the calibrated model.",
)


@opt.command(
    "calibrate",
    opt.MODEL,
    CALIBRATION,
    CALIBRATED,
    opt.FORMAT,
    opt.ON_ERROR,
    opt.JOBS,
    opt.METRICS,
)
def calibrate(options: Options) -> None:
    """Calibrate the saved MODEL on the file CALIBRATION of labelled data, so that omkl predict
    --confidence is right.

    Scores of labels, tags, arcs and relations are scaled to be probabilities. Predictions stay the
    same. The model must not have been trained on the data. omkl train --dev does the same after
    training.

    Examples:
      omkl calibrate annotator.npz dev.conllu -o calibrated.npz
      omkl calibrate labeler.npz dev.crfsuite -o labeler.npz
    """
    model, kind = files.load_model(options)
    if not hasattr(model, "calibrate"):
        name = files.class_with_article(model)
        raise InputError(
            f"{options.model} must hold a labeler, a parser or an annotator, got {name}."
        )
    X, y = files.labelled_data(options.calibration, model, kind, options)
    if y is None:
        model.calibrate(X)
    else:
        model.calibrate(X, y)
    model.save(files.destination(options.output))
    line = f"Calibrated on {len(X)} examples: {options.output}"
    options.report([line], {"examples": len(X), "output": options.output})


@opt.command(
    "guarantee",
    opt.MODEL,
    CALIBRATION,
    CALIBRATED,
    option(
        "--unit",
        type=opt.CHOICE(["output", "token", "entity"]),
        default="output",
        help="What may be wrong.",
    ),
    option(
        "--column",
        metavar="NAME",
        help="Parsers and annotators: the column that may be wrong; by default any.",
    ),
    option(
        "--level",
        type=float,
        default=0.9,
        metavar="SHARE",
        help="Confidence: probability that bounds hold.",
    ),
    opt.DATA,
    opt.JOBS,
    opt.METRICS,
)
def guarantee(options: Options) -> None:
    """Calibrate the saved MODEL on the file CALIBRATION of labelled data, to know which of its
    outputs to accept.

    The data must be like those to come, and the model must not have been trained or calibrated on
    them. The new file is a model like the old one, for all commands. omkl predict --error SHARE
    marks outputs that can be accepted, and omkl report draws their error.

    Examples:
      omkl guarantee labeler.npz dev.conllu -o checked.npz
      omkl guarantee labeler.npz dev.crfsuite -o checked.npz --unit entity --level 0.95
      omkl guarantee annotator.npz dev.conllu -o checked.npz --column upos
    """
    model, kind = files.load_model(options)
    if kind != "rows":
        judges_trees = options.column in (None, "heads", "deprels")
        _check_probabilities(model, kind, "A guarantee", judges_trees)
    with files.naming(options.calibration):
        X, y = files.labelled_data(options.calibration, model, kind, options)
        if kind == "rows":
            X, y = X.read()
        checked = omkl.guarantee(
            model, X, y, confidence=options.level, unit=options.unit, column=options.column
        )
    checked.save(files.destination(options.output))
    line = f"Calibrated on {checked.n_examples_} examples: {options.output}"
    metrics = {
        "examples": checked.n_examples_,
        "curve": checked.curve(),
        "output": options.output,
    }
    options.report([line], metrics)


def _marks(accepted: ArrayLike, n: int) -> list[str]:
    """Tell for each of n tokens whether to accept or to check it."""
    return np.where(np.broadcast_to(accepted, n), "accept", "check").tolist()


def _sentences_of_standard_input(words: bool) -> Iterator[bytes]:
    """Read standard input by sentence.

    A sentence is a line of ``words`` or JSON, otherwise the lines up to an empty one.
    """
    sentence: list[bytes] = []
    by_line: bool | None = None  # not known before the first line that is no comment
    for line in sys.stdin.buffer:
        is_empty = not line.strip()
        if sentence or not is_empty:
            sentence.append(line)
        if by_line is None and not is_empty and not line.startswith(b"#"):
            is_text = words and b"\t" not in line
            by_line = is_text or line.startswith(b"{")
        if sentence and (by_line or is_empty):
            yield b"".join(sentence)
            sentence = []
    if sentence:
        yield b"".join(sentence)


# ---- sentences -----------------------------------------------------------------------------------


def _parse(parser: omkl.DependencyParser, options: Options) -> None:
    """Parse a treebank; everything except heads and relations is kept."""

    def best_annotations(block: data.Treebank) -> Iterator[Best]:
        for i, trees in enumerate(parser.predict_nbest(block, options.nbest)):
            sentence = block[i : i + 1]
            parses = []
            for tree in trees:
                parsed = sentence.with_trees(tree.heads).with_strings("deprels", tree.deprels)
                parses.append((parsed, tree.score))
            yield parses

    parse = partial(_annotated, parser, parser.parse, options)
    nbest = best_annotations if options.nbest else None
    blocks = _treebanks(options.input)
    _write_sentences(blocks, parse, nbest, parser.columns_, "Parsed", options)


def _annotated(
    model: omkl.DependencyParser | omkl.Annotator,
    annotate: Callable,
    options: Options,
    block: data.Treebank,
) -> data.Treebank:
    """Annotate sentences, and for ``--error`` write to MISC which words to accept."""
    if options.error is None:
        return annotate(block, confidence=options.confidence)
    from omkl.guarantees.answers import annotated
    from omkl.parsing.sentences import with_notes

    judged_columns = model.columns_
    if options.checked.column is not None:
        judged_columns = (options.checked.column,)
    treebank, answers = annotated(model, block, judged_columns, model.columns_, options.confidence)
    marks: list[str] = []
    for answer, accepted in options.checked.judged(answers, options.error):
        marks += _marks(accepted, len(answer.labels))
    return with_notes(treebank, {"Guarantee": marks})


def _annotate(annotator: omkl.Annotator, options: Options) -> None:
    """Annotate sentences; everything except predicted columns is kept."""
    if options.text is None:
        blocks = _sentences(options.input)
    else:
        blocks = annotator.split(text_pieces(options.text), options.offsets)
    annotate = partial(_annotated, annotator, annotator.annotate, options)
    _write_sentences(blocks, annotate, None, annotator.columns_, "Annotated", options)


def _tag(labeler: omkl.SequenceLabeler, options: Options) -> None:
    """Predict the UPOS of a treebank or of text; everything else is kept."""
    opt.refuse("does not go with --to conllu", *files.UNREAD["annotations"])

    def tagged(block: data.Treebank) -> data.Treebank:
        from omkl.parsing.sentences import with_notes

        forms = [sentence.forms for sentence in block]
        columns = _joined(_labelled(labeler, forms, options))
        notes = {note: columns[name] for name, note in NOTES.items() if name in columns}
        block = block.with_strings("upos", map(str, columns["y"]))
        return with_notes(block, notes) if notes else block

    def best_annotations(block: data.Treebank) -> Iterator[Best]:
        forms = [sentence.forms for sentence in block]
        for i, labellings in enumerate(labeler.predict_nbest(forms, options.nbest)):
            sentence = block[i : i + 1]
            yield [
                (sentence.with_strings("upos", map(str, labels)), score)
                for labels, score in labellings
            ]

    nbest = best_annotations if options.nbest else None
    blocks = _sentences(options.input)
    _write_sentences(blocks, tagged, nbest, ["upos"], "Tagged", options)


def _sentences(path: str) -> Iterator[data.Treebank]:
    """Read blocks of a treebank, or of text with one sentence per line.

    It is a treebank if the suffix or the first line, except for comments, says so.
    """
    first_line = b""
    for line in data.lines(path):
        if line.strip() and not line.startswith(b"#"):
            first_line = line
            break
    if data.find_format(path).holds == "trees" or b"\t" in first_line:
        return _treebanks(path)
    cells = first_line.split()
    if len(cells) >= 10 and cells[0].startswith(b"1") and b"_" in cells:
        warnings.warn(
            f"{path} looks like CoNLL-U without tabs, and is read as text.",
            DataWarning,
            stacklevel=2,
        )
    return data.iter_words(path)


def _treebanks(path: str) -> Iterator[data.Treebank]:
    """Read blocks of a treebank with its text."""
    return (block.X for block in data.stream_conllu(path, trees=False, keep_text=True).blocks())


def _entries(sentence: data.Sentence, columns: Sequence[str]) -> Record:
    """Return some columns of a sentence by name."""
    return {name: getattr(sentence, name) for name in columns}


def _lines_of_block(
    block: data.Treebank, columns: Sequence[str], options: Options
) -> Iterator[bytes]:
    """Format annotated sentences; JSON lines contain the words and these ``columns``."""
    from omkl.data.treebank.conllu import as_text

    if options.to == "conllu":
        yield as_text(block)
        return
    for sentence in block:
        yield _json_line({"forms": sentence.forms, **_entries(sentence, columns)})


def _lines_of_best(
    best: Iterable[tuple[data.Treebank, float]], columns: Sequence[str], options: Options
) -> Iterator[bytes]:
    """Format the best annotations of a sentence, and their scores."""
    records = []
    forms: list[str] = []
    for rank, (annotated, score) in enumerate(best, 1):
        if options.to == "conllu":
            yield f"# rank = {rank}\n# score = {score:.6g}\n".encode()
            yield from _lines_of_block(annotated, columns, options)
        else:
            forms = annotated[0].forms
            records.append({**_entries(annotated[0], columns), "score": score})
    if records:
        yield _json_line({"forms": forms, "nbest": records})


def _write_sentences(
    blocks: Iterable[data.Treebank],
    annotate: Callable[[data.Treebank], data.Treebank],
    nbest: Callable[[data.Treebank], Iterator[Best]] | None,
    columns: Sequence[str],
    done: str,
    options: Options,
) -> None:
    """Annotate and write sentences block by block; report what was ``done``, and how fast.

    If ``nbest`` is given, write the best annotations of each sentence that it yields instead.
    """
    if options.confidence or options.offsets or options.error is not None:
        columns = [*columns, "misc"]
    n_sentences = 0
    n_words = 0
    started = time.perf_counter()
    with (
        progress_bar(not options.quiet, unit=" sentences") as bar,
        data.output_file(options.output) as file,
    ):
        for block in blocks:
            if nbest is not None:
                for best in nbest(block):
                    file.writelines(_lines_of_best(best, columns, options))
            else:
                file.writelines(_lines_of_block(annotate(block), columns, options))
            n_sentences += len(block)
            n_words += block.n_words
            bar.update(len(block))
    seconds = time.perf_counter() - started
    speed = f"{n_words / seconds:.0f} words a second"
    line = f"{done} {n_words} words of {n_sentences} sentences, {speed}: {options.output}"
    metrics = {
        "sentences": n_sentences,
        "tokens": n_words,
        "seconds": seconds,
        "output": options.output,
    }
    options.report([line], metrics)


# ---- sequences -----------------------------------------------------------------------------------


def _label(labeler: omkl.SequenceLabeler, options: Options) -> None:
    """Write the labels of sequences."""
    if options.to == "conllu":
        _tag(labeler, options)
        return
    n_columns = files.n_columns_of(labeler)
    has_columns = (
        options.to == "text"
        and options.nbest is None
        and files.format_of_sequences(options.input, options, n_columns) == "columns"
    )
    write: Callable[..., Iterator[bytes]] = _labellings
    if has_columns:
        write = _columns_and_labels
    elif options.nbest is not None:
        write = _best_labellings
    with ExitStack() as stack:
        if has_columns and is_pipe(options.input):  # which is read twice
            open_pipe = partial(open_bytes, options.input)
            options.input = stack.enter_context(copied(open_pipe, "A pipe"))
        X, _ = files.read_sequences(options.input, options, labeler)
        file = stack.enter_context(data.output_file(options.output))
        file.writelines(write(labeler, X, options))
    _report_labels(X, "tokens", "sequences", options)


def _report_labels(X: list, elements: str, inputs: str, options: Options) -> None:
    """Report how many elements of how many inputs were labelled."""
    n_elements = sum(map(len, X))
    metrics = {inputs: len(X), elements: n_elements, "output": options.output}
    line = f"Labelled {n_elements} {elements} of {len(X)} {inputs}: {options.output}"
    options.report([line], metrics)


def _labellings(
    labeler: omkl.SequenceLabeler | omkl.GraphLabeler,
    X: list,
    options: Options,
    more: Iterable[Record] = repeat({}),
) -> Iterator[bytes]:
    """Format the labels of each sequence or graph, and what else is asked for.

    ``more`` are further entries of the records of JSON.
    """
    for record, entries in zip(_labelled(labeler, X, options), more):
        if options.to == "jsonl":
            yield _json_line(record | entries)
        else:
            yield _lines([*_rows_of(record), ""])


def _labelled(model: files.Model, X: Rows, options: Options) -> Iterator[Record]:
    """Yield the labels of each sequence, graph or row, and what else is asked for.

    All of it comes from one prediction.
    """
    if options.error is None and not options.confidence:
        for labels in model.predict(X):
            yield {"y": labels.tolist()}
        return
    from omkl.guarantees.answers import answers_of

    answers = answers_of(model, X)
    if options.error is None:
        for answer in answers:
            yield _record(answer, accepted=None, options=options)
    else:
        for answer, accepted in options.checked.judged(answers, options.error):
            yield _record(answer, accepted, options)


def _record(answer: Answer, accepted: ArrayLike | None, options: Options) -> Record:
    """Return labels, and if asked for probabilities and marks, of an example as columns."""
    columns: Record = {"y": answer.labels.tolist()}
    if options.confidence:
        columns["confidence"] = _rounded(answer.tokens)
    if accepted is not None:
        columns["guarantee"] = _marks(accepted, len(answer.labels))
    return columns


def _rounded(probabilities: np.ndarray) -> list[float]:
    """Return probabilities with three decimals."""
    return [round(probability, 3) for probability in probabilities.tolist()]


def _joined(records: Iterable[Record]) -> Record:
    """Concatenate the columns of several examples."""
    columns: Record = {"y": []}
    for record in records:
        for name, values in record.items():
            columns.setdefault(name, []).extend(values)
    return columns


def _rows_of(columns: Record) -> Iterator[str]:
    """Format columns as rows of text."""
    texts: list[Iterable[str]] = []
    for name, values in columns.items():
        if name == "confidence":
            texts.append([f"{probability:.3f}" for probability in values])
        else:
            texts.append(map(str, values))
    return map("\t".join, zip(*texts))


def _columns_and_labels(
    labeler: omkl.SequenceLabeler, X: list, options: Options
) -> Iterator[bytes]:
    """Copy the lines of the input, and append the label of each token.

    For ``--confidence``, its probability comes after the label.
    """
    from omkl.data.sequences import token_lines

    lines_of_labels = chain.from_iterable(map(bytes.splitlines, _labellings(labeler, X, options)))
    labels = filter(None, lines_of_labels)  # without empty lines between sequences
    for path in find_files(options.input):
        for line, is_token in token_lines(path):
            if is_token:
                separator = b"\t" if b"\t" in line else b" "
                label = next(labels).replace(b"\t", separator)
                line = line.rstrip() + separator + label
            yield line + b"\n"


def _best_labellings(
    labeler: omkl.SequenceLabeler | omkl.GraphLabeler, X: list, options: Options
) -> Iterator[bytes]:
    """Format the n best labellings of each sequence or graph."""
    for labellings in labeler.predict_nbest(X, options.nbest):
        if options.to == "jsonl":
            records = []
            for labels, score in labellings:
                records.append({"y": labels.tolist(), "score": score})
            yield _json_line({"nbest": records})
        else:
            for rank, (labels, score) in enumerate(labellings, 1):
                yield _lines([f"# {rank} {score:.6g}", *labels.tolist(), ""])


def _label_graphs(labeler: omkl.GraphLabeler, options: Options) -> None:
    """Write the labels of the nodes of graphs.

    JSON has a line for each graph, with its score and the upper bound; text a line for each node.
    """
    X, _ = data.read_graphs(options.input)
    if options.nbest is not None:
        written = _best_labellings(labeler, X, options)
    else:
        scores: Iterable[Record] = repeat({})
        if options.to == "jsonl":  # certificates search each graph once more
            scores = (
                {"score": certificate.score, "bound": certificate.bound}
                for certificate in labeler.certificates(X)
            )
        written = _labellings(labeler, X, options, scores)
    with data.output_file(options.output) as file:
        file.writelines(written)
    _report_labels(X, "nodes", "graphs", options)


def _json_line(record: Record) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()


def _lines(rows: Iterable[object]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


# ---- rows ----------------------------------------------------------------------------------------


def _predict_rows(model: files.Model, options: Options) -> None:
    """Write a line for each row, block by block."""
    n_rows = 0
    columns_of_model = files.columns_of_model(model)
    with data.output_file(options.output) as file, files.naming(options.input):
        stream = files.open_rows(options.input, options, columns_of_model, labelled=False)
        for block in stream.blocks():
            columns = _columns_of_rows(model, block.X, options)
            if options.to == "jsonl":
                for values in zip(*columns.values()):
                    file.write(_json_line(dict(zip(columns, values))))
            else:
                file.write(_lines(_rows_of(columns)))
            n_rows += block.n_examples
    metrics = {"examples": n_rows, "output": options.output}
    options.report([f"Predicted {n_rows} rows: {options.output}"], metrics)


def _columns_of_rows(model: files.Model, X: Rows, options: Options) -> Record:
    """Return predictions for rows, and if asked for probabilities and marks, as columns."""
    if options.error is not None:
        return _joined(_labelled(model, X, options))
    columns: Record = {"y": model.predict(X).tolist()}
    if options.confidence:
        columns["confidence"] = _rounded(model.predict_proba(X).max(axis=1))
    return columns
