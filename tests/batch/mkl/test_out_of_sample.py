"""Selection of kernels by left-out samples: against refits, and on kernels known to be informative."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge

from omkl.batch import helpful_kernels, sampled
from omkl.batch.mkl import out_of_sample

from ...stacks import DenseStack


def gaussians(X):
    return np.array([np.exp(-np.square(x[:, None] - x) / 2) for x in X.T])


def problem(n=60, n_useless=20, seed=0, noise=0.3):
    """Make kernels on single columns; y depends on the first two."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2 + n_useless))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n)
    return gaussians(X), y[:, None]


def chosen(grams, targets, weights=None):
    return helpful_kernels(DenseStack(grams), targets, np.ones(len(targets)) if weights is None else weights)


def centred(K, weights):
    mean = weights / weights.sum()
    return K - K @ mean - (K @ mean)[:, None] + mean @ K @ mean


@pytest.mark.parametrize("with_kernel", [False, True])
def test_residuals_are_those_of_ridge_models_that_have_not_seen_the_sample(with_kernel):
    rng = np.random.default_rng(1)
    n = 25
    weights, Y = rng.uniform(0.5, 2.0, n), rng.standard_normal((n, 2)) + 3.0
    X = rng.standard_normal((n, 3))
    K = X @ X.T + 0.1
    roots = np.sqrt(weights / weights.sum())
    z = roots[:, None] * (Y - weights @ Y / weights.sum())
    kernel = out_of_sample._standardized(DenseStack(K[None]), 0, roots) if with_kernel else np.zeros((n, n))
    model = out_of_sample._RidgeModel(kernel, z, roots)
    expected = np.empty((len(out_of_sample.RIDGES), n, 2))
    scale = np.trace(roots[:, None] * centred(K, weights) * roots) / n  # the kernel's, before its diagonal is one
    for k, ridge in enumerate(out_of_sample.RIDGES * (scale if with_kernel else 1.0)):
        for i in range(n):
            rest = np.arange(n) != i
            mean = weights[rest] @ Y[rest] / weights[rest].sum()
            if not with_kernel:
                expected[k, i] = Y[i] - mean
                continue
            # centered by the other samples, in place of an intercept
            own = centred(K, weights * rest)
            ridge_model = KernelRidge(kernel="precomputed", alpha=ridge)
            ridge_model.fit(own[np.ix_(rest, rest)], Y[rest] - mean, sample_weight=roots[rest] ** 2)
            expected[k, i] = Y[i] - mean - ridge_model.predict(own[i : i + 1, rest])[0]
    losses = (np.square(roots[:, None] * expected)).sum(axis=(1, 2))
    np.testing.assert_allclose(model.loss, losses.min(), rtol=1e-8)
    np.testing.assert_allclose(model.residuals, roots[:, None] * expected[losses.argmin()], atol=1e-8)


def test_losses_of_a_fold_are_those_of_a_model_that_has_seen_none_of_it(monkeypatch):
    monkeypatch.setattr(out_of_sample, "RIDGES", np.array([0.3]))
    rng = np.random.default_rng(1)
    n = 20
    weights, y = rng.uniform(0.5, 2.0, n), rng.standard_normal(n)
    X = rng.standard_normal((n, 3))
    K, fold, rest = X @ X.T, [2, 3, 11], np.setdiff1d(np.arange(n), [2, 3, 11])
    roots = np.sqrt(weights / weights.sum())
    z = (roots * (y - weights @ y / weights.sum()))[:, None]
    model = out_of_sample._RidgeModel(out_of_sample._standardized(DenseStack(K[None]), 0, roots), z, roots)
    scale = np.trace(roots[:, None] * centred(K, weights) * roots) / n
    own = centred(K, np.where(np.isin(np.arange(n), fold), 0.0, weights))
    mean = weights[rest] @ y[rest] / weights[rest].sum()
    ridge_model = KernelRidge(kernel="precomputed", alpha=0.3 * scale)
    ridge_model.fit(own[np.ix_(rest, rest)], y[rest] - mean, sample_weight=roots[rest] ** 2)
    errors = y[fold] - mean - ridge_model.predict(own[np.ix_(fold, rest)])
    np.testing.assert_allclose(model.losses_without(np.array(fold)), (roots[fold] * errors) ** 2, rtol=1e-8)


