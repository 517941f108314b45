"""Gram matrices with names, indexed by rows and columns: what scikit-learn's splitters can cut."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from omkl.exceptions import InputError


class GramMatrices:
    """Values of M kernels between n and N samples; ``matrices[rows]`` and ``matrices[np.ix_(rows, columns)]`` are too.

    ``cross_val_score(MKLClassifier("precomputed"), GramMatrices(...), y)`` works, as does ``train_test_split``.

    Parameters
    ----------
    matrices : mapping of str to array of shape (n, N), sequence of such arrays, or array of shape (n, N, M)
        A mapping names the kernels, others are called "kernel 0" and so on. None stands for a kernel that no model
        needs.

    Attributes
    ----------
    names : list of str
    matrices : list of arrays of shape (n, N), or None
    shape : tuple
        (n, N, M).

    Raises
    ------
    omkl.exceptions.InputError
        If there are none, or they are not all of one shape.

    Examples
    --------
    >>> grams = GramMatrices({"constant": np.ones((3, 3)), "identity": np.eye(3)})
    >>> grams[np.ix_([0, 2], [0, 2])].shape
    (2, 2, 2)
    """

    def __init__(self, matrices: Any) -> None:
        if isinstance(matrices, GramMatrices):
            self.names, self.matrices = matrices.names, matrices.matrices
        elif isinstance(matrices, Mapping):
            self.names, self.matrices = list(matrices), list(matrices.values())
        else:
            if isinstance(matrices, np.ndarray):
                matrices = list(np.moveaxis(matrices, -1, 0)) if matrices.ndim == 3 else []
            self.matrices = list(matrices) if hasattr(matrices, "__len__") else []
            self.names = [f"kernel {m}" for m in range(len(self.matrices))]
        self.matrices = [None if matrix is None else np.asarray(matrix) for matrix in self.matrices]
        shapes = {matrix.shape for matrix in self.matrices if matrix is not None}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2:
            raise InputError(
                "Precomputed kernels must be M matrices (n, N) of one shape: a dict with their names, a list of M "
                f"arrays, or one array (n, N, M); not {_described(shapes)}."
            )
        self.shape: tuple[int, int, int] = (*shapes.pop(), len(self.matrices))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> "GramMatrices":
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]
        cut = [None if matrix is None else matrix[key] for matrix in self.matrices]
        return GramMatrices(dict(zip(self.names, cut)))


def _described(shapes: set) -> str:
    return f"shapes {', '.join(map(str, sorted(shapes)))}" if shapes else "anything else"
