"""Methods of online learning: forward-backward splitting, dual averaging, and weights from Hedge.

A method sets the step sizes of the groups' directions ``v`` and the weight of the proximal step.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from omkl._components import Compilable
from omkl.groups import _jit_group_state as jit
from omkl.groups.group_state import GroupState
from omkl.online._jit_pass import DUAL_AVERAGING, FORWARD_BACKWARD, GAP, HEDGE
from omkl.online.rounds import TrainerPart
from omkl.regularizers.base import Regularizer

#: Function of group norms with a proximal step.
Term: TypeAlias = "Regularizer | OutOfSampleWeights"


class Method(TrainerPart, Compilable, ABC):
    """Base class of online learning methods."""

    #: Whether groups that are set to zero discard their parameters.
    forgets: ClassVar[bool]
    #: Whether the next examples are new to the model.
    learning = True

    @abstractmethod
    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        """Begin a round on an example of this weight: set rates and bases."""

    @abstractmethod
    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        """Return the factor of lambda in the proximal step; ``presented`` is the total weight of all examples."""

    def observe(self, group_state: GroupState) -> float:
        """Return the squared norm of the unweighted gradient of the latest step."""
        return float(np.add.reduce(group_state.square_gradients, where=~group_state.left_out))

    def meet(self, new: bool, group_state: GroupState) -> None:
        """Start an epoch: ``new`` tells whether its examples are new; groups may have been left out."""
        self.learning = new

    def part_scales(self, group_state: GroupState) -> np.ndarray:
        """Return the factors (p,) from the directions ``v_k`` to the parts ``f_k`` of the model."""
        return group_state.scales

    def distance(self, norms: np.ndarray, total: float) -> float:
        """Return the distance of the model from the origin, given the norms of groups and their total norm."""
        return total

    def terms(self, terms: Sequence[Term]) -> Sequence[Term]:
        """Return the terms whose proximal steps are taken, for those of the regularizer."""
        return terms

    def kernel_weights(self, pending: float, total: float) -> np.ndarray | None:
        """Return the group weights of the averaged model if they were learned; None if they follow from norms.

        ``pending`` is the share of the last round in the ``total`` weight of the average.
        """
        return None


class ForwardBackward(Method):
    """FOBOS: ``theta <- prox_{eta lambda R}(theta - eta g)``; groups set to zero discard their parameters."""

    forgets = True
    compiled = FORWARD_BACKWARD

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        before = group_state.scales, group_state.empty, group_state.averages, group_state.pending_weight
        jit.begin_forward_backward(*before, rate * weight, group_state.bases, group_state.rates)

    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        return rate * weight


class DualAveraging(Method):
    r"""RDA (Xiao 2010): :math:`\theta = \mathrm{prox}_{\eta_0 \sqrt t \lambda R}(-(\eta_0/\sqrt t) \sum_s g_s)`.

    The threshold grows with t, so groups at zero tend to stay there, and iterates are truly group-sparse. Any schedule
    can replace :math:`\eta_t = \eta_0 / \sqrt t`. The weight of the proximal step is :math:`W_t \eta_t`, where
    :math:`W_t` is the sum of the examples' weights, because each weighted gradient brings its share of the regularizer.
    """

    forgets = False
    compiled = DUAL_AVERAGING

    def start(self, group_state: GroupState, n_groups: int) -> None:
        group_state.empty[:] = False  # sum gradients of all groups, even at zero

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        before = group_state.scales, group_state.averages, group_state.pending_weight
        jit.begin_dual_averaging(*before, weight, rate, group_state.bases, group_state.rates)

    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        return rate * presented


class OutOfSampleWeights(ForwardBackward):
    r"""Hedge over the parts of a model, for MKL in a single pass.

    The model is :math:`f = \sum_k w_k f_k`, with w on the simplex. Its objective for given weights is

    .. math:: C \sum_i L\Bigl(\sum_k w_k f_k; x_i, y_i\Bigr) + \frac12 \sum_k w_k \|f_k\|^2
        = C \sum_i L(\theta; x_i, y_i) + \frac12 \sum_k \frac{\|\theta_k\|^2}{w_k}, \qquad \theta_k = w_k f_k,

    Minimizing over the weights as well turns the regularizer into :math:`\frac12 (\sum_k \|\theta_k\|)^2`, the squared
    mixed norm of MKL. MKL's weights are the best fit to the training data, so they favour kernels that overfit. Here
    the weights are chosen by performance on new examples. When an example arrives, the parts :math:`f_k` do not depend
    on it. The inner products :math:`\ell_k = \langle f_k, g \rangle` with the gradient g of its loss tell which parts
    reduce the loss. They are the losses of Hedge, :math:`w_k \propto \exp(-\alpha_t \sum_{s \le t} \ell_{sk})`, with
    the learning rate of AdaHedge (de Rooij et al. 2014), which requires neither scale nor horizon. As the loss is
    convex,

    .. math:: \sum_t L_t(w_t) - \min_w \sum_t L_t(w)
        \le 2 \sqrt{V_T \ln p} + S \left(\tfrac43 \ln p + 2\right)

    with S the largest range of the :math:`\ell_{tk}` in a round and :math:`V_T` the sum of their variances under
    :math:`w_t` (their Theorem 6). Thus the weights do nearly as well as the best fixed weights in hindsight, for the
    same sequence of parts. Gradient steps and shrinkage of the parts do not depend on their weights.

    Unregularized groups have no weight.

    References
    ----------
    de Rooij, van Erven, Grünwald, Koolen (2014), Follow the leader if you can, hedge if you must.
    """

    compiled = HEDGE
    # factors are those of the last round: groups left out since then have weight 0
    saved = "weights", "cumulative", "sums", "factors", "gap", "learning"
    places = {"gap": GAP}
    predicts = True

    def __init__(self) -> None:
        self.weights, self.cumulative = np.zeros(0), np.zeros(0)
        self.sums = np.zeros(0)  # of weights, with the weights of rounds in the model's average
        self.gap = 0.0

    def start(self, group_state: GroupState, n_groups: int) -> None:
        # new groups start with the mean weight, and with the weighted mean of cumulative losses
        known, new = len(self.weights), n_groups - len(self.weights)
        self.cumulative = np.append(self.cumulative, np.full(new, self.weights @ self.cumulative))
        self.sums = np.append(self.sums, np.zeros(new))
        self.weights = np.append(self.weights * known / max(n_groups, 1), np.full(new, 1.0 / max(n_groups, 1)))
        # unregularized groups keep the factor 1
        self.factors, self._losses = np.ones(len(group_state.names)), np.zeros(n_groups)
        self.factors[:n_groups] = self.weights

    def meet(self, new: bool, group_state: GroupState) -> None:
        self.learning = new
        # distribute the weight of left-out groups among the others
        left_out = group_state.left_out[: len(self.weights)]
        if left_out.any() and (weights := np.where(left_out, 0.0, self.weights)).any():
            self.weights = weights / weights.sum()

    def part_scales(self, group_state: GroupState) -> np.ndarray:
        parts = np.zeros_like(group_state.scales)
        return np.divide(group_state.scales, self.factors, out=parts, where=self.factors > 0.0)

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        # each part f_k takes the step -rate * weight * g, so theta_k moves by w_k times that
        self._weight = weight
        self._before = group_state.square_norms.copy()
        pending, steps = group_state.pending_weight, (group_state.bases, group_state.rates)
        self.sums += pending * self.weights
        parts = group_state.scales, self.factors, group_state.empty, group_state.averages
        jit.begin_hedge(*parts, pending, rate * weight, *steps)

    def observe(self, group_state: GroupState) -> float:
        # the losses of the parts follow from the change of norms in the step
        if self.learning:
            after = group_state.square_norms, group_state.square_gradients, group_state.rates, group_state.bases
            jit.losses_of_parts(self._before, *after, self._weight, self._losses)
            self.gap = jit.hedge(self.weights, self.cumulative, self._losses, self.gap)
        return float(self.factors @ group_state.square_gradients)

    def prox(self, norms: np.ndarray, step: float) -> np.ndarray:
        """Return the norms ``w_k ||f_k||`` of groups after the proximal step, from the norms before it."""
        self.factors[: len(self.weights)] = self.weights
        return self.weights * norms / (1.0 + step)

    def distance(self, norms: np.ndarray, total: float) -> float:
        # of regularized groups, the square root of twice the regularizer counts instead of the norm
        return jit.hedge_distance(norms, total, self.weights)

    def value(self, norms: np.ndarray) -> float:
        """Return the regularizer at the current weights; ``norms`` are the group norms ``||theta_k||``."""
        return jit.half_weighted_squares(norms, self.weights)

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        if self.learning:
            used = (self.weights > 0.0).astype(np.float64)
            self.weights = used / max(used.sum(), 1.0)
            self.cumulative[:], self.gap = 0.0, 0.0

    def discount(self, factor: float) -> None:
        self.sums *= factor

    def take(self, other: "OutOfSampleWeights", indices: list[int]) -> None:
        self.cumulative, self.sums, self.gap = other.cumulative[indices], other.sums[indices], other.gap
        total = other.weights[indices].sum()
        self.weights = other.weights[indices] / total if total else np.full(len(indices), 1.0 / len(indices))
        self.factors[: len(self.weights)] = self.weights

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return the arrays that compiled passes take."""
        return self.weights, self.cumulative, self.sums, self.factors, self._losses

    def terms(self, terms: Sequence[Term]) -> Sequence[Term]:
        return [self]

    def kernel_weights(self, pending: float, total: float) -> np.ndarray:
        weights = np.where(self.weights > 0.0, self.sums + pending * self.weights, 0.0) if total else self.weights
        return weights / weights.sum()


#: Methods by name.
METHODS: Mapping[str, type[Method]] = {"fobos": ForwardBackward, "rda": DualAveraging}
