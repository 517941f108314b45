"""What GroupLasso and SparseLogisticRegression share: from a design to certified coefficients, paths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, column_or_1d

from omkl._components import resolve, warn_caller
from omkl.batch import (
    ColumnGroups,
    Design,
    DesignProblem,
    DesignSolver,
    LinearModel,
    PathPoint,
    Solution,
    as_design,
    regularization_path,
    stacked_problem,
)
from omkl.batch.core.solver import is_number_of_values, ordered
from omkl.batch.design.blocks import by_index, by_position, called, group_names
from omkl.data.rows import plain_targets
from omkl.estimators.arrays import as_numbers, check_magnitude
from omkl.estimators.certified import CertifiedEstimator
from omkl.estimators.explaining_batch import ExplainsColumns
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.inputs import checked_arrays, forget_columns
from omkl.estimators.outputs import check_sample_weight, has_columns
from omkl.estimators.progress import GapProgress
from omkl.estimators.repeated import first_alike
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

#: The share of the alpha that empties a model from which on its penalty is lost in the rounding of the loss.
LOST = 1e-15
#: The share of the loss of no model at all below which nothing is left to learn.
SEPARATED = 1e-3
#: Decades of alpha that a path spans if it is given a number of values.
DECADES = 2.0


@dataclass
class Samples:
    """What is learned from: a design, the targets (m,) of each problem, or those (m, K) of one, offsets (K, m), the
    largest magnitude of a feature where it is known, and for each sample the number that its copies share, if any has
    copies."""

    design: Design
    targets: Sequence[np.ndarray]
    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None
    largest: float = np.inf
    copies: np.ndarray | None = None

    def rows(self, kept: np.ndarray) -> "Samples":
        """Those samples alone, by their positions; no rows of the design are copied."""
        weights, offsets, copies = (
            None if part is None else part[..., kept] for part in (self.weights, self.offsets, self.copies)
        )
        targets = [target[kept] for target in self.targets]
        return Samples(self.design.rows(kept), targets, weights, offsets, self.largest, copies)

    def merged(self) -> "Samples":
        """The same with one sample, of their weight, in place of copies: solvers go the same way for both."""
        if self.copies is None:
            return self
        _, first, own = np.unique(self.copies, return_index=True, return_inverse=True)
        order = np.argsort(first)
        if len(order) == len(own):
            return self
        sums = np.bincount(own, np.ones(len(own)) if self.weights is None else self.weights)
        samples = self.rows(first[order])
        samples.weights, samples.copies = sums[order], None
        return samples


class SparseLinear(ExplainsColumns, CertifiedEstimator):
    """What the two estimators share: a design and targets in, certified coefficients out."""

    _tradeoff = "alpha"
    _takes_links = True
    #: Whether targets may have several columns.
    _takes_outputs = False
    _plain_attributes = (*CertifiedEstimator._plain_attributes, "coef_", "intercept_")

    # ---- training -----------------------------------------------------------------------------------------------

    def _resolve(self) -> tuple[PointwiseLoss, Regularizer, DesignSolver]:
        """Loss, regularizer and solver, checked."""
        loss = self._resolve_loss()
        return (
            loss, resolve(Regularizer, self.regularizer, "regularizer"), resolve(DesignSolver, self.solver, "solver")
        )  # fmt: skip

    def _read(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, offset: ArrayLike | None) -> Samples:
        """X, y and weights > 0, checked; nothing is copied that is in float32 or float64."""
        several, largest = self._takes_outputs and has_columns(y), np.inf
        if isinstance(X, LinearOperator):
            forget_columns(self)
            self.n_features_in_ = X.shape[1]
            y = _as_array(check_array(plain_targets(y), accept_sparse="csr", ensure_2d=False, dtype=None))
            y = y if several else column_or_1d(y, warn=True)
            if X.shape[0] != len(y):
                raise InputError(f"X has {X.shape[0]} rows, but y has {len(y)} targets.")
        else:
            X, y = checked_arrays(
                self, X, y, accept_sparse=("csc", "csr"), dtype=(np.float64, np.float32),
                y_numeric=isinstance(self, RegressorMixin), multi_output=several,
            )  # fmt: skip
            y = _as_array(y)
            largest = check_magnitude(
                X.data if sparse.issparse(X) else X, "X", "scale its columns, as StandardScaler does"
            )
        weights = check_sample_weight(sample_weight, len(y))
        kept = slice(None) if weights is None or weights.all() else np.flatnonzero(weights)
        targets, weights = self._targets(y[kept], None if weights is None else weights[kept])
        offsets = _read_offsets(offset, len(y), sum(map(n_outputs_of, targets)))
        design = as_design(X) if isinstance(kept, slice) else as_design(X).rows(kept)
        copies = None if isinstance(X, LinearOperator) else _copies(X, y, offsets)
        samples = Samples(design, targets, weights, None if offsets is None else offsets[:, kept], largest)
        samples.copies = None if copies is None else copies[kept]
        return samples

    def _targets(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[list[np.ndarray], np.ndarray | None]:
        """The targets of the problems, checked, and the weights of the samples' losses."""
        raise NotImplementedError

    def _problems(self, samples: Samples) -> list[DesignProblem]:
        """The problem of each target, at alpha."""
        loss, regularizer, _ = self._resolve()
        n_columns = samples.design.shape[1]
        names = getattr(self, "feature_names_in_", None)
        members = by_position(self.groups, names)
        groups, weights = ColumnGroups(members, n_columns), self.group_weights
        if (named := by_index(weights, group_names(self.groups, names), "group_weights", "group")) is not None:
            weights = np.array(named)
        if isinstance(weights, str):
            if weights != "sqrt-size":
                raise InputError(f'group_weights must be numbers, "sqrt-size" or None, not {weights!r}.')
            weights = np.sqrt(groups.blocks.sizes)
        if weights is not None:
            groups = ColumnGroups(members, n_columns, weights)
        if isinstance(self.regularizer, Regularizer):  # which may call groups by name, unlike a string
            regularizer = regularizer.bind(called(self.groups, names, groups.n_groups))
        alpha, rest = float(getattr(self, self._tradeoff)), (bool(self.fit_intercept), samples.weights)
        if samples.targets[0].ndim == 2:
            return [self._stacked_problem(samples, loss, regularizer, alpha, groups, *rest)]
        offsets = [None] * len(samples.targets) if samples.offsets is None else samples.offsets
        return [
            DesignProblem(samples.design, target, loss, regularizer, alpha, groups, *rest, offset, bool(self.positive))
            for target, offset in zip(samples.targets, offsets)
        ]

    def _stacked_problem(
        self, samples: Samples, loss: PointwiseLoss, regularizer: Regularizer, alpha: float, groups: ColumnGroups,
        intercept: bool, weights: np.ndarray | None,
    ) -> DesignProblem:  # fmt: skip
        """The problem of several outputs that share their groups."""
        if self.positive:
            raise InputError("positive=True is for one output: leave it out, or learn one output after the other.")
        offset = None if samples.offsets is None else samples.offsets.T
        kind = None if isinstance(self, ClassifierMixin) else loss
        return stacked_problem(
            samples.design, samples.targets[0], kind, regularizer, alpha, groups, intercept, weights, offset
        )

    def _solve(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Solve one problem for each target; sets what is learned. Returns coefficients (P, n) and intercepts (P,)."""
        solver, problems, n_columns = self._resolve()[2], self._problems(samples.merged()), samples.design.shape[1]
        _refuse_lost(problems, problems[0].alpha, samples)
        starts = self._starts([problem.n_outputs for problem in problems], n_columns)
        learned, gaps, iterations, self.history_ = [], [], [], []
        for p, (problem, start) in enumerate(zip(problems, starts)):
            with GapProgress(self.verbose, "groups") as progress:
                solution = solver.solve(problem, self.tol, self.max_iter, start, progress)
            self._warn_unless_converged(problem, solution)
            learned.append(rows_of(solution, n_columns))
            gaps.append(solution.certificate.gap)
            iterations.append(solution.n_iter)
            self.history_ += [{"problem": p, **record} for record in solution.history]
        self.dual_gap_ = max(gaps)
        self.n_iter_ = max(1, *iterations)
        coefficients, intercepts = map(np.concatenate, zip(*learned))
        self._warn_if_empty(problems, coefficients)
        return coefficients, intercepts

    def _starts(self, widths: list[int], n_columns: int) -> list[LinearModel | None]:
        """The models to start from: with ``warm_start`` those of the previous fit, if they fit."""
        known = (
            np.atleast_2d(self.coef_)
            if getattr(self, "warm_start", False) and hasattr(self, "coef_")
            else np.empty((0, 0))
        )
        if known.shape != (sum(widths), n_columns):
            return [None] * len(widths)
        starts: list[LinearModel | None] = []
        ends = np.cumsum(widths)
        for first, last in zip(ends - widths, ends):
            w, b = known[first:last].T.ravel(), np.atleast_1d(self.intercept_)[first:last]
            w = np.maximum(w, 0.0) if self.positive else w
            starts.append(LinearModel(np.flatnonzero(w), w[w != 0], b if len(b) > 1 else float(b[0])))
        return starts

    def _warn_unless_converged(self, problem: DesignProblem, solution: Solution) -> None:
        if solution.converged:
            return
        certificate, advice = solution.certificate, f"above tol={self.tol:g}: raise max_iter, or tol."
        if (gap := certificate.gap) < 0:
            without = problem.weighted_loss.value(np.zeros_like(certificate.outputs))
            alone = problem.unpenalized is not None and certificate.primal < SEPARATED * without
            remedy = "the groups of weight 0 fit the targets without the others, so give some of them a weight"
            advice = f"which proves nothing: {remedy if alone else 'scale the columns of X'}."
        warn_caller(
            f"Stopped at a relative duality gap of {gap:.2g} after {solution.n_iter} iterations, {advice}",
            ConvergenceWarning,
        )

    def _warn_if_empty(self, problems: Sequence[DesignProblem], coefficients: np.ndarray) -> None:
        if not coefficients.any() and problems[0].threshold > 0:
            largest = max(problem.largest_alpha() for problem in problems)
            alpha = getattr(self, self._tradeoff)
            if 0 < largest <= alpha:
                warn_caller(
                    f"No column is in the model: with these data alpha must be below {largest:.3g}, and is"
                    f" {alpha:g}; a tenth of that, {0.1 * largest:.2g}, is a place to begin.",
                    UserWarning,
                )

    def path(
        self, X: Any, y: ArrayLike, alphas: int | ArrayLike = 20, *, sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        r"""Solve for a sequence of alphas, each from the solution of the one before.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for :meth:`fit`.
        alphas : int or array of floats > 0
            The values; a number of them is spread evenly in the logarithm over two decades below
            :math:`\alpha_{\max}`, the smallest alpha at which no column is in the model.

        Returns
        -------
        list of dict
            For each alpha, from the largest: ``alpha``, ``coef`` (n,), ``intercept``, ``dual_gap`` (relative),
            ``objective``, ``active`` (number of groups), ``n_iter``, ``seconds``. For K > 2 classes, or K outputs,
            ``coef`` is (K, n) and ``intercept`` (K,); of several problems ``dual_gap`` and ``n_iter`` are the largest,
            and the rest are sums.
        """
        # what is fitted stays as it is
        return clone(self)._path(X, y, alphas, sample_weight, offset)

    def _path(
        self, X: Any, y: ArrayLike, alphas: int | ArrayLike, sample_weight: ArrayLike | None, offset: ArrayLike | None
    ) -> list[dict[str, Any]]:
        solver: Any = self._resolve()[2]
        samples = self._read(X, y, sample_weight, offset).merged()
        problems = self._problems(samples)
        values = self._path_values(problems, alphas)
        _refuse_lost(problems, values[-1], samples)
        paths = [list(regularization_path(solver, problem, values, self.tol, self.max_iter)) for problem in problems]
        for problem, path in zip(problems, paths):
            for point in path:
                self._warn_unless_converged(problem, point.solution)
        return [_record(points, X.shape[1]) for points in zip(*paths)]

    def _path_values(self, problems: Sequence[DesignProblem], alphas: int | ArrayLike) -> np.ndarray:
        """Values of a path in decreasing order; a number of them begins where a column first is in a model."""
        if is_number_of_values(alphas):
            return np.max([problem.path_values(int(alphas), DECADES) for problem in problems], axis=0)
        return ordered(alphas)[::-1]

    # ---- prediction ---------------------------------------------------------------------------------------------

    def _checked(self, X: Any) -> Any:
        """Inputs of a prediction, as an array, a sparse matrix or a ``LinearOperator``."""
        check_is_fitted(self)
        if not isinstance(X, LinearOperator):
            return checked_arrays(self, X, reset=False, accept_sparse=("csc", "csr"), dtype=(np.float64, np.float32))
        if X.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as"
                " input."
            )
        return X

    def _outputs(self, X: Any, offset: ArrayLike | None = None) -> np.ndarray:
        """Predictions (n, P)."""
        return self._outputs_of(self._checked(X), offset)

    def _outputs_of(self, X: Any, offset: ArrayLike | None) -> np.ndarray:
        """Predictions (n, P) of inputs that were checked, from the columns that are not zero."""
        outputs = predictions_of(as_design(X), np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_))
        known = _read_offsets(offset, *outputs.shape)
        return outputs if known is None else outputs + known.T

    # ---- model files --------------------------------------------------------------------------------------------

    def _saved_parameters(self) -> dict[str, Any]:
        """What is in the order of an index of names is saved in that of groups and columns."""
        names, parameters = getattr(self, "feature_names_in_", None), super()._saved_parameters()
        if hasattr(self.groups, "reindex"):
            parameters["groups"] = by_position(self.groups, names)
        if hasattr(self.group_weights, "reindex"):
            named = by_index(self.group_weights, group_names(self.groups, names), "group_weights", "group")
            parameters["group_weights"] = self.group_weights if named is None else named
        return parameters

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _record(points: Sequence[PathPoint], n_columns: int) -> dict[str, Any]:
    """The flat record of one alpha, from the points of all binary problems."""
    solutions = [point.solution for point in points]
    coefficients, intercepts = map(np.concatenate, zip(*(rows_of(solution, n_columns) for solution in solutions)))
    alone = len(coefficients) == 1
    return {
        "alpha": points[0].value,
        "coef": coefficients[0] if alone else coefficients,
        "intercept": float(intercepts[0]) if alone else intercepts,
        "dual_gap": max(solution.certificate.gap for solution in solutions),
        "objective": sum(solution.certificate.primal for solution in solutions),
        "active": sum(int(np.count_nonzero(solution.certificate.norms)) for solution in solutions),
        "n_iter": max(solution.n_iter for solution in solutions),
        "seconds": sum(point.seconds for point in points),
    }


def predictions_of(design: Design, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Predictions (m, K) of coefficients (K, n), from the columns that are not zero."""
    outputs = [design.product(np.flatnonzero(w), w[w != 0]) + b for w, b in zip(coefficients, intercepts)]
    return np.column_stack(outputs)


def rows_of(solution: Solution, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (K, n) and intercepts (K,) of a problem's outputs."""
    intercepts = np.atleast_1d(solution.model.intercept)
    return solution.model.dense(n_columns * len(intercepts)).reshape(n_columns, -1).T, intercepts


def n_outputs_of(target: np.ndarray) -> int:
    """The number of outputs of a problem with these targets."""
    return 1 if target.ndim == 1 else target.shape[1]


def _as_array(y: Any) -> np.ndarray:
    """Targets, or indicators that may be sparse, as an array."""
    return y.toarray() if sparse.issparse(y) else y


def _copies(X: Any, y: np.ndarray, offsets: np.ndarray | None) -> np.ndarray | None:
    """For each sample the first one with the same features, target and offset; None where all differ."""
    y = y.reshape(len(y), -1)
    codes = [np.unique(column, return_inverse=True)[1] for column in y.T]
    return first_alike(X, np.column_stack(codes if offsets is None else [*codes, *offsets]))


def _read_offsets(offset: ArrayLike | None, n_samples: int, n_problems: int) -> np.ndarray | None:
    """Offsets as an array (P, n); one a sample serves all problems."""
    if offset is None:
        return None
    offsets = as_numbers(offset, "offset")
    if offsets.shape not in ((n_samples,), (n_samples, n_problems)) or not np.isfinite(offsets).all():
        alternative = f", or ({n_samples}, {n_problems})," if n_problems > 1 else ""
        raise InputError(
            f"offset must hold a finite number for each sample, ({n_samples},){alternative} not {offsets.shape}."
        )
    return np.broadcast_to(offsets if offsets.ndim == 1 else offsets.T, (n_problems, n_samples))


def _refuse_lost(problems: Sequence[DesignProblem], alpha: float, samples: Samples) -> None:
    """Raise where the penalty is below the rounding of the loss, so that no gap could certify a model."""
    targets = max(1.0, *(float(np.abs(target).max()) for target in samples.targets))
    if problems[0].threshold > 0 and alpha < LOST**0.5 * samples.largest * targets:  # else it cannot be
        largest = max(problem.largest_alpha() for problem in problems)
        if alpha < LOST * largest:
            raise InputError(
                f"alpha={alpha:.3g} is lost in rounding: with these data no column is in the model from {largest:.3g}"
                f" on; choose an alpha above {LOST * largest:.2g}, or scale the columns of X, as StandardScaler does."
            )
