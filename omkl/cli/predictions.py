"""How predictions are written: as text, as JSON lines or as a treebank, with the best few or the best alone."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from omkl import data
from omkl._progress import progress_bar
from omkl.cli.common import report
from omkl.exceptions import InputError

#: The forms in which predictions of models of each kind are written, the default first.
FORMS = {
    "trees": ("conllu", "jsonl"), "annotations": ("conllu", "jsonl"), "sequences": ("text", "jsonl", "conllu"),
    "rows": ("text", "jsonl"),
}  # fmt: skip
#: Which of them the end of a file's name stands for.
SUFFIXES = (".jsonl", ".conllu")


def form_of(arguments: Namespace, kind: str) -> str:
    """The form to write predictions in: ``--to``, or what the name of the output stands for, or the default.

    Raises
    ------
    omkl.exceptions.InputError
        If a model of this kind does not write it.
    """
    asked = arguments.to
    if asked is None:
        from omkl.data.files import stem

        name = stem(arguments.output)
        asked = next((suffix[1:] for suffix in SUFFIXES if name.endswith(suffix)), FORMS[kind][0])
    if asked not in FORMS[kind]:
        raise InputError(
            f"{arguments.model} predicts {kind}, which are not written as {asked}: "
            f"ask for --to {' or '.join(FORMS[kind])}."
        )
    return asked


def json_line(record: dict[str, Any]) -> bytes:
    """A line of JSON."""
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()


class SentenceWriter:
    """Writes sentences, as they were read but for what has changed, or as JSON lines of some columns and the words.

    Parameters
    ----------
    file : file of bytes
    form : {"conllu", "jsonl"}
    columns : sequence of str
        Those of JSON lines.
    """

    def __init__(self, file: Any, form: str, columns: Sequence[str]) -> None:
        self._file, self._form, self._columns = file, form, tuple(columns)
        self._treebank = data.TreebankWriter(file)

    def write(self, block: data.Treebank) -> None:
        """Write sentences."""
        if self._form == "conllu":
            self._treebank.write(block)
        else:
            self._file.writelines(json_line(self._record(sentence, "forms")) for sentence in block)

    def write_best(self, alternatives: Iterable[tuple[data.Treebank, float]]) -> None:
        """Write the best few of a sentence, each a treebank of one, with their scores."""
        if self._form == "conllu":
            for rank, (own, score) in enumerate(alternatives, 1):
                self._treebank.write(own, comments=[f"rank = {rank}", f"score = {score:.6g}"])
            return
        found = [(own[0], score) for own, score in alternatives]
        nbest = [{**self._record(sentence), "score": score} for sentence, score in found]
        self._file.write(json_line({"forms": found[0][0].forms, "nbest": nbest}))

    def _record(self, sentence: data.Sentence, *others: str) -> dict[str, Any]:
        return {name: getattr(sentence, name) for name in (*others, *self._columns)}


@contextmanager
def sentence_writer(arguments: Namespace, form: str, columns: Sequence[str]) -> Iterator[SentenceWriter]:
    """A writer of sentences to the output."""
    with data.output_file(arguments.output) as file:
        yield SentenceWriter(file, form, columns)


class Progress:
    """A bar of the sentences that are written, and at the end how many there were."""

    def __init__(self, arguments: Namespace) -> None:
        self._arguments = arguments
        self._n_words = self._n_sentences = 0

    def __enter__(self) -> Progress:
        self._bar = progress_bar(not self._arguments.quiet, unit=" sentences")
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def note(self, block: data.Treebank) -> None:
        """Count what is written."""
        self._n_words, self._n_sentences = self._n_words + block.n_words, self._n_sentences + len(block)
        self._bar.update(len(block))

    def tell(self, done: str) -> None:
        """Say what was ``done``, and how fast."""
        seconds, output = time.perf_counter() - self._started, self._arguments.output
        line = f"{done} {self._n_words} words of {self._n_sentences} sentences"
        metrics = {"sentences": self._n_sentences, "tokens": self._n_words, "seconds": seconds, "output": output}
        report(self._arguments, [f"{line}, {self._n_words / seconds:.0f} words a second: {output}"], metrics)
