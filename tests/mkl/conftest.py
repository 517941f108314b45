"""Data and kernels shared by the tests of kernel estimators."""

import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import omkl
from omkl.kernels import Gaussian, Linear


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:120], y[:120]


KERNELS = {
    "narrow": Gaussian(2.0),
    "wide": Gaussian(50.0),
    "linear": Linear(normalize="average"),
    "first": "gaussian:on=0:3",
}


def grams_of(X, Y):
    kernels = [omkl.kernels.as_kernel(kernel) for kernel in KERNELS.values()]
    columns = [slice(None) if kernel.on is None else kernel.on for kernel in kernels]
    return [kernel.fit(X[:, on])(Y[:, on], X[:, on]) for kernel, on in zip(kernels, columns)]
