"""The test of groups on new examples, the bound of Hedge, and their effect on training: formula,
level, and power.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import omkl
from omkl.exceptions import DataWarning
from omkl.groups import _jit_group_state as jit
from omkl.groups.base import Bank
from omkl.groups.group_state import GroupState
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.kernels import Average
from omkl.losses import CRF
from omkl.online import driver
from omkl.online.examiners._jit_evidence import MEMORY
from omkl.online.examiners.evidence import Evidence, beyond_chance
from omkl.online.methods import OutOfSampleWeights
from omkl.reports import make_report

USEFUL = "gaussian:on=0:3"
JUNK = [f"gaussian:on={low}:{low + 4}" for low in range(3, 43, 4)]
FEW = JUNK[:5]


def interaction(n, columns=43):
    X = np.random.default_rng(0).normal(size=(n, columns))
    return X, np.where(
        X[:, 0] * X[:, 1] + 0.5 * X[:, 2] > 0,
        "yes",
        "no",
    )


def words(X, y, length=4):
    pieces = [slice(i, i + length) for i in range(0, len(X) - length + 1, length)]
    return [X[piece] for piece in pieces], [y[piece] for piece in pieces]


def recorded(monkeypatch):
    """Record the inputs of the test: potentials of each part and residuals, by position."""
    told = []
    take = Evidence.before_round

    def before_round(self, trainer, x, y, weight):
        reference = trainer.structure.zeros(len(x))
        potentials_of_groups = []
        n = len(trainer.penalized_banks)
        for bank in trainer.banks[n:]:
            bank.add_potentials(x, reference)
        for bank in trainer.banks[:n]:
            scales = bank.group_state.scales.copy()
            for k in range(len(bank.names)):
                bank.group_state.scales[:] = np.where(
                    np.arange(len(scales)) == k,
                    scales,
                    0.0,
                )
                potentials = trainer.structure.zeros(len(x))
                bank.add_potentials(x, potentials)
                potentials_of_groups.append(potentials.unary.copy())
            bank.group_state.scales[:] = scales
        residual = -CRF().value_and_gradient(trainer.structure, reference, y)[1].unary
        told.append((np.array(potentials_of_groups), residual, weight))
        take(self, trainer, x, y, weight)

    monkeypatch.setattr(Evidence, "before_round", before_round)
    monkeypatch.setattr(driver, "uncompiled_part", lambda trainer: trainer)
    return told


KERNELS = [USEFUL, *JUNK[:3]]
#: Kinds of banks: kernels, and what makes a classifier use such banks.
BANKS = {
    "cached": (KERNELS, {}),
    "expansion": (KERNELS, {"budget": omkl.Budget(cache_size=0)}),
    "budget": (KERNELS, {"budget": 30}),
    "explicit": ([f"linear:on={j}" for j in range(4)], {}),
    "maps": ([f"{kernel},features=20" for kernel in KERNELS], {}),
}


@pytest.mark.parametrize("kind", [*BANKS, "sequences"])
def test_evidence_is_the_covariance_of_potentials_with_what_is_left_to_explain(kind, monkeypatch):
    X, y = interaction(60)
    told = recorded(monkeypatch)
    options = {"weighting": "out-of-sample", "random_state": 0, "epochs": 2}
    if kind == "sequences":
        model = omkl.SequenceLabeler(KERNELS, **options).fit(*words(X, y))
    else:
        kernels, settings = BANKS[kind]
        model = omkl.OnlineMKLClassifier(kernels, fit_intercept=True, **settings, **options)
        model.fit(X, y)
    # later passes bring no new examples
    first = told[: len(told) // 2]
    evidence = np.array(list(covariances(first)))
    expected = evidence.sum(axis=0) / (np.sqrt(len(first)) * evidence.std(axis=0))
    assert_allclose(
        model.model_.trainer.find(Evidence).z_scores(),
        expected,
        rtol=1e-5,
    )


def covariances(examples):
    """Yield, by example, the weighted sums of products of centred potentials and residuals.

    Potentials (groups, positions, labels) and residuals (positions, labels) are centred by the
    means before; a group without potentials has none.
    """
    potentials = examples[0][0]
    totals = np.zeros((len(potentials) + 1, 1, potentials.shape[2]))
    n_positions = 0.0
    for potentials, residual, weight in examples:
        both = np.concatenate([potentials, residual[None]])
        centred = both - totals / max(n_positions, 1.0)
        slopes = np.einsum(
            "pnj,nj->p",
            centred[:-1],
            centred[-1],
        )
        yield weight * np.where(potentials.any(axis=(1, 2)), slopes, 0.0)
        remaining = (1 - 1 / MEMORY) ** len(residual)
        totals = remaining * totals + both.sum(axis=1, keepdims=True)
        n_positions = remaining * n_positions + len(residual)


def test_banks_of_templates_know_their_inner_products(monkeypatch, rng):
    products = []
    inner_products = ArcTemplateBank.inner_products

    def checked(bank, x, gradient, totals):
        products.append(inner_products(bank, x, gradient, totals))
        assert_allclose(
            products[-1], Bank.inner_products(bank, x, gradient, totals), rtol=1e-5, atol=1e-8
        )
        return products[-1]

    monkeypatch.setattr(ArcTemplateBank, "inner_products", checked)
    sentences = []
    for _ in range(20):
        n = int(rng.integers(3, 8))
        sentences.append(
            omkl.data.Sentence(
                [f"w{i}" for i in rng.integers(0, 9, n)],
                upos=[f"P{i}" for i in rng.integers(0, 4, n)],
                heads=[*range(2, n + 1), 0],
            )
        )
    templates = ["h.upos m.upos", "h.upos m.upos direction", "h.form m.form distance"]
    templates.append("h.upos m.upos between.upos direction")
    omkl.DependencyParser(templates, epochs=2, weighting="out-of-sample", random_state=0).fit(
        sentences
    )
    assert len(products) == len(sentences)
    assert np.all(np.abs(products[-1]) > 0)


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
@pytest.mark.parametrize("kind", ["classes", "numbers", "sequences"])
def test_useless_groups_pass_about_as_often_as_the_level_says(kind, kernel):
    scores = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 48)) + 1.0
        y = rng.integers(0, 3, 200).astype(str)
        kernels = [f"{kernel}:on={j}:{j + 4}" for j in range(0, 48, 4)]
        options = {"weighting": "out-of-sample", "random_state": 0, "epochs": 2}
        if kind == "classes":
            model = omkl.OnlineMKLClassifier(kernels, **options).fit(X, y)
        elif kind == "numbers":
            model = omkl.OnlineMKLRegressor(kernels, **options).fit(X, 3.0 + rng.normal(size=200))
        else:
            model = omkl.SequenceLabeler(kernels, **options).fit(*words(X, y))
        scores.extend(model.model_.trainer.find(Evidence).z_scores())
    # of 96, one in twenty lies above 1.645; more than 13 do by chance in fewer than one of a
    # thousand runs
    assert np.count_nonzero(np.array(scores) > stats.norm.isf(0.05)) <= 13


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"learning_rate": "linear:eta0=0.1"},
        {"learning_rate": "sqrt:eta0=0.1"},
        {"average": "decayed:half_life=90"},
    ],
)
def test_what_begins_anew_is_what_the_useful_groups_learn_alone_in_the_epochs_left(options):
    X, y = interaction(300)
    options = {"random_state": 0, **options}
    model = omkl.OnlineMKLClassifier(
        [USEFUL, *JUNK],
        weighting="out-of-sample",
        epochs=omkl.Passes(5, shuffle=False),
        **options,
    ).fit(X, y)
    assert model.kernel_weights_[USEFUL] == 1.0
    in_order = omkl.Passes(4, shuffle=False)
    alone = omkl.OnlineMKLClassifier([USEFUL], weighting="norms", epochs=in_order, **options)
    alone.fit(X, y)
    assert_allclose(
        model.decision_function(X),
        alone.decision_function(X),
        rtol=1e-9,
    )
    assert [record["round"] for record in model.history_] == [300, 600, 900, 1200, 1500]
    assert [record["rate"] for record in model.history_[1:]] == [
        record["rate"] for record in alone.history_
    ]


def test_where_all_groups_are_useful_training_is_that_of_the_paper_to_the_last_bit():
    X, y = interaction(300)
    kernels = [USEFUL, "gaussian:on=0:2"]
    models = [
        omkl.OnlineMKLClassifier(kernels, weighting=weighting, random_state=0).fit(X, y)
        for weighting in ("norms", "out-of-sample")
    ]
    assert_array_equal(*(model.decision_function(X) for model in models))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("classes", {"regularizer": "l2"}),
        ("classes", {"regularizer": "group-lasso"}),
        ("classes", {"regularizer": "elastic-net"}),
        ("classes", {"method": "rda", "learning_rate": 0.1}),
        ("classes", {"epochs": 1}),
        ("classes", {"epochs": 1, "average": "last"}),
        ("classes", {"average": "last"}),
        ("classes", {"epochs": 4, "budget": omkl.Budget(cache_size=0)}),
        ("classes", {"budget": 60}),
        ("classes", {"radius": 3.0}),
        ("classes", {"loss": "crf"}),
        ("numbers", {}),
        ("sequences", {"epochs": 4}),
        ("sequences", {"epochs": 4, "loss": "crf"}),
    ],
)
def test_useless_groups_are_left_out_whatever_trains_them(kind, options):
    X, y = interaction(600)
    options = {"weighting": "out-of-sample", "random_state": 0, **options}
    if kind == "sequences":
        (X, y) = words(X, y, 2)
        make = omkl.SequenceLabeler
    elif kind == "numbers":
        y = X[:, 0] * X[:, 1] + 0.5 * X[:, 2]
        make = omkl.OnlineMKLRegressor
    else:
        make = omkl.OnlineMKLClassifier
    model = make([USEFUL, *JUNK], **options).fit(X, y)
    left = [name for name, weight in model.kernel_weights_.items() if weight == 0.0]
    assert USEFUL not in left
    assert len(left) >= len(JUNK) - 1
    assert model.kernel_weights_[USEFUL] > 0.98
    assert sum(model.kernel_weights_.values()) == pytest.approx(1)
    assert model.left_out_ == left
    changed = np.array(X)
    for name in left:
        low, high = map(int, name.split("on=")[1].split(":"))
        changed[..., low:high] = 5.0
    for labels, expected in zip(model.predict(changed), model.predict(X)):
        assert_array_equal(labels, expected)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"budget": omkl.Budget(cache_size=0)}, {"budget": 60}])
def test_what_is_left_out_is_not_computed_any_more(options):
    X, y = interaction(400)
    rounds_before = []
    rounds = []

    def useless(A, B):
        rounds_before.append(len(rounds))
        return np.exp(-np.square(A[:, None, 20:25] - B[None, :, 20:25]).sum(axis=2))

    kernels = {"useful": USEFUL, "useless": useless, **{name: name for name in JUNK}}
    model = omkl.OnlineMKLClassifier(
        kernels, weighting="out-of-sample", random_state=0, epochs=4, **options
    )
    model.callbacks = [lambda trainer, record: rounds.append(record)]
    model.fit(X, y)
    assert "useless" in model.left_out_
    assert rounds_before
    assert max(rounds_before) <= 0


@pytest.mark.slow
@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("block_size", [None, 50, 100])
def test_shards_and_blocks_of_the_first_pass_add_up_what_they_have_seen(
    block_size, n_shards, epochs
):
    X, y = interaction(600)
    data = (X, y) if block_size is None else (omkl.data.Stream.from_arrays(X, y, block_size),)
    model = omkl.OnlineMKLClassifier(
        [USEFUL, *JUNK], weighting="out-of-sample", random_state=0, epochs=epochs
    )
    model.fit(*data, shards=n_shards)
    assert model.model_.trainer.find(Evidence).n_examples == 600
    assert 0 < model.model_.trainer.find(Evidence).counts[2] <= MEMORY
    assert model.kernel_weights_[USEFUL] > 0.9
    assert list(model.kernel_weights_.values()).count(0.0) >= len(JUNK) - 1


def test_where_nothing_shows_anything_all_groups_stay():
    rng = np.random.default_rng(1)
    model = omkl.OnlineMKLClassifier(JUNK, weighting="out-of-sample", random_state=0, epochs=3)
    model.fit(rng.normal(size=(4, 43)), ["a", "b", "a", "b"])
    weights = np.array(list(model.kernel_weights_.values()))
    assert np.all(weights > 0)
    assert weights.sum() == pytest.approx(1)


@pytest.mark.slow
def test_a_warning_names_weak_evidence(rng):
    """Useless groups exceed the level in a twentieth of the draws; few examples do not count."""
    n_warned = 0
    for seed in range(12):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", DataWarning)
            model = omkl.OnlineMKLClassifier(JUNK, weighting="out-of-sample", random_state=seed)
            model.fit(rng.normal(size=(100, 43)), rng.integers(2, size=100))
        n_warned += any("No group stands out" in str(warning.message) for warning in warned)
    assert n_warned >= 9
    assert list(model.evidence_) == JUNK
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        X, y = interaction(300)
        model = omkl.OnlineMKLClassifier(
            [*JUNK, USEFUL], weighting="out-of-sample", random_state=0
        ).fit(X, y)
        omkl.OnlineMKLClassifier(JUNK, weighting="out-of-sample", random_state=0).fit(
            X[:20], y[:20]
        )
        # nothing is left to explain
        omkl.OnlineMKLRegressor(JUNK, weighting="out-of-sample", random_state=0).fit(
            X, np.ones(300)
        )
        growing = omkl.OnlineMKLClassifier(JUNK, weighting="out-of-sample", random_state=0)
        growing.fit(X, ["a"] * 300, classes="growing")
    evidence = model.evidence_
    assert max(evidence, key=evidence.get) == USEFUL
    assert (
        evidence[USEFUL] > beyond_chance(len(evidence)) == pytest.approx(stats.norm.isf(0.05 / 11))
    )
    assert "1 of 11 groups help beyond chance" in make_report(model)
    assert (
        omkl.OnlineMKLClassifier(JUNK, weighting="norms", random_state=0).fit(X, y).evidence_
        is None
    )


def test_of_many_examples_fewer_and_fewer_are_looked_at(rng):
    X = rng.normal(size=(10_000, 2))
    model = omkl.OnlineMKLRegressor(
        ["linear:on=0", "linear:on=1"], weighting="out-of-sample", epochs=2, random_state=0
    )
    model.fit(X, X[:, 0])
    assert (
        1024 + 3 * 512 + 100 < model.model_.trainer.find(Evidence).n_examples < 1024 + 3 * 512 + 150
    )
    assert model.kernel_weights_["linear:on=0"] > 0.98


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(1, 200), st.floats(1e-6, 1e6), st.integers(0, 10_000))
def test_hedge_keeps_its_bound(p, rounds, scale, seed):
    rng = np.random.default_rng(seed)
    losses = scale * (
        rng.normal(size=(rounds, p)) + rng.normal(size=p) + 5 * rng.normal(size=(rounds, 1))
    )
    weights = np.full(p, 1.0 / p)
    cumulative = np.zeros(p)
    gap = 0.0
    suffered = variance = 0.0
    for loss in losses:
        mean = weights @ loss
        suffered = suffered + mean
        variance = variance + weights @ (loss - mean) ** 2
        gap = jit.hedge(weights, cumulative, loss, gap)
        assert np.all(weights >= 0)
        assert np.isclose(weights.sum(), 1)
    span = np.ptp(losses, axis=1).max()
    bound = 2 * np.sqrt(variance * np.log(p)) + span * (4 / 3 * np.log(p) + 2)
    assert suffered - losses.sum(axis=0).min() <= bound * (1 + 1e-9)


def group_state_of(p):
    """Make a state of p groups that belong to one bank."""

    class Owner:
        names = [str(k) for k in range(p)]

    return GroupState([Owner()])


def test_losses_of_parts_are_inner_products_with_the_gradient(rng):
    v, g = rng.normal(size=(2, 5, 7))
    rates = rng.uniform(0.1, 1, 5)
    bases = rng.uniform(0.1, 1, 5)
    weight = 2.5
    after = v - rates[:, None] * g
    method = OutOfSampleWeights()
    state = group_state_of(5)
    method.start(state, 5)
    method.begin(state, 1.0, weight)
    method.packed(0).values.square_norms_before[:] = (v**2).sum(1)
    state.rates[:], state.bases[:] = rates, bases
    state.square_norms[:] = (after**2).sum(1)
    state.square_gradients[:] = (g**2).sum(1)
    method.observe(state, weight)
    assert_allclose(method.cumulative, weight * bases * (v * g).sum(1))


@pytest.mark.parametrize("cache_size", [0, 100])
def test_with_weights_that_stay_alike_the_parts_learn_as_the_mean_kernel_does(
    cache_size, monkeypatch
):
    monkeypatch.setattr(
        OutOfSampleWeights,
        "before_epoch",
        lambda method, trainer, epoch: setattr(method, "learning", False),
    )
    X, y = interaction(60, 23)
    specs = [USEFUL, *FEW]
    options = {
        "random_state": 0,
        "epochs": omkl.Passes(1, shuffle=False),
        "weighting": "out-of-sample",
    }
    monkeypatch.setattr(
        Evidence, "useful", lambda evidence: np.ones(len(evidence.sums), dtype=bool)
    )
    separate = omkl.OnlineMKLClassifier(
        specs, budget=omkl.Budget(cache_size=cache_size), **options
    ).fit(X, y)
    averaged = omkl.OnlineMKLClassifier([Average(specs)], **options).fit(X, y)
    assert_allclose(
        separate.decision_function(X), averaged.decision_function(X), rtol=1e-6, atol=1e-8
    )
    assert_allclose(list(separate.kernel_weights_.values()), 1 / 6)
    losses = [[record["loss"] for record in model.history_] for model in (separate, averaged)]
    assert_allclose(*losses, rtol=1e-6)


def test_twins_share_and_have_together_what_one_would_have():
    X, y = interaction(300, 23)
    one = omkl.OnlineMKLClassifier(
        {"a": USEFUL, "b": "gaussian:on=0:1"}, weighting="out-of-sample", random_state=0
    )
    two = omkl.OnlineMKLClassifier(
        {"a": USEFUL, "twin": USEFUL, "b": "gaussian:on=0:1"},
        weighting="out-of-sample",
        random_state=0,
    )
    weights = one.fit(X, y).kernel_weights_
    shared = two.fit(X, y).kernel_weights_
    assert shared["a"] == pytest.approx(shared["twin"], rel=1e-6)
    assert shared["a"] + shared["twin"] == pytest.approx(weights["a"], abs=0.05)


def test_groups_that_come_later_have_a_say():
    X = [[{"word": w} for w in line.split()] for line in ("a dog", "the cat", "a cat")]
    y = [["D", "N"]] * 3
    labeler = omkl.SequenceLabeler(weighting="out-of-sample", random_state=0).partial_fit(
        X, y, classes=["D", "N"]
    )
    more = [
        [{"word": w, "suffix": w[-1]} for w in line.split()] for line in ("a house", "the mouse")
    ]
    labeler.partial_fit(more, y[:2])
    assert set(labeler.kernel_weights_) == {"word", "suffix"}
    assert labeler.kernel_weights_["suffix"] > 0
    assert sum(labeler.kernel_weights_.values()) == pytest.approx(1)


def test_templates_are_weighted_too():
    sentences = [
        omkl.data.Sentence(forms.split(), upos=["D", "N", "V"], heads=[2, 3, 0])
        for forms in ("a dog sleeps", "the cat runs")
    ]
    parser = omkl.DependencyParser(
        ["h.upos m.upos", "m.form"], weighting="out-of-sample", epochs=3, random_state=0
    )
    parser.fit(sentences * 5)
    assert sum(parser.template_weights_.values()) == pytest.approx(1)
    pruned = parser.prune(keep=1)
    assert list(pruned.template_weights_.values()) == [1.0]


@pytest.mark.parametrize("kind", ["constant", "zero", "one label"])
def test_degenerate_data_have_an_answer(kind):
    X, y = interaction(40, 23)
    if kind != "one label":
        X[:, 3:7] = 1.0 if kind == "constant" else 0.0
    else:
        y[:] = "yes"
    kernels = {"useful": USEFUL, "bad": "linear:on=3:7"}
    model = omkl.OnlineMKLClassifier(kernels, weighting="out-of-sample", random_state=0)
    if kind == "one label":
        model.partial_fit(X, y, classes=["no", "yes"])
    else:
        model.fit(X, y)
    weights = np.array(list(model.kernel_weights_.values()))
    assert np.all(np.isfinite(weights))
    assert weights.sum() == pytest.approx(1)
    assert np.all(np.isfinite(model.decision_function(X)))


@pytest.mark.parametrize(("p", "strong"), [(11, 1), (22, 2), (40, 5)])
def test_of_many_groups_that_pass_one_in_twenty_is_useless(p, strong, rng):
    evidence = Evidence()
    useless = 0
    n = 500
    for _ in range(n):
        z = rng.normal(size=p) + np.where(np.arange(p) < strong, 6.0, 0.0)
        evidence.z_scores = lambda z=z: z
        evidence.sums = z
        useful = evidence.useful()
        assert_array_equal(useful, stats.false_discovery_control(stats.norm.sf(z)) <= 0.05)
        useless += useful[strong:].sum() / useful.sum()
    assert useless / n < 0.05


@pytest.mark.parametrize("p", [5, 100])
def test_of_useless_groups_half_a_group_passes(p, rng):
    evidence = Evidence()
    n = 500
    evidence.sums = np.zeros(2 * p)
    passed = 0
    for _ in range(n):
        z = np.concatenate([np.full(p, 9.0), rng.normal(size=p)])
        evidence.z_scores = lambda z=z: z
        passed += evidence.useful()[p:].sum()
    assert passed / n == pytest.approx(0.25, abs=0.07)  # half of the groups are useless
