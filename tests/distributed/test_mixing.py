"""Iterative parameter mixing: one shard is serial training, several are the dense average and a
proximal step.
"""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from omkl.data import synthetic_treebank
from omkl.distributed import ParameterMixing, mixing
from omkl.distributed.mixing import mix
from omkl.exceptions import InputError
from omkl.groups import (
    ArcTemplateBank,
    CachedKernelBank,
    ExplicitBank,
    Features,
    InterceptBank,
    KernelExpansion,
    TemplateSet,
    Tokens,
    TransitionBank,
    group_state,
)
from omkl.losses import CRF, StructuredHinge
from omkl.online import (
    DistanceOverGradients,
    Example,
    InverseSqrt,
    LinearDecay,
    MeanPolyak,
    OnlineTrainer,
    PolynomialAverage,
    UniformAverage,
)
from omkl.online import _jit_schedules as schedules
from omkl.parsing.sentences import ArcExamples
from omkl.regularizers import L21, Ridge, SquaredL21
from omkl.structures import Binary, Chain, NonProjectiveTree

from ..cases import mostly_slow
from ..groups.test_step_for_step import (
    KERNELS,
    SETTINGS,
    K,
    Problem,
    explicit_bank,
    literal_of,
    trainer_of,
)
from ..passes import Kill, fit, online_trainer


class Sequences:
    """Short sequences as examples, of which the first kernel tells the labels; of weight 1, or of
    random ones.
    """

    def __init__(self, explicit, seed=0, n_sequences=11, weighted=False):
        problem = Problem(seed, n_sequences)
        self.offsets = problem.offsets
        self.X = problem.X
        self.gold = problem.gold
        self.weights = (
            np.random.default_rng(seed).uniform(0.1, 3.0, n_sequences)
            if weighted
            else np.ones(n_sequences)
        )
        self.tokens = problem.tokens(KERNELS.values() if explicit else ())

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, s):
        x = self.tokens.sequence(s)
        return Example(
            x,
            self.gold[x.low : x.high],
            self.weights.item(s),
        )

    def part(self, chosen):
        part = copy.copy(self)
        part.tokens = self.tokens.only(chosen)
        part.weights = self.weights[chosen]
        part.gold = np.concatenate(
            [self.gold[self.offsets[s] : self.offsets[s + 1]] for s in chosen]
        )
        part.offsets = part.tokens.offsets
        return part


def make_trainer(explicit, setting, average, schedule=None):
    names = list(KERNELS)
    kernels = list(KERNELS.values())
    averaging = average is not None
    if explicit:
        return trainer_of([explicit_bank(names, kernels, averaging)], setting, average, schedule)
    return trainer_of(
        [KernelExpansion(names, kernels, ["x"] * 3, K, averaging)], setting, average, schedule
    )


class Recorded:
    """Regularizer that records the shrinkage and the weights of its proximal steps."""

    def __init__(self, regularizer):
        self.regularizer = regularizer
        self.removed = 0.0
        self.weight = 0.0

    def prox(self, norms, step):
        shrunk = self.regularizer.prox(norms, step)
        self.removed = self.removed + norms - shrunk
        self.weight = self.weight + step
        return shrunk


def naive_mix(start, shards, weights, options):
    """Average the dense models of the shards, then take one proximal step."""
    mixed = copy.deepcopy(start)

    def total(values):
        return sum(w * value for w, value in zip(weights, values))

    def mean(name):
        return [total(arrays) for arrays in zip(*(getattr(shard, name) for shard in shards))]

    mixed.theta = mean("theta")
    mixed.gradients = mean("gradients")
    mixed.sums = mean("sums")
    mixed.weight = total(shard.weight for shard in shards)
    mixed.round = max(shard.round for shard in shards)
    mixed.presented = total(shard.presented for shard in shards)
    removed, step = 0.0, 0.0
    regularizer = options["regularizer"]
    if mixed.method == "rda":
        rate = mixed.rate(mixed.round)
        mixed.theta = [-rate * gradients for gradients in mixed.gradients]
        step = rate * mixed.presented * mixed.lambda_
    elif regularizer is not None:
        removed = total(shard.regularizer.removed for shard in shards)
        step = total(shard.regularizer.weight for shard in shards)
    if regularizer is not None:
        shrink_mixed(mixed, regularizer, removed, step)
    length = np.sqrt(sum(np.sum(theta**2) for theta in mixed.theta))
    if length > mixed.radius:
        mixed.theta = [theta * (mixed.radius / length) for theta in mixed.theta]
    return mixed


