"""Losses: functions of potentials (structured), or of one prediction per sample (pointwise)."""

import lazy_loader

# users name losses by strings: their classes must exist
from omkl.losses import pointwise, structured  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
