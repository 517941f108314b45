"""Training of batch estimators: checks of their parameters and inputs, problems, and paths of C."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, column_or_1d

from omkl._components import check_n_jobs, resolve, warn_caller
from omkl._messages import listed
from omkl.batch.mkl.out_of_sample import KernelChoice, helpful_kernels, natural_c, sampled
from omkl.batch.mkl.problem import Expansion, Problem, shared_problem, smallest_c
from omkl.batch.mkl.spicy import Spicy
from omkl.batch.solver import PathPoint, Solution, Solver, is_number_of_values, ordered, regularization_path
from omkl.data.frames import are_few_rows, plain_targets
from omkl.estimators.batch import (
    ClassDecoder,
    GapProgress,
    centres_of,
    encode_classes,
    encode_labels,
    is_a_classifier,
    one_vs_rest,
    resolve_loss,
)
from omkl.estimators.targets import finite_targets, has_columns
from omkl.estimators.validation import (
    check_parameters,
    check_sample_weight,
    checked_arrays,
    forget_columns,
    source_columns,
    weighted_by_class,
)
from omkl.exceptions import DataWarning, InputError
from omkl.kernels.gram import GramMatrices
from omkl.kernels.inputs import Vectors
from omkl.kernels.packed import packed_bytes_fit
from omkl.kernels.stack import KernelStack, MixedStack, RestrictedView
from omkl.losses import PointwiseLoss
from omkl.mkl.kernel_sources import ArrayKernels, GivenMatrices, KernelInputs, KernelSource, is_precomputed, precision
from omkl.regularizers import Regularizer

if TYPE_CHECKING:
    from omkl.distributed.stack import Client

#: Settings of :func:`~omkl.estimators.validation.checked_arrays` for rows.
READING: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}
#: Upper bound of C (exclusive), so that sums of weighted losses do not overflow.
LARGEST_C = 1e100


class TrainingSet:
    """Training samples of one or several problems with the same kernels.

    Parameters
    ----------
    store : callable
        ``store()`` returns the kernels on the samples; it is called when they are first needed.
    y : array of shape (N,) or (N, K)
    weights : array of shape (N,)
        Sample weights > 0.
    settings : Settings
    warns : bool
        Whether to warn about constant targets.

    Attributes
    ----------
    encoded : Encoded
        Targets of the problems.
    choice : KernelChoice or None
        Result of :meth:`select`.
    """

    def __init__(
        self,
        store: Callable[[], KernelStack],
        y: np.ndarray,
        weights: np.ndarray,
        settings: Settings,
        warns: bool = False,
    ) -> None:
        self._store, self.y, self.weights, self.settings = store, y, weights, settings
        self.encoded = encode_targets(y, weights, settings, warns)
        self.choice: KernelChoice | None = None

    @cached_property
    def stored(self) -> KernelStack:
        """All kernels on the samples."""
        return self._store()

    @property
    def stack(self) -> KernelStack:
        """Kernels of the problems; kernels that were not kept are zero."""
        choice = self.choice
        selects = choice is not None and choice.kept.any()
        return MixedStack([self.stored], kept=choice.kept) if selects else self.stored

    def on(self, samples: np.ndarray, n_copies: int = 1) -> TrainingSet:
        """Return a set of some of the samples; kernels are copied if ``n_copies`` such sets fit into memory."""

        def store() -> KernelStack:
            fits = packed_bytes_fit(n_copies * self.stored.n_kernels, len(samples), np.float64)
            return self.stored.restricted(samples) if fits else RestrictedView(self.stored, samples)

        return TrainingSet(store, self.y[samples], self.weights[samples], self.settings)

    def select(self) -> None:
        """If the settings require it, keep only kernels that help out of sample, or all if none helps."""
        if self.settings.weighting != "norms":
            targets, stack = self.encoded.columns, self.stored
            samples, weights = sampled(targets, self.encoded.weights, stack.n_kernels)
            if len(samples) < len(targets):
                stack = self.on(samples).stored
            self.choice = helpful_kernels(stack, targets[samples], weights)

    def natural_c(self) -> float:
        """Return the C that leave-one-out errors of the selected kernels suggest."""
        targets, choice, stack = self.encoded.columns, self.choice, self.stored
        samples, weights = sampled(targets, self.encoded.weights, stack.n_kernels)
        stack = self.on(samples).stored if len(samples) < len(targets) else stack
        kept = np.arange(stack.n_kernels) if choice is None or not choice.kept.any() else np.flatnonzero(choice.kept)
        curvature = self.settings.loss.curvature if np.isfinite(self.settings.loss.curvature) else 1.0
        return natural_c(stack, kept, targets[samples], weights) / (curvature * float(self.weights.mean()))

    def n_threads(self, n_jobs: int | None) -> int:
        """Return the number of threads for ``n_jobs``; 1 if the stack does not support concurrent calls."""
        check_n_jobs(n_jobs)
        return effective_n_jobs(n_jobs) if self.stored.concurrent else 1

    def problems(self, C: float = 1.0) -> list[Problem]:
        """Return the problems; problems of several outputs share kernel weights."""
        own, stack, problems = self.settings, self.stack, []
        for target in self.encoded.targets:
            make = shared_problem if target.ndim == 2 else Problem
            problems.append(make(stack, target, own.loss, own.regularizer, C, own.intercept, self.encoded.weights))
        return problems

    def solve(self, C: float, verbose: bool) -> list[Solution]:
        """Solve the problems, with a progress bar for each if ``verbose``."""
        own, solutions = self.settings, []
        for problem in self.problems(C):
            with GapProgress(verbose, "kernels") as progress:
                solutions.append(own.solver.solve(problem, own.tol, own.max_iter, None, progress))
        return solutions

    def path(self, Cs: np.ndarray) -> Iterator[tuple[PathPoint, ...]]:
        """Solve all problems for increasing values of C, each from the previous solution."""
        own = self.settings
        paths = (regularization_path(own.solver, problem, Cs, own.tol, own.max_iter) for problem in self.problems())
        return zip(*paths)

    def path_values(self, C: int | ArrayLike) -> np.ndarray:
        """Return increasing values of C; a number of values spans three decades above the C where a kernel enters."""
        if is_number_of_values(C):
            first = min(map(smallest_c, self.problems()))
            C = np.geomspace(1.0, 1e3, C) * (first if np.isfinite(first) else 1.0)
        values = ordered(C)
        if values[-1] >= LARGEST_C:
            raise InputError(f"C must be below {LARGEST_C:g}, got {values[-1]:g}.")
        return values

    def outputs(self, model: Expansion, samples: np.ndarray) -> np.ndarray:
        """Return outputs (P, N) for all samples, of a model trained on some of the samples."""
        n, (n_active, width) = len(samples), model.coefficients.shape
        constants = np.broadcast_to(model.intercept, width).reshape(-1, n)[:, :1]
        if not n_active:
            return np.repeat(constants, self.stored.n_samples, axis=1)
        vectors = RestrictedView(self.stored, samples).filled(model.coefficients.reshape(n_active, -1, n))
        return constants + self.stored.block_products(vectors, model.active).sum(axis=0)


def learned_attributes(source: KernelSource, training: TrainingSet, solutions: list[Solution]) -> dict[str, Any]:
    """Return the learned attributes of an estimator from the solutions of all problems, except its model."""
    decoder, regularizer, choice = training.encoded.decoder, training.settings.regularizer, training.choice
    learned: dict[str, Any] = {}
    if decoder is not None:
        learned["classes_"], learned["multilabel_"] = decoder.classes, decoder.multilabel
        learned["constant_labels_"] = decoder.constant
    norms = [solution.certificate.norms for solution in solutions]
    weights = np.mean([regularizer.normalized_kernel_weights(own) for own in norms], axis=0)
    unscaled = np.mean([regularizer.kernel_weights(own) * (own > 0) for own in norms], axis=0)
    kept = np.ones(len(source.names), dtype=bool) if choice is None or not choice.kept.any() else choice.kept
    return learned | {
        "kernel_weights_": dict(zip(source.names, weights.tolist())),
        "unscaled_kernel_weights_": dict(zip(source.names, unscaled.tolist())),
        "kernel_representations_": source.representations,
        "left_out_": [name for name, own in zip(source.names, kept) if not own],
        "evidence_": None if choice is None else dict(zip(source.names, choice.evidence.tolist())),
        "dual_variables_": [rho for own in solutions for rho in own.certificate.rho.reshape(-1, source.n_samples)],
        "dual_gap_": largest_gap(solutions),
        "n_iter_": max(solution.n_iter for solution in solutions),
        "history_": [
            {"problem": p, **record} if len(solutions) > 1 else record
            for p, solution in enumerate(solutions)
            for record in solution.history
        ],
    }


def prepare(
    estimator: BaseEstimator, X: KernelInputs, y: ArrayLike, sample_weight: ArrayLike | None, client: Client | None
) -> tuple[KernelSource, TrainingSet]:
    """Check the parameters and data of a :class:`~omkl.mkl.base.BatchMKL`, and store the columns of X in it.

    Return the source of Gram matrices, and the samples of weight > 0.
    """
    settings = read_settings(estimator)
    source, targets, weights = read_samples(estimator, X, y, sample_weight)
    dtype = precision(estimator.dtype, len(source.names), source.n_samples, settings.tol)
    settings = settings._replace(regularizer=settings.regularizer.bind(source.names))

    def store() -> KernelStack:
        return source.stack(dtype, estimator.approximate, client)

    return source, TrainingSet(store, targets, weights, settings, warns=True)


def read_settings(estimator: BaseEstimator) -> Settings:
    """Check the parameters of a :class:`~omkl.mkl.base.BatchMKL`, and return its settings as objects."""
    check_parameters(estimator, estimator._constraints)
    check_n_jobs(estimator.n_jobs)
    loss, solver = resolve_loss(estimator), resolve(Solver, estimator.solver, "solver")
    if estimator.multiclass == "shared" and not solver.several_outputs:
        raise InputError(f'multiclass="shared" needs the solver "spicy" or "one-step", got {estimator.solver!r}.')
    spec, weighting = estimator.regularizer, estimator.weighting
    if weighting == "auto":
        weighting = "out-of-sample" if spec is None and isinstance(solver, Spicy) else "norms"
    return Settings(
        loss,
        resolve(Regularizer, solver.natural_regularizer if spec is None else spec, "regularizer"),
        solver,
        bool(estimator.fit_intercept),
        estimator.tol,
        estimator.max_iter,
        estimator.multiclass,
        estimator.class_weight,
        weighting,
    )


def read_samples(
    estimator: BaseEstimator, X: KernelInputs, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[KernelSource, np.ndarray, np.ndarray]:
    """Check training data; return the source of the N samples of weight > 0, their targets and weights."""
    kernels, several = estimator.kernels, has_columns(y)
    if is_precomputed(kernels):
        targets = plain_targets(y)
        targets = check_array(targets, accept_sparse="csr", dtype=None) if several else column_or_1d(targets, warn=True)
        forget_columns(estimator)
    else:
        rows: Any
        checks: dict[str, Any] = {"y_numeric": not is_a_classifier(estimator), "multi_output": several}
        rows, targets = checked_arrays(estimator, X, y, **READING, missing=estimator.missing, **checks)
    targets = targets.toarray() if sparse.issparse(targets) else targets
    weights = check_sample_weight(1.0 if sample_weight is None else sample_weight, len(targets))
    kept = None if weights.all() else np.flatnonzero(weights)
    source: KernelSource
    if is_precomputed(kernels):
        source = GivenMatrices(X, len(targets), kept)
    else:
        rows = rows if kept is None else rows[kept]
        n_absent = len(estimator.__dict__.get("missing_columns_", ()))
        source = ArrayKernels(kernels, rows, source_columns(estimator), n_absent, weights[weights > 0])
    return source, targets[weights > 0], weights[weights > 0]


def read_inputs(estimator: BaseEstimator, source: KernelSource, X: KernelInputs) -> Vectors | GramMatrices:
    """Check inputs for prediction."""
    if not isinstance(source, ArrayKernels):
        return source.of_prediction(X)
    if are_few_rows(X, estimator.__dict__):
        X = np.ascontiguousarray(X, dtype=np.float64)
    else:
        X = checked_arrays(estimator, X, **READING, missing=estimator.missing, reset=False)
    # kernels cannot mix sparse and dense rows
    if sparse.issparse(source.X) != sparse.issparse(X):
        X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
    return X


# ---- targets, and warnings about solutions ---------------------------------------------------------------------------


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
