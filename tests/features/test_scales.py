"""Scales of columns against NumPy and scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import StandardScaler

from omkl.exceptions import InputError
from omkl.features.scales import ColumnScales
from omkl.kernels import Average, as_kernel


@pytest.fixture
def X(rng):
    X = rng.normal(size=(60, 4)) * [1e-6, 1.0, 1e6, 0.0] + [0.0, 5.0, -3e6, 7.0]
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def followed(X, row_weights=None):
    if row_weights is None:
        row_weights = np.ones(len(X))
    scales = ColumnScales(X.shape[1])
    return scales, scales.follow(X, row_weights)


def test_scales_are_those_of_all_present_entries(X, rng):
    counts = rng.integers(0, 4, len(X))
    scales, _ = followed(X, counts.astype(float))
    repeated = np.repeat(X, counts, axis=0)
    assert_allclose(scales.means, np.nanmean(repeated, axis=0))
    assert_allclose(scales.deviations[:3], np.nanstd(repeated, axis=0)[:3])
    assert scales.deviations[3] == 1.0


def test_rows_are_standardized_by_the_rows_up_to_them(X):
    _, (filled, standardized) = followed(X)
    for i in range(len(X)):
        scales, _ = followed(X[: i + 1])
        [expected_filled], [expected_standardized] = scales.apply(X[i : i + 1])
        assert_allclose(filled[i], expected_filled)
        assert_allclose(standardized[i], expected_standardized, atol=1e-9)
    assert (standardized[np.isnan(X)] == 0.0).all()
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


def test_splitting_a_stream_changes_no_bit(X):
    at_once, rows_at_once = followed(X)
    in_blocks = ColumnScales(4)
    blocks = np.split(X, [1, 2, 30])
    rows_in_blocks = [in_blocks.follow(block, np.ones(len(block))) for block in blocks]
    assert_array_equal(np.hstack(rows_in_blocks), rows_at_once)
    assert_array_equal(in_blocks.squares, at_once.squares)


def test_merged_scales_are_those_of_all_rows(X):
    scales = followed(X[:20])[0]
    expected = followed(X)[0]
    scales.merge(followed(X[20:])[0])
    assert_allclose(scales.means, expected.means)
    assert_allclose(scales.deviations, expected.deviations)


@pytest.mark.parametrize(
    "spec", ["gaussian", "quadratic:on=[0,2]", "gaussian:sigma2=3,features=200", "linear"]
)
def test_a_standardizing_kernel_equals_the_kernel_on_scaled_columns(spec, rng):
    X, Y = rng.normal(size=(2, 30, 3)) * [1e-6, 1.0, 1e6] + [0.0, 5.0, -3e6]
    scaler = StandardScaler().fit(X)
    expected = as_kernel(spec).fit(scaler.transform(X))(scaler.transform(Y), scaler.transform(X))
    name, _, kernel_settings = spec.partition(":")
    standardizing = as_kernel(f"{name}:standardize=True,{kernel_settings}".rstrip(","))
    assert_allclose(
        standardizing.fit(X)(Y, X),
        expected,
        rtol=1e-6,
        atol=1e-9,
    )
    assert_allclose(
        Average([standardizing]).fit(X)(Y, X),
        expected,
        rtol=1e-6,
        atol=1e-9,
    )


def test_sparse_columns_are_not_standardized():
    from scipy import sparse

    with pytest.raises(InputError, match="needs a dense array"):
        as_kernel("linear:standardize=True").fit(sparse.eye_array(4, format="csr"))
