"""Learning rates: what Algorithm 1 multiplies the gradient of round t with."""

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from omkl._components import Component
from omkl.exceptions import InputError

#: Of the length of the first gradient step, what the distance of the iterates from the origin counts as at least.
LEAST_SHARE = 0.1


class Schedule(Component):
    """A learning rate for each round ``t = 1, 2, ...``; ``eta0`` is its scale."""

    #: Whether the trainer shall report gradients and distances to :meth:`observe`.
    adaptive: ClassVar[bool] = False

    def __init__(self, eta0: float = 1.0) -> None:
        if not eta0 > 0 or eta0 == float("inf"):
            raise InputError(f"eta0 must be a finite number > 0, not {eta0!r}.")
        self.eta0 = float(eta0)

    def __call__(self, t: int) -> float:
        raise NotImplementedError

    def observe(self, loss: float, square_gradient: float) -> float | None:
        """Take in the gradient of a round; returns the rate of the very first step, and None later."""
        raise NotImplementedError

    def reach(self, distance: float) -> None:
        """Take in the distance of the model from the origin."""

    def plan(self, rounds: float) -> None:
        """Take in how many rounds there will be, where that is known: rates may end at zero with the last."""

    def fresh(self) -> "Schedule":
        """A schedule with the same parameters that has seen nothing."""
        return type(self)(**self.parameters())

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        """Take in what copies of this schedule have seen, each in a pass of its own over a shard.

        Parameters
        ----------
        states : list
            Of each copy, as :meth:`state` gives it.
        weights : array
            Weights of the shards; they sum to one.
        """

    def state(self) -> list[float]:
        """What a checkpoint needs beside the parameters: numbers."""
        return []

    def load_state(self, state: Sequence[float]) -> None:
        """The inverse of :meth:`state`."""


class Constant(Schedule):
    r""":math:`\eta_t = \eta_0`. Regret of order T for a fixed rate, and the choice for drifting streams."""

    aliases = {"constant": {}}

    def __call__(self, t: int) -> float:
        return self.eta0


class InverseSqrt(Schedule):
    r""":math:`\eta_t = \eta_0 / \sqrt t`: regret of order :math:`\sqrt T` (Martins et al. 2011, Prop. 5)."""

    aliases = {"sqrt": {}, "inverse-sqrt": {}}

    def __call__(self, t: int) -> float:
        return self.eta0 / t**0.5


class InverseTime(Schedule):
    r""":math:`\eta_t = \eta_0 / t`, that is :math:`1 / (\sigma t)` with :math:`\eta_0 = 1/\sigma`.

    Regret of order :math:`\log T` where loss and regularizer together are :math:`\sigma`-strongly convex.
    """

    aliases = {"inverse-time": {}}

    def __call__(self, t: int) -> float:
        return self.eta0 / t


class LinearDecay(Schedule):
    r""":math:`\eta_t = \eta_0\, (1 - (t-1)/T)`: down to zero with the last round T (Defazio et al. 2023).

    Where T is not known, as in ``partial_fit``, the rate is constant.
    """

    aliases = {"linear": {}}

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)
        self._horizon = math.inf

    def __call__(self, t: int) -> float:
        return self.eta0 * self._left(t)

    def _left(self, t: int) -> float:
        """The fraction of the rounds that is still to come, round t included; after the last it stays what it was."""
        return max(1.0 - (t - 1) / self._horizon, 1.0 / self._horizon) if self._horizon < math.inf else 1.0

    def plan(self, rounds: float) -> None:
        self._horizon = float(rounds)

    def state(self) -> list[float]:
        return [self._horizon]

    def load_state(self, state: Sequence[float]) -> None:
        (self._horizon,) = (float(value) for value in state)


