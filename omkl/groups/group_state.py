"""The O(p) state of a model: one scale, norm and average per group, for all banks in one place."""

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np

from omkl._pointers import Packed
from omkl.exceptions import InputError
from omkl.groups import _jit_group_state as jit

#: Scales are folded into v when they leave this range (float64 parameters).
SCALE_RANGE = (1e-6, 1e6)
#: Arrays that checkpoints save.
SAVED = "scales", "square_norms", "averages", "empty", "left_out"


class StepArrays(NamedTuple):
    """Arrays of some groups that a gradient step reads or sets, for compiled loops."""

    rates: np.ndarray
    averages: np.ndarray
    empty: np.ndarray
    square_norms: np.ndarray
    square_gradients: np.ndarray


_arrays_of_bank = attrgetter(*jit.BankGroups._fields)
_arrays_of_all = attrgetter(*jit.Groups._fields[:-2])


class Mixture(NamedTuple):
    r"""Weights for mixing the parameters of S shards, for p groups.

    The mixed parameters are :math:`\sum_j p_{jk} v^{(j)}_k`, and the running sums of their average
    :math:`\sum_j (a_{jk} v^{(j)}_k + w_j u^{(j)}_k)`.
    """

    #: Weights :math:`w` of the shards, (S,); they sum to one.
    weights: np.ndarray
    #: Weights :math:`p` and :math:`a` of the shards' directions, (S, p).
    points: np.ndarray
    averages: np.ndarray

    def of(self, groups: slice) -> "Mixture":
        """Select a slice of the groups."""
        return Mixture(self.weights, self.points[:, groups], self.averages[:, groups])


class OwnsGroups(Protocol):
    """The part of a bank that the group state uses."""

    names: list[str]
    group_state: "GroupStateView"


class GroupState:
    r"""Scales, norms and averages of every group: :math:`\theta_k = s_k v_k` (lazy scaling).

    Banks own the directions ``v_k`` and hold views of their slices of these arrays. So one compiled
    call serves all banks, and a proximal step costs O(p) for any dimension.

    Attributes
    ----------
    scales : array of shape (p,)
        ``s_k``; 0 for a group that contributes nothing.
    square_norms : array of shape (p,)
        ``||v_k||^2``, kept exact by the banks at every step.
    square_gradients : array of shape (p,)
        ``||g_k||^2`` of the latest step.
    averages : array of shape (p,)
        ``a_k``, the sum of ``w_t s_k`` over rounds; the averaged parameters are ``(a_k v_k + u_k) /
        sum w_t``.
    rates, bases : arrays of shape (p,)
        Set at the start of a round: step size of ``v_k`` along the gradient, and scale before the
        proximal step.
    empty : bool array of shape (p,)
        Groups whose ``v_k`` is zero. Only forward-backward splitting empties groups.
    activated, deactivated : bool arrays of shape (p,)
        Groups that left zero, or reached it, in the last proximal step.
    left_out : bool array of shape (p,)
        Groups removed from the model and its average.
    total_shrinkage : array of shape (p,)
        Sum of the reductions of each norm by proximal steps.
    """

    def __init__(self, banks: "Sequence[OwnsGroups]") -> None:
        names = [name for bank in banks for name in bank.names]
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise InputError(
                f"Two groups are called {sorted(repeated)[0]!r}: give every group a unique name."
            )
        p = len(names)
        self.names = names
        self.scales, self.averages, self.rates, self.bases = (
            np.zeros(p),
            np.zeros(p),
            np.zeros(p),
            np.ones(p),
        )
        self.square_norms, self.square_gradients, self.total_shrinkage, self.before = np.zeros(
            (4, p)
        )
        self.empty = np.ones(p, dtype=bool)
        self.activated, self.deactivated, self.left_out = np.zeros((3, p), dtype=bool)
        self.total_weight = self.pending_weight = 0.0
        self._packed: Packed | None = None
        first = 0
        for bank in banks:
            bank.group_state = GroupStateView(self, first, first + len(bank.names))
            first += len(bank.names)

    @property
    def address(self) -> int:
        """Address of the arrays for compiled functions, see ``_jit_group_state.Groups``."""
        lowest, highest = SCALE_RANGE
        values = jit.Groups(*_arrays_of_all(self), lowest, highest)  # type: ignore[call-arg]
        if self._packed is None or not self._packed.holds(values):
            self._packed = jit.GROUPS.pack(values)
        return self._packed.address

    def rebuilt(self, banks: "Sequence[OwnsGroups]") -> "GroupState":
        """Return a state for banks that have gained groups; the new groups are empty.

        Parameters
        ----------
        banks : sequence of Bank
        """
        grown = GroupState(banks)
        indices = [grown.names.index(name) for name in self.names]
        for name in SAVED:
            getattr(grown, name)[indices] = getattr(self, name)
        grown.total_weight, grown.pending_weight = self.total_weight, self.pending_weight
        return grown

    @property
    def norms(self) -> np.ndarray:
        """Group norms ``b_k = s_k ||v_k||`` of the current model."""
        return self.scales * np.sqrt(np.maximum(self.square_norms, 0.0))

    def measure(self) -> np.ndarray:
        """Return the norms at the start of the proximal step, ``base_k ||v_k||``, in a reused
        array.
        """
        jit.measure(self.address)
        return self.before

    def rescale(self, after: np.ndarray, radius: float, forgets: bool) -> tuple[bool, float]:
        """Rescale the groups to the norms ``after``, then project onto the ball; penalised groups
        come first.

        Parameters
        ----------
        after : array of shape (number of penalised groups,)
        radius : float
            Radius of the ball.
        forgets : bool
            Whether groups that reach zero become empty.

        Returns
        -------
        has_events : bool
            Whether banks have events to apply.
        norm : float
            Norm of all parameters together.
        """
        return jit.rescale(self.address, after, radius, forgets)

    def restart(self) -> None:
        """Set every group and the average to zero; keep ``left_out``."""
        for array in (self.scales, self.square_norms, self.averages, self.total_shrinkage):
            array[:] = 0.0
        self.bases[:], self.empty[:] = 1.0, True
        self.total_weight = self.pending_weight = 0.0

    def discount(self, factor: float) -> None:
        """Multiply the weights of all models in the average; banks multiply their running sums.

        Parameters
        ----------
        factor : float
        """
        self.averages *= factor
        self.total_weight *= factor
        self.pending_weight *= factor

    def mix(
        self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray, scales: np.ndarray
    ) -> Mixture:
        """Mix the states of S shards; all scales become 1.

        Parameters
        ----------
        states : sequence of dict
        weights : array of shape (S,)
        scales : array of shape (S, p)
            Factors of each shard's ``v_k`` before mixing.
        """
        totals, pending = np.array([state["weights"] for state in states]).T
        averages, own_scales = (
            np.array([state[name] for state in states]) for name in ("averages", "scales")
        )
        self.scales[:], self.averages[:] = 1.0, 0.0
        self.total_weight, self.pending_weight = float(weights @ totals), 0.0
        column = weights[:, None]
        return Mixture(
            weights, column * scales, column * (averages + pending[:, None] * own_scales)
        )

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of a checkpoint."""
        weights = np.array([self.total_weight, self.pending_weight])
        return {name: getattr(self, name) for name in SAVED} | {"weights": weights}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load the arrays of :meth:`state`.

        Parameters
        ----------
        state : dict of str to array
        """
        for name in SAVED:
            getattr(self, name)[:] = state[name]
        self.total_weight, self.pending_weight = (float(weight) for weight in state["weights"])


