"""Errors and Ctrl-C in the middle of compiled calls leave the model that they leave in rounds of
the trainer.
"""

import ctypes
import gc
import weakref

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from omkl import OnlineMKLClassifier, OnlineMKLRegressor, SequenceLabeler, losses
from omkl.exceptions import DivergenceError
from omkl.online import driver
from tests.online.configurations import assert_same_model, assert_same_state, uncompiled

from ..cases import mostly_slow

BLOCKS = slice(0, 100), slice(100, 300), slice(300, 400)
KERNELS = {
    "explicit": {"kernels": ["linear"]},
    "features": {"kernels": ["linear", "gaussian:features=20"]},
    "budget": {"kernels": ["gaussian", "linear"], "budget": 30},
}


class Fault(losses.Squared):
    """The squared loss, whose compiled function does something else for some targets, or in a
    round.
    """

    def __init__(self, function, round=0):
        self.function = function
        self.round = round
        self._left = np.array([float(round)])

    compiled = property(lambda self: (self.function, self._left))


#: Targets for which a loss fails; others are smaller.
FAULTY = 1e50


@njit
def infinite(y, z, left):
    if y == FAULTY:
        return np.inf, 1.0
    return 0.5 * (z - y) ** 2, z - y


@njit
def undefined(y, z, left):
    if y == FAULTY:
        return np.nan, 1.0
    return 0.5 * (z - y) ** 2, z - y


@njit
def failing(y, z, left):
    if y == FAULTY:
        raise ValueError("a round has failed")
    return 0.5 * (z - y) ** 2, z - y


#: Sends a signal to this process, as Ctrl-C does; also from compiled code.
send = ctypes.CDLL(None)["raise"]
send.argtypes = [ctypes.c_int]
send.restype = ctypes.c_int


@njit
def interrupted(y, z, left):
    left[0] -= 1.0
    if left[0] == 0.0:
        send(2)
    return 0.5 * (z - y) ** 2, z - y


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    return X, X[:, 0] + rng.normal(size=400)


def both_ways(train_one, monkeypatch):
    """Train in compiled calls, and in rounds of the trainer."""
    compiled = train_one()
    with monkeypatch.context() as patch:
        patch.setattr(driver, "uncompiled_part", uncompiled)
        return compiled, train_one()


each_banks = pytest.mark.parametrize("banks", KERNELS)


@mostly_slow(
    ("banks", "average", "place", "failure"),
    KERNELS,
    ("quadratic", "decayed:half_life=5", None),
    (100, 231, 299),
    [(infinite, "inf"), (undefined, "nan"), (failing, "has failed")],
    every=4,
)
def test_after_an_error_in_a_round_the_model_is_that_of_rounds(
    banks, average, place, failure, monkeypatch
):
    function, error = failure
    X, y = data()
    y[place] = FAULTY
    states = []

    def train_one():
        model = OnlineMKLRegressor(
            loss=Fault(function), average=average, random_state=0, **KERNELS[banks]
        )
        model.partial_fit(X[BLOCKS[0]], y[BLOCKS[0]])
        expected = ValueError if function is failing else DivergenceError
        with pytest.raises(expected, match=error) as caught:
            model.partial_fit(X[BLOCKS[1]], y[BLOCKS[1]])
        trainer = model.model_.trainer
        if function is not failing:
            assert f"in round {place + 1}, where the loss is {error}" in str(caught.value)
            assert trainer.round == place + 1
        states.append({name: np.array(array) for name, array in trainer.state().items()})
        return model.partial_fit(X[BLOCKS[2]], y[BLOCKS[2]])

    compiled, expected = both_ways(train_one, monkeypatch)
    for name, array in states[0].items():
        assert_array_equal(array, states[1][name], err_msg=name)
    assert_same_model(compiled, expected, X)


def test_a_diverging_model_names_the_same_round(monkeypatch, rng):
    X = [{"size": 1e99 * v} for v in rng.normal(size=400).tolist()]
    y = rng.normal(size=400)
    messages = []

    def train_one():
        model = OnlineMKLRegressor(regularizer=None, learning_rate="constant:eta0=1e50")
        with pytest.raises(DivergenceError) as caught, np.errstate(all="ignore"):
            model.partial_fit(X, y)
        messages.append(str(caught.value))

    both_ways(train_one, monkeypatch)
    assert messages[0] == messages[1]
    assert "round" in messages[0]


