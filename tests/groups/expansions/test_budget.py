"""Kernel groups on a budget against a literal implementation in an explicit feature space.

Values of kernels in the buffer are compared with those of the kernel.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from omkl.exceptions import InputError
from omkl.groups import BudgetedExpansion, KernelExpansion, Tokens, TransitionBank
from omkl.groups.expansions._jit_budget import REPLACED, TILE
from omkl.groups.expansions.kernel import SupportBuffer
from omkl.kernels import (
    Average,
    B1Spline,
    Custom,
    Gaussian,
    Laplacian,
    Linear,
    Polynomial,
    as_kernel,
)
from omkl.losses import CRF, StructuredHinge
from omkl.online import InverseSqrt, PolynomialAverage, UniformAverage
from omkl.regularizers import SquaredL21
from omkl.structures import Chain

from ...passes import online_trainer

K, D = 3, 4
KERNELS = {
    "gaussian": Gaussian(2.0),
    "quadratic": Polynomial(2),
    "linear": Linear(normalize=None),
    "spline": B1Spline(h=3.0),
    "laplacian": Laplacian(2.0, normalize="diagonal"),
    "users": Custom(lambda X, Y: np.exp(-0.1 * np.abs(X[:, None] - Y[None]).max(axis=2))),
}


class Stream:
    """Chains of 1 to 5 tokens, none the same as another."""

    def __init__(self, rounds=60, seed=0):
        rng = np.random.default_rng(seed)
        lengths = [1, *rng.integers(1, 6, size=rounds - 1)]
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.X = rng.normal(size=(self.offsets[-1], D))
        self.gold = (np.sin(2 * self.X) @ rng.normal(size=(D, K))).argmax(axis=1)
        self.tokens = Tokens(self.offsets, None, {"x": self.X})

    def __iter__(self):
        for s in range(len(self.tokens)):
            x = self.tokens.sequence(s)
            yield x, self.gold[x.low : x.high]


def make_bank(kernels, budget, averaging=False, dtype=np.float64):
    return BudgetedExpansion(
        list(kernels), list(kernels.values()), ["x"] * len(kernels), K, budget, averaging, dtype
    )


def make_trainer(bank, method="fobos", lambda_=0.02, loss=None, average=None):
    return online_trainer(
        [bank],
        Chain(K),
        loss=loss,
        lambda_=lambda_,
        method=method,
        average=average,
        unpenalized=[TransitionBank(K, averaging=average is not None)],
    )


def exact_square_norms(bank):
    squares = []
    X = np.ascontiguousarray(bank.supports["x"]).astype(np.float64)
    for kernel, A in zip(bank.kernels, bank.coefficients):
        if isinstance(kernel, B1Spline):
            # it has a kink at zero, where squared distances from inner products have half of the
            # digits
            matrix = np.maximum(0.0, 1.0 - cdist(X, X) / kernel.h)
        else:
            matrix = kernel(X)
        squares.append(np.einsum("nj,nm,mj->", A, matrix, A))
    return np.array(squares)


@pytest.mark.parametrize("budget", [1, 3, 12])
@pytest.mark.parametrize("loss", [StructuredHinge(), CRF()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("lambda_", [0.02, 0.5])
@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_budget_and_norms_hold_after_every_round(method, lambda_, loss, budget):
    bank = make_bank(KERNELS, budget)
    trainer = make_trainer(bank, method, lambda_, loss)
    n_deactivated = 0
    is_spline = np.array([isinstance(kernel, B1Spline) for kernel in KERNELS.values()])
    for x, y in Stream():
        trainer.update(x, y)
        n_deactivated += trainer.group_state.deactivated.any()
        assert bank.n_support <= budget
        # norms are recomputed after many replacements; the spline then has half the digits of a
        # distance of zero
        exact = exact_square_norms(bank)
        tolerance = 1e-9 * (1.0 + np.max(bank._squares, initial=0.0))
        square_norms = bank.group_state.square_norms
        assert_allclose(
            square_norms[~is_spline],
            exact[~is_spline],
            rtol=1e-9,
            atol=tolerance,
        )
        assert_allclose(square_norms, exact, rtol=1e-7, atol=100 * tolerance)
    assert bank._counts[REPLACED] > 0, "the stream was meant to exceed the budget"
    if lambda_ == 0.5 and method == "fobos" and budget > 1:
        assert n_deactivated > 0, "lambda was meant to kill groups"
    tracked = bank.group_state.square_norms.copy()
    trainer.recompute_norms()
    assert_allclose(bank.group_state.square_norms, tracked, rtol=1e-9, atol=tolerance)


def test_single_precision_keeps_norms_to_its_digits():
    bank = make_bank({"gaussian": Gaussian(2.0), "laplacian": Laplacian(2.0)}, 12, dtype=np.float32)
    trainer = make_trainer(bank)
    for x, y in Stream(200):
        trainer.update(x, y)
    assert_allclose(bank.group_state.square_norms, exact_square_norms(bank), rtol=1e-4)


class Literal:
    """Algorithm 1 on a list of support vectors with explicit features.

    The weakest one is dropped literally.
    """

    def __init__(self, features, budget, method, average):
        self.features = features
        self.budget = budget
        self.method = method
        self.average = average
        #: Support vectors by token, oldest first.
        self.support = []
        #: Coefficients of v by token, for each group; v is theta itself, or minus the sum of
        #: gradients.
        self.coefficients = [{} for _ in features]
        self.scales = np.ones(len(features))
        self.pairwise = np.zeros((K, K))
        self.pairwise_gradients = np.zeros((K, K))
        #: Weight of each past model, and its coefficients by token, for each group.
        self.past_weights = []
        self.past_coefficients = []
        self.round = 0

    def expanded(self, k, coefficients):
        """Return the parameters of a group with some coefficients by token."""
        total = np.zeros((self.features[k].shape[1], K))
        for token, row in coefficients.items():
            total += np.outer(self.features[k][token], row)
        return total

    def theta(self, k):
        return self.scales[k] * self.expanded(k, self.coefficients[k])

    def norms(self):
        return np.array([np.linalg.norm(self.theta(k)) for k in range(len(self.features))])

    def importance(self, token):
        importance = 0.0
        for scale, coefficients, features in zip(self.scales, self.coefficients, self.features):
            row = scale * coefficients.get(token, np.zeros(K))
            importance += np.sum(row**2) * np.sum(features[token] ** 2)
        return importance

    def drop(self):
        """Project the weakest support vector onto the others, also in past models."""
        importances = np.round([self.importance(token) for token in self.support], 12)
        dropped = self.support.pop(int(np.argmin(importances)))
        for k, features in enumerate(self.features):
            projection = np.zeros(0)
            if self.support:
                onto = features[self.support].T
                projection, *_ = np.linalg.lstsq(onto, features[dropped], rcond=None)
            past = [coefficients[k] for coefficients in self.past_coefficients]
            for coefficients in [self.coefficients[k], *past]:
                row = coefficients.pop(dropped, None)
                if row is not None:
                    for token, weight in zip(self.support, projection):
                        coefficients[token] = coefficients.get(token, np.zeros(K)) + weight * row

    def update(self, low, high, y, lambda_, structure):
        self.round += 1
        rate = 0.3 / np.sqrt(self.round)
        potentials = structure.zeros(high - low)
        for k, features in enumerate(self.features):
            potentials.unary[:] += features[low:high] @ self.theta(k)
        potentials.pairwise[0] += self.pairwise
        _, gradient = StructuredHinge().value_and_gradient(structure, potentials, y)
        if gradient is not None:
            self.take_step(low, gradient, rate)
        step = rate * lambda_
        if self.method == "rda":
            self.scales[:] = rate
            self.pairwise = -rate * self.pairwise_gradients
            step *= self.round
        before = self.norms()
        after = SquaredL21().prox(before, step)
        self.scales *= np.divide(after, before, out=np.zeros_like(after), where=before > 0)
        present = []
        for scale, coefficients in zip(self.scales, self.coefficients):
            present.append({token: scale * row for token, row in coefficients.items()})
        self.past_weights.append(self.average.weight(self.round))
        self.past_coefficients.append(present)

    def take_step(self, low, gradient, rate):
        """Make the tokens with a gradient support vectors."""
        for t in np.flatnonzero(gradient.unary.any(axis=1)):
            if len(self.support) == self.budget:
                self.drop()
            self.support.append(low + t)
            for scale, coefficients in zip(self.scales, self.coefficients):
                step = rate / scale if self.method == "fobos" else 1.0
                coefficients[low + t] = -step * gradient.unary[t]
        pair_gradient = gradient.pairwise.sum(axis=0)
        self.pairwise -= rate * pair_gradient
        self.pairwise_gradients += pair_gradient

    def averaged(self, k):
        """Return the mean of the past models, each after the later projections."""
        total = np.zeros((self.features[k].shape[1], K))
        for weight, coefficients in zip(self.past_weights, self.past_coefficients):
            total += weight * self.expanded(k, coefficients[k])
        return total / sum(self.past_weights)


@pytest.mark.parametrize(
    "average", [UniformAverage(), PolynomialAverage(2), UniformAverage(start=20)], ids=str
)
@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_rounds_and_averages_are_those_of_the_literal_algorithm(method, average, monkeypatch):
    # a narrow range makes scales fold every few rounds; the literal algorithm has no scales to fold
    monkeypatch.setattr("omkl.groups.group_state.SCALE_RANGE", (0.5, 2.0))
    kernels = {"quadratic": Polynomial(2), "linear": Linear(normalize=None)}
    stream = Stream(60)
    budget = 3  # more vectors would soon span the linear kernel's space
    bank = make_bank(kernels, budget, averaging=True)
    trainer = online_trainer(
        [bank],
        Chain(K),
        lambda_=0.02,
        schedule=InverseSqrt(0.3),
        method=method,
        average=average,
        unpenalized=[TransitionBank(K, averaging=True)],
    )
    literal = Literal([k.features(stream.X) for k in kernels.values()], budget, method, average)
    for x, y in stream:
        trainer.update(x, y)
        literal.update(x.low, x.high, y, 0.02, Chain(K))
        assert_allclose(trainer.norms, literal.norms(), rtol=1e-5)
    frozen = trainer.predictor().banks[0]
    assert bank._counts[REPLACED] > 20
    expected = [features @ literal.averaged(k) for k, features in enumerate(literal.features)]
    potentials = Chain(K).zeros(len(stream.X))
    frozen.add_potentials(stream.tokens.everything(), potentials)
    assert_allclose(potentials.unary, sum(expected), rtol=1e-5, atol=1e-6)


def test_a_kernel_that_is_not_positive_semidefinite_breaks_nothing():
    kernels = {
        "sigmoid": Custom(lambda X, Y: np.tanh(2.0 * X @ Y.T - 1.0)),
        "gaussian": Gaussian(2.0),
    }
    bank = make_bank(kernels, 40)
    trainer = make_trainer(bank)
    for x, y in Stream(200):
        trainer.update(x, y)
    assert bank._counts[REPLACED] > 100
    assert np.isfinite(bank.coefficients).all()
    assert_allclose(
        bank.group_state.square_norms[1],
        exact_square_norms(bank)[1],
        rtol=1e-9,
    )


def test_a_vector_that_is_held_takes_no_second_slot():
    stream = Stream(30)
    banks = [
        make_bank(KERNELS, 500),
        KernelExpansion(
            list(KERNELS),
            list(KERNELS.values()),
            ["x"] * 6,
            K,
        ),
    ]
    for bank in banks:
        trainer = make_trainer(bank)
        for _ in range(3):
            for x, y in stream:
                trainer.update(x, y)
        bank.potentials = Chain(K).zeros(len(stream.X))
        trainer.predictor().banks[0].add_potentials(stream.tokens.everything(), bank.potentials)
    assert banks[0].n_support <= len(stream.X) < banks[1].n_support
    # the spline's diagonal has half the digits where it comes from inner products
    assert_allclose(
        banks[0].potentials.unary,
        banks[1].potentials.unary,
        rtol=1e-6,
        atol=1e-6,
    )


@settings(max_examples=40)
@given(
    method=st.sampled_from(["fobos", "rda"]),
    loss=st.sampled_from([StructuredHinge(), CRF()]),
    average=st.sampled_from([None, UniformAverage(), PolynomialAverage(2)]),
    dtype=st.sampled_from([np.float64, np.float32]),
    lambda_=st.sampled_from([0.02, 0.5]),
    budget=st.integers(1, 12),
    stop=st.integers(0, 60),
)
def test_a_run_continued_from_its_state_has_the_same_bits(
    method, loss, average, dtype, lambda_, budget, stop
):
    def new_trainer():
        bank = make_bank(KERNELS, budget, average is not None, dtype)
        return make_trainer(bank, method, lambda_, loss, average)

    stream = list(Stream())
    uninterrupted = new_trainer()
    resumed = new_trainer()
    for x, y in stream[:stop]:
        uninterrupted.update(x, y)
    resumed.load_state({name: np.array(array) for name, array in uninterrupted.state().items()})
    for x, y in stream[stop:]:
        uninterrupted.update(x, y)
        resumed.update(x, y)
    state = uninterrupted.state()
    state_of_resumed = resumed.state()
    assert state_of_resumed.keys() == state.keys()
    for name, array in state.items():
        assert_array_equal(state_of_resumed[name], array, err_msg=name, strict=True)
    x, _ = stream[0]
    expected = uninterrupted.predictor().potentials(x).unary
    assert_array_equal(resumed.predictor().potentials(x).unary, expected)


def test_a_state_that_does_not_fit_is_refused():
    bank = make_bank(KERNELS, 12)
    trainer = make_trainer(bank)
    for x, y in Stream():
        trainer.update(x, y)
    with pytest.raises(InputError, match="do not fit"):
        make_bank(KERNELS, 5).load_state(bank.state())
    with pytest.raises(InputError, match="do not fit"):
        make_bank(KERNELS, 12, averaging=True).load_state(bank.state())


def test_memory_grows_with_the_support_and_is_constant_from_the_budget_on():
    stream = list(Stream(100))
    bank = make_bank(KERNELS, 20, averaging=True)
    trainer = make_trainer(bank, average=UniformAverage())
    sizes = []
    lengths = []
    rounds_until_full = None
    for x, y in stream:
        trainer.update(x, y)
        sizes.append(bank.nbytes)
        lengths.append(len(x))
        if rounds_until_full is None and bank.n_support == 20:
            rounds_until_full = len(sizes)
    first_constant = max(int(np.argmax(lengths)), rounds_until_full)
    assert len(set(sizes[first_constant:])) == 1
    endless = make_bank(KERNELS, 10**6, averaging=True)
    trainer = make_trainer(endless, average=UniformAverage())
    for x, y in stream[:10]:
        trainer.update(x, y)
    assert endless.nbytes < 10**6


BUFFERED = [
    as_kernel("linear"),
    as_kernel("linear:normalize=average"),
    as_kernel("quadratic"),
    as_kernel("polynomial:degree=4,normalize=trace"),
    as_kernel("gaussian"),
    as_kernel("laplacian"),
    as_kernel("laplacian:sigma=2,normalize=diagonal"),
    as_kernel("chi2"),
    B1Spline(density=0.4),
    Average(["linear", "gaussian"], normalize="diagonal"),
    Custom(lambda X, Y: np.minimum(X[:, None], Y[None]).sum(axis=2), normalize="diagonal"),
]


@pytest.mark.parametrize("kernel", BUFFERED, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("d", [1, 3, 4, 11])
def test_buffers_give_the_values_of_the_kernel(kernel, d, rng):
    X = rng.random((900, d))
    X[5] = 0.0
    kernel = kernel.fit(X[:100])
    buffer = SupportBuffer([kernel], d, 600, np.float64)
    support = []
    # tokens at hand in numbers that vary become support vectors, at a new index or an old one
    for _ in range(200):
        m = int(rng.integers(1, 6))
        at_hand = rng.integers(0, 900, size=m)
        buffer.stage(X[at_hand], len(support))
        for t in range(m):
            index = len(support)
            if rng.random() >= 0.9:
                index = int(rng.integers(0, len(support) + 1))
            support[index : index + 1] = [at_hand[t]]
            buffer.keep(m - t, index)
    n_support = len(support)
    assert n_support > TILE, "more than one tile of columns"
    at_hand = [7, 5, support[0]]
    matrix = kernel.between(buffer.stage(X[at_hand], n_support))
    assert_allclose(
        matrix,
        kernel(X[at_hand], X[[*at_hand, *support]]),
        rtol=1e-9,
        atol=1e-7,
    )
    assert_array_equal(matrix[0, 3 + np.flatnonzero(np.array(support) == 7)], matrix[0, 0])
    loaded = SupportBuffer([kernel], d, 1000, np.float64)
    loaded.load(np.ascontiguousarray(buffer.vectors(n_support)))
    assert_array_equal(kernel.between(loaded.stage(X[at_hand], n_support)), matrix)
    assert_array_equal(buffer.vectors(n_support), X[support])


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
    assert_allclose(
        matrix[:, 3:],
        kernel(X[:3].astype(np.float64), X.astype(np.float64)),
        rtol=1e-4,
        atol=1e-6,
    )
