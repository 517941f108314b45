"""SpicyMKL and the one-step method: optima, honest gaps, edges, several outputs."""

import tracemalloc
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from omkl import MKLClassifier
from omkl.batch import (
    IterativeSoftThresholding,
    OneStep,
    Problem,
    Spicy,
    certify,
    shared_problem,
)
from omkl.exceptions import InputError
from omkl.kernels import FactoredStack, MixedStack, PackedStack
from omkl.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from omkl.regularizers import L21, ElasticNet, LqNorm, Ridge, SquaredL21

from ...cases import mostly_slow, slow
from ...passes import OwnPenalty
from ...stacks import DenseStack
from ..generic import LOSSES, REGULARIZERS, M, N, generic_optimum, small_problem


def many_kernels(n_kernels=400, n_samples=40, seed=0, rank=8):
    """Draw many more kernels than the first working set holds; few are informative."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_kernels, n_samples, rank)) / np.sqrt(rank * n_samples)
    y = np.sign(factors[:3, :, 0].sum(axis=0) + 0.02 * rng.normal(size=n_samples))
    return DenseStack(factors @ factors.transpose(0, 2, 1)), y


SOLVERS = {"spicy": Spicy(), "one-step": OneStep()}


each_intercept = pytest.mark.parametrize("intercept", [True, False])


@mostly_slow(("solver", "intercept", "C"), SOLVERS, (True, False), (0.5, 20.0), every=3)
def test_reaches_the_optimum(solver, loss, regularizer, intercept, C):
    problem, factors = small_problem(loss, regularizer, C=C, intercept=intercept)
    if solver == "one-step" and not problem.regularizer.smooth_conjugate:
        return
    solution = SOLVERS[solver].solve(problem, tol=1e-7)
    assert solution.converged
    optimum = generic_optimum(problem, factors, loss, regularizer)
    assert solution.certificate.primal == pytest.approx(optimum, rel=1e-6, abs=1e-7)
    if intercept:
        assert abs(solution.certificate.rho.sum()) < 1e-9


@pytest.mark.parametrize(
    "regularizer", ["elastic net", "block q-norm", "uniform", "squared block 1-norm"]
)
@pytest.mark.parametrize("C", [100.0, 1e4])
def test_the_logistic_optimum_where_losses_weigh_much(regularizer, C):
    problem, factors = small_problem("logistic", regularizer, C=C)
    solution = Spicy().solve(problem, tol=1e-6)
    assert solution.converged
    optimum = generic_optimum(problem, factors, "logistic", regularizer)
    assert solution.certificate.primal == pytest.approx(optimum, rel=1e-4)


def test_the_certificate_is_that_of_the_returned_model(loss, regularizer):
    problem, _ = small_problem(loss, regularizer)
    solution = Spicy().solve(problem, tol=1e-4)
    recomputed = certify(problem, solution.model, solution.certificate.rho)
    assert recomputed.primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert recomputed.dual == pytest.approx(solution.certificate.dual, rel=1e-9, abs=1e-12)
    assert recomputed.gap <= 1e-4 * (1 + 1e-9)


each_loss = pytest.mark.parametrize("loss", [Logistic(), Hinge()])


@each_loss
@pytest.mark.parametrize("regularizer", [L21(), ElasticNet(0.2), SquaredL21()])
def test_a_working_set_finds_what_all_kernels_together_give(loss, regularizer, monkeypatch):
    kernels, y = many_kernels()
    problem = Problem(kernels, y, loss, regularizer, C=20.0)
    by_rounds = Spicy().solve(problem, tol=1e-8)
    assert by_rounds.history[-1]["working_set"] < 400
    monkeypatch.setattr("omkl.batch.mkl.spicy.FIRST", 400)
    at_once = Spicy().solve(problem, tol=1e-8)
    assert at_once.history[1]["working_set"] == 400
    assert by_rounds.certificate.primal == pytest.approx(at_once.certificate.primal, rel=3e-8)
    assert_allclose(by_rounds.certificate.norms, at_once.certificate.norms, atol=1e-3)


@each_loss
def test_where_a_constant_is_best_a_search_ends_with_it(loss):
    kernels, y = many_kernels()
    problem = Problem(kernels, y, loss, L21(), C=1e-3)
    solution = Spicy().solve(problem, tol=1e-6)
    assert solution.converged
    assert not len(solution.model.active)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Squared(), EpsilonInsensitive(0.1)])
def test_a_warm_start_ends_where_a_cold_one_does(loss):
    kernels, y = many_kernels(100)
    previous = None
    for C in (5.0, 10.0, 20.0):
        problem = Problem(kernels, y, loss, L21(), C)
        cold, warm = (Spicy().solve(problem, tol=1e-7, start=start) for start in (None, previous))
        assert warm.converged
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=1e-6)
        previous = warm.start
    again = Spicy().solve(problem, tol=1e-6, start=previous)
    assert again.n_iter == 0


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), SquaredHinge(), Squared()], ids=repr)
class TestEdges:
    def solve(self, grams, y, loss, C=10.0):
        solution = Spicy().solve(
            Problem(
                DenseStack(np.asarray(grams)),
                y,
                loss,
                L21(),
                C,
            ),
            tol=1e-5,
        )
        assert solution.converged
        return solution

    def test_a_large_C_and_one_sample_of_a_class(self, loss):
        kernels, y = many_kernels(10)
        assert self.solve(kernels.grams, y, loss, C=1e5).certificate.primal < 1e5
        self.solve(
            kernels.grams,
            np.where(np.arange(len(y)) == 0, 1.0, -1.0),
            loss,
        )

    def test_kernels_of_rank_one_zero_kernels_and_twins(self, loss, rng):
        columns = rng.normal(size=(3, 30))
        y = np.sign(columns[0] + 0.3 * rng.normal(size=30))
        ones = [np.outer(column, column) for column in columns]
        alone = self.solve(ones, y, loss)
        twins = self.solve(
            [*ones, *ones, np.zeros((30, 30))],
            y,
            loss,
        )
        assert twins.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-5)
        assert twins.certificate.norms[-1] == 0.0

    def test_the_same_bits_twice(self, loss):
        kernels, y = many_kernels(100)
        first, second = (self.solve(kernels.grams, y, loss, C=20.0) for _ in range(2))
        assert_array_equal(first.model.coefficients, second.model.coefficients)


def test_iterations_are_reported_and_can_be_stopped():
    kernels, y = many_kernels()
    problem = Problem(kernels, y, Logistic(), L21(), 20.0)
    told = []
    solution = Spicy().solve(problem, tol=1e-9, on_iteration=told.append)
    assert told == solution.history
    assert len(Spicy().solve(problem, tol=1e-9, on_iteration=lambda record: True).history) == 1
    stopped = Spicy().solve(problem, tol=1e-12, max_iter=1)
    assert stopped.n_iter == 1
    assert not stopped.converged


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "epsilon-insensitive"])
def test_weights_multiply_losses(loss):
    """A weight of 2 counts as two copies of the sample."""
    problem, factors = small_problem(loss, "elastic net")
    counts = np.random.default_rng(0).integers(1, 4, len(problem.y))
    weighted = Spicy().solve(replace(problem, sample_weight=counts), tol=1e-8).certificate
    factors = np.repeat(factors, counts, axis=1)
    twice = DenseStack(factors @ factors.transpose(0, 2, 1))
    repeated = (
        Spicy()
        .solve(replace(problem, kernels=twice, y=np.repeat(problem.y, counts)), tol=1e-8)
        .certificate
    )
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-7)
    assert_allclose(weighted.norms, repeated.norms, atol=2e-3)


@pytest.mark.parametrize("C", [0.5, 3.0])
def test_the_squared_norm_is_the_same_problem_at_another_C(C):
    """Block 1-norm and weight-constrained MKL: their C are mapped by the sum of norms."""
    kernels, y = many_kernels(12)
    solution = Spicy().solve(Problem(kernels, y, Hinge(), L21(), 10 * C), tol=1e-8)
    total = solution.certificate.norms.sum()
    assert total > 0
    squared = Problem(
        kernels,
        y,
        Hinge(),
        SquaredL21(),
        10 * C * total,
    )
    assert certify(squared, solution.model, total * solution.certificate.rho).gap < 1e-5
    directly = Spicy().solve(squared, tol=1e-8)
    assert directly.converged
    assert_allclose(
        directly.certificate.norms,
        solution.certificate.norms,
        atol=1e-3 * total,
    )


# ---- the one-step method -------------------------------------------------------------------------

#: User-defined elastic net.
OWN = OwnPenalty(lambda b: b + b**2 / 2, lambda b: 1 + b)


@pytest.mark.parametrize(
    "regularizer", [ElasticNet(0.05), 3.0 * ElasticNet(0.9), LqNorm(1.1), LqNorm(3.0), Ridge(), OWN]
)
@each_loss
def test_one_step_agrees_with_spicy_on_many_kernels(loss, regularizer):
    kernels, y = many_kernels(150, rank=6)
    problem = Problem(kernels, y, loss, regularizer, 20.0)
    one, many = (solver.solve(problem, tol=1e-7) for solver in (OneStep(), Spicy()))
    assert one.converged
    assert many.converged
    assert one.certificate.primal == pytest.approx(many.certificate.primal, rel=1e-6)


@pytest.mark.parametrize("regularizer", [ElasticNet(0.5), LqNorm(1.5)])
@each_loss
def test_a_sample_of_the_kernels_first_leads_to_the_same_optimum(loss, regularizer, monkeypatch):
    kernels, y = many_kernels(150, rank=6)
    problem = Problem(kernels, y, loss, regularizer, 20.0)
    directly = OneStep().solve(problem, tol=1e-8)
    monkeypatch.setattr("omkl.batch.mkl.spicy.MANY", 100)
    monkeypatch.setattr("omkl.batch.mkl.spicy.SAMPLE", 20)
    sampled = OneStep().solve(problem, tol=1e-8)
    assert sampled.history[1]["working_set"] == 20
    assert sampled.history[1]["dual"] >= sampled.history[0]["dual"] >= 0.0
    assert sampled.certificate.primal == pytest.approx(directly.certificate.primal, rel=1e-7)
    assert_allclose(sampled.certificate.norms, directly.certificate.norms, atol=1e-3)
    # a search that stops on the subsample returns a model with a valid certificate
    stopped = OneStep().solve(problem, tol=1e-8, max_iter=1)
    assert len(stopped.model.active) <= 20
    assert stopped.certificate.dual <= directly.certificate.primal <= stopped.certificate.primal


SAME = {
    "group lasso": (L21(), OwnPenalty(lambda b: b, np.ones_like)),
    "sum": (
        0.5 * LqNorm() + 0.5 * Ridge(),
        OwnPenalty(
            lambda b: b**1.5 / 3 + b**2 / 4,
            lambda b: b**0.5 / 2 + b / 2,
        ),
    ),
    "sparse sum": (
        ElasticNet(0.3) + LqNorm(3),
        OwnPenalty(
            lambda b: 0.7 * b + 0.15 * b**2 + b**3 / 3,
            lambda b: 0.7 + 0.3 * b + b**2,
        ),
    ),
}


def problem(loss, regularizer, C=3.0, intercept=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=40))
    y = np.maximum(y, 0.0) if loss.has_link else y
    grams = np.exp(-((X.T[:, :, None] - X.T[:, None, :]) ** 2))
    return Problem(DenseStack(grams), y, loss, regularizer, C, intercept)


@mostly_slow(("name", "loss"), SAME, (Hinge(), Logistic(), Squared(), Quantile(0.3)), every=3)
def test_a_penalty_of_ones_own_has_the_optimum_of_the_librarys(name, loss):
    ours, penalty = SAME[name]
    expected = Spicy().solve(problem(loss, ours), tol=1e-6).certificate
    solvers = [Spicy(), OneStep()] if penalty.smooth_conjugate else [Spicy()]
    for solver in solvers:
        certificate = solver.solve(problem(loss, penalty), tol=1e-6).certificate
        assert certificate.gap <= 1e-6
        assert_allclose(certificate.primal, expected.primal, rtol=3e-6)


def test_a_linear_penalty_of_ones_own_has_no_smooth_dual():
    with pytest.raises(InputError, match="smooth dual"):
        OneStep().solve(problem(Squared(), SAME["group lasso"][1]))


@pytest.mark.parametrize(
    "solver", [IterativeSoftThresholding(False), IterativeSoftThresholding(), Spicy()], ids=repr
)
@each_intercept
def test_a_loss_of_unbounded_curvature_reaches_the_optimum_of_a_generic_solver(solver, intercept):
    mine = problem(Poisson(), L21(), 3.0, intercept)
    factors = [np.linalg.cholesky(gram + 1e-9 * np.eye(40)) for gram in mine.kernels.grams]
    coefficients = [cp.Variable(40) for _ in factors]
    outputs = sum(factor @ vector for factor, vector in zip(factors, coefficients))
    if intercept:
        outputs = outputs + cp.Variable()
    losses = cp.sum(cp.exp(outputs) - cp.multiply(mine.y, outputs)) - mine.y.sum()
    objective = 3.0 * losses + sum(map(cp.norm, coefficients))
    least = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    solution = solver.solve(mine, tol=1e-5)
    assert_allclose(solution.certificate.primal, least, rtol=2e-5)
    assert solution.certificate.dual <= least * (1 + 1e-6)


@pytest.fixture
def large_from(monkeypatch):
    """Return a function that sets the number of samples above which no full matrix is formed."""

    def move(n_samples):
        monkeypatch.setattr("omkl.batch.mkl.newton.LARGE", n_samples)

    return move


def factored(n_samples, n_kernels=8, rank=15, seed=0):
    """Draw low-rank kernels, three of which are informative."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_kernels, n_samples, rank)) / np.sqrt(n_samples * rank)
    signal = factors[:3, :, 0].sum(axis=0)
    y = np.sign(signal / signal.std() + 0.5 * rng.normal(size=n_samples))
    return FactoredStack(factors), y


