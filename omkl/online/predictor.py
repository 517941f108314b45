"""A trained model as it predicts: averaged parameters, frozen; safe to share between threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from omkl.groups import GroupState, Tokens
from omkl.structures import Potentials

#: Numbers in one block of potentials: what prediction holds at a time beside the input.
BLOCK = 2**21


class Predictor:
    """Frozen banks and a structure: scores and decodes many inputs in blocks.

    Parameters
    ----------
    banks : sequence of GroupBank
        Banks of a trainer; their averaged parameters are taken now, later training does not change them.
    structure : Structure
        A chain, multiclass or binary structure.
    """

    def __init__(self, banks: Sequence[Any], structure: Any) -> None:
        self.structure = structure
        self.banks = [bank.averaged() for bank in banks]
        self._group_state = GroupState(self.banks)
        self._group_state.scales.fill(1.0)

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters."""
        return sum(bank.nbytes for bank in self.banks)

    def potentials(self, x: Any) -> Potentials:
        """Potentials of one input, or of a block of tokens."""
        potentials = self.structure.zeros(len(x))
        for bank in self.banks:
            bank.add_potentials(x, potentials)
        return potentials

    def blocks(self, tokens: Tokens) -> Iterator[tuple[Tokens, Potentials]]:
        """Yield ``(block of tokens, its potentials)`` until all sequences are covered, in order."""
        per_token = sum(array[0].size for array in self.structure.zeros(2))
        limit = max(1, BLOCK // per_token)
        first = 0
        while first < len(tokens):
            last = int(np.searchsorted(tokens.offsets, tokens.offsets[first] + limit, side="right")) - 1
            last = min(max(last, first + 1), len(tokens))
            block = tokens.block(first, last)
            yield block, self.potentials(block.everything())
            first = last

    def decode(self, tokens: Tokens) -> np.ndarray:
        """Best outputs of all sequences: one array with a label for each token."""
        outputs = [self.structure.decode_many(potentials, block.offsets) for block, potentials in self.blocks(tokens)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *outputs])
