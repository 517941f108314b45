"""The bank protocol: banks hold the parameters of groups."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from omkl.exceptions import InputError
from omkl.groups.group_state import GroupStateView
from omkl.structures import Potentials


class GroupBank(Protocol):
    """Several groups that share one representation: 20 feature templates are one bank, three kernels are another.

    A bank stores directions ``v_k``; the parameters are ``theta_k = scale_k v_k``, with scales in its slice of the
    :class:`~omkl.groups.GroupState`. A bank adds its potentials and moves ``v`` along a gradient. Meanwhile it keeps
    ``||v_k||^2`` in the group state exact, and sets ``||g_k||^2``. It knows no learning rate, regularizer or structure.
    :class:`Bank` is a base class. Optional abilities are the protocols :class:`Mixable`, :class:`Growable`,
    :class:`HasCoordinates`, :class:`Testable` and :class:`Condensable`.
    """

    names: list[str]
    #: The slice of the group state that belongs to this bank's groups; the group state sets it.
    group_state: GroupStateView

    def add_potentials(self, x: Any, potentials: Potentials) -> None:
        """Add the potentials of this bank's groups on ``x``."""

    def step(self, x: Any, gradient: Potentials) -> None:
        r"""Move ``v_k -= rates[k] g_k``, ``g_k`` the group's gradient, with the group state's rates.

        The step of an empty group may be postponed: the bank sets its squared norm to ``||rates[k] g_k||^2``, and moves
        it in :meth:`apply_events` if it comes alive. So a dead group costs no more than the norm of its gradient.
        """

    def apply_events(self, x: Any, gradient: Potentials | None) -> None:
        """Apply the activations, deactivations and scale folds that follow a proximal step.

        ``x`` and ``gradient`` are None if no step was postponed.
        """

    def recompute_norms(self) -> None:
        """Recompute ``||v_k||^2``, as the recursion drifts by rounding."""

    def discount(self, factor: float) -> None:
        """Multiply the running sums of the average."""

    def averaged(self) -> "GroupBank":
        """Return a bank of the averaged parameters that can add potentials and recompute its norms."""

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays for model files and checkpoints."""

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""


@runtime_checkable
class Mixable(Protocol):
    """A bank that can be trained in shards; see :mod:`omkl.groups.mixing`."""

    def blueprint(self) -> "Callable[[], GroupBank]":
        """Return a small, picklable function that makes an untrained bank of the same shape."""

    def changes(self, since: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the changes since an earlier state, for :meth:`mix`.

        The group state was new when the bank had that state.
        """

    def mix(self, changes: list[dict[str, np.ndarray]], mixture: Any) -> None:
        """Mix the changes of shards since they had this bank's state, and recompute the norms.

        ``mixture`` is a :class:`~omkl.groups.mixing.Mixture` of this bank's groups.
        """


@runtime_checkable
class Growable(Protocol):
    """A bank that can gain labels."""

    def grow_outputs(self, n_outputs: int) -> None:
        """Add labels with weights of zero."""


@runtime_checkable
class HasCoordinates(Protocol):
    """A bank whose parameters are vectors, for regularizers on coordinates."""

    def coordinates(self) -> np.ndarray:
        """Parameters that may be non-zero, before the proximal step, as one vector."""

    def set_coordinates(self, values: np.ndarray) -> None:
        """Replace what :meth:`coordinates` gave, and recompute the norms."""


@runtime_checkable
class Testable(Protocol):
    """A bank whose groups can be tested on new examples, and begin anew without those that do not help."""

    def inner_products(self, x: Any, gradient: Potentials, totals: np.ndarray | None) -> np.ndarray:
        """``<v_k, g_k>`` of each group, (p,), for a gradient in the potentials of ``x``.

        Where labels have unary potentials, adds the sums of those that each ``v_k`` gives to ``totals``, (p, K).
        """

    def restart(self) -> None:
        """Make every ``v_k`` zero and forget the average; the group state has been set to that."""


@runtime_checkable
class Condensable(Protocol):
    """A bank that can be saved without what only training needs."""

    def condensed(self) -> dict[str, np.ndarray]:
        """The :meth:`GroupBank.state` of an untrained bank of the same shape that keeps no average, whose parameters,
        at a scale of 1, are the averaged ones of this bank."""


