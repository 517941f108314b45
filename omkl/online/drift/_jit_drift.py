"""Arithmetic of the test for drift; see :class:`omkl.online.drift.detector.DriftTest`."""

import numpy as np

from omkl._compilation import compiled

#: One of so many rounds is compared, and every round while the evidence is above this bound.
STRIDE, SUSPICION = 8, 1.3
#: Evidence at which a change is reported.
ENOUGH = 1e3
#: Bets on the average being worse, as shares of the wealth.
BETS = (0.05, 0.1, 0.2, 0.4, 0.8)
#: Differences are cut at this multiple of their mean size, which is taken over about this number of comparisons.
CUT, MEMORY = 2.0, 100
#: Positions of the mean size, of the round, the sums of losses and of squares at the start, and of the wealth of bets.
SIZE, START, LOSSES, SQUARES, WEALTH = range(5)


@compiled
def is_due(numbers, t):
    """Return whether to compare both models on the example after round t."""
    return t % STRIDE == 0 or numbers[WEALTH:].mean() > SUSPICION


@compiled
def compare(numbers, difference, t, losses, squares):
    """Bet on the loss of the average minus that of the last iterate; return whether the evidence is enough.

    ``losses`` and ``squares`` are those of the schedule before the example.
    """
    wealth = numbers[WEALTH:]
    if wealth.mean() <= 1.0:
        wealth[:] = 1.0
        numbers[START], numbers[LOSSES], numbers[SQUARES] = t, losses, squares
    if not np.isfinite(difference):
        return False
    most = CUT * numbers[SIZE]
    if most > 0.0:
        share = min(max(difference / most, -1.0), 1.0)
        for j in range(len(BETS)):
            wealth[j] *= 1.0 + BETS[j] * share
    numbers[SIZE] += (abs(difference) - numbers[SIZE]) / MEMORY
    return wealth.mean() >= ENOUGH