@pytest.mark.parametrize(
    ("solver", "loss", "regularizer"),
    [
        (Spicy(), Logistic(), L21()),
        (Spicy(), Hinge(), L21()),
        (Spicy(), EpsilonInsensitive(0.1), ElasticNet(0.5)),
        (OneStep(), Hinge(), ElasticNet(0.1)),
        (OneStep(), Logistic(), Ridge()),
    ],
)
def test_solvers_end_where_they_do_by_cholesky(solver, loss, regularizer, large_from):
    factors, y = factored(250)
    large_from(250)
    packed = PackedStack.from_grams([factors.combine([1.0], [m]) for m in range(8)], np.float64)
    mixed = MixedStack(
        [packed, factors], np.arange(16)[np.argsort(np.arange(16) % 2, kind="stable")]
    )
    primal_values = {}
    for name, stack in {"matrix-free": factors, "cg": packed, "mixed": mixed}.items():
        solution = solver.solve(Problem(stack, y, loss, regularizer, 50.0), tol=1e-7)
        assert solution.converged
        assert solution.history[-1]["system"] == ("cg" if name == "mixed" else name)
        primal_values[name] = solution.certificate.primal
    large_from(251)
    dense = solver.solve(Problem(factors, y, loss, regularizer, 50.0), tol=1e-7)
    assert dense.history[-1]["system"] == "cholesky"
    assert primal_values["matrix-free"] == pytest.approx(dense.certificate.primal, rel=3e-7)
    assert primal_values["cg"] == pytest.approx(dense.certificate.primal, rel=3e-7)
    if isinstance(regularizer, L21):
        # duplicate kernels change nothing under the block 1-norm
        assert primal_values["mixed"] == pytest.approx(dense.certificate.primal, rel=3e-7)


