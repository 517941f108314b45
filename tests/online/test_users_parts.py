"""Losses and regularizers as users write them, with compiled functions and without."""

import copy

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from omkl import OnlineMKLClassifier, OnlineMKLRegressor, Passes
from omkl.exceptions import InputError
from omkl.losses import Perceptron, PointwiseLoss, Squared, StructuredLoss
from omkl.online import LinearDecay, MeanPolyak, PolynomialAverage, RecentAverage, driver
from omkl.regularizers import L21, Regularizer, Ridge
from omkl.signatures import LOSS_OF_LABELS, LOSS_OF_NUMBER, PROX
from omkl.structures._jit_labels import decode, indicate, score

needs_compilation = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
KERNELS = ["linear", "gaussian:features=20"]


@numba.njit(LOSS_OF_NUMBER.numba)
def squared_error(y, z, parameters):
    error = z - y
    return parameters[0] * (0.5 * error**2), parameters[0] * error


@numba.njit(PROX.numba)
def shrink(norms, step, parameters, memory):
    for k in range(len(norms)):
        norms[k] = max(norms[k] - step * parameters[0], 0.0)


@numba.njit(LOSS_OF_NUMBER.numba)
def reciprocal_error(y, z, parameters):
    return 1.0 / (y - z), z - y


@numba.njit(LOSS_OF_NUMBER.numba)
def refusing_error(y, z, parameters):
    if y == 0.0:
        raise ValueError("no target", y)
    return 0.5 * (z - y) ** 2, z - y


@numba.njit(LOSS_OF_LABELS.numba)
def mistakes(structure, unary, pairwise, gold, parameters, gradient, pair_gradient):
    gradient[:] = 0.0
    pair_gradient[:] = 0.0
    labels = np.empty_like(gold)
    decode(structure, unary, pairwise, gold, 0.0, labels)
    gap = score(structure, unary, pairwise, labels) - score(structure, unary, pairwise, gold)
    indicate(structure, gradient, pair_gradient, labels, 1.0)
    indicate(structure, gradient, pair_gradient, gold, -1.0)
    return max(gap, 0.0)


class PlainSquared(PointwiseLoss):
    """A loss without a compiled function."""

    curvature = 1.0

    def value(self, y, z):
        return 0.5 * (y - z) ** 2

    def gradient(self, y, z):
        return z - y


class OwnSquared(PlainSquared):
    compiled = squared_error, np.array([1.0])


class PlainLasso(Regularizer):
    """A regularizer without a compiled function."""

    separable = True

    def value(self, norms):
        return float(np.sum(np.abs(norms)))

    def slopes(self, norms):
        return np.ones(len(norms))

    def prox(self, norms, step):
        return np.sign(norms) * np.maximum(np.abs(norms) - step, 0.0)


class OwnLasso(PlainLasso):
    compiled = shrink, np.array([1.0])


class OwnPerceptron(StructuredLoss):
    compiled = mistakes, np.empty(0)
    uses_cost = False

    def value_and_gradient(self, structure, potentials, gold):
        return Perceptron().value_and_gradient(structure, potentials, gold)


class WarmUp(LinearDecay):
    """A schedule that overrides the rate of a round."""

    def __call__(self, t):
        return super().__call__(t) * min(t / 50, 1.0)


class SquareDecay(LinearDecay):
    """A schedule that overrides what the rate of a round follows from."""

    def share_left(self, t):
        return super().share_left(t) ** 2


class HalfPolyak(MeanPolyak):
    """An adaptive schedule with a factor of its own, and the compiled functions of its base."""

    compiled = MeanPolyak.functions

    def factor(self, t):
        return 0.5 * super().factor(t)


class Halving:
    """A part of a class that comes before the schedule."""

    def __call__(self, t):
        return 0.5 * super().__call__(t)


class HalfDecay(Halving, LinearDecay):
    pass


class LinearAverage(PolynomialAverage):
    def weight(self, t):
        return float(t)


class SlowAverage(RecentAverage):
    def weight(self, t):
        return 1.0 + t


class EveryRound:
    """Callback that has rounds run in Python."""

    def on_round(self, trainer, step):
        """See every round."""


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(300, 5))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=300)


def fitted(rows, loss, regularizer, **options):
    options = {
        "epochs": 2,
        "C": 0.3,
        "weighting": "norms",
        "random_state": 0,
        "verbose": False,
        **options,
    }
    return OnlineMKLRegressor(KERNELS, loss=loss, regularizer=regularizer, **options).fit(*rows)


@pytest.mark.parametrize("regularizer", [OwnLasso(), 0.5 * OwnLasso() + Ridge()], ids=repr)
def test_compiled_functions_of_users_are_called_by_the_driver_and_by_rounds(rows, regularizer):
    model = fitted(rows, OwnSquared(), regularizer)
    assert driver.uncompiled_part(model.model_.trainer) is None
    in_python = fitted(rows, OwnSquared(), regularizer, callbacks=[EveryRound()])
    assert_array_equal(
        model.predict(rows[0]),
        in_python.predict(rows[0]),
    )


