"""Structures: the outputs of structured prediction, independent of features and parameters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
