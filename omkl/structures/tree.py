"""Dependency trees with or without crossing arcs: spanning arborescences."""

import numpy as np
from numpy.typing import ArrayLike

from omkl.structures import _jit_matrix_tree as matrix_tree
from omkl.structures import _jit_matrix_tree_logs as matrix_tree_in_logs
from omkl.structures import _jit_tree as jit
from omkl.structures.arcs import ArcFactored, as_scores


class NonProjectiveTree(ArcFactored):
    """All dependency trees over n tokens, crossing arcs allowed.

    Decoding takes O(n^2) (Chu and Liu 1965, Edmonds 1967, contracted as in Gabow et al. 1986), also with a single root
    child, which is exact (compare Zmigrod et al. 2020). Marginals take O(n^3), by the Matrix-Tree theorem in a form
    that subtracts nothing (Koo et al. 2007; Grassmann et al. 1985), so they keep their accuracy at any scale of scores.

    Potentials are one array (n + 1, n + 1), see :class:`~omkl.structures.arcs.ArcFactored`. Where the choice is free,
    ties break towards the lower head.

    Parameters
    ----------
    single_root : bool
        Whether the root has exactly one child, as Universal Dependencies demand, or any number of children.
    cost : sequence of float, or callable, optional
        Cost of wrong heads, 1 each by default; see :class:`~omkl.structures.arcs.ArcFactored`.

    Examples
    --------
    >>> scores = np.array([[0.0, 2.0, 5.0, 4.0], [0.0, 0.0, 1.0, 3.0], [0.0, 1.0, 0.0, 3.5], [0.0, 2.5, 0.0, 0.0]])
    >>> NonProjectiveTree().decode(scores)
    array([3, 0, 2])
    >>> NonProjectiveTree(single_root=False).decode(scores)
    array([3, 0, 0])
    >>> log_partition, expected = NonProjectiveTree().marginals(np.zeros((4, 4)))
    >>> round(float(np.exp(log_partition)))
    9
    """

    def decode(self, potentials: ArrayLike) -> np.ndarray:
        scores = as_scores(potentials)
        heads = np.empty(len(scores) - 1, np.int64)
        if jit.decode(scores, self.single_root, heads) != jit.FOUND:
            raise self._refusal(scores)
        return heads

    def marginals(self, potentials: ArrayLike) -> tuple[float, np.ndarray]:
        """Log-partition function, and the probability of every arc, (n + 1, n + 1)."""
        scores = as_scores(potentials)
        expected = np.zeros(scores.shape)
        log_partition = matrix_tree.marginals(scores, self.single_root, expected)
        if np.isnan(log_partition):
            log_partition = matrix_tree_in_logs.marginals(scores, self.single_root, expected)
        if not np.isfinite(log_partition):
            raise self._refusal(scores)
        return log_partition, expected

    def log_count(self, size: int) -> float:
        """Logarithm of the number of trees: (n + 1)^(n - 1), or n^(n - 1) with one root child (Cayley 1889)."""
        return (size - 1) * np.log(size if self.single_root else size + 1)
