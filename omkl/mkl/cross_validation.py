"""MKLClassifierCV and MKLRegressorCV: C chosen by cross-validation along warm-started paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import Tags

from omkl.data.frames import plain_targets
from omkl.estimators.batch import NumberDecoder, has_log_odds
from omkl.estimators.cross_validation import HeldOut, PathSearch
from omkl.estimators.targets import has_columns
from omkl.losses import PointwiseLoss
from omkl.mkl.base import BatchMKL
from omkl.mkl.batch import MKLClassifier, MKLRegressor
from omkl.mkl.kernel_sources import KernelInputs
from omkl.mkl.reading import prepare
from omkl.mkl.targets import largest_gap
from omkl.mkl.training import TrainingSet

if TYPE_CHECKING:
    from omkl.distributed.stack import Client

#: Parameters that the estimator of a single C does not have; its ``n_jobs`` is for predictions.
SEARCH = ("Cs", "cv", "scoring", "n_jobs")


def fit_with_search(
    self: Any,
    X: KernelInputs,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    client: Client | None = None,
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
    source, training = prepare(self, X, y, sample_weight, client)
    given: Any = plain_targets(y)
    given = given.toarray() if sparse.issparse(given) else np.asarray(given)
    search = PathSearch(self, "C", given if has_columns(given) else given.ravel(), sample_weight, groups)
    Cs, n_threads = training.path_values(self.Cs), training.n_threads(self.n_jobs)

    def held_out(train: np.ndarray, test: np.ndarray) -> HeldOut:
        return _held_out_path(training, Cs, train, test, n_threads)

    weights = None if sample_weight is None else training.weights
    C = search.choose(Cs, held_out, training.y, weights, has_log_odds(self), n_threads)
    self._solve(source, training, C)
    search.warn()
    return self


@dataclass(kw_only=True, eq=False, repr=False)
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

    Cs: int | ArrayLike = 10
    cv: int | BaseCrossValidator | Iterable | None = None
    scoring: str | Callable | None = None
    loss: str | PointwiseLoss = "logistic"
    class_weight: str | dict | None = None
    multiclass: str = "auto"

    fit = fit_with_search

    def _at(self, C: float) -> BatchMKL:
        return _single(MKLClassifier, self, C)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.class_weight is None
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
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

    Cs: int | ArrayLike = 10
    cv: int | BaseCrossValidator | Iterable | None = None
    scoring: str | Callable | None = None
    loss: str | PointwiseLoss = "squared"

    fit = fit_with_search

    def _at(self, C: float) -> BatchMKL:
        return _single(MKLRegressor, self, C)


def _single(single: type[BatchMKL], search: BatchMKL, C: float) -> BatchMKL:
    """Return an estimator of a single C with the same parameters."""
    parameters = {name: own for name, own in search.get_params(deep=False).items() if name not in SEARCH}
    return clone(single(**parameters, C=C))


def _held_out_path(
    training: TrainingSet, Cs: np.ndarray, train: np.ndarray, test: np.ndarray, n_copies: int
) -> HeldOut:
    """Solve a path on the training samples of a fold, of which ``n_copies`` are held at once."""
    fold = training.on(train, n_copies)
    fold.select()
    outputs, active, gaps = [], [], []
    for points in fold.path(Cs):
        solutions = [point.solution for point in points]
        columns = [training.outputs(solution.model, train)[:, test] for solution in solutions]
        outputs.append(np.concatenate(columns).T)
        active.append(len(np.unique(np.concatenate([solution.model.active for solution in solutions]))))
        gaps.append(abs(largest_gap(solutions)))
    return HeldOut(np.array(outputs), np.array(active), np.array(gaps), fold.encoded.decoder or NumberDecoder())
