"""Problems, duals, weighted losses and proximal methods, against generic solvers; online MKL ends
at their optima.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize_scalar

from omkl import OnlineMKLClassifier, OnlineMKLRegressor
from omkl.batch import (
    DAL,
    IST,
    ColumnGroups,
    DesignProblem,
    Expansion,
    IterativeSoftThresholding,
    Problem,
    SpaRSA,
    Spicy,
    as_design,
    certify,
)
from omkl.batch.weighted_loss import WeightedLoss
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, Linear
from omkl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import L1, L21, ElasticNet, LqNorm, SquaredL21, WeightedSquaredL21

from ..cases import mostly_slow
from ..stacks import DenseStack
from .generic import assert_optimal, generic_optimum, small_problem, solve_generically

N = 14


each_intercept = pytest.mark.parametrize("intercept", [True, False])


@each_intercept
def test_no_dual_point_is_above_the_optimum(loss, regularizer, intercept):
    problem, factors = small_problem(loss, regularizer, intercept=intercept)
    optimum = generic_optimum(problem, factors, loss, regularizer)
    rng = np.random.default_rng(1)
    for scale in (0.01, 0.1, 1.0, 5.0):
        value = problem.dual(*problem.feasible(scale * rng.normal(size=N) + 0.3))
        assert -np.inf < value <= optimum + 1e-7


@pytest.mark.parametrize("loss", ["logistic", "squared hinge", "squared", "Huber"])
@each_intercept
def test_the_gap_closes_at_the_optimum(loss, regularizer, intercept):
    problem, factors = small_problem(loss, regularizer, intercept=intercept)
    optimum, model = solve_generically(problem, factors, loss, regularizer)
    certificate = certify(problem, model)
    assert abs(certificate.primal - optimum) < 1e-6 * abs(optimum)
    assert -1e-12 <= certificate.gap < 1e-3


def test_the_gap_bounds_the_suboptimality_of_any_model(loss, regularizer):
    problem, factors = small_problem(loss, regularizer)
    optimum = generic_optimum(problem, factors, loss, regularizer)
    rng = np.random.default_rng(2)
    for scale in (0.0, 0.01, 0.1, 1.0):
        active = np.array([0, 2])
        certificate = certify(problem, Expansion(active, scale * rng.normal(size=(2, N)), 0.2))
        assert certificate.primal >= optimum - 1e-7
        assert certificate.dual <= optimum + 1e-7
        assert_array_equal(certificate.norms[[1, 3]], 0.0)


SMOOTH = [Squared(), Logistic(), SquaredHinge(), Huber(0.5)]
each_loss = pytest.mark.parametrize(
    "loss",
    [*SMOOTH, Hinge(), EpsilonInsensitive(0.2)],
    ids=repr,
)


def samples(loss, n=40):
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=n)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0) if loss.classifies else rng.normal(size=n)
    return y, z, rng.uniform(0.1, 3.0, n)


@each_loss
def test_weights_multiply_the_loss_and_its_conjugate_is_that_of_the_product(loss):
    y, z, weights = samples(loss)
    weighted = WeightedLoss(loss, y, weights)
    assert_allclose(weighted.values(z), weights * loss.value(y, z))
    rho = weighted.dual_point(z)
    # Fenchel's inequality is an equality at the gradient
    assert_allclose(
        weighted.values(z) + weighted.conjugates(rho) + rho * z,
        0.0,
        atol=1e-12,
    )
    low, high = weighted.domain()
    assert np.all((rho >= low) & (rho <= high))
    balanced = weighted.balanced(rho)
    assert abs(balanced.sum()) <= 1e-12
    assert np.all((balanced >= low) & (balanced <= high))


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_second_derivatives_are_those_of_the_value(loss):
    y, z, weights = samples(loss)
    weighted = WeightedLoss(loss, y, weights)
    slope = (weighted.dual_point(z - 1e-6) - weighted.dual_point(z + 1e-6)) / 2e-6
    assert_allclose(
        weighted.curvature(weighted.dual_point(z)),
        slope,
        atol=1e-5,
    )


@each_loss
def test_the_best_intercept_is_that_of_a_generic_search(loss):
    y, z, weights = samples(loss)
    weighted = WeightedLoss(loss, y, weights)
    least = minimize_scalar(
        lambda b: weighted.value(z + b),
        bracket=(-3.0, 3.0),
        tol=1e-12,
    )
    assert_allclose(
        weighted.value(z + weighted.best_intercept(z)),
        least.fun,
        rtol=1e-9,
    )


SMOOTH_NAMES = ["logistic", "squared hinge", "squared", "Huber"]
each_smooth_loss = pytest.mark.parametrize("loss", SMOOTH_NAMES)


@each_smooth_loss
@pytest.mark.parametrize("penalty", ["block 1-norm", "block q-norm", "squared block 1-norm"])
@each_intercept
def test_fista_reaches_the_optimum_between_valid_bounds(loss, penalty, intercept):
    problem, factors = small_problem(loss, penalty, intercept)
    assert_optimal(
        IterativeSoftThresholding().solve(problem, tol=1e-7),
        generic_optimum(problem, factors, loss, penalty),
    )


@each_smooth_loss
def test_ista_reaches_the_optimum_and_never_rises(loss):
    problem, factors = small_problem(loss, "block 1-norm")
    solution = IterativeSoftThresholding(accelerated=False).solve(problem, tol=1e-6)
    primals = [record["primal"] for record in solution.history]
    assert (np.diff(primals) <= 1e-12 * primals[0]).all()
    assert_allclose(
        primals[-1],
        generic_optimum(problem, factors, loss, "block 1-norm"),
        rtol=1e-6,
    )


def gaussian_problem(loss, C):
    """Make badly conditioned kernels of many widths on noisy data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    squares = (X[:, None, :] - X[None, :, :]) ** 2
    distances = [squares.sum(axis=2), *np.moveaxis(squares, 2, 0)]
    grams = (
        np.array([np.exp(-d / width) for d in distances for width in (0.1, 1.0, 10.0, 100.0)]) / 60
    )
    signal = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=60)
    return Problem(
        DenseStack(grams), np.sign(signal) if loss.classifies else signal, loss, L21(), C
    )


