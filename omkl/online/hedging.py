"""Online combination of kernel learners by Hedge: how their weights follow from their losses."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from omkl._components import Component, check_number
from omkl.exceptions import InputError
from omkl.online.averaging import Predictor

#: What the losses of learners are: those of the trainer, or 1 for a wrong output and 0 for a right one.
CHARGES = ("losses", "mistakes")


class Hedge(Component):
    r"""A learner for every kernel, which steps along the gradient of its own loss, and Hedge over them.

    The other methods take steps along one gradient, that of the loss of the sum of all groups, so kernels share the
    work: what one explains the others need not. Here every kernel explains the output by itself, by forward-backward
    splitting on its own potentials :math:`f_k`, and only the outputs are combined,

    .. math:: f = \sum_k w_k f_k, \qquad w_k \propto \exp\Bigl(-\alpha \sum_{s < t} \ell_{sk}\Bigr),

    with the losses :math:`\ell_{sk}` of learner k before it learned from the example. As the loss is convex,
    :math:`\sum_t L_t(f) \le \min_k \sum_t \ell_{tk} + \frac{\ln p}{\alpha} + \frac{\alpha T}{8}` for losses in [0, 1]:
    the combination is about as good as the best learner, and not meant to be better than that. Everything else,
    regularizer, rates, averages, budgets, is that of each learner, which has an intercept of its own.

    ============  ===================================================================================================
    ``hedge``     the learning rate of AdaHedge (de Rooij et al. 2014), which knows no scale and no horizon
    ``omkc``      deterministic updates and combination (Hoi et al. 2013): learners vote, and a mistake costs a learner
                  the factor 0.8. Their learners are perceptrons: ``loss="perceptron", regularizer=None, eta0=1,
                  schedule="constant", average=None``. A potential of 0 is a vote for the first class
    ``raker``     a fixed rate (Shen et al. 2019, Algorithm 1). Their learners are kernels by Fourier features
                  (``"gaussian:features=100"``) with ``regularizer=None, schedule="constant", average=None``; the
                  weight of their regularizer is half of ``l2``
    ``adaraker``  a Raker for every interval of the length :math:`2^j` that begins at a multiple of it, at the rates
                  :math:`\min(1/2, \eta / \sqrt{2^j})` where rates are constant, and Hedge over those that are running
                  (Shen et al. 2019, Algorithm 3): regret is small on every stretch of a stream that drifts
    ============  ===================================================================================================

    Parameters
    ----------
    rate : float > 0 or "auto"
        :math:`\alpha`; ``-log(beta)`` for the discount beta of a loss of 1. "auto" is AdaHedge.
    charge : {"losses", "mistakes"}
        What :math:`\ell` is. Mistakes are the costs of the decoded outputs.
    vote : bool
        Combine decoded labels instead of potentials, where an input has one label.
    sampling : float in (0, 1], optional
        :math:`\delta`: in a round only a random choice of learners learns and is charged, each with the probability
        :math:`(1 - \delta) w_k / \max_j w_j + \delta` (stochastic updates); None for all.
    combine : {"all", "sampled"}
        Whether the output before a round is that of all learners, or of the sampled ones (stochastic combination).
        The trained model combines all of them.
    restarts : int, optional
        The shortest of the intervals, in rounds; None for one learner a kernel that is never started anew.
    seed : int
        For ``sampling``; the choice of round t depends on this and t alone.

    References
    ----------
    Hoi, Jin, Zhao, Yang (2013), Online multiple kernel classification. Shen, Chen, Giannakis (2019), Random
    feature-based online multi-kernel learning in environments with unknown dynamics. Daniely, Gonen, Shalev-Shwartz
    (2015), Strongly adaptive online learning.
    """

    aliases = {
        "hedge": {},
        "omkc": {"rate": -math.log(0.8), "charge": "mistakes", "vote": True},
        "raker": {"rate": 0.5},
        "adaraker": {"rate": 0.5, "restarts": 1},
    }
    name = "hedge"
    forgets = False
    #: Whether shards can learn in this way.
    mixable = False

    def __init__(
        self, rate: float | str = "auto", charge: str = "losses", vote: bool = False, sampling: float | None = None,
        combine: str = "all", restarts: int | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        if isinstance(rate, str) and rate != "auto":
            raise InputError(f'rate must be a number > 0 or "auto", not {rate!r}.')
        if not isinstance(rate, str):
            check_number("rate", rate, above=0)
        if charge not in CHARGES:
            raise InputError(f"charge must be one of {', '.join(CHARGES)}, not {charge!r}.")
        if sampling is not None and not 0 < sampling <= 1:
            raise InputError(f"sampling must be a probability > 0, or None, not {sampling!r}.")
        if combine not in ("all", "sampled") or (combine == "sampled" and sampling is None):
            raise InputError(f'combine must be "all", or "sampled" where sampling= is given, not {combine!r}.')
        if restarts is not None:
            check_number("restarts", restarts, above=0, integer=True)
        check_number("seed", seed, above=-1, integer=True)
        self.rate = rate
        self.charge = charge
        self.vote = bool(vote)
        self.sampling = sampling
        self.combine = combine
        self.restarts = restarts
        self.seed = int(seed)

    def meet(self, new: bool, group_state: Any) -> None:
        """Learners are charged in every pass, as they are in the first."""

    def draw(self, weights: np.ndarray, t: int) -> np.ndarray:
        """Which learners learn in round t, a bool array; never none of them."""
        if self.sampling is None:
            return np.ones(len(weights), dtype=bool)
        chances = (1.0 - self.sampling) * weights / weights.max() + self.sampling
        drawn = np.random.default_rng([self.seed, t]).random(len(weights)) < chances
        drawn[weights.argmax()] |= not drawn.any()
        return drawn


class HedgeWeights:
    r"""Weights :math:`w_k \propto \exp(-\alpha L_k)` of p experts with the cumulative losses :math:`L_k`.

    With ``rate="auto"``, :math:`\alpha = \ln p / \Delta`, :math:`\Delta` the sum over the rounds of how much the mean
    loss under the weights exceeds the mix loss :math:`-\frac1\alpha \ln \sum_k w_k e^{-\alpha \ell_k}`
    (de Rooij et al. 2014, AdaHedge).

    Parameters
    ----------
    n_experts : int
    rate : float or "auto"

    Attributes
    ----------
    cumulative : array of shape (p,)
    """

    def __init__(self, n_experts: int, rate: Any) -> None:
        self._rate = rate
        self.cumulative = np.zeros(n_experts)
        self.gap = 0.0

    @property
    def rate(self) -> float:
        """Alpha in the round to come; infinite where only the best so far have weight."""
        if self._rate != "auto":
            return float(self._rate)
        n_experts = len(self.cumulative)
        return math.log(n_experts) / self.gap if self.gap > 0.0 and n_experts > 1 else math.inf

    def weights(self) -> np.ndarray:
        """Weights of the round to come, (p,)."""
        behind = self.cumulative - self.cumulative.min()
        rate = self.rate
        # 0 times infinity, for the best
        weights = (behind == 0.0).astype(np.float64) if rate == math.inf else np.exp(-rate * behind)
        return weights / weights.sum()

    def observe(self, losses: np.ndarray) -> None:
        """Take in the losses of a round, (p,)."""
        after = self.cumulative + losses
        if self._rate == "auto":
            mix_loss = _soft_minimum(after, self.rate) - _soft_minimum(self.cumulative, self.rate)
            self.gap += max(float(self.weights() @ losses) - mix_loss, 0.0)
        self.cumulative = after


def _soft_minimum(values: np.ndarray, rate: float) -> float:
    least = float(values.min())
    return least if rate == math.inf else least - math.log(np.exp(-rate * (values - least)).mean()) / rate


class HedgePredictor(Predictor):
    """A combination of frozen models.

    Parameters
    ----------
    structure : Structure
    experts : sequence of Predictor
    weights : array
        One for each of them; they sum to one.
    vote : bool
        Combine decoded labels instead of potentials.
    """

    def __init__(self, structure: Any, experts: Sequence[Predictor], weights: np.ndarray, vote: bool) -> None:
        self.structure = structure
        self.experts = [(float(weight), expert) for weight, expert in zip(weights, experts) if weight > 0.0]
        self.banks = [bank for _, expert in self.experts for bank in expert.banks]
        #: Whether decoded labels are combined, instead of potentials.
        self.votes = vote

    @property
    def parts(self) -> list[tuple[float, Predictor]]:
        return [(weight * share, part) for weight, expert in self.experts for share, part in expert.parts]

    def potentials(self, x: Any) -> Any:
        """Potentials of one input, or of a block of tokens."""
        weights, experts = zip(*self.experts)
        return combination(self.structure, [expert.potentials(x) for expert in experts], weights, self.votes, len(x))


def combination(structure: Any, potentials: Sequence[Any], weights: Iterable[float], vote: bool, size: int) -> Any:
    """The weighted sum of potentials of ``size`` inputs or tokens, or of votes: 1 for the label that is decoded, or
    1 and -1 where a single potential tells two labels apart."""
    total = structure.zeros(size)
    for weight, own in zip(weights, potentials):
        for array, part in zip(total, votes(own) if vote else own):
            array += weight * part
    return total


def votes(potentials: Any) -> Any:
    """Potentials that are 1 for the label which is decoded, or 1 and -1 where a single one tells two labels apart."""
    unary = potentials.unary
    if unary.shape[1] == 1:
        return type(potentials)(np.where(unary > 0.0, 1.0, -1.0))
    return type(potentials)(np.eye(unary.shape[1])[unary.argmax(axis=1)])
