"""The O(p) side of a model: one scale, norm and average a group, for all banks in one place."""

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import _jit_group_state as jit
from omkl.groups.mixing import Mixture

#: Scales are folded into v when they leave this range (float64 parameters).
SCALE_RANGE = (1e-6, 1e6)
_MIXED = ("kept", "given", "averages")


class GroupState:
    r"""Scales, norms and averages of every group: :math:`\theta_k = s_k v_k`.

    Banks own the directions ``v_k`` and hold views of their slices of these arrays, so one jitted call over the
    group_state serves all banks, and a proximal step costs O(p) whatever the dimension.

    Attributes
    ----------
    scales : array of shape (p,)
        ``s_k``; 0 for a group that contributes nothing.
    square_norms : array of shape (p,)
        ``||v_k||^2``, kept exact by the banks at every step.
    square_gradients : array of shape (p,)
        ``||g_k||^2`` of the latest step.
    averages : array of shape (p,)
        ``a_k``, the sum of ``w_t s_k`` over rounds: the averaged parameters are ``(a_k v_k + u_k) / sum w_t``.
    rates, bases : arrays of shape (p,)
        Set when a round begins: the step of ``v_k`` along the gradient, and the scale before the proximal step.
    empty : bool array of shape (p,)
        Groups whose ``v_k`` is zero. Only forward-backward splitting empties groups.
    activated, deactivated : bool arrays of shape (p,)
        Groups that left zero, or reached it, in the last proximal step.
    kept, given : arrays of shape (p,)
        What folds and deaths have made of the ``v_k`` that there was at first: ``kept_k v_k`` of it is left in today's
        directions, and ``given_k v_k`` has gone into the sums of the average.
    removed : array of shape (p,)
        How much proximal steps have taken from each norm, all rounds together.
    """

    def __init__(self, banks):
        names = [name for bank in banks for name in bank.names]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise InputError(f"Two groups are called {sorted(repeated)[0]!r}: give every group a name of its own.")
        p = len(names)
        self.names = names
        self.scales = np.zeros(p)
        self.square_norms = np.zeros(p)
        self.square_gradients = np.zeros(p)
        self.averages = np.zeros(p)
        self.rates = np.zeros(p)
        self.bases = np.ones(p)
        self.empty = np.ones(p, dtype=bool)
        self.activated = np.zeros(p, dtype=bool)
        self.deactivated = np.zeros(p, dtype=bool)
        self.kept = np.ones(p)
        self.given = np.zeros(p)
        self.removed = np.zeros(p)
        self.total_weight = 0.0
        self.pending_weight = 0.0
        self._before = np.zeros(p)
        first = 0
        for bank in banks:
            bank.attach(GroupStateView(self, first, first + len(bank.names)))
            first += len(bank.names)

    def rebuilt(self, banks):
        """State for banks that have gained groups: what is known of the others is kept, new groups are empty."""
        grown = GroupState(banks)
        places = [grown.names.index(name) for name in self.names]
        for name, array in self.state().items():
            if name != "weights":
                getattr(grown, name)[places] = array
        grown.total_weight, grown.pending_weight = self.total_weight, self.pending_weight
        return grown

    @property
    def norms(self):
        """Group norms ``b_k = s_k ||v_k||`` of the current model."""
        return self.scales * np.sqrt(np.maximum(self.square_norms, 0.0))

    def begin_forward_backward(self, rate, decay=1.0):
        jit.begin_forward_backward(
            self.scales, self.empty, self.averages, self.pending_weight, rate, decay, self.bases, self.rates
        )

    def begin_dual_averaging(self, weight, base):
        jit.begin_dual_averaging(self.scales, self.averages, self.pending_weight, weight, base, self.bases, self.rates)

    def measure(self):
        """Norms of the point that the proximal step starts from, ``base_k ||v_k||``; the array is reused."""
        jit.measure(self.bases, self.square_norms, self._before)
        return self._before

    def rescale(self, after, radius, forgets):
        """Give the groups these norms (penalised groups come first), within the ball.

        Returns
        -------
        events : int
            Non-zero if banks have events to apply.
        norm : float
            Norm of all parameters together.
        """
        low, high = SCALE_RANGE
        return jit.rescale(
            self._before, after, radius, forgets, self.bases, self.scales, self.square_norms,
            self.empty, self.activated, self.deactivated, self.removed, low, high,
        )  # fmt: skip

    def discount(self, factor):
        """Multiply the weights of all models in the average, of which the banks hold the other part."""
        self.averages *= factor
        self.total_weight *= factor
        self.pending_weight *= factor

    def changes(self):
        """What happened to the groups since the group state was new, for :meth:`mix`; no round may follow."""
        self.averages += self.pending_weight * self.scales
        self.pending_weight = 0.0
        names = ("scales", "kept", "given", "averages", "removed")
        return {**{name: getattr(self, name) for name in names}, "weight": np.array(self.total_weight)}

    def mix(self, changes, weights, scales):
        """Take the mixed scales and averages of shards; returns how the banks must mix, a :class:`Mixture`.

        Parameters
        ----------
        changes : list of dict
            Of each shard, as :meth:`changes` made them.
        weights : array of shape (S,)
        scales : array of shape (S, p)
            What turns each shard's ``v_k`` into what is mixed.
        """
        kept, given, averages = (np.array([change[name] for change in changes]) for name in _MIXED)
        mixture = Mixture(weights, scales, kept, given, averages, SCALE_RANGE)
        self.scales[:], self.averages[:] = mixture.scales, mixture.averages
        self.total_weight = sum(float(w * change["weight"]) for w, change in zip(weights, changes))
        self.pending_weight = 0.0
        return mixture

    def average_weights(self):
        """``(a_k, W)`` with the current model counted in: the average is ``(a_k v_k + u_k) / W``."""
        return self.averages + self.pending_weight * self.scales, self.total_weight

    def state(self):
        """Every number that a checkpoint needs."""
        return {
            "scales": self.scales,
            "square_norms": self.square_norms,
            "averages": self.averages,
            "empty": self.empty,
            "weights": np.array([self.total_weight, self.pending_weight]),
        }

    def load_state(self, state):
        for name in ("scales", "square_norms", "averages", "empty"):
            getattr(self, name)[:] = state[name]
        self.total_weight, self.pending_weight = (float(weight) for weight in state["weights"])


