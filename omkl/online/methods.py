"""Methods of online learning: forward-backward splitting, dual averaging, and weights from Hedge.

A method tells the group state how far a gradient moves each direction ``v``, and where the proximal step starts.
"""

import numpy as np

from omkl.exceptions import InputError
from omkl.groups.group_state import GroupState
from omkl.online import _jit_hedge as jit


class Method:
    """Base class of the methods."""

    #: Whether the next examples are new to the model.
    learning = True
    #: Whether groups have weights of their own, beside their norms.
    has_weights = False
    #: Whether groups at zero forget their past.
    forgets = True

    def meet(self, new: bool, group_state: GroupState) -> None:
        """Take in whether the next examples are new to the model, and which groups are left out."""
        self.learning = new

    def observe(self, group_state: GroupState) -> float:
        """Squared norm of the gradient of the latest step, for weight 1."""
        return float(np.add.reduce(group_state.square_gradients, where=~group_state.left_out))

    def part_scales(self, group_state: GroupState) -> np.ndarray:
        """Factors from the directions ``v_k`` to the parts ``f_k`` of the model, (p,)."""
        return group_state.scales

    def distance(self, norms: np.ndarray, total: float) -> float:
        """Distance of the model from the origin, from the norms of its groups and their total norm."""
        return total

    def state(self) -> dict[str, np.ndarray]:
        """Learned arrays beside those of the groups, by name."""
        return {}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""


class ForwardBackward(Method):
    """FOBOS: ``theta <- prox_{eta lambda R}(theta - eta g)``. Groups at zero forget their past."""

    name = "fobos"
    forgets = True

    def prepare(self, group_state: GroupState) -> None:
        """Do nothing: all groups are empty at the start."""

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        """Open a round: ``theta`` moves by ``-rate * weight`` along the gradient."""
        group_state.begin_forward_backward(rate * weight)

    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        """Weight of lambda in the proximal step."""
        return rate * weight

    def mixed_part(self, scales: np.ndarray) -> np.ndarray:
        """Factors from the directions of shards to the mixed quantity, which is the parameters."""
        return scales

    def open_mix(
        self,
        group_state: GroupState,
        rate: float,
        presented: float,
        lambda_: float,
        taken: float,
        shrinkage: np.ndarray,
    ) -> tuple[float, np.ndarray]:
        """Open the proximal step after mixing shards; return its weight, and the shrinkage to undo first.

        The proximal steps of the shards, of total weight ``taken``, have reduced the norms by ``shrinkage``. It is
        added back, else the regularizer would count twice.
        """
        group_state.empty[:] = group_state.square_norms <= 0.0
        group_state.bases[:] = np.where(group_state.empty, 1.0, group_state.scales)
        return taken, shrinkage


