"""Selection of kernels by samples that a model has not seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge

from omkl.batch import helpful_kernels, sampled
from omkl.batch.mkl import out_of_sample
from omkl.kernels import MixedStack, PackedStack
from omkl.kernels.stack import RestrictedView

from ...cases import slow
from ...stacks import DenseStack


def gaussians(X):
    return np.array([np.exp(-np.square(x[:, None] - x) / 2) for x in X.T])


def left_out(n=60, n_useless=20, seed=0, noise=0.3):
    """Make kernels on single columns; y depends on the first two."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2 + n_useless))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n)
    return gaussians(X), y[:, None]


def chosen(grams, targets, weights=None):
    return helpful_kernels(
        DenseStack(grams), targets, np.ones(len(targets)) if weights is None else weights
    ).is_selected


def centred(K, weights):
    mean = weights / weights.sum()
    return K - K @ mean - (K @ mean)[:, None] + mean @ K @ mean


def mean_diagonal(K, weights):
    """Return the mean diagonal of the weighted and centred kernel, by which ridges are scaled."""
    return weights @ centred(K, weights).diagonal() / weights.sum() / len(K)


def errors_of_unseen(fold, K, Y, weights, ridge):
    """Return the errors on a fold of a ridge model of the other samples.

    The kernel is centred by the other samples, in place of an intercept; None is no kernel.
    """
    rest = np.setdiff1d(np.arange(len(Y)), fold)
    mean = weights[rest] @ Y[rest] / weights[rest].sum()
    if K is None:
        return Y[fold] - mean
    is_seen = np.isin(np.arange(len(Y)), rest)
    kernel = centred(K, weights * is_seen)
    model = KernelRidge(kernel="precomputed", alpha=ridge)
    sample_weight = weights[rest] / weights.sum()
    model.fit(
        kernel[np.ix_(rest, rest)],
        Y[rest] - mean,
        sample_weight=sample_weight,
    )
    return Y[fold] - mean - model.predict(kernel[np.ix_(fold, rest)])


def weighted_problem(n, n_outputs):
    """Draw inputs, targets and weights, from which the roots of weights and the fitted z follow."""
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.5, 2.0, n)
    Y = rng.standard_normal((n, n_outputs)) + 3.0
    X = rng.standard_normal((n, 3))
    roots = np.sqrt(weights / weights.sum())
    return X, Y, weights, roots, roots[:, None] * (Y - weights @ Y / weights.sum())


@pytest.mark.parametrize("with_kernel", [False, True])
def test_residuals_are_those_of_ridge_models_that_have_not_seen_the_sample(with_kernel):
    X, Y, weights, roots, z = weighted_problem(25, 2)
    K = X @ X.T + 0.1 if with_kernel else None
    kernel = out_of_sample._centred(K, roots) if with_kernel else np.zeros((25, 25))
    model = out_of_sample._RidgeModel(kernel, z, roots)
    scale = mean_diagonal(K, weights) if with_kernel else 1.0
    expected = np.empty((len(out_of_sample.RIDGES), 25, 2))
    for k, ridge in enumerate(out_of_sample.RIDGES * scale):
        for i in range(25):
            expected[k, i] = errors_of_unseen([i], K, Y, weights, ridge)[0]
    losses = (np.square(roots[:, None] * expected)).sum(axis=(1, 2))
    assert_allclose(model.loss, losses.min(), rtol=1e-8)
    assert_allclose(
        model.residuals,
        roots[:, None] * expected[losses.argmin()],
        atol=1e-8,
    )


def test_losses_of_a_fold_are_those_of_a_model_that_has_seen_none_of_it(monkeypatch):
    monkeypatch.setattr(out_of_sample, "RIDGES", np.array([0.3]))
    X, Y, weights, roots, z = weighted_problem(20, 1)
    K = X @ X.T
    model = out_of_sample._RidgeModel(
        out_of_sample._centred(K, roots),
        z,
        roots,
    )
    fold = np.array([2, 3, 11])
    errors = errors_of_unseen(fold, K, Y, weights, 0.3 * mean_diagonal(K, weights))[:, 0]
    assert_allclose(
        model.losses_without(fold),
        (roots[fold] * errors) ** 2,
        rtol=1e-8,
    )


