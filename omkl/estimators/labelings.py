"""What a trained sequence labeler does: labels, alternatives, probabilities, scores."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import available_if

from omkl._components import check_number
from omkl.estimators.base import OnlineEstimator, is_probabilistic
from omkl.estimators.calibration import at_temperature, chain_temperature
from omkl.estimators.constraints import check_feasible
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.inputs import TokenData, flatten, labeled_sequences
from omkl.estimators.label_evaluation import label_scores
from omkl.estimators.outputs import Labels, PartialLabels, flat_labels
from omkl.estimators.sources import TrainingBlock, as_stream, blocks_of
from omkl.exceptions import DataWarning, InputError


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


def has_marginals(estimator: Any) -> bool:
    """Whether there are probabilities: the loss has them, or the model is calibrated; else raises an AttributeError."""
    if getattr(estimator, "temperature_", None) is not None or is_probabilistic(estimator):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} with loss={estimator.loss!r} has probabilities once it is calibrated: call "
        'calibrate with data that it has not learned from, or train with early_stopping=True or loss="crf".'
    )


class PredictsLabels(OnlineEstimator):
    """Predictions of a model over a chain; see :class:`~omkl.SequenceLabeler`.

    The temperature that potentials are divided by for probabilities is ``temperature_``, None for 1.
    """

    temperature_: float | None
    n_jobs: int | None

    def predict(self, X: Any, labels: Any = None) -> list[np.ndarray]:
        """Best labels of each sequence.

        Parameters
        ----------
        X : list of sequences, or stream
        labels : list of sequences, optional
            What is known of the labels: for each token None, the label that it must have, or a set of labels that it
            may have. The others are the best beside them. Not for streams.

        Returns
        -------
        list of arrays of labels

        Raises
        ------
        omkl.exceptions.InputError
            If ``labels`` and ``allowed_transitions`` contradict each other, or there are labels that the model does
            not know.
        """
        if "model_" not in self.__dict__:  # the check itself takes as long as a sentence
            check_is_fitted(self)
        model, stream = self.model_, self._stream(X, labels)
        if stream is not None:
            return [found for block in stream.blocks() for found in self.predict(block.X)]
        tokens, offsets = flatten(X, names=self._column_names)
        encoded, structure = model.codec.encoder.encode(tokens, offsets), model.trainer.structure
        if labels is None:
            forced, codes = None, model.decode(encoded, self.n_jobs)
        else:
            predictor = self.predictor_
            forced = forced_labels(labels, np.diff(offsets), self.model_.codec.known)
            found, low = [np.zeros(0, np.int64)], 0
            for block, potentials in predictor.blocks(encoded):
                own = structure.agreeing(potentials, forced[low : low + block.n_tokens])
                found.append(structure.decode_many(own, block.offsets))
                low += block.n_tokens
            codes = np.concatenate(found)
        check_feasible(structure, codes, offsets, forced, _constraints(labels))
        predicted = self.classes_[codes]
        return [predicted[low:high] for low, high in pairwise(offsets.tolist())]

    def predict_nbest(self, X: Any, n: int = 5, labels: Any = None) -> list[list[Labeling]]:
        """The best labellings of each sequence, best first.

        Parameters
        ----------
        X : list of sequences, or stream
        n : int > 0
            How many; fewer where a sequence has not so many. The first is what :meth:`predict` returns.
        labels : list of sequences, optional
            As for :meth:`predict`.

        Returns
        -------
        list of list of Labeling
            Pairs ``(labels, score)``.
        """
        check_number("n", n, above=0, integer=True)
        found = []
        for potentials in self._potentials(X, labels):
            if len(potentials.unary):
                codes, scores = self.predictor_.structure.decode_best(potentials, int(n))
                found.append([Labeling(self.classes_[own], score) for own, score in zip(codes, scores.tolist())])
            else:
                found.append([Labeling(self.classes_[:0], 0.0)])
        return found

    def nbest_with_probabilities(self, X: Any, n: int) -> list[list[Labeling]]:
        """The likeliest labellings of each sequence, the score the logarithm of the probability."""
        structure, temperature, found = self.predictor_.structure, getattr(self, "temperature_", None), []
        for potentials in self._potentials(X):
            own = potentials if temperature is None else at_temperature(potentials, temperature)
            codes, scores = structure.decode_best(own, n)
            logs = scores - structure.marginals(own)[0]
            found.append([Labeling(self.classes_[codes], score) for codes, score in zip(codes, logs.tolist())])
        return found

    def decision_function(self, X: Any) -> list[np.ndarray]:
        """Unary potentials of each sequence: a list of arrays (n, K), the score of each label without transitions."""
        return [potentials.unary for potentials in self._potentials(X)]

    @available_if(has_marginals)
    def predict_marginals(self, X: Any, labels: Any = None) -> list[np.ndarray]:
        """Probability of each label at each token: a list of arrays (n, K) with rows that sum to 1.

        With ``loss="crf"`` the model's own; with others once the model is calibrated, see :meth:`calibrate`.

        Parameters
        ----------
        X : list of sequences, or stream
        labels : list of sequences, optional
            As for :meth:`predict`: probabilities are then those given what is known.
        """
        structure, temperature = self.predictor_.structure, getattr(self, "temperature_", None)
        marginals = []
        for potentials in self._potentials(X, labels):
            own = potentials if temperature is None else at_temperature(potentials, temperature)
            marginals.append(structure.marginals(own)[1].unary if len(own.unary) else own.unary)
        return marginals

    def calibrate(self, X: Any, y: Any = None) -> "PredictsLabels":
        """Find the temperature that makes probabilities of the model's scores, on data that it has not learned from.

        Potentials are divided by one number, ``temperature_``, at which the labels of ``X`` are likeliest, token by
        token (temperature scaling: Guo, Pleiss, Sun, Weinberger 2017). What is predicted does not change. ``fit`` does
        this by itself on the sequences that ``early_stopping`` holds out, unless the loss has probabilities of its
        own. Another ``fit`` or ``partial_fit`` takes the temperature away.

        Parameters
        ----------
        X, y
            As for :meth:`score`; a label that is None, or that the model does not know, has no say.

        Returns
        -------
        self
        """
        codec, examples = self.model_.codec, []
        for block in blocks_of(X, y):
            data = labeled_sequences(block, self._column_names)
            labels = self._all_labels()
            labels.add(data.labels)
            gold = labels.encode(data.labels, "")
            gold[gold >= len(codec.known)] = -1
            parts = self._potentials(block.X)
            examples += [(own, gold[low:high]) for own, (low, high) in zip(parts, pairwise(data.offsets.tolist()))]
        temperature = chain_temperature(self.predictor_.structure, examples)
        if temperature is None:
            raise InputError("y holds no label that the model could be calibrated by: give at least one.")
        self.temperature_ = temperature
        return self

    def _potentials(self, X: Any, labels: Any = None) -> Iterator[Any]:
        """Potentials of one sequence after the other, which forbid what the known ``labels`` do."""
        predictor, stream = self.predictor_, self._stream(X, labels)
        if stream is not None:
            for part in stream.blocks():
                yield from self._potentials(part.X)
            return
        tokens, offsets = flatten(X, names=self._column_names)
        structure, first = predictor.structure, 0
        forced = None if labels is None else forced_labels(labels, np.diff(offsets), self.model_.codec.known)
        for block, potentials in predictor.blocks(self.model_.codec.encoder.encode(tokens, offsets)):
            if forced is not None:
                own = forced[first : first + block.n_tokens]
                potentials = structure.agreeing(potentials, own)
                check_feasible(
                    structure,
                    structure.decode_many(potentials, block.offsets),
                    block.offsets,
                    own,
                    _constraints(labels),
                )
            first += block.n_tokens
            for low, high in pairwise(block.offsets.tolist()):
                yield structure.part(potentials, low, high)

    def _stream(self, X: Any, labels: Any) -> Any:
        """The stream that X is, if it is one."""
        stream = as_stream(X)
        if stream is not None and labels is not None:
            raise InputError("labels= goes with sequences that are all at hand, not with a stream.")
        return stream

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Token accuracy in [0, 1]; of a stream, which brings its labels along, without holding it.

        Tokens whose label is None do not count; those of a label that the model does not know are wrong, and one
        warning says how many they are.

        Raises
        ------
        omkl.exceptions.InputError
            If ``y`` does not fit ``X``, or holds no label.
        """
        right = total = 0.0
        for gold, predicted, data in self._compared(X, y, sample_weight, self._all_labels()):
            each = np.ones(len(data.offsets) - 1) if data.weights is None else data.weights
            weights = np.repeat(each, np.diff(data.offsets)) * (gold >= 0)
            right, total = right + float(weights @ (predicted == gold)), total + float(weights.sum())
        if not total:
            raise InputError("y holds no label that could be right or wrong: give at least one.")
        return right / total

    def evaluate(self, X: Any, y: Any = None, *, scheme: str | None = None) -> dict[str, Any]:
        """Scores of tokens, of each label, and of entities where the labels mark some, as ``B-PER`` and ``O`` do.

        Parameters
        ----------
        X, y
            As for :meth:`score`.
        scheme : {None, "BIO", "BIOES"}
            Which entities count; see :func:`omkl.estimators.evaluate_labels`.

        Returns
        -------
        dict
            ``accuracy``, ``sequence_accuracy``, ``tokens``, ``sequences``, ``labels``, ``entity_precision``,
            ``entity_recall``, ``entity_f1`` and ``entities``, as :func:`omkl.estimators.evaluate_labels` has them.

        Raises
        ------
        omkl.exceptions.InputError
            As for :meth:`score`; or if a scheme is asked for that the labels do not follow.
        """
        found, labels = [(np.zeros(0, np.int64),) * 3], self._all_labels()
        compared = self._compared(X, y, None, labels)
        found += [(gold, predicted, np.diff(data.offsets)) for gold, predicted, data in compared]
        gold, predicted, lengths = map(np.concatenate, zip(*found))
        if (gold < 0).any():
            raise InputError("y holds None: only sequences whose labels are all known can be evaluated.")
        return label_scores(gold, predicted, lengths, labels.members, scheme)

    def _all_labels(self) -> PartialLabels:
        """The labels of the model, in their order, to which others may come."""
        return PartialLabels(self.model_.codec.known.members, grows=True)

    def _compared(
        self, X: Any, y: Any, sample_weight: Any, labels: PartialLabels
    ) -> Iterator[tuple[np.ndarray, np.ndarray, TokenData]]:
        """Gold and predicted codes of labels, block by block, and what they are the labels of.

        ``labels`` gain those that the model does not know, which a warning at the end names.
        """
        predictor, codec, n_unknown, n_tokens = self.predictor_, self.model_.codec, 0, 0
        for block in blocks_of(X, y, sample_weight):
            data = labeled_sequences(block, self._column_names)
            labels.add(data.labels)
            gold = labels.encode(data.labels, "")
            n_unknown, n_tokens = n_unknown + np.count_nonzero(gold >= len(codec.known)), n_tokens + len(gold)
            yield gold, predictor.decode(codec.encoder.encode(data.inputs, data.offsets), self.n_jobs), data
        if n_unknown:
            new = list(map(repr, labels.members[len(codec.known) :]))
            warnings.warn(
                f"Labels that the model does not know, {', '.join(new[:3])}{', ...' * (len(new) > 3)}, count "
                f"as wrong: those of {n_unknown} of {n_tokens} tokens.",
                DataWarning,
                stacklevel=3,
            )

    @property
    def _column_names(self) -> Sequence[str] | None:
        """What the columns of data frames are called, in the model's order; None where they have no names."""
        return getattr(self, "feature_names_in_", None)

    def _read_known(self, block: TrainingBlock) -> TokenData:
        return labeled_sequences(block, self._column_names)


def _constraints(labels: Any) -> str:
    return "allowed_transitions" if labels is None else "labels= and allowed_transitions"


def forced_labels(labels: Any, lengths: np.ndarray, known: Labels) -> np.ndarray:
    """What the labels of tokens must be.

    Parameters
    ----------
    labels : list of sequences
        For each token None, a label, or a set of labels.
    lengths : int array
        Those of the sequences.
    known : Labels

    Returns
    -------
    int array of shape (N,), or bool array of shape (N, K) where there are sets
        The code of each label, -1 for any; or which labels a token may have.
    """
    flat = flat_labels(labels, lengths, "labels")
    if not any(isinstance(label, set) for label in flat):
        return _codes(flat, known)
    possible = np.ones((len(flat), len(known)), dtype=bool)
    for row, label in zip(possible, flat):
        choices = label if isinstance(label, set) else {label}
        if None not in choices:
            row[:] = False
            row[_codes(choices, known)] = True
    return possible


def _codes(labels: Any, known: Labels) -> np.ndarray:
    return known.encode(labels, "no token can be forced to have it.")
