"""User-defined parts that lack a method: the error names the method and its caller."""

import numpy as np
import pytest

import omkl
from omkl.exceptions import InputError
from omkl.kernels import Kernel
from omkl.losses import PointwiseLoss, StructuredLoss
from omkl.regularizers import Regularizer


class Absolute(PointwiseLoss):
    def value(self, y, z):
        return np.abs(y - z)


class LogCosh(Absolute):
    def gradient(self, y, z):
        return -np.tanh(y - z)


class NoPenalty(Regularizer):
    pass


class NoKernel(Kernel):
    pass


class NoLoss(StructuredLoss):
    pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: omkl.OnlineMKLRegressor(["linear"], loss=Absolute()), "Absolute does not define gradient"),
        (lambda: omkl.MKLRegressor(["linear"], loss=LogCosh()), "LogCosh does not define .* batch solvers need it"),
        (lambda: omkl.GroupLasso(loss=LogCosh()), "LogCosh does not define .* batch solvers need it"),
        (lambda: omkl.OnlineMKLRegressor(["linear"], regularizer=NoPenalty()), "NoPenalty does not define"),
        (lambda: omkl.MKLRegressor([NoKernel()]), "NoKernel does not define raw"),
        (lambda: omkl.OnlineMKLClassifier(["linear"], loss=NoLoss()), "NoLoss does not define value_and_gradient"),
    ],
    ids=["value alone", "batch", "design", "penalty", "kernel", "structured"],
)
def test_a_part_without_a_method_that_is_needed_is_refused_in_one_sentence(make, said, rng):
    X = rng.normal(size=(20, 3))
    estimator = make()
    y = np.arange(20) % 2 if "Classifier" in type(estimator).__name__ else X[:, 0]
    with pytest.raises(InputError, match=said):
        estimator.fit(X, y)


class Overlap(Kernel):
    """User-defined kernel without a name."""

    def raw(self, pair):
        return np.minimum(pair.X[:, None, :], pair.Y[None, :, :]).sum(axis=2)

    def raw_diagonal(self, X):
        return X.sum(axis=1)


def test_a_kernel_without_a_name_is_called_by_its_class(rng):
    X = rng.random((30, 3))
    model = omkl.MKLClassifier([Overlap(), "linear"]).fit(X, X[:, 0] > 0.5)
    assert list(model.kernel_weights_) == ["Overlap", "linear"]
    assert model.score(X, X[:, 0] > 0.5) > 0.8
