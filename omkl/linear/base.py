"""Base class of the sparse linear models: from a design and targets to certified coefficients."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if

from omkl._components import warn_caller
from omkl._messages import listed
from omkl.batch.group_lasso.blocks import column_labels
from omkl.batch.group_lasso.matrices import DesignLike, as_design
from omkl.batch.group_lasso.problem import LinearModel
from omkl.batch.solver import DesignSolver, Solution, regularization_path
from omkl.batch.weighted_loss import WeightedLoss
from omkl.estimators import batch, validation
from omkl.estimators.explanations import CONSTANT, Explanation, explanation, name_of_column, one_row
from omkl.estimators.persistence import SavedEstimator, check_is_fitted
from omkl.exceptions import DataWarning, InputError
from omkl.groups.base import Contributions, Piece
from omkl.linear import problems
from omkl.linear.problems import ACCEPTED, Groups, Samples
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


@dataclass(kw_only=True, eq=False, repr=False)
class SparseLinear(SavedEstimator, BaseEstimator):
    """Base class of linear models that select columns or groups of them.

    Its fields are shared parameters, described in :class:`GroupLasso`. Subclasses are dataclasses
    with more fields, classifiers or regressors, and either have an ``alpha`` or choose it.
    """

    groups: Groups = None
    loss: str | PointwiseLoss
    regularizer: str | Regularizer = "group-lasso"
    group_weights: str | ArrayLike | dict | None = None
    solver: str | DesignSolver = "dal"
    tol: float = 1e-3
    max_iter: int | None = None
    fit_intercept: bool = True
    positive: bool = False
    missing: str = "indicator"
    verbose: bool = False
    # parameters of some subclasses
    alpha: float = field(default=1.0, init=False)
    class_weight: str | dict | None = field(default=None, init=False)
    multiclass: str = field(default="ovr", init=False)
    warm_start: bool = field(default=False, init=False)

    _constraints: ClassVar[dict[str, validation.Constraint]] = {
        **batch.CONSTRAINTS,
        "alpha": validation.Number(above=0),
        "multiclass": validation.OneOf(("ovr", "multinomial")),
        "missing": validation.OneOf(validation.MISSING_RULES),
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
        "column_kinds_",
        "column_means_",
        "missing_columns_",
    )
    _progress = "iteration"
    report_sections = ("weights", "coefficients")

    # ---- training --------------------------------------------------------------------------------

    def fit(
        self,
        X: DesignLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        X : array of shape (m, n), sparse matrix or scipy ``LinearOperator``
            A column of text or categories in a data frame becomes columns of 0 and 1, one group
            (``categories_``). Never copied if it is float32 or float64, in C or Fortran order, CSC
            or CSR.
        y : array of shape (m,), or (m, K)
            Classes, or 0/1 indicators of K labels, any number of which may be 1. Numbers for a
            regressor, whose K outputs share their groups: a group is active in all outputs or in
            none.
        sample_weight : array of shape (m,), optional
            Weights >= 0 of the samples in the mean loss.
        offset : array of shape (m,), or (m, P) for P outputs, classes or labels, optional
            A known part of the predictions, added to :math:`(X w)_i + b`, such as the logarithm of
            the exposure with the Poisson loss.

        Returns
        -------
        self : SparseLinear
            With the model and the duality gap that proves it.

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is invalid, there is only one class, or groups do not fit the columns.
        """
        self._check()
        with validation.restoring_columns(self):
            samples, decoder = problems.read_samples(self, X, y, sample_weight, offset)
            self._learn(samples, decoder, float(self.alpha))
        return self

    def _check(self) -> None:
        validation.check_parameters(self, self._constraints)
        batch.resolve_loss(self)
        problems.solver_of(self)
        if self.multiclass == "multinomial" and not batch.has_log_odds(self):
            raise InputError(
                f'multiclass="multinomial" has its own loss: leave out loss={self.loss!r}.'
            )

    def _learn(self, samples: Samples, decoder: batch.ClassDecoder | None, alpha: float) -> None:
        """Solve all problems, and set the learned attributes."""
        target = samples.targets[0]
        is_constant = decoder is None and not np.ptp(target, axis=0).any()
        if is_constant and self.fit_intercept and samples.offsets is None:
            coefficients, intercepts = self._constant_model(samples)
        else:
            coefficients, intercepts = self._solve(samples, alpha)
        if decoder is not None:
            self.classes_ = decoder.classes
            self.constant_labels_ = decoder.constant
            self.multilabel_ = decoder.multilabel
            self.multinomial_ = decoder.multinomial
        self.coef_ = coefficients
        self.intercept_: float | np.ndarray = intercepts
        if decoder is None and target.ndim == 1:
            self.coef_ = coefficients[0]
            self.intercept_ = float(intercepts[0])

    def _constant_model(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (P, n) and intercepts (P,) for constant targets.

        No problem is solved, since a loss of 0 has no relative gap.
        """
        self.dual_gap_ = 0.0
        self.n_iter_ = 1
        self.history_ = []
        loss = batch.resolve_loss(self)
        n_samples, n_columns = samples.design.shape
        targets = samples.targets[0] + samples.centres
        levels = targets.reshape(n_samples, -1)[0]
        intercepts = levels.copy()
        if loss.has_link:
            for p, level in enumerate(levels):
                weighted = WeightedLoss(loss, np.full(n_samples, level), np.ones(n_samples))
                intercepts[p] = weighted.best_intercept(np.zeros(n_samples))
        warn_caller(
            f"y is constant, and so is the model: {listed(levels.tolist(), 5)}.", DataWarning
        )
        return np.zeros((len(levels), n_columns)), intercepts

    def _solve(self, samples: Samples, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (P, n) and intercepts (P,) of all problems."""
        solver = problems.solver_of(self)
        designs = samples.merged().problems(self, alpha)
        starts = self._starts(samples) or [None] * len(designs)
        solutions: list[Solution] = []
        self.history_ = []
        for p, (problem, start) in enumerate(zip(designs, starts)):
            with batch.gap_progress(self.verbose, "groups") as progress:
                solution = solver.solve(problem, self.tol, self.max_iter, start, progress)
            problems.warn_unless_converged(solution, self.tol)
            solutions.append(solution)
            self.history_ += [{"problem": p, **record} for record in solution.history]
        self.dual_gap_ = max(solution.certificate.gap for solution in solutions)
        self.n_iter_ = max(1, *(solution.n_iter for solution in solutions))
        coefficients, intercepts = samples.coefficients(solutions)
        if not coefficients.any() and designs[0].threshold > 0:
            largest = max(problem.largest_alpha() for problem in designs)
            if 0 < largest <= alpha:
                warn_caller(
                    f"No column is in the model at alpha={alpha:g}: with these data it must be "
                    f"below {largest:.3g}.",
                    DataWarning,
                )
        return coefficients, intercepts

    def _starts(self, samples: Samples) -> list | None:
        """Return the models of the previous fit with ``warm_start``, None if shapes differ."""
        if not self.warm_start or not self.__sklearn_is_fitted__():
            return None
        coefficients = np.atleast_2d(self.coef_)
        if coefficients.shape != (sum(samples.widths), samples.design.shape[1]):
            return None
        if self.positive:
            coefficients = np.maximum(coefficients, 0.0)
        intercepts = np.atleast_1d(self.intercept_) - samples.centres
        models = []
        first = 0
        for width in samples.widths:
            outputs = slice(first, first + width)
            weights = coefficients[outputs].T.ravel()
            intercept = intercepts[outputs] if width > 1 else float(intercepts[first])
            models.append(LinearModel(np.flatnonzero(weights), weights[weights != 0], intercept))
            first += width
        return models

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
            The values. A number spreads as many values evenly on a log scale, over two decades
            below :math:`\alpha_{\max}`, the smallest alpha at which no column is in the model.

        Returns
        -------
        list of dict
            For each alpha, from the largest: ``alpha``, ``coef`` (n,), ``intercept``, ``dual_gap``
            (relative), ``objective``, ``active`` (number of groups), ``n_iter``, ``seconds``. For K
            > 2 classes, or K outputs, ``coef`` is (K, n) and ``intercept`` (K,). For several
            problems ``dual_gap`` and ``n_iter`` are the largest values, the rest are sums.
        """
        model = clone(self)
        model._check()
        samples, _ = problems.read_samples(model, X, y, sample_weight, offset)
        samples = samples.merged()
        designs = samples.problems(model, 1.0)
        solver = problems.solver_of(self)
        values = problems.path_values(designs, alphas)
        paths = []
        for problem in designs:
            path = list(regularization_path(solver, problem, values, self.tol, self.max_iter))
            for point in path:
                problems.warn_unless_converged(point.solution, self.tol)
            paths.append(path)
        return [samples.path_record(points) for points in zip(*paths)]

    # ---- prediction ------------------------------------------------------------------------------

    def predict(self, X: DesignLike, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Predict classes, labels or numbers.

        With the Poisson loss, they are means, :math:`e^{(X w)_i + b + o_i}`.

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

    @available_if(batch.is_a_classifier)
    def decision_function(self, X: DesignLike, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Return the scores of the classes.

        Parameters
        ----------
        X, offset
            As for :meth:`fit`; the offset is 0 by default.

        Returns
        -------
        array of shape (n,) for two classes, positive for ``classes_[1]``; (n, K) for K > 2 classes,
        or labels
        """
        outputs = self._outputs(self._checked(X), offset)
        return self._decoder().scores(outputs)

    @available_if(batch.is_probabilistic)
    def predict_proba(self, X: DesignLike, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Predict probabilities by the logistic loss.

        One-vs-rest probabilities are scaled to sum to one.

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

    def _decoder(self) -> batch.ClassDecoder | batch.NumberDecoder:
        if not batch.is_a_classifier(self):
            return batch.NumberDecoder(batch.resolve_loss(self))
        return batch.ClassDecoder(
            self.classes_, self.multilabel_, self.constant_labels_, multinomial=self.multinomial_
        )

    def _outputs(self, X: DesignLike, offset: ArrayLike | None) -> np.ndarray:
        """Return outputs (n, P) of all problems for checked inputs."""
        coefficients = np.atleast_2d(self.coef_)
        intercepts = np.atleast_1d(self.intercept_)
        outputs = problems.predictions_of(as_design(X), coefficients, intercepts)
        offsets = problems.read_offsets(offset, *outputs.shape)
        return outputs if offsets is None else outputs + offsets.T

    def _checked(self, X: DesignLike) -> DesignLike:
        """Check inputs for prediction: an array, a sparse matrix or a ``LinearOperator``."""
        check_is_fitted(self)
        if not isinstance(X, LinearOperator):
            return validation.checked_arrays(self, X, missing=self.missing, reset=False, **ACCEPTED)
        if X.shape[1] != self.n_features_in_:
            name = type(self).__name__
            raise InputError(
                f"X has {X.shape[1]} features, "
                f"but {name} is expecting {self.n_features_in_} features."
            )
        return X

    def explain(
        self,
        x: DesignLike,
        *,
        label: Hashable = None,
        against: Hashable = None,
        target: int = 0,
        offset: ArrayLike | None = None,
        n: int = 20,
    ) -> Explanation:
        """Explain the prediction of one sample by the contributions of its columns.

        For a classifier, the contributions add up to the margin, the difference of the scores of
        two classes.

        Parameters
        ----------
        x : array of shape (d,), or an input of :meth:`predict` with one sample
        label, against : class, optional
            The class to explain, by default the predicted one, and the class to compare it with, by
            default the best of the others. Not for a regressor or for labels in columns.
        target : int
            Index of the output of a regressor, or of the label.
        offset : float or array, optional
            Offset of the sample, as for :meth:`predict`.
        n : int > 0
            Number of strongest columns to list.

        Returns
        -------
        omkl.Explanation
            The groups include ``intercept`` and, if given, ``offset``. With the Poisson loss the
            ``margin`` is the logarithm of the predicted mean.

        Raises
        ------
        omkl.exceptions.InputError
            If the sample does not fit the model, or a class or target is unknown.
        """
        X = self._checked(one_row(x))
        if offset is not None:
            offset = np.atleast_1d(np.asarray(offset, dtype=np.float64))
            if len(offset) != 1:  # one for each output
                offset = offset[None]
        outputs = self._outputs(X, offset)
        if len(outputs) != 1:
            raise InputError(
                f"explain takes one sample, but got {len(outputs)}: call it for each sample."
            )
        contrast = batch.contrast(self._decoder(), outputs[0], label, against, target)
        pieces = self._pieces(sparse.coo_array(X), contrast.weights)
        groups = dict[str, float]()
        for piece in pieces:
            groups[piece.group] = groups.get(piece.group, 0.0) + piece.value
        groups[CONSTANT] = float(contrast.weights @ np.atleast_1d(self.intercept_))
        if offset is not None:
            groups["offset"] = float(contrast.weights @ np.broadcast_to(offset, outputs.shape)[0])
        names = validation.encoded_columns(self)

        def names_of(pieces: list[Piece]) -> list[str]:
            return [name_of_column(names, piece.key) for piece in pieces]

        return explanation(
            contrast.output,
            contrast.against,
            contrast.summary,
            float(contrast.weights @ outputs[0]),
            Contributions(groups, pieces),
            n,
            names_of,
        )

    def _pieces(self, row: sparse.coo_array, weights: np.ndarray) -> list[Piece]:
        """Return what each column of a row (1, n) adds to ``weights @ outputs``, weights (P,)."""
        columns = row.coords[1]
        adds = (weights @ np.atleast_2d(self.coef_)[:, columns]) * row.data
        groups = batch.groups_of(self)
        labels = column_labels(groups.groups, np.shape(self.coef_)[-1])
        texts = groups.texts(int(labels.max()) + 1)
        pieces = []
        for j, value in zip(columns.tolist(), adds.tolist()):
            if value != 0:
                pieces.append(Piece("feature", texts[labels[j]], j, None, value))
        return pieces

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "indicator"
        tags.target_tags.multi_output = isinstance(self, RegressorMixin) or self._takes_labels
        return tags

    @property
    def _takes_labels(self) -> bool:
        """True if a classifier with these parameters supports labels in columns."""
        return self.class_weight is None and self.multiclass != "multinomial"


class SparseRegressor(RegressorMixin, SparseLinear):
    """Base class of the regressors."""

    def score(
        self,
        X: DesignLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        offset: ArrayLike | None = None,
    ) -> float:
        r"""Return :math:`R^2 \le 1`, averaged over outputs.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for :meth:`fit`; the offset is 0 by default.
        """
        from sklearn.metrics import r2_score

        outputs = self.predict(X, offset=offset)
        return float(r2_score(y, outputs, sample_weight=sample_weight))


class SparseClassifier(ClassifierMixin, SparseLinear):
    """Base class of the classifiers."""

    def score(
        self,
        X: DesignLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        offset: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy, in [0, 1].

        Parameters
        ----------
        X, y, sample_weight, offset
            As for :meth:`fit`; the offset is 0 by default.
        """
        from sklearn.metrics import accuracy_score

        labels = self.predict(X, offset=offset)
        return float(accuracy_score(y, labels, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._takes_labels
        # with standardized columns, alpha=1 leaves no column in the model
        tags.classifier_tags.poor_score = True
        return tags


def group_norms(coefficients: np.ndarray, named: batch.ColumnNames) -> dict[str, np.ndarray]:
    """Return the norms (n,) of the coefficients (n, K, d) of each group of columns, by name."""
    squares = np.square(coefficients).sum(axis=1)
    labels = column_labels(named.groups, squares.shape[1])
    squares = np.array([np.bincount(labels, row) for row in squares])
    return dict(zip(named.texts(squares.shape[1]), np.sqrt(squares).T, strict=True))
