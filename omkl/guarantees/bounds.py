"""Bounds on the error of what a threshold of confidence accepts, and conformal thresholds."""

import numpy as np
from scipy.special import bdtr, betaincinv, expit, rel_entr

#: Thresholds of confidence to test, from the strictest: log-odds from 36 down to -670, dense around
#: 0, and all outputs.
THRESHOLDS = np.append(expit(np.sinh(np.arange(4.3, -7.2, -0.03))), 0.0)
#: Share of outputs, tokens or entities that the first threshold to test accepts at least.
FIRST = 0.15
#: Bisections of an interval of errors.
BISECTIONS = 50


def n_needed(error: float, confidence: float) -> int:
    """Return how many accepted examples, none of them wrong, prove the bound on the error."""
    return int(np.ceil(np.log1p(-confidence) / np.log1p(-error)))


def error_curve(
    sure: np.ndarray,
    wrong: np.ndarray,
    owners: np.ndarray,
    n_examples: int,
    confidence: float,
    one_part: bool,
) -> dict[str, np.ndarray]:
    """Compute what each of the :data:`THRESHOLDS` accepts, and a bound on its error.

    An example is accepted in parts. Its loss is the share of wrong parts among the accepted ones.

    Parameters
    ----------
    sure : array of shape (n,)
        Confidence of each part, in [0, 1].
    wrong : bool array of shape (n,)
    owners : int array of shape (n,)
        Example of each part.
    n_examples : int
    confidence : float in (0, 1)
        Probability of each bound.
    one_part : bool
        Whether each example has one part, so losses are 0 or 1.

    Returns
    -------
    dict of str to array
        For each ``threshold`` that accepts other parts than the one before: ``accepted``, the share
        of parts, ``examples``, the number of those with an accepted part, ``error``, their mean
        loss, and ``bound``.
    """
    counts = len(sure) - np.searchsorted(np.sort(sure), THRESHOLDS)
    changes = np.flatnonzero(np.diff(counts, prepend=0))
    n_examples_accepted = np.zeros(len(changes), np.int64)
    total_loss = np.zeros(len(changes))
    for i, threshold in enumerate(THRESHOLDS[changes]):
        accepted = sure >= threshold
        n_accepted = np.bincount(owners[accepted], minlength=n_examples)
        n_wrong = np.bincount(owners[accepted & wrong], minlength=n_examples)
        n_examples_accepted[i] = np.count_nonzero(n_accepted)
        total_loss[i] = (n_wrong / np.maximum(n_accepted, 1)).sum()
    error = total_loss / n_examples_accepted
    if one_part:
        # the largest probability at which so few errors are not unlikely (Clopper and Pearson 1934)
        n_errors = np.rint(total_loss)
        n_right = n_examples_accepted - n_errors
        limit = betaincinv(n_errors + 1.0, np.maximum(n_right, 0.5), confidence)
        bound = np.where(n_right > 0, limit, 1.0)
    else:
        bound = _mean_bound(n_examples_accepted, error, confidence)
    return {
        "threshold": THRESHOLDS[changes],
        "accepted": counts[changes] / max(len(sure), 1),
        "examples": n_examples_accepted,
        "error": error,
        "bound": bound,
    }


def mean_test(n: np.ndarray, mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return p-values of the hypothesis that losses in [0, 1] have an expectation above ``error``.

    Each is the smaller one of the bounds of Hoeffding and Bentkus (Bates, Angelopoulos, Lei, Malik
    and Jordan 2021).
    """
    low = np.minimum(mean, error)
    hoeffding = np.exp(-n * (rel_entr(low, error) + rel_entr(1.0 - low, 1.0 - error)))
    return np.minimum(hoeffding, np.e * bdtr(np.ceil(n * mean - 1e-9), n, error))


def _mean_bound(n: np.ndarray, mean: np.ndarray, confidence: float) -> np.ndarray:
    """Return the smallest error that :func:`mean_test` rejects, by bisection, (n_thresholds,)."""
    low = mean
    high = np.ones(len(mean))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        passed = mean_test(n, mean, middle) <= 1.0 - confidence
        low = np.where(passed, low, middle)
        high = np.where(passed, middle, high)
    return high


def chosen_threshold(curve: dict[str, np.ndarray], error: float, confidence: float) -> float:
    """Return the last threshold before the first whose bound exceeds ``error``, or inf.

    This is fixed-sequence testing: the bound exceeds ``error`` if and only if the test of this
    error fails. It starts where a test can succeed, and where the threshold accepts :data:`FIRST`,
    so that a few errors are no obstacle. Neither depends on the errors.

    References
    ----------
    Angelopoulos, Bates, Candes, Jordan, Lei (2021), *Learn then test: calibrating predictive
    algorithms to achieve risk control*.
    """
    tested = (curve["examples"] >= n_needed(error, confidence)) & (curve["accepted"] >= FIRST)
    passed = np.logical_and.accumulate(curve["bound"][tested] <= error)
    return float(curve["threshold"][tested][passed].min(initial=np.inf))


def conformal_threshold(scores: np.ndarray, lengths: np.ndarray, miss: float) -> float:
    """Return the threshold of the scores of the tokens of a new example.

    A random token reaches it with probability 1 - ``miss``. An example counts as one, whatever its
    length. It is -inf if there are too few examples, and inf for a ``miss`` of 1 or more.

    Parameters
    ----------
    scores : array of shape (n,)
        Score of the correct value of each token of all examples; larger is better.
    lengths : int array
        Number of tokens of each example.
    miss : float

    References
    ----------
    Vovk, Gammerman, Shafer (2005), *Algorithmic learning in a random world*. Lee, Barber, Willett
    (2023), *Distribution-free inference with hierarchical data*.
    """
    if miss >= 1.0:
        return np.inf
    order = np.argsort(-scores, kind="stable")
    reached = np.cumsum(np.repeat(1.0 / lengths, lengths)[order])
    # sums of reciprocal lengths are rounded
    rank = np.searchsorted(reached, (len(lengths) + 1) * (1.0 - miss) - 1e-9)
    if rank == len(scores):
        return -np.inf
    return float(scores[order[rank]])
