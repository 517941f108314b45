"""Problems of a fit: targets of classes, labels or numbers, solutions of one output each, and warnings about them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from omkl._components import warn_caller
from omkl.batch.mkl.problem import each_output
from omkl.batch.solver import Solution, Solver
from omkl.estimators.batch import ClassDecoder, encode_classes, encode_labels, one_vs_rest
from omkl.estimators.targets import finite_targets
from omkl.estimators.validation import weighted_by_class
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


class Settings(NamedTuple):
    """Parameters of a batch estimator as objects."""

    loss: PointwiseLoss
    regularizer: Regularizer
    solver: Solver
    intercept: bool
    tol: float
    max_iter: int | None
    multiclass: str = "auto"
    class_weight: Any = None


class Task(NamedTuple):
    """A problem of a fit: its samples, None for all, and their targets, (n,), or (n, P) of several outputs."""

    rows: np.ndarray | None
    target: np.ndarray


class Encoded(NamedTuple):
    """Targets of a fit: its problems, the weights (N,) of the samples, and of a classifier the decoder."""

    tasks: list[Task]
    weights: np.ndarray
    decoder: ClassDecoder | None = None


def encode_targets(y: np.ndarray, weights: np.ndarray, settings: Settings, warns: bool = True) -> Encoded:
    """Return the problems that stand for targets.

    Parameters
    ----------
    y : array of shape (N,) or (N, K)
    weights : array of shape (N,)
        Sample weights > 0; they are multiplied by those of the classes.
    settings : Settings
    warns : bool
        Warn of constant targets.
    """
    shares = settings.solver.several_outputs
    if not settings.loss.classifies:
        y = finite_targets(y)
        is_constant = y.ndim == 1 and len(y) > 1 and np.ptp(y) == 0.0
        # with a kink, other constants may be as good
        if warns and is_constant and settings.intercept and not settings.loss.has_kink:
            warn_caller(f"y is constant ({y[0]:g}): the model is that constant.", UserWarning)
        return Encoded(_shared_or_each(y, shares), weights)
    shares = shares and settings.multiclass != "ovr"
    if y.ndim == 2:
        if settings.class_weight is not None or settings.multiclass == "ovo":
            raise InputError('class_weight and multiclass="ovo" are for classes, not for labels in columns of y.')
        signs, labels = encode_labels(y, warns)
        return Encoded(_shared_or_each(signs, shares), weights, labels)
    classes, codes = encode_classes(y)
    weights = np.asarray(weighted_by_class(settings.class_weight, classes, codes, weights))
    if settings.multiclass != "ovo" or len(classes) == 2:
        return Encoded(_shared_or_each(one_vs_rest(codes, len(classes)), shares), weights, ClassDecoder(classes))
    tasks = []
    for a, b in combinations(range(len(classes)), 2):
        rows = np.flatnonzero((codes == a) | (codes == b))
        tasks.append(Task(rows, np.where(codes[rows] == b, 1.0, -1.0)))
    return Encoded(tasks, weights, ClassDecoder(classes, pairs=True))


def _shared_or_each(columns: np.ndarray, shares: bool) -> list[Task]:
    """Return one problem of all columns of targets (N, P) if kernel weights are shared, else one for each."""
    if columns.ndim == 1 or (shares and columns.shape[1] > 1):
        return [Task(None, columns)]
    return [Task(None, target) for target in np.ascontiguousarray(columns.T)]


def target_columns(tasks: Sequence[Task], n_samples: int) -> np.ndarray:
    """Return targets of all tasks as columns (N, P); 0 for samples that a task does not have.

    Parameters
    ----------
    tasks : sequence of Task
    n_samples : int
    """
    if tasks[0].target.ndim == 2:
        return tasks[0].target
    columns = np.zeros((n_samples, len(tasks)))
    for column, (rows, target) in zip(columns.T, tasks):
        column[slice(None) if rows is None else rows] = target
    return columns


def split_outputs(tasks: Sequence[Task], solutions: list[Solution]) -> tuple[list[Task], list[Solution]]:
    """Return tasks and solutions of one output each.

    Parameters
    ----------
    tasks : sequence of Task
    solutions : list of Solution
    """
    if tasks[0].target.ndim == 1:
        return list(tasks), solutions
    columns = tasks[0].target.T
    return [Task(None, column) for column in columns], each_output(solutions[0], len(columns))


# ---- warnings ---------------------------------------------------------------------------------------------------


def warn_of_selection(kept: np.ndarray | None) -> None:
    """Warn if no kernel helps out of sample.

    Parameters
    ----------
    kept : bool array of shape (M,) or None
        The kernels that do.
    """
    if kept is not None and not kept.any():
        warn_caller(
            f"None of {len(kept)} kernels helps measurably on samples that were left out: all are in the model, "
            "and its predictions may be no better than a constant.",
            UserWarning,
        )


def largest_gap(solutions: Sequence[Solution]) -> float:
    """Return the relative duality gap of largest magnitude.

    Parameters
    ----------
    solutions : sequence of Solution
    """
    return max((solution.certificate.gap for solution in solutions), key=abs)


def warn_of_fit(encoded: Encoded, solutions: list[Solution], tol: float, C: float) -> None:
    """Warn of a gap above the tolerance, and of a C at which the model is a constant.

    Parameters
    ----------
    encoded : Encoded
    solutions : list of Solution
    tol, C : float
    """
    proven = all(solution.certificate.proves(tol) for solution in solutions)
    if not proven:
        stalled = any(solution.stalled for solution in solutions)
        reason = "rounding prevents progress: raise tol, lower C," if stalled else "raise max_iter or tol,"
        warn_caller(
            f"Stopped after {max(solution.n_iter for solution in solutions)} iterations at a relative duality gap of "
            f"{largest_gap(solutions):.2g}, not within tol={tol:g}; {reason} or scale the kernels.",
            ConvergenceWarning,
        )
    tasks, solutions = split_outputs(encoded.tasks, solutions)
    constant = not any(len(solution.model.active) for solution in solutions)
    if constant and proven and any(np.any(solution.certificate.rho) for solution in solutions):
        warn_caller(f"No kernel is in the model at C={C:g}: raise C.", UserWarning)
    elif _predicts_alike(tasks, [solution.certificate.outputs for solution in solutions], encoded.decoder):
        same = "nearly one prediction" if encoded.decoder is None else "one class"
        warn_caller(f"Training samples get {same} at C={C:g}, all of them: raise C, or scale the kernels.", UserWarning)


def _predicts_alike(tasks: Sequence[Task], outputs: list[np.ndarray], decoder: ClassDecoder | None) -> bool:
    """Return whether all training samples get one class, or numbers within 1% of the range of the targets."""
    if decoder is None:
        return all(0.0 < np.ptp(own) <= 0.01 * np.ptp(y) for own, (_, y) in zip(outputs, tasks))
    if decoder.pairs:
        return all(len(np.unique(own > 0)) == 1 for own in outputs)
    return len(np.unique(decoder.decode(np.column_stack(outputs)), axis=0)) == 1