def shrink_mixed(mixed, regularizer, removed, step):
    """Scale penalized groups to the norms after a proximal step from the norms before shrinkage."""
    norms = mixed.norms[: mixed.n_penalized]
    before = np.where(norms > 0, norms + removed, 0)
    after = np.minimum(norms, regularizer.prox(before, step))
    for p, norm in enumerate(norms):
        mixed.theta[p] = mixed.theta[p] * (after[p] / norm if norm > 0 else 0.0)


def naive_epoch(naive, data, n_shards, weights, options):
    shards = []
    for j in range(n_shards):
        shard = copy.deepcopy(naive)
        if options["regularizer"] is not None:
            shard.regularizer = Recorded(options["regularizer"])
        for s in range(j, len(data), n_shards):
            low = data.offsets[s]
            high = data.offsets[s + 1]
            shard.update(
                low,
                high,
                data.gold[low:high],
                data.weights[s],
            )
        shards.append(shard)
    return naive_mix(naive, shards, weights, options)


def check_against_naive(trainer, naive, data, tolerance=1e-8):
    assert_allclose(trainer.group_state.norms, naive.norms, atol=tolerance)
    averaged = copy.copy(naive)
    averaged.theta = naive.averaged()
    predictor = trainer.predictor()
    for s in range(len(data)):
        low = data.offsets[s]
        high = data.offsets[s + 1]
        potentials = trainer.structure.zeros(high - low)
        x = data.tokens.sequence(s)
        for bank in trainer.banks:
            bank.add_potentials(x, potentials)
        for scores, model in ((potentials, naive), (predictor.potentials(x), averaged)):
            expected = model.potentials(low, high)
            assert_allclose(scores.unary, expected.unary, atol=tolerance)
            assert_allclose(scores.pairwise, expected.pairwise, atol=tolerance)


@mostly_slow(("setting", "explicit"), SETTINGS, (True, False), every=3)
@settings(max_examples=6)
@given(
    n_shards=st.integers(2, 4),
    seed=st.integers(0, 99),
    average=st.sampled_from([None, PolynomialAverage(2.0)]),
    narrow=st.booleans(),
    weighted=st.booleans(),
)
def test_mixing_is_the_dense_average_with_one_proximal_step(
    explicit, setting, n_shards, seed, average, narrow, weighted
):
    """Potentials, norms and averages, through folds (of a narrow range of scales), deaths and
    rebirths.
    """
    options = SETTINGS[setting]
    data = Sequences(explicit, seed, weighted=weighted)
    with pytest.MonkeyPatch.context() as patch:
        if narrow:
            patch.setattr(group_state, "SCALE_RANGE", (0.8, 1.25))
        trainer = make_trainer(explicit, setting, average)
        naive = literal_of(data, trainer, setting, average)
        sizes = np.array([data.weights[j::n_shards].sum() for j in range(n_shards)])
        weights = sizes / sizes.sum()
        for _ in range(3):
            fit(trainer, data, make_pass=ParameterMixing(n_shards))
            naive = naive_epoch(naive, data, n_shards, weights, options)
            check_against_naive(trainer, naive, data)
            assert trainer.round == naive.round
            assert_allclose(trainer.presented, naive.presented)


@pytest.mark.parametrize("schedule", [DistanceOverGradients, MeanPolyak, LinearDecay, InverseSqrt])
@pytest.mark.parametrize("explicit", [True, False], ids=["explicit", "expansion"])
@pytest.mark.parametrize(
    "setting", ["sparse mkl: groups die and come back", "free transitions", "dual averaging"]
)
def test_one_shard_is_the_serial_algorithm(explicit, setting, schedule):
    """The same bits, in every array of the training state and in the history."""
    data = Sequences(explicit)
    serial, mixed = (
        make_trainer(explicit, setting, PolynomialAverage(), schedule()) for _ in range(2)
    )
    expected = fit(serial, data, epochs=4, rng=np.random.default_rng(5))
    mixed_history = fit(
        mixed, data, epochs=4, rng=np.random.default_rng(5), make_pass=ParameterMixing(1)
    )
    assert_same_state(mixed.state(), serial.state())
    for one, other in zip(mixed_history, expected):
        assert {
            name: value for name, value in one.items() if name in other and "seconds" not in name
        } == {name: value for name, value in other.items() if "seconds" not in name}


def assert_same_state(state, other):
    assert state.keys() == other.keys()
    for name, array in state.items():
        assert_array_equal(array, other[name], err_msg=name, strict=True)


