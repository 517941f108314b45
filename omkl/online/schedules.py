"""Learning rates (section 3): what Algorithm 1 multiplies the gradient of round t with."""

import math
from typing import ClassVar

from omkl._named import Part
from omkl.exceptions import InputError


class Schedule(Part):
    """A learning rate for each round ``t = 1, 2, ...``; ``eta0`` is its scale."""

    #: Whether the trainer shall report gradients and distances to :meth:`observe`.
    adaptive: ClassVar[bool] = False

    def __init__(self, eta0=1.0):
        if not eta0 > 0 or eta0 == float("inf"):
            raise InputError(f"eta0 must be a finite number > 0, not {eta0!r}.")
        self.eta0 = float(eta0)

    def __call__(self, t):
        raise NotImplementedError

    def fresh(self):
        """A schedule with the same parameters that has seen nothing."""
        return type(self)(**self.parameters())

    def state(self):
        """What a checkpoint needs beside the parameters: numbers."""
        return []

    def load_state(self, state):
        """The inverse of :meth:`state`."""


class Constant(Schedule):
    r""":math:`\eta_t = \eta_0`. Regret of order T for a fixed rate, and the choice for drifting streams."""

    short_names = {"constant": {}}

    def __call__(self, t):
        return self.eta0


class InverseSqrt(Schedule):
    r""":math:`\eta_t = \eta_0 / \sqrt t`: regret of order :math:`\sqrt T` (Martins et al. 2011, Prop. 5)."""

    short_names = {"sqrt": {}, "inverse-sqrt": {}}

    def __call__(self, t):
        return self.eta0 / t**0.5


class InverseTime(Schedule):
    r""":math:`\eta_t = \eta_0 / t`, that is :math:`1 / (\sigma t)` with :math:`\eta_0 = 1/\sigma`.

    Regret of order :math:`\log T` where loss and regularizer together are :math:`\sigma`-strongly convex.
    """

    short_names = {"inverse-time": {}}

    def __call__(self, t):
        return self.eta0 / t


class DistanceOverGradients(Schedule):
    r"""Rates that need no tuning: :math:`\eta_t = c\, \bar r_t / (\sum_{s<t} \|g_s\|^2)^{1/2}` (Ivgi et al. 2023).

    :math:`\bar r_t = \max_{s \le t} \|\theta_s\|` is the farthest that the iterates have been from the origin, where
    they start. The best fixed rate is the distance to the solution over the root of the sum of squared gradients;
    this rule puts the distance seen so far in place of the unknown one, and grows into it. The gradient's norm is
    over all groups together, so a model of p kernels takes steps that are as much smaller as its gradient is longer.

    The first step is the one that just mends the first mistake, ``loss / ||g||^2`` (passive-aggressive); it sets the
    scale from which the distance grows. Group norms are exact at every round, so the rule costs O(p) a round.

    Parameters
    ----------
    eta0 : float
        The factor c. Above 1 the rates adapt faster; from about 2 on they may not settle.
    """

    short_names = {"distance-over-gradients": {}, "dog": {}}
    adaptive = True

    def __init__(self, eta0=1.0):
        super().__init__(eta0)
        self._distance = 0.0
        self._square_gradients = 0.0

    def __call__(self, t):
        if self._square_gradients == 0.0:
            return 1.0
        return self.eta0 * self._distance / math.sqrt(self._square_gradients)

    @property
    def started(self):
        """Whether a gradient has been seen."""
        return self._square_gradients > 0.0

    def observe(self, loss, square_gradient):
        """Take in the gradient of a round; returns the rate of the very first step, and None later."""
        first = not self.started and square_gradient > 0.0
        self._square_gradients += square_gradient
        return (loss if loss > 0.0 else 1.0) / square_gradient if first else None

    def reach(self, distance):
        """Take in the distance of the model from the origin."""
        self._distance = max(self._distance, distance)

    def state(self):
        """What a checkpoint needs."""
        return [self._distance, self._square_gradients]

    def load_state(self, state):
        """The inverse of :meth:`state`."""
        self._distance, self._square_gradients = (float(value) for value in state)
