"""Reports on groups, sample weights, and callbacks that record weights."""

import copy
import importlib.util
import json
from pathlib import Path
from unittest import mock

import cvxpy as cp
import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris

import omkl
from omkl.cli import main
from omkl.data import synthetic_treebank
from omkl.exceptions import InputError, OutputFileError
from omkl.groups import ExplicitBank, FeatureMapBank, Features, KernelBank, Tokens
from omkl.kernels import Gaussian
from omkl.losses import CRF, StructuredHinge
from omkl.online import (
    DistanceOverGradients,
    InverseSqrt,
    MeanPolyak,
    PolynomialAverage,
    ProgressiveValidation,
    RecordLog,
    UniformAverage,
)
from omkl.online.group_contributions import group_report
from omkl.regularizers import L1, L21, L21Ball, Ridge, SquaredL21
from omkl.structures import Binary, Multiclass

from ..commands import run
from ..passes import online_trainer

KERNELS = {"g": "gaussian:on=0:2,sigma2=1", "l": "linear", "n": "gaussian:on=3:6,sigma2=1"}


def rows(n, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    codes = (X[:, 0] ** 2 > 1).astype(int)
    if n_classes > 2:
        codes += X[:, 1] > 0.5
    return X, np.array(["a", "b", "c"])[codes]


def dicts(n, seed=0):
    X, y = rows(n, 3, seed)
    rng = np.random.default_rng(seed)
    return [
        {"x": x, "word": f"w{int(4 * x[2])}", "length": float(x[3]), "junk": f"j{rng.integers(9)}"}
        for x in X
    ], y


def classifier(kernels=None, **settings):
    settings = {"weighting": "norms", "epochs": 4, "random_state": 0, **settings}
    return omkl.OnlineMKLClassifier(KERNELS if kernels is None else kernels, **settings)


def without(model, name):
    """The same model, with all parameters of one group set to zero."""
    model = copy.deepcopy(model)
    trainer = model.model_.trainer
    trainer._predictor = None
    for bank in (bank for bank in trainer.banks if name in bank.names):
        k = bank.names.index(name)
        if isinstance(bank, KernelBank):
            bank.coefficients[k] = 0.0
            bank.sums[k] = 0.0
            continue
        cells = (slice(None),)
        if isinstance(bank, ExplicitBank):
            cells = (np.flatnonzero(bank.groups == k),)
        if isinstance(bank, FeatureMapBank):
            cells = (
                slice(None),
                slice(
                    sum(bank.sizes[:k]),
                    sum(bank.sizes[: k + 1]),
                ),
            )
        bank.table[cells] = 0.0
        bank._sums[cells] = 0.0
    return model


def losses(model, *data):
    """Loss of each example at the model that predicts."""
    trainer = model.model_.trainer
    predictor = model.predictor_
    block = omkl.estimators.sources.TrainingBlock(*data)
    examples = model.model_.codec.encode_for_evaluation(model._read_for_evaluation(block))
    values = []
    for x, y, _ in examples:
        potentials = predictor.potentials(x)
        value, _ = trainer.loss.value_and_gradient(trainer.structure, potentials, y)
        values.append(value)
    return np.array(values)


# ---- the weights are those of the model that predicts --------------------------------------------


def averaged_norms(model, kernels):
    """From dual coefficients and Gram matrices."""
    norms = []
    for name, kernel in kernels.items():
        A = model.dual_coef_[name]
        S = model.support_vectors_[name]
        norms.append(np.sqrt(np.trace(A.T @ kernel(S, S) @ A)))
    return np.array(norms)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "rda"},
        {"average": None},
        {"average": "decayed"},
        {"budget": omkl.Budget(cache_size=0)},
        {"budget": 20},
        {"loss": "crf"},
    ],
    ids=str,
)
def test_weights_follow_from_the_norms_of_the_averaged_model(settings):
    kernels = {"a": Gaussian(1.0), "b": Gaussian(9.0)}
    model = classifier(kernels, **settings).fit(*rows(60, 3))
    norms = averaged_norms(model, kernels)
    assert_allclose(model.predictor_.norms[:2], norms, rtol=1e-6)
    assert_allclose(
        list(model.kernel_weights_.values()),
        norms / norms.sum(),
        rtol=1e-6,
    )
    model.partial_fit(*rows(30, 3, seed=1))  # and afresh when the model has changed
    assert_allclose(
        model.predictor_.norms[:2],
        averaged_norms(model, kernels),
        rtol=1e-6,
    )


