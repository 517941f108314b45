"""Kernel values given by the user: matrices of which each input knows its row, and its column."""

from dataclasses import dataclass

import numpy as np

from omkl.exceptions import InputError
from omkl.kernels.base import Kernel
from omkl.kernels.inputs import Pair, Vectors, check_magnitudes


@dataclass(eq=False, repr=False)
class Precomputed(Kernel):
    """Kernel values given by the user: an input is its row of the matrix against all training inputs.

    To train on N inputs give the (N, N) matrix, its rows cut as inputs are (into sequences, or entries of dicts); to
    predict, rows of N values, in the order of the training inputs. Several matrices may stand side by side, with
    ``on=``. All training inputs must be at hand: there is no training on a stream.

    Notes
    -----
    Which training input a row belongs to is the first entry of its vector, see :func:`~omkl.kernels.with_index`: inputs
    may be left out, brought into another order, or sent elsewhere, and are still compared by their own columns.

    Examples
    --------
    >>> gram = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> Precomputed().fit(gram)([[0.5, 0.25]], gram)
    array([[0.5 , 0.25]])
    """

    aliases = {"precomputed": {}}

    def _prepare(self) -> None:
        self.n_inputs_ = 0

    @property
    def indexed(self) -> bool:
        return True

    def _learn(self, X: Vectors) -> None:
        index, values = X[:, 0], X[:, 1:]
        if not np.isin(index, np.arange(values.shape[1])).all():
            raise InputError(f"A precomputed kernel needs a square matrix of all training inputs, not {values.shape}.")
        check_magnitudes(values, self)
        self.n_inputs_ = values.shape[1]
        values = values[:, index.astype(np.int64)]
        rounding = 1e-8 * np.abs(values).max(initial=0.0)
        if not np.allclose(values, values.T, rtol=0, atol=rounding) or np.diag(values).min(initial=0.0) < -rounding:
            raise InputError("A precomputed kernel matrix must be symmetric, and have no negative diagonal entries.")

    def raw(self, pair: Pair) -> np.ndarray:
        return np.take(self._checked(pair.X), self._indices(pair.Y) + 1, axis=1)

    def between(self, pair: Pair) -> np.ndarray:
        if self.normalize == "diagonal":
            raise InputError(
                "Normalise a precomputed kernel before passing it: test rows do not hold their own diagonal."
            )
        return super().between(pair)

    def raw_diagonal(self, X: Vectors) -> np.ndarray:
        return np.maximum(self._checked(X)[np.arange(len(X)), self._indices(X) + 1], 0.0)

    def as_support(self, X: np.ndarray) -> np.ndarray:
        return X[:, :1]

    def _checked(self, X: np.ndarray) -> np.ndarray:
        if X.shape[1] == self.n_inputs_ + 1:
            return X
        raise InputError(
            f"Inputs of a precomputed kernel are their index and {self.n_inputs_} values, not {X.shape[1]} numbers."
        )

    def _indices(self, X: np.ndarray) -> np.ndarray:
        """Return the index of the training input of each row."""
        index = X[:, 0].astype(np.int64)
        if not np.array_equal(index, X[:, 0]) or index.min(initial=0) < 0:
            raise InputError("A precomputed kernel knows its values against training inputs only, not among new ones.")
        return index
