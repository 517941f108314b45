"""Kernel groups as dual expansions over a growing support, for streams and for prediction."""

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from omkl.groups.base import Bank, FrozenGroup, FrozenGroups, lengthened
from omkl.groups.expansions import _jit_kernel as jit
from omkl.groups.expansions._jit_budget import CHI_SQUARED, MANHATTAN, PRODUCTS, SQUARED, compare
from omkl.groups.group_state import Mixture
from omkl.groups.tokens import Span
from omkl.kernels.base import Kernel, inverse_root
from omkl.kernels.inputs import NormalizedKernel, Pair, Reference, in_precision, row_blocks
from omkl.structures.base import Potentials

#: Smallest capacity for support vectors.
FIRST_CAPACITY = 16
#: Arrays of support vectors in states are called this and their view.
SUPPORT_KEY = "support:"


class KernelBank(Bank):
    r"""Base class of banks of kernel groups.

    The groups are :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]`. Subclasses store the
    support vectors and their coefficients. Norms follow from
    :math:`\|v - r g\|^2 = \|v\|^2 - 2 r \langle v, g \rangle + r^2 \|g\|^2`, where
    :math:`\langle v, g \rangle` is the inner product of the group's potentials with their gradient.

    Parameters
    ----------
    names : list of str
    kernels : list of Kernel
        Fitted kernels.
    views : list of str
        Name of the view of the tokens for each kernel.
    n_outputs : int
        Number of labels K.
    averaging : bool
        Whether to keep the averaged coefficients.
    dtype : float64 or float32
        Precision in which kernels are evaluated; coefficients and norms are float64.
    """

    #: Number of support vectors.
    n_support: int
    #: Coefficients and running sums, with space for more support vectors.
    _coefficients: np.ndarray
    _sums: np.ndarray

    def __init__(
        self,
        names: list[str],
        kernels: list[Kernel],
        views: list[str],
        n_outputs: int,
        averaging: bool = False,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.names = list(names)
        self.averaging = bool(averaging)
        self.kernels = list(kernels)
        self.views = list(views)
        self.n_outputs = int(n_outputs)
        self.dtype = np.dtype(dtype)
        self._allocate()

    def _allocate(self) -> None:
        """Create an empty support."""

    @property
    @abstractmethod
    def supports(self) -> dict[str, np.ndarray]:
        """Support vectors by view, (S, d)."""

    @property
    def coefficients(self) -> np.ndarray:
        """Dual coefficients ``A_k`` before scaling, (p, S, K)."""
        return self._coefficients[:, : self.n_support]

    @property
    def sums(self) -> np.ndarray:
        """Running sums ``u_k`` of averaged coefficients, (p, S, K); empty without an average."""
        return self._sums[:, : self.n_support]

    def recompute_norms(self) -> None:
        norms = self.group_state.square_norms
        norms[:] = 0.0
        groups = np.flatnonzero(~self.group_state.left_out).tolist()
        kernels = [self.kernels[k] for k in groups]
        views = [self.views[k] for k in groups]
        norms[groups] = square_norms(kernels, views, self.supports, self.coefficients[groups])

    def averaged_coefficients(self) -> np.ndarray:
        """Return the averaged dual coefficients, (p, S, K); current ones without an average."""
        return self.group_state.average(self.coefficients, self.sums, spread_over_coefficients)

    def averaged(self) -> "FrozenExpansion":
        """Return the averaged groups as a frozen expansion."""
        return FrozenExpansion(self)

    def condensed(self) -> dict[str, np.ndarray]:
        no_sums = self.sums[:, :0]
        return state_of(*without_unused(self.supports, self.averaged_coefficients(), no_sums))

    def state(self) -> dict[str, np.ndarray]:
        return state_of(self.supports, self.coefficients, self.sums)


def spread_over_coefficients(values: np.ndarray) -> np.ndarray:
    """Broadcast one number per group (p,) to the shape of coefficients, (p, 1, 1)."""
    return values[:, None, None]


class KernelExpansion(KernelBank):
    r"""Kernel groups that add support vectors at every mistake.

    The groups are :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]`. It reads the views
    of the tokens and adds to ``potentials.unary``. All kernels share the support vectors, and
    kernels on the same view share inner products. A round costs O(S) kernel values per token, where
    S is the size of the support.

    Parameters
    ----------
    names, kernels, views, n_outputs, averaging, dtype
        See :class:`KernelBank`.
    """

    abilities = frozenset({"mix", "grow", "condense", "watch"})

    def _allocate(self) -> None:
        nothing = np.zeros((len(self.names), 0, self.n_outputs))
        self.set_support({}, nothing, nothing)

    def restart(self) -> None:
        self._allocate()

    def set_support(
        self, supports: dict[str, np.ndarray], coefficients: np.ndarray, sums: np.ndarray
    ) -> None:
        """Set the support vectors and their coefficients.

        Parameters
        ----------
        supports : dict of str to array of shape (S, d)
        coefficients, sums : arrays of shape (p, S, K)
            ``sums`` is (p, 0, K) without an average.
        """
        self._supports = {}
        for view, support in supports.items():
            self._supports[view] = np.array(support, dtype=self.dtype)
        self._coefficients = np.array(coefficients, dtype=np.float64)
        self._sums = np.array(sums, dtype=np.float64)
        self.n_support = self._coefficients.shape[1]
        self.forget_input()
        #: Indices of the support vectors added by the latest step.
        self._added: slice | None = None
        #: Cached references to the support vectors; None after a change.
        self._references: dict[str, Reference] | None = None

    def forget_input(self) -> None:
        #: The latest input, and its potentials.
        self._scored: tuple[Span, np.ndarray] | None = None

    @property
    def supports(self) -> dict[str, np.ndarray]:
        return {view: support[: self.n_support] for view, support in self._supports.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [*self._supports.values(), self._coefficients, self._sums]
        return sum(array.nbytes for array in arrays)

    def grow_outputs(self, n_outputs: int) -> None:
        self._coefficients = lengthened(self._coefficients, n_outputs, axis=2)
        self._sums = lengthened(self._sums, n_outputs, axis=2)
        self.n_outputs = n_outputs
        self.forget_input()

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        jit.add_scaled(self.group_state.scales, self._unscaled_potentials(x), potentials.unary)

    def inner_products(
        self,
        x: Span,
        gradient: Potentials,
        totals: np.ndarray | None,
    ) -> np.ndarray:
        products = np.zeros(len(self.names))
        potentials = self._unscaled_potentials(x)
        jit.kernel_inner_products(potentials, gradient.unary, products, totals)
        return products

    def step(self, x: Span, gradient: Potentials) -> None:
        moving = jit.has_gradient(gradient.unary)
        self._added = None
        values = self._values_among(x, moving)
        rows = np.arange(len(moving))
        potentials = self._unscaled_potentials(x)
        groups = self.group_state.arrays
        if jit.measure(values, rows, rows, moving, gradient.unary, groups):
            jit.advance_norms(potentials, moving, gradient.unary, groups)
            self._move(x, moving, gradient, ~self.group_state.empty)

    def _activate(self, x: Span, gradient: Potentials) -> None:
        moving = jit.has_gradient(gradient.unary)
        self._move(x, moving, gradient, self.group_state.activated)

    def _unscaled_potentials(self, x: Span) -> np.ndarray:
        """Return ``K_k(x, support) A_k`` of every group, before scaling: (p, n, K)."""
        if self._scored is None or self._scored[0] is not x:
            self._scored = (x, self._expanded(x, self.coefficients))
        return self._scored[1]

    def add_both(self, x: Span, potentials: Potentials, average: Potentials) -> None:
        # kernel values take most of the time, and are computed once for both
        averaged = self.averaged_coefficients()
        coefficients = np.concatenate([self.coefficients, averaged], axis=2)
        values = self._expanded(x, coefficients)
        current = np.ascontiguousarray(values[:, :, : self.n_outputs])
        self._scored = x, current
        self.add_potentials(x, potentials)
        average.unary[:] += values[:, :, self.n_outputs :].sum(axis=0)

    def _expanded(self, x: Span, coefficients: np.ndarray) -> np.ndarray:
        """Return ``K_k(x, support) A_k`` of every group for these coefficients, (p, n, K)."""
        values = np.zeros((len(self.names), len(x), coefficients.shape[2]))
        if self._references is None:
            self._references = {view: Reference(support) for view, support in self.supports.items()}
        out = {k: values[k] for k in np.flatnonzero(~self.group_state.left_out).tolist()}
        expand(self.kernels, self.views, x, self._references, coefficients, out)
        return values

    def _vectors(self, x: Span, moving: np.ndarray) -> dict[str, np.ndarray]:
        """Return the vectors (m, d) of the tokens ``moving``, (m,), by view."""
        tokens = x.low + moving
        vectors = {}
        for view in dict.fromkeys(self.views):
            vectors[view] = in_precision(x.tokens.views[view][tokens], self.dtype)
        return vectors

    def _values_among(self, x: Span, moving: np.ndarray) -> np.ndarray:
        """Return the kernel values among the tokens ``moving``: (p, m, m)."""
        values = np.zeros((len(self.names), len(moving), len(moving)))
        if len(moving) == 0:
            return values
        pairs = {view: Pair(X, X) for view, X in self._vectors(x, moving).items()}
        for k in np.flatnonzero(~self.group_state.left_out):
            values[k] = self.kernels[k].between(pairs[self.views[k]])
        return values

    def _move(self, x: Span, moving: np.ndarray, gradient: Potentials, groups: np.ndarray) -> None:
        """Step along the gradient of the tokens ``moving`` in the groups of a mask, (p,)."""
        if self._added is None:
            self._added = self._append(x, moving)
        rates = self.group_state.rates
        averages = self.group_state.averages
        directions = gradient.unary[moving]
        for k in np.flatnonzero(groups):
            self._coefficients[k, self._added] = -rates[k] * directions
            if self.averaging:
                self._sums[k, self._added] = averages[k] * rates[k] * directions
        self.forget_input()

    def _append(self, x: Span, moving: np.ndarray) -> slice:
        """Append support vectors with coefficients of zero; return their indices."""
        added = slice(self.n_support, self.n_support + len(moving))
        capacity = self._coefficients.shape[1]
        if added.stop > capacity:
            capacity = max(added.stop, capacity + capacity // 2, FIRST_CAPACITY)
            self._coefficients = lengthened(self._coefficients, capacity, axis=1)
            if self.averaging:
                self._sums = lengthened(self._sums, capacity, axis=1)
        for view, vectors in self._vectors(x, moving).items():
            support = self._supports.get(view, vectors[:0])
            if len(support) < capacity:
                support = lengthened(support, capacity)
            support[added] = vectors
            self._supports[view] = support
        self.n_support = added.stop
        self._references = None
        return added

    def _scale_group(self, k: int, factor: float) -> None:
        self.group_state.fold(k, factor, self._coefficients[k], self._sums[k])
        self.forget_input()

    def mix(self, states: Sequence[dict[str, np.ndarray]], mixture: Mixture) -> None:
        # all shards started with these support vectors, and have appended others
        n = self.n_support
        coefficients = [state["coefficients"] for state in states]
        terms = mixture.directions(coefficients, spread_over_coefficients)
        mixed = mixed_with_added(terms, n)  # (p, S, K)
        mixed_sums = mixed[:, :0]
        if self.averaging:
            sums = [state["sums"] for state in states]
            terms = mixture.sums(coefficients, sums, spread_over_coefficients)
            mixed_sums = mixed_with_added(terms, n)
        vectors = {view: [support] for view, support in self.supports.items()}
        for state in states:
            # a shard without support has no arrays
            for view, support in support_of(state).items():
                vectors.setdefault(view, []).append(support[n:])
        supports = {view: np.concatenate(blocks) for view, blocks in vectors.items()}
        self.set_support(*without_unused(supports, mixed, mixed_sums))
        self.recompute_norms()

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        supports = support_of(state)
        p, n_support, n_outputs = state["coefficients"].shape
        n_sums = state["sums"].shape[1]
        self._check_fit(
            p == len(self.names)
            and n_outputs == self.n_outputs
            and n_sums in (0, n_support)
            and all(len(support) == n_support for support in supports.values())
        )
        if supports:
            self.dtype = next(iter(supports.values())).dtype
        self.averaging = n_sums > 0 or (n_support == 0 and self.averaging)
        self.set_support(supports, state["coefficients"], state["sums"])


def mixed_with_added(terms: list[np.ndarray], n: int) -> np.ndarray:
    """Mix coefficients (p, S, K) of the first n support vectors; append those that shards added."""
    mixed = sum(term[:, :n] for term in terms)
    return np.concatenate([mixed, *(term[:, n:] for term in terms)], axis=1)


def without_unused(
    supports: dict[str, np.ndarray], coefficients: np.ndarray, sums: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Leave out support vectors whose coefficients (p, S, K) and sums (p, S or 0, K) are zero."""
    is_used = coefficients.any(axis=(0, 2))
    if sums.shape[1]:
        is_used |= sums.any(axis=(0, 2))
        sums = sums[:, is_used]
    used_supports = {view: support[is_used] for view, support in supports.items()}
    return used_supports, coefficients[:, is_used], sums


class FrozenExpansion(FrozenGroups):
    """Averaged kernel groups for prediction, without support vectors and kernels of zero weight."""

    def __init__(self, bank: KernelBank) -> None:
        self.names = list(bank.names)
        coefficients = bank.averaged_coefficients()
        is_used = coefficients.any(axis=(0, 2))
        #: Indices of the remaining support vectors.
        self.support_indices = np.flatnonzero(is_used)
        self._supports = {}
        for view, support in bank.supports.items():
            self._supports[view] = Reference(support[is_used])
        #: Indices of the remaining groups, their kernels, views, and coefficients (groups, S, K).
        self._indices = np.flatnonzero(coefficients.any(axis=(1, 2))).tolist()
        self._kernels = [bank.kernels[k] for k in self._indices]
        self._views = [bank.views[k] for k in self._indices]
        self._coefficients = np.ascontiguousarray(
            coefficients[self._indices][:, is_used], dtype=bank.dtype
        )

    def _groups(self) -> list[FrozenGroup]:
        """Return the remaining groups, one by one."""
        columns = zip(self._indices, self._kernels, self._views, self._coefficients)
        return list(itertools.starmap(FrozenGroup, columns))

    def group_nbytes(self) -> np.ndarray:
        """Return the bytes of each group, (p,): coefficients, and a share of support vectors."""
        nbytes = np.zeros(len(self.names))
        for group in self._groups():
            n_sharing = self._views.count(group.view)
            nbytes_of_support = self._supports[group.view].X.nbytes / n_sharing
            nbytes[group.index] = group.weights.nbytes + nbytes_of_support
        return nbytes

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        """Add the potentials of the groups; see :meth:`Bank.add_potentials`."""
        out = {i: potentials.unary for i, k in enumerate(self._indices) if self._in_use(k)}
        expand(self._kernels, self._views, x, self._supports, self._coefficients, out)

    def products_of_supports(
        self, x: Span, gradient: Potentials
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield what support vectors contribute to ``<theta_k, g_k>``, for each kernel.

        Yields
        ------
        name : str
            Name of the group.
        products : array of shape (S,)
        vectors : array of shape (S, d)
        """
        moving = np.flatnonzero(gradient.unary.any(axis=1))
        gradient_of_moving = gradient.unary[moving]
        for group in self._groups():
            support = self._supports[group.view]
            vectors = x.tokens.views[group.view][x.low + moving]
            block = np.ascontiguousarray(vectors, dtype=support.X.dtype)
            values = group.kernel.between(Pair(block, support))
            products = np.einsum("sj,sj->s", values.T @ gradient_of_moving, group.weights)
            yield self.names[group.index], products, support.X

    def recompute_norms(self) -> None:
        """Set ``||theta_k||^2`` in the group state: O(S^2) kernel values for S support vectors."""
        assert self.group_state is not None
        self.group_state.square_norms[:] = 0.0
        supports = {view: support.X for view, support in self._supports.items()}
        squares = square_norms(self._kernels, self._views, supports, self._coefficients)
        self.group_state.square_norms[self._indices] = squares


def square_norms(
    kernels: list[Kernel],
    views: list[str],
    supports: dict[str, np.ndarray],
    coefficients: np.ndarray,
) -> np.ndarray:
    """Return ``tr(A_k' K_k A_k)`` of each kernel, (p,), computed in blocks of support vectors.

    Support vectors are (S, d), coefficients (p, S, K).
    """
    squares = np.zeros(len(kernels))
    n_support = coefficients.shape[1]
    if n_support == 0 or not kernels:
        return squares
    coefficients = coefficients.astype(np.float64, copy=False)
    for rows in row_blocks(n_support, n_support, supports[views[0]].dtype):
        pairs = {view: Pair(supports[view][rows], supports[view]) for view in dict.fromkeys(views)}
        for k, kernel in enumerate(kernels):
            potentials = kernel.between(pairs[views[k]]) @ coefficients[k]
            squares[k] += np.vdot(coefficients[k, rows], potentials)
    return squares


def expand(
    kernels: list[Kernel],
    views: list[str],
    x: Span,
    supports: dict[str, Reference],
    coefficients: np.ndarray,
    out: dict[int, np.ndarray],
) -> None:
    """Add ``K_k(x, support) A_k``, (n, K), of some kernels to ``out[k]``, by their index.

    Coefficients are (p, S, K). Kernel values are computed in blocks of tokens.
    """
    n_support = coefficients.shape[1]
    if n_support == 0 or not out:
        return
    dtype = supports[views[0]].X.dtype
    for rows in row_blocks(len(x), n_support, dtype):
        tokens = slice(x.low + rows.start, x.low + rows.stop)
        pairs = {}
        for view in dict.fromkeys(views):
            block = np.ascontiguousarray(x.tokens.views[view][tokens], dtype=dtype)
            pairs[view] = Pair(block, supports[view])
        for k, potentials in out.items():
            potentials[rows] += kernels[k].between(pairs[views[k]]) @ coefficients[k]


def state_of(
    supports: dict[str, np.ndarray], coefficients: np.ndarray, sums: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the arrays of a state; see :func:`support_of` for those of the support vectors."""
    arrays = {SUPPORT_KEY + view: support for view, support in supports.items()}
    return {"coefficients": coefficients, "sums": sums} | arrays


def support_of(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Extract the support vectors by view from the arrays of a state."""
    supports = {}
    for key, array in state.items():
        if key.startswith(SUPPORT_KEY):
            supports[key.removeprefix(SUPPORT_KEY)] = array
    return supports


class SupportBuffer:
    """Support vectors by their indices, and the few vectors at hand, those of the present input.

    All vectors are columns of one array, with the vectors at hand just before the first support
    vector. So one evaluation of a kernel between the vectors at hand and all columns gives its
    values among them and with every support vector. ``1 / sqrt(k(x, x))`` of normalised kernels is
    stored with each vector, so a new one costs O(capacity x dimension).

    ``kernels`` are fitted kernels on vectors of dimension ``n_columns``; ``capacity`` is the
    maximum number of support vectors.
    """

    def __init__(
        self, kernels: Sequence[Kernel], n_columns: int, capacity: int, dtype: DTypeLike
    ) -> None:
        self.normalized = [kernel for kernel in kernels if kernel.normalize == "diagonal"]
        #: Column of the first support vector.
        self.first = 1
        self.columns = np.zeros((n_columns, 1 + capacity), dtype)
        self.roots = np.zeros((len(self.normalized), 1 + capacity), dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.columns.nbytes + self.roots.nbytes

    def _write(self, columns: slice, X: np.ndarray) -> None:
        self.columns[:, columns] = X.T
        for roots, kernel in zip(self.roots, self.normalized):
            roots[columns] = inverse_root(kernel.raw_diagonal(X))

    def stage(self, X: np.ndarray, n_support: int) -> "BufferPair":
        """Set the vectors at hand, (m, d); pair them with one another and the first supports."""
        m = len(X)
        if m > self.first:
            self.pad(m - self.first, 0)
        X = np.ascontiguousarray(X, dtype=self.columns.dtype)
        at_hand = slice(self.first - m, self.first)
        self._write(at_hand, X)
        return BufferPair(self, X, at_hand, slice(at_hand.start, self.first + n_support))

    def pair(self, which: np.ndarray, n_support: int) -> "BufferPair":
        """Pair the support vectors ``which``, (m,) indices, with the first ``n_support`` ones."""
        X = np.ascontiguousarray(self.columns[:, self.first + which].T)
        return BufferPair(self, X, self.first + which, slice(self.first, self.first + n_support))

    def keep(self, back: np.ndarray, index: np.ndarray) -> None:
        """Copy some vectors at hand to indices; ``back`` counts from the end: 1 is the last one."""
        self.columns[:, self.first + index] = self.columns[:, self.first - back]
        self.roots[:, self.first + index] = self.roots[:, self.first - back]

    def vectors(self, n_support: int) -> np.ndarray:
        """Return the first support vectors, (n_support, d)."""
        return self.columns[:, self.first : self.first + n_support].T

    def load(self, X: np.ndarray) -> None:
        """Overwrite the first support vectors with the rows of an array, (n, d)."""
        self._write(slice(self.first, self.first + len(X)), X)

    def pad(self, before: int, after: int) -> None:
        """Allocate space for more vectors at hand, and more support vectors."""
        more = ((0, 0), (before, after))
        self.columns = np.pad(self.columns, more)
        self.roots = np.pad(self.roots, more)
        self.first += before


class BufferPair(Pair):
    """Some columns of a :class:`SupportBuffer`, ``rows``, against a range of ``columns``."""

    def __init__(
        self, buffer: SupportBuffer, X: np.ndarray, rows: slice | np.ndarray, columns: slice
    ) -> None:
        self._buffer = buffer
        self._rows = rows
        self._columns = columns
        # skip Pair.__init__: the arrays are already known to be dense and floating
        self.X = X
        self.Y = buffer.columns[:, columns].T
        self.right = Reference(self.Y)

    def _compare(self, kind: int) -> np.ndarray:
        """Return products or distances of a kind, (rows, columns)."""
        columns = self._columns
        return compare(kind, self.X, self._buffer.columns, columns.start, columns.stop)

    products = cached_property(lambda pair: pair._compare(PRODUCTS))
    squared_distances = cached_property(lambda pair: pair._compare(SQUARED))
    manhattan_distances = cached_property(lambda pair: pair._compare(MANHATTAN))
    chi_squared_distances = cached_property(lambda pair: pair._compare(CHI_SQUARED))

    def inverse_roots(self, kernel: NormalizedKernel) -> tuple[np.ndarray, np.ndarray]:
        for roots, normalized in zip(self._buffer.roots, self._buffer.normalized):
            if normalized is kernel:
                return roots[self._rows], roots[self._columns]
        return super().inverse_roots(kernel)
