"""Every kind of stack agrees with plain Gram matrices; invalid kernels are refused."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from omkl.exceptions import InputError
from omkl.kernels import (
    FactoredStack,
    Gaussian,
    LazyStack,
    Linear,
    MixedStack,
    Nystrom,
    PackedStack,
    Pair,
    Polynomial,
    as_kernel,
    packed,
    stack,
)
from omkl.kernels.packed import packed_kernels, require_memory
from omkl.kernels.stack import ReplicatedStack, RestrictedView, WeightedSum

from ..stacks import DenseStack

N = 67
KERNELS = [
    Gaussian(sigma2=2.0),
    Gaussian(sigma2=0.3, on=(0, 3)),
    Linear(normalize=None),
    Polynomial(degree=3, normalize="trace", on=slice(1, 2)),
    Gaussian(sigma2="median", normalize="trace", on=slice(0, 4)),
    Polynomial(2),
]
X = np.random.default_rng(1).normal(size=(N, 5))


def grams_of(kernels):
    grams = []
    for kernel in map(as_kernel, kernels):
        if kernel.on is None:
            grams.append(kernel.fit(X)(X))
        else:
            view = X[:, list(kernel.on) if isinstance(kernel.on, tuple) else kernel.on]
            grams.append(kernel.fit_view(view).between(Pair(view, view)))
    return np.array(grams)


def nystrom(n_landmarks):
    return [Nystrom(kernel, n_landmarks).fit(X) for kernel in map(as_kernel, KERNELS)]


GRAMS = grams_of(KERNELS)
STACKS = {
    "packed": lambda: PackedStack.from_grams(GRAMS, np.float64),
    "packed from data": lambda: PackedStack.from_kernels(KERNELS, X, np.float64),
    "single precision": lambda: PackedStack.from_grams(GRAMS),
    "single precision from data": lambda: PackedStack.from_kernels(KERNELS, X),
    "factored": lambda: FactoredStack([np.linalg.cholesky(g + 1e-13 * np.eye(N)) for g in GRAMS]),
    "mixed": lambda: MixedStack(
        [DenseStack(GRAMS[[4, 0]]), PackedStack.from_grams(GRAMS[[1, 5, 2, 3]], np.float64)],
        [4, 0, 1, 5, 2, 3],
    ),
    "lazy": lambda: LazyStack(KERNELS, X, np.float64, budget=3 * N * (N + 1) * 4),
    "Nystrom on all samples": lambda: FactoredStack.from_kernels(nystrom(N), X, np.float64),
}


@pytest.mark.parametrize("kind", STACKS)
@pytest.mark.parametrize("which", [None, np.array([3]), np.array([5, 0, 2]), np.arange(0)])
def test_a_stack_answers_as_plain_matrices_do(kind, which):
    answers_alike(
        STACKS[kind](),
        DenseStack(GRAMS),
        which,
        1e-4 if "single" in kind else 1e-7,
    )


@pytest.mark.parametrize("kind", ["packed", "single precision", "factored", "mixed", "lazy"])
@pytest.mark.parametrize("which", [None, np.array([5, 0, 2]), np.arange(0)])
@pytest.mark.parametrize("form", [RestrictedView, lambda stack, samples: stack.restricted(samples)])
def test_a_stack_of_some_of_the_samples_answers_as_plain_matrices_do(kind, which, form):
    """As copies and as views, and nested."""
    first = np.arange(0, N, 2)
    second = np.array([0, 2, 3, 20, 33])
    stack = form(STACKS[kind](), first)
    answers_alike(
        stack, DenseStack(GRAMS).restricted(first), which, 1e-4 if "single" in kind else 1e-7
    )
    dense = DenseStack(GRAMS[:, first[second][:, None], first[second]])
    answers_alike(
        stack.restricted(second),
        dense,
        which,
        1e-4 if "single" in kind else 1e-7,
    )


@pytest.mark.parametrize("kind", ["packed", "factored", "mixed", "lazy"])
@pytest.mark.parametrize("which", [None, np.array([5, 0, 2])])
def test_copies_of_all_samples_are_blocks_on_the_diagonal(kind, which):
    blocks = np.array([np.kron(np.eye(3), gram) for gram in GRAMS])
    answers_alike(
        ReplicatedStack(STACKS[kind](), 3),
        DenseStack(blocks),
        which,
        1e-7,
    )


each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@each_dtype
def test_products_of_packed_kernels_of_any_size(dtype, rng):
    for n in range(1, 40):
        factors = rng.normal(size=(3, n, n)).astype(dtype).astype(float)
        grams = (factors @ factors.swapaxes(1, 2)).astype(dtype).astype(float)
        stack = PackedStack.from_grams(grams, dtype)
        for vectors in (rng.normal(size=n), rng.normal(size=(2, n))):
            expected = DenseStack(grams).products(vectors, np.array([2, 0]))
            assert_allclose(
                stack.products(vectors, np.array([2, 0])), expected, rtol=1e-12, atol=1e-11
            )


def answers_alike(stack, dense, which, atol):
    """Check that two stacks of six kernels give the same answers about some of them."""
    rng = np.random.default_rng(2)
    n = dense.n_samples
    size = 6 if which is None else len(which)
    alike = partial(
        assert_allclose,
        rtol=max(1e-7, 0.1 * atol),
        atol=atol,
    )
    assert stack.n_kernels == 6
    assert stack.n_samples == n
    for m in (0, 5):
        gram = dense.combine([1.0], [m])
        assert_allclose(
            stack.packed(m),
            gram[np.tril_indices(n)],
            atol=atol,
        )
    vector = rng.normal(size=n)
    for _ in range(2):
        alike(
            stack.quadratics(vector, which),
            dense.quadratics(vector, which),
        )
        alike(
            stack.products(vector, which),
            dense.products(vector, which),
        )
    for n_vectors in (packed.SINGLY + 2, 3):
        block = rng.normal(size=(n_vectors, n))
        products = np.array([dense.products(row, which) for row in block])
        quadratics = np.einsum("pmn,pn->m", products, block)
        alike(
            stack.block_quadratics(block, which),
            quadratics,
            atol=n_vectors * atol,
        )
        alike(stack.block_products(block, which), products.swapaxes(0, 1))
        blocks = rng.normal(size=(size, n_vectors, n))
        products = np.array([dense.products(rows, which) for rows in blocks.swapaxes(0, 1)])
        alike(stack.block_products(blocks, which), products.swapaxes(0, 1))
    if stack.n_parts == 1:
        block = rng.normal(size=(size, n))
        alike(
            stack.products(block, which),
            dense.products(block, which),
        )
        alike(stack.diagonals(which), dense.diagonals(which))
        alike(stack.traces(which), dense.traces(which))
        weights = rng.random(size)
        sums_alike(
            stack,
            weights,
            which,
            dense.combine(weights, which),
            alike,
        )


def sums_alike(stack, weights, which, combined, alike):
    """Check that weighted sums of the kernels of a stack are a matrix (n, n)."""
    n = len(combined)
    alike(stack.combine(weights, which), combined)
    for samples in (np.array([n - 1, 0, 3]), np.arange(0), np.arange(n)[::-2]):
        alike(stack.combine(weights, which, samples), combined[samples])
    vectors = np.random.default_rng(3).normal(size=(2, n))
    vector = vectors[0]
    alike(stack.summed(weights, which).block_products(vectors)[0], vectors @ combined)
    for total in (stack.summed(weights, which), WeightedSum(stack, weights, which)):
        alike(total.products(vector)[0], combined @ vector)
        alike(total.products(vector[None])[0], combined @ vector)
        alike(
            total.quadratics(vector)[0],
            vector @ combined @ vector,
        )
        alike(total.diagonals()[0], np.diagonal(combined))
        few = np.array([n - 1, 1])
        alike(total.combine([1.0], samples=few), combined[few])


def test_kernels_that_are_not_kept_are_zero():
    in_use = np.array([True, False, True, True, False, True])
    stack = MixedStack([STACKS["packed"]()], in_use=in_use)
    answers_alike(
        stack,
        DenseStack(GRAMS * in_use[:, None, None]),
        None,
        1e-7,
    )
    nothing = MixedStack([STACKS["packed"]()], in_use=np.zeros(6, dtype=bool)).summed(np.ones(6))
    assert_array_equal(
        nothing.products(np.ones(N)),
        np.zeros((1, N)),
    )


@each_dtype
def test_sums_are_in_double_precision(dtype):
    """Only the storage rounds: results are exact for the stored numbers."""
    stack = PackedStack.from_grams(GRAMS, dtype)
    stored = DenseStack(GRAMS.astype(dtype).astype(np.float64))
    vector = np.random.default_rng(3).normal(size=N)
    assert_allclose(
        stack.quadratics(vector),
        stored.quadratics(vector),
        rtol=1e-12,
    )
    assert_allclose(
        stack.products(vector),
        stored.products(vector),
        atol=1e-12,
    )


def test_rows_longer_than_a_block_are_summed_whole():
    points = np.random.default_rng(4).normal(size=(300, 3))
    stack = PackedStack.from_kernels(
        [Gaussian(1.0), Linear()],
        points,
        np.float64,
    )
    vector = np.random.default_rng(5).normal(size=300)
    gram = Gaussian(sigma2=1.0)(points)
    assert stack.length > 32768
    assert_allclose(
        stack.quadratics(vector)[0],
        vector @ gram @ vector,
        rtol=1e-12,
    )
    assert_allclose(
        stack.combine([2.0, 0.0]),
        2 * gram,
        atol=1e-14,
    )


def test_a_lazy_stack_keeps_within_its_budget():
    stack = LazyStack(KERNELS, X, np.float64, budget=3 * N * (N + 1) * 4)
    for which in (None, np.array([0, 1]), np.array([2, 3, 4])):
        stack.quadratics(np.ones(N), which)
        assert stack.nbytes <= 3 * N * (N + 1) * 4
    assert stack.nbytes > 0


#: Memory layouts of the same matrices.
LAYOUTS = {
    "list": list,
    "list of Fortran order": lambda grams: [np.asfortranarray(gram) for gram in grams],
    "array": np.asarray,
    "array of Fortran order": np.asfortranarray,
    "kernels last": lambda grams: np.moveaxis(np.stack(grams, axis=-1), -1, 0),
    "every second": lambda grams: np.repeat(np.repeat(grams, 2, axis=0), 2, axis=2)[::2, :, ::2],
    "big-endian": lambda grams: np.asarray(grams).astype(">f8"),
}


def spoiled(value, m, n_kernels):
    grams = np.array([GRAMS[0]] * n_kernels)
    grams[m, 3, 5] += value
    return grams


@pytest.mark.parametrize("layout", LAYOUTS)
@each_dtype
@pytest.mark.parametrize("n_kernels", [6, 300])
def test_matrices_are_packed_from_any_layout(layout, dtype, n_kernels):
    grams = np.array([GRAMS[m % 6] * (1 + m) for m in range(n_kernels)])
    made = PackedStack.from_grams(LAYOUTS[layout](grams), dtype)
    lower = np.tril_indices(N)
    assert_array_equal(made.rows, [gram[lower].astype(dtype) for gram in grams])


def test_integers_and_single_precision_are_packed():
    for grams in (
        np.array([np.eye(9, dtype=int)] * 3),
        np.ones((3, 9, 9), np.float32),
        [np.eye(9).tolist()] * 3,
    ):
        made = PackedStack.from_grams(grams)
        assert_array_equal(
            made.combine([0, 0, 1]),
            np.asarray(grams[2], float),
        )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("grams", "message"),
    [
        (np.array([GRAMS[0], GRAMS[0] - 0.5 * np.eye(N)]), "Kernel 1 is not positive semidefinite"),
        (np.array([GRAMS[0], -np.eye(N)]), "Kernel 1 is not positive semidefinite"),
        (spoiled(0.1, 298, 300), "Kernel 298 is not symmetric"),
        (spoiled(np.nan, 0, 2), "Kernel 0 has entries that are not finite"),
        (spoiled(-np.inf, 0, 1), "Kernel 0 has entries that are not finite"),
        (1e16 * GRAMS, "Kernel 0 has entries that are not finite, or above"),
    ],
)
def test_matrices_that_are_no_kernels_are_named(layout, grams, message):
    with pytest.raises(InputError, match=message):
        PackedStack.from_grams(LAYOUTS[layout](grams))


@pytest.mark.parametrize("grams", [[GRAMS[0], GRAMS[0][:-1, :-1]], [GRAMS[0], GRAMS[0][:-1]]])
def test_matrices_of_another_shape_are_named(grams):
    with pytest.raises(InputError, match=r"Kernel 1 has shape \(66, 6[67]\)"):
        PackedStack.from_grams(grams)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 40, 65, 150])
def test_the_smallest_eigenvalue_decides(n):
    """Eigenvalues are below, near and above 0, relative to the diagonal; ranks are low and full."""
    generator = np.random.default_rng(n)
    n_verdicts = {True: 0, False: 0}
    for smallest in (-1.0, -1e-2, -1e-4, -2e-5, -4e-6, 0.0, 1e-6, 1e-3):
        for rank in {1, (n + 1) // 2, n}:
            vectors = np.linalg.qr(generator.normal(size=(n, n)))[0]
            values = np.where(
                np.arange(n) < rank,
                generator.exponential(size=n),
                0.0,
            )
            gram = (vectors * values) @ vectors.T
            gram /= np.diagonal(gram).max()
            shift = smallest * np.outer(vectors[:, -1], vectors[:, -1])
            gram = 1e-7 * (0.5 * (gram + gram.T) + 0.5 * (shift + shift.T))
            wanted = bool(np.linalg.eigvalsh(gram)[0] >= -1e-5 * max(np.diagonal(gram).max(), 0.0))
            try:
                PackedStack.from_grams([gram])
                accepted = True
            except InputError:
                accepted = False
            assert accepted == wanted, (smallest, rank)
            n_verdicts[wanted] += 1
    assert n_verdicts[True]
    assert n_verdicts[False] or n == 1


@pytest.mark.parametrize("width", [1e-4, 1e-2, 1.0, 1e3, 1e6])
def test_gaussians_of_any_width_need_no_second_check(monkeypatch, width):
    """From nearly the identity, whose products are subnormal, to nearly a constant."""
    monkeypatch.setattr(packed, "checked_gram", None)
    points = np.random.default_rng(3).normal(size=(200, 4))
    PackedStack.from_grams([Gaussian(sigma2=width)(points), points @ points.T])


def test_kernels_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr(stack, "free_bytes", lambda: 2**10)
    with pytest.raises(InputError, match=r"3000 packed kernels of 20000 samples need .* GiB, but"):
        require_memory(3000, 20000, np.float32)
    with pytest.raises(InputError, match=r"2 factors of 67 samples need .* GiB, but"):
        FactoredStack.from_kernels([Linear(), Linear()], X)


@pytest.mark.parametrize("on", ["view", (7,), slice(5, 9)])
def test_columns_that_are_not_there_are_refused(on):
    with pytest.raises(InputError):
        packed_kernels(
            [Gaussian(sigma2=1.0, on=on)],
            X,
            np.float32,
        )


def test_single_precision_rounding_passes_as_semidefinite():
    big = np.random.default_rng(8).normal(size=(400, 3))
    gram = (big @ big.T).astype(np.float32)
    PackedStack.from_grams([gram, Gaussian(sigma2=50.0)(big).astype(np.float32)])
