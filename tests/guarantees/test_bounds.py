"""Bounds, thresholds and conformal sets, compared with scipy and with literal tests.

Promises are counted over draws of exchangeable data.
"""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import binom, binomtest

from omkl.guarantees.bounds import (
    FIRST,
    THRESHOLDS,
    chosen_threshold,
    conformal_threshold,
    error_curve,
    mean_test,
    n_needed,
)

DRAWS, DELTA = 500, 0.1
#: Most broken promises of 500 draws that are not surprising.
MOST = int(binom.ppf(0.999, DRAWS, DELTA))


def outputs(n, rng):
    """Draw confidences that are too high, and errors; the error falls with the confidence."""
    sure = rng.beta(3.0, 1.0, n)
    return sure, rng.random(n) < 1.2 * (1.0 - sure)


def curve_of(sure, wrong, confidence=0.9):
    return error_curve(
        sure,
        wrong,
        np.arange(len(sure)),
        len(sure),
        confidence,
        True,
    )


def literal_threshold(sure, wrong, error):
    """Test one threshold after the other by exact tails.

    The first is that at which a test can succeed.
    """
    n_least = max(
        FIRST * len(sure),
        np.log(DELTA) / np.log(1.0 - error),
    )
    last_passed = np.inf
    for threshold in THRESHOLDS:
        accepted = sure >= threshold
        if accepted.sum() < n_least:
            continue
        if binom.cdf(wrong[accepted].sum(), accepted.sum(), error) > DELTA:
            break
        last_passed = sure[accepted].min()
    return last_passed


@pytest.mark.parametrize("error", [0.02, 0.1, 0.3])
def test_thresholds_are_those_of_literal_tests(error, rng):
    for n in (5, 60, 400, 400, 400):
        sure, wrong = outputs(n, rng)
        threshold = chosen_threshold(curve_of(sure, wrong), error, 0.9)
        literal = literal_threshold(sure, wrong, error)
        assert_array_equal(sure >= threshold, sure >= literal)


def test_bounds_of_outputs_are_those_of_clopper_and_pearson():
    rng = np.random.default_rng(1)
    sure, wrong = outputs(80, rng)
    curve = curve_of(sure, wrong, 0.95)
    for n, error, bound in zip(curve["examples"].tolist(), curve["error"], curve["bound"]):
        exact = binomtest(round(n * error), n, alternative="less").proportion_ci(0.95, "exact")
        assert bound == pytest.approx(exact.high)
    assert curve["examples"][-1] == 80
    assert curve["accepted"][-1] == 1.0


def test_as_many_examples_are_needed_as_can_prove_the_bound_without_an_error():
    for error, confidence in ((0.05, 0.9), (0.01, 0.95), (0.5, 0.5)):
        n = n_needed(error, confidence)
        assert binom.cdf(0, n, error) <= 1.0 - confidence < binom.cdf(0, n - 1, error)


@pytest.mark.parametrize("error", [0.05, 0.15])
def test_the_promise_about_outputs_is_broken_in_at_most_a_tenth_of_the_draws(error):
    rng = np.random.default_rng(2)
    population, gone_wrong = outputs(200_000, rng)
    n_broken = 0
    shares = []
    for _ in range(DRAWS):
        threshold = chosen_threshold(
            curve_of(*outputs(300, rng)),
            error,
            0.9,
        )
        accepted = population >= threshold
        n_broken += accepted.any() and gone_wrong[accepted].mean() > error
        shares.append(accepted.mean())
    assert n_broken <= MOST
    assert np.mean(shares) > 0.01


def sequences(n, rng):
    """Draw tokens of sequences of 1 to 8 tokens; some sequences are much harder than others."""
    lengths = rng.integers(1, 9, n)
    owners = np.repeat(np.arange(n), lengths)
    of_sequences = rng.beta(6.0, 0.5 + rng.random(n) * lengths / 4)
    sure = of_sequences[owners] * rng.beta(8.0, 1.0, len(owners))
    return sure, rng.random(len(owners)) > sure**0.5, owners


