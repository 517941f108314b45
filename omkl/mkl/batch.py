"""MKLClassifier and MKLRegressor, certified batch multiple kernel learning, and their cross-validated versions."""

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
from omkl.mkl.kernel_sources import KernelInputs
from omkl.mkl.targets import largest_gap
from omkl.mkl.training import TrainingSet, prepare

if TYPE_CHECKING:
    from omkl.distributed.stack import Client

#: Parameters that the estimator of a single C does not have; its ``n_jobs`` is for predictions.
SEARCH = ("Cs", "cv", "scoring", "n_jobs")


@dataclass(kw_only=True, eq=False, repr=False)
class MKLClassifier(ClassifierMixin, BatchMKL):
    r"""Classifier that learns a combination of kernels, certified by a duality gap.

    .. math:: \min_{f_m, b} C \sum_i l\Bigl(y_i, \sum_m f_m(x_i) + b\Bigr) + \psi(\|f_1\|, \ldots, \|f_M\|)

    Parameters
    ----------
    kernels : list, dict, "precomputed" or None
        Kernels on the rows of X as strings or objects (``"gaussian:sigma2=5"``, ``Gaussian(5, on=slice(0, 3))``), with
        names if it is a dict; "precomputed" if X is Gram matrices. ``"gaussian:sigma2=5,features=2000"``
        approximates a kernel by Fourier features, ``"chi2:features=500"`` by the Nyström method. None uses linear,
        quadratic and Gaussian kernels of five widths.
    loss : {"logistic", "hinge", "squared-hinge"} or PointwiseLoss
    regularizer : {"block1", "elastic-net", "block-q", "uniform", "mkl", ...}, Regularizer or None
        The function :math:`\psi` of the norms. "mkl", the squared block 1-norm of online MKL, does not depend on the
        unit of the targets; "block1" is sparser, "uniform" weights all kernels equally. None is "elastic-net" for the
        solver "one-step", "elastic-net-weights" for "gmkl", "lp-norm" for its own, else "mkl", or "elastic-net" with
        ``weighting="out-of-sample"``.
    C : float > 0
        Weight of the losses: the larger, the closer the fit, as in scikit-learn's SVC.
    solver : {"spicy", "one-step", "gmkl", "ista", "fista", "silp", "simplemkl", "levelmkl", "hessianmkl", "lp-norm"}
        Or a :class:`~omkl.batch.Solver`. "spicy" and "one-step" are the fast ones; "ista" and "fista" are for smooth
        losses; the others alternate between kernel weights and a support vector machine, and are for the hinge.
    tol : float > 0
        Relative duality gap to reach, over all kernels.
    max_iter : int, optional
        Maximum number of outer iterations.
    fit_intercept : bool
        Learn a constant b, which is not regularized.
    multiclass : {"auto", "shared", "ovr"}
        Strategy for more than two classes. "shared" learns a function for each against the rest, in one problem with
        one weight a kernel: :math:`\|f_m\|` above is the root of the sum of the classes' squared norms. "ovr" learns
        the same functions one after the other, each with kernel weights of its own. Labels in columns have a function
        each as well. "auto" is "shared" if the solver supports it, as "spicy" and "one-step" do, else "ovr".
    class_weight : None, "balanced" or dict
        Weights of the classes' losses, as in scikit-learn: "balanced" gives every class the same sum of weights.
    dtype : {"auto", "float32", "float64"}
        Precision of stored Gram matrices; sums are always in float64. "auto" uses double precision up to 64 MiB, and
        for ``tol`` below 1e-4.
    approximate : {"auto", True, False}
        Kernels that do not fit into memory: True replaces them by Nyström approximations on at most 500 landmarks, with
        a warning that states the error; False computes them anew in every pass; "auto" approximates if a single Gram
        matrix takes more than 256 MiB. Model, prediction and certificate refer to the kernels as they are stored, see
        ``kernel_representations_``.
    weighting : {"norms", "out-of-sample"}
        "out-of-sample" first leaves out the kernels that do not help on held-out samples (``left_out_``), by
        leave-one-out in closed form for the squared loss, see :func:`~omkl.batch.helpful_kernels`. "norms" leaves this
        to the regularizer, which sees training samples only. The choice uses at most 1000 samples, fewer for more than
        250 kernels. Samples must be independent: a kernel cannot be judged by copies of training samples. If no
        kernel helps, all are kept, with a warning.
    n_jobs : int or None
        Threads that predict, each some of the rows; None is one, -1 one for each core. Results do not depend on it.
    verbose : bool
        Show a progress bar after a second; if standard error is no terminal, a line every half minute.

    Attributes
    ----------
    classes_ : array of shape (K,), or the numbers of the columns of labels
    multilabel_ : bool
        Whether targets were indicators of labels.
    constant_labels_ : dict of int to bool
        Labels that all samples have, or none; they are always predicted so.
    kernel_weights_ : dict of str to float
        Weight of each kernel, in [0, 1], summing to one (all 0 if no kernel is active); the mean of several problems.
    unscaled_kernel_weights_ : dict of str to float
        The same on the scale of the regularizer: for "gmkl" the weights :math:`\theta` of Citi (2015), with
        :math:`\eta \|\theta\|_1 + (1 - \eta) \|\theta\|_2^2 = 1`.
    kernel_representations_ : dict of str to str
        Storage of each kernel: "dense" (a Gram matrix), "factor of rank 300" (a feature map of few dimensions), or
        "computed in every pass".
    dual_gap_ : float
        Relative duality gap, the largest of all problems; computed from the model over all kernels.
    n_iter_ : int
        Outer iterations, the largest number of all problems.
    dual_coef_ : array of shape (M, N), or (P, M, N) for P > 1 classes
    intercept_ : array of shape (P,)
    left_out_ : list of str
        Kernels that ``weighting="out-of-sample"`` has left out; their weight is 0.
    n_active_ : int
        Number of kernels that prediction needs.
    dual_variables_ : list of arrays
        For each problem the dual feasible :math:`\rho` whose value bounds the optimum from below: with
        ``dual_coef_`` and ``intercept_`` it verifies ``dual_gap_``. Not saved in model files.
    history_ : list of dict
        A flat record an iteration, see :class:`omkl.batch.GapMonitor`; of several problems one after the other,
        with ``problem`` (from 0).

    References
    ----------
    Suzuki and Tomioka (2011), SpicyMKL: a fast algorithm for multiple kernel learning with thousands of kernels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier(["linear", "gaussian"], C=10.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95 and model.dual_gap_ <= 0.01)
    True
    """

    loss: str | PointwiseLoss = "logistic"
    C: float = 1.0
    class_weight: str | dict | None = None
    multiclass: str = "auto"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.class_weight is None
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class MKLRegressor(RegressorMixin, BatchMKL):
    """Regression with a learned combination of kernels, certified by a duality gap; see :class:`MKLClassifier`.

    Parameters
    ----------
    kernels, regularizer, C, solver, tol, max_iter, fit_intercept, dtype, approximate, weighting, n_jobs, verbose
        As for :class:`MKLClassifier`.
    loss : {"squared", "epsilon-insensitive", "huber"} or PointwiseLoss
        "epsilon-insensitive:epsilon=0.2" and "huber:delta=0.5" set their parameters, in units of y.

    Attributes
    ----------
    kernel_weights_, kernel_representations_, left_out_, dual_gap_, n_iter_, dual_coef_, intercept_, n_active_, \
dual_variables_, history_
        As for :class:`MKLClassifier`, of one problem; (K, M, N) and (K,) for K outputs.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(80, 2))
    >>> model = MKLRegressor(["gaussian:on=0:1", "gaussian:on=1:2"], C=10.0).fit(X, np.sin(X[:, 0]))
    >>> model.kernel_weights_["gaussian:on=0:1"] > 0.8
    True
    """

    loss: str | PointwiseLoss = "squared"
    C: float = 1.0


# ---- cross-validation ------------------------------------------------------------------------------------------------


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
