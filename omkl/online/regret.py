"""Regret bounds of online learning, their constants, and a monitor of the regret."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from omkl.exceptions import InputError
from omkl.losses import StructuredLoss
from omkl.online.rounds import Step
from omkl.online.schedules import Constant, InverseSqrt, InverseTime, Schedule
from omkl.online.trainer import OnlineTrainer
from omkl.regularizers import Regularizer
from omkl.structures import Potentials, Structure

#: What :class:`RegretMonitor` sums up from round to round.
_MEASURED = ("_cumulative", "_gradients", "_inverse_rates", "_reach", "_last_rate", "_penalty", "_norm")


def regret_bound(
    schedule: Schedule, rounds: int, lipschitz: float, *, distance: float = math.nan, method: str = "fobos"
) -> float:
    r"""Bound on the regret after some rounds (Martins et al. 2011, Prop. 5; for dual averaging Xiao 2010, Cor. 2).

    Parameters
    ----------
    schedule : Constant, InverseSqrt or InverseTime
        The last with :math:`\eta_0 = 1/\sigma` where each loss is :math:`\sigma`-strongly convex (Prop. 5.3).
    rounds : int
        T.
    lipschitz : float
        G, a bound on the norms of the gradients: see :func:`lipschitz_constant`. Of a structured loss plus
        :math:`\frac\sigma2\|\theta\|^2` it is :math:`G + \sigma\gamma` within a radius :math:`\gamma` (Prop. 8.4).
    distance : float
        For a constant rate and for dual averaging, the norm of the model compared with; for
        :math:`\eta_0/\sqrt t`, the diameter F of the set that holds the iterates and that model, twice its radius.
        Not needed for :math:`\eta_0/t`.
    method : {"fobos", "rda"}

    Returns
    -------
    float
        Bound on :math:`\sum_t (\lambda R(\theta_t) + L_t(\theta_t)) - \sum_t (\lambda R(\theta^*) + L_t(\theta^*))`.

    Raises
    ------
    omkl.exceptions.InputError
        If no closed bound is known.
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


def optimal_eta0(lipschitz: float, distance: float, rounds: int | None = None) -> float:
    r"""The ``eta0`` with the least :func:`regret_bound` (Martins et al. 2011, Prop. 5).

    Parameters
    ----------
    lipschitz : float
        G > 0.
    distance : float
        As for :func:`regret_bound`.
    rounds : int, optional
        T, for a constant rate: :math:`\|\theta^*\| / (G \sqrt T)`. Without it the optimum is that of rates
        :math:`\eta_0/\sqrt t`: :math:`F / (\sqrt 2 G)`, whatever the number of rounds.

    Returns
    -------
    float

    Examples
    --------
    >>> round(optimal_eta0(lipschitz=2.0, distance=1.0), 4), optimal_eta0(2.0, 1.0, rounds=100)
    (0.3536, 0.05)
    """
    return distance / (lipschitz * math.sqrt(2.0 if rounds is None else rounds))


def solution_radius(
    regularizer: Regularizer, loss_at_zero: float, lambda_: float, n_groups: int, sigma: float = 0.0
) -> float:
    r"""A radius that holds the solution of the regularized problem (Martins et al. 2011, Prop. 8.1 and 8.3).

    The objective at the solution is at most :math:`\Lambda`, its value at zero, so
    :math:`\frac\sigma2 r^2 + \lambda R \le \Lambda` with the least R that a model of norm r can have. For the squared
    mixed norm that is :math:`r \le \sqrt{2 \Lambda / (\lambda + \sigma)}`.

    Parameters
    ----------
    regularizer : Regularizer
    loss_at_zero : float
        :math:`\Lambda`: the mean over examples of the loss where the model is zero. For the hinge the mean of the
        largest cost, for a CRF of the logarithm of the number of outputs.
    lambda_ : float
        :math:`\lambda > 0`.
    n_groups : int
    sigma : float
        Weight :math:`\sigma \ge 0` of an additional :math:`\frac12\|\theta\|^2`.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If neither the regularizer nor ``sigma`` bounds it.

    Examples
    --------
    >>> from omkl.regularizers import SquaredL21
    >>> solution_radius(SquaredL21(), loss_at_zero=3.0, lambda_=0.5, n_groups=2, sigma=1.0)
    2.0
    """

    def radius(penalty: float) -> float:
        return float(regularizer.norm_bound(penalty / lambda_, n_groups))

    try:
        farthest = radius(loss_at_zero)
    except InputError:
        if sigma == 0.0:
            raise
        return math.sqrt(2.0 * loss_at_zero / sigma)
    if sigma == 0.0 or loss_at_zero == 0.0:
        return farthest
    from scipy.optimize import brentq

    penalty = brentq(lambda v: v + 0.5 * sigma * radius(v) ** 2 - loss_at_zero, 0.0, loss_at_zero, xtol=1e-300)
    return radius(penalty)


