"""Kernel groups by explicit, dense feature maps: random Fourier features or Nyström.

The model has a fixed size.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from omkl._pointers import Packed
from omkl.groups import _jit_maps as jit
from omkl.groups.base import CompiledBank, FrozenGroup, FrozenGroups
from omkl.groups.tables import Rows, TableBank
from omkl.groups.tokens import Span, Tokens
from omkl.kernels.base import Kernel
from omkl.kernels.inputs import as_dense, row_blocks
from omkl.signatures import BankFunctions
from omkl.structures.base import Potentials

#: Minimum budget for computed features, in bytes: 1000 tokens of 2000 features.
WINDOW_BYTES = 2**24


class FeatureMapBank(CompiledBank, TableBank):
    r"""Kernel groups :math:`\theta_k \in R^{K \times D_k}` on features :math:`z_k(x)`, (D_k,).

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
        self.names = list(names)
        self.averaging = bool(averaging)
        self.kernels = list(kernels)
        self.views = list(views)
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.memory = memory
        #: Bounds of the features of each group, all groups side by side.
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        n_features = self._starts[-1]
        n_sums = n_outputs if averaging else 0
        self.table = np.zeros((n_outputs, n_features))
        self._sums = np.zeros((n_sums, n_features))
        self._find_nonzero()
        self.forget_input()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: parameters, feature maps, and computed features."""
        return self.table.nbytes + self._sums.nbytes + self._window.nbytes + map_bytes(self.kernels)

    def arrays(self) -> jit.Maps:
        return jit.Maps(
            starts=self._starts,
            table=self.table,
            sums=self._sums,
            touched=self._touched,
            groups=self.group_state.address,
        )

    def input_of(self, x: Span) -> tuple[Packed, int]:
        packed = self._packed_window_of(x)
        return packed, x.low - self._first_of_window

    def inputs_of(self, tokens: Tokens, chosen: np.ndarray) -> tuple[Packed, bool]:
        if self._fits(tokens):
            return self._packed_window_of(tokens.everything()), True
        # one sequence at a time, as in single rounds: the rounding of BLAS depends on the number of
        # rows
        features = np.empty((len(chosen), self._starts[-1]))
        sequences = np.searchsorted(tokens.offsets, chosen, side="right") - 1
        low = 0
        while low < len(chosen):
            x = tokens.sequence(sequences[low])
            features[low : low + len(x)] = self._computed(tokens, x.low, x.high)
            low += len(x)
        return jit.MAPPED_TOKENS.pack(jit.MappedTokens(features)), False

    def forget_input(self) -> None:
        #: The tokens whose features are cached, the first of them, and features (n, D).
        self._tokens: Tokens | None = None
        self._first_of_window = 0
        self._window = np.zeros((0, self._starts[-1]))
        self._packed_window: Packed | None = None

    def _packed_window_of(self, x: Span) -> Packed:
        """Return features of tokens from ``_first_of_window`` on; they contain those of ``x``."""
        first = self._first_of_window
        is_cached = first <= x.low and x.high <= first + len(self._window)
        if x.tokens is not self._tokens or not is_cached:
            low = x.low
            high = x.high
            if self._fits(x.tokens):
                low = 0
                high = x.tokens.n_tokens
            self.forget_input()  # free the old features first
            self._window = self._computed(x.tokens, low, high)
            self._tokens = x.tokens
            self._first_of_window = low
        packed = self._packed_window
        if packed is None:
            self._packed_window = packed = jit.MAPPED_TOKENS.pack(jit.MappedTokens(self._window))
        return packed

    def _computed(self, tokens: Tokens, low: int, high: int) -> np.ndarray:
        """Compute the features of the tokens ``low .. high - 1``, all groups side by side."""
        window = np.empty((high - low, self._starts[-1]))
        bounds = pairwise(self._starts.tolist())
        for kernel, view, (first, last) in zip(self.kernels, self.views, bounds):
            for rows in row_blocks(high - low, last - first, np.float64):
                features = dense_features(
                    kernel, tokens.views[view], low + rows.start, low + rows.stop
                )
                window[rows, first:last] = features
        return window

    @property
    def rows_at_once(self) -> int:
        return max(1, WINDOW_BYTES // (8 * max(self.table.shape[1], 1)))

    def features_of(self, tokens: Tokens, rows: np.ndarray) -> np.ndarray:
        """Return the features of some tokens, (n, D)."""
        if self._fits(tokens):
            self._packed_window_of(tokens.everything())
            return self._window[rows]
        blocks = []
        for kernel, view in zip(self.kernels, self.views):
            blocks.append(dense_features(kernel, tokens.views[view][rows], 0, len(rows)))
        return np.hstack(blocks)

    def _fits(self, tokens: Tokens) -> bool:
        """Check whether there is room for the features of all tokens."""
        return 8 * tokens.n_tokens * self.table.shape[1] <= max(self.memory, WINDOW_BYTES)

    def recompute_norms(self) -> None:
        n_groups = len(self.names)
        squares_of_features = np.square(self.table).sum(axis=0)
        group_of_feature = self._spread(np.arange(n_groups))
        square_norms = np.bincount(group_of_feature, squares_of_features, n_groups)
        self.group_state.square_norms[:] = square_norms

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
        self.names = list(bank.names)
        self._groups = []
        table = bank.averaged_table()
        for k, (first, last) in enumerate(pairwise(bank._starts.tolist())):
            weights = table[:, first:last]
            if np.count_nonzero(weights):
                group = FrozenGroup(
                    index=k,
                    kernel=bank.kernels[k],
                    view=bank.views[k],
                    weights=np.ascontiguousarray(weights),
                )
                self._groups.append(group)

    def group_nbytes(self) -> np.ndarray:
        """Return the bytes of each group, (p,): its weights and its map."""
        nbytes = np.zeros(len(self.names))
        for group in self._groups:
            nbytes[group.index] = group.weights.nbytes + map_bytes([group.kernel])
        return nbytes

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        for group in self._groups:
            if not self._in_use(group.index):
                continue
            view = x.tokens.views[group.view]
            for rows in row_blocks(len(x), group.weights.shape[1], np.float64):
                features = dense_features(group.kernel, view, x.low + rows.start, x.low + rows.stop)
                potentials.unary[rows] += features @ group.weights.T

    def products_of_parts(
        self, x: Span, gradient: Potentials
    ) -> Iterator[tuple[str, int, np.ndarray]]:
        """Yield the products of the parts of a kernel's features with the gradient at a token.

        Yields
        ------
        name : str
            Name of the group.
        token : int
        products : array
        """
        moving = np.flatnonzero(gradient.unary.any(axis=1)).tolist()
        for group in self._groups:
            view = x.tokens.views[group.view]
            for token in moving:
                row = view[x.low + token : x.low + token + 1]
                products = group.kernel.parts(row, gradient.unary[token] @ group.weights)
                yield self.names[group.index], token, products

    def recompute_norms(self) -> None:
        """Set ``||theta_k||^2`` in the group state."""
        assert self.group_state is not None
        self.group_state.square_norms[:] = 0.0
        for group in self._groups:
            self.group_state.square_norms[group.index] = np.vdot(group.weights, group.weights)


def dense_features(kernel: Kernel, view: np.ndarray, low: int, high: int) -> np.ndarray:
    """Return the features of the rows ``low .. high - 1`` of a view, dense (high - low, D).

    With many columns or features, their rounding depends on the number of rows.
    """
    rows = view[low:high]
    if high - low == 1:
        # for a single row BLAS uses another routine, with another order of rounding
        rows = view[[low, low]]
    return as_dense(kernel.features(rows))[: high - low]


def map_bytes(kernels: list[Kernel]) -> int:
    """Return the bytes of the arrays of feature maps."""
    nbytes = 0
    for kernel in kernels:
        for value in kernel.learned().values():
            if isinstance(value, np.ndarray):
                nbytes += value.nbytes
    return nbytes
