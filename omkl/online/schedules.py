"""Schedules of learning rates."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from omkl._components import Component, check_number
from omkl.online import _jit_pass as jit

#: Lower bound of the distance of the iterates from the origin, as a fraction of the first gradient step.
LEAST_SHARE = 0.1
#: Learning rates restart if the mean squared gradient has grown by this factor, less a standard error.
LONGER = 1.05


class Schedule(Component):
    """A learning rate for each round ``t = 1, 2, ...``.

    Parameters
    ----------
    eta0 : float > 0
        Scale of the rates.
    """

    #: Whether the trainer calls ``observe`` and ``reach``, and passes the example's weight: ``schedule(t, weight)``.
    adaptive: ClassVar[bool] = False
    #: Of adaptive schedules: the kind, and the places of the numbers that :meth:`state` ends with.
    compiled: tuple[int, list[int]] | None = None

    def __init__(self, eta0: float = 1.0) -> None:
        check_number("eta0", eta0, above=0)
        self.eta0 = float(eta0)

    def __call__(self, t: int) -> float:
        self.must_define("__call__")

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

    def restart(self) -> None:
        """Reset all measurements, because the model was reset to the origin."""

    @property
    def sums(self) -> tuple[float, float]:
        """Sums of the losses and of the squared norms of gradients, where rates depend on them."""
        return 0.0, 0.0

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        """Forget the rounds ``before`` a change of the stream, with these :attr:`sums`; there are some ``after`` it."""

    def plan(self, rounds: float) -> None:
        """Set the total number of rounds, if it is known; rates may decay to zero with the last round.

        Parameters
        ----------
        rounds : float
        """

    def fresh(self) -> "Schedule":
        """Return an unused schedule with the same parameters."""
        return type(self)(**self.parameters())

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        """Merge the states of copies of this schedule, one from each shard.

        Parameters
        ----------
        states : list
            :meth:`state` of each copy.
        weights : array
            Weights of the shards, which sum to one.
        """

    def state(self) -> list[float]:
        """Return numbers for a checkpoint, besides the parameters."""
        return []

    def load_state(self, state: Sequence[float]) -> None:
        """Load the numbers of :meth:`state`.

        Parameters
        ----------
        state : sequence of float
        """


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

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)
        self._horizon = math.inf

    def __call__(self, t: int) -> float:
        return self.eta0 * self.share_left(t)

    def share_left(self, t: int) -> float:
        """Return the fraction of rounds from t on; constant after the last round."""
        return max(1.0 - (t - 1) / self._horizon, 1.0 / self._horizon) if self._horizon < math.inf else 1.0

    def plan(self, rounds: float) -> None:
        self._horizon = float(rounds)

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        self._horizon = max(self._horizon - before, 1.0)

    def state(self) -> list[float]:
        return [self._horizon]

    def load_state(self, state: Sequence[float]) -> None:
        (self._horizon,) = state


class _Squares:
    """Sum of the squared norms of weighted gradients, and maximum of the squared norms of unweighted gradients.

    The rate of a round must be set before its gradient is known. With equal weights, it uses the sum over earlier
    rounds. But an example with a thousand times the weight of earlier ones would take a step that is a thousand times
    too long. Therefore the sum is bounded below by ``w^2 G^2``, with the example's weight w and the maximum ``G^2``.
    """

    def __init__(self) -> None:
        self.total = self.largest = 0.0

    def add(self, square_gradient: float, weight: float) -> bool:
        """Add the squared norm of a weighted gradient; return whether it is the first nonzero one."""
        first = self.total == 0.0 and square_gradient > 0.0
        self.total += square_gradient
        self.largest = max(self.largest, square_gradient / weight**2)
        return first

    def forget(self, total: float, before: int, after: int) -> bool:
        """Subtract the total before a change, if gradients have become longer since; return whether they have.

        If the solution moves slowly, they have not, and longer steps would only add noise.
        """
        least = LONGER - after**-0.5  # about a standard error
        longer = (self.total - total) * before > least * total * after
        if longer:
            self.total = max(self.total - total, self.largest)
        return longer

    def before(self, weight: float) -> float:
        """Return the sum of squares to use for the rate of an example of this weight."""
        return max(self.total, self.largest * weight**2)

    def mix(self, shards: Sequence[Sequence[float]], weights: Sequence[float]) -> None:
        """Merge the ``(total, largest)`` of shards; the totals are multiplied by ``weights``."""
        before = self.total
        for (total, largest), weight in zip(shards, weights):
            self.total += weight * (total - before)
            self.largest = max(self.largest, largest)


class MeanPolyak(LinearDecay):
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
    adaptive = True
    compiled = jit.MEAN_POLYAK, [jit.LOSSES, jit.SQUARES, jit.LARGEST]

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)
        self.restart()

    def restart(self) -> None:
        self._losses, self._squares = 0.0, _Squares()

    @property
    def sums(self) -> tuple[float, float]:
        return self._losses, self._squares.total

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        super().forget(sums, before, after)
        if self._squares.forget(sums[1], before, after):
            self._losses -= sums[0]

    def __call__(self, t: int, weight: float = 1.0) -> float:
        if self._squares.total == 0.0:
            return 1.0
        return self.eta0 * self._losses / self._squares.before(weight) * self.share_left(t)

    def factors(self, rounds: np.ndarray) -> np.ndarray:
        return np.array([self.share_left(t) for t in rounds.tolist()])

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        first = self._squares.add(square_gradient, weight)
        self._losses += loss if loss > 0.0 or not first else 1.0
        return self.eta0 * self._losses / square_gradient if first else None

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        # sums of numerator and denominator over the rounds of all shards
        _, losses, *squares = np.transpose(list(states))
        self._losses += float((losses - self._losses).sum())
        self._squares.mix(np.transpose(squares).tolist(), [1.0] * len(losses))

    def state(self) -> list[float]:
        return [*super().state(), self._losses, self._squares.total, self._squares.largest]

    def load_state(self, state: Sequence[float]) -> None:
        self._horizon, self._losses, self._squares.total, self._squares.largest = map(float, state)


class DistanceOverGradients(Schedule):
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
    adaptive = True
    compiled = jit.DISTANCE_OVER_GRADIENTS, [jit.DISTANCE, jit.SQUARES, jit.LARGEST]

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)
        self.restart()

    def restart(self) -> None:
        self._distance, self._squares = 0.0, _Squares()

    @property
    def sums(self) -> tuple[float, float]:
        return 0.0, self._squares.total

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        # the distance stays: the new solution may be as far from the origin as the old one
        self._squares.forget(sums[1], before, after)

    def __call__(self, t: int, weight: float = 1.0) -> float:
        if self._squares.total == 0.0:
            return 1.0
        return self.eta0 * self._distance / math.sqrt(self._squares.before(weight))

    def factors(self, rounds: np.ndarray) -> np.ndarray:
        return np.ones(len(rounds))

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        # indefinite kernels can have negative squares, which count as zero
        square_gradient = max(square_gradient, 0.0)
        if not self._squares.add(square_gradient, weight):
            return None
        rate = (loss if loss > 0.0 else 1.0) / square_gradient
        self._distance = max(self._distance, LEAST_SHARE * rate * math.sqrt(square_gradient))
        return rate

    def reach(self, distance: float, step: float) -> None:
        # A gradient step moves the model by at most its length. But in dual averaging, the whole model is proportional
        # to the rate: without this bound, rate and distance would increase each other in every round.
        if distance > self._distance:
            self._distance = min(distance, self._distance + step)

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        # a round of all shards is a step along the mean of their gradients, whose squared norm is at most the mean of
        # the squared norms; the distance is the maximum over shards
        distances, *squares = np.transpose(list(states))
        self._distance = max(self._distance, float(distances.max()))
        self._squares.mix(np.transpose(squares).tolist(), weights.tolist())

    def state(self) -> list[float]:
        return [self._distance, self._squares.total, self._squares.largest]

    def load_state(self, state: Sequence[float]) -> None:
        self._distance, self._squares.total, self._squares.largest = map(float, state)


class GrowingHorizon:
    """Lambda ``1 / (C t)`` for an unknown number of examples, where t is the total weight so far."""

    def __init__(self, C: float) -> None:
        self.C = C

    def __call__(self, t: Any) -> Any:
        return 1.0 / (self.C * t)
