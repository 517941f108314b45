"""Schedules of learning rates."""

import math
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from omkl._components import Component, check_number
from omkl.online import _jit_pass as jit
from omkl.online.rounds import TrainerPart

N = TypeVar("N", float, np.ndarray)

#: Lower bound of the distance of the iterates from the origin, as a fraction of the first gradient step.
LEAST_SHARE = 0.1
#: Learning rates restart if the mean squared gradient has grown by this factor, less a standard error.
LONGER = 1.05


class Schedule(TrainerPart, Component):
    """A learning rate for each round ``t = 1, 2, ...``.

    A schedule that measures something names these attributes in ``saved``: checkpoints keep them.

    Parameters
    ----------
    eta0 : float > 0
        Scale of the rates.
    """

    #: Whether the trainer calls ``observe`` and ``reach``, and passes the example's weight: ``schedule(t, weight)``.
    adaptive: ClassVar[bool] = False
    #: Kind of an adaptive schedule in compiled passes.
    compiled: int | None = None

    def __init__(self, eta0: float = 1.0) -> None:
        check_number("eta0", eta0, above=0)
        self.eta0 = float(eta0)

    def __call__(self, t: int) -> float:
        self.must_define("__call__")

    def rate(self, t: int, weight: float) -> float:
        """Return the rate of round t on an example of this weight, on which only adaptive rates depend."""
        return self(t, weight) if self.adaptive else self(t)  # type: ignore[call-arg]

    def factors(self, rounds: np.ndarray) -> np.ndarray:
        """Return the rates of rounds, or what an adaptive schedule multiplies its rates by.

        Parameters
        ----------
        rounds : int array
        """
        return np.array([self(t) for t in rounds.tolist()])

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        """Add the gradient of a round; return the rate if this is the first step, else None.

        Parameters
        ----------
        loss, square_gradient : float
            Weighted loss, and squared norm of the weighted gradient.
        weight : float
            Weight of the example.
        """
        self.must_define("observe")

    def reach(self, distance: float, step: float) -> None:
        """Update the distance of the model from the origin after a round.

        Parameters
        ----------
        distance : float
            Distance of the model from the origin.
        step : float
            Length of the gradient step.
        """

    @property
    def sums(self) -> tuple[float, float]:
        """Sums of the losses and of the squared norms of gradients, where rates depend on them."""
        return 0.0, 0.0

    def plan(self, rounds: float) -> None:
        """Set the total number of rounds, if it is known; rates may decay to zero with the last round.

        Parameters
        ----------
        rounds : float
        """

    def fresh(self) -> "Schedule":
        """Return an unused schedule with the same parameters."""
        return type(self)(**self.parameters())


class Constant(Schedule):
    r""":math:`\eta_t = \eta_0`, for drifting streams; the regret is of order T for a fixed rate.

    Parameters
    ----------
    eta0 : float > 0
    """

    aliases = {"constant": {}}

    def __call__(self, t: int) -> float:
        return self.eta0


class InverseSqrt(Schedule):
    r""":math:`\eta_t = \eta_0 / \sqrt t`: regret of order :math:`\sqrt T` (Martins et al. 2011, Prop. 5).

    Parameters
    ----------
    eta0 : float > 0
    """

    aliases = {"sqrt": {}, "inverse-sqrt": {}}

    def __call__(self, t: int) -> float:
        return self.eta0 / t**0.5


class InverseTime(Schedule):
    r""":math:`\eta_t = \eta_0 / t`, that is :math:`1 / (\sigma t)` with :math:`\eta_0 = 1/\sigma`.

    The regret is of order :math:`\log T` if the regularized loss is :math:`\sigma`-strongly convex.

    Parameters
    ----------
    eta0 : float > 0
    """

    aliases = {"inverse-time": {}}

    def __call__(self, t: int) -> float:
        return self.eta0 / t


