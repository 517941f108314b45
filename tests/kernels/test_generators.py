"""The kernel families of the papers: how many, which, and what their matrices are."""

import numpy as np

from omkl.kernels import PackedStack, random_subset_gaussians, variable_kernels


def test_27_kernels_on_each_variable_and_on_all(rng):
    X = rng.normal(size=(30, 4))
    kernels = list(variable_kernels(4))
    assert len(kernels) == 27 * 5
    stack = PackedStack.from_kernels(kernels, X, np.float64)
    np.testing.assert_allclose(stack.traces(), 1.0, rtol=1e-12)
    distances = (X[:, None, 2] - X[None, :, 2]) ** 2
    np.testing.assert_allclose(stack.combine([1.0], [2 * 27]), np.exp(-distances / (2 * 0.1**2)) / 30, atol=1e-12)
    cubic = (X @ X.T + 1) ** 3
    np.testing.assert_allclose(stack.combine([1.0], [27 * 5 - 1]), cubic / np.trace(cubic), rtol=1e-12)


def test_random_subsets_are_lazy_and_reproducible(rng):
    kernels = random_subset_gaussians(10**9, 20, random_state=3)
    first = [next(kernels) for _ in range(300)]
    assert first == list(random_subset_gaussians(300, 20, random_state=3))
    sizes = [len(kernel.on) for kernel in first]
    assert min(sizes) == 1
    assert max(sizes) == 20
    widths = np.sqrt([kernel.sigma2 for kernel in first])
    assert widths.min() >= 0.1
    X = rng.normal(size=(25, 20))
    gram = PackedStack.from_kernels(first[:1], X, np.float64).combine([1.0])
    view = X[:, list(first[0].on)]
    distances = ((view[:, None] - view[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(gram, np.exp(-distances / (2 * widths[0] ** 2)) / 25, rtol=1e-10)
