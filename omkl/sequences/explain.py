"""Explanation of the labels of a sequence."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from omkl.estimators.explanations import Explanation, explanation, listed, part_namer
from omkl.exceptions import InputError
from omkl.online import OnlineModel, contributions
from omkl.sequences.constraints import check_feasible
from omkl.sequences.labels import forced_labels
from omkl.sequences.reading import flatten
from omkl.structures import Chain
from omkl.structures.chain import ChainPotentials


def explain_labels(
    model: OnlineModel,
    x: Any,
    names: Sequence[str] | None,
    *,
    labels: Any = None,
    against: Any = None,
    token: int | None = None,
    n: int = 20,
) -> Explanation:
    """Explain a labelling of a sequence; see :meth:`omkl.SequenceLabeler.explain`.

    Parameters
    ----------
    model : OnlineModel
    x : sequence
    names : sequence of str, optional
        Names of the columns of data frames, in the model's order.
    labels, against, token, n
        As for the method.
    """
    predictor, codec = model.predictor(), model.codec
    tokens, offsets = flatten([x], names)
    span = codec.encoder.encode(tokens, offsets).everything()
    structure, potentials = predictor.structure, predictor.potentials(span)

    def read(given: Any) -> np.ndarray:
        codes = forced_labels([given], np.diff(offsets), codec.known)
        if codes.ndim > 1 or (codes < 0).any():
            raise InputError("labels and against must hold one label for each token, not None or a set.")
        return codes

    chosen = structure.decode(potentials) if labels is None else read(labels)
    check_feasible(structure, chosen, offsets, None, "allowed_transitions")
    if token is not None and not (isinstance(token, (int, np.integer)) and 0 <= token < len(chosen)):
        raise InputError(f"token must be one of the {len(chosen)} tokens of the sequence, from 0, got {token!r}.")
    other = read(against) if against is not None else _other_labels(structure, potentials, chosen, token)
    margin, direction = structure.difference(potentials, chosen, other)
    members = codec.known.members
    told = [
        f"token {i}{f' {x[i]!r}' if isinstance(x[i], str) else ''}: {members[chosen[i]]!r} rather than "
        f"{members[other[i]]!r}"
        for i in np.flatnonzero(chosen != other).tolist()
    ]
    found, classes = contributions(predictor, span, direction), codec.known.as_array()
    namer = part_namer(codec.encoder, members)
    return explanation(classes[chosen], classes[other], listed(told), margin, found, n, namer)


def _other_labels(structure: Chain, potentials: ChainPotentials, chosen: np.ndarray, token: int | None) -> np.ndarray:
    """The best other labelling; with a token, of those that have another label there."""
    if token is None and structure.order == 1:
        found = [own for own in structure.decode_best(potentials, 2)[0] if not np.array_equal(own, chosen)]
    else:
        places = range(len(chosen)) if token is None else [int(token)]
        found = [own for i in places if (own := _without(structure, potentials, chosen, i)) is not None]
        found.sort(key=lambda own: -structure.score(potentials, own))
    if not found:
        raise InputError("The model allows no other labelling to compare with.")
    return found[0]


def _without(structure: Chain, potentials: ChainPotentials, chosen: np.ndarray, token: int) -> np.ndarray | None:
    """The best labelling that has another label at a token; None where all others are forbidden."""
    possible = np.ones((len(chosen), structure.n_labels), dtype=bool)
    possible[token, chosen[token]] = False
    own = structure.decode(structure.agreeing(potentials, possible))
    ends = np.array([0, len(own)])
    broken = structure.allowed is not None and structure.allowed.first_violation(own, ends) is not None
    return None if broken or own[token] == chosen[token] else own
