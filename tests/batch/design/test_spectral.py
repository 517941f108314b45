"""IST and SpaRSA reach the optimum that DAL certifies, by the same gap."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from omkl._components import resolve
from omkl.batch import DAL, IST, ColumnGroups, DesignProblem, DesignSolver, SpaRSA, as_design, certify
from omkl.losses import Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import L21, ElasticNet


def make_problem(loss, regularizer, grouped, intercept, design=np.asarray):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 24)) + 0.2
    y = X[:, :3] @ [1.0, -2.0, 1.0] + rng.normal(size=40) + 0.5
    y = np.sign(y) if loss.classifies else y
    groups = ColumnGroups(np.arange(24) % 6, 24, np.linspace(0.5, 2.0, 6)) if grouped else None
    return DesignProblem(as_design(design(X)), y, loss, regularizer, 4.0 / 40, groups, intercept)


@pytest.mark.parametrize("solver", [IST(), SpaRSA()])
@pytest.mark.parametrize("loss", [Squared(), Logistic(), SquaredHinge(), Huber(0.7)], ids=repr)
@pytest.mark.parametrize("regularizer", [L21(), ElasticNet(0.3)], ids=repr)
@pytest.mark.parametrize(("grouped", "intercept"), [(False, True), (True, True), (True, False)])
def test_the_optimum_is_that_of_dal(solver, loss, regularizer, grouped, intercept):
    problem = make_problem(loss, regularizer, grouped, intercept)
    expected = DAL().solve(problem, tol=1e-9).certificate.primal
    solution = solver.solve(problem, tol=1e-7)
    assert solution.converged
    assert_allclose(solution.certificate.primal, expected, rtol=2e-7)
    assert certify(problem, solution.model).gap <= 1.01e-7


def test_fixed_steps_never_increase_the_objective():
    solution = IST().solve(make_problem(Logistic(), L21(), False, True), tol=1e-8)
    objectives = [record["primal"] for record in solution.history]
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])


def test_spectral_steps_take_fewer_iterations_where_columns_are_correlated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 30)) + 3.0 * rng.normal(size=(50, 1))
    problem = DesignProblem(as_design(X), X[:, 0] + rng.normal(size=50), Squared(), L21(), 1.0 / 50)
    fixed, spectral = (solver.solve(problem, tol=1e-3).n_iter for solver in (IST(), SpaRSA()))
    assert spectral < 0.5 * fixed


def test_sparse_designs_and_warm_starts():
    dense = SpaRSA().solve(make_problem(Logistic(), L21(), True, True), tol=1e-8)
    problem = make_problem(Logistic(), L21(), True, True, sparse.csc_array)
    thin = SpaRSA().solve(problem, tol=1e-8)
    assert_allclose(thin.certificate.primal, dense.certificate.primal, rtol=1e-7)
    assert SpaRSA().solve(problem, tol=1.01e-8, start=thin.start).n_iter == 0


def test_methods_go_by_their_names():
    assert [resolve(DesignSolver, name, "solver") for name in ("dal", "ist", "sparsa")] == [DAL(), IST(), SpaRSA()]
