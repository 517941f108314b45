"""Schedules of learning rates."""

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from omkl._components import Component, check_number

#: The distance of the iterates from the origin counts as at least this share of the first gradient step.
LEAST_SHARE = 0.1


class Schedule(Component):
    """A learning rate for each round ``t = 1, 2, ...``.

    Parameters
    ----------
    eta0 : float > 0
        Scale of the rates.
    """

    #: Whether the trainer reports gradients and distances, and calls ``schedule(t, weight)`` with the example's weight.
    adaptive: ClassVar[bool] = False

    def __init__(self, eta0: float = 1.0) -> None:
        check_number("eta0", eta0, above=0)
        self.eta0 = float(eta0)

    def __call__(self, t: int) -> float:
        self.must_define("__call__")

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        """Take in the gradient of a round; return the rate of the very first step, and None later.

        Parameters
        ----------
        loss, square_gradient : float
            Weighted loss, and squared norm of the weighted gradient.
        weight : float
            Weight of the example.
        """
        self.must_define("observe")

    def reach(self, distance: float, step: float) -> None:
        """Take in how far a round has come.

        Parameters
        ----------
        distance : float
            Distance of the model from the origin.
        step : float
            Length of the gradient step.
        """

    def restart(self) -> None:
        """Forget what was measured: the model is at the origin again."""

    def plan(self, rounds: float) -> None:
        """Take in how many rounds there will be, if that is known: rates may end at zero with the last.

        Parameters
        ----------
        rounds : float
        """

    def fresh(self) -> "Schedule":
        """Return a schedule with the same parameters that has seen nothing."""
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
        """Return numbers for a checkpoint, besides the parameters."""
        return []

    def load_state(self, state: Sequence[float]) -> None:
        """Load the numbers of :meth:`state`.

        Parameters
        ----------
        state : sequence of float
        """


class Constant(Schedule):
    r""":math:`\eta_t = \eta_0`. Regret of order T for a fixed rate, and the choice for drifting streams.

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

    Regret of order :math:`\log T` where loss and regularizer together are :math:`\sigma`-strongly convex.

    Parameters
    ----------
    eta0 : float > 0
    """

    aliases = {"inverse-time": {}}

    def __call__(self, t: int) -> float:
        return self.eta0 / t


