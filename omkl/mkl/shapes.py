"""Shape functions: a model with kernels on single columns as a sum of functions of one column each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import resample
from sklearn.utils.validation import check_consistent_length

from omkl.data.blocks import is_frame
from omkl.data.frames import plain_targets, times_as_days
from omkl.data.table_columns import read_columns
from omkl.estimators.validation import MISSING, source_columns
from omkl.exceptions import InputError
from omkl.mkl.kernel_sources import summed

#: Maximum number of points of a curve.
POINTS = 100
#: Number of bootstrap draws.
DRAWS = 20
#: Names of the columns of a shape.
Columns: TypeAlias = tuple[str, ...]
#: Points of a shape: their values, the first row with each, and the share of the rows from each to
#: the next.
Points: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
Groups: TypeAlias = Mapping[str, tuple[Columns, np.ndarray]]


class Shape(NamedTuple):
    """Effect of one column, or of two, on the outputs of a model.

    Attributes
    ----------
    columns : tuple of str
        One name, two for a surface, or "missing" for the effect of missing entries.
    weight : float
        Weight of its kernels, as a share of all.
    strength : float
        Standard deviation of the effect over the rows, for several outputs of all of them together.
    grid : array of shape (G,), or (G, 2) for a surface
        Values in the rows, in increasing order. Strings for text and categories; for "missing" the
        names of the missing columns.
    effect : array of shape (G,), or (G, P) for P outputs
        Its mean over the rows is 0.
    band : array like ``effect``
        Half the width of the band around the effect; NaN if there is none.
    density : array of shape (G,)
        Share of the rows from each point to the next.
    """

    columns: Columns
    weight: float
    strength: float
    grid: np.ndarray
    effect: np.ndarray
    band: np.ndarray
    density: np.ndarray


class Shapes(NamedTuple):
    """A model as a sum of functions of its columns.

    Attributes
    ----------
    intercept : float, or array of shape (P,) for P outputs
        Mean output over the rows. With the effects of the values of a row, it adds up to the output
        for the row.
    parts : list of Shape
        The strongest first; columns that are not in the model have none.
    outputs : list of str
        Names of the outputs.
    """

    intercept: Any
    parts: list[Shape]
    outputs: list[str]


def find_shapes(
    estimator: Any, X: Any, names: Sequence[str], groups: Groups, total: Any, spread: Any = None
) -> Shapes:
    """Add up the groups on the same columns, and centre the sums.

    Parameters
    ----------
    estimator : estimator with ``kernel_weights_``
    X : array or data frame of shape (n, d)
    names : sequence of str
        Names of the columns of X.
    groups : dict of str to (tuple of str, array of shape (n, P))
        The groups in the model: their columns, and their contributions to the outputs.
    total : array of shape (n, P)
        The outputs.
    spread : callable, optional
        Returns the half widths (G, P) of bands from the points of all shapes.
    """
    blocks: dict[Columns, list[str]] = {}
    for name, (columns, _) in groups.items():
        if len(columns) > 2:
            raise InputError(
                f"shapes needs kernels on one or two columns, see per_column: {name!r} is on {len(columns)}."
            )
        blocks.setdefault(columns, []).append(name)
    values = _columns(X, names, getattr(estimator, "column_kinds_", None))
    parts, n_outputs = list[Shape](), total.shape[1]
    points = {own: _points([values[name] for name in own], own) for own in blocks}
    bands, cut = {} if spread is None else spread(points), (..., 0) if n_outputs == 1 else ...
    for own, members in blocks.items():
        effect, (grid, rows, density) = sum(groups[name][1] for name in members), points[own]
        effect, weight = (
            effect - effect.mean(axis=0),
            sum(estimator.kernel_weights_[name] for name in members),
        )
        band = bands.get(own, np.full((len(grid), n_outputs), np.nan))
        parts.append(
            Shape(own, weight, float(effect.std()), grid, effect[rows][cut], band[cut], density)
        )
    labels, constant = (
        getattr(estimator, "classes_", range(n_outputs)),
        getattr(estimator, "constant_labels_", {}),
    )
    # the output of two classes is the score of the second
    outputs = [str(label) for label in np.delete(labels, list(constant)).tolist()[-n_outputs:]]
    return Shapes(total.mean(axis=0)[cut], sorted(parts, key=lambda own: -own.strength), outputs)


def _columns(
    X: Any, names: Sequence[str], kinds: Sequence[str | None] | None
) -> dict[str, np.ndarray]:
    """Return columns of numbers, NaN where they are missing, or strings; the column "missing" names
    missing numbers.

    ``kinds`` are those of the columns of a data frame in training.
    """
    if is_frame(X):
        columns = {}
        for column in read_columns(X, kinds):
            values = column.values
            if column.is_text:
                values = np.array([MISSING if text is None else text for text in values])
            columns[column.name] = values
    elif (array := times_as_days(np.asarray(X))).ndim == 2:
        columns = dict(zip(names, array.astype(np.float64).T))
    else:
        raise InputError(
            f"shapes takes an array of numbers or a data frame, got {type(X).__name__}."
        )
    absent = {name: np.isnan(own) for name, own in columns.items() if own.dtype.kind == "f"}
    lacking = [
        ", ".join(name for name, own in absent.items() if own[i]) or "none" for i in range(len(X))
    ]
    return columns | {MISSING: np.array(lacking)}


def _points(values: list[np.ndarray], columns: Columns) -> Points:
    """Choose the points of a shape among the values in the rows."""
    known = np.flatnonzero(np.all([own == own for own in values], axis=0))  # not NaN
    own = values[0] if len(values) == 1 else np.column_stack(values)
    grid, first, codes = np.unique(own[known], axis=0, return_index=True, return_inverse=True)
    if len(grid) < 2 and columns != (MISSING,):
        raise InputError(
            f"The column {' x '.join(columns)!r} of X must hold two values or more, got {len(grid)}."
        )
    chosen = np.arange(len(grid))
    if grid.ndim == 1 and grid.dtype.kind == "f":
        chosen = np.unique(np.searchsorted(grid, np.linspace(grid[0], grid[-1], POINTS)))
    at = np.searchsorted(chosen, codes.ravel(), side="right") - 1
    return grid[chosen], known[first[chosen]], np.bincount(at, minlength=len(chosen)) / len(known)


# ---- batch models --------------------------------------------------------------------------------


def batch_shapes(estimator: Any, checked: Any, X: Any, y: Any, random: Any) -> Shapes:
    """Return the shapes of a batch model for the rows X, whose encoded columns are ``checked``."""
    model = estimator._model
    names = source_columns(estimator) or [f"column {j}" for j in range(checked.shape[1])]
    columns = model.source.columns(names)
    parts = model.parts(checked)
    total = sum(parts.values(), np.tile(model.intercepts, (checked.shape[0], 1)))
    spread = None if y is None else partial(_bootstrap, estimator, columns, checked, y, random)
    groups = {
        name: (own, parts[name]) for name, own in zip(model.source.names, columns) if name in parts
    }
    return find_shapes(estimator, X, list(dict.fromkeys(names)), groups, total, spread)


def _bootstrap(
    estimator: Any, columns: list, X: Any, y: Any, random: Any, points: Mapping[Columns, Points]
) -> dict:
    """Return two standard deviations of the effects over draws of the rows X.

    With the sum of all kernels times their weights d as its kernel, a machine with one kernel has
    the same solution as the problem with fixed weights d.
    """
    fixed = {
        "kernels": "precomputed",
        "regularizer": "uniform",
        "solver": "spicy",
        "weighting": "norms",
    }
    machine, targets = estimator._at(estimator.C_, **fixed), np.asarray(plain_targets(y))
    check_consistent_length(X, targets)
    source = copy(estimator._model.source)
    source.X, source.n_samples = X, len(X)
    weights, cross = (
        np.array([*estimator.unscaled_kernel_weights_.values()]),
        dict[Columns, np.ndarray](),
    )
    for own in points:
        chosen = np.array([own == other for other in columns])
        cross[own] = summed(source, X[points[own][1]], weights * chosen)
    gram, effects = summed(source, X, weights), {own: list[np.ndarray]() for own in cross}
    classes = targets if is_classifier(machine) and targets.ndim == 1 else None
    for _ in range(DRAWS):
        rows, counts = np.unique(
            resample(np.arange(len(X)), stratify=classes, random_state=random), return_counts=True
        )
        fitted = clone(machine).fit([gram[np.ix_(rows, rows)]], targets[rows], counts)
        for own, values in cross.items():
            effect = values[:, rows] @ fitted.dual_coef_.reshape(-1, len(rows)).T
            effects[own].append(effect - points[own][2] @ effect)
    return {own: 2.0 * np.std(drawn, axis=0) for own, drawn in effects.items()}
