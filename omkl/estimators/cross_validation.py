"""MKLClassifierCV and MKLRegressorCV: C chosen by cross-validation along warm-started paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.parallel import Parallel, delayed

from omkl.batch import Solution
from omkl.data.rows import plain_targets
from omkl.estimators.certified import unchanged_if_refused
from omkl.estimators.folds import NEVER, FoldedSearch, OfOutputs
from omkl.estimators.kernel_paths import KernelPaths, path_values
from omkl.estimators.mkl import MKLClassifier, MKLRegressor
from omkl.estimators.outputs import has_columns
from omkl.estimators.stored_kernels import StoredKernels, in_precision, informative, of_each_output, target_columns

#: Parameters of cross-validation, which the estimator of a single C does not have.
SEARCH = ("Cs", "cv", "scoring", "n_jobs")


class _ClassifierOfOutputs(OfOutputs, MKLClassifier):
    def _learned_pairs(self):
        return self.multiclass == "ovo"


class _RegressorOfOutputs(OfOutputs, MKLRegressor):
    pass


class CrossValidatedMKL(FoldedSearch, KernelPaths):
    """What the two estimators share: paths over folds of stored kernels, scores, and the choice of C."""

    _tradeoff = "_strength"
    _plain_attributes = (*KernelPaths._plain_attributes, "C_", "Cs_", "scores_", "cv_results_")
    #: The estimator of a single C, and the same of outputs.
    _single: type[KernelPaths]
    _of_outputs: type[KernelPaths]

    def __init__(
        self, kernels: Any, Cs: Any, cv: Any, scoring: Any, n_jobs: int | None, loss: Any, regularizer: Any,
        solver: Any, tol: float, max_iter: int | None, fit_intercept: bool, dtype: Any, approximate: Any,
        weighting: str, verbose: bool,
    ) -> None:  # fmt: skip
        self.kernels = kernels
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.loss = loss
        self.regularizer = regularizer
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.dtype = dtype
        self.approximate = approximate
        self.weighting = weighting
        self.verbose = verbose

    @property
    def _strength(self) -> float:
        return getattr(self, "C_", 1.0)

    def _at(self, C: float, of_outputs: bool = False) -> KernelPaths:
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in SEARCH}
        return clone((self._of_outputs if of_outputs else self._single)(**parameters, C=C))

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: Any = None, client: Any = None
    ) -> Self:
        """Choose C, and learn kernels and the model of all samples.

        Parameters
        ----------
        X, y, client
            As for the ``fit`` of the estimator of a single C, :class:`MKLClassifier` or :class:`MKLRegressor`.
        sample_weight : array of shape (N,), optional
            Weights >= 0 of the samples' losses, and of held-out samples in scores.
        groups : array of shape (N,), optional
            What splitters as scikit-learn's ``GroupKFold`` keep together.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            As for a single C; and if Cs are no values, cv does not cut the samples into folds or leaves one empty, or
            scoring is no score, or has none in any fold.
        omkl.exceptions.DistributionError
            As for a single C.
        """
        with unchanged_if_refused(self):
            self._search(X, y, sample_weight, groups, client)
        return self

    def _search(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, groups: Any, client: Any) -> None:
        self._resolve()
        source, kept_y, weights = self._read(X, y, sample_weight)
        targets, own = self._targets(kept_y, weights)  # which refuses labels that cannot be told apart
        given = np.asarray(y.todense() if sparse.issparse(y) else plain_targets(y))
        folds = self._folds(given if has_columns(given) else given.ravel(), sample_weight, groups)
        if not isinstance(self, ClassifierMixin):
            kept_y = targets[0][1]
        scorer = self._scorer()
        scored_weights = None if sample_weight is None else weights

        def chosen(kernels: StoredKernels) -> tuple[list, tuple[Any, list[Solution]]]:
            Cs = path_values(kernels, targets, own, self.Cs)
            results = Parallel(n_jobs=kernels.n_threads(self.n_jobs), prefer="threads")(
                delayed(self._fold)(kernels, targets, kept_y, weights, scored_weights, Cs, scorer, *fold)
                for fold in folds
            )
            self._choose("C", Cs, results)
            return results, self._solving(targets, own)(kernels)

        results, (kept, solutions) = in_precision(self, source, client, chosen)
        targets, solutions = of_each_output(targets, solutions)
        self._learn(source, targets, solutions, kept)
        self._warn(source, targets, solutions, kept)
        self._warn_of_folds("C", results)

    def _fold(
        self, kernels: StoredKernels, targets: list, y: np.ndarray, weights: np.ndarray, scored_weights: Any,
        Cs: np.ndarray, scorer: Callable, train: np.ndarray, test: np.ndarray,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Scores (n_Cs,) of one fold, numbers of active kernels, and duality gaps."""
        outputs, active, gaps = self._held_out(kernels, targets, y, weights, Cs, train, test)
        options = {} if scored_weights is None else {"sample_weight": scored_weights[test]}
        scores = self._score_outputs(self._at(1.0, of_outputs=True), scorer, outputs, y[test], options)
        return {"scores": scores, "active": active.sum(axis=1), "gaps": gaps}

    def _held_out(
        self, kernels: StoredKernels, targets: list, y: np.ndarray, weights: np.ndarray, Cs: np.ndarray,
        train: np.ndarray, test: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Outputs (n_Cs, n_test, P) for samples held out, which kernels are active in them, and duality gaps."""
        classifies, of_classes = isinstance(self, ClassifierMixin), isinstance(self, ClassifierMixin) and y.ndim == 1
        own = weights[train]
        if of_classes and len(set(y[train].tolist())) > 1:
            own = self._at(1.0)._targets(y[train], own)[1]
        local = kernels.on(train, kernels.n_threads(self.n_jobs))
        columns = target_columns(targets, len(y))[train]
        local = local.chosen(columns, own)
        outputs = np.empty((len(Cs), len(test), columns.shape[1]))
        active, gaps = np.zeros((len(Cs), kernels.stack.n_kernels), dtype=bool), np.zeros(len(Cs))
        if targets[0][1].ndim == 2:
            present, own_target = np.arange(columns.shape[1]), columns
            if classifies:
                present, own_target = informative(columns, of_classes)
            for p in np.setdiff1d(np.arange(columns.shape[1]), present):
                outputs[:, :, p] = _constant(columns[:, p], True)
            for c, point in enumerate(local.path(own_target, own, Cs) if len(present) else ()):
                outputs[c][:, present] = self._outputs_of(kernels, point.solution, own_target, train)[test]
                active[c, point.solution.model.active] = True
                gaps[c] = abs(point.solution.certificate.gap)
            return outputs, active, gaps
        for p, (rows, _) in enumerate(targets):
            among = np.arange(len(train)) if not classifies else np.flatnonzero(columns[:, p])
            own_target = columns[among, p]
            if classifies and len(set(own_target.tolist())) < 2:
                outputs[:, :, p] = _constant(own_target, rows is None)
                continue
            part = None if len(among) == len(train) else among
            for c, point in enumerate(local.on(part).path(own_target, own[among], Cs)):
                solution = point.solution
                outputs[c, :, p] = kernels.outputs(solution.model, train[among])[test]
                active[c, solution.model.active] = True
                gaps[c] = max(gaps[c], abs(solution.certificate.gap))
        return outputs, active, gaps

    def _outputs_of(
        self, kernels: StoredKernels, solution: Solution, target: np.ndarray, samples: np.ndarray
    ) -> np.ndarray:
        """Outputs (N, P) of a model of several classes that was learned on some samples, one column if of two."""
        _, each = of_each_output([(None, target)], [solution])
        outputs = np.column_stack([kernels.outputs(one.model, samples) for one in each])
        return outputs if target.ndim == 2 else np.hstack([-outputs, outputs])


def _constant(target: np.ndarray, against_rest: bool) -> float:
    """The output of a problem with one class only, or none: the class that is missing never wins.

    Of pairs, all classes that are there get the same vote, and so keep their order.
    """
    positive = bool(len(target)) and target[0] > 0
    return (1.0 if positive else -1.0) * (-NEVER if against_rest else 1.0)


class MKLClassifierCV(CrossValidatedMKL, MKLClassifier):
    """Classifier with a learned combination of kernels whose C is chosen by cross-validation.

    The kernels are computed once; in each fold one path of C is solved, every problem from the solution before. What a
    kernel learns from inputs, as a width from distances, it learns from all of them, never from targets.

    Parameters
    ----------
    kernels, loss, regularizer, solver, tol, max_iter, fit_intercept, class_weight, multiclass, dtype, approximate, \
weighting, verbose
        As for :class:`MKLClassifier`.
    Cs : int or array of floats > 0
        Values of C; a number of them is spread evenly in the logarithm over three decades above the largest C at which
        no kernel is active under the block 1-norm.
    cv : int, splitter, iterable of (train, test) or None
        As in scikit-learn; a number, and None for 5, are stratified folds.
    scoring : str, callable or None
        As in scikit-learn; None is accuracy. A callable's ``X`` stands for held-out samples: only the estimator that it
        is called with reads it.
    n_jobs : int, optional
        Folds solved at once, in threads; -1 for as many as there are processors.

    Attributes
    ----------
    C_ : float
        The value of the best mean score, the smallest of several.
    Cs_ : array of shape (n_Cs,)
        In increasing order.
    scores_ : array of shape (n_folds, n_Cs)
        A class that a fold's training part lacks is never predicted in it. A score that is undefined is NaN, and the
        fold is left out of means.
    cv_results_ : list of dict
        A flat record for each C: ``C``, ``mean_score``, ``std_score``, ``active`` (mean number of kernels), and
        ``dual_gap`` (the largest of the folds).
    classes_, kernel_weights_, left_out_, dual_coef_, intercept_, dual_gap_, n_iter_, n_active_, history_, ...
        As for :class:`MKLClassifier`, of the model of all samples at ``C_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifierCV(["linear", "gaussian"], Cs=[0.01, 1.0, 100.0], cv=3).fit(X, y)
    >>> model.C_ > 0.01, model.scores_.shape
    (True, (3, 3))
    """

    _single, _of_outputs = MKLClassifier, _ClassifierOfOutputs

    def __init__(
        self, kernels: Any = None, *, Cs: Any = 10, cv: Any = None, scoring: Any = None, n_jobs: int | None = None,
        loss: Any = "logistic", regularizer: Any = None, solver: Any = "spicy", tol: float = 1e-2,
        max_iter: int | None = None, fit_intercept: bool = True, class_weight: Any = None, multiclass: str = "auto",
        dtype: Any = "auto", approximate: Any = "auto", weighting: str = "norms", verbose: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            kernels, Cs, cv, scoring, n_jobs, loss, regularizer, solver, tol, max_iter, fit_intercept, dtype,
            approximate, weighting, verbose,
        )  # fmt: skip
        self.class_weight = class_weight
        self.multiclass = multiclass


class MKLRegressorCV(CrossValidatedMKL, MKLRegressor):
    """Regression with a learned combination of kernels whose C is chosen by cross-validation.

    Parameters
    ----------
    kernels, loss, regularizer, solver, tol, max_iter, fit_intercept, dtype, approximate, weighting, \
verbose
        As for :class:`MKLRegressor`.
    Cs, cv, scoring, n_jobs
        As for :class:`MKLClassifierCV`; folds are not stratified, and None for ``scoring`` is :math:`R^2`.

    Attributes
    ----------
    C_, Cs_, scores_, cv_results_
        As for :class:`MKLClassifierCV`.
    kernel_weights_, dual_coef_, intercept_, dual_gap_, n_iter_, n_active_, history_, ...
        As for :class:`MKLRegressor`, of the model of all samples at ``C_``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(80, 2))
    >>> model = MKLRegressorCV(["gaussian:on=0:1", "gaussian:on=1:2"]).fit(X, np.sin(X[:, 0]))
    >>> model.kernel_weights_["gaussian:on=0:1"] > 0.8
    True
    """

    _single, _of_outputs = MKLRegressor, _RegressorOfOutputs

    def __init__(
        self, kernels: Any = None, *, Cs: Any = 10, cv: Any = None, scoring: Any = None, n_jobs: int | None = None,
        loss: Any = "squared", regularizer: Any = None, solver: Any = "spicy", tol: float = 1e-2,
        max_iter: int | None = None, fit_intercept: bool = True, dtype: Any = "auto", approximate: Any = "auto",
        weighting: str = "norms", verbose: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            kernels, Cs, cv, scoring, n_jobs, loss, regularizer, solver, tol, max_iter, fit_intercept, dtype,
            approximate, weighting, verbose,
        )  # fmt: skip
