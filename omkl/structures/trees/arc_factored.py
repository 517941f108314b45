"""Dependency trees, with or without crossing arcs, whose scores and costs are sums over arcs."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.structures.base import Potentials, Structure, best_outputs
from omkl.structures.trees import _jit_matrix_tree, _jit_projective
from omkl.structures.trees import _jit_tree as jit


class TreePotentials(NamedTuple):
    """Scores of the parts of a dependency tree of n words.

    ``arcs[h, m]``, (n + 1, n + 1), scores the arc from the head ``h`` to the modifier ``m``; index
    0 is the artificial root. Column 0 and the diagonal are ignored; they are 0 in gradients. A
    score of -inf forbids its arc.
    """

    arcs: np.ndarray


class TreePrograms(NamedTuple):
    """Functions of arc scores (n + 1, n + 1) for one kind of trees.

    Attributes
    ----------
    find : callable
        ``find(scores, single_root, heads)`` writes the heads of the best tree; it returns False if
        there is none.
    total : callable
        ``total(scores, single_root, expected)`` writes the probabilities of arcs into zeros, and
        returns log Z, not finite if there is no tree or numbers underflow.
    total_in_logs : callable
        The same for scores of any magnitude, ``total_in_logs(scores, best, single_root,
        expected)``, given the heads of the best tree.
    """

    find: Callable[[np.ndarray, bool, np.ndarray], bool]
    total: Callable[[np.ndarray, bool, np.ndarray], float]
    total_in_logs: Callable[[np.ndarray, np.ndarray, bool, np.ndarray], float]


#: Accepted potentials: a bare array holds the scores of arcs.
AnyPotentials: TypeAlias = TreePotentials | ArrayLike


class TreeStructure(Structure):
    """Base of the structures of dependency trees over n >= 1 tokens.

    Here, scores are sums over arcs.

    Potentials are :class:`TreePotentials`, or an array of the scores of arcs. An output is an int64
    array of n heads: ``heads[i]`` is the head of token ``i + 1``, 0 for a child of the root. Every
    wrong head costs 1. A gold head of -1 is unknown: it costs nothing, and any head agrees with it.

    Parameters
    ----------
    single_root : bool
        True: the root has exactly one child, as in Universal Dependencies. False: any number.
    """

    programs: ClassVar[TreePrograms]
    takes_partial = True

    def __init__(self, single_root: bool = True) -> None:
        self.single_root = bool(single_root)

    def __repr__(self) -> str:
        arguments = [f"{name}={value}" for name, value in self.parameters().items()]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def zeros(self, size: int) -> TreePotentials:
        return TreePotentials(np.zeros((size + 1, size + 1)))

    def over(self, candidates: np.ndarray) -> Any:
        """Return potentials of zero that allow only some arcs.

        Parameters
        ----------
        candidates : bool array of shape (n + 1, n + 1)
        """
        return TreePotentials(np.where(candidates, 0.0, -np.inf))

    def size_of(self, potentials: AnyPotentials) -> int:
        """Return the number of tokens.

        Parameters
        ----------
        potentials : TreePotentials or array of shape (n + 1, n + 1)
        """
        return len(as_scores(potentials)) - 1

    def decode(self, potentials: AnyPotentials) -> np.ndarray:
        scores = as_scores(potentials)
        heads = self._best_heads(scores)
        if heads is None:
            raise self._refusal(scores)
        return heads

    def _best_heads(self, scores: np.ndarray) -> np.ndarray | None:
        """Return the heads of the best tree, (n,), for scores (n + 1, n + 1); None without any."""
        heads = np.empty(len(scores) - 1, np.int64)
        return heads if self.programs.find(scores, self.single_root, heads) else None

    def decode_best(self, potentials: AnyPotentials, n_best: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ``n_best`` trees of the highest scores, best first, or all if there are fewer.

        This takes n decodings for each tree; see :func:`~omkl.structures.base.best_outputs`.

        Parameters
        ----------
        potentials : TreePotentials or array of shape (n + 1, n + 1)
        n_best : int

        Returns
        -------
        heads : array of shape (m, n), m <= n_best
        scores : array of shape (m,)
        """
        scores = as_scores(potentials)
        tokens = np.arange(1, len(scores))

        def solve(allowed: np.ndarray) -> tuple[np.ndarray, float]:
            heads = self._best_heads(allowed)
            if heads is None:
                return tokens, -np.inf
            return heads, scores[heads, tokens].sum()

        trees, scores_of_trees = best_outputs(scores, n_best, solve, first=1)
        if not len(trees):
            raise self._refusal(scores)
        return trees, scores_of_trees

    def decode_marginals(self, potentials: AnyPotentials) -> np.ndarray:
        """Return the heads of the tree with the largest expected number of correct heads, (n,).

        This is minimum-risk decoding (Smith and Smith 2007): the marginals of the tree's arcs have
        the largest sum.

        Parameters
        ----------
        potentials : TreePotentials or array of shape (n + 1, n + 1)
        """
        scores = as_scores(potentials)
        expected = self.arc_probabilities(scores)
        return self.decode(np.where(scores > -np.inf, expected, -np.inf))

    def is_possible(self, potentials: AnyPotentials) -> bool:
        """Return True if there is a tree without forbidden arcs.

        Parameters
        ----------
        potentials : TreePotentials or array of shape (n + 1, n + 1)
        """
        return self._best_heads(as_scores(potentials)) is not None

    def agreeing(self, potentials: AnyPotentials, gold: ArrayLike) -> TreePotentials:
        scores = as_scores(potentials)
        arcs = known_arcs(np.asarray(gold))
        agreeing_scores = scores.copy()
        agreeing_scores[:, arcs[1]] = -np.inf
        agreeing_scores[arcs] = scores[arcs]
        return self._with_arcs(potentials, agreeing_scores)

    def forbidding(
        self, potentials: AnyPotentials, arcs: Iterable[tuple[int, int]]
    ) -> TreePotentials:
        """Return potentials that also forbid these arcs.

        Parameters
        ----------
        potentials : TreePotentials or array of shape (n + 1, n + 1)
        arcs : iterable of (head, modifier)
        """
        scores = as_scores(potentials).copy()
        for head, modifier in arcs:
            scores[head, modifier] = -np.inf
        return self._with_arcs(potentials, scores)

    def marginals(self, potentials: AnyPotentials) -> tuple[float, TreePotentials]:
        scores = as_scores(potentials)
        expected = np.zeros(scores.shape)
        log_partition = self.programs.total(scores, self.single_root, expected)
        if not np.isfinite(log_partition):
            expected = np.zeros(scores.shape)
            best = self.decode(scores)
            log_partition = self.programs.total_in_logs(scores, best, self.single_root, expected)
        return log_partition, TreePotentials(expected)

    def arc_probabilities(self, potentials: AnyPotentials) -> np.ndarray:
        """Return the probability of every arc, (n + 1, n + 1).

        Parameters
        ----------
        potentials : TreePotentials or array of shape (n + 1, n + 1)
        """
        return self.marginals(potentials)[1].arcs

    def settled(self, potentials: AnyPotentials) -> Any:
        """Return potentials from which the same probabilities of arcs are faster to compute.

        Parameters
        ----------
        potentials : TreePotentials or array of shape (n + 1, n + 1)
        """
        return potentials

    def known_marginals(self, potentials: AnyPotentials, gold: ArrayLike) -> np.ndarray:
        return self.arc_probabilities(potentials)[known_arcs(np.asarray(gold))]

    def cost_augmented(
        self, potentials: AnyPotentials, gold: ArrayLike, cost_weight: float = 1.0
    ) -> TreePotentials:
        augmented = as_scores(potentials).copy()
        heads = as_heads(gold, len(augmented) - 1, partial=True)
        # lowering the scores of gold arcs is equivalent to raising all others
        _add(augmented, heads, -float(cost_weight))
        return self._with_arcs(potentials, augmented)

    def _with_arcs(self, potentials: AnyPotentials, arcs: np.ndarray) -> Any:
        """Return potentials with other scores of arcs."""
        return TreePotentials(arcs)

    def difference(
        self, potentials: AnyPotentials, predicted: ArrayLike, gold: ArrayLike
    ) -> tuple[float, Potentials]:
        scores = as_scores(potentials)
        gradient = np.zeros(scores.shape)
        n = len(scores) - 1
        predicted_heads = as_heads(predicted, n)
        gold_heads = as_heads(gold, n)
        _add(gradient, predicted_heads, 1.0)
        _add(gradient, gold_heads, -1.0)
        gap = _score(scores, predicted_heads) - _score(scores, gold_heads)
        return gap, TreePotentials(gradient)

    def subtract_indicator(self, potentials: AnyPotentials, output: ArrayLike) -> None:
        # the array itself, whatever its type and order
        scores = np.asarray(getattr(potentials, "arcs", potentials))
        _add(scores, as_heads(output, len(scores) - 1), -1.0)

    def indicator(self, output: ArrayLike) -> TreePotentials:
        counts = self.zeros(np.size(output))
        _add(counts.arcs, as_heads(output, np.size(output)), 1.0)
        return counts

    def score(self, potentials: AnyPotentials, output: ArrayLike) -> float:
        scores = as_scores(potentials)
        return _score(scores, as_heads(output, len(scores) - 1))

    def cost(self, gold: ArrayLike, predicted: ArrayLike) -> float:
        gold_heads = as_heads(gold, np.size(gold), partial=True)
        heads = as_heads(predicted, len(gold_heads))
        is_wrong = (gold_heads >= 0) & (gold_heads != heads)
        return float(np.count_nonzero(is_wrong))

    def _refusal(self, scores: np.ndarray) -> InputError:
        """Return the error that explains why there is no tree."""
        n = len(scores) - 1
        arcs = scores[:, 1:][np.arange(n + 1)[:, None] != np.arange(1, n + 1)]
        if not np.all(arcs < np.inf):
            return InputError(
                "Arc scores must be finite or -inf (a forbidden arc), but some are nan or +inf."
            )
        children = "any number of children"
        if self.single_root:
            children = "one child"
        return InputError(
            f"No tree over these {n} tokens, with {children} of the root, avoids the arcs whose "
            "score is -inf."
        )


