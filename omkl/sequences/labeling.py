"""Methods of labelers of sequences and of graphs, whose codecs read, score and label their inputs."""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number, warn_caller
from omkl.estimators.calibration import WithMarginals, at_temperature, structure_temperature
from omkl.estimators.explanations import Explanation
from omkl.estimators.online_explanations import explain_difference
from omkl.estimators.sources import TrainingBlock, as_stream, blocks_of
from omkl.estimators.token_codec import TOKEN_CONSTRAINTS
from omkl.estimators.training import RunOptions, Task
from omkl.estimators.validation import (
    Constraint,
    Number,
    OneOf,
    class_weights,
    column_names_of,
    keep_columns,
)
from omkl.exceptions import DataWarning, InputError
from omkl.features.views import TokenData
from omkl.online.model import OnlineModel
from omkl.sequences.reading import LabelSequences, possible_labels

#: A labeler.
L = TypeVar("L", bound=Any)
#: Valid values of parameters.
CONSTRAINTS: dict[str, Constraint] = {
    **TOKEN_CONSTRAINTS,
    "transitions": OneOf(("free", "regularized", None)),
    "epochs": Number(above=0, integer=True, also=("auto",)),
}


class Labeling(NamedTuple):
    """Labels of a sequence or graph.

    Attributes
    ----------
    labels : array of shape (n,)
    score : float
        Sum of the potentials of the labels; larger is better. Only scores of the same input are
        comparable.
    """

    labels: np.ndarray
    score: float


# ---- training ------------------------------------------------------------------------------------


def fit(
    self: L,
    X: Any,
    y: LabelSequences = None,
    sample_weight: ArrayLike | None = None,
    *,
    classes: Sequence | str | None = None,
    validation: tuple[Any, LabelSequences] | None = None,
    **run: Unpack[RunOptions],
) -> L:
    """Train from scratch.

    Parameters
    ----------
    X : list of sequences or of graphs, stream, or dask.bag of sequences
        A bag of pairs ``(x, y)``, or bags of X, y and ``sample_weight`` with equal partitions, are
        shards on the cluster. A stream is a :class:`omkl.data.Stream` or any iterator of pairs. The
        model is trained on its blocks as by :meth:`partial_fit`, ``epochs`` times, without loading
        all data into memory. ``history_`` then has the records of
        :class:`~omkl.online.ProgressiveValidation`. Iterators require ``epochs=1``.
    y : list of sequences of labels, optional
        Not for streams, which contain labels.
    sample_weight : array of shape (number of sequences or graphs,), optional
        Weight of each of them; an integer weight is equivalent to that many copies. Not for
        streams.
    classes : sequence of labels or "growing", optional
        All labels, if some do not occur in ``y``; see :meth:`partial_fit`.
    validation : pair (X, y), optional
        Examples for ``early_stopping``, instead of a part of the training data. Their labels must
        occur in the training data.
    checkpoint : path-like, optional
        Directory for checkpoints of this run. A resumed run gives bitwise the same result as an
        uninterrupted one. Checkpoints include callbacks with a method ``state``.
    checkpoint_every : str or float
        Interval between checkpoints: seconds, ``"5m"``, ``"2h"`` or ``"1000 rounds"``; ``"60s"`` by
        default.
    resume : bool
        Continue from the latest checkpoint in that directory, if there is one.
    client : dask.distributed.Client, optional
        Train in shards on the client's workers, by iterative parameter mixing; see
        :mod:`omkl.distributed.mixing`. For Dask collections, by default the client that was created last.
    shards : int, optional
        Number of shards; by default the number of the client's workers. Without a client, shards
        are trained on ``n_jobs`` threads, with bitwise the same result. Values of kernels stored as
        dual expansions are computed on demand, as with ``cache_size=0``.

    Returns
    -------
    self
    """
    task = Task(self._codec(classes), self._read)
    held_out = self._train(task, TrainingBlock(X, y, sample_weight), validation, run)
    self.temperature_ = None
    if held_out is not None and not self.model_.settings.probabilistic:
        predictor = self.predictor_
        pairs = ((predictor.potentials(own), gold) for own, gold, _ in held_out)
        self.temperature_ = structure_temperature(predictor.structure, pairs)
    return self


