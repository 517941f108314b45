"""Base class of the sparse linear models: from a design and targets to certified coefficients."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, column_or_1d

from omkl._components import warn_caller
from omkl.batch.group_lasso.matrices import as_design
from omkl.batch.solver import DesignSolver, Solution, regularization_path
from omkl.data.frames import plain_targets
from omkl.estimators.batch import (
    CONSTRAINTS,
    ClassDecoder,
    GapProgress,
    NumberDecoder,
    centres_of,
    has_log_odds,
    is_a_classifier,
    is_probabilistic,
    resolve_loss,
)
from omkl.estimators.cross_validation import without_splitters
from omkl.estimators.persistence import SavedEstimator, check_is_fitted
from omkl.estimators.targets import has_columns
from omkl.estimators.validation import (
    MISSING_RULES,
    Constraint,
    Number,
    OneOf,
    check_parameters,
    check_sample_weight,
    checked_arrays,
    forget_columns,
)
from omkl.exceptions import DataWarning, InputError
from omkl.linear.explain import explain_columns
from omkl.linear.problems import (
    DesignLike,
    Groups,
    Samples,
    coefficients_of,
    constant_model,
    encode_targets,
    identical_samples,
    path_record,
    path_values,
    predictions_of,
    problems_of,
    read_offsets,
    solver_of,
    starts_from,
    warn_unless_converged,
)
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


class SparseLinear(SavedEstimator):
    """Base class of linear models that select columns or groups of them.

    Subclasses are classifiers or regressors, and either have an ``alpha`` or choose it.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {
        **CONSTRAINTS,
        "alpha": Number(above=0),
        "multiclass": OneOf(("ovr", "multinomial")),
        "missing": OneOf(MISSING_RULES),
    }
    _plain_attributes = (
        "n_features_in_",
        "classes_",
        "multilabel_",
        "multinomial_",
        "constant_labels_",
        "coef_",
        "intercept_",
        "dual_gap_",
        "n_iter_",
        "history_",
        "alpha_",
        "alphas_",
        "scores_",
        "cv_results_",
        "categories_",
        "column_means_",
        "missing_columns_",
    )
    _progress = "iteration"

    alpha: float
    class_weight: str | dict | None = None
    multiclass: str = "ovr"
    warm_start: bool = False

    def __init__(
        self,
        groups: Groups,
        loss: str | PointwiseLoss,
        regularizer: str | Regularizer,
        group_weights: str | ArrayLike | dict | None,
        solver: str | DesignSolver,
        tol: float,
        max_iter: int | None,
        fit_intercept: bool,
        positive: bool,
        missing: str,
        verbose: bool,
    ) -> None:
        self.groups = groups
        self.loss = loss
        self.regularizer = regularizer
        self.group_weights = group_weights
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.missing = missing
        self.verbose = verbose

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(
        self, X: DesignLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, offset: ArrayLike | None = None
    ) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (m, n), sparse matrix or scipy ``LinearOperator``
            A column of text or categories in a data frame becomes columns of 0 and 1, one group (``categories_``).
            Never copied if it is float32 or float64, in C or Fortran order, CSC or CSR.
        y : array of shape (m,), or (m, K)
            Classes, or 0/1 indicators of K labels, any number of which may be 1. Numbers for a regressor, whose K
            outputs share their groups: a group is active in all outputs or in none.
        sample_weight : array of shape (m,), optional
            Weights >= 0 of the samples in the mean loss.
        offset : array of shape (m,), or (m, P) for P outputs, classes or labels, optional
            A known part of the predictions, added to :math:`(X w)_i + b`, such as the logarithm of the exposure with
            the Poisson loss.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is invalid, there is only one class, or groups do not fit the columns.
        """
        self._check()
        self._learn(*self._read(X, y, sample_weight, offset), float(self.alpha))
        return self

    def _check(self) -> None:
        check_parameters(self, self._constraints)
        resolve_loss(self, links=True)
        solver_of(self)
        if self.multiclass == "multinomial" and not has_log_odds(self):
            raise InputError(f'multiclass="multinomial" has its own loss: leave out loss={self.loss!r}.')

    def _read(
        self, X: DesignLike, y: ArrayLike, sample_weight: ArrayLike | None, offset: ArrayLike | None
    ) -> tuple[Samples, ClassDecoder | None]:
        """Check the samples and drop samples of weight 0; X is not copied if it is float32 or float64."""
        several, copies = has_columns(y), None
        if isinstance(X, LinearOperator):
            forget_columns(self)
            self.n_features_in_ = X.shape[1]
            targets = check_array(plain_targets(y), accept_sparse="csr", ensure_2d=False, dtype=None)
            targets = targets if several else column_or_1d(targets, warn=True)
        else:
            X, targets = checked_arrays(
                self,
                X,
                y,
                accept_sparse=("csc", "csr"),
                dtype=(np.float64, np.float32),
                missing=self.missing,
                y_numeric=isinstance(self, RegressorMixin),
                multi_output=several,
            )
        targets = targets.toarray() if sparse.issparse(targets) else targets
        weights, kept = check_sample_weight(sample_weight, len(targets)), None
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
        own = slice(None) if kept is None else kept
        encoded, weights, decoder = encode_targets(self, targets[own], None if weights is None else weights[own])
        design = as_design(X) if kept is None else as_design(X).rows(kept)
        samples = Samples(design, encoded, weights)
        if decoder is None:
            samples.centres = centres_of(encoded[0], resolve_loss(self, links=True), self.fit_intercept)
            samples.targets = [encoded[0] - samples.centres]
        offsets = read_offsets(offset, len(targets), sum(samples.widths))
        if not isinstance(X, LinearOperator):
            copies = identical_samples(X, targets, offsets)
        samples.offsets = None if offsets is None else offsets[:, own]
        samples.copies = None if copies is None else copies[own]
        return samples, decoder

    def _learn(self, samples: Samples, decoder: ClassDecoder | None, alpha: float) -> None:
        """Solve all problems, and set the learned attributes."""
        target = samples.targets[0]
        is_constant = decoder is None and not np.ptp(target, axis=0).any()
        if is_constant and self.fit_intercept and samples.offsets is None:
            self.dual_gap_, self.n_iter_, self.history_ = 0.0, 1, []
            coefficients, intercepts = constant_model(resolve_loss(self, links=True), samples)
        else:
            coefficients, intercepts = self._solve(samples, alpha)
        if decoder is not None:
            self.classes_, self.multilabel_, self.multinomial_ = (
                decoder.classes,
                decoder.multilabel,
                decoder.multinomial,
            )
            self.constant_labels_ = decoder.constant
        alone = decoder is None and target.ndim == 1
        self.coef_ = coefficients[0] if alone else coefficients
        self.intercept_ = float(intercepts[0]) if alone else intercepts

    def _solve(self, samples: Samples, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (P, n) and intercepts (P,) of all problems."""
        solver, problems = solver_of(self), problems_of(self, samples.merged(), alpha)
        starts = self._starts(samples) or [None] * len(problems)
        solutions: list[Solution] = []
        for problem, start in zip(problems, starts):
            with GapProgress(self.verbose, "groups") as progress:
                solutions.append(solver.solve(problem, self.tol, self.max_iter, start, progress))
            warn_unless_converged(solutions[-1], self.tol)
        self.dual_gap_ = max(solution.certificate.gap for solution in solutions)
        self.n_iter_ = max(1, *(solution.n_iter for solution in solutions))
        self.history_ = [
            {"problem": p, **record} for p, solution in enumerate(solutions) for record in solution.history
        ]
        coefficients, intercepts = coefficients_of(solutions, samples)
        if not coefficients.any() and problems[0].threshold > 0:
            largest = max(problem.largest_alpha() for problem in problems)
            if 0 < largest <= alpha:
                warn_caller(
                    f"No column is in the model at alpha={alpha:g}: with these data it must be below {largest:.3g}.",
                    DataWarning,
                )
        return coefficients, intercepts

    def _starts(self, samples: Samples) -> list | None:
        """Return the models of the previous fit if ``warm_start`` and their shapes fit, else None."""
        if not self.warm_start or not self.__sklearn_is_fitted__():
            return None
        known, shape = np.atleast_2d(self.coef_), (sum(samples.widths), samples.design.shape[1])
        known = np.maximum(known, 0.0) if self.positive else known
        return starts_from(known, np.atleast_1d(self.intercept_), samples) if known.shape == shape else None

    def __sklearn_is_fitted__(self) -> bool:
        return "coef_" in self.__dict__

    def path(
        self,
        X: DesignLike,
        y: ArrayLike,
        alphas: int | ArrayLike = 20,
        *,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> list[dict[str, Any]]:
        r"""Solve for a sequence of alphas, each starting from the previous solution.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for :meth:`fit`.
        alphas : int or array of floats > 0
            The values. A number spreads as many values evenly on a log scale, over two decades below
            :math:`\alpha_{\max}`, the smallest alpha at which no column is in the model.

        Returns
        -------
        list of dict
            For each alpha, from the largest: ``alpha``, ``coef`` (n,), ``intercept``, ``dual_gap`` (relative),
            ``objective``, ``active`` (number of groups), ``n_iter``, ``seconds``. For K > 2 classes, or K outputs,
            ``coef`` is (K, n) and ``intercept`` (K,). For several problems ``dual_gap`` and ``n_iter`` are the largest
            values, the rest are sums.
        """
        model = clone(self)
        model._check()
        solver = solver_of(self)
        samples = model._read(X, y, sample_weight, offset)[0].merged()
        problems = problems_of(model, samples, 1.0)
        values = path_values(problems, alphas)
        paths = [list(regularization_path(solver, problem, values, self.tol, self.max_iter)) for problem in problems]
        for path in paths:
            for point in path:
                warn_unless_converged(point.solution, self.tol)
        return [path_record(points, samples) for points in zip(*paths)]

    # ---- prediction ---------------------------------------------------------------------------------------------

    def predict(self, X: DesignLike, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Predict classes, labels or numbers; with the Poisson loss the mean, :math:`e^{(X w)_i + b + o_i}`.

        Parameters
        ----------
        X, offset
            As for :meth:`fit`; the offset is 0 by default.

        Returns
        -------
        array of shape (n,), or (n, K) of K labels or outputs
        """
        outputs = self._outputs(self._checked(X), offset)
        return self._decoder().decode(outputs)

    @available_if(is_a_classifier)
    def decision_function(self, X: DesignLike, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Return the scores of the classes.

        Parameters
        ----------
        X, offset
            As for :meth:`fit`; the offset is 0 by default.

        Returns
        -------
        array of shape (n,) for two classes, positive for ``classes_[1]``; (n, K) for K > 2 classes, or labels
        """
        outputs = self._outputs(self._checked(X), offset)
        return self._decoder().scores(outputs)

    @available_if(is_probabilistic)
    def predict_proba(self, X: DesignLike, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Predict probabilities by the logistic loss; one-vs-rest probabilities are scaled to sum to one.

        Parameters
        ----------
        X, offset
            As for :meth:`fit`; the offset is 0 by default.

        Returns
        -------
        array of shape (n, K) for classes, or (n, L) for L labels
        """
        outputs = self._outputs(self._checked(X), offset)
        return self._decoder().probabilities(outputs)

    def _decoder(self) -> ClassDecoder | NumberDecoder:
        if not is_a_classifier(self):
            return NumberDecoder(resolve_loss(self, links=True))
        return ClassDecoder(self.classes_, self.multilabel_, self.constant_labels_, multinomial=self.multinomial_)

    def _outputs(self, X: DesignLike, offset: ArrayLike | None) -> np.ndarray:
        """Return outputs (n, P) of all problems for checked inputs, from the columns with nonzero coefficients."""
        outputs = predictions_of(as_design(X), np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_))
        known = read_offsets(offset, *outputs.shape)
        return outputs if known is None else outputs + known.T

    def _checked(self, X: DesignLike) -> DesignLike:
        """Check inputs for prediction: an array, a sparse matrix or a ``LinearOperator``."""
        check_is_fitted(self)
        if not isinstance(X, LinearOperator):
            dtypes = np.float64, np.float32
            return checked_arrays(
                self, X, missing=self.missing, reset=False, accept_sparse=("csc", "csr"), dtype=dtypes
            )
        if X.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features."
            )
        return X

    explain = explain_columns

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.allow_nan = True, self.missing == "indicator"
        tags.target_tags.multi_output = isinstance(self, RegressorMixin) or self._takes_labels
        return tags

    @property
    def _takes_labels(self) -> bool:
        """True if a classifier with these parameters supports labels in columns."""
        return self.class_weight is None and self.multiclass != "multinomial"

    def _saved_parameters(self) -> dict[str, Any]:
        return without_splitters(super()._saved_parameters())


def score_with_offset(
    model: SparseLinear,
    X: DesignLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    offset: ArrayLike | None = None,
) -> float:
    r"""Return the accuracy of a classifier, in [0, 1], or :math:`R^2 \le 1` of a regressor, averaged over outputs.

    Parameters
    ----------
    X, y, sample_weight, offset
        As for :meth:`fit`; the offset is 0 by default.
    """
    from sklearn.metrics import accuracy_score, r2_score

    metric = accuracy_score if is_a_classifier(model) else r2_score
    return float(metric(y, model.predict(X, offset=offset), sample_weight=sample_weight))
