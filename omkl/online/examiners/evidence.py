"""Test of the usefulness of every group, on examples that the model has not been trained on."""

from collections.abc import Sequence, Sized
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from omkl._pointers import Packed
from omkl.groups.group_state import GroupState
from omkl.losses.evaluation import LossFunction
from omkl.losses.structured import CRF
from omkl.online.examiners import _jit_evidence as jit
from omkl.online.rounds import Learner, TrainerPart, potentials_of
from omkl.signatures import ExaminerFunctions
from omkl.structures.base import Output, Structure

LIKELIHOOD = CRF()


def reference_loss(trainer: Learner) -> LossFunction:
    """Return the loss of the reference model: the likelihood, where the structure has marginals."""
    has_marginals = type(trainer.structure).marginals is not Structure.marginals
    return likelihood_of(trainer.structure) if has_marginals else trainer.loss_function


@lru_cache(maxsize=8)
def likelihood_of(structure: Structure) -> LossFunction:
    """Return the likelihood of a structure as a function; structures compare by identity."""
    return LossFunction(LIKELIHOOD, structure)


#: Expected number of useless groups that pass the test at most, and where there are more than
#: :data:`FEW` groups, their share of the groups that pass. Each of few groups is a large part of a
#: model, and to lose one costs more.
PASSING, SHARE, FEW = 0.5, 0.05, 10
#: Probability that the largest z-score of useless groups is beyond :func:`beyond_chance`.
DOUBT = 0.05
#: Minimum number of examples for normal approximations.
FEWEST = 30


def beyond_chance(p: int) -> float:
    """Return the z-score that the largest of p useless groups exceeds in 5% of cases."""
    return float(ndtri(1.0 - DOUBT / p))


