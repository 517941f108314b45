"""The trainer: convergence to the optimum, special cases, learning rates, trees, state, histories,
errors.
"""

from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from omkl.exceptions import DivergenceError, InputError
from omkl.groups import (
    ExplicitBank,
    Features,
    InterceptBank,
    KernelExpansion,
    Tokens,
    TransitionBank,
)
from omkl.groups.tables import DenseBank
from omkl.kernels import Gaussian
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.online import (
    Constant,
    DecayedAverage,
    DistanceOverGradients,
    Example,
    InverseSqrt,
    InverseTime,
    LinearDecay,
    MeanPolyak,
    OnlineTrainer,
    PolynomialAverage,
    RecentAverage,
    UniformAverage,
    values_of,
)
from omkl.online._jit_schedules import DISTANCE
from omkl.regularizers import (
    L1,
    L21,
    L21Ball,
    LqNorm,
    Ridge,
    SparseGroup,
    SquaredL21,
    TreeGroups,
    WeightedSquaredL21,
)
from omkl.structures import Binary, Chain, Multiclass, NonProjectiveTree, ProjectiveTree

from ..passes import OwnPenalty, fit, online_trainer

GROUPS = [[0, 1], [2, 3], [4, 5], [6, 7]]
NAMES = ["a", "b", "c", "d"]


class Classification:
    """Binary data of which the first group of two features tells nearly everything, and the last
    two are noise.
    """

    def __init__(self, n=60, seed=0):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, 8))
        self.gold = (self.X[:, 0] + 0.5 * self.X[:, 2] + 0.3 * rng.normal(size=n) > 0).astype(
            np.int64
        )
        rows = sparse.csr_array(self.X)
        features = Features(
            rows.indptr.astype(np.int64),
            rows.indices.astype(np.int32),
            rows.data,
        )
        self.tokens = Tokens(
            np.arange(n + 1),
            features,
            {"x": self.X},
        )
        self.examples = [Example(self.tokens.sequence(i), y) for i, y in enumerate(self.gold)]

    def bank(self, averaging=False, n_outputs=1):
        return ExplicitBank(
            NAMES,
            np.repeat(np.arange(4), 2),
            n_outputs,
            averaging,
        )

    def trainer(
        self, regularizer, lambda_=0.1, schedule=None, loss=None, averaging=None, **options
    ):
        bank = self.bank(averaging is not None)
        return online_trainer(
            [bank],
            Binary(),
            loss=loss,
            regularizer=regularizer,
            lambda_=lambda_,
            schedule=schedule or InverseSqrt(0.5),
            average=averaging,
            **options,
        )


@pytest.fixture
def data():
    return Classification()


PENALTIES = {
    "mkl": (SquaredL21(), lambda w: 0.5 * cp.square(sum(cp.norm(w[g]) for g in GROUPS))),
    "group lasso": (L21(), lambda w: sum(cp.norm(w[g]) for g in GROUPS)),
    "ridge": (Ridge(), lambda w: 0.5 * cp.sum_squares(w)),
    "lasso": (L1(), cp.norm1),
    "sparse group": (
        SparseGroup(0.5),
        lambda w: 0.5 * cp.norm1(w) + 0.5 * sum(cp.norm(w[g]) for g in GROUPS),
    ),
    "tree": (
        TreeGroups([["a", "b"], ["b"], ["c", "d"]]),
        lambda w: cp.norm(w[:4]) + cp.norm(w[2:4]) + cp.norm(w[4:]),
    ),
}


def batch_optimum(data, penalty, lambda_, loss):
    w = cp.Variable(8)
    margins = cp.multiply(2 * data.gold - 1, data.X @ w)
    losses = cp.pos(1 - margins) if isinstance(loss, StructuredHinge) else cp.logistic(-margins)
    problem = cp.Problem(cp.Minimize(lambda_ * penalty(w) + cp.sum(losses) / len(data.gold)))
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.slow
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("loss", [StructuredHinge(), CRF()], ids=["hinge", "crf"])
def test_the_averaged_model_approaches_the_batch_optimum(data, name, loss):
    regularizer, penalty = PENALTIES[name]
    trainer = data.trainer(regularizer, 0.05, InverseSqrt(0.5), loss, UniformAverage(start=3000))
    fit(trainer, data.examples, epochs=250, rng=np.random.default_rng(0))
    optimum = batch_optimum(data, penalty, 0.05, loss)
    w = trainer.banks[0].averaged_table()[:, 0]
    margins = (2 * data.gold - 1) * (data.X @ w)
    losses = (
        np.maximum(0, 1 - margins)
        if isinstance(loss, StructuredHinge)
        else np.logaddexp(0, -margins)
    )
    objective = losses.mean() + 0.05 * penalty(cp.Constant(w)).value
    assert optimum - 1e-6 <= objective <= optimum * 1.02


