"""Small dense groups that do not look at the input: transitions between labels, and intercepts."""

from functools import partial

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import _jit_dense as jit
from omkl.groups.mixing import TableLayout, mix_table, table_changes


class DenseBank:
    """One group with a small dense table of weights; what potentials they add to is up to the subclass.

    Parameters
    ----------
    name : str
        Name of the group.
    shape : tuple of three int
        Shape of the table.
    averaging : bool
        Whether the averaged parameters are kept.
    """

    def __init__(self, name, shape, averaging=False):
        self.names = [name]
        self.averaging = bool(averaging)
        self.table = np.zeros(shape)
        self._sums = np.zeros(shape if averaging else (0, *shape[1:]))

    @property
    def nbytes(self):
        """Bytes of all arrays."""
        return self.table.nbytes + self._sums.nbytes

    def attach(self, group_state):
        self.group_state = group_state

    def step(self, x, gradient):
        group_state = self.group_state
        jit.step(
            self._own(gradient), self.table, self._sums, self.averaging,
            group_state.rates, group_state.averages, group_state.square_norms, group_state.square_gradients,
        )  # fmt: skip

    def apply_events(self, x, gradient):
        for k, factor in self.group_state.fold():
            if self.averaging:
                self._sums += self.group_state.averages[k] * self.table
            self.group_state.averages[k] = 0.0
            self.table *= factor

    def discount(self, factor):
        self._sums *= factor

    def recompute_norms(self):
        self.group_state.square_norms[0] = np.square(self.table).sum()

    def coordinates(self):
        """Parameters before the proximal step, as one vector."""
        return (self.group_state.bases[0] * self.table).ravel()

    def set_coordinates(self, values):
        """Replace what :meth:`coordinates` gave, and recompute the norm."""
        moved = values.reshape(self.table.shape) / self.group_state.bases[0]
        if self.averaging:
            self._sums -= self.group_state.averages[0] * (moved - self.table)
        self.table[:] = moved
        self.recompute_norms()

    def averaged(self):
        averages, total = self.group_state.average_weights()
        frozen = object.__new__(type(self))
        DenseBank.__init__(frozen, self.names[0], self.table.shape)
        if self.averaging and total > 0:
            frozen.table[:] = (averages[0] * self.table + self._sums) / total
        else:
            frozen.table[:] = self.group_state.scales[0] * self.table
        return frozen

    def changes(self, since):
        before = self._flat(since["table"]), self._flat(since["sums"])
        return table_changes(self._places(), self._flat(self.table), self._flat(self._sums), *before, self.group_state)

    def mix(self, changes, mixture):
        mix_table(self._places(), self._flat(self.table), self._flat(self._sums), changes, mixture)
        self.recompute_norms()

    def _flat(self, array):
        return array.reshape(len(array), self.table[0].size)

    def _places(self):
        n_rows, n_slots = len(self.table), self.table[0].size
        return TableLayout(np.zeros(n_rows, np.int64), np.zeros((1, 1), np.int64), np.array([0, n_slots]))

    def state(self):
        return {"table": self.table, "sums": self._sums}

    def load_state(self, state):
        if state["table"].shape[1:] != self.table.shape[1:] or len(state["sums"]) not in (0, len(state["table"])):
            raise InputError(f"The arrays of the group {self.names[0]!r} do not fit the labels.")
        self.table = np.array(state["table"])
        self._sums = np.array(state["sums"])
        self.averaging = len(self._sums) > 0


class TransitionBank(DenseBank):
    """The indicators of pairs of neighbouring labels; adds to ``potentials.pairwise``.

    Parameters
    ----------
    n_labels : int
    positions : int
        Number of positions with transitions of their own, for a chain made with ``by_position=True``; the last one's
        serve all positions from there on. 1 shares the transitions.
    averaging : bool
        Whether the averaged parameters are kept.
    """

    def __init__(self, n_labels, positions=1, averaging=False, name="transitions"):
        super().__init__(name, (positions, n_labels, n_labels), averaging)

    def add_potentials(self, x, potentials):
        scale = self.group_state.scales[0]
        if scale != 0.0:
            jit.add_transitions(self.table, scale, x.tokens.offsets, x.low, x.high, potentials.pairwise)

    def blueprint(self):
        positions, n_labels, _ = self.table.shape
        return partial(TransitionBank, n_labels, positions, self.averaging, self.names[0])

    def _own(self, gradient):
        return gradient.pairwise

    def grow_outputs(self, n_outputs):
        more = (0, n_outputs - self.table.shape[2])
        self.table, self._sums = np.pad(self.table, ((0, 0), more, more)), np.pad(self._sums, ((0, 0), more, more))


class InterceptBank(DenseBank):
    """A constant for every label; adds to ``potentials.unary``."""

    def grow_outputs(self, n_outputs):
        more = ((0, 0), (0, 0), (0, n_outputs - self.table.shape[2]))
        self.table, self._sums = np.pad(self.table, more), np.pad(self._sums, more)

    def __init__(self, n_outputs, averaging=False, name="intercept"):
        super().__init__(name, (1, 1, n_outputs), averaging)

    def add_potentials(self, x, potentials):
        jit.add_constants(self.table, self.group_state.scales[0], potentials.unary)

    def blueprint(self):
        return partial(InterceptBank, self.table.shape[2], self.averaging, self.names[0])

    def _own(self, gradient):
        # a single row is its own sum
        return gradient.unary[None] if len(gradient.unary) == 1 else gradient.unary.sum(axis=0)[None, None]
