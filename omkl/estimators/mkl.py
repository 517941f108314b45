"""MKLClassifier and MKLRegressor: batch multiple kernel learning with a certificate, as scikit-learn estimators."""

import warnings
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.multiclass import _ovr_decision_function

from omkl.batch import Solver
from omkl.estimators.certified import unchanged_if_refused
from omkl.estimators.classes import finite_targets
from omkl.estimators.kernel_paths import KernelPaths
from omkl.estimators.multilabel import MultilabelClassifier
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


class MKLClassifier(MultilabelClassifier, KernelPaths):
    r"""Classifier whose combination of kernels is learned with it, and certified by a duality gap.

    .. math:: \min_{f_m, b} C \sum_i l\Bigl(y_i, \sum_m f_m(x_i) + b\Bigr) + \psi(\|f_1\|, \ldots, \|f_M\|)

    Parameters
    ----------
    kernels : list, dict, "precomputed" or None
        Kernels on the rows of X as strings or objects (``"gaussian:sigma2=5"``, ``Gaussian(5, on=slice(0, 3))``), with
        names if it is a dict; "precomputed" where X is Gram matrices. ``"gaussian:sigma2=5,features=2000"``
        approximates a kernel by Fourier features, ``"chi2:features=500"`` by the Nyström method. None takes linear,
        quadratic and Gaussian kernels of five widths.
    loss : {"logistic", "hinge", "squared-hinge"} or PointwiseLoss
    regularizer : {"block1", "elastic-net", "block-q", "uniform", "mkl", ...}, Regularizer or None
        The function :math:`\psi` of the norms. "mkl" is the squared block 1-norm of online MKL, with which a model
        scales with the targets, whatever their unit; "block1" is sparser, "uniform" keeps all kernels alike. None is
        "elastic-net" for the solver "one-step", "elastic-net-weights" for "gmkl", "lp-norm" for its own, else "mkl", or
        "elastic-net" among kernels that were chosen out of sample.
    C : float > 0
        Weight of the losses: the larger, the closer the fit, as in scikit-learn's SVC.
    solver : {"spicy", "one-step", "gmkl", "ista", "fista", "silp", "simplemkl", "levelmkl", "hessianmkl", "lp-norm"}
        Or a :class:`~omkl.batch.Solver`. "spicy" and "one-step" are the fast ones; "ista" and "fista" are for smooth
        losses; the others alternate between kernel weights and a support vector machine, and are for the hinge.
    tol : float > 0
        Relative duality gap to reach, over all kernels.
    max_iter : int, optional
        Outer iterations at most.
    fit_intercept : bool
        Whether there is a constant b, which is not regularized.
    multiclass : {"auto", "shared", "ovr", "ovo"}
        How more than two classes are told apart. "shared" learns a function for each, against the rest, in one problem,
        with one weight a kernel for all of them: :math:`\|f_m\|` above is the root of the sum of the classes' squared
        norms. "ovr" learns the same functions one after the other, each with kernel weights of its own, and "ovo" one
        for each pair. Samples with several labels at once have a function for each label, "shared" or "ovr". "auto" is
        "shared" where the solver can, as "spicy" and "one-step" do, else "ovr".
    class_weight : None, "balanced" or dict
        Weights of the classes' losses, as in scikit-learn: "balanced" gives every class the same sum of weights.
    dtype : {"auto", "float32", "float64"}
        How Gram matrices are stored; sums are in float64 always. "auto" takes double precision where that is 64 MiB at
        most, or where rounding in single precision could falsify the duality gap by a tenth of ``tol``.
    approximate : {"auto", True, False}
        What becomes of kernels that do not fit into memory: True replaces them by Nyström approximations on at most
        500 landmarks, with a warning that says how much these leave out; False computes them anew in every pass;
        "auto" approximates where a single Gram matrix takes more than 256 MiB. Model, prediction and certificate are
        those of the kernels as they are held, which ``kernel_representations_`` tells.
    weighting : {"norms", "out-of-sample"}
        "out-of-sample" leaves out kernels that do not help on samples which were left out, before the problem is solved
        with the others; they are in ``left_out_``. "norms" leaves out what the regularizer does, which looks at the fit
        of the samples at hand: a kernel that tells these apart fits them, whatever it says of others. The choice is
        made by leave-one-out in closed form, for the squared loss and without regard to C, by
        :func:`~omkl.batch.helpful_kernels`. It looks at 1000 samples at most, at fewer where there are more than 250
        kernels, takes memory for a few matrices of these, and fetches every kernel from the workers of a cluster.
        Samples must be independent: one that is there twice is not left out. Where no kernel helps all are kept, with a
        warning.
    n_jobs : int or None
        Threads that predict, each some of the rows; None is one, -1 one for each core. The bits do not depend on it.
    verbose : bool
        Show a progress bar, if it takes longer than a second; where standard error is no terminal, a line every half
        minute.

    Attributes
    ----------
    classes_ : array of shape (K,), or the numbers of the L columns of indicators
    loss_ : str or PointwiseLoss
        The loss that was learned with; probabilities are of it, whatever ``loss`` is set to later.
    multilabel_ : bool
        Whether targets were indicators of labels.
    constant_labels_ : dict of int to bool
        Labels that all samples have, or none: nothing is learned of them, and they are predicted so.
    kernel_weights_ : dict of str to float
        Weight of each kernel, in [0, 1], summing to one (all 0 if no kernel is active); of several problems, their
        mean.
    unscaled_kernel_weights_ : dict of str to float
        The same on the scale of the regularizer: for "gmkl" the weights :math:`\theta` of Citi (2015), which fulfil
        :math:`\eta \|\theta\|_1 + (1 - \eta) \|\theta\|_2^2 = 1`.
    kernel_representations_ : dict of str to str
        How each kernel was held: "dense" (a Gram matrix), "factor of rank 300" (a feature map of few dimensions), or
        "computed in every pass".
    dual_gap_ : float
        Relative duality gap reached, the largest of the binary problems; computed from the model over all kernels.
    n_iter_ : int
        Outer iterations, the largest of the binary problems.
    dual_coef_ : array of shape (M, N), or (P, M, N) for P > 1 classes or pairs of them
    intercept_ : array of shape (P,)
    left_out_ : list of str
        The kernels that do not help on samples left out, if ``weighting`` asks for it; their weight is 0.
    n_active_ : int
        Number of kernels that prediction needs.
    dual_variables_ : list of arrays
        For each class, or pair, the dual feasible :math:`\\rho` whose value bounds the optimum from below: with
        ``dual_coef_`` and ``intercept_`` all that is needed to verify ``dual_gap_``. Not kept in model files.
    history_ : list of dict
        A flat record an iteration, see :class:`omkl.batch.GapMonitor`; of several binary problems one after the other,
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

    def __init__(
        self, kernels: Any = None, *, loss: Any = "logistic", regularizer: Any = None, C: float = 1.0,
        solver: Any = "spicy", tol: float = 1e-2, max_iter: int | None = None, fit_intercept: bool = True,
        class_weight: Any = None, multiclass: str = "auto", dtype: Any = "auto", approximate: Any = "auto",
        weighting: str = "norms", n_jobs: int | None = None, verbose: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            kernels, loss, regularizer, C, solver, tol, max_iter, fit_intercept, dtype, approximate, weighting,
            verbose,
        )  # fmt: skip
        self.n_jobs = n_jobs
        self.class_weight = class_weight
        self.multiclass = multiclass

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, client: Any = None
    ) -> "MKLClassifier":
        """Learn kernels and classifier.

        Parameters
        ----------
        X : array of shape (N, d), or with ``kernels="precomputed"`` Gram matrices (N, N): a dict with their names, a \
