"""Arithmetic of the test for drift; see :class:`omkl.online.examiners.drift.DriftTest`."""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled
from omkl._pointers import Layout

#: One of so many rounds is compared.
STRIDE = 8
#: Every round is compared while the evidence of a rise is above this bound.
SUSPICION = 2.0
#: Evidence at which a change is reported.
ENOUGH = 100.0
#: The most that a bet keeps, so that it can be lost again.
MOST = 1000.0
#: Bets as shares of the wealth.
BETS = (0.05, 0.1, 0.2, 0.4, 0.8)
#: Differences are cut at this multiple of their mean size.
CUT = 2.0
#: Means are taken over about this number of comparisons.
MEMORY = 100
#: The usual loss is known after this number of comparisons.
FEWEST = 30
#: It is then known up to this share of the cut, over the root of the number of comparisons.
DOUBT = 0.5
#: Positions of the number of comparisons; of the mean size of differences from the last iterate and
#: from the mean loss, and of this loss; of the evidence of a lag, and of a rise.
COUNT, LAG, SPREAD, LOSS, LAGS, RISES = range(6)
#: Positions of numbers at the start of a rise: the round, the schedule's sums, the usual loss and
#: its doubt.
START, LOSSES, SQUARES, USUAL, UNSURE = range(6, 11)
#: Positions of the wealth of the bets on a lag, and of those on a rise.
ON_LAG, ON_RISE, N_NUMBERS = 11, 11 + len(BETS), 11 + 2 * len(BETS)


class DriftNumbers(NamedTuple):
    """The numbers of the test, at the positions above; and whether it pauses, 0 or 1, (1,)."""

    numbers: np.ndarray
    pauses: np.ndarray


DRIFT = Layout(DriftNumbers)
drift_at = DRIFT.at


@compiled(counting=False)
def is_due(part, round):
    """Return whether to compare both models on the example after some rounds."""
    test = drift_at(part)
    if test.pauses[0] != 0.0:
        return False
    return round % STRIDE == 0 or test.numbers[RISES] > SUSPICION


@borrowing
def share_of(difference, size):
    """Return a difference as a share of the cut, in [-1, 1]."""
    if size > 0.0:
        return min(max(difference / (CUT * size), -1.0), 1.0)
    return 0.0


@borrowing
def bet(numbers, first, share):
    """Bet on a positive share with the wealths from ``first`` on; return the mean wealth.

    Writes to ``numbers`` (N_NUMBERS,).
    """
    total = 0.0
    for j in range(len(BETS)):
        wealth = numbers[first + j] * (1.0 + BETS[j] * share)
        numbers[first + j] = min(wealth, MOST)
        total += numbers[first + j]
    return total / len(BETS)


@borrowing
def start_bets(numbers, first):
    """Set the wealths from ``first`` on to 1."""
    for j in range(len(BETS)):
        numbers[first + j] = 1.0


@compiled(counting=False)
def compare(part, average, last, t, losses, squares):
    """Bet on a rise of the average's loss; return whether there is enough evidence of a change.

    The bets are that the loss is above the last iterate's, and above the usual one. ``losses`` and
    ``squares`` are those of the schedule before the example, after t rounds.
    """
    numbers = drift_at(part).numbers
    if not np.isfinite(average - last):
        return False
    count = min(numbers[COUNT], MEMORY)
    if numbers[LAGS] <= 1.0:
        start_bets(numbers, ON_LAG)
    if numbers[RISES] <= 1.0:
        start_bets(numbers, ON_RISE)
        numbers[START] = t
        numbers[LOSSES] = losses
        numbers[SQUARES] = squares
        numbers[USUAL] = numbers[LOSS]
        numbers[UNSURE] = 1.0
        if count >= FEWEST:
            numbers[UNSURE] = DOUBT / np.sqrt(count)
    rise = share_of(average - numbers[USUAL], numbers[SPREAD]) - numbers[UNSURE]
    numbers[LAGS] = bet(numbers, ON_LAG, share_of(average - last, numbers[LAG]))
    numbers[RISES] = bet(numbers, ON_RISE, max(rise, -1.0))
    numbers[COUNT] += 1.0
    new = 1.0 / min(count + 1.0, MEMORY)
    excess = average - numbers[LOSS]
    cut_excess = excess
    if count > 1:  # the mean of losses that are cut as the bets are
        cut_excess = CUT * numbers[SPREAD] * share_of(excess, numbers[SPREAD])
    numbers[LOSS] += new * cut_excess
    numbers[LAG] += new * (abs(average - last) - numbers[LAG])
    numbers[SPREAD] += new * (abs(excess) - numbers[SPREAD])
    return min(numbers[LAGS], numbers[RISES]) >= ENOUGH