@pytest.mark.parametrize("loss", [Logistic(), slow(Hinge())])
def test_thousands_of_samples_take_no_more_than_a_few_times_their_factors(loss):
    stack, y = factored(3000, rank=30)
    problem = Problem(stack, y, loss, L21(), 20.0)
    Spicy().solve(Problem(*factored(700), loss, L21(), 20.0))
    tracemalloc.start()
    solution = Spicy().solve(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert solution.converged
    assert certify(problem, solution.model, solution.certificate.rho).gap <= 1e-2 * (1 + 1e-9)
    # a matrix of all pairs would take 72 MB, the factors take 6 MB
    assert peak < 5 * stack.nbytes


P = 3


def make(loss, regularizer, C=10 / 3, intercept=True, seed=0):
    """Draw a problem of three outputs; return it, its targets and the factors of its kernels."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(M, N, 5)) / np.sqrt(5)
    loss = LOSSES[loss][0]
    targets = (
        np.sign(rng.normal(size=(N, P)) + 0.2) if loss.classifies else rng.normal(size=(N, P)) + 0.5
    )
    stack = DenseStack(factors @ factors.transpose(0, 2, 1))
    return (
        shared_problem(
            stack,
            targets,
            loss,
            REGULARIZERS[regularizer][0],
            C,
            intercept,
        ),
        targets,
        factors,
    )


def optimum_of_outputs(problem, targets, factors, loss, regularizer):
    """The optimum by a generic convex solver: matrices of weights, one column an output, and their
    Frobenius norms.
    """
    blocks = [cp.Variable((factor.shape[1], P)) for factor in factors]
    outputs = sum(factor @ W for factor, W in zip(factors, blocks))
    if problem.intercept:
        outputs = outputs + np.ones((N, 1)) @ cp.Variable((1, P))
    norms = cp.hstack([cp.norm(W, "fro") for W in blocks])
    losses = LOSSES[loss][1](targets.ravel(), cp.vec(outputs, order="C"))
    objective = problem.C * losses + REGULARIZERS[regularizer][1](norms)
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


@each_intercept
@pytest.mark.parametrize(
    "loss", ["logistic", "hinge", "squared hinge", "squared", "epsilon-insensitive"]
)
def test_reaches_the_optimum_between_valid_bounds(loss, regularizer, intercept):
    problem, targets, factors = make(loss, regularizer, intercept=intercept)
    optimum = optimum_of_outputs(problem, targets, factors, loss, regularizer)
    for solver in (Spicy(), *([OneStep()] if problem.regularizer.smooth_conjugate else [])):
        solution = solver.solve(problem, tol=1e-6)
        assert solution.converged
        assert solution.certificate.primal == pytest.approx(optimum, rel=2e-6, abs=1e-6)
        for record in solution.history:
            assert (
                record["dual"]
                <= optimum * (1 + 1e-6) + 1e-6
                <= record["primal"] + 1e-4 * abs(optimum) + 1e-4
            )
        recomputed = certify(problem, solution.model, solution.certificate.rho)
        assert recomputed.gap == pytest.approx(solution.certificate.gap, abs=1e-9)


def test_the_squared_norm_of_one_kernel_makes_the_outputs_independent():
    """With one kernel, the squared common norm is a sum over outputs."""
    problem, targets, factors = make("logistic", "squared block 1-norm")
    stack = DenseStack((factors @ factors.transpose(0, 2, 1))[:1])
    settings = (
        problem.loss,
        problem.regularizer,
        2.0,
        True,
        np.random.default_rng(1).uniform(0.5, 2.0, size=N),
    )
    together = Spicy().solve(shared_problem(stack, targets, *settings), 1e-9)
    outputs = together.certificate.outputs.reshape(P, N)
    intercepts = together.model.intercept.reshape(P, N)
    for target, output, constant in zip(targets.T, outputs, intercepts):
        alone = Spicy().solve(Problem(stack, target, *settings), 1e-9)
        assert_allclose(output, alone.certificate.outputs, atol=1e-3)
        assert_allclose(constant, alone.model.intercept, atol=1e-3)


def test_solvers_of_one_function_say_so():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="needs the solver"):
        MKLClassifier(["linear"], solver="silp", loss="hinge", multiclass="shared").fit(X, y)
    by_default = MKLClassifier(["linear"], solver="silp", loss="hinge").fit(X, y)
    assert {record["problem"] for record in by_default.history_} == {0, 1, 2}