def _maximum_arborescence(scores: np.ndarray, single_root: bool, heads: np.ndarray) -> bool:
    """Write the heads (n,) of the best tree for scores (n + 1, n + 1); return whether there is one.

    There is none if a score is nan or +inf.
    """
    source = np.empty(len(scores), np.int64)
    state = jit.best_heads(scores, single_root, source, heads)
    if state == jit.CYCLE:
        return bool(jit.contract(scores, single_root, source, heads))
    # if the best heads form a tree, no tree is better
    return bool(state == jit.TREE)


class NonProjectiveTree(TreeStructure):
    """All dependency trees over n tokens, crossing arcs allowed.

    Decoding takes O(n^2) (Chu and Liu 1965, Edmonds 1967, contracted as in Gabow et al. 1986), and
    is exact for a single root child (compare Zmigrod et al. 2020). Marginals take O(n^3), by the
    Matrix-Tree theorem in a form without subtractions (Koo et al. 2007; Grassmann et al. 1985), so
    they keep their accuracy at any scale of scores.

    See :class:`TreeStructure` for potentials. Ties break towards the lower head.

    Parameters
    ----------
    single_root : bool
        True: the root has exactly one child, as in Universal Dependencies. False: any number.

    Examples
    --------
    >>> scores = np.zeros((4, 4))
    >>> scores[0, 1:] = 2.0, 5.0, 4.0
    >>> scores[1, 2:] = 1.0, 3.0
    >>> scores[2, 1], scores[2, 3], scores[3, 1] = 1.0, 3.5, 2.5
    >>> NonProjectiveTree().decode(scores)
    array([3, 0, 2])
    >>> NonProjectiveTree(single_root=False).decode(scores)
    array([3, 0, 0])
    >>> log_partition, expected = NonProjectiveTree().marginals(np.zeros((4, 4)))
    >>> round(float(np.exp(log_partition)))
    9
    """

    programs = TreePrograms(
        _maximum_arborescence, _jit_matrix_tree.marginals, _jit_matrix_tree.marginals_in_logs
    )