@pytest.mark.parametrize("regularizer", [SquaredL21(), L21()], ids=repr)
def test_dual_averaging_reaches_the_same_optimum_with_groups_truly_zero(data, regularizer):
    penalty = PENALTIES["mkl" if isinstance(regularizer, SquaredL21) else "group lasso"][1]
    trainer = data.trainer(regularizer, 0.3, InverseSqrt(1.0), method="rda")
    fit(trainer, data.examples, epochs=400, rng=np.random.default_rng(0))
    optimum = batch_optimum(data, penalty, 0.3, StructuredHinge())
    assert trainer.mean_loss(data.examples) + 0.3 * trainer.penalty() <= optimum * 1.03
    assert trainer.norms[0] > 0
    assert (trainer.norms[2:] == 0).all()


def test_distance_over_gradients_reaches_the_optimum_without_tuning(data):
    for scale in (1e-3, 1.0, 1e3):
        scaled = Classification()
        scaled.tokens.features.values[:] *= scale
        # features times c and lambda times c^2 is the same problem in other units
        lambda_ = 0.05 * scale**2
        trainer = data.trainer(
            Ridge(), lambda_, DistanceOverGradients(), averaging=PolynomialAverage(2)
        )
        fit(trainer, scaled.examples, epochs=100, rng=np.random.default_rng(0))
        w = trainer.banks[0].averaged_table()[:, 0]
        losses = np.maximum(0, 1 - (2 * data.gold - 1) * (scale * data.X @ w))
        optimum = batch_optimum(data, PENALTIES["ridge"][1], 0.05, StructuredHinge())
        assert losses.mean() + lambda_ / 2 * w @ w <= 1.05 * optimum


def test_a_strongly_convex_objective_is_minimized_with_rates_of_one_over_sigma_t(data):
    sigma = 0.2
    lambda_ = 0.05
    penalty = PENALTIES["mkl"][1]
    trainer = data.trainer(
        lambda_ * SquaredL21() + sigma * Ridge(),
        1.0,
        InverseTime(1 / sigma),
    )
    fit(trainer, data.examples, epochs=60, rng=np.random.default_rng(0))
    optimum = batch_optimum(
        data, lambda w: lambda_ * penalty(w) + sigma / 2 * cp.sum_squares(w), 1.0, StructuredHinge()
    )
    assert optimum - 1e-9 <= trainer.mean_loss(data.examples) + trainer.penalty() <= 1.02 * optimum


def test_noise_dies_again_and_again_and_the_informative_group_never(data):
    class Census:
        dead = np.zeros(4)

        def on_round(self, trainer, step):
            if trainer.round > len(data.examples):
                self.dead += trainer.norms == 0

        def __call__(self, trainer, record):
            return False

    census = Census()
    fit(
        data.trainer(SquaredL21(), 0.5, InverseSqrt(0.3)),
        data.examples,
        epochs=30,
        rng=np.random.default_rng(0),
        callbacks=[census],
    )
    assert census.dead[0] == 0
    assert census.dead[3] > 20


def test_the_ball_bounds_every_iterate(data):
    trainer = data.trainer(L21Ball(0.3), 1.0)
    for x, y, _ in data.examples:
        assert trainer.update(x, y).norms.sum() <= 0.3 + 1e-12


def test_radius_projects_all_parameters_together(data):
    trainer = data.trainer(None, radius=0.25)
    fit(trainer, data.examples, epochs=3)
    assert_allclose(np.linalg.norm(trainer.group_state.norms), 0.25)


@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_the_norms_of_a_step_are_those_after_the_projection(data, method):
    trainer = data.trainer(SquaredL21(), radius=0.25, method=method)
    for x, y, _ in data.examples:
        step = trainer.update(x, y)
        assert_array_equal(step.norms, trainer.norms)
        assert np.linalg.norm(step.norms) <= 0.25 * (1 + 1e-12)


@pytest.mark.parametrize(
    "numbers", [np.zeros(4), np.zeros(5, dtype=np.float32), np.zeros((5, 5)), [0.0] * 5]
)
def test_numbers_of_a_schedule_that_compiled_rounds_cannot_read_are_refused(data, numbers):
    class Impatient(DistanceOverGradients):
        def __init__(self):
            super().__init__()
            self.numbers = numbers

    with pytest.raises(
        InputError, match=r"`numbers` of Impatient\(\) must be .* at least 5 entries"
    ):
        data.trainer(SquaredL21(), schedule=Impatient())


