"""Training of batch estimators: checks of their parameters and inputs, problems, and paths of C."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, column_or_1d

from omkl._components import check_n_jobs, resolve, warn_caller
from omkl._messages import listed
from omkl.batch.mkl.out_of_sample import KernelChoice, helpful_kernels, natural_c, sampled
from omkl.batch.mkl.problem import Expansion, Problem, shared_problem, smallest_c
from omkl.batch.mkl.spicy import Spicy
from omkl.batch.solver import (
    PathPoint,
    Solution,
    Solver,
    is_number_of_values,
    ordered,
    regularization_path,
)
from omkl.data.frames import plain_targets
from omkl.estimators import validation
from omkl.estimators.batch import (
    ClassDecoder,
    centres_of,
    encode_classes,
    gap_progress,
    is_a_classifier,
    resolve_loss,
)
from omkl.estimators.targets import finite_targets, has_columns
from omkl.exceptions import DataWarning, InputError
from omkl.kernels.inputs import as_dense
from omkl.kernels.packed import packed_bytes_fit
from omkl.kernels.stack import KernelStack, MixedStack, RestrictedView
from omkl.losses import PointwiseLoss
from omkl.mkl.kernel_sources import (
    ArrayKernels,
    GivenMatrices,
    KernelInputs,
    KernelSource,
    is_precomputed,
    precision,
)
from omkl.regularizers import Regularizer

if TYPE_CHECKING:
    from omkl.distributed.stack import Client

#: Settings of :func:`~omkl.estimators.validation.checked_arrays` for rows.
READING: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}
#: Upper bound of C (exclusive), so that sums of weighted losses do not overflow.
LARGEST_C = 1e100


class Settings(NamedTuple):
    """Parameters of a batch estimator, resolved to objects."""

    #: The estimator, for the parameters that need no conversion.
    parameters: Any
    loss: PointwiseLoss
    regularizer: Regularizer
    solver: Solver
    weighting: str


class Sample(NamedTuple):
    """Some training samples: their kernels, targets (n, P), and weights (n,)."""

    kernels: KernelStack
    targets: np.ndarray
    weights: np.ndarray


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
    is_part : bool
        Whether these are some of the user's samples, such as those of a fold. If so, there are no
        warnings about constant targets, and about a choice of kernels with weak evidence.

    Attributes
    ----------
    targets : list of arrays of shape (N,), or a single one (N, P)
        Targets of each problem; a problem of P outputs shares kernel weights.
    columns : array of shape (N, P)
        Targets of all outputs.
    loss_weights : array of shape (N,)
        Sample weights times class weights.
    decoder : ClassDecoder or None
        Decoder of a classifier.
    centres : float array of shape (P,), or 0.0
        Subtracted from the targets of each output of a regression.
    choice : KernelChoice or None
        Result of :meth:`select`.
    """

    def __init__(
        self,
        store: Callable[[], KernelStack],
        y: np.ndarray,
        weights: np.ndarray,
        settings: Settings,
        is_part: bool = False,
    ) -> None:
        self._store = store
        self.y = y
        self.weights = weights
        self.settings = settings
        self._warns = not is_part
        self.choice: KernelChoice | None = None
        self.decoder: ClassDecoder | None = None
        self.centres: np.ndarray | float = 0.0
        loss_weights: Any = weights
        parameters = settings.parameters
        if settings.loss.classifies:
            what = "y"
            if is_part:
                what = "a part of y that a fold trains on"
            columns, loss_weights, self.decoder = encode_classes(
                y, weights, parameters.class_weight, self._warns, what
            )
        else:
            y = finite_targets(y)
            self.centres = centres_of(y, settings.loss, parameters.fit_intercept)
            columns = y - self.centres
            if self._warns:
                self._warn_of_constant_targets(y)
        may_share = self.decoder is None or parameters.multiclass != "ovr"
        shares_weights = settings.solver.several_outputs and may_share
        if columns.ndim == 1 or (shares_weights and columns.shape[1] > 1):
            self.targets = [columns]
        else:
            self.targets = list(np.ascontiguousarray(columns.T))
        self.columns = np.column_stack(self.targets)
        self.loss_weights = np.asarray(loss_weights)

    def _warn_of_constant_targets(self, y: np.ndarray) -> None:
        """Warn if all numbers y, (N,) or (N, K), are one constant, which is then the model."""
        is_constant = y.ndim == 1 and len(y) > 1 and np.ptp(y) == 0.0
        # with a kink, other constants may be optimal, too
        is_optimal = self.settings.parameters.fit_intercept and not self.settings.loss.has_kink
        if is_constant and is_optimal:
            warn_caller(f"y is constant ({y[0]:g}): the model is that constant.", DataWarning)

    @cached_property
    def stored(self) -> KernelStack:
        """All kernels on the samples."""
        return self._store()

    def on(self, samples: np.ndarray, n_copies: int = 1) -> TrainingSet:
        """Return a set of some of the samples.

        Its kernels are copied if ``n_copies`` such sets fit into memory.
        """

        def store() -> KernelStack:
            fits = packed_bytes_fit(n_copies * self.stored.n_kernels, len(samples), np.float64)
            if fits:
                return self.stored.restricted(samples)
            return RestrictedView(self.stored, samples)

        return TrainingSet(
            store, self.y[samples], self.weights[samples], self.settings, is_part=True
        )

    def select(self) -> None:
        """Keep only kernels that help out of sample, or all if none helps.

        If the settings say "norms", or kernels are selected already, do nothing.
        """
        if self.settings.weighting == "norms" or self.choice is not None:
            return
        sample = self._sample()
        self.choice = helpful_kernels(sample.kernels, sample.targets, sample.weights)
        varies = bool(np.ptp(self.columns, axis=0).any())
        if self._warns and self.choice.is_doubtful and varies:
            n_certain = np.count_nonzero(self.choice.evidence > self.choice.threshold)
            warn_caller(
                f"On held-out samples, {n_certain} of {self.stored.n_kernels} kernels help beyond "
                f"chance, but the model uses {np.count_nonzero(self.is_selected)}, whose weights "
                "may be due to chance: see `evidence_`, or select kernels by omkl.select_groups.",
                DataWarning,
            )

    @property
    def is_selected(self) -> np.ndarray:
        """Mask (M,) of the selected kernels."""
        if self.choice is None or not self.choice.is_selected.any():
            return np.ones(self.stored.n_kernels, dtype=bool)
        return self.choice.is_selected

    def _sample(self) -> Sample:
        """Return at most as many samples as a choice of kernels uses."""
        samples, weights = sampled(self.columns, self.loss_weights, self.stored.n_kernels)
        kernels = self.stored
        if len(samples) < len(self.columns):
            kernels = self.on(samples).stored
        return Sample(kernels=kernels, targets=self.columns[samples], weights=weights)

    def natural_c(self) -> float:
        """Return the C that leave-one-out errors of the selected kernels suggest."""
        loss = self.settings.loss
        sample = self._sample()
        curvature = 1.0
        if np.isfinite(loss.curvature):
            curvature = loss.curvature
        if loss.has_link:  # as at the constant model
            problem = self.problems()[0]
            _, outputs = problem.best_constant()
            curvatures = problem.weighted_loss.curvature(outputs)
            curvature = float(np.mean(curvatures / problem.loss_weights))
        selected = np.flatnonzero(self.is_selected)
        C = natural_c(sample.kernels, selected, sample.targets, sample.weights)
        return C / (curvature * float(self.weights.mean()))

    def problems(self, C: float = 1.0) -> list[Problem]:
        """Return the problems; problems of several outputs share kernel weights."""
        settings = self.settings
        kernels = self.stored
        if not self.is_selected.all():  # the other kernels are zero
            kernels = MixedStack([kernels], in_use=self.is_selected)
        problems = []
        for targets in self.targets:
            if targets.ndim == 2:
                make_problem = shared_problem
            else:
                make_problem = Problem
            problem = make_problem(
                kernels,
                targets,
                settings.loss,
                settings.regularizer,
                C,
                bool(settings.parameters.fit_intercept),
                self.loss_weights,
            )
            problems.append(problem)
        return problems

    def solve(
        self, C: float, verbose: bool, near: Sequence[Solution] | None = None
    ) -> list[Solution]:
        """Solve the problems, with a progress bar for each if ``verbose``.

        ``near`` are solutions at a similar C, to start from.
        """
        solver = self.settings.solver
        parameters = self.settings.parameters
        problems = self.problems(C)
        starts: list[Any] = [None] * len(problems)
        if near is not None:
            starts = [solution.start for solution in near]
        solutions = []
        for problem, start in zip(problems, starts):
            with gap_progress(verbose, "kernels") as progress:
                solution = solver.solve(
                    problem, parameters.tol, parameters.max_iter, start, progress
                )
            solutions.append(solution)
        return solutions

    def path(self, Cs: np.ndarray) -> Iterator[tuple[PathPoint, ...]]:
        """Solve all problems for increasing values of C, each from the previous solution."""
        solver = self.settings.solver
        parameters = self.settings.parameters
        paths = []
        for problem in self.problems():
            path = regularization_path(solver, problem, Cs, parameters.tol, parameters.max_iter)
            paths.append(path)
        return zip(*paths)

    def path_values(self, C: int | ArrayLike) -> np.ndarray:
        """Return increasing values of C.

        A number of values spans three decades above the C where a kernel enters.
        """
        if is_number_of_values(C):
            first = min(map(smallest_c, self.problems()))
            if not np.isfinite(first):
                first = 1.0
            C = np.geomspace(1.0, 1e3, C) * first
        values = ordered(C)
        if values[-1] >= LARGEST_C:
            raise InputError(f"C must be below {LARGEST_C:g}, got {values[-1]:g}.")
        return values

    def outputs(self, model: Expansion, samples: np.ndarray) -> np.ndarray:
        """Return outputs (P, N) for all samples, of a model trained on some of the samples."""
        n = len(samples)
        n_active, width = model.coefficients.shape  # width n for each output
        constants = np.broadcast_to(model.intercept, width).reshape(-1, n)[:, :1]
        if not n_active:
            return np.repeat(constants, self.stored.n_samples, axis=1)
        coefficients = model.coefficients.reshape(n_active, -1, n)
        vectors = RestrictedView(self.stored, samples).filled(coefficients)
        return constants + self.stored.block_products(vectors, model.active).sum(axis=0)


