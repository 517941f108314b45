"""Explanations of online estimators on rows, and of a structure of one's own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl._components import check_number
from omkl.estimators.explanations import Explanation
from omkl.estimators.validation import checked_rows
from omkl.exceptions import InputError
from omkl.features.encoder import Encoder
from omkl.groups import Span
from omkl.online import Contributions, Piece, Predictor, contributions
from omkl.structures import Potentials

#: Differences between two outputs that a summary lists.
TOLD = 3


def explain_class(estimator: Any, x: Any, label: Any, against: Any, n: int) -> Explanation:
    """Explain the class of a row; see :meth:`omkl.OnlineMKLClassifier.explain`.

    Parameters
    ----------
    estimator : OnlineMKLClassifier
    x, label, against, n
        As for the method.
    """
    codec, predictor = estimator.model_.codec, estimator.model_.predictor()
    span = _encoded_row(estimator, x)
    structure, potentials = predictor.structure, predictor.potentials(span)

    def code(given: Any) -> int:
        return int(codec.known.encode([given], "give one.")[0])

    chosen = structure.decode(potentials) if label is None else code(label)
    other = other_class(structure.n_labels, potentials.unary[0], chosen) if against is None else code(against)
    margin, direction = structure.difference(potentials, chosen, other)
    found, members, classes = contributions(predictor, span, direction), codec.known.members, estimator.classes_
    strongest = strongest_of(found, n, part_namer(codec.encoder, members))
    summary = f"{members[chosen]!r} rather than {members[other]!r}"
    return Explanation(classes[chosen], classes[other], summary, float(margin), found.groups, strongest)


def explain_number(estimator: Any, x: Any, n: int) -> Explanation:
    """Explain the prediction for a row; see :meth:`omkl.OnlineMKLRegressor.explain`.

    Parameters
    ----------
    estimator : OnlineMKLRegressor
    x, n
        As for the method.
    """
    codec, predictor, level = estimator.model_.codec, estimator.model_.predictor(), estimator.level_
    span = _encoded_row(estimator, x)
    prediction = predictor.structure.decode(predictor.potentials(span)) + level
    found = contributions(predictor, span, predictor.structure.as_potentials(np.ones(1)))
    found.groups["level"] = found.groups.get("level", 0.0) + level
    strongest = strongest_of(found, n, part_namer(codec.encoder, []))
    return Explanation(prediction, None, "prediction", prediction, found.groups, strongest)


def explain_output(predictor: Predictor, x: Any, output: Any, against: Any, n: int) -> Explanation:
    """Explain the output for an input; see :meth:`omkl.StructuredPredictor.explain`.

    Parameters
    ----------
    predictor : Predictor
    x, output, against, n
        As for the method.
    """
    structure, potentials = predictor.structure, predictor.potentials(x)
    chosen = structure.decode(potentials) if output is None else output
    other = _other_output(structure, potentials, chosen) if against is None else against
    margin, direction = structure.difference(potentials, chosen, other)
    found = contributions(predictor, x, direction)
    strongest = strongest_of(found, n, _numbered)
    return Explanation(chosen, other, "this output, not the other", float(margin), found.groups, strongest)


def other_class(n_classes: int, scores: np.ndarray, chosen: int) -> int:
    """The best other class.

    Parameters
    ----------
    n_classes : int
    scores : array of shape (n_classes,)
        Not needed for two classes.
    chosen : int
    """
    if n_classes < 2:
        raise InputError("The model knows one class only, so there is none to compare with.")
    if n_classes == 2:
        return 1 - chosen
    return int(np.argmax(np.where(np.arange(n_classes) == chosen, -np.inf, scores)))


def _other_output(structure: Any, potentials: Potentials, chosen: Any) -> Any:
    """Another output of a high score."""
    if hasattr(structure, "decode_best"):
        for own in structure.decode_best(potentials, 2)[0]:
            if structure.cost(chosen, own) > 0:
                return own
        raise InputError("There is no other output to compare with: give one, against=.")
    weight = 2.0**-30
    while weight < 2.0**60:
        own = structure.loss_augmented(potentials, chosen, weight)
        if structure.cost(chosen, own) > 0:
            return own
        weight *= 1.25
    raise InputError("No other output was found to compare with: give one, against=.")


def one_row(x: Any) -> Any:
    """A row, alone or as the only one of some rows, as rows."""
    if isinstance(x, dict):
        return [x]
    if getattr(x, "ndim", None) == 1 and hasattr(x, "to_frame"):  # of a data frame
        return x.to_frame().T.infer_objects()
    if getattr(x, "ndim", None) == 2 or (isinstance(x, list) and x and isinstance(x[0], dict)):
        return x
    return np.array([x])


def _encoded_row(estimator: Any, x: Any) -> Span:
    rows = checked_rows(estimator, one_row(x), reset=False)
    n = len(rows) if isinstance(rows, list) else rows.shape[0]
    if n != 1:
        raise InputError(f"x must be one row, got {n}.")
    return estimator.model_.codec.encoder.encode(rows, np.array([0, 1])).everything()


# ---- names of the parts -----------------------------------------------------------------------------------------


def listed(told: Sequence[str]) -> str:
    """The first few of some differences, and the number of others."""
    more = f" and {len(told) - TOLD} more" if len(told) > TOLD else ""
    return "; ".join(told[:TOLD]) + more if told else "the same output"


def strongest_of(found: Contributions, n: int, named: Callable[[list[Piece]], list[str]]) -> list[dict[str, Any]]:
    """Records of the n strongest pieces.

    Parameters
    ----------
    found : Contributions
    n : int > 0
    named : callable
        ``named(pieces)`` are the names of pieces.
    """
    check_number("n", n, above=0, integer=True)
    pieces = sorted(found.pieces, key=lambda piece: -abs(piece.value))[: int(n)]
    return [
        {"feature": name, "group": piece.group, "token": piece.at, "adds": piece.value}
        for name, piece in zip(named(pieces), pieces)
    ]


def _numbered(pieces: list[Piece]) -> list[str]:
    kinds = {"feature": "feature", "part": "part", "support": "support vector", "labels": "labels", "arc": "arc"}
    return [f"{kinds[piece.kind]} {piece.key}" for piece in pieces]


def part_namer(encoder: Encoder, members: Sequence) -> Callable[[list[Piece]], list[str]]:
    """A function that names the parts of a model on tokens.

    Parameters
    ----------
    encoder : Encoder
    members : sequence
        The labels.
    """

    def name(piece: Piece, features: dict[int, str]) -> str:
        if piece.kind == "feature":
            return features[piece.key]
        if piece.kind == "part":
            return encoder.name_of_part(piece.group, piece.key)
        if piece.kind == "labels":
            return " → ".join(str(members[code]) for code in piece.key)
        return f"support vector {piece.key} of {piece.group}"

    def named(pieces: list[Piece]) -> list[str]:
        features = encoder.names_of(piece.key for piece in pieces if piece.kind == "feature")
        return [name(piece, features) for piece in pieces]

    return named
