"""
Shared code: the methods that section 6 of Suzuki and Tomioka (2011) compares
=============================================================================

``spicymkl_uci.py``, ``spicymkl_scaling.py`` and ``duality_gap.py`` share what is here. Times are
CPU times with the kernels given; the floor of any method is one pass over all kernels, measured
beside it.
"""

import time
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from omkl.batch import SILP, HessianMKL, LevelMKL, OneStep, Problem, SimpleMKL, Solver, Spicy
from omkl.data import read_uci
from omkl.kernels import Gaussian, Linear, PackedStack
from omkl.losses import Hinge, Logistic, PointwiseLoss
from omkl.regularizers import L21, ElasticNet, Regularizer, SquaredL21


class Method(NamedTuple):
    """Solver with its loss and regularizer."""

    solver: Solver
    loss: PointwiseLoss
    regularizer: Regularizer


METHODS = {
    "spicy-logistic": Method(Spicy(), Logistic(), L21()),
    "spicy-hinge": Method(Spicy(), Hinge(), L21()),
    "elastic-logistic": Method(OneStep(), Logistic(), ElasticNet(0.5)),
    "elastic-hinge": Method(OneStep(), Hinge(), ElasticNet(0.5)),
    "elastic-0.1-logistic": Method(OneStep(), Logistic(), ElasticNet(0.1)),
    "elastic-0.1-hinge": Method(OneStep(), Hinge(), ElasticNet(0.1)),
    "hessian": Method(HessianMKL(), Hinge(), SquaredL21()),
    "level": Method(LevelMKL(), Hinge(), SquaredL21()),
    "simple": Method(SimpleMKL(), Hinge(), SquaredL21()),
    "silp": Method(SILP(), Hinge(), SquaredL21()),
}


def standardized_split(data, train_size, seed):
    """Split a UCI data set at random, and standardize features by the training part."""
    X, X_test, y, y_test = train_test_split(
        *read_uci(data), train_size=train_size, random_state=seed
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), scaler.transform(X_test), y, y_test


def problem_for(name, kernels, y, C, optimum=None):
    """Build the problem that a method solves.

    Methods that keep kernel weights in the simplex have a regularizer of their own, ``(1/2) (sum_m
    ||f_m||)^2``; at ``Ct = C sum_m ||f_m*||``, with the norms of the block 1-norm's optimum at C,
    both have the same solution (Eq. 6 of the paper, whose C weighs the regularizer).

    Parameters
    ----------
    name : str
        A name of :data:`METHODS`.
    kernels : KernelStack
    y : array of shape (N,)
    C : float
    optimum : Certificate, optional
        What :func:`block_one_optimum` returns, if it is known; it is computed where it is needed.
    """
    method = METHODS[name]
    if isinstance(method.regularizer, SquaredL21):
        if optimum is None:
            optimum = block_one_optimum(kernels, y, C)
        C *= max(optimum.norms.sum(), 1e-12)
    return Problem(kernels, y, method.loss, method.regularizer, C)


def block_one_optimum(kernels, y, C):
    """Solve the block 1-norm problem with the hinge loss to a relative gap of 1e-4, and return its
    certificate.
    """
    return Spicy().solve(Problem(kernels, y, Hinge(), L21(), C), tol=1e-4).certificate


def run(name, problem, tol=1e-2, limit=np.inf):
    """Solve a problem and measure the solver.

    Parameters
    ----------
    name : str
        A name of :data:`METHODS`.
    problem : Problem
    tol : float
        Relative duality gap over all kernels.
    limit : float
        CPU seconds after which to stop, at the end of an outer iteration.

    Returns
    -------
    solution : Solution
    row : dict
        ``cpu`` (seconds), ``gap``, ``active`` (kernels), ``iterations`` (outer ones: proximal steps
        of SpicyMKL, one of the one-step method, updates of the kernel weights of the others),
        ``svms`` (evaluations), ``full_passes`` (over all kernels, of SpicyMKL and the one-step
        method), ``end``: "" at the gap that was asked for, else "*" where the limit stopped the
        method and "+" where it gave up.
    trace : list of dict
        The solver's history, with ``cpu`` in each record.
    """
    trace = []
    started = time.process_time()

    def watch(record):
        trace.append({**record, "cpu": time.process_time() - started})
        return trace[-1]["cpu"] > limit

    solution = METHODS[name].solver.solve(problem, tol, on_iteration=watch)
    cpu = time.process_time() - started
    last = trace[-1]
    if isinstance(METHODS[name].solver, OneStep):
        iterations = 1
    elif isinstance(METHODS[name].solver, Spicy):
        iterations = last["proximal_steps"] + 1  # the last one is not taken to its end
    else:
        iterations = solution.n_iter
    end = ""
    if not solution.converged:
        end = "*" if last["cpu"] > limit else "+"
    row = {
        "cpu": cpu,
        "gap": float(solution.certificate.gap),
        "active": len(solution.model.active),
        "iterations": iterations,
        "svms": last.get("svm_evaluations"),
        "full_passes": last.get("full_passes"),
        "end": end,
    }
    return solution, row, trace


def seconds_of_a_pass(kernels):
    """Measure the CPU time of one pass over all kernels, the best of five."""
    vector = np.ones(kernels.n_samples)
    seconds = []
    for _ in range(5):
        started = time.process_time()
        kernels.quadratics(vector)
        seconds.append(time.process_time() - started)
    return min(seconds)


def warm_up(names):
    """Run methods on a tiny problem, so that compilation is not measured."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1.0, -1.0)
    kernels = PackedStack.from_kernels([Linear(), Gaussian()], X)
    for name in names:
        run(name, problem_for(name, kernels, y, 0.1))