def share_of_errors(sure, wrong, owners, threshold):
    """Return the mean over sequences of the share of wrong tokens among the accepted ones."""
    accepted = sure >= threshold
    starts = np.flatnonzero(np.diff(owners[accepted], prepend=-1))[1:]
    return np.mean([of_sequence.mean() for of_sequence in np.split(wrong[accepted], starts)])


@pytest.mark.slow
def test_the_promise_about_tokens_is_broken_in_at_most_a_tenth_of_the_draws():
    rng = np.random.default_rng(3)
    many = sequences(3000, rng)
    levels = np.quantile(many[0], np.arange(0.0, 0.999, 0.02))
    risks = np.array([share_of_errors(*many, t) for t in levels])
    n_broken = 0
    shares = []
    for _ in range(DRAWS):
        tokens = sequences(200, rng)
        threshold = chosen_threshold(error_curve(*tokens, 200, 0.9, False), 0.15, 0.9)
        if threshold <= levels[-1]:
            n_broken += risks[np.searchsorted(levels, threshold)] > 0.15
            shares.append(np.mean(many[0] >= threshold))
    assert n_broken <= MOST
    assert len(shares) > DRAWS / 2
    assert np.mean(shares) > 0.1


def test_curves_of_tokens_are_means_over_sequences():
    sure, wrong, owners = sequences(40, np.random.default_rng(4))
    curve = error_curve(sure, wrong, owners, 40, 0.9, False)
    for i in (0, len(curve["threshold"]) // 2, -1):
        assert curve["error"][i] == pytest.approx(
            share_of_errors(sure, wrong, owners, curve["threshold"][i])
        )
    # the bound is where the test begins to succeed
    n, error, bound = (curve[name][5:] for name in ("examples", "error", "bound"))
    below = bound < 1.0
    assert (mean_test(n, error, bound + 1e-9)[below] <= DELTA).all()
    assert (mean_test(n, error, bound - 1e-9)[below] > DELTA).all()


@pytest.mark.parametrize(
    "draw", [lambda rng: rng.random((2000, 60)) * 0.4, lambda rng: rng.random((2000, 60)) < 0.2]
)
def test_means_at_the_bound_are_seldom_taken_for_smaller(draw):
    means = draw(np.random.default_rng(5)).mean(axis=1)
    p = mean_test(
        np.full(2000, 60),
        means,
        np.full(2000, 0.2),
    )
    for level in (0.05, 0.1, 0.3):
        assert np.mean(p <= level) <= binom.ppf(0.999, 2000, level) / 2000


# ---- conformal sets ------------------------------------------------------------------------------


def test_conformal_thresholds_have_the_rank_of_split_conformal_prediction():
    scores = np.random.default_rng(6).random(30)
    for miss in (0.04, 0.1, 0.5, 0.9):
        rank = int(np.ceil(31 * (1.0 - miss)))
        assert (
            conformal_threshold(scores, np.ones(30, int), miss) == np.sort(scores)[::-1][rank - 1]
        )
    assert conformal_threshold(scores, np.ones(30, int), 0.03) == -np.inf
    assert conformal_threshold(scores, np.ones(30, int), 1.0) == np.inf


def test_sets_cover_a_token_of_a_random_sequence_as_often_as_they_say():
    """Long sequences are harder: thresholds that counted tokens would be too low."""
    rng = np.random.default_rng(7)
    covered = []
    by_tokens = []
    for _ in range(DRAWS):
        lengths = rng.integers(1, 9, 61)
        scores = rng.random(lengths.sum()) ** np.repeat(lengths, lengths)
        n_tokens = lengths[:60].sum()
        calibration = scores[:n_tokens]
        new = scores[n_tokens:]
        covered.append((new >= conformal_threshold(calibration, lengths[:60], 0.2)).mean())
        by_tokens.append((new >= np.quantile(calibration, 0.2)).mean())
    assert np.mean(covered) == pytest.approx(0.8, abs=0.04)
    assert np.mean(by_tokens) > 0.83
