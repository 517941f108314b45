"""Test of the usefulness of every group, on examples that the model has not been trained on."""

import math
from collections.abc import Sequence, Sized
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from omkl.groups.base import Bank, initial_potentials
from omkl.groups.group_state import GroupState
from omkl.losses.structured import CRF, StructuredLoss
from omkl.structures.base import Output, Structure

LIKELIHOOD = CRF()
#: The first examples are all tested on. Each time their number doubles from then on, the sampling rate is halved.
ALL_UP_TO = 1024
#: Expected number of groups that pass the test if all groups are useless.
PASSING = 0.5
#: Time constant, in positions, of the moving averages of potentials.
MEMORY = 100


class Method(Protocol):
    """Methods of a training method that :class:`Evidence` calls."""

    def part_scales(self, group_state: GroupState, /) -> np.ndarray: ...


class Learner(Protocol):
    """Attributes of a trainer that :class:`Evidence` reads."""

    banks: list[Bank]
    penalized_banks: list[Bank]
    structure: Structure
    loss: StructuredLoss
    method: Method
    group_state: GroupState


class Evidence:
    r"""Score test of every group on new examples, before the model is trained on them.

    When a new example arrives, the part :math:`f_k` of the model in a group depends on earlier examples only. The
    evidence for the group is how much :math:`f_k` favours the gold output over the marginals of a reference model,

    .. math:: a_{tk} = \langle f_k(x_t) - \bar f_k,\; r_t - \bar r \rangle, \qquad r_t = 1[y_t] - \mu_t,

    with :math:`\mu_t` the marginals of the reference model, which consists of the unregularized groups (an intercept,
    transitions; without any, all outputs are equally likely). For potentials of labels, moving averages
    :math:`\bar f_k` and :math:`\bar r` are subtracted, because a preference for labels that does not depend on the
    input is no evidence. The evidence is the derivative of the log-likelihood of a new example with respect to the
    weight of :math:`f_k`, at weight zero, as in Rao's score test. For numbers, and structures without marginals,
    :math:`r_t` is the negative gradient of the model's own loss. If a group is independent of the outputs, its evidence
    has mean zero given the past, even if the group fits the training examples perfectly. So

    .. math:: z_k = \frac{\sum_t a_{tk}}{\bigl(\sum_t (a_{tk} - \bar a_k)^2\bigr)^{1/2}}

    is approximately standard normal for such a group (martingale central limit theorem), and positive for a group that
    helps. A group is useful if :math:`z_k` is above the quantile :math:`1 - 1/(2p)`: of p useless groups, half a group
    passes on average.

    Parameters
    ----------
    n_groups : int
        Number p of tested groups, which are the regularized ones.

    References
    ----------
    Rao (1948), Large sample tests of statistical hypotheses concerning several parameters.
    """

    def __init__(self, n_groups: int) -> None:
        #: Whether the next examples are new to the model.
        self.open = True
        self.sums, self.squares = np.zeros(n_groups), np.zeros(n_groups)
        self.n_examples = 0.0
        self._totals, self._positions = np.zeros((n_groups + 1, 0)), 0.0
        self._met = 0

    @property
    def takes_part(self) -> bool:
        """True if examples are new, and there are groups to compare."""
        return self.open and len(self.sums) != 1

    def skip(self) -> bool:
        """Pass over the next example if it is not one of the sample; return whether it is not."""
        met = self._met + 1
        if met <= ALL_UP_TO or met % (1 << math.ceil(math.log2(met / ALL_UP_TO))) == 0:
            return False
        self._met = met
        return True

    def look_at(self, trainer: Learner, x: Sized, y: Output, weight: float) -> None:
        """Add the evidence of an example before the trainer learns from it, if it is new and sampled."""
        if not self.takes_part or self.skip():
            return
        self._met += 1
        penalized, reference = trainer.penalized_banks, initial_potentials(trainer.structure, x)
        for bank in trainer.banks[len(penalized) :]:
            bank.add_potentials(x, reference)
        loss = LIKELIHOOD if type(trainer.structure).marginals is not Structure.marginals else trainer.loss
        gradient = loss.value_and_gradient(trainer.structure, reference, y)[1]
        self.n_examples += 1.0
        if gradient is None:
            return
        scales = trainer.method.part_scales(trainer.group_state)[: len(self.sums)]
        unary = getattr(gradient, "unary", None)  # of labels
        totals = None if unary is None else np.zeros((len(scales), unary.shape[1]))
        slopes, first = np.empty(len(scales)), 0
        for bank in penalized:
            own = slice(first, first + len(bank.names))
            slopes[own] = bank.inner_products(x, gradient, None if totals is None else totals[own])
            first = own.stop
        slopes *= weight * scales
        if totals is not None and unary is not None:
            totals *= scales[:, None]
            slopes -= weight * self._by_the_means(totals, unary)
        self.sums -= slopes
        with np.errstate(over="ignore"):
            self.squares += slopes**2

    def _by_the_means(self, potentials: np.ndarray, unary: np.ndarray) -> np.ndarray:
        """Return the contribution (p,) of the moving averages to the slopes, then update the averages.

        ``potentials`` (p, K) are sums over the n positions, and ``unary`` (n, K) is the gradient.
        """
        n, gradient = len(unary), unary.sum(axis=0)
        sums = np.concatenate([potentials, gradient[None]])
        if self._totals.shape != sums.shape:  # new labels
            self._totals = np.pad(self._totals, ((0, 0), (0, sums.shape[1] - self._totals.shape[1])))
        means = self._totals / max(self._positions, 1.0)
        kept = (1.0 - 1.0 / MEMORY) ** n
        self._totals, self._positions = kept * self._totals + sums, kept * self._positions + n
        owed = means[:-1] @ (gradient - n * means[-1]) + potentials @ means[-1]
        return np.where(potentials.any(axis=1), owed, 0.0)

    def z_scores(self) -> np.ndarray:
        """Return ``z_k`` of each group, (p,); 0 for groups that were never nonzero, or whose squares overflow."""
        n = max(self.n_examples, 1.0)
        known = np.isfinite(self.squares)
        sums, squares = np.where(known, self.sums, 0.0), np.where(known, self.squares, 0.0)
        deviations = np.sqrt(np.maximum(squares - sums**2 / n, 0.0))
        certain = np.where(sums > 0.0, np.inf, 0.0)  # the evidence of all examples is equal
        return np.divide(sums, deviations, out=certain, where=deviations > 0.0)

    def useful(self) -> np.ndarray:
        """Boolean mask (p,) of the groups that pass the test; all True if none passes."""
        p = len(self.sums)
        useful = self.z_scores() > ndtri(1.0 - PASSING / p) if p else np.zeros(0, dtype=bool)
        return useful if useful.any() else np.ones(p, dtype=bool)

    def grow(self, n_groups: int) -> None:
        """Add new groups, without evidence so far."""
        n = n_groups - len(self.sums)
        self.sums, self.squares = (np.append(array, np.zeros(n)) for array in (self.sums, self.squares))
        self._totals = np.insert(self._totals, -1, np.zeros((n, self._totals.shape[1])), axis=0)

    def take_over(self, other: "Evidence", indices: list[int]) -> None:
        """Take the evidence of another model, for the groups at ``indices``."""
        self.load_state(other.state())
        self.sums, self.squares, self._totals = self.sums[indices], self.squares[indices], self._totals[[*indices, -1]]

    def mix(self, states: Sequence[dict[str, np.ndarray]]) -> None:
        """Merge the states of copies of this evidence, one from each shard."""
        n_examples, met = self.n_examples, self._met
        latest = max(states, key=lambda state: state["totals"].shape[1])["totals"].shape
        known = [state for state in states if state["totals"].shape == latest]  # other shards have seen no labels
        self._totals = np.mean([state["totals"] for state in known], axis=0)
        self._positions = float(np.mean([state["counts"][2] for state in known]))
        self.sums, self.squares = (
            own + sum(state[name] - own for state in states)
            for own, name in ((self.sums, "sums"), (self.squares, "squares"))
        )
        self.n_examples += sum(float(state["counts"][0]) - n_examples for state in states)
        self._met += sum(int(state["counts"][1]) - met for state in states)

    def state(self) -> dict[str, np.ndarray]:
        """Return named arrays for checkpoints and model files."""
        counts = np.array([self.n_examples, self._met, self._positions])
        open_ = np.array(self.open, dtype=np.float64)
        return {"sums": self.sums, "squares": self.squares, "totals": self._totals, "counts": counts, "open": open_}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load the arrays of :meth:`state`."""
        self.sums, self.squares, self._totals = (
            np.array(state[name], dtype=np.float64) for name in ("sums", "squares", "totals")
        )
        self.n_examples, met, self._positions = state["counts"].tolist()
        self._met, self.open = int(met), bool(state["open"])
