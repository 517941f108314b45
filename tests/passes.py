"""A trainer's epochs over a list of examples, as tests ask for them."""

from omkl.online import ArraySource, TrainingLoop, serial_pass


def fit(trainer, examples, *, epochs=1, rng=None, callbacks=(), make_pass=serial_pass):
    """Make epochs; returns the history."""
    loop = TrainingLoop(trainer, ArraySource(examples, rng), make_pass=make_pass, callbacks=callbacks)
    return loop.run(epochs)
