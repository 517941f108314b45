"""Streams, readers of data sets and file formats, and data sets that need no download."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
