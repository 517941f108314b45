"""Evaluation of labelled sequences: scores of tokens, labels, and entities marked by labels like
``B-PER``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from omkl.estimators.validation import OneOf
from omkl.exceptions import InputError

#: Labels for entities: O (outside), or a type with B (begin), I (inside), E or L (end), S or U
#: (single token).
ENTITY_LABEL = re.compile(r"O|[BIELSU]-.+", re.DOTALL)
#: The same without types; one of B and I must be there.
UNTYPED_LABEL = re.compile("[OBIELSU]")
#: Equivalent of each prefix in BIOES.
LETTERS = {"O": "O", "B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
#: Schemes, and the prefixes of the last token of a well-formed entity.
ENDS = {"BIO": "BI", "BIOES": "ES"}


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

    >>> found = evaluate_labels([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])
    >>> round(found["accuracy"], 2), found["entity_f1"]
    (0.67, 0.0)
    """
    sides = [[list(labels) for labels in side] for side in (y_true, y_pred)]
    lengths, others = (list(map(len, side)) for side in sides)
    if lengths != others:
        raise InputError(
            "y_true and y_pred must have the same number of sequences, each of the same length."
        )
    flat = [list(chain(*side)) for side in sides]
    members = list(dict.fromkeys(chain(*flat)))
    if not members or None in members:
        raise InputError("y_true and y_pred must hold labels, all of them known.")
    index = {label: k for k, label in enumerate(members)}
    gold, predicted = (np.array([index[label] for label in side]) for side in flat)
    right = gold == predicted
    counts = np.stack(
        [np.bincount(codes, minlength=len(members)) for codes in (gold, predicted, gold[right])],
        axis=1,
    )
    wrong = np.bincount(
        np.repeat(np.arange(len(lengths)), lengths), weights=~right, minlength=len(lengths)
    )
    return {
        "accuracy": float(right.mean()),
        "sequence_accuracy": float(np.mean(wrong == 0)),
        "tokens": len(gold),
        "sequences": len(lengths),
        "labels": sorted(
            records("label", dict(zip(members, counts))), key=lambda row: -row["gold"]
        ),
        **_entity_scores(gold, predicted, np.array(lengths), members, scheme),
    }


def _entity_scores(
    gold: np.ndarray, predicted: np.ndarray, lengths: np.ndarray, members: list, scheme: str | None
) -> dict[str, Any]:
    """Compute the scores of entities; labels are codes of ``members``."""
    OneOf((None, *ENDS)).check("scheme", scheme)
    finder = entity_finder(members, scheme)
    if finder is None:
        return dict.fromkeys(("entity_precision", "entity_recall", "entity_f1", "entities"))
    types, find = finder
    own, other = (find(codes, lengths) for codes in (gold, predicted))
    _, i, j = np.intersect1d(own[:, 0], other[:, 0], assume_unique=True, return_indices=True)
    same = own[i][(own[i] == other[j]).all(axis=1)]
    found = np.stack(
        [np.bincount(side[:, 2], minlength=len(types)) for side in (own, other, same)], axis=1
    )
    everything = records("", {"": found.sum(axis=0)})[0]
    return {
        **{f"entity_{name}": everything[name] for name in ("precision", "recall", "f1")},
        "entities": sorted(
            records("type", {name: row for name, row in zip(types, found) if row.any()}),
            key=lambda row: -row["gold"],
        ),
    }


def entity_finder(
    members: list, scheme: str | None = None
) -> tuple[list[str], Callable[..., np.ndarray]] | None:
    """Return the types of entities, and a function from codes of ``members``, and lengths of
    sequences, to entities.

    None if the labels do not mark entities. An entity is its first token, last token and type, (n,
    3).
    """
    entity_label = UNTYPED_LABEL if {"B", "I"} & set(members) else ENTITY_LABEL
    others = [
        label for label in members if not (isinstance(label, str) and entity_label.fullmatch(label))
    ]
    if others or members == ["O"]:
        if scheme is not None:
            wanted = "labels such as 'B-PER' and 'O', or 'B' and 'O'"
            raise InputError(f"scheme={scheme!r} needs {wanted}, got {[*others, 'O'][0]!r}.")
        return None
    names = [str(label).partition("-")[2] for label in members]
    types = list(dict.fromkeys(names))
    letters = np.array([LETTERS.get(str(label)[:1], "O") for label in members])
    kinds = np.array([types.index(name) for name in names])
    return types, partial(_entities, letters=letters, kinds=kinds, scheme=scheme)


def _entities(
    codes: np.ndarray,
    lengths: np.ndarray,
    letters: np.ndarray,
    kinds: np.ndarray,
    scheme: str | None,
) -> np.ndarray:
    """Find first token, last token and type of each entity, (n, 3)."""
    # insert an outside token between sequences, and at both ends
    places = np.arange(len(codes)) + np.repeat(np.arange(1, len(lengths) + 1), lengths)
    tags, types = (
        np.full(len(codes) + len(lengths) + 1, "O"),
        np.full(len(codes) + len(lengths) + 1, -1),
    )
    tags[places], types[places] = letters[codes], kinds[codes]
    types[tags == "O"] = -1
    before, after = tags[:-1], tags[1:]
    parted = (types[:-1] != types[1:]) | np.isin(before, ("E", "S")) | np.isin(after, ("B", "S"))
    starts, ends = (
        np.flatnonzero(parted & (after != "O")) + 1,
        np.flatnonzero(parted & (before != "O")),
    )
    if scheme is not None:
        single = starts == ends
        begins = np.where(single & (scheme == "BIOES"), "S", "B")
        fits = (tags[starts] == begins) & np.isin(tags[ends], list(ENDS[scheme]))
        starts, ends = starts[fits], ends[fits]
    return np.stack(
        [np.searchsorted(places, starts), np.searchsorted(places, ends), types[starts]], axis=1
    )


def records(name: str, table: Mapping[Any, Iterable]) -> list[dict[str, Any]]:
    """Make records of counts, precision, recall and F1 for each key of a table; undefined scores
    are 0.

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
