"""Groups of dense weights between labels: transitions, trigrams and intercepts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import _jit_tables as jit
from omkl.groups.mixing import TableLayout
from omkl.groups.tables import TableBank
from omkl.groups.tokens import Span
from omkl.structures import Potentials


class DenseBank(TableBank):
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

    def __init__(self, name: str, shape: tuple[int, int, int], averaging: bool = False) -> None:
        self.names, self.averaging = [name], bool(averaging)
        self.table = np.zeros(shape)
        self._sums = np.zeros(shape if averaging else (0, *shape[1:]))

    def _own(self, gradient: Potentials) -> np.ndarray:
        """The gradient in the shape of the table."""
        raise NotImplementedError

    def step(self, x: Span, gradient: Potentials) -> None:
        group_state = self.group_state
        jit.step_dense(
            self._own(gradient),
            self.table,
            self._sums,
            self.averaging,
            group_state.rates,
            group_state.averages,
            group_state.square_norms,
            group_state.square_gradients,
        )

    def _scale_group(self, k: int, factor: float) -> None:
        self.group_state.fold(k, factor, self.table, self._sums)

    def recompute_norms(self) -> None:
        self.group_state.square_norms[0] = np.square(self.table).sum()

    def _spread(self, values: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        return values[0]

    def averaged(self) -> "DenseBank":
        frozen = object.__new__(type(self))
        DenseBank.__init__(frozen, self.names[0], self.table.shape)
        frozen.table[:] = self.averaged_table().reshape(self.table.shape)
        return frozen

    def _cells(self, array: np.ndarray) -> np.ndarray:
        return array.reshape(len(array), self.table[0].size)

    def _layout(self) -> TableLayout:
        n_rows, n_columns = len(self.table), self.table[0].size
        return TableLayout(np.zeros(n_rows, np.int64), np.zeros((1, 1), np.int64), np.array([0, n_columns]))

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        if state["table"].shape[1:] != self.table.shape[1:] or len(state["sums"]) not in (0, len(state["table"])):
            raise InputError(f"The arrays of the group {self.names[0]!r} do not fit the labels.")
        self.table = np.array(state["table"])
        self._sums = np.array(state["sums"])
        self.averaging = len(self._sums) > 0

    def _pad(self, more: tuple) -> None:
        self.table, self._sums = np.pad(self.table, more), np.pad(self._sums, more)


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

    def __init__(self, n_labels: int, positions: int = 1, averaging: bool = False, name: str = "transitions") -> None:
        super().__init__(name, (positions, n_labels, n_labels), averaging)

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        scale = self.group_state.scales[0]
        if scale != 0.0:
            jit.add_transitions(self.table, scale, x.tokens.offsets, x.low, x.high, potentials.pairwise)

    def blueprint(self) -> Callable[[], DenseBank]:
        positions, n_labels, _ = self.table.shape
        return partial(TransitionBank, n_labels, positions, self.averaging, self.names[0])

    def _own(self, gradient: Potentials) -> np.ndarray:
        return gradient.pairwise

    def grow_outputs(self, n_outputs: int) -> None:
        more = (0, n_outputs - self.table.shape[2])
        self._pad(((0, 0), more, more))


class TrigramBank(DenseBank):
    """The indicators of triples of neighbouring labels, in a second-order chain; adds to ``potentials.triples``."""

    def __init__(self, n_labels: int, averaging: bool = False, name: str = "trigrams") -> None:
        super().__init__(name, (n_labels, n_labels, n_labels), averaging)

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        scale = self.group_state.scales[0]
        if scale != 0.0:
            potentials.triples[:] += scale * self.table

    def blueprint(self) -> Callable[[], DenseBank]:
        return partial(TrigramBank, len(self.table), self.averaging, self.names[0])

    def _own(self, gradient: Potentials) -> np.ndarray:
        return gradient.triples

    def grow_outputs(self, n_outputs: int) -> None:
        more = (0, n_outputs - len(self.table))
        sums = self._sums
        self.table = np.pad(self.table, (more, more, more))
        self._sums = np.pad(sums, (more, more, more)) if len(sums) else np.zeros((0, n_outputs, n_outputs))


class InterceptBank(DenseBank):
    """A constant for every label; adds to ``potentials.unary``."""

    def __init__(self, n_outputs: int, averaging: bool = False, name: str = "intercept") -> None:
        super().__init__(name, (1, 1, n_outputs), averaging)

    def grow_outputs(self, n_outputs: int) -> None:
        self._pad(((0, 0), (0, 0), (0, n_outputs - self.table.shape[2])))

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        jit.add_constants(self.table, self.group_state.scales[0], potentials.unary)

    def blueprint(self) -> Callable[[], DenseBank]:
        return partial(InterceptBank, self.table.shape[2], self.averaging, self.names[0])

    def _own(self, gradient: Potentials) -> np.ndarray:
        # a single row is its own sum
        return gradient.unary[None] if len(gradient.unary) == 1 else gradient.unary.sum(axis=0)[None, None]
