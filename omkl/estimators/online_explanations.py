"""Explanations of single predictions of online estimators."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np

from omkl.data.blocks import n_rows
from omkl.estimators.explanations import (
    Explanation,
    Namer,
    explanation,
    name_of_support,
    other_class,
    summary_of,
)
from omkl.exceptions import InputError
from omkl.features.encoder import Encoder
from omkl.features.views import FlatTokens
from omkl.groups.base import Piece
from omkl.groups.tokens import Span
from omkl.online.averaging import Predictor
from omkl.online.group_contributions import contributions
from omkl.online.model import OnlineModel
from omkl.structures.base import Potentials
from omkl.structures.multiclass import UnaryPotentials


class Outputs(NamedTuple):
    """Two outputs to compare, as a structure encodes them."""

    chosen: Any
    against: Any


def explain_difference(
    predictor: Predictor,
    x: Sized,
    potentials: Potentials,
    outputs: Outputs,
    differences: Sequence[str],
    n: int,
    names_of: Namer,
    labels: np.ndarray,
) -> Explanation:
    """Explain why the first of two ``outputs`` scores higher than the second, for an input x.

    ``potentials`` are those of x, ``differences`` list the differences in words, and ``labels``
    are those of all codes.
    """
    margin, direction = predictor.structure.difference(potentials, *outputs)
    return explanation(
        labels[outputs.chosen],
        labels[outputs.against],
        summary_of(differences),
        margin,
        contributions(predictor, x, direction),
        n,
        names_of,
    )


def explain_class(
    model: OnlineModel, rows: FlatTokens, label: Hashable, against: Hashable, n: int
) -> Explanation:
    """Explain the class of a single row; see :meth:`omkl.OnlineMKLClassifier.explain`."""
    codes = model.codec.codes
    predictor = model.predictor()
    row = _encoded_row(model, rows)
    potentials = predictor.potentials(row)

    def code_of(name: Hashable) -> int:
        return int(codes.encode([name])[0])

    if label is None:
        chosen = predictor.structure.decode(potentials)
    else:
        chosen = code_of(label)
    if against is None:
        other = other_class(len(codes), potentials.unary[0], chosen)
    else:
        other = code_of(against)
    labels = codes.labels
    return explain_difference(
        predictor,
        row,
        potentials,
        Outputs(chosen, other),
        [f"{labels[chosen]!r} rather than {labels[other]!r}"],
        n,
        piece_namer(model.codec.encoder, labels),
        codes.as_array(),
    )


def explain_number(model: OnlineModel, rows: FlatTokens, n: int) -> Explanation:
    """Explain the prediction for a single row; see :meth:`omkl.OnlineMKLRegressor.explain`."""
    codec = model.codec
    predictor = model.predictor()
    row = _encoded_row(model, rows)
    level = codec.codes.level
    prediction = predictor.structure.decode(predictor.potentials(row)) + level
    adds = contributions(predictor, row, UnaryPotentials(np.ones((1, 1))))
    adds.groups["level"] = adds.groups.get("level", 0.0) + level
    names_of = piece_namer(codec.encoder, [])
    return explanation(prediction, None, "prediction", prediction, adds, n, names_of)


def _encoded_row(model: OnlineModel, rows: FlatTokens) -> Span:
    if n_rows(rows) != 1:
        raise InputError(f"x must be one row, got {n_rows(rows)}.")
    return model.codec.encoder.encode(rows, np.array([0, 1])).everything()


def piece_namer(encoder: Encoder, labels: Sequence) -> Namer:
    """Make a function that names the pieces of a model on tokens; ``labels`` are in code order."""

    def name_of(piece: Piece, features: dict[int, str]) -> str:
        if piece.kind == "feature":
            return features[piece.key]
        if piece.kind == "part":
            return encoder.name_of_part(piece.group, piece.key)
        if piece.kind == "labels":
            return " → ".join(str(labels[code]) for code in piece.key)
        # all other pieces are support vectors
        index, vector = piece.key
        column = encoder.columns_of(piece.group)
        return name_of_support(piece.group, f"support vector {index}", column, vector)

    def names_of(pieces: list[Piece]) -> list[str]:
        features = encoder.names_of(piece.key for piece in pieces if piece.kind == "feature")
        return [name_of(piece, features) for piece in pieces]

    return names_of
