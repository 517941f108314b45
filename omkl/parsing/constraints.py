"""Required and forbidden arcs of parses."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from omkl.exceptions import InputError
from omkl.structures import Potentials
from omkl.structures.trees import ArcFactored

#: For each sentence pairs ``(head, word)``, or None.
Arcs: TypeAlias = Sequence[Iterable[tuple[int, int]] | None] | None


class ArcConstraints:
    """Required and forbidden arcs of the trees of sentences.

    Parameters
    ----------
    required, forbidden : list of iterables of (int, int), or None
        For each sentence pairs ``(head, word)``, counted from 1, the head 0 for the root; None for no arcs.
    """

    def __init__(self, required: Arcs = None, forbidden: Arcs = None) -> None:
        self._required, self._forbidden = _listed("required", required), _listed("forbidden", forbidden)

    def __bool__(self) -> bool:
        return self._required is not None or self._forbidden is not None

    def check_number(self, n_sentences: int) -> None:
        """Raise unless there are arcs for each of so many sentences."""
        for name, arcs in (("required", self._required), ("forbidden", self._forbidden)):
            if arcs is not None and len(arcs) != n_sentences:
                raise InputError(f"{name} has arcs for {len(arcs)} sentences, but there are {n_sentences}.")

    def applied(self, potentials: Potentials, i: int, structure: ArcFactored) -> Potentials:
        """Potentials of the sentence number ``i`` under which only trees that keep the constraints are possible.

        Raises
        ------
        omkl.exceptions.InputError
            If constraints contradict each other, or leave no tree; the message names the sentence, counted from 1.
        """
        if not self:
            return potentials
        n = structure.size_of(potentials)
        heads = np.full(n, -1)
        for head, word in self._arcs("required", self._required, i, n):
            if heads[word - 1] not in (-1, head):
                raise InputError(
                    f"Sentence {i + 1}: word {word} is required to have both the heads {heads[word - 1]} and {head}."
                )
            heads[word - 1] = head
        forbidden = list(self._arcs("forbidden", self._forbidden, i, n))
        for head, word in forbidden:
            if heads[word - 1] == head:
                raise InputError(f"Sentence {i + 1}: the arc ({head}, {word}) is both required and forbidden.")
        own = structure.forbidding(structure.agreeing(potentials, heads), forbidden)
        if not structure.is_possible(own):
            raise InputError(f"Sentence {i + 1}: no tree has all required arcs and none of the forbidden ones.")
        return own

    def _arcs(self, name: str, arcs: list | None, i: int, n: int) -> Iterable[tuple[int, int]]:
        """The arcs of one sentence of n words, checked."""
        for arc in () if arcs is None else arcs[i]:
            pair = np.asarray(arc)
            is_pair = pair.shape == (2,) and pair.dtype.kind in "iu"
            if not is_pair or not 0 <= pair[0] <= n or not 0 < pair[1] <= n or pair[0] == pair[1]:
                raise InputError(
                    f"Sentence {i + 1}: {name} has {arc!r}, which is no arc (head, word) of {n} words counted from 1."
                )
            yield int(pair[0]), int(pair[1])


def _listed(name: str, arcs: Arcs) -> list[list] | None:
    """Arcs of each sentence as lists."""
    try:
        return None if arcs is None else [[] if own is None else list(own) for own in arcs]
    except TypeError:
        raise InputError(f"{name} must be a list with a list of arcs (head, word) for each sentence.") from None