def test_perceptron_is_rosenblatts(data):
    """Constant rate, no regularizer, averaged: against the textbook loop."""
    trainer = data.trainer(None, 0.0, Constant(1.0), Perceptron(), UniformAverage())
    w = np.zeros(8)
    total = np.zeros(8)
    for i, (x, y, _) in enumerate(data.examples):
        trainer.update(x, y)
        if (data.X[i] @ w > 0) != y:
            w = w + (2 * y - 1) * data.X[i]
        total += w
    assert_allclose(
        trainer.banks[0].averaged_table()[:, 0],
        total / len(data.gold),
        atol=1e-12,
    )


def test_l1_refuses_kernels_and_dual_averaging(data):
    bank = KernelExpansion(["gaussian"], [Gaussian(1.0)], ["x"], 1)
    with pytest.raises(InputError, match=r"'gaussian' cannot.*'coordinates'"):
        OnlineTrainer(
            [bank], Binary(), StructuredHinge(), L1(), lambda_=0.1, schedule=InverseSqrt(1.0)
        )
    with pytest.raises(InputError, match="dual averaging does not support"):
        data.trainer(L1(), method="rda")


def test_two_groups_of_one_name_and_a_state_that_does_not_fit_are_refused(data):
    with pytest.raises(InputError, match="do not fit the model"):
        data.bank(n_outputs=2).load_state(data.bank().state())
    with pytest.raises(InputError, match="'a'"):
        online_trainer(
            [data.bank(), data.bank()],
            Binary(),
            regularizer=Ridge(),
            lambda_=1,
            schedule=Constant(1.0),
        )


def test_divergence_is_reported_with_the_round(data):
    data.tokens.features.values[:] *= 1e200
    trainer = data.trainer(None, schedule=Constant(1e200))
    with (
        pytest.raises(DivergenceError, match=r"round 2.*smaller learning_rate"),
        np.errstate(all="ignore"),
    ):
        fit(trainer, data.examples)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(data):
    states = []
    for seed in (1, 1, 2):
        trainer = data.trainer(SquaredL21())
        fit(
            trainer,
            data.examples,
            epochs=3,
            rng=np.random.default_rng(seed),
        )
        states.append(trainer.banks[0].table.copy())
    assert_array_equal(states[0], states[1])
    assert (states[0] != states[2]).any()


def test_history_tells_loss_objective_norms_and_weights(data):
    trainer = data.trainer(SquaredL21(), 0.1)
    history = fit(trainer, data.examples, epochs=4, rng=np.random.default_rng(0))
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]
    last = history[-1]
    assert last["round"] == 4 * len(data.examples)
    assert_allclose(
        last["objective"], last["loss"] + 0.1 * 0.5 * sum(values_of(last, "norm").values()) ** 2
    )
    assert_allclose(sum(values_of(last, "weight").values()), 1.0)
    assert last["weight:a"] == max(values_of(last, "weight").values())
    assert history[-1]["loss"] < history[0]["loss"]


def test_a_chain_and_a_multiclass_share_the_trainer(data):
    """A sequence of one token with no transitions is a multiclass example."""
    chain = online_trainer(
        [data.bank(n_outputs=2)],
        Chain(2),
        lambda_=0.1,
    )
    multiclass = online_trainer(
        [data.bank(n_outputs=2)],
        Multiclass(2),
        lambda_=0.1,
    )
    for x, y, _ in data.examples:
        chain.update(x, np.array([y]))
        multiclass.update(x, y)
    assert_array_equal(
        chain.banks[0].table,
        multiclass.banks[0].table,
    )


def test_groups_that_arrive_late_join_the_others(data):
    bank = ExplicitBank(["a"], np.zeros(2, dtype=int), 2, averaging=True)
    trainer = online_trainer(
        [bank, TransitionBank(2, averaging=True)], Chain(2), lambda_=0.05, average=UniformAverage()
    )
    few = Features(
        np.arange(len(data.gold) + 1), np.zeros(len(data.gold), np.int32), data.X[:, 0].copy()
    )
    early = Tokens(np.arange(len(data.gold) + 1), few)
    for i, y in enumerate(data.gold):
        trainer.update(early.sequence(i), np.array([y]))
    before = dict(zip(trainer.group_state.names, trainer.group_state.norms))
    bank.add_groups(["b", "c", "d"])
    bank.grow(np.repeat(np.arange(4), 2)[2:])
    trainer.regroup()
    after = dict(zip(trainer.group_state.names, trainer.group_state.norms))
    assert after == {**before, "b": 0.0, "c": 0.0, "d": 0.0}
    for x, y, _ in data.examples:
        trainer.update(x, np.array([y]))
    assert trainer.norms[1] > 0
    tracked = trainer.group_state.square_norms.copy()
    trainer.recompute_norms()
    assert_allclose(tracked, trainer.group_state.square_norms)


