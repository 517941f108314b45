"""Kernels from strings, functions, columns and papers; averages and products of kernels."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from scipy import sparse

from omkl._components import as_random_state, resolve, split_settings
from omkl.exceptions import InputError
from omkl.kernels.base import Kernel
from omkl.kernels.feature_maps import approximated
from omkl.kernels.functions import Custom, Gaussian, Polynomial
from omkl.kernels.gram import check_kernel_names
from omkl.kernels.inputs import Pair, Vectors

if TYPE_CHECKING:
    from pandas import DataFrame

#: Specification of a kernel: an object, a short string, or a function of two arrays.
KernelSpec: TypeAlias = Kernel | str | Callable[[np.ndarray, np.ndarray], np.ndarray]
#: Kernels as given by users.
KernelSpecs: TypeAlias = KernelSpec | Sequence[KernelSpec] | Mapping[str, KernelSpec]
#: Columns by name or position, their number, or a table of them.
ColumnsLike: TypeAlias = (
    "Sequence[str | int] | int | np.ndarray | sparse.sparray | sparse.spmatrix | DataFrame"
)
#: Bandwidths of the experiments of Suzuki and Tomioka (2011), taken from Rakotomamonjy et al.
#: (2008).
BANDWIDTHS = (0.1, 0.25, 0.5, 0.75, *range(1, 21))
#: Settings of a string that approximate a kernel.
OF_APPROXIMATIONS = ("features", "map", "seed")


def as_kernel(spec: KernelSpec) -> Kernel:
    """Return a kernel from an object, a short string, or a function of two arrays.

    Parameters
    ----------
    spec : Kernel, str or callable
        A string such as ``"gaussian:sigma2=5"``.
    """
    if callable(spec) and not isinstance(spec, Kernel):
        return Custom(spec)
    if not isinstance(spec, str):
        return resolve(Kernel, spec, "kernel")
    name, approximation = split_settings(spec, OF_APPROXIMATIONS, "kernel")
    kernel = resolve(Kernel, name, "kernel", OF_APPROXIMATIONS)
    if approximation:
        kernel = approximated(kernel, **approximation)
    return kernel


@dataclass(eq=False, repr=False)
class Average(Kernel):
    """Unweighted average of several kernels, a baseline for MKL.

    Parameters
    ----------
    kernels : sequence of Kernel or str
        Their ``on`` counts within the columns that the average is on.

    Examples
    --------
    >>> Average(["linear", "quadratic:on=0:2"]).name
    'average(linear, quadratic:on=0:2)'
    """

    kernels: Sequence[KernelSpec]

    def _prepare(self) -> None:
        self.kernels = [as_kernel(kernel) for kernel in self.kernels]

    @property
    def name(self) -> str:
        return f"average({', '.join(kernel.name for kernel in self.kernels)})"

    def placed(self, n_columns: int, names: Sequence[str] | None = None) -> Self:
        placed = super().placed(n_columns, names)
        columns = self.places(n_columns, names)
        names_of_columns = None
        if names is not None:
            names_of_columns = [names[j] for j in columns]
        placed.kernels = [kernel.placed(len(columns), names_of_columns) for kernel in self.kernels]
        return placed

    def _learn(self, X: Vectors) -> None:
        self.kernels = [kernel.fit(X) for kernel in self.kernels]

    def raw(self, pair: Pair) -> np.ndarray:
        # kernels on all columns see the pair itself
        pairs: dict[tuple[str, bool | str], Pair] = {("None", False): pair}
        for kernel in self.kernels:
            if kernel.view_key not in pairs:
                pairs[kernel.view_key] = Pair(kernel.view(pair.X), kernel.view(pair.Y))
        return self._joined(kernel.between(pairs[kernel.view_key]) for kernel in self.kernels)

    def raw_diagonal(self, X: Vectors) -> np.ndarray:
        return self._joined(kernel.diagonal(kernel.view(X)) for kernel in self.kernels)

    def _joined(self, values: Iterable[np.ndarray]) -> np.ndarray:
        """Return the average of the kernels' values, arrays of one shape."""
        return reduce(np.add, values) / len(self.kernels)


class Product(Average):
    """Product of several kernels; of kernels on two columns, it learns how the columns interact.

    Parameters
    ----------
    kernels : sequence of Kernel or str
        Their ``on`` counts within the columns that the product is on.

    Examples
    --------
    >>> Product(["linear:on=0", "gaussian:on=1"], on=["age", "income"]).name
    'product(linear:on=0, gaussian:on=1)'
    """

    @property
    def name(self) -> str:
        return super().name.replace("average", "product", 1)

    def _joined(self, values: Iterable[np.ndarray]) -> np.ndarray:
        return reduce(np.multiply, values)