class LinearDecay(Schedule):
    r""":math:`\eta_t = \eta_0\, (1 - (t-1)/T)`: down to zero with the last round T (Defazio et al. 2023).

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
        return self.eta0 * self._left(t)

    def _left(self, t: int) -> float:
        """The fraction of the rounds from t on; after the last round it stays the same."""
        return max(1.0 - (t - 1) / self._horizon, 1.0 / self._horizon) if self._horizon < math.inf else 1.0

    def plan(self, rounds: float) -> None:
        self._horizon = float(rounds)

    def state(self) -> list[float]:
        return [self._horizon]

    def load_state(self, state: Sequence[float]) -> None:
        (self._horizon,) = state


class _Squares:
    """The sum of the squared norms of weighted gradients, and the largest square of one of weight 1.

    The rate of a round is due before its gradient is known. With equal weights, the sum over the rounds before serves.
    But an example of a thousand times the weight of the ones before would take a step a thousand times too long. So
    the sum counts as no less than the ``w^2 G^2`` that its own gradient may have.
    """

    def __init__(self) -> None:
        self.total = self.largest = 0.0

    def add(self, square_gradient: float, weight: float) -> bool:
        """Take in the square of a weighted gradient; return whether it is the first."""
        first = self.total == 0.0 and square_gradient > 0.0
        self.total += square_gradient
        self.largest = max(self.largest, square_gradient / weight**2)
        return first

    def before(self, weight: float) -> float:
        """The sum for the rate of an example of this weight."""
        return max(self.total, self.largest * weight**2)

    def mix(self, shards: Sequence[Sequence[float]], weights: Sequence[float]) -> None:
        """Take in the squares of shards, their totals with these weights."""
        before = self.total
        for (total, largest), weight in zip(shards, weights):
            self.total += weight * (total - before)
            self.largest = max(self.largest, largest)


class MeanPolyak(LinearDecay):
    r"""Polyak's step on average, decaying linearly with the rounds that are left of T.

    .. math:: \eta_t = c\, \frac{\sum_{s<t} L_s}{\sum_{s<t} \|g_s\|^2}\, \Bigl(1 - \frac{t-1}{T}\Bigr)

    with the weighted losses and gradients of the examples.

    Polyak's step ``loss / ||g||^2`` just mends the current example; for the hinge it is that of passive-aggressive
    learners (Crammer et al. 2006). A single example says little, so this rule takes the ratio of sums over all rounds
    so far. It needs no tuning, and unlike :class:`DistanceOverGradients` it does not ask how far away the solution is.
    It is better with far more features than examples: every loss can be driven to zero, and how fast decides what is
    learned.

    Parameters
    ----------
    eta0 : float > 0
        The factor c.
    """

    aliases = {"mean-polyak": {}, "polyak": {}}
    adaptive = True

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)
        self.restart()

    def restart(self) -> None:
        self._losses, self._squares = 0.0, _Squares()

    def __call__(self, t: int, weight: float = 1.0) -> float:
        if self._squares.total == 0.0:
            return 1.0
        return self.eta0 * self._losses / self._squares.before(weight) * self._left(t)

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        first = self._squares.add(square_gradient, weight)
        self._losses += loss if loss > 0.0 or not first else 1.0
        return self.eta0 * self._losses / square_gradient if first else None

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        # a ratio of sums: every round of every shard counts
        _, losses, *squares = np.transpose(list(states))
        self._losses += float((losses - self._losses).sum())
        self._squares.mix(np.transpose(squares).tolist(), [1.0] * len(losses))

    def state(self) -> list[float]:
        return [*super().state(), self._losses, self._squares.total, self._squares.largest]

    def load_state(self, state: Sequence[float]) -> None:
        self._horizon, self._losses, self._squares.total, self._squares.largest = map(float, state)


class DistanceOverGradients(Schedule):
    r"""Rates that need no tuning: :math:`\eta_t = c\, \bar r_t / (\sum_{s<t} \|g_s\|^2)^{1/2}` (Ivgi et al. 2023).

    :math:`\bar r_t = \max_{s \le t} \|\theta_s\|` is the farthest that the iterates have been from the origin, where
    they start. The best fixed rate is the distance to the solution over the root of the sum of squared gradients. This
    rule puts the distance seen so far in place of the unknown one, and grows into it. The gradient's norm is over all
    groups together, so a model of p kernels takes steps that are as much smaller as its gradient is longer.

    The first step is the one that just mends the first mistake, ``loss / ||g||^2`` (passive-aggressive). It sets the
    scale from which the distance grows, even if the proximal step that follows sets every group to zero again: the
    distance counts as no less than a tenth of that first step's length. Group norms are exact in every round, so the
    rule costs O(p) a round.

    Parameters
    ----------
    eta0 : float > 0
        The factor c. Above 1 the rates adapt faster; from about 2 on they may not settle.
    """

    aliases = {"distance-over-gradients": {}, "dog": {}}
    adaptive = True

    def __init__(self, eta0: float = 1.0) -> None:
        super().__init__(eta0)
        self.restart()

    def restart(self) -> None:
        self._distance, self._squares = 0.0, _Squares()

    def __call__(self, t: int, weight: float = 1.0) -> float:
        if self._squares.total == 0.0:
            return 1.0
        return self.eta0 * self._distance / math.sqrt(self._squares.before(weight))

    def observe(self, loss: float, square_gradient: float, weight: float = 1.0) -> float | None:
        # kernels that are not positive semidefinite can have squares below zero, which count as zero, as in norms
        square_gradient = max(square_gradient, 0.0)
        if not self._squares.add(square_gradient, weight):
            return None
        rate = (loss if loss > 0.0 else 1.0) / square_gradient
        self._distance = max(self._distance, LEAST_SHARE * rate * math.sqrt(square_gradient))
        return rate

    def reach(self, distance: float, step: float) -> None:
        # A step takes the model no farther than its own length. But dual averaging sets the model anew, in proportion
        # to the rate: without this bound, rate and distance would increase each other from round to round.
        if distance > self._distance:
            self._distance = min(distance, self._distance + step)

    def mix(self, states: Iterable[Sequence[float]], weights: np.ndarray) -> None:
        # one round of all shards is a step along the mean of their gradients, whose square is at most the mean of the
        # squares; iterates of any shard count for the distance
        distances, *squares = np.transpose(list(states))
        self._distance = max(self._distance, float(distances.max()))
        self._squares.mix(np.transpose(squares).tolist(), weights.tolist())

    def state(self) -> list[float]:
        return [self._distance, self._squares.total, self._squares.largest]

    def load_state(self, state: Sequence[float]) -> None:
        self._distance, self._squares.total, self._squares.largest = map(float, state)


class GrowingHorizon:
    """Lambda as ``1 / (C t)``, t the sum of the weights seen so far, over which the objective has its mean."""

    def __init__(self, C: float) -> None:
        self.C = C

    def __call__(self, t: float) -> float:
        return 1.0 / (self.C * t)
