"""Explanations of single predictions of online estimators."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized

import numpy as np

from omkl.data.blocks import n_rows
from omkl.estimators.explanations import (
    Explanation,
    Namer,
    explanation,
    listed,
    name_of_support,
    other_class,
)
from omkl.exceptions import InputError
from omkl.features.encoder import Encoder
from omkl.features.views import FlatTokens
from omkl.groups.base import Piece
from omkl.groups.tokens import Span
from omkl.online.averaging import Predictor
from omkl.online.group_contributions import contributions
from omkl.online.model import OnlineModel
from omkl.structures.base import Output, Potentials
from omkl.structures.multiclass import UnaryPotentials


def explain_difference(
    predictor: Predictor,
    x: Sized,
    potentials: Potentials,
    outputs: tuple[Output, Output],
    told: Sequence[str],
    n: int,
    named: Namer,
    shown: Callable[[Output], object] = lambda output: output,
) -> Explanation:
    """Explain why the first of two ``outputs`` scores higher than the second, for an input x.

    ``potentials`` are those of x, ``told`` lists the differences in words, and ``shown(output)``
    converts an encoded output for users.
    """
    margin, direction = predictor.structure.difference(potentials, *outputs)
    found = contributions(predictor, x, direction)
    output, against = map(shown, outputs)
    return explanation(output, against, listed(told), margin, found, n, named)


def explain_class(
    model: OnlineModel, rows: FlatTokens, label: object, against: object, n: int
) -> Explanation:
    """Explain the class of a single row; see :meth:`omkl.OnlineMKLClassifier.explain`."""
    codec, predictor, span = model.codec, model.predictor(), _encoded_row(model, rows)
    structure, potentials = predictor.structure, predictor.potentials(span)

    def code(given: object) -> int:
        return int(codec.codes.encode([given])[0])

    chosen = structure.decode(potentials) if label is None else code(label)
    other = (
        other_class(len(codec.codes), potentials.unary[0], chosen)
        if against is None
        else code(against)
    )
    members, classes = codec.codes.members, codec.codes.as_array()
    told = [f"{members[chosen]!r} rather than {members[other]!r}"]
    namer = part_namer(codec.encoder, members)
    return explain_difference(
        predictor, span, potentials, (chosen, other), told, n, namer, classes.__getitem__
    )


def explain_number(model: OnlineModel, rows: FlatTokens, n: int) -> Explanation:
    """Explain the prediction for a single row; see :meth:`omkl.OnlineMKLRegressor.explain`."""
    codec, predictor, span = model.codec, model.predictor(), _encoded_row(model, rows)
    level = codec.codes.level
    prediction = predictor.structure.decode(predictor.potentials(span)) + level
    found = contributions(predictor, span, UnaryPotentials(np.ones((1, 1))))
    found.groups["level"] = found.groups.get("level", 0.0) + level
    return explanation(
        prediction, None, "prediction", prediction, found, n, part_namer(codec.encoder, [])
    )


def _encoded_row(model: OnlineModel, rows: FlatTokens) -> Span:
    if n_rows(rows) != 1:
        raise InputError(f"x must be one row, got {n_rows(rows)}.")
    return model.codec.encoder.encode(rows, np.array([0, 1])).everything()


def part_namer(encoder: Encoder, members: Sequence) -> Namer:
    """Make a function that names the pieces of a model on tokens; ``members`` are the labels."""

    def name(piece: Piece, features: dict[int, str]) -> str:
        if piece.kind == "feature":
            return features[piece.key]
        if piece.kind == "part":
            return encoder.name_of_part(piece.group, piece.key)
        if piece.kind == "labels":
            return " → ".join(str(members[code]) for code in piece.key)
        index, vector = piece.key
        return name_of_support(
            piece.group, f"support vector {index}", encoder.columns_of(piece.group), vector
        )

    def named(pieces: list[Piece]) -> list[str]:
        features = encoder.names_of(piece.key for piece in pieces if piece.kind == "feature")
        return [name(piece, features) for piece in pieces]

    return named
