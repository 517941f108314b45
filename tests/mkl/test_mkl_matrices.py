"""MKLClassifier and MKLRegressor on precomputed Gram matrices and on kernels computed on demand."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from omkl import MKLClassifier
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, GramMatrices
from omkl.mkl.gram_storage import precision

from .conftest import KERNELS, grams_of


@pytest.mark.parametrize("as_array", [True, False])
def test_matrices_give_the_model_that_kernels_give(cancer, as_array):
    X, y = cancer
    train, test = np.arange(80), np.arange(80, 120)
    model = MKLClassifier(KERNELS, C=2.0, dtype="float64", tol=1e-6).fit(X[train], y[train])
    grams = grams_of(X[train], X[train])
    given = MKLClassifier("precomputed", C=2.0, dtype="float64", tol=1e-6)
    given.fit(np.stack(grams, axis=-1) if as_array else grams, y[train])
    assert_allclose(list(given.kernel_weights_.values()), list(model.kernel_weights_.values()), atol=1e-3)
    cross = grams_of(X[train], X[test])
    assert_allclose(given.decision_function(cross), model.decision_function(X[test]), atol=1e-2)
    only_active = [matrix if weight > 0 else None for matrix, weight in zip(cross, given.kernel_weights_.values())]
    assert_array_equal(given.decision_function(only_active), given.decision_function(cross))


@pytest.mark.parametrize("held", [np.asarray, pd.DataFrame, sparse.csr_array, np.ndarray.tolist])
def test_matrices_are_the_same_whatever_holds_them(cancer, held):
    X, y = cancer
    gram = X @ X.T
    expected = MKLClassifier("precomputed").fit({"linear": gram}, y).decision_function({"linear": gram})
    for own in ({"linear": held(gram)}, [held(gram)], *([] if held is np.ndarray.tolist else [held(gram)])):
        assert_allclose(MKLClassifier("precomputed").fit(own, y).decision_function(own), expected, rtol=1e-9)


@pytest.mark.parametrize("form", ["stack", "array"])
def test_cross_validation_cuts_precomputed_kernels(cancer, form):
    X, y = cancer
    grams = {f"width {width}": Gaussian(width)(X, X) for width in (5.0, 30.0)}
    given = GramMatrices(grams) if form == "stack" else np.stack(list(grams.values()), axis=-1)
    scores = cross_val_score(MKLClassifier("precomputed", tol=1e-6), given, y, cv=3)
    assert_allclose(scores, cross_val_score(MKLClassifier([Gaussian(5.0), Gaussian(30.0)], tol=1e-6), X, y, cv=3))


def test_the_learned_kernel_serves_other_estimators(cancer):
    X, y = cancer
    train, test = slice(0, 80), slice(80, None)
    model = MKLClassifier(KERNELS, loss="hinge").fit(X[train], y[train])
    expected = sum(w * gram for w, gram in zip(model.kernel_weights_.values(), grams_of(X[train], X[test])))
    assert_allclose(model.transform(X[test]), expected, atol=1e-12)
    svm = SVC(kernel="precomputed").fit(model.transform(X[train]), y[train])
    assert svm.score(model.transform(X[test]), y[test]) > 0.8


@pytest.mark.parametrize(
    ("tol", "dtype", "expected"),
    [(1e-2, "auto", np.float32), (1e-5, "auto", np.float64), (1e-2, "float64", np.float64)],
)
def test_large_kernels_are_stored_in_single_precision_unless_the_tolerance_is_small(tol, dtype, expected):
    assert precision(dtype, 100, 2000, tol) == expected
    assert precision("auto", 3, 100, tol) == np.float64


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: np.tanh(2.0 * A @ B.T - 1.0), "not positive semidefinite"),
        (lambda A, B: A @ B.T + A[:, :1], "not symmetric"),
        (lambda A, B: -A @ B.T, "not positive semidefinite"),
        (lambda A, B: 1e40 * A @ B.T, "not finite, or above"),
        (lambda A, B: np.where(A @ B.T > 3, np.nan, A @ B.T), "not finite"),
    ],
)
def test_functions_that_are_no_kernels_are_refused_as_matrices_are(cancer, function, message):
    X, y = cancer
    with pytest.raises(InputError, match=f"Kernel 'mine' .*{message}"):
        MKLClassifier({"fine": "gaussian", "mine": function}).fit(X, y)
    with np.errstate(invalid="ignore"), pytest.raises(InputError, match=f"Kernel 1 .*{message}"):
        MKLClassifier("precomputed").fit([X @ X.T, function(X, X)], y)


def test_matrices_with_names_are_told_apart_by_them(cancer):
    X, y = cancer
    grams = dict(zip(KERNELS, grams_of(X, X)))
    model = MKLClassifier("precomputed", C=2.0).fit(grams, y)
    other_order = GramMatrices(dict(reversed(grams.items())))
    assert_array_equal(model.decision_function(other_order), model.decision_function(grams))
    assert_array_equal(model.decision_function(GramMatrices(list(grams.values()))), model.decision_function(grams))
    with pytest.raises(InputError, match="no kernel 'another'"):
        model.decision_function({**grams, "another": grams_of(X, X)[0]})
