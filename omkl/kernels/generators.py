"""Families of kernels on which multiple kernel learning is compared, as kernel objects: no matrix is made here."""

from sklearn.utils import check_random_state

from omkl.exceptions import InputError
from omkl.kernels.functions import Gaussian, Polynomial

#: Bandwidths of section 6.1 of Suzuki and Tomioka (2011), taken from Rakotomamonjy et al. (2008).
BANDWIDTHS = (0.1, 0.25, 0.5, 0.75, *range(1, 21))


def variable_kernels(n_columns):
    """The kernels of section 6.1 of Suzuki and Tomioka (2011): 27 on each variable, and 27 on all of them.

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


def random_subset_gaussians(n_kernels, n_columns, random_state=None, normalize="trace"):
    r"""The kernels of section 6.2 of Suzuki and Tomioka (2011): Gaussians on random subsets of the variables.

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
