"""The constants of the regret bounds: against every output there is, and against solvers that share no code."""

from itertools import pairwise, product

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize_scalar

from omkl.exceptions import InputError
from omkl.groups import ExplicitBank, Features, KernelExpansion, Tokens, TransitionBank
from omkl.kernels import Gaussian, Linear
from omkl.losses import CRF, StructuredHinge
from omkl.online import (
    Constant,
    InverseSqrt,
    OnlineTrainer,
    lipschitz_constant,
    optimal_eta0,
    regret_bound,
    solution_radius,
)
from omkl.regularizers import L21, ElasticNet, LqNorm, Ridge, SquaredL21, TreeGroups
from omkl.structures import Chain, Multiclass, Scalar

rng = np.random.default_rng(0)
X = rng.normal(size=(12, 3))
OFFSETS = [0, 4, 5, 8, 12]


def tokens(values):
    rows = sparse.csr_array(values)
    features = Features(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)
    return Tokens(np.array(OFFSETS), features, {"x": values})


def trainer(structure, kernels, n_labels):
    transitions = [TransitionBank(n_labels)] if isinstance(structure, Chain) else []
    return OnlineTrainer(
        [
            ExplicitBank(["a", "b"], np.array([0, 0, 1]), n_labels),
            KernelExpansion([str(k) for k in kernels], kernels, ["x"] * len(kernels), n_labels),
            *transitions,
        ],
        structure, StructuredHinge(), SquaredL21(), lambda_=0.1, schedule=Constant(1.0),
    )  # fmt: skip


def largest_norm(values, grams, n_labels):
    """max ||phi(x, y)|| over all labellings of a chain, from Gram matrices of its tokens."""
    gram = values @ values.T + sum(grams)
    best = 0.0
    for labels in product(range(n_labels), repeat=len(values)):
        same = np.equal.outer(labels, labels)
        pairs = list(pairwise(labels))
        best = max(best, (gram * same).sum() + sum(pairs.count(pair) ** 2 for pair in set(pairs)))
    return np.sqrt(best)


@pytest.mark.parametrize("nonnegative", [True, False])
def test_the_lipschitz_constant_is_the_largest_of_all_labellings(nonnegative):
    """Exact where no kernel is negative, else a bound; never below what any labelling has."""
    values = np.abs(X) if nonnegative else X
    kernels, data = [Gaussian(2.0), Linear()], tokens(values)
    model = trainer(Chain(3), kernels, 3)
    sequences = [values[low:high] for low, high in pairwise(OFFSETS)]
    exact = max(largest_norm(part, [kernel.fit(values)(part, part) for kernel in kernels], 3) for part in sequences)
    found = lipschitz_constant(model, [data.sequence(i) for i in range(4)])
    if nonnegative:
        assert found == pytest.approx(2 * exact, rel=1e-10)
    else:
        assert 2 * exact <= found * (1 + 1e-12)
        assert found < 2 * 1.5 * exact
    assert np.all(model.norms == 0)  # nothing is learned


def test_the_lipschitz_constant_of_classes_is_the_largest_norm():
    data = Tokens(np.arange(13), tokens(X).features, {"x": X})
    found = lipschitz_constant(trainer(Multiclass(4), [Gaussian(2.0)], 4), [data.sequence(i) for i in range(12)])
    assert found == pytest.approx(2 * np.sqrt((X**2).sum(axis=1) + 1).max())


@pytest.mark.parametrize("loss", [StructuredHinge(), CRF()], ids=repr)
def test_no_gradient_is_longer_than_the_lipschitz_constant(loss):
    data, model = tokens(X), trainer(Chain(3), [Gaussian(2.0)], 3)
    model.loss = loss
    bound = lipschitz_constant(model, [data.sequence(i) for i in range(4)])
    for i in [*range(4)] * 20:
        gold = rng.integers(3, size=OFFSETS[i + 1] - OFFSETS[i])
        assert np.sqrt(model.update(data.sequence(i), gold).square_gradient) <= bound


def test_regression_has_no_such_constant():
    with pytest.raises(InputError, match="Scalar has no outputs to compare"):
        lipschitz_constant(trainer(Scalar(), [Gaussian(2.0)], 1), [])


@pytest.mark.parametrize("rounds", [None, 50])
def test_the_optimal_eta0_has_the_least_bound(rounds):
    make = InverseSqrt if rounds is None else Constant
    least = minimize_scalar(
        lambda log_eta: regret_bound(make(np.exp(log_eta)), rounds or 7, 3.0, distance=2.0), bounds=(-8, 3)
    )
    assert_allclose(optimal_eta0(3.0, 2.0, rounds), np.exp(least.x), rtol=1e-4)
    best = regret_bound(make(optimal_eta0(3.0, 2.0, rounds)), rounds or 7, 3.0, distance=2.0)
    assert_allclose(best, 3.0 * 2.0 * np.sqrt(rounds or 2 * 7))


@pytest.mark.parametrize(
    "regularizer", [SquaredL21(), L21(), Ridge(), ElasticNet(0.3), LqNorm(1.5), LqNorm(4.0)], ids=repr
)
@pytest.mark.parametrize("sigma", [0.0, 0.7])
def test_the_radius_is_the_largest_that_the_objective_at_zero_allows(regularizer, sigma):
    """Against a search over directions: no farther point has an objective as low, and one at the radius has."""
    lambda_, loss = 0.4, 2.5
    radius = solution_radius(regularizer, loss, lambda_, 3, sigma)
    directions = np.vstack([np.eye(3), np.ones(3), np.abs(rng.normal(size=(2000, 3)))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    values = [lambda_ * regularizer.value(radius * d) + sigma * radius**2 / 2 for d in directions]
    assert min(values) == pytest.approx(loss, rel=1e-9)


def test_the_radius_of_the_paper():
    assert solution_radius(SquaredL21(), 3.0, 0.5, 7, 0.25) == pytest.approx(np.sqrt(2 * 3.0 / 0.75))
    assert solution_radius(TreeGroups([["a"], ["b"]]).bind(["a", "b"]), 3.0, 0.5, 2, 0.25) <= np.sqrt(2 * 3.0 / 0.25)
    assert solution_radius(SquaredL21(), 0.0, 0.5, 7, 0.25) == 0.0


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_the_solution_lies_within_the_radius(sigma):
    w = cp.Variable(3)
    gold = np.sign(X[:, 0] - 0.2)
    losses = cp.sum(cp.pos(1 - cp.multiply(gold, X @ w))) / len(X)
    penalty = 0.5 * cp.square(cp.norm1(w))
    cp.Problem(cp.Minimize(losses + 0.05 * penalty + sigma / 2 * cp.sum_squares(w))).solve(solver=cp.CLARABEL)
    assert np.linalg.norm(w.value) <= solution_radius(SquaredL21(), 1.0, 0.05, 3, sigma)
