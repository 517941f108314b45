"""Predictions of a trained sequence labeler: labels, alternatives, probabilities, comparison with gold labels."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from omkl.estimators.calibration import at_temperature, structure_temperature
from omkl.estimators.sources import as_stream, blocks_of
from omkl.estimators.validation import TokenData
from omkl.exceptions import DataWarning, InputError
from omkl.online import OnlineModel
from omkl.sequences.constraints import check_feasible
from omkl.sequences.labels import PartialLabels, forced_labels
from omkl.sequences.reading import flatten, labeled_sequences
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


def predict_labels(
    model: OnlineModel, X: Any, names: Sequence[str] | None, labels: Any = None, n_jobs: int | None = None
) -> list[np.ndarray]:
    """Codes of the best labels of each sequence.

    Parameters
    ----------
    model : OnlineModel
    X : list of sequences, or stream
    names : sequence of str, optional
        Names of the columns of data frames, in the model's order.
    labels : list of sequences, optional
        Labels that tokens must have; see :meth:`omkl.SequenceLabeler.predict`.
    n_jobs : int, optional
    """
    stream = _stream(X, labels)
    if stream is not None:
        return [own for block in stream.blocks() for own in predict_labels(model, block.X, names, None, n_jobs)]
    tokens, offsets = flatten(X, names)
    encoded, structure = model.codec.encoder.encode(tokens, offsets), model.trainer.structure
    if labels is None:
        codes = model.decode(encoded, n_jobs)
        check_feasible(structure, codes, offsets, None, "allowed_transitions")
    else:
        forced, found, low = forced_labels(labels, np.diff(offsets), model.codec.known), [np.zeros(0, np.int64)], 0
        for block, potentials in model.predictor().blocks(encoded):
            agreeing = structure.agreeing(potentials, forced[low : low + block.n_tokens])
            found.append(structure.decode_many(agreeing, block.offsets))
            low += block.n_tokens
        codes = np.concatenate(found)
        check_feasible(structure, codes, offsets, forced, "labels= and allowed_transitions")
    return [codes[low:high] for low, high in pairwise(offsets.tolist())]


def sequence_potentials(
    model: OnlineModel, X: Any, names: Sequence[str] | None, labels: Any = None
) -> Iterator[ChainPotentials]:
    """Potentials of one sequence after the other; they forbid what contradicts ``labels``.

    Parameters
    ----------
    model, X, names, labels
        As for :func:`predict_labels`.
    """
    predictor, stream = model.predictor(), _stream(X, labels)
    if stream is not None:
        for part in stream.blocks():
            yield from sequence_potentials(model, part.X, names)
        return
    tokens, offsets = flatten(X, names)
    structure, first = predictor.structure, 0
    forced = None if labels is None else forced_labels(labels, np.diff(offsets), model.codec.known)
    for block, potentials in predictor.blocks(model.codec.encoder.encode(tokens, offsets)):
        if forced is not None:
            own = forced[first : first + block.n_tokens]
            potentials = structure.agreeing(potentials, own)
            codes = structure.decode_many(potentials, block.offsets)
            check_feasible(structure, codes, block.offsets, own, "labels= and allowed_transitions")
        first += block.n_tokens
        for low, high in pairwise(block.offsets.tolist()):
            yield structure.part(potentials, low, high)


def _stream(X: Any, labels: Any) -> Any:
    """The stream that X is, or None."""
    stream = as_stream(X)
    if stream is not None and labels is not None:
        raise InputError("labels must be None for a stream.")
    return stream


def best_labelings(
    model: OnlineModel, potentials: Iterator[ChainPotentials], n: int, temperature: float | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Codes (N, n) and scores (N,) of the N best labellings of each sequence.

    Parameters
    ----------
    model : OnlineModel
    potentials : iterator of ChainPotentials
    n : int
    temperature : float, optional
        Return log-probabilities of potentials that are divided by it, instead of scores.
    """
    structure = model.predictor().structure
    for own in potentials:
        if not len(own.unary):
            yield np.zeros((1, 0), np.int64), np.zeros(1)
        elif temperature is None:
            yield structure.decode_best(own, n)
        else:
            own = at_temperature(own, temperature)
            codes, scores = structure.decode_best(own, n)
            yield codes, scores - structure.marginals(own)[0]


def label_marginals(
    model: OnlineModel, potentials: Iterator[ChainPotentials], temperature: float | None
) -> list[np.ndarray]:
    """Probability of each label at each token of each sequence, (n, K)."""
    structure, marginals = model.predictor().structure, []
    for own in potentials:
        scaled = own if temperature is None else at_temperature(own, temperature)
        marginals.append(structure.marginals(scaled)[1].unary if len(own.unary) else own.unary)
    return marginals


def calibration_temperature(model: OnlineModel, X: Any, y: Any, names: Sequence[str] | None) -> float:
    """The temperature at which the labels of new sequences are likeliest; see :meth:`omkl.SequenceLabeler.calibrate`.

    Parameters
    ----------
    model, X, names
        As for :func:`predict_labels`.
    y : list of sequences of labels
    """
    examples = []
    for block in blocks_of(X, y):
        data, labels = labeled_sequences(block, names), known_labels(model)
        labels.add(data.labels)
        gold = labels.encode(data.labels, "")
        gold[gold >= len(model.codec.known)] = -1
        parts = sequence_potentials(model, block.X, names)
        examples += [(own, gold[low:high]) for own, (low, high) in zip(parts, pairwise(data.offsets.tolist()))]
    temperature = structure_temperature(model.predictor().structure, examples)
    if temperature is None:
        raise InputError("y must hold a label that the model knows.")
    return temperature


def known_labels(model: OnlineModel) -> PartialLabels:
    """The labels of a model, in their order; others can be added to this copy."""
    return PartialLabels(model.codec.known.members, grows=True)


class Comparison(NamedTuple):
    """Gold and predicted codes of the labels of some sequences."""

    gold: np.ndarray
    predicted: np.ndarray
    data: TokenData


def compared_labels(
    model: OnlineModel,
    blocks: Iterator[Any],
    names: Sequence[str] | None,
    labels: PartialLabels,
    n_jobs: int | None = None,
) -> Iterator[Comparison]:
    """Compare predictions with gold labels, block by block.

    Parameters
    ----------
    model : OnlineModel
    blocks : iterator of TrainingBlock
    names : sequence of str, optional
    labels : PartialLabels
        The :func:`known_labels`. Labels that the model does not know are added, and a warning names them.
    n_jobs : int, optional
    """
    predictor, codec, n_unknown, n_tokens = model.predictor(), model.codec, 0, 0
    for block in blocks:
        data = labeled_sequences(block, names)
        labels.add(data.labels)
        gold = labels.encode(data.labels, "")
        n_unknown, n_tokens = n_unknown + np.count_nonzero(gold >= len(codec.known)), n_tokens + len(gold)
        encoded = codec.encoder.encode(data.inputs, data.offsets)
        yield Comparison(gold, predictor.decode(encoded, n_jobs), data)
    if n_unknown:
        new = list(map(repr, labels.members[len(codec.known) :]))
        warnings.warn(
            f"Labels that the model does not know, {', '.join(new[:3])}{', ...' * (len(new) > 3)}, count "
            f"as wrong: {n_unknown} of {n_tokens} tokens.",
            DataWarning,
            stacklevel=3,
        )