def test_dense_banks_are_mixed_alike():
    """An intercept and transitions by position, of two labels and more."""
    data = Sequences(explicit=True)
    banks = [InterceptBank(K, averaging=True), TransitionBank(K, positions=3, averaging=True)]
    trainer = online_trainer(
        [],
        Chain(K, by_position=True),
        regularizer=None,
        lambda_=0.0,
        average=UniformAverage(),
        unpenalized=banks,
    )
    means = [0.0, 0.0]
    averages = [0.0, 0.0]
    for j in range(2):
        chosen = np.arange(j, len(data), 2)
        alone = copy.deepcopy(trainer)
        fit(alone, data.part(chosen))
        for i, bank in enumerate(alone.banks):
            means[i] += len(chosen) / len(data) * alone.group_state.scales[i] * bank.table
            averages[i] += len(chosen) / len(data) * len(chosen) * bank.averaged().table
    fit(trainer, data, make_pass=ParameterMixing(2))
    for i, bank in enumerate(trainer.banks):
        assert_allclose(
            trainer.group_state.scales[i] * bank.table,
            means[i],
            atol=1e-12,
        )
        assert_allclose(
            bank.averaged().table * trainer.group_state.total_weight, averages[i], atol=1e-12
        )


class Classification:
    """Binary data of which the first of ten groups of features tells nearly everything, and most
    are noise.
    """

    def __init__(self, n=80, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 20))
        gold = (X[:, 0] + 0.5 * X[:, 1] + 0.3 * X[:, 2] + 0.3 * rng.normal(size=n) > 0).astype(
            np.int64
        )
        rows = sparse.csr_array(X)
        features = Features(
            rows.indptr.astype(np.int64),
            rows.indices.astype(np.int32),
            rows.data,
        )
        self.tokens = Tokens(np.arange(n + 1), features)
        self.gold = gold

    def __len__(self):
        return len(self.gold)

    def __getitem__(self, i):
        return Example(self.tokens.sequence(i), self.gold[i])

    def part(self, chosen):
        part = copy.copy(self)
        part.tokens = self.tokens.only(chosen)
        part.gold = self.gold[chosen]
        return part

    def trainer(self, regularizer, lambda_, schedule, **options):
        bank = ExplicitBank(
            [f"g{k}" for k in range(10)],
            np.repeat(np.arange(10), 2),
            1,
        )
        return OnlineTrainer(
            [bank], Binary(), CRF(), regularizer, lambda_=lambda_, schedule=schedule, **options
        )


@pytest.mark.slow
@pytest.mark.parametrize("regularizer", [L21(), SquaredL21()])
def test_mixing_ends_where_serial_training_does(regularizer):
    """The proximal step of the mix restores sparsity without counting the regularizer twice."""
    data = Classification()
    objectives = []
    for n_shards in (1, 4):
        trainer = data.trainer(regularizer, 0.1, InverseSqrt(0.5))
        fit(
            trainer,
            data,
            epochs=150,
            rng=np.random.default_rng(0),
            make_pass=ParameterMixing(n_shards),
        )
        objectives.append(trainer.mean_loss(data) + 0.1 * trainer.penalty())
    assert_allclose(objectives[1], objectives[0], rtol=0.02)


def test_group_sparsity_survives_mixing(monkeypatch):
    """The plain average keeps every group of any shard; the mix keeps fewer than half of them."""
    data = Classification(200)
    trainer = data.trainer(L21(), 0.3, InverseSqrt(0.5))
    anywhere = []
    mixed = []
    mix = mixing.mix

    def watch(trainer, changes, weights):
        anywhere.append(np.any([change["groups/scales"] > 0 for change in changes], axis=0).sum())
        mix(trainer, changes, weights)
        mixed.append(np.count_nonzero(trainer.norms))

    monkeypatch.setattr(mixing, "mix", watch)
    fit(trainer, data, epochs=20, rng=np.random.default_rng(0), make_pass=ParameterMixing(4))
    assert np.mean(mixed[5:]) < 0.5 * np.mean(anywhere[5:])
    dead = trainer.norms == 0
    assert not dead[0]
    assert_array_equal(trainer.banks[0].table[dead[trainer.banks[0].groups]], 0.0)


def test_dual_averaging_keeps_the_same_groups_in_shards():
    data = Classification(200)
    alive = []
    for n_shards in (1, 4):
        trainer = data.trainer(L21(), 0.05, InverseSqrt(0.5), method="rda")
        fit(
            trainer,
            data,
            epochs=20,
            rng=np.random.default_rng(0),
            make_pass=ParameterMixing(n_shards),
        )
        alive.append(trainer.norms > 0)
    assert_array_equal(alive[0], alive[1])
    assert 0 < alive[0].sum() < 5


