"""GroupLassoCV and SparseLogisticRegressionCV: alpha chosen by cross-validation along warm-started paths."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.parallel import Parallel, delayed

from omkl._components import check_n_jobs
from omkl.batch import regularization_path
from omkl.data.rows import plain_targets
from omkl.estimators.certified import unchanged_if_refused
from omkl.estimators.design import GroupLasso, Groups, SparseLogisticRegression
from omkl.estimators.folds import NEVER, FoldedSearch, OfOutputs
from omkl.estimators.outputs import check_sample_weight, has_columns
from omkl.estimators.sparse_linear import Samples, SparseLinear, n_outputs_of, predictions_of, rows_of
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

#: Parameters of cross-validation, which the estimator of a single alpha does not have.
SEARCH = ("alphas", "cv", "scoring", "n_jobs")


class _ClassifierOfOutputs(OfOutputs, SparseLogisticRegression):
    pass


class _RegressorOfOutputs(OfOutputs, GroupLasso):
    pass


class CrossValidatedSparseLinear(FoldedSearch, SparseLinear):
    """What the two estimators share: paths over folds of rows, scores, and the choice of alpha."""

    _tradeoff = "_chosen"
    _plain_attributes = (
        *SparseLinear._plain_attributes,
        "multilabel_",
        "multinomial_",
        "constant_labels_",
        "alpha_",
        "alphas_",
        "scores_",
        "cv_results_",
    )
    #: The estimator of a single alpha, of outputs.
    _of_outputs: type[SparseLinear]

    @property
    def _chosen(self) -> float:
        return getattr(self, "alpha_", 1.0)

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, sample_groups: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Choose alpha, and learn the coefficients from all samples.

        Parameters
        ----------
        X, y, offset
            As for the ``fit`` of the estimator of a single alpha, :class:`GroupLasso` or
            :class:`SparseLogisticRegression`.
        sample_weight : array of shape (m,), optional
            Weights >= 0 of the samples in the mean loss, and of held-out samples in scores.
        sample_groups : array of shape (m,), optional
            What splitters as scikit-learn's ``GroupKFold`` keep together.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            As for a single alpha; and if alphas are no values, cv does not cut the samples into folds or leaves one
            empty, or scoring is no score, or has none in any fold.
        """
        with unchanged_if_refused(self):
            if hasattr(self, "alpha_"):
                del self.alpha_
            self._resolve()
            samples, y = self._read(X, y, sample_weight, offset), plain_targets(y)
            y = y.toarray() if sparse.issparse(y) else np.asarray(y)
            y = y if has_columns(y) else y.ravel()
            own = check_sample_weight(sample_weight, len(y))
            folds, scorer = self._folds(y, sample_weight, sample_groups), self._scorer()
            kept = np.flatnonzero(np.ones(len(y)) if own is None else own)
            scored_weights = None if own is None else own[kept]
            truth = y[kept] if isinstance(self, ClassifierMixin) else samples.targets[0]
            alphas = self._path_values(self._problems(samples.merged()), self.alphas)
            results = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(self._fold)(samples, truth, scored_weights, alphas, scorer, *fold) for fold in folds
            )
            self._choose("alpha", alphas, results)
            self._learn(samples)
            self._warn_of_folds("alpha", results)
        return self

    def _resolve(self) -> Any:
        check_n_jobs(self.n_jobs)
        return super()._resolve()

    def _fold(
        self, samples: Samples, y: np.ndarray, scored_weights: np.ndarray | None, alphas: np.ndarray, scorer: Callable,
        train: np.ndarray, test: np.ndarray,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Scores (n_alphas,) of one fold, numbers of active groups, and duality gaps."""
        n_outputs = sum(map(n_outputs_of, samples.targets))
        outputs = np.zeros((len(alphas), len(test), n_outputs))
        if samples.offsets is not None:
            outputs += samples.offsets[:, test].T
        active, gaps = np.zeros(len(alphas)), np.zeros(len(alphas))
        solver: Any = super()._resolve()[2]
        rows = samples.rows(train).merged()
        for p, known in enumerate(rows.targets):
            if isinstance(self, ClassifierMixin) and known.ndim == 1 and np.all(known == known[0]):
                outputs[:, :, p] = -NEVER if known[0] > 0 else NEVER
                continue
            own = slice(p, p + n_outputs_of(known))
            alone = Samples(rows.design, [known], rows.weights, None if rows.offsets is None else rows.offsets[own])
            path: Any = regularization_path(solver, self._problems(alone)[0], alphas, self.tol, self.max_iter)
            for a, point in enumerate(path):
                certificate, learned = point.solution.certificate, rows_of(point.solution, rows.design.shape[1])
                outputs[a, :, own] += predictions_of(samples.design, *learned)[test]
                active[a] += np.count_nonzero(certificate.norms)
                gaps[a] = max(gaps[a], abs(certificate.gap))
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in SEARCH}
        options = {} if scored_weights is None else {"sample_weight": scored_weights[test]}
        scores = self._score_outputs(self._of_outputs(**parameters), scorer, outputs, y[test], options)
        return {"scores": scores, "active": active, "gaps": gaps}


class GroupLassoCV(CrossValidatedSparseLinear, GroupLasso):
    r"""Lasso, group lasso and elastic net whose alpha is chosen by cross-validation.

    In each fold one path of alpha is solved, every problem from the solution before. No rows of the design are copied.

    Parameters
    ----------
    alphas : int or array of floats > 0
        Values of alpha; a number of them is spread evenly in the logarithm over two decades below the smallest alpha at
        which no column is in the model of all samples.
    groups, loss, regularizer, group_weights, solver, tol, max_iter, fit_intercept, positive, verbose
        As for :class:`GroupLasso`.
    cv : int, splitter, iterable of (train, test) or None
        As in scikit-learn; a number, and None for 5, are consecutive folds.
    scoring : str, callable or None
        As in scikit-learn; None is :math:`R^2`. A callable's ``X`` stands for held-out samples: only the estimator that
        it is called with reads it.
    n_jobs : int, optional
        Folds solved at once, in threads; -1 for as many as there are processors.

    Attributes
    ----------
    alpha_ : float
        The value of the best mean score, the largest of several.
    alphas_ : array of shape (n_alphas,)
        In decreasing order.
    scores_ : array of shape (n_folds, n_alphas)
    cv_results_ : list of dict
        A flat record for each alpha: ``alpha``, ``mean_score``, ``std_score``, ``active`` (mean number of groups), and
        ``dual_gap`` (the largest of the folds).
    coef_, intercept_, dual_gap_, n_iter_, history_, n_features_in_
        As for :class:`GroupLasso`, of the model of all samples at ``alpha_``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 9))
    >>> y = X[:, 3] - X[:, 4] + 0.1 * rng.normal(size=60)
    >>> model = GroupLassoCV(groups=[[0, 1, 2], [3, 4, 5], [6, 7, 8]], cv=3).fit(X, y)
    >>> bool(model.alpha_ < model.alphas_[0]), bool(np.abs(model.coef_[3]) > 0.9)
    (True, True)
    """

    _of_outputs = _RegressorOfOutputs

    def __init__(
        self, alphas: int | ArrayLike = 20, *, groups: Groups = None, cv: Any = None, scoring: Any = None,
        n_jobs: int | None = None, loss: str | PointwiseLoss = "squared",
        regularizer: str | Regularizer = "group-lasso", group_weights: str | ArrayLike | dict | None = None,
        solver: Any = "dal", tol: float = 1e-3, max_iter: int | None = None, fit_intercept: bool = True,
        positive: bool = False, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.alphas = alphas
        self.groups = groups
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.loss = loss
        self.regularizer = regularizer
        self.group_weights = group_weights
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.verbose = verbose


class SparseLogisticRegressionCV(CrossValidatedSparseLinear, SparseLogisticRegression):
    """Classifier that selects columns or groups of them, whose alpha is chosen by cross-validation.

    Parameters
    ----------
    alphas, cv, scoring, n_jobs
        As for :class:`GroupLassoCV`; folds are stratified, and None for ``scoring`` is accuracy.
    groups, loss, regularizer, group_weights, multiclass, class_weight, solver, tol, max_iter, fit_intercept, \
