"""Base of kernels: parameters, fitting, and normalised matrices."""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl._components import Component, check_choice
from omkl.exceptions import InputError
from omkl.kernels import inputs
from omkl.kernels.inputs import (
    On,
    Pair,
    Positions,
    Reference,
    Vectors,
    as_floats,
    format_on,
    parse_on,
    take_columns,
)

Learned = TypeVar("Learned")

#: Attributes that describe :meth:`Kernel.raw`. A class that overrides it has the defaults of
#: :class:`Kernel`, unless it defines them itself.
FOLLOWING_RAW = (
    "raw_diagonal",
    "feature_count",
    "raw_features",
    "frequencies",
    "maps_sparse",
    "semidefinite",
    "entrywise",
    "unit_diagonal",
)


@dataclass(eq=False, repr=False)
class Kernel(Component):
    """A positive semidefinite function of two vectors.

    These keyword-only parameters are common to all kernels.

    Parameters
    ----------
    normalize : {None, "diagonal", "average", "trace"}
        "diagonal" divides by ``sqrt(k(x, x) k(y, y))``, so that every input has unit length in
        feature space; "average" and "trace" divide by the mean, or the sum, of ``k(x, x)`` over the
        training set.
    on : str, int, slice or list of these, optional
        Part of the input that the kernel uses: columns by name (``"age"``, if inputs are data
        frames, streams of tables or dicts of numbers), by position (``1``, or a range, ``slice(0,
        128)`` or ``"0:128"``), or several, ``["age", "income"]``; or the name of a view, if inputs
        are dicts of arrays. Everything by default. In strings: ``"gaussian:on=age"``,
        ``"gaussian:on=0:3"``, ``"gaussian:on=[age,income],sigma2=5"``; ``"job_*"`` selects all
        columns with matching names.
    standardize : bool or "range"
        Whether the kernel sees its columns minus their mean, divided by their standard deviation,
        so that the units of columns do not matter. "range" divides by the largest minus the
        smallest value, which does not magnify columns that are rarely different from 0; not for
        streams. Scales are learned from the training rows of a ``fit``, in streams as rows come.
        Dense inputs only.
    explicit : bool, optional
        Store the group as explicit features (True), as a dual expansion (False), or in the cheaper
        form (None). Only for kernels with a finite feature map.

    Notes
    -----
    Strings may replace any kernel by an approximation with explicit features, as in
    ``"gaussian:sigma2=5,features=2000"``. ``map`` chooses :class:`~omkl.kernels.FourierFeatures`
    ("fourier", the default if the kernel supports it) or :class:`~omkl.kernels.Nystrom`
    ("nystrom"), and ``seed`` the random draw.

    To define a kernel, write a subclass with :meth:`raw`, or wrap a function, ``Custom(function)``.
    The diagonal follows from :meth:`raw`; :meth:`raw_diagonal` may compute it in less time, and
    ``unit_diagonal = True`` says that it is 1. A class that overrides the :meth:`raw` of another
    kernel inherits neither its diagonal nor its features.

    Methods take inputs as rows: arrays or CSR matrices X (n, d) and Y (m, d) with the columns of
    the kernel, or whole inputs if documented.
    """

    _: KW_ONLY
    normalize: str | None = None
    on: On | list = None
    standardize: bool | str = False
    explicit: bool | None = None

    #: Whether :meth:`raw` and :meth:`raw_diagonal` take CSR matrices, and whether
    #: :meth:`raw_features` does.
    compares_sparse: ClassVar[bool] = False
    maps_sparse: ClassVar[bool] = False
    #: Whether it is always positive semidefinite; batch solvers check other kernels on the training
    #: samples.
    semidefinite: ClassVar[bool] = False
    #: Whether a value depends only on the inner product or the distance of its two vectors.
    entrywise: ClassVar[bool] = False
    #: Whether ``k(x, x) = 1`` before normalisation, so that it need not be computed.
    unit_diagonal: ClassVar[bool] = False
    required: ClassVar[tuple[str, ...]] = ("raw",)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "raw" not in vars(cls):
            return
        for name in FOLLOWING_RAW:
            if name not in vars(cls):
                setattr(cls, name, getattr(Kernel, name))

    def __post_init__(self) -> None:
        check_choice("normalize", self.normalize, (None, "diagonal", "average", "trace"))
        check_choice("standardize", self.standardize, (False, True, "range"))
        self.on = parse_on(self.on)
        self.scale_: float | None = None
        self.means_: np.ndarray | None = None
        self.deviations_: np.ndarray | None = None
        self._prepare()

    def _prepare(self) -> None:
        """Check the parameters of a subclass, and set what they imply."""

    def raw(self, pair: Pair) -> np.ndarray:
        """Return the matrix of kernel values before normalisation: a new array (n, m).

        Parameters
        ----------
        pair : Pair
            Vectors X (n, d) and Y (m, d), with their products and distances.
        """
        self.must_define("raw")

    def raw_diagonal(self, X: Vectors) -> np.ndarray:
        """Return ``k(x, x)`` before normalisation for each row, by default from :meth:`raw`: (n,).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        """
        diagonal = np.ones(X.shape[0])
        if self.unit_diagonal:
            return diagonal
        for i in range(len(diagonal)):
            row = X[i : i + 1]
            diagonal[i] = self.raw(Pair(row, row))[0, 0]
        return diagonal

    def columns(self, n_columns: int, names: Sequence[str] | None = None) -> Positions:
        """Return the positions of the kernel's columns.

        Parameters
        ----------
        n_columns : int
            Number of columns of the input.
        names : sequence of str, optional
            Names of the columns.

        Raises
        ------
        omkl.exceptions.InputError
            If a column does not exist.
        """
        return inputs.find_columns(self.on, n_columns, names, self)

    def places(self, n_columns: int, names: Sequence[str] | None = None) -> list[int]:
        """Return the positions of the kernel's columns as a list; see :meth:`columns`.

        Parameters
        ----------
        n_columns, names
            As for :meth:`columns`.
        """
        return take_columns(np.arange(n_columns)[None], self.columns(n_columns, names))[0].tolist()

    def placed(self, n_columns: int, names: Sequence[str] | None = None) -> Self:
        """Return this kernel with its columns given by position.

        Parameters
        ----------
        n_columns, names
            As for :meth:`columns`.
        """
        return self.restricted(self.columns(n_columns, names))

    def restricted(self, on: On | list) -> Self:
        """Return this kernel on other columns.

        Parameters
        ----------
        on : int, str, slice or list of these
            The new columns.
        """
        restricted = copy(self)
        restricted.on = parse_on(on)
        return restricted

    def fit(
        self,
        X: ArrayLike,
        weights: np.ndarray | None = None,
        variables: Sequence[Hashable] | None = None,
    ) -> Self:
        """Return a copy of the kernel that has learned from training data.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, d)
            Whole inputs; the kernel selects its columns.
        weights : array of shape (n,), optional
            Weights of the rows in means and standard deviations.
        variables : sequence of length d, optional
            The variable that each column of X encodes. Columns of 0 and 1 of one variable are
            standardized by one number, so that rare categories do not dominate distances.

        Raises
        ------
        omkl.exceptions.InputError
            If a number is not finite or above 1e100, or a value ``k(x, x)`` overflows.
        """
        fitted = copy(self)
        if self.standardize:
            fitted._learn_scales(X, weights, variables)
        return fitted.fit_view(fitted.view(X))

    def _learn_scales(
        self, X: ArrayLike, weights: np.ndarray | None, variables: Sequence[Hashable] | None
    ) -> None:
        """Set the means and scales of the columns of whole inputs X; see :meth:`fit`."""
        from sklearn.preprocessing import StandardScaler

        self.means_ = None
        scaler = StandardScaler().fit(self.view(X), sample_weight=weights)
        self.means_ = scaler.mean_
        self.deviations_ = scaler.scale_
        if self.standardize == "range":
            ranges = np.ptp(self.view(X), axis=0)  # in standard deviations
            self.deviations_ = scaler.scale_ * np.where(ranges > 0.0, ranges, 1.0)
        elif variables is not None:
            seen_variables = [variables[j] for j in self.places(len(variables))]
            self.deviations_ = deviations_of_variables(scaler.var_, scaler.scale_, seen_variables)

    def fit_view(self, X: Vectors) -> Self:
        """Fit to an array of the kernel's columns, in the scale that it sees; see :meth:`fit`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        """
        X = as_floats(X)
        inputs.check_magnitudes(X, self)
        fitted = copy(self)
        fitted._learn(X)
        if self.entrywise:
            inputs.finite_squares(fitted.raw_diagonal(X))
        if self.normalize in ("average", "trace"):
            diagonal = fitted.raw_diagonal(X)
            total = diagonal.sum()
            if self.normalize == "average":
                total = diagonal.mean()
            fitted.scale_ = 1.0
            if total > 0:
                fitted.scale_ = float(1.0 / total)
        return fitted

    def view(self, X: ArrayLike | sparse.sparray) -> Vectors:
        """Return the kernel's columns of whole inputs, standardized if the kernel was fitted so.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, d)
        """
        names = None
        if hasattr(X, "columns"):
            names = list(X.columns)
        if not sparse.issparse(X):
            X = np.atleast_2d(np.asarray(X))
        elif self.standardize:
            raise InputError(
                f"The kernel {self.name!r} needs a dense array: sparse columns are not "
                "standardized."
            )
        X = as_floats(take_columns(X, self.columns(X.shape[1], names)))
        if self.means_ is None:
            return X
        return (X - self.means_) / self.deviations_

    @property
    def view_key(self) -> tuple[str, bool | str]:
        """A key that is the same for kernels with the same :meth:`view`."""
        return format_on(self.on), self.standardize

    def _learn(self, X: Vectors) -> None:
        """Fit data-dependent attributes to the columns X (n, d); none by default."""

    def between(self, pair: Pair) -> np.ndarray:
        """Return the normalised kernel matrix of a :class:`Pair`, (n, m).

        Parameters
        ----------
        pair : Pair
            Vectors X (n, d) and Y (m, d).
        """
        matrix = self.raw(pair)
        if self.normalize == "diagonal":
            roots_x, roots_y = pair.inverse_roots(self)
            matrix *= roots_x.astype(matrix.dtype, copy=False)[:, None]
            matrix *= roots_y.astype(matrix.dtype, copy=False)[None, :]
        elif self.scale_ is not None:
            matrix *= matrix.dtype.type(self.scale_)
        return matrix

    def inverse_roots(self, X: Vectors) -> np.ndarray:
        """Return ``1 / sqrt(k(x, x))`` before normalisation for each row, 0 where ``k(x, x)`` is 0.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        """
        return inverse_root(self.raw_diagonal(X))

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> np.ndarray:
        """Return the kernel matrix between the rows of X and of Y (X by default): (n, m), float64.

        Parameters
        ----------
        X, Y : arrays of shapes (n, d) and (m, d)
            Whole inputs, as for :meth:`fit`.
        """
        rows = self.view(X).astype(np.float64, copy=False)
        columns = rows
        if Y is not None:
            columns = self.view(Y).astype(np.float64, copy=False)
        return self.between(Pair(rows, columns))

    def diagonal(self, X: Vectors) -> np.ndarray:
        """Return ``k(x, x)`` for each row, normalised: (n,).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        """
        raw = self.raw_diagonal(X)
        if self.normalize == "diagonal":
            return (raw > 0).astype(np.float64)
        if self.scale_ is None:
            return raw
        return raw * self.scale_

    def feature_count(self, n_columns: int) -> int | None:
        """Return the dimension of the feature map, or None if there is none.

        Parameters
        ----------
        n_columns : int
            Number of columns of the input.
        """
        return None

    def raw_features(self, X: Vectors) -> Vectors:
        """Return the features before normalisation: F (n, D), whose products ``F F'`` are ``raw``.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        """
        raise InputError(f"The kernel {self.name} has no explicit features.")

    def features(self, X: Vectors) -> Vectors:
        """Return explicit features (n, D), whose inner products are the kernel; sparse if X is.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        """
        features = self.raw_features(X)
        if self.normalize != "diagonal":
            if self.scale_ is not None:
                features = features * np.sqrt(self.scale_)
            return features
        scales = self.inverse_roots(X)
        if not sparse.issparse(features):
            return features * scales[:, None]
        # scale rows by hand: scipy would convert to coordinates first
        scaled = features.data * np.repeat(scales, np.diff(features.indptr))
        return sparse.csr_array((scaled, features.indices, features.indptr), features.shape)

    def parts(self, X: Vectors, weights: np.ndarray) -> np.ndarray:
        """Return the contributions of the parts of an input to its features' product with weights.

        Parts are features, unless the kernel defines others. They sum to the inner product.

        Parameters
        ----------
        X : array or sparse matrix of shape (1, d)
        weights : array of shape (D,)
        """
        return inputs.as_dense(self.features(X))[0] * weights

    def part_name(self, i: int, column: Callable[[int], str], n_columns: int) -> str:
        """Return the name of a part of the inputs, for explanations.

        Parameters
        ----------
        i : int
            Index of the part, as in :meth:`parts`.
        column : callable
            ``column(j)`` is the name of a column.
        n_columns : int
            Number of columns of the kernel.
        """
        return str(i)

    def frequencies(self, generator: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Draw frequencies from the spectral density for Fourier features: an array (m, d).

        Only shift-invariant kernels have one (Bochner's theorem): ``k(x, y) = E cos w'(x - y)``,
        with ``k(x, x) = 1``.

        Parameters
        ----------
        generator : numpy.random.Generator
        shape : (int, int)
            Number of frequencies m, and dimension d.
        """
        raise InputError(f"The kernel {self.name} has no spectral density.")

    #: The kernel as a short string: its name, and the parameters that differ from their defaults.
    name = property(Component.as_string)

    def __str__(self) -> str:
        return self.name

    def _format(self, key: str, value: Any) -> str:
        if key == "on":
            return format_on(value)
        return super()._format(key, value)

    def learned(self) -> dict[str, Any]:
        """Return the attributes that :meth:`fit` has set, by name."""
        return {key: value for key, value in self.__dict__.items() if key.endswith("_")}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel) or not super().__eq__(other):
            return False
        mine = self.learned()
        theirs = other.learned()
        return mine.keys() == theirs.keys() and all(
            np.array_equal(mine[key], theirs[key]) for key in mine
        )

    __hash__ = Component.__hash__


def deviations_of_variables(
    variances: np.ndarray, deviations: np.ndarray, variables: Sequence[Hashable]
) -> np.ndarray:
    """Return the scale of each column, (d,), one for all columns of a variable.

    A variable of several columns has the total variance 1 in that scale, as a column of numbers
    has. ``variances`` and ``deviations`` (d,) are those of single columns.
    """
    scales = deviations.copy()
    columns_of: dict[Hashable, list[int]] = {}
    for j, variable in enumerate(variables):
        columns_of.setdefault(variable, []).append(j)
    for columns in columns_of.values():
        total = variances[columns].sum()
        if len(columns) > 1 and total > 0.0:
            scales[columns] = np.sqrt(total)
    return scales


def fitted_value(learned: Learned | None, kernel: Kernel) -> Learned:
    """Return a learned attribute of a kernel; raise an InputError if the kernel is not fitted."""
    if learned is None:
        raise InputError(f"The kernel {kernel.name} must learn from data: call fit(X) first.")
    return learned


def inverse_root(diagonal: np.ndarray) -> np.ndarray:
    """Return ``1 / sqrt(diagonal)``, 0 where the diagonal is 0: (n,).

    Raises
    ------
    omkl.exceptions.InputError
        If the diagonal is not finite.
    """
    inputs.finite_squares(diagonal)
    if len(diagonal) == 1 and diagonal.dtype == np.float64:  # the same in fewer calls
        value = diagonal.item()
        root = 1.0 / math.sqrt(value) if value > 0.0 else 0.0
        return np.array([root])
    return np.divide(1.0, np.sqrt(diagonal), out=np.zeros(len(diagonal)), where=diagonal > 0)


def cross_matrices(
    kernels: Sequence[Kernel], left: Sequence[Vectors], right: Sequence[Vectors | Reference]
) -> Iterator[np.ndarray]:
    """Yield each kernel's matrix (n, m) between its left inputs (n, d) and its right ones (m, d).

    Kernels with the same array objects as inputs share one :class:`Pair`.
    """
    pairs: dict[tuple[int, int], Pair] = {}
    for kernel, X, Y in zip(kernels, left, right):
        key = id(X), id(Y)
        if key not in pairs:
            pairs[key] = Pair(X, Y)
        yield kernel.between(pairs[key])