def prepare(
    estimator: BaseEstimator,
    X: KernelInputs,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    client: Client | None,
) -> tuple[KernelSource, TrainingSet]:
    """Check parameters and data of a :class:`~omkl.mkl.base.BatchMKL`, and store its columns.

    Return the source of Gram matrices, and the samples of weight > 0.
    """
    validation.check_parameters(estimator, estimator._constraints)
    check_n_jobs(estimator.n_jobs)
    loss = resolve_loss(estimator)
    solver = resolve(Solver, estimator.solver, "solver")
    if estimator.multiclass == "shared" and not solver.several_outputs:
        raise InputError(
            f'multiclass="shared" needs the solver "spicy" or "one-step", got {estimator.solver!r}.'
        )
    source, targets, weights = read_samples(estimator, X, y, sample_weight)
    spec = estimator.regularizer
    weighting = estimator.weighting
    is_spicy = isinstance(solver, Spicy)
    may_choose = spec is None and weighting != "out-of-sample" and is_spicy
    if may_choose and estimator._of_columns and _has_kernels_on_few_columns(estimator, source):
        spec = estimator._of_columns
    if weighting == "auto":
        weighting = "norms"
        if spec is None and is_spicy:
            weighting = "out-of-sample"
    if spec is None:
        spec = solver.natural_regularizer
    regularizer = resolve(Regularizer, spec, "regularizer").bind(source.names)
    dtype = precision(estimator.dtype, len(source.names), source.n_samples, estimator.tol)
    settings = Settings(
        parameters=estimator,
        loss=loss,
        regularizer=regularizer,
        solver=solver,
        weighting=weighting,
    )

    def store() -> KernelStack:
        return source.stack(dtype, estimator.approximate, client)

    return source, TrainingSet(store, targets, weights, settings)


