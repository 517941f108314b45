"""Predictions of a trained sequence labeler: labels, n best labellings, marginals, explanations."""

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from omkl._components import check_number
from omkl.estimators.calibration import at_temperature, structure_temperature
from omkl.estimators.explanations import Explanation, explain_difference, part_namer
from omkl.estimators.sources import TrainingBlock, as_stream, blocks_of
from omkl.estimators.token_codec import TokenCodec
from omkl.exceptions import DataWarning, InputError
from omkl.features.views import TokenData
from omkl.groups.tokens import Tokens
from omkl.online.model import OnlineModel
from omkl.sequences import reading
from omkl.structures.base import Potentials
from omkl.structures.chain import Chain, ChainPotentials


class Labeling(NamedTuple):
    """Labels of a sequence.

    Attributes
    ----------
    labels : array of shape (n,)
    score : float
        Sum of the potentials of the labels; larger is better. Only scores of the same sequence are comparable.
    """

    labels: np.ndarray
    score: float


class ChainCodec(TokenCodec):
    """Codec of sequences of labels; see :class:`~omkl.estimators.token_codec.TokenCodec`."""

    structure: Chain


def _encoded(
    model: OnlineModel[ChainCodec], X: reading.Sequences, labels: reading.LabelSequences
) -> Iterator[tuple[Tokens, np.ndarray | None]]:
    """Encode sequences block by block; also yield the possible labels of tokens, None for no restriction."""
    if labels is not None and as_stream(X) is not None:
        raise InputError("labels must be None for a stream.")
    encoder, warned = model.codec.encoder, False
    for block in blocks_of(X):
        tokens, offsets = reading.flatten(block.X, encoder.names)
        possible = None if labels is None else reading.possible_labels(labels, np.diff(offsets), model.codec.known)
        encoded = encoder.encode(tokens, offsets)
        warned = warned or model.codec.warn_of_absent_keys(tokens, model.predictor)
        yield encoded, possible


def predict_labels(
    model: OnlineModel[ChainCodec],
    X: reading.Sequences,
    labels: reading.LabelSequences = None,
    n_jobs: int | None = None,
) -> Iterator[np.ndarray]:
    """Yield the codes of the best labelling of each sequence, subject to known ``labels``."""
    structure = model.codec.structure
    if labels is not None:
        for own in sequence_potentials(model, X, labels):
            yield structure.decode_many(own, np.array([0, len(own.unary)]))
        return
    for tokens, _ in _encoded(model, X, None):
        codes = model.decode(tokens, n_jobs)
        reading.check_feasible(structure, codes, tokens.offsets)
        yield from (codes[low:high] for low, high in pairwise(tokens.offsets.tolist()))


def sequence_potentials(
    model: OnlineModel[ChainCodec], X: reading.Sequences, labels: reading.LabelSequences = None
) -> Iterator[ChainPotentials]:
    """Yield the potentials of each sequence; labellings that contradict known ``labels`` are forbidden."""
    predictor, structure = model.predictor(), model.codec.structure
    for tokens, possible in _encoded(model, X, labels):
        first = 0
        for block, potentials in predictor.blocks(tokens):
            if possible is not None:
                given = possible[first : first + block.n_tokens]
                potentials = structure.agreeing(potentials, given)
                reading.check_feasible(
                    structure, structure.decode_many(potentials, block.offsets), block.offsets, given
                )
            first += block.n_tokens
            for low, high in pairwise(block.offsets.tolist()):
                yield structure.part(potentials, low, high)


def best_labelings(
    model: OnlineModel[ChainCodec], potentials: Iterator[ChainPotentials], n: int
) -> Iterator[list[Labeling]]:
    """Yield the n best labellings of each sequence."""
    structure, classes = model.codec.structure, model.codec.known.as_array()
    for own in potentials:
        codes, scores = structure.decode_best(own, n) if len(own.unary) else (np.zeros((1, 0), np.int64), np.zeros(1))
        yield [Labeling(classes[labels], score) for labels, score in zip(codes, scores.tolist())]


def label_marginals(model: OnlineModel[Any], potentials: Iterator, temperature: float) -> list[np.ndarray]:
    """Compute the probability of each label at each token of each sequence, (n, K)."""
    structure = model.codec.structure
    return [
        structure.marginals(at_temperature(own, temperature))[1].unary if len(own.unary) else own.unary
        for own in potentials
    ]


def calibration_temperature(
    model: OnlineModel[Any],
    X: Any,
    y: reading.LabelSequences,
    read: Callable[..., TokenData] = reading.labeled_sequences,
    score: Callable[..., Iterator] = sequence_potentials,
) -> float:
    """Find the temperature that maximizes the likelihood of the labels of held-out sequences.

    ``read`` validates a block of them, and ``score`` yields the potentials of its inputs.
    """
    examples: list[tuple[Potentials, np.ndarray]] = []
    for block in blocks_of(X, y):
        data = read(block, model.codec.encoder.names)
        gold = gold_codes(model, data.labels, unknown=-1)
        parts = score(model, block.X)
        examples += [(own, gold[low:high]) for own, (low, high) in zip(parts, pairwise(data.offsets.tolist()))]
    temperature = structure_temperature(model.codec.structure, examples)
    if temperature is None:
        raise InputError("y must hold a label that the model knows.")
    return temperature


