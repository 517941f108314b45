"""Models that another library has trained, as models of omkl."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from omkl.data.crfsuite_models import CRFsuiteModel
from omkl.estimators.outputs import PartialLabels
from omkl.estimators.vocabulary import NUMBER, Vocabulary
from omkl.estimators.words import split_attribute
from omkl.exceptions import DataWarning
from omkl.online import OnlineModel

#: So many attributes without a name are no mistake.
FEW = 100


def adopted_crfsuite(labeler: Any, model: CRFsuiteModel, keys: Sequence[str] | None) -> OnlineModel:
    """The model of a labeler that predicts what a model of CRFsuite does.

    Parameters
    ----------
    labeler : SequenceLabeler
        Untrained.
    model : CRFsuiteModel
    keys : sequence of str, optional
        The keys of the dicts that it was trained on.
    """
    codec = labeler._codec()
    codec.known = PartialLabels(model.labels)
    columns = codec.known.encode(model.labels, "it is the model's own.")
    vocabulary = codec.encoder.vocabulary = Vocabulary()
    ids = _ids(vocabulary, model.attributes, keys)
    codec.structure, codec.longest = codec._outputs.structure(codec.known), 1
    online = OnlineModel(codec, labeler._settings())
    trainer = online.start()
    state = trainer.state()
    table = state["bank0/table"] = np.zeros_like(state["bank0/table"])
    table[ids[model.of], columns[model.to]] = model.weights
    transitions = state["bank1/table"] = np.zeros_like(state["bank1/table"])
    transitions[0][np.ix_(columns, columns)] = model.transitions
    state["groups/scales"] = np.ones_like(state["groups/scales"])
    state["groups/empty"] = np.zeros_like(state["groups/empty"])
    trainer.load_state(state)
    trainer.recompute_norms()
    return online


def _ids(vocabulary: Vocabulary, attributes: Sequence[str], keys: Sequence[str] | None) -> np.ndarray:
    """Ids of the features that attributes stand for, (n,)."""
    of_key: dict[str, list[tuple[int, str | None]]] = {}
    for i, attribute in enumerate(attributes):
        key, value = _split(attribute, keys or ())
        of_key.setdefault(key, []).append((i, value))
    n_bare, ids = 0, np.zeros(len(attributes), np.int64)
    for key, entries in of_key.items():
        where, values = map(list, zip(*entries))
        [(_, ids[where], _)] = vocabulary.look_up(key, [1.0 if value is NUMBER else value for value in values], True)
        n_bare += values.count(NUMBER)
    if keys is None and n_bare > FEW and 2 * n_bare > len(attributes):
        warnings.warn(
            f"{n_bare} of {len(attributes)} attributes have no '=', such as {attributes[-1]!r}, and each is a group of "
            "its own: if the model was trained on dicts, give their keys=.",
            DataWarning,
            stacklevel=4,
        )
    return ids


def _split(attribute: str, keys: Sequence[str]) -> tuple[str, str | None]:
    """``(name, value)`` of an attribute, as it is in dicts with these keys or else in lists; a number has no value."""
    found = [key for key in keys if attribute == key or attribute.startswith(f"{key}:")]
    if not found:
        return split_attribute(attribute)
    key = max(found, key=len)
    return key, NUMBER if attribute == key else attribute[len(key) + 1 :]
