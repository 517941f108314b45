"""Arithmetic of the test of groups on new examples; see :class:`omkl.online.evidence.Evidence`."""

from typing import NamedTuple

import numpy as np

from omkl._compilation import compiled

#: The first examples are all tested on. Each time their number doubles from then on, the sampling rate is halved.
ALL_UP_TO = 1024
#: Time constant, in positions, of the moving averages of potentials.
MEMORY = 100
#: Counts: examples of the sample, of all examples, and positions in the moving averages.
SAMPLED, MET, POSITIONS, N_COUNTS = range(4)


class EvidenceArrays(NamedTuple):
    """Sums and squares of the evidence (p,), moving sums of potentials and of the gradient (p + 1, K), and counts."""

    sums: np.ndarray
    squares: np.ndarray
    totals: np.ndarray
    counts: np.ndarray


@compiled
def is_sampled(counts):
    """Count an example; return whether it is one of the sample."""
    counts[MET] += 1
    stride = 1
    while stride * ALL_UP_TO < counts[MET]:
        stride *= 2
    if counts[MET] % stride == 0:
        counts[SAMPLED] += 1
        return True
    return False


@compiled
def add_slopes(arrays, slopes, potentials, gradient, weight):
    """Subtract the slopes (p,) of an example from the evidence; potentials of labels are taken relative to their means.

    ``potentials`` (p, K) are sums over the n positions, and ``gradient`` is (n, K); K = 0 without labels.
    """
    sums, squares, totals, counts = arrays
    p, n, n_labels = slopes.shape[0], gradient.shape[0], gradient.shape[1]
    whole, positions = np.empty(n_labels), max(counts[POSITIONS], 1.0)
    for j in range(n_labels):
        whole[j] = 0.0
        for i in range(n):
            whole[j] += gradient[i, j]
    for k in range(p):
        owed, some = 0.0, False
        for j in range(n_labels):
            owed += totals[k, j] / positions * (whole[j] - n * totals[p, j] / positions)
            owed += potentials[k, j] * totals[p, j] / positions
            some |= potentials[k, j] != 0.0
        evidence = -weight * (slopes[k] - (owed if some else 0.0))
        sums[k] += evidence
        squares[k] += evidence**2
    kept = (1.0 - 1.0 / MEMORY) ** n
    counts[POSITIONS] = kept * counts[POSITIONS] + n
    for j in range(n_labels):
        for k in range(p):
            totals[k, j] = kept * totals[k, j] + potentials[k, j]
        totals[p, j] = kept * totals[p, j] + whole[j]