def partial_fit(
    self: L,
    X: Any,
    y: LabelSequences = None,
    classes: Sequence | str | None = None,
    sample_weight: ArrayLike | None = None,
) -> L:
    """Train for one round on each sequence or graph, in the given order.

    The first call determines the widths of kernels, the labels, and all parameters.

    Parameters
    ----------
    X, y, sample_weight
        As for :meth:`fit`. A stream is read once.
    classes : sequence of labels or "growing", optional
        All labels of this and later calls, at the first call; by default the labels in its ``y``.
        "growing" accepts new labels at any time, and appends them to ``classes_``.

    Returns
    -------
    self
    """
    self._train_more(
        Task(self._codec(classes), self._read), TrainingBlock(X, y, sample_weight), classes
    )
    self.temperature_ = None
    return self


def read_training(
    labeler: Any, read: Callable[..., TokenData], block: TrainingBlock, first: bool, whole: bool
) -> TokenData:
    """Validate training data by the ``read`` of a codec, and weight them; the ``first`` ones
    determine the columns.

    If these are the ``whole`` data of a ``fit``, inputs of weight 0 are dropped.
    """
    data = read(block, None if first else column_names_of(labeler))
    if first:
        keep_columns(labeler, data.names)
    if whole and data.weights is not None and not data.weights.all():
        chosen = np.flatnonzero(data.weights)
        X, y = ([inputs[i] for i in chosen.tolist()] for inputs in (block.X, block.y))
        data = read(TrainingBlock(X, y, data.weights[chosen]), data.names)
    weights = class_weights(labeler.class_weight, data.labels, data.offsets, data.weights, whole)
    return data._replace(weights=weights)


# ---- prediction ----------------------------------------------------------------------------------


def predict(self: Any, X: Any, labels: LabelSequences = None) -> np.ndarray:
    """Predict the labels of each sequence or graph.

    Parameters
    ----------
    X : list of sequences or of graphs, or stream
    labels : list of sequences, optional
        Known labels: for each token or node its label, a set of possible labels, or None. Not for
        streams.

    Returns
    -------
    array of shape (number of sequences or graphs,), of arrays of labels
        An array of objects: scikit-learn's ``cross_val_predict`` concatenates the predictions of
        folds.
    """
    model, found = self.model_, []
    for data, possible in constrained(model, X, labels):
        found += _parts(self.classes_[model.codec.decode(model, data, possible, self.n_jobs)], data)
    return np.fromiter(found, dtype=object, count=len(found))


def predict_nbest(
    self: Any, X: Any, n: int = 5, labels: LabelSequences = None
) -> list[list[Labeling]]:
    """Predict the n best labellings of each sequence or graph, best first.

    For graphs with cycles, they are good ones. A graph takes the time of n predictions for each of
    its nodes.

    Parameters
    ----------
    X : list of sequences or of graphs, or stream
    n : int > 0
        Number of labellings; fewer if an input does not have n. The first one of a sequence is that
        of :meth:`predict`.
    labels : list of sequences, optional
        As for :meth:`predict`.

    Returns
    -------
    list of list of Labeling
        Pairs ``(labels, score)``.
    """
    check_number("n", n, above=0, integer=True)
    structure, found = self.model_.codec.structure, []
    for own in potentials_of(self.model_, X, labels):
        codes, scores = (
            structure.decode_best(own, n)
            if len(own.unary)
            else (np.zeros((1, 0), np.int64), np.zeros(1))
        )
        found.append(
            [Labeling(self.classes_[best], score) for best, score in zip(codes, scores.tolist())]
        )
    return found


