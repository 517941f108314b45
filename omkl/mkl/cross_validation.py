"""MKLClassifierCV and MKLRegressorCV: kernel learning with C chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from omkl.batch.solver import Solution, is_number_of_values
from omkl.estimators.batch import NumberDecoder
from omkl.estimators.cross_validation import HeldOut, PathSearch
from omkl.estimators.validation import restoring_columns
from omkl.losses import PointwiseLoss
from omkl.mkl.base import BatchMKL
from omkl.mkl.batch import MKLClassifier, MKLRegressor
from omkl.mkl.kernel_sources import KernelInputs
from omkl.mkl.training import TrainingSet, largest_gap, prepare

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator

    from omkl.distributed.stack import Client

#: Factor between the values of C of ``Cs=None``, and their maximum number.
STEP = 5.0
MOST_VALUES = 4


@dataclass(kw_only=True, eq=False, repr=False)
class SearchedMKL(BatchMKL):
    """Base class of batch estimators that choose C by cross-validation.

    Its fields are described in :class:`MKLClassifierCV`.
    """

    Cs: int | ArrayLike | None = None
    cv: int | BaseCrossValidator | Iterable | None = 3
    scoring: str | Callable | None = None

    def fit(
        self,
        X: KernelInputs,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        client: Client | None = None,
    ) -> Self:
        """Choose C, and learn the kernel weights and the model from all samples.

        Parameters
        ----------
        X, y, client
            As for :meth:`MKLClassifier.fit`.
        sample_weight : array of shape (N,), optional
            Weights >= 0 of the losses of the samples, and of held-out samples in scores.
        groups : array of shape (N,), optional
            Samples of one group stay in one fold, with splitters such as scikit-learn's
            ``GroupKFold``.

        Returns
        -------
        self
            With the kernel weights and the model of all samples at ``C_``.

        Raises
        ------
        omkl.exceptions.InputError
            As for a single C; also if Cs are invalid, cv does not split the samples into folds or
            leaves one empty, or scoring is invalid or undefined in all folds.
        omkl.exceptions.DistributionError
            As for a single C.
        """
        with restoring_columns(self):
            source, training = prepare(self, X, y, sample_weight, client)
            search = PathSearch(self, "C", y, sample_weight, groups, by_loss=True)
            n_threads = effective_n_jobs(self.n_jobs) if training.stored.concurrent else 1
            paths = []
            for train, test in search.folds:
                paths.append(HeldOutPath(training, len(search.folds), train, test))
            if self.Cs is None:
                C = _best_near_natural_c(search, training, paths, n_threads)
            else:
                Cs = training.path_values(self.Cs)
                C = search.choose(Cs, paths, training.y, n_threads)
                chose_the_end = len(Cs) > 1 and Cs[-1] == C
                if is_number_of_values(self.Cs) and chose_the_end:  # the best may be beyond the end
                    ratio = Cs[-1] / Cs[-2]
                    Cs = np.append(Cs, C * ratio ** np.arange(1, len(Cs)))
                    C = search.choose(Cs, paths, training.y, n_threads)
            self._solve(source, training, C)
            search.warn()
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class MKLClassifierCV(ClassifierMixin, SearchedMKL):
    """Classifier with a learned combination of kernels, and C chosen by cross-validation.

    The kernels are computed once. Each fold is solved for increasing values of C, with warm starts.
    Data-dependent parameters of kernels, such as widths, are learned from the inputs of all
    samples, never from targets.

    Parameters
    ----------
    kernels, loss, solver, tol, max_iter, fit_intercept, class_weight, multiclass, dtype, \
