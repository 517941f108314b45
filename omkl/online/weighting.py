"""Weights of the parts of a model that all learn alike: from new examples while there are any, then from norms."""

from collections.abc import Sequence

import numpy as np

from omkl.groups import GroupState
from omkl.online import _jit_weighting as jit
from omkl.online.rounds import ForwardBackward


class OutOfSampleWeights(ForwardBackward):
    r"""MKL's weights, where the parts of the model learn alike whatever their weight.

    The model is :math:`f = \sum_k w_k f_k`, with w on the simplex, and its objective, given the weights, is

    .. math:: C \sum_i L\Bigl(\sum_k w_k f_k; x_i, y_i\Bigr) + \frac12 \sum_k w_k \|f_k\|^2
        = C \sum_i L(\theta; x_i, y_i) + \frac12 \sum_k \frac{\|\theta_k\|^2}{w_k}, \qquad \theta_k = w_k f_k,

    whose minimum over the weights as well is :math:`\frac12 (\sum_k \|\theta_k\|)^2`, the squared mixed norm of MKL, at
    :math:`w_k \propto \|\theta_k\|`. All parts take the same gradient steps and shrink alike.

    *While examples are new*, in the first epoch and on streams, the parts have not learned from them, and the inner
    products :math:`\ell_k = \langle f_k, g \rangle`, g the gradient of the loss, tell which of them would have made it
    smaller. Hedge plays with them, :math:`w_k \propto \exp(-\alpha_t \sum_{s \le t} \ell_{sk})`, at the learning rate
    of AdaHedge (de Rooij et al. 2014), which knows no scale and no horizon. As the loss is convex,

    .. math:: \sum_t L_t(w_t) - \min_w \sum_t L_t(w)
        \le 2 \sqrt{V_T \ln p} + S \left(\tfrac43 \ln p + 2\right)

    with S the largest range of the :math:`\ell_{tk}` in a round and V the sum of their variances under :math:`w_t`
    (their Theorem 6): on the whole the weights do as well as the best fixed ones would have done, with the parts as
    they were.

    *When examples come back*, each fits the parts that can tell it apart, and what helps on others is no longer
    seen. Groups that have not shown that they help, see :class:`~omkl.online.evidence.Evidence`, are left out; the
    others have equal weights first, then at every epoch :math:`w_k \propto \|\theta_k\|`, whose fixed points are the
    minima of the objective over the groups that are left (as in Xu et al. 2010).

    Parameters
    ----------
    n_groups : int
        Regularized groups; others have no weight.

    References
    ----------
    de Rooij, van Erven, Grünwald, Koolen (2014), Follow the leader if you can, hedge if you must.

    Xu, Jin, Yang, King, Lyu (2010), Simple and efficient multiple kernel learning by group lasso.
    """

    def __init__(self, n_groups: int) -> None:
        self.weights = np.full(n_groups, 1.0 / n_groups)
        self.cumulative = np.zeros(n_groups)
        self.sums = np.zeros(n_groups)  # of weights, counted as the average of the model counts its rounds
        self.gap = 0.0
        self._losses = np.zeros(n_groups)

    @property
    def hedges(self) -> bool:
        """Whether the weights learn from the examples that come."""
        return self.learning

    def prepare(self, group_state: GroupState) -> None:
        """Groups without weights of their own keep the factor 1."""
        self._factors = np.ones(len(group_state.names))
        self._factors[: len(self.weights)] = self.weights

    def meet(self, new: bool, group_state: GroupState) -> None:
        """Say whether the examples of the epoch that begins are new. Where they are not, weights follow from norms."""
        if not new:
            norms = group_state.norms[: len(self.weights)]
            if self.learning:  # all parts have learned alike; so do their norms compare
                norms = norms / np.where(self._factors > 0.0, self._factors, np.inf)[: len(norms)]
            weights = np.where(group_state.left_out[: len(norms)], 0.0, norms)
            if weights.any():
                self.weights = weights / weights.sum()
        elif not self.learning:  # Hedge goes on from the weights there are
            logs = np.log(self.weights, out=np.zeros_like(self.weights), where=self.weights > 0.0)
            self.cumulative = -self.gap / np.log(max(len(logs), 2)) * logs
        self.learning = new

    def part_scales(self, group_state: GroupState) -> np.ndarray:
        return np.divide(
            group_state.scales, self._factors, out=np.zeros_like(group_state.scales), where=self._factors > 0.0
        )

    def reached(self, group_state: GroupState) -> np.ndarray:
        return group_state.bases * self._factors

    def begin(self, group_state: GroupState, rate: float, weight: float, decay: float) -> None:
        """Open a round: the gradient moves each part by ``-rate * weight``, and so ``theta_k`` by ``w_k`` of that."""
        self._weight, self._decay = weight, decay
        self._before = group_state.square_norms.copy()
        self.sums += group_state.pending_weight * self.weights
        jit.begin(
            group_state.scales, self._factors, group_state.empty, group_state.averages, group_state.pending_weight,
            rate * weight, decay, group_state.bases, group_state.rates,
        )  # fmt: skip

    def observe(self, group_state: GroupState) -> float:
        """Learn from how the step of the banks has changed the norms; the squared length of the parts' gradient."""
        if self.learning:
            jit.losses_of_parts(
                self._before, group_state.square_norms, group_state.square_gradients, group_state.rates,
                group_state.bases, self._decay, self._weight, self._losses,
            )  # fmt: skip
            self.learn(self._losses)
        return float(self._factors @ group_state.square_gradients)

    def learn(self, losses: np.ndarray) -> None:
        """One round of Hedge on the losses of the parts, (p,)."""
        self.gap = jit.hedge(self.weights, self.cumulative, losses, self.gap)

    def open_mix(
        self, group_state: GroupState, rate: float, presented: float, lambda_: float, taken: float,
        shrinkage: np.ndarray,
    ) -> tuple[float, np.ndarray]:  # fmt: skip
        """Parameters of shards are mixed as they are: each has taken its proximal steps, which shrink all parts alike,
        and the weights have been the same in all of them."""
        group_state.empty[:] = group_state.square_norms <= 0.0
        group_state.bases[:] = np.where(group_state.empty, 1.0, self.part_scales(group_state))
        return 0.0, np.zeros_like(shrinkage)

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        self.sums = np.sum([weight * state["sums"] for weight, state in zip(weights, states)], axis=0)

    def prox(self, norms: np.ndarray, step: float) -> np.ndarray:
        """Norms ``w_k ||f_k||`` of the groups after the proximal step, from those of the parts before it."""
        self._factors[: len(self.weights)] = self.weights
        return self.weights * norms / (1.0 + step)

    def distance(self, norms: np.ndarray, total: float) -> float:
        """How far the model is from the origin, in the norm whose square the weights' regularizer is the half of."""
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
            "gap": np.array([self.gap, self.learning]),
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        self.weights, self.cumulative, self.sums = (
            np.array(state[name], dtype=np.float64) for name in ("weights", "cumulative", "sums")
        )
        self.gap, self.learning = float(state["gap"][0]), bool(state["gap"][1])
        self._factors[: len(self.weights)] = self.weights
