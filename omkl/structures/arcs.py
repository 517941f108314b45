"""What dependency trees have in common: scores that are sums over arcs."""

import numpy as np

from omkl.exceptions import InputError
from omkl.structures import _jit_arcs as jit


class ArcFactored:
    """Dependency trees over n >= 1 tokens, scored arc by arc: the base of the tree structures.

    Potentials are one array ``S`` of shape (n + 1, n + 1): ``S[h, m]`` scores the arc from the head ``h`` to the
    modifier ``m``, and index 0 is the artificial root. Column 0 and the diagonal are ignored, and 0 in every gradient.
    A score of -inf forbids its arc; nan and +inf are refused. An output is an int64 array of n heads: ``heads[i]`` is
    the head of token ``i + 1``, 0 for a child of the root.

    Parameters
    ----------
    single_root : bool
        Whether the root has exactly one child, as Universal Dependencies demand, or any number of children.
    """

    def __init__(self, single_root=True):
        self.single_root = bool(single_root)

    def __repr__(self):
        return f"{type(self).__name__}(single_root={self.single_root})"

    def zeros(self, size):
        return np.zeros((size + 1, size + 1))

    def difference(self, potentials, predicted, gold):
        scores = as_scores(potentials)
        gradient = np.zeros(scores.shape)
        n = len(scores) - 1
        return jit.difference(scores, as_heads(predicted, n), as_heads(gold, n), gradient), gradient

    def subtract_indicator(self, potentials, output):
        jit.add_indicator(potentials, as_heads(output, len(potentials) - 1), -1.0)

    def indicator(self, output):
        counts = self.zeros(len(output))
        jit.add_indicator(counts, as_heads(output, len(output)), 1.0)
        return counts

    def score(self, potentials, output):
        scores = as_scores(potentials)
        return jit.score(scores, as_heads(output, len(scores) - 1))

    def largest_cost(self, size):
        return float(size)

    def cost(self, gold, predicted):
        return float(jit.wrong_heads(as_heads(gold, len(gold)), as_heads(predicted, len(gold))))

    def _refusal(self, scores):
        """The error that says why no tree came of these scores."""
        n = len(scores) - 1
        arcs = scores[:, 1:][np.arange(n + 1)[:, None] != np.arange(1, n + 1)]
        if not np.all(arcs < np.inf):
            return InputError("Arc scores must be finite or -inf (a forbidden arc), but some are nan or +inf.")
        children = "one child" if self.single_root else "any number of children"
        return InputError(
            f"No tree over these {n} tokens, with {children} of the root, avoids the arcs whose score is -inf."
        )


def as_scores(potentials):
    """A square float64 array, as the jitted loops take it: the very same one if it is such."""
    if type(potentials) is np.ndarray and potentials.dtype == np.float64 and potentials.flags.c_contiguous:
        scores = potentials
    else:
        scores = np.ascontiguousarray(potentials, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or scores.shape[0] < 2:
        raise InputError(f"Arc scores must be an (n + 1, n + 1) array of n >= 1 tokens, not of shape {scores.shape}.")
    return scores


def as_heads(output, n):
    """An int64 array of n heads in 0 .. n."""
    heads = output
    if type(heads) is not np.ndarray or heads.dtype != np.int64 or heads.ndim != 1:
        heads = np.asarray(output)
        if heads.ndim != 1 or heads.dtype.kind not in "iu":
            raise InputError(f"A tree over {n} tokens is a vector of {n} integer heads, not {output!r}.")
        heads = heads.astype(np.int64)
    if not jit.are_heads(heads, n):
        raise InputError(f"A tree over {n} tokens is {n} heads in 0 .. {n}, none its own head, not {heads.tolist()}.")
    return heads
