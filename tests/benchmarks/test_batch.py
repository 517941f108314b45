"""Batch solvers: times as multiples of one pass over the packed kernels, passes as multiples of the bandwidth floor.

Run with ``pytest tests/benchmarks/test_batch.py --benchmark-only -s``.
"""

import importlib
import itertools
import multiprocessing
import resource
import time

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from omkl import MKLClassifier
from omkl.batch import OneStep, Problem, Spicy
from omkl.data import data_home
from omkl.kernels import PackedStack, random_subset_gaussians, variable_kernels
from omkl.kernels.functions import as_kernel
from omkl.kernels.gram import GramRows
from omkl.losses import Hinge, Logistic
from omkl.regularizers import L21, ElasticNet

LOSSES = {"logistic": Logistic(), "hinge": Hinge()}


def read(name, n_samples, seed=0):
    """Standardised samples in random order; a share of them where ``n_samples`` is below 1."""
    table = np.loadtxt(data_home() / "uci" / f"{name}.csv.gz", delimiter=",", skiprows=1)
    size = int(n_samples * len(table)) if n_samples < 1 else n_samples
    table = table[np.random.default_rng(seed).permutation(len(table))[:size]]
    X, y = table[:, :-1], table[:, -1]
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


def subsets(name, n_kernels, n_samples):
    """Section 6.2."""
    X, y = read(name, n_samples)
    return PackedStack.from_kernels(random_subset_gaussians(n_kernels, X.shape[1], 0), X), y


def fastest(function, repeats=5):
    """Least processor time of several calls, the first of which does not count: it compiles."""
    times = []
    for _ in range(repeats + 1):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times[1:])


def report(benchmark, title, problem, solver=None, tol=1e-2):
    """Time a solver, and print what it took beside one pass."""
    solver, vector = solver or Spicy(), np.ones(problem.kernels.n_samples)
    one_pass = fastest(lambda: problem.kernels.quadratics(vector))
    solution = benchmark.pedantic(solver.solve, (problem, tol), rounds=3, warmup_rounds=1)
    seconds, last = fastest(lambda: solver.solve(problem, tol), 2), solution.history[-1]
    print(
        f"\n{title}, gap {solution.certificate.gap:.0e}: {seconds:.3f} s = {seconds / one_pass:.0f} passes of "
        f"{1e3 * one_pass:.1f} ms; {last['full_passes']:.1f} full passes, {last['newton_steps']} Newton steps, "
        f"{last['active']} active, objective {solution.certificate.primal:.5f}"
    )


@pytest.mark.parametrize("question", ["quadratics", "products", "combine"])
def test_a_pass_over_packed_kernels(benchmark, question):
    stack = PackedStack(np.random.default_rng(0).random((3000, 20100), dtype=np.float32))
    floor = fastest(stack.rows.sum)
    vector = np.ones(stack.n_kernels if question == "combine" else stack.n_samples)
    benchmark(getattr(stack, question), vector)
    ratio = fastest(lambda: getattr(stack, question)(vector)) / floor
    print(f"\n{question}: {ratio:.2f} times a plain sum, which reads {stack.nbytes / floor / 1e9:.1f} GB/s")


