"""Estimators on a budget: arrays and streams, memory, model files, errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris

import omkl
from omkl.exceptions import InputError
from omkl.groups import BudgetedExpansion

KERNELS = {"linear": "linear", "dual": "linear:explicit=False", "gaussian": "gaussian:sigma2=1", "b1": "b1:h=2"}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def budgeted_bank(model):
    (bank,) = [bank for bank in model.model_.trainer.banks if isinstance(bank, BudgetedExpansion)]
    return bank


def test_a_fit_on_arrays_is_a_stream_of_its_examples(iris):
    """Same rounds, same order, same bits, for all dual kernels of the model in one bank."""
    X, y = iris
    options = {"budget": 15, "n_examples": len(y), "weighting": "norms"}
    fitted = omkl.OnlineMKLClassifier(KERNELS, epochs=1, shuffle=False, random_state=0, **options).fit(X, y)
    streamed = omkl.OnlineMKLClassifier(KERNELS, **options)
    for low in range(0, len(y), 20):
        streamed.partial_fit(X[low : low + 20], y[low : low + 20], classes=[0, 1, 2])
    for model in (fitted, streamed):
        bank = budgeted_bank(model)
        assert bank.names == ["dual", "gaussian", "b1"]
        assert bank.n_support == 15
    fitted.model_.trainer.recompute_norms(), streamed.model_.trainer.recompute_norms()
    assert_array_equal(fitted.decision_function(X), streamed.decision_function(X))
    assert fitted.kernel_weights_ == streamed.kernel_weights_


def test_a_budget_that_is_not_spent_changes_nothing(iris):
    X, y = iris
    models = [
        omkl.OnlineMKLClassifier(KERNELS, epochs=3, random_state=0, budget=budget).fit(X, y) for budget in (None, 500)
    ]
    assert_allclose(models[0].decision_function(X), models[1].decision_function(X), rtol=1e-5, atol=1e-6)


def test_memory_is_constant_on_a_stream():
    X, y = load_digits(return_X_y=True)
    model = omkl.OnlineMKLClassifier(["linear", "gaussian", "laplacian"], budget=50)
    usage = []
    for low in range(0, 1500, 100):
        model.partial_fit(X[low : low + 100], y[low : low + 100], classes=np.arange(10))
        usage.append(model.memory_usage())
    assert budgeted_bank(model).n_support == 50
    assert len({one["training"] for one in usage}) == 1
    assert len({one["prediction"] for one in usage[-5:]}) == 1
    assert model.score(X[1500:], y[1500:]) > 0.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "budget must be a whole number > 0, not 0"),
        ({"budget": 2.5}, "budget must be a whole number > 0, not 2.5"),
        ({"budget": "many"}, "budget must be a whole number > 0, not 'many'"),
    ],
)
def test_bad_budgets_are_refused_at_the_door(options, message, iris):
    with pytest.raises(InputError, match=message):
        omkl.OnlineMKLClassifier(**options).fit(*iris)
    with pytest.raises(InputError, match=message):
        omkl.SequenceLabeler(**options).partial_fit([iris[0]], [iris[1]])