positive, verbose
        As for :class:`SparseLogisticRegression`; "balanced" class weights are those of all samples.

    Attributes
    ----------
    alpha_, alphas_, scores_, cv_results_
        As for :class:`GroupLassoCV`. A class that a fold's training part lacks is never predicted in it; a score that
        is undefined is NaN, and the fold is left out of means.
    classes_, coef_, intercept_, dual_gap_, n_iter_, history_, n_features_in_
        As for :class:`SparseLogisticRegression`, of the model of all samples at ``alpha_``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SparseLogisticRegressionCV(5, cv=3).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> bool(model.scores_.mean(axis=0).max() > 0.95), len(model.cv_results_)
    (True, 5)
    """

    _of_outputs = _ClassifierOfOutputs

    def __init__(
        self, alphas: int | ArrayLike = 20, *, groups: Groups = None, cv: Any = None, scoring: Any = None,
        n_jobs: int | None = None, loss: str | PointwiseLoss = "logistic",
        regularizer: str | Regularizer = "group-lasso", group_weights: str | ArrayLike | dict | None = None,
        multiclass: str = "ovr", class_weight: str | dict | None = None,
        solver: Any = "dal", tol: float = 1e-3, max_iter: int | None = None,
        fit_intercept: bool = True, positive: bool = False, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.alphas = alphas
        self.groups = groups
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.loss = loss
        self.regularizer = regularizer
        self.group_weights = group_weights
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.verbose = verbose
