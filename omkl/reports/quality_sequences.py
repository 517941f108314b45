"""Quality of a labeler on sequences, and its worst mistakes."""

from collections.abc import Sequence
from functools import partial
from itertools import chain

import numpy as np

import omkl
from omkl.exceptions import InputError
from omkl.reports import plots
from omkl.reports.markup import drawn, html, number, percent, score_table
from omkl.reports.quality import Quality, calibration_parts, confusion_parts, marked_tokens, reasons, worst_first
from omkl.sequences.evaluation import evaluate_labels

#: Tokens of an example that are shown at most, and letters of the name of one.
TOKENS, NAME = 120, 24


def sequence_quality(labeler: omkl.SequenceLabeler, X: Sequence, y: Sequence, n_worst: int) -> Quality:
    """Measure a labeler on sequences; those with a label None are left out."""
    kept = [i for i, labels in enumerate(y) if not any(label is None for label in labels)]
    X, gold = [X[i] for i in kept], [np.asarray(y[i], dtype=object).tolist() for i in kept]
    if not X:
        raise InputError("No sequence has all its labels: give some to report on.")
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    found = evaluate_labels(gold, predicted)
    lengths = np.array(list(map(len, gold)))
    wrong = np.array([sum(own != other for own, other in zip(*pair)) for pair in zip(gold, predicted)])
    flat = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    tiles = {"right labels": percent(found["accuracy"]), "sequences all right": percent(found["sequence_accuracy"])}
    parts = [html.heading("By label"), score_table(found["labels"], "label")]
    if found["entities"] is not None:
        tiles["F1 of entities"] = percent(found["entity_f1"])
        parts += [html.heading("By type of entity"), score_table(found["entities"], "type")]
    tiles |= {"sequences": number(found["sequences"]), "tokens": number(found["tokens"])}
    parts += confusion_parts(*flat)
    if hasattr(labeler, "predict_marginals"):
        right = np.array([own == other for own, other in zip(*flat)])
        parts += calibration_parts("Calibration", right, _confidence(labeler, X, predicted))
    worst = [_example(labeler, kept[i], X[i], gold[i], predicted[i]) for i in worst_first(wrong, lengths, n_worst)]
    return Quality(tiles, parts, worst)


def _confidence(labeler: omkl.SequenceLabeler, X: Sequence, predicted: Sequence[list]) -> np.ndarray:
    """Return the probability of each predicted label."""
    column = {label: k for k, label in enumerate(labeler.classes_.tolist())}
    pairs = zip(labeler.predict_marginals(X), predicted)
    return np.concatenate([own[np.arange(len(labels)), [column[label] for label in labels]] for own, labels in pairs])


def _example(labeler: omkl.SequenceLabeler, index: int, x: Sequence, gold: list, predicted: list) -> str:
    """Show a sequence with mistakes: its images, or its tokens with their labels."""
    n_wrong = sum(own != other for own, other in zip(gold, predicted))
    shown = ""
    if isinstance(x[0], np.ndarray):
        shown = drawn(plots.plot_word, np.asarray(x[:TOKENS]), predicted[:TOKENS], gold[:TOKENS], paper=True)
    shown = shown or marked_tokens([_name_of(i, token) for i, token in enumerate(x[:TOKENS])], (gold, predicted))
    more = html.paragraph(f"and {len(gold) - TOKENS} more tokens.", soft=True) if len(gold) > TOKENS else ""
    why = partial(labeler.explain, x, labels=predicted, against=gold)
    return html.example(f"Sequence {index + 1}: {n_wrong} of {len(gold)} wrong", shown, more, reasons(why))


def _name_of(i: int, token: str | dict | Sequence) -> str:
    """Return the word of a token: itself, its first entry that is a string, or its number."""
    entries = [token] if isinstance(token, str) else token.values() if isinstance(token, dict) else token
    name = next((entry for entry in entries if isinstance(entry, str)), str(i + 1))
    return name if len(name) <= NAME else name[: NAME - 1] + "…"
