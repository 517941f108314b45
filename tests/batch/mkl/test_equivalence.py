"""Block 1-norm and weight-constrained MKL are one problem: their C are mapped by the sum of norms."""

import numpy as np
import pytest

from omkl.batch import Problem, Spicy, certify
from omkl.kernels import Gaussian
from omkl.losses import Hinge
from omkl.regularizers import L21, SquaredL21

from ...stacks import DenseStack

N = 40


@pytest.fixture(scope="module")
def stack_and_targets():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 6))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=N) > 0.7, 1.0, -1.0)
    grams = [Gaussian(width)(X[:, [j]]) for j in range(6) for width in (0.3, 3.0)]
    return DenseStack(np.array(grams)), y


@pytest.mark.parametrize("C", [0.5, 3.0])
def test_spicy_solves_the_squared_problem_at_the_mapped_strength(stack_and_targets, C):
    kernels, y = stack_and_targets
    block = Problem(kernels, y, Hinge(), L21(), C)
    solution = Spicy().solve(block, tol=1e-8)
    total = solution.certificate.norms.sum()
    assert total > 0
    squared = Problem(kernels, y, Hinge(), SquaredL21(), C * total)
    assert certify(squared, solution.model, total * solution.certificate.rho).gap < 1e-5
    directly = Spicy().solve(squared, tol=1e-8)
    assert directly.converged
    np.testing.assert_allclose(directly.certificate.norms, solution.certificate.norms, atol=1e-3 * total)
