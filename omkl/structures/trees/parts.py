"""Dependency trees whose scores are sums over arcs, grandparent parts and sibling parts."""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from omkl.structures.base import Potentials, Structure
from omkl.structures.trees import _jit_parts as jit
from omkl.structures.trees.arc_factored import (
    NonProjectiveTree,
    ProjectiveTree,
    TreeStructure,
    as_heads,
    known_arcs,
)

#: Number of trees from which climbing starts. Of the English gold trees of candidate arcs, 2% have
#: a higher score than the tree found from one start, and 0.5% than that found from four. Eight are
#: hardly better, and take twice as long.
STARTS = 4
#: Standard deviations of the scores of arcs by which the Gumbel noise of all starts but the first
#: is scaled.
NOISE = 0.3
#: Weight of the best tree in approximate probabilities, the best multiple of 0.1 for Danish and
#: Vietnamese.
TREE = 0.3


@cache  # each sentence gets the first numbers of the same noise
def gumbel_noise(seed: int, bits: int) -> np.ndarray:
    """Draw ``2**bits`` numbers of the standard Gumbel distribution."""
    return np.random.default_rng(seed).gumbel(size=2**bits)


class PartLists(NamedTuple):
    """Candidate arcs of a sentence of n words, and numbers of their parts.

    Attributes
    ----------
    starts : int64 array of shape (n + 2,)
        Word m has the candidate arcs ``starts[m] : starts[m + 1]``, in the order of their heads.
    heads, modifiers : int64 arrays of shape (number of arcs,)
    order : int64 array of shape (number of arcs,)
        Arcs by head and side, from the inside to the outside.
    ranks : int64 array of shape (number of arcs,)
        Place of each arc among the arcs of its head on its side.
    bounds : int64 array of shape (2 n + 3,)
        Head h has the arcs ``order[bounds[2 h] : bounds[2 h + 1]]`` to the left, and the next ones
        to the right.
    grandparents : int64 array of shape (number of arcs + 1,)
        Numbers of the grandparent parts of each arc, one for each arc into its head.
    siblings : int64 array of shape (2 n + 3,)
        Number of the first sibling part of each head on each side; the last entry is the number of
        all parts.
    """

    starts: np.ndarray
    heads: np.ndarray
    modifiers: np.ndarray
    order: np.ndarray
    ranks: np.ndarray
    bounds: np.ndarray
    grandparents: np.ndarray
    siblings: np.ndarray

    @classmethod
    def of(cls, candidates: np.ndarray) -> "PartLists":
        """List the arcs with true entries in a bool array (n + 1, n + 1)."""
        return cls(*jit.list_parts(candidates))

    @classmethod
    def of_tree(cls, heads: np.ndarray) -> "tuple[PartLists, np.ndarray]":
        """List the known arcs of a tree, and return also the count of each part in the tree.

        Parts without a modifier are not counted.
        """
        n_nodes = len(heads) + 1
        candidates = np.zeros((n_nodes, n_nodes), dtype=bool)
        candidates[known_arcs(heads)] = True
        lists = cls.of(candidates)
        return lists, jit.tree_parts(lists, heads)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return int(self.siblings[-1])


class PartPotentials(NamedTuple):
    """Scores of the arcs and other parts of a dependency tree.

    ``arcs`` is as in :class:`TreePotentials`. Trees consist of the candidate arcs in ``lists``,
    and ``parts`` are the scores of the parts that ``lists`` numbers.
    """

    arcs: np.ndarray
    parts: np.ndarray
    lists: PartLists


class ScoredTree(NamedTuple):
    """A tree of n words with its score; ``heads`` is an int64 array of shape (n,)."""

    score: float
    heads: np.ndarray

    @property
    def key(self) -> bytes:
        """The heads as a key of dicts."""
        return self.heads.tobytes()


def best_first(trees: Iterable[ScoredTree]) -> list[ScoredTree]:
    """Sort trees by decreasing score; ties keep their order."""
    return sorted(trees, key=lambda tree: -tree.score)


