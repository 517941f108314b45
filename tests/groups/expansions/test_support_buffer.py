"""Kernel values against a buffer of support vectors equal those of plain pairs after any changes of the buffer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from omkl.groups.expansions.support_buffer import SupportBuffer
from omkl.kernels import Average, B1Spline, Custom, as_kernel

KERNELS = [
    *map(as_kernel, ["linear", "linear:normalize=average", "quadratic", "polynomial:degree=4,normalize=trace"]),
    *map(as_kernel, ["gaussian", "laplacian", "laplacian:sigma=2,normalize=diagonal", "chi2"]),
    B1Spline(density=0.4),
    Average(["linear", "gaussian"], normalize="diagonal"),
    Custom(lambda X, Y: np.minimum(X[:, None], Y[None]).sum(axis=2), normalize="diagonal"),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("d", [1, 3, 4, 11])
def test_buffers_give_the_values_of_the_kernel(kernel, d, rng):
    X = rng.random((900, d))
    X[5] = 0.0
    kernel = kernel.fit(X[:100])
    buffer = SupportBuffer([kernel], d, 600, np.float64)
    held = []
    for _ in range(200):  # tokens at hand in numbers that vary, some of which are kept, at a new index or an old one
        m = int(rng.integers(1, 6))
        at_hand = rng.integers(0, 900, size=m)
        buffer.stage(X[at_hand], len(held))
        for t in range(m):
            index = len(held) if rng.random() < 0.9 else int(rng.integers(0, len(held) + 1))
            held[index : index + 1] = [at_hand[t]]
            buffer.keep(m - t, index)
    assert len(held) > 512, "more than one tile of columns"
    at_hand = [7, 5, held[0]]
    matrix = kernel.between(buffer.stage(X[at_hand], len(held)))
    assert_allclose(matrix, kernel(X[at_hand], X[[*at_hand, *held]]), rtol=1e-9, atol=1e-7)
    assert_array_equal(matrix[0, 3 + np.flatnonzero(np.array(held) == 7)], matrix[0, 0])
    loaded = SupportBuffer([kernel], d, 1000, np.float64)
    loaded.load(np.ascontiguousarray(buffer.vectors(len(held))))
    assert_array_equal(kernel.between(loaded.stage(X[at_hand], len(held))), matrix)
    assert_array_equal(buffer.vectors(len(held)), X[held])


@pytest.mark.parametrize("name", ["gaussian:sigma2=1", "laplacian:sigma=1", "linear"])
def test_single_precision_keeps_distances_far_from_the_origin(name, rng):
    X = rng.normal(size=(50, 4)) + 1000.0
    X = X.astype(np.float32)
    kernel = as_kernel(name)
    buffer = SupportBuffer([kernel], 4, 50, np.float32)
    for i in range(50):
        buffer.stage(X[i : i + 1], i)
        buffer.keep(1, i)
    matrix = kernel.between(buffer.stage(X[:3], 50))
    assert matrix.dtype == np.float32
    assert_allclose(matrix[:, 3:], kernel(X[:3].astype(np.float64), X.astype(np.float64)), rtol=1e-4, atol=1e-6)
