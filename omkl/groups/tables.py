"""Groups of explicit weights in a table, and the bank of explicit features."""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omkl.exceptions import InputError
from omkl.groups import _jit_tables as jit
from omkl.groups.base import Bank
from omkl.groups.mixing import TableLayout, mix_table, table_changes
from omkl.groups.tokens import Features, Span
from omkl.structures import Potentials

#: Rows that are averaged at a time.
TOGETHER = 2**12


class TableBank(Bank):
    """Groups of explicit weights in an array ``table``, with running sums of the same shape where an average is kept.

    A subclass says with :meth:`_spread` which weights are of which group.
    """

    table: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.table.nbytes + self._sums.nbytes

    def _spread(self, values: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """Numbers a group in a shape that multiplies these rows of the table."""
        raise NotImplementedError

    def _rows(self) -> Any:
        """Rows of the table that may be non-zero."""
        return slice(None)

    def coordinates(self) -> np.ndarray:
        """Parameters that may be non-zero, before the proximal step, as one vector."""
        rows = self._rows()
        return (self._spread(self.group_state.bases, rows) * self.table[rows]).ravel()

    def set_coordinates(self, values: np.ndarray) -> None:
        """Replace what :meth:`coordinates` gave, and recompute the norms."""
        rows = self._rows()
        before = self.table[rows]
        moved = values.reshape(before.shape) / self._spread(self.group_state.bases, rows)
        if self.averaging:
            self._sums[rows] -= self._spread(self.group_state.averages, rows) * (moved - before)
        self.table[rows] = moved
        self.recompute_norms()

    def averaged_table(self) -> np.ndarray:
        """Averaged weights in the shape of the table; the current ones where no average is kept."""
        return self.group_state.average(self._cells(self.table), self._cells(self._sums), self._spread)

    def _layout(self) -> TableLayout:
        """Return the groups of the cells."""
        raise NotImplementedError

    def _cells(self, array: np.ndarray) -> np.ndarray:
        """The cells in use of an array like the table, (rows, columns)."""
        return array

    def _find_nonzero(self) -> None:
        """Set from the table what the bank knows of where it is not zero."""

    def changes(self, since: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        table, sums, before, before_sums = map(self._cells, (self.table, self._sums, since["table"], since["sums"]))
        return table_changes(self._layout(), table, sums, before, before_sums, self.group_state)

    def mix(self, changes: list[dict[str, np.ndarray]], mixture: Any) -> None:
        mix_table(self._layout(), self._cells(self.table), self._cells(self._sums), changes, mixture)
        self._find_nonzero()
        self.recompute_norms()

    def state(self) -> dict[str, np.ndarray]:
        return {"table": self.table, "sums": self._sums}

    def condensed(self) -> dict[str, np.ndarray]:
        state = self.state()
        return {**state, "table": self.averaged_table().reshape(state["table"].shape), "sums": state["sums"][:0]}


class ExplicitBank(TableBank):
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

    def __init__(
        self,
        names: list[str],
        groups: np.ndarray | list[int],
        n_outputs: int,
        averaging: bool = False,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.names, self.averaging = list(names), bool(averaging)
        self.n_outputs = int(n_outputs)
        self._groups = np.zeros(0, dtype=np.int32)
        self.n_features = 0
        self._dtype = np.dtype(dtype)
        self._allocate(0)
        self._heads = np.full(len(self.names), jit.END, dtype=np.int32)
        self.grow(groups)

    def _allocate(self, capacity):
        self.table = np.zeros((capacity, self.n_outputs), dtype=self._dtype)
        self._sums = np.zeros((capacity if self.averaging else 0, self.n_outputs), dtype=self._dtype)
        self._links = np.full(capacity, jit.UNTOUCHED, dtype=np.int32)
        self._groups = np.zeros(capacity, dtype=np.int32)

    @property
    def groups(self) -> np.ndarray:
        """The group of each feature."""
        return self._groups[: self.n_features]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(a.nbytes for a in (self.table, self._sums, self._links, self._heads, self.groups))

    def add_groups(self, names: list[str]) -> None:
        """Append groups that have no features yet; the group state must be rebuilt for them."""
        self.names += names
        self._heads = np.concatenate([self._heads, np.full(len(names), jit.END, dtype=np.int32)])

    def grow(self, groups: np.ndarray | list[int]) -> None:
        """Append features that belong to these groups, with weights of zero. Amortised O(1) a feature."""
        first, self.n_features = self.n_features, self.n_features + len(groups)
        capacity = len(self.table)
        if self.n_features > capacity:
            table, sums, links, known = self.table, self._sums, self._links, self._groups[:first]
            # the first table fits exactly: a fixed training set is the usual case
            self._allocate(self.n_features if capacity == 0 else max(self.n_features, capacity + capacity // 2))
            self.table[:capacity], self._sums[: len(sums)], self._links[:capacity] = table, sums, links
            self._groups[:first] = known
        self._groups[first : self.n_features] = groups

    def grow_outputs(self, n_outputs: int) -> None:
        more = ((0, 0), (0, n_outputs - self.n_outputs))
        self.table, self._sums, self.n_outputs = np.pad(self.table, more), np.pad(self._sums, more), n_outputs

    def _features(self, x: Span) -> Features:
        if x.tokens.features is None:
            raise InputError(f"The tokens have no features, which the group {self.names[0]!r} reads.")
        return x.tokens.features

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        if x.tokens.n_features > self.n_features:
            raise InputError(f"Feature {x.tokens.n_features - 1} was met, but the bank has {self.n_features} features.")
        starts, ids, values = self._features(x)
        jit.add_scores(
            starts, ids, values, x.low, x.high, self.table, self.groups, self.group_state.scales, potentials.unary
        )

    def add_averaged_potentials(self, x: Span, potentials: Potentials) -> None:
        """Add what :meth:`averaged` adds, bit for bit, from the averages of the rows that ``x`` needs."""
        starts, ids, values = self._features(x)
        starts = starts[x.low : x.high + 1]
        entries = slice(starts[0], starts[-1])
        rows, places = np.unique(ids[entries], return_inverse=True)
        table = self._averaged_rows(rows)
        owners, scales = np.zeros(len(rows), dtype=np.int32), np.ones(1)
        jit.add_scores(
            starts - starts[0],
            places.astype(np.int32),
            values[entries],
            0,
            len(x),
            table,
            owners,
            scales,
            potentials.unary,
        )

    def inner_products(self, x: Span, gradient: Potentials, totals: np.ndarray | None) -> np.ndarray:
        features, products = self._features(x), np.zeros(len(self.names))
        totals = np.zeros((len(self.names), self.table.shape[1])) if totals is None else totals
        jit.inner_products(
            features.starts,
            features.ids,
            features.values,
            x.low,
            gradient.unary,
            self.table,
            self.groups,
            products,
            totals,
        )
        return products

    def step(self, x: Span, gradient: Potentials) -> None:
        group_state = self.group_state
        starts, ids, values = self._features(x)
        jit.step_features(
            starts,
            ids,
            values,
            x.low,
            gradient.unary,
            self.table,
            self._sums,
            self.averaging,
            self.groups,
            self._links,
            self._heads,
            group_state.rates,
            group_state.averages,
            group_state.square_norms,
            group_state.square_gradients,
        )

    def _scale_group(self, k: int, factor: float) -> None:
        average = self.group_state.averages[k]
        jit.scale_group(k, factor, self.table, self._sums, self.averaging, self._links, self._heads, average)

    def _rows(self) -> np.ndarray:
        # a function of the table alone, so that a resumed run sums the same numbers in the same order
        return np.flatnonzero(self.table.any(axis=1))

    def _spread(self, values: np.ndarray, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        return values[self.groups[rows]][:, None]

    def recompute_norms(self) -> None:
        jit.squared_norms(self.table, self.groups, self.group_state.square_norms)

    def group_nbytes(self) -> np.ndarray:
        """Bytes of the weights of each group, (p,)."""
        return np.bincount(self.groups, minlength=len(self.names)) * float(self.table[:1].nbytes)

    def averaged(self) -> "ExplicitBank":
        if self.frozen:
            return copy(self)
        frozen = ExplicitBank(self.names, self.groups, self.n_outputs, dtype=self._dtype)
        for low in range(0, self.n_features, TOGETHER):  # all at once would take twice as much memory as the table
            rows = slice(low, min(low + TOGETHER, self.n_features))
            frozen.table[rows] = self._averaged_rows(rows)
        return frozen

    def _averaged_rows(self, rows: slice | np.ndarray) -> np.ndarray:
        sums = self._sums[rows] if len(self._sums) else self._sums
        return self.group_state.average(self.table[rows], sums, partial(self._spread, rows=rows))

    def blueprint(self) -> "Callable[[], ExplicitBank]":
        return partial(ExplicitBank, self.names, [], self.n_outputs, self.averaging, self._dtype)

    def _cells(self, array: np.ndarray) -> np.ndarray:
        return array[: self.n_features]

    def _find_nonzero(self) -> None:
        jit.link_rows(self.table, self.groups, self._links, self._heads)

    def _layout(self) -> TableLayout:
        return TableLayout(self.groups, np.arange(len(self.names))[:, None], np.array([0, self.n_outputs]))

    def state(self) -> dict[str, np.ndarray]:
        return {"groups": self.groups, "table": self._cells(self.table), "sums": self._cells(self._sums)}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        n = len(state["groups"])
        in_range = np.all((state["groups"] >= 0) & (state["groups"] < len(self.names)))
        if state["table"].shape != (n, self.n_outputs) or len(state["sums"]) not in (0, n) or not in_range:
            raise InputError("The arrays of an explicit bank do not fit each other.")
        self.n_features = n
        self.averaging = len(state["sums"]) > 0 or (n == 0 and self.averaging)
        self._allocate(n)
        self._groups[:] = state["groups"]
        self.table[:] = state["table"]
        self._sums[:] = state["sums"]
        self._find_nonzero()
