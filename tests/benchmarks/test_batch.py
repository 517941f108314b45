"""Batch solvers against one pass over the packed kernels, and against other MKL programs."""

from collections import deque
from itertools import cycle

import numpy as np
import pytest
from scipy.linalg import cho_factor
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from omkl import MKLClassifier
from omkl.batch import OneStep, Problem, Spicy
from omkl.data import data_home
from omkl.groups.expansions.cached import GramRows
from omkl.kernels import (
    LazyStack,
    PackedStack,
    as_kernel,
    random_subset_gaussians,
    variable_kernels,
)
from omkl.losses import Hinge, Logistic
from omkl.regularizers import L21, ElasticNet
from tests.benchmarks.measuring import Floor, product, stream

LOSSES = {"logistic": Logistic(), "hinge": Hinge()}
large = pytest.mark.large


def read(name, n_samples, seed=0):
    """Read standardized samples in random order; ``n_samples`` below 1 is a fraction of them."""
    path = data_home() / "uci" / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"needs {path}: run data_scripts, or set OMKL_DATA")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    size = int(n_samples * len(table)) if n_samples < 1 else n_samples
    table = table[np.random.default_rng(seed).permutation(len(table))[:size]]
    X, y = table[:, :-1], table[:, -1]
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


def subsets(name, n_kernels, n_samples):
    """Gaussians of random widths on random subsets of the columns (Suzuki and Tomioka 2011, Section
    6.2).
    """
    X, y = read(name, n_samples)
    return PackedStack.from_kernels(random_subset_gaussians(n_kernels, X.shape[1], 0), X), y


def measure_solver(measure, problem, solver=None, tol=1e-2, floor=None, **options):
    """Measure a solver and its floor, by default one pass over the kernels."""
    solver, solutions = solver or Spicy(), deque(maxlen=1)
    vector = np.ones(problem.kernels.n_samples)
    floor = floor or Floor("pass", lambda: problem.kernels.quadratics(vector))
    measure(lambda: solutions.append(solver.solve(problem, tol)), floor=floor, **options)
    last = solutions[-1].history[-1]
    kept = {
        name.replace("_", " "): last[name]
        for name in ("full_passes", "newton_steps", "active")
        if name in last
    }
    measure.note(gap=solutions[-1].certificate.gap, **kept)


@pytest.mark.parametrize("question", ["quadratics", "products", "combine"])
def test_a_pass_over_packed_kernels(measure, question):
    stack = PackedStack(np.random.default_rng(0).random((1000, 20100), dtype=np.float32))
    vector = np.ones(stack.n_kernels if question == "combine" else stack.n_samples)
    measure(lambda: getattr(stack, question)(vector), floor=stream(stack.nbytes))


@pytest.mark.parametrize("name", ["ringnorm", pytest.param("splice", marks=large)])
def test_building_3000_kernels(measure, name):
    X, _ = read(name, 200)
    kernels = list(random_subset_gaussians(3000, X.shape[1], 0))
    floor = product(3000 * 200, X.shape[1], 200)
    measure(lambda: PackedStack.from_kernels(kernels, X), floor=floor)


@pytest.mark.parametrize(
    ("n_samples", "n_columns"), [(5000, 64), pytest.param(20000, 128, marks=large)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_gram_rows_on_demand(measure, n_samples, n_columns, dtype):
    """Ten rows of three kernels, computed on demand; the floor is the matrix product of the same
    vectors.
    """
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_samples, n_columns))
    kernels = [as_kernel(spec).fit(X) for spec in ("linear", "gaussian", "quadratic")]
    rows = GramRows(kernels, [X] * 3, dtype, budget=30 * n_samples * np.dtype(dtype).itemsize)
    wanted = cycle(generator.permutation(n_samples)[:1000].reshape(-1, 10).tolist())
    measure(lambda: rows[next(wanted)], floor=product(10, n_columns, n_samples, dtype))


@pytest.mark.parametrize("tol", [1e-2, pytest.param(1e-6, marks=large)])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "name", ["ringnorm", *(pytest.param(name, marks=large) for name in ("splice", "twonorm"))]
)
def test_3000_kernels(measure, name, loss, tol):
    kernels, y = subsets(name, 3000, 200)
    measure_solver(measure, Problem(kernels, y, LOSSES[loss], L21(), 20.0), tol=tol)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["ringnorm", pytest.param("splice", marks=large)])
def test_elastic_net_in_one_step(measure, name, loss):
    kernels, y = subsets(name, 3000, 200)
    measure_solver(measure, Problem(kernels, y, LOSSES[loss], ElasticNet(0.5), 20.0), OneStep())


