"""Methods of online learning: forward-backward splitting, dual averaging, and weights from Hedge.

A method sets the step sizes of the groups' directions ``v`` and the weight of the proximal step.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from omkl._components import Compilable
from omkl.groups import _jit_group_state as jit
from omkl.groups.group_state import GroupState
from omkl.online.rounds import EpochPlan, Learner, TrainerPart
from omkl.regularizers.base import Regularizer
from omkl.signatures import MethodFunctions


class Method(TrainerPart, Compilable, ABC):
    """Base class of online learning methods.

    A method is compiled functions, which the compiled driver calls as well.
    """

    functions: ClassVar[MethodFunctions]
    #: Whether groups that are set to zero discard their parameters.
    forgets: ClassVar[bool]
    #: Whether the next examples are new to the model.
    learning = True

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        """Begin a round on an example of this weight: set rates and bases."""
        self.functions.begin(
            self.address, group_state.address, group_state.pending_weight, rate, weight
        )

    @abstractmethod
    def proximal_weight(self, weight: float, presented: float) -> float:
        """Return the factor of rate and lambda in the proximal step.

        Parameters
        ----------
        weight, presented : float
            Weights of the example, and of all examples so far.
        """

    def observe(self, group_state: GroupState, weight: float) -> float:
        """Return the squared norm of the unweighted gradient of the latest step.

        Parameters
        ----------
        group_state : GroupState
        weight : float
            Weight of the example.
        """
        return self.functions.square(self.address, group_state.address, weight)

    def shrink(self, norms: np.ndarray, step: float) -> None:
        """Shrink norms (p,) in place, before the terms of the regularizer do."""
        self.functions.shrink(self.address, norms, step)

    def before_epoch(self, trainer: Learner, epoch: EpochPlan) -> None:
        self.learning = epoch.is_new

    def part_scales(self, group_state: GroupState) -> np.ndarray:
        """Return the factors (p,) from the directions ``v_k`` to the parts ``f_k`` of the model."""
        scales = np.empty(len(group_state.scales))
        self.functions.part_scales(self.address, group_state.address, scales)
        return scales

    def distance(self, norms: np.ndarray, total: float) -> float:
        """Return the distance of the model from the origin.

        Parameters
        ----------
        norms : array of shape (p,)
            Norms of the regularized groups.
        total : float
            Norm of all parameters.
        """
        return self.functions.distance(self.address, norms, total)

    def terms(self, terms: Sequence[Regularizer]) -> Sequence[Regularizer]:
        """Return the terms whose proximal steps are taken, for those of the regularizer."""
        return terms

    def value(self, norms: np.ndarray, terms: Sequence[Regularizer]) -> float:
        """Return the regularizer at the norms (p,) of groups, for its terms."""
        return sum(term.value(norms) for term in terms)

    def kernel_weights(self, pending: float, total: float) -> np.ndarray | None:
        """Return the group weights of the averaged model, (p,); None if they follow from norms.

        Parameters
        ----------
        pending, total : float
            Weights of the last model, and of all models, in the average.
        """
        return None


class ForwardBackward(Method):
    """FOBOS: ``theta <- prox_{eta lambda R}(theta - eta g)``.

    Groups that are set to zero discard their parameters.
    """

    forgets = True
    functions = MethodFunctions(
        begin=jit.begin_forward_backward,
        square=jit.square_of_gradient,
        shrink=jit.no_shrinkage,
        distance=jit.norm_of_all,
        part_scales=jit.scales_of_groups,
    )
    compiled = functions

    def proximal_weight(self, weight: float, presented: float) -> float:
        return weight


class DualAveraging(Method):
    r"""Regularized dual averaging (Xiao 2010).

    The model is
    :math:`\theta = \mathrm{prox}_{\eta_0 \sqrt t \lambda R}(-(\eta_0/\sqrt t) \sum_s g_s)`. The
    threshold grows with t, so groups at zero tend to stay there, and iterates are truly
    group-sparse. Any schedule can replace :math:`\eta_t = \eta_0 / \sqrt t`. The weight of the
    proximal step is :math:`W_t \eta_t`, where :math:`W_t` is the sum of the examples' weights,
    because each weighted gradient brings its share of the regularizer.
    """

    forgets = False
    functions = ForwardBackward.functions._replace(begin=jit.begin_dual_averaging)
    compiled = functions

    def start(self, group_state: GroupState, n_groups: int) -> None:
        group_state.empty[:] = False  # sum gradients of all groups, even at zero

    def proximal_weight(self, weight: float, presented: float) -> float:
        return presented


class OutOfSampleWeights(ForwardBackward):
    r"""Hedge over the parts of a model, for MKL in a single pass.

    The model is :math:`f = \sum_k w_k f_k`, with w on the simplex. Its objective for given weights
    is

    .. math:: C \sum_i L\Bigl(\sum_k w_k f_k; x_i, y_i\Bigr) + \frac12 \sum_k w_k \|f_k\|^2
        = C \sum_i L(\theta; x_i, y_i) + \frac12 \sum_k \frac{\|\theta_k\|^2}{w_k}, \qquad \theta_k
        = w_k f_k,

    Minimizing over the weights as well turns the regularizer into
    :math:`\frac12 (\sum_k \|\theta_k\|)^2`, the squared mixed norm of MKL. MKL's weights are the
    best fit to the training data, so they favour kernels that overfit. Here the weights are chosen
    by performance on new examples. When an example arrives, the parts :math:`f_k` do not depend on
    it. The inner products :math:`\ell_k = \langle f_k, g \rangle` with the gradient g of its loss
    tell which parts reduce the loss. They are the losses of Hedge,
    :math:`w_k \propto \exp(-\alpha_t \sum_{s \le t} \ell_{sk})`, with the learning rate of AdaHedge
    (de Rooij et al. 2014), which requires neither scale nor horizon. As the loss is convex,

    .. math:: \sum_t L_t(w_t) - \min_w \sum_t L_t(w)
        \le 2 \sqrt{V_T \ln p} + S \left(\tfrac43 \ln p + 2\right)

    with S the largest range of the :math:`\ell_{tk}` in a round and :math:`V_T` the sum of their
    variances under :math:`w_t` (their Theorem 6). Thus the weights do nearly as well as the best
    fixed weights in hindsight, for the same sequence of parts. Gradient steps and shrinkage of the
    parts do not depend on their weights.

    Unregularized groups have no weight.

    References
    ----------
    de Rooij, van Erven, Grünwald, Koolen (2014), Follow the leader if you can, hedge if you must.
    """

    functions = MethodFunctions(
        begin=jit.begin_hedge,
        square=jit.square_in_hedge,
        shrink=jit.shrink_in_hedge,
        distance=jit.distance_in_hedge,
        part_scales=jit.scales_in_hedge,
    )
    compiled = functions
    # factors are those of the last round: groups left out since then have weight 0
    saved = "weights", "cumulative", "sums", "factors", "gap", "learning"
    predicts = True
    layout = jit.HEDGE

    def __init__(self) -> None:
        #: Weights of the groups, and their cumulative losses, (p,).
        self.weights = np.zeros(0)
        self.cumulative = np.zeros(0)
        #: Sums of the weights, with the weights of rounds in the model's average, (p,).
        self.sums = np.zeros(0)
        #: Cumulative mixability gap, (1,).
        self.gap = np.zeros(1)
        #: Whether the weights learn, 0 or 1, (1,).
        self._learns = np.ones(1)

    @property
    def learning(self) -> bool:
        """True if the weights learn, from examples that are new to the model."""
        return bool(self._learns[0])

    @learning.setter
    def learning(self, learns: float) -> None:
        self._learns[0] = float(learns)

    def compiled_arrays(self, n_outputs: int) -> jit.HedgeArrays:
        return jit.HedgeArrays(
            weights=self.weights,
            cumulative=self.cumulative,
            sums=self.sums,
            factors=self.factors,
            losses=self._losses,
            square_norms_before=self._square_norms_before,
            gap=self.gap,
            learning=self._learns,
        )

    def start(self, group_state: GroupState, n_groups: int) -> None:
        # new groups start with the mean weight, and with the weighted mean of cumulative losses
        n_before = len(self.weights)
        n_new = n_groups - n_before
        self.cumulative = np.append(self.cumulative, np.full(n_new, self.weights @ self.cumulative))
        self.sums = np.append(self.sums, np.zeros(n_new))
        new_weights = np.full(n_new, 1.0 / max(n_groups, 1))
        self.weights = np.append(self.weights * n_before / max(n_groups, 1), new_weights)
        # unregularized groups keep the factor 1
        n_all = len(group_state.names)
        self.factors = np.ones(n_all)
        self.factors[:n_groups] = self.weights
        self._losses = np.zeros(n_groups)
        self._square_norms_before = np.zeros(n_all)

    def before_epoch(self, trainer: Learner, epoch: EpochPlan) -> None:
        super().before_epoch(trainer, epoch)
        self._share(trainer.group_state)

    def after_training(self, trainer: Learner) -> None:
        self._share(trainer.group_state)

    def _share(self, group_state: GroupState) -> None:
        """Distribute the weight of left-out groups among the others."""
        left_out = group_state.left_out[: len(self.weights)]
        if left_out.any():
            weights = np.where(left_out, 0.0, self.weights)
            if weights.any():
                self.weights = weights / weights.sum()

    def value(self, norms: np.ndarray, terms: Sequence[Regularizer]) -> float:
        return jit.half_weighted_squares(norms, self.weights)

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        if self.learning:
            is_active = (self.weights > 0.0).astype(np.float64)
            self.weights = is_active / max(is_active.sum(), 1.0)
            self.cumulative[:] = 0.0
            self.gap[:] = 0.0

    def discount(self, factor: float) -> None:
        self.sums *= factor

    def take(self, other: Self, indices: list[int]) -> None:
        self.cumulative = other.cumulative[indices]
        self.sums = other.sums[indices]
        self.gap = other.gap.copy()
        total = other.weights[indices].sum()
        if total:
            self.weights = other.weights[indices] / total
        else:
            self.weights = np.full(len(indices), 1.0 / len(indices))
        self.factors[: len(self.weights)] = self.weights

    def terms(self, terms: Sequence[Regularizer]) -> Sequence[Regularizer]:
        return []  # the shrinkage of the weighted squares is the method's own

    def kernel_weights(self, pending: float, total: float) -> np.ndarray:
        weights = self.weights
        if total:
            weights = np.where(self.weights > 0.0, self.sums + pending * self.weights, 0.0)
        return weights / weights.sum()


#: Methods by name.
METHODS: Mapping[str, type[Method]] = {"fobos": ForwardBackward, "rda": DualAveraging}
