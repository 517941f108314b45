"""MKLClassifier and MKLRegressor: certified batch multiple kernel learning."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from omkl.losses import PointwiseLoss
from omkl.mkl.base import BatchMKL


@dataclass(kw_only=True, eq=False, repr=False)
class MKLClassifier(ClassifierMixin, BatchMKL):
    r"""Classifier that learns a combination of kernels, certified by a duality gap.

    .. math:: \min_{f_m, b} C \sum_i l\Bigl(y_i, \sum_m f_m(x_i) + b\Bigr)
        + \psi(\|f_1\|, \ldots, \|f_M\|)

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
    solver : str or Solver
        "spicy" and "one-step" are fast; "ista" and "fista" are for smooth losses; "gmkl", "silp",
        "simplemkl", "levelmkl", "hessianmkl" and "lp-norm" alternate between kernel weights and a
        support vector machine, and are for the hinge. Or a :class:`~omkl.batch.Solver`.
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.class_weight is None  # labels in columns of y
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class MKLRegressor(RegressorMixin, BatchMKL):
    """Regression with a learned combination of kernels, certified by a duality gap.

    It is the regressor to :class:`MKLClassifier`.

    Parameters
    ----------
    kernels, regularizer, C, solver, tol, max_iter, fit_intercept, dtype, approximate, \
weighting, missing, n_jobs, verbose
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
    kernel_weights_, kernel_representations_, left_out_, evidence_, dual_gap_, n_iter_, \
dual_coef_, intercept_, n_active_, feature_importances_, dual_variables_, history_, C_, \
column_means_, missing_columns_, column_scales_
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
