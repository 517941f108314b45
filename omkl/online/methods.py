"""Methods of online learning: forward-backward splitting, dual averaging, and weights from Hedge.

A method tells the group state how far a gradient moves each direction ``v``, and where the proximal step starts.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from omkl.exceptions import InputError
from omkl.groups.group_state import GroupState
from omkl.online import _jit_hedge as jit


class Method(ABC):
    """Base class of the methods."""

    name: ClassVar[str]
    #: Whether groups at zero forget their past.
    forgets: ClassVar[bool]
    #: Whether groups have weights of their own, besides their norms.
    has_weights: ClassVar[bool] = False
    #: Whether the next examples are new to the model.
    learning = True

    def prepare(self, group_state: GroupState) -> None:  # noqa: B027
        """Set up a group state, at the start and when there are new groups."""

    @abstractmethod
    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        """Open a round on an example of this weight: set rates and bases."""

    @abstractmethod
    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        """Return the weight of lambda in the proximal step, after examples of the total weight ``presented``."""

    def observe(self, group_state: GroupState) -> float:
        """Return the squared norm of the gradient of the latest step, for weight 1."""
        return float(np.add.reduce(group_state.square_gradients, where=~group_state.left_out))

    def meet(self, new: bool, group_state: GroupState) -> None:
        """Take in whether the next examples are new to the model, and which groups are left out."""
        self.learning = new

    def part_scales(self, group_state: GroupState) -> np.ndarray:
        """Return the factors (p,) from the directions ``v_k`` to the parts ``f_k`` of the model."""
        return group_state.scales

    def distance(self, norms: np.ndarray, total: float) -> float:
        """Return the distance of the model from the origin, from the norms of its groups and their total norm."""
        return total

    def grow(self, n_groups: int) -> None:  # noqa: B027
        """Take in groups that the model has gained."""

    def state(self) -> dict[str, np.ndarray]:
        """Return the learned arrays besides those of the groups, by name."""
        return {}

    def load_state(self, state: dict[str, np.ndarray]) -> None:  # noqa: B027
        """Load the arrays of :meth:`state`."""


class ForwardBackward(Method):
    """FOBOS: ``theta <- prox_{eta lambda R}(theta - eta g)``. Groups at zero forget their past."""

    name = "fobos"
    forgets = True

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        group_state.begin_forward_backward(rate * weight)

    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        return rate * weight


class DualAveraging(Method):
    r"""RDA (Xiao 2010): :math:`\theta = \mathrm{prox}_{\eta_0 \sqrt t \lambda R}(-(\eta_0/\sqrt t) \sum_s g_s)`.

    The threshold grows with t, so dead groups stay dead: the iterates are truly group-sparse. Any schedule may replace
    :math:`\eta_t = \eta_0 / \sqrt t`; the proximal step is weighted with :math:`W_t \eta_t`, where :math:`W_t` is the
    sum of the examples' weights, as each gradient of the sum comes with one regularizer.
    """

    name = "rda"
    forgets = False

    def prepare(self, group_state: GroupState) -> None:
        group_state.empty[:] = False  # gradients are summed for every group, dead or alive

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        group_state.begin_dual_averaging(weight, rate)

    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        return rate * presented


class OutOfSampleWeights(ForwardBackward):
    r"""Hedge over the parts of a model, for MKL on examples that are met once.

    The model is :math:`f = \sum_k w_k f_k`, with w on the simplex, and its objective, given the weights, is

    .. math:: C \sum_i L\Bigl(\sum_k w_k f_k; x_i, y_i\Bigr) + \frac12 \sum_k w_k \|f_k\|^2
        = C \sum_i L(\theta; x_i, y_i) + \frac12 \sum_k \frac{\|\theta_k\|^2}{w_k}, \qquad \theta_k = w_k f_k,

    whose minimum over the weights as well is :math:`\frac12 (\sum_k \|\theta_k\|)^2`, the squared mixed norm of MKL.
    MKL's weights are those that fit the training data best, and a kernel which tells any two examples apart, though it
    says nothing of others, fits them best of all. Here the weights are those that do well on what comes next: when an
    example is met, the parts :math:`f_k` have not learned from it, and the inner products
    :math:`\ell_k = \langle f_k, g \rangle`, g the gradient of its loss, tell which of them would have made the loss
    smaller. Hedge plays with them, :math:`w_k \propto \exp(-\alpha_t \sum_{s \le t} \ell_{sk})`, at the learning rate
    of AdaHedge (de Rooij et al. 2014), which knows no scale and no horizon. As the loss is convex,

    .. math:: \sum_t L_t(w_t) - \min_w \sum_t L_t(w)
        \le 2 \sqrt{V_T \ln p} + S \left(\tfrac43 \ln p + 2\right)

    with S the largest range of the :math:`\ell_{tk}` in a round and V the sum of their variances under :math:`w_t`
    (their Theorem 6): on the whole the weights do as well as the best fixed ones would have done, with the parts as
    they were. All parts take the same gradient steps and shrink alike, whatever their weight.

    Parameters
    ----------
    n_groups : int
        Regularized groups; others have no weight.

    References
    ----------
    de Rooij, van Erven, Grünwald, Koolen (2014), Follow the leader if you can, hedge if you must.
    """

    has_weights = True

    def __init__(self, n_groups: int) -> None:
        self.weights = np.full(n_groups, 1.0 / max(n_groups, 1))
        self.cumulative = np.zeros(n_groups)
        self.sums = np.zeros(n_groups)  # of weights, counted as the average of the model counts its rounds
        self.gap = 0.0
        self._losses = np.zeros(n_groups)

    def prepare(self, group_state: GroupState) -> None:
        # groups without weights of their own keep the factor 1
        self._factors = np.ones(len(group_state.names))
        self._factors[: len(self.weights)] = self.weights

    def meet(self, new: bool, group_state: GroupState) -> None:
        self.learning = new
        # groups that are left out give their weight to the others
        weights = np.where(group_state.left_out[: len(self.weights)], 0.0, self.weights)
        if weights.any():
            self.weights = weights / weights.sum()

    def part_scales(self, group_state: GroupState) -> np.ndarray:
        return np.divide(
            group_state.scales, self._factors, out=np.zeros_like(group_state.scales), where=self._factors > 0.0
        )

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        # the gradient moves each part by -rate * weight, and theta_k by w_k times that
        self._weight = weight
        self._before = group_state.square_norms.copy()
        self.sums += group_state.pending_weight * self.weights
        jit.begin(
            group_state.scales,
            self._factors,
            group_state.empty,
            group_state.averages,
            group_state.pending_weight,
            rate * weight,
            group_state.bases,
            group_state.rates,
        )

    def observe(self, group_state: GroupState) -> float:
        # the step of the banks has changed the norms: this tells the losses of the parts
        if self.learning:
            jit.losses_of_parts(
                self._before,
                group_state.square_norms,
                group_state.square_gradients,
                group_state.rates,
                group_state.bases,
                self._weight,
                self._losses,
            )
            self.gap = jit.hedge(self.weights, self.cumulative, self._losses, self.gap)
        return float(self._factors @ group_state.square_gradients)

    def prox(self, norms: np.ndarray, step: float) -> np.ndarray:
        """Return the norms ``w_k ||f_k||`` of the groups after the proximal step, from those of the parts before it."""
        self._factors[: len(self.weights)] = self.weights
        return self.weights * norms / (1.0 + step)

    def distance(self, norms: np.ndarray, total: float) -> float:
        # the square root of twice the regularizer of the weights
        return float(np.sqrt(max(total**2 - norms @ norms, 0.0) + 2.0 * self.value(norms)))

    def value(self, norms: np.ndarray) -> float:
        """Return the regularizer for the current weights; ``norms`` are those of the groups, ``||theta_k||``."""
        alive = self.weights > 0.0
        return 0.5 * float((norms[alive] ** 2 / self.weights[alive]).sum())

    def grow(self, n_groups: int) -> None:
        # new groups start with the mean weight, and with the losses of the mix
        n, known = n_groups - len(self.weights), len(self.weights)
        self.cumulative = np.append(self.cumulative, np.full(n, self.weights @ self.cumulative))
        self.sums = np.append(self.sums, np.zeros(n))
        self.weights = np.append(self.weights * known / n_groups, np.full(n, 1.0 / n_groups))
        self._losses = np.zeros(n_groups)

    def take(self, other: "OutOfSampleWeights", indices: list[int]) -> None:
        """Continue with the weights of some groups of another model."""
        self.cumulative, self.sums, self.gap = other.cumulative[indices], other.sums[indices], other.gap
        total = other.weights[indices].sum()
        self.weights = other.weights[indices] / total if total else np.full(len(indices), 1.0 / len(indices))
        self._factors[: len(self.weights)] = self.weights

    def kernel_weights(self, pending: float, total: float) -> np.ndarray:
        """Return the weights of the averaged model; the last round counts ``pending`` of the ``total`` weight."""
        weights = np.where(self.weights > 0.0, self.sums + pending * self.weights, 0.0) if total else self.weights
        return weights / weights.sum()

    def state(self) -> dict[str, np.ndarray]:
        return {
            "weights": self.weights,
            "cumulative": self.cumulative,
            "sums": self.sums,
            "factors": self._factors[: len(self.weights)],
            "gap": np.array([self.gap, self.learning]),
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.weights, self.cumulative, self.sums = (
            np.array(state[name], dtype=np.float64) for name in ("weights", "cumulative", "sums")
        )
        self.gap, self.learning = float(state["gap"][0]), bool(state["gap"][1])
        # those of the last round: groups that have been left out since have lost their weight
        self._factors[: len(self.weights)] = state["factors"]


def as_method(name: str) -> Method:
    """Return the method called ``"fobos"`` or ``"rda"``."""
    for method in (ForwardBackward(), DualAveraging()):
        if method.name == name:
            return method
    raise InputError(f"`method` must be one of 'fobos', 'rda', got {name!r}.")
