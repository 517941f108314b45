"""Explanations of predictions by combinations of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from omkl.estimators.explanations import CONSTANT, Explanation, contrast, explanation, name_of_column, one_row
from omkl.estimators.validation import column_names_of
from omkl.exceptions import InputError
from omkl.kernels import Kernel
from omkl.kernels.inputs import take_columns
from omkl.online.group_contributions import Contributions, Piece


def explain_kernels(model: Any, x: Any, label: Any, against: Any, target: int, n: int) -> Explanation:
    """Explain a prediction by contributions of kernels; see :meth:`omkl.MKLClassifier.explain`."""
    X = model._checked(one_row(x) if "n_features_in_" in vars(model) else x)
    source, active, intercepts = model._source, model._active, model.intercept_
    if source.n_rows(X) != 1:
        raise InputError(f"explain takes one sample, but there are {source.n_rows(X)}: call it for each of them.")
    [(_, parts)] = source.blocks(X, active)
    rows = [np.asarray(part)[0] if not sparse.issparse(part) else part.toarray()[0] for part in parts]
    outputs = np.array([row @ weights for row, weights in zip(rows, model._weights)])
    total = outputs.sum(axis=0) + intercepts
    chosen = contrast(model._decoder(), total, label, against, target)
    groups, pieces = dict[str, float](), list[Piece]()
    for m, row, weights in zip(active.tolist(), rows, model._weights):
        name, own = source.names[m], weights @ chosen.weights
        kind = "part" if m in source.ranks else "support"
        added = _parts_of(source.kernels[m], X, own) if kind == "part" else row * own
        groups[name] = float(added.sum())
        pieces += [Piece(kind, name, i, None, value) for i, value in enumerate(added.tolist())]
    groups[CONSTANT] = float(intercepts @ chosen.weights)

    def name_of(piece: Piece) -> str:
        if piece.kind == "support":
            return f"support vector {piece.key} of {piece.group}"
        return _name_of_part(model, source.kernels[source.names.index(piece.group)], piece.key)

    found = Contributions(groups, pieces)
    return explanation(*chosen[1:], float(total @ chosen.weights), found, n, lambda own: list(map(name_of, own)))


def _parts_of(kernel: Kernel, X: Any, weights: np.ndarray) -> np.ndarray:
    """Contributions of the parts of a kernel's explicit features."""
    return kernel.parts(take_columns(X, kernel.columns(X.shape[1])), weights)


def _name_of_part(model: Any, kernel: Kernel, i: int) -> str:
    """Name of part i of a kernel's explicit features."""
    width, names = model.n_features_in_, column_names_of(model)
    columns = kernel.columns(width)
    if columns is None or isinstance(columns, slice):
        chosen = np.arange(width)[slice(None) if columns is None else columns]
    else:
        chosen = np.array(columns, dtype=np.int64)
    return kernel.part_name(i, lambda j: name_of_column(names, int(chosen[j])), len(chosen))
