"""A trainer's epochs over a list of examples, as tests ask for them, and what ends them."""

from omkl.online import ArraySource, TrainingLoop
from omkl.online.training_loop import serial_pass


def fit(trainer, examples, *, epochs=1, rng=None, callbacks=(), make_pass=serial_pass):
    """Make epochs; returns the history."""
    loop = TrainingLoop(trainer, ArraySource(examples, rng), make_pass=make_pass, callbacks=callbacks)
    return loop.run(epochs)


class Killed(BaseException):
    """Stands for the end of a process, of which nothing stays but its files."""


class Kill:
    """Callback that ends everything after so many rounds."""

    def __init__(self, rounds):
        self.rounds = rounds

    def on_round(self, trainer, step):
        self.rounds -= 1
        if self.rounds < 0:
            raise Killed