def test_history_has_the_weights_of_the_iterates():
    model = classifier().fit(*rows(60))
    norms = model.model_.trainer.norms
    expected = dict(
        zip(model.model_.trainer.group_names, SquaredL21().normalized_kernel_weights(norms))
    )
    last = {name: model.history_[-1][f"weight:{name}"] for name in KERNELS}
    assert last == pytest.approx(expected)
    assert last != pytest.approx(model.kernel_weights_, rel=1e-3)


each_method = pytest.mark.parametrize("method", ["fobos", "rda"])


@each_method
def test_a_constraint_that_does_not_bind_changes_no_weight(method):
    data = rows(60)
    plain, bounded = (
        classifier(regularizer=r, method=method).fit(*data)
        for r in (Ridge(), Ridge() + L21Ball(1e9))
    )
    assert_allclose(
        list(plain.kernel_weights_.values()),
        np.full(3, 1 / 3),
    )
    assert_allclose(
        list(bounded.kernel_weights_.values()),
        np.full(3, 1 / 3),
    )


# ---- how much a group helps ----------------------------------------------------------------------


def fitted(kind):
    """A model, and held-out data."""
    if kind == "parser":
        treebank = synthetic_treebank(150, vocabulary=10, random_state=3)
        templates = [
            "h.upos m.upos direction",
            "h.lemma m.lemma",
            "h.upos m.upos",
            "h.xpos between.upos m.xpos",
        ]
        model = omkl.DependencyParser(
            templates, epochs=2, memory=5, random_state=0, trees=omkl.TreeForm(labeled=False)
        )
        return model.fit(treebank[:100]), (treebank[100:],)
    if kind == "labeler":
        X, y = zip(*(rows(5, 3, seed) for seed in range(40)))
        model = omkl.SequenceLabeler(
            KERNELS, epochs=3, random_state=0, transitions=omkl.Transitions(by_position=True)
        )
        return model.fit(X[:25], y[:25]), (X[25:], y[25:])
    if kind == "dicts":
        model = classifier(
            ["linear:on=x", "gaussian:on=x,features=30", "gaussian:on=x"], loss="crf", C=1.0
        )
        return model.fit(*dicts(60)), dicts(40, seed=1)
    if kind == "regressor":
        X, _ = rows(80)
        y = np.sin(X[:, 0]) + X[:, 3]
        return omkl.OnlineMKLRegressor(KERNELS, epochs=3, random_state=0).fit(X[:50], y[:50]), (
            X[50:],
            y[50:],
        )
    settings = {
        "budget": {"budget": 15},
        "rda": {"method": "rda", "regularizer": "group-lasso"},
    }.get(kind, {})
    return classifier(**settings).fit(*rows(60, 3)), rows(40, 3, seed=1)


def zeroed(model, name):
    if not isinstance(model, omkl.DependencyParser):
        return without(model, name)
    others = [other for other in model.templates_.names if other != name]
    with mock.patch.object(omkl.DependencyParser, "ranking", return_value=others):
        return model.prune(len(others))