class LinearDecay(Schedule):
    r""":math:`\eta_t = \eta_0\, (1 - (t-1)/T)`: decays to zero after the last round T (Defazio et al. 2023).

    If T is not known, as in ``partial_fit``, the rate is constant.

    Parameters
    ----------
    eta0 : float > 0
    """

    aliases = {"linear": {}}
    saved: ClassVar[tuple[str, ...]] = ("_horizon",)
    _horizon = 0.0  # if the total number of rounds is not known

    def __call__(self, t: int) -> float:
        return self.eta0 * self.share_left(t)

    def share_left(self, t: int) -> float:
        """Return the fraction of rounds from t on; constant after the last round."""
        return max(1.0 - (t - 1) / self._horizon, 1.0 / self._horizon) if self._horizon else 1.0

    def plan(self, rounds: float) -> None:
        self._horizon = float(rounds)

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        if self._horizon:
            self._horizon = max(self._horizon - before, 1.0)


class AdaptiveSchedule(Schedule):
    """Base class of schedules whose rates follow from gradients.

    It keeps the sum of the squared norms of weighted gradients, and the maximum of those of unweighted gradients. The
    rate of a round must be set before its gradient is known. With equal weights, it uses the sum over earlier
    rounds. But an example with a thousand times the weight of earlier ones would take a step that is a thousand times
    too long. Therefore the sum is bounded below by ``w^2 G^2``, with the example's weight w and the maximum ``G^2``.
    """

    adaptive = True
    saved: ClassVar[tuple[str, ...]] = ("_squares", "_largest")
    places = {"_squares": jit.SQUARES, "_largest": jit.LARGEST}
    _squares = _largest = 0.0

    def restart(self) -> None:
        for name in self.places:  # all that follows from gradients
            setattr(self, name, 0.0)

    @property
    def sums(self) -> tuple[float, float]:
        return 0.0, self._squares

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        super().forget(sums, before, after)
        least = LONGER - after**-0.5  # about a standard error
        # if the solution moves slowly, gradients have not become longer, and longer steps would only add noise
        if (self._squares - sums[1]) * before > least * sums[1] * after:
            self._forget_sums(*sums)

    def _forget_sums(self, losses: float, squares: float) -> None:
        """Subtract the sums before a change."""
        self._squares = max(self._squares - squares, self._largest)

    def _squares_before(self, weight: float) -> float:
        """Return the sum of squares to use for the rate of an example of this weight."""
        return max(self._squares, self._largest * weight**2)

    def _add(self, square_gradient: float, weight: float) -> bool:
        """Add the squared norm of a weighted gradient; return whether it is the first nonzero one."""
        first = self._squares == 0.0 and square_gradient > 0.0
        self._squares += square_gradient
        self._largest = max(self._largest, square_gradient / weight**2)
        return first

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        before = self._squares
        for state, weight in zip(states, weights.tolist()):
            self._squares += weight * (float(state["_squares"]) - before)
            self._largest = max(self._largest, float(state["_largest"]))


class MeanPolyak(AdaptiveSchedule, LinearDecay):
    r"""Polyak's step size from averages, with linear decay over T rounds.

    .. math:: \eta_t = c\, \frac{\sum_{s<t} L_s}{\sum_{s<t} \|g_s\|^2}\, \Bigl(1 - \frac{t-1}{T}\Bigr)

    with the weighted losses and gradients of the examples.

    Polyak's step ``loss / ||g||^2`` just corrects the current example; for the hinge loss it is the step of
    passive-aggressive learners (Crammer et al. 2006). As single examples are noisy, this schedule takes the ratio of
    sums over all rounds so far. It needs no tuning, and unlike :class:`DistanceOverGradients`, it does not depend on
    the distance to the solution. It is the better choice if there are far more features than examples, so that all
    losses can be driven to zero.

    Parameters
    ----------
    eta0 : float > 0
        The factor c.
    """

    aliases = {"mean-polyak": {}, "polyak": {}}
    compiled = jit.MEAN_POLYAK
    saved = *LinearDecay.saved, "_losses", *AdaptiveSchedule.saved
    places = {"_losses": jit.LOSSES, **AdaptiveSchedule.places}
    _losses = 0.0

    @property
    def sums(self) -> tuple[float, float]:
        return self._losses, self._squares

    def _forget_sums(self, losses: float, squares: float) -> None:
        super()._forget_sums(losses, squares)
        self._losses -= losses

    def __call__(self, t: int, weight: float = 1.0) -> float:
        if self._squares == 0.0:
            return 1.0
        return self.eta0 * self._losses / self._squares_before(weight) * self.share_left(t)

    def factors(self, rounds: np.ndarray) -> np.ndarray:
        return np.array([self.share_left(t) for t in rounds.tolist()])

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        first = self._add(square_gradient, weight)
        self._losses += loss if loss > 0.0 or not first else 1.0
        return self.eta0 * self._losses / square_gradient if first else None

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        # sums of numerator and denominator over the rounds of all shards
        self._losses += float((np.array([state["_losses"] for state in states]) - self._losses).sum())
        super().mix(states, np.ones(len(states)))


