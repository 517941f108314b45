r"""Machines with a single kernel, which wrapper methods call at every iteration.

A machine takes a Gram matrix ``K`` (N, N), targets (N,) and a cost ``C``, and returns coefficients ``a`` (N,) and a
bias ``b`` that minimise :math:`C \sum_i l(y_i, (K a)_i + b) + \frac12 a^\top K a`.
"""

import numpy as np
from scipy.linalg import solve
from sklearn.base import clone
from sklearn.svm import SVC, SVR

from omkl.exceptions import InputError
from omkl.losses import EpsilonInsensitive, Hinge, Squared


def machine_for(problem, svm, tol):
    """The machine of a problem.

    Parameters
    ----------
    problem : Problem
    svm : callable, scikit-learn estimator or None
        A machine; or an SVM for precomputed kernels, with its parameter C, and ``support_``, ``dual_coef_`` and
        ``intercept_`` once it is fitted; None takes what fits the loss.
    tol : float
        Relative duality gap that the whole search aims for. The machine is solved to a hundredth of it, as a bound
        from an inexact dual is loose.

    Raises
    ------
    InputError
        If there is none for the loss; if all samples are of one class.
    """
    if problem.loss.classifies and np.all(problem.y == problem.y[0]):
        raise InputError("All samples are of one class: an SVM needs samples of both.")
    if svm is None:
        machine = _default_machine(problem.loss, max(0.01 * tol, 1e-10))
    elif hasattr(svm, "fit"):
        machine = _support_vectors(svm)
    elif callable(svm):
        machine = svm
    else:
        raise InputError(f"svm must be a scikit-learn estimator or a function of a Gram matrix, y and C, not {svm!r}.")
    return machine if problem.intercept else _without_bias(machine)


def _default_machine(loss, tol):
    if isinstance(loss, Hinge):
        return _support_vectors(SVC(kernel="precomputed", tol=tol))
    if isinstance(loss, EpsilonInsensitive):
        return _support_vectors(SVR(kernel="precomputed", epsilon=loss.epsilon, tol=tol))
    if isinstance(loss, Squared):
        return _kernel_ridge
    raise InputError(
        f"Methods that wrap a single-kernel machine know one for the hinge, epsilon-insensitive and squared losses, not"
        f" for {type(loss).__name__}: choose one of these, give one in svm=, or use solver='fista' for a smooth loss."
    )


def _support_vectors(estimator):
    def machine(gram, y, C):
        fitted = clone(estimator).set_params(C=C).fit(gram, y)
        coefficients = np.zeros(len(y))
        coefficients[fitted.support_] = fitted.dual_coef_[0]
        return coefficients, float(fitted.intercept_[0])

    return machine


def _kernel_ridge(gram, y, C):
    """The linear system of kernel ridge regression, bordered by the constraint that an intercept brings."""
    n = len(y)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = C * gram
    system[np.arange(n), np.arange(n)] += 1.0
    system[n, :n] = system[:n, n] = 1.0
    solution = solve(system, np.append(y, 0.0), assume_a="sym", overwrite_a=True)
    return C * solution[:n], float(solution[n])


def _without_bias(machine):
    """The same machine without a bias: beside every sample stands its mirror image ``(-x, -y)``.

    The doubled problem is symmetric, so that its bias is 0; libsvm itself cannot do without.
    """

    def mirrored(gram, y, C):
        n = len(y)
        both, _ = machine(np.block([[gram, -gram], [-gram, gram]]), np.concatenate([y, -y]), 0.5 * C)
        return both[:n] - both[n:], 0.0

    return mirrored