def lipschitz_constant(trainer: OnlineTrainer, inputs: Iterable[Any]) -> float:
    r""":math:`G = 2 \max \|\phi(x, y)\|`, a Lipschitz constant of structured losses (Martins et al. 2011, Prop. 8.2).

    The norm of an output's features is bounded part by part: with k the kernel between the parts of outputs of x,

    .. math:: \|\phi(x,y)\|^2 = \sum_{a \in y} \sum_{b \in y} k(a, b)
              \le \max_{y} \sum_{a \in y} \max_{y'} \sum_{b \in y'} k(a, b),

    where both maxima are found by decoding. That is exact for classes, and for chains whose kernels are not negative.

    Parameters
    ----------
    trainer : OnlineTrainer
        Its banks and structure are used; nothing is learned.
    inputs : iterable
        Encoded inputs, as ``trainer.update`` takes them. Each costs as many decodings as its outputs have parts: take
        a sample of them where there are many.

    Returns
    -------
    float

    Raises
    ------
    omkl.exceptions.InputError
        If the structure does not score outputs, as that of regression.
    """
    structure = trainer.structure
    if not hasattr(structure, "score"):
        raise InputError(f"{type(structure).__name__} has no outputs to compare: G is known for structured losses.")
    return 2.0 * math.sqrt(max((_square_feature_norm(trainer, x) for x in inputs), default=0.0))


def _square_feature_norm(trainer: OnlineTrainer, x: Any) -> float:
    """The bound on the largest squared norm of an output's features."""
    structure = trainer.structure
    probe = OnlineTrainer(
        copy.deepcopy(trainer.banks), structure, _GivenGradient(), None, lambda_=0.0, schedule=Constant(1.0)
    )
    probe.group_state.load_state(trainer.group_state.state())
    bounds = structure.zeros(len(x))
    occurring = structure.marginals(bounds)[1]
    for i, found in enumerate(occurring):
        for part in zip(*np.nonzero(found)):
            indicator = structure.zeros(len(x))
            # a step along the features of the part, and back: potentials differ by its kernel with all parts
            indicator[i][part] = -1.0
            before = probe.update(x, indicator).potentials
            indicator[i][part] = 1.0
            kernel = probe.update(x, indicator).potentials
            for array, known in zip(kernel, before):
                array -= known
            bounds[i][part] = _best_score(structure, kernel)
    return _best_score(structure, bounds)


class _GivenGradient(StructuredLoss):
    """Stands in for a loss: its gradient is what it is given as the gold output."""

    def value_and_gradient(self, structure: Structure, potentials: Potentials, gold: Any) -> tuple[float, Potentials]:
        return 0.0, gold


def _best_score(structure: Structure, potentials: Potentials) -> float:
    return float(structure.score(potentials, structure.decode(potentials)))


class RegretMonitor:
    r"""Callback that measures the regret, and bounds it from the gradients and rates that were met.

    After every epoch it compares the run so far with the model at hand, and adds to the record, per example, or per
    unit of weight where examples have weights :math:`w_t`, of the sum W:

    ``regret``
        :math:`\frac1W \sum_t w_t [\lambda R(\theta_t) + L_t(\theta_t)] - w_t [\lambda R(\theta^*) + L_t(\theta^*)]`,
        with :math:`\theta^*` the model after the epoch.
    ``regret_bound``
        What Lemma 4 of Martins et al. (2011) sums to for the rates of any schedule:
        :math:`\frac12 \sum_t \eta_t \|g_t\|^2 + \frac{D^2}{2} (\frac1{\eta_1} + \sum_t (\frac1{\eta_t} -
        \frac1{\eta_{t-1}})_+)`, D the largest distance of an iterate from :math:`\theta^*` (bounded by the sum of
        their norms). For forward-backward splitting.

    The comparison costs one more pass over the data an epoch, and O(p) a round.
    """

    def on_start(self, trainer: OnlineTrainer, source: Any) -> None:
        """Forget earlier runs; the measured sums start here."""
        if not hasattr(source, "examples"):
            raise InputError("RegretMonitor compares with all examples at hand, which a stream does not have.")
        if not trainer.method.forgets or trainer.weighting != "norms":
            raise InputError(
                "RegretMonitor bounds forward-backward splitting whose weights follow from norms: use method='fobos' "
                "and weighting='norms'."
            )
        self._examples = source.examples
        self._cumulative = self._gradients = self._inverse_rates = self._reach = 0.0
        self._last_rate = math.inf
        self._penalty, self._norm = trainer.penalty(), float(np.linalg.norm(trainer.group_state.norms))
        trainer.measures_gradients = True

    def state(self) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """Numbers for a checkpoint; no arrays."""
        return {name: getattr(self, name) for name in _MEASURED}, {}

    def load_state(self, values: dict[str, float], arrays: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        for name, value in values.items():
            setattr(self, name, value)

    def on_round(self, trainer: OnlineTrainer, step: Step) -> None:
        """Take in one round."""
        self._cumulative += step.loss + step.weight * trainer.current_lambda * self._penalty
        self._penalty = trainer.penalty()
        # the gradient of the L2 part of the losses is w sigma theta, beside that in potentials
        length = np.sqrt(step.square_gradient) + step.weight * trainer.l2 * self._norm
        self._gradients += step.rate * float(length) ** 2
        self._norm = float(np.linalg.norm(trainer.group_state.norms))
        self._inverse_rates += max(0.0, 1.0 / step.rate - 1.0 / self._last_rate)
        self._last_rate = step.rate
        self._reach = max(self._reach, self._norm)

    def __call__(self, trainer: OnlineTrainer, record: dict[str, Any]) -> None:
        """Compare with the model after this epoch."""
        here = trainer.mean_loss(self._examples) + trainer.current_lambda * self._penalty
        distance = self._reach + float(np.linalg.norm(trainer.group_state.norms))
        record["regret"] = self._cumulative / trainer.presented - here
        record["regret_bound"] = (self._gradients + distance**2 * self._inverse_rates) / (2 * trainer.presented)
