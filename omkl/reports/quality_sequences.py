"""How good a labeler is on sequences, and those that it gets most wrong."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from omkl.estimators import evaluate_labels
from omkl.exceptions import InputError
from omkl.reports import plots
from omkl.reports.markup import example, heading, number, paragraph, percent
from omkl.reports.quality import (
    Quality,
    by_length,
    calibration_part,
    confusion_parts,
    drawn,
    marked_tokens,
    reasons,
    score_table,
    worst_first,
)

#: Sequences whose probabilities are held at a time.
AT_A_TIME = 500
#: Entries of dicts that name a token, the first that there is.
NAMES = ("word", "form", "token", "text", "w", "lower")
#: Tokens of an example that are shown at most, and letters of the name of one.
TOKENS, NAME = 120, 24


def sequence_quality(labeler: Any, X: Sequence[Any], y: Sequence[Any], n_worst: int) -> Quality:
    """What a labeler makes of sequences whose labels are known; those of which one is None are left out."""
    kept = [i for i, labels in enumerate(y) if not any(label is None for label in labels)]
    X, gold = [X[i] for i in kept], [_plain(y[i]) for i in kept]
    if not X:
        raise InputError("No sequence has all its labels: give some to report on.")
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    found = evaluate_labels(gold, predicted)
    lengths = np.array(list(map(len, gold)))
    wrong = np.array([sum(own != other for own, other in zip(*pair)) for pair in zip(gold, predicted)])
    flat = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    tiles: dict[str, Any] = {"right labels": percent(found["accuracy"])}
    tiles["sequences all right"] = percent(found["sequence_accuracy"])
    if found["entities"] is not None:
        tiles["F1 of entities"] = percent(found["entity_f1"])
    tiles |= {"sequences": number(found["sequences"]), "tokens": number(found["tokens"])}
    parts = [heading("By label"), score_table(found["labels"], "label")]
    if found["entities"] is not None:
        parts += [heading("By type of entity"), score_table(found["entities"], "type")]
    parts += confusion_parts(*flat)
    parts += [heading("By length"), by_length(lengths, lengths - wrong, "sequences")]
    if hasattr(labeler, "predict_marginals"):
        right = np.array([own == other for own, other in zip(*flat)])
        parts += [heading("Calibration"), calibration_part(right, _confidence(labeler, X, predicted))]
    worst = [_example(labeler, kept[i], X[i], gold[i], predicted[i]) for i in worst_first(wrong, lengths, n_worst)]
    return Quality(tiles, parts, worst)


def _plain(labels: Any) -> list[Any]:
    return labels.tolist() if isinstance(labels, np.ndarray) else list(labels)


def _confidence(labeler: Any, X: Sequence[Any], predicted: Sequence[list[Any]]) -> np.ndarray:
    """The probability of each predicted label."""
    column = {label: k for k, label in enumerate(labeler.classes_.tolist())}
    found = []
    for low in range(0, len(X), AT_A_TIME):
        own = predicted[low : low + AT_A_TIME]
        for marginals, labels in zip(labeler.predict_marginals(X[low : low + AT_A_TIME]), own):
            found.append(marginals[np.arange(len(labels)), [column[label] for label in labels]])
    return np.concatenate(found)


def _example(labeler: Any, index: int, x: Any, gold: list[Any], predicted: list[Any]) -> str:
    n_wrong = sum(own != other for own, other in zip(gold, predicted))
    pixels = np.asarray(x) if isinstance(x, (np.ndarray, list)) and np.ndim(x[0]) == 1 and not _is_text(x[0]) else None
    picture = (
        "" if pixels is None else drawn(plots.plot_word, pixels[:TOKENS], predicted[:TOKENS], gold[:TOKENS], paper=True)
    )
    shown = picture or marked_tokens(map(_name_of, range(TOKENS), x), (gold, predicted))
    more = paragraph(f"and {len(gold) - TOKENS} more tokens.", soft=True) if len(gold) > TOKENS else ""
    why = partial(labeler.explain, x, labels=predicted, against=gold)
    return example(f"Sequence {index + 1}: {n_wrong} of {len(gold)} wrong", shown, more, reasons(why))


def _is_text(token: Any) -> bool:
    return isinstance(token, (str, dict)) or len(token) == 0 or isinstance(token[0], str)


def _name_of(i: int, token: Any) -> str:
    """What a token is called."""
    if isinstance(token, dict):
        found = next((token[name] for name in NAMES if isinstance(token.get(name), str)), None)
        token = next((own for own in token.values() if isinstance(own, str)), None) if found is None else found
    elif isinstance(token, (list, tuple)) and token and isinstance(token[0], str):
        token = token[0]
    name = token if isinstance(token, str) else str(i + 1)
    return name if len(name) <= NAME else name[: NAME - 1] + "…"
