"""Other linear models: counts, several outputs, nonnegative coefficients, sparse groups; against
other packages.

As in ``test_design``, all minimize one objective to the same duality gap.
"""

from contextlib import suppress
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from omkl.batch import as_design, stacked_problem
from omkl.losses import Poisson, Squared
from omkl.regularizers import L21, SparseGroup
from tests.benchmarks.test_design import (
    GAP,
    adelie,
    cases,
    design_of,
    measure_beside,
    peer,
    problem_of,
)

OUTPUTS, SIZE, SHARE_OF_L1 = 5, 16, 0.5


def counts(A, y, share):
    return problem_of(
        A, np.random.default_rng(1).poisson(np.exp(y / y.std())).astype(float), Poisson(), share
    )


def several_outputs(A, y, share, classes=False):
    """Draw targets of several outputs from a few shared columns: numbers, or classes."""
    rng = np.random.default_rng(1)
    columns = np.argsort(-np.abs(A.T @ y))[:20]
    signal = A[:, columns] @ rng.normal(size=(20, OUTPUTS))
    Y = signal + (signal.std() / 4) * rng.normal(size=signal.shape)
    chosen = (2.0 * signal / signal.std() + rng.gumbel(size=signal.shape)).argmax(axis=1)
    targets, loss = (np.eye(OUTPUTS)[chosen], None) if classes else (Y, Squared())
    problem = stacked_problem(as_design(A), targets, loss, L21(), 1.0, None, False)
    return problem.at(share * problem.largest_alpha())


def positive(A, y, share):
    problem = replace(problem_of(A, y, Squared(), 1.0), positive=True)
    return problem.at(share * problem.largest_alpha())


def sparse_groups(A, y, share):
    problem = replace(problem_of(A, y, Squared(), 1.0, SIZE), regularizer=SparseGroup(SHARE_OF_L1))
    return problem.at(share * problem.largest_alpha())


KINDS = {
    "poisson": counts,
    "multi-task": several_outputs,
    "multinomial": lambda *given: several_outputs(*given, classes=True),
    "positive": positive,
    "sparse group": sparse_groups,
}


def skglm_poisson(problem, tol):
    package = import_module("skglm")
    solver = package.solvers.ProxNewton(tol=tol, fit_intercept=False)
    penalty = package.penalties.L1(problem.alpha)
    return package.GeneralizedLinearEstimator(package.datafits.Poisson(), penalty, solver)


def skglm_sparse_groups(problem, tol):
    package, n = import_module("skglm"), problem.design.shape[1]
    starts, columns = np.arange(0, n + 1, SIZE, dtype=np.int32), np.arange(n, dtype=np.int32)
    weights = np.full(n // SIZE, 1 - SHARE_OF_L1), np.full(n, SHARE_OF_L1)
    penalty = package.penalties.WeightedL1GroupL2(problem.alpha, *weights, starts, columns)
    solver = package.solvers.GroupBCD(tol=tol, fit_intercept=False, ws_strategy="fixpoint")
    return package.GeneralizedLinearEstimator(
        package.datafits.QuadraticGroup(starts, columns), penalty, solver
    )


def named(package, name, **options):
    """Return a package's estimator without an intercept."""
    return lambda problem, tol: getattr(import_module(package), name)(
        alpha=problem.alpha, tol=tol, fit_intercept=False, **options
    )


PEERS = {
    "poisson": {"skglm": skglm_poisson},
    # celer's fails with this version of scikit-learn
    "multi-task": {
        "skglm": named("skglm", "MultiTaskLasso"),
        "sklearn": named("sklearn.linear_model", "MultiTaskLasso", max_iter=100_000),
    },
    "multinomial": {},
    "positive": {
        "skglm": named("skglm", "Lasso", positive=True),
        "celer": named("celer", "Lasso", positive=True),
        "sklearn": named("sklearn.linear_model", "Lasso", positive=True, max_iter=100_000),
    },
    "sparse group": {"skglm": skglm_sparse_groups},
}
#: Names of adelie's models. Its "multinomial" does not reach the gap in half a minute, so it is
#: left out.
ADELIE = {"poisson": "poisson", "multi-task": "multigaussian"}


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile skglm here once, since it has no cache; processes copied from this one inherit it."""
    for kind, peers in PEERS.items():
        if "skglm" in peers:
            with suppress(Exception):
                peer(peers["skglm"], KINDS[kind](*design_of(64, 32, "well"), 0.5))()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "share"), cases([0.1, 0.01]), ids=str)
def test_kind(measure, kind, shape, share):
    problem = KINDS[kind](*design_of(*shape, "well"), share)
    peers = {name: peer(model, problem) for name, model in PEERS[kind].items()}
    if kind in ADELIE:
        peers["adelie"] = adelie(problem, problem.alpha, GAP, ADELIE[kind])
    measure_beside(measure, problem, peers)
