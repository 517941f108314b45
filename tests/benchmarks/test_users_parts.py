"""A user's loss and regularizer in place of the built-in ones: with compiled functions, and in
Python rounds.
"""

import numpy as np
import pytest

from omkl import OnlineMKLRegressor
from omkl.losses import Squared
from omkl.regularizers import L21
from tests.online.test_users_parts import OwnLasso, OwnSquared, PlainLasso, PlainSquared
from tests.passes import OwnPenalty

ROWS, COLUMNS = 6000, 8
#: A norm whose proximity operator is found by bisection.
DERIVED = OwnPenalty(lambda norms: norms, np.ones_like)
PARTS = {
    "compiled": (OwnSquared(), OwnLasso()),
    "loss in Python": (PlainSquared(), L21()),
    "regularizer in Python": (Squared(), PlainLasso()),
    "both in Python": (PlainSquared(), PlainLasso()),
    "prox by bisection": (Squared(), DERIVED),
}


@pytest.mark.parametrize("kind", PARTS)
def test_users_parts(measure, kind):
    """One epoch of squared loss and group lasso; the peer is the same with the parts of the
    library.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    y = X @ rng.normal(size=COLUMNS) + rng.normal(size=ROWS)

    def fit_with(loss, regularizer):
        kernels = ["linear", "gaussian:features=20"]
        options = {"epochs": 1, "weighting": "norms", "random_state": 0, "verbose": False}
        model = OnlineMKLRegressor(kernels, loss=loss, regularizer=regularizer, **options)
        return lambda: model.fit(X, y)

    fit_with(Squared(), L21())()  # compiles
    builtin = {"built in": lambda: fit_with(Squared(), L21())}
    seconds = measure(fit_with(*PARTS[kind]), peers=builtin, once=kind == "prox by bisection")
    measure.note(microseconds_a_round=1e6 * seconds / ROWS)
