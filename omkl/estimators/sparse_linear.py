"""What GroupLasso and SparseLogisticRegression share: from a design to certified coefficients, paths."""

import time
import warnings

import numpy as np
from scipy.sparse.linalg import LinearOperator
from sklearn.base import RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from omkl._components import resolve
from omkl.batch import ColumnGroups, DesignProblem, DesignSolver, LinearModel, as_design, solve_path
from omkl.estimators.certified import CertifiedEstimator
from omkl.estimators.progress import GapProgress
from omkl.exceptions import InputError
from omkl.regularizers import Regularizer


class SparseLinear(CertifiedEstimator):
    """What the two estimators share: a design and targets in, certified coefficients out."""

    def __init__(
        self, groups=None, C=1.0, loss=None, regularizer="group-lasso", group_weights=None, solver="dal", tol=1e-3,
        max_iter=None, fit_intercept=True, warm_start=False, verbose=True,
    ):  # fmt: skip
        self.groups = groups
        self.C = C
        self.loss = loss
        self.regularizer = regularizer
        self.group_weights = group_weights
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.warm_start = warm_start
        self.verbose = verbose

    _plain_attributes = (*CertifiedEstimator._plain_attributes, "coef_", "intercept_")

    # ---- training -----------------------------------------------------------------------------------------------

    def _resolve(self):
        """Loss, regularizer and solver, checked."""
        loss = self._resolve_loss()
        return (
            loss, resolve(Regularizer, self.regularizer, "regularizer"), resolve(DesignSolver, self.solver, "solver")
        )  # fmt: skip

    def _read(self, X, y):
        """X and y, checked; nothing is copied that is in float32 or float64."""
        if isinstance(X, LinearOperator):
            self.n_features_in_ = X.shape[1]
            y = check_array(y, ensure_2d=False, dtype=None)
            return X, column_or_1d(y, warn=True)
        return validate_data(
            self, X, y, accept_sparse=("csc", "csr"), dtype=(np.float64, np.float32),
            y_numeric=isinstance(self, RegressorMixin),
        )  # fmt: skip

    def _problem(self, X, target):
        """The problem of one target, at C."""
        loss, regularizer, _ = self._resolve()
        groups = ColumnGroups(self.groups, X.shape[1])
        if isinstance(self.group_weights, str):
            if self.group_weights != "sqrt-size":
                raise InputError(f'group_weights must be numbers, "sqrt-size" or None, not {self.group_weights!r}.')
            groups = ColumnGroups(self.groups, X.shape[1], np.sqrt(groups.blocks.sizes))
        elif self.group_weights is not None:
            groups = ColumnGroups(self.groups, X.shape[1], self.group_weights)
        return DesignProblem(as_design(X), target, loss, regularizer, float(self.C), groups, bool(self.fit_intercept))

    def _solve(self, X, targets):
        """Solve one problem for each target; sets what is learned. Returns coefficients (P, n) and intercepts (P,)."""
        solver = self._resolve()[2]
        starts = self._starts(len(targets), X.shape[1])
        coefficients, intercepts = np.zeros((len(targets), X.shape[1])), np.zeros(len(targets))
        gaps, iterations, self.history_ = [], [], []
        for p, (target, start) in enumerate(zip(targets, starts)):
            with GapProgress(self.verbose, "groups") as progress:
                solution = solver.solve(self._problem(X, target), self.tol, self.max_iter, start, progress)
            self._warn_unless_converged(solution)
            coefficients[p] = solution.model.dense(X.shape[1])
            intercepts[p] = solution.model.intercept
            gaps.append(solution.certificate.gap)
            iterations.append(solution.n_iter)
            self.history_.append(solution.history)
        self.dual_gap_ = max(gaps)
        self.n_iter_ = max(1, *iterations)
        return coefficients, intercepts

    def _starts(self, n_problems, n_columns):
        """The models to start from: with ``warm_start`` those of the previous fit, if they fit."""
        known = np.atleast_2d(self.coef_) if self.warm_start and hasattr(self, "coef_") else np.empty((0, 0))
        if known.shape != (n_problems, n_columns):
            return [None] * n_problems
        return [
            LinearModel(np.flatnonzero(w), w[w != 0], float(b)) for w, b in zip(known, np.atleast_1d(self.intercept_))
        ]  # fmt: skip

    def _warn_unless_converged(self, solution):
        if not solution.converged:
            warnings.warn(
                f"Stopped at a relative duality gap of {solution.certificate.gap:.2g} after {solution.n_iter} "
                f"iterations, above tol={self.tol:g}: raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def path(self, X, y, C=20):
        r"""Solve for a sequence of strengths, each from the solution of the one before.

        Parameters
        ----------
        X, y
            As for :meth:`fit`; two classes.
        C : int or array
            The strengths; a number of them is spread evenly in the logarithm over two decades below
            :math:`C_{\max}`, the smallest strength at which no column is in the model.

        Returns
        -------
        list of dict
            For each strength, from the largest: ``C``, ``coef`` (n,), ``intercept``, ``dual_gap`` (relative),
            ``objective``, ``active`` (number of groups), ``n_iter``, ``seconds``.
        """
        # what is fitted stays as it is
        return clone(self)._path(X, y, C)

    def _path(self, X, y, C):
        solver = self._resolve()[2]
        X, y = self._read(X, y)
        targets = self._targets(y)
        if len(targets) > 1:
            raise InputError("A path is for two classes: choose one against the rest.")
        records, began = [], time.perf_counter()
        for strength, solution in solve_path(self._problem(X, targets[0]), C, self.tol, self.max_iter, solver):
            self._warn_unless_converged(solution)
            records.append({
                "C": strength,
                "coef": solution.model.dense(X.shape[1]),
                "intercept": solution.model.intercept,
                "dual_gap": solution.certificate.gap,
                "objective": solution.certificate.primal,
                "active": int(np.count_nonzero(solution.certificate.norms)),
                "n_iter": solution.n_iter,
                "seconds": time.perf_counter() - began,
            })  # fmt: skip
            began = time.perf_counter()
        return records

    # ---- prediction ---------------------------------------------------------------------------------------------

    def _outputs(self, X):
        """Predictions (n, P), from the columns that are not zero."""
        check_is_fitted(self)
        if not isinstance(X, LinearOperator):
            X = validate_data(self, X, reset=False, accept_sparse=("csc", "csr"), dtype=(np.float64, np.float32))
        design, coefficients = as_design(X), np.atleast_2d(self.coef_)
        return np.column_stack([
            design.product(np.flatnonzero(w), w[w != 0]) + b
            for w, b in zip(coefficients, np.atleast_1d(self.intercept_))
        ])  # fmt: skip

    def __sklearn_is_fitted__(self):
        return hasattr(self, "coef_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
