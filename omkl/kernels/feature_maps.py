"""Kernels approximated by explicit feature maps of a fixed size.

An approximated kernel is a kernel like any other. Its feature map is learned from the training
inputs and a seed.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg import eigh

from omkl._components import check_number, resolve
from omkl.exceptions import InputError
from omkl.kernels.base import Kernel, fitted_value, inverse_root
from omkl.kernels.inputs import On, Pair, Vectors, row_blocks

#: Eigenvalues of the landmarks' kernel matrix below this fraction of the largest count as rounding
#: errors.
SMALLEST_EIGENVALUE = 1e-12
#: Largest number of features of an approximated kernel.
MOST_FEATURES = 1_000_000
#: Number of columns listed in the name of a frequency.
STRONGEST = 3


class FeatureMap(Kernel):
    """A kernel with an explicit feature map: ``k(x, y)`` is the product of the features of x and y.

    ``normalize`` holds exactly for the approximation; ``on``, ``standardize`` and ``explicit`` are
    those of the kernel.

    Parameters
    ----------
    kernel : Kernel or str
        The kernel to approximate.
    n_features : int from 1 to 1,000,000
        Dimension of the map, or an upper bound on it.
    seed : int >= 0
        Equal seeds and inputs give the same map, bit for bit.
    """

    semidefinite = True
    map_name: ClassVar[str]

    def __init__(self, kernel: Kernel | str, n_features: int, seed: int = 0) -> None:
        check_number("features", n_features, above=0, below=MOST_FEATURES + 1, integer=True)
        check_number("seed", seed, above=-1, integer=True)
        self.kernel = resolve(Kernel, kernel, "kernel")
        super().__init__(
            normalize=self.kernel.normalize,
            on=self.kernel.on,
            standardize=self.kernel.standardize,
            explicit=self.kernel.explicit,
        )
        self.n_features = int(n_features)
        self.seed = int(seed)

    def placed(self, n_columns: int, names: Sequence[str] | None = None) -> Self:
        placed = super().placed(n_columns, names)
        placed.kernel = self.kernel.placed(n_columns, names)
        return placed

    def restricted(self, on: On | list) -> Self:
        restricted = super().restricted(on)
        restricted.kernel = self.kernel.restricted(on)
        return restricted

    @property
    def name(self) -> str:
        name = self.kernel.name
        separator = "," if ":" in name else ":"
        settings = f"features={self.n_features}"
        if default_map(self.kernel) is not type(self):
            settings += f",map={self.map_name}"
        if self.seed:
            settings += f",seed={self.seed}"
        return f"{name}{separator}{settings}"

    def feature_count(self, n_columns: int) -> int | None:
        return self.n_features

    def raw(self, pair: Pair) -> np.ndarray:
        matrix = self.raw_features(pair.X) @ self.raw_features(pair.Y).T
        return matrix.astype(pair.X.dtype, copy=False)

    def raw_diagonal(self, X: Vectors) -> np.ndarray:
        diagonal = np.empty(X.shape[0])
        for rows in row_blocks(len(diagonal), self.n_features, np.float64):
            features = self.raw_features(X[rows])
            np.einsum("ij,ij->i", features, features, out=diagonal[rows])
        return diagonal

    def features(self, X: Vectors) -> Vectors:
        features = self.raw_features(X)
        if self.normalize == "diagonal":
            features *= inverse_root(np.einsum("ij,ij->i", features, features))[:, None]
        elif self.scale_ is not None:
            features *= np.sqrt(self.scale_)
        return features


class FourierFeatures(FeatureMap):
    r"""Random Fourier features of a shift-invariant kernel: cosines and sines of projections.

    .. math:: k(x, y) \approx \frac{2}{D} \sum_{i=1}^{D/2} \cos\, \omega_i^\top (x - y)

    with frequencies :math:`\omega_i` from the kernel's spectral density (Rahimi and Recht 2007):
    normal for the Gaussian kernel, drawn in orthogonal sets, which lowers the variance (Yu et al.
    2016), and Cauchy for the Laplacian. The error falls as :math:`1 / \sqrt D`. Pairs have a
    smaller error than cosines with random phases, and keep ``k(x, x) = 1`` exact (Sutherland and
    Schneider 2015). In strings: ``"gaussian:sigma2=5,features=2000"``.

    Parameters
    ----------
    kernel : Kernel or str
        A Gaussian or Laplacian kernel, or a user-defined kernel with
        :meth:`~omkl.kernels.Kernel.frequencies`.
    n_features : int
        The dimension D, even.
    seed : int

    Notes
    -----
    Inputs may be arrays or CSR matrices. The map stores D / 2 frequencies of dimension d.

    Examples
    --------
    >>> kernel = FourierFeatures("gaussian:sigma2=1", 4000).fit(np.zeros((1, 2)))
    >>> bool(abs(kernel([[0.0, 0.0]], [[1.0, 0.0]])[0, 0] - np.exp(-0.5)) < 0.05)
    True
    """

    map_name = "fourier"
    compares_sparse = maps_sparse = True

    def __init__(self, kernel: Kernel | str, n_features: int, seed: int = 0) -> None:
        super().__init__(kernel, n_features, seed)
        if not has_spectrum(self.kernel):
            raise InputError(
                f"The kernel {self.kernel.name} has no Fourier features: use map=nystrom."
            )
        if self.n_features % 2:
            raise InputError(
                f"Fourier features come in pairs: give an even number of them, not {n_features}."
            )
        self.frequencies_: np.ndarray | None = None

    def _learn(self, X: Vectors) -> None:
        self.kernel = self.kernel.fit_view(X)
        shape = (self.n_features // 2, X.shape[1])
        self.frequencies_ = self.kernel.frequencies(np.random.default_rng(self.seed), shape)

    def raw_features(self, X: Vectors) -> Vectors:
        half = self.n_features // 2
        directions = fitted_value(self.frequencies_, self).T
        features = np.empty((X.shape[0], self.n_features))
        for rows in row_blocks(len(features), half, np.float64):
            # cosine (1 - t^2) / (1 + t^2) and sine 2 t / (1 + t^2) from the tangent t of half the
            # angle: one transcendental function instead of two
            tangents = X[rows] @ directions
            tangents *= 0.5
            np.tan(tangents, out=tangents)
            squares = np.square(tangents)
            factors = np.sqrt(1.0 / half) / (1.0 + squares)
            np.subtract(1.0, squares, out=squares)
            np.multiply(squares, factors, out=features[rows, :half])
            factors *= 2.0
            np.multiply(tangents, factors, out=features[rows, half:])
        return features

    def parts(self, X: Vectors, weights: np.ndarray) -> np.ndarray:
        # a frequency is one part: its cosine and its sine together
        return super().parts(X, weights).reshape(2, -1).sum(axis=0)

    def part_name(self, i: int, column: Callable[[int], str], n_columns: int) -> str:
        frequency = fitted_value(self.frequencies_, self)[i]
        strongest = np.argsort(-np.abs(frequency))[:STRONGEST].tolist()
        terms = [f"{frequency[j]:+.2g} {column(j)}" for j in strongest]
        return f"frequency {i}: {', '.join(terms)}"


class Nystrom(FeatureMap):
    r"""Nyström approximation of any kernel, by its values against landmarks.

    Landmarks are drawn from the training inputs.

    .. math:: k(x, y) \approx k(x, L)\, K_{LL}^{+}\, k(L, y)

    with the pseudo-inverse by eigenvalues, without eigenvalues at rounding level (Williams and
    Seeger 2001). The difference between the kernel and its approximation is positive semidefinite.
    With all training inputs as landmarks, both agree on these inputs. In strings:
    ``"chi2:features=300"``, ``"gaussian:features=500,map=nystrom"``.

    Parameters
    ----------
    kernel : Kernel or str
    n_features : int
        Number of landmarks, at most the number of training inputs; the dimension of the map is
        their rank.
    seed : int

    Notes
    -----
    On a stream, the landmarks come from the first block only. The map stores the landmarks, and a
    matrix of their number by their rank.

    Examples
    --------
    >>> X = np.linspace(0.0, 1.0, 50)[:, None]
    >>> kernel = Nystrom("gaussian:sigma2=1", 10).fit(X)
    >>> float(abs(kernel(X) - kernel.kernel(X)).max()) < 1e-5
    True
    """

    map_name = "nystrom"

    landmarks_: np.ndarray | None = None
    whitening_: np.ndarray | None = None

    def _learn(self, X: Vectors) -> None:
        if sparse.issparse(X):
            raise InputError(
                f"The kernel {self.name} needs a dense array: landmarks are kept as one."
            )
        X = np.asarray(X, dtype=np.float64)
        self.kernel = self.kernel.fit_view(X)
        chosen = np.random.default_rng(self.seed).permutation(len(X))[: self.n_features]
        chosen.sort()
        self.landmarks_ = X[chosen]
        values, vectors = eigh(self.kernel.between(Pair(X[chosen], self.landmarks_)))
        is_significant = values > SMALLEST_EIGENVALUE * max(values[-1], 0.0)
        self.whitening_ = vectors[:, is_significant] / np.sqrt(values[is_significant])

    def feature_count(self, n_columns: int) -> int | None:
        if self.whitening_ is None:
            return self.n_features
        return self.whitening_.shape[1]

    def left_out(self, X: ArrayLike) -> float:
        """Return the relative error of the approximation on whole inputs X, in the trace norm.

        Parameters
        ----------
        X : array of shape (n, d)
        """
        X = self.view(X)
        return 1.0 - float(self.raw_diagonal(X).sum() / self.kernel.diagonal(X).sum())

    def raw_features(self, X: Vectors) -> Vectors:
        whitening = fitted_value(self.whitening_, self)
        features = np.empty((len(X), whitening.shape[1]))
        for rows in row_blocks(len(X), len(whitening), np.float64):
            block = np.asarray(X[rows], dtype=np.float64)
            similarities = self.kernel.between(Pair(block, self.landmarks_))
            np.matmul(similarities, whitening, out=features[rows])
        return features

    def parts(self, X: Vectors, weights: np.ndarray) -> np.ndarray:
        # each landmark is one part: the similarity to it
        whitening = fitted_value(self.whitening_, self)
        values = self.kernel.between(Pair(np.asarray(X, dtype=np.float64), self.landmarks_))[0]
        if self.normalize == "diagonal":
            features = values @ whitening
            values = values * inverse_root(np.array([features @ features]))
        elif self.scale_ is not None:
            values = values * np.sqrt(self.scale_)
        return values * (whitening @ weights)

    def part_name(self, i: int, column: Callable[[int], str], n_columns: int) -> str:
        return f"landmark {i}"


def approximated(
    kernel: Kernel, features: int | None = None, map: str | None = None, seed: int = 0
) -> FeatureMap:
    """Return an approximation of a kernel: Fourier features if it has any, else Nyström's."""
    maps = {None: default_map(kernel), "fourier": FourierFeatures, "nystrom": Nystrom}
    if features is None or map not in maps:
        raise InputError(
            f"An approximation of {kernel.name} needs features=, their number, and map=fourier or "
            f"map=nystrom, not features={features!r} and map={map!r}."
        )
    return maps[map](kernel, features, seed)


def default_map(kernel: Kernel) -> type[FeatureMap]:
    """Return the class of a kernel's default feature map."""
    return FourierFeatures if has_spectrum(kernel) else Nystrom


def has_spectrum(kernel: Kernel) -> bool:
    """Return True if Fourier features of the kernel can be drawn."""
    return type(kernel).frequencies is not Kernel.frequencies