def gold_codes(model: OnlineModel[ChainCodec], labels: Sequence, unknown: int) -> np.ndarray:
    """Encode gold labels: None is -1, and labels unknown to the model are ``unknown``."""
    index = {label: code for code, label in enumerate(model.codec.known.members)} | {None: -1}
    return np.array([index.get(label, unknown) for label in labels], dtype=np.int64)


def compared_labels(
    model: OnlineModel[Any],
    blocks: Iterator[TrainingBlock],
    n_jobs: int | None = None,
    read: Callable[..., TokenData] = reading.labeled_sequences,
    decode: Callable[..., np.ndarray] | None = None,
) -> Iterator[tuple[TokenData, np.ndarray]]:
    """Yield validated data and predicted codes, block by block; warn once about unknown labels and absent keys.

    ``read`` validates a block, and ``decode(model, block, n_jobs)`` predicts its codes.
    """
    members, encoder, warned = {None, *model.codec.known.members}, model.codec.encoder, False
    unknown: dict[object, None] = {}
    for block in blocks:
        data = read(block, encoder.names)
        if decode is None:
            yield data, model.predictor().decode(encoder.encode(data.inputs, data.offsets), n_jobs)
        else:
            yield data, decode(model, block, n_jobs)
        warned = warned or model.codec.warn_of_absent_keys(data.inputs, model.predictor)
        unknown |= dict.fromkeys(label for label in data.labels if label not in members)
    if unknown:
        some = ", ".join(map(repr, list(unknown)[:3]))
        warnings.warn(
            f"Labels that the model does not know count as wrong: {some}{', ...' * (len(unknown) > 3)}.",
            DataWarning,
            stacklevel=3,
        )


def label_accuracy(model: OnlineModel[Any], compared: Iterator[tuple[TokenData, np.ndarray]]) -> float:
    """Return the weighted accuracy of the labels of :func:`compared_labels`."""
    right, total = 0.0, 0.0
    for data, predicted in compared:
        gold = gold_codes(model, data.labels, unknown=len(model.codec.known))
        weights = data.token_weights * (gold >= 0)
        right, total = right + float(weights @ (predicted == gold)), total + float(weights.sum())
    if not total:
        raise InputError("y must hold a label other than None.")
    return right / total


def labels_by_sequence(
    model: OnlineModel[Any], compared: Iterator[tuple[TokenData, np.ndarray]]
) -> tuple[list[list], list[list]]:
    """Return the gold and the predicted labels of :func:`compared_labels`, sequence by sequence."""
    gold: list[list] = []
    predicted: list[list] = []
    classes = model.codec.known.as_array()
    for data, codes in compared:
        labels = classes[codes].tolist()
        for low, high in pairwise(data.offsets.tolist()):
            gold.append(list(data.labels[low:high]))
            predicted.append(labels[low:high])
    return gold, predicted


def explain_labels(
    model: OnlineModel[ChainCodec],
    x: Collection,
    labels: Collection | None,
    against: Collection | None,
    token: int | None,
    n: int,
) -> Explanation:
    """Explain a labelling of a sequence; see :meth:`omkl.SequenceLabeler.explain`."""
    predictor, codec = model.predictor(), model.codec
    tokens, offsets = reading.flatten([x], codec.encoder.names)
    span = codec.encoder.encode(tokens, offsets).everything()
    structure, potentials = model.codec.structure, predictor.potentials(span)

    def read(given: Collection) -> np.ndarray:
        possible = reading.possible_labels([given], np.diff(offsets), codec.known)
        if not (possible.sum(axis=1) == 1).all():
            raise InputError("labels and against must hold one label for each token, not None or a set.")
        return possible.argmax(axis=1)

    chosen = structure.decode(potentials) if labels is None else read(labels)
    reading.check_feasible(structure, chosen, offsets)
    if token is not None:
        if against is not None:
            raise InputError("token must be None if against is given.")
        check_number("token", token, above=-1, below=len(chosen), integer=True)
    other = _other_labels(structure, potentials, chosen, token) if against is None else read(against)
    members, classes = codec.known.members, codec.known.as_array()
    words = [
        f" {word!r}" if isinstance(word, str) else "" for word in (x if isinstance(x, list) else [None] * len(chosen))
    ]
    told = [
        f"token {i}{words[i]}: {members[chosen[i]]!r} rather than {members[other[i]]!r}"
        for i in np.flatnonzero(chosen != other).tolist()
    ]
    namer = part_namer(codec.encoder, members)
    return explain_difference(predictor, span, potentials, (chosen, other), told, n, namer, classes.__getitem__)


def _other_labels(structure: Chain, potentials: ChainPotentials, chosen: np.ndarray, token: int | None) -> np.ndarray:
    """Return the best other labelling; with ``token``, the best one with another label at this token."""
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
