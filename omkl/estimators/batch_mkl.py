"""What MKLClassifier and MKLRegressor share: kernels and targets in, certified expansions out."""

import warnings

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from omkl._components import resolve
from omkl.batch import Expansion, Problem, Solver, regularization_path
from omkl.estimators.certified import CertifiedEstimator
from omkl.estimators.kernel_sources import (
    ArrayKernels,
    GivenMatrices,
    compares_sparse,
    default_kernels,
    unpack_source,
)
from omkl.estimators.progress import GapProgress
from omkl.exceptions import InputError
from omkl.kernels import LazyStack
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
            numeric = isinstance(self, RegressorMixin)
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", y_numeric=numeric)
            names = getattr(self, "feature_names_in_", None)
            source = ArrayKernels(default_kernels(X) if self.kernels is None else self.kernels, X, names)
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
        points = list(regularization_path(solver, problem, C, self.tol, self.max_iter))
        worst = max((point.solution for point in points), key=lambda solution: solution.certificate.gap)
        self._warn_above_tolerance(worst.certificate.gap, worst.n_iter)
        return [self._record(point, regularizer) for point in points]

    @staticmethod
    def _record(point, regularizer):
        solution, certificate = point.solution, point.solution.certificate
        return {
            "C": point.strength,
            "kernel_weights": _shares(regularizer.kernel_weights(certificate.norms) * (certificate.norms > 0)),
            "active": len(solution.model.active),
            "dual_gap": certificate.gap,
            "objective": certificate.primal,
            "intercept": solution.model.intercept,
            "n_iter": solution.n_iter,
            "seconds": point.seconds,
            "model": solution.model,
        }

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
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64, order="C")
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernels is None or compares_sparse(self.kernels)
        return tags

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


def _restricted(stack, samples):
    """The kernels on the samples of two classes."""
    if any(isinstance(part, LazyStack) for part in getattr(stack, "stacks", [stack])):
        raise InputError('Kernels that do not fit into memory are for multiclass="ovr" only: choose that, or fewer.')
    return stack.restricted(samples)


def _shares(weights):
    """Weights >= 0 scaled to sum to one; all 0 stay 0."""
    total = weights.sum()
    return weights / total if total > 0 else weights
