"""Schedules of learning rates."""

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
        raise self.undefined("__call__")

    def observe(self, loss: float, square_gradient: float) -> float | None:
        """Take in the gradient of a round; returns the rate of the very first step, and None later."""
        raise self.undefined("observe")

    def reach(self, distance: float, step: float) -> None:
        """Take in the distance of the model from the origin, and the length of the round's gradient step."""

    def restart(self) -> None:
        """Forget what was measured: the model is at the origin again."""

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
        """Numbers for a checkpoint, beside the parameters."""
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


class _Measured:
    """The sum of the squared norms of weighted gradients, and the largest square of one of weight 1.

    The rate of a round is due before its gradient is known. Where weights are alike the sum over the rounds before
    does; but an example of the weight w, a thousand times that of the ones before, would take a step a thousand times
    too long. So the sum counts as no less than the ``w^2 G^2`` that its own gradient may have, in a step on it.
    """

    _total = _largest = 0.0

    def restart(self) -> None:
        self._total = self._largest = 0.0

    def _add(self, square_gradient: float, weight: float) -> bool:
        """Take in the square of the gradient of an example times its weight; returns whether it is the first."""
        first = self._total == 0.0 and square_gradient > 0.0
        self._total += square_gradient
        largest = square_gradient / weight**2
        if largest > self._largest:
            self._largest = largest
        return first

    def _take_in(self, shard: Sequence[float], before: float, weight: float) -> None:
        """Add what a shard has added to the sum ``before`` it, times the weight of the shard."""
        self._total += weight * (float(shard[0]) - before)
        self._largest = max(self._largest, float(shard[1]))


class MeanPolyak(_Measured, LinearDecay):
    r"""Polyak's step on average, decaying linearly with the rounds that are left of T.

    .. math:: \eta_t = c\, \frac{\sum_{s<t} L_s}{\sum_{s<t} \|g_s\|^2}\, \Bigl(1 - \frac{t-1}{T}\Bigr)

    with the weighted losses and gradients of the examples.

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

    def restart(self) -> None:
        super().restart()
        self._losses = 0.0

    def __call__(self, t: int, weight: float = 1.0) -> float:
        if self._total == 0.0:
            return 1.0
        return self.eta0 * self._losses / max(self._total, self._largest * weight**2) * self._left(t)

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        """Take in the gradient of a round; returns the rate of the very first step, and None later."""
        first = self._add(square_gradient, weight)
        self._losses += loss if loss > 0.0 or not first else 1.0
        return self.eta0 * self._losses / square_gradient if first else None

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        # a ratio of sums: every round of every shard counts
        losses, before = self._losses, self._total
        for _, shard_losses, *shard_gradients in states:
            self._losses += float(shard_losses) - losses
            self._take_in(shard_gradients, before, 1.0)

    def state(self) -> list[float]:
        return [*super().state(), self._losses, self._total, self._largest]

    def load_state(self, state: Sequence[float]) -> None:
        self._horizon, self._losses, self._total, self._largest = (float(value) for value in state)


class DistanceOverGradients(_Measured, Schedule):
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

    def restart(self) -> None:
        super().restart()
        self._distance = 0.0

    def __call__(self, t: int, weight: float = 1.0) -> float:
        if self._total == 0.0:
            return 1.0
        return self.eta0 * self._distance / math.sqrt(max(self._total, self._largest * weight**2))

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        """Take in the gradient of a round; returns the rate of the very first step, and None later.

        Squares below zero, which functions that are not positive semidefinite can have, count as zero, as in norms.
        """
        square_gradient = max(square_gradient, 0.0)
        if not self._add(square_gradient, weight):
            return None
        rate = (loss if loss > 0.0 else 1.0) / square_gradient
        self._distance = max(self._distance, LEAST_SHARE * rate * math.sqrt(square_gradient))
        return rate

    def reach(self, distance: float, step: float) -> None:
        """Take in the distance of the model from the origin, and the length of the round's gradient step.

        A step takes the model no farther than its own length. Dual averaging sets the model afresh, though, in
        proportion to the rate: without this bound a larger rate would be a farther model, a farther model a larger
        rate, and both would grow from round to round where no gradient asks for it.
        """
        if distance > self._distance:
            self._distance = min(distance, self._distance + step)

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        # one round of all shards is one step along the mean of their gradients, whose square the mean of the squares
        # bounds; iterates of any shard count for the distance
        before = self._total
        for (distance, *shard_gradients), weight in zip(states, weights):
            self._distance = max(self._distance, float(distance))
            self._take_in(shard_gradients, before, float(weight))

    def state(self) -> list[float]:
        """Numbers for a checkpoint."""
        return [self._distance, self._total, self._largest]

    def load_state(self, state: Sequence[float]) -> None:
        """The inverse of :meth:`state`."""
        self._distance, self._total, self._largest = (float(value) for value in state)


class GrowingHorizon:
    """Lambda as ``1 / (C t)``, t the sum of the weights seen so far, over which the objective has its mean."""

    def __init__(self, C: float) -> None:
        self.C = C

    def __call__(self, t: float) -> float:
        return 1.0 / (self.C * t)
