"""Parameters and inputs of batch estimators of kernels, checked on their way in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, column_or_1d

from omkl._components import check_n_jobs, resolve
from omkl.batch.solver import Solver
from omkl.data.frames import are_few_rows, plain_targets
from omkl.estimators.batch import is_a_classifier, resolve_loss
from omkl.estimators.targets import has_columns
from omkl.estimators.validation import (
    check_parameters,
    check_sample_weight,
    checked_arrays,
    column_names_of,
    forget_columns,
)
from omkl.exceptions import InputError
from omkl.features.encoder import KernelSpecs
from omkl.kernels.gram import GramMatrices
from omkl.kernels.inputs import Vectors
from omkl.kernels.stack import KernelStack
from omkl.mkl.gram_storage import precision
from omkl.mkl.kernel_sources import (
    ArrayKernels,
    GivenMatrices,
    KernelInputs,
    KernelSource,
    default_kernels,
    is_precomputed,
)
from omkl.mkl.targets import Settings
from omkl.mkl.training import TrainingSet
from omkl.regularizers import Regularizer

if TYPE_CHECKING:
    from omkl.distributed.stack import Client


def prepare(
    estimator: Any, X: KernelInputs, y: ArrayLike, sample_weight: ArrayLike | None, client: Client | None
) -> tuple[KernelSource, TrainingSet]:
    """Check the parameters and data of a :class:`~omkl.mkl.base.BatchMKL`, which notes the columns of X.

    Return the source of Gram matrices, and the samples of weight > 0.
    """
    settings = read_settings(estimator)
    source, targets, weights = read_samples(estimator, estimator.kernels, X, y, sample_weight)
    dtype = precision(estimator.dtype, len(source.names), source.n_samples, settings.tol)
    settings = settings._replace(regularizer=settings.regularizer.bind(source.names))

    def store() -> KernelStack:
        return source.stack(dtype, estimator.approximate, client)

    return source, TrainingSet(store, targets, weights, settings, warns=True)


def read_settings(estimator: Any) -> Settings:
    """Check the parameters of a :class:`~omkl.mkl.base.BatchMKL`, and return those of its problems as objects."""
    check_parameters(estimator, estimator._constraints)
    check_n_jobs(estimator.n_jobs)
    loss, solver = resolve_loss(estimator), resolve(Solver, estimator.solver, "solver")
    if estimator.multiclass == "shared" and not solver.several_outputs:
        raise InputError(f'multiclass="shared" needs the solver "spicy" or "one-step", got {estimator.solver!r}.')
    spec = estimator.regularizer
    if spec is None:
        by_norms = estimator.weighting == "norms" or solver.natural_regularizer != "mkl"
        spec = solver.natural_regularizer if by_norms else "elastic-net"
    return Settings(
        loss,
        resolve(Regularizer, spec, "regularizer"),
        solver,
        bool(estimator.fit_intercept),
        estimator.tol,
        estimator.max_iter,
        estimator.multiclass,
        estimator.class_weight,
        estimator.weighting,
    )


def read_samples(
    estimator: BaseEstimator,
    kernels: KernelSpecs | None,
    X: KernelInputs,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
) -> tuple[KernelSource, np.ndarray, np.ndarray]:
    """Check training data; return the source of the N samples of weight > 0, their targets and weights."""
    several = has_columns(y)
    if is_precomputed(kernels):
        targets = plain_targets(y)
        targets = check_array(targets, accept_sparse="csr", dtype=None) if several else column_or_1d(targets, warn=True)
        forget_columns(estimator)
    else:
        rows: Any
        checks: dict[str, Any] = {"y_numeric": not is_a_classifier(estimator), "multi_output": several}
        rows, targets = checked_arrays(estimator, X, y, accept_sparse="csr", dtype=np.float64, order="C", **checks)
    targets = targets.toarray() if sparse.issparse(targets) else targets
    weights = check_sample_weight(1.0 if sample_weight is None else sample_weight, len(targets))
    kept = None if weights.all() else np.flatnonzero(weights)
    source: KernelSource
    if is_precomputed(kernels):
        source = GivenMatrices(X, len(targets), kept)
    else:
        rows, names = rows if kept is None else rows[kept], column_names_of(estimator)
        source = ArrayKernels(default_kernels(rows, names) if kernels is None else kernels, rows, names)
    return source, targets[weights > 0], weights[weights > 0]


def read_inputs(estimator: BaseEstimator, source: KernelSource, X: KernelInputs) -> Vectors | GramMatrices:
    """Check inputs of a prediction."""
    if not isinstance(source, ArrayKernels):
        return source.of_prediction(X)
    if are_few_rows(X, estimator.__dict__):
        X = np.ascontiguousarray(X, dtype=np.float64)
    else:
        X = checked_arrays(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64, order="C")
    # between sparse and dense rows kernels have no values
    if sparse.issparse(source.X) != sparse.issparse(X):
        X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
    return X
