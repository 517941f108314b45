"""Compiled functions of learning rates; see :mod:`omkl.online.schedules` for the formulas."""

import numpy as np

from omkl._compilation import borrowing, compiled

#: Positions in the numbers of a schedule: its parameter; sum and maximum of the squared norms of
#: gradients; sum of losses; distance of the model from the origin. The driver reads the sums.
ETA0, SQUARES, LARGEST, LOSSES, DISTANCE, N_NUMBERS = range(6)
#: Lower bound of the distance of the iterates from the origin, as a fraction of the first gradient
#: step.
LEAST_SHARE = 0.1


@compiled(counting=False)
def known_rate(numbers, factor, weight):
    """Return the rate of a schedule that does not depend on gradients."""
    return factor


@compiled(counting=False)
def keep_rate(numbers, loss, square_gradient, weight, rate):
    """Return the rate as it is."""
    return rate


@compiled(counting=False)
def ignore_distance(numbers, distance, step):
    """Do nothing, since rates do not depend on the distance."""


@borrowing
def squares_before(numbers, weight):
    """Return the sum of squares to use for the rate of an example of this weight."""
    return max(numbers[SQUARES], numbers[LARGEST] * weight**2)


@borrowing
def add_square(numbers, square_gradient, weight):
    """Add the squared norm of a weighted gradient; return whether it is the first nonzero one."""
    is_first = numbers[SQUARES] == 0.0 and square_gradient > 0.0
    numbers[SQUARES] += square_gradient
    numbers[LARGEST] = max(numbers[LARGEST], square_gradient / weight**2)
    return is_first


@compiled(counting=False)
def mean_polyak_rate(numbers, factor, weight):
    """Return the ratio of the sums of losses and squared gradients, times ``factor``."""
    if numbers[SQUARES] == 0.0:
        return 1.0
    return numbers[ETA0] * numbers[LOSSES] / squares_before(numbers, weight) * factor


@compiled(counting=False)
def observe_mean_polyak(numbers, loss, square_gradient, weight, rate):
    """Add a loss and a gradient; return the rate of the first step, which corrects its example."""
    is_first = add_square(numbers, square_gradient, weight)
    numbers[LOSSES] += loss if loss > 0.0 or not is_first else 1.0
    if is_first:
        return numbers[ETA0] * numbers[LOSSES] / square_gradient
    return rate


@compiled(counting=False)
def distance_over_gradients_rate(numbers, factor, weight):
    """Return the largest distance from the origin over the root of the sum of squared gradients."""
    if numbers[SQUARES] == 0.0:
        return 1.0
    return numbers[ETA0] * numbers[DISTANCE] / np.sqrt(squares_before(numbers, weight))


@compiled(counting=False)
def observe_distance_over_gradients(numbers, loss, square_gradient, weight, rate):
    """Add a gradient; return the rate.

    The first step corrects its example, and sets the first distance. Indefinite kernels can have
    negative squares, which count as zero.
    """
    square_gradient = max(square_gradient, 0.0)
    if not add_square(numbers, square_gradient, weight):
        return rate
    first_rate = (loss if loss > 0.0 else 1.0) / square_gradient
    first_distance = LEAST_SHARE * first_rate * np.sqrt(square_gradient)
    numbers[DISTANCE] = max(numbers[DISTANCE], first_distance)
    return first_rate


@compiled(counting=False)
def reach_distance(numbers, distance, step):
    """Raise the distance, by at most the length of the gradient step.

    In dual averaging, the whole model is proportional to the rate: without this bound, rate and
    distance would increase each other in every round.
    """
    if distance > numbers[DISTANCE]:
        numbers[DISTANCE] = min(distance, numbers[DISTANCE] + step)
