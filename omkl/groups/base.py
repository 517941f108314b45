"""What a bank of groups is: the one place where parameters live."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from omkl.structures import Potentials


class GroupBank(Protocol):
    """Several groups that share one representation: 20 feature templates are one bank, three kernels are another.

    A bank stores directions ``v_k``; the parameters are ``theta_k = scale_k v_k`` with scales in the model's
    :class:`~omkl.groups.GroupState`, where every bank sees its own slice. A bank adds its potentials, moves ``v`` along
    a gradient, and while it does keeps ``||v_k||^2`` in the group state exact, and tells ``||g_k||^2``; it knows no
    learning rate, no regularizer and no structure.
    """

    names: list[str]

    def attach(self, group_state: Any) -> None:
        """Take the slice of the group state that belongs to this bank's groups."""

    def add_potentials(self, x: Any, potentials: Potentials) -> None:
        """Add this bank's share of the potentials of ``x``."""

    def step(self, x: Any, gradient: Potentials) -> None:
        r"""Move ``v_k -= rates[k] g_k``, ``g_k`` the group's gradient, with the group state's rates.

        Groups that the group state says are empty may be postponed: it is enough to set their ``||rates[k] g_k||^2``,
        and to move those that come alive in :meth:`apply_events`. So a dead group costs its gradient's norm alone.
        """

    def apply_events(self, x: Any, gradient: Potentials | None) -> None:
        """Carry out what the group state lists after a proximal step: activations, deactivations, scales to fold."""

    def recompute_norms(self) -> None:
        """Set ``||v_k||^2`` in the group state from scratch: the recursion drifts."""

    def discount(self, factor: float) -> None:
        """Multiply what is summed for the average."""

    def averaged(self) -> "GroupBank":
        """A bank that holds the averaged parameters, to predict with."""

    def blueprint(self) -> "Callable[[], GroupBank]":
        """What makes an untrained bank of the same shape: small, and sent to other machines."""

    def changes(self, since: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What has moved since the bank had that state, for :meth:`mix`; see :mod:`omkl.groups.mixing`.

        All rounds since then were made with the group state that the bank has now, which was new at the first of them.
        """

    def mix(self, changes: list[dict[str, np.ndarray]], mixture: Any) -> None:
        """Take the mix of what shards have moved since they had this bank's state, and recompute the norms.

        ``mixture`` is a :class:`~omkl.groups.mixing.Mixture` of this bank's groups.
        """

    def state(self) -> dict[str, np.ndarray]:
        """Every array that persistence and checkpoints need; ``load_state`` takes it back."""

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""

    def grow_outputs(self, n_outputs: int) -> None:
        """Make room for more labels, with weights of zero. Only banks of growing label sets have it."""