def _has_kernels_on_few_columns(estimator: BaseEstimator, source: KernelSource) -> bool:
    """Return whether the user's kernels are each on one or two columns of a table."""
    if estimator.kernels is None or not isinstance(source, ArrayKernels):
        return False
    names = validation.source_columns(estimator) or range(source.X.shape[1])
    return all(len(columns) <= 2 for columns in source.columns(names))


def read_samples(
    estimator: BaseEstimator, X: KernelInputs, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[KernelSource, np.ndarray, np.ndarray]:
    """Check training data; return the source of N samples, their targets and weights.

    Samples of weight 0 are left out. Targets are (N,) or (N, K), weights (N,).
    """
    has_several_outputs = has_columns(y)
    rows: Any = None
    if is_precomputed(estimator.kernels):
        targets = plain_targets(y)
        if has_several_outputs:
            targets = check_array(targets, accept_sparse="csr", dtype=None)
        else:
            targets = column_or_1d(targets, warn=True)
        validation.forget_columns(estimator)
    else:
        checks: dict[str, Any] = {
            "y_numeric": not is_a_classifier(estimator),
            "multi_output": has_several_outputs,
        }
        rows, targets = validation.checked_arrays(
            estimator, X, y, **READING, missing=estimator.missing, **checks
        )
    targets = as_dense(targets)
    if sample_weight is None:
        sample_weight = 1.0
    weights = validation.check_sample_weight(sample_weight, len(targets))
    with_weight = None
    if not weights.all():
        with_weight = np.flatnonzero(weights)
    positive_weights = weights[weights > 0]
    source: KernelSource
    if rows is None:
        source = GivenMatrices(X, len(targets), with_weight)
    else:
        if with_weight is not None:
            rows = rows[with_weight]
        n_absent = len(getattr(estimator, "missing_columns_", ()))
        columns = validation.source_columns(estimator)
        source = ArrayKernels(estimator.kernels, rows, columns, n_absent, positive_weights)
    return source, targets[weights > 0], positive_weights


# ---- warnings ------------------------------------------------------------------------------------


def largest_gap(solutions: Sequence[Solution]) -> float:
    """Return the relative duality gap of largest magnitude."""
    return max((solution.certificate.gap for solution in solutions), key=abs)


def warn_of_fit(training: TrainingSet, solutions: list[Solution], tol: float, C: float) -> None:
    """Warn about a gap above the tolerance, and about a C at which the model is constant."""
    is_proven = all(solution.certificate.proves(tol) for solution in solutions)
    if not is_proven:
        _warn_of_gap(solutions, tol)
    is_constant = not any(len(solution.model.active) for solution in solutions)
    has_slopes = any(np.any(solution.certificate.rho) for solution in solutions)
    if is_constant and is_proven and has_slopes:
        warn_caller(f"No kernel is in the model at C={C:g}: raise C.", DataWarning)
        return
    outputs = np.concatenate([solution.certificate.outputs for solution in solutions])
    outputs = outputs.reshape(-1, len(training.loss_weights)).T
    decoder = training.decoder
    if decoder is not None and not decoder.multilabel:
        _warn_of_classes_never_predicted(decoder, outputs, C)
        return
    if decoder is None:
        spread = np.ptp(training.settings.loss.mean(outputs), axis=0)
        is_narrow = spread <= 0.01 * np.ptp(training.columns, axis=0)
        are_alike = bool(np.all((spread > 0.0) & is_narrow))
    else:
        are_alike = len(np.unique(decoder.decode(outputs), axis=0)) == 1
    if are_alike:
        warn_caller(
            f"All training samples get nearly one prediction at C={C:g}: raise C.", DataWarning
        )


def _warn_of_gap(solutions: Sequence[Solution], tol: float) -> None:
    """Warn that the solver stopped before it proved its solutions to the tolerance."""
    remedy = "raise max_iter or tol,"
    if any(solution.stalled for solution in solutions):
        remedy = "rounding prevents progress: raise tol, lower C,"
    n_iter = max(solution.n_iter for solution in solutions)
    warn_caller(
        f"Stopped after {n_iter} iterations at a relative duality gap of "
        f"{largest_gap(solutions):.2g}, not within tol={tol:g}; {remedy} or scale the kernels.",
        ConvergenceWarning,
    )


def _warn_of_classes_never_predicted(decoder: ClassDecoder, outputs: np.ndarray, C: float) -> None:
    """Warn about classes that no training sample gets, given their outputs (N, P)."""
    predicted = set(decoder.decode(outputs).tolist())
    never = sorted(set(decoder.classes.tolist()) - predicted)
    if never:
        warn_caller(
            f"No training sample gets the class {listed(never, 3)} at C={C:g}: if it is rare, set "
            'class_weight="balanced", else raise C.',
            DataWarning,
        )
