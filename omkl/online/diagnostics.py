"""How well a run keeps the promises of the theory: measured regret beside its bound."""

import math

import numpy as np

from omkl.exceptions import InputError
from omkl.online.schedules import Constant, InverseSqrt, InverseTime

#: What :class:`RegretMonitor` sums up from round to round.
_MEASURED = ("_cumulative", "_gradients", "_inverse_rates", "_reach", "_last_rate", "_penalty")


def regret_bound(schedule, rounds, lipschitz, *, distance, method="fobos"):
    r"""Bound on the regret after some rounds (Martins et al. 2011, Prop. 5; for dual averaging Xiao 2010, Cor. 2).

    Parameters
    ----------
    schedule : Constant, InverseSqrt or InverseTime
    rounds : int
        T.
    lipschitz : float
        G, a bound on the norms of the gradients; :math:`2 \max \|\phi\|` for the structured losses.
    distance : float
        For a constant rate and for dual averaging, the norm of the model compared with; for
        :math:`\eta_0/\sqrt t`, the diameter F of the set that holds the iterates and that model.
    method : {"fobos", "rda"}

    Returns
    -------
    float
        Bound on :math:`\sum_t (\lambda R(\theta_t) + L_t(\theta_t)) - \sum_t (\lambda R(\theta^*) + L_t(\theta^*))`.
    """
    eta0 = schedule.eta0
    if method == "rda":
        if not isinstance(schedule, InverseSqrt):
            raise InputError("The bound of dual averaging is known for rates eta0 / sqrt(t) only.")
        return (distance**2 / (2 * eta0) + lipschitz**2 * eta0) * math.sqrt(rounds)
    if isinstance(schedule, Constant):
        return eta0 * rounds * lipschitz**2 / 2 + distance**2 / (2 * eta0)
    if isinstance(schedule, InverseSqrt):
        return (distance**2 / (2 * eta0) + lipschitz**2 * eta0) * math.sqrt(rounds)
    if isinstance(schedule, InverseTime):
        return lipschitz**2 * eta0 * (1 + math.log(rounds)) / 2
    raise InputError(f"No closed bound is known for {schedule!r}: see RegretMonitor for one from measured gradients.")


class RegretMonitor:
    r"""Callback that measures the regret, and bounds it from the gradients and rates that were met.

    After every epoch it compares the run so far with the model at hand, and adds to the record, per round:

    ``regret``
        :math:`\frac1T \sum_t [\lambda R(\theta_t) + L_t(\theta_t)] - [\lambda R(\theta^*) + L_t(\theta^*)]`, with
        :math:`\theta^*` the model after the epoch.
    ``regret_bound``
        What Lemma 4 of Martins et al. (2011) sums to for the rates of any schedule:
        :math:`\frac12 \sum_t \eta_t \|g_t\|^2 + \frac{D^2}{2} (\frac1{\eta_1} + \sum_t (\frac1{\eta_t} -
        \frac1{\eta_{t-1}})_+)`, D the largest distance of an iterate from :math:`\theta^*` (bounded by the sum of
        their norms). For forward-backward splitting.

    The comparison costs one more pass over the data an epoch, and O(p) a round.
    """

    def on_start(self, trainer, source):
        """Forget earlier runs; the measured sums start here."""
        if not hasattr(source, "examples"):
            raise InputError("RegretMonitor compares with all examples at hand, which a stream does not have.")
        if not trainer.method.forgets:
            raise InputError("RegretMonitor bounds forward-backward splitting: use method='fobos'.")
        self._examples = source.examples
        self._cumulative = self._gradients = self._inverse_rates = self._reach = 0.0
        self._last_rate = math.inf
        self._penalty = trainer.penalty()

    def state(self):
        """What a checkpoint needs: numbers, and no arrays."""
        return {name: getattr(self, name) for name in _MEASURED}, {}

    def load_state(self, values, arrays):
        """The inverse of :meth:`state`."""
        for name, value in values.items():
            setattr(self, name, value)

    def on_round(self, trainer, step):
        """Take in one round."""
        self._cumulative += step.loss + trainer.current_strength * self._penalty
        self._penalty = trainer.penalty()
        self._gradients += step.rate * step.square_gradient
        self._inverse_rates += max(0.0, 1.0 / step.rate - 1.0 / self._last_rate)
        self._last_rate = step.rate
        self._reach = max(self._reach, float(np.linalg.norm(trainer.group_state.norms)))

    def __call__(self, trainer, record):
        """Compare with the model after this epoch."""
        here = trainer.mean_loss(self._examples) + trainer.current_strength * self._penalty
        distance = self._reach + float(np.linalg.norm(trainer.group_state.norms))
        record["regret"] = self._cumulative / trainer.round - here
        record["regret_bound"] = (self._gradients + distance**2 * self._inverse_rates) / (2 * trainer.round)
