"""Problems of sparse linear models: from samples to problems, from solutions to coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, column_or_1d

from omkl._components import resolve, warn_caller
from omkl._messages import listed
from omkl.batch.group_lasso.blocks import ColumnGroups
from omkl.batch.group_lasso.matrices import Design, DesignLike, as_design
from omkl.batch.group_lasso.problem import DesignProblem, stacked_problem
from omkl.batch.solver import DesignSolver, PathPoint, Solution, is_number_of_values, ordered
from omkl.data.frames import plain_targets
from omkl.estimators import batch
from omkl.estimators.targets import finite_targets, has_columns
from omkl.estimators.validation import (
    as_numbers,
    check_sample_weight,
    checked_arrays,
    forget_columns,
    row_digests,
)
from omkl.exceptions import InputError
from omkl.regularizers import Regularizer

#: Accepted groups of columns.
Groups: TypeAlias = (
    Sequence[Sequence[int | str]] | dict[str, Sequence[int | str]] | ArrayLike | None
)
#: Designs that are not converted, except operators.
ACCEPTED: dict[str, Any] = {"accept_sparse": ("csc", "csr"), "dtype": (np.float64, np.float32)}
#: Number of columns of an array to compare before whole rows.
FEW_COLUMNS = 4
#: Number of decades of alpha on a path, if the number of values is given.
DECADES = 2.0


@dataclass
class Samples:
    """A design, and the targets of the problems on it.

    Attributes
    ----------
    design : Design
        Design of m rows.
    targets : sequence of arrays
        (m,) for each problem, or (m, K) for a problem of K outputs.
    weights : array of shape (m,), optional
    offsets : array of shape (P, m), optional
        Offsets of the P outputs of all problems.
    copies : int array of shape (m,), optional
        A number shared by identical samples.
    centres : float array of shape (P,), or 0.0
        Subtracted from the targets of each output of a regression.
    """

    design: Design
    targets: Sequence[np.ndarray]
    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None
    copies: np.ndarray | None = None
    centres: np.ndarray | float = 0.0

    @property
    def widths(self) -> list[int]:
        """Number of outputs of each problem."""
        return [1 if target.ndim == 1 else target.shape[1] for target in self.targets]

    def rows(self, indices: np.ndarray) -> Samples:
        """Select the samples at some positions; rows of the design are not copied."""
        return Samples(
            design=self.design.rows(indices),
            targets=[target[indices] for target in self.targets],
            weights=_at(self.weights, indices),
            offsets=_at(self.offsets, indices),
            copies=_at(self.copies, indices),
            centres=self.centres,
        )

    def merged(self) -> Samples:
        """Merge identical samples into one with the sum of their weights, an equivalent problem."""
        if self.copies is None:
            return self
        _, first, merged = np.unique(self.copies, return_index=True, return_inverse=True)
        if len(first) == len(merged):
            return self
        order = np.argsort(first)
        sums = np.bincount(merged, self.weights)
        return replace(self.rows(first[order]), weights=sums[order], copies=None)

    def problems(self, model: BaseEstimator, alpha: float) -> list[DesignProblem]:
        """Return the problem of each target, with the parameters of a model."""
        loss = batch.resolve_loss(model)
        regularizer = resolve(Regularizer, model.regularizer, "regularizer")
        columns = batch.groups_of(model)
        n_columns = self.design.shape[1]
        weights = _group_weights(model, columns, n_columns)
        groups = ColumnGroups(columns.groups, n_columns, weights)
        if isinstance(model.regularizer, Regularizer):  # unlike a string, it may name groups
            regularizer = regularizer.bind(columns.texts(groups.n_groups))
        shared = (regularizer, alpha, groups, bool(model.fit_intercept), self.weights)
        if self.targets[0].ndim == 2:
            if model.positive:
                raise InputError(
                    "positive=True needs a single output: "
                    "leave it out, or fit one output at a time."
                )
            offsets = None if self.offsets is None else self.offsets.T
            loss_of_numbers = None if batch.is_a_classifier(model) else loss
            return [
                stacked_problem(self.design, self.targets[0], loss_of_numbers, *shared, offsets)
            ]
        positive = bool(model.positive)
        designs = []
        for p, target in enumerate(self.targets):
            offset = None if self.offsets is None else self.offsets[p]
            designs.append(DesignProblem(self.design, target, loss, *shared, offset, positive))
        return designs

    def coefficients(self, solutions: Sequence[Solution]) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (P, n) and intercepts (P,) of the outputs of all problems."""
        n_columns = self.design.shape[1]
        coefficients = []
        intercepts = []
        for solution in solutions:
            intercept = np.atleast_1d(solution.model.intercept)
            weights = solution.model.dense(n_columns * len(intercept))
            coefficients.append(weights.reshape(n_columns, -1).T)
            intercepts.append(intercept)
        return np.concatenate(coefficients), np.concatenate(intercepts) + self.centres

    def path_record(self, points: Sequence[PathPoint]) -> dict[str, Any]:
        """Return the flat record of one alpha, from the points of all problems."""
        solutions = [point.solution for point in points]
        coefficients, intercepts = self.coefficients(solutions)
        certificates = [solution.certificate for solution in solutions]
        coef: Any = coefficients
        intercept: Any = intercepts
        if len(coefficients) == 1:
            coef = coefficients[0]
            intercept = float(intercepts[0])
        return {
            "alpha": points[0].value,
            "coef": coef,
            "intercept": intercept,
            "dual_gap": max(certificate.gap for certificate in certificates),
            "objective": sum(certificate.primal for certificate in certificates),
            "active": sum(int(np.count_nonzero(certificate.norms)) for certificate in certificates),
            "n_iter": max(solution.n_iter for solution in solutions),
            "seconds": sum(point.seconds for point in points),
        }


