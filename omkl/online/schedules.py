"""Schedules of learning rates."""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from omkl._components import Component, check_number, defines_first, is_vector
from omkl.exceptions import InputError
from omkl.online import _jit_schedules as jit
from omkl.online.rounds import TrainerPart
from omkl.signatures import ScheduleFunctions

N = TypeVar("N", float, np.ndarray)

#: State of schedules without any.
NO_NUMBERS = np.zeros(jit.N_NUMBERS)
#: Compiled functions for rates that are known before the rounds.
KNOWN_RATES = ScheduleFunctions(
    rate=jit.known_rate, observe=jit.keep_rate, reach=jit.ignore_distance
)
#: Methods from which the factors of many rounds follow.
RATES_OF_ONE_ROUND = "__call__", "factor", "share_left"
#: Learning rates restart if the mean squared gradient has grown by this factor, less a standard
#: error.
LONGER = 1.05


class Schedule(TrainerPart, Component):
    """A learning rate for each round ``t = 1, 2, ...``.

    A schedule that measures something names these attributes in ``saved``: checkpoints keep them.

    Parameters
    ----------
    eta0 : float > 0
        Scale of the rates.
    """

    #: Whether the trainer calls ``observe`` and ``reach``, and passes the example's weight:
    #: ``schedule(t, weight)``.
    adaptive: ClassVar[bool] = False
    #: Compiled functions of an adaptive schedule. Other ones need none, since their rates are known
    #: before the rounds.
    compiled: ScheduleFunctions | None = None
    #: Numbers that the compiled functions read and change; the first ones are those of
    #: :mod:`omkl.online._jit_schedules`.
    numbers: np.ndarray = NO_NUMBERS

    def __init_subclass__(cls) -> None:
        """Compute the factors of a class with rates of its own one by one."""
        super().__init_subclass__()
        if defines_first(cls, RATES_OF_ONE_ROUND, "factors"):
            cls.factors = Schedule.factors  # type: ignore[method-assign]

    def __init__(self, eta0: float = 1.0) -> None:
        check_number("eta0", eta0, above=0)
        self.eta0 = float(eta0)

    def __call__(self, t: int) -> float:
        self.must_define("__call__")

    def rate(self, t: int, weight: float) -> float:
        """Return the rate of round t; only adaptive rates depend on the weight of the example."""
        if self.adaptive:
            return self(t, weight)  # type: ignore[call-arg]
        return self(t)

    def factor(self, t: int) -> float:
        """Return the rate of round t, or what an adaptive schedule multiplies it by."""
        return self(t)

    def factors(self, rounds: np.ndarray) -> np.ndarray:
        """Return the :meth:`factor` of each round.

        Parameters
        ----------
        rounds : int array
        """
        return np.array([self.factor(t) for t in rounds.tolist()])

    def observe(self, loss: float, square_gradient: float, weight: float, rate: float) -> float:
        """Add the gradient of a round; return its rate, which the very first gradient may set.

        Parameters
        ----------
        loss, square_gradient : float
            Weighted loss, and squared norm of the weighted gradient.
        weight : float
            Weight of the example.
        rate : float
            Rate of the round before its gradient was known.
        """
        return rate

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
        """Set the total number of rounds, if it is known.

        Rates may decay to zero with the last round.

        Parameters
        ----------
        rounds : float
        """

    def fresh(self) -> "Schedule":
        """Return an unused schedule with the same parameters."""
        return type(self)(**self.parameters())


