"""Groups of explicit weights in tables: features by label, transitions, trigrams, intercepts."""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from omkl._pointers import Layout, Packed
from omkl.exceptions import InputError
from omkl.groups import _jit_dense as dense
from omkl.groups import _jit_explicit as jit
from omkl.groups.base import Bank, CompiledBank, lengthened
from omkl.groups.group_state import Mixture
from omkl.groups.tokens import NO_FEATURES, Features, Span, Tokens
from omkl.signatures import BankFunctions
from omkl.structures.base import Potentials

#: Number of rows averaged or mixed at a time, which limits temporary memory.
TOGETHER = 2**12
#: Rows of a table, as an index.
Rows = slice | np.ndarray
#: Groups by their index.
Ids = np.ndarray | list[int]
#: Compiled functions of explicit features, for tables of float64 and of float32.
FUNCTIONS = BankFunctions(
    scores=jit.scores,
    average=jit.average,
    step=jit.step,
    fold=jit.fold,
    slopes=jit.slopes,
)
FUNCTIONS_32 = BankFunctions(
    scores=jit.scores_32,
    average=jit.average_32,
    step=jit.step_32,
    fold=jit.fold_32,
    slopes=jit.slopes_32,
)
#: The input of banks that do not look at it.
NO_INPUT = jit.FEATURES.pack(jit.FeaturesOfTokens(*NO_FEATURES))


class TableBank(Bank):
    """Groups of explicit weights in an array ``table``, with running sums of the same shape.

    Subclasses define :meth:`_spread`.
    """

    abilities = frozenset({"mix", "grow", "coordinates", "condense", "watch"})
    table: np.ndarray
    #: Axes of the table that grow with the number of labels.
    _label_axes: ClassVar[tuple[int, ...]]

    @property
    def n_outputs(self) -> int:
        """Number of labels."""
        return self.table.shape[self._label_axes[0]]

    @property
    def n_rows(self) -> int:
        """Number of rows of the table in use."""
        return len(self.table)

    @abstractmethod
    def _spread(self, values: np.ndarray, rows: Rows = slice(None)) -> np.ndarray:
        """Broadcast one number per group to the shape of some rows of the table."""

    def _find_nonzero(self) -> None:
        """Find the nonzero rows of the table, after it was replaced."""

    def grow_outputs(self, n_outputs: int) -> None:
        for axis in self._label_axes:
            self.table = lengthened(self.table, n_outputs, axis)
            if self.averaging:
                self._sums = lengthened(self._sums, n_outputs, axis)
        if not self.averaging:
            self._sums = np.zeros((0, *self.table.shape[1:]), self.table.dtype)
        self._find_nonzero()

    def coordinates(self) -> np.ndarray:
        return (self._spread(self.group_state.scales) * self.table[: self.n_rows]).ravel()

    def shrink_coordinates(self, step: float) -> None:
        group_state = self.group_state
        excess = np.abs(self.table) - self._spread(group_state.shares_of(step))
        shrunk = np.sign(self.table) * np.maximum(excess, 0.0)
        if self.averaging:
            self._sums -= self._spread(group_state.averages) * (shrunk - self.table)
        self.table[:] = shrunk
        self.recompute_norms()

    def averaged_table(self, rows: slice | None = None) -> np.ndarray:
        """Return the averaged weights, or the current ones without an average.

        Parameters
        ----------
        rows : slice, optional
            Rows of the table; all by default.
        """
        if rows is None:
            rows = slice(0, self.n_rows)
        spread = partial(self._spread, rows=rows)
        return self.group_state.average(self.table[rows], self._sums[rows], spread)

    def mix(self, states: Sequence[dict[str, np.ndarray]], mixture: Mixture) -> None:
        n_rows = len(states[0]["table"])
        for low in range(0, n_rows, TOGETHER):
            rows = slice(low, min(low + TOGETHER, n_rows))
            spread = partial(self._spread, rows=rows)
            mixture.write(states, rows, spread, self.table, self._sums)
        self._find_nonzero()
        self.recompute_norms()

    def state(self) -> dict[str, np.ndarray]:
        return {"table": self.table[: self.n_rows], "sums": self._sums[: self.n_rows]}

    def condensed(self) -> dict[str, np.ndarray]:
        return {**self.state(), "table": self.averaged_table(), "sums": self._sums[:0]}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        table = state["table"]
        sums = state["sums"]
        shape_of_row = self.table.shape[1:]
        sums_fit = sums.shape in (table.shape, (0, *shape_of_row))
        self._check_fit(table.shape[1:] == shape_of_row and sums_fit)
        self.averaging = len(sums) > 0 or (len(table) == 0 and self.averaging)
        dtype = self.table.dtype
        self.table = np.array(table, dtype)
        self._sums = np.array(sums, dtype)
        self._find_nonzero()


