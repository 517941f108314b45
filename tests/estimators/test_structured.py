"""StructuredPredictor on a multiclass problem: training, model files, checkpoints, and errors."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import omkl
from omkl.exceptions import InputError, ModelFileError
from omkl.groups import ExplicitBank, Features, Tokens
from omkl.structures import Multiclass

from ..passes import Kill, Killed, assert_same_state

N_CLASSES = 3


def one_token(features):
    """Make an input of one token with two indicators: one informative, one of noise."""
    rows = Features(np.array([0, 2]), np.array(features, np.int32), np.ones(2))
    return Tokens(np.array([0, 1]), rows).everything()


@pytest.fixture
def data(rng):
    y = rng.integers(0, N_CLASSES, 60)
    return [one_token([k, N_CLASSES + noise]) for k, noise in zip(y, rng.integers(0, 2, 60))], y.tolist()


def bank(averaging=True, kind=ExplicitBank):
    groups = [0] * N_CLASSES + [1] * 2
    return kind(["label", "noise"], groups=groups, n_outputs=N_CLASSES, averaging=averaging)


def predictor(**options):
    return omkl.StructuredPredictor(Multiclass(N_CLASSES), [bank()], random_state=0, **options)


def test_the_informative_group_gets_the_weight(data):
    model = predictor().fit(*data)
    assert model.predict(data[0]) == data[1]
    assert model.kernel_weights_["label"] > model.kernel_weights_["noise"]


def test_partial_fit_is_one_epoch_in_the_given_order(data):
    options = {"weighting": "norms", "n_examples": 60}
    once = predictor(**options).partial_fit(*data)
    whole = predictor(**options, epochs=1, shuffle=False).fit(*data)
    assert_same_state(whole, once)


def test_a_saved_model_predicts_and_goes_on_the_same(data, reloaded):
    model = predictor().fit(*data)
    loaded = reloaded(model)
    for _ in range(2):
        for x in data[0]:
            assert_array_equal(loaded.predictor_.potentials(x), model.predictor_.potentials(x))
        model.partial_fit(*data)
        loaded.partial_fit(*data)


def test_early_stopping_keeps_the_cost_of_held_out_examples(data):
    model = predictor(early_stopping=True, epochs=30, n_iter_no_change=2).fit(*data)
    assert model.n_iter_ < 30
    assert model.score(*data) == 0.0


def test_a_resumed_run_is_the_uninterrupted_one(data, tmp_path):
    run = {"checkpoint": tmp_path / "state", "checkpoint_every": "1 rounds"}
    with pytest.raises(Killed):
        predictor(epochs=4, callbacks=[Kill(130)]).fit(*data, **run)
    resumed = predictor(epochs=4).fit(*data, **run, resume=True)
    assert_same_state(predictor(epochs=4).fit(*data), resumed)


class OwnBank(ExplicitBank):
    """Bank that omkl does not know."""


def test_mistakes_are_refused(data, tmp_path):
    with pytest.raises(InputError, match="y must have an output for each of 60 inputs, got 2"):
        predictor().fit(data[0], [0, 1])
    with pytest.raises(InputError, match="averaging=True"):
        omkl.StructuredPredictor(Multiclass(N_CLASSES), [bank(averaging=False)]).fit(*data)
    own = omkl.StructuredPredictor(Multiclass(N_CLASSES), [bank(kind=OwnBank)], random_state=0).fit(*data)
    with pytest.raises(ModelFileError, match="OwnBank"):
        own.save(tmp_path / "model.npz")
    assert not (tmp_path / "model.npz").exists()
