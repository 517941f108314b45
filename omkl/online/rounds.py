"""A round of training: what it takes, what it gives, and the two methods, which open it in different ways.

Forward-backward splitting (the paper's Algorithm 1) and regularized dual averaging tell the group state how far a
gradient moves ``v`` and from which point the proximal step starts; everything else of a round is the same.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import GroupState


class Example(NamedTuple):
    """An input as the banks take it, its gold output as the structure takes it, and the weight of its loss."""

    x: object
    y: object
    weight: float = 1.0


class Step(NamedTuple):
    """What one round did: the (weighted) loss before it, the regularized groups' norms after it, its rate, the
    squared norm of its gradient, the potentials before it, the gold output, how many examples it has learned, the sum
    of their weights, and whether shards have learned them elsewhere."""

    loss: float
    norms: np.ndarray
    rate: float
    square_gradient: float
    potentials: object = None
    gold: object = None
    n_examples: int = 1
    weight: float = 1.0
    in_shards: bool = False


class Method:
    """What both methods do alike."""

    #: Whether the examples that come are new to the model.
    learning = True
    #: Whether groups have weights of their own, beside their norms.
    has_weights = False
    #: Whether groups at zero forget their past.
    forgets = True

    def check(self, on_coordinates: Any, l2: float, schedule: Any) -> None:
        """Raise an InputError for what the method cannot do: a regularizer on coordinates, a loss with an L2 part."""
        if on_coordinates is not None and not self.forgets:
            raise InputError(f"{on_coordinates!r} acts on coordinates, which dual averaging does not: use fobos.")
        if l2 and (schedule.adaptive or not self.forgets):
            raise InputError(
                f"l2={l2:g} is a part of the gradient step of forward-backward splitting with given rates, such as "
                "schedule='inverse-time' with eta0=1/l2: choose these, or add Ridge() to the regularizer."
            )

    def meet(self, new: bool, group_state: GroupState) -> None:
        """Say whether the examples that come are new to the model, and which groups have been left out before them."""
        self.learning = new

    def observe(self, group_state: GroupState) -> float:
        """The squared length of the gradient that the banks have just stepped along, of weight 1."""
        return float(np.add.reduce(group_state.square_gradients, where=~group_state.left_out))

    def part_scales(self, group_state: GroupState) -> np.ndarray:
        """What turns each group's direction into its part of the model, before the part is weighted."""
        return group_state.scales

    def distance(self, norms: np.ndarray, total: float) -> float:
        """How far the model is from the origin: all groups have the norm ``total``, the regularized ones ``norms``."""
        return total

    def state(self) -> dict[str, np.ndarray]:
        """What is learned beside the groups, as named arrays."""
        return {}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""


class ForwardBackward(Method):
    """FOBOS: ``theta <- prox_{eta lambda R}(theta - eta g)``. Groups at zero forget their past."""

    name = "fobos"
    forgets = True

    def prepare(self, group_state: GroupState) -> None:
        """Nothing is stored for groups at zero, and at the start all are."""

    def begin(self, group_state: GroupState, rate: float, weight: float, decay: float) -> None:
        """Open a round: ``theta`` shrinks by ``decay``, and the loss gradient moves it by ``-rate * weight``."""
        group_state.begin_forward_backward(rate * weight, decay)

    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        """Weight of the proximal step of an example, to be multiplied with lambda."""
        return rate * weight

    def mixed_part(self, scales: np.ndarray) -> np.ndarray:
        """What turns the directions of several shards into what is mixed: their scales, for parameters are mixed."""
        return scales

    def open_mix(
        self, group_state: GroupState, rate: float, presented: float, lambda_: float, taken: float,
        shrinkage: np.ndarray,
    ) -> tuple[float, np.ndarray]:  # fmt: skip
        """Open the one proximal step of a mix; returns its weight, and what to give back to the norms before it.

        Proximal steps of the shards, of the weight ``taken``, have taken ``shrinkage`` from the norms already. It is
        given back, else the regularizer would count twice: with the group lasso a group that is alive everywhere
        stays as it is, and one that is alive in few shards pays what the others, where it was at zero, could not pay.
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

    def begin(self, group_state: GroupState, rate: float, weight: float, decay: float) -> None:
        """Open a round: the gradient adds to the sum, of which the parameters are ``-rate`` times, then shrunk."""
        group_state.begin_dual_averaging(weight, rate)

    def proximal_weight(self, rate: float, weight: float, presented: float) -> float:
        """Weight of the proximal step after examples of the total weight ``presented``, to be multiplied with the
        lambda: the sum of gradients has one of the regularizer beside each of them."""
        return rate * presented

    def mixed_part(self, scales: np.ndarray) -> np.ndarray:
        """Sums of gradients are mixed, and the scales set afresh."""
        return np.ones_like(scales)

    def open_mix(
        self, group_state: GroupState, rate: float, presented: float, lambda_: float, taken: float,
        shrinkage: np.ndarray,
    ) -> tuple[float, np.ndarray]:  # fmt: skip
        """Open the latest proximal step once more: it starts from the sum of gradients, as always."""
        group_state.bases[:] = rate
        return self.proximal_weight(rate, 1.0, presented) * lambda_, np.zeros_like(shrinkage)


#: The methods that step along one gradient, that of the loss of all groups together, by name.
METHODS: dict[str, type[ForwardBackward] | type[DualAveraging]] = {"fobos": ForwardBackward, "rda": DualAveraging}


def as_method(name: str, others: Iterable[str] = ()) -> ForwardBackward | DualAveraging:
    """The method with this name, ``"fobos"`` or ``"rda"``; ``others`` are named as well where there is none."""
    if name not in list(METHODS):
        raise InputError(f"Unknown method {name!r}: choose one of {', '.join([*METHODS, *others])}.")
    return METHODS[name]()


def below(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