@large
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["sonar", "ionosphere", "pima"])
def test_kernels_on_each_variable(measure, name, loss):
    X, y = read(name, 0.8)
    kernels = PackedStack.from_kernels(variable_kernels(X.shape[1]), X)
    measure_solver(measure, Problem(kernels, y, LOSSES[loss], L21(), 20.0))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "n_kernels", [50, 200, 1000, pytest.param(3000, marks=large), pytest.param(6000, marks=large)]
)
def test_more_kernels(measure, n_kernels, loss):
    kernels, y = subsets("ringnorm", n_kernels, 200)
    measure_solver(measure, Problem(kernels, y, LOSSES[loss], L21(), 20.0), size=n_kernels)


@large
@pytest.mark.parametrize("n_kernels", [5000, 10_000, 20_000])
def test_kernels_computed_in_every_pass(measure, n_kernels):
    """Kernels that are computed in every pass and never stored. 100,000 of them take a minute."""
    X, y = read("ringnorm", 200)
    kernels = LazyStack(random_subset_gaussians(n_kernels, X.shape[1], 0), X)
    measure_solver(
        measure,
        Problem(kernels, y, LOSSES["logistic"], L21(), 20.0),
        size=n_kernels,
        once=n_kernels > 5000,
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "n_samples", [500, 1000, pytest.param(2000, marks=large), pytest.param(3000, marks=large)]
)
def test_more_samples(measure, n_samples, loss):
    """Twenty kernels; the floor is one Cholesky factorization for each Newton step."""
    kernels, y = subsets("ringnorm", 20, n_samples)
    problem, system = Problem(kernels, y, LOSSES[loss], L21(), 20.0), np.eye(n_samples)
    n_steps = Spicy().solve(problem).history[-1]["newton_steps"]
    floor = Floor("factors", lambda: cho_factor(system), n_steps)
    measure_solver(measure, problem, floor=floor, size=n_samples, once=n_samples > 2000)


def digit_kernels():
    """Make 30 kernels on 8 x 8 images: linear, quadratic and Gaussians of many widths, on images
    and rows.
    """
    wide = [f"gaussian:sigma2={width:.1f}" for width in np.geomspace(20, 20000, 20)]
    return [
        *wide,
        *(f"gaussian:sigma2=100,on={8 * row}:{8 * row + 8}" for row in range(8)),
        "linear",
        "quadratic",
    ]


@pytest.mark.parametrize("loss", LOSSES)
def test_ten_classes_of_digits(measure, loss):
    """Time with the kernels; the peer is an SVM with one kernel of a good width."""
    X, y = load_digits(return_X_y=True)
    train, test, seen, wanted = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    svm, model = SVC(C=10.0, gamma=1e-3), MKLClassifier(digit_kernels(), C=10.0, loss=loss)
    measure(lambda: model.fit(train, seen), peers={"SVC": lambda: lambda: svm.fit(train, seen)})
    measure.note(
        gap=model.dual_gap_,
        accuracy=model.score(test, wanted),
        of_the_svm=svm.fit(train, seen).score(test, wanted),
    )


def by_easy_mkl(kernels, y):
    import torch
    from MKLpy.algorithms import EasyMKL

    grams = [torch.from_numpy(kernels.combine([1.0], [m])) for m in range(kernels.n_kernels)]
    return lambda: EasyMKL(lam=0.1).fit(grams, torch.from_numpy(y))


def by_himalaya(kernels, y):
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    grams = np.array(
        [kernels.combine([1.0], [m]) for m in range(kernels.n_kernels)], dtype=np.float32
    )
    settings = {"solver_params": {"progress_bar": False, "n_iter": 20}, "random_state": 0}
    model = MultipleKernelRidgeCV(kernels="precomputed", solver="random_search", **settings)
    return lambda: model.fit(grams, y.astype(np.float32)[:, None])


@pytest.mark.parametrize("n_kernels", [200, pytest.param(3000, marks=large)])
def test_beside_other_programs(measure, n_kernels):
    """Peers with their default objectives, which differ; accuracies are about the same."""
    kernels, y = subsets("ringnorm", n_kernels, 200)
    peers = {"MKLpy": lambda: by_easy_mkl(kernels, y)}
    if n_kernels <= 200:  # with 3000 it takes ten seconds a time
        peers["himalaya"] = lambda: by_himalaya(kernels, y)
    measure_solver(measure, Problem(kernels, y, LOSSES["logistic"], L21(), 20.0), peers=peers)