@pytest.mark.parametrize(("loss", "C"), [(Logistic(), 30.0), (Squared(), 10.0)])
def test_fista_needs_a_tenth_of_the_iterations_of_ista(loss, C):
    problem = gaussian_problem(loss, C)
    plain = IterativeSoftThresholding(accelerated=False).solve(problem, tol=1e-15, max_iter=2000)
    fast = IterativeSoftThresholding().solve(problem, tol=plain.certificate.gap)
    assert fast.n_iter <= 200


def test_the_certificate_is_recomputed_from_the_model_over_all_kernels():
    problem = gaussian_problem(Logistic(), 3.0)
    solution = IterativeSoftThresholding().solve(problem, tol=1e-4)
    again = certify(problem, solution.model, solution.certificate.rho)
    assert_allclose(
        [again.primal, again.dual],
        [solution.certificate.primal, solution.certificate.dual],
        rtol=1e-12,
    )
    assert_allclose(
        solution.certificate.gap,
        solution.history[-1]["gap"],
        atol=1e-10,
    )
    assert_array_equal(np.flatnonzero(again.norms), solution.model.active)
    assert len(solution.model.active) < problem.kernels.n_kernels


def test_a_warm_start_begins_where_the_other_search_ended():
    problem = gaussian_problem(Logistic(), 3.0)
    first = IterativeSoftThresholding().solve(problem, tol=1e-5)
    again = IterativeSoftThresholding().solve(problem, tol=1.1e-5, start=first.start)
    assert again.n_iter <= 10 < first.n_iter


