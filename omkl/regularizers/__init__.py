"""Regularizers: convex functions of the vector of group norms, or of coordinates.

They come with their proximity operators.
"""

import lazy_loader

# users name regularizers by strings: their classes must exist
from omkl.regularizers import overlapping, separable, squared_norms  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
