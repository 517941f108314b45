"""Training of batch estimators: checks of their parameters and inputs, problems, and paths of C."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
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
        self._store, self.y, self.weights, self.settings = store, y, weights, settings
        self._warns = not is_part
        self.choice: KernelChoice | None = None
        self.decoder: ClassDecoder | None = None
        self.centres: np.ndarray | float = 0.0
        own, loss_weights = settings.parameters, weights
        if settings.loss.classifies:
            what = "a part of y that a fold trains on" if is_part else "y"
            columns, loss_weights, self.decoder = encode_classes(
                y, weights, own.class_weight, self._warns, what
            )
        else:
            y = finite_targets(y)
            is_constant = y.ndim == 1 and len(y) > 1 and np.ptp(y) == 0.0
            # with a kink, other constants may be optimal, too
            if self._warns and is_constant and own.fit_intercept and not settings.loss.has_kink:
                warn_caller(f"y is constant ({y[0]:g}): the model is that constant.", DataWarning)
            self.centres = centres_of(y, settings.loss, own.fit_intercept)
            columns = y - self.centres
        shares = settings.solver.several_outputs and (
            self.decoder is None or own.multiclass != "ovr"
        )
        is_shared = columns.ndim == 1 or (shares and columns.shape[1] > 1)
        self.targets = [columns] if is_shared else list(np.ascontiguousarray(columns.T))
        self.columns, self.loss_weights = np.column_stack(self.targets), np.asarray(loss_weights)

    @cached_property
    def stored(self) -> KernelStack:
        """All kernels on the samples."""
        return self._store()

    def on(self, samples: np.ndarray, n_copies: int = 1) -> TrainingSet:
        """Return a set of some of the samples; kernels are copied if ``n_copies`` such sets fit
        into memory.
        """

        def store() -> KernelStack:
            fits = packed_bytes_fit(n_copies * self.stored.n_kernels, len(samples), np.float64)
            return self.stored.restricted(samples) if fits else RestrictedView(self.stored, samples)

        return TrainingSet(
            store, self.y[samples], self.weights[samples], self.settings, is_part=True
        )

    def select(self) -> None:
        """If the settings require it, keep only kernels that help out of sample, or all if none
        helps.
        """
        if self.settings.weighting != "norms" and self.choice is None:
            self.choice = choice = helpful_kernels(*self._some())
            varies = bool(np.ptp(self.columns, axis=0).any())
            if self._warns and choice.is_doubtful and varies:
                n_certain = np.count_nonzero(choice.evidence > choice.threshold)
                warn_caller(
                    f"On held-out samples, {n_certain} of {len(choice.kept)} kernels help beyond chance, but the model "
                    f"uses {np.count_nonzero(self.kept)}, whose weights may be due to chance: see `evidence_`, or "
                    "select kernels by omkl.select_groups.",
                    DataWarning,
                )

    @property
    def kept(self) -> np.ndarray:
        """Mask (M,) of the selected kernels."""
        n = self.stored.n_kernels
        return (
            np.ones(n, dtype=bool)
            if self.choice is None or not self.choice.kept.any()
            else self.choice.kept
        )

    def _some(self) -> tuple[KernelStack, np.ndarray, np.ndarray]:
        """Return the kernels, targets and weights of at most as many samples as a choice of kernels
        uses.
        """
        samples, weights = sampled(self.columns, self.loss_weights, self.stored.n_kernels)
        stack = self.on(samples).stored if len(samples) < len(self.columns) else self.stored
        return stack, self.columns[samples], weights

    def natural_c(self) -> float:
        """Return the C that leave-one-out errors of the selected kernels suggest."""
        (stack, targets, weights), loss = self._some(), self.settings.loss
        curvature = loss.curvature if np.isfinite(loss.curvature) else 1.0
        if loss.has_link:  # as at the constant model
            problem = self.problems()[0]
            curvatures = problem.weighted_loss.curvature(problem.best_constant()[1])
            curvature = float(np.mean(curvatures / problem.loss_weights))
        return natural_c(stack, np.flatnonzero(self.kept), targets, weights) / (
            curvature * float(self.weights.mean())
        )

    def problems(self, C: float = 1.0) -> list[Problem]:
        """Return the problems; problems of several outputs share kernel weights."""
        own, stack = self.settings, self.stored
        if not self.kept.all():  # the other kernels are zero
            stack = MixedStack([stack], kept=self.kept)
        shared = own.loss, own.regularizer, C, bool(own.parameters.fit_intercept), self.loss_weights
        return [
            (shared_problem if target.ndim == 2 else Problem)(stack, target, *shared)
            for target in self.targets
        ]

    def solve(
        self, C: float, verbose: bool, near: Sequence[Solution] | None = None
    ) -> list[Solution]:
        """Solve the problems, with a progress bar for each if ``verbose``.

        ``near`` are solutions at a similar C, to start from.
        """
        solver, parameters = self.settings.solver, self.settings.parameters
        problems = self.problems(C)
        starts = [None] * len(problems) if near is None else [solution.start for solution in near]
        solutions = []
        for problem, start in zip(problems, starts):
            with gap_progress(verbose, "kernels") as progress:
                solutions.append(
                    solver.solve(problem, parameters.tol, parameters.max_iter, start, progress)
                )
        return solutions

    def path(self, Cs: np.ndarray) -> Iterator[tuple[PathPoint, ...]]:
        """Solve all problems for increasing values of C, each from the previous solution."""
        solver, own = self.settings.solver, self.settings.parameters
        paths = (
            regularization_path(solver, problem, Cs, own.tol, own.max_iter)
            for problem in self.problems()
        )
        return zip(*paths)

    def path_values(self, C: int | ArrayLike) -> np.ndarray:
        """Return increasing values of C; a number of values spans three decades above the C where a
        kernel enters.
        """
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
        vectors = RestrictedView(self.stored, samples).filled(
            model.coefficients.reshape(n_active, -1, n)
        )
        return constants + self.stored.block_products(vectors, model.active).sum(axis=0)


def prepare(
    estimator: Any,
    X: KernelInputs,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    client: Client | None,
) -> tuple[KernelSource, TrainingSet]:
    """Check the parameters and data of a :class:`~omkl.mkl.base.BatchMKL`, and store the columns of
    X in it.

    Return the source of Gram matrices, and the samples of weight > 0.
    """
    validation.check_parameters(estimator, estimator._constraints)
    check_n_jobs(estimator.n_jobs)
    loss, solver = resolve_loss(estimator), resolve(Solver, estimator.solver, "solver")
    if estimator.multiclass == "shared" and not solver.several_outputs:
        raise InputError(
            f'multiclass="shared" needs the solver "spicy" or "one-step", got {estimator.solver!r}.'
        )
    source, targets, weights = read_samples(estimator, X, y, sample_weight)
    spec, weighting = estimator.regularizer, estimator.weighting
    is_open = spec is None and weighting != "out-of-sample" and isinstance(solver, Spicy)
    if is_open and estimator._of_columns and isinstance(source, ArrayKernels):
        names = validation.source_columns(estimator) or range(source.X.shape[1])
        if estimator.kernels is not None and all(
            len(columns) <= 2 for columns in source.columns(names)
        ):
            spec = estimator._of_columns
    if weighting == "auto":
        weighting = "out-of-sample" if spec is None and isinstance(solver, Spicy) else "norms"
    regularizer = resolve(
        Regularizer, solver.natural_regularizer if spec is None else spec, "regularizer"
    )
    dtype = precision(estimator.dtype, len(source.names), source.n_samples, estimator.tol)
    settings = Settings(estimator, loss, regularizer.bind(source.names), solver, weighting)

    def store() -> KernelStack:
        return source.stack(dtype, estimator.approximate, client)

    return source, TrainingSet(store, targets, weights, settings)


def read_samples(
    estimator: BaseEstimator, X: KernelInputs, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[KernelSource, np.ndarray, np.ndarray]:
    """Check training data; return the source of the N samples of weight > 0, their targets and
    weights.
    """
    kernels, several = estimator.kernels, has_columns(y)
    if is_precomputed(kernels):
        targets = plain_targets(y)
        targets = (
            check_array(targets, accept_sparse="csr", dtype=None)
            if several
            else column_or_1d(targets, warn=True)
        )
        validation.forget_columns(estimator)
    else:
        rows: Any
        checks: dict[str, Any] = {
            "y_numeric": not is_a_classifier(estimator),
            "multi_output": several,
        }
        rows, targets = validation.checked_arrays(
            estimator, X, y, **READING, missing=estimator.missing, **checks
        )
    targets = targets.toarray() if sparse.issparse(targets) else targets
    weights = validation.check_sample_weight(
        1.0 if sample_weight is None else sample_weight, len(targets)
    )
    kept = None if weights.all() else np.flatnonzero(weights)
    source: KernelSource
    if is_precomputed(kernels):
        source = GivenMatrices(X, len(targets), kept)
    else:
        rows = rows if kept is None else rows[kept]
        n_absent = len(estimator.__dict__.get("missing_columns_", ()))
        source = ArrayKernels(
            kernels, rows, validation.source_columns(estimator), n_absent, weights[weights > 0]
        )
    return source, targets[weights > 0], weights[weights > 0]


# ---- warnings ------------------------------------------------------------------------------------


def largest_gap(solutions: Sequence[Solution]) -> float:
    """Return the relative duality gap of largest magnitude."""
    return max((solution.certificate.gap for solution in solutions), key=abs)


def warn_of_fit(training: TrainingSet, solutions: list[Solution], tol: float, C: float) -> None:
    """Warn about a gap above the tolerance, and about a C at which the model is constant."""
    proven = all(solution.certificate.proves(tol) for solution in solutions)
    if not proven:
        stalled = any(solution.stalled for solution in solutions)
        reason = (
            "rounding prevents progress: raise tol, lower C,"
            if stalled
            else "raise max_iter or tol,"
        )
        n_iter, gap = max(solution.n_iter for solution in solutions), largest_gap(solutions)
        state = f"Stopped after {n_iter} iterations at a relative duality gap of {gap:.2g}, not within tol={tol:g}"
        warn_caller(f"{state}; {reason} or scale the kernels.", ConvergenceWarning)
    constant = not any(len(solution.model.active) for solution in solutions)
    if constant and proven and any(np.any(solution.certificate.rho) for solution in solutions):
        warn_caller(f"No kernel is in the model at C={C:g}: raise C.", DataWarning)
        return
    outputs = np.concatenate([solution.certificate.outputs for solution in solutions])
    columns = outputs.reshape(-1, len(training.loss_weights)).T
    if training.decoder is None or training.decoder.multilabel:
        if training.decoder is None:
            spread = np.ptp(training.settings.loss.mean(columns), axis=0)
            alike = bool(
                np.all((spread > 0.0) & (spread <= 0.01 * np.ptp(training.columns, axis=0)))
            )
        else:
            alike = len(np.unique(training.decoder.decode(columns), axis=0)) == 1
        if alike:
            warn_caller(
                f"All training samples get nearly one prediction at C={C:g}: raise C.", DataWarning
            )
    elif never := sorted(
        set(training.decoder.classes.tolist()) - set(training.decoder.decode(columns).tolist())
    ):
        state = f"No training sample gets the class {listed(never, 3)} at C={C:g}"
        warn_caller(
            f'{state}: if it is rare, set class_weight="balanced", else raise C.', DataWarning
        )