@pytest.mark.parametrize(
    ("average", "growth"),
    [
        # more rounds than half-lives that a double could count
        (DecayedAverage(0.7), lambda t: 2.0 ** (1 / 0.7)),
        (DecayedAverage(3.0), lambda t: 2.0 ** (1 / 3)),
        (RecentAverage(), lambda t: ((t + 1) / t) ** 2 * np.exp((np.sqrt(t + 1) - np.sqrt(t)) / 3)),
    ],
    ids=["half-life 0.7", "half-life 3", "recent"],
)
def test_averages_weight_models_by_their_age_for_ever(average, growth, data, monkeypatch):
    monkeypatch.setattr(RecentAverage, "period", 50)
    trainer = data.trainer(SquaredL21(), averaging=average)
    first = np.repeat(np.arange(4), 2) == 0
    total = weight = 0.0
    for t, (x, y, _) in enumerate(data.examples * 4):
        trainer.update(x, y)
        total = total / growth(max(t, 1)) + trainer.group_state.scales[0] * trainer.banks[0].table
        weight = weight / growth(max(t, 1)) + 1.0
        if t % 37 == 0:
            assert_allclose(
                trainer.predictor().banks[0].table[first], (total / weight)[first], rtol=1e-10
            )


@pytest.mark.parametrize("method", ["fobos", "rda"])
def test_a_sum_of_penalties_trains_like_its_scalar_form(method, data):
    """The terms take one joint step, the prox of the sum."""
    scalar_form = OwnPenalty(
        lambda b: b**1.5 / 3 + b**2 / 4,
        lambda b: b**0.5 / 2 + b / 2,
    )
    norms = []
    for regularizer in (0.5 * LqNorm() + 0.5 * Ridge(), scalar_form):
        trainer = data.trainer(regularizer, 0.3, method=method)
        fit(trainer, data.examples, epochs=2, rng=np.random.default_rng(0))
        norms.append(trainer.norms.copy())
    assert_allclose(*norms, rtol=1e-9)


def test_kernel_weights_sum_to_one_where_a_group_is_not_penalized(data):
    trainer = data.trainer(WeightedSquaredL21({"a": 0.0, "b": 1.0, "c": 1.0, "d": 1.0}), 0.1)
    fit(trainer, data.examples)
    assert trainer.kernel_weights() == {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}


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
    trainer = online_trainer(
        [InterceptBank(3, True)], Multiclass(3), regularizer=None, lambda_=1.0, schedule=schedule
    )
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
    assert_allclose(
        [rate for rate, _, _ in rounds[1:]], 0.7 * losses[:-1] / squares[:-1] * left[1:]
    )


def test_fit_tells_the_schedule_where_the_end_is():
    assert trained(LinearDecay(1.0), epochs=2)[-1][0] == pytest.approx(0.1)


@pytest.mark.parametrize("schedule", [DistanceOverGradients, MeanPolyak])
@pytest.mark.parametrize(
    ("regularizer", "method"),
    [(L21(), "fobos"), (L21(), "rda"), (L1(), "fobos"), (SparseGroup(), "fobos")],
    ids=repr,
)
@pytest.mark.parametrize("lambda_", [2.5, 0.3])
def test_rates_survive_a_first_proximal_step_that_sets_every_group_to_zero(
    schedule, regularizer, method, lambda_
):
    """The first gradient is shorter than lambda; the mean of all is 0.8 long, so 0.3 has a model
    and 2.5 none.
    """
    features = Features(
        np.arange(9),
        np.array([2, 2, 0, 1, 0, 1, 0, 1], dtype=np.int32),
        np.array([0.2] * 2 + [1] * 6),
    )
    tokens = Tokens(np.arange(9), features)
    gold = [0, 1, 0, 1, 0, 1, 0, 1]
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
                assert trainer.norms[0] == 0.0
    assert (trainer.norms[0] > 0.5) if lambda_ == 0.3 else (trainer.norms[0] == 0.0)


