"""LearnedFeatures: the explicit features of the kernels that an estimator has learned, for others to learn from."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.utils.validation import _check_feature_names_in

from omkl.estimators.batch_mkl import BatchMKL
from omkl.estimators.classification import OnlineMKLClassifier
from omkl.estimators.encoding import Encoder
from omkl.estimators.explaining_batch import chosen_columns
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.inputs import checked_rows
from omkl.estimators.kernel_sources import ArrayKernels
from omkl.estimators.regression import OnlineMKLRegressor
from omkl.exceptions import InputError
from omkl.groups import Features
from omkl.kernels import Kernel
from omkl.kernels.inputs import take_columns


class LearnedFeatures(MetaEstimatorMixin, TransformerMixin, BaseEstimator):
    r"""Explicit features of the combination of kernels that an estimator learns: a feature map that was learned.

    .. math:: z(x) = \bigl(\sqrt{d_1}\, z_1(x), \ldots, \sqrt{d_M}\, z_M(x)\bigr),
        \qquad z(x)^\top z(y) = \sum_m d_m k_m(x, y)

    with the kernels' weights :math:`d_m` and feature maps :math:`z_m`. A linear model on them is one with the learned
    kernel, and takes as long for a million samples as for any design of so many columns.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor, OneClassMKL, OnlineMKLClassifier or OnlineMKLRegressor
        Its kernels that have a weight must have finite feature maps: linear and polynomial ones, and
        approximations, as ``"gaussian:features=500"``. The features of an online one that learns from dicts are those
        of its keys.
    prefit : bool
        Take the estimator as it is, fitted; else :meth:`fit` fits a clone of it.

    Attributes
    ----------
    estimator_ : estimator
        The one whose features these are.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from omkl import MKLClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> kernels = {"linear": "linear", "products": "quadratic:normalize=None"}
    >>> model = make_pipeline(LearnedFeatures(MKLClassifier(kernels)), LogisticRegression())
    >>> names = model.fit(X, X[:, 0] * X[:, 1] > 0)[:-1].get_feature_names_out()
    >>> bool(model.score(X, X[:, 0] * X[:, 1] > 0) > 0.9), "products[x0 * x1]" in names
    (True, True)
    """

    def __init__(self, estimator: Any, *, prefit: bool = False) -> None:
        self.estimator = estimator
        self.prefit = prefit

    def fit(self, X: Any, y: Any = None, **options: Any) -> Self:
        """Fit a clone of the estimator, unless it is fitted.

        Parameters
        ----------
        X, y
            As the estimator takes them.
        **options
            For its ``fit``; none where it is fitted already.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a kernel that has a weight has no finite feature map, or kernels are matrices; if options are given for
            an estimator that is fitted; and as the estimator's.
        """
        if self.prefit:
            if options:
                raise InputError(f"{next(iter(options))} is for fitting, and prefit=True fits nothing: leave it out.")
            check_is_fitted(self.estimator)
            found = self.estimator
        else:
            found = clone(self.estimator)
            found = found.fit(X, **options) if y is None else found.fit(X, y, **options)
        for name, count in _feature_counts(found).items():
            if count is None:
                raise InputError(
                    f"The kernel {name!r} has no finite feature map: approximate it by features=, as in "
                    '"gaussian:features=500".'
                )
        self.estimator_ = found
        return self

    def transform(self, X: Any) -> Any:
        """Features of all kernels that have a weight, side by side, times the roots of the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), data frame, or list of n dicts
            As the estimator takes it.

        Returns
        -------
        array of shape (n, D), or CSR matrix where all features are sparse
        """
        check_is_fitted(self)
        found = self.estimator_
        X = found._checked(X) if isinstance(found, BatchMKL) else checked_rows(found, X, False)
        encoder = _encoder_of_dicts(found)
        if encoder is not None:
            return _features_of_dicts(encoder, found.kernel_weights_, X)
        parts: list[Any] = [np.zeros((X.shape[0], 0))]
        for kernel, weight in kernels_of(found).values():
            parts.append(kernel.features(take_columns(X, kernel.columns(X.shape[1]))) * np.sqrt(weight))
        if len(parts) > 1 and all(map(sparse.issparse, parts[1:])):
            return sparse.hstack(parts[1:], format="csr")
        return np.hstack([part.toarray() if sparse.issparse(part) else part for part in parts])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """What the features are called: ``kernel[column]``, ``kernel[column * column]``, ``kernel[cosine 3]``, and of
        dicts ``key`` and ``key=value``.

        Parameters
        ----------
        input_features : array of str, optional
            What the columns are called: the names that the estimator was fitted to by default, and no others where it
            has some; else ``x0``, ``x1``, ... Not for an estimator of dicts, whose keys are names.

        Returns
        -------
        array of str objects of shape (D,)

        Raises
        ------
        ValueError
            If ``input_features`` are not so many, or not those that the estimator was fitted to.
        """
        check_is_fitted(self)
        encoder = _encoder_of_dicts(self.estimator_)
        if encoder is not None:
            if input_features is not None:
                raise InputError("The estimator was fitted to dicts, whose keys are names: leave input_features out.")
            return _names_of_dicts(encoder, self.estimator_.kernel_weights_)
        width = self.n_features_in_
        columns = _check_feature_names_in(self.estimator_, input_features)
        names = []
        for name, (kernel, _) in kernels_of(self.estimator_).items():
            own = [str(columns[j]) for j in chosen_columns(kernel, width).tolist()]
            count = kernel.feature_count(len(own)) or 0
            names += [f"{name}[{kernel.feature_name(i, own.__getitem__, len(own))}]" for i in range(count)]
        return np.array(names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Columns of X."""
        check_is_fitted(self)
        return self.estimator_.n_features_in_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")


