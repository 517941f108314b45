"""Explicit features: templates of sparse string features, dense columns, finite feature maps of kernels."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from omkl.exceptions import InputError
from omkl.groups import _jit_explicit as jit
from omkl.groups.mixing import TableLayout
from omkl.groups.tables import TableBank
from omkl.groups.tokens import Features, Span
from omkl.structures import Potentials


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
        self, names: list[str], groups: ArrayLike, n_outputs: int, averaging: bool = False,
        dtype: DTypeLike = np.float64,
    ) -> None:  # fmt: skip
        super().__init__(names, averaging)
        self.n_outputs = int(n_outputs)
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
    def n_features(self) -> int:
        return len(self.groups)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(a.nbytes for a in (self.table, self._sums, self._links, self._heads, self.groups))

    def add_groups(self, names: list[str]) -> None:
        """Append groups that have no features yet; the group state must be rebuilt for them."""
        self.names += names
        self._heads = np.concatenate([self._heads, np.full(len(names), jit.END, dtype=np.int32)])

    def grow(self, groups: ArrayLike) -> None:
        """Append features that belong to these groups, with weights of zero. Amortised O(1) a feature."""
        self.groups = np.concatenate([self.groups, np.asarray(groups, dtype=np.int32)])
        capacity = len(self.table)
        if self.n_features > capacity:
            table, sums, links = self.table, self._sums, self._links
            # the first table fits exactly: a fixed training set is the usual case
            self._allocate(self.n_features if capacity == 0 else max(self.n_features, capacity + capacity // 2))
            self.table[:capacity], self._sums[: len(sums)], self._links[:capacity] = table, sums, links

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

    def step(self, x: Span, gradient: Potentials) -> None:
        group_state = self.group_state
        starts, ids, values = self._features(x)
        jit.step(
            starts, ids, values, x.low, gradient.unary, self.table, self._sums, self.averaging,
            self.groups, self._links, self._heads, group_state.rates, group_state.averages,
            group_state.square_norms, group_state.square_gradients,
        )  # fmt: skip

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

    def averaged_table(self) -> np.ndarray:
        """Averaged label weights, (number of features, K); the current ones where no average is kept."""
        return self._with_average(self._cells(self.table), self._cells(self._sums), self._spread)

    def averaged(self) -> "ExplicitBank":
        frozen = ExplicitBank(self.names, self.groups, self.n_outputs, dtype=self._dtype)
        frozen.table[:] = self.averaged_table()
        return frozen

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
        self.groups = np.array(state["groups"], dtype=np.int32)
        self.averaging = len(state["sums"]) > 0 or (n == 0 and self.averaging)
        self._allocate(n)
        self.table[:] = state["table"]
        self._sums[:] = state["sums"]
        self._find_nonzero()
