"""Kernel functions on vectors. Fitting a kernel returns a copy with the learned attributes.

Kernels with the same inputs share work: they are evaluated on a :class:`~omkl.kernels.Pair`, which
computes the matrix of inner products (or distances) once for all kernels.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise
from math import comb, factorial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from omkl._components import check_number
from omkl.exceptions import InputError
from omkl.kernels.base import Kernel, fitted_value
from omkl.kernels.inputs import Pair, Vectors, median_distance, squared_distances

#: Largest degree of polynomials: every degree takes one product per entry, and most higher powers
#: overflow.
LARGEST_DEGREE = 1000


@dataclass(eq=False, repr=False)
class Linear(Kernel):
    r""":math:`k(x, y) = x^\top y`.

    >>> Linear(normalize=None)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    aliases = {"linear": {}}
    semidefinite = compares_sparse = maps_sparse = entrywise = True

    _: KW_ONLY
    normalize: str | None = "diagonal"

    def raw(self, pair: Pair) -> np.ndarray:
        return pair.products.copy()

    def raw_diagonal(self, X: Vectors) -> np.ndarray:
        return _squares(X)

    def feature_count(self, n_columns: int) -> int | None:
        return n_columns

    def raw_features(self, X: Vectors) -> Vectors:
        return X

    def part_name(self, i: int, column: Callable[[int], str], n_columns: int) -> str:
        return column(i)


@dataclass(eq=False, repr=False)
class Polynomial(Kernel):
    r""":math:`k(x, y) = (\gamma x^\top y + c)^d`.

    The names ``"quadratic"`` and ``"cubic"`` set the degree.

    Parameters
    ----------
    degree : int from 1 to 1000
    coef0 : float >= 0
        The constant c, which adds terms of lower degree.
    gamma : float > 0
    """

    aliases = {"polynomial": {}, "quadratic": {"degree": 2}, "cubic": {"degree": 3}}
    semidefinite = compares_sparse = entrywise = True

    degree: int = 2
    coef0: float = 1.0
    gamma: float = 1.0
    _: KW_ONLY
    normalize: str | None = "diagonal"

    def _prepare(self) -> None:
        check_number("degree", self.degree, above=0, below=LARGEST_DEGREE + 1, integer=True)
        check_number("gamma", self.gamma, above=0)
        check_number("coef0", self.coef0, least=0)
        self.degree = int(self.degree)
        self.coef0 = float(self.coef0)
        self.gamma = float(self.gamma)

    def raw(self, pair: Pair) -> np.ndarray:
        base = pair.products * self.gamma
        base += self.coef0
        return _integer_power(base, self.degree)

    def raw_diagonal(self, X: Vectors) -> np.ndarray:
        # callers reject values that overflow
        with np.errstate(over="ignore"):
            return _integer_power(self.gamma * _squares(X) + self.coef0, self.degree)

    def feature_count(self, n_columns: int) -> int | None:
        return comb(n_columns + self.degree, self.degree)

    def raw_features(self, X: Vectors) -> Vectors:
        with_constant = np.empty((len(X), X.shape[1] + 1))
        np.multiply(np.sqrt(self.gamma), X, out=with_constant[:, :-1])
        with_constant[:, -1] = np.sqrt(self.coef0)
        monomials = _monomials(X.shape[1] + 1, self.degree)
        features = with_constant[:, monomials.columns[0]]
        for columns in monomials.columns[1:]:
            features *= with_constant[:, columns]
        features *= monomials.roots
        return features

    def part_name(self, i: int, column: Callable[[int], str], n_columns: int) -> str:
        powers = Counter(_monomials(n_columns + 1, self.degree).columns[:, i].tolist())
        powers.pop(n_columns, None)  # the constant
        factors = []
        for j, power in powers.items():
            factor = column(j)
            if power != 1:
                factor = f"{factor}^{power}"
            factors.append(factor)
        return " * ".join(factors) or "constant"


class Monomials(NamedTuple):
    """The D monomials of one degree: features of a polynomial kernel.

    ``columns`` (degree, D) holds the columns whose product a monomial is; ``roots`` (D,) are the
    roots of the multinomial coefficients.
    """

    columns: np.ndarray
    roots: np.ndarray


