"""The best intercept for given predictions, and the dual point that goes with it."""

import numpy as np


def best_intercept(loss, y, outputs):
    """The minimiser of the loss over a constant added to all predictions, by bisection."""

    def slope(b):
        return loss.gradient(y, outputs + b).sum()

    # where all samples are of one class the best constant is infinite, and a large one as good
    low, high, largest = -1.0, 1.0, 1e3 * (1.0 + np.abs(y).max() + np.abs(outputs).max())
    while slope(low) > 0 and low > -largest:
        low *= 2.0
    while slope(high) < 0 and high < largest:
        high *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return high


def constant_model(loss, y, intercept):
    r"""The best constant prediction, and a dual point for it.

    A loss with kinks has many :math:`-\rho_i` there: those on both sides are mixed so that they sum to 0.

    Returns
    -------
    constant : float
        0 without an intercept.
    rho : array of shape (N,)
    """
    if not intercept:
        return 0.0, -loss.gradient(y, np.zeros(len(y)))
    constant = best_intercept(loss, y, np.zeros(len(y)))
    beside = 1e-6 * (1.0 + abs(constant))
    below, above = (-loss.gradient(y, np.full(len(y), constant + shift)) for shift in (-beside, beside))
    fall = below.sum() - above.sum()
    share = min(max(below.sum() / fall, 0.0), 1.0) if fall > 0 else 0.5
    return float(constant), loss.balanced(y, (1.0 - share) * below + share * above)
