"""Groups of dense weights between labels: transitions, trigrams and intercepts."""

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, ClassVar

import numpy as np

from omkl.exceptions import InputError
from omkl.groups import _jit_tables as jit
from omkl.groups.tables import TableBank
from omkl.groups.tokens import Span
from omkl.structures.base import Potentials


class DenseBank(TableBank):
    """Base class of one group with a small dense table of weights.

    Parameters
    ----------
    name : str
        Name of the group.
    shape : tuple of three int
        Shape of the table.
    averaging : bool
        Whether the averaged parameters are kept.
    """

    #: Axes of the table that grow with the number of labels.
    _label_axes: ClassVar[tuple[int, ...]] = (2,)

    def __init__(self, name: str, shape: tuple[int, int, int], averaging: bool = False) -> None:
        self.names, self.averaging = [name], bool(averaging)
        self.table = np.zeros(shape)
        self._sums = np.zeros(shape if averaging else (0, *shape[1:]))

    @abstractmethod
    def _own(self, gradient: Potentials) -> np.ndarray:
        """The gradient in the shape of the table."""

    def step(self, x: Span, gradient: Potentials) -> None:
        jit.step_dense(self._own(gradient), self.table, self._sums, self.group_state.step)

    def _scale_group(self, k: int, factor: float) -> None:
        self.group_state.fold(k, factor, self.table, self._sums)

    def recompute_norms(self) -> None:
        self.group_state.square_norms[0] = np.square(self.table).sum()

    def _spread(self, values: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        return values[0]

    def averaged(self) -> "DenseBank":
        frozen = copy(self)
        frozen.table, frozen._sums, frozen.averaging = self.averaged_table(), self._sums[:0], False
        return frozen

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        if state["table"].shape[1:] != self.table.shape[1:] or len(state["sums"]) not in (0, len(state["table"])):
            raise InputError(f"The arrays of the group {self.names[0]!r} do not fit the labels.")
        self.table = np.array(state["table"])
        self._sums = np.array(state["sums"])
        self.averaging = len(self._sums) > 0

    def grow_outputs(self, n_outputs: int) -> None:
        more = n_outputs - self.table.shape[2]
        padding = [(0, more if axis in self._label_axes else 0) for axis in range(3)]
        self.table = np.pad(self.table, padding)
        self._sums = np.pad(self._sums, padding) if self.averaging else np.zeros((0, *self.table.shape[1:]))


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
    name : str
    """

    _label_axes = (1, 2)

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


class TrigramBank(DenseBank):
    """The indicators of triples of neighbouring labels, in a second-order chain; adds to ``potentials.triples``.

    Parameters
    ----------
    n_labels : int
    averaging : bool
        Whether the averaged parameters are kept.
    name : str
    """

    _label_axes = (0, 1, 2)

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


class InterceptBank(DenseBank):
    """A constant for every label; adds to ``potentials.unary``.

    Parameters
    ----------
    n_outputs : int
        Labels K (1 for a binary structure).
    averaging : bool
        Whether the averaged parameters are kept.
    name : str
    """

    def __init__(self, n_outputs: int, averaging: bool = False, name: str = "intercept") -> None:
        super().__init__(name, (1, 1, n_outputs), averaging)

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        jit.add_constants(self.table, self.group_state.scales[0], potentials.unary)

    def blueprint(self) -> Callable[[], DenseBank]:
        return partial(InterceptBank, self.table.shape[2], self.averaging, self.names[0])

    def _own(self, gradient: Potentials) -> np.ndarray:
        # a single row is its own sum
        return gradient.unary[None] if len(gradient.unary) == 1 else gradient.unary.sum(axis=0)[None, None]
