"""Evaluation of labelled sequences: scores of tokens, labels and entities."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from omkl.estimators.validation import OneOf
from omkl.exceptions import InputError
from omkl.persistence import Record

#: Labels for entities: O (outside), or a type with B (begin), I (inside), E or L (end), S or U
#: (single token).
ENTITY_LABEL = re.compile(r"O|[BIELSU]-.+", re.DOTALL)
#: The same without types; one of B and I must be there.
UNTYPED_LABEL = re.compile("[OBIELSU]")
#: Equivalent of each prefix in BIOES.
LETTERS = {"O": "O", "B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
#: Schemes, and the prefixes of the last token of a well-formed entity.
ENDS = {"BIO": "BI", "BIOES": "ES"}
#: Columns of an array of entities: first token, and type.
FIRST = 0
TYPE = 2
#: Type of tokens outside of entities.
NO_TYPE = -1


def evaluate_labels(
    y_true: Iterable, y_pred: Iterable, *, scheme: str | None = None
) -> dict[str, Any]:
    """Compare predicted labels of sequences with gold labels.

    Parameters
    ----------
    y_true, y_pred : iterable of sequences of labels
        Gold and predicted labels, any hashable.
    scheme : {None, "BIO", "BIOES"}
        How to read entities. None reads them like the script of the CoNLL 2000 shared task, and
        ``seqeval`` without strict mode: an inside label after another type, or after no entity,
        begins a new entity. "BIO" and "BIOES" count only well-formed entities, like the strict mode
        of ``seqeval``.

    Returns
    -------
    dict
        * ``accuracy`` of tokens, and ``sequence_accuracy``, the fraction of entirely correct
          sequences, in [0, 1];
        * ``tokens`` and ``sequences``, counts;
        * ``labels``, a flat record for each ``label``, by decreasing frequency: ``gold``,
          ``predicted`` and ``correct`` (counts of tokens), ``precision``, ``recall`` and ``f1``;
        * ``entity_precision``, ``entity_recall`` and ``entity_f1`` over all entities, and
          ``entities``, a record for each ``type``. An entity is correct if both ends and the type
          are. Labels without types, ``B``, ``I`` and ``O``, have the one type ``""``. None unless
          all labels mark entities.

    Raises
    ------
    omkl.exceptions.InputError
        If sequences differ in length, there are no labels, a label is None, or labels do not fit
        the ``scheme``.

    References
    ----------
    Tjong Kim Sang, Buchholz: *Introduction to the CoNLL-2000 Shared Task: Chunking* (2000).

    >>> scores = evaluate_labels([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])
    >>> round(scores["accuracy"], 2), scores["entity_f1"]
    (0.67, 0.0)
    """
    gold_sequences = list(map(list, y_true))
    predicted_sequences = list(map(list, y_pred))
    lengths = list(map(len, gold_sequences))
    if lengths != list(map(len, predicted_sequences)):
        raise InputError(
            "y_true and y_pred must have the same number of sequences, each of the same length."
        )
    gold_labels = list(chain(*gold_sequences))
    predicted_labels = list(chain(*predicted_sequences))
    labels = list(dict.fromkeys(chain(gold_labels, predicted_labels)))
    if not labels or None in labels:
        raise InputError("y_true and y_pred must hold labels, all of them known.")
    code_of_label = {label: code for code, label in enumerate(labels)}
    gold = np.array([code_of_label[label] for label in gold_labels])
    predicted = np.array([code_of_label[label] for label in predicted_labels])
    is_right = gold == predicted
    counts = _counts_of_codes((gold, predicted, gold[is_right]), len(labels))
    sequence_of_token = np.repeat(np.arange(len(lengths)), lengths)
    n_wrong = np.bincount(sequence_of_token, weights=~is_right, minlength=len(lengths))
    return {
        "accuracy": float(is_right.mean()),
        "sequence_accuracy": float(np.mean(n_wrong == 0)),
        "tokens": len(gold),
        "sequences": len(lengths),
        "labels": _by_frequency(records("label", dict(zip(labels, counts)))),
        **_entity_scores(gold, predicted, np.array(lengths), labels, scheme),
    }


def _counts_of_codes(codes: Iterable[np.ndarray], n_codes: int) -> np.ndarray:
    """Count each code among gold, predicted and correct ones, (n_codes, 3)."""
    return np.stack([np.bincount(side, minlength=n_codes) for side in codes], axis=1)


def _by_frequency(rows: list[Record]) -> list[Record]:
    return sorted(rows, key=lambda row: -row["gold"])


def _common_rows(entities: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the entities (n, 3) that are in both arrays; first tokens differ within each."""
    _, i, j = np.intersect1d(
        entities[:, FIRST], others[:, FIRST], assume_unique=True, return_indices=True
    )
    is_same = (entities[i] == others[j]).all(axis=1)
    return entities[i][is_same]


