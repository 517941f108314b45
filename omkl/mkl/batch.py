"""MKLClassifier and MKLRegressor, certified batch multiple kernel learning, and their
cross-validated versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from omkl.batch.solver import Solution, is_number_of_values
from omkl.estimators.batch import NumberDecoder
from omkl.estimators.cross_validation import HeldOut, PathSearch
from omkl.losses import PointwiseLoss
from omkl.mkl.base import BatchMKL
from omkl.mkl.kernel_sources import KernelInputs
from omkl.mkl.training import TrainingSet, largest_gap, prepare

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator

    from omkl.distributed.stack import Client


def classifier_tags(self: BatchMKL) -> Tags:
    """Return scikit-learn's tags of a classifier, which supports labels in columns of y without
    class weights.
    """
    tags = ClassifierMixin.__sklearn_tags__(self)
    tags.classifier_tags.multi_label = self.class_weight is None
    return tags


@dataclass(kw_only=True, eq=False, repr=False)
class MKLClassifier(ClassifierMixin, BatchMKL):
    r"""Classifier that learns a combination of kernels, certified by a duality gap.

    .. math:: \min_{f_m, b} C \sum_i l\Bigl(y_i, \sum_m f_m(x_i) + b\Bigr) + \psi(\|f_1\|, \ldots, \|f_M\|)

    Parameters
    ----------
    kernels : list, dict, "precomputed" or None
        Kernels on the rows of X as strings or objects (``"gaussian:sigma2=5"``, ``Gaussian(5,
        on=slice(0, 3))``); a dict names them. "precomputed" if X is Gram matrices.
        ``"gaussian:sigma2=5,features=2000"`` approximates a kernel by Fourier features,
        ``"chi2:features=500"`` by the Nyström method. None uses linear, quadratic and Gaussian
        kernels of two widths on standardized columns, whose units do not matter, and linear and
        quadratic ones on columns divided by their ranges; sparse columns stay as they are. Kernels
        that you name see columns as they are, unless they have ``standardize=True``.
    loss : {"logistic", "hinge", "squared-hinge"} or PointwiseLoss
    regularizer : {"block1", "elastic-net", "block-q", "uniform", "mkl", ...}, Regularizer or None
        The function :math:`\psi` of the norms. "mkl", the squared block 1-norm of online MKL, does
        not depend on the unit of the targets; "block1" is sparser, "uniform" weights all kernels
        equally. None is "elastic-net" for the solver "one-step", "elastic-net-weights" for "gmkl",
        "lp-norm" for "lp-norm", else "mkl". Of kernels that are alike, "elastic-net" keeps more.
    C : float > 0 or "auto"
        Weight of the losses, as in scikit-learn's SVC; larger values fit closer. "auto" takes the
        value at which the mean of the kernels has the least leave-one-out error, by ridge
        regression in closed form on at most 1000 samples (``C_``).
    solver : {"spicy", "one-step", "gmkl", "ista", "fista", "silp", "simplemkl", "levelmkl", "hessianmkl", "lp-norm"}
        Or a :class:`~omkl.batch.Solver`. "spicy" and "one-step" are fast; "ista" and "fista" are
        for smooth losses; the others alternate between kernel weights and a support vector machine,
        and are for the hinge.
    tol : float > 0
        Relative duality gap to reach, over all kernels.
    max_iter : int, optional
        Maximum number of outer iterations.
    fit_intercept : bool
        Whether to learn a constant b, which is not regularized.
    multiclass : {"auto", "shared", "ovr"}
        Strategy for more than two classes. "shared" learns a function for each class against the
        rest, in one problem with shared kernel weights: :math:`\|f_m\|` above is the root of the
        sum of squared norms over classes. "ovr" learns these functions one after the other, each
        with its own kernel weights. Labels in columns are treated alike. "auto" is "shared" if the
        solver supports it, as "spicy" and "one-step" do, else "ovr".
    class_weight : None, "balanced" or dict
        Weights of the classes, as in scikit-learn: "balanced" gives every class the same total
        weight.
    dtype : {"auto", "float32", "float64"}
        Precision of stored Gram matrices; sums are always in float64. "auto" uses double precision
        up to 64 MiB, and for ``tol`` below 1e-4.
    approximate : {"auto", True, False}
        Treatment of large kernels. "auto" replaces them by Nyström approximations on at most 500
        landmarks if a single Gram matrix takes more than 256 MiB (about 11,600 samples in single
        precision), with a warning that states the error; smaller matrices that do not fit into
        memory together are recomputed in every pass. True approximates them as well. False stores
        all matrices, or recomputes them in every pass if they do not fit. Model, prediction and
        certificate refer to the kernels as stored, see ``kernel_representations_``.
    weighting : {"auto", "norms", "out-of-sample"}
        "out-of-sample" first drops kernels that do not help on held-out samples (``left_out_``), by
        leave-one-out in closed form for the squared loss, see :func:`~omkl.batch.helpful_kernels`.
        "norms" leaves the choice to the regularizer, which uses training samples only. The choice
        uses at most 1000 samples, fewer for more than 250 kernels. Samples must be independent:
        copies of training samples do not show whether a kernel helps. A warning tells if most
        kernels are in the model without evidence that they help. "auto" is "out-of-sample" for the
        solver "spicy" without a ``regularizer``, else "norms".
    missing : {"indicator", "error"}
        Treatment of missing numbers (NaN, None, NaT). "indicator" replaces them by the mean of
        their column, and adds a linear kernel "missing" on columns of 0 and 1, one for each column
        that had missing entries in training. If none had any, missing entries are the mean. "error"
        refuses them. Sparse and precomputed input must have none.
    n_jobs : int or None
        Number of threads for predictions; None is one, -1 one per core. Results do not depend on
        it.
    verbose : bool
        Whether to show a progress bar after a second, or a line every half minute if standard error
        is not a terminal.

    Attributes
    ----------
    classes_ : array of shape (K,), or the indices of the columns of labels
    multilabel_ : bool
        Whether targets were indicators of labels.
    constant_labels_ : dict of int to bool
        Labels that all samples have, or that none has; predictions repeat them.
    kernel_weights_ : dict of str to float
        Weight of each kernel, in [0, 1], summing to one (all 0 if no kernel is active); averaged
        over problems.
    unscaled_kernel_weights_ : dict of str to float
        Kernel weights on the scale of the regularizer: for "gmkl" the weights :math:`\theta` of
        Citi (2015), with
        :math:`\eta \|\theta\|_1 + (1 - \eta) \|\theta\|_2^2 = 1`.
    kernel_representations_ : dict of str to str
        Storage of each kernel: "dense" (a Gram matrix), "factor of rank 300" (a feature map of few
        dimensions), or "computed in every pass".
    column_kinds_ : list of str
        Kind of each column of a data frame: "numbers", "dates", "durations", "text" or
        "identifier". A column of identifiers is left out.
    categories_ : list
        For each column of a data frame with text or categories, its categories as strings, or None
        for numbers.
    column_means_ : array
        Mean of each column in training, which replaces missing entries.
    missing_columns_ : list of int
        Columns with missing entries in training, counted after text became columns of categories.
    column_scales_ : dict of str to (float, float)
        Mean and standard deviation (or range) in training of each column that a kernel sees
        standardized.
    C_ : float
        The weight of the losses.
    dual_gap_ : float
        Relative duality gap, the largest over all problems, computed from the model over all
        kernels.
    n_iter_ : int
        Number of outer iterations, the largest over all problems.
    dual_coef_ : array of shape (M, N), or (P, M, N) for P > 1 classes
    intercept_ : array of shape (P,)
    left_out_ : list of str
        Kernels dropped by ``weighting="out-of-sample"``; their weight is 0.
    evidence_ : dict of str to float, or None
        Decrease of the leave-one-out loss by each kernel beside those chosen before it, in standard
        errors; None with ``weighting="norms"``.
    n_active_ : int
        Number of kernels needed for prediction.
    feature_importances_ : array of shape (d,)
        Importance of each column of X, for scikit-learn's ``SelectFromModel`` and ``RFE``; computed
        on access.
    dual_variables_ : list of arrays
        For each problem the dual feasible :math:`\rho` whose value bounds the optimum from below.
        With ``dual_coef_`` and ``intercept_`` it verifies ``dual_gap_``. Not saved in model files.
    history_ : list of dict
        A flat record per iteration, see :class:`omkl.batch.GapMonitor`. Records of several problems
        are concatenated, with ``problem`` (from 0).

    References
    ----------
    Suzuki and Tomioka (2011), SpicyMKL: a fast algorithm for multiple kernel learning with
    thousands of kernels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier(["linear", "gaussian"], C=10.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95 and model.dual_gap_ <= 0.01)
    True
    """

    loss: str | PointwiseLoss = "logistic"
    C: float | str = "auto"
    class_weight: str | dict | None = None
    multiclass: str = "auto"

    __sklearn_tags__ = classifier_tags


@dataclass(kw_only=True, eq=False, repr=False)
class MKLRegressor(RegressorMixin, BatchMKL):
    """Regression with a learned combination of kernels, certified by a duality gap; see
    :class:`MKLClassifier`.

    Parameters
    ----------
    kernels, regularizer, C, solver, tol, max_iter, fit_intercept, dtype, approximate, weighting,
    missing, \
