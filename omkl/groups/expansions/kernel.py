"""Kernel groups as dual expansions over a growing support: streams, and prediction."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omkl.exceptions import InputError
from omkl.groups.base import Bank, FrozenGroups
from omkl.groups.expansions._jit_kernel import gradient_norm, has_gradient
from omkl.groups.group_state import Mixture
from omkl.groups.tokens import Span, products_of
from omkl.kernels import Kernel, Pair
from omkl.kernels.inputs import Reference, in_precision, row_blocks
from omkl.structures.base import Potentials


class KernelBank(Bank):
    r"""Base class of banks of kernel groups :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]`.

    Parameters
    ----------
    names : list of str
    kernels : list of Kernel
        Fitted kernels.
    views : list of str
        The view of the tokens that each kernel reads.
    n_outputs : int
        Labels K.
    averaging : bool
        Whether the averaged coefficients are kept.
    dtype : float64 or float32
        Precision in which kernels are evaluated; coefficients and norms are float64.
    """

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

    @property
    def supports(self) -> dict[str, np.ndarray]:
        """Support vectors by view, (S, d)."""
        raise NotImplementedError

    @property
    def coefficients(self) -> np.ndarray:
        """Dual coefficients ``A_k`` before scaling, (p, S, K)."""
        raise NotImplementedError

    @property
    def sums(self) -> np.ndarray:
        """Running sums ``u_k`` of the averaged coefficients, (p, S, K); empty where no average is kept."""
        raise NotImplementedError

    def averaged_coefficients(self) -> np.ndarray:
        """Averaged dual coefficients, (p, S, K); the current ones where no average is kept."""
        return self.group_state.average(self.coefficients, self.sums, lambda values: values[:, None, None])

    def averaged(self) -> Any:
        """The averaged groups, frozen."""
        return FrozenExpansion(
            self.names, self.kernels, self.views, self.supports, self.averaged_coefficients(), self.dtype
        )


class KernelExpansion(KernelBank):
    r"""Kernel groups :math:`\theta_k = s_k \sum_i \psi_k(x_i) \otimes A_k[i, :]`; every mistake adds to the support.

    Reads the views of the tokens and adds to ``potentials.unary``. All kernels share the support vectors, and kernels
    on the same view their inner products. A round costs O(S) kernel values a token, S the size of the support.

    Parameters
    ----------
    names, kernels, views, n_outputs, averaging, dtype
        See :class:`KernelBank`.
    """

    abilities = frozenset({"mix", "grow", "condense"})

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.n_support = 0
        self._supports: dict[str, np.ndarray] = {}
        self._coefficients = np.zeros((len(self.names), 0, self.n_outputs))
        self._sums = np.zeros((len(self.names), 0, self.n_outputs))
        #: The latest input with its potentials, and vectors of the latest step that are not in the support yet.
        self._scored: tuple = (None, None)
        self._vectors: dict[str, np.ndarray] | None = None
        self._references: dict[str, Reference] | None = None  # as long as the support stays what it is
        #: ``||theta_k||^2`` of the average where support vectors do not tell kernel values among themselves, (p,).
        self.average_squares: np.ndarray | None = None

    @property
    def supports(self) -> dict[str, np.ndarray]:
        return {view: support[: self.n_support] for view, support in self._supports.items()}

    @property
    def coefficients(self) -> np.ndarray:
        return self._coefficients[:, : self.n_support]

    @property
    def sums(self) -> np.ndarray:
        return self._sums[:, : self.n_support]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [*self._supports.values(), self._coefficients, self._sums]
        return sum(array.nbytes for array in arrays)

    def set_support(self, supports: dict[str, np.ndarray], coefficients: np.ndarray, sums: np.ndarray) -> None:
        """Take support vectors by view, (S, d), and their coefficients and sums, (p, S, K)."""
        self._supports = {view: np.array(support, dtype=self.dtype) for view, support in supports.items()}
        self._coefficients = np.array(coefficients, dtype=np.float64)
        self._sums = np.array(sums, dtype=np.float64)
        self.n_support = self._coefficients.shape[1]
        self._scored, self._vectors, self.average_squares = (None, None), None, None
        self._references = None

    def restart(self) -> None:
        nothing = np.zeros((len(self.names), 0, self.n_outputs))
        self.set_support({}, nothing, nothing)

    def averaged(self) -> "FrozenExpansion":
        frozen: FrozenExpansion = super().averaged()
        frozen.known_squares = self.average_squares
        if self.average_squares is None and any(kernel.indexed for kernel in self.kernels):
            # the frozen support is cut to the indices of training inputs
            squares = square_norms(self.kernels, self.views, self.supports, self.averaged_coefficients())
            frozen.known_squares = squares
        return frozen

    def grow_outputs(self, n_outputs: int) -> None:
        more = ((0, 0), (0, 0), (0, n_outputs - self.n_outputs))
        self._coefficients, self._sums = np.pad(self._coefficients, more), np.pad(self._sums, more)
        self.n_outputs, self._scored = n_outputs, (None, None)

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        own = self._own_potentials(x)
        for k in np.flatnonzero(self.group_state.scales):
            potentials.unary[:] += self.group_state.scales[k] * own[k]

    def _own_potentials(self, x):
        """``V_k = K_k(x, support) A_k`` of every group, before scaling: (p, n, K)."""
        if self._scored[0] is not x:
            own = np.zeros((len(self.names), len(x), self.n_outputs))
            out = [None if left else part for left, part in zip(self.group_state.left_out, own)]
            if self._references is None:
                self._references = {view: Reference(support) for view, support in self.supports.items()}
            expand(self.kernels, self.views, x, self._references, self.coefficients, out)
            self._scored = (x, own)
        return self._scored[1]

    def inner_products(self, x: Span, gradient: Potentials, totals: np.ndarray | None) -> np.ndarray:
        return products_of(self._own_potentials(x), gradient.unary, totals)

    def step(self, x: Span, gradient: Potentials) -> None:
        group_state = self.group_state
        moving = has_gradient(gradient.unary)
        if not len(moving):
            group_state.square_gradients[:], group_state.square_norms[group_state.empty] = 0.0, 0.0
            return
        D = gradient.unary[moving]
        own = self._own_potentials(x)[:, moving]
        self._vectors = {
            view: in_precision(x.tokens.views[view][x.low + moving], self.dtype) for view in dict.fromkeys(self.views)
        }
        pairs = {view: Pair(X, X) for view, X in self._vectors.items()}
        local = np.arange(len(moving))
        for k, (kernel, view) in enumerate(zip(self.kernels, self.views)):
            if group_state.left_out[k]:
                group_state.square_gradients[k] = group_state.square_norms[k] = 0.0
                continue
            among = kernel.between(pairs[view]).astype(np.float64, copy=False)
            group_state.square_gradients[k] = gradient_norm(among, D, local)
            square = group_state.square_gradients[k] * group_state.rates[k] ** 2
            if group_state.empty[k]:
                group_state.square_norms[k] = square
            else:
                group_state.square_norms[k] += square - 2.0 * group_state.rates[k] * np.vdot(D, own[k])
        if not group_state.empty.all():
            self._move(D, np.flatnonzero(~group_state.empty))

    def _activate(self, x: Span, gradient: Potentials) -> None:
        self._move(gradient.unary[has_gradient(gradient.unary)], np.flatnonzero(self.group_state.activated))

    def _move(self, D, groups):
        """Step along the gradient of the moving tokens, which become support vectors where they are none yet."""
        rows = slice(self.n_support - len(D), self.n_support)
        if self._vectors is not None:
            rows = slice(self.n_support, self.n_support + len(D))
            for view, X in self._vectors.items():
                support = self._supports.get(view, np.zeros((0, X.shape[1]), dtype=self.dtype))
                self._supports[view] = _grown_to(support, rows.stop, axis=0)
                self._supports[view][rows] = X
            self._coefficients = _grown_to(self._coefficients, rows.stop, axis=1)
            if self.averaging:
                self._sums = _grown_to(self._sums, rows.stop, axis=1)
            self.n_support, self._vectors, self._references = rows.stop, None, None
        for k in groups:
            self._coefficients[k, rows] = -self.group_state.rates[k] * D
            if self.averaging:
                self._sums[k, rows] = self.group_state.averages[k] * self.group_state.rates[k] * D
        self._scored = (None, None)

    def _scale_group(self, k: int, factor: float) -> None:
        self.group_state.fold(k, factor, self._coefficients[k], self._sums[k])
        self._scored = (None, None)

    def recompute_norms(self) -> None:
        self.group_state.square_norms[:] = 0.0
        used = np.flatnonzero(~self.group_state.left_out).tolist()
        kernels, views = [self.kernels[k] for k in used], [self.views[k] for k in used]
        squares = square_norms(kernels, views, self.supports, self.coefficients[used])
        self.group_state.square_norms[used] = squares

    def blueprint(self) -> "Callable[[], KernelExpansion]":
        return partial(
            KernelExpansion, self.names, self.kernels, self.views, self.n_outputs, self.averaging, self.dtype
        )

    def mix(self, states: Sequence[dict[str, np.ndarray]], mixture: Mixture) -> None:
        # mixed coefficients of the support that there was, then what each shard has added
        n, column = self.n_support, (slice(None), None, None)
        parts = [self.supports, *({view: X[n:] for view, X in _supports(state).items()} for state in states)]
        views = dict.fromkeys(view for part in parts for view in part)  # a shard without support has no arrays
        weighted = [point[column] * state["coefficients"] for point, state in zip(mixture.points, states)]
        arrays = [weighted]
        if self.averaging:
            shards = zip(mixture.averages, mixture.weights, states)
            arrays.append([a[column] * state["coefficients"] + w * state["sums"] for a, w, state in shards])
        arrays = [
            np.concatenate([sum(own[:, :n] for own in shards), *(own[:, n:] for own in shards)], axis=1)
            for shards in arrays
        ]
        used = np.flatnonzero(np.any([array.any(axis=(0, 2)) for array in arrays], axis=0))
        supports = {view: np.concatenate([part[view] for part in parts if view in part])[used] for view in views}
        self.set_support(supports, arrays[0][:, used], arrays[-1][:, used if self.averaging else []])
        self.recompute_norms()

    def state(self) -> dict[str, np.ndarray]:
        supports = {f"support:{view}": support for view, support in self.supports.items()}
        known = {} if self.average_squares is None else {"average_squares": self.average_squares}
        return {"coefficients": self.coefficients, "sums": self.sums, **known, **supports}

    def condensed(self) -> dict[str, np.ndarray]:
        coefficients = self.averaged_coefficients()
        used = coefficients.any(axis=(0, 2))
        squares = self.averaged().known_squares
        supports = {f"support:{view}": support[used] for view, support in self.supports.items()}
        known = {} if squares is None else {"average_squares": squares}
        return {"coefficients": coefficients[:, used], "sums": self.sums[:, :0], **known, **supports}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        supports = _supports(state)
        p, n_support, n_outputs = state["coefficients"].shape
        fits = p == len(self.names) and n_outputs == self.n_outputs and state["sums"].shape[1] in (0, n_support)
        if not fits or any(len(support) != n_support for support in supports.values()):
            raise InputError("The arrays of a kernel expansion do not fit each other.")
        if supports:
            self.dtype = next(iter(supports.values())).dtype
        self.averaging = state["sums"].shape[1] > 0 or (n_support == 0 and self.averaging)
        self.set_support(supports, state["coefficients"], state["sums"])
        self.average_squares = state.get("average_squares")


def _supports(arrays):
    """Support vectors by view, from arrays by name."""
    return {key.partition(":")[2]: array for key, array in arrays.items() if key.startswith("support:")}


class FrozenExpansion(FrozenGroups):
    """Averaged kernel groups to predict with: support vectors and kernels without weight are left out."""

    #: ``||theta_k||^2``, (p,), where the support vectors do not tell kernel values among themselves.
    known_squares: np.ndarray | None = None

    def __init__(
        self,
        names: list[str],
        kernels: list[Kernel],
        views: list[str],
        supports: dict[str, np.ndarray],
        coefficients: np.ndarray,
        dtype: DTypeLike,
    ) -> None:
        self._alive = [k for k in range(len(names)) if coefficients[k].any()]
        used = coefficients.any(axis=(0, 2))
        self.names = list(names)
        self.dtype = dtype
        self._kernels = [kernels[k] for k in self._alive]
        self._views = [views[k] for k in self._alive]
        kept = [(kernel, view) for kernel, view in zip(kernels, views) if view in supports]
        #: Which of the support vectors are left.
        self.support_indices = np.flatnonzero(used)
        self._supports = {view: Reference(kernel.as_support(supports[view])[used]) for kernel, view in kept}
        self._coefficients = np.ascontiguousarray(coefficients[self._alive][:, used], dtype=dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._coefficients.nbytes + sum(support.nbytes for support in self._supports.values())

    def group_nbytes(self) -> np.ndarray:
        """Bytes of each group, (p,): its coefficients, and its part of the support vectors that kernels share."""
        nbytes = np.zeros(len(self.names))
        for k, view, coefficients in zip(self._alive, self._views, self._coefficients):
            nbytes[k] = coefficients.nbytes + self._supports[view].nbytes / self._views.count(view)
        return nbytes

    def add_potentials(self, x: Span, potentials: Potentials) -> None:
        used = [i for i, k in enumerate(self._alive) if self._in_use(k)]
        kernels, views = [self._kernels[i] for i in used], [self._views[i] for i in used]
        coefficients = self._coefficients if len(used) == len(self._alive) else self._coefficients[used]
        expand(kernels, views, x, self._supports, coefficients, [potentials.unary] * len(used))

    def products_of_supports(self, x: Span, gradient: Potentials) -> Iterator[tuple[str, np.ndarray]]:
        """For each kernel its name, and what each support vector adds to ``<theta_k, g_k>`` for a gradient: (S,)."""
        moving = np.flatnonzero(gradient.unary.any(axis=1))
        for k, kernel, view, A in zip(self._alive, self._kernels, self._views, self._coefficients):
            support = self._supports[view]
            block = np.ascontiguousarray(x.tokens.views[view][x.low + moving], dtype=support.X.dtype)
            values = kernel.between(Pair(block, support))
            yield self.names[k], np.einsum("sj,sj->s", values.T @ gradient.unary[moving], A)

    def recompute_norms(self) -> None:
        """Set ``||theta_k||^2`` in the group state: O(S^2) kernel values for S support vectors."""
        group_state: Any = self.group_state
        if self.known_squares is not None:
            group_state.square_norms[:] = self.known_squares
            return
        group_state.square_norms[:] = 0.0
        supports = {view: support.X for view, support in self._supports.items()}
        arguments = self._kernels, self._views, supports, self._coefficients
        group_state.square_norms[self._alive] = square_norms(*arguments)


def square_norms(
    kernels: list[Kernel], views: list[str], supports: dict[str, np.ndarray], coefficients: np.ndarray
) -> np.ndarray:
    """``tr(A_k' K_k A_k)`` of each kernel, (p,), block by block of the support vectors."""
    squares, n_support = np.zeros(len(kernels)), coefficients.shape[1]
    if n_support == 0 or not kernels:
        return squares
    coefficients = coefficients.astype(np.float64, copy=False)
    for rows in row_blocks(n_support, n_support, supports[views[0]].dtype):
        pairs = {view: Pair(supports[view][rows], supports[view]) for view in dict.fromkeys(views)}
        for k, (kernel, view) in enumerate(zip(kernels, views)):
            squares[k] += np.vdot(coefficients[k, rows], kernel.between(pairs[view]) @ coefficients[k])
    return squares


def expand(
    kernels: list[Kernel],
    views: list[str],
    x: Span,
    supports: dict[str, Reference],
    coefficients: np.ndarray,
    out: np.ndarray | Sequence[np.ndarray | None],
) -> None:
    """Add ``K_k(x, support) A_k`` to ``out[k]`` (n, K), unless it is None, for each kernel, in blocks of tokens."""
    n_support = coefficients.shape[1]
    if n_support == 0 or not kernels:
        return
    dtype = supports[views[0]].X.dtype
    for rows in row_blocks(len(x), n_support, dtype):
        tokens = slice(x.low + rows.start, x.low + rows.stop)
        block = {view: np.ascontiguousarray(x.tokens.views[view][tokens], dtype=dtype) for view in dict.fromkeys(views)}
        pairs = {view: Pair(X, supports[view]) for view, X in block.items()}
        for k, (kernel, view) in enumerate(zip(kernels, views)):
            part = out[k]
            if part is not None:
                part[rows] += kernel.between(pairs[view]) @ coefficients[k]


def _grown_to(array, length, axis):
    """The array with at least ``length`` entries along the axis; it grows by half, filled with zeros."""
    have = array.shape[axis]
    if length <= have:
        return array
    shape = list(array.shape)
    shape[axis] = max(length, have + have // 2, 16)
    grown = np.zeros(shape, dtype=array.dtype)
    grown[(slice(None),) * axis + (slice(0, have),)] = array
    return grown
