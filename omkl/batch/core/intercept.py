"""The best intercept for given predictions, and the dual point that goes with it."""

import numpy as np

from omkl.losses import PointwiseLoss


def best_intercept(loss: PointwiseLoss, y: np.ndarray, outputs: np.ndarray) -> float:
    """The minimiser of the loss over a constant added to all predictions.

    Newton steps kept inside a bracket, which is halved where the loss has no second derivative, or few curved samples.
    Where all samples are of one class the best constant is infinite, and a large one is as good.
    """
    farthest = 1e3 * (1.0 + np.abs(y).max() + np.abs(outputs).max())
    low, high, shift, width = -np.inf, np.inf, 0.0, 1.0
    for iteration in range(200):
        gradient = loss.gradient(y, outputs + shift)
        slope = gradient.sum()
        if abs(slope) <= 1e-14 * np.abs(gradient).sum():
            break
        low, high = (shift, high) if slope < 0 else (low, shift)
        curvature = second_derivative(loss, y, -gradient).sum()
        target = shift - slope / curvature if curvature > 0 and iteration % 4 != 3 else np.nan
        if not low < target < high:
            target = 0.5 * (low + high) if np.isfinite(high - low) else shift - np.sign(slope) * width
            width *= 2.0
        if abs(target) > farthest or target in (low, high):
            break
        shift = target
    return float(shift)


def second_derivative(loss: PointwiseLoss, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
    r"""Of a loss at the predictions with these dual variables :math:`\rho = -l'`, (N,): 0 where it is straight."""
    low, high = loss.domain(y)
    curved = (rho > low) & (rho < high)
    inverse = loss.conjugate_curvature(y, np.where(curved, rho, 0.5 * (np.maximum(low, -1e9) + np.minimum(high, 1e9))))
    return np.divide(1.0, inverse, out=np.zeros_like(inverse), where=curved & (inverse > 0))


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