def _at(values: np.ndarray | None, indices: np.ndarray) -> np.ndarray | None:
    """Select samples, the last axis of values; None stays None."""
    return None if values is None else values[..., indices]


def _group_weights(model: BaseEstimator, columns: batch.ColumnNames, n_columns: int) -> Any:
    """Return the weights of the groups of columns, as numbers, or None."""
    weights = model.group_weights
    if isinstance(weights, dict):
        names = columns.names
        if names is None or weights.keys() != set(names):
            raise InputError(
                f"group_weights must have a value for each of the groups {listed(names or (), 5)}."
            )
        return np.array([weights[name] for name in names])
    if isinstance(weights, str):
        if weights != "sqrt-size":
            raise InputError(
                f'group_weights must be numbers, "sqrt-size" or None, not {weights!r}.'
            )
        return np.sqrt(ColumnGroups(columns.groups, n_columns).blocks.sizes)
    return weights


def read_offsets(offset: ArrayLike | None, n_samples: int, n_outputs: int) -> np.ndarray | None:
    """Return offsets as an array (P, m); a single offset per sample applies to all outputs."""
    if offset is None:
        return None
    offsets = as_numbers(offset, "offset")
    shapes = ((n_samples,), (n_samples, n_outputs))
    if offsets.shape not in shapes or not np.isfinite(offsets).all():
        raise InputError(
            f"offset must hold a finite number for each sample, ({n_samples},), "
            f"or each output of it, ({n_samples}, {n_outputs}), got {offsets.shape}."
        )
    return np.broadcast_to(offsets.T, (n_outputs, n_samples))