@pytest.mark.parametrize("name", ["ringnorm", "splice"])
def test_building_3000_kernels(benchmark, name):
    X, _ = read(name, 200)
    benchmark(lambda: PackedStack.from_kernels(random_subset_gaussians(3000, X.shape[1], 0), X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_samples", "n_columns"), [(5000, 64), (5000, 256), (20000, 128)])
def test_gram_rows_on_demand(benchmark, n_samples, n_columns, dtype):
    """Rows of three kernels that are not kept, beside the matrix product of the same vectors."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_samples, n_columns))
    kernels = [as_kernel(spec).fit(X) for spec in ("linear", "gaussian", "quadratic")]
    rows = GramRows(kernels, [X] * 3, dtype, budget=30 * n_samples * np.dtype(dtype).itemsize)
    wanted = itertools.cycle(generator.permutation(n_samples)[:1000].reshape(-1, 10).tolist())
    inputs = X.astype(dtype)
    floor = fastest(lambda: inputs[next(wanted)] @ inputs.T)
    benchmark(lambda: rows[next(wanted)])
    print(f"\n{n_samples} x {n_columns}: {fastest(lambda: rows[next(wanted)]) / floor:.1f} matrix products")


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
@pytest.mark.parametrize("C", [20.0, 2.0])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["ringnorm", "splice", "twonorm", "waveform"])
def test_3000_kernels(benchmark, name, loss, C, tol):
    kernels, y = subsets(name, 3000, 200)
    report(benchmark, f"{name}, {loss}, C = {C}", Problem(kernels, y, LOSSES[loss], L21(), C), tol=tol)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["ringnorm", "splice"])
def test_elastic_net_in_one_step(benchmark, name, loss):
    kernels, y = subsets(name, 3000, 200)
    problem = Problem(kernels, y, LOSSES[loss], ElasticNet(0.5), 0.05)
    report(benchmark, f"elastic net, {name}, {loss}", problem, OneStep())


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
@pytest.mark.parametrize("C", [200.0, 20.0, 2.0])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["sonar", "ionosphere", "pima"])
def test_kernels_on_each_variable(benchmark, name, loss, C, tol):
    X, y = read(name, 0.8)
    kernels = PackedStack.from_kernels(variable_kernels(X.shape[1]), X)
    report(benchmark, f"{name}, {loss}, C = {C}", Problem(kernels, y, LOSSES[loss], L21(), C), tol=tol)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_kernels", [50, 200, 1000, 3000, 6000])
def test_more_kernels(benchmark, n_kernels, loss):
    kernels, y = subsets("ringnorm", n_kernels, 200)
    report(benchmark, f"{n_kernels} kernels, {loss}", Problem(kernels, y, LOSSES[loss], L21(), 0.05))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_samples", [500, 1000, 2000, 3000])
def test_more_samples(benchmark, n_samples, loss):
    kernels, y = subsets("ringnorm", 20, n_samples)
    report(benchmark, f"{n_samples} samples, {loss}", Problem(kernels, y, LOSSES[loss], L21(), 0.05))


def digit_kernels():
    """30 kernels on images of 8 x 8 pixels: of many widths, on all rows and on each, linear and quadratic."""
    wide = [f"gaussian:sigma2={width:.1f}" for width in np.geomspace(20, 20000, 20)]
    return [*wide, *(f"gaussian:sigma2=100,on={8 * row}:{8 * row + 8}" for row in range(8)), "linear", "quadratic"]


@pytest.mark.parametrize("loss", LOSSES)
def test_ten_classes_together_and_one_after_the_other(benchmark, loss):
    """scikit-learn's digits, kernels included: processor time, gap and accuracy, beside scikit-learn's own SVC."""
    X, y = load_digits(return_X_y=True)
    split = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

    def fit(multiclass):
        started = time.process_time()
        model = MKLClassifier(digit_kernels(), C=10.0, loss=loss, multiclass=multiclass).fit(split[0], split[2])
        return time.process_time() - started, model.dual_gap_, model.score(split[1], split[3])

    fit("shared")
    benchmark.pedantic(fit, ("shared",), rounds=1)
    for multiclass in ("shared", "ovr"):
        print("\n{}, {}: {:.2f} s, gap {:.4f}, accuracy {:.4f}".format(loss, multiclass, *fit(multiclass)), end="")
    print(f"; SVC: {SVC(C=10.0, gamma=1e-3).fit(split[0], split[2]).score(split[1], split[3]):.4f}")


def by_spicy(kernels, y, seconds):
    problem = Problem(kernels, y, LOSSES["logistic"], L21(), 0.05)
    start = time.process_time()
    model = Spicy().solve(problem).model
    seconds.append(time.process_time() - start)
    return lambda cross: np.einsum("mij,mj->i", cross[model.active], model.coefficients) + model.intercept


def by_easy_mkl(kernels, y, seconds):
    import torch
    from MKLpy.algorithms import EasyMKL

    grams = [torch.from_numpy(kernels.combine([1.0], [m])) for m in range(kernels.n_kernels)]
    start = time.process_time()
    fitted = EasyMKL(lam=0.1).fit(grams, torch.from_numpy(y))
    seconds.append(time.process_time() - start)
    return lambda cross: np.asarray(
        fitted.decision_function([torch.from_numpy(k.astype(float)) for k in cross])
    ).ravel()


def by_himalaya(kernels, y, seconds):
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    grams = np.array([kernels.combine([1.0], [m]) for m in range(kernels.n_kernels)], dtype=np.float32)
    start = time.process_time()
    fitted = MultipleKernelRidgeCV(
        kernels="precomputed", solver="random_search", solver_params={"progress_bar": False}, random_state=0
    )
    fitted.fit(grams, y.astype(np.float32)[:, None])
    seconds.append(time.process_time() - start)
    return lambda cross: np.asarray(fitted.predict(cross)).ravel()


PEERS = {"MKLpy": by_easy_mkl, "himalaya": by_himalaya}


def fit_and_score(method, whole, y, n_train):
    """Seconds of the fit alone, bytes that the process grew by until then, and the accuracy on the samples left."""
    seconds, train, before = [], np.arange(n_train), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    predict = method(whole.restricted(train), y[:n_train], seconds)
    memory = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    cross = np.empty((whole.n_kernels, len(y) - n_train, n_train), dtype=np.float32)
    for m, matrix in enumerate(cross):
        matrix[:] = whole.combine([1.0], [m], np.arange(n_train, len(y)))[:, :n_train]
    return seconds[0], memory, np.mean(np.sign(predict(cross)) == y[n_train:])


def in_a_process_of_its_own(function, *arguments):
    """What a function returns, called in a copy of this process."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=lambda: theirs.send(function(*arguments)))
    process.start()
    theirs.close()
    answer = ours.recv()
    process.join()
    return answer


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", ["ringnorm", "splice"])
def test_against_what_installs_today(benchmark, name, peer):
    """Fit times and memory with kernels given, and the accuracy on 200 samples that were not trained on."""
    try:
        importlib.import_module(peer)
    except ImportError:
        pytest.skip(f"{peer} is not installed: pip install {peer}")
    whole, y = subsets(name, 3000, 400)
    fit_and_score(by_spicy, whole, y, 200)
    ours, theirs = (in_a_process_of_its_own(fit_and_score, method, whole, y, 200) for method in (by_spicy, PEERS[peer]))
    benchmark.pedantic(by_spicy, (whole.restricted(np.arange(200)), y[:200], []), rounds=1)
    for who, (seconds, memory, right) in (("omkl", ours), (peer, theirs)):
        print(
            f"\n{name}, {who}: {seconds:.3f} s ({seconds / ours[0]:.1f} of omkl's), {memory / 1e9:.2f} GB "
            f"({memory / ours[1]:.1f}), accuracy {right:.3f} ({right / ours[2]:.2f})"
        )
