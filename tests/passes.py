"""Helpers that train for some epochs, or stop in the middle."""

from omkl.losses import StructuredHinge
from omkl.online import ArraySource, InverseSqrt, OnlineTrainer, TrainingLoop
from omkl.online.training_loop import serial_pass
from omkl.regularizers import SquaredL21


def online_trainer(banks, structure, loss=None, regularizer="mkl", schedule=None, **options):
    """A trainer with the hinge, the squared mixed norm and rates of 1 / sqrt(t), unless others are given."""
    regularizer = SquaredL21() if regularizer == "mkl" else regularizer
    schedule = schedule or InverseSqrt(1.0)
    return OnlineTrainer(banks, structure, loss or StructuredHinge(), regularizer, schedule=schedule, **options)


def fit(trainer, examples, *, epochs=1, rng=None, callbacks=(), make_pass=serial_pass):
    """Make epochs; returns the history."""
    loop = TrainingLoop(trainer, ArraySource(examples, rng), make_pass=make_pass, callbacks=callbacks)
    return loop.run(epochs)


class Killed(BaseException):
    """Raised in place of killing the process."""


class Kill:
    """Callback that raises ``Killed`` after a number of rounds."""

    def __init__(self, rounds):
        self.rounds = rounds

    def on_round(self, trainer, step):
        self.rounds -= 1
        if self.rounds < 0:
            raise Killed
