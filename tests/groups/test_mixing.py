"""Mixed tables of arc templates: scores are linear, so the mix has the average scores of the shards."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from omkl.data import synthetic_treebank
from omkl.distributed import ParameterMixing
from omkl.distributed.mixing import mix
from omkl.groups import ArcTemplateBank, TemplateSet, group_state
from omkl.online import InverseSqrt, PolynomialAverage
from omkl.parsing.sentences import ArcExamples
from omkl.regularizers import L21, Ridge, SquaredL21
from omkl.structures import NonProjectiveTree

from ..passes import fit, online_trainer

TEMPLATES = TemplateSet(["h.upos m.upos", "h.upos m.upos distance", "h.form m.form direction", "h.upos between.upos"])
SETTINGS = {
    "ridge": {"regularizer": Ridge(), "lambda_": 0.05},
    "mkl": {"regularizer": SquaredL21(), "lambda_": 0.1},
    "groups die and come back": {"regularizer": L21(), "lambda_": 2.0},
    "dual averaging": {"regularizer": SquaredL21(), "lambda_": 0.1, "method": "rda"},
}


@pytest.fixture(scope="module")
def examples():
    return ArcExamples.of(synthetic_treebank(30, vocabulary=6, random_state=0), TEMPLATES)


def make_trainer(dtype, n_lines, regularizer, lambda_, method="fobos"):
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


def scores(bank, examples):
    return np.concatenate([scores.arcs.ravel() for scores in bank.potentials_of([x for x, _, _ in examples])])


@pytest.mark.parametrize("narrow", [False, True], ids=["", "folded"])
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_mix_scores_as_the_shards_on_average(examples, monkeypatch, dtype, name, narrow):
    if narrow:
        monkeypatch.setattr(group_state, "SCALE_RANGE", (0.9, 1.1))
    trainer = make_trainer(dtype, 60, **SETTINGS[name])
    fit(trainer, examples, make_pass=ParameterMixing(3))  # shards do not start from nothing
    sizes, n_shards = np.array([8, 8, 7, 7]), 4
    weights = sizes / sizes.sum()
    means, averages, total, states = 0.0, 0.0, 0.0, []
    for j, weight in enumerate(weights):
        shard = copy.deepcopy(trainer)
        shard.shrinkage, shard.group_state.total_shrinkage[:] = 0.0, 0.0
        for x, y, _ in examples.part(np.arange(j, 30, n_shards)):
            shard.update(x, y)
        figures = np.append(shard.group_state.total_shrinkage, shard.shrinkage)
        states.append({key: np.array(array) for key, array in shard.state().items()} | {"shrinkage": figures})
        total += weight * shard.group_state.total_weight
        averages += weight * shard.group_state.total_weight * scores(shard.predictor().banks[0], examples)
        if name == "dual averaging":  # sums of gradients are mixed
            shard.group_state.scales[:] = 1.0
        means += weight * scores(shard.banks[0], examples)
    monkeypatch.setattr(trainer, "terms", [])  # the proximal step of the mix is tested with small models
    mix(trainer, states, weights)
    if name == "dual averaging":
        trainer.group_state.scales[:] = 1.0
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    assert_allclose(scores(trainer.banks[0], examples), means, atol=tolerance * np.abs(means).max())
    assert_allclose(scores(trainer.predictor().banks[0], examples), averages / total, atol=tolerance * 10)


@pytest.mark.parametrize("name", SETTINGS)
def test_one_shard_is_the_serial_algorithm(examples, name):
    serial, mixed = (make_trainer(np.float32, 2000, **SETTINGS[name]) for _ in range(2))
    fit(serial, examples, epochs=3, rng=np.random.default_rng(0))
    fit(mixed, examples, epochs=3, rng=np.random.default_rng(0), make_pass=ParameterMixing(1))
    for key, array in serial.state().items():
        assert_array_equal(array, mixed.state()[key], err_msg=key, strict=True)


def test_parts_of_examples_are_the_same_examples(examples):
    chosen = np.array([3, 4, 17, 29])
    part = examples.part(chosen)
    bank = make_trainer(np.float64, 60, Ridge(), 0.0).banks[0]
    rng = np.random.default_rng(0)
    bank.table[:] = rng.normal(size=bank.table.shape)
    bank.group_state.scales[:] = 1.0
    for i, s in enumerate(chosen):
        assert_array_equal(bank.potentials_of([part[i].x])[0].arcs, bank.potentials_of([examples[s].x])[0].arcs)
        assert_array_equal(part[i].y, examples[s].y)
    assert part.tokens.columns.nbytes < 0.4 * examples.tokens.columns.nbytes
