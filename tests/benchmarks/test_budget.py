"""Kernels on a budget: examples a second beside the floor of their kernel values; accuracy against time."""

import time

import numpy as np
import pytest

from omkl import OnlineMKLClassifier, SequenceLabeler

BUDGET = 1000


def cpu(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def clusters(n, d, seed, wrong=0.05):
    """Seven classes, each many clusters: what no linear model separates."""
    world = np.random.default_rng(99)
    centers, classes = 1.2 * world.normal(size=(60, d)), world.integers(0, 7, size=60)
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 60, size=n)
    y = np.where(rng.random(n) < wrong, rng.integers(0, 7, size=n), classes[z])
    return centers[z] + rng.normal(size=(n, d)), y


def floor_of_a_round(d, n_kernels):
    """CPU seconds of one example's kernel values by numpy: a product and an exponential a kernel."""
    rng = np.random.default_rng(0)
    support, X = rng.normal(size=(BUDGET, d)), rng.normal(size=(500, 1, d))

    def values():
        for x in X:
            for _ in range(n_kernels):
                np.exp(x @ support.T)

    return min(cpu(values)[0] for _ in range(5)) / len(X)


DUAL = {"linear": "linear:explicit=False", "gaussian": "gaussian", "laplacian": "laplacian"}
CASES = {
    "three dual kernels": DUAL,
    "linear, quadratic, gaussian": {name: name for name in ("linear", "quadratic", "gaussian")},
}


@pytest.mark.parametrize("policy", ["removal", "projection"])
@pytest.mark.parametrize("d", [20, 50])
@pytest.mark.parametrize("case", CASES)
def test_stream(benchmark, case, d, policy):
    n = 2000 if policy == "removal" else 200
    X, y = clusters(1500 + 6 * n, d, seed=1)
    model = OnlineMKLClassifier(CASES[case], budget=BUDGET, budget_maintenance=policy, random_state=0)
    model.partial_fit(X[:1500], y[:1500], classes=np.arange(7))
    (bank,) = [bank for bank in model.model_.trainer.banks if hasattr(bank, "budget")]
    assert bank.n_support == BUDGET
    blocks = iter(np.split(np.arange(1500, len(y)), 6))
    admitted, seconds = bank._n_admitted, []

    def block():
        rows = next(blocks)
        seconds.append(cpu(model.partial_fit, X[rows], y[rows])[0])

    benchmark.pedantic(block, rounds=6)
    share = (bank._n_admitted - admitted) / (6 * n)
    a_round = min(seconds) / n
    floor = floor_of_a_round(d, len(bank.names))
    print(
        f"\n{case}, {d} columns, {policy} at {BUDGET}: {1 / a_round:,.0f} examples/s of one core, "
        f"{a_round * 1e6:.0f} us a round, {share:.0%} of which replaced a support vector; "
        f"numpy's kernel values {floor * 1e6:.0f} us: {a_round / floor:.1f} x that floor; "
        f"memory {model.memory_usage()['training']:.1f} MB"
    )


def test_overhead(benchmark):
    """The same round with ten support vectors: what is not kernel values."""
    X, y = clusters(7500, 20, seed=1)
    model = OnlineMKLClassifier(DUAL, budget=10, budget_maintenance="removal", random_state=0)
    model.partial_fit(X[:1500], y[:1500], classes=np.arange(7))
    blocks, seconds = iter(np.split(np.arange(1500, 7500), 6)), []
    benchmark.pedantic(lambda: seconds.append(cpu(model.partial_fit, X[r := next(blocks)], y[r])[0]), rounds=6)
    print(f"\noverhead of a round that replaces a support vector, three kernels: {min(seconds) * 1e3:.0f} us")


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_accuracy_on_a_stream(benchmark, loss):
    X, y = clusters(10_000, 20, seed=1)
    test_X, test_y = clusters(5000, 20, seed=2, wrong=0.0)

    def run(**options):
        model = OnlineMKLClassifier(["linear", "gaussian", "laplacian"], loss=loss, random_state=0, **options)
        seconds, _ = cpu(model.partial_fit, X, y)
        print(f"  {options}: accuracy {model.score(test_X, test_y):.1%}, {seconds:.1f} s CPU")

    print(f"\n10 thousand examples, {loss}")
    run(budget=10)
    benchmark.pedantic(run, rounds=1)
    for policy, budgets in (("removal", (200, 1000)), ("projection", (100, 200, 500))):
        for budget in budgets:
            run(budget=budget, budget_maintenance=policy)


def test_accuracy_on_letters(benchmark, ocr):
    (images, letters), test = ocr.of_folds(1), ocr.of_folds([2, 3, 4])

    def run(**options):
        labeler = SequenceLabeler(["quadratic", "gaussian:sigma2=5"], epochs=3, random_state=0, **options)
        seconds, _ = cpu(labeler.fit, images, letters)
        print(f"  {options}: accuracy {labeler.score(*test):.1%}, {seconds:.1f} s CPU")

    print(f"\nOCR, one fold of {sum(map(len, images))} letters, 3 epochs")
    benchmark.pedantic(run, rounds=1)
    for policy, budgets in (("removal", (200, 1000)), ("projection", (100, 200, 500, 1000))):
        for budget in budgets:
            run(budget=budget, budget_maintenance=policy)
