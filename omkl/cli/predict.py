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
    *(opt.MODEL, opt.argument("input", type=opt.READ, required=False)),
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
    *(opt.FORMAT, *opt.TABLE, opt.JOBS, opt.METRICS),
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
        opt.refuse(f"is for annotators, not {files.of_class(model)}", "text", "offsets")
    if options.checked is None:
        opt.refuse("needs a file of omkl guarantee", "error")
    if options.nbest is not None:
        opt.refuse("does not go with --nbest", "error")
        opt.refuse("does not go with --nbest, which has scores instead", "confidence")
        if kind in ("rows", "annotations"):
            opt.refuse(f"is for labelers and parsers, not {files.of_class(model)}", "nbest")
    if options.confidence:
        _check_probabilities(model, kind, "--confidence")
    end = stem(options.output).rpartition(".")[2]
    options.to = options.to or (end if end in ("jsonl", "conllu") else FORMS[kind][0])
    if options.to not in FORMS[kind]:
        raise InputError(
            f"{files.of_class(model).capitalize()} writes {' or '.join(FORMS[kind])}, not {options.to}."
        )
    writers = {
        "trees": _parse,
        "annotations": _annotate,
        "sequences": _label,
        "graphs": _label_graphs,
        "rows": _rows,
    }
    write: Any = writers[kind]
    if not options.line_buffered:
        write(model, options)
        return
    name = "input" if options.text is None else "text"
    if (
        kind in ("rows", "graphs")
        or getattr(options, name) != "-"
        or options.output != "-"
        or options.json is not None
    ):
        raise InputError(
            "--line-buffered is for sentences from standard input to standard output, without --json."
        )
    for record in _records(
        words=kind == "annotations" or (kind == "sequences" and options.to == "conllu")
    ):
        with copied(partial(io.BytesIO, record), "Standard input") as path:
            setattr(options, name, path)
            write(model, options)


def _check_probabilities(model: Any, kind: str, what: str, trees: bool = True) -> None:
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
    name = files.of_class(model)
    raise InputError(
        f"{what} needs probabilities, which {name} has after omkl calibrate, or training with --dev."
    )