def check_ability(banks: Iterable[GroupBank], ability: type, purpose: str, remedy: str) -> None:
    """Raise an InputError unless all banks have an ability.

    Parameters
    ----------
    banks : iterable of GroupBank
    ability : type
        A protocol such as :class:`Mixable`.
    purpose, remedy : str
        First and last part of the message: the use of the ability, and the way out.
    """
    for bank in banks:
        if not isinstance(bank, ability):
            raise InputError(
                f"{purpose}, and the group {bank.names[0]!r} cannot: {type(bank).__name__} is not "
                f"{ability.__name__}; {remedy}."
            )


class GuidedInput:
    """An input with potentials, or constraints, of another model."""

    __slots__ = ()

    def apply_guide(self, potentials: Potentials) -> None:
        """Add to the initial potentials in place."""
        raise NotImplementedError


def initial_potentials(structure: Any, x: Any) -> Potentials:
    """Potentials of an input before any group adds to them: zeros, or those of another model for a guided input."""
    potentials = structure.zeros(len(x))
    if isinstance(x, GuidedInput):
        x.apply_guide(potentials)
    return potentials


class FrozenGroups:
    """Base class of averaged groups for prediction; groups of scale 0 are not computed."""

    names: list[str]
    #: Set by the group state of a predictor; without it all groups are in use.
    group_state: GroupStateView | None = None

    def _in_use(self, k: int) -> bool:
        return self.group_state is None or self.group_state.scales[k] != 0.0


class Bank:
    r"""Base class of banks: the lazy scale, the running average, and folding of scales.

    With ``a_k`` the sum of ``w_t s_k`` over the rounds and running sums ``u_k`` of what the bank keeps of each group,
    the averaged parameters are :math:`(a_k v_k + u_k) / \sum_t w_t`. When ``v_k`` is multiplied, because its group
    reached zero or its scale left the range of good precision, ``a_k v_k`` moves into ``u_k`` first, and ``a_k`` starts
    at 0 again: were it divided by the factor instead, it would grow with every fold, and swamp the digits of what is
    added later.

    A bank sets ``names``, ``averaging`` (whether running sums are kept; else the average is the current model) and
    ``_sums``, the array of all ``u_k``, and says in :meth:`_scale_group` how a group is multiplied.
    """

    names: list[str]
    averaging: bool
    group_state: GroupStateView
    _sums: np.ndarray
    #: Whether the bank was loaded from a file for prediction only.
    frozen = False

    def discount(self, factor: float) -> None:
        self._sums *= factor

    def restart(self) -> None:
        for k in range(len(self.names)):
            self._scale_group(k, 0.0)
        self.discount(0.0)

    def apply_events(self, x: Any, gradient: Potentials | None) -> None:
        group_state = self.group_state
        for k in np.flatnonzero(group_state.deactivated).tolist():
            self._scale_group(k, 0.0)
            group_state.note_scaled(k, 0.0)
        if group_state.activated.any():
            self._activate(x, gradient)
        for k in group_state.outside_range().tolist():
            factor = group_state.unit_scale(k)
            self._scale_group(k, factor)
            group_state.note_scaled(k, factor)

    def recompute_norms(self) -> None:
        raise NotImplementedError

    def add_potentials(self, x: Any, potentials: Potentials) -> None:
        raise NotImplementedError

    def inner_products(self, x: Any, gradient: Potentials, totals: np.ndarray | None) -> np.ndarray:
        # one group after the other; banks of many do better
        scales, products = self.group_state.scales.copy(), np.zeros(len(self.names))
        for k in range(len(products)):
            self.group_state.scales[:] = 0.0
            self.group_state.scales[k] = 1.0
            own = type(gradient)(*map(np.zeros_like, gradient))
            self.add_potentials(x, own)
            products[k] = sum(float(np.vdot(a, b)) for a, b in zip(own, gradient))
            if totals is not None:
                totals[k] += own.unary.sum(axis=0)
        self.group_state.scales[:] = scales
        return products

    def _scale_group(self, k: int, factor: float) -> None:
        """Add ``a_k v_k`` to the running sums of group k, and multiply its ``v_k``; a factor of 0 empties it."""
        raise NotImplementedError

    def _activate(self, x: Any, gradient: Any) -> None:
        """Move the groups that were empty and come alive, where the step has postponed that."""
