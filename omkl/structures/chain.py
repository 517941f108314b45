"""First-order chains: sequence labeling."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.structures import _jit_chain as jit
from omkl.structures._jit_n_best import n_best_labellings
from omkl.structures.transitions import AllowedTransitions


class ChainPotentials(NamedTuple):
    """Scores of the parts of a labelling.

    ``unary`` (n, K) scores label ``k`` at position ``t``. ``pairwise`` scores label ``i`` followed by ``j``: (K, K)
    or (1, K, K) where all positions share their transitions, (n - 1, K, K) where each has its own, (0, K, K) where
    there are none. A score of -inf forbids a part.
    """

    unary: np.ndarray
    pairwise: np.ndarray


AnyPotentials: TypeAlias = ChainPotentials | tuple[ArrayLike, ArrayLike]


class Chain:
    """A first-order chain over K labels, of any length n >= 1.

    Decoding and marginals take O(n K^2), or O(n K) without transitions. Wherever potentials are asked for, any pair
    ``(unary, pairwise)`` of arrays is accepted; see :class:`ChainPotentials` for the shapes. A gold label of -1 is not
    known: it costs nothing, and any label agrees with it.

    Parameters
    ----------
    n_labels : int
        Number of labels K >= 1; an output is an array of n integers in ``0 .. K-1``.
    cost : array of shape (K, K), optional
        ``cost[gold, predicted] >= 0`` of one position, with a zero diagonal. The Hamming cost (1 for every wrong
        label) by default.
    by_position : bool
        Whether ``zeros`` makes room for transitions of each position's own.
    linked : bool
        Whether ``zeros`` makes room for transitions.
    allowed : AllowedTransitions, optional
        Other labellings are never decoded, and have no probability.

    Examples
    --------
    >>> unary = np.array([[2.0, 0.0], [0.0, 1.0], [0.9, 1.0]])
    >>> staying = np.array([[0.5, 0.0], [0.0, 0.5]])
    >>> Chain(2).decode((unary, staying))
    array([0, 1, 1])
    """

    def __init__(
        self, n_labels: int, cost: ArrayLike | None = None, by_position: bool = False, linked: bool = True,
        allowed: AllowedTransitions | None = None,
    ) -> None:  # fmt: skip
        if n_labels < 1:
            raise InputError(f"A chain needs at least one label, not {n_labels}.")
        self.n_labels = int(n_labels)
        self.by_position = bool(by_position)
        self.linked = bool(linked)
        self.allowed = allowed
        self._forbidden: Any = None if allowed is None else np.where(allowed.following, 0.0, -np.inf)[None]
        self.costs = check_costs(cost, self.n_labels)

    def zeros(self, size: int) -> ChainPotentials:
        """Potentials of ``size`` positions, all zero."""
        edges = (max(size - 1, 1) if self.by_position else 1) if self.linked else 0
        shape = (edges, self.n_labels, self.n_labels)
        return ChainPotentials(np.zeros((size, self.n_labels)), np.zeros(shape))

    def part(self, potentials: ChainPotentials, low: int, high: int) -> ChainPotentials:
        """The potentials of the sequence at ``low : high`` of concatenated ones."""
        pairwise = potentials.pairwise[low : max(high - 1, low + 1)] if self.by_position else potentials.pairwise
        return ChainPotentials(potentials.unary[low:high], pairwise)

    def decode(self, potentials: AnyPotentials) -> np.ndarray:
        """Labels of the highest score, (n,); ties break towards lower labels."""
        unary, pairwise = self._within_allowed(_three_dimensional(potentials))
        labels = np.empty(len(unary), np.int64)
        jit.viterbi(unary, pairwise, self.costs, labels, 0.0, labels)
        return labels

    def decode_many(self, potentials: AnyPotentials, offsets: np.ndarray) -> np.ndarray:
        """Decode the sequences ``offsets[s] : offsets[s+1]`` of concatenated potentials at once."""
        unary, pairwise = self._within_allowed(_three_dimensional(potentials), offsets)
        labels = np.empty(len(unary), np.int64)
        jit.viterbi_many(unary, pairwise, offsets, self.costs, labels)
        return labels

    def decode_best(self, potentials: AnyPotentials, n_best: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``n_best`` labellings of the highest scores, best first, fewer where there are not so many.

        Returns
        -------
        labels : array of shape (m, n), m <= n_best
        scores : array of shape (m,)
        """
        unary, pairwise = self._within_allowed(_three_dimensional(potentials))
        labels, scores = np.empty((n_best, len(unary)), np.int64), np.empty(n_best)
        found = n_best_labellings(unary, pairwise, labels, scores)
        return labels[:found], scores[:found]

    def loss_augmented(self, potentials: AnyPotentials, gold: np.ndarray, cost_weight: float = 1.0) -> np.ndarray:
        """Labels of the highest score plus ``cost_weight`` times their cost, (n,)."""
        unary, pairwise = self._within_allowed(_three_dimensional(potentials))
        labels = np.empty(len(unary), np.int64)
        jit.viterbi(unary, pairwise, self.costs, gold, cost_weight, labels)
        return labels

    def is_partial(self, gold: np.ndarray) -> bool:
        """Whether the label of a position is not known."""
        return jit.is_partial(gold)

    def agreeing(self, potentials: AnyPotentials, gold: np.ndarray) -> ChainPotentials:
        """Potentials that forbid what disagrees with the known labels of ``gold``.

        Parameters
        ----------
        potentials : ChainPotentials
        gold : int array of shape (n,), or bool array of shape (n, K)
            A label, or -1, for each position; or which labels it may have.
        """
        unary, pairwise = _three_dimensional(potentials)
        if gold.ndim == 2:
            return ChainPotentials(np.where(gold, unary, -np.inf), pairwise)
        unary = unary.copy()
        jit.keep_known(unary, gold)
        return ChainPotentials(unary, pairwise)

    def difference(
        self, potentials: AnyPotentials, predicted: np.ndarray, gold: np.ndarray
    ) -> tuple[float, ChainPotentials]:
        """Score of ``predicted`` minus that of ``gold``, and the difference of their indicators."""
        unary, pairwise = _three_dimensional(potentials)
        gradient = ChainPotentials(np.zeros(unary.shape), np.zeros(pairwise.shape))
        gap = jit.difference(unary, pairwise, predicted, gold, *gradient)
        return gap, _shaped_like(potentials, gradient)

    def marginals(self, potentials: AnyPotentials) -> tuple[float, ChainPotentials]:
        """Log-partition function, and the probability of every label and pair of labels.

        Raises
        ------
        omkl.exceptions.InputError
            If no labelling is allowed.
        """
        given = _three_dimensional(potentials)
        unary, pairwise = self._within_allowed(given)
        expected = ChainPotentials(np.empty(unary.shape), np.empty(pairwise.shape))
        if not len(pairwise):
            return jit.softmax(unary, expected.unary), expected
        log_partition = jit.forward_backward(unary, pairwise, *expected)
        if not np.isfinite(log_partition):
            log_partition = jit.forward_backward_in_logs(unary, pairwise, *expected)
        if log_partition == -np.inf:
            raise InputError("No labelling is allowed: the constraints contradict each other.")
        if len(pairwise) != len(given.pairwise):
            expected = ChainPotentials(expected.unary, given.pairwise)
        return log_partition, _shaped_like(potentials, expected)

    def _within_allowed(self, potentials: ChainPotentials, offsets: np.ndarray | None = None) -> ChainPotentials:
        """Potentials of one sequence, or of those at ``offsets``, that forbid what transitions do not allow."""
        if self.allowed is None or not len(potentials.unary):
            return potentials
        unary, pairwise = potentials.unary.copy(), potentials.pairwise
        begins, ends = (0, -1) if offsets is None else _ends(offsets)
        unary[begins] = np.where(self.allowed.first, unary[begins], -np.inf)
        unary[ends] = np.where(self.allowed.last, unary[ends], -np.inf)
        return ChainPotentials(unary, pairwise + self._forbidden if len(pairwise) else self._forbidden)

    def subtract_indicator(self, potentials: AnyPotentials, output: np.ndarray) -> None:
        """Subtract the labelling's :meth:`indicator` in place."""
        jit.add_indicator(*_three_dimensional(potentials), output, -1.0)

    def indicator(self, output: ArrayLike) -> ChainPotentials:
        """How often each label and pair of labels occurs."""
        labels = np.asarray(output, dtype=np.int64)
        counts = self.zeros(len(labels))
        jit.add_indicator(*counts, labels, 1.0)
        return counts

    def score(self, potentials: AnyPotentials, output: ArrayLike) -> float:
        """Sum of the potentials of the labelling."""
        return jit.score_labels(*_three_dimensional(potentials), np.asarray(output, dtype=np.int64))

    def cost(self, gold: ArrayLike, predicted: ArrayLike) -> float:
        """Sum over positions of what it costs to predict the one label where the other is right."""
        return jit.total_cost(self.costs, np.asarray(gold, dtype=np.int64), np.asarray(predicted, dtype=np.int64))


