"""Kernel groups by explicit, dense feature maps: random Fourier features or Nyström, with a model
of fixed size.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl._pointers import Packed
from omkl.groups import _jit_maps as jit
from omkl.groups.base import Bank, CompiledBank, FrozenGroups
from omkl.groups.tables import Rows, TableBank
from omkl.groups.tokens import Span, Tokens
from omkl.kernels.base import Kernel
from omkl.kernels.inputs import row_blocks
from omkl.signatures import BankFunctions
from omkl.structures.base import Potentials

#: Minimum budget for computed features, in bytes: 1000 tokens of 2000 features.
WINDOW_BYTES = 2**24


class FeatureMapBank(CompiledBank, TableBank):
    r"""Kernel groups :math:`\theta_k \in R^{K \times D_k}` on the features :math:`z_k(x)` of finite
    feature maps.

    It reads the views of the tokens and adds to ``potentials.unary``. A round costs one product
    with the table, a step O(D) for each label in error, and a proximal step O(1) per group. The
    number of parameters does not grow with the data.

    Features are computed from the views on demand: for all tokens if they fit into ``memory``,
    otherwise for one sequence.

    Parameters
    ----------
    names : list of str
        Names of the groups, one per kernel.
    kernels : list of Kernel
        Fitted kernels with a finite feature map.
    views : list of str
        Name of the view of the tokens for each kernel.
    sizes : list of int
        Number of features ``D_k`` of each kernel.
    n_outputs : int
        Number of labels K (1 for a binary structure).
    averaging : bool
        Whether to keep the averaged parameters, which doubles the memory.
    memory : int
        Maximum bytes of computed features; at least :data:`WINDOW_BYTES`.
    """

    _label_axes = (0,)
    layout = jit.MAPS
    functions = BankFunctions(
        scores=jit.scores,
        average=jit.average,
        step=jit.step,
        fold=jit.fold,
        slopes=jit.slopes,
    )
    compiled = property(lambda self: self.functions)

    def __init__(
        self,
        names: list[str],
        kernels: list[Kernel],
        views: list[str],
        sizes: ArrayLike,
        n_outputs: int,
        averaging: bool = False,
        memory: int = WINDOW_BYTES,
    ) -> None:
        self.names, self.averaging = list(names), bool(averaging)
        self.kernels = list(kernels)
        self.views = list(views)
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.memory = memory
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.table = np.zeros((n_outputs, self._starts[-1]))
        self._sums = np.zeros((n_outputs if averaging else 0, self._starts[-1]))
        self._find_nonzero()
        self.forget_input()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: parameters, feature maps, and computed features."""
        return self.table.nbytes + self._sums.nbytes + self._window.nbytes + map_bytes(self.kernels)

    def add_averaged_potentials(self, x: Span, potentials: Potentials) -> None:
        # with the rounding of the frozen maps, which predict
        Bank.add_averaged_potentials(self, x, potentials)

    def add_both(self, x: Span, potentials: Potentials, average: Potentials) -> None:
        self.add_potentials(x, potentials)
        super().add_averaged_potentials(x, average)

    def arrays(self) -> jit.Maps:
        return jit.Maps(
            starts=self._starts,
            table=self.table,
            sums=self._sums,
            touched=self._touched,
            groups=self.group_state.address,
        )

    def input_of(self, x: Span) -> tuple[Packed, int]:
        low, packed = self._window_of(x)
        return packed, x.low - low

    def inputs_of(self, tokens: Tokens, chosen: np.ndarray) -> tuple[Packed, bool]:
        if self._fits(tokens):
            return self._window_of(tokens.everything())[1], True
        # one sequence at a time, as in single rounds: the rounding of BLAS depends on the number of
        # rows
        features = np.empty((len(chosen), self._starts[-1]))
        sequences = np.searchsorted(tokens.offsets, chosen, side="right") - 1
        place = 0
        while place < len(chosen):
            low, high = tokens.offsets[sequences[place] :][:2].tolist()
            features[place : place + high - low] = self._computed(tokens, low, high)
            place += high - low
        return jit.MAPPED_TOKENS.pack(jit.MappedTokens(features)), False

    def forget_input(self) -> None:
        self._tokens: Tokens | None = None
        self._low = 0
        self._window = np.zeros((0, self._starts[-1]))
        self._packed_window: Packed | None = None

    def _window_of(self, x: Span) -> tuple[int, Packed]:
        """Return the first token of a window that contains ``x``, and the window's features."""
        if (
            x.tokens is not self._tokens
            or x.low < self._low
            or x.high > self._low + len(self._window)
        ):
            low, high = x.low, x.high
            if self._fits(x.tokens):
                low, high = 0, x.tokens.n_tokens
            self.forget_input()  # free the old features first
            self._window = self._computed(x.tokens, low, high)
            self._tokens = x.tokens
            self._low = low
        packed = self._packed_window
        if packed is None:
            self._packed_window = packed = jit.MAPPED_TOKENS.pack(jit.MappedTokens(self._window))
        return self._low, packed

    def _computed(self, tokens: Tokens, low: int, high: int) -> np.ndarray:
        """Compute the features of the tokens ``low .. high - 1``, all groups side by side."""
        window = np.empty((high - low, self._starts[-1]))
        for k, (kernel, view) in enumerate(zip(self.kernels, self.views)):
            first, last = self._starts[k : k + 2]
            for rows in row_blocks(high - low, last - first, np.float64):
                bounds = low + rows.start, low + rows.stop
                window[rows, first:last] = dense_features(kernel, tokens.views[view], *bounds)
        return window

    @property
    def rows_at_once(self) -> int:
        return max(1, WINDOW_BYTES // (8 * max(self.table.shape[1], 1)))

    def features_of(self, tokens: Tokens, rows: np.ndarray) -> np.ndarray:
        """Return the features of some tokens, (n, D)."""
        if self._fits(tokens):
            self._window_of(tokens.everything())
            return self._window[rows]
        parts = zip(self.kernels, self.views)
        return np.hstack(
            [
                dense_features(kernel, tokens.views[view][rows], 0, len(rows))
                for kernel, view in parts
            ]
        )

    def _fits(self, tokens: Tokens) -> bool:
        """Check whether there is room for the features of all tokens."""
        return 8 * tokens.n_tokens * self.table.shape[1] <= max(self.memory, WINDOW_BYTES)

    def recompute_norms(self) -> None:
        owners = self._spread(np.arange(len(self.names)))
        self.group_state.square_norms[:] = np.bincount(
            owners, np.square(self.table).sum(axis=0), len(self.names)
        )

    def _spread(self, values: np.ndarray, rows: Rows = slice(None)) -> np.ndarray:
        return np.repeat(values, self.sizes)

    def averaged(self) -> "FrozenFeatureMaps":
        return FrozenFeatureMaps(self)

    def _find_nonzero(self) -> None:
        self._touched = np.zeros((len(self.names), len(self.table)), dtype=np.bool_)
        for k, (first, last) in enumerate(zip(self._starts, self._starts[1:])):
            self._touched[k] = self.table[:, first:last].any(axis=1)

    def release(self) -> "FeatureMapBank":
        """Return this bank, without cached features of its training set."""
        self.forget_input()
        self.memory = WINDOW_BYTES
        return self


class FrozenFeatureMaps(FrozenGroups):
    """Averaged groups for prediction, without maps of zero weight."""

    def __init__(self, bank: FeatureMapBank) -> None:
        blocks = np.split(bank.averaged_table(), np.cumsum(bank.sizes)[:-1], axis=1)
        self.names = list(bank.names)
        groups = enumerate(zip(bank.kernels, bank.views, map(np.ascontiguousarray, blocks)))
        self._groups = [(k, *group) for k, group in groups if group[2].any()]

    def group_nbytes(self) -> np.ndarray:
        """Return the bytes of each group, (p,): its weights and its map."""
        nbytes = np.zeros(len(self.names))
        for k, kernel, _, weights in self._groups:
            nbytes[k] = weights.nbytes + map_bytes([kernel])
        return nbytes

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        for k, kernel, view, weights in self._groups:
            for rows in row_blocks(len(x), weights.shape[1], np.float64) if self._in_use(k) else ():
                block = dense_features(
                    kernel, x.tokens.views[view], x.low + rows.start, x.low + rows.stop
                )
                potentials.unary[rows] += block @ weights.T

    def products_of_parts(
        self, x: Span, gradient: Potentials
    ) -> Iterator[tuple[str, int, np.ndarray]]:
        """Yield ``(group, token, values)``: products of the parts of a kernel's features with the
        gradient there.
        """
        moving = np.flatnonzero(gradient.unary.any(axis=1)).tolist()
        for k, kernel, view, weights in self._groups:
            for token in moving:
                row = x.tokens.views[view][x.low + token : x.low + token + 1]
                yield self.names[k], token, kernel.parts(row, gradient.unary[token] @ weights)

    def recompute_norms(self) -> None:
        """Set ``||theta_k||^2`` in the group state."""
        assert self.group_state is not None
        self.group_state.square_norms[:] = 0.0
        for k, *_, weights in self._groups:
            self.group_state.square_norms[k] = np.vdot(weights, weights)


def dense_features(kernel: Kernel, view: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return the features of the rows ``low .. high - 1`` of a view, a dense array (high - low, D).

    With many columns or features, their rounding depends on the number of rows.
    """
    rows = view[low:high]
    if high - low == 1:
        # for a single row BLAS uses another routine, with another order of rounding
        rows = view[[low, low]]
    features = kernel.features(rows)
    return (features.toarray() if sparse.issparse(features) else features)[: high - low]


def map_bytes(kernels: list[Kernel]) -> int:
    """Return the bytes of the arrays of feature maps."""
    learned = [value for kernel in kernels for value in kernel.learned().values()]
    return sum(value.nbytes for value in learned if isinstance(value, np.ndarray))
