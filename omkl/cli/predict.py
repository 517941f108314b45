"""``omkl predict``: label sequences, parse sentences, or predict for rows, with a saved model."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import omkl
from omkl import data
from omkl._progress import progress_bar
from omkl.cli import options as opt
from omkl.cli.console import Record
from omkl.cli.files import UNREAD, Columns, load_model, naming, of_class, open_rows, read_sequences
from omkl.cli.options import Options, option
from omkl.exceptions import InputError

if TYPE_CHECKING:
    from omkl.reports.model import Model

#: Forms of predictions by what a model predicts, the default first; an output's name may end in all but text.
FORMS = {
    "trees": ("conllu", "jsonl"),
    "annotations": ("conllu", "jsonl"),
    "sequences": ("text", "jsonl", "conllu"),
    "rows": ("text", "jsonl"),
}


@opt.command(
    "predict",
    """
    omkl predict parser.npz new.conllu -o parsed.conllu --confidence
    echo "No way ." | omkl predict annotator.npz -      # standard input to standard output
    omkl predict labeler.npz new.jsonl --to jsonl --nbest 3
    omkl predict classifier.npz new.csv -o labels.txt --jobs -1
    """,
    *(opt.MODEL, opt.argument("input", type=opt.READ)),
    option("-o", "--output", type=opt.WRITE, default="-", metavar="FILE", help="May end in .gz or .xz: compressed."),
    option(
        "--to", type=opt.CHOICE(["conllu", "jsonl", "text"]), help="Form of the output; by default that of its name."
    ),
    option("--nbest", type=opt.POSITIVE, metavar="N", help="Write the N best of each, best first, with their scores."),
    option("--confidence", is_flag=True, help="Write probabilities of labels, arcs and relations as well."),
    *(opt.FORMAT, *opt.TABLE, opt.JOBS, opt.METRICS),
)
def predict(options: Options) -> None:
    """Predict for the sequences, sentences or rows of the file INPUT; outputs in it are not looked at.

    A labeler writes one label a line and an empty line between sequences, or with --to conllu the words of a treebank
    or of text with their UPOS. A parser writes the treebank with new heads and relations, an annotator one with all
    that it has learned, for a treebank or for text with one sentence a line, words divided by spaces. A classifier or
    regressor writes one prediction a line.

    Probabilities stand after a tab, in JSON lines as "confidence", and in MISC of a treebank as UposConf=0.987,
    HeadConf and RelConf. Alternatives are in JSON lines "nbest", and have scores in comments of a treebank.
    """
    model, kind = load_model(options)
    if options.nbest is not None:
        opt.refuse("does not go with --nbest, which has scores instead", "confidence")
    options.to = _form(options, kind, model)
    {"trees": _parse, "annotations": _annotate, "sequences": _label, "rows": _predict_rows}[kind](model, options)


def _form(options: Options, kind: str, model: Model) -> str:
    """The form to write predictions in."""
    form = options.to
    if form is None:
        from omkl.data.files import stem

        end = stem(options.output).rpartition(".")[2]
        form = end if end in ("jsonl", "conllu") else FORMS[kind][0]
    if form not in FORMS[kind]:
        raise InputError(f"{of_class(model).capitalize()} writes {' or '.join(FORMS[kind])}, not {form}.")
    return form


# ---- sentences ---------------------------------------------------------------------------------------------------


def _parse(parser: omkl.DependencyParser, options: Options) -> None:
    """Parse a treebank block by block; all but heads and relations is written as it was read."""
    columns = ["heads", *["deprels"] * parser.labeled]
    with _sentence_writer(options, columns, "Parsed") as writer:
        for block in _treebanks(options.input):
            if options.nbest is None:
                writer.write(parser.parse(block, confidence=options.confidence))
                continue
            for i, found in enumerate(parser.predict_nbest(block, options.nbest)):
                own = block[i : i + 1]
                writer.write_best((_with_tree(own, parse), parse.score) for parse in found)


def _with_tree(sentence: Any, parse: Any) -> Any:
    """A treebank of one sentence with another tree."""
    return sentence.with_column("heads", parse.heads).with_strings("deprels", parse.deprels)


def _annotate(annotator: omkl.Annotator, options: Options) -> None:
    """Annotate sentences block by block; all that is no annotation is written as it was read."""
    opt.refuse("is for single models, not an annotator", "nbest")
    with _sentence_writer(options, annotator.columns_, "Annotated") as writer:
        for block in _sentences(options.input):
            writer.write(annotator.annotate(block, confidence=options.confidence))


def _tag(labeler: omkl.SequenceLabeler, options: Options) -> None:
    """Label the words of a treebank or of text with their UPOS; all else is written as it was read."""
    opt.refuse("does not go with --to conllu", *UNREAD["annotations"])
    with _sentence_writer(options, ["upos"], "Tagged") as writer:
        for block in _sentences(options.input):
            X = [sentence.forms for sentence in block]
            if options.nbest is None:
                writer.write(_tagged(labeler, block, X, options.confidence))
                continue
            for i, found in enumerate(labeler.predict_nbest(X, options.nbest)):
                own = block[i : i + 1]
                writer.write_best((own.with_strings("upos", map(str, best.labels)), best.score) for best in found)


def _tagged(labeler: omkl.SequenceLabeler, block: data.Treebank, X: list, confidence: bool) -> Any:
    """A block with its tags, and their probabilities if asked for."""
    found = [own.tolist() for own in labeler.predict(X)]
    tagged = block.with_strings("upos", (str(label) for own in found for label in own))
    if confidence:
        from omkl.parsing.sentences import with_notes

        tagged = with_notes(tagged, {"UposConf": [p for own in _confidence(labeler, X, found) for p in own]})
    return tagged


def _sentences(path: str) -> Iterator[Any]:
    """Blocks of sentences: of a treebank where the first line that is no comment has columns, else of text."""
    for line in data.lines(path):
        if line.strip() and not line.startswith(b"#"):
            return _treebanks(path) if b"\t" in line else data.iter_words(path)
    return data.iter_words(path)


def _treebanks(path: str) -> Iterator[data.Treebank]:
    """Blocks of a treebank with its text."""
    return (block.X for block in data.stream_conllu(path, trees=False, keep_text=True).blocks())


class _SentenceWriter:
    """Writes sentences as they were read but for what has changed, or as JSON lines of words and some columns.

    Parameters
    ----------
    file : file of bytes
    form : {"conllu", "jsonl"}
    columns : sequence of str
        Columns of JSON lines.
    bar : tqdm
        Counts sentences.
    """

    def __init__(self, file: Any, form: str, columns: Sequence[str], bar: Any) -> None:
        self.n_sentences = self.n_words = 0
        self._file, self._form, self._columns, self._bar = file, form, tuple(columns), bar
        from omkl.data.treebank.conllu import as_text

        self._as_text = as_text

    def write(self, block: data.Treebank) -> None:
        if self._form == "conllu":
            self._file.write(self._as_text(block))
        else:
            self._file.writelines(_json_line(self._record(sentence, "forms")) for sentence in block)
        self._count(len(block), block.n_words)

    def write_best(self, alternatives: Iterable[tuple[data.Treebank, float]]) -> None:
        """Write the best few of a sentence, each a treebank of one, with their scores."""
        found = list(alternatives)
        if self._form == "conllu":
            for rank, (own, score) in enumerate(found, 1):
                self._file.write(f"# rank = {rank}\n# score = {score:.6g}\n".encode() + self._as_text(own))
        else:
            nbest = [{**self._record(own[0]), "score": score} for own, score in found]
            self._file.write(_json_line({"forms": found[0][0][0].forms, "nbest": nbest}))
        self._count(1, found[0][0].n_words)

    def _count(self, n_sentences: int, n_words: int) -> None:
        self.n_sentences, self.n_words = self.n_sentences + n_sentences, self.n_words + n_words
        self._bar.update(n_sentences)

    def _record(self, sentence: data.Sentence, *others: str) -> Record:
        return {name: getattr(sentence, name) for name in (*others, *self._columns)}


@contextmanager
def _sentence_writer(options: Options, columns: Sequence[str], done: str) -> Iterator[_SentenceWriter]:
    """Open the output for sentences; at the end say what was ``done``, and how fast."""
    started, columns = time.perf_counter(), [*columns, *["misc"] * options.confidence]
    with progress_bar(not options.quiet, unit=" sentences") as bar, data.output_file(options.output) as file:
        writer = _SentenceWriter(file, options.to, columns, bar)
        yield writer
    seconds = time.perf_counter() - started
    speed = f"{writer.n_words / seconds:.0f} words a second"
    line = f"{done} {writer.n_words} words of {writer.n_sentences} sentences, {speed}: {options.output}"
    counts = {"sentences": writer.n_sentences, "tokens": writer.n_words}
    options.report([line], {**counts, "seconds": seconds, "output": options.output})


# ---- sequences ---------------------------------------------------------------------------------------------------


def _label(labeler: omkl.SequenceLabeler, options: Options) -> None:
    """Write the labels of sequences."""
    if options.to == "conllu":
        _tag(labeler, options)
        return
    X, _ = read_sequences(options.input, options, labeler)
    write = _best_labellings if options.nbest is not None else _labellings
    with data.output_file(options.output) as file:
        file.writelines(write(labeler, X, options))
    metrics = {"sequences": len(X), "tokens": sum(map(len, X)), "output": options.output}
    line = f"Labelled {metrics['tokens']} tokens of {len(X)} sequences: {options.output}"
    options.report([line], metrics)


def _labellings(labeler: omkl.SequenceLabeler, X: list, options: Options) -> Iterator[bytes]:
    """Each sequence as it is written: its labels, and their probabilities if asked for."""
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    confidence = _confidence(labeler, X, predicted) if options.confidence else None
    for s, labels in enumerate(predicted):
        own = None if confidence is None else [round(p, 3) for p in confidence[s]]
        if options.to == "jsonl":
            yield _json_line({"y": labels} if own is None else {"y": labels, "confidence": own})
        else:
            yield _lines([*(labels if own is None else (f"{y}\t{p:.3f}" for y, p in zip(labels, own))), ""])


def _best_labellings(labeler: omkl.SequenceLabeler, X: list, options: Options) -> Iterator[bytes]:
    """The best labellings of each sequence as they are written."""
    for found in labeler.predict_nbest(X, options.nbest):
        if options.to == "jsonl":
            yield _json_line({"nbest": [{"y": labels.tolist(), "score": score} for labels, score in found]})
        else:
            for rank, (labels, score) in enumerate(found, 1):
                yield _lines([f"# {rank} {score:.6g}", *labels.tolist(), ""])


def _confidence(labeler: omkl.SequenceLabeler, X: list, predicted: list[list]) -> list[list[float]]:
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


def _json_line(record: Record) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()


def _lines(rows: Iterable[Any]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


# ---- rows --------------------------------------------------------------------------------------------------------


def _predict_rows(model: Model, options: Options) -> None:
    """Write a line for each row, block by block."""
    n_rows = 0
    with data.output_file(options.output) as file, naming(options.input):
        for block in open_rows(options.input, options, Columns.of_model(model), labelled=False).blocks():
            records = _row_records(model, block.X, options)
            file.writelines(map(_json_line, records) if options.to == "jsonl" else [_lines(map(_row_text, records))])
            n_rows += block.n_examples
    metrics = {"examples": n_rows, "output": options.output}
    options.report([f"Predicted {n_rows} rows: {options.output}"], metrics)


def _row_records(model: Model, X: Any, options: Options) -> Iterator[Record]:
    """A record for each row: ``y``, with ``confidence`` if asked for; or ``nbest``, pairs of ``y`` and ``score``."""
    if not options.confidence and options.nbest is None:
        yield from ({"y": output} for output in model.predict(X).tolist())
        return
    if getattr(getattr(model, "classes_", None), "ndim", 0) != 1 or not hasattr(model, "decision_function"):
        opt.refuse(f"is for models that choose one of several classes, not {of_class(model)}", "confidence", "nbest")
    if options.confidence and not hasattr(model, "predict_proba"):
        raise InputError(
            "--confidence needs probabilities, which this classifier has none of: train it with --loss crf, or ask for "
            "scores with --nbest."
        )
    scores = model.predict_proba(X) if hasattr(model, "predict_proba") else model.decision_function(X)
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    ranked, classes = np.argsort(-scores, axis=1, kind="stable"), model.classes_.tolist()
    for best, own in zip(ranked[:, : options.nbest or 1].tolist(), scores.tolist()):
        if options.confidence:
            yield {"y": classes[best[0]], "confidence": round(own[best[0]], 3)}
        else:
            yield {"nbest": [{"y": classes[k], "score": own[k]} for k in best]}


def _row_text(record: Record) -> str:
    if "nbest" in record:
        return "\t".join(f"{found['y']}\t{found['score']:.6g}" for found in record["nbest"])
    return f"{record['y']}\t{record['confidence']:.3f}" if "confidence" in record else str(record["y"])
