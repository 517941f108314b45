"""Predictions of a trained sequence labeler: labels, alternatives, probabilities, comparison with gold labels.

In all functions ``names`` are the names of the columns of data frames, in the model's order.
"""

import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from omkl.estimators.calibration import at_temperature, structure_temperature
from omkl.estimators.training import TrainingBlock, as_stream, blocks_of
from omkl.exceptions import DataWarning, InputError
from omkl.features.views import TokenData
from omkl.groups.tokens import Tokens
from omkl.online.model import OnlineModel
from omkl.sequences.labels import check_feasible
from omkl.sequences.reading import flatten, forced_labels, labeled_sequences
from omkl.structures.chain import ChainPotentials


class Labeling(NamedTuple):
    """Labels of a sequence.

    Attributes
    ----------
    labels : array of shape (n,)
    score : float
        Sum of their potentials: the larger the better. Scores of the same sequence can be compared.
    """

    labels: np.ndarray
    score: float


def _encoded(
    model: OnlineModel, X: Any, names: Sequence[str] | None, labels: Any
) -> Iterator[tuple[Tokens, np.ndarray | None]]:
    """Encode sequences block by block, with the labels that tokens must have."""
    if labels is not None and as_stream(X) is not None:
        raise InputError("labels must be None for a stream.")
    for block in blocks_of(X):
        tokens, offsets = flatten(block.X, names)
        forced = None if labels is None else forced_labels(labels, np.diff(offsets), model.codec.known)
        yield model.codec.encoder.encode(tokens, offsets), forced


def predict_labels(
    model: OnlineModel, X: Any, names: Sequence[str] | None, labels: Any = None, n_jobs: int | None = None
) -> Iterator[np.ndarray]:
    """Codes of the best labels of each sequence, of those that agree with known ``labels``."""
    structure = model.trainer.structure
    if labels is not None:
        for own in sequence_potentials(model, X, names, labels):
            yield structure.decode_many(own, np.array([0, len(own.unary)]))
        return
    for tokens, _ in _encoded(model, X, names, None):
        codes = model.decode(tokens, n_jobs)
        check_feasible(structure, codes, tokens.offsets)
        yield from (codes[low:high] for low, high in pairwise(tokens.offsets.tolist()))


def sequence_potentials(
    model: OnlineModel, X: Any, names: Sequence[str] | None, labels: Any = None
) -> Iterator[ChainPotentials]:
    """Potentials of one sequence after the other; they forbid what contradicts known ``labels``."""
    predictor = model.predictor()
    structure = predictor.structure
    for tokens, forced in _encoded(model, X, names, labels):
        first = 0
        for block, potentials in predictor.blocks(tokens):
            if forced is not None:
                own = forced[first : first + block.n_tokens]
                potentials = structure.agreeing(potentials, own)
                check_feasible(structure, structure.decode_many(potentials, block.offsets), block.offsets, own)
            first += block.n_tokens
            for low, high in pairwise(block.offsets.tolist()):
                yield structure.part(potentials, low, high)


def best_labelings(
    model: OnlineModel, potentials: Iterator[ChainPotentials], n: int, temperature: float | None = None
) -> Iterator[list[Labeling]]:
    """The n best labellings of each sequence; with a temperature their scores are log-probabilities."""
    structure, classes = model.predictor().structure, model.codec.known.as_array()
    for own in potentials:
        if temperature is not None:
            own = at_temperature(own, temperature)
        found = structure.decode_best(own, n) if len(own.unary) else (np.zeros((1, 0), np.int64), np.zeros(1))
        total = 0.0 if temperature is None or not len(own.unary) else structure.marginals(own)[0]
        yield [Labeling(classes[codes], score) for codes, score in zip(found[0], (found[1] - total).tolist())]


def label_marginals(
    model: OnlineModel, potentials: Iterator[ChainPotentials], temperature: float | None
) -> list[np.ndarray]:
    """Probability of each label at each token of each sequence, (n, K)."""
    structure, temperature = model.predictor().structure, temperature or 1.0
    return [
        structure.marginals(at_temperature(own, temperature))[1].unary if len(own.unary) else own.unary
        for own in potentials
    ]


def calibration_temperature(model: OnlineModel, X: Any, y: Any, names: Sequence[str] | None) -> float:
    """Find the temperature at which the labels of new sequences are likeliest."""
    examples: list[tuple[ChainPotentials, np.ndarray]] = []
    for block in blocks_of(X, y):
        data = labeled_sequences(block, names)
        gold = gold_codes(model, data.labels, unknown=-1)
        parts = sequence_potentials(model, block.X, names)
        examples += [(own, gold[low:high]) for own, (low, high) in zip(parts, pairwise(data.offsets.tolist()))]
    temperature = structure_temperature(model.predictor().structure, examples)
    if temperature is None:
        raise InputError("y must hold a label that the model knows.")
    return temperature


def gold_codes(model: OnlineModel, labels: Sequence, unknown: int) -> np.ndarray:
    """Codes of gold labels: -1 for None, and ``unknown`` for those that the model does not know."""
    index = {label: code for code, label in enumerate(model.codec.known.members)} | {None: -1}
    return np.array([index.get(label, unknown) for label in labels], dtype=np.int64)


def compared_labels(
    model: OnlineModel, blocks: Iterator[TrainingBlock], names: Sequence[str] | None, n_jobs: int | None = None
) -> Iterator[tuple[TokenData, np.ndarray]]:
    """Checked data and predicted codes, block by block; one warning names labels that the model does not know."""
    members = {None, *model.codec.known.members}
    unknown: dict[Any, None] = {}
    for block in blocks:
        data = labeled_sequences(block, names)
        yield data, model.predictor().decode(model.codec.encoder.encode(data.inputs, data.offsets), n_jobs)
        unknown |= dict.fromkeys(label for label in data.labels if label not in members)
    if unknown:
        some = ", ".join(map(repr, list(unknown)[:3]))
        warnings.warn(
            f"Labels that the model does not know count as wrong: {some}{', ...' * (len(unknown) > 3)}.",
            DataWarning,
            stacklevel=3,
        )
