"""Online training: trainer and training loop, learning rates, averages, callbacks."""

import lazy_loader

# users name schedules and averages by strings: their classes must exist
from omkl.online import averaging, schedules, training_loop  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
