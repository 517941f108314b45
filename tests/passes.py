"""Helpers that train for some epochs, or stop in the middle; a regularizer as users write one."""

import numpy as np
from numpy.testing import assert_array_equal

from omkl.losses import StructuredHinge
from omkl.online import ArraySource, InverseSqrt, OnlineTrainer, TrainingLoop
from omkl.online.training_loop import serial_pass
from omkl.regularizers import Regularizer, SquaredL21


def online_trainer(banks, structure, loss=None, regularizer="mkl", schedule=None, **options):
    """A trainer with the hinge, the squared mixed norm and rates of 1 / sqrt(t), unless others are
    given.
    """
    regularizer = SquaredL21() if regularizer == "mkl" else regularizer
    schedule = schedule or InverseSqrt(1.0)
    return OnlineTrainer(
        banks, structure, loss or StructuredHinge(), regularizer, schedule=schedule, **options
    )


def fit(trainer, examples, *, epochs=1, rng=None, callbacks=(), make_pass=serial_pass):
    """Make epochs; returns the history."""
    loop = TrainingLoop(
        trainer, ArraySource(examples, rng), make_pass=make_pass, callbacks=callbacks
    )
    return loop.run(epochs)


def assert_same_state(model, expected):
    """Compare the training states of two estimators bit by bit."""
    state = model.model_.trainer.state()
    expected = expected.model_.trainer.state()
    assert state.keys() == expected.keys()
    for name, array in state.items():
        assert_array_equal(array, expected[name], err_msg=name, strict=True)


class Killed(BaseException):
    """Raised in place of killing the process."""


class Kill:
    """Callback that raises ``Killed`` after a number of rounds."""

    def __init__(self, rounds):
        self.rounds = rounds

    def on_round(self, trainer, step):
        self.rounds -= step.n_examples
        if self.rounds < 0:
            raise Killed

    def room(self):
        """Let compiled passes run up to the end."""
        return self.rounds + 1


class OwnPenalty(Regularizer):
    """A sum over groups of a function of the norm, given with its derivative."""

    separable = True

    def __init__(self, psi, derivative):
        self.psi = psi
        self.derivative = derivative

    def value(self, norms):
        with np.errstate(over="ignore"):
            return float(np.sum(self.psi(np.abs(norms))))

    def slopes(self, norms):
        with np.errstate(over="ignore"):
            return self.derivative(np.asarray(norms, dtype=np.float64))
