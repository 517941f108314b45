"""What MKLClassifier and MKLRegressor share: kernels and targets in, certified expansions out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, column_or_1d

from omkl._components import check_n_jobs, resolve
from omkl._threads import in_threads
from omkl.batch import Expansion, Solution, Solver
from omkl.data.rows import are_few_rows, plain_targets
from omkl.estimators.certified import CertifiedEstimator
from omkl.estimators.combined_kernels import CombinedKernel
from omkl.estimators.explaining_batch import ExplainsKernels
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.inputs import checked_arrays, forget_columns
from omkl.estimators.kernel_sources import (
    ArrayKernels,
    GivenMatrices,
    compares_sparse,
    default_kernels,
    unpack_source,
)
from omkl.estimators.outputs import check_sample_weight, has_columns
from omkl.estimators.progress import GapProgress
from omkl.estimators.stored_kernels import StoredKernels, in_precision, of_each_output, target_columns
from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

PRECOMPUTED = "precomputed"


class BatchMKL(ExplainsKernels, CombinedKernel, CertifiedEstimator):
    """What the batch estimators share: kernels and targets in, certified expansions out."""

    #: Threads that predict.
    n_jobs: int | None = None

    def __init__(
        self, kernels: Any = None, loss: Any = None, regularizer: Any = None, C: Any = 1.0, solver: Any = "spicy",
        tol: float = 1e-2, max_iter: int | None = None, fit_intercept: bool = True, dtype: Any = "auto",
        approximate: bool | str = "auto", weighting: str = "norms", verbose: bool = False,
    ) -> None:  # fmt: skip
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
        self.weighting = weighting
        self.verbose = verbose

    _plain_attributes = (
        *CertifiedEstimator._plain_attributes,
        "kernel_weights_",
        "unscaled_kernel_weights_",
        "kernel_representations_",
        "left_out_",
        "multilabel_",
        "constant_labels_",
    )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.sparse = self.kernels is None or compares_sparse(self.kernels)
        return tags

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == PRECOMPUTED

    # ---- training -----------------------------------------------------------------------------------------------

    def _resolve(self) -> tuple[PointwiseLoss, Regularizer, Solver]:
        """The parts that the parameters name, checked."""
        loss = self._resolve_loss()
        check_n_jobs(self.n_jobs)
        if self.dtype not in ("auto", "float32", "float64", np.float32, np.float64):
            raise InputError(f'dtype must be "auto", "float32" or "float64", not {self.dtype!r}.')
        if self.approximate not in ("auto", True, False):
            raise InputError(f'approximate must be "auto", True or False, not {self.approximate!r}.')
        if self.weighting not in ("norms", "out-of-sample"):
            raise InputError(f'weighting must be "norms" or "out-of-sample", not {self.weighting!r}.')
        solver = resolve(Solver, self.solver, "solver")
        spec = self.regularizer
        if spec is None:
            by_norms = self.weighting == "norms" or solver.natural_regularizer != "mkl"
            spec = solver.natural_regularizer if by_norms else "elastic-net"
        return loss, resolve(Regularizer, spec, "regularizer"), solver

    def _read(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Any, np.ndarray, np.ndarray]:
        """Where Gram matrices come from, targets and weights: of the samples whose weight is not 0."""
        several = has_columns(y)
        if self._precomputed:
            y = plain_targets(y)
            y = check_array(y, accept_sparse="csr", dtype=None) if several else column_or_1d(y, warn=True)
            y = y.toarray() if sparse.issparse(y) else y
            weights = check_sample_weight(1.0 if sample_weight is None else sample_weight, len(y))
            forget_columns(self)
            source = GivenMatrices(X, len(y), None if weights.all() else np.flatnonzero(weights))
        else:
            numeric = isinstance(self, RegressorMixin)
            X, y = checked_arrays(
                self, X, y, accept_sparse="csr", dtype=np.float64, order="C", y_numeric=numeric, multi_output=several
            )
            y = y.toarray() if sparse.issparse(y) else y
            weights = check_sample_weight(1.0 if sample_weight is None else sample_weight, len(y))
            X = X if weights.all() else X[weights > 0]
            names = getattr(self, "feature_names_in_", None)
            source = ArrayKernels(self._default_kernels(X, names) if self.kernels is None else self.kernels, X, names)
        return source, y[weights > 0], weights[weights > 0]

    def _default_kernels(self, X: Any, names: Any) -> Any:
        """What is learned from where the user names no kernels."""
        return default_kernels(X, names)

    def _fit(self, source: Any, targets: list, weights: np.ndarray, client: Any) -> None:
        """Solve one problem for each ``(rows, target)``; rows None are all samples. Sets what is learned."""
        kept, solutions = in_precision(self, source, client, self._solving(targets, weights))
        targets, solutions = of_each_output(targets, solutions)
        self._learn(source, targets, solutions, kept)
        self._warn(source, targets, solutions, kept)

    def _solving(self, targets: list, weights: np.ndarray) -> Callable[[StoredKernels], tuple[Any, list[Solution]]]:
        """What solves all problems, of kernels as they are stored; which kernels help out of sample comes first."""

        def solved(kernels: StoredKernels) -> tuple[Any, list[Solution]]:
            kernels, solutions = kernels.chosen(target_columns(targets, len(weights)), weights), []
            for rows, target in targets:
                own = weights if rows is None else weights[rows]
                with GapProgress(self.verbose, "kernels") as progress:
                    solutions.append(kernels.on(rows).solve(target, own, self._strength, progress))
            return kernels.kept, solutions

        return solved

    @property
    def _strength(self) -> float:
        """The C of the model that :meth:`fit` learns."""
        return float(self.C)

    def _learn(self, source: Any, targets: list, solutions: list[Solution], kept: np.ndarray | None) -> None:
        """Set what is learned from the solutions of all binary problems, with the kernels that were kept."""
        regularizer = self._resolve()[1].bind(source.names)
        self._source, self._rows = source, [rows for rows, _ in targets]
        self._models = [solution.model for solution in solutions]
        self._weights = [source.weights(m, self._coefficients(m)) for m in self._active]
        self.dual_variables_ = [solution.certificate.rho for solution in solutions]
        histories = [solution.history for solution in solutions if solution.history]
        self.history_ = [
            {"problem": p, **record} if len(histories) > 1 else record
            for p, history in enumerate(histories) for record in history
        ]  # fmt: skip
        norms = [solution.certificate.norms for solution in solutions]
        weights = np.mean([regularizer.normalized_kernel_weights(own) for own in norms], axis=0)
        self.kernel_weights_ = dict(zip(source.names, weights.tolist()))
        unscaled = np.mean([regularizer.kernel_weights(own) * (own > 0) for own in norms], axis=0)
        self.unscaled_kernel_weights_ = dict(zip(source.names, unscaled.tolist()))
        self.kernel_representations_ = source.representations
        stays = np.ones(len(source.names), dtype=bool) if kept is None or not kept.any() else kept
        self.left_out_ = [source.names[m] for m in np.flatnonzero(~stays)]
        self.dual_gap_ = max((solution.certificate.gap for solution in solutions), key=abs)
        self.n_iter_ = max(solution.n_iter for solution in solutions)

    def _advice(self, stalled: bool) -> str:
        """What to do about a gap that is not proven, as the end of a sentence."""
        if self.dual_gap_ <= 0:
            return "which proves nothing: scale the kernels."
        if stalled:
            return f"above tol={self.tol:g}, and rounding leaves no way down: raise tol, lower C, or scale the kernels."
        return f"above tol={self.tol:g}: raise max_iter, or tol."

    def _warn(self, source: Any, targets: list, solutions: list[Solution], kept: np.ndarray | None) -> None:
        """One line each: about no kernel that helps, a gap above the tolerance, a C that leaves out all, or none."""
        self._warn_of_choice(kept, stacklevel=5)
        proven = all(solution.certificate.proves(self.tol) for solution in solutions)
        if not proven:
            warnings.warn(
                f"Stopped at a relative duality gap of {self.dual_gap_:.2g} after {self.n_iter_} iterations, "
                + self._advice(any(solution.stalled for solution in solutions)),
                ConvergenceWarning,
                stacklevel=4,
            )
        n_active, n_kernels = len(self._active), len(source.names)
        if n_active == 0 and proven and any(np.any(solution.certificate.rho) for solution in solutions):
            warnings.warn(f"No kernel is in the model at C={self._strength:g}: raise C.", UserWarning, stacklevel=4)
        elif self._predicts_alike(targets, [solution.certificate.outputs for solution in solutions]):
            warnings.warn(
                f"Training samples get {'one class' if isinstance(self, ClassifierMixin) else 'nearly one prediction'} "
                f"at C={self._strength:g}, all of them: raise C, or scale the kernels.",
                UserWarning,
                stacklevel=4,
            )
        elif (
            n_active == n_kernels > 2 and self.regularizer is None and self._strength == 1.0
            and self._resolve()[1].is_sparse and self.weighting == "norms"
        ):  # fmt: skip
            warnings.warn(
                f"All {n_kernels} kernels are in the model at C=1: lower C to leave some out.",
                UserWarning,
                stacklevel=4,
            )

    def _warn_of_choice(self, kept: np.ndarray | None, stacklevel: int) -> None:
        if kept is not None and not kept.any():
            warnings.warn(
                f"None of {len(kept)} kernels helps measurably on samples that were left out: all are in the model, "
                "and what it predicts may be no better than a constant.",
                UserWarning,
                stacklevel=stacklevel,
            )

    def _predicts_alike(self, targets: list, outputs: list[np.ndarray]) -> bool:
        """Whether training samples of different targets all get one class, or a number within 1% of their range."""
        if not isinstance(self, ClassifierMixin):
            return all(0.0 < np.ptp(own) <= 0.01 * np.ptp(y) for own, (_, y) in zip(outputs, targets))
        if len(outputs) > 1 and targets[0][0] is None and not getattr(self, "multilabel_", False):
            return len(set(np.argmax(outputs, axis=0).tolist())) == 1
        return all(len(set((values > 0).tolist())) == 1 for values in outputs)

    # ---- prediction ---------------------------------------------------------------------------------------------

    def _checked(self, X: Any) -> Any:
        """Inputs of a prediction: an array, or Gram matrices."""
        self._check_is_fitted()
        if isinstance(self._source, ArrayKernels):
            if are_few_rows(X, vars(self)):
                X = np.ascontiguousarray(X, dtype=np.float64)
            else:
                X = checked_arrays(self, X, reset=False, accept_sparse="csr", dtype=np.float64, order="C")
            # between sparse and dense rows kernels have no values
            if sparse.issparse(self._source.X) != sparse.issparse(X):
                X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
            return X
        return self._source.of_prediction(X)

    def _outputs(self, X: Any) -> np.ndarray:
        """Predictions of every problem's model, (n, P): only kernels that are active are computed."""
        X = self._checked(X)
        outputs = np.tile(self.intercept_, (self._source.n_rows(X), 1))

        def add(own: tuple[slice, Iterable[np.ndarray]]) -> None:
            block, parts = own
            for part, weights in zip(parts, self._weights):
                outputs[block] += part @ weights

        in_threads(add, self._source.blocks(X, self._active), self.n_jobs)
        return outputs

    def _coefficients(self, m: int) -> np.ndarray:
        """Dual coefficients of one kernel in all models: (N, P)."""
        dense = np.zeros((self._source.n_samples, len(self._models)))
        for p, (model, rows) in enumerate(zip(self._models, self._rows)):
            index = np.searchsorted(model.active, m)
            if index < len(model.active) and model.active[index] == m:
                dense[slice(None) if rows is None else rows, p] = model.coefficients[index]
        return dense

    @property
    def _active(self) -> np.ndarray:
        """Kernels that are active in any of the models."""
        return np.unique(np.concatenate([model.active for model in self._models]))

    @property
    def n_active_(self) -> int:
        """Number of kernels that prediction needs."""
        return len(self._active)

    @property
    def dual_coef_(self) -> np.ndarray:
        r"""The :math:`\alpha_m` of the representer theorem: (M, N); (P, M, N) for P binary problems."""
        check_is_fitted(self)
        dense = np.zeros((len(self._models), len(self._source.names), self._source.n_samples))
        for m in self._active:
            dense[:, m] = self._coefficients(m).T
        return dense[0] if len(dense) == 1 else dense

    @property
    def intercept_(self) -> np.ndarray:
        """The constant of each model, (P,)."""
        self._check_is_fitted()
        return np.array([model.intercept for model in self._models])

    def _check_is_fitted(self) -> None:
        if "_models" not in vars(self):  # scikit-learn's check takes as long as a row
            check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
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
