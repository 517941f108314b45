"""Streams that change: the test for drift, and the restart of the average."""

import logging

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import SGDClassifier

import omkl
from omkl import OnlineMKLClassifier, OnlineMKLRegressor, SequenceLabeler
from omkl.data import Stream
from omkl.estimators.sources import TrainingBlock
from omkl.online import DistanceOverGradients, MeanPolyak
from omkl.online.examiners import _jit_drift as jit
from omkl.online.examiners.drift import DriftTest

KERNELS = ["linear", "gaussian:features=30"]


class Changes:
    """Callback that collects the rows at which changes were found."""

    def __init__(self):
        self.rows = []

    def on_change(self, trainer, row):
        self.rows.append(row)


class KilledError(Exception):
    pass


class Kill:
    """Callback that kills a run after a record."""

    def __init__(self, records):
        self.left = records

    def on_block(self, trainer, block):
        self.left -= 1
        if self.left == 0:
            raise KilledError


def drifting(rng, n=6000, change=3000):
    """Rows whose gold class depends on a term that changes its sign."""
    X = rng.normal(size=(n, 3))
    sign = np.where(
        np.arange(n) < change,
        1.0,
        -1.0,
    )
    return X, (0.5 * X[:, 0] + sign * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)


def trained(X, y, pieces=1000, kernels=KERNELS, **parameters):
    """Train by ``partial_fit`` on pieces, and return the model and the changes that were found."""
    changes = Changes()
    model = OnlineMKLClassifier(kernels, random_state=0, callbacks=[changes], **parameters)
    bounds = np.cumsum(pieces) if np.ndim(pieces) else np.arange(pieces, len(y) + pieces, pieces)
    for low, high in zip([0, *bounds[:-1]], bounds):
        model.partial_fit(
            X[low:high],
            y[low:high],
            classes=[0, 1],
        )
    return model, changes.rows


# ---- the test by betting -------------------------------------------------------------------------


def test_the_evidence_is_the_wealth_of_bets_since_it_was_at_most_one(rng):
    """The expected arithmetic is in NumPy, with the constants of ``_jit_drift`` as numbers."""
    test = DriftTest()
    bets = np.array([0.05, 0.1, 0.2, 0.4, 0.8])
    wealth = np.ones((2, 5))
    evidence = np.zeros(2)
    sizes = np.zeros(2)
    usual = 0.0
    start = 0
    usual_at_start = 0.0
    margin = 1.0

    def share(difference, size):
        return min(max(difference / (2 * size), -1.0), 1.0) if size > 0.0 else 0.0

    for t in range(500):
        average = rng.exponential(1.0 + (t > 200))
        last = rng.exponential(1.0)
        wealth[evidence <= 1.0] = 1.0
        if evidence[1] <= 1.0:
            start = t
            usual_at_start = usual
            margin = 0.5 / np.sqrt(min(t, 100)) if t >= 30 else 1.0
        rise = max(share(average - usual_at_start, sizes[1]) - margin, -1.0)
        wealth *= 1.0 + np.outer([share(average - last, sizes[0]), rise], bets)
        wealth = np.minimum(wealth, 1000.0)
        evidence = wealth.mean(axis=1)
        has_changed = jit.compare(test.packed(0).address, average, last, t, 2.0 * t, 3.0 * t)
        excess = average - usual
        new = 1.0 / min(t + 1, 100)
        usual += new * (2 * sizes[1] * share(excess, sizes[1]) if t > 1 else excess)
        sizes += new * (np.abs([average - last, excess]) - sizes)
        numbers = test.numbers[[jit.LAGS, jit.RISES, jit.LAG, jit.SPREAD, jit.LOSS]]
        assert_allclose(
            numbers,
            [*evidence, *sizes, usual],
            rtol=1e-12,
        )
        assert jit.is_due(test.packed(0).address, t) == (t % 8 == 0 or evidence[1] > 2.0)
        assert has_changed == (evidence.min() >= 100.0)
        if has_changed:
            break
    assert 150 < start < t < 499
    assert test.change == (start, (2.0 * start, 3.0 * start))
    test.forget(
        test.change.sums,
        start,
        t - start,
    )
    assert_array_equal(test.numbers, 0.0)


