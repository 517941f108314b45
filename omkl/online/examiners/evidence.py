"""Test of the usefulness of every group, on examples that the model has not been trained on."""

from collections.abc import Sequence, Sized
from functools import lru_cache
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from omkl.groups.group_state import GroupState
from omkl.losses.evaluation import LossFunction
from omkl.losses.structured import CRF
from omkl.online.examiners import _jit_evidence as jit
from omkl.online.rounds import EpochPlan, Learner, TrainerPart, potentials_of
from omkl.regularizers.base import Regularizer
from omkl.signatures import ExaminerFunctions
from omkl.structures.base import Output, Structure

LIKELIHOOD = CRF()
#: Useless groups that pass the test, expected at most.
PASSING = 0.5
#: Share of useless groups among those that pass, where there are more than :data:`FEW` groups. Each
#: of few groups is a large part of a model, and to lose one costs more.
SHARE = 0.05
FEW = 10
#: Probability that the largest z-score of useless groups is beyond :func:`beyond_chance`.
DOUBT = 0.05
#: Minimum number of examples for normal approximations.
FEWEST = 30


def reference_loss(trainer: Learner) -> LossFunction:
    """Return the loss of the reference model: the likelihood, where the structure has marginals."""
    if type(trainer.structure).marginals is Structure.marginals:
        return trainer.loss_function
    return likelihood_of(trainer.structure)


@lru_cache(maxsize=8)
def likelihood_of(structure: Structure) -> LossFunction:
    """Return the likelihood of a structure as a function; structures compare by identity."""
    return LossFunction(LIKELIHOOD, structure)


def beyond_chance(p: int) -> float:
    """Return the z-score that the largest of p useless groups exceeds in 5% of cases."""
    return float(ndtri(1.0 - DOUBT / p))


