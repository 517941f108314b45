"""``explain`` of the online estimators that see tokens: sequences, rows, and inputs of a structure of one's own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl._components import check_number
from omkl.estimators.constraints import check_feasible
from omkl.estimators.encoding import Encoder
from omkl.estimators.explanations import Explanation
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.inputs import checked_rows, flatten
from omkl.estimators.labelings import forced_labels
from omkl.exceptions import InputError
from omkl.online import Contributions, Piece, contributions
from omkl.structures import Potentials

#: Differences between two outputs that a summary tells one by one.
TOLD = 3


class ExplainsSequences:
    """What a sequence labeler says of why it labels a sequence as it does."""

    model_: Any
    predictor_: Any
    classes_: Any
    _column_names: Any

    def explain(
        self, x: Any, *, labels: Any = None, against: Any = None, token: int | None = None, n: int = 20
    ) -> Explanation:
        """Why a sequence gets its labels, and not the next best.

        The score of a labelling is a sum over groups, and over their features, support vectors and transitions; so is
        the difference of two scores, the margin, which the parts add up to.

        Parameters
        ----------
        x : sequence
            One of those that :meth:`predict` takes a list of.
        labels : sequence of labels, optional
            The labelling to explain; the predicted one by default.
        against : sequence of labels, optional
            What to compare it with; by default the best of all other labellings.
        token : int, optional
            Compare with the best labelling that has another label at this token, counted from 0.
        n : int > 0
            How many of the strongest features to tell.

        Returns
        -------
        omkl.estimators.Explanation

        Raises
        ------
        omkl.exceptions.InputError
            If labels do not fit the sequence, the model does not know them, or there is no other labelling.
        """
        predictor, codec = self.predictor_, self.model_.codec
        tokens, offsets = flatten([x], names=self._column_names)
        span = codec.encoder.encode(tokens, offsets).everything()
        structure, potentials = predictor.structure, predictor.potentials(span)

        def read(given: Any) -> np.ndarray:
            codes = forced_labels([given], np.diff(offsets), codec.known)
            if codes.ndim > 1 or (codes < 0).any():
                raise InputError(
                    "Give one label for each token, to explain them or to compare with: no set and no None."
                )
            return codes

        chosen = structure.decode(potentials) if labels is None else read(labels)
        check_feasible(structure, chosen, offsets, None, "allowed_transitions")
        if token is not None and not (isinstance(token, (int, np.integer)) and 0 <= token < len(chosen)):
            raise InputError(f"token={token!r} is none of the {len(chosen)} tokens of the sequence, counted from 0.")
        other = read(against) if against is not None else _other_labels(structure, potentials, chosen, token)
        margin, direction = structure.difference(potentials, chosen, other)
        changed = np.flatnonzero(chosen != other).tolist()
        told = [
            f"{self._of_token(x, i)}: {codec.known.members[chosen[i]]!r} rather than {codec.known.members[other[i]]!r}"
            for i in changed
        ]
        found = contributions(predictor, span, direction)
        strongest = strongest_of(found, n, _namer(codec.encoder, codec.known.members))
        return Explanation(
            self.classes_[chosen], self.classes_[other], listed(told), float(margin), found.groups, strongest
        )

    @staticmethod
    def _of_token(x: Any, i: int) -> str:
        return f"token {i} {x[i]!r}" if isinstance(x[i], str) else f"token {i}"


def listed(told: Sequence[str]) -> str:
    """The first few of some differences, and how many more there are."""
    more = f" and {len(told) - TOLD} more" if len(told) > TOLD else ""
    return "; ".join(told[:TOLD]) + more if told else "the same output"


def _other_labels(structure: Any, potentials: Any, chosen: np.ndarray, token: int | None) -> np.ndarray:
    """The best labelling but one; with a token, of those that have another label there."""
    if token is None and structure.order == 1:
        found = [own for own in structure.decode_best(potentials, 2)[0] if not np.array_equal(own, chosen)]
    else:
        places = range(len(chosen)) if token is None else [int(token)]
        found = [own for i in places if (own := _without(structure, potentials, chosen, i)) is not None]
        found.sort(key=lambda own: -structure.score(potentials, own))
    if not found:
        raise InputError("There is no other labelling that the model allows, which this one could be compared with.")
    return found[0]


def _without(structure: Any, potentials: Any, chosen: np.ndarray, token: int) -> np.ndarray | None:
    """The best labelling that has another label at a token; None where all others are forbidden."""
    possible = np.ones((len(chosen), structure.n_labels), dtype=bool)
    possible[token, chosen[token]] = False
    own = structure.decode(structure.agreeing(potentials, possible))
    ends = np.array([0, len(own)])
    broken = structure.allowed is not None and structure.allowed.first_violation(own, ends) is not None
    return None if broken or own[token] == chosen[token] else own


class ExplainsClasses:
    """What a classifier that learns online says of why a row gets its class."""

    model_: Any
    classes_: Any

    def explain(self, x: Any, *, label: Any = None, against: Any = None, n: int = 20) -> Explanation:
        """Why a row gets its class, and not the next best.

        The score of a class is a sum over groups, and over their features and support vectors; so is the difference of
        two scores, the margin, which the parts add up to.

        Parameters
        ----------
        x : array of shape (d,), dict, or what :meth:`predict` takes with one row
        label, against : class, optional
            The class to explain, the predicted one by default, and the one to compare it with, by default the best of
            the others.
        n : int > 0
            How many of the strongest features and support vectors to tell.

        Returns
        -------
        omkl.estimators.Explanation

        Raises
        ------
        omkl.exceptions.InputError
            If the row does not fit the model, or a class is none of its classes.
        """
        check_is_fitted(self)
        codec, predictor = self.model_.codec, self.model_.predictor()
        span = _encoded_row(self, x)
        structure, potentials = predictor.structure, predictor.potentials(span)
        chosen = structure.decode(potentials) if label is None else int(codec.known.encode([label], "give one.")[0])
        if against is not None:
            other = int(codec.known.encode([against], "give one.")[0])
        else:
            other = other_class(structure.n_labels, potentials.unary[0], chosen)
        margin, direction = structure.difference(potentials, chosen, other)
        found = contributions(predictor, span, direction)
        members = codec.known.members
        strongest = strongest_of(found, n, _namer(codec.encoder, members))
        summary = f"{members[chosen]!r} rather than {members[other]!r}"
        return Explanation(self.classes_[chosen], self.classes_[other], summary, float(margin), found.groups, strongest)


def other_class(n_classes: int, scores: np.ndarray, chosen: int) -> int:
    """The best class but one; ``scores`` are those of all classes, unless there are two."""
    if n_classes < 2:
        raise InputError("The model knows one class only: there is no other to compare it with.")
    if n_classes == 2:
        return 1 - chosen
    return int(np.argmax(np.where(np.arange(n_classes) == chosen, -np.inf, scores)))


class ExplainsNumbers:
    """What a regressor that learns online says of why a row gets its number."""

    model_: Any
    level_: float

    def explain(self, x: Any, *, n: int = 20) -> Explanation:
        """What the parts of the model add to the prediction of a row.

        Parameters
        ----------
        x : array of shape (d,), dict, or what :meth:`predict` takes with one row
        n : int > 0
            How many of the strongest features and support vectors to tell.

        Returns
        -------
        omkl.estimators.Explanation
            Its ``margin`` is the prediction; among the groups ``level`` is what targets are counted from.

        Raises
        ------
        omkl.exceptions.InputError
            If the row does not fit the model.
        """
        check_is_fitted(self)
        codec, predictor = self.model_.codec, self.model_.predictor()
        span = _encoded_row(self, x)
        prediction = predictor.structure.decode(predictor.potentials(span)) + self.level_
        direction = predictor.structure.as_potentials(np.ones(1))
        found = contributions(predictor, span, direction)
        found.groups["level"] = found.groups.get("level", 0.0) + self.level_
        strongest = strongest_of(found, n, _namer(codec.encoder, []))
        return Explanation(prediction, None, "prediction", prediction, found.groups, strongest)


def one_row(x: Any) -> Any:
    """A row as what estimators take many of."""
    if isinstance(x, dict):
        return [x]
    if getattr(x, "ndim", None) == 1 and hasattr(x, "to_frame"):  # of a data frame
        return x.to_frame().T.infer_objects()
    if getattr(x, "ndim", None) == 2 or (isinstance(x, list) and x and isinstance(x[0], dict)):
        return x
    return np.array([x])


def _encoded_row(estimator: Any, x: Any) -> Any:
    rows = checked_rows(estimator, one_row(x), reset=False)
    n = len(rows) if isinstance(rows, list) else rows.shape[0]
    if n != 1:
        raise InputError(f"explain takes one row, but there are {n}: call it for one after the other.")
    return estimator.model_.codec.encoder.encode(rows, np.array([0, 1])).everything()


class ExplainsOutputs:
    """What a predictor with a structure of its own says of why an input gets its output."""

    predictor_: Any

    def explain(self, x: Any, *, output: Any = None, against: Any = None, n: int = 20) -> Explanation:
        """Why an input gets its output, and not another.

        Parameters
        ----------
        x : input
        output : optional
            The output to explain; the predicted one by default.
        against : optional
            What to compare it with. By default the second best, where the structure has ``decode_best(potentials, n)``;
            else the output with the smallest margin for its cost, which ``loss_augmented`` finds.
        n : int > 0
            How many of the strongest features and support vectors to tell; features go by their numbers.

        Returns
        -------
        omkl.estimators.Explanation

        Raises
        ------
        omkl.exceptions.InputError
            If no other output is found.
        """
        predictor = self.predictor_
        structure, potentials = predictor.structure, predictor.potentials(x)
        chosen = structure.decode(potentials) if output is None else output
        other = _other_output(structure, potentials, chosen) if against is None else against
        margin, direction = structure.difference(potentials, chosen, other)
        found = contributions(predictor, x, direction)
        strongest = strongest_of(found, n, _numbered)
        return Explanation(chosen, other, "this output, not the other", float(margin), found.groups, strongest)


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


# ---- names of the parts -----------------------------------------------------------------------------------------


def strongest_of(found: Contributions, n: int, named: Callable[[list[Piece]], list[str]]) -> list[dict[str, Any]]:
    """Records of the n strongest pieces."""
    check_number("n", n, above=0, integer=True)
    pieces = sorted(found.pieces, key=lambda piece: -abs(piece.value))[: int(n)]
    return [
        {"feature": name, "group": piece.group, "token": piece.at, "adds": piece.value}
        for name, piece in zip(named(pieces), pieces)
    ]


def _numbered(pieces: list[Piece]) -> list[str]:
    kinds = {"feature": "feature", "part": "part", "support": "support vector", "labels": "labels", "arc": "arc"}
    return [f"{kinds[piece.kind]} {piece.key}" for piece in pieces]


def _namer(encoder: Encoder, members: list[Any]) -> Callable[[list[Piece]], list[str]]:
    """What the parts of a model on tokens are called."""

    def named(pieces: list[Piece]) -> list[str]:
        names = encoder.names_of(piece.key for piece in pieces if piece.kind == "feature")
        return [
            names[piece.key] if piece.kind == "feature"
            else encoder.name_of_part(piece.group, piece.key) if piece.kind == "part"
            else " → ".join(str(members[code]) for code in piece.key) if piece.kind == "labels"
            else f"support vector {piece.key} of {piece.group}"
            for piece in pieces
        ]  # fmt: skip

    return named
