"""Explanations of predictions by sparse linear models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl.batch.group_lasso.blocks import column_labels
from omkl.estimators.batch import ColumnNames, groups_of
from omkl.estimators.explanations import CONSTANT, Explanation, contrast, explanation, name_of_column, one_row
from omkl.estimators.validation import encoded_columns, source_columns
from omkl.exceptions import InputError
from omkl.linear.problems import DesignLike
from omkl.online.group_contributions import Contributions, Piece


def explain_columns(
    self: Any,
    x: DesignLike,
    *,
    label: object = None,
    against: object = None,
    target: int = 0,
    offset: ArrayLike | None = None,
    n: int = 20,
) -> Explanation:
    """Explain the prediction of one sample by the contributions of its columns.

    For a classifier, the contributions add up to the margin, the difference of the scores of two classes.

    Parameters
    ----------
    x : array of shape (d,), or an input of :meth:`predict` with one sample
    label, against : class, optional
        The class to explain, by default the predicted one, and the class to compare it with, by default the best of
        the others. Not for a regressor or for labels in columns.
    target : int
        Index of the output of a regressor, or of the label.
    offset : float or array, optional
        Offset of the sample, as for :meth:`predict`.
    n : int > 0
        Number of strongest columns to list.

    Returns
    -------
    omkl.Explanation
        The groups include ``intercept`` and, if given, ``offset``. With the Poisson loss the ``margin`` is the
        logarithm of the predicted mean.

    Raises
    ------
    omkl.exceptions.InputError
        If the sample does not fit the model, or a class or target is unknown.
    """
    X = self._checked(one_row(x))
    known = None if offset is None else np.atleast_1d(np.asarray(offset, dtype=np.float64))
    outputs = self._outputs(X, known if known is None or len(known) == 1 else known[None])
    if len(outputs) != 1:
        raise InputError(f"explain takes one sample, but got {len(outputs)}: call it for each sample.")
    chosen = contrast(self._decoder(), outputs[0], label, against, target)
    columns, values = _row_of(X)
    added = (chosen.weights @ np.atleast_2d(self.coef_)[:, columns]) * values
    columns, added = columns[added != 0], added[added != 0]
    owners, groups = _groups_of(self, columns), dict[str, float]()
    for name, value in zip(owners, added.tolist()):
        groups[name] = groups.get(name, 0.0) + value
    groups[CONSTANT] = float(chosen.weights @ np.atleast_1d(self.intercept_))
    if known is not None:
        groups["offset"] = float(chosen.weights @ np.broadcast_to(known, len(chosen.weights)))
    names = encoded_columns(self)
    pieces = [Piece("feature", name, j, None, v) for name, j, v in zip(owners, columns.tolist(), added.tolist())]

    def named(pieces: list[Piece]) -> list[str]:
        return [name_of_column(names, piece.key) for piece in pieces]

    margin = float(chosen.weights @ outputs[0])
    return explanation(*chosen[1:], margin, Contributions(groups, pieces), n, named)


def _groups_of(model: Any, columns: np.ndarray) -> list[str]:
    """Return the names of the groups of some columns."""
    groups, names = groups_of(model), source_columns(model)
    labels = column_labels(groups.groups, np.shape(model.coef_)[-1])
    if labels is None:
        return [name_of_column(names, j) for j in columns.tolist()]
    known = groups.texts(int(labels.max()) + 1)
    return [known[k] for k in labels[columns].tolist()]


def _row_of(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices and values of the nonzero columns of one row."""
    if sparse.issparse(X):
        row = sparse.coo_array(X)
        return row.coords[1], row.data
    if not hasattr(X, "__array__") and not isinstance(X, (list, tuple)):
        raise InputError(f"explain takes a row of numbers, not {type(X).__name__}.")
    values = np.asarray(X, dtype=np.float64)[0]
    return np.flatnonzero(values), values[values != 0]


def group_norms(coefficients: np.ndarray, named: ColumnNames) -> dict[str, np.ndarray]:
    """Return the norm of the coefficients (n, K, d) of each group of columns, as arrays (n,) by name."""
    squares = np.square(coefficients).sum(axis=1)
    members = column_labels(named.groups, squares.shape[1])
    if members is not None:
        squares = np.array([np.bincount(members, row) for row in squares])
    return dict(zip(named.texts(squares.shape[1]), np.sqrt(squares).T, strict=True))