list, an array (N, N, M), a single matrix, or :class:`~omkl.kernels.GramMatrices`
        y : array of shape (N,), or indicators (N, L) of 0 and 1
            Classes, or the labels that each sample has: L of them, any number at once.
        sample_weight : array of shape (N,), optional
            Weights >= 0 of the samples' losses; those of weight 0 are left out.
        client : dask.distributed.Client, optional
            Partition the kernels over the workers of its cluster: the model is the same, and prediction needs no
            cluster. Meant for the solvers "spicy" and "one-step". A worker that dies costs time only.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, there is one class only, or a matrix is not a kernel.
        omkl.exceptions.DistributionError
            If the cluster cannot be reached, has no workers, or loses them again and again.
        """
        with unchanged_if_refused(self):
            self._resolve()
            source, y, weights = self._read(X, y, sample_weight)
            targets, weights = self._targets(y, weights)
            if client is not None and targets[0][0] is not None:
                raise InputError(
                    'multiclass="ovo" needs the kernels on one machine: choose another, or leave out the client.'
                )
            self._fit(source, targets, weights, client)
        return self

    def _resolve(self) -> tuple[PointwiseLoss, Regularizer, Solver]:
        parts = super()._resolve()
        if self.multiclass not in ("auto", "shared", "ovr", "ovo"):
            raise InputError(f'multiclass must be "auto", "shared", "ovr" or "ovo", not {self.multiclass!r}.')
        if self.multiclass == "shared" and not parts[2].several_outputs:
            raise InputError(
                f'The solver {self.solver!r} learns one function at a time: choose multiclass="ovr", or "spicy".'
            )
        return parts

    def _targets(self, y: np.ndarray, weights: np.ndarray) -> tuple[list, np.ndarray]:
        """Problems, as samples (None for all) and targets -1 and +1; and weights times those of classes.

        The one of all classes together has a column for each.
        """
        if y.ndim == 2:
            return self._each_or_shared(self._learn_labels(y)), weights
        self.multilabel_, self.constant_labels_ = False, {}
        codes = self._learn_classes(y)
        weights = np.asarray(self._times_class_weights(codes, weights))
        if self.multiclass != "ovo" or len(self.classes_) == 2:
            return self._each_or_shared(np.column_stack(self._one_vs_rest(codes))), weights
        pairs = []
        for a, b in combinations(range(len(self.classes_)), 2):
            rows = np.flatnonzero((codes == a) | (codes == b))
            pairs.append((rows, np.where(codes[rows] == b, 1.0, -1.0)))
        return pairs, weights

    def _each_or_shared(self, columns: np.ndarray) -> list:
        """One problem of all columns of targets (N, P) where kernel weights are shared, else one for each."""
        if self.multiclass != "ovr" and columns.shape[1] > 1 and self._resolve()[2].several_outputs:
            return [(None, columns)]
        return [(None, targets) for targets in np.ascontiguousarray(columns.T)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) with two classes, positive for ``classes_[1]``; (n, K) with more; (n, L) of L labels.

        Parameters
        ----------
        X : array of shape (n, d), or with ``kernels="precomputed"`` one array (n, N) a kernel, of test against \
training samples; kernels that are not active may be None
        """
        outputs = self._outputs(X)
        if self.multilabel_:
            return self._scores_of_labels(outputs)
        if len(self.classes_) == 2:
            return outputs[:, 0]
        return self._scores_of(outputs)

    def _scores_of(self, outputs: np.ndarray) -> np.ndarray:
        """Scores (n, K) of more than two classes, from the outputs of their problems."""
        if self._learned_pairs():
            return _ovr_decision_function(outputs > 0, outputs, len(self.classes_))
        return outputs

    def _learned_pairs(self) -> bool:
        """Whether each problem was one of two classes; ``multiclass`` may have been set since."""
        return self._rows[0] is not None

    def _is_probabilistic(self):
        pairs = self._learned_pairs() if hasattr(self, "_rows") else self.multiclass == "ovo"
        return super()._is_probabilistic() and not pairs


