"""Explicit features: templates of sparse string features, dense columns, finite feature maps of kernels."""

from functools import partial

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import _jit_explicit as jit
from omkl.groups.mixing import TableLayout, mix_table, table_changes


class ExplicitBank:
    """Groups of explicit features, each feature a row of label weights; the groups partition the features.

    Reads ``x.tokens.features`` and adds to ``potentials.unary``. A step costs O(K) a feature present, a proximal step
    O(1) a group; dead groups are not looked up.

    Parameters
    ----------
    names : list of str
        Names of the groups.
    groups : int array of shape (number of features,)
        The group of each feature.
    n_outputs : int
        Labels K (1 for a binary structure).
    averaging : bool
        Whether the averaged parameters are kept, which doubles the memory.
    dtype : float64 or float32
        Precision in which parameters are stored.
    """

    on = "unary"

    def __init__(self, names, groups, n_outputs, averaging=False, dtype=np.float64):
        self.names = list(names)
        self.n_outputs = int(n_outputs)
        self.averaging = bool(averaging)
        self.groups = np.zeros(0, dtype=np.int32)
        self._dtype = np.dtype(dtype)
        self._allocate(0)
        self._heads = np.full(len(self.names), jit.END, dtype=np.int32)
        self.grow(groups)

    def _allocate(self, capacity):
        self.table = np.zeros((capacity, self.n_outputs), dtype=self._dtype)
        self._sums = np.zeros((capacity if self.averaging else 0, self.n_outputs), dtype=self._dtype)
        self._links = np.full(capacity, jit.UNTOUCHED, dtype=np.int32)

    @property
    def n_features(self):
        return len(self.groups)

    @property
    def nbytes(self):
        """Bytes of all arrays."""
        return sum(a.nbytes for a in (self.table, self._sums, self._links, self._heads, self.groups))

    def add_groups(self, names):
        """Append groups that have no features yet; the group state must be rebuilt for them."""
        self.names += names
        self._heads = np.concatenate([self._heads, np.full(len(names), jit.END, dtype=np.int32)])

    def grow(self, groups):
        """Append features that belong to these groups, with weights of zero. Amortised O(1) a feature."""
        self.groups = np.concatenate([self.groups, np.asarray(groups, dtype=np.int32)])
        capacity = len(self.table)
        if self.n_features > capacity:
            table, sums, links = self.table, self._sums, self._links
            # the first table fits exactly: a fixed training set is the usual case
            self._allocate(self.n_features if capacity == 0 else max(self.n_features, capacity + capacity // 2))
            self.table[:capacity], self._sums[: len(sums)], self._links[:capacity] = table, sums, links

    def grow_outputs(self, n_outputs):
        more = ((0, 0), (0, n_outputs - self.n_outputs))
        self.table, self._sums, self.n_outputs = np.pad(self.table, more), np.pad(self._sums, more), n_outputs

    def attach(self, group_state):
        self.group_state = group_state

    def add_potentials(self, x, potentials):
        if x.tokens.n_features > self.n_features:
            raise InputError(f"Feature {x.tokens.n_features - 1} was met, but the bank has {self.n_features} features.")
        jit.add_scores(
            *x.tokens.features, x.low, x.high, self.table, self.groups, self.group_state.scales, potentials.unary
        )

    def step(self, x, gradient):
        group_state = self.group_state
        jit.step(
            *x.tokens.features, x.low, gradient.unary, self.table, self._sums, self.averaging,
            self.groups, self._links, self._heads, group_state.rates, group_state.averages,
            group_state.square_norms, group_state.square_gradients,
        )  # fmt: skip

    def apply_events(self, x, gradient):
        for k, factor in self.group_state.fold():
            jit.scale_group(
                k,
                factor,
                self.table,
                self._sums,
                self.averaging,
                self._links,
                self._heads,
                self.group_state.averages[k],
            )
            self.group_state.averages[k] = 0.0

    def coordinates(self):
        """Parameters that may be non-zero, before the proximal step, as one vector."""
        rows = self._touched()
        return (self._row_bases(rows) * self.table[rows]).ravel()

    def set_coordinates(self, values):
        """Replace what :meth:`coordinates` gave, and recompute the norms."""
        rows = self._touched()
        bases = self._row_bases(rows)
        moved = values.reshape(len(rows), self.n_outputs) / bases
        if self.averaging:
            self._sums[rows] -= self.group_state.averages[self.groups[rows]][:, None] * (moved - self.table[rows])
        self.table[rows] = moved
        self.recompute_norms()

    def _touched(self):
        # a function of the table alone, so that a resumed run sums the same numbers in the same order
        return np.flatnonzero(self.table.any(axis=1))

    def _row_bases(self, rows):
        return self.group_state.bases[self.groups[rows]][:, None]

    def discount(self, factor):
        self._sums *= factor

    def recompute_norms(self):
        jit.squared_norms(self.table, self.groups, self.group_state.square_norms)

    def averaged_table(self):
        """Averaged label weights, (number of features, K); the current ones where no average is kept."""
        n = self.n_features
        averages, total = self.group_state.average_weights()
        if not self.averaging or total == 0:
            return self.group_state.scales[self.groups][:, None] * self.table[:n]
        return (averages[self.groups][:, None] * self.table[:n] + self._sums[:n]) / total

    def averaged(self):
        frozen = ExplicitBank(self.names, self.groups, self.n_outputs, dtype=self._dtype)
        frozen.table[:] = self.averaged_table()
        return frozen

    def blueprint(self):
        return partial(ExplicitBank, self.names, [], self.n_outputs, self.averaging, self._dtype)

    def changes(self, since):
        n = self.n_features
        sums = self._sums[: n if self.averaging else 0]
        return table_changes(self._places(), self.table[:n], sums, since["table"], since["sums"], self.group_state)

    def mix(self, changes, mixture):
        n = self.n_features
        mix_table(self._places(), self.table[:n], self._sums[: n if self.averaging else 0], changes, mixture)
        jit.link_rows(self.table, self.groups, self._links, self._heads)
        self.recompute_norms()

    def _places(self):
        return TableLayout(self.groups, np.arange(len(self.names))[:, None], np.array([0, self.n_outputs]))

    def state(self):
        n = self.n_features
        return {"groups": self.groups, "table": self.table[:n], "sums": self._sums[: n if self.averaging else 0]}

    def load_state(self, state):
        n = len(state["groups"])
        in_range = np.all((state["groups"] >= 0) & (state["groups"] < len(self.names)))
        if state["table"].shape != (n, self.n_outputs) or len(state["sums"]) not in (0, n) or not in_range:
            raise InputError("The arrays of an explicit bank do not fit each other.")
        self.groups = np.array(state["groups"], dtype=np.int32)
        self.averaging = len(state["sums"]) > 0 or (n == 0 and self.averaging)
        self._allocate(n)
        self.table[:] = state["table"]
        self._sums[:] = state["sums"]
        jit.link_rows(self.table, self.groups, self._links, self._heads)
