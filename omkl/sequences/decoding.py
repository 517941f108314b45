"""ChainCodec, the labels of a trained sequence labeler, and their alternatives."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from omkl.estimators.online_explanations import part_namer
from omkl.estimators.token_codec import TokenCodec
from omkl.exceptions import InputError
from omkl.features.views import TokenData
from omkl.groups.base import Piece
from omkl.groups.tokens import Span
from omkl.online.model import OnlineModel
from omkl.sequences import reading
from omkl.structures.chain import Chain, ChainPotentials


class ChainCodec(TokenCodec):
    """Codec of sequences of labels; see :class:`~omkl.estimators.token_codec.TokenCodec`.

    It and the codec of graphs define how :mod:`omkl.sequences.labeling` reads, scores and labels
    their inputs.
    """

    #: Name of an element of the input.
    element = "token"
    #: Validates a block of inputs, and their labels.
    read: Callable[..., TokenData] = staticmethod(reading.read_sequences)
    structure: Chain

    def input(self, data: TokenData) -> Span:
        """Encode a single input."""
        return self.encoder.encode(data.inputs, data.offsets).everything()

    def _blocks(
        self, model: OnlineModel[Any], data: TokenData, possible: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield offsets and potentials, block by block."""
        structure, first = self.structure, 0
        for block, potentials in model.predictor().blocks(
            self.encoder.encode(data.inputs, data.offsets)
        ):
            if possible is not None:
                given = possible[first : first + block.n_tokens]
                potentials = structure.agreeing(potentials, given)
                found = structure.decode_many(potentials, block.offsets)
                reading.check_feasible(structure, found, block.offsets, given)
            first += block.n_tokens
            yield block.offsets, potentials

    def potentials(
        self, model: OnlineModel[Any], data: TokenData, possible: np.ndarray | None = None
    ) -> Iterator[ChainPotentials]:
        """Yield the potentials of each input; ``possible`` (N, K) is a mask of the possible labels
        of all elements.
        """
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
        """Return the codes of the best labels of all elements."""
        if possible is not None:
            blocks = self._blocks(model, data, possible)
            return np.concatenate(
                [self.structure.decode_many(own, offsets) for offsets, own in blocks]
            )
        codes = model.decode(self.encoder.encode(data.inputs, data.offsets), n_jobs)
        reading.check_feasible(self.structure, codes, data.offsets)
        return codes

    def check_labels(self, labels: np.ndarray, data: TokenData) -> None:
        """Raise an InputError if the allowed transitions forbid some labels."""
        reading.check_feasible(self.structure, labels, data.offsets)

    def other_labels(
        self, x: Span, potentials: Any, chosen: np.ndarray, at: int | None
    ) -> np.ndarray:
        """Return the best other labelling; with ``at``, the best one with another label at this
        element.
        """
        found, structure = [], self.structure
        for place in range(len(chosen)) if at is None else [at]:
            possible = np.ones((len(chosen), structure.n_labels), dtype=bool)
            possible[place, chosen[place]] = False
            own = structure.decode(structure.agreeing(potentials, possible))
            ends = np.array([0, len(own)])
            broken = (
                structure.allowed is not None
                and structure.allowed.first_violation(own, ends) is not None
            )
            if not broken and own[place] != chosen[place]:
                found.append(own)
        if not found:
            raise InputError("The model allows no other labelling to compare with.")
        return max(found, key=lambda own: structure.score(potentials, own))

    def namer(self) -> Callable[[list[Piece]], list[str]]:
        """Make a function that names the pieces of an explanation."""
        return part_namer(self.encoder, self.known.members)