def numbers_of_schedule(distance=0.0, squares=0.0, largest=0.0, losses=0.0):
    """Make the state of an adaptive schedule with ``eta0=1``."""
    numbers = np.zeros(schedules.N_NUMBERS)
    numbers[[schedules.ETA0, schedules.DISTANCE, schedules.SQUARES]] = 1.0, distance, squares
    numbers[[schedules.LARGEST, schedules.LOSSES]] = largest, losses
    return numbers


def test_adaptive_schedules_take_in_all_shards():
    weights = np.array([0.25, 0.75])
    distance = DistanceOverGradients()
    distance.load_state({"numbers": numbers_of_schedule(2.0, 4.0, 0.5)})
    copies = [numbers_of_schedule(3.0, 6.0, 1.0), numbers_of_schedule(2.0, 10.0, 0.5)]
    distance.mix([{"numbers": numbers} for numbers in copies], weights)
    assert_array_equal(
        distance.numbers, numbers_of_schedule(3.0, 4.0 + 0.25 * 2.0 + 0.75 * 6.0, 1.0)
    )
    polyak = MeanPolyak()
    start = {
        "_horizon": np.array(100.0),
        "numbers": numbers_of_schedule(losses=2.0, squares=4.0, largest=0.5),
    }
    polyak.load_state(start)
    copies = [
        numbers_of_schedule(losses=3.0, squares=6.0, largest=1.0),
        numbers_of_schedule(losses=2.0, squares=10.0, largest=0.5),
    ]
    polyak.mix([{"_horizon": np.array(100.0), "numbers": numbers} for numbers in copies], weights)
    assert polyak.state()["_horizon"] == 100.0
    assert_array_equal(polyak.numbers, numbers_of_schedule(losses=3.0, squares=12.0, largest=1.0))


def test_rates_end_with_the_last_round_of_the_shards():
    data = Sequences(explicit=True)
    trainer = make_trainer(True, "mkl", None, LinearDecay(0.5))
    history = fit(trainer, data, epochs=3, make_pass=ParameterMixing(2))
    assert [record["round"] for record in history] == [6, 12, 18]
    assert_allclose(history[-1]["rate"], 0.5 / 18)


def test_epochs_of_shards_have_callbacks_and_can_be_stopped():
    data = Sequences(explicit=True)
    seen = []

    def stop(trainer, record):
        seen.append(record)
        return record["epoch"] == 2

    history = fit(
        make_trainer(True, "mkl", None),
        data,
        epochs=9,
        callbacks=[stop],
        make_pass=ParameterMixing(3),
    )
    assert history == seen
    assert len(history) == 2
    losses = [history[-1][f"loss:shard{j}"] for j in (1, 2, 3)]
    assert_allclose(
        np.mean(losses),
        history[-1]["loss"],
        rtol=0.5,
    )
    assert_allclose(
        np.dot(losses, [4, 4, 3]) / 11,
        history[-1]["loss"],
    )


def test_bad_input_is_refused():
    data = Sequences(explicit=True)
    with pytest.raises(InputError, match="shards must be a whole number > 0"):
        ParameterMixing(0)
    for n_shards in (1, 2):
        with pytest.raises(
            InputError, match="Kill needs single rounds, which shards do not report"
        ):
            fit(
                make_trainer(True, "mkl", None),
                data,
                callbacks=[Kill(9)],
                make_pass=ParameterMixing(n_shards),
            )
    with pytest.raises(InputError, match="11 examples do not make 12 shards"):
        fit(make_trainer(True, "mkl", None), data, make_pass=ParameterMixing(12))
    bank = CachedKernelBank(["linear"], [KERNELS["linear"]], ["x"], data.tokens, K)
    trainer = OnlineTrainer(
        [bank], Chain(K), StructuredHinge(), L21(), lambda_=0.1, schedule=InverseSqrt()
    )
    with pytest.raises(InputError, match="CachedKernelBank"):
        fit(trainer, data, make_pass=ParameterMixing(2))
    with pytest.raises(InputError, match=r"dask\.distributed\.Client"):
        ParameterMixing(None, "tcp://127.0.0.1:8786")


TEMPLATES = TemplateSet(
    ["h.upos m.upos", "h.upos m.upos distance", "h.form m.form direction", "h.upos between.upos"]
)
ARC_SETTINGS = {
    "ridge": {"regularizer": Ridge(), "lambda_": 0.05},
    "mkl": {"regularizer": SquaredL21(), "lambda_": 0.1},
    "groups die and come back": {"regularizer": L21(), "lambda_": 2.0},
    "dual averaging": {"regularizer": SquaredL21(), "lambda_": 0.1, "method": "rda"},
}