n_jobs, verbose
        As for :class:`MKLClassifier`.
    loss : {"squared", "epsilon-insensitive", "huber", "poisson"} or PointwiseLoss
        "epsilon-insensitive:epsilon=0.2" and "huber:delta=0.5" set their parameters, in units of y.
        With "poisson", targets are counts, and predictions are means of counts, whose logarithm is
        the sum of functions that ``shapes`` and ``explain`` show.

    With an intercept, targets are centred before training, and constants added to all targets do
    not matter. Their unit does not matter either with the squared loss and a squared norm, such as
    "mkl". Predictions, ``intercept_`` and ``dual_coef_`` are in units of y; objectives are in those
    of the loss.

    Attributes
    ----------
    kernel_weights_, kernel_representations_, left_out_, evidence_, dual_gap_, n_iter_, dual_coef_,
    intercept_, \
n_active_, feature_importances_, dual_variables_, history_, C_, column_means_, missing_columns_,
column_scales_
        As for :class:`MKLClassifier`, for one problem; (K, M, N) and (K,) for K outputs.

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
    C: float | str = "auto"


# ---- cross-validation ----------------------------------------------------------------------------


Model = TypeVar("Model", bound=BatchMKL)
#: Factor between the values of C of ``Cs=None``, and their maximum number.
STEP, MOST_VALUES = 5.0, 4