@lru_cache(maxsize=16)
def _monomials(n_columns: int, degree: int) -> Monomials:
    """Return all monomials of a degree."""
    columns = np.array(list(combinations_with_replacement(range(n_columns), degree))).T
    n_monomials = columns.shape[1]
    # the coefficient is degree! divided by the factorial of each power, that is by 1, 2, ... along
    # each run of equal columns
    coefficients = np.full(n_monomials, float(factorial(degree)))
    runs = np.ones(n_monomials)
    for earlier, later in pairwise(columns):
        runs = np.where(later == earlier, runs + 1.0, 1.0)
        coefficients /= runs
    return Monomials(columns=np.ascontiguousarray(columns), roots=np.sqrt(coefficients))


def _squares(X: Vectors) -> np.ndarray:
    """Return the squared lengths (n,) of the rows of an array or CSR matrix (n, d)."""
    if sparse.issparse(X):
        # unlike X.power(2), correct for duplicate entries
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)


def _integer_power(base: np.ndarray, degree: int) -> np.ndarray:
    """Return the power of each entry, a new array, by products alone."""
    power = base.copy()
    for _ in range(degree - 1):
        power *= base
    return power


@dataclass(eq=False, repr=False)
class Gaussian(Kernel):
    r""":math:`k(x, y) = \exp(-\|x - y\|^2 / (2 \sigma^2))`.

    Parameters
    ----------
    sigma2 : float > 0 or "median"
        The variance :math:`\sigma^2`, in squared units of the inputs; "median" takes half the
        median squared distance of distinct training inputs, see
        :func:`~omkl.kernels.median_distance`, in any units.
    """

    aliases = {"gaussian": {}, "rbf": {}}
    semidefinite = compares_sparse = entrywise = unit_diagonal = True

    sigma2: float | str = "median"

    def _prepare(self) -> None:
        self.width_ = _width("sigma2", self.sigma2)

    def _learn(self, X: Vectors) -> None:
        if self.sigma2 == "median":
            self.width_ = 0.5 * median_distance(X, squared_distances)

    def raw(self, pair: Pair) -> np.ndarray:
        matrix = pair.squared_distances * (-0.5 / fitted_value(self.width_, self))
        return np.exp(matrix, out=matrix)

    def frequencies(self, generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        # normal vectors, orthogonal within blocks of d (Yu et al. 2016, orthogonal random features)
        n_frequencies, d = shape
        blocks = []
        for first in range(0, n_frequencies, max(d, 1)):
            n_vectors = min(d, n_frequencies - first)
            basis, triangle = np.linalg.qr(generator.standard_normal((d, n_vectors)))
            # with these signs the basis is uniform over all rotations
            signs = np.sign(np.diagonal(triangle))
            lengths = np.sqrt(generator.chisquare(d, size=n_vectors)) * signs
            blocks.append((basis * lengths).T)
        return np.concatenate(blocks) / np.sqrt(fitted_value(self.width_, self))


@dataclass(eq=False, repr=False)
class Laplacian(Kernel):
    r""":math:`k(x, y) = \exp(-\|x - y\|_1 / \sigma)`.

    Parameters
    ----------
    sigma : float > 0 or "median"
        The width, in units of the inputs; "median" takes the median city-block distance of distinct
        training inputs.
    """

    aliases = {"laplacian": {}}
    semidefinite = entrywise = unit_diagonal = True

    sigma: float | str = "median"

    def _prepare(self) -> None:
        self.width_ = _width("sigma", self.sigma)

    def _learn(self, X: Vectors) -> None:
        if self.sigma == "median":
            self.width_ = median_distance(X, lambda pair: pair.manhattan_distances)

    def raw(self, pair: Pair) -> np.ndarray:
        return np.exp(pair.manhattan_distances / -fitted_value(self.width_, self))

    def frequencies(self, generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return generator.standard_cauchy(shape) / fitted_value(self.width_, self)


@dataclass(eq=False, repr=False)
class ChiSquared(Kernel):
    r""":math:`k(x, y) = \exp(-\gamma \sum_i (x_i - y_i)^2 / (x_i + y_i))`, for histograms.

    Inputs must have no negative entries.

    Parameters
    ----------
    gamma : float > 0 or "median"
        Inverse width, in inverse units of the inputs; "median" takes the inverse of the median
        chi-squared distance between distinct training inputs.
    """

    aliases = {"chi2": {}, "chi-squared": {}}
    semidefinite = entrywise = unit_diagonal = True

    gamma: float | str = "median"

    def _prepare(self) -> None:
        self.width_ = None
        gamma = _width("gamma", self.gamma)
        if gamma is not None:
            self.width_ = 1.0 / gamma

    def _learn(self, X: Vectors) -> None:
        if np.any(X < 0):
            raise InputError(
                "The chi-squared kernel is for histograms: its inputs must not be negative."
            )
        if self.gamma == "median":
            self.width_ = median_distance(X, lambda pair: pair.chi_squared_distances)

    def raw(self, pair: Pair) -> np.ndarray:
        factor = pair.X.dtype.type(-1.0 / fitted_value(self.width_, self))
        return np.exp(pair.chi_squared_distances * factor)


@dataclass(eq=False, repr=False)
class B1Spline(Kernel):
    r"""Generalised B1 spline :math:`k(x, y) = \max(0, 1 - \|x - y\| / h)`: compact support.

    Parameters
    ----------
    h : float > 0, optional
        Radius of the support, a Euclidean distance.
    density : float in (0, 1], optional
        If h is None: the fraction of pairs of training inputs with a nonzero value; h is this
        quantile of their distances. By default 5%, as in section 4 of Martins et al. (2011).

    Notes
    -----
    In more than one dimension this function may not be positive semidefinite; it is used as in the
    paper.
    """

    aliases = {"b1": {}, "b1-spline": {}}
    unit_diagonal = True

    h: float | None = None
    density: float = 0.05

    def _prepare(self) -> None:
        check_number("density", self.density, above=0, below=1 + 1e-12)
        self.width_ = None
        if self.h is not None:
            self.width_ = _width("h", self.h)

    def _learn(self, X: Vectors) -> None:
        if self.h is None:
            self.width_ = median_distance(X, squared_distances, self.density) ** 0.5

    def raw(self, pair: Pair) -> np.ndarray:
        # a distance near zero has half the digits of its square: only three in float32
        exact = pair
        if pair.X.dtype != np.float64:
            exact = Pair(pair.X.astype(np.float64), pair.Y.astype(np.float64))
        matrix = np.sqrt(exact.squared_distances)
        matrix *= -1.0 / fitted_value(self.width_, self)
        matrix += 1.0
        return np.maximum(matrix, 0.0, out=matrix).astype(pair.X.dtype, copy=False)


@dataclass(eq=False, repr=False)
class Custom(Kernel):
    """User-defined kernel: ``function(X, Y)`` returns the matrix (n, m) of two sets of vectors.

    Parameters
    ----------
    function : callable
    label : str, optional
        Name of the kernel; by default the name of the function.

    >>> Custom(lambda X, Y: np.minimum(X, Y.T))([[1.0], [3.0]])
    array([[1., 1.],
           [1., 3.]])
    """

    function: Callable[[np.ndarray, np.ndarray], np.ndarray]
    label: str | None = None

    def _prepare(self) -> None:
        self.label = self.label or getattr(self.function, "__name__", "custom")

    @property
    def name(self) -> str:
        return str(self.label)

    def raw(self, pair: Pair) -> np.ndarray:
        matrix = np.array(self.function(pair.X, pair.Y), dtype=np.float64)
        n_rows = len(pair.X)
        n_columns = len(pair.Y)
        if matrix.shape != (n_rows, n_columns):
            raise InputError(
                f"The kernel {self.name} returned shape {matrix.shape} for {n_rows} x {n_columns} "
                "inputs."
            )
        return matrix


def _width(name: str, value: float | str) -> float | None:
    """Return a width as a float, or None if it is learned from data."""
    if value == "median":
        return None
    check_number(name, value, above=0)
    return float(value)