def test_a_step_for_a_sample_is_taken_without_it():
    """The prediction for a sample comes from a step without the sample."""
    grams, Y = left_out(n=20, n_useless=2)
    n = 20
    roots = np.full(n, 1 / np.sqrt(n))
    z = roots[:, None] * (Y - Y.mean())
    model = out_of_sample._RidgeModel(
        out_of_sample._centred(grams[0], roots),
        z,
        roots,
    )
    full = out_of_sample._centred(grams[1], roots)
    gains = np.empty(n)
    for i in range(n):
        # remove the row and column of the sample from the inverse
        without = (
            model.inverse - np.outer(model.inverse[:, i], model.inverse[i]) / model.inverse[i, i]
        )
        coefficients = without @ z[:, 0]
        assert_allclose(coefficients[i], 0.0, atol=1e-12)
        gains[i] = model.residuals[i, 0] * (full[i] @ coefficients)
    products = np.square(np.outer(model.residuals[:, 0], model.coefficients[:, 0]))
    np.fill_diagonal(products, 0.0)
    pairs = np.sqrt(2.0 * np.sum(np.square(full) * products))
    error = max(pairs, np.sqrt(n) * gains.std(ddof=1))
    assert_allclose(
        model.evidence_for_gram(full),
        gains.sum() / error,
        rtol=1e-8,
    )
    constant = np.full((1, n, n), 3.0)
    stacks = [
        DenseStack(np.concatenate([grams, constant])),
        PackedStack.from_grams(np.concatenate([grams, constant])),
    ]
    for stack in (*stacks, MixedStack(stacks[:1]), MixedStack(stacks[1:])):
        kernels = out_of_sample._CentredKernels(stack, roots)
        last = len(grams)
        evidence = model.evidence_for(kernels, np.array([1, last]))
        assert_allclose(
            evidence[1], gains.sum() / error, rtol=1e-4 if stack is not stacks[0] else 1e-8
        )
        assert evidence[last] == 0.0
        assert np.isneginf(np.delete(evidence, [1, last])).all()


@pytest.mark.parametrize("width", [1.0, 1e3])
def test_kernels_on_some_samples_are_those_of_a_stack_of_these_samples(rng, width):
    """Wide Gaussians are nearly constant: what is left after centring is known to few digits."""
    X = rng.normal(size=(40, 3))
    grams = np.exp(-((X[:, None] - X) ** 2) / (2.0 * width**2)).transpose(2, 0, 1)
    samples = np.delete(np.arange(40), [0, 7, 39])
    weights = rng.uniform(0.5, 2.0, len(samples))
    roots = np.sqrt(weights) / np.sqrt(weights.sum())
    z = rng.normal(size=(len(samples), 2))
    z -= np.outer(roots, roots @ z)
    stack = PackedStack.from_grams(grams, np.float64)
    model = out_of_sample._RidgeModel(
        out_of_sample._centred(X[samples] @ X[samples].T, roots), z, roots
    )
    of_stacks = [
        model.evidence_for(out_of_sample._CentredKernels(restricted, roots), np.arange(3))
        for restricted in (RestrictedView(stack, samples), stack.restricted(samples))
    ]
    expected = [
        model.evidence_for_gram(out_of_sample._centred(gram[np.ix_(samples, samples)], roots))
        for gram in grams
    ]
    assert_allclose(*of_stacks, rtol=1e-11 * width**2)
    assert_allclose(of_stacks[0], expected, rtol=1e-11 * width**2)


def test_a_sum_of_kernels_is_that_of_each_of_them():
    grams, _ = left_out(n=30, n_useless=3)
    stack = DenseStack(np.concatenate([grams, np.zeros((1, 30, 30)), np.full((1, 30, 30), 1e6)]))
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 30)
    roots = np.sqrt(weights / weights.sum())
    kernels = out_of_sample._CentredKernels(stack, roots)
    each = [out_of_sample._centred(grams[m], roots) for m in (0, 2, 3)]  # the others are constant
    total = kernels.summed(np.array([0, 2, 3, 5, 6]))
    assert_allclose(
        total,
        sum(30 * gram / np.trace(gram) for gram in each),
        atol=1e-12,
    )
    assert kernels.scales.astype(bool).tolist() == [True] * 5 + [False] * 2
    assert not kernels.summed(np.array([], dtype=int)).any()


@pytest.mark.parametrize("n_useless", [3, 40, slow(400)])
def test_folds_choose_as_if_they_looked_at_all_kernels(n_useless):
    for seed in range(4):
        grams, Y = left_out(n=60, n_useless=n_useless, seed=seed, noise=1.0)
        stack = DenseStack(grams)
        roots = np.full(60, 60**-0.5)
        kernels = out_of_sample._CentredKernels(stack, roots)
        choice = out_of_sample._Choice(kernels, roots[:, None] * (Y - Y.mean()))
        for fold in range(5):
            others = np.flatnonzero(np.arange(60) % 5 != fold)
            z = 48**-0.5 * (Y[others] - Y[others].mean())
            centred_kernels = out_of_sample._CentredKernels(
                RestrictedView(stack, others), np.full(48, 48**-0.5)
            )
            few = out_of_sample._Choice(centred_kernels, z, choice.likely)
            assert_array_equal(
                few.is_selected, out_of_sample._Choice(centred_kernels, z).is_selected
            )
        assert choice.likely.mean() < (1.0 if n_useless < 40 else 0.5)


