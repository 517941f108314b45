"""Batch multiple kernel learning, with certificates."""

import lazy_loader

# users name solvers: their classes must exist
from omkl.batch import proximal_gradient  # noqa: F401
from omkl.batch.group_lasso import dal  # noqa: F401
from omkl.batch.mkl import spicy  # noqa: F401
from omkl.batch.wrappers import methods  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