def identical_samples(
    X: np.ndarray | sparse.sparray, y: np.ndarray, offsets: np.ndarray | None
) -> np.ndarray | None:
    """Return, for each sample, the first one with the same features, targets and offsets, (m,).

    Return None if all differ. Only samples with the same random sum of targets and a few columns
    are compared in full.
    """
    rng = np.random.default_rng(0)
    outputs = [np.unique(column, return_inverse=True)[1] for column in y.reshape(len(y), -1).T]
    if offsets is not None:
        outputs += list(offsets)
    columns = np.column_stack(outputs) + 0.0  # normalizes -0.0
    if sparse.issparse(X):
        sums = X @ rng.standard_normal(X.shape[1])
        summed = columns
    else:
        few = np.unique(np.linspace(0, X.shape[1] - 1, FEW_COLUMNS).astype(np.int64))
        sums = np.zeros(len(columns))
        summed = np.column_stack([columns, X[:, few]])
    for column in summed.T:
        sums = sums + rng.standard_normal() * column
    _, inverse, counts = np.unique(sums, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(counts[inverse] > 1)
    first = np.arange(len(columns))
    seen = dict[tuple, int]()
    for i, digest in zip(alike.tolist(), row_digests(X, alike).tolist()):
        first[i] = seen.setdefault((columns[i].tobytes(), digest), i)
    if len(seen) < len(alike):
        return first
    return None


# ---- problems ------------------------------------------------------------------------------------


def read_samples(
    model: BaseEstimator,
    X: DesignLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    offset: ArrayLike | None,
) -> tuple[Samples, batch.ClassDecoder | None]:
    """Check the samples, and drop those of weight 0; return them, and the decoder of a classifier.

    X is not copied if it is float32 or float64.
    """
    classifies = batch.is_a_classifier(model)
    X, targets = _read_table(model, X, y)
    weights = check_sample_weight(sample_weight, len(targets))
    samples = Samples(as_design(X), [])
    used: Any = slice(None)
    if weights is not None and not weights.all():
        used = np.flatnonzero(weights)
        samples.design = samples.design.rows(used)
        weights = weights[used]
    decoder = None
    if classifies:
        multinomial = model.multiclass == "multinomial"
        if multinomial and targets.ndim == 2:
            raise InputError(
                'multiclass="multinomial" is for classes, not for labels in columns of y.'
            )
        signs, samples.weights, decoder = batch.encode_classes(
            targets[used], weights, model.class_weight
        )
        decoder = replace(decoder, multinomial=multinomial and len(decoder.classes) > 2)
        if decoder.multinomial:
            samples.targets = [signs > 0]
        else:
            samples.targets = list(np.ascontiguousarray(signs.T))
    else:
        numbers = finite_targets(targets[used])
        samples.weights = weights
        samples.centres = batch.centres_of(numbers, batch.resolve_loss(model), model.fit_intercept)
        samples.targets = [numbers - samples.centres]
    offsets = read_offsets(offset, len(targets), sum(samples.widths))
    samples.offsets = _at(offsets, used)
    if not isinstance(X, LinearOperator):
        samples.copies = _at(identical_samples(X, targets, offsets), used)
    return samples, decoder


def _read_table(model: BaseEstimator, X: DesignLike, y: ArrayLike) -> tuple[Any, np.ndarray]:
    """Check X and y; return an array, a sparse matrix or an operator, and targets."""
    has_several_outputs = has_columns(y)
    if isinstance(X, LinearOperator):
        forget_columns(model)
        model.n_features_in_ = X.shape[1]
        targets = check_array(plain_targets(y), accept_sparse="csr", ensure_2d=False, dtype=None)
        if not has_several_outputs:
            targets = column_or_1d(targets, warn=True)
    else:
        X, targets = checked_arrays(
            model,
            X,
            y,
            **ACCEPTED,
            missing=model.missing,
            y_numeric=not batch.is_a_classifier(model),
            multi_output=has_several_outputs,
        )
    if sparse.issparse(targets):
        targets = targets.toarray()
    return X, targets


def solver_of(model: BaseEstimator) -> DesignSolver:
    """Return the solver of a model."""
    return resolve(DesignSolver, model.solver, "solver")


# ---- solutions -----------------------------------------------------------------------------------


def path_values(problems: Sequence[DesignProblem], alphas: int | ArrayLike) -> np.ndarray:
    """Return decreasing values of a path; a number of them starts where the first column enters."""
    if is_number_of_values(alphas):
        return np.max([problem.path_values(int(alphas), DECADES) for problem in problems], axis=0)
    return ordered(alphas)[::-1]


def predictions_of(design: Design, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Return predictions (m, K) of sparse coefficients (K, n) and intercepts (K,)."""
    outputs = []
    for weights, intercept in zip(coefficients, intercepts):
        columns = np.flatnonzero(weights)
        outputs.append(design.product(columns, weights[columns]) + intercept)
    return np.column_stack(outputs)


def warn_unless_converged(solution: Solution, tol: float) -> None:
    """Warn about a gap above the tolerance, or a negative gap."""
    if solution.converged:
        return
    gap = solution.certificate.gap
    advice = f"above tol={tol:g}: raise max_iter"
    if gap < 0:
        advice = "which proves nothing: scale the columns of X"
    warn_caller(
        f"Stopped at a relative duality gap of {gap:.2g} after {solution.n_iter} iterations, "
        f"{advice}.",
        ConvergenceWarning,
    )
