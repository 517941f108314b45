"""MKLClassifierCV and MKLRegressorCV: C chosen by cross-validation along warm-started paths."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassifierMixin, RegressorMixin, clone

from omkl.batch import Solution, Solver
from omkl.data.frames import plain_targets
from omkl.estimators.batch import is_a_classifier
from omkl.estimators.cross_validation import HeldOut, PathSearch
from omkl.estimators.output_decoders import NEVER, NumberDecoder, encode_classes, weighted_by_class
from omkl.estimators.targets import has_columns
from omkl.losses import Logistic, PointwiseLoss
from omkl.mkl.base import BatchMKL
from omkl.mkl.batch import MKLClassifier, MKLRegressor
from omkl.mkl.fit_warnings import warn_of_fit
from omkl.mkl.gram_storage import StoredKernels
from omkl.mkl.tasks import Encoded, Task, informative, split_outputs, target_columns
from omkl.regularizers import Regularizer

#: Parameters that the estimator of a single C does not have; its ``n_jobs`` is for predictions.
SEARCH = ("Cs", "cv", "scoring", "n_jobs")


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
        dtype: Any = "auto",
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

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: Any = None, client: Any = None
    ) -> Self:
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
        return _fit_best(self, X, y, sample_weight, groups, client)

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
        dtype: Any = "auto",
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

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: Any = None, client: Any = None
    ) -> Self:
        """Choose C, and learn the kernel weights and the model from all samples.

        Parameters
        ----------
        X, y, sample_weight, groups, client
            As for :meth:`MKLClassifierCV.fit`.

        Returns
        -------
        self
        """
        return _fit_best(self, X, y, sample_weight, groups, client)

    def _at(self, C: float) -> MKLRegressor:
        return clone(MKLRegressor(**_single_parameters(self), C=C))


def _single_parameters(estimator: BatchMKL) -> dict[str, Any]:
    return {name: value for name, value in estimator.get_params(deep=False).items() if name not in SEARCH}


def _fit_best(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, groups: ArrayLike | None, client: Any
) -> Any:
    """Fit an estimator at the best C; parameters as for :meth:`MKLClassifierCV.fit`."""
    settings = estimator._settings()
    source, kept_y, weights = estimator._read(X, y, sample_weight)
    encoded = estimator._encode(kept_y, weights, settings)
    given = np.asarray(y.todense() if sparse.issparse(y) else plain_targets(y))
    given = given if has_columns(given) else given.ravel()
    search = PathSearch(estimator, "C", given, sample_weight, groups)
    decoder = NumberDecoder() if encoded.decoder is None else encoded.decoder
    truth = encoded.tasks[0].target if encoded.decoder is None else kept_y
    probabilistic = isinstance(settings.loss, Logistic) and not (encoded.decoder and encoded.decoder.pairs)

    def solve(kernels: StoredKernels) -> tuple[np.ndarray | None, list[Solution], float]:
        Cs, jobs = (
            kernels.path_values(encoded.tasks, encoded.weights, estimator.Cs),
            kernels.n_threads(estimator.n_jobs),
        )

        def held_out(train: np.ndarray, test: np.ndarray) -> HeldOut:
            own = _fold_weights(estimator, kept_y, weights, train)
            local = kernels.on(train, jobs).selected(target_columns(encoded.tasks, len(kept_y))[train], own)
            return _path_of_fold(kernels, local, encoded, own, Cs, train, test)

        scored = None if sample_weight is None else weights
        C = search.choose(Cs, held_out, truth, scored, decoder, probabilistic, jobs)
        return *estimator._solver_of(encoded, C)(kernels), C

    kept, solutions, C = estimator._stored(source, settings, client, solve)
    estimator._learn(source, settings, encoded, solutions, kept)
    warn_of_fit(estimator, settings, *split_outputs(encoded.tasks, solutions), kept, C)
    search.warn()
    return estimator


def _fold_weights(estimator: Any, y: np.ndarray, weights: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Weights of the training samples of a fold, times those of the classes among them."""
    own, of_classes = weights[train], is_a_classifier(estimator) and y.ndim == 1
    if not of_classes or len(set(y[train].tolist())) < 2:
        return own
    return np.asarray(weighted_by_class(estimator.class_weight, *encode_classes(y[train]), own))


def _path_of_fold(
    kernels: StoredKernels,
    local: StoredKernels,
    encoded: Encoded,
    weights: np.ndarray,
    Cs: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> HeldOut:
    """Solve a path on the training samples of a fold.

    Parameters
    ----------
    kernels, local : StoredKernels
        On all samples, and on those of the fold.
    encoded : Encoded
        Problems of all samples.
    weights : array of shape (n_train,)
    Cs : array of shape (n_Cs,)
    train, test : int arrays
    """
    tasks, decoder = encoded.tasks, encoded.decoder
    columns = target_columns(tasks, kernels.stack.n_samples)[train]
    outputs = np.empty((len(Cs), len(test), columns.shape[1]))
    active, gaps = np.zeros((len(Cs), kernels.stack.n_kernels), dtype=bool), np.zeros(len(Cs))

    def solve(target: np.ndarray, among: np.ndarray, places: np.ndarray) -> None:
        """Solve for a target of some of the training samples; outputs go to the columns ``places``."""
        part = None if len(among) == len(train) else among
        for c, point in enumerate(local.on(part).path(target, weights[among], Cs)):
            _, each = split_outputs([Task(None, target)], [point.solution])
            found = np.column_stack([kernels.outputs(one.model, train[among])[test] for one in each])
            # two classes are one problem
            outputs[c][:, places] = found if found.shape[1] == len(places) else np.hstack([-found, found])
            active[c, point.solution.model.active] = True
            gaps[c] = max(gaps[c], abs(point.solution.certificate.gap))

    everyone = np.arange(len(train))
    if tasks[0].target.ndim == 2:
        present, target = np.arange(columns.shape[1]), columns
        if decoder is not None:
            present, target = informative(columns, not decoder.multilabel)
        for p in np.setdiff1d(np.arange(columns.shape[1]), present):
            outputs[:, :, p] = _constant(columns[:, p], True)
        if len(present):
            solve(target, everyone, present)
        return HeldOut(outputs, active.sum(axis=1), gaps)
    for p, (rows, _) in enumerate(tasks):
        among = everyone if decoder is None else np.flatnonzero(columns[:, p])
        target = columns[among, p]
        if decoder is not None and len(set(target.tolist())) < 2:
            outputs[:, :, p] = _constant(target, rows is None)
        else:
            solve(target, among, np.array([p]))
    return HeldOut(outputs, active.sum(axis=1), gaps)


def _constant(target: np.ndarray, against_rest: bool) -> float:
    """The output of a problem with one class, or none: the class that is missing never wins.

    Of pairs, all classes that are there get the same vote, and so keep their order.
    """
    positive = bool(len(target)) and target[0] > 0
    return (1.0 if positive else -1.0) * (-NEVER if against_rest else 1.0)