@pytest.fixture(scope="module")
def examples():
    return ArcExamples.of(synthetic_treebank(30, vocabulary=6, random_state=0), TEMPLATES)


def arc_trainer(dtype, n_lines, regularizer, lambda_, method="fobos"):
    bank = ArcTemplateBank(TEMPLATES, averaging=True, dtype=dtype, sizes=[n_lines] * 3)
    return online_trainer(
        [bank],
        NonProjectiveTree(),
        regularizer=regularizer,
        lambda_=lambda_,
        schedule=InverseSqrt(0.3),
        method=method,
        average=PolynomialAverage(2.0),
    )


def scores_of(bank, examples):
    return np.concatenate(
        [scores.arcs.ravel() for scores in arc_scores(bank, [x for x, _, _ in examples])]
    )


def arc_scores(bank, inputs):
    scores = [x.initial_potentials(NonProjectiveTree()) for x in inputs]
    bank.add_to_all(inputs, scores)
    return scores


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [False, True], ids=["", "folded"])
@pytest.mark.parametrize("name", ARC_SETTINGS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_mix_scores_as_the_shards_on_average(examples, monkeypatch, dtype, name, narrow):
    if narrow:
        monkeypatch.setattr(group_state, "SCALE_RANGE", (0.9, 1.1))
    trainer = arc_trainer(dtype, 60, **ARC_SETTINGS[name])
    fit(trainer, examples, make_pass=ParameterMixing(3))  # shards do not start from nothing
    weights = np.array([8, 8, 7, 7]) / 30
    shards = [trained_shard(trainer, examples.part(np.arange(j, 30, 4))) for j in range(4)]
    states = list(map(state_of_shard, shards))
    totals = weights * [shard.group_state.total_weight for shard in shards]
    averages = [scores_of(shard.predictor().banks[0], examples) for shard in shards]
    # the proximal step of the mix is tested with small models
    monkeypatch.setattr(trainer, "terms", [])
    mix(trainer, states, weights)
    if name == "dual averaging":  # sums of gradients are mixed
        for model in (trainer, *shards):
            model.group_state.scales[:] = 1.0
    means = weights @ [scores_of(shard.banks[0], examples) for shard in shards]
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    mixed = scores_of(trainer.banks[0], examples)
    assert_allclose(
        mixed,
        means,
        atol=tolerance * np.abs(means).max(),
    )
    averaged = scores_of(trainer.predictor().banks[0], examples)
    assert_allclose(
        averaged,
        totals @ averages / totals.sum(),
        atol=tolerance * 10,
    )


def state_of_shard(shard):
    """Return copies of the arrays of its state, and of its shrinkage."""
    state = {key: np.array(array) for key, array in shard.state().items()}
    return state | {"shrinkage": np.append(shard.group_state.total_shrinkage, shard.shrinkage)}


def trained_shard(trainer, examples):
    """Return a copy of a trainer that has learned some examples, and counts shrinkage anew."""
    shard = copy.deepcopy(trainer)
    shard.shrinkage = 0.0
    shard.group_state.total_shrinkage[:] = 0.0
    for x, y, _ in examples:
        shard.update(x, y)
    return shard


@pytest.mark.parametrize("name", ARC_SETTINGS)
def test_one_shard_of_sentences_is_the_serial_algorithm(examples, name):
    serial, mixed = (arc_trainer(np.float32, 2000, **ARC_SETTINGS[name]) for _ in range(2))
    fit(serial, examples, epochs=3, rng=np.random.default_rng(0))
    fit(mixed, examples, epochs=3, rng=np.random.default_rng(0), make_pass=ParameterMixing(1))
    for key, array in serial.state().items():
        assert_array_equal(
            array,
            mixed.state()[key],
            err_msg=key,
            strict=True,
        )


def test_parts_of_examples_are_the_same_examples(examples, rng):
    chosen = np.array([3, 4, 17, 29])
    part = examples.part(chosen)
    bank = arc_trainer(np.float64, 60, Ridge(), 0.0).banks[0]
    bank.table[:] = rng.normal(size=bank.table.shape)
    bank.group_state.scales[:] = 1.0
    for i, s in enumerate(chosen):
        assert_array_equal(
            *(scores.arcs for scores in arc_scores(bank, [part[i].x, examples[s].x]))
        )
        assert_array_equal(part[i].y, examples[s].y)
    assert part.tokens.columns.nbytes < 0.4 * examples.tokens.columns.nbytes
