"""DAL against skglm, celer and scikit-learn: lasso and L1-logistic regression to a relative duality gap of 1e-3.

The designs are those of the DAL slides: m = 1024, random columns or ``U diag(1, 1/2, ..., 1/m) V'``. A peer is given
the loosest of its tolerances at which its model has the gap, certified over all columns by the same function; peers
that are not installed are skipped. CPU time of one core (set OMP_NUM_THREADS=1), the best of three, compilation
excluded. The floor is one pass over the design. OMKL_COLUMNS="4096 65536" chooses other sizes.
"""

import os
import time
import warnings
from functools import partial
from importlib import import_module

import numpy as np
import pytest

from omkl.batch import DAL, DesignProblem, LinearModel, as_design, certify
from omkl.losses import Logistic, Squared
from omkl.regularizers import L21

M, GAP = 1024, 1e-3
COLUMNS = [int(n) for n in os.environ.get("OMKL_COLUMNS", "4096 16384 65536").split()]
SHARES = (0.1, 0.01)
TOLERANCES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def slides_design(n, condition, seed=0):
    """The design and a target, as in the slides; V has independent Gaussian rows, nearly orthogonal columns."""
    rng = np.random.default_rng(seed)
    A = np.empty((M, n), order="F")
    root = np.eye(M)
    if condition == "bad":
        root = np.linalg.qr(rng.normal(size=(M, M)))[0] / np.arange(1, M + 1)
    for start in range(0, n, 4096):
        block = rng.normal(size=(M, min(4096, n - start)))
        A[:, start : start + 4096] = block if condition == "well" else root @ block
    signal = A[:, rng.choice(n, 40, replace=False)] @ rng.normal(size=40)
    noise = 1.0 if condition == "well" else 0.1 * signal.std()
    return A, signal + noise * rng.normal(size=M)


def skglm(A, y, alpha, classifies, tol):
    package = import_module("skglm")
    model = package.SparseLogisticRegression if classifies else package.Lasso
    return model(alpha=alpha, tol=tol, fit_intercept=False).fit(A, y)


def celer(A, y, alpha, classifies, tol):
    package = import_module("celer")
    if classifies:
        return package.LogisticRegression(C=1 / (alpha * M), tol=tol, fit_intercept=False).fit(A, y)
    return package.Lasso(alpha=alpha, tol=tol, fit_intercept=False).fit(A, y)


def sklearn(A, y, alpha, classifies, tol):
    package = import_module("sklearn.linear_model")
    if classifies:
        model = package.LogisticRegression(
            C=1 / (alpha * M), l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=tol
        )
        return model.fit(A, y)
    return package.Lasso(alpha=alpha, tol=tol, fit_intercept=False).fit(A, y)


PEERS = {"skglm": skglm, "celer": celer, "sklearn": sklearn}


def seconds(function, repeats=3):
    times = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return min(times)


def time_of_peer(fit, problem):
    """CPU seconds of a peer at the loosest tolerance that gives the gap, and that gap; infinite where none does."""
    A, y, classifies = problem.design.matrix, problem.y, problem.loss.classifies
    for tol in TOLERANCES:
        started = time.process_time()
        coef = fit(A, y, problem.alpha, classifies, tol).coef_.ravel()
        spent = time.process_time() - started
        active = np.flatnonzero(coef)
        gap = certify(problem, LinearModel(active, coef[active])).gap
        if gap <= GAP:
            if spent < 5.0:
                spent = min(spent, seconds(partial(fit, A, y, problem.alpha, classifies, tol), 2))
            return spent, gap
        if spent > 60.0:
            break
    return np.inf, gap


@pytest.fixture(scope="module")
def peers():
    """Those that are installed, compiled."""
    found = {}
    rng = np.random.default_rng(0)
    A, y = np.asfortranarray(rng.normal(size=(M, 50))), rng.normal(size=M)
    for name, fit in PEERS.items():
        try:
            fit(A, y, 0.01, False, 1e-3)
            fit(A, np.sign(y), 0.01, True, 1e-3)
            found[name] = fit
        except ImportError:
            print(f"\n{name} is not installed: its column is left out")
    return found


@pytest.mark.parametrize("n", COLUMNS)
@pytest.mark.parametrize("condition", ["well", "bad"])
def test_against_peers(benchmark, n, condition, peers):
    A, y = slides_design(n, condition)
    rho = np.ones(M)
    floor = seconds(lambda: A.T @ rho, 5)
    solver = DAL()
    print(f"\nn = {n}, {condition} conditioned; a pass takes {1e3 * floor:.1f} ms")
    for loss in (Squared(), Logistic()):
        target = np.sign(y) if loss.classifies else y
        largest = DesignProblem(as_design(A), target, loss, L21(), 1.0, None, False).largest_alpha()
        for share in SHARES:
            problem = DesignProblem(as_design(A), target, loss, L21(), share * largest, None, False)
            solution = solver.solve(problem, GAP)
            ours = seconds(partial(solver.solve, problem, GAP))
            line = f"  {loss!r:10} {share:4} of alpha_max: {ours:7.3f} s, {ours / floor:5.1f} passes' time, gap "
            line += f"{certify(problem, solution.model).gap:.0e}, {len(solution.model.active):4d} active"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for name, fit in peers.items():
                    if name == "sklearn" and (n > 20_000 or (condition == "bad" and not loss.classifies)):
                        continue
                    theirs, gap = time_of_peer(fit, problem)
                    line += f" | {name} {theirs:.3f} s (gap {gap:.0e}): ratio {ours / theirs:.2f}"
            print(line, flush=True)
    benchmark.group = f"{condition} conditioned"
    benchmark.pedantic(lambda: solver.solve(problem, GAP), rounds=1)
