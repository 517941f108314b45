"""Problems of sparse linear models: from training samples to problems, and from solutions to
coefficients.
"""

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
from omkl.batch.group_lasso.matrices import Design, as_design
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

#: Accepted designs.
DesignLike: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix | LinearOperator
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

    def rows(self, kept: np.ndarray) -> Samples:
        """Select the samples at some positions; rows of the design are not copied."""
        parts = (self.weights, self.offsets, self.copies)
        weights, offsets, copies = (None if part is None else part[..., kept] for part in parts)
        targets = [target[kept] for target in self.targets]
        return Samples(self.design.rows(kept), targets, weights, offsets, copies, self.centres)

    def merged(self) -> Samples:
        """Merge identical samples into one with the sum of their weights, an equivalent problem."""
        if self.copies is None:
            return self
        _, first, own = np.unique(self.copies, return_index=True, return_inverse=True)
        order = np.argsort(first)
        if len(order) == len(own):
            return self
        sums = np.bincount(own, np.ones(len(own)) if self.weights is None else self.weights)
        return replace(self.rows(first[order]), weights=sums[order], copies=None)

    def problems(self, model: BaseEstimator, alpha: float) -> list[DesignProblem]:
        """Return the problem of each target, with the parameters of a model."""
        loss = batch.resolve_loss(model)
        regularizer = resolve(Regularizer, model.regularizer, "regularizer")
        (members, named), weights, n_columns = (
            batch.groups_of(model),
            model.group_weights,
            self.design.shape[1],
        )
        if isinstance(weights, dict):
            if named is None or weights.keys() != set(named):
                raise InputError(
                    f"group_weights must have a value for each of the groups {listed(named or (), 5)}."
                )
            weights = np.array([weights[name] for name in named])
        elif isinstance(weights, str):
            if weights != "sqrt-size":
                raise InputError(
                    f'group_weights must be numbers, "sqrt-size" or None, not {weights!r}.'
                )
            weights = np.sqrt(ColumnGroups(members, n_columns).blocks.sizes)
        groups = ColumnGroups(members, n_columns, weights)
        if isinstance(model.regularizer, Regularizer):  # unlike a string, it may name groups
            regularizer = regularizer.bind(batch.ColumnNames(members, named).texts(groups.n_groups))
        shared = (regularizer, alpha, groups, bool(model.fit_intercept), self.weights)
        offsets = [None] * len(self.targets) if self.offsets is None else self.offsets
        if self.targets[0].ndim == 2:
            if model.positive:
                raise InputError(
                    "positive=True needs a single output: leave it out, or fit one output at a time."
                )
            offset = None if self.offsets is None else self.offsets.T
            own_loss = None if batch.is_a_classifier(model) else loss
            return [stacked_problem(self.design, self.targets[0], own_loss, *shared, offset)]
        pairs = zip(self.targets, offsets)
        return [
            DesignProblem(self.design, y, loss, *shared, offset, bool(model.positive))
            for y, offset in pairs
        ]

    def coefficients(self, solutions: Sequence[Solution]) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (P, n) and intercepts (P,) of the outputs of all problems."""
        n, models = self.design.shape[1], [solution.model for solution in solutions]
        intercepts = [np.atleast_1d(model.intercept) for model in models]
        rows = [
            model.dense(n * len(own)).reshape(n, -1).T for model, own in zip(models, intercepts)
        ]
        return np.concatenate(rows), np.concatenate(intercepts) + self.centres

    def path_record(self, points: Sequence[PathPoint]) -> dict[str, Any]:
        """Return the flat record of one alpha, from the points of all problems."""
        solutions = [point.solution for point in points]
        coefficients, intercepts = self.coefficients(solutions)
        alone = len(coefficients) == 1
        return {
            "alpha": points[0].value,
            "coef": coefficients[0] if alone else coefficients,
            "intercept": float(intercepts[0]) if alone else intercepts,
            "dual_gap": max(solution.certificate.gap for solution in solutions),
            "objective": sum(solution.certificate.primal for solution in solutions),
            "active": sum(
                int(np.count_nonzero(solution.certificate.norms)) for solution in solutions
            ),
            "n_iter": max(solution.n_iter for solution in solutions),
            "seconds": sum(point.seconds for point in points),
        }


def read_offsets(offset: ArrayLike | None, n_samples: int, n_outputs: int) -> np.ndarray | None:
    """Return offsets as an array (P, m); a single offset per sample applies to all outputs."""
    if offset is None:
        return None
    offsets = as_numbers(offset, "offset")
    if (
        offsets.shape not in ((n_samples,), (n_samples, n_outputs))
        or not np.isfinite(offsets).all()
    ):
        raise InputError(
            f"offset must hold a finite number for each sample, ({n_samples},), or each output of it, "
            f"({n_samples}, {n_outputs}), got {offsets.shape}."
        )
    return np.broadcast_to(offsets if offsets.ndim == 1 else offsets.T, (n_outputs, n_samples))


def identical_samples(
    X: np.ndarray | sparse.sparray, y: np.ndarray, offsets: np.ndarray | None
) -> np.ndarray | None:
    """Return, for each sample, the first one with the same features, targets and offsets; None if
    all differ.

    Only samples with the same random sum of targets and a few columns are compared in full.
    """
    rng, codes = (
        np.random.default_rng(0),
        [np.unique(c, return_inverse=True)[1] for c in y.reshape(len(y), -1).T],
    )
    columns = (
        np.column_stack([*codes, *(() if offsets is None else offsets)]) + 0.0
    )  # normalizes -0.0
    if sparse.issparse(X):
        sums, summed = X @ rng.standard_normal(X.shape[1]), columns
    else:
        few = np.unique(np.linspace(0, X.shape[1] - 1, FEW_COLUMNS).astype(np.int64))
        sums, summed = np.zeros(len(columns)), np.column_stack([columns, X[:, few]])
    for column in summed.T:
        sums = sums + rng.standard_normal() * column
    _, own, counts = np.unique(sums, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(counts[own] > 1)
    first, seen = np.arange(len(columns)), dict[tuple, int]()
    for i, digest in zip(alike.tolist(), row_digests(X, alike).tolist()):
        first[i] = seen.setdefault((columns[i].tobytes(), digest), i)
    return first if len(seen) < len(alike) else None


# ---- problems ------------------------------------------------------------------------------------


def read_samples(
    model: BaseEstimator,
    X: DesignLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    offset: ArrayLike | None,
) -> tuple[Samples, batch.ClassDecoder | None]:
    """Check the samples and drop samples of weight 0; X is not copied if it is float32 or float64.

    Return the samples, and the decoder of a classifier.
    """
    several, classifies, decoder = has_columns(y), batch.is_a_classifier(model), None
    if isinstance(X, LinearOperator):
        forget_columns(model)
        model.n_features_in_ = X.shape[1]
        targets = check_array(plain_targets(y), accept_sparse="csr", ensure_2d=False, dtype=None)
        targets = targets if several else column_or_1d(targets, warn=True)
    else:
        checks = {**ACCEPTED, "missing": model.missing, "y_numeric": not classifies}
        X, targets = checked_arrays(model, X, y, **checks, multi_output=several)
    targets = targets.toarray() if sparse.issparse(targets) else targets
    weights, kept = check_sample_weight(sample_weight, len(targets)), None
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
    own = slice(None) if kept is None else kept
    known, weights = targets[own], None if weights is None else weights[own]
    samples = Samples(as_design(X) if kept is None else as_design(X).rows(kept), [])
    if classifies:
        multinomial = model.multiclass == "multinomial"
        if multinomial and known.ndim == 2:
            raise InputError(
                'multiclass="multinomial" is for classes, not for labels in columns of y.'
            )
        signs, samples.weights, decoder = batch.encode_classes(known, weights, model.class_weight)
        decoder = replace(decoder, multinomial=multinomial and len(decoder.classes) > 2)
        samples.targets = (
            [signs > 0] if decoder.multinomial else list(np.ascontiguousarray(signs.T))
        )
    else:
        known, samples.weights = finite_targets(known), weights
        samples.centres = batch.centres_of(known, batch.resolve_loss(model), model.fit_intercept)
        samples.targets = [known - samples.centres]
    offsets = read_offsets(offset, len(targets), sum(samples.widths))
    samples.offsets = None if offsets is None else offsets[:, own]
    if not isinstance(X, LinearOperator):
        copies = identical_samples(X, targets, offsets)
        samples.copies = None if copies is None else copies[own]
    return samples, decoder


def solver_of(model: BaseEstimator) -> DesignSolver:
    """Return the solver of a model."""
    return resolve(DesignSolver, model.solver, "solver")


# ---- solutions -----------------------------------------------------------------------------------


def path_values(problems: Sequence[DesignProblem], alphas: int | ArrayLike) -> np.ndarray:
    """Return decreasing values of a path; a number of values starts where the first column enters a
    model.
    """
    if is_number_of_values(alphas):
        return np.max([problem.path_values(int(alphas), DECADES) for problem in problems], axis=0)
    return ordered(alphas)[::-1]


def predictions_of(design: Design, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Return predictions (m, K) of coefficients (K, n), from the columns with nonzero coefficients."""
    outputs = [
        design.product(np.flatnonzero(w), w[w != 0]) + b for w, b in zip(coefficients, intercepts)
    ]
    return np.column_stack(outputs)


def warn_unless_converged(solution: Solution, tol: float) -> None:
    """Warn about a gap above the tolerance, or a negative gap."""
    if not solution.converged:
        gap = solution.certificate.gap
        advice = (
            "which proves nothing: scale the columns of X"
            if gap < 0
            else f"above tol={tol:g}: raise max_iter"
        )
        found = f"Stopped at a relative duality gap of {gap:.2g} after {solution.n_iter} iterations"
        warn_caller(f"{found}, {advice}.", ConvergenceWarning)
