"""Groups of explicit weights in a table, and the bank of explicit features."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omkl.exceptions import InputError
from omkl.groups import _jit_tables as jit
from omkl.groups.base import Bank
from omkl.groups.group_state import Mixture
from omkl.groups.tokens import Features, Span
from omkl.structures.base import Potentials

#: Rows that are averaged or mixed at a time: all at once would take several times the memory of the table.
TOGETHER = 2**12


class TableBank(Bank):
    """Groups of explicit weights in an array ``table``, with running sums of the same shape where an average is kept.

    A subclass says with :meth:`_spread` which weights are of which group.
    """

    abilities = frozenset({"mix", "grow", "coordinates", "condense"})
    table: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.table.nbytes + self._sums.nbytes

    def _spread(self, values: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """Broadcast one number per group to the shape of these rows of the table."""
        raise NotImplementedError

    def _rows(self) -> Any:
        """Rows of the table that may be non-zero."""
        return slice(None)

    def coordinates(self) -> np.ndarray:
        rows = self._rows()
        return (self._spread(self.group_state.bases, rows) * self.table[rows]).ravel()

    def set_coordinates(self, values: np.ndarray) -> None:
        rows = self._rows()
        before = self.table[rows]
        moved = values.reshape(before.shape) / self._spread(self.group_state.bases, rows)
        if self.averaging:
            self._sums[rows] -= self._spread(self.group_state.averages, rows) * (moved - before)
        self.table[rows] = moved
        self.recompute_norms()

    def averaged_table(self) -> np.ndarray:
        """Averaged weights in the shape of the table; the current ones where no average is kept."""
        return self.group_state.average(self.table, self._sums, self._spread)

    def _find_nonzero(self) -> None:
        """Set from the table what the bank knows of where it is not zero."""

    def mix(self, states: Sequence[dict[str, np.ndarray]], mixture: Mixture) -> None:
        n = len(states[0]["table"])
        for low in range(0, n, TOGETHER):
            rows = slice(low, min(low + TOGETHER, n))
            tables = [state["table"][rows] for state in states]
            if self.averaging:
                parts = zip(mixture.averages, tables, mixture.weights, states)
                self._sums[rows] = sum(self._spread(a, rows) * t + w * s["sums"][rows] for a, t, w, s in parts)
            self.table[rows] = sum(self._spread(point, rows) * t for point, t in zip(mixture.points, tables))
        self._find_nonzero()
        self.recompute_norms()

    def state(self) -> dict[str, np.ndarray]:
        return {"table": self.table, "sums": self._sums}

    def condensed(self) -> dict[str, np.ndarray]:
        state = self.state()
        return {**state, "table": self.averaged_table(), "sums": state["sums"][:0]}


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
        """Append groups that have no features yet; the group state must be rebuilt for them.

        Parameters
        ----------
        names : list of str
        """
        self.names += names
        self._heads = np.concatenate([self._heads, np.full(len(names), jit.END, dtype=np.int32)])

    def grow(self, groups: np.ndarray | list[int]) -> None:
        """Append features with weights of zero, in amortised O(1) per feature.

        Parameters
        ----------
        groups : int array
            The group of each new feature.
        """
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
        scales = self.group_state.scales
        jit.add_scores(self._features(x), x.low, x.high, self.table, self.groups, scales, potentials.unary)

    def add_averaged_potentials(self, x: Span, potentials: Potentials) -> None:
        """Add the potentials of :meth:`averaged`, bit for bit, from the averages of the rows that ``x`` needs.

        Parameters
        ----------
        x : Span
        potentials : Potentials
            Changed in place.
        """
        starts, ids, values = self._features(x)
        starts = starts[x.low : x.high + 1]
        entries = slice(starts[0], starts[-1])
        rows, places = np.unique(ids[entries], return_inverse=True)
        features = Features(starts - starts[0], places.astype(np.int32), values[entries])
        owners, table = np.zeros(len(rows), dtype=np.int32), self._averaged_rows(rows)
        jit.add_scores(features, 0, len(x), table, owners, np.ones(1), potentials.unary)

    def inner_products(self, x: Span, gradient: Potentials, totals: np.ndarray | None) -> np.ndarray:
        products = np.zeros(len(self.names))
        totals = np.zeros((len(self.names), self.table.shape[1])) if totals is None else totals
        jit.inner_products(self._features(x), x.low, gradient.unary, self.table, self.groups, products, totals)
        return products

    def step(self, x: Span, gradient: Potentials) -> None:
        arrays = self.table, self._sums, self.groups, self._links, self._heads
        jit.step_features(self._features(x), x.low, gradient.unary, *arrays, self.group_state.step)

    def _scale_group(self, k: int, factor: float) -> None:
        average = self.group_state.averages[k]
        jit.scale_group(k, factor, self.table, self._sums, self._links, self._heads, average)

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

    def averaged_table(self) -> np.ndarray:
        return self._averaged_rows(slice(0, self.n_features))

    def averaged(self) -> "ExplicitBank":
        if self.frozen:
            return copy(self)
        frozen = ExplicitBank(self.names, self.groups, self.n_outputs, dtype=self._dtype)
        for low in range(0, self.n_features, TOGETHER):
            rows = slice(low, min(low + TOGETHER, self.n_features))
            frozen.table[rows] = self._averaged_rows(rows)
        return frozen

    def _averaged_rows(self, rows: slice | np.ndarray) -> np.ndarray:
        sums = self._sums[rows] if len(self._sums) else self._sums
        return self.group_state.average(self.table[rows], sums, partial(self._spread, rows=rows))

    def blueprint(self) -> "Callable[[], ExplicitBank]":
        return partial(ExplicitBank, self.names, [], self.n_outputs, self.averaging, self._dtype)

    def _find_nonzero(self) -> None:
        jit.link_rows(self.table, self.groups, self._links, self._heads)

    def state(self) -> dict[str, np.ndarray]:
        n = self.n_features
        return {"groups": self.groups, "table": self.table[:n], "sums": self._sums[:n]}

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
