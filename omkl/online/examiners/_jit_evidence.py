"""Arithmetic of the test of groups; see :class:`omkl.online.examiners.evidence.Evidence`."""

from typing import NamedTuple

import numpy as np

from omkl._compilation import compiled
from omkl._pointers import MATRIX, Layout

#: The first examples are all tested on. Each time their number doubles from then on, the sampling
#: rate is halved.
ALL_UP_TO = 1024
#: Time constant, in positions, of the moving averages of potentials.
MEMORY = 100
#: Counts: examples of the sample, of all examples, and positions in the moving averages.
SAMPLED, MET, POSITIONS, N_COUNTS = range(4)


class EvidenceArrays(NamedTuple):
    """Arrays of the test."""

    #: Sums of the evidence, and of its squares, (p,).
    sums: np.ndarray
    squares: np.ndarray
    #: Moving sums of potentials, and in the last row of the gradient, (p + 1, K).
    totals: np.ndarray
    #: Numbers at the positions above.
    counts: np.ndarray


EVIDENCE = Layout(EvidenceArrays, totals=MATRIX)
evidence_at = EVIDENCE.at


@compiled(counting=False)
def is_sampled(part, round):
    """Count an example; return whether it is one of the sample."""
    counts = evidence_at(part).counts
    counts[MET] += 1
    stride = 1
    while stride * ALL_UP_TO < counts[MET]:
        stride *= 2
    if counts[MET] % stride == 0:
        counts[SAMPLED] += 1
        return True
    return False


@compiled
def add_slopes(part, weight, slopes, potentials, gradient):
    """Subtract the slopes (p,) of an example from the evidence, and update the arrays of the part.

    Potentials of labels are taken relative to their means. ``potentials`` (p, K) are sums over the
    n positions, and ``gradient`` is (n, K); K = 0 without labels.
    """
    sums, squares, totals, counts = evidence_at(part)
    p = slopes.shape[0]
    n = gradient.shape[0]
    n_labels = gradient.shape[1]
    positions = max(counts[POSITIONS], 1.0)
    total_gradient = np.empty(n_labels)
    for j in range(n_labels):
        total_gradient[j] = 0.0
        for i in range(n):
            total_gradient[j] += gradient[i, j]
    for k in range(p):
        expected = 0.0
        has_potentials = False
        for j in range(n_labels):
            mean_gradient = totals[p, j] / positions
            expected += totals[k, j] / positions * (total_gradient[j] - n * mean_gradient)
            expected += potentials[k, j] * totals[p, j] / positions
            has_potentials |= potentials[k, j] != 0.0
        if not has_potentials:
            expected = 0.0
        evidence = -weight * (slopes[k] - expected)
        sums[k] += evidence
        squares[k] += evidence**2
    remaining = (1.0 - 1.0 / MEMORY) ** n
    counts[POSITIONS] = remaining * counts[POSITIONS] + n
    for j in range(n_labels):
        for k in range(p):
            totals[k, j] = remaining * totals[k, j] + potentials[k, j]
        totals[p, j] = remaining * totals[p, j] + total_gradient[j]