@pytest.mark.parametrize(
    ("losses", "most"),
    [
        (lambda rng, n: rng.exponential(size=(n, 2)), 0.05),
        (lambda rng, n: rng.standard_cauchy((n, 2)) ** 2, 0.05),
        (lambda rng, n: (rng.random((n, 2)) < 0.05).astype(float), 0.05),
        # both learn, and the average is behind
        (lambda rng, n: np.sort(rng.exponential(size=n))[::-1, None] + [[0.5, 0.0]], 0.0),
        # both get worse, and the last iterate is the worse one
        (
            lambda rng, n: (
                np.linspace(1, 2, n)[:, None] + rng.exponential(size=(n, 2)) * [[1.0, 1.5]]
            ),
            0.01,
        ),
    ],
    ids=["equal", "heavy tails", "rare", "a lag without a rise", "a rise without a lag"],
)
def test_false_alarms_are_rare(losses, most, rng):
    """As long as there is no lag, or no rise, each start of the bets ends in an alarm with a
    probability of at most 1 / 100; alarms are far rarer.
    """
    runs = 200
    alarms = 0
    for _ in range(runs):
        packed = DriftTest().packed(0)
        alarms += any(
            jit.compare(packed.address, *pair, 0, 0.0, 0.0) for pair in losses(rng, 1000).tolist()
        )
    assert alarms <= most * runs


def test_losses_that_are_not_finite_are_no_evidence():
    test = DriftTest()
    before = test.numbers.copy()
    for loss in (np.inf, -np.inf, np.nan):
        assert not jit.compare(test.packed(0).address, loss, 1.0, 0, 0.0, 0.0)
    assert_array_equal(test.numbers, before)


# ---- changes are found ---------------------------------------------------------------------------


def test_a_change_is_found_soon():
    rows_of_streams = [trained(*drifting(np.random.default_rng(seed)))[1] for seed in range(20)]
    assert all(len(rows) >= 1 and rows[0] > 3000 for rows in rows_of_streams)
    assert sum(rows[0] <= 3500 for rows in rows_of_streams) >= 18
    assert sum(map(len, rows_of_streams)) <= 22


def test_no_change_is_found_where_there_is_none():
    rows_of_streams = [
        trained(*drifting(np.random.default_rng(seed), 20_000, 20_000))[1] for seed in range(10)
    ]
    assert sum(map(len, rows_of_streams)) == 0


STATIONARY = {
    "noise": lambda X, rng: rng.random(len(X)) > 0.5,
    "clean": lambda X, rng: X[:, 0] > X[:, 1],
    "noisy": lambda X, rng: X[:, 0] + rng.normal(size=len(X)) > 0,
    "rare": lambda X, rng: X[:, 0] + X[:, 1] > 2.5,
    "curved": lambda X, rng: X[:, 0] * X[:, 1] > 0.3,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STATIONARY)
@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_a_model_that_begins_to_learn_is_no_change(kind, loss):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(600, 4))
        assert trained(X, STATIONARY[kind](X, rng).astype(int), 300, loss=loss)[1] == []


@pytest.mark.slow
def test_after_a_small_change_the_model_is_soon_as_good_as_before():
    """Also where the change is too small to be found soon; SGD with a constant rate stands for what
    is possible.
    """
    before = []
    after = []
    rival = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.73, 1.73, size=(8000, 3))
        bound = np.where(
            np.arange(8000) < 6000,
            -0.5,
            0.35,
        )
        y = ((X[:, 0] + X[:, 1] > bound) ^ (rng.random(8000) < 0.1)).astype(int)
        model = OnlineMKLClassifier(KERNELS, random_state=0)
        sgd = SGDClassifier(learning_rate="constant", eta0=0.01, random_state=0)
        for low in range(0, 8000, 100):
            block = slice(low, low + 100)
            if 5000 <= low < 6000:
                before.append(model.score(X[block], y[block]))
            if low >= 6500:
                after.append(model.score(X[block], y[block]))
                rival.append(sgd.score(X[block], y[block]))
            for learner in (model, sgd):
                learner.partial_fit(
                    X[block],
                    y[block],
                    classes=[0, 1],
                )
    assert np.mean(after) > np.mean(before) - 0.02
    assert np.mean(after) > np.mean(rival) - 0.025


