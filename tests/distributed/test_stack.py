"""Kernels on two worker processes: solutions as on one machine, even if a worker dies."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris

from omkl import MKLClassifier, MKLClassifierCV, MKLRegressor
from omkl.batch import OneStep, Problem, Spicy
from omkl.distributed import DistributedStack
from omkl.distributed.cluster import workers_of
from omkl.exceptions import DistributionError, InputError, MissingDependencyError
from omkl.kernels import (
    Custom,
    Gaussian,
    Linear,
    PackedStack,
    as_kernel,
    random_subset_gaussians,
    variable_kernels,
)
from omkl.losses import EpsilonInsensitive, Hinge, Logistic
from omkl.regularizers import L21, ElasticNet, Ridge

pytestmark = pytest.mark.slow

distributed = pytest.importorskip("distributed")

N = 80
X = np.random.default_rng(0).normal(size=(N, 6))
Y = np.sign(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * np.random.default_rng(1).normal(size=N))
#: Gaussians among others, so that the Gaussians of a partition are not those of a block.
KERNELS = [*random_subset_gaussians(150, 6, 0), *variable_kernels(6), Linear(normalize="trace")]
M = len(KERNELS)
ROW = N * (N + 1) // 2 * 4


@pytest.fixture(scope="module")
def packed():
    return PackedStack.from_kernels(KERNELS, X)


@pytest.fixture(scope="module", params=[2**26, 0], ids=["kept", "none kept"])
def stack(request, connect):
    return DistributedStack.from_kernels(KERNELS, X, connect(), budget=request.param)


# ---- the same answers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "which", [None, np.array([3]), np.array([M - 1, 0, 120, 119]), np.arange(0), np.arange(40)]
)
def test_a_distributed_stack_answers_as_a_packed_one(stack, packed, which):
    rng = np.random.default_rng(2)
    size = M if which is None else len(which)
    vector = rng.normal(size=N)
    vectors = rng.normal(size=(size, N))
    weights = rng.random(size)
    assert stack.n_kernels == M
    assert stack.n_samples == N
    assert_array_equal(
        stack.quadratics(vector, which),
        packed.quadratics(vector, which),
    )
    assert_array_equal(
        stack.products(vector, which),
        packed.products(vector, which),
    )
    assert_array_equal(
        stack.products(vectors, which),
        packed.products(vectors, which),
    )
    assert_array_equal(stack.diagonals(which), packed.diagonals(which))
    assert_array_equal(stack.traces(which), packed.traces(which))
    matrix = packed.combine(weights, which)
    close = dict(rtol=1e-12, atol=1e-12)
    assert_allclose(stack.combine(weights, which), matrix, **close)
    for samples in (np.array([60, 0, 7]), np.arange(0)):
        assert_allclose(
            stack.combine(weights, which, samples),
            matrix[samples],
            **close,
        )
    # two sums that are multiplied by in turn
    one = stack.summed(weights, which)
    other = stack.summed(2 * weights, which)
    for _ in range(2):
        assert_allclose(
            one.products(vector)[0],
            matrix @ vector,
            **close,
        )
        assert_allclose(
            other.products(vector)[0],
            2 * matrix @ vector,
            **close,
        )
    assert_allclose(
        one.combine([1.0], samples=np.array([5, 2])),
        matrix[[5, 2]],
        **close,
    )
    assert_allclose(
        one.diagonals()[0],
        np.diagonal(matrix),
        **close,
    )


CASES = [
    (Spicy(), Logistic(), L21(), 10.0),
    (Spicy(), EpsilonInsensitive(0.1), L21(), 10.0),
    (OneStep(), Hinge(), ElasticNet(0.5), 10.0),
    (OneStep(), Hinge(), Ridge(), 1.0),
]


def assert_same_solution(solution, expected, exactly):
    """Compare to 1e-10, or bit by bit if the active kernels are cached here."""
    assert expected.converged
    assert len(expected.model.active) > 3
    assert_array_equal(solution.model.active, expected.model.active)
    if exactly:
        assert solution.certificate.primal == expected.certificate.primal
        assert_array_equal(solution.model.coefficients, expected.model.coefficients)
    else:
        assert_allclose(solution.certificate.primal, expected.certificate.primal, rtol=1e-10)
        assert_allclose(solution.certificate.norms, expected.certificate.norms, atol=1e-10)
        assert_allclose(solution.certificate.outputs, expected.certificate.outputs, atol=1e-10)


@pytest.mark.parametrize(("solver", "loss", "regularizer", "C"), CASES, ids=str)
def test_a_solver_finds_what_it_finds_on_one_machine(stack, packed, solver, loss, regularizer, C):
    solution, expected = (
        solver.solve(Problem(k, Y, loss, regularizer, C), 1e-4) for k in (stack, packed)
    )
    assert_same_solution(
        solution,
        expected,
        exactly=len(stack._cache.recent) > 0,
    )


def test_given_matrices_arrive_as_they_are(client, packed):
    grams = [packed.combine([1.0], [m]) for m in range(0, M, 23)]
    here = PackedStack.from_grams(grams)
    there = DistributedStack.from_grams(grams, client)
    assert there.nbytes == here.nbytes
    vector = np.random.default_rng(3).normal(size=N)
    assert_array_equal(there.quadratics(vector), here.quadratics(vector))
    assert_array_equal(
        there.products(vector, np.arange(5)),
        here.products(vector, np.arange(5)),
    )


# ---- memory --------------------------------------------------------------------------------------


def test_fewer_kernels_than_workers(client):
    stack = DistributedStack.from_kernels(["linear"], X, client)
    assert len(stack.partitions) == 1
    assert_array_equal(stack.quadratics(Y), PackedStack.from_kernels([Linear()], X).quadratics(Y))


def test_cross_validation_on_workers_finds_what_it_finds_here(client):
    kernels = [*random_subset_gaussians(10, 6, 0), "linear"]
    model = MKLClassifierCV(
        kernels, Cs=[0.1, 1.0, 10.0], cv=3, scoring="neg_log_loss", dtype="float64", tol=1e-6
    )
    here, there = (clone(model).fit(X, Y, client=where) for where in (None, client))
    assert_allclose(there.scores_, here.scores_, rtol=1e-5)
    assert there.C_ == here.C_
    assert_allclose(
        there.decision_function(X),
        here.decision_function(X),
        atol=1e-4,
    )


def wait_until(condition):
    while not condition():
        time.sleep(0.05)


# ---- workers that die ----------------------------------------------------------------------------


def kill(client, worker):
    os.kill(client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)


def test_a_worker_that_dies_in_the_middle_of_a_solve_changes_nothing(client, packed):
    stack = DistributedStack.from_kernels(KERNELS, X, client, budget=0)
    rounds = []

    def murder(record):
        rounds.append(record)
        if len(rounds) == 2:
            kill(client, stack.workers[0])

    solution = Spicy().solve(
        Problem(stack, Y, Hinge(), L21(), 20.0),
        1e-4,
        on_iteration=murder,
    )
    expected = Spicy().solve(Problem(packed, Y, Hinge(), L21(), 20.0), 1e-4)
    assert len(rounds) > 2
    assert_same_solution(solution, expected, exactly=False)


def test_workers_that_die_again_and_again_are_given_up(client):
    client.run_on_scheduler(allow_failures, number=0)
    refuse(DistributionError, "were lost.*memory", client, [Custom(deadly_kernel)])
    client.run_on_scheduler(allow_failures, number=3)  # others share the scheduler


def allow_failures(number, dask_scheduler):
    dask_scheduler.allowed_failures = number


def deadly_kernel(left, right):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_paused_worker_gets_no_partition(client, packed):
    both = sorted(client.nthreads())
    client.run(set_status, "paused", workers=both[:1])
    wait_until(lambda: workers_of(client) == both[1:])
    stack = DistributedStack.from_kernels(KERNELS, X, client)
    assert stack.workers == both[1:]
    assert_array_equal(stack.quadratics(Y), packed.quadratics(Y))
    client.run(set_status, "running", workers=both[:1])
    wait_until(lambda: workers_of(client) == both)


def set_status(name, dask_worker):
    dask_worker.memory_manager.memory_pause_fraction = False  # and the worker stops
    dask_worker.status = distributed.Status[name]


# ---- what is refused -----------------------------------------------------------------------------


def refuse(error, match, client, kernels=KERNELS[:4]):
    with pytest.raises(error, match=match) as caught:
        DistributedStack.from_kernels(kernels, X, client)
    assert str(caught.value).count("\n") == 0


def test_clients_that_are_none(client, monkeypatch):
    for other in ("tcp://127.0.0.1:8786", None, 2):
        refuse(InputError, "must be a dask.distributed.Client", other)
    closed = distributed.Client(client.scheduler.address)
    closed.close()
    refuse(DistributionError, "is closed: connect a new one", closed)
    monkeypatch.setitem(sys.modules, "distributed", None)
    refuse(MissingDependencyError, r"pip install omkl\[dask\]", client)


def test_a_cluster_without_workers(monkeypatch):
    monkeypatch.setattr("omkl.distributed.cluster.WORKER_TIMEOUT", 0.2)
    with (
        distributed.LocalCluster(
            n_workers=0, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        refuse(DistributionError, "has had no running worker for 0.2 s", client)


def test_kernels(client):
    refuse(InputError, "no kernels", client, [])
    refuse(
        InputError,
        "The kernel .* selects the column",
        client,
        ["gaussian:on=7:9"],
    )
    lock = threading.Lock()
    refuse(
        InputError,
        "cannot be sent to workers",
        client,
        [Custom(lambda left, right: lock and left @ right.T)],
    )
    with pytest.raises(FileNotFoundError, match="of my own"):
        DistributedStack.from_kernels([Custom(broken_kernel)], X, client)
    with pytest.raises(InputError, match="Kernel 2 is not positive semidefinite"):
        DistributedStack.from_grams([np.eye(9), np.eye(9), -np.eye(9)], client)
    with pytest.raises(InputError, match="no kernels"):
        DistributedStack.from_grams([], client)


def broken_kernel(left, right):
    raise FileNotFoundError("of my own")


# ---- estimators ----------------------------------------------------------------------------------


def test_a_classifier_fitted_on_workers_is_the_one_fitted_here(client, reloaded):
    kernels = {str(k): kernel for k, kernel in enumerate(KERNELS[:60])}
    here = MKLClassifier(kernels, C=10.0).fit(X, Y)
    there = MKLClassifier(kernels, C=10.0).fit(X, Y, client=client)
    assert_array_equal(there.dual_coef_, here.dual_coef_)
    assert there.kernel_weights_ == here.kernel_weights_
    assert_array_equal(reloaded(there).decision_function(X), here.decision_function(X))
    assert "client" not in there.get_params()


def test_sparse_inputs_are_learned_on_workers_as_they_are_here(client):
    rows = sparse.random_array((60, 9), density=0.4, rng=np.random.default_rng(0), format="coo")
    y = np.asarray(rows.sum(axis=1)).ravel()
    kernels = {"l": "linear", "q": "polynomial:degree=2", "g": "gaussian:sigma2=2"}
    here = MKLRegressor(kernels, C=10.0, tol=1e-4).fit(rows, y)
    there = MKLRegressor(kernels, C=10.0, tol=1e-4).fit(rows, y, client=client)
    assert_allclose(
        there.predict(rows),
        here.predict(rows),
        atol=1e-2,
    )
    for name, weight in there.kernel_weights_.items():
        assert_allclose(weight, here.kernel_weights_[name], atol=2e-2)
    stack = DistributedStack.from_kernels(kernels.values(), rows, client)
    assert_array_equal(
        stack.combine(np.ones(3)),
        PackedStack.from_kernels(map(as_kernel, kernels.values()), rows.tocsr()).combine(
            np.ones(3)
        ),
    )


def test_several_classes_share_the_kernels(client, monkeypatch):
    made = []
    original = DistributedStack.from_kernels.__func__
    monkeypatch.setattr(
        DistributedStack,
        "from_kernels",
        classmethod(lambda *args: made.append(original(*args)) or made[-1]),
    )
    X, y = load_iris(return_X_y=True)
    kernels = ["gaussian", "laplacian"]  # none has a low rank, which would be stored as a factor
    here = MKLClassifier(kernels, C=10.0).fit(X, y)
    there = MKLClassifier(kernels, C=10.0).fit(X, y, client=client)
    assert len(made) == 1
    assert_array_equal(there.decision_function(X), here.decision_function(X))


def test_a_regressor_on_given_matrices_and_a_path(client):
    grams = [Gaussian(sigma2=s)(X) for s in (0.5, 5.0, 50.0)]
    model = MKLRegressor("precomputed", C=10.0)
    here, there = (model.fit(grams, X[:, 0], **on).dual_coef_ for on in ({}, {"client": client}))
    assert_array_equal(there, here)
    here, there = (model.path(grams, X[:, 0], C=3, **on) for on in ({}, {"client": client}))
    assert [record["objective"] for record in there] == [record["objective"] for record in here]


# ---- kernels that are already on the cluster -----------------------------------------------------

WIDTHS = (0.5, 5.0, 50.0, 7.0)
GRAMS = [Gaussian(sigma2=sigma2)(X) for sigma2 in WIDTHS]


def gram_of(sigma2):
    return Gaussian(sigma2=sigma2)(X)


def delayed_grams(form):
    import dask
    import dask.array as da

    lazy = [dask.delayed(gram_of)(sigma2) for sigma2 in WIDTHS]
    blocks = [da.from_delayed(delayed, (N, N), dtype=float) for delayed in lazy]
    return {
        "delayed": lazy,
        "named": dict(zip("abcd", lazy)),
        "arrays": [block.rechunk(33) for block in blocks],
        "one array": da.stack(blocks).rechunk((3, 40, 80)),
        "beside an array here": [GRAMS[0], *lazy[1:]],
    }[form]


@pytest.mark.parametrize(
    "form", ["delayed", "named", "arrays", "one array", "beside an array here"]
)
@pytest.mark.parametrize("some", [False, True], ids=["all", "weights of 0"])
def test_delayed_kernels_are_learned_as_those_given(client, form, some):
    weights = np.tile([1.0, 0.0, 2.0, 0.5], N // 4) if some else None
    here = MKLClassifier("precomputed", C=10.0).fit(GRAMS, Y, weights, client=client)
    # with the client made last
    there = MKLClassifier("precomputed", C=10.0).fit(delayed_grams(form), Y, weights)
    assert_array_equal(there.dual_coef_, here.dual_coef_)
    assert list(there.kernel_weights_.values()) == list(here.kernel_weights_.values())
    assert list(there.kernel_weights_) == (
        list("abcd") if form == "named" else [f"kernel {m}" for m in range(4)]
    )
    assert_array_equal(there.decision_function(GRAMS), here.decision_function(GRAMS))


def test_delayed_kernels_of_a_lost_worker_are_computed_again(client, packed):
    grams = delayed_grams("delayed")
    stack = DistributedStack.from_grams(grams, client, np.float64, budget=0, n_rows=N)
    expected = stack.block_quadratics(Y[None])
    kill(client, stack.workers[0])
    assert_array_equal(stack.block_quadratics(Y[None]), expected)
    assert_allclose(
        expected, PackedStack.from_grams(GRAMS, np.float64).block_quadratics(Y[None]), rtol=1e-12
    )


def test_delayed_kernels_that_are_none(client):
    import dask

    regressor = MKLRegressor("precomputed")
    with pytest.raises(InputError, match=r"Kernel 1 has shape \(79, 79\), not \(80, 80\)"):
        regressor.fit(
            [*delayed_grams("delayed")[:1], dask.delayed(gram_of)(1.0)[1:, 1:]], Y, client=client
        )
    with pytest.raises(InputError, match="Kernel 0 is not symmetric"):
        regressor.fit(
            [dask.delayed(np.triu)(GRAMS[0])],
            Y,
            client=client,
        )
    with pytest.raises(InputError, match="Names of kernels must be strings"):
        regressor.fit(
            {1: dask.delayed(gram_of)(1.0)},
            Y,
            client=client,
        )
