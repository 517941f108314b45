"""Base class of the sparse linear models: from a design and targets to certified coefficients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if

from omkl._components import warn_caller
from omkl._messages import listed
from omkl.batch.group_lasso.blocks import column_labels
from omkl.batch.group_lasso.matrices import as_design
from omkl.batch.group_lasso.problem import LinearModel
from omkl.batch.solver import DesignSolver, Solution, regularization_path
from omkl.batch.weighted_loss import WeightedLoss
from omkl.estimators import batch, validation
from omkl.estimators.explanations import CONSTANT, Explanation, explanation, name_of_column, one_row
from omkl.estimators.persistence import SavedEstimator, check_is_fitted
from omkl.exceptions import DataWarning, InputError
from omkl.groups.base import Contributions, Piece
from omkl.linear import problems
from omkl.linear.problems import ACCEPTED, DesignLike, Groups, Samples
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
        *(
            "n_features_in_",
            "classes_",
            "multilabel_",
            "multinomial_",
            "constant_labels_",
            "coef_",
            "intercept_",
        ),
        *(
            "dual_gap_",
            "n_iter_",
            "history_",
            "alpha_",
            "alphas_",
            "scores_",
            "cv_results_",
            "categories_",
        ),
        *("column_kinds_", "column_means_", "missing_columns_"),
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
        self._learn(*problems.read_samples(self, X, y, sample_weight, offset), float(self.alpha))
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
            self.dual_gap_, self.n_iter_, self.history_ = 0.0, 1, []
            # the loss may be 0, so that no relative gap exists
            loss, targets = (
                batch.resolve_loss(self),
                (target + samples.centres).reshape(len(target), -1).T,
            )
            ones, zeros = np.ones(len(target)), np.zeros(len(target))
            fits = [
                WeightedLoss(loss, y, ones).best_intercept(zeros) if loss.has_link else y[0]
                for y in targets
            ]
            coefficients, intercepts = (
                np.zeros((len(targets), samples.design.shape[1])),
                np.array(fits),
            )
            warn_caller(
                f"y is constant, and so is the model: {listed(targets[:, 0].tolist(), 5)}.",
                DataWarning,
            )
        else:
            coefficients, intercepts = self._solve(samples, alpha)
        if decoder is not None:
            self.classes_, self.constant_labels_ = decoder.classes, decoder.constant
            self.multilabel_, self.multinomial_ = decoder.multilabel, decoder.multinomial
        alone = decoder is None and target.ndim == 1
        self.coef_ = coefficients[0] if alone else coefficients
        self.intercept_ = float(intercepts[0]) if alone else intercepts

    def _solve(self, samples: Samples, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients (P, n) and intercepts (P,) of all problems."""
        solver, own = problems.solver_of(self), samples.merged().problems(self, alpha)
        starts = self._starts(samples) or [None] * len(own)
        solutions: list[Solution] = []
        for problem, start in zip(own, starts):
            with batch.gap_progress(self.verbose, "groups") as progress:
                solutions.append(solver.solve(problem, self.tol, self.max_iter, start, progress))
            problems.warn_unless_converged(solutions[-1], self.tol)
        self.dual_gap_ = max(solution.certificate.gap for solution in solutions)
        self.n_iter_ = max(1, *(solution.n_iter for solution in solutions))
        self.history_ = [
            {"problem": p, **record}
            for p, found in enumerate(solutions)
            for record in found.history
        ]
        coefficients, intercepts = samples.coefficients(solutions)
        if not coefficients.any() and own[0].threshold > 0:
            largest = max(problem.largest_alpha() for problem in own)
            if 0 < largest <= alpha:
                found = f"No column is in the model at alpha={alpha:g}"
                warn_caller(
                    f"{found}: with these data it must be below {largest:.3g}.", DataWarning
                )
        return coefficients, intercepts

    def _starts(self, samples: Samples) -> list | None:
        """Return the models of the previous fit if ``warm_start`` and their shapes fit, else None."""
        if not self.warm_start or not self.__sklearn_is_fitted__():
            return None
        known, shape = np.atleast_2d(self.coef_), (sum(samples.widths), samples.design.shape[1])
        if known.shape != shape:
            return None
        models, known = [], np.maximum(known, 0.0) if self.positive else known
        intercepts = np.atleast_1d(self.intercept_) - samples.centres
        for last, width in zip(np.cumsum(samples.widths), samples.widths):
            w, b = known[last - width : last].T.ravel(), intercepts[last - width : last]
            models.append(
                LinearModel(np.flatnonzero(w), w[w != 0], b if width > 1 else float(b[0]))
            )
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
            below
            :math:`\alpha_{\max}`, the smallest alpha at which no column is in the model.

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
        samples = problems.read_samples(model, X, y, sample_weight, offset)[0].merged()
        own, solver = samples.problems(model, 1.0), problems.solver_of(self)
        values = problems.path_values(own, alphas)
        paths = [
            list(regularization_path(solver, problem, values, self.tol, self.max_iter))
            for problem in own
        ]
        for path in paths:
            for point in path:
                problems.warn_unless_converged(point.solution, self.tol)
        return [samples.path_record(points) for points in zip(*paths)]

    # ---- prediction ------------------------------------------------------------------------------

    def predict(self, X: DesignLike, *, offset: ArrayLike | None = None) -> np.ndarray:
        """Predict classes, labels or numbers; with the Poisson loss the mean, :math:`e^{(X w)_i + b
        + o_i}`.

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
        """Predict probabilities by the logistic loss; one-vs-rest probabilities are scaled to sum
        to one.

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
        """Return outputs (n, P) of all problems for checked inputs, from the columns with nonzero
        coefficients.
        """
        outputs = problems.predictions_of(
            as_design(X), np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        )
        known = problems.read_offsets(offset, *outputs.shape)
        return outputs if known is None else outputs + known.T

    def _checked(self, X: DesignLike) -> DesignLike:
        """Check inputs for prediction: an array, a sparse matrix or a ``LinearOperator``."""
        check_is_fitted(self)
        if not isinstance(X, LinearOperator):
            return validation.checked_arrays(self, X, missing=self.missing, reset=False, **ACCEPTED)
        if X.shape[1] != self.n_features_in_:
            name = type(self).__name__
            raise InputError(
                f"X has {X.shape[1]} features, but {name} is expecting {self.n_features_in_} features."
            )
        return X

    def explain(
        self,
        x: DesignLike,
        *,
        label: object = None,
        against: object = None,
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
        known = None if offset is None else np.atleast_1d(np.asarray(offset, dtype=np.float64))
        outputs = self._outputs(X, known if known is None or len(known) == 1 else known[None])
        if len(outputs) != 1:
            raise InputError(
                f"explain takes one sample, but got {len(outputs)}: call it for each sample."
            )
        chosen = batch.contrast(self._decoder(), outputs[0], label, against, target)
        if isinstance(X, LinearOperator):
            raise InputError(f"explain takes a row of numbers, not {type(X).__name__}.")
        row = sparse.coo_array(X)
        columns, values = row.coords[1], row.data
        added = (chosen.weights @ np.atleast_2d(self.coef_)[:, columns]) * values
        columns, added = columns[added != 0], added[added != 0]
        members = batch.groups_of(self)
        labels, names = (
            column_labels(members.groups, np.shape(self.coef_)[-1]),
            validation.encoded_columns(self),
        )
        if labels is None:
            owners = [name_of_column(validation.source_columns(self), j) for j in columns.tolist()]
        else:
            known_groups = members.texts(int(labels.max()) + 1)
            owners = [known_groups[k] for k in labels[columns].tolist()]
        groups = dict[str, float]()
        for name, value in zip(owners, added.tolist()):
            groups[name] = groups.get(name, 0.0) + value
        groups[CONSTANT] = float(chosen.weights @ np.atleast_1d(self.intercept_))
        if known is not None:
            groups["offset"] = float(chosen.weights @ np.broadcast_to(known, len(chosen.weights)))
        pieces = [
            Piece("feature", name, j, None, v)
            for name, j, v in zip(owners, columns.tolist(), added.tolist())
        ]

        def named(pieces: list[Piece]) -> list[str]:
            return [name_of_column(names, piece.key) for piece in pieces]

        margin = float(chosen.weights @ outputs[0])
        return explanation(*chosen[1:], margin, Contributions(groups, pieces), n, named)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.allow_nan = True, self.missing == "indicator"
        tags.target_tags.multi_output = isinstance(self, RegressorMixin) or self._takes_labels
        return tags

    @property
    def _takes_labels(self) -> bool:
        """True if a classifier with these parameters supports labels in columns."""
        return self.class_weight is None and self.multiclass != "multinomial"


def score_with_offset(
    model: SparseLinear,
    X: DesignLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    offset: ArrayLike | None = None,
) -> float:
    r"""Return the accuracy of a classifier, in [0, 1], or :math:`R^2 \le 1` of a regressor,
    averaged over outputs.

    Parameters
    ----------
    X, y, sample_weight, offset
        As for :meth:`fit`; the offset is 0 by default.
    """
    from sklearn.metrics import accuracy_score, r2_score

    metric = accuracy_score if batch.is_a_classifier(model) else r2_score
    return float(metric(y, model.predict(X, offset=offset), sample_weight=sample_weight))


def group_norms(coefficients: np.ndarray, named: batch.ColumnNames) -> dict[str, np.ndarray]:
    """Return the norm of the coefficients (n, K, d) of each group of columns, as arrays (n,) by
    name.
    """
    squares = np.square(coefficients).sum(axis=1)
    members = column_labels(named.groups, squares.shape[1])
    if members is not None:
        squares = np.array([np.bincount(members, row) for row in squares])
    return dict(zip(named.texts(squares.shape[1]), np.sqrt(squares).T, strict=True))