def kernels_of(estimator: Any) -> dict[str, tuple[Kernel, float]]:
    """The kernels on the columns of arrays that have a weight, and this, by name."""
    if isinstance(estimator, BatchMKL):
        source = estimator._source
        if not isinstance(source, ArrayKernels):
            raise InputError("Kernels that are given as matrices have no features of samples: give kernels.")
        kernels = dict(zip(source.names, source.kernels))
    else:
        kernels = _encoder_of(estimator).kernels
    weights = estimator.kernel_weights_
    return {name: (kernel, weights[name]) for name, kernel in kernels.items() if weights.get(name, 0.0) > 0}


def _encoder_of(estimator: Any) -> Encoder:
    """What an online estimator reads rows by."""
    if not isinstance(estimator, (OnlineMKLClassifier, OnlineMKLRegressor)):
        raise InputError(f"A {type(estimator).__name__} has no kernels on rows, whose features these could be.")
    return estimator.model_.codec.encoder


def _feature_counts(estimator: Any) -> dict[str, int | None]:
    """Dimensions of the feature maps of the kernels that have a weight; None where there is none."""
    kernels, encoder = kernels_of(estimator), _encoder_of_dicts(estimator)
    if encoder is not None:
        return {name: encoder.feature_count(name) for name in kernels}
    width = estimator.n_features_in_
    return {name: kernel.feature_count(len(chosen_columns(kernel, width))) for name, (kernel, _) in kernels.items()}


# ---- of dicts: kernels on their arrays, and the features of their keys -------------------------------------------


def _encoder_of_dicts(estimator: Any) -> Encoder | None:
    """What an online estimator reads dicts by; None for one of arrays."""
    encoder = None if isinstance(estimator, BatchMKL) else _encoder_of(estimator)
    return encoder if encoder is not None and encoder.vocabulary is not None else None


def _scales(encoder: Encoder, weights: dict[str, float]) -> np.ndarray:
    """The root of the weight of the group of each explicit feature."""
    of_groups = np.sqrt([weights.get(name, 0.0) for name in encoder.explicit_names] or [0.0])
    return of_groups[encoder.explicit_groups()]


def _others(encoder: Encoder, weights: dict[str, float]) -> list[str]:
    """Names of the kernels that have a weight and are not held by explicit features."""
    return [name for name in (*encoder.mapped, *encoder.dual) if weights.get(name, 0.0) > 0]


def _features_of_dicts(encoder: Encoder, weights: dict[str, float], rows: Any) -> Any:
    """Features (n, D), a CSR matrix where all are explicit."""
    tokens, scales = encoder.encode(rows, np.arange(len(rows) + 1)), _scales(encoder, weights)
    starts, ids, values = tokens.features or Features(np.zeros(len(rows) + 1, int), np.zeros(0, int), np.zeros(0))
    explicit = sparse.csr_array((values * scales[ids], ids, starts), shape=(len(rows), len(scales)))[:, scales > 0]
    dense = [
        encoder.kernels[name].features(tokens.views[encoder.views[name]]) * np.sqrt(weights[name])
        for name in _others(encoder, weights)
    ]
    return np.hstack([explicit.toarray(), *dense]) if dense else explicit


def _names_of_dicts(encoder: Encoder, weights: dict[str, float]) -> np.ndarray:
    ids = np.flatnonzero(_scales(encoder, weights) > 0).tolist()
    known = encoder.names_of(ids)
    names = [known[i] for i in ids]
    for name in _others(encoder, weights):
        names += [encoder.name_of_feature(name, i) for i in range(encoder.feature_count(name) or 0)]
    return np.array(names, dtype=object)