class GroupStateView:
    """The slice of the group state for one bank: views of the same arrays."""

    def __init__(self, whole: GroupState, first: int, last: int) -> None:
        self._whole = whole
        self.groups = own = slice(first, last)
        self.scales, self.bases, self.rates = whole.scales[own], whole.bases[own], whole.rates[own]
        self.square_norms, self.square_gradients = (
            whole.square_norms[own],
            whole.square_gradients[own],
        )
        self.averages, self.left_out, self.empty = (
            whole.averages[own],
            whole.left_out[own],
            whole.empty[own],
        )
        self.activated, self.deactivated = whole.activated[own], whole.deactivated[own]
        self.step = StepArrays(
            self.rates, self.averages, self.empty, self.square_norms, self.square_gradients
        )
        self._packed = jit.BANK_GROUPS.pack(jit.BankGroups(*_arrays_of_bank(self)))

    @property
    def scale_range(self) -> tuple[float, float]:
        """Range of scales outside of which they are folded into ``v``."""
        return SCALE_RANGE

    @property
    def address(self) -> int:
        """Address of the arrays for compiled functions, see ``_jit_group_state.BankGroups``."""
        return self._packed.address

    def __reduce__(self) -> tuple:
        # copies must hold views of the copied group state
        return GroupStateView, (self._whole, self.groups.start, self.groups.stop)

    def factors(self, averaging: bool) -> tuple[np.ndarray, float]:
        """Return ``(a_k, W)``, including the current model: the average is ``(a_k v_k + u_k) / W``.

        Return ``(s_k, 0)`` for the current model if there is no average.
        """
        whole = self._whole
        if not (averaging and whole.total_weight):
            return self.scales, 0.0
        return self.averages + whole.pending_weight * self.scales, whole.total_weight

    def average(self, values: np.ndarray, sums: np.ndarray, spread: Callable) -> np.ndarray:
        """Return the averaged parameters from directions and running sums, or the current ones
        without an average.

        ``spread`` broadcasts one number per group to the shape of the arrays.
        """
        factors, total = self.factors(sums.shape == values.shape)
        average = spread(factors) * values
        average = (average + sums) / total if total else average
        return np.where(spread(self.left_out), 0.0, average) if self.left_out.any() else average

    def shares_of(self, step: float) -> np.ndarray:
        """Return ``step / s_k``, by which coordinates of ``v_k`` shrink; 0 for empty groups."""
        return np.divide(step, self.scales, out=np.zeros_like(self.scales), where=self.scales > 0.0)

    def fold(self, k: int, factor: float, values: np.ndarray, sums: np.ndarray) -> None:
        """Add ``a_k v_k`` to the running sums of group k, if any, and multiply its ``v_k``, in
        place.
        """
        if sums.size:
            sums += self.averages[k] * values
        values *= factor
