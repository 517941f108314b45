"""Explanations of predictions by sparse linear models."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from omkl.batch.group_lasso.blocks import column_labels
from omkl.estimators.batch import read_groups
from omkl.estimators.explanations import CONSTANT, Explanation, contrast, explanation, name_of_column, one_row
from omkl.estimators.validation import column_names_of
from omkl.exceptions import InputError
from omkl.online.group_contributions import Contributions, Piece


def explain_columns(model: Any, x: Any, label: Any, against: Any, target: int, offset: Any, n: int) -> Explanation:
    """Explain a prediction by contributions of columns; see :meth:`omkl.GroupLasso.explain`."""
    X = model._checked(one_row(x))
    known = None if offset is None else np.atleast_1d(np.asarray(offset, dtype=np.float64))
    outputs = model._outputs_of(X, known if known is None or len(known) == 1 else known[None])
    if len(outputs) != 1:
        raise InputError(f"explain takes one sample, but there are {len(outputs)}: call it for each of them.")
    chosen = contrast(model._decoder(), outputs[0], label, against, target)
    columns, values = _row_of(X)
    added = (chosen.weights @ np.atleast_2d(model.coef_)[:, columns]) * values
    columns, added = columns[added != 0], added[added != 0]
    owners, groups = _groups_of(model, columns), dict[str, float]()
    for name, value in zip(owners, added.tolist()):
        groups[name] = groups.get(name, 0.0) + value
    groups[CONSTANT] = float(chosen.weights @ np.atleast_1d(model.intercept_))
    if known is not None:
        groups["offset"] = float(chosen.weights @ np.broadcast_to(known, len(chosen.weights)))
    names = column_names_of(model)
    pieces = [Piece("feature", name, j, None, v) for name, j, v in zip(owners, columns.tolist(), added.tolist())]

    def named(pieces: list[Piece]) -> list[str]:
        return [name_of_column(names, piece.key) for piece in pieces]

    margin = float(chosen.weights @ outputs[0])
    return explanation(*chosen[1:], margin, Contributions(groups, pieces), n, named)


def _groups_of(model: Any, columns: np.ndarray) -> list[str]:
    """Names of the groups of some columns."""
    names = column_names_of(model)
    groups = read_groups(model.groups, names)
    labels = column_labels(groups.groups, model.n_features_in_)
    if labels is None:
        return [name_of_column(names, j) for j in columns.tolist()]
    known = groups.texts(int(labels.max()) + 1)
    return [known[k] for k in labels[columns].tolist()]


def _row_of(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Columns of one row that are not 0, and their values."""
    if sparse.issparse(X):
        row = sparse.coo_array(X)
        return row.coords[1], row.data
    if not hasattr(X, "__array__") and not isinstance(X, (list, tuple)):
        raise InputError(f"explain takes a row of numbers, not {type(X).__name__}.")
    values = np.asarray(X, dtype=np.float64)[0]
    return np.flatnonzero(values), values[values != 0]
