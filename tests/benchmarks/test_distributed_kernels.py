"""Kernels on two workers, on one, and in this process: making them, and solving.

Run with ``pytest tests/benchmarks/test_distributed_kernels.py --benchmark-only -s``: it prints more
than a row holds. Workers are processes with one thread on this machine. Wall times are the least of
several rounds. The CPU time of the client and the busiest worker together is what the wall time
would be on an idle machine.
"""

import os
import time
from contextlib import ExitStack

import pytest
from distributed import Client, LocalCluster

from omkl.batch import OneStep, Problem, Spicy
from omkl.data import read_uci
from omkl.distributed import DistributedStack
from omkl.kernels import PackedStack, random_subset_gaussians
from omkl.losses import Hinge, Logistic
from omkl.regularizers import L21, ElasticNet

ROUNDS = 7
LOSSES = {"logistic": Logistic(), "hinge": Hinge()}

pytestmark = pytest.mark.study


@pytest.fixture(scope="module")
def clients():
    """Clients of clusters with one and with two workers; None stands for this process alone."""
    with ExitStack() as stack:
        found = {0: None}
        for n_workers in (1, 2):
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=n_workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=":0",
                )
            )
            found[n_workers] = stack.enter_context(Client(cluster, direct_to_workers=True))
        yield found


class Times:
    """Least wall time of calls, and CPU time of client and busiest worker together."""

    def __init__(self, client):
        self.client = client
        self.wall = float("inf")
        self.path = float("inf")

    def __call__(self, function, *arguments):
        before = self._workers()
        cpu_started = time.process_time()
        started = time.perf_counter()
        result = function(*arguments)
        self.wall = min(self.wall, time.perf_counter() - started)
        of_client = time.process_time() - cpu_started
        after = self._workers()
        busiest = max((after[key] - before[key] for key in after), default=0.0)
        self.path = min(self.path, of_client + busiest)
        return result

    def _workers(self):
        return {} if self.client is None else self.client.run(time.process_time)


def made(client, kernels, X):
    if client is None:
        return PackedStack.from_kernels(kernels, X)
    return DistributedStack.from_kernels(kernels, X, client)


def report(title, times):
    alone, one, two = (times[n] for n in (0, 1, 2))
    print(
        f"\n{title}: {alone.wall:.3f} s alone, {one.wall:.3f} on one worker, {two.wall:.3f} on two:"
        f" {two.wall / one.wall:.2f} of one's, {two.wall / alone.wall:.2f} of alone; processor time"
        f" {alone.path:.3f}, {one.path:.3f}, {two.path:.3f}: {two.path / one.path:.2f},"
        f" {two.path / alone.path:.2f} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()}"
        " processors)"
    )


@pytest.fixture(
    scope="module", params=[(3000, 200), (6000, 200), (6000, 400), (1000, 1000)], ids=str
)
def stacks(request, clients):
    """The same kernels in this process, on one worker and on two, with targets and the times of
    making them.
    """
    n_kernels, n_samples = request.param
    X, y = (values[:n_samples] for values in read_uci("ringnorm"))
    kernels = list(random_subset_gaussians(n_kernels, X.shape[1], 0))
    times = {n: Times(client) for n, client in clients.items()}
    for client in clients.values():
        made(client, kernels[:2], X).quadratics(y)
    found = {n: times[n](made, client, kernels, X) for n, client in clients.items()}
    report(f"making {n_kernels} kernels of {n_samples} samples", times)
    yield found, y, times
    found.clear()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", ["block 1-norm", "elastic net"])
def test_solving(benchmark, clients, stacks, loss, regularizer):
    stacks, y, making = stacks
    if regularizer == "block 1-norm":
        solver, regularizer_ = Spicy(), L21()
    else:
        solver, regularizer_ = OneStep(), ElasticNet(0.5)
    problems = {
        n: Problem(kernels, y, LOSSES[loss], regularizer_, 20.0) for n, kernels in stacks.items()
    }
    for problem in problems.values():
        solver.solve(problem)
    times = {n: Times(client) for n, client in clients.items()}
    for _ in range(ROUNDS):
        found = {n: times[n](solver.solve, problem) for n, problem in problems.items()}
    benchmark.pedantic(solver.solve, (problems[2],), rounds=1)
    last, kernels = found[0].history[-1], stacks[0]
    differences = [
        abs(found[n].certificate.primal / found[0].certificate.primal - 1) for n in (1, 2)
    ]
    title = f"{kernels.n_kernels} kernels, {kernels.n_samples} samples, {regularizer}, {loss}"
    report(
        f"{title} ({last['full_passes']:.1f} passes, {last['newton_steps']} Newton steps, working"
        f" set {last['working_set']}, objective differs by {max(differences):.0e})",
        times,
    )
    benchmark.extra_info["notes"] = {
        "two workers / one": round(times[2].wall / times[1].wall, 2),
        "two / alone": round(times[2].wall / times[0].wall, 2),
        "processor time of two / one": round(times[2].path / times[1].path, 2),
    }
    for n in times:
        times[n].wall += making[n].wall
        times[n].path += making[n].path
    report(f"{title}, with the making", times)
