"""Families of kernels on which multiple kernel learning is compared, as kernel objects: no matrix is made here."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from omkl.exceptions import InputError
from omkl.kernels.base import Kernel
from omkl.kernels.functions import Gaussian, KernelSpec, Polynomial, as_kernel

#: Bandwidths of the experiments of Suzuki and Tomioka (2011), taken from Rakotomamonjy et al. (2008).
BANDWIDTHS = (0.1, 0.25, 0.5, 0.75, *range(1, 21))


def per_column(kernel: KernelSpec, columns: Any) -> dict[str, Kernel]:
    """One kernel for each column: multiple kernel learning then tells which columns matter, in whatever units they are.

    Parameters
    ----------
    kernel : Kernel, str or callable
        The kernel that every column gets; a width that it takes from data is each column's own.
    columns : data frame, array or sparse matrix of shape (n, d), list of names or positions, or int
        What is learned from, or its columns, or how many there are. Of a data frame those that hold numbers.

    Returns
    -------
    dict of str to Kernel
        By the name of the column, or ``"column 0"``, ``"column 1"``, ...

    Examples
    --------
    >>> per_column("gaussian", ["age", "income"])
    {'age': Gaussian(on='age'), 'income': Gaussian(on='income')}
    """
    kernel = as_kernel(kernel)
    if kernel.on is not None:
        raise InputError(f"The kernel {kernel.name!r} has columns already: leave out its on=.")
    if isinstance(columns, int):
        columns = range(columns)
    elif hasattr(columns, "columns"):
        names = list(enumerate(columns.columns))
        columns = [name if isinstance(name, str) else k for k, name in names if _is_numeric(columns, name)]
    elif getattr(columns, "ndim", 1) == 2:
        columns = range(columns.shape[1])
    chosen = [column if isinstance(column, str) else int(column) for column in columns]
    return {c if isinstance(c, str) else f"column {c}": kernel.restricted(c) for c in chosen}


def per_block(transformer: Any, kernel: KernelSpec) -> dict[str, Kernel]:
    """One kernel for each block of columns that a ``ColumnTransformer`` makes.

    Parameters
    ----------
    transformer : sklearn.compose.ColumnTransformer
        Where it is fitted, blocks are by position. Where it is not, as in a pipeline that is still to be fitted, they
        are by name, which its output must have: ``transformer.set_output(transform="pandas")``.
    kernel : Kernel, str or callable

    Returns
    -------
    dict of str to Kernel
        By the name of the block; blocks without columns are left out.

    Examples
    --------
    >>> from sklearn.compose import ColumnTransformer
    >>> from sklearn.preprocessing import StandardScaler
    >>> scaled = ColumnTransformer([("body", StandardScaler(), [0, 1]), ("lab", StandardScaler(), [2])])
    >>> per_block(scaled, "gaussian")
    {'body': Gaussian(on='body__*'), 'lab': Gaussian(on='lab__*')}
    >>> per_block(scaled.fit(np.eye(3)), "gaussian")
    {'body': Gaussian(on=slice(0, 2, None)), 'lab': Gaussian(on=slice(2, 3, None))}
    """
    kernel = as_kernel(kernel)
    if hasattr(transformer, "output_indices_"):
        blocks = transformer.output_indices_
        return {name: kernel.restricted(block) for name, block in blocks.items() if block.start < block.stop}
    if not transformer.verbose_feature_names_out:
        raise InputError("Blocks are found by the names of columns: fit the transformer before, or let it make names.")
    blocks = [name for name, step, _ in transformer.transformers if not isinstance(step, str) or step != "drop"]
    rest = [] if isinstance(transformer.remainder, str) and transformer.remainder == "drop" else ["remainder"]
    return {name: kernel.restricted(f"{name}__*") for name in blocks + rest}


def _is_numeric(frame, name):
    try:
        np.asarray(frame[name], dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def variable_kernels(n_columns: int) -> Iterator[Kernel]:
    """The kernels of the experiments of Suzuki and Tomioka (2011): 27 on each variable, and 27 on all of them.

    24 Gaussians with bandwidths 0.1, 0.25, 0.5, 0.75, 1, 2 .. 20 and polynomials of degree 1 to 3, with unit trace.

    Parameters
    ----------
    n_columns : int >= 1

    Yields
    ------
    Kernel
        27 (n_columns + 1) of them.

    >>> len(list(variable_kernels(60)))
    1647
    """
    for column in [*range(n_columns), None]:
        on = None if column is None else slice(column, column + 1)
        for bandwidth in BANDWIDTHS:
            yield Gaussian(sigma2=float(bandwidth) ** 2, normalize="trace", on=on)
        for degree in (1, 2, 3):
            yield Polynomial(degree=degree, normalize="trace", on=on)


def random_subset_gaussians(
    n_kernels: int,
    n_columns: int,
    random_state: int | np.random.RandomState | None = None,
    normalize: str | None = "trace",
) -> Iterator[Gaussian]:
    r"""Thousands of kernels, as of Suzuki and Tomioka (2011): Gaussians on random subsets of the variables.

    The bandwidth is :math:`\sigma = 5 \chi^2_1 + 0.1`; the subset has a uniformly random size.

    Parameters
    ----------
    n_kernels, n_columns : int >= 1
    random_state : int, numpy RandomState or None
    normalize : str or None
        As for every kernel.

    Yields
    ------
    Gaussian
    """
    if n_columns < 1:
        raise InputError(f"Random subsets need at least one column, not {n_columns}.")
    random = check_random_state(random_state)
    for _ in range(n_kernels):
        bandwidth = 5.0 * random.chisquare(1) + 0.1
        columns = random.permutation(n_columns)[: random.randint(1, n_columns + 1)]
        yield Gaussian(sigma2=bandwidth**2, normalize=normalize, on=tuple(sorted(columns.tolist())))
