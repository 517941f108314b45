"""Losses of one number or of two labels, for compiled passes; see :mod:`omkl.losses.pointwise` for the formulas."""

import numpy as np

from omkl._compilation import inner

#: Losses of labels, and of numbers.
HINGE, CRF, SOFTMAX_MARGIN, PERCEPTRON = 0, 1, 2, 3
SQUARED, HUBER, EPSILON_INSENSITIVE, QUANTILE, POISSON = range(4, 9)


@inner
def loss_of_binary(z, gold, kind, cost_weight):
    """Return a loss of one of two labels, its slope in the potential z, and whether there is a gradient."""
    margin = z if gold == 1 else -z
    if kind in (CRF, SOFTMAX_MARGIN):
        if kind == SOFTMAX_MARGIN:
            z += -cost_weight if gold == 1 else cost_weight
        half = abs(0.5 * z)
        log_partition, gold_score = half + np.log1p(np.exp(-2.0 * half)), (gold - 0.5) * z
        return max(log_partition - gold_score, 0.0), 0.5 * np.tanh(0.5 * z) - (gold - 0.5), True
    if kind == PERCEPTRON:
        predicted = 1 if z > 0.0 else 0
        return max((predicted - gold) * z, 0.0), float(predicted - gold), predicted != gold
    predicted = gold if margin >= cost_weight else 1 - gold
    value = (predicted - gold) * z + (cost_weight if predicted != gold else 0.0)
    return (value, float(predicted - gold), True) if not value <= 0.0 else (0.0, 0.0, False)


@inner
def loss_of_number(z, y, kind, parameter):
    """Return a loss of numbers, and its slope."""
    error = z - y
    size = abs(error)
    if kind == POISSON:
        mean = np.exp(z)
        return mean - y * z + (y * np.log(y) if y > 0.0 else 0.0) - y, mean - y
    if kind == QUANTILE:
        slope = (1.0 - parameter if error > 0.0 else -parameter) if error != 0.0 else 0.0
        return slope * error, slope
    if kind == SQUARED or (kind == HUBER and size <= parameter):
        return 0.5 * error**2, error
    if kind == HUBER:
        return parameter * (size - 0.5 * parameter), parameter if error > 0.0 else -parameter
    if size > parameter:
        return size - parameter, 1.0 if error > 0.0 else -1.0
    return 0.0, 0.0
