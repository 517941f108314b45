"""MKLClassifierCV and MKLRegressorCV: C chosen by cross-validation along warm-started paths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from sklearn.base import ClassifierMixin, RegressorMixin, clone

from omkl.batch.solver import Solver
from omkl.data.frames import plain_targets
from omkl.estimators.batch import NumberDecoder
from omkl.estimators.cross_validation import HeldOut, PathSearch
from omkl.estimators.targets import has_columns
from omkl.losses import Logistic, PointwiseLoss
from omkl.mkl.base import BatchMKL
from omkl.mkl.batch import MKLClassifier, MKLRegressor
from omkl.mkl.gram_storage import StoredKernels
from omkl.mkl.tasks import Encoded, encode_targets, largest_gap, split_outputs
from omkl.regularizers import Regularizer

#: Parameters that the estimator of a single C does not have; its ``n_jobs`` is for predictions.
SEARCH = ("Cs", "cv", "scoring", "n_jobs")


def fit_with_search(
    self: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: Any = None, client: Any = None
) -> Any:
    """Choose C, and learn the kernel weights and the model from all samples.

    Parameters
    ----------
    X, y, client
        As for :meth:`MKLClassifier.fit`.
    sample_weight : array of shape (N,), optional
        Weights >= 0 of the samples' losses, and of held-out samples in scores.
    groups : array of shape (N,), optional
        Samples of one group stay in one fold, with splitters such as scikit-learn's ``GroupKFold``.

    Returns
    -------
    self

    Raises
    ------
    omkl.exceptions.InputError
        As for a single C; if Cs are not valid, if cv does not cut the samples into folds or leaves one empty, or if
        scoring is no score, or is undefined in all folds.
    omkl.exceptions.DistributionError
        As for a single C.
    """
    settings = self._settings()
    source, kept_y, weights = self._read(X, y, sample_weight)
    encoded = encode_targets(kept_y, weights, settings)
    given = np.asarray(y.todense() if sparse.issparse(y) else plain_targets(y))
    search = PathSearch(self, "C", given if has_columns(given) else given.ravel(), sample_weight, groups)
    kernels = self._stored(source, settings, client)
    Cs, n_threads = kernels.path_values(encoded, self.Cs), kernels.n_threads(self.n_jobs)

    def held_out(train: np.ndarray, test: np.ndarray) -> HeldOut:
        part = encode_targets(kept_y[train], weights[train], settings, warns=False)
        return _path_of_fold(kernels, part, Cs, train, test, n_threads)

    probabilistic = isinstance(settings.loss, Logistic) and not (encoded.decoder and encoded.decoder.pairs)
    scored = None if sample_weight is None else weights
    C = search.choose(Cs, held_out, kept_y, scored, probabilistic, n_threads)
    self._solve(source, kernels, encoded, C)
    search.warn()
    return self


class MKLClassifierCV(ClassifierMixin, BatchMKL):
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
        As in scikit-learn; None is accuracy. The estimator and the ``X`` that a callable is given stand for those of
        the held-out samples: it may predict, but not read them.
    n_jobs : int, optional
        Folds solved at once, in threads; -1 for as many as there are processors.

    Attributes
    ----------
    C_ : float
        The value of the best mean score, the smallest of several.
    Cs_ : array of shape (n_Cs,)
        In increasing order.
    scores_ : array of shape (n_folds, n_Cs)
        A class that is missing in the training part of a fold is never predicted there. A fold with an undefined score
        (NaN) is left out of means.
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

    def __init__(
        self,
        kernels: Any = None,
        *,
        Cs: int | ArrayLike = 10,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        loss: str | PointwiseLoss = "logistic",
        regularizer: str | Regularizer | None = None,
        solver: str | Solver = "spicy",
        tol: float = 1e-2,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        class_weight: str | dict | None = None,
        multiclass: str = "auto",
        dtype: DTypeLike = "auto",
        approximate: bool | str = "auto",
        weighting: str = "norms",
        verbose: bool = False,
    ) -> None:
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
        self.class_weight = class_weight
        self.multiclass = multiclass
        self.dtype = dtype
        self.approximate = approximate
        self.weighting = weighting
        self.verbose = verbose

    fit = fit_with_search

    def _at(self, C: float) -> MKLClassifier:
        return clone(MKLClassifier(**_single_parameters(self), C=C))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._takes_labels
        return tags


class MKLRegressorCV(RegressorMixin, BatchMKL):
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

    def __init__(
        self,
        kernels: Any = None,
        *,
        Cs: int | ArrayLike = 10,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        loss: str | PointwiseLoss = "squared",
        regularizer: str | Regularizer | None = None,
        solver: str | Solver = "spicy",
        tol: float = 1e-2,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        dtype: DTypeLike = "auto",
        approximate: bool | str = "auto",
        weighting: str = "norms",
        verbose: bool = False,
    ) -> None:
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

    fit = fit_with_search

    def _at(self, C: float) -> MKLRegressor:
        return clone(MKLRegressor(**_single_parameters(self), C=C))


def _single_parameters(estimator: BatchMKL) -> dict[str, Any]:
    return {name: value for name, value in estimator.get_params(deep=False).items() if name not in SEARCH}


def _path_of_fold(
    kernels: StoredKernels, encoded: Encoded, Cs: np.ndarray, train: np.ndarray, test: np.ndarray, n_copies: int
) -> HeldOut:
    """Solve a path on the training samples of a fold.

    Parameters
    ----------
    kernels : StoredKernels
        On all samples.
    encoded : Encoded
        Problems of the training samples.
    Cs : array of shape (n_Cs,)
    train, test : int arrays
    n_copies : int
        Number of folds that are held at once.
    """
    outputs, active, gaps = [], [], []
    for points in zip(*kernels.on(train, n_copies).selected(encoded).paths(encoded, Cs)):
        solutions = [point.solution for point in points]
        each = zip(*split_outputs(encoded.tasks, solutions))
        columns = [
            kernels.outputs(solution.model, train if task.rows is None else train[task.rows])[test]
            for task, solution in each
        ]
        outputs.append(np.column_stack(columns))
        active.append(len(np.unique(np.concatenate([solution.model.active for solution in solutions]))))
        gaps.append(abs(largest_gap(solutions)))
    decoder = NumberDecoder() if encoded.decoder is None else encoded.decoder
    return HeldOut(np.array(outputs), np.array(active), np.array(gaps), decoder)
