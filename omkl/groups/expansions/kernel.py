"""Kernel groups as dual expansions over a growing support, for streams and for prediction."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from omkl.groups.base import Bank, FrozenGroups, lengthened
from omkl.groups.expansions import _jit_kernel as jit
from omkl.groups.expansions._jit_budget import CHI_SQUARED, MANHATTAN, PRODUCTS, SQUARED, compare
from omkl.groups.group_state import Mixture
from omkl.groups.tokens import Span
from omkl.kernels.base import Kernel, inverse_root
from omkl.kernels.inputs import Pair, Reference, in_precision, row_blocks
from omkl.structures.base import Potentials


class KernelBank(Bank):
    r"""Base class of banks of kernel groups :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i,
    :]`.

    Subclasses store the support vectors and their coefficients. Norms follow from
    :math:`\|v - r g\|^2 = \|v\|^2 - 2 r \langle v, g \rangle + r^2 \|g\|^2`, where :math:`\langle v, g \rangle` is
    the inner product of the group's potentials with their gradient.

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
        self.names, self.averaging = list(names), bool(averaging)
        self.kernels, self.views = list(kernels), list(views)
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
        """Running sums ``u_k`` of the averaged coefficients, (p, S, K); empty without an average."""
        return self._sums[:, : self.n_support]

    def recompute_norms(self) -> None:
        self.group_state.square_norms[:] = 0.0
        used = np.flatnonzero(~self.group_state.left_out).tolist()
        kernels, views = [self.kernels[k] for k in used], [self.views[k] for k in used]
        self.group_state.square_norms[used] = square_norms(
            kernels, views, self.supports, self.coefficients[used]
        )

    def averaged_coefficients(self) -> np.ndarray:
        """Return the averaged dual coefficients, (p, S, K), or the current ones without an average."""
        return self.group_state.average(
            self.coefficients, self.sums, lambda values: values[:, None, None]
        )

    def averaged(self) -> "FrozenExpansion":
        """Return the averaged groups as a frozen expansion."""
        return FrozenExpansion(self)

    def condensed(self) -> dict[str, np.ndarray]:
        coefficients = self.averaged_coefficients()
        used = coefficients.any(axis=(0, 2))
        supports = {f"support:{view}": support[used] for view, support in self.supports.items()}
        return {"coefficients": coefficients[:, used], "sums": self.sums[:, :0], **supports}

    def state(self) -> dict[str, np.ndarray]:
        supports = {f"support:{view}": support for view, support in self.supports.items()}
        return {"coefficients": self.coefficients, "sums": self.sums, **supports}


class KernelExpansion(KernelBank):
    r"""Kernel groups :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]`; every mistake
    adds support vectors.

    It reads the views of the tokens and adds to ``potentials.unary``. All kernels share the support
    vectors, and kernels on the same view share inner products. A round costs O(S) kernel values per
    token, where S is the size of the support.

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
        self._supports = {
            view: np.array(support, dtype=self.dtype) for view, support in supports.items()
        }
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
        return sum(
            array.nbytes for array in [*self._supports.values(), self._coefficients, self._sums]
        )

    def grow_outputs(self, n_outputs: int) -> None:
        more = ((0, 0), (0, 0), (0, n_outputs - self.n_outputs))
        self._coefficients, self._sums = np.pad(self._coefficients, more), np.pad(self._sums, more)
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
        among = self._values_among(x, moving)
        places = np.arange(len(moving))
        potentials = self._unscaled_potentials(x)
        groups = self.group_state.step
        if jit.measure(among, places, places, moving, gradient.unary, groups):
            jit.advance_norms(potentials, moving, gradient.unary, groups)
            self._move(x, moving, gradient.unary[moving], ~self.group_state.empty)

    def _activate(self, x: Span, gradient: Potentials) -> None:
        moving = jit.has_gradient(gradient.unary)
        self._move(x, moving, gradient.unary[moving], self.group_state.activated)

    def _unscaled_potentials(self, x: Span) -> np.ndarray:
        """Return ``K_k(x, support) A_k`` of every group, before scaling: (p, n, K)."""
        if self._scored is None or self._scored[0] is not x:
            self._scored = (x, self._expanded(x, self.coefficients))
        return self._scored[1]

    def add_both(self, x: Span, potentials: Potentials, average: Potentials) -> None:
        # kernel values take most of the time
        both = self._expanded(
            x, np.concatenate([self.coefficients, self.averaged_coefficients()], axis=2)
        )
        self._scored = x, np.ascontiguousarray(both[:, :, : self.n_outputs])
        self.add_potentials(x, potentials)
        average.unary[:] += both[:, :, self.n_outputs :].sum(axis=0)

    def _expanded(self, x: Span, coefficients: np.ndarray) -> np.ndarray:
        """Return ``K_k(x, support) A_k`` of every group for these coefficients, (p, n, K)."""
        values = np.zeros((len(self.names), len(x), coefficients.shape[2]))
        out = [None if left else part for left, part in zip(self.group_state.left_out, values)]
        if self._references is None:
            self._references = {view: Reference(support) for view, support in self.supports.items()}
        expand(self.kernels, self.views, x, self._references, coefficients, out)
        return values

    def _vectors(self, x: Span, moving: np.ndarray) -> dict[str, np.ndarray]:
        tokens = x.low + moving
        return {
            view: in_precision(x.tokens.views[view][tokens], self.dtype)
            for view in dict.fromkeys(self.views)
        }

    def _values_among(self, x: Span, moving: np.ndarray) -> np.ndarray:
        """Return the kernel values among the tokens ``moving``: (p, m, m)."""
        self._added = None
        pairs = {view: Pair(X, X) for view, X in self._vectors(x, moving).items()}
        values = np.zeros((len(self.names), len(moving), len(moving)))
        for k in np.flatnonzero(~self.group_state.left_out) if len(moving) else ():
            values[k] = self.kernels[k].between(pairs[self.views[k]])
        return values

    def _move(self, x: Span, moving: np.ndarray, D: np.ndarray, groups: np.ndarray) -> None:
        """Step along the gradient D (m, K) of the tokens ``moving`` in the groups of a mask."""
        if self._added is None:  # append support vectors with coefficients of zero
            rows, capacity = (
                slice(self.n_support, self.n_support + len(moving)),
                self._coefficients.shape[1],
            )
            if rows.stop > capacity:
                capacity = max(rows.stop, capacity + capacity // 2, 16)
                self._coefficients = lengthened(self._coefficients, capacity, axis=1)
                if self.averaging:
                    self._sums = lengthened(self._sums, capacity, axis=1)
            for view, X in self._vectors(x, moving).items():
                support = self._supports.get(view, np.zeros((0, X.shape[1]), dtype=self.dtype))
                self._supports[view] = support = lengthened(support, capacity, axis=0)
                support[rows] = X
            self.n_support, self._references, self._added = rows.stop, None, rows
        rates, averages = self.group_state.rates, self.group_state.averages
        for k in np.flatnonzero(groups):
            self._coefficients[k, self._added] = -rates[k] * D
            if self.averaging:
                self._sums[k, self._added] = averages[k] * rates[k] * D
        self.forget_input()

    def _scale_group(self, k: int, factor: float) -> None:
        self.group_state.fold(k, factor, self._coefficients[k], self._sums[k])
        self.forget_input()

    def mix(self, states: Sequence[dict[str, np.ndarray]], mixture: Mixture) -> None:
        # first mix the coefficients of the old support vectors, then append the vectors added by
        # each shard
        n, column = self.n_support, (slice(None), None, None)
        parts = [
            self.supports,
            *({view: X[n:] for view, X in support_of(state).items()} for state in states),
        ]
        views = dict.fromkeys(
            view for part in parts for view in part
        )  # a shard without support has no arrays
        weighted = [
            point[column] * state["coefficients"] for point, state in zip(mixture.points, states)
        ]
        arrays = [weighted]
        if self.averaging:
            shards = zip(mixture.averages, mixture.weights, states)
            arrays.append(
                [a[column] * state["coefficients"] + w * state["sums"] for a, w, state in shards]
            )
        arrays = [
            np.concatenate(
                [sum(own[:, :n] for own in shards), *(own[:, n:] for own in shards)], axis=1
            )
            for shards in arrays
        ]
        used = np.flatnonzero(np.any([array.any(axis=(0, 2)) for array in arrays], axis=0))
        supports = {
            view: np.concatenate([part[view] for part in parts if view in part])[used]
            for view in views
        }
        self.set_support(
            supports, arrays[0][:, used], arrays[-1][:, used if self.averaging else []]
        )
        self.recompute_norms()

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        supports = support_of(state)
        p, n_support, n_outputs = state["coefficients"].shape
        fits = (
            p == len(self.names)
            and n_outputs == self.n_outputs
            and state["sums"].shape[1] in (0, n_support)
        )
        self._check_fit(fits and all(len(support) == n_support for support in supports.values()))
        if supports:
            self.dtype = next(iter(supports.values())).dtype
        self.averaging = state["sums"].shape[1] > 0 or (n_support == 0 and self.averaging)
        self.set_support(supports, state["coefficients"], state["sums"])


class FrozenExpansion(FrozenGroups):
    """Averaged kernel groups for prediction, without support vectors and kernels of zero weight."""

    def __init__(self, bank: KernelBank) -> None:
        self.names, coefficients = list(bank.names), bank.averaged_coefficients()
        self._alive, used = (
            np.flatnonzero(coefficients.any(axis=(1, 2))).tolist(),
            coefficients.any(axis=(0, 2)),
        )
        self._kernels, self._views = (
            [bank.kernels[k] for k in self._alive],
            [bank.views[k] for k in self._alive],
        )
        #: Indices of the remaining support vectors.
        self.support_indices = np.flatnonzero(used)
        self._supports = {view: Reference(support[used]) for view, support in bank.supports.items()}
        self._coefficients = np.ascontiguousarray(
            coefficients[self._alive][:, used], dtype=bank.dtype
        )

    def group_nbytes(self) -> np.ndarray:
        """Return the bytes of each group, (p,): its coefficients, and its share of the common
        support vectors.
        """
        nbytes = np.zeros(len(self.names))
        for k, view, coefficients in zip(self._alive, self._views, self._coefficients):
            nbytes[k] = coefficients.nbytes + self._supports[view].X.nbytes / self._views.count(
                view
            )
        return nbytes

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        """Add the potentials of the groups; see :meth:`Bank.add_potentials`."""
        out = [potentials.unary if self._in_use(k) else None for k in self._alive]
        expand(self._kernels, self._views, x, self._supports, self._coefficients, out)

    def products_of_supports(
        self, x: Span, gradient: Potentials
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield name, contributions of support vectors to ``<theta_k, g_k>`` (S,), and these (S,
        d), of each kernel.
        """
        moving = np.flatnonzero(gradient.unary.any(axis=1))
        for k, kernel, view, A in zip(self._alive, self._kernels, self._views, self._coefficients):
            support = self._supports[view]
            block = np.ascontiguousarray(
                x.tokens.views[view][x.low + moving], dtype=support.X.dtype
            )
            values = kernel.between(Pair(block, support))
            yield (
                self.names[k],
                np.einsum("sj,sj->s", values.T @ gradient.unary[moving], A),
                support.X,
            )

    def recompute_norms(self) -> None:
        """Set ``||theta_k||^2`` in the group state: O(S^2) kernel values for S support vectors."""
        assert self.group_state is not None
        self.group_state.square_norms[:] = 0.0
        supports = {view: support.X for view, support in self._supports.items()}
        squares = square_norms(self._kernels, self._views, supports, self._coefficients)
        self.group_state.square_norms[self._alive] = squares


def square_norms(
    kernels: list[Kernel],
    views: list[str],
    supports: dict[str, np.ndarray],
    coefficients: np.ndarray,
) -> np.ndarray:
    """Return ``tr(A_k' K_k A_k)`` of each kernel, (p,), computed in blocks of support vectors."""
    squares, n_support = np.zeros(len(kernels)), coefficients.shape[1]
    if n_support == 0 or not kernels:
        return squares
    coefficients = coefficients.astype(np.float64, copy=False)
    for rows in row_blocks(n_support, n_support, supports[views[0]].dtype):
        pairs = {view: Pair(supports[view][rows], supports[view]) for view in dict.fromkeys(views)}
        for k, (kernel, view) in enumerate(zip(kernels, views)):
            squares[k] += np.vdot(
                coefficients[k, rows], kernel.between(pairs[view]) @ coefficients[k]
            )
    return squares


def expand(
    kernels: list[Kernel],
    views: list[str],
    x: Span,
    supports: dict[str, Reference],
    coefficients: np.ndarray,
    out: Sequence[np.ndarray | None],
) -> None:
    """Add ``K_k(x, support) A_k`` of each kernel to ``out[k]``, (n, K), unless it is None, in
    blocks of tokens.
    """
    n_support = coefficients.shape[1]
    used = [k for k, part in enumerate(out) if part is not None]
    if n_support == 0 or not used:
        return
    dtype = supports[views[0]].X.dtype
    for rows in row_blocks(len(x), n_support, dtype):
        tokens = slice(x.low + rows.start, x.low + rows.stop)
        block = {
            view: np.ascontiguousarray(x.tokens.views[view][tokens], dtype=dtype)
            for view in dict.fromkeys(views)
        }
        pairs = {view: Pair(X, supports[view]) for view, X in block.items()}
        for k in used:
            out[k][rows] += kernels[k].between(pairs[views[k]]) @ coefficients[k]  # type: ignore[index]


def support_of(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Extract the support vectors by view from the arrays of a state."""
    return {
        key.partition(":")[2]: array for key, array in state.items() if key.startswith("support:")
    }


class SupportBuffer:
    """Support vectors by their indices, and the few vectors at hand (the present input).

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
        """Set the vectors at hand, (m, d); pair them with themselves, then with the first support
        vectors.
        """
        m = len(X)
        if m > self.first:
            self.pad(m - self.first, 0)
        X = np.ascontiguousarray(X, dtype=self.columns.dtype)
        self._write(slice(self.first - m, self.first), X)
        return BufferPair(
            self,
            X,
            slice(self.first - m, self.first),
            slice(self.first - m, self.first + n_support),
        )

    def pair(self, which: np.ndarray, n_support: int) -> "BufferPair":
        """Pair the support vectors with indices ``which``, (m,), with the first ``n_support`` ones."""
        X = np.ascontiguousarray(self.columns[:, self.first + which].T)
        return BufferPair(self, X, self.first + which, slice(self.first, self.first + n_support))

    def keep(self, back: np.ndarray, index: np.ndarray) -> None:
        """Copy some vectors at hand to indices; ``back`` counts from the end: 1 is the last vector."""
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
        self.columns, self.roots = (
            np.pad(array, ((0, 0), (before, after))) for array in (self.columns, self.roots)
        )
        self.first += before


class BufferPair(Pair):
    """Some columns of a :class:`SupportBuffer`, ``rows``, against a range of columns, ``columns``."""

    def __init__(
        self, buffer: SupportBuffer, X: np.ndarray, rows: slice | np.ndarray, columns: slice
    ) -> None:
        self._buffer, self._rows, self._columns = buffer, rows, columns
        self._right = buffer.columns, columns.start, columns.stop
        # skip Pair.__init__: the arrays are already known to be dense and floating
        self.X, self.Y = X, buffer.columns[:, columns].T
        self.right = Reference(self.Y)

    products = cached_property(lambda self: compare(PRODUCTS, self.X, *self._right))
    squared_distances = cached_property(lambda self: compare(SQUARED, self.X, *self._right))
    manhattan_distances = cached_property(lambda self: compare(MANHATTAN, self.X, *self._right))
    chi_squared_distances = cached_property(lambda self: compare(CHI_SQUARED, self.X, *self._right))

    def inverse_roots(self, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        for roots, known in zip(self._buffer.roots, self._buffer.normalized):
            if known is kernel:
                return roots[self._rows], roots[self._columns]
        return super().inverse_roots(kernel)