class DualAveraging(Method):
    r"""RDA (Xiao 2010): :math:`\theta = \mathrm{prox}_{\eta_0 \sqrt t \lambda R}(-(\eta_0/\sqrt t) \sum_s g_s)`.

    The threshold grows with t, so dead groups stay dead: the iterates are truly group-sparse. Any schedule may stand
    in for :math:`\eta_t = \eta_0 / \sqrt t`; the proximal step is weighted with :math:`W_t \eta_t`, where :math:`W_t`
    is the sum of the examples' weights, t if all are 1.
    """

    name = "rda"
    forgets = False

    def prepare(self, group_state: GroupState) -> None:
        """Gradients are summed for every group, dead or alive."""
        group_state.empty[:] = False

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        """Open a round: the gradient adds to the sum; the parameters are ``-rate`` times the sum, then shrunk."""
        group_state.begin_dual_averaging(weight, rate)

    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        """Weight of lambda in the proximal step: each gradient of the sum comes with one regularizer."""
        return rate * presented

    def mixed_part(self, scales: np.ndarray) -> np.ndarray:
        """Factors from the directions of shards to the mixed quantity, which is the sum of gradients."""
        return np.ones_like(scales)

    def open_mix(
        self,
        group_state: GroupState,
        rate: float,
        presented: float,
        lambda_: float,
        taken: float,
        shrinkage: np.ndarray,
    ) -> tuple[float, np.ndarray]:
        """Open the proximal step after mixing shards, from the mixed sum of gradients."""
        group_state.bases[:] = rate
        return self.proximal_weight(rate, 1.0, presented) * lambda_, np.zeros_like(shrinkage)


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
        """Groups without weights of their own keep the factor 1."""
        self._factors = np.ones(len(group_state.names))
        self._factors[: len(self.weights)] = self.weights

    def meet(self, new: bool, group_state: GroupState) -> None:
        """Say whether examples that come are new; groups that have been left out give their weight to the others."""
        self.learning = new
        weights = np.where(group_state.left_out[: len(self.weights)], 0.0, self.weights)
        if weights.any():
            self.weights = weights / weights.sum()

    def part_scales(self, group_state: GroupState) -> np.ndarray:
        return np.divide(
            group_state.scales, self._factors, out=np.zeros_like(group_state.scales), where=self._factors > 0.0
        )

    def begin(self, group_state: GroupState, rate: float, weight: float) -> None:
        """Open a round: the gradient moves each part by ``-rate * weight``, and so ``theta_k`` by ``w_k`` of that."""
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
        """Learn from how the step of the banks has changed the norms; the squared length of the parts' gradient."""
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
        """Norms ``w_k ||f_k||`` of the groups after the proximal step, from those of the parts before it."""
        self._factors[: len(self.weights)] = self.weights
        return self.weights * norms / (1.0 + step)

    def distance(self, norms: np.ndarray, total: float) -> float:
        """Distance of the model from the origin: the square root of twice the regularizer of the weights."""
        return float(np.sqrt(max(total**2 - norms @ norms, 0.0) + 2.0 * self.value(norms)))

    def value(self, norms: np.ndarray) -> float:
        """The regularizer of the present weights; ``norms`` are those of the groups, ``||theta_k||``."""
        alive = self.weights > 0.0
        return 0.5 * float((norms[alive] ** 2 / self.weights[alive]).sum())

    def grow(self, n_groups: int) -> None:
        """Take in groups that the model has gained; each begins with the mean weight, and the losses of the mix."""
        n, known = n_groups - len(self.weights), len(self.weights)
        self.cumulative = np.append(self.cumulative, np.full(n, self.weights @ self.cumulative))
        self.sums = np.append(self.sums, np.zeros(n))
        self.weights = np.append(self.weights * known / n_groups, np.full(n, 1.0 / n_groups))
        self._losses = np.zeros(n_groups)

    def take(self, other: "OutOfSampleWeights", indices: list[int]) -> None:
        """Go on with the weights that some groups of another model have."""
        self.cumulative, self.sums, self.gap = other.cumulative[indices], other.sums[indices], other.gap
        total = other.weights[indices].sum()
        self.weights = other.weights[indices] / total if total else np.full(len(indices), 1.0 / len(indices))
        self._factors[: len(self.weights)] = self.weights

    def kernel_weights(self, pending: float, total: float) -> np.ndarray:
        """Weights of the averaged model, whose rounds count ``total`` with ``pending`` for the last; they sum to 1."""
        weights = np.where(self.weights > 0.0, self.sums + pending * self.weights, 0.0) if total else self.weights
        return weights / weights.sum()

    def state(self) -> dict[str, np.ndarray]:
        """Named arrays, as checkpoints and model files have them."""
        return {
            "weights": self.weights,
            "cumulative": self.cumulative,
            "sums": self.sums,
            "factors": self._factors[: len(self.weights)],
            "gap": np.array([self.gap, self.learning]),
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        self.weights, self.cumulative, self.sums = (
            np.array(state[name], dtype=np.float64) for name in ("weights", "cumulative", "sums")
        )
        self.gap, self.learning = float(state["gap"][0]), bool(state["gap"][1])
        # those of the last round: groups that have been left out since have lost their weight
        self._factors[: len(self.weights)] = state["factors"]


#: Methods by name.
METHODS: dict[str, type[ForwardBackward] | type[DualAveraging]] = {"fobos": ForwardBackward, "rda": DualAveraging}


def as_method(name: str) -> ForwardBackward | DualAveraging:
    """Return the method called ``"fobos"`` or ``"rda"``."""
    if name not in list(METHODS):
        raise InputError(f"`method` must be one of 'fobos', 'rda', got {name!r}.")
    return METHODS[name]()
