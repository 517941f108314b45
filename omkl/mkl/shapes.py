"""Shape functions: a model with kernels on single columns as a sum of functions of one column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import resample
from sklearn.utils.validation import check_consistent_length

from omkl.data.frames import array_of_rows, plain_targets
from omkl.data.table_reading import read_table
from omkl.estimators.validation import MISSING, source_columns, training_columns
from omkl.exceptions import InputError
from omkl.kernels.inputs import Vectors
from omkl.mkl.kernel_sources import CheckedInputs, KernelInputs, summed

#: Maximum number of points of a curve.
POINTS = 100
#: Number of bootstrap draws.
DRAWS = 20
#: Names of the columns of a shape.
Columns: TypeAlias = tuple[str, ...]


class Points(NamedTuple):
    """Points of a shape.

    ``grid`` (G,) or (G, 2) are their values, ``rows`` (G,) the first row with each, and ``density``
    (G,) the shares of the rows from each to the next.
    """

    grid: np.ndarray
    rows: np.ndarray
    density: np.ndarray


class GroupEffect(NamedTuple):
    """A group of a model: its columns, and its contributions to the outputs, (n, P)."""

    columns: Columns
    effect: np.ndarray


#: Groups by name.
Groups: TypeAlias = Mapping[str, GroupEffect]
#: Returns half the widths (G, P) of bands from the points of all shapes.
BandsOf: TypeAlias = Callable[[Mapping[Columns, Points]], Mapping[Columns, np.ndarray]]


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
    estimator: BaseEstimator,
    X: KernelInputs,
    names: Sequence[str],
    groups: Groups,
    outputs: np.ndarray,
    bands_of: BandsOf | None = None,
) -> Shapes:
    """Add up the groups on the same columns, and centre the sums.

    Parameters
    ----------
    estimator : estimator of rows
    X : array or data frame of shape (n, d)
    names : sequence of str
        Names of the columns of X.
    groups : dict of str to GroupEffect
        The groups in the model.
    outputs : array of shape (n, P)
    bands_of : callable, optional
        Returns the half widths of bands from the points of all shapes.
    """
    names_of_groups: dict[Columns, list[str]] = {}
    for name, group in groups.items():
        if len(group.columns) > 2:
            raise InputError(
                "shapes needs kernels on one or two columns, see per_column: "
                f"{name!r} is on {len(group.columns)}."
            )
        names_of_groups.setdefault(group.columns, []).append(name)
    values = _columns(estimator, X, names)
    points: dict[Columns, Points] = {}
    for columns in names_of_groups:
        points[columns] = _points([values[name] for name in columns], columns)
    bands: Mapping[Columns, np.ndarray] = {}
    if bands_of is not None:
        bands = bands_of(points)
    n_outputs = outputs.shape[1]
    # a single output has no axis of its own
    output_axis: Any = (..., 0) if n_outputs == 1 else ...
    shapes = []
    for columns, group_names in names_of_groups.items():
        effect: Any = sum(groups[name].effect for name in group_names)
        effect = effect - effect.mean(axis=0)
        points_of_shape = points[columns]
        no_band = np.full((len(points_of_shape.grid), n_outputs), np.nan)
        shapes.append(
            Shape(
                columns=columns,
                weight=sum(estimator.kernel_weights_[name] for name in group_names),
                strength=float(effect.std()),
                grid=points_of_shape.grid,
                effect=effect[points_of_shape.rows][output_axis],
                band=bands.get(columns, no_band)[output_axis],
                density=points_of_shape.density,
            )
        )
    return Shapes(
        intercept=outputs.mean(axis=0)[output_axis],
        parts=sorted(shapes, key=attrgetter("strength"), reverse=True),
        outputs=_names_of_outputs(estimator, n_outputs),
    )


def _names_of_outputs(estimator: BaseEstimator, n_outputs: int) -> list[str]:
    """Return the classes or labels of a classifier, or the numbers of outputs."""
    labels = getattr(estimator, "classes_", range(n_outputs))
    constant_labels = getattr(estimator, "constant_labels_", {})
    varying = np.delete(labels, list(constant_labels)).tolist()
    # the output of two classes is the score of the second
    return [str(label) for label in varying[-n_outputs:]]


def _columns(
    estimator: BaseEstimator, X: KernelInputs, names: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return columns of strings, or of numbers, NaN where they are missing, by name.

    A further column, "missing", names the missing numbers of each row. ``names`` are those of the
    columns of arrays.
    """
    training = training_columns(estimator)
    table = read_table(X, training)
    columns = {}
    if table.rows is not None:
        table = table.in_columns(training)
    if table.columns is None:
        array = np.asarray(array_of_rows(table.array))
        if array.ndim != 2:
            raise InputError(
                f"shapes takes an array of numbers or a data frame, got {type(X).__name__}."
            )
        columns = dict(zip(names, array.astype(np.float64).T))
    for name, column in zip(table.names or names, table.columns or ()):
        columns[name] = column.values
        if column.is_text:
            texts = [MISSING if text is None else text for text in column.values]
            columns[name] = np.array(texts)
    is_missing = {}
    for name, values in columns.items():
        if values.dtype.kind == "f":
            is_missing[name] = np.isnan(values)
    n_rows = len(next(iter(columns.values())))
    missing = []
    for i in range(n_rows):
        missing_names = [name for name, is_absent in is_missing.items() if is_absent[i]]
        missing.append(", ".join(missing_names) or "none")
    columns[MISSING] = np.array(missing)
    return columns