def decision_function(self: Any, X: Any) -> list[np.ndarray]:
    """Compute the scores of the labels of each token or node, without transitions or edges.

    Parameters
    ----------
    X : list of sequences or of graphs, or stream

    Returns
    -------
    list of arrays of shape (n, K)
    """
    return [potentials.unary for potentials in potentials_of(self.model_, X)]


@WithMarginals
def predict_marginals(self: Any, X: Any, labels: LabelSequences = None) -> list[np.ndarray]:
    """Predict the probability of each label at each token or node.

    Available for ``loss="crf"``, and for other losses after calibration; see :meth:`calibrate`.
    They are exact for sequences and for graphs without cycles, and approximate on other graphs.

    Parameters
    ----------
    X : list of sequences or of graphs, or stream
    labels : list of sequences, optional
        As for :meth:`predict`. Probabilities are conditional on these labels.

    Returns
    -------
    list of arrays of shape (n, K)
        Rows sum to 1.
    """
    structure, temperature = self.model_.codec.structure, self.temperature_ or 1.0
    return [
        structure.marginals(at_temperature(own, temperature))[1].unary
        if len(own.unary)
        else own.unary
        for own in potentials_of(self.model_, X, labels)
    ]


def calibrate(self: L, X: Any, y: LabelSequences = None) -> L:
    """Calibrate probabilities by temperature scaling on held-out data.

    Potentials are divided by ``temperature_``, which minimizes the log loss of single labels (Guo,
    Pleiss, Sun, Weinberger 2017). Predictions do not change. With ``early_stopping``, ``fit``
    calibrates on the held-out examples, unless the loss is probabilistic. Another ``fit`` or
    ``partial_fit`` removes the temperature.

    Parameters
    ----------
    X, y
        As for :meth:`score`. Labels that are None or unknown to the model are ignored.

    Returns
    -------
    self
    """
    model, examples = self.model_, list[tuple[Any, np.ndarray]]()
    for data in read_inputs(model, blocks_of(X, y)):
        examples += zip(
            model.codec.potentials(model, data), _parts(_gold_codes(model, data, unknown=-1), data)
        )
    self.temperature_ = structure_temperature(model.codec.structure, examples)
    if self.temperature_ is None:
        raise InputError("y must hold a label that the model knows.")
    return self


def potentials_of(model: OnlineModel[Any], X: Any, labels: LabelSequences = None) -> Iterator[Any]:
    """Yield the potentials of each input; labellings that contradict known ``labels`` are
    forbidden.
    """
    for data, possible in constrained(model, X, labels):
        yield from model.codec.potentials(model, data, possible)


def constrained(
    model: OnlineModel[Any], X: Any, labels: LabelSequences
) -> Iterator[tuple[TokenData, np.ndarray | None]]:
    """Read inputs block by block; also yield the possible labels of their elements, None for no
    restriction.
    """
    if labels is not None and as_stream(X) is not None:
        raise InputError("labels must be None for a stream.")
    for data in read_inputs(model, blocks_of(X), labeled=False):
        yield (
            data,
            None
            if labels is None
            else possible_labels(labels, np.diff(data.offsets), model.codec.known),
        )


def read_inputs(
    model: OnlineModel[Any], blocks: Iterator[TrainingBlock], labeled: bool = True
) -> Iterator[TokenData]:
    """Validate blocks; warn once of absent keys."""
    codec, warned = model.codec, False
    for block in blocks:
        data = codec.read(block, codec.encoder.names, labeled)
        warned = warned or codec.warn_of_absent_keys(data.inputs, model.predictor)
        yield data


def _parts(values: np.ndarray, data: TokenData) -> list[np.ndarray]:
    """Split the values of all elements into those of each input."""
    return [values[low:high] for low, high in pairwise(data.offsets.tolist())]