def fit_with_search(
    self: Model,
    X: KernelInputs,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    client: Client | None = None,
) -> Model:
    """Choose C, and learn the kernel weights and the model from all samples.

    Parameters
    ----------
    X, y, client
        As for :meth:`MKLClassifier.fit`.
    sample_weight : array of shape (N,), optional
        Weights >= 0 of the losses of the samples, and of held-out samples in scores.
    groups : array of shape (N,), optional
        Samples of one group stay in one fold, with splitters such as scikit-learn's ``GroupKFold``.

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
    source, training = prepare(self, X, y, sample_weight, client)
    search = PathSearch(self, "C", y, sample_weight, groups, by_loss=True)
    n_threads = effective_n_jobs(self.n_jobs) if training.stored.concurrent else 1
    paths = [HeldOutPath(training, len(search.folds), train, test) for train, test in search.folds]
    if self.Cs is None:
        C = _search_near_natural_c(search, training, paths, n_threads)
    else:
        Cs = training.path_values(self.Cs)
        C = search.choose(Cs, paths, training.y, n_threads)
        if (
            is_number_of_values(self.Cs) and len(Cs) > 1 and Cs[-1] == C
        ):  # the best may be beyond the end
            Cs = np.append(Cs, C * (Cs[-1] / Cs[-2]) ** np.arange(1, len(Cs)))
            C = search.choose(Cs, paths, training.y, n_threads)
    self._solve(source, training, C)
    search.warn()
    return self


@dataclass(kw_only=True, eq=False, repr=False)
class MKLClassifierCV(ClassifierMixin, BatchMKL):
    """Classifier with a learned combination of kernels, and C chosen by cross-validation.

    The kernels are computed once. Each fold is solved for increasing values of C, with warm starts.
    Data-dependent parameters of kernels, such as widths, are learned from the inputs of all
    samples, never from targets.

    Parameters
    ----------
    kernels, loss, solver, tol, max_iter, fit_intercept, class_weight, multiclass, dtype,
    approximate, weighting, \
