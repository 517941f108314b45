r"""Support vector machines with a single kernel, which wrapper methods call at every iteration.

A base SVM takes a Gram matrix ``K`` (N, N), targets (N,) and weights ``c`` of the losses (N,), and returns coefficients
``a`` (N,) and a bias ``b`` that minimise :math:`\sum_i c_i l(y_i, (K a)_i + b) + \frac12 a^\top K a`.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR

from omkl.batch.mkl.problem import Problem
from omkl.exceptions import InputError
from omkl.losses import EpsilonInsensitive, Hinge, PointwiseLoss, Squared

BaseSVM = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, float]]
#: Steps of libsvm in one call: on kernels of huge entries it would go on for minutes. The certificate tells the rest.
MOST_PIVOTS = 1_000_000


def base_svm_for(problem: Problem, svm: Any, tol: float) -> BaseSVM:
    """The base SVM of a problem.

    Parameters
    ----------
    problem : Problem
    svm : callable, scikit-learn estimator or None
        A base SVM; or an estimator for precomputed kernels with its parameter C, ``sample_weight`` in ``fit``, and
        ``support_``, ``dual_coef_`` and ``intercept_`` once it is fitted; None takes what fits the loss.
    tol : float
        Relative duality gap that the whole search aims for. The SVM is solved to a hundredth of it, as a bound from an
        inexact dual is loose.

    Raises
    ------
    InputError
        If there is none for the loss; if all samples are of one class.
    """
    if problem.loss.classifies and np.all(problem.y == problem.y[0]):
        raise InputError("All samples are of one class: an SVM needs samples of both.")
    if svm is None:
        base_svm = _default(problem.loss, max(0.01 * tol, 1e-10))
    elif hasattr(svm, "fit"):
        base_svm = _support_vectors(svm)
    elif callable(svm):
        base_svm = svm
    else:
        raise InputError(
            f"svm must be a scikit-learn estimator, or a function of a Gram matrix, y and loss weights, not {svm!r}."
        )
    return base_svm if problem.intercept else _without_bias(base_svm)


def _default(loss: PointwiseLoss, tol: float) -> BaseSVM:
    if type(loss) is Hinge:
        return _support_vectors(SVC(kernel="precomputed", tol=tol, max_iter=MOST_PIVOTS))
    if type(loss) is EpsilonInsensitive:
        return _support_vectors(SVR(kernel="precomputed", epsilon=loss.epsilon, tol=tol, max_iter=MOST_PIVOTS))
    if type(loss) is Squared:
        return _kernel_ridge
    raise InputError(
        f"Methods that wrap a base SVM know one for the hinge, epsilon-insensitive and squared losses, not for"
        f" {type(loss).__name__}: choose one of these, give one in svm=, or use solver='fista' for a smooth loss."
    )


def _support_vectors(estimator: Any) -> BaseSVM:
    def base_svm(gram, y, weights):
        cost = float(weights.max())
        relative = {} if np.all(weights == cost) else {"sample_weight": weights / cost}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = clone(estimator).set_params(C=cost).fit(gram, y, **relative)
        coefficients = np.zeros(len(y))
        coefficients[fitted.support_] = fitted.dual_coef_[0]
        return coefficients, float(fitted.intercept_[0])

    return base_svm


def _kernel_ridge(gram: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """The linear system of kernel ridge regression, bordered by the constraint that an intercept brings.

    In coefficients divided by the weights, whose column of ones an intercept needs no scaling for.
    """
    n = len(y)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram * weights
    system[np.arange(n), np.arange(n)] += 1.0
    system[:n, n], system[n, :n] = 1.0, weights
    solution = solve(system, np.append(y, 0.0), overwrite_a=True)
    return weights * solution[:n], float(solution[n])


def _without_bias(base_svm: BaseSVM) -> BaseSVM:
    """The same SVM without a bias: beside every sample stands its mirror image ``(-x, -y)``.

    The doubled problem is symmetric, so that its bias is 0; libsvm itself cannot do without.
    """

    def mirrored(gram, y, weights):
        n = len(y)
        both, _ = base_svm(
            np.block([[gram, -gram], [-gram, gram]]), np.concatenate([y, -y]), 0.5 * np.concatenate([weights, weights])
        )
        return both[:n] - both[n:], 0.0

    return mirrored