def explain_labels(
    model: OnlineModel[Any],
    x: Any,
    labels: Collection | None,
    against: Collection | None,
    at: int | None,
    n: int,
) -> Explanation:
    """Explain a labelling in comparison with another one; see :meth:`omkl.SequenceLabeler.explain`."""
    predictor, codec = model.predictor(), model.codec
    [data] = read_inputs(model, blocks_of([x]), labeled=False)
    span, element = codec.input(data), codec.element
    structure, potentials = codec.structure, predictor.potentials(span)

    def read(given: Collection) -> np.ndarray:
        possible = possible_labels([given], np.array([len(span)]), codec.known)
        if not (possible.sum(axis=1) == 1).all():
            raise InputError(
                f"labels and against must hold one label for each {element}, not None or a set."
            )
        return possible.argmax(axis=1)

    chosen = structure.decode(potentials) if labels is None else read(labels)
    codec.check_labels(chosen, data)
    if at is not None:
        if against is not None:
            raise InputError(f"{element} must be None if against is given.")
        check_number(element, at, above=-1, below=len(chosen), integer=True)
    other = codec.other_labels(span, potentials, chosen, at) if against is None else read(against)
    members, classes = codec.known.members, codec.known.as_array()
    words = (
        [f" {word!r}" if isinstance(word, str) else "" for word in x]
        if isinstance(x, list)
        else [""] * len(chosen)
    )
    told = [
        f"{element} {i}{words[i]}: {members[chosen[i]]!r} rather than {members[other[i]]!r}"
        for i in np.flatnonzero(chosen != other).tolist()
    ]
    return explain_difference(
        predictor, span, potentials, (chosen, other), told, n, codec.namer(), classes.__getitem__
    )


# ---- evaluation ----------------------------------------------------------------------------------


def score(
    self: Any, X: Any, y: LabelSequences = None, sample_weight: ArrayLike | None = None
) -> float:
    """Return the fraction of tokens or nodes with the right label, in [0, 1].

    Those with label None are ignored. Those whose label is unknown to the model count as wrong,
    with a warning.

    Parameters
    ----------
    X : list of sequences or of graphs, or stream
    y : list of sequences of labels, optional
    sample_weight : array of shape (number of sequences or graphs,), optional
    """
    right, total, model = 0.0, 0.0, self.model_
    for data, predicted in _compared(self, X, y, sample_weight):
        gold = _gold_codes(model, data, unknown=len(model.codec.known))
        weights = data.token_weights * (gold >= 0)
        right, total = right + float(weights @ (predicted == gold)), total + float(weights.sum())
    if not total:
        raise InputError("y must hold a label other than None.")
    return right / total


def gold_and_predicted(self: Any, X: Any, y: LabelSequences) -> tuple[list[list], list[list]]:
    """Return the gold and the predicted labels of each input."""
    gold: list[list] = []
    predicted: list[list] = []
    for data, codes in _compared(self, X, y):
        gold += [list(data.labels[low:high]) for low, high in pairwise(data.offsets.tolist())]
        predicted += [labels.tolist() for labels in _parts(self.classes_[codes], data)]
    return gold, predicted


def _compared(self: Any, *given: Any) -> Iterator[tuple[TokenData, np.ndarray]]:
    """Yield data and predicted codes, block by block; warn once of unknown labels."""
    model = self.model_
    members, unknown = {None, *model.codec.known.members}, dict[object, None]()
    for data in read_inputs(model, blocks_of(*given)):
        yield data, model.codec.decode(model, data, None, self.n_jobs)
        unknown |= dict.fromkeys(label for label in data.labels if label not in members)
    warn_of_unknown(unknown)


def warn_of_unknown(labels: Collection) -> None:
    """Warn about labels that the model does not know, if there are any."""
    if labels:
        some = ", ".join([*map(repr, list(labels)[:3]), *["..."] * (len(labels) > 3)])
        warn_caller(f"Labels that the model does not know count as wrong: {some}.", DataWarning)


def _gold_codes(model: OnlineModel[Any], data: TokenData, unknown: int) -> np.ndarray:
    """Encode gold labels: None is -1, and labels unknown to the model are ``unknown``."""
    index = {label: code for code, label in enumerate(model.codec.known.members)} | {None: -1}
    return np.array([index.get(label, unknown) for label in data.labels], dtype=np.int64)
