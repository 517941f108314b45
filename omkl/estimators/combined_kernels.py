"""The kernel that a batch estimator has learned, for other estimators: as a transformer, and as a function."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from omkl.data.rows import times_as_days
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.kernel_sources import ArrayKernels
from omkl.exceptions import InputError


class CombinedKernel(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """The sum of all kernels times their ``kernel_weights_``."""

    _source: Any
    kernel_weights_: dict[str, float]

    def _checked(self, X: Any) -> Any:
        """Inputs as the source of the kernels takes them."""
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        check_is_fitted(self)
        return self._source.n_samples

    def transform(self, X: Any) -> np.ndarray:
        """The combined Gram matrix of samples against the training samples, (n, N).

        It is the sum of all kernels times their ``kernel_weights_``: a precomputed kernel for other estimators, as
        ``make_pipeline(MKLClassifier(), SVC(kernel="precomputed"))`` uses it. The columns are the training samples
        whose weight was not 0, in their order; ``set_output(transform="pandas")`` has them named.

        Parameters
        ----------
        X : array of shape (n, d), or with ``kernels="precomputed"`` matrices (n, N)

        Returns
        -------
        array of shape (n, N)
        """
        X = self._checked(X)
        weights = np.array(list(self.kernel_weights_.values()))
        active = np.flatnonzero(weights)
        total = np.zeros((self._source.n_rows(X), self._source.n_samples))
        for block, parts in self._source.blocks(X, active):
            for m, part in zip(active, parts):
                values = part if m not in self._source.ranks else part @ self._source.training_features(m).T
                total[block] += weights[m] * values
        return total

    def as_kernel(self) -> Callable[[ArrayLike, ArrayLike], np.ndarray]:
        """The learned kernel as a function of two arrays (n, d) and (m, d): (n, m), as ``SVC(kernel=...)`` takes.

        Raises
        ------
        omkl.exceptions.InputError
            If kernels were given as matrices: then there is no function; see :meth:`transform`.
        """
        check_is_fitted(self)
        if not isinstance(self._source, ArrayKernels):
            raise InputError('A kernel learned from matrices is no function of samples: use "transform".')
        weights, source = np.array(list(self.kernel_weights_.values())), self._source
        active, width = np.flatnonzero(weights), self.n_features_in_
        names = list(getattr(self, "feature_names_in_", []))

        def checked(given: Any) -> np.ndarray:
            columns = [str(name) for name in getattr(given, "columns", names)]
            dense = given.toarray() if sparse.issparse(given) else times_as_days(given, in_categories=True)
            array = np.ascontiguousarray(dense, dtype=np.float64)
            if array.ndim != 2 or array.shape[1] != width or (names and columns != names):
                raise InputError(f"The kernel is one of rows of {width} numbers, in the order of the training samples.")
            return array

        def kernel(X: ArrayLike, Y: ArrayLike) -> np.ndarray:
            X, Y = checked(X), checked(Y)
            total = np.zeros((len(X), len(Y)))
            for m, values in zip(active, source.values(X, Y, active)):
                total += weights[m] * values
            return total

        return kernel