approximate, weighting, missing, verbose
        As for :class:`MKLClassifier`.
    regularizer
        As for :class:`MKLClassifier`, but None is "elastic-net" if each kernel is on one or two
        columns of a table, as those of :func:`omkl.kernels.per_column`, and the solver is "spicy".
    Cs : int, array of floats > 0 or None
        Values of C. None compares the C that :class:`MKLClassifier` chooses with up to three
        others, each five times as large as the one before. A number spreads as many values evenly
        on a log scale, over three decades above :func:`~omkl.batch.smallest_c`, where kernels
        become active, and over the next three if the largest value is the best.
    cv : int, splitter, iterable of (train, test) or None
        As in scikit-learn; a number gives stratified folds, None five of them.
    scoring : str, callable or None
        As in scikit-learn. None is log-loss for losses with probabilities, else accuracy. The
        estimator and the ``X`` passed to a callable are placeholders for the held-out samples: the
        callable may predict with them, but not read them.
    n_jobs : int, optional
        Number of folds solved in parallel threads; -1 uses all processors.

    Attributes
    ----------
    C_ : float
        The value with the best mean score, the smallest in a tie. With ``scoring=None``, of the
        values whose log-loss differs from the least by no more than a standard error, the most
        accurate one; with ``Cs=None``, the one that :class:`MKLClassifier` chooses, unless the
        other is more accurate by more than a standard error, too.
    Cs_ : array of shape (n_Cs,)
        Values of C in increasing order.
    scores_ : array of shape (n_folds, n_Cs)
        A class that is missing in the training part of a fold is never predicted there. Means skip
        folds with an undefined score (NaN).
    cv_results_ : list of dict
        A flat record for each C: ``C``, ``mean_score``, ``std_score``, ``active`` (mean number of
        kernels), and ``dual_gap`` (the largest of the folds).
    classes_, kernel_weights_, left_out_, dual_coef_, intercept_, dual_gap_, n_iter_, n_active_,
    history_, ...
        As for :class:`MKLClassifier`, of the model of all samples at ``C_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifierCV(["linear", "gaussian"], Cs=[0.01, 1.0, 100.0], cv=3).fit(X, y)
    >>> model.C_ > 0.01, model.scores_.shape
    (True, (3, 3))
    """

    loss: str | PointwiseLoss = "logistic"
    class_weight: str | dict | None = None
    multiclass: str = "auto"

    _single = MKLClassifier
    _of_columns = "elastic-net"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.class_weight is None  # labels in columns of y
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class MKLRegressorCV(RegressorMixin, SearchedMKL):
    """Regression with a learned combination of kernels, and C chosen by cross-validation.

    Parameters
    ----------
    kernels, loss, regularizer, solver, tol, max_iter, fit_intercept, dtype, approximate, \
weighting, missing, verbose
        As for :class:`MKLRegressor`.
    Cs, cv, scoring, n_jobs
        As for :class:`MKLClassifierCV`; folds are not stratified, and None for ``scoring`` is the
        negative mean squared error, or with ``loss="poisson"`` half the negative mean deviance.

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

    loss: str | PointwiseLoss = "squared"

    _single = MKLRegressor


def _best_near_natural_c(
    search: PathSearch, training: TrainingSet, paths: Sequence[HeldOutPath], n_threads: int
) -> float:
    """Return the best C near that of ``C="auto"``, better than both of its neighbours."""
    training.select()
    natural = training.natural_c()
    Cs = np.array([natural])
    best = natural
    while len(Cs) < MOST_VALUES and best in (Cs[0], Cs[-1]):
        neighbour = STEP * best if best == Cs[-1] else best / STEP
        Cs = np.sort(np.append(Cs, neighbour))
        best = search.choose(Cs, paths, training.y, n_threads, natural)
    return best


class HeldOutPath:
    """Models of one fold at several values of C, each solved once.

    Parameters
    ----------
    training : TrainingSet
        All samples.
    n_folds : int
        Number of folds in memory at once.
    train, test : int arrays
        The samples to learn from, and the held-out ones.
    """

    def __init__(
        self, training: TrainingSet, n_folds: int, train: np.ndarray, test: np.ndarray
    ) -> None:
        self.training = training
        self.n_folds = n_folds
        self.train = train
        self.test = test
        self._solutions: dict[float, list[Solution]] = {}
        self._outputs: dict[float, np.ndarray] = {}

    @cached_property
    def fold(self) -> TrainingSet:
        """The samples to learn from, with kernels chosen on them."""
        fold = self.training.on(self.train, self.n_folds)
        fold.select()
        return fold

    def __call__(self, Cs: np.ndarray) -> HeldOut:
        """Return outputs (n_Cs, n_test, P), active kernels and gaps for increasing values of C."""
        fold = self.fold
        for C in Cs.tolist():
            if C not in self._solutions:
                self._solve(C)
        active_counts = []
        gaps = []
        for C in Cs.tolist():
            solutions = self._solutions[C]
            active = np.concatenate([solution.model.active for solution in solutions])
            active_counts.append(len(np.unique(active)))
            gaps.append(abs(largest_gap(solutions)))
        outputs = np.array([self._outputs[C] for C in Cs.tolist()])
        decoder = fold.decoder or NumberDecoder(fold.settings.loss)
        return HeldOut(outputs, np.array(active_counts), np.array(gaps), decoder)

    def _solve(self, C: float) -> None:
        """Solve from the solution at the next smaller C, or else at the smallest."""
        near = None
        if self._solutions:
            smaller = (value for value in self._solutions if value < C)
            near = self._solutions[max(smaller, default=min(self._solutions))]
        solutions = self.fold.solve(C, verbose=False, near=near)
        outputs_of_problems = []
        for solution in solutions:
            outputs = self.training.outputs(solution.model, self.train)
            outputs_of_problems.append(outputs[:, self.test])
        self._solutions[C] = solutions
        self._outputs[C] = np.concatenate(outputs_of_problems).T + self.fold.centres
