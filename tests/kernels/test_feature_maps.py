"""Random Fourier features and the Nyström method: errors, exactness, seeds, names; the papers'
families of kernels.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits

from omkl import MKLClassifier
from omkl.exceptions import InputError
from omkl.kernels import (
    Custom,
    FourierFeatures,
    Gaussian,
    Kernel,
    Nystrom,
    PackedStack,
    as_kernel,
    per_column,
    random_subset_gaussians,
    variable_kernels,
)
from omkl.persistence import Packer, Unpacker

SPECS = [
    "gaussian:features=64",
    "gaussian:sigma2=3,features=64,seed=7",
    "laplacian:features=64",
    "gaussian:normalize=diagonal,features=20,map=nystrom",
    "chi2:normalize=trace,features=20",
    "cubic:features=20",
    "laplacian:normalize=average,features=20,map=nystrom",
    "b1:density=0.5,features=30",
]


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:300] / 16.0


@pytest.fixture
def X(rng):
    return np.abs(rng.normal(size=(40, 6)))


def rms_error(kernel, X, exact):
    return np.sqrt(np.mean((kernel.fit(X)(X) - exact) ** 2))


@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_the_error_of_fourier_features_falls_as_the_root_of_their_number(name, digits):
    exact = as_kernel(name).fit(digits)(digits)
    sizes = np.array([100, 400, 1600, 6400])
    errors = [
        np.mean(
            [
                rms_error(as_kernel(f"{name}:features={size},seed={seed}"), digits, exact)
                for seed in range(5)
            ]
        )
        for size in sizes
    ]
    assert errors[-1] < 0.015
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.4


def test_orthogonal_frequencies_beat_independent_ones(digits):
    class Independent(Gaussian):
        def frequencies(self, generator, shape):
            return generator.standard_normal(shape) / np.sqrt(self.width_)

    exact = Gaussian(2.0)(digits)
    errors = {
        cls: np.mean(
            [rms_error(FourierFeatures(cls(2.0), 400, seed), digits, exact) for seed in range(5)]
        )
        for cls in (Gaussian, Independent)
    }
    assert errors[Gaussian] < 0.9 * errors[Independent]


@pytest.mark.parametrize(
    "spec",
    [
        "gaussian",
        "laplacian:normalize=average",
        "chi2",
        "cubic",
        "linear",
        "quadratic:normalize=trace",
    ],
)
def test_nystrom_with_all_landmarks_is_the_kernel(spec, X):
    exact = as_kernel(spec).fit(X)(X)
    assert_allclose(
        Nystrom(spec, len(X)).fit(X)(X),
        exact,
        atol=1e-8 * exact.max(),
    )
    assert_allclose(
        Nystrom(spec, 10 * len(X)).fit(X)(X),
        exact,
        atol=1e-8 * exact.max(),
    )


@given(n_features=st.integers(1, 40), seed=st.integers(0, 5))
def test_what_nystrom_leaves_out_is_positive_semidefinite(n_features, seed):
    X = np.random.default_rng(seed).normal(size=(40, 3))
    exact = Gaussian(1.0)(X)
    left_out = exact - Nystrom(Gaussian(1.0), n_features, seed).fit(X)(X)
    assert np.linalg.eigvalsh(left_out)[0] > -1e-9
    fewer = exact - Nystrom(Gaussian(1.0), max(n_features // 2, 1), seed).fit(X)(X)
    assert np.trace(left_out) < np.trace(exact)
    assert np.trace(fewer) >= 0


each_spec = pytest.mark.parametrize("spec", SPECS)


@each_spec
def test_features_are_those_of_the_kernel_and_positive_semidefinite(spec, X, rng):
    kernel = as_kernel(spec).fit(X)
    Y = np.abs(rng.normal(size=(7, 6)))
    features = kernel.features(X)
    assert features.shape == (40, kernel.feature_count(6))
    assert_allclose(
        features @ kernel.features(Y).T,
        kernel(X, Y),
        atol=1e-12,
    )
    assert_allclose(
        kernel.diagonal(X),
        np.diag(kernel(X)),
        atol=1e-12,
    )
    assert np.linalg.eigvalsh(kernel(X))[0] > -1e-12
    if kernel.normalize is not None:
        assert_allclose(
            kernel.diagonal(X).mean(),
            1 / 40 if kernel.normalize == "trace" else 1.0,
        )


@each_spec
def test_the_same_seed_gives_the_same_bits_and_another_one_others(spec, X, rng):
    one = as_kernel(spec).fit(X)
    same = as_kernel(spec).fit(X)
    rng.normal(size=100)
    assert_array_equal(one.features(X), same.features(X))
    other = type(one)(one.kernel, one.n_features, one.seed + 1).fit(X)
    assert one == same
    assert one != other
    assert np.abs(one.features(X)[:, :5] - other.features(X)[:, :5]).max() > 1e-6


@each_spec
def test_what_is_unpacked_from_a_file_maps_to_the_same_bits(spec, X):
    kernel = as_kernel(spec).fit(X)
    packer = Packer()
    packed = packer.pack(kernel, "kernel")
    read = Unpacker(packer.arrays, {}).unpack(packed)
    assert read == kernel
    assert_array_equal(read.features(X), kernel.features(X))


@each_spec
def test_names_read_back(spec):
    kernel = as_kernel(spec)
    assert kernel.name == spec
    assert as_kernel(kernel.name) == kernel


def test_fourier_features_of_sparse_rows_are_those_of_dense_ones(X, rng):
    X = X * (rng.random(X.shape) < 0.4)
    for spec in ("gaussian:sigma2=2,features=50", "gaussian:normalize=trace,features=50"):
        dense = as_kernel(spec).fit(X)
        rows = as_kernel(spec).fit(sparse.csr_array(X))
        assert_allclose(
            rows.features(sparse.csr_array(X)),
            dense.features(X),
            atol=1e-12,
        )


def test_objects_say_what_strings_say(X):
    assert as_kernel("gaussian:sigma2=2,features=50") == FourierFeatures(Gaussian(2.0), 50)
    assert as_kernel("gaussian:on=0:2,features=50,map=nystrom") == Nystrom(
        Gaussian(on=slice(0, 2)), 50
    )
    assert as_kernel("gaussian:explicit=False,features=50").explicit is False
    mine = Nystrom(Custom(lambda X, Y: np.minimum(X[:, :1], Y[:, :1].T), "min"), 40).fit(X)
    assert_allclose(
        mine(X),
        np.minimum(X[:, :1], X[:, :1].T),
        atol=1e-8,
    )


def test_a_kernel_with_a_spectrum_of_its_own_has_fourier_features(X):
    class Cosine(Kernel):
        aliases = {"cosine of the first column": {}}

        def raw(self, pair):
            return np.cos(pair.X[:, :1] - pair.Y[:, :1].T)

        def frequencies(self, generator, shape):
            return np.eye(1, shape[1]) * generator.choice([-1.0, 1.0], size=(shape[0], 1))

    kernel = FourierFeatures(Cosine(), 10).fit(X)
    assert_allclose(kernel(X), kernel.kernel(X), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_kernel("chi2:features=10,map=fourier"), "no Fourier features: use map=nystrom"),
        (lambda: as_kernel("gaussian:features=11"), "in pairs"),
        (lambda: as_kernel("gaussian:features=0"), "features must be a whole number > 0"),
        (lambda: as_kernel("gaussian:features=many"), "features must be a whole number > 0"),
        (lambda: as_kernel("gaussian:features=10,seed=-1"), "seed"),
        (lambda: as_kernel("gaussian:features=10,map=cosine"), "map=fourier or map=nystrom"),
        (lambda: as_kernel("gaussian:map=nystrom"), "needs features="),
        (lambda: as_kernel("gaussian:features"), "write parameter=value"),
        (lambda: as_kernel("gaussian:features=10").features(np.eye(3)), "call fit"),
        (lambda: as_kernel("chi2:features=10").fit(-np.eye(3)), "must not be negative"),
        (lambda: as_kernel("linear:features=10").fit(sparse.csr_array(np.eye(3))), "dense array"),
    ],
)
def test_what_cannot_be_approximated_is_refused_in_one_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    "spec",
    [*SPECS, "linear", "quadratic:normalize=trace", "cubic:coef0=2,gamma=0.5,normalize=None"],
)
def test_parts_of_an_input_sum_to_the_product_of_its_features(spec, X, rng):
    kernel = as_kernel(spec).fit(X)
    features = np.asarray(kernel.features(X[:3]))
    weights = rng.normal(size=features.shape[1])
    for row, row_features in zip(X[:3], features):
        assert_allclose(
            kernel.parts(row[None], weights).sum(),
            row_features @ weights,
            atol=1e-9,
        )
    contributions = kernel.parts(X[:1], weights)
    assert len(
        {kernel.part_name(i, "abcdef".__getitem__, 6) for i in range(len(contributions))}
    ) == len(contributions)


def test_the_name_of_a_monomial_is_what_it_is(rng):
    kernel = as_kernel("cubic:coef0=2,gamma=0.5,normalize=None").fit(np.ones((1, 3)))
    X = rng.normal(size=(4, 3))
    for i, values in enumerate(kernel.features(X).T):
        name = kernel.part_name(i, "abc".__getitem__, 3).replace("^", "**")
        ratios = [
            value / eval(name, {**dict(zip("abc", x)), "constant": 1.0})
            for value, x in zip(values, X)
        ]
        assert_allclose(ratios, ratios[0])


def test_27_kernels_on_each_variable_and_on_all(rng):
    X = rng.normal(size=(30, 4))
    kernels = list(variable_kernels(4))
    assert len(kernels) == 27 * 5
    stack = PackedStack.from_kernels(kernels, X, np.float64)
    assert_allclose(stack.traces(), 1.0, rtol=1e-12)
    distances = (X[:, None, 2] - X[None, :, 2]) ** 2
    assert_allclose(
        stack.combine([1.0], [2 * 27]), np.exp(-distances / (2 * 0.1**2)) / 30, atol=1e-12
    )
    cubic = (X @ X.T + 1) ** 3
    assert_allclose(
        stack.combine([1.0], [27 * 5 - 1]),
        cubic / np.trace(cubic),
        rtol=1e-12,
    )


def test_random_subsets_are_lazy_and_reproducible(rng):
    kernels = random_subset_gaussians(10**9, 20, random_state=3)
    first = [next(kernels) for _ in range(300)]
    assert first == list(random_subset_gaussians(300, 20, random_state=3))
    sizes = [len(kernel.on) for kernel in first]
    assert min(sizes) == 1
    assert max(sizes) == 20
    widths = np.sqrt([kernel.sigma2 for kernel in first])
    assert widths.min() >= 0.1
    X = rng.normal(size=(25, 20))
    gram = PackedStack.from_kernels(first[:1], X, np.float64).combine([1.0])
    view = X[:, list(first[0].on)]
    distances = ((view[:, None] - view[None]) ** 2).sum(axis=2)
    assert_allclose(
        gram,
        np.exp(-distances / (2 * widths[0] ** 2)) / 25,
        rtol=1e-10,
    )


def test_one_kernel_a_column_tells_which_matter_in_any_units(rng):
    X = rng.normal(size=(120, 4)) * [10.0, 1e5, 1e-3, 1.0] + [40.0, 5e4, 0.0, 0.0]
    y = (X[:, 0] - 40.0) / 10.0 + np.abs(X[:, 2]) * 1e3 > 1.0
    model = MKLClassifier(per_column("gaussian", X), C=1.0).fit(X, y)
    assert list(model.kernel_weights_) == [f"column {j}" for j in range(4)]
    assert model.kernel_weights_["column 0"] + model.kernel_weights_["column 2"] > 0.9


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_columns_of_a_data_frame_are_those_with_numbers(module):
    frame = pytest.importorskip(module).DataFrame(
        {"age": [1, 2], "city": ["a", "b"], "well": [True, False]}
    )
    expected = {name: Gaussian(3.0, on=name, standardize=True) for name in ("age", "well")}
    assert per_column("gaussian:sigma2=3", frame) == expected
    with pytest.raises(InputError, match="has columns already"):
        per_column("gaussian:on=0", frame)
