"""Models that are saved, copied or resumed in the middle go on with the same bits; threads share no
memory.
"""

import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import omkl
from omkl.online import driver
from tests.online.configurations import (
    Configuration,
    alternate,
    assert_same_model,
    assert_same_state,
    draw,
    predictions,
    train,
    uncompiled,
)
from tests.passes import Kill, Killed

pytestmark = pytest.mark.filterwarnings("ignore::omkl.exceptions.DataWarning")  # the data are noise


def draw_blocks(kind, seed):
    """Draw a configuration that is trained block by block."""
    configuration = next(
        candidate
        for candidate in (draw(kind, seed + 100 * k) for k in range(50))
        if candidate.blocks
    )
    return configuration._replace(call="partial_fit")


def unpickled(model, folder):
    return pickle.loads(pickle.dumps(model))


def unpickled_by_joblib(model, folder):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def mapped(model, folder):
    """Return a model whose arrays are files that cannot be written to."""
    path = folder / f"{len(list(folder.iterdir()))}.joblib"  # earlier files are in use
    joblib.dump(model, path)
    return joblib.load(path, mmap_mode="r")


def loaded(model, folder):
    model.save(folder / "model.npz")
    return omkl.load(folder / "model.npz")


def copied(model, folder):
    return deepcopy(model)


WAYS = {way.__name__: way for way in (unpickled, unpickled_by_joblib, mapped, loaded, copied)}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["any", "budget", "drift", "growing"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_copy_goes_on_with_the_same_bits(way, kind, seed, tmp_path, monkeypatch):
    configuration = draw_blocks(kind, seed + 10 * list(WAYS).index(way))
    originals = []

    def between(model):
        copy = WAYS[way](model, tmp_path)
        originals.append(model)
        configuration.learn_block(model, 0 if isinstance(configuration.declared, str) else 1)
        return copy

    model = train(configuration, between)
    states = [
        {name: np.array(array) for name, array in original.model_.trainer.state().items()}
        for original in originals
    ]
    predictions(model, configuration.X)
    for original, state in zip(originals, states, strict=True):  # the copies have not changed them
        for name, array in original.model_.trainer.state().items():
            assert_array_equal(array, state[name])
    monkeypatch.setattr(driver, "uncompiled_part", uncompiled)
    assert_same_model(model, train(configuration), configuration.X)


def draw_epochs(kind, seed):
    """Draw a configuration that is trained in epochs."""
    return next(
        candidate
        for candidate in (draw(kind, seed + 100 * k) for k in range(50))
        if candidate.call != "partial_fit"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["any", "budget", "restart", "drift"])
@pytest.mark.parametrize("seed", range(4))
def test_a_resumed_run_has_the_same_bits(kind, seed, tmp_path, monkeypatch):
    configuration = draw_epochs(kind, 100 + seed)
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "17 rounds"}
    n = len(configuration.y)
    with pytest.raises(Killed):
        train(
            configuration,
            callbacks=[Kill(n // 3 + 5 * seed % 50)],
            **options,
        )
    model = train(configuration, resume=True, **options)
    monkeypatch.setattr(driver, "uncompiled_part", uncompiled)
    assert_same_model(model, train(configuration), configuration.X)


@pytest.mark.parametrize("kind", ["any", "budget", "drift"])
def test_rounds_may_change_between_both_where_a_run_is_resumed(kind, tmp_path, monkeypatch):
    configuration = draw_epochs(kind, 0)
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": "17 rounds"}
    with monkeypatch.context() as patch:
        alternate(patch, 0)
        with pytest.raises(Killed):
            train(
                configuration,
                callbacks=[Kill(len(configuration.y) // 2)],
                **options,
            )
    model = train(configuration, resume=True, **options)
    monkeypatch.setattr(driver, "uncompiled_part", uncompiled)
    assert_same_model(model, train(configuration), configuration.X)


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["any", "budget", "restart", "drift", "growing"])
def test_models_are_trained_in_threads_at_once(kind, monkeypatch):
    configurations = [draw(kind, seed) for seed in range(200, 206)]
    with ThreadPoolExecutor(3) as pool:
        models = list(pool.map(train, configurations))
    monkeypatch.setattr(driver, "uncompiled_part", uncompiled)
    for model, configuration in zip(models, configurations, strict=True):
        assert_same_model(model, train(configuration), configuration.X)


def some_inputs(configuration: Configuration, part: int):
    """Return a part of the inputs: some parts are so short that they are scored without a copy of
    the model.
    """
    n = len(configuration.y)
    rows = slice(
        part * n // 8,
        part * n // 8 + (10 if part % 2 else n // 8),
    )
    return configuration.X[rows]


@pytest.mark.parametrize("kind", ["any", "budget", "restart", "drift", "growing"])
@pytest.mark.parametrize("seed", [300, 301])
def test_threads_predict_with_the_same_model(kind, seed):
    configuration = draw(kind, seed)
    model = train(configuration)
    state = {name: np.array(array) for name, array in model.model_.trainer.state().items()}
    inputs = [some_inputs(configuration, part) for part in range(8)]
    alone = deepcopy(model)
    alone.predictor_  # noqa: B018 - computed here, so that all inputs are scored by the same copy
    model.predictor_  # noqa: B018
    expected = [predictions(alone, part) for part in inputs]
    with ThreadPoolExecutor(4) as pool:
        scores_by_threads = list(pool.map(lambda part: predictions(model, part), inputs * 4))
    for scores, wanted in zip(scores_by_threads, expected * 4, strict=True):
        assert_array_equal(scores, wanted)
    for name, array in model.model_.trainer.state().items():
        assert_array_equal(array, state[name])


@pytest.mark.parametrize("seed", range(4))
def test_threads_predict_with_a_model_that_has_just_learned(seed):
    """The first prediction after training makes the averaged model, which takes as long for all
    threads.
    """
    configuration = draw_blocks("growing", 400 + seed)
    model = train(configuration)
    expected = predictions(deepcopy(model), configuration.X)
    with ThreadPoolExecutor(4) as pool:
        for scores in pool.map(lambda _: predictions(model, configuration.X), range(8)):
            assert_array_equal(scores, expected)


def test_a_copy_of_a_trainer_has_a_driver_of_its_own():
    configuration = draw_blocks("growing", 0)
    model = train(configuration)
    copy = deepcopy(model)
    assert model.model_.trainer.driver is not None
    assert copy.model_.trainer.driver is None
    configuration.learn_block(copy, 1)
    assert copy.model_.trainer.driver.trainer is copy.model_.trainer
    assert model.model_.trainer.driver.trainer is model.model_.trainer
    configuration.learn_block(model, 1)
    assert_same_state(model.model_.trainer, copy.model_.trainer)