@pytest.mark.compiled
@each_banks
@pytest.mark.parametrize("average", ["decayed:half_life=5", None])
def test_ctrl_c_in_a_compiled_call_leaves_a_model_after_whole_rounds(banks, average, ctrl_c):
    X, y = data()
    models = [
        OnlineMKLRegressor(
            loss=Fault(interrupted, round), average=average, random_state=0, **KERNELS[banks]
        )
        for round in (231, 1000)
    ]
    stopped, straight = models
    for model in models:
        model.partial_fit(X[BLOCKS[0]], y[BLOCKS[0]])
    with pytest.raises(KeyboardInterrupt):
        stopped.partial_fit(X[BLOCKS[1]], y[BLOCKS[1]])
    rounds = stopped.model_.trainer.round
    assert 200 <= rounds <= 300
    straight.partial_fit(X[100:rounds], y[100:rounds])
    for model in models:
        model.partial_fit(X[rounds:], y[rounds:])
    state, expected = (model.model_.trainer.state() for model in models)
    assert stopped.model_.trainer.round == straight.model_.trainer.round == 400
    for name in expected.keys() - {"drift/rows"}:  # the interrupted block does not count as read
        assert_array_equal(state[name], expected[name], err_msg=name)


class Stop:
    """Callback that raises an error after some rounds, once."""

    def __init__(self, error, round):
        self.error = error
        self.left = round

    def on_round(self, trainer, step):
        self.left -= step.n_examples
        if self.left == 0:
            raise self.error

    def room(self):
        return self.left if self.left > 0 else 1000


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@each_banks
@pytest.mark.parametrize("kind", ["rows", "sequences"])
def test_a_failing_callback_leaves_the_model_of_rounds(error, banks, kind, monkeypatch):
    X, y = data()
    y = (y > 0.0).astype(int)
    if kind == "sequences":
        X = list(X.reshape(-1, 1, 5).repeat(2, axis=1))
        y = list(y.reshape(-1, 1).repeat(2, axis=1))

    def train_one():
        make = OnlineMKLClassifier if kind == "rows" else SequenceLabeler
        model = make(
            random_state=0,
            callbacks=[Stop(error, 155)],
            **KERNELS[banks],
        )
        model.partial_fit(
            X[BLOCKS[0]],
            y[BLOCKS[0]],
            classes=[0, 1],
        )
        with pytest.raises(error):
            model.partial_fit(X[BLOCKS[1]], y[BLOCKS[1]])
        assert model.model_.trainer.round == 155
        return model.partial_fit(X[155:], y[155:])

    compiled, expected = both_ways(train_one, monkeypatch)
    assert compiled.model_.trainer.round == 400
    assert_same_model(compiled, expected, X)


# ---- memory --------------------------------------------------------------------------------------


class Banks:
    """Callback that remembers the banks, and the tokens of blocks, without holding them."""

    def __init__(self):
        self.references = []

    def on_block(self, trainer, block):
        self.references += [weakref.ref(bank) for bank in trainer.banks]
        self.references.append(weakref.ref(block.examples))


@pytest.mark.parametrize("kernels", [["gaussian", "linear"], ["gaussian:features=8"]], ids=str)
def test_a_trained_model_holds_neither_gram_matrices_nor_examples(kernels):
    X, y = data()
    callback = Banks()
    model = OnlineMKLRegressor(kernels, epochs=2, callbacks=[callback], random_state=0).fit(X, y)
    gc.collect()
    held = [reference() for reference in callback.references]
    banks = [bank for bank in held if bank is not None]
    assert all(bank in model.model_.trainer.banks for bank in banks)


@each_banks
def test_between_calls_a_model_holds_no_input_of_rounds(banks, monkeypatch):
    X, y = data()
    references = []
    make = driver.PackedModel.refresh

    def refresh(self, inputs):
        references.extend(weakref.ref(packed) for packed, _ in inputs)
        return make(self, inputs)

    monkeypatch.setattr(driver.PackedModel, "refresh", refresh)
    model = OnlineMKLRegressor(random_state=0, **KERNELS[banks]).partial_fit(
        X[BLOCKS[0]], y[BLOCKS[0]]
    )
    model.model_.trainer.forget_input()
    gc.collect()
    held = [packed for packed in (reference() for reference in references) if packed is not None]
    assert references
    assert all(len(packed.values[0]) == 0 for packed in held)  # that of no features is shared


def test_both_are_compared():
    X, y = data()
    model = OnlineMKLRegressor(["linear"], random_state=0).partial_fit(X, y)
    other = OnlineMKLRegressor(["linear"], random_state=0).partial_fit(X[:-1], y[:-1])
    with pytest.raises(AssertionError):
        assert_same_state(model.model_.trainer, other.model_.trainer)