missing, verbose
        As for :class:`MKLClassifier`.
    regularizer
        As for :class:`MKLClassifier`, but None is "elastic-net" if each kernel is on one or two
        columns of a table, as those of :func:`omkl.kernels.per_column`, and the solver is "spicy".
    Cs : int, array of floats > 0 or None
        Values of C. None compares the C that :class:`MKLClassifier` chooses with up to three
        others, each five times as large as the one before. A number spreads as many values evenly
        on a log scale, over three decades above
        :func:`~omkl.batch.smallest_c`, where kernels become active, and over the next three if the largest value is the
        best.
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
        accurate one; with ``Cs=None``, the one that
        :class:`MKLClassifier` chooses, unless the other is more accurate by more than a standard error, too.
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

    Cs: int | ArrayLike | None = None
    cv: int | BaseCrossValidator | Iterable | None = 3
    scoring: str | Callable | None = None
    loss: str | PointwiseLoss = "logistic"
    class_weight: str | dict | None = None
    multiclass: str = "auto"

    _single, _of_columns = MKLClassifier, "elastic-net"
    fit = fit_with_search

    __sklearn_tags__ = classifier_tags


@dataclass(kw_only=True, eq=False, repr=False)
class MKLRegressorCV(RegressorMixin, BatchMKL):
    """Regression with a learned combination of kernels, and C chosen by cross-validation.

    Parameters
    ----------
    kernels, loss, regularizer, solver, tol, max_iter, fit_intercept, dtype, approximate, weighting,
    \
missing, verbose
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

    Cs: int | ArrayLike | None = None
    cv: int | BaseCrossValidator | Iterable | None = 3
    scoring: str | Callable | None = None
    loss: str | PointwiseLoss = "squared"

    _single = MKLRegressor
    fit = fit_with_search


def _search_near_natural_c(
    search: PathSearch, training: TrainingSet, paths: Sequence[HeldOutPath], n_threads: int
) -> float:
    """Return the best C near the one of ``C="auto"``: compare it with neighbours until both of the
    best are known.
    """
    training.select()
    natural = training.natural_c()
    Cs, best = np.array([natural]), natural
    while len(Cs) < MOST_VALUES and best in (Cs[0], Cs[-1]):
        Cs = np.append(Cs, STEP * best) if best == Cs[-1] else np.insert(Cs, 0, best / STEP)
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
        self.training, self.n_folds = training, n_folds
        self.train, self.test = train, test
        self._solutions: dict[float, list[Solution]] = {}
        self._outputs: dict[float, np.ndarray] = {}

    @cached_property
    def fold(self) -> TrainingSet:
        """The samples to learn from, with kernels chosen on them."""
        fold = self.training.on(self.train, self.n_folds)
        fold.select()
        return fold

    def __call__(self, Cs: np.ndarray) -> HeldOut:
        """Return the result for increasing values of C."""
        fold = self.fold
        for C in Cs.tolist():
            if C not in self._solutions:
                self._solve(C)
        active, gaps = [], []
        for C in Cs.tolist():
            solutions = self._solutions[C]
            active.append(
                len(np.unique(np.concatenate([solution.model.active for solution in solutions])))
            )
            gaps.append(abs(largest_gap(solutions)))
        outputs = np.array([self._outputs[C] for C in Cs.tolist()])
        decoder = fold.decoder or NumberDecoder(fold.settings.loss)
        return HeldOut(outputs, np.array(active), np.array(gaps), decoder)

    def _solve(self, C: float) -> None:
        """Solve from the solution at the next smaller C, or else at the smallest."""
        near = None
        if self._solutions:
            smaller = [value for value in self._solutions if value < C]
            near = self._solutions[max(smaller) if smaller else min(self._solutions)]
        solutions = self.fold.solve(C, verbose=False, near=near)
        columns = [
            self.training.outputs(solution.model, self.train)[:, self.test]
            for solution in solutions
        ]
        self._solutions[C] = solutions
        self._outputs[C] = np.concatenate(columns).T + self.fold.centres