class ProjectiveTree(TreeStructure):
    """Projective dependency trees over n tokens.

    Each head and its descendants are a range of tokens. Decoding is Eisner's (1996) dynamic
    program, and marginals are its inside-outside; both take O(n^3), and a single root child is
    exact. A gold tree that is not projective is never decoded, so its loss may not reach 0.

    See :class:`TreeStructure` for potentials. Ties go to the tree whose spans split further to the
    left.

    Parameters
    ----------
    single_root : bool
        True: the root has exactly one child, as in Universal Dependencies. False: any number.

    Examples
    --------
    >>> scores = np.zeros((4, 4))
    >>> scores[0, 1:] = 2.0, 5.0, 4.0
    >>> scores[1, 2:] = 1.0, 3.0
    >>> scores[2, 1], scores[2, 3], scores[3, 1] = 1.0, 3.5, 2.5
    >>> ProjectiveTree().decode(scores)
    array([2, 0, 2])
    >>> log_partition, expected = ProjectiveTree().marginals(np.zeros((4, 4)))
    >>> round(float(np.exp(log_partition)))
    7
    """

    programs = TreePrograms(
        _jit_projective.decode, _jit_projective.marginals, _jit_projective.marginals_in_logs
    )


def as_scores(potentials: AnyPotentials) -> np.ndarray:
    """Return arc scores as a square float64 array, without a copy if they already are one."""
    scores = np.ascontiguousarray(getattr(potentials, "arcs", potentials), dtype=np.float64)
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or scores.shape[0] < 2:
        raise InputError(
            "Arc scores must be an (n + 1, n + 1) array of n >= 1 tokens, not of shape "
            f"{scores.shape}."
        )
    return scores


def as_heads(output: ArrayLike, n: int, partial: bool = False) -> np.ndarray:
    """Return an int64 array of n heads in 0 .. n, or -1 if ``partial``."""
    heads = np.asarray(output)
    is_vector = heads.ndim == 1 and heads.dtype.kind in "iu" and len(heads) == n
    heads = heads.astype(np.int64, copy=False)
    least = -1 if partial else 0
    fits = is_vector and ((least <= heads) & (heads <= n) & (heads != np.arange(1, n + 1))).all()
    if not fits:
        raise InputError(
            f"A tree over {n} tokens must be {n} heads in 0 .. {n}, none its own, not "
            f"{output!r:.80}."
        )
    return heads


def known_arcs(heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return heads and modifiers of words with a head >= 0, an index of scores of arcs."""
    words = np.flatnonzero(heads >= 0)
    return heads[words], words + 1


def _score(scores: np.ndarray, heads: np.ndarray) -> float:
    """Return the sum of the scores of the arcs of a tree."""
    return float(scores[heads, np.arange(1, len(scores))].sum())


def _add(scores: np.ndarray, heads: np.ndarray, amount: float) -> None:
    """Add an amount to every known arc of a tree."""
    scores[known_arcs(heads)] += amount