class DistanceOverGradients(AdaptiveSchedule):
    r"""Rates that need no tuning: :math:`\eta_t = c\, \bar r_t / (\sum_{s<t} \|g_s\|^2)^{1/2}` (Ivgi et al. 2023).

    :math:`\bar r_t = \max_{s \le t} \|\theta_s\|` is the largest distance of the iterates from their starting point,
    the origin. The best fixed rate is the distance to the solution divided by the root of the sum of squared gradients.
    This schedule replaces the unknown distance by :math:`\bar r_t`, which grows towards it. The norm of the gradient
    includes all groups, so with more kernels, gradients are longer and rates smaller.

    The first step just corrects the first mistake: its rate is ``loss / ||g||^2`` (passive-aggressive). It sets the
    initial scale of the distance: a tenth of its length is a lower bound of :math:`\bar r_t`, even if the proximal
    step sets every group back to zero. Group norms are known in every round, so this schedule costs O(p) a round.

    Parameters
    ----------
    eta0 : float > 0
        The factor c. Above 1 the rates adapt faster; from about 2 on they may not settle.
    """

    aliases = {"distance-over-gradients": {}, "dog": {}}
    compiled = jit.DISTANCE_OVER_GRADIENTS
    # after a change of the stream, the distance stays: the new solution may be as far from the origin as the old one
    saved = "_distance", *AdaptiveSchedule.saved
    places = {"_distance": jit.DISTANCE, **AdaptiveSchedule.places}
    _distance = 0.0

    def __call__(self, t: int, weight: float = 1.0) -> float:
        return 1.0 if self._squares == 0.0 else self.eta0 * self._distance / math.sqrt(self._squares_before(weight))

    def factors(self, rounds: np.ndarray) -> np.ndarray:
        return np.ones(len(rounds))

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        # indefinite kernels can have negative squares, which count as zero
        square_gradient = max(square_gradient, 0.0)
        if not self._add(square_gradient, weight):
            return None
        rate = (loss if loss > 0.0 else 1.0) / square_gradient
        self._distance = max(self._distance, LEAST_SHARE * rate * math.sqrt(square_gradient))
        return rate

    def reach(self, distance: float, step: float) -> None:
        # A gradient step moves the model by at most its length. But in dual averaging, the whole model is proportional
        # to the rate: without this bound, rate and distance would increase each other in every round.
        if distance > self._distance:
            self._distance = min(distance, self._distance + step)

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        # a round of all shards is a step along the mean of their gradients, whose squared norm is at most the mean of
        # the squared norms; the distance is the maximum over shards
        self._distance = max(self._distance, *(float(state["_distance"]) for state in states))
        super().mix(states, weights)


class GrowingHorizon:
    """Lambda ``1 / (C t)`` for an unknown number of examples, where t is the total weight so far."""

    def __init__(self, C: float) -> None:
        self.C = C

    def __call__(self, t: N) -> N:
        return 1.0 / (self.C * t)
