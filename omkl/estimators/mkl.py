"""MKLClassifier and MKLRegressor: batch multiple kernel learning with a certificate, as scikit-learn estimators."""

import warnings
from itertools import combinations

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from omkl._named import resolve
from omkl.batch import Expansion, Problem, Solver, regularization_path
from omkl.estimators.certified import CertifiedEstimator
from omkl.estimators.kernel_sources import ArrayKernels, GivenMatrices, default_kernels, unpack_source
from omkl.estimators.progress import GapProgress
from omkl.exceptions import InputError
from omkl.kernels import LazyStack
from omkl.losses import Logistic, PointwiseLoss
from omkl.regularizers import Regularizer

PRECOMPUTED = "precomputed"


class BatchMKL(CertifiedEstimator):
    """What the batch estimators share: kernels and targets in, certified expansions out."""

    def __init__(
        self, kernels=None, loss=None, regularizer=None, C=1.0, solver="spicy", tol=1e-2, max_iter=None,
        fit_intercept=True, dtype="float32", approximate="auto", verbose=True,
    ):  # fmt: skip
        self.kernels = kernels
        self.loss = loss
        self.regularizer = regularizer
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.dtype = dtype
        self.approximate = approximate
        self.verbose = verbose

    _plain_attributes = (*CertifiedEstimator._plain_attributes, "kernel_weights_", "kernel_representations_")

    # ---- training -----------------------------------------------------------------------------------------------

    def _resolve(self):
        """The parts that the parameters name, checked."""
        loss = self._resolve_loss()
        if self.dtype not in ("float32", "float64", np.float32, np.float64):
            raise InputError(f'dtype must be "float32" or "float64", not {self.dtype!r}.')
        if self.approximate not in ("auto", True, False):
            raise InputError(f'approximate must be "auto", True or False, not {self.approximate!r}.')
        solver = resolve(Solver, self.solver, "solver")
        spec = solver.natural_regularizer if self.regularizer is None else self.regularizer
        return loss, resolve(Regularizer, spec, "regularizer"), solver

    def _read(self, X, y):
        """The source of Gram matrices for these training inputs, and the targets as an array."""
        if isinstance(self.kernels, str) and self.kernels == PRECOMPUTED:
            y = column_or_1d(y, warn=True)
            source = GivenMatrices(X, len(y))
        else:
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=isinstance(self, RegressorMixin))
            source = ArrayKernels(default_kernels(X) if self.kernels is None else self.kernels, X)
        return source, y

    def _stack(self, source, client):
        dtype = np.dtype(self.dtype)
        return source.stack(dtype, self.approximate) if client is None else source.distributed_stack(dtype, client)

    def _solve(self, source, targets, client):
        """Solve one problem for each ``(rows, target)``; rows None are all samples. Sets what is learned."""
        loss, regularizer, solver = self._resolve()
        models, duals, history, weights, gaps, iterations = [], [], [], [], [], []
        stack = self._stack(source, client)
        for rows, target in targets:
            kernels = stack if rows is None else _restricted(stack, rows)
            problem = Problem(kernels, target, loss, regularizer, float(self.C), self.fit_intercept)
            with GapProgress(self.verbose, "kernels") as progress:
                solution = solver.solve(problem, self.tol, self.max_iter, on_iteration=progress)
            self._warn_above_tolerance(solution.certificate.gap, solution.n_iter)
            models.append(solution.model)
            duals.append(solution.certificate.rho)
            history.append(solution.history)
            weights.append(_shares(regularizer.kernel_weights(solution.certificate.norms)))
            gaps.append(solution.certificate.gap)
            iterations.append(solution.n_iter)
        self._source, self._models, self._rows = source, models, [rows for rows, _ in targets]
        self._weights = [source.weights(m, self._coefficients(m)) for m in self._active]
        self.dual_variables_, self.history_ = duals, history
        self.kernel_weights_ = dict(zip(source.names, np.mean(weights, axis=0).tolist()))
        self.kernel_representations_ = source.representations
        self.dual_gap_ = max(gaps)
        self.n_iter_ = max(iterations)

    def path(self, X, y, C=20, client=None):
        """Solve for a sequence of strengths, each from the solution of the one before.

        Parameters
        ----------
        X, y
            As for :meth:`fit`; two classes.
        C : int or array
            The strengths; a number of them is spread evenly in the logarithm over three decades below the smallest
            strength at which no kernel is active under the block 1-norm.
        client
            As for :meth:`fit`.

        Returns
        -------
        list of dict
            For each strength, from the largest: ``C``, ``kernel_weights`` (array of M, summing to one), ``active``
            (number of kernels), ``dual_gap`` (relative), ``objective``, ``intercept``, ``n_iter``, ``seconds``.
        """
        # what is fitted stays as it is
        return clone(self)._path(X, y, C, client)

    def _path(self, X, y, C, client):
        loss, regularizer, solver = self._resolve()
        source, y = self._read(X, y)
        targets = self._targets(y)
        if len(targets) > 1:
            raise InputError(
                f"A path is for two classes, but y holds {len(self.classes_)}: choose one against the rest."
            )
        ((_, target),) = targets
        problem = Problem(self._stack(source, client), target, loss, regularizer, 1.0, self.fit_intercept)
        records = regularization_path(solver, problem, C, self.tol, self.max_iter)
        worst = max(records, key=lambda record: record["dual_gap"])
        self._warn_above_tolerance(worst["dual_gap"], worst["n_iter"])
        return records

    def _warn_above_tolerance(self, gap, n_iter):
        if gap > self.tol:
            warnings.warn(
                f"Stopped at a relative duality gap of {gap:.2g} after {n_iter} iterations, above tol={self.tol:g}: "
                "raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    # ---- prediction ---------------------------------------------------------------------------------------------

    def _outputs(self, X):
        """Predictions of every problem's model, (n, P): only kernels that are active are computed."""
        check_is_fitted(self)
        if isinstance(self._source, ArrayKernels):
            X = validate_data(self, X, reset=False, dtype=np.float64)
        outputs = np.tile(self.intercept_, (self._source.n_rows(X), 1))
        for block, parts in self._source.blocks(X, self._active):
            for part, weights in zip(parts, self._weights):
                outputs[block] += part @ weights
        return outputs

    def _coefficients(self, m):
        """Dual coefficients of one kernel in all models: (N, P)."""
        dense = np.zeros((self._source.n_samples, len(self._models)))
        for p, (model, rows) in enumerate(zip(self._models, self._rows)):
            place = np.searchsorted(model.active, m)
            if place < len(model.active) and model.active[place] == m:
                dense[slice(None) if rows is None else rows, p] = model.coefficients[place]
        return dense

    @property
    def _active(self):
        """Kernels that are active in any of the models."""
        return np.unique(np.concatenate([model.active for model in self._models]))

    @property
    def n_active_(self):
        """Number of kernels that prediction needs."""
        return len(self._active)

    @property
    def dual_coef_(self):
        r"""The :math:`\alpha_m` of the representer theorem: (M, N); (P, M, N) for P binary problems."""
        check_is_fitted(self)
        dense = np.zeros((len(self._models), len(self._source.names), self._source.n_samples))
        for m in self._active:
            dense[:, m] = self._coefficients(m).T
        return dense[0] if len(dense) == 1 else dense

    @property
    def intercept_(self):
        """The constant of each model, (P,)."""
        check_is_fitted(self)
        return np.array([model.intercept for model in self._models])

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_models")

    # ---- model files --------------------------------------------------------------------------------------------

    def _describe(self, packer):
        models = [{**vars(model), "rows": rows} for model, rows in zip(self._models, self._rows)]
        return {
            "source": self._source.pack(packer, self._active),
            "weights": [
                packer.pack(weights, "weights of features") if m in self._source.ranks else None
                for m, weights in zip(self._active, self._weights)
            ],
            "models": [packer.pack(model, "a model of the estimator") for model in models],
        }

    def _restore(self, manifest, unpacker):
        self._source = unpack_source(manifest["source"], unpacker)
        models = [unpacker.unpack(packed) for packed in manifest["models"]]
        self._rows = [model.pop("rows") for model in models]
        self._models = [Expansion(**model) for model in models]
        self._weights = [
            self._coefficients(m) if packed is None else unpacker.unpack(packed)
            for m, packed in zip(self._active, manifest["weights"])
        ]


class MKLClassifier(ClassifierMixin, BatchMKL):
    r"""Classifier whose combination of kernels is learned with it, and certified by a duality gap.

    .. math:: \min_{f_m, b} \sum_i l\Bigl(y_i, \sum_m f_m(x_i) + b\Bigr) + C\, \psi(\|f_1\|, \ldots, \|f_M\|)

    Parameters
    ----------
    kernels : list, dict, "precomputed" or None
        Kernels on the rows of X as strings or objects (``"gaussian:sigma2=5"``, ``Gaussian(5, on=slice(0, 3))``), with
        names if it is a dict; "precomputed" where X is Gram matrices: a list of M arrays (N, N), or one (M, N, N)
        array. ``"gaussian:sigma2=5,features=2000"`` approximates a kernel by Fourier features,
        ``"chi2:features=500"`` by the Nyström method. None takes linear, quadratic and Gaussian kernels of five widths.
    loss : {"logistic", "hinge", "squared-hinge"} or PointwiseLoss
    regularizer : {"block1", "elastic-net", "block-q", "uniform", "mkl", ...}, Regularizer or None
        The function :math:`\psi` of the norms. "block1" is sparse, "uniform" keeps all kernels alike; "mkl" is the
        squared block 1-norm of online MKL, which "spicy" solves as SimpleMKL and its relatives do. None
        takes what the solver is for: "block1" for most, "mkl" for these, "elastic-net" for "one-step",
        "elastic-net-weights" for "gmkl".
    C : float > 0
        Strength of the regularizer on the summed loss: the larger, the fewer kernels.
    solver : {"spicy", "one-step", "gmkl", "ista", "fista", "silp", "simplemkl", "levelmkl", "hessianmkl", "lp-norm"}
        Or a :class:`~omkl.batch.Solver`. "spicy" and "one-step" are the fast ones; "ista" and "fista" are for smooth
        losses; the others alternate between kernel weights and a support vector machine, and are for the hinge.
    tol : float > 0
        Relative duality gap to reach, over all kernels.
    max_iter : int, optional
        Outer iterations at most.
    fit_intercept : bool
        Whether there is a constant b, which is not regularized.
    multiclass : {"ovr", "ovo"}
        How more than two classes are split into binary problems: each against the rest, or each pair.
    dtype : {"float32", "float64"}
        How Gram matrices are stored; sums are in float64 always. A gap below about 1e-5 needs "float64".
    approximate : {"auto", True, False}
        What becomes of kernels that do not fit into memory: True replaces them by Nyström approximations on at most
        500 landmarks, with a warning that says how much these leave out; False computes them anew in every pass;
        "auto" approximates where a single Gram matrix takes more than 256 MiB. Model, prediction and certificate are
        those of the kernels as they are held, which ``kernel_representations_`` tells.
    verbose : bool
        Show a progress bar, if it takes longer than a second and standard error is a terminal.

    Attributes
    ----------
    classes_ : array of shape (K,)
    kernel_weights_ : dict of str to float
        Weight of each kernel, in [0, 1], summing to one (all 0 if no kernel is active); the mean over binary problems.
    kernel_representations_ : dict of str to str
        How each kernel was held: "dense" (a Gram matrix), "factor of rank 300" (a feature map of few dimensions), or
        "computed in every pass".
    dual_gap_ : float
        Relative duality gap reached, the largest of the binary problems; computed from the model over all kernels.
    n_iter_ : int
        Outer iterations, the largest of the binary problems.
    dual_coef_ : array of shape (M, N), or (P, M, N) for P > 1 binary problems
    intercept_ : array of shape (P,)
    n_active_ : int
        Number of kernels that prediction needs.
    dual_variables_ : list of arrays
        For each binary problem the dual feasible :math:`\\rho` whose value bounds the optimum from below: with
        ``dual_coef_`` and ``intercept_`` all that is needed to verify ``dual_gap_``. Not kept in model files.
    history_ : list of list of dict
        For each binary problem a record an iteration; see :class:`omkl.batch.Solution`.

    References
    ----------
    Suzuki and Tomioka (2011), SpicyMKL: a fast algorithm for multiple kernel learning with thousands of kernels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier(["linear", "gaussian"], C=0.1).fit(X, y)
    >>> bool(model.score(X, y) > 0.95 and model.dual_gap_ <= 0.01)
    True
    """

    def __init__(
        self, kernels=None, loss="logistic", regularizer=None, C=1.0, solver="spicy", tol=1e-2, max_iter=None,
        fit_intercept=True, multiclass="ovr", dtype="float32", approximate="auto", verbose=True,
    ):  # fmt: skip
        super().__init__(
            kernels, loss, regularizer, C, solver, tol, max_iter, fit_intercept, dtype, approximate, verbose
        )
        self.multiclass = multiclass

    def fit(self, X, y, client=None):
        """Learn kernels and classifier.

        Parameters
        ----------
        X : array of shape (N, d), or with ``kernels="precomputed"`` a list of M Gram matrices (N, N) or one array
        y : array of shape (N,)
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
        if self.multiclass not in ("ovr", "ovo"):
            raise InputError(f'multiclass must be "ovr" or "ovo", not {self.multiclass!r}.')
        self._resolve()
        source, y = self._read(X, y)
        targets = self._targets(y)
        if client is not None and targets[0][0] is not None:
            raise InputError(
                'multiclass="ovo" needs the kernels on one machine: choose "ovr", or leave out the client.'
            )
        self._solve(source, targets, client)
        return self

    def _targets(self, y):
        """The binary problems: samples (None for all) and targets -1 and +1."""
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        K = len(self.classes_)
        if K < 2:
            raise InputError(f"y holds one class only, {self.classes_[0]!r}: a classifier needs two.")
        if K == 2:
            return [(None, 2.0 * codes - 1.0)]
        if self.multiclass == "ovr":
            return [(None, np.where(codes == k, 1.0, -1.0)) for k in range(K)]
        pairs = []
        for a, b in combinations(range(K), 2):
            rows = np.flatnonzero((codes == a) | (codes == b))
            pairs.append((rows, np.where(codes[rows] == b, 1.0, -1.0)))
        return pairs

    def decision_function(self, X):
        """Scores: (n,) with two classes, positive for ``classes_[1]``; (n, K) with more.

        Parameters
        ----------
        X : array of shape (n, d), or with ``kernels="precomputed"`` one array (n, N) a kernel, of test against \
training samples; kernels that are not active may be None
        """
        outputs = self._outputs(X)
        K = len(self.classes_)
        if K == 2:
            return outputs[:, 0]
        if self.multiclass == "ovr":
            return outputs
        return _ovr_decision_function(outputs > 0, outputs, K)

    def predict(self, X):
        """Best class of each sample, (n,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]

    def _is_probabilistic(self):
        return isinstance(resolve(PointwiseLoss, self.loss, "loss"), Logistic) and self.multiclass == "ovr"

    @available_if(_is_probabilistic)
    def predict_proba(self, X):
        """Probability of each class, (n, K): the logistic loss, one-vs-rest probabilities scaled to sum to one."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = expit(scores)
            return np.column_stack([1.0 - positive, positive])
        each = expit(scores)
        return each / each.sum(axis=1, keepdims=True)


class MKLRegressor(RegressorMixin, BatchMKL):
    r"""Regression with a learned combination of kernels, certified by a duality gap; see :class:`MKLClassifier`.

    Parameters
    ----------
    kernels, regularizer, C, solver, tol, max_iter, fit_intercept, dtype, approximate, verbose
        As for :class:`MKLClassifier`.
    loss : {"squared", "epsilon-insensitive", "huber"} or PointwiseLoss
        "epsilon-insensitive:epsilon=0.2" and "huber:delta=0.5" set their parameters, in units of y.

    Attributes
    ----------
    kernel_weights_, kernel_representations_, dual_gap_, n_iter_, dual_coef_, intercept_, n_active_, dual_variables_, \
history_
        As for :class:`MKLClassifier`, of one problem.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(80, 2))
    >>> model = MKLRegressor(["gaussian:on=0:1", "gaussian:on=1:2"], C=0.1).fit(X, np.sin(X[:, 0]))
    >>> model.kernel_weights_["gaussian:on=0:1"] > 0.8
    True
    """

    def __init__(
        self, kernels=None, loss="squared", regularizer=None, C=1.0, solver="spicy", tol=1e-2, max_iter=None,
        fit_intercept=True, dtype="float32", approximate="auto", verbose=True,
    ):  # fmt: skip
        super().__init__(
            kernels, loss, regularizer, C, solver, tol, max_iter, fit_intercept, dtype, approximate, verbose
        )

    def fit(self, X, y, client=None):
        """Learn kernels and regression function.

        Parameters
        ----------
        X : array of shape (N, d), or with ``kernels="precomputed"`` a list of M Gram matrices (N, N) or one array
        y : array of shape (N,)
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
        self._resolve()
        source, y = self._read(X, y)
        self._solve(source, self._targets(y), client)
        return self

    def _targets(self, y):
        y = np.asarray(y, dtype=np.float64)
        if not np.isfinite(y).all():
            raise InputError("y holds nan or infinite values: targets must be finite.")
        if len(y) > 1 and np.ptp(y) == 0.0:
            warnings.warn(f"y is constant ({y[0]:g}): the model is that constant.", UserWarning, stacklevel=3)
        return [(None, y)]

    def predict(self, X):
        """Predicted target of each sample, (n,)."""
        return self._outputs(X)[:, 0]


def _restricted(stack, samples):
    """The kernels on the samples of two classes."""
    if any(isinstance(part, LazyStack) for part in getattr(stack, "stacks", [stack])):
        raise InputError('Kernels that do not fit into memory are for multiclass="ovr" only: choose that, or fewer.')
    return stack.restricted(samples)


def _shares(weights):
    """Weights >= 0 scaled to sum to one; all 0 stay 0."""
    total = weights.sum()
    return weights / total if total > 0 else weights