class Twice(L21):
    """Twice the group lasso, by methods that it overrides."""

    def value(self, norms):
        return 2.0 * super().value(norms)

    def slopes(self, norms):
        return 2.0 * super().slopes(norms)

    def prox(self, norms, step):
        return super().prox(norms, 2.0 * step)

    def conjugate(self, dual_norms):
        return super().conjugate(np.asarray(dual_norms) / 2.0)


def test_a_class_that_overrides_methods_is_not_taken_for_its_base(rng):
    X = rng.normal(size=(40, 12))
    y = X[:, 0] - X[:, 5] + 0.1 * rng.normal(size=40)
    groups = ColumnGroups(np.arange(12) // 3, 12)
    overriding, expected = (
        DAL().solve(DesignProblem(as_design(X), y, Squared(), regularizer, alpha, groups), tol=1e-9)
        for regularizer, alpha in ((Twice(), 0.1), (L21(), 0.2))
    )
    assert overriding.converged
    assert_allclose(
        overriding.model.dense(12),
        expected.model.dense(12),
        atol=1e-4,
    )
    assert Twice().elastic is None
    assert (0.5 * Twice()).elastic is None


@pytest.mark.parametrize(
    ("loss", "regularizer", "message"),
    [
        (Hinge(), L21(), "second derivative"),
        (Logistic(), L1(), "group norms"),
        (Logistic(), SquaredL21() + LqNorm(), "exact prox"),
        (Logistic(), WeightedSquaredL21([1.0, 0.0, 1.0]), "penalizes every group"),
    ],
)
def test_unsupported_problems_are_refused(loss, regularizer, message):
    problem, _ = small_problem("logistic", "squared block 1-norm")
    with pytest.raises(InputError, match=message):
        IterativeSoftThresholding().solve(
            Problem(problem.kernels, problem.y, loss, regularizer, 1.0)
        )


@pytest.mark.parametrize("accelerated", [True, False])
def test_the_best_iterate_is_returned_and_not_the_last(accelerated):
    problem = gaussian_problem(Logistic(), 30.0)
    for max_iter in range(1, 40):
        solution = IterativeSoftThresholding(accelerated).solve(
            problem, tol=1e-12, max_iter=max_iter
        )
        least = min(record["primal"] for record in solution.history)
        assert_allclose(solution.certificate.primal, least, rtol=1e-9)


def design_problem(loss, regularizer, grouped, intercept, design=np.asarray):
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
    problem = design_problem(loss, regularizer, grouped, intercept)
    expected = DAL().solve(problem, tol=1e-9).certificate.primal
    solution = solver.solve(problem, tol=1e-7)
    assert solution.converged
    assert_allclose(solution.certificate.primal, expected, rtol=2e-7)
    assert certify(problem, solution.model, solution.certificate.rho).gap <= 1.01e-7


def test_fixed_steps_never_increase_the_objective():
    solution = IST().solve(design_problem(Logistic(), L21(), False, True), tol=1e-8)
    objectives = [record["primal"] for record in solution.history]
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])


@pytest.mark.slow
def test_spectral_steps_take_fewer_iterations_where_columns_are_correlated(rng):
    X = rng.normal(size=(50, 30)) + 3.0 * rng.normal(size=(50, 1))
    problem = DesignProblem(
        as_design(X),
        X[:, 0] + rng.normal(size=50),
        Squared(),
        L21(),
        1.0 / 50,
    )
    fixed, spectral = (solver.solve(problem, tol=1e-3).n_iter for solver in (IST(), SpaRSA()))
    assert spectral < 0.5 * fixed


def test_sparse_designs_and_warm_starts():
    dense = SpaRSA().solve(design_problem(Logistic(), L21(), True, True), tol=1e-8)
    problem = design_problem(Logistic(), L21(), True, True, sparse.csc_array)
    thin = SpaRSA().solve(problem, tol=1e-8)
    assert_allclose(thin.certificate.primal, dense.certificate.primal, rtol=1e-7)
    assert SpaRSA().solve(problem, tol=1.01e-8, start=thin.start).n_iter == 0


