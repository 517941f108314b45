"""What a kernel is, and what kernels on the same inputs share."""

from functools import cached_property

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise

from omkl._components import Component
from omkl.exceptions import InputError

#: Squared length of the mean, in units of the total variance, from which on float32 inputs are centred.
FAR_FROM_ORIGIN = 16.0
NORMALIZATIONS = (None, "diagonal", "average", "trace")


class Pair:
    """Two sets of vectors, and what kernels share between them, computed once and on demand.

    Parameters
    ----------
    X, Y : arrays of shapes (n, d) and (m, d)
    """

    def __init__(self, X, Y):
        self.X = X
        self.Y = Y

    @cached_property
    def products(self):
        """Inner products, (n, m)."""
        return self.X @ self.Y.T

    @cached_property
    def squared_distances(self):
        """Squared Euclidean distances, (n, m), never negative."""
        X, Y = self.X, self.Y
        if sparse.issparse(X):
            return pairwise.euclidean_distances(X, Y, squared=True)
        center = Y.mean(axis=0)
        if X.dtype == np.float32 and center @ center > FAR_FROM_ORIGIN * Y.var(axis=0).sum():
            # single precision would lose the distances in the length of the vectors: move the origin into the data
            X, Y = X - center, Y - center
            distances = X @ Y.T
            distances *= -2.0
        else:
            distances = self.products * self.products.dtype.type(-2.0)
        squares_x = np.einsum("ij,ij->i", X, X)
        squares_y = np.einsum("ij,ij->i", Y, Y)
        distances += squares_x[:, None]
        distances += squares_y[None, :]
        return np.maximum(distances, 0.0, out=distances)

    @cached_property
    def manhattan_distances(self):
        """City-block distances, (n, m)."""
        return pairwise.manhattan_distances(self.X, self.Y)

    @cached_property
    def chi_squared_distances(self):
        r""":math:`\sum_i (x_i - y_i)^2 / (x_i + y_i)`, (n, m), of vectors without negative entries."""
        return -pairwise.additive_chi2_kernel(self.X, self.Y)

    def inverse_roots(self, kernel):
        """``1 / sqrt(k(x, x))`` of the rows of X and of those of Y, before normalisation."""
        return inverse_root(kernel.raw_diagonal(self.X)), inverse_root(kernel.raw_diagonal(self.Y))


