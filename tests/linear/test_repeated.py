"""Repeated rows are found, and give the same models as sample weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from omkl import GroupLasso, GroupLassoCV, SparseLogisticRegression
from omkl.linear.problems import identical_samples


def by_comparison(X, columns):
    rows = [tuple(row) for row in np.column_stack([X, columns]).tolist()]
    return [rows.index(row) for row in rows]


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_copies_are_those_that_comparison_finds(seed, m, n, n_values):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-1, n_values, (m, n)) * 1.5, rng.integers(0, 2, (m, 1))
    X = X[rng.integers(0, m, m)] if seed % 2 else X
    expected = by_comparison(X, y)
    with_zeros = sparse.csr_array((X.ravel(), np.tile(np.arange(n), m), np.arange(0, m * n + 1, n)), shape=X.shape)
    for design in (X, np.asfortranarray(X), -0.0 + X, sparse.csc_array(X), sparse.csr_array(X), with_zeros):
        found = identical_samples(design, y, None)
        if len(set(expected)) == m:
            assert found is None
        else:
            assert_array_equal(found, expected)


@pytest.mark.parametrize("convert", [np.asarray, np.float32, sparse.csc_array, sparse.csr_array])
def test_models_of_copies_are_those_of_weights(rng, convert):
    X, weights = rng.normal(size=(40, 60)), rng.integers(0, 4, 40)
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=40)
    copies, order = np.repeat(np.arange(40), weights), rng.permutation(40)
    for model, target in ((GroupLasso(0.05), y), (SparseLogisticRegression(0.02, class_weight="balanced"), y > 0)):
        repeated = model.fit(convert(X[copies]), target[copies]).coef_
        weighted = model.fit(convert(X[order]), target[order], sample_weight=weights[order]).coef_
        assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9)
    records = [
        GroupLasso().path(convert(X[copies]), y[copies], [0.1, 0.01]),
        GroupLasso().path(convert(X), y, [0.1, 0.01], sample_weight=weights),
    ]
    for one, other in zip(*records):
        assert_allclose(one["coef"], other["coef"], rtol=1e-6, atol=1e-9)


def test_rows_of_other_offsets_are_no_copies(rng):
    X, offset = np.repeat(rng.normal(size=(20, 3)), 2, axis=0), np.tile([0.0, 1.0], 20)
    y = X[:, 0] + np.repeat(rng.normal(size=20), 2)
    ours = GroupLasso(1e-3, tol=1e-10).fit(X, y, offset=offset)
    theirs = GroupLasso(1e-3, tol=1e-10).fit(X, y - offset)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def test_copies_in_other_folds_stay_there(rng):
    X = rng.normal(size=(30, 4))
    y = X[:, 0] + 0.1 * rng.normal(size=30)
    twice = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    model = GroupLassoCV([0.1, 0.01], cv=twice).fit(np.vstack([X, X]), np.concatenate([y, y]))
    alone = [GroupLasso(alpha).fit(X, y).score(X, y) for alpha in model.alphas_]
    assert_allclose(model.scores_, [alone, alone], atol=1e-3)