def _points(values: list[np.ndarray], columns: Columns) -> Points:
    """Choose the points of a shape among the values (n,) of its columns in the rows."""
    is_present = np.all([column == column for column in values], axis=0)  # NaN differs from itself
    present = np.flatnonzero(is_present)
    joined = values[0] if len(values) == 1 else np.column_stack(values)
    distinct, first, codes = np.unique(
        joined[present], axis=0, return_index=True, return_inverse=True
    )
    if len(distinct) < 2 and columns != (MISSING,):
        raise InputError(
            f"The column {' x '.join(columns)!r} of X must hold two values or more, got "
            f"{len(distinct)}."
        )
    on_grid = np.arange(len(distinct))
    if distinct.ndim == 1 and distinct.dtype.kind == "f":
        evenly_spaced = np.linspace(distinct[0], distinct[-1], POINTS)
        on_grid = np.unique(np.searchsorted(distinct, evenly_spaced))
    # a row counts for the last point that is not above it
    point_of_row = np.searchsorted(on_grid, codes.ravel(), side="right") - 1
    density = np.bincount(point_of_row, minlength=len(on_grid)) / len(present)
    return Points(grid=distinct[on_grid], rows=present[first[on_grid]], density=density)


# ---- batch models --------------------------------------------------------------------------------


def batch_shapes(
    estimator: BaseEstimator,
    checked: CheckedInputs,
    X: KernelInputs,
    y: ArrayLike | None,
    random: np.random.RandomState,
) -> Shapes:
    """Return the shapes of a batch model for the rows X, whose encoded columns are ``checked``.

    Targets ``y`` give the shapes bands.
    """
    model = estimator._model
    names = source_columns(estimator) or [f"column {j}" for j in range(checked.shape[1])]
    columns = model.source.columns(names)
    effects = model.parts(checked)
    outputs = np.tile(model.intercepts, (checked.shape[0], 1))
    for effect in effects.values():
        outputs = outputs + effect
    groups = {}
    for name, columns_of_kernel in zip(model.source.names, columns):
        if name in effects:
            groups[name] = GroupEffect(columns=columns_of_kernel, effect=effects[name])
    bands_of = None
    if y is not None:
        bands_of = partial(_bootstrap, estimator, columns, checked, y, random)
    return find_shapes(estimator, X, list(dict.fromkeys(names)), groups, outputs, bands_of)


def _bootstrap(
    estimator: BaseEstimator,
    columns: list[Columns],
    X: Vectors,
    y: ArrayLike,
    random: np.random.RandomState,
    points: Mapping[Columns, Points],
) -> dict[Columns, np.ndarray]:
    """Return two standard deviations of the effects over draws of the encoded rows X.

    ``columns`` are those of all kernels. With the sum of all kernels times their weights d as its
    kernel, a machine with one kernel has the same solution as the problem with fixed weights d.
    """
    machine = estimator._at(estimator.C_).set_params(
        kernels="precomputed", regularizer="uniform", solver="spicy", weighting="norms"
    )
    targets = np.asarray(plain_targets(y))
    check_consistent_length(X, targets)
    source = copy(estimator._model.source)
    source.X = X
    source.n_samples = len(X)
    weights = np.array([*estimator.unscaled_kernel_weights_.values()])
    values_at_points = {}
    for shape, points_of_shape in points.items():
        is_of_shape = np.array([shape == columns_of_kernel for columns_of_kernel in columns])
        values_at_points[shape] = summed(source, X[points_of_shape.rows], weights * is_of_shape)
    effects: dict[Columns, list[np.ndarray]] = {shape: [] for shape in points}
    for rows, coefficients in _bootstrap_models(
        machine, summed(source, X, weights), targets, random
    ):
        for shape, values in values_at_points.items():
            effect = values[:, rows] @ coefficients
            effects[shape].append(effect - points[shape].density @ effect)
    return {shape: 2.0 * np.std(effects[shape], axis=0) for shape in effects}


def _bootstrap_models(
    machine: BaseEstimator, gram: np.ndarray, targets: np.ndarray, random: np.random.RandomState
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows (r,) of each draw, and the coefficients (r, P) of a machine fitted to them.

    ``gram`` (n, n) is the kernel of all rows, ``targets`` are (n,) or (n, P).
    """
    classes = targets if is_classifier(machine) and targets.ndim == 1 else None
    for _ in range(DRAWS):
        resampled_rows = resample(np.arange(len(gram)), stratify=classes, random_state=random)
        rows, counts = np.unique(resampled_rows, return_counts=True)
        fitted = clone(machine).fit([gram[np.ix_(rows, rows)]], targets[rows], counts)
        yield rows, fitted.dual_coef_.reshape(-1, len(rows)).T