def check_costs(cost: ArrayLike | None, n_labels: int) -> np.ndarray:
    """A validated (K, K) cost matrix; the Hamming cost for ``None``."""
    if cost is None:
        return 1.0 - np.eye(n_labels)
    try:
        costs = np.array(cost, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"cost must be a matrix of numbers, one row a gold label, not {cost!r}.") from None
    if costs.shape != (n_labels, n_labels):
        raise InputError(f"cost must be a ({n_labels}, {n_labels}) matrix, one row a gold label, not {costs.shape}.")
    if not np.all(np.isfinite(costs)) or np.any(costs < 0) or np.any(np.diag(costs) != 0):
        raise InputError("cost must hold finite numbers >= 0 with zeros on its diagonal.")
    return costs


def _ends(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the first and of the last token of each sequence that has any."""
    some = np.diff(offsets) > 0
    return offsets[:-1][some], offsets[1:][some] - 1


def _three_dimensional(potentials: AnyPotentials) -> ChainPotentials:
    unary, pairwise = potentials
    if type(unary) is not np.ndarray or unary.dtype != np.float64:
        unary = np.ascontiguousarray(unary, dtype=np.float64)
    if type(pairwise) is not np.ndarray or pairwise.dtype != np.float64 or pairwise.ndim != 3:
        pairwise = np.ascontiguousarray(pairwise, dtype=np.float64)
        pairwise = pairwise.reshape(-1, *pairwise.shape[-2:])
    return ChainPotentials(unary, pairwise)


def _shaped_like(potentials: AnyPotentials, result: ChainPotentials) -> ChainPotentials:
    """The result with two-dimensional transitions where the potentials had such."""
    return result if np.ndim(potentials[1]) == 3 else ChainPotentials(result.unary, result.pairwise[0])