def _entity_scores(
    gold: np.ndarray, predicted: np.ndarray, lengths: np.ndarray, labels: list, scheme: str | None
) -> dict[str, Any]:
    """Compute the scores of entities; labels (number of tokens,) are codes of ``labels``."""
    OneOf((None, *ENDS)).check("scheme", scheme)
    finder = entity_finder(labels, scheme)
    if finder is None:
        return dict.fromkeys(("entity_precision", "entity_recall", "entity_f1", "entities"))
    types, find = finder
    gold_entities = find(gold, lengths)
    predicted_entities = find(predicted, lengths)
    correct_entities = _common_rows(gold_entities, predicted_entities)
    entities = (gold_entities, predicted_entities, correct_entities)
    counts = _counts_of_codes([side[:, TYPE] for side in entities], len(types))
    total = records("", {"": counts.sum(axis=0)})[0]
    counts_of_type = {name: row for name, row in zip(types, counts) if row.any()}
    return {
        "entity_precision": total["precision"],
        "entity_recall": total["recall"],
        "entity_f1": total["f1"],
        "entities": _by_frequency(records("type", counts_of_type)),
    }


def entity_finder(
    labels: list, scheme: str | None = None
) -> tuple[list[str], Callable[..., np.ndarray]] | None:
    """Return the types of entities, and a function that finds entities; None if labels mark none.

    The function takes codes of ``labels`` (number of tokens,), and lengths of sequences. An entity
    is its first token, last token and type, (n, 3).
    """
    entity_label = UNTYPED_LABEL if {"B", "I"} & set(labels) else ENTITY_LABEL
    misfits = ["O"] if labels == ["O"] else []
    for label in labels:
        if not isinstance(label, str) or not entity_label.fullmatch(label):
            misfits.append(label)
    if misfits and scheme is not None:
        raise InputError(
            f"scheme={scheme!r} needs labels such as 'B-PER' and 'O', or 'B' and 'O', "
            f"got {misfits[0]!r}."
        )
    if misfits:
        return None
    names = [str(label).partition("-")[2] for label in labels]
    types = list(dict.fromkeys(names))
    letters = np.array([LETTERS.get(str(label)[:1], "O") for label in labels])
    type_codes = np.array([types.index(name) for name in names])
    return types, partial(_entities, letters=letters, type_codes=type_codes, scheme=scheme)


def _entities(
    codes: np.ndarray,
    lengths: np.ndarray,
    letters: np.ndarray,
    type_codes: np.ndarray,
    scheme: str | None,
) -> np.ndarray:
    """Find first token, last token and type of each entity, (n, 3).

    ``codes`` (number of tokens,) are codes of labels, whose prefixes in BIOES are ``letters`` (K,),
    and whose types are ``type_codes`` (K,).
    """
    # insert an outside token between sequences, and at both ends, which positions count, too
    positions = np.arange(len(codes)) + np.repeat(np.arange(1, len(lengths) + 1), lengths)
    n_positions = len(codes) + len(lengths) + 1
    tags = np.full(n_positions, "O")
    tags[positions] = letters[codes]
    types = np.full(n_positions, NO_TYPE)
    types[positions] = type_codes[codes]
    types[tags == "O"] = NO_TYPE
    before = tags[:-1]
    after = tags[1:]
    changes_type = types[:-1] != types[1:]
    is_boundary = changes_type | np.isin(before, ("E", "S")) | np.isin(after, ("B", "S"))
    starts = np.flatnonzero(is_boundary & (after != "O")) + 1
    ends = np.flatnonzero(is_boundary & (before != "O"))
    if scheme is not None:
        is_single = (starts == ends) & (scheme == "BIOES")
        begins_well = tags[starts] == np.where(is_single, "S", "B")
        is_well_formed = begins_well & np.isin(tags[ends], list(ENDS[scheme]))
        starts = starts[is_well_formed]
        ends = ends[is_well_formed]
    first_tokens = np.searchsorted(positions, starts)
    last_tokens = np.searchsorted(positions, ends)
    return np.stack([first_tokens, last_tokens, types[starts]], axis=1)


def records(name: str, table: Mapping[Any, Iterable]) -> list[Record]:
    """Make records of counts, precision, recall and F1 for each key of a table.

    Undefined scores are 0.

    Parameters
    ----------
    name : str
        Name of the entry for the key.
    table : dict
        Counts ``(gold, predicted, correct)`` by key.

    >>> records("label", {"X": (4, 2, 1)})[0]["recall"]
    0.25
    """
    return [
        {
            name: key,
            "gold": int(gold),
            "predicted": int(predicted),
            "correct": int(correct),
            "precision": float(correct / max(predicted, 1)),
            "recall": float(correct / max(gold, 1)),
            "f1": float(2 * correct / max(gold + predicted, 1)),
        }
        for key, (gold, predicted, correct) in table.items()
    ]
