"""The O(p) state of a model: one scale, norm and average per group, for all banks in one place."""

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from omkl._pointers import Packed
from omkl.exceptions import InputError
from omkl.groups import _jit_group_state as jit

#: Scales are folded into v when they leave this range (float64 parameters).
SCALE_RANGE = (1e-6, 1e6)
#: Arrays that checkpoints save.
SAVED = "scales", "square_norms", "averages", "empty", "left_out"


#: Arrays of the group state for compiled functions; all fields but the range of scales.
_arrays_of_all = attrgetter(*jit.Groups._fields[:-2])
_arrays_of_bank = attrgetter(*jit.BankGroups._fields)


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

    def directions(
        self, directions: Sequence[np.ndarray], spread: Callable[[np.ndarray], np.ndarray]
    ) -> list[np.ndarray]:
        """Return the terms of the mixed parameters, one of each shard; their sum is the mixture.

        ``spread`` turns weights of all groups, (p,), into factors of an array of a shard: it
        broadcasts them to its shape, or selects the weight of the group that the array is of.
        """
        return [spread(point) * v for point, v in zip(self.points, directions)]

    def sums(
        self,
        directions: Sequence[np.ndarray],
        sums: Sequence[np.ndarray],
        spread: Callable[[np.ndarray], np.ndarray],
    ) -> list[np.ndarray]:
        """Return the terms of the mixed running sums, one of each shard.

        ``spread`` is described in :meth:`directions`.
        """
        shards = zip(self.averages, directions, self.weights, sums)
        return [spread(average) * v + weight * u for average, v, weight, u in shards]

    def write(
        self,
        states: Sequence[dict[str, np.ndarray]],
        where: Any,
        spread: Callable[[np.ndarray], np.ndarray],
        table: np.ndarray,
        sums: np.ndarray,
    ) -> None:
        """Write a mixture of the entries ``where`` of tables, and of their running sums, if any.

        ``spread`` is described in :meth:`directions`.
        """
        tables = [state["table"][where] for state in states]
        if len(sums):
            sums_of_shards = [state["sums"][where] for state in states]
            sums[where] = sum(self.sums(tables, sums_of_shards, spread))
        table[where] = sum(self.directions(tables, spread))


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
                f"Two groups are called {min(repeated)!r}: give every group a unique name."
            )
        p = len(names)
        self.names = names
        self.scales, self.averages, self.rates = np.zeros((3, p))
        self.square_norms, self.square_gradients = np.zeros((2, p))
        self.total_shrinkage, self.before = np.zeros((2, p))
        self.bases = np.ones(p)
        self.empty = np.ones(p, dtype=bool)
        self.activated, self.deactivated, self.left_out = np.zeros((3, p), dtype=bool)
        self.total_weight = 0.0
        self.pending_weight = 0.0
        self._packed: Packed | None = None
        first = 0
        for bank in banks:
            end = first + len(bank.names)
            bank.group_state = GroupStateView(self, first, end)
            first = end

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
        grown.total_weight = self.total_weight
        grown.pending_weight = self.pending_weight
        return grown

    @property
    def norms(self) -> np.ndarray:
        """Group norms ``b_k = s_k ||v_k||`` of the current model."""
        return self.scales * np.sqrt(np.maximum(self.square_norms, 0.0))

    def measure(self) -> np.ndarray:
        """Return ``base_k ||v_k||``, the norms before the proximal step, in a reused array."""
        jit.measure(self.address)
        return self.before

    def rescale(self, after: np.ndarray, radius: float, forgets: bool) -> tuple[bool, float]:
        """Rescale the groups to the norms ``after``, then project onto the ball.

        Penalised groups come first.

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
        self.bases[:] = 1.0
        self.empty[:] = True
        self.total_weight = 0.0
        self.pending_weight = 0.0

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
        averages = np.array([state["averages"] for state in states])
        scales_of_shards = np.array([state["scales"] for state in states])
        averages = averages + pending[:, None] * scales_of_shards
        self.scales[:] = 1.0
        self.averages[:] = 0.0
        self.total_weight = float(weights @ totals)
        self.pending_weight = 0.0
        column = weights[:, None]
        return Mixture(weights=weights, points=column * scales, averages=column * averages)

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
        self.total_weight, self.pending_weight = state["weights"].tolist()


class GroupStateView:
    """The slice of the group state for one bank: views of the same arrays."""

    def __init__(self, state: GroupState, first: int, end: int) -> None:
        self._state = state
        self.groups = groups = slice(first, end)
        self.scales = state.scales[groups]
        self.bases = state.bases[groups]
        self.rates = state.rates[groups]
        self.square_norms = state.square_norms[groups]
        self.square_gradients = state.square_gradients[groups]
        self.averages = state.averages[groups]
        self.left_out = state.left_out[groups]
        self.empty = state.empty[groups]
        self.activated = state.activated[groups]
        self.deactivated = state.deactivated[groups]
        #: The arrays that a bank's compiled functions read or set.
        self.arrays = jit.BankGroups(*_arrays_of_bank(self))
        self._packed = jit.BANK_GROUPS.pack(self.arrays)

    @property
    def address(self) -> int:
        """Address of the arrays for compiled functions, see ``_jit_group_state.BankGroups``."""
        return self._packed.address

    def out_of_range(self) -> list[int]:
        """Return the groups whose scales have left the range of good precision."""
        lowest, highest = SCALE_RANGE
        is_outside = (self.scales < lowest) | (self.scales > highest)
        return np.flatnonzero(is_outside & (self.scales != 0.0)).tolist()

    def __reduce__(self) -> tuple:
        # copies must hold views of the copied group state
        return GroupStateView, (self._state, self.groups.start, self.groups.stop)

    def factors(self, averaging: bool) -> tuple[np.ndarray, float]:
        """Return ``(a_k, W)``, including the current model: the average is ``(a_k v_k + u_k) / W``.

        Return ``(s_k, 0)`` for the current model if there is no average.
        """
        state = self._state
        if not averaging or state.total_weight == 0.0:
            return self.scales, 0.0
        return self.averages + state.pending_weight * self.scales, state.total_weight

    def average(
        self,
        directions: np.ndarray,
        sums: np.ndarray,
        spread: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Return averaged parameters, or the current ones without an average, as a new array.

        Parameters
        ----------
        directions, sums : arrays of the same shape
            ``v_k`` and ``u_k`` of all groups; ``sums`` has another shape without an average.
        spread : callable
            Broadcasts one number per group to the shape of the arrays.
        """
        factors, total = self.factors(sums.shape == directions.shape)
        average = spread(factors) * directions
        if total != 0.0:
            average = (average + sums) / total
        if self.left_out.any():
            average = np.where(spread(self.left_out), 0.0, average)
        return average

    def shares_of(self, step: float) -> np.ndarray:
        """Return ``step / s_k``, by which coordinates of ``v_k`` shrink; 0 for empty groups."""
        return np.divide(step, self.scales, out=np.zeros_like(self.scales), where=self.scales > 0.0)

    def fold(self, k: int, factor: float, direction: np.ndarray, sums: np.ndarray) -> None:
        """Add ``a_k v_k`` to the running sums ``u_k``, if any, and multiply ``v_k``, in place."""
        if sums.size:
            sums += self.averages[k] * direction
        direction *= factor
