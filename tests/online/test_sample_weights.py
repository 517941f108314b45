"""Sample weights scale the gradient and the proximal step of an example."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import omkl
from omkl.groups import ExplicitBank, Features, Tokens
from omkl.losses import CRF, StructuredHinge
from omkl.online import (
    DistanceOverGradients,
    InverseSqrt,
    MeanPolyak,
    PolynomialAverage,
    UniformAverage,
)
from omkl.regularizers import L1, L21, Ridge, SquaredL21
from omkl.structures import Binary

from ..passes import online_trainer

GROUPS = [[0, 1], [2, 3], [4, 5]]
PENALTIES = {
    "mkl": (SquaredL21(), lambda w: 0.5 * cp.square(sum(cp.norm(w[g]) for g in GROUPS))),
    "ridge": (Ridge(), lambda w: 0.5 * cp.sum_squares(w)),
    "group lasso": (L21(), lambda w: sum(cp.norm(w[g]) for g in GROUPS)),
    "lasso": (L1(), cp.norm1),
}
RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 6))
GOLD = (X[:, 0] + 0.5 * X[:, 2] + 0.7 * RNG.normal(size=40) > 0).astype(np.int64)
SIGNS = 2 * GOLD - 1
rows = sparse.csr_array(X)
TOKENS = Tokens(np.arange(41), Features(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data))


def trainer_of(regularizer, lambda_, schedule, average=None, loss=None, **options):
    bank = ExplicitBank("abc", np.repeat(np.arange(3), 2), 1, average is not None)
    return online_trainer(
        [bank],
        Binary(),
        loss=loss,
        regularizer=regularizer,
        lambda_=lambda_,
        schedule=schedule,
        average=average,
        **options,
    )


def train(trainer, weights, epochs, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        for i in rng.permutation(len(GOLD)).tolist():
            trainer.update(TOKENS.sequence(i), GOLD[i], weights[i])
    return trainer


def optimum(penalty, lambda_, weights, loss):
    w = cp.Variable(6)
    margins = cp.multiply(SIGNS, X @ w)
    losses = cp.pos(1 - margins) if isinstance(loss, StructuredHinge) else cp.logistic(-margins)
    problem = cp.Problem(cp.Minimize(lambda_ * penalty(w) + weights @ losses / weights.sum()))
    return problem.solve(solver=cp.CLARABEL)


def objective(w, penalty, lambda_, weights, loss):
    margins = SIGNS * (X @ w)
    losses = np.maximum(0, 1 - margins) if isinstance(loss, StructuredHinge) else np.logaddexp(0, -margins)
    return weights @ losses / weights.sum() + lambda_ * penalty(cp.Constant(w)).value


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_random_weights_approach_the_weighted_batch_optimum(name, method):
    regularizer, penalty = PENALTIES[name]
    if method == "rda" and name == "lasso":
        pytest.skip("dual averaging has no coordinates")
    weights = np.random.default_rng(0).uniform(0.05, 1.0, size=len(GOLD))
    for loss in (StructuredHinge(), CRF()):
        trainer = trainer_of(regularizer, 0.1, InverseSqrt(1.0), PolynomialAverage(2), loss, method=method)
        train(trainer, weights, 300)
        reached = objective(trainer.banks[0].averaged_table()[:, 0], penalty, 0.1, weights, loss)
        best = optimum(penalty, 0.1, weights, loss)
        assert best - 1e-6 <= reached <= 1.02 * best


@pytest.mark.parametrize("weight", [0.5, 3.0])
@pytest.mark.parametrize("schedule", [DistanceOverGradients, MeanPolyak])
@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_a_constant_weight_changes_nothing_but_the_unit_of_rates_that_find_their_own(weight, schedule, method):
    """The regularizer is relative to the weighted mean of the losses: a constant weight cancels."""
    weighted, plain = (
        train(trainer_of(SquaredL21(), 0.05, schedule(), UniformAverage(), method=method), np.full(40, w), 5)
        for w in (weight, 1.0)
    )
    assert_allclose(weighted.norms, plain.norms, rtol=1e-9)
    assert_allclose(weighted.banks[0].averaged_table(), plain.banks[0].averaged_table(), rtol=1e-9)


@pytest.mark.parametrize("method", ["fobos", "rda"])
@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_a_constant_weight_is_a_rate(weight, method):
    weighted = train(trainer_of(SquaredL21(), 0.05, InverseSqrt(0.6 / weight), method=method), np.full(40, weight), 5)
    plain = train(trainer_of(SquaredL21(), 0.05, InverseSqrt(0.6), method=method), np.ones(40), 5)
    assert_allclose(weighted.norms, plain.norms, rtol=1e-9)


@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_an_example_without_weight_is_absent(method):
    weights = (np.arange(40) % 3 > 0).astype(float)
    trainer, other = (
        trainer_of(SquaredL21(), 0.05, DistanceOverGradients(), UniformAverage(), method=method) for _ in range(2)
    )
    train(trainer, weights, 3)
    rng = np.random.default_rng(0)
    for _ in range(3):
        for i in rng.permutation(40).tolist():
            if weights[i]:
                other.update(TOKENS.sequence(i), GOLD[i])
    assert trainer.round == other.round
    assert_array_equal(trainer.banks[0].averaged_table(), other.banks[0].averaged_table())


@pytest.mark.parametrize("method", ["fobos", "rda"])
@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_classifiers_with_a_constant_weight_have_the_optimum_of_the_matching_C(weight, method):
    weighted = omkl.OnlineMKLClassifier("linear", C=0.1, method=method, epochs=200, random_state=0)
    plain = omkl.OnlineMKLClassifier("linear", C=0.1 * weight, method=method, epochs=200, random_state=0)
    weighted.fit(X, GOLD, sample_weight=np.full(40, weight))
    plain.fit(X, GOLD)
    assert_allclose(weighted.decision_function(X), plain.decision_function(X), atol=0.03)


@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_large_weights_have_the_optimum_of_as_many_copies_and_cost_two_presentations(method):
    """An example of weight 3000 counts three times as much as one of weight 1000, and C by the thousand less."""
    weights = np.where(GOLD == 1, 3.0, 1.0)
    copies = omkl.OnlineMKLClassifier("linear", C=0.1, method=method, epochs=200, random_state=0)
    copies.fit(X, GOLD, sample_weight=weights)
    large = omkl.OnlineMKLClassifier("linear", C=1e-4, method=method, epochs=200, random_state=0)
    large.fit(X, GOLD, sample_weight=1000 * weights)
    assert copies.history_[0]["examples"] == weights.sum()
    assert large.history_[0]["examples"] <= 2 * len(GOLD)
    assert_allclose(large.decision_function(X), copies.decision_function(X), atol=0.05)


def test_class_weights_of_a_thousand_cost_two_presentations():
    model = omkl.OnlineMKLClassifier("linear", C=0.1, class_weight={0: 1000.0, 1: 1.0}, epochs=5, random_state=0)
    assert model.fit(X, GOLD).history_[0]["examples"] <= 2 * len(GOLD)
    assert (model.predict(X)[GOLD == 0] == 0).all()
