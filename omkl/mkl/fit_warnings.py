"""Warnings about fits of combinations of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from omkl._components import warn_caller
from omkl.batch import Solution
from omkl.estimators.batch import is_a_classifier
from omkl.mkl.gram_storage import Settings
from omkl.mkl.tasks import Task


def warn_of_selection(kept: np.ndarray | None) -> None:
    """Warn if no kernel helps out of sample; ``kept`` is a mask of those that do."""
    if kept is not None and not kept.any():
        warn_caller(
            f"None of {len(kept)} kernels helps measurably on samples that were left out: all are in the model, "
            "and its predictions may be no better than a constant.",
            UserWarning,
        )


def warn_of_fit(
    estimator: Any,
    settings: Settings,
    tasks: Sequence[Task],
    solutions: list[Solution],
    kept: np.ndarray | None,
    C: float,
) -> None:
    """Warn of a gap above the tolerance, and of a C that leaves out all kernels or none.

    Parameters
    ----------
    estimator : BatchMKL
        Fitted.
    settings : Settings
    tasks, solutions : list
        The problems and their solutions, of one output each.
    kept : bool array, optional
        See :func:`warn_of_selection`.
    C : float
        The C of the solutions.
    """
    warn_of_selection(kept)
    proven = all(solution.certificate.proves(settings.tol) for solution in solutions)
    if not proven:
        advice = _advice(estimator.dual_gap_, settings.tol, any(solution.stalled for solution in solutions))
        warn_caller(
            f"Stopped at a relative duality gap of {estimator.dual_gap_:.2g} after {estimator.n_iter_} iterations, "
            + advice,
            ConvergenceWarning,
        )
    n_active, n_kernels = estimator.n_active_, len(estimator.kernel_weights_)
    if n_active == 0 and proven and any(np.any(solution.certificate.rho) for solution in solutions):
        warn_caller(f"No kernel is in the model at C={C:g}: raise C.", UserWarning)
    elif _predicts_alike(estimator, tasks, [solution.certificate.outputs for solution in solutions]):
        same = "one class" if is_a_classifier(estimator) else "nearly one prediction"
        warn_caller(f"Training samples get {same} at C={C:g}, all of them: raise C, or scale the kernels.", UserWarning)
    elif n_active == n_kernels > 2 and _has_defaults(estimator, settings, C):
        warn_caller(f"All {n_kernels} kernels are in the model at C=1: lower C to leave some out.", UserWarning)


def _advice(gap: float, tol: float, stalled: bool) -> str:
    """Advice about a gap that is not proven, as the end of a sentence."""
    if gap <= 0:
        return "which proves nothing: scale the kernels."
    if stalled:
        return f"above tol={tol:g}, and rounding prevents progress: raise tol, lower C, or scale the kernels."
    return f"above tol={tol:g}: raise max_iter, or tol."


def _has_defaults(estimator: Any, settings: Settings, C: float) -> bool:
    """Check whether all kernels may be active only because C has its default value."""
    sparse = settings.regularizer.is_sparse and estimator.weighting == "norms"
    return estimator.regularizer is None and C == 1.0 and sparse


def _predicts_alike(estimator: Any, tasks: Sequence[Task], outputs: list[np.ndarray]) -> bool:
    """Check whether all training samples get one class, or numbers within 1% of the range of the targets."""
    if not is_a_classifier(estimator):
        return all(0.0 < np.ptp(own) <= 0.01 * np.ptp(y) for own, (_, y) in zip(outputs, tasks))
    if len(outputs) > 1 and tasks[0].rows is None and not estimator.multilabel_:
        return len(set(np.argmax(outputs, axis=0).tolist())) == 1
    return all(len(set((values > 0).tolist())) == 1 for values in outputs)