@opt.command(
    "calibrate",
    *(opt.MODEL, opt.argument("calibration", type=opt.READ)),
    option(
        "-o",
        "--output",
        type=opt.WRITE,
        required=True,
        metavar="FILE",
        help="File for the calibrated model.",
    ),
    *(opt.FORMAT, opt.ON_ERROR, opt.JOBS, opt.METRICS),
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
        name = files.of_class(model)
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
    *(opt.MODEL, opt.argument("calibration", type=opt.READ)),
    option(
        "-o",
        "--output",
        type=opt.WRITE,
        required=True,
        metavar="FILE",
        help="File for the calibrated model.",
    ),
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
    *(opt.DATA, opt.JOBS, opt.METRICS),
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
        _check_probabilities(
            model, kind, "A guarantee", trees=options.column in (None, "heads", "deprels")
        )
    with files.naming(options.calibration):
        X, y = files.labelled_data(options.calibration, model, kind, options)
        X, y = X.read() if kind == "rows" else (X, y)
        checked = omkl.guarantee(
            model, X, y, confidence=options.level, unit=options.unit, column=options.column
        )
    checked.save(files.destination(options.output))
    line = f"Calibrated on {checked.n_examples_} examples: {options.output}"
    options.report(
        [line],
        {"examples": checked.n_examples_, "curve": checked.curve(), "output": options.output},
    )


def _marks(accepted: ArrayLike, n: int) -> list[str]:
    """Tell for each of n tokens whether to accept or to check it."""
    return ["accept" if own else "check" for own in np.broadcast_to(accepted, n).tolist()]


def _records(words: bool) -> Iterator[bytes]:
    """Read standard input by sentence: a line of ``words`` or JSON, otherwise the lines up to an
    empty one.
    """
    found, by_line = list[bytes](), None
    for line in sys.stdin.buffer:
        found += [line] if line.strip() or found else []
        if by_line is None and line.strip() and not line.startswith(b"#"):
            by_line = line.startswith(b"{") or (words and b"\t" not in line)
        if found and (by_line or not line.strip()):
            yield b"".join(found)
            found = []
    if found:
        yield b"".join(found)


# ---- sentences -----------------------------------------------------------------------------------


def _parse(parser: omkl.DependencyParser, options: Options) -> None:
    """Parse a treebank; everything except heads and relations is kept."""

    def best(block: data.Treebank) -> Iterator[Best]:
        for i, found in enumerate(parser.predict_nbest(block, options.nbest)):
            own = block[i : i + 1]
            yield [
                (own.with_trees(tree.heads).with_strings("deprels", tree.deprels), tree.score)
                for tree in found
            ]

    columns = ["heads", *["deprels"] * parser.labeled]
    predict = best if options.nbest else partial(_annotated, parser, parser.parse, options)
    _write_sentences(map(predict, _treebanks(options.input)), columns, "Parsed", options)


def _annotated(
    model: Any, annotate: Callable, options: Options, block: data.Treebank
) -> data.Treebank:
    """Annotate sentences, and for ``--error`` write to MISC which words to accept."""
    if options.error is None:
        return annotate(block, confidence=options.confidence)
    from omkl.guarantees.answers import annotated, columns_of
    from omkl.parsing.sentences import with_notes

    columns = columns_of(model)
    wanted = columns if options.checked.column is None else [options.checked.column]
    found, answers = annotated(model, block, wanted, columns, options.confidence)
    judged = options.checked.judged(answers, options.error)
    marks = [mark for answer, accepted in judged for mark in _marks(accepted, len(answer.labels))]
    return with_notes(found, {"Guarantee": marks})


def _annotate(annotator: omkl.Annotator, options: Options) -> None:
    """Annotate sentences; everything except predicted columns is kept."""
    text = options.text
    blocks = (
        _sentences(options.input)
        if text is None
        else annotator.split(text_pieces(text), options.offsets)
    )
    found = map(partial(_annotated, annotator, annotator.annotate, options), blocks)
    _write_sentences(found, annotator.columns_, "Annotated", options)


def _tag(labeler: omkl.SequenceLabeler, options: Options) -> None:
    """Predict the UPOS of a treebank or of text; everything else is kept."""
    opt.refuse("does not go with --to conllu", *files.UNREAD["annotations"])

    def tagged(block: data.Treebank) -> data.Treebank:
        from omkl.parsing.sentences import with_notes

        found = _joined(_labelled(labeler, [sentence.forms for sentence in block], options))
        notes = {note: found[name] for name, note in NOTES.items() if name in found}
        block = block.with_strings("upos", map(str, found["y"]))
        return with_notes(block, notes) if notes else block

    def best(block: data.Treebank) -> Iterator[Best]:
        for i, found in enumerate(
            labeler.predict_nbest([sentence.forms for sentence in block], options.nbest)
        ):
            own = block[i : i + 1]
            yield [(own.with_strings("upos", map(str, labels)), score) for labels, score in found]

    _write_sentences(
        map(best if options.nbest else tagged, _sentences(options.input)),
        ["upos"],
        "Tagged",
        options,
    )


def _sentences(path: str) -> Iterator[data.Treebank]:
    """Read blocks of a treebank if the suffix or the first line, except for comments, says so, else
    of text.
    """
    line = next(
        (line for line in data.lines(path) if line.strip() and not line.startswith(b"#")), b""
    )
    if data.find_format(path).holds == "trees" or b"\t" in line:
        return _treebanks(path)
    if len(cells := line.split()) >= 10 and cells[0].startswith(b"1") and b"_" in cells:
        warnings.warn(
            f"{path} looks like CoNLL-U without tabs, and is read as text.",
            DataWarning,
            stacklevel=2,
        )
    return data.iter_words(path)


def _treebanks(path: str) -> Iterator[data.Treebank]:
    """Read blocks of a treebank with its text."""
    return (block.X for block in data.stream_conllu(path, trees=False, keep_text=True).blocks())


def _write_sentences(found: Iterable, columns: Sequence[str], done: str, options: Options) -> None:
    """Write annotated sentences block by block, and report what was ``done``, and how fast.

    Blocks are treebanks, or for ``--nbest`` the best annotations of each sentence. JSON lines
    contain the words and these ``columns``; CoNLL-U keeps everything else.
    """
    from omkl.data.treebank.conllu import as_text

    columns = [
        *columns,
        *["misc"] * (options.confidence or options.offsets or options.error is not None),
    ]
    counts, started = {"sentences": 0, "tokens": 0}, time.perf_counter()

    def record(sentence: data.Sentence) -> Record:
        return {name: getattr(sentence, name) for name in columns}

    def written(block: data.Treebank) -> Iterator[bytes]:
        if options.to == "conllu":
            yield as_text(block)
        else:
            yield from (
                _json_line({"forms": sentence.forms, **record(sentence)}) for sentence in block
            )

    def best_written(best: Best) -> Iterator[bytes]:
        if options.to == "conllu":
            for rank, (own, score) in enumerate(best, 1):
                yield f"# rank = {rank}\n# score = {score:.6g}\n".encode() + as_text(own)
        else:
            nbest = [{**record(own[0]), "score": score} for own, score in best]
            yield _json_line({"forms": best[0][0][0].forms, "nbest": nbest})

    with (
        progress_bar(not options.quiet, unit=" sentences") as bar,
        data.output_file(options.output) as file,
    ):
        for own in found if options.nbest is None else chain.from_iterable(found):
            file.writelines(written(own) if options.nbest is None else best_written(own))
            block = own if options.nbest is None else own[0][0]
            counts["sentences"] += len(block)
            counts["tokens"] += block.n_words
            bar.update(len(block))
    seconds = time.perf_counter() - started
    speed = f"{counts['tokens'] / seconds:.0f} words a second"
    line = f"{done} {counts['tokens']} words of {counts['sentences']} sentences, {speed}: {options.output}"
    options.report([line], {**counts, "seconds": seconds, "output": options.output})


# ---- sequences -----------------------------------------------------------------------------------


def _label(labeler: omkl.SequenceLabeler, options: Options) -> None:
    """Write the labels of sequences."""
    if options.to == "conllu":
        _tag(labeler, options)
        return
    write = _best_labellings if options.nbest is not None else _labellings
    with ExitStack() as stack:
        if (
            options.to == "text"
            and options.nbest is None
            and files.are_columns(options.input, options, labeler)
        ):
            write = _columns_and_labels
            if is_pipe(path := options.input):
                options.input = stack.enter_context(copied(partial(open_bytes, path), "A pipe"))
        X, _ = files.read_sequences(options.input, options, labeler)
        stack.enter_context(data.output_file(options.output)).writelines(write(labeler, X, options))
    metrics = {"sequences": len(X), "tokens": sum(map(len, X)), "output": options.output}
    line = f"Labelled {metrics['tokens']} tokens of {len(X)} sequences: {options.output}"
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
        yield (
            _json_line(record | entries)
            if options.to == "jsonl"
            else _lines([*_rows_of(record), ""])
        )


def _labelled(model: Any, X: object, options: Options) -> Iterator[Record]:
    """Yield the labels of each sequence, graph or row, and what else is asked for, from one
    prediction.
    """
    if options.error is None and not options.confidence:
        return ({"y": labels.tolist()} for labels in model.predict(X))
    from omkl.guarantees.answers import answers_of

    answers = answers_of(model, X)
    judged = (
        zip(answers, repeat(None))
        if options.error is None
        else options.checked.judged(answers, options.error)
    )
    return (_record(answer, accepted, options) for answer, accepted in judged)


def _record(answer: Answer, accepted: ArrayLike | None, options: Options) -> Record:
    found: Record = {"y": answer.labels.tolist()}
    if options.confidence:
        found["confidence"] = [round(p, 3) for p in answer.tokens.tolist()]
    if accepted is not None:
        found["guarantee"] = _marks(accepted, len(answer.labels))
    return found


def _joined(records: Iterable[Record]) -> Record:
    """Concatenate the columns of several examples."""
    found: Record = {"y": []}
    for record in records:
        for name, own in record.items():
            found.setdefault(name, []).extend(own)
    return found


def _rows_of(columns: Record) -> Iterator[str]:
    """Format columns as rows of text."""
    texts = (
        [f"{p:.3f}" for p in own] if name == "confidence" else map(str, own)
        for name, own in columns.items()
    )
    return map("\t".join, zip(*texts))


def _columns_and_labels(
    labeler: omkl.SequenceLabeler, X: list, options: Options
) -> Iterator[bytes]:
    """Copy the lines of the input, and append the label of each token, and its probability for
    ``--confidence``.
    """
    from omkl.data.sequences import token_lines

    labels = filter(
        None, chain.from_iterable(map(bytes.splitlines, _labellings(labeler, X, options)))
    )
    for line, is_token in chain.from_iterable(map(token_lines, find_files(options.input))):
        if is_token:
            mark = b"\t" if b"\t" in line else b" "
            line = line.rstrip() + mark + next(labels).replace(b"\t", mark)
        yield line + b"\n"


def _best_labellings(
    labeler: omkl.SequenceLabeler | omkl.GraphLabeler, X: list, options: Options
) -> Iterator[bytes]:
    """Format the n best labellings of each sequence or graph."""
    for found in labeler.predict_nbest(X, options.nbest):
        if options.to == "jsonl":
            yield _json_line(
                {"nbest": [{"y": labels.tolist(), "score": score} for labels, score in found]}
            )
        else:
            for rank, (labels, score) in enumerate(found, 1):
                yield _lines([f"# {rank} {score:.6g}", *labels.tolist(), ""])


def _label_graphs(labeler: omkl.GraphLabeler, options: Options) -> None:
    """Write the labels of the nodes of graphs: a line of JSON for each graph, or a line for each
    node.
    """
    X, _ = data.read_graphs(options.input)
    scores = ({"score": found.score, "bound": found.bound} for found in labeler.certificates(X))
    best = None if options.nbest is None else _best_labellings(labeler, X, options)
    with data.output_file(options.output) as file:
        file.writelines(best or _labellings(labeler, X, options, scores))
    metrics = {"graphs": len(X), "nodes": sum(map(len, X)), "output": options.output}
    options.report(
        [f"Labelled {metrics['nodes']} nodes of {len(X)} graphs: {options.output}"], metrics
    )


def _json_line(record: Record) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()


def _lines(rows: Iterable[object]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


# ---- rows ----------------------------------------------------------------------------------------


def _rows(model: Any, options: Options) -> None:
    """Write a line for each row, block by block."""
    n_rows = 0
    with data.output_file(options.output) as file, files.naming(options.input):
        for block in files.open_rows(
            options.input, options, files.columns_of_model(model), labelled=False
        ).blocks():
            if options.error is not None:
                found = _joined(_labelled(model, block.X, options))
            else:
                found = {"y": model.predict(block.X).tolist()}
                if options.confidence:
                    found["confidence"] = [
                        round(p, 3) for p in model.predict_proba(block.X).max(axis=1).tolist()
                    ]
            if options.to == "jsonl":
                file.writelines(_json_line(dict(zip(found, own))) for own in zip(*found.values()))
            else:
                file.write(_lines(_rows_of(found)))
            n_rows += block.n_examples
    metrics = {"examples": n_rows, "output": options.output}
    options.report([f"Predicted {n_rows} rows: {options.output}"], metrics)
