"""Kernels: positive semidefinite functions of two vectors."""

import lazy_loader

# users name kernels by strings: their classes must exist
from omkl.kernels import feature_maps, functions, specs  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