class MKLRegressor(RegressorMixin, KernelPaths):
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
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(80, 2))
    >>> model = MKLRegressor(["gaussian:on=0:1", "gaussian:on=1:2"], C=10.0).fit(X, np.sin(X[:, 0]))
    >>> model.kernel_weights_["gaussian:on=0:1"] > 0.8
    True
    """

    def __init__(
        self, kernels: Any = None, *, loss: Any = "squared", regularizer: Any = None, C: float = 1.0,
        solver: Any = "spicy", tol: float = 1e-2, max_iter: int | None = None, fit_intercept: bool = True,
        dtype: Any = "auto", approximate: Any = "auto", weighting: str = "norms", n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            kernels, loss, regularizer, C, solver, tol, max_iter, fit_intercept, dtype, approximate, weighting,
            verbose,
        )  # fmt: skip
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, client: Any = None
    ) -> "MKLRegressor":
        """Learn kernels and regression function.

        Parameters
        ----------
        X : array of shape (N, d), or with ``kernels="precomputed"`` Gram matrices (N, N): a dict with their names, a \
list, an array (N, N, M), a single matrix, or :class:`~omkl.kernels.GramMatrices`
        y : array of shape (N,), or (N, K) for K outputs
            Outputs share their kernels: each has a function, and all have the same kernel weights.
        sample_weight : array of shape (N,), optional
            Weights >= 0 of the samples' losses; those of weight 0 are left out.
        client : dask.distributed.Client, optional
            Partition the kernels over the workers of its cluster: the model is the same, and prediction needs no
            cluster. Meant for the solvers "spicy" and "one-step". A worker that dies costs time only.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter is not as described, or a matrix is not a kernel.
        omkl.exceptions.DistributionError
            As for :meth:`MKLClassifier.fit`.
        """
        with unchanged_if_refused(self):
            self._resolve()
            source, y, weights = self._read(X, y, sample_weight)
            self._fit(source, *self._targets(y, weights), client)
        return self

    def _targets(self, y: np.ndarray, weights: np.ndarray) -> tuple[list, np.ndarray]:
        y = finite_targets(y, all_at_hand=True)
        if y.ndim == 2:
            shared = self._resolve()[2].several_outputs
            return [(None, y)] if shared else [(None, column) for column in np.ascontiguousarray(y.T)], weights
        # where the loss is flat around the target other constants are as good
        if len(y) > 1 and np.ptp(y) == 0.0 and self.fit_intercept and not self._resolve()[0].has_kink:
            warnings.warn(f"y is constant ({y[0]:g}): the model is that constant.", UserWarning, stacklevel=3)
        return [(None, y)], weights

    def predict(self, X: Any) -> np.ndarray:
        """Predicted target of each sample, (n,), or (n, K) for K outputs."""
        outputs = self._outputs(X)
        return outputs if outputs.shape[1] > 1 else outputs[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
