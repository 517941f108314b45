"""Every bank against the literal Algorithm 1, round by round.

Potentials, norms, averages, births and deaths are compared.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from omkl.exceptions import InputError
from omkl.groups import (
    BudgetedExpansion,
    CachedKernelBank,
    ExplicitBank,
    FeatureMapBank,
    KernelExpansion,
    Tokens,
    TransitionBank,
)
from omkl.groups.tokens import features_of
from omkl.kernels import B1Spline, Gaussian, Linear, Polynomial
from omkl.losses import CRF, StructuredHinge
from omkl.online import (
    InverseSqrt,
    OnlineTrainer,
    PolynomialAverage,
    Predictor,
    UniformAverage,
)
from omkl.regularizers import L21, ElasticNet, LqNorm, Ridge, SparseGroup, SquaredL21
from omkl.structures import Chain

from ..passes import online_trainer
from .naive import NaiveModel

K, D = 3, 4
KERNELS = {
    "linear": Linear(normalize=None),
    "quadratic": Polynomial(2),
    "cubic-free": Polynomial(2, coef0=0.0),
}


class Problem:
    """Twelve short sequences, presented several times in a random order."""

    def __init__(self, seed=0, n_sequences=12, rounds=60):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 5, size=n_sequences)
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        n = self.offsets[-1]
        self.X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.7)
        self.gold = (self.X @ rng.normal(size=(D, K))).argmax(axis=1)
        self.order = rng.integers(0, n_sequences, size=rounds)

    def features(self, kernels):
        return [sparse.csr_array(kernel.features(self.X)) for kernel in kernels]

    def tokens(self, explicit=()):
        features = None
        if explicit:
            features = features_of(self.features(explicit))
        return Tokens(self.offsets, features, {"x": self.X})


def explicit_bank(names, kernels, averaging):
    counts = [kernel.feature_count(D) for kernel in kernels]
    return ExplicitBank(
        names,
        np.repeat(np.arange(len(kernels)), counts),
        K,
        averaging,
    )


def banks_of(kind, problem, averaging):
    """Return banks of the same three kernel groups in different storages, and their tokens."""
    names = list(KERNELS)
    kernels = list(KERNELS.values())
    views = ["x"] * 3
    if kind == "explicit":
        return [explicit_bank(names, kernels, averaging)], problem.tokens(kernels)
    if kind == "mixed":
        tokens = problem.tokens(kernels[:1])
        dual = CachedKernelBank(
            names[1:],
            kernels[1:],
            views[1:],
            tokens,
            K,
            averaging,
            np.float64,
        )
        return [
            explicit_bank(
                names[:1],
                kernels[:1],
                averaging,
            ),
            dual,
        ], tokens
    tokens = problem.tokens()
    if kind == "mapped":
        sizes = [kernel.feature_count(D) for kernel in kernels]
        return [FeatureMapBank(names, kernels, views, sizes, K, averaging)], tokens
    if kind == "expansion":
        return [KernelExpansion(names, kernels, views, K, averaging)], tokens
    if kind == "budget":  # with more budget than they need
        return [BudgetedExpansion(names, kernels, views, K, 300, averaging)], tokens
    memory = {"cached": 2**30, "on demand": 5 * 3 * 8 * tokens.n_tokens}[kind]
    bank = CachedKernelBank(names, kernels, views, tokens, K, averaging, np.float64, memory)
    return [bank], tokens


KINDS = ["explicit", "mapped", "cached", "on demand", "expansion", "budget", "mixed"]
SETTINGS = {
    "mkl": {"regularizer": SquaredL21(), "lambda_": 0.02},
    "sparse mkl: groups die and come back": {
        "regularizer": SquaredL21(),
        "lambda_": 0.6,
        "rate": 0.5,
    },
    "group lasso": {"regularizer": L21(), "lambda_": 0.5},
    "strong group lasso": {"regularizer": L21(), "lambda_": 2.0},
    "crf": {"regularizer": ElasticNet(0.5), "lambda_": 0.1, "loss": CRF()},
    "ridge in a ball": {"regularizer": Ridge(), "lambda_": 0.1, "radius": 0.7},
    "no regularizer": {"regularizer": None, "lambda_": 0.0},
    "free transitions": {"regularizer": LqNorm(1.5), "lambda_": 0.3, "free": True},
    "dual averaging": {"regularizer": SquaredL21(), "lambda_": 0.05, "method": "rda"},
    "sparse dual averaging": {"regularizer": L21(), "lambda_": 0.5, "method": "rda", "rate": 0.5},
}


def trainer_of(banks, setting, average, schedule=None):
    """Return a trainer of banks and of transitions between three labels."""
    options = SETTINGS[setting]
    transitions = TransitionBank(K, averaging=average is not None)
    penalized = list(banks)
    unpenalized = []
    if options.get("free", False):
        unpenalized.append(transitions)
    else:
        penalized.append(transitions)
    return online_trainer(
        penalized,
        Chain(K),
        loss=options.get("loss", StructuredHinge()),
        regularizer=options["regularizer"],
        lambda_=options["lambda_"],
        schedule=schedule or InverseSqrt(options.get("rate", 1.0)),
        method=options.get("method", "fobos"),
        radius=options.get("radius", np.inf),
        average=average,
        unpenalized=unpenalized,
    )


def literal_of(problem, trainer, setting, average):
    """Return the literal algorithm with the settings of a trainer."""
    options = SETTINGS[setting]
    return NaiveModel(
        [kernel.features(problem.X) for kernel in KERNELS.values()],
        K,
        trainer.structure,
        trainer.loss,
        options["regularizer"],
        options["lambda_"],
        trainer.schedule,
        options.get("method", "fobos"),
        trainer.radius,
        average,
        options.get("free", False),
    )


def run(kind, setting, average, check):
    problem = Problem()
    banks, tokens = banks_of(kind, problem, average is not None)
    trainer = trainer_of(banks, setting, average)
    naive = literal_of(problem, trainer, setting, average)
    for s in problem.order:
        x = tokens.sequence(s)
        y = problem.gold[x.low : x.high]
        naive.loss_value = naive.update(x.low, x.high, y)
        assert_allclose(
            trainer.update(x, y).loss,
            naive.loss_value,
            atol=1e-8,
        )
        check(trainer, naive, tokens)
    return trainer, naive


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_norms_and_potentials_follow_the_literal_algorithm(kind, setting):
    deaths = []

    def check(trainer, naive, tokens):
        assert_allclose(trainer.group_state.norms, naive.norms, atol=1e-8)
        if naive.loss_value > 0:
            squares = [np.sum(gradient**2) for gradient in naive.gradient]
            assert_allclose(trainer.group_state.square_gradients, squares, rtol=1e-7, atol=1e-9)
        deaths.append(trainer.group_state.deactivated.any())
        for s in (0, 5):
            x = tokens.sequence(s)
            potentials = trainer.structure.zeros(len(x))
            for bank in trainer.banks:
                bank.add_potentials(x, potentials)
            expected = naive.potentials(x.low, x.high)
            assert_allclose(potentials.unary, expected.unary, atol=1e-8)
            assert_allclose(potentials.pairwise, expected.pairwise, atol=1e-8)

    trainer, naive = run(kind, setting, None, check)
    if "die" in setting:
        assert any(deaths), "the setting was meant to kill groups"
        assert naive.norms.any()
    tracked = trainer.group_state.square_norms.copy()
    trainer.recompute_norms()
    assert_allclose(tracked, trainer.group_state.square_norms, atol=1e-9)


@pytest.mark.parametrize(
    "average", [UniformAverage(), UniformAverage(start=30), PolynomialAverage(2)], ids=str
)
@pytest.mark.parametrize(
    "setting", ["mkl", "sparse mkl: groups die and come back", "dual averaging", "crf"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_lazy_averages_are_the_averages(kind, setting, average, monkeypatch):
    # a narrow range makes scales fold every few rounds
    monkeypatch.setattr("omkl.groups.group_state.SCALE_RANGE", (0.5, 2.0))
    problem = Problem()
    trainer, naive = run(kind, setting, average, lambda *_: None)
    norms = [np.linalg.norm(theta) for theta in naive.averaged()]
    assert_allclose(trainer.predictor().norms, norms, atol=1e-8)
    if kind != "explicit":
        trainer.release()
    predictor = Predictor(trainer.banks, trainer.structure)
    assert_allclose(predictor.norms, norms, atol=1e-8)
    _, tokens = banks_of(kind, problem, True)
    potentials = predictor.potentials(tokens.everything())
    naive.theta = naive.averaged()
    expected = naive.potentials(0, tokens.n_tokens)
    assert_allclose(potentials.unary, expected.unary, atol=1e-8)
    assert_allclose(potentials.pairwise, expected.pairwise, atol=1e-8)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), B1Spline(h=2.0)], ids=lambda k: k.name)
def test_kernels_without_features_agree_cached_and_expanded(kernel):
    """Without an explicit feature map, the two storages are compared with each other."""
    problem = Problem()
    tokens = problem.tokens()
    cached = CachedKernelBank(["k"], [kernel], ["x"], tokens, K, True, np.float64)
    expanded = KernelExpansion(["k"], [kernel], ["x"], K, True, np.float64)
    models = []
    for bank in (cached, expanded):
        trainer = online_trainer(
            [bank],
            Chain(K),
            lambda_=0.01,
            average=UniformAverage(),
            unpenalized=[TransitionBank(K, averaging=True)],
        )
        losses = []
        for s in problem.order:
            x = tokens.sequence(s)
            losses.append(trainer.update(x, problem.gold[x.low : x.high]).loss)
        trainer.release()
        predictor = Predictor(trainer.banks, trainer.structure)
        potentials = predictor.potentials(tokens.everything())
        models.append((losses, trainer.norms, potentials.unary))
    for values_of_cached, values_of_expanded in zip(*models):
        assert_allclose(values_of_cached, values_of_expanded, atol=1e-8)


@pytest.mark.parametrize("average", [None, UniformAverage()])
def test_penalties_on_coordinates_act_on_maps_as_on_explicit_features(average, monkeypatch):
    monkeypatch.setattr("omkl.groups.group_state.SCALE_RANGE", (0.5, 2.0))
    problem = Problem()
    tables = []
    for kind in ("explicit", "mapped"):
        (bank,), tokens = banks_of(kind, problem, average is not None)
        trainer = online_trainer(
            [bank],
            Chain(K),
            loss=CRF(),
            regularizer=SparseGroup(0.5),
            lambda_=0.05,
            average=average,
        )
        for s in problem.order:
            x = tokens.sequence(s)
            trainer.update(x, problem.gold[x.low : x.high])
        tables.append(bank.averaged_table())
    assert_allclose(tables[0], tables[1].T, atol=1e-9)
    assert average or 0.05 < np.mean(tables[1] == 0.0) < 0.95


def rounds_between_shrinks(t, every, shrinkage):
    """Return a power of two up to ``every``, an eighth of the rounds, and a shrinkage of 1/16."""
    return 2 ** int(np.log2(max(min(every, t / 8, 1 / 16 / shrinkage), 1)))


@pytest.mark.parametrize("every", [1, 128])
@pytest.mark.parametrize("average", [None, UniformAverage(start=30), PolynomialAverage(2)], ids=str)
@pytest.mark.parametrize("kind", ["explicit", "mapped"])
def test_coordinates_shrink_by_the_steps_of_all_rounds_since_the_last_time(
    kind, average, every, monkeypatch
):
    monkeypatch.setattr("omkl.groups.group_state.SCALE_RANGE", (0.5, 2.0))
    monkeypatch.setattr("omkl.online.trainer.SHRINK_EVERY", every)
    problem = Problem()
    banks, tokens = banks_of(kind, problem, average is not None)
    lambda_ = 0.1 if every == 1 else 0.01
    transitions = TransitionBank(K, averaging=average is not None)
    trainer = online_trainer(
        [*banks, transitions],
        Chain(K),
        loss=CRF(),
        regularizer=SparseGroup(0.3),
        lambda_=lambda_,
        average=average,
    )
    naive = NaiveModel(
        [kernel.features(problem.X) for kernel in KERNELS.values()],
        K,
        trainer.structure,
        trainer.loss,
        0.3 * L21(),
        lambda_,
        trainer.schedule,
        "fobos",
        average=average,
        l1=0.7,
    )
    for t, s in enumerate(problem.order, 1):
        naive.shrinks = t % rounds_between_shrinks(t, every, 0.7 * lambda_) == 0
        x = tokens.sequence(s)
        y = problem.gold[x.low : x.high]
        assert_allclose(
            trainer.update(x, y).loss,
            naive.update(x.low, x.high, y),
            atol=1e-8,
        )
        assert_allclose(trainer.group_state.norms, naive.norms, atol=1e-8)
    zeros = np.concatenate([theta.ravel() for theta in naive.theta]) == 0.0
    assert 0.05 < zeros.mean() < 0.95
    naive.theta = naive.averaged()
    predictor = trainer.predictor()
    assert_allclose(predictor.norms, naive.norms, atol=1e-8)
    potentials = predictor.potentials(tokens.everything())
    assert_allclose(
        potentials.unary,
        naive.potentials(0, tokens.n_tokens).unary,
        atol=1e-8,
    )


def test_single_precision_keeps_norms_to_six_digits():
    problem = Problem(rounds=400)
    tokens = problem.tokens()
    bank = CachedKernelBank(
        ["g", "q"], [Gaussian(1.0), Polynomial(2)], ["x", "x"], tokens, K, dtype=np.float32
    )
    trainer = OnlineTrainer(
        [bank], Chain(K), StructuredHinge(), SquaredL21(), lambda_=0.01, schedule=InverseSqrt(1.0)
    )
    for s in problem.order:
        x = tokens.sequence(s)
        trainer.update(x, problem.gold[x.low : x.high])
    exact = []
    for kernel, A in zip((Gaussian(1.0), Polynomial(2)), bank.coefficients):
        exact.append(np.einsum("nj,nm,mj->", A, kernel(problem.X), A))
    assert_allclose(trainer.group_state.square_norms, exact, rtol=1e-5)


def test_a_feature_beyond_the_table_is_an_error_not_a_crash():
    problem = Problem()
    tokens = problem.tokens([KERNELS["linear"]])
    bank = ExplicitBank(["linear"], np.zeros(D - 1, dtype=int), K)
    trainer = OnlineTrainer(
        [bank], Chain(K), StructuredHinge(), Ridge(), lambda_=1.0, schedule=InverseSqrt(1.0)
    )
    with pytest.raises(InputError, match="the bank has 3 features"):
        trainer.update(tokens.sequence(0), problem.gold[: problem.offsets[1]])