class Evidence(TrainerPart):
    r"""Score test of every group on new examples, before the model is trained on them.

    When a new example arrives, the part :math:`f_k` of the model in a group depends on earlier
    examples only. The evidence for the group is how much :math:`f_k` favours the gold output over
    the marginals of a reference model,

    .. math:: a_{tk} = \langle f_k(x_t) - \bar f_k,\; r_t - \bar r \rangle, \qquad r_t = 1[y_t] - \mu_t,

    with :math:`\mu_t` the marginals of the reference model, which consists of the unregularized
    groups (an intercept, transitions; without any, all outputs are equally likely). For potentials
    of labels, moving averages
    :math:`\bar f_k` and :math:`\bar r` are subtracted, because a preference for labels that does not depend on the
    input is no evidence. The evidence is the derivative of the log-likelihood of a new example with
    respect to the weight of :math:`f_k`, at weight zero, as in Rao's score test. For numbers, and
    structures without marginals,
    :math:`r_t` is the negative gradient of the model's own loss. If a group is independent of the outputs, its evidence
    has mean zero given the past, even if the group fits the training examples perfectly. So

    .. math:: z_k = \frac{\sum_t a_{tk}}{\bigl(\sum_t (a_{tk} - \bar a_k)^2\bigr)^{1/2}}

    is approximately standard normal for such a group (martingale central limit theorem), and
    positive for a group that helps. Of p groups, one is useful if chance exceeds its :math:`z_k`
    with a probability of at most :math:`0.5 / p`: half a useless group passes on average. Of more
    than ten groups, it is useful at a probability of at most
    :math:`\min(0.05 q, 0.5) / p`, where q groups are: of those that pass, one in twenty is useless (Benjamini and
    Hochberg).

    The tested groups are the regularized ones.

    References
    ----------
    Rao (1948), Large sample tests of statistical hypotheses concerning several parameters.
    Benjamini, Hochberg (1995), Controlling the false discovery rate.
    """

    saved = "sums", "squares", "totals", "counts", "open"
    functions = ExaminerFunctions(is_due=jit.is_sampled, look=jit.add_slopes, compare=None)
    compiled = functions
    examines = "reference"

    def __init__(self) -> None:
        self._packed: Packed | None = None
        #: Whether the next examples are new to the model.
        self.open = True
        self.sums, self.squares = np.zeros(0), np.zeros(0)
        self.totals, self.counts = np.zeros((1, 0)), np.zeros(jit.N_COUNTS)

    def start(self, group_state: GroupState, n_groups: int) -> None:
        new = n_groups - len(self.sums)
        self.sums, self.squares = (
            np.append(array, np.zeros(new)) for array in (self.sums, self.squares)
        )
        self.totals = np.insert(self.totals, -1, np.zeros((new, self.totals.shape[1])), axis=0)

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        for array in (self.sums, self.squares, self.totals, self.counts):
            array[...] = 0.0

    @property
    def takes_part(self) -> bool:
        """True if examples are new, and there are groups to compare."""
        return self.open and len(self.sums) != 1

    @property
    def n_examples(self) -> int:
        """Number of examples that were tested on."""
        return int(self.counts[jit.SAMPLED])

    def packed(self, n_outputs: int) -> Packed:
        new = n_outputs - self.totals.shape[1]
        if new > 0:
            self.totals = np.pad(self.totals, ((0, 0), (0, new)))
        arrays = jit.EvidenceArrays(self.sums, self.squares, self.totals, self.counts)
        if self._packed is None or not self._packed.holds(arrays):
            self._packed = jit.EVIDENCE.pack(arrays)
        return self._packed

    def before(self, trainer: Learner, x: Sized, y: Output, weight: float) -> None:
        packed = self.packed(0)
        if not self.takes_part or not jit.is_sampled(packed.address, trainer.round):
            return
        penalized = trainer.penalized_banks
        reference = potentials_of(trainer.banks[len(penalized) :], trainer.structure, x)
        gradient = reference_loss(trainer)(reference, y)[1]
        if gradient is None:
            return
        scales = trainer.part_scales[: len(self.sums)]
        unary = getattr(gradient, "unary", None)  # of labels
        gradient_of_labels = np.zeros((len(x), 0)) if unary is None else unary
        totals = np.zeros((len(scales), gradient_of_labels.shape[1]))
        slopes = np.empty(len(scales))
        for bank in penalized:
            groups = bank.group_state.groups
            totals_of_bank = None if unary is None else totals[groups]
            slopes[groups] = bank.inner_products(x, gradient, totals_of_bank)
        slopes *= scales
        totals *= scales[:, None]
        packed = self.packed(totals.shape[1])
        jit.add_slopes(packed.address, weight, slopes, totals, gradient_of_labels)

    def z_scores(self) -> np.ndarray:
        """Return ``z_k`` of each group, (p,); 0 for groups that were never nonzero, or whose
        squares overflow.
        """
        n = max(self.n_examples, 1.0)
        known = np.isfinite(self.squares)
        sums, squares = np.where(known, self.sums, 0.0), np.where(known, self.squares, 0.0)
        deviations = np.sqrt(np.maximum(squares - sums**2 / n, 0.0))
        certain = np.where(sums > 0.0, np.inf, 0.0)  # the evidence of all examples is equal
        return np.divide(sums, deviations, out=certain, where=deviations > 0.0)

    def useful(self) -> np.ndarray:
        """Boolean mask (p,) of the groups that pass the test; all True if none passes."""
        p, chances = len(self.sums), ndtr(-self.z_scores())
        ranked = np.sort(chances)
        expected = np.minimum(SHARE * np.arange(1, p + 1), PASSING) if p > FEW else PASSING
        passing = ranked <= expected / max(p, 1)
        useful = chances <= ranked[passing].max(initial=-1.0)
        return useful if useful.any() else np.ones(p, dtype=bool)

    def is_weak(self) -> bool:
        """Return whether the largest z-score is one that useless groups reach by chance.

        Where all outputs are equal, or the reference model predicts them, there is nothing for
        groups to help with.
        """
        p = len(self.sums)
        seen = p > 1 and self.n_examples >= FEWEST and self.squares.any()
        return bool(seen and self.z_scores().max() < beyond_chance(p))

    def take(self, other: "Evidence", indices: list[int]) -> None:
        super().take(other, indices)
        self.sums, self.squares, self.totals = (
            self.sums[indices],
            self.squares[indices],
            self.totals[[*indices, -1]],
        )

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        latest = max(states, key=lambda state: state["totals"].shape[1])["totals"].shape
        known = [
            state for state in states if state["totals"].shape == latest
        ]  # other shards have seen no labels
        self.totals = np.mean([state["totals"] for state in known], axis=0)
        positions = np.mean([state["counts"][jit.POSITIONS] for state in known])
        for name in ("sums", "squares", "counts"):
            own = getattr(self, name)
            setattr(self, name, own + sum(state[name] - own for state in states))
        self.counts[jit.POSITIONS] = positions