def test_a_step_for_a_sample_is_taken_without_it():
    """The prediction for a sample comes from a step without the sample."""
    grams, Y = problem(n=20, n_useless=2)
    n = 20
    roots = np.full(n, 1 / np.sqrt(n))
    z = roots[:, None] * (Y - Y.mean())
    kernel, other = (out_of_sample._standardized(DenseStack(grams), m, roots) for m in (0, 1))
    full = other + np.tril(other, -1).T - np.triu(other, 1)
    model = out_of_sample._RidgeModel(np.tril(kernel), z, roots)
    gains, pairs = np.empty(n), 0.0
    for i in range(n):
        # remove the row and column of the sample from the inverse
        without = model.inverse - np.outer(model.inverse[:, i], model.inverse[i]) / model.inverse[i, i]
        coefficients = without @ z[:, 0]
        np.testing.assert_allclose(coefficients[i], 0.0, atol=1e-12)
        gains[i] = model.residuals[i, 0] * (full[i] @ coefficients)
    products = np.square(np.outer(model.residuals[:, 0], model.coefficients[:, 0]))
    np.fill_diagonal(products, 0.0)
    pairs = np.sqrt(2.0 * np.sum(np.square(full) * products))
    error = max(pairs, np.sqrt(n) * gains.std(ddof=1))
    np.testing.assert_allclose(model.standard_errors(np.tril(other)), gains.sum() / error, rtol=1e-8)


def test_helpful_kernels_are_found_among_useless_ones():
    for seed in range(5):
        kept = chosen(*problem(n=100, n_useless=40, seed=seed))
        assert kept[:2].all()
        assert kept[2:].sum() <= 1


def test_few_useless_kernels_pass_where_all_are_useless():
    false = []
    for seed in range(40):
        grams, Y = problem(n=50, n_useless=20, seed=seed)
        false.append(chosen(grams, np.random.default_rng(seed).standard_normal(Y.shape)).sum())
    # a tenth is expected; selecting all would give twenty
    assert np.mean(false) <= 0.5


def test_a_kernel_that_knows_every_sample_by_heart_is_left_out():
    grams, Y = problem(n=80, n_useless=1)
    assert not chosen(np.concatenate([grams, np.eye(80)[None]]), Y)[-1]


def test_many_kernels_of_which_none_stands_out_are_all_kept():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 20))
    y = np.sin(X).sum(axis=1) + rng.standard_normal(50)
    assert chosen(gaussians(X), y[:, None]).all()


def test_a_kernel_that_others_hide_is_found():
    """A weak kernel becomes visible when a strong one is in the model."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 12))
    y = 5 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(80)
    kept = chosen(np.array([np.outer(x, x) for x in X.T]), y[:, None])
    assert kept[:2].all()
    assert kept.sum() <= 3


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_the_order_of_kernels_samples_and_targets_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    grams, y = problem(n=40, n_useless=10, seed=seed)
    classes = np.digitize(y[:, 0], [-0.5, 0.5])
    Y = np.where(classes[:, None] == np.arange(3), 1.0, -1.0)
    kernels, samples, columns = rng.permutation(12), rng.permutation(40), rng.permutation(3)
    shuffled = chosen(grams[kernels][:, samples[:, None], samples], Y[samples][:, columns])
    np.testing.assert_array_equal(shuffled, chosen(grams, Y)[kernels])


def test_twins_go_the_same_way_and_constants_say_nothing():
    grams, Y = problem(n=60, n_useless=5)
    more = np.concatenate([grams, grams, np.zeros((1, 60, 60)), np.full((1, 60, 60), 1e6)])
    kept = chosen(more, Y)
    np.testing.assert_array_equal(kept[:7], kept[7:14])
    assert kept[:2].all()
    assert not kept[-2:].any()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_samples_have_an_answer(n):
    grams, Y = problem(n=n, n_useless=5)
    with np.errstate(all="raise"):
        assert chosen(grams, Y).dtype == bool
        assert not chosen(grams, np.ones((n, 1))).any()


def test_few_samples_stand_for_many(monkeypatch):
    monkeypatch.setattr(out_of_sample, "SAMPLES", 100)
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], [3000, 900, 100])[rng.permutation(4000)]
    Y = np.where(classes[:, None] == np.arange(3), 1.0, -1.0)
    samples, weights = sampled(Y, np.ones(4000), 5)
    assert (np.diff(samples) > 0).all()
    assert len(samples) == 100
    counts = np.bincount(classes[samples])
    assert np.abs(counts - [75, 22.5, 2.5]).max() <= 1.0
    np.testing.assert_allclose(weights, 40.0)
    # equal class weights; all samples of the smallest class are used
    balanced = (4000 / 3 / np.bincount(classes))[classes]
    samples, weights = sampled(Y, balanced, 5)
    counts = np.bincount(classes[samples])
    assert np.abs(counts - 100 / 3).max() <= 1.5
    np.testing.assert_allclose(np.bincount(classes[samples], weights), 4000 / 3, rtol=0.05)


def test_samples_of_large_weights_are_all_taken(monkeypatch):
    monkeypatch.setattr(out_of_sample, "SAMPLES", 10)
    weights = np.ones(1000)
    weights[[5, 900]] = 1e6
    samples, own = sampled(np.arange(1000.0)[:, None], weights, 5)
    assert {5, 900} <= set(samples.tolist())
    assert own[samples == 5] == 1e6
    assert len(samples) <= 10
