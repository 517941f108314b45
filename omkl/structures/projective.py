"""Dependency trees without crossing arcs."""

from math import lgamma, log

import numpy as np
from numpy.typing import ArrayLike

from omkl.structures import _jit_projective as jit
from omkl.structures.arcs import ArcFactored, as_scores


class ProjectiveTree(ArcFactored):
    """Projective dependency trees over n tokens: each head and its descendants are a range of tokens.

    Decoding is Eisner's (1996) dynamic program, and marginals are its inside-outside; both take O(n^3), and a single
    root child is exact. A gold tree that is not projective is never decoded, so a loss of it need not reach 0.

    Potentials are one array (n + 1, n + 1), see :class:`~omkl.structures.arcs.ArcFactored`. Where the choice is free,
    the split of a span further to the left wins.

    Parameters
    ----------
    single_root : bool
        Whether the root has exactly one child, as Universal Dependencies demand, or any number of children.
    cost : sequence of float, or callable, optional
        Cost of wrong heads, 1 each by default; see :class:`~omkl.structures.arcs.ArcFactored`.

    Examples
    --------
    >>> scores = np.array([[0.0, 2.0, 5.0, 4.0], [0.0, 0.0, 1.0, 3.0], [0.0, 1.0, 0.0, 3.5], [0.0, 2.5, 0.0, 0.0]])
    >>> ProjectiveTree().decode(scores)
    array([2, 0, 2])
    >>> log_partition, expected = ProjectiveTree().marginals(np.zeros((4, 4)))
    >>> round(float(np.exp(log_partition)))
    7
    """

    def decode(self, potentials: ArrayLike) -> np.ndarray:
        scores = as_scores(potentials)
        heads = np.empty(len(scores) - 1, np.int64)
        if not jit.decode(scores, self.single_root, heads):
            raise self._refusal(scores)
        return heads

    def marginals(self, potentials: ArrayLike) -> tuple[float, np.ndarray]:
        """Log-partition function, and the probability of every arc, (n + 1, n + 1)."""
        scores = as_scores(potentials)
        expected = np.zeros(scores.shape)
        log_partition = jit.marginals(scores, self.single_root, expected)
        if not np.isfinite(log_partition):
            raise self._refusal(scores)
        return log_partition, expected

    def log_count(self, size: int) -> float:
        """Logarithm of the number of projective trees (as of noncrossing trees: Noy 1998; Deutsch and Noy 2002).

        binom(3n, n) / (2n + 1) with any number of root children, binom(3n - 2, n - 1) / n with one.
        """
        if self.single_root:
            return _log_binomial(3 * size - 2, size - 1) - log(size)
        return _log_binomial(3 * size, size) - log(2 * size + 1)


def _log_binomial(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
