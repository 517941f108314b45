"""Kernel functions against their definitions and scikit-learn; normalisation; explicit features;
Gram matrices.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import pairwise

from omkl.exceptions import InputError
from omkl.groups.expansions.cached import GramRows, dense_grams
from omkl.kernels import (
    Average,
    B1Spline,
    ChiSquared,
    Custom,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    as_kernel,
    per_column,
)


@pytest.fixture
def X(rng):
    return np.abs(rng.normal(size=(40, 6)))


@pytest.fixture
def Y(rng):
    return np.abs(rng.normal(size=(25, 6)))


KERNELS = [
    "linear",
    "linear:normalize=average",
    "quadratic",
    "cubic:coef0=0.5",
    "polynomial:degree=4,normalize=trace",
    "gaussian:sigma2=2",
    "gaussian",
    "laplacian:sigma=3",
    "laplacian",
    "chi2",
    "b1:density=0.3",
]


def definitions(sigma2=2.0, sigma=3.0, h=1.5):
    return [
        (Linear(normalize=None), lambda x, y: x @ y),
        (Polynomial(3, coef0=0.5, gamma=2.0, normalize=None), lambda x, y: (2 * x @ y + 0.5) ** 3),
        (Gaussian(sigma2), lambda x, y: np.exp(-np.sum((x - y) ** 2) / (2 * sigma2))),
        (Laplacian(sigma), lambda x, y: np.exp(-np.abs(x - y).sum() / sigma)),
        (ChiSquared(0.7), lambda x, y: np.exp(-0.7 * np.sum((x - y) ** 2 / (x + y)))),
        (B1Spline(h=h), lambda x, y: max(0.0, 1 - np.linalg.norm(x - y) / h)),
    ]


@pytest.mark.parametrize(
    ("kernel", "definition"), definitions(), ids=lambda p: getattr(p, "name", "")
)
def test_a_kernel_is_its_definition(kernel, definition, X, Y):
    expected = [[definition(x, y) for y in Y] for x in X]
    assert_allclose(kernel(X, Y), expected, rtol=1e-10, atol=1e-12)
    assert_allclose(
        kernel.diagonal(X),
        np.diag(kernel(X)),
        rtol=1e-7,
    )


@pytest.mark.parametrize("spec", [spec for spec in KERNELS if not spec.startswith("b1")])
def test_kernels_are_symmetric_and_positive_semidefinite(spec, X):
    gram = as_kernel(spec).fit(X)(X)
    assert_allclose(gram, gram.T, atol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-9 * np.trace(gram)


def test_normalisations(X, Y):
    for spec in ("linear", "quadratic", "polynomial:degree=5"):
        raw = as_kernel(f"{spec}{',' if ':' in spec else ':'}normalize=None")
        unit = as_kernel(spec)
        assert_allclose(np.diag(unit(X)), 1.0)
        cosine = raw(X, Y) / np.sqrt(np.outer(np.diag(raw(X)), np.diag(raw(Y))))
        assert_allclose(unit(X, Y), cosine, rtol=1e-10)
    assert_allclose(np.trace(Linear(normalize="trace").fit(X)(X)), 1.0)
    assert_allclose(np.diag(Linear(normalize="average").fit(X)(X)).mean(), 1.0)
    # scoring does not change what was learned in training
    fitted = Linear(normalize="average").fit(X)
    assert_allclose(fitted(Y), (Y @ Y.T) / np.mean(np.sum(X**2, axis=1)))


def test_zero_vectors_have_similarity_zero_not_nan():
    gram = Linear()(np.array([[0.0, 0.0], [1.0, 2.0]]))
    assert_allclose(gram, [[0, 0], [0, 1]])


@pytest.mark.parametrize(
    "spec",
    [
        "linear",
        "linear:normalize=average",
        "quadratic",
        "quadratic:coef0=0,normalize=None",
        "cubic:coef0=2,gamma=0.5",
        "polynomial:degree=5,normalize=trace",
        "polynomial:degree=1",
    ],
)
def test_explicit_features_reproduce_the_kernel(spec, X):
    kernel = as_kernel(spec).fit(X)
    features = kernel.features(X)
    assert features.shape[1] == kernel.feature_count(X.shape[1])
    assert_allclose(features @ features.T, kernel(X), rtol=1e-10, atol=1e-12)


def test_linear_features_of_sparse_input(X):
    assert_allclose(Linear().features(sparse.csr_array(X)).toarray(), Linear().features(X))


def test_widths_come_from_the_data(X):
    distances = pairwise.euclidean_distances(X)[~np.eye(len(X), dtype=bool)]
    assert_allclose(
        Gaussian().fit(X).width_,
        0.5 * np.median(distances**2),
    )
    fitted = B1Spline(density=0.2).fit(X)
    assert np.mean(fitted(X)[~np.eye(len(X), dtype=bool)] > 0) == pytest.approx(0.2, abs=0.02)
    with pytest.raises(InputError, match="call fit"):
        Gaussian()(X)


def test_average_is_the_mean_of_normalised_kernels(X, Y):
    averaged = [as_kernel(spec).fit(X) for spec in ("linear", "gaussian")]
    average = Average(["linear", "gaussian"]).fit(X)
    assert_allclose(average(X, Y), (averaged[0](X, Y) + averaged[1](X, Y)) / 2)
    assert_allclose(average.diagonal(X), 1.0)


def test_a_users_function_is_a_kernel(X, Y):
    kernel = as_kernel(pairwise.sigmoid_kernel)
    assert isinstance(kernel, Custom)
    assert kernel.name == "sigmoid_kernel"
    assert_allclose(kernel(X, Y), pairwise.sigmoid_kernel(X, Y))
    with pytest.raises(InputError, match="returned shape"):
        Custom(lambda X, Y: X)(X, Y)


def test_a_users_class_is_a_kernel(X):
    class Minimum(Kernel):
        aliases = {"minimum": {}}

        def raw(self, pair):
            return np.minimum(pair.X[:, None, :], pair.Y[None, :, :]).sum(axis=2)

        def raw_diagonal(self, X):
            return X.sum(axis=1)

    assert_allclose(np.diag(as_kernel("minimum:normalize=diagonal")(X)), 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_matrices_and_rows_on_demand_agree(X, dtype, monkeypatch):
    monkeypatch.setattr("omkl.kernels.inputs.BLOCK_BYTES", 16 * 40 * 8)
    kernels = [as_kernel(spec).fit(X) for spec in KERNELS]
    inputs = [X] * len(kernels)
    stack = dense_grams(kernels, inputs, dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for kernel, gram in zip(kernels, stack):
        assert_allclose(gram, kernel(X), rtol=tolerance, atol=tolerance)
    rows = GramRows(kernels, inputs, dtype, budget=len(kernels) * 40 * np.dtype(dtype).itemsize * 7)
    for wanted in ([3, 1], [39], [1, 2, 3, 4, 5], [0, 39, 20], [3, 1]):
        # the square root of a distance near zero magnifies rounding
        assert_allclose(
            rows[wanted],
            stack[:, wanted],
            rtol=tolerance,
            atol=max(tolerance, 1e-7),
        )
        assert rows.nbytes <= 7 * len(kernels) * 40 * np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_of_a_row_on_demand_do_not_depend_on_the_rows_beside_it(X, dtype):
    kernels = [as_kernel(spec).fit(X) for spec in KERNELS]
    together, alone = (GramRows(kernels, [X] * len(kernels), dtype) for _ in range(2))
    wanted = np.random.default_rng(0).permutation(len(X))[:23].tolist()
    assert_array_equal(
        together[wanted], np.concatenate([alone[[row]] for row in wanted[::-1]][::-1], axis=1)
    )


def test_rows_on_demand_of_views_that_differ(X):
    """Kernels on one array share its products; each has its own array."""
    views = [X, X[:, :2].copy(), X]
    kernels = [
        as_kernel(spec).fit(view) for spec, view in zip(["linear", "gaussian", "quadratic"], views)
    ]
    rows = GramRows(kernels, views, np.float64)[[5, 0]]
    assert_allclose(
        rows, [kernel(view)[[5, 0]] for kernel, view in zip(kernels, views)], rtol=1e-12, atol=1e-12
    )


def test_float32_distances_survive_a_large_offset(X):
    """Single precision alone would lose them: the vectors are 1000 times as long as their
    distances.
    """
    shifted = X + 1000.0
    gram = dense_grams([Gaussian(1.0)], [shifted], np.float32)[0]
    assert_allclose(gram, Gaussian(1.0)(X), atol=2e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: as_kernel("gausian"),
        lambda: as_kernel("gaussian:sigma=3"),
        lambda: as_kernel("gaussian:sigma2=-1"),
        lambda: as_kernel("linear:normalize=unit"),
        lambda: as_kernel("polynomial:degree=1.5"),
        lambda: as_kernel("b1:density=2"),
        lambda: as_kernel("laplacian:sigma=0"),
        lambda: as_kernel(3),
        lambda: ChiSquared().fit(np.array([[-1.0]])),
    ],
)
def test_invalid_kernels_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_names_are_short_and_read_back():
    for spec in (
        "linear",
        "quadratic",
        "cubic",
        "gaussian:sigma2=5",
        "polynomial:degree=4",
        "laplacian",
    ):
        assert as_kernel(spec).name == spec
    for spec in (
        "gaussian:on=0:3",
        "linear:on=[0,2]",
        "gaussian:sigma2=5.0,on=age",
        "quadratic:on=1",
    ):
        assert as_kernel(as_kernel(spec).name) == as_kernel(spec)


def test_pairs_of_columns_have_the_product_of_their_kernels():
    X = np.random.default_rng(0).normal(size=(20, 3)) * [1.0, 30.0, 1.0]
    for spec in ("gaussian", "linear", "quadratic:normalize=diagonal"):
        kernels = {
            name: kernel.fit(X)
            for name, kernel in per_column(spec, X, pairs=[(0, 2), (1, 0)]).items()
        }
        assert list(kernels) == [
            "column 0",
            "column 1",
            "column 2",
            "column 0 x column 2",
            "column 1 x column 0",
        ]
        assert_allclose(
            kernels["column 0 x column 2"](X), kernels["column 0"](X) * kernels["column 2"](X)
        )
        pair = kernels["column 1 x column 0"]
        assert_allclose(
            pair(X, X[:4]), kernels["column 0"](X, X[:4]) * kernels["column 1"](X, X[:4])
        )
        assert_allclose(
            pair.diagonal(pair.view(X)),
            np.diag(pair(X)),
        )
    assert "age x income" in per_column("gaussian", ["age", "income"], pairs=[("age", "income")])
    for wrong in ("ab", (0, 1, 2), (1, 1), 0):
        with pytest.raises(InputError, match="pairs of two different columns"):
            per_column("gaussian", X, pairs=[wrong])
