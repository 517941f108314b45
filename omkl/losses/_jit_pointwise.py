"""Losses of a number ``z`` and their derivatives; see :mod:`omkl.losses.pointwise`.

Each returns the loss and its derivative for the target ``y``, as
:data:`omkl.signatures.LOSS_OF_NUMBER` declares.
"""

import numpy as np

from omkl._compilation import compiled


@compiled(counting=False)
def squared(y, z, parameters):
    """Half the squared error."""
    error = z - y
    return 0.5 * error**2, error


@compiled(counting=False)
def epsilon_insensitive(y, z, parameters):
    """Absolute error beyond ``epsilon``, the parameter."""
    epsilon = parameters[0]
    error = z - y
    if error > epsilon:
        return error - epsilon, 1.0
    if error < -epsilon:
        return -error - epsilon, -1.0
    if np.isnan(error):
        return error, error
    return 0.0, 0.0


@compiled(counting=False)
def quantile(y, z, parameters):
    """Absolute error, with the weight ``quantile``, the parameter, below the target."""
    error = z - y
    slope = 0.0
    if error > 0.0:
        slope = 1.0 - parameters[0]
    elif error < 0.0:
        slope = -parameters[0]
    return slope * error, slope


@compiled(counting=False)
def huber(y, z, parameters):
    """Half the squared error up to ``delta``, the parameter, and linear beyond."""
    delta = parameters[0]
    error = z - y
    if error > delta:
        return delta * (error - 0.5 * delta), delta
    if error < -delta:
        return delta * (-error - 0.5 * delta), -delta
    return 0.5 * error**2, error


@compiled(counting=False)
def poisson(y, z, parameters):
    """Half the deviance of a count whose mean is ``exp(z)``."""
    mean = np.exp(z)
    entropy = 0.0
    if y > 0.0:
        entropy = y * np.log(y)
    return mean - y * z + entropy - y, mean - y


# ---- targets -1 and +1 ---------------------------------------------------------------------------


@compiled(counting=False)
def hinge(y, z, parameters):
    """``max(0, 1 - y z)``."""
    gap = 1.0 - y * z
    if gap <= 0.0:
        return 0.0, 0.0
    return gap, -y


@compiled(counting=False)
def squared_hinge(y, z, parameters):
    """Half the square of the hinge."""
    gap = 1.0 - y * z
    if gap <= 0.0:
        return 0.0, 0.0
    return 0.5 * gap**2, -y * gap


@compiled(counting=False)
def logistic(y, z, parameters):
    """``log(1 + exp(-y z))``."""
    margin = y * z
    value = max(-margin, 0.0) + np.log1p(np.exp(-abs(margin)))
    return value, -y / (1.0 + np.exp(margin))