class Kernel(Component):
    """A positive semidefinite function of two vectors.

    Parameters common to all kernels
    --------------------------------
    normalize : {None, "diagonal", "average", "trace"}
        "diagonal" divides by ``sqrt(k(x, x) k(y, y))``, so that every input has unit length in feature space;
        "average" and "trace" divide by the mean, or the sum, of ``k(x, x)`` over the training set.
    on : str, slice or tuple of int, optional
        Which part of the input the kernel sees: the name of a view where inputs have several (the keys of dicts
        that hold arrays), or columns, as a slice or as ``"0:128"``. Everything by default. Batch stacks take a tuple
        of columns, too.
    explicit : bool, optional
        Hold the group as explicit features (True), as a dual expansion (False), or as is cheaper (None). Only for
        kernels with a finite feature map.

    A string may ask for an approximation of any kernel by so many explicit features, as in
    ``"gaussian:sigma2=5,features=2000"``: ``map`` chooses :class:`~omkl.kernels.FourierFeatures` ("fourier", the
    default where a kernel has them) or :class:`~omkl.kernels.Nystrom` ("nystrom"), ``seed`` what is drawn.

    A kernel of your own is a subclass with :meth:`raw` and, if it is not constant, :meth:`raw_diagonal`; or the
    function itself, as ``Custom(function)``.
    """

    def __init__(self, normalize=None, on=None, explicit=None):
        if normalize not in NORMALIZATIONS:
            raise InputError(f"normalize must be one of {NORMALIZATIONS}, not {normalize!r}.")
        if isinstance(on, str) and ":" in on:
            on = slice(*(int(bound) if bound else None for bound in on.split(":")))
        self.normalize = normalize
        self.on = on
        self.explicit = explicit
        self.scale_ = None

    def raw(self, pair):
        """Matrix of kernel values before normalisation: a new array of shape (n, m)."""
        raise NotImplementedError

    def raw_diagonal(self, X):
        """``k(x, x)`` before normalisation for each row of X."""
        return np.ones(X.shape[0])

    def fit(self, X):
        """A kernel like this one with everything set that it learns from training data ``X`` (n, d)."""
        fitted = self._copy()
        fitted._learn(X)
        if self.normalize in ("average", "trace"):
            diagonal = fitted.raw_diagonal(X)
            total = diagonal.mean() if self.normalize == "average" else diagonal.sum()
            fitted.scale_ = float(1.0 / total) if total > 0 else 1.0
        return fitted

    def _learn(self, X):
        """Set what :meth:`raw` needs to know about the data; nothing by default."""

    def between(self, pair):
        """Normalised kernel matrix, (n, m)."""
        matrix = self.raw(pair)
        if self.normalize == "diagonal":
            left, right = pair.inverse_roots(self)
            matrix *= left.astype(matrix.dtype, copy=False)[:, None]
            matrix *= right.astype(matrix.dtype, copy=False)[None, :]
        elif self.scale_ is not None:
            matrix *= matrix.dtype.type(self.scale_)
        return matrix

    def __call__(self, X, Y=None):
        """Kernel matrix between the rows of X and of Y (of X, when Y is left out): (n, m), float64."""
        X = np.asarray(X, dtype=np.float64)
        return self.between(Pair(X, X if Y is None else np.asarray(Y, dtype=np.float64)))

    def diagonal(self, X):
        """``k(x, x)`` for each row of X, normalised."""
        raw = self.raw_diagonal(X)
        if self.normalize == "diagonal":
            return (raw > 0).astype(np.float64)
        return raw if self.scale_ is None else raw * self.scale_

    def feature_count(self, n_columns):
        """Dimension of the explicit feature map for inputs of this size, or None where there is none."""
        return None

    def raw_features(self, X):
        """Feature map before normalisation: an array or scipy sparse matrix F with ``F F' = raw``."""
        raise InputError(f"The kernel {self.name} has no explicit features.")

    def features(self, X):
        """Explicit features (n, D), an array or as sparse as ``X``, with inner products equal to the kernel."""
        features = self.raw_features(X)
        if self.normalize == "diagonal":
            scales = inverse_root(self.raw_diagonal(X))
            if not sparse.issparse(features):
                return features * scales[:, None]
            # scaling rows by hand spares scipy's detour by coordinates
            scaled = features.data * np.repeat(scales, np.diff(features.indptr))
            return sparse.csr_array((scaled, features.indices, features.indptr), features.shape)
        return features if self.scale_ is None else features * np.sqrt(self.scale_)

    def frequencies(self, generator, shape):
        """Frequencies drawn from the spectral density, an array of shape (m, d), for Fourier features.

        Only kernels of differences have one, by Bochner's theorem: ``k(x, y) = E cos w'(x - y)``, with ``k(x, x) = 1``.
        """
        raise InputError(f"The kernel {self.name} has no spectral density.")

    def as_support(self, X):
        """What to keep of training inputs to evaluate the kernel against them later."""
        return X

    @property
    def name(self):
        """The kernel as a short string: its name, and the parameters that differ from their defaults."""
        return self._components(next(iter(self.aliases)))

    def _components(self, name, *implied):
        settings = [f"{key}={value}" for key, value in self.settings().items() if key not in implied]
        return ":".join([name, ",".join(settings)]) if settings else name

    def learned(self):
        """What :meth:`fit` has set, by name."""
        return {key: value for key, value in vars(self).items() if key.endswith("_")}

    def _copy(self):
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        return copy

    def __eq__(self, other):
        if not super().__eq__(other):
            return False
        mine, theirs = self.learned(), other.learned()
        return mine.keys() == theirs.keys() and all(np.array_equal(mine[key], theirs[key]) for key in mine)

    __hash__ = Component.__hash__


def inverse_root(diagonal):
    """``1 / sqrt(diagonal)``, and 0 where the diagonal is 0."""
    return np.divide(1.0, np.sqrt(diagonal), out=np.zeros(len(diagonal)), where=diagonal > 0)
