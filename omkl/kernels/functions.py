"""Kernel functions on vectors. A kernel is a value: parameters in, a matrix out; what it learns from data is explicit.

Kernels that share inputs share work: they are evaluated on a :class:`~omkl.kernels.base.Pair`, which computes the
matrix of inner products (or distances) once, however many kernels ask for it.
"""

from itertools import combinations_with_replacement
from math import comb, factorial
from typing import ClassVar

import numpy as np
from scipy import sparse

from omkl._components import resolve, split_settings
from omkl.exceptions import InputError
from omkl.kernels.base import Kernel, Pair
from omkl.kernels.feature_maps import approximated


class Linear(Kernel):
    r""":math:`k(x, y) = x^\top y`.

    >>> Linear(normalize=None)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    aliases = {"linear": {}}

    def __init__(self, normalize="diagonal", on=None, explicit=None):
        super().__init__(normalize, on, explicit)

    def raw(self, pair):
        return pair.products.copy()

    def raw_diagonal(self, X):
        if sparse.issparse(X):
            # where no column is there twice, squaring entries is enough
            squares = X.power(2) if X.has_canonical_format else X.multiply(X)
            return np.asarray(squares.sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", X, X)

    def feature_count(self, n_columns):
        return n_columns

    def raw_features(self, X):
        return X


class Polynomial(Kernel):
    r""":math:`k(x, y) = (\gamma x^\top y + c)^d`; the names ``"quadratic"`` and ``"cubic"`` set the degree.

    Parameters
    ----------
    degree : int >= 1
    coef0 : float >= 0
        The constant c, which mixes in the lower degrees.
    gamma : float > 0
    """

    aliases = {"polynomial": {}, "quadratic": {"degree": 2}, "cubic": {"degree": 3}}

    def __init__(self, degree=2, coef0=1.0, gamma=1.0, normalize="diagonal", on=None, explicit=None):
        if not (degree >= 1 and degree == int(degree) and coef0 >= 0 and gamma > 0):
            raise InputError(
                f"Polynomial needs an integer degree >= 1, coef0 >= 0 and gamma > 0, not {degree!r}, "
                f"{coef0!r} and {gamma!r}."
            )
        super().__init__(normalize, on, explicit)
        self.degree = int(degree)
        self.coef0 = float(coef0)
        self.gamma = float(gamma)

    @property
    def name(self):
        nickname = {2: "quadratic", 3: "cubic"}.get(self.degree)
        return self._components(nickname, "degree") if nickname else self._components("polynomial")

    def raw(self, pair):
        base = pair.products * self.gamma
        base += self.coef0
        return _integer_power(base, self.degree)

    def raw_diagonal(self, X):
        return _integer_power(self.gamma * np.einsum("ij,ij->i", X, X) + self.coef0, self.degree)

    def feature_count(self, n_columns):
        return comb(n_columns + self.degree, self.degree)

    def raw_features(self, X):
        with_constant = np.column_stack([np.sqrt(self.gamma) * X, np.full(len(X), np.sqrt(self.coef0))])
        powers = np.array(list(combinations_with_replacement(range(with_constant.shape[1]), self.degree)))
        # how often the multinomial theorem counts each monomial: degree! over the factorials of its powers
        counts = np.full(len(powers), float(factorial(self.degree)))
        runs = np.ones(len(powers))
        features = with_constant[:, powers[:, 0]]
        for earlier, column in zip(powers.T, powers.T[1:]):
            runs = np.where(column == earlier, runs + 1.0, 1.0)
            counts /= runs
            features *= with_constant[:, column]
        return features * np.sqrt(counts)


def _integer_power(base, degree):
    power = base.copy()
    for _ in range(degree - 1):
        power *= base
    return power


class Gaussian(Kernel):
    r""":math:`k(x, y) = \exp(-\|x - y\|^2 / (2 \sigma^2))`.

    Parameters
    ----------
    sigma2 : float > 0 or "median"
        The variance :math:`\sigma^2`; "median" takes half the median squared distance of the training inputs.
    """

    aliases = {"gaussian": {}, "rbf": {}}

    def __init__(self, sigma2="median", normalize=None, on=None, explicit=None):
        _check_width("sigma2", sigma2)
        super().__init__(normalize, on, explicit)
        self.sigma2 = sigma2
        self.width_ = None if sigma2 == "median" else float(sigma2)

    def _learn(self, X):
        if self.sigma2 == "median":
            median = np.median(_off_diagonal(_sampled_pair(X).squared_distances))
            self.width_ = float(0.5 * median) if median > 0 else 1.0

    def raw(self, pair):
        matrix = pair.squared_distances * (-0.5 / _known(self.width_, self))
        return np.exp(matrix, out=matrix)

    def frequencies(self, generator, shape):
        return orthogonal_normals(generator, shape) / np.sqrt(_known(self.width_, self))


class Laplacian(Kernel):
    r""":math:`k(x, y) = \exp(-\|x - y\|_1 / \sigma)`.

    Parameters
    ----------
    sigma : float > 0 or "median"
        The width; "median" takes the median city-block distance of the training inputs.
    """

    aliases = {"laplacian": {}}

    def __init__(self, sigma="median", normalize=None, on=None, explicit=None):
        _check_width("sigma", sigma)
        super().__init__(normalize, on, explicit)
        self.sigma = sigma
        self.width_ = None if sigma == "median" else float(sigma)

    def _learn(self, X):
        if self.sigma == "median":
            median = np.median(_off_diagonal(_sampled_pair(X).manhattan_distances))
            self.width_ = float(median) if median > 0 else 1.0

    def raw(self, pair):
        return np.exp(pair.manhattan_distances / -_known(self.width_, self))

    def frequencies(self, generator, shape):
        return generator.standard_cauchy(shape) / _known(self.width_, self)


class ChiSquared(Kernel):
    r""":math:`k(x, y) = \exp(-\gamma \sum_i (x_i - y_i)^2 / (x_i + y_i))`, for histograms (no negative entries)."""

    aliases = {"chi2": {}, "chi-squared": {}}

    def __init__(self, gamma=1.0, normalize=None, on=None, explicit=None):
        if not gamma > 0:
            raise InputError(f"gamma must be > 0, not {gamma!r}.")
        super().__init__(normalize, on, explicit)
        self.gamma = float(gamma)

    def _learn(self, X):
        if np.any(X < 0):
            raise InputError("The chi-squared kernel is for histograms: its inputs must not be negative.")

    def raw(self, pair):
        return np.exp(pair.chi_squared_distances * pair.X.dtype.type(-self.gamma))


class B1Spline(Kernel):
    r"""Generalised B1 spline :math:`k(x, y) = \max(0, 1 - \|x - y\| / h)`: compact support, sparse matrices.

    Parameters
    ----------
    h : float > 0, optional
        Radius of the support, a Euclidean distance.
    density : float in (0, 1], optional
        Where h is not given: the fraction of pairs of training inputs that shall be non-zero; h is their quantile.
        5% as in section 4 of Martins et al. (2011) by default.

    Notes
    -----
    In more than one dimension this function need not be positive semidefinite; it is used as in the paper.
    """

    aliases = {"b1": {}, "b1-spline": {}}
    #: Its matrices are mostly zeros: a bank stores them sparse.
    sparse: ClassVar[bool] = True

    def __init__(self, h=None, density=0.05, normalize=None, on=None, explicit=None):
        if h is not None and not h > 0:
            raise InputError(f"h must be > 0, not {h!r}.")
        if not 0 < density <= 1:
            raise InputError(f"density must lie in (0, 1], not {density!r}.")
        super().__init__(normalize, on, explicit)
        self.h = h
        self.density = float(density)
        self.width_ = None if h is None else float(h)

    def _learn(self, X):
        if self.h is None:
            distances = np.sqrt(_off_diagonal(_sampled_pair(X).squared_distances))
            self.width_ = float(np.quantile(distances, self.density)) or 1.0

    def raw(self, pair):
        # a distance near zero has only half the digits of its square: float32 would leave three
        exact = pair if pair.X.dtype == np.float64 else Pair(pair.X.astype(np.float64), pair.Y.astype(np.float64))
        matrix = np.sqrt(exact.squared_distances)
        matrix *= -1.0 / _known(self.width_, self)
        matrix += 1.0
        return np.maximum(matrix, 0.0, out=matrix).astype(pair.X.dtype, copy=False)


class Custom(Kernel):
    """A user's own function: ``function(X, Y)`` returns the (n, m) kernel matrix of two sets of vectors.

    >>> Custom(lambda X, Y: np.minimum(X, Y.T))([[1.0], [3.0]])
    array([[1., 1.],
           [1., 3.]])
    """

    def __init__(self, function, label=None, normalize=None, on=None, explicit=None):
        if not callable(function):
            raise InputError(f"A custom kernel needs a function of two arrays, not {function!r}.")
        super().__init__(normalize, on, explicit)
        self.function = function
        self.label = label or getattr(function, "__name__", "custom")

    @property
    def name(self):
        return self.label

    def raw(self, pair):
        matrix = np.array(self.function(pair.X, pair.Y), dtype=np.float64)
        if matrix.shape != (len(pair.X), len(pair.Y)):
            raise InputError(
                f"The kernel {self.name} returned shape {matrix.shape} for {len(pair.X)} x {len(pair.Y)} inputs."
            )
        return matrix

    def raw_diagonal(self, X):
        return np.array([self.function(x[None], x[None])[0, 0] for x in X], dtype=np.float64)


class Precomputed(Kernel):
    """Kernel values given by the user: an input's vector is its row of the matrix against all training inputs.

    To train on N inputs give an (N, N) matrix, cut into the rows of each sequence; to predict, rows of N values.
    """

    aliases = {"precomputed": {}}

    def _learn(self, X):
        if X.shape[0] != X.shape[1]:
            raise InputError(f"A precomputed kernel needs a square matrix of all training inputs, not {X.shape}.")
        scale = np.abs(X).max(initial=0.0)
        if not np.allclose(X, X.T, rtol=0, atol=1e-8 * scale):
            raise InputError("The precomputed kernel matrix is not symmetric.")
        if np.diag(X).min(initial=0.0) < -1e-8 * scale:
            raise InputError("The precomputed kernel matrix has a negative diagonal, so it is not a kernel.")
        self.diagonal_ = np.maximum(np.diag(X), 0.0)

    def raw(self, pair):
        return np.array(pair.X[:, pair.Y[:, 0].astype(np.int64)])

    def between(self, pair):
        if self.normalize == "diagonal":
            raise InputError(
                "Normalise a precomputed kernel before passing it: test rows do not hold their own diagonal."
            )
        return super().between(pair)

    def raw_diagonal(self, X):
        if len(X) == len(self.diagonal_):
            return self.diagonal_
        raise InputError("A precomputed kernel knows the diagonal of its training inputs only.")

    def as_support(self, X):
        return np.arange(len(X), dtype=np.float64)[:, None]


class Average(Kernel):
    """The plain average of several kernels, as one kernel: what MKL is compared with.

    >>> Average(["linear", "quadratic"]).name
    'average(linear, quadratic)'
    """

    def __init__(self, kernels, normalize=None, on=None, explicit=None):
        super().__init__(normalize, on, explicit)
        self.kernels = [as_kernel(kernel) for kernel in kernels]

    @property
    def name(self):
        return f"average({', '.join(kernel.name for kernel in self.kernels)})"

    def _learn(self, X):
        self.kernels = [kernel.fit(X) for kernel in self.kernels]

    def raw(self, pair):
        total = self.kernels[0].between(pair)
        for kernel in self.kernels[1:]:
            total += kernel.between(pair)
        total /= len(self.kernels)
        return total

    def raw_diagonal(self, X):
        return sum(kernel.diagonal(X) for kernel in self.kernels) / len(self.kernels)


def as_kernel(spec):
    """A kernel from an object, a short string such as ``"gaussian:sigma2=5"``, or a function of two arrays."""
    if callable(spec) and not isinstance(spec, Kernel):
        return Custom(spec)
    if isinstance(spec, str):
        spec, approximation = split_settings(spec, ("features", "map", "seed"), "kernel")
        if approximation:
            return approximated(resolve(Kernel, spec, "kernel"), **approximation)
    return resolve(Kernel, spec, "kernel")


def orthogonal_normals(generator, shape):
    """Normal vectors, (m, d), of which each set of d is orthogonal (Yu et al. 2016, orthogonal random features)."""
    count, d = shape
    rows = []
    for first in range(0, count, max(d, 1)):
        basis, triangle = np.linalg.qr(generator.standard_normal((d, min(d, count - first))))
        # with these signs the basis is uniform over all rotations
        lengths = np.sqrt(generator.chisquare(d, size=basis.shape[1])) * np.sign(np.diagonal(triangle))
        rows.append((basis * lengths).T)
    return np.concatenate(rows)


def _check_width(name, value):
    if value != "median" and not (isinstance(value, (int, float)) and value > 0):
        raise InputError(f'{name} must be a number > 0 or "median", not {value!r}.')


def _known(width, kernel):
    if width is None:
        raise InputError(f"The kernel {kernel.name} takes its width from data: call fit(X) first, or set it.")
    return width


def _sampled_pair(X, size=1000):
    """At most ``size`` rows against each other: evenly spaced, so that nothing depends on a random state."""
    rows = np.linspace(0, X.shape[0] - 1, min(X.shape[0], size)).astype(np.int64)
    return Pair(X[rows], X[rows])


def _off_diagonal(matrix):
    return matrix[~np.eye(len(matrix), dtype=bool)] if len(matrix) > 1 else np.ones(1)
