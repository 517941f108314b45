"""Learning rates against literal implementations of their rules."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from omkl.exceptions import InputError
from omkl.groups import ExplicitBank, Features, InterceptBank, Tokens
from omkl.online import (
    Constant,
    DistanceOverGradients,
    Example,
    InverseSqrt,
    InverseTime,
    LinearDecay,
    MeanPolyak,
)
from omkl.regularizers import L1, L21, SparseGroup
from omkl.structures import Chain, Multiclass

from ..passes import fit, online_trainer


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (Constant(0.5), [0.5, 0.5, 0.5, 0.5]),
        (InverseSqrt(0.5), [0.5, 0.5 / 2**0.5, 0.5 / 3**0.5, 0.25]),
        (InverseTime(0.5), [0.5, 0.25, 0.5 / 3, 0.125]),
        (LinearDecay(0.5), [0.5, 0.375, 0.25, 0.125]),
    ],
    ids=repr,
)
def test_rates_of_the_first_four_rounds(schedule, rates):
    schedule.plan(4)
    assert_allclose([schedule(t) for t in (1, 2, 3, 4)], rates)
    assert schedule(5) > 0.0  # also beyond the planned end


def test_linear_decay_ends_at_its_last_rate_and_is_constant_without_an_end():
    schedule = LinearDecay(1.0)
    assert [schedule(t) for t in (1, 1000)] == [1.0, 1.0]
    schedule.plan(10)
    assert schedule(10) == schedule(11) == schedule(1000) == pytest.approx(0.1)
    with pytest.raises(InputError, match="eta0"):
        LinearDecay(0.0)


def trained(schedule, epochs):
    trainer = online_trainer([InterceptBank(3, True)], Multiclass(3), regularizer=None, lambda_=1.0, schedule=schedule)
    rates = []

    class Watch:
        def on_round(self, trainer, step):
            rates.append((step.rate, step.loss, step.square_gradient))

        def __call__(self, trainer, record):
            pass

    examples = [Example(np.zeros((1, 0)), y, 1.0) for y in (0, 1, 0, 2, 0)]
    fit(trainer, examples, epochs=epochs, callbacks=[Watch()])
    return rates


def test_mean_polyak_is_the_ratio_of_sums_so_far():
    rounds = trained(MeanPolyak(0.7), epochs=3)
    losses = np.cumsum([loss for _, loss, _ in rounds])
    squares = np.cumsum([square for _, _, square in rounds])
    left = 1 - np.arange(15) / 15
    assert rounds[0][0] == pytest.approx(0.7 * rounds[0][1] / rounds[0][2])
    assert_allclose([rate for rate, _, _ in rounds[1:]], 0.7 * losses[:-1] / squares[:-1] * left[1:])


def test_fit_tells_the_schedule_where_the_end_is():
    assert trained(LinearDecay(1.0), epochs=2)[-1][0] == pytest.approx(0.1)


@pytest.mark.parametrize("schedule", [DistanceOverGradients, MeanPolyak])
@pytest.mark.parametrize(
    ("regularizer", "method"), [(L21(), "fobos"), (L21(), "rda"), (L1(), "fobos"), (SparseGroup(), "fobos")], ids=repr
)
@pytest.mark.parametrize("lambda_", [2.5, 0.3])
def test_rates_survive_a_first_proximal_step_that_sets_every_group_to_zero(schedule, regularizer, method, lambda_):
    """The first gradient is shorter than lambda; the mean of all is 0.8 long, so 0.3 has a model and 2.5 none."""
    features = Features(np.arange(9), np.array([2, 2, 0, 1, 0, 1, 0, 1], dtype=np.int32), np.array([0.2] * 2 + [1] * 6))
    tokens, gold = Tokens(np.arange(9), features), [0, 1, 0, 1, 0, 1, 0, 1]
    trainer = online_trainer(
        [ExplicitBank(["words"], np.zeros(3, dtype=np.int32), 2)],
        Chain(2),
        regularizer=regularizer,
        lambda_=lambda_,
        schedule=schedule(),
        method=method,
    )
    for epoch in range(40):
        for i in range(8):
            step = trainer.update(tokens.sequence(i), np.array(gold[i : i + 1]))
            assert step.rate > 0.0
            assert np.isfinite(step.norms).all()
            if epoch == i == 0:
                assert step.norms[0] == 0.0
    assert (trainer.norms[0] > 0.5) if lambda_ == 0.3 else (trainer.norms[0] == 0.0)


def test_a_gradient_without_length_is_none_to_the_rates():
    """B1 splines need not be positive semidefinite: the square of a gradient can come out below zero."""
    schedule = DistanceOverGradients()
    assert schedule.observe(1.0, -0.5) is None
    assert schedule(2) == 1.0
    assert schedule.observe(2.0, 4.0) == 0.5
    schedule.observe(1.0, -3.0)
    assert schedule(3) == pytest.approx(schedule._distance / 2.0)


@pytest.mark.parametrize("schedule", [DistanceOverGradients(), MeanPolyak()], ids=lambda s: type(s).__name__)
def test_a_weight_that_was_not_met_before_makes_no_longer_step(schedule):
    """A step is never longer than if all examples had the largest weight."""
    schedule.plan(1000)
    schedule.observe(1e-4, (2e-4) ** 2, 1e-4)
    heavy = type(schedule)()
    heavy.plan(1000)
    heavy.observe(1e3, (2e3) ** 2, 1e3)
    assert schedule(2, 1e3) * 2e3 <= heavy(2, 1e3) * 2e3 * (1 + 1e-12)
    assert schedule(2, 1e-4) == schedule(2, 1e-5)


def test_the_distance_grows_by_no_more_than_a_step():
    schedule = DistanceOverGradients()
    schedule.observe(1.0, 4.0)
    before = schedule._distance
    schedule.reach(100.0, 0.25)
    assert schedule._distance == before + 0.25
    schedule.reach(200.0, 0.0)
    assert schedule._distance == before + 0.25