COLUMNS = {
    "line": slice(0, 1),
    "wave": slice(1, 2),
    "noise": slice(2, 4),
    "everything": slice(0, 4),
}


def kernels(of_columns):
    """Return one kernel for each set of columns; ``of_columns`` makes the online specification of a
    set.
    """
    at = {name: of_columns(columns) for name, columns in COLUMNS.items()}
    return {
        "line": Linear(normalize=None, on=at["line"]),
        "wave": Gaussian(sigma2=0.3, on=at["wave"]),
        "noise": Gaussian(sigma2=1.0, on=at["noise"]),
        "everything": Gaussian(sigma2=3.0, on=at["everything"]),
    }


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    grams = np.array(
        [
            kernel(X[:, COLUMNS[name]], X[:, COLUMNS[name]])
            for name, kernel in kernels(lambda _: None).items()
        ]
    )
    return (
        X,
        np.sign(X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 + 0.3 * rng.normal(size=80)),
        DenseStack(grams),
    )


@mostly_slow(
    ("intercept", "setting"),
    (True, False),
    [("hinge", Hinge(), 0.3), ("hinge", Hinge(), 3.0), ("crf", Logistic(), 3.0)],
    every=2,
)
def test_many_passes_end_at_the_certified_optimum(data, intercept, setting):
    """With two classes, the conditional random field is logistic regression."""
    loss, same, C = setting
    X, y, stack = data
    problem = Problem(stack, y, same, SquaredL21(), C, intercept)
    optimum = Spicy().solve(problem, tol=1e-6).certificate
    assert optimum.gap <= 1e-6
    excess = []
    for epochs in (10, 300):
        online = OnlineMKLClassifier(
            kernels(lambda columns: f"{columns.start}:{columns.stop}"),
            loss=loss,
            regularizer="mkl",
            weighting="norms",
            C=C,
            epochs=epochs,
            average=None,
            fit_intercept=intercept,
            verbose=False,
            random_state=0,
            learning_rate="sqrt:eta0=1.0",
        ).fit(X, y)
        norms = np.array([online.history_[-1][f"norm:{name}"] for name in COLUMNS])
        excess.append(problem.primal(online.decision_function(X), norms) / optimum.primal - 1.0)
    assert -1e-6 <= excess[1] < 0.005
    assert excess[1] < 0.2 * excess[0]
    weights = np.array([online.kernel_weights_[name] for name in COLUMNS])
    assert_allclose(
        weights,
        optimum.norms / optimum.norms.sum(),
        atol=0.05,
    )


@mostly_slow(
    ("explicit", "name"), (True, False), ("squared", "Huber", "epsilon-insensitive"), every=2
)
def test_a_regressor_ends_at_the_optimum_of_a_generic_solver(explicit, name):
    """Online: ``(1/(C m)) R(theta) + (1/m) sum loss``, on the columns of the kernels' factors."""
    penalty = "squared block 1-norm" if explicit else "block 1-norm"
    problem, factors = small_problem(name, penalty)
    optimum = generic_optimum(problem, factors, name, penalty)
    X = np.hstack(factors)
    columns = {f"kernel {k}": f"{5 * k}:{5 * k + 5}" for k in range(len(factors))}
    online = OnlineMKLRegressor(
        {group: Linear(normalize=None, on=on, explicit=explicit) for group, on in columns.items()},
        loss=problem.loss,
        regularizer=problem.regularizer,
        weighting="norms",
        C=problem.C,
        epochs=1500,
        average=None,
        verbose=False,
        random_state=0,
        learning_rate="linear:eta0=0.2",
    ).fit(X, problem.y)
    reached = problem.primal(
        online.predict(X), np.array([online.history_[-1][f"norm:{group}"] for group in columns])
    )
    assert -1e-6 <= reached / optimum - 1.0 < 0.01
