"""Online MKL with many passes over a finite set converges to the certified optimum of batch MKL.

Online: ``(1/(C m)) R(theta) + (1/m) sum hinge``; batch: ``C sum hinge + R``. With two classes an output scores
``y z / 2`` for the one potential z, so that the structured hinge is the hinge of the margin ``y z``.
"""

import numpy as np
import pytest

from omkl import OnlineMKLClassifier, OnlineMKLRegressor
from omkl.batch import Problem, Spicy
from omkl.kernels import Gaussian, Linear
from omkl.losses import Hinge, Logistic
from omkl.regularizers import SquaredL21

from ..stacks import DenseStack
from .generic import generic_optimum, small_problem

COLUMNS = {"line": slice(0, 1), "wave": slice(1, 2), "noise": slice(2, 4), "everything": slice(0, 4)}


def kernels(of_columns):
    """Return one kernel for each set of columns; ``of_columns`` makes the online specification of a set."""
    at = {name: of_columns(columns) for name, columns in COLUMNS.items()}
    return {
        "line": Linear(normalize=None, on=at["line"]),
        "wave": Gaussian(sigma2=0.3, on=at["wave"]),
        "noise": Gaussian(sigma2=1.0, on=at["noise"]),
        "everything": Gaussian(sigma2=3.0, on=at["everything"]),
    }


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    grams = np.array(
        [kernel(X[:, COLUMNS[name]], X[:, COLUMNS[name]]) for name, kernel in kernels(lambda _: None).items()]
    )
    return X, np.sign(X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 + 0.3 * rng.normal(size=80)), DenseStack(grams)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("loss", "same", "C"), [("hinge", Hinge(), 0.3), ("hinge", Hinge(), 3.0), ("crf", Logistic(), 3.0)]
)
def test_many_passes_end_at_the_certified_optimum(data, loss, same, C, intercept):
    """With two classes, the conditional random field is logistic regression."""
    X, y, stack = data
    problem = Problem(stack, y, same, SquaredL21(), C, intercept)
    optimum = Spicy().solve(problem, tol=1e-6).certificate
    assert optimum.gap <= 1e-6
    excess = []
    for epochs in (10, 300):
        online = OnlineMKLClassifier(
            kernels(lambda columns: f"{columns.start}:{columns.stop}"),
            loss=loss,
            regularizer="mkl",
            weighting="norms",
            C=C,
            epochs=epochs,
            eta0=1.0,
            schedule="sqrt",
            average=None,
            fit_intercept=intercept,
            verbose=False,
            random_state=0,
        ).fit(X, y)
        norms = np.array([online.history_[-1][f"norm:{name}"] for name in COLUMNS])
        excess.append(problem.primal(online.decision_function(X), norms) / optimum.primal - 1.0)
    assert -1e-6 <= excess[1] < 0.005
    assert excess[1] < 0.2 * excess[0]
    weights = np.array([online.kernel_weights_[name] for name in COLUMNS])
    np.testing.assert_allclose(weights, optimum.norms / optimum.norms.sum(), atol=0.05)


@pytest.mark.parametrize(("penalty", "explicit"), [("squared block 1-norm", True), ("block 1-norm", False)])
@pytest.mark.parametrize("name", ["squared", "Huber", "epsilon-insensitive"])
def test_a_regressor_ends_at_the_optimum_of_a_generic_solver(name, penalty, explicit):
    """Online: ``(1/(C m)) R(theta) + (1/m) sum loss``, on the columns of the kernels' factors."""
    problem, factors = small_problem(name, penalty)
    optimum = generic_optimum(problem, factors, name, penalty)
    X = np.hstack(factors)
    columns = {f"kernel {k}": f"{5 * k}:{5 * k + 5}" for k in range(len(factors))}
    online = OnlineMKLRegressor(
        {group: Linear(normalize=None, on=on, explicit=explicit) for group, on in columns.items()},
        loss=problem.loss,
        regularizer=problem.regularizer,
        C=problem.C,
        epochs=1500,
        eta0=0.2,
        schedule="linear",
        average=None,
        verbose=False,
        random_state=0,
    ).fit(X, problem.y)
    reached = problem.primal(online.predict(X), np.array([online.history_[-1][f"norm:{group}"] for group in columns]))
    assert -1e-6 <= reached / optimum - 1.0 < 0.01