class MeanPolyak(LinearDecay):
    r"""Polyak's step on average, decaying linearly with the rounds that are left of T.

    .. math:: \eta_t = c\, \frac{\sum_{s<t} L_s}{\sum_{s<t} \|g_s\|^2}\, \Bigl(1 - \frac{t-1}{T}\Bigr)

    Polyak's step ``loss / ||g||^2`` is the one that just mends the example at hand; for the hinge it is that of
    passive-aggressive learners (Crammer et al. 2006). A single example says little, so this rule takes the ratio of
    sums over all rounds so far. It needs no tuning, and unlike :class:`DistanceOverGradients` it does not ask how far
    away the solution is: better where there are far more features than examples, so that every loss can be driven to
    zero, and how fast decides what is learned.

    Parameters
    ----------
    eta0 : float
        The factor c.
    """

    aliases = {"mean-polyak": {}, "polyak": {}}
    adaptive = True

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)
        self._losses = 0.0
        self._square_gradients = 0.0

    def __call__(self, t: int) -> float:
        if self._square_gradients == 0.0:
            return 1.0
        return self.eta0 * self._losses / self._square_gradients * self._left(t)

    def observe(self, loss: float, square_gradient: float) -> float | None:
        """Take in the gradient of a round; returns the rate of the very first step, and None later."""
        first = self._square_gradients == 0.0 and square_gradient > 0.0
        self._losses += loss if loss > 0.0 or not first else 1.0
        self._square_gradients += square_gradient
        return self.eta0 * self._losses / square_gradient if first else None

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        # a ratio of sums: every round of every shard counts
        losses, square_gradients = self._losses, self._square_gradients
        for _, shard_losses, shard_square_gradients in states:
            self._losses += float(shard_losses) - losses
            self._square_gradients += float(shard_square_gradients) - square_gradients

    def state(self) -> list[float]:
        return [*super().state(), self._losses, self._square_gradients]

    def load_state(self, state: Sequence[float]) -> None:
        horizon, self._losses, self._square_gradients = (float(value) for value in state)
        self.plan(horizon)


class DistanceOverGradients(Schedule):
    r"""Rates that need no tuning: :math:`\eta_t = c\, \bar r_t / (\sum_{s<t} \|g_s\|^2)^{1/2}` (Ivgi et al. 2023).

    :math:`\bar r_t = \max_{s \le t} \|\theta_s\|` is the farthest that the iterates have been from the origin, where
    they start. The best fixed rate is the distance to the solution over the root of the sum of squared gradients;
    this rule puts the distance seen so far in place of the unknown one, and grows into it. The gradient's norm is
    over all groups together, so a model of p kernels takes steps that are as much smaller as its gradient is longer.

    The first step is the one that just mends the first mistake, ``loss / ||g||^2`` (passive-aggressive); it sets the
    scale from which the distance grows, also where the proximal step that follows sets every group to zero again: the
    distance counts as no less than a tenth of that first step's length. Group norms are exact at every round, so
    the rule costs O(p) a round.

    Parameters
    ----------
    eta0 : float
        The factor c. Above 1 the rates adapt faster; from about 2 on they may not settle.
    """

    aliases = {"distance-over-gradients": {}, "dog": {}}
    adaptive = True

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)
        self._distance = 0.0
        self._square_gradients = 0.0
        self._moved = False

    def __call__(self, t: int) -> float:
        if self._square_gradients == 0.0:
            return 1.0
        return self.eta0 * self._distance / math.sqrt(self._square_gradients)

    @property
    def started(self) -> bool:
        """Whether a gradient has been seen."""
        return self._square_gradients > 0.0

    def observe(self, loss: float, square_gradient: float) -> float | None:
        """Take in the gradient of a round; returns the rate of the very first step, and None later.

        Squares below zero, which functions that are not positive semidefinite can have, count as zero, as in norms.
        """
        square_gradient = max(square_gradient, 0.0)
        first = not self.started and square_gradient > 0.0
        self._square_gradients += square_gradient
        self._moved = square_gradient > 0.0
        if not first:
            return None
        rate = (loss if loss > 0.0 else 1.0) / square_gradient
        self._distance = max(self._distance, LEAST_SHARE * rate * math.sqrt(square_gradient))
        return rate

    def reach(self, distance: float) -> None:
        """Take in the distance of the model from the origin, in rounds with a gradient."""
        # in dual averaging the model is as far as the rate is large: without one, each would drive the other
        if self._moved:
            self._distance = max(self._distance, distance)
        self._moved = False

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        # one round of all shards is one step along the mean of their gradients, whose square the mean of the squares
        # bounds; iterates of any shard count for the distance
        square_gradients = self._square_gradients
        for (distance, shard_square_gradients), weight in zip(states, weights):
            self._distance = max(self._distance, float(distance))
            self._square_gradients += float(weight) * (float(shard_square_gradients) - square_gradients)

    def state(self) -> list[float]:
        """What a checkpoint needs."""
        return [self._distance, self._square_gradients]

    def load_state(self, state: Sequence[float]) -> None:
        """The inverse of :meth:`state`."""
        self._distance, self._square_gradients = (float(value) for value in state)