def test_a_gradient_without_length_is_none_to_the_rates():
    """B1 splines need not be positive semidefinite: the square of a gradient can come out below
    zero.
    """
    schedule = DistanceOverGradients()
    assert schedule.observe(1.0, -0.5, 1.0, 7.0) == 7.0
    assert schedule(2) == 1.0
    assert schedule.observe(2.0, 4.0, 1.0, 7.0) == 0.5
    schedule.observe(1.0, -3.0, 1.0, 7.0)
    assert schedule(3) == pytest.approx(schedule.numbers[DISTANCE] / 2.0)


@pytest.mark.parametrize(
    "schedule", [DistanceOverGradients(), MeanPolyak()], ids=lambda s: type(s).__name__
)
def test_a_weight_that_was_not_met_before_makes_no_longer_step(schedule):
    """A step is never longer than if all examples had the largest weight."""
    schedule.plan(1000)
    schedule.observe(1e-4, (2e-4) ** 2, 1e-4, 1.0)
    heavy = type(schedule)()
    heavy.plan(1000)
    heavy.observe(1e3, (2e3) ** 2, 1e3, 1.0)
    assert schedule(2, 1e3) * 2e3 <= heavy(2, 1e3) * 2e3 * (1 + 1e-12)
    assert schedule(2, 1e-4) == schedule(2, 1e-5)


def test_the_distance_grows_by_no_more_than_a_step():
    schedule = DistanceOverGradients()
    schedule.observe(1.0, 4.0, 1.0, 1.0)
    before = schedule.numbers[DISTANCE]
    schedule.reach(100.0, 0.25)
    assert schedule.numbers[DISTANCE] == before + 0.25
    schedule.reach(200.0, 0.0)
    assert schedule.numbers[DISTANCE] == before + 0.25


N_TAGS = 4
TRUE_WEIGHTS = np.random.default_rng(0).normal(size=(N_TAGS + 1) ** 2)


class TaggedSentence(NamedTuple):
    """Features of an arc for a toy parser: the tags of both ends, and an uninformative one."""

    tags: np.ndarray
    noise: np.ndarray

    def __len__(self):
        return len(self.tags)

    @property
    def pairs(self):
        tags = np.append(N_TAGS, self.tags)
        return tags[:, None] * (N_TAGS + 1) + tags


class ArcBank(DenseBank):
    """One weight for every value of one feature of an arc."""

    def __init__(self, name, n_values):
        super().__init__(name, (1, 1, n_values))

    def add_potentials(self, x, potentials):
        potentials.arcs[:] += (
            self.group_state.scales[0] * self.table[0, 0][getattr(x, self.names[0])]
        )

    def step(self, x, gradient):
        self._values = getattr(x, self.names[0])
        super().step(x, gradient)

    def _gradient_of_table(self, gradient):
        sums = np.bincount(
            self._values.ravel(), weights=gradient.arcs.ravel(), minlength=self.table.size
        )
        return sums.reshape(self.table.shape)


def sentences(structure, count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = rng.integers(2, 9)
        x = TaggedSentence(
            rng.integers(0, N_TAGS, size=n),
            rng.integers(
                0,
                50,
                size=(n + 1, n + 1),
            ),
        )
        yield Example(x, structure.decode(TRUE_WEIGHTS[x.pairs]))


@pytest.mark.parametrize(
    "structure", [NonProjectiveTree(), NonProjectiveTree(False), ProjectiveTree()], ids=repr
)
@pytest.mark.parametrize(
    "loss", [StructuredHinge(), CRF(), Perceptron()], ids=lambda loss: type(loss).__name__
)
def test_the_trainer_learns_to_parse_and_which_features_matter(structure, loss):
    trainer = online_trainer(
        [ArcBank("pairs", (N_TAGS + 1) ** 2), ArcBank("noise", 50)],
        structure,
        loss=loss,
        lambda_=1e-3,
        schedule=InverseSqrt(0.5),
    )
    fit(
        trainer,
        list(sentences(structure, 60, 1)),
        epochs=8,
        rng=np.random.default_rng(0),
    )
    lost = lost_untrained = 0.0
    for x, gold, _ in sentences(structure, 60, 2):
        # many trees are as good as the gold one: compare what they truly score
        true = TRUE_WEIGHTS[x.pairs]
        best = structure.score(true, gold)
        lost += best - structure.score(true, structure.decode(trainer.predictor().potentials(x)))
        lost_untrained += best - structure.score(true, structure.decode(structure.zeros(len(x))))
    assert lost < 0.1 * lost_untrained
    assert trainer.kernel_weights()["pairs"] > 0.6