def per_column(
    kernel: KernelSpec, columns: ColumnsLike, pairs: Iterable[Sequence[str | int]] = ()
) -> dict[str, Kernel]:
    """Return one kernel per column, so that multiple kernel learning selects columns, in any units.

    Parameters
    ----------
    kernel : Kernel, str or callable
        Kernel of every column, which it sees standardized, unless ``columns`` is a sparse matrix. A
        width learned from data is learned for each column.
    columns : data frame, array or sparse matrix of shape (n, d), list of names or positions, or int
        Training data, or its columns, or their number. Non-numeric columns of a data frame are
        skipped.
    pairs : list of (str or int, str or int)
        Pairs of columns that get the :class:`Product` of their kernels as well, such as those of
        :meth:`~omkl.MKLClassifier.missing_pairs`.

    Returns
    -------
    dict of str to Kernel
        By the name of the column, or ``"column 0"``, ``"column 1"``, ...; pairs as ``"age x
        income"``.

    Examples
    --------
    >>> per_column("gaussian", ["age", "income"])
    {'age': Gaussian(on='age', standardize=True), 'income': Gaussian(on='income', standardize=True)}
    """
    kernel = as_kernel(kernel)
    if kernel.on is not None:
        raise InputError(f"The kernel {kernel.name!r} has columns already: leave out its on=.")
    is_sparse = sparse.issparse(columns)
    kernels = {}
    for column in _listed_columns(columns):
        kernels[column_label(column)] = kernel.restricted(column)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or pair[0] == pair[1]:
            raise InputError(f"pairs must hold pairs of two different columns, got {pair!r}.")
        product = Product([kernel.restricted(0), kernel.restricted(1)], on=list(pair))
        kernels[" x ".join(map(column_label, pair))] = product
    for kernel_of_column in kernels.values():
        kernel_of_column.standardize = kernel_of_column.standardize or not is_sparse
    return kernels


def _listed_columns(columns: ColumnsLike) -> list[str | int]:
    """Return the columns of :func:`per_column` by name or position."""
    if hasattr(columns, "columns"):
        return _numeric_columns(columns)
    if isinstance(columns, int):
        columns = range(columns)
    elif getattr(columns, "ndim", 1) == 2:
        columns = range(columns.shape[1])
    return [column if isinstance(column, str) else int(column) for column in columns]


def _numeric_columns(frame: "DataFrame") -> list[str | int]:
    """Return the columns of numbers of a data frame by name, or by position if it is no string."""
    columns: list[str | int] = []
    for k, name in enumerate(frame.columns):
        with suppress(TypeError, ValueError):
            np.asarray(frame[name], dtype=np.float64)
            if isinstance(name, str):
                columns.append(name)
            else:
                columns.append(k)
    return columns


def column_label(column: str | int) -> str:
    """Return the name of a column, or ``"column 0"`` for its position."""
    if isinstance(column, str):
        return column
    return f"column {column}"


def variable_kernels(n_columns: int) -> Iterator[Kernel]:
    """Yield the kernels of Suzuki and Tomioka's (2011) experiments: 27 per variable, and 27 on all.

    24 Gaussians with bandwidths 0.1, 0.25, 0.5, 0.75, 1, 2 .. 20 and polynomials of degree 1 to 3,
    with unit trace.

    Parameters
    ----------
    n_columns : int >= 1

    Yields
    ------
    Kernel
        27 (n_columns + 1) kernels.

    Examples
    --------
    >>> len(list(variable_kernels(60)))
    1647
    """
    single_columns = [slice(j, j + 1) for j in range(n_columns)]
    for on in [*single_columns, None]:
        for bandwidth in BANDWIDTHS:
            yield Gaussian(sigma2=float(bandwidth) ** 2, normalize="trace", on=on)
        for degree in (1, 2, 3):
            yield Polynomial(degree=degree, normalize="trace", on=on)


def random_subset_gaussians(
    n_kernels: int,
    n_columns: int,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
    normalize: str | None = "trace",
) -> Iterator[Gaussian]:
    r"""Yield Gaussian kernels on random subsets of the variables, as in Suzuki and Tomioka (2011).

    The bandwidth is :math:`\sigma = 5 \chi^2_1 + 0.1`; the subset has a uniformly random size.

    Parameters
    ----------
    n_kernels, n_columns : int >= 1
    random_state : int, Generator, RandomState or None
    normalize : str or None
        See :class:`~omkl.kernels.Kernel`.

    Yields
    ------
    Gaussian
    """
    random = as_random_state(random_state)
    for _ in range(n_kernels):
        bandwidth = 5.0 * random.chisquare(1) + 0.1
        columns = random.permutation(n_columns)[: random.randint(1, n_columns + 1)]
        yield Gaussian(sigma2=bandwidth**2, normalize=normalize, on=tuple(sorted(columns.tolist())))


# ---- lists and dicts -----------------------------------------------------------------------------


def named_kernels(specs: KernelSpecs) -> list[tuple[str, Kernel]]:
    """Return ``(name, kernel)`` of each spec; a string is its own name."""
    listed = _listed(specs)
    kernels = list(map(as_kernel, listed))
    if isinstance(specs, Mapping):
        check_kernel_names(specs)
        return list(zip(specs, kernels))
    names = []
    for spec, kernel in zip(listed, kernels):
        if isinstance(spec, str):
            names.append(spec)
        else:
            names.append(kernel.name)
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise InputError(
            f"Two kernels are called {repeated[0]!r}: name them, as in kernels={{'first': ...}}."
        )
    return list(zip(names, kernels))


def _listed(specs: KernelSpecs) -> list[KernelSpec]:
    """Return the kernels of a list or dict, or a single one, as a list."""
    if isinstance(specs, (str, Kernel)) or callable(specs):
        return [specs]
    if isinstance(specs, Mapping):
        return list(specs.values())
    if isinstance(specs, Sequence):
        return list(specs)
    raise InputError(f"kernels must be a list or dict of kernels, or one of them, got {specs!r}.")


def reads_sparse(kernel: Kernel) -> bool:
    """Check whether a kernel has features of sparse input."""
    return kernel.maps_sparse and kernel.explicit is not False and not kernel.standardize


def takes_sparse(specs: KernelSpecs | None, takes: Callable[[Kernel], bool] = reads_sparse) -> bool:
    """Check whether all these kernels support sparse input, each by ``takes(kernel)``."""
    try:
        return specs is None or all(map(takes, map(as_kernel, _listed(specs))))
    except InputError:
        return False