def test_helpful_kernels_are_found_among_useless_ones():
    for seed in range(5):
        is_chosen = chosen(*left_out(n=100, n_useless=40, seed=seed))
        assert is_chosen[:2].all()
        assert is_chosen[2:].sum() <= 1


def test_few_useless_kernels_pass_where_all_are_useless():
    false = []
    for seed in range(40):
        grams, Y = left_out(n=50, n_useless=20, seed=seed)
        false.append(chosen(grams, np.random.default_rng(seed).standard_normal(Y.shape)).sum())
    # a tenth is expected; selecting all would give twenty
    assert np.mean(false) <= 0.5


def test_a_kernel_that_knows_every_sample_by_heart_is_left_out():
    grams, Y = left_out(n=80, n_useless=1)
    assert not chosen(np.concatenate([grams, np.eye(80)[None]]), Y)[-1]


def test_many_kernels_of_which_none_stands_out_are_all_kept(rng):
    X = rng.standard_normal((50, 20))
    y = np.sin(X).sum(axis=1) + rng.standard_normal(50)
    assert chosen(gaussians(X), y[:, None]).all()


def test_a_kernel_that_others_hide_is_found(rng):
    """A weak kernel becomes visible when a strong one is in the model."""
    X = rng.standard_normal((80, 12))
    y = 5 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(80)
    is_chosen = chosen(np.array([np.outer(x, x) for x in X.T]), y[:, None])
    assert is_chosen[:2].all()
    assert is_chosen.sum() <= 3


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_the_order_of_kernels_samples_and_targets_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    grams, y = left_out(n=40, n_useless=10, seed=seed)
    classes = np.digitize(y[:, 0], [-0.5, 0.5])
    Y = np.where(
        classes[:, None] == np.arange(3),
        1.0,
        -1.0,
    )
    kernels = rng.permutation(12)
    samples = rng.permutation(40)
    columns = rng.permutation(3)
    shuffled = chosen(
        grams[kernels][:, samples[:, None], samples],
        Y[samples][:, columns],
    )
    assert_array_equal(shuffled, chosen(grams, Y)[kernels])


def test_twins_go_the_same_way_and_constants_say_nothing():
    grams, Y = left_out(n=60, n_useless=5)
    more = np.concatenate([grams, grams, np.zeros((1, 60, 60)), np.full((1, 60, 60), 1e6)])
    is_chosen = chosen(more, Y)
    assert_array_equal(is_chosen[:7], is_chosen[7:14])
    assert is_chosen[:2].all()
    assert not is_chosen[-2:].any()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_samples_have_an_answer(n):
    grams, Y = left_out(n=n, n_useless=5)
    with np.errstate(all="raise"):
        assert chosen(grams, Y).dtype == bool
        assert not chosen(grams, np.ones((n, 1))).any()


def test_few_samples_stand_for_many(monkeypatch, rng):
    monkeypatch.setattr(out_of_sample, "SAMPLES", 100)
    classes = np.repeat([0, 1, 2], [3000, 900, 100])[rng.permutation(4000)]
    Y = np.where(
        classes[:, None] == np.arange(3),
        1.0,
        -1.0,
    )
    samples, weights = sampled(Y, np.ones(4000), 5)
    assert (np.diff(samples) > 0).all()
    assert len(samples) == 100
    counts = np.bincount(classes[samples])
    assert np.abs(counts - [75, 22.5, 2.5]).max() <= 1.0
    assert_allclose(weights, 40.0)
    # equal class weights; all samples of the smallest class are used
    balanced = (4000 / 3 / np.bincount(classes))[classes]
    samples, weights = sampled(Y, balanced, 5)
    counts = np.bincount(classes[samples])
    assert np.abs(counts - 100 / 3).max() <= 1.5
    assert_allclose(
        np.bincount(classes[samples], weights),
        4000 / 3,
        rtol=0.05,
    )


def test_samples_of_large_weights_are_all_taken(monkeypatch):
    monkeypatch.setattr(out_of_sample, "SAMPLES", 10)
    weights = np.ones(1000)
    weights[[5, 900]] = 1e6
    samples, sample_weights = sampled(
        np.arange(1000.0)[:, None],
        weights,
        5,
    )
    assert {5, 900} <= set(samples.tolist())
    assert sample_weights[samples == 5] == 1e6
    assert len(samples) <= 10
