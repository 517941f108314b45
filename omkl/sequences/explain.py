"""Explanation of the labels of a sequence."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from omkl._components import check_number
from omkl.estimators.explanations import Explanation, explanation, listed, part_namer
from omkl.exceptions import InputError
from omkl.online.group_contributions import contributions
from omkl.online.model import OnlineModel
from omkl.sequences.labels import check_feasible
from omkl.sequences.reading import flatten, forced_labels
from omkl.structures.chain import Chain, ChainPotentials


def explain_labels(
    model: OnlineModel, x: Any, names: Sequence[str] | None, labels: Any, against: Any, token: int | None, n: int
) -> Explanation:
    """Explain a labelling of a sequence; see :meth:`omkl.SequenceLabeler.explain`."""
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
    check_feasible(structure, chosen, offsets)
    if token is not None:
        check_number("token", token, above=-1, below=len(chosen), integer=True)
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
    found = []
    for place in range(len(chosen)) if token is None else [int(token)]:
        possible = np.ones((len(chosen), structure.n_labels), dtype=bool)
        possible[place, chosen[place]] = False
        own = structure.decode(structure.agreeing(potentials, possible))
        ends = np.array([0, len(own)])
        broken = structure.allowed is not None and structure.allowed.first_violation(own, ends) is not None
        if not broken and own[place] != chosen[place]:
            found.append(own)
    if not found:
        raise InputError("The model allows no other labelling to compare with.")
    return max(found, key=lambda own: structure.score(potentials, own))