@pytest.mark.parametrize(
    "kind", ["classifier", "budget", "rda", "regressor", "dicts", "labeler", "parser"]
)
def test_a_group_helps_by_what_the_loss_is_larger_without_its_parameters(kind):
    model, held_out = fitted(kind)
    records = model.group_report(*held_out)
    names = [record["group"] for record in records]
    assert names[: len(model.kernel_weights_)] == list(model.kernel_weights_)
    losses_of_model = losses(model, *held_out)
    for record in records:
        losses_without = losses(zeroed(model, record["group"]), *held_out)
        increases = losses_without - losses_of_model
        error = np.std(increases, ddof=1) / np.sqrt(len(increases))
        assert_allclose(record["loss_without"], losses_without.mean(), atol=1e-6)
        assert_allclose(record["loss_increase"], increases.mean(), atol=1e-6)
        assert_allclose(record["standard_error"], error, atol=1e-6)
        assert record["weight"] == model.kernel_weights_.get(record["group"])
    assert any(record["loss_increase"] > 2 * record["standard_error"] > 0 for record in records)
    assert sum(record["bytes_share"] for record in records) == pytest.approx(1.0)
    without_data = [{key: record[key] for key in model.group_report_[0]} for record in records]
    assert without_data == model.group_report_
    json.dumps(records, allow_nan=False)


def test_the_hinge_of_two_classes_by_hand():
    model = classifier(loss="hinge").fit(*rows(60))
    X, y = rows(40, seed=1)
    signs = np.where(
        y == model.classes_[1],
        1.0,
        -1.0,
    )
    z = model.decision_function(X)
    z_of_group = Gaussian(1.0)(X[:, :2], model.support_vectors_["g"]) @ model.dual_coef_["g"][:, 0]
    expected = np.maximum(1 - signs * (z - z_of_group), 0) - np.maximum(1 - signs * z, 0)
    record = model.group_report(X, y)[0]
    assert_allclose(record["loss_increase"], expected.mean(), atol=1e-9)
    assert_allclose(
        record["standard_error"],
        expected.std(ddof=1) / np.sqrt(40),
        atol=1e-9,
    )


def test_blocks_of_a_stream_are_measured_as_the_whole():
    model = classifier().fit(*rows(60))
    X, y = rows(40, seed=1)
    streamed = model.group_report(omkl.data.Stream.from_iterable(zip(X, y)))
    for one, other in zip(streamed, model.group_report(X, y)):
        assert one["loss_increase"] == pytest.approx(other["loss_increase"], abs=1e-12)
        assert one["standard_error"] == pytest.approx(other["standard_error"], abs=1e-12)


def test_twins_help_little_as_long_as_both_are_there():
    X, y = rows(200)
    kernels = {"one": Gaussian(1.0, on=slice(0, 2)), "two": Gaussian(1.0, on=slice(0, 2))}
    held_out = rows(100, seed=1)
    single, *_ = classifier({"one": kernels["one"]}, C=10.0).fit(X, y).group_report(*held_out)
    twins = classifier(kernels, C=10.0).fit(X, y).group_report(*held_out)[:2]
    assert_allclose(
        twins[0]["loss_increase"],
        twins[1]["loss_increase"],
        rtol=1e-6,
    )
    assert twins[0]["loss_increase"] < 0.7 * single["loss_increase"]


def test_one_example_has_no_standard_error():
    model = classifier().fit(*rows(60))
    assert all(
        record["standard_error"] is None for record in model.group_report(*(a[:1] for a in rows(5)))
    )


@pytest.mark.parametrize(
    ("y", "message"), [(["a", "zzz"], "zzz"), (None, "requires y"), (["a"], "inconsistent")]
)
def test_data_that_cannot_be_measured_is_an_error(y, message):
    with pytest.raises(ValueError, match=message):
        classifier().fit(*rows(60)).group_report(rows(2)[0], y)
    with pytest.raises(InputError, match="must have an example"):
        classifier().fit(*rows(60)).group_report(iter([]))


