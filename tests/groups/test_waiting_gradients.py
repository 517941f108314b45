"""Cached kernels in single precision: gradients wait until they are large enough for a step."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl.groups import CachedKernelBank
from omkl.groups.expansions import _jit_cached as jit
from omkl.groups.expansions.cached import LEAST_MOVE
from omkl.kernels.inputs import Pair

from ..passes import Kill, Killed, assert_same_state


@pytest.mark.parametrize("least", [0.0, 0.01, 0.3])
def test_directions_and_what_is_carried_add_up_to_the_gradients(least, rng):
    gradients = rng.normal(size=(200, 5, 3)) * 10.0 ** rng.integers(-4, 1, size=(200, 5, 3))
    carried = np.zeros((5, 3))
    directions = np.empty((200, 5, 3))
    for gradient, direction in zip(gradients, directions):
        jit.carry(gradient, carried, least, direction)
        assert np.abs(carried).max() <= least
    assert_allclose(
        directions.sum(axis=0) + carried,
        gradients.sum(axis=0),
        atol=1e-12,
    )
    steps = directions[directions != 0.0]
    assert np.abs(steps).min() >= least
    if least == 0.0:
        assert_array_equal(directions, gradients)


def sequences(rng, n_sequences=40, n_labels=5):
    """Draw sequences of three vectors, and labels that follow a quadratic function of these."""
    X = rng.normal(size=(n_sequences, 3, 4))
    scores = (X**2) @ rng.normal(size=(4, n_labels)) + rng.normal(size=(n_sequences, 3, n_labels))
    return list(X), scores.argmax(axis=2).tolist()


class LastTrainer:
    """Callback that keeps the norms of a trainer and what its cached kernels wait for."""

    def __call__(self, trainer, record):
        [bank] = [bank for bank in trainer.banks if isinstance(bank, CachedKernelBank)]
        self.carried = bank.state()["carried"].copy()
        self.norms = trainer.norms[: len(bank.names)].copy()
        squares = []
        for kernel, view, matrix in zip(bank.kernels, bank.views, bank.coefficients):
            X = bank.tokens.views[view]
            squares.append(np.trace(matrix.T @ kernel.between(Pair(X, X)) @ matrix))
        self.norms_of_coefficients = bank.group_state.scales * np.sqrt(squares)


@pytest.mark.parametrize("loss", ["crf", "softmax-margin", "hinge"])
def test_models_in_single_precision_are_those_in_double_precision(loss, rng):
    X, y = sequences(rng)
    callbacks = {"float32": LastTrainer(), "float64": LastTrainer()}
    models = {}
    for dtype, last in callbacks.items():
        model = omkl.SequenceLabeler(
            ["gaussian", "gaussian:sigma2=9"],
            loss=loss,
            epochs=30,
            callbacks=[last],
            random_state=0,
            budget=omkl.Budget(dtype=dtype),
        )
        models[dtype] = model.fit(X, y)
        assert_allclose(last.norms, last.norms_of_coefficients, rtol=1e-4)
    waits = loss != "hinge"  # whose gradients are -1, 0 and 1
    assert callbacks["float32"].carried.any() == waits
    assert np.abs(callbacks["float32"].carried).max() < LEAST_MOVE
    assert not callbacks["float64"].carried.any()
    weights = models["float64"].kernel_weights_
    assert models["float32"].kernel_weights_ == pytest.approx(weights, abs=5e-3)
    scores = np.concatenate(models["float64"].decision_function(X))
    scores_32 = np.concatenate(models["float32"].decision_function(X))
    assert_allclose(
        scores_32,
        scores,
        atol=0.01 * np.abs(scores).max(),
    )


def test_a_resumed_run_has_what_was_carried(rng, tmp_path):
    X, y = sequences(rng)
    single = omkl.Budget(dtype="float32")
    options = {"loss": "crf", "budget": single, "epochs": 6, "random_state": 0}
    expected = omkl.SequenceLabeler(["gaussian"], **options).fit(X, y)
    killed = omkl.SequenceLabeler(["gaussian"], **options, callbacks=[Kill(130)])
    running = {"checkpoint": tmp_path / "run", "checkpoint_every": "25 rounds"}
    with pytest.raises(Killed):
        killed.fit(X, y, **running)
    resumed = omkl.SequenceLabeler(["gaussian"], **options).fit(X, y, **running, resume=True)
    assert_same_state(resumed, expected)
