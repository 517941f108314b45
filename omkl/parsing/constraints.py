"""Required and forbidden arcs of parses."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from omkl.exceptions import InputError
from omkl.structures.base import Potentials
from omkl.structures.trees import ArcFactored

#: For each sentence pairs ``(head, word)``, or None.
Arcs: TypeAlias = Sequence[Iterable[tuple[int, int]] | None] | None


class ArcConstraints:
    """Required and forbidden arcs of the trees of sentences.

    For each sentence there are pairs ``(head, word)``, counted from 1, the head 0 for the root; None for no arcs.
    """

    def __init__(self, required: Arcs = None, forbidden: Arcs = None, n_sentences: int = 0) -> None:
        self._arcs: dict[str, list[list]] = {}
        for name, arcs in (("required", required), ("forbidden", forbidden)):
            if arcs is None:
                continue
            if not isinstance(arcs, Sequence) or len(arcs) != n_sentences:
                raise InputError(f"{name} must be a list with a list of arcs for each of the {n_sentences} sentences.")
            self._arcs[name] = [list(own or ()) for own in arcs]

    def __bool__(self) -> bool:
        return bool(self._arcs)

    def applied(self, potentials: Potentials, i: int, structure: ArcFactored) -> Potentials:
        """Return potentials of the sentence number ``i`` under which only trees that keep the constraints are possible.

        Raises
        ------
        omkl.exceptions.InputError
            If no tree keeps the constraints; the message names the sentence, counted from 1.
        """
        if not self:
            return potentials
        n = structure.size_of(potentials)
        forbidden = self._of_sentence("forbidden", i, n)
        for head, word in self._of_sentence("required", i, n):
            forbidden += [(other, word) for other in range(n + 1) if other not in (head, word)]
        own = structure.forbidding(potentials, forbidden)
        if not structure.is_possible(own):
            raise InputError(f"Sentence {i + 1}: no tree has all required arcs and none of the forbidden ones.")
        return own

    def _of_sentence(self, name: str, i: int, n: int) -> list[tuple[int, int]]:
        """Check the arcs of one sentence of n words."""
        found = []
        for arc in self._arcs[name][i] if name in self._arcs else ():
            pair = np.asarray(arc)
            is_pair = pair.shape == (2,) and pair.dtype.kind in "iu"
            if not is_pair or not 0 <= pair[0] <= n or not 0 < pair[1] <= n or pair[0] == pair[1]:
                raise InputError(f"Sentence {i + 1}: {name} must hold arcs (head, word) of its {n} words, got {arc!r}.")
            found.append((int(pair[0]), int(pair[1])))
        return found
