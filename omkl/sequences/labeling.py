"""Codecs of labelers: LabelCodec, ChainCodec, and the inputs of a trained model."""

from abc import abstractmethod
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from omkl._components import warn_caller
from omkl.data.blocks import Names
from omkl.estimators.explanations import Namer
from omkl.estimators.online_explanations import piece_namer
from omkl.estimators.sources import ExamplesLike, TrainingBlock, as_stream, blocks_of
from omkl.estimators.token_codec import TokenCodec
from omkl.exceptions import DataWarning, InputError
from omkl.features.views import TokenData
from omkl.groups.tokens import Span
from omkl.online.model import OnlineModel
from omkl.sequences.reading import (
    LabelSequences,
    check_feasible,
    possible_labels,
    read_sequences,
)
from omkl.structures.base import Potentials
from omkl.structures.chain import Chain, CheckedPotentials

#: Code of a label that is None.
UNKNOWN = -1
#: Kind of encoded input of a codec.
OwnInput = TypeVar("OwnInput", bound=Span)


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


class LabelCodec(TokenCodec, Generic[OwnInput]):
    """Codec of inputs whose elements have labels: sequences of tokens, or graphs of nodes.

    Subclasses read, score and label inputs for a :class:`Labeler`. In their methods, ``data`` holds
    N elements of all inputs, and ``possible`` (N, K) is a mask of the possible labels of each.
    """

    #: Name of an element of the input.
    element: ClassVar[str]

    @staticmethod
    @abstractmethod
    def read(block: TrainingBlock, names: Names, labeled: bool = True) -> TokenData:
        """Validate and flatten inputs, and their labels and weights if they are ``labeled``.

        ``names`` is the order of the columns of data frames; None takes that of the first input.
        """

    @abstractmethod
    def encode_input(self, data: TokenData) -> OwnInput:
        """Encode a single input."""

    @abstractmethod
    def potentials(
        self, model: OnlineModel[Any], data: TokenData, possible: np.ndarray | None = None
    ) -> Iterator[Any]:
        """Yield the potentials of each input."""

    @abstractmethod
    def decode(
        self,
        model: OnlineModel[Any],
        data: TokenData,
        possible: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        """Return the codes of the best labels of all elements, (N,)."""

    @abstractmethod
    def check_labels(self, labels: np.ndarray, data: TokenData) -> None:
        """Raise an InputError if the structure does not allow some codes of labels, (N,)."""

    @abstractmethod
    def other_labels(
        self, x: OwnInput, potentials: Potentials, chosen: np.ndarray, at: int | None
    ) -> np.ndarray:
        """Return a good labelling (n,) that differs from the ``chosen`` one of an input.

        With ``at``, it has another label at this element.
        """

    @abstractmethod
    def namer(self) -> Namer:
        """Make a function that names the pieces of an explanation."""


class ChainCodec(LabelCodec[Span]):
    """Codec of sequences of labels; see :class:`~omkl.sequences.labeling.LabelCodec`."""

    element = "token"
    structure: Chain
    read = staticmethod(read_sequences)

    def encode_input(self, data: TokenData) -> Span:
        return self.encoder.encode(data.inputs, data.offsets).everything()

    def _blocks(
        self, model: OnlineModel[Any], data: TokenData, possible: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield offsets and potentials of the sequences of each block of tokens.

        Raises InputError for a sequence without a labelling of ``possible`` labels (N, K).
        """
        structure = self.structure
        tokens = self.encoder.encode(data.inputs, data.offsets)
        first = 0
        for block, potentials in model.predictor().blocks(tokens):
            if possible is not None:
                possible_in_block = possible[first : first + block.n_tokens]
                potentials = structure.agreeing(potentials, possible_in_block)
                best = structure.decode_many(potentials, block.offsets)
                check_feasible(structure, best, block.offsets, possible_in_block)
            yield block.offsets, potentials
            first += block.n_tokens

    def potentials(
        self, model: OnlineModel[Any], data: TokenData, possible: np.ndarray | None = None
    ) -> Iterator[CheckedPotentials]:
        for offsets, potentials in self._blocks(model, data, possible):
            for low, high in pairwise(offsets.tolist()):
                yield self.structure.part(potentials, low, high)

    def decode(
        self,
        model: OnlineModel[Any],
        data: TokenData,
        possible: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        if possible is None:
            codes = model.decode(self.encoder.encode(data.inputs, data.offsets), n_jobs)
            self.check_labels(codes, data)
            return codes
        codes_of_blocks = []
        for offsets, potentials in self._blocks(model, data, possible):
            codes_of_blocks.append(self.structure.decode_many(potentials, offsets))
        return np.concatenate(codes_of_blocks)

    def check_labels(self, labels: np.ndarray, data: TokenData) -> None:
        check_feasible(self.structure, labels, data.offsets)

    def other_labels(
        self, x: Span, potentials: CheckedPotentials, chosen: np.ndarray, at: int | None
    ) -> np.ndarray:
        """Return the best other labelling; with ``at``, the best one with another label there."""
        structure = self.structure
        candidates = []
        elements = range(len(chosen)) if at is None else [at]
        for i in elements:
            possible = np.ones((len(chosen), structure.n_labels), dtype=bool)
            possible[i, chosen[i]] = False
            labels = structure.decode(structure.agreeing(potentials, possible))
            if labels[i] != chosen[i] and self._is_allowed(labels):
                candidates.append(labels)
        if not candidates:
            raise InputError("The model allows no other labelling to compare with.")
        return max(candidates, key=lambda labels: structure.score(potentials, labels))

    def _is_allowed(self, labels: np.ndarray) -> bool:
        """Return whether the labels of a sequence (n,) keep to the allowed transitions."""
        allowed = self.structure.allowed
        if allowed is None:
            return True
        return allowed.first_violation(labels, np.array([0, len(labels)])) is None

    def namer(self) -> Namer:
        return piece_namer(self.encoder, self.codes.labels)


# ---- inputs of a trained model -------------------------------------------------------------------


def potentials_of(
    model: OnlineModel[Any], X: ExamplesLike, labels: LabelSequences = None
) -> Iterator[Potentials]:
    """Yield the potentials of each input; they forbid what contradicts known ``labels``."""
    for data, possible in constrained_inputs(model, X, labels):
        yield from model.codec.potentials(model, data, possible)


def constrained_inputs(
    model: OnlineModel[Any], X: ExamplesLike, labels: LabelSequences
) -> Iterator[tuple[TokenData, np.ndarray | None]]:
    """Read inputs block by block, and yield them with the possible labels of their elements.

    The possible labels are a mask (N, K), or None for no restriction.
    """
    if labels is not None and as_stream(X) is not None:
        raise InputError("labels must be None for a stream.")
    for data in read_inputs(model, blocks_of(X), labeled=False):
        possible = None
        if labels is not None:
            possible = possible_labels(labels, np.diff(data.offsets), model.codec.codes)
        yield data, possible


def read_inputs(
    model: OnlineModel[Any], blocks: Iterator[TrainingBlock], labeled: bool = True
) -> Iterator[TokenData]:
    """Validate blocks; warn once of absent keys."""
    codec = model.codec
    warned = False
    for block in blocks:
        data = codec.read(block, codec.encoder.names, labeled)
        warned = warned or codec.warn_of_absent_keys(data.inputs, model.predictor)
        yield data


def split_by_input(values: np.ndarray, data: TokenData) -> list[np.ndarray]:
    """Split the values of all elements into those of each input."""
    return [values[low:high] for low, high in pairwise(data.offsets.tolist())]


def one_label_each(labels: Collection, codec: LabelCodec, n_elements: int) -> np.ndarray:
    """Return the codes (n,) of a labelling that a user gives, one label for each element."""
    possible = possible_labels([labels], np.array([n_elements]), codec.codes)
    if not (possible.sum(axis=1) == 1).all():
        raise InputError(
            f"labels and against must hold one label for each {codec.element}, not None or a set."
        )
    return possible.argmax(axis=1)


def warn_of_unknown(labels: Collection) -> None:
    """Warn about labels that the model does not know, if there are any."""
    if not labels:
        return
    examples = list(map(repr, labels))[:3]
    if len(labels) > len(examples):
        examples.append("...")
    names = ", ".join(examples)
    warn_caller(f"Labels that the model does not know count as wrong: {names}.", DataWarning)


def gold_codes(model: OnlineModel[Any], data: TokenData, code_of_others: int) -> np.ndarray:
    """Encode gold labels (N,); None is :data:`UNKNOWN`.

    Labels that the model does not know get the ``code_of_others``.
    """
    codes = {label: code for code, label in enumerate(model.codec.codes.labels)}
    codes[None] = UNKNOWN
    return np.array([codes.get(label, code_of_others) for label in data.labels], dtype=np.int64)