class GroupStateView:
    """A bank's share of the group state: views of the same arrays."""

    def __init__(self, group_state, first, last):
        self.group_state = group_state
        self.groups = slice(first, last)
        for name in (
            "scales",
            "square_norms",
            "square_gradients",
            "averages",
            "rates",
            "bases",
            "empty",
            "activated",
            "deactivated",
            "kept",
            "given",
        ):
            setattr(self, name, getattr(group_state, name)[self.groups])

    def __reduce__(self):
        # views of the group state must be views again in a copy
        return GroupStateView, (self.group_state, self.groups.start, self.groups.stop)

    def average_weights(self):
        averages, total = self.group_state.average_weights()
        return averages[self.groups], total

    def fold(self):
        """``(k, factor)`` of each group whose ``v_k`` is to be multiplied: 0 if deactivated, else its scale, now 1.

        The bank also moves ``a_k v_k`` into the sums of its average and sets ``a_k`` to 0: were ``a_k`` divided by the
        factor instead, it would grow with every fold, and swamp the digits of what is added later.
        """
        low, high = SCALE_RANGE
        outside = (self.scales != 0) & ((self.scales < low) | (self.scales > high))
        factors = [(k, 0.0) for k in np.flatnonzero(self.deactivated)]
        for k in np.flatnonzero(outside):
            factors.append((k, self.scales[k]))
            self.square_norms[k] *= self.scales[k] ** 2
            self.scales[k] = 1.0
        for k, factor in factors:
            self.given[k] += self.averages[k] * self.kept[k]
            self.kept[k] *= factor
        return factors