def check_schedule(schedule: Schedule) -> None:
    """Raise an InputError unless compiled rounds can read the numbers of a schedule.

    Parameters
    ----------
    schedule : Schedule
    """
    numbers = schedule.numbers
    if not is_vector(numbers) or len(numbers) < jit.N_NUMBERS:
        raise InputError(
            f"`numbers` of {schedule!r} must be a contiguous float64 vector of at least "
            f"{jit.N_NUMBERS} entries, got {numbers!r:.100}."
        )


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
    r""":math:`\eta_t = \eta_0 / \sqrt t`, with a regret of order :math:`\sqrt T`.

    See Proposition 5 of Martins et al. (2011).

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
    r""":math:`\eta_t = \eta_0\, (1 - (t-1)/T)`, which decays to zero after the last round T.

    See Defazio et al. (2023). If T is not known, as in ``partial_fit``, the rate is constant.

    Parameters
    ----------
    eta0 : float > 0
    """

    aliases = {"linear": {}}
    saved: ClassVar[tuple[str, ...]] = ("_horizon",)
    _horizon = 0.0  # if the total number of rounds is not known

    def __call__(self, t: int) -> float:
        return self.eta0 * self.share_left(t)

    def factors(self, rounds: np.ndarray) -> np.ndarray:
        return self.eta0 * self.shares_left(rounds)

    def share_left(self, t: int) -> float:
        """Return the fraction of rounds from t on; constant after the last round."""
        if not self._horizon:
            return 1.0
        return max(1.0 - (t - 1) / self._horizon, 1.0 / self._horizon)

    def shares_left(self, rounds: np.ndarray) -> np.ndarray:
        """Return the :meth:`share_left` of each round."""
        if not self._horizon:
            return np.ones(len(rounds))
        return np.maximum(1.0 - (rounds - 1) / self._horizon, 1.0 / self._horizon)

    def plan(self, rounds: float) -> None:
        self._horizon = float(rounds)

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        if self._horizon:
            self._horizon = max(self._horizon - before, 1.0)


class AdaptiveSchedule(Schedule):
    """Base class of schedules whose rates follow from gradients.

    It keeps the sum of the squared norms of weighted gradients, and the maximum of those of
    unweighted gradients. The rate of a round must be set before its gradient is known. With equal
    weights, it uses the sum over earlier rounds. But an example with a thousand times the weight of
    earlier ones would take a step that is a thousand times too long. Therefore the sum is bounded
    below by ``w^2 G^2``, with the example's weight w and the maximum ``G^2``.
    """

    adaptive = True
    saved: ClassVar[tuple[str, ...]] = ("numbers",)
    #: Compiled functions of the class, which its methods call.
    functions: ClassVar[ScheduleFunctions]

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)
        self.numbers = np.zeros(jit.N_NUMBERS)
        self.numbers[jit.ETA0] = self.eta0

    def __call__(self, t: int, weight: float = 1.0) -> float:
        return self.functions.rate(self.numbers, self.factor(t), weight)

    def factor(self, t: int) -> float:
        return 1.0  # does not depend on gradients

    def factors(self, rounds: np.ndarray) -> np.ndarray:
        return np.ones(len(rounds))

    def observe(self, loss: float, square_gradient: float, weight: float, rate: float) -> float:
        return self.functions.observe(self.numbers, loss, square_gradient, weight, rate)

    def reach(self, distance: float, step: float) -> None:
        self.functions.reach(self.numbers, distance, step)

    def restart(self) -> None:
        self.numbers[jit.SQUARES :] = 0.0  # all that follows from gradients

    @property
    def sums(self) -> tuple[float, float]:
        return self.numbers.item(jit.LOSSES), self.numbers.item(jit.SQUARES)

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        super().forget(sums, before, after)
        losses, squares = sums
        least = LONGER - after**-0.5  # about a standard error
        squares_after = self.numbers[jit.SQUARES] - squares
        # if the solution moves slowly, gradients have not become longer, and longer steps would
        # only add noise
        if squares_after * before > least * squares * after:
            self.numbers[jit.LOSSES] -= losses
            self.numbers[jit.SQUARES] = max(squares_after, self.numbers[jit.LARGEST])

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        before = self.numbers[jit.SQUARES]
        for state, weight in zip(states, weights.tolist()):
            numbers = state["numbers"]
            self.numbers[jit.SQUARES] += weight * (numbers[jit.SQUARES] - before)
            self.numbers[jit.LARGEST] = max(self.numbers[jit.LARGEST], numbers[jit.LARGEST])


class MeanPolyak(AdaptiveSchedule, LinearDecay):
    r"""Polyak's step size from averages, with linear decay over T rounds.

    .. math:: \eta_t = c\, \frac{\sum_{s<t} L_s}{\sum_{s<t} \|g_s\|^2}\,
        \Bigl(1 - \frac{t-1}{T}\Bigr)

    with the weighted losses and gradients of the examples.

    Polyak's step ``loss / ||g||^2`` just corrects the current example; for the hinge loss it is the
    step of passive-aggressive learners (Crammer et al. 2006). As single examples are noisy, this
    schedule takes the ratio of sums over all rounds so far. It needs no tuning, and unlike
    :class:`DistanceOverGradients`, it does not depend on the distance to the solution. It is the
    better choice if there are far more features than examples, so that all losses can be driven to
    zero.

    Parameters
    ----------
    eta0 : float > 0
        The factor c.
    """

    aliases = {"mean-polyak": {}, "polyak": {}}
    functions = ScheduleFunctions(
        rate=jit.mean_polyak_rate, observe=jit.observe_mean_polyak, reach=jit.ignore_distance
    )
    compiled = functions
    saved = *LinearDecay.saved, *AdaptiveSchedule.saved

    def factor(self, t: int) -> float:
        return self.share_left(t)

    def factors(self, rounds: np.ndarray) -> np.ndarray:
        return self.shares_left(rounds)

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        # sums of numerator and denominator over the rounds of all shards
        losses = np.array([state["numbers"][jit.LOSSES] for state in states])
        self.numbers[jit.LOSSES] += (losses - self.numbers[jit.LOSSES]).sum()
        super().mix(states, np.ones(len(states)))


class DistanceOverGradients(AdaptiveSchedule):
    r"""Rates :math:`\eta_t = c\, \bar r_t / (\sum_{s<t} \|g_s\|^2)^{1/2}`, which need no tuning.

    See Ivgi et al. (2023). :math:`\bar r_t = \max_{s \le t} \|\theta_s\|` is the largest distance
    of the iterates from their starting point, the origin. The best fixed rate is the distance to
    the solution divided by the root of the sum of squared gradients. This schedule replaces the
    unknown distance by :math:`\bar r_t`, which grows towards it. The norm of the gradient includes
    all groups, so with more kernels, gradients are longer and rates smaller.

    The first step just corrects the first mistake: its rate is ``loss / ||g||^2``
    (passive-aggressive). It sets the initial scale of the distance: a tenth of its length is a
    lower bound of :math:`\bar r_t`, even if the proximal step sets every group back to zero. Group
    norms are known in every round, so this schedule costs O(p) a round.

    Parameters
    ----------
    eta0 : float > 0
        The factor c. Above 1 the rates adapt faster; from about 2 on they may not settle.
    """

    aliases = {"distance-over-gradients": {}, "dog": {}}
    # after a change of the stream, the distance stays: the new solution may be as far from the
    # origin as the old one
    functions = ScheduleFunctions(
        rate=jit.distance_over_gradients_rate,
        observe=jit.observe_distance_over_gradients,
        reach=jit.reach_distance,
    )
    compiled = functions

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        # a round of all shards is a step along the mean of their gradients, whose squared norm is
        # at most the mean of the squared norms; the distance is the maximum over shards
        distances = [state["numbers"][jit.DISTANCE] for state in states]
        self.numbers[jit.DISTANCE] = max(self.numbers[jit.DISTANCE], *distances)
        super().mix(states, weights)


class GrowingHorizon:
    """Lambda for an unknown number of examples: ``1 / (C t)`` at the total weight t so far."""

    def __init__(self, C: float) -> None:
        self.C = C

    def __call__(self, t: N) -> N:
        return 1.0 / (self.C * t)