def test_inputs_of_a_kind_of_their_own_are_measured_one_by_one():
    class Columns:
        """A bank of one group that reads a plain array."""

        names = ["own"]

        def __init__(self, table):
            self.table = table

        def add_potentials(self, x, potentials):
            potentials.unary[:] += self.group_state.scales[0] * (x @ self.table)

        def averaged(self):
            return Columns(self.table)

        def recompute_norms(self):
            self.group_state.square_norms[0] = np.sum(self.table**2)

    trainer = omkl.online.OnlineTrainer(
        [Columns(np.eye(2))],
        Multiclass(2),
        omkl.losses.CRF(),
        None,
        lambda_=0.0,
        schedule=omkl.online.Constant(1.0),
    )
    examples = [omkl.online.Example(np.array([x]), 0) for x in ([2.0, 0.0], [0.0, 1.0])]
    (record,) = group_report([trainer], [examples])
    expected = np.log(2) - np.array([np.log1p(np.exp(-2.0)), np.log1p(np.exp(1.0))])
    assert_allclose(record["loss_increase"], expected.mean())
    assert record["bytes"] == 0.0


IRIS, SPECIES = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(150)
IRIS = IRIS[ORDER]
SPECIES = SPECIES[ORDER]


def lines_of(path):
    return pandas.DataFrame(map(json.loads, Path(path).read_text().splitlines()))


def test_a_line_for_every_epoch_is_the_history(tmp_path):
    log = RecordLog(tmp_path / "log")
    model = omkl.OnlineMKLClassifier(
        epochs=4, early_stopping=True, callbacks=[log], random_state=0
    ).fit(IRIS, SPECIES)
    pandas.testing.assert_frame_equal(lines_of(tmp_path / "log"), pandas.DataFrame(model.history_))
    assert "validation_score" in lines_of(tmp_path / "log")


def test_listeners_get_the_records_of_a_stream_that_comes_in_pieces(tmp_path):
    told = []
    meter = ProgressiveValidation(
        40, RecordLog(tmp_path / "log"), lambda trainer, record: told.append(record)
    )
    model = omkl.OnlineMKLClassifier(callbacks=[meter], random_state=0)
    for low in range(0, 150, 25):
        model.partial_fit(
            IRIS[low : low + 25],
            SPECIES[low : low + 25],
            classes=[0, 1, 2],
        )
    assert [record["round"] for record in told] == [40, 80, 120]
    assert told == meter.records
    pandas.testing.assert_frame_equal(lines_of(tmp_path / "log"), pandas.DataFrame(told))


def test_a_listener_ends_training():
    stop = ProgressiveValidation(10, lambda trainer, record: record["round"] >= 30)
    assert omkl.OnlineMKLClassifier(callbacks=[stop]).fit(IRIS, SPECIES).model_.trainer.round == 30


def test_shards_are_counted_after_every_mix():
    told = []
    meter = ProgressiveValidation(100, lambda trainer, record: told.append(record["examples"]))
    omkl.OnlineMKLClassifier(["linear"], epochs=2, callbacks=[meter], random_state=0).fit(
        IRIS, SPECIES, shards=2
    )
    assert told == [150, 150]


@pytest.mark.parametrize(
    "wrap", [lambda log: log, lambda log: ProgressiveValidation(50, log)], ids=["epochs", "50"]
)
def test_a_resumed_run_writes_the_file_of_an_uninterrupted_one(wrap, tmp_path):
    def fit(path, **running):
        stop = running.pop("stop", None)
        callbacks = [wrap(RecordLog(path)), *([stop] if stop else [])]
        return omkl.OnlineMKLClassifier(epochs=4, callbacks=callbacks, random_state=0).fit(
            IRIS, SPECIES, **running
        )

    def die(trainer, record):
        if record["epoch"] == 3:
            raise KeyboardInterrupt

    fit(tmp_path / "whole")
    running = {"checkpoint": tmp_path / "state", "checkpoint_every": "70 rounds"}
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "log", stop=die, **running)
    fit(tmp_path / "log", resume=True, **running)
    uninterrupted = lines_of(tmp_path / "whole").drop(columns="seconds")
    resumed = lines_of(tmp_path / "log").drop(columns="seconds")
    pandas.testing.assert_frame_equal(uninterrupted, resumed)