class SecondOrderTree(TreeStructure):
    """Dependency trees whose scores are sums over arcs, grandparent parts and sibling parts.

    The best tree is NP-hard to find. Hill climbing (Zhang, Lei, Barzilay and Jaakkola 2014, *Greed
    is good if randomized*) improves the best trees of several arc-factored models, by changes of
    single heads and exchanges of two, until none raises the score. Ties go to the first tree found.

    Potentials are :class:`PartPotentials`; see :class:`TreeStructure` for outputs and costs.

    Parameters
    ----------
    single_root : bool
        True: the root has exactly one child, as in Universal Dependencies. False: any number.
    projective : bool
        Restrict trees to projective ones.
    """

    def __init__(self, single_root: bool = True, projective: bool = False) -> None:
        super().__init__(single_root)
        self.projective = bool(projective)
        kind = ProjectiveTree if projective else NonProjectiveTree
        self.first_order: TreeStructure = kind(single_root)

    def over(self, candidates: np.ndarray) -> Potentials:
        lists = PartLists.of(candidates)
        return PartPotentials(np.zeros(candidates.shape), np.zeros(lists.n_parts), lists)

    def decode(self, potentials: Potentials) -> np.ndarray:
        return self._optima(potentials, STARTS)[0].heads

    def decode_best(self, potentials: Potentials, n_best: int) -> tuple[np.ndarray, np.ndarray]:
        """Return up to ``n_best`` good trees, best first; they may not be the best ones.

        They are distinct trees that climbing finds, from several starts, and when one arc of a
        better tree is forbidden (compare Lawler 1972).

        Parameters
        ----------
        potentials : PartPotentials
        n_best : int

        Returns
        -------
        heads : array of shape (m, n), m <= n_best
        scores : array of shape (m,)
        """
        trees = {tree.key: tree for tree in self._optima(potentials, STARTS)}
        varied: set[bytes] = set()
        while True:
            best = best_first(trees.values())[:n_best]
            next_tree = next((tree for tree in best if tree.key not in varied), None)
            if next_tree is None or n_best == 1:
                heads = np.array([tree.heads for tree in best])
                return heads, np.array([tree.score for tree in best])
            varied.add(next_tree.key)
            for word, head in enumerate(next_tree.heads.tolist(), 1):
                others = self.forbidding(potentials, [(head, word)])
                if self.is_possible(others):
                    [tree] = self._optima(others, 1)
                    trees.setdefault(tree.key, tree)

    def _optima(self, potentials: Potentials, n_starts: int) -> list[ScoredTree]:
        """Return the distinct trees that climbing finds, best first.

        It starts from the best trees of the scores of arcs, without noise and with noise.
        """
        arcs, parts, lists = potentials
        scores = arcs[lists.heads, lists.modifiers]
        finite_scores = scores[scores > -np.inf]
        spread = 0.0
        if len(finite_scores):
            spread = NOISE * float(finite_scores.std())
        start = np.full(arcs.shape, -np.inf)
        trees: dict[bytes, ScoredTree] = {}
        for number in range(n_starts):
            start[lists.heads, lists.modifiers] = scores
            if number > 0:
                noise = gumbel_noise(number, len(scores).bit_length())[: len(scores)]
                start[lists.heads, lists.modifiers] += spread * noise
            current = jit.arcs_of(lists, self.first_order.decode(start))
            score = jit.climb(lists, scores, parts, self.single_root, self.projective, current)
            tree = ScoredTree(score, lists.heads[current[1:]])
            trees.setdefault(tree.key, tree)
        return best_first(trees.values())

    def is_possible(self, potentials: Potentials) -> bool:
        arcs, _, lists = potentials
        allowed = np.full(arcs.shape, -np.inf)
        candidates = (lists.heads, lists.modifiers)
        allowed[candidates] = arcs[candidates]
        return self.first_order.is_possible(allowed)

    marginals = Structure.marginals  # sums over trees with parts have no known algorithm

    def arc_probabilities(self, potentials: Potentials) -> np.ndarray:
        """Approximate the probability of every arc, (n + 1, n + 1).

        This is a mixture of the marginals of arcs without other parts, and of the best tree, which
        has the weight :data:`TREE`. On held-out sentences, it has a smaller log loss than either.

        Parameters
        ----------
        potentials : PartPotentials
        """
        marginals = self.first_order.arc_probabilities(potentials.arcs)
        tree = self.first_order.indicator(self.decode(potentials)).arcs
        return (1.0 - TREE) * marginals + TREE * tree

    def settled(self, potentials: Potentials) -> Potentials:
        candidates = np.zeros(potentials.arcs.shape, dtype=bool)
        candidates[self.decode(potentials), np.arange(1, len(candidates))] = True
        return self.over(candidates)._replace(arcs=potentials.arcs)

    def decode_marginals(self, potentials: Potentials) -> np.ndarray:
        allowed = potentials.arcs > -np.inf
        probabilities = self.arc_probabilities(potentials)
        return self.first_order.decode(np.where(allowed, probabilities, -np.inf))

    def parts_of(self, lists: PartLists, output: ArrayLike) -> np.ndarray:
        """Return the count of each part in a tree, (number of parts,).

        Parameters
        ----------
        lists : PartLists
        output : int array of shape (n,)
        """
        return jit.tree_parts(lists, as_heads(output, len(lists.starts) - 2))

    def score(self, potentials: Potentials, output: ArrayLike) -> float:
        arcs, parts, lists = potentials
        return super().score(arcs, output) + float(parts @ self.parts_of(lists, output))

    def difference(
        self, potentials: Potentials, predicted: ArrayLike, gold: ArrayLike
    ) -> tuple[float, Potentials]:
        arcs, parts, lists = potentials
        gap, gradient = super().difference(arcs, predicted, gold)
        counts = self.parts_of(lists, predicted) - self.parts_of(lists, gold)
        return gap + float(parts @ counts), PartPotentials(gradient.arcs, counts, lists)

    def _with_arcs(self, potentials: Potentials, arcs: np.ndarray) -> Potentials:
        return potentials._replace(arcs=arcs)
