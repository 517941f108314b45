"""Problems of a fit (targets of classes, labels or numbers), and warnings about their solutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from omkl._components import warn_caller
from omkl._messages import listed
from omkl.batch.mkl.out_of_sample import KernelChoice
from omkl.batch.solver import Solution, Solver
from omkl.estimators.batch import ClassDecoder, centres_of, encode_classes, encode_labels, one_vs_rest
from omkl.estimators.targets import finite_targets
from omkl.estimators.validation import weighted_by_class
from omkl.exceptions import DataWarning, InputError
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


class Settings(NamedTuple):
    """Parameters of a batch estimator, resolved to objects."""

    loss: PointwiseLoss
    regularizer: Regularizer
    solver: Solver
    intercept: bool
    tol: float
    max_iter: int | None
    multiclass: str
    class_weight: str | dict | None
    weighting: str


class Encoded(NamedTuple):
    """Targets of a fit.

    Attributes
    ----------
    targets : list of arrays of shape (N,), or a single one (N, P)
        Targets of each problem; a problem of P outputs shares kernel weights.
    weights : array of shape (N,)
    decoder : ClassDecoder, optional
        Decoder of a classifier.
    centres : float array of shape (P,), or 0.0
        Subtracted from the targets of each output of a regression.
    """

    targets: list[np.ndarray]
    weights: np.ndarray
    decoder: ClassDecoder | None = None
    centres: np.ndarray | float = 0.0

    @property
    def columns(self) -> np.ndarray:
        """Targets of all outputs, (N, P)."""
        return np.column_stack(self.targets)


def encode_targets(y: np.ndarray, weights: np.ndarray, settings: Settings, warns: bool = True) -> Encoded:
    """Return the problems for targets (N,) or (N, K) and sample weights (N,).

    If ``warns``, warn about constant targets.
    """
    shares = settings.solver.several_outputs
    if not settings.loss.classifies:
        y = finite_targets(y)
        is_constant = y.ndim == 1 and len(y) > 1 and np.ptp(y) == 0.0
        # with a kink, other constants may be optimal, too
        if warns and is_constant and settings.intercept and not settings.loss.has_kink:
            warn_caller(f"y is constant ({y[0]:g}): the model is that constant.", DataWarning)
        centres = centres_of(y, settings.loss, settings.intercept)
        return Encoded(_shared_or_each(y - centres, shares), weights, centres=centres)
    shares = shares and settings.multiclass != "ovr"
    if y.ndim == 2:
        if settings.class_weight is not None:
            raise InputError("class_weight is for classes, not for labels in columns of y.")
        signs, decoder = encode_labels(y, warns)
    else:
        classes, codes = encode_classes(y)
        weights = np.asarray(weighted_by_class(settings.class_weight, classes, codes, weights))
        signs, decoder = one_vs_rest(codes, len(classes)), ClassDecoder(classes)
    return Encoded(_shared_or_each(signs, shares), weights, decoder)


def _shared_or_each(columns: np.ndarray, shares: bool) -> list[np.ndarray]:
    """Return targets (N, P) as one problem if kernel weights are shared, else as one for each output."""
    if columns.ndim == 1 or (shares and columns.shape[1] > 1):
        return [columns]
    return list(np.ascontiguousarray(columns.T))


# ---- warnings ---------------------------------------------------------------------------------------------------


def warn_of_choice(choice: KernelChoice | None) -> None:
    """Warn if the evidence for most kernels in the model is weak."""
    if choice is not None and choice.is_doubtful:
        n, n_certain = len(choice.kept), np.count_nonzero(choice.evidence > choice.threshold)
        warn_caller(
            f"On held-out samples, {n_certain} of {n} kernels help beyond chance, and others are in the model as well. "
            "Weights may be due to chance: see `evidence_`, or select kernels by omkl.select_groups.",
            DataWarning,
        )


def largest_gap(solutions: Sequence[Solution]) -> float:
    """Return the relative duality gap of largest magnitude."""
    return max((solution.certificate.gap for solution in solutions), key=abs)


def warn_of_fit(encoded: Encoded, solutions: list[Solution], tol: float, C: float) -> None:
    """Warn about a gap above the tolerance, and about a C at which the model is constant."""
    proven = all(solution.certificate.proves(tol) for solution in solutions)
    if not proven:
        stalled = any(solution.stalled for solution in solutions)
        reason = "rounding prevents progress: raise tol, lower C," if stalled else "raise max_iter or tol,"
        warn_caller(
            f"Stopped after {max(solution.n_iter for solution in solutions)} iterations at a relative duality gap of "
            f"{largest_gap(solutions):.2g}, not within tol={tol:g}; {reason} or scale the kernels.",
            ConvergenceWarning,
        )
    constant = not any(len(solution.model.active) for solution in solutions)
    if constant and proven and any(np.any(solution.certificate.rho) for solution in solutions):
        warn_caller(f"No kernel is in the model at C={C:g}: raise C.", DataWarning)
        return
    outputs = np.concatenate([solution.certificate.outputs for solution in solutions])
    columns = outputs.reshape(-1, len(encoded.weights)).T
    if encoded.decoder is None or encoded.decoder.multilabel:
        if _predicts_alike(encoded, columns):
            warn_caller(f"All training samples get nearly one prediction at C={C:g}: raise C.", DataWarning)
    elif never := sorted(set(encoded.decoder.classes.tolist()) - set(encoded.decoder.decode(columns).tolist())):
        warn_caller(
            f"No training sample gets the class {listed(never, 3)} at C={C:g}: if it is rare, set "
            'class_weight="balanced", else raise C.',
            DataWarning,
        )


def warn_of_path(gaps: Sequence[float], tol: float) -> None:
    """Warn about values of C whose relative duality gaps are above the tolerance."""
    if (n_above := sum(gap > tol for gap in gaps)) > 0:
        warn_caller(
            f"{n_above} of {len(gaps)} values of C stopped above tol={tol:g}, at relative duality gaps of up to "
            f"{max(gaps):.2g}: raise max_iter, or tol.",
            ConvergenceWarning,
        )


def _predicts_alike(encoded: Encoded, columns: np.ndarray) -> bool:
    """Return whether all training samples get the same labels, or numbers within 1% of the range of the targets.

    ``columns`` (N, P) are the outputs.
    """
    if encoded.decoder is not None:
        return len(np.unique(encoded.decoder.decode(columns), axis=0)) == 1
    spread = np.ptp(columns, axis=0)
    return bool(np.all((spread > 0.0) & (spread <= 0.01 * np.ptp(encoded.columns, axis=0))))
