"""StructuredPredictor, an estimator for user-defined structures and groups."""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

import omkl.groups
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.persistence import fingerprint
from omkl.estimators.sources import TrainingBlock, WeightedExamples, blocks_of
from omkl.estimators.training import RunOptions, Task
from omkl.estimators.validation import check_sample_weight
from omkl.exceptions import InputError
from omkl.groups.base import Bank
from omkl.online.averaging import Predictor
from omkl.online.model import Codec
from omkl.online.rounds import Example, Values
from omkl.online.trainer import OnlineTrainer
from omkl.persistence import Manifest, Unpacker
from omkl.structures.base import Structure


@dataclass(kw_only=True, eq=False, repr=False)
class StructuredPredictor(OnlineEstimator["PlainCodec"]):
    """Online MKL for a user-defined structure and user-defined groups.

    Inputs can be any objects with a length that the groups accept, and outputs any objects that the
    structure decodes. ``examples/semi_markov.py`` implements a semi-Markov segmenter.

    Parameters
    ----------
    structure : Structure
        See :class:`omkl.structures.Structure`.
    groups : list of Bank
        Untrained banks with ``averaging=True``, unless ``average`` is None. ``fit`` copies them.
    loss, regularizer, weighting, C, epochs, method, learning_rate, average, radius, \
early_stopping, n_jobs, callbacks, verbose, random_state
        As for :class:`~omkl.SequenceLabeler`. Early stopping minimizes the mean cost of held-out
        examples.

    Attributes
    ----------
    kernel_weights_ : dict of str to float
        The learned weight of each group, in [0, 1], summing to 1.
    history_ : list of dict
        A flat record of each epoch or call of ``partial_fit``.
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from omkl.groups import ExplicitBank, Features, Tokens
    >>> from omkl.structures import Multiclass
    >>> def encode(feature):
    ...     features = Features(np.array([0, 1]), np.array([feature], np.int32), np.ones(1))
    ...     return Tokens(np.array([0, 1]), features).everything()
    >>> X = [encode(feature) for feature in (0, 1, 0, 1)]
    >>> bank = ExplicitBank(["identity"], groups=[0, 0], n_outputs=2, averaging=True)
    >>> StructuredPredictor(Multiclass(2), [bank], random_state=0).fit(X, [0, 1, 0, 1]).predict(X)
    [0, 1, 0, 1]
    """

    example_kind = None

    structure: Structure = field(kw_only=False)
    groups: Sequence[Bank] = field(kw_only=False)

    def fit(
        self,
        X: Iterable,
        y: Iterable | None = None,
        sample_weight: ArrayLike | None = None,
        **run: Unpack[RunOptions],
    ) -> "StructuredPredictor":
        """Train from scratch.

        Parameters
        ----------
        X : list of inputs, or stream of pairs ``(x, y)``
        y : list of outputs
        sample_weight : array of shape (number of inputs,), optional
            Weight of each example; an integer weight is equivalent to that many copies.
        checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`. A resumed run compares only number and weights
            of examples.

        Returns
        -------
        self
        """
        task = Task(self._codec, read_examples, minus_mean_cost)
        self._train(task, TrainingBlock(X, y, sample_weight), None, run)
        return self

    def partial_fit(
        self, X: Iterable, y: Iterable | None = None, sample_weight: ArrayLike | None = None
    ) -> "StructuredPredictor":
        """Train for one round on each example, in the given order.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`. A stream is read once.

        Returns
        -------
        self
        """
        self._train_more(Task(self._codec, read_examples), TrainingBlock(X, y, sample_weight))
        return self

    def predict(self, X: Iterable) -> list:
        """Predict the best output of each input.

        Parameters
        ----------
        X : list of inputs, or stream
        """
        predictor = self.predictor_
        return [
            predictor.structure.decode(predictor.potentials(x))
            for block in blocks_of(X)
            for x in block.X
        ]

    def score(
        self, X: Iterable, y: Iterable | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return minus the mean cost of the predictions; 0 if all are correct.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.
        """
        total_cost = 0.0
        total_weight = 0.0
        for block in blocks_of(X, y, sample_weight):
            data = read_examples(block)
            weights = data.input_weights
            if weights is None:
                weights = np.ones(data.n_inputs)
            costs = list(map(self.structure.cost, data.y, self.predict(data.X)))
            total_cost += float(weights @ costs)
            total_weight += float(weights.sum())
        return -total_cost / total_weight

    def _read_for_evaluation(self, block: TrainingBlock) -> "PlainExamples":
        return read_examples(block)

    def _codec(self) -> "PlainCodec":
        return PlainCodec(self.structure, self.groups)

    def _saved_parameters(self) -> dict[str, Any]:
        groups = [_constructor_call(bank) for bank in self.groups]
        return {**super()._saved_parameters(), "groups": groups}

    @classmethod
    def _loaded_parameters(cls, packed: Manifest, unpacker: Unpacker) -> dict[str, Any]:
        parameters = super()._loaded_parameters(packed, unpacker)
        banks = []
        for call in parameters["groups"]:
            bank_class = _bank_class(call["bank"], unpacker)
            banks.append(bank_class(*call["args"], **call["options"]))
        return {**parameters, "groups": banks}


def _constructor_call(bank: Bank) -> Manifest:
    """Return the call that made an untrained bank, for a model file."""
    arguments, options = bank.made_with
    return {
        "bank": type(bank).__name__,
        "args": [_without_types(value) for value in arguments],
        "options": {key: _without_types(value) for key, value in options.items()},
    }


def _without_types(value: object) -> Any:
    """Return the name of a type of numbers, and other values as they are."""
    if isinstance(value, (np.dtype, type)):
        return np.dtype(value).name
    return value


def _bank_class(name: str, unpacker: Unpacker) -> Callable:
    """Return a bank of the library, or a user's class, by its name in a model file."""
    if name in omkl.groups.__all__:
        return getattr(omkl.groups, name)
    return unpacker.class_of_user(name, Bank)


def minus_mean_cost(predictor: Predictor, examples: Sequence) -> float:
    """Return minus the mean cost of a frozen model on held-out examples."""
    structure = predictor.structure
    costs = [structure.cost(y, structure.decode(predictor.potentials(x))) for x, y, _ in examples]
    return -float(np.mean(costs))


class PlainExamples(WeightedExamples):
    """Lists of inputs and outputs; see :class:`~omkl.estimators.sources.WeightedExamples`."""

    def __init__(self, X: list, y: list, chosen: np.ndarray, weights: np.ndarray | None) -> None:
        super().__init__(len(X), chosen, weights)
        self.X = X
        self.y = y

    def __getitem__(self, i: int) -> Example:
        j = self.chosen[i]
        return Example(self.X[j], self.y[j], self.weight(i))

    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> "PlainExamples":
        X = [self.X[j] for j in inputs]
        y = [self.y[j] for j in inputs]
        return PlainExamples(X, y, chosen, None)


def read_examples(
    block: TrainingBlock, first: bool = False, is_all_data: bool = False
) -> PlainExamples:
    """Validate inputs and outputs."""
    X = list(block.X)
    y = [] if block.y is None else list(block.y)
    if len(X) != len(y):
        raise InputError(
            f"y must have an output for each of {len(X)} inputs, got {len(y)}; "
            "a stream has pairs (x, y)."
        )
    return PlainExamples(X, y, np.arange(len(X)), check_sample_weight(block.sample_weight, len(X)))


class PlainCodec(Codec):
    """Codec for examples that need no encoding; see :class:`~omkl.online.model.Codec`."""

    def __init__(self, structure: Structure, groups: Sequence[Bank]) -> None:
        self.structure = structure
        self._groups = groups

    def encode_for_evaluation(
        self, data: PlainExamples, trainer: OnlineTrainer | None = None
    ) -> PlainExamples:
        """Return the examples."""
        return data

    start = encode = encode_for_evaluation

    def facts(self, examples: PlainExamples) -> Values:
        """Return facts about the data for a resumed run to compare."""
        return {
            "number of examples": len(examples.X),
            "sample weights": fingerprint([examples.input_weights]),
        }

    @property
    def order(self) -> list[str]:
        """Names of the groups, in the user's order."""
        return [name for bank in self._groups for name in bank.names]

    def banks(
        self, averaging: bool, training: PlainExamples | None = None, in_shards: bool = False
    ) -> tuple[list, list]:
        """Return copies of the user's banks, all of which are regularized, and an empty list."""
        for bank in self._groups:
            if averaging and not bank.averaging:
                raise InputError(
                    f"The bank of the group {bank.names[0]!r} must have averaging=True, "
                    "unless average=None."
                )
        return copy.deepcopy(list(self._groups)), []