def test_a_file_is_replaced_and_entries_may_come_later(tmp_path):
    path = tmp_path / "log"
    path.write_text("something else\n")
    log = RecordLog(path)
    log.on_epoch(None, {"epoch": 1})
    log.on_epoch(None, {"epoch": 2, "norm:c": 0.3})
    assert_array_equal(lines_of(path)["norm:c"], [np.nan, 0.3])
    with pytest.raises(OutputFileError, match="no directory"):
        RecordLog(tmp_path / "nowhere" / "log")
    with pytest.raises(InputError, match="every must be"):
        ProgressiveValidation(0)


def test_the_command_line_logs_while_it_trains(tmp_path, capfd):
    data, log, model = (str(tmp_path / name) for name in ("data", "log", "model.npz"))
    Path(data).write_text("".join(f"{y} 1:{x[0]} 2:{x[2]}\n" for x, y in zip(IRIS, SPECIES)))
    train = ["train", "classifier", data, "-o", model, "--epochs", "2"]
    run(*train, "--log", log)
    assert list(lines_of(log)["epoch"]) == [1, 2]
    capfd.readouterr()
    run(*train, "--log", "-")
    assert len(capfd.readouterr().out.splitlines()) == 2
    assert main([*train, "--log", model]) == 2


def test_the_example_writes_what_tensorboard_reads(tmp_path):
    pytest.importorskip("tensorboardX")
    path = Path(__file__).parents[2] / "examples" / "monitoring.py"
    spec = importlib.util.spec_from_file_location("monitoring", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(str(tmp_path))
    assert len(lines_of(tmp_path / "history.jsonl")) == 8
    [events] = tmp_path.glob("events.*")
    assert b"weight/linear" in events.read_bytes()


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
SPARSE = sparse.csr_array(X)
TOKENS = Tokens(
    np.arange(41),
    Features(
        SPARSE.indptr.astype(np.int64),
        SPARSE.indices.astype(np.int32),
        SPARSE.data,
    ),
)


def trainer_of(regularizer, lambda_, schedule, average=None, loss=None, **options):
    bank = ExplicitBank(
        "abc",
        np.repeat(np.arange(3), 2),
        1,
        average is not None,
    )
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
            trainer.update(
                TOKENS.sequence(i),
                GOLD[i],
                weights[i],
            )
    return trainer


def optimum(penalty, lambda_, weights, loss):
    w = cp.Variable(6)
    margins = cp.multiply(SIGNS, X @ w)
    losses_of = cp.pos(1 - margins) if isinstance(loss, StructuredHinge) else cp.logistic(-margins)
    problem = cp.Problem(cp.Minimize(lambda_ * penalty(w) + weights @ losses_of / weights.sum()))
    return problem.solve(solver=cp.CLARABEL)


def objective(w, penalty, lambda_, weights, loss):
    margins = SIGNS * (X @ w)
    losses_of = (
        np.maximum(0, 1 - margins)
        if isinstance(loss, StructuredHinge)
        else np.logaddexp(0, -margins)
    )
    return weights @ losses_of / weights.sum() + lambda_ * penalty(cp.Constant(w)).value


@pytest.mark.slow
@pytest.mark.parametrize("name", PENALTIES)
@each_method
def test_random_weights_approach_the_weighted_batch_optimum(name, method):
    regularizer, penalty = PENALTIES[name]
    if method == "rda" and name == "lasso":
        pytest.skip("dual averaging has no coordinates")
    weights = np.random.default_rng(0).uniform(0.05, 1.0, size=len(GOLD))
    for loss in (StructuredHinge(), CRF()):
        trainer = trainer_of(
            regularizer, 0.1, InverseSqrt(1.0), PolynomialAverage(2), loss, method=method
        )
        train(trainer, weights, 300)
        reached = objective(
            trainer.banks[0].averaged_table()[:, 0],
            penalty,
            0.1,
            weights,
            loss,
        )
        best = optimum(penalty, 0.1, weights, loss)
        assert best - 1e-6 <= reached <= 1.02 * best


each_weight = pytest.mark.parametrize("weight", [0.5, 3.0])


@each_weight
@pytest.mark.parametrize("schedule", [DistanceOverGradients, MeanPolyak])
@each_method
def test_a_constant_weight_changes_nothing_but_the_unit_of_rates_that_find_their_own(
    weight, schedule, method
):
    """The regularizer is relative to the weighted mean of the losses."""

    def trained(weight):
        trainer = trainer_of(SquaredL21(), 0.05, schedule(), UniformAverage(), method=method)
        return train(trainer, np.full(40, weight), 5)

    weighted = trained(weight)
    plain = trained(1.0)
    assert_allclose(weighted.norms, plain.norms, rtol=1e-9)
    tables = [trainer.banks[0].averaged_table() for trainer in (weighted, plain)]
    assert_allclose(*tables, rtol=1e-9, atol=1e-11)


@each_method
@each_weight
def test_a_constant_weight_is_a_rate(weight, method):
    weighted = train(
        trainer_of(SquaredL21(), 0.05, InverseSqrt(0.6 / weight), method=method),
        np.full(40, weight),
        5,
    )
    plain = train(
        trainer_of(SquaredL21(), 0.05, InverseSqrt(0.6), method=method),
        np.ones(40),
        5,
    )
    assert_allclose(weighted.norms, plain.norms, rtol=1e-9)


@each_method
def test_an_example_without_weight_is_absent(method, rng):
    weights = (np.arange(40) % 3 > 0).astype(float)
    trainer, other = (
        trainer_of(SquaredL21(), 0.05, DistanceOverGradients(), UniformAverage(), method=method)
        for _ in range(2)
    )
    train(trainer, weights, 3)
    for _ in range(3):
        for i in rng.permutation(40).tolist():
            if weights[i]:
                other.update(TOKENS.sequence(i), GOLD[i])
    assert trainer.round == other.round
    assert_array_equal(
        trainer.banks[0].averaged_table(),
        other.banks[0].averaged_table(),
    )


@each_method
@each_weight
def test_classifiers_with_a_constant_weight_have_the_optimum_of_the_matching_C(weight, method):
    weighted = omkl.OnlineMKLClassifier("linear", C=0.1, method=method, epochs=200, random_state=0)
    plain = omkl.OnlineMKLClassifier(
        "linear", C=0.1 * weight, method=method, epochs=200, random_state=0
    )
    weighted.fit(X, GOLD, sample_weight=np.full(40, weight))
    plain.fit(X, GOLD)
    assert_allclose(
        weighted.decision_function(X),
        plain.decision_function(X),
        atol=0.03,
    )


@each_method
def test_large_weights_have_the_optimum_of_as_many_copies_and_cost_two_presentations(method):
    """An example of weight 3000 counts three times as much as one of weight 1000, and C by the
    thousand less.
    """
    weights = np.where(GOLD == 1, 3.0, 1.0)
    copies = omkl.OnlineMKLClassifier("linear", C=0.1, method=method, epochs=200, random_state=0)
    copies.fit(X, GOLD, sample_weight=weights)
    large = omkl.OnlineMKLClassifier("linear", C=1e-4, method=method, epochs=200, random_state=0)
    large.fit(X, GOLD, sample_weight=1000 * weights)
    assert copies.history_[0]["examples"] == weights.sum()
    assert large.history_[0]["examples"] <= 2 * len(GOLD)
    assert_allclose(
        large.decision_function(X),
        copies.decision_function(X),
        atol=0.05,
    )


def test_class_weights_of_a_thousand_cost_two_presentations():
    model = omkl.OnlineMKLClassifier(
        "linear", C=0.1, class_weight={0: 1000.0, 1: 1.0}, epochs=5, random_state=0
    )
    assert model.fit(X, GOLD).history_[0]["examples"] <= 2 * len(GOLD)
    assert (model.predict(X)[GOLD == 0] == 0).all()