def test_they_learn_what_parts_of_the_library_learn(rows):
    model = fitted(rows, OwnSquared(), OwnLasso())
    builtin = fitted(rows, Squared(), L21())
    assert np.count_nonzero(builtin.model_.trainer.norms) > 0
    assert_allclose(
        model.predict(rows[0]),
        builtin.predict(rows[0]),
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize(
    ("loss", "regularizer", "name"),
    [
        (PlainSquared(), OwnLasso(), "PlainSquared()"),
        (OwnSquared(), PlainLasso(), "PlainLasso()"),
        (OwnSquared(), PlainLasso() + OwnLasso(), "PlainLasso() + OwnLasso()"),
    ],
    ids=["loss", "regularizer", "term"],
)
def test_parts_without_them_learn_the_same_in_python_and_are_named(
    rows, loss, regularizer, name, capfd
):
    model = fitted(rows, loss, regularizer, verbose=True)
    factor = 2.0 if "+" in name else 1.0
    compiled = fitted(rows, OwnSquared(), factor * OwnLasso(), verbose=True)
    assert_allclose(
        model.predict(rows[0]),
        compiled.predict(rows[0]),
        rtol=1e-9,
        atol=1e-9,
    )
    lines = [line for line in capfd.readouterr().err.splitlines() if "no compiled function" in line]
    assert len(lines) == 1
    assert lines[0].startswith(name)
    assert "rounds run in Python" in lines[0]


@pytest.mark.parametrize(
    "options",
    [
        {"learning_rate": WarmUp(0.3)},
        {"learning_rate": SquareDecay(0.3)},
        {"learning_rate": HalfPolyak()},
        {"learning_rate": HalfDecay(0.3)},
        {"average": LinearAverage()},
        {"average": SlowAverage()},
    ],
    ids=repr,
)
def test_schedules_and_averages_may_override_single_rounds(rows, options):
    model = fitted(rows, OwnSquared(), OwnLasso(), **options)
    assert driver.uncompiled_part(model.model_.trainer) is None
    in_python = fitted(rows, OwnSquared(), OwnLasso(), callbacks=[EveryRound()], **options)
    assert_array_equal(
        model.predict(rows[0]),
        in_python.predict(rows[0]),
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loss_of_labels_calls_the_structure(rng, n_classes):
    X = rng.normal(size=(200, 4))
    y = rng.integers(n_classes, size=200)
    options = {"weighting": "norms", "random_state": 0}
    model = OnlineMKLClassifier(KERNELS, loss=OwnPerceptron(), **options).fit(X, y)
    assert driver.uncompiled_part(model.model_.trainer) is None
    in_python = OnlineMKLClassifier(
        KERNELS, loss=OwnPerceptron(), callbacks=[EveryRound()], **options
    ).fit(X, y)
    assert_array_equal(model.decision_function(X), in_python.decision_function(X))
    builtin = OnlineMKLClassifier(KERNELS, loss="perceptron", **options).fit(X, y)
    assert_allclose(
        model.decision_function(X),
        builtin.decision_function(X),
        rtol=1e-9,
        atol=1e-9,
    )


@needs_compilation
@pytest.mark.parametrize("callbacks", [(), [EveryRound()]], ids=["compiled", "rounds in Python"])
@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (reciprocal_error, ZeroDivisionError, "division by zero"),
        (refusing_error, ValueError, r"'no target', 0\.0"),
    ],
    ids=["division", "raised"],
)
def test_errors_of_their_functions_reach_the_user(rows, callbacks, function, error, message):
    class Failing(PlainSquared):
        compiled = function, np.empty(0)

    X = np.vstack([rows[0], np.zeros(5)])
    y = np.append(rows[1], 0.0)
    options = {
        "regularizer": OwnLasso(),
        "weighting": "norms",
        "fit_intercept": False,
        "epochs": Passes(shuffle=False),
    }
    model = OnlineMKLRegressor(
        ["linear"], loss=Failing(), callbacks=callbacks, learning_rate=1e-3, **options
    )
    with pytest.raises(error, match=message):
        model.fit(X, y)


@needs_compilation
def test_functions_of_another_signature_are_refused(rows):
    class WrongLoss(PlainSquared):
        compiled = shrink, np.empty(0)

    class WrongLasso(PlainLasso):
        compiled = squared_error, np.empty(0)

    with pytest.raises(
        InputError, match=r"shrink must be UniTuple\(float64 x 2\)\(y: float64.*takes \(norms, step"
    ):
        fitted(rows, WrongLoss(), OwnLasso())
    with pytest.raises(
        InputError, match=r"squared_error must be none\(norms: array.*takes \(y, z, parameters\)"
    ):
        fitted(rows, OwnSquared(), WrongLasso())


@needs_compilation
def test_what_is_no_compiled_function_is_refused(rows):
    class WrongLoss(PlainSquared):
        compiled = (lambda y, z, parameters: (0.0, 0.0)), np.empty(0)

    with pytest.raises(
        InputError, match=r"must be a compiled function with the decorator numba\.njit"
    ):
        fitted(rows, WrongLoss(), OwnLasso())


@pytest.mark.parametrize(
    "parameters", [[1.0], np.array([1]), np.ones((1, 1)), np.ones(4)[::2]], ids=repr
)
def test_parameters_of_another_type_are_refused(rows, parameters):
    class WrongLoss(PlainSquared):
        compiled = squared_error, parameters

    class WrongLasso(PlainLasso):
        compiled = shrink, parameters

    with pytest.raises(InputError, match=r"parameters of .* WrongLoss\(\) must be"):
        fitted(rows, WrongLoss(), OwnLasso())
    with pytest.raises(InputError, match=r"parameters of .* WrongLasso\(\) must be"):
        fitted(rows, OwnSquared(), WrongLasso())


def test_copies_call_the_same_functions(rows):
    model = fitted(rows, OwnSquared(), OwnLasso())
    other = copy.deepcopy(model).partial_fit(*rows)
    assert_array_equal(
        other.predict(rows[0]),
        model.partial_fit(*rows).predict(rows[0]),
    )