@pytest.mark.slow
def test_the_model_recovers_from_a_change(rng):
    X, y = drifting(rng, 40_000, 20_000)
    model, rows = trained(X[:24_000], y[:24_000])
    same = slice(24_000, 40_000)
    assert rows
    assert rows[0] < 20_500
    assert model.score(X[same], y[same]) > 0.85


def test_hedge_turns_to_another_kernel(rng):
    X = rng.normal(size=(12_000, 4))
    f = np.where(
        np.arange(12_000) < 8000,
        X[:, 0] * X[:, 1],
        X[:, 2] * X[:, 3],
    )
    kernels = ["gaussian:features=60,on=0:2", "gaussian:features=60,on=2:4"]
    model, rows = trained(
        X,
        (f > 0).astype(int),
        kernels=kernels,
    )
    assert len(rows) == 1
    assert model.kernel_weights_["gaussian:features=60,on=2:4"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kernels", [["linear"], ["gaussian"], ["gaussian", "laplacian"]])
@pytest.mark.parametrize("budget", [None, 40])
def test_kernel_expansions_compare_both_models(kernels, budget, rng):
    X, y = drifting(rng, 1200, 600)
    model = OnlineMKLClassifier(
        kernels, random_state=0, budget=budget, weighting="norms"
    ).partial_fit(X, y)
    trainer = model.model_.trainer
    codec = model.model_.codec
    x = codec.encode_for_evaluation(model._read_for_evaluation(TrainingBlock(X[:1], y[:1])))[0].x
    expected = trainer.potentials(x), trainer.predictor().potentials(x)
    both = trainer.structure.zeros(1), trainer.structure.zeros(1)
    for bank in trainer.banks:
        bank.add_both(x, *both)
    for potentials, wanted in zip(both, expected):
        assert_allclose(potentials.unary, wanted.unary, rtol=1e-9, atol=1e-12)


def test_regressors_and_labelers_are_tested_as_well(rng):
    X = rng.normal(size=(6000, 3))
    target = np.where(np.arange(6000) < 3000, 1.0, -1.0) * X[:, 1] + 0.1 * rng.normal(size=6000)
    changes = Changes()
    OnlineMKLRegressor(KERNELS, random_state=0, callbacks=[changes]).partial_fit(X, target)
    assert changes.rows
    assert 3000 < changes.rows[0] < 3500
    labels = rng.integers(0, 2, (3000, 4))
    tokens = labels ^ (np.arange(3000) >= 1500)[:, None]
    changes = Changes()
    labeler = SequenceLabeler(["linear"], random_state=0, callbacks=[changes])
    labeler.partial_fit([np.eye(2)[codes] for codes in tokens], list(labels))
    assert changes.rows
    assert 1500 < changes.rows[0] < 1800


# ---- the restart ---------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["norms", "out-of-sample"])
def test_after_a_restart_the_average_is_that_of_later_iterates(weighting, rng):
    X, y = drifting(rng, 300)
    model = OnlineMKLClassifier(KERNELS, random_state=0, weighting=weighting).partial_fit(
        X[:200], y[:200]
    )
    trainer = model.model_.trainer
    codec = model.model_.codec
    examples = codec.encode_for_evaluation(model._read_for_evaluation(TrainingBlock(X, y)))
    trainer.find(DriftTest).numbers[jit.START] = 150.0
    trainer.restart_average(trainer.find(DriftTest).change)
    potentials = []
    weights = []
    for i in range(200, 300):
        trainer.update(*examples[i])
        potentials.append([trainer.potentials(x).unary[0, 0] for x, *_ in list(examples)[:20]])
        weights.append((i + 1 - 150) ** 2 * np.exp(np.sqrt(i + 1 - 150) / 3))
    expected = np.average(potentials, axis=0, weights=weights)
    averaged = [trainer.predictor().potentials(x).unary[0, 0] for x, *_ in list(examples)[:20]]
    assert_allclose(averaged, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("average", ["auto", "quadratic"])
def test_in_a_stream_the_average_goes_on_from_that_of_fit(average, rng):
    X, y = drifting(rng, 300)
    model = OnlineMKLClassifier(
        ["linear"], random_state=0, epochs=2, average=average, weighting="norms"
    ).fit(X, y)
    trainer = model.model_.trainer
    codec = model.model_.codec
    examples = codec.encode_for_evaluation(model._read_for_evaluation(TrainingBlock(X, y)))

    def scores_by(potentials):
        return np.array([potentials(x).unary[0, 0] for x, *_ in list(examples)[:20]])

    def weigh(t):
        if average == "quadratic":
            return t**2
        return t**2 * np.exp(np.sqrt(t) / 3)

    # 600 rounds of fit: two epochs of 300 rows
    earlier = sum((t / 600) ** 2 for t in range(1, 601)) * weigh(600)
    scores = [scores_by(trainer.predictor().potentials)]
    weights = [earlier]
    trainer.join("drift")
    for i in range(100):
        trainer.update(*examples[i])
        scores.append(scores_by(trainer.potentials))
        weights.append(weigh(601 + i))
    averaged = scores_by(trainer.predictor().potentials)
    assert_allclose(
        averaged,
        np.average(scores, axis=0, weights=weights),
        rtol=1e-9,
        atol=1e-12,
    )


def test_rates_restart_only_if_gradients_became_longer():
    for schedule in (DistanceOverGradients(), MeanPolyak()):
        for _ in range(1000):
            schedule.observe(1.0, 1.0, 1.0, 1.0)
            schedule.reach(1.0, 1.0)
        sums = schedule.sums
        for _ in range(500):
            schedule.observe(1.0, 1.0, 1.0, 1.0)
        before = schedule(1500)
        schedule.forget(sums, 1000, 500)
        assert schedule(1500) == before
        for _ in range(500):
            schedule.observe(3.0, 2.0, 1.0, 1.0)
        before = schedule(2000)
        schedule.forget(sums, 1000, 1000)
        assert schedule(2000) > before
        assert schedule.sums[1] == 1500.0


# ---- equal results -------------------------------------------------------------------------------


def test_pieces_give_the_model_of_a_stream(rng):
    X, y = drifting(rng)
    at_once, rows = trained(X, y, [1000, 5000])  # kernels learn their widths from the first piece
    pieces, again = trained(
        X,
        y,
        [1000, 700, 1, 1, 298, 2000, 37, 1, 1962],
    )
    assert rows == again
    assert rows
    assert_allclose(
        at_once.decision_function(X),
        pieces.decision_function(X),
        rtol=1e-7,
        atol=1e-9,
    )
    changes = Changes()
    stream = OnlineMKLClassifier(
        KERNELS, random_state=0, epochs=1, weighting="norms", callbacks=[changes]
    )
    stream.fit(Stream.from_arrays(X, y), classes=[0, 1])
    in_blocks, rows = trained(X, y, weighting="norms")
    assert changes.rows == rows
    assert [row for record in stream.history_ for row in record.get("changes", [])] == rows
    assert_allclose(
        stream.decision_function(X), in_blocks.decision_function(X), rtol=1e-7, atol=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("weighting", ["norms", "out-of-sample"])
def test_rounds_give_the_model_of_a_compiled_pass(weighting, rng, monkeypatch):
    X, y = drifting(rng)
    compiled, rows = trained(X, y, weighting=weighting)
    monkeypatch.setattr("omkl.online.training_loop.fastest_pass", lambda *_: None)
    rounds, again = trained(X, y, weighting=weighting)
    assert rows == again
    assert rows
    assert_array_equal(rounds.decision_function(X), compiled.decision_function(X))


@pytest.mark.parametrize("killed", [1, 3, 4, 5])
def test_a_resumed_run_is_equal_bit_for_bit(killed, rng, tmp_path):
    X, y = drifting(rng)

    def fit(callbacks, **options):
        model = OnlineMKLClassifier(KERNELS, random_state=0, epochs=1, callbacks=callbacks)
        return model.fit(
            Stream.from_arrays(X, y),
            classes=[0, 1],
            **options,
        )

    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "300 rounds"}
    with pytest.raises(KilledError):
        fit([Kill(killed)], **options)
    resumed = fit(None, resume=True, **options)
    straight = fit(None)
    for name, array in straight.model_.trainer.state().items():
        assert_array_equal(resumed.model_.trainer.state()[name], array)
    changes = [
        [record.get("changes") for record in model.history_] for model in (straight, resumed)
    ]
    assert changes[0] == changes[1]
    assert any(changes[0])


@pytest.mark.parametrize("cut", [1500, 3020, 4000])
def test_a_saved_model_goes_on(cut, rng, tmp_path):
    X, y = drifting(rng)
    straight, rows = trained(
        X,
        y,
        [cut, 6000 - cut],
    )
    model, before = trained(
        X[:cut],
        y[:cut],
        cut,
    )
    model.set_params(callbacks=None).save(tmp_path / "model.npz")
    changes = Changes()
    loaded = omkl.load(tmp_path / "model.npz").set_params(callbacks=[changes])
    loaded.partial_fit(X[cut:], y[cut:])
    assert before + changes.rows == rows
    assert_array_equal(loaded.decision_function(X), straight.decision_function(X))


# ---- reports -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_change_is_logged_and_recorded_with_its_row(rng, caplog):
    X, y = drifting(rng)
    with caplog.at_level(logging.WARNING, "omkl"):
        model, rows = trained(X, y)
    assert [record.get("changes") for record in model.history_].count(None) == 5
    assert model.history_[3]["changes"] == rows
    message = f"The averaged model lags behind the stream at row {rows[0]}: the average restarts."
    assert caplog.messages == [message]
    # the same, learned row by row, without callbacks
    singly = OnlineMKLClassifier(KERNELS, random_state=0).partial_fit(
        X[:10], y[:10], classes=[0, 1]
    )
    with caplog.at_level(logging.WARNING, "omkl"):
        for i in range(10, len(X)):
            singly.partial_fit(X[i : i + 1], y[i : i + 1])
    assert caplog.messages == [message] * 2
    assert [row for record in singly.history_ for row in record.get("changes", [])] == rows


def test_rows_are_counted_as_users_count_them(rng):
    """Rows of weight 0 are not learned, and those of weight 2 twice, where a comparison would not
    be fair.
    """
    X, y = drifting(rng)

    def learned(weights):
        changes = Changes()
        model = OnlineMKLClassifier(KERNELS, random_state=0, callbacks=[changes])
        for low in range(0, 6000, 600):
            part = slice(low, low + 600)
            model.partial_fit(
                X[part],
                y[part],
                classes=[0, 1],
                sample_weight=weights[part],
            )
        return model.model_.trainer, changes.rows

    trainer, rows = learned(np.arange(6000) % 2)
    assert len(rows) == 1
    assert 3000 < rows[0] < 3800
    assert rows[0] % 2 == 0
    assert trainer.round == 3000
    assert trainer.find(DriftTest).rows == 6000
    trainer, rows = learned(np.full(6000, 2.0))
    assert rows == []
    assert trainer.round == 12_000
    assert trainer.find(DriftTest).rows == 6000


def test_some_models_are_not_tested(rng):
    X, y = drifting(rng, 600)
    last = OnlineMKLClassifier(KERNELS, average="last").partial_fit(X, y)
    rda = OnlineMKLClassifier(KERNELS, method="rda").partial_fit(X, y)
    in_passes = OnlineMKLClassifier(KERNELS, epochs=2).fit(Stream.from_arrays(X, y))
    in_shards = OnlineMKLClassifier(KERNELS).fit(X, y, shards=2)
    for model in (last, rda, in_passes, in_shards):
        assert model.model_.trainer.find(DriftTest) is None
