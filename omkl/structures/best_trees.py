"""The n best trees of a dense score matrix."""

from collections.abc import Callable
from itertools import count

import numpy as np


def best_trees(find: Callable[[np.ndarray, np.ndarray], bool], scores: np.ndarray, n_best: int) -> list[np.ndarray]:
    """Return the trees of the highest scores, best first, by Lawler's (1972) partition.

    All other trees are divided by the first token whose head differs from that in the best tree: the heads before that
    token are required, and its own is forbidden. The best tree of each part is decoded. A part is divided further when
    its best tree is the next one. That takes n decodings for each tree.

    Parameters
    ----------
    find : callable
        ``find(scores, heads)`` writes the heads of the best tree, and returns False if there is none.
    scores : array of shape (n + 1, n + 1)
    n_best : int

    Returns
    -------
    list of int arrays (n,)
        At most ``n_best``, fewer where there are not so many trees.
    """
    n = len(scores) - 1
    tokens = np.arange(1, n + 1)
    met = count()  # equal trees come in the order in which they are found
    waiting: dict[tuple, tuple] = {}
    found: list[np.ndarray] = []

    def consider(allowed: np.ndarray, n_fixed: int) -> None:
        heads = np.empty(n, np.int64)
        if not find(allowed, heads):
            return
        rank = -scores[heads, tokens].sum(), next(met)
        if len(waiting) >= n_best - len(found):  # the worst of them is not among the n best
            if rank > max(waiting):
                return
            del waiting[max(waiting)]
        waiting[rank] = heads, n_fixed, allowed.copy()

    consider(scores, 0)
    while waiting:
        heads, n_fixed, allowed = waiting.pop(min(waiting))
        found.append(heads)
        for i in range(n_fixed, n if len(found) < n_best else 0):
            own = allowed[heads[i], i + 1]
            allowed[heads[i], i + 1] = -np.inf
            consider(allowed, i)
            allowed[:, i + 1] = -np.inf
            allowed[heads[i], i + 1] = own
    return found