class Evidence(TrainerPart):
    r"""Score test of every group on new examples, before the model is trained on them.

    When a new example arrives, the part :math:`f_k` of the model in a group depends on earlier
    examples only. The evidence for the group is how much :math:`f_k` favours the gold output over
    the marginals of a reference model,

    .. math:: a_{tk} = \langle f_k(x_t) - \bar f_k,\; r_t - \bar r \rangle,
        \qquad r_t = 1[y_t] - \mu_t,

    with :math:`\mu_t` the marginals of the reference model, which consists of the unregularized
    groups (an intercept, transitions; without any, all outputs are equally likely). For potentials
    of labels, moving averages :math:`\bar f_k` and :math:`\bar r` are subtracted, because a
    preference for labels that does not depend on the input is no evidence. The evidence is the
    derivative of the log-likelihood of a new example with respect to the weight of :math:`f_k`, at
    weight zero, as in Rao's score test. For numbers, and structures without marginals, :math:`r_t`
    is the negative gradient of the model's own loss. If a group is independent of the outputs, its
    evidence has mean zero given the past, even if the group fits the training examples perfectly.
    So

    .. math:: z_k = \frac{\sum_t a_{tk}}{\bigl(\sum_t (a_{tk} - \bar a_k)^2\bigr)^{1/2}}

    is approximately standard normal for such a group (martingale central limit theorem), and
    positive for a group that helps. Of p groups, one is useful if chance exceeds its :math:`z_k`
    with a probability of at most :math:`0.5 / p`: half a useless group passes on average. Of more
    than ten groups, it is useful at a probability of at most :math:`\min(0.05 q, 0.5) / p`, where q
    groups are: of those that pass, one in twenty is useless (Benjamini and Hochberg).

    After the examples that are new to the model, it leaves out the groups that do not help. In a
    single pass of MKL, it lets Hedge learn the weights of groups
    (:class:`~omkl.online.methods.OutOfSampleWeights`). If training does not conclude, groups are
    neither tested nor left out.

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
    layout = jit.EVIDENCE

    def __init__(self) -> None:
        #: Whether the next examples are new to the model.
        self.open = True
        #: Sums of the evidence, and of its squares, (p,).
        self.sums = np.zeros(0)
        self.squares = np.zeros(0)
        #: Moving sums of potentials, and in the last row of the gradient, (p + 1, K).
        self.totals = np.zeros((1, 0))
        self.counts = np.zeros(jit.N_COUNTS)

    def start(self, group_state: GroupState, n_groups: int) -> None:
        n_new = n_groups - len(self.sums)
        self.sums = np.append(self.sums, np.zeros(n_new))
        self.squares = np.append(self.squares, np.zeros(n_new))
        self.totals = np.insert(self.totals, -1, np.zeros((n_new, self.totals.shape[1])), axis=0)

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

    def compiled_arrays(self, n_outputs: int) -> jit.EvidenceArrays:
        n_new_labels = n_outputs - self.totals.shape[1]
        if n_new_labels > 0:
            self.totals = np.pad(self.totals, ((0, 0), (0, n_new_labels)))
        return jit.EvidenceArrays(self.sums, self.squares, self.totals, self.counts)

    def before_epoch(self, trainer: Learner, epoch: EpochPlan) -> np.ndarray | None:
        if not epoch.concludes:
            self.open = False
        is_single_pass = epoch.is_new and epoch.is_only and trainer.round == 0
        if is_single_pass and trainer.method.forgets and _is_mkl(trainer.regularizer):
            trainer.join("method")
        return None if epoch.is_new else self._close()

    def after_training(self, trainer: Learner) -> np.ndarray | None:
        return self._close()

    def _close(self) -> np.ndarray | None:
        """End the test; return the groups that have not helped, unless it has ended before."""
        if not self.open:
            return None
        self.open = False
        return ~self.useful()

    def before_round(self, trainer: Learner, x: Sized, y: Output, weight: float) -> None:
        if not self.takes_part or not jit.is_sampled(self.address, trainer.round):
            return
        penalized = trainer.penalized_banks
        reference = potentials_of(trainer.banks[len(penalized) :], trainer.structure, x)
        gradient = reference_loss(trainer)(reference, y)[1]
        if gradient is None:
            return
        scales = trainer.method.part_scales(trainer.group_state)[: len(self.sums)]
        has_labels = hasattr(gradient, "unary")
        gradient_of_labels = gradient.unary if has_labels else np.zeros((len(x), 0))
        totals = np.zeros((len(scales), gradient_of_labels.shape[1]))
        slopes = np.empty(len(scales))
        for bank in penalized:
            groups = bank.group_state.groups
            totals_of_bank = totals[groups] if has_labels else None
            slopes[groups] = bank.inner_products(x, gradient, totals_of_bank)
        slopes *= scales
        totals *= scales[:, None]
        self.packed(totals.shape[1])  # makes room for all labels
        jit.add_slopes(self.address, weight, slopes, totals, gradient_of_labels)

    def z_scores(self) -> np.ndarray:
        """Return ``z_k`` of each group, (p,).

        It is 0 for groups that were never nonzero, or whose squares overflow.
        """
        n = max(self.n_examples, 1.0)
        is_finite = np.isfinite(self.squares)
        sums = np.where(is_finite, self.sums, 0.0)
        squares = np.where(is_finite, self.squares, 0.0)
        deviations = np.sqrt(np.maximum(squares - sums**2 / n, 0.0))
        certain = np.where(sums > 0.0, np.inf, 0.0)  # the evidence of all examples is equal
        return np.divide(sums, deviations, out=certain, where=deviations > 0.0)

    def useful(self) -> np.ndarray:
        """Return a mask (p,) of the groups that pass the test; all True if none passes."""
        p = len(self.sums)
        chances = ndtr(-self.z_scores())
        ranked = np.sort(chances)
        expected = np.full(p, PASSING)
        if p > FEW:
            expected = np.minimum(SHARE * np.arange(1, p + 1), PASSING)
        passing = ranked <= expected / max(p, 1)
        useful = chances <= ranked[passing].max(initial=-1.0)
        if not useful.any():
            return np.ones(p, dtype=bool)
        return useful

    def is_weak(self) -> bool:
        """Return whether the largest z-score is one that useless groups reach by chance.

        Where all outputs are equal, or the reference model predicts them, there is nothing for
        groups to help with.
        """
        p = len(self.sums)
        has_evidence = p > 1 and self.n_examples >= FEWEST and bool(self.squares.any())
        return has_evidence and bool(self.z_scores().max() < beyond_chance(p))

    def take(self, other: Self, indices: list[int]) -> None:
        super().take(other, indices)
        self.sums = self.sums[indices]
        self.squares = self.squares[indices]
        self.totals = self.totals[[*indices, -1]]

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        # shards that have seen no labels have totals of another shape
        latest = max(states, key=lambda state: state["totals"].shape[1])["totals"].shape
        with_labels = [state for state in states if state["totals"].shape == latest]
        self.totals = np.mean([state["totals"] for state in with_labels], axis=0)
        positions = np.mean([state["counts"][jit.POSITIONS] for state in with_labels])
        for name in ("sums", "squares", "counts"):
            before = getattr(self, name)
            setattr(self, name, before + sum(state[name] - before for state in states))
        self.counts[jit.POSITIONS] = positions


def _is_mkl(regularizer: Regularizer | None) -> bool:
    """Return whether a regularizer learns sparse weights on the simplex."""
    return regularizer is not None and regularizer.weight_set == "simplex" and regularizer.is_sparse