class ExplicitBank(CompiledBank, TableBank):
    """Groups of explicit features.

    Each feature is a row of label weights; the groups partition the features.

    It reads ``x.tokens.features`` and adds to ``potentials.unary``. A step costs O(K) per feature
    present, a proximal step O(1) per group; groups of zero are skipped.

    Parameters
    ----------
    names : list of str
        Names of the groups.
    groups : int array of shape (number of features,)
        The group of each feature.
    n_outputs : int
        Number of labels K (1 for a binary structure).
    averaging : bool
        Whether to keep the averaged parameters, which doubles the memory.
    dtype : float64 or float32
        Precision of the stored parameters.
    """

    _label_axes = (1,)
    average_is_exact = True
    compiled = property(lambda self: self.functions)

    def __init__(
        self,
        names: list[str],
        groups: Ids,
        n_outputs: int,
        averaging: bool = False,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.names = list(names)
        self.averaging = bool(averaging)
        self.n_features = 0
        self.table = np.zeros((0, n_outputs), dtype)
        self._sums = np.zeros((0, n_outputs), dtype)
        self._groups = np.zeros(0, dtype=np.int32)
        #: The features of a group with nonzero weights are a linked list: the first one of each
        #: group, and the next one after each feature.
        self._links = np.zeros(0, dtype=np.int32)
        self._heads = np.full(len(self.names), jit.END, dtype=np.int32)
        self.grow(groups)

    @property
    def n_rows(self) -> int:
        """Number of features."""
        return self.n_features

    @property
    def groups(self) -> np.ndarray:
        """The group of each feature."""
        return self._groups[: self.n_features]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [self.table, self._sums, self._links, self._heads, self.groups]
        return sum(array.nbytes for array in arrays)

    def add_groups(self, names: list[str]) -> None:
        """Append groups that have no features yet; the group state must be rebuilt for them.

        Parameters
        ----------
        names : list of str
        """
        self.names += names
        self._heads = np.concatenate([self._heads, np.full(len(names), jit.END, dtype=np.int32)])

    def grow(self, groups: Ids) -> None:
        """Append features with weights of zero, in amortised O(1) per feature.

        Parameters
        ----------
        groups : int array
            The group of each new feature.
        """
        first = self.n_features
        self.n_features += len(groups)
        capacity = len(self.table)
        if self.n_features > capacity:
            # allocate the first table exactly: usually the training set is fixed
            capacity = max(self.n_features, capacity + capacity // 2)
            self.table = lengthened(self.table, capacity)
            self._groups = lengthened(self._groups, capacity)
            self._links = lengthened(self._links, capacity, fill=jit.UNTOUCHED)
            if self.averaging:
                self._sums = lengthened(self._sums, capacity)
        self._groups[first : self.n_features] = groups

    def features_of(self, tokens: Tokens) -> Features:
        """Return the features of all tokens; raise an InputError for none, and for unknown ones."""
        if tokens.features is None:
            raise InputError(
                f"The tokens have no features, but the group {self.names[0]!r} needs them."
            )
        if tokens.n_features > self.n_features:
            raise InputError(
                f"Feature {tokens.n_features - 1} was met, but the bank has "
                f"{self.n_features} features."
            )
        return tokens.features

    @property
    def functions(self) -> BankFunctions:  # type: ignore[override]
        """Compiled functions for the precision of the table."""
        return FUNCTIONS_32 if self.table.dtype == np.float32 else FUNCTIONS

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        """Layout of :meth:`arrays` for the precision of the table."""
        return jit.WEIGHTS_32 if self.table.dtype == np.float32 else jit.WEIGHTS

    def arrays(self) -> jit.Weights:
        return jit.Weights(
            group_of=self._groups,
            table=self.table,
            sums=self._sums,
            links=self._links,
            heads=self._heads,
            groups=self.group_state.address,
        )

    def input_of(self, x: Span) -> tuple[Packed, int]:
        self.features_of(x.tokens)
        return x.tokens.packed_features(), x.low

    def inputs_of(self, tokens: Tokens, chosen: np.ndarray) -> tuple[Packed, bool]:
        self.features_of(tokens)
        return tokens.packed_features(), True

    def _spread(self, values: np.ndarray, rows: Rows = slice(None)) -> np.ndarray:
        return values[self.groups[rows]][:, None]

    def shrink_coordinates(self, step: float) -> None:
        group_state = self.group_state
        jit.shrink_features(
            group_state.shares_of(step),
            group_state.averages,
            self.table,
            self._sums,
            self.groups,
            group_state.square_norms,
        )

    def recompute_norms(self) -> None:
        table = self.table[: self.n_features]
        squares = np.einsum("ij,ij->i", table, table, dtype=np.float64)
        self.group_state.square_norms[:] = np.bincount(self.groups, squares, len(self.names))

    def group_nbytes(self) -> np.ndarray:
        """Return the bytes of the weights of each group, (p,)."""
        return np.bincount(self.groups, minlength=len(self.names)) * float(self.table[:1].nbytes)

    def averaged(self) -> "ExplicitBank":
        if self.frozen:
            return copy(self)
        frozen = ExplicitBank(self.names, self.groups, self.n_outputs, dtype=self.table.dtype)
        for low in range(0, self.n_features, TOGETHER):
            rows = slice(low, min(low + TOGETHER, self.n_features))
            frozen.table[rows] = self.averaged_table(rows)
        return frozen

    def _find_nonzero(self) -> None:
        jit.link_rows(self.table, self.groups, self._links, self._heads)

    def state(self) -> dict[str, np.ndarray]:
        return {"groups": self.groups, **super().state()}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        groups = state["groups"]
        in_range = groups.min(initial=0) >= 0 and groups.max(initial=-1) < len(self.names)
        self._check_fit(len(state["table"]) == len(groups) and bool(in_range))
        self.n_features = len(groups)
        self._groups = np.array(groups, np.int32)
        self._links = np.full(len(groups), jit.UNTOUCHED, dtype=np.int32)
        super().load_state(state)


class DenseBank(TableBank):
    """Base class of banks of one group with a small dense table of weights.

    Parameters
    ----------
    name : str
        Name of the group.
    shape : tuple of three int
        Shape of the table.
    averaging : bool
        Whether to keep the averaged parameters.
    """

    _label_axes: ClassVar[tuple[int, ...]] = (2,)

    def __init__(self, name: str, shape: tuple[int, int, int], averaging: bool = False) -> None:
        self.names = [name]
        self.averaging = bool(averaging)
        self.table = np.zeros(shape)
        n_sums = shape[0] if averaging else 0
        self._sums = np.zeros((n_sums, *shape[1:]))

    def _gradient_of_table(self, gradient: Potentials) -> np.ndarray:
        """Return the gradient in the shape of the table, for banks that are not compiled."""
        raise NotImplementedError

    def step(self, x: Span, gradient: Potentials) -> None:
        gradient_of_table = self._gradient_of_table(gradient)
        dense.step_dense(gradient_of_table, self.table, self._sums, self.group_state.arrays)

    def _scale_group(self, k: int, factor: float) -> None:
        self.group_state.fold(k, factor, self.table, self._sums)

    def recompute_norms(self) -> None:
        self.group_state.square_norms[0] = np.square(self.table).sum()

    def _spread(self, values: np.ndarray, rows: Rows = slice(None)) -> np.ndarray:
        return values[0]

    def averaged(self) -> "DenseBank":
        frozen = copy(self)
        frozen.table = self.averaged_table()
        frozen._sums = self._sums[:0]
        frozen.averaging = False
        return frozen


class CompiledDenseBank(CompiledBank, DenseBank):
    """Base of dense tables whose part in a round is compiled functions."""

    layout: ClassVar[Layout] = dense.DENSE
    average_is_exact = True

    def arrays(self) -> dense.Dense:
        return dense.Dense(table=self.table, sums=self._sums, groups=self.group_state.address)

    def input_of(self, x: Span) -> tuple[Packed, int]:
        return NO_INPUT, 0

    def inputs_of(self, tokens: Tokens, chosen: np.ndarray) -> tuple[Packed, bool]:
        return NO_INPUT, False


class TransitionBank(CompiledDenseBank):
    """Indicators of pairs of adjacent labels; adds to ``potentials.pairwise``.

    Parameters
    ----------
    n_labels : int
    positions : int
        Number of positions with their own transitions, for a chain made with ``by_position=True``.
        Later positions share the last ones. 1 shares the transitions of all positions.
    averaging : bool
        Whether to keep the averaged parameters.
    name : str
    """

    _label_axes = (1, 2)
    functions = BankFunctions(
        scores=dense.add_transitions,
        average=dense.add_averaged_transitions,
        step=dense.step_transitions,
        fold=dense.fold,
        slopes=dense.slopes_of_transitions,
    )

    def __init__(
        self, n_labels: int, positions: int = 1, averaging: bool = False, name: str = "transitions"
    ) -> None:
        super().__init__(name, (positions, n_labels, n_labels), averaging)

    @property
    def compiled(self) -> BankFunctions | None:
        """Compiled functions, if all positions share their transitions."""
        return self.functions if len(self.table) == 1 else None

    def _shares_positions(self, potentials: Potentials) -> bool:
        """Check whether all positions share their transitions, here and in the potentials."""
        return len(potentials.pairwise) == len(self.table) == 1

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        if self._shares_positions(potentials):
            super().add_potentials(x, potentials)
        else:
            self._add_by_position(self.table, self.group_state.scales[0], x, potentials)

    def _add_compiled_average(self, x: Span, potentials: Potentials) -> None:
        if self._shares_positions(potentials):
            super()._add_compiled_average(x, potentials)
        else:
            self._add_by_position(self.averaged_table(), 1.0, x, potentials)

    def _add_by_position(
        self, table: np.ndarray, scale: float, x: Span, potentials: Potentials
    ) -> None:
        """Add the transitions of a table to potentials that have a matrix for each position."""
        dense.add_transitions_by_position(
            table, scale, x.tokens.offsets, x.low, x.high, potentials.pairwise
        )


class TrigramBank(DenseBank):
    """Indicators of triples of adjacent labels, in a second-order chain; adds to ``triples``.

    Parameters
    ----------
    n_labels : int
    averaging : bool
        Whether to keep the averaged parameters.
    name : str
    """

    _label_axes = (0, 1, 2)

    def __init__(self, n_labels: int, averaging: bool = False, name: str = "trigrams") -> None:
        super().__init__(name, (n_labels, n_labels, n_labels), averaging)

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        scale = self.group_state.scales[0]
        if scale != 0.0:
            potentials.triples[:] += scale * self.table

    def _gradient_of_table(self, gradient: Potentials) -> np.ndarray:
        return gradient.triples


class InterceptBank(CompiledDenseBank):
    """A constant for every label; adds to ``potentials.unary``.

    Parameters
    ----------
    n_outputs : int
        Number of labels K (1 for a binary structure).
    averaging : bool
        Whether to keep the averaged parameters.
    name : str
    """

    functions = BankFunctions(
        scores=dense.add_intercept,
        average=dense.add_averaged_intercept,
        step=dense.step_intercept,
        fold=dense.fold,
        slopes=dense.slopes_of_intercept,
    )
    compiled = property(lambda self: self.functions)

    def __init__(self, n_outputs: int, averaging: bool = False, name: str = "intercept") -> None:
        super().__init__(name, (1, 1, n_outputs), averaging)
