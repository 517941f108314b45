"""The kernel families of the papers: their number, members and matrices."""

import numpy as np
import pytest

from omkl import MKLClassifier
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, PackedStack, per_column, random_subset_gaussians, variable_kernels


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


def test_one_kernel_a_column_tells_which_matter_in_any_units(rng):
    X = rng.normal(size=(120, 4)) * [10.0, 1e5, 1e-3, 1.0] + [40.0, 5e4, 0.0, 0.0]
    y = (X[:, 0] - 40.0) / 10.0 + np.abs(X[:, 2]) * 1e3 > 1.0
    model = MKLClassifier(per_column("gaussian", X), C=1.0).fit(X, y)
    assert list(model.kernel_weights_) == [f"column {j}" for j in range(4)]
    assert model.kernel_weights_["column 0"] + model.kernel_weights_["column 2"] > 0.9


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_columns_of_a_data_frame_are_those_with_numbers(module):
    frame = pytest.importorskip(module).DataFrame({"age": [1, 2], "city": ["a", "b"], "well": [True, False]})
    assert per_column("gaussian:sigma2=3", frame) == {name: Gaussian(3.0, on=name) for name in ("age", "well")}
    with pytest.raises(InputError, match="has columns already"):
        per_column("gaussian:on=0", frame)
