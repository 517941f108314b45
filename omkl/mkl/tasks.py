"""Problems of a fit: targets of classes, labels or numbers, and solutions of one output each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from omkl._components import warn_caller
from omkl.batch import Solution, each_output
from omkl.estimators.batch import is_a_classifier
from omkl.estimators.output_decoders import (
    ClassDecoder,
    encode_classes,
    encode_labels,
    finite_targets,
    one_vs_rest,
    weighted_by_class,
)
from omkl.exceptions import InputError


class Task(NamedTuple):
    """A problem of a fit: its samples, None for all, and their targets, (n,), or (n, P) of several outputs."""

    rows: np.ndarray | None
    target: np.ndarray


class Encoded(NamedTuple):
    """Targets of a fit: its problems, the weights (N,) of the samples, and of a classifier the decoder."""

    tasks: list[Task]
    weights: np.ndarray
    decoder: ClassDecoder | None = None


def encode_targets(estimator: Any, y: np.ndarray, weights: np.ndarray, has_kink: bool, shares: bool) -> Encoded:
    """Problems that stand for the targets of an estimator.

    Parameters
    ----------
    estimator : BatchMKL
    y : array of shape (N,) or (N, K)
    weights : array of shape (N,)
        Sample weights > 0; they are multiplied by those of the classes.
    has_kink : bool
        Of the loss.
    shares : bool
        Whether the solver can share kernel weights among outputs.
    """
    if not is_a_classifier(estimator):
        y = finite_targets(y)
        is_constant = y.ndim == 1 and len(y) > 1 and np.ptp(y) == 0.0
        if is_constant and estimator.fit_intercept and not has_kink:  # with a kink, other constants may be as good
            warn_caller(f"y is constant ({y[0]:g}): the model is that constant.", UserWarning)
        return Encoded(_shared_or_each(y, shares), weights)
    shares = shares and estimator.multiclass != "ovr"
    if y.ndim == 2:
        if estimator.class_weight is not None or estimator.multiclass == "ovo":
            raise InputError('class_weight and multiclass="ovo" are for classes, not for labels in columns of y.')
        signs, decoder = encode_labels(y)
        return Encoded(_shared_or_each(signs, shares), weights, decoder)
    classes, codes = encode_classes(y)
    weights = np.asarray(weighted_by_class(estimator.class_weight, classes, codes, weights))
    if estimator.multiclass != "ovo" or len(classes) == 2:
        return Encoded(_shared_or_each(one_vs_rest(codes, len(classes)), shares), weights, ClassDecoder(classes))
    tasks = []
    for a, b in combinations(range(len(classes)), 2):
        rows = np.flatnonzero((codes == a) | (codes == b))
        tasks.append(Task(rows, np.where(codes[rows] == b, 1.0, -1.0)))
    return Encoded(tasks, weights, ClassDecoder(classes, pairs=True))


def _shared_or_each(columns: np.ndarray, shares: bool) -> list[Task]:
    """One problem of all columns of targets (N, P) if kernel weights are shared, else one for each."""
    if columns.ndim == 1 or (shares and columns.shape[1] > 1):
        return [Task(None, columns)]
    return [Task(None, target) for target in np.ascontiguousarray(columns.T)]


def target_columns(tasks: Sequence[Task], n_samples: int) -> np.ndarray:
    """Targets of all tasks as columns (N, P); 0 for samples that a task does not have."""
    if tasks[0].target.ndim == 2:
        return tasks[0].target
    columns = np.zeros((n_samples, len(tasks)))
    for column, (rows, target) in zip(columns.T, tasks):
        column[slice(None) if rows is None else rows] = target
    return columns


def split_outputs(tasks: Sequence[Task], solutions: list[Solution]) -> tuple[list[Task], list[Solution]]:
    """Tasks and solutions of one output each."""
    if tasks[0].target.ndim == 1:
        return list(tasks), solutions
    columns = tasks[0].target.T
    return [Task(None, column) for column in columns], each_output(solutions[0], len(columns))


def informative(target: np.ndarray, of_classes: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Columns of targets (n, K) in which the samples differ, and the targets of the problem for these.

    Returns
    -------
    columns : int array
    target : array of shape (n, number of columns), or (n,) if two classes remain, which are one problem
    """
    present = np.flatnonzero(np.ptp(target, axis=0) > 0)
    return present, target[:, present[-1]] if of_classes and len(present) == 2 else target[:, present]
